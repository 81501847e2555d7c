"""torch.ops.ldiv.rule(key, x): all rules as one operator of PyTorch.

PyTorch's dispatcher takes the operator through what is active, from the outermost level of torch.func
to the numbers, and calls here, for each kind of level:

    Autograd                     the operator one level below, and a node of the graph of this level
    FuncTorchBatched             the operator one level below, on one more leading axis
    ProxyMode, shapes            a node of a program that is recorded; its results without numbers
    CompositeExplicitAutograd    the kernel

The rule is found by its key, since an operator takes no objects. Outside of transforms and programs
a rule needs none of this: `bind` runs its kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch

from ldiv.core.arrays.closures import counting_closures
from ldiv.core.arrays.shapes import leading
from ldiv.core.frameworks.trees import rebuild
from ldiv.core.owners.holder import holding, owner, store
from ldiv.core.policies.errstate import under
from ldiv.core.rules.finite import unwarned
from ldiv.core.rules.own import is_own
from ldiv.core.rules.rule import Rule
from ldiv.frontends.torch import private
from ldiv.frontends.torch.graph import closures
from ldiv.frontends.torch.graph.functionalized import is_functionalized, one_level_below
from ldiv.frontends.torch.graph.kernels import Tensors, kernel
from ldiv.frontends.torch.graph.node import OfUser, carefully, compiled, grown, grows
from ldiv.frontends.torch.graph.node import keeper as _keeper
from ldiv.frontends.torch.graph.recorded import key_of, recorded, rule_of, to_record
from ldiv.frontends.torch.recorders import (
    recording_error,
    shapes_alone,
    sized,
    traced,
    unfilled,
    unobserved,
    values_known,
)
from ldiv.frontends.torch.values import without_autocast

_library = torch.library.Library("ldiv", "DEF")
_library.define("rule(str key, Tensor[] xs) -> Tensor[]", tags=(torch.Tag.pt2_compliant_tag,))
_operator = torch.ops.ldiv.rule.default


def bind(rule: Rule, flat: Sequence[torch.Tensor]) -> Tensors:
    """Return the outputs of a rule, recorded by every transform, graph or program that is active."""
    if unobserved() and (found := compiled(rule, flat)) is not None:
        return found
    rule = rule.rescaled_for(flat)
    if is_own(rule):  # the rule calls no function of the user
        return _bind(rule, flat)
    with counting_closures(closures.watch()):
        return _bind(rule, flat)


def _bind(rule: Rule, flat: Sequence[torch.Tensor]) -> Tensors:
    if private.are_transforms_active():
        if not is_own(rule):
            if is_functionalized():
                return one_level_below(partial(bind, rule), flat)
            return OfUser.apply(rule, _keeper(rule), None, bind, *flat)  # type: ignore[no-untyped-call]
        key, _known = to_record(rule) if traced(None) else key_of(rule)
        with holding(_keeper(rule)):
            return tuple(_operator(key, list(flat)))
    if traced(None):
        key, _known = to_record(rule)
        return tuple(_operator(key, list(flat)))
    return carefully(rule, flat)


# -- what the dispatcher calls --------------------------------------------------------------------


def _by_autograd(key: str, xs: list[torch.Tensor]) -> list[torch.Tensor]:
    rule = rule_of(key)
    if not (private.are_transforms_active() or traced(None)):
        if owner() is not None:
            return list(bind(rule, xs))
        with holding(store):  # a program, in which the derivatives are calls of their own
            return _separate(bind(rule, xs), xs)
    with private.below_autograd():
        ys: list[torch.Tensor] = _operator(key, xs)
    return list(grown(rule, _keeper(rule), ys, xs)) if grows(xs) else ys


def _by_numbers(key: str, xs: list[torch.Tensor]) -> list[torch.Tensor]:
    if unfilled():
        with private.FakeTensorMode() as mode:
            shapes = _by_shapes(key, [mode.from_tensor(x) for x in xs])
        return [torch.zeros(y.shape, dtype=y.dtype, device=y.device) for y in shapes]
    with values_known(), torch.no_grad(), holding(owner() or store):
        return _separate(kernel(rule_of(key), xs), xs)


def _separate(ys: Sequence[torch.Tensor], xs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The results row-major, as programs expect them, and in memory of their own."""
    found, taken = [], {x.untyped_storage().data_ptr() for x in xs}
    for y in ys:
        own = y.resolve_conj().resolve_neg().contiguous()
        own = own.clone() if own.untyped_storage().data_ptr() in taken else own
        taken.add(own.untyped_storage().data_ptr())
        found.append(own)
    return found


def _by_shapes(key: str, xs: list[torch.Tensor]) -> list[torch.Tensor]:
    """Return results without values, by a run of the kernel on tensors without values."""
    rule = rule_of(key)
    try:
        with shapes_alone(), under(rule.policy), unwarned(), holding(None), without_autocast(xs[0]):
            ys = rule.kernel(*rebuild(rule.core, [sized(x) for x in xs]))
    except Exception as error:  # a kernel that must read numbers
        raise recording_error() from error
    return [torch.empty(y.shape, dtype=y.dtype, device=y.device) for y in ys]


def _by_batches(key: str, xs: list[torch.Tensor]) -> list[torch.Tensor]:
    level = private.innermost_level()
    with private.excluded(private.MAPPED):
        plain, axes = zip(*[private.unwrapped_batch(x, level) for x in xs], strict=True)
        ys = _operator(key, leading(plain, rule_of(key).cores, axes))
    if all(axis is None for axis in axes):  # mapped at a level outside of this one
        return list(ys)
    return [private.add_mapped_axis(y, 0, level) for y in ys]


_library.impl("rule", _by_autograd, "Autograd")
_library.impl("rule", _by_batches, "FuncTorchBatched")
_library.impl("rule", _by_numbers, "CompositeExplicitAutograd")
torch.library.register_fake("ldiv::rule", _by_shapes, lib=_library)
torch.library.register_torch_dispatch("ldiv::rule", private.ProxyMode, recorded, lib=_library)
