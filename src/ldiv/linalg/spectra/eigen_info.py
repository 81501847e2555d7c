"""The quality of eigenpairs, which `eigsh` and `eigs` return beside them with info=True."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import asnumpy
from ldiv.core.policies.errstate import under
from ldiv.core.rules.structure import matmul
from ldiv.engines.accuracy.limits import RESOLVED
from ldiv.engines.eigen.inertia import Inertia
from ldiv.rules.bordered import Systems


@dataclass(eq=False)
class AdjointResiduals:
    """An observer that collects the relative residuals of the adjoint systems of a derivative.

    And of the forward what it counts: how many eigenvalues lie above and below sigma.
    """

    found: list[float] = field(default_factory=list)
    counts: list[tuple[int, int]] = field(default_factory=list)

    def count(self, above: int, below: int) -> None:
        self.counts.append((above, below))

    def __call__(self, engine: str, steps: Any, x: Any, ratio: Any) -> None:
        self.found.append(float(np.max(asnumpy(ratio), initial=0)))


@dataclass(frozen=True)
class EigenInfo:
    """The quality of eigenpairs, and of a derivative through them.

    Attributes
    ----------
    residuals : NumPy array (*batch, k)
        |A x - lam M x| times the condition, with rounding: how far an eigenvalue may be from lam.
    gaps : NumPy array (*batch, k)
        From each eigenvalue to the nearest one of those found that is certain to be another, guards
        included.
    conditions : NumPy array (*batch, k)
        |u| |x| / |u^H M x|, u the left eigenvector: how many times as far an eigenvalue moves as A
        does. It is |x|^2 for Hermitian matrices, 1 without M; infinite for an eigenvalue that is
        defective, or has a copy beyond the k.
    adjoint_residuals : tuple of floats
        The relative residuals of the deflated systems that derivatives have solved so far.
    inertia : Inertia or None
        With sigma, that of A - sigma M: `n_positive` eigenvalues lie above sigma, `n_negative`
        below it. It costs nothing, and is told where the factor knows it: L D L^H and
        Cholesky factors; None elsewhere.
    gradient_error : float
        An estimate of the relative error of the gradient of a loss of the eigenvectors: residual
        over gap, plus the adjoint residual, the largest of each. That of a loss of eigenvalues
        alone is its square, or rounding.
    """

    residuals: NDArray[Any]
    gaps: NDArray[Any]
    conditions: NDArray[Any]
    inertia: Inertia | None
    _adjoint: AdjointResiduals = field(repr=False)

    @property
    def adjoint_residuals(self) -> tuple[float, ...]:
        return tuple(self._adjoint.found)

    @property
    def gradient_error(self) -> float:
        forward = float(
            np.max(self.residuals / np.where(self.gaps == 0, np.inf, self.gaps), initial=0)
        )
        return forward + max(self.adjoint_residuals, default=0.0)


def eigen_info(
    w: Array, guard_values: Array, error_bound: Array, conditions: Array, adjoint: AdjointResiduals
) -> EigenInfo:
    """The quality of the pairs, from their eigenvalues and the error bounds of these."""
    lam, guard_values, error_bound = map(asnumpy, (w, guard_values, error_bound))
    k = lam.shape[-1]
    every = np.concatenate([lam, guard_values], axis=-1)
    distance = np.abs(lam[..., :, None] - every[..., None, :])
    same = distance <= RESOLVED * (error_bound[..., :k, None] + error_bound[..., None, :])
    distance[same] = np.inf  # a cluster counts as one eigenvalue
    gaps = distance.min(axis=-1, initial=np.inf)
    found, inertia = error_bound[..., :k], _inertia(adjoint.counts, lam.shape[:-1])
    return EigenInfo(found, gaps, asnumpy(conditions), inertia, adjoint)


def general_info(systems: Systems) -> EigenInfo:
    """The quality of pairs of any pencil, from their bordered systems."""
    fixed, lam = systems.fixed(), systems.lam
    A, B, (pA, pB), X = fixed.A, fixed.B, fixed.pencil, fixed.X
    residual = matmul(A, pA, X) - matmul(B, pB, X) * fixed.lam[..., None, :]
    with under("nan"):  # a defective pair is no error here
        w, rounding = (asnumpy(x) for x in fixed.left())
    conditions = np.linalg.norm(w, axis=-2)
    bound = conditions * np.linalg.norm(asnumpy(residual), axis=-2) + rounding
    bound, conditions = (np.where(np.isnan(rounding), np.inf, x) for x in (bound, conditions))
    return eigen_info(lam, asnumpy(lam)[..., :0], bound, conditions, AdjointResiduals())


def _inertia(counts: list[tuple[int, int]], batch: tuple[int, ...]) -> Inertia | None:
    """Return the inertia of every problem of a batch, None unless each was counted."""
    if not counts or len(counts) != np.prod(batch, dtype=int):
        return None
    if not batch:
        return Inertia(*counts[0], 0)
    above, below = (np.array(x).reshape(batch) for x in zip(*counts, strict=True))
    return Inertia(above, below, 0 * above)
