"""A Kronecker product plus a multiple of the identity against the dense matrix."""

from __future__ import annotations

import time

import mpmath
import numpy as np
import pytest

import ldiv

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")
jax.config.update("jax_enable_x64", True)

DTYPES = ("float32", "float64", "complex64", "complex128")
SPECTRA = {
    "random": lambda n, rng: rng.uniform(0.2, 2, n),
    "repeated": lambda n, rng: np.array([1.0, 1.0, *[0.5] * (n - 2)]),
    "nearly repeated": lambda n, rng: 1 + 1e-9 * np.arange(n),
    "singular": lambda n, rng: np.array([0.0, 0.0, *rng.uniform(0.2, 2, n - 2)]),
    "indefinite": lambda n, rng: np.linspace(-1, 2, n),
}


def factor(n, spectrum, dtype, rng):
    a = rng.standard_normal((n, n))
    if np.dtype(dtype).kind == "c":
        a = a + 1j * rng.standard_normal((n, n))
    q = np.linalg.qr(a)[0]
    k = (q * SPECTRA[spectrum](n, rng)) @ q.conj().T
    return ((k + k.conj().T) / 2).astype(dtype)


def of(factors, s):
    product = factors[0]
    for k in factors[1:-1]:
        product = ldiv.kron(product, k)
    return ldiv.kron(product, factors[-1], shift=s)


def whole(factors, s):
    parts = [(k + k.mH) / 2 for k in factors]
    product = parts[0]
    for k in parts[1:]:
        product = torch.kron(product, k)
    return product + s * torch.eye(len(product), dtype=product.dtype)


def density(S, x, inverted):
    n, size = len(S), torch.linalg.slogdet(S)[1]
    q = (x.conj() @ (S @ x if inverted else torch.linalg.solve(S, x))).real
    size = size if inverted else -size
    if S.is_complex():
        return size - q - n * np.log(np.pi)
    return (size - q - n * np.log(2 * np.pi)) / 2


def losses(x):
    def norm(y):
        return y.abs().square().sum()

    return {
        "slogdet": (lambda A: ldiv.slogdet(A)[1], lambda S: torch.linalg.slogdet(S)[1]),
        "pos": (lambda A: ldiv.logdet(A, assume_a="pos"), lambda S: torch.linalg.slogdet(S)[1]),
        "solve": (lambda A: norm(ldiv.solve(A, x)), lambda S: norm(torch.linalg.solve(S, x))),
        "covariance": (
            lambda A: ldiv.gaussian_logpdf(x, covariance=A),
            lambda S: density(S, x, False),
        ),
        "precision": (
            lambda A: ldiv.gaussian_logpdf(x, precision=A),
            lambda S: density(S, x, True),
        ),
    }


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("spectrum", SPECTRA)
@pytest.mark.parametrize("sizes", [(4, 3), (2, 3, 4)])
def test_values_and_derivatives_of_first_and_second_order(dtype, spectrum, sizes):
    rng = np.random.default_rng(len(sizes))
    factors = [factor(n, spectrum if i else "repeated", dtype, rng) for i, n in enumerate(sizes)]
    if sizes[0] == 2:
        factors[0] = factor(4, spectrum, dtype, rng)[:2, :2]
    real, wide = np.finfo(dtype).dtype, np.result_type(dtype, float)
    given = [
        *map(torch.tensor, factors),
        torch.tensor(0.3, dtype=torch.tensor(factors[0]).real.dtype),
    ]
    n = int(np.prod(sizes))
    x = torch.tensor(rng.standard_normal(n).astype(dtype))
    along = [torch.tensor(rng.standard_normal(k.shape)) for k in given]
    for name in losses(x):
        if spectrum == "indefinite" and name in ("pos", "covariance", "precision"):
            continue
        found = []
        for ours in (True, False):
            dt = torch.tensor(np.zeros(0, dtype if ours else wide)).dtype
            args = [k.to(dt if k.ndim else dt.to_real()).requires_grad_() for k in given]
            f = losses(x.to(dt))[name][not ours]
            y = f((of if ours else whole)(args[:-1], args[-1]))
            first = torch.autograd.grad(y, args, create_graph=True)
            inner = sum((g * e.to(g.dtype)).real.sum() for g, e in zip(first, along, strict=True))
            found.append((y, *first, *torch.autograd.grad(inner, args)))
        tol = 1e-11 if real == np.float64 else 5e-5
        for u, v in zip(*found, strict=True):
            u, v = (z.detach().resolve_conj().numpy() for z in (u, v))
            assert np.abs(u - v).max() <= tol * np.abs(v).max(), name


