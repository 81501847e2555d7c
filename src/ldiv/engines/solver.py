"""A solver factors S(p) and solves with the factor; it knows no derivative, and choosing one is by asking each.

A solver is one file in `engines/direct/` or `engines/iterative/`. It must define

    RANK                                            lower is asked first
    ON_HOST                                         does it want NumPy arrays, one matrix at a time?
    REMEMBERED                                      is a factor dear enough to be kept for the adjoint?
    supports(structure, dtype, device, assume_a)    None, or the sentence why not, which is shown to the user
    analyze(structure)                              symbolic work, done once per structure and kept on it
    factor(symbolic, structure, p, assume_a)        a Factor

and may define `factor_carefully`, with the arguments of `factor` and its strongest settings. The values that it is given nobody else
changes. An engine that takes a matrix for singular raises SingularMatrixError: then its `factor_carefully` is asked, then the engines
after it; see `ldiv.engines.escalation`. An engine that iterates defines RANK, supports, and instead of all else `start` and `step`;
`ldiv.engines.krylov` says what these are.

Laws: solve(b, "T") is the solve with the transpose; an equal pattern is analysed once; singular raises, never NaN.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from ldiv.core.arrays import alike, batch_of, broadcast, conj, device_of, fold, numpy_dtype, real, unfold
from ldiv.core.dispatch import insist, namespace, on_host, traced
from ldiv.core.errstate import keeping_state, singular_state
from ldiv.core.finite import all_finite, require_finite
from ldiv.core.folders import modules
from ldiv.core.structure import Structure
from ldiv.core.trees import Array, Tree, leaves, rebuild
from ldiv.engines import krylov, solve_log
from ldiv.engines.analyses import analysed
from ldiv.engines.escalation import Attempt, Batch, Escalating
from ldiv.engines.factor_cache import Key, counts, in_trace, remembered
from ldiv.engines.options import Options
from ldiv.errors import EngineError, overflowed


class Factor(ABC):
    """A factored matrix. If `arrays` are all that it is made of, `remake(*arrays)` is the factor, and `core` says how many axes are their own."""

    nbytes: int = 0
    arrays: tuple[Array, ...] = ()
    core: tuple[int, ...] = ()

    @property
    def remake(self) -> Callable[..., Factor]:
        """The factor of its arrays, given one by one; compared by content."""
        return type(self)

    @abstractmethod
    def solve(self, b: Array, op: str) -> Array:
        """x with op(A) x = b for b (*batch, n, k), op in N, T, H."""

    @abstractmethod
    def logabsdet(self) -> Array:
        """log |det A|, of shape (*batch,)."""

    def slogdet(self) -> tuple[Array, Array]:
        """(det A / |det A|, log |det A|)."""
        raise EngineError(f"{type(self).__name__} does not know the sign of the determinant.")

    def rough(self, b: Array, op: str) -> Array:
        """The solve without a look at its residual, for iterations that look at their own."""
        return self.solve(b, op)

    def certify(self) -> None:  # noqa: B027  (most engines have nothing left to look at)
        """Raise now if A is singular; for engines that leave this to the first solve."""


@lru_cache(maxsize=1)
def engines() -> dict[str, ModuleType]:
    """All solvers by name, in the order in which they are asked."""
    return {_name(m): m for m in sorted(modules("engine"), key=lambda m: m.RANK)}


def choose(structure: Structure, dtype: np.dtype[Any], device: str, assume_a: str = "gen", method: str = "auto") -> ModuleType:
    """The first engine that supports the task, of all, of those that factor or of those that iterate, or the one that `method` names."""
    return structure.memo(("engine", dtype, device, assume_a, method), lambda: _choose(structure, dtype, device, assume_a, method))


def _choose(structure: Structure, dtype: np.dtype[Any], device: str, assume_a: str, method: str) -> ModuleType:
    reasons = {}
    for name, engine in _asked(method).items():
        reason = answer(engine, structure, dtype, device, assume_a)
        if reason is None:
            return engine
        reasons[name] = reason
    answers = "; ".join(f"{name}: {reason}" for name, reason in reasons.items())
    kind = type(structure).__name__
    raise EngineError(f"no engine solves a {kind} matrix of {dtype} on {device} with assume_a={assume_a!r}, method={method!r}. {answers}.")


class Chain(NamedTuple):
    """The engines that may solve, the one that is chosen first; and where one was named those that could do it in its place."""

    engines: tuple[ModuleType, ...]
    others: tuple[ModuleType, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(map(_name, self.engines))


def chain(structure: Structure, dtype: np.dtype[Any], device: str, assume_a: str = "gen", method: str = "auto") -> Chain:
    """The engine that factors, and those that are asked in turn where it takes a matrix for singular."""
    return structure.memo(("chain", dtype, device, assume_a, method), lambda: _chain(structure, dtype, device, assume_a, method))


def _chain(structure: Structure, dtype: np.dtype[Any], device: str, assume_a: str, method: str) -> Chain:
    first = choose(structure, dtype, device, assume_a, method)
    able = [e for e in _asked("direct").values() if e.ON_HOST == first.ON_HOST and answer(e, structure, dtype, device, assume_a) is None]
    others = tuple(engine for engine in able if engine is not first and first.REMEMBERED)  # the parts of a product go on by themselves
    return Chain((first,), others) if method in engines() else Chain((first, *others), ())


def _asked(method: str) -> dict[str, ModuleType]:
    """The engines that a method stands for."""
    kinds = {"auto": (False, True), "direct": (False,), "iterative": (True,)}
    if method not in kinds:
        return {method: engines()[method]}
    return {name: engine for name, engine in engines().items() if is_iterative(engine) in kinds[method]}


def answer(engine: ModuleType, structure: Structure, dtype: np.dtype[Any], device: str, assume_a: str) -> str | None:
    """None if the engine can solve, or its sentence why not."""
    reason: str | None = engine.supports(structure if is_iterative(engine) else structure.plain, dtype, device, assume_a)
    return reason


class Plan(NamedTuple):
    """How S(p) x = b is solved for arguments of one kind: what does not depend on their numbers. Immutable, shared by threads."""

    engine: ModuleType
    links: Chain | None  # None of an iteration
    base: Structure
    op: str
    dtype: np.dtype[Any]
    single: bool  # one matrix, one block of right-hand sides
    mixed: bool  # real p, complex b
    hosted: Callable[..., tuple[Array, ...]] | None  # for NumPy arrays, where the engine wants them
    key: Key | None  # of the factor, but for the values


def planned(structure: Structure, p: Tree, b: Array | None, assume_a: str, method: str) -> Plan:
    """The plan for arguments like these, which may be without a right-hand side."""
    of_p: Any = (p.dtype, p.ndim) if type(p) is np.ndarray else tuple([(x.dtype, x.ndim) for x in leaves(p)])
    like, axes = (leaves(p)[0], None) if b is None else (b, b.ndim)
    kind = ("plan", of_p, type(like), like.dtype, device_of(like), axes, assume_a, method, singular_state())
    plan: Plan = structure.memo(kind, partial(_planned, structure, p, b, assume_a, method))
    return plan


def _planned(structure: Structure, p: Tree, b: Array | None, assume_a: str, method: str) -> Plan:
    flat = leaves(p)
    single = all(x.ndim == own for x, own in zip(flat, leaves(structure.core), strict=True)) and (b is None or b.ndim == 2)
    b = flat[0] if b is None else b
    dtypes = [numpy_dtype(x) for x in flat]
    dtype = np.result_type(*dtypes, numpy_dtype(b))
    engine = choose(structure.unview()[0], dtype, device_of(b), assume_a, method)
    base, op = structure.plain.unview()
    mixed = numpy_dtype(b).kind == "c" and all(d.kind != "c" for d in dtypes)
    if is_iterative(engine):
        return Plan(engine, None, base, op, dtype, single, mixed, None, None)
    links = chain(base, dtype, device_of(b), assume_a, method)
    key = _key(links, base, assume_a, flat)
    is_numpy = type(b) is np.ndarray
    if single and (engine.ON_HOST or is_numpy):
        key = _key(links, base, assume_a, [np.empty(0, d) for d in dtypes])
        hosted: Any = partial(_solve_one, links, base, assume_a, op, key)
    else:
        hosted = partial(_solve_each, links, base, assume_a, op) if engine.ON_HOST else None
    return Plan(engine, links, base, op, dtype, single, mixed, keeping_state(hosted) if hosted and not is_numpy else hosted, key)


def solve(structure: Structure, p: Tree, b: Array, assume_a: str, method: str, options: Options | None = None, aids: tuple[Tree, ...] = ()) -> Array:
    """x with S(p) x = b for plain arrays, batched, by the engine that fits."""
    plan = planned(structure, p, b, assume_a, method)
    shape = tuple(b.shape) if plan.single else (*broadcast(_batch(plan.base, p), batch_of(b, 2)), *b.shape[-2:])
    if 0 in shape[:-1]:
        return namespace(b).zeros_like(namespace(b).broadcast_to(b, shape))
    if plan.links is None:
        return krylov.solve(plan.engine, structure, p, b, options or Options(), aids)
    if plan.mixed:  # one solve with the real factor serves both parts
        xp, k = namespace(b), b.shape[-1]
        x = solve(structure, p, xp.concat([xp.real(b), xp.imag(b)], axis=-1), assume_a, method)
        return x[..., :k] + 1j * x[..., k:]
    if plan.op == "C":
        return conj(solve(plan.base, p, conj(b), assume_a, method))
    if plan.hosted is not None:
        return on_host(plan.hosted, ((shape, plan.dtype),), *leaves(p), b)[0]
    require_finite("b", b)
    return _solve_folded(factored(plan.links, plan.base, p, assume_a, plan.key), p, plan.base, b, plan.op)


def is_iterative(engine: ModuleType) -> bool:
    """Does the engine iterate, instead of factoring?"""
    return bool(engine.ITERATES)


def has_factors(structure: Structure, p: Tree) -> bool:
    """Does some engine factor it?"""
    values, base = leaves(p), structure.unview()[0]
    dtype, device = np.result_type(*map(numpy_dtype, values)), device_of(values[0])
    return any(answer(engine, base, dtype, device, "gen") is None for engine in _asked("direct").values())


def logabsdet(structure: Structure, p: Tree, assume_a: str, method: str) -> Array:
    """log |det S(p)|, of shape (*batch,)."""
    base, _ = structure.unview()
    batch, first = _batch(base, p), leaves(p)[0]
    if 0 in (*batch, *base.shape):
        return namespace(first).zeros(batch, **alike(real(first)))
    plan = planned(structure, p, None, assume_a, method)
    if plan.links is None:
        raise EngineError(
            f"{_name(plan.engine)} iterates: it has no factors, and so no determinant. Make the matrix sparse or dense, or take stochastic estimates."
        )
    return _of_factors(plan, p, assume_a, batch, (np.finfo(plan.dtype).dtype,), lambda factor: (factor.logabsdet(),))[0]


def slogdet(structure: Structure, p: Tree) -> tuple[Array, Array]:
    """(det S(p) / |det S(p)|, log |det S(p)|) by the factor that a solve would have."""
    plan = planned(structure, p, None, "gen", "auto")
    sign, size = _of_factors(plan, p, "gen", _batch(plan.base, p), (plan.dtype, np.finfo(plan.dtype).dtype), lambda factor: factor.slogdet())
    return sign, size


def _of_factors(plan: Plan, p: Tree, assume_a: str, batch: tuple[int, ...], dtypes: Any, ask: Callable[[Escalating], tuple[Array, ...]]) -> Any:
    """What the factors of all matrices of a batch answer, arrays of shape (*batch,)."""
    links = plan.links or Chain((plan.engine,), ())
    if plan.hosted is None or (plan.single and type(leaves(p)[0]) is np.ndarray):
        return ask(factored(links, plan.base, p, assume_a, plan.key))

    def each(*flat: Array) -> tuple[Array, ...]:
        out = tuple(np.empty(batch, dtype) for dtype in dtypes)
        for i, factor in zip(np.ndindex(batch), _factored_each(links, plan.base, flat, assume_a, batch, plan.key), strict=True):
            for y, answer in zip(out, ask(factor), strict=True):
                y[i] = answer
        return out

    return on_host(keeping_state(each), tuple((batch, dtype) for dtype in dtypes), *leaves(p))


def factorization(engine: ModuleType, structure: Structure, p: Tree, assume_a: str) -> Escalating:
    """S(p) factored by one engine, now or earlier."""
    return factored(Chain((engine,), ()), structure, p, assume_a)


def factored(links: Chain, structure: Structure, p: Tree, assume_a: str, key: Key | None = None) -> Escalating:
    """S(p) factored by the first engine that has no doubts, now or earlier; `key` is that of the plan."""
    values = tuple(leaves(structure.read(p)))
    if traced(values[0]):  # doubts come later than this call
        engine, make = _attempts(links, structure, assume_a)[0][0]
        key = _key(links, structure, assume_a, values) if key is None else key
        return Escalating([Attempt(engine, partial(in_trace, key, values, partial(make, p)))])
    factor: Escalating = _found(links, structure, p, assume_a, values, key, partial(Escalating, *_attempts(links, structure, assume_a)))
    return factor


def _factored_each(
    links: Chain, structure: Structure, flat: Sequence[Array], assume_a: str, batch: tuple[int, ...], key: Key | None = None
) -> Sequence[Escalating]:
    """All matrices of a batch, factored one by one; they are found, and live, together."""
    p = rebuild(structure.core, flat)
    if not batch:
        return [factored(links, structure, p, assume_a, key)]

    def make(own: Tree) -> Batch:
        factors: list[Escalating] = []
        before: list[Array] = []
        for one in _matrices(structure, leaves(own), batch):
            now = leaves(one)
            repeated = bool(before) and all(map(np.array_equal, before, now))  # one matrix that was spread over a batch
            factors.append(factors[-1] if repeated else Escalating(*_attempts(links, structure, assume_a), one))
            before = now
        return Batch(factors)

    found: Batch = _found(links, structure, p, assume_a, tuple(leaves(structure.read(p))), None, make)
    return found.factors


def _found(
    links: Chain, structure: Structure, p: Tree, assume_a: str, values: tuple[Array, ...], key: Key | None, make: Callable[[Tree], Any]
) -> Any:
    """What `make` makes of copies of p, now or earlier; `values` are those that the matrix depends on."""

    def made() -> tuple[Any, tuple[Array, ...]]:
        own = _owned(structure, p)
        return make(own), tuple(leaves(structure.read(own)))

    # Finite values are asked for here, not in the public layer: under a transformation only the engine sees numbers.
    if not links.engines[0].REMEMBERED:
        require_finite("A", *values)
        return made()[0]
    return remembered(_key(links, structure, assume_a, values) if key is None else key, values, made)


def _key(links: Chain, structure: Structure, assume_a: str, values: Sequence[Array]) -> Key:
    """Of a factor, but for the values themselves."""
    first = values[0]
    return Key((links, singular_state(), structure, assume_a, namespace(first), tuple([v.dtype for v in values]), device_of(first)))


def _owned(structure: Structure, p: Tree) -> Tree:
    """Copies that live as long as the factor, which whoever holds the originals cannot change."""
    if type(p) is np.ndarray:
        return np.array(p)
    return rebuild(structure.core, [namespace(leaf).asarray(leaf, copy=True) for leaf in leaves(p)])


def _attempts(links: Chain, structure: Structure, assume_a: str) -> list[list[Attempt]]:
    """Those of the engines, and of the others; each with its usual settings, then with its most careful ones."""

    def make() -> list[list[Attempt]]:
        return [[attempt for engine in some for attempt in _attempts_of(engine, structure, assume_a)] for some in links]

    return structure.memo(("attempts", links, assume_a), make)


def _attempts_of(engine: ModuleType, structure: Structure, assume_a: str) -> Iterator[Attempt]:
    for name in ("factor", "factor_carefully"):
        if (make := getattr(engine, name)) is not None:
            yield Attempt(_name(engine), partial(_made, make, engine, structure, assume_a))


def _made(make: Callable[..., Factor], engine: ModuleType, structure: Structure, assume_a: str, p: Tree) -> Factor:
    return make(symbolic(engine, structure), structure, p, assume_a)


def _name(engine: ModuleType) -> str:
    return engine.__name__.rpartition(".")[2]


def symbolic(engine: ModuleType, structure: Structure) -> Any:
    """The engine's symbolic work on a structure, done once for a pattern in use."""

    def analyze() -> Any:
        counts["analyses"] += 1
        return engine.analyze(structure)

    return analysed(engine.__name__, structure, analyze)


