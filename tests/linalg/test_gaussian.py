"""Gaussians against scipy.stats, closed formulas, the complex step and 50 digits, in every
framework, mode and order.
"""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest
import scipy.stats

import ldiv
from ldiv.checker.inner import inner
from ldiv.checker.loss import transforms
from ldiv.core.frameworks.dispatch import asnumpy
from ldiv.testing.cases import Draw
from ldiv.testing.distance import assert_close
from ldiv.testing.frontend import _second

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")
jax.config.update("jax_enable_x64", True)
mpmath.mp.dps = 50

TOLERANCES = {"float32": 1e-4, "float64": 1e-12, "complex64": 1e-4, "complex128": 1e-12}


def factor(dtype, n, seed, *batch):
    """A Cholesky factor with noise above it, which nobody may read."""
    noise = Draw(dtype, seed)(*batch, n, n) / max(n, 1) ** 0.5
    noise[..., range(n), range(n)] = abs(noise[..., range(n), range(n)]) + 1
    return noise


def covariance(L):
    L = np.tril(L)
    return L @ L.conj().mT


def divergence(L1, L2, mean1=None, mean2=None):
    """(tr(S2^-1 S1) + |d|^2 in S2^-1 - n + log det S2 - log det S1) / 2, and twice this where it
    is complex.
    """
    S1, S2, n = covariance(L1), covariance(L2), L1.shape[-1]
    d = (0 if mean2 is None else mean2) - (0 if mean1 is None else mean1) + np.zeros(n)
    form = np.einsum("...i,...i", d.conj(), np.linalg.solve(S2, d[..., None])[..., 0])
    trace = np.trace(np.linalg.solve(S2, S1), axis1=-2, axis2=-1)
    twice = (trace + form).real - n + np.linalg.slogdet(S2)[1] - np.linalg.slogdet(S1)[1]
    return twice if np.iscomplexobj(L1) or np.iscomplexobj(L2) else twice / 2


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("n", [0, 1, 2, 5, 33])
def test_divergence(n, dtype):
    L1, L2 = factor(dtype, n, 1), factor(dtype, n, 2)
    mean1, mean2 = Draw(dtype, 3)(2, n)
    for means in ({}, {"mean1": mean1}, {"mean2": mean2}, {"mean1": mean1, "mean2": mean2}):
        for array in (np.asarray, torch.tensor, jax.numpy.asarray)[
            : 3 if n == 5 and dtype[-2:] == "64" else 2
        ]:
            got = ldiv.gaussian_kl(
                array(L1), array(L2), **{name: array(m) for name, m in means.items()}
            )
            assert_close(
                f"{list(means)}", asnumpy(got), divergence(L1, L2, **means), TOLERANCES[dtype]
            )
    assert_close(
        "of itself", ldiv.gaussian_kl(L1, L1, mean1=mean1, mean2=mean1), 0.0, TOLERANCES[dtype]
    )


@pytest.mark.parametrize("n", [1, 2, 5, 33])
def test_log_density_against_scipy(n):
    L, x, mean = factor("float64", n, 1), Draw("float64", 2)(7, n), Draw("float64", 3)(n)
    law = scipy.stats.multivariate_normal(mean, covariance(L))
    for array in (np.asarray, torch.tensor, jax.numpy.asarray):
        got = asnumpy(ldiv.gaussian_logpdf(array(x), array(L), mean=array(mean)))
        assert_close("many", got, np.reshape(law.logpdf(x), 7))
        assert_close(
            "one",
            asnumpy(ldiv.gaussian_logpdf(array(x[0]), array(L), mean=array(mean))),
            np.reshape(law.logpdf(x[0]), ()),
        )


def test_the_complex_density_is_that_of_its_real_and_imaginary_parts():
    L, x, mean = factor("complex128", 3, 1), Draw("complex128", 2)(3), Draw("complex128", 3)(3)
    S = covariance(L)
    real = np.block([[S.real, -S.imag], [S.imag, S.real]]) / 2
    law = scipy.stats.multivariate_normal(np.r_[mean.real, mean.imag], real)
    assert_close(
        "density", ldiv.gaussian_logpdf(x, L, mean=mean), law.logpdf(np.r_[x.real, x.imag])
    )


def test_the_divergence_is_the_mean_of_the_log_ratio():
    L1, L2 = factor("float64", 3, 1) / 2, factor("float64", 3, 2) / 2
    x = Draw("float64", 5)(200_000, 3) @ np.tril(L1).T
    ratio = ldiv.gaussian_logpdf(x, L1) - ldiv.gaussian_logpdf(x, L2)
    assert abs(ratio.mean() - ldiv.gaussian_kl(L1, L2)) < 5 * ratio.std() / len(x) ** 0.5


