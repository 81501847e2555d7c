"""The registry of engines: the first one, by rank, that supports a task solves it.

A solver is one file in `engines/direct/` or `engines/iterative/`, an `Engine`; an eigensolver one in
`engines/eigen/`, as `ldiv.engines.eigen.task` says. The values that an engine is given do not change.
If the matrix appears singular, an engine raises SingularMatrixError: then its `factor_carefully` is
tried, then the engines after it; see `ldiv.engines.factors.escalation`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from ldiv.core.arrays.shapes import device_of, numpy_dtype
from ldiv.core.frameworks.folders import plugins
from ldiv.core.frameworks.trees import Tree, leaves
from ldiv.core.rules.structure import Structure
from ldiv.errors import EngineError


class Ranked(Protocol):
    """An engine of some kind: a type of modules, as are those below."""

    __name__: str
    RANK: int | None  # they are tried in this order; files without a rank are no engines


class Engine(Ranked, Protocol):
    """A solver."""

    ITERATES: bool  # or does it factor?
    ON_HOST: bool  # does it need NumPy arrays, one matrix at a time?
    IN_SINGLE: bool  # does it factor matrices of double precision in single, to be refined?

    def supports(self, structure: Any, dtype: Any, device: str, assume_a: str, /) -> str | None:
        """None, or the reason why not, which is shown to the user."""

    # -- one that factors -----------------------------------------------------

    REMEMBERED: bool  # is a factor expensive enough to cache?
    BY_CHOLESKY: bool  # is it worth trying Cholesky on a Hermitian matrix?
    analyze: Callable[[Any], Any] | None  # the symbolic work of a structure, which is cached
    factor_carefully: Callable[..., Any] | None  # `factor`, with its strongest settings

    def factor(self, symbolic: Any, structure: Any, p: Tree, assume_a: str, /) -> Any:
        """A Factor of S(p), with its symbolic work, if there is any."""

    # -- one that iterates, as `ldiv.engines.iterative.krylov` describes ---------

    HERMITIAN_M: bool  # must M be Hermitian?

    # -- one that takes whole calls, and plans them by itself ---------------------

    # what `solver.solve` does, what `explain` says, and the structure of M by name
    solve_whole: Callable[..., Any] | None
    explain: Callable[..., tuple[str, str, dict[str, str]]] | None
    preconditioner: Callable[..., Structure] | None


RankedT = TypeVar("RankedT", bound=Ranked)


@cache
def engines(kind: str = "engine") -> dict[str, Any]:
    """All solvers, or engines of another kind, by name, in the order in which they are asked."""
    ranked = [m for m in plugins(kind) if m.RANK is not None]
    return {name_of(m): m for m in sorted(ranked, key=lambda m: m.RANK)}


def first_able(
    candidates: dict[str, RankedT], reason: Callable[[RankedT], str | None], asked: str
) -> RankedT:
    """The first engine that gives no reason against the task; `asked` names the task in errors."""
    reasons: dict[str, list[str]] = {}
    for name, engine in candidates.items():
        if (why_not := reason(engine)) is None:
            return engine
        # engines with the same reason are listed together
        reasons.setdefault(why_not, []).append(name)
    answers = "; ".join(f"{', '.join(names)}: {why_not}" for why_not, names in reasons.items())
    raise EngineError(f"no engine {asked}. {answers}.")


def choose(
    structure: Structure,
    dtype: np.dtype[Any],
    device: str,
    assume_a: str = "gen",
    method: str = "auto",
    factor_dtype: str | None = None,
) -> Engine:
    """The first engine that supports the task, or the one that `method` names.

    `method` may also restrict the choice to engines that factor, or to those that iterate;
    `factor_dtype` to those that factor in this precision first.
    """
    kind = type(structure).__name__
    engine = first_able(
        named(method) if whole(structure) is None else engines(structure.space.solvers),
        lambda engine: answer(engine, structure, dtype, device, assume_a),
        f"solves {'an' if kind[0] in 'AEIOU' else 'a'} {kind} matrix of {dtype} on {device} with "
        f"assume_a={assume_a!r}, method={method!r}",
    )
    if factor_dtype is not None and not engine.IN_SINGLE:
        able = ", ".join(name for name, e in named("direct").items() if e.IN_SINGLE)
        raise EngineError(
            f"factor_dtype={factor_dtype!r} is for sparse matrices and {able}, but {name_of(engine)} "
            f"solves this {kind} matrix: leave factor_dtype out."
        )
    return engine


def on_host(structure: Structure, assume_a: str, method: str) -> Engine:
    """`choose` for arrays in the memory of this process, whatever their precision; once for a
    structure.
    """
    return structure.cached(
        ("engine on the host", assume_a, method),
        lambda: choose(structure, np.dtype(float), "cpu", assume_a, method),
    )


class Chain(NamedTuple):
    """The engines that may solve, in order; and if one was named, those that could replace it."""

    engines: tuple[Engine, ...]
    alternatives: tuple[Engine, ...]
    in_single: bool = False  # the first one in single precision first

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(map(name_of, self.engines))


def chain(
    structure: Structure,
    dtype: np.dtype[Any],
    device: str,
    assume_a: str = "gen",
    method: str = "auto",
    factor_dtype: str | None = None,
) -> Chain:
    """The engine that factors, and those that try in turn if the matrix appears singular to it."""
    first = choose(structure, dtype, device, assume_a, method, factor_dtype)
    in_single = factor_dtype is not None and dtype in (np.float64, np.complex128)
    # engines without a factor of their own solve by parts, which escalate by themselves
    alternatives = tuple(
        engine
        for engine in named("direct").values()
        if engine is not first
        and engine.ON_HOST == first.ON_HOST
        and first.REMEMBERED
        and answer(engine, structure, dtype, device, assume_a) is None
    )
    return (
        Chain((first,), alternatives, in_single)
        if method in engines()
        else Chain((first, *alternatives), (), in_single)
    )


def named(method: str) -> dict[str, Engine]:
    """The engines that a method name stands for."""
    kinds = {"auto": (False, True), "direct": (False,), "iterative": (True,)}
    if method not in kinds:
        return {method: engines()[method]}
    return {
        name: engine for name, engine in engines().items() if is_iterative(engine) in kinds[method]
    }


def answer(
    engine: Engine, structure: Structure, dtype: np.dtype[Any], device: str, assume_a: str
) -> str | None:
    """None if the engine can solve, or the reason why not."""
    if engine not in engines(structure.space.solvers).values():
        return "wants a matrix on one process"
    reason: str | None = engine.supports(
        structure if is_iterative(engine) else structure.plain, dtype, device, assume_a
    )
    return reason


def where_not_cpu(device: str, advice: str = "move the values") -> str | None:
    """None, or the reason why an engine on the host does not take these values."""
    there = f"runs on the cpu, but the values are on {device}; {advice}"
    return None if device == "cpu" else there


def whole(structure: Structure) -> Engine | None:
    """The engine that takes whole calls for matrices between such vectors, if one does; it knows
    methods of its own, and options of solves whatever the method.
    """
    first: Engine = next(iter(engines(structure.space.solvers).values()))
    return None if first.solve_whole is None else first


def is_iterative(engine: Engine) -> bool:
    """Whether the engine iterates, instead of factoring."""
    return bool(engine.ITERATES)


def has_factors(structure: Structure, p: Tree) -> bool:
    """Whether some engine factors the matrix."""
    values, base = leaves(p), structure.unview()[0]
    dtype, device = np.result_type(*map(numpy_dtype, values)), device_of(values[0])
    return any(
        answer(engine, base, dtype, device, "gen") is None for engine in named("direct").values()
    )


def name_of(engine: Ranked, in_single: bool = False) -> str:
    """The name of an engine, in messages to users; in_single: as it factors in single precision."""
    return engine.__name__.rpartition(".")[2] + in_single * " in float32"
