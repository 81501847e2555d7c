"""Losses of a whole cluster of equal eigenvalues or singular values, through `eigh`, `svd` and `eig`:
derivatives of every order are those of a contour integral, which knows no eigenvectors.
"""

from __future__ import annotations

import numpy as np
import pytest

import ldiv

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")
jax.config.update("jax_enable_x64", True)

N, COPIES, NODES = 4, 2, 48
DTYPES = pytest.mark.parametrize("dtype", ["float64", "complex128"])


class Torch:
    array = staticmethod(torch.tensor)
    inv = staticmethod(torch.linalg.inv)

    @staticmethod
    def slopes(f, order):
        """f', f'', .. at t = 0, each by a backward pass."""
        t = torch.zeros((), dtype=torch.float64, requires_grad=True)
        y, found = f(t), []
        for _ in range(order):
            (y,) = torch.autograd.grad(y, t, create_graph=True)
            found.append(float(y.detach()))
        return found

    @staticmethod
    def pushed(f, order):
        """The same by forward mode."""
        t = torch.zeros((), dtype=torch.float64)
        found = []
        for _ in range(order):
            f = (lambda g: lambda t: torch.func.jvp(g, (t,), (torch.ones_like(t),))[1])(f)
            found.append(float(f(t)))
        return found


class Jax:
    array = staticmethod(jax.numpy.asarray)
    inv = staticmethod(jax.numpy.linalg.inv)

    @staticmethod
    def slopes(f, order):
        found = []
        for _ in range(order):
            f = jax.grad(f)
            found.append(f)
        return [float(g) for g in jax.jit(lambda t: [g(t) for g in found])(0.0)]

    @staticmethod
    def pushed(f, order):
        found = []
        for _ in range(order):
            f = jax.jacfwd(f)
            found.append(f)
        return [float(g) for g in jax.jit(lambda t: [g(t) for g in found])(0.0)]


class Problem:
    """A and B, which move along dA and dB, and losses of a matrix P."""

    def __init__(self, framework, dtype, rows=N, seed=1):
        self.fw, self.dtype, rng = framework, dtype, np.random.default_rng(seed)

        def draw(*shape):
            x = rng.standard_normal(shape)
            return x + 1j * rng.standard_normal(shape) if dtype[0] == "c" else x

        lam = np.array([2.0] * COPIES + [3.5, 5.0])
        q, u = np.linalg.qr(draw(N, N))[0], np.linalg.qr(draw(rows, N))[0]
        low, v = draw(N, N) / 5 + np.eye(N), draw(N, N) + 2 * np.eye(N)
        definite = np.eye(N) + (low @ low.conj().T)
        l = np.linalg.cholesky(definite)
        hermitian = (q * lam) @ q.conj().T
        self.matrices = {
            "Hermitian": (hermitian, np.eye(N)),
            "pencil": (l @ hermitian @ l.conj().T, definite),
            "triplets": ((u * lam) @ q.conj().T, np.eye(N)),
            "general": ((v * lam) @ np.linalg.inv(v), np.eye(N)),
        }
        d, e = draw(N, N), draw(N, N)
        self.moves = {
            "Hermitian": (d + d.conj().T, 0 * e),
            "pencil": (d + d.conj().T, (e + e.conj().T) / 4),
            "triplets": (draw(rows, N), 0 * e),
            "general": (d, 0 * e),
        }
        self.weights = [draw(N, N) for _ in range(2)]

    def at(self, kind, t):
        """A and B at t."""
        given = zip(self.matrices[kind], self.moves[kind], strict=True)
        return [self.fw.array(m) + t * self.fw.array(d) for m, d in given]

    def loss(self, p):
        c, d = (self.fw.array(w) + 0 * p for w in self.weights)
        return (c * p).real.sum() + (p @ d @ p).real.sum() ** 2

    def integral(self, f, a, b, centre, radius):
        """1/(2 pi i) times the integral of f(z) (z B - A)^-1 around the cluster."""
        total = 0
        for turn in np.exp(2j * np.pi * (np.arange(NODES) + 0.5) / NODES):
            z = centre + radius * turn
            total = total + self.fw.inv(z * b - a) * (f(z) * radius * turn / NODES)
        return total


