"""A framework's own transforms, as its users call them, of functions of a list of arrays; cotangents in our convention, dL = <grad, dx>."""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

Vector = list[Any]
Function = Callable[[Vector], Any]


class Transforms(ABC):
    array: Callable[[Any], Any]
    jvp: Callable[..., Any]
    vmap: Callable[..., Any]

    @abstractmethod
    def gradient(self, f: Function, x: Vector) -> Vector: ...


class Torch(Transforms):
    def __init__(self) -> None:
        self._torch = torch = importlib.import_module("torch")
        self.array, self.jvp, self.vmap = torch.asarray, torch.func.jvp, torch.func.vmap

    def gradient(self, f: Function, x: Vector) -> Vector:
        """torch.func.grad, and for functions of the old kind, which it refuses, the tape."""
        try:
            return list(self._torch.func.grad(f)(x))
        except RuntimeError as error:
            if "setup_context" not in str(error) or self._torch._C._are_functorch_transforms_active():
                raise
        again = any(leaf.requires_grad for leaf in x)
        x = [leaf if leaf.requires_grad else leaf.detach().requires_grad_() for leaf in x]
        return list(self._torch.autograd.grad(f(x), x, create_graph=again, materialize_grads=True))


class Jax(Transforms):
    def __init__(self) -> None:
        self._jax = jax = importlib.import_module("jax")
        self.array, self.jvp, self.vmap = jax.numpy.asarray, jax.jvp, jax.vmap

    def gradient(self, f: Function, x: Vector) -> Vector:
        return [leaf.conj() for leaf in self._jax.grad(f)(x)]


KNOWN: dict[str, type[Transforms]] = {"torch": Torch, "jax": Jax}


def transforms(name: str) -> Transforms:
    """Those of the framework of a front end."""
    if name not in KNOWN:
        raise ValueError(f"no transforms are known for {name!r}: add them in ldiv/checker/transforms.py")
    return KNOWN[name]()
