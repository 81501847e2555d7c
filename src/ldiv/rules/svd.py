"""A = U diag(s) V^H: k = min(m, n) singular triplets, s descending.

tangent      P = U^H dA V = Hh + K, Hermitian and skew;   ds = Re diag(P);
             Om_U = T + O,   Om_V = T - O,   T H - H T = Hh outside of clusters,   O H + H O = K;
             dU = U Om_U + (I - U U^H) dA V H^-1,   dV = V Om_V + (I - V V^H) dA^H U H^-1;
             dH = Hh inside of clusters
cotangent    X, Y = (M_U + M_V) / 2, (M_U - M_V) / 2  of the skew parts M_U of U^H U_bar, M_V of
             V^H V_bar;   T H - H T = X,   O H + H O = Y,   D = diag(s_bar), and Hermitian(H_bar)
             inside of clusters;   A_bar = U (2 T + 2 O + D) V^H
             + (I - U U^H) U_bar H^-1 V^H + U H^-1 V_bar^H (I - V V^H)
             H = U^H A V is diag(s):  T = Hh o R,  R_ij = 1 / (s_j - s_i), 0 inside a cluster and on
             the diagonal,  O = K o S,  S_ij = 1 / (s_i + s_j)
cost         1 decomposition forward; a few products each direction
reference    Giles (2008), section 3.2; Townsend, Differentiating the singular value decomposition
             (2016). A triplet is an eigenpair of [[0, A], [A^H, 0]], whose other eigenvalues are -s
             and 0: what has no derivative is found as for eigenpairs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ldiv.core.arrays.shapes import adjoint, eps, real
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import frontend_of, namespace
from ldiv.core.frameworks.trees import Arrays, Cotangents, Tangents, Tree, Trees
from ldiv.core.rules.compiled import Compiled, CompiledCall
from ldiv.core.rules.finite import require_finite
from ldiv.core.rules.rescaling import Rescaled
from ldiv.core.rules.rule import Traits, Unit, bind
from ldiv.engines.accuracy.limits import RESOLVED
from ldiv.engines.accuracy.scaling import norm
from ldiv.engines.factors import dense_programs
from ldiv.engines.factors.spectral_calls import TripletCalls
from ldiv.rules.divided import divided
from ldiv.rules.eigenpairs import embedded, off_diagonal
from ldiv.rules.inverse_gaps import InverseGaps
from ldiv.rules.summed import no_size, summed


@dataclass(frozen=True)
class SVD(Rescaled):
    """Argument (*batch, m, n); outputs U (*batch, m, k), s (*batch, k), V^H (*batch, k, n), the size
    of `summed` (*batch,), and H (*batch, k, k), which derivatives know in place of s.
    """

    on_degenerate: str = "raise"

    core = (2,)
    units = (Unit((2,), (0, 2, 0, 0, 2), by=(0,)),)
    traits = Traits(name="svd", on_host=True, only_refuses=True)

    def operation(self) -> Compiled:
        return TripletCalls()

    def program_in_units(self, *flat: Any) -> CompiledCall | None:
        return dense_programs.svd(*flat)

    def pullback_in_units(self, *of: Any) -> CompiledCall | None:
        return dense_programs.svd_pullback(self.on_degenerate, *of)

    def kernel(self, a: Array) -> Arrays:
        require_finite("A", a)
        u, s, vh = frontend_of(a).dense.svd(a)
        return u, s, vh, no_size(s), embedded(s, u)

    def jvp(self, tangents: Trees, out: Arrays, *args: Tree) -> Tangents:
        (da,), (u, _, vh, size, hs) = tangents, out
        if 0 in u.shape or 0 in vh.shape:
            return (None,) * len(out)
        v = adjoint(vh)
        dav, dau = da @ adjoint(summed(vh, size)), adjoint(da) @ summed(u, size)
        # P = U^H dA V = Hh + K
        p = adjoint(u) @ dav
        h, k = (p + adjoint(p)) / 2, (p - adjoint(p)) / 2
        # (I - U U^H) dA V and (I - V V^H) dA^H U, for V^H dA^H U = P^H
        outside_u, outside_v = dav - u @ p, dau - v @ adjoint(p)
        size = _sizes(dav) + _sizes(dau)
        ds = real(namespace(p).linalg.diagonal(p))
        # where s_i vanishes it meets its mirror image -s_i: s_i has a kink, and all of P_ii counts
        R, ds, same = self._gaps(
            False,
            out,
            off_diagonal(h),
            off_diagonal(k) + off_diagonal(p, keep=True),
            _sizes(outside_u) + _sizes(outside_v),
            size,
            ds,
        )
        inverse_sum, inverse = self._sums(out)
        # T H - H T = Hh outside of clusters,  O H + H O = K
        turned, opened = divided(hs, h, R), divided(hs, k, inverse_sum, -1)
        # dU = U (T + O) + (I - U U^H) dA V H^-1,  dV = V (T - O) + (I - V V^H) dA^H U H^-1
        du = u @ (turned + opened) + divided(hs, outside_u, inverse, 0)
        dv = v @ (turned - opened) + divided(hs, outside_v, inverse, 0)
        return du, ds, adjoint(dv), None, h * same

    def vjp(self, need: Trees, cotangents: Cotangents, out: Arrays, *args: Tree) -> Trees:
        (u_bar, s_bar, vh_bar, size_bar, hs_bar), (u, s, vh, size, hs) = cotangents, out
        if 0 in u.shape or 0 in vh.shape:
            return (0 * args[0],)
        v = adjoint(vh)
        u_bar = 0 * u if u_bar is None else u_bar
        v_bar = 0 * v if vh_bar is None else adjoint(vh_bar)
        s_bar = 0 * s if s_bar is None else s_bar
        mu, mv = adjoint(u) @ u_bar, adjoint(v) @ v_bar
        # (I - U U^H) U_bar and (I - V V^H) V_bar
        outside_u, outside_v = u_bar - u @ mu, v_bar - v @ mv
        mu, mv = (mu - adjoint(mu)) / 2, (mv - adjoint(mv)) / 2
        # of the skew parts M_U, M_V:  X = (M_U + M_V) / 2,  Y = (M_U - M_V) / 2
        x, y = (mu + mv) / 2, (mu - mv) / 2
        sizes = _sizes(u_bar) + _sizes(v_bar)
        sizes = sizes if size_bar is None else sizes + size_bar[..., None]
        outside = _sizes(outside_u) + _sizes(outside_v)
        R, s_bar, same = self._gaps(True, out, x, y, outside, sizes, s_bar)
        inverse_sum, inverse = self._sums(out)
        # 2 T + 2 O + D,  T H - H T = X,  O H + H O = Y
        inner = 2 * divided(hs, x, R) + 2 * divided(hs, y, inverse_sum, -1) + embedded(s_bar, u)
        if hs_bar is not None:
            inner = inner + (hs_bar + adjoint(hs_bar)) / 2 * same
        u, vh = summed(u, size), summed(vh, size)
        # U (2 T + 2 O + D) V^H + (I - U U^H) U_bar H^-1 V^H + U H^-1 V_bar^H (I - V V^H)
        a_bar = (u @ inner + divided(hs, outside_u, inverse, 0)) @ vh
        return (a_bar + divided(hs, u, inverse, 0) @ adjoint(outside_v),)

    def _gaps(
        self,
        cotangent: bool,
        out: Any,
        inside: Array,
        mirrored: Array,
        outside: Array,
        size: Array,
        d: Array,
    ) -> tuple[Array, Array, Array]:
        """R, d and clusters, if the couplings of the triplets allow a derivative.

        `inside`: with each other; `mirrored`: with those of -s; `outside`: with those of 0, which
        are there if A is not square.
        """
        (u, s, vh, *_), xp = out, namespace(inside)
        square = u.shape[-2] == vh.shape[-1]
        guards = -s if square else xp.concat([-s, 0 * s[..., :1]], axis=-1)
        # a singular value is known up to eps max(m, n) s_1
        bound = eps(s) * max(u.shape[-2], vh.shape[-1]) * s[..., :1]
        error_bound = 0 * xp.concat([s, guards], axis=-1) + bound
        mutual = xp.maximum(size[..., :, None], size[..., None, :])
        # rows of couplings in the order of the eigenvalues: s, -s, and 0
        rows, scales = [inside, mirrored], [mutual, mutual]
        if not square:
            rows.append(outside[..., None, :] + 0 * inside[..., :1, :])
            scales.append(size[..., None, :])
        coupling, scale = xp.concat(rows, axis=-2), xp.concat(scales, axis=-2)
        rule = InverseGaps(cotangent, self.on_degenerate, of="singular value")
        R, d, same = bind(rule, s, guards, error_bound, coupling, scale, d)
        return R, d, same

    def _sums(self, out: Any) -> tuple[Array, Array]:
        """1 / (s_i + s_j) and 1 / s_j in all rows, and 0 where that is not known."""
        (u, s, vh, *_), xp = out, namespace(out[1])
        least = RESOLVED * eps(s) * max(u.shape[-2], vh.shape[-1]) * s[..., :1]

        def inverse(x: Array, least: Array) -> Array:
            positive = x > least
            return xp.where(positive, 1 / xp.where(positive, x, 1), 0 * x)

        total = s[..., :, None] + s[..., None, :]
        return inverse(total, 2 * least[..., None]), inverse(s, least)[..., None, :]


def _sizes(x: Array) -> Array:
    """|x_i| of each column. Of absolute values: PyTorch cannot batch parts of lazy conjugates."""
    return norm(namespace(x).abs(x), axis=-2)
