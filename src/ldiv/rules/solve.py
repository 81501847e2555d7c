"""X = S(p)^-1 B.

tangent      dX = S^-1 (dB - dS[dp] X)
cotangent    lam = S^-H X_bar;   B_bar = lam,   p_bar = -dS^*[lam X^H]
cost         1 factorization and 1 solve forward, 0 and 1 backward; higher orders add solves, never
             a factorization. Iterative engines: one iteration per solve, and no derivative is
             taken through its steps
reference    Giles, Collected matrix derivative results for forward and reverse mode AD (2008),
             section 2.3
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ldiv.core.arrays.shapes import dots
from ldiv.core.cached_property import cached_property
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.trees import Arrays, Cotangents, Tangents, Tree, Trees, leaves
from ldiv.core.rules.compiled import CompiledCall, Operation
from ldiv.core.rules.rule import ENGINE, FEW, ITERATED, Cases, Rule, Traits, Unit, bind
from ldiv.core.rules.structure import Structure, minus, nothing, outer, push
from ldiv.core.rules.units import of_matrix, of_rest
from ldiv.engines import solver
from ldiv.engines.factors.broadcast_calls import broadcast_calls
from ldiv.engines.factors.dense_programs import dense_programs, triangular_solve
from ldiv.engines.factors.programs import Programs
from ldiv.engines.factors.sparse_calls import sparse_calls
from ldiv.engines.factors.sparse_programs import sparse_programs
from ldiv.engines.factors.sylvester_calls import sylvester_calls
from ldiv.engines.iterative.options import Options
from ldiv.rules import updated_solve
from ldiv.rules.verify_adjoint import verified
from ldiv.structures.sum import Sum


@dataclass(frozen=True)
class Solve(Rule):
    """Arguments (p, b, *auxiliaries) with b (*batch, n, k), or (*batch, n) if `vector`.

    The engine is chosen in the kernel, where the numbers are known. The auxiliaries of an iteration
    are the parameters of its preconditioner and its starting guess: the solution depends on
    neither.
    """

    structure: Structure
    assume_a: str = "gen"
    method: str = "auto"
    options: Options | None = None
    vector: bool = False
    factor_dtype: str | None = None  # in which to factor first

    @cached_property
    def core(self) -> Trees:
        return (
            self.structure.core,
            1 if self.vector else 2,
            *(() if self.options is None else self.options.core),
        )

    @cached_property
    def traits(self) -> Traits:
        return Traits(
            on_host=self.structure.on_host and (self.options is None or self.options.on_host),
            few=FEW
            if self.structure.unview()[0].pattern is None or self.method == "fronts"
            else ENGINE
            if self.options is None
            else ITERATED,
            sees_overflow=True,
            only_refuses=self.options is None,
        )

    @property
    def units(self) -> tuple[Unit, ...]:
        if self.options is not None:  # whose units are those of the user's preconditioner
            return ()
        # (t^2 S)^-1 B = t^-2 X, and X is linear in B
        return (*of_matrix(self.structure, (-2,), 1), of_rest(self.structure, (2,), (2,)))

    def operation(self) -> Operation | None:
        if not self.traits.on_host:
            return None
        which = self.structure, self.assume_a, self.method, self.vector
        if self.factor_dtype is not None:
            return sparse_calls(*which, in_single=True)
        return broadcast_calls(*which) or sparse_calls(*which) or sylvester_calls(*which)

    @cached_property
    def programs(self) -> Programs | None:
        """The operations that solve in a compiled program, None if there are none."""
        if self.options is not None or self.factor_dtype is not None:
            return None
        which = self.structure, self.assume_a, self.method
        return dense_programs(*which) or sparse_programs(*which)

    def program(self, *flat: Any) -> CompiledCall | None:
        if self.programs is not None:
            return self.programs.solve(self.vector, self.policy, *flat)
        if self.options is not None or self.factor_dtype is not None or len(flat) != 2:
            return None
        return triangular_solve(self.structure, self.assume_a, self.method, self.vector, *flat)

    def kernel(self, p: Tree, b: Array, *auxiliaries: Tree) -> Arrays:
        x = solver.solve(
            self.structure,
            p,
            b[..., None] if self.vector else b,
            self.assume_a,
            self.method,
            self.options,
            tuple(auxiliaries),
            self.factor_dtype,
        )
        return (x[..., 0] if self.vector else x,)

    def _block(self, x: Array) -> Array:
        """(*batch, n, 1) for a vector."""
        return x[..., None] if self.vector else x

    @cached_property
    def from_zero(self) -> Solve:
        """The same matrix with another right-hand side: an iteration starts from zero."""
        return self if self.options is None else replace(self, options=self.options.from_zero)

    @cached_property
    def adjoint(self) -> Solve:
        """S^-H."""
        options = self.options and self.options.adjoint
        return Solve(
            self.structure.H,
            self.assume_a,
            self.method,
            options,
            self.vector,
            self.factor_dtype,
            policy=self.policy,
        )

    def auxiliaries(self, given: Sequence[Tree]) -> Sequence[Tree]:
        """The auxiliaries that this rule takes: the preconditioner first, then perhaps a guess."""
        return given[: len(self.core) - 2]

    def jvp(self, tangents: Trees, out: Arrays, *args: Tree) -> Tangents:
        (p, b, *auxiliaries), (dp, db, *_), (x,) = args, tangents, out
        # S = A + U V^H with the factors of A: the digits are in V^H X, and not in products with X
        if [y for y in leaves(dp) if y is not None] and (total := self._updated(p, b)):
            return self._updated_jvp(total, p, b, dp, db, x)
        moved = push(self.structure, p, dp, self._block(x))
        # r = dB - dS X;  dX = S^-1 r, with the factor of the value
        r = minus(db, moved[..., 0] if self.vector and moved is not None else moved)
        return (
            None
            if r is None
            else bind(self.from_zero, p, r, *self.from_zero.auxiliaries(auxiliaries))[0],
        )

    def vjp(self, need: Trees, cotangents: Cotangents, out: Arrays, *args: Tree) -> Trees:
        (p, b, *auxiliaries), (x_bar,), (x,) = args, cotangents, out
        # lam = S^-H X_bar
        lam = bind(self.adjoint, p, x_bar, *self.adjoint.auxiliaries(auxiliaries))[0]
        # S^H was written or promised by the user: <lam, S v> = <X_bar, v> tests it
        if self.structure.states_adjoint:
            found = verified(self.structure, p, self.options, self._block(lam), self._block(x_bar))
            lam = found[..., 0] if self.vector else found
        b_bar = lam if need[1] else None
        if not any(leaves(need[0])):  # in a transposition x is not known
            return nothing(need[0]), b_bar, *map(nothing, need[2:])
        p_bar = self.matrix_cotangent(p, need[0], *map(self._block, (lam, x, x_bar, b)))
        return p_bar, b_bar, *map(nothing, need[2:])

    def matrix_cotangent(
        self, p: Tree, need: Tree, lam: Array, x: Array, x_bar: Array, b: Array
    ) -> Tree:
        """-dS^*[lam X^H], where S^H lam = X_bar and S X = B."""
        if any(leaves(need)) and (total := self._updated(p, b)):
            return updated_solve.cotangent(total, p, need, lam, x, x_bar, b, self._again)
        return outer(self.structure, p, -lam, x, need)

    def matrix_tangent(
        self, p: Tree, dp: Tree, lam: Array, x: Array, x_bar: Array, b: Array
    ) -> Array | None:
        """lam^H dS X, column by column."""
        if [y for y in leaves(dp) if y is not None] and (total := self._updated(p, b)):
            return updated_solve.tangent(total, p, dp, lam, x, x_bar, b, self._again)
        moved = push(self.structure, p, dp, x)
        return None if moved is None else dots(lam, moved)

    # -- low-rank updates: what they multiply is small where the solutions are large ----------------

    def _updated(self, p: Tree, b: Array) -> Sum | None:
        given = self.options is not None or self.factor_dtype is not None
        return (
            None
            if given
            else updated_solve.updated(self.structure, p, b, self.assume_a, self.method)
        )

    def _again(self, structure: Structure, p: Tree, b: Array) -> Array:
        return solve(structure, p, b)

    def _updated_jvp(
        self, total: Sum, p: Tree, b: Array, dp: Tree, db: Array | None, x: Array
    ) -> tuple[Array | None]:
        moved = None if db is None else self._block(db)
        x, b = self._block(x), self._block(b)
        # r = dB - dA X - dU Y,  rest = W C^-1 dV^H X;  dX = S^-1 r - rest
        r, rest = updated_solve.right_side(total, p, dp, moved, x, b, self._again)
        if r is not None:
            r = bind(self.from_zero, p, r[..., 0] if self.vector else r)[0]
        rest = rest if rest is None or not self.vector else rest[..., 0]
        return (minus(r, rest),)


def solve(
    structure: Structure,
    p: Tree,
    b: Array,
    assume_a: str = "gen",
    method: str = "auto",
    factor_dtype: str | None = None,
) -> Array:
    """S(p)^-1 b, by a rule that the structure keeps, with its compiled operation."""
    rule = structure.cached(
        ("solve", assume_a, method, factor_dtype),
        lambda: Solve(structure, assume_a, method, factor_dtype=factor_dtype),
    )
    return bind(rule, p, b)[0]


def cases(structures: Any, draw: Any) -> Cases:
    for structure, p in structures:
        if structure.may_be_regular:
            n = structure.shape[0]
            for s in (structure, structure.T, structure.H):
                yield Solve(s), (p, draw(n, 2))
            yield Solve(structure), (p, draw(2, n, 1))
            yield Solve(structure, vector=True), (p, draw(2, n))
