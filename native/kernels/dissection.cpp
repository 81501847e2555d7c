// Nested dissection: both halves are ordered before their separator, recursively, so that L has no entry between them. Small parts are ordered
// by minimum degree with a halo, the separators around them. Vertices with the same neighbors stay together (compressed graph).
// Reference: George, SIAM J. Numer. Anal. 10 (1973); Ashcraft, SIAM J. Sci. Comput. 16 (1995).
#include "dissection.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "amd.hpp"
#include "fronts.hpp"
#include "separator.hpp"

namespace {

constexpr double LEAF = 800;     // vertices that are ordered by minimum degree, with all for which they stand
constexpr double COMPRESSED = 0.85;   // the compressed graph is dissected if it has at most this share of the vertices

// The leader of each vertex: the first vertex with the same closed neighborhood, found by a hash and then compared.
std::vector<Row> indistinguishable_vertices(const Compressed& g) {
    Row n = g.size();
    std::vector<uint64_t> sum(n);
    std::vector<Row> leader(n, -1), seen(n, -1);
    auto hash_of = [](Row v) { return (uint64_t(v) + 1) * 0x9E3779B97F4A7C15u; };
    for (Row v = 0; v < n; v++) {
        sum[v] = hash_of(v);
        for (Index k = g.starts[v]; k < g.starts[v + 1]; k++) sum[v] += hash_of(g.rows[k]);
    }
    for (Row v = 0; v < n; v++) {
        if (leader[v] != -1) continue;
        leader[v] = v;
        for (Index k = g.starts[v]; k < g.starts[v + 1]; k++) {
            Row u = g.rows[k];
            if (leader[u] != -1 || sum[u] != sum[v] || g.starts[u + 1] - g.starts[u] != g.starts[v + 1] - g.starts[v]) continue;
            if (seen[v] != v) {
                for (Index j = g.starts[v]; j < g.starts[v + 1]; j++) seen[g.rows[j]] = v;
                seen[v] = v;
            }
            bool same = true;
            for (Index j = g.starts[u]; j < g.starts[u + 1] && same; j++) same = seen[g.rows[j]] == v;
            if (same) leader[u] = v;
        }
    }
    return leader;
}

// Vertices that are eliminated in sequence, from position `first` of the order on.
struct Part {
    std::vector<Row> vertices;
    Row first;
    bool is_leaf;
};

class Dissection {
  public:
    Dissection(const Weighted& g, double most, int threads) : g_(g), most_(most), leaf_(Row(LEAF * g.graph.size() / g.total)), order_(g.graph.size()), places_(threads) {}

    std::vector<Row> run(Team& team) {
        Row n = g_.graph.size();
        Part all{{}, 0, false};
        std::vector<Row> last;
        const double limit = dense_row_limit(n);
        for (Row v = 0; v < n; v++) (double(g_.graph.starts[v + 1] - g_.graph.starts[v]) > limit ? last : all.vertices).push_back(v);
        std::copy(last.begin(), last.end(), order_.begin() + Row(all.vertices.size()));
        std::vector<Part> parts;
        parts.push_back(std::move(all));
        while (!parts.empty()) {  // all parts of one depth, which are independent
            std::vector<std::vector<Part>> inner(parts.size());
            auto work = [&](Index i, int t) { return divide(parts[i], inner[i], [&] { return team.should_continue(t); }, places_[t]); };
            if (!team.run(Index(parts.size()), work)) return {};
            parts.clear();
            for (auto& some : inner) std::move(some.begin(), some.end(), std::back_inserter(parts));
        }
        return std::move(order_);
    }

  private:
    // Split a part by a separator, or order it if it is small. False if the team was stopped.
    bool divide(const Part& part, std::vector<Part>& inner, const std::function<bool()>& should_continue, std::vector<Row>& place) {
        const Row count = Row(part.vertices.size());
        place.resize(g_.graph.size());
        for (Row i = 0; i < count; i++) place[part.vertices[i]] = i;
        if (part.is_leaf || count <= leaf_) {
            order_leaf(part, place);
            return true;
        }
        Weighted own = induced_subgraph(part, place);
        std::vector<Row> component;
        Row component_count = components(own.graph, component);
        if (component_count > 1) {
            split_components(part, component, component_count, inner);
            return true;
        }
        std::vector<Side> side = separator(std::move(own), most_, should_continue);
        if (side.empty()) return false;
        Part halves[3];
        for (Row i = 0; i < count; i++) halves[side[i]].vertices.push_back(part.vertices[i]);
        Row first = part.first;
        bool is_undivided = halves[LEFT].vertices.empty() || halves[RIGHT].vertices.empty();  // no separator was found: order it by minimum degree
        for (Side s : {LEFT, RIGHT}) {
            halves[s].first = first;
            halves[s].is_leaf = is_undivided;
            first += Row(halves[s].vertices.size());
            if (!halves[s].vertices.empty()) inner.push_back(std::move(halves[s]));
        }
        std::copy(halves[BETWEEN].vertices.begin(), halves[BETWEEN].vertices.end(), order_.begin() + first);
        return true;
    }

