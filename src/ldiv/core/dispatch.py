"""Every array belongs to one front end, which is found by the type of the array.

A front end is one file, or one package, in `frontends/`, named after its framework, and loaded
once that framework has been imported. It must define

    owns(x)                   is x one of its arrays?
    bind(rule, leaves)        run the kernel, and register the rule's derivatives with the framework
    asnumpy(x)                the values of x as a NumPy array, detached from the graph
    host(x)                   can the values be read now, as a NumPy array, without a copy?
    on_host(f, specs, *xs)    run f on NumPy arrays; specs are the (shape, dtype) of its results
    scatter(x, index, size)   y[..., i, :] = sum of x[..., e, :] over all e with index[e] = i

and the dense kernels lu_factor, lu_solve, sign_of_rows, cholesky and solve_triangular. What is
named below it may define; `ldiv.core.defaults` says what is so where it does not. A framework that
traces functions:

    traced(x)                 is x a tracer, whose values are known only when the program runs?
    check_or_raise(ok, error, *xs)
                              in a trace: when the program runs, raise error(*xs), of numbers on the
                              host, unless ok
    either(ok, f, g)          f() if ok, else g(), tuples of arrays; only one of them is computed,
                              and g() is a valid result in any case
    device(x)                 the device that engines see for x
    product(a, x)             a @ x in the full precision of the dtype, whatever a device's default
    loop(going, body, state)  while going(state): state = body(state), for a tuple of arrays
    stacked(xs)               the arrays of a list along a new first axis
    each(f, xs)               f(*members), a tuple of arrays, of each member of xs along their
                              first axis, stacked; in a trace a loop
    host_callback(f, *xs)     call f with the values of xs once they are known
    constant(x)               x, detached from the graph
    namespace(x)              the functions of the array API standard, for x
    promoted(x)               x in the dtype in which the framework would compute with it
    own(x)                    x, or a copy where somebody outside of the framework can write to its
                              memory
    copied(x, memo)           a deep copy of x, also if x is the result of a differentiable
                              operation
    signature(x)              a key, besides the shape of x, by which calls may be planned; None if
                              x must be inspected each time
    standard_normal(key, shape, like)
                              independent normal numbers from a generator or key of the framework
    host_values(x)            the values of x as a NumPy array, if `host` and not `traced`, or None
    numbers(x)                the same, and of an array of a transformation those of all its members,
                              with axes of their own before; to look at, not to compute with

a framework with arrays of several kinds

    refusal(x)                what was expected, what came and what to do, if x has no numbers in
                              memory, or is not rectangular; else None
    stored_only(x)            has x a dtype that the framework stores and does not compute with?
    graphless()               does nothing that is made now ever take part in a derivative?
    conj(x)                   the conjugate of complex x, computed now
    clone(x)                  x in memory of its own, in the same graph
    to(x, *args, **kwargs)    the framework's own function of that name, for devices and dtypes
    put(x, index, value)      x with x[index] = value, of arrays that cannot be overwritten
    sparse(x)                 is x a sparse matrix of the framework, among its arrays or not?
    sparse_parts(name, x)     such a matrix as `core.sparse_parts.Parts`; errors call it `name`

a framework whose arrays can be overwritten

    memory(x)                 where x is, as `core.buffers.Memory`
    version(x)                a number that every write to x changes; None if nobody counts
    unwritable(x)             as `refusal`, if x is in a graph, or nobody can tell when it changes

if its own kernels are better than SciPy's on the host, or than two triangular solves

    cholesky_inverse(l)       (L L^H)^-1
    qr(a, mode)               Q and R, "reduced" or "complete", of each matrix of a batch
    eigh(a)                   the eigenvalues and eigenvectors of each
    svd(a)                    the reduced decomposition of each
    svdvals(a)                the singular values of each

    lu_pivoted(a)             L and U packed into one array, and SciPy's row exchanges
    row_order(exchanges, m)   the order of m rows after these exchanges; None for the host's way

and a framework that differentiates functions of its users, for operators and Jacobians,

    vjp(f, xs)                y = f(*xs), an array or a tuple of arrays, and pull(y_bar), the tuple
                              of the cotangents of xs
    jvp(f, xs, dxs)           y and its tangent; or raises OnlyReverse (see `core/pushforward.py`,
                              whose jvp is the one to be called)
    vmap(f, axes)             f over leading axes, of those arguments that have one
    pulled(pull, y_bars)      pull of each of y_bars, stacked
    compiled(f, *xs)          f(*xs), as one program where the framework would run its operations one
                              by one, and compile each
    dependence(f, x)          where df/dx may be nonzero, as a sparse boolean matrix (f and x are
                              vectors), or None where that cannot be told
    records                   the name of the front end whose arrays such functions take, where they
                              are not its own
    call(f, p, x)             f(p, x) inside a kernel, where f may write to x and use its result
                              again; if `closures_count()`, an error if f closes over an array
                              that requires a gradient
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import array_api_compat
import numpy as np

from ldiv.core.defaults import complete
from ldiv.core.folders import files
from ldiv.core.forking import import_module
from ldiv.core.trees import Array
from ldiv.core.verdict import believed
from ldiv.errors import expected_got, report

_by_type: dict[type, ModuleType] = {}
_loaded: dict[str, ModuleType] = {}  # by the name of the framework


def frontend_names() -> dict[str, str]:
    """The module of the front end of each framework, whether the framework is installed or not."""
    return files("frontend")


def load_frontends() -> list[ModuleType]:
    """The front ends whose framework has been imported."""
    names = frontend_names()
    for name, home in names.items():
        if name not in _loaded and name in sys.modules:
            _loaded[name] = complete(import_module(home))
    return [_loaded[name] for name in names if name in _loaded]


def recorder(name: str) -> ModuleType | None:
    """The front end that differentiates functions of arrays of this other one, if it is loaded."""
    return next((frontend for frontend in load_frontends() if frontend.records == name), None)


def is_array(x: object) -> bool:
    """Whether some front end owns x."""
    return type(x) in _by_type or _find(x) is not None


def _find(x: object) -> ModuleType | None:
    for frontend in load_frontends():
        if frontend.owns(x):
            _by_type[type(x)] = frontend
            return frontend
    return None


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
    if (recording := _recording(owners)) is not None:
        return recording
    names = " and ".join(sorted({f"{type(x).__module__}.{type(x).__qualname__}" for x in arrays}))
    raise TypeError(
        expected_got(
            "arrays",
            "all of one framework (NumPy, PyTorch or JAX)",
            names or "none",
            "Convert them first, a matrix of SciPy by ldiv.asarray.",
        )
    )


def _recording(owners: list[ModuleType | None]) -> ModuleType | None:
    """The one of them that takes the arrays of all others as constants."""
    found = next((o for o in owners if o is not None and o.records), None)
    taken = (found, None if found is None else _loaded[found.records])
    return found if all(owner in taken and owner is not None for owner in owners) else None


def sparse_home(x: object) -> ModuleType | None:
    """The front end in whose framework x is a sparse matrix, if there is one."""
    if (known := _by_type.get(type(x))) is not None:
        return known if known.sparse(x) else None
    return next((frontend for frontend in load_frontends() if frontend.sparse(x)), None)


def signature(x: object) -> Any:
    """A key, besides the shape, by which calls may be planned; None if x must be inspected."""
    if type(x) is np.ndarray:
        return x.dtype, x.ndim
    frontend = _by_type.get(type(x))
    return None if frontend is None else frontend.signature(x)


def host_values(x: Array) -> np.ndarray[Any, Any] | None:
    """The values of x if they can be read now without a copy to the host, else None."""
    if type(x) is np.ndarray:
        return x
    values: np.ndarray[Any, Any] | None = frontend_of(x).host_values(x)
    return values


def numbers(x: Array) -> np.ndarray[Any, Any] | None:
    """All numbers of x, those of all members of a batch that a transformation maps over, or None."""
    known: np.ndarray[Any, Any] | None = frontend_of(x).numbers(x)
    return known


def host(x: Array) -> bool:
    """Whether the values of x can be read on the host now."""
    return bool(frontend_of(x).host(x))


def asnumpy(x: Array) -> np.ndarray[Any, Any]:
    """The values of x as a NumPy array, detached from the graph."""
    values: np.ndarray[Any, Any] = frontend_of(x).asnumpy(x)
    return values


def constant(x: Array) -> Array:
    """x, detached from the graph."""
    return frontend_of(x).constant(x)


def own(x: Array) -> Array:
    """x, or a copy where somebody may write to its memory behind the back of its framework, as
    SciPy does that sorts a matrix. Differentiable.
    """
    copied: Array = frontend_of(x).own(x)
    return copied


def on_host(
    f: Callable[..., Any], specs: tuple[tuple[tuple[int, ...], np.dtype[Any]], ...], *arrays: Array
) -> tuple[Array, ...]:
    """f of NumPy arrays: called directly in an eager framework, by callback in a traced one."""
    if type(arrays[0]) is np.ndarray:
        return f(*arrays)
    results: tuple[Array, ...] = frontend_of(*arrays).on_host(f, specs, *arrays)
    return results


_PLAIN = frozenset({bool, float, np.bool_, np.float32, np.float64, np.ndarray})


def traced(x: object) -> bool:
    """Whether x is a tracer: its values come later, so they are checked by `check_or_raise` only.

    Nothing that depends on the values of a tracer can be cached.
    """
    if type(x) in _PLAIN:
        return False
    frontend = _by_type.get(type(x)) or _find(x)
    return frontend is not None and bool(frontend.traced(x))


def check_or_raise(ok: Any, error: Callable[..., Exception], *numbers: Any) -> None:
    """Unless ok: raise error(*numbers), or warn if it is a warning.

    This happens now, on a device where the kernel ends (`ldiv.core.verdict`), or if ok is traced,
    when the traced program runs.
    """
    if ok is True:
        return
    if traced(ok):
        frontend_of(ok).check_or_raise(ok, error, *numbers)
    elif not believed(ok):
        report(error(*numbers))


def scatter(x: Array, index: np.ndarray[Any, Any], size: int) -> Array:
    """y[..., i, :] = sum of x[..., e, :] over the e with index[e] = i."""
    return frontend_of(x).scatter(x, index, size)


def namespace(x: Array) -> Any:
    """The array namespace of x in the dialect of the array API standard."""
    if (known := _namespaces.get(type(x))) is None:
        frontend = _by_type.get(type(x)) or _find(x)
        of = array_api_compat.array_namespace if frontend is None else frontend.namespace
        known = _namespaces[type(x)] = np if type(x) is np.ndarray else of(x)
    return known


_namespaces: dict[type, Any] = {}
