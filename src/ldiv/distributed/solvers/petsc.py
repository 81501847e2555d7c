"""A x = b over several processes: KSP of PETSc, with the factors of MUMPS or by an iteration.

It takes whole calls: all processes agree on one before any of them looks at a factorization, and
PETSc's options, which are the user's, say more about a solver than a name can.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import batch_of, common_batch, is_complex, result_dtype
from ldiv.core.arrays.space import Together
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import on_host
from ldiv.core.frameworks.trees import Tree, leaves
from ldiv.core.rules.finite import require_finite
from ldiv.core.rules.structure import VIEWS, Structure
from ldiv.distributed.assembly import base_of
from ldiv.distributed.linear_solver import Goal, LinearSolver, Settings
from ldiv.distributed.preconditioners import named
from ldiv.distributed.processes import group_of
from ldiv.distributed.structure import OF_REAL_NUMBERS
from ldiv.engines.iterative.options import Options
from ldiv.engines.solve_log import note
from ldiv.errors import EngineError

RANK = 0
ITERATES = True  # or factors, as its options say: either way it has no Factor to hand out
ON_HOST = True
IN_SINGLE = False
HERMITIAN_M = False  # PETSc asks for it by itself
MOST = 10_000  # steps of an iteration


def supports(structure: Structure, dtype: Any, device: str, assume_a: str) -> str | None:
    """Accept every matrix; `solve_whole` refuses, on all processes at once."""
    return None


def solve_whole(
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
    work = Together(_solve, base, VIEWS[op][0], assume_a, method, options, spec)
    guess = () if not options.start else (auxiliaries[-1],)
    return on_host(work, (spec,), p, b, *guess)[0]


def explain(structure: Structure, dtype: Any, assume_a: str) -> tuple[str, str, dict[str, str]]:
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


def preconditioner(M: Any, structure: Structure) -> Structure:
    return named(M, structure.shape[0])


def _solve(
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
    group, (shape, dtype) = group_of(structure), spec
    step = f"solve with a block {shape[:-2]} of {shape[-1]}" + " of the transpose" * transposed
    batch = shape[:-2]
    with group.section(step):
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
    group.agree(f"{step}: {which}, assume_a={assume_a!r}, {goal}, {settings}")
    if structure.order == 0:
        return (x,)
    with group.section(f"the end of {step}"):
        solvers = [_solver(structure, p[i], assume_a, settings) for i in np.ndindex(p.shape[:-1])]
        number = np.broadcast_to(np.arange(len(solvers)).reshape(p.shape[:-1]), batch)
        for i in np.ndindex(batch):
            x0 = np.broadcast_to(guess[0], shape)[i] if guess else None
            way = transposed, options.is_adjoint
            x[i] = _block(solvers[int(number[i])], b[i], way, x0, goal)
    group.agree(f"the end of {step}")
    return (x,)


def _block(solver: LinearSolver, b: Any, way: tuple[bool, bool], x0: Any, goal: Goal) -> Any:
    """Solve for a block; real and imaginary parts separately, since PETSc's numbers are real."""
    if b.dtype.kind == "c":
        k = b.shape[1]
        both = np.concatenate([b.real, b.imag], axis=1)
        start = None if x0 is None else np.concatenate([x0.real, x0.imag], axis=1)
        x = _block(solver, both, way, start, goal)
        return x[:, :k] + 1j * x[:, k:]
    x, steps, residual = solver.solve(b, *way, x0, goal)
    note(solver.engine(way[1]), steps, residual)
    return x


def _solver(structure: Structure, p: Any, assume_a: str, settings: Settings) -> LinearSolver:
    entries, key = base_of(structure)[0].entries, (structure, assume_a, settings.key)
    made = partial(LinearSolver, structure, p, assume_a, settings)
    found: LinearSolver = group_of(structure).kept(entries, key, (p,), made)
    return found


def _require_entries(structure: Structure, p: Tree) -> None:
    """Raise for matrices that PETSc cannot represent, on all processes alike."""
    if any(map(is_complex, leaves(p))):
        raise EngineError(f"A is complex. {OF_REAL_NUMBERS}")
    base_of(structure)


def _goal(options: Options, petsc_options: dict[str, str | None]) -> Goal:
    """The stopping criterion of an iteration; PETSc's options come before ldiv's."""
    rtol, atol, steps = (petsc_options.get(f"ksp_{name}") for name in ("rtol", "atol", "max_it"))
    return Goal(
        options.tolerance(np.dtype(float)) if rtol is None else float(rtol),
        options.atol if atol is None else float(atol),
        (options.maxiter or MOST) if steps is None else int(steps),
    )
