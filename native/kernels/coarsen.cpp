// Heavy-edge matching: each vertex is matched with its free neighbor of the heaviest edge. A vertex without a free neighbor, such as a leaf
// of a star, joins the pair of its heaviest edge. Weights of edges between two groups add up, so that a separator avoids heavy edges.
// Reference: Karypis, Kumar, SIAM J. Sci. Comput. 20 (1998).
#include "coarsen.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace {

constexpr Row FREE = -1;
constexpr Row LATER = 8;  // places by which a vertex may come after its turn, at most: neighbors in memory are visited together

// The neighbor of v with the heaviest edge among those that `allows`, or FREE.
template <class Allows> Row heaviest(const Weighted& fine, Row v, Allows allows) {
    const Compressed& g = fine.graph;
    Row best = FREE, weight = 0;
    for (Index k = g.starts[v]; k < g.starts[v + 1]; k++)
        if (fine.size_of_edge(k) > weight && allows(g.rows[k])) {
            best = g.rows[k];
            weight = fine.size_of_edge(k);
        }
    return best;
}

}  // namespace

std::vector<Row> matched(const Weighted& fine, Row most, Draws& draws) {
    Row n = fine.graph.size();
    std::vector<Row> order(n), leader(n, FREE), size = fine.size;
    std::iota(order.begin(), order.end(), 0);
    for (Row i = n - 1; i > 0; i--) std::swap(order[i], order[i - draws.below(std::min(i, LATER) + 1)]);
    for (Row v : order) {
        if (leader[v] != FREE) continue;
        Row u = heaviest(fine, v, [&](Row w) { return leader[w] == FREE && size[w] + size[v] <= most; });
        if (u == FREE) u = heaviest(fine, v, [&](Row w) { return leader[w] != FREE && size[leader[w]] + size[v] <= most; });
        Row to = u == FREE ? v : leader[u] == FREE ? u : leader[u];
        leader[v] = leader[to] = to;
        if (to != v) size[to] += size[v];
    }
    return leader;
}

Weighted contracted(const Weighted& fine, const std::vector<Row>& leader, std::vector<Row>& group_of) {
    const Compressed& g = fine.graph;
    Row n = g.size(), count = 0;
    std::vector<Row> first, last, next(n, FREE);  // the members of each group, as a chain
    group_of.assign(n, FREE);
    for (Row v = 0; v < n; v++) {
        Row& group = group_of[leader[v]];
        if (group == FREE) {
            group = count++;
            first.push_back(v);
            last.push_back(v);
        } else {
            last[group] = next[last[group]] = v;
        }
        group_of[v] = group;
    }
    Weighted coarse;
    coarse.total = fine.total;
    coarse.size.assign(count, 0);
    coarse.graph.starts.assign(1, 0);
    coarse.graph.rows.reserve(g.rows.size());
    coarse.edge.reserve(g.rows.size());
    std::vector<Index> place(count, -1);  // of the edge to each group, where there is one
    for (Row c = 0; c < count; c++) {
        Index start = Index(coarse.graph.rows.size());
        for (Row v = first[c]; v != FREE; v = next[v]) {
            coarse.size[c] += fine.size[v];
            for (Index k = g.starts[v]; k < g.starts[v + 1]; k++) {
                Row d = group_of[g.rows[k]];
                if (d == c) continue;
                if (place[d] < start) {
                    place[d] = Index(coarse.graph.rows.size());
                    coarse.graph.rows.push_back(d);
                    coarse.edge.push_back(0);
                }
                coarse.edge[place[d]] += fine.size_of_edge(k);
            }
        }
        coarse.graph.starts.push_back(Index(coarse.graph.rows.size()));
    }
    return coarse;
}
