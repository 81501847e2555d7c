"""A matrix of NumPy's numbers beside tensors and JAX arrays: its numbers are constants there."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp
import torch

import ldiv

jax.config.update("jax_enable_x64", True)

N = 5
D = np.diag(np.arange(4.0, 4.0 + N)) - np.eye(N, k=1) - np.eye(N, k=-1)
A = ldiv.asarray(sp.csr_array(D))
b = np.arange(1.0, N + 1)
B = np.stack([b, b[::-1] ** 2], axis=-1)


def dense(x: Any) -> Any:
    return x.toarray() if isinstance(x, ldiv.SparseArray) else x


# f(M, c) for the matrix M and a variable c; c has the values of b
CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "A * number": lambda M, c: dense(M * c[0]),
    "number * A": lambda M, c: dense(c[0] * M),
    "A / number": lambda M, c: dense(M / c[1]),
    "A * row": lambda M, c: dense(M * c),
    "A * dense": lambda M, c: dense(M.multiply(c[:, None] * c)),
    "A + other": lambda M, c: dense(M + M * c[1]),
    "A - other": lambda M, c: dense(M - M * c[1]),
    "A @ other": lambda M, c: dense(M @ (M * c)),
    "other @ A": lambda M, c: dense((M * c) @ M),
    "maximum": lambda M, c: dense(M.maximum(M * c[2])),
    "setdiag": lambda M, c: dense(ldiv.setdiag(M, c)),
    "factorized": lambda M, c: ldiv.factorized(M).solve(c, "T"),
    "factorized, dense": lambda M, c: ldiv.factorized(M.toarray()).solve(c),
    "factorized, composed": lambda M, c: ldiv.factorized(
        M + ldiv.LowRank(M.toarray()[:, :1], M.toarray()[:, :1])
    ).solve(c),
    "inverse": lambda M, c: ldiv.factorized(M).inverse @ c,
    "cholesky": lambda M, c: ldiv.cholesky(M).solve(c),
    "half_solve": lambda M, c: ldiv.cholesky(M).half_solve(c, "H"),
    "update": lambda M, c: ldiv.cholesky(M).update(c).solve(c),
    "M": lambda M, c: ldiv.solve(
        M * c[1], c, assume_a="pos", method="cg", M=ldiv.preconditioner(M, "jacobi"), rtol=1e-14
    ),
    "M, factorized": lambda M, c: ldiv.solve(M * c[1], c, method="gmres", M=ldiv.factorized(M)),
    "trace_solve": lambda M, c: ldiv.trace_solve(M.toarray(), M * c[1]),
    "eigsh": lambda M, c: ldiv.eigsh(M.toarray(), 2, ldiv.setdiag(M, 5 + c))[0],
    "gemm": lambda M, c: ldiv.gemm(c[1], M.toarray(), c[:, None] * c, 2.0, M.toarray()),
    "matmul": lambda M, c: ldiv.matmul(M.toarray(), c),
    "kron * number": lambda M, c: (ldiv.kron(M, M) * c[1] / c[2]) @ np.ones(N * N),
}


@pytest.mark.parametrize("call", CALLS)
def test_torch(call: str) -> None:
    f = CALLS[call]
    c = torch.tensor(b, requires_grad=True)
    got = f(A, c)
    np.testing.assert_allclose(got.detach(), f(A, b), rtol=1e-10)
    expected = f(A.with_data(torch.tensor(A.data)), c)  # its numbers are tensors
    weights = torch.linspace(1, 2, got.numel()).reshape(got.shape).to(got)
    slopes = [torch.autograd.grad((weights * y).sum(), c)[0] for y in (got, expected)]
    torch.testing.assert_close(*slopes, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.exhaustive)])
def test_jax(every: int) -> None:
    calls = list(CALLS.values())[::every]

    def loss(c: Any) -> Any:
        return sum((jnp.asarray(f(A, c)) ** 2).sum() for f in calls)

    at = jnp.asarray(b)
    value, slope = jax.jit(jax.value_and_grad(loss))(at)
    assert np.isclose(value, sum((f(A, b) ** 2).sum() for f in calls), rtol=1e-9)
    steps = 1e-4 * np.eye(N)
    along = [sum((f(A, b + h) ** 2).sum() - (f(A, b - h) ** 2).sum() for f in calls) for h in steps]
    np.testing.assert_allclose(
        slope, np.array(along) / 2e-4, rtol=1e-5, atol=1e-6 * np.abs(slope).max()
    )


def test_lobpcg_from_a_tensor() -> None:
    X = torch.tensor(np.random.default_rng(0).standard_normal((40, 2)))
    K = sp.diags_array([np.arange(2.0, 42.0), -np.ones(39), -np.ones(39)], offsets=[0, 1, -1])
    w, _ = ldiv.lobpcg(K, X, K * 2, largest=True)
    assert isinstance(w, torch.Tensor)
    np.testing.assert_allclose(w, [0.5, 0.5])


@pytest.mark.parametrize("f", [operator.add, operator.mul, operator.matmul])
def test_two_matrices(f: Callable[..., Any]) -> None:
    for to in (torch.asarray, jnp.asarray):
        C = A.with_data(to(A.data))
        for found in (f(A, C), f(C, A)):
            assert type(found.data) is type(C.data)
            np.testing.assert_allclose(found.toarray(), f(D, D))


def test_sparse_factors_are_made_once_for_all_frameworks() -> None:
    ldiv.clear_cache()
    F = ldiv.factorized(A)
    made = ldiv.cache_info().factorizations
    for _ in range(2):
        c = torch.tensor(b, requires_grad=True)
        F.solve(c).sum().backward()
        np.testing.assert_allclose(c.grad, np.linalg.solve(D.T, np.ones(N)))
        slope = jax.grad(lambda c: F.solve(c).sum())(jnp.asarray(b))
        np.testing.assert_allclose(slope, np.linalg.solve(D.T, np.ones(N)))
    assert ldiv.cache_info().factorizations == made
    assert isinstance(F.solve(b), np.ndarray)


def test_a_tensor_without_values() -> None:
    with pytest.raises(TypeError, match="meta device"):
        ldiv.factorized(A).solve(torch.ones(N, device="meta"))


@pytest.mark.parametrize("matrix", [D, A], ids=["dense", "sparse"])
def test_a_factor_that_was_first_used_in_inference_mode(matrix: Any) -> None:
    F = ldiv.factorized(matrix)
    with torch.inference_mode():
        F.solve(torch.tensor(b))
    c = torch.tensor(b, requires_grad=True)
    F.solve(c).sum().backward()
    np.testing.assert_allclose(c.grad, np.linalg.solve(D.T, np.ones(N)))


def test_lists_and_tables() -> None:
    np.testing.assert_allclose(A @ [1, 2, 3, 4, 5], D @ b)
    np.testing.assert_allclose((A * [1, 2, 3, 4, 5]).toarray(), D * b)
    np.testing.assert_allclose(ldiv.kron(A, A) @ ([1.0] * N * N), np.kron(D, D).sum(1))
    for odd in (None, "abc", {}):
        with pytest.raises(TypeError):
            A @ odd
        with pytest.raises(TypeError):
            A * odd


def test_what_are_no_plain_numbers_is_refused() -> None:
    C = A.with_data(torch.tensor(A.data))
    masked = np.ma.masked_array(b, b > 2)
    for odd in (masked, b.astype("M8[s]"), b.astype(str), b.astype(object)):
        with pytest.raises(TypeError, match=r"masked|float64"):
            C * odd
        with pytest.raises(TypeError, match=r"masked|float64"):
            ldiv.matmul(odd, torch.tensor(D))
    np.testing.assert_array_equal((C * b.astype(">f8")).toarray(), D * b)
    np.testing.assert_array_equal((C * b.astype(np.longdouble)).toarray(), D * b)
    np.testing.assert_array_equal((C * b.astype(">i4")).toarray(), D * b)


def test_functions_of_numpy() -> None:
    assert np.sum(A) == D.sum() and np.mean(A) == D.mean() and np.max(A) == D.max()
    for f in (np.array_equal, np.array_equiv):  # which take an error for a difference
        with pytest.raises(TypeError, match="got a SparseArray"):
            f(A, A)
    with pytest.raises(ValueError, match="out: expected None"):
        np.sum(A, out=np.zeros(()))


@pytest.mark.parametrize("to", [np.asarray, torch.asarray, jnp.asarray])
@pytest.mark.parametrize("make", [ldiv.coo_array, ldiv.csr_array, ldiv.csc_array])
def test_rows_and_columns_as_one_array(make: Any, to: Callable[[Any], Any]) -> None:
    at = np.array([[0, 1, 2, 2], [1, 1, 0, 0]])  # the edges of a graph, as PyTorch has them
    found = make((to(np.arange(1.0, 5.0)), to(at)), shape=(3, 3))
    wanted = sp.coo_array((np.arange(1.0, 5.0), tuple(at)), shape=(3, 3)).toarray()
    np.testing.assert_array_equal(found.toarray(), wanted)
    with pytest.raises(TypeError, match="columns"):
        ldiv.coo_array((to(np.arange(1.0, 5.0)), to(at.T.copy())), shape=(3, 3))


@pytest.mark.parametrize("to", [torch.tensor, jnp.asarray])
def test_options_name_the_framework_of_numbers_of_numpy(to: Any) -> None:
    """A tensor as x0, M or null_space beside A and b of NumPy: they are constants there."""
    x, start = np.linalg.solve(D, b), to(np.ones(N))
    singular = D - np.diag(D @ np.ones(N))
    side = singular @ b
    found = (
        ldiv.solve(D, b, assume_a="pos", method="cg", x0=start),
        ldiv.solve(A, b, method="gmres", M=to(np.eye(N))),
        ldiv.minres(D, b, start, shift=-0.0)[0],
        ldiv.lsqr(D, b, x0=start)[0],
        ldiv.solve(singular, side, null_space=start),
    )
    for got, want in zip(found, (x, x, x, x, b - b.mean()), strict=True):
        assert type(got) is type(start)
        np.testing.assert_allclose(np.asarray(got), want, rtol=1e-8, atol=1e-8)
