// A few vertices without which a graph falls into two halves.
#pragma once
#include <functional>

#include "coarsen.hpp"

enum Side : char { LEFT, RIGHT, BETWEEN };

// The side of each vertex of a connected graph; a half has at most the share `most` of all. None if it is not to go on.
std::vector<Side> separator(Weighted graph, double most, const std::function<bool()>& goes_on);
