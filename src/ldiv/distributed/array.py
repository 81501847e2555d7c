"""DistributedArray: a sparse matrix of which each process brings entries and owns rows."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import broadcast, is_complex, numpy_dtype
from ldiv.core.arrays.space import Space
from ldiv.core.arrays.typing import AnyArray, IndexLike
from ldiv.core.arrays.validate import as_float, require_batches, require_int, require_shape
from ldiv.core.calls.public import call_within, public
from ldiv.core.frameworks.dispatch import frontend_of, namespace
from ldiv.core.frameworks.trees import leaves
from ldiv.core.owners.caches import emptied_by
from ldiv.core.rules.structure import VIEWS
from ldiv.distributed.options import parameters
from ldiv.distributed.petsc import is_real, largest_index, petsc
from ldiv.distributed.processes import Group, group
from ldiv.distributed.structure import OF_REAL_NUMBERS, Distributed, Entries, Layout
from ldiv.errors import EngineError, expected_got, shown, type_error, value_error
from ldiv.linalg.systems.factorization import Factorized
from ldiv.matrices.entries import coordinates
from ldiv.matrices.matrix import Matrix, beside, common_dtype, scalar

KEPT = 8  # matrices whose places are remembered, with all that PETSc worked out of them


class DistributedArray(Matrix):
    """A sparse matrix over several processes, made by `ldiv.distributed.coo_array`.

    Attributes
    ----------
    data : array (*batch, nnz)
        The values of the entries that this process brought.
    shape : tuple
        The batch axes, then rows and columns of the whole matrix.
    local_shape : tuple
        How many of them this process owns: `A @ x` takes the rows of x that belong to its columns,
        and returns its own rows.

    Notes
    -----
    `A @ x`, `A.T`, `c * A`, `A + B`, `ldiv.solve`, `ldiv.factorized`, `ldiv.eigsh` and
    `ldiv.lobpcg` are called by all processes, each with its part. Other functions refuse it.
    """

    _dense = "products with unit vectors"

    @property
    def data(self) -> Any:
        """The values of the entries that this process brought."""
        return self.params

    @property
    def shape(self) -> tuple[int, ...]:
        """The batch axes, then rows and columns of the whole matrix."""
        base, op = self.structure.unview()
        assert isinstance(base, Distributed)
        whole = (base.entries.of_rows.size, base.entries.of_cols.size)
        return (*self.batch, *(whole if op in "NC" else whole[::-1]))

    @property
    def local_shape(self) -> tuple[int, int]:
        """Rows and columns that this process owns."""
        return self.structure.shape

    def with_data(self, data: AnyArray) -> DistributedArray:
        """The matrix with other values at the same places; all processes call it."""
        processes, step = self._placed()[0].entries.processes, "with_data"
        with processes.section(step):
            changed = DistributedArray(self.structure, as_float("data", data))
        processes.agree(step)
        return changed

    def _view(self, op: str) -> DistributedArray:
        return DistributedArray(self.structure.view(op), self.params)

    # -- arithmetic -----------------------------------------------------------------

    def _scaled(self, c: Any) -> Matrix:
        alpha = scalar("c * A", c, self.data)
        return super()._scaled(c) if is_complex(alpha) else self.with_data(alpha * self.data)

    def _sum(self, other: Any) -> Matrix:
        """All entries of both; those at the same places, known to be the same, are added up."""
        here = self.structure.space
        if not isinstance(other, Matrix) or other.structure.space is not here:
            what, came = "a matrix by coo_array over the same processes", shown(other)
            advice = "Bring what is to be added as entries."
            raise type_error("A + B", what, came, advice)
        if not isinstance(other, DistributedArray):
            return super()._sum(other)
        a, b = beside(self, other), beside(other, self)
        frontend_of(a.params, b.params)
        values, others = leaves(common_dtype(a.params, b.params))
        base, rows, cols, of, to = self._placed()
        its, *there, of_other, to_other = other._placed()
        if (of, to) != (of_other, to_other):
            advice = "Both have rows and columns at the same processes, by shape and local_shape."
            came = f"{other.shape}, {other.local_shape} of them here"
            what = f"a B of {self.shape}, {self.local_shape} of them here"
            raise value_error("A + B", what, came, advice)
        require_batches("A + B", self.batch, other.batch)
        if base.entries is its.entries and rows is there[0]:
            return self.with_data(values + others)
        xp, batch = namespace(values), broadcast(self.batch, other.batch)
        joined = [xp.broadcast_to(v, (*batch, v.shape[-1])) for v in (values, others)]
        rows, cols = (np.concatenate(pair) for pair in zip((rows, cols), there, strict=True))
        entries = _at(base.entries.processes, rows, cols, of, to)
        return DistributedArray(Distributed(entries, base.parameters), xp.concat(joined, axis=-1))

    def _placed(self) -> tuple[Distributed, Any, Any, Layout, Layout]:
        """The structure without a view; the places of the entries, and who owns what, in it."""
        base, op = self.structure.unview()
        assert isinstance(base, Distributed)
        e = base.entries
        if VIEWS[op][0]:
            return base, e.cols, e.rows, e.of_cols, e.of_rows
        return base, e.rows, e.cols, e.of_rows, e.of_cols

    def __repr__(self) -> str:
        framework = frontend_of(self.data).__name__.rpartition(".")[2]
        processes = self.structure.space
        return (
            f"<DistributedArray {self.shape} {numpy_dtype(self.data)} over {processes}, "
            f"here {self.local_shape} and nnz={self.data.shape[-1]}, {framework}>"
        )


def _space(matrix: Any) -> Space:
    found: Space = matrix.structure.space
    return found


call_within(Matrix, _space)
call_within(DistributedArray, _space)
call_within(Factorized, lambda F: F._structure.space)


@public
def coo_array(
    arg: tuple[AnyArray, tuple[IndexLike, IndexLike]],
    shape: tuple[int, int],
    comm: Any = None,
    *,
    local_shape: tuple[int, int] | None = None,
    solver_parameters: dict[str, Any] | None = None,
    adjoint_parameters: dict[str, Any] | None = None,
) -> DistributedArray:
    """A sparse matrix over the processes of a communicator, from the entries that each brings.

        A[i, j] = sum over processes of all values[e] with rows[e] = i and columns[e] = j

    Parameters
    ----------
    arg : tuple (values, (rows, columns))
        values (*batch, nnz) of this process, of float32 or float64; rows and columns (nnz,), numbers
        in the whole matrix, of any rows, also those that other processes own.
    shape : tuple of two ints
        Rows and columns of the whole matrix.
    comm : communicator of mpi4py or petsc4py, optional
        By default all processes.
    local_shape : tuple of two ints, optional
        How many rows and columns this process owns, in the order of the processes; by default
        `owned` says which.
    solver_parameters : dict, optional
        Options of PETSc for the solver, without the dash: {"ksp_type": "cg", "pc_type": "hypre"}.
    adjoint_parameters : dict, optional
        Those for the adjoint systems of derivatives; by default the same.

    Returns
    -------
    A : DistributedArray
        The matrix.

    Raises
    ------
    ValueError
        For indices out of range, and for shapes that differ between the processes.
    TypeError
        For anything but such a tuple, and for other dtypes.
    ImportError
        Where petsc4py and mpi4py are not installed.

    Notes
    -----
    All processes call it. What is wrong on one of them is raised on all.
    Differentiable in values, in every mode; the cotangent of an entry is returned to the process
    that brought it.
    Cost: the indices are sorted, and exchanges between neighbors prepared, once: matrices with
    the places of one of the last few share them.

    Examples
    --------
    >>> import numpy as np
    >>> from ldiv import distributed  # doctest: +SKIP
    >>> mine = np.array(distributed.owned(100))  # doctest: +SKIP
    >>> A = distributed.coo_array((mine + 1.0, (mine, mine)), shape=(100, 100))  # doctest: +SKIP
    >>> ldiv.solve(A, mine + 1.0)  # doctest: +SKIP
    array([1., 1., 1., ...])
    """
    petsc()
    if not is_real():
        what, came = "a PETSc of real numbers in double precision", str(petsc().ScalarType)
        advice = "On Debian that is libpetsc-real-dev; PETSC_DIR points to it."
        raise EngineError(expected_got("PETSc", what, came, advice))
    processes = group(comm)
    step = "coo_array"
    with processes.section(step):
        both = parameters(solver_parameters, adjoint_parameters)
        m, n = require_shape("shape", shape)
        if max(m, n) > (most := largest_index()):
            what, advice = f"at most {most:,} rows and columns", "Build PETSc with 64-bit indices."
            raise EngineError(expected_got("shape", what, str((m, n)), advice))
        values, rows, cols = _entries(arg, (m, n))
        own = _own(local_shape, (m, n), processes)
    ends = processes.agree(step, m, -m, n, -n)
    starts = [int(x) for x in processes.before(np.array(own))]
    with processes.section("the shape of coo_array"):
        if ends[0] != -ends[1] or ends[2] != -ends[3]:
            advice = "It is that of the whole matrix, not of a part."
            raise value_error("shape", "the same everywhere", str((m, n)), advice)
        if tuple(int(x) for x in processes.total(np.array(own))) != (m, n):
            what = f"numbers of rows and columns that add up to {(m, n)} over all processes"
            advice = "Each row belongs to one process."
            raise value_error("local_shape", what, f"{own} here", advice)
    of, to = (Layout(*layout) for layout in zip(own, starts, (m, n), strict=True))
    return DistributedArray(Distributed(_at(processes, rows, cols, of, to), both), values)


def owned(n: int, comm: Any = None) -> range:
    """The rows of n that a process owns by default: as many as the others own.

    Examples
    --------
    >>> from ldiv import distributed  # doctest: +SKIP
    >>> distributed.owned(10)  # doctest: +SKIP
    range(0, 10)
    """
    n, processes = require_int("n", n, 0), group(comm)
    each, more = divmod(n, processes.size)
    start = each * processes.rank + min(more, processes.rank)
    return range(start, start + each + (processes.rank < more))


def _entries(arg: Any, shape: tuple[int, int]) -> tuple[Any, Any, Any]:
    """Values, rows and columns, checked."""
    if not isinstance(arg, tuple | list) or len(arg) != 2 or len(arg[1]) != 2:
        what, advice = "(values, (rows, columns))", "Each process gives its own."
        raise type_error("coo_array", what, type(arg).__name__, advice)
    values, rows, cols, *_ = coordinates("", as_float("values", arg[0]), arg[1], shape)
    if numpy_dtype(values).kind == "c":
        raise type_error("values", "real numbers", "complex ones", OF_REAL_NUMBERS)
    return values, np.asarray(rows, np.int64), np.asarray(cols, np.int64)


def _own(local_shape: Any, shape: tuple[int, int], processes: Group) -> tuple[int, int]:
    """The numbers of rows and columns that this process owns."""
    if local_shape is not None:
        return require_shape("local_shape", local_shape)
    rows, cols = (len(owned(n, processes.of)) for n in shape)
    return rows, cols


_places: dict[Group, deque[Entries]] = {}
emptied_by(_places.clear)


def _at(processes: Group, rows: Any, cols: Any, of: Layout, to: Layout) -> Entries:
    """Index sets that follow from the places: those of a recent matrix, if all processes have them."""
    kept = _places.setdefault(processes, deque(maxlen=KEPT))

    def is_same(entries: Entries) -> bool:
        layouts = (entries.of_rows, entries.of_cols) == (of, to)
        same_rows = layouts and np.array_equal(entries.rows, rows)
        return bool(same_rows and np.array_equal(entries.cols, cols))

    same = {entries.number: entries for entries in kept if is_same(entries)}
    number = processes.common(same, "the places of a matrix")
    if number is not None:
        return same[number]
    kept.append(Entries(processes, rows, cols, of, to))
    return kept[-1]
