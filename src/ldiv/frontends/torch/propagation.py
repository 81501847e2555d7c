"""Where a Jacobian may not be zero: index sets go along with the operations of its tangent map.

The tangent map dx -> J dx is run once, and each ATen operation in it is met on the way. Sets belong
to the memory of tensors, an element of a storage each, so that views need no rule, and what is
written in place is seen by all views. The map is linear: few operations meet a tangent. What
depends on x but not on dx is taken for a number that is never zero. What an operation does with
sets is in `propagation_rules`; one that is not raises Untraceable. Branches of Python are followed
as they are taken at x.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from ldiv.core.index_sets import Sets, Untraceable, each, of_rule, selected
from ldiv.core.rule import Rule
from ldiv.core.trees import Array
from ldiv.frontends.torch.propagation_rules import Call, aten, sets_of_results, tensors_in
from ldiv.frontends.torch.recorders import traced
from ldiv.frontends.torch.transforms import jvp


def dependence(f: Callable[[Array], Array], x: Array) -> Sets | None:
    """A superset of the pattern of the Jacobian of f, along the branches that f takes at x; None
    where it cannot be found.
    """
    if torch._C._are_functorch_transforms_active() or traced(x):
        return None
    x, dx = x.detach().clone(), torch.ones_like(x)
    watch = Watch(x, dx)
    try:
        with watch:
            y = jvp(f, (x,), (dx,))[1]
        found = watch.sets_of(y)
    except Untraceable:
        return None
    return sp.csr_array((y.numel(), len(x)), dtype=bool) if found is None else found


class Watch(TorchDispatchMode):
    """What the storages hold: the sets of their elements, and which numbers depend on x."""

    def __init__(self, x: Array, dx: Array) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.n = len(dx)
        self.alive: dict[int, tuple[Array, int]] = {}  # by its address: one tensor on each storage
        self.sets: dict[int, Sets] = {}
        self.at_x: set[int] = {self._key(x)}
        self.sets[self._key(dx)] = each(self.n)

    # -- memory -------------------------------------------------------------------

    def _key(self, t: Array) -> int:
        """The storage of a tensor, which stays alive as long as it is known here."""
        if t.layout is not torch.strided:
            raise Untraceable("a sparse tensor")
        key = int(t.untyped_storage()._cdata)
        _, size = self.alive.setdefault(key, (t, t.element_size()))
        if size != t.element_size() and (key in self.sets or key in self.at_x):
            raise Untraceable("a view as another dtype")
        return key

    def sets_of(self, t: Array) -> Sets | None:
        """Those of the elements of a tensor, None for none."""
        if (sets := self.sets.get(self._key(t))) is None:
            return None
        places = _places(t)
        whole = len(places) == sets.shape[0] and (places == np.arange(len(places))).all()
        found = sets if whole else selected(sets, places)
        return found if found.nnz else None

    def write(self, t: Array, sets: Sets | None) -> None:
        key = self._key(t)
        if sets is None and key not in self.sets:
            return
        size = t.untyped_storage().nbytes() // t.element_size()
        source = np.full(size, -1)
        if (before := self.sets.get(key)) is not None:
            source[:] = np.arange(size)
        else:
            before = sp.csr_array((0, self.n), dtype=bool)
        source[_places(t)] = before.shape[0] + np.arange(t.numel()) if sets is not None else -1
        parts = [before] if sets is None else [before, sets]
        self.sets[key] = selected(sp.vstack(parts, format="csr"), source)

    def depends_on_x(self, t: Array) -> bool:
        return self._key(t) in self.at_x

    # -- operations ---------------------------------------------------------------

    def __torch_dispatch__(self, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        given = tensors_in([*args, *kwargs.values()])
        if not any(self._key(t) in self.sets or self._key(t) in self.at_x for t in given):
            return op(*args, **kwargs)
        moving = {id(t): s for t in given if (s := self.sets_of(t)) is not None}
        at_x = any(map(self.depends_on_x, given))
        shared = {self._key(t) for t in given}
        out = op(*args, **kwargs)
        results, written = tensors_in([out]), op._schema.is_mutable
        if at_x:
            self.at_x.update(self._key(y) for y in results)
            self.at_x.update(self._key(t) for t in given if written and not results)
        if not written and all(self._key(y) in shared for y in results):
            return out  # views
        call = Call(self.depends_on_x, op, args, kwargs, moving, results)
        if not moving:
            for y in results:
                self.write(y, None)
        elif op is aten._local_scalar_dense.default:
            raise Untraceable("a number that leaves torch")
        else:
            with _disable_current_modes():
                found = sets_of_results(call)
            for y, sets in zip(results, found, strict=True):
                self.write(y, sets if y.is_floating_point() or y.is_complex() else None)
        return out

    def rule(
        self, kernel: Callable[..., tuple[Array, ...]], rule: Rule, flat: Sequence[Array]
    ) -> tuple[Array, ...]:
        """A rule of ours."""
        moving = [self.sets_of(x) for x in flat]
        with _disable_current_modes():
            out = kernel(rule, flat)
        if any(map(self.depends_on_x, flat)):
            self.at_x.update(map(self._key, out))
        shapes, onto = ([tuple(x.shape) for x in xs] for xs in (flat, out))
        if any(sets is not None for sets in moving):
            for y, sets in zip(out, of_rule(rule, shapes, moving, onto), strict=True):
                self.write(y, sets)
        return out


def _places(t: Array) -> Any:
    """Where in their storage the elements of a tensor are."""
    place = np.array(t.storage_offset(), dtype=np.intp)
    for d, s in zip(t.shape, t.stride(), strict=True):
        place = place[..., None] + s * np.arange(d)
    return place.ravel()
