"""Y = X, and a size that learns how large the cotangents are that are summed in X_bar.

tangent      dY = dX
cotangent    X_bar = Y_bar,   size_bar = |Y_bar|_F, which is no derivative: `size` is zero, and an
             output of the rule that X is from
cost         a copy
reference    none. A loss must not depend on the phase of an eigenvector: Im(x^H x_bar) = 0, up to
             the rounding of x_bar. In a second derivative x_bar is a sum that may cancel to
             rounding, as it does where the second derivative is 0. The sizes of what was summed
             say how large this rounding is
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ldiv.core.arrays.shapes import real
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import constant, namespace
from ldiv.core.frameworks.trees import Arrays, Cotangents, Tree, Trees
from ldiv.core.rules.rule import Traits, bind
from ldiv.core.rules.unchanged import Unchanged
from ldiv.engines.accuracy.scaling import norm


@dataclass(frozen=True)
class Summed(Unchanged):
    """Arguments X (*batch, n, k), size (*batch,), zero; output X."""

    core = (2, 0)
    traits = Traits(on_host=True, only_refuses=True)  # nothing is looked at

    def kernel(self, *args: Tree) -> Arrays:
        return (args[0] + 0,)  # frameworks tell outputs from arguments

    def vjp(self, need: Trees, cotangents: Cotangents, out: Arrays, *args: Tree) -> Trees:
        (y_bar,) = cotangents
        return (y_bar if need[0] else None), (total(y_bar) if need[1] else None)


def summed(x: Array, size: Array) -> Any:
    """X, as a factor in a derivative, whose own derivative is one of the terms of X_bar."""
    return bind(Summed(), x, size)[0]


def no_size(lam: Array) -> Array:
    """0 (*batch,), the size that a rule gives with the vectors of its values lam (*batch, k)."""
    return 0 * real(namespace(lam).sum(lam, axis=-1))


def total(x: Array) -> Array:
    """|X|_F (*batch,), a constant."""
    return norm(namespace(x).abs(constant(x)), axis=(-2, -1))
