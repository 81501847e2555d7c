"""A rule is y = kernel(args) with its tangent and its cotangent, each written with other rules.

A rule is a small frozen object: its fields are the static arguments (structures, options), its arguments are nested tuples
of arrays. Inside `jvp` and `vjp` only rules and array operators are used, so a derivative taken inside a derivative enters
the framework again: every higher order and every mode follows from the two methods.

A front end is one file in `frontends/`, named after its framework and loaded only once that framework is imported.
It must define

    owns(x)                   is x one of its arrays?
    bind(rule, leaves)        run the kernel, and teach the framework the rule's derivatives
    asnumpy(x)                its values, cut off from the derivative, as a NumPy array
    host(x)                   can the values be read here and now, as a NumPy array, without a copy?
    on_host(f, specs, *xs)    run f on NumPy arrays; specs are the (shape, dtype) of its results
    scatter(x, index, size)   y[..., i, :] = sum of x[..., e, :] over the e with index[e] = i

and the dense kernels lu_factor, lu_solve, cholesky and solve_triangular. A framework that traces functions defines besides

    traced(x)                 do the values of x come later, when the trace is run?
    insist(ok, error, *xs)    in a trace: raise error(*xs), of numbers on the host, in the call that runs it, unless ok
    either(ok, f, g)          f() where ok, else g(), tuples of arrays, by computing only one of them; g() will do for both
    device(x)                 where engines find the values of x
    product(a, x)             a @ x with the rounding of its dtype, whatever a device would rather do
    loop(going, body, state)  while going(state): state = body(state), for a tuple of arrays
    tell(f, *xs)              call f with the values of xs when they are there
    constant(x)               x, cut off from the derivative
    copied(x, memo)           a deep copy of x, also where x is the result of a differentiable operation

and a framework that differentiates functions of its users, for operators and Jacobians,

    vjp(f, xs)                y = f(*xs), an array or a tuple of them, and pull(y_bar), the tuple of the cotangents of xs
    jvp(f, xs, dxs)           y, and its tangent
    vmap(f, axes)             f over leading axes, those arguments that have one
    call(f, *xs)              f(*xs) inside a kernel; where `closures_count()`, an error if f closes over what wants a gradient
"""

from __future__ import annotations

import copy
import importlib
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache, cached_property, partial, wraps
from types import ModuleType
from typing import Any, ParamSpec, TypeVar

import array_api_compat
import numpy as np

from ldiv.core.folders import files
from ldiv.errors import got, report

P = ParamSpec("P")
R = TypeVar("R")
Array = Any
Tree = Any  # a nested tuple of arrays; a single array is the smallest tree


class Rule(ABC):
    """One operation. Subclasses are frozen dataclasses, hashable, one file each in `rules/`."""

    @property
    @abstractmethod
    def core(self) -> tuple[Tree, ...]:
        """For each argument, how many trailing axes are its own; the axes before them are batch axes and broadcast."""

    @abstractmethod
    def kernel(self, *args: Tree) -> tuple[Array, ...]:
        """The outputs, on plain arrays of any namespace, no derivative in sight."""

    @abstractmethod
    def jvp(self, tangents: tuple[Tree, ...], out: tuple[Array, ...], *args: Tree) -> tuple[Array | None, ...]:
        """Tangents of the outputs; None means zero, coming in and going out."""

    @abstractmethod
    def vjp(self, need: tuple[Tree, ...], cotangents: tuple[Array | None, ...], out: tuple[Array, ...], *args: Tree) -> tuple[Tree, ...]:
        """Cotangents of the arguments that `need` asks for, in the broadcast shape; None means zero."""

    @property
    def public_name(self) -> str:
        """What errors call it."""
        return type(self).__name__

    @cached_property
    def cores(self) -> list[int]:
        """The own axes of each leaf of the arguments."""
        return leaves(self.core)

    differentiable: tuple[bool, ...] | None = None  # of each output; None: all of them
    on_host: bool = False  # can NumPy arrays stand in for the arguments, in the kernel and in `vjp`? Not where a function of the user is called
    may_overflow: bool = False  # as a product of the user's own may
    sees_overflow: bool = False  # does the kernel raise by itself? On the host it can, where a check in a trace keeps XLA from splitting it


