"""A batch of sparse matrices on one pattern, of a data set."""

from __future__ import annotations

from typing import Any

import torch

from ldiv.errors import value_error
from ldiv.matrices.sparse_array import SparseArray


def stacked(batch: list[SparseArray], *, collate_fn_map: Any = None) -> SparseArray:
    """Stack matrices of one pattern into one, with values (batch, nnz)."""
    first = batch[0]
    for A in batch[1:]:
        if A.structure != first.structure:
            raise value_error(
                "a batch of SparseArrays",
                "matrices on one pattern",
                f"{A!r} beside {first!r}",
                "Store explicit zeros, or give the DataLoader a collate_fn that makes a list.",
            )
    return first.with_data(torch.stack([torch.as_tensor(A.data) for A in batch]))
