"""The entries of A^-1 in the places of L, A = L L^T, and their tangent, in compiled code.

With Y = L21 L11^-1 and D = L11 L11^T, from the last supernode to the first:

    Z21 = -Z22 Y,   Z11 = D^-1 - Y^T Z21

Along a symmetric E, first from the first supernode to the last (dF is what E and the descendants
add up to), then as above by the product rule:

    dF22 -= X Y^T + Y X^T,  X = dF21 - Y dD / 2;      dY = (dF21 - Y dD) D^-1
    dZ21 = -dZ22 Y - Z22 dY,   dZ11 = -D^-1 dD D^-1 - dY^T Z21 - Y^T dZ21

Z22 is in the panels of the ancestors. dZ = -A^-1 E A^-1 in these places: the map is self-adjoint.
Reference: Takahashi, Fagan, Chin (1973); Lin et al., ACM Trans. Math. Softw. 37 (2011).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ldiv.engines.selected import blas
from ldiv.engines.selected.cholesky import ascend
from ldiv.engines.selected.compiled import jit

Array = np.ndarray[Any, np.dtype[Any]]

ONE, MINUS, ZERO, MINUS_HALF = range(4)  # of blas.REALS


@jit
def below(panels: Array, a: int, c: int, r: int, into: Array) -> None:
    """The rows below the diagonal block of a panel, without gaps."""
    for j in range(c):
        for i in range(r):
            into[j * r + i] = panels[a + j * (c + r) + c + i]


@jit
def inverse(
    tree: tuple[Array, ...], l: Array, z: Array, block: Array, y: Array, index: Array, w: Any
) -> None:
    """Z in the places of L, the lower triangle of each diagonal block."""
    starts, row_starts, panel_starts, above, _ = tree
    for s in range(len(above) - 1, -1, -1):
        c, r, a = starts[s + 1] - starts[s], row_starts[s + 1] - row_starts[s], panel_starts[s]
        m = c + r
        for j in range(c):
            for i in range(j, c):
                z[a + j * m + i] = l[a + j * m + i]
        blas.potri(w, c, blas.at(z, a), m)
        if r == 0:
            continue
        below(l, a, c, r, y)
        blas.right_solve(w, r, c, blas.at(l, a), m, blas.at(y, 0), r, False)
        ascend(tree, s, z, block, index, False)
        z21 = blas.at(z, a + c)
        blas.symmetric_times(w, r, c, blas.at(block, 0), blas.at(y, 0), r, ZERO, z21, m)
        blas.transposed_times(w, c, r, blas.at(y, 0), z21, m, blas.at(z, a), m)


@jit
def tangent(
    tree: tuple[Array, ...],
    l: Array,
    z: Array,
    dz: Array,
    blocks: Array,
    sides: Array,
    squares: Array,
    index: Array,
    w: Any,
) -> None:
    """dZ in place of E, in the places of L.

    Scratch: `blocks` (2, .) for two r x r blocks, `sides` (2, .) for Y and dY, `squares` (3, .) for
    three c x c ones.
    """
    starts, row_starts, panel_starts, above, _ = tree
    block, dblock, y, x = blocks[0], blocks[1], sides[0], sides[1]
    d, dd, product = squares[0], squares[1], squares[2]
    for s in range(len(above)):
        c, r, a = starts[s + 1] - starts[s], row_starts[s + 1] - row_starts[s], panel_starts[s]
        if r == 0:
            continue
        m = c + r
        below(l, a, c, r, y)
        below(dz, a, c, r, x)
        y_, x_ = blas.at(y, 0), blas.at(x, 0)
        blas.right_solve(w, r, c, blas.at(l, a), m, y_, r, False)
        blas.times_symmetric(w, r, c, MINUS_HALF, blas.at(dz, a), m, y_, ONE, x_)
        blas.mixed_square(w, r, c, x_, r, y_, r, blas.at(block, 0))
        ascend(tree, s, dz, block, index, True)
    for s in range(len(above) - 1, -1, -1):
        c, r, a = starts[s + 1] - starts[s], row_starts[s + 1] - row_starts[s], panel_starts[s]
        m = c + r
        for j in range(c):
            for i in range(j, c):
                d[j * c + i] = l[a + j * m + i]
                dd[j * c + i] = dd[i * c + j] = dz[a + j * m + i]
        d_, dd_, product_, dz_ = blas.at(d, 0), blas.at(dd, 0), blas.at(product, 0), blas.at(dz, a)
        blas.potri(w, c, d_, c)
        y_, x_, dz21 = blas.at(y, 0), blas.at(x, 0), blas.at(dz, a + c)
        if r > 0:
            below(l, a, c, r, y)
            below(dz, a, c, r, x)
            blas.right_solve(w, r, c, blas.at(l, a), m, y_, r, False)
            blas.times_symmetric(w, r, c, MINUS, dd_, c, y_, ONE, x_)
            blas.right_solve(w, r, c, blas.at(l, a), m, x_, r, True)
            blas.right_solve(w, r, c, blas.at(l, a), m, x_, r, False)
        blas.times_symmetric(w, c, c, ONE, d_, c, dd_, ZERO, product_)
        blas.symmetric_times(w, c, c, d_, product_, c, ZERO, dz_, m)
        if r == 0:
            continue
        ascend(tree, s, z, block, index, False)
        ascend(tree, s, dz, dblock, index, False)
        blas.symmetric_times(w, r, c, blas.at(dblock, 0), y_, r, ZERO, dz21, m)
        blas.symmetric_times(w, r, c, blas.at(block, 0), x_, r, ONE, dz21, m)
        blas.transposed_times(w, c, r, x_, blas.at(z, a + c), m, dz_, m)
        blas.transposed_times(w, c, r, y_, dz21, m, dz_, m)
