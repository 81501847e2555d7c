"""NaN and infinity are refused on input, and an overflow inside a rule raises.

Under a transformation only kernels see numbers: front ends run kernels through `evaluated`, and the
jvp or vjp of a rule through `derivative`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from contextvars import ContextVar, Token, copy_context
from dataclasses import dataclass
from functools import partial
from math import isfinite
from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import conform
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import asnumpy, check_or_raise, namespace, numbers, traced
from ldiv.core.frameworks.looks import is_pending, stays_on_device
from ldiv.core.frameworks.trees import Arrays, HostArray, Tree, leaves, rebuild
from ldiv.core.owners.holder import Holder, holding, owner
from ldiv.core.policies.errstate import singular_state, under
from ldiv.core.policies.or_nan import finite_or_nan, is_cotangent, members
from ldiv.core.policies.refused_member import named
from ldiv.core.rules.compiled import CompiledCall, computed, record_of
from ldiv.core.rules.declined import beside_declined
from ldiv.core.rules.rule import Rule, Traits, bind, name_of
from ldiv.core.rules.unchanged import Unchanged
from ldiv.errors import of_numbers, overflowed

BLOCK = 8192  # numbers: beyond 10,000 OpenBLAS wakes its threads, which takes milliseconds on busy cores
DTYPES = frozenset(map(np.dtype, "fdFD"))  # of what a compiled program looks at


def all_finite(x: Any) -> Any:
    """True if no number is NaN or infinite. One sum of squares decides, without temporaries, unless
    it overflows.
    """
    values = x if type(x) is np.ndarray else numbers(x)
    if values is not None:
        return isfinite(total(values)) or bool(np.isfinite(values).all())
    if is_pending(x):
        one = namespace(x).sum(x)  # the sum may have overflowed: then every number is checked
        return one - one == 0  # isfinite is four operations of a device
    if not (traced(x) or stays_on_device(x)) and np.isfinite(asnumpy(namespace(x).sum(x))):
        return True
    return namespace(x).isfinite(x).all()


def total(values: np.ndarray[Any, Any]) -> float:
    """The sum of squares, by BLAS, without warnings.

    It is not finite if one of the numbers is not, or if it overflows.
    """
    if not values.flags.c_contiguous:  # vdot would copy it
        values = values.ravel("K")
    if values.size <= BLOCK:
        return float(np.vdot(values, values).real)
    values = values.reshape(-1)
    blocks = (values[i : i + BLOCK] for i in range(0, len(values), BLOCK))
    return sum(float(np.vdot(x, x).real) for x in blocks)


def require_finite(name: str, *arrays: Array) -> None:
    """Raise if there is NaN or infinity, before any work is done."""
    for a in arrays:
        if type(a) is not np.ndarray or not isfinite(total(a)):
            check_or_raise(all_finite(a), partial(not_finite, name))


def require_known_finite(name: str, x: Array) -> None:
    """Check a public argument under its own name, if its numbers are known; else the rule checks
    them.
    """
    if singular_state() == "nan":
        return
    if (values := numbers(x)) is not None and not np.isfinite(values).all():
        raise not_finite(name)


def not_finite(name: str) -> Exception:
    """Return the error for NaN or infinity in the argument with this public name."""
    return of_numbers(
        ValueError(
            f"{name}: expected finite numbers, got NaN or infinity. "
            "The array must not contain infs or NaNs: look at what made it."
        )
    )


def _ignoring() -> tuple[ContextVar[Any], Any] | None:
    """Find the private context variable of NumPy's error state, and its value for errors that are
    ignored.

    To set this variable takes a tenth of the time of `np.errstate`.
    """
    # NumPy 2 keeps its error state in a private context variable. It has no public name, but entering
    # `np.errstate` sets it, and a copy of the context is a list of all variables with their values:
    # the one that is new or different inside is it. Should there be none (NumPy 1 had a state of
    # its threads) or several, `unwarned` falls back on `np.errstate` itself.
    before = copy_context()
    with np.errstate(all="ignore"):
        after = copy_context()
    # Both copies list only variables that were ever set; one that is at its default is in neither.
    changed = [var for var in after if var not in before or before[var] is not after[var]]
    return (changed[0], after[changed[0]]) if len(changed) == 1 else None


_quiet = _ignoring()


class unwarned:
    """A context in which NumPy does not warn: an overflow is detected in the results."""

    __slots__ = ("_state", "_token")

    def __enter__(self) -> None:
        if _quiet is None:
            self._state = np.errstate(all="ignore")
            self._state.__enter__()
        else:
            self._token: Token[Any] = _quiet[0].set(_quiet[1])

    def __exit__(self, *error: object) -> None:
        if _quiet is None:
            self._state.__exit__(None, None, None)
        else:
            _quiet[0].reset(self._token)


# -- the results of rules -----------------------------------------------------


@dataclass(frozen=True)
class Finite(Unchanged):
    """Check, as a rule, that a result (*batch,) computed from results of other rules is finite."""

    what: str

    # the kernel itself checks its output
    traits = Traits(may_overflow=True, is_condition=True, only_refuses=True)
    core = (0,)

    def kernel(self, *args: Tree) -> Arrays:
        check_or_raise(all_finite(args[0]), partial(overflowed, self.what))
        return (args[0] + 0,)  # a copy: frameworks distinguish outputs from arguments by identity

    def program(self, *flat: Any) -> CompiledCall | None:
        (x,) = flat
        if np.dtype(x.dtype) not in DTYPES or 0 in x.shape:
            return None
        error = overflowed(self.what)
        words = f"{type(error).__name__}: {error}"
        own = ((x.shape, x.dtype),)
        return CompiledCall("ldiv_finite_3", record_of(words=words), own, None, is_look=True)


def finite(what: str, x: Array) -> Array:
    """Return x; raise if it overflowed."""
    return bind(Finite(what), x)[0]


def evaluated(rule: Rule, flat: list[Any]) -> tuple[Any, ...]:
    """The outputs of a kernel, which must be finite unless the rule says otherwise.

    Factors that the kernel makes live at least as long as it runs.
    """
    if owner() is None:
        with under(rule.policy), holding(Holder()):
            return _evaluated_by_policy(rule, flat)
    with under(rule.policy):
        return _evaluated_by_policy(rule, flat)


def refusing(rule: Rule, flat: list[Any]) -> tuple[Any, ...]:
    """Return the outputs of `evaluated`, raising errors under "nan", too, for a caller that writes
    NaN itself.
    """
    with under(rule.policy), nullcontext() if owner() is not None else holding(Holder()):
        return _evaluated(rule, flat)


def evaluated_on_host(rule: Rule, flat: list[HostArray]) -> tuple[HostArray, ...]:
    """Return the outputs for NumPy arrays: those of the compiled operation, or, if it declines, of
    the kernel in its own units.
    """
    found = computed(rule.compiled, flat)
    return evaluated(rule.rescaled_for(flat), flat) if found is None else found[0]


def cotangents_of(
    rule: Rule,
    need: Sequence[bool],
    cotangents: tuple[Any, ...],
    out: tuple[Any, ...],
    flat: Sequence[Any],
    found: Sequence[Any] | None = None,
) -> list[Any]:
    """The cotangents of the arguments, in their spaces: those that were found by the compiled
    operation, or those of the vjp.
    """
    if found is None:
        asked, args = rebuild(rule.core, need), rebuild(rule.core, flat)
        found = leaves(derivative(rule, rule.vjp, asked, cotangents, out, *args))
    return [
        conform(g, x) if n and g is not None else None
        for n, g, x in zip(need, found, flat, strict=True)
    ]


def _evaluated_by_policy(rule: Rule, flat: list[Array], declined: bool = False) -> Arrays:
    """`declined`: these are the members that the compiled operation declined one by one."""
    if rule.compiled is not None and flat[0].ndim > rule.cores[0] and not declined:
        taken = beside_declined(rule, flat, partial(_evaluated_by_policy, declined=True))
        if taken is not None:
            return taken
    if rule.policy == "nan":
        return members(partial(_outputs, rule), rule.cores, flat)
    try:
        return _evaluated(rule, flat)
    except Exception as problem:
        found = named(problem, partial(_evaluated, rule), rule.cores, flat)
        try:
            if found is problem:
                raise
            raise found from None
        finally:
            # the traceback of the error refers to this frame: a cycle that would keep factors alive
            del found


def _outputs(rule: Rule, flat: list[Any]) -> tuple[Any, ...]:
    """The outputs, by the compiled operation if it accepts the arrays, else by the kernel."""
    if {*map(type, flat)} == {np.ndarray} and (found := computed(rule.compiled, flat)) is not None:
        return found[0]
    return _evaluated(rule, flat)


def _evaluated(rule: Rule, flat: list[Any]) -> tuple[Any, ...]:
    with unwarned():
        out = rule.kernel(*rebuild(rule.core, flat))
    if not (rule.traits.may_overflow or rule.traits.sees_overflow):
        for y in out:
            if type(y) is not np.ndarray or not isfinite(total(y)):
                check_or_raise(
                    all_finite(y), partial(_error_of, name_of(rule), () if traced(y) else flat)
                )
    return out


def derivative(rule: Rule, f: Callable[..., Tree], *given: Tree) -> Tree:
    """Return f(*given), f the rule's jvp or vjp, which must be finite. In a trace the rules check
    when the program runs.
    """
    with under(rule.policy), unwarned():
        if rule.policy == "nan":
            return finite_or_nan(rule, f, *given)
        results = f(*given)
    if rule.traits.may_overflow:
        return results
    flat = leaves(results)
    if any(y is not None and type(y) is not np.ndarray and traced(y) for y in flat):
        found = [y if y is None else finite(_derivative_of(rule), y) for y in flat]
        return rebuild(rule.core, found) if is_cotangent(rule, given) else tuple(found)
    look_at_derivative(rule, flat, given)
    return results


def look_at_derivative(rule: Rule, results: Iterable[Array | None], given: Tree) -> None:
    """Raise if a number of them is not finite."""
    for y in results:
        if y is not None and not (type(y) is np.ndarray and isfinite(total(y))):
            check_or_raise(all_finite(y), partial(_error_of, _derivative_of(rule), leaves(given)))


def _derivative_of(rule: Rule) -> str:
    return f"the derivative of {name_of(rule)}"


def _error_of(name: str, given: Iterable[Array]) -> Exception:
    """The error for a result that is not finite: bad input, or overflow."""
    arrays = (x for x in given if hasattr(x, "dtype"))
    return overflowed(name) if all(map(all_finite, arrays)) else not_finite(name)
