"""lineax: the engines of ldiv as a linear solver, and sparse arrays as linear operators; for diffrax and optimistix too.

    A = ldiv.lineax.SparseOperator(array, tags)             lineax.linear_solve(A, b, ldiv.lineax.Solver()).value
    optimistix.Newton(rtol, atol, linear_solver=ldiv.lineax.Solver(sparsity=pattern))

lineax differentiates `linear_solve` itself, by solves with A and A^T; here are the solves. They run on the host, where the
factorization is remembered: one for the value, its tangents, its cotangents, and every step that keeps the matrix.

Errors are lineax's: a solve that ldiv refuses (singular, a broken promise, NaN) gives NaN and `RESULTS.singular`, which
`linear_solve` raises, or returns where `throw=False`, as adaptive step sizes need it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial, singledispatch
from itertools import count
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx
import numpy as np
import scipy.sparse
from lineax.internal import PackedStructures, pack_structures, ravel_vector, transpose_packed_structures, unravel_solution

from ldiv import solver as engines
from ldiv.construct import asarray, coo_array, diags_array
from ldiv.errors import NotSymmetricError, got
from ldiv.linalg import promised
from ldiv.matrix import Matrix
from ldiv.rule import Array, Tree, batch_of, bind, broadcast, leaves, load_frontends, numpy_dtype, on_host, rebuild
from ldiv.rules.solve import Solve
from ldiv.sparse import SparseArray
from ldiv.structures.dense import Dense
from ldiv.structures.diagonal import Diagonal
from ldiv.structures.sparse import Sparse
from ldiv.validate import require_option, require_square

load_frontends()  # JAX hears that matrices are trees


# -- a sparse array as a linear operator -----------------------------------------------------------------------------------------


class SparseOperator(lx.AbstractLinearOperator):  # type: ignore[misc]
    """A SparseArray, or what `ldiv.asarray` makes one, as a lineax operator; every lineax solver takes it.

    Differentiable in the values. Diagonal, triangular and tridiagonal patterns need no tags. One matrix, no batch:
    a batch is `jax.vmap`.

    >>> import jax.numpy as jnp, ldiv.lineax, lineax
    >>> array = ldiv.coo_array((jnp.array([4.0, 4.0, 1.0, 1.0]), ([0, 1, 0, 1], [0, 1, 1, 0])), shape=(2, 2))
    >>> A = ldiv.lineax.SparseOperator(array, lineax.positive_semidefinite_tag)
    >>> lineax.linear_solve(A, jnp.array([6.0, 9.0]), ldiv.lineax.Solver()).value
    Array([1., 2.], dtype=float32)
    """

    array: SparseArray
    tags: frozenset[object] = eqx.field(static=True)

    def __init__(self, array: Any, tags: Any = ()) -> None:
        array = asarray(array)
        if array.batch:
            raise ValueError(got("SparseOperator", "one matrix", f"a batch {array.batch}", "Make the operator inside jax.vmap."))
        self.array = array.with_data(jnp.asarray(array.data))
        self.tags = frozenset(tags if isinstance(tags, Iterable) else [tags])

    def mv(self, vector: Array) -> Array:
        return self.array @ vector

    def as_matrix(self) -> Array:
        return self.array.toarray()

    def transpose(self) -> SparseOperator:
        return self if lx.is_symmetric(self) else SparseOperator(self.array.T, lx.transpose_tags(self.tags))

    def in_structure(self) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(self.array.structure.shape[1:], self.array.dtype)

    def out_structure(self) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(self.array.structure.shape[:1], self.array.dtype)


def _band(array: SparseArray) -> tuple[int, int]:
    """How far the pattern reaches below and above the diagonal."""
    offsets = array.col.astype(np.int64) - array.row
    return -int(offsets.min(initial=0)), int(offsets.max(initial=0))


def _by_pattern(tag: object, fits: Callable[[int, int], bool]) -> Callable[[SparseOperator], bool]:
    """A property that a tag promises or the pattern shows."""
    return lambda operator: tag in operator.tags or fits(*operator.array.structure.memo("band", lambda: _band(operator.array)))


def _is_symmetric(operator: SparseOperator) -> bool:
    """A definite matrix is Hermitian: symmetric too where it is real."""
    definite = lx.is_positive_semidefinite(operator) or lx.is_negative_semidefinite(operator)
    return lx.symmetric_tag in operator.tags or lx.is_diagonal(operator) or (definite and operator.array.data.dtype.kind == "f")


lx.is_diagonal.register(SparseOperator, _by_pattern(lx.diagonal_tag, lambda below, above: below == above == 0))
lx.is_tridiagonal.register(SparseOperator, _by_pattern(lx.tridiagonal_tag, lambda below, above: max(below, above) <= 1))
lx.is_lower_triangular.register(SparseOperator, _by_pattern(lx.lower_triangular_tag, lambda below, above: above == 0))
lx.is_upper_triangular.register(SparseOperator, _by_pattern(lx.upper_triangular_tag, lambda below, above: below == 0))
lx.is_positive_semidefinite.register(SparseOperator, lambda operator: lx.positive_semidefinite_tag in operator.tags)
lx.is_negative_semidefinite.register(SparseOperator, lambda operator: lx.negative_semidefinite_tag in operator.tags)
lx.has_unit_diagonal.register(SparseOperator, lambda operator: lx.unit_diagonal_tag in operator.tags)
lx.is_symmetric.register(SparseOperator, _is_symmetric)
lx.diagonal.register(SparseOperator, lambda operator: operator.array.diagonal())
lx.tridiagonal.register(SparseOperator, lambda operator: tuple(operator.array.diagonal(k) for k in (0, -1, 1)))
lx.conj.register(SparseOperator, lambda operator: SparseOperator(operator.array.conj(), operator.tags))
for _same in (lx.linearise, lx.materialise):
    _same.register(SparseOperator, lambda operator: operator)


# -- the matrix of an operator ---------------------------------------------------------------------------------------------------


@singledispatch
def sparse(operator: lx.AbstractLinearOperator) -> SparseArray | None:
    """The operator as a sparse array, None where only its action is known: I - dt * J is as sparse as J."""
    return None


def _dtype(operator: lx.AbstractLinearOperator) -> Any:
    return jnp.result_type(*jax.tree.leaves(operator.in_structure()))


def _identity(operator: lx.AbstractLinearOperator) -> SparseArray:
    return diags_array(jnp.ones(1, _dtype(operator)), shape=(operator.out_size(), operator.in_size()))


def _tridiagonal(operator: lx.AbstractLinearOperator) -> SparseArray:
    main, lower, upper = lx.tridiagonal(operator)
    return diags_array([main, lower, upper], offsets=[0, -1, 1]) if len(main) > 1 else diags_array(main)


def _joined(join: Callable[[SparseArray, SparseArray], SparseArray], operator: Any) -> SparseArray | None:
    one, two = sparse(operator.operator1), sparse(operator.operator2)
    return None if one is None or two is None else join(one, two)


def _scaled(scale: Callable[[SparseArray, Any], SparseArray], operator: Any) -> SparseArray | None:
    one = sparse(operator.operator)
    return None if one is None else scale(one, operator)


sparse.register(SparseOperator, lambda operator: operator.array)
sparse.register(lx.IdentityLinearOperator, _identity)
sparse.register(lx.DiagonalLinearOperator, lambda operator: diags_array(lx.diagonal(operator)))
sparse.register(lx.TridiagonalLinearOperator, _tridiagonal)
sparse.register(lx.TaggedLinearOperator, partial(_scaled, lambda a, _: a))
sparse.register(lx.NegLinearOperator, partial(_scaled, lambda a, _: -a))
sparse.register(lx.MulLinearOperator, partial(_scaled, lambda a, operator: a * operator.scalar))
sparse.register(lx.DivLinearOperator, partial(_scaled, lambda a, operator: a / operator.scalar))
sparse.register(lx.AddLinearOperator, partial(_joined, lambda a, b: a + b))
sparse.register(lx.ComposedLinearOperator, partial(_joined, lambda a, b: a @ b))


def matrix_of(operator: lx.AbstractLinearOperator, pattern: Sparse | None = None) -> Matrix:
    """The operator with the structure that it is known to have; a dense matrix where nothing is known."""
    if lx.is_diagonal(operator):
        return Matrix(Diagonal(operator.in_size()), lx.diagonal(operator))
    if (array := sparse(operator)) is not None:
        return array
    if lx.is_tridiagonal(operator):
        return _tridiagonal(operator)
    if pattern is not None:
        return _probed(operator, pattern)
    return Matrix(Dense(operator.out_size(), operator.in_size()), operator.as_matrix())


def _probed(operator: lx.AbstractLinearOperator, pattern: Sparse) -> SparseArray:
    """The entries of a pattern, from one product for each colour (Curtis, Powell, Reid, 1974)."""
    if pattern.shape != (operator.out_size(), operator.in_size()):
        raise ValueError(
            got("sparsity", f"shape {(operator.out_size(), operator.in_size())}", str(pattern.shape), "It is the pattern of the operator.")
        )
    packed, operator = pack_structures(operator), lx.linearise(operator)
    colour = pattern.memo("colouring", lambda: colouring(pattern))
    seeds = colour == np.arange(colour.max(initial=0) + 1)[:, None]
    seen = jax.vmap(lambda e: ravel_vector(operator.mv(unravel_solution(e, packed)), packed))(jnp.asarray(seeds, _dtype(operator)))
    rows, cols = pattern.pattern.rows, pattern.pattern.cols
    return SparseArray(pattern, seen[colour[cols], rows])


def colouring(pattern: Sparse) -> np.ndarray[Any, np.dtype[np.int64]]:
    """A colour for each column, no two of a colour with an entry in one row, by the first that is free."""
    places = scipy.sparse.csr_array((np.ones(pattern.pattern.nnz), (pattern.pattern.rows, pattern.pattern.cols)), shape=pattern.shape)
    meets = scipy.sparse.csr_array(places.T @ places)
    colour = np.full(pattern.shape[1], -1)
    for j, (start, stop) in enumerate(zip(meets.indptr, meets.indptr[1:], strict=False)):
        taken = set(colour[meets.indices[start:stop]].tolist())
        colour[j] = next(c for c in count() if c not in taken)
    return colour


# -- the solver ------------------------------------------------------------------------------------------------------------------

PROMISES = (
    (lx.is_diagonal, "diagonal"),
    (lx.is_lower_triangular, "lower triangular"),
    (lx.is_upper_triangular, "upper triangular"),
    (lx.is_positive_semidefinite, "pos"),
    (lx.is_negative_semidefinite, "her"),
    (lx.is_symmetric, "sym"),
)
REFUSALS = (np.linalg.LinAlgError, NotSymmetricError)


@dataclass(frozen=True)
class Attempt(Solve):
    """(x, refused) with S(p) x = b, NaN where it is refused; in a batch each matrix for itself."""

    differentiable = (True, False)

    def kernel(self, *args: Tree) -> tuple[Array, ...]:
        flat = leaves(args)
        x = (*self._batch(flat), *flat[-1].shape[-2:]), np.result_type(*map(numpy_dtype, flat))
        return on_host(self._attempt, (x, (x[0][:-2], np.dtype(bool))), *flat)

    def jvp(self, tangents: tuple[Tree, ...], out: tuple[Array, ...], *args: Tree) -> tuple[Array | None, ...]:
        return *super().jvp(tangents, out[:1], *args), None

    def vjp(self, need: tuple[Tree, ...], cotangents: tuple[Array | None, ...], out: tuple[Array, ...], *args: Tree) -> tuple[Tree, ...]:
        return super().vjp(need, cotangents[:1], out[:1], *args)

    def _batch(self, flat: list[Array]) -> tuple[int, ...]:
        return broadcast(*(batch_of(x, core) for x, core in zip(flat, leaves(self.core), strict=True)))

    def _attempt(self, *flat: Array) -> tuple[Array, Array]:
        p, b = rebuild(self.core, flat)
        batch = self._batch(list(flat))
        try:
            if all(np.isfinite(x).all() for x in flat):
                return engines.solve(self.structure, p, b, self.assume_a, self.method), np.zeros(batch, bool)
        except REFUSALS:
            pass
        x, refused = np.full((*batch, *b.shape[-2:]), np.nan, np.result_type(*flat)), np.ones(batch, bool)
        whole = [np.broadcast_to(a, (*batch, *a.shape[a.ndim - core :])) for a, core in zip(flat, leaves(self.core), strict=True)]
        for i in np.ndindex(batch or 0):
            x[i], refused[i] = self._attempt(*(np.ascontiguousarray(a[i]) for a in whole))
        return x, refused


class State(eqx.Module):
    """The parameters of the matrix, on the structure that the rule has."""

    params: Tree
    rule: Attempt = eqx.field(static=True)
    packed: PackedStructures


class Solver(lx.AbstractLinearSolver[State]):  # type: ignore[misc]
    """ldiv's engines as a lineax solver, for square operators that are not singular.

        x = A^-1 b

    The structure decides: sparse for `SparseOperator` and sums, products and multiples of it with diagonal, tridiagonal and
    identity operators; diagonal and tridiagonal where tags say so; dense otherwise. The tags positive (negative) semidefinite,
    symmetric, diagonal, lower and upper triangular become promises (`assume_a` of `ldiv.solve`); a broken one is refused.
    sparsity: a sparse matrix with entries wherever the operator can have some, for operators known by their action alone, such
    as the Jacobians of optimistix and diffrax; they are read by one product for each colour of its columns.
    method: "auto" or the name of an engine.
    A refused solve has `RESULTS.singular`: `linear_solve` raises, or returns it if `throw=False`.
    Cost: 1 factorization for all solves with one matrix; it is found again by its values, so the state keeps no factor.

    >>> import jax, jax.numpy as jnp, ldiv.lineax, lineax, numpy as np
    >>> f = lambda y, _: y**3 + 4 * y - jnp.roll(y, 1).at[0].set(0)
    >>> pattern = ldiv.diags_array([np.ones(1), np.ones(1)], offsets=[0, -1], shape=(3, 3))
    >>> J = lineax.JacobianLinearOperator(f, jnp.ones(3))
    >>> lineax.linear_solve(J, jnp.array([7.0, 13.0, 12.0]), ldiv.lineax.Solver(sparsity=pattern)).value
    Array([1., 2., 2.], dtype=float32)
    """

    sparsity: Sparse | None = eqx.field(static=True)
    method: str = eqx.field(static=True)

    def __init__(self, sparsity: Any = None, method: str = "auto") -> None:
        require_option("method", method, ("auto", *engines.engines()))
        self.sparsity = None if sparsity is None else _pattern(asarray(sparsity))
        self.method = method

    def init(self, operator: lx.AbstractLinearOperator, options: dict[str, Any]) -> State:
        require_square("the operator", (operator.out_size(), operator.in_size()))
        matrix = matrix_of(operator, self.sparsity)
        takes_promises = isinstance(matrix.structure.unview()[0], Dense | Sparse)
        promise = next((promise for check, promise in PROMISES if takes_promises and check(operator)), "gen")
        structure, params = promised(matrix, promise)
        rule = Attempt(structure, "pos" if promise == "pos" else "gen", self.method)
        engines.choose(structure.unview()[0], numpy_dtype(leaves(params)[0]), "cpu", rule.assume_a, rule.method)  # raises now if there is none
        return State(params, rule, pack_structures(operator))

    def compute(self, state: State, vector: Any, options: dict[str, Any]) -> tuple[Any, lx.RESULTS, dict[str, Any]]:
        x, refused = bind(state.rule, state.params, ravel_vector(vector, state.packed)[:, None])
        result = lx.RESULTS.where(refused, lx.RESULTS.singular, lx.RESULTS.successful)
        return unravel_solution(x[:, 0], state.packed), result, {}

    def transpose(self, state: State, options: dict[str, Any]) -> tuple[State, dict[str, Any]]:
        return State(state.params, _seen(state.rule, "T"), transpose_packed_structures(state.packed)), options

    def conj(self, state: State, options: dict[str, Any]) -> tuple[State, dict[str, Any]]:
        return State(state.params, _seen(state.rule, "C"), state.packed), options

    def assume_full_rank(self) -> bool:
        return True


def _seen(rule: Attempt, op: str) -> Attempt:
    return replace(rule, structure=rule.structure.view(op))


def _pattern(array: SparseArray) -> Sparse:
    """Every position once, not as a view."""
    once = coo_array((np.ones(array.nnz), (array.row, array.col)), shape=array.structure.shape).sum_duplicates()
    structure = once.structure
    assert isinstance(structure, Sparse)
    return structure
