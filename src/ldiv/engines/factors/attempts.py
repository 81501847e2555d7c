"""Attempts of a chain of engines to factor S(p), in order: each engine with its usual settings, then
with its most careful ones. If requested, the first engine tries in single precision before all others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from ldiv.core.frameworks.trees import Tree
from ldiv.core.rules.structure import Structure
from ldiv.engines.factor import Factor
from ldiv.engines.factors.analyses import analysed
from ldiv.engines.factors.cache import counts
from ldiv.engines.factors.escalation import Attempt
from ldiv.engines.registry import Chain, Engine, name_of


def attempts(
    chain: Chain, structure: Structure, assume_a: str
) -> tuple[Sequence[Attempt], Sequence[Attempt]]:
    """The attempts of the engines that solve, and of the witnesses."""
    solving, witnesses = (
        [attempt for engine in group for attempt in _of(engine, structure, assume_a)]
        for group in (chain.engines, chain.alternatives)
    )
    if chain.in_single:
        # imported late: it loads parts of SciPy that `import ldiv` does not load
        from ldiv.engines.factors import low_precision

        first = chain.engines[0]
        make = _maker(partial(low_precision.factor, first), first, structure, assume_a)
        solving.insert(0, Attempt(name_of(first, in_single=True), make))
    return solving, witnesses


def _of(engine: Engine, structure: Structure, assume_a: str) -> Iterator[Attempt]:
    for make in (engine.factor, engine.factor_carefully):
        if make is not None:
            yield Attempt(name_of(engine), _maker(make, engine, structure, assume_a))


def _maker(
    make: Callable[..., Factor], engine: Engine, structure: Structure, assume_a: str
) -> Callable[[Tree], Factor]:
    """Return the function p -> factor of S(p)."""
    if engine.analyze is None:
        return partial(make, None, structure, assume_a=assume_a)
    return lambda p: make(symbolic(engine, structure), structure, p, assume_a)


def symbolic(engine: Engine, structure: Structure) -> Any:
    """The engine's symbolic work on a structure, done once per pattern; None if there is none."""
    if (work := engine.analyze) is None:
        return None

    def analyze() -> Any:
        counts["analyses"] += 1
        return work(structure)

    return analysed(engine.__name__, structure, analyze)
