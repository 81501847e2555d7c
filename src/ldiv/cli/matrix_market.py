"""A Matrix Market file, an .npz that SciPy saved, or an .npy, as a matrix or as right-hand sides."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.io
import scipy.sparse

from ldiv.core.arrays.typing import Assumption
from ldiv.core.arrays.validate import DTYPES
from ldiv.core.frameworks.trees import HostArray
from ldiv.core.rules.finite import require_finite
from ldiv.errors import value_error
from ldiv.matrices.construct import asarray
from ldiv.matrices.matrix import Matrix, as_matrix


def load_matrix(path: str) -> tuple[Matrix, Header]:
    """The square matrix of a file, and its header: sparse on the pattern of the file, both
    triangles of a symmetric one; dense for a dense file.
    """
    raw, header = _load(path)
    if raw.ndim != 2 or raw.shape[0] != raw.shape[1] or raw.shape[0] == 0:
        advice = (
            "A rectangular system is a least-squares problem."
            if raw.ndim == 2
            else "One matrix is checked at a time; a right-hand side is read by --rhs."
        )
        came = _extent(raw) if raw.ndim > 1 else f"shape {raw.shape}"
        raise value_error(path, "a square matrix with at least one row", came, advice)
    return asarray(raw) if scipy.sparse.issparse(raw) else as_matrix(path, raw), header


class Header(NamedTuple):
    """The header of a Matrix Market file, before its numbers."""

    symmetry: str = "general"
    is_pattern: bool = False

    @property
    def promise(self) -> Assumption:
        """The assumption that the header makes."""
        promises: dict[str, Assumption] = {"symmetric": "sym", "hermitian": "her"}
        return promises.get(self.symmetry, "gen")


def load_rhs(path: str, n: int) -> HostArray:
    """The right-hand sides of a file, (n,) or (n, k); a sparse file is filled up with zeros."""
    raw, _ = _load(path)
    b = raw.toarray() if scipy.sparse.issparse(raw) else raw
    b = b.T if b.shape == (1, n) else b
    if b.shape[:1] != (n,) or b.ndim > 2 or b.size == 0:
        raise value_error(
            path,
            f"{n} rows, as many as the matrix has",
            _extent(b),
            "Is it the right-hand side of another matrix?",
        )
    return np.ascontiguousarray(b[:, 0] if b.shape[1:] == (1,) else b)


def _matrix_market(path: str) -> tuple[Any, Header]:
    # a pipe can be read once: what came out of it is read twice
    source = path if Path(path).is_file() else BytesIO(Path(path).read_bytes())
    *_, field, symmetry = scipy.io.mminfo(source)
    if isinstance(source, BytesIO):
        source.seek(0)
    return scipy.io.mmread(source, spmatrix=False), Header(symmetry, field == "pattern")


def _numpy_file(path: str) -> Any:
    with Path(path).open("rb") as file:
        if file.read(6) != b"\x93NUMPY":
            raise ValueError("it begins in another way than they do")
    return np.load(path, allow_pickle=False)


_READERS: dict[str, tuple[str, Callable[[str], tuple[Any, Header]]]] = {
    ".npz": (
        "a sparse matrix saved by scipy.sparse.save_npz",
        lambda path: (scipy.sparse.load_npz(path), Header()),
    ),
    ".npy": ("an array saved by numpy.save", lambda path: (_numpy_file(path), Header())),
}


def _extent(a: Any) -> str:
    return " x ".join(map(str, a.shape))


def _load(path: str) -> tuple[Any, Header]:
    """Load the matrix of a file, with finite floating values; integers, booleans and patterns of ones
    become float64.
    """
    if not Path(path).exists():
        raise FileNotFoundError(f"{path}: there is no such file.")
    if Path(path).is_dir():
        raise IsADirectoryError(f"{path}: it is a directory, not a file.")
    kind, read = _READERS.get(Path(path).suffix, ("Matrix Market", _matrix_market))
    try:
        raw, header = read(path)
    except Exception as error:  # the readers raise whatever their parsers meet
        raise ValueError(f"{path}: cannot be read as {kind}: {error}") from error
    raw = raw.astype(np.float64) if raw.dtype.kind in "iub" else raw
    if raw.dtype.name not in DTYPES:
        raise value_error(
            path, "one of " + ", ".join(DTYPES), raw.dtype.name, "Save it in one of these."
        )
    require_finite(path, raw.data if scipy.sparse.issparse(raw) else raw)
    return raw, header
