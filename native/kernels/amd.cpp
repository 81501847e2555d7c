// Approximate minimum degree: eliminate a vertex p of least degree. All neighbors of p become adjacent; one list, the element L_p, stores them:
//
//     L_p = (A_p + union of L_e for the elements e beside p) - p,      d_i <= |A_i - i| + |L_p - i| + sum_e |L_e - L_p|
//
// Indistinguishable vertices, which have the same neighbors, are merged into one with a weight. The bound counts vertices that several
// elements share more than once. One pass over the elements that L_p meets computes all |L_e - L_p| (approximate degrees).
// Reference: Amestoy, Davis, Duff, SIAM J. Matrix Anal. Appl. 17 (1996).
#include "amd.hpp"

#include <cmath>
#include <numeric>
#include <utility>

namespace {

constexpr Row NONE = -1;

// Vertices by their degrees, in doubly linked lists.
class Buckets {
  public:
    Buckets(Row n, Row degrees) : first_(degrees, NONE), next_(n, NONE), before_(n, NONE) {}
    void put(Row i, Row degree) {
        Row& first = first_[degree];
        next_[i] = first;
        before_[i] = NONE;
        if (first != NONE) before_[first] = i;
        first = i;
        least_ = std::min(least_, degree);
    }
    void take(Row i, Row degree) {
        (before_[i] == NONE ? first_[degree] : next_[before_[i]]) = next_[i];
        if (next_[i] != NONE) before_[next_[i]] = before_[i];
    }
    // Remove a vertex of minimum degree and return it.
    Row pop_minimum() {
        while (first_[least_] == NONE) least_++;
        Row i = first_[least_];
        take(i, least_);
        return i;
    }

  private:
    std::vector<Row> first_, next_, before_;
    Row least_ = 0;
};

class Elimination {
  public:
    Elimination(const Compressed& graph, Row own, const std::vector<Row>& size)
        : n_(graph.size()), own_(own), pool_(graph.rows), begin_(graph.starts.begin(), graph.starts.end() - 1), length_(n_),
          elements_(n_), weight_(size), degree_(n_), stamp_(n_, 0), hash_next_(n_, NONE), hash_first_(n_, NONE), last_merged_(n_), next_merged_(n_, NONE),
          state_(n_, State::vertex),
          buckets_(own, std::accumulate(size.begin(), size.end(), Row(1))) {
        pool_.reserve(pool_.size() + pool_.size() / 4 + n_);
        for (Row i = 0; i < n_; i++) {
            length_[i] = Row(graph.starts[i + 1] - graph.starts[i]);
            for (Index k = graph.starts[i]; k < graph.starts[i + 1]; k++) degree_[i] += size[graph.rows[k]];
            last_merged_[i] = i;
        }
    }

    Ordering run() {
        remove_dense_rows();
        for (Row i = 0; i < own_; i++)
            if (state_[i] == State::vertex) buckets_.put(i, degree_[i]);
        found_.order.reserve(n_);
        while (remaining_ > halo_) eliminate(buckets_.pop_minimum());
        // dense rows come last; each is counted as full
        count_pivots(dense_weight_, 0);
        found_.order.insert(found_.order.end(), dense_rows_.begin(), dense_rows_.end());
        return std::move(found_);
    }

  private:
    enum class State : char { vertex, element, dead };

    void remove_dense_rows() {
        const double most = dense_row_limit(std::accumulate(weight_.begin(), weight_.end(), Index(0)));
        for (Row i = 0; i < n_; i++) {
            if (degree_[i] > most) {
                state_[i] = State::dead;
                dense_weight_ += std::exchange(weight_[i], 0);
                if (i < own_) dense_rows_.push_back(i);
            }
            remaining_ += weight_[i];
            if (i >= own_) halo_ += weight_[i];
        }
    }

    void eliminate(Row p) {
        if (pool_.size() + size_t(std::min(remaining_, n_)) > pool_.capacity()) compact();
        form_element(p);
        count_outside(p);
        Row own = update_degrees(p);  // the pivots: p, and vertices whose neighbors are all in L_p
        remaining_ -= own;
        merge_indistinguishable();
        finalize_element(p);
        count_pivots(own, degree_[p] + dense_weight_);
        for (Row i = p; i != NONE; i = next_merged_[i]) found_.order.push_back(i);
    }

