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


class Iteration(Protocol):
    """The type of the files of these engines."""

    __name__: str
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
        x, steps, size, is_done = _rounds(
            engine,
            KrylovTask(A, M, wanted, options.restart, between_looks, is_fixed),
            b,
            x,
            lambda y: y * t * scale * t,
            options,
        )
        x = x * t * scale * t
    if not is_done:
        check_or_raise(
            (size <= wanted).all(),
            partial(_not_converged, _name(engine)),
            steps,
            *_worst(size, wanted, norm(b)),
        )
    if is_read() and not traced(x):
        note(_name(engine), int(steps), float(xp.max(size / or_one(norm(b)))))
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


def _rounds(
    engine: Iteration, task: KrylovTask, b: Array, x: Array, unscaled: Product, options: Options
) -> tuple[Array, Array, Array, bool]:
    """(x, steps, true residual norms, is it known that all is well?): iterate, compute the true
    residual, restart if needed. Of a device all this is asked at once, after blocks of steps.
    """
    xp, A, wanted = namespace(b), task.A, task.wanted
    loop, host_callback = frontend_of(b).loop, frontend_of(b).host_callback
    most = (
        _default_maxiter(engine, options, b.shape[-2])
        if options.maxiter is None
        else options.maxiter
    )
    observers = [partial(observer, _name(engine)) for observer in options.observers]
    single = np.prod(wanted.shape, dtype=int) == 1

    def inner_not_converged(state: State) -> Array:
        steps, _, size, *_ = state
        return (steps < most) & (size > wanted).any()

    def step(state: State) -> State:
        steps, *before = state
        new = engine.step(task, tuple(before))
        if not single:
            # converged columns are frozen
            going = before[1] > wanted
            new = tuple(xp.where(going, now, then) for now, then in zip(new, before, strict=True))
        x, size = new[0], new[1]
        # after a breakdown keep the last good iterate, which `_if` does where nobody looks at once
        on_device = is_pending(size) and not observers
        if not on_device and (traced(size) or is_pending(size) or bool(xp.isnan(size).any())):
            x = xp.where(xp.isnan(size), before[0], x)
        for observe in observers:
            host_callback(observe, steps, unscaled(x), xp.max(new[1] / or_one(wanted)))
        return (steps + 1, x, *new[1:])

    def not_converged(state: State) -> Array:
        rounds, steps, _, size = state
        return (rounds < ROUNDS) & (steps < most) & (size > wanted).any()

    def restart(state: State) -> State:
        # a round begins with the true residual of x
        rounds, steps, x, _ = state
        steps, x, believed, *_ = loop(
            inner_not_converged, step, (steps, *engine.start(task, x, b - A(x)))
        )
        # NaN is a breakdown that only a matrix or an M without the promised property has
        if engine.BROKEN is not None:
            check_or_raise(~xp.isnan(believed).any(), engine.BROKEN)
        return rounds + 1, steps, x, _true(b - A(x))

    zero = xp.zeros((), **alike(wanted, np.dtype(np.int32)))
    # on a device steps are queued, and answers read after a block of them
    if is_pending(b):
        is_cycle = engine.cycle(options.restart, b.shape[-2]) > 2  # a cycle checks by itself
        block = 1 if observers or is_cycle else task.between_looks
        rounds, taken, state = 0, 0, (zero, *engine.start(task, x, b - A(x)))
        # steps after convergence change nothing (see `_if`), so that none of them has to be read
        steps_of = frontend_of(b).repeating(
            lambda state: _if(inner_not_converged(state), step, state),
            task.is_fixed and not (observers or is_cycle),
        )
        while True:
            state = steps_of(state, block)
            steps, x, believed, *_ = state
            r = b - A(x)
            size = _true(r)
            if engine.BROKEN is not None:
                check_or_raise(~xp.isnan(believed).any(), engine.BROKEN)
            check_or_raise(all_finite(unscaled(x)), partial(overflowed, "the solution"))
            # three answers in one look
            asked = (size <= wanted).all(), inner_not_converged(state), steps < most
            is_done, goes_on, may_go_on = all_decided(asked)
            # by its recurrence the iteration has converged, or it broke down: a round is over
            rounds += not goes_on
            if is_done or not may_go_on or rounds == ROUNDS:
                return x, steps, size, is_done
            # a cycle starts from a true residual in any case, other methods after each round
            if is_cycle or not goes_on:
                state = (steps, *engine.start(task, x, r))
            taken, task = taken + block, task._replace(between_looks=BETWEEN_LOOKS)
            # where steps cost little, blocks grow with those taken, and looks remain a small share
            if block > 1:
                block = max(BETWEEN_LOOKS, taken // FEWER if task.is_fixed else 0)
    _, steps, x, size = loop(not_converged, restart, (zero, zero, x, _true(b - A(x))))
    return x, steps, size, False


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


def _default_maxiter(engine: Iteration, options: Options, n: int) -> int:
    """The default of maxiter, in steps."""
    cycle: int = engine.cycle(options.restart, n)
    # maxiter counts steps, each of `cycle` products: ceil(PER_UNKNOWN n / cycle)
    return -(-PER_UNKNOWN * n // cycle)


def _spec(structure: Structure, p: Tree, b: Array) -> tuple[tuple[int, ...], np.dtype[Any]]:
    return (*common_batch((structure.core, 2), (p, b)), *b.shape[-2:]), result_dtype(p, b)


def _name(engine: Iteration) -> str:
    return engine.__name__.rpartition(".")[2]


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
