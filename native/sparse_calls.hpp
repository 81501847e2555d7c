#pragma once
#include <nanobind/nanobind.h>

void bind_sparse_lu(nanobind::module_& m);
