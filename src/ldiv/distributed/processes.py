"""A group of processes with the engines of PETSc and SLEPc: what structures bring with them."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ldiv.core.arrays import batch_of, common_batch, is_complex, one_by_one, result_dtype
from ldiv.core.dispatch import on_host
from ldiv.core.finite import require_finite
from ldiv.core.holder import owner
from ldiv.core.processes import Together
from ldiv.core.rule import bind
from ldiv.core.structure import VIEWS, Structure
from ldiv.core.trees import Array, Tree, leaves, rebuild
from ldiv.distributed import eigen
from ldiv.distributed.assembly import base_of
from ldiv.distributed.communicator import Communicator
from ldiv.distributed.linear_solver import Goal, LinearSolver, Settings
from ldiv.distributed.petsc import mpi, petsc
from ldiv.distributed.preconditioners import named
from ldiv.distributed.reductions import Sum
from ldiv.distributed.structure import OF_REAL_NUMBERS, Entries
from ldiv.engines.eigen.task import EigenTask
from ldiv.engines.iterative.options import Options
from ldiv.engines.solve_log import note
from ldiv.errors import EngineError

SERVED = {
    "solve",
    "factorized",
    "explain",
    "eigsh",
    "lobpcg",
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
        _require_entries(structure, p)
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
        petsc_options = settings.petsc_options(False)
        taken = str(
            petsc_options["pc_factor_mat_solver_type" if settings.direct(False) else "ksp_type"]
        )
        answers[taken] = (
            f"taken, as PETSc's {petsc_options['ksp_type']} with {petsc_options['pc_type']}"
        )
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
            b = np.broadcast_to(b, shape)
            p = np.broadcast_to(np.asarray(p, float), (*batch_of(p, 1), p.shape[-1]))
            x = np.empty(shape, dtype)
            goal = _goal(options, settings.petsc_options(options.is_adjoint))
            which = f"matrix {base_of(structure)[0].entries.number}"
        self.agree(f"{step}: {which}, assume_a={assume_a!r}, {goal}, {settings}")
        if structure.order == 0:
            return (x,)
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
        entries, key = base_of(structure)[0].entries, (structure, assume_a, settings.key)
        made = partial(LinearSolver, structure, p, assume_a, settings)
        found: LinearSolver = self._kept(entries, key, (p,), made)
        return found

    def _kept(
        self, entries: Entries, key: Any, values: tuple[Any, ...], make: Callable[[], Any]
    ) -> Any:
        """What lives for these values, if all processes have it; else a new one, which belongs to
        the call that asked.
        """
        alive = living(entries, key, values)
        number = self.common(alive, "a factorization")
        if number is None:
            petsc().garbage_cleanup(petsc().Comm(self.comm))
            number, found = next(self.numbers), make()
            found.remembered = Remembered(number, key, tuple(np.array(v) for v in values))
            entries.solvers.append(weakref.ref(found))
        else:
            found = alive[number]
        if (keeper := owner()) is not None:
            keeper.keep(found)
        return found

    # -- eigenpairs -------------------------------------------------------------------

    def pairs(self, task: EigenTask, pA: Tree, pB: Tree, auxiliaries: Tree) -> tuple[Array, ...]:
        args = pA, pB, auxiliaries[1]
        like = task.A.core, task.B.core, 2 if task.start else ()
        batch, dtype = common_batch(like, args), result_dtype(pA, pB)
        count = eigen.count_of(task)
        shapes = ((count,), (task.A.shape[0], count), (count,))
        specs = tuple(((*batch, *shape), dtype) for shape in shapes)
        return on_host(Together(self._pairs, task, like, specs), specs, *leaves(args))

    def _pairs(self, task: EigenTask, like: Tree, specs: Any, *flat: Any) -> tuple[Any, ...]:
        step = f"{task.k} eigenpairs"
        args = rebuild(like, flat)
        with self.section(step):
            eigen.require(task)
            require_finite("A", *leaves(args[:2]))
            require_finite("X", *leaves(args[2]))
            details = eigen.described(task)
        self.agree(f"{step}: {details}")
        out = tuple(np.empty(*spec) for spec in specs)
        with self.section(f"the end of {step}"):
            every = one_by_one(like, args) if specs[0][0][:-1] else [args]
            for i, (pA, pB, start) in zip(np.ndindex(specs[0][0][:-1]), every, strict=True):
                pencil, start = (
                    self._pencil(task, pA, pB),
                    None if isinstance(start, tuple) else start,
                )
                for y, answer in zip(out, eigen.pairs(pencil, start), strict=True):
                    y[i] = answer
        self.agree(f"the end of {step}")
        return out

    def _pencil(self, task: EigenTask, pA: Tree, pB: Tree) -> eigen.Pencil:
        entries, values = base_of(task.A)[0].entries, tuple(leaves((pA, pB)))
        key = ("pairs", task)
        found: eigen.Pencil = self._kept(entries, key, values, partial(eigen.Pencil, task, pA, pB))
        return found

    def reduced(
        self, task: EigenTask, params: Tree, theta: Array, r: Array, X: Array, known: Any
    ) -> Array:
        args = (*params[:2], theta, r, X, known)
        like = (task.A.core, task.B.core, 1, 2, 2, (1, 2, 2))
        batch = common_batch(like, args)
        spec = (*batch, *r.shape[-2:]), result_dtype(params[:2], r)
        return on_host(Together(self._reduced, task, like, spec), (spec,), *leaves(args))[0]

    def _reduced(self, task: EigenTask, like: Tree, spec: Any, *flat: Any) -> tuple[Any, ...]:
        shape, dtype = spec
        step, args = f"{shape[-1]} deflated systems", rebuild(like, flat)
        with self.section(step):
            require_finite("the right-hand side", args[3])
            details = eigen.described(task)
        self.agree(f"{step}: {details}")
        w, worst = np.empty(shape, dtype), 0.0
        with self.section(f"the end of {step}"):
            every = one_by_one(like, args) if shape[:-2] else [args]
            for i, (pA, pB, *rest) in zip(np.ndindex(shape[:-2]), every, strict=True):
                w[i], residual = eigen.reduced(self._pencil(task, pA, pB), *rest)
                worst = max(worst, residual)
        self.agree(f"the end of {step}")
        for observe in task.observers:
            observe("KSP", 0, w, np.array([worst]))
        return (w,)


class Remembered(NamedTuple):
    """Under what a factorization is found again."""

    number: int
    key: Any
    values: tuple[Any, ...]


def living(entries: Entries, key: Any, values: tuple[Any, ...]) -> dict[int, Any]:
    """What is alive of these values, by number."""
    entries.solvers = [ref for ref in entries.solvers if ref() is not None]
    alive = [found for ref in entries.solvers if (found := ref()) is not None]
    return {
        found.remembered.number: found
        for found in alive
        if found.remembered.key == key and all(map(np.array_equal, found.remembered.values, values))
    }


def _require_entries(structure: Structure, p: Tree) -> None:
    """Raises for matrices that PETSc cannot have, alike on all processes."""
    if any(map(is_complex, leaves(p))):
        raise EngineError(f"A is complex. {OF_REAL_NUMBERS}")
    base_of(structure)


def _goal(options: Options, petsc_options: dict[str, str | None]) -> Goal:
    """When an iteration stops: as PETSc's options say, where they do."""
    rtol, atol, steps = (petsc_options.get(f"ksp_{name}") for name in ("rtol", "atol", "max_it"))
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
