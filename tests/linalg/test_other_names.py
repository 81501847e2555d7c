"""inv, eigvalsh, spsolve, spsolve_triangular and splu are what stands behind them."""

from __future__ import annotations

import copy
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
import scipy.sparse.linalg as spla
import torch

import ldiv

RNG = np.random.default_rng(5)
A = RNG.standard_normal((5, 5)) + 4 * np.eye(5)
C = np.stack([A + 1j * RNG.standard_normal((5, 5)), A.T.astype(complex)])
S = A @ A.T
b = RNG.standard_normal(5)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_inv(dtype: str) -> None:
    a = C.astype(dtype) if dtype.startswith("c") else C.real.astype(dtype)
    # JAX compiles for long: one dtype
    for to in (np.asarray, torch.tensor, *([jnp.asarray] if dtype == "complex64" else [])):
        with jax.enable_x64(True):
            x = np.asarray(ldiv.inv(to(a)))
        assert x.dtype == dtype
        np.testing.assert_allclose(x, np.linalg.inv(a), rtol=1e3 * np.finfo(dtype).eps, atol=1e-6)
    np.testing.assert_allclose(ldiv.inv(S, assume_a="pos"), np.linalg.inv(S))
    assert ldiv.inv(np.empty((0, 0), dtype)).shape == (0, 0)
    np.testing.assert_allclose(ldiv.inv([[2, 0], [0, 4]], overwrite_a=True), np.diag([0.5, 0.25]))


def test_derivatives_of_inv() -> None:
    """dX = -X dA X."""
    G = RNG.standard_normal((5, 5))
    expected = -np.linalg.inv(A).T @ G @ np.linalg.inv(A).T
    a = torch.tensor(A, requires_grad=True)
    (slope,) = torch.autograd.grad((ldiv.inv(a) * torch.tensor(G)).sum(), a)
    np.testing.assert_allclose(slope, expected)
    each = torch.func.vmap(torch.func.grad(lambda a: (ldiv.inv(a) * torch.tensor(G)).sum()))
    np.testing.assert_allclose(each(torch.tensor(np.stack([A, S])))[0], expected)
    with jax.enable_x64(True):
        loss = jax.value_and_grad(lambda a: (ldiv.inv(a) * G).sum())
        f = jax.jit(lambda a, d: (loss(a), jax.jvp(ldiv.inv, (a,), (d,))[1]))
        (value, slope), along = f(jnp.asarray(A), jnp.asarray(G))
    np.testing.assert_allclose(value, (np.linalg.inv(A) * G).sum())
    np.testing.assert_allclose(slope, expected)
    np.testing.assert_allclose(along, -np.linalg.inv(A) @ G @ np.linalg.inv(A))


def test_what_inv_refuses() -> None:
    with pytest.raises(ldiv.SingularMatrixError):
        ldiv.inv(np.ones((3, 3)))
    with pytest.raises(TypeError, match="A: expected a dense array"):
        ldiv.inv(sp.csr_array(A))
    with pytest.raises(ValueError, match="square"):
        ldiv.inv(np.ones((2, 3)))


def test_eigvalsh() -> None:
    np.testing.assert_allclose(ldiv.eigvalsh(S), scipy.linalg.eigvalsh(S))
    pencil = A + A.T
    np.testing.assert_allclose(
        ldiv.eigvalsh(pencil, b=S, subset_by_index=[1, 3], check_finite=False),
        scipy.linalg.eigvalsh(pencil, S, subset_by_index=[1, 3]),
    )
    a = torch.tensor(S, requires_grad=True)
    (slope,) = torch.autograd.grad(ldiv.eigvalsh(a)[-1], a)
    x = np.linalg.eigh(S)[1][:, -1]
    np.testing.assert_allclose(slope, np.outer(x, x))
    with pytest.raises(ValueError, match="b: expected one of B and b"):
        ldiv.eigvalsh(S, S, b=S)


