"""A structure S maps parameters p to the matrix S(p); rules see it through matmul, push and outer.

    matmul(S, p, x)      S(p) x
    push(S, p, dp, x)    dS(p)[dp] x
    outer(S, p, u, v)    dS(p)^*[u v^H], the cotangent of p: <outer, dp> = <u v^H, dS(p)[dp]>,  <P, Q> = Re tr(P^H Q)

A structure LINEAR (or affine) in p gives two kernels on plain arrays, `apply` and `project`, and has the three functions
and its views S.T, S.H, S.C for nothing. An EXPRESSION writes `matmul`, `push`, `outer` and `view` with those of the
structures it is made of. Structures are frozen, hashable and compared by content.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, TypeVar

from ldiv.core.arrays import batch_of, broadcast, conj, fold, spread, transpose
from ldiv.core.forking import lock
from ldiv.core.rule import Rule, bind
from ldiv.core.trees import Array, Tree, leaves

R = TypeVar("R")
VIEWS = {"N": (False, False), "T": (True, False), "C": (False, True), "H": (True, True)}  # (transposed?, conjugated?)
_NAMES = {flags: name for name, flags in VIEWS.items()}


def compose(op: str, then: str) -> str:
    """The view `then` of the view `op`."""
    (t, c), (s, d) = VIEWS[op], VIEWS[then]
    return _NAMES[t != s, c != d]


def view_dense(a: Array, op: str) -> Array:
    """op(a) for a dense array."""
    transposed, conjugated = VIEWS[op]
    a = transpose(a) if transposed else a
    return conj(a) if conjugated else a


class Structure(ABC):
    """What is known about a matrix before its numbers are."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """(rows, columns)."""

    @property
    @abstractmethod
    def core(self) -> Tree:
        """For each leaf of the parameters, how many trailing axes are its own; the axes before them are batch axes."""

    @property
    def sizes(self) -> list[tuple[int, ...]] | None:
        """The own axes of each leaf, for the public layer to check; None where any sizes will do."""
        return None

    @abstractmethod
    def matmul(self, p: Tree, x: Array) -> Array:
        """S(p) x for x (*batch, columns, k)."""

    @abstractmethod
    def push(self, p: Tree, dp: Tree, x: Array) -> Array:
        """dS(p)[dp] x."""

    @abstractmethod
    def outer(self, p: Tree, u: Array, v: Array, need: Tree) -> Tree:
        """dS(p)^*[u v^H] for u (*batch, rows, k), v (*batch, columns, k); None where `need` is False."""

    @abstractmethod
    def view(self, op: str) -> Structure:
        """The structure of op(S(p)), op in N, T, C, H, on the same parameters."""

    @abstractmethod
    def todense(self, p: Tree) -> Array:
        """S(p) as a dense array, from plain arrays; for tests, and for engines of dense matrices."""

    @property
    def on_host(self) -> bool:
        """Can NumPy arrays stand in for the parameters? Not where a function of the user's framework is called."""
        values = [part for name, value in vars(self).items() if name[0] != "_" for part in (value if isinstance(value, tuple) else (value,))]
        return all(part.on_host for part in values if isinstance(part, Structure))

    @property
    def definite(self) -> bool:
        """Is it positive definite whatever the parameters, or by a promise?"""
        return False

    def read(self, p: Tree) -> Tree:
        """What of p the matrix depends on, the rest as zeros: only this must be finite."""
        return p

    @property
    def plain(self) -> Structure:
        """The same matrix for engines that factor, which have no use for a promise that nobody checks."""
        return self

    def unview(self) -> tuple[Structure, str]:
        """(base, op) with S = op(base), base the structure whose factorization serves all four views."""
        return self, "N"

    @property
    def T(self) -> Structure:
        return self.view("T")

    @property
    def H(self) -> Structure:
        return self.view("H")

    @property
    def C(self) -> Structure:
        return self.view("C")

    def memo(self, key: Hashable, make: Callable[[], R]) -> R:
        """What depends on the structure alone is made once and kept on it: index sets, orderings, symbolic factorizations."""
        kept: dict[Hashable, R] = self.__dict__.setdefault("_memo", {})
        if (known := kept.get(key)) is not None:
            return known
        if key not in kept:
            with self.__dict__.setdefault("_memo_lock", lock()):
                if key not in kept:
                    kept[key] = make()
        return kept[key]

    def __getstate__(self) -> dict[str, Any]:
        """What is remembered does not travel: a copy makes its own."""
        return {name: value for name, value in self.__dict__.items() if not name.startswith("_memo")}


class Linear(Structure):
    """A structure linear or affine in p, a single array; a subclass writes `apply` and `project` on plain arrays."""

    @abstractmethod
    def apply(self, p: Tree, x: Array, op: str) -> Array:
        """op(S(p)) x."""

    @abstractmethod
    def project(self, u: Array, v: Array) -> Tree:
        """S^*(u v^H): the entries of u v^H that the structure has."""

    @property
    def tangent(self) -> Linear:
        """The structure of dS: S itself where it is linear."""
        return self

    def matmul(self, p: Tree, x: Array) -> Array:
        return bind(Matmul(self), p, x)[0]

    def push(self, p: Tree, dp: Tree, x: Array) -> Array:
        return bind(Matmul(self.tangent), dp, x)[0]

    def outer(self, p: Tree, u: Array, v: Array, need: Tree) -> Tree:
        if not leaves(p):
            return ()
        if u.ndim == v.ndim == 2:
            return bind(self._outer, u, v)[0]
        if leaves(p)[0].ndim == leaves(self.core)[0]:  # one matrix: its cotangent sums over the batch
            u, v = (fold(spread(x, broadcast(batch_of(u, 2), batch_of(v, 2)))) for x in (u, v))
        return bind(self._outer, u, v)[0]

    @property
    def _outer(self) -> Outer:
        return self.memo("outer", lambda: Outer(self.tangent))

    def view(self, op: str) -> Structure:
        return self if op == "N" else self.memo(("view", op), lambda: View(self, op))


