#include "directions.hpp"

#include <nanobind/nanobind.h>

#include <cmath>
#include <unordered_map>

#include "arrays.hpp"

namespace nb = nanobind;

static std::unordered_map<int, std::shared_ptr<const Direction>> known;
constexpr size_t MOST = 64;

std::shared_ptr<const Direction> direction(int n) {
    auto found = known.find(n);
    if (found != known.end()) return found->second;
    nb::object z = nb::module_::import_("ldiv.engines.accuracy.singularity_check").attr("direction")(n);
    Array values(z, false);
    auto made = std::make_shared<Direction>();
    made->z.assign(values.as<double>(), values.as<double>() + n);
    for (double x : made->z) made->size += std::fabs(x);
    if (known.size() >= MOST) known.clear();
    return known[n] = made;
}
