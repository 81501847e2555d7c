"""cg, minres, gmres, bicgstab under SciPy's names, and questions about a matrix."""

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
}


@pytest.mark.parametrize("name", NAMES)
def test_as_in_scipy(name):
    A, b = NAMES[name].tocsc(), rng.standard_normal(N)
    ours, theirs = getattr(ldiv, name), getattr(spl, name)
    x, info = ours(A, b, rtol=1e-12)
    assert info == theirs(A, b, rtol=1e-12)[1] == 0
    np.testing.assert_allclose(x, theirs(A, b, rtol=1e-12)[0], rtol=1e-8)
    seen = []
    ours(A, b, x0=x, rtol=1e-10, maxiter=100, callback=seen.append)
    with pytest.raises(ldiv.ConvergenceError):
        ours(A, b, maxiter=1, **({"restart": 1} if name == "gmres" else {}))
    more = {} if name == "minres" else {"M": "jacobi", "atol": 1e-12}
    np.testing.assert_allclose(ours(A, b, **more)[0], x, rtol=1e-8)


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


def test_options():
    A, b = np.diag([1.0, 2.0]), np.ones(2)
    with pytest.raises(ValueError, match="shift: expected 0"):
        ldiv.minres(A, b, shift=1.0)
    with pytest.raises(ValueError, match="callback_type"):
        ldiv.gmres(A, b, callback_type="pr_norm")
    with pytest.raises(ldiv.NotPositiveDefiniteError):
        ldiv.cg(-A, b)


def test_questions():
    a = np.triu(rng.standard_normal((5, 5)), -1)
    assert ldiv.bandwidth(a) == scipy.linalg.bandwidth(a) == ldiv.bandwidth(torch.tensor(a))
    sparse = sp.random_array((6, 6), density=0.2, rng=1).tocsr()
    A = ldiv.asarray(sparse)
    assert ldiv.spbandwidth(A) == scipy.linalg.bandwidth(sparse.toarray())
    for part in (sp.tril(sparse), sp.triu(sparse), sparse, sp.csr_array((6, 6))):
        below, above = scipy.linalg.bandwidth(part.toarray())
        assert ldiv.is_sptriangular(ldiv.asarray(part)) == (above == 0, below == 0)
    for found, expected in zip(ldiv.find(A), sp.find(sparse), strict=True):
        np.testing.assert_allclose(np.sort(found), np.sort(expected))
    hermitian = rng.standard_normal((4, 4)) + 1j * rng.standard_normal((4, 4))
    hermitian = hermitian + hermitian.conj().T
    near = hermitian + 1e-9
    for x in (hermitian, near, hermitian.real, hermitian.real + np.eye(4, k=1)):
        for more in ({}, {"rtol": 1e-6}, {"atol": 1e-6, "rtol": 0.0}):
            assert ldiv.issymmetric(x, **more) == scipy.linalg.issymmetric(x, **more)
            assert ldiv.ishermitian(x, **more) == scipy.linalg.ishermitian(x, **more)
    assert ldiv.issparse(A) and not ldiv.issparse(sparse)
    operator = ldiv.aslinearoperator(sparse)
    np.testing.assert_allclose(operator.matvec(np.ones(6)), sparse @ np.ones(6))
    np.testing.assert_allclose(
        ldiv.aslinearoperator(spl.aslinearoperator(sparse)) @ np.ones(6), sparse @ np.ones(6)
    )
    with pytest.raises(TypeError, match="A: expected a SparseArray"):
        ldiv.find(sparse)
    with pytest.raises(ValueError, match="One matrix"):
        ldiv.bandwidth(np.ones((2, 3, 3)))
