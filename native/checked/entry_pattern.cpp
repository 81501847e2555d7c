// Entries are sorted by column, then by row; those with one position share its slot.
#include "entry_pattern.hpp"

#include <numeric>

// places[k]: the entries in the order of their keys, those that are equal as they come.
static std::vector<Index> sorted(const Row* keys, const std::vector<Index>& places, Row n) {
    std::vector<Index> start(n + 1, 0), found(places.size());
    for (Index e : places) start[keys[e] + 1]++;
    std::partial_sum(start.begin(), start.end(), start.begin());
    for (Index e : places) found[start[keys[e]]++] = e;
    return found;
}

Compressed compressed(Row n, const Row* rows, const Row* cols, Index count, std::vector<Index>& slot) {
    std::vector<Index> places(count);
    std::iota(places.begin(), places.end(), Index(0));
    places = sorted(cols, sorted(rows, places, n), n);
    Compressed found;
    found.starts.assign(n + 1, 0);
    slot.resize(count);
    bool in_order = true;
    for (Index k = 0; k < count; k++) {
        Index e = places[k], before = k ? places[k - 1] : e;
        if (k == 0 || rows[e] != rows[before] || cols[e] != cols[before]) {
            found.rows.push_back(rows[e]);
            found.starts[cols[e] + 1]++;
        }
        slot[e] = Index(found.rows.size()) - 1;
        in_order = in_order && slot[e] == e;
    }
    std::partial_sum(found.starts.begin(), found.starts.end(), found.starts.begin());
    if (in_order) slot.clear();
    return found;
}

void EntryPattern::find_diagonal() {
    const Compressed& a = columns();
    for (Row c = 0; c < a.size(); c++)
        for (Index s = a.starts[c]; s < a.starts[c + 1]; s++)
            if (a.rows[s] == c) diagonal.push_back(s);
    if (Row(diagonal.size()) < a.size()) diagonal.clear();
}
