"""Cholesky by batches of dense fronts: values, entries of the inverse and their tangents beside 50
digits and beside the compiled engine; refusals; what is kept.
"""

from __future__ import annotations

import gc
import subprocess
import sys

import mpmath
import numpy as np
import pytest
import scipy.sparse as sp

import ldiv
from ldiv.engines.direct import cholesky, fronts
from ldiv.engines.libraries import native
from ldiv.structures.symmetric import Symmetric

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(native.native is None, reason=native.why_not)
mpmath.mp.dps = 50
DTYPES = ("float32", "float64", "complex64", "complex128")


def grid(d, m, shift=0.01):
    one = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(m, m))
    a = one
    for _ in range(d - 1):
        a = sp.kronsum(a, one)
    return sp.coo_array(a + shift * sp.eye_array(m**d))


def scattered(rng, n, dtype, density=0.2):
    """Positive definite, of any pattern, entries in any order, some in two halves."""
    a = sp.random_array((n, n), density=density, rng=rng).toarray().astype(dtype)
    if np.dtype(dtype).kind == "c":
        a = a * np.exp(2j * np.pi * rng.random((n, n)))
    a = sp.coo_array(a + a.conj().T + n * np.eye(n)).astype(dtype)
    rows, cols, v = np.append(a.row, a.row), np.append(a.col, a.col), np.append(a.data, a.data) / 2
    order = rng.permutation(len(v))
    return a.toarray(), ldiv.coo_array(
        (v[order].astype(dtype), (rows[order], cols[order])), shape=(n, n)
    )


def exact_inverse(a):
    """A^-1 and log det A in 50 digits."""
    m = mpmath.matrix(a.tolist())
    inverse, det = m**-1, mpmath.re(mpmath.det(m))
    return np.array(inverse.tolist(), complex), float(mpmath.log(det))


@pytest.mark.parametrize("to", [np.asarray, torch.from_numpy], ids=["numpy", "torch"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 2, 9, 20])
def test_beside_fifty_digits(n, dtype, to):
    rng = np.random.default_rng(n)
    a, A = scattered(rng, n, dtype)
    inverse, logdet = exact_inverse(a)
    b = rng.standard_normal((n, 3)).astype(dtype)
    A, eps = A.with_data(to(A.data)), float(np.finfo(dtype).eps)
    for trans, whole in (("N", inverse), ("T", inverse.T), ("H", inverse.conj().T)):
        x = np.asarray(ldiv.solve(A, to(b), assume_a="pos", method="fronts", trans=trans))
        assert x.dtype == dtype
        assert np.abs(x - whole @ b).max() <= 20 * eps * np.abs(whole @ b).max()
    found = float(ldiv.logdet(A, assume_a="pos", method="fronts"))
    assert abs(found - logdet) <= 20 * eps * max(1, abs(logdet))


