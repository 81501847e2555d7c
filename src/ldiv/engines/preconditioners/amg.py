"""M = one V-cycle of algebraic multigrid by pyamg; for elliptic problems, of any size.

The number of iterations hardly grows with the size of the problem. The hierarchy is built once for
each set of values, and lives as long as its owner; a cycle costs a few products with the matrix.
Runs on the host.
Reference: Vanek, Mandel and Brezina, Computing 56 (1996), smoothed aggregation; Bell, Olson and
Schroder, JOSS 7 (2022), pyamg.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import issparse

from ldiv.core.arrays.validate import require_float
from ldiv.core.frameworks.dispatch import asnumpy
from ldiv.core.frameworks.trees import Tree
from ldiv.core.owners.forking import lock
from ldiv.core.rules.structure import VIEWS, Structure
from ldiv.engines.preconditioners.approximate_inverse import ApproximateInverse, require_sparse
from ldiv.errors import EngineError, type_error, value_error


def build(
    structure: Structure, p: Tree, *, near_nullspace: Any = None, **options: Any
) -> tuple[Structure, Tree]:
    """One V-cycle for S(p), with pyamg's `options`.

    `near_nullspace` (n, q): vectors that the matrix nearly maps to zero, such as rigid body modes.
    """
    require_sparse("amg", structure)
    pyamg, n = _pyamg(), structure.shape[0]
    accepted = inspect.signature(pyamg.smoothed_aggregation_solver).parameters
    if unknown := set(options) - set(accepted) | set(options) & {"A", "B"}:
        raise type_error(
            "options",
            "near_nullspace and those of pyamg.smoothed_aggregation_solver",
            ", ".join(sorted(unknown)),
            "See pyamg.",
        )
    if near_nullspace is None:
        modes = None
    else:
        columns = asnumpy(require_float("near_nullspace", near_nullspace))
        if columns.ndim != 2 or columns.shape[0] != n or columns.shape[1] == 0:
            raise value_error(
                "near_nullspace",
                f"shape ({n}, q)",
                str(columns.shape),
                "One column for each vector that nearly maps to zero.",
            )
        modes = Modes(columns)
    return Multigrid(structure, modes, tuple(sorted(options.items()))), p


def _pyamg() -> Any:
    try:
        import pyamg
    except ImportError:
        raise EngineError(
            "M='amg' needs pyamg, which is not installed: pip install ldiv[amg]"
        ) from None
    return pyamg


class Modes:
    """The vectors (n, q) of a near null space, compared by content."""

    def __init__(self, columns: Any) -> None:
        # a copy, as the key is computed from the present values
        self.columns = np.array(columns, order="C")
        self._key = (self.columns.shape, self.columns.dtype.str, self.columns.tobytes())

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Modes) and self._key == other._key


@dataclass(frozen=True)
class Multigrid(ApproximateInverse):
    """One cycle for S(p), with the parameters of S; its adjoint is a cycle for S^H."""

    modes: Modes | None = None
    options: tuple[tuple[str, Any], ...] = ()

    def view(self, op: str) -> Structure:
        base = self.base.view(op)
        return self if base == self.base else Multigrid(base, self.modes, self.options)

    @property
    def made_for(self) -> tuple[Any, ...]:
        return (self,)

    def make(self, p: Tree) -> Cycle:
        base, op = self.base.unview()
        assert base.pattern is not None
        matrix = base.pattern.csc(base.slot_values(p))
        transposed, conjugated = VIEWS[op]
        matrix = matrix.T if transposed else matrix
        return Cycle(matrix, conjugated, self.modes, dict(self.options))

    def applied(self, made: Cycle) -> Callable[[Any], Any]:
        return made


SMOOTHERS = {"presmoother", "postsmoother"}
_drawing = lock()


@contextmanager
def _same_numbers() -> Iterator[None]:
    """Fix NumPy's global random numbers, from which pyamg estimates spectral radii.

    So equal values have equal hierarchies.
    """
    with _drawing:
        state = np.random.get_state()  # noqa: NPY002
        np.random.seed(0)  # noqa: NPY002
        try:
            yield
        finally:
            np.random.set_state(state)  # noqa: NPY002


class Cycle:
    """X = the result of one V-cycle on A X = B, for blocks of columns.

    The cycle is pyamg's, from a start at zero: its smoothers take one column at a time, all
    products take the block. Coarse matrices that pyamg stores in blocks of size 1 are stored
    without blocks here, where its smoothers are eight times as fast.
    """

    def __init__(
        self, matrix: Any, conjugated: bool, modes: Modes | None, options: dict[str, Any]
    ) -> None:
        with _same_numbers():
            self._build(matrix, conjugated, modes, options)

    def _build(
        self, matrix: Any, conjugated: bool, modes: Modes | None, options: dict[str, Any]
    ) -> None:
        csr = matrix.tocsr()
        csr = (csr.conj() if conjugated else csr).astype(
            np.result_type(csr.dtype, np.float64), copy=False
        )
        columns = None if modes is None else modes.columns.astype(csr.dtype)
        # pyamg's B are the vectors that A nearly maps to zero
        made = _pyamg().smoothed_aggregation_solver(csr, B=columns, **options)
        self._levels, self._coarsest = made.levels, made.coarse_solver
        if not SMOOTHERS & options.keys():  # others may have been set up for the matrices as stored
            for level in self._levels:
                level.A = _without_blocks(level.A)
        self._dtype = csr.dtype
        held = [x for level in self._levels for x in vars(level).values()]
        # A, P and R of each level and its vectors, and the inverse of the coarsest matrix
        arrays = [y for x in held for y in ((x.data, x.indices, x.indptr) if issparse(x) else (x,))]
        owners = [y if y.base is None else y.base for y in arrays if isinstance(y, np.ndarray)]
        inverse = self._levels[-1].A.shape[0] ** 2 * csr.dtype.itemsize
        self.nbytes = inverse + sum(y.nbytes for y in {id(y): y for y in owners}.values())

    def __call__(self, b: Any) -> Any:
        """Apply the cycle to b (n, k)."""
        if b.dtype.kind == "c" and self._dtype.kind != "c":
            # A is real, so the cycle takes real and imaginary parts by themselves
            return self(b.real) + 1j * self(b.imag)
        return self._on_level(0, np.asfortranarray(b, self._dtype))

    def _on_level(self, number: int, b: Any) -> Any:
        level, x = self._levels[number], np.zeros_like(b, order="F")
        # on the coarsest level a direct solve, of one column at a time
        if number + 1 == len(self._levels):
            for j in range(b.shape[1]):
                x[:, j] = self._coarsest(level.A, b[:, j])
            return x
        for j in range(b.shape[1]):
            level.presmoother(level.A, x[:, j], b[:, j])
        # R (b - A x), the residual on the coarse level
        coarse = np.asfortranarray(level.R @ (b - level.A @ x))
        # x <- x + P e, where e is the cycle on R A P e = R (b - A x)
        x += level.P @ self._on_level(number + 1, coarse)
        for j in range(b.shape[1]):
            level.postsmoother(level.A, x[:, j], b[:, j])
        return x


def _without_blocks(a: Any) -> Any:
    return a.tocsr() if a.format == "bsr" and a.blocksize == (1, 1) else a
