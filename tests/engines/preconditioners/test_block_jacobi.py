"""Dense blocks on the diagonal: their inverse, for every size, and what becomes of singular ones."""

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp

import ldiv


def inverse_of_blocks(a, size):
    n = a.shape[0]
    return scipy.linalg.block_diag(
        *(np.linalg.inv(a[i : i + size, i : i + size]) for i in range(0, n, size))
    )


@pytest.mark.parametrize("size", [1, 3, 4, 12, 100])
@pytest.mark.parametrize("form", ["sparse", "dense"])
def test_the_inverse_of_the_blocks(size, form):
    rng = np.random.default_rng(0)
    a = rng.standard_normal((14, 14)) + 1j * rng.standard_normal((14, 14))
    A = ldiv.asarray(sp.csr_array(a) if form == "sparse" else a)
    M = ldiv.preconditioner(A, "block_jacobi", block_size=size)
    expected = inverse_of_blocks(a, size)
    assert np.allclose(M @ np.eye(14), expected, rtol=0, atol=1e-11 * np.abs(expected).max())


def test_entries_that_come_twice_and_those_of_the_symmetric_part():
    rows, cols = np.array([0, 0, 1, 1, 0, 2]), np.array([0, 1, 0, 1, 0, 2])
    values = np.array([1.0, 1.0, 1.0, 4.0, 1.0, 5.0])
    A = ldiv.coo_array((values, (rows, cols)), shape=(3, 3))
    expected = inverse_of_blocks(np.array([[2.0, 1, 0], [1, 4, 0], [0, 0, 5]]), 2)
    for assume_a in ("gen", "sym", "pos"):
        M = ldiv.preconditioner(A, "block_jacobi", assume_a=assume_a, block_size=2)
        assert np.allclose(M @ np.eye(3), expected, rtol=1e-14)


def test_an_indefinite_block_by_its_absolute_value():
    rng = np.random.default_rng(1)
    q, _ = np.linalg.qr(rng.standard_normal((6, 6)))
    w = np.array([-3.0, -1, 0.5, 1, 3, 4])
    a = (q * w) @ q.T
    M = ldiv.preconditioner((a + a.T) / 2, "block_jacobi", assume_a="her", block_size=6)
    assert np.allclose(M @ np.eye(6), (q / np.abs(w)) @ q.T, rtol=0, atol=1e-13)


def test_singular_blocks_are_finite():
    a = np.zeros((7, 7))
    a[0, 1] = a[1, 0] = 2.0  # a block with a zero diagonal, regular
    a[2, 2:4] = 3.0  # of rank one
    a[4, 6] = a[5, 5] = a[6, 4] = a[6, 5] = 1.0  # a block of zeros and one, then the rest
    a[4, 4] = a[5, 5] = 0.0
    M = ldiv.preconditioner(a, "block_jacobi", block_size=2) @ np.eye(7)
    assert np.isfinite(M).all()
    assert np.linalg.matrix_rank(M) == 7
    assert np.allclose(M[:2, :2], [[0, 0.5], [0.5, 0]])
    assert np.allclose(M[4:6, 4:6], np.eye(2))


def test_fewer_steps_where_unknowns_come_in_blocks():
    """Strong couplings within nodes of 3 unknowns, weak ones between neighbors."""
    rng = np.random.default_rng(2)
    node = rng.standard_normal((80, 3, 3))
    strong = sp.block_diag([sp.coo_array(x @ x.T + 1e-3 * np.eye(3)) for x in node])
    t = sp.diags_array([-np.ones(79), 2 * np.ones(80), -np.ones(79)], offsets=[-1, 0, 1])
    a = sp.csr_array(strong + 1e-4 * sp.kron(t, sp.eye_array(3)))
    A, b = ldiv.asarray(a), rng.standard_normal(240)
    steps = {}
    for kind in ("jacobi", "block_jacobi"):
        x, info = ldiv.solve(A, b, assume_a="pos", method="cg", M=kind, info=True)
        assert np.linalg.norm(a @ x - b) <= 1e-9 * np.linalg.norm(b)
        steps[kind] = info.iterations
    assert steps["block_jacobi"] < steps["jacobi"] / 2, steps


@pytest.mark.parametrize("name", ["494_bus", "bcsstk01", "mhd1280b", "bcsstk13"])
@pytest.mark.parametrize("method", ["cg", "minres"])
def test_real_matrices(name, method, real_matrix):
    a = real_matrix(name)
    A, b = ldiv.asarray(a), a @ np.ones(a.shape[0])
    size = {"block_size": 24} if name == "bcsstk13" else {}
    M = ldiv.preconditioner(A, "block_jacobi", assume_a="pos", **size)
    x = ldiv.solve(A, b, assume_a="pos", method=method, M=M, rtol=1e-7, maxiter=4000)
    assert np.linalg.norm(a @ x - b) <= 1.001e-7 * np.linalg.norm(b)


@pytest.mark.parametrize(
    ("A", "options", "match"),
    [
        (np.eye(3), {"block_size": 0}, "block_size: expected"),
        (np.eye(3), {"block_size": 2.5}, "block_size: expected"),
        (np.eye(3), {"blocks": 2}, "options: expected 'block_size'|options: expected block_size"),
        (ldiv.kron(np.eye(2), np.eye(2)), {}, "M='block_jacobi': expected a sparse matrix"),
    ],
)
def test_misuse_says_what_to_do(A, options, match):
    with pytest.raises((ValueError, TypeError), match=match):
        ldiv.preconditioner(A, "block_jacobi", **options)
