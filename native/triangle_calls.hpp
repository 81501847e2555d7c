// What Python may ask of dense triangles.
#pragma once
#include <nanobind/nanobind.h>

void bind_triangles(nanobind::module_& m);
