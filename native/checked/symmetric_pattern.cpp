#include "symmetric_pattern.hpp"

#include <numeric>

SymmetricPattern::SymmetricPattern(char kind, Row n, const Row* i, const Row* j, Index count) : EntryPattern({}, {i, i + count}, {j, j + count}), kind(kind) {
    columns_ = compressed(n, i, j, count, slot);
    if (!find_mirror()) {
        std::vector<Row> both_rows(rows), both_cols(cols);
        both_rows.insert(both_rows.end(), cols.begin(), cols.end());
        both_cols.insert(both_cols.end(), rows.begin(), rows.end());
        columns_ = compressed(n, both_rows.data(), both_cols.data(), 2 * count, slot);
        slot.resize(slot.empty() ? 0 : count);
        find_mirror();
    }
    find_diagonal();
}

// Does each slot have a mirror image? Columns are sorted: slots (i, j) come up in the order in which column i has its rows j.
bool SymmetricPattern::find_mirror() {
    std::vector<Index> next(columns_.starts.begin(), columns_.starts.end() - 1);
    mirror.resize(columns_.rows.size());
    for (Row c = 0; c < columns_.size(); c++)
        for (Index s = columns_.starts[c]; s < columns_.starts[c + 1]; s++) {
            const Row r = columns_.rows[s];
            if (next[r] == columns_.starts[r + 1] || columns_.rows[next[r]] != c) return false;
            mirror[s] = next[r]++;
        }
    return true;
}

SymmetricPattern::SymmetricPattern(char kind, Row n, const Row* i, const Row* j, Index count, const Row* order) : SymmetricPattern(kind, n, i, j, count) {
    auto made = std::make_shared<Fronts>(columns_, Indices(order, order + n));
    const Indices places = inverse(made->order);
    place.assign(places.begin(), places.end());
    made->locate(arranged());
    fronts = std::move(made);
}

SymmetricPattern::SymmetricPattern(char kind, Row n, const Row* i, const Row* j, Index count, std::shared_ptr<const Fronts> given, std::vector<Row> places) : SymmetricPattern(kind, n, i, j, count) {
    fronts = std::move(given);
    place = std::move(places);
    const Compressed own = arranged();
    if (own.starts != fronts->slot_starts) throw std::invalid_argument("fronts: expected those of the pattern of the entries");
}

Compressed SymmetricPattern::arranged() {
    const Row n = columns_.size();
    Compressed found;
    found.starts.assign(n + 1, 0);
    std::vector<Row> order(n, -1);
    for (Row c = 0; c < n; c++) {
        if (order[place[c]] != -1) throw std::invalid_argument("place: expected a permutation");
        order[place[c]] = c;
        found.starts[place[c] + 1] = columns_.starts[c + 1] - columns_.starts[c];
    }
    std::partial_sum(found.starts.begin(), found.starts.end(), found.starts.begin());
    std::vector<Index> next(found.starts.begin(), found.starts.end() - 1);
    found.rows.resize(columns_.rows.size());
    permuted.resize(columns_.rows.size());
    bool are_same = true;
    // row by row, so that each column gets its rows in their order
    for (Row k = 0; k < n; k++)
        for (Index s = columns_.starts[order[k]]; s < columns_.starts[order[k] + 1]; s++) {
            const Index from = mirror[s], to = next[place[columns_.rows[s]]]++;
            found.rows[to] = k;
            permuted[from] = to;
            are_same = are_same && from == to;
        }
    if (are_same) permuted.clear();
    return found;
}

size_t SymmetricPattern::nbytes() const {
    return EntryPattern::nbytes() + fronts->nbytes() + (mirror.size() + permuted.size() + columns_.starts.size()) * sizeof(Index) + (place.size() + columns_.rows.size()) * sizeof(Row);
}
