"""What a call of a compiled program accepts of hard problems, the careful way accepts: dense, by
LAPACK and in Python; and the answers differ by rounding.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from adversarial import problems, solves, xla_fuzz

import ldiv
from ldiv.core.rule import bind
from ldiv.engines.libraries import native
from ldiv.rules import careful
from ldiv.rules.inverse import Inverse
from ldiv.rules.inverse_entries import InverseEntries
from ldiv.rules.slogdet import SLogDet
from ldiv.rules.solve import Solve
from ldiv.structures.dense import dense
from ldiv.structures.symmetric import Symmetric

pytestmark = pytest.mark.skipif(native.native is None, reason=native.why_not)
REFUSED = ldiv.SingularMatrixError, ldiv.NotPositiveDefiniteError
Array = np.ndarray[Any, Any]


def rule_of(asked: str, structure: Any, assume_a: str, method: str) -> Any:
    if asked == "solve":
        return Solve(structure, assume_a, method)
    if asked == "inverse":
        is_dense = isinstance(structure.unview()[0], type(dense(1, 1))) or method != "auto"
        return (
            Inverse(structure, assume_a, method)
            if is_dense
            else InverseEntries(structure, assume_a)
        )
    return SLogDet(structure, assume_a, method, sign=asked == "slogdet")


def one(seed: int, number: int) -> tuple[str, str]:
    """What was asked, and what came: accepted, declined, or the fault."""
    rng = np.random.default_rng([seed, number])
    problem = problems.draw(rng, 40)
    a = np.ascontiguousarray(problem.a)
    n, eps = len(a), np.finfo(a.dtype).eps
    is_hermitian = np.array_equal(a, a.conj().T)
    assume_a = str(rng.choice(["gen", "pos"] if is_hermitian else ["gen"]))
    form, asked = (
        str(rng.choice(["dense", "csc"])),
        str(rng.choice(["solve", "logabsdet", "inverse"])),
    )
    flat: tuple[Array, ...] = (a,)
    own: Any = dense(n, n)
    whole, base = own, own
    if form == "csc":
        given = solves.matrix(a, form)[0]
        own = base = given.structure
        flat = (np.ascontiguousarray(given.data),)
    if assume_a == "pos":
        own, whole = Symmetric(own), Symmetric(whole)
    b = (a @ rng.standard_normal((n, int(rng.integers(1, 4))))).astype(a.dtype)
    right = (b,) if asked == "solve" else ()
    name = f"{asked} {form} {assume_a}"
    call = rule_of(asked, own, assume_a, "auto").compiled_call(*flat, *right)
    if call is None:
        return name, "no call"
    results = tuple(np.full(shape, np.nan, dtype) for shape, dtype in call.own)
    arguments = (*flat, *right, *call.pattern, call.probe)
    if xla_fuzz.Call(call.name, f"{call.rule} alone", arguments, results, slice(0)).run():
        return name, "declined"
    saved, native.native = native.native, None
    try:
        expected = bind(rule_of(asked, whole, assume_a, "lapack"), a, *right)
    except REFUSED as error:
        return name, f"accepted, where the careful way says: {error}"
    finally:
        native.native = saved
    x, y = results[0], np.asarray(expected[0])
    if asked == "solve":
        exact = a.astype(np.clongdouble)
        size = np.abs(exact).sum(1).max() * np.abs(y).max(0) + 1e-300
        error, most = np.abs(exact @ (x - y)).max(0) / size, 1000 * eps
    else:
        scaled, r, c = problem.scaled
        most = 100 * n * eps * problem.condition
        if asked == "inverse":
            y = np.asarray(y, np.clongdouble)
            units = np.outer(c.ravel(), r.ravel())
            if form == "csc":
                i, j = base.entries.rows, base.entries.cols
                y, units = y.T[i, j].conj(), units.T[i, j]
            error = np.abs(x - y) / units / np.abs(np.linalg.inv(scaled)).max()
        else:
            error, most = np.abs(x - y), most + 10 * eps * np.abs(y)
    return name, "accepted" if (error <= most).all() else f"{error.max() / eps:.0f} eps"


def declines(*_: Any) -> Any:
    raise ArithmeticError("declined")


@pytest.mark.parametrize("count", [300, pytest.param(6000, marks=pytest.mark.exhaustive)], ids=str)
def test_nothing_is_accepted_that_the_careful_way_refuses(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(careful, "answer", declines)
    came = Counter(one(count, number) for number in range(count))
    wrong = {of: k for of, k in came.items() if of[1] not in ("accepted", "declined", "no call")}
    assert not wrong
    outcomes = Counter(outcome for of, outcome in came.elements())
    assert min(outcomes["accepted"], outcomes["declined"]) > count / 10
