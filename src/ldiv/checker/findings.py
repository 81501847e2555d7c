"""The findings of gradcheck, and what a wrong derivative looks like.

That is the correction T for which <T g, d> is right, for a g that is wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ldiv.checker.inner import Inner, Pair
from ldiv.checker.tangents import Map, exchange, places
from ldiv.checker.visible import smallest_visible
from ldiv.core.frameworks.trees import HostArray
from ldiv.matrices.sparse_array import SparseArray

NOISY = 1e-2  # of the derivative: an error bar above this does not judge it
SMALL = 1e-5  # of the function: a derivative below this counts as zero
ROUNDING = 1e-3  # of the largest entry: smaller ones are compared at this scale


TINY = 1e-300
NEAR = " at a point near by"  # of a subject


class WrongDerivativeError(AssertionError):
    """A derivative differs from its reference by more than the error bar allows."""


class TooNoisyError(AssertionError):
    """No reference is certain enough to judge a derivative."""


@dataclass(frozen=True)
class Finding:
    """One mode in one argument: the derivatives found and expected, along all directions."""

    mode: str
    subject: str
    where: list[str]
    got: HostArray
    expected: HostArray
    bar: HostArray
    allowed: HostArray
    noise: HostArray  # an error bar above this does not judge
    looks: str = ""
    visible: float = np.inf  # the least relative error that would have been seen
    visible_in_one_entry: float = np.inf  # if one entry alone is wrong, relative to the largest

    @property
    def failed(self) -> bool:
        """Whether a derivative that could be judged is wrong."""
        return bool(self._wrong.any())

    @property
    def noisy(self) -> bool:
        """Whether nothing is wrong, but some derivatives could not be judged."""
        return not self.failed and bool((~self._judged).any())

    @property
    def _judged(self) -> HostArray:
        return self.bar <= self.noise

    @property
    def _wrong(self) -> HostArray:
        return self._judged & ~(np.abs(self.got - self.expected) <= self.allowed)

    def __str__(self) -> str:
        excess = np.nan_to_num(
            np.abs(self.got - self.expected) / np.maximum(self.allowed, 1e-300), nan=np.inf
        )
        worst = int(
            np.argmax(
                np.where(self._wrong, np.inf, self.bar)
                if self.noisy
                else np.where(self._judged, excess, -1)
            )
        )
        wrong = int(self._wrong.sum())
        verdict = "WRONG" if self.failed else "too noisy to judge" if self.noisy else "right"
        at = (
            f" at {self.where[worst]}" + f" ({wrong} of {len(self.where)} entries)" * self.failed
            if self.where[worst]
            else ""
        )
        numbers = f"got {self.got[worst]:.9g}, expected {self.expected[worst]:.9g}"
        numbers += f", uncertain by {self.allowed[worst]:.1e}"
        return f"{self.mode}, {self.subject}{at}: {verdict}: {numbers}" + f"; {self.looks}" * bool(
            self.looks
        )


@dataclass(frozen=True)
class Report:
    """All findings of a check; `refused` maps a mode that the function refused to its message."""

    findings: list[Finding] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)

    @property
    def failures(self) -> list[Finding]:
        """The findings with a wrong derivative."""
        return [f for f in self.findings if f.failed]

    @property
    def noisy(self) -> list[Finding]:
        """The findings that could not be judged."""
        return [f for f in self.findings if f.noisy]

    @property
    def visible(self) -> dict[str, tuple[float, float]]:
        """The smallest errors that every mode would have shown, for each argument: the error of the
        whole derivative, relative to it, and of one entry, relative to the largest entry.
        """
        smallest: dict[str, tuple[float, float]] = {}
        for f in self.findings:
            if f.subject.startswith("argument"):
                subject = f.subject.removesuffix(NEAR)
                one, two = smallest.get(subject, (0.0, 0.0))
                smallest[subject] = max(one, f.visible), max(two, f.visible_in_one_entry)
        return smallest

    @property
    def ok(self) -> bool:
        """Whether every derivative was judged and is right."""
        return not self.failures and not self.noisy

    def __str__(self) -> str:
        return "\n".join(
            [
                *map(str, self.findings),
                *(f"{mode}: refused by the function: {why}" for mode, why in self.refused.items()),
                *(
                    f"{subject}: not seen are relative errors below {whole:.1e}, and errors of one "
                    f"entry below {entry:.1e} of the largest"
                    for subject, (whole, entry) in self.visible.items()
                    if np.isfinite(whole)
                ),
            ]
        )

    def __bool__(self) -> bool:
        return self.ok

    def check_or_raise(self) -> None:
        """Raise where a derivative is wrong, or cannot be judged."""
        if self.failures:
            raise WrongDerivativeError(
                "\n".join(["a derivative is wrong:", *map(str, self.failures)])
            )
        if self.noisy:
            causes = (
                "Likely causes: (a) random numbers, (b) an iteration with a loose tolerance, "
                "(c) arithmetic in single precision, (d) a kink or a jump nearby, "
                "(e) eigenvectors, whose signs are not determined, "
                "(f) no neighbor at which the function can be evaluated."
            )
            raise TooNoisyError(
                "\n".join(
                    [
                        "the function is too noisy to judge a derivative:",
                        *map(str, self.noisy),
                        causes,
                    ]
                )
            )


Correction = Callable[[HostArray, Any], HostArray]


def found(
    mode: str,
    subject: str,
    where: list[str],
    pairs: list[Pair],
    expected: Any,
    bar: Any,
    size: Any,
    rtol: float,
    of: Any = None,
    inner: Inner | None = None,
) -> Finding:
    """Compare <g, d> of all pairs (g, d) with what is expected; `of` are the matrices of the g,
    `inner` is their inner product.
    """
    inner = inner or Inner()
    expected, bar = (
        np.broadcast_to(np.asarray(v, dtype=float), len(pairs)) for v in (expected, bar)
    )
    actual, terms = inner(pairs), np.sqrt(inner.squares(pairs))
    scale = np.maximum(np.abs(expected), np.minimum(np.nan_to_num(terms, nan=0.0), 1e300))
    allowed = bar + rtol * np.maximum(scale, ROUNDING * scale.max(initial=0))
    # The noise is judged by the reference alone, never by the derivative under test.
    noise = NOISY * np.maximum(np.abs(expected), SMALL * size)
    finding = Finding(mode, subject, where, actual, expected, bar, allowed, noise)
    zero = np.maximum(SMALL * np.broadcast_to(size, len(pairs)), TINY)
    seen = np.where(bar <= noise, allowed, np.inf)
    whole, in_one_entry = smallest_visible(pairs, expected, seen, zero, inner)
    finding = replace(finding, visible=whole, visible_in_one_entry=in_one_entry)
    return (
        replace(finding, looks=_looks(pairs, expected, finding.allowed, of, inner))
        if finding.failed
        else finding
    )


def _looks(
    pairs: list[Pair], expected: HostArray, allowed: HostArray, of: Any, inner: Inner
) -> str:
    """The first sentence whose correction makes all derivatives right."""
    if inner.any(any(not np.isfinite(leaf).all() for g, _ in pairs for leaf in g)):
        return "it is not finite"
    if not inner.any(any(np.any(leaf) for g, _ in pairs for leaf in g)):
        return "it is zero: a derivative is cut off on the way, or a term is missing"
    alone = inner.processes is None  # parts of matrices have neither transposes nor diagonals
    for words, correct in (*OF_NUMBERS, *(OF_MATRICES if alone else ())):
        try:
            corrected = [(_corrected(correct, g, of or g, d), d) for g, d in pairs]
        except (TypeError, ValueError):  # a correction of matrices, and g is none
            continue
        if (np.abs(inner(corrected) - expected) <= allowed).all():
            return words
    return ""


def _corrected(
    correct: Correction, g: list[HostArray], of: list[Any], d: list[HostArray]
) -> list[HostArray]:
    return [correct(u, m) if np.any(v) else u for u, m, v in zip(g, of, d, strict=True)]


OF_NUMBERS: tuple[tuple[str, Correction], ...] = (
    ("it looks like a factor 2 too much", lambda g, _: g / 2),
    ("it looks like a missing factor 2", lambda g, _: 2 * g),
    ("it looks like a wrong sign", lambda g, _: -g),
    ("it looks like a missing conjugate, or one too many", lambda g, _: np.conj(g)),
)
OF_MATRICES: tuple[tuple[str, Correction], ...] = (
    ("it looks like a missing transpose, or the wrong triangle", lambda g, m: _swap(m)(g)),
    ("it looks like a missing conjugate transpose", lambda g, m: np.conj(_swap(m)(g))),
    (
        "its off-diagonal entries look as if they were not doubled",
        lambda g, m: 2 * g - g * _diagonal(m),
    ),
    (
        "its off-diagonal entries look as if they were doubled once too often",
        lambda g, m: (g + g * _diagonal(m)) / 2,
    ),
)


def _swap(m: Any) -> Map:
    swap = exchange(m)
    if swap is None:
        raise TypeError
    return swap


def _diagonal(m: Any) -> HostArray:
    if not isinstance(m, SparseArray) and np.ndim(m) < 2:
        raise TypeError
    row, col = places(m)
    return row == col
