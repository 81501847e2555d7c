"""A V = B V Lam, |v_j| = 1: all pairs of any square matrix or pencil; without B, B = I.

tangent      C = (B V)^-1 (dA V - dB V H);   dlam_j = C_jj;
             K H - H K = C outside of clusters,   dV = V K - V D,   D = diag(V^H V K);
             dH = C + D H - H D inside of clusters
cotangent    D_bar = diag(H_bar H^H - H^H H_bar), H_bar inside of clusters;
             N = V^H (V_bar - V diag(V^H V_bar) + V D_bar);   Q H^H - H^H Q = N outside of clusters;
             C_bar = Q + H_bar + diag(lam_bar);
             Y = (B V)^-H C_bar;   A_bar = Y V^H,   B_bar = -Y (V H)^H
             H = V^-1 B^-1 A V is Lam:  K = C o R,  R_ij = 1 / (lam_j - lam_i), 0 inside a cluster:
             of eigenvalues that are closer than their errors, eps |u_j| (|A| + |lam_j| |B|) with
             u_j the rows of (B V)^-1
cost         1 Schur form forward, on the host; each direction a solve with V and a few products
reference    Giles (2008), section 3.1; Boeddeker and others, arXiv:1701.00392; the conditions are
             those of Stewart and Sun, Matrix Perturbation Theory, chapter IV

The phase of v_j is arbitrary: the tangent has v_j^H dv_j = 0, and a loss that depends on it raises.
A defective matrix has dependent vectors, and no derivative.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.linalg

from ldiv.core.arrays.shapes import (
    adjoint,
    astype,
    common_batch,
    conj,
    dots,
    eps,
    is_complex,
    numpy_dtype,
    real,
    unit_columns,
)
from ldiv.core.cached_property import cached_property
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import check_or_raise, frontend_of, namespace, on_host
from ldiv.core.frameworks.trees import Arrays, Cotangents, Tangents, Tree, Trees
from ldiv.core.rules.compiled import Compiled, CompiledCall
from ldiv.core.rules.finite import all_finite, require_finite
from ldiv.core.rules.rescaling import Rescaled
from ldiv.core.rules.rule import Traits, Unit, bind
from ldiv.core.rules.structure import minus, plus
from ldiv.engines.accuracy.limits import INDEPENDENT
from ldiv.engines.accuracy.scaling import norm
from ldiv.engines.factors import dense_programs
from ldiv.engines.factors.spectral_calls import GeneralPairCalls
from ldiv.errors import OF_INFINITE_EIGENVALUES, NotDifferentiableError, SingularMatrixError
from ldiv.rules.assertion import checked
from ldiv.rules.divided import divided
from ldiv.rules.eigenpairs import embedded, off_diagonal
from ldiv.rules.inverse_gaps import InverseGaps
from ldiv.rules.solve import solve
from ldiv.rules.summed import no_size, summed, total
from ldiv.structures.dense import dense


@dataclass(frozen=True)
class Eig(Rescaled):
    """Arguments A, and B if `pencil`, (*batch, n, n).

    Outputs lam (*batch, n), V (*batch, n, n), both complex, the size of `summed` (*batch,), and H
    (*batch, n, n), which derivatives know in place of lam.
    """

    pencil: bool = False
    on_degenerate: str = "raise"

    traits = Traits(name="eig", on_host=True)

    @cached_property
    def core(self) -> Trees:
        return (2, 2) if self.pencil else (2,)

    @cached_property
    def units(self) -> tuple[Unit, ...]:
        if self.pencil:
            return Unit((2, 0), (2, 0, 0, 2), by=(0,)), Unit((0, 2), (-2, 0, 0, -2), by=(1,))
        return (Unit((2,), (2, 0, 0, 2), by=(0,)),)

    def operation(self) -> Compiled | None:
        return None if self.pencil else GeneralPairCalls()

    def program_in_units(self, *flat: Any) -> CompiledCall | None:
        return None if self.pencil else dense_programs.eig(*flat)

    def pullback_in_units(self, *of: Any) -> CompiledCall | None:
        return None if self.pencil else dense_programs.eigvals_pullback(self.on_degenerate, *of)

    def kernel(self, *args: Tree) -> Arrays:
        for name, x in zip("ab", args, strict=False):
            require_finite(name, x)
        n = args[0].shape[-1]
        batch = common_batch(self.core, args)
        dtype = np.result_type(np.complex64, *map(numpy_dtype, args))
        specs = (((*batch, n), dtype), ((*batch, n, n), dtype))
        found = on_host(partial(_each, batch, dtype), specs, *args)
        lam, v = found
        return lam, v, no_size(lam), embedded(lam, v)

    def jvp(self, tangents: Trees, out: Arrays, *args: Tree) -> Tangents:
        (lam, v, size, h), (da, db) = out, (*tangents, None)[:2]
        if 0 in v.shape:
            return 0 * lam, 0 * v, None, 0 * h
        x = summed(v, size)
        # dA V - dB V H
        moved: Any = minus(
            None if da is None else _product(da, x), None if db is None else _product(db, x @ h)
        )
        w, error_bound = self._left(out, args)
        # C = (B V)^-1 (dA V - dB V H); rounding of c_ij is eps |w_i| |moved_j|
        c = w @ moved
        scale = sizes(w, -1)[..., :, None] * sizes(moved, -2)[..., None, :]
        dlam = namespace(c).linalg.diagonal(c)
        R, dlam, same = self._gaps(False, lam, error_bound, off_diagonal(c), scale, dlam)
        # K H - H K = C outside of clusters
        turned = v @ divided(h, c, R)
        # dV = V K - V D,  D = diag(V^H V K), so that v_j^H dv_j = 0
        d = dots(v, turned)
        # dH = C + D H - H D inside of clusters
        dh = (c + d[..., :, None] * h - h * d[..., None, :]) * same
        return dlam, turned - v * d[..., None, :], None, dh

    def vjp(self, need: Trees, cotangents: Cotangents, out: Arrays, *args: Tree) -> Trees:
        (lam_bar, v_bar, size_bar, h_bar), (lam, v, size, h) = cotangents, out
        if 0 in v.shape:
            return tuple(0 * x if needed else None for needed, x in zip(need, args, strict=True))
        lam_bar = 0 * lam if lam_bar is None else lam_bar
        x = summed(v, size)
        w, error_bound = self._left(out, args)
        # V_bar = 0: no coupling is judged, and Y = W^H diag(lam_bar)
        if v_bar is None and h_bar is None:  # for eigenvalues alone C_bar is diagonal
            none = 0 * v, 0 * namespace(v).abs(v)
            lam_bar = self._gaps(True, lam, error_bound, *none, lam_bar)[1]
            return self._outer(need, args, adjoint(w) * lam_bar[..., None, :], h, x)
        v_bar = 0 * v if v_bar is None else v_bar
        own = dots(v, v_bar)
        # N = V^H (V_bar - V diag(V^H V_bar)), and the term of D_bar below
        inner = adjoint(v) @ (v_bar - v * own[..., None, :])
        # its diagonal is i Im(v_j^H v_bar_j), by which the loss depends on the phase of v_j
        coupling = off_diagonal(inner) + embedded((own - conj(own)) / 2, v)
        # if the loss depends on few of the vectors, the others have the rounding of these
        scale = plus(total(v_bar), size_bar)[..., None, None] + 0 * namespace(v).abs(v)
        R, lam_bar, same = self._gaps(True, lam, error_bound, coupling, scale, lam_bar)
        c_bar = embedded(lam_bar, v)
        if h_bar is not None:
            h_bar = h_bar * same
            # D_bar = diag(H_bar H^H - H^H H_bar)
            of_d = namespace(v).linalg.diagonal(h_bar @ adjoint(h) - adjoint(h) @ h_bar)
            inner, c_bar = inner + adjoint(v) @ (v * of_d[..., None, :]), c_bar + h_bar
        # Q H^H - H^H Q = N;  C_bar = Q + H_bar + diag(lam_bar),  Y = (B V)^-H C_bar
        c_bar = c_bar + divided(adjoint(h), inner, conj(R))
        return self._outer(need, args, adjoint(w) @ c_bar, h, x)

    @staticmethod
    def _outer(need: Trees, args: Tree, y: Array, h: Array, v: Array) -> Trees:
        """Y V^H and -Y (V H)^H, or their real parts."""
        right = v, -(v @ h) if any(need[1:]) else None
        found = [y @ adjoint(x) if n else None for n, x in zip(need, right, strict=False)]
        return tuple(
            [z if z is None or is_complex(x) else real(z) for x, z in zip(args, found, strict=True)]
        )

    def _left(self, out: Arrays, args: Tree) -> tuple[Array, Array]:
        """(B V)^-1, whose rows are left vectors, and how wrong each eigenvalue may be."""
        lam, v, *_ = out
        v, n = checked(_require_independent, v), v.shape[-1]
        w = solve(
            dense(n, n), _product(args[1], v) if self.pencil else v, unit_columns(v, n, range(n))
        )
        # lam_j is known up to n eps |u_j| (|A| + |lam_j| |B|), |v_j| = 1
        size = total(args[0])[..., None]
        if self.pencil:
            size = size + namespace(lam).abs(lam) * total(args[1])[..., None]
        return w, n * eps(v) * sizes(w, -1) * size

    def _gaps(self, cotangent: bool, lam: Array, error_bound: Array, *rest: Array) -> Any:
        rule = InverseGaps(cotangent, self.on_degenerate, of="general eigenvalue")
        return bind(rule, lam, lam[..., :0], error_bound, *rest)


def _each(batch: tuple[int, ...], dtype: Any, *args: Any) -> tuple[Any, ...]:
    """LAPACK's: of a batch in one call, of pencils one after the other."""
    n = args[0].shape[-1]
    a, *more = (np.broadcast_to(x, (*batch, n, n)) for x in args)
    if more:
        lam, v = np.empty((*batch, n), dtype), np.empty((*batch, n, n), dtype)
        for at in np.ndindex(batch) if n else ():
            lam[at], v[at] = scipy.linalg.eig(a[at], more[0][at], check_finite=False)
    else:
        # a member that is not finite is replaced by zeros, or LAPACK would refuse the whole batch
        finite = np.isfinite(a).all(axis=(-2, -1))
        lam, v = np.linalg.eig(np.where(finite[..., None, None], a, 0))  # which refuses NaN
        lam, v = np.where(finite[..., None], lam, np.nan).astype(dtype), v.astype(dtype)
    if not np.isfinite(lam).all():
        causes = OF_INFINITE_EIGENVALUES
        raise SingularMatrixError("LAPACK", "an infinite eigenvalue", what="b", causes=causes)
    return lam, v


def _product(a: Array, x: Array) -> Array:
    """A X, of a real A too."""
    return astype(a, numpy_dtype(x)) @ x


def sizes(x: Array, axis: Any) -> Array:
    return norm(namespace(x).abs(x), axis=axis)


def _require_independent(v: Array) -> None:
    check_or_raise(all_finite(v), _defective)  # torch has no singular values of NaN
    values = frontend_of(v).dense.svdvals(v)
    least = INDEPENDENT * v.shape[-1] * eps(v) * values[..., 0]
    check_or_raise((values[..., -1] > least).all(), _defective)


def _defective() -> NotDifferentiableError:
    return NotDifferentiableError(
        "no derivative: the matrix is defective, or so close to it that no digit of a derivative "
        "is known: its eigenvectors are dependent. Let the loss depend on the matrix through a "
        "smooth function (ldiv.funm, a determinant, a trace), or move the matrix."
    )