def test_batches_broadcast():
    L1, L2, mean = (
        factor("float64", 4, 1, 3, 1),
        factor("float64", 4, 2, 2),
        Draw("float64", 3)(3, 2, 4),
    )
    assert_close("all", ldiv.gaussian_kl(L1, L2, mean1=mean), divergence(L1, L2, mean))
    x = torch.tensor(L1, requires_grad=True)
    (g,) = torch.autograd.grad(ldiv.gaussian_kl(x, torch.tensor(L2)).sum(), x)
    for i in range(3):
        one = torch.tensor(L1[i, 0], requires_grad=True)
        (each,) = torch.autograd.grad(sum(ldiv.gaussian_kl(one, torch.tensor(l)) for l in L2), one)
        assert_close("summed", g[i, 0], each)


@pytest.mark.parametrize("step", [1e-3, 1e-6, 1e-9, 1e-12])
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_near_distributions_have_a_small_divergence(dtype, step):
    """Divergences are quadratic in the distance, far below the rounding of the terms of the formula:
    a rounding of an entry moves them by eps / step, relatively. 50 digits are the reference.
    """
    one, away = (np.tril(factor(dtype, 4, seed)) for seed in (1, 2))
    two = one + step * away
    zero = mpmath.zeros(4, 1)
    exact = float(_exact_kl([*(mpmath.matrix(L.tolist()) for L in (one, two)), zero, zero]))
    for array in (np.asarray, torch.tensor, jax.numpy.asarray):
        alone = ldiv.gaussian_kl(array(one), array(two))
        each = ldiv.gaussian_kl(array(np.stack([one, 3 * one])), array(two))  # not compiled
        inside = jax.jit(ldiv.gaussian_kl)(one, two)
        for d in (alone, each[0], inside):
            assert abs(float(d) / exact - 1) < 1e-14 / step
    assert 0 <= float(ldiv.gaussian_kl(two, two)) < 1e-31


@pytest.mark.parametrize("n", [2, 33, 150, 300])
def test_the_gradient_is_a_triangle_and_the_closed_formula(n):
    L1, L2 = factor("float64", n, 1), factor("float64", n, 2)
    x = [
        torch.tensor(L + np.triu(np.full((n, n), np.nan), 1), requires_grad=True)
        for L in map(np.tril, (L1, L2))
    ]
    L1, L2 = np.tril(L1), np.tril(L2)
    one, two = (
        np.linalg.inv(covariance(L2)),
        np.linalg.inv(covariance(L2)) @ covariance(L1) @ np.linalg.inv(covariance(L2)),
    )
    expected = (
        np.tril(one @ L1) - np.diag(1 / np.diagonal(L1)),
        -np.tril(two @ L2) + np.diag(1 / np.diagonal(L2)),
    )
    for g, e in zip(torch.autograd.grad(ldiv.gaussian_kl(*x), x), expected, strict=True):
        assert_close("gradient", g, e, 1e-10)


def test_the_complex_step_of_the_divergence():
    """The closed formula is analytic in real factors: its imaginary part at a tiny imaginary
    step is the derivative.
    """
    n, h = 5, 1e-30
    L1, L2 = (np.tril(factor("float64", n, seed)) for seed in (1, 2))
    d1, d2 = (np.tril(Draw("float64", seed)(n, n)) for seed in (3, 4))
    z1, z2 = L1 + 1j * h * d1, L2 + 1j * h * d2
    m = np.linalg.solve(z2, z1)
    stepped = (m * m).sum() / 2 + np.log(np.diagonal(z2)).sum() - np.log(np.diagonal(z1)).sum()
    x = [torch.tensor(L, requires_grad=True) for L in (L1, L2)]
    g = torch.autograd.grad(ldiv.gaussian_kl(*x), x)
    assert_close("derivative", inner(tuple(v.numpy() for v in g), (d1, d2)), stepped.imag / h)


# -- every mode and order, against 50 digits ----------------------------------


def _low(m):
    return mpmath.matrix([[m[i, j] if j <= i else 0 for j in range(m.cols)] for i in range(m.rows)])


def _log_det(L):
    return mpmath.fsum(mpmath.log(abs(L[i, i])) for i in range(L.rows))


def _squares(m):
    return mpmath.fsum(abs(z) ** 2 for z in m)


def _exact_kl(x):
    L1, L2 = _low(x[0]), _low(x[1])
    inverse = mpmath.inverse(L2)
    twice = (
        _squares(inverse * L1)
        + _squares(inverse * (x[3] - x[2]))
        - L1.rows
        + 2 * (_log_det(L2) - _log_det(L1))
    )
    return twice if any(isinstance(z, mpmath.mpc) for z in L1) else twice / 2


def _exact_density(x):
    L, n = _low(x[0]), x[0].rows
    size = _squares(mpmath.inverse(L) * (x[2] - x[3]))
    if any(isinstance(z, mpmath.mpc) for z in L):
        return -n * mpmath.log(mpmath.pi) - size - 2 * _log_det(L)
    return -(n * mpmath.log(2 * mpmath.pi) + size) / 2 - _log_det(L)


