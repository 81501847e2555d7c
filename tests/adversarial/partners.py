"""A partner that mutates: a matrix of SciPy, of which something of ours was made, is sorted, pruned,
resized and written to; what was made is what it was.

    K  ->  x = made(K)        K.method(...), K.name = value, K.data.method(...), scipy's f(K)        x

Methods are all those of the classes, with all ARGUMENTS that they take; nobody says which of them
write.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from types import ModuleType
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse import csgraph, linalg

import ldiv
from adversarial.case import Case, Wrong
from adversarial.changes import numbers

N = 6
B = np.arange(1.0, N + 1)
FORMATS = ("csr", "csc", "coo", "bsr", "dia", "dok", "lil")
KINDS = [f"{format}_{kind}" for kind in ("array", "matrix") for format in FORMATS]
ARRAYS = ("data", "indices", "indptr", "row", "col", "offsets", "rows")
# a setting; tests; what need not end where weights are negative; what writes files
NOT_CALLED = {"use_solver", "test", "dijkstra", "johnson", "yen", "shortest_path", "dump", "tofile"}
Act = Callable[[], object]


def partner(kind: str, rng: np.random.Generator, dtype: str = "float64") -> Any:
    """Invertible, with stored zeros; where the format has them unsorted indices and duplicates."""
    rows, cols = (np.concatenate([rng.permutation(N), rng.integers(N, size=9)]) for _ in "ij")
    cols[:N] = rows[:N]
    v = rng.standard_normal(len(rows)) + 0.5j * rng.standard_normal(len(rows))
    v[:N], v[-2:] = 9 + rng.random(N), 0
    v = (v if dtype.startswith("complex") else v.real).astype(dtype)
    format, make = kind.partition("_")[0], getattr(sp, kind)
    if format not in ("csr", "csc", "bsr"):
        K = sp.coo_array((v, (rows, cols)), shape=(N, N))
        return make(K) if format == "coo" else make(K.tocsr())
    major, minor = (cols, rows) if format == "csc" else (rows, cols)
    order = np.argsort(major, kind="stable")
    indptr = np.concatenate([[0], np.cumsum(np.bincount(major, minlength=N))])
    values = v[order] if format != "bsr" else v[order].reshape(-1, 1, 1)
    return make((values, minor[order], indptr), shape=(N, N))


# -- what is made of it, and its numbers --------------------------------------


def of_parts(K: Any, values: Any = None) -> Any:
    """An array of ours from its three arrays, or two."""
    values = K.data if values is None else values
    if K.format == "coo":
        return ldiv.coo_array((values, K.coords), shape=K.shape)
    make = {"csr": ldiv.csr_array, "csc": ldiv.csc_array}[K.format]
    return make((values, K.indices, K.indptr), shape=K.shape)


def of_tensor(K: Any) -> Any:
    import torch

    return of_parts(K, torch.from_numpy(K.data))


def pullback(K: Any) -> Any:
    _, pull = ldiv.vjp(ldiv.solve, K, B.astype(K.dtype))
    b = B[::-1].astype(K.dtype)
    return lambda: pull(b)


def graph(K: Any) -> Any:
    import torch

    b = torch.tensor(B, requires_grad=True)
    x = ldiv.solve(K, b)
    return lambda: [x.detach(), *torch.autograd.grad(x.abs().sum(), b, retain_graph=True)]


def factorized(K: Any) -> Any:
    F = ldiv.factorized(K)
    return lambda: [F.solve(B), F.logabsdet()]


def entries(make: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda K: make(K).toarray


def products(make: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda K: partial(make(K).__matmul__, B)


OF_PARTS: dict[str, Callable[[Any], Callable[[], Any]]] = {
    "its arrays": entries(of_parts),
    "a tensor of its array": entries(of_tensor),
    "with_data": entries(lambda K: of_parts(K, 1 + K.data).with_data(K.data)),
    "diags_array": entries(lambda K: ldiv.diags_array(K.data)),
}
MADE = {
    "asarray": entries(ldiv.asarray),
    "coo_array": entries(ldiv.coo_array),
    "csr_array": entries(ldiv.csr_array),
    "csc_array": entries(ldiv.csc_array),
    "a view": entries(lambda K: ldiv.asarray(K).H),
    "a block": entries(lambda K: ldiv.asarray(K)[[0, 2]][:, 1:]),
    "a stack": entries(lambda K: ldiv.vstack([K])),
    "a triangle": entries(lambda K: ldiv.tril(K, N)),
    "a sum": entries(lambda K: ldiv.eye_array(N) + K),
    "a product": entries(lambda K: ldiv.eye_array(N) @ K),
    "kron": products(lambda K: ldiv.kron(K, np.eye(1))),
    "block_array": products(lambda K: ldiv.block_array([[K]])),
    "an update": products(lambda K: K + ldiv.LowRank(B, B)),
    "a preconditioner": products(lambda K: ldiv.preconditioner(K, "ilu")),
    "factorized": factorized,
    "a pullback": pullback,
    "a graph": graph,
}

# -- what is done to it -------------------------------------------------------


def of_class(kind: type) -> list[str]:
    """Names that are public, and methods that operators call."""
    return [
        name
        for name in sorted(set(dir(kind)) - set(dir(object)) - NOT_CALLED)
        if not name.startswith("_") or name.endswith("__")
    ]


def functions(module: ModuleType) -> list[str]:
    return [
        name
        for name in sorted(set(module.__all__) - NOT_CALLED)
        if callable(f := getattr(module, name)) and not inspect.isclass(f)
    ]


def arguments(x: Any) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    for given in (
        (),
        (x,),
        (B.copy(),),  # NumPy may write to what it is given: a.conj(out)
        (2,),
        (0,),
        ((0, 1), 5.0),
        (slice(None), 3.0),
        (N, 2),
        ((2, 3),),
        (-1.5,),
        ("csr",),
        (np.int8,),
        (5.0, "f8"),
        (x, B.copy()),
        (B.copy(), 1),
    ):
        yield given, {}
    yield (3,), {"refcheck": False}
    yield (), {"inplace": True}


def all_ways(f: Callable[..., object], x: Any) -> None:
    for given, named in arguments(x):
        attempt(lambda: f(*given, **named))  # noqa: B023  # called at once


def attempt(act: Act) -> None:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            act()
        except (Exception, SystemError):
            return


def of_matrices(f: Callable[..., object], K: Any) -> None:
    for given in ((), (B.copy(),), (2,)):
        attempt(lambda: f(K, *given))  # noqa: B023


def call(x: Any, name: str) -> None:
    all_ways(getattr(x, name), x)


def write(x: Any, name: str) -> None:
    """Other values of an attribute."""
    for change in (lambda y: y[::-1], lambda y: not y, lambda y: y[:1], lambda y: y * 0):
        attempt(lambda: setattr(x, name, change(getattr(x, name))))  # noqa: B023


def methods(x: Any, of: str = "K") -> dict[str, Act]:
    """All that the class can do, by what it is called."""
    return {
        f"{of}.{name}": partial(call, x, name)
        for name in of_class(type(x))
        if callable(getattr(type(x), name))
    }


def attributes(x: Any, of: str = "K") -> dict[str, Act]:
    return {
        f"{of}.{name} =": partial(write, x, name)
        for name in (*of_class(type(x)), *vars(x))
        if not callable(getattr(type(x), name, None)) and not name.startswith("_")
    }


def by_scipy(K: Any) -> dict[str, Act]:
    """Call its methods, and SciPy's functions of matrices."""
    return methods(K) | {
        f"{module.__name__}.{name}": partial(of_matrices, getattr(module, name), K)
        for module in (linalg, csgraph)
        for name in functions(module)
    }


