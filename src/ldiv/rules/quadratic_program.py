"""x = argmin x^T P x / 2 + q^T x  with  A x = b, G x <= h, lb <= x <= ub, by K z = r of its active rows.

tangent      dz = K^-1 (dr - dK z), z = (x, multipliers), active rows fixed
cotangent    lam = K^-1 z_bar;   r_bar = lam,   K_bar = -dK^*[lam z^T]
cost         the solver, 1 factorization of P, and 1 of K, which derivatives reuse: 1 solve each
reference    Amos and Kolter, OptNet (2017); Fiacco, Introduction to Sensitivity and Stability Analysis
             in Nonlinear Programming (1983): where every active row has force, and the others slack.
             Rows that are implied by others are not in K: derivatives in P and q need multipliers that
             are positive on all active rows, those in the other data that these rows move alike

K and r are in `ldiv.engines.programs.optimality`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import astype, common_batch, conform, eps, numpy_dtype
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import asnumpy, check_or_raise, namespace, on_host
from ldiv.core.frameworks.pattern import Pattern
from ldiv.core.frameworks.trees import Arrays, Cotangents, Tangents, Tree, Trees
from ldiv.core.rules.compiled import Compiled
from ldiv.core.rules.rule import ENGINE, Cases, Rule, Traits, bind
from ldiv.core.rules.structure import matmul, push
from ldiv.engines.programs import active_rows
from ldiv.engines.programs.active_system import FEW
from ldiv.engines.programs.calls import ProgramCalls
from ldiv.engines.programs.optimality import Data, Optimality, side_by_side
from ldiv.errors import NotDifferentiableError, expected_got
from ldiv.rules.assertion import checked
from ldiv.rules.optimality_solve import OptimalitySolve
from ldiv.structures.sparse import Sparse

SHOWN = 5  # rows that a message names
LOST = 10 * FEW  # of the size of a cotangent: rounding of all signs may move ten times as much
# why a row has no derivative: `weak`, or implied by others, where multipliers or constraints are asked for
FORCE, MULTIPLIERS, ROWS, DIGITS = 1, 2, 3, 4
WORDS = {
    FORCE: (
        "constraints that are active with force, or inactive with slack, for a derivative",
        "with neither",
        "To one side of here it binds, to the other it does not: move the data, or use the value alone.",
    ),
    MULTIPLIERS: (
        "active constraints that do not depend on each other, for a derivative of multipliers",
        "implied by others",
        "The multipliers are not unique, those of least norm are returned: differentiate x alone, without full.",
    ),
    ROWS: (
        "active constraints that do not depend on each other, for a derivative in A, b, G, h, lb or ub",
        "implied by others",
        "Leave such rows out, or differentiate in P and q alone: these derivatives exist.",
    ),
    DIGITS: (
        "active constraints that are further apart than rounding, for a derivative",
        "so near to each other, or to what P leaves free, that rounding leaves it no digits",
        "Leave such rows out, or add a small multiple of the identity to P.",
    ),
}


@dataclass(frozen=True)
class QuadraticProgram(Rule):
    """Arguments: the entries of P, q, those of A, b, those of G, h, lb, ub, each (*batch, .).

    Outputs: z = (x, y, z, w), and, without derivatives, which rows of (A, G, ub, lb) are in K, which are
    weak (1) or implied by others (2). The steps of the solver (*batch,) follow, and by how much rounding
    may move z where solves with K are loose, else 0. `multipliers`: whether (y, z, w) are looked at.
    """

    system: Optimality
    solver: str
    multipliers: bool

    core = (1,) * 8
    traits = Traits(
        name="solve_qp", differentiable=(True, False, False, False, False), on_host=True, few=ENGINE
    )

    def operation(self) -> Compiled:
        return ProgramCalls(self.system, self.solver)

    def kernel(self, *args: Tree) -> Arrays:
        batch, dtype = common_batch(self.core, args), numpy_dtype(args[1])
        rows = ((*batch, self.system.rows), dtype)
        specs = (
            ((*batch, sum(self.system.sizes)), dtype),
            rows,
            rows,
            (batch, dtype),
            ((*batch, sum(self.system.sizes)), dtype),
        )
        f = partial(active_rows.solve, self.system, self.solver)
        return tuple(on_host(f, specs, *args))

    def jvp(self, tangents: Trees, out: Arrays, *args: Tree) -> Tangents:
        z, active, weak, steps, loose = out
        # what does not move has the tangent 0, also where a bound is infinite: 0 * inf is NaN
        moved = Data(
            *(0 * _finite(x) if d is None else d for x, d in zip(args, tangents, strict=True))
        )
        P, A, G, S = args[0], args[2], args[4], self.system.structure
        K = self.system.values(P, side_by_side((A, G)), active)
        # 0.0: the entries of D - I, B and B - I in K are constants
        dK = self.system.values(moved.P, side_by_side((moved.A, moved.G)), active, 0.0)
        sides = side_by_side((moved.b, moved.h, moved.ub, moved.lb))
        dr = self.system.side(moved.q, sides, active)
        # dz = K^-1 (dr - dK z)
        dKz = push(S, K, dK, z[..., None])
        r = dr if dKz is None else dr - dKz[..., 0]
        # with implied rows x has a derivative, and multipliers have none
        doubt = _of_code(weak, MULTIPLIERS) if self.multipliers else _of_code(weak, 0)
        dz, off = self._solved(K, r, active, doubt, loose)
        doubt = 0 * weak
        # implied rows are not in K: x + dx stays on them only if they move as those that imply them
        if any(d is not None for d in tangents[2:]):
            doubt = _of_code(weak, ROWS * self._rows_left(Data(*args), moved, z, dz))
        if type(loose) is not np.ndarray or loose.any():
            n, of_P, of_C = self.system.sizes[0], args[0], side_by_side((A, G))
            # dx, or the terms that may cancel in it: |r_x| / |P| + |r_y| / |C|
            units = _units(of_P, of_C, r[..., :n]), _units(of_P, of_C, r[..., n:])
            size = namespace(z).maximum(_largest(dz[..., :n]), units[0][0] + units[1][1])
            doubt = _or_lost(doubt, _largest(off[..., :n]) > LOST * size, active)
        return dz + self._checked_doubt(doubt), 0 * active, 0 * weak, 0 * steps, 0 * loose

    def vjp(self, need: Trees, cotangents: Cotangents, out: Arrays, *args: Tree) -> Trees:
        (z, active, weak, _, loose), z_bar = out, cotangents[0]
        xp, n = namespace(z), self.system.sizes[0]
        doubt = _of_code(weak, 0)
        if self.multipliers:  # those of rows that are not active are 0, whatever the data
            z_bar = xp.where(self.system.in_system(z[..., :n], active) > 0, z_bar, 0 * z_bar)
            of_rows = xp.any(z_bar[..., n:] != 0, axis=-1)[..., None]
            doubt = _of_code(weak, of_rows * MULTIPLIERS)
        P, C = args[0], side_by_side((args[2], args[4]))
        K = self.system.values(P, C, active)
        # K is symmetric: lam = K^-1 z_bar
        lam, off = self._solved(K, z_bar, active, doubt, loose)
        bars = partial(self._cotangents, need, P, C, active)
        found = bars(lam, z)
        few = 0 * weak
        if type(loose) is not np.ndarray or loose.any():
            # by the rounding of lam, and of z
            moved = bars(off, xp.abs(z)), bars(xp.abs(lam), loose)
            few = _or_lost(few, self._lost(found, *moved, P, C, lam, z_bar, z, loose), active)
        seen: Any = self._checked_doubt(few)
        of_rows = seen + self._checked_doubt(_of_code(weak, ROWS)) if any(need[2:]) else seen
        # a cotangent may be summed over the batch already: what is added must not widen it
        return tuple(
            None if x is None else x + conform(of_rows if i > 1 else seen, x[..., :1])
            for i, x in enumerate(found)
        )

    def _lost(
        self,
        bar: Any,
        by_lam: Any,
        by_z: Any,
        P: Array,
        C: Array,
        lam: Array,
        z_bar: Array,
        z: Array,
        loose: Array,
    ) -> Any:
        """Whether rounding moves some cotangent by more than a tenth (*batch, 1); one that is 0 is
        measured by its terms.
        """
        n = self.system.sizes[0]
        xp, units, off = namespace(z), _units(P, C, z_bar[..., :n]), _largest(loose[..., :n])
        size = xp.maximum(_largest(z[..., :n]), off / FEW)  # x has digits, or is 0
        units[0] = xp.maximum(units[0], _largest(lam[..., :n]))  # lam x^H is 0 where x is
        found: Any = size < 0
        for i, (x, own, its) in enumerate(zip(bar, by_lam, by_z, strict=True)):
            if x is not None and x.shape[-1]:
                is_matrix = i in (0, 2, 4)
                moved = _largest(own) + (_largest(its) if is_matrix else 0)
                unit = units[i > 1] * (size if is_matrix else 1)
                found = found | (moved > LOST * xp.maximum(_largest(x), unit))
        return found

    def _cotangents(
        self, need: Trees, P: Array, C: Array, active: Array, lam: Array, z: Array
    ) -> tuple[Any, ...]:
        """The cotangents of all data, from those of r, lam, and z."""
        # r = (-q, sides of the active rows): q_bar = -lam_x; an active side has its part of lam
        of_x, b_bar, of_G, of_bounds = self.system.split(lam)
        A, G, upper, lower = self.system.of_rows(active)
        P_bar, A_bar, G_bar = self.system.cotangents((need[0], need[2], need[4]), P, C, lam, z)
        of_matrices = P_bar, -of_x, A_bar, A * b_bar, G_bar, G * of_G
        found: Any = *of_matrices, lower * of_bounds, upper * of_bounds
        return tuple(x if wanted else None for x, wanted in zip(found, need, strict=True))

    def _solved(self, K: Array, r: Array, active: Array, doubt: Array, loose: Array) -> Any:
        """(K^-1 r, by how much rounding may move it), and an error where there is no derivative."""
        r = r + self._checked_doubt(doubt)
        return bind(OptimalitySolve(self.system), K, r, active, loose)

    def _checked_doubt(self, doubt: Array) -> Any:
        """0 (*batch, 1), and an error where a code is not 0."""
        if type(doubt) is np.ndarray and not doubt.any():
            return np.zeros((*doubt.shape[:-1], 1), doubt.dtype)
        seen = checked(partial(_require_none, self.system), doubt[..., None])
        return 0 * namespace(doubt).sum(seen, axis=-2)

    def _rows_left(self, data: Data, moved: Data, z: Array, dz: Array) -> Any:
        """A mask (*batch, rows) of the rows that x + dx leaves: implied rows that do not move as the
        rows that imply them.
        """
        xp, (x, *_), (dx, *_) = namespace(z), self.system.split(z), self.system.split(dz)
        found = []
        for M, p, dp, side in (
            (self.system.A, data.A, moved.A, moved.b),
            (self.system.G, data.G, moved.G, moved.h),
        ):
            # C dx + dC x - d(side), and the sizes of these three terms
            terms = (matmul(M, p, dx[..., None])[..., 0], matmul(M, dp, x[..., None])[..., 0], side)
            sizes = (
                matmul(M, xp.abs(p), xp.abs(dx)[..., None])[..., 0],
                matmul(M, xp.abs(dp), xp.abs(x)[..., None])[..., 0],
            )
            found.append((terms[0] + terms[1] - side, sizes[0] + sizes[1] + xp.abs(side)))
        if self.system.bounds:
            # a bound has the row of the identity: dx - d(bound)
            found += [(dx - y, xp.abs(dx) + xp.abs(y)) for y in (moved.ub, moved.lb)]
        differs = [xp.abs(off) > eps(z) ** 0.5 * size for off, size in found]
        return side_by_side([astype(x, numpy_dtype(z)) for x in differs])


def _of_code(weak: Array, implied: Any) -> Any:
    """`weak`, with another code for rows that are implied by others."""
    xp = namespace(weak)
    return xp.where(weak == 2, implied + 0 * weak, weak)


def _or_lost(doubt: Array, lost: Array, active: Array) -> Any:
    """`doubt`, and where digits are lost and nothing else is doubted, the active rows."""
    return namespace(doubt).where((doubt == 0) & (active > 0) & lost, DIGITS + 0 * doubt, doubt)


def _units(P: Array, C: Array, r: Array) -> list[Any]:
    """The sizes (*batch, 1) of r over P, and of r over C."""
    xp, size = namespace(r), _largest(r)
    return [size / xp.where(y > 0, y, 1 + 0 * y) for y in map(_largest, (P, C))]


def _largest(x: Array) -> Any:
    """max |x| (*batch, 1), 0 if there are none."""
    xp = namespace(x)
    return (
        xp.max(xp.abs(x), axis=-1, keepdims=True)
        if x.shape[-1]
        else 0 * xp.sum(x, axis=-1, keepdims=True)
    )


def _finite(x: Array) -> Array:
    """Replace infinite bounds by 0."""
    xp = namespace(x)
    return xp.where(xp.isfinite(x), x, xp.zeros_like(x))


def _require_none(system: Optimality, doubt: Array) -> None:
    check_or_raise(~(doubt > 0).any(), partial(_no_derivative, system), doubt)


def _no_derivative(system: Optimality, doubt: Any) -> NotDifferentiableError:
    found: Any = asnumpy(doubt).reshape(-1, system.rows).max(0)
    worst = int(found.max())
    parts = zip(
        ("row {} of A", "row {} of G", "ub[{}]", "lb[{}]"),
        system.of_rows(found == worst),
        strict=True,
    )
    names = [name.format(i) for name, part in parts for i in np.flatnonzero(part)]
    more = "" if len(names) <= SHOWN else f" and {len(names) - SHOWN} more"
    expected, verdict, advice = WORDS[worst]
    return NotDifferentiableError(
        expected_got("solve_qp", expected, f"{', '.join(names[:SHOWN])}{more} {verdict}", advice)
    )


def cases(structures: Any, draw: Any) -> Cases:
    """Yield a program with equalities alone: solvers for inequalities are optional."""
    i, one = np.arange(3), draw(1, 3)
    if np.iscomplexobj(one):
        return
    P, A = Pattern(i, i, (3, 3)), Pattern(0 * i, i, (1, 3))
    none = Pattern(i[:0], i[:0], (0, 3))
    system = Optimality(Sparse(P), Sparse(A), Sparse(none), False)
    yield (
        QuadraticProgram(system, "auto", True),
        (abs(draw(2, 3)) + 1, draw(3), one[0], draw(1), *(draw(0) for _ in range(4))),
    )
