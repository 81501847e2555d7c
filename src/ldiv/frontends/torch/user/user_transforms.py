"""PyTorch's own transforms, as its users call them."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import torch

from ldiv.core.frameworks.transforms import Change, Function, Transforms, Vector
from ldiv.frontends.torch import private


class OwnTransforms(Transforms):
    def __init__(self) -> None:
        self.array, self.jvp, self.vmap = torch.asarray, torch.func.jvp, torch.func.vmap

    def gradient(self, f: Function, x: Vector) -> Vector:
        """torch.func.grad; torch.autograd.grad for old Functions, which torch.func refuses."""
        try:
            return list(torch.func.grad(f)(x))
        except RuntimeError as error:
            if "setup_context" not in str(error) or private.are_transforms_active():
                raise
        again = any(leaf.requires_grad for leaf in x)
        x = [leaf if leaf.requires_grad else leaf.detach().requires_grad_() for leaf in x]
        return list(torch.autograd.grad(f(x), x, create_graph=again, materialize_grads=True))

    def pulled(self, f: Function, x: Vector, bars: Vector) -> Vector:
        pull = torch.func.vjp(f, x)[1]
        return list(torch.func.vmap(lambda c: pull(c)[0])(bars))

    def changing(self, change: Change) -> AbstractContextManager[Any]:
        class Changing(torch.overrides.TorchFunctionMode):
            def __torch_function__(
                self, f: Any, types: Any, args: Any = (), kwargs: Any = None
            ) -> Any:
                y = f(*args, **(kwargs or {}))
                return change(y) if f in (torch.linalg.eigh, torch.linalg.svd) else y

        return Changing()

    # -- beside torch.func: dual numbers, and the batches of torch.autograd

    def by_dual_numbers(self, f: Function, x: Vector, d: Vector) -> Vector:
        """The tangents of f(x), a list, by torch.autograd.forward_ad."""
        ad, zeros = torch.autograd.forward_ad, torch.zeros_like
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
        return list(torch.autograd.grad(f(x), x, create_graph=True, materialize_grads=True))

    def _is_dual(self, x: Any) -> bool:
        return torch.autograd.forward_ad.unpack_dual(x).tangent is not None

    def pulled_at_once(self, f: Function, x: Vector, bars: Vector) -> Vector:
        """Compute `pulled` by torch.autograd.grad with is_grads_batched."""
        x = [leaf.detach().requires_grad_() for leaf in x]
        y, given = zip(
            *((y, c) for y, c in zip(f(x), bars, strict=True) if y.requires_grad), strict=True
        )
        return list(
            torch.autograd.grad(
                y, x, given, is_grads_batched=True, allow_unused=True, materialize_grads=True
            )
        )
