"""The quality of a solution, which `solve(..., info=True)` returns beside it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from ldiv.core.arrays.pytree import ArrayHolder
from ldiv.core.arrays.shapes import one_by_one, or_one, result_dtype
from ldiv.core.cached_property import cached_property
from ldiv.core.calls.call import Bound, Result
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import asnumpy, constant, traced
from ldiv.core.frameworks.trees import Tree, leaves, rebuild
from ldiv.core.owners.holder import Holder, Owner, holding, owner
from ldiv.core.rules.record import snapshot, unrecorded
from ldiv.core.rules.rule import apply, in_state
from ldiv.core.rules.structure import Structure, matmul
from ldiv.engines import registry, solve_log
from ldiv.engines.accuracy.norm_estimate import one_norm
from ldiv.engines.iterative.matrix_product import assembled, on_numpy, stored_one_norm
from ldiv.engines.solve_log import Entry
from ldiv.linalg.arguments.alternatives import not_in_a_trace
from ldiv.rules.solve import Solve, solve


@dataclass(frozen=True)
class SolveInfo:
    """The engine that solved, and the quality of its solution.

    Of several columns or matrices, the worst. The relative error of x, and of its derivatives, is
    at most about backward_error * condition.

    Attributes
    ----------
    engine : str
        The engine that solved.
    iterations : int
        Steps, 0 for an engine that factors.
    residual : float
        |b - A x| / |b|.
    backward_error : float
        |b - A x| / (|A| |x| + |b|) in the 1-norm, the least relative change of A and b that makes x
        exact.
    gave_up : dict
        The engines that were asked before and took the matrix for singular, and what they found.
    condition : float or None
        An estimate of |A| |A^-1| in the 1-norm from the factor, made when it is first asked for;
        None for an engine that iterates, and over several processes.
    """

    engine: str
    iterations: int
    residual: float
    backward_error: float
    gave_up: dict[str, str]
    _matrix: Estimated = field(repr=False)

    @cached_property
    def condition(self) -> float | None:
        """An estimate of |A|_1 |A^-1|_1."""
        if registry.whole(self._matrix.structure) is not None:
            return None
        return self._matrix.condition(self.engine)


def with_info(call: Bound) -> Bound:
    """The same call, whose result is the solution and its `SolveInfo`."""
    return Bound(call.rule, call.flat, tuple, partial(_informed, call.result))


def _informed(result: Result, rule: Any, bind: Any, flat: list[Any]) -> tuple[Any, SolveInfo]:
    """Solve, and return x with its `SolveInfo`, which estimates the condition only when asked."""
    keeper = Holder() if (present := owner()) is None else present
    with solve_log.reading() as entries, holding(keeper):
        x = result(apply(in_state(rule), bind, flat))
    count = len(leaves(rule.structure.core))
    p, b = flat[:count], flat[count]
    if not entries or any(map(traced, (x, *p))):
        raise not_in_a_trace()
    block = x[:, None] if x.ndim == 1 else x
    b = b[:, None] if b.ndim == 1 else b
    return x, _solve_info(rule, p, b, block, entries[-1], keeper)


def _solve_info(
    rule: Solve, p: list[Any], b: Array, x: Array, entry: Entry, keeper: Owner
) -> SolveInfo:
    """The quality of x, by one product with A and |A|_1, in double precision."""
    how = rule.structure, rule.assume_a, rule.method, rule.factor_dtype, keeper
    if (
        registry.whole(rule.structure) is not None
    ):  # whose engine computes norms of the whole matrix
        r_size = entry.residual or 0.0
        own = Estimated((), *how)
        return SolveInfo(entry.engine, entry.iterations, r_size, r_size, entry.gave_up, own)
    # a copy: the condition may be asked for when the arrays of A hold other numbers
    params = snapshot(rebuild(rule.structure.core, [constant(leaf) for leaf in p]))
    matrix, x = Estimated(params, *how), constant(x)
    r, b, x = map(_in_double, (constant(b) - assembled(rule.structure, params)(x), b, x))
    residual = np.linalg.norm(r, axis=-2) / or_one(np.linalg.norm(b, axis=-2))
    # |b - A x| / (|A| |x| + |b|), columns in the 1-norm
    r_size, b_size, x_size = (np.abs(y).sum(-2) for y in (r, b, x))
    backward_error = r_size / or_one(matrix.norm * x_size + b_size)
    return SolveInfo(
        entry.engine,
        entry.iterations,
        float(residual.max(initial=0)),
        float(backward_error.max(initial=0)),
        entry.gave_up,
        matrix,
    )


def _in_double(x: Array) -> np.ndarray[Any, Any]:
    """Return a NumPy array, real or complex, of at least double precision."""
    values = asnumpy(x)
    return values.astype(np.result_type(values, np.float64))


@dataclass(frozen=True, eq=False)
class Estimated(ArrayHolder):
    """The 1-norm of a matrix and of its inverse, the largest of a batch."""

    params: Tree
    structure: Structure
    assume_a: str
    method: str
    factor_dtype: str | None
    keeper: Owner  # of the factor

    def condition(self, engine: str) -> float | None:
        """|A|_1 |A^-1|_1, by the factor of this engine; None for one that iterates."""
        found = registry.engines().get(engine)
        if found is not None and registry.is_iterative(found):
            return None  # there is no factor to solve with
        return self.norm * self.inverse_norm()

    @cached_property
    def norm(self) -> float:
        """|A|_1; of a matrix whose entries are not stored an estimate."""
        if (stored := stored_one_norm(self.structure, self.params)) is not None:
            return stored

        def of(p: Tree) -> float:
            return self._one_norm(
                *(lambda v, s=s: matmul(s, p, v) for s in (self.structure, self.structure.H))
            )

        return max(map(of, self._matrices()), default=0.0)

    def inverse_norm(self) -> float:
        """|A^-1|_1, by solves as that of x was, with the factor that it made."""

        def of(p: Tree) -> float:
            views = (self.structure, self.structure.H)
            return self._one_norm(
                *(
                    lambda v, s=s: solve(
                        s, p, v, self.assume_a, self.method, factor_dtype=self.factor_dtype
                    )
                    for s in views
                )
            )

        with unrecorded(), holding(self.keeper):
            return max(map(of, self._matrices()), default=0.0)

    def _one_norm(self, product: Any, adjoint: Any) -> float:
        dtype, like = result_dtype(self.params), leaves(self.params)[0]
        n = self.structure.shape[0]
        return one_norm(n, dtype, on_numpy(product, like), on_numpy(adjoint, like)) if n else 0.0

    def _matrices(self) -> Iterator[Tree]:
        """The parameters of every matrix of the batch."""
        return one_by_one(self.structure.core, self.params)
