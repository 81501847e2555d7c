"""The owner of factors where a hook takes the saved tensors, as those of torch.utils.checkpoint do.

Such a hook frees the token that carries an owner. So all calls behind hooks share one store with the
last factors of each pattern: the steps of a loop with one matrix need no other. The store lives as long
as a node that a backward pass has not met.
"""

from __future__ import annotations

import weakref

from ldiv.core.owners.holder import store
from ldiv.core.owners.store import Store
from ldiv.frontends.torch import private

_shared: weakref.WeakValueDictionary[str, Store] = weakref.WeakValueDictionary()


def owner_behind_hooks() -> Store | None:
    """Return the shared store; None where no hook takes what a node saves."""
    if private.top_hooks(True) is None:
        return None
    found = shared_store()
    if found is None:
        found = _shared["store"] = Store(store.limit)
    return found


def shared_store() -> Store | None:
    """Return the shared store; None where no node needs it."""
    return _shared.get("store")
