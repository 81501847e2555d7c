"""The transforms of a framework, by its name."""

from __future__ import annotations

from ldiv.core.dispatch import load_frontends
from ldiv.core.transforms import Transforms


def transforms(name: str) -> Transforms:
    """Those of the framework of a front end, as its users call them."""
    found = [f.OwnTransforms for f in load_frontends() if f.__name__.endswith(f".{name}")]
    if not found or found[0] is None:
        raise ValueError(
            f"no transforms are known for {name!r}: its front end defines no OwnTransforms"
        )
    return found[0]()
