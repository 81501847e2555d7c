"""The careful way after a call of a compiled program declines (`engines.factors.dense_programs`):
the same rule on NumPy arrays, which answers or raises.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ldiv.core.frameworks.pattern import Pattern
from ldiv.core.owners.holder import holding, store
from ldiv.core.policies.errstate import under
from ldiv.core.rules.rule import Rule, bind
from ldiv.core.rules.structure import Structure
from ldiv.engines.accuracy.accepted import LU as BY_LU
from ldiv.engines.functions.matrix_exponential import Exponential
from ldiv.errors import NotPositiveDefiniteError, SingularMatrixError
from ldiv.rules.adjugate import Adjugate
from ldiv.rules.careful_spectra import OF_SPECTRA
from ldiv.rules.cholesky import Cholesky
from ldiv.rules.det import Det
from ldiv.rules.inverse import Inverse
from ldiv.rules.inverse_entries import InverseEntries
from ldiv.rules.lu import LU
from ldiv.rules.matrix_map import MatrixMap
from ldiv.rules.newton_step import in_words
from ldiv.rules.qr import QR
from ldiv.rules.slogdet import SLogDet
from ldiv.rules.solve import Solve
from ldiv.structures.dense import dense
from ldiv.structures.sparse import Sparse
from ldiv.structures.symmetric import Symmetric
from ldiv.structures.triangular import triangular

POSITIVE = "p"  # the form of a determinant that must be
OF_ONE_KIND: Mapping[str, Rule] = {
    "cholesky": Cholesky(),
    "lu": LU(),
    "qr": QR(),
    "expm": MatrixMap(Exponential()),
    "expm_derivative": MatrixMap(Exponential(), 1),
}
OF_DETERMINANTS: Mapping[str, type[Rule]] = {"det": Det, "adjugate": Adjugate}
Given = tuple[
    str, tuple[int, int], bytes
]  # the letter of a dtype, a shape, and matrices row by row


def answer(
    record: Mapping[str, str], count: int, arrays: Sequence[Given]
) -> tuple[np.ndarray[Any, Any], ...]:
    """The outputs for `count` members; `record` is the record that the program has. Of sparse matrices
    the first array is their values, and the second one the rows and columns of these.
    """
    batch = (count,) if count > 1 else ()
    given, places = [*arrays], None
    # of sparse matrices the second array holds rows and columns, which all members share
    if "name" in record:
        letter, shape, x = given.pop(1)
        places = np.frombuffer(x, letter).reshape(shape)
    flat = [np.frombuffer(x, letter).reshape(*batch, *shape) for letter, shape, x in given]
    if places is not None:
        flat[0] = flat[0][..., 0, :]
    if record["what"] in OF_SPECTRA:
        rule, leaves = OF_SPECTRA[record["what"]](record, flat)
    else:
        rule, leaves = _rule(record, flat[0], places), flat
        if isinstance(rule, Adjugate):
            leaves = [*flat, *bind(Det(policy=rule.policy), *flat)]
    of = record.get("of")
    try:
        with under(rule.policy), holding(store):  # which finds the factor again for the derivative
            out = bind(rule, *leaves)
    except (SingularMatrixError, NotPositiveDefiniteError) as error:
        raise error if of is None else in_words(error, of) from error
    return tuple(
        np.ascontiguousarray(y, None if y.dtype.kind in "fc" else np.int32) for y in out if y.size
    )


def _rule(record: Mapping[str, str], a: Any, places: Any) -> Rule:
    what = record["what"]
    if what in OF_ONE_KIND:
        return OF_ONE_KIND[what]
    policy, which = record.get("singular", "raise"), (record["assume_a"], record["method"])
    if what == "solve_triangular":
        uplo, diag, op, _ = [*record["options"]]
        base = triangular(a.shape[-1], uplo == "L", "unit" if diag == "U" else "own")
        return Solve(base.view(op), *which, policy=policy)
    if what in OF_DETERMINANTS:
        return OF_DETERMINANTS[what](policy=policy)
    structure = _structure(record, a, places)
    if what == "solve":
        return Solve(structure, *which, policy=policy)
    if what == "inverse":
        return (
            Inverse(structure, *which, policy=policy)
            if places is None
            else InverseEntries(structure, which[0], policy=policy)
        )
    return SLogDet(structure, *which, what == "slogdet", record["form"] == POSITIVE, policy=policy)


def _structure(record: Mapping[str, str], a: Any, places: Any) -> Structure:
    """The structure of the matrix, dense or sparse, in the view that the program has of it."""
    n, kind = a.shape[-1] if places is None else int(record["n"]), record["kind"]
    base: Structure = (
        dense(n, n) if places is None else Sparse(Pattern(places[0], places[1], (n, n)))
    )
    if kind != BY_LU:
        base = Symmetric(base, "T" if kind == "T" else "H")
    return base.view(record["op"])
