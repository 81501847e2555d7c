"""NaN and infinity are refused where the numbers are first known, and no rule makes them out of finite numbers without an error.

Under a transformation only kernels see numbers. `evaluated` is how front ends run a kernel, `derivative` how they run the jvp or
vjp of a rule where the numbers are known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from math import isfinite
from typing import Any

import numpy as np

from ldiv.errors import overflowed
from ldiv.holder import Holder, holding, owner
from ldiv.rule import Array, Rule, Tree, asnumpy, host_values, insist, leaves, namespace, rebuild, traced


def all_finite(x: Array) -> Array:
    """Whether no number is NaN or infinite: seen from their sum, in one pass and no memory, unless that overflows."""
    values = host_values(x)
    if values is not None:
        return isfinite(total(values)) or bool(np.isfinite(values).all())
    if not traced(x) and np.isfinite(asnumpy(namespace(x).sum(x))):
        return True
    return namespace(x).isfinite(x).all()


def total(values: np.ndarray[Any, Any]) -> float:
    """The sum of their squares, by BLAS, which warns of nothing: no finite number unless all of them are, nor where it overflows."""
    flat = values.reshape(-1)
    square: float = np.vdot(flat, flat).real
    return square


def require_finite(name: str, *arrays: Array) -> None:
    """Refuse NaN and infinity before any work."""
    for a in arrays:
        insist(all_finite(a), partial(_not_finite, name))


def _not_finite(name: str) -> ValueError:
    return ValueError(f"{name}: expected finite numbers, got NaN or infinity. Look at what made this array.")


# -- what rules give ------------------------------------------------------------------------------------------------------------


def evaluated(rule: Rule, flat: list[Array]) -> tuple[Array, ...]:
    """The outputs of a kernel, finite unless the rule says that they need not be; what it factors lives as long as it runs, at least."""
    if owner() is None:
        with holding(Holder()):
            return evaluated(rule, flat)
    with np.errstate(all="ignore"):  # what overflows is seen in what comes out
        out = rule.kernel(*rebuild(rule.core, flat))
    if not (rule.may_overflow or rule.sees_overflow):
        for y in out:
            insist(all_finite(y), partial(_blame, rule.public_name, () if traced(y) else flat))
    return out


def derivative(rule: Rule, f: Callable[..., Tree], *given: Tree) -> Tree:
    """f(*given), f the rule's jvp or vjp; in a trace only the kernels in it look at their numbers."""
    with np.errstate(all="ignore"):
        results = f(*given)
    if not rule.may_overflow:
        for y in leaves(results):
            if y is not None and not traced(y):
                insist(all_finite(y), partial(_blame, f"the derivative of {rule.public_name}", leaves(given)))
    return results


def _blame(name: str, given: Iterable[Array]) -> ValueError:
    """What came in is not finite, or what comes out has overflowed."""
    arrays = (x for x in given if hasattr(x, "dtype"))
    return overflowed(name) if all(map(all_finite, arrays)) else _not_finite(name)
