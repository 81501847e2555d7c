"""A x = b and A^T x = b by a KSP of PETSc, a factorization or an iteration; residuals decide.

PETSc's own word that a solve has converged is not taken: KSPSolveTranspose with some packages
solves with A, or does nothing, and says so too. Only factorizations known to solve with the
transpose are asked to; the others are set up again, for A^T written out. In every case |b - A x|
is computed with the matrix itself, and what it leaves is solved for again, or refused.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ldiv.core.rules.structure import Structure
from ldiv.distributed import preconditioners
from ldiv.distributed.assembly import assembled, base_of
from ldiv.distributed.options import prefixed
from ldiv.distributed.petsc import petsc, row_sizes
from ldiv.errors import (
    ConvergenceError,
    EngineError,
    NotPositiveDefiniteError,
    SingularMatrixError,
    overflowed,
)

REFINED = 3  # corrections by a factorization, at most
ROUNDS = 8  # restarts of an iteration, at most
ENOUGH = 1e3  # eps times this: the normwise backward error of a factorization, at most
EPS = float(np.finfo(float).eps)
# factorizations whose transposed solve is known to be one
TRANSPOSED = {("lu", "mumps"), ("cholesky", "mumps"), ("lu", "petsc"), ("none", None)}
KSP = {"cg": "cg", "minres": "minres", "gmres": "gmres", "bicgstab": "bcgs"}


class Goal:
    """The stopping criterion: |b - A x| <= max(rtol |b|, atol), or the level of rounding."""

    def __init__(self, rtol: float, atol: float, steps: int) -> None:
        self.rtol, self.atol, self.steps = rtol, atol, steps

    def __str__(self) -> str:
        return f"rtol={self.rtol}, atol={self.atol}, maxiter={self.steps}"


class LinearSolver:
    """One matrix, and the solvers that were set up for it and, where needed, for its transpose."""

    def __init__(self, structure: Structure, p: Any, assume_a: str, settings: Settings) -> None:
        self.base, self.symmetric = base_of(structure)
        self.comm = self.base.entries.processes
        self.positive, self.settings = assume_a == "pos", settings
        self.values = np.array(p)
        self.matrix = assembled(structure, p)
        self._solvers: dict[Any, Any] = {}
        self._norms: dict[bool, float] = {}
        self.nbytes = int(self.matrix.getInfo()["memory"])
        if settings.direct(False):
            self._solver(False, False)
            self.nbytes *= 10

    def engine(self, adjoint: bool) -> str:
        """The name of the engine."""
        petsc_options = self.settings.petsc_options(adjoint)
        iterates = not self.settings.direct(adjoint)
        return str(
            petsc_options["ksp_type"] if iterates else petsc_options["pc_factor_mat_solver_type"]
        )

    # -- setting up -----------------------------------------------------------------

    def _solver(self, transposed: bool, adjoint: bool) -> tuple[Any, bool]:
        """A solver, and whether it is to solve with its own transpose."""
        transposed = transposed and not self.symmetric
        petsc_options = self.settings.petsc_options(adjoint)
        key, other = ((way, tuple(petsc_options.items())) for way in (transposed, not transposed))
        if key not in self._solvers and other in self._solvers:
            ksp = self._solvers[other]
            if ksp.getType() == "preonly" and _package(ksp) in TRANSPOSED:
                return ksp, True
        if key not in self._solvers:
            matrix = self.matrix
            if transposed:
                matrix = petsc().Mat()
                self.matrix.transpose(matrix)
            self._solvers[key] = self._set_up(matrix, petsc_options)
        return self._solvers[key], False

    def _set_up(self, matrix: Any, petsc_options: dict[str, str | None]) -> Any:
        ksp = petsc().KSP().create(self.comm.comm)
        if self.positive:
            matrix.setOption(petsc().Mat.Option.SPD, True)
        ksp.setOperators(matrix)
        with prefixed(petsc_options) as prefix:
            ksp.setOptionsPrefix(prefix)
            ksp.setFromOptions()
            pc = ksp.getPC()
            if pc.getType() in ("lu", "cholesky") and pc.getFactorSolverType() == "mumps":
                pc.setFactorSetUpSolverType()
                _prepare(pc.getFactorMatrix())
            ksp.setUp()
        if ksp.getType() == "preonly":
            self._judge(ksp, matrix is not self.matrix)
        return ksp

    def _judge(self, ksp: Any, transposed: bool) -> None:
        """Raise for a matrix that is singular, or not positive definite, to its factorization."""
        _, package = _package(ksp)
        w, z = row_sizes(self.matrix), self.matrix.createVecRight()
        signs = np.where(np.arange(*w.getOwnershipRange()) * 0x9E3779B1 >> 16 & 1, 1.0, -1.0)
        w.array[...] *= signs
        ksp.solve(w, z)
        if ksp.getConvergedReason() < 0:
            raise SingularMatrixError(str(package), "a pivot that is zero")
        if package != "mumps":
            return
        factor = ksp.getPC().getFactorMatrix()
        if nulls := factor.getMumpsInfog(28):
            raise SingularMatrixError("mumps", f"{nulls} pivots that are zero up to rounding")
        if self.positive and (negative := factor.getMumpsInfog(12)):
            raise NotPositiveDefiniteError("mumps", f"{negative} negative pivots")
        if transposed:  # the factor has passed the checks below
            return
        size = np.abs(w.array)
        reach = self.base.entries.absolute_product(self.values, z.array, self.symmetric)
        growth = self.comm.largest(float((reach / np.where(size == 0, 1, size)).max(initial=0)))
        if not growth <= 1 / (100 * EPS):
            evidence = f"a solution that is {growth:.0e} times as large as its right-hand side"
            raise SingularMatrixError("mumps", evidence)

    # -- solving --------------------------------------------------------------------

    def solve(
        self, b: Any, transposed: bool, adjoint: bool, guess: Any, goal: Goal
    ) -> tuple[Any, int, float]:
        """(x, steps, relative residual) for a block of columns."""
        ksp, by_transpose = self._solver(transposed, adjoint)
        correct = ksp.solveTranspose if by_transpose else ksp.solve
        run = Run(self, transposed, self.settings.direct(adjoint), ksp, correct, goal)
        x, steps, worst = np.empty(b.shape), 0, 0.0
        for q in range(b.shape[1]):
            x[:, q], more, residual = run(b[:, q], None if guess is None else guess[:, q])
            steps, worst = max(steps, more), max(worst, residual)
        return x, steps, worst

    def norm(self, transposed: bool) -> float:
        """The largest sum of |a_ij| of a row, or of a column."""
        if transposed not in self._norms:
            kinds = petsc().NormType
            kind = kinds.NORM_1 if transposed else kinds.NORM_INFINITY
            self._norms[transposed] = float(self.matrix.norm(kind))
        return self._norms[transposed]


class Run:
    """Solves for a column after the other, until the residual is as small as wanted."""

    def __init__(
        self,
        solver: LinearSolver,
        transposed: bool,
        direct: bool,
        ksp: Any,
        correct: Any,
        goal: Goal,
    ) -> None:
        self.solver, self.transposed, self.direct = solver, transposed, direct
        self.ksp, self.correct, self.goal = ksp, correct, goal
        self.product = solver.matrix.multTranspose if transposed else solver.matrix.mult
        self.b, self.x, self.r, self.d = (solver.matrix.createVecLeft() for _ in range(4))

    def __call__(self, b: Any, guess: Any) -> tuple[Any, int, float]:
        largest = self.solver.comm.largest
        scale = 2.0 ** np.round(np.log2(largest(float(np.abs(b).max(initial=0))) or 1.0))
        self.b.array[...] = b / scale
        whole = float(self.b.norm())
        if whole == 0:
            return np.zeros(len(b)), 0, 0.0
        self.x.array[...] = 0 if guess is None else guess / scale
        wanted = max(self.goal.rtol * whole, self.goal.atol / scale)
        steps, size, before = 0, self._residual(), np.inf
        for _ in range(REFINED if self.direct else ROUNDS):
            if self._done(size, wanted) or not size < before / 2:
                break
            if not self.direct and not self._limit(wanted / size, self.goal.steps - steps):
                break
            self.d.set(0)
            self.correct(self.r, self.d)
            self.x.axpy(1.0, self.d)
            steps += 0 if self.direct else self.ksp.getIterationNumber()
            before, size = size, self._residual()
        if not self._done(size, wanted):
            self._refuse(steps, size / whole)
        found = self.x.array * scale
        if not largest(float(np.abs(found).max(initial=0))) < np.inf:
            raise overflowed("the solution")
        return found, steps, size / whole

    def _limit(self, reduction: float, left: int) -> bool:
        """Set the tolerance of the iteration; return False if no steps are left."""
        if left > 0:
            self.ksp.setTolerances(rtol=max(reduction / 2, EPS), atol=0, max_it=left)
        return left > 0

    def _residual(self) -> float:
        """|r| for r = b - op(A) x, with the matrix itself."""
        self.product(self.x, self.r)
        self.r.aypx(-1.0, self.b)
        size = float(self.r.norm())
        return size if size == size else np.inf

    def _done(self, size: float, wanted: float) -> bool:
        if not self.direct:
            return size <= wanted
        largest = petsc().NormType.NORM_INFINITY  # which neither over- nor underflows
        r, x, b = (float(v.norm(largest)) for v in (self.r, self.x, self.b))
        return r <= ENOUGH * EPS * (self.solver.norm(self.transposed) * x + b)

    def _refuse(self, steps: int, residual: float) -> None:
        name = f"PETSc's {self.ksp.getType()} with {self.ksp.getPC().getType()}"
        if not self.direct:
            raise ConvergenceError(name, steps, residual, self.goal.rtol)
        system = "the transposed system" if self.transposed else "the system"
        raise EngineError(
            f"{name} leaves a residual of {residual:.1e} of b in {system}: it is not solved. "
            "Use MUMPS, which is the default, or other solver_parameters."
        )


def _package(ksp: Any) -> tuple[str, str | None]:
    """The preconditioner of a solver: PETSc's name, and that of the package that factors."""
    kind = ksp.getPC().getType()
    factors = kind in ("lu", "cholesky")
    return kind, ksp.getPC().getFactorSolverType() if factors else None


