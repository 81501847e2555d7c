// The thresholds of the verdict (ldiv.engines.accuracy.limits), as far as an answer is accepted here.
#pragma once

constexpr double LOSSY = 1e3;               // growth itself, times the range of the units of x: from here on a norm hides lost digits
constexpr double FAINT = 1e-8;              // growth times eps: from here on another direction is asked
constexpr double SUSPICIOUS = 1e-4;         // growth times eps: from here on the careful way looks again
constexpr double REFINED = 4;               // backward errors in eps: refinement would not reduce them
constexpr double ENOUGH = 100;              // of an inverse, in one random direction
constexpr double ADEQUATE = 16;             // of factors that give determinants
constexpr double BALANCED = 1.0 / 16;       // maxima of rows and columns within this ratio are left as they are
constexpr double MODERATE = 1099511627776;  // 2^40: where entries are larger, or all smaller, units are changed
constexpr double DRIFT = 4;                   // further apart, and kept scales are made anew
constexpr int SCALINGS = 10;                // at most; each halves the spread of the exponents
constexpr int STEPS = 2;                    // of refinement
