"""autograd's own transforms, as its users call them: forward and reverse mode."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import autograd.numpy as anp
import numpy as np
from autograd.builtins import tuple as recorded_tuple
from autograd.core import make_jvp, make_vjp

from ldiv.core.frameworks.transforms import Change, Function, Transforms, Vector


class OwnTransforms(Transforms):
    def __init__(self) -> None:
        self.array = np.asarray

    def gradient(self, f: Function, x: Vector) -> Vector:
        pull, y = make_vjp(lambda t: f(list(t)), recorded_tuple(tuple(x)))
        return [anp.conj(g) for g in pull(anp.ones_like(y))]

    def jvp(self, f: Callable[..., Any], xs: Any, dxs: Any) -> Any:
        (x,), (d,) = xs, dxs
        push = make_jvp(lambda t: f(list(t)), recorded_tuple(tuple(x)))
        return push(recorded_tuple(tuple(d)))

    def vmap(self, f: Callable[..., Any]) -> Any:
        """Map f over the axes by a loop, since autograd has no vmap."""

        def each(x: Vector) -> Any:
            found = [f([leaf[i] for leaf in x]) for i in range(len(x[0]))]
            return [anp.stack(list(ys)) for ys in zip(*found, strict=True)]

        return each

    def pulled(self, f: Function, x: Vector, bars: Vector) -> Vector:
        raise NotImplementedError

    def changing(self, change: Change) -> AbstractContextManager[Any]:
        raise NotImplementedError
