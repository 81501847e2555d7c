// exp(A) by scaling and squaring, and its derivative (ldiv.engines.functions.matrix_exponential), in double precision.
#pragma once
#include <vector>

#include "buffer.hpp"
#include "scalar.hpp"

template <class T> struct ExponentialWork {
    Buffer<Wide<T>> room;
    std::vector<int> exchanges;
};

// Both return true if the answer is accepted; otherwise what they wrote is not an answer. Matrices row by row. Declined: large matrices, of which
// digits are lost, and triangles, whose diagonal is found by itself.
template <class T> bool expm(const T* a, T* f, int n, ExponentialWork<T>& work);
// L(A, E) of exp(A + E) = exp(A) + L(A, E) + .., or its adjoint L(A, E^H)^H.
template <class T> bool expm_derivative(const T* a, const T* e, bool is_adjoint, T* l, int n, ExponentialWork<T>& work);
