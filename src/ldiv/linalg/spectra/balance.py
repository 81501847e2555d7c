"""Similarity to a matrix whose rows and columns are of one size, under SciPy's name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg

from ldiv.core.arrays.shapes import alike, numpy_dtype, real, transpose
from ldiv.core.arrays.typing import ArrayT
from ldiv.core.arrays.validate import require_flag
from ldiv.core.calls.public import public
from ldiv.core.frameworks.dispatch import constant, namespace
from ldiv.core.rules.rule import bind
from ldiv.linalg.arguments.dense_arguments import require_square_array
from ldiv.rules.lu import rows
from ldiv.rules.on_host_only import OnHostOnly


@public
def matrix_balance(
    A: ArrayT,
    permute: bool = True,
    scale: bool = True,
    separate: bool = False,
    overwrite_a: bool = False,
) -> tuple[Any, ...]:
    """Balance a matrix by a similarity, a permutation and powers of two, differentiably.

        B = T^-1 A T,    T[perm[j], j] = scale[j]

    Parameters
    ----------
    A : array (*batch, n, n)
        A.
    permute, scale : bool, default True
        Permute towards a triangle; scale rows and columns to one size.
    separate : bool, default False
        Return scale and perm instead of T.
    overwrite_a : bool
        Accepted, as SciPy has it.

    Returns
    -------
    B : array (*batch, n, n)
    T : array (*batch, n, n), or a pair of arrays (*batch, n), scale and perm

    Raises
    ------
    ValueError, TypeError
        As in `eig`.

    Notes
    -----
    Differentiable in every mode and order: T is constant near A, but where it jumps.
    LAPACK finds T on the host. Cost: some passes over the numbers.

    References
    ----------
    Parlett and Reinsch (1969); James, Langou and Lowery (2014).

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> B, T = ldiv.matrix_balance(np.array([[1.0, 4096.0], [1 / 1024, 1.0]]))
    >>> B
    array([[1., 2.],
           [2., 1.]])
    """
    a: Any = require_square_array("A", A)
    n, xp = a.shape[-1], namespace(a)
    flags = require_flag("permute", permute), require_flag("scale", scale)
    specs = (((n,), np.finfo(numpy_dtype(a)).dtype), ((n,), np.dtype(np.int64)))
    rule = OnHostOnly(_Balance(*flags), specs, ("A",), "T is constant.")
    sizes, perm = bind(rule, constant(a))
    B = transpose(rows(transpose(rows(a, perm)), perm)) * (
        sizes[..., None, :] / sizes[..., :, None]
    )
    if require_flag("separate", separate):
        return B, (sizes, perm)
    T = sizes[..., :, None] * xp.eye(n, **alike(real(a)))
    return B, rows(T, xp.argsort(perm, axis=-1))


@dataclass(frozen=True)
class _Balance:
    """LAPACK's scale and perm."""

    permute: bool
    scale: bool

    def __call__(self, a: Any) -> tuple[Any, Any]:
        _, found = scipy.linalg.matrix_balance(a, self.permute, self.scale, separate=True)
        scale, perm = found
        return scale, perm
