#pragma once
#include <nanobind/nanobind.h>

void bind_pattern(nanobind::module_& m);
