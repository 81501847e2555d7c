"""A = P^T L L^H P, a sparse Cholesky factor as an object: solves, determinant, variances, samples, updates."""

from __future__ import annotations

from typing import Any, overload

import numpy as np

from ldiv.core.arrays.pytree import register_attributes
from ldiv.core.arrays.shapes import (
    adjoint,
    batch_of,
    broadcast,
    conj,
    is_complex,
    numpy_dtype,
    real,
    take,
    transpose,
)
from ldiv.core.arrays.typing import ArrayT, Trans
from ldiv.core.arrays.validate import (
    as_block,
    common_precision,
    require_batches,
    require_flag,
    require_int,
    transposition,
)
from ldiv.core.calls.public import public
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import check_or_raise, frontend_of, is_array, namespace, traced
from ldiv.core.frameworks.pattern import Pattern
from ldiv.core.frameworks.trees import leaves
from ldiv.core.owners.holder import Holder, holding
from ldiv.core.policies.errstate import under
from ldiv.core.rules.record import unrecorded
from ldiv.core.rules.rule import bind
from ldiv.engines import entries
from ldiv.errors import EngineError, type_error, value_error
from ldiv.linalg.systems.factorization import Factorized
from ldiv.matrices.assumptions import promised
from ldiv.matrices.compose import LowRank
from ldiv.matrices.inverse_entries import inverse_at, plain
from ldiv.matrices.matrix import Matrix, as_matrix
from ldiv.matrices.sparse_array import SparseArray, on_a_pattern
from ldiv.rules.assertion import checked
from ldiv.rules.cholesky import Cholesky
from ldiv.rules.slogdet import SLogDet
from ldiv.rules.sparse_cholesky import sparse_cholesky
from ldiv.rules.triangular_quotients import eye, left_solve
from ldiv.rules.triangular_quotients import lower as lower_triangle
from ldiv.structures.sparse import Sparse
from ldiv.structures.sparse_triangular import SparseTriangular
from ldiv.structures.symmetric import Symmetric