    // Write L_p to the end of the pool. Weights of its members are negative until `finalize_element`.
    void form_element(Row p) {
        Index start = Index(pool_.size());
        Row size = 0;
        Index at = begin_[p];
        Row of_elements = elements_[p], all = length_[p];
        weight_[p] = -weight_[p];
        auto add = [&](Row i) {
            if (weight_[i] <= 0) return;
            size += weight_[i];
            weight_[i] = -weight_[i];
            if (i < own_) buckets_.take(i, degree_[i]);
            pool_.push_back(i);
        };
        for (Row k = 0; k < of_elements; k++) {
            Row e = pool_[at + k];
            if (state_[e] != State::element) continue;
            for (Row t = 0; t < length_[e]; t++) add(pool_[begin_[e] + t]);
            state_[e] = State::dead;
        }
        for (Row k = of_elements; k < all; k++) add(pool_[at + k]);
        state_[p] = State::element;
        begin_[p] = start;
        length_[p] = Row(Index(pool_.size()) - start);
        elements_[p] = 0;
        degree_[p] = size;
    }

    // stamp_[e] - base_ = |L_e - L_p| of each element e that has a member in common with L_p.
    void count_outside(Row p) {
        base_ = next_stamp_;
        next_stamp_ += Index(n_) + 1;
        for (Row t = 0; t < length_[p]; t++) {
            Row i = pool_[begin_[p] + t];
            for (Row k = 0; k < elements_[i]; k++) {
                Row e = pool_[begin_[i] + k];
                if (state_[e] != State::element) continue;
                if (stamp_[e] < base_) stamp_[e] = base_ + degree_[e];
                stamp_[e] += weight_[i];  // weights of members of L_p are negative
            }
        }
    }

    // d_i of each i in L_p, by the bound above. Return the number of pivots that p stands for.
    Row update_degrees(Row p) {
        Row own = -weight_[p];
        hashes_.clear();
        for (Row t = 0; t < length_[p]; t++) {
            Row i = pool_[begin_[p] + t];
            Index at = begin_[i], to = at;
            Row of_elements = elements_[i], all = length_[i];
            Index degree = 0;
            uint64_t hash = 0;
            kept_.clear();
            for (Row k = 0; k < of_elements; k++) {
                Row e = pool_[at + k];
                if (state_[e] != State::element) continue;
                Index outside = stamp_[e] - base_;
                if (outside == 0) {  // absorbed: L_e is a subset of L_p
                    state_[e] = State::dead;
                    continue;
                }
                degree += outside;
                hash += uint64_t(e);
                kept_.push_back(e);
            }
            size_t count = kept_.size();
            for (Row k = of_elements; k < all; k++) {
                Row j = pool_[at + k];
                if (weight_[j] <= 0) continue;  // dead, or in L_p
                degree += weight_[j];
                hash += uint64_t(j);
                kept_.push_back(j);
            }
            if (degree == 0 && i < own_) {
                own -= weight_[i];
                degree_[p] += weight_[i];
                merge(i, p);
                continue;
            }
            pool_[to++] = p;  // replaces p, or an element that L_p absorbed
            for (Row e : kept_) pool_[to++] = e;
            elements_[i] = Row(count) + 1;
            length_[i] = Row(to - at);
            degree_[i] = Row(std::min<Index>(degree_[i], degree));
            hashes_.emplace_back(i, Row((hash + uint64_t(p)) % uint64_t(n_)));
        }
        return own;
    }

