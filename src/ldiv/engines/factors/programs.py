"""op(A) x = b, det A and A^-1 as calls of a compiled program: one factors, others compute with the arrays of
the factor. `ldiv.rules.careful` has what such a call declines.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ldiv.core.arrays.shapes import broadcast
from ldiv.core.rules.compiled import CompiledCall, CompiledFactor, Record, Specs, record_of


class Parts(NamedTuple):
    """Everything that the calls for matrices of one dtype share."""

    record: Record
    factor: Specs  # the arrays of the factor of one matrix
    constants: tuple[Any, ...]
    entries: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Programs:
    """The calls of one structure, in its view of the array."""

    op: str
    assume_a: str
    method: str

    name: ClassVar[str]
    axes: ClassVar[int]  # of one matrix
    solves_with_constants: ClassVar[bool] = True

    def parts(self, p: Any) -> Parts | None:
        """Return what the calls for this array of matrices share; None where there are none."""
        raise NotImplementedError

    def letter(self, dtype: Any) -> str:
        """Return the view of matrices of this dtype."""
        return self.op

    def solve(self, vector: bool, singular: str, p: Any, b: Any) -> CompiledCall | None:
        """Return the call of x, if b has the dtype of p."""
        if b.dtype != p.dtype or 0 in b.shape:
            return None
        batch, x = solution(vector, p, self.axes, b)
        return self._call("solve", "v" if vector else "m", singular, p, batch, (x, p.dtype))

    def slogdet(self, sign: bool, positive: bool, singular: str, p: Any) -> CompiledCall | None:
        """Return the call of det / |det| and log |det|, or of the latter alone; `positive`: det must be."""
        batch, real = p.shape[: -self.axes], np.finfo(p.dtype).dtype
        what, own = ("slogdet", [p.dtype, real]) if sign else ("logabsdet", [real])
        form = "p" if sign and positive else "m"
        return self._call(what, form, singular, p, batch, *[(batch, dtype) for dtype in own])

    def inverse(self, singular: str, p: Any) -> CompiledCall | None:
        """Return the call of A^-1, or of the entries of A^-H in the places of a sparse A."""
        batch = p.shape[: -self.axes]
        return self._call("inverse", "m", singular, p, batch, (p.shape, p.dtype))

    def det(self, singular: str, p: Any) -> CompiledCall | None:
        """Return the call of det A, of a dense A."""
        batch = p.shape[:-2]
        return self._call("det", "m", singular, p, batch, (batch, p.dtype))

    def adjugate(self, singular: str, p: Any) -> CompiledCall | None:
        """Return the call of det(A) A^-1, of a dense A, the first of the arguments."""
        call = self._call("adjugate", "m", singular, p, p.shape[:-2], (p.shape, p.dtype))
        return call and call._replace(takes=(0,))

    def _call(
        self, what: str, form: str, singular: str, p: Any, members: Any, *own: Any
    ) -> CompiledCall | None:
        if 0 in p.shape or (parts := self.parts(p)) is None:
            return None
        # the attributes of the factor do not depend on the request: all requests for a matrix share its factor
        made = (*parts.record, *record_of(what="factor", op="N", form="m"))
        factor = CompiledFactor(self.name, made, parts.factor, self.axes, parts.constants)
        view = record_of(what=what, op=self.letter(p.dtype), form=form)
        task = record_of(assume_a=self.assume_a, method=self.method, singular=singular)
        # the random right-hand side of the probe, unless b itself shows growth
        constants = parts.constants if what != "solve" or self.solves_with_constants else ()
        record = (*parts.record, *view, *task)
        return CompiledCall(
            self.name, record, own, tuple(members), factor, constants, parts.entries
        )


def solution(vector: bool, p: Any, axes: int, b: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Return the batch and the shape of the solutions for matrices with so many axes of their own."""
    own = 1 if vector else 2
    batch = broadcast(p.shape[:-axes], b.shape[:-own])
    return batch, (*batch, *b.shape[b.ndim - own :])
