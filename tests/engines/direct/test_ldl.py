"""L D L^T and L D L^H of sparse matrices: answers, signs, delayed pivots, what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import ldiv
from ldiv.core.frameworks.pattern import Pattern
from ldiv.core.rules.structure import view_dense
from ldiv.engines.accuracy.limits import SYMMETRIC_PIVOT
from ldiv.engines.direct import ldl
from ldiv.engines.libraries import native
from ldiv.engines.selected.compiled import CompiledLdl
from ldiv.engines.selected.fronts import Fronts
from ldiv.errors import NotPositiveDefiniteError, SingularMatrixError
from ldiv.matrices.assumptions import promised
from ldiv.structures.symmetric import Symmetric
from ldiv.testing.cases import Draw

pytestmark = pytest.mark.skipif(native.native is None, reason=native.why_not)
DTYPES = ("float32", "float64", "complex64", "complex128")
KINDS = ("sym", "her")


def part(a: Any, kind: str) -> Any:
    return a + (a.T if kind == "sym" else a.conj().T)


def saddle(kind: str, dtype: str, n: int, m: int, seed: int, density: float = 0.1) -> Any:
    """[[H, B^H], [B, 0]] with n and m rows, B of full rank, H without m of its diagonal entries, in a
    random order.
    """
    rng, draw = np.random.default_rng(seed), Draw(dtype, seed)
    pivots = rng.permutation(n)[:m]
    h = np.where(rng.random((n, n)) < density / 2, draw(n, n) / 2, 0)
    d = rng.choice([-3.0, 3.0], n)
    d[pivots] = 0
    h = part(h, kind) + np.diag(d)
    b = np.where(rng.random((m, n)) < density, draw(m, n) / 2, 0)
    b[np.arange(m), pivots] += 1 + rng.random(m)
    b = b.astype(dtype)
    a = np.block([[h, b.T if kind == "sym" else b.conj().T], [b, np.zeros((m, m))]])
    order = rng.permutation(n + m)
    return a[np.ix_(order, order)].astype(dtype)


def mesh(kind: str, dtype: str, side: int, shift: float = 3.3) -> Any:
    one = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(side, side))
    a = sp.kron(one, sp.eye_array(side)) + sp.kron(sp.eye_array(side), one)
    a = a - shift * sp.eye_array(side**2)
    if np.dtype(dtype).kind == "c":
        turn = sp.diags_array(np.exp(1j * np.arange(side**2)))
        a = turn @ a @ (turn if kind == "sym" else turn.conj())
    return sp.csc_array(a).astype(dtype)


def factor(a: Any, kind: str, carefully: bool = False, assume_a: str = "gen") -> Any:
    structure, p = promised(ldiv.asarray(sp.csc_array(a)), kind)
    made = ldl.factor_carefully if carefully else ldl.factor
    return made(ldl.analyze(structure), structure, p, assume_a)


def raw(a: Any, kind: str, least: float = SYMMETRIC_PIVOT) -> Any:
    """The factor without checks, and the order of its rows."""
    a = sp.csc_array(a)
    fronts = Fronts(Pattern(*sp.coo_array(a).coords, a.shape))
    slots = Pattern(*sp.coo_array(a).coords, a.shape).slot_values(sp.coo_array(a).data)
    return CompiledLdl("Ldl", fronts, fronts.arranged(slots), kind == "her", least), fronts


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", KINDS)
def test_solves_in_all_views_and_determinants(kind: str, dtype: str) -> None:
    tol = 200 * np.finfo(dtype).eps
    matrices = [
        saddle(kind, dtype, n, m, seed) for seed, (n, m) in enumerate([(3, 1), (20, 7), (60, 30)])
    ]
    for a in [np.full((1, 1), -2, dtype), *matrices, mesh(kind, dtype, 9).toarray()]:
        n, found = len(a), factor(a, kind)
        for columns in (1, 3):
            b = Draw(dtype, 1)(n, columns)
            for op in "NTH":
                x = found.solve(b, op)
                assert x.shape == b.shape and x.dtype == a.dtype
                size = np.abs(a).sum(0).max() * np.abs(x).max() + np.abs(b).max()
                assert np.abs(view_dense(a, op) @ x - b).max() <= tol * size
        sign, size = np.linalg.slogdet(a.astype(complex))
        condition = np.linalg.cond(a.astype(complex))
        assert abs(found.logabsdet() - size) <= tol * n * condition
        assert abs(found.slogdet()[0] - sign) <= tol * n * condition


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_signs_are_those_of_the_eigenvalues(kind: str, dtype: str) -> None:
    for seed in range(30):
        a = saddle(kind, dtype, 30, 5 + seed % 20, seed)
        signs = raw(a, kind)[0].signs()
        if kind == "sym" and np.dtype(dtype).kind == "c":
            assert signs is None
            continue
        lam = np.linalg.eigvalsh(a)
        assert signs == ((lam > 0).sum(), (lam < 0).sum())


@pytest.mark.parametrize("least", [SYMMETRIC_PIVOT, 0.25])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", KINDS)
def test_pivots_that_a_front_lacks_are_delayed(kind: str, dtype: str, least: float) -> None:
    """The first rows have zeros on the diagonal, and one neighbor each: in another front."""
    delayed = 0
    for seed in range(20):
        a = saddle(kind, dtype, 120, 60, seed, density=0.02)
        found, fronts = raw(a, kind, least)
        delayed += found._compiled.delayed
        b = Draw(dtype, seed)(180, 2)
        arranged = a[np.ix_(fronts.rows, fronts.rows)]
        x = found.solve(b, "N")
        size = np.abs(arranged).sum(0).max() * np.abs(x).max() + np.abs(b).max()
        # unrefined: elements grow
        assert np.abs(arranged @ x - b).max() <= 1e5 * np.finfo(dtype).eps * size
    assert delayed > 20


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", KINDS)
def test_large_fronts_go_by_panels(kind: str, dtype: str) -> None:
    """A dense matrix is one front: more columns than a panel has, with pairs across its end."""
    for n in (31, 32, 33, 34, 65, 150):
        a = part(Draw(dtype, n)(n, n), kind)
        np.fill_diagonal(a, 0)
        b = Draw(dtype, 1)(n, 3)
        x = factor(a, kind).solve(b, "N")
        size = np.abs(a).sum(0).max() * np.abs(x).max()
        assert np.abs(a @ x - b).max() <= 50 * np.finfo(dtype).eps * size


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", KINDS)
def test_singular_raises(kind: str, dtype: str) -> None:
    for n, m in ((2, 3), (10, 11), (40, 41)):  # more constraints than unknowns
        rng = np.random.default_rng(n)
        b = np.where(rng.random((m, n)) < 0.4, Draw(dtype, n)(m, n), 0)
        b[:n] += np.eye(n)
        b = b.astype(dtype)
        a = np.block([[np.eye(n), b.T if kind == "sym" else b.conj().T], [b, np.zeros((m, m))]])
        with pytest.raises(SingularMatrixError):
            factor(a.astype(dtype), kind).solve(np.ones((n + m, 1), dtype), "N")


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_negative_pivot_refutes_a_promise(dtype: str) -> None:
    a = mesh("her", dtype, 6)
    with pytest.raises(NotPositiveDefiniteError, match="negative pivots"):
        factor(a, "her", assume_a="pos")


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("kind", KINDS)
def test_threads_give_the_same_answer(kind: str, dtype: str) -> None:
    a, b = mesh(kind, dtype, 70), np.ones((4900, 2), dtype)
    found = []
    for threads in (1, 2):
        with ldiv.set_num_threads(threads):
            found.append(factor(a, kind).solve(b, "N"))
    assert np.abs(a @ found[0] - b).max() <= 1e-11 * np.abs(found[0]).max()
    assert np.array_equal(*found)


@pytest.mark.parametrize("name", ["494_bus", "bcsstk13", "hangGlider_2", "tumorAntiAngiogenesis_2"])
def test_real_matrices(real_matrix: Any, name: str) -> None:
    a = real_matrix(name)
    x = np.random.default_rng(0).standard_normal((a.shape[0], 2))
    b = a @ x
    y = ldiv.solve(ldiv.asarray(a), b, assume_a="sym", method="ldl")
    size = np.abs(a) @ (np.abs(y) + np.abs(x))
    assert (np.abs(a @ y - b).max(0) <= 100 * np.finfo(float).eps * size.max(0)).all()


@pytest.mark.parametrize(
    ("op", "dtype", "device", "why"),
    [
        (None, "float64", "cpu", "symmetric matrices only"),
        ("H", "float64", "cuda:0", "cuda:0"),
        ("H", "longdouble", "cpu", "factors float32"),
        ("H", "complex128", "cpu", None),
        ("T", "complex64", "cpu", None),
    ],
)
def test_says_what_it_leaves_to_others(
    op: str | None, dtype: str, device: str, why: str | None
) -> None:
    base = ldiv.asarray(mesh("sym", "float64", 3)).structure
    structure = base if op is None else Symmetric(base, op)
    answer = ldl.supports(structure, np.dtype(dtype), device, "gen")
    assert answer is None if why is None else why in str(answer)


@pytest.mark.parametrize(
    ("kind", "dtype"), [("sym", "float64"), ("sym", "complex128"), ("her", "complex128")]
)
def test_derivatives_of_all_orders(kind: str, dtype: str) -> None:
    torch = pytest.importorskip("torch")
    a = sp.csc_array(saddle(kind, dtype, 6, 2, 1, density=0.3))
    values = torch.tensor(a.data, requires_grad=True)
    b = torch.ones(8, dtype=values.dtype, requires_grad=True)

    def solve(v: Any, b: Any) -> Any:
        A = ldiv.csc_array((v, a.indices, a.indptr), shape=a.shape)
        return ldiv.solve(A, b, assume_a=kind, method="ldl")

    assert torch.autograd.gradcheck(solve, (values, b))
    assert torch.autograd.gradgradcheck(solve, (values, b))
