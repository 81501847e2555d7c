"""A structure S maps parameters p to the matrix S(p); rules see it through matmul, push and outer.

    matmul(S, p, x)      S(p) x
    push(S, p, dp, x)    dS(p)[dp] x
    outer(S, p, u, v)    dS(p)^*[u v^H], the cotangent of p:
                         <outer, dp> = <u v^H, dS(p)[dp]>,   <P, Q> = Re tr(P^H Q)

A structure LINEAR (or affine) in p defines two kernels on plain arrays, `apply` and `project`
(`ldiv.core.rules.linear`); the three functions and the views S.T, S.H, S.C follow. A COMPOSED structure
writes `matmul`, `push`, `outer` and `view` by those of its parts.
Structures are frozen, hashable and compared by content.
"""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from typing import Any, ClassVar, TypeVar, overload

from ldiv.core.arrays.shapes import conj, transpose
from ldiv.core.arrays.space import HERE, Space
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.pattern import Pattern
from ldiv.core.frameworks.trees import Tree, leaves
from ldiv.core.owners.forking import lock

R = TypeVar("R")
Pair = tuple[Array, Array]
# op: (transposed?, conjugated?)
VIEWS = {"N": (False, False), "T": (True, False), "C": (False, True), "H": (True, True)}
_NAMES = {flags: name for name, flags in VIEWS.items()}


def compose(op: str, then: str) -> str:
    """The view `then` of the view `op`, as one view."""
    (t, c), (s, d) = VIEWS[op], VIEWS[then]
    return _NAMES[t != s, c != d]


def view_dense(a: Array, op: str) -> Any:
    """op(a) for a dense array, an array of its framework."""
    transposed, conjugated = VIEWS[op]
    a = transpose(a) if transposed else a
    return conj(a) if conjugated else a


class Lease:
    """A token whose only purpose is its lifetime."""


def _dead_reference() -> Any:
    """Return None, as a dead weak reference does."""
    return None


