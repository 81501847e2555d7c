// The table of operations as Python calls it: arguments, results, which are written, the letters of the options, if any, the number of threads.
#include "calls.hpp"

#include <nanobind/stl/string.h>

#include "arrays.hpp"
#include "directions.hpp"
#include "operation.hpp"

namespace nb = nanobind;

template <class T> static T given_as(nb::handle x, const char* what) {
    T found;
    if (!nb::try_cast(x, found)) throw nb::type_error(what);
    return found;
}

// Whether all members are accepted.
static bool called(const Operation& own, const nb::args& given) {
    const size_t count = own.arrays.size(), threads = count + !own.options.empty();
    if (given.size() != threads + 1) throw nb::type_error((own.name + ": expected " + std::to_string(threads + 1) + " arguments").c_str());
    std::optional<Array> arrays[MOST_ARRAYS];
    View views[MOST_ARRAYS];
    for (size_t j = 0; j < count; j++) {
        if (own.arrays[j].is_optional && given[j].is_none()) continue;
        views[j] = arrays[j].emplace(given[j], int(j) >= own.arguments);
    }
    Call call;
    if (!own.options.empty()) call.options = given_as<std::string>(given[count], "options: expected letters");
    const int parts = given_as<int>(given[threads], "threads: expected a number");
    own.bind(call, views);
    if (own.is_probed) call.probe = direction(int(call.size('n')));
    Unlocked free(double(views[own.arguments].items()) * double(call.size('n')));
    return own.run[int(call.dtype) - 1](call, parts);
}

void bind_operations(nb::module_& m) {
    for (const Operation& own : operations()) m.attr(own.name.c_str()) = nb::cpp_function([&own](nb::args given) { return called(own, given); }, nb::name(own.name.c_str()));
    // Rows by name: the arrays as (name, axes, the letter of a dtype, may it be None?), the number of arguments among them, the letters of each option.
    m.def("operations", [] {
        nb::dict rows;
        for (const Operation& own : operations()) {
            nb::list arrays, options;
            for (const Argument& x : own.arrays) arrays.append(nb::make_tuple(x.name, x.has_columns ? x.axes + "k" : x.axes, std::string(1, x.kind), x.is_optional));
            for (const std::string& letters : own.options) options.append(letters);
            rows[own.name.c_str()] = nb::make_tuple(arrays, own.arguments, options);
        }
        return rows;
    });
}
