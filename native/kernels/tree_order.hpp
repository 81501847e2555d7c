// Traversals of the tree of fronts by several threads, from the leaves to the roots and back: independent subtrees in parallel, then the
// supernodes above them one by one, each by all threads.
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
    bool is_inner(Index s) const { return fronts_.parent[s] >= 0 && fronts_.parent[s] < last_; }
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
        Index dense = size;  // from row `dense` on, the rows of the child are contiguous in this front
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

// assemble(s, update, updates), then visit(s, update, t), from the leaves to the roots. updates[d] is the update matrix of the child d of s;
// visit writes that of s to `update`. t is the thread, or negative if all threads work on s.
template <class T, class Assemble, class Visit> bool leaves_to_roots(const Fronts& f, Team& team, Assemble assemble, Visit visit) {
    Division division = divide(f, team.size());
    std::vector<T*> updates(f.count(), nullptr);
    std::vector<Buffer<T>> own_updates(f.count());  // updates of the roots of subtrees and of supernodes above them, which another thread reads
    auto step = [&](Index s, T* update, int t) {
        updates[s] = update;
        assemble(s, update, updates);
        for (Index c = f.child[s]; c != -1; c = f.sibling[c]) own_updates[c].free();
        return visit(s, update, t);
    };
    bool ok = team.run(Index(division.subtrees.size()), [&](Index i, int t) {
        auto [first, last] = division.subtrees[i];
        Updates<T> stacks(f, first, last);
        for (Index s = first; s < last; s++) {
            T* update = stacks.is_inner(s) ? stacks.push(s) : own_updates[s].grow(f.below(s) * f.below(s));
            if (!team.should_continue(t) || !step(s, update, t)) return false;
            stacks.pop_children(s);
        }
        return true;
    });
    for (Index s : division.top)
        if (ok) ok = team.should_continue(0) && step(s, own_updates[s].grow(f.below(s) * f.below(s)), -1);
    return ok;
}

// visit(s, t) from the roots to the leaves.
template <class Visit> bool roots_to_leaves(const Fronts& f, Team& team, Visit visit) {
    Division division = divide(f, team.size());
    for (auto s = division.top.rbegin(); s != division.top.rend(); ++s)
        if (!team.should_continue(0) || !visit(*s, -1)) return false;
    return team.run(Index(division.subtrees.size()), [&](Index i, int t) {
        auto [first, last] = division.subtrees[i];
        for (Index s = last - 1; s >= first; s--)
            if (!team.should_continue(t) || !visit(s, t)) return false;
        return true;
    });
}

// visit(column, j, begin, end) for each row j below s: it is a column of an ancestor, whose panel has that column from the place `column` on.
// Rows begin .. end are columns of the same ancestor, and row i >= begin is row index[i] of its front. A row keeps its place in the front of
// the parent, of the parent's parent, and so on: following `relative` up the tree finds every number.
template <class Visit> void each_column_above(const Fronts& f, Index s, Indices& index, Visit visit) {
    const Index r = f.below(s), *relative = f.relative.data();
    index.assign(relative + f.row_starts[s], relative + f.row_starts[s] + r);
    for (Index begin = 0, p = f.parent[s]; begin < r; p = f.parent[p]) {
        const Index width = f.columns(p);
        Index end = begin;
        while (end < r && index[end] < width) end++;
        for (Index j = begin; j < end; j++) visit(f.panel_starts[p] + index[j] * (width + f.below(p)), j, begin, end);
        for (Index i = end; i < r; i++) index[i] = relative[f.row_starts[p] + index[i] - width];
        begin = end;
    }
}

// invert_front(s, work, t), from the roots to the leaves, writes `z`, once for each factor; `z` is freed after a failure. One Work for each thread.
template <class Work, class Z, class Invert>
bool invert_once(const Fronts& f, Team& team, ForkedMutex& mutex, bool& is_inverted, Z& z, Invert invert_front) {
    std::lock_guard<ForkedMutex> lock(mutex);
    if (is_inverted) return true;
    try {
        z.grow(f.entries());
        std::vector<Work> works(team.size());
        is_inverted = roots_to_leaves(f, team, [&](Index s, int t) { return invert_front(s, works[std::max(t, 0)], t); });
    } catch (...) {
        z.free();
        throw;
    }
    if (!is_inverted) z.free();
    return is_inverted;
}

// f(width) for the number k of columns, where loops of that length are compiled, and f(0) elsewhere; widths are constants.
template <class F> auto by_width(Index k, F f) {
    switch (k) {
    case 1: return f(std::integral_constant<int, 1>());
    case 2: return f(std::integral_constant<int, 2>());
    case 4: return f(std::integral_constant<int, 4>());
    case 8: return f(std::integral_constant<int, 8>());
    default: return f(std::integral_constant<int, 0>());
    }
}

// A tangent: assemble(s, update, updates) and up(s, update, work) from the leaves to the roots, then down(s, work) to the leaves again.
template <class T, class Work, class Assemble, class Up, class Down> bool move_once(const Fronts& f, Team& team, Assemble assemble, Up up, Down down) {
    std::vector<Work> works(team.size());
    auto of = [&](int t) -> Work& { return works[std::max(t, 0)]; };
    return leaves_to_roots<T>(f, team, assemble, [&](Index s, T* update, int t) { return up(s, update, of(t)), true; })
        && roots_to_leaves(f, team, [&](Index s, int t) { return down(s, of(t)), true; });
}

constexpr double SHARED_FRONT = 1e7;  // multiplications in a front that is large enough for all threads

// work(from, to) for ranges of `count` rows or columns of the front of s, by all threads if t < 0 and the front is large.
template <class Work> bool split_rows(const Fronts& f, Index s, Index count, Team& team, int t, Work work) {
    if (t >= 0 || f.work(s) < SHARED_FRONT) {
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