LOSSES = {
    "kl": (lambda x: ldiv.gaussian_kl(x[0], x[1], mean1=x[2], mean2=x[3]), _exact_kl),
    "density": (lambda x: ldiv.gaussian_logpdf(x[2], x[0], mean=x[3]), _exact_density),
}


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize(
    ("framework", "dtype"),
    [
        ("torch", "float64"),
        ("torch", "complex128"),
        pytest.param("jax", "float64", marks=pytest.mark.exhaustive),
    ],
)
def test_all_modes_and_orders(framework, dtype, name):
    loss, exact = LOSSES[name]
    draw, fw, h = Draw(dtype, 9), transforms(framework), mpmath.mpf(10) ** -15
    x, d, e = (
        [draw(4, 4) + s * np.eye(4), draw(4, 4) + s * np.eye(4), draw(4), draw(4)]
        for s in (4, 0, 0)
    )

    def along(s, t):
        return exact(
            [
                mpmath.matrix(a.tolist())
                + s * mpmath.matrix(b.tolist())
                + t * mpmath.matrix(c.tolist())
                for a, b, c in zip(x, d, e, strict=True)
            ]
        )

    first = (along(h, 0) - along(-h, 0)) / (2 * h)
    second = (along(h, h) - along(h, -h) - along(-h, h) + along(-h, -h)) / (4 * h * h)
    at, one, two = ([fw.array(v) for v in vs] for vs in (x, d, e))
    assert_close("value", float(loss(at)), float(along(0, 0)))
    assert_close("tangent", float(fw.jvp(loss, (at,), (one,))[1]), float(first), 1e-11)
    assert_close(
        "cotangent",
        inner(tuple(map(asnumpy, fw.gradient(loss, at))), tuple(d)),
        float(first),
        1e-11,
    )
    for mode, value in _second(fw, loss, at, one, two).items():
        assert_close(mode, float(value), float(second), 1e-10)
    many = [fw.array(np.stack([v, 2 * v])) for v in x]
    assert_close(
        "vmap",
        asnumpy(fw.vmap(loss)(many)),
        np.array([float(loss(at)), float(loss([2 * v for v in at]))]),
        1e-11,
    )


# -- inputs and errors --------------------------------------------------------


def test_layouts_and_read_only():
    L1, L2 = factor("float64", 5, 1), factor("float64", 5, 2)
    value = divergence(L1, L2)
    strided, locked = np.zeros((10, 15))[::2, ::3], L2.copy()
    strided[...] = L1
    locked.flags.writeable = False
    for one in (strided, np.asfortranarray(L1), L1.T.copy().T):
        assert_close("NumPy", ldiv.gaussian_kl(one, locked), value)
        assert_close(
            "torch", ldiv.gaussian_kl(torch.tensor(one.T.copy()).T, torch.tensor(locked)), value
        )
    assert_close(
        "expanded",
        ldiv.gaussian_kl(torch.tensor(L1).expand(3, 5, 5), torch.tensor(L2)),
        np.full(3, value),
    )
    assert ldiv.gaussian_kl(L1.astype("float32"), L2).dtype == np.float64


def test_errors():
    L, singular = np.eye(3), np.diag([1.0, 0.0, 2.0])
    for call in (
        lambda: ldiv.gaussian_kl(L, singular),
        lambda: ldiv.gaussian_logpdf(np.ones(3), singular),
    ):
        with pytest.raises(ldiv.SingularMatrixError):
            call()
    with pytest.raises(ldiv.SingularMatrixError):
        ldiv.gaussian_kl(singular, L)
    with pytest.raises(ValueError, match="rows"):
        ldiv.gaussian_kl(L, np.eye(4))
    with pytest.raises(ValueError, match="square"):
        ldiv.gaussian_kl(np.ones((3, 2)), L)
    with pytest.raises(ValueError, match="triangle"):
        ldiv.gaussian_kl(np.ones(3), L)
    with pytest.raises(ValueError, match="mean"):
        ldiv.gaussian_kl(L, L, mean1=np.ones(4))
    with pytest.raises(ValueError, match="batch"):
        ldiv.gaussian_kl(np.stack([L] * 2), np.stack([L] * 3))
    with pytest.raises(TypeError, match="float"):
        ldiv.gaussian_logpdf(np.ones(3, object), L)
    with pytest.raises(ValueError, match=r"NaN|finite|infinit"):
        ldiv.gaussian_kl(np.full((3, 3), np.nan), L)


@pytest.mark.parametrize("to", [np.asarray, torch.tensor], ids=["numpy", "torch"])
def test_a_covariance_is_not_taken_for_its_factor(to: Any) -> None:
    S = np.array([[2.0, 0.5], [0.5, 1.0]])
    L, x = np.linalg.cholesky(S), to(np.array([0.3, -0.7]))
    for wrong, words in ((S, "as a covariance is"), (L.T.copy(), "an upper triangle")):
        with pytest.raises(ValueError, match=f"L: expected a lower Cholesky factor.*{words}"):
            ldiv.gaussian_logpdf(x, to(wrong))
        with pytest.raises(ValueError, match=f"L2: expected a lower Cholesky factor.*{words}"):
            ldiv.gaussian_kl(to(L), to(wrong))
    left = to(L + np.triu(S, 1))  # as scipy.linalg.cho_factor leaves it
    assert_close("density", ldiv.gaussian_logpdf(x, left), ldiv.gaussian_logpdf(x, to(L)))
