// Fill-reducing orderings, as Python asks for them.
#include <numeric>

#include "calls.hpp"
#include "columns_of.hpp"
#include "factor_calls.hpp"
#include "kernels/adjacency.hpp"
#include "kernels/dissection.hpp"

namespace nb = nanobind;
using nb::literals::operator""_a;

// Whether there was memory for the order of A + A^T, which is written.
static bool ordering(nb::handle starts, nb::handle rows, double most, nb::handle order, int threads) {
    Array s(starts, false), r(rows, false), found(order, true);
    Compressed a = columns_of(s, r);
    require(found.dtype == Dtype::i8 && found.items() == a.size(), "order: expected room for 64-bit integers");
    require(most >= 0.5 && most <= 1, "most: expected a share of at least one half");
    Team team(threads);
    return without_gil([&] {
        std::vector<Row> own(a.size());
        std::iota(own.begin(), own.end(), 0);
        std::vector<Row> made = fill_reducing(symmetric_blocks(a, own, std::vector<Row>(a.size(), 0)), most, team);
        if (Row(made.size()) < a.size()) return false;
        std::copy(made.begin(), made.end(), found.as<int64_t>());
        return true;
    });
}

void bind_ordering(nb::module_& m) {
    m.def("ordering", &ordering, "starts"_a, "rows"_a, "most"_a, "order"_a, "threads"_a);
}
