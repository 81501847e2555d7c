// The thresholds of the verdict: ldiv.engines.accuracy.limits says each of them, once, and why it is what it is. Python sets them when
// this module is loaded (bind/limits.cpp); none has a number here, and before nothing is accepted.
#pragma once
#include <limits>

#define EACH_LIMIT(OF)                                                                                                                         \
    OF(LOSSY) OF(FAINT) OF(SUSPICIOUS) OF(REFINED) OF(ADEQUATE) OF(ENOUGH) OF(COMPILED_STEPS) OF(SINGLE_STEPS) OF(BALANCED) OF(MODERATE) OF(SCALINGS) OF(DRIFT) \
    OF(DIAGONAL) OF(MATCHED) OF(SMALL_PIVOT) OF(SYMMETRIC_PIVOT) OF(RESOLVED) OF(INDEPENDENT) OF(NOISE) OF(LOST) OF(SYMMETRIC) OF(SIGN) OF(PLAIN_UNITS) OF(CANCELLED)

#define LIMIT(name) inline double name = std::numeric_limits<double>::quiet_NaN();
EACH_LIMIT(LIMIT)
#undef LIMIT
