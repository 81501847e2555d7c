"""Some eigenpairs of unsymmetric matrices: SciPy's values, 50 digits, all modes, what is refused."""

import mpmath
import numpy as np
import pytest
import scipy.linalg
import scipy.sparse
import scipy.sparse.linalg

import ldiv

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")
jax.config.update("jax_enable_x64", True)
jnp = jax.numpy

rng = np.random.default_rng(5)
close = np.testing.assert_allclose
N = 260
LARGE = (scipy.sparse.random(N, N, 0.02, rng=1) + scipy.sparse.diags(np.linspace(0, 9, N))).tocoo()
METRIC = scipy.sparse.diags([np.full(N - 1, 0.3), np.full(N, 2.0)], [1, 0]).tocoo()
SMALL = (scipy.sparse.random(7, 7, 0.4, rng=3) + scipy.sparse.diags(np.arange(7.0))).tocoo()
WEIGHT = rng.standard_normal((7, 3))


def sparse(values, like=SMALL):
    return ldiv.coo_array((values, (like.row, like.col)), shape=like.shape)


def preferred(w, which, sigma):
    nu = w if sigma is None else 1 / (w - sigma)
    size = {"M": abs(nu), "R": nu.real, "I": nu.imag if np.iscomplexobj(sigma) else abs(nu.imag)}
    return size[which[1]] * (1 if which[0] == "L" else -1)


@pytest.mark.parametrize("sigma", [None, 4.03, 4 + 1j])
@pytest.mark.parametrize("which", ["LM", "SM", "LR", "SR", "LI", "SI"])
@pytest.mark.parametrize("pencil", [False, True])
@pytest.mark.parametrize("method", ["arpack", "lapack"])
def test_values(which, sigma, pencil, method):
    if method == "arpack" and which[0] == "S" and (sigma is not None or which != "SR"):
        which = "LM"  # inside of a spectrum Arnoldi alone finds nothing
    A, M = LARGE.toarray(), METRIC.toarray() if pencil else np.eye(N)
    metric = ldiv.asarray(METRIC) if pencil else None
    w, X = ldiv.eigs(ldiv.asarray(LARGE), 4, metric, sigma, which, method=method)
    close(A @ X, M @ X * w, atol=1e-9)
    close(np.linalg.norm(X, axis=0), np.ones(4), rtol=1e-12)
    every = scipy.linalg.eigvals(A, M)
    best = np.sort(preferred(every, which, sigma))[::-1][:4]
    close(preferred(w, which, sigma), best, rtol=1e-7, atol=1e-9)
    assert (np.diff(preferred(w, which, sigma)) <= 1e-9 * abs(best).max()).all()


def test_kinds_of_matrices():
    A = LARGE.toarray()
    expected = ldiv.eigs(A, 3, which="LR", return_eigenvectors=False)
    assert expected.dtype == np.complex128
    product = ldiv.LinearOperator(lambda p, x: p @ x, A, shape=A.shape)
    for other in (product, ldiv.asarray(LARGE)):
        close(ldiv.eigs(other, 3, which="LR", v0=np.ones(N))[0], expected, rtol=1e-10)
    single = ldiv.eigs(A.astype(np.float32), 3, which="LR")[0]
    assert single.dtype == np.complex64
    close(single, expected, rtol=1e-4)
    turned = ldiv.eigs(1j * A, 3, which="LI", method="arpack")[0]
    close(np.sort_complex(turned / 1j), np.sort_complex(expected), rtol=1e-10)
    singular = scipy.sparse.diags(np.r_[np.ones(N - 1), 0]).tocoo()
    w, X = ldiv.eigs(ldiv.asarray(LARGE), 3, ldiv.asarray(singular), sigma=4.03)
    close(A @ X, singular @ X * w, atol=1e-9)
    tiny = ldiv.eigs(ldiv.asarray(LARGE) * 1e-200, 3, which="LR")[0]
    close(tiny * 1e200, expected, rtol=1e-9)


def loss(w, X):
    """Of values and vectors, whatever their phases."""
    return (abs(w) ** 2).sum() + (abs(X) ** 4 * abs(w)[None, :]).sum()


