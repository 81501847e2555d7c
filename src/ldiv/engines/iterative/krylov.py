"""The driver of all iterations: they stop at |b - A x| <= max(rtol |b|, atol) in every column of b.

The norms by recurrence are verified: when they are small enough the true residual is computed, and
if it is not, or the method broke down, the engine restarts from x. All columns iterate together,
converged columns are frozen. Each column is scaled by its b, A and M by their action on b, so that
no norm over- or underflows. An iteration that does not converge raises. None of this is ever
differentiated.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np

from ldiv.core.arrays.closures import uncounted
from ldiv.core.arrays.shapes import (
    alike,
    astype,
    common_batch,
    numpy_dtype,
    or_one,
    real,
    result_dtype,
)
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import check_or_raise, frontend_of, namespace, on_host, traced
from ldiv.core.frameworks.looks import all_decided, is_pending
from ldiv.core.frameworks.trees import Tree, leaves, rebuild
from ldiv.core.rules.finite import all_finite, require_finite
from ldiv.core.rules.structure import Structure
from ldiv.core.rules.units import magnitude
from ldiv.engines.accuracy.scaling import balanced_product
from ldiv.engines.iterative import of_scipy
from ldiv.engines.iterative.matrix_product import Product, assembled, is_ours
from ldiv.engines.iterative.options import Options
from ldiv.engines.registry import Ranked, name_of
from ldiv.engines.solve_log import is_read, note
from ldiv.errors import ConvergenceError, overflowed

ROUNDS = 8  # restarts at most
PER_UNKNOWN = 10  # products per unknown, at most, as in SciPy
BETWEEN_LOOKS = 10  # steps between two looks of the host at a device, after the first
FEWER = 8  # or this part of those before, where a step costs no product of a user's
SMALL = 1 << 16  # numbers of b: of fewer a look takes longer than the first steps, 2 of others

State = tuple[Array, ...]


class KrylovTask(NamedTuple):
    """The task of an engine: A, M near A^-1, the wanted residual norms, the length of a cycle.

    The wanted norms are (*batch, 1, k). A cycle reads from a device after `between_looks` products.
    `is_fixed`: products are the same operations each time.
    """

    A: Product
    M: Product
    wanted: Array
    restart: int
    between_looks: int = 2
    is_fixed: bool = False


class Iteration(Ranked, Protocol):
    """The type of the files of these engines."""

    BROKEN: Callable[..., Exception] | None  # the error if the norm of a residual is NaN
    ITERATE: Callable[..., Any] | None  # SciPy's function, whose steps are taken; else those below

    def start(self, task: KrylovTask, x: Array, r: Array, /) -> State:
        """x, the block of solutions (*batch, n, k), the norms (*batch, 1, k) of its residuals by
        recurrence, and what else a step needs.
        """

    def step(self, task: KrylovTask, state: State, /) -> State:
        """Return the next state."""

    def cycle(self, restart: int, n: int, /) -> int:
        """The number of products per step, if not one or two."""

    def arguments(self, M: Any, options: Options, /) -> dict[str, Any]:
        """The arguments of SciPy's function."""


def solve(
    engine: Iteration,
    structure: Structure,
    p: Tree,
    b: Array,
    options: Options,
    auxiliaries: tuple[Tree, ...],
) -> Array:
    """x with S(p) x = b.

    On the host if the matrix is sparse and the framework would otherwise trace every iteration.
    """
    arrays = [*leaves(p), b, *leaves(auxiliaries)]
    spec = _spec(structure, p, b)
    if 0 in spec[0]:
        return namespace(b).zeros(spec[0], **alike(b, spec[1]))
    if engine.ITERATE is not None:
        return of_scipy.solve(engine, structure, p, b, options, auxiliaries)
    if (
        any(map(traced, arrays))
        and structure.unview()[0].pattern is not None
        and (options.M is None or options.M.on_host)
    ):
        like = (structure.core, 2, options.core)
        return on_host(
            lambda *flat: (_solve(engine, structure, options, *rebuild(like, flat)),),
            (spec,),
            *arrays,
        )[0]
    return _solve(engine, structure, options, p, b, auxiliaries)


def _solve(
    engine: Iteration,
    structure: Structure,
    options: Options,
    p: Tree,
    b: Array,
    auxiliaries: tuple[Tree, ...],
) -> Array:
    require_finite("A", *leaves(structure.read(p)))
    require_finite("b", b)
    (m, x0), xp = options.named(auxiliaries), namespace(b)
    shape, dtype = _spec(structure, p, b)
    b = xp.broadcast_to(astype(b, dtype), shape)
    A, M = assembled(structure, p), preconditioner(options.M, m)
    return run(engine, A, M, b, options, x0, is_ours(structure) and is_ours(options.M))


