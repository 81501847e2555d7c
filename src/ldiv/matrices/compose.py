"""Matrices made of others: Kronecker products, block matrices, Gram matrices, products of low
rank; sums and products are operators.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ldiv.core.dispatch import is_array
from ldiv.core.public import public
from ldiv.core.validate import require_flag, require_square
from ldiv.errors import got, shown
from ldiv.matrices.assumptions import triangle
from ldiv.matrices.matrix import Matrix, as_matrix, composed
from ldiv.structures import gram
from ldiv.structures.block import Block
from ldiv.structures.dense import Dense
from ldiv.structures.kronecker import Kronecker
from ldiv.structures.product import Product
from ldiv.structures.sparse import Sparse


@public
def kron(A: Any, B: Any) -> Matrix:
    """The Kronecker product of two matrices of any structure, never formed.

        A x B = [[a_11 B, a_12 B ...], [a_21 B ...] ...],    (A x B)^-1 = A^-1 x B^-1

    A (*batch, m, n), B (*batch, k, l): arrays, sparse arrays, any matrices; the result is (*batch,
    m k, n l), in the wider of their dtypes. Differentiable in both, in every mode and order.
    Cost: a product is one with A for every column of B and one with B for every column of A; a
    solve likewise, with one factorization of A and one of B. Raises ValueError for shapes,
    TypeError for mixed frameworks.
    Source: Van Loan, The ubiquitous Kronecker product, J. Comput. Appl. Math. 123 (2000).

    >>> import ldiv, numpy as np
    >>> A = ldiv.kron(np.array([[2.0, 1.0], [0.0, 1.0]]), ldiv.eye_array(2))
    >>> ldiv.solve(A, np.array([3.0, 5.0, 1.0, 1.0]))
    array([1., 2., 1., 1.])
    """
    a, b = as_matrix("A", A), as_matrix("B", B)
    return composed("kron", Kronecker((a.structure, b.structure)), a, b)


@public
def block_array(blocks: Sequence[Sequence[Any]]) -> Matrix:
    """A matrix of blocks; None is a block of zeros.

        block_array([[A, B], [C, None]]) = [[A, B], [C, 0]]

    blocks: rows of arrays, sparse arrays, any matrices; the blocks of a row have one height, those
    of a column one width. The result is in the widest of their dtypes. Differentiable in every
    block, in every mode and order; one that stands in two places, as A and A.T, receives the sum of
    both cotangents.
    Cost: a product is one with every block. Where all blocks are sparse a solve is one sparse
    factorization of the whole, where all are dense one dense; a mixture is solved by iterations.
    Raises ValueError for shapes, TypeError for mixed frameworks.

    >>> import ldiv, numpy as np
    >>> B = np.array([[1.0, 1.0]])
    >>> ldiv.solve(ldiv.block_array([[np.eye(2), B.T], [B, None]]), np.array([1.0, 3.0, 2.0]))
    array([0., 2., 1.])
    """
    whole = (
        isinstance(blocks, tuple | list)
        and len(blocks) > 0
        and all(isinstance(row, tuple | list) for row in blocks)
    )
    if not whole or any(len(row) != len(blocks[0]) or not row for row in blocks):
        raise ValueError(
            got("blocks", "rows of equally many blocks", shown(blocks), "None is a block of zeros.")
        )
    found = {
        (i, j): as_matrix(f"block {i, j}", b)
        for i, row in enumerate(blocks)
        for j, b in enumerate(row)
        if b is not None
    }
    heights, widths = (
        {at[axis]: m.structure.shape[axis] for at, m in reversed(found.items())} for axis in (0, 1)
    )
    if len(heights) < len(blocks) or len(widths) < len(blocks[0]):
        raise ValueError(
            got(
                "blocks",
                "a matrix in every row and column",
                "one of zeros only",
                "Its size is not known.",
            )
        )
    for (i, j), m in found.items():
        if m.structure.shape != (heights[i], widths[j]):
            raise ValueError(
                got(
                    f"block {i, j}",
                    f"shape {heights[i], widths[j]}",
                    str(m.structure.shape),
                    "Its row and column say so.",
                )
            )
    structure = Block(
        tuple(m.structure for m in found.values()),
        tuple(found),
        tuple(heights[i] for i in range(len(heights))),
        tuple(widths[j] for j in range(len(widths))),
    )
    return composed("block_array", structure, *found.values())


@public
def Gram(L: Any, lower: bool | None = True) -> Matrix:
    """The matrix of which L is the Cholesky factor; solving with it is two triangular solves.

        S = L L^H,    S^-1 = L^-H L^-1

    L: an array (*batch, n, n) or a sparse array whose lower (upper, if not `lower`) triangle is
    read, or any matrix as it is; lower=None takes an array as it is too, of any shape (n, k).
    Hermitian by structure. Differentiable in L in every mode and order, as such: the cotangent of a
    triangle is one. Cost: 2 substitutions for a solve and nothing to factor; where L is no
    triangle, one factorization of L. Raises SingularMatrixError for a zero on the diagonal;
    ValueError for shapes.

    >>> import ldiv, numpy as np
    >>> ldiv.solve(ldiv.Gram(np.array([[2.0, 9.0], [1.0, 1.0]])), np.array([4.0, 3.0]))
    array([0.5, 1. ])
    """
    matrix = as_matrix("L", L)
    structure = matrix.structure
    lower = None if lower is None else require_flag("lower", lower)
    if lower is not None and isinstance(structure.unview()[0], Dense | Sparse):
        require_square("L", structure.shape)
        structure = triangle(structure, lower, "own")
    return Matrix(gram.Gram((structure,)), (matrix.params,))


@public
def LowRank(U: Any, V: Any) -> Matrix:
    """A product of low rank, never formed; added to a matrix, it is an update.

        U V^H,    (A + U V^H)^-1 = A^-1 - A^-1 U (I + V^H A^-1 U)^-1 V^H A^-1

    U (*batch, m, r), V (*batch, n, r), arrays or any matrices, or vectors for rank 1.
    Differentiable in both, in every mode and order. Cost of a solve with A + LowRank(U, V): one
    factorization of A and r more solves with it, once; r more for the adjoint; each answer is
    checked against the sum, and one that cancelled is refused. A may be sparse, diagonal,
    triangular, made of such; with a dense A the sum is factored as a whole. Raises
    SingularMatrixError where A or the sum is singular; ValueError for shapes.
    Source: Hager, SIAM Review 31 (1989).

    >>> import ldiv, numpy as np
    >>> A = ldiv.eye_array(3) + ldiv.LowRank(np.ones(3), np.ones(3))
    >>> ldiv.solve(A, np.ones(3))
    array([0.25, 0.25, 0.25])
    """
    u, v = (
        as_matrix(name, x[:, None] if is_array(x) and x.ndim == 1 else x)
        for name, x in (("U", U), ("V", V))
    )
    if u.structure.shape[1] != v.structure.shape[1]:
        raise ValueError(
            got(
                "V",
                f"{u.structure.shape[1]} columns, as many as U",
                str(v.structure.shape[1]),
                "The rank is the number of columns.",
            )
        )
    return composed("LowRank", Product((u.structure, v.structure.H)), u, v)
