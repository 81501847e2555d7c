"""BLAS and LAPACK for compiled code: those of SciPy, called by address on parts of flat arrays.

Matrices are stored by columns; an argument is the address of the first number, then the distance
of two columns. The routines are known to the compiler by a symbol, which is bound again in every
process: an address in compiled code could not be kept on disk.
"""

from __future__ import annotations

from typing import Any

import llvmlite.binding
import numpy as np
from numba import types
from numba.extending import get_cython_function_address

from ldiv.engines.selected.compiled import jit

Array = np.ndarray[Any, np.dtype[Any]]

LETTERS = np.frombuffer(b"LURNT", np.uint8)  # lower (or left), upper, right, plain, transposed
REALS = np.array([1.0, -1.0, 0.0, -0.5])


def _routine(library: str, name: str, arguments: int) -> Any:
    symbol = f"ldiv_{name}"
    address = get_cython_function_address(f"scipy.linalg.cython_{library}", name)
    llvmlite.binding.add_symbol(symbol, address)
    return types.ExternalFunction(symbol, types.void(*[types.intp] * arguments))


_dpotrf = _routine("lapack", "dpotrf", 5)
_dpotri = _routine("lapack", "dpotri", 5)
_dtrsm = _routine("blas", "dtrsm", 11)
_dsyrk = _routine("blas", "dsyrk", 10)
_dsyr2k = _routine("blas", "dsyr2k", 12)
_dsymm = _routine("blas", "dsymm", 12)
_dgemm = _routine("blas", "dgemm", 13)


def call() -> tuple[Array, Array, Array]:
    """What one call of compiled code hands to BLAS: its own integers, numbers and letters."""
    return np.zeros(8, np.int32), REALS, LETTERS


@jit
def at(x: Array, offset: int) -> int:
    """The address of x[offset]."""
    return x.ctypes.data + 8 * offset


@jit
def potrf(w: Any, n: int, a: int, lda: int) -> int:
    """A = L L^T in the lower triangle; 0, or the column whose pivot is not positive."""
    w[0][:3] = n, lda, 0
    k = w[0].ctypes.data
    _dpotrf(w[2].ctypes.data, k, a, k + 4, k + 8)
    return w[0][2]


@jit
def potri(w: Any, n: int, a: int, lda: int) -> None:
    """The lower triangle of (L L^T)^-1 in place of L."""
    w[0][:3] = n, lda, 0
    k = w[0].ctypes.data
    _dpotri(w[2].ctypes.data, k, a, k + 4, k + 8)


@jit
def right_solve(w: Any, m: int, n: int, l: int, ldl: int, b: int, ldb: int, trans: bool) -> None:
    """B L^-1, or B L^-T, in place of B (m, n)."""
    w[0][:4] = m, n, ldl, ldb
    k, c = w[0].ctypes.data, w[2].ctypes.data
    _dtrsm(
        c + 2, c, c + (4 if trans else 3), c + 3, k, k + 4, w[1].ctypes.data, l, k + 8, b, k + 12
    )


@jit
def left_solve(w: Any, n: int, k: int, l: int, ldl: int, b: int, ldb: int, trans: bool) -> None:
    """L^-1 B, or L^-T B, in place of B (n, k)."""
    w[0][:4] = n, k, ldl, ldb
    i, c = w[0].ctypes.data, w[2].ctypes.data
    _dtrsm(c, c, c + (4 if trans else 3), c + 3, i, i + 4, w[1].ctypes.data, l, i + 8, b, i + 12)


@jit
def times(
    w: Any,
    trans: bool,
    m: int,
    n: int,
    k: int,
    a: int,
    lda: int,
    b: int,
    ldb: int,
    c: int,
    ldc: int,
) -> None:
    """C -= A B, or A^T B, for B (k, n) and C (m, n)."""
    w[0][:6] = m, n, k, lda, ldb, ldc
    i, x, t = w[0].ctypes.data, w[1].ctypes.data, w[2].ctypes.data
    _dgemm(
        t + (4 if trans else 3), t + 3, i, i + 4, i + 8, x + 8, a, i + 12, b, i + 16, x, c, i + 20
    )


@jit
def square(w: Any, n: int, k: int, a: int, lda: int, c: int, ldc: int) -> None:
    """The lower triangle of C = -A A^T, A (n, k)."""
    w[0][:4] = n, k, lda, ldc
    i, x, t = w[0].ctypes.data, w[1].ctypes.data, w[2].ctypes.data
    _dsyrk(t, t + 3, i, i + 4, x + 8, a, i + 8, x + 16, c, i + 12)


@jit
def mixed_square(w: Any, n: int, k: int, a: int, lda: int, b: int, ldb: int, c: int) -> None:
    """The lower triangle of C = -A B^T - B A^T, C with n rows."""
    w[0][:4] = n, k, lda, ldb
    i, x, t = w[0].ctypes.data, w[1].ctypes.data, w[2].ctypes.data
    _dsyr2k(t, t + 3, i, i + 4, x + 8, a, i + 8, b, i + 12, x + 16, c, i)


@jit
def symmetric_times(
    w: Any, m: int, n: int, s: int, b: int, ldb: int, beta: int, c: int, ldc: int
) -> None:
    """C = -S B + beta C for a lower triangle S (m, m), B (m, n); beta an index of REALS."""
    w[0][:4] = m, n, ldb, ldc
    i, x, t = w[0].ctypes.data, w[1].ctypes.data, w[2].ctypes.data
    _dsymm(t, t, i, i + 4, x + 8, s, i, b, i + 8, x + 8 * beta, c, i + 12)


@jit
def times_symmetric(
    w: Any, m: int, n: int, alpha: int, s: int, lds: int, b: int, beta: int, c: int
) -> None:
    """C = alpha B S + beta C for a lower triangle S (n, n), B and C (m, n) without gaps."""
    w[0][:3] = m, n, lds
    i, x, t = w[0].ctypes.data, w[1].ctypes.data, w[2].ctypes.data
    _dsymm(t + 2, t, i, i + 4, x + 8 * alpha, s, i + 8, b, i, x + 8 * beta, c, i)


@jit
def transposed_times(w: Any, n: int, k: int, a: int, b: int, ldb: int, c: int, ldc: int) -> None:
    """C -= A^T B for A (k, n) without gaps, B (k, n), C (n, n)."""
    w[0][:4] = n, k, ldb, ldc
    i, x, t = w[0].ctypes.data, w[1].ctypes.data, w[2].ctypes.data
    _dgemm(t + 4, t + 3, i, i, i + 4, x + 8, a, i + 4, b, i + 8, x, c, i + 12)
