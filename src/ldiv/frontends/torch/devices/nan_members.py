"""y = kernel(x), and NaN in the batch members that the kernel refuses, without reading from a device.

The kernel of one member is mapped over the batch by `torch.func.vmap`, so that each member has its own
checks, and `where` puts NaN in their place, on the device. Factors that the kernel makes are further
outputs, and further arguments of the kernels of its derivatives. These find a factor by the address of
its matrix in memory, without reading its values.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import torch

from ldiv.core.arrays.shapes import batch_of, broadcast
from ldiv.core.frameworks import looks
from ldiv.core.owners.holder import Holder, TracedFactor, TracedHolder, holding, owner
from ldiv.core.policies.or_nan import nothing, unless_refused, varies
from ldiv.core.rules.finite import refusing
from ldiv.core.rules.rule import Rule
from ldiv.frontends.torch import private

Layout = tuple[Any, ...]
Outputs = tuple[torch.Tensor, ...]


def outputs(rule: Rule, flat: Sequence[torch.Tensor]) -> Outputs | None:
    """The outputs of all batch members; None if the kernel must read values from the device."""
    batches = [batch_of(x, core) for x, core in zip(flat, rule.cores, strict=True)]
    whole = broadcast(*batches)
    # a user's function may close over tensors that the levels of vmap would hide
    if 0 in whole or (whole and rule.traits.calls_user):
        return None
    kept = _kept()
    given = kept.of(flat, whole)
    factor_arrays = [y for factor in given for y in factor.arrays]
    cores = [*rule.cores, *(core for factor in given for core in factor.traced.core)]
    own = [x.shape[x.ndim - c :] for x, c in zip((*flat, *factor_arrays), cores, strict=True)]
    every = [
        varies(batch_of(x, c), whole) for x, c in zip((*flat, *factor_arrays), cores, strict=True)
    ]
    made: list[TracedFactor] = []
    f: Any = partial(_one, rule, [factor.traced for factor in given], made)
    mapped: list[int] = []
    for axis in reversed(range(len(whole))):
        if any(v[axis] for v in every):
            f = torch.func.vmap(f, tuple(0 if v[axis] else None for v in every))
            mapped.insert(0, axis)
    squeezed = [
        x.reshape((*(n for n, v in zip(whole, vs, strict=True) if v), *shape))
        for x, vs, shape in zip((*flat, *factor_arrays), every, own, strict=True)
    ]
    try:
        found = f(*squeezed)
    except _AsksError:
        return None
    count = len(found) - sum(len(factor.core) for factor in made)
    arrays = iter(found[count:])
    for factor in made:
        along = [any(every[i][axis] for i in factor.places) for axis in range(len(whole))]
        kept.add(flat, factor, [_alone(next(arrays), mapped, along) for _ in factor.core], whole)
    return tuple([y.reshape((*whole, *y.shape[len(mapped) :])) for y in found[:count]])


def _one(
    rule: Rule, given: Sequence[TracedFactor], made: list[TracedFactor], *args: torch.Tensor
) -> Outputs:
    """Return the outputs of one batch member, then the arrays of the factors that were `made`."""
    flat, factor_arrays = list(args[: len(rule.cores)]), args[len(rule.cores) :]
    keeper = TracedHolder(flat, given, factor_arrays)
    run = partial(unless_refused, partial(refusing, rule), flat)
    with holding(keeper):
        found = looks.without_reads(_device, run)
    if found is None or found[0] is None:
        raise _AsksError
    out, ok = found[0], found[1]
    made[:] = keeper.factors[len(given) :]
    if ok is not True:
        out = tuple([torch.where(ok, y, nothing(y)) for y in out])
    return (*out, *keeper.made)


class _AsksError(Exception):
    """Raised if the control flow of the kernel needs values of the device; caught, never an error."""


class _Device:
    """A device, under the wrappers of the batch, too."""

    @staticmethod
    def owns(x: Any) -> bool:
        return isinstance(x, torch.Tensor) and not x.is_cpu

    @staticmethod
    def every(answers: Sequence[torch.Tensor]) -> torch.Tensor:
        return torch.stack(list(answers)).all()

    @staticmethod
    def read(answers: Sequence[torch.Tensor]) -> list[bool]:
        raise AssertionError("nobody asks")


_device = _Device()


def _alone(y: torch.Tensor, mapped: Sequence[int], along: Sequence[bool]) -> torch.Tensor:
    """Return y with length 1 along the batch axes that its arguments do not have."""
    for place, axis in enumerate(mapped):
        if not along[axis]:
            y = y.narrow(place, 0, 1)
    for axis in range(len(along)):
        if axis not in mapped:
            y = y.unsqueeze(axis)
    return y if any(along) else y.reshape(y.shape[len(along) :])


# -- factors, from one kernel to those of its derivatives --------------------------------------------


class Kept(NamedTuple):
    """A factor, and the tensors of its matrix, kept alive, with their versions when it was made."""

    traced: TracedFactor
    arrays: list[torch.Tensor]
    values: list[torch.Tensor]
    versions: list[int]
    batch: tuple[int, ...]


class DeviceFactors:
    """The factors of one call, and tensors that are copies of others."""

    def __init__(self) -> None:
        self._factors: list[Kept] = []
        self._aliases: dict[Layout, tuple[Layout, torch.Tensor]] = {}

    def record_alias(self, made: Any, given: Any) -> None:
        if made is not given and (layout := _layout(made)) and (other := _layout(given)):
            self._aliases[layout] = self._named(other), made

    def _named(self, layout: Layout) -> Layout:
        return self._aliases[layout][0] if layout in self._aliases else layout

    def of(self, flat: Sequence[torch.Tensor], whole: tuple[int, ...]) -> list[Kept]:
        """Return the factors whose values are among the arrays `flat`, with their positions in
        `flat`.
        """
        at = {self._named(layout): i for i, x in enumerate(flat) if (layout := _layout(x))}
        found = []
        for kept in self._factors:
            places = [at.get(_layout(x) or ()) for x in kept.values]
            is_new = [x._version for x in kept.values] != kept.versions
            if None in places or is_new or kept.batch not in ((), whole):
                continue
            found.append(kept._replace(traced=kept.traced._replace(places=tuple(places))))  # type: ignore[arg-type]
        return found

    def add(
        self,
        flat: Sequence[torch.Tensor],
        factor: TracedFactor,
        arrays: list[torch.Tensor],
        whole: tuple[int, ...],
    ) -> None:
        values = [flat[i] for i in factor.places]
        is_shared = all(y.ndim == core for y, core in zip(arrays, factor.core, strict=True))
        batch = () if is_shared else whole
        self._factors.append(Kept(factor, arrays, values, [x._version for x in values], batch))


def _kept() -> DeviceFactors:
    """Return the factors on a device of the call whose kernel runs."""
    if type(keeper := owner()) is not Holder:
        return DeviceFactors()
    if keeper.device_factors is None:
        keeper.device_factors = DeviceFactors()
    found: DeviceFactors = keeper.device_factors
    return found


def _layout(x: Any) -> Layout | None:
    """The address and layout of the memory of x; None for a member of a mapped batch."""
    while private.is_wrapped(x):
        if private.batch_axis(x) >= 0:
            return None
        x = private.unwrapped(x)
    return x.data_ptr(), tuple(x.shape), x.stride(), x.dtype, x.is_conj(), x.is_neg()
