"""A cache of live factorizations, found by the values of the matrix.

A factor lives as long as it has an owner: the holder of a call (`ldiv.core.owners.holder`), a
`Factorized`, a pullback, or the store of JAX. Meanwhile every request for a factor of equal values
returns it. Candidates are found by a fingerprint in constant time. A candidate is confirmed by
comparing all values with the copy that was taken when the factor was made. So a change in place
never finds a stale factor.
JAX identifies a call by its static parameters, which cannot own anything. Its kernels run under the
store, which keeps as many factors of a pattern as are asked for again (`ldiv.core.owners.store`).
"""

from __future__ import annotations

import weakref
from cmath import isfinite
from collections.abc import Callable, Hashable
from functools import partial
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np

from ldiv.core.arrays.validate import require_int
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import host_values
from ldiv.core.frameworks.looks import after_checks, assumed_true, decided, if_doubted
from ldiv.core.frameworks.trees import HostArray
from ldiv.core.owners.caches import empty_all
from ldiv.core.owners.forking import lock
from ldiv.core.owners.holder import Holder, Owner, TracedHolder, owner, store
from ldiv.core.rules.finite import require_finite, unwarned
from ldiv.core.rules.structure import Structure
from ldiv.engines.accuracy.accepted import live_factors
from ldiv.engines.accuracy.sparse_checked import program_counts
from ldiv.engines.factors.escalation import Batch
from ldiv.engines.registry import Chain, Engine

SAMPLES = 8
FEW = 4096  # bytes: arrays up to this size are compared as bytes
WEIGHTS = 1 + np.random.default_rng(0).random(4096)


class CacheInfo(NamedTuple):
    """Counts since the start or the last `clear_cache`, and the factors that are alive now.

    Attributes
    ----------
    analyses, factorizations, hits, solves : int
        What was done for linear systems, determinants and the factor of an eigenproblem; a hit is
        a factorization that was found again. Not counted are the solves of eigensolvers, and the
        factorizations by which eigenvalues are counted (`inertia`, `eigsh(..., check=True)`).
    entries, bytes : int
        The number of live factors, and their memory.
    limit : int
        The bound of JAX's store in bytes.
    """

    analyses: int
    factorizations: int
    hits: int
    solves: int
    entries: int
    bytes: int
    limit: int


def equal(a: Array, b: Array, look: Callable[[Any], bool]) -> bool:
    """True if both arrays are equal, compared by NumPy where possible, which is fastest."""
    if a.shape != b.shape:
        return False
    if type(a) is not np.ndarray and a.device != b.device:  # JAX's are all "cpu" to a key
        return False
    x, y = host_values(a), host_values(b)
    # on a device: one boolean, which `look` reads, or reads later
    if x is None or y is None:
        return look((a == b).all())
    return x.tobytes() == y.tobytes() if x.nbytes <= FEW else bool((x == y).all())


class FactorKey(NamedTuple):
    """The parts of the key of a factor by a chain of engines."""

    chain: Chain
    state: str  # of `errstate`
    structure: Structure
    assume_a: str
    namespace: Any
    dtypes: tuple[Any, ...]
    device: Any


class CacheEntry:
    """A factor, or the `count` factors of a batch, and a copy of the values."""

    __slots__ = ("__weakref__", "count", "factor", "key", "value_hash", "values")

    def __init__(
        self, key: Key, values: tuple[Array, ...], factor: Any, value_hash: int = 0
    ) -> None:
        self.key, self.values, self.factor, self.value_hash = key, values, factor, value_hash
        self.count = len(factor.different) if type(factor) is Batch else 1

    @property
    def nbytes(self) -> int:
        return int(self.factor.nbytes) + sum([v.nbytes for v in self.values])

    def is_of(
        self, key: Key, values: tuple[Array, ...], look: Callable[[Any], bool] = assumed_true
    ) -> bool:
        """Compare all values, so that a change in place never finds a stale factor."""
        return self.key == key and all(map(equal, self.values, values, repeat(look)))

    def is_by(self, engine: Engine, structure: Structure, values: tuple[Array, ...]) -> bool:
        """Whether it is of these values, by a chain of engines that begins with this one."""
        parts = self.key.parts
        return (
            isinstance(parts, FactorKey)
            and parts.chain.engines[0] is engine
            and parts.structure == structure
            and self.is_of(self.key, values)
        )


