"""P A = L U, A = L L^H, L^-1 B: the dense kernels of torch, batched, and scattered sums.

The `_ex` forms return a failure as a number, where the others wait for a GPU in order to raise it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
import torch

from ldiv.core.arrays.shapes import numpy_dtype
from ldiv.core.frameworks.looks import passed, stays_on_device
from ldiv.frontends.torch import private
from ldiv.frontends.torch.array_namespace import sent
from ldiv.frontends.torch.recorders import traced

ROWS = 256  # of a product of which the upper triangle counts, at once


def scatter(x: torch.Tensor, index: Any, size: int) -> torch.Tensor:
    return add_rows(x.new_zeros((*x.shape[:-2], size, x.shape[-1])), index, x)


def unset_rows(x: torch.Tensor, n: int) -> torch.Tensor:
    shape = (*x.shape[:-2], n, x.shape[-1])
    if not x.is_cpu or traced(x) or private.is_wrapped(x) or private.is_legacy_batch(x):
        return x.new_empty(shape)
    # in NumPy's memory, of large pages: the first touch of each small one costs as much as its arithmetic
    return torch.from_numpy(np.empty(shape, numpy_dtype(x)))


def add_rows(y: torch.Tensor, index: Any, x: torch.Tensor) -> torch.Tensor:
    # index_add of rows of one number, or by indices of 32 bits, adds them one call at a time
    if x.shape[-1] == 1:
        return _index_add(y[..., 0], -1, index, x[..., 0])[..., None]
    return _index_add(y, -2, index, x)


def _index_add(y: torch.Tensor, axis: int, index: Any, x: torch.Tensor) -> torch.Tensor:
    # what is recorded runs many times on the same zeros
    # and numbers are added faster by scatter_add
    name = "scatter_add" if y.ndim == 1 else "index_add"
    add = getattr(y, name if traced(x) else f"{name}_")
    where = torch.as_tensor(index, dtype=torch.int64)
    return add(axis, where if where.device == y.device else sent(where, y.device), x)


@contextmanager
def stream(x: torch.Tensor) -> Iterator[int]:
    with torch.cuda.device(x.device) if x.is_cuda else nullcontext():
        yield torch.cuda.current_stream(x.device).cuda_stream if x.is_cuda else 0


def lu_factor(a: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    lu, pivots, _ = torch.linalg.lu_factor_ex(a)
    return lu, pivots


def sign_of_rows(pivots: torch.Tensor) -> torch.Tensor:
    """det P: -1 for an odd number of exchanges, which LAPACK counts from 1."""
    stays = torch.arange(1, pivots.shape[-1] + 1, device=pivots.device)
    return 1 - 2 * ((pivots != stays).sum(-1) % 2)


def lu_solve(lu: torch.Tensor, pivots: torch.Tensor, b: torch.Tensor, op: str) -> torch.Tensor:
    b = b.to(lu.dtype)
    if (
        op == "T" and lu.is_complex()
    ):  # A^-T b = conj(A^-H conj(b)), for torch has no transposed form
        return torch.linalg.lu_solve(lu, pivots, b.conj(), adjoint=True).conj().resolve_conj()
    return torch.linalg.lu_solve(lu, pivots, b, adjoint=op != "N")


def cholesky(a: torch.Tensor) -> tuple[torch.Tensor, Any]:
    """(L, whether all of the batch is positive definite)."""
    l, info = torch.linalg.cholesky_ex(a)
    return l, ~info.any()


def cholesky_inverse(l: torch.Tensor) -> torch.Tensor:
    """(L L^H)^-1."""
    return torch.cholesky_inverse(l)


def solve_triangular(
    a: torch.Tensor, b: torch.Tensor, lower: bool, unit: bool = False
) -> torch.Tensor:
    dtype = torch.promote_types(a.dtype, b.dtype)
    return torch.linalg.solve_triangular(
        a.to(dtype), b.to(dtype), upper=not lower, unitriangular=unit
    )


def product(a: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Multiply, in double precision if torch might use fewer digits than the dtype has: TF32 on
    GPUs, bfloat16 by set_float32_matmul_precision.
    """
    wide = _WIDE.get(a.dtype)
    if wide is None or not (a.is_cuda or torch.get_float32_matmul_precision() != "highest"):
        return torch.matmul(a, x)
    return torch.matmul(a.to(wide), x.to(wide)).to(a.dtype)


def minus_upper(y: torch.Tensor, a: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    for start in range(0, y.shape[-1], ROWS):
        rows = slice(start, start + ROWS)
        part = y[..., rows, start:]
        minus_product(part, a[..., rows].mH, x[..., start:])
        # only the block on the diagonal has numbers below it
        part[..., : part.shape[-2]].triu_()
    return y


def minus_product(y: torch.Tensor, a: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    if y.ndim != 3 or y.dtype in _WIDE:
        return y.sub_(product(a, x))
    return y.baddbmm_(a, x, alpha=-1)


_WIDE = {torch.float32: torch.float64, torch.complex64: torch.complex128}


def eigh(a: torch.Tensor) -> Any:
    return torch.linalg.eigh(_finite(a))


def svd(a: torch.Tensor) -> Any:
    return torch.linalg.svd(_finite(a), full_matrices=False)


def svdvals(a: torch.Tensor) -> torch.Tensor:
    return torch.linalg.svdvals(_finite(a))


def _finite(a: torch.Tensor) -> torch.Tensor:
    """Replace non-finite matrices, which `torch.linalg` would refuse, if checks are deferred."""
    if not stays_on_device(a):
        return a
    finite = torch.isfinite(a).all()
    passed(finite)
    return torch.where(finite, a, 0)


def lu_pivoted(a: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """A packed LU of an m x n matrix, and LAPACK's exchanges counted from 0."""
    lu, pivots = lu_factor(a)
    return lu, pivots - 1


def row_order(exchanges: torch.Tensor, m: int) -> torch.Tensor | None:
    """The order of rows after the exchanges on a device, by a permutation matrix; None on the CPU."""
    if exchanges.is_cpu:
        return None
    if m == 0:
        return exchanges.new_empty((*exchanges.shape[:-1], 0), dtype=torch.int64)
    like = torch.empty((*exchanges.shape[:-1], m, exchanges.shape[-1]), device=exchanges.device)
    by_columns = torch.lu_unpack(like, exchanges.int() + 1, unpack_data=False)[0]
    return by_columns.argmax(-2)
