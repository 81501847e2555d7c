"""Tensors that are no rectangular array of numbers in memory: sparse, nested, without values."""

from __future__ import annotations

import torch

from ldiv.core.frameworks.frontend import Parts
from ldiv.errors import type_error
from ldiv.frontends.torch import private

_NO_VALUES = (
    "an array with values",
    "a tensor on the meta device",
    "It has a shape only: make it on a device with memory.",
)
_NESTED = (
    "an array with rows of one length",
    "a nested tensor",
    "Pad it, or take its tensors one by one.",
)
_STORED_ONLY = (torch.uint16, torch.uint32, torch.uint64)
_BY_ROWS = (torch.sparse_csr, torch.sparse_bsr)
_BY_COLUMNS = (torch.sparse_csc, torch.sparse_bsc)


def refusal(x: torch.Tensor) -> tuple[str, str, str] | None:
    if x.is_nested:
        return _NESTED
    return _NO_VALUES if x.is_meta else None


def stored_only(x: torch.Tensor) -> bool:
    return x.dtype in _STORED_ONLY


def sparse(x: object) -> bool:
    return isinstance(x, torch.Tensor) and not x.is_nested and x.layout is not torch.strided


def sparse_parts(name: str, x: torch.Tensor) -> Parts:
    """Return values and indices; the values of hybrid tensors have axes of their own."""
    shape = tuple(x.shape)
    if x.layout is torch.sparse_coo:
        # the numbers as they are stored: coalesce, which the graph needs, looks at no index
        stored = Parts("coo", private.stored_values(x), tuple(private.stored_indices(x)), shape)
        return stored._replace(merged=lambda: _coalesced(x.coalesce()))
    format = str(x.layout).rpartition("_")[2]
    if x.layout in _BY_ROWS:
        indices, indptr = x.col_indices(), x.crow_indices()
    elif x.layout in _BY_COLUMNS:
        indices, indptr = x.row_indices(), x.ccol_indices()
    else:
        expected = (
            "a tensor in the layout sparse_coo, sparse_csr, sparse_csc, sparse_bsr or sparse_bsc"
        )
        came, advice = str(x.layout).removeprefix("torch."), "Convert it with x.to_sparse()."
        raise type_error(name, expected, came, advice)
    return Parts(format, x.values(), (indices, indptr), shape, indptr.ndim - 1)


def _coalesced(x: torch.Tensor) -> Parts:
    return Parts("coo", x.values(), tuple(x.indices()), tuple(x.shape))
