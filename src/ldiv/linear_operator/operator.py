"""K = S(p): the interface of linear_operator, implemented by ldiv.

K X,  diag K,  K^-1 B,  tr(R^T K^-1 R),  log det K,  K + D,  c K,  K[rows, columns]
"""

from __future__ import annotations

from typing import Any

import torch
from linear_operator.operators import ConstantMulLinearOperator, DiagLinearOperator, LinearOperator

from ldiv.core.arrays.shapes import common_batch, is_complex, spread
from ldiv.core.arrays.typing import to_caller
from ldiv.core.frameworks.dispatch import is_array, traced
from ldiv.core.frameworks.trees import leaves, rebuild
from ldiv.core.rules.structure import Structure
from ldiv.errors import EngineError, shown, type_error
from ldiv.linalg.inverses.determinants import logdet as log_determinant
from ldiv.linalg.inverses.inverse_forms import quad_form
from ldiv.linalg.systems.factorization import Factorized
from ldiv.linalg.systems.factorized import factorized
from ldiv.linalg.systems.solve import solve
from ldiv.matrices.construct import asarray
from ldiv.matrices.diagonals import diags_array
from ldiv.matrices.matrix import Matrix
from ldiv.matrices.sparse_array import SparseArray
from ldiv.structures.dense import Dense
from ldiv.structures.diagonal import Diagonal
from ldiv.structures.sparse import Sparse

WHOLE = slice(None)


