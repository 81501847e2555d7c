"""The abilities of every name of ldiv, tried by one call of each: modes, orders, dtypes, matrices,
devices.

    python tests/what_names_have.py    writes docs/static/names.json, from which the page of names is made

A derivative counts if it agrees with differences, and an output that depends on a phase or a basis
is looked at through what does not: |y|^2, or Y Y^H.
"""

from __future__ import annotations

import json
import re
import sys
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
import scipy.sparse
import scipy.sparse.linalg
import torch
from torch.utils import _pytree as trees

sys.path.insert(0, str(Path(__file__).parent))

from adversarial.bad_calls import EVERYWHERE, NO_CALLS, TALL, TRACED, A, b

import ldiv
from ldiv.frontends.torch.devices.pretend_device import install

FILE = Path(__file__).parents[1] / "docs" / "static" / "names.json"
Look = Callable[[Any], Any]
Make, Call = Callable[[Any], Any], tuple[Callable[..., Any], dict[str, Any]]
PUBLIC = {
    name
    for library in (scipy.linalg, scipy.sparse, scipy.sparse.linalg, np.linalg, torch.linalg)
    for name in dir(library)
}
# what returns no array is tried through what it is for
THROUGH: dict[str, Callable[[Make], Call]] = {
    name: (
        lambda to, name=name: (
            lambda A, b: getattr(ldiv, name)(A).solve(b),
            {"A": EVERYWHERE[name](to)[1]["A"], "b": to(b)},
        )
    )
    for name in ("factorized", "splu", "spilu")
} | {
    "polar": lambda to: (ldiv.polar, {"a": to(TALL)}),
    "signm": lambda to: (ldiv.signm, {"A": to(A * [1, -1, 1, -1])}),
    "subspace_angles": lambda to: (
        ldiv.subspace_angles, {"A": to(TALL), "B": to(TALL[:, :2] ** 2)},
    ),
    "solve_lyapunov": EVERYWHERE["solve_continuous_lyapunov"],
    "lu_solve": lambda to: (
        lambda A, b: ldiv.lu_solve(ldiv.lu_factor(A), b), {"A": to(A), "b": to(b)},
    ),
    "LinearOperator": lambda to: (lambda A, b: operator(A) @ b, {"A": to(A), "b": to(b)}),
    "aslinearoperator": lambda to: (
        lambda A, b: ldiv.aslinearoperator(A) @ b, {"A": to(A), "b": to(b)},
    ),
}  # fmt: skip
CALLS = {
    name: call
    for name, call in (EVERYWHERE | TRACED | THROUGH).items()
    if name in set(ldiv.__all__) & PUBLIC and name not in NO_CALLS - set(THROUGH) | {"gradcheck"}
}
KINDS = ("reverse", "forward", "second", "vmap", "jit")
ACCURACY = {"rtol", "atol", "tol", "maxiter", "on_degenerate"}  # by default that of the dtype
MATRIX = ("A", "a", "M", "X", "x")  # the names of a first argument that is a matrix
CHANGES, STEP, RTOL = 2, 1e-4, 1e-4


def operator(A: Any, assume_a: str = "gen") -> Any:
    return ldiv.LinearOperator(lambda p, x: p @ x, A, shape=A.shape, assume_a=assume_a)


def is_float(x: Any) -> bool:
    return hasattr(x, "dtype") and str(x.dtype).rpartition(".")[2][:5] in ("float", "compl")


def numbers(y: Any) -> list[Any]:
    """The arrays of numbers in a result; those of NumPy are constants."""
    found = filter(is_float, trees.tree_leaves(y))
    return [x for x in found if not isinstance(x, np.ndarray | np.generic)]


class Loss:
    """L(x), x in R^2, of a call whose arrays are changed entry by entry; symmetric ones stay so."""

    def __init__(self, call: Call, look: Look, like: Callable[[Any], Any]) -> None:
        (self.f, kwargs), self.look, self.like = call, look, like
        self.leaves, self.tree = trees.tree_flatten(kwargs)
        rng = np.random.default_rng(0)
        self.changes = [
            [like(change(rng, x)) for _ in range(CHANGES)] if is_float(x) else None
            for x in self.leaves
        ]

    def __call__(self, x: Any) -> Any:
        moved = [
            leaf if c is None else leaf * (1 + x[0] * c[0] + x[1] * c[1])
            for leaf, c in zip(self.leaves, self.changes, strict=True)
        ]
        y = numbers(self.f(**trees.tree_unflatten(moved, self.tree)))
        return sum(self._of(self.look(part), k) for k, part in enumerate(y))

    def _of(self, y: Any, k: int) -> Any:
        y = y.reshape(-1)
        if "complex" in str(y.dtype):
            y = y.real + 2 * y.imag
        return (y * self.like(np.cos(k + np.arange(float(y.shape[0]))))).sum()


def change(rng: np.random.Generator, x: Any) -> Any:
    c = rng.standard_normal(tuple(x.shape))
    if c.shape == (6,):  # two of its entries are one pair of a symmetric matrix
        c[5] = c[4]
    return c + c.T if c.ndim == 2 and c.shape[0] == c.shape[1] else c


LOOKS: list[Look] = [
    lambda y: y,
    lambda y: abs(y) ** 2,
    lambda y: y @ y.conj().mT if y.ndim == 2 else y,
]


