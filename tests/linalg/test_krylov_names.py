"""Iterations under SciPy's names, and questions about a matrix."""

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
import scipy.sparse.linalg as spl

import ldiv

torch = pytest.importorskip("torch")
rng = np.random.default_rng(3)
N = 30
POSITIVE = sp.diags_array([-np.ones(N - 1), np.full(N, 2.5), -np.ones(N - 1)], offsets=[-1, 0, 1])
GENERAL = sp.diags_array(
    [-np.ones(N - 1), np.full(N, 3.5), -2 * np.ones(N - 1)], offsets=[-1, 0, 1]
)
NAMES = {
    "cg": POSITIVE,
    "minres": POSITIVE - 2 * sp.eye_array(N),
    "gmres": GENERAL,
    "bicgstab": GENERAL,
    "bicg": GENERAL,
    "cgs": GENERAL,
    "qmr": GENERAL,
    "tfqmr": GENERAL,
    "lgmres": GENERAL,
}
OF_SCIPY = [*NAMES][4:]
ONE_STEP = {"gmres": {"restart": 1}, "lgmres": {"inner_m": 1}}


@pytest.mark.parametrize("name", NAMES)
def test_as_in_scipy(name):
    A, b = NAMES[name].tocsc(), rng.standard_normal(N)
    ours, theirs = getattr(ldiv, name), getattr(spl, name)
    x, info = ours(A, b, rtol=1e-12)
    assert info == theirs(A, b, rtol=1e-12)[1] == 0
    np.testing.assert_allclose(x, theirs(A, b, rtol=1e-12)[0], rtol=1e-8)
    seen = []
    ours(A, b, x0=0 * x, rtol=1e-10, maxiter=100, callback=seen.append)
    with pytest.raises(ldiv.ConvergenceError):
        ours(A, b, maxiter=1, **ONE_STEP.get(name, {}))
    assert seen
    more = {} if name == "minres" else {"M1" if name == "qmr" else "M": "jacobi", "atol": 1e-12}
    np.testing.assert_allclose(ours(A, b, **more)[0], x, rtol=1e-8)


def test_a_preconditioner_has_the_name_under_which_it_came():
    A, b = NAMES["qmr"].tocsc(), np.ones(N)
    for name in ("M1", "M2"):
        with pytest.raises(ValueError, match=f"{name}: expected one of 'amg'"):
            ldiv.qmr(A, b, **{name: "abc"})
        with pytest.raises(ValueError, match=rf"{name}: expected shape \({N}, {N}\)"):
            ldiv.qmr(A, b, **{name: np.eye(3)})


@pytest.mark.parametrize("name", NAMES)
def test_derivatives(name):
    A = NAMES[name].toarray()[:5, :5]
    a, b = (
        torch.tensor(A, requires_grad=True),
        torch.tensor(rng.standard_normal(5), requires_grad=True),
    )
    solve = getattr(ldiv, name)

    def of_symmetric_part(a, b):
        return solve((a + a.T) / 2 if name in ("cg", "minres") else a, b, rtol=1e-13)[0]

    assert torch.autograd.gradcheck(of_symmetric_part, (a, b))


@pytest.mark.parametrize("name", OF_SCIPY)
def test_those_of_scipy(name):
    """Blocks, batches, complex numbers, any scale, preconditioners, operators, second derivatives,
    JAX.
    """
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    solve = getattr(ldiv, name)
    a = GENERAL.toarray()[:6, :6] + 0.3j * np.triu(np.ones((6, 6)), 1)
    A, b = np.stack([a, 2 * a + np.eye(6)]), rng.standard_normal((6, 2)) * [1, 1e150]
    expected = np.linalg.solve(A, b.astype(complex))
    np.testing.assert_allclose(solve(A, b, rtol=1e-13)[0], expected, rtol=1e-9)
    np.testing.assert_allclose(solve(1e200 * A, b, rtol=1e-13)[0], expected / 1e200, rtol=1e-9)
    sparse = ldiv.asarray(GENERAL)
    x, _ = solve(sparse, np.ones(N))
    factor = {"M1" if name == "qmr" else "M": ldiv.spilu(sparse)}
    np.testing.assert_allclose(solve(sparse, np.ones(N), **factor)[0], x, rtol=1e-8)
    operator = ldiv.LinearOperator(
        lambda p, x: p @ x, torch.tensor(GENERAL.toarray()), shape=(N, N)
    )
    found, _ = solve(operator, torch.ones(N, dtype=torch.float64))
    np.testing.assert_allclose(found, x, rtol=1e-8)

    v = torch.linspace(2, 3, 5, dtype=torch.float64).requires_grad_()

    def of_vector(v):
        return (
            solve(3.5 * (v[:, None] == v) + v[:, None] * (v**3 + v) / 20, v**2, rtol=1e-13)[0] ** 3
        ).sum()

    assert torch.autograd.gradgradcheck(of_vector, v)
    (g,) = torch.autograd.grad(of_vector(v), v)
    np.testing.assert_allclose(jax.jit(jax.grad(of_vector))(v.detach().numpy()), g, rtol=1e-8)