class MatrixLinearOperator(LinearOperator):  # type: ignore[misc]
    """A matrix of ldiv as an operator of linear_operator, for GPyTorch too.

        K X,    K^-1 B,    tr(R^T K^-1 R),    log det K

    Parameters
    ----------
    A : SparseArray, or any other Matrix of real PyTorch tensors
        The matrix, rectangular where nothing is solved; or the tensors of its parameters, one
        after the other, with its structure.
    structure : ldiv.structures.Structure, optional
        Where the parameters are given.
    assume_a : str, default "pos"
        As in `ldiv.solve`: what `solve`, `inv_quad` and `logdet` assume.
    method : str, default "auto"
        As in `ldiv.solve`.

    Raises
    ------
    TypeError
        For what is no Matrix of real PyTorch tensors.
    NotPositiveDefiniteError, NotSymmetricError, SingularMatrixError
        From `solve`, `inv_quad_logdet` and what is made of these. No jitter is added: that is
        `K.add_jitter()`.

    Notes
    -----
    Sums with diagonal operators (the noise of a likelihood), multiples, transposes and, for sparse
    arrays, rows and columns are operators of this kind again, so that sparse stays sparse. What is
    not defined here is that of linear_operator, by products.
    Differentiable in the parameters and the right-hand sides in every mode and order.
    Cost: 1 factorization for all solves and quadratic forms of one operator; for a sparse one 1 more
    with its determinant, which serves the gradient. The package linear_operator itself factors a
    dense matrix of up to 800 rows, and iterates beyond.

    Examples
    --------
    >>> import ldiv.linear_operator, torch
    >>> values = torch.tensor([4.0, 4.0, 1.0, 1.0], dtype=torch.float64, requires_grad=True)
    >>> A = ldiv.coo_array((values, ([0, 1, 0, 1], [0, 1, 1, 0])), shape=(2, 2))
    >>> K = ldiv.linear_operator.MatrixLinearOperator(A)
    >>> y = torch.tensor([1.0, 2.0], dtype=torch.float64)
    >>> quadratic, logdet = K.inv_quad_logdet(y[:, None], logdet=True)
    >>> (quadratic + logdet).backward()
    >>> print(f"{quadratic.item():.4f} {logdet.item():.4f}", values.grad)
    1.0667 2.7081 tensor([ 0.2489,  0.0489, -0.1289, -0.1289], dtype=torch.float64)
    """

    def __init__(
        self,
        *params: Any,
        structure: Structure | None = None,
        assume_a: Any = "pos",
        method: str = "auto",
    ) -> None:
        if structure is None:
            if len(params) == 1 and hasattr(params[0], "tocsc"):
                params = (asarray(params[0]),)
            if len(params) != 1 or not isinstance(params[0], Matrix):
                raise type_error(
                    "MatrixLinearOperator",
                    "a Matrix of ldiv",
                    shown(params[0]) if params else "nothing",
                    "Of a dense tensor it is linear_operator.to_linear_operator.",
                )
            A = params[0]
            if isinstance(A.structure, Diagonal):  # sparse with noise, too
                A = diags_array(A.params)
            structure, params = A.structure, tuple(leaves(A.params))
        for p in params:
            if not torch.is_tensor(p) or is_complex(p):
                raise type_error(
                    "MatrixLinearOperator",
                    "real tensors of PyTorch",
                    f"values of {type(p).__name__}, {getattr(p, 'dtype', '')}",
                    "Make the matrix of real tensors.",
                )
        super().__init__(*params, structure=structure, assume_a=assume_a, method=method)
        p = rebuild(structure.core, list(params))
        sparse = isinstance(structure.unview()[0], Sparse)
        self.matrix = SparseArray(structure, p) if sparse else Matrix(structure, p)
        self._options = {"assume_a": assume_a, "method": method}
        self._cached_factor: tuple[tuple[int, ...], Factorized | None] | None = None

    def _like(self, matrix: Matrix) -> MatrixLinearOperator:
        return MatrixLinearOperator(matrix, **self._options)

    # -- what every operator has -------------------------------------------------------------------

    def _size(self) -> torch.Size:
        return torch.Size(self.matrix.shape)

    def _transpose_nonbatch(self) -> MatrixLinearOperator:
        return self._like(self.matrix.T)

    def _matmul(self, rhs: torch.Tensor) -> torch.Tensor:
        return self.matrix @ rhs

    def matmul(self, other: Any) -> Any:
        """K X, differentiable by ldiv."""
        return self._matmul(other) if torch.is_tensor(other) else super().matmul(other)

    def to_dense(self) -> torch.Tensor:
        """The dense tensor."""
        return to_caller(self.matrix.structure.todense(self.matrix.params))

    def _diagonal(self) -> torch.Tensor:
        if isinstance(self.matrix, SparseArray):
            return self.matrix.diagonal()
        if isinstance(self.matrix.structure, Dense):
            return torch.diagonal(self.to_dense(), dim1=-2, dim2=-1)
        return super()._diagonal()

    # -- solves and determinants, of a factor that is held ------------------------------------------------

    def _update_factor(self) -> None:
        """Keep the factor of the values as they are now, which every function below finds."""
        params = leaves(self.matrix.params)
        if any(traced(p) or p.is_inference() for p in params):
            return
        now = tuple(p._version for p in params)
        if self._cached_factor is None or self._cached_factor[0] != now:
            plain = rebuild(self.matrix.structure.core, [p.detach() for p in params])
            try:
                held = factorized(Matrix(self.matrix.structure, plain), **self._options)
            except EngineError:  # it has to be solved by an iteration
                held = None
            self._cached_factor = now, held

    def solve(
        self, right_tensor: torch.Tensor, left_tensor: torch.Tensor | None = None
    ) -> torch.Tensor:
        """K^-1 B, or L K^-1 B."""
        self._update_factor()
        x = solve(self.matrix, right_tensor, **self._options)
        return x if left_tensor is None else left_tensor @ x

    def _solve(
        self, rhs: torch.Tensor, preconditioner: Any = None, num_tridiag: int | None = 0
    ) -> Any:
        return super()._solve(rhs, preconditioner, num_tridiag) if num_tridiag else self.solve(rhs)

    def inv_quad(self, inv_quad_rhs: torch.Tensor, reduce_inv_quad: bool = True) -> torch.Tensor:
        """tr(R^T K^-1 R), or the form of each column."""
        self._update_factor()
        forms = quad_form(self.matrix, inv_quad_rhs, **self._options)
        return forms.sum(-1) if reduce_inv_quad and inv_quad_rhs.ndim > 1 else forms

    def inv_quad_logdet(
        self,
        inv_quad_rhs: torch.Tensor | None = None,
        logdet: bool | None = False,
        reduce_inv_quad: bool | None = True,
    ) -> tuple[torch.Tensor | None, torch.Tensor | None]:
        """(tr(R^T K^-1 R), log det K), each where it is asked for."""
        quadratic = (
            None if inv_quad_rhs is None else self.inv_quad(inv_quad_rhs, bool(reduce_inv_quad))
        )
        if not logdet:
            return quadratic, None
        if not isinstance(self.matrix, SparseArray):  # whose determinant comes with its gradient
            self._update_factor()
        return quadratic, log_determinant(self.matrix, **self._options).to(self.dtype)

    # -- sums, multiples, parts --------------------------------------------------------------------

    def add_diagonal(self, diag: torch.Tensor) -> MatrixLinearOperator:
        """K + D, of the structure of K; a diagonal (*batch, n), or a number as (*batch, 1) or ()."""
        n = self.matrix.structure.shape[-1]
        diag = diag[..., None] if diag.ndim == 0 else diag
        added: Matrix = (
            diags_array(diag, shape=(n, n))
            if isinstance(self.matrix, SparseArray)
            else Matrix(Diagonal(n), diag.expand(*diag.shape[:-1], n))
        )
        return self._like(self.matrix + added)

    def __add__(self, other: Any) -> Any:
        if isinstance(other, DiagLinearOperator):
            return self.add_diagonal(other._diag if other._diag.shape[-1:] else other._diagonal())
        if isinstance(other, MatrixLinearOperator):
            return self._like(self.matrix + other.matrix)
        return super().__add__(other)

    def _mul_constant(self, other: Any) -> Any:
        if is_array(other) and other.ndim:  # a number for each member of a batch
            return ConstantMulLinearOperator(self, other)
        return self._like(self.matrix * other)

    def _getitem(self, row_index: Any, col_index: Any, *batch_indices: Any) -> Any:
        whole = all(isinstance(i, slice) and i == WHOLE for i in batch_indices)
        lines = all(isinstance(i, slice) or i.ndim == 1 for i in (row_index, col_index))
        if not isinstance(self.matrix, SparseArray) or not whole or not lines:
            return super()._getitem(row_index, col_index, *batch_indices)
        return self._like(self.matrix[_plain(row_index)][:, _plain(col_index)])

    def _get_indices(self, row_index: Any, col_index: Any, *batch_indices: Any) -> torch.Tensor:
        if not isinstance(self.matrix, SparseArray) or batch_indices or row_index.ndim != 1:
            return super()._get_indices(row_index, col_index, *batch_indices)
        return self.matrix[_plain(row_index), _plain(col_index)]

    # -- batches -----------------------------------------------------------------------------------

    def _batched(self, change: Any) -> MatrixLinearOperator:
        """The operator with changed batch axes, which come first in all parameters."""
        cores, flat = leaves(self.matrix.structure.core), leaves(self.matrix.params)
        batch = common_batch(self.matrix.structure.core, self.matrix.params)
        wide = [spread(p, batch, core) for p, core in zip(flat, cores, strict=True)]
        changed = [change(p, core) for p, core in zip(wide, cores, strict=True)]
        return self._like(
            Matrix(self.matrix.structure, rebuild(self.matrix.structure.core, changed))
        )

    def _permute_batch(self, *dims: int) -> MatrixLinearOperator:
        return self._batched(lambda p, core: p.permute(*dims, *range(len(dims), len(dims) + core)))

    def _unsqueeze_batch(self, dim: int) -> MatrixLinearOperator:
        return self._batched(lambda p, core: p.unsqueeze(dim))

    def _expand_batch(self, batch_shape: Any) -> MatrixLinearOperator:
        return self._batched(lambda p, core: p.expand(*batch_shape, *p.shape[p.ndim - core :]))


def _plain(index: Any) -> Any:
    """An index with slices unchanged and tensors of indices on the host."""
    return index if isinstance(index, slice) else index.cpu().numpy()
