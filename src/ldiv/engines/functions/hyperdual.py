"""X = sum over S of X_S e_S: matrices over the hyperdual numbers, e_1^2 = ... = e_m^2 = 0.

    f(A + e_1 E_1 + ... + e_m E_m) has the coefficient D^m f(A)[E_1, ..., E_m] at e_1 ... e_m

for every f that is analytic on the spectrum of A: an algorithm for f that is written with sums,
products and quotients gives its derivatives as it stands. It is the algorithm applied to block
triangular matrices, f([[A, E], [0, A]]) for m = 1, without their zeros and repetitions: a product
costs 3^m products of matrices instead of 8^m.
An X is an array (2^m, n, n). The bits of an index are the set S; so the first half of X is without
e_m, X = Y + e_m Z, and each function here calls itself on the halves.
Reference: Higham, Functions of Matrices (2008), section 3.2; Fike and Alonso, AIAA 2011-886, the
numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ldiv.core.frameworks.trees import HostArray


def hyperdual(a: HostArray, es: Sequence[HostArray]) -> HostArray:
    """A + e_1 E_1 + ... + e_m E_m."""
    x = np.zeros((2 ** len(es), *a.shape), np.result_type(a, *es))
    x[0] = a
    for i, e in enumerate(es):
        # e_i is the set {i}: index 2^i
        x[2**i] = e
    return x


def identity(x: HostArray) -> HostArray:
    """I, like X."""
    one = np.zeros_like(x)
    one[0] = np.eye(x.shape[-1])
    return one


def product(x: HostArray, y: HostArray) -> HostArray:
    """X Y."""
    if len(x) == 1:
        return (x[0] @ y[0])[None]
    # (X + e dX) (Y + e dY) = X Y + e (X dY + dX Y), as e^2 = 0
    (x, dx), (y, dy) = halves(x), halves(y)
    return np.concatenate([product(x, y), product(x, dy) + product(dx, y)])


def quotient(solve: Callable[[HostArray], HostArray], x: HostArray, b: HostArray) -> HostArray:
    """X^-1 B, where solve(b) is X_0^-1 b, of the part of X without any e."""
    if len(x) == 1:
        return solve(b[0])[None]
    (x, dx), (b, db) = halves(x), halves(b)
    y = quotient(solve, x, b)  # X dY = dB - dX Y
    return np.concatenate([y, quotient(solve, x, db - product(dx, y))])


def sylvester(solve: Callable[[HostArray], HostArray], x: HostArray, c: HostArray) -> HostArray:
    """Y with X Y + Y X = C, where solve(c) is that of X_0."""
    if len(x) == 1:
        return solve(c[0])[None]
    (x, dx), (c, dc) = halves(x), halves(c)
    # X dY + dY X = dC - dX Y - Y dX
    y = sylvester(solve, x, c)
    return np.concatenate([y, sylvester(solve, x, dc - product(dx, y) - product(y, dx))])


def power(x: HostArray, n: int) -> HostArray:
    """X^n, n >= 0, by squaring."""
    result = None
    while n:
        # X^n is the product of X^(2^i) over the bits i of n
        if n & 1:
            result = x if result is None else product(result, x)
        if n := n >> 1:
            x = product(x, x)
    return identity(x) if result is None else result


def halves(x: HostArray) -> tuple[HostArray, HostArray]:
    """Y and Z of X = Y + e_m Z."""
    return x[: len(x) // 2], x[len(x) // 2 :]
