"""x with f(x, p) = 0, by Newton's method with a line search, or after pseudo-transient continuation;
J = df/dx at x.

tangent      dx = -J^-1 df/dp dp
cotangent    lam = J^-H x_bar;  p_bar = -(df/dp)^H lam
cost         each step a Jacobian, a factorization and a solve; the last factor is that at the last
             point, and is used again by the derivative
reference    Krantz and Parks, The Implicit Function Theorem; Dennis and Schnabel, chapter 6; Kelley and
             Keyes, SIAM J. Numer. Anal. 35 (1998)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from ldiv.core.arrays.shapes import alike, common_batch, eps, numpy_dtype, of_each, real
from ldiv.core.cached_property import cached_property
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import (
    asnumpy,
    check_or_raise,
    frontend_of,
    host,
    namespace,
    numbers,
    on_small_arrays,
    traced,
)
from ldiv.core.frameworks.looks import all_decided, decided, is_pending
from ldiv.core.frameworks.trees import Arrays, Cotangents, Tangents, Tree, Trees
from ldiv.core.owners.holder import Holder, holding, owner
from ldiv.core.rules.finite import require_finite
from ldiv.core.rules.pushforward import jvp
from ldiv.core.rules.rule import Rule, Traits, bind
from ldiv.core.rules.structure import Structure, nothing, plus
from ldiv.engines.accuracy.null_vectors import named
from ldiv.engines.accuracy.scaling import norm as norm_of
from ldiv.errors import (
    OF_GIVEN_ROOTS,
    OF_ROOTS,
    ConvergenceError,
    NotDifferentiableError,
    NotPositiveDefiniteError,
    SingularMatrixError,
    value_error,
)
from ldiv.rules.assertion import checked
from ldiv.rules.newton_step import NewtonStep, in_words
from ldiv.rules.solve import solve

TOGETHER = 1 << 20  # numbers in the matrices of a batch that is solved as one
HALVINGS = 30
DECREASE = 1e-4  # the relative decrease of |f| that a full step must reach (Armijo)
SHRINKS = 0.5  # a short step over the one before, unless they are rounding
# At a root of order m Newton's steps become 1 - 1/m as long each time: at a fold half as long, or two
# thirds, and the last ones rounding. At a simple root one of the last steps is much shorter than the
# one before. A step of rounding says so only after a long one, where f is linear.
FAST, FOLD = 0.25, 8
UNCHANGED = 4  # eps of x, which a step of rounding is
LONG, ROUNDED = 0.25, 0.75  # powers of eps
BEHIND, SMOOTH = (0.25, 0.5, 1.0), 0.1  # steps back, and how well J must predict f there

Function = Callable[[Array], Array]
Residual = Callable[[Arrays, Array], Array]


class Observer(Protocol):
    """A function called at the start and after every step, with the length t as a part of dx,
    |f| and the values of J.
    """

    def __call__(self, steps: Array, t: Array, size: Array, J: Array) -> None: ...


class Box(Protocol):
    """The open set in which x stays."""

    def hold(self, x: Array) -> Array:
        """Whether x is in it."""

    def part(self, x: Array, dx: Array) -> Array:
        """The largest t <= 1 for which x + t dx is well inside."""


class PseudoTime(Protocol):
    """The start of pseudo-transient continuation, in which x follows V dx/dt = -f(x) to rest."""

    def shifted(self, J: Array, part: Array, x0: Array, size: Array) -> Array:
        """The values of J + part V / dt_0, for |f(x0)| = size."""


@dataclass(frozen=True)
class Steps:
    """The limits of the steps, and the criterion by which they end.

    The iteration stops when a step is at most tol max(|x|, floor) long. It also stops when no step
    decreases |f| any more. Near a root x = 0 rounding is the cause, and the step is compared with the
    larger of |x0| and the longest step instead of with |x|. If f on the other side of x is as smooth
    as its Jacobian predicts, the cause is a jump, and the step is compared with |x|.
    `accepted`: the largest length of the last step, if more than tol, for an f of few digits. Steps
    as short as that are not halved, and end when one is not half as long as the one before.
    """

    tol: float
    maxiter: int
    floor: float = 0.0
    decreasing: bool = True  # halved until |f| decreases; else only until f is finite
    longest: float = math.inf  # change of an unknown
    within: Box | None = None
    accepted: float = 0.0
    observer: Observer | None = None
    pseudo: PseudoTime | None = None  # until steps are short; those of Newton's method end


class Linear(NamedTuple):
    """The values of J at x, kept with its factor for derivatives that nobody differentiates."""

    x: Array
    J: Array


class System(NamedTuple):
    """f(x), the values of J at x, and the function whose derivatives are checked once."""

    f: Function
    jacobian: Function
    looked: Function


@dataclass(frozen=True)
class Root(Rule):
    """Arguments (p, x0 (n,)), p a tuple of arrays with `axes` axes each; outputs (x, last) (n,), and 1 if
    the steps ended at a fold, where x has no derivative, else 0.

    At `last` J was factored and its step was found short enough; x is one step on, where that is
    nearer, as near to the root as steps converge. Their derivatives are one, that at `last`.
    `jacobian(f, x)`: the values of J on `structure`, differentiable, for a function f of x alone.
    """

    f: Residual
    axes: tuple[int, ...]
    structure: Structure
    jacobian: Callable[[Callable[[Array], Array], Array], Array]
    assume_a: str
    method: str
    steps: Steps

    # what errors say
    called: ClassVar[str] = "root"
    iteration: ClassVar[str] = "Newton's method"
    causes: ClassVar[str] = OF_ROOTS
    matrix: ClassVar[str] = "jacobian"
    is_near: ClassVar[bool] = False  # x0, to the solution: at another x0 what is wrong may be 0

    traits = Traits(differentiable=(True, True, False))

    @property
    def core(self) -> Trees:
        return (self.axes, 1)

    def kernel(self, p: Tree, x: Array) -> Arrays:
        if x.ndim > 1 or any(leaf.ndim > own for leaf, own in zip(p, self.axes, strict=True)):
            return self._each(p, x)
        return self.one(p, x)

    def one(self, p: Arrays, x: Array) -> Arrays:
        """The root for one x0."""
        return self.iterated(x, self.system(p, x))

    def system(self, p: Arrays, x: Array) -> System:
        """f of x alone, and its Jacobian."""
        of_x = partial(self.f, p)
        call = frontend_of(x).user.call
        return System(lambda x: call(self.f, p, x, of_x), partial(self.jacobian, of_x), of_x)

    def iterated(self, x: Array, system: System) -> Arrays:
        """Newton's method from x."""
        require_finite("x0", x)
        with frontend_of(x).user.looking_once(system.looked, self.is_near):
            found: Arrays = on_small_arrays(self._iterated, x, system.f, system.jacobian)
        return found

    def _iterated(self, x: Array, f: Function, jacobian: Function) -> Arrays:
        """Newton's method from x, with f and J of x."""
        xp, tiny = namespace(x), float(np.finfo(numpy_dtype(x)).tiny)
        long, rounded = eps(x) ** LONG, eps(x) ** ROUNDED
        tol, observer, one = self.steps.tol, self.steps.observer, xp.ones((), **alike(x)) + 0
        # Only the factor of the last step is kept, by whoever keeps those of this call: the derivative
        # asks for it again, those before it are let go of one by one.
        keeper, last = owner(), Holder()
        if isinstance(keeper, Holder):
            keeper.keep(last)

        def where(is_so: Any, a: Array, b: Array) -> Array:
            """a where it is so, else b: numbers of NumPy, which cost less than arrays, stay so."""
            return (a if is_so else b) if type(is_so) is np.bool_ else xp.where(is_so, a, b)

        def size(r: Array) -> Array:
            """|r|, infinite where f is undefined."""
            # NaN and infinity both become infinity: `now < inf` alone says that f is defined
            s = norm(r)
            return where(xp.isfinite(s), s, np.inf * one)

        def newton(J: Array, r: Array) -> Array:
            """The Newton step; its factor replaces that of the step before, the last is kept."""
            # released before the next factorization, so that two factors are never held at once
            last.clear()
            # J dx = -r
            with holding(last if isinstance(keeper, Holder) else keeper):
                return self.solved(J, -r[:, None])[:, 0]

        def limited(x: Array, dx: Array) -> Array:
            """t <= 1, such that t dx changes no unknown by more than the longest step, and leaves no
            box.
            """
            within = self.steps.within
            part = one if within is None else within.part(x, dx)
            if self.steps.longest == math.inf:
                return part
            # 0 in single precision is no limit
            longest = xp.asarray(max(self.steps.longest, tiny), **alike(x))
            # min(1, longest / max_i |dx_i|), without a division by zero where dx = 0
            step = longest / xp.maximum(xp.linalg.vector_norm(dx, ord=math.inf), longest)
            return xp.minimum(part, step)

        def length(size: Array, of_x: Array, scale: Array) -> Array:
            # |dx| relative to |x|, or to `scale` near x = 0; `tiny` keeps 0 / 0 from being NaN
            return size / (xp.maximum(of_x, scale) + tiny)

        def is_short(size: Array, of_x: Array) -> Array:
            return length(size, of_x, floor) <= self.steps.accepted

        # The state of the loop: steps taken (-1 before the first), x, the next step dx, r = f(x), |r|,
        # the part t of the step before that was taken (0: none was, so it ends), the larger of
        # |x0| and the longest step, dt_0 / dt of pseudo-time, 0 for a step of Newton's method, the
        # number of slow steps since the last fast one, |x| and |dx|.
        def going(state: Any) -> Array:
            steps, _, _, _, now, t, _, slow, _, of_x, of_dx = state
            found = (length(of_dx, of_x, floor) <= tol) & (slow == 0)
            more = ~found & (steps < self.steps.maxiter) & (t > 0)
            more &= xp.isfinite(of_dx)  # NaN takes the place of a step that is refused
            # before the first step dx = 0 says nothing yet: f(x0) has to be finite, no more
            return where(steps < 0, now < np.inf, more)

        def step(state: Any) -> Any:
            """Move along dx, and find the next dx. The first dx is 0, so that a compiled program
            contains one Newton step, not one before the loop and one inside.
            """
            too_long, halved, before = tried(state)
            return along(state, loop(too_long, halved, before if is_traced else halved(before)))

        def tried(state: Any) -> Any:
            """Return a test for too long trials (t, r = f(x + t dx), |r|), their halving, which makes the
            first one, too, and what it is made from.
            """
            steps, x, dx, r, start, *_, of_x, of_dx = state
            most = limited(x, dx)
            # a refused member of a batch, whose dx is NaN, has stopped: no t makes its f finite
            is_taken = (steps < 0) | ~xp.isfinite(of_dx)

            # t is halved while |f(x + t dx)|, which is `now`, is not finite, or has not decreased as
            # much as Armijo asks: (1 - t) |f(x)| is what Newton's model promises.
            # So near a root that rounding decides whether |f| decreases, steps are taken as they are.
            def too_long(trial: Any) -> Array:
                t, _, now = trial
                if not self.steps.decreasing:
                    return (t > most) | ~(is_taken | (now < np.inf))
                # Armijo: |f(x + t dx)| <= (1 - c t) |f(x)|;
                # after HALVINGS halvings t is taken as it is
                enough = (now <= (1 - DECREASE * t) * start) | (t <= most * 2.0**-HALVINGS)
                # a step as short as that is taken whole: of an f of few digits |f| is noise there
                if self.steps.accepted:
                    enough |= is_short(of_dx, of_x)
                return (t > most) | ~(is_taken | (enough & (now < np.inf)))

            def part(t: Array) -> Any:
                r = f(x + t * dx)
                return t, r, size(r)

            return too_long, lambda trial: part(trial[0] / 2), (2 * most, r, start)

        def along(state: Any, trial: Any) -> Any:
            (steps, x, dx, _, start, _, way, slow, run, _, of_dx), (t, r, now) = state, trial
            first, x = steps < 0, x + t * dx
            # the factor of this J gives the next step; the last one serves the derivative
            J, of_x, of_taken = jacobian(x), norm(x), t * of_dx
            way = xp.maximum(way, of_taken)
            if observer is not None:
                observer(steps, t, now, J)
            if pseudo is not None:
                # dt_0 / dt = |f| / |f(x0)|, switched evolution relaxation; a step that is short may
                # be so for a short dt: the next one is Newton's
                is_end = ~first & (length(of_taken, of_x, floor) <= tol)
                slow = where(is_end, 0 * now, now / xp.maximum(at_x0, tiny))
                J = pseudo.shifted(J, slow, x0, at_x0)
            dx = newton(J, r)
            of_dx = norm(dx)
            if isinstance(keeper, Holder) and host(x) and not frontend_of(x).differentiates():
                last.keep(Linear(x, J))
            # a part that is no better is rounding: t = 0 ends the loop
            better = (now < start) | first
            if not self.steps.decreasing:  # a step that is long may increase |f|
                better |= of_taken > tol * way
            if self.steps.accepted:  # short steps become shorter by far, unless they are rounding
                shrinks, is_near = of_dx <= SHRINKS * of_taken, is_short(of_taken, of_x)
                both = is_near & is_short(of_dx, of_x)
                better = where(both & ~first, shrinks, better | is_near)
            ratio = of_dx / (of_taken + tiny)
            counts = (t == 1) & (slow == 0) & (ratio > FAST) & (ratio < 1)  # whole steps
            fast = (length(of_taken, of_x, way) > long) | (length(of_dx, of_x, floor) > rounded)
            fast &= ratio < FAST
            run = where(fast, 0 * run, where(counts, run + 1, run))
            t = where(better, t, 0 * t)
            return steps + 1, x, dx, r, now, t, way, slow, run, of_x, of_dx

        loop, r, norm = frontend_of(x).loop, f(x), partial(norm_of, axis=-1)
        floor = xp.asarray(self.steps.floor, **alike(x))
        if (within := self.steps.within) is not None:
            check_or_raise(within.hold(x), outside)
        x0, pseudo = x, self.steps.pseudo
        check_or_raise((at_x0 := size(r)) < np.inf, self.undefined)
        # the first dx is 0: step -1 stays at x0, factors J there and finds the first Newton step
        before = xp.full((), -1, **alike(x, np.dtype(np.int32)))
        of_x, none, is_traced = norm(x), xp.zeros_like(one), traced(x)
        state = before, x, xp.zeros_like(x), r, at_x0, one, of_x, none, 0 * before, of_x, none
        if is_pending(r) and observer is None:
            # one wait for each step, which is believed to be no part of dx until that
            goes_on = True
            while goes_on:
                too_long, halved, first = tried(state)
                new = along(state, trial := halved(first))
                is_part, goes_on = all_decided((too_long(trial), going(new)))
                # too long after all: t is halved, and the old state moves again
                if is_part:
                    new = along(state, loop(too_long, halved, halved(trial)))
                    goes_on = decided(going(new))
                state = new
        else:
            state = loop(going, step, state)
        steps, x, dx, r, now, t, way, slow, run, of_x, of_dx = state
        # If rounding ends the steps, near a root, f behind x is noise. If f(x - s dx) = (1 + s) r, as
        # J predicts, f is smooth there, and a jump ends the steps.
        has_moved = is_known(t > 0)
        fold = xp.asarray(where(run >= FOLD, one, 0 * now))
        unchanged = min(tol, UNCHANGED * eps(x)) if has_moved and self.steps.accepted else 0.0
        if unchanged and is_known((length(of_dx, of_x, floor) <= unchanged) & (slow == 0)):
            return x + 0, x + 0, fold  # a step of rounding leads nowhere
        # `each` compiles one f, not one for each of these places
        # s = -1 gives |f(x + dx)|; the others give |f(x - s dx) - (1 + s) r|
        places = xp.asarray([-1.0, *(() if has_moved else BEHIND)], **alike(x))
        (sizes,) = frontend_of(x).each(lambda s: (size(f(x - s * dx) - (1 + s) * r),), (places,))
        # t = 0, and yet f behind x is linear up to SMOOTH: a jump ended the steps, not rounding
        moving = t > 0 if has_moved else (t > 0) | (xp.max(sizes[1:]) < SMOOTH * now)
        # If rounding has ended the steps, the last step is compared with the way from x0 instead of x:
        # see `Steps`.
        moved = length(of_dx, of_x, where(moving, floor, xp.maximum(way, floor)))
        accepted = (moved <= tol) | (~moving & (moved <= self.steps.accepted))
        accepted &= slow == 0
        check_or_raise(accepted, partial(self.not_converged, tol), steps, moved)
        if not self.steps.maxiter:  # a solution that was given is given back
            return x + 0, x + 0, xp.asarray(0 * now)
        # the last dx costs no new Jacobian: it is taken if it lowers |f| once more
        nearer = accepted & moving & (sizes[0] < now)
        if within is not None:
            nearer &= within.hold(x + dx)
        return xp.where(nearer, x + dx, x), x + 0, fold

    def _each(self, p: Arrays, x: Array) -> Arrays:
        """The problems of a batch, together while they are small."""
        xp, owns = namespace(x), (*self.axes, 1)
        batch = common_batch(owns, (*p, x))
        if 0 in batch:
            none = xp.zeros((*batch, x.shape[-1]), **alike(x))
            return none, none + 0, xp.zeros(batch, **alike(real(x)))
        # f may close over what is differentiated, which a batch of members hides
        if self.together > 1:
            first = [
                leaf[(0,) * (leaf.ndim - own)] for leaf, own in zip((*p, x), owns, strict=True)
            ]
            frontend_of(x).user.call(self.f, tuple(first[:-1]), first[-1])
        return of_each(lambda *one: self.kernel(one[:-1], one[-1]), owns, (*p, x), self.together)

    @property
    def together(self) -> int:
        """The number of members of a batch that are solved as one."""
        return max(1, TOGETHER // max(1, self.numbers))

    @property
    def numbers(self) -> int:
        """The number of numbers in the matrices of a step."""
        return sum(math.prod(size) for size in self.structure.sizes or [self.structure.shape])

    @cached_property
    def newton_step(self) -> NewtonStep:
        """The rule of J^-1 b, on the way to x."""
        return NewtonStep(self.structure, self.assume_a, self.method, of=self.matrix)

    def solved(self, J: Array, b: Array) -> Array:
        """J^-1 b, on the way to x."""
        try:
            return bind(self.newton_step, J, b)[0]
        except (SingularMatrixError, NotPositiveDefiniteError) as error:
            is_named = self.matrix == "curvature" or (
                self.matrix == "jacobian" and type(error) is SingularMatrixError
            )
            if not is_named or traced(J) or J.ndim != self.structure.core:
                raise
            seen = named(self.structure, asnumpy(J), self.matrix == "curvature")
            own = type(error)(error.engine, error.evidence + seen)
            raise in_words(own, self.matrix) from error

    def _partial(self, p: Arrays, x: Array) -> Array:
        """The values of J at x, as a differentiable function of p and x; those of the last step where
        nobody differentiates them.
        """
        if host(x) and not frontend_of(x).differentiates(x, *p):
            for last in getattr(owner(), "kept", ()):
                for kept in last.kept if isinstance(last, Holder) else ():
                    if isinstance(kept, Linear) and np.array_equal(asnumpy(x), asnumpy(kept.x)):
                        return namespace(x).asarray(kept.J)
        return self.jacobian(partial(self.f, p), x)

    def jvp(self, tangents: Trees, out: Arrays, *args: Tree) -> Tangents:
        (p, _), (dp, _), (_, x, fold) = args, tangents, out
        moving = tuple(d is not None for d in dp)
        if not any(moving) or 0 in x.shape:
            return None, None, None

        def pushed(p: Arrays, dp: Arrays, x: Array) -> tuple[Array]:
            # df = (df/dp) dp at x;  J dx = -df
            df = jvp(self._of(p, moving, x), _chosen(p, moving), dp)[1]
            J = self._partial(p, x)
            return (solve(self.structure, J, -df[:, None], self.assume_a, self.method)[:, 0],)

        core = (self.axes, _chosen(self.axes, moving), 1)
        args = (p, _chosen(dp, moving), _required(x, fold))
        (dx,) = of_each(pushed, core, args, self.together)
        return dx, dx, None

    def vjp(self, need: Trees, cotangents: Cotangents, out: Arrays, *args: Tree) -> Trees:
        (p, _), (_, x, fold), x_bar = args, out, plus(*cotangents[:2])
        if not any(need[0]) or 0 in x.shape:
            return tuple(map(nothing, need))

        def pulled(p: Arrays, x: Array, x_bar: Array) -> Arrays:
            J = self._partial(p, x)
            # J^H lam = x_bar;  p_bar = -(df/dp)^H lam
            lam = solve(self.structure.H, J, x_bar[:, None], self.assume_a, self.method)[:, 0]
            of_p = self._of(p, need[0], x)
            p_bar: Arrays = frontend_of(x).user.vjp(of_p, _chosen(p, need[0]))[1](-lam)
            return p_bar

        args = (p, _required(x, fold), x_bar)
        found = iter(of_each(pulled, (self.axes, 1, 1), args, self.together))
        return tuple(next(found) if n else None for n in need[0]), None

    def undefined(self) -> ValueError:
        return ValueError(
            "f: expected finite numbers at x0, got NaN or infinity. Start where f is defined."
        )

    def not_converged(self, tol: float, steps: Any, length: Any) -> ConvergenceError:
        return ConvergenceError(
            self.iteration if self.steps.pseudo is None else "pseudo-transient continuation",
            int(steps),
            float(length),
            tol,
            "the last step is too long for x",
            self.causes if self.steps.maxiter else OF_GIVEN_ROOTS,
        )

    def _of(self, p: Arrays, moving: Any, x: Array) -> Callable[..., Array]:
        """f as a function of the parameters that have a derivative; the rest is fixed."""

        def f(*values: Array) -> Array:
            moved = iter(values)
            return self.f(
                tuple(next(moved) if m else fixed for fixed, m in zip(p, moving, strict=True)), x
            )

        return f


def _required(x: Array, fold: Array) -> Array:
    """x, which has a derivative, or the error."""
    if (seen := numbers(fold)) is not None and not np.any(seen):
        return x
    return x + checked(_require_no_fold, fold[..., None, None])[..., 0]


def is_known(holds: Array) -> bool:
    """Whether this is known to hold, for all."""
    return (seen := numbers(holds)) is not None and bool(np.all(seen))


def _require_no_fold(fold: Array) -> None:
    check_or_raise((fold == 0).all(), _no_derivative)


def _no_derivative() -> NotDifferentiableError:
    return NotDifferentiableError(
        "no derivative: Newton's steps halved to the end, as they do at a fold, where the Jacobian is "
        "singular at x: roots meet there, or a minimum has no curvature. Move the parameters."
    )


def outside() -> ValueError:
    what, advice = "one that is not, or on a bound", "Start inside of them."
    return value_error("x0", "a start between the bounds", what, advice)


def _chosen(p: tuple[Any, ...], moving: Any) -> Arrays:
    return tuple(x for x, m in zip(p, moving, strict=True) if m)
