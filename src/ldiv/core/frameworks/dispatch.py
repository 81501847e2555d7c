"""Every array belongs to one front end, which is found by the type of the array."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, overload

import array_api_compat
import numpy as np

from ldiv.core.frameworks.array_protocol import Array, Namespace
from ldiv.core.frameworks.defaults import complete
from ldiv.core.frameworks.folders import files
from ldiv.core.frameworks.frontend import FrontEnd, Specs
from ldiv.core.frameworks.looks import passed, stays_on_device
from ldiv.core.frameworks.pattern import Pattern
from ldiv.core.frameworks.trees import HostArray
from ldiv.core.owners.forking import import_module
from ldiv.errors import report, type_error

_by_type: dict[type, FrontEnd] = {}
_loaded: dict[str, FrontEnd] = {}  # by the name of the framework
# the frameworks whose front end is not loaded; NumPy's is from the first call on
not_loaded: list[str] = ["numpy"]


def frontend_names() -> dict[str, str]:
    """The module of the front end of each framework, whether the framework is installed or not."""
    return files("frontend")


def frontend_named(name: str) -> FrontEnd | None:
    """The front end of a framework, if the framework has been imported."""
    # a framework is never imported here: without arrays of it nobody should wait for its import. None in
    # sys.modules blocks an import
    if name not in _loaded and sys.modules.get(name) is not None:
        _loaded[name] = complete(import_module(frontend_names()[name]))
    return _loaded.get(name)


def load_frontends() -> list[FrontEnd]:
    """The front ends whose framework has been imported."""
    names = frontend_names()
    for name in names:
        frontend_named(name)
    not_loaded[:] = [name for name in names if name not in _loaded]
    return [_loaded[name] for name in names if name in _loaded]


def recorder(name: str) -> FrontEnd | None:
    """Return the loaded front end that can differentiate functions of arrays of this other
    framework.
    """
    return next((frontend for frontend in load_frontends() if frontend.user.records == name), None)


def installed_recorder(name: str) -> FrontEnd | None:
    """Return `recorder`, importing its framework if it is installed; a last resort."""
    if (found := recorder(name)) is None and (by := _loaded[name].user.recorded_by) is not None:
        with suppress(ImportError):
            import_module(by)
            found = recorder(name)
    return found


# The front end of a known type of arrays; a bound method, since every call asks for it.
known_frontend: Callable[[type], FrontEnd | None] = _by_type.get


def frontend_for(x: object) -> FrontEnd | None:
    """The front end that owns x, if there is one."""
    return _by_type.get(type(x)) or _find(x)


def is_array(x: object) -> bool:
    """Whether some front end owns x."""
    return frontend_for(x) is not None


def _find(x: object) -> FrontEnd | None:
    for frontend in load_frontends():
        if frontend.owns(x):
            _by_type[type(x)] = frontend
            return frontend
    return None


def frontend_of(*arrays: Any) -> FrontEnd:
    """The one front end that owns all these arrays."""
    # nearly every call: arrays of one type that was met before, in a loop without a generator
    if arrays and (cached := _by_type.get(type(arrays[0]))) is not None:
        for x in arrays:
            if type(x) is not type(arrays[0]):
                break
        else:
            return cached
    owners: list[FrontEnd | None] = [_by_type.get(type(x)) or _find(x) for x in arrays]
    if owners and owners[0] is not None and all(owner is owners[0] for owner in owners):
        return owners[0]
    if (recording := _recording(owners)) is not None:
        return recording
    names = " and ".join(sorted({f"{type(x).__module__}.{type(x).__qualname__}" for x in arrays}))
    raise type_error(
        "arrays",
        "all of one framework (NumPy, PyTorch or JAX)",
        names or "none",
        "Convert them first, a matrix of SciPy by ldiv.asarray.",
    )


def _recording(owners: list[FrontEnd | None]) -> FrontEnd | None:
    """Return the one front end of several that takes the arrays of all others as constants."""
    for found in owners:
        if found is not None and found.user.records is not None:
            # autograd's boxes beside plain NumPy arrays; beside anything else it is an error
            taken = (found, _loaded[found.user.records])
            return found if all(owner in taken for owner in owners) else None
    return None


def sparse_home(x: object) -> FrontEnd | None:
    """The front end in whose framework x is a sparse matrix, if there is one."""
    if (cached := _by_type.get(type(x))) is not None:
        return cached if cached.sparse(x) else None
    return next((frontend for frontend in load_frontends() if frontend.sparse(x)), None)


def signature(x: object) -> Any:
    """A key, besides the shape, by which calls may be planned; None if x must be inspected."""
    frontend = _by_type.get(type(x))
    return None if frontend is None else frontend.signature(x)


def host_values(x: Any) -> HostArray | None:
    """The values of x if they can be read now without a copy to the host, else None."""
    if type(x) is np.ndarray:
        return x
    return frontend_of(x).host_values(x)


def numbers(x: Any) -> HostArray | None:
    """Return all values of x, also those of a batch over which a transformation maps, or None."""
    return frontend_of(x).numbers(x)


def known(x: Any) -> HostArray | None:
    """The numbers of x without its derivatives, where they can be read now and belong to no batch over
    which a transformation maps; else None.
    """
    found = numbers(constant(x))
    return found if found is not None and found.ndim == x.ndim else None


def host(x: Any) -> bool:
    """Whether the values of x can be read on the host now."""
    return frontend_of(x).host(x)


def asnumpy(x: Any) -> HostArray:
    """The values of x as a NumPy array, detached from the graph."""
    return frontend_of(x).asnumpy(x)


def on_small_arrays(iterate: Callable[..., Any], x: Any, *functions: Callable[[Any], Any]) -> Any:
    """Call iterate(x, *functions), which returns an array or a tuple of arrays. If x is small, run the
    iteration on NumPy arrays; the functions still take and return arrays like x.
    """
    if (few := frontend_of(x).user.few(x)) is None:
        return iterate(x, *functions)
    numbers, like, values = few

    def on_numbers(f: Callable[[Any], Any], x: HostArray) -> Any:
        return each_output(values, f(like(x)))

    return each_output(like, iterate(numbers, *[partial(on_numbers, f) for f in functions]))


def each_output(f: Callable[[Any], Any], ys: Any) -> Any:
    """Apply f to an array, or to each array of a tuple."""
    return tuple(map(f, ys)) if isinstance(ys, tuple) else f(ys)


def constant(x: Array) -> Array:
    """x, detached from the graph."""
    return frontend_of(x).constant(x)


def own(x: Array) -> Array:
    """Return x, or a copy if another library may write to its memory unnoticed, as SciPy does when
    it sorts a matrix.

    Differentiable.
    """
    return frontend_of(x).own(x)


def on_host(f: Callable[..., Any], specs: Specs, *arrays: Any) -> Any:
    """Call f on NumPy arrays: directly in an eager framework, by a callback in a trace."""
    if type(arrays[0]) is np.ndarray:
        return f(*arrays)
    return frontend_of(*arrays).on_host(f, specs, *arrays)


_PLAIN = frozenset({bool, float, np.bool_, np.float32, np.float64, np.ndarray})


def traced(x: object) -> bool:
    """Whether x is a tracer: its values come later, so they are checked by `check_or_raise` only.

    Nothing that depends on the values of a tracer can be cached.
    """
    if type(x) in _PLAIN:
        return False
    frontend = _by_type.get(type(x)) or _find(x)
    return frontend is not None and frontend.traced(x)


def is_opaque(x: object) -> bool:
    """True if the values of x must not be read: x is a tracer, or stays on its device."""
    return traced(x) or (type(x) not in _PLAIN and stays_on_device(x))


def check_or_raise(ok: Any, error: Callable[..., Exception], *numbers: Any) -> None:
    """Raise error(*numbers) unless ok, or warn if it is a warning.

    This happens now; on a device at the end of the kernel (`ldiv.core.frameworks.looks`); or if ok is
    traced, when the traced program runs.
    """
    if ok is True:
        return
    if traced(ok):
        frontend_of(ok).check_or_raise(ok, error, *numbers)
    else:
        # members whose checks are not read have flags of their own
        frontend = None if stays_on_device(ok) else _by_type.get(type(ok))
        if not passed(ok if frontend is None else frontend.every_member(ok)):
            report(error(*numbers))


def as_one_node(f: Callable[..., Any], *xs: Array) -> Any:
    """Call f(*xs), which applies several rules, as one node of the graph, with one wait for a device."""
    return frontend_of(*xs).as_one_node(f, *xs)


def in_one_wait(x: Array, f: Callable[[], Any]) -> Any:
    """Call f(), a function of x and other arrays, with one wait for their device."""
    return frontend_of(x).in_one_wait(x, f)


def places(pattern: Pattern, x: Array) -> tuple[Any, Any]:
    """The rows and columns of the entries of a pattern, as they index x."""
    return frontend_of(x).places(pattern, x)


def scatter(x: Array, index: Any, size: int) -> Array:
    """y[..., i, :] = sum of x[..., e, :] over the e with index[e] = i."""
    return frontend_of(x).dense.scatter(x, index, size)


@overload
def namespace(x: Array) -> Namespace: ...
@overload
def namespace(x: object) -> Any: ...
def namespace(x: Any) -> Any:
    """The array namespace of x in the dialect of the array API standard."""
    if (cached := _namespaces.get(type(x))) is None:
        frontend = _by_type.get(type(x)) or _find(x)
        of = array_api_compat.array_namespace if frontend is None else frontend.namespace
        cached = _namespaces[type(x)] = np if type(x) is np.ndarray else of(x)
    return cached


_namespaces: dict[type, Any] = {}
