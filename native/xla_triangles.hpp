// What a program of XLA asks of triangles: L^-1 B, A = L L^H, P A = L U.
#pragma once
#include "xla_ffi.hpp"

xla::Error* xla_triangles(xla::Frame* frame);
