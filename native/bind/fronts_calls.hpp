// Python's objects of fronts and of Cholesky factors, as sparse_calls.cpp takes and gives them.
#pragma once
#include "arrays.hpp"
#include "kernels/cholesky.hpp"

// The fronts of a ldiv._native.Fronts; an error where they do not know their slots.
std::shared_ptr<const Fronts> located_fronts(nanobind::handle fronts);
// A factor as ldiv._native.Cholesky.
template <class T> nanobind::object cholesky_calls(std::shared_ptr<Cholesky<T>> own, Dtype dtype);
