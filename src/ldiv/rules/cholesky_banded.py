"""A = L L^H in a band: c[d, j] = L[j + d, j] from p[d, j] = A[j + d, j], 0 <= d <= w.

The diagonal of A is read as real.
tangent      T(c) dc = dp: for every (i, j) of the band
                 sum over k of dL_ik conj(L_jk) + L_ik conj(dL_jk) = dA_ij,
             column by column a lower triangular sparse system. Complex: the unknowns are dL and
             conj(dL), and below the diagonal each equation comes with its conjugate
cotangent    lam = T(c)^-H (c_bar, 0);   p_bar = lam_1 + conj(lam_2)
cost         n w^2 forward and in each direction; nothing outside of the band is stored
reference    Murray, arXiv:1602.07527, section 4.2: this is the equation that its recursions solve
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg

from ldiv.core.arrays.shapes import conj, each_on_host, is_complex, numpy_dtype, real
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import namespace, scatter
from ldiv.core.frameworks.pattern import Pattern
from ldiv.core.frameworks.trees import Arrays, Cotangents, Tangents, Tree, Trees
from ldiv.core.owners.caches import bounded_cache
from ldiv.core.rules.finite import require_finite
from ldiv.core.rules.rule import Cases, Rule, Unit
from ldiv.core.rules.structure import Structure
from ldiv.errors import NotPositiveDefiniteError
from ldiv.rules.solve import solve
from ldiv.structures.banded import banded
from ldiv.structures.sparse import Sparse
from ldiv.structures.sparse_triangular import SparseTriangular


@dataclass(frozen=True)
class CholeskyBanded(Rule):
    """Argument, output (*batch, w + 1, n); entries outside of the matrix are not read, and zero."""

    core = (2,)

    units = (Unit((2,), (1,)),)

    def kernel(self, p: Tree) -> Arrays:
        if 0 in p.shape:
            return (p + 0,)
        p = _band(p).read(p)
        require_finite("ab", p)
        return each_on_host(_factored, self.core, (p,), ((tuple(p.shape), numpy_dtype(p)),))

    def jvp(self, tangents: Trees, out: Arrays, *args: Tree) -> Tangents:
        (dp,), (c,) = tangents, out
        if 0 in c.shape:
            return (dp,)
        xp, system, dp = namespace(c), _system(c), _real_diagonal(_band(c).read(dp))
        flat = _flat(dp)
        # T(c) (dc, conj(dc)) = (dp, conj(dp)), in the order of the equations
        right = xp.concat([flat, conj(flat)], axis=-1) if is_complex(c) else flat
        dc = solve(system.structure, _values(system, c), right[..., system.at, None])[..., 0]
        return (_placed(dc[..., system.first], system.places, c),)

    def vjp(self, need: Trees, cotangents: Cotangents, out: Arrays, *args: Tree) -> Trees:
        (c_bar,), (c,) = cotangents, out
        if 0 in c.shape:
            return (c_bar,)
        xp, system = namespace(c), _system(c)
        flat = _flat(_real_diagonal(c_bar))
        # T(c)^H lam = (c_bar, 0)
        right = xp.concat([flat, 0 * flat], axis=-1) if is_complex(c) else flat
        lam = solve(system.structure.H, _values(system, c), right[..., system.at, None])[..., 0]
        # p_bar = lam_1 + conj(lam_2), lam_2 only below the diagonal
        p_bar = _placed(lam[..., system.first], system.places, c)
        if is_complex(c):
            p_bar = p_bar + conj(_placed(lam[..., system.second], system.places[system.below], c))
        return (_real_diagonal(p_bar),)


def _factored(p: Any) -> tuple[Any]:
    pbtrf = scipy.linalg.get_lapack_funcs("pbtrf", (p,))
    c, info = pbtrf(_real_diagonal(p), lower=1)
    if info > 0:
        evidence = f"a leading minor, of order {info}, that is not positive"
        raise NotPositiveDefiniteError("pbtrf", evidence)
    return (c,)


def _band(p: Array) -> Structure:
    return banded(p.shape[-2] - 1, 0, p.shape[-1])


def _real_diagonal(p: Array) -> Array:
    return (
        namespace(p).concat([real(p[..., :1, :]) + 0 * p[..., :1, :], p[..., 1:, :]], axis=-2)
        if is_complex(p)
        else p
    )


def _flat(p: Array) -> Array:
    return namespace(p).reshape(p, (*p.shape[:-2], p.shape[-2] * p.shape[-1]))


def _placed(x: Array, places: Any, like: Array) -> Array:
    """The band (*batch, w + 1, n) with the entries x at these places, zero elsewhere."""
    w, n = like.shape[-2:]
    return namespace(x).reshape(scatter(x[..., None], places, w * n)[..., 0], (*x.shape[:-1], w, n))


# -- the triangular system T(c) -----------------------------------------------


class _System(NamedTuple):
    structure: Structure
    source: Any  # for each entry of T: its index in (c, conj c)
    at: Any  # for each unknown, or equation: its index in (dp, conj dp)
    first: Any  # the numbers of the unknowns dL_ij
    second: Any  # the numbers of the unknowns conj(dL_ij), i > j
    places: Any  # the indices in the band of dL_ij
    below: Any  # which of these are below the diagonal


def _system(c: Array) -> _System:
    return _made(c.shape[-2] - 1, c.shape[-1], is_complex(c))


def _values(system: _System, c: Array) -> Array:
    flat = _flat(c)
    return (namespace(c).concat([flat, conj(flat)], axis=-1) if is_complex(c) else flat)[
        ..., system.source
    ]


@bounded_cache(16)
def _made(w: int, n: int, complex_: bool) -> _System:
    # unknowns are numbered column by column, conj(dL_ij) right after dL_ij: so T is triangular
    j, d = (x.ravel() for x in np.meshgrid(np.arange(n), np.arange(w + 1), indexing="ij"))
    inside = j + d < n
    number = np.full((2, n, w + 1), -1)  # of dL[j+d, j], of its conjugate
    # unknowns at each place: dL_ij and its conjugate below the diagonal of a complex L, else one
    pairs = 1 + (complex_ & (d > 0))
    # an exclusive sum: how many unknowns come before this one
    number[0].ravel()[inside] = (np.cumsum(pairs * inside) - pairs)[inside]
    number[1] = number[0] + (complex_ & (np.arange(w + 1) > 0))
    size, total = (w + 1) * n, int((pairs * inside).sum())
    rows, cols, source = [], [], []
    # the product over column k contributes to row k + d1 + s, column k + s
    for d1 in range(min(w + 1, n)):
        for s in range(min(w - d1 + 1, n - d1)):
            k = np.arange(n - d1 - s)
            for part in range(2 if complex_ and d1 else 1):  # the equation, then its conjugate
                # behind the entries of c stand those of conj(c)
                flip = size * complex_
                # the coefficient of dL_ik is conj(L_jk), that of conj(dL_jk) is L_ik
                rows += [number[part, k + s, d1]] * 2
                cols += [number[part, k, d1 + s], number[1 - part, k, s]]
                source += [s * n + k + flip * (part == 0), (d1 + s) * n + k + flip * (part == 1)]
    pattern = Pattern(np.concatenate(rows), np.concatenate(cols), (total, total))
    structure = SparseTriangular(Sparse(pattern), True)
    places, below = (d * n + j)[inside], (d > 0)[inside]
    first, second = number[0].ravel()[inside], number[1].ravel()[inside][below]
    at = np.empty(total, np.int64)
    at[second], at[first] = places[below] + size * complex_, places
    return _System(structure, np.concatenate(source), at, first, second, places, below)


def cases(structures: Any, draw: Any) -> Cases:
    for shape in ((3, 5), (2, 1, 3), (1, 4, 2)):
        yield CholeskyBanded(), (draw(*shape) / 4 + 3.0 * (np.arange(shape[-2]) == 0)[:, None],)