class _Live(weakref.ref[CacheEntry]):
    """A weak reference to a factor, with the key under which it is found."""

    __slots__ = ("key",)
    key: Hashable


_lock = lock()
_live: dict[Hashable, list[_Live]] = {}
counts = {"analyses": 0, "factorizations": 0, "hits": 0, "solves": 0}


class Key:
    """The key of a factor, besides its values.

    Equal parts share one key object while it lives, so that keys are equal by identity: comparing
    and hashing them takes no call of Python.
    """

    __slots__ = ("__weakref__", "parts")
    parts: tuple[Hashable, ...]

    def __new__(cls, parts: tuple[Hashable, ...]) -> Key:
        parts_hash = hash(parts)
        with _lock:
            # different parts may have the same hash: then the newer key takes the place
            found = _keys.get(parts_hash)
            if found is None or found.parts != parts:
                found = _keys[parts_hash] = object.__new__(cls)
                found.parts = parts
            return found


# Keys by the hashes of their parts. The parts hold the structure, whose plan holds the key, so that a
# table that held the parts would keep all three for ever.
_keys: weakref.WeakValueDictionary[int, Key] = weakref.WeakValueDictionary()


def cached_factor(
    key: Key, values: tuple[Array, ...], make: Callable[[], tuple[Any, tuple[Array, ...]]]
) -> Any:
    """Return the factor of these values, which must be finite: a live factor, or a new one from
    `make()`.

    `make()` returns (factor, copies of the values). The present owner keeps the factor.
    """
    # the common case: the derivative of a call uses its latest factor; no fingerprint is needed
    keeper = owner()
    latest = keeper.latest if type(keeper) is Holder else None
    if type(latest) is Holder:  # of the steps of an iteration
        latest = latest.latest
    if type(latest) is CacheEntry and latest.is_of(key, values):
        counts["hits"] += latest.count
        return latest.factor
    prints = [fingerprint(v) for v in values]
    if (found := _find((key, *prints), values)) is None:
        # by this hash the store recognizes values whose factor it has dropped
        value_hash = hash((key, *prints))
        if keeper is not None:
            # before the factor is made, so that a dropped factor frees memory for it
            keeper.make_room(key, value_hash)
        factor, own = make()
        found = CacheEntry(key, own, factor, value_hash)
        # other calls find the factor only after its checks, which may still be pending
        after_checks(partial(_introduce, (key, *prints), found))
    if keeper is not None:
        _keep(keeper, found)
    return found.factor


def share_factors(holder: Holder) -> None:
    """Make the present owner keep the factors of this holder, too."""
    if (keeper := owner()) is not None:
        for found in holder.kept:
            _keep(keeper, found)


def _keep(keeper: Owner, found: CacheEntry) -> None:
    if type(keeper) is Holder:
        # undone if a pending check fails: the kernel then runs again
        if_doubted(partial(keeper.forget, found, keeper.latest))
        keeper.keep(found)
    else:  # other calls look into this owner
        after_checks(partial(keeper.keep, found))


def in_trace(key: Key, values: tuple[Array, ...], make: Callable[[], Any]) -> Any:
    """Return the factor of traced values: one that the forward pass passed on, or a new one from
    `make()`.

    A factor that was passed on was checked when it was made.
    """

    def checked() -> Any:
        require_finite("A", *values)
        return make()

    keeper = owner()
    return keeper.factor(key, values, checked) if isinstance(keeper, TracedHolder) else checked()


