#include "tree_order.hpp"

constexpr double PARTS = 8;     // subtrees for each thread, about: smaller ones are not divided
constexpr double PARALLEL_WORK = 2e6;   // multiplications from which several threads are used
constexpr double SERIAL_SUBTREE = 1e9;    // multiplications in a subtree from which even one thread works supernode by supernode, and polls for Ctrl-C between them

Division divide(const Fronts& f, int threads) {
    Division found;
    Index count = f.count();
    std::vector<double> work(count);
    Indices first(count);  // the first supernode of each subtree
    double total = 0;
    for (Index s = 0; s < count; s++) {
        work[s] = f.work(s);
        first[s] = s;
        for (Index c = f.child[s]; c != -1; c = f.sibling[c]) {
            work[s] += work[c];
            first[s] = std::min(first[s], first[c]);
        }
        if (f.parent[s] == -1) total += work[s];
    }
    const double small = threads == 1 ? SERIAL_SUBTREE : total < PARALLEL_WORK ? total : total / (PARTS * threads);
    std::priority_queue<std::pair<double, Index>> largest;
    for (Index s = 0; s < count; s++)
        if (f.parent[s] == -1) largest.emplace(work[s], s);
    while (!largest.empty() && largest.top().first > small) {
        Index s = largest.top().second;
        largest.pop();
        found.top.push_back(s);
        for (Index c = f.child[s]; c != -1; c = f.sibling[c]) largest.emplace(work[c], c);
    }
    std::sort(found.top.begin(), found.top.end());
    std::vector<std::pair<Index, double>> roots;
    for (; !largest.empty(); largest.pop()) roots.emplace_back(largest.top().second, largest.top().first);
    std::sort(roots.begin(), roots.end());
    std::vector<std::pair<double, std::pair<Index, Index>>> ranges;
    for (auto [s, own] : roots) {
        bool joined = !ranges.empty() && ranges.back().second.second == first[s] && ranges.back().first + own <= small;
        if (joined) {
            ranges.back().first += own;
            ranges.back().second.second = s + 1;
        } else
            ranges.push_back({own, {first[s], s + 1}});
    }
    std::sort(ranges.rbegin(), ranges.rend());
    for (auto& range : ranges) found.subtrees.push_back(range.second);
    return found;
}
