// Square patterns of entries by compressed columns, in numbers of 32 bits for rows and 64 for places.
#pragma once
#include <cstdint>
#include <vector>

#include "scalar.hpp"

using Row = int32_t;

struct Compressed {
    std::vector<Index> starts;
    std::vector<Row> rows;

    Row size() const { return Row(starts.size()) - 1; }
};
