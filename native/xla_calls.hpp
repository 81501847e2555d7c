#pragma once
#include <nanobind/nanobind.h>

void bind_xla_calls(nanobind::module_& m);
