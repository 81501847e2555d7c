"""Entries of an inverse and their tangent, against 50 digits and dense inverses: every engine."""

from __future__ import annotations

from os import environ
from pathlib import Path

import mpmath
import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

from ldiv.core.frameworks.pattern import Pattern
from ldiv.engines.factors.factorize import factorize_by
from ldiv.engines.libraries import native, ordering, work
from ldiv.engines.registry import engines
from ldiv.engines.selected import fronts, general
from ldiv.errors import NotPositiveDefiniteError, SingularMatrixError
from ldiv.structures.sparse import Sparse
from ldiv.structures.symmetric import Symmetric

pytestmark = pytest.mark.skipif(native.native is None, reason=native.why_not)
mpmath.mp.dps = 50
DATA = Path(environ.get("LDIV_TEST_DATA", "/nowhere"))
cholesky = engines()["cholesky"]


def grid(size, dimensions):
    """The Laplacian of a grid, with five points in two dimensions and seven in three."""
    line = sp.diags_array(
        [-np.ones(size - 1), 2 * np.ones(size), -np.ones(size - 1)], offsets=(-1, 0, 1)
    )
    total = line
    for _ in range(dimensions - 1):
        total = sp.kronsum(total, line)
    return sp.coo_array(total)


def scattered(n, dtype="float64", symmetric=True, strong=6.0):
    """A random pattern with a random diagonal."""
    rng = np.random.default_rng(n)
    a = sp.coo_array(sp.random_array((n, n), density=min(1, 3 / n), rng=rng))
    values = rng.standard_normal(a.nnz)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * rng.standard_normal(a.nnz)
    a = sp.coo_array((values.astype(dtype), (a.row, a.col)), a.shape)
    a = a + a.conj().T if symmetric else a
    return sp.coo_array(a + strong * sp.eye_array(n, dtype=dtype))


def structured(engine, a):
    structure = Sparse(Pattern(a.row, a.col, a.shape))
    return Symmetric(structure) if engine is cholesky else structure


def factor_of(engine, a):
    """The factor as rules get it: a careful attempt follows if the first one is not accurate."""
    structure = structured(engine, a)
    assumption = "pos" if engine is cholesky else "gen"
    return structure, factorize_by(engine, structure, a.data, assumption)


def direction(structure, a):
    """Random numbers in the slots, as symmetric as the structure."""
    rng = np.random.default_rng(1)
    e = rng.standard_normal(structure.pattern.slots).astype(a.dtype)
    if a.dtype.kind == "c":
        e = e + 1j * rng.standard_normal(len(e))
    return (
        (e + e[structure.pattern.transposition].conj()) / 2
        if isinstance(structure, Symmetric)
        else e
    )


def difference(x, y):
    return abs(x - y).max() / max(abs(y).max(), np.finfo(float).tiny)


MATRICES = {
    "grid 2D": (cholesky, grid(9, 2)),
    "grid 3D": (cholesky, grid(5, 3)),
    "one": (cholesky, scattered(1)),
    "scattered": (cholesky, scattered(60)),
    "diagonal": (cholesky, sp.coo_array(sp.diags_array(np.arange(1.0, 8)))),
    "full": (cholesky, sp.coo_array(np.ones((9, 9)) + np.eye(9))),
    "complex": (cholesky, scattered(50, "complex128", strong=12.0)),
    "unsymmetric": (general, scattered(60, symmetric=False)),
    "unsymmetric and complex": (general, scattered(50, "complex128", symmetric=False)),
    "indefinite": (general, sp.coo_array(grid(8, 2) - 3.1 * sp.eye_array(64))),
    "a grid without its symmetry": (general, grid(5, 3)),
}  # fmt: skip


