// Multilevel vertex separators. A separator S between A and B grows from a vertex of the coarsest graph, and is refined on each finer
// graph. A move of v from S to A brings the neighbors of v in B into S:
//
//     |S| falls by  gain(v) = |v| - sum { |u| : u beside v, u in B }
//
// Each pass moves S toward one side, the largest gain first, even if |S| rises for long, as it does while a plane moves to the next one.
// The best state is restored at the end.
// Reference: Fiduccia, Mattheyses, DAC (1982); Ashcraft, Liu, SIAM J. Matrix Anal. Appl. 19 (1998).
#include "separator.hpp"

#include <algorithm>
#include <cstdlib>
#include <tuple>

namespace {

constexpr Row SMALL = 100;   // vertices of the coarsest graph
constexpr double HEAVY = 3;    // the largest weight of a vertex, in units of the mean weight
constexpr double STALLED = 0.95;  // coarsening stops if more than this share of the vertices is left
constexpr int SEEDS = 5;     // random vertices from which it is tried
constexpr int PASSES = 4;     // of refinement on each graph, at most
constexpr Index PATIENCE = 8;  // moves without a better state, in units of |S|

class Cut {
  public:
    Cut(const Weighted& graph, std::vector<Side> side, Row most) : g_(graph), side_(std::move(side)), most_(most), beyond_(side_.size()) {
        for (Row v = 0; v < Row(side_.size()); v++) {
            size_[side_[v]] += g_.size[v];
            if (side_[v] == BETWEEN) separator_.push_back(v);
        }
    }

    // Grow the left half from this vertex; all other vertices are on the right.
    void grow(Row from) {
        set_side(from, BETWEEN);
        separator_.push_back(from);
        refinement_pass(LEFT);
    }
    void refine() {
        Side to = size_[LEFT] < size_[RIGHT] ? LEFT : RIGHT;
        for (int i = 0, failed = 0; i < PASSES && failed < 2; i++, to = Side(1 - to)) failed = refinement_pass(to) ? 0 : failed + 1;
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
    Row gain(Row v) const { return g_.size[v] - beyond_[v]; }
    template <class F> void each_neighbor(Row v, F f) {
        for (Index k = g_.graph.starts[v]; k < g_.graph.starts[v + 1]; k++) f(g_.graph.rows[k]);
    }
    // Push (gain, v). The gain of v only grows in a pass: `best` skips entries of a smaller one, which are stale.
    void push_gain(Row v) {
        queue_.push_back(uint64_t(uint32_t(gain(v)) + (uint32_t(1) << 31)) << 32 | uint32_t(v));
        std::push_heap(queue_.begin(), queue_.end());
    }
    // The vertex of the largest gain, or -1.
    Row best() {
        while (!queue_.empty()) {
            Row v = Row(uint32_t(queue_.front())), its_gain = Row(uint32_t(queue_.front() >> 32) - (uint32_t(1) << 31));
            if (side_[v] == BETWEEN && its_gain == gain(v)) return v;
            std::pop_heap(queue_.begin(), queue_.end());
            queue_.pop_back();
        }
        return -1;
    }
    void enter(Row v, Side other) {
        beyond_[v] = 0;
        each_neighbor(v, [&](Row u) {
            if (side_[u] == other) beyond_[v] += g_.size[u];
        });
        push_gain(v);
    }

    // One pass of Fiduccia and Mattheyses: each vertex moves to this side once at most. True if it found a better state.
    bool refinement_pass(Side to) {
        const Side other = Side(1 - to);
        moves_.clear();
        queue_.clear();
        for (Row v : separator_) enter(v, other);
        auto least = cost();
        size_t kept = 0;
        const Index patience = std::max<Index>(SMALL, PATIENCE * Index(separator_.size()));
        Index left = patience;
        for (Row v; left-- > 0 && (v = best()) >= 0 && (size_[to] + g_.size[v] <= most_ || size_[to] < size_[other]);) {
            move(v, to, other);
            if (auto now = cost(); now < least) {
                least = now;
                kept = moves_.size();
                left = patience;
            }
        }
        for (; moves_.size() > kept; moves_.pop_back()) set_side(moves_.back().v, moves_.back().from);
        separator_.erase(std::remove_if(separator_.begin(), separator_.end(), [&](Row v) { return side_[v] != BETWEEN; }), separator_.end());
        return kept > 0;
    }

    void move(Row v, Side to, Side other) {
        moves_.push_back({v, BETWEEN});
        set_side(v, to);
        each_neighbor(v, [&](Row u) {
            if (side_[u] != other) return;
            moves_.push_back({u, other});
            set_side(u, BETWEEN);
            separator_.push_back(u);
            enter(u, other);
            each_neighbor(u, [&](Row t) {
                if (side_[t] != BETWEEN || t == u) return;
                beyond_[t] -= g_.size[u];
                push_gain(t);
            });
        });
    }

    const Weighted& g_;
    std::vector<Side> side_;
    const Row most_;
    Row size_[3] = {0, 0, 0};
    std::vector<Row> beyond_;     // of each vertex of S: the sizes of its neighbors on the other side
    std::vector<Row> separator_;  // S, and between two moves what has left it
    std::vector<Move> moves_;
    std::vector<uint64_t> queue_;  // a heap of gains and vertices
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