class SparseCholesky:
    """The Cholesky factorization of a sparse matrix; made by `cholesky`.

        A = P^T L L^H P,    P a fill-reducing permutation

    A pytree for JAX, as `Factorized` is; pickled is the matrix, whose factors are computed again
    where it arrives. One factorization serves solves, determinant, variances and what needs L. It is
    held as long as this object lives. Without ldiv's compiled part variances take n solves and L is
    dense; both raise an EngineError for a matrix of more than 2,000 rows.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> A = ldiv.diags_array([np.full(3, 2.0), -np.ones(2), -np.ones(2)], offsets=[0, 1, -1])
    >>> F = ldiv.cholesky(A)
    >>> F.solve(np.array([1.0, 0.0, 1.0]))
    array([1., 1., 1.])
    >>> F.inverse_diagonal()
    array([0.75, 1.  , 0.75])
    >>> round(float(np.exp(F.logdet())), 12)
    4.0
    >>> F.sample(np.random.default_rng(0), 5).shape
    (5, 3)
    """

    def __init__(self, A: SparseArray) -> None:
        once = plain(A)
        self._pattern = once.structure
        structure, params = promised(once, "pos")
        self._factorized = Factorized(structure, params, "pos", "auto")
        self._holder = Holder()  # of the factors that show their entries

    @property
    def matrix(self) -> SparseArray:
        """A, on its pattern, each position once; later writes to the original change nothing."""
        return SparseArray(self._pattern, self._factorized._params)

    @property
    def shape(self) -> tuple[int, ...]:
        """The batch axes, then rows and columns."""
        return self._factorized.shape

    @property
    def dtype(self) -> Any:
        """The dtype of the matrix, in its framework."""
        return self._factorized.dtype

    def __repr__(self) -> str:
        return repr(self._factorized).replace("Factorized", "SparseCholesky", 1)

    @public
    def solve(self, b: ArrayT, trans: Trans = "N") -> ArrayT:
        """Solve op(A) x = b for b (n,) or (*batch, n, k), with trans "N", "T" or "H".

        Differentiable in A and b in every mode and order. Cost: a solve; a derivative another.
        """
        return self._factorized.solve(b, trans)

    __call__ = solve

    @public
    def half_solve(self, b: ArrayT, trans: Trans = "N") -> ArrayT:
        """L^-1 P b for b (n,) or (*batch, n, k); with trans "H" P^T L^-H b, with "T" P^T L^-T b.

        The norm of L^-1 P b is that of b in A^-1, and P^T L^-H whitens backwards (see `sample`).
        Differentiable in A and b in every mode and order. Cost: a triangular solve; the derivative
        in A twice the work of a factorization, by NumPy, and no inverse.
        """
        factored, op = self._factorized.beside(b), transposition(trans)
        like = leaves(factored._params)[0]
        block, vector = as_block("b", b, self.shape[-1], like)
        require_batches("b", self.shape[:-2], batch_of(block, 2))
        if 0 in block.shape:
            return b
        structure = factored._structure
        assert isinstance(structure, Symmetric)  # what is promised of an array that is `plain`
        triangle, order = _triangle_of(structure)
        with under(factored._singular), holding(self._holder):
            l = sparse_cholesky(structure, factored._params)
            l, block = common_precision(l, block)
            if op == "N":
                x = left_solve(triangle, l, _rows_taken(block, order))
            else:
                x = left_solve(triangle.view(op), l, block)
                x = _rows_taken(x, np.argsort(order))
        return x[..., 0] if vector else x

    @public
    def sample(self, key: Any, shape: int | tuple[int, ...] = ()) -> Any:
        """Draw from the normal distribution N(0, A^-1), whose precision is A.

            x = P^T L^-H z,    z ~ N(0, I)

        Parameters
        ----------
        key : numpy.random.Generator, torch.Generator, or a key of jax.random
            Where z comes from, of the framework of A.
        shape : int or tuple of int, default ()
            How many.

        Returns
        -------
        x : array (*shape, *batch, n)
            The samples; circular complex ones for a complex A. Which sample belongs to a key
            depends on P, and so on which packages for orderings are installed.

        Notes
        -----
        Differentiable in A, along z as it was drawn (reparametrized).
        """
        like, sizes = leaves(self._factorized._params)[0], _sizes(shape)
        z = _normal(key, (*sizes, *self.shape[:-1]), like)
        return self.half_solve(z[..., None], "H")[..., 0]

    @public
    def logdet(self) -> Any:
        """log det A, of shape (*batch,).

        Differentiable in A in every mode and order; the gradient is the selected inverse, at about
        the cost of a factorization.
        """
        factored = self._factorized
        with under(factored._singular), holding(self._holder):
            return bind(SLogDet(factored._structure, "pos", sign=False), factored._params)[0]

    @public
    def inverse_diagonal(self) -> Any:
        """The diagonal of A^-1, of shape (*batch, n): variances, where A is a precision.

        Differentiable in A in every mode and order, as `ldiv.inverse_diagonal` is.
        """
        every = np.arange(self._pattern.shape[0])
        with under(self._factorized._singular), holding(self._holder):
            return inverse_at(self.matrix, every, every, "pos")

    @overload
    def update(self, C: SparseArray, subtract: bool = False) -> SparseCholesky: ...
    @overload
    def update(self, C: ArrayT, subtract: bool = False) -> UpdatedCholesky: ...
    @public
    def update(
        self, C: SparseArray | ArrayT, subtract: bool = False
    ) -> SparseCholesky | UpdatedCholesky:
        """A + C C^H, or with `subtract` A - C C^H, factored.

        Parameters
        ----------
        C : SparseArray (*batch, n, k), or array (n,) or (*batch, n, k)
            Of a sparse C the sum is sparse, and factored anew. Of an array, of a few columns, the
            factors of A are updated by the formula of Woodbury: k solves.
        subtract : bool, default False
            The sign.

        Returns
        -------
        F : SparseCholesky or UpdatedCholesky
            The latter has no triangle L.

        Raises
        ------
        NotPositiveDefiniteError
            For a difference that is not positive definite.
        """
        subtract = require_flag("subtract", subtract)
        if isinstance(C, SparseArray) or not is_array(C):
            return SparseCholesky(_sum_of(self.matrix, C, subtract))
        base = self._beside(C)
        return UpdatedCholesky(base, _columns(C, base), subtract)

    def _beside(self, other: Any) -> SparseCholesky:
        """The factors, moved to the framework of the other array if they are NumPy's constants."""
        if (factored := self._factorized.beside(other)) is self._factorized:
            return self
        there = object.__new__(SparseCholesky)
        there._pattern, there._factorized, there._holder = self._pattern, factored, self._holder
        return there


