// The tree of fronts from the leaves to the roots, and back, by several threads: subtrees side by side, then the supernodes above them,
// one by one, each by all threads.
#pragma once
#include <algorithm>
#include <queue>

#include "buffer.hpp"
#include "forks.hpp"
#include "fronts.hpp"
#include "team.hpp"

// Ranges of supernodes that are whole subtrees, and the supernodes above them.
struct Division {
    std::vector<std::pair<Index, Index>> subtrees;  // those with most work first
    Indices top;                                    // in postorder
};

Division divide(const Fronts& fronts, int threads);

// Updates that supernodes add to the fronts of their parents, r x r by columns, until the parents have taken them: on two stacks in turn, by
// depth, so that those of the children are on top of the other one.
template <class T> class Updates {
  public:
    Updates(const Fronts& fronts, Index first, Index last) : fronts_(fronts), last_(last) {
        Index most[2] = {0, 0}, top[2] = {0, 0};
        for (Index s = first; s < last; s++) {
            Index& own = top[fronts.depth[s] & 1];
            if (is_inner(s)) most[fronts.depth[s] & 1] = std::max(most[fronts.depth[s] & 1], own += size(s));
            top[1 - (fronts.depth[s] & 1)] -= of_children(s);
        }
        for (int i = 0; i < 2; i++) stacks_[i].grow(most[i]);
    }
    bool is_inner(Index s) const { return fronts_.above[s] >= 0 && fronts_.above[s] < last_; }
    T* push(Index s) {
        T* at = stacks_[fronts_.depth[s] & 1].data() + top_[fronts_.depth[s] & 1];
        top_[fronts_.depth[s] & 1] += size(s);
        return at;
    }
    void pop_children(Index s) { top_[1 - (fronts_.depth[s] & 1)] -= of_children(s); }

  private:
    Index size(Index s) const { return fronts_.below(s) * fronts_.below(s); }
    Index of_children(Index s) const {
        Index total = 0;
        for (Index c = fronts_.child[s]; c != -1; c = fronts_.sibling[c]) total += size(c);
        return total;
    }
    const Fronts& fronts_;
    Index last_;
    Buffer<T> stacks_[2];
    Index top_[2] = {0, 0};
};

// The front of s from the values in the slots of P A P^H, and the updates of its children.
template <class T> void assemble(const Fronts& f, Index s, const T* values, T* panel, T* update, const std::vector<T*>& updates) {
    const Index c = f.columns(s), r = f.below(s), m = c + r, begin = f.panel_starts[s];
    std::fill(panel, panel + c * m, T(0));
    for (Index e = f.slot_starts[f.starts[s]]; e < f.slot_starts[f.starts[s + 1]]; e++)
        if (f.place[e] >= 0) panel[f.place[e] - begin] = values[e];
    if (f.child[s] == -1) return;
    for (Index j = 0; j < r; j++) std::fill(update + j * r + j, update + (j + 1) * r, T(0));
    for (Index d = f.child[s]; d != -1; d = f.sibling[d]) {
        const Index* at = f.relative.data() + f.row_starts[d];
        const Index size = f.below(d);
        Index dense = size;  // from here on rows of the child are neighbors in this front
        while (dense > 0 && (dense == size || at[dense - 1] + 1 == at[dense])) dense--;
        for (Index j = 0; j < size; j++) {
            const T* from = updates[d] + j * size;
            T* to = at[j] < c ? panel + at[j] * m : update + (at[j] - c) * r - c;
            Index i = j;
            for (; i < dense; i++) to[at[i]] += from[i];
            if (i == size) continue;
            T* neighbors = to + at[i] - i;
            for (; i < size; i++) neighbors[i] += from[i];
        }
    }
}

