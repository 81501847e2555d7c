"""y = kernel(x), x_bar = vjp(y_bar) in Python, on plain tensors: no transform is active, no derivative
in sight. A rule whose arguments are few numbers in the memory of this process runs on NumPy arrays,
which cost less there than tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import torch

from ldiv.core.frameworks.trees import rebuild
from ldiv.core.rules.compiled import in_rows, pulled_back
from ldiv.core.rules.finite import cotangents_of, derivative, evaluated, evaluated_on_host
from ldiv.core.rules.rescaling import InUnits
from ldiv.core.rules.rule import Rule
from ldiv.frontends.torch import private
from ldiv.frontends.torch.devices.waiting import outputs
from ldiv.frontends.torch.values import PLAIN, as_tensor, plain_values_of, without_autocast

Tensors = tuple[torch.Tensor, ...]


def rows(xs: Sequence[torch.Tensor | None]) -> list[Any] | None:
    """The tensors as C++ reads them by DLPack: row-major copies or views in the memory of this
    process, neither conjugated nor negated; None if one of them is elsewhere.
    """
    found: list[Any] = []
    for x in xs:
        if x is None:
            found.append(None)
        elif not x.is_cpu or type(x) not in PLAIN:
            return None
        elif private.is_zero(x) or x.is_neg() or x.is_conj():
            found.append(in_rows(plain_values_of(x)))
        else:  # PyTorch turns columns into rows by tiles
            found.append(x if x.is_contiguous() else x.detach().contiguous())
    return found


def kernel(rule: Rule, flat: Sequence[torch.Tensor], declined: bool = False) -> Tensors:
    """The outputs of the compiled operation, unless that has declined, or of the kernel in Python."""
    if private.count_dispatch_modes() and (watch := _watching()) is not None:
        found: Tensors = watch(kernel, rule, flat)
        return found
    if not private.count_function_modes() and are_few(rule, flat):
        run = evaluated if declined else evaluated_on_host
        return tuple([as_tensor(y) for y in run(rule, [plain_values_of(x) for x in flat])])
    # a torch function mode of the user, such as a default device, must not affect kernels
    modes = private.without_function_modes() if private.count_function_modes() else nullcontext()
    with modes, without_autocast(flat[0]):
        return tuple([_own(y) for y in outputs(rule, [x.detach() for x in flat])])


def _own(y: torch.Tensor) -> torch.Tensor:
    """An output that is no view: PyTorch lets nobody write to a view that a Function returns, and in
    forward mode it cannot give tangents to several views of one array.
    """
    if not private.is_view(y):
        return y
    return y.clone() if private.in_forward_mode() else y.detach()


def _watching() -> Any:
    """The function that ldiv's active dispatch mode runs in place of a kernel, None without one."""
    return getattr(private.current_dispatch_mode(), "rule", None)


def are_few(rule: Rule, flat: Sequence[torch.Tensor]) -> bool:
    """True if the kernel runs on NumPy arrays instead of tensors."""
    if not rule.traits.on_host:
        return False
    few = True
    for x, core in zip(flat, rule.cores, strict=True):
        if not x.is_cpu or type(x) not in PLAIN:
            return False
        few = few and x.ndim == core and x.numel() <= rule.traits.few
    calls = rule.rule.compiled if isinstance(rule, InUnits) else rule.compiled
    return few or (calls is not None and calls.taking(*flat) is not None)


def pushforward(
    rule: Rule, saved: Sequence[torch.Tensor], given: Sequence[torch.Tensor | None]
) -> Sequence[torch.Tensor | None] | None:
    """The tangents of the outputs on NumPy arrays; None if tensors are necessary."""
    count = len(given)
    if not are_few(rule, saved[:count]):
        return None
    xs = [None if x is None else plain_values_of(x) for x in (*saved, *given)]
    args = rebuild(rule.core, xs[:count])
    dargs = rebuild(rule.core, xs[-count:])
    moved = derivative(rule, rule.jvp, dargs, tuple(xs[count:-count]), *args)
    return [None if dy is None else as_tensor(dy) for dy in moved]


def pullback(
    rule: Rule,
    need: Sequence[bool],
    saved: Sequence[torch.Tensor],
    cotangents: Sequence[torch.Tensor | None],
    declined: bool,
) -> list[torch.Tensor | None]:
    """The cotangents of the arguments on NumPy arrays, in their spaces; `saved` are arguments and
    outputs. `declined`: the compiled operation has declined this pullback.
    """
    values = [plain_values_of(x) for x in saved]
    args, out = values[: len(need)], tuple(values[len(need) :])
    given = tuple([None if c is None else plain_values_of(c) for c in cotangents])
    found = None if declined else pulled_back(rule.compiled, need, given, out, args)
    found = cotangents_of(rule, need, given, out, args, found)
    return [g if g is None else as_tensor(g) for g in found]
