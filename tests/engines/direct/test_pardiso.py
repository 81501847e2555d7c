"""PARDISO: every kind, dtype and view against dense NumPy; several factors of one analysis; what
it hides is noticed; memory comes back.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import ldiv
from ldiv.core.rules.structure import view_dense
from ldiv.engines.factors.factorize import factorize_by
from ldiv.engines.libraries import mkl_pardiso
from ldiv.engines.registry import engines
from ldiv.matrices.assumptions import promised

needs_mkl = pytest.mark.skipif(
    mkl_pardiso.path() is None, reason="MKL is not installed: pip install ldiv[mkl]"
)
DTYPES = ("float32", "float64", "complex64", "complex128")
KINDS = ("gen", "sym", "her", "pos")


def draw(rng: Any, shape: Any, dtype: str) -> Any:
    x = rng.standard_normal(shape)
    return (x + 1j * rng.standard_normal(shape) if np.dtype(dtype).kind == "c" else x).astype(dtype)


def matrix(kind: str, dtype: str, n: int, seed: int = 0) -> Any:
    """Sparse, dense enough to be far from diagonal, well conditioned."""
    rng = np.random.default_rng(seed)
    a = draw(rng, (n, n), dtype) * (rng.random((n, n)) < 4 / n)
    a = a + (0 if kind == "gen" else a.T if kind == "sym" else a.conj().T)
    strong = (1 + np.abs(a).sum(axis=1)) * (1 if kind == "pos" else rng.choice([-1.0, 1.0], n))
    return (a + np.diag(strong)).astype(dtype)


def sparse(a: Any, keep: Any = None) -> Any:
    """The nonzero entries of a dense array, and those asked for."""
    rows, cols = np.nonzero((a != 0) if keep is None else (a != 0) | keep)
    return ldiv.coo_array((a[rows, cols], (rows, cols)), shape=a.shape)


def factor(a: Any, assume_a: str = "gen") -> Any:
    structure, p = promised(sparse(a), assume_a)
    return factorize_by(engines()["pardiso"], structure, p, "pos" if assume_a == "pos" else "gen")


def solve(a: Any, b: Any, **options: Any) -> Any:
    return ldiv.solve(
        a if isinstance(a, ldiv.SparseArray) else sparse(a), b, method="pardiso", **options
    )


# -- answers ------------------------------------------------------------------


@needs_mkl
@pytest.mark.parametrize("n", [1, 2, 5, 120])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", KINDS)
def test_kinds(kind: str, dtype: str, n: int) -> None:
    a = matrix(kind, dtype, n)
    factored = factor(a, kind)
    tol = 100 * np.finfo(dtype).eps
    for columns in (1, 2, 33):
        b = draw(np.random.default_rng(1), (n, columns), dtype)
        for op in "NTH":
            x = factored.solve(b, op)
            assert x.dtype == a.dtype
            assert np.abs(view_dense(a, op) @ x - b).max() <= tol * np.abs(b).max()
    expected = np.linalg.slogdet(a.astype(complex))[1]
    assert abs(factored.logabsdet() - expected) <= tol * n * max(1, abs(expected))


@needs_mkl
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", KINDS)
def test_factors_of_one_pattern_live_side_by_side(kind: str, dtype: str) -> None:
    """More of them than one analysis has places for; solved in turns, some of them forgotten on
    the way.
    """
    n, rng = 40, np.random.default_rng(0)
    a = matrix(kind, dtype, n)
    structure, p = promised(sparse(a), kind)
    scales = np.arange(1.0, 41).astype(np.float32)
    factors = {
        s: factorize_by(engines()["pardiso"], structure, p * s, "pos" if kind == "pos" else "gen")
        for s in scales
    }
    assert ldiv.cache_info().analyses <= 1  # none where an equal pattern was seen before
    b = draw(rng, (n, 1), dtype)
    tol = 100 * np.finfo(dtype).eps
    logdet = np.linalg.slogdet(a.astype(complex))[1]
    for s in rng.permutation(scales):
        assert np.abs(a * s @ factors[s].solve(b, "N") - b).max() <= tol * np.abs(b).max()
        assert abs(factors[s].logabsdet() - n * np.log(float(s)) - logdet) <= 100 * tol * n
        if s % 3 == 0:
            del factors[s]
            ldiv.clear_cache()
    again = factorize_by(
        engines()["pardiso"], structure, p * scales[2], "pos" if kind == "pos" else "gen"
    )
    assert np.abs(a * scales[2] @ again.solve(b, "N") - b).max() <= tol * np.abs(b).max()


@needs_mkl
def test_a_loop_analyses_once(monkeypatch: pytest.MonkeyPatch) -> None:
    phases: list[int] = []
    call = mkl_pardiso._pardiso
    monkeypatch.setattr(
        mkl_pardiso,
        "_pardiso",
        lambda handle, head, *rest: phases.append(head[3]) or call(handle, head, *rest),
    )
    A, b = sparse(matrix("pos", "float64", 50)), np.ones(50)
    for i in range(1, 10):
        solve(A.with_data(i * A.data), b, assume_a="pos")
    assert (
        phases.count(mkl_pardiso.ANALYSE),
        phases.count(mkl_pardiso.FACTOR),
        phases.count(mkl_pardiso.SOLVE),
    ) == (1, 9, 18)  # each right-hand side alone, whose bits a block with the probe would change
    assert ldiv.cache_info().analyses == 1
    ldiv.clear_cache()
    gc.collect()
    assert phases.count(mkl_pardiso.RELEASE) == 9


@needs_mkl
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("assume_a", ["gen", "sym"])
def test_saddle_point(dtype: str, assume_a: str) -> None:
    """[[D, B^T], [B, 0]] without a stored diagonal in the second block, D small or zero in
    places: pivots off the diagonal are needed.
    """
    rng = np.random.default_rng(0)
    n, m = 40, 15
    B = draw(rng, (m, n), dtype) * (rng.random((m, n)) < 0.3) + np.eye(m, n)
    D = np.diag(np.where(np.arange(n) < m, 0.0, 1.0))
    a = np.block([[D, B.T], [B, np.zeros((m, m))]]).astype(dtype)
    b = draw(rng, (n + m, 2), dtype)
    for _ in range(3):  # with new values the matching of the first ones may serve, or not
        for trans in "NTH":
            x = solve(a, b, assume_a=assume_a, trans=trans)
            op = view_dense(a, trans)
            assert np.abs(op @ x - b).max() <= 1e-14 * n * np.abs(op).max() * np.abs(x).max()
        found = ldiv.factorized(sparse(a), assume_a=assume_a, method="pardiso").logabsdet()
        np.testing.assert_allclose(found, np.linalg.slogdet(a)[1], rtol=1e-10)
        a[n:, :n] *= 10.0 ** rng.uniform(-2, 2, (m, n))
        a[:n, n:] = a[n:, :n].T


@needs_mkl
@pytest.mark.parametrize("assume_a", ["gen", "sym"])
def test_permutation(assume_a: str) -> None:
    """Nothing on the diagonal at all."""
    a = np.eye(20)[::-1] * 3.0
    np.testing.assert_allclose(
        solve(a, np.arange(20.0), assume_a=assume_a), np.arange(20.0)[::-1] / 3
    )


@needs_mkl
@pytest.mark.parametrize(
    ("name", "assume_a"),
    [
        ("watt_2", "gen"),
        ("adder_dcop_05", "gen"),
        ("bcsstk13", "pos"),
        ("bcsstk13", "sym"),
        ("494_bus", "pos"),
        ("mhd1280b", "her"),
        ("mhd1280b", "pos"),
    ],
)
def test_real_matrices(real_matrix: Any, name: str, assume_a: str) -> None:
    a = real_matrix(name)
    x = np.random.default_rng(0).standard_normal((a.shape[0], 2)).astype(a.dtype)
    for trans, op in (("N", a), ("T", a.T), ("H", a.conj().T)):
        found = solve(ldiv.asarray(a), op @ x, assume_a=assume_a, trans=trans)
        residual = np.abs(op @ found - op @ x).max(axis=0)
        assert (
            residual
            <= 100 * np.finfo(float).eps * (np.abs(op) @ (np.abs(found) + np.abs(x))).max(axis=0)
        ).all()


# -- what PARDISO would hide --------------------------------------------------


def singular(kind: str, dtype: str, n: int, rng: Any) -> Any:
    """Rank n - 1, no entry zero, no zero pivot in exact arithmetic before the last."""
    rank = n - 1
    if kind == "gen":
        return (draw(rng, (n, rank), dtype) @ draw(rng, (rank, n), dtype)).astype(dtype)
    u = draw(rng, (n, rank), dtype)
    signs = 1.0 if kind == "pos" else rng.choice([-1.0, 1.0], rank)
    a = (u * signs) @ (u.T if kind == "sym" else u.conj().T)
    return ((a + (a.T if kind == "sym" else a.conj().T)) / 2).astype(dtype)


@needs_mkl
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("times", [2, pytest.param(10, marks=pytest.mark.exhaustive)])
def test_singular_matrices_raise(times: int, kind: str, dtype: str) -> None:
    rng = np.random.default_rng(0)
    for n in [2, 3, 5, 8, 13, 30, 50] * times:
        a = singular(kind, dtype, n, rng)
        with pytest.raises((ldiv.SingularMatrixError, ldiv.NotPositiveDefiniteError)):
            solve(a, np.ones(n, dtype), assume_a=kind)


@needs_mkl
@pytest.mark.parametrize("kind", KINDS)
def test_singular_block_in_a_large_matrix_raises(kind: str) -> None:
    """A component without a boundary condition, between others that have one."""
    one = sp.diags_array([-np.ones(29), 2 * np.ones(30), -np.ones(29)], offsets=[-1, 0, 1]).tolil()
    free = one.copy()
    free[0, 0] = free[29, 29] = 1
    whole = sp.block_diag([one, free, one]).toarray()
    with pytest.raises((ldiv.SingularMatrixError, ldiv.NotPositiveDefiniteError)):
        solve(whole, np.ones(90), assume_a=kind)
    with pytest.raises((ldiv.SingularMatrixError, ldiv.NotPositiveDefiniteError)):
        ldiv.factorized(sparse(whole), assume_a=kind, method="pardiso")


@needs_mkl
@pytest.mark.parametrize("dtype", DTYPES)
def test_indefinite_is_not_positive(dtype: str) -> None:
    for seed in range(20):
        with pytest.raises(ldiv.NotPositiveDefiniteError, match="a pivot that is not positive"):
            solve(matrix("her", dtype, 30, seed), np.ones(30, dtype), assume_a="pos")


@needs_mkl
def test_empty_rows_and_zeros_raise() -> None:
    a = matrix("gen", "float64", 10)
    a[3] = 0
    for keep in (None, np.eye(10, dtype=bool)):
        with pytest.raises(ldiv.SingularMatrixError, match="Pardiso found"):
            solve(sparse(a, keep), np.ones(10))
    with pytest.raises(ldiv.SingularMatrixError):
        solve(sparse(np.zeros((10, 10)), np.eye(10, dtype=bool)), np.ones(10))


@needs_mkl
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_not_finite(value: float) -> None:
    a = matrix("gen", "float64", 10)
    with pytest.raises(ValueError, match="expected finite numbers"):
        solve(sparse(np.where(a == a[0, 0], value, a)), np.ones(10))
    with pytest.raises(ValueError, match="expected finite numbers"):
        solve(a, np.full(10, value))


@needs_mkl
@pytest.mark.parametrize("kind", KINDS)
def test_nearly_singular_is_not_accused(kind: str) -> None:
    """Condition 1e10: no pivot is perturbed, and no solution refused."""
    rng = np.random.default_rng(0)
    q = np.linalg.qr(rng.standard_normal((30, 30)))[0]
    signs = rng.choice([-1.0, 1.0], 30) if kind != "pos" else 1.0
    a = (q * np.logspace(0, -10, 30) * signs) @ (
        np.linalg.qr(rng.standard_normal((30, 30)))[0] if kind == "gen" else q.T
    )
    a = a if kind == "gen" else (a + a.T) / 2
    x = solve(a, a @ np.ones(30), assume_a=kind)
    assert np.abs(a @ x - a @ np.ones(30)).max() <= 1e-13


# -- memory and threads -------------------------------------------------------


def poisson(side: int) -> Any:
    one = sp.diags_array(
        [-np.ones(side - 1), 2 * np.ones(side), -np.ones(side - 1)], offsets=[-1, 0, 1]
    )
    return sp.csc_array(sp.kron(one, sp.eye_array(side)) + sp.kron(sp.eye_array(side), one))


def resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@needs_mkl
@pytest.mark.parametrize("fresh_pattern", [False, True], ids=["factors", "analyses"])
def test_memory_comes_back(fresh_pattern: bool) -> None:
    a, b = poisson(60), np.ones(3600)
    A = ldiv.asarray(a)
    sizes = []
    for i in range(300):
        solve(A.with_data(A.data * (1 + i)), b, assume_a="pos")
        if fresh_pattern and i % 2:
            A = ldiv.asarray(
                sp.csc_array(
                    a + sp.coo_array(([1e-9, 1e-9], ([0, i + 70], [i + 70, 0])), shape=a.shape)
                )
            )
        sizes.append(resident())
    # from step 128 on the table of recent patterns is full
    assert max(sizes[250:]) - max(sizes[140:180]) < 20 << 20


@needs_mkl
def test_threads_solve_at_a_time() -> None:
    A, wrong = ldiv.asarray(poisson(40)), []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for scale in rng.integers(1, 5, 25):
            b = rng.standard_normal((1600, int(scale)))
            x = solve(A.with_data(A.data * float(scale)), b, assume_a=("gen", "pos")[seed % 2])
            wrong.append(np.abs(A.to_scipy() @ x * scale - b).max())

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(25)
    assert len(wrong) == 100
    assert max(wrong) < 1e-11


# -- frameworks, choice, absence ----------------------------------------------


@needs_mkl
@pytest.mark.parametrize("assume_a", KINDS)
def test_torch(assume_a: str) -> None:
    torch = pytest.importorskip("torch")
    a = matrix(assume_a, "float64", 12)
    s, b = sparse(a), torch.ones(12, dtype=torch.float64, requires_grad=True)
    values = torch.tensor(s.data, requires_grad=True)
    before = torch.get_num_threads()
    solve_with = lambda v, b: ldiv.solve(
        s.with_data((v + v) / 2), b, assume_a="gen", method="pardiso"
    )
    assert torch.autograd.gradcheck(solve_with, (values, b))
    x = ldiv.solve(s.with_data(values), b, assume_a=assume_a, method="pardiso")
    g = torch.autograd.grad(x.sum(), b)[0]
    np.testing.assert_allclose(g, np.linalg.solve(a.T, np.ones(12)), rtol=1e-10)
    assert torch.get_num_threads() == before


@needs_mkl
def test_jax() -> None:
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    a = matrix("pos", "float64", 12)
    s, b = sparse(a), np.ones(12)
    loss = lambda v: ldiv.solve(
        s.with_data(v), jax.numpy.asarray(b), assume_a="pos", method="pardiso"
    ).sum()
    g = jax.jit(jax.grad(loss))(jax.numpy.asarray(s.data))
    x = np.linalg.solve(a, b)
    rows, cols = np.nonzero(a)
    np.testing.assert_allclose(g, -x[rows] * x[cols], rtol=1e-10)


@needs_mkl
def test_is_the_first_choice() -> None:
    """PARDISO takes meshes: small matrices, and networks, are those of `lu`."""
    structure = ldiv.asarray(poisson(60)).structure
    assert ldiv.engines.registry.choose(structure, np.dtype(float), "cpu") is engines()["pardiso"]


def test_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mkl_pardiso, "path", lambda: None)
    with pytest.raises(
        ldiv.EngineError,
        match=r"pardiso: needs MKL, which is not installed: pip install ldiv\[mkl\]",
    ):
        ldiv.solve(sparse(matrix("gen", "float64", 5)), np.ones(5), method="pardiso")


def test_says_what_it_leaves_to_others() -> None:
    supports, a = engines()["pardiso"].supports, matrix("gen", "float64", 5)
    assert "sparse matrices only" in supports(
        ldiv.structures.Dense(5, 5), np.dtype(float), "cpu", "gen"
    )
    assert "a triangle" in supports(
        promised(sparse(a), "upper triangular")[0], np.dtype(float), "cpu", "gen"
    )
    assert "values are on cuda:0" in supports(sparse(a).structure, np.dtype(float), "cuda:0", "gen")


def test_nothing_is_loaded_before_it_is_needed() -> None:
    code = "import ldiv, ldiv.engines.solver; ldiv.engines.registry.engines(); print('libmkl_rt' in open('/proc/self/maps').read())"
    seen = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert seen.stdout.strip() == "False"


@needs_mkl
@pytest.mark.parametrize(
    "order",
    ["use(); import torch", pytest.param("import torch; use()", marks=pytest.mark.exhaustive)],
)
def test_torch_before_and_after(order: str) -> None:
    """Either may be loaded first: no crash, and PyTorch keeps its threads."""
    pytest.importorskip("torch")
    code = f"""
