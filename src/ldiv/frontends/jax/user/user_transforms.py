"""JAX's own transforms, as its users call them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jax

from ldiv.core.frameworks.transforms import Change, Function, Transforms, Vector
from ldiv.frontends.jax import private


class OwnTransforms(Transforms):
    def __init__(self) -> None:
        self.array, self.jvp, self.vmap = jax.numpy.asarray, jax.jvp, jax.vmap

    def gradient(self, f: Function, x: Vector) -> Vector:
        return [leaf.conj() for leaf in jax.grad(f)(x)]

    def pulled(self, f: Function, x: Vector, bars: Vector) -> Vector:
        pull = jax.vjp(f, x)[1]
        return [g.conj() for g in jax.vmap(lambda c: pull([v.conj() for v in c])[0])(bars)]

    @contextmanager
    def changing(self, change: Change) -> Iterator[None]:
        """A JAX transformation that applies `change` and leaves all other primitives alone.

        Without `jit`, which would hide the primitives inside.
        """

        class Changing(private.Trace):  # type: ignore[misc]
            def stage_value(self, x: Any) -> Any:
                return parent.stage_value(x)

            def process_primitive(self, primitive: Any, args: Any, params: Any, /) -> Any:
                with private.set_current_trace(parent):
                    y = primitive.bind(*args, **params)
                    if primitive.name == "eigh":
                        w, v = change((y[1], y[0]))
                        return [v, w]
                    if primitive.name == "svd" and len(y) == 3:
                        u, s, vh = change((y[1], y[0], y[2]))
                        return [s, u, vh]
                    return y

            def process_custom_jvp_call(
                self, primitive: Any, f: Any, jvp: Any, args: Any, /, **_: Any
            ) -> Any:
                return f.call_wrapped(*args)

            def process_custom_vjp_call(
                self, primitive: Any, f: Any, forward: Any, backward: Any, args: Any, /, **_: Any
            ) -> Any:
                return f.call_wrapped(*args)

        with (
            jax.disable_jit(),
            private.take_current_trace() as parent,
            private.set_current_trace(Changing()),
        ):
            yield