def test_the_second_derivative_against_fifty_digits():
    """Two eigenvalues that are 1e-7 apart: a quotient of differences has lost eight digits."""
    l, m, s = np.array([1.0, 1 + 1e-7, 2.0]), np.array([0.0, 3.0]), 0.25
    e = np.array([[0.3, 1.0, -0.5], [1.0, 0.2, 0.7], [-0.5, 0.7, 0.1]])
    with mpmath.workdps(50):

        def size(t):
            k = mpmath.matrix(np.diag(l).tolist()) + t * mpmath.matrix(e.tolist())
            return sum(mpmath.log(mpmath.det(k * mu + s * mpmath.eye(3))) for mu in m)

        expected = float(mpmath.diff(size, 0, 2))
    args = [torch.tensor(x, requires_grad=True) for x in (np.diag(l), np.diag(m))]
    e = torch.tensor(e)
    (g,) = torch.autograd.grad(ldiv.logdet(of(args, s)), args[:1], create_graph=True)
    (h,) = torch.autograd.grad((g * e).sum(), args[:1])
    assert abs(float((h * e).sum()) - expected) <= 1e-13 * abs(expected)


def in_jax():
    """A density by the rule and by the dense matrix, and arguments."""
    rng, jnp = np.random.default_rng(0), jax.numpy
    args = *(jnp.array(factor(n, "repeated", "float64", rng)) for n in (3, 2)), jnp.array(0.3)
    x = jnp.array(rng.standard_normal(6))

    def ours(a, b, s):
        return ldiv.gaussian_logpdf(x, covariance=ldiv.kron(a, b, shift=s))

    def dense(a, b, s):
        S = jnp.kron((a + a.T) / 2, (b + b.T) / 2) + s * jnp.eye(6)
        return (
            -6 * jnp.log(2 * jnp.pi) - x @ jnp.linalg.solve(S, x) - jnp.linalg.slogdet(S)[1]
        ) / 2

    return ours, dense, args


@pytest.mark.covering(1)
@pytest.mark.parametrize("outer", ["jacfwd", "jacrev"])
@pytest.mark.parametrize("inner", ["jacfwd", "jacrev"])
def test_jax_in_every_composition(outer, inner):
    *both, args = in_jax()
    second = lambda f: getattr(jax, outer)(getattr(jax, inner)(f, (0, 1, 2)), (0, 1, 2))
    found = (jax.tree.leaves(jax.jit(second(f))(*args)) for f in both)
    for u, v in zip(*found, strict=True):
        assert np.allclose(u, v, rtol=1e-10, atol=1e-11)


def test_batches_in_jax():
    ours, _, args = in_jax()
    shifts = jax.numpy.array([0.3, 0.7, 2.0])
    for f in (ours, jax.grad(ours, (0, 1, 2))):
        found, alone = jax.jit(jax.vmap(f, (None, None, 0)))(*args[:2], shifts), jax.jit(f)
        one = [alone(*args[:2], s) for s in shifts]
        expected = jax.tree.map(lambda *xs: jax.numpy.stack(xs), *one)
        for u, v in zip(*map(jax.tree.leaves, (found, expected)), strict=True):
            assert np.allclose(u, v, rtol=1e-12, atol=1e-13)


def test_numpy_by_one_rule():
    rng = np.random.default_rng(0)
    a, b = (factor(n, "repeated", "float64", rng) for n in (3, 4))

    def f(a, b, s):
        return ldiv.logdet(ldiv.kron(a, b, shift=s), assume_a="pos")

    _, pull = ldiv.vjp(f, a, b, np.array(0.3))
    S = np.linalg.inv(np.kron(a, b) + 0.3 * np.eye(12))
    traces = np.einsum("iajb,ab->ij", S.reshape(3, 4, 3, 4), b)
    found = pull(np.array(1.0))
    assert np.allclose(found[0], traces)
    assert np.allclose(found[2], np.trace(S))


def test_a_batch_of_shifts_and_of_factors():
    rng = np.random.default_rng(0)
    a = np.stack([factor(3, "random", "complex128", rng) for _ in range(2)])
    b, s = factor(2, "singular", "complex128", rng), np.array([[0.5], [1.0], [2.0]])
    A = ldiv.kron(a, b, shift=s)
    assert A.shape == (3, 2, 6, 6)
    x = rng.standard_normal((6, 4))
    for i, j in np.ndindex(3, 2):
        S = np.kron(a[j], b) + s[i, 0] * np.eye(6)
        assert np.allclose(ldiv.solve(A, x)[i, j], np.linalg.solve(S, x))
        assert np.allclose(ldiv.slogdet(A)[1][i, j], np.linalg.slogdet(S)[1])
        assert np.allclose(ldiv.solve(A.T, x)[i, j], np.linalg.solve(S.T, x))
        assert np.allclose((A @ x)[i, j], S @ x)


def test_a_low_rank_more_of_it():
    rng = np.random.default_rng(0)
    a, b = (torch.tensor(factor(n, "repeated", "float64", rng)) for n in (3, 4))
    u, x = torch.tensor(rng.standard_normal((12, 2))), torch.tensor(rng.standard_normal(12))
    args = [z.requires_grad_() for z in (a, b, torch.tensor(0.3, dtype=torch.float64), u)]
    A = ldiv.kron(a, b, shift=args[2]) + ldiv.LowRank(u, u)
    S = whole([a, b], args[2]) + u @ u.T
    found = ldiv.gaussian_logpdf(x, covariance=A)
    expected = density(S, x, False)
    assert torch.allclose(found, expected)
    e = [torch.tensor(rng.standard_normal(z.shape)) for z in args]
    every = []
    for y in (found, expected):
        g = torch.autograd.grad(y, args, create_graph=True)
        inner = sum((p * q).sum() for p, q in zip(g, e, strict=True))
        every.append((*g, *torch.autograd.grad(inner, args)))
    for p, q in zip(*every, strict=True):
        assert torch.allclose(p, q, rtol=1e-9, atol=1e-10)


