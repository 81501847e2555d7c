"""slogdet, logdet and det of every structure against dense arrays: values, signs, derivatives."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
import scipy.sparse as sp

import ldiv
from ldiv import structures
from ldiv.core.frameworks.trees import leaves, rebuild
from ldiv.testing.cases import Draw, found_structures

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")
jax.config.update("jax_enable_x64", True)

DTYPES = ("float64", "complex128")


def regular(dtype):
    """All structures that are square, except for matrices that are singular."""
    for structure, p in found_structures(dtype):
        m, n = structure.shape
        if m == n and np.linalg.cond(structure.todense(p)).max() < 1e6:
            yield structure, p


def of_graph(structure, p):
    """The parameters with gradients, and the dense array made of them by products."""
    flat = [torch.tensor(x, requires_grad=True) for x in leaves(p)]
    p = rebuild(structure.core, flat)
    eye = torch.eye(structure.shape[0], dtype=flat[0].dtype)
    return flat, p, structure.matmul(p, eye)


def weighted(pair):
    """A real number of both, so that each has a cotangent."""
    s, l = pair
    return (l * 0.7).sum() + (s * (0.3 - 0.2j)).real.sum()


def derivatives(pair, flat, e):
    """The gradient of a number made of both, and its second derivative along e."""
    number = weighted(pair)
    if not number.requires_grad:  # the triangles with ones on the diagonal
        return [None] * (2 * len(flat))
    first = torch.autograd.grad(number, flat, create_graph=True)
    along = sum((g * d.conj()).real.sum() for g, d in zip(first, e, strict=True))
    return *(g.detach() for g in first), *torch.autograd.grad(along, flat, allow_unused=True)


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_structure_in_value_and_derivatives(dtype):
    seen = set()
    for structure, p in regular(dtype):
        if not leaves(p) or isinstance(structure, structures.Operator):
            continue
        seen.add(type(structure).__name__)
        for op in ("N", "H"):
            view = structure.view(op)
            flat, q, dense = of_graph(view, p)
            found, expected = ldiv.slogdet(ldiv.Matrix(view, q)), torch.linalg.slogdet(dense)
            for x, y in zip(found, expected, strict=True):
                assert x.shape == y.shape, structure
                assert torch.allclose(x, y, rtol=1e-11, atol=1e-12), structure
            plain = ldiv.slogdet(ldiv.Matrix(view, p))[1]
            assert np.allclose(plain, found[1].detach(), rtol=1e-12)
            e = [torch.tensor(Draw(dtype, 9)(*x.shape)) for x in flat]
            ours, theirs = (derivatives(pair, flat, e) for pair in (found, expected))
            for x, y in zip(ours, theirs, strict=True):
                x, y = (0 if z is None else z.resolve_conj().numpy() for z in (x, y))
                assert np.allclose(x, y, rtol=1e-9, atol=1e-10), (structure, op)
    expected = (
        "Diagonal Triangular Sparse SparseTriangular Banded Kronecker Gram Product Scaled Sum"
    )
    assert seen >= {*expected.split(), "Block", "DiagonalPart", "Symmetric", "Dense"}


A = sp.coo_array(np.array([[0.0, 2.0, 0.0], [3.0, 0.0, 0.0], [1.0, 0.0, -4.0]]))


def test_signs_of_sparse_matrices():
    a = ldiv.coo_array((A.data, (A.row, A.col)), shape=A.shape)
    assert np.allclose(ldiv.slogdet(a), (1, np.log(24)))
    assert np.isclose(ldiv.det(a), 24)
    assert np.isclose(ldiv.logdet(a), np.log(24))
    assert np.isclose(ldiv.det(-a), -24)
    assert np.isclose(ldiv.det(1j * a), (1j) ** 3 * 24)
    with pytest.raises(ValueError, match="positive determinant"):
        ldiv.logdet(-a)
    assert ldiv.slogdet(a.with_data(A.data * 1.0 + 0j))[0].dtype == complex


def test_promises():
    full = A.toarray() + A.toarray().T
    at = np.nonzero(full)
    a = ldiv.coo_array((full[at], at), shape=full.shape)
    for promise in ("her", "sym", "gen"):
        assert np.allclose(ldiv.slogdet(a, assume_a=promise), np.linalg.slogdet(full))
        assert np.allclose(ldiv.slogdet(full, assume_a=promise), np.linalg.slogdet(full))
    with pytest.raises(ldiv.NotPositiveDefiniteError):
        ldiv.slogdet(a, assume_a="pos")
    with pytest.raises(ldiv.NotSymmetricError):
        ldiv.slogdet(ldiv.coo_array((A.data, (A.row, A.col)), shape=A.shape), assume_a="her")
    lower = ldiv.slogdet(full + 5 * np.eye(3), assume_a="lower triangular")
    assert np.allclose(lower, np.linalg.slogdet(np.diag(np.diag(full) + 5)))


def test_singular_matrices_raise():
    grid = ldiv.diags_array(
        [-np.ones(4), np.array([1.0, 2, 2, 2, 1]), -np.ones(4)], offsets=[-1, 0, 1]
    )
    zero = ldiv.Matrix(structures.Diagonal(3), np.array([1.0, 0, 2]))
    for matrix in (
        grid,
        zero,
        ldiv.LowRank(np.ones((3, 1)), np.ones((3, 1))),
        ldiv.kron(zero, zero),
    ):
        for f in (ldiv.slogdet, ldiv.det, ldiv.logdet):
            with pytest.raises(ldiv.SingularMatrixError):
                f(matrix)


@pytest.mark.parametrize("least", [0.0, 1e-40, 1e-12, 1e-8])
def test_an_update_that_the_singular_part_needs(least):
    """det A det C cancels where A is nearly singular: the sum has condition 100 here."""
    n, d = 6, np.array([1.0, 2, 3, 4, 5, least])
    u = np.random.default_rng(0).standard_normal((n, 3))
    with mp.workdps(50):
        s = mp.matrix(np.diag(d).tolist()) + mp.matrix(u.tolist()) * mp.matrix(u.T.tolist())
        value, inverse = float(mp.log(mp.det(s))), mp.inverse(s)
        slopes = np.array([float(inverse[i, i]) for i in range(n)])
    diagonal = torch.tensor(d, requires_grad=True)
    low = ldiv.LowRank(torch.tensor(u), torch.tensor(u))
    sign, size = ldiv.slogdet(ldiv.Matrix(structures.Diagonal(n), diagonal) + low)
    assert sign == 1
    np.testing.assert_allclose(size.item(), value, rtol=1e-14)
    np.testing.assert_allclose(torch.autograd.grad(size, diagonal)[0], slopes, rtol=1e-13)
    # beside a sparse A no sum is formed: refused, and the bordered matrix serves
    A = ldiv.diags_array([d], offsets=[0])
    for f in (ldiv.slogdet, ldiv.det, ldiv.logdet, lambda S: ldiv.logdet(S, assume_a="pos")):
        with pytest.raises(ldiv.SingularMatrixError, match="block_array"):
            f(A + ldiv.LowRank(u, u))
    bordered = ldiv.block_array([[A, u], [u.T, -np.eye(3)]])
    np.testing.assert_allclose(ldiv.slogdet(bordered)[1], value, rtol=1e-13)


def test_operators_say_what_they_lack():
    with pytest.raises(ldiv.EngineError):
        ldiv.slogdet(ldiv.LinearOperator(lambda p, x: p * x, np.ones(()), shape=(3, 3)))


def test_jax_compiled_with_signs():
    def f(v):
        return ldiv.slogdet(ldiv.coo_array((v, (A.row, A.col)), shape=A.shape))

    (sign, size), hessian = jax.jit(lambda v: (f(v), jax.hessian(lambda v: f(v)[1])(v)))(-A.data)
    assert (sign, np.isclose(size, np.log(24))) == (-1, True)
    assert np.allclose(hessian, np.diag(-1 / A.data**2) * (A.data != 1))


def test_empty_and_batches():
    empty = ldiv.Matrix(structures.Diagonal(0), np.zeros((2, 0)))
    assert np.array_equal(ldiv.slogdet(empty), [[1, 1], [0, 0]])
    a = ldiv.coo_array((np.stack([A.data, -A.data]), (A.row, A.col)), shape=A.shape)
    assert np.allclose(ldiv.slogdet(a), [[1, -1], [np.log(24)] * 2])
    assert ldiv.det(a.with_data(np.zeros((0, 4)))).shape == (0,)
    single = ldiv.slogdet(a.astype(np.float32))
    assert [x.dtype for x in single] == ["float32"] * 2