def test_derivatives_in_fifty_digits():
    mp = mpmath.mp.clone()
    mp.dps = 50
    move = rng.standard_normal(SMALL.nnz)
    values = torch.tensor(SMALL.data)
    (w, X), (dw, dX) = torch.func.jvp(
        lambda v: ldiv.eigs(sparse(v), 3, sigma=2.2), (values,), (torch.tensor(move),)
    )
    h = mp.mpf(10) ** -15

    def pair(sign, j):
        """By Rayleigh's iteration, with the phase of x_j."""
        m = mp.matrix(7, 7)
        for r, c, a, d in zip(SMALL.row, SMALL.col, SMALL.data, move, strict=True):
            m[int(r), int(c)] += mp.mpf(float(a)) + sign * h * mp.mpf(float(d))
        value, x = mp.mpmathify(w[j].item()), mp.matrix([z.item() for z in X[:, j]])
        y = x
        for _ in range(6):
            y = mp.lu_solve(m - (value + mp.mpf(10) ** -30) * mp.eye(7), y)
            y = y / mp.norm(y)
            at = max(range(7), key=lambda i: abs(y[i]))
            value = (m * y)[at] / y[at]
        inner = sum(mp.conj(x[i]) * y[i] for i in range(7))
        return value, y * (abs(inner) / inner)

    for j in range(3):
        (up, x), (down, y) = pair(1, j), pair(-1, j)
        assert abs(complex((up - down) / (2 * h)) - dw[j].item()) < 1e-11
        close(dX[:, j], [complex((x[i] - y[i]) / (2 * h)) for i in range(7)], atol=1e-10)


@pytest.mark.covering(1)
@pytest.mark.parametrize("kind", ["dense", "sparse", "pencil", "complex", "operator"])
@pytest.mark.parametrize("method", ["lapack", "arpack"])
def test_derivatives(kind, method):
    values = torch.tensor(SMALL.data * (1 + (0.2j if kind == "complex" else 0)), requires_grad=True)
    more = torch.linspace(1, 2, 7, dtype=torch.float64).requires_grad_()
    weight = torch.tensor(WEIGHT + 0j)
    sigma = None if kind == "operator" else 2.2

    def pairs(values, more):
        A, M = sparse(values), None
        if kind == "dense":
            A = A.toarray()
        if kind == "operator":
            A = ldiv.LinearOperator(lambda p, x: sparse(p) @ x, values, shape=(7, 7))
        if kind == "pencil":
            M = ldiv.diags_array([0.2 * more[1:], more], offsets=[1, 0])
        w, X = ldiv.eigs(A, 3, M, sigma, "LR" if sigma is None else "LM", method=method)
        return torch.view_as_real(w), abs((weight * X).sum(0)) ** 2

    assert torch.autograd.gradcheck(pairs, (values, more), check_forward_ad=kind != "operator")
    if kind != "operator":
        assert torch.autograd.gradgradcheck(pairs, (values, more))


def test_values_and_first_derivatives_are_those_of_eig():
    a = torch.tensor(SMALL.toarray(), requires_grad=True)

    def by_eig(a):
        w, X = ldiv.eig(a)
        best = torch.argsort((w - 2.2).abs())[:3]
        return loss(w[best], X[:, best])

    mine, theirs = loss(*ldiv.eigs(a, 3, sigma=2.2)), by_eig(a)
    close(mine.item(), theirs.item(), rtol=1e-12)
    grads = (torch.autograd.grad(x, a)[0] for x in (mine, theirs))
    torch.testing.assert_close(*grads, rtol=1e-9, atol=1e-10)


@pytest.mark.exhaustive  # compiles for ten seconds
@pytest.mark.parametrize("method", ["lapack", "arpack"])
def test_jax_and_numpy(method):
    values = SMALL.data

    def f(values):
        return loss(*ldiv.eigs(sparse(values), 3, sigma=2.2, method=method))

    t = torch.tensor(values, requires_grad=True)
    f(t).backward()
    batch = jnp.stack([jnp.asarray(values), 1.01 * jnp.asarray(values)])
    close(jax.jit(jax.vmap(jax.grad(f)))(batch)[0], t.grad, rtol=1e-9, atol=1e-10)
    (w, X), pullback = ldiv.vjp(lambda v: ldiv.eigs(sparse(v), 3, sigma=2.2, method=method), values)
    p = torch.tensor(w, requires_grad=True), torch.tensor(X, requires_grad=True)
    bars = torch.autograd.grad(loss(*p), p)
    close(pullback(tuple(x.numpy() for x in bars))[0], t.grad, rtol=1e-9, atol=1e-10)
    move = rng.standard_normal(values.shape)
    hvp = jax.jvp(jax.grad(f), (jnp.asarray(values),), (jnp.asarray(move),))[1]
    expected = torch.func.jvp(torch.func.grad(f), (torch.tensor(values),), (torch.tensor(move),))[1]
    close(hvp, expected, rtol=1e-8, atol=1e-9)