class UpdatedCholesky:
    """The factors of A, updated to those of A + C C^H or A - C C^H; made by `update`.

    A pytree for JAX, and pickled by its matrix, as `SparseCholesky` is. Each solution is checked
    against the sum, and one that has suffered cancellation is refused.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> F = ldiv.cholesky(ldiv.eye_array(3)).update(np.ones(3))
    >>> F.solve(np.ones(3))
    array([0.25, 0.25, 0.25])
    >>> F.inverse_diagonal()
    array([0.75, 0.75, 0.75])
    >>> round(float(np.exp(F.logdet())), 12)
    4.0
    """

    def __init__(self, base: SparseCholesky, C: Array, subtract: bool) -> None:
        self._base, self._c, self._subtract = base, C, subtract
        self._made: Factorized | None = None
        with unrecorded():
            self._capacitance()  # positive definite, or an error now

    def _factorized(self) -> Factorized:
        """The factored A +- C C^H, found by Woodbury's formula when first asked for."""
        if self._made is not None:
            return self._made
        inner, C = self._base._factorized, self._c
        if not C.shape[-1]:
            return inner
        A = Matrix(inner._structure, inner._params)
        whole = A + LowRank(-C if self._subtract else C, C)
        made = Factorized(whole.structure, whole.params, "gen", "auto")
        if not any(map(traced, leaves(whole.params))):
            self._made = made
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled are the matrices; the factors are computed again where they arrive."""
        return UpdatedCholesky, (self._base, self._c, self._subtract)

    @property
    def shape(self) -> tuple[int, ...]:
        """The batch axes, then rows and columns."""
        batch = broadcast(self._base.shape[:-2], batch_of(self._c, 2))
        return (*batch, *self._base.shape[-2:])

    def __repr__(self) -> str:
        sign = "-" if self._subtract else "+"
        of = f"rank {self._c.shape[-1]}" if is_array(self._c) else "?"  # a leaf of somebody's tree
        return f"<UpdatedCholesky {sign} {of} of {self._base!r}>"

    @public
    def solve(self, b: ArrayT, trans: Trans = "N") -> ArrayT:
        """Solve op(A +- C C^H) x = b for b (n,) or (*batch, n, k).

        Differentiable in A, C and b in every mode and order.
        """
        return self._factorized().solve(b, trans)

    __call__ = solve

    @public
    def logdet(self) -> Any:
        """log det (A +- C C^H) = log det A + log det (I +- C^H A^-1 C)."""
        _, l = self._capacitance()
        xp = namespace(l)
        squares = real(xp.linalg.diagonal(l)) ** 2
        if not self._subtract:
            # l_ii^2 = c_ii - sum_j<i |l_ij|^2,  C = L L^H
            squares = _with_digits(squares, xp.sum(real(conj(l) * l), axis=-1))
        return self._base.logdet() + xp.sum(xp.log(squares), axis=-1)

    @public
    def inverse_diagonal(self) -> Any:
        """The diagonal of the inverse, by that of A^-1 and k solves."""
        w, l = self._capacitance()
        before = self._base.inverse_diagonal()
        v = left_solve(*lower_triangle(l), adjoint(w))  # the diagonal changes by that of V^H V
        change = namespace(v).sum(real(conj(v) * v), axis=-2)
        if self._subtract:
            return before + change
        return _with_digits(before - change, before)

    def _capacitance(self) -> tuple[Array, Array]:
        """A^-1 C, and the Cholesky factor of I +- C^H A^-1 C."""
        w = self._base.solve(self._c)
        product = adjoint(self._c) @ w
        one = eye(product, product.shape[-1])
        return w, bind(Cholesky(), one - product if self._subtract else one + product)[0]


def _triangle_of(structure: Symmetric) -> tuple[SparseTriangular, Any]:
    """The structure of L, and the rows of A in the order of P."""

    def make() -> tuple[SparseTriangular, Any]:
        fronts = entries.fronts_of(structure)
        _, rows, cols = fronts.factor_entries
        pattern = Pattern(rows, cols, structure.shape)
        return SparseTriangular(Sparse(pattern), True), np.asarray(fronts.rows)

    return structure.cached("triangle of P A P^T", make)


def _rows_taken(x: Array, order: Any) -> Array:
    """x[..., order, :]."""
    return transpose(take(transpose(x), order))


def _sizes(shape: Any) -> tuple[int, ...]:
    sizes = shape if isinstance(shape, tuple | list) else (shape,)
    return tuple(require_int("shape", size, 0) for size in sizes)


def _normal(key: Any, shape: tuple[int, ...], like: Array) -> Array:
    """Independent numbers of variance 1; of complex ones both parts have variance 1/2."""
    draw = frontend_of(like).standard_normal
    if not is_complex(like):
        return draw(key, shape, like)
    parts = draw(key, (2, *shape), real(like)) / 2**0.5
    return parts[0] + 1j * parts[1]


def _sum_of(A: SparseArray, C: Any, subtract: bool) -> SparseArray:
    matrix = as_matrix("C", C, leaves(A.params)[0])
    n = A.structure.shape[0]
    if (c := on_a_pattern(matrix)) is None:
        raise type_error("C", "a sparse matrix or an array", type(C).__name__, "Convert it.")
    if c.structure.shape[0] != n:
        raise value_error("C", f"{n} rows", c.structure.shape[0], "The sum is A + C C^H.")
    product = c @ c.H
    return A - product if subtract else A + product


def _columns(C: Any, base: SparseCholesky) -> Array:
    n = base.shape[-1]
    c, _ = as_block("C", C, n, leaves(base._factorized._params)[0])
    if c.shape[-1] >= n > 0:
        raise value_error(
            "C", f"fewer than {n} columns", c.shape[-1], "The sum is dense: use solve."
        )
    require_batches("C", base.shape[:-2], batch_of(c, 2))
    return c


def _with_digits(after: Array, before: Array) -> Array:
    """The differences `after`, or an error where one has lost half of the digits of `before`."""
    pair = namespace(after).stack([after, before], axis=-2)
    return checked(_require_digits, pair)[..., 0, :]


def _require_digits(pair: Array) -> None:
    after, before = real(pair[..., 0, :]), real(pair[..., 1, :])
    least = float(np.finfo(numpy_dtype(after)).eps) ** 0.5
    check_or_raise((after > least * before).all(), _cancelled)


def _cancelled() -> EngineError:
    return EngineError(
        "C C^H is so much larger than A that the formula of the update cancels. Factor the sum: "
        "cholesky(A + C C^H) with a sparse C, or inverse_diagonal and logdet of a dense sum."
    )


def _hold(F: SparseCholesky) -> None:
    F._holder = Holder()


def _forget(F: UpdatedCholesky) -> None:
    F._made = None


register_attributes(SparseCholesky, ("_factorized",), ("_pattern",), _hold)
register_attributes(UpdatedCholesky, ("_base", "_c"), ("_subtract",), _forget)
