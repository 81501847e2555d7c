"""A sparse matrix as a module of PyTorch: what is learned, saved and moved is its values."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import torch

from ldiv.core.arrays.validate import require_flag
from ldiv.core.frameworks.pattern import Pattern
from ldiv.errors import expected_got
from ldiv.linalg.systems.solve import solve
from ldiv.matrices.construct import asarray
from ldiv.matrices.sparse_array import SparseArray
from ldiv.structures.sparse import Sparse


class SparseMatrix(torch.nn.Module):
    """A sparse matrix whose values are a Parameter and whose pattern are buffers.

        layer(x) = A x;    layer.solve(b) = A^-1 b

    Parameters
    ----------
    A : SparseArray, or a sparse matrix of SciPy or PyTorch
        The matrix; its values are copied.
    trainable : bool, default True
        With False the values are a buffer, which no optimizer sees.

    Attributes
    ----------
    values : Parameter or tensor (*batch, nnz)
        The values, in the order of the entries.
    row, col, size : tensors of integers
        The entries' places, and the shape.
    matrix : SparseArray
        The matrix with the present values.

    Raises
    ------
    TypeError
        For what is no sparse matrix.
    RuntimeError
        From load_state_dict, for a matrix of another shape or number of entries, or places outside.

    Notes
    -----
    `state_dict`, `to`, `deepcopy` and DistributedDataParallel are those of every module: `to(dtype)`
    changes the values alone. Differentiable in the values and in x and b, in every mode and order.
    Cost: that of a product, and of `ldiv.solve`, which factors once for equal values.

    Examples
    --------
    >>> import ldiv, scipy.sparse as sp, torch
    >>> layer = ldiv.nn.SparseMatrix(sp.csr_array([[2.0, 0.0], [1.0, 4.0]]))
    >>> layer
    SparseMatrix(shape=(2, 2), nnz=3, trainable=True)
    >>> layer.solve(torch.tensor([2.0, 5.0])).sum().backward()
    >>> layer.values.grad
    tensor([-0.3750, -0.2500, -0.2500], dtype=torch.float64)
    """

    values: torch.Tensor
    row: torch.Tensor
    col: torch.Tensor
    size: torch.Tensor

    def __init__(self, A: Any, trainable: bool = True) -> None:
        super().__init__()
        A = asarray(A)
        values = torch.as_tensor(A.data).detach().clone()
        if require_flag("trainable", trainable):
            self.values = torch.nn.Parameter(values)
        else:
            self.register_buffer("values", values)
        for name, numbers in (("row", A.row), ("col", A.col), ("size", A.shape[-2:])):
            at = torch.tensor(np.asarray(numbers, np.int64), device=values.device)
            self.register_buffer(name, at)
        self._made: tuple[Any, Any, Sparse] | None = None  # of these tensors, at these versions

    @property
    def matrix(self) -> SparseArray:
        """The matrix with the present values."""
        return SparseArray(self._structure(), self.values)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """A x, for a vector or a block of columns."""
        product: torch.Tensor = self.matrix @ x
        return product

    def solve(self, b: torch.Tensor, **options: Any) -> torch.Tensor:
        """A^-1 b, with the options of `ldiv.solve`."""
        return solve(self.matrix, b, **options)

    def extra_repr(self) -> str:
        is_trainable = isinstance(self.values, torch.nn.Parameter)
        return f"shape={tuple(self.size.tolist())}, nnz={len(self.row)}, trainable={is_trainable}"

    def _structure(self) -> Sparse:
        """The structure of the buffers, made once for as long as nobody writes to them."""
        parts = (self.row, self.col, self.size)
        # nobody counts the writes to tensors that were made in inference mode
        written = None if any(x.is_inference() for x in parts) else [x._version for x in parts]
        if self._made is not None and written is not None:
            of, then, structure = self._made
            if then == written and all(map(operator.is_, of, parts)):
                return structure
        row, col, size = (x.cpu().numpy() for x in parts)
        structure = Sparse(Pattern(row, col, (int(size[0]), int(size[1]))))
        self._made = parts, written, structure
        return structure

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_made": None}

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, metadata: Any, strict: Any, *messages: Any
    ) -> None:
        """Load as every module does; the state must be a matrix of this shape."""
        errors = messages[-1]
        own = tuple(self.size.tolist())
        row, col, size = (state_dict.get(prefix + name) for name in ("row", "col", "size"))
        if size is not None and tuple(size.tolist()) != own:
            came = str(tuple(size.tolist()))
            errors.append(expected_got(f"{prefix}size", str(own), came, "It is another matrix."))
            return
        for name, at, n in (("row", row, own[0]), ("col", col, own[1])):
            if at is not None and at.numel() and not 0 <= int(at.min()) <= int(at.max()) < n:
                came = f"{int(at.min())} to {int(at.max())}"
                errors.append(
                    expected_got(prefix + name, f"places from 0 to {n - 1}", came, "Save it anew.")
                )
                return
        super()._load_from_state_dict(state_dict, prefix, metadata, strict, *messages)
