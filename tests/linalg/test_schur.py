"""Schur forms and their kin: SciPy's values, derivatives where they exist, else errors."""

import mpmath
import numpy as np
import pytest
import scipy.linalg

import ldiv

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")
jax.config.update("jax_enable_x64", True)
jnp = jax.numpy

rng = np.random.default_rng(8)
close = np.testing.assert_allclose
A = rng.standard_normal((5, 5))
Z = A + 1j * rng.standard_normal((5, 5))
REAL = A + A.T + np.triu(A, 1)  # whose eigenvalues are real


def invariant(T, Z):
    """A loss that does not depend on the phases of columns."""
    n = T.shape[-1]
    weight = np.cos(np.arange(n * n)).reshape(n, n)
    xp = torch if isinstance(T, torch.Tensor) else jnp
    w = xp.asarray(weight)
    return (w * abs(T) ** 2).sum() + (w.T * abs(Z) ** 2).sum() + (w * abs(T @ T) * abs(Z @ T)).sum()


def test_values():
    for a in (A, Z, REAL, A.astype(np.float32), np.zeros((0, 0)), np.ones((1, 1))):
        for output in ("real", "complex"):
            T, Q = ldiv.schur(a, output)
            if a.size:
                for found, expected in zip((T, Q), scipy.linalg.schur(a, output), strict=True):
                    close(found, expected, atol=1e-12)
                    assert found.dtype == expected.dtype
            close(Q @ T @ Q.conj().T, a, atol=1e-5)
    T, Q, count = ldiv.schur(np.stack([A, A.T]), "complex", sort="lhp")
    for i, a in enumerate((A, A.T)):
        assert count[i] == (scipy.linalg.eigvals(a).real < 0).sum()
        assert (T[i].diagonal()[: count[i]].real < 0).all()
    assert ldiv.schur(REAL, sort=lambda x: x > 0)[2] == (scipy.linalg.eigvals(REAL).real > 0).sum()
    T, Q = ldiv.schur(A)
    for found, expected in zip(ldiv.rsf2csf(T, Q), scipy.linalg.rsf2csf(T, Q), strict=True):
        close(found, expected, atol=1e-13)


