"""max, min, argmax, argmin and reshape as in SciPy; their derivatives are PyTorch's of dense arrays."""

from __future__ import annotations

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp
import torch

import ldiv

RNG = np.random.default_rng(4)
AXES = (None, 0, 1, -1)
MATRICES = {
    "some": sp.random_array((5, 4), density=0.5, rng=RNG, data_sampler=RNG.standard_normal),
    "positive": sp.random_array((4, 6), density=0.4, rng=RNG),
    "negative": -sp.random_array((6, 4), density=0.6, rng=RNG),
    "full": sp.csr_array(RNG.standard_normal((3, 4))),
    "full, negative": sp.csr_array(-RNG.random((3, 3)) - 0.1),
    "none": sp.csr_array((3, 2)),
}


@pytest.mark.parametrize("name", MATRICES)
@pytest.mark.parametrize("format", ["csr", "csc", "coo"])
def test_values(name: str, format: Any) -> None:
    S = MATRICES[name].asformat(format)
    A, D = ldiv.asarray(S), S.toarray()
    for axis in AXES:
        for f in ("max", "min", "argmax", "argmin"):
            found = getattr(A, f)(axis=axis)
            np.testing.assert_array_equal(found, getattr(D, f)(axis=axis), err_msg=f"{f} {axis}")
    for axis, f in itertools.product(AXES, ("max", "min")):
        wanted = getattr(S.tocsr(), f)(axis=axis, explicit=True)
        wanted = wanted.toarray() if sp.issparse(wanted) else wanted
        np.testing.assert_array_equal(getattr(A, f)(axis=axis, explicit=True), np.ravel(wanted)[()])


def test_explicit_places_and_duplicates() -> None:
    A = ldiv.coo_array((np.array([1.0, -2.0, 2.0, -5.0]), ([0, 0, 1, 1], [1, 1, 0, 2])), (2, 3))
    assert A.max() == 2.0 and A.min() == -5.0 and A.argmin() == 5 and A.argmax() == 3
    np.testing.assert_array_equal(A.argmax(axis=1, explicit=True), [1, 0])
    np.testing.assert_array_equal(A.min(axis=0), [0.0, -1.0, -5.0])
    many = A.with_data(np.stack([A.data, -A.data]))
    np.testing.assert_array_equal(many.max(axis=1), [[0.0, 2.0], [1.0, 5.0]])
    np.testing.assert_array_equal(many.argmax(), [3, 5])
    with pytest.raises(ValueError, match="entries in every line"):
        A[:, :1].argmax(axis=1, explicit=True)


def losses(A: Any, xp: Any) -> Any:
    """Losses of a sparse array, or of a dense one of PyTorch."""
    largest = (lambda A, axis: A.max(axis=axis)) if xp is not torch else torch.amax
    smallest = (lambda A, axis: A.min(axis=axis)) if xp is not torch else torch.amin
    parts = [f(A, axis) for f in (largest, smallest) for axis in (0, 1)]
    return sum((xp.cos(y) * xp.sin(y + i)).sum() for i, y in enumerate(parts))


@pytest.mark.parametrize("name", ["some", "negative", "full"])
def test_derivatives(name: str) -> None:
    S = MATRICES[name].tocoo()
    A, at = ldiv.asarray(S), (S.row, S.col)
    v, dv = (torch.asarray(RNG.standard_normal(A.nnz)) for _ in range(2))

    def dense(v: Any) -> Any:
        return losses(
            torch.zeros(S.shape, dtype=v.dtype).index_put(tuple(map(torch.asarray, at)), v), torch
        )

    def sparse(v: Any) -> Any:
        return losses(ldiv.coo_array((v, at), S.shape), np_like(v))

    wanted = torch.func.grad(dense)(v)
    torch.testing.assert_close(torch.func.grad(sparse)(v), wanted)
    torch.testing.assert_close(torch.func.jvp(sparse, (v,), (dv,))[1], wanted @ dv)
    torch.testing.assert_close(
        torch.func.jacfwd(torch.func.grad(sparse))(v), torch.func.hessian(dense)(v)
    )
    many = torch.stack([v, 2 * v])
    torch.testing.assert_close(
        torch.func.vmap(torch.func.grad(sparse))(many),
        torch.stack([*map(torch.func.grad(dense), many)]),
    )
    value, grad = jax.jit(jax.value_and_grad(sparse))(jnp.asarray(v.numpy()))
    np.testing.assert_allclose(value, dense(v), rtol=1e-5)
    np.testing.assert_allclose(grad, wanted, rtol=1e-5, atol=1e-6)


