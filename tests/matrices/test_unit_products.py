"""Entries, rows, columns and blocks of matrices that are no sparse arrays, against dense arrays."""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp

import ldiv
from ldiv.structures import Dense, Product, SelfAdjoint, Triangular

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")
jax.config.update("jax_enable_x64", True)
jnp = jax.numpy

rng = np.random.default_rng(0)
G, U, V = rng.standard_normal((4, 3)), rng.standard_normal((6, 2)), rng.standard_normal((6, 2))
P, Q, BATCH = (
    rng.standard_normal((2, 3)),
    rng.standard_normal((3, 2)),
    rng.standard_normal((5, 2, 2)),
)
Z = rng.standard_normal((2, 2)) + 1j * rng.standard_normal((2, 2))
S = 4 * sp.eye_array(6) + sp.eye_array(6, k=1) - 2 * sp.eye_array(6, k=-3)
ROOT = rng.standard_normal((5, 5)) + 5 * np.eye(5)
HERMITIAN = ROOT @ ROOT.T

MATRICES: dict[str, tuple[Any, Any]] = {
    "kron of dense ones": (ldiv.kron(P, Q), np.kron(P, Q)),
    "of a batch": (ldiv.kron(P, BATCH), np.stack([np.kron(P, b) for b in BATCH])),
    "complex": (ldiv.kron(Z, P).H, np.kron(Z, P).conj().T),
    "Gram": (ldiv.Gram(np.tril(ROOT)), np.tril(ROOT) @ np.tril(ROOT).T),
    "LowRank": (ldiv.LowRank(U, V), U @ V.T),
    "sparse and low rank": (ldiv.asarray(S) + ldiv.LowRank(U, V), S.toarray() + U @ V.T),
    "Toeplitz": (ldiv.toeplitz(G[0], P[0]), scipy.linalg.toeplitz(G[0], P[0])),
    "kron with an inverse": (
        ldiv.kron(ldiv.factorized(ROOT).inverse, P),
        np.kron(np.linalg.inv(ROOT), P),
    ),
    "a sum of stored parts": (
        2 * ldiv.kron(ROOT, Q @ P) - ldiv.LowRank(np.ones((15, 2)), np.ones((15, 2))),
        2 * np.kron(ROOT, Q @ P) - 2,
    ),
    "a function": (ldiv.spectral_function(np.sqrt, HERMITIAN), scipy.linalg.sqrtm(HERMITIAN)),
    "an inverse": (ldiv.factorized(ldiv.asarray(S)).inverse, np.linalg.inv(S.toarray())),
    "sparse": (ldiv.kron(ldiv.asarray(S), P), np.kron(S.toarray(), P)),
}
KEYS: dict[str, Any] = {
    "an entry": (0, 1),
    "from the end": (-1, -2),
    "a row": 1,
    "a column": (slice(None), 1),
    "some rows": [1, 0, 1],
    "a slice of rows": slice(0, 2),
    "a block": (slice(1, 3), slice(None, None, -1)),
    "pairs": ([0, 1, 1], [1, 0, 1]),
    "a grid": np.ix_([1, 0], [0, 1]),
    "part of a row": (0, [1, 1, 0]),
    "no rows": slice(0, 0),
}


def _dense(x: Any) -> Any:
    return x.toarray() if isinstance(x, ldiv.Matrix) else np.asarray(x)


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("name", MATRICES)
def test_the_entries_that_a_dense_array_has(name: str, key: str) -> None:
    A, dense = MATRICES[name]
    k = KEYS[key] if isinstance(KEYS[key], tuple) else (KEYS[key],)
    found, expected = A[k], dense[(..., *k, *[slice(None)] * (2 - len(k)))]
    assert isinstance(found, ldiv.SparseArray) is (key in KINDS_OF_BLOCKS)
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    np.testing.assert_allclose(_dense(found), expected, rtol=1e-12, atol=1e-12)


KINDS_OF_BLOCKS = ("some rows", "a slice of rows", "a block", "a grid", "no rows")


