// The parts of ldiv._native, one for each file of calls.
#pragma once
#include <nanobind/nanobind.h>

void load_lapack();                         // lapack.cpp: takes SciPy's; an import error where they are not what they were
void load_limits();                         // limits.cpp: the thresholds of ldiv.engines.accuracy.limits
void bind_limits(nanobind::module_& m);
void bind_pattern(nanobind::module_& m);    // pattern.cpp: looks at sparse patterns
void bind_fronts(nanobind::module_& m);     // fronts_calls.cpp: Cholesky and L D U by fronts
void bind_sparse(nanobind::module_& m);  // sparse_calls.cpp
void bind_ordering(nanobind::module_& m);   // ordering_calls.cpp: fill-reducing orders
void bind_operations(nanobind::module_& m);  // operation_calls.cpp: those of dense matrices, member by member
void bind_xla_calls(nanobind::module_& m);  // xla_calls.cpp
