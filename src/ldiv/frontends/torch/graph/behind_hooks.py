"""The owner of factors where a hook takes the saved tensors, as those of torch.utils.checkpoint do.

Such a hook frees the token that carries an owner. So all calls behind hooks share a store for each
pattern, with its last factors: the steps of a loop with one matrix need no other. A store lives as long
as a node that a backward pass has not met.
"""

from __future__ import annotations

import weakref

from ldiv.core.owners.caches import emptied_by
from ldiv.core.owners.holder import store
from ldiv.core.owners.store import Store
from ldiv.core.rules.rule import Rule
from ldiv.frontends.torch import private

_shared: weakref.WeakValueDictionary[int, Store] = weakref.WeakValueDictionary()


def owner_behind_hooks(rule: Rule) -> Store | None:
    """Return the store of this matrix; None where no hook takes what a node saves."""
    if private.top_hooks(True) is None:
        return None
    found = shared_store(rule)
    if found is None:
        found = _shared[_pattern(rule)] = Store(store.limit)
    return found


def shared_store(rule: Rule) -> Store | None:
    """Return the store of this matrix; None where no node needs it."""
    return _shared.get(_pattern(rule))


def _pattern(rule: Rule) -> int:
    return hash(getattr(rule, "structure", type(rule)))


def _clear() -> None:
    for found in list(_shared.values()):
        found.clear()


emptied_by(_clear)
