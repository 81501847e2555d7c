#pragma once
#include "checked/directions.hpp"

// Calls Python the first time that a size is asked for. With the GIL, which is the lock: it survives a fork.
std::shared_ptr<const Direction> direction(int n);
