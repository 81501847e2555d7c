"""S(p) x = b, S(p)^-1 and determinants of a dense S as calls of a compiled program, without Python: one
factors, others solve. So are L^-1 B, A = L L^H, P A = L U, A = Q R, exp(A), A = X diag(lam) X^H and A = U
diag(s) V^H, with their derivatives.
`ldiv.rules.careful` has what such a call declines.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import broadcast
from ldiv.core.rules.compiled import CompiledCall, Record, Specs, record_of
from ldiv.core.rules.structure import Structure
from ldiv.engines.accuracy.accepted import DTYPES, MOST
from ldiv.engines.accuracy.singularity_check import direction
from ldiv.engines.factors.dense_calls import kind_of
from ldiv.engines.factors.programs import Parts, Programs, solution
from ldiv.engines.factors.triangle_calls import triangle_letters
from ldiv.engines.registry import name_of, on_host
from ldiv.structures.triangular import Triangular

# A row of the compiled table of operations. A call has a new number for every change of what it takes, gives or means.
OPERATION = "ldiv_operation_1"


@dataclass(frozen=True)
class DensePrograms(Programs):
    """Calls of a dense structure, by its kind of factor."""

    kind: str

    name, axes = "ldiv_dense_3", 2
    solves_with_constants = False  # a right-hand side is a direction of its own, and needs no probe

    def parts(self, p: Any) -> Parts | None:
        n, dtype = p.shape[-1], p.dtype
        if dtype not in DTYPES or n > MOST:
            return None
        real = np.finfo(dtype).dtype
        # F (n, n); pivots and a state, n + 1 whole numbers; norms and scales, 2 n + 2 real ones
        arrays = ((n, n), dtype), ((n + 1,), np.dtype(np.int32)), ((2 * n + 2,), real)
        return Parts(record_of(kind=self.kind), arrays, (direction(n)[:, 0].astype(real),))


def dense_programs(structure: Structure, assume_a: str, method: str) -> DensePrograms | None:
    """The calls in programs of a structure, if it has any."""
    if (found := kind_of(structure, assume_a, method)) is None:
        return None
    kind, op = found
    return DensePrograms(op, assume_a, method, kind)


# -- triangles --------------------------------------------------------------------------------------


def triangular_solve(
    structure: Structure, assume_a: str, method: str, vector: bool, p: Any, b: Any
) -> CompiledCall | None:
    base, op = structure.unview()
    if not isinstance(base, Triangular) or base.diagonal == "zero" or not _fits(p):
        return None
    if b.dtype != p.dtype or 0 in b.shape:
        return None
    if name_of(on_host(base, assume_a, method)) != "substitution":
        return None
    batch, x = solution(vector, p, 2, b)
    letters = triangle_letters(base.lower, base.diagonal == "unit", op, vector)
    record = record_of(what="solve_triangular", options=letters, assume_a=assume_a, method=method)
    return CompiledCall(OPERATION, record, ((x, p.dtype),), batch)


def cholesky(a: Any) -> CompiledCall | None:
    return _operation("cholesky", a, ((a.shape, a.dtype),))


def qr(a: Any) -> CompiledCall | None:
    *batch, _, n = a.shape
    return _operation("qr", a, ((a.shape, a.dtype), ((*batch, n, n), a.dtype)), is_probed=True)


def expm(a: Any, *es: Any) -> CompiledCall | None:
    """exp(A), or its derivative in one direction."""
    if len(es) > 1 or any(e.dtype != a.dtype for e in es):
        return None
    found = (*broadcast(*[x.shape[:-2] for x in (a, *es)]), *a.shape[-2:]), a.dtype
    return _operation("expm_derivative" if es else "expm", a, (found,), "N" * len(es))


def lu(a: Any) -> CompiledCall | None:
    *batch, m, n = a.shape
    whole = np.dtype(np.int32)
    return _operation(
        "lu", a, ((a.shape, a.dtype), ((*batch, min(m, n)), whole), ((*batch, m), whole))
    )


def eigh(a: Any) -> CompiledCall | None:
    """All pairs as a rule has them in units: lam, X, no guard pairs, error bounds, H, and t."""
    *batch, n, _ = a.shape
    real = _real(a)
    lam, none, h = ((*batch, n), real), ((*batch, 0), real), (a.shape, a.dtype)
    own = lam, h, none, ((*batch, n, 0), a.dtype), lam, h, lam, none, lam, h, ((*batch,), real)
    return _operation("eigh", a, own, is_probed=True, axes=1)


def eigenvectors(a: Any) -> CompiledCall | None:
    """lam and X alone."""
    lam = a.shape[:-1], _real(a)
    # numbers of the row's arrays that are left out: a is 0, lam 1, X 2
    record = record_of(without="345678")
    return _operation("eigh", a, (lam, (a.shape, a.dtype)), is_probed=True, axes=1, record=record)


def values(operation: str, letters: Mapping[str, str], a: Any) -> CompiledCall | None:
    """The min(m, n) eigenvalues or singular values alone, in the dtypes of these letters."""
    *batch, m, n = a.shape
    dtype = np.dtype(letters.get(a.dtype.char, a.dtype))
    return _operation(operation, a, (((*batch, min(m, n)), dtype),), axes=1)


def eig(a: Any) -> CompiledCall | None:
    """All pairs as a rule has them in units: lam, V, a size, H, lam and H in units, and t."""
    lam, v, one = (a.shape[:-1], _complex(a)), (a.shape, _complex(a)), (a.shape[:-2], _real(a))
    return _operation("eig", a, (lam, v, one, v, lam, v, one), is_probed=True, axes=1)


def eigvals_pullback(on_degenerate: str, *of: Any) -> CompiledCall | None:
    """A_bar of lam_bar, by A and the outputs of `eig`."""
    return _pullback("eigvals", on_degenerate, (0,), (7, 4, 1, 6), True, *of)


def eigh_pullback(on_degenerate: str, *of: Any) -> CompiledCall | None:
    """A_bar of lam_bar, X_bar or both, by the outputs of `eigh`."""
    return _pullback("eigh", on_degenerate, (0, 1), (6, 1, 8, 10), False, *of)


def svd(a: Any) -> CompiledCall | None:
    """All triplets as a rule has them in units: U, s, V^H, a size, H, s and H in units, and t."""
    *batch, m, n = a.shape
    k, real = min(m, n), _real(a)
    u, s, vh, h = (((*batch, *own), a.dtype) for own in ((m, k), (k,), (k, n), (k, k)))
    s, one = (s[0], real), (tuple(batch), real)
    return _operation("svd", a, (u, s, vh, one, h, s, h, one), is_probed=True)


def svd_pullback(on_degenerate: str, *of: Any) -> CompiledCall | None:
    """A_bar of U_bar, s_bar and V^H_bar, or some of them, by the outputs of `svd`."""
    return _pullback("svd", on_degenerate, (0, 1, 2), (0, 5, 2, 7), False, *of)


def _pullback(
    what: str,
    on_degenerate: str,
    smooth: Sequence[int],
    known: Sequence[int],
    is_probed: bool,
    given: Sequence[bool],
    batch: tuple[int, ...],
    flat: Sequence[Any],
) -> CompiledCall | None:
    """Return the call of `Pullback`, of outputs that are `known`; `smooth` ones may have cotangents."""
    if any(given[i] for i in range(len(given)) if i not in smooth):
        return None
    # places among the leaves: given cotangents come first, then the outputs
    count, a = sum(given), flat[-1]
    bars = [sum(given[:i]) for i in smooth if given[i]]
    # the row's arrays: the known outputs, then the cotangents; those without a value are left out
    missing = "".join([str(len(known) + j) for j, i in enumerate(smooth) if not given[i]])
    record = record_of(without=missing, on_degenerate=on_degenerate)
    takes = (*(count + i for i in known), *bars)
    a_bar = (*batch, *a.shape[-2:]), a.dtype
    return _operation(
        f"{what}_pullback", a, (a_bar,), is_probed=is_probed, takes=takes, record=record
    )


def _operation(
    what: str,
    a: Any,
    own: Specs,
    options: str = "",
    is_probed: bool = False,
    axes: int = 2,
    takes: tuple[int, ...] | None = None,
    record: Record = (),
) -> CompiledCall | None:
    """Return the call of a row of the table, whose first result, with so many own axes, has the batch
    axes of all.
    """
    if not _fits(a) or 0 in own[0][0]:
        return None
    batch = tuple(own[0][0][:-axes])
    # the random right-hand side of the probe, real, of the precision of A
    z = (direction(a.shape[-1])[:, 0].astype(np.finfo(a.dtype).dtype),) if is_probed else ()
    telling = (*record_of(what=what, options=options), *record)
    return CompiledCall(OPERATION, telling, own, batch, constants=z, takes=takes)


def _real(a: Any) -> Any:
    return np.finfo(a.dtype).dtype if a.dtype in DTYPES else a.dtype


def _complex(a: Any) -> Any:
    return np.result_type(a.dtype, np.complex64)


def _fits(a: Any) -> bool:
    return a.dtype in DTYPES and 0 not in a.shape and max(a.shape[-2:]) <= MOST
