"""The law that the careful way accepts all answers that compiled code accepts for hard problems, up
to rounding.

A problem of `problems.draw` is asked of a compiled call on NumPy arrays or tensors, or of the call of a
compiled program: solutions with A and its views, their cotangents, triangles, determinants with and
without sign, inverses, factors; dense and sparse, `gen`, `her` and `pos`. The careful way is LAPACK and
Python alone, on the dense matrix.

    PYTHONPATH=tests python -m adversarial.accepted --problems 25000 --seed 0
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

import ldiv
from adversarial import problems, solves, xla_fuzz
from ldiv.core.rules.compiled import computed, pulled_back
from ldiv.core.rules.rule import Rule, bind, program_of
from ldiv.engines.libraries import native
from ldiv.rules import careful
from ldiv.rules.cholesky import Cholesky
from ldiv.rules.inverse import Inverse
from ldiv.rules.inverse_entries import InverseEntries
from ldiv.rules.lu import LU
from ldiv.rules.slogdet import SLogDet
from ldiv.rules.solve import Solve
from ldiv.structures.dense import dense
from ldiv.structures.symmetric import Symmetric
from ldiv.structures.triangular import triangular

Array = np.ndarray[Any, Any]
REFUSED = ldiv.SingularMatrixError, ldiv.NotPositiveDefiniteError
# of an engine whose verdict is Python's, of a problem that need not be solved and need not be refused
DOUBT = "solved by one engine and refused by another"
FINE = "accepted", "declined", "no call", DOUBT
ANY = "solve", "cotangent", "slogdet", "logabsdet", "inverse"
OF_DENSE = {"gen": ("lu",), "pos": ("cholesky",)}
TRIANGLES = {"lower triangular": True, "upper triangular": False}


class Asked(NamedTuple):
    """A rule and its arguments; the careful way asks `reference` of `whole`, the dense matrix and
    what follows it.
    """

    name: str
    what: str
    rule: Rule
    flat: tuple[Array, ...]
    reference: Rule
    whole: tuple[Array, ...]
    op: str = "N"  # of a solution: op(A) x = b


def drawn(rng: np.random.Generator, problem: problems.Problem) -> Asked:
    """Anything that has a compiled answer."""
    a, n = np.ascontiguousarray(problem.a), problem.n
    kinds = ["gen", *(["her", "pos"] if np.array_equal(a, a.conj().T) else [])]
    kinds += [name for name in TRIANGLES if name in problem.assumptions]
    kind, form = str(rng.choice(kinds)), str(rng.choice(["dense", "csc"]))
    op = "N" if kind in ("her", "pos") else str(rng.choice(list("NTH")))
    columns = rng.standard_normal((n, int(rng.integers(1, 4))))
    b = (problems.view(a, op) @ columns).astype(a.dtype)
    if kind in TRIANGLES:
        rule = Solve(triangular(n, TRIANGLES[kind], "own").view(op), "gen", "auto")
        return Asked(f"solve {kind} {op}", "solve", rule, (a, b), rule, (a, b), op)
    own: Any = dense(n, n)
    whole, given = own, a
    if form == "csc":
        sparse = solves.matrix(a, form)[0]
        own, given = sparse.structure, np.ascontiguousarray(sparse.data)
    if kind != "gen":
        own, whole = Symmetric(own), Symmetric(whole)
    of_dense = OF_DENSE.get(kind, ()) if form == "dense" else ()
    what = str(rng.choice([*ANY, *of_dense]))
    name = f"{what} {form} {kind}"
    if what in ("solve", "cotangent"):
        rule, reference = (
            Solve(s.view(op), kind, method) for s, method in ((own, "auto"), (whole, "lapack"))
        )
        return Asked(f"{name} {op}", what, rule, (given, b), reference, (a, b), op)
    if what in ("lu", "cholesky"):
        rule = LU() if what == "lu" else Cholesky()
        return Asked(name, what, rule, (a,), rule, (a,))
    if what == "inverse":
        reference = Inverse(whole, kind, "lapack")
        by = Inverse(own, kind, "auto") if form == "dense" else InverseEntries(own, kind)
        return Asked(name, what, by, (given,), reference, (a,))
    if what == "slogdet":  # of any matrix: the sign of a determinant needs no symmetry
        own, whole, kind = (dense(n, n) if form == "dense" else own), dense(n, n), "gen"
    determinant = SLogDet(own, kind, "auto", sign=what == "slogdet")
    return Asked(
        name, what, determinant, (given,), SLogDet(whole, kind, "lapack", sign=False), (a,)
    )


# -- who answers ------------------------------------------------------------------------------------


def by_call(asked: Asked) -> Any:
    if not is_compiled(asked.rule, asked.flat):
        return _by_engine(asked.rule, asked.flat)
    if (made := computed(asked.rule.compiled, asked.flat)) is None:
        return None
    found, _ = made
    if asked.what != "cotangent":
        return found
    bars = pulled_back(asked.rule.compiled, (True, True), (asked.flat[1],), found, asked.flat)
    return bars and [bars[1]]


def by_tensors(asked: Asked) -> Any:
    import torch

    from ldiv.frontends.torch.graph.node import compiled

    tensors = [torch.from_numpy(x.copy()) for x in asked.flat]
    by = compiled if is_compiled(asked.rule, tensors) else _by_engine
    found = by(asked.rule, tensors)
    return found and [x.numpy() for x in found]


def is_compiled(rule: Rule, flat: Any) -> bool:
    return rule.compiled is not None and rule.compiled.taking(*flat) is not None


def _by_engine(rule: Rule, flat: Any) -> Any:
    """A kernel, whose engine is compiled."""
    try:
        return bind(rule, *flat)
    except REFUSED:
        return None


def by_program(asked: Asked) -> Any:
    call = program_of(asked.rule, *asked.flat)
    if call is None:
        return "no call"
    for stage in xla_fuzz.staged(call, *asked.flat):
        said, found = stage.run(), stage.results
    return None if said else found


WAYS: dict[str, Callable[[Asked], Any]] = {
    "NumPy": by_call,
    "PyTorch": by_tensors,
    "program": by_program,
}


@contextmanager
def replaced(module: Any, name: str, by: Any) -> Iterator[None]:
    saved = getattr(module, name)
    setattr(module, name, by)
    try:
        yield
    finally:
        setattr(module, name, saved)


def _declines(*_: Any) -> Any:
    raise ArithmeticError("declined")


def one(seed: int, number: int) -> tuple[str, str]:
    """Return the call and its outcome: accepted, declined, or the fault."""
    rng = np.random.default_rng([seed, number])
    problem = problems.draw(rng, 40)
    asked, way = drawn(rng, problem), str(rng.choice(list(WAYS)))
    if asked.what == "cotangent":  # elsewhere that is a call among others
        way = "NumPy"
    name = f"{way}: {asked.name}"
    with replaced(careful, "answer", _declines):
        found = WAYS[way](asked)
    if found is None or isinstance(found, str):
        return name, found or "declined"
    by_engine = way != "program" and not is_compiled(asked.rule, asked.flat)
    with replaced(native, "native", None):
        try:
            expected = carefully(asked)
        except REFUSED as error:
            if by_engine and problem.verdict == "between":
                return name, DOUBT
            return name, f"accepted, where the careful way says: {error}"
    excess = beyond_rounding(problem, asked, found, expected)
    return name, "accepted" if excess <= 1 else f"{excess:.1f} times what is allowed"


def carefully(asked: Asked) -> list[Array]:
    a = asked.whole[0]
    if asked.what == "cotangent":
        rule = replace(asked.reference, structure=asked.reference.structure.H)
        return [*bind(rule, *asked.whole)]
    found = [*bind(asked.reference, *asked.whole)]
    if asked.what == "slogdet":
        found = [*bind(SLogDet(dense(*a.shape)), a)][:1] + found
    return found


# -- how answers are compared -----------------------------------------------------------------------


def beyond_rounding(problem: problems.Problem, asked: Asked, found: Any, expected: Any) -> float:
    """The largest difference, over what rounding may do."""
    a, n, eps = asked.whole[0], problem.n, problem.eps
    x, y = found[-1], expected[-1]
    by_condition = (1000 + 100 * n) * eps * problem.condition
    if asked.what in ("solve", "cotangent"):
        view = problems.view(a, asked.op)
        view = (view if asked.what == "solve" else view.conj().T).astype(np.clongdouble)
        size = np.abs(view).sum(1).max() * np.abs(y).max(0) + 1e-300
        return _worst(np.abs(view @ (x - y)).max(0) / size / (1000 * eps))
    if asked.what in ("lu", "cholesky"):
        # the smallest numbers may have lost their digits
        error, other = (_worst(_of_factors(asked.what, a, each)) for each in (found, expected))
        return error / max(10 * n * eps, 2 * other)
    if asked.what == "inverse":
        scaled, r, c = problem.scaled
        y, units = np.asarray(y, np.clongdouble), np.outer(c.ravel(), r.ravel())
        if x.ndim == 1:
            places = solves.matrix(a, "csc")[0].structure.entries
            y, units = (z.T[places.rows, places.cols].conj() for z in (y, units))
        return _worst(np.abs(x - y) / units / np.abs(np.linalg.inv(scaled)).max()) / by_condition
    if asked.what == "slogdet" and abs(found[0] - expected[0]) > min(1, by_condition):
        return np.inf
    return _worst(np.abs(x - y) / (by_condition + 10 * eps * np.abs(y)))


def _of_factors(what: str, a: Array, found: Any) -> Array:
    """|A - L U| / |L| |U|, by entries."""
    a, packed = (x.astype(np.clongdouble) for x in (a, found[0]))
    if what == "lu":
        a, upper = a[found[2]], np.triu(packed)
        lower = np.tril(packed, -1) + np.eye(len(a))
    else:
        lower, upper = packed, packed.conj().T
    size = np.abs(lower) @ np.abs(upper)
    return np.abs(a - lower @ upper) / np.where(size > 0, size, 1)


def _worst(x: Array) -> float:
    """Infinite where a number is none."""
    largest = float(np.max(x, initial=0))
    return np.inf if np.isnan(largest) else largest


def run(seed: int, count: int, first: int = 0) -> Counter[tuple[str, str]]:
    """Return the count of each outcome; faults with their numbers."""
    came: Counter[tuple[str, str]] = Counter()
    for number in range(first, first + count):
        name, outcome = one(seed, number)
        came[name, outcome if outcome in FINE else f"{outcome} ({seed}, {number})"] += 1
    return came


def faults(came: Counter[tuple[str, str]]) -> list[str]:
    return [f"{name}: {outcome}" for name, outcome in came if outcome not in FINE]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--problems", type=int, default=25_000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    assert native.native is not None, native.why_not
    came = run(given.seed, given.problems)
    for (name, outcome), number in sorted(came.items()):
        print(f"{number:8}  {name}: {outcome}")
    print(dict(Counter(outcome for _, outcome in came.elements())))
    return len(faults(came)) > 0


if __name__ == "__main__":
    sys.exit(main())
