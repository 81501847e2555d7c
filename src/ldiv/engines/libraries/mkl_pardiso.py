"""MKL PARDISO by ctypes, from the `mkl` wheel:  B = P^T L D L^H P, or L L^H, L D L^T, L U.

Analysis, factorization and solve are separate. An `Analysis` is one handle of PARDISO: the symbolic
work on one pattern, and places for the factors of several matrices with that pattern (`maxfct` and `mnum`
of the manual). Each of them can be released alone (phase 0). A handle is not thread safe, so each has a
lock; ctypes releases the GIL. MKL is loaded when the first handle is opened. Matrices are CSR, of
symmetric kinds the upper triangle, and every diagonal entry is stored.
Reference: Schenk, Gärtner, Future Gener. Comput. Syst. 20 (2004); oneMKL manual, `pardiso` and its
iparm.
"""

from __future__ import annotations

import ctypes
import os
import weakref
from collections import deque
from contextlib import suppress
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from ldiv.core.frameworks.pattern import Values
from ldiv.core.owners import forking
from ldiv.core.owners.forking import lock
from ldiv.engines.libraries import threads

# mtype of the manual: by kind, (real, complex)
KINDS = {"pos": (2, 4), "her": (-2, -4), "sym": (-2, 6), "gen": (11, 13)}
ANALYSE, FACTOR, SOLVE, DIAGONAL, RELEASE, CLOSE = 11, 22, 33, 332, 0, -1
MINIMUM_DEGREE, NESTED_DISSECTION = 0, 2
LP64, INTEL, GNU = 0, 0, 3
TRANSPOSED = 2  # of iparm[11]
ZERO_PIVOT, SINGULAR, OUT_OF_MEMORY = -4, -7, (-2, -9)


class PardisoError(Exception):
    """An error code of PARDISO, other than those for lack of memory."""

    def __init__(self, code: int) -> None:
        self.code = code
        super().__init__(f"PARDISO failed with its error {code}")


@lru_cache(maxsize=1)
def path() -> Path | None:
    """The library of the `mkl` wheel, None if it is not installed."""
    with suppress(metadata.PackageNotFoundError):
        found = (
            Path(str(f.locate()))
            for f in metadata.files("mkl") or ()
            if f.name.startswith("libmkl_rt.so")
        )
        return next((file.resolve() for file in found if file.exists()), None)
    return None


@lru_cache(maxsize=1)
def library() -> ctypes.CDLL:
    """MKL with 32-bit indices, on the OpenMP runtime of the process, if it has one.

    A second OpenMP runtime would crash the process.
    """
    mkl = ctypes.CDLL(str(path()))
    forking.release_openmp_of(str(path()))
    if mkl.MKL_Set_Interface_Layer(LP64) != LP64:
        raise RuntimeError(
            "MKL was loaded with 64-bit integers before; PARDISO is called here with 32 bits. "
            "Unset MKL_INTERFACE_LAYER."
        )
    # a process has one OpenMP runtime: GNU's if Intel's is not loaded and GNU's can be
    if "MKL_THREADING_LAYER" not in os.environ:
        mkl.MKL_Set_Threading_Layer(
            GNU
            if not _opens("libiomp5.so", os.RTLD_NOLOAD) and _opens("libgomp.so.1", os.RTLD_GLOBAL)
            else INTEL
        )
    return mkl


def _opens(name: str, mode: int) -> bool:
    with suppress(OSError):
        return bool(ctypes.CDLL(name, mode=os.RTLD_LAZY | mode))
    return False


def num_threads() -> int:
    """The number of threads for the next analysis, and its factors and solves."""
    return threads.threads("MKL_NUM_THREADS")


