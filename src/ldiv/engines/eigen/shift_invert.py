"""(A - sigma B)^-1 on the host by a direct engine; the call keeps the factor for the derivative."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import conj, result_dtype
from ldiv.core.frameworks.pattern import Pattern
from ldiv.core.frameworks.trees import Tree, leaves
from ldiv.core.owners.caches import emptied_by
from ldiv.core.policies.errstate import errstate
from ldiv.core.rules.structure import Structure
from ldiv.engines.factors.cache import fingerprint
from ldiv.engines.factors.escalation import Escalating
from ldiv.engines.factors.factorize import factorize
from ldiv.engines.factors.plan import planned
from ldiv.engines.iterative.matrix_product import Product
from ldiv.engines.registry import Engine
from ldiv.errors import OF_SHIFTS, NotPositiveDefiniteError, SingularMatrixError
from ldiv.structures.composed import all_entries, concatenated, entry_values, is_dense, joined
from ldiv.structures.dense import Dense
from ldiv.structures.diagonal import Diagonal
from ldiv.structures.identity import Identity
from ldiv.structures.sparse import Sparse
from ldiv.structures.symmetric import Symmetric


def shift_inverse(
    A: Structure, B: Structure, pA: Tree, pB: Tree, sigma: complex, hermitian: bool = True
) -> Solves:
    """Y -> (A - sigma B)^-1 Y."""
    structure, p = (A, pA) if sigma == 0 else shifted(A, B, pA, pB, sigma, hermitian)
    try:
        with errstate(singular="raise"):
            definite = _by_trial(structure, p) if hermitian else None
            return definite or _by_factor(structure, p, "gen")
    except SingularMatrixError as error:
        evidence = f"that sigma = {sigma:g} is an eigenvalue, or as good as one"
        raise SingularMatrixError(
            error.engine, evidence, what="A - sigma M", causes=OF_SHIFTS
        ) from error


def inverse(B: Structure, pB: Tree, assumption: str = "pos") -> Product:
    """Y -> B^-1 Y, by default for a positive definite B."""
    return (lambda y: y) if isinstance(B, Identity) else _by_factor(B, pB, assumption)


@dataclass(frozen=True, eq=False)
class Solves:
    """Y -> S^-1 Y by a factor of S, a view `op` of what was factored."""

    factor: Escalating
    op: str
    dtype: Any
    order: int
    definite: bool

    def __call__(self, y: Any) -> Any:
        """Solve for y; with a real factor, real and imaginary parts are solved separately."""
        # S^-1 (y_1 + i y_2) = S^-1 y_1 + i S^-1 y_2 for a real S
        if y.dtype.kind == "c" != self.dtype.kind:
            return self(y.real) + 1j * self(y.imag)
        # conj(S)^-1 y = conj(S^-1 conj(y))
        block, solve = y.reshape(len(y), -1), self.factor.solve_unrefined
        x: Any = solve(block, self.op) if self.op != "C" else conj(solve(conj(block), "N"))
        return x.reshape(y.shape)

    def signs(self) -> tuple[int, int] | None:
        """The numbers of positive and negative eigenvalues of S, None if the factor does not show them."""
        return (self.order, 0) if self.definite else self.factor.signs()


def _by_factor(structure: Structure, p: Tree, assumption: str) -> Solves:
    """Solves with a factor that is known to be nonsingular."""
    base, op = structure.plain.unview()
    dtype = result_dtype(p)
    factor_plan = planned(base, p, None, assumption, "direct").factors
    assert factor_plan is not None, "a direct method"
    factor = factorize(factor_plan, p)[0]
    factor.check_nonsingular()
    return Solves(factor, op, dtype, structure.shape[0], assumption == "pos")


# Hashes of fingerprints of matrices that Cholesky refuted: equal fingerprints are not tried again. An
# error here costs time, not accuracy, since factors are found by comparing all values. A fingerprint is a
# pass over the values, a thousandth of a factorization; arrays have no version, and may have been
# written to.
_indefinite: deque[int] = deque(maxlen=64)
emptied_by(_indefinite.clear)


def _by_trial(structure: Structure, p: Tree) -> Solves | None:
    """Factor by Cholesky, if the matrix is definite by structure, or if it may be and a try is cheap.

    None if it is not definite.
    """
    if structure.definite:
        return _by_factor(structure, p, "pos")
    if (pattern := structure.pattern) is None or not _engine(structure, p).BY_CHOLESKY:
        return None
    slots = structure.slot_values(p)
    at = structure.cached("on diagonal", lambda: np.flatnonzero(pattern.indices == pattern.columns))
    # necessary conditions first: a positive diagonal, and no failure with these values before
    if (
        len(at) < structure.shape[0]
        or not (slots[at].real > 0).all()
        or (tried := hash((structure, fingerprint(slots)))) in _indefinite
    ):
        return None
    try:
        return _by_factor(structure, p, "pos")
    except NotPositiveDefiniteError:
        _indefinite.append(tried)
        return None


def _engine(structure: Structure, p: Tree) -> Engine:
    return planned(structure, p, None, "pos", "direct").engine


def factors(A: Structure, B: Structure) -> bool:
    """Whether A and B have explicit entries, from which those of A - sigma B are computed."""
    return all(
        is_dense(base) or isinstance(base, Identity | Diagonal) or base.pattern is not None
        for base in (A.unview()[0], B.unview()[0])
    )


def shifted(
    A: Structure, B: Structure, pA: Tree, pB: Tree, sigma: complex, hermitian: bool = True
) -> tuple[Structure, Tree]:
    """A - sigma B on one pattern, or as one dense array."""
    part = Symmetric if hermitian else _itself
    dtype = np.finfo(leaves(pA)[0].dtype).dtype
    # sigma in the precision of A, so that a float32 pencil stays in float32
    shift = dtype.type(sigma) if np.isrealobj(sigma) else sigma * np.ones((), dtype)
    if is_dense(A) or is_dense(B):
        b = np.eye(B.shape[0], dtype=dtype) if isinstance(B, Identity) else B.todense(pB)
        return part(Dense(*A.shape)), A.todense(pA) - shift * b
    # one pattern for all sigma: its symbolic analysis is kept with A
    structure: Structure = A.cached(("pencil", B, hermitian), lambda: part(Sparse(_both(A, B))))
    b = np.ones(B.shape[0], dtype) if isinstance(B, Identity) else entry_values(B, pB)
    # duplicates are summed: a_ij - sigma b_ij where both have an entry
    return structure, joined([entry_values(A, pA), -shift * b])


def _itself(structure: Structure) -> Structure:
    return structure


def _both(A: Structure, B: Structure) -> Pattern:
    """The entries of A, then those of B; duplicates are summed."""
    places = all_entries((A, Diagonal(B.shape[0]) if isinstance(B, Identity) else B))
    assert places is not None
    return Pattern(*concatenated(places), A.shape)