def np_like(v: Any) -> Any:
    return jnp if isinstance(v, jax.Array) else _Torch


class _Torch:
    """PyTorch's functions, for sparse arrays."""

    cos, sin = torch.cos, torch.sin


def test_numpy_differentiates_them() -> None:
    A = ldiv.asarray(MATRICES["full"])
    y, pull = ldiv.vjp(lambda A: A.max(axis=1), A)
    bar = pull(np.array([1.0, 2.0, 3.0]))[0].toarray()
    rows = np.arange(3)
    wanted = np.zeros((3, 4))
    wanted[rows, A.argmax(axis=1)] = rows + 1.0
    np.testing.assert_array_equal(bar, wanted)
    np.testing.assert_array_equal(y, A.toarray().max(1))


@pytest.mark.parametrize("order", ["C", "F"])
def test_reshape(order: Any) -> None:
    for S in (MATRICES["some"].tocsr(), MATRICES["positive"].tocsc(), MATRICES["none"].tocoo()):
        m, n = S.shape
        for shape in ((n, m), (1, -1), (m * n, 1), (-1, 2), (m, n)):
            found = ldiv.asarray(S).reshape(shape, order=order)
            assert found.format == S.format
            np.testing.assert_array_equal(found.toarray(), S.toarray().reshape(shape, order=order))
    A = ldiv.asarray(MATRICES["some"])
    v = torch.asarray(A.data).requires_grad_()
    weights = torch.asarray(RNG.standard_normal((10, 2)))
    (A.with_data(v).reshape(10, 2).toarray() * weights).sum().backward()
    np.testing.assert_array_equal(v.grad, weights.numpy().reshape(5, 4)[A.row, A.col])
    for wrong in ((3, 3), (-1, -1), (20,), (0, -1), (2.5, 8)):
        with pytest.raises((ValueError, TypeError), match="expected"):
            A.reshape(wrong)


def test_maximum_with_a_dense_array() -> None:
    S, D = MATRICES["some"].tocsr(), RNG.standard_normal((5, 4))
    A = ldiv.asarray(S)
    np.testing.assert_array_equal(A.maximum(D), S.maximum(D))
    np.testing.assert_array_equal(A.minimum(D), S.minimum(D))
    v = torch.asarray(A.data).requires_grad_()
    A.with_data(v).maximum(torch.asarray(D)).sum().backward()
    np.testing.assert_array_equal(v.grad, (A.toarray() > D)[A.row, A.col])
    with pytest.raises(ValueError, match="maximum"):
        A.maximum(D[:2])
    with pytest.raises(TypeError, match="complex"):
        A.maximum(1j * D)


def test_errors_and_advice() -> None:
    A = ldiv.asarray(MATRICES["some"])
    with pytest.raises(TypeError, match="no order"):
        (1j * A).max()
    with pytest.raises(TypeError, match="out"):
        A.max(out=np.zeros(3))
    with pytest.raises(ValueError, match="at least one entry"):
        ldiv.asarray(sp.csr_array((0, 3))).max()
    for name in ("check_format", "prune", "maxprint", "tensordot", "nanmax", "has_sorted_indices"):
        with pytest.raises(AttributeError, match=r"attribute.*: "):
            getattr(A, name)


@pytest.mark.parametrize("name", ["max", "min", "argmax", "argmin"])
def test_numbers_that_are_not_finite(name: str) -> None:
    A = ldiv.coo_array((np.array([np.nan, 1.0]), ([0, 0], [1, 0])), shape=(2, 2))
    with pytest.raises(ValueError, match=f"^{name}: expected finite numbers"):
        getattr(A, name)()
