// What a program of XLA asks of dense matrices: A^-1 b, A^-1, det A, by factors that are its arrays.
#pragma once
#include <string>

#include "xla_ffi.hpp"

// "what kind op form ...": what is asked, of which kind of matrix, of which view of it, b a vector or a matrix.
// The rest is for the careful way alone.
struct DenseRule {
    explicit DenseRule(const xla::Span& text);
    bool is_whole() const { return kind && op && form; }

    std::string text, what, by;
    char kind = 0, op = 0, form = 0;
};

xla::Error* xla_dense(xla::Frame* frame);
