"""op(A) x = b by a factor of M = R P A Q C: every answer is checked, refined, or refused.

The checks, in this order, the same for every engine:

    finite in          NaN and infinity in A or b are refused before there is a factor (`core.rules.finite`)
    promise kept       a definite M that was promised is refuted by its factor, in equilibrated units
    singular?          a random right-hand side is solved for (`singularity_check`)
    backward error     of each solution: small, or reduced by `refinement`, or refused
    finite out         an infinite solution is refused by the caller

An engine's factor solves with M, without checks; `Verifiable` is the interface of M. A refusal is a
suspicion, after which a more careful attempt follows, unless the error is marked as certain.
Reference: Arioli, Demmel, Duff, SIAM J. Matrix Anal. Appl. 10 (1989); Higham, Accuracy and
Stability of Numerical Algorithms, chapters 9 and 12.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import namespace
from ldiv.core.frameworks.looks import assumed_true, decided, stays_on_device
from ldiv.core.policies.errstate import check_or_warn
from ldiv.core.rules.finite import unwarned
from ldiv.engines.accuracy.limits import ADEQUATE, CAREFUL_STEPS, ENOUGH, LOSSY, STEPS, UNREAD_STEPS
from ldiv.engines.accuracy.refinement import refined, refined_by_rows
from ldiv.engines.accuracy.scaling import solve_in_units
from ldiv.engines.accuracy.singularity_check import direction, first_solve, require_regular
from ldiv.engines.accuracy.verifiable import Scales, Verifiable, largest
from ldiv.engines.factor import Factor
from ldiv.errors import SingularMatrixError


class Verified(Factor):
    """Checked solves with A by a factor of M; `scales` are the diagonals of R and C, or None.

    last: no attempt follows. Larger errors are accepted, and more steps are taken.
    by_rows: each row of a residual is looked at, as where much grows. A norm hides what small
        entries lack.
    in_single: the factor has fewer digits than M. No row of a residual may then be large.
    proven: M is known to be regular, or its singularity shows in another way
    advice: what an error adds
    """

    def __init__(
        self,
        engine: str,
        matrix: Verifiable,
        factor: Factor,
        scales: Scales = None,
        *,
        last: bool = False,
        by_rows: bool = False,
        in_single: bool = False,
        steps: int | None = None,
        proven: bool = False,
        advice: str = "",
    ) -> None:
        self._engine, self._factor, self._scales = engine, factor, scales
        self._m: Any = matrix  # which has a norm, unless M is proven regular
        # in a trace no attempt can follow
        self._is_last = is_last = last or matrix.is_traced
        limits = matrix.limits
        self._tolerance = limits.accurate if is_last else limits.usually_accurate
        is_asked = not (matrix.arrays and stays_on_device(matrix.arrays[0]))
        usual = CAREFUL_STEPS if is_last and is_asked else STEPS if is_asked else UNREAD_STEPS
        self._steps = steps or usual
        self._advice = f" ({advice})" if advice else ""
        self._is_proven = proven
        self._in_single, self._needs_rows = in_single, by_rows or in_single
        # for a proven M, and in a trace, the growth is not measured
        self._by_rows = self._needs_rows or proven or matrix.is_traced
        self._probed: Array | None = None  # M^-1 z for the probe z, if the first solve can use it
        self._norms_of_A: dict[str, Any] = {}
        self._accurate: bool | None = None  # is an unrefined solution accurate? None: not yet known
        # the probe of one matrix waits for the first solve
        if not matrix.is_single:
            self.check_nonsingular()

    @property
    def nbytes(self) -> int:  # type: ignore[override]
        """The bytes of the matrix, its factor and its scales."""
        return self._factor.nbytes + self._m.nbytes + sum(s.nbytes for s in self._scales or ())

    @property
    def arrays(self) -> tuple[Array, ...]:  # type: ignore[override]
        """All arrays of matrix and factor, if they consist of arrays."""
        own, of_factor = self._m.arrays, self._factor.arrays
        return (*own, *of_factor, *(self._scales or ())) if own and of_factor else ()

    @property
    def core(self) -> tuple[int, ...]:  # type: ignore[override]
        return (*self._m.core, *self._factor.core, *((1, 1) if self._scales else ()))

    @property
    def remake(self) -> Callable[..., Factor]:
        counts = len(self._m.arrays), len(self._factor.arrays)
        return Remake(type(self), self._engine, self._m.remake, self._factor.remake, counts)

    # -- solves ----------------------------------------------------------------------------------------

    def solve(self, b: Array, op: str) -> Array:
        return self._in_units(self._verified, b, op)

    def solve_unrefined(self, b: Array, op: str) -> Array:
        """Return the factor's own solution, if it is nearly as accurate as a refined one."""
        unrefined = self._is_proven and not self._needs_rows and self._is_accurate()
        return self._in_units(self._factor.solve if unrefined else self._verified, b, op)

    def _in_units(self, solve: Callable[[Array, str], Array], b: Array, op: str) -> Array:
        """op(A)^-1 b from a solve with op(M): permuted and scaled before and after."""
        m = self._m
        b = m.arranged(b, op)
        if self._scales is None:
            return m.rearranged(solve(b, op), op)
        # M = R A C: A^-1 = C M^-1 R, and op(A)^-1 = R op(M)^-1 C if op is T or H
        before, after = (s[..., None] for s in self._scales[:: 1 if op == "N" else -1])
        with unwarned():  # the caller refuses an infinite solution
            return m.rearranged(solve_in_units(lambda y: solve(y, op), b, before, after), op)

    def _verified(self, b: Array, op: str) -> Array:
        m, solve = self._m, self._factor.solve
        x = solve(b, op) if self._is_proven else self._first_solve(b, op)
        r, is_small = m.checked_residual(b, x, op)
        if not is_small:
            with unwarned():
                x, r, error = refined(m, self._factor, b, x, r, op, self._steps)
            self._require_small(
                error,
                "a backward error of {:.1e} that iterative refinement does not reduce"
                + self._advice,
            )
        if not m.has_sizes:
            return x
        # the scaling of a careful attempt makes sums equal, and hides errors that are large only in the units of A
        hides = self._is_last and self._scales is not None
        if self._by_rows or (hides and not self._is_small_in_A(b, x, r, op)):
            x, r = self._refined_by_rows(b, x, r, op)
            if hides:
                what = "a backward error of {:.1e} in the units of the matrix"
                self._require_small(self._errors_of_A(b, x, r, op), what)
        return x

    def _is_small_in_A(self, b: Array, x: Array, r: Array, op: str) -> bool:
        """Whether errors are small in the units of A, as far as they may be read."""
        errors = self._errors_of_A(b, x, r, op)
        return not stays_on_device(errors) and assumed_true((errors <= self._tolerance).all())

    def _errors_of_A(self, b: Array, x: Array, r: Array, op: str) -> Array:
        """The backward errors in the units of A, 0 on overflow: the caller refuses infinite solutions."""
        assert self._scales is not None
        m, xp = self._m, namespace(x)
        before, after = (s[..., None] for s in self._scales[:: 1 if op == "N" else -1])
        with unwarned():
            norm = self._norms_of_A.get(op)
            if norm is None:
                norm = largest(m.sizes(1 / after, op) / before)
            if not m.is_traced:
                self._norms_of_A[op] = norm
            size = norm * largest(after * m.rounded_sizes(x)) + largest(m.rounded_sizes(b) / before)
            errors = xp.asarray(largest(r / before) / (size + m.limits.tiny))
        return xp.where(xp.isfinite(errors), errors, xp.zeros_like(errors))

    def _refined_by_rows(self, b: Array, x: Array, r: Array, op: str) -> tuple[Array, Array]:
        """(x, r), x as accurate as this b determines it, in all units, where its residual stays small:

        |x - A^-1 b| <= row error |A^-1| (|A| |x| + |b|)
        """
        m, xp = self._m, namespace(x)
        units = [xp.ones_like(xp.abs(x[..., :1]))]
        if self._scales is not None:
            units.append(self._scales[op == "N"][..., None])
        with unwarned():
            y, s, error, stuck = refined_by_rows(m, self._factor, b, x, r, op, self._steps, units)
            if y is x:  # no step was necessary
                return x, r
            kept = m.errors(s, y, b, op) <= self._tolerance
        if self._in_single:
            # corrections of few digits converge in the large rows first, and hide errors of the others
            what = "a residual of {:.1e} in a row, which refinement does not reduce"
            self._require_small(error, what, m.limits.usually_accurate)
        # a residual along a vector that M cannot reach is the same after each step
        if self._needs_rows or not self._is_last:
            what = "a residual of {:.1e} in a row, which refinement leaves as it is"
            self._require_small(stuck, what, m.limits.usually_accurate)
        return xp.where(kept, y, x), xp.where(kept, s, r)

    # -- singular? -------------------------------------------------------------------------------------

    def _first_solve(self, b: Array, op: str) -> Array:
        # y = M^-1 z of the probe holds for op N alone
        y, self._probed = (self._probed if op == "N" else None), None
        x, growth = first_solve(self._engine, self._m, self._factor, b, op, y)
        self._is_proven, self._by_rows = True, self._by_rows or self._is_lossy(growth)
        return x

    def check_nonsingular(self, strict: bool = False) -> None:
        """Raise now if the matrix appears singular, instead of in the first solve."""
        if strict or not self._is_proven:
            y, self._probed = self._probed, None
            growth = require_regular(self._engine, self._m, self._factor, y, strict)
            self._is_proven, self._by_rows = True, self._by_rows or self._is_lossy(growth)

    def check_by_solving(self) -> None:
        """Solve now for a random right-hand side, and raise what that raises: the residual may be
        the only evidence of a pivot that an engine replaced.
        """
        self.check_nonsingular()
        if self._m.is_single:
            self.solve(self._m.direction(direction(self._m.n, self._m.dtype.char)), "N")

    def _is_lossy(self, growth: float | None) -> bool:
        """True if numbers that are small in the units of M, but not in those of A, may lose digits."""
        if growth is None:
            return False
        # growth times the range of the units, max r / min r or max c / min c
        most = growth
        for s in self._scales or ():
            xp = namespace(s)
            with unwarned():
                spread = xp.max(xp.max(s, axis=-1) / xp.min(s, axis=-1))
            most = max(most, growth * float(spread))
        return not most < LOSSY

    # -- what cannot be refined: the factors themselves must be accurate -----------------------------

    def logabsdet(self) -> Array:
        self._require_accurate()
        return self._unscaled(self._factor.logabsdet())

    def slogdet(self) -> tuple[Array, Array]:
        self._require_accurate()
        sign, size = self._factor.slogdet()
        return sign, self._unscaled(size)

    def _unscaled(self, size: Array) -> Array:
        """log |det A| from log |det M|; the scales are positive."""
        # log |det A| = log |det M| - sum_i log r_i - sum_j log c_j
        for s in self._scales or ():
            size = size - namespace(s).sum(namespace(s).log(s), axis=-1)
        return size

    def signs(self) -> tuple[int, int] | None:
        """The signs of M, which are those of A, since the scaling is a congruence; raise if M appears
        singular.
        """
        signs = self._factor.signs()
        if signs is None or not self._is_accurate():
            return None
        self.check_nonsingular()
        return signs

    def inverse(self, a: Array) -> Array:
        """Return A^-1 = C M^-1 R if M^-1 is accurate in one random direction; else solve for it
        column by column, with refinement.
        """
        m = self._m
        is_known = m.arrays and not m.is_traced
        if is_known:
            self.check_nonsingular()
        if is_known and not self._by_rows:
            # M^-1 as an array is judged by y = M^-1 z, as a solution of M y = z
            x = self._factor.inverse(m.arrays[0])
            y = namespace(x).matmul(x, m.direction(direction(m.n, m.dtype.char)))
            if assumed_true((self._error_of(y) <= ENOUGH * m.limits.eps).all()):
                if self._scales is not None:
                    # A^-1 = C M^-1 R
                    r, c = self._scales
                    x = c[..., :, None] * x * r[..., None, :]
                return x
        return super().inverse(a)

    def probe_error(self) -> Array:
        """The backward error of the unrefined solution for the probe, as the factor is now."""
        m = self._m
        y = self._factor.solve(m.direction(direction(m.n, m.dtype.char)), "N")
        if not self._is_proven:
            self._probed = y
        return self._error_of(y)

    def _error_of(self, y: Array) -> Array:
        """The backward error of y as a solution of M y = z."""
        m = self._m
        z = m.direction(direction(m.n, m.dtype.char))
        return m.measured(z, y, "N")[1]

    def _is_accurate(self) -> bool:
        """True if an unrefined solution is nearly as accurate as a refined one; assumed in a trace."""
        if self._accurate is None:
            adequate = ADEQUATE * self._m.limits.eps
            self._accurate = self._m.is_traced or decided((self.probe_error() <= adequate).all())
        return self._accurate

    def _require_accurate(self) -> None:
        self.check_nonsingular()
        what = "factors with a backward error of {:.1e}" + self._advice
        self._require_small(self.probe_error(), what)

    def _require_small(self, error: Array, what: str, tolerance: float | None = None) -> None:
        check_or_warn(
            (error <= (tolerance or self._tolerance)).all(),
            partial(_inaccurate, self._engine, what),
            namespace(error).max(error),
        )


def _inaccurate(engine: str, what: str, error: Any) -> SingularMatrixError:
    return SingularMatrixError(engine, what.format(float(error)))


@dataclass(frozen=True)
class Remake:
    """Rebuilds a `Verified` from its arrays: those of the matrix and its factor, the scales if any."""

    kind: type[Verified]
    engine: str
    matrix: Callable[..., Verifiable]
    factor: Callable[..., Factor]
    counts: tuple[int, int]

    def __call__(self, *arrays: Array) -> Verified:
        m, f = self.counts
        factor, scales = self.factor(*arrays[m : m + f]), arrays[m + f :]
        own = (scales[0], scales[1]) if scales else None
        return self.kind(self.engine, self.matrix(*arrays[:m]), factor, own, proven=True)