def test_what_is_refused():
    rng = np.random.default_rng(0)
    a, b = (factor(n, "singular", "float64", rng) for n in (3, 4))
    x = np.ones(12)
    for shift in (0.0, -np.linalg.eigvalsh(a)[-1] * np.linalg.eigvalsh(b)[-1]):
        singular = ldiv.kron(a, b, shift=shift)
        with pytest.raises(ldiv.SingularMatrixError):
            ldiv.solve(singular, x)
        with pytest.raises(ldiv.SingularMatrixError):
            ldiv.slogdet(singular)
    indefinite = ldiv.kron(a, -b, shift=0.1)
    assert np.allclose(
        ldiv.slogdet(indefinite), np.linalg.slogdet(np.kron(a, -b) + 0.1 * np.eye(12))
    )
    for f in (ldiv.logdet, lambda A, **k: ldiv.solve(A, x, **k)):
        with pytest.raises(ldiv.NotPositiveDefiniteError):
            f(indefinite, assume_a="pos")
    with pytest.raises(ldiv.NotPositiveDefiniteError):
        ldiv.gaussian_logpdf(x, covariance=indefinite)
    with pytest.raises(ldiv.NotSymmetricError):
        ldiv.solve(ldiv.kron(a + np.triu(a), b, shift=0.1), x)
    with pytest.raises(TypeError, match="real numbers"):
        ldiv.kron(a, b, shift=0.1j)
    with pytest.raises(TypeError, match="entries are stored"):
        ldiv.kron(a, b, shift=0.1).tosparse()
    with pytest.raises(ValueError, match="a shift or a format"):
        ldiv.kron(a, b, "csr", shift=0.1)
    with pytest.raises(ValueError, match="square"):
        ldiv.kron(a[:2], b, shift=0.1)
    with pytest.raises(ValueError, match="finite"):
        ldiv.slogdet(ldiv.kron(a * np.nan, b, shift=0.1))
    with ldiv.errstate(singular="nan"):
        many = ldiv.kron(a, b, shift=np.array([0.1, 0.0, 0.2]))
        assert (np.isnan(ldiv.logdet(many, assume_a="pos")) == [False, True, False]).all()
    k = torch.tensor(a, requires_grad=True)
    y = ldiv.logdet(ldiv.kron(k, torch.tensor(b), shift=0.1))
    for _ in range(2):
        (g,) = torch.autograd.grad(y, k, create_graph=True)
        y = g.square().sum()
    with pytest.raises(ldiv.NotDifferentiableError, match="second order"):
        torch.autograd.grad(y, k)


def test_empty_ones():
    for shape in ((0, 0), (1, 1)):
        one = torch.ones(shape, dtype=torch.float64, requires_grad=True)
        A = ldiv.kron(one, torch.ones((1, 1), dtype=torch.float64), shift=1.0)
        y = ldiv.logdet(A) + ldiv.solve(A, torch.ones(shape[0], dtype=torch.float64)).sum()
        (g,) = torch.autograd.grad(y, one)
        assert g.shape == shape


def test_factors_that_are_no_arrays():
    rng = np.random.default_rng(0)
    laplacian = ldiv.diags_array([np.full(3, 2.0), -np.ones(2), -np.ones(2)], offsets=[0, 1, -1])
    A = ldiv.kron(laplacian, ldiv.eye_array(2), shift=1)
    S = np.kron(laplacian.toarray(), np.eye(2)) + np.eye(6)
    x = rng.standard_normal(6)
    assert np.allclose(ldiv.solve(A, x), np.linalg.solve(S, x))


def test_a_quarter_of_a_million_unknowns():
    n = 500
    t = torch.linspace(0, 1, n, dtype=torch.float64)
    k = torch.exp(-((t[:, None] - t) ** 2) / 0.02).requires_grad_()
    s = torch.tensor(0.1, dtype=torch.float64, requires_grad=True)
    x = torch.randn(n * n, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    start = time.process_time()
    y = ldiv.gaussian_logpdf(x, covariance=ldiv.kron(k, k, shift=s))
    g = torch.autograd.grad(y, (k, s), create_graph=True)
    torch.autograd.grad(g[0].square().sum() + g[1], (k, s))
    assert time.process_time() - start < 60
    # the derivative along the matrix itself
    scaled = (g[0] * k).sum() / 2 + s * g[1]
    A = ldiv.kron(k.detach(), k.detach(), shift=s.detach())
    expected = (x @ ldiv.solve(A, x) - n * n) / 2
    assert torch.allclose(scaled, expected, rtol=1e-8)
