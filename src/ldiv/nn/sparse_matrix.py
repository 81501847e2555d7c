"""A sparse matrix as a module of PyTorch: what is learned, saved and moved is its values."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import torch

from ldiv.core.arrays.validate import require_flag
from ldiv.core.frameworks.pattern import Pattern
from ldiv.errors import expected_got, value_error
from ldiv.linalg.systems.solve import solve
from ldiv.matrices.construct import asarray
from ldiv.matrices.entries import coordinates
from ldiv.matrices.sparse_array import SparseArray
from ldiv.structures.sparse import Sparse

PATTERN = ("row", "col", "size")  # the buffers of the pattern


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
    changes the values alone. `torch.export` with strict=False takes the pattern as a constant.
    Differentiable in the values and in x and b, in every mode and order.
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
        values = torch.as_tensor(A.values).detach().clone()
        if require_flag("trainable", trainable):
            self.values = torch.nn.Parameter(values)
        else:
            self.register_buffer("values", values)
        numbers = [np.asarray(x, np.int64) for x in (A.row, A.col, A.shape[-2:])]
        for name, at in zip(PATTERN, numbers, strict=True):
            self.register_buffer(name, torch.tensor(at, device=values.device))
        self._made: tuple[Any, Any, Sparse] | None = None  # of these tensors, at these versions
        self._remember(*numbers)

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
        if torch.compiler.is_exporting():
            return self._known_structure()
        parts = (self.row, self.col, self.size)
        if self._made is not None:
            of, then, structure = self._made
            if then is not None and then == _writes(parts) and all(map(operator.is_, of, parts)):
                return structure
        return self._remember(*(x.cpu().numpy() for x in parts))

    def _remember(self, row: Any, col: Any, size: Any) -> Sparse:
        """The structure of these numbers, which the buffers have now."""
        parts = (self.row, self.col, self.size)
        _, rows, cols, shape, _ = coordinates("", self.values, (row, col), size.tolist())
        structure = Sparse(Pattern(rows, cols, shape))
        self._made = parts, _writes(parts), structure
        return structure

    def _known_structure(self) -> Sparse:
        """The structure made last, for torch.export, where the buffers have no numbers."""
        if torch.compiler.is_dynamo_compiling():
            came, advice = "strict=True", "A matrix cannot be made there."
            raise value_error("torch.export", "strict=False", came, advice)
        if self._made is not None:
            of, then, structure = self._made
            if then is not None and then == _writes(of):
                return structure
        came, advice = "buffers that were written to", "Read module.matrix once before the export."
        raise RuntimeError(expected_got("SparseMatrix", "a known pattern", came, advice))

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute; the structure is not that of a new buffer."""
        if name in PATTERN:
            self._made = None
        super().__setattr__(name, value)

    def _apply(self, *args: Any, **kwargs: Any) -> Any:
        """Apply a function to the buffers, as `to` and `to_empty` do."""
        before = self.row, self.col, self.size
        untyped: Any = super()
        untyped._apply(*args, **kwargs)
        if not all(map(operator.is_, before, (self.row, self.col, self.size))):
            self._made = None
        return self

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_made": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        untyped: Any = super()
        untyped.__setstate__(state)
        if not self.row.is_meta:
            self._structure()

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, metadata: Any, strict: Any, *messages: Any
    ) -> None:
        """Load as every module does; the state must be a matrix of this shape."""
        errors = messages[-1]
        own = tuple(self.size.tolist())
        row, col, size = (state_dict.get(prefix + name) for name in PATTERN)
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
        if row is not None and col is not None and not (errors or self.row.is_meta):
            self._structure()


def _writes(parts: tuple[torch.Tensor, ...]) -> list[int] | None:
    """The number of writes to each tensor; None in inference mode, where nobody counts."""
    return None if any(x.is_inference() for x in parts) else [x._version for x in parts]
