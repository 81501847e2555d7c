// Graphs with weights on vertices and edges, and coarser graphs, in which vertices are contracted along their heaviest edges.
#pragma once
#include "compressed.hpp"

struct Weighted {
    Compressed graph;             // symmetric, without loops
    std::vector<Row> size, edge;  // how many vertices each stands for, and edges; no `edge`: one each
    Row total = 0;                // of all sizes

    Row size_of_edge(Index k) const { return edge.empty() ? 1 : edge[k]; }
};

// The same numbers on every machine: a linear congruence, of which the upper bits are taken (Knuth).
class Draws {
  public:
    Row below(Row bound) {
        state_ = state_ * 6364136223846793005u + 1442695040888963407u;
        return Row((state_ >> 33) * uint64_t(bound) >> 31);
    }

  private:
    uint64_t state_ = 1;
};

// The graph whose vertices are groups, each known by one of its vertices, and the group of each vertex.
Weighted contracted(const Weighted& fine, const std::vector<Row>& leader, std::vector<Row>& group_of);
// A matching: groups of neighbors whose weights add up to at most `most`.
std::vector<Row> matched(const Weighted& fine, Row most, Draws& draws);
