"""The engine that solves, and why the others do not."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import batch_of, device_of, result_dtype
from ldiv.core.arrays.typing import AnyArray, Assumption
from ldiv.core.arrays.validate import as_block, require_batches
from ldiv.core.calls.public import public
from ldiv.core.frameworks.trees import leaves
from ldiv.core.rules.structure import Structure
from ldiv.engines import registry
from ldiv.engines.libraries.native import native
from ldiv.engines.libraries.work import OF_ENGINES, Work, work
from ldiv.matrices.assumptions import promised_square
from ldiv.matrices.matrix import MatrixLike
from ldiv.structures.sparse import Sparse
from ldiv.structures.symmetric import Symmetric

ABLE = "could, too"
SEEN = 0.01  # seconds that are printed


@dataclass(frozen=True)
class Explanation:
    """The engine that method="auto" takes, and what each engine answered.

    Attributes
    ----------
    engine : str or None
        The engine that is taken, None if none can solve.
    matrix : str
        The matrix in words.
    answers : dict
        What each engine answered, in the order in which they are asked.
    then : tuple of str
        The engines that go on, in this order, where the one before takes the matrix for singular;
        the verdict of the last one is final.
    fill, operations : int and float, or None
        The entries of a triangular factor of a sparse matrix, and the operations of L L^T, which L U
        takes twice; None where nothing is compiled, and for other matrices.
    seconds : dict
        How long each direct engine that could factor it takes on one thread, about: from the fill
        and the operations, to a factor of three. How long an iteration takes depends on the numbers.
    """

    engine: str | None
    matrix: str
    answers: dict[str, str]
    then: tuple[str, ...]
    fill: int | None = None
    operations: float | None = None
    seconds: dict[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        width = max(map(len, self.answers))
        lines = [f"  {name:{width}}  {self._answer(name)}" for name in self.answers]
        if self.fill is not None:
            lines.append(f"a factor: {self.fill} entries, {self.operations:.1e} operations")
        if self.then:
            then = ", then ".join(self.then)
            lines.append(f"where {self.engine} takes the matrix for singular: {then}")
        return "\n".join([self.matrix, *lines])

    def _answer(self, name: str) -> str:
        seconds = self.seconds.get(name, 0.0)
        return self.answers[name] + (f", in about {seconds:.1g} s" if seconds >= SEEN else "")

    __repr__ = __str__


@public
def explain(
    A: MatrixLike, b: AnyArray | None = None, *, assume_a: Assumption = "gen"
) -> Explanation:
    """Say which engine `solve(A, b, assume_a=...)` takes, and why not the others.

    Parameters
    ----------
    A : array (*batch, n, n), SparseArray, LinearOperator, or any other Matrix
        The matrix.
    b : array (n,) or (*batch, n, k), optional
        The right-hand side, of which the dtype counts.
    assume_a : str, default "gen"
        As in `solve`.

    Returns
    -------
    explanation : Explanation
        To be printed, or read.

    Raises
    ------
    ValueError, TypeError
        For arguments that `solve` does not take either.

    Notes
    -----
    Engines are asked from the most special to the most general, and the first that can is taken;
    `method=` of `solve` names another. The last line that is printed says which engines go on where
    the one that is taken finds the matrix singular.
    Nothing to differentiate: the answer depends on structure, dtype and device.
    Cost: nothing is factored and nothing is solved; a sparse matrix is ordered, to count its fill.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> print(ldiv.explain(np.eye(3), assume_a="pos"))  # doctest: +ELLIPSIS
    Symmetric matrix, 3 x 3, float64 on cpu, promised positive definite
    ...
      lapack ...taken
    ...
    """
    matrix, structure, params, assumption = promised_square(A, assume_a, b)
    flat = leaves(params)
    blocks = [] if b is None else [as_block("b", b, structure.shape[0], flat[0])[0]]
    for block in blocks:
        require_batches("b", matrix.batch, batch_of(block, 2))
    dtype = result_dtype(*flat, *blocks)
    # engines are asked about the matrix itself, not its transpose
    base, device = structure.unview()[0], device_of(flat[0])
    if (engine := registry.whole(structure)) is not None and engine.explain is not None:
        return Explanation(*engine.explain(base, dtype, assumption), ())
    taken, answers = _ask_all(base, dtype, device, assumption)
    then: tuple[str, ...] = ()
    if taken is not None and not registry.is_iterative(registry.engines()[taken]):
        names = registry.chain(base.plain, dtype, device, assumption).names
        # what was chosen once may be unavailable by now, as in a forked process
        then = tuple(name for name in names if answers[name] == ABLE)
    (rows, columns), kind = structure.shape, type(base).__name__
    definite = ", promised positive definite" if assumption == "pos" else ""
    words = f"{kind} matrix, {rows} x {columns}, {dtype} on {device}{definite}"
    if (counted := _work(base.plain)) is None:
        return Explanation(taken, words, answers, then)
    able = [name for name in OF_ENGINES if answers.get(name) in ("taken", ABLE)]
    seconds = {name: counted.seconds(name) for name in able}
    return Explanation(taken, words, answers, then, *counted, seconds)


def _work(structure: Structure) -> Work | None:
    """The work to factor a sparse matrix, if it can be counted."""
    base = structure.base if isinstance(structure, Symmetric) else structure
    if native is None or not isinstance(base, Sparse) or 0 in base.shape:
        return None
    return base.cached("work", lambda: work(base.pattern))


def _ask_all(
    structure: Structure, dtype: np.dtype[Any], device: str, assumption: str
) -> tuple[str | None, dict[str, str]]:
    """The first engine that can solve, and the answers of all, in the order of asking."""
    taken: str | None = None
    answers = {}
    for name, engine in registry.engines().items():
        reason = registry.answer(engine, structure, dtype, device, assumption)
        answers[name] = reason or ("taken" if taken is None else ABLE)
        taken = name if taken is None and reason is None else taken
    return taken, answers
