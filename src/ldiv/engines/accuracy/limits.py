"""Every threshold of the verdict, and why it is what it is; what a dtype can do. The compiled part reads
them here when it is loaded, by their names.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ldiv.structures.asymmetry import DIGITS as SYMMETRIC_DIGITS

# -- the probe for singularity: growth |M| |y| / |z| of a solution of M y = z, times eps -------------

# of growth itself, times the range of the units of x: from here on a norm hides lost digits
LOSSY = 1e3
FAINT = 1e-8  # from here on another direction is asked: the first may hide what grows
SUSPICIOUS = 1e-4  # from here on two refinements look again: of smaller growth four digits are left
HOPELESS = 0.1  # from here on no digit is certain, and nothing can help
CONTRACTS = 0.02  # the error that a refinement must leave: of a singular matrix it leaves them all

# -- backward errors, in eps ---------------------------------------------------------------------------

REFINED = 4  # as small as the rounding of a residual: refinement would not reduce it
ADEQUATE = 16  # of solves that are not refined, for those who look at what comes of many of them
ENOUGH = 100  # the most that is accepted while another attempt may be more careful

# -- refinement: each step must halve the error, or is the last one ---------------------------------

STEPS = 5  # of usual attempts: where more are needed a better factor costs less
COMPILED_STEPS = 2  # of compiled calls, which decline then
CAREFUL_STEPS = 20  # of attempts after which there is none, and in traces
UNREAD_STEPS = 2  # on a device that nobody asks whether there is need: they always take place
SINGLE_STEPS = 12  # with a factor in single precision, which gives a digit or more by each

# -- units: rows and columns are scaled by powers of two ------------------------------------------------

BALANCED = 1 / 16  # maxima of rows and columns within this ratio are left as they are
MODERATE = 2.0**40  # nor are entries larger, or all smaller, than this: engines square them
SCALINGS = 10  # at most; each halves the spread of the exponents
DRIFT = (
    4  # maxima that are further apart by this than BALANCED: scales of another matrix do not serve
)
BALANCINGS = 20  # of a pencil, by sums
SUM_SCALINGS = 200  # of one matrix, by sums, which come near 1 like 1 / k where it is graded
SETTLED = 1e-3  # a change of scales that is no more than this is the last one

# -- pivots of sparse LU, times the largest of their column ---------------------------------------------

DIAGONAL = 1e-3  # that of A stays on the diagonal unless it is smaller
MATCHED = 0.1  # the same of a pivot of a matching, which knows no values
SMALL_PIVOT = 1e-4  # pivots of another matrix serve unless one of them is smaller
SYMMETRIC_PIVOT = 0.01  # of L D L^T: smaller ones are delayed, and |L| is no more than its inverse
CAREFUL_PIVOT = 0.25  # of a second attempt: roots always have larger ones, by rook pivoting

# -- eigenvalues: gaps, and what is rounding --------------------------------------------------------------

RESOLVED = 16  # error bounds that must lie between two eigenvalues
INDEPENDENT = 16  # n eps that the smallest singular value of all eigenvectors must exceed
NOISE = 64  # units of rounding that a coupling must exceed
LOST = 1 / 3  # of the digits: a derivative that loses more gives a warning

# -- quadratic programs ------------------------------------------------------------------------------------

PLAIN_UNITS = 20  # powers of two: numbers within them of 1 are left in the user's units
CANCELLED = 100  # square roots of eps of the terms of x, that its slack may have where x is 0

# -- promises ---------------------------------------------------------------------------------------------

SYMMETRIC = (
    SYMMETRIC_DIGITS  # of the digits: mirror images that differ by eps to this power are alike
)
SIGN = 8  # n eps: the sign of a determinant that is to be positive, of complex numbers


class Limits(NamedTuple):
    """The limits of a dtype, as Python numbers, made once: `np.finfo` takes as long as a small
    solve.
    """

    eps: float
    tiny: float
    max: float
    accurate: float  # the backward error that is accepted of the last attempt
    usually_accurate: float  # of those before


@cache
def limits(dtype: np.dtype[Any]) -> Limits:
    """The limits of a dtype of NumPy."""
    info = np.finfo(dtype)
    eps = float(info.eps)
    accurate = eps ** (2 / 3)
    return Limits(eps, float(info.tiny), float(info.max), accurate, min(ENOUGH * eps, accurate))
