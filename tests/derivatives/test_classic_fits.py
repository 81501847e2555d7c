"""Fits of the literature, and a bundle of cameras whose cost is flat along some combinations of unknowns,
beside SciPy's minima and complex steps.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.optimize

import ldiv

torch = pytest.importorskip("torch")
CAMERAS, POINTS = 5, 40


def camera_problem() -> tuple[Any, Any, Any]:
    """A residual (x, xp) of 5 cameras, 40 points and a weak prior, the true x, and starts beside it."""
    rng = np.random.default_rng(0)
    turn, aside, depth = rng.normal(size=(5, 3)), rng.normal(size=(5, 2)), rng.normal(size=(5, 1))
    cameras = np.hstack([0.1 * turn, 0.3 * aside, 5 + 0.1 * depth])
    truth = np.concatenate([cameras.ravel(), rng.normal(size=3 * POINTS)])
    c, k = np.nonzero(rng.random((CAMERAS, POINTS)) < 0.8)

    def seen(x: Any, xp: Any) -> Any:
        """500 q / q_z,  q = R(w) P + t by the formula of Rodrigues."""
        camera = x[: 6 * CAMERAS].reshape(CAMERAS, 6)[c]
        w, P = camera[:, :3], x[6 * CAMERAS :].reshape(POINTS, 3)[k]
        s = (w * w).sum(1)[:, None] + 1e-16
        angle, turned = s**0.5, xp.linalg.cross(w, P)
        bent = xp.linalg.cross(w, turned)
        q = P + xp.sin(angle) / angle * turned + (1 - xp.cos(angle)) / s * bent + camera[:, 3:]
        return 500 * q[:, :2] / q[:, 2:]

    pixels = seen(truth, np) + 0.5 * rng.normal(size=(len(c), 2))

    def residual(x: Any, xp: Any = torch) -> Any:
        data, prior = xp.asarray(pixels), xp.asarray(truth)
        return xp.concatenate([2 * (seen(x, xp) - data).reshape(-1), 0.1 * (x - prior)])

    return residual, truth, truth + 0.02 * rng.normal(size=(6, len(truth)))


def gradient(residual: Any, x: Any) -> Any:
    """The gradient of half the sum of squares, by complex steps."""
    steps = 1e-30j * np.eye(len(x))
    return np.array([(residual(x + h, np) ** 2).sum().imag / 2e-30 for h in steps])


def of_scipy(residual: Any, start: Any) -> Any:
    jac = lambda x: torch.func.jacfwd(residual)(torch.from_numpy(x)).numpy()
    with_numpy = lambda x: residual(x, np)
    return scipy.optimize.least_squares(
        with_numpy, start, jac, x_scale="jac", xtol=1e-15, ftol=1e-15, gtol=1e-12
    ).x


def test_a_bundle_of_cameras_from_every_start() -> None:
    residual, truth, starts = camera_problem()
    expected = of_scipy(residual, truth)
    for start in starts:
        x = ldiv.least_squares(residual, torch.from_numpy(start)).numpy()
        np.testing.assert_allclose(x, expected, rtol=0, atol=1e-6)
        # its sums have terms of 1e3, and eps of x moves it by eps times curvatures of 1e6
        assert np.abs(gradient(residual, x)).max() < 1e-8


@pytest.mark.exhaustive
def test_a_bundle_of_cameras_compiled_in_a_batch() -> None:
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    residual, truth, starts = camera_problem()
    fit = lambda start: ldiv.least_squares(lambda x: residual(x, jax.numpy), start)
    found = jax.jit(jax.vmap(fit))(jax.numpy.asarray(starts[2:4]))
    expected = of_scipy(residual, truth)
    np.testing.assert_allclose(found, np.stack([expected] * 2), rtol=0, atol=1e-6)


BARD = np.array([14, 18, 22, 25, 29, 32, 35, 39, 37, 58, 73, 96, 134, 210, 439]) / 100
MEYER = np.array(
    [
        [34780, 28610, 23650, 19630, 16370, 13720, 11540, 9744],
        [8261, 7030, 6005, 5147, 4427, 3820, 3307, 2872.0],
    ]
).ravel()
KOWALIK = np.array(
    [0.1957, 0.1947, 0.1735, 0.16, 0.0844, 0.0627, 0.0456, 0.0342, 0.0323, 0.0235, 0.0246]
)
OSBORNE = np.array([4, 2, 1, 0.5, 0.25, 0.167, 0.125, 0.1, 0.0833, 0.0714, 0.0625])


def bard(x: Any, xp: Any = torch) -> Any:
    u = np.arange(1.0, 16)
    u, v, w, y = map(xp.asarray, (u, 16 - u, np.minimum(u, 16 - u), BARD))
    return y - (x[0] + u / (v * x[1] + w * x[2]))


def meyer(x: Any, xp: Any = torch) -> Any:
    t, y = map(xp.asarray, (np.arange(50.0, 126, 5), MEYER))
    return x[0] * xp.exp(x[1] / (t + x[2])) - y


def kowalik_and_osborne(x: Any, xp: Any = torch) -> Any:
    u, y = map(xp.asarray, (OSBORNE, KOWALIK))
    return x[0] * (u * u + u * x[1]) / (u * u + u * x[2] + x[3]) - y


def box(x: Any, xp: Any = torch) -> Any:
    t = xp.asarray(np.arange(1, 11) / 10)
    return xp.exp(-t * x[0]) - xp.exp(-t * x[1]) - x[2] * (xp.exp(-t) - xp.exp(-10 * t))


CLASSICS = {
    "bard": (bard, [1, 1, 1], [0.0824105597, 1.1330360920, 2.3436951787]),
    "meyer": (meyer, [0.02, 4000, 250], [5.6096364710e-03, 6.1813463463e03, 3.4522363462e02]),
    "kowalik": (
        kowalik_and_osborne,
        [25, 39, 41.5, 39],
        [1.9280693458e-01, 1.9128232873e-01, 1.2305650693e-01, 1.3606233068e-01],
    ),
    "kowalik near": (
        kowalik_and_osborne,
        [0.25, 0.39, 0.415, 0.39],
        [1.9280693458e-01, 1.9128232873e-01, 1.2305650693e-01, 1.3606233068e-01],
    ),
    "box": (box, [0, 10, 20], [1, 10, 1]),
}


@pytest.mark.parametrize("name", CLASSICS)
def test_the_fits_of_the_literature(name: str) -> None:
    residual, start, expected = CLASSICS[name]
    x = ldiv.least_squares(residual, torch.tensor(start, dtype=torch.float64)).numpy()
    np.testing.assert_allclose(x, expected, rtol=1e-9)
    J = np.array([residual(x + h, np).imag / 1e-30 for h in 1e-30j * np.eye(len(x))])
    # r is rounded as its terms are, of the size of J x
    rounded = np.linalg.norm(residual(x, np)) + np.linalg.norm(J.T @ x)
    seen = np.linalg.norm(J, axis=1) * rounded
    assert np.all(np.abs(gradient(residual, x)) < 1e-12 * seen)


def test_a_singular_minimum_raises() -> None:
    """Powell's singular function: the Jacobian has rank 2 at its minimum, and the Hessian is J^T J."""

    def powell(x: Any) -> Any:
        root = lambda a: float(np.sqrt(a))
        terms = x[0] + 10 * x[1], root(5) * (x[2] - x[3])
        return torch.stack([*terms, (x[1] - 2 * x[2]) ** 2, root(10) * (x[0] - x[3]) ** 2])

    with pytest.raises((ldiv.SingularMatrixError, ldiv.NotPositiveDefiniteError)):
        ldiv.least_squares(powell, torch.tensor([3.0, -1.0, 0.0, 1.0], dtype=torch.float64))
