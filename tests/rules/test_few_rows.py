"""Solutions, inverses, determinants and their gradients for every number of rows of which the compiled
loops are unrolled, and those beside it: by NumPy, in double precision.
"""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest
import torch

import ldiv

ROWS = [*range(1, 10), 16, 17]
DTYPES = ["float32", "float64", "complex64", "complex128"]
KINDS: list[Any] = ["gen", "sym", "her", "pos"]


def drawn(rng: Any, shape: tuple[int, ...], dtype: str) -> Any:
    x = rng.standard_normal(shape)
    return (x + 1j * rng.standard_normal(shape) if dtype[0] == "c" else x).astype(dtype)


def matrices(rng: Any, n: int, kind: str, dtype: str) -> Any:
    a = drawn(rng, (3, n, n), dtype)
    if kind == "gen":
        return a + 3 * np.eye(n, dtype=dtype)
    if kind == "sym":
        return a + a.mT
    a = a @ a.mT.conj() + np.eye(n, dtype=dtype) if kind == "pos" else a
    return a + a.mT.conj()


def part(g: Any, kind: str) -> Any:
    """The gradient along the matrices that an assumption allows."""
    if kind == "gen":
        return g
    return (g + (g.mT if kind == "sym" else g.mT.conj())) / 2


def close(found: Any, expected: Any, enough: float) -> None:
    """Whether both agree within this share of the largest number of each matrix."""
    error = np.abs(found - expected).max((-2, -1)) / np.abs(expected).max((-2, -1))
    assert (error < enough).all(), error


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", ROWS)
def test_by_numpy(n: int, kind: Any, dtype: str) -> None:
    rng = np.random.default_rng(n)
    a = matrices(rng, n, kind, dtype)
    wide = a.astype("complex128" if dtype[0] == "c" else "float64")
    inverse = np.linalg.inv(wide)
    enough = 100 * float(np.finfo(dtype).eps) * float(np.linalg.cond(wide).max())
    given = torch.tensor(a, requires_grad=True)
    x = ldiv.inv(given, assume_a=kind)
    close(x.detach().numpy(), inverse, enough)
    w = drawn(rng, a.shape, dtype)
    (g,) = torch.autograd.grad(x, given, torch.tensor(w))
    close(g.numpy(), part(-inverse.mT.conj() @ w @ inverse.mT.conj(), kind), n * enough)
    for k in (1, 5):
        b = drawn(rng, (3, n, k), dtype)
        close(ldiv.solve(a, b, assume_a=kind), np.linalg.solve(wide, b), enough)
        if kind == "gen":
            close(ldiv.solve(a, b, trans="T"), np.linalg.solve(wide.mT, b), enough)
            close(ldiv.solve(a, b, trans="H"), np.linalg.solve(wide.mT.conj(), b), enough)
    if kind == "gen":
        d = ldiv.det(given)
        exact = np.linalg.det(wide)
        np.testing.assert_allclose(d.detach().numpy(), exact, rtol=enough)
        (g,) = torch.autograd.grad(d, given, torch.ones_like(d))
        close(g.numpy(), exact.conj()[:, None, None] * inverse.mT.conj(), enough)


@pytest.mark.parametrize("power", [-500, -300, 300, 500])
def test_the_gradient_of_det_in_any_units(power: int) -> None:
    """d_bar times det A may leave the range where d_bar times the adjugate does not."""
    a = np.array([[3.0, 1.0], [1.0, 2.0]])
    given = torch.tensor(np.ldexp(a, power), requires_grad=True)
    d = ldiv.det(given)
    unit = 2.0 ** (60 if power > 0 else power)
    (g,) = torch.autograd.grad(d, given, torch.tensor(unit, dtype=d.dtype))
    expected = np.array([[2.0, -1.0], [-1.0, 3.0]])  # the adjugate of a
    # exp(log det A) has the rounding of the logarithm, which is 700
    np.testing.assert_allclose(np.ldexp(g.numpy() / unit, -power), expected, rtol=3e-12)


@pytest.mark.parametrize("n", [4, 12])
def test_an_inverse_has_the_digits_of_each_of_its_columns(n: int) -> None:
    """Rows in other units are columns of the inverse in other units, each of which is determined."""
    rng = np.random.default_rng(n)
    units = 10.0 ** np.linspace(-12, 12, n)
    a = (rng.standard_normal((n, n)) + 3 * np.eye(n)) * units[:, None]
    with mpmath.workdps(60):
        exact = np.array(mpmath.inverse(mpmath.matrix(a.tolist())).tolist()).astype(float)
    for found in (ldiv.inv(a), ldiv.inv(torch.tensor(a)).numpy(), ldiv.inv(a.T).T):
        assert (np.abs(found - exact).max(0) < 1e-12 * np.abs(exact).max(0)).all()
