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

static bool are_slots(const Row* rows, const Row* cols, Index count) {
    for (Index e = 1; e < count; e++)
        if (cols[e] < cols[e - 1] || (cols[e] == cols[e - 1] && rows[e] <= rows[e - 1])) return false;
    return true;
}

Compressed compressed(Row n, const Row* rows, const Row* cols, Index count, std::vector<Index>& slot) {
    Compressed found;
    found.starts.assign(n + 1, 0);
    slot.clear();
    if (are_slots(rows, cols, count)) {
        found.rows.assign(rows, rows + count);
        for (Index e = 0; e < count; e++) found.starts[cols[e] + 1]++;
    } else {
        std::vector<Index> places(count);
        std::iota(places.begin(), places.end(), Index(0));
        places = sorted(cols, sorted(rows, places, n), n);
        slot.resize(count);
        for (Index k = 0; k < count; k++) {
            Index e = places[k], before = k ? places[k - 1] : e;
            if (k == 0 || rows[e] != rows[before] || cols[e] != cols[before]) {
                found.rows.push_back(rows[e]);
                found.starts[cols[e] + 1]++;
            }
            slot[e] = Index(found.rows.size()) - 1;
        }
    }
    std::partial_sum(found.starts.begin(), found.starts.end(), found.starts.begin());
    return found;
}

void EntryPattern::find_diagonal() {
    const Compressed& a = columns();
    for (Row c = 0; c < a.size(); c++)
        for (Index s = a.starts[c]; s < a.starts[c + 1]; s++)
            if (a.rows[s] == c) diagonal.push_back(s);
    if (Row(diagonal.size()) < a.size()) diagonal.clear();
}