def _prepare(factor: Any) -> None:
    """Ask MUMPS to count pivots that are zero, and negative ones."""
    factor.setMumpsIcntl(24, 1)
    factor.setMumpsIcntl(13, 1)
    factor.setMumpsIcntl(14, 50)  # room for pivots that are delayed, in percent


class Settings:
    """The options of PETSc for a matrix: what the method says, and the user's on top."""

    def __init__(
        self, structure: Structure, assume_a: str, method: str, M: Any, restart: int
    ) -> None:
        base, symmetric = base_of(structure)

        def with_own(own: dict[str, str | None]) -> dict[str, str | None]:
            kind, direct = own.get("ksp_type"), method in ("auto", "direct") and M is None
            if kind is not None:
                direct = kind == "preonly"
            elif method == "auto" and own.get("pc_type", "lu") not in ("lu", "cholesky"):
                direct = False
            if direct:
                return {**self._direct(symmetric), **own}
            iteration = self._iteration(method, assume_a, symmetric, M, restart)
            if kind not in (None, iteration["ksp_type"]):  # options of gmres are for gmres
                iteration = {"pc_type": iteration["pc_type"]}
            return {**iteration, **own}

        if any(_refused(base.parameters.of(adjoint)) for adjoint in (False, True)):
            raise EngineError(
                "superlu_dist is refused: by PETSc its solve with the transpose is one with the "
                "matrix, and of two factorizations that live the first to be freed crashes. "
                "MUMPS is the default: leave pc_factor_mat_solver_type out."
            )
        self._petsc_options = {
            adjoint: with_own(base.parameters.of(adjoint)) for adjoint in (False, True)
        }
        self.key = tuple(tuple(sorted(t.items())) for t in self._petsc_options.values())

    def __str__(self) -> str:
        written = (" ".join(f"{k}={v}" for k, v in way) for way in self.key)
        return " and, of the adjoint, ".join(dict.fromkeys(written))

    def petsc_options(self, adjoint: bool) -> dict[str, str | None]:
        return self._petsc_options[adjoint]

    def direct(self, adjoint: bool) -> bool:
        return self._petsc_options[adjoint]["ksp_type"] == "preonly"

    @staticmethod
    def _direct(symmetric: bool) -> dict[str, str | None]:
        kind = "cholesky" if symmetric else "lu"
        return {"ksp_type": "preonly", "pc_type": kind, "pc_factor_mat_solver_type": "mumps"}

    @staticmethod
    def _iteration(
        method: str, assume_a: str, symmetric: bool, M: Any, restart: int
    ) -> dict[str, str | None]:
        if method in ("auto", "direct", "iterative"):
            method = "cg" if assume_a == "pos" else "minres" if symmetric else "gmres"
        if method not in KSP:
            raise EngineError(
                f"over several processes method={method!r} is not there: 'auto' and 'direct' are "
                f"MUMPS, {', '.join(map(repr, KSP))} and 'iterative' iterate. Other solvers of PETSc "
                "are solver_parameters of coo_array."
            )
        petsc_options: dict[str, str | None] = {"ksp_type": KSP[method]}
        if method == "gmres":
            petsc_options |= {"ksp_gmres_restart": str(restart), "ksp_pc_side": "right"}
        return petsc_options | preconditioners.NAMES[M.name if M is not None else "jacobi"]


def _refused(own: dict[str, str | None]) -> bool:
    return any(
        name.endswith("factor_mat_solver_type") and value == "superlu_dist"
        for name, value in own.items()
    )
