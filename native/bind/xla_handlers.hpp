// The calls of programs of XLA, one for each kind of matrix; factors are arrays of the program.
#pragma once
#include <atomic>
#include <cstddef>

#include "xla_ffi.hpp"

xla::Error* xla_dense(xla::Frame* frame);      // A^-1 b, A^-1, det A
xla::Error* xla_finite(xla::Frame* frame);     // x, if it is finite
xla::Error* xla_here(xla::Frame* frame);       // a place in a program
xla::Error* xla_entries(xla::Frame* frame);    // S x, and u v^H at the places of S
xla::Error* xla_sparse(xla::Frame* frame);     // A^-1 b, det A and entries of A^-1, by LU or Cholesky
xla::Error* xla_operation(xla::Frame* frame);  // what the table of operations has

// The numbers of accepted factorizations and solves of sparse matrices, over all calls.
inline std::atomic<size_t> xla_factorizations{0}, xla_solves{0};