def test_incomplete_factors():
    A = sp.csc_array(GENERAL)
    F, b = ldiv.spilu(A, drop_tol=1e-12), rng.standard_normal(N)
    for trans, op in (("N", A), ("T", A.T), ("H", A.T)):
        np.testing.assert_allclose(op @ F.solve(b, trans), b, rtol=1e-8)
    assert F.shape == (N, N)
    rough = ldiv.spilu(A, drop_tol=0.5, fill_factor=1)
    assert np.linalg.norm(A @ rough.solve(b) - b) > 1e-6


def test_older_names_of_diagonals():
    rows = rng.standard_normal((3, 5))
    for shape in ((5, 5), (4, 6), (7, 3), (5, 9)):
        expected = sp.spdiags(rows, [0, -2, 1], *shape).toarray()
        np.testing.assert_array_equal(ldiv.spdiags(rows, [0, -2, 1], *shape).toarray(), expected)
    np.testing.assert_array_equal(
        ldiv.diags([rows[0], rows[1][:4]], [0, -1]).toarray(),
        sp.diags([rows[0], rows[1][:4]], [0, -1]).toarray(),
    )
    np.testing.assert_array_equal(ldiv.eye(3, 4, 1).toarray(), sp.eye(3, 4, 1).toarray())
    t = torch.tensor(rows, requires_grad=True)
    ldiv.spdiags(t, [0, -2, 1], 5, 5).sum().backward()
    np.testing.assert_array_equal(t.grad[0], np.ones(5))
    np.testing.assert_array_equal(t.grad[1], [1, 1, 1, 0, 0])
    np.testing.assert_array_equal(t.grad[2], [0, 1, 1, 1, 1])
    with pytest.raises(ValueError, match="diags: expected one for each row"):
        ldiv.spdiags(rows, [0], 5, 5)
    for dtype in (np.float32, "complex128"):
        for ours, theirs in (
            (ldiv.diags([rows[0]], [0], dtype=dtype), sp.diags([rows[0]], [0], dtype=dtype)),
            (ldiv.diags_array(rows[0], dtype=dtype), sp.diags_array(rows[0], dtype=dtype)),
        ):
            assert ours.dtype == theirs.dtype
            np.testing.assert_array_equal(ours.toarray(), theirs.toarray())
    with pytest.raises(TypeError, match="dtype: expected one of"):
        ldiv.diags([rows[0]], [0], dtype=int)


@pytest.mark.parametrize("kind", [sp.csr_array, np.asarray, spl.aslinearoperator])
def test_a_shift_of_minres(kind):
    dense, b = NAMES["minres"].toarray(), rng.standard_normal(N)
    x, _ = ldiv.minres(kind(dense), b, shift=0.3, rtol=1e-13)
    np.testing.assert_allclose(x, spl.minres(dense, b, shift=0.3, rtol=1e-14)[0], rtol=1e-9)
    np.testing.assert_allclose(x, np.linalg.solve(dense - 0.3 * np.eye(N), b), rtol=1e-9)
    if kind is not spl.aslinearoperator:
        again, _ = ldiv.minres(kind(dense), b, shift=0.3, rtol=1e-13, M="jacobi")
        np.testing.assert_allclose(again, x, rtol=1e-9)
    single = ldiv.minres(dense.astype("f4"), b.astype("f4"), shift=0.3)[0]
    assert single.dtype == np.float32
    t, y = (torch.tensor(z, requires_grad=True) for z in (dense[:5, :5], b[:5]))
    assert torch.autograd.gradcheck(
        lambda t, y: ldiv.minres((t + t.T) / 2, y, shift=0.3, rtol=1e-14)[0], (t, y)
    )


