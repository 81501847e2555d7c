"""The careful way after a call of a compiled program declines (`engines.factors.dense_programs`):
the same rule on NumPy arrays, which answers or raises.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ldiv.core.frameworks.pattern import Pattern
from ldiv.core.owners.holder import holding, store
from ldiv.core.policies.errstate import under
from ldiv.core.rules.rule import Rule, bind
from ldiv.core.rules.structure import Structure
from ldiv.engines.accuracy.accepted import LU as BY_LU
from ldiv.errors import NotPositiveDefiniteError, SingularMatrixError
from ldiv.rules.cholesky import Cholesky
from ldiv.rules.inverse import Inverse
from ldiv.rules.inverse_entries import InverseEntries
from ldiv.rules.lu import LU
from ldiv.rules.newton_step import OF, in_words
from ldiv.rules.slogdet import SLogDet
from ldiv.rules.solve import Solve
from ldiv.structures.dense import dense
from ldiv.structures.sparse import Sparse
from ldiv.structures.symmetric import Symmetric
from ldiv.structures.triangular import triangular

POSITIVE = "p"  # the form of a determinant that must be


def answer(
    text: str,
    letter: str,
    count: int,
    shapes: Sequence[tuple[int, int]],
    arrays: Sequence[bytes],
    entries: bytes,
) -> tuple[np.ndarray[Any, Any], ...]:
    """The outputs for `count` members, matrices of these shapes row by row; `text` is what the
    program was told. Of sparse matrices the first one is their values, and `entries` are the rows
    and columns of these.
    """
    batch = (count,) if count > 1 else ()
    flat = [
        np.frombuffer(x, np.dtype(letter)).reshape(*batch, *shape)
        for x, shape in zip(arrays, shapes, strict=True)
    ]
    what, *told = text.split(" ")
    of = next(filter(OF.__contains__, told), None)
    if of is not None:
        told.remove(of)
    if what == "sparse":
        flat[0] = flat[0][..., 0, :]
        rule = _sparse(np.frombuffer(entries, np.int32).reshape(2, -1), *told)
    else:
        rule = RULES[what](shapes[0][0], *told)
    try:
        with under(rule.policy), holding(store):  # which finds the factor again for the derivative
            out = bind(rule, *flat)
    except (SingularMatrixError, NotPositiveDefiniteError) as error:
        raise error if of is None else in_words(error, of) from error
    return tuple(np.ascontiguousarray(y, None if y.dtype.kind in "fc" else np.int32) for y in out)


def _structure(n: int, kind: str, op: str) -> Structure:
    base = dense(n, n)
    return (base if kind == BY_LU else Symmetric(base)).view(op)


def _solve(
    n: int, kind: str, op: str, _: str, assume_a: str, method: str, policy: str, __: str
) -> Rule:
    return Solve(_structure(n, kind, op), assume_a, method, policy=policy)


def _inverse(
    n: int, kind: str, op: str, _: str, assume_a: str, method: str, policy: str, __: str
) -> Rule:
    return Inverse(_structure(n, kind, op), assume_a, method, policy=policy)


def _logabsdet(
    n: int, kind: str, op: str, _: str, assume_a: str, method: str, policy: str, __: str
) -> Rule:
    return SLogDet(_structure(n, kind, op), assume_a, method, sign=False, policy=policy)


def _slogdet(n: int, kind: str, op: str, form: str, *told: str) -> Rule:
    return SLogDet(_structure(n, kind, op), positive=form == POSITIVE, policy=told[2])


def _triangular(
    n: int, uplo: str, op: str, diag: str, _: str, assume_a: str, method: str, __: str
) -> Rule:
    base = triangular(n, uplo == "L", "unit" if diag == "U" else "own")
    return Solve(base.view(op), assume_a, method)


def _sparse(
    entries: Any,
    what: str,
    kind: str,
    op: str,
    form: str,
    n: str,
    _: str,
    assume_a: str,
    method: str,
    policy: str,
    __: str,
) -> Rule:
    base: Structure = Sparse(Pattern(entries[0], entries[1], (int(n), int(n))))
    structure = (base if kind == BY_LU else Symmetric(base, kind)).view(op)
    if what == "solve":
        return Solve(structure, assume_a, method, policy=policy)
    if what == "entries":
        return InverseEntries(structure, assume_a, policy=policy)
    sign, positive = what == "slogdet", form == POSITIVE
    return SLogDet(structure, assume_a, method, sign, positive, policy=policy)


RULES: dict[str, Callable[..., Rule]] = {
    "solve": _solve,
    "inverse": _inverse,
    "logabsdet": _logabsdet,
    "slogdet": _slogdet,
    "triangular": _triangular,
    "cholesky": lambda *_: Cholesky(),
    "lu": lambda *_: LU(),
}
