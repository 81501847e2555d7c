// A separator comes last, and the halves before it are dissected in turn: no entry of L joins them. Small parts are ordered by
// minimum degree, with the separators around them as neighbors that come later. Vertices with the same neighbors stay together.
// Reference: George, SIAM J. Numer. Anal. 10 (1973); Ashcraft, SIAM J. Sci. Comput. 16 (1995).
#include "dissection.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "amd.hpp"
#include "fronts.hpp"
#include "separator.hpp"

namespace {

constexpr Row LEAF = 800;        // vertices that are ordered by minimum degree
constexpr double WORTH = 0.85;   // of the vertices: so few different ones are dissected in their place

// Vertices with the same neighbors, themselves included, by the first of them. They are neighbors of each other.
std::vector<Row> equal_vertices(const Compressed& g) {
    Row n = g.size();
    std::vector<uint64_t> sum(n);
    std::vector<Row> leader(n, -1), seen(n, -1);
    auto mixed = [](Row v) { return (uint64_t(v) + 1) * 0x9E3779B97F4A7C15u; };
    for (Row v = 0; v < n; v++) {
        sum[v] = mixed(v);
        for (Index k = g.starts[v]; k < g.starts[v + 1]; k++) sum[v] += mixed(g.rows[k]);
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

// Vertices that are eliminated one after the other, from this place of the order on.
struct Part {
    std::vector<Row> vertices;
    Row first;
    bool is_leaf;
};

class Dissection {
  public:
    Dissection(const Weighted& g, double most, int threads) : g_(g), most_(most), order_(g.graph.size()), places_(threads) {}

    std::vector<Row> run(Team& team) {
        Row n = g_.graph.size();
        Part all{{}, 0, false};
        std::vector<Row> last;
        const double many = crowded(n);
        for (Row v = 0; v < n; v++) (double(g_.graph.starts[v + 1] - g_.graph.starts[v]) > many ? last : all.vertices).push_back(v);
        std::copy(last.begin(), last.end(), order_.begin() + Row(all.vertices.size()));
        std::vector<Part> parts;
        parts.push_back(std::move(all));
        while (!parts.empty()) {  // all of one depth, of which none needs another
            std::vector<std::vector<Part>> inner(parts.size());
            auto work = [&](Index i, int t) { return divide(parts[i], inner[i], [&] { return team.goes_on(t); }, places_[t]); };
            if (!team.run(Index(parts.size()), work)) return {};
            parts.clear();
            for (auto& some : inner) std::move(some.begin(), some.end(), std::back_inserter(parts));
        }
        return std::move(order_);
    }

  private:
    // False if the work is called off.
    bool divide(const Part& part, std::vector<Part>& inner, const std::function<bool()>& goes_on, std::vector<Row>& place) {
        const Row count = Row(part.vertices.size());
        place.resize(g_.graph.size());
        for (Row i = 0; i < count; i++) place[part.vertices[i]] = i;
        if (part.is_leaf || count <= LEAF) {
            order_leaf(part, place);
            return true;
        }
        Weighted own = inside(part, place);
        std::vector<Row> piece;
        Row pieces = components(own.graph, piece);
        if (pieces > 1) {
            set_apart(part, piece, pieces, inner);
            return true;
        }
        std::vector<Side> side = separator(std::move(own), most_, goes_on);
        if (side.empty()) return false;
        Part halves[3];
        for (Row i = 0; i < count; i++) halves[side[i]].vertices.push_back(part.vertices[i]);
        Row first = part.first;
        bool is_whole = halves[LEFT].vertices.empty() || halves[RIGHT].vertices.empty();  // then minimum degree does it
        for (Side s : {LEFT, RIGHT}) {
            halves[s].first = first;
            halves[s].is_leaf = is_whole;
            first += Row(halves[s].vertices.size());
            if (!halves[s].vertices.empty()) inner.push_back(std::move(halves[s]));
        }
        std::copy(halves[BETWEEN].vertices.begin(), halves[BETWEEN].vertices.end(), order_.begin() + first);
        return true;
    }

    Weighted inside(const Part& part, const std::vector<Row>& place) const {
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

    // The number of connected pieces, and that of each vertex.
    static Row components(const Compressed& g, std::vector<Row>& piece) {
        Row n = g.size(), pieces = 0;
        piece.assign(n, -1);
        std::vector<Row> reached;
        reached.reserve(n);
        for (Row start = 0; start < n; start++) {
            if (piece[start] != -1) continue;
            size_t next = reached.size();
            reached.push_back(start);
            piece[start] = pieces;
            for (; next < reached.size(); next++)
                for (Index k = g.starts[reached[next]]; k < g.starts[reached[next] + 1]; k++) {
                    Row w = g.rows[k];
                    if (piece[w] != -1) continue;
                    piece[w] = pieces;
                    reached.push_back(w);
                }
            pieces++;
        }
        return pieces;
    }

    // Large pieces are parts of their own, small ones are one leaf.
    static void set_apart(const Part& part, const std::vector<Row>& piece, Row pieces, std::vector<Part>& inner) {
        std::vector<Row> count(pieces, 0), number(pieces, 0);
        for (Row p : piece) count[p]++;
        inner.push_back({{}, part.first, true});
        for (Row p = 0; p < pieces; p++)
            if (count[p] > LEAF) {
                number[p] = Row(inner.size());
                inner.push_back({{}, 0, false});
            }
        for (size_t i = 0; i < piece.size(); i++) inner[number[piece[i]]].vertices.push_back(part.vertices[i]);
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
    std::vector<Row> order_;
    std::vector<std::vector<Row>> places_;  // of each vertex in the part that a thread divides
};

}  // namespace

std::vector<Row> nested_dissection(const Compressed& graph, double most, Team& team) {
    Weighted all{graph, std::vector<Row>(graph.size(), 1), {}, graph.size()};
    std::vector<Row> group_of;
    Weighted few = contracted(all, equal_vertices(graph), group_of);
    if (few.graph.size() > WORTH * graph.size()) return Dissection(all, most, team.size()).run(team);
    std::vector<Row> order = Dissection(few, most, team.size()).run(team), place(order.size()), whole(graph.size());
    if (order.size() < size_t(few.graph.size())) return {};
    std::vector<Row> start(order.size() + 1, 0);
    for (size_t k = 0; k < order.size(); k++) {
        place[order[k]] = Row(k);
        start[k + 1] = start[k] + few.size[order[k]];
    }
    for (Row v = 0; v < graph.size(); v++) whole[start[place[group_of[v]]]++] = v;
    return whole;
}

std::vector<Row> fill_reducing(const Compressed& graph, double most, Team& team) {
    const Index n = graph.size();
    if (Index(graph.rows.size()) == n * (n - 1)) {  // complete: every order has the same fill, and in a mixed one pivots hardly grow
        std::vector<Row> order(n);
        Index step = Index(0.618 * double(n));
        while (std::gcd(step, n) > 1) step++;
        for (Index k = 0; k < n; k++) order[k] = Row(k * step % n);
        return order;
    }
    Ordering least = amd(graph);
    if (graph.size() <= LEAF) return std::move(least.order);
    std::vector<Row> order = nested_dissection(graph, most, team);
    if (order.empty()) return order;
    double entries = 0;
    for (Index count : column_counts(graph, Indices(order.begin(), order.end()))) entries += double(count);
    // `least` counts those of L and U
    return 2 * entries - graph.size() > least.entries ? std::move(least.order) : order;
}