class Trial:
    """The derivatives of one call through one look, at x = 0."""

    def __init__(self, make: Callable[[Make], Call], look: Look) -> None:
        self.make, self.look = make, look
        self.L = Loss(make(torch.tensor), look, torch.tensor)
        self.x, self.e = torch.zeros(CHANGES, dtype=torch.float64), torch.eye(CHANGES).double()
        self.grad = torch.func.grad(self.L)

    def difference(self, f: Callable[[Any], Any]) -> Any:
        columns = [(f(self.x + STEP * d) - f(self.x - STEP * d)) / (2 * STEP) for d in self.e]
        return torch.stack(columns).detach()

    def is_constant(self) -> bool:
        y = self.L(self.x)
        return not isinstance(y, torch.Tensor) or bool(
            (abs(self.difference(self.L)) <= 1e-9 * abs(y)).all()
        )

    def reverse(self) -> bool:
        return close(plain_gradient(self.L, self.x), self.difference(self.L))

    def forward(self) -> bool:
        found = torch.func.jvp(self.L, (self.x,), (self.e[0],))[1]
        return close(found, self.difference(self.L)[0])

    def second(self) -> bool:
        expected = self.difference(self.grad)[0]
        over_reverse = torch.func.jvp(self.grad, (self.x,), (self.e[0],))[1]
        twice = torch.func.grad(lambda x: self.grad(x)[0])(self.x)
        return close(over_reverse, expected) and close(twice, expected)

    def vmap(self) -> bool:
        near = self.x + 0.01
        found = torch.func.vmap(self.grad)(torch.stack([self.x, near]))
        return close(found[1], plain_gradient(self.L, near))

    def jit(self) -> bool:
        L = Loss(self.make(jnp.asarray), self.look, jnp.asarray)
        return close(jax.jit(jax.grad(L))(jnp.zeros(CHANGES)), self.difference(self.L))


def derivatives(make: Callable[[Make], Call]) -> set[str]:
    """The derivatives by PyTorch and JAX, of the first result that has a gradient."""
    for look in LOOKS:
        trial = Trial(make, look)
        if not trial.is_constant() and settled(trial.reverse):
            return {kind for kind in KINDS if works(getattr(trial, kind))}
    return set()


def settled(attempt: Callable[[], bool]) -> bool:
    """Whether this look has a derivative: one that depends on a phase has none, or a part of one."""
    try:
        return attempt()
    except Exception:
        return False


def plain_gradient(L: Loss, x: Any) -> Any:
    x = x.clone().requires_grad_()
    return torch.autograd.grad(L(x), x)[0]


def close(found: Any, expected: Any) -> bool:
    found, expected = np.asarray(found), np.asarray(expected)
    assert np.allclose(found, expected, rtol=RTOL, atol=RTOL * abs(expected).max()), (
        found,
        expected,
    )
    return True


def works(attempt: Callable[[], Any]) -> bool:
    """Whether a call works; refusals count as absent, and wrong results raise."""
    try:
        return attempt() is not False
    except AssertionError:
        raise
    except Exception:  # whatever refuses: a framework, or a rule
        return False


def dtypes(make: Callable[[Make], Call]) -> list[str]:
    def stays(dtype: str) -> bool:
        f, kwargs = make(
            lambda a: torch.tensor(a).to(getattr(torch, dtype)) if is_float(a) else torch.tensor(a)
        )
        y = numbers(f(**kwargs))
        single = dtype == "float32"
        return not single or all(x.dtype in (torch.float32, torch.complex64) for x in y)

    return [dtype for dtype in ("float32", "complex128") if works(partial(stays, dtype))]


def matrices(make: Callable[[Make], Call]) -> list[str]:
    """The possible kinds of the first argument."""
    f, kwargs = make(torch.tensor)
    first = next(iter(kwargs))
    given = kwargs[first]
    if first not in MATRIX or (getattr(given, "ndim", 0) != 2 and not ldiv.issparse(given)):
        return []
    full = given.toarray() if ldiv.issparse(given) else given
    as_sparse = ldiv.coo_array(
        (full.reshape(-1), np.divmod(np.arange(full.numel()), full.shape[1])), shape=full.shape
    )
    kinds: dict[str, list[Callable[[], Any]]] = {
        "dense": [lambda: full],
        "sparse": [lambda: as_sparse],
        "operator": [partial(operator, full, promise) for promise in ("gen", "pos")],
    }
    return [
        kind
        for kind, made in kinds.items()
        if any(works(lambda one=one: f(**{**kwargs, first: one()}) is not None) for one in made)
    ]


def device(make: Callable[[Make], Call]) -> str:
    """The device on which a name computes with arrays of a device."""
    target = install()
    try:
        f, kwargs = make(lambda a: torch.tensor(a).to(target))
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            y = numbers(f(**kwargs))
    except Exception as error:
        return "host" if re.search("host|on the cpu|no engine", str(error)) else "refused"
    if any("host" in str(w.message) for w in said) or not y:
        return "host" if y else ""
    return "any" if all(x.device.type == target.type for x in y) else "host"


def measured(name: str, devices: bool = True) -> dict[str, Any]:

    def make(to: Make) -> Call:
        f, kwargs = CALLS[name](to)
        return f, {
            key: value
            for key, value in kwargs.items()
            if not (key in ACCURACY or (isinstance(value, str) and value == "jacobi"))
        }

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        seen = derivatives(make)
        found: dict[str, Any] = {
            "derivatives": [kind for kind in KINDS if kind in seen],
            "dtypes": dtypes(make),
            "matrices": matrices(make),
        }
        return found | ({"device": device(make)} if devices else {})


def main() -> None:
    jax.config.update("jax_enable_x64", True)
    table = {}
    for name in sys.argv[1:] or sorted(CALLS):
        try:
            table[name] = measured(name)
            print(name, table[name], flush=True)
        except AssertionError as error:
            print("WRONG", name, error, flush=True)
    if not sys.argv[1:]:
        FILE.write_text(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    main()
