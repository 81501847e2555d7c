#include "checked/limits.hpp"

#include "calls.hpp"

namespace nb = nanobind;

void load_limits() {
    nb::object from = nb::module_::import_("ldiv.engines.accuracy.limits");
#define TAKE(name) name = nb::cast<double>(from.attr(#name));
    EACH_LIMIT(TAKE)
#undef TAKE
}

void bind_limits(nb::module_& m) {
    m.def("limits", [] {
        nb::dict all;
#define GIVE(name) all[#name] = name;
        EACH_LIMIT(GIVE)
#undef GIVE
        return all;
    });
}
