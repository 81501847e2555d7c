"""Inputs that SciPy takes for an array or a matrix: ldiv converts them as SciPy does, with
gradients where the framework has them, and never loses a graph.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Any
from unittest.mock import Mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as spla
import torch
from jax.experimental import sparse as jsp

import ldiv

N = 6
# everywhere: XLA may call back from a thread of its own, in which JAX does not know of a context
jax.config.update("jax_enable_x64", True)
RNG = np.random.default_rng(0)
A = np.rint(4 * RNG.standard_normal((N, N))) + 20 * np.eye(N)  # whole numbers
A[0, 3:] = 0
S = A + A.T
L = np.tril(A)
b = np.arange(1.0, N + 1)
B = np.stack([b, b[::-1]], axis=-1)
BAND = np.array([[0.0] + [1.0] * (N - 1), [4.0] * N, [1.0] * (N - 1) + [0.0]])


def values(x: Any) -> Any:
    return np.asarray(x.detach() if isinstance(x, torch.Tensor) else x)


class Offering:
    """An array of somebody's, as a table of pandas is: what NumPy asks for, and no more."""

    def __init__(self, a: Any) -> None:
        self.a = a

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.array(self.a, dtype)


class Lending:
    """An array of another library, which says where its memory is."""

    def __init__(self, a: Any) -> None:
        self.a, self.__array_interface__ = a, a.__array_interface__


