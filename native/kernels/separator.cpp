// Multilevel vertex separators. A separator S between A and B grows from a vertex of the coarsest graph, and is refined on each finer
// graph. A move of v from S to A brings the neighbors of v in B into S:
//
//     |S| falls by  gain(v, A) = |v| - sum { |u| : u beside v, u in B }
//
// The move of the largest gain is made, even if |S| rises for a while; the best state is restored at the end.
// Reference: Fiduccia, Mattheyses, DAC (1982); Ashcraft, Liu, SIAM J. Matrix Anal. Appl. 19 (1998).
#include "separator.hpp"

#include <algorithm>
#include <cstdlib>
#include <tuple>

namespace {

constexpr Row SMALL = 100;   // vertices of the coarsest graph
constexpr double HEAVY = 3;    // the largest weight of a vertex, in units of the mean weight
constexpr double STALLED = 0.95;  // coarsening stops if more than this share of the vertices is left
constexpr int SEEDS = 3;     // random vertices from which it is tried
constexpr int PASSES = 10;    // of refinement on each graph, at most
constexpr Row PATIENCE = 300;  // moves without a better state

class Cut {
  public:
    Cut(const Weighted& graph, std::vector<Side> side, Row most)
        : g_(graph), side_(std::move(side)), most_(most), beside_(2 * side_.size()), moved_(side_.size(), 0) {
        for (Row v = 0; v < Row(side_.size()); v++) size_[side_[v]] += g_.size[v];
    }

    // Grow the left half from this vertex; all other vertices are on the right.
    void grow(Row from) {
        set_side(from, BETWEEN);
        refinement_pass(true);
    }
    void refine() {
        for (int i = 0; i < PASSES && refinement_pass(false); i++) {
        }
    }
    // The state with the least tuple is best: the excess of the halves over the largest size, |S|, and their difference.
    std::tuple<Row, Row, Row> cost() const {
        return {std::max<Row>(0, std::max(size_[LEFT], size_[RIGHT]) - most_), size_[BETWEEN], std::abs(size_[LEFT] - size_[RIGHT])};
    }
    const std::vector<Side>& sides() const { return side_; }

  private:
    struct Move {
        Row v;
        Side from;
    };

    void set_side(Row v, Side side) {
        size_[side_[v]] -= g_.size[v];
        size_[side] += g_.size[v];
        side_[v] = side;
    }
    Row& beside(Row v, int side) { return beside_[2 * size_t(v) + side]; }
    Row gain(Row v, int to) { return g_.size[v] - beside(v, 1 - to); }
    template <class F> void each_neighbor(Row v, F f) {
        for (Index k = g_.graph.starts[v]; k < g_.graph.starts[v + 1]; k++) f(g_.graph.rows[k]);
    }
    // Push (gain, v). An entry whose gain is no longer that of v is stale, and `best` skips it.
    void push_gain(Row v, int to) {
        if (moved_[v] == pass_) return;
        queue_[to].push_back(uint64_t(uint32_t(gain(v, to)) + (uint32_t(1) << 31)) << 32 | uint32_t(v));
        std::push_heap(queue_[to].begin(), queue_[to].end());
    }
    // The vertex of the largest gain, or -1.
    Row best(int to) {
        auto& queue = queue_[to];
        while (!queue.empty()) {
            Row v = Row(uint32_t(queue.front()));
            if (side_[v] == BETWEEN && moved_[v] != pass_ && Row(uint32_t(queue.front() >> 32) - (uint32_t(1) << 31)) == gain(v, to)) return v;
            std::pop_heap(queue.begin(), queue.end());
            queue.pop_back();
        }
        return -1;
    }
    void sum_neighbors(Row v) {
        beside(v, LEFT) = beside(v, RIGHT) = 0;
        each_neighbor(v, [&](Row u) {
            if (side_[u] != BETWEEN) beside(v, side_[u]) += g_.size[u];
        });
    }