class Structure(ABC):
    """The knowledge about a matrix that does not depend on its numbers."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """(rows, columns)."""

    @property
    @abstractmethod
    def core(self) -> Tree:
        """The number of own trailing axes of each leaf of the parameters."""

    @property
    def sizes(self) -> list[tuple[int, ...]] | None:
        """The own shape of each leaf, to validate public arguments; None if any is valid."""
        return None

    @abstractmethod
    def matmul(self, p: Tree, x: Array) -> Array:
        """S(p) x for x (*batch, columns, k)."""

    @abstractmethod
    def push(self, p: Tree, dp: Tree, x: Array) -> Array:
        """dS(p)[dp] x."""

    @abstractmethod
    def outer(self, p: Tree, u: Array, v: Array, need: Tree) -> Tree:
        """dS(p)^*[u v^H] for u (*batch, rows, k), v (*batch, columns, k); None where not needed."""

    @abstractmethod
    def view(self, op: str) -> Structure:
        """The structure of op(S(p)), op in N, T, C, H, on the same parameters."""

    @abstractmethod
    def todense(self, p: Tree) -> Array:
        """S(p) as a dense array, from plain arrays; for tests and dense engines."""

    @property
    def on_host(self) -> bool:
        """Whether the parameters may be NumPy arrays; not if the user's framework must be called."""
        return True

    @property
    def definite(self) -> bool:
        """Whether the matrix is positive definite for all parameters, or by assumption."""
        return False

    @property
    def states_adjoint(self) -> bool:
        """True if a user's function or an assumption defines the product with S^H."""
        return False

    def read(self, p: Tree) -> Tree:
        """Return p with zeros for numbers that the matrix does not depend on: only the other
        numbers must be finite.
        """
        return p

    @property
    def space(self) -> Space:
        """The space of the vectors that S maps."""
        return HERE

    @property
    def order(self) -> int:
        """The number of rows, those on other processes included."""
        return self.shape[0]

    @property
    def unit_powers(self) -> Tree | None:
        """Law: S(t^w p) = t^2 S(p) for these powers w of each leaf; None if there are none."""
        return None

    @property
    def plain(self) -> Structure:
        """The same matrix for direct engines, without an unchecked assumption of symmetry."""
        return self

    # -- optional properties, which engines ask for -------------------------------

    @property
    def has_entries(self) -> bool:
        """Whether solves use the entries of S, which a promise of symmetry makes symmetric.

        A structure with an `inverse` of its own (Gram, Kronecker, product) solves with its parts,
        never with its entries.
        """
        return self.pattern is not None and self.inverse is None

    @property
    def pattern(self) -> Pattern | None:
        """The positions of the entries of a sparse matrix, else None.

        A view of a linear structure has none: engines use its base.
        """
        return None

    def slot_values(self, p: Tree) -> Any:
        """Law: pattern.csc(slot_values(p)) = S(p), for NumPy arrays; defined if `pattern` is."""
        raise NotImplementedError

    @property
    def parameter_places(self) -> Pattern | None:
        """Law: S(p) = sum_e p_e e_row(e) e_col(e)^T for a single vector of parameters, else None."""
        return None

    @property
    def rank(self) -> int:
        """Return an upper bound of the rank. Law: rank S(p) is at most this."""
        return min(self.shape)

    @property
    def may_be_regular(self) -> bool:
        """Whether S is square, and regular for some parameters."""
        m, n = self.shape
        return m == n <= self.rank

    def halves(self, p: Tree) -> tuple[tuple[Structure, Tree], tuple[Structure, Tree]]:
        """Law: U V = S(p) for (U, its parameters), (V, its parameters).

        U has `rank` columns. Defined if the rank is low.
        """
        raise NotImplementedError

    def outer_between(self, p: Tree, u: Array, v: Array, inner: Pair, need: Tree) -> Tree:
        """Law: outer(p, u, v, need), given V v and what the V of S^H makes of u, in reverse order.

        Where u and v are large and these are small, products with u and v have no digits left.
        Defined if the rank is low.
        """
        raise NotImplementedError

    def between(self, p: Tree, y: Array) -> Array:
        """Law: W^H between(p, V) = S(p) for the V of S and the W of S^H. Defined if the rank is low."""
        return y

    inverse: ClassVar[Callable[..., Array] | None] = None
    """Law: inverse(p, b, solve) = S(p)^-1 b, made of solve(part, its parameters, b).

    None unless the matrix is composed of parts.
    """

    slogdet: ClassVar[Callable[..., tuple[Array, Array]] | None] = None
    """Law: slogdet(p, of) = (det S(p) / |det S(p)|, log |det S(p)|), made of of(part, its parameters).

    Defined if `inverse` is, and asked if `has_square_parts`.
    """

    @property
    def has_square_parts(self) -> bool:
        """Whether S is made of other structures, all of them square."""
        return False

    def update(self, p: Tree) -> tuple[tuple[Structure, Tree], tuple[Structure, Tree]] | None:
        """Law: A + W = S(p) for (A, its parameters), (W, its parameters), W of low rank; else None."""
        return None

    def determinant_diagonal(self, p: Tree) -> Array | None:
        """Law: the product of these numbers (*batch, n) is det S(p); None if it has no such formula.

        By rules and array operators, as it is differentiated.
        """
        return None

    # -- views --------------------------------------------------------------------

    def unview(self) -> tuple[Structure, str]:
        """(base, op) with S = op(base); all four views share the factorization of the base."""
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

    def cached(self, key: Hashable, make: Callable[[], R]) -> R:
        """Return make(), made once: it depends on the structure alone (indices, orderings)."""
        kept: dict[Hashable, R] = self.__dict__.setdefault("_memo", {})
        if (cached := kept.get(key)) is not None:
            return cached
        if key not in kept:
            with self.__dict__.setdefault("_memo_lock", lock()):
                if key not in kept:
                    kept[key] = made = make()
                    if isinstance(made, Structure) and made is not self:
                        made.__dict__["_memo_of"] = weakref.ref(self)
        return kept[key]

    @property
    def lease(self) -> Lease:
        """Return a token that every array on this pattern keeps: symbolic work is kept as long as
        the token lives.
        """
        found: Lease | None = self.__dict__.get("_memo_lease", _dead_reference)()
        if found is None:
            found = Lease()
            self.__dict__["_memo_lease"] = weakref.ref(found)
        return found

    @property
    def is_referenced(self) -> bool:
        """True while an array on this pattern, or on the pattern from which this one was derived, exists."""
        if self.__dict__.get("_memo_lease", _dead_reference)() is not None:
            return True
        origin: Structure | None = self.__dict__.get("_memo_of", _dead_reference)()
        return origin is not None and origin.is_referenced

    def forget(self) -> None:
        """Drop the caches of this structure, of its parts, and of structures derived from it. These
        caches refer to each other, and only the garbage collector would free them.
        """
        seen: dict[int, Structure] = {}
        found: list[Any] = [self]
        while found:
            one = found.pop()
            if isinstance(one, tuple):
                found += one
            elif isinstance(one, Structure) and id(one) not in seen:
                seen[id(one)] = one
                found += [*one.__dict__.pop("_memo", {}).values(), *vars(one).values()]

    def __getstate__(self) -> dict[str, Any]:
        """The state without caches: a copy makes its own."""
        return {
            name: value for name, value in self.__dict__.items() if not name.startswith("_memo")
        }


