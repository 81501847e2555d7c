#include "symmetric_pattern.hpp"

SymmetricPattern::SymmetricPattern(char kind, Row n, const Row* i, const Row* j, Index count) : EntryPattern({}, {i, i + count}, {j, j + count}), kind(kind) {
    std::vector<Row> both_rows(rows), both_cols(cols);
    both_rows.insert(both_rows.end(), cols.begin(), cols.end());
    both_cols.insert(both_cols.end(), rows.begin(), rows.end());
    columns_ = compressed(n, both_rows.data(), both_cols.data(), 2 * count, slot);
    slot.resize(slot.empty() ? 0 : count);
    find_diagonal();
    // columns are sorted: slots (i, j) come up in the order in which column i has its rows j
    std::vector<Index> next(columns_.starts.begin(), columns_.starts.end() - 1);
    mirror.resize(columns_.rows.size());
    for (Row c = 0; c < n; c++)
        for (Index s = columns_.starts[c]; s < columns_.starts[c + 1]; s++) mirror[s] = next[columns_.rows[s]]++;
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
    std::vector<Row> to_rows, to_cols;
    for (Row c = 0; c < columns_.size(); c++)
        for (Index s = columns_.starts[c]; s < columns_.starts[c + 1]; s++) {
            to_rows.push_back(place[columns_.rows[s]]);
            to_cols.push_back(place[c]);
        }
    return compressed(columns_.size(), to_rows.data(), to_cols.data(), Index(to_rows.size()), permuted);
}

size_t SymmetricPattern::nbytes() const {
    return EntryPattern::nbytes() + fronts->nbytes() + (mirror.size() + permuted.size() + columns_.starts.size()) * sizeof(Index) + (place.size() + columns_.rows.size()) * sizeof(Row);
}
