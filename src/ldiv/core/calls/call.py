"""Calls of public functions: decisions that do not depend on the numbers, made once per kind of array.

    key     the function, its options with their types, errstate, and for each array the signature of
            its front end (type, dtype, device, axes) and its own sizes: never the size of a batch, nor
            the number of columns
    Call    the rule, the conversions of the arrays, and the choice of the outputs to return

The body of a public function is a planner: it validates its arguments, and returns `Bound`, a rule
with its arrays. Where these are the arguments, or conversions of them to another dtype, the next
call of this kind runs the rule at once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial, wraps
from inspect import signature
from operator import itemgetter
from types import FunctionType
from typing import Any, ParamSpec, TypeVar

from ldiv.core.arrays.shapes import astype, batch_of, broadcast, numpy_dtype
from ldiv.core.arrays.validate import require_batches
from ldiv.core.calls.public import unguarded
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import frontend_for, frontend_of, known_frontend
from ldiv.core.frameworks.trees import leaves
from ldiv.core.owners.caches import emptied_by
from ldiv.core.policies.errstate import singular_state
from ldiv.core.rules.rule import Rule, apply, depends_on_scale, in_state

P = ParamSpec("P")
R = TypeVar("R")
Result = Callable[[tuple[Any, ...]], Any]
Use = Callable[[Rule, Any, list[Any]], Any]
Table = dict[Hashable, "Call"]
FIRST: Result = itemgetter(0)
MOST = 1024
OPTIONS = frozenset({bool, str, int, float, type(None)})  # equal options of one type mean the same

_calls: Table = {}  # of plain arrays; those with a Matrix go with its structure
emptied_by(_calls.clear)

# by the type of a Matrix or another holder of parameters: the table of its calls, its parameters, and
# the rest of the key of calls with it
parts_of: dict[type, Callable[[Any], tuple[Table, Any, Hashable]]] = {}


class Bound:
    """A rule and its validated arguments, as a planner returns them; nothing is computed yet."""

    __slots__ = ("flat", "result", "rule", "use")

    def __init__(
        self, rule: Rule, flat: Sequence[Array], result: Result = FIRST, use: Use = apply
    ) -> None:
        self.rule = in_state(rule)
        self.flat, self.result, self.use = list(flat), result, use

    def run(self) -> Any:
        """The result of the call."""
        return self.result(self.use(self.rule, frontend_of(*self.flat).bind, self.flat))


def plan(rule: Rule, flat: Sequence[Array], result: Result = FIRST, use: Use = apply) -> Any:
    """Return a `Bound`, typed as its later result. `use` replaces `apply`: a function of the rule and
    the `bind` of a front end.
    """
    return Bound(rule, flat, result, use)


class Call:
    """A rule for arrays of one kind, validated before: the arguments, of a Matrix its parameters. It
    owns no arrays.
    """

    __slots__ = (
        "as_they_are",
        "broadcasts",
        "converts",
        "cores",
        "dtypes",
        "is_applied",
        "name",
        "result",
        "rule",
        "run",
    )

    def __init__(self, bound: Bound, dtypes: Sequence[Any], name: str) -> None:
        self.rule, self.result, flat = bound.rule, bound.result, bound.flat
        bind, self.is_applied = frontend_of(*flat).bind, bound.use is apply
        is_plain = self.is_applied and not depends_on_scale(self.rule)
        self.run = partial(bind, self.rule) if is_plain else partial(bound.use, self.rule, bind)
        self.dtypes, self.name = dtypes, name  # of conversions; of the second argument
        # a call that only factors has no b
        self.cores = self.rule.cores[: len(flat)]
        self.broadcasts = sum(x.ndim > core for x, core in zip(flat, self.cores, strict=True)) > 1
        self.converts = any(d is not None for d in dtypes)
        self.as_they_are = not (self.converts or self.broadcasts)

    def __call__(self, given: list[Any]) -> Any:
        return self.result(self.run(given if self.as_they_are else self.arrays(given)))

    def arrays(self, given: Sequence[Any]) -> list[Any]:
        """The arguments of the rule. Batches are no part of the key: whether they broadcast is
        checked in each call.
        """
        flat = [x if d is None else astype(x, d) for x, d in zip(given, self.dtypes, strict=True)]
        if self.broadcasts:
            *of_rest, of_last = (
                batch_of(x, core) for x, core in zip(flat, self.cores, strict=True)
            )
            require_batches(self.name, broadcast(*of_rest), of_last)
        return flat


def planned(f: Callable[P, R]) -> Callable[P, R]:
    """Decorate the planner of a public function of a matrix and, if there is a second array, a vector
    or block.
    """
    return _planned(f, 1)


def planned_pair(f: Callable[P, R]) -> Callable[P, R]:
    """Decorate the planner of a public function of two matrices."""
    return _planned(f, 2)


def _planned(f: Callable[P, R], matrices: int) -> Callable[P, R]:
    name = [*signature(f).parameters, ""][1]

    @wraps(f)
    def call(*args: P.args, **kwargs: P.kwargs) -> Any:
        found = _key(call, args, kwargs)
        if found is None:
            bound: Any = f(*args, **kwargs)
            return bound.run() if type(bound) is Bound else bound
        table, key, given = found
        if (known := table.get(key)) is not None:
            return known(given)
        bound = f(*args, **kwargs)
        if type(bound) is not Bound:
            return bound
        _remember(table, key, bound, given, name)
        return bound.run()

    call.matrices = matrices  # type: ignore[attr-defined]
    return call


def _key(
    f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Table, Hashable, list[Any]] | None:
    """Return the table for this call, its key and its arrays; None if the call must be planned each
    time.
    """
    key: list[Any] = [f, singular_state()]
    table, given, is_open, first, own = _calls, list[Any](), True, 1, f.matrices
    if args and (parts := parts_of.get(type(args[0]))) is not None:
        table, params, statics = parts(args[0])
        key.append(statics)
        flat = leaves(params) if type(params) is tuple else [params]
        args, first, own = (*flat, *args[1:]), len(flat), 0
    for x in args:
        kind = type(x)
        if (frontend := known_frontend(kind)) is None:
            if kind in OPTIONS:
                key += kind, x
                is_open = False
                continue
            if (frontend := frontend_for(x)) is None:
                return None
        count = len(given)
        if not is_open or count > first or (of_x := frontend.signature(x)) is None:
            return None  # an array after an option, a third one, or one of a kind that is inspected
        shape = x.shape
        axes = len(shape)
        if count < own:  # a matrix
            key += of_x, axes, shape if axes == 2 else tuple(shape[-2:])
        elif count < first:  # a parameter, whose structure has its shape
            key += of_x, axes
        else:  # a vector or block
            key += of_x, axes, shape[0] if axes == 1 else shape[-2] if axes else None
        given.append(x)
    for name, x in kwargs.items():
        if type(x) not in OPTIONS:
            return None
        key += name, type(x), x
    return (table, tuple(key), given) if given else None


def _remember(table: Table, key: Hashable, bound: Bound, given: list[Any], name: str) -> None:
    """Store the call of this `Bound`, if its arrays are the given ones or conversions of them."""
    flat = bound.flat
    if len(flat) != len(given):
        return
    dtypes: list[Any] = []
    for x, arg in zip(flat, given, strict=True):
        if x is arg:
            dtypes.append(None)
        elif type(x) is type(arg) and x.shape == arg.shape and x.dtype != arg.dtype:
            dtypes.append(numpy_dtype(x))
        else:
            return
    if len(table) >= MOST:
        table.clear()
    table[key] = Call(bound, dtypes, name)


def call_of(f: Callable[..., Any], args: tuple[Any, ...]) -> Call | None:
    """The call that applies a rule to arguments of a kind that came before."""
    # compared by identity: a user's function may have the name and the attributes of one of ldiv's
    own = unguarded.get(f) if type(f) is FunctionType else None
    found = _key(own, args, {}) if hasattr(own, "matrices") else None
    if found is None or len(found[2]) != len(args):
        return None
    return known if (known := found[0].get(found[1])) is not None and known.is_applied else None
