"""Arrays are written to before a call, between the call and its derivative, and after it: old
numbers or new ones, never a mixture.

What a derivative is of is what the call was given; what it returned belongs to the caller. PyTorch
may refuse instead, by its version counters.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import ldiv
from adversarial import functions
from adversarial.case import Wrong
from adversarial.functions import FUNCTIONS
from ldiv.core.frameworks.dispatch import asnumpy

RTOL = 1e-9
MOMENTS = ("before", "between", "after")
FORMS = ("dense", "coo", "csr", "banded")


def numbers(y: Any) -> list[Any]:
    """The arrays of a result, copied."""
    if isinstance(y, tuple | list):
        return [x for part in y for x in numbers(part)]
    if isinstance(y, ldiv.Matrix):
        return numbers(y.params)
    return [] if y is None else [np.array(asnumpy(y))]


def require_equal(what: str, found: list[Any], expected: list[Any]) -> None:
    if len(found) != len(expected):
        raise Wrong(what, f"{len(found)} arrays instead of {len(expected)}")
    for x, y in zip(found, expected, strict=True):
        if x.shape != y.shape or not np.abs(x - y).max(initial=0) <= RTOL * max(
            1, np.abs(y).max(initial=0)
        ):
            raise Wrong(
                what,
                f"by {np.abs(x - y).max():.1e}"
                if x.shape == y.shape
                else f"shape {x.shape} instead of {y.shape}",
            )


def spoil(arrays: list[Any]) -> None:
    for x in arrays:
        x[...] = 7.0


# -- NumPy --------------------------------------------------------------------


def of_numpy(name: str, moment: str) -> str:
    f, given = FUNCTIONS[name]
    args = [a.copy() for a in given]
    try:
        y, pullback = ldiv.vjp(f, *args)
        values = numbers(y)
        cotangents = [np.cos(np.arange(v.size)).reshape(v.shape).astype(v.dtype) for v in values]
        y_bar = tuple(cotangents) if isinstance(y, tuple) else cotangents[0]
        expected = numbers(pullback(y_bar))
    except (ValueError, TypeError) as error:
        if ", got " not in str(error):
            raise
        return "not differentiated in NumPy"
    if moment == "before":
        spoil(args)
        for a, old in zip(args, given, strict=True):
            a[...] = old * 1.01
        fresh_y, fresh_pullback = ldiv.vjp(f, *[a.copy() for a in args])
        expected = numbers(fresh_pullback(y_bar))
        ldiv.clear_cache()
        y, pullback = ldiv.vjp(f, *args)
        require_equal("a value after a change in place", numbers(y), numbers(fresh_y))
    elif moment == "between":
        spoil([*args, *[x for x in (y if isinstance(y, tuple) else (y,)) if np.ndim(x)]])
    bars = pullback(y_bar)
    require_equal(f"a cotangent, changed {moment}", numbers(bars), expected)
    if moment == "after":
        spoil([*args, *cotangents])
        require_equal("values that share memory with an argument", numbers(y), values)
        require_equal("cotangents that share memory with an argument", numbers(bars), expected)
        spoil([x for x in bars if isinstance(x, np.ndarray) and np.ndim(x)])
        fresh = [np.cos(np.arange(v.size)).reshape(v.shape).astype(v.dtype) for v in values]
        again = pullback(tuple(fresh) if isinstance(y, tuple) else fresh[0])
        require_equal("a second pullback", numbers(again), expected)
    return "right"


# -- PyTorch ------------------------------------------------------------------


def of_torch(name: str, moment: str) -> str:
    import torch

    def called(values: Any) -> tuple[Any, Any, Any]:
        leaves = [torch.tensor(v, requires_grad=True) for v in values]
        args = [2 * leaf for leaf in leaves]  # which may be written to
        y = f(*args)
        return leaves, args, y if isinstance(y, tuple) else (y,)

    def gradients(leaves: Any, y: Any) -> list[Any]:
        bars = [
            torch.cos(torch.arange(v.numel())).reshape(v.shape).to(v.dtype)
            for v in y
            if v.requires_grad
        ]
        found = torch.autograd.grad(
            [v for v in y if v.requires_grad], leaves, bars, retain_graph=True, allow_unused=True
        )
        return [np.zeros(0) if g is None else g.detach().numpy().copy() for g in found]

    f, given = FUNCTIONS[name]
    halves = [a / 2 for a in given]
    leaves, args, y = called(halves)
    values, expected = numbers(y), gradients(leaves, y)
    if moment == "before":
        with torch.no_grad():
            for a in args:
                a.mul_(1.01)
            changed = numbers(f(*args))
        _, _, fresh = called([1.01 * h for h in halves])
        require_equal("a value after a change in place", changed, numbers(fresh))
        return "right"
    with torch.no_grad():
        for x in args if moment == "between" else y:
            x.mul_(3.0)
    if moment == "between":
        require_equal("a value that shares memory with an argument", numbers(y), values)
    try:
        found = gradients(leaves, y)
    except RuntimeError as error:
        if "modified by an inplace operation" not in str(error):
            raise
        return "refused"
    require_equal(f"a gradient, changed {moment}", found, expected)
    return "right"


# -- what is kept -------------------------------------------------------------


def _matrix(form: str) -> tuple[Any, list[Any]]:
    """(A, every array that it was made of)."""
    if form == "dense":
        return (a := functions.P.copy()), [a]
    v, i, j = functions.V.copy(), functions.ROWS.copy(), functions.COLS.copy()
    if form == "coo":
        return ldiv.coo_array((v, (i, j)), shape=(4, 4)), [v, i, j]
    if form == "csr":
        v, i, j = (
            np.arange(5.0, 13.0),
            np.array([0, 1, 1, 2, 2, 3, 0, 3]),
            np.array([0, 2, 4, 6, 8]),
        )
        return ldiv.csr_array((v, i, j), shape=(4, 4)), [v, i, j]
    v = np.cos(np.arange(12.0)).reshape(3, 4) + np.array([[0.0], [9.0], [0.0]])
    return ldiv.Matrix(ldiv.structures.Banded(1, 1, 4), v), [v]


KEPT: dict[str, Callable[[Any], Callable[[Any], Any]]] = {
    "factorized": lambda A: ldiv.factorized(A).solve,
    "factorized, H": lambda A: partial(ldiv.factorized(A).solve, trans="H"),
    "logabsdet": lambda A: partial(_scaled_by_logabsdet, ldiv.factorized(A)),
    "inverse": lambda A: ldiv.factorized(A).inverse.__matmul__,
    "jacobi": lambda A: ldiv.preconditioner(A, "jacobi").__matmul__,
    "block_jacobi": lambda A: ldiv.preconditioner(A, "block_jacobi").__matmul__,
    "ilu": lambda A: ldiv.preconditioner(A, "ilu").__matmul__,
    "amg": lambda A: ldiv.preconditioner(A, "amg").__matmul__,
    "copy": lambda A: copy.copy(ldiv.factorized(A)).solve,
    "deepcopy": lambda A: copy.deepcopy(ldiv.factorized(A)).solve,
    "pickle": lambda A: pickle.loads(pickle.dumps(ldiv.factorized(A))).solve,
}


def _scaled_by_logabsdet(F: ldiv.Factorized, b: Any) -> Any:
    return F.logabsdet() * b


def of_kept(name: str, form: str) -> str:
    """Check that kept objects are snapshots: later writes to the arrays of the matrix change
    nothing, used before or not.
    """
    b = np.arange(1.0, 5.0)
    try:
        expected = KEPT[name](_matrix(form)[0])(b)
    except (TypeError, ValueError, ldiv.EngineError):
        return "refused"
    A, parts = _matrix(form)
    apply = KEPT[name](A)
    for part in parts:
        part[...] = 1
    for _ in range(2):
        found = apply(b)
        require_equal(
            "what is kept, after the values were changed", numbers(found), numbers(expected)
        )
        found[...] = 7.0
    return "right"


def of_patterns(form: str) -> str:
    """Index arrays that are written to after a matrix was made of them."""
    A, (_, *index) = _matrix(form)
    b = np.arange(1.0, 5.0)
    expected = ldiv.solve(_matrix(form)[0], b)
    for x in index:
        x[...] = 0
    require_equal(
        "a matrix after its index arrays were changed", numbers(ldiv.solve(A, b)), numbers(expected)
    )
    for name in ("row", "col"):
        if (x := getattr(A, name)).flags.writeable:
            x[...] = 0
    require_equal(
        "a matrix after its row and col were written to",
        numbers(ldiv.solve(A, b)),
        numbers(expected),
    )
    return "right"


def of_tape(operation: str) -> str:
    """A change behind the tape's back: noticed, or without effect on what is added to the
    shadows.
    """
    rng = np.random.default_rng(0)

    def made() -> tuple[list[Any], ldiv.Tape]:
        A, B, C = (
            ldiv.Duplicated(x, np.zeros_like(x))
            for x in (functions.P.copy(), functions.B.copy(), np.zeros((4, 2)))
        )
        tape = ldiv.Tape()
        if operation == "gemm":
            tape.gemm(2.0, A, B, 0.0, C)
        elif operation == "solve_triangular":
            tape.solve_triangular(A, B, lower=True)
        elif operation in ("lu", "cholesky"):
            getattr(tape, operation)(A)
        else:
            tape.solve(A, B, assume_a="pos")
        for shadow in (A, B, C):
            shadow.shadow[...] = 1.0
        return [A, B, C], tape

    expected, tape = made()
    tape.reverse()
    outcomes = []
    for which in range(3):
        for value in (rng.standard_normal(), np.nan):
            changed, tape = made()
            changed[which].value[0, 0] = value
            try:
                tape.reverse()
            except ValueError:
                outcomes.append("refused")
                continue
            require_equal(
                "shadows after a change behind the tape's back",
                [d.shadow for d in changed],
                [d.shadow for d in expected],
            )
            outcomes.append("right")
    return "refused" if "refused" in outcomes else "right"