def run(
    engine: Iteration,
    A: Product,
    M: Product,
    b: Array,
    options: Options,
    x0: Array | None = None,
    is_fixed: bool = False,
) -> Array:
    """x with A(x) = b (*batch, n, k), for finite numbers."""
    xp = namespace(b)
    with np.errstate(all="ignore"):  # overflow and breakdown are detected in the results
        # each column of b has numbers up to 1
        scale = or_one(magnitude(b, axis=-2))
        b = b / scale
        (A, t), (M, _) = (
            balanced_product(A, b),
            (M, None) if M is identity else balanced_product(M, b),
        )
        # solve t A t y = b / scale; x = t scale t y in this order overflows only if x does
        x = (
            xp.zeros_like(b)
            if x0 is None
            else xp.where(norm(b) == 0, 0, xp.astype(x0, b.dtype) / t / scale / t)
        )
        # max(rtol |b|, atol) for the scaled b
        wanted = xp.maximum(options.tolerance(numpy_dtype(b)) * norm(b), options.atol / scale)
        between_looks = BETWEEN_LOOKS if np.prod(b.shape, dtype=int) <= SMALL else 2
        task = KrylovTask(A, M, wanted, options.restart, between_looks, is_fixed)
        driver = Driver(engine, task, b, lambda y: y * t * scale * t, options)
        x, steps, size, is_done = (_in_blocks if is_pending(b) else _in_rounds)(driver, x)
        x = x * t * scale * t
    if not is_done:
        check_or_raise(
            (size <= wanted).all(),
            partial(_not_converged, name_of(engine)),
            steps,
            *_worst(size, wanted, norm(b)),
        )
    if is_read() and not traced(x):
        note(name_of(engine), int(steps), float(xp.max(size / or_one(norm(b)))))
    if not is_done:
        check_or_raise(all_finite(x), partial(overflowed, "the solution"))
    return x


def preconditioner(M: Structure | None, m: Tree) -> Product:
    """The product with M, cast to the dtype of its argument."""
    if M is None:
        return identity
    product = uncounted(assembled(M, m))
    return lambda r: astype(product(r), numpy_dtype(r))


def identity(r: Array) -> Array:
    """r: no preconditioner."""
    return r


