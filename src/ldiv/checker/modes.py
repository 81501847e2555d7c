"""The names of the modes in which a function has derivatives."""

from __future__ import annotations

from typing import Literal, get_args

FIRST_ORDER = ("vjp", "jvp", "vjp against jvp")
# they give numbers, the others cotangents
FORWARD = ("jvp", "forward_ad", "vjp against jvp", "forward over forward")
SECOND_ORDER = (
    "reverse over reverse",
    "forward over reverse",
    "reverse over forward",
    "forward over forward",
    "forward_ad over reverse",
)
BATCHED = ("vmap of vjp", "is_grads_batched")
Mode = Literal[
    "vjp",
    "jvp",
    "vjp against jvp",
    "forward_ad",
    "reverse over reverse",
    "forward over reverse",
    "reverse over forward",
    "forward over forward",
    "forward_ad over reverse",
    "vmap",
    "vmap of vjp",
    "is_grads_batched",
    "gauge",
]
MODES: tuple[str, ...] = get_args(Mode)
OF_TORCH = ("forward_ad", "forward_ad over reverse", "is_grads_batched")  # beside torch.func
