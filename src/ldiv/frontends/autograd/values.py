"""Recorded arrays, and constants beside them. Constants have their own array class, since a front end
is found by type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import autograd.numpy as anp
import numpy as np
from autograd.extend import VSpace, vspace
from autograd.numpy.numpy_boxes import ArrayBox
from autograd.tracer import getval, isbox

from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.trees import HostArray


class Constant(np.ndarray[Any, Any]):
    """An array that is not recorded, used beside arrays that are."""


def constant(x: Any) -> Constant:
    """Return the values of x, detached from the graph."""
    return np.asarray(getval(x)).view(Constant)


def lifted(x: Any) -> Any:
    """x, of this front end."""
    return constant(x) if isinstance(x, np.ndarray | np.generic) else x


ArrayBox.register(Constant)
VSpace.register(Constant, lambda x: vspace(np.asarray(x)))
# what rules ask of arrays, and recorded ones have not
for name, of in (("mT", lambda x: anp.swapaxes(x, -1, -2)), ("real", anp.real), ("imag", anp.imag)):
    if not hasattr(ArrayBox, name):
        setattr(ArrayBox, name, property(of))


def owns(x: object) -> bool:
    return isinstance(x, ArrayBox | Constant)


def asnumpy(x: Array) -> HostArray:
    return np.asarray(getval(x))


def host(x: Array) -> bool:
    return True


def device(x: Array) -> str:
    return "cpu"


def conj(x: Array) -> Array:
    return anp.conj(x)


def clone(x: Array) -> Array:
    return x  # nobody can write to it


def copied(x: Array, memo: Any) -> Array:
    return x


def on_host(f: Callable[..., Any], specs: Any, *arrays: Array) -> tuple[Array, ...]:
    return tuple(map(constant, f(*map(asnumpy, arrays))))


def plainly(x: Any) -> Any:
    """x, a constant as a NumPy array."""
    return x if isbox(x) else np.asarray(x)