    // Merge members of L_p that have the same neighbors, found by a hash of them.
    void merge_indistinguishable() {
        for (auto [i, h] : hashes_) {
            hash_next_[i] = hash_first_[h];
            hash_first_[h] = i;
        }
        for (auto [start, h] : hashes_) {
            Row i = hash_first_[h];
            hash_first_[h] = NONE;
            for (; i != NONE; i = hash_next_[i]) {
                if (weight_[i] == 0 || hash_next_[i] == NONE) continue;
                Index stamp = next_stamp_++;
                for (Row k = 1; k < length_[i]; k++) stamp_[pool_[begin_[i] + k]] = stamp;
                Row before = i;
                for (Row j = hash_next_[i]; j != NONE; j = hash_next_[j]) {
                    bool same = length_[j] == length_[i] && elements_[j] == elements_[i] && (j < own_) == (i < own_);
                    for (Row k = 1; same && k < length_[j]; k++) same = stamp_[pool_[begin_[j] + k]] == stamp;
                    if (!same) {
                        before = j;
                        continue;
                    }
                    weight_[i] += weight_[j];
                    merge(j, i);
                    hash_next_[before] = hash_next_[j];
                }
            }
        }
    }

    // Drop dead vertices from L_p, and put the others back into the buckets by their new degrees.
    void finalize_element(Row p) {
        Index at = begin_[p], to = at;
        for (Row t = 0; t < length_[p]; t++) {
            Row i = pool_[at + t];
            if (weight_[i] == 0) continue;
            Row w = weight_[i] = -weight_[i];
            Index degree = Index(degree_[i]) + degree_[p] - w;
            degree_[i] = Row(std::min<Index>(degree, std::max<Index>(0, remaining_ - w)));
            if (i < own_) buckets_.put(i, degree_[i]);
            pool_[to++] = i;
        }
        length_[p] = Row(to - at);
        pool_.resize(to);
        if (length_[p] == 0) state_[p] = State::dead;
    }

    // Merge j into i: it is eliminated right after i.
    void merge(Row j, Row i) {
        next_merged_[last_merged_[i]] = j;
        last_merged_[i] = last_merged_[j];
        weight_[j] = 0;
        state_[j] = State::dead;
    }

    // Garbage collection: move the lists of all vertices and elements that are not dead to the front of the pool.
    void compact() {
        std::vector<Row> pool;
        size_t size = 0;
        for (Row i = 0; i < n_; i++)
            if (state_[i] != State::dead) size += size_t(length_[i]);
        pool.reserve(size + size / 4 + size_t(n_));
        for (Row i = 0; i < n_; i++) {
            if (state_[i] == State::dead) continue;
            Index start = Index(pool.size());
            pool.insert(pool.end(), pool_.begin() + begin_[i], pool_.begin() + begin_[i] + length_[i]);
            begin_[i] = start;
        }
        pool_.swap(pool);
    }

    // Add `count` pivots in sequence, with `neighbors` rows below each:  sum_k (d + k)  entries and  sum_k (d + k)^2  multiplications.
    void count_pivots(Row count, Row neighbors) {
        double v = count, d = neighbors, sum = v * d + v * (v - 1) / 2;
        double squares = v * d * d + d * v * (v - 1) + (v - 1) * v * (2 * v - 1) / 6;
        found_.entries += 2 * sum + v;
        found_.operations += sum + 2 * squares;
    }

    const Row n_, own_;
    Row remaining_ = 0, halo_ = 0, dense_weight_ = 0;  // weights: of the graph that remains; of vertices that are ordered later; of dense rows
    std::vector<Row> pool_;  // of each vertex its elements, then its neighbors; of each element its members
    std::vector<Index> begin_;
    std::vector<Row> length_, elements_, weight_, degree_;  // |weight| vertices are one; the degree of an element is |L_e|
    std::vector<Index> stamp_;
    Index base_ = 0, next_stamp_ = 1;
    std::vector<Row> hash_next_, hash_first_, last_merged_, next_merged_, dense_rows_, kept_;
    std::vector<std::pair<Row, Row>> hashes_;
    std::vector<State> state_;
    Buckets buckets_;
    Ordering found_;
};

}  // namespace

Ordering amd(const Compressed& graph, Row own, const std::vector<Row>& size) {
    if (own == 0) return {};
    return Elimination(graph, own, size).run();
}

Ordering amd(const Compressed& graph) { return amd(graph, graph.size(), std::vector<Row>(graph.size(), 1)); }