class Analysis:
    """The symbolic work on a CSR pattern, with places for up to `places` factors; on the number of
    threads that are allowed when it is made.
    """

    def __init__(
        self,
        kind: str,
        dtype: np.dtype[Any],
        by_rows: tuple[Any, Any],
        places: int,
        pivots: bool = False,
        match: Any = None,
        boldly: bool = False,
    ) -> None:
        """`match`: values whose large entries are matched to the diagonal, or None.

        `pivots`: they can be read, which excludes the faster two-level algorithm. `boldly`: small
        pivots are raised to the square root of the precision, so that entries grow less, and
        refinement corrects the rest.
        """
        self.kind, self.dtype, self._by_rows, self._places = kind, dtype, by_rows, places
        self._mtype, self.n = KINDS[kind][dtype.kind == "c"], len(by_rows[0]) - 1
        self.is_symmetric = kind == "sym" or (kind != "gen" and dtype.kind == "f")
        # places count from 1
        self._free = list(range(places, 0, -1))
        self._dead: deque[int] = deque()
        self._lock = lock()
        # `pt` of the manual, all zeros before the first call
        self._handle = np.zeros(64, np.int64)
        # all phases of a handle, or PARDISO finds pivots that are none
        self._threads = num_threads()
        single = dtype.itemsize == (8 if dtype.kind == "c" else 4)
        self.iparm = _parameters(single, pivots, match is not None, boldly)
        # allow 2 x 2 pivots; those of complex Hermitian matrices write out of bounds in MKL 2026.2
        self.iparm[20] = self._mtype != KINDS["her"][1]
        closing = self._handle, (places, 1, self._mtype, CLOSE, self.n), (None, *by_rows)
        weakref.finalize(self, _pardiso, *closing, self.iparm, self._threads).atexit = False
        try:
            self._call(ANALYSE, 1, self.iparm, match)
        except MemoryError:  # reported by METIS if matching leaves it nothing to order
            self.iparm[1] = MINIMUM_DEGREE
            self._call(ANALYSE, 1, self.iparm, match)

    @property
    def heap_bytes(self) -> int:
        """The memory of the analysis, which MKL counts in KiB."""
        return int(self.iparm[15]) << 10

    @property
    def nbytes(self) -> int:
        """The memory of one factor: that of its entries."""
        return self.entries * self.dtype.itemsize

    @property
    def entries(self) -> int:
        """The number of entries of a factor, of both triangles if they are two."""
        return int(self.iparm[17])

    def factor(self, values: Values) -> PardisoFactor | None:
        """The factor of the matrix with these values; None if all places are taken."""
        with self._lock:
            if not self._free:
                return None
            number, iparm = self._free.pop(), self.iparm.copy()
            try:
                self._call(FACTOR, number, iparm, values)
            except BaseException:
                # the place of a failed factorization is released like that of a factor
                self._dead.append(number)
                raise
            finally:
                self._release_dead()
            return PardisoFactor(self, number, iparm, values)

    def applied(self, phase: int, factor: PardisoFactor, iparm: Any, b: Values) -> Values:
        """Return the result of a phase of solving for b (n, k), column by column."""
        x: Values = np.empty(b.shape, b.dtype, order="F")
        with self._lock:
            self._call(phase, factor.number, iparm, factor.values, b, x)
        self._release_dead()
        return x

    def diagonal(self, number: int) -> Values:
        """The pivots of a factor: the diagonal of D or U, or of L L^H its squares; in double precision
        only, since MKL reads the wrong memory for single precision.
        """
        diagonal: Values = np.empty(self.n, self.dtype)
        unused = np.empty_like(diagonal)
        code = ctypes.c_int(0)
        with self._lock:
            library().pardiso_getdiag(
                *map(_at, (self._handle, diagonal, unused)),
                _by_reference(number),
                ctypes.byref(code),
            )
        _raise(code.value)
        return diagonal

    def give_back(self, number: int) -> None:
        """Release the memory of a factor, now or when the present user of the handle is done.

        Never blocks, as the garbage collector calls it.
        """
        self._dead.append(number)
        self._release_dead()

    def _release_dead(self) -> None:
        # the holder of the lock releases dead factors after its call, so that no thread waits for the lock
        while self._dead and self._lock.acquire(blocking=False):
            try:
                with suppress(IndexError):
                    number = self._dead.pop()
                    self._call(RELEASE, number, self.iparm.copy())
                    self._free.append(number)
            finally:
                self._lock.release()

    def _call(
        self, phase: int, number: int, iparm: Any, values: Any = None, b: Any = None, x: Any = None
    ) -> None:
        head = self._places, number, self._mtype, phase, self.n
        matrix = values, *self._by_rows
        _raise(_pardiso(self._handle, head, matrix, iparm, self._threads, b, x))


