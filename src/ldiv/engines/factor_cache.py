"""Living factorizations are found again by their values; nothing here keeps them alive, but for
JAX's store.

A factor lives as long as somebody owns it: the holder of a call (`ldiv.core.holder`), a
`Factorized`, a pullback, the store. As long as it lives, whoever asks for a factor of equal values
gets it: candidates are found by a fingerprint, in constant time, and confirmed by comparing all
values with the copy that was taken when the factor was made, so no change in place ever finds a
stale factor. JAX names a call by its static parameters, which cannot own anything: its kernels run
under the store, which keeps the most recently used factors within a bound in bytes.
"""

from __future__ import annotations

import weakref
from cmath import isfinite
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

import numpy as np

from ldiv.core.dispatch import host_values
from ldiv.core.finite import require_finite
from ldiv.core.forking import lock
from ldiv.core.holder import Holder, TracedHolder, owner, store
from ldiv.core.trees import Array
from ldiv.core.validate import require_int
from ldiv.engines import analyses
from ldiv.engines.escalation import Batch

SAMPLES = 8
WEIGHTS = 1 + np.random.default_rng(0).random(4096)


class CacheInfo(NamedTuple):
    """What happened since the start or the last `clear_cache`; the factors alive now, their
    bytes, and the limit of JAX's store.
    """

    analyses: int
    factorizations: int
    hits: int
    solves: int
    entries: int
    bytes: int
    limit: int


class Factored:
    """A factor and a copy of the values that it was made of; or those of a batch, `count` of
    them.
    """

    __slots__ = ("__weakref__", "count", "factor", "key", "nbytes", "values")

    def __init__(self, key: Key, values: tuple[Array, ...], factor: Any) -> None:
        self.key, self.values, self.factor = key, values, factor
        self.count = len(factor.different) if isinstance(factor, Batch) else 1
        self.nbytes: int = factor.nbytes + sum([v.nbytes for v in values])

    def is_of(self, key: Key, values: tuple[Array, ...]) -> bool:
        """Compared as a whole, so that no change in place finds a stale factor."""
        return self.key == key and all(map(equal, self.values, values))


def equal(a: Array, b: Array) -> bool:
    """Compared where they can be read as NumPy arrays, whose comparison is the fastest."""
    if a.shape != b.shape:
        return False
    x, y = host_values(a), host_values(b)
    return bool((a == b).all() if x is None or y is None else (x == y).all())


class _Living(weakref.ref[Factored]):
    """A reference to a factor that knows under which key to forget it."""

    __slots__ = ("key",)
    key: Hashable


_lock = lock()
_living: dict[Hashable, list[_Living]] = {}
counts = {"analyses": 0, "factorizations": 0, "hits": 0, "solves": 0}


class Key:
    """What factors of equal values must have in common besides: compared by content, hashed
    once.
    """

    __slots__ = ("_hash", "_parts")

    def __init__(self, parts: tuple[Hashable, ...]) -> None:
        self._parts, self._hash = parts, hash(parts)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Key) and self._parts == other._parts)


def remembered(
    key: Key, values: tuple[Array, ...], make: Callable[[], tuple[Any, tuple[Array, ...]]]
) -> Any:
    """The factor of these values, which must be finite: one that lives, or that of `make()`,
    (factor, copies of the values).

    It is kept by the owner of the present call; what that kept last is looked at first, which a
    derivative asks for.
    """
    keeper = owner()
    latest = keeper.latest if type(keeper) is Holder else None
    if type(latest) is Factored and latest.is_of(key, values):
        counts["hits"] += latest.count
        return latest.factor
    full = (key, *[fingerprint(v) for v in values])
    found = _find(full, values)
    if found is None:
        factor, own = make()
        found = Factored(key, own, factor)
        _introduce(full, found)
    if keeper is not None:
        keeper.keep(found)
    return found.factor


def in_trace(key: Key, values: tuple[Array, ...], make: Callable[[], Any]) -> Any:
    """The factor of values that come later: one that was handed on, which was looked at when it
    was made, or that of `make()`.
    """

    def looked_at() -> Any:
        require_finite("A", *values)
        return make()

    keeper = owner()
    return (
        keeper.factor(key, values, looked_at) if isinstance(keeper, TracedHolder) else looked_at()
    )


def fingerprint(values: Array) -> Hashable:
    """A few numbers that all values enter, where they are at hand; elsewhere all candidates of a
    shape are compared.
    """
    at_hand = values if type(values) is np.ndarray else host_values(values)
    if at_hand is None:
        require_finite("A", values)
        return tuple(values.shape)
    flat = at_hand.reshape(-1)
    if not isfinite(whole := weighted_sum(flat)):
        require_finite("A", at_hand)
    return at_hand.shape, whole, flat[:: len(flat) // SAMPLES + 1].tobytes()


def weighted_sum(flat: Array) -> complex:
    """Of all values, in one pass, not by BLAS, whose sums vary; without weights all Laplacians
    would have the same.
    """
    width = len(WEIGHTS)
    rows, rest = divmod(len(flat), width)
    with np.errstate(all="ignore"):
        if len(flat) <= width:
            return complex(np.add.reduce(flat * WEIGHTS[: len(flat)]))
        folded = flat[: rows * width].reshape(rows, width).sum(axis=0)
        folded[:rest] += flat[rows * width :]
        return complex((folded * WEIGHTS).sum())


def _find(key: Hashable, values: tuple[Array, ...]) -> Factored | None:
    with _lock:
        candidates = [ref() for ref in _living.get(key, ())]
    for entry in candidates:
        if entry is not None and entry.is_of(entry.key, values):
            counts["hits"] += entry.count
            return entry
    return None


def _introduce(key: Hashable, entry: Factored) -> None:
    ref = _Living(entry, _forget)
    ref.key = key
    with _lock:
        counts["factorizations"] += entry.count
        _living.setdefault(key, []).append(ref)


def _forget(ref: Any) -> None:
    with _lock:
        rest = [other for other in _living.get(ref.key, ()) if other is not ref]
        if rest:
            _living[ref.key] = rest
        else:
            _living.pop(ref.key, None)


def set_cache_limit(nbytes: int) -> None:
    """Bound the memory for the factorizations of JAX computations, which nobody else owns; with 0
    their adjoints factor again.

    In PyTorch a factorization lives as long as the graph that needs it, in NumPy as long as a
    pullback or a `Factorized`; this limit does not concern them.

    >>> import ldiv
    >>> ldiv.set_cache_limit(2 << 30)
    """
    store.limit = require_int(
        "nbytes", nbytes, 0, what="a number of bytes >= 0", advice="2 << 30 are 2 GiB."
    )
    store.shrink(store.limit)


def clear_cache() -> None:
    """Forget the factorizations that only JAX's store holds and the symbolic work on all
    patterns; start the counts anew.
    """
    store.shrink(0)
    analyses.forget()
    with _lock:
        counts.update(dict.fromkeys(counts, 0))


def cache_info() -> CacheInfo:
    """Analyses, factorizations, hits and solves since the start or `clear_cache`; living factors
    and their bytes; the store's limit.

    >>> import ldiv
    >>> ldiv.cache_info().limit > 0
    True
    """
    with _lock:
        alive = [entry for refs in _living.values() for ref in refs if (entry := ref()) is not None]
        return CacheInfo(
            **counts,
            entries=sum(entry.count for entry in alive),
            bytes=sum(entry.nbytes for entry in alive),
            limit=store.limit,
        )
