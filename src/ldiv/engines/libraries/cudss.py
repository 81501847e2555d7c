"""cuDSS 1.0 by ctypes:  A = L U, L D L^T, L D L^H or L L^H on a CUDA device, without CUDA's toolkit.

The library comes from the wheels nvidia-cudss-cu13 and -cu12, or from the path of the loader, and is
loaded when it is first asked for. A `Solver` is one handle with its settings, its analysis and the
memory of its factors. It computes on the stream that is current for the arrays. cuDSS itself waits for
the device in the analysis, and where it tells what it found. A process that was forked has no CUDA.
Reference: NVIDIA cuDSS 1.0.0, types and functions.
"""

from __future__ import annotations

import ctypes
import os
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from ctypes import byref, c_int, c_int64, c_size_t, c_void_p
from functools import lru_cache, partial
from importlib import metadata
from typing import Any

import numpy as np

from ldiv.core.arrays.buffers import memory
from ldiv.core.arrays.shapes import alike, numpy_dtype, put
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import frontend_of, namespace
from ldiv.core.owners.caches import emptied_by
from ldiv.core.owners.forking import lock
from ldiv.errors import EngineError, EngineUnavailableError

NAME, FIRST = "cuDSS", 1  # the first version with transposed solves, and with these numbers
WHEELS = "nvidia-cudss-cu13", "nvidia-cudss-cu12"
SONAME = "libcudss.so.1"
IDLE = 4  # solvers that are kept for the next factor on their patterns

PROTOTYPES: dict[str, tuple[Any, ...]] = {
    "cudssGetProperty": (c_int, c_void_p),
    "cudssCreate": (c_void_p,),
    "cudssDestroy": (c_void_p,),
    "cudssSetStream": (c_void_p, c_void_p),
    "cudssConfigCreate": (c_void_p,),
    "cudssConfigDestroy": (c_void_p,),
    "cudssConfigSet": (c_void_p, c_int, c_void_p, c_size_t),
    "cudssDataCreate": (c_void_p, c_void_p),
    "cudssDataDestroy": (c_void_p, c_void_p),
    "cudssDataGet": (c_void_p, c_void_p, c_int, c_void_p, c_size_t, c_void_p),
    "cudssExecute": (c_void_p, c_int, *[c_void_p] * 5),
    # matrix, rows, columns, leading dimension, values, their type, layout
    "cudssMatrixCreateDn": (c_void_p, *[c_int64] * 3, c_void_p, c_int, c_int),
    # matrix, rows, columns, entries, four arrays, types of offsets, indices and values, kind, view, base
    "cudssMatrixCreateCsr": (c_void_p, *[c_int64] * 3, *[c_void_p] * 4, *[c_int] * 6),
    "cudssMatrixSetValues": (c_void_p, c_void_p),
    "cudssMatrixDestroy": (c_void_p,),
}
# cudaDataType_t
TYPES = {"f": 0, "d": 1, "F": 4, "D": 5, "i": 10, "l": 24}
# cudssMatrixType_t, of real and of complex matrices
KINDS = {"gen": (0, 0), "sym": (1, 1), "her": (1, 2), "pos": (3, 4)}
FULL, UPPER = 0, 2
FROM_ZERO, BY_COLUMNS = 0, 0
# cudssConfigParam_t
MATCHING, SOLVE_MODE, PIVOTING, BATCH = 3, 4, 7, 18
UNMATCHED, MATCHED, NEVER = 0, 6, 1
# cudssDataParam_t
INFO, PERTURBED, INERTIA, DIAGONAL, MEMORY = 0, 2, 3, 8, 13
ANALYSIS, FACTORIZATION, REFACTORIZATION, SOLVE = 3, 4, 8, 1008
NO_MEMORY, UNSUPPORTED = 2, 4
SAYS = (
    *("", "it is not initialized", "it found no memory", "a value that it does not take"),
    *("it does not support this", "the device failed", "an error inside of it", "no refinement"),
)


def is_available(device: str) -> bool:
    """Whether cuDSS works on such a device."""
    return device.startswith("cuda")


@lru_cache(maxsize=1)
def missing() -> str | None:
    """The reason why cuDSS cannot be called, None if it can."""
    install = "pip install ldiv[cuda13], or ldiv[cuda12]"
    try:
        version = c_int(0)
        library().cudssGetProperty(0, byref(version))
    except OSError as error:
        return f"needs cuDSS, which was not found ({error}): {install}"
    return None if version.value >= FIRST else f"needs cuDSS 1.0 or newer: {install}"


