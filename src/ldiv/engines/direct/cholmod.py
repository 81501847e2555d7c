"""Sparse, positive definite: R P A P^T R = L L^H by CHOLMOD, supernodal, ordered by METIS.

Half the work and memory of an LU, and most of it in BLAS 3. Called through scikit-sparse, whose
versions 0.4 and 0.5 have different interfaces. The analysis (ordering, supernodes) is done once per
pattern and copied for each factorization. A pivot that is not positive refutes the assumption. The
supernodal module of CHOLMOD is under the GPL, which extends to programs distributed with it:
therefore this engine is an optional extra, and ldiv ships none of it.
Reference: Chen, Davis, Hager, Rajamanickam, Algorithm 887, ACM Trans. Math. Softw. 35 (2008).
"""

from __future__ import annotations

import warnings
from functools import lru_cache
from importlib import import_module
from typing import Any

import numpy as np

from ldiv.core import forking
from ldiv.core.pattern import Pattern
from ldiv.core.structure import Structure
from ldiv.core.trees import Tree
from ldiv.engines.factor import Factor
from ldiv.engines.refinement import Arrangement, Refined
from ldiv.errors import NotPositiveDefiniteError
from ldiv.structures.symmetric import Symmetric

RANK = 45
ON_HOST = True
REMEMBERED = True
# half the work, and an indefinite matrix is usually found out early
BY_CHOLESKY = True

DTYPES = ("float64", "complex128")


def supports(structure: Structure, dtype: Any, device: str, assume_a: str) -> str | None:
    if not (
        isinstance(structure, Symmetric) and structure.pattern is not None and assume_a == "pos"
    ):
        return "factors sparse matrices with assume_a='pos' only"
    if np.dtype(dtype).name not in DTYPES:
        return f"factors {' and '.join(DTYPES)}, not {np.dtype(dtype)}"
    if structure.op == "T" and np.dtype(dtype).kind == "c":
        return "factors Hermitian matrices; a complex one that is symmetric is not"
    if device != "cpu":
        return f"runs on the cpu, but the values are on {device}"
    return missing()


@lru_cache(maxsize=1)
def missing() -> str | None:
    """Why CHOLMOD cannot be called, and what to do about it."""
    try:
        library()
    except ImportError as error:
        return (
            f"needs scikit-sparse, which cannot be imported ({error}): install SuiteSparse "
            "(apt-get install libsuitesparse-dev), then "
            "pip install 'ldiv[cholmod]', or pip install 'scikit-sparse<0.5' "
            "where SuiteSparse is older than 7"
        )
    return None


@lru_cache(maxsize=1)
def library() -> Any:
    module = import_module("sksparse.cholmod")
    forking.release_openmp_of(module.__file__)
    return module


def analyze(structure: Any) -> Symbolic:
    return Symbolic(structure.pattern)


def factor(symbolic: Symbolic, structure: Any, p: Tree, assume_a: str) -> Factor:
    return CHOLMOD(symbolic, structure.slot_values(p))


class Symbolic(Arrangement):
    """The analysis of a pattern, one for real and one for complex matrices."""

    def __init__(self, pattern: Pattern) -> None:
        super().__init__(pattern)
        self.dialect = Dialect05() if hasattr(library(), "CholeskyFactor") else Dialect04()
        self._analyzed: dict[np.dtype[Any], Any] = {}

    def factored(self, m: Any) -> Any:
        if m.dtype not in self._analyzed:
            self._analyzed[m.dtype] = self._analyze(m)
        return self.dialect.factored(self._analyzed[m.dtype], m)

    def _analyze(self, m: Any) -> Any:
        try:
            return self.dialect.analyzed(m, "metis")
        except library().CholmodError:  # built without METIS
            return self.dialect.analyzed(m, "amd")


class CHOLMOD(Refined):
    """The factor L of the equilibrated matrix, which is Hermitian: A^T = conj(A)."""

    def __init__(self, symbolic: Symbolic, slots: Any) -> None:
        super().__init__(symbolic, slots)
        self._dialect = symbolic.dialect
        try:
            m = symbolic.pattern.csc(self._values)
            self._l = symbolic.factored(m)
        except library().CholmodNotPositiveDefiniteError:
            raise NotPositiveDefiniteError(self._name, "a pivot that is not positive") from None
        self.nbytes = self._dialect.entries(self._l, m) * (m.dtype.itemsize + 4) + m.data.nbytes
        self.check_suspect()

    def _solved(self, b: Any, op: str) -> Any:
        return (
            np.conj(self._dialect.solve(self._l, np.conj(b)))
            if op == "T"
            else self._dialect.solve(self._l, b)
        )

    def _log_pivots(self) -> Any:
        return np.real(self._l.logdet())


class Dialect04:
    """scikit-sparse 0.4: `analyze` gives a Factor, whose `cholesky` gives another."""

    def analyzed(self, m: Any, order: str) -> Any:
        return library().analyze(m, mode="supernodal", ordering_method=order)

    def factored(self, symbolic: Any, m: Any) -> Any:
        return symbolic.cholesky(m)

    def solve(self, l: Any, b: Any) -> Any:
        return l.solve_A(b)

    def entries(self, l: Any, m: Any) -> int:
        """An estimate: 0.4 reveals the count only by copying L.

        Nested dissection gives fewer in two dimensions, and in three up to 100,000 unknowns.
        """
        return int(2 * m.nnz * np.log2(m.shape[0] + 1))


class Dialect05:
    """scikit-sparse 0.5: a CholeskyFactor analyses, and a copy of it factors.

    It stores L by columns, not by supernodes.
    """

    def analyzed(self, m: Any, order: str) -> Any:
        return library().CholeskyFactor(m, supernodal_mode="supernodal", order=order)

    def factored(self, symbolic: Any, m: Any) -> Any:
        return symbolic.copy().factorize(m)

    def solve(self, l: Any, b: Any) -> Any:
        with warnings.catch_warnings():
            # it estimates the condition from the pivots; our probe is more reliable
            warnings.simplefilter("ignore", library().CholmodWarning)
            return l.solve(np.require(b, requirements="W"))  # read-only arrays are rejected

    def entries(self, l: Any, m: Any) -> int:
        return int(l.nnz)
