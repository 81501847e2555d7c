// A maximum matching by augmenting paths in phases, and strongly connected components by one depth-first search.
// References: Pothen, Fan, ACM Trans. Math. Softw. 16 (1990); Duff, Kaya, Ucar, ACM Trans. Math. Softw. 38 (2011);
// Tarjan, SIAM J. Comput. 1 (1972).
#include "blocks.hpp"

#include <algorithm>

namespace {

constexpr Row NONE = -1;

class Matching {
  public:
    explicit Matching(const Compressed& a)
        : a_(a), n_(a.size()), row_of_(n_, NONE), column_of_(n_, NONE), lookahead_(a.starts.begin(), a.starts.end() - 1), at_(n_), seen_(n_, NONE) {}

    std::vector<Row> run() {
        take_diagonal();
        // the paths of one phase are disjoint: each row is visited once
        std::vector<Row> free;
        for (Row j = 0; j < n_; j++)
            if (row_of_[j] == NONE) free.push_back(j);
        for (Row phase = 0; !free.empty(); phase++) {
            size_t before = free.size();
            free.erase(std::remove_if(free.begin(), free.end(), [&](Row j) { return augment(j, phase); }), free.end());
            if (free.size() == before) break;
        }
        return row_of_;
    }

  private:
    void match(Row j, Row i) {
        row_of_[j] = i;
        column_of_[i] = j;
    }

    void take_diagonal() {
        for (Row j = 0; j < n_; j++)
            for (Index k = a_.starts[j]; k < a_.starts[j + 1]; k++)
                if (a_.rows[k] == j) match(j, j);
    }

    // Lookahead: an unmatched row of column j, or NONE; each entry is examined once over all phases.
    Row free_row(Row j) {
        for (Index& k = lookahead_[j]; k < a_.starts[j + 1];) {
            Row i = a_.rows[k++];
            if (column_of_[i] == NONE) return i;
        }
        return NONE;
    }

    // Search an augmenting path from column `start` to an unmatched row, and match along it.
    bool augment(Row start, Row phase) {
        path_.assign(1, start);
        at_[start] = a_.starts[start];
        while (!path_.empty()) {
            Row j = path_.back(), i = free_row(j);
            if (i != NONE) {
                for (;;) {
                    path_.pop_back();
                    Row before = row_of_[j];
                    match(j, i);
                    if (path_.empty()) return true;
                    i = before;
                    j = path_.back();
                }
            }
            Row next = NONE;
            while (next == NONE && at_[j] < a_.starts[j + 1]) {
                Row r = a_.rows[at_[j]++];
                if (seen_[r] == phase) continue;
                seen_[r] = phase;
                next = column_of_[r];
            }
            if (next == NONE)
                path_.pop_back();
            else {
                at_[next] = a_.starts[next];
                path_.push_back(next);
            }
        }
        return false;
    }

    const Compressed& a_;
    const Row n_;
    std::vector<Row> row_of_, column_of_;
    std::vector<Index> lookahead_, at_;
    std::vector<Row> seen_, path_;
};

}  // namespace

std::vector<Row> matching(const Compressed& columns) { return Matching(columns).run(); }

std::vector<Row> strong_blocks(const Compressed& a, const std::vector<Row>& row_of, Row* count) {
    Row n = a.size(), time = 0, blocks = 0;
    std::vector<Row> column_of(n), block(n, NONE), found(n, NONE), low(n), stack, path;
    std::vector<Index> at(n);
    for (Row j = 0; j < n; j++) column_of[row_of[j]] = j;
    auto enter = [&](Row j) {
        found[j] = low[j] = time++;
        at[j] = a.starts[j];
        stack.push_back(j);
        path.push_back(j);
    };
    for (Row start = 0; start < n; start++) {
        if (found[start] != NONE) continue;
        enter(start);
        while (!path.empty()) {
            Row j = path.back();
            if (at[j] < a.starts[j + 1]) {
                Row k = column_of[a.rows[at[j]++]];
                if (found[k] == NONE)
                    enter(k);
                else if (block[k] == NONE)
                    low[j] = std::min(low[j], found[k]);
                continue;
            }
            path.pop_back();
            if (!path.empty()) low[path.back()] = std::min(low[path.back()], low[j]);
            if (low[j] != found[j]) continue;
            // j is the root of a strong component, which is on the stack above j; blocks that it reaches are numbered already
            for (Row k = NONE; k != j;) {
                k = stack.back();
                stack.pop_back();
                block[k] = blocks;
            }
            blocks++;
        }
    }
    *count = blocks;
    return block;
}
