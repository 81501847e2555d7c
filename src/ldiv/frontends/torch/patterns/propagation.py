"""The pattern of a Jacobian: index sets are propagated along the operations of a reverse pass.

The map y_bar -> J^T y_bar is run once, and each of its ATen operations is intercepted, also where the
graph of autograd is cut (once_differentiable, detach). Each element of a storage has a set, so that
views need no rule, and all views see in-place writes. The map is linear: few operations meet a
cotangent. A value that depends on x but not on y_bar is taken to be nonzero. `rules` maps sets
through operations; an operation without a rule raises Untraceable. Branches of Python are followed
as they are taken at x. Integers that Python reads are indices, for which all depends on all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch.overrides import TorchFunctionMode

from ldiv.core.rules.rule import Rule
from ldiv.frontends.index_sets import Sets, Untraceable, each, of_rule, selected, whole
from ldiv.frontends.torch import private
from ldiv.frontends.torch.patterns.calls import Operation, aten, tensors_in
from ldiv.frontends.torch.patterns.rules import sets_of_results
from ldiv.frontends.torch.recorders import traced
from ldiv.frontends.torch.user.hooks import without_hooks
from ldiv.frontends.torch.user.repeated import GraphChecks
from ldiv.frontends.torch.user.reverse_mode import vjp


def dependence(f: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> Sets | None:
    """A superset of the pattern of the Jacobian of f, along the branches that f takes at x; None
    where it cannot be found.
    """
    if private.are_transforms_active() or traced(x):
        return None
    x = x.detach().clone()
    watch = Watch(x)
    # checks of derivatives inside of f would take numbers out of torch: who evaluates f checks them
    no_checks = GraphChecks(is_enough=True)
    try:
        with no_checks.inside(), without_hooks(), watch:
            with Leaving(watch):
                y, pull = vjp(f, (x,))
            watch.follow(y_bar := torch.ones_like(y))
            pull(y_bar)
            watch.met_all = True  # all tensors that exist before the pass
            x_bar = pull(y_bar)[0]
        found = watch.sets_of(x_bar)
    except Untraceable:
        return None
    shape = (len(y), len(x))
    if watch.saw_integers:
        return whole(shape)
    return sp.csr_array(shape, dtype=bool) if found is None else sp.csr_array(found.T)


LEAVING = (torch.Tensor.numpy, torch.Tensor.__array__, torch.Tensor.__dlpack__)


class Watch(private.LightDispatchMode):
    """A mode that records, for each storage, the sets of its elements, and its dependence on x."""

    def __init__(self, x: torch.Tensor) -> None:
        super().__init__()
        self.met_all = False  # did all tensors come by that no operation makes?
        # by its address: one tensor on each storage
        self.alive: dict[int, tuple[torch.Tensor, int]] = {}
        self.sets: dict[int, Sets] = {}
        self.at_x: set[int] = {self._key(x)}
        self.saw_integers = False  # did Python get to see an integer that depends on x?

    def follow(self, y_bar: torch.Tensor) -> None:
        self.n = len(y_bar)
        self.sets[self._key(y_bar)] = each(self.n)

    # -- memory -------------------------------------------------------------------

    def _made(self, out: Sequence[Any]) -> list[torch.Tensor]:
        for y in (found := tensors_in(out)):
            self._key(y, is_made=True)
        return found

    def _key(self, t: torch.Tensor, is_made: bool = False) -> int:
        """The storage of a tensor, which stays alive as long as it is known here."""
        if t.layout is not torch.strided:
            raise Untraceable("a sparse tensor")
        key = int(t.untyped_storage()._cdata)
        if self.met_all and not is_made and key not in self.alive:
            raise Untraceable("a tensor that no operation made, of numbers that left torch")
        _, size = self.alive.setdefault(key, (t, t.element_size()))
        if size != t.element_size() and (key in self.sets or key in self.at_x):
            raise Untraceable("a view as another dtype")
        return key

    def sets_of(self, t: torch.Tensor) -> Sets | None:
        """The sets of the elements of a tensor, None if all are empty."""
        if (sets := self.sets.get(self._key(t))) is None:
            return None
        places = _places(t)
        whole = len(places) == sets.shape[0] and (places == np.arange(len(places))).all()
        found = sets if whole else selected(sets, places)
        return found if found.nnz else None

    def write(self, t: torch.Tensor, sets: Sets | None) -> None:
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

    def depends_on_x(self, t: torch.Tensor) -> bool:
        return self._key(t) in self.at_x

    def follows(self, t: torch.Tensor) -> bool:
        key = self._key(t)
        return key in self.sets or key in self.at_x

    # -- operations ---------------------------------------------------------------

    def __torch_dispatch__(self, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        given = tensors_in([*args, *kwargs.values()])
        if not any([self.follows(t) for t in given]):  # noqa: C419  (each is met)
            out = op(*args, **kwargs)
            self._made([out])
            return out
        moving = {id(t): s for t in given if (s := self.sets_of(t)) is not None}
        at_x = any(map(self.depends_on_x, given))
        shared = {self._key(t) for t in given}
        out = op(*args, **kwargs)
        results, written = self._made([out]), op._schema.is_mutable
        if at_x:
            self.at_x.update(self._key(y) for y in results)
            self.at_x.update(self._key(t) for t in given if written and not results)
        if op is aten._local_scalar_dense.default:
            self._leave(out, bool(moving))
            return out
        if not written and all(self._key(y) in shared for y in results):
            return out  # views
        call = Operation(self.depends_on_x, op, args, kwargs, moving, results)
        if not moving:
            for y in results:
                self.write(y, None)
        else:
            with private.without_dispatch_modes():
                found = sets_of_results(call)
            for y, sets in zip(results, found, strict=True):
                self.write(y, sets if y.is_floating_point() or y.is_complex() else None)
        return out

    def _leave(self, number: Any, moves: bool) -> None:
        if moves:
            raise Untraceable("a number that leaves torch")
        self.saw_integers |= isinstance(number, int) and not isinstance(number, bool)

    def rule(
        self,
        kernel: Callable[..., tuple[torch.Tensor, ...]],
        rule: Rule,
        flat: Sequence[torch.Tensor],
    ) -> tuple[torch.Tensor, ...]:
        """A rule of ours."""
        moving = [self.sets_of(x) for x in flat]
        with private.without_dispatch_modes():
            out = kernel(rule, flat)
        self._made(out)
        if any(map(self.depends_on_x, flat)):
            self.at_x.update(map(self._key, out))
        shapes, onto = ([tuple(x.shape) for x in xs] for xs in (flat, out))
        if any(sets is not None for sets in moving):
            for y, sets in zip(out, of_rule(rule, shapes, moving, onto), strict=True):
                self.write(y, sets)
        return out


class Leaving(TorchFunctionMode):
    """A mode that detects values that leave to NumPy, which no operation shows."""

    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self.watch = watch

    def __torch_function__(self, f: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if f in LEAVING and self.watch.follows(args[0]):
            raise Untraceable("numbers that leave torch")
        return f(*args, **(kwargs or {}))


def _places(t: torch.Tensor) -> Any:
    """The positions of the elements of a tensor in its storage."""
    place = np.array(t.storage_offset(), dtype=np.intp)
    for d, s in zip(t.shape, t.stride(), strict=True):
        place = place[..., None] + s * np.arange(d)
    return place.ravel()
