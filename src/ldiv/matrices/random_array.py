"""Sparse arrays of random numbers at random places."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import DTypeLike

from ldiv.core.arrays.typing import AnyArray
from ldiv.core.arrays.validate import require_callable, require_float, require_number, require_shape
from ldiv.core.calls.public import public
from ldiv.errors import shown, type_error, value_error
from ldiv.matrices.construct import as_sparse
from ldiv.matrices.entries import Format
from ldiv.matrices.sparse_array import SparseArray, moved_like
from ldiv.matrices.sparse_storage import own_dtype


@public
def random_array(
    shape: tuple[int, int],
    *,
    density: float = 0.01,
    format: Format = "coo",
    dtype: DTypeLike | None = None,
    rng: int | np.random.Generator | None = None,
    data_sampler: Callable[..., Any] | None = None,
    like: AnyArray | None = None,
) -> SparseArray:
    """A sparse array of random numbers, the same that scipy.sparse.random_array draws.

    Parameters
    ----------
    shape : tuple of two ints
        The shape.
    density : float, default 0.01
        The part of the entries that is stored, from 0 to 1.
    format : {"coo", "csr", "csc"}, default "coo"
        The format of the result.
    dtype : dtype, optional
        float64 where it is absent.
    rng : int or numpy.random.Generator, optional
        The source of the numbers, or its seed.
    data_sampler : callable, optional
        `data_sampler(size=n)` draws n values; uniform in [0, 1) where it is absent, for complex
        numbers in the unit square.
    like : array, optional
        An array whose framework, dtype and device the values get.

    Returns
    -------
    A : SparseArray (m, n)
        No position twice.

    Raises
    ------
    ValueError
        For a density that is not in [0, 1].
    TypeError
        For other dtypes than those of `asarray`.

    Notes
    -----
    Differentiable in its `.data`, like every sparse array.
    Cost: that of the random numbers.

    Examples
    --------
    >>> import ldiv
    >>> ldiv.random_array((4, 5), density=0.25, rng=0)
    <SparseArray (4, 5) float64, nnz=5 (25%), coo, numpy>
    """
    m, n = require_shape("shape", shape)
    if require_number("density", density, 0.0) > 1:
        raise value_error("density", "a number from 0 to 1", shown(density), "1 is a full matrix.")
    if like is not None:
        require_float("like", like)
    kind = None if dtype is None else own_dtype(np.empty(0), dtype)
    options = {}
    if data_sampler is not None:
        advice = "It draws `size` numbers."
        expected = "a function of `size`"
        require_callable("data_sampler", data_sampler, expected, advice)
        if isinstance(data_sampler, type):
            raise type_error("data_sampler", expected, shown(data_sampler), advice)

        def drawn(size: int) -> Any:
            try:
                return data_sampler(size=size)
            except TypeError as error:
                raise type_error("data_sampler", expected, shown(data_sampler), advice) from error

        options["data_sampler"] = drawn
    theirs = scipy.sparse.random_array(
        (m, n), density=density, dtype=kind, rng=_generator(rng), **options
    )
    return moved_like(as_sparse("data_sampler", theirs), like).asformat(format)


def _generator(rng: Any) -> np.random.Generator:
    try:
        if isinstance(rng, list | tuple):  # NumPy crashes where a list contains itself
            rng = [operator.index(seed) for seed in rng]
        elif isinstance(rng, np.ndarray):  # or a matrix, each of whose rows is one again
            rng = np.asarray(rng)
        return np.random.default_rng(rng)
    except Exception as error:  # whatever NumPy raises for what is no seed
        advice = "An integer gives the same numbers again."
        raise value_error(
            "rng", "an integer >= 0 or a numpy.random.Generator", shown(rng), advice
        ) from error
