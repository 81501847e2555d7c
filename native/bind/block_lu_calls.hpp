#pragma once
#include <nanobind/nanobind.h>

#include <memory>

struct Fronts;

// The factor of the values in the slots of `both`; or the supernode whose diagonal block is singular; or None.
nanobind::object block_lu(std::shared_ptr<const Fronts> fronts, nanobind::handle values, int threads);
