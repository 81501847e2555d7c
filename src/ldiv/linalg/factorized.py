"""One factorization, held: factor once, solve many times."""

from __future__ import annotations

import copy
from typing import Any

from ldiv.core.arrays import alike
from ldiv.core.dispatch import namespace
from ldiv.core.errstate import singular_state, under
from ldiv.core.holder import Holder, holding
from ldiv.core.public import public
from ldiv.core.pytree import copied
from ldiv.core.record import snapshot, unrecorded
from ldiv.core.rule import bind
from ldiv.core.structure import Structure
from ldiv.core.trees import Array, Tree, leaves
from ldiv.core.validate import PROMISES, require_option, require_square, transposition
from ldiv.engines import registry
from ldiv.errors import expected_got
from ldiv.linalg.door import Door, door_in
from ldiv.linalg.solve import require_method, solved
from ldiv.matrices.assumptions import definiteness, promised
from ldiv.matrices.inverse import Inverse
from ldiv.matrices.matrix import Matrix, as_matrix
from ldiv.rules.logabsdet import LogAbsDet
from ldiv.rules.solve import solve as solve_rule


@public
def factorized(A: Any, *, assume_a: str = "gen", method: str = "auto") -> Factorized:
    """Factor a matrix once, and solve with it many times, differentiably.

        F = factorized(A);    F.solve(b) = F(b) = A^-1 b,    F.logabsdet() = log |det A|

    Arguments, dtypes, errors as in `solve`. The factorization is held as long as the result lives.
    It is
    that of the values that A has now: they are copied, and writing to the arrays of A later changes
    nothing. `F.solve` is differentiable in A and b like `solve`; `F.logabsdet()` in A, d log|det A|
    = Re tr(A^-1 dA).
    Cost: 1 factorization now; each solve is a solve. The derivative of logabsdet takes n solves, in
    blocks.

    >>> import ldiv, numpy as np
    >>> F = ldiv.factorized(np.array([[2.0, 1.0], [1.0, 3.0]]), assume_a="pos")
    >>> F.solve(np.array([3.0, 4.0]))
    array([1., 1.])
    >>> round(float(F.logabsdet()), 6)
    1.609438
    """
    require_option("assume_a", assume_a, PROMISES)
    matrix = as_matrix("A", A)
    require_square("A", matrix.structure.shape)
    structure, params = promised(matrix, assume_a)
    return Factorized(structure, params, definiteness(structure, assume_a), method)


class Factorized:
    """One factorization, held; made by `factorized`."""

    def __init__(self, structure: Structure, params: Tree, assume_a: str, method: str) -> None:
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
        method = "direct" if method == "auto" else method
        params = snapshot(params)
        self._structure, self._params, self._assume_a, self._method = (
            structure,
            params,
            assume_a,
            method,
        )
        self._singular = singular_state()
        self._calls: dict[Any, Any] = {}
        first = leaves(params)[0]
        no_columns = namespace(first).zeros((structure.shape[0], 0), **alike(first))
        self._holder = Holder()
        # apart: whoever records sees the solves, not the factoring
        with unrecorded(), holding(self._holder):
            solve_rule(structure, params, no_columns, assume_a, method)

    def __reduce__(self) -> tuple[Any, ...]:
        """The matrix travels, its factor is made anew."""
        return Factorized, (self._structure, self._params, self._assume_a, self._method)

    def __deepcopy__(self, cached: dict[int, Any]) -> Factorized:
        return Factorized(
            copy.deepcopy(self._structure, cached),
            copied(self._params, cached),
            self._assume_a,
            self._method,
        )

    @public
    def solve(self, b: Array, trans: Any = "N") -> Array:
        """op(A)^-1 b for b (n,) or (*batch, n, k); trans "N", "T" or "H"."""
        through = self._door(b, trans)
        if through is not None and through.call is not None:
            return through.call.bound(self._params, b)
        with under(self._singular):
            structure = self._structure.view(transposition(trans))
            return solved(structure, self._params, b, self._assume_a, self._method, through=through)

    def _door(self, b: Any, trans: Any) -> Door | None:
        return (
            None
            if isinstance(self._params, tuple)
            else door_in(self._calls, self._params, b, trans)
        )

    __call__ = solve

    @public
    def logabsdet(self) -> Array:
        """log |det A|, of shape (*batch,)."""
        return bind(
            LogAbsDet(self._structure, self._assume_a, self._method, self._singular), self._params
        )[0]

    @property
    def inverse(self) -> Matrix:
        """A^-1 to multiply with, by a solve each time: a preconditioner `M` for matrices near A,
        which may be A with other values.
        """
        return Matrix(
            Inverse(self._structure, self._assume_a, self._method, self._singular), self._params
        )