@pytest.mark.parametrize("name", MATRICES)
def test_toarray(name: str) -> None:
    A, dense = MATRICES[name]
    found = A.toarray()
    assert type(found) is np.ndarray
    np.testing.assert_allclose(found, dense, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("stored", ["Dense", "SelfAdjoint", "Triangular"])
def test_toarray_is_no_view(stored: str) -> None:
    structure = {
        "Dense": Dense(5, 5),
        "SelfAdjoint": SelfAdjoint(Dense(5, 5)),
        "Triangular": Triangular(5, True),
    }[stored]
    A = ldiv.Matrix(structure, np.tril(HERMITIAN) if stored == "Triangular" else HERMITIAN.copy())
    for view in (A, A.T):
        view.toarray()[:] = 0
    assert np.any(A.toarray())


def test_toarray_of_stored_parts_makes_no_products() -> None:
    """The entries of a sum are those of its parts, also where one is of low rank."""
    low = ldiv.LowRank(U, V)
    with mock.patch.object(Product, "matmul", side_effect=AssertionError):
        found = (ldiv.asarray(S) + low).toarray()
    assert np.array_equal(found, S.toarray() + U @ V.T)


def test_small_entries_beside_large_ones_where_products_are_by_fft() -> None:
    c, r = np.array([1.0, 1e-40j, 3e20]), np.array([1.0, 1e-30, 2e-5 + 1e-9j])
    for A, dense in (
        (ldiv.toeplitz(c, r), scipy.linalg.toeplitz(c, r)),
        (ldiv.hankel(c, r), scipy.linalg.hankel(c, r)),
        (ldiv.circulant(c), scipy.linalg.circulant(c)),
    ):
        for B, expected in ((A, dense), (A.T, dense.T), (A.H, dense.conj().T)):
            np.testing.assert_array_equal(B.toarray(), expected)
            for key in ((0, 1), 1, (slice(None), 2), ([2, 0], [1, 1]), slice(0, 2)):
                np.testing.assert_array_equal(_dense(B[key]), expected[key])


def test_the_entries_of_composed_matrices_are_computed_one_by_one() -> None:
    D = np.arange(9.0).reshape(3, 3)
    D[0, 1], D[2, 2] = np.inf, np.nan
    wide = np.array([1.0, 1e300, 1e-300, 3.0])
    T = scipy.linalg.toeplitz(wide)
    banded = sp.diags_array([wide, wide[:3]], offsets=[0, 1])
    for A, dense in (
        (ldiv.kron(D, np.ones((2, 2))), np.kron(D, np.ones((2, 2)))),
        (2.0 * ldiv.kron(np.ones((2, 2)), D).T, 2 * np.kron(np.ones((2, 2)), D).T),
        (ldiv.toeplitz(wide) + ldiv.hankel(wide, wide), T + scipy.linalg.hankel(wide, wide)),
        (-3.0 * ldiv.toeplitz(wide) - ldiv.asarray(banded), -3 * T - banded.toarray()),
        (ldiv.kron(ldiv.toeplitz(wide), P), np.kron(T, P)),
    ):
        np.testing.assert_array_equal(A.toarray(), dense)
        for key in ((0, 1), 2, (slice(None), 3), ([0, 1], [1, 0]), slice(0, 2)):
            np.testing.assert_array_equal(_dense(A[key]), dense[key])


def test_as_few_products_as_the_key_has_rows_or_columns() -> None:
    widths: list[int] = []

    def product(p: Any, x: Any) -> Any:
        widths.append(x.shape[1])
        return p * x

    operator = ldiv.LinearOperator(product, np.full(1, 3.0), shape=(50, 50), rmatvec=product)
    for key, count in ((3, 1), ((slice(None), 4), 1), ((2, 5), 1), ((slice(0, 9), [4, 7]), 2)):
        widths.clear()
        np.testing.assert_array_equal(_dense(operator[key]), 3.0 * np.eye(50)[key])
        assert widths == [count]


@pytest.mark.parametrize("name", MATRICES)
def test_diagonals_and_traces(name: str) -> None:
    A, dense = MATRICES[name]
    for k in (0, 1, -2, 9, -9):
        expected = np.diagonal(dense, k, -2, -1)
        np.testing.assert_allclose(A.diagonal(k), expected, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(A.trace(k), expected.sum(-1), rtol=1e-12, atol=1e-12)


def test_the_index_is_wrong() -> None:
    with pytest.raises(IndexError, match="indices from -6 to 5"):
        MATRICES["LowRank"][0][6]


def test_every_mode_in_torch_and_jax() -> None:
    u, v = (torch.tensor(x, requires_grad=True) for x in (U, V))
    for key in ((0, 1), 2, (slice(None), 3), ([0, 1], [1, 0])):
        f = lambda u, v, key=key: ldiv.LowRank(u, v)[key].sin()
        assert torch.autograd.gradcheck(f, (u, v), check_forward_ad=True)
        assert torch.autograd.gradgradcheck(f, (u, v))
        g = lambda u, v, key=key: (ldiv.kron(u, v.T) + u[0, 0] * ldiv.toeplitz(u[:, 0], v[:, 0]))[
            key
        ]
        assert torch.autograd.gradcheck(g, (u[:, :1], v[:, :1]), check_forward_ad=True)
        assert torch.autograd.gradgradcheck(g, (u[:, :1], v[:, :1]))
    entry = lambda p: ldiv.kron(p, jnp.asarray(Q))[0, 1]
    # K[0, 1] = P[0, 0] Q[0, 1]
    expected = np.zeros_like(P)
    expected[0, 0] = Q[0, 1]
    found = jax.jit(lambda p: (jax.grad(entry)(p), jax.vmap(jax.grad(entry))(jnp.stack([p, p]))))
    for gradient in (found(jnp.asarray(P))[0], *found(jnp.asarray(P))[1]):
        np.testing.assert_allclose(gradient, expected, rtol=1e-12)
    whole = lambda p: (ldiv.LowRank(p, jnp.asarray(V)).toarray() ** 2).sum()
    np.testing.assert_allclose(jax.grad(whole)(jnp.asarray(U)), 2 * U @ V.T @ V, rtol=1e-12)


def test_a_product_entry_by_entry_is_told_to_write_the_matrix_out() -> None:
    A, dense = MATRICES["a function"]
    for call, words in (
        (lambda: dense * A, "c * A.toarray()"),
        (lambda: A / dense, "A.toarray() / c"),
    ):
        with pytest.raises(ValueError, match="expected a number, got shape") as refused:
            call()
        assert words in str(refused.value)
    np.testing.assert_allclose(dense * A.toarray(), dense**2, rtol=1e-12, atol=1e-12)