import os, numpy, scipy.sparse, ldiv
def use():
    T = scipy.sparse.diags_array([numpy.full(99999, -1.0), numpy.full(100000, 4.0), numpy.full(99999, -1.0)], offsets=[-1, 0, 1])
    for promise in ("gen", "pos"):
        x = ldiv.solve(ldiv.asarray(T), numpy.ones(100000), assume_a=promise, method="pardiso")
        assert abs(T @ x - 1).max() < 1e-12
{order}
use()
y = torch.ones(300, 300) @ torch.ones(300, 300)
assert torch.linalg.inv(torch.eye(300) * 2).sum() == 150 and (y == 300).all()
print(torch.get_num_threads())
"""
    seen = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env=_environment("2"),
    )
    assert seen.stdout.strip() == "2"


def _environment(threads: str) -> dict[str, str]:
    return os.environ | {"OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads}


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@needs_mkl
def test_a_promise_that_complex_numbers_break_is_refuted(dtype: str) -> None:
    """MKL's complex Cholesky factorization goes on where a pivot is negative, and solves."""
    rng = np.random.default_rng(0)
    seen = {True: 0, False: 0}
    for _ in range(100):
        n = int(rng.integers(2, 60))
        a = sp.random_array((n, n), density=min(0.5, 3 / n), rng=rng).tocsc() * (1 + 0.3j)
        a = sp.csc_array(a + a.conj().T + rng.uniform(1, 4) * sp.eye_array(n)).astype(dtype)
        least = np.linalg.eigvalsh(a.toarray()).min()
        if abs(least) < 0.05:
            continue
        b, definite = np.ones(n, dtype), bool(least > 0)
        seen[definite] += 1
        if definite:
            x = ldiv.solve(a, b, assume_a="pos", method="pardiso")
            assert np.allclose(a @ x, b, atol=1e3 * np.finfo(dtype).eps)
        else:
            with pytest.raises(ldiv.NotPositiveDefiniteError):
                ldiv.solve(a, b, assume_a="pos", method="pardiso")
    assert min(seen.values()) > 10
