"""y = kernel(x) on NumPy arrays, for arrays in the memory of this process, which are not copied: by the
compiled operation of the rule, or of a few numbers by its kernel. Outside of a program each operation
of JAX costs more than most kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from ldiv.core.frameworks.trees import HostArray
from ldiv.core.rules.compiled import computed
from ldiv.core.rules.finite import evaluated
from ldiv.core.rules.rescaling import InUnits
from ldiv.core.rules.rule import Rule
from ldiv.frontends.jax import private
from ldiv.frontends.jax.values import is_here


def kernel(rule: Rule, flat: Sequence[jax.Array]) -> list[jax.Array] | None:
    """Return the outputs of a rule; None if the rule must run on JAX's arrays."""
    if (xs := values(rule, flat)) is None:
        return None
    if (made := computed(rule.compiled, xs)) is None and not are_few(
        rule := rule.rescaled_for(xs), xs
    ):
        return None
    found = evaluated(rule, xs) if made is None else made[0]
    # kernels of JAX return row orders as 32-bit integers
    if rule.traits.differentiable is not None:
        found = tuple([y.astype(np.int32) if y.dtype == np.int64 else y for y in found])
    return private.placed(found, flat)


def values(rule: Rule, xs: Sequence[Any]) -> list[Any] | None:
    """Return the values as NumPy arrays.

    Return None if the rule does not accept NumPy arrays, or a value is unknown or not in the memory
    of this process alone.
    """
    if not rule.traits.on_host:
        return None
    found: list[Any] = []
    for x in xs:
        if x is not None:
            if not isinstance(x, jax.Array) or isinstance(x, jax.core.Tracer):
                return None
            device, *others = x.sharding.device_set
            if others or not is_here(device):
                return None
        found.append(x if x is None else np.asarray(x))
    return found


def are_few(rule: Rule, flat: Sequence[HostArray]) -> bool:
    """True if the arrays are small enough for NumPy, or a compiled operation accepts them in other
    units.
    """
    few = rule.traits.few
    if all(x.ndim == core and x.size <= few for x, core in zip(flat, rule.cores, strict=True)):
        return True
    inner = rule.rule.compiled if isinstance(rule, InUnits) else None
    return inner is not None and inner.taking(*flat) is not None
