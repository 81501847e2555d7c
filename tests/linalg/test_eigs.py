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
    """A loss of values and vectors that does not depend on phases."""
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
        """The pair by Rayleigh's iteration, with the phase of x_j."""
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


@pytest.mark.parametrize("asked", [[0], [1, 3], [0, 1, 2, 3], []])
def test_only_pairs_that_a_loss_asks_for_are_factored_once(asked):
    values = torch.tensor(LARGE.data, requires_grad=True)
    w = ldiv.eigs(sparse(values, LARGE), 4, sigma=4 + 1j, return_eigenvectors=False)
    before = ldiv.cache_info()
    (found,) = torch.autograd.grad(w[asked].sum().real, values)
    after = ldiv.cache_info()
    assert after.factorizations - before.factorizations == len(asked)
    # dlam = y^H dA x / y^H x, with left vectors of LAPACK
    lam, left, right = scipy.linalg.eig(LARGE.toarray(), left=True)
    wanted = np.zeros(LARGE.nnz)
    for j in asked:
        i = abs(lam - w[j].item()).argmin()
        y, x = left[:, i].conj(), right[:, i]
        wanted += (y[LARGE.row] * x[LARGE.col] / (y @ x)).real
    close(found, wanted, atol=1e-10)


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
    refused = pytest.raises(ldiv.NotDifferentiableError, match="repeated or defective")
    for k in (1, 2):
        for defective in ([[1.0, 1], [0, 1]], [[2.0, 1, 0], [0, 2, 1], [0, 0, 2]]):
            with refused, pytest.warns(UserWarning, match="eigenvalue 0, .* has the condition"):
                slope(np.array(defective), lambda w, X: w[0].real, k=k)
        with refused:
            slope(np.array([[1.0, 1], [1e-17, 1]]), lambda w, X: w.sum().real, k=k)
    with refused:
        slope(np.diag([2.0, 2]), lambda w, X: w[0].real, k=1)
    near = np.array([[1.0, 1], [1e-6, 1]])  # a gap of 2e-3
    close(slope(near, lambda w, X: w[0].real, k=1)[1, 0], 500, rtol=1e-6)
    for size in (1e-100, 1.0, 1e100):
        close(slope(size * near, lambda w, X: w[0].real, k=1)[1, 0], 500, rtol=1e-6)


def semisimple(dtype=np.float64):
    """A matrix with the eigenvalues 2, 2, 3.5, 5, ..., all of modest condition."""
    draws = np.random.default_rng(7)
    vectors = draws.standard_normal((8, 8)) + 4 * np.eye(8)
    if dtype == np.complex128:
        vectors = vectors + 1j * draws.standard_normal((8, 8))
    return vectors @ np.diag([2, 2, 3.5, 5, 6, 7, 8, 9]) @ np.linalg.inv(vectors)


def simple(w, X):
    return w[abs(w - 3.5).argmin()].real


def both(w, X):
    return (w**3).sum().real


def projector(w, X):
    p = X @ torch.linalg.pinv(X)
    return (p * torch.arange(64).reshape(8, 8)).sum().real


@pytest.mark.parametrize("method", ["lapack", "arpack"])
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_repeated_eigenvalue_among_those_found(method, dtype):
    """Functions that are equal for all copies of the eigenvalue have the derivatives of eig."""
    a = torch.tensor(semisimple(dtype), requires_grad=True)
    mine = ldiv.eigs(a, 3, sigma=2.1, method=method)
    w, V = ldiv.eig(a)
    best = torch.argsort((w - 2.1).abs())[:3]
    for f in (simple, both, projector):
        grads = [
            torch.autograd.grad(f(*pairs), a, retain_graph=True)[0]
            for pairs in (mine, (w[best], V[:, best]))
        ]
        torch.testing.assert_close(*grads, rtol=1e-10, atol=1e-10)
    with pytest.raises(ldiv.NotDifferentiableError, match="single eigenvalues of a repeated"):
        torch.autograd.grad(mine[0][abs(mine[0] - 2).argmin()].real, a)


