"""Other gauges: eigenvectors and singular vectors times Q, found by ldiv or by the
framework's own eigh and svd.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import adjoint
from ldiv.core.frameworks.dispatch import namespace
from ldiv.core.frameworks.transforms import Transforms
from ldiv.linalg.spectra.eigenvector_phase import Draw, gauge, with_free_phase

CLUSTER = 1e-9  # of the largest eigenvalue: nearer ones are taken for repeated


def flipped(w: Any, complex_vectors: bool) -> Any:
    return -np.eye(len(w))


def alternating(w: Any, complex_vectors: bool) -> Any:
    return np.diag((-1.0) ** np.arange(len(w)))


def phased(w: Any, complex_vectors: bool) -> Any:
    return (
        np.diag(np.exp(1j * np.arange(1, len(w) + 1)))
        if complex_vectors
        else flipped(w, complex_vectors)
    )


def rotated(w: Any, complex_vectors: bool) -> Any:
    """Random inside each cluster, one where there is none."""
    rng = np.random.default_rng(len(w))
    q = np.eye(len(w), dtype=complex if complex_vectors else float)
    cuts = np.flatnonzero(np.abs(np.diff(w)) > CLUSTER * np.abs(w).max(initial=0)) + 1
    for cluster in np.split(np.arange(len(w)), cuts):
        if len(cluster) > 1:
            x = rng.standard_normal(
                2 * (len(cluster),)
            ) + 1j * complex_vectors * rng.standard_normal(2 * (len(cluster),))
            q[np.ix_(cluster, cluster)] = np.linalg.qr(x if complex_vectors else x.real)[0]
    return q


GAUGES: dict[str, tuple[Draw, ...]] = {
    "the signs or phases of eigenvectors": (flipped, alternating, phased),
    "the basis inside a repeated eigenvalue": (rotated,),
}


@contextmanager
def other_gauge(draw: Draw, transforms: Transforms | None) -> Iterator[list[bool]]:
    """A context in which eigenvectors are in another gauge; it yields a list, empty if none occurred."""
    used: list[bool] = []

    def noted(w: Any, complex_vectors: bool) -> Any:
        used.append(True)
        return draw(w, complex_vectors)

    with gauge(noted), nullcontext() if transforms is None else transforms.changing(_changed):
        yield used


def _changed(found: Any) -> Any:
    """The result of an eigh or an svd in the other gauge."""
    if len(found) == 2:
        return _like(found, found[0], with_free_phase(*found))
    u, s, vh = found
    return _like(found, _leading(s, u), s, adjoint(_leading(s, adjoint(vh))))


def _leading(s: Any, u: Any) -> Any:
    """The vectors that have a singular value are in the other gauge, further ones stay."""
    k = s.shape[-1]
    return (
        with_free_phase(s, u)
        if u.shape[-1] == k
        else namespace(u).concat([with_free_phase(s, u[..., :k]), u[..., k:]], axis=-1)
    )


def _like(found: Any, *parts: Any) -> Any:
    """A tuple of the type of `found`: named tuples take several arguments, PyTorch's take one."""
    return (
        found._replace(**dict(zip(found._fields, parts, strict=True)))
        if hasattr(found, "_fields")
        else type(found)(parts)
    )
