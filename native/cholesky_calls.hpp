#pragma once
#include <nanobind/nanobind.h>

void bind_cholesky(nanobind::module_& m);
