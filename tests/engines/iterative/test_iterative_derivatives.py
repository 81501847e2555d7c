"""An iteration is differentiated implicitly: by one more, with A^H and M^H, in every mode and
order.
"""

import numpy as np
import pytest

import ldiv

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")
jnp = jax.numpy

jax.config.update("jax_enable_x64", True)

RNG = np.random.default_rng(0)


def rhs(a, *k):
    b = RNG.standard_normal((a.shape[0], *k))
    return b + 1j * RNG.standard_normal(b.shape) if a.dtype.kind == "c" else b


def matrices(n, dtype):
    """A matrix for each method, and its promise."""
    a = RNG.standard_normal((n, n)).astype(dtype)
    if np.dtype(dtype).kind == "c":
        a = a + 1j * RNG.standard_normal((n, n))
    general = a + 2 * n**0.5 * np.eye(n), "gen"
    indefinite = a + a.conj().T + np.diag((-1.0) ** np.arange(n) * n), "her"
    return {
        "cg": (a @ a.conj().T + n * np.eye(n), "pos"),
        "minres": indefinite,
        "gmres": general,
        "bicgstab": general,
    }


@pytest.mark.covering(1)
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("method", ["cg", "minres", "gmres", "bicgstab"])
def test_torch_derivatives(method, dtype):
    a, promise = matrices(3, dtype)[method]
    A, b = torch.tensor(a, requires_grad=True), torch.tensor(rhs(a, 1), requires_grad=True)

    def f(A, b):
        return ldiv.solve(A, b, assume_a=promise, method=method, rtol=1e-13, M="jacobi")

    assert torch.autograd.gradcheck(f, (A, b), check_forward_ad=True, fast_mode=True)
    assert torch.autograd.gradgradcheck(f, (A, b), check_fwd_over_rev=True, fast_mode=True)


def part(a, promise):
    """The matrix as a promise reads it."""
    return a if promise == "gen" else (a + a.mT.conj()) / 2


@pytest.mark.parametrize("method", ["cg", "gmres"])
def test_second_order_and_vmap_in_torch(method):
    a, promise = matrices(4, "float64")[method]
    at, b = torch.tensor(a), torch.tensor(rhs(a, 2))
    from torch.func import grad, jacfwd, jacrev, vmap

    def loss(solve):
        return lambda A: (solve(A) ** 3).sum()

    ours = loss(lambda A: ldiv.solve(A, b, assume_a=promise, method=method, rtol=1e-13))
    dense = loss(lambda A: torch.linalg.solve(part(A, promise), b))
    expected = jacrev(jacrev(dense))(at)
    for outer in (jacfwd, jacrev):
        for inner in (jacfwd, jacrev):
            assert torch.allclose(outer(inner(ours))(at), expected, atol=1e-11)
    several = torch.stack([at, 2 * at])
    assert torch.allclose(
        vmap(grad(ours))(several), torch.stack([grad(dense)(x) for x in several]), atol=1e-11
    )


@pytest.mark.exhaustive  # JAX compiles for seconds what the laws of front ends show
@pytest.mark.parametrize(("method", "dtype"), [("cg", "complex128")])
def test_jax_derivatives(method, dtype):
    a, promise = matrices(4, dtype)[method]
    args = jnp.asarray(a), jnp.asarray(rhs(a, 2))
    along = jax.tree.map(lambda x: x * 0.1 + 0.2, args)

    def loss(solve):
        return lambda A, b: jnp.real((solve(A, b) ** 3).sum())

    def all_of(loss):
        g = jax.grad(loss, (0, 1))
        batch = jax.tree.map(lambda x: jnp.stack([x, 1.5 * x]), args)
        return (
            g(*args),
            jax.jvp(loss, args, along),
            jax.jvp(g, args, along)[1],
            jax.vmap(loss)(*batch),
        )

    ours = loss(lambda A, b: ldiv.solve(A, b, assume_a=promise, method=method, rtol=1e-13))
    dense = loss(lambda A, b: jnp.linalg.solve(part(A, promise), b))
    for got, expected in zip(
        *map(jax.tree.leaves, jax.jit(lambda: (all_of(ours), all_of(dense)))()), strict=True
    ):
        assert np.allclose(got, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.covering(0)
@pytest.mark.parametrize("method", ["minres", "gmres", "bicgstab"])
def test_under_jit_it_takes_about_the_steps_of_numpy(method):
    a, promise = matrices(12, "float64")[method]
    b, seen = rhs(a), []

    def f(A, b):
        return ldiv.solve(
            A,
            b,
            assume_a=promise,
            method=method,
            restart=5,
            rtol=1e-9,
            callback=lambda x: seen.append(1),
        )

    plain = f(a, b)
    steps = len(seen)
    assert np.allclose(jax.jit(f)(a, b), plain, atol=1e-8)
    assert abs(len(seen) - 2 * steps) <= 0.5 * steps + 2


def counting(a, log, promise="gen"):
    """An operator of torch that notes down its products with A and with A^H."""
    A = torch.tensor(a)

    def matvec(s, x):
        log.append("A")
        return s * (A @ x)

    def rmatvec(s, x):
        log.append("H")
        return s * (A.mH @ x)

    return lambda s: ldiv.LinearOperator(
        matvec, s, shape=a.shape, rmatvec=rmatvec, assume_a=promise
    )


def test_the_adjoint_is_one_more_iteration_with_A_and_M_transposed():
    a = matrices(30, "float64")["gmres"][0] @ np.diag(np.geomspace(1, 100, 30))
    log, logM = [], []
    near = np.linalg.inv(a + 0.1 * RNG.standard_normal(a.shape))
    one, b = (
        torch.tensor(1.0, dtype=torch.float64, requires_grad=True),
        torch.tensor(rhs(a), requires_grad=True),
    )
    for M in (None, counting(near, logM)(one.detach())):
        log.clear()
        x = ldiv.solve(counting(a, log)(one), b, method="bicgstab", M=M)
        forward = log.count("A")
        assert log.count("H") == 0
        log.clear()
        (g,) = torch.autograd.grad(x.sum(), b)
        # of the cotangent of the operator itself, and of the look at rmatvec
        assert log.count("A") <= 2
        assert 0 < log.count("H") <= 2 * forward
        assert np.allclose(g, np.linalg.solve(a.T, np.ones(30)), atol=1e-9)
    assert set(logM) == {"A", "H"}


def test_the_adjoint_raises_too():
    """An easy matrix whose rmatvec is not what it says: forward converges, backward cannot."""
    bad = ldiv.LinearOperator(
        lambda d, x: d * x,
        torch.ones(8, 1).double(),
        shape=(8, 8),
        rmatvec=lambda d, x: d * torch.roll(x, 1, 0),
    )
    b = torch.arange(8.0).double().requires_grad_()
    x = ldiv.solve(bad, b, method="gmres", maxiter=2, restart=3)
    with pytest.raises(ldiv.ConvergenceError, match="gmres did not converge: after 2 steps"):
        x[0].backward()
    d = jnp.ones((8, 1))

    def f(b):
        A = ldiv.LinearOperator(
            lambda d, x: d * x, d, shape=(8, 8), rmatvec=lambda d, x: d * jnp.roll(x, 1, 0)
        )
        return ldiv.solve(A, b, method="gmres", maxiter=2, restart=3)[0]

    jax.jit(f)(jnp.arange(8.0))
    # a program makes both checks, in the order of the compiler
    both = "gmres did not converge: after 2 steps|expected the conjugate transpose of matvec"
    with pytest.raises(Exception, match=both):
        jax.jit(jax.grad(f))(jnp.arange(8.0))