def _solve_one(links: Chain, structure: Structure, assume_a: str, op: str, key: Key, *arrays: Array) -> tuple[Array, ...]:
    """On NumPy arrays: one matrix, one block."""
    *flat, b = arrays
    require_finite("b", b)
    factor = factored(links, structure, rebuild(structure.core, flat), assume_a, key)
    if not b.shape[1]:
        factor.certify()
        return (np.zeros_like(b),)
    counts["solves"] += 1
    x = factor.solve(b, op)
    solve_log.note(factor.engine, gave_up=factor.gave_up)
    if not all_finite(x):
        raise overflowed("the solution")
    return (x,)


def _solve_folded(factor: Escalating, p: Tree, structure: Structure, b: Array, op: str) -> Array:
    """Many right-hand sides of one matrix, and a batch of them, are one solve."""
    if 0 in b.shape:
        factor.certify()
        xp = namespace(b)
        return xp.zeros_like(xp.broadcast_to(b, (*broadcast(_batch(structure, p), batch_of(b, 2)), *b.shape[-2:])))
    counts["solves"] += 1
    batched = bool(_batch(structure, p))
    x = factor.solve(b if batched else fold(b), op)
    solve_log.note(factor.engine, gave_up=factor.gave_up)
    insist(all_finite(x), partial(overflowed, "the solution"))
    return x if batched else unfold(x, batch_of(b, 2), b.shape[-1])


