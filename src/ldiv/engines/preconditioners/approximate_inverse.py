"""A preconditioner M near S(p)^-1 that is made on the host, once for each set of values.

It lives as long as its owner: the value of a solve and all its derivatives use the same M. A kind of
preconditioner derives from this class, and defines how M is made and applied.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, ClassVar

import numpy as np

from ldiv.core.arrays.shapes import alike, batch_of, broadcast, common_batch, result_dtype, spread
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import constant, known, namespace, on_host
from ldiv.core.frameworks.trees import Tree, leaves, rebuild
from ldiv.core.rules.structure import Structure, Wrapper
from ldiv.engines.factors.cache import Key, cached_factor
from ldiv.errors import value_error

Build = Callable[..., tuple[Structure, Tree]]


def on_numbers(build: Build) -> Build:
    """Wrap `build(structure, p, **options)`, which makes one array: of numbers at hand NumPy makes it.

    They are not differentiated, and JAX would compile each operation for each size.
    """

    @wraps(build)
    def built(structure: Structure, p: Tree, **options: Any) -> tuple[Structure, Tree]:
        flat = [constant(x) for x in leaves(p)]
        values = [known(x) for x in flat]
        if any(x is None for x in values):
            return build(structure, rebuild(p, flat), **options)
        made, q = build(structure, rebuild(p, values), **options)
        return made, namespace(flat[0]).asarray(q, **alike(flat[0], q.dtype))

    return built


def require_sparse(kind: str, structure: Structure) -> None:
    """Raise unless the entries of the matrix lie on a sparsity pattern."""
    if structure.unview()[0].pattern is None:
        raise value_error(
            f"M={kind!r}",
            "a sparse matrix",
            type(structure).__name__,
            f"Give M=ldiv.preconditioner(B, {kind!r}) of a sparse matrix B nearby.",
        )


@dataclass(frozen=True)
class ApproximateInverse(Wrapper):
    """M for S(p), with the parameters of S."""

    base: Structure

    hermitian: ClassVar[bool] = True
    """Is M Hermitian where S is? If not, M is nothing for cg, minres and lobpcg."""

    @property
    @abstractmethod
    def made_for(self) -> tuple[Any, ...]:
        """The options that distinguish two M of equal values."""

    @abstractmethod
    def make(self, p: Tree) -> Any:
        """Return the object that applies M for one matrix, with its `nbytes`."""

    @abstractmethod
    def applied(self, made: Any) -> Callable[[Any], Any]:
        """The product with M, of blocks (n, k)."""

    def matmul(self, p: Tree, x: Array) -> Array:
        batch = common_batch(self.core, p)
        spec = (*broadcast(batch, batch_of(x, 2)), *x.shape[-2:]), result_dtype(p, x)
        return on_host(
            lambda *arrays: (self._products(batch, spec, *arrays),), (spec,), *leaves(p), x
        )[0]

    def _products(self, batch: tuple[int, ...], spec: Any, *arrays: Any) -> Any:
        *flat, x = arrays
        shape, dtype = spec
        x, y = np.broadcast_to(x, shape), np.empty(shape, dtype)
        if not y.size:
            return y
        flat = [spread(leaf, batch, own) for leaf, own in zip(flat, leaves(self.core), strict=True)]
        # batch axes of x alone stand before those of p; axes of length 1 of p are broadcast
        skipped = len(shape) - 2 - len(batch)
        for i in np.ndindex(*shape[:-2]):
            values = [
                leaf[tuple(min(k, m - 1) for k, m in zip(i[skipped:], batch, strict=True))]
                for leaf in flat
            ]
            y[i] = self.applied(self._remembered(values))(x[i])
        return y

    def _remembered(self, flat: list[Any]) -> Any:
        """Return the remembered object of these values, or make it."""

        def make() -> tuple[Any, tuple[Any, ...]]:
            # copies, as the caller may write to its arrays
            own = [np.array(leaf) for leaf in flat]
            return self.make(rebuild(self.core, own)), tuple(own)

        return cached_factor(Key((type(self).__name__, *self.made_for)), tuple(flat), make)

    def push(self, p: Tree, dp: Tree, x: Array) -> Array:
        raise TypeError(self._refusal)

    def outer(self, p: Tree, u: Array, v: Array, need: Tree) -> Tree:
        raise TypeError(self._refusal)

    @property
    def _refusal(self) -> str:
        return (
            f"the preconditioner {type(self).__name__} is not differentiated; "
            "a solution that it helps to find is"
        )

    def todense(self, p: Tree) -> Array:
        return self.matmul(p, np.eye(self.shape[0]))