def by_hand(K: Any) -> dict[str, Act]:
    """All that NumPy can do to its arrays, and other arrays; afterwards SciPy may crash at it."""
    found = {f"K.{name}": x for name in ARRAYS if (x := getattr(K, name, None)) is not None}
    return attributes(K) | {
        called: act for name, x in found.items() for called, act in methods(x, name).items()
    }


def acts(K: Any) -> dict[str, Act]:
    return by_scipy(K) | by_hand(K)


# -- the law ------------------------------------------------------------------


def made_of(kind: str) -> list[str]:
    return [*MADE, *(OF_PARTS if kind[:3] in ("csr", "csc", "coo") else ())]


def written(K: Any) -> list[Any]:
    """The stored entries, in their order."""
    if K.format == "dok":
        return [*K.items()]
    return [np.array(x).tolist() for name in ARRAYS if (x := getattr(K, name, None)) is not None]


def look(kind: str, made: str, seed: int, done: tuple[str, ...], dtype: str = "float64") -> str:
    """The numbers of what was made, before and after each of these acts."""
    K = partner(kind, np.random.default_rng(seed), dtype)
    before = written(K)
    now = (MADE | OF_PARTS)[made](K)
    expected = numbers(now())
    if written(K) != before:
        raise Wrong("a matrix of SciPy was written to", made)
    for name in done:
        attempt(acts(K).get(name, K.copy))  # an attribute may be gone
        for x, y in zip(numbers(now()), expected, strict=True):
            allowed = 1e3 * np.finfo(x.dtype).eps * np.abs(y).max(initial=0)
            if x.shape != y.shape or not np.abs(x - y).max(initial=0) <= allowed:
                off = np.abs(x - y).max() if x.shape == y.shape else f"{x.shape} for {y.shape}"
                raise Wrong("what was made has changed", f"{made}, after {name}, by {off}")
    return "right"


def case(kind: str, made: str, seed: int, done: tuple[str, ...], dtype: str) -> Case:
    given = kind, made, seed, done, dtype
    return Case(
        f"partners, {made}",
        len(done),
        partial(look, *given),
        partial(str, f"from adversarial.partners import look\nlook(*{given!r})"),
        lambda: (case(kind, made, seed, (name,), dtype) for name in done if len(done) > 1),
    )


def cases(seed: int) -> Iterator[Case]:
    """Endlessly: a few acts of SciPy, and one by hand, on matrices with other numbers every time."""
    rng = np.random.default_rng(seed)
    known = {kind: (K := partner(kind, rng), [*by_scipy(K)], [*by_hand(K)])[1:] for kind in KINDS}
    for number in count():
        kind = str(rng.choice(KINDS))
        theirs, mine = known[kind]
        done = (*rng.choice(theirs, 3), rng.choice(mine))
        dtype = str(rng.choice(["float64", "float32", "complex128", "complex64"]))
        yield case(kind, str(rng.choice(made_of(kind))), number, tuple(map(str, done)), dtype)