def _solve_each(links: Chain, structure: Structure, assume_a: str, op: str, *arrays: Array) -> tuple[Array, ...]:
    """On the host: one factorization for each matrix of the batch."""
    *flat, b = arrays
    require_finite("b", b)
    p = rebuild(structure.core, flat)
    own = _batch(structure, p)
    if not own:
        return (_solve_folded(factored(links, structure, p, assume_a), p, structure, b, op),)
    factors = _factored_each(links, structure, flat, assume_a, own)
    if 0 in b.shape:
        for factor in factors:
            factor.certify()
    batch = broadcast(own, batch_of(b, 2))
    x = np.empty((*batch, *b.shape[-2:]), np.result_type(*flat, b))
    numbers, b = np.broadcast_to(np.arange(len(factors)).reshape(own), batch), np.broadcast_to(b, x.shape)
    for i, number in zip(np.ndindex(batch if x.size else 0), numbers.flat, strict=False):
        x[i] = factors[int(number)].solve(b[i], op)
    counts["solves"] += numbers.size
    solve_log.note(factors[-1].engine, gave_up=factors[-1].gave_up)
    if not all_finite(x):
        raise overflowed("the solution")
    return (x,)


def _matrices(structure: Structure, flat: Sequence[Array], batch: tuple[int, ...]) -> Iterator[Tree]:
    """The parameters of every matrix of a batch."""
    shapes = [leaf.shape[leaf.ndim - c :] for leaf, c in zip(flat, leaves(structure.core), strict=True)]
    rows = [np.broadcast_to(leaf, (*batch, *own)).reshape(-1, *own) for leaf, own in zip(flat, shapes, strict=True)]
    for one in zip(*rows, strict=True):
        yield rebuild(structure.core, one)


def _batch(structure: Structure, p: Tree) -> tuple[int, ...]:
    core = structure.core
    if isinstance(core, int):
        return batch_of(p, core)
    return broadcast(*(batch_of(leaf, c) for leaf, c in zip(leaves(p), leaves(core), strict=True)))
