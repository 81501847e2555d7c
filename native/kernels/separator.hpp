// A vertex separator: few vertices whose removal disconnects a graph into two halves.
#pragma once
#include <functional>

#include "coarsen.hpp"

enum Side : char { LEFT, RIGHT, BETWEEN };

// The side of each vertex of a connected graph; a half has at most the share `most` of all. Empty if the team was stopped.
std::vector<Side> separator(Weighted graph, double most, const std::function<bool()>& should_continue);