class Refusing:
    """An object that has reasons not to be an array."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise TypeError("it is on a device")


# (make another form of the matrix, the dtype of results)
DENSE: dict[str, tuple[Callable[[Any], Any], str]] = {
    "list": (lambda a: a.tolist(), "float64"),
    "tuple of arrays": (tuple, "float64"),
    "int64": (lambda a: a.astype(np.int64), "float64"),
    "int8": (lambda a: a.astype(np.int8), "float64"),
    "big-endian": (lambda a: a.astype(">f8"), "float64"),
    "longdouble": (lambda a: a.astype(np.longdouble), "float64"),
    "clongdouble": (lambda a: a.astype(np.clongdouble), "complex128"),
    "float16": (lambda a: a.astype(np.float16), "float32"),
    "__array__": (Offering, "float64"),
    "__array_interface__": (Lending, "float64"),
    "memmap-like view": (lambda a: a[::-1][::-1], "float64"),
}
SPARSE: dict[str, Callable[[Any], Any]] = {
    **{f: lambda a, f=f: sp.csr_array(a).asformat(f) for f in ("csr", "csc", "coo", "bsr", "dia")},
    **{f: lambda a, f=f: sp.csr_matrix(a).asformat(f) for f in ("lil", "dok")},
    "integers": lambda a: sp.csr_array(a.astype(int)),
    "operator": spla.aslinearoperator,
    "matvec": lambda a: spla.LinearOperator(
        a.shape, matvec=lambda x: a @ x, rmatvec=lambda x: a.T @ x, dtype=a.dtype
    ),
}
CALLS: dict[str, tuple[Any, Callable[[Any, Any], Any]]] = {
    "solve": (A, ldiv.solve),
    "solve T": (A, lambda a, b: ldiv.solve(a, b, trans="T")),
    "lstsq": (A, lambda A, b: ldiv.lstsq(A, b).x),
    "solve_triangular": (L, lambda a, b: ldiv.solve_triangular(a, b, lower=True)),
    "cho_solve": (L, lambda a, b: ldiv.cho_solve((a, True), b)),
    "solve_banded": (BAND, lambda a, b: ldiv.solve_banded((1, 1), a, b)),
    "solveh_banded": (BAND[:2], ldiv.solveh_banded),
    "lu_solve": (A, lambda a, b: ldiv.lu_solve(ldiv.lu_factor(a), b)),
    "quad_form": (A, ldiv.quad_form),
    "matmul": (A, ldiv.matmul),
    "gemm": (A, lambda a, b: ldiv.gemm(2.0, a, ldiv.matmul(a, b)[:, None])),
    "eigh": (S, lambda a, b: ldiv.eigh(a)[0]),
    "cholesky": (S, lambda a, b: ldiv.cholesky(a)),
    "ldl": (S, lambda a, b: ldiv.ldl(a)[1]),
    "qr": (A, lambda a, b: ldiv.qr(a, mode="r")),
    "slogdet": (A, lambda a, b: ldiv.slogdet(a)[1]),
}


@pytest.mark.parametrize("form", DENSE)
@pytest.mark.parametrize("call", CALLS)
def test_dense_arrays_are_converted(call: str, form: str) -> None:
    a, f = CALLS[call]
    convert, dtype = DENSE[form]
    x = f(convert(a), b.astype(np.float16) if form == "float16" else list(b))
    real = np.dtype(dtype).type(0).real.dtype
    assert x.dtype in (dtype, real)
    np.testing.assert_allclose(x, f(a, b), rtol=1e-4 if form == "float16" else 1e-13)


@pytest.mark.parametrize("form", SPARSE)
def test_matrices_of_scipy(form: str) -> None:
    a, s = SPARSE[form](A), SPARSE[form](S)
    tol = {"rtol": 1e-9} if form in ("operator", "matvec") else {"rtol": 1e-12}
    np.testing.assert_allclose(ldiv.solve(a, b), np.linalg.solve(A, b), **tol)
    np.testing.assert_allclose(ldiv.solve(a, b, trans="H"), np.linalg.solve(A.T, b), **tol)
    np.testing.assert_allclose(ldiv.solve(a, list(B)), np.linalg.solve(A, B), **tol)
    np.testing.assert_allclose(ldiv.eigsh(s, 2)[0], np.linalg.eigvalsh(S)[-2:], **tol)
    np.testing.assert_allclose(ldiv.svds(a, 2)[1][::-1], np.linalg.svd(A)[1][:2], **tol)
    w, _ = ldiv.lobpcg(s, B, largest=True)
    np.testing.assert_allclose(w, np.linalg.eigvalsh(S)[:-3:-1], rtol=1e-9)
    np.testing.assert_allclose(ldiv.eye_array(N) @ a @ b, A @ b, **tol)


def test_factorized_matrices_of_scipy() -> None:
    F = ldiv.factorized(sp.csc_array(A))
    np.testing.assert_allclose(F.solve(b), np.linalg.solve(A, b))
    np.testing.assert_allclose(F([1, 2, 3, 4, 5, 6]), np.linalg.solve(A, b))
    np.testing.assert_allclose(ldiv.trace_solve(A, sp.csr_array(S)), np.trace(np.linalg.inv(A) @ S))


def test_what_offers_an_array_beside_tensors() -> None:
    x = torch.tensor(b, requires_grad=True)
    ldiv.solve(Offering(A), x).sum().backward()
    np.testing.assert_allclose(x.grad, np.linalg.solve(A.T, np.ones(N)))


@pytest.mark.parametrize("b", [range(1, N + 1), array("d", b), memoryview(b)], ids=type)
def test_what_lends_its_memory(b: Any) -> None:
    np.testing.assert_allclose(ldiv.solve(A, b), np.linalg.solve(A, np.asarray(b, float)))


def test_lists_that_are_no_array_are_described() -> None:
    with pytest.raises(TypeError, match=r"b: .* a list of torch\.Tensor"):
        ldiv.solve(A, [torch.tensor(1.0)] * N)
    with pytest.raises(TypeError, match=r"b: .* a list that is no rectangular array of numbers"):
        ldiv.solve(A, [[1, 2], [3]])
    with pytest.raises(TypeError, match=r"got a list\. Make it an array with numpy\.asarray"):
        ldiv.Duplicated([1.0], [0.0])


def test_what_answers_to_every_name_is_no_sparse_matrix() -> None:
    with pytest.raises(TypeError, match="got Mock, a type not understood"):
        ldiv.solve(A, Mock())


def test_what_refuses_to_be_an_array_is_refused() -> None:
    for odd in (Refusing(), Offering, ldiv.csr_array(A)):
        with pytest.raises(TypeError, match="b: expected"):
            ldiv.lstsq(A, odd)
    with pytest.raises(TypeError, match="got object"):
        ldiv.solve(A, Offering(np.array([None] * N)))


# -- constants of NumPy and SciPy beside arrays that are differentiated -------

CONSTANTS: dict[str, tuple[Any, Callable[[Any, Any], Any]]] = {
    **{k: v for k, v in CALLS.items() if k not in ("eigh", "cholesky", "ldl", "qr", "slogdet")},
    "solve scipy": (sp.csr_array(A), ldiv.solve),
    "scipy @": (sp.csr_array(A), lambda a, b: ldiv.asarray(a) @ b),
    "trace_solve": (A, lambda a, b: ldiv.trace_solve(a, b[:, None] * b)),
    "damp of lsqr": (A, lambda a, b: ldiv.lsqr(a, np.ones(N), damp=b[0] ** 2)[0]),
    "mean of gaussian_kl": (
        A,
        lambda a, b: ldiv.gaussian_kl(ldiv.cholesky(a @ a.T), ldiv.cholesky(a @ a.T), mean1=b),
    ),
}


@pytest.mark.parametrize("to", [torch.tensor, jnp.asarray])
def test_constants_in_params(to: Any) -> None:
    """The data a and b: a x = b, and the minimum of |a x - b|^2, have the same solution."""
    expected = np.linalg.solve(A, b)
    x = ldiv.root(lambda x, p: p[0] @ x - p[1], to(0 * b), (A, to(b)))
    np.testing.assert_allclose(x, expected)
    x = ldiv.least_squares(lambda x, p: p[0] @ x - p[1], to(0 * b), (A, to(b)))
    np.testing.assert_allclose(x, expected)
    mode = ldiv.laplace(lambda x, p: ((p[0] @ x - p[1]) ** 2).sum(), to(0 * b), (A, to(b))).mode
    np.testing.assert_allclose(mode, expected)


@pytest.mark.parametrize("call", CONSTANTS)
def test_constants_beside_tensors(call: str) -> None:
    a, f = CONSTANTS[call]
    dense = a.toarray() if sp.issparse(a) else a
    before = dense.copy()
    x = torch.tensor(b, requires_grad=True)
    y = f(a, x)
    expected = torch.tensor(b, requires_grad=True)
    same = f(torch.tensor(dense), expected) if "scipy" not in call else f(a, expected)
    (got,) = torch.autograd.grad(y.sum(), x)
    (wanted,) = torch.autograd.grad(same.sum(), expected)
    torch.testing.assert_close(y, same)
    torch.testing.assert_close(got, wanted)
    np.testing.assert_allclose(values(y), f(a, b), rtol=1e-12)
    np.testing.assert_array_equal(a.toarray() if sp.issparse(a) else a, before)


def test_constants_beside_jax() -> None:
    def loss(x: Any) -> Any:
        return sum((f(a, x)).sum() for a, f in CONSTANTS.values())

    at = jnp.asarray(b)
    value, slope = jax.jit(jax.value_and_grad(loss))(at)
    assert np.isclose(value, sum(f(a, b).sum() for a, f in CONSTANTS.values()), rtol=1e-10)
    steps = 1e-4 * np.eye(N)
    along = [(loss(at + h) - loss(at - h)) / 2e-4 for h in steps]
    np.testing.assert_allclose(slope, along, rtol=1e-5, atol=1e-5 * np.abs(along).max())


def test_a_right_hand_side_of_numpy() -> None:
    for to in (torch.tensor, jnp.asarray):
        x = ldiv.solve(to(A), b)
        assert type(x) is type(to(A))
        np.testing.assert_allclose(x, np.linalg.solve(A, b))
    slope = jax.grad(lambda a: ldiv.solve(a, b).sum())(jnp.asarray(A))
    lam = np.linalg.solve(A.T, np.ones(N))
    np.testing.assert_allclose(slope, -np.outer(lam, np.linalg.solve(A, b)), rtol=1e-10)


def test_two_frameworks_do_not_mix() -> None:
    with pytest.raises(TypeError, match="one framework"):
        ldiv.solve(torch.tensor(A), jnp.asarray(b))


# -- sparse tensors, and what frameworks promote ------------------------------


@pytest.mark.filterwarnings("ignore:Sparse .* tensor support is in beta")
@pytest.mark.parametrize("layout", ["sparse_coo", "sparse_csr", "sparse_bsr"])
def test_sparse_tensors_and_their_gradients(layout: str) -> None:
    a = torch.tensor(A).to_sparse(
        layout=getattr(torch, layout), **({"blocksize": (2, 2)} if layout == "sparse_bsr" else {})
    )
    a.requires_grad_(layout != "sparse_bsr")  # whose gradients PyTorch itself cannot add up
    x = ldiv.solve(a, torch.tensor(b))
    np.testing.assert_allclose(values(x), np.linalg.solve(A, b))
    np.testing.assert_allclose(values(ldiv.norm(a, 1)), np.linalg.norm(A, 1))
    if layout == "sparse_bsr":
        return
    x.sum().backward()
    assert a.grad.layout == a.layout
    lam = np.linalg.solve(A.T, np.ones(N))
    expected = -np.outer(lam, values(x)) * (values(a.to_dense()) != 0)
    got = values(a.grad.to_dense())
    np.testing.assert_allclose(got * (values(a.to_dense()) != 0), expected, rtol=1e-10)


@pytest.mark.parametrize("kind", [jsp.BCOO, jsp.BCSR])
def test_sparse_arrays_of_jax(kind: Any) -> None:
    a = kind.fromdense(jnp.asarray(A))
    np.testing.assert_allclose(ldiv.solve(a, jnp.asarray(b)), np.linalg.solve(A, b))
    for ord in (None, 1, 2, np.inf):
        expected = np.linalg.norm(A, "fro" if ord is None else ord)
        np.testing.assert_allclose(ldiv.norm(a, ord), expected, rtol=1e-14)
    # functions that need the pattern say so, where it is an argument of a program
    for f in (ldiv.norm, ldiv.cholesky, ldiv.cho_factor, ldiv.issymmetric):
        with pytest.raises(TypeError, match=r"expected a known pattern.* Pass ldiv\.asarray"):
            jax.jit(lambda a, f=f: jax.tree.leaves(f(a)))(a)


def test_integers_and_weak_types_of_jax() -> None:
    x = ldiv.solve(jnp.asarray(A).astype(int), 2 * jnp.arange(1, N + 1))
    assert x.dtype == jnp.float64
    np.testing.assert_allclose(x, np.linalg.solve(A, 2 * b))
    half = jax.grad(lambda c: ldiv.solve(A, c * jnp.asarray(b)).sum())(2.0)
    assert np.isclose(half, np.linalg.solve(A, b).sum())


def test_autocast_is_lifted() -> None:
    a, x = torch.tensor(A, dtype=torch.float32), torch.tensor(b, dtype=torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        halves = a @ a
        assert halves.dtype == torch.bfloat16
        y = ldiv.solve(halves, x)
    assert y.dtype == torch.float32
    torch.testing.assert_close(y, torch.linalg.solve(halves.float(), x))
    with pytest.raises(TypeError, match="bfloat16"):
        ldiv.solve(halves, x)


# -- and what is none ---------------------------------------------------------


@pytest.mark.parametrize(
    "bad",
    [
        [[1, [2]], [3, 4]],
        "ab",
        {1, 2},
        np.eye(N).astype(object),
        np.eye(N).astype(str),
        np.eye(N, dtype="timedelta64[s]"),
        [torch.ones(N)] * N,
        range(N),
        None,
        lambda x: x,
    ],
)
def test_what_is_no_matrix_is_refused(bad: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="A: expected"):
        ldiv.solve(bad, b)


@pytest.mark.parametrize("b", [[1.0, 2.0], [[1.0, 2.0], [2.0, 1.0]]], ids=["vector", "block"])
def test_lists_in_an_iteration(b: Any) -> None:
    A = np.array([[4.0, 1.0], [1.0, 3.0]])
    x, info = ldiv.solve(A, b, method="cg", assume_a="pos", x0=b, rtol=1e-12, info=True)
    assert info.backward_error < 1e-10
    assert np.allclose(x, np.linalg.solve(A, b), rtol=1e-10)
    error = ldiv.gradient_error(lambda x: x, A, b, method="cg", assume_a="pos", rtol=1e-12)
    assert np.allclose(error.x, x, rtol=1e-10)
    assert "cg" in str(ldiv.explain(A, assume_a="pos", b=b))


def test_a_sampler_and_a_seed_that_are_none_are_named() -> None:
    with pytest.raises(TypeError, match="data_sampler: expected a function of `size`"):
        ldiv.random_array((2, 2), density=1.0, data_sampler=lambda x: x)
    rows = sp.csr_matrix(np.eye(2)).todense()  # of which each is a matrix again: NumPy crashes
    with pytest.raises(ValueError, match="rng: expected an integer"):
        ldiv.random_array((2, 2), rng=rows)