def factor_of(A, p):
    structure = Symmetric(A.structure, "H")
    return fronts.factor(fronts.analyze(structure), structure, p, "pos")


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("batch", [(), (3,), (2, 2)])
def test_entries_of_the_inverse_and_their_tangents(dtype, batch):
    rng = np.random.default_rng(0)
    a, A = scattered(rng, 15, dtype)
    scale = 1 + np.arange(np.prod(batch, dtype=int)).reshape(*batch, 1)
    p, e = scale * A.data, rng.standard_normal((*batch, A.nnz)).astype(dtype)
    F, i, j = factor_of(A, torch.from_numpy(p)), A.row, A.col
    inverse = np.linalg.inv(a) / scale[..., None]
    g = F.inverse_entries().numpy()
    assert np.allclose(g, inverse.conj()[..., j, i], rtol=1e-12, atol=1e-14)
    whole = np.zeros((*batch, 15, 15), dtype)
    np.add.at(whole, (..., i, j), e)
    whole = (whole + whole.conj().mT) / 2
    moved = -(inverse @ whole @ inverse)
    t = F.inverse_tangent(torch.from_numpy(e)).numpy()
    assert np.allclose(t, moved.conj()[..., j, i], rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize(("d", "m"), [(2, 40), (3, 11)])
def test_beside_the_compiled_engine(d, m):
    K = ldiv.asarray(grid(d, m))
    v, b = torch.from_numpy(K.data), torch.randn(m**d, 2, dtype=torch.float64)
    x, y = (ldiv.solve(K.with_data(v), b, assume_a="pos", method=w) for w in ("fronts", "cholesky"))
    assert float((x - y).abs().max()) < 1e-10 * float(y.abs().max())
    F = factor_of(K, v)
    g = ldiv.selected_inverse(K, assume_a="pos").data
    assert np.allclose(F.inverse_entries(), g, rtol=1e-10)


@pytest.mark.parametrize(
    ("d", "m", "most"), [(2, 100, 1.5), (2, 300, 1.5), (3, 20, 1.8), (3, 30, 1.8)]
)
def test_memory_is_near_that_of_the_compiled_factor(d, m, most):
    structure = Symmetric(ldiv.asarray(grid(d, m)).structure, "H")
    analysis = fronts.analyze(structure)
    assert analysis.batches.entries <= most * cholesky.analyze(structure).entries
    assert len(analysis.batches.batches) <= 110


def test_equal_inputs_give_equal_bits():
    K = ldiv.asarray(grid(2, 30))
    v, b = (
        torch.from_numpy(np.stack([K.data, 2 * K.data])),
        torch.randn(900, 1, dtype=torch.float64),
    )
    one, two = (ldiv.solve(K.with_data(v), b, assume_a="pos", method="fronts") for _ in range(2))
    assert torch.equal(one, two)


def test_batches_broadcast():
    K = ldiv.asarray(grid(2, 12))
    v = torch.from_numpy(np.stack([K.data, 2 * K.data, 3 * K.data]))
    b = torch.randn(4, 3, 144, 2, dtype=torch.float64)
    x = ldiv.solve(K.with_data(v), b, assume_a="pos", method="fronts")
    for i in range(3):
        own = ldiv.solve(K.with_data(v[i]), b[:, i], assume_a="pos")
        assert torch.allclose(x[:, i], own, rtol=1e-12, atol=1e-12)
    assert ldiv.solve(K.with_data(v[:0]), b[0, :0], assume_a="pos", method="fronts").shape == (
        0,
        144,
        2,
    )
    assert ldiv.solve(K.with_data(v), b[0, ..., :0], assume_a="pos", method="fronts").shape == (
        3,
        144,
        0,
    )


def solved(data, b=None, **how):
    K = ldiv.asarray(grid(2, 6))
    b = torch.ones(36, dtype=torch.float64) if b is None else b
    return ldiv.solve(
        K.with_data(torch.as_tensor(data(K.data))), b, assume_a="pos", method="fronts", **how
    )


def test_one_factorization_serves_value_and_gradient():
    K = ldiv.asarray(grid(2, 12))
    v = torch.from_numpy(K.data).requires_grad_()
    ldiv.clear_cache()
    ldiv.solve(
        K.with_data(v), torch.ones(144, dtype=torch.float64), assume_a="pos", method="fronts"
    ).sum().backward()
    info = ldiv.cache_info()
    assert (info.factorizations, info.solves, info.analyses) == (1, 2, 1)
    gc.collect()
    assert ldiv.cache_info().entries == 0


REFUSED = {
    "indefinite": (lambda v: -v, ldiv.NotPositiveDefiniteError, "leading minor"),
    "zero": (lambda v: 0 * v, ldiv.NotPositiveDefiniteError, "leading minor"),
    "one of a batch": (lambda v: np.stack([v, -v]), ldiv.NotPositiveDefiniteError, "leading minor"),
    "NaN": (lambda v: v * np.nan, ValueError, "finite"),
    "not Hermitian": (lambda v: v + np.arange(len(v)), ldiv.NotSymmetricError, "promised"),
}


@pytest.mark.parametrize("which", REFUSED)
def test_refusals(which):
    data, error, words = REFUSED[which]
    with pytest.raises(error, match=words):
        solved(data)


def test_a_singular_matrix_is_refused():
    line = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(20, 20)).tolil()
    line[0, 0] = line[19, 19] = 1
    with pytest.raises((ldiv.SingularMatrixError, ldiv.NotPositiveDefiniteError)):
        ldiv.solve(ldiv.asarray(sp.coo_array(line)), np.ones(20), assume_a="pos", method="fronts")
    gap = ldiv.coo_array((np.ones(2), ([0, 1], [1, 0])), shape=(2, 2))
    with pytest.raises(ldiv.NotPositiveDefiniteError, match="gaps"):
        ldiv.solve(gap, np.ones(2), assume_a="pos", method="fronts")


def test_a_member_that_is_refused_is_nan():
    with ldiv.errstate(singular="nan"):
        x = solved(lambda v: np.stack([v, -v, 2 * v]))
    assert x.isnan().all(-1).tolist() == [False, True, False]
    assert torch.allclose(x[0], 2 * x[2])


