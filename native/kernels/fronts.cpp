// Relaxed supernodes: columns with nested patterns are one supernode, which is merged with its parent if few explicit zeros result.
// Ashcraft, Grimes, ACM Trans. Math. Softw. 15 (1989).
#include "fronts.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>

// Merged are supernodes with, together, at most 6 columns; at most 16 (32) if fewer than a quarter (8 in a hundred) of the entries are
// zeros; and any, if fewer than 2 in a hundred are.
static bool should_merge(double together, double zeros) {
    return together <= 6 || (together <= 16 && zeros < 0.25) || (together <= 32 && zeros < 0.08) || zeros < 0.02;
}

// The first column of each supernode, and n.
static Indices fundamental(const Indices& parent, const Indices& count) {
    Index n = Index(parent.size());
    Indices starts;
    for (Index j = 0; j < n; j++)
        if (j == 0 || parent[j - 1] != j || count[j - 1] != count[j] + 1) starts.push_back(j);
    starts.push_back(n);
    return starts;
}

// Supernodes that are merged into others, as chains of children.
namespace {
struct Merging {
    Indices into, parent, child, sibling, width, below;
    std::vector<double> nonzeros;  // the entries that are not zeros

    Merging(const Indices& tree, const Indices& count, const Indices& starts) {
        Index size = Index(starts.size()) - 1;
        into.resize(size), width.resize(size), below.resize(size), nonzeros.resize(size);
        parent.assign(size, -1);
        std::iota(into.begin(), into.end(), Index(0));
        Indices owner(tree.size());
        for (Index s = 0; s < size; s++) {
            for (Index j = starts[s]; j < starts[s + 1]; j++) owner[j] = s;
            width[s] = starts[s + 1] - starts[s];
            below[s] = count[starts[s + 1] - 1] - 1;
            nonzeros[s] = double(width[s]) * double(width[s] + 1) / 2 + double(width[s]) * double(below[s]);
        }
        for (Index s = 0; s < size; s++)
            if (const Index top = tree[starts[s + 1] - 1]; top != -1) parent[s] = owner[top];
        list_children(parent, child, sibling);
        for (Index s = 0; s < size; s++) merge_children(s);
        for (Index s = size - 1; s >= 0; s--) into[s] = into[into[s]];
    }

    void merge_children(Index s) {
        Indices children;
        for (Index c = child[s]; c != -1; c = sibling[c]) children.push_back(c);
        // the child with most rows first: merging it adds fewest zeros
        std::stable_sort(children.begin(), children.end(), [&](Index a, Index b) { return below[a] > below[b]; });
        Index adopted = -1;  // the children of s after merging, as a chain
        for (Index c : children) {
            double together = double(width[c] + width[s]);
            double zeros = 1 - (nonzeros[c] + nonzeros[s]) / (together * (together + 1) / 2 + together * double(below[s]));
            if (!should_merge(together, zeros)) {
                sibling[c] = adopted;
                adopted = c;
                continue;
            }
            into[c] = s;
            width[s] += width[c];
            nonzeros[s] += nonzeros[c];
            for (Index d = child[c], after; d != -1; d = after) {
                after = sibling[d];
                sibling[d] = adopted;
                adopted = d;
                parent[d] = s;
            }
        }
        child[s] = adopted;
    }
};
}  // namespace

Fronts::Fronts(const Compressed& a, const Indices& given) : n(a.size()) {
    Indices tree = elimination_tree(a, given, inverse(given)), post = postorder(tree);
    tree = renumbered(tree, post);
    order.resize(n);
    for (Index k = 0; k < n; k++) order[k] = given[post[k]];
    set_supernodes(tree, column_counts(a, order, inverse(order), tree));
    set_rows(a);
}

// The supernodes that stay, in postorder, each with the columns of those merged into it.
void Fronts::set_supernodes(const Indices& tree, const Indices& counted) {
    Indices first = fundamental(tree, counted);
    Merging merging(tree, counted, first);
    Index size = Index(merging.into.size());
    Indices kept, number(size, -1);
    for (Index s = 0; s < size; s++)
        if (merging.into[s] == s) {
            number[s] = Index(kept.size());
            kept.push_back(s);
        }
    Indices parents(kept.size());
    for (size_t k = 0; k < kept.size(); k++) parents[k] = merging.parent[kept[k]] == -1 ? -1 : number[merging.parent[kept[k]]];
    Indices post = postorder(parents), rank = inverse(post);
    parent = renumbered(parents, post);
    starts.assign(kept.size() + 1, 0);
    for (Index s = 0; s < size; s++) starts[rank[number[merging.into[s]]] + 1] += first[s + 1] - first[s];
    std::partial_sum(starts.begin(), starts.end(), starts.begin());
    Indices next(starts.begin(), starts.end() - 1), merged(n);
    for (Index s = 0; s < size; s++)
        for (Index j = first[s]; j < first[s + 1]; j++) merged[next[rank[number[merging.into[s]]]]++] = order[j];
    order = merged;
    row_starts.assign(1, 0);
    panel_starts.assign(1, 0);
    for (size_t k = 0; k < post.size(); k++) {
        // the last column of a supernode is its own
        Index r = counted[first[kept[post[k]] + 1] - 1] - 1, c = columns(Index(k));
        row_starts.push_back(row_starts.back() + r);
        panel_starts.push_back(panel_starts.back() + c * (c + r));
    }
    list_children(parent, child, sibling);
    depth.assign(parent.size(), 0);
    for (Index s = count() - 1; s >= 0; s--)
        if (parent[s] != -1) depth[s] = depth[parent[s]] + 1;
}

