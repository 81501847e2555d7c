"""A group of processes with the engines of PETSc and SLEPc: what structures bring with them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ldiv.core.arrays import batch_of, common_batch, result_dtype
from ldiv.core.dispatch import on_host
from ldiv.core.finite import require_finite
from ldiv.core.holder import owner
from ldiv.core.processes import Together
from ldiv.core.rule import bind
from ldiv.core.structure import VIEWS, Structure
from ldiv.core.trees import Array, Tree
from ldiv.distributed.assembly import base_of
from ldiv.distributed.communicator import Communicator
from ldiv.distributed.linear_solver import Goal, LinearSolver, Settings, living, remember
from ldiv.distributed.petsc import mpi, petsc
from ldiv.distributed.preconditioners import named
from ldiv.distributed.reductions import Sum
from ldiv.engines.options import Options
from ldiv.engines.solve_log import note
from ldiv.errors import EngineError

SERVED = {
    "solve",
    "factorized",
    "explain",
    "Factorized.solve",
    "Matrix.__matmul__",
    "Matrix.__rmatmul__",
    "Matrix.__mul__",
    "Matrix.__add__",
    "Matrix.__sub__",
    "Matrix.__truediv__",
}
MOST = 10_000  # steps of an iteration
_groups: list[Group] = []


class Group(Communicator):
    """The processes of one communicator."""

    def require(self, function: str) -> None:
        if function not in SERVED:
            served = ", ".join(sorted(name for name in SERVED if "." not in name))
            raise EngineError(
                f"{function} works on one process, and this matrix is over {self.size}. "
                f"Of these there are {served}, A @ x and A.T."
            )

    # -- sums, as rules ---------------------------------------------------------------

    def sum(self, x: Array) -> Array:
        return bind(Sum(self, x.ndim), x)[0]

    def spread(self, x: Array) -> Array:
        return bind(Sum(self, x.ndim, adjoint=True), x)[0]

    # -- linear systems ---------------------------------------------------------------

    def solve(
        self,
        structure: Structure,
        p: Tree,
        b: Array,
        assume_a: str,
        method: str,
        options: Options | None,
        auxiliaries: tuple[Tree, ...],
    ) -> Array:
        options = options or Options()
        base, op = structure.unview()
        shape = (*common_batch((structure.core, 2), (p, b)), *b.shape[-2:])
        spec = (shape, result_dtype(p, b))
        work = Together(self._solve, base, VIEWS[op][0], assume_a, method, options, spec)
        guess = () if not options.start else (auxiliaries[-1],)
        return on_host(work, (spec,), p, b, *guess)[0]

    def explain(
        self, structure: Structure, dtype: Any, assume_a: str
    ) -> tuple[str, str, dict[str, str]]:
        (base, symmetric), definite = base_of(structure), assume_a == "pos"
        settings = Settings(structure, assume_a, "auto", None, Options.restart)
        factor = "L D L^T" if symmetric else "L U"
        answers = {
            "mumps": f"the factors {factor}, with method='auto' or 'direct'",
            "cg": "could, too" if definite else "wants assume_a='pos'",
            "minres": "could, too" if symmetric else "wants assume_a='sym' or 'pos'",
            "gmres": "could, too",
            "bicgstab": "could, too",
        }
        told = settings.told(False)
        taken = str(told["pc_factor_mat_solver_type" if settings.direct(False) else "ksp_type"])
        answers[taken] = f"taken, as PETSc's {told['ksp_type']} with {told['pc_type']}"
        words = f"{base}, {dtype}" + ", promised positive definite" * definite
        return taken, words, answers

    def preconditioner(self, M: Any, structure: Structure) -> Structure:
        return named(M, structure.shape[0])

    def _solve(
        self,
        structure: Structure,
        transposed: bool,
        assume_a: str,
        method: str,
        options: Options,
        spec: Any,
        p: Any,
        b: Any,
        *guess: Any,
    ) -> tuple[Any, ...]:
        shape, dtype = spec
        step = f"solve with a block {shape[:-2]} of {shape[-1]}" + " of the transpose" * transposed
        batch = shape[:-2]
        with self.section(step):
            require_finite("A", p)
            require_finite("b", b)
            settings = Settings(structure, assume_a, method, options.M, options.restart)
            if options.observers:
                raise EngineError(
                    "an iteration over several processes shows its progress by PETSc: "
                    "solver_parameters={'ksp_monitor': None}, without callback and progress."
                )
            if np.dtype(p.dtype).kind == "c":
                raise EngineError("this PETSc computes with real numbers, and A is complex.")
            b = np.broadcast_to(b, shape)
            p = np.broadcast_to(np.asarray(p, float), (*batch_of(p, 1), p.shape[-1]))
            x = np.empty(shape, dtype)
            goal = _goal(options, settings.told(options.is_adjoint))
        self.agree(step)
        with self.section(f"the end of {step}"):
            solvers = [
                self._solver(structure, p[i], assume_a, settings) for i in np.ndindex(p.shape[:-1])
            ]
            number = np.broadcast_to(np.arange(len(solvers)).reshape(p.shape[:-1]), batch)
            for i in np.ndindex(batch):
                x0 = np.broadcast_to(guess[0], shape)[i] if guess else None
                way = transposed, options.is_adjoint
                x[i] = self._block(solvers[int(number[i])], b[i], way, x0, goal)
        self.agree(f"the end of {step}")
        return (x,)

    def _block(
        self, solver: LinearSolver, b: Any, way: tuple[bool, bool], x0: Any, goal: Goal
    ) -> Any:
        """PETSc's numbers are real: a complex block is two of them."""
        if b.dtype.kind == "c":
            k = b.shape[1]
            both = np.concatenate([b.real, b.imag], axis=1)
            start = None if x0 is None else np.concatenate([x0.real, x0.imag], axis=1)
            x = self._block(solver, both, way, start, goal)
            return x[:, :k] + 1j * x[:, k:]
        x, steps, residual = solver.solve(b, *way, x0, goal)
        note(solver.engine(way[1]), steps, residual)
        return x

    def _solver(
        self, structure: Structure, p: Any, assume_a: str, settings: Settings
    ) -> LinearSolver:
        """The living solver of these values, if all processes have it; else a new one, which
        belongs to the call that asked.
        """
        key = (structure, assume_a, settings.key)
        alive = {solver.number: solver for solver in living(structure, p, key)}
        number = self.common(alive, "a factorization")
        solver = None if number is None else alive[number]
        if solver is None:
            petsc().garbage_cleanup(petsc().Comm(self.comm))
            solver = LinearSolver(structure, p, assume_a, settings)
            remember(solver, key)
        if (keeper := owner()) is not None:
            keeper.keep(solver)
        return solver


def _goal(options: Options, told: dict[str, str | None]) -> Goal:
    """When an iteration stops: as PETSc's options say, where they do."""
    rtol, atol, steps = (told.get(f"ksp_{name}") for name in ("rtol", "atol", "max_it"))
    return Goal(
        options.tolerance(np.dtype(float)) if rtol is None else float(rtol),
        options.atol if atol is None else float(atol),
        (options.maxiter or MOST) if steps is None else int(steps),
    )


def group(comm: Any = None) -> Group:
    """The group of a communicator of mpi4py or petsc4py, by default that of all processes."""
    comm = mpi().COMM_WORLD if comm is None else comm
    comm = comm.tompi4py() if hasattr(comm, "tompi4py") else comm
    for known in _groups:
        if known.of == comm:
            return known
    _groups.append(Group(comm))
    return _groups[-1]
