"""The compiled sparse LU: what it accepts is right in every view, whatever the shape and the scale; what
it cannot tell it declines; wrong arguments are refused.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import ldiv
from ldiv.core.frameworks.pattern import Pattern
from ldiv.core.rules.structure import view_dense
from ldiv.engines.accuracy import sparse_checked
from ldiv.engines.libraries import native

pytestmark = pytest.mark.skipif(native.native is None, reason=native.why_not)
DTYPES = ("float32", "float64", "complex64", "complex128")
REAL = ("adder_dcop_05", "west0479", "watt_2", "mhd1280b", "tumorAntiAngiogenesis_2")
REAL += ("hangGlider_2", "494_bus")


def drawn(dtype: str, *shape: int, seed: int = 0) -> Any:
    rng = np.random.default_rng([seed, *shape])
    x = rng.standard_normal(shape) + (1j * rng.standard_normal(shape) if dtype[0] == "c" else 0)
    return x.astype(dtype)


def shapes(dtype: str, n: int = 40) -> dict[str, Any]:
    """Dense copies of sparse matrices that are well conditioned, up to scales of rows and columns."""
    rng = np.random.default_rng(1)
    some = np.where(rng.random((n, n)) < 3 / n, drawn(dtype, n, n), 0)
    strong = some + (2 + np.abs(some).sum(1).max()) * np.eye(n)
    mixed = rng.permutation(n)
    arrow = 4 * np.eye(n)
    arrow[0] = arrow[:, 0] = 0.5
    arrow[0, 0] = n
    beam = np.eye(n, k=1) + np.eye(n, k=-1)  # an even number of rows: zeros on the diagonal
    size = (
        np.exp2(rng.integers(-40, 40, n))
        if dtype in ("float64", "complex128")
        else np.exp2(rng.integers(-8, 8, n))
    )
    blocks = np.triu(strong) + np.kron(np.eye(n // 4), np.ones((4, 4))) * strong
    return {
        "one by one": strong[:1, :1],
        "diagonal": np.diag(np.diag(strong)),
        "network": strong,
        "rows in disorder": strong[mixed],
        "triangle in disorder": np.triu(strong)[mixed][:, rng.permutation(n)],
        "blocks in disorder": blocks[mixed][:, rng.permutation(n)],
        "dense row and column": arrow,
        "zeros on the diagonal": beam,
        "scaled": size[:, None] * strong * size[::-1],
        "full": strong[:12, :12] + 0.1,
        "negative zeros": np.where(some == 0, -0.0, some) + strong,
    }


def lu_of(a: Any) -> tuple[sparse_checked.SparseLu, Any]:
    """The analysis of all entries that are not zero, in disorder, and their values, one of them in two parts."""
    rows, cols = np.nonzero(a)
    order = np.random.default_rng(2).permutation(len(rows))
    rows, cols = rows[order], cols[order]
    values = a[rows, cols]
    values[0] /= 2
    rows, cols = np.append(rows, rows[0]), np.append(cols, cols[0])
    return sparse_checked.SparseLu(Pattern(rows, cols, a.shape)), np.append(values, values[0])


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_view_of_every_shape(dtype: str) -> None:
    eps = np.finfo(dtype).eps
    for name, given in shapes(dtype).items():
        a = given.astype(dtype)
        lu, values = lu_of(a)
        factor, again = lu.accepted(values)
        assert factor is not None and not again, name
        assert lu.accepted(values)[1], "it lives"
        for op in "NTH":
            view = view_dense(a, op)
            for k in (1, 2, 3, 7, 17):
                x = drawn(dtype, len(a), k, seed=3)
                b = view @ x
                found = np.empty_like(b)
                assert factor.solve(b, found, op, False, 1), (name, op, k)
                size = np.abs(view) @ np.abs(found) + np.abs(b)
                assert (np.abs(view @ found - b) <= 100 * eps * size.max()).all(), (name, op, k)
        sign, size = np.empty(1, dtype), np.empty(1, a.real.dtype)
        assert factor.slogdet(sign, size), name
        wide = a.astype(complex)
        left, right = np.abs(wide).max(1), np.abs(wide).max(0)
        scaled = np.linalg.slogdet(wide / np.sqrt(left)[:, None] / np.sqrt(right))
        expected = scaled[1] + (np.log(left).sum() + np.log(right).sum()) / 2
        assert abs(size[0] - expected) <= 1e3 * eps * max(1, abs(expected)), name
        assert abs(sign[0] - scaled[0]) <= 1e3 * eps, name


@pytest.mark.parametrize("name", REAL)
def test_real_matrices(real_matrix: Any, name: str) -> None:
    """The pivots of other values serve, too."""
    a = sp.csc_array(real_matrix(name))
    a.sort_indices()
    lu, rng = sparse_checked.SparseLu(Pattern(*a.tocoo().coords, a.shape)), np.random.default_rng(0)
    for step in range(3):
        m = a.copy()
        m.data = a.data * (1 + 0.01 * step * rng.random(a.nnz))
        factor, _ = lu.accepted(sp.coo_array(m).data)
        assert factor is not None
        for op, view in (("N", m), ("T", m.T), ("H", m.conj().T)):
            b = view @ drawn(a.dtype.name, a.shape[0], 2)
            x = np.empty_like(b)
            assert factor.solve(b, x, op, False, 1)
            size = np.abs(view) @ np.abs(x) + np.abs(b)
            assert (np.abs(view @ x - b).max(0) <= 100 * np.finfo(float).eps * size.max(0)).all()


@pytest.mark.parametrize("power", [540, -540, 200 / np.log10(2), -200 / np.log10(2)])
def test_units_change_no_digit(power: float) -> None:
    for a in shapes("float64").values():
        unit, (lu, values) = np.exp2(np.round(power)), lu_of(a)
        b = drawn("float64", len(a), 2)
        found = []
        for t, s in ((1.0, 1.0), (unit, 1.0), (1.0, unit), (unit, unit)):
            x, factor = np.empty_like(b), lu.accepted(values * t)[0]
            assert factor.solve(b * s, x, "N", False, 1)
            found.append(x * t / s)
        for x in found:
            np.testing.assert_allclose(x, found[0], rtol=1e-13)


def test_scales_serve_while_they_fit() -> None:
    """D A E x = D b in turn, for powers of two near and far from those of the first matrix: x = E^-1 A^-1 b."""
    rng, n = np.random.default_rng(3), 40
    a, b = shapes("float64")["network"], drawn("float64", n)
    rows, cols = np.nonzero(a)
    lu, x = sparse_checked.SparseLu(Pattern(rows, cols, a.shape)), np.linalg.solve(a, b)
    first = rng.integers(-20, 20, n), rng.integers(-20, 20, n)
    factors = []
    for spread, shift in ((0, 0), (1, 0), (30, 0), (1, 0), (0, 500), (0, -500), (0, 0), (1, 35)):
        of_rows = first[0] + shift + rng.integers(-spread, spread + 1, n)
        of_columns = first[1] + rng.integers(-spread, spread + 1, n)
        values = np.ldexp(a, of_rows[:, None] + of_columns)[rows, cols]
        factor, _ = lu.accepted(values)
        assert factor is not None
        found = np.empty(n)
        assert factor.solve(np.ldexp(b, of_rows), found, "N", True, 1)
        assert np.abs(np.ldexp(found, of_columns) - x).max() <= 1e-14 * np.abs(x).max()
        factors.append(factor)
    assert factors[1].reused_pivots


def test_more_threads_than_any_machine_has() -> None:
    """None of them has room of its own."""
    a = shapes("float64")["network"]
    lu, values = lu_of(a)
    given = np.stack([values * t for t in (1.0, 2.0, 3.0)])
    b = drawn("float64", len(a), 2)
    expected, many = np.linalg.solve(a, b), 2**31 - 1
    factor = lu._own.factor(given, False, False, 0, many)
    found, lam = (np.empty((3, *b.shape)) for _ in range(2))
    assert factor.solve(np.stack([b] * 3), found, "N", False, many)
    for t, x in enumerate(found, 1):
        np.testing.assert_allclose(t * x, expected, rtol=1e-12)
    assert factor.pullback(found, found, lam, None, "N", False, many)


def test_what_is_declined() -> None:
    good = shapes("float64")["network"]
    n = len(good)
    empty, equal, path = good.copy(), good.copy(), np.diag(np.full(n, 2.0))
    empty[3] = 0
    equal[5] = equal[6]
    path -= np.eye(n, k=1) + np.eye(n, k=-1)
    path[0, 0] = path[-1, -1] = 1
    bad = {
        "structurally singular": np.where(np.arange(n) < n - 2, 0, good)[:n],
        "no row": empty,
        "two rows": equal,
        "a free chain": path,
        "nearly singular": path + 1e-15 * np.eye(n),
        "NaN": np.where(np.eye(n) > 0, np.nan, good),
        "infinite": np.where(np.eye(n) > 0, np.inf, good),
    }
    for name, a in bad.items():
        lu, values = lu_of(a)
        assert lu.accepted(values)[0] is None, name
        if np.isfinite(a).all():
            with pytest.raises(ldiv.SingularMatrixError):
                ldiv.solve(ldiv.asarray(sp.csc_array(a)), np.ones(n))
    # entries of the pattern that are zero: a column, and all
    lu, values = lu_of(good)
    for zero in (np.zeros_like(values), np.where(np.arange(len(values)) % 7 < 6, 0, values)):
        assert lu.accepted(zero)[0] is None
    factor, _ = lu.accepted(values)
    for b in (np.full((n, 1), np.nan), np.full((n, 1), np.inf), np.full((n, 3), 1e308)):
        x = np.empty_like(b)
        assert not factor.solve(b, x, "N", False, 1) or np.isfinite(x).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_batches(dtype: str) -> None:
    """One factor for all, over threads: as each alone; one of them with other pivots; one singular."""
    a = shapes(dtype)["blocks in disorder"].astype(dtype)
    lu, values = lu_of(a)
    rng, count = np.random.default_rng(5), 9
    many = values * (1 + rng.random((count, len(values)))).astype(values.real.dtype)
    many[4] = values * 10.0 ** rng.uniform(-3, 3, len(values)).astype(values.real.dtype)
    b, weight = drawn(dtype, count, len(a)), drawn(dtype, count, len(a), seed=1)
    for threads in (1, 3, 50):
        factor = lu._own.factor(many, False, False, 7, threads)
        x, lam, bar = np.empty_like(b), np.empty_like(b), np.empty_like(many)
        assert factor.count == count
        assert factor.solve(b, x, "N", True, threads)
        assert factor.pullback(weight, x, lam, bar, "N", True, threads)
        for i in range(count):
            alone, y, mu, own = lu.accepted(many[i])[0], *map(np.empty_like, (b[i], b[i], values))
            assert alone.solve(b[i], y, "N", True, 1)
            assert alone.pullback(weight[i], y, mu, own, "N", True, 1)
            tol = {"rtol": 0, "atol": 1e4 * np.finfo(dtype).eps}
            np.testing.assert_allclose(x[i] / np.abs(y).max(), y / np.abs(y).max(), **tol)
            np.testing.assert_allclose(bar[i] / np.abs(own).max(), own / np.abs(own).max(), **tol)
    repeated = np.repeat(many[:3], 3, axis=0)
    factor, y = lu._own.factor(repeated, False, False, 9, 2), np.empty_like(b)
    assert (factor.count, factor.different) == (9, 3)
    assert factor.solve(b[[0] * 9], y, "N", True, 1) and (y[0] == y[1]).all()
    assert not np.allclose(y[0], y[3])
    many[2] = 0
    assert lu._own.factor(many, False, False, 8, 2) is None


def test_a_batch_in_every_front_end_is_one_factor() -> None:
    """n = 30, 50 members: counted, and the gradients are those of dense matrices."""
    torch, jax = pytest.importorskip("torch"), pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    a = sp.csc_array(shapes("float64", 32)["network"])
    values = a.data * (1 + np.random.default_rng(0).random((50, a.nnz)))
    columns, ones = np.repeat(np.arange(32), np.diff(a.indptr)), np.ones(32)

    def loss(v: Any, b: Any) -> Any:
        A = ldiv.csc_array((v, a.indices, a.indptr), shape=a.shape)
        return (ldiv.solve(A, b) ** 2).sum()

    dense = np.zeros((50, 32, 32))
    dense[:, a.indices, columns] = values
    x = np.linalg.solve(dense, ones[:, None])
    lam = np.linalg.solve(dense.mT, 2 * x)
    expected = -lam[:, a.indices, 0] * x[:, columns, 0]
    runs = {
        "torch": lambda: torch.func.vmap(
            torch.func.grad(lambda v: loss(v, torch.ones(32, dtype=torch.float64)))
        )(torch.tensor(values)).numpy(),
        "jax": lambda: np.asarray(
            jax.jit(jax.vmap(jax.grad(lambda v: loss(v, jax.numpy.ones(32)))))(values)
        ),
    }
    for name, run in runs.items():
        ldiv.clear_cache()
        np.testing.assert_allclose(run(), expected, rtol=1e-10, atol=1e-12, err_msg=name)
        info = ldiv.cache_info()
        assert (info.analyses, info.factorizations) == (1, 50), name
    ldiv.clear_cache()


def test_wrong_arguments_are_refused() -> None:
    make, whole = native.native.SparseLu, np.array([0, 2, 4])
    rows, first = np.array([0, 1, 0, 1]), np.array([0, 0, 1, 1])
    for starts, i, slot, r, c in (
        (np.array([0, 2, 5]), rows, None, rows, first),
        (np.array([1, 2, 4]), rows, None, rows, first),
        (np.array([0, 5, 4]), rows, None, rows, first),
        (np.array([0, -1, 4]), rows, None, rows, first),
        (np.array([0]), rows[:0], None, rows[:0], rows[:0]),
        (whole, np.array([0, 2, 0, 1]), None, rows, first),
        (whole, np.array([0, -1, 0, 1]), None, rows, first),
        (whole, np.array([1, 0, 0, 1]), None, rows, first),
        (whole, np.array([0, 0, 0, 1]), None, rows, first),
        (whole.astype(float), rows, None, rows, first),
        (whole, rows, None, rows[:3], first),
        (whole, rows, None, rows, first + 1),
        (whole, rows, np.array([0, 1, 2, 4]), rows, first),
        (whole, rows, np.array([0, 1, 2]), rows, first),
    ):
        with pytest.raises((ValueError, TypeError)):
            make(starts, i, slot, r, c)
    lu, values = make(whole, rows, None, rows, first), np.array([2.0, 1.0, 1.0, 3.0])
    for wrong in (values[:3], values.astype(int), values[:0], np.array(1.0)):
        with pytest.raises(ValueError, match="values"):
            lu.find(wrong, False, False)
        with pytest.raises(ValueError, match="values"):
            lu.factor(wrong, False, False, 0, 1)
    with pytest.raises(ValueError, match="threshold"):
        lu.eliminate(values, 2.0)
    factor, b = lu.factor(values, False, False, 0, 1), np.ones((2, 1))
    for right, x, op in (
        (b, np.empty((2, 2)), "N"),
        (np.ones((3, 1)), np.empty((3, 1)), "N"),
        (b.astype("f"), np.empty((2, 1), "f"), "N"),
        (b, np.empty((2, 1)), "C"),
    ):
        with pytest.raises(ValueError, match=r"b, x|NTH"):
            factor.solve(right, x, op, False, 1)
    with pytest.raises(ValueError, match="values_bar"):
        factor.pullback(b, b, np.empty((2, 1)), np.empty(3), "N", False, 1)
    with pytest.raises(ValueError, match="sign"):
        factor.slogdet(np.empty(2), np.empty(2))
