"""R_ji = 1 / (lam_i - lam_j), and 0 inside a cluster: the gaps that derivatives divide by.

tangent      none: `divided` has the derivatives of what is divided by gaps
cost         k^2

This rule decides whether a derivative exists. Two eigenvalues belong to one cluster if their gap is
not larger than their error bounds, times RESOLVED. Inside a cluster a loss must depend neither on
the basis (the coupling N_ji is 0) nor on single eigenvalues (their cotangents d are equal). Between
clusters, a coupling at the level of rounding carries no information, and is set to 0 instead of
being divided by a small gap.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import alike, common_batch, join, numpy_dtype
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import asnumpy, check_or_raise, namespace
from ldiv.core.frameworks.looks import stays_on_device
from ldiv.core.frameworks.trees import Arrays, Tree
from ldiv.core.rules.rule import Traits, bind
from ldiv.core.rules.unchanged import Passing
from ldiv.engines.accuracy.limits import LOST, NOISE, RESOLVED
from ldiv.errors import NotDifferentiableError


@dataclass(frozen=True)
class InverseGaps(Passing):
    """Arguments lam, guards, error_bound, coupling, scale, d; outputs R (*batch, k, k), d, and where
    two of the k are in one cluster, as 1 and 0 (*batch, k, k).

    lam, d (*batch, k); the guard eigenvalues (*batch, p); error_bound (*batch, k + p); the coupling
    N and the scale of its rounding (*batch, k + p, k). The output d is the input, to be used only
    where nothing was raised. `cotangent`: N and d come from a loss, which has d = 0 for the guard
    pairs; of a tangent d is unknown there, and a cluster that is cut has none but of 0.
    """

    cotangent: bool
    on_degenerate: str = "raise"
    inside: bool = True  # do gaps among the k themselves matter?
    of: str = "eigenvalue"  # what the messages call lam

    core = (1, 1, 1, 2, 2, 1)
    passed = (None, 5, None)
    traits = Traits(differentiable=(False, True, False), on_host=True, only_refuses=True)

    def kernel(self, *args: Tree) -> Arrays:
        lam, guards, error_bound, coupling, scale, d = args
        xp, k = namespace(lam), lam.shape[-1]
        root = float(np.finfo(numpy_dtype(lam)).eps) ** 0.5
        eigenvalues = join(lam, guards, 1)
        # gap_ji = lam_i - lam_j, (*batch, k + p, k): rows j over all, columns i over the k
        gap = lam[..., None, :] - eigenvalues[..., :, None]
        error_sum = error_bound[..., None, :k] + error_bound[..., :, None]
        own = xp.eye(*gap.shape[-2:], **alike(lam, np.dtype(bool)))
        # the gaps that matter: between different pairs, or between one of the k and a guard only
        looked = (
            ~own
            if self.inside
            else ~(
                own
                | xp.asarray(
                    np.arange(gap.shape[-2])[:, None] < k, **(alike(lam) | {"dtype": xp.bool})
                )
            )
        )
        # one cluster: |lam_i - lam_j| <= RESOLVED (e_i + e_j)
        near, coupling_size = (xp.abs(gap) <= RESOLVED * error_sum) & looked, xp.abs(coupling)
        if self.on_degenerate != "drop":
            # a coupling is seen if it exceeds sqrt(eps) of its terms, and the rounding of the loss
            self._judge(
                eigenvalues,
                gap,
                error_sum,
                own,
                near,
                (coupling_size > root * scale) & (coupling_size > self._rounding(d, error_bound)),
                self._spread(d, scale),
                root,
            )
        # between clusters: a coupling at the level of rounding carries no information
        noise = (coupling_size <= NOISE * root**2 * scale) & (
            xp.abs(gap) <= root * xp.max(xp.abs(eigenvalues), axis=-1)[..., None, None]
        )
        dropped = (own | near | noise)[..., :k, :]
        # the inner `where` keeps 1 / 0 from being computed
        R = xp.where(dropped, 0, 1 / xp.where(dropped, 1, gap[..., :k, :]))
        batch = common_batch(self.core, args)
        cluster = xp.where((own | near)[..., :k, :], 1 + 0 * xp.abs(R), 0)
        return (
            xp.broadcast_to(R, (*batch, k, k)) + 0,
            xp.broadcast_to(d, (*batch, k)) + 0,
            xp.broadcast_to(cluster, (*batch, k, k)) + 0,
        )

    def _rounding(self, d: Array, error_bound: Array) -> Array | float:
        """The error of a loss whose eigenvalues have cotangents d, a floor for all its couplings.

        A loss of X diag(lam) X^-1 of one pair depends on d alone: its X_bar cancels to rounding.
        """
        if not self.cotangent:
            return 0.0
        xp = namespace(d)
        known = xp.max(xp.abs(d), axis=-1) * xp.max(error_bound, axis=-1)
        return RESOLVED * known[..., None, None]

    def _spread(self, d: Array, scale: Array) -> Array:
        """|d_j - d_i| relative to the largest |d|, (*batch, k + p, k)."""
        xp, k = namespace(d), d.shape[-1]
        most = xp.max(xp.abs(d), axis=-1)[..., None, None]
        size, beyond = xp.where(most == 0, 1, most), 0 * scale[..., k:, :]
        if self.cotangent:  # no loss depends on a guard
            beyond = beyond + xp.abs(d)[..., None, :] / size
        elif self.of == "eigenvalue":  # d is unknown there: all that moves may move apart
            beyond = xp.where(scale[..., k:, :] > 0, 1 + beyond, beyond)
        return join(xp.abs(d[..., :, None] - d[..., None, :]) / size, beyond, 2)

    def _judge(
        self,
        eigenvalues: Array,
        gap: Array,
        error_sum: Array,
        own: Array,
        near: Array,
        counts: Array,
        spread: Array,
        root: float,
    ) -> None:
        xp = namespace(gap)
        # for each pair (j, i): dependence on the basis, on single eigenvalues, or on a phase
        wrong = xp.stack(
            xp.broadcast_arrays(near & counts, near & (spread > root), own & counts), axis=-3
        )
        judge = partial(_sentence, self.of, self.cotangent)
        problem = NotDifferentiableError if self.on_degenerate == "raise" else UserWarning
        is_silent = stays_on_device(gap)  # nobody is there to be warned
        if self.on_degenerate == "raise" or not is_silent:
            check_or_raise(
                ~xp.any(wrong), lambda *x: problem(judge(*x)), eigenvalues, gap, near, wrong
            )
        if is_silent:
            return
        # a derivative exists, but the gap is known to few digits only
        poor = counts & ~near & ~own & (error_sum > root ** (2 * LOST) * xp.abs(gap))
        check_or_raise(
            ~xp.any(poor), partial(_warning_of_loss, self.of), eigenvalues, gap, error_sum, poor
        )


def gaps(cotangent: bool, on_degenerate: str, *args: Array) -> tuple[Array, Array, Array]:
    """R, d and the clusters, or an error if no derivative exists."""
    R, d, cluster = bind(InverseGaps(cotangent, on_degenerate), *args)
    return R, d, cluster


# -- messages -----------------------------------------------------------------

_WAYS_OUT = (
    "Use ldiv.eigenspace or ldiv.spectral_function, which are smooth there, or choose k so that "
    "the whole cluster is inside (or k+1 pairs); "
    "on_degenerate='drop' leaves the undefined part out."
)


_BETTER = "k+1 pairs, ldiv.eigenspace or ldiv.spectral_function do better."
_OF_GENERAL = (
    "Let the loss depend on all of them alike, as their sum does, or on f(A) as ldiv.funm and "
    "ldiv.expm make it; on_degenerate='drop' leaves the undefined part out."
)
_OF_SINGULAR_VALUES = (
    "Let the loss depend on all of the cluster alike, or on U U^H and V V^H of all of it. "
    "U f(s) V^H is smooth there, but its factors do not show it: write it as a function of A, "
    "as A itself for f(s) = s, as A times ldiv.spectral_function(g, A^H A) else; "
    "on_degenerate='drop' leaves the undefined part out."
)


def _in_words(of: str, text: str) -> str:
    """Return the sentence in words for eigenvalues or for singular values."""
    if of == "eigenvalue":
        return text
    if of == "general eigenvalue":
        return text.replace(_WAYS_OUT, _OF_GENERAL).replace(_BETTER, "The problem is the matrix's.")
    text = text.replace(_WAYS_OUT, _OF_SINGULAR_VALUES).replace("eigenvalue", of)
    return text.replace("eigenvector", "singular vector").replace("of pairs", "of triplets")


def _sentence(of: str, *args: Any) -> str:
    gap, (*_, j, i) = args[2], np.argwhere(asnumpy(args[-1]))[0]
    if of == "eigenvalue" or j < gap.shape[-1]:
        return _in_words(of, _sentence_of_eigenvalues(*args))
    return (  # -s and 0 are guards
        f"no derivative: singular value {i} vanishes. There s is not smooth, and its vectors are "
        "not determined. Let the loss depend on the others alone, or lower the size of A to its "
        "rank; on_degenerate='drop' leaves the undefined part out."
    )


def _sentence_of_eigenvalues(
    cotangent: bool, eigenvalues: Any, gap: Any, near: Any, wrong: Any
) -> str:
    eigenvalues, gap, near, wrong = map(asnumpy, (eigenvalues, gap, near, wrong))
    *batch, kind, j, i = np.argwhere(wrong)[0]
    shape = wrong.shape[:-3]
    eigenvalues, gap, near = (
        np.broadcast_to(x, (*shape, *x.shape[-own:]))
        for x, own in ((eigenvalues, 1), (gap, 2), (near, 2))
    )
    lam = eigenvalues[tuple(batch)]
    if kind == 2:
        return (
            f"no derivative: the loss depends on the phase of eigenvector {i} "
            f"(eigenvalue {lam[i]:.6g}), which is arbitrary. "
            "Let it depend on x x^H, or on absolute values."
        )
    gaps = np.abs(gap[tuple(batch)])
    cluster = sorted({int(i), *map(int, np.flatnonzero(near[tuple(batch)][:, i]))})
    names = ", ".join(map(str, cluster))
    beyond = (
        f" Of these, the pairs from {gap.shape[-1]} on were not asked for: "
        "the choice cuts the cluster."
        if cluster[-1] >= gap.shape[-1]
        else ""
    )
    subject = "the loss depends on" if cotangent else "this direction moves"
    what = "the basis inside" if kind == 0 else "single eigenvalues of"
    return (
        f"no derivative: {subject} {what} a repeated eigenvalue, {lam[i]:.10g}, of pairs {names} "
        f"(gap {gaps[j, i]:.1e}).{beyond} {_WAYS_OUT}"
    )


def _warning_of_loss(of: str, eigenvalues: Any, gap: Any, error_sum: Any, poor: Any) -> UserWarning:
    eigenvalues, gap, error_sum, poor = map(asnumpy, (eigenvalues, gap, error_sum, poor))
    at = tuple(np.argwhere(poor)[0])
    j, i = at[-2:]
    gap, error_sum = (np.broadcast_to(x, poor.shape) for x in (gap, error_sum))
    cut = "the choice of pairs cuts through a cluster: " if j >= gap.shape[-1] else ""
    text = (
        f"{cut}eigenvalues {i} and {j} are {abs(gap[at]):.1e} apart, known to {error_sum[at]:.1e}: "
        "the derivative is as large as 1 / gap, and has a "
        f"relative accuracy of {error_sum[at] / abs(gap[at]):.0e}. "
        f"{_BETTER}"
    )
    if of != "eigenvalue":
        text = text.replace(_BETTER, "Single precision is not enough here, or the loss too fine.")
    return UserWarning(_in_words(of, text))