@pytest.mark.parametrize("name", MATRICES)
def test_entries_and_tangent_against_a_dense_inverse(name):
    engine, a = MATRICES[name]
    structure, f = factor_of(engine, a)
    i, j = structure.pattern.indices, structure.pattern.columns
    inverse = np.linalg.inv(a.toarray())
    assert difference(f.inverse_entries(), inverse[j, i]) < 1e-13
    e = direction(structure, a)
    tangent = -inverse @ structure.pattern.csc(e).toarray() @ inverse
    assert difference(f.inverse_tangent(e), tangent[j, i]) < 1e-13
    sign, size = np.linalg.slogdet(a.toarray())
    assert np.allclose(f.slogdet(), (sign, size), rtol=1e-12, atol=1e-12)
    b = np.cos(np.arange(2.0 * len(inverse))).reshape(-1, 2)
    for op, m in (("N", a.toarray()), ("T", a.toarray().T), ("H", a.toarray().conj().T)):
        assert difference(m @ f.solve(b, op), b) < 1e-12


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
@pytest.mark.parametrize("engine", [cholesky, general])
def test_single_precision(engine, dtype):
    a = scattered(40, dtype, strong=12.0)
    structure, f = factor_of(engine, a)
    inverse = np.linalg.inv(a.toarray())
    z = f.inverse_entries()
    assert z.dtype == dtype
    assert difference(z, inverse[structure.pattern.columns, structure.pattern.indices]) < 1e-5