def of_pairs(kind):
    """The projector, and the sum of the equal eigenvalues."""

    def loss(p, t, on_degenerate="raise"):
        a, b = p.at(kind, t)
        w, x = ldiv.eigh(a, b if kind == "pencil" else None, on_degenerate=on_degenerate)
        x = x[:, :COPIES]
        return p.loss(x @ x.conj().mT) + w[:COPIES].sum() ** 2

    def exact(p, t):
        a, b = p.at(kind, t)
        projector = p.integral(lambda z: 1, a, b, 2.0, 0.7)
        return p.loss(projector) + (projector @ (a + 0 * projector)).diagonal().sum().real ** 2

    return loss, exact


def of_triplets(p, t, on_degenerate="raise"):
    """The partial isometry V U^H of the cluster, and V V^H."""
    (a, _) = p.at("triplets", t)
    u, _, vh = ldiv.svd(a, full_matrices=False, on_degenerate=on_degenerate)
    u, v = u[:, 2:], vh[2:].conj().mT
    return p.loss((v @ u.conj().mT)[:, :N]) + p.loss(v @ v.conj().mT)


def of_triplets_exactly(p, t):
    a, b = p.at("triplets", t)
    gram = a.conj().mT @ a
    root = p.integral(lambda z: z**-0.5, gram, b, 4.0, 1.5)
    isometry = root @ (a.conj().mT + 0j)
    return p.loss(isometry[:, :N]) + p.loss(isometry @ isometry.conj().mT)


def of_general(p, t, on_degenerate="raise"):
    """The oblique projector of the cluster, and the orthogonal one."""
    (a, _) = p.at("general", t)
    w, v = ldiv.eig(a, on_degenerate=on_degenerate)
    oblique = (v * (abs(w - 2) < 0.1)) @ p.fw.inv(v)
    return p.loss(oblique) + p.loss(projected(p, oblique[:, :COPIES]))


def projected(p, x):
    return x @ p.fw.inv(x.conj().mT @ x) @ x.conj().mT


def of_general_exactly(p, t):
    oblique = p.integral(lambda z: 1, *p.at("general", t), 2.0, 0.7)
    return p.loss(oblique) + p.loss(projected(p, oblique[:, :COPIES]))


CASES = {
    "eigh": (N, *of_pairs("Hermitian")),
    "eigh of a pencil": (N, *of_pairs("pencil")),
    "svd": (N, of_triplets, of_triplets_exactly),
    "svd of a tall one": (N + 2, of_triplets, of_triplets_exactly),
    "eig": (N, of_general, of_general_exactly),
}
CASE = pytest.mark.parametrize("case", CASES)


@CASE
@DTYPES
def test_every_order(case, dtype):
    """Backwards; and forwards where it is told that no basis matters: a tangent cannot know it."""
    rows, loss, exact = CASES[case]
    p = Problem(Torch, dtype, rows)
    expected = Torch.slopes(lambda t: exact(p, t), 3)
    for found in (
        Torch.slopes(lambda t: loss(p, t), 3),
        Torch.pushed(lambda t: loss(p, t, "drop"), 3),
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-9)
    with pytest.raises(ldiv.NotDifferentiableError, match="this direction moves"):
        Torch.pushed(lambda t: loss(p, t), 1)


@pytest.mark.exhaustive  # JAX compiles for seconds what the laws of front ends show
@CASE
@DTYPES
def test_in_programs_of_jax(case, dtype):
    rows, loss, exact = CASES[case]
    p = Problem(Torch, dtype, rows)
    expected = Torch.slopes(lambda t: exact(p, t), 2)
    p = Problem(Jax, dtype, rows)
    np.testing.assert_allclose(Jax.slopes(lambda t: loss(p, t), 2), expected, rtol=1e-9)
    np.testing.assert_allclose(Jax.pushed(lambda t: loss(p, t, "drop"), 2), expected, rtol=1e-9)
