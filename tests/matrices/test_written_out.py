"""Matrices that are made of others, written out as sparse arrays: values, derivatives, indices, stacks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import ldiv

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")
jax.config.update("jax_enable_x64", True)
jnp = jax.numpy

rng = np.random.default_rng(0)
S, R = sp.random_array((3, 4), density=0.5, rng=rng), sp.random_array((2, 3), density=0.6, rng=rng)
A, B, DENSE = ldiv.asarray(S), ldiv.asarray(R), rng.standard_normal((2, 2, 2))
a, b = S.toarray(), R.toarray()
K, KRON = ldiv.kron(A, B), np.kron(a, b)
DIAGONAL = ldiv.Matrix(ldiv.structures.Diagonal(2), np.array([1.0, 2.0]))

MATRICES: dict[str, tuple[Any, Any]] = {
    "kron": (K, KRON),
    "transposed": (K.T, KRON.T),
    "of a transpose": (ldiv.kron(A.T, B), np.kron(a.T, b)),
    "of dense ones": (ldiv.kron(DENSE, B), np.stack([np.kron(d, b) for d in DENSE])),
    "of a diagonal": (ldiv.kron(DIAGONAL, A), np.kron(np.diag([1.0, 2.0]), a)),
    "of a product": (ldiv.kron(K, A), np.kron(KRON, a)),
    "a sum": (2 * K + K, 3 * KRON),
    "a product": (K @ K.T, KRON @ KRON.T),
    "blocks": (ldiv.block_array([[K, None], [None, A]]), sp.block_diag([KRON, a]).toarray()),
    "complex": ((1j * K).H, (1j * KRON).conj().T),
    "a dense one": (ldiv.Matrix(ldiv.structures.Dense(2, 2), DENSE), DENSE),
    "a sparse one": (A, a),
}


@pytest.mark.parametrize("name", MATRICES)
def test_the_entries_in_each_format(name: str) -> None:
    M, expected = MATRICES[name]
    for format in (None, "coo", "csr", "csc"):
        W = M.tosparse(format)
        assert isinstance(W, ldiv.SparseArray)
        assert format in (None, W.format)
        assert W.dtype == expected.dtype
        np.testing.assert_allclose(W.toarray(), expected, rtol=1e-13, atol=1e-15)


def test_what_scipy_does_with_a_kronecker_product() -> None:
    for format in ("coo", "csr", "csc"):
        C = ldiv.kron(A, B, format=format)
        assert C.format == format
        np.testing.assert_array_equal(C.toarray(), sp.kron(S, R, format=format).toarray())
        blocks = [[A, None], [None, A]]
        C = ldiv.block_array(blocks, format=format)
        assert isinstance(C, ldiv.SparseArray)
        assert C.format == format
        blocks = [[S, None], [None, S]]
        np.testing.assert_array_equal(C.toarray(), sp.block_array(blocks, format=format).toarray())
    assert K[0, 1] == KRON[0, 1]
    np.testing.assert_array_equal(K[2], KRON[2])
    np.testing.assert_array_equal(K[1:3, [0, 5]].toarray(), KRON[1:3, [0, 5]])
    np.testing.assert_array_equal(ldiv.vstack([K, K]).toarray(), np.vstack([KRON, KRON]))
    np.testing.assert_array_equal(ldiv.hstack([K, K]).toarray(), np.hstack([KRON, KRON]))
    found = ldiv.bmat([[K, None], [None, A]]).toarray()
    np.testing.assert_array_equal(found, sp.block_diag([KRON, a]).toarray())
    np.testing.assert_array_equal(ldiv.asarray(K).toarray(), KRON)
    empty = ldiv.kron(np.ones((0, 2)), A)
    assert empty.tosparse().shape == (0, 8)


@pytest.mark.parametrize(
    ("view", "seen"),
    [
        (lambda A: A.conj(), np.conj),
        (lambda A: A.H, lambda a: a.conj().T),
        (lambda A: A.T, np.transpose),
    ],
)
def test_conjugate_views_are_read_as_such(view: Any, seen: Any) -> None:
    c = a[:, :3] + 1j * rng.standard_normal((3, 3)) + 4 * np.eye(3)
    C, V, v = ldiv.asarray(c), view(ldiv.asarray(c)), seen(c)
    np.testing.assert_allclose(ldiv.kron(V, B).toarray(), np.kron(v, b), rtol=1e-14)
    np.testing.assert_allclose(view(ldiv.kron(C, V))[4, 1], seen(np.kron(c, v))[4, 1], rtol=1e-14)
    scaled = ldiv.Matrix(ldiv.structures.Scaled((V.structure,)), (V.params, np.array(2 + 3j)))
    np.testing.assert_allclose(scaled.toarray(), (2 + 3j) * v, rtol=1e-14)
    rows, cols, values = ldiv.find(V)
    np.testing.assert_array_equal(sp.coo_array((values, (rows, cols))).toarray(), v)
    np.testing.assert_array_equal(ldiv.nn.SparseMatrix(V).matrix.toarray().detach().numpy(), v)
    # a tangent of SciPy's is one of the view:  dx = -V^-1 E x
    E, x = sp.coo_array(rng.standard_normal((3, 3)) * (1 + 2j)), np.linalg.solve(v, np.ones(3))
    found = ldiv.jvp(lambda V: ldiv.solve(V, np.ones(3)), (V,), (E,))[1]
    np.testing.assert_allclose(found, -np.linalg.solve(v, E @ x), rtol=1e-12)


def test_find_adds_duplicates_up() -> None:
    twice = ldiv.coo_array((np.array([1.0, 2.0, 4.0]), ([1, 1, 0], [0, 0, 1])), shape=(2, 2))
    rows, cols, values = ldiv.find(twice)
    np.testing.assert_array_equal([rows, cols], [[0, 1], [1, 0]])
    np.testing.assert_array_equal(values, [4.0, 3.0])


def test_blocks_in_a_format_that_is_none() -> None:
    with pytest.raises(ValueError, match="format: expected one of 'coo', 'csr', 'csc'"):
        ldiv.block_array([[A]], format="bsr")


def test_every_mode_in_torch_and_jax() -> None:
    u, v = (torch.tensor(x.data, requires_grad=True) for x in (A, B))
    f = lambda u, v: ldiv.kron(A.with_data(u), B.with_data(v), format="csr").data.sin()
    assert torch.autograd.gradcheck(f, (u, v), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(f, (u, v))
    g = lambda u: (ldiv.kron(A.with_data(u), B).tosparse() @ jnp.ones(12)).sum()
    data = jnp.asarray(A.data)
    found = jax.jit(lambda u: (jax.grad(g)(u), jax.vmap(jax.grad(g))(jnp.stack([u, u]))))(data)
    for gradient in (found[0], *found[1]):
        np.testing.assert_allclose(gradient, np.full(A.nnz, b.sum()), rtol=1e-12)
    half = A.with_data(torch.tensor(A.data, dtype=torch.float32))
    assert ldiv.kron(half, half).tosparse().dtype == torch.float32


def test_entries_that_are_not_stored() -> None:
    operator = ldiv.LinearOperator(lambda p, x: p * x, torch.ones(1), shape=(2, 2))
    for M in (operator, ldiv.kron(operator, operator)):
        for call in (M.tosparse, lambda M=M: ldiv.vstack([M, M])):
            with pytest.raises(TypeError, match="expected a matrix whose entries are stored"):
                call()
        np.testing.assert_array_equal(M.toarray(), np.eye(M.shape[0]))
        assert M[0, 0] == 1
