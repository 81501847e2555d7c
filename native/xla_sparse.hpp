// What a program of XLA asks of sparse matrices: A^-1 b, det A and entries of A^-1, by LU factors that are its arrays.
#pragma once
#include <atomic>
#include <cstddef>

#include "xla_ffi.hpp"

xla::Error* xla_sparse(xla::Frame* frame);

// What all calls have done that was accepted.
inline std::atomic<size_t> xla_factorizations{0}, xla_solves{0};
