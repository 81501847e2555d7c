"""Laplace's approximation of models of statistics: by Newton's method on each group alone in 30 digits,
by dense matrices, and by quadrature of the integral itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath as mp
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.integrate import quad

import ldiv

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")
jnp = jax.numpy

GROUPS, EACH = 5, 15
RNG = np.random.default_rng(7)
GROUP = np.repeat(np.arange(GROUPS), EACH)
COVARIATE = RNG.standard_normal(GROUPS * EACH)
EFFECT = 0.7 * RNG.standard_normal(GROUPS)[GROUP] + 0.5 * COVARIATE
DIED_OR_ONE = (RNG.random(GROUPS * EACH) < 0.6).astype(float)
TIME = RNG.exponential(np.exp(-EFFECT))


class Logistic:
    """y_ij ~ Bernoulli(1 / (1 + exp(-eta))), eta = u_j + beta x_ij, u_j ~ N(0, s^2)."""

    at = (0.4, -0.5)  # beta, log s

    @staticmethod
    def loss(xp: Any, eta: Any, y: Any, t: Any, shape: Any) -> Any:
        return xp.log(1 + xp.exp(eta)) - y * eta

    @staticmethod
    def slopes(eta: Any, y: Any, t: Any, shape: Any) -> tuple[Any, Any]:
        chance = 1 / (1 + mp.exp(-eta))
        return chance - y, chance * (1 - chance)


class Survival:
    """Weibull hazards k t^(k - 1) exp(eta) with frailties exp(u_j); y_ij = 0: censored."""

    at = (0.4, -0.5, 0.2)  # beta, log s, log k

    @staticmethod
    def loss(xp: Any, eta: Any, y: Any, t: Any, shape: Any) -> Any:
        k = xp.exp(shape)
        return t**k * xp.exp(eta) - y * (eta + shape + (k - 1) * xp.log(t))

    @staticmethod
    def slopes(eta: Any, y: Any, t: Any, shape: Any) -> tuple[Any, Any]:
        hazard = t ** mp.exp(shape) * mp.exp(eta)
        return hazard - y, hazard


def approximated(model: Any, xp: Any, at: Any) -> Any:
    """Find the value for all groups together."""
    constant = torch.asarray if xp is torch else np.asarray  # of JAX they would be traced
    x, y, t = map(constant, (COVARIATE, DIED_OR_ONE, TIME))

    def joint(u: Any, p: Any) -> Any:
        beta, log_s, *shape = p
        terms = model.loss(xp, u[GROUP] + beta * x, y, t, shape[0] if shape else None)
        return terms.sum() + (u**2).sum() * xp.exp(-2 * log_s) / 2 + GROUPS * log_s

    start = xp.asarray(np.zeros(GROUPS))
    return ldiv.laplace(joint, start, at).value - GROUPS * np.log(2 * np.pi) / 2


def of_group(model: Any, j: int, p: Any) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """-log p(y, u) of one group, and its first two derivatives in u."""
    beta, log_s, *rest = p
    shape = rest[0] if rest else None
    rows = [
        tuple(map(mp.mpf, row))
        for row in zip(*(a[GROUP == j] for a in (COVARIATE, DIED_OR_ONE, TIME)), strict=True)
    ]
    precision = mp.exp(-2 * log_s)

    def joint(u: Any) -> Any:
        terms = sum(model.loss(mp, u + beta * x, y, t, shape) for x, y, t in rows)
        return terms + u**2 * precision / 2 + log_s + mp.log(2 * mp.pi) / 2

    def slopes(u: Any) -> Any:
        found = [model.slopes(u + beta * x, y, t, shape) for x, y, t in rows]
        return sum(g for g, _ in found) + u * precision, sum(h for _, h in found) + precision

    return joint, slopes


def by_groups(model: Any) -> Callable[..., Any]:
    def value(*p: Any) -> Any:
        total = mp.mpf(0)
        for j in range(GROUPS):
            joint, slopes = of_group(model, j, p)
            u = mp.mpf(0)
            for _ in range(12):
                g, h = slopes(u)
                u -= g / h
            total += mp.log(2 * mp.pi) / 2 - joint(u) - mp.log(slopes(u)[1]) / 2
        return total

    return value


@pytest.mark.parametrize("model", [pytest.param(Logistic, marks=pytest.mark.exhaustive), Survival])
def test_random_effects(model: Any) -> None:
    """Value, gradient and one second derivative; and the integral itself is near."""
    with mp.workdps(30):
        p, value = list(map(mp.mpf, model.at)), by_groups(model)
        unit = lambda i: tuple(int(i == k) for k in range(len(p)))
        exact = float(value(*p))
        slopes = [float(mp.diff(value, tuple(p), unit(i))) for i in range(len(p))]
        turn = float(mp.diff(value, tuple(p), (1, 1, *unit(0)[2:])))
    at = [torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in model.at]
    found = approximated(model, torch, tuple(at))
    gradient = torch.autograd.grad(found, at, create_graph=True)
    assert found.item() == pytest.approx(exact, rel=1e-12)
    np.testing.assert_allclose([g.item() for g in gradient], slopes, rtol=1e-10)
    assert torch.autograd.grad(gradient[0], at[1])[0].item() == pytest.approx(turn, rel=1e-8)

    whole = sum(np.log(_integral(of_group(model, j, model.at)[0])) for j in range(GROUPS))
    assert abs(found.item() - whole) < 0.01 * GROUPS

    with jax.enable_x64(True):
        of_jax = jax.value_and_grad(lambda p: approximated(model, jnp, p))
        size, slope = of_jax(tuple(map(jnp.asarray, model.at)))
        assert float(size) == pytest.approx(exact, rel=1e-12)
        np.testing.assert_allclose(np.array(slope), slopes, rtol=1e-10)


def _integral(joint: Callable[[Any], Any]) -> float:
    return quad(lambda u: float(mp.exp(-joint(u))), -6, 6, epsrel=1e-9, epsabs=0)[0]


def test_counts_on_a_grid() -> None:
    """A Poisson field with covariates: value and gradient by dense Newton steps."""
    size, covariates = 7, 4
    n = size**2
    line = sp.diags_array([np.ones(size - 1)] * 2, offsets=[-1, 1])
    W = sp.kronsum(line, line).tocoo()
    D = np.diag(W.toarray().sum(1)) - W.toarray()
    X = RNG.standard_normal((n, covariates)) / 3
    y = RNG.poisson(3.0, n).astype(float)
    at = np.array([0.5, -0.3, *RNG.standard_normal(covariates)])

    def dense(p: np.ndarray) -> float:
        Q, offset, x = np.exp(p[0]) * (D + np.exp(p[1]) * np.eye(n)), 1 + X @ p[2:], np.zeros(n)
        for _ in range(30):
            mean = np.exp(offset + x)
            x = x - np.linalg.solve(Q + np.diag(mean), mean - y + Q @ x)
        mean = np.exp(offset + x)
        f = mean.sum() - y @ (offset + x) + x @ Q @ x / 2
        return -f - np.linalg.slogdet(Q + np.diag(mean))[1] / 2 + n * np.log(2 * np.pi) / 2

    def joint(x: Any, p: Any) -> Any:
        i, j = W.row[W.row < W.col], W.col[W.row < W.col]
        eta = 1 + x + torch.tensor(X) @ p[2:]
        prior = p[0].exp() * (((x[i] - x[j]) ** 2).sum() + p[1].exp() * (x**2).sum()) / 2
        return (eta.exp() - torch.tensor(y) * eta).sum() + prior

    p = torch.tensor(at, requires_grad=True)
    start = torch.zeros(n, dtype=torch.float64)
    found = ldiv.laplace(joint, start, p, pattern=(W.row, W.col)).value
    assert found.item() == pytest.approx(dense(at), rel=1e-13)
    h = 2e-3
    moved = [[dense(at + k * h * e) for k in (-2, -1, 1, 2)] for e in np.eye(len(at))]
    slopes = [(8 * (m[2] - m[1]) - (m[3] - m[0])) / (12 * h) for m in moved]
    np.testing.assert_allclose(torch.autograd.grad(found, p)[0], slopes, rtol=1e-8, atol=1e-9)