@pytest.mark.parametrize("spread", [1e3, 1e8])
def test_units_do_not_count(spread):
    """D K D y = D f, with an equilibrated diagonal."""
    K = grid(2, 15)
    d = spread ** np.random.default_rng(0).standard_normal(225)
    f = np.random.default_rng(1).standard_normal(225)
    A = ldiv.asarray(sp.coo_array(sp.diags_array(d) @ K @ sp.diags_array(d)))
    y = ldiv.solve(A, d * f, assume_a="pos", method="fronts")
    x = np.linalg.solve(K.toarray(), f)
    assert np.abs(d * y - x).max() < 1e-11 * np.abs(x).max()


def test_lack_of_memory_says_how_much_was_asked(monkeypatch):
    def no_memory(*_):
        raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB.\nMore words")

    monkeypatch.setattr(fronts, "cholesky", no_memory)
    with pytest.raises(
        ldiv.EngineError, match=r"MiB for L of 1 matrix, .+Tried to allocate 2.00 GiB"
    ):
        solved(lambda v: v)


def test_jax_is_told_who_solves_instead():
    jax = pytest.importorskip("jax")
    K = ldiv.asarray(grid(2, 6))

    def program(v):
        return ldiv.solve(K.with_data(v), v[:36], assume_a="pos", method="fronts")

    with pytest.raises(ldiv.EngineError, match="the host, or an iteration"):
        jax.jit(program)(jax.numpy.asarray(K.data))


def test_without_the_compiled_part_it_declines(monkeypatch):
    monkeypatch.setattr(native, "native", None)
    structure = Symmetric(ldiv.asarray(grid(2, 6)).structure, "H")
    assert "compiled part is not here" in fronts.supports(structure, np.float64, "cuda:0", "pos")


def test_index_arrays_are_counted_among_the_bytes_of_an_analysis():
    """`clear_cache` drops them, with the analysis."""
    code = """
import numpy as np, torch, ldiv
from ldiv.frontends.torch.devices.pretend_device import install
from ldiv.engines.factors import analyses
from ldiv.engines.factors.held_bytes import held
device = install()
A = ldiv.diags_array([np.full(99, -1.0), np.full(100, 2.1), np.full(99, -1.0)], offsets=[-1, 0, 1])
ldiv.solve(A.with_data(torch.tensor(A.data).to(device)), torch.ones(100, dtype=torch.float64).to(device), assume_a="pos")
made = next(iter(analyses._recent.values())).made
(analysis,) = made["ldiv.engines.direct.fronts"]
indices = analysis.batches._indices
print(held(made)[id(indices)] == indices.heap_bytes > 0)
ldiv.clear_cache()
print(len(analyses._recent))
import sys, os; sys.stdout.flush(); os._exit(0)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert run.stdout.split() == ["True", "0"], run.stderr


def test_a_solve_waits_once_and_asks_for_a_few_thousand_operations():
    """Operations are counted by batches, and by children of batches; under "nan" none waits."""
    code = """
import torch, numpy as np, scipy.sparse as sp, ldiv
from ldiv.frontends.torch.devices.pretend_device import install, waits
device = install()
one = sp.diags_array([-1.0, 2.1, -1.0], offsets=[-1, 0, 1], shape=(50, 50))
K = ldiv.asarray(sp.coo_array(sp.kronsum(one, one)))
v, b = torch.tensor(K.data).to(device), torch.ones(2500, dtype=torch.float64).to(device)

def solve(v):
    return ldiv.solve(K.with_data(v), b, assume_a="pos")

solve(v)
v = v.clone().requires_grad_()
for how in ("raise", "nan"):
    with ldiv.errstate(singular=how), waits() as counted:
        torch.autograd.grad(solve(v).sum(), v)
    print(counted.number, counted.operations)
from ldiv.engines.factors import analyses
(analysis,) = next(iter(analyses._recent.values())).made["ldiv.engines.direct.fronts"]
batches = analysis.batches.batches
print(len(batches), sum(len(b.kids) for b in batches))
import sys, os; sys.stdout.flush(); os._exit(0)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    waits, operations, unread, _, batches, kids = map(int, run.stdout.split())
    assert (waits, unread) == (2, 0), run.stderr
    # a factorization, three solves, and what looks at them
    assert operations <= 6 * kids + 45 * batches + 500
    assert batches < 50
