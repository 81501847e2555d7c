// What programs of XLA ask of matrices, by factors that are arrays of theirs: one call for each kind of matrix.
#pragma once
#include <atomic>
#include <cstddef>

#include "xla_ffi.hpp"

xla::Error* xla_dense(xla::Frame* frame);      // A^-1 b, A^-1, det A
xla::Error* xla_finite(xla::Frame* frame);     // x, if it is finite
xla::Error* xla_here(xla::Frame* frame);       // a place in a program
xla::Error* xla_sparse(xla::Frame* frame);     // A^-1 b, det A and entries of A^-1, by LU or Cholesky
xla::Error* xla_operation(xla::Frame* frame);  // what the table of operations has

// What all calls for sparse matrices have done that was accepted.
inline std::atomic<size_t> xla_factorizations{0}, xla_solves{0};
