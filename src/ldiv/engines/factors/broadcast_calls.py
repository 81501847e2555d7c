"""op(M) x = b for one b and many M, one M and many b, or a complex b beside a real M, in compiled calls.

The compiled calls take one b for each M, of its dtype: b is repeated, all b become the columns of one
block, or the real and the imaginary part of b do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import fold, is_complex, numpy_dtype, unfold
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import asnumpy
from ldiv.core.frameworks.trees import HostArray
from ldiv.core.rules.compiled import Arrays, Compiled, Need, Operation
from ldiv.core.rules.finite import all_finite
from ldiv.core.rules.structure import Structure
from ldiv.engines.accuracy.accepted import is_taken
from ldiv.engines.accuracy.operation_calls import is_like
from ldiv.engines.factors.dense_calls import SolveCalls, dense_calls
from ldiv.engines.factors.triangle_calls import TriangleCalls, triangle_calls


@dataclass(frozen=True, slots=True)
class SharedCalls:
    """One matrix for all b, or one b for all matrices, by the calls for pairs and those for blocks."""

    pairs: SolveCalls | TriangleCalls
    blocks: SolveCalls | TriangleCalls

    def taking(self, *flat: Array) -> SharedCalls | None:
        (p, b), core = flat, 1 if self.pairs.vector else 2
        is_shared = (
            (p.ndim == 2 or b.ndim == core)
            and is_taken(p)
            and p.dtype == b.dtype
            and b.shape[b.ndim - core] == p.shape[-1]
            and 0 not in b.shape
        )
        return self if is_shared else None

    def forward(self, *flat: Any) -> Any:
        p, b = flat
        # one b: repeated for each matrix
        if p.ndim > 2:
            return self.pairs.forward(p, np.tile(asnumpy(b), (*p.shape[:-2], *[1] * b.ndim)))
        # one matrix: the batch of b becomes the columns of one block (n, batch k)
        found = self.blocks.forward(p, self._block(b))
        return found and ((self._as_batch(found[0][0], b.shape),), found[1])

    def backward(self, factor: Any, need: Need, cotangents: Arrays, out: Arrays, *flat: Any) -> Any:
        (x_bar,), (x,), (p, b) = cotangents, out, flat
        if x_bar is None or x.shape != x_bar.shape:
            return None
        if p.ndim > 2:
            if (found := self.pairs.backward(factor, need, (x_bar,), (x,), p, b)) is None:
                return None
            # b is the same for all matrices: b_bar = the sum of all lam
            with np.errstate(over="ignore", invalid="ignore"):
                b_bar = found[1].reshape(-1, *b.shape).sum(axis=0)
            return (found[0], b_bar) if all_finite(b_bar) else None
        x_bar, x = self._block(x_bar), self._block(x)
        if (found := self.blocks.backward(factor, need, (x_bar,), (x,), p, b)) is None:
            return None
        return found[0], self._as_batch(found[1], b.shape)

    def _block(self, b: Array) -> HostArray:
        """Reshape the b of a batch to the columns of one block."""
        values = asnumpy(b)  # a tensor of PyTorch may require a gradient
        return np.ascontiguousarray(fold(values[..., None] if self.pairs.vector else values))

    def _as_batch(self, x: HostArray, shape: tuple[int, ...]) -> HostArray:
        """Reshape the columns of one block to a batch of this shape."""
        batch, k = (shape[:-1], 1) if self.pairs.vector else (shape[:-2], shape[-1])
        return np.reshape(unfold(x, batch, k), shape)


@dataclass(frozen=True, slots=True)
class ComplexColumns:
    """x = A^-1 b, where a complex b beside a real A is a block of twice as many real columns:
    A^-1 (u + i v) = A^-1 u + i A^-1 v, and Re (lam x^H) = Re lam Re x^T + Im lam Im x^T.
    """

    blocks: SolveChoice
    vector: bool

    def taking(self, *flat: Array) -> ComplexColumns | None:
        p, b = flat
        if not is_complex(b) or is_complex(p) or b.ndim == 0:
            return None
        # of the same precision: D beside d, F beside f
        if numpy_dtype(b).char.lower() != numpy_dtype(p).char:
            return None
        return self if self.blocks.taking(asnumpy(p), self._real(b)) else None

    def _real(self, b: Array) -> HostArray:
        """(*batch, n, 2 k), real and imaginary parts side by side, as they are in memory."""
        values = np.ascontiguousarray(asnumpy(b))
        columns = 1 if self.vector else values.shape[-1]
        own = values.shape if self.vector else values.shape[:-1]
        return values.view(values.real.dtype).reshape(*own, 2 * columns)

    def _complex(self, x: HostArray) -> HostArray:
        """Combine columns of real and imaginary parts to complex columns."""
        found = np.ascontiguousarray(x).view(np.result_type(x, np.complex64))
        return found[..., 0] if self.vector else found

    def forward(self, *flat: Any) -> Any:
        p, b = asnumpy(flat[0]), self._real(flat[1])
        calls = self.blocks.taking(p, b)
        found: Any = calls and calls.forward(p, b)
        return found and ((self._complex(found[0][0]),), found[1])

    def backward(self, factor: Any, need: Need, cotangents: Arrays, out: Arrays, *flat: Any) -> Any:
        (x_bar,), (x,), p, b = cotangents, out, asnumpy(flat[0]), self._real(flat[1])
        if not is_like(x_bar, x) or (calls := self.blocks.taking(p, b)) is None:
            return None
        # p is real: p_bar = -S^*(Re(lam x^H)), which is that of twice as many real columns
        given = (self._real(x_bar),), (self._real(x),)
        found: Any = calls.backward(factor, need, *given, p, b)
        return found and (found[0], self._complex(found[1]))


@dataclass(frozen=True, slots=True)
class SolveChoice:
    """The calls of a structure, each for other kinds of arrays."""

    calls: tuple[Compiled, ...]

    def taking(self, *flat: Array) -> Compiled | None:
        for calls in self.calls:
            if (taken := calls.taking(*flat)) is not None:
                return taken
        return None


def broadcast_calls(
    structure: Structure, assume_a: str, method: str, vector: bool
) -> Operation | None:
    """The compiled calls of a structure, if it has any."""
    which = structure, assume_a, method

    def calls(vector: bool) -> Any:
        return dense_calls(SolveCalls, *which, vector) or triangle_calls(*which, vector)

    if (pairs := calls(vector)) is None:
        return None
    blocks = calls(False)
    real = SolveChoice((blocks, SharedCalls(blocks, blocks)))
    return SolveChoice((pairs, SharedCalls(pairs, blocks), ComplexColumns(real, vector)))
