"""Dense and banded solutions are backward stable, whatever the scaling and the growth of
entries; promises are kept locally.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ldiv
from ldiv.core.rules.structure import view_dense
from ldiv.engines.factors.factorize import factorize_by
from ldiv.engines.libraries import native
from ldiv.engines.registry import engines
from ldiv.structures.dense import dense

DTYPES = ("float32", "float64", "complex64", "complex128")


def growing(n: int) -> Any:
    """The transpose of Wilkinson's matrix, whose last row doubles in each of the n - 1 steps of
    partial pivoting among the entries of a row.
    """
    a = np.eye(n) - np.triu(np.ones((n, n)), 1)
    a[-1] = 1
    return a


def banded_growing(n: int, seed: int) -> Any:
    """Two diagonals on both sides, rows and columns of sizes that differ by 2^40 and more."""
    rng = np.random.default_rng(seed)
    a = np.where(np.abs(np.subtract.outer(range(n), range(n))) <= 2, rng.standard_normal((n, n)), 0)
    r, c = 2.0 ** rng.integers(-20, 21, (2, n))
    return r[:, None] * (a + 2 * np.eye(n)[::-1] * (np.abs(a) > 0)) * c


def backward_error(a: Any, x: Any, b: Any) -> float:
    """The backward error of the worst column, of A with rows and columns scaled to 1, in extended
    precision.
    """
    a, x, b = (np.asarray(y).astype(np.clongdouble) for y in (a, x, b))
    size, r, c = np.abs(a), np.ones((len(a), 1)), np.ones(len(a))
    for _ in range(30):
        now = r * size * c
        r, c = r / np.sqrt(now.max(1, keepdims=True)), c / np.sqrt(now.max(0))
    m, y, d = r * a * c, x / c[:, None], r * b
    error = np.abs(d - m @ y).max(0) / (
        np.abs(m).sum(1).max() * np.abs(y).max(0) + np.abs(d).max(0)
    )
    return float(error.max())


def matrices() -> dict[str, Any]:
    return {
        "unbalanced": np.array([[1, 1e9], [0.1, 1]]),
        "growth 13": growing(13),
        "growth 40": growing(40),
        "growth 70": growing(70),
        "growth, transposed": growing(40).T,
        "growth, scaled": growing(20)
        * 2.0 ** np.arange(-10, 10)
        * 2.0 ** np.arange(40, 0, -2)[:, None],
        "random": np.random.default_rng(0).standard_normal((90, 90)),
    }


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", matrices())
def test_every_view_is_backward_stable(name: str, dtype: str) -> None:
    """One column, several columns, held factors and batches are backward stable."""
    a = matrices()[name].astype(dtype)
    a = a * (1 + 0.5j) if a.dtype.kind == "c" else a
    rng, tol = np.random.default_rng(1), 500 * np.finfo(dtype).eps
    held = ldiv.factorized(a)
    for trans in "NTH":
        op = view_dense(a, trans)
        for k in (1, 3):
            b = rng.standard_normal((len(a), k)).astype(dtype)
            for x in (
                ldiv.solve(a, b, trans=trans),
                held.solve(b, trans),
                ldiv.solve(np.stack([a, 2 * a]), b, trans=trans)[0],
            ):
                assert backward_error(op, x, b) <= tol
    sign, size = np.linalg.slogdet(a.astype("complex128"))
    if np.finfo(dtype).eps < 1e-10:
        found = ldiv.slogdet(a)
        np.testing.assert_allclose(
            [found[0], found[1], held.logabsdet()], [sign, size, size], rtol=1e-9
        )


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
def test_torch(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    tol = 500 * np.finfo(dtype).eps
    for name in ("unbalanced", "growth 40", "growth 70"):
        a = matrices()[name].astype(dtype)
        b = np.random.default_rng(0).standard_normal((len(a), 2)).astype(dtype)
        other = np.random.default_rng(1).standard_normal(a.shape).astype(dtype)
        for batch in (a, np.stack([other, a])):
            A = torch.from_numpy(batch).requires_grad_()
            x = ldiv.solve(A, torch.from_numpy(b))
            (x * torch.from_numpy(b.conj())).sum().real.backward()
            last = x.detach().numpy().reshape(-1, *b.shape)[-1]
            assert backward_error(a, last, b) <= tol
            adjoint = ldiv.solve(a, b, trans="H")
            expected = -adjoint @ last.conj().T
            np.testing.assert_allclose(
                A.grad.numpy().reshape(-1, *a.shape)[-1],
                expected,
                rtol=0,
                atol=1e4 * np.finfo(dtype).eps * np.abs(expected).max(),
            )


@pytest.mark.exhaustive  # JAX compiles for seconds what the laws of front ends show
def test_jax() -> None:
    """A factor is refined in a trace; where refinement fails, compiled calls ask other engines, and
    other programs refuse.
    """
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    solve = jax.jit(lambda a, b: ldiv.solve(a, b))
    rng = np.random.default_rng(0)
    for n, r in ((13, 0), (13, 30), (90, None)):
        a, b = (
            growing(n) * 2.0 ** np.linspace(-(r or 0), r or 0, n)[:, None],
            rng.standard_normal((n, 2)),
        )
        if r is None:
            if native.native is None:
                with pytest.raises(Exception, match="backward error"):
                    jax.block_until_ready(solve(a, b))
            else:
                assert backward_error(a, solve(a, b), b) <= 1e-13
            b = jax.numpy.asarray(b)
            # outside of a trace
            assert backward_error(a, ldiv.solve(jax.numpy.asarray(a), b), b) <= 1e-13
        else:
            assert backward_error(a, solve(a, b), b) <= 10 * np.finfo(float).eps


def test_positive_definite() -> None:
    rng = np.random.default_rng(0)
    q = rng.standard_normal((30, 30))
    d = 2.0 ** rng.integers(-30, 31, 30)
    a, b = d[:, None] * (q @ q.T + np.eye(30)) * d, rng.standard_normal((30, 2))
    for dtype in ("float64", "float32"):
        x = ldiv.solve(a.astype(dtype), b.astype(dtype), assume_a="pos")
        assert backward_error(a.astype(dtype), x, b.astype(dtype)) <= 50 * np.finfo(dtype).eps


@pytest.mark.parametrize("dtype", DTYPES)
def test_banded(dtype: str) -> None:
    for seed in range(8):
        a = banded_growing(12, seed).astype(dtype)
        ab = np.zeros((5, 12), dtype)
        i, j = np.nonzero(np.abs(np.subtract.outer(range(12), range(12))) <= 2)
        ab[2 + i - j, j] = a[i, j]
        A = ldiv.Matrix(ldiv.structures.Banded(2, 2, 12), ab)
        for trans in "NTH":
            b = np.random.default_rng(seed).standard_normal((12, 3)).astype(dtype)
            for some in (b, b[:, :1]):
                x = ldiv.solve(A, some, trans=trans, method="banded")
                assert backward_error(view_dense(a, trans), x, some) <= 50 * np.finfo(dtype).eps
        expected = np.linalg.slogdet(a.astype("complex128"))[1]
        assert abs(ldiv.factorized(A).logabsdet() - expected) < 1e-3 * 12


def test_a_growing_band_goes_to_another_engine() -> None:
    """The band is as wide as the matrix."""
    n = 90
    ab = np.zeros((2 * n - 1, n))
    i, j = np.indices((n, n))
    ab[n - 1 + i - j, j] = growing(n).T
    b = np.random.default_rng(0).standard_normal(n)
    A = ldiv.Matrix(ldiv.structures.Banded(n - 1, n - 1, n), ab)
    x, info = ldiv.solve(A, b, info=True)
    assert backward_error(growing(n).T, x[:, None], b[:, None]) <= 1e-12
    assert "backward error" in info.gave_up["banded"]


def test_numbers_at_the_ends_of_the_range() -> None:
    """Nothing that was solved is refused."""
    rng = np.random.default_rng(0)
    a = rng.standard_normal((9, 9))
    for dtype in ("float32", "float64"):
        most = np.finfo(dtype)
        for scale in (float(most.tiny) / 64, float(most.tiny) * 64, float(most.max) / 1e6):
            for k in (1, 2):
                b = (rng.standard_normal((9, k)) * scale).astype(dtype)
                np.testing.assert_allclose(
                    ldiv.solve(a.astype(dtype), b),
                    np.linalg.solve(a, b.astype(float)),
                    rtol=1e-2,
                    atol=float(most.tiny),
                )
        small = (a * 1e-30).astype(dtype)
        with pytest.raises(
            ldiv.LinAlgOverflowError if hasattr(ldiv, "LinAlgOverflowError") else OverflowError
        ):
            ldiv.solve(small, np.full((9, 2), float(most.max) / 8, dtype))


def test_unrefined_for_iterations(monkeypatch: pytest.MonkeyPatch) -> None:
    """`solve_unrefined` looks once at what its factor can do: at no residual if that is enough."""
    monkeypatch.setattr(native, "native", None)
    n, b = 40, np.arange(40)[:, None] ** 0.5
    for a, is_refined in ((np.eye(n) + np.full((n, n), 0.01), False), (growing(n), True)):
        factor = factorize_by(engines()["lapack"], dense(n, n), a, "gen")
        for _ in range(3):
            assert backward_error(a, factor.solve_unrefined(b, "N"), b) <= 1e-15
        looks: list[int] = []
        matrix = factor._made[-1]._m
        matrix.residual = lambda *args, r=matrix.residual, n=looks: n.append(1) or r(*args)
        factor.solve_unrefined(b, "N")
        assert bool(looks) is is_refined


# -- promises of symmetry -----------------------------------------------------


def far_apart() -> Any:
    """Two blocks, 1e12 and 1, the small one far from symmetric."""
    return np.array([[2e12, 1e12, 0, 0], [1e12, 3e12, 0, 0], [0, 0, 2, 1], [0, 0, 0.5, 2]])


@pytest.mark.parametrize("kind", ["sym", "her", "pos"])
@pytest.mark.parametrize("form", ["dense", "sparse", "cholesky"])
def test_a_broken_promise_shows_at_any_scale(kind: str, form: str) -> None:
    sp = pytest.importorskip("scipy.sparse")
    make = ldiv.asarray if form == "sparse" else np.asarray
    wrap = sp.csc_array if form == "sparse" else np.asarray
    b = np.ones(4)
    solve = (
        (lambda A: ldiv.cholesky(A))
        if form == "cholesky"
        else lambda A: ldiv.solve(A, b, assume_a=kind)
    )
    with pytest.raises(ldiv.NotSymmetricError):
        solve(make(wrap(far_apart())))
    honest = np.tril(far_apart()) + np.tril(far_apart(), -1).T
    solve(make(wrap(honest)))


def test_rounding_of_badly_scaled_matrices_is_forgiven() -> None:
    rng = np.random.default_rng(0)
    q = rng.standard_normal((12, 12))
    for dtype in ("float32", "float64"):
        d = (10.0 ** rng.uniform(-9, 9, 12)).astype(dtype)
        x = q.astype(dtype) * d
        a = x.T @ (np.eye(12, dtype=dtype) @ x)  # rounded as it comes
        a = a * (1 + rng.standard_normal(a.shape).astype(dtype) * 8 * np.finfo(dtype).eps)
        ldiv.solve(a, d * np.ones(12, dtype), assume_a="sym")


def test_an_empty_row_is_seen_where_rounding_fills_it():
    """The probe is scaled by rows, and so sees nothing of one that is empty."""
    v = np.array(
        [
            [2.0, 0.0, 1.7012819646131356, -1.782188506425771, 0.0],
            [0.0, 0.0, 0.0, 0.0, 0.0],
            [0.0, 0.20609539251008394, 2.0, 0.0, 0.0],
            [-0.2083332386624881, 0.0, 0.8787148131399987, 2.0, 0.0],
            [0.0, 0.3329076123260216, 0.06344364574332254, -1.554443442407516, 2.0],
        ]
    )
    for a in (v, v.T.copy(), v + 0j, np.stack([np.eye(5), v])):
        with pytest.raises(ldiv.SingularMatrixError):
            ldiv.solve(a, np.ones((5, 1)))
