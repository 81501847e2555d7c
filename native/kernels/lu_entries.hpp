// Entries of an inverse in the places of L and U, from the factors alone.
#pragma once
#include "lu.hpp"

// Entry (j, i) of M^-1 for every slot (i, j) of M; where it is above the blocks that is zero.
template <class T> void inverse_entries(const LuAnalysis& analysis, const LuParts<T>& factors, T* slots);
