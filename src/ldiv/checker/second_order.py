"""L''[e] by the compositions of forward and reverse mode, as the framework's users make them."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ldiv.checker.loss import Loss, Vector
from ldiv.core.arrays.shapes import conj, real
from ldiv.core.frameworks.dispatch import asnumpy
from ldiv.core.frameworks.trees import HostArray


def cotangent(mode: str, loss: Loss, e: Vector) -> Vector:
    """L''[e], of the kind of a gradient; the outer transform is named first."""
    fw, x, along = loss.transforms, loss.arrays(loss.x), loss.arrays(e)

    def gradient(xs: Vector) -> Vector:
        return list(fw.gradient(loss, xs))

    def slope(xs: Vector) -> Any:
        """<L', e> by reverse mode."""
        pairs = zip(gradient(xs), along, strict=True)
        return loss.summed([loss.xp.sum(real(conj(g) * d)) for g, d in pairs], loss.inputs)

    def tangent(xs: Vector) -> Any:
        """<L', e> by forward mode."""
        return fw.jvp(loss, (xs,), (along,))[1]

    if mode == "reverse over reverse":
        return loss.out(fw.gradient(slope, x))
    if mode == "forward over reverse":
        return loss.out(fw.jvp(gradient, (x,), (along,))[1])
    if mode == "reverse over forward":
        return loss.out(fw.gradient(tangent, x))
    assert mode == "forward_ad over reverse"
    return loss.out(fw.by_dual_numbers(partial(fw.on_the_tape, loss), x, along))


def number(loss: Loss, e: Vector, d: Vector) -> HostArray:
    """L''[e, d] by forward over forward."""
    fw, x = loss.transforms, loss.arrays(loss.x)
    inner, outer = loss.arrays(e), loss.arrays(d)
    twice = fw.jvp(lambda xs: fw.jvp(loss, (xs,), (inner,))[1], (x,), (outer,))
    return np.asarray(asnumpy(twice[1]))
