"""The cosine-sine decomposition under SciPy's name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg

from ldiv.core.arrays.shapes import numpy_dtype
from ldiv.core.arrays.typing import AnyArray
from ldiv.core.arrays.validate import common_precision, require_flag, require_int
from ldiv.core.calls.public import public
from ldiv.core.frameworks.dispatch import namespace
from ldiv.core.rules.rule import bind
from ldiv.errors import value_error
from ldiv.linalg.arguments.dense_arguments import require_matrix_array, require_square_array
from ldiv.rules.on_host_only import OnHostOnly

BLOCKS = "Pass the whole matrix, with p and q the sizes of its first block; or its four blocks."


@public
def cossin(
    X: AnyArray | tuple[AnyArray, AnyArray, AnyArray, AnyArray],
    p: int | None = None,
    q: int | None = None,
    separate: bool = False,
    swap_sign: bool = False,
    compute_u: bool = True,
    compute_vh: bool = True,
) -> tuple[Any, ...]:
    """Compute the cosine-sine decomposition of a unitary matrix.

        X = U CS V^H,    U = [[U1, 0], [0, U2]],    CS of cos(theta) and sin(theta)

    Parameters
    ----------
    X : array (m, m), or its four blocks
        A unitary matrix.
    p, q : int, optional
        The size of its first block; where X are blocks it is theirs.
    separate : bool, default False
        Return (U1, U2), theta, (V1^H, V2^H).
    swap_sign : bool, default False
        Minus signs above the diagonal.
    compute_u, compute_vh : bool, default True
        With False, U or V^H is left out: None.

    Returns
    -------
    U, CS, Vh : array (m, m), or what `separate` says

    Raises
    ------
    NotDifferentiableError
        In the derivative: `svd` of the blocks has one.
    ValueError, TypeError
        For shapes, NaN and infinity, and dtypes.

    Notes
    -----
    Not differentiable as a whole: cos(theta) are the singular values of the first block, of which
    `svd` has derivatives. LAPACK works on the host. Cost: some 20 m^3 operations.

    References
    ----------
    Sutton, Numer. Algorithms 50 (2009).

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> U, CS, Vh = ldiv.cossin(np.array([[0.6, -0.8], [0.8, 0.6]]), 1, 1)
    >>> CS
    array([[ 0.6, -0.8],
           [ 0.8,  0.6]])
    """
    x, p, q = _whole(X, p, q)
    n, m, dtype = x.shape[-1], min(p, q, x.shape[-1] - p, x.shape[-1] - q), numpy_dtype(x)
    separate_blocks = require_flag("separate", separate)
    f = _CosSin(p, q, separate_blocks, require_flag("swap_sign", swap_sign))
    sizes = (p, n - p, None, q, n - q) if separate_blocks else (n, n, n)
    specs = tuple(
        ((m,), np.finfo(dtype).dtype) if size is None else ((size, size), dtype) for size in sizes
    )
    why = "cos(theta) are the singular values of the first block: ldiv.svd of it has one."
    found = bind(OnHostOnly(f, specs, ("X",), why), x)
    with_u, with_vh = require_flag("compute_u", compute_u), require_flag("compute_vh", compute_vh)
    u, cs, vh = (found[:2], found[2], found[3:]) if separate_blocks else found
    return u if with_u else None, cs, vh if with_vh else None


def _whole(X: Any, p: Any, q: Any) -> tuple[Any, int, int]:
    """The matrix, and the size of its first block."""
    if not isinstance(X, tuple | list):
        x = require_square_array("X", X)
        if x.ndim != 2:
            raise value_error("X", "one matrix", tuple(x.shape), "One by one.")
        most = x.shape[-1] - 1
        if p is None or q is None:
            raise value_error("p and q", "both", "None", BLOCKS)
        return x, require_int("p", p, 1, most), require_int("q", q, 1, most)
    if len(X) != 4 or p is not None or q is not None:
        raise value_error("X", "four blocks, without p and q", len(X), BLOCKS)
    blocks: Any = [require_matrix_array("X", x, *X) for x in X]
    a, b, c, d = common_precision(*blocks)
    fits = a.shape[0] == b.shape[0] and c.shape[0] == d.shape[0]
    fits = fits and a.shape[1] == c.shape[1] and b.shape[1] == d.shape[1]
    if not fits or any(x.ndim != 2 for x in blocks):
        raise value_error("X", "blocks that fit", [tuple(x.shape) for x in blocks], BLOCKS)
    xp: Any = namespace(a)
    x = xp.concat([xp.concat([a, b], axis=1), xp.concat([c, d], axis=1)], axis=0)
    return require_square_array("X", x), a.shape[0], a.shape[1]


@dataclass(frozen=True)
class _CosSin:
    """SciPy's `cossin`, with its results in one tuple."""

    p: int
    q: int
    separate: bool
    swap_sign: bool

    def __call__(self, x: Any) -> tuple[Any, ...]:
        u, cs, vh = scipy.linalg.cossin(
            x, self.p, self.q, separate=self.separate, swap_sign=self.swap_sign
        )
        return (*u, cs, *vh) if self.separate else (u, cs, vh)