    Weighted induced_subgraph(const Part& part, const std::vector<Row>& place) const {
        Weighted own;
        own.graph.starts.reserve(part.vertices.size() + 1);
        own.graph.starts.push_back(0);
        for (Row v : part.vertices) {
            own.size.push_back(g_.size[v]);
            own.total += g_.size[v];
            for (Index k = g_.graph.starts[v]; k < g_.graph.starts[v + 1]; k++) {
                Row w = g_.graph.rows[k], i = place[w];
                if (is_at(part, w, i)) own.graph.rows.push_back(i);
            }
            own.graph.starts.push_back(Index(own.graph.rows.size()));
        }
        return own;
    }
    static bool is_at(const Part& part, Row w, Row i) { return i < Row(part.vertices.size()) && part.vertices[i] == w; }

    // The number of connected components, and the component of each vertex.
    static Row components(const Compressed& g, std::vector<Row>& component) {
        Row n = g.size(), component_count = 0;
        component.assign(n, -1);
        std::vector<Row> reached;
        reached.reserve(n);
        for (Row start = 0; start < n; start++) {
            if (component[start] != -1) continue;
            size_t next = reached.size();
            reached.push_back(start);
            component[start] = component_count;
            for (; next < reached.size(); next++)
                for (Index k = g.starts[reached[next]]; k < g.starts[reached[next] + 1]; k++) {
                    Row w = g.rows[k];
                    if (component[w] != -1) continue;
                    component[w] = component_count;
                    reached.push_back(w);
                }
            component_count++;
        }
        return component_count;
    }

    // Each large connected component is a part; all small ones together are one leaf.
    void split_components(const Part& part, const std::vector<Row>& component, Row component_count, std::vector<Part>& inner) const {
        std::vector<Row> count(component_count, 0), number(component_count, 0);
        for (Row p : component) count[p]++;
        inner.push_back({{}, part.first, true});
        for (Row p = 0; p < component_count; p++)
            if (count[p] > leaf_) {
                number[p] = Row(inner.size());
                inner.push_back({{}, 0, false});
            }
        for (size_t i = 0; i < component.size(); i++) inner[number[component[i]]].vertices.push_back(part.vertices[i]);
        for (size_t k = 1; k < inner.size(); k++) inner[k].first = inner[k - 1].first + Row(inner[k - 1].vertices.size());
    }

    void order_leaf(const Part& part, std::vector<Row>& place) {
        const Row count = Row(part.vertices.size());
        std::vector<Row> members = part.vertices;  // and their neighbors
        Compressed local;
        std::vector<std::vector<Row>> around;
        local.starts.push_back(0);
        for (Row i = 0; i < count; i++) {
            Row v = part.vertices[i];
            for (Index k = g_.graph.starts[v]; k < g_.graph.starts[v + 1]; k++) {
                Row w = g_.graph.rows[k];
                if (place[w] >= Row(members.size()) || members[place[w]] != w) {
                    place[w] = Row(members.size());
                    members.push_back(w);
                    around.emplace_back();
                }
                if (place[w] >= count) around[place[w] - count].push_back(i);
                local.rows.push_back(place[w]);
            }
            local.starts.push_back(Index(local.rows.size()));
        }
        for (const auto& some : around) {
            local.rows.insert(local.rows.end(), some.begin(), some.end());
            local.starts.push_back(Index(local.rows.size()));
        }
        std::vector<Row> size;
        for (Row v : members) size.push_back(g_.size[v]);
        Row at = part.first;
        for (Row i : amd(local, count, size).order) order_[at++] = members[i];
    }

    const Weighted& g_;
    const double most_;
    const Row leaf_;  // the vertices of a part that is not divided
    std::vector<Row> order_;
    std::vector<std::vector<Row>> places_;  // of each vertex in the part that a thread divides
};

// The order of all vertices in that of their groups.
std::vector<Row> expanded(const std::vector<Row>& order, const Weighted& groups, const std::vector<Row>& group_of) {
    std::vector<Row> next(order.size()), all(group_of.size());
    Row start = 0;
    for (Row group : order) {
        next[group] = start;
        start += groups.size[group];
    }
    for (Row v = 0; v < Row(all.size()); v++) all[next[group_of[v]]++] = v;
    return all;
}

}  // namespace

std::vector<Row> fill_reducing(const Compressed& graph, double most, Team& team) {
    const Index n = graph.size();
    if (Index(graph.rows.size()) == n * (n - 1)) {  // a complete graph has the same fill in every order; a scattered one limits pivot growth
        std::vector<Row> order(n);
        Index step = Index(0.618 * double(n));
        while (std::gcd(step, n) > 1) step++;
        for (Index k = 0; k < n; k++) order[k] = Row(k * step % n);
        return order;
    }
    Weighted all{graph, std::vector<Row>(n, 1), {}, Row(n)};
    std::vector<Row> group_of;
    Weighted groups = contracted(all, indistinguishable_vertices(graph), group_of);
    if (groups.graph.size() > COMPRESSED * n) {
        groups = std::move(all);
        std::iota(group_of.begin(), group_of.end(), 0);
    }
    const Ordering least = amd(groups.graph, groups.graph.size(), groups.size);
    const std::vector<Row> by_degree = expanded(least.order, groups, group_of);
    if (n <= LEAF) return by_degree;
    std::vector<Row> order = Dissection(groups, most, team.size()).run(team);
    if (order.empty()) return order;
    order = expanded(order, groups, group_of);
    double entries = 0;
    for (Index count : column_counts(graph, Indices(order.begin(), order.end()))) entries += double(count);
    // least.entries counts L and U, `entries` L alone
    return 2 * entries - n > least.entries ? by_degree : order;
}
