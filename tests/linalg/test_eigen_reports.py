"""Eigenproblems that other libraries differentiate wrongly or refuse to, as users reported them;
here they are right.
"""

from __future__ import annotations

import numpy as np
import pytest

import ldiv

torch = pytest.importorskip("torch")


def draw(*shape, seed=0):
    return torch.tensor(np.random.default_rng(seed).standard_normal(shape))


# -- "the gradient of lobpcg on S = A A^T" ------------------------------------


@pytest.mark.parametrize("n", [20, 100])
@pytest.mark.parametrize(
    "norm", [lambda s: s.abs().sum(), torch.linalg.norm], ids=["sum of absolutes", "norm"]
)
def test_lobpcg_of_a_gram_matrix(n, norm):
    """loss |V diag(e) V^T|, with the three largest pairs of A A^T, against the dense
    decomposition.
    """
    A = draw(n, n).requires_grad_()

    def loss(pairs):
        e, v = pairs(A @ A.mT)
        return norm(v @ torch.diag(e) @ v.mT)

    def dense(S):
        w, v = torch.linalg.eigh(S)
        return w[-3:], v[:, -3:]

    expected = torch.autograd.grad(loss(dense), A)[0]
    X = draw(n, 3, seed=1)
    for pairs in (
        lambda S: ldiv.lobpcg(S, X),
        lambda S: ldiv.eigsh(S, 3),
        lambda S: ldiv.eigh(S, subset_by_index=[n - 3, n - 1]),
    ):
        got = torch.autograd.grad(loss(pairs), A)[0]
        assert (got - expected).abs().max() <= 1e-8 * expected.abs().max()


# -- "gradcheck of symeig fails" ----------------------------------------------


def symmetric(n):
    a = draw(n, n)
    return ((a + a.mT) / 2).requires_grad_()


def without_signs(w, v):
    return w, v[:, None, :] * v[None, :, :]


@pytest.mark.parametrize("n", [2, 4])
@pytest.mark.parametrize(
    "read", [lambda A: A, lambda A: (A + A.mT) / 2], ids=["as it is", "its symmetric part"]
)
def test_gradcheck_on_the_symmetric_plane(n, read):
    """A is read by its symmetric part, so that perturbing one entry at a time agrees with the
    gradient.
    """
    for f in (lambda A: without_signs(*ldiv.eigh(read(A))), lambda A: ldiv.eigh(read(A))[0]):
        assert torch.autograd.gradcheck(f, symmetric(n), check_forward_ad=True)
        assert torch.autograd.gradgradcheck(
            f, symmetric(n), check_fwd_over_rev=True, fast_mode=n > 2
        )


def test_gradcheck_with_signs():
    """Eigenvectors are used as they come, as reported: small steps do not change their signs."""
    assert torch.autograd.gradcheck(lambda A: ldiv.eigh(A), symmetric(2))


def test_gradcheck_of_complex_and_generalized():
    a, b = draw(3, 3) + 1j * draw(3, 3, seed=2), draw(3, 3, seed=3) + 1j * draw(3, 3, seed=4)
    args = (a + a.mH).requires_grad_(), (b @ b.mH + 3 * torch.eye(3)).requires_grad_()

    def f(A, B):
        w, v = ldiv.eigh(A, B)
        return w, v[:, None, :] * v.conj()[None, :, :]

    assert torch.autograd.gradcheck(f, args, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(f, args, check_fwd_over_rev=True, fast_mode=True)


# -- "the gradient of torch.lobpcg is off" ------------------------------------

N, K = 400, 6


@pytest.fixture(scope="module")
def even():
    """A dense matrix with eigenvalues evenly spaced in 1 .. 50, a constant C, and the gradient
    of |X^T C X|^2 for its six largest pairs.
    """
    q, C = torch.linalg.qr(draw(N, N))[0], draw(N, N, seed=5) / N
    lam = torch.linspace(1, 50, N, dtype=torch.float64)
    A = (q * lam) @ q.mT
    x = q[:, -K:].clone().requires_grad_()
    (x_bar,) = torch.autograd.grad(loss(x, C), x)
    gaps = lam[-K:] - lam[:, None]
    gaps[range(N - K, N), range(K)] = torch.inf
    p = q @ ((q.mT @ x_bar) / gaps)
    bar = p @ q[:, -K:].mT
    return (A + A.mT) / 2, C, (bar + bar.mT) / 2


def loss(x, C):
    return (x.mT @ C @ x).square().sum()


def off(pairs, even):
    """The relative error of the gradient."""
    A, C, expected = even
    A = A.clone().requires_grad_()
    (got,) = torch.autograd.grad(loss(pairs(A)[1], C), A)
    got = (got + got.mT) / 2
    return float(torch.linalg.norm(got - expected) / torch.linalg.norm(expected))


def test_an_even_spectrum(even):
    """The pairs of torch.lobpcg are right here, as reported, and their gradient was off by a tenth
    when this was written (2.13).
    """
    X = draw(N, K, seed=6)
    assert off(lambda A: ldiv.lobpcg(A, X, tol=1e-11, maxiter=2000), even) <= 1e-8
    for method in ("lapack", "arpack", "auto"):
        assert (
            off(lambda A, method=method: ldiv.eigsh(A, K, which="LA", method=method), even) <= 1e-8
        )


def test_pairs_of_nothing():
    for shape in ((0, 0), (0, 3, 3), (2, 0, 0)):
        w, x = ldiv.eigh(np.zeros(shape, complex))
        assert w.shape == shape[:-1] and w.dtype == np.float64 and x.shape == shape


def test_a_start_for_a_batch_is_refused():
    with pytest.raises(ValueError, match="v0: expected one matrix"):
        ldiv.svds(np.ones((2, 4, 3)), 1, v0=np.ones(3))