def test_a_function_that_sorts(capfd):
    for sort in (lambda x, y: y == 0, lambda *x: x[1] == 0):
        assert ldiv.schur(A, sort=sort)[2] == (scipy.linalg.eigvals(A).imag == 0).sum()
    assert ldiv.schur(Z, sort=lambda x: x.imag > 0)[2] == (scipy.linalg.eigvals(Z).imag > 0).sum()
    for a in (A, Z):
        with pytest.raises(TypeError, match=r"sort: expected a function that returns a bool"):
            ldiv.schur(a, sort=lambda *x: None)
        with pytest.raises(ZeroDivisionError):
            ldiv.schur(a, sort=lambda x: 1 / 0)
        with pytest.raises(TypeError, match="positional argument"):
            ldiv.schur(a, sort=lambda: True)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "a",
    [
        pytest.param(A, id="real"),
        pytest.param(Z, id="complex"),
        pytest.param(REAL, id="one", marks=pytest.mark.exhaustive),
        pytest.param(np.stack([Z, 2 * Z.T]), id="batch", marks=pytest.mark.exhaustive),
    ],
)
def test_derivatives(a):
    t = torch.tensor(a, requires_grad=True)

    def f(a):
        T, Q = ldiv.schur(a, "complex")
        return abs(T) ** 2, abs(Q) ** 2, abs(T @ T.mH), abs(Q @ T) ** 2

    assert torch.autograd.gradcheck(f, t, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(f, t)


def test_derivatives_of_a_real_form():
    t = torch.tensor(REAL, requires_grad=True)
    assert torch.autograd.gradcheck(ldiv.schur, t, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(ldiv.schur, t)


def test_the_diagonal_in_fifty_digits():
    mp = mpmath.mp.clone()
    mp.dps = 50
    move = rng.standard_normal((5, 5))
    h = mp.mpf(10) ** -15
    args = (torch.tensor(A),), (torch.tensor(move),)
    T, dT = torch.func.jvp(lambda a: torch.diagonal(ldiv.schur(a, "complex")[0]), *args)
    values = []
    for sign in (1, -1):
        found = mp.eig(
            mp.matrix(A.tolist()) + sign * h * mp.matrix(move.tolist()), left=False, right=False
        )
        values.append([min(found, key=lambda x, t=t: abs(x - t.item())) for t in T])
    expected = [complex((up - down) / (2 * h)) for up, down in zip(*values, strict=True)]
    close(dT, expected, rtol=1e-10)


@pytest.mark.exhaustive  # compiles for ten seconds
def test_jax():
    def loss(a):
        return invariant(*ldiv.schur(a, "complex"))

    batch = np.stack([A, A.T])
    found = jax.jit(jax.vmap(jax.grad(loss)))(jnp.asarray(batch))
    for a, g in zip(batch, found, strict=True):
        t = torch.tensor(a, requires_grad=True)
        loss(t).backward()
        close(g, t.grad, rtol=1e-8, atol=1e-9)
    hvp = jax.jvp(jax.grad(loss), (jnp.asarray(A),), (jnp.asarray(A.T),))[1]
    close(
        hvp,
        torch.func.jvp(torch.func.grad(loss), (torch.tensor(A),), (torch.tensor(A.T),))[1],
        rtol=1e-7,
        atol=1e-8,
    )


def slope(a, loss, **options):
    a = torch.tensor(a, requires_grad=True)
    loss(*ldiv.schur(a, **options)).backward()
    return a.grad


def test_what_has_no_derivative():
    with pytest.raises(ldiv.NotDifferentiableError, match="block of size 2"):
        slope(A, lambda T, Z: T.sum())
    with pytest.raises(ldiv.NotDifferentiableError, match="phase of a Schur vector"):
        slope(Z, lambda T, Z: (Z.real * torch.arange(25.0).reshape(5, 5)).sum())
    for defective in ([[1.0, 1], [0, 1]], [[1.0, 1], [1e-17, 1]], [[2.0, 0], [0, 2]]):
        with pytest.raises(ldiv.NotDifferentiableError, match="repeated or defective"):
            slope(np.array(defective), lambda T, Z: T[0, 0].real, output="complex")
    near = np.array([[1.0, 1], [1e-6, 1]])
    close(slope(near, lambda T, Z: torch.diagonal(T).real.max())[1, 0], 500, rtol=1e-6)


def test_pencils():
    B = A.T + 5 * np.eye(5)
    for a, b in ((A, B), (Z, B), (np.stack([A, A.T]), B)):
        for output in ("real", "complex"):
            S, T, Q, R = ldiv.qz(a, b, output)
            for x, y in ((S, a), (T, b)):
                close(Q @ x @ np.swapaxes(R.conj(), -1, -2), y + 0 * a, atol=1e-12)
            if a.ndim == 2:
                expected = scipy.linalg.qz(a, b + 0 * a, output)
                for found, e in zip((S, T, Q, R), expected, strict=True):
                    close(found, e, atol=1e-12)
    for sort in ("lhp", "ouc", lambda alpha, beta: (alpha / beta).real > 0):
        for found, expected in zip(
            ldiv.ordqz(A, B, sort), scipy.linalg.ordqz(A, B, sort), strict=True
        ):
            close(found, expected, atol=1e-12)
    t = torch.tensor(A, requires_grad=True)
    for f in (lambda: ldiv.qz(t, B)[0], lambda: ldiv.ordqz(t, B)[0], lambda: ldiv.hessenberg(t)):
        with pytest.raises(ldiv.NotDifferentiableError, match=r"ldiv\.eig"):
            f().sum().backward()
    with pytest.raises(ldiv.NotDifferentiableError, match="output='complex'"):
        abs(ldiv.rsf2csf(*ldiv.schur(t))[0]).sum().backward()
    with pytest.raises(ldiv.NotDifferentiableError, match=r"ldiv\.eig"):
        jax.grad(lambda a: ldiv.hessenberg(a).sum())(jnp.asarray(A))
    for chosen in (None, True, [1.5, 2.5, 3.5, 4.5][: len(t)]):
        with pytest.raises(ValueError, match=r"sort: expected from sort\(alpha, beta\)"):
            ldiv.ordqz(A, B, lambda alpha, beta, chosen=chosen: chosen)
    with pytest.raises(ValueError, match=r"sort: expected None.*ordqz"):
        ldiv.qz(A, B, sort="lhp")


def test_hessenberg():
    for a in (A, Z):
        for found, expected in zip(
            ldiv.hessenberg(a, calc_q=True), scipy.linalg.hessenberg(a, calc_q=True), strict=True
        ):
            close(found, expected, atol=1e-13)
    assert ldiv.hessenberg(np.stack([A, A])).shape == (2, 5, 5)


def test_complex_pairs_as_real_blocks():
    both = np.stack([A, A.T @ A + A])
    w, v = np.linalg.eig(both)
    w, v = w + 0j, v + 0j
    for found, expected in zip(ldiv.cdf2rdf(w, v), scipy.linalg.cdf2rdf(w, v), strict=True):
        close(found, expected, atol=1e-14)
    args = tuple(torch.tensor(x, requires_grad=True) for x in (w[0], v[0]))

    assert torch.autograd.gradcheck(lambda v: ldiv.cdf2rdf(args[0], v), args[1:])
    (g,) = torch.autograd.grad(ldiv.cdf2rdf(*args)[0].sum(), args[0])
    close(g.real, np.ones(5))
    with pytest.raises(ValueError, match="w: expected complex eigenvalues in conjugate pairs"):
        ldiv.cdf2rdf(np.array([1j, 2.0]), np.eye(2))
    for name, w0, v0 in (("w", np.inf, 1.0), ("v", 1.0, np.nan)):
        with pytest.raises(ValueError, match=f"{name}: expected finite numbers"):
            ldiv.cdf2rdf(np.full(2, w0), np.full((2, 2), v0))


def test_balance():
    a = A * 10.0 ** rng.integers(-6, 6, (5, 5))
    a[2:, :2] = 0
    for permute, scale in ((True, True), (True, False), (False, True)):
        for found, expected in zip(
            ldiv.matrix_balance(a, permute, scale),
            scipy.linalg.matrix_balance(a, permute, scale),
            strict=True,
        ):
            close(found, expected, rtol=1e-14)
        found, expected = (
            f(a, permute, scale, separate=True)[1]
            for f in (ldiv.matrix_balance, scipy.linalg.matrix_balance)
        )
        for x, y in zip(found, expected, strict=True):
            close(x, y)
    t = torch.tensor(a, requires_grad=True)
    B, T = ldiv.matrix_balance(torch.stack([t, t.mT]))
    close(
        (torch.linalg.inv(T) @ torch.stack([t, t.mT]) @ T).detach(),
        B.detach(),
        rtol=1e-10,
        atol=1e-12,
    )
    (g,) = torch.autograd.grad((ldiv.matrix_balance(t)[0] ** 2).sum(), t)
    B, T = (x.detach() for x in ldiv.matrix_balance(t))
    close(g, 2 * torch.linalg.inv(T).T @ B @ T.T, rtol=1e-10, atol=1e-12)


def test_cossin():
    X = scipy.linalg.qr(Z)[0]
    for p, q in ((2, 3), (1, 1), (4, 2)):
        for swap in (False, True):
            for found, expected in zip(
                ldiv.cossin(X, p, q, swap_sign=swap),
                scipy.linalg.cossin(X, p, q, swap_sign=swap),
                strict=True,
            ):
                close(found, expected, atol=1e-13)
        (u1, u2), theta, (v1, v2) = ldiv.cossin(torch.tensor(X), p, q, separate=True)
        expected = scipy.linalg.cossin(X, p, q, separate=True)
        for found, e in zip(
            (u1, u2, theta, v1, v2), (*expected[0], expected[1], *expected[2]), strict=True
        ):
            close(found, e, atol=1e-13)
    blocks = X[:2, :3], X[:2, 3:], X[2:, :3], X[2:, 3:]
    close(ldiv.cossin(blocks)[1], scipy.linalg.cossin(X, 2, 3)[1], atol=1e-13)
    assert ldiv.cossin(X, 2, 3, compute_u=False)[0] is None
    t = torch.tensor(X, requires_grad=True)
    with pytest.raises(ldiv.NotDifferentiableError, match=r"ldiv\.svd"):
        ldiv.cossin(t, 2, 2)[1].sum().real.backward()
    with pytest.raises(ValueError, match="p and q: expected both"):
        ldiv.cossin(X)
    with pytest.raises(ValueError, match="X: expected blocks that fit"):
        ldiv.cossin((X, X, X, X[:2]))
