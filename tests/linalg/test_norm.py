"""norm and onenormest, dense and sparse: SciPy's values, torch's gradients."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
import scipy.sparse.linalg as spl
import torch
from torch.func import grad

import ldiv

jax.config.update("jax_enable_x64", True)
RNG = np.random.default_rng(5)
A = RNG.standard_normal((4, 3))
S = sp.random_array((6, 6), density=0.4, rng=RNG) + sp.eye_array(6)
ORDERS = [None, "fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf]


@pytest.mark.parametrize("order", ORDERS)
def test_of_matrices(order: Any) -> None:
    for a in (A, A + 1j * A[::-1]):
        np.testing.assert_allclose(ldiv.norm(a, order), scipy.linalg.norm(a, order), rtol=1e-12)
    many = torch.asarray(RNG.standard_normal((2, 3, 4)))
    order = "fro" if order is None else order
    found = ldiv.norm(many, order, axis=(1, 2), keepdims=True)
    torch.testing.assert_close(found, torch.linalg.norm(many, order, dim=(1, 2), keepdim=True))
    ours, theirs = (lambda x, f=f: f(x, order) for f in (ldiv.norm, torch.linalg.norm))
    torch.testing.assert_close(grad(ours)(many[0]), grad(theirs)(many[0]))
    jacobian = jax.jit(jax.grad(lambda x: ldiv.norm(x, order)))(jnp.asarray(many[0].numpy()))
    np.testing.assert_allclose(jacobian, grad(theirs)(many[0]), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("order", [None, 0, 1, 2, 3, 0.5, -1, np.inf, -np.inf])
def test_of_vectors(order: Any) -> None:
    for x in (A[:, 0], A[:, 0] * 1j):
        np.testing.assert_allclose(ldiv.norm(x, order), scipy.linalg.norm(x, order))
        if order is not None:
            wanted = scipy.linalg.norm(A, order, axis=0)
            np.testing.assert_allclose(ldiv.norm(A, order, axis=0), wanted)
    x = torch.asarray(A[:, 0])
    if order != 0:
        ours, theirs = (lambda x, f=f: f(x, order) for f in (ldiv.norm, torch.linalg.norm))
        torch.testing.assert_close(grad(ours)(x), grad(theirs)(x))


@pytest.mark.parametrize("order", [None, "fro", 1, -1, 2, np.inf, -np.inf])
def test_of_sparse_matrices(order: Any) -> None:
    ours = ldiv.asarray(S)
    np.testing.assert_allclose(ldiv.norm(ours, order), spl.norm(S, order), rtol=1e-9)
    np.testing.assert_allclose(ldiv.norm(S, order), spl.norm(S, order), rtol=1e-9)
    v = torch.asarray(ours.data)
    with_values = ldiv.coo_array((v, (ours.row, ours.col)), shape=ours.shape)
    found = grad(lambda v: ldiv.norm(with_values.with_data(v), order))(v)
    dense = "fro" if order is None else order
    wanted = grad(lambda v: torch.linalg.norm(with_values.with_data(v).toarray(), dense))(v)
    torch.testing.assert_close(found, wanted, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("order", [2, -2])
def test_repeated_singular_values_have_no_spectral_norm_derivative(order: int) -> None:
    """|I + h E|_2 = 1 + |h| for E = diag(1, 0, -1): no mode knows a derivative."""
    eye, tangent = np.eye(3), np.diag([1.0, 0, -1])
    x, dx = torch.asarray(eye), torch.asarray(tangent)
    functions: list[Any] = [lambda A: ldiv.norm(A, order), lambda A: ldiv.matrix_norm(A, order)]
    functions += [lambda A: ldiv.norm(ldiv.asarray(A), 2)] * (order == 2)
    for f in functions:
        modes = [
            lambda f=f: grad(f)(x),
            lambda f=f: torch.func.jvp(f, (x,), (dx,))[1],
            lambda f=f: jax.grad(f)(jnp.asarray(eye)),
            lambda f=f: jax.jvp(f, (jnp.asarray(eye),), (jnp.asarray(tangent),))[1],
        ]
        if f is not functions[-1] or order == -2:
            modes += [
                lambda f=f: ldiv.vjp(f, eye)[1](1.0)[0],
                lambda f=f: ldiv.jvp(f, (eye,), (tangent,))[1],
            ]
        for mode in modes:
            with pytest.raises(ldiv.NotDifferentiableError):
                mode()
            with ldiv.errstate(singular="nan"):
                assert np.isnan(np.asarray(mode())).any()


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("order", [None, 1, 2])
def test_of_the_rows_of_a_sparse_matrix(order: Any, axis: int) -> None:
    found = ldiv.norm(ldiv.asarray(S), order, axis=axis)
    np.testing.assert_allclose(found, spl.norm(S, order, axis=axis))


def test_duplicates_add_up() -> None:
    a = ldiv.coo_array((np.array([3.0, -1.0, 2.0]), ([0, 0, 1], [0, 0, 1])), shape=(2, 2))
    np.testing.assert_allclose([ldiv.norm(a, 1), ldiv.norm(a)], [2, 8**0.5])


def test_extreme_numbers_and_zeros() -> None:
    np.testing.assert_allclose(ldiv.norm(np.array([3e200, 4e200])), 5e200)
    np.testing.assert_allclose(ldiv.norm(np.array([3e-200, 4e-200])), 5e-200)
    zero = torch.zeros(3, dtype=torch.float64)
    assert not grad(ldiv.norm)(zero).any() and ldiv.norm(zero) == 0
    assert not np.asarray(jax.grad(ldiv.norm)(jnp.zeros(3))).any()
    assert ldiv.norm(np.zeros((0, 3))) == 0
    with pytest.raises(ldiv.LinAlgOverflowError, match="norm"):
        ldiv.norm(np.array([1.7e308, 1.7e308]))
    for order in (None, 0, 1, 3, np.inf, -1):
        for x in (np.array([np.nan, 1.0]), torch.tensor([1.0, np.inf])):
            if order != -1 or isinstance(x, np.ndarray):
                with pytest.raises(ValueError, match="a: expected finite numbers"):
                    ldiv.norm(x, order)
    with pytest.raises(ValueError, match="a: expected finite numbers"):
        ldiv.norm(sp.csr_array([[np.nan, 1.0]]))


@pytest.mark.parametrize(
    "x", [[1e-300, 1.0, 1e300], [1e300, 1e-10, 3.0], [0.0, 1e-320, 1e300], [1e-300, 1e-300, 3e-300]]
)
@pytest.mark.parametrize("p", [1e-3, 0.5, 1.5, 2, 3, 1000, -0.5, -3])
def test_of_powers_of_numbers_that_lie_apart(p: float, x: list[float]) -> None:
    """Values and gradients (x_i / y)^(p - 1) of mpmath, those that are in the range."""
    with mpmath.workdps(50):
        sizes = [mpmath.mpf(v) for v in x]
        is_zero = p < 0 and 0 in x
        y = 0 if is_zero else mpmath.fsum(v**p for v in sizes if v) ** (mpmath.mpf(1) / p)
        slopes = [float((v / y) ** (p - 1)) if v and y else 0.0 for v in sizes]
    given, close = np.array(x), partial(np.testing.assert_allclose, rtol=1e-11, atol=1e-300)
    if not np.isfinite(float(y)):
        with pytest.raises(ldiv.LinAlgOverflowError, match="norm"):
            ldiv.norm(given, p)
        return
    np.testing.assert_allclose(ldiv.norm(given, p), float(y), rtol=1e-11)
    if not np.isfinite(slopes).all():
        with pytest.raises(ldiv.LinAlgOverflowError, match="norm"):
            grad(lambda x: ldiv.norm(x, p))(torch.tensor(given))
        return
    close(grad(lambda x: ldiv.norm(x, p))(torch.tensor(given)), slopes)
    close(ldiv.vjp(lambda x: ldiv.norm(x, p), given)[1](1.0)[0], slopes)
    if 0 not in x:  # XLA takes subnormal numbers for zero
        close(jax.grad(lambda x: ldiv.norm(x, p))(jnp.asarray(given)), slopes)


@pytest.mark.parametrize("x", [np.array([1.5, -0.7, 2e-3]), np.array([1.5, -0.7j, 1.4 + 0.3j])])
@pytest.mark.parametrize("scale", [1.0, 1e-250, 1e250])
@pytest.mark.parametrize("p", [0.25, 0.5, 1.01, 1.5, 3, 7, 3000, -0.5, -1, -3])
def test_of_powers_that_leave_the_range(p: float, scale: float, x: np.ndarray) -> None:
    """Values and gradients of mpmath, of numbers whose powers over- or underflow."""
    x = scale * x
    with mpmath.workdps(40):
        sizes = [abs(mpmath.mpc(v)) for v in x]
        y = mpmath.fsum([s**p for s in sizes]) ** (1 / mpmath.mpf(p))
        slopes = [
            complex(mpmath.mpc(v) / s * (s / y) ** (p - 1)) for v, s in zip(x, sizes, strict=True)
        ]
    t = torch.asarray(x).requires_grad_()
    (of_torch,) = torch.autograd.grad(of_t := ldiv.norm(t, p), t)
    of_jax = jax.grad(lambda z: ldiv.norm(z, p))(jnp.asarray(x)).conj()
    of_rule, pullback = ldiv.vjp(lambda z: ldiv.norm(z, p), x)
    for value in (of_t.detach(), of_rule, ldiv.norm(x, p)):
        np.testing.assert_allclose(value, float(y), rtol=1e-12)
    for gradient in (of_torch, of_jax, pullback(1.0)[0]):
        np.testing.assert_allclose(gradient, slopes, rtol=1e-11 * max(1, abs(p)), atol=1e-50)


@pytest.mark.parametrize("p", [0.5, 1, 1.5, 3, -1])
def test_numbers_that_are_zero_have_the_slope_zero(p: float) -> None:
    """Slopes of PyTorch, for single numbers, for all of a row; a finite second derivative."""
    x = torch.tensor([[3.0, 0, -4], [0, 0, 0], [1, 2, 3]], dtype=torch.float64)
    ours, theirs = (
        lambda x: ldiv.norm(x, p, axis=1).sum(),
        lambda x: torch.linalg.vector_norm(x, p, dim=1).sum(),
    )
    wanted = grad(theirs)(x)
    torch.testing.assert_close(grad(ours)(x), wanted)
    if p != 1:  # the slope of JAX's `abs` is 1 there
        np.testing.assert_allclose(jax.grad(ours)(jnp.asarray(x.numpy())), wanted)
    np.testing.assert_allclose(
        ldiv.vjp(lambda x: ldiv.norm(x, p, axis=1), x.numpy())[1](np.ones(3))[0], wanted
    )
    assert torch.isfinite(torch.func.hessian(ours)(x)).all()


def test_of_no_numbers() -> None:
    """0, as in SciPy; no matrices have no norms."""
    for order in (None, "fro", "nuc", 1, 2, np.inf):
        for shape in ((0, 3), (3, 0), (0, 0)):
            assert float(ldiv.norm(np.ones(shape), order)) == 0
        for shape in ((0, 3, 2), (2, 0, 3), (0, 0, 2)):
            for x in (np.ones(shape), torch.ones(shape, dtype=torch.float64), jnp.ones(shape)):
                assert not np.asarray(ldiv.norm(x, order, axis=(1, 2))).any()
                assert ldiv.norm(x, order, axis=(1, 2)).shape == shape[:1]
            y, pullback = ldiv.vjp(lambda x, o=order: ldiv.norm(x, o, axis=(1, 2)), np.ones(shape))
            assert pullback(y)[0].shape == shape
            x = torch.ones(shape, dtype=torch.float64)
            assert grad(lambda x, o=order: ldiv.norm(x, o, axis=(1, 2)).sum())(x).shape == shape
    assert ldiv.vjp(lambda x: ldiv.norm(x, 3, axis=-1), np.ones((0, 3)))[1](np.ones(0))[0].size == 0


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: ldiv.norm(A, "max"), "ord"),
        (lambda: ldiv.norm(A, 3), "ord"),
        (lambda: ldiv.norm(A[:, 0], "fro"), "ord"),
        (lambda: ldiv.norm(A, 1, axis=(0, 0)), "axis"),
        (lambda: ldiv.norm(A[None], 1), "axis"),
        (lambda: ldiv.norm(A, 1, axis=2), "axis"),
        (lambda: ldiv.norm(np.ones((3, 0)), -1), "at least one number"),
        (lambda: ldiv.norm(S, "nuc"), "ord"),
        (lambda: ldiv.norm(S, 3, axis=0), "ord"),
        (lambda: ldiv.norm(S, keepdims=True), "keepdims"),
    ],
)
def test_bad_calls(call: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        call()


def test_onenormest() -> None:
    exact = abs(S.toarray()).sum(0).max()
    for a in (S, ldiv.asarray(S), S.toarray(), ldiv.asarray(torch.asarray(S.toarray()))):
        np.testing.assert_allclose(ldiv.onenormest(a), exact)
    inverse = abs(np.linalg.inv(S.toarray())).sum(0).max()
    np.testing.assert_allclose(ldiv.onenormest(ldiv.factorized(S).inverse), inverse)
    est, v, w = ldiv.onenormest(S, compute_v=True, compute_w=True)
    np.testing.assert_allclose(S @ v, w)
    np.testing.assert_allclose(abs(w).sum() / abs(v).sum(), est)
    one = ldiv.onenormest(np.array([[2.0 + 1j]]))
    np.testing.assert_allclose(one, 5**0.5)
    with pytest.raises(ValueError, match="square"):
        ldiv.onenormest(A)
    with pytest.raises(TypeError, match="trace"):
        jax.jit(ldiv.onenormest)(jnp.eye(3))


def test_eigh_tridiagonal() -> None:
    d, e = RNG.standard_normal(6), RNG.standard_normal(5)
    w, X = ldiv.eigh_tridiagonal(d, e)
    wanted = scipy.linalg.eigh_tridiagonal(d, e)
    np.testing.assert_allclose(w, wanted[0])
    np.testing.assert_allclose(abs(X), abs(wanted[1]), atol=1e-10)
    chosen = ldiv.eigh_tridiagonal(d, e, True, "i", (1, 2))
    np.testing.assert_allclose(chosen, wanted[0][1:3])
    np.testing.assert_allclose(ldiv.eigh_tridiagonal([2.0], [])[0], [2.0])
    d, e = torch.asarray(d), torch.asarray(e)
    loss = lambda d, e: ldiv.eigh_tridiagonal(d, e)[0] @ torch.arange(6.0, dtype=d.dtype)
    dense = lambda d, e: (
        torch.linalg.eigvalsh(d.diag() + e.diag(1) + e.diag(-1)) @ torch.arange(6.0, dtype=d.dtype)
    )
    torch.testing.assert_close(grad(loss, (0, 1))(d, e), grad(dense, (0, 1))(d, e))
    many = ldiv.eigh_tridiagonal(torch.stack([d, 2 * d]), e, True)
    torch.testing.assert_close(many[1], ldiv.eigh_tridiagonal(2 * d, e, True))
    for call, said in (
        (lambda: ldiv.eigh_tridiagonal(d, e[1:]), "d and e"),
        (lambda: ldiv.eigh_tridiagonal(d, e, select="v"), "select"),
        (lambda: ldiv.eigh_tridiagonal(d, e, select="i"), "select_range"),
        (lambda: ldiv.eigh_tridiagonal(1j * d, e), "real numbers"),
    ):
        with pytest.raises((ValueError, TypeError), match=said):
            call()


@pytest.mark.parametrize("axis", [None, (1, 0), -1, 0])
@pytest.mark.parametrize("order", [*ORDERS, 3, 0.5])
def test_vjp_and_jvp_of_numpy(order: Any, axis: Any) -> None:
    """One rule: its derivatives are those that PyTorch finds."""
    if order in (("fro", "nuc") if isinstance(axis, int) else (3, 0.5)):
        pytest.skip("no such norm")
    x, dx = RNG.standard_normal((2, 4, 3))
    for a, t in ((x, dx), (x + 1j * dx, dx + 1j * x[::-1])):
        f = lambda x: ldiv.norm(x, order, axis=axis, keepdims=True)
        y, pullback = ldiv.vjp(f, a)
        bar = np.cos(np.arange(y.size)).reshape(y.shape)
        leaf = torch.asarray(a).requires_grad_()
        f(leaf).backward(torch.asarray(bar))
        np.testing.assert_allclose(pullback(bar)[0], leaf.grad, rtol=1e-10, atol=1e-13)
        value, dy = ldiv.jvp(f, (a,), (t,))
        np.testing.assert_allclose(value, y)
        np.testing.assert_allclose(
            dy,
            torch.func.jvp(f, (torch.asarray(a),), (torch.asarray(t),))[1],
            rtol=1e-10,
            atol=1e-14,
        )


def test_vjp_of_numpy_at_ties_at_zero_and_of_sparse_matrices() -> None:
    largest = ldiv.vjp(lambda x: ldiv.norm(x, np.inf), np.array([2.0, -2.0, 1.0]))[1](1.0)[0]
    np.testing.assert_allclose(largest, [0.5, -0.5, 0.0])
    for order in (None, 1, 3, np.inf):
        zero = ldiv.vjp(lambda x, order=order: ldiv.norm(x, order), np.zeros(3))[1](1.0)[0]
        np.testing.assert_array_equal(zero, np.zeros(3))
    huge = np.array([3e200, -4e200])
    np.testing.assert_allclose(ldiv.vjp(ldiv.norm, huge)[1](1.0)[0], [0.6, -0.8])
    matrix = ldiv.asarray(S)
    found = ldiv.vjp(ldiv.norm, matrix)[1](1.0)[0]
    np.testing.assert_allclose(found.data, matrix.data / ldiv.norm(matrix))
    with pytest.raises(ldiv.NotDifferentiableError):
        ldiv.vjp(lambda x: ldiv.norm(x, 2), np.eye(3))[1](1.0)
    with pytest.raises(ValueError, match="ord"):
        ldiv.vjp(lambda x: ldiv.norm(x, 3), np.eye(3))
