"""The compiled L D L^T and LU against dense NumPy; what they decline, and what they miss."""

from __future__ import annotations

import copy
import pickle
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import ldiv
from ldiv.core.frameworks.pattern import Pattern
from ldiv.core.rules.structure import view_dense
from ldiv.engines.accuracy import sparse_checked
from ldiv.engines.direct import ldl, lu
from ldiv.engines.factors.factorize import factorize_by
from ldiv.engines.libraries import native
from ldiv.engines.registry import engines
from ldiv.errors import EngineError, NotPositiveDefiniteError, SingularMatrixError
from ldiv.matrices.assumptions import promised
from ldiv.structures.sparse import Sparse
from ldiv.structures.symmetric import Symmetric
from ldiv.testing.cases import Draw

DTYPES = ("float32", "float64", "complex64", "complex128")
KINDS = [("ldl", "sym"), ("ldl", "her"), ("ldl", "pos")]
KINDS += [("lu", kind) for kind in ("gen", "sym", "her") if sparse_checked.is_available()]
compiled = pytest.mark.skipif(native.native is None, reason=native.why_not)
SINGULAR = (SingularMatrixError, NotPositiveDefiniteError)


def matrix(kind: str, dtype: str, n: int = 40, seed: int = 0) -> Any:
    """A path with a few chords, so that little fills in; well conditioned."""
    draw, rng = Draw(dtype, seed), np.random.default_rng(seed)
    i, j = rng.integers(0, n, (2, n // 8))
    at = np.abs(np.subtract.outer(np.arange(n), np.arange(n))) == 1
    at[i, j] = at[j, i] = True
    a = np.where(at, draw(n, n), 0)
    a = a if kind == "gen" else a + (a.T if kind == "sym" else a.conj().T)
    strong = (1 + np.abs(a).sum(axis=1)) * (1 if kind == "pos" else rng.choice([-1.0, 1.0], n))
    np.fill_diagonal(a, strong)
    return a.astype(dtype)


def factor(engine: str, a: Any, assume_a: str) -> Any:
    structure, p = promised(ldiv.asarray(sp.csc_array(a)), assume_a)
    return factorize_by(engines()[engine], structure, p, "pos" if assume_a == "pos" else "gen")


@compiled
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("engine", "kind"), KINDS)
def test_solves_in_all_views_and_logabsdet(engine: str, kind: str, dtype: str) -> None:
    for n in (1, 2, 40):
        a = matrix(kind, dtype, n)
        found, tol = factor(engine, a, kind), 100 * np.finfo(dtype).eps
        for columns in (1, 3):
            b = Draw(dtype, 1)(n, columns)
            for op in "NTH":
                x = found.solve(b, op)
                assert x.shape == b.shape and x.dtype == a.dtype
                assert np.abs(view_dense(a, op) @ x - b).max() <= tol * n
        expected = np.linalg.slogdet(a.astype(complex))[1]
        assert abs(found.logabsdet() - expected) <= tol * n * max(1, abs(expected))
        assert found.nbytes > np.count_nonzero(a) * a.itemsize


@compiled
@pytest.mark.parametrize(("engine", "kind"), KINDS)
def test_factors_of_one_pattern_do_not_disturb_each_other(engine: str, kind: str) -> None:
    """One analysis; each has its own values, whatever order they came in, to the last bit."""
    a, b = matrix(kind, "float64"), np.ones((40, 1))
    structure, p = promised(ldiv.asarray(sp.csc_array(a)), kind)
    promise = "pos" if kind == "pos" else "gen"
    ldiv.clear_cache()
    scales = (1.0, 3.0, 0.7)
    made = [factorize_by(engines()[engine], structure, s * p, promise) for s in scales]
    assert ldiv.cache_info().analyses == 1
    for s, one in zip(scales, made, strict=True):
        assert np.abs(s * a @ one.solve(b, "N") - b).max() <= 1e-12
    ldiv.clear_cache()
    alone = factorize_by(engines()[engine], structure, scales[-1] * p, promise)
    alone.solve(b, "N")  # the first solve has the probe beside b
    assert np.array_equal(alone.solve(b, "N"), made[-1].solve(b, "N"))


@compiled
@pytest.mark.parametrize(("engine", "kind"), KINDS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_singular_raises(engine: str, kind: str, dtype: str) -> None:
    """A free chain, alone and between others; exact pivots, and pivots with rounding."""
    for n, beam in ((2, False), (9, False), (30, True), (60, True)):
        stencil = (1.0, -2.0, 1.0) if beam else (1.0, -1.0)
        d = sp.diags_array(stencil, offsets=range(len(stencil)), shape=(n + 1 - len(stencil), n))
        free = sp.csc_array(d.T @ d).toarray()
        for a in (free, np.kron(np.diag([1.0, 0.0]), np.eye(n)) + np.kron(np.eye(2), free)):
            with pytest.raises(SINGULAR):
                factor(engine, a.astype(dtype), kind).solve(np.ones((len(a), 1), dtype), "N")


@compiled
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_indefinite_is_not_positive_definite(dtype: str) -> None:
    for seed in range(10):
        with pytest.raises(NotPositiveDefiniteError, match="negative pivots"):
            factor("ldl", matrix("her", dtype, seed=seed), "pos")


@compiled
@pytest.mark.parametrize("assume_a", ["gen", "sym"])
def test_what_it_gives_up_another_solves(assume_a: str) -> None:
    """Saddle points with zeros on the diagonal: refused by L D L^T, or solved; never wrong."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        m = sp.random_array((20, 60), density=0.05, rng=rng) + sp.eye_array(20, 60)
        d = sp.diags_array(np.where(np.arange(60) < 20, 0.0, 1.0))
        a = sp.block_array([[d, m.T], [m, None]], format="csc")
        x = rng.standard_normal(80)
        found, info = ldiv.solve(ldiv.asarray(a), a @ x, assume_a=assume_a, info=True)
        assert np.abs(a @ found - a @ x).max() <= 1e-11 * np.abs(found).max(), info
        with suppress(EngineError):  # named, it may give up, but not be wrong
            alone = ldiv.solve(ldiv.asarray(a), a @ x, assume_a="sym", method="ldl")
            assert np.abs(a @ alone - a @ x).max() <= 1e-11 * np.abs(found).max()


@compiled
@pytest.mark.parametrize(
    ("name", "engine", "assume_a"),
    [
        ("bcsstk13", "ldl", "pos"),
        ("494_bus", "ldl", "pos"),
        ("494_bus", "lu", "sym"),
        ("adder_dcop_05", "lu", "gen"),
        ("west0479", "lu", "gen"),
        ("hangGlider_2", "lu", "sym"),
        ("young1c", "lu", "gen"),
    ],
)
def test_real_matrices(real_matrix: Any, name: str, engine: str, assume_a: str) -> None:
    if engine == "lu" and native.native is None:
        pytest.skip(native.why_not)
    a = real_matrix(name)
    x = np.random.default_rng(0).standard_normal((a.shape[0], 2)).astype(a.dtype)
    for trans, op in (("N", a), ("T", a.T), ("H", a.conj().T)):
        b = op @ x
        y = ldiv.solve(ldiv.asarray(a), b, assume_a=assume_a, trans=trans, method=engine)
        size = np.abs(op) @ (np.abs(y) + np.abs(x))
        assert (np.abs(op @ y - b).max(0) <= 100 * np.finfo(float).eps * size.max(0)).all()


# -- what is declined ---------------------------------------------------------


@pytest.mark.parametrize(
    ("engine", "op", "dtype", "assume_a", "device", "why"),
    [
        (ldl, None, "float64", "gen", "cpu", "symmetric matrices only"),
        (ldl, "H", "float64", "gen", "cuda:0", "cuda:0"),
        (ldl, "H", "longdouble", "gen", "cpu", "factors float32"),
        (lu, "H", "float64", "pos", "cpu", "positive definite"),
        (lu, None, "float64", "gen", "cuda:0", "cuda:0"),
        (lu, None, "longdouble", "gen", "cpu", "factors float32"),
    ],
)
def test_says_what_it_leaves_to_others(
    engine: Any, op: str | None, dtype: str, assume_a: str, device: str, why: str
) -> None:
    a = sp.coo_array(matrix("gen", "float64"))
    base = Sparse(Pattern(*a.coords, a.shape))
    structure = base if op is None else Symmetric(base, op)
    assert why in engine.supports(structure, np.dtype(dtype), device, assume_a)
    dense, triangle = ldiv.structures.Dense(4, 4), promised(ldiv.asarray(a), "upper triangular")[0]
    for other in (dense, triangle):
        assert engine.supports(other, np.dtype(dtype), device, assume_a) is not None


@pytest.fixture
def beside_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the limits of `lu` as beside PARDISO, which takes meshes: not every machine has it."""
    monkeypatch.setattr(lu, "_limit", lambda structure: lu.BESIDE_BLOCKS)


@compiled
def test_meshes_are_not_of_circuit_kind(beside_blocks: None) -> None:
    """A pattern that makes every matrix singular is no circuit, either."""
    side = 60
    one = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(side, side))
    mesh = ldiv.asarray(sp.kron(one, sp.eye_array(side)) + sp.kron(sp.eye_array(side), one))
    path = ldiv.asarray(sp.csc_array(matrix("gen", "float64")))
    flat = ldiv.coo_array((np.ones(2), ([0, 0], [0, 1])), shape=(2, 2))
    asked = [lu.supports(x.structure, np.dtype(float), "cpu", "gen") for x in (mesh, path, flat)]
    assert asked[1] is None
    assert all("fill in" in str(answer) for answer in asked[::2])
    with pytest.raises(SingularMatrixError):
        ldiv.solve(flat, np.ones(2))


@compiled
def test_what_is_of_circuit_kind_among_many_rows(
    beside_blocks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Samples tell: a mesh is not even analysed; a network is, and so are blocks in disorder."""
    analysed: list[int] = []
    whole = lu._analysis
    monkeypatch.setattr(
        lu, "_analysis", lambda structure: analysed.append(structure.shape[0]) or whole(structure)
    )
    rng = np.random.default_rng(0)
    side = 120
    one = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(side, side))
    mesh = sp.kron(one, sp.eye_array(side)) + sp.kron(sp.eye_array(side), one)
    n = 10_000
    tree = sp.coo_array(
        (np.ones(n - 1), (np.arange(1, n), rng.integers(0, np.arange(1, n)))), (n, n)
    )
    supply = sp.coo_array((np.ones(n), (np.zeros(n, int), np.arange(n))), (n, n))
    network = tree + tree.T + supply + supply.T + 10 * sp.eye_array(n)
    block = sp.random_array((20, 20), density=0.2, rng=rng) + sp.eye_array(20)
    blocks = sp.csr_array(sp.block_diag([block] * (n // 20)))[rng.permutation(n)]
    asked = {}
    for name, a in (("mesh", mesh), ("network", network), ("blocks", blocks)):
        structure = ldiv.asarray(sp.csc_array(a)).structure
        asked[name] = lu.supports(structure, np.dtype(float), "cpu", "gen")
    assert "fill in" in str(asked["mesh"])
    assert asked["network"] is asked["blocks"] is None
    assert set(analysed) == {n}
    A, b = ldiv.asarray(sp.csc_array(network)), np.ones(n)
    x, info = ldiv.solve(A, b, info=True)
    assert info.engine == "lu"
    np.testing.assert_allclose(network @ x, b, atol=1e-10)


def test_where_nothing_is_compiled_another_solves_and_explain_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    a = ldiv.asarray(sp.csc_array(matrix("her", "float64", seed=7)))
    monkeypatch.setattr(sparse_checked, "missing", lambda: "is not here")
    why = ldiv.explain(a, assume_a="her")
    assert why.answers["ldl"] == "is not here"
    assert ldiv.solve(a, np.ones(40), assume_a="her").shape == (40,)
    with pytest.raises(EngineError, match="is not here"):
        ldiv.solve(a, np.ones(40), assume_a="her", method="ldl")


# -- copies, frameworks -------------------------------------------------------


@compiled
@pytest.mark.parametrize(("engine", "kind"), KINDS)
def test_copies_and_pickles_are_rebuilt(engine: str, kind: str) -> None:
    a = ldiv.asarray(sp.csc_array(matrix(kind, "float64")))
    f, b = ldiv.factorized(a, assume_a=kind, method=engine), np.ones(40)
    for again in (copy.copy(f), copy.deepcopy(f), pickle.loads(pickle.dumps(f))):
        assert np.array_equal(again.solve(b), f.solve(b))


# -- derivatives --------------------------------------------------------------


@compiled
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize(("engine", "kind"), KINDS)
def test_torch(engine: str, kind: str, dtype: str) -> None:
    torch = pytest.importorskip("torch")
    a = sp.csc_array(matrix(kind, dtype, 8))
    b = torch.from_numpy(Draw(dtype, 1)(8)).requires_grad_()
    values = torch.from_numpy(a.data).requires_grad_()

    def solve(values: Any, b: Any) -> Any:
        A = ldiv.csc_array((values, a.indices, a.indptr), shape=a.shape)
        if kind == "gen":
            return ldiv.solve(A, b, method=engine)
        A = (A + (A.T if kind == "sym" else A.H)) / 2
        return ldiv.solve(A, b, method=engine, assume_a=kind)

    assert torch.autograd.gradcheck(solve, (values, b))


@compiled
@pytest.mark.parametrize("engine", sorted({engine for engine, _ in KINDS}))
def test_jax(engine: str) -> None:
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    a = sp.csc_array(matrix("sym", "float64", 12))
    b = np.ones(12)

    def loss(v: Any) -> Any:
        A = ldiv.csc_array((v, a.indices, a.indptr), shape=a.shape)
        return ldiv.solve(A, jax.numpy.asarray(b), assume_a="sym", method=engine).sum()

    g = jax.jit(jax.grad(loss))(jax.numpy.asarray(a.data))
    x = np.linalg.solve(a.toarray(), b)
    cols = np.repeat(np.arange(12), np.diff(a.indptr))
    np.testing.assert_allclose(g, -x[a.indices] * x[cols], rtol=1e-10)