def leaves(tree: Tree) -> list[Any]:
    """The arrays of a nested tuple, from left to right."""
    if not isinstance(tree, tuple):
        return [tree]
    for branch in tree:
        if isinstance(branch, tuple):
            return [leaf for branch in tree for leaf in leaves(branch)]
    return list(tree)


def rebuild(like: Tree, flat: Sequence[Any]) -> Tree:
    """The nested tuple shaped like `like` that holds the leaves `flat`."""
    if like.__class__ is int:
        return next(iter(flat))
    if isinstance(like, tuple):
        for branch in like:
            if isinstance(branch, tuple):
                break
        else:
            return tuple(flat)
    return _take(like, iter(flat))


def _take(like: Tree, flat: Iterator[Any]) -> Tree:
    return tuple(_take(branch, flat) for branch in like) if isinstance(like, tuple) else next(flat)


def bind(rule: Rule, *args: Tree) -> tuple[Array, ...]:
    """Apply a rule to arrays of any framework, known to that framework's automatic differentiation."""
    flat = leaves(args)
    outputs: tuple[Array, ...] = frontend_of(*flat).bind(rule, flat)
    return outputs


# -- what was applied: for front ends without a graph of their own --------------------------------------------------------------


@dataclass(frozen=True)
class Applied:
    """A rule, the leaves of its arguments and its outputs: the arrays, which others may write to, and copies of what was in them."""

    rule: Rule
    flat: list[Any]
    out: tuple[Any, ...]
    flat_then: list[Any]
    out_then: tuple[Any, ...]


@dataclass(frozen=True)
class Record:
    """What happened to NumPy arrays: every rule that was applied, and the (array, copy) of every snapshot."""

    applied: list[Applied] = field(default_factory=list)
    copies: list[tuple[Any, Any]] = field(default_factory=list)


_record: ContextVar[Record | None] = ContextVar("record", default=None)


@contextmanager
def _record_in(record: Record | None) -> Iterator[Any]:
    token = _record.set(record)
    try:
        yield record
    finally:
        _record.reset(token)


def recording() -> AbstractContextManager[Record]:
    """The record of what is done inside, in order."""
    return _record_in(Record())


def is_recording() -> bool:
    """Does somebody note down what is applied?"""
    return _record.get() is not None


def unrecorded() -> AbstractContextManager[None]:
    """What is done inside is nobody's affair."""
    return _record_in(None)


def recorded(rule: Rule, flat: list[Array], outputs: tuple[Array, ...]) -> tuple[Array, ...]:
    """The outputs, noted down if somebody records."""
    if (record := _record.get()) is not None:
        record.applied.append(Applied(rule, flat, outputs, [x.copy() for x in flat], tuple(y.copy() for y in outputs)))
    return outputs


def snapshot(tree: Tree) -> Tree:
    """The arrays as they are now, in memory that their owner cannot write to; derivatives still flow back to the owner's."""
    flat = leaves(tree)
    copies = [x.clone() if hasattr(x, "clone") else x.copy() for x in flat]
    if (record := _record.get()) is not None:
        record.copies.extend(zip(flat, copies, strict=True))
    return rebuild(tree, copies)


# -- front ends, found by folder scan --------------------------------------------------------------------------------------

_by_type: dict[type, ModuleType] = {}


@cache
def frontend_names() -> dict[str, str]:
    """The frameworks that have a front end, present or not, and where it is."""
    return files("frontend")


def load_frontends() -> list[ModuleType]:
    """The front ends whose framework is imported already."""
    return [importlib.import_module(home) for name, home in frontend_names().items() if name in sys.modules]


def is_array(x: object) -> bool:
    """Whether some front end owns x."""
    return type(x) in _by_type or _find(x) is not None


def _find(x: object) -> ModuleType | None:
    for frontend in load_frontends():
        if frontend.owns(x):
            _by_type[type(x)] = _complete(frontend)
            return frontend
    return None


