"""BCOO and BCSR, which are no arrays of JAX: found where their module has been imported."""

from __future__ import annotations

import sys
from typing import Any

import jax.numpy as jnp
import numpy as np

from ldiv.core.frameworks.frontend import Parts
from ldiv.errors import expected_got
from ldiv.frontends.jax.values import asnumpy


def sparse(x: object) -> bool:
    module = sys.modules.get("jax.experimental.sparse")
    return module is not None and isinstance(x, module.BCOO | module.BCSR)


def sparse_parts(name: str, x: Any) -> Parts:
    """BCOO is padded with indices out of range, BCSR after the last row; padding is dropped."""
    if x.n_dense or x.ndim < 2:
        came = f"{x.n_dense} dense axes of {x.ndim}"
        advice = "Make it with coo_array or csr_array: batch axes belong to the values."
        raise ValueError(expected_got(name, "a matrix of numbers", came, advice))
    indices = _known(name, x, x.indices)
    if hasattr(x, "indptr") and not x.n_batch:
        indptr = _known(name, x, x.indptr)
        nnz = max(int(indptr[-1]), 0) if len(indptr) else 0
        return Parts("csr", x.data[:nnz], (indices[:nnz], indptr), x.shape)
    if hasattr(x, "indptr"):
        places = _rows_and_columns(indices, asnumpy(x.indptr), x.shape)
    else:
        places = indices
    values, at = _with_batch_axes(x.data, places, x.shape)
    inside = (at < np.array(x.shape)).all(axis=1)
    if inside.all():
        return Parts("coo", values, tuple(at.T), x.shape)
    return Parts("coo", values[np.flatnonzero(inside)], tuple(at[inside].T), x.shape)


def _known(name: str, x: Any, indices: Any) -> Any:
    """The numbers of indices, which an argument of jit does not have."""
    try:
        return asnumpy(indices)
    except TypeError:
        came = f"a {type(x).__name__} that is an argument of jit, with indices {indices.aval}"
        advice = (
            "A sparsity pattern must be known when a function is traced. Pass ldiv.asarray(M) in its "
            "place, whose pattern is static; or pass M.data, and put it on the indices inside."
        )
        raise TypeError(expected_got(name, "a known pattern", came, advice)) from None


def _with_batch_axes(data: Any, indices: Any, shape: tuple[int, ...]) -> tuple[Any, Any]:
    """All values (N,), and (N, axes) an index for each axis; one for a whole batch stands for all."""
    nse, own = indices.shape[-2:]
    batch = shape[: len(shape) - own]
    if not batch:
        return data, indices
    data, indices = (
        jnp.broadcast_to(data, (*batch, nse)),
        np.broadcast_to(indices, (*batch, nse, own)),
    )
    members = np.indices((*batch, nse))[:-1]
    at = np.concatenate([np.moveaxis(members, 0, -1), indices], axis=-1)
    return data.reshape(-1), at.reshape(-1, len(shape))


def _rows_and_columns(indices: Any, indptr: Any, shape: tuple[int, ...]) -> Any:
    """(*batch, nse, 2) of compressed rows; an entry after the last row is out of range."""
    counts = np.arange(indices.shape[-1])
    rows = (counts[:, None] >= indptr[..., None, 1:]).sum(-1)
    return np.stack(np.broadcast_arrays(rows, indices), axis=-1)