@lru_cache(maxsize=1)
def library() -> Any:
    """The library, with the types of its arguments."""
    loaded = ctypes.CDLL(path())
    for name, types in PROTOTYPES.items():
        function = getattr(loaded, name)
        function.argtypes, function.restype = types, c_int
    return loaded


def path() -> str:
    """The library of a wheel, else its name for the loader."""
    for wheel in WHEELS:
        with suppress(metadata.PackageNotFoundError):
            for file in metadata.files(wheel) or ():
                if file.name == SONAME:
                    return str(file.locate())
    return SONAME


class Solver:
    """The factors of `count` matrices on one pattern, given in CSR, of symmetric kinds by their upper
    triangle.

    how: "matched" where large entries of the values are matched to the diagonal, so that the analysis
    serves these values alone; "unpivoted" where rows and columns are in one order, and no pivot moves.
    """

    def __init__(
        self, key: Any, kind: str, indptr: Array, indices: Array, like: Array, how: str = ""
    ) -> None:
        """`like`: values (count, entries)."""
        dtype = numpy_dtype(like)
        self.key, self._type, self._n = key, TYPES[dtype.char], indptr.shape[0] - 1
        # read where they are, also by later phases
        self._pattern, self._values = (indptr, indices), like
        self._phase, self._lock, self._process = ANALYSIS, lock(), os.getpid()
        self.stream: int | None = None  # of its last work, which may not be done yet
        self._there = partial(frontend_of(indptr).dense.stream, indptr)
        handles = self._handle, self._config, self._data, self._matrix = [
            c_void_p() for _ in "1234"
        ]
        weakref.finalize(self, _close, self._there, self._process, *handles).atexit = False
        mtype = KINDS[kind][dtype.kind == "c"], FULL if kind == "gen" else UPPER, FROM_ZERO
        at = TYPES[numpy_dtype(indptr).char]
        with self._there():
            _call("cudssCreate", byref(self._handle))
            _call("cudssConfigCreate", byref(self._config))
            _call("cudssDataCreate", self._handle, byref(self._data))
            self._set(MATCHING, MATCHED if how == "matched" else UNMATCHED)
            if how == "unpivoted":
                self._set(PIVOTING, NEVER)
            self._set(BATCH, like.shape[0])
            sizes = self._n, self._n, indices.shape[0]
            arrays = _address(indptr), None, _address(indices), _address(like)
            _call(
                *("cudssMatrixCreateCsr", byref(self._matrix), *sizes, *arrays),
                *(at, at, self._type, *mtype),
            )

    def factor(self, values: Array) -> None:
        """Factor the matrices with these values."""
        self._values = values
        # no phase but the solve reads them, and all want some
        spare: Any = namespace(values).zeros((2, values.shape[0], 1, self._n), **alike(values))
        x, b = spare[0], spare[1]
        with self._at_work():
            _call("cudssMatrixSetValues", self._matrix, _address(values))
            if self._phase == ANALYSIS:
                self._execute(ANALYSIS, x, b)
                self._phase = FACTORIZATION
            self._execute(self._phase, x, b)
            self._phase = REFACTORIZATION

    def solve(self, x: Array, b: Array, transposed: bool, conjugated: bool) -> None:
        """Write M^-1 b, M^-T b or M^-H b to x, both (count, k, n)."""
        with self._at_work():
            self._set(SOLVE_MODE, transposed + conjugated)
            self._execute(SOLVE, x, b)

    @property
    def failed(self) -> bool:
        """Whether the factorization met an error, as a minor that is not positive."""
        return bool(self._read(INFO, 1)[0])

    @property
    def perturbed(self) -> int:
        """The number of pivots that were too small, and were raised."""
        return int(self._read(PERTURBED, 1)[0])

    @property
    def signs(self) -> tuple[int, int]:
        """The numbers of positive and negative pivots of L D L^H."""
        positive, negative = self._read(INERTIA, 2).tolist()
        return positive, negative

    def diagonal(self) -> Array:
        """The pivots of L U, (n,)."""
        d: Array = namespace(self._values).zeros((self._n,), **alike(self._values))
        size = self._n * numpy_dtype(self._values).itemsize
        with self._at_work():
            self._get(DIAGONAL, _address(d), size)
        return d

    @property
    def nbytes(self) -> int:
        """The bytes on the device, by its estimate."""
        return int(self._read(MEMORY, 16)[0])

    def _read(self, what: int, count: int) -> np.ndarray[Any, Any]:
        """Read integers, of the size that the library has for them."""
        with self._at_work():
            size = self._get(what, None, 0)
            found = np.zeros(count, f"i{size // count}")
            self._get(what, found.ctypes.data, size)
        return found

    def _get(self, what: int, to: int | None, size: int) -> int:
        written = c_size_t(0)
        _call("cudssDataGet", self._handle, self._data, what, to, size, byref(written))
        return written.value

    def _set(self, what: int, value: int) -> None:
        _call("cudssConfigSet", self._config, what, byref(c_int(value)), 4)

    def _execute(self, phase: int, x: Array, b: Array) -> None:
        with self._dense(x) as to, self._dense(b) as given:
            try:
                arguments = self._config, self._data, self._matrix, to, given
                _call("cudssExecute", self._handle, phase, *arguments)
            except MemoryError:
                if not _idle:
                    raise EngineUnavailableError(NAME, self._no_memory(phase)) from None
                # again, with the memory of factors that died
                _idle.clear()
                self._execute(phase, x, b)

    def _no_memory(self, phase: int) -> str:
        asked = "for the analysis"
        if phase != ANALYSIS:
            size = c_int64 * 16
            with suppress(EngineError, MemoryError):
                found = size()
                self._get(MEMORY, ctypes.addressof(found), ctypes.sizeof(found))
                asked = f"{found[1] / 2**20:,.0f} MiB on the device, {found[0] / 2**20:,.0f} of them to stay"
        return f"has not enough memory: {asked} (torch.cuda.empty_cache() frees what PyTorch keeps)"

    @contextmanager
    def _dense(self, x: Array) -> Iterator[c_void_p]:
        """(count, k, n), the columns of each matrix one after the other."""
        made = c_void_p()
        sizes = self._n, x.shape[-2], self._n
        _call("cudssMatrixCreateDn", byref(made), *sizes, _address(x), self._type, BY_COLUMNS)
        try:
            yield made
        finally:
            library().cudssMatrixDestroy(made)

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        if os.getpid() != self._process:
            raise EngineUnavailableError(NAME, "made this factor before the process was forked")
        with self._lock, self._there() as stream:
            self.stream = stream
            _call("cudssSetStream", self._handle, stream)
            yield