def _complete(frontend: ModuleType) -> ModuleType:
    """What a front end that traces nothing need not say."""
    vars(frontend).setdefault("traced", lambda x: False)
    vars(frontend).setdefault("device", lambda x: str(x.device))
    vars(frontend).setdefault("loop", _loop)
    vars(frontend).setdefault("product", lambda a, x: namespace(a).matmul(a, x))
    vars(frontend).setdefault("tell", lambda f, *xs: f(*xs))
    vars(frontend).setdefault("vmap", _vmap)
    vars(frontend).setdefault("either", lambda ok, f, g: g())
    vars(frontend).setdefault("call", lambda f, *xs: f(*xs))
    vars(frontend).setdefault("constant", lambda x: x)
    vars(frontend).setdefault("signature", lambda x: None)
    vars(frontend).setdefault("host_values", lambda x: frontend.asnumpy(x) if frontend.host(x) and not frontend.traced(x) else None)
    vars(frontend).setdefault("copied", copy.deepcopy)
    for name in ("vjp", "jvp"):
        vars(frontend).setdefault(name, partial(_cannot, frontend.__name__.rpartition(".")[2]))
    return frontend


def _loop(going: Callable[[Any], Any], body: Callable[[Any], Any], state: Any) -> Any:
    while bool(going(state)):
        state = body(state)
    return state


def _vmap(f: Callable[..., Array], axes: tuple[int | None, ...]) -> Callable[..., Array]:
    def each(*xs: Array) -> Array:
        count = next(len(x) for x, a in zip(xs, axes, strict=True) if a == 0)
        return namespace(xs[0]).stack([f(*(x[i] if a == 0 else x for x, a in zip(xs, axes, strict=True))) for i in range(count)])

    return each


def _cannot(framework: str, f: object, *_: object) -> Any:
    advice = "Use PyTorch or JAX arrays; if only the transposed product is missing, give rmatvec or a promise of symmetry."
    raise TypeError(got("matvec", "a function that its framework can differentiate", f"one of {framework} arrays", advice))


def frontend_of(*arrays: Array) -> ModuleType:
    """The one front end that owns all these arrays."""
    if arrays and (known := _by_type.get(type(arrays[0]))) is not None:
        for x in arrays:
            if type(x) is not type(arrays[0]):
                break
        else:
            return known
    owners: list[ModuleType | None] = [_by_type.get(type(x)) or _find(x) for x in arrays]
    if owners and owners[0] is not None and all(owner is owners[0] for owner in owners):
        return owners[0]
    names = " and ".join(sorted({f"{type(x).__module__}.{type(x).__qualname__}" for x in arrays}))
    raise TypeError(got("arrays", "all of one framework (NumPy, PyTorch or JAX)", names or "none", "Convert them first."))


def signature(x: object) -> Any:
    """What of an array calls may be planned by, beside its shape; None for what must be looked at each time."""
    if type(x) is np.ndarray:
        return x.dtype, x.ndim
    frontend = _by_type.get(type(x))
    return None if frontend is None else frontend.signature(x)


def host_values(x: Array) -> np.ndarray[Any, Any] | None:
    """The values of x where they can be read now and without a copy to the host, else None."""
    if type(x) is np.ndarray:
        return x
    values: np.ndarray[Any, Any] | None = frontend_of(x).host_values(x)
    return values


def host(x: Array) -> bool:
    """Whether the values of x can be read on the host right now."""
    return bool(frontend_of(x).host(x))


def asnumpy(x: Array) -> np.ndarray[Any, Any]:
    """The values of x as a NumPy array, cut off from the derivative."""
    values: np.ndarray[Any, Any] = frontend_of(x).asnumpy(x)
    return values


def constant(x: Array) -> Array:
    """x, cut off from the derivative."""
    return frontend_of(x).constant(x)


def on_host(f: Callable[..., Any], specs: tuple[tuple[tuple[int, ...], np.dtype[Any]], ...], *arrays: Array) -> tuple[Array, ...]:
    """Run f on NumPy copies or views of the arrays: directly in an eager framework, by callback in a traced one."""
    if type(arrays[0]) is np.ndarray:
        return f(*arrays)  # type: ignore[no-any-return]
    results: tuple[Array, ...] = frontend_of(*arrays).on_host(f, specs, *arrays)
    return results


_PLAIN = frozenset({bool, float, np.bool_, np.float32, np.float64, np.ndarray})


