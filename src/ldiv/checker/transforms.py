"""A framework's own transforms, as its users call them, of functions of a list of arrays.

Cotangents follow our convention, dL = <grad, dx>.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np

Vector = list[Any]
Function = Callable[[Vector], Any]
Change = Callable[[Any], Any]


class Transforms(ABC):
    """The transforms of one framework."""

    array: Callable[[Any], Any]
    jvp: Callable[..., Any]
    vmap: Callable[..., Any]

    @abstractmethod
    def gradient(self, f: Function, x: Vector) -> Vector: ...

    @abstractmethod
    def pulled(self, f: Function, x: Vector, bars: Vector) -> Vector:
        """The cotangents of x for each of a batch of cotangents of f(x), a list, by vmap."""

    @abstractmethod
    def changing(self, change: Change) -> AbstractContextManager[Any]:
        """A context for this thread that applies `change` to the framework's eigh and svd."""


class Torch(Transforms):
    def __init__(self) -> None:
        self._torch = torch = importlib.import_module("torch")
        private = importlib.import_module("ldiv.frontends.torch.private")
        self._transforms_active = private.are_transforms_active
        self.array, self.jvp, self.vmap = torch.asarray, torch.func.jvp, torch.func.vmap

    def gradient(self, f: Function, x: Vector) -> Vector:
        """torch.func.grad; torch.autograd.grad for old Functions, which torch.func refuses."""
        try:
            return list(self._torch.func.grad(f)(x))
        except RuntimeError as error:
            if "setup_context" not in str(error) or self._transforms_active():
                raise
        again = any(leaf.requires_grad for leaf in x)
        x = [leaf if leaf.requires_grad else leaf.detach().requires_grad_() for leaf in x]
        return list(self._torch.autograd.grad(f(x), x, create_graph=again, materialize_grads=True))

    def pulled(self, f: Function, x: Vector, bars: Vector) -> Vector:
        pull = self._torch.func.vjp(f, x)[1]
        return list(self._torch.func.vmap(lambda c: pull(c)[0])(bars))

    def changing(self, change: Change) -> AbstractContextManager[Any]:
        torch = self._torch

        class Changing(torch.overrides.TorchFunctionMode):  # type: ignore[misc, name-defined]
            def __torch_function__(
                self, f: Any, types: Any, args: Any = (), kwargs: Any = None
            ) -> Any:
                y = f(*args, **(kwargs or {}))
                return change(y) if f in (torch.linalg.eigh, torch.linalg.svd) else y

        return Changing()

    # -- beside torch.func: dual numbers, and the batches of torch.autograd

    def by_dual_numbers(self, f: Function, x: Vector, d: Vector) -> Vector:
        """The tangents of f(x), a list, by torch.autograd.forward_ad."""
        ad, zeros = self._torch.autograd.forward_ad, self._torch.zeros_like
        with ad.dual_level():
            pairs = [
                ad.unpack_dual(y)
                for y in f([ad.make_dual(u, v) for u, v in zip(x, d, strict=True)])
            ]
            return [
                zeros(p.primal) if p.tangent is None else p.tangent.detach().clone() for p in pairs
            ]

    def on_the_tape(self, f: Function, x: Vector) -> Vector:
        """The gradient at x, which may hold dual numbers, as a differentiable function of x."""
        x = [
            leaf.detach().requires_grad_() if not self._is_dual(leaf) else leaf.requires_grad_()
            for leaf in x
        ]
        return list(self._torch.autograd.grad(f(x), x, create_graph=True, materialize_grads=True))

    def _is_dual(self, x: Any) -> bool:
        return self._torch.autograd.forward_ad.unpack_dual(x).tangent is not None

    def pulled_at_once(self, f: Function, x: Vector, bars: Vector) -> Vector:
        """As `pulled`, by torch.autograd.grad with is_grads_batched."""
        x = [leaf.detach().requires_grad_() for leaf in x]
        y, given = zip(
            *((y, c) for y, c in zip(f(x), bars, strict=True) if y.requires_grad), strict=True
        )
        return list(
            self._torch.autograd.grad(
                y, x, given, is_grads_batched=True, allow_unused=True, materialize_grads=True
            )
        )


class Jax(Transforms):
    def __init__(self) -> None:
        self._jax = jax = importlib.import_module("jax")
        self.array, self.jvp, self.vmap = jax.numpy.asarray, jax.jvp, jax.vmap

    def gradient(self, f: Function, x: Vector) -> Vector:
        return [leaf.conj() for leaf in self._jax.grad(f)(x)]

    def pulled(self, f: Function, x: Vector, bars: Vector) -> Vector:
        pull = self._jax.vjp(f, x)[1]
        return [g.conj() for g in self._jax.vmap(lambda c: pull([v.conj() for v in c])[0])(bars)]

    @contextmanager
    def changing(self, change: Change) -> Iterator[None]:
        """A JAX transformation that applies `change` and leaves all other primitives alone.

        Without `jit`, which would hide the primitives inside.
        """
        jax, core = self._jax, importlib.import_module("jax.extend.core")

        class Changing(jax.core.Trace):  # type: ignore[misc, name-defined]
            def stage_value(self, x: Any) -> Any:
                return parent.stage_value(x)

            def process_primitive(self, primitive: Any, args: Any, params: Any, /) -> Any:
                with core.set_current_trace(parent):
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
            core.take_current_trace() as parent,
            core.set_current_trace(Changing()),
        ):
            yield


class Autograd(Transforms):
    def __init__(self) -> None:
        self._core = importlib.import_module("autograd.core")
        self._numpy = importlib.import_module("autograd.numpy")
        self._tuple = importlib.import_module("autograd.builtins").tuple
        self.array = np.asarray

    def gradient(self, f: Function, x: Vector) -> Vector:
        pull, y = self._core.make_vjp(lambda t: f(list(t)), self._tuple(tuple(x)))
        return [self._numpy.conj(g) for g in pull(self._numpy.ones_like(y))]

    def jvp(self, f: Callable[..., Any], xs: Any, dxs: Any) -> Any:
        (x,), (d,) = xs, dxs
        push = self._core.make_jvp(lambda t: f(list(t)), self._tuple(tuple(x)))
        return push(self._tuple(tuple(d)))

    def vmap(self, f: Callable[..., Any]) -> Any:
        """autograd has none: one after the other."""

        def each(x: Vector) -> Any:
            found = [f([leaf[i] for leaf in x]) for i in range(len(x[0]))]
            return [self._numpy.stack(list(ys)) for ys in zip(*found, strict=True)]

        return each

    def pulled(self, f: Function, x: Vector, bars: Vector) -> Vector:
        raise NotImplementedError

    def changing(self, change: Change) -> AbstractContextManager[Any]:
        raise NotImplementedError


KNOWN: dict[str, type[Transforms]] = {"torch": Torch, "jax": Jax, "autograd": Autograd}


def transforms(name: str) -> Transforms:
    """The transforms of the framework of a front end."""
    if name not in KNOWN:
        raise ValueError(
            f"no transforms are known for {name!r}: add them in ldiv/checker/transforms.py"
        )
    return KNOWN[name]()
