// What a program of XLA asks of sparse matrices: A^-1 b, by LU factors that are its arrays.
#pragma once
#include "xla_ffi.hpp"

xla::Error* xla_sparse(xla::Frame* frame);
