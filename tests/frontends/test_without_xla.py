"""Outside of programs few numbers run on NumPy arrays: a new shape in JAX waits for no compilation of ldiv's own.
Derivatives of the second order are one program for each derivative of a rule.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from dense_functions import sym

import ldiv
from ldiv.errors import LinAlgOverflowError

jax = pytest.importorskip("jax")
jax.config.update("jax_enable_x64", True)

N = 37  # a shape that no other test has
OWN = 40  # programs of the loss, of its gradient and of the sparse matrix; rules alone made more than 100


def sparse(a: Any) -> Any:
    at = np.arange(N)
    return ldiv.coo_array((jax.numpy.diagonal(a), (at, at)), shape=(N, N))


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "eigsh": lambda a: ldiv.eigsh(sparse(a), 3, sigma=0)[0],
    "eigs": lambda a: ldiv.eigs(a, 3)[0].real,
    "svds": lambda a: ldiv.svds(a, 3)[1],
    "lobpcg": lambda a: ldiv.lobpcg(sym(a), np.eye(N, 3))[0],
    "schur": lambda a: ldiv.schur(a)[0],
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_first_gradient_compiles_little(name: str, caplog: Any) -> None:
    rng = np.random.default_rng(0)
    a = jax.numpy.asarray(rng.standard_normal((N, N)) + np.diag(np.arange(1.0, N + 1) * 8))
    with jax.log_compiles(), caplog.at_level(logging.WARNING):
        jax.grad(lambda a: (FUNCTIONS[name](a) ** 2).sum())(a)
    assert _compiled(caplog) <= OWN


ITERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "gmres, ilu": lambda A, b: ldiv.solve(A, b, method="gmres", M="ilu"),
    "cg": lambda A, b: ldiv.cg(A, b)[0],
    "cg, jacobi": lambda A, b: ldiv.solve(A, b, assume_a="pos", method="cg", M="jacobi"),
    "gmres, block_jacobi": lambda A, b: ldiv.solve(A, b, method="gmres", M="block_jacobi"),
    "minres": lambda A, b: ldiv.minres(A, b)[0],
    "bicgstab": lambda A, b: ldiv.bicgstab(A, b)[0],
}


@pytest.mark.parametrize("name", ITERATIONS)
def test_an_iteration_compiles_nothing_but_the_shape_of_b(name: str, caplog: Any) -> None:
    """Neither its value nor its gradient; a loop of JAX's took more than 100 programs."""
    n = N + 20 + list(ITERATIONS).index(name)
    A = ldiv.diags_array([np.full(n, 4.0), -np.ones(n - 1), -np.ones(n - 1)], offsets=[0, 1, -1])
    d, b = jax.numpy.asarray(A.data), jax.numpy.asarray(np.arange(1.0, n + 1))
    f = lambda d: ITERATIONS[name](A.with_data(d), b)
    with jax.log_compiles(), caplog.at_level(logging.WARNING):
        x = f(d)
        (g,) = jax.vjp(f, d)[1](b)
    assert _compiled(caplog) <= 6
    np.testing.assert_allclose(A.toarray() @ x, b, rtol=1e-9)
    # d(b^T A^-1 b) = -(A^-T b)_i x_j for each entry (i, j), and A is symmetric
    y = np.linalg.solve(A.toarray(), b)
    np.testing.assert_allclose(g, -y[A.row] * y[A.col], rtol=1e-8)


def test_selections_and_sums_of_sparse_arrays_compile_little(caplog: Any) -> None:
    n = N + 30
    A = ldiv.diags_array([np.full(n, 4.0), -np.ones(n - 1)], offsets=[0, 1])
    d = jax.numpy.asarray(A.data)
    with jax.log_compiles(), caplog.at_level(logging.WARNING):
        B = A.with_data(d)
        C, diagonal, row = B + B.T, B.diagonal(), B[3]
    assert _compiled(caplog) <= 4  # a sum multiplies and joins values; JAX alone made 26
    np.testing.assert_array_equal(C.toarray(), A.toarray() + A.toarray().T)
    np.testing.assert_array_equal(diagonal, A.diagonal())
    np.testing.assert_array_equal(row, A.toarray()[3])


OF_MATRIX: dict[str, Callable[[Any], Any]] = {
    "svdvals": ldiv.svdvals,
    "eigh": lambda a: ldiv.eigh(a[:3])[1],
    "expm": lambda a: ldiv.expm(a[:3]),
    "solve": lambda a: ldiv.solve(a[:3], np.arange(1.0, 4.0)),
}
SECOND = 10  # programs; operations alone made more than 100


@pytest.mark.parametrize("name", OF_MATRIX)
def test_a_derivative_of_the_second_order_is_few_programs(name: str, caplog: Any) -> None:
    rng = np.random.default_rng(1)
    a = rng.standard_normal((5, 3))
    a[:3] = a[:3] @ a[:3].T + 3 * np.diag([1.0, 2.0, 4.0])
    x = jax.numpy.asarray(a)
    along = jax.numpy.asarray(rng.standard_normal((2, 5, 3)))
    f = OF_MATRIX[name]
    y_bar = jax.numpy.asarray(rng.standard_normal(jax.eval_shape(f, x).shape))
    a_bar = lambda x: jax.vjp(f, x)[1](y_bar)[0]
    forward = jax.vmap(lambda dx: jax.jvp(a_bar, (x,), (dx,))[1])
    with jax.log_compiles(), caplog.at_level(logging.WARNING):
        found = forward(along)
    assert _compiled(caplog) <= SECOND
    caplog.clear()
    with jax.log_compiles(), caplog.at_level(logging.WARNING):
        back = jax.vjp(a_bar, x)[1](along[0])[0]
    assert _compiled(caplog) <= SECOND
    np.testing.assert_allclose(
        back, found[0], rtol=1e-9, atol=1e-9
    )  # second derivatives are symmetric


def test_a_derivative_that_fails_raises_its_own_error() -> None:
    eye = jax.numpy.eye(3)
    with pytest.raises(LinAlgOverflowError, match="overflows"):  # on the way back
        jax.grad(lambda a: jax.grad(ldiv.logdet)(a)[0, 0])(1e-200 * eye)
    with pytest.raises(ldiv.NotDifferentiableError, match="repeated eigenvalue"):
        jax.hessian(lambda a: ldiv.eigh(a)[1][0, 1])(eye)


def _compiled(caplog: Any) -> int:
    return sum(r.getMessage().startswith("Compiling ") for r in caplog.records)
