"""x -> S x of a sparse matrix on CUDA, which is put into compressed rows once: one kernel a product,
where gathering and adding by entries takes several.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import torch

from ldiv.core.arrays.shapes import fold, unfold
from ldiv.core.frameworks.pattern import Pattern
from ldiv.frontends.torch import private
from ldiv.frontends.torch.array_namespace import kept_there
from ldiv.frontends.torch.recorders import traced

ON = {"cuda"}
DTYPES = {torch.float32, torch.float64, torch.complex64, torch.complex128}


def compressed_rows(
    columns: Pattern, values: torch.Tensor
) -> Callable[[torch.Tensor], torch.Tensor] | None:
    """`columns`: the pattern of S^T, whose compressed columns are the rows of S; `values` (nnz,) of
    its entries. None where PyTorch has no such product.
    """
    if values.device.type not in ON or values.dtype not in DTYPES or values.ndim != 1:
        return None
    if private.is_wrapped(values) or traced(values):
        return None
    rows, cols, slot = kept_there(columns, "rows", _compressed, values.device)
    if not columns.are_slots:
        values = values.new_zeros(columns.slots).index_add_(0, slot, values)
    _once_warned()
    shape = columns.shape[::-1]
    known: dict[torch.dtype, Any] = {}

    def product(x: torch.Tensor) -> torch.Tensor:
        dtype = torch.promote_types(values.dtype, x.dtype)
        if dtype not in known:
            known[dtype] = torch.sparse_csr_tensor(
                rows, cols, values.to(dtype), shape, check_invariants=False
            )
        found: torch.Tensor = unfold(known[dtype] @ fold(x.to(dtype)), x.shape[:-2], x.shape[-1])
        return found

    return product


def _compressed(columns: Pattern) -> tuple[Any, Any, Any]:
    return columns.indptr, columns.indices, columns.slot


@cache
def _once_warned() -> None:
    """Suppress PyTorch's warning that such tensors are in beta, which it raises once."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.sparse_csr_tensor([0], [], [], (0, 0), check_invariants=False)