@pytest.mark.parametrize("kind", [1, 2, 3])
@pytest.mark.parametrize("dtype", [float, complex])
def test_products_of_a_pencil(kind: Any, dtype: Any) -> None:
    """A B x = lam x and B A x = lam x, some by index or by value, beside SciPy; Y = X^H .. X = I."""
    rng = np.random.default_rng(kind)
    a, b = rng.standard_normal((2, 5, 5)) + dtype(1j if dtype is complex else 0) * rng.random(
        (5, 5)
    )
    a, b = a + a.conj().T, b @ b.conj().T + np.diag(10.0 ** np.arange(5))
    w = scipy.linalg.eigvalsh(a, b, type=kind)
    middle = [(w[0] + w[1]) / 2, (w[3] + w[4]) / 2]
    for some in ({}, {"subset_by_index": [1, 3]}, {"subset_by_value": middle}):
        want, vectors = scipy.linalg.eigh(a, b, type=kind, **some)
        got, x = ldiv.eigh(a, b, type=kind, **some)
        np.testing.assert_allclose(got, want, rtol=1e-9)
        np.testing.assert_allclose(np.abs(x), np.abs(vectors), rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(ldiv.eigvalsh(a, b, type=kind, **some), got, rtol=1e-12)
    none = ldiv.eigh(a, b, type=kind, subset_by_value=(w[-1] + 1, np.inf))
    assert [y.shape for y in none] == [(0,), (5, 0)]
    ta, tb = (torch.tensor(y[:4, :4], requires_grad=True) for y in (a, b / 10))
    low = float(np.mean(scipy.linalg.eigvalsh(a[:4, :4], b[:4, :4] / 10, type=kind)[:2]))

    def f(a: Any, b: Any) -> Any:
        w, x = ldiv.eigh((a + a.mH) / 2, (b + b.mH) / 2, type=kind, subset_by_value=(low, np.inf))
        return w, x.abs() ** 2

    assert torch.autograd.gradcheck(f, (ta, tb), check_forward_ad=True)


@pytest.mark.parametrize(
    ("words", "call"),
    [
        ("subset_by_value: expected .*low < high", lambda: ldiv.eigh(S, subset_by_value=(2, 1))),
        ("subset_by_value: expected", lambda: ldiv.eigh(S, subset_by_value=(np.nan, 1))),
        ("one matrix", lambda: ldiv.eigh(np.stack([S, S]), subset_by_value=(0, 1))),
        (
            "one of subset_by_index and",
            lambda: ldiv.eigh(S, subset_by_index=(0, 1), subset_by_value=(0, 1)),
        ),
        ("type: expected", lambda: ldiv.eigh(S, S, type=4)),
        ("type: expected 1 without B, got 2", lambda: ldiv.eigh(S, type=2)),
        ("Each chooses", lambda: ldiv.eigh(S, None, (0, 1), subset_by_value=(0, 1))),
        ("A: expected finite", lambda: ldiv.eigh(np.nan * S, S, type=2)),
    ],
)
def test_what_eigh_refuses(words: str, call: Any) -> None:
    with pytest.raises(ValueError, match=words):
        call()


@pytest.mark.parametrize("kind", [2, 3])
def test_a_product_that_leaves_the_range(kind: Any) -> None:
    """A and B each at an end of the range, in whose product their units cancel, or do not."""
    a, b = np.diag([1.0, 2.0, 4.0]), np.eye(3)
    for t in (1e200, 1e-200):
        w = ldiv.eigvalsh(t * a, b / t, type=kind)
        np.testing.assert_allclose(w, [1, 2, 4], rtol=1e-14)
    with pytest.raises(ldiv.LinAlgOverflowError, match="eigh overflows"):
        ldiv.eigh(1e200 * a, 1e200 * b, type=kind)


def test_pairs_in_an_interval_are_sought_anew_in_each_call() -> None:
    """A second matrix of the same kind has another number of pairs; a trace has no numbers."""
    for shift in (0.0, 1.0, 2.0):
        a = np.diag(np.arange(5.0) + shift)
        np.testing.assert_array_equal(
            ldiv.eigvalsh(a, subset_by_value=(0.5, 2.5)).min(), max(1, shift)
        )
        assert len(ldiv.eigh(a, subset_by_value=(0.5, 2.5))[0]) == {0: 2, 1: 2, 2: 1}[shift]
    with pytest.raises(TypeError, match=r"eigenvalues: .*subset_by_index in a trace"):
        jax.jit(lambda a: ldiv.eigh(a, subset_by_value=(0.0, 1.0)))(S)


@pytest.mark.parametrize("form", [sp.csc_array, sp.coo_matrix, ldiv.asarray])
def test_sparse_names(form: Any) -> None:
    a, lower = form(sp.csc_array(A)), form(sp.csc_array(np.tril(A)))
    np.testing.assert_allclose(ldiv.spsolve(a, b), spla.spsolve(sp.csc_array(A), b))
    np.testing.assert_allclose(
        ldiv.spsolve(a, b[:, None], permc_spec="NATURAL"), np.linalg.solve(A, b[:, None])
    )
    np.testing.assert_allclose(ldiv.spsolve_triangular(lower, b), np.linalg.solve(np.tril(A), b))
    np.testing.assert_allclose(
        ldiv.spsolve_triangular(a, b, lower=False, unit_diagonal=True),
        np.linalg.solve(np.triu(A, 1) + np.eye(5), b),
    )
    F, G = ldiv.splu(a, permc_spec="COLAMD"), spla.splu(sp.csc_array(A))
    for trans in ("N", "T", "H"):
        np.testing.assert_allclose(F.solve(b, trans), G.solve(b, trans))
    x = torch.tensor(b, requires_grad=True)
    (slope,) = torch.autograd.grad(ldiv.spsolve(a, x).sum(), x)
    np.testing.assert_allclose(slope, np.linalg.solve(A.T, np.ones(5)))


@pytest.mark.parametrize("name", ["L", "U", "perm_c", "perm_r", "nnz"])
def test_splu_says_who_shows_factors(name):
    F = ldiv.splu(sp.csc_array(A))
    with pytest.raises(AttributeError, match=rf"^{name}: .*scipy.sparse.linalg.splu .*ldiv.lu"):
        getattr(F, name)
    assert hasattr(spla.splu(sp.csc_array(A)), name)
    assert not hasattr(F, name)
    with pytest.raises(AttributeError, match="'Factorized' object has no attribute 'lower'"):
        _ = F.lower
    twin = copy.deepcopy(F)
    np.testing.assert_array_equal(twin.solve(np.ones(len(A))), F.solve(np.ones(len(A))))
