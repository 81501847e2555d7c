"""Matrices made of other matrices: Kronecker products, blocks, Gram matrices, low-rank products.

Sums and products of matrices are operators of `Matrix`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

from ldiv.core.arrays.typing import AnyArray
from ldiv.core.arrays.validate import require_flag, require_square
from ldiv.core.calls.public import public
from ldiv.core.frameworks.dispatch import is_array
from ldiv.errors import value_error
from ldiv.matrices.assumptions import triangle
from ldiv.matrices.entries import Format
from ldiv.matrices.grid import grid_of
from ldiv.matrices.matrix import Matrix, MatrixLike, as_matrix, composed
from ldiv.matrices.shifted import shifted
from ldiv.matrices.sparse_array import SparseArray
from ldiv.structures import gram
from ldiv.structures.block import Block
from ldiv.structures.dense import Dense
from ldiv.structures.kronecker import Kronecker
from ldiv.structures.placed import require_known_pattern
from ldiv.structures.product import Product
from ldiv.structures.sparse import Sparse


@overload
def kron(
    A: MatrixLike, B: MatrixLike, format: None = None, *, shift: AnyArray | float | None = None
) -> Matrix: ...
@overload
def kron(A: MatrixLike, B: MatrixLike, format: Format) -> SparseArray: ...
@public
def kron(
    A: MatrixLike,
    B: MatrixLike,
    format: Format | None = None,
    *,
    shift: AnyArray | float | None = None,
) -> Matrix:
    """The Kronecker product of two matrices of any structure, not formed unless a format is given.

        A x B = [[a_11 B, a_12 B ...], [a_21 B ...] ...],    (A x B)^-1 = A^-1 x B^-1

    Parameters
    ----------
    A : array (*batch, m, n), sparse array, or any other matrix
        The left factor.
    B : array (*batch, k, l), sparse array, or any other matrix
        The right factor.
    format : {"coo", "csr", "csc"}, optional
        Write the product out as a SparseArray in this format, as `C.tosparse(format)` does.
    shift : float, or array (*batch,), optional
        A real number s: the result is A x B + s I, for Hermitian A and B. A factor that is a
        Kronecker product itself stands for its factors: `kron(kron(A, B), C, shift=s)`.

    Returns
    -------
    C : Matrix (*batch, m k, n l)
        The product, in the wider of the two dtypes. With a shift it is Hermitian by structure.

    Raises
    ------
    ValueError
        For shapes, and for a shift beside a format.
    TypeError
        For mixed frameworks and complex shifts; with a format for matrices whose entries are not
        stored.
    NotSymmetricError
        From a solve or a determinant, for a shift beside factors that are not Hermitian.

    Notes
    -----
    Differentiable in A and B, in every mode and order.
    `C.tosparse()` writes the product out, nnz(A) nnz(B) numbers; `vstack`, `hstack` and `bmat`
    do so first, and an index, `C[i, j]`, where A or B is sparse; else it is one product.

    Cost: a product is one product with A for every column of B and one with B for every column of
    A; a solve likewise, with 1 factorization of A and 1 of B.

    With a shift the factors become dense arrays, of which each has its eigenvalues computed once:

        A x B + s I = (U x V) diag(l_i m_j + s) (U x V)^H

    The determinant has derivatives of first and second order, also where eigenvalues coincide: no
    difference of eigenvalues is divided by. For N = n_1 n_2 ... rows a solve takes 4 N sum n_i
    multiplications, value and gradient of the determinant about two eigendecompositions.

    References
    ----------
    Van Loan, The ubiquitous Kronecker product, J. Comput. Appl. Math. 123 (2000).

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> A = ldiv.kron(np.array([[2.0, 1.0], [0.0, 1.0]]), ldiv.eye_array(2))
    >>> ldiv.solve(A, np.array([3.0, 5.0, 1.0, 1.0]))
    array([1., 2., 1., 1.])
    >>> K = ldiv.kron(np.ones((2, 2)), np.ones((3, 3)), shift=2.0)  # eigenvalues 8, 2, 2, 2, 2, 2
    >>> bool(abs(ldiv.logdet(K) - np.log(8 * 2**5)) < 1e-12)
    True
    """
    if shift is not None and format is not None:
        advice = "Write the product out, and add s * eye_array(n)."
        raise value_error("kron", "a shift or a format", "both", advice)
    a, b = as_matrix("A", A, B, shift), as_matrix("B", B, A, shift)
    product = composed("kron", Kronecker((a.structure, b.structure)), a, b)
    if shift is not None:
        return shifted(product, shift)
    return _in_format(product, format)


@overload
def block_array(
    blocks: Sequence[Sequence[MatrixLike | None]], *, format: None = None
) -> Matrix: ...
@overload
def block_array(
    blocks: Sequence[Sequence[MatrixLike | None]], *, format: Format
) -> SparseArray: ...
@public
def block_array(
    blocks: Sequence[Sequence[MatrixLike | None]], *, format: Format | None = None
) -> Matrix:
    """A matrix of blocks; None is a block of zeros.

        block_array([[A, B], [C, None]]) = [[A, B], [C, 0]]

    Parameters
    ----------
    blocks : sequence of sequences of arrays, sparse arrays, other matrices, or None
        The rows of blocks. All blocks of a row have the same height, all blocks of a column the
        same width.
    format : {"coo", "csr", "csc"}, optional
        Write the matrix out as a SparseArray in this format, as `A.tosparse(format)` does.

    Returns
    -------
    A : Matrix
        The whole matrix, in the widest of the dtypes.

    Raises
    ------
    ValueError
        For shapes.
    TypeError
        For mixed frameworks; with a format for matrices whose entries are not stored.

    See Also
    --------
    bmat : makes one sparse array of sparse blocks.

    Notes
    -----
    Differentiable in every block, in every mode and order. A block that stands in two places, as A
    and A.T, receives the sum of both cotangents.
    Cost: a product is one product with every block. Where all blocks are dense a solve is 1 dense
    factorization of the whole matrix. Where some are sparse or diagonal it is 1 sparse one, in
    which dense blocks are full. With a block whose entries are not known it is an iteration.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> B = np.array([[1.0, 1.0]])
    >>> ldiv.solve(ldiv.block_array([[np.eye(2), B.T], [B, None]]), np.array([1.0, 3.0, 2.0]))
    array([0., 2., 1.])
    """
    grid = grid_of(blocks, as_matrix)
    found = grid.blocks.values()
    parts = tuple(m.structure for m in found)
    structure = Block(parts, tuple(grid.blocks), grid.heights, grid.widths)
    return _in_format(composed("block_array", structure, *found), format)


def _in_format(A: Matrix, format: Format | None) -> Matrix:
    """The matrix as it is, or written out in this format."""
    return A if format is None else A.tosparse(format)


@public
def Gram(L: MatrixLike, lower: bool | None = True) -> Matrix:
    """The matrix whose Cholesky factor is L; solving with it takes two triangular solves.

        S = L L^H,    S^-1 = L^-H L^-1

    Parameters
    ----------
    L : array (*batch, n, n), sparse array, or any other matrix
        The factor. Of an array or a sparse array only one triangle is read; any other matrix is
        taken as it is.
    lower : bool or None, default True
        Which triangle of L is read, the lower or the upper one. None takes an array as it is too,
        of any shape (n, k).

    Returns
    -------
    S : Matrix (*batch, n, n)
        Hermitian by structure.

    Raises
    ------
    ValueError
        For shapes.
    SingularMatrixError
        From a solve, for a zero on the diagonal of L.

    Notes
    -----
    Differentiable in L in every mode and order; the cotangent of a triangle is a triangle.
    Cost: a solve is 2 triangular solves and no factorization; where L is no triangle,
    1 factorization of L.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> ldiv.solve(ldiv.Gram(np.array([[2.0, 9.0], [1.0, 1.0]])), np.array([4.0, 3.0]))
    array([0.5, 1. ])
    """
    matrix = as_matrix("L", L)
    structure = matrix.structure
    lower = None if lower is None else require_flag("lower", lower)
    if lower is not None:
        require_known_pattern("L", structure, "With lower=None all of it is taken. ")
    if lower is not None and isinstance(structure.unview()[0], Dense | Sparse):
        require_square("L", structure.shape)
        structure = triangle(structure, lower, "own")
    return Matrix(gram.Gram((structure,)), (matrix.params,))


@public
def LowRank(U: MatrixLike, V: MatrixLike) -> Matrix:
    """A matrix of low rank, never formed; added to another matrix, it is a low-rank update.

        U V^H,    (A + U V^H)^-1 = A^-1 - A^-1 U (I + V^H A^-1 U)^-1 V^H A^-1

    Parameters
    ----------
    U : array (*batch, m, r), or any matrix, or a vector (m,) for rank 1
        The left factor.
    V : array (*batch, n, r), or any matrix, or a vector (n,) for rank 1
        The right factor.

    Returns
    -------
    C : Matrix (*batch, m, n)
        The product U V^H.

    Raises
    ------
    ValueError
        For shapes.
    SingularMatrixError
        From a solve, where A or the sum is singular.

    Notes
    -----
    Differentiable in U and V, in every mode and order.
    A may be sparse, diagonal, triangular, or made of such matrices; with a dense A, and with a rank
    of n and more, the sum is factored as a whole.
    Cost of a solve with A + LowRank(U, V): 1 factorization of A and r more solves with it, once;
    3 r more for the derivative, whose digits do not depend on how close A is to singular.
    Each solution is checked against the sum, and one that has suffered cancellation is refused.

    References
    ----------
    Hager, Updating the inverse of a matrix, SIAM Review 31 (1989).

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> A = ldiv.eye_array(3) + ldiv.LowRank(np.ones(3), np.ones(3))
    >>> ldiv.solve(A, np.ones(3))
    array([0.25, 0.25, 0.25])
    """
    u, v = as_matrix("U", _as_column(U)), as_matrix("V", _as_column(V))
    if u.structure.shape[1] != v.structure.shape[1]:
        what = f"{u.structure.shape[1]} columns, as many as U"
        raise value_error("V", what, v.structure.shape[1], "The rank is the number of columns.")
    return composed("LowRank", Product((u.structure, v.structure.H)), u, v)


def _as_column(x: Any) -> Any:
    """A vector as a matrix of one column; anything else as it is."""
    return x[:, None] if is_array(x) and x.ndim == 1 else x
