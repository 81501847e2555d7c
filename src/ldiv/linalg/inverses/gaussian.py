"""Log-density and Kullback-Leibler divergence of normal distributions with Sigma = L L^H."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import batch_of, conj, is_complex, real
from ldiv.core.arrays.typing import AnyArray, ArrayT, to_caller
from ldiv.core.arrays.validate import (
    as_float,
    common_precision,
    require_batches,
    require_square,
    together,
)
from ldiv.core.calls.call import plan, planned_pair
from ldiv.core.calls.public import public
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import as_one_node, namespace
from ldiv.core.rules.finite import finite
from ldiv.core.rules.rule import bind
from ldiv.core.rules.units import log_sizes
from ldiv.errors import type_error, value_error
from ldiv.linalg.inverses.gaussian_matrices import NormalMatrix, difference, kl, law, logpdf, point
from ldiv.rules.gaussian_divergence import GaussianDivergence, scale
from ldiv.rules.lower_factor import require_lower
from ldiv.rules.solve import solve
from ldiv.structures.triangular import triangular

FOR_SPARSE = "A sparse matrix goes in as `precision` or `covariance`, which is factored."


@public
@planned_pair
def gaussian_kl(
    L1: Any = None,
    L2: Any = None,
    *,
    mean1: AnyArray | None = None,
    mean2: AnyArray | None = None,
    precision1: NormalMatrix | None = None,
    precision2: NormalMatrix | None = None,
    covariance1: NormalMatrix | None = None,
    covariance2: NormalMatrix | None = None,
) -> Any:
    """Compute the Kullback-Leibler divergence of two normal distributions, differentiably.

        KL(N1 | N2) = (|L2^-1 L1|_F^2 + |L2^-1 (mean2 - mean1)|^2 - n) / 2
                      + log det L2 - log det L1,    Sigma = L L^H

    Parameters
    ----------
    L1, L2 : array (*batch, n, n)
        Lower Cholesky factors of the covariances. Their upper triangles are not read, but a
        covariance and an upper factor are refused.
    mean1, mean2 : array (*batch, n), optional
        The means, by default zero.
    precision1, precision2 : SparseArray, array (*batch, n, n), Matrix or SparseCholesky
        The precisions Sigma^-1, positive definite, instead of L1 and L2.
    covariance1, covariance2 : as the precisions
        The covariances, instead of L1 and L2.

    Returns
    -------
    kl : array (*batch,)
        The divergence, in nats. Complex factors stand for circular complex normal distributions,
        whose divergence is twice this.

    Raises
    ------
    SingularMatrixError
        For a zero on the diagonal of a factor.
    NotPositiveDefiniteError, NotSymmetricError, EngineError
        For precisions and covariances, as `solve`.
    ValueError
        For shapes that do not fit.
    TypeError
        For complex numbers where the factors are real, for mixed frameworks, and unless both
        distributions are given in the same one of the three ways.

    Notes
    -----
    Differentiable in all arguments, in every mode and order; cotangents of triangles are triangles.
    Cost: value and gradient together 2 triangular solves and 1 triangular product, n^3
    multiplications in all; nothing is inverted. With sparse precisions or covariances 2
    factorizations, and entries of the inverse on a pattern (see `trace_solve` and `logdet`).
    Of factors near each other the divergence has the digits that their entries determine. Of
    precisions and covariances it has an absolute error of some roundings of n.

    References
    ----------
    Kullback and Leibler (1951).

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> L = np.array([[2.0, 0.0], [1.0, 1.0]])
    >>> float(ldiv.gaussian_kl(L, L)), float(ldiv.gaussian_kl(L, L, mean2=np.array([2.0, 1.0])))
    (0.0, 0.5)
    >>> Q = ldiv.eye_array(1000)
    >>> round(float(ldiv.gaussian_kl(precision1=Q, precision2=Q, mean2=np.ones(1000))), 9)
    500.0
    """
    given = precision1, covariance1, precision2, covariance2
    if any(x is not None for x in given):
        others = *given, mean1, mean2
        one = law("gaussian_kl", "1", precision1, covariance1, L1, *others)
        two = law("gaussian_kl", "2", precision2, covariance2, L2, *others)
        return kl(one, two, mean1, mean2)
    if L1 is None or L2 is None:
        advice = "Pass both, or two precisions, or two covariances."
        raise type_error("gaussian_kl", "L1 and L2", "one or none of them", advice)
    every = [x for x in (L1, L2, mean1, mean2) if x is not None]
    L1, L2 = _factor("L1", L1, *every), _factor("L2", L2, *every)
    together("L2", L2, L1)
    L1, L2 = common_precision(L1, L2)
    if L1.shape[-1] != L2.shape[-1]:
        raise value_error(
            "L2", f"{L1.shape[-1]} rows", L2.shape[-1], "Both distributions are over one space."
        )
    require_batches("L2", tuple(L1.shape[:-2]), tuple(L2.shape[:-2]))
    rule = GaussianDivergence()
    if mean1 is None and mean2 is None:
        return plan(rule, (L1, L2))
    result: Array = bind(rule, L1, L2)[0]
    means = [
        _vector(name, x, L1, L2)
        for name, x in (("mean1", mean1), ("mean2", mean2))
        if x is not None
    ]
    return result + scale(L1, L2) * _squares(_whitened(L2, difference(means)))


@public
def gaussian_logpdf(
    x: ArrayT,
    L: AnyArray | None = None,
    *,
    mean: AnyArray | None = None,
    precision: NormalMatrix | None = None,
    covariance: NormalMatrix | None = None,
) -> ArrayT:
    """Evaluate the logarithm of the density of a normal distribution, differentiably.

        log p(x) = -(n log(2 pi) + |L^-1 (x - mean)|^2) / 2 - log det L,    Sigma = L L^H
                 = (log det Q - n log(2 pi) - (x - mean)^H Q (x - mean)) / 2,    Q = Sigma^-1

    Parameters
    ----------
    x : array (*batch, n)
        Where the density is evaluated.
    L : array (*batch, n, n)
        The lower Cholesky factor of the covariance. Its upper triangle is not read, but a
        covariance and an upper factor are refused.
    mean : array (*batch, n), optional
        The mean, by default zero.
    precision, covariance : SparseArray, array (*batch, n, n), Matrix or SparseCholesky
        Q or Sigma, positive definite, instead of L.

    Returns
    -------
    logp : array (*batch,)
        The logarithm of the density. A complex L stands for a circular complex normal
        distribution: log p(x) = -n log(pi) - |L^-1 (x - mean)|^2 - 2 log det L.

    Raises
    ------
    SingularMatrixError
        For a zero on the diagonal of L.
    NotPositiveDefiniteError, NotSymmetricError, EngineError
        For a precision or covariance, as `solve`.
    ValueError
        For shapes that do not fit.
    TypeError
        For complex numbers where the factors are real, for mixed frameworks, and unless one of L,
        precision and covariance is given.

    Notes
    -----
    Differentiable in all arguments, in every mode and order.
    Cost: 1 triangular solve, and 1 more for the derivative. With a precision 1 factorization and 1
    product, with a covariance 1 factorization and 1 solve; the gradient of a sparse one takes about
    as much again (see `logdet`).

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> round(float(ldiv.gaussian_logpdf(np.zeros(2), np.eye(2))), 6)
    -1.837877
    >>> Q = ldiv.diags_array([np.full(3, 2.0), -np.ones(2), -np.ones(2)], offsets=[0, 1, -1])
    >>> round(float(ldiv.gaussian_logpdf(np.zeros(3), precision=Q)), 6)
    -2.063668
    """
    if precision is not None or covariance is not None:
        given = law("gaussian_logpdf", "", precision, covariance, L, x, mean)
        return logpdf(x, mean, given)
    if L is None:
        raise type_error(
            "gaussian_logpdf", "L, precision or covariance", "none", "Give one of them."
        )
    factor = _factor("L", L, x)
    require_lower("L", factor)
    n, moved = factor.shape[-1], _vector("x", x, factor)
    if mean is not None:
        moved = moved - _vector("mean", mean, factor)
    distance = as_one_node(lambda L, x: _squares(_whitened(L, x)), factor, moved)
    log_det = _log_det(factor)
    if is_complex(factor):
        return to_caller(-n * math.log(math.pi) - distance - 2 * log_det)
    return to_caller(-(n * math.log(2 * math.pi) + distance) / 2 - log_det)


def _factor(name: str, L: Any, *others: Any) -> Array:
    """L, checked; a constant in the framework of the others."""
    L = as_float(name, L, *others, instead=FOR_SPARSE)
    if L.ndim < 2:
        advice = "It is the Cholesky factor of a covariance."
        raise value_error(name, "a lower triangle (..., n, n)", tuple(L.shape), advice)
    require_square(name, tuple(L.shape[-2:]))
    return L


def _vector(name: str, x: Any, *factors: Array) -> Array:
    """A point or a mean, checked against all factors."""
    return point(name, x, factors[0].shape[-1], factors, [batch_of(L, 2) for L in factors])


def _whitened(L: Array, x: Array) -> Array:
    """L^-1 x."""
    return solve(triangular(L.shape[-1], True), L, x[..., None])[..., 0]


def _squares(x: Array) -> Array:
    """|x|^2."""
    with np.errstate(all="ignore"):
        return finite("the distance of the means", namespace(x).sum(real(conj(x) * x), axis=-1))


def _log_det(L: Array) -> Array:
    """log |det L|."""
    xp = namespace(L)
    with np.errstate(all="ignore"):  # solves with L say that it is singular
        return xp.sum(log_sizes(xp.linalg.diagonal(L)), axis=-1)