class PardisoFactor:
    """One factor in an analysis; its memory is released when it dies."""

    def __init__(self, analysis: Analysis, number: int, iparm: Any, values: Any) -> None:
        self.analysis, self.number, self.iparm = analysis, number, iparm
        # some solves read them: refinement after perturbed pivots, and complex Hermitian solves
        self.values = values
        self.perturbed = int(iparm[13])
        weakref.finalize(self, analysis.give_back, number).atexit = False

    def solve(self, b: Values, transposed: bool) -> Values:
        """B^-1 b or B^-T b for b (n, k)."""
        iparm = self.iparm.copy()
        # a symmetric matrix is its own transpose
        iparm[11] = TRANSPOSED if transposed and not self.analysis.is_symmetric else 0
        return self.analysis.applied(SOLVE, self, iparm, np.asfortranarray(b))

    def signs(self) -> Values:
        """The signs of D in L D L^H, which MKL does not count in complex matrices."""
        # D^-1 1 has the signs of D
        ones = np.ones((self.analysis.n, 1), self.analysis.dtype, order="F")
        return np.sign(self.analysis.applied(DIAGONAL, self, self.iparm.copy(), ones).real)

    def pivots(self) -> Values:
        return self.analysis.diagonal(self.number)


def _parameters(single: bool, pivots: bool, matched: bool, boldly: bool) -> Any:
    iparm = np.zeros(64, np.int32)
    iparm[0] = 1  # use these values, not the defaults
    iparm[1] = NESTED_DISSECTION
    # pivots below 10^-this are perturbed
    iparm[9] = (3 if boldly else 6) if single else 8 if boldly else 13
    # scaling and maximum weighted matching, which belong together
    iparm[10] = iparm[12] = matched
    iparm[17] = -1  # count the entries of the factor
    # two-level factorization: twice as fast, and two right-hand sides cost little more than one
    iparm[23] = not matched and not pivots
    iparm[27] = single
    iparm[34] = 1  # zero-based indices
    # lets `pardiso_getdiag` read the pivots
    iparm[55] = pivots
    return iparm


def _pardiso(
    handle: Any,
    head: tuple[int, ...],
    matrix: tuple[Any, ...],
    iparm: Any,
    among: int,
    b: Any = None,
    x: Any = None,
) -> int:
    """head: maxfct, mnum, mtype, phase, n; matrix: values, indptr, indices; `among` so many threads."""
    code, mkl = ctypes.c_int(0), library()
    # perm, nrhs, iparm, msglvl, b, x, error
    columns = _by_reference(1 if b is None else b.shape[1])
    rest = None, columns, _at(iparm), _by_reference(0), _at(b), _at(x), ctypes.byref(code)
    # of this thread alone, and for this call: what else uses MKL keeps its number
    before = mkl.MKL_Set_Num_Threads_Local(among)
    try:
        mkl.pardiso(_at(handle), *map(_by_reference, head), *map(_at, matrix), *rest)
    finally:
        mkl.MKL_Set_Num_Threads_Local(before)
    return code.value


def _by_reference(number: int) -> Any:
    return ctypes.byref(ctypes.c_int(number))


def _at(array: Any) -> Any:
    return None if array is None else ctypes.c_void_p(array.ctypes.data)


def _raise(code: int) -> None:
    if code in OUT_OF_MEMORY:
        raise MemoryError("PARDISO: not enough memory for the factorization.")
    if code:
        raise PardisoError(code)