def fingerprint(values: Array) -> Hashable:
    """Return a few numbers that depend on all values, if they can be read on the host; the bytes of
    a small array.

    Otherwise return the shape: then all candidates of this shape are compared.
    """
    at_hand = values if type(values) is np.ndarray else host_values(values)
    if at_hand is None:
        require_finite("A", values)
        return tuple(values.shape)
    if at_hand.nbytes <= FEW:
        require_finite("A", at_hand)
        # the bytes are the values: only equal arrays share this fingerprint
        return at_hand.shape, at_hand.tobytes()
    flat = at_hand.reshape(-1)
    if not isfinite(whole := weighted_sum(flat)):
        # an infinite sum may be an overflow: only then are all values inspected
        require_finite("A", at_hand)
    # at most SAMPLES numbers, to distinguish matrices whose weighted sums agree
    return at_hand.shape, whole, flat[:: len(flat) // SAMPLES + 1].tobytes()


def weighted_sum(flat: HostArray) -> complex:
    """A weighted sum of all values in one pass.

    Weighted, since the plain sum is the same for all Laplacians; not by BLAS, whose sums are not
    reproducible.
    """
    width = len(WEIGHTS)
    rows, rest = divmod(len(flat), width)
    with unwarned():
        if len(flat) <= width:
            return complex(np.add.reduce(flat * WEIGHTS[: len(flat)]))
        # sum_i w_(i mod width) flat_i: numbers with one weight are added before they are multiplied
        folded = flat[: rows * width].reshape(rows, width).sum(axis=0)
        folded[:rest] += flat[rows * width :]
        return complex((folded * WEIGHTS).sum())


def _find(key: Hashable, values: tuple[Array, ...]) -> CacheEntry | None:
    with _lock:
        # references are resolved under the lock; values are compared outside of it
        refs = _live.get(key)
        candidates = [ref() for ref in refs] if refs else ()
    for entry in candidates:
        if entry is not None and entry.is_of(entry.key, values, decided):
            counts["hits"] += entry.count
            return entry
    return None


def _introduce(key: Hashable, entry: CacheEntry) -> None:
    ref = _Live(entry, _forget)
    ref.key = key
    with _lock:
        # compiled code has a cache of its own: a factor found there was not made now
        again = getattr(entry.factor, "found_again", False)
        counts["hits" if again else "factorizations"] += entry.count
        _live.setdefault(key, []).append(ref)


def _forget(ref: Any) -> None:
    with _lock:
        refs = _live.get(ref.key, [])
        rest = [other for other in refs if other is not ref] if len(refs) > 1 else []
        if rest:
            _live[ref.key] = rest
        else:
            _live.pop(ref.key, None)


def set_cache_limit(nbytes: int) -> None:
    """Bound the memory of the factorizations that are cached for JAX; with 0 adjoints factor again.

    Parameters
    ----------
    nbytes : int
        The bound in bytes; 2 << 30 are 2 GiB.

    Raises
    ------
    ValueError
        For anything but an integer >= 0.

    Notes
    -----
    In JAX nothing else owns a factorization. In PyTorch it lives as long as the graph that needs
    it, in NumPy as long as a pullback or a `Factorized`; this limit does not concern them.

    Examples
    --------
    >>> import ldiv
    >>> ldiv.set_cache_limit(2 << 30)
    """
    store.limit = require_int(
        "nbytes", nbytes, 0, what="a number of bytes >= 0", advice="2 << 30 are 2 GiB."
    )
    store.shrink(store.limit)


def clear_cache() -> None:
    """Drop the factorizations cached for JAX and all symbolic work, and reset the counts.

    Notes
    -----
    Factorizations that have another owner stay alive. Symbolic work is that on all patterns.

    Examples
    --------
    >>> import ldiv
    >>> ldiv.clear_cache()
    >>> ldiv.cache_info().factorizations
    0
    """
    empty_all()
    with _lock:
        counts.update(dict.fromkeys(counts, 0))


def cache_info() -> CacheInfo:
    """Counts of analyses, factorizations, hits and solves; live factors; the cache limit.

    Returns
    -------
    info : CacheInfo
        The counts `analyses`, `factorizations`, `hits` and `solves` since the start or the last
        `clear_cache`; the number `entries` of live factors and their `bytes`; the `limit` of
        JAX's store in bytes.

    Notes
    -----
    Under errstate(singular="nan") factors on a device and in programs of JAX are arrays among
    others, and are not counted.

    Examples
    --------
    >>> import ldiv
    >>> ldiv.cache_info().limit > 0
    True
    """
    with _lock:
        # factors and solves in compiled code have counts of their own
        below, bytes_below = live_factors()
        made, solved = program_counts()
        alive = [entry for refs in _live.values() for ref in refs if (entry := ref()) is not None]
        return CacheInfo(
            **counts
            | {
                "factorizations": counts["factorizations"] + made,
                "solves": counts["solves"] + solved,
            },
            entries=sum(entry.count for entry in alive) + below,
            bytes=sum(entry.nbytes for entry in alive) + bytes_below,
            limit=store.limit,
        )
