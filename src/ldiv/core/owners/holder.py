"""Ownership of factorizations: the holder of a call keeps them while derivatives may need them.

A front end makes a `Holder` for each differentiable call, and runs the kernel and every tangent and
cotangent under it. The holder keeps the factors that are made or found meanwhile, and frees them
when it dies. Without a holder a factor lives no longer than its call. In a trace, the arrays of a
factor are additional outputs of the rule that made it, and additional arguments of the rules of its
derivatives; `TracedHolder` manages them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextvars import ContextVar, Token
from typing import Any, NamedTuple, Protocol

from ldiv.core.owners.caches import emptied_by
from ldiv.core.owners.store import Store


class Owner(Protocol):
    """An object that keeps others alive."""

    def keep(self, thing: Any, key: Any = None, value_hash: int = 0) -> None:
        """Keep an object under the `key` and the `value_hash` of the store (see `ldiv.core.owners.store`)."""

    def make_room(self, key: Any, value_hash: int) -> None:
        """Prepare for a new object with this `key` and `value_hash` (see `ldiv.core.owners.store`)."""


class Holder:
    """The objects that one call made: alive as long as the holder."""

    __slots__ = ("_kept", "device_factors", "latest")

    def __init__(self) -> None:
        self._kept: dict[int, Any] = {}
        self.latest: Any = None  # the object kept last, None if there is none
        self.device_factors: Any = None  # factors on a device whose values are not read

    def keep(self, thing: Any, key: Any = None, value_hash: int = 0) -> None:
        self._kept[id(thing)] = self.latest = thing

    def make_room(self, key: Any, value_hash: int) -> None:
        """Do nothing: derivatives need all that the holder keeps."""

    @property
    def kept(self) -> tuple[Any, ...]:
        return tuple(self._kept.values())

    def forget(self, thing: Any, latest: Any) -> None:
        """Undo `keep`."""
        self._kept.pop(id(thing), None)
        self.latest = latest

    def clear(self) -> None:
        self._kept.clear()
        self.latest = self.device_factors = None

    def __deepcopy__(self, cached: Any) -> Holder:
        return Holder()

    def __reduce__(self) -> Any:
        return Holder, ()


class TracedFactor(NamedTuple):
    """A traced factor, without its arrays."""

    key: Hashable
    places: tuple[int, ...]  # where the factored values are among the leaves of a rule's arguments
    make: Callable[..., Any]  # arrays -> factor
    core: tuple[int, ...]  # the own axes of each array


class TracedHolder:
    """The holder in a trace: it has the factors given to a rule with its arguments `flat`, and
    those that its kernel makes.

    A factor is found by the identity of the tracers from which it was made. A tracer computed from
    an argument, in the same way each time, is an alias of it (`record_alias`).
    """

    __slots__ = ("_alive", "_arrays", "_given", "_places", "factors")

    def __init__(
        self, flat: Sequence[Any], given: Sequence[TracedFactor], arrays: Sequence[Any]
    ) -> None:
        rest = iter(arrays)
        self._given = len(given)
        self._places = {id(x): i for i, x in enumerate(flat)}
        self._alive = list(flat)  # kept alive, so that their ids are not reused by other tracers
        self.factors = [
            factor._replace(places=tuple([self._places[id(flat[i])] for i in factor.places]))
            for factor in given
        ]
        self._arrays = [[next(rest) for _ in factor.core] for factor in given]

    def keep(self, thing: Any, key: Any = None, value_hash: int = 0) -> None:
        store.keep(thing, key, value_hash)

    def make_room(self, key: Any, value_hash: int) -> None:
        store.make_room(key, value_hash)

    def record_alias(self, made: Any, given: Any) -> None:
        if id(given) in self._places:
            self._places[id(made)] = self._places[id(given)]
            self._alive.append(made)

    def factor(self, key: Hashable, values: Sequence[Any], make: Callable[[], Any]) -> Any:
        """The factor of these values: a given one, or that of `make()`.

        A new one is passed on to the derivatives if it consists of arrays.
        """
        places = _found(map(id, values), self._places)
        for kept, arrays in zip(self.factors, self._arrays, strict=True):
            if kept.places == places and kept.key == key:
                return kept.make(*arrays)
        made = make()
        if places is not None and made.arrays:
            self.factors.append(TracedFactor(key, places, made.remake, made.core))
            self._arrays.append(list(made.arrays))
        return made

    @property
    def made(self) -> list[Any]:
        """The arrays of all factors that the kernel made."""
        return [x for arrays in self._arrays[self._given :] for x in arrays]

    def known_of(self, flat: Sequence[Any]) -> tuple[tuple[TracedFactor, ...], list[Any]]:
        """Return the factors whose values are among these leaves, and the arrays of these factors."""
        found = list(self._of(flat))
        return tuple(factor for factor, _ in found), [x for _, arrays in found for x in arrays]

    def _of(self, flat: Sequence[Any]) -> Iterator[tuple[TracedFactor, list[Any]]]:
        at = {self._places.get(id(x)): i for i, x in enumerate(flat)}
        for factor, arrays in zip(self.factors, self._arrays, strict=True):
            if (places := _found(factor.places, at)) is not None:
                yield factor._replace(places=places), arrays


def _found(wanted: Iterable[Hashable], at: dict[Any, int]) -> tuple[int, ...] | None:
    """Return the positions of all `wanted`; None if one is missing."""
    places = [at.get(x) for x in wanted]
    return None if None in places else tuple(places)  # type: ignore[arg-type]


def record_alias(made: Any, given: Any) -> None:
    """Record that `made`, computed from the argument `given`, has the factor of that argument; for
    tracers, and on devices whose values are not read.
    """
    keeper = owner()
    if isinstance(keeper, TracedHolder):
        keeper.record_alias(made, given)
    elif type(keeper) is Holder and keeper.device_factors is not None:
        keeper.device_factors.record_alias(made, given)


PHYSICAL = (
    os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 16 << 30
)
store = Store(min(2 << 30, PHYSICAL // 8))
emptied_by(store.clear)

_owner: ContextVar[Owner | None] = ContextVar("owner", default=None)


# The present owner; a bound method, since every call asks for it.
owner: Callable[[], Owner | None] = _owner.get


class holding:
    """Return a context in which this owner, and no other, keeps factors that are made or found."""

    __slots__ = ("_owner", "_token")

    def __init__(self, owner: Owner | None) -> None:
        self._owner = owner

    def __enter__(self) -> None:
        self._token: Token[Owner | None] = _owner.set(self._owner)

    def __exit__(self, *error: object) -> None:
        _owner.reset(self._token)
