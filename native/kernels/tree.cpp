// Davis, Direct Methods for Sparse Linear Systems (2006), sections 4.1 to 4.5; Gilbert, Ng, Peyton, SIAM J. Matrix Anal. Appl. 15 (1994).
#include "tree.hpp"

#include <stdexcept>
#include <utility>

Indices inverse(const Indices& order) {
    Index n = Index(order.size());
    Indices place(n, -1);
    for (Index k = 0; k < n; k++) {
        if (order[k] < 0 || order[k] >= n || place[order[k]] != -1) throw std::invalid_argument("order: expected a permutation");
        place[order[k]] = k;
    }
    return place;
}

Indices elimination_tree(const Compressed& a, const Indices& order, const Indices& place) {
    Indices parent(a.size(), -1), ancestor(a.size(), -1);  // path compression: an ancestor as high as is known
    for (Index j = 0; j < a.size(); j++)
        for (Index e = a.starts[order[j]]; e < a.starts[order[j] + 1]; e++)
            for (Index i = place[a.rows[e]]; i != -1 && i < j;) {
                Index above = ancestor[i];
                ancestor[i] = j;
                if (above == -1) parent[i] = j;
                i = above;
            }
    return parent;
}

void list_children(const Indices& parent, Indices& child, Indices& sibling) {
    child.assign(parent.size(), -1), sibling.assign(parent.size(), -1);
    for (Index j = Index(parent.size()) - 1; j >= 0; j--)
        if (parent[j] != -1) sibling[j] = std::exchange(child[parent[j]], j);
}

Indices postorder(const Indices& parent) {
    Index n = Index(parent.size());
    Indices child, sibling, order, stack;
    order.reserve(n);
    list_children(parent, child, sibling);
    for (Index root = 0; root < n; root++) {
        if (parent[root] != -1) continue;
        stack.push_back(root);
        while (!stack.empty()) {
            Index j = stack.back();
            if (child[j] == -1) {
                order.push_back(j);
                stack.pop_back();
            } else {
                stack.push_back(child[j]);
                child[j] = sibling[child[j]];
            }
        }
    }
    return order;
}

Indices renumbered(const Indices& parent, const Indices& order) {
    Index n = Index(order.size());
    Indices place = inverse(order), found(n);
    for (Index k = 0; k < n; k++) found[k] = parent[order[k]] == -1 ? -1 : place[parent[order[k]]];
    return found;
}

// Column j has as many entries as leaves of row subtrees lie under it, less their least common ancestors.
Indices column_counts(const Compressed& a, const Indices& order, const Indices& place, const Indices& parent) {
    Index n = a.size();
    Indices count(n, 0), first(n, -1);  // the first descendant
    for (Index k = 0; k < n; k++) {
        if (first[k] == -1) count[k] = 1;
        for (Index j = k; j != -1 && first[j] == -1; j = parent[j]) first[j] = k;
    }
    Indices latest(n, -1), leaf(n, -1), ancestor(n);  // of each row: the latest leaf of its subtree, and the first descendant of that
    for (Index j = 0; j < n; j++) ancestor[j] = j;
    for (Index j = 0; j < n; j++) {
        if (parent[j] != -1) count[parent[j]]--;
        for (Index e = a.starts[order[j]]; e < a.starts[order[j] + 1]; e++) {
            Index i = place[a.rows[e]];
            if (i <= j || first[j] <= latest[i]) continue;  // j is no leaf of the subtree of row i
            latest[i] = first[j];
            Index before = leaf[i];
            leaf[i] = j;
            count[j]++;
            if (before == -1) continue;
            Index common = before;
            while (common != ancestor[common]) common = ancestor[common];
            while (before != common) {
                Index above = ancestor[before];
                ancestor[before] = common;
                before = above;
            }
            count[common]--;
        }
        if (parent[j] != -1) ancestor[j] = parent[j];
    }
    for (Index j = 0; j < n; j++)
        if (parent[j] != -1) count[parent[j]] += count[j];
    return count;
}