    // One pass of Fiduccia and Mattheyses: each vertex moves once at most. True if it found a better state.
    bool refinement_pass(bool grows) {
        grows_ = grows;
        pass_++;
        moves_.clear();
        queue_[LEFT].clear(), queue_[RIGHT].clear();
        Row count = 0;
        for (Row v = 0; v < Row(side_.size()); v++)
            if (side_[v] == BETWEEN) {
                sum_neighbors(v);
                push_gain(v, LEFT);
                if (!grows) push_gain(v, RIGHT);
                count++;
            }
        auto least = cost();
        size_t kept = 0;
        Row patience = std::min(PATIENCE, 20 + 2 * count), left = patience;
        while (left-- > 0 || grows) {
            Row v[2] = {best(LEFT), grows ? -1 : best(RIGHT)};
            for (int to : {LEFT, RIGHT})
                if (v[to] >= 0 && size_[to] + g_.size[v[to]] > most_ && size_[to] >= size_[1 - to]) v[to] = -1;
            if (v[LEFT] < 0 && v[RIGHT] < 0) break;
            int to = v[LEFT] < 0 ? RIGHT : v[RIGHT] < 0 ? LEFT : int(std::make_pair(gain(v[RIGHT], RIGHT), size_[LEFT]) > std::make_pair(gain(v[LEFT], LEFT), size_[RIGHT]));
            move(v[to], Side(to));
            if (auto now = cost(); now < least) {
                least = now;
                kept = moves_.size();
                left = patience;
            }
        }
        for (; moves_.size() > kept; moves_.pop_back()) set_side(moves_.back().v, moves_.back().from);
        return kept > 0;
    }

    void move(Row v, Side to) {
        Side other = Side(1 - to);
        moved_[v] = pass_;
        moves_.push_back({v, BETWEEN});
        set_side(v, to);
        each_neighbor(v, [&](Row u) {
            if (side_[u] == BETWEEN) {
                beside(u, to) += g_.size[v];
                if (!grows_) push_gain(u, other);
            } else if (side_[u] == other) {
                moves_.push_back({u, other});
                set_side(u, BETWEEN);
                sum_neighbors(u);
                push_gain(u, to);
                each_neighbor(u, [&](Row t) {
                    if (side_[t] != BETWEEN || t == u) return;
                    beside(t, other) -= g_.size[u];
                    push_gain(t, to);
                });
            }
        });
    }

    const Weighted& g_;
    std::vector<Side> side_;
    const Row most_;
    Row size_[3] = {0, 0, 0};
    std::vector<Row> beside_;  // of each vertex of S: the sizes of its neighbors left and right
    std::vector<int> moved_;   // in which pass each moved
    int pass_ = 0;
    bool grows_ = false;
    std::vector<Move> moves_;
    std::vector<uint64_t> queue_[2];  // heaps of gains and vertices
};

std::vector<Side> initial_separator(const Weighted& graph, Row most, Draws& draws) {
    Row n = graph.graph.size();
    std::vector<Side> best;
    std::tuple<Row, Row, Row> least;
    for (int i = 0; i < SEEDS; i++) {
        Cut cut(graph, std::vector<Side>(n, RIGHT), most);
        cut.grow(draws.below(n));
        cut.refine();
        if (best.empty() || cut.cost() < least) {
            best = cut.sides();
            least = cut.cost();
        }
    }
    return best;
}

}  // namespace

std::vector<Side> separator(Weighted graph, double share, const std::function<bool()>& should_continue) {
    Draws draws;
    std::vector<Weighted> levels;
    std::vector<std::vector<Row>> group_of;
    levels.push_back(std::move(graph));
    const Row most = Row(share * levels[0].total), heavy = std::max<Row>(2, Row(HEAVY * levels[0].total / SMALL));
    while (levels.back().graph.size() > SMALL) {
        if (!should_continue()) return {};
        std::vector<Row> groups;
        Weighted coarse = contracted(levels.back(), matched(levels.back(), heavy, draws), groups);
        if (coarse.graph.size() > STALLED * levels.back().graph.size()) break;
        levels.push_back(std::move(coarse));
        group_of.push_back(std::move(groups));
    }
    std::vector<Side> side = initial_separator(levels.back(), most, draws);
    for (; !group_of.empty(); group_of.pop_back()) {
        if (!should_continue()) return {};
        levels.pop_back();
        std::vector<Side> fine(group_of.back().size());
        for (size_t v = 0; v < fine.size(); v++) fine[v] = side[group_of.back()[v]];
        Cut cut(levels.back(), std::move(fine), most);
        cut.refine();
        side = cut.sides();
    }
    return side;
}
