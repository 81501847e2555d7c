"""Which engine solves, and why not the others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ldiv.core.arrays import batch_of, device_of, result_dtype
from ldiv.core.public import public
from ldiv.core.trees import Array, leaves
from ldiv.core.validate import as_block, require_batches
from ldiv.engines import registry
from ldiv.matrices.assumptions import promised_square


@dataclass(frozen=True)
class Explanation:
    """`engine` is what method="auto" takes, None if nothing fits; `answers`: what each engine said,
    in the order of asking.

    `then`: the engines that go on, in this order, where the one before takes the matrix for
    singular; the last one's word is final.
    """

    engine: str | None
    matrix: str
    answers: dict[str, str]
    then: tuple[str, ...]

    def __str__(self) -> str:
        width = max(map(len, self.answers))
        last = (
            [f"where {self.engine} takes the matrix for singular: {', then '.join(self.then)}"]
            if self.then
            else []
        )
        return "\n".join(
            [
                self.matrix,
                *(f"  {name:{width}}  {answer}" for name, answer in self.answers.items()),
                *last,
            ]
        )

    __repr__ = __str__


@public
def explain(A: Any, b: Array | None = None, *, assume_a: str = "gen") -> Explanation:
    """Say which engine `solve(A, b, assume_a=...)` takes, and why not the others.

    Arguments as in `solve`; b counts with its dtype and may be left out. Nothing is factored.
    Engines are asked from the most special to the most general, and the first that can is taken;
    `method=` names another. The last line says which engines go on where it takes the matrix for
    singular.

    >>> import ldiv, numpy as np
    >>> print(ldiv.explain(np.eye(3), assume_a="pos"))  # doctest: +ELLIPSIS
    Symmetric matrix, 3 x 3, float64 on cpu, promised positive definite
    ...
      lapack ...taken
    ...
    """
    matrix, structure, params, assumption = promised_square(A, assume_a)
    flat = leaves(params)
    if b is not None:
        block, _ = as_block("b", b, structure.shape[0], flat[0])
        require_batches("b", matrix.batch, batch_of(block, 2))
    dtype = result_dtype(*flat if b is None else (*flat, b))
    base, device = structure.unview()[0], device_of(flat[0])
    taken: str | None = None
    answers = {}
    for name, engine in registry.engines().items():
        reason = registry.answer(engine, base, dtype, device, assumption)
        answers[name] = reason or ("taken" if taken is None else "could, too")
        taken = name if taken is None and reason is None else taken
    promise = ", promised positive definite" if assumption == "pos" else ""
    rows, columns = structure.shape
    then = (
        ()
        if taken is None or registry.is_iterative(registry.engines()[taken])
        else registry.chain(base.plain, dtype, device, assumption).names[1:]
    )
    return Explanation(
        taken,
        f"{type(base).__name__} matrix, {rows} x {columns}, {dtype} on {device}{promise}",
        answers,
        then,
    )
