"""Derivatives of users' functions, by torch.func; in kernels, a watch on what these close over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ldiv.core.closures import closures_count
from ldiv.core.trees import Array, leaves
from ldiv.errors import expected_got
from ldiv.frontends.torch.recorders import recording_error

vmap = torch.func.vmap


def call(f: Callable[..., Array], *xs: Any) -> Array:
    """Kernels see no graph; switched on for f alone, it shows what f closes over. Functions of
    torch.func hide their closures.
    """
    if not closures_count() or torch._C._are_functorch_transforms_active():
        return f(*xs)
    with torch.enable_grad():
        y = f(*xs)
    if getattr(y, "requires_grad", False) and not any(x.requires_grad for x in leaves(xs)):
        advice = "Pass the tensor in `params`, through which gradients flow, or detach it where the function closes over it."
        raise ValueError(
            expected_got(
                "a function of yours",
                "all that requires grad among its arguments",
                "a closure over a tensor that does",
                advice,
            )
        )
    return y


def vjp(
    f: Callable[..., Any], xs: tuple[Array, ...]
) -> tuple[Any, Callable[[Any], tuple[Array, ...]]]:
    if torch.compiler.is_exporting():  # torch cannot export what torch.func leaves behind
        raise recording_error()
    try:
        y, pull = torch.func.vjp(f, *xs)[:2]
    except RuntimeError as error:
        for said, sentence in _REFUSALS.items():
            if said in str(error):
                raise TypeError(expected_got(*sentence)) from error
        raise
    return y, pull


# what torch says, and what is said to the user
_REFUSALS = {
    "saved tensor hooks": (
        "a derivative of your function",
        "torch.func, which makes it, to be possible here",
        "saved tensor hooks, as of torch.utils.checkpoint with use_reentrant=False",
        "Give checkpoint use_reentrant=True, or leave this function out of it.",
    ),
    "must be floating-point": (
        "f",
        "a function with floating values alone",
        "one with integers or truth values",
        "PyTorch differentiates no others: leave them out.",
    ),
}


def jvp(f: Callable[..., Any], xs: tuple[Array, ...], dxs: tuple[Array, ...]) -> tuple[Any, Any]:
    """The VJP of the VJP, which is linear, at any point, say zero: (J^H)^H dx = J dx. For torch
    refuses a dual level inside another.
    """
    y, pull = vjp(f, xs)
    nothing = tuple(map(torch.zeros_like, y)) if isinstance(y, tuple) else torch.zeros_like(y)
    return y, torch.func.vjp(pull, nothing)[1](dxs)[0]