class Wrapper(Structure):
    """A structure made of one other, its `base`, with the same parameters."""

    base: Structure

    @property
    def shape(self) -> tuple[int, int]:
        return self.base.shape

    @property
    def core(self) -> Tree:
        return self.base.core

    @property
    def sizes(self) -> list[tuple[int, ...]] | None:
        return self.base.sizes

    @property
    def on_host(self) -> bool:
        return self.base.on_host

    @property
    def space(self) -> Space:
        return self.base.space

    @property
    def states_adjoint(self) -> bool:
        return self.base.states_adjoint

    @property
    def unit_powers(self) -> Tree | None:
        return self.base.unit_powers

    @property
    def order(self) -> int:
        return self.base.order

    def read(self, p: Tree) -> Tree:
        return self.base.read(p)


# -- arithmetic where None means zero -----------------------------------------


@overload
def plus(a: Array, b: Array | None) -> Array: ...
@overload
def plus(a: Array | None, b: Array) -> Array: ...
@overload
def plus(a: Array | None, b: Array | None) -> Array | None: ...
def plus(a: Array | None, b: Array | None) -> Array | None:
    """Add a and b, where None is zero."""
    return b if a is None else a if b is None else a + b


@overload
def minus(a: Array, b: Array | None) -> Array: ...
@overload
def minus(a: Array | None, b: Array) -> Array: ...
@overload
def minus(a: Array | None, b: Array | None) -> Array | None: ...
def minus(a: Array | None, b: Array | None) -> Array | None:
    """Subtract b from a, where None is zero."""
    return a if b is None else -b if a is None else a - b


def nonzero(a: Array | None) -> Array:
    """Return a, which the caller knows not to be None, the zero."""
    assert a is not None
    return a


def matmul(structure: Structure, p: Tree, x: Array) -> Array:
    """S(p) x."""
    return structure.matmul(p, x)


def push(structure: Structure, p: Tree, dp: Tree, x: Array) -> Array | None:
    """dS(p)[dp] x, None if dp is zero."""
    return structure.push(p, dp, x) if [y for y in leaves(dp) if y is not None] else None


def outer(structure: Structure, p: Tree, u: Array, v: Array, need: Tree) -> Tree:
    """dS(p)^*[u v^H] of the parameters that `need` marks."""
    return structure.outer(p, u, v, need) if any(leaves(need)) else nothing(need)


def nothing(need: Tree) -> Tree:
    """Return the zero cotangent of a tree."""
    return tuple(nothing(branch) for branch in need) if isinstance(need, tuple) else None