def test_repeated_eigenvalue_in_every_mode():
    a = semisimple()

    def trace(a):
        return ldiv.eigs(a, 3, sigma=2.1)[0].sum().real

    t = torch.tensor(a, requires_grad=True)
    (g,) = torch.autograd.grad(trace(t), t)
    with pytest.raises(ldiv.NotDifferentiableError, match="direction moves the basis"):
        torch.func.jvp(trace, (t.detach(),), (torch.ones(8, 8, dtype=t.dtype),))
    each = torch.func.vmap(torch.func.grad(trace))(torch.stack([t.detach(), 2 * t.detach()]))
    torch.testing.assert_close(each[0], g, rtol=1e-9, atol=1e-10)
    close(ldiv.vjp(trace, a)[1](1.0)[0], g, rtol=1e-9, atol=1e-10)
    found = jax.jit(jax.grad(trace))(jnp.asarray(a))
    close(found, g, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("method", ["lapack", "arpack"])
def test_defective_eigenvalue_among_those_found(method):
    """A loss that does not ask for it has the derivative u v^H / u^H v of the simple one beside it."""
    draws = np.random.default_rng(3)
    V, J = draws.standard_normal((8, 8)) + 4 * np.eye(8), np.diag([2, 2, 3.5, 5, 6, 7, 8, 9])
    J[0, 1] = 1
    U = np.linalg.inv(V).T
    a = V @ J @ U.T
    t = torch.tensor(a, requires_grad=True)
    w, X = ldiv.eigs(t, 3, sigma=2.1, method=method)
    (g,) = torch.autograd.grad(simple(w, X), t, retain_graph=True)
    found = jax.jit(jax.grad(lambda a: ldiv.eigs(a, 3, sigma=3.4)[0][0].real))(jnp.asarray(a))
    close(g, np.outer(U[:, 2], V[:, 2]), rtol=1e-7, atol=1e-8)
    close(found, g, rtol=1e-7, atol=1e-8)
    with pytest.raises(ldiv.NotDifferentiableError, match="repeated or defective"):
        torch.autograd.grad(w.sum().real, t)


def test_second_derivatives_of_losses_that_cancel():
    """The second derivatives of tr(A) by all eigenvalues, and of A by all pairs, are 0."""
    for dtype in (torch.float64, torch.complex128):
        a = torch.tensor(SMALL.toarray() + 0.3 * np.eye(7)[::-1], dtype=dtype, requires_grad=True)
        for f in (
            lambda w, X: w.sum().real,
            lambda w, X: (torch.ones(7) * (X * w @ torch.linalg.inv(X))).sum().real,
        ):
            (g,) = torch.autograd.grad(f(*ldiv.eigs(a, 7)), a, create_graph=True)
            (h,) = torch.autograd.grad((g * torch.linspace(0, 1, 7)).sum().real, a)
            assert abs(h).max() < 1e-9


def test_conditions():
    a = semisimple() + np.diag([0, 0.3, 0, 0, 0, 0, 0, 0])
    w, left, right = scipy.linalg.eig(a, left=True)
    exact = 1 / abs((left.conj() * right).sum(axis=0))
    for method in ("lapack", "arpack"):
        found, info = ldiv.eigs(
            np.stack([a, 2 * a]), 3, method=method, info=True, return_eigenvectors=False
        )
        assert info.conditions.shape == info.residuals.shape == info.gaps.shape == (2, 3)
        for values, size, conditions in zip(found, (1, 2), info.conditions, strict=True):
            at = [abs(w * size - x).argmin() for x in values]
            close(conditions, exact[at], rtol=1e-8)
        assert (info.residuals < 1e-10).all() and info.gradient_error < 1e-10
    with pytest.raises(TypeError, match="info=True"):
        jax.jit(lambda a: ldiv.eigs(a, 2, info=True)[0])(a)
    far = np.diag(np.ones(59), 1) * 2.0 + np.diag(np.linspace(0, 1, 60))
    with pytest.warns(UserWarning, match="has the condition"):
        info = ldiv.eigs(far, 2, info=True)[-1]
    assert (info.conditions > 1e10).all()


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
