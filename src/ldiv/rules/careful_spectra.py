"""The rules of eigenpairs and singular triplets after calls of compiled programs decline
(`ldiv.rules.careful`), and their arguments, made of those of the calls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ldiv.core.rules.pullback import Pullback
from ldiv.core.rules.rescaling import InUnits
from ldiv.core.rules.rule import Rule
from ldiv.core.rules.some_outputs import SomeOutputs
from ldiv.engines.eigen.task import EigenTask
from ldiv.engines.factors.spectral_calls import (
    EigenvalueCalls,
    GeneralValueCalls,
    SingularValueCalls,
    VectorCalls,
)
from ldiv.rules.eig import Eig
from ldiv.rules.eigenpairs import Eigenpairs
from ldiv.rules.svd import SVD
from ldiv.structures.dense import dense
from ldiv.structures.identity import Identity
from ldiv.structures.symmetric import Symmetric

Record = Mapping[str, str]
Arrays = Sequence[Any]


def eigh(record: Record, flat: Arrays) -> tuple[Rule, Arrays]:
    n, how = flat[0].shape[-1], record.get("on_degenerate", "raise")
    a = Symmetric(dense(n, n), "H")
    task = EigenTask(a, Identity(n), n, which="index", method="lapack", on_degenerate=how)
    return InUnits(Eigenpairs(task)), flat


def eigenvectors(record: Record, flat: Arrays) -> tuple[Rule, Arrays]:
    return SomeOutputs(eigh(record, flat)[0], (0, 1), VectorCalls()), flat


def eigvalsh(record: Record, flat: Arrays) -> tuple[Rule, Arrays]:
    return SomeOutputs(eigh(record, flat)[0], (0,), EigenvalueCalls()), flat


def eig(record: Record, flat: Arrays) -> tuple[Rule, Arrays]:
    return InUnits(Eig(on_degenerate=record.get("on_degenerate", "raise"))), flat


def eigvals(record: Record, flat: Arrays) -> tuple[Rule, Arrays]:
    return SomeOutputs(eig(record, flat)[0], (0,), GeneralValueCalls()), flat


def svd(record: Record, flat: Arrays) -> tuple[Rule, Arrays]:
    return InUnits(SVD(record.get("on_degenerate", "raise"))), flat


def svdvals(record: Record, flat: Arrays) -> tuple[Rule, Arrays]:
    return SomeOutputs(svd(record, flat)[0], (1,), SingularValueCalls()), flat


def eigh_pullback(record: Record, flat: Arrays) -> tuple[Rule, Arrays]:
    """The arguments are lam, X, error bounds and t, in units of t^2 A, and cotangents."""
    lam, x, bound, t = flat[0][..., 0], flat[1], flat[2][..., 0], flat[3][..., 0, 0]
    none, h = lam[..., :0], _diagonal(lam, x)
    out = lam, x, none, x[..., :0], bound, h, lam, none, bound, h, t
    return _pulled(record, eigh(record, [x])[0], (1, 2, 1, 2, 1, 2, 1, 1, 1, 2, 0), out, flat, x)


def eigvals_pullback(record: Record, flat: Arrays) -> tuple[Rule, Arrays]:
    """The arguments are A, and lam, V and t, in units of t^2 A, and a cotangent."""
    a, lam, v, t = flat[0], flat[1][..., 0], flat[2], flat[3][..., 0, 0]
    h = _diagonal(lam, v)
    return _pulled(
        record, eig(record, [a])[0], (1, 2, 0, 2, 1, 2, 0), (lam, v, 0 * t, h, lam, h, t), flat, a
    )


def svd_pullback(record: Record, flat: Arrays) -> tuple[Rule, Arrays]:
    """The arguments are U, s, V^H and t, in units of t^2 A, and cotangents."""
    u, s, vh, t = flat[0], flat[1][..., 0], flat[2], flat[3][..., 0, 0]
    h = _diagonal(s, u)
    out, a = (u, s, vh, 0 * t, h, s, h, t), u @ vh
    return _pulled(record, svd(record, [a])[0], (2, 1, 2, 0, 2, 1, 2, 0), out, flat, a)


def _diagonal(values: Any, like: Any) -> Any:
    return values[..., None] * np.eye(values.shape[-1], dtype=like.dtype)


def _pulled(
    record: Record, rule: Rule, own: tuple[int, ...], out: Arrays, flat: Arrays, a: Any
) -> tuple[Rule, Arrays]:
    """The pullback of these outputs, of which those in the units of A are not read."""
    # arguments 0 .. 3 are what the derivative reads; of the cotangents behind them `without` has
    # the digits of those that are not given
    missing, count = record["without"], len(record["without"]) + len(flat)  # arguments of the call
    given = tuple([4 + j < count and str(4 + j) not in missing for j in range(len(own))])
    axes = [n for n, is_given in zip(own, given, strict=True) if is_given]
    bars = [bar[..., 0] if n == 1 else bar for bar, n in zip(flat[4:], axes, strict=True)]
    return Pullback(rule, given, (True,), own), [*bars, *out, a]


OF_SPECTRA = {
    "eigh": lambda record, flat: (eigenvectors if "without" in record else eigh)(record, flat),
    "eigvalsh": eigvalsh,
    "eigh_pullback": eigh_pullback,
    "eig": eig,
    "eigvals": eigvals,
    "eigvals_pullback": eigvals_pullback,
    "svd": svd,
    "svdvals": svdvals,
    "svd_pullback": svd_pullback,
}
