"""One factorization, held as long as its object lives: what `factorized` returns."""

from __future__ import annotations

from typing import Any

from ldiv.core.arrays.pytree import register_attributes
from ldiv.core.arrays.shapes import alike, common_batch, numpy_dtype
from ldiv.core.arrays.typing import ArrayT, Trans
from ldiv.core.arrays.validate import transposition
from ldiv.core.calls.call import Table, parts_of, plan, planned
from ldiv.core.calls.public import public
from ldiv.core.frameworks.dispatch import constant, frontend_of, is_array, namespace
from ldiv.core.frameworks.trees import Tree, leaves, rebuild
from ldiv.core.owners.holder import holding
from ldiv.core.policies.errstate import singular_state, under
from ldiv.core.rules.record import snapshot, unrecorded
from ldiv.core.rules.rule import bind
from ldiv.core.rules.structure import Structure
from ldiv.linalg.arguments.solve_problem import bound
from ldiv.linalg.systems.held_factor import HeldFactor
from ldiv.matrices.inverse import Inverse
from ldiv.matrices.matrix import Matrix, beside
from ldiv.rules.slogdet import SLogDet
from ldiv.rules.solve import Solve

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
        self._structure, self._assume_a = structure, assume_a
        self._method = "direct" if method == "auto" else method
        self._factor_dtype = factor_dtype
        self._params = snapshot(params)  # later writes to A change neither values nor factor
        self._begin(singular_state())
        self._factor()

    def _begin(self, singular: str) -> None:
        super()._begin(singular)
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
        flat = [constant(x) for x in leaves(self._params)]
        no_columns = namespace(flat[0]).zeros((*self.shape[:-1], 0), **alike(flat[0]))
        rule = _rule(self._structure, self._assume_a, self._method, self._factor_dtype)
        # unrecorded: a derivative that is being recorded is of the solves, not of this one
        with under(self._singular), unrecorded(), holding(self._holder):
            bind(rule, *flat, no_columns)
        self._factored = True

    def _moved(self, b: Any) -> Factorized:
        structure, params, *static = self._given
        return Factorized(structure, beside(Matrix(structure, params), b).params, *static)

    def __getattr__(self, name: str) -> Any:
        """Refuse attributes of SciPy's `splu` that this class lacks, with advice."""
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
        if not is_array(first):  # a leaf of a user's pytree
            return f"<Factorized {self._structure.shape} on {base}>"
        framework = frontend_of(first).__name__.rpartition(".")[2]
        return (
            f"<Factorized {self.shape} {numpy_dtype(first)} on {base}, "
            f"assume_a={self._assume_a!r}, method={self._method!r}, {framework}>"
        )

    @public
    def solve(self, b: ArrayT, trans: Trans = "N") -> ArrayT:
        """Solve op(A) x = b for b (n,) or (*batch, n, k), with trans "N", "T" or "H"."""
        with self._finding():
            return self._solve(b, trans)

    @planned
    def _solve(self, b: Any, trans: Any) -> Any:
        there = self.beside(b)
        if there is not self or singular_state() != self._singular:
            with under(self._singular):
                return there.solve(b, trans)
        self._factor()
        structure = self._structure.view(transposition(trans))
        options = self._assume_a, self._method, None, self._factor_dtype
        return bound(structure, self._params, b, *options)

    __call__ = solve

    @public
    def logabsdet(self) -> Any:
        """log |det A|, of shape (*batch,), in the framework of A."""
        self._factor()
        with under(self._singular):
            rule = SLogDet(self._structure, self._assume_a, self._method, sign=False)
            return bind(rule, self._params)[0]

    @property
    def inverse(self) -> Matrix:
        """A^-1 as a matrix whose products are solves.

        A preconditioner M for matrices near A, for example A with other values.
        """
        how = self._assume_a, self._method, self._singular, self._factor_dtype
        return Matrix(Inverse(self._structure, *how), self._params)


# -- as a pytree: the values vary, all else is static ---


STATIC = "_structure", "_assume_a", "_method", "_factor_dtype", "_singular"
register_attributes(Factorized, ("_params",), STATIC, lambda F: F._begin(F._singular))


# -- calls -----------------------------------------------------------------------------------------


def _rule(structure: Structure, assume_a: str, method: str, factor_dtype: str | None) -> Solve:
    """The rule of a block of columns, made once for each state of `errstate`."""
    state = singular_state()
    return structure.cached(
        ("held", assume_a, method, factor_dtype, state),
        lambda: Solve(structure, assume_a, method, policy=state, factor_dtype=factor_dtype),
    )


def planned_factor(
    structure: Structure, params: Tree, assume_a: str, method: str, factor_dtype: str | None
) -> Factorized:
    """The call that factors arrays of this kind, and holds the factor."""
    rule = Solve(structure, assume_a, method, factor_dtype=factor_dtype)
    return plan(rule, leaves(params), use=_factorized_of)


def _factorized_of(rule: Any, bind: Any, flat: list[Any]) -> tuple[Factorized]:
    """The factor of the matrix that a rule solves with."""
    params = rebuild(rule.core[0], flat)
    return (Factorized(rule.structure, params, rule.assume_a, rule.method, rule.factor_dtype),)


def _parts(F: Factorized) -> tuple[Table, Tree, Any]:
    """The calls of the structure, factored, so that solves find the factor."""
    F._factor()
    static = F._assume_a, F._method, F._factor_dtype, F._singular
    return F._structure.cached("calls", dict), F._params, static


parts_of[Factorized] = _parts