def spline(n):
    """R + t G of a smoothing spline, of which two knots are close, and t G, which makes up most of it."""
    x = np.sort(np.random.default_rng(0).random(n))
    x[n // 2] = x[n // 2 - 1] + 2.6e-6
    h = np.diff(x)
    parts = 1 / h[:-1], -1 / h[:-1] - 1 / h[1:], 1 / h[1:]
    Q = sp.diags_array(parts, offsets=[0, -1, -2], shape=(n, n - 2))
    sides = (h[:-1] + h[1:]) / 3, h[1:-1] / 6, h[1:-1] / 6
    t_g = sp.csr_array(np.exp(-9.0) * (Q.T @ Q))
    return sp.coo_array(sp.diags_array(sides, offsets=[0, 1, -1]) + t_g), t_g


@pytest.mark.parametrize("name", ["cholesky", "general", "fronts"])
def test_the_condition_enters_the_error_of_a_tangent_once(name):
    """The tangent along a matrix that is like A is small beside |Z| |E| |Z|: -Z E Z is like -Z."""
    a, e = spline(40)
    if name == "fronts":
        structure = Symmetric(Sparse(Pattern(a.row, a.col, a.shape)), "H")
        engine = engines()["fronts"]
        f = engine.factor(engine.analyze(structure), structure, a.data, "pos")
        i, j, slots = a.row, a.col, np.asarray(e[a.row, a.col])
    else:
        structure, f = factor_of(cholesky if name == "cholesky" else general, a)
        i, j = structure.pattern.indices, structure.pattern.columns
        slots = np.asarray(e[i, j])
    inverse = mpmath.matrix(a.toarray()) ** -1
    tangent = -inverse * mpmath.matrix(e.toarray()) * inverse
    exact = np.array([float(tangent[int(k), int(l)]) for k, l in zip(j, i, strict=True)])
    found = np.asarray(f.inverse_tangent(slots))
    rounding = np.finfo(float).eps * np.linalg.cond(a.toarray())
    assert difference(found, exact) < rounding < 1e-6


@pytest.mark.parametrize("engine", [cholesky, general])
def test_fifty_digits(engine):
    a = scattered(12)
    structure, f = factor_of(engine, a)
    inverse = mpmath.matrix(a.toarray()) ** -1
    e = direction(structure, a)
    tangent = -inverse * mpmath.matrix(structure.pattern.csc(e).toarray()) * inverse
    size = mpmath.log(mpmath.det(mpmath.matrix(a.toarray())))
    places = list(zip(structure.pattern.indices, structure.pattern.columns, strict=True))
    for found, exact in ((f.inverse_entries(), inverse), (f.inverse_tangent(e), tangent)):
        assert (
            difference(found, np.array([float(exact[int(j), int(i)]) for i, j in places])) < 1e-14
        )
    assert abs(float(f.logabsdet() - size)) < 1e-13 * abs(size)


@pytest.mark.parametrize(
    ("name", "engine", "tolerance"),
    [
        ("494_bus", cholesky, 1e-10),
        ("bcsstk13", cholesky, 2e-9),
        ("mhd1280b", cholesky, 1e-12),
        ("494_bus", general, 1e-10),
        ("watt_2", general, 1e-12),
        ("west0479", general, 1e-12),
        ("hangGlider_2", general, 1e-8),
        ("young1c", general, 1e-12),
    ],
)
def test_real_matrices(name, engine, tolerance):
    """The tolerance is for the dense inverse as much as for ours: conditions are up to 1e12."""
    path = DATA / f"{name}.mtx"
    if not path.exists():
        pytest.skip(f"{name}.mtx is not in the folder that LDIV_TEST_DATA names")
    a = sp.coo_array(scipy.io.mmread(path, spmatrix=False))
    structure, f = factor_of(engine, a)
    inverse = np.linalg.inv(a.toarray())
    i, j = structure.pattern.indices, structure.pattern.columns
    assert difference(f.inverse_entries(), inverse[j, i]) < tolerance
    e = direction(structure, a) * abs(structure.slot_values(a.data))
    tangent = -inverse @ structure.pattern.csc(e).toarray() @ inverse
    assert difference(f.inverse_tangent(e), tangent[j, i]) < 10 * tolerance
    sign, size = np.linalg.slogdet(a.toarray())
    assert np.allclose(f.slogdet(), (sign, size), rtol=1e-11)


def test_badly_scaled():
    a = scattered(30)
    d = sp.diags_array(2.0 ** np.linspace(-60, 60, 30))
    scaled = sp.coo_array(d @ a @ d)
    structure, f = factor_of(cholesky, a)
    _, g = factor_of(cholesky, scaled)
    i, j = structure.pattern.indices, structure.pattern.columns
    weights = d.diagonal()[i] * d.diagonal()[j]
    assert difference(g.inverse_entries() * weights, f.inverse_entries()) < 1e-13


def test_matrices_that_are_not_positive_definite():
    a = sp.coo_array(grid(6, 2) - 3 * sp.eye_array(36))
    with pytest.raises(NotPositiveDefiniteError, match="pivot"):
        factor_of(cholesky, a)
    with pytest.raises(NotPositiveDefiniteError, match="pivot"):
        factor_of(cholesky, sp.coo_array(a.astype(complex)))


def test_pivots_that_must_leave_their_block():
    """Zeros on the diagonal: rows and columns are paired anew."""
    n = 20
    cycle = sp.coo_array((np.ones(n), (np.arange(n), (np.arange(n) + 1) % n)), (n, n))
    a = sp.coo_array(cycle + 0.1 * scattered(n, symmetric=False, strong=0))
    structure = structured(general, a)
    f = general.factor_carefully(general.analyze(structure), structure, a.data, "gen")
    inverse = np.linalg.inv(a.toarray())
    i, j = structure.pattern.indices, structure.pattern.columns
    assert difference(f.inverse_entries(), inverse[j, i]) < 1e-13
    assert np.allclose(f.slogdet(), np.linalg.slogdet(a.toarray()), rtol=1e-12)


def test_singular_matrices():
    """Constants are in the null space without a boundary condition."""
    a = grid(6, 2)
    free = sp.coo_array(a - sp.diags_array(a.sum(axis=1)))

    def look():
        factor_of(general, free)[1].logabsdet()

    with pytest.raises(SingularMatrixError):
        look()


def eliminated(a):
    """The places of the entries of L, by eliminating one column after the other."""
    at = np.asarray(a) != 0
    at |= at.T
    for k in range(len(at)):
        below = np.flatnonzero(at[k + 1 :, k]) + k + 1
        at[np.ix_(below, below)] = True
    return np.tril(at)


def test_the_symbolic_phase():
    """The fronts hold all entries of L; where columns are merged, some zeros beside them."""
    for a in (
        grid(9, 2),
        scattered(80),
        sp.coo_array(sp.eye_array(5)),
        scattered(30, symmetric=False),
    ):
        made = fronts.Fronts(pattern := Pattern(a.row, a.col, a.shape))
        ordered = a.toarray()[np.ix_(made.rows, made.cols)]
        exact, held = eliminated(ordered), np.zeros(a.shape, bool)
        _, i, j = made.factor_entries
        held[i, j] = True
        assert (held | ~exact).all() and held.sum() <= 3 * exact.sum()
        assert np.array_equal(made.rows, made.cols) and made.starts[-1] == a.shape[0]
        # each row below a supernode is a row, or a column, of the front of its parent
        below = np.split(made.rows_below, made.row_starts[1:-1])
        relative = np.split(made.relative, made.row_starts[1:-1])
        for s, parent in enumerate(made.parent):
            if parent >= 0:
                own = np.arange(made.starts[parent], made.starts[parent + 1])
                assert np.array_equal(np.r_[own, below[parent]][relative[s]], below[s])
            else:
                assert not len(below[s])
        order = ordering.of_sum(pattern)
        assert work.work(pattern).entries == eliminated(a.toarray()[np.ix_(order, order)]).sum()
