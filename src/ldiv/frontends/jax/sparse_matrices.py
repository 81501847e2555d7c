"""BCOO and BCSR, which are no arrays of JAX: found where their module has been imported."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from ldiv.core.frontend import Parts
from ldiv.errors import expected_got
from ldiv.frontends.jax.values import asnumpy


def sparse(x: object) -> bool:
    module = sys.modules.get("jax.experimental.sparse")
    return module is not None and isinstance(x, module.BCOO | module.BCSR)


def sparse_parts(name: str, x: Any) -> Parts:
    """BCOO is padded with indices out of range, BCSR after the last row; padding is dropped."""
    if x.n_batch or x.n_dense or x.ndim != 2:
        came = f"{x.n_batch} batch and {x.n_dense} dense axes of {x.ndim}"
        raise ValueError(
            expected_got(name, "a matrix of numbers", came, "Convert one matrix, under jax.vmap.")
        )
    indices = asnumpy(x.indices)
    if hasattr(x, "indptr"):
        indptr = asnumpy(x.indptr)
        nnz = max(int(indptr[-1]), 0) if len(indptr) else 0
        return Parts("csr", x.data[:nnz], (indices[:nnz], indptr), x.shape)
    inside = (indices < np.array(x.shape)).all(axis=1)
    if inside.all():
        return Parts("coo", x.data, tuple(indices.T), x.shape)
    return Parts("coo", x.data[np.flatnonzero(inside)], tuple(indices[inside].T), x.shape)
