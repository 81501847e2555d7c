"""The smallest error of a derivative g that a comparison sees: |<error, d>| > allowed.

error = eps g          eps > allowed / |<g, d>|, along one of the directions d
error = delta e_j      delta > allowed / |d_j|, along one of them; for the worst entry j that moves
"""

from __future__ import annotations

import numpy as np

from ldiv.checker.inner import Inner, Pair
from ldiv.checker.outputs import maximum
from ldiv.core.frameworks.trees import HostArray


def smallest_visible(
    pairs: list[Pair], slopes: HostArray, allowed: HostArray, zero: HostArray, inner: Inner
) -> tuple[float, float]:
    """(eps, delta / max |g|), for pairs (g, d) and slopes <g, d>.

    Where `allowed` is infinite nothing is seen. A slope below `zero` counts as that.
    """
    if not np.isfinite([*slopes, *zero]).all():  # which has been called wrong already
        return np.inf, np.inf
    eps = allowed / np.maximum(np.abs(slopes), zero)
    largest_g, largest_d = (
        np.array(inner.largest([max(map(maximum, pair[i]), default=0.0) for pair in pairs]))
        for i in (0, 1)
    )
    least = np.divide(zero, largest_d, out=zero.copy(), where=largest_d > 0)  # 0 if nothing moves
    scale = np.maximum(np.nan_to_num(largest_g, posinf=0.0), least)
    worst = 0.0
    for leaf, first in enumerate(pairs[0][1]):
        delta = np.full(_parts(first).shape, np.inf)
        moves = np.zeros(delta.shape, bool)
        for (_, d), seen in zip(pairs, allowed / scale, strict=True):
            steps = np.abs(_parts(d[leaf]))
            moves |= steps > 0
            np.minimum(delta, np.divide(seen, steps, where=steps > 0, out=delta.copy()), out=delta)
        worst = max(worst, delta[moves].max(initial=0.0))
    return float(eps.min()), float(inner.largest([worst])[0])


def _parts(d: HostArray) -> HostArray:
    """Real and imaginary parts, which are entries of their own."""
    return np.stack([np.real(d), np.imag(d)] if np.iscomplexobj(d) else [d])
