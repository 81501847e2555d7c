"""A product with the conjugate transpose that is none raises in the gradient of a solve, in every
framework; a loose iteration is no lie.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import ldiv

jax.config.update("jax_enable_x64", True)

N = 6
rng = np.random.default_rng(0)
A = rng.standard_normal((N, N)) + 4 * np.eye(N)
Z = A + 1j * rng.standard_normal((N, N))
S = A @ A.T
b = rng.standard_normal(N)


def product(p, x):
    return p @ x


def adjoint(p, x):
    return p.mT.conj() @ x


WRONG = {
    "itself": product,
    "a thousandth off": lambda p, x: 1.001 * adjoint(p, x),
    "shifted": lambda p, x: adjoint(p, x) + 1e-4 * x,
}


def loss(a, **options):
    """|x|^2 of (A + A') x = b with operators in several places, or of A x = b."""
    rtol = options.pop("rtol", None)
    A = ldiv.LinearOperator(product, a, shape=(N, N), **options)
    x = ldiv.solve(A, b, rtol=rtol) if rtol else ldiv.solve(A, b)
    return (abs(x) ** 2).sum()


def by_torch(f, a):
    a = torch.tensor(a, requires_grad=True)
    return torch.autograd.grad(f(a), a)[0].numpy()


def by_jax(f, a):
    return np.asarray(jax.jit(jax.grad(f))(jnp.asarray(a))).conj()


@pytest.mark.parametrize("gradient", [by_torch, by_jax])
@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_rmatvec_is_found(gradient, wrong):
    with pytest.raises(Exception, match="rmatvec or assume_a: expected the conjugate transpose"):
        gradient(lambda a: loss(a, rmatvec=WRONG[wrong]), A)


@pytest.mark.parametrize("a", [A, Z], ids=["real", "complex"])
@pytest.mark.parametrize("rtol", [None, 1e-13, 1e-2])
def test_a_right_one_is_used(a, rtol):
    found = by_torch(lambda a: loss(a, rmatvec=adjoint, rtol=rtol), a)
    x = np.linalg.solve(a, b)
    exact = -np.outer(np.linalg.solve(a.conj().T, 2 * x), x.conj())
    assert np.abs(found - exact).max() < 10 * (rtol or 1e-9) * np.abs(exact).max() + 1e-12


def test_a_transpose_of_a_complex_operator_is_no_adjoint():
    with pytest.raises(ValueError, match="rmatvec or assume_a"):
        by_torch(lambda a: loss(a, rmatvec=lambda p, x: p.mT @ x), Z)


def test_a_symmetry_that_is_none():
    """Nearly symmetric: the iteration converges, and only the gradient would be wrong."""
    f = lambda a: loss(a, assume_a="pos")
    assert np.isfinite(by_torch(f, S)).all()
    skew = np.triu(np.ones((N, N)), 1)
    with pytest.raises(ValueError, match="rmatvec or assume_a"):
        by_torch(lambda a: loss(a, assume_a="pos", rtol=1e-5), S + 0.05 * (skew - skew.T))


def test_inside_of_a_sum_and_for_numpy():
    def f(a, own):
        A = ldiv.LinearOperator(product, a, shape=(N, N), rmatvec=own)
        return ldiv.solve(A + ldiv.diags_array(torch.ones(N, dtype=a.dtype)), b).sum()

    assert np.isfinite(by_torch(lambda a: f(a, adjoint), A)).all()
    with pytest.raises(ValueError, match="rmatvec or assume_a"):
        by_torch(lambda a: f(a, product), A)
    for own, right in ((adjoint, True), (product, False)):
        B = ldiv.LinearOperator(product, A, shape=(N, N), rmatvec=own)
        pull = ldiv.vjp(lambda b, B=B: ldiv.solve(B, b), b)[1]
        if right:
            assert np.allclose(pull(b)[0], np.linalg.solve(A.T, b))
        else:
            with pytest.raises(ValueError, match="rmatvec or assume_a"):
                pull(b)


def test_every_order_and_batches():
    f = lambda a: loss(a, rmatvec=adjoint, rtol=1e-13)
    ours = torch.func.hessian(f)(torch.tensor(A))
    plain = torch.func.hessian(lambda a: (torch.linalg.solve(a, torch.tensor(b)) ** 2).sum())
    assert torch.allclose(ours, plain(torch.tensor(A)), rtol=1e-9, atol=1e-12)
    many = torch.tensor(np.stack([A, A.T, 2 * A]))
    each = torch.stack([torch.func.grad(f)(a) for a in many])
    assert torch.allclose(torch.func.vmap(torch.func.grad(f))(many), each, rtol=1e-9, atol=1e-12)
    B = torch.tensor(rng.standard_normal((3, N)))
    op = lambda a: ldiv.LinearOperator(product, a, shape=(N, N), rmatvec=adjoint)
    g = lambda a: torch.func.vmap(lambda b: ldiv.solve(op(a), b, rtol=1e-13))(B).sum()
    h = lambda a: torch.linalg.solve(a, B.T).sum()
    a = torch.tensor(A)
    assert torch.allclose(torch.func.grad(g)(a), torch.func.grad(h)(a), rtol=1e-9, atol=1e-12)
