"""Equations of matrices whose units differ by ten decades are solved to what the numbers determine."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

import ldiv

EQUATIONS = {
    "sylvester": (ldiv.solve_sylvester, lambda A, B, one, two: np.kron(A, two) + np.kron(one, B.T)),
    "stein": (
        lambda A, B, Q: ldiv.solve_discrete_lyapunov(A, Q),
        lambda A, B, one, two: np.kron(one, one) - np.kron(A, A.conj()),
    ),
}


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
@pytest.mark.parametrize("name", EQUATIONS)
@pytest.mark.parametrize("seed", range(12))
def test_entries_have_the_digits_that_are_determined(name, dtype, seed):
    """|X - X*| <= 1000 eps | |K^-1| (|K| |X*| + |Q|) |, K the matrix of the equation."""
    rng, (solve, matrix) = np.random.default_rng(seed), EQUATIONS[name]
    n, m = (int(k) for k in rng.integers(1, 5, 2))
    A, B, Q = (rng.standard_normal(shape) for shape in ((n, n), (m, m), (n, m)))
    if dtype == "complex64":
        A = A + 1j * rng.standard_normal((n, n))
    A = A * 10.0 ** rng.integers(-5, 6, n)
    if name == "stein":
        A, Q = A / (1.7 * abs(A).max()), Q @ Q.T
    else:
        B = B * 10.0 ** rng.integers(-5, 6, m)[:, None]
    A, B, Q = (
        x.astype(dtype if np.iscomplexobj(x) else dtype.replace("complex64", "float32"))
        for x in (A, B, Q)
    )
    K = matrix(A.astype(complex), B.astype(complex), np.eye(n), np.eye(m))
    with mpmath.workdps(50):
        inverse = mpmath.matrix(K.tolist()) ** -1
        x = inverse * mpmath.matrix(Q.astype(complex).ravel().tolist())
        right, inverse = (np.array(y.tolist(), complex) for y in (x, inverse))
    allowed = abs(inverse) @ (abs(K) @ abs(right) + abs(Q).reshape(-1, 1))
    eps = np.finfo(dtype).eps
    if (allowed.max() * eps > 1e-3 * abs(right).max()) or np.linalg.cond(K) * eps > 1e-2:
        return  # not determined
    found = solve(A, B, Q)
    assert abs(found.reshape(-1, 1) - right).max() <= 1000 * eps * allowed.max()