@dataclass(frozen=True)
class View(Linear):
    """op(base) for a linear base, op in T, C, H, on the parameters and the factorization of the base."""

    base: Linear
    op: str

    @property
    def shape(self) -> tuple[int, int]:
        m, n = self.base.shape
        return (n, m) if VIEWS[self.op][0] else (m, n)

    @property
    def core(self) -> Tree:
        return self.base.core

    @property
    def sizes(self) -> list[tuple[int, ...]] | None:
        return self.base.sizes

    @property
    def tangent(self) -> Linear:
        return self if self.base.tangent is self.base else View(self.base.tangent, self.op)

    def apply(self, p: Tree, x: Array, op: str) -> Array:
        return self.base.apply(p, x, compose(self.op, op))

    def project(self, u: Array, v: Array) -> Tree:
        transposed, conjugated = VIEWS[self.op]
        if transposed != conjugated:
            u, v = conj(u), conj(v)
        return self.base.project(v, u) if transposed else self.base.project(u, v)

    def view(self, op: str) -> Structure:
        return self.base.view(compose(self.op, op))

    def todense(self, p: Tree) -> Array:
        return view_dense(self.base.todense(p), self.op)

    def unview(self) -> tuple[Structure, str]:
        return self.base, self.op


# -- the two bilinear rules -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Matmul(Rule):
    """y = S(p) x;  dy = dS[dp] x + S dx;  p_bar = S^*(y_bar x^H), x_bar = S^H y_bar."""

    structure: Linear

    may_overflow = True

    @property
    def core(self) -> tuple[Tree, ...]:
        return (self.structure.core, 2)

    def kernel(self, *args: Tree) -> tuple[Array, ...]:
        p, x = args
        return (self.structure.apply(p, x, "N"),)

    def jvp(self, tangents: tuple[Tree, ...], out: tuple[Array, ...], *args: Tree) -> tuple[Array | None, ...]:
        (p, x), (dp, dx) = args, tangents
        return (plus(push(self.structure, p, dp, x), dx if dx is None else self.structure.matmul(p, dx)),)

    def vjp(self, need: tuple[Tree, ...], cotangents: tuple[Array | None, ...], out: tuple[Array, ...], *args: Tree) -> tuple[Tree, ...]:
        (p, x), (y_bar,) = args, cotangents
        return (
            outer(self.structure, p, y_bar, x, need[0]),
            self.structure.H.matmul(p, y_bar) if need[1] else None,
        )


@dataclass(frozen=True)
class Outer(Rule):
    """g = S^*(u v^H);  dg = S^*(du v^H) + S^*(u dv^H);  u_bar = S(g_bar) v, v_bar = S(g_bar)^H u."""

    structure: Linear

    may_overflow = True

    @property
    def core(self) -> tuple[Tree, ...]:
        return (2, 2)

    def kernel(self, *args: Tree) -> tuple[Array, ...]:
        return (self.structure.project(*args),)

    def jvp(self, tangents: tuple[Tree, ...], out: tuple[Array, ...], *args: Tree) -> tuple[Array | None, ...]:
        (u, v), (du, dv) = args, tangents
        return (plus(du if du is None else bind(self, du, v)[0], dv if dv is None else bind(self, u, dv)[0]),)

    def vjp(self, need: tuple[Tree, ...], cotangents: tuple[Array | None, ...], out: tuple[Array, ...], *args: Tree) -> tuple[Tree, ...]:
        (u, v), (g_bar,) = args, cotangents
        return (
            self.structure.matmul(g_bar, v) if need[0] else None,
            self.structure.H.matmul(g_bar, u) if need[1] else None,
        )


# -- None means zero --------------------------------------------------------------------------------------------------------------


def plus(a: Array | None, b: Array | None) -> Array | None:
    """a + b where None is zero."""
    return b if a is None else a if b is None else a + b


def minus(a: Array | None, b: Array | None) -> Array | None:
    """a - b where None is zero."""
    return a if b is None else -b if a is None else a - b


def matmul(structure: Structure, p: Tree, x: Array) -> Array:
    """S(p) x."""
    return structure.matmul(p, x)


def push(structure: Structure, p: Tree, dp: Tree, x: Array) -> Array | None:
    """dS(p)[dp] x, None if nothing moves."""
    return None if all(leaf is None for leaf in leaves(dp)) else structure.push(p, dp, x)


def outer(structure: Structure, p: Tree, u: Array, v: Array, need: Tree) -> Tree:
    """dS(p)^*[u v^H] where `need` asks for it."""
    return structure.outer(p, u, v, need) if any(leaves(need)) else nothing(need)


def nothing(need: Tree) -> Tree:
    """The zero cotangent of a tree."""
    return tuple(nothing(branch) for branch in need) if isinstance(need, tuple) else None