// The rows of a front: those of its columns of A and of its children, less its own columns. Also their places in the front of the parent.
void Fronts::set_rows(const Compressed& a) {
    Indices place_of = inverse(order), seen(n, -1), position(n, -1);
    rows.resize(row_starts.back());
    relative.resize(row_starts.back());
    for (Index s = 0; s < count(); s++) {
        Index at = row_starts[s], end = starts[s + 1];
        auto meet = [&](Index i) {
            if (i < end || seen[i] == s) return;
            seen[i] = s;
            if (at < row_starts[s + 1]) rows[at] = i;
            at++;
        };
        for (Index j = starts[s]; j < end; j++)
            for (Index e = a.starts[order[j]]; e < a.starts[order[j] + 1]; e++) meet(place_of[a.rows[e]]);
        for (Index c = child[s]; c != -1; c = sibling[c])
            for (Index k = row_starts[c]; k < row_starts[c + 1]; k++) meet(rows[k]);
        if (at != row_starts[s + 1]) throw std::invalid_argument("starts, rows: expected a symmetric pattern");
        std::sort(rows.begin() + row_starts[s], rows.begin() + at);
        for (Index j = starts[s]; j < end; j++) position[j] = j - starts[s];
        for (Index k = row_starts[s]; k < at; k++) position[rows[k]] = columns(s) + k - row_starts[s];
        for (Index c = child[s]; c != -1; c = sibling[c])
            for (Index k = row_starts[c]; k < row_starts[c + 1]; k++) relative[k] = position[rows[k]];
    }
}

void Fronts::locate(const Compressed& m) {
    if (m.size() != n) throw std::invalid_argument("starts, rows: expected those of the permuted pattern");
    Indices position(n, -1), owner(n, -1), next(m.starts.begin(), m.starts.end() - 1), found(m.rows.size());
    auto require = [](bool holds) {
        if (!holds) throw std::invalid_argument("starts, rows: expected those of the permuted pattern, sorted");
    };
    for (Index s = 0; s < count(); s++) {
        Index c = columns(s), height = c + below(s);
        for (Index j = 0; j < height; j++) {
            Index i = j < c ? starts[s] + j : rows[row_starts[s] + j - c];
            position[i] = j;
            owner[i] = s;
        }
        for (Index j = starts[s]; j < starts[s + 1]; j++) {
            Index column = panel_starts[s] + (j - starts[s]) * height;
            // next[j] is past the slots (i, j) with i < j, which were placed with their mirror images (j, i)
            for (Index e = next[j]; e < m.starts[j + 1]; e++) {
                Index i = m.rows[e];
                require(i >= j && owner[i] == s);
                found[e] = column + position[i];
                if (i == j) continue;
                Index& mirror = next[i];
                require(mirror < m.starts[i + 1] && m.rows[mirror] == j);
                found[mirror++] = ~(column + position[i]);
            }
        }
    }
    place = std::move(found);
    slot_starts = m.starts;
}

void Fronts::locate(const int64_t* places, Index count) {
    for (Index e = 0; e < count; e++)
        if ((places[e] >= 0 ? places[e] : ~places[e]) >= entries()) throw std::invalid_argument("places: expected positions in the panels");
    both.assign(places, places + count);
}

double Fronts::work(Index s) const {
    double c = double(columns(s)), r = double(below(s));
    return c * c * c / 6 + c * c * r / 2 + c * r * r / 2 + 20 * (c + r) + 8 * c * r;
}

size_t Fronts::nbytes() const {
    size_t total = 0;
    for (const Indices* x : {&order, &starts, &parent, &row_starts, &rows, &relative, &panel_starts, &child, &sibling, &depth, &slot_starts, &place, &both})
        total += x->capacity() * sizeof(Index);
    return total;
}

Indices column_counts(const Compressed& a, const Indices& given) {
    Indices parent = elimination_tree(a, given, inverse(given)), post = postorder(parent), order(a.size());
    for (Index k = 0; k < a.size(); k++) order[k] = given[post[k]];
    return column_counts(a, order, inverse(order), renumbered(parent, post));
}