def row_major_copy(x: Array) -> Array:
    """Return a row-major copy of x."""
    return put(namespace(x).zeros(x.shape, **alike(x)), ..., x)


def _address(x: Array) -> int:
    at = memory(x).address
    assert at is not None, "kernels have no arrays of a transformation"
    return at


def _call(name: str, *args: Any) -> None:
    status = getattr(library(), name)(*args)
    if status == NO_MEMORY:
        raise MemoryError(f"{name}: {SAYS[status]}")
    if status == UNSUPPORTED:
        raise EngineUnavailableError(NAME, f"cannot do this: {name} says that {SAYS[status]}")
    if status:
        raise EngineError(f"{NAME} failed: {name} says: {SAYS[status]} (status {status}).")


def _close(
    there: Callable[[], AbstractContextManager[int]], process: int, *handles: c_void_p
) -> None:
    """Release what was made, in the process that made it."""
    if os.getpid() != process:
        return
    handle, config, data, matrix = handles
    made = library()
    destroy = made.cudssMatrixDestroy, partial(made.cudssDataDestroy, handle)
    with there():
        for f, x in zip(
            (*destroy, made.cudssConfigDestroy, made.cudssDestroy),
            (matrix, data, config, handle),
            strict=True,
        ):
            if x.value:
                f(x)


_idle: deque[Solver] = deque(maxlen=IDLE)
emptied_by(_idle.clear)


def taken(key: Any, like: Array) -> Solver | None:
    """An idle solver with this key, whose analysis serves again, on the stream of its last work."""
    with frontend_of(like).dense.stream(like) as stream:
        fit = [solver for solver in tuple(_idle) if (solver.key, solver.stream) == (key, stream)]
    for solver in fit:
        with suppress(ValueError):  # another thread was faster
            _idle.remove(solver)
            return solver
    return None


def give_back(solver: Solver) -> None:
    """Keep a solver whose factor died, in place of the oldest one."""
    _idle.append(solver)
