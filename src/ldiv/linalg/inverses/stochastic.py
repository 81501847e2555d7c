"""Estimates of log det A and tr(A^-1 B) from products and solves with random vectors.

    slq        mean of z^H log(A) z: see `ldiv.engines.functions.log_quadrature`
    hutch++    tr(Q^H F Q) + mean of g^H (I - P) F (I - P) g,    P = Q Q^H the range of F S
    xtrace     the mean of k such estimates, where each vector in turn is g, the others are S:
               tr F P_i + w_i^H (I - P_i) F (I - P_i) w_i,    P_i the range of F without F w_i

with F = A^-1 B and entries +-1, of S and G as of W. Derivatives hold P fixed, of which, given the
rest, the mean does not depend: they are unbiased.
Reference: Ubaru, Chen, Saad (2017); Meyer, Musco, Musco, Woodruff, Hutch++, SOSA (2021); Epperly,
Tropp, Webber, XTrace (2024).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import adjoint, alike, conj, real
from ldiv.core.arrays.validate import require_flag, require_int
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import constant, frontend_of, namespace
from ldiv.core.frameworks.trees import Tree, leaves
from ldiv.core.rules.rule import bind
from ldiv.core.rules.structure import Structure
from ldiv.errors import shown, type_error, value_error
from ldiv.rules.leave_one_out import leave_one_out
from ldiv.rules.stochastic_logdet import StochasticLogDet

TRACES = ("xtrace", "hutch++")
PROBES, STEPS = 32, 50
THREE_SIGMA = 0.99865  # the part of a normal distribution below three standard deviations

Apply = Callable[[Array], Array]


@dataclass(frozen=True)
class EstimateInfo:
    """The quality of an estimate, which `logdet` and `trace_solve` return with info=True.

    Attributes
    ----------
    method : str
        "slq", "xtrace" or "hutch++".
    probes : int
        The number of random vectors.
    standard_error : array (*batch,)
        The standard deviation of the estimate, as its samples show it, times Student's factor for
        their number: the error is within three of them in 99.7 % of all draws, if it is normally
        distributed. With "slq" the error of the quadrature is in it, too.
    """

    method: str
    probes: int
    standard_error: Any


def require_exact(method: str, probes: Any, rng: Any, info: Any, *others: Any) -> None:
    """Raise for options of an estimate, where none is asked for."""
    if require_flag("info", info) or any(x is not None for x in (probes, rng, *others)):
        raise value_error(
            "probes, steps, rng, solver and info",
            "none of them with a method that is exact",
            f"one, and method={method!r}",
            "They are of the estimates: method='slq' of logdet, 'xtrace' and 'hutch++' of "
            "trace_solve.",
        )


def slq(
    structure: Structure, p: Tree, assume_a: str, probes: Any, steps: Any, rng: Any
) -> tuple[Array, EstimateInfo]:
    """An estimate of log det S(p)."""
    if assume_a != "pos":
        advice = "Say assume_a='pos', or take an exact method."
        raise value_error("method='slq'", "a positive definite matrix", repr(assume_a), advice)
    steps = STEPS if steps is None else require_int("steps", steps, 1)
    z = signs(rng, structure.shape[0], _count(probes), leaves(p)[0])
    rule = StochasticLogDet(structure, int(steps))
    value, samples, changes = bind(rule, p, z)
    error = standard_error(samples), abs(namespace(changes).mean(changes, axis=-1))
    return value, EstimateInfo("slq", z.shape[-1], (error[0] ** 2 + error[1] ** 2) ** 0.5)


def trace(
    method: str, apply: Apply, n: int, like: Array, probes: Any, rng: Any
) -> tuple[Array, EstimateInfo]:
    """An estimate of tr F for F v = apply(v)."""
    w = signs(rng, n, _count(probes, 4 if method == "hutch++" else 2), like)
    if method == "xtrace":
        w = w[:, :n]  # more vectors do not span more
    value, samples = (_xtrace if method == "xtrace" else _hutch)(apply, w)
    return value, EstimateInfo(
        method, w.shape[-1], standard_error(samples, correlated=method == "xtrace")
    )


def _count(probes: Any, least: int = 2) -> int:
    return PROBES if probes is None else int(require_int("probes", probes, least))


def _xtrace(apply: Apply, w: Array) -> tuple[Array, Array]:
    """(The mean, the k estimates)."""
    xp = namespace(w)
    y = apply(w)
    q, s, d = leave_one_out(y, w)
    z = apply(q)
    h = xp.matmul(adjoint(q), z)
    rest = conj(w - xp.matmul(q, d)) * (y - xp.matmul(z, d))
    own = xp.sum(rest, axis=-2) - xp.sum(conj(s) * xp.matmul(h, s), axis=-2)
    samples = _trace(h)[..., None] + own
    return xp.mean(samples, axis=-1), samples


def _hutch(apply: Apply, w: Array) -> tuple[Array, Array]:
    xp, half = namespace(w), w.shape[-1] // 2
    s, g = w[:, :half], w[:, half:]
    q, _, _ = leave_one_out(constant(apply(s)), s)
    g = g - xp.matmul(q, xp.matmul(adjoint(q), g + 0 * q[..., :1]))
    forms = xp.sum(conj(g) * apply(g), axis=-2)
    samples = _trace(xp.matmul(adjoint(q), apply(q)))[..., None] + forms
    return xp.mean(samples, axis=-1), samples


def _trace(h: Array) -> Array:
    xp = namespace(h)
    return xp.sum(xp.linalg.diagonal(h), axis=-1)


def standard_error(samples: Array, correlated: bool = False) -> Array:
    """The standard error of the mean of (*batch, k) samples: deviation / sqrt(k), wider for small k.

    `correlated`: each sample depends on all vectors. A joint contribution of two vectors is in two
    samples, so that the variance of the mean is up to twice that of independent samples
    (Hoeffding's decomposition).
    """
    xp, k = namespace(samples), samples.shape[-1]
    if k < 2:
        return 0 * real(samples[..., 0])
    from scipy.special import stdtrit  # which ldiv needs nowhere else

    x = constant(samples)
    away = xp.abs(x - xp.mean(x, axis=-1, keepdims=True)) ** 2
    widened = float(stdtrit(k - 1, THREE_SIGMA)) / 3
    return widened * ((1 + correlated) * xp.sum(away, axis=-1) / (k * (k - 1))) ** 0.5


def signs(rng: Any, n: int, k: int, like: Array) -> Array:
    """Random signs (n, k), real, in the precision of `like`, from a seed or a generator.

    A seed and a generator of NumPy give the same signs in every framework.
    """
    like = constant(real(like))
    xp = namespace(like)
    seeded = isinstance(rng, int | np.integer) and not isinstance(rng, bool)
    if seeded or isinstance(rng, np.random.Generator):
        seed = require_int("rng", rng, 0) if seeded else rng
        drawn = np.random.default_rng(seed).integers(0, 2, (n, k)) * 2.0 - 1
        return xp.asarray(drawn, **alike(like))
    expected = "an integer >= 0, a generator of NumPy or PyTorch, or a key of jax.random"
    advice = "Estimates are random: an integer gives the same one again."
    if rng is None:
        raise type_error("rng", expected, "None", advice)
    try:
        normal = frontend_of(like).standard_normal(rng, (n, k), like)
    except Exception as error:  # whatever a framework raises for what is no key of its own
        raise type_error("rng", expected, shown(rng), advice) from error
    return xp.where(normal < 0, -xp.ones_like(normal), xp.ones_like(normal))
