"""NaN and infinity are refused where the numbers are first known: under a transformation only engines see them."""

from __future__ import annotations

from functools import partial

from ldiv.rule import Array, insist, namespace


def require_finite(name: str, *arrays: Array) -> None:
    """Refuse NaN and infinity before any work."""
    for a in arrays:
        insist(namespace(a).isfinite(a).all(), partial(_not_finite, name))


def _not_finite(name: str) -> ValueError:
    return ValueError(f"{name}: expected finite numbers, got NaN or infinity. Look at what made this array.")
