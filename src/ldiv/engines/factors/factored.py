"""S(p) factored, from the cache or anew, by the first engine to which it appears nonsingular.

The determinant of a sparse positive definite matrix has a compiled Cholesky factor, which solves as
fast as others. So solves with equal values take it while it lives; and where determinants with this
pattern were asked for, the solve that comes first makes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import prod
from typing import Any, NamedTuple, Protocol

import numpy as np

from ldiv.core.arrays import batch_of, broadcast, device_of
from ldiv.core.dispatch import namespace, traced
from ldiv.core.errstate import singular_state
from ldiv.core.finite import require_finite
from ldiv.core.structure import Structure
from ldiv.core.trees import Array, Tree, leaves, rebuild
from ldiv.engines.factor import Factor
from ldiv.engines.factors.analyses import analysed, is_analysed
from ldiv.engines.factors.cache import Key, counts, in_trace, remembered
from ldiv.engines.factors.escalation import Attempt, Batch, Escalating
from ldiv.engines.registry import Chain, Engine, name_of

# The engines whose factors, made for something else, solve as well; each registers when it is loaded,
# and has no factors before.
_also_solving: list[Compiled] = []


class Compiled(Engine, Protocol):
    """One that may have to be compiled first."""

    def is_compiled(self, dtype: Any, /) -> bool:
        """Is it, for numbers of this dtype?"""


def solves_too(engine: Any) -> None:
    """Register an engine of positive definite sparse matrices, whose factors solve as well."""
    _also_solving[:] = [engine]


def factorization(engine: Engine, structure: Structure, p: Tree, assume_a: str) -> Escalating:
    """S(p) factored by one engine, from the cache or anew."""
    return factored(Chain((engine,), ()), structure, p, assume_a)


def factored(
    links: Chain, structure: Structure, p: Tree, assume_a: str, key: Key | None = None
) -> Escalating:
    """S(p) factored, from the cache or anew, by the first engine that succeeds.

    `key` is the key of the plan, if there is one.
    """
    values = tuple(leaves(structure.read(p)))
    if key is None:
        key = key_of(links, structure, assume_a, values)
    made = factoring(links, structure, assume_a, key)
    if not traced(values[0]):
        return made.of(p, values)
    engine, make = made.attempts[0][0]  # without values the first engine cannot fail yet
    return Escalating([Attempt(engine, partial(in_trace, key, values, partial(make, p)))])


class Factoring(NamedTuple):
    """How a matrix of one signature is factored; made once for each plan on the host."""

    links: Chain
    structure: Structure
    assume_a: str
    key: Key
    attempts: list[list[Attempt]]

    def of(self, p: Tree, values: tuple[Array, ...]) -> Escalating:
        """S(p) factored, from the cache or anew, by the first engine that succeeds; the matrix
        depends on these `values`.
        """
        links, attempts = self.links, self.attempts
        keys: tuple[Key, ...] = (self.key,)
        if self.assume_a == "pos":
            chains = _with_cholesky(links, self.structure, self.assume_a, values)
            if len(chains) > 1:
                links, keys = chains[0], _keys(chains, self.structure, self.assume_a, values)
                attempts = _attempts(links, self.structure, self.assume_a)
        make = partial(_made_of_copies, self.structure, partial(Escalating, *attempts), p, values)
        return _found(links, keys, values, make)


def factoring(links: Chain, structure: Structure, assume_a: str, key: Key) -> Factoring:
    """For arrays of the kind that the key says."""
    return Factoring(links, structure, assume_a, key, _attempts(links, structure, assume_a))


def factored_each(
    links: Chain,
    structure: Structure,
    flat: Sequence[Array],
    assume_a: str,
    batch: tuple[int, ...],
    key: Key | None = None,
) -> Sequence[Escalating]:
    """All matrices of a batch, factored one by one; the cache holds them as one entry."""
    p = rebuild(structure.core, flat)
    if not batch:
        return [factored(links, structure, p, assume_a, key)]
    values = tuple(leaves(structure.read(p)))
    chains = _with_cholesky(links, structure, assume_a, values)

    def make(own: Tree) -> Batch:
        factors: list[Escalating] = []
        latest: list[Array] = []
        for member in each_matrix(structure, leaves(own), batch):
            now = leaves(member)
            # one matrix that was broadcast to a batch
            repeated = bool(latest) and all(map(np.array_equal, latest, now))
            factors.append(
                factors[-1]
                if repeated
                else Escalating(*_attempts(chains[0], structure, assume_a), member)
            )
            latest = now
        return Batch(factors)

    keys = _keys(chains, structure, assume_a, values)
    found: Batch = _found(
        chains[0], keys, values, partial(_made_of_copies, structure, make, p, values)
    )
    return found.factors


def _found(
    links: Chain,
    keys: Sequence[Key],
    values: tuple[Array, ...],
    make: Callable[[], tuple[Any, tuple[Array, ...]]],
) -> Any:
    """The cached factor of these values, on which the matrix depends, or that of `make()`."""
    # Checked here, not in the public layer: under a transformation only engines see numbers.
    if not links.engines[0].REMEMBERED:
        require_finite("A", *values)
        return make()[0]
    return remembered(keys, values, make)


def _made_of_copies(
    structure: Structure, make: Callable[[Tree], Any], p: Tree, values: tuple[Array, ...]
) -> tuple[Any, tuple[Array, ...]]:
    """The factor of copies of p, and the copies that the matrix depends on: those of `values`."""
    own = _owned(structure, p)
    if values[0] is p:  # the matrix depends on all of one array
        return make(own), (own,)
    return make(own), tuple(leaves(structure.read(own)))


def before(first: Engine, links: Chain) -> Chain:
    """An engine that factors first, and those that follow if the matrix appears singular to it."""
    return Chain((first, *links.engines), links.alternatives)


def _with_cholesky(
    links: Chain, structure: Structure, assume_a: str, values: Sequence[Array]
) -> list[Chain]:
    """The chains whose factors do: the first one makes a new factor.

    An engine that was named, which has alternatives, is not replaced.
    """
    engine = _also_solving[0] if assume_a == "pos" and _also_solving else None
    if (
        engine is None
        or links.alternatives
        or links.in_single
        or engine in links.engines
        or not isinstance(values[0], np.ndarray)
        or structure.pattern is None
        or not engine.is_compiled(values[0].dtype)
    ):
        return [links]
    chains = [before(engine, links), links]
    return chains if is_analysed(engine.__name__, structure) else chains[::-1]


def _keys(
    chains: Sequence[Chain], structure: Structure, assume_a: str, values: Sequence[Array]
) -> tuple[Key, ...]:
    return tuple([key_of(links, structure, assume_a, values) for links in chains])


def key_of(links: Chain, structure: Structure, assume_a: str, values: Sequence[Array]) -> Key:
    """The key of a factor, except for the values."""
    first = values[0]
    return Key(
        (
            links,
            singular_state(),
            structure,
            assume_a,
            namespace(first),
            tuple([v.dtype for v in values]),
            device_of(first),
        )
    )


def _owned(structure: Structure, p: Tree) -> Tree:
    """Copies of p, which nobody can change while the factor lives."""
    if type(p) is np.ndarray:
        return np.array(p)
    return rebuild(structure.core, [namespace(leaf).asarray(leaf, copy=True) for leaf in leaves(p)])


def _attempts(links: Chain, structure: Structure, assume_a: str) -> list[list[Attempt]]:
    """The attempts of the chosen engines, and those of the witnesses.

    Each engine tries its usual settings, then its most careful ones.
    """

    def make() -> list[list[Attempt]]:
        solving, witnesses = (
            [attempt for engine in group for attempt in _attempts_of(engine, structure, assume_a)]
            for group in (links.engines, links.alternatives)
        )
        if links.in_single:
            # late, as it loads parts of SciPy that an import of ldiv does not
            from ldiv.engines.factors import low_precision

            first = links.engines[0]
            in_single = partial(low_precision.factor, first)
            solving.insert(
                0,
                Attempt(
                    f"{name_of(first)} in float32", _maker(in_single, first, structure, assume_a)
                ),
            )
        return [solving, witnesses]

    return structure.cached(("attempts", links, assume_a), make)


def _attempts_of(engine: Engine, structure: Structure, assume_a: str) -> Iterator[Attempt]:
    for name in ("factor", "factor_carefully"):
        if (make := getattr(engine, name)) is not None:
            yield Attempt(name_of(engine), _maker(make, engine, structure, assume_a))


def _maker(
    make: Callable[..., Factor], engine: Engine, structure: Structure, assume_a: str
) -> Callable[[Tree], Factor]:
    """p -> the factor of S(p)."""
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


def each_matrix(
    structure: Structure, flat: Sequence[Array], batch: tuple[int, ...]
) -> Iterator[Tree]:
    """The parameters of every matrix of a batch."""
    shapes = [
        leaf.shape[leaf.ndim - c :] for leaf, c in zip(flat, leaves(structure.core), strict=True)
    ]
    rows = [
        np.broadcast_to(leaf, (*batch, *own)).reshape(prod(batch), *own)
        for leaf, own in zip(flat, shapes, strict=True)
    ]
    for member in zip(*rows, strict=True):
        yield rebuild(structure.core, member)


def batch_axes(structure: Structure, p: Tree) -> tuple[int, ...]:
    core = structure.core
    if isinstance(core, int):
        return batch_of(p, core)
    return broadcast(*(batch_of(leaf, c) for leaf, c in zip(leaves(p), leaves(core), strict=True)))