// assemble(s, update, updates), and then visit(s, update, t), from the leaves to the roots: updates[d] is what the child d of s left, and
// `update` is to become what goes to the parent. If all threads are to work on this one, t < 0.
template <class T, class Assemble, class Visit> bool upwards(const Fronts& f, Team& team, Assemble assemble, Visit visit) {
    Division division = divide(f, team.size());
    std::vector<T*> updates(f.count(), nullptr);
    std::vector<Buffer<T>> held(f.count());  // by themselves, those that other threads take
    auto step = [&](Index s, T* update, int t) {
        updates[s] = update;
        assemble(s, update, updates);
        for (Index c = f.child[s]; c != -1; c = f.sibling[c]) held[c].free();
        return visit(s, update, t);
    };
    bool well = team.run(Index(division.subtrees.size()), [&](Index i, int t) {
        auto [first, last] = division.subtrees[i];
        Updates<T> stacks(f, first, last);
        for (Index s = first; s < last; s++) {
            T* update = stacks.is_inner(s) ? stacks.push(s) : held[s].grow(f.below(s) * f.below(s));
            if (!team.goes_on(t) || !step(s, update, t)) return false;
            stacks.pop_children(s);
        }
        return true;
    });
    for (Index s : division.top)
        if (well) well = team.goes_on(0) && step(s, held[s].grow(f.below(s) * f.below(s)), -1);
    return well;
}

// visit(s, t) from the roots to the leaves.
template <class Visit> bool downwards(const Fronts& f, Team& team, Visit visit) {
    Division division = divide(f, team.size());
    for (auto s = division.top.rbegin(); s != division.top.rend(); ++s)
        if (!team.goes_on(0) || !visit(*s, -1)) return false;
    return team.run(Index(division.subtrees.size()), [&](Index i, int t) {
        auto [first, last] = division.subtrees[i];
        for (Index s = last - 1; s >= first; s--)
            if (!team.goes_on(t) || !visit(s, t)) return false;
        return true;
    });
}

// visit(column, j, begin, end) for each row j below s: it is a column of an ancestor, whose panel has that column from the place `column` on.
// Rows begin .. end are columns of the same ancestor, and row i >= begin is row index[i] of its front. A row keeps its place in the front of
// the parent, of the parent's parent, and so on: following `relative` up the tree finds every number.
template <class Visit> void each_column_above(const Fronts& f, Index s, Indices& index, Visit visit) {
    const Index r = f.below(s), *relative = f.relative.data();
    index.assign(relative + f.row_starts[s], relative + f.row_starts[s] + r);
    for (Index begin = 0, p = f.above[s]; begin < r; p = f.above[p]) {
        const Index width = f.columns(p);
        Index end = begin;
        while (end < r && index[end] < width) end++;
        for (Index j = begin; j < end; j++) visit(f.panel_starts[p] + index[j] * (width + f.below(p)), j, begin, end);
        for (Index i = end; i < r; i++) index[i] = relative[f.row_starts[p] + index[i] - width];
        begin = end;
    }
}

// Once: invert_front(s, work, t), from the roots to the leaves, writes `z`, which is freed where it is not made. One Work for each thread.
template <class Work, class Z, class Invert>
bool invert_once(const Fronts& f, Team& team, ForkedMutex& mutex, bool& is_inverted, Z& z, Invert invert_front) {
    std::lock_guard<ForkedMutex> lock(mutex);
    if (is_inverted) return true;
    try {
        z.grow(f.entries());
        std::vector<Work> works(team.size());
        is_inverted = downwards(f, team, [&](Index s, int t) { return invert_front(s, works[std::max(t, 0)], t); });
    } catch (...) {
        z.free();
        throw;
    }
    if (!is_inverted) z.free();
    return is_inverted;
}

constexpr double WIDE = 1e7;  // multiplications from which all threads share a front

// work(from, to) for parts of `count` rows or columns of the front of s, by all threads if t < 0 and it is worth it.
template <class Work> bool by_parts(const Fronts& f, Index s, Index count, Team& team, int t, Work work) {
    if (t >= 0 || f.work(s) < WIDE) {
        work(Index(0), count);
        return true;
    }
    const Index parts = 2 * team.size();
    return team.run(parts, [&](Index i, int) {
        const Index from = count * i / parts, to = count * (i + 1) / parts;
        if (from < to) work(from, to);
        return true;
    });
}