def test_options():
    A, b = np.diag([1.0, 2.0]), np.ones(2)
    with pytest.raises(ValueError, match="shift: expected a finite real number"):
        ldiv.minres(A, b, shift="1.0")
    for kind in ("pr_norm", "legacy"):
        with pytest.raises(ValueError, match=r"callback_type: .*callback=lambda x: f"):
            ldiv.gmres(A, b, callback_type=kind)
    seen, norms = [], []
    ldiv.gmres(A, b, callback=lambda x: norms.append(abs(b - A @ x).max()))
    ldiv.gmres(A, b, callback=seen.append, callback_type="x")
    assert [x.shape for x in seen] == [(2,)] * len(norms)
    assert norms[-1] < 1e-9
    with pytest.raises(ldiv.NotPositiveDefiniteError):
        ldiv.cg(-A, b)
    with pytest.raises(ValueError, match="M2: expected one of M1 and M2"):
        ldiv.qmr(A, b, M1="jacobi", M2="jacobi")


def test_questions():
    a = np.triu(rng.standard_normal((5, 5)), -1)
    assert ldiv.bandwidth(a) == scipy.linalg.bandwidth(a) == ldiv.bandwidth(torch.tensor(a))
    sparse = sp.random_array((6, 6), density=0.2, rng=1).tocsr()
    A = ldiv.asarray(sparse)
    assert ldiv.spbandwidth(A) == scipy.linalg.bandwidth(sparse.toarray())
    for part in (sp.tril(sparse), sp.triu(sparse), sparse, sp.csr_array((6, 6))):
        below, above = scipy.linalg.bandwidth(part.toarray())
        assert ldiv.is_sptriangular(ldiv.asarray(part)) == (above == 0, below == 0)
    for matrix in (A, sparse):
        for found, expected in zip(ldiv.find(matrix), sp.find(sparse), strict=True):
            np.testing.assert_allclose(np.sort(found), np.sort(expected))
    hermitian = rng.standard_normal((4, 4)) + 1j * rng.standard_normal((4, 4))
    hermitian = hermitian + hermitian.conj().T
    near = hermitian + 1e-9
    for x in (hermitian, near, hermitian.real, hermitian.real + np.eye(4, k=1)):
        for more in ({}, {"rtol": 1e-6}, {"atol": 1e-6, "rtol": 0.0}):
            for a in (x, sp.csc_array(x), ldiv.asarray(sp.coo_array(x))):
                assert ldiv.issymmetric(a, **more) == scipy.linalg.issymmetric(x, **more)
                assert ldiv.ishermitian(a, **more) == scipy.linalg.ishermitian(x, **more)
    added = ldiv.coo_array((np.array([1.0, 1.0, 2.0]), ([0, 0, 1], [1, 1, 0])), shape=(2, 2))
    assert ldiv.issymmetric(added) and not ldiv.issymmetric(added + ldiv.eye_array(2, k=1))
    with pytest.raises(ValueError, match="square"):
        ldiv.issymmetric(added[:1])
    with pytest.raises(ValueError, match=r"got \(2, 2, 2\)\. One matrix"):
        ldiv.ishermitian(added.with_data(np.ones((2, 3))))
    infinite = np.array([[0, np.inf], [np.inf, 1]])
    for x in (infinite, np.triu(infinite), infinite * [[1, 1], [-1, 1]]):
        for rtol in (None, 0.1):
            assert ldiv.issymmetric(sp.csr_array(x), rtol=rtol) is (x is infinite)
    jax = pytest.importorskip("jax")
    with pytest.raises(TypeError, match="known numbers"):
        jax.jit(lambda v: v * ldiv.issymmetric(added.with_data(v)))(added.data)
    assert ldiv.issparse(A) and not ldiv.issparse(sparse)
    operator = ldiv.aslinearoperator(sparse)
    np.testing.assert_allclose(operator.matvec(np.ones(6)), sparse @ np.ones(6))
    np.testing.assert_allclose(
        ldiv.aslinearoperator(spl.aslinearoperator(sparse)) @ np.ones(6), sparse @ np.ones(6)
    )
    with pytest.raises(TypeError, match="A: expected a SparseArray"):
        ldiv.find(sparse.toarray())
    with pytest.raises(ValueError, match="One matrix"):
        ldiv.bandwidth(np.ones((2, 3, 3)))