def test_batches():
    values = torch.tensor(np.stack([SMALL.data, SMALL.data * 1.1]), requires_grad=True)
    w, X = ldiv.eigs(sparse(values), 3, sigma=2.2)
    assert w.shape == (2, 3) and X.shape == (2, 7, 3)
    each = [ldiv.eigs(sparse(v), 3, sigma=2.2) for v in values]
    torch.testing.assert_close(w, torch.stack([e[0] for e in each]))
    whole, parts = (
        (abs(w) ** 2).sum() + (abs(X) ** 4).sum(),
        [(abs(e[0]) ** 2).sum() + (abs(e[1]) ** 4).sum() for e in each],
    )
    (mine,), (theirs,) = (torch.autograd.grad(x, values) for x in (whole, sum(parts)))
    torch.testing.assert_close(mine, theirs, rtol=1e-10, atol=1e-11)


def test_the_gradient_of_a_larger_matrix():
    t = torch.tensor(LARGE.data, requires_grad=True)
    (g,) = torch.autograd.grad(loss(*ldiv.eigs(sparse(t, LARGE), 3, sigma=4.03)), t)
    d, h = rng.standard_normal(LARGE.nnz), 1e-6
    up, down = (
        loss(*ldiv.eigs(sparse(LARGE.data + s * h * d, LARGE), 3, sigma=4.03)) for s in (1, -1)
    )
    close(g @ torch.tensor(d), (up - down) / (2 * h), rtol=1e-6)


def test_what_has_no_derivative():
    def slope(a, f, **options):
        a = torch.tensor(a, requires_grad=True)
        f(*ldiv.eigs(a, **options)).backward()
        return a.grad

    general = np.array([[0.0, 1, 0.3], [-4, 0.2, 1], [0.5, 0, 1]])
    with pytest.raises(ldiv.NotDifferentiableError, match="phase of eigenvector"):
        slope(general, lambda w, X: (X.real**2 * torch.arange(6.0).reshape(3, 2)).sum(), k=2)
    for defective in (
        [[1.0, 1], [0, 1]],
        [[1.0, 1], [1e-17, 1]],
        [[2.0, 0], [0, 2]],
        [[2.0, 1, 0], [0, 2, 1], [0, 0, 2]],
    ):
        with pytest.raises(ldiv.NotDifferentiableError, match="repeated or defective"):
            slope(np.array(defective), lambda w, X: w[0].real, k=1)
    near = np.array([[1.0, 1], [1e-6, 1]])  # a gap of 2e-3
    close(slope(near, lambda w, X: w[0].real, k=1)[1, 0], 500, rtol=1e-6)
    for size in (1e-100, 1.0, 1e100):
        close(slope(size * near, lambda w, X: w[0].real, k=1)[1, 0], 500, rtol=1e-6)


def test_bad_arguments():
    A = ldiv.asarray(LARGE)
    with pytest.raises(ValueError, match=r"M: expected shape \(260, 260\)"):
        ldiv.eigs(A, 2, np.eye(3))
    with pytest.raises(ValueError, match="k: expected a number of pairs from 1 to 260"):
        ldiv.eigs(A, 0)
    with pytest.raises(ValueError, match="which: expected one of 'LM'"):
        ldiv.eigs(A, 2, which="LA")
    with pytest.raises(ldiv.SingularMatrixError):
        ldiv.eigs(A, 2, ldiv.asarray(scipy.sparse.diags(np.r_[np.ones(N - 1), 0])))
    with pytest.raises(ldiv.SingularMatrixError, match="sigma = 3 is an eigenvalue"):
        ldiv.eigs(ldiv.diags_array([np.arange(300.0)]), 2, sigma=3)
    product = ldiv.LinearOperator(lambda p, x: p @ x, LARGE.toarray(), shape=LARGE.shape)
    with pytest.raises(ldiv.EngineError, match="needs a factor of A - sigma M"):
        ldiv.eigs(product, 2, sigma=3)
    with pytest.raises(ldiv.ConvergenceError, match="eigenpairs"):
        ldiv.eigs(A, 4, which="SM", maxiter=2)
