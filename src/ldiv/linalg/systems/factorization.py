"""One factorization, held as long as its object lives: what `factorized` returns."""

from __future__ import annotations

from typing import Any

import numpy as np

from ldiv.core.arrays import alike, common_batch, numpy_dtype
from ldiv.core.calls import Table, parts_of, planned
from ldiv.core.dispatch import frontend_of, is_array, namespace
from ldiv.core.errstate import singular_state, under
from ldiv.core.holder import holding
from ldiv.core.public import public
from ldiv.core.pytree import register_pytree
from ldiv.core.record import snapshot, unrecorded
from ldiv.core.rule import bind
from ldiv.core.structure import Structure
from ldiv.core.trees import Tree, leaves
from ldiv.core.typing import ArrayT, Trans
from ldiv.core.validate import transposition
from ldiv.engines import registry
from ldiv.engines.factors.held_solve import Held, declined, held_solve
from ldiv.errors import expected_got
from ldiv.linalg.arguments.solve_problem import bound, require_method
from ldiv.linalg.systems.held_factor import HeldFactor
from ldiv.matrices.inverse import Inverse
from ldiv.matrices.matrix import Matrix, beside
from ldiv.rules.slogdet import SLogDet
from ldiv.rules.solve import Solve
from ldiv.rules.solve import solve as solve_rule

OF_SUPERLU = ("L", "U", "perm_c", "perm_r", "nnz")