def traced(x: object) -> bool:
    """Whether x stands for values that come later. A check of values is then for `insist`, and nothing can be remembered."""
    if type(x) in _PLAIN:
        return False
    frontend = _by_type.get(type(x)) or _find(x)
    return frontend is not None and bool(frontend.traced(x))


def insist(ok: Any, error: Callable[..., Exception], *numbers: Any) -> None:
    """Raise error(*numbers), or give the warning that it is, unless ok: now, or where ok is traced in the call that runs the trace."""
    if ok is True:
        return
    if traced(ok):
        frontend_of(ok).insist(ok, error, *numbers)
    elif not bool(ok):
        report(error(*numbers))


# -- functions of users, called by kernels, where what they close over has no derivative -----------------------------------------

_closures_count: ContextVar[bool] = ContextVar("closures_count", default=False)


def closures_count() -> bool:
    """Would a gradient be lost if a user's function closed over what wants one?"""
    return _closures_count.get()


class counting_closures:
    """Within, they count, or do not."""

    __slots__ = ("_count", "_token")

    def __init__(self, count: bool) -> None:
        self._count = count

    def __enter__(self) -> None:
        self._token = _closures_count.set(self._count)

    def __exit__(self, *error: object) -> None:
        _closures_count.reset(self._token)


def uncounted(f: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """f, on which the result does not depend, as a preconditioner: what it closes over loses nothing."""

    def call(x: Array) -> Array:
        with counting_closures(False):
            return f(x)

    return call


def scatter(x: Array, index: np.ndarray[Any, Any], size: int) -> Array:
    """y[..., i, :] = sum of x[..., e, :] over the e with index[e] = i."""
    return frontend_of(x).scatter(x, index, size)


# -- types that hold arrays, for frameworks that look inside ----------------------------------------------------------------------

Flatten = Callable[[Any], tuple[tuple[Any, ...], Any]]
Unflatten = Callable[[Any, Any], Any]
_trees: list[tuple[type, Flatten, Unflatten]] = []
_listeners: list[Callable[[type, Flatten, Unflatten], None]] = []


def announce(cls: type, flatten: Flatten, unflatten: Unflatten) -> None:
    """A type of trees: flatten(x) = (children, static), unflatten(static, children) = x, which must not look at the children."""
    _trees.append((cls, flatten, unflatten))
    for listen in _listeners:
        listen(cls, flatten, unflatten)


def on_announce(listen: Callable[[type, Flatten, Unflatten], None]) -> None:
    """For front ends: hear of every type of trees, announced earlier or later."""
    _listeners.append(listen)
    for announced in _trees:
        listen(*announced)


class ArrayHolder:
    """What holds arrays, and can be copied deeply with them: where they are results in a graph, the copies are leaves, as in pickling."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        twin = memo[id(self)] = object.__new__(type(self))
        for name, value in vars(self).items():
            object.__setattr__(twin, name, copied(value, memo))  # past the lock of a frozen dataclass
        return twin


def copied(tree: Any, memo: dict[int, Any]) -> Any:
    """A deep copy of a nested tuple of arrays and other things."""
    if type(tree) is tuple:
        return tuple(copied(branch, memo) for branch in tree)
    return frontend_of(tree).copied(tree, memo) if is_array(tree) else copy.deepcopy(tree, memo)


def namespace(x: Array) -> Any:
    """The array namespace of x in the dialect of the array API standard."""
    if (known := _namespaces.get(type(x))) is None:
        known = _namespaces[type(x)] = np if type(x) is np.ndarray else array_api_compat.array_namespace(x)
    return known


_namespaces: dict[type, Any] = {}


def plain_call(f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return f(*args, **kwargs)


def through(f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call f. A framework that traces Python itself replaces this door by one that it does not look behind, before its first call."""
    load_frontends()
    door = globals()["through"]
    return plain_call(f, args, kwargs) if door is _first_door else door(f, args, kwargs)


_first_door = through


def public(f: Callable[P, R]) -> Callable[P, R]:
    """Mark a function that users call: compilers stop at its door."""

    @wraps(f)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        result: R = through(f, args, kwargs)
        return result

    return call
