// What calls of Python share that work without the GIL.
#pragma once
#include <nanobind/nanobind.h>

#include <new>

#include "arrays.hpp"
#include "kernels/team.hpp"

// f() without the GIL: whether there was memory; Ctrl-C is raised.
template <class F> bool attempted(Team& team, F f) {
    bool well = false;
    {
        nanobind::gil_scoped_release free;
        try {
            well = f();
        } catch (const std::bad_alloc&) {
        }
    }
    if (team.is_interrupted()) throw nanobind::python_error();
    return well;
}
