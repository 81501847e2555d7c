#include "adjacency.hpp"

#include <numeric>

Compressed symmetric_blocks(const Compressed& a, const std::vector<Row>& column_of, const std::vector<Row>& block) {
    Row n = a.size();
    Compressed both;
    both.starts.assign(n + 1, 0);
    auto each = [&](auto f) {
        for (Row j = 0; j < n; j++)
            for (Index k = a.starts[j]; k < a.starts[j + 1]; k++) {
                Row i = column_of[a.rows[k]];
                if (i != j && block[i] == block[j]) f(i, j);
            }
    };
    each([&](Row i, Row j) {
        both.starts[i + 1]++;
        both.starts[j + 1]++;
    });
    std::partial_sum(both.starts.begin(), both.starts.end(), both.starts.begin());
    std::vector<Index> at(both.starts.begin(), both.starts.end() - 1);
    both.rows.resize(both.starts[n]);
    each([&](Row i, Row j) {
        both.rows[at[i]++] = j;
        both.rows[at[j]++] = i;
    });
    // each once
    std::vector<Row> seen(n, -1);
    Index to = 0;
    for (Row j = 0; j < n; j++) {
        Index start = both.starts[j], end = both.starts[j + 1];
        both.starts[j] = to;
        for (Index k = start; k < end; k++)
            if (seen[both.rows[k]] != j) {
                seen[both.rows[k]] = j;
                both.rows[to++] = both.rows[k];
            }
    }
    both.starts[n] = to;
    both.rows.resize(to);
    return both;
}