class Driver:
    """The steps of an engine for one block b, which end after `most` of them."""

    def __init__(
        self, engine: Iteration, task: KrylovTask, b: Array, unscaled: Product, options: Options
    ) -> None:
        self.engine, self.task, self.b, self.unscaled = engine, task, b, unscaled
        self.observers = [partial(observer, name_of(engine)) for observer in options.observers]
        cycle, most = engine.cycle(options.restart, b.shape[-2]), options.maxiter
        # maxiter counts steps, each of `cycle` products: ceil(PER_UNKNOWN n / cycle)
        self.most = -(-PER_UNKNOWN * b.shape[-2] // cycle) if most is None else most
        self.is_cycle = cycle > 2  # it reads its residual by itself, and starts from a true one
        self.is_column = np.prod(task.wanted.shape, dtype=int) == 1
        self.zero = namespace(b).zeros((), **alike(task.wanted, np.dtype(np.int32)))

    def residual(self, x: Array) -> Array:
        return self.b - self.task.A(x)

    def start(self, steps: Array, x: Array, r: Array) -> State:
        return (steps, *self.engine.start(self.task, x, r))

    def goes_on(self, state: State) -> Array:
        """Whether a residual by recurrence is too large, and steps are left."""
        steps, _, size, *_ = state
        return (steps < self.most) & (size > self.task.wanted).any()

    def step(self, state: State) -> State:
        xp, wanted, (steps, *before) = namespace(self.b), self.task.wanted, state
        new = self.engine.step(self.task, tuple(before))
        if not self.is_column:
            # converged columns are frozen
            going = before[1] > wanted
            new = tuple(xp.where(going, now, then) for now, then in zip(new, before, strict=True))
        x, size = new[0], new[1]
        # after a breakdown keep the last good iterate, which `_if` does where nobody looks at once
        on_device = is_pending(size) and not self.observers
        if not on_device and (traced(size) or is_pending(size) or bool(xp.isnan(size).any())):
            x = xp.where(xp.isnan(size), before[0], x)
        for observe in self.observers:
            ratio = xp.max(size / or_one(wanted))
            frontend_of(self.b).host_callback(observe, steps, self.unscaled(x), ratio)
        return (steps + 1, x, *new[1:])

    def require_unbroken(self, size: Array) -> None:
        """Raise for NaN, a breakdown that only a matrix or an M without the promised property has."""
        if self.engine.BROKEN is not None:
            check_or_raise(~namespace(size).isnan(size).any(), self.engine.BROKEN)


def _in_rounds(driver: Driver, x: Array) -> tuple[Array, Array, Array, bool]:
    """(x, steps, true residual norms, False): each round begins with the true residual of x."""
    loop, wanted, zero = frontend_of(x).loop, driver.task.wanted, driver.zero

    def not_converged(state: State) -> Array:
        rounds, steps, _, size = state
        return (rounds < ROUNDS) & (steps < driver.most) & (size > wanted).any()

    def round_of(state: State) -> State:
        rounds, steps, x, _ = state
        start = driver.start(steps, x, driver.residual(x))
        steps, x, believed, *_ = loop(driver.goes_on, driver.step, start)
        driver.require_unbroken(believed)
        return rounds + 1, steps, x, _true(driver.residual(x))

    start = zero, zero, x, _true(driver.residual(x))
    _, steps, x, size = loop(not_converged, round_of, start)
    return x, steps, size, False


def _in_blocks(driver: Driver, x: Array) -> tuple[Array, Array, Array, bool]:
    """(x, steps, true residual norms, are they small?) on a device: steps are queued, and all answers
    are read at once after a block of them.
    """
    task, is_free = driver.task, not (driver.observers or driver.is_cycle)
    block = task.between_looks if is_free else 1
    rounds, taken = 0, 0
    state = driver.start(driver.zero, x, driver.residual(x))
    # steps after convergence change nothing (see `_if`), so that none of them has to be read
    steps_of = frontend_of(x).repeating(
        lambda state: _if(driver.goes_on(state), driver.step, state), task.is_fixed and is_free
    )
    while True:
        state = steps_of(state, block)
        steps, x, believed, *_ = state
        r = driver.residual(x)
        size = _true(r)
        driver.require_unbroken(believed)
        check_or_raise(all_finite(driver.unscaled(x)), partial(overflowed, "the solution"))
        asked = (size <= task.wanted).all(), driver.goes_on(state), steps < driver.most
        is_done, goes_on, may_go_on = all_decided(asked)
        # by its recurrence the iteration has converged, or it broke down: a round is over
        rounds += not goes_on
        if is_done or not may_go_on or rounds == ROUNDS:
            return x, steps, size, is_done
        # a cycle starts from a true residual in any case, other methods after each round
        if driver.is_cycle or not goes_on:
            state = driver.start(steps, x, r)
        taken, driver.task = taken + block, task._replace(between_looks=BETWEEN_LOOKS)
        # where steps cost little, blocks grow with those taken, and looks remain a small share
        if block > 1:
            block = max(BETWEEN_LOOKS, taken // FEWER if task.is_fixed else 0)


def _if(ok: Array, step: Callable[[State], State], state: State) -> State:
    """Take one more step; it changes nothing unless ok, and keeps x if it breaks down."""
    xp, (steps, x, size, *rest) = namespace(ok), step(state)
    x = xp.where(ok & ~xp.isnan(size), x, state[1])
    pairs = zip((steps, size, *rest), (state[0], *state[2:]), strict=True)
    steps, *others = (xp.where(ok, now, then) for now, then in pairs)
    return (steps, x, *others)


def _true(r: Array) -> Array:
    """The norm of a true residual, infinite if it overflows."""
    size = norm(r)
    return namespace(size).where(namespace(size).isnan(size), np.inf, size)


def _spec(structure: Structure, p: Tree, b: Array) -> tuple[tuple[int, ...], np.dtype[Any]]:
    return (*common_batch((structure.core, 2), (p, b)), *b.shape[-2:]), result_dtype(p, b)


def _worst(size: Array, wanted: Array, whole: Array) -> tuple[Array, Array]:
    """The largest residual norm that is too large, and its bound, both relative to b."""
    xp = namespace(size)
    size, wanted, too_large = (
        xp.reshape(x, (-1,)) for x in (size / or_one(whole), wanted / or_one(whole), size > wanted)
    )
    # columns that are good count as -1
    at = xp.reshape(xp.argmax(xp.where(too_large, size, -1.0)), (1,))
    return xp.take(size, at, axis=0)[0], xp.take(wanted, at, axis=0)[0]  # no device waits


def _not_converged(engine: str, steps: Any, residual: Any, wanted: Any) -> ConvergenceError:
    return ConvergenceError(engine, int(steps), float(residual), float(wanted))


def dot(x: Array, y: Array) -> Array:
    """x^H y of each column, (*batch, 1, k)."""
    return namespace(x).linalg.vecdot(x, y, axis=-2)[..., None, :]


def norm(x: Array) -> Array:
    """|x| of each column, (*batch, 1, k)."""
    return namespace(x).sqrt(real(dot(x, x)))


def quotient(a: Array, b: Array) -> Array:
    """a / b, and 0 where b is 0: in a converged column."""
    return namespace(b).where(b == 0, 0, a / or_one(b))
