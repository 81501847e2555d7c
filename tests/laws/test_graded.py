"""A graded system is solved to the digits that it determines, in every form, mode and unit.

    |x - A^-1 b| <= C eps cond(A, x) |x|,   cond(A, x) = | |A^-1| (|A| |x| + |b|) | / |x|   (Skeel)

The condition in the norm may be 1e26 where this one is 10. Refused is what is singular to working
precision in all units, as a matrix with rho(|A^-1| |A|) near 1 / eps is (Bauer, Demmel); the
references have 100 digits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import mpmath
import numpy as np
import pytest
import scipy.linalg

import ldiv

C = 4e3
DECADES = (0.0, 1e-30, 1e-24, 1e-18, 1e-14, 1e-10, 1e-6, 1e-2)
Array = np.ndarray[Any, Any]
exact = np.vectorize(mpmath.mpf, otypes=[object])
rounded = np.vectorize(float, otypes=[float])


def nearly_triangular(rng: np.random.Generator, n: int, off: float, g: float) -> Array:
    upper, lower = (f(rng.standard_normal((n, n)), k) for f, k in ((np.triu, 1), (np.tril, -1)))
    return np.eye(n) + g * upper + off * lower


def permuted(rng: np.random.Generator, n: int, off: float, g: float) -> Array:
    a = nearly_triangular(rng, n, off, g)
    return a[np.ix_(rng.permutation(n), rng.permutation(n))]


def in_other_units(rng: np.random.Generator, n: int, off: float, g: float) -> Array:
    r, c = 10.0 ** rng.uniform(-9, 9, (2, n))
    return r[:, None] * nearly_triangular(rng, n, off, g) * c


def exponential(rng: np.random.Generator, n: int, off: float, g: float) -> Array:
    a: Array = scipy.linalg.expm(np.triu(rng.standard_normal((n, n))) * np.sqrt(g))
    return a + off * rng.standard_normal((n, n))


FAMILIES: dict[str, Callable[..., Array]] = {
    "upper": nearly_triangular,
    "lower": lambda *args: nearly_triangular(*args).T.copy(),
    "permuted": permuted,
    "in other units": in_other_units,
    "exponential": exponential,
}


class System(NamedTuple):
    """A x = b and A^T lam = c with references and conditions; rho is that of A in its best units."""

    a: Array
    b: Array
    c: Array
    x: Array
    lam: Array
    of_x: float
    of_lam: float
    rho: float

    @property
    def eps(self) -> float:
        return float(np.finfo(self.a.dtype).eps)

    def is_solved(self, x: Any, lam: Any = None) -> bool:
        of_x = error(x, self.x) <= C * self.eps * max(self.of_x, 1)
        return of_x and (lam is None or error(lam, self.lam) <= C * self.eps * max(self.of_lam, 1))


def error(found: Any, x: Array) -> float:
    return float(np.abs(exact(np.asarray(found, float)) - x).max() / np.abs(x).max())


def system(family: str, n: int, off: float, g: float, seed: int, dtype: str) -> System:
    rng = np.random.default_rng(seed)
    a = FAMILIES[family](rng, n, off, g).astype(dtype)
    b, c = np.zeros((2, n), dtype)
    k = n if seed % 2 else max(n // 4, 1)
    b[:k], c[n - k :] = rng.standard_normal((2, k))
    with mpmath.workdps(100):
        inverse = np.array((mpmath.matrix(a.astype(float).tolist()) ** -1).tolist(), object)
        x, lam = (v @ exact(w.astype(float)) for v, w in ((inverse, b), (inverse.T, c)))
    size, of_inverse = np.abs(a.astype(float)), np.abs(rounded(inverse))

    def skeel(inverse: Array, a: Array, x: Array, b: Array) -> float:
        x = np.abs(rounded(x))
        return float((inverse @ (a @ x + np.abs(b))).max() / x.max())

    of_x, of_lam = skeel(of_inverse, size, x, b), skeel(of_inverse.T, size.T, lam, c)
    rho = float(np.abs(np.linalg.eigvals(of_inverse @ size)).max())
    return System(a, b, c, x, lam, of_x, of_lam, rho)


@cache
def systems(family: str, dtype: str = "float64", count: int = 1) -> Sequence[System]:
    """The part that is not triangular swept through decades; those that have an answer."""
    made = []
    for at, off in enumerate(DECADES):
        for seed in range(count):
            g = (1.0, 10.0, 100.0)[(at + seed) % 3]
            found = system(family, 12, off, g, 10 * at + seed, dtype)
            if found.eps * max(found.rho, found.of_x, found.of_lam) < 1e-5:
                made.append(found)
    return made


def matrix(a: Array, form: str) -> Any:
    return a if form == "dense" else ldiv.csc_array(a)


METHODS = {"dense": "auto", "sparse": "auto", "SuperLU": "superlu"}


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("form", METHODS)
@pytest.mark.parametrize("family", FAMILIES)
def test_solutions_have_the_digits_that_the_problem_determines(
    family: str, form: str, dtype: str
) -> None:
    seen = 0
    for s in systems(family, dtype):
        A = matrix(s.a, form)
        x = ldiv.solve(A, s.b, method=METHODS[form])
        lam = ldiv.solve(A, s.c, method=METHODS[form], trans="T")
        assert s.is_solved(x, lam), (s.of_x, error(x, s.x), s.of_lam, error(lam, s.lam))
        seen += 1
    assert seen >= 3


@pytest.mark.parametrize("form", ["dense", "sparse"])
@pytest.mark.parametrize("family", FAMILIES)
def test_derivatives_are_judged_by_their_own_right_hand_side(family: str, form: str) -> None:
    for s in systems(family):
        _, pullback = ldiv.vjp(ldiv.solve, matrix(s.a, form), s.b)
        A_bar, b_bar = pullback(s.c)
        assert s.is_solved(s.x, b_bar)
        expected = -rounded(np.outer(s.lam, s.x))
        found = A_bar if form == "dense" else A_bar.toarray()
        at = s.a != 0 if form == "sparse" else np.full(s.a.shape, True)
        largest = float(np.abs(s.lam).max() * np.abs(s.x).max())
        tolerance = C * s.eps * max(s.of_x + s.of_lam, 1) * largest
        assert np.abs(found - expected)[at].max() <= tolerance


@pytest.mark.exhaustive
@pytest.mark.parametrize("form", METHODS)
@pytest.mark.parametrize("family", FAMILIES)
def test_more_of_them(family: str, form: str) -> None:
    for dtype in ("float64", "float32"):
        for s in systems(family, dtype, 4):
            x = ldiv.solve(matrix(s.a, form), s.b, method=METHODS[form])
            assert s.is_solved(x), (s.of_x, error(x, s.x))


@pytest.mark.parametrize("state", ["raise", "nan"])
@pytest.mark.parametrize("family", FAMILIES)
def test_members_of_a_batch_have_the_verdict_that_they_have_alone(family: str, state: str) -> None:
    chosen = list(systems(family))
    a, b = np.stack([s.a for s in chosen]), np.stack([s.b for s in chosen])
    if state == "nan":
        a, b = np.append(a, np.ones_like(a[:1]), 0), np.append(b, b[:1], 0)
    with ldiv.errstate(singular=state):
        x = ldiv.solve(a, b[..., None])[..., 0]
    assert all(s.is_solved(found) for s, found in zip(chosen, x, strict=False))
    assert np.isnan(x[len(chosen) :]).all()


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_programs_solve_them_without_python(dtype: str) -> None:
    """A program has no second attempt by another engine under "nan"; singular members are NaN."""
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    chosen = [s for family in FAMILIES for s in systems(family, dtype)]
    rng = np.random.default_rng(1)
    singular = np.stack([s.a for s in chosen])
    rows = [rng.permutation(12)[:2] for _ in chosen]
    for a, (i, j) in zip(singular, rows, strict=True):
        a[i] = a[j] * 2.0 ** rng.integers(-20, 20)
    a, b, c = (np.stack([getattr(s, name) for s in chosen]) for name in "abc")

    @jax.jit
    @jax.vmap
    def solved(a: Array, b: Array, c: Array) -> tuple[Array, Array]:
        with ldiv.errstate(singular="nan"):
            x, pullback = jax.vjp(lambda b: ldiv.solve(a, b), b)
            return x, pullback(c)[0]

    given = np.concatenate([a, singular]), *(np.tile(v, (2, 1)) for v in (b, c))
    found = list(zip(*solved(*given), strict=True))
    assert all(s.is_solved(*pair) for s, pair in zip(chosen, found, strict=False))
    assert all(np.isnan(x).all() for x, _ in found[len(chosen) :])


@pytest.mark.parametrize("form", METHODS)
@pytest.mark.parametrize("family", ["upper", "lower", "permuted"])
def test_singular_ones_are_refused(family: str, form: str) -> None:
    """Two rows are equal up to a power of two: exactly singular, however graded the rest is."""
    for seed, off in enumerate(DECADES[1:]):
        rng = np.random.default_rng(seed)
        a = FAMILIES[family](rng, 12, off, 3.0)
        i, j = rng.permutation(12)[:2]
        a[i] = a[j] * 2.0 ** rng.integers(-40, 40)
        with pytest.raises(ldiv.SingularMatrixError):
            ldiv.solve(matrix(a, form), rng.standard_normal(12), method=METHODS[form])


@pytest.mark.parametrize("form", METHODS)
def test_a_singular_part_is_refused_though_nothing_asks_for_it(form: str) -> None:
    """The unknowns of the singular part are arbitrary, though those that b asks for have a
    condition of 2.
    """
    rng = np.random.default_rng(0)
    part = rng.integers(-9, 10, (6, 3)) @ rng.integers(-9, 10, (3, 6)) * 0.1
    a = scipy.linalg.block_diag(nearly_triangular(rng, 6, 1e-18, 3.0), part)
    b = np.append(rng.standard_normal(6), np.zeros(6))
    with pytest.raises(ldiv.SingularMatrixError):
        ldiv.solve(matrix(a, form), b, method=METHODS[form])


@pytest.mark.parametrize("form", METHODS)
@pytest.mark.parametrize("seed", [390, 1188, 2139])
def test_a_residual_that_no_step_reduces_is_suspicious(seed: int, form: str) -> None:
    """Two equal rows, or columns, beside entries of all sizes: a pivot that an engine lifted makes the
    solution look like one.
    """
    rng = np.random.default_rng(seed)
    a = scipy.linalg.expm(np.triu(rng.standard_normal((12, 12))) * 10)
    a, (i, j) = a + 1e-24 * rng.standard_normal((12, 12)), rng.permutation(12)[:2]
    a = a.T.copy() if seed % 2 else a
    a[i] = a[j] * 2.0 ** rng.integers(-40, 40)
    a = a.T.copy() if seed % 4 > 1 else a
    with pytest.raises(ldiv.SingularMatrixError):
        ldiv.solve(matrix(a, form), rng.standard_normal(12), method=METHODS[form])
