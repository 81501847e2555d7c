"""BCOO and BCSR, which are no arrays of JAX: found where their module has been imported."""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np

from ldiv.core.frameworks.frontend import Parts
from ldiv.errors import type_error, value_error
from ldiv.frontends.jax.values import asnumpy


def sparse(x: object) -> bool:
    module = sys.modules.get("jax.experimental.sparse")
    return module is not None and isinstance(x, module.BCOO | module.BCSR)


def sparse_parts(name: str, x: Any) -> Parts:
    """BCOO is padded with indices out of range, BCSR after the last row; padding is dropped."""
    if x.n_dense or x.ndim < 2:
        came = f"{x.n_dense} dense axes of {x.ndim}"
        advice = "Make it with coo_array or csr_array: batch axes belong to the values."
        raise value_error(name, "a matrix of numbers", came, advice)
    indptr = getattr(x, "indptr", None)
    try:
        indices = asnumpy(x.indices)
        starts = None if indptr is None else asnumpy(indptr)
    except TypeError:
        return _of_argument(name, x)
    if starts is not None and not x.n_batch:
        nnz = max(int(starts[-1]), 0) if len(starts) else 0
        return Parts("csr", x.data[:nnz], (indices[:nnz], starts), x.shape)
    places = indices if starts is None else _rows_and_columns(indices, starts, x.shape)
    values, at = _with_batch_axes(x.data, places, x.shape)
    inside = (at < np.array(x.shape)).all(axis=1)
    if inside.all():
        return Parts("coo", values, tuple(at.T), x.shape)
    return Parts("coo", values[np.flatnonzero(inside)], tuple(at[inside].T), x.shape)


def _of_argument(name: str, x: Any) -> Parts:
    """The parts of a matrix whose indices are arguments of jit; padding becomes zeros at (0, 0)."""
    came = f"a {type(x).__name__} that is an argument of jit, with indices {x.indices.aval}"
    advice = (
        "This function must know the sparsity pattern when it is traced. Pass ldiv.asarray(M) in its "
        "place, whose pattern is static; or pass M.data, and put it on the indices inside."
    )
    unknown = type_error(name, "a known pattern", came, advice)
    if x.ndim - x.n_batch != 2:
        raise unknown
    if hasattr(x, "indptr"):
        count = jnp.arange(x.indices.shape[-1])
        row_of = jnp.vectorize(partial(jnp.searchsorted, side="right"), signature="(m),(e)->(e)")
        rows, cols = row_of(x.indptr[..., 1:], count), x.indices
    else:
        rows, cols = x.indices[..., 0], x.indices[..., 1]
    m, n = x.shape[-2:]
    inside = (rows < m) & (cols < n)
    values = jnp.where(inside, x.data, 0)
    # what is negative is no padding: NaN is refused where the program runs
    values = jnp.where((rows < 0) | (cols < 0), jnp.nan, values)
    values = jnp.broadcast_to(values, (*x.shape[:-2], x.nse))
    inside = inside & (rows >= 0) & (cols >= 0)
    places = tuple(jnp.where(inside, at, 0) for at in (rows, cols))
    return Parts("coo", values, places, x.shape, x.n_batch, unknown=unknown)


def _with_batch_axes(data: Any, indices: Any, shape: tuple[int, ...]) -> tuple[Any, Any]:
    """All values (N,), and (N, axes) an index for each axis; one for a whole batch stands for all."""
    nse, own = indices.shape[-2:]
    batch = shape[: len(shape) - own]
    if not batch:
        return data, indices
    data = jnp.broadcast_to(data, (*batch, nse))
    indices = np.broadcast_to(indices, (*batch, nse, own))
    members = np.indices((*batch, nse))[:-1]
    at = np.concatenate([np.moveaxis(members, 0, -1), indices], axis=-1)
    return data.reshape(-1), at.reshape(-1, len(shape))


def _rows_and_columns(indices: Any, indptr: Any, shape: tuple[int, ...]) -> Any:
    """(*batch, nse, 2) of compressed rows; an entry after the last row is out of range."""
    counts = np.arange(indices.shape[-1])
    rows = (counts[:, None] >= indptr[..., None, 1:]).sum(-1)
    return np.stack(np.broadcast_arrays(rows, indices), axis=-1)
