// A maximum matching of rows and columns, block triangular form by strongly connected components, and one minimum degree ordering of
// B + B^T for all diagonal blocks B (as KLU does).
// Reference: Davis, Palamadai Natarajan, ACM Trans. Math. Softw. 37 (2010).
#include "lu_analysis.hpp"

#include <algorithm>
#include <numeric>

#include "adjacency.hpp"
#include "amd.hpp"
#include "blocks.hpp"

int sign_of(const std::vector<Row>& order) {
    std::vector<char> seen(order.size(), 0);
    int sign = 1;
    for (size_t i = 0; i < order.size(); i++)
        for (size_t j = order[i]; !seen[i] && j != i; j = order[j]) {
            seen[j] = 1;
            sign = -sign;
        }
    return sign;
}

LuAnalysis::LuAnalysis(Compressed given) : n(given.size()), columns(std::move(given)), entries(0), operations(0) {
    std::vector<Row> row_of = matching(columns);
    is_singular = std::find(row_of.begin(), row_of.end(), -1) != row_of.end();
    if (is_singular) return;
    arrange(row_of);
    split();
}

void LuAnalysis::arrange(const std::vector<Row>& row_of) {
    Row blocks = 0;
    std::vector<Row> block = strong_blocks(columns, row_of, &blocks), column_of(n);
    for (Row j = 0; j < n; j++) column_of[row_of[j]] = j;
    Ordering found = amd(symmetric_blocks(columns, column_of, block));
    entries = found.entries;
    operations = found.operations;
    block_start.assign(blocks + 1, 0);
    for (Row j = 0; j < n; j++) block_start[block[j] + 1]++;
    std::partial_sum(block_start.begin(), block_start.end(), block_start.begin());
    std::vector<Row> at(block_start.begin(), block_start.end() - 1);
    column_at.resize(n);
    row_at.resize(n);
    for (Row j : found.order) {
        Row place = at[block[j]]++;
        column_at[place] = j;
        row_at[place] = row_of[j];
    }
}

void LuAnalysis::split() {
    std::vector<Row> place_of(n);
    for (Row k = 0; k < n; k++) place_of[row_at[k]] = k;
    inside.starts.assign(1, 0);
    above.starts.assign(1, 0);
    for (size_t b = 0; b + 1 < block_start.size(); b++)
        for (Row k = block_start[b]; k < block_start[b + 1]; k++) {
            Row j = column_at[k];
            for (Index s = columns.starts[j]; s < columns.starts[j + 1]; s++) {
                Row place = place_of[columns.rows[s]];
                bool is_inside = place >= block_start[b];
                (is_inside ? inside : above).rows.push_back(place);
                (is_inside ? inside_slot : above_slot).push_back(s);
            }
            inside.starts.push_back(Index(inside.rows.size()));
            above.starts.push_back(Index(above.rows.size()));
        }
}

size_t LuAnalysis::nbytes() const {
    size_t rows = columns.rows.size() + inside.rows.size() + above.rows.size() + row_at.size() + column_at.size() + block_start.size();
    size_t places = columns.starts.size() + inside.starts.size() + above.starts.size() + inside_slot.size() + above_slot.size();
    return rows * sizeof(Row) + places * sizeof(Index);
}

int LuAnalysis::sign() const { return sign_of(row_at) * sign_of(column_at); }
