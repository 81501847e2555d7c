"""s = det S(p) / |det S(p)|, l = log |det S(p)|.

tangent      dl = Re t,  ds = i s Im t,  t = tr(S^-1 dS)
cotangent    p_bar = dS^*[w S^-H],  w = l_bar + i Im(conj(s) s_bar)
cost         1 factorization forward; the derivative as `jacobi_formula`
reference    Jacobi's formula
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ldiv.core.arrays.shapes import conj, is_complex, real
from ldiv.core.cached_property import cached_property
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import check_or_raise, is_opaque, namespace
from ldiv.core.frameworks.trees import Arrays, Cotangents, Tangents, Tree, Trees
from ldiv.core.policies.or_nan import members
from ldiv.core.rules.compiled import Compiled, CompiledCall
from ldiv.core.rules.finite import require_finite
from ldiv.core.rules.rule import Cases, Rule, Traits, Unit
from ldiv.core.rules.structure import Structure, nothing, plus
from ldiv.core.rules.units import balance, magnitude, of_matrix
from ldiv.engines import entries, registry, solver
from ldiv.engines.factors.dense_calls import DeterminantCalls, dense_calls
from ldiv.engines.factors.dense_programs import dense_programs
from ldiv.engines.factors.sparse_programs import sparse_programs
from ldiv.errors import SingularMatrixError
from ldiv.rules.inverse import is_whole
from ldiv.rules.jacobi_formula import determinant_cotangent, relative_change
from ldiv.rules.positive_sign import require_positive
from ldiv.structures.composed import Composed
from ldiv.structures.dense import Dense, dense
from ldiv.structures.diagonal import Diagonal
from ldiv.structures.symmetric import symmetric_part

Pair = tuple[Array, Array]


@dataclass(frozen=True)
class SLogDet(Rule):
    """Argument p; outputs (s, l), (*batch,), or l alone, which more engines know.

    With its sign a dense matrix may be singular: s = 0, l = -inf.
    `positive`: the determinant must be.
    """

    structure: Structure
    assume_a: str = "gen"
    method: str = "auto"
    sign: bool = True  # is s an output, too?
    positive: bool = False
    promise: str = ""  # that a dense array is its transpose, "T", or its conjugate transpose, "H"

    @cached_property
    def _may_be_zero(self) -> bool:
        return self.sign and isinstance(self.structure, Dense)

    @cached_property
    def traits(self) -> Traits:
        # the logarithm of a zero is infinite, and no overflow
        return Traits(on_host=self.structure.on_host, sees_overflow=True, only_refuses=True)

    @cached_property
    def core(self) -> Trees:
        return (self.structure.core,)

    @cached_property
    def _real(self) -> bool:
        """Whether the structure makes the determinant real for all entries."""
        return not self._may_be_zero and self.structure.H == self.structure

    @property
    def units(self) -> tuple[Unit, ...]:
        # log |det t^2 A| = log |det A| + 2 n log t
        own = (0,) * self.sign
        return of_matrix(self.structure, (*own, 0), adds=(*own, 2 * self.structure.shape[0]))

    def operation(self) -> Compiled | None:
        if not self.traits.on_host or self.promise:
            return None
        options = self.assume_a, self.method, self.sign, self.positive
        found: Compiled | None = dense_calls(DeterminantCalls, self.structure, *options)
        return found

    def program(self, *flat: Any) -> CompiledCall | None:
        which = self.structure, self.assume_a, self.method
        by_lu = isinstance(self.structure, Dense) or not self.sign
        programs = (dense_programs(*which) if by_lu else None) or sparse_programs(*which)
        if programs is None or self.promise:
            return None
        return programs.slogdet(self.sign, self.positive, self.policy, *flat)

    def kernel(self, *args: Tree) -> Arrays:
        if not self.sign:
            return (self._size(args[0]),)
        sign, size = self._pair(args[0])
        # det S = det S^H is real: the imaginary part of its sign is rounding
        if self._real and is_complex(sign):
            sign = namespace(sign).sign(real(sign)) + 0 * sign
        if self.positive:
            require_positive(sign, size, self.structure.shape[0])
        return sign, size

    def _size(self, p: Tree) -> Array:
        if self.method == "auto" and entries.supports(self.structure, p, self.assume_a):
            return entries.logabsdet(self.structure, p, self.assume_a)
        return solver.logabsdet(self.structure, p, self.assume_a, self.method)

    def _pair(self, p: Tree) -> Pair:
        if isinstance(self.structure, Dense):
            return _of_dense(p, self.promise)
        base, op = self.structure.unview()
        if isinstance(base, Diagonal):
            sign, size = _of_diagonal(p)
        elif entries.is_sparse(base, p):
            sign, size = entries.slogdet(base, p, "gen")
        else:
            sign, size = solver.slogdet(base, p)
        # det A^T = det A, and det A^H = conj(det A)
        return conj(sign) if op in "CH" else sign, size

    def jvp(self, tangents: Trees, out: Arrays, *args: Tree) -> Tangents:
        (p,), (dp,) = args, tangents
        t = relative_change(self.structure, p, dp, self.assume_a, self.method)
        if t is None:
            return (None,) * len(out)
        if not self.sign:
            return (real(t),)
        # ds = i s Im t, and 0 where s is a real sign; dl = Re t
        turns = is_complex(t) and not self._real
        return out[0] * (1j * namespace(t).imag(t)) if turns else 0 * out[0] * real(t), real(t)

    def vjp(self, need: Trees, cotangents: Cotangents, out: Arrays, *args: Tree) -> Trees:
        (p,), weight = args, cotangents[-1]
        if self.sign and not self._real:
            weight = _with_turn(weight, cotangents[0], out[0])
        if weight is None:
            return tuple(map(nothing, need))
        which = self.assume_a, self.method
        return (determinant_cotangent(self.structure, p, weight, need[0], *which),)


def _of_dense(a: Array, promise: str) -> Pair:
    """Return the determinant by the LU that the derivative uses again. Singular members of a batch
    have no derivative, but they have a determinant.
    """
    require_finite("A", a)
    n = a.shape[-1]
    if promise:
        symmetric_part(a, promise)  # raises where it is not kept
    xp, known = namespace(a), None
    if not is_opaque(a) and 0 not in a.shape:
        with suppress(SingularMatrixError):
            return solver.slogdet(dense(n, n), a)
        # singular members have NaN here, and are computed below
        if a.ndim > 2:
            known = members(lambda flat: solver.slogdet(dense(n, n), flat[0]), [2], [a])
    t = balance(magnitude(a, (-1,)))  # of each row: some frameworks multiply entries
    sign, size = xp.linalg.slogdet(a * t * t)
    # |det A| = |det diag(t^2) A| / prod t_i^2
    size = size - 2 * xp.sum(xp.log(t[..., 0]), axis=-1)
    if known is None:
        return sign, size
    # regular members keep the determinant of the factor that the derivative uses
    lost = xp.isnan(known[1])
    return xp.where(lost, sign, known[0]), xp.where(lost, size, known[1])


def _of_diagonal(d: Array) -> Pair:
    """s = prod_i d_i / |d_i|, l = sum_i log |d_i|."""
    require_finite("A", d)
    xp, size = namespace(d), namespace(d).abs(d)
    check_or_raise(
        (size > 0).all(),
        lambda: SingularMatrixError("division", "a zero on the diagonal", certain=True),
    )
    return xp.prod(d / size, axis=-1), xp.sum(xp.log(size), axis=-1)


def _with_turn(l_bar: Array | None, s_bar: Array | None, sign: Array) -> Array | None:
    """w = l_bar + i Im(conj(s) s_bar), the weight of S^-H; None is zero."""
    if s_bar is None or not is_complex(sign):
        return l_bar
    inner = conj(sign) * s_bar
    return plus(l_bar, (inner - conj(inner)) / 2)


def cases(structures: Any, draw: Any) -> Cases:
    yield SLogDet(Diagonal(4)), (draw(2, 4) - 3,)
    for structure, p in structures:
        if not (structure.may_be_regular and registry.has_factors(structure, p)):
            continue
        base = structure.unview()[0]
        yield SLogDet(structure, sign=False), (p,)
        by_parts = isinstance(base, Composed) and base.inverse is not None
        if (base.pattern is not None or is_whole(base)) and not by_parts:
            yield SLogDet(structure), (p,)