class Factorized(HeldFactor):
    """One factorization of a matrix, held as long as this object lives; made by `factorized`.

    A pytree for JAX: its values are leaves, so that it goes into and out of `jax.jit`, `jax.grad`
    and `jax.vmap` as an array does. What comes out of a transformation finds the factor by these
    values, or makes it when it is first asked.
    """

    def __init__(
        self,
        structure: Structure,
        params: Tree,
        assume_a: str,
        method: str,
        factor_dtype: str | None = None,
    ) -> None:
        require_method(method)
        if method == "iterative" or (
            method in registry.engines() and registry.is_iterative(registry.engines()[method])
        ):
            raise ValueError(
                expected_got(
                    "method",
                    "an engine that factors",
                    repr(method),
                    "An iteration has no factors to hold: use solve.",
                )
            )
        self._structure, self._assume_a = structure, assume_a
        self._method = "direct" if method == "auto" else method
        self._factor_dtype = factor_dtype
        self._params = snapshot(params)  # later writes to A change neither values nor factor
        self._begin(singular_state())
        self._factor()

    def _begin(self, singular: str) -> None:
        super()._begin(singular)
        self._calls: Table = {}  # of `solve`, planned once for each kind of b
        self._direct: dict[Any, Any] = {}  # the same for NumPy's b, `Held`: by the factor itself
        self._is_own = True  # has nobody else the values, who might change them?
        self._factored = False

    @property
    def _given(self) -> tuple[Any, ...]:
        static = self._assume_a, self._method, self._factor_dtype
        return self._structure, self._params, *static

    @property
    def _values(self) -> Tree:
        return self._params

    def _factor(self) -> None:
        """A solve for no columns, whose factor the holder keeps for all solves that follow."""
        if self._factored:
            return
        first = leaves(self._params)[0]
        no_columns = namespace(first).zeros((self._structure.shape[0], 0), **alike(first))
        # unrecorded: a derivative that is being recorded is of the solves, not of this one
        with unrecorded(), holding(self._holder):
            solve_rule(
                self._structure,
                self._params,
                no_columns,
                self._assume_a,
                self._method,
                factor_dtype=self._factor_dtype,
            )
        self._factored = True

    def _moved(self, b: Any) -> Factorized:
        structure, params, *static = self._given
        return Factorized(structure, beside(Matrix(structure, params), b).params, *static)

    def __getattr__(self, name: str) -> Any:
        """What an object of SciPy's `splu` has, and this one has not, is refused in words."""
        if name in OF_SUPERLU:
            raise AttributeError(
                f"{name}: a Factorized solves, and shows no factors: engines order and scale the matrix "
                "in ways of their own. scipy.sparse.linalg.splu (A.to_scipy() of a SparseArray) has "
                f"{', '.join(OF_SUPERLU)}, without derivatives; ldiv.lu of a dense matrix has L and U with "
                "derivatives, ldiv.cholesky of a sparse positive definite one solves with half of its factor."
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def shape(self) -> tuple[int, ...]:
        """The batch axes, then rows and columns."""
        return (*common_batch(self._structure.core, self._params), *self._structure.shape)

    @property
    def dtype(self) -> Any:
        """The dtype of the matrix, in its framework."""
        return leaves(self._params)[0].dtype

    def __repr__(self) -> str:
        first, base = leaves(self._params)[0], type(self._structure.unview()[0]).__name__
        if not is_array(first):  # a leaf of somebody's tree
            return f"<Factorized {self._structure.shape} on {base}>"
        framework = frontend_of(first).__name__.rpartition(".")[2]
        return (
            f"<Factorized {self.shape} {numpy_dtype(first)} on {base}, "
            f"assume_a={self._assume_a!r}, method={self._method!r}, {framework}>"
        )

    @public
    def solve(self, b: ArrayT, trans: Trans = "N") -> ArrayT:
        """Solve op(A) x = b for b (n,) or (*batch, n, k), with trans "N", "T" or "H"."""
        kind = self._kind(b, trans)
        if (held := self._direct.get(kind)) and (found := held(b)) is not None:
            x: ArrayT = found
            return x
        there = self.beside(b)
        if there is not self:
            return there.solve(b, trans)
        if kind is not None and kind not in self._direct and self._calls:
            self._direct[kind] = self._held(b, trans)
        with under(self._singular), self._finding():
            return self._solve(b, trans)

    @planned
    def _solve(self, b: Any, trans: Any) -> Any:
        self._factor()
        structure = self._structure.view(transposition(trans))
        options = self._assume_a, self._method, None, self._factor_dtype
        return bound(structure, self._params, b, *options)

    __call__ = solve

    def _kind(self, b: Any, trans: Any) -> Any:
        """That of a call which the factor may be asked directly; None for all others."""
        if type(b) is not np.ndarray or type(trans) is not str or not self._is_own or not b.size:
            return None
        return b.dtype, b.ndim, trans

    def _held(self, b: Any, trans: Any) -> Held:
        """For b like this one, of a call that was validated."""
        if type(self._params) is not np.ndarray:
            return declined
        rule = Solve(
            self._structure.view(transposition(trans)),
            self._assume_a,
            self._method,
            vector=b.ndim == 1,
            factor_dtype=self._factor_dtype,
        )
        if rule.compiled is not None and rule.structure.pattern is None:
            return declined  # small dense ones are found as fast
        what = rule.structure, self._params, b, rule.vector
        with under(self._singular):
            return held_solve(self._holder, *what, self._assume_a, self._method, self._factor_dtype)

    @public
    def logabsdet(self) -> Any:
        """log |det A|, of shape (*batch,), in the framework of A."""
        with under(self._singular):
            self._factor()
            rule = SLogDet(self._structure, self._assume_a, self._method, sign=False)
            return bind(rule, self._params)[0]

    @property
    def inverse(self) -> Matrix:
        """A^-1 as a matrix whose products are solves.

        A preconditioner M for matrices near A, for example A with other values.
        """
        how = self._assume_a, self._method, self._singular, self._factor_dtype
        return Matrix(Inverse(self._structure, *how), self._params)


# -- a tree, for frameworks that look inside: the values vary, all else is static ---


def _flatten(F: Factorized) -> tuple[tuple[Tree], Any]:
    F._is_own = False
    return (F._params,), (F._structure, F._assume_a, F._method, F._factor_dtype, F._singular)


def _unflatten(static: Any, children: tuple[Tree]) -> Factorized:
    F = object.__new__(Factorized)
    F._structure, F._assume_a, F._method, F._factor_dtype, singular = static
    (F._params,) = children
    F._begin(singular)
    F._is_own = False
    return F


register_pytree(Factorized, _flatten, _unflatten)


parts_of[Factorized] = lambda held: (held._calls, held._params)
