"""A cache of validated calls: a public call is validated and planned once for each signature.

The signature of an array is its type, dtype, device, number of axes and own sizes, never the size
of a batch nor the number of columns. A framework takes part by `signature(x)`; what has none (a
tracer, a subclass) is validated in every call.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from operator import itemgetter
from typing import Any, NamedTuple

from ldiv.core.array_protocol import Array
from ldiv.core.arrays import batch_of
from ldiv.core.caches import emptied_by
from ldiv.core.dispatch import frontend_of, signature
from ldiv.core.rule import Rule
from ldiv.core.short import remember
from ldiv.core.validate import require_batches
from ldiv.matrices.sparse_array import SparseArray

# Calls with plain arrays; those with a sparse matrix are cached on, and die with, its structure.
MOST = 256
_validated: dict[Hashable, ValidatedCall] = {}
emptied_by(_validated.clear)


class Miss(NamedTuple):
    """A call whose signature is not in the cache yet, and where it belongs."""

    table: dict[Hashable, ValidatedCall]
    key: Hashable
    p: Any  # the parameters of the matrix as they came

    def remember(self, call: ValidatedCall) -> None:
        """Cache the call that was planned."""
        if self.table is _validated and len(_validated) >= MOST:
            _validated.clear()
        self.table[self.key] = call


def look_up(A: Any, b: Any, *options: Any) -> ValidatedCall | Miss | None:
    """The call for a matrix, a block or vector, options, or what remembers it; None
    for what is always validated.
    """
    table, p = _table_and_parameters(A)
    return look_up_in(table, p, b, *options)


def look_up_matrix(A: Any, *options: Any) -> ValidatedCall | Miss | None:
    """The same for functions of a matrix alone."""
    table, p = _table_and_parameters(A)
    if (of_p := signature(p)) is None:
        return None
    return _found(table, p, (of_p, p.shape[-2:] if table is _validated else None), options)


def _table_and_parameters(A: Any) -> tuple[dict[Hashable, ValidatedCall], Any]:
    if type(A) is SparseArray:
        return A.structure.cached("calls", dict), A.params
    return _validated, A


def look_up_in(
    table: dict[Hashable, ValidatedCall], p: Any, b: Any, *options: Any
) -> ValidatedCall | Miss | None:
    """The same for the parameters of a matrix, in the table that is given."""
    of_p, of_b = signature(p), signature(b)
    if of_p is None or of_b is None:
        return None
    own = None
    if table is _validated:
        own = p.shape if p.ndim == 2 else p.shape[-2:]
    rows = b.shape[0] if 1 <= b.ndim <= 2 else b.shape[-2:-1]
    return _found(table, p, (of_p, own, of_b, rows), options)


def _found(
    table: dict[Hashable, ValidatedCall], p: Any, kinds: tuple[Any, ...], options: tuple[Any, ...]
) -> ValidatedCall | Miss | None:
    # the types of the options too, as True == 1
    key = (*kinds, options, *map(type, options))
    try:
        found = table.get(key)
    except TypeError:  # an option that cannot be hashed
        return None
    return Miss(table, key, p) if found is None else found


class ValidatedCall(NamedTuple):
    """A rule of a matrix, or of a matrix and a block, and the `bind` of the front end, for
    validated arguments; `output` is the result among those of the rule.
    """

    rule: Rule
    bind: Callable[[Rule, list[Array]], tuple[Array, ...]]
    output: int = 0

    def __call__(self, A: Any, b: Any) -> Any:
        if type(A) is not SparseArray:
            return self.bound(A, b)
        # the table of shortcuts may own no pattern: this call, which goes with it, knows the way
        if self.rule.compiled is not None and (run := frontend_of(b).short) is not None:
            found = run(self.rule, (A.params, b))
            if found is not None:
                return found[self.output]
        return self.bound(A.params, b)

    def bound(self, p: Array, b: Any) -> Any:
        of_p, of_b = self.rule.core
        # batches are no part of the signature: whether they broadcast is checked in every call
        if p.ndim > of_p and b.ndim > of_b:
            require_batches("b", batch_of(p, of_p), batch_of(b, of_b))
        return self._run([p, b])

    def of_one(self, A: Any) -> Any:
        """For a matrix alone."""
        return self._run([A.params if type(A) is SparseArray else A])

    def _run(self, flat: list[Array]) -> Any:
        remember(self.rule, flat, itemgetter(self.output))
        return self.bind(self.rule, flat)[self.output]
