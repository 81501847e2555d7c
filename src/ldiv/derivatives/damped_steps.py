"""x near a minimum of a cost c(x), by Levenberg's and Marquardt's steps with a model G of its Hessian.

    (G + mu D^2 + eps^(3/4) diag |G|) dx = -g,    g = grad c,  D_j^2 = the largest |G_jj| so far

mu          after a step that decreases the cost as predicted a third, else 2, 4, 8, ... times itself.
            After a step that is well predicted, or small, 0 is tried first; without damping mu is 0,
            and steps are halved until the cost decreases
end         where Newton's method on the gradient does better: a step with mu = 0 that is short, or
            whose decrease is small and as predicted, or a decrease, or a gradient, that rounding hides
reference   More, The Levenberg-Marquardt algorithm: implementation and theory (1978); Nielsen,
            Damping parameter in Marquardt's method (1999); Nocedal and Wright, chapter 10
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from ldiv.core.arrays.shapes import alike, eps, numpy_dtype
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import (
    check_or_raise,
    frontend_of,
    namespace,
    on_small_arrays,
    traced,
)
from ldiv.core.frameworks.looks import all_decided, assumed_true, is_pending
from ldiv.core.owners.holder import Holder, holding, owner
from ldiv.core.policies.errstate import under
from ldiv.core.rules.structure import Structure
from ldiv.derivatives.curvature import Function
from ldiv.derivatives.least_squares_info import FitPath
from ldiv.errors import ConvergenceError
from ldiv.rules.root import Observer
from ldiv.rules.root import Steps as Limits
from ldiv.rules.solve import solve

TRIALS = 30  # of one step
ENOUGH = 1e-4  # of the predicted decrease
TRUSTED_GAIN = 0.75  # of the predicted decrease: the model holds
FIRST = 1e-3  # mu
POLISHING = 20  # steps of Newton's method at the end
ROUNDINGS = 10  # of the cost, by which it may grow


class Curvature(Protocol):
    """The values of a matrix G (n, n)."""

    def diagonal(self, G: Array) -> Array: ...

    def shifted(self, G: Array, d: Array) -> Array:
        """G + diag(d)."""


@dataclass(frozen=True, kw_only=True)
class Search(ABC):
    """Damped steps from x0 to a point from which Newton's method converges. `structure`: that of G."""

    equations: Curvature
    structure: Structure
    maxiter: int
    damped: bool = True
    observer: FitPath | None = None

    called: ClassVar[str]
    function: ClassVar[str]  # in errors
    may_be_indefinite: ClassVar[bool]  # G
    causes: ClassVar[str]  # why steps may not end

    @abstractmethod
    def steps(self, f: Function, derivative: Callable[[Array], Any], x: Array) -> Steps:
        """Return the steps for f, from which the cost is computed, and its derivative."""

    def __call__(self, f: Function, derivative: Callable[[Array], Any], x: Array) -> Array:
        found: Array = on_small_arrays(self._ended, x, f, derivative)
        return found

    def _ended(self, x: Array, f: Function, derivative: Callable[[Array], Any]) -> Array:
        """x where the steps end."""
        steps = self.steps(f, derivative, x)
        state = steps.start(x)
        if self.observer is not None:
            self.observer.start(state.c)
        if not x.shape[0]:
            return x
        if is_pending(state.c):
            state = steps.in_one_wait_each(state)
        else:
            state = frontend_of(x).loop(steps.going, steps.step, state)
        steps.last.clear()
        check_or_raise(~state.on, self._not_converged(steps.tol), state.steps, state.far)
        return state.x

    def undefined(self) -> ValueError:
        return ValueError(
            f"{self.function}: expected finite numbers at x0, got NaN or infinity. Start where it is defined."
        )

    def _not_converged(self, tol: float) -> Callable[..., ConvergenceError]:
        def error(steps: Any, far: Any) -> ConvergenceError:
            what = "the last step is too long for x"
            return ConvergenceError(self.called, int(steps), float(far), tol, what, self.causes)

        return error


def polishing(dtype: Any, tol: float | None, observer: Observer | None) -> Limits:
    """Return the limits of Newton's method on the gradient, which follows."""
    # rounding leaves eps^(1/2) of the cost's digits to the gradient, not to x
    rounding = float(np.finfo(dtype).eps)
    return Limits(
        rounding ** (5 / 6) if tol is None else float(tol),
        POLISHING,
        floor=rounding**0.5,
        accepted=max(rounding**0.5, tol or 0.0),
        observer=observer,
    )


class State(NamedTuple):
    """The number of steps, whether they go on, x, r = f(x), the cost c and mu.

    Whether mu = 0 is tried first, the largest |G_jj| so far, the largest that each unknown and its step
    have been, and the length of the last step follow.
    """

    steps: Array
    on: Array
    x: Array
    r: Array
    c: Array
    mu: Array
    is_bare: Array
    d2: Array
    way: Array
    far: Array


class Model(NamedTuple):
    """The values of G and g at x, the largest |G_jj| so far, D^2, |G_jj| or 1, and whether g is rounding."""

    G: Array
    g: Array
    d2: Array
    D2: Array
    d: Array
    is_flat: Array


class Trial(NamedTuple):
    """A trial of the part t of dx, found with this shift of G: x + t dx with its r and cost, the length of
    the step, and the decrease over the predicted one.

    `is_good`: the decrease suffices. `is_small`: the step is too short to be judged by the cost. mu
    and nu follow, the next factor of mu: 2, 4, 8, ... after 1, 2, 3, ... trials.
    """

    dx: Array
    shift: Array
    t: Array
    x: Array
    r: Array
    c: Array
    far: Array
    gain: Array
    is_good: Array
    is_small: Array
    mu: Array
    nu: Array


class Steps(ABC):
    """The steps of one search."""

    def __init__(
        self, search: Search, f: Function, derivative: Callable[[Array], Any], x: Array
    ) -> None:
        self.search, self.f, self.derivative, self.xp = search, f, derivative, namespace(x)
        # A factor of an indefinite G + mu D^2 is NaN, so that mu grows. In a program of JAX, which has
        # no NaN of sparse factors, a solution of the indefinite system is judged by its slope.
        self.how = ("ignore", "pos")
        if search.may_be_indefinite:
            self.how = ("ignore", "sym") if traced(x) else ("nan", "pos")
        self.loop, self.one = frontend_of(x).loop, self.xp.ones((), **alike(x))
        self.rounding, self.tol, self.last = eps(x), eps(x) ** (1 / 3), Holder()
        self.tiny, self.least_mu = float(np.finfo(numpy_dtype(x)).tiny), self.rounding**0.75

    def start(self, x: Array) -> State:
        """The state at x0, where the residual must be finite."""
        r = self.f(x)
        c = self.cost(r)
        is_defined = self.xp.isfinite(c)
        check_or_raise(is_defined, self.search.undefined)
        none = self.xp.zeros((), **alike(x, np.dtype(np.int32)))
        mu = self.one * (FIRST if self.search.damped else 0.0)
        return State(none, is_defined, x, r, c, mu, mu < 0, 0 * x, self.xp.abs(x), self.one)

    def going(self, state: State) -> Array:
        return state.on & (state.steps < self.search.maxiter)

    def step(self, state: State) -> State:
        """Return x + t dx for the first acceptable trial."""
        model = self.model(state)
        another = partial(self.another, state, model)
        trial = self.loop(self.again, another, self.first(state, model))
        return self.observed(model, self.along(state, model, trial))

    @abstractmethod
    def model(self, state: State) -> Model:
        """Return G and g at x."""

    @abstractmethod
    def value(self, r: Array) -> Array:
        """The cost, of f(x)."""

    @abstractmethod
    def negligible(self, c: Array) -> Array:
        """Return the size of a decrease that is negligible beside this cost."""

    def solved(self, model: Model, mu: Array) -> tuple[Array, Array]:
        """dx = -(G + shift)^-1 g, and the shift; one factor lives at a time."""
        self.last.clear()
        keeping = holding(self.last) if isinstance(owner(), Holder) else nullcontext()
        # the second term makes G regular
        shift = mu * model.D2 + self.least_mu * model.d
        G = self.search.equations.shifted(model.G, shift)
        policy, assume_a = self.how
        with under(policy), keeping:
            return solve(self.search.structure, G, -model.g[:, None], assume_a)[:, 0], shift

    def first(self, state: State, model: Model) -> Trial:
        """The whole step."""
        mu = self.xp.where(state.is_bare, 0 * state.mu, state.mu)
        return self.judged(state, model, *self.solved(model, mu), self.one, mu, 2 * self.one)

    def again(self, trial: Trial) -> Array:
        """Whether another trial follows."""
        return ~(trial.is_good | trial.is_small) & (trial.nu <= 2.0**TRIALS)

    def another(self, state: State, model: Model, trial: Trial) -> Trial:
        """Return the next trial step, with more damping or half as long."""
        dx, shift, t, mu, nu = trial.dx, trial.shift, trial.t, trial.mu, trial.nu
        if self.search.damped:
            mu = self.xp.where(mu > 0, mu * nu, state.mu)
            dx, shift = self.solved(model, mu)
        else:
            t = t / 2
        return self.judged(state, model, dx, shift, t, mu, 2 * nu)

    def judged(
        self, state: State, model: Model, dx: Array, shift: Array, t: Array, mu: Array, nu: Array
    ) -> Trial:
        """The model predicts c - c(x + t dx) = t s - t^2 (s - q), s = -g^T dx, q = (s + dx^T shift dx) / 2."""
        xp, c, taken = self.xp, state.c, t * dx
        slope = -xp.sum(model.g * dx)
        whole = (slope + xp.sum(shift * dx * dx)) / 2
        predicted = t * slope - t * t * (slope - whole)
        x = state.x + taken
        r = self.f(x)
        new_c = self.cost(r)
        gain = (c - new_c) / (predicted + self.tiny)
        is_good = xp.isfinite(new_c) & (gain > ENOUGH)
        # the largest change of an unknown, over the largest that it has been
        far = xp.max(xp.abs(taken) / (state.way + self.tiny))
        if self.search.damped:  # without damping no unknown changes by more than it has ever been
            is_good &= (mu > 0) | (far <= 1)
        is_short = far <= self.tol
        # Where a step is short, or the decrease that it predicts rightly does not count, and damping is
        # not the cause, Newton's method goes on. Below rounding of c nothing can be judged.
        is_hidden = (predicted <= self.negligible(c)) & (gain > TRUSTED_GAIN) & (nu == 2)
        is_small = (mu <= 1) & (is_short | is_hidden)
        is_small |= predicted <= self.rounding * xp.abs(c)
        if self.search.may_be_indefinite:  # so may G + mu D^2: dx may lead uphill
            is_down = slope > 0
            is_good, is_small = is_good & is_down, is_small & is_down
        return Trial(dx, shift, t, x, r, new_c, far, gain, is_good, is_small, mu, nu)

    def along(self, state: State, model: Model, trial: Trial) -> State:
        """mu <- mu max(1/3, 1 - (2 gain - 1)^3), and x + t dx if it is better."""
        xp, mu = self.xp, trial.mu
        if self.search.damped:
            less = xp.minimum(1 - (2 * trial.gain - 1) ** 3, 2 * self.one)
            less = xp.where(less > 1 / 3, less, 1 / 3 * self.one)
            mu = xp.maximum(xp.maximum(mu, state.mu) * less, self.least_mu * self.one)
        # a step may be small only because of its damping, unless less damping was refused: continue
        is_first = trial.nu == 2
        is_damped_small = trial.is_small & (trial.mu > 0) & (trial.mu <= state.mu)
        is_damped_small &= trial.is_good | is_first
        # after a step as long as an unknown, mu = 0 would be refused because the next step is too long
        is_bare = is_first & (trial.is_small | ((trial.gain > TRUSTED_GAIN) & (trial.far < 1)))
        # Newton's step that ends the search is taken, unless c is larger by more than rounding
        is_last = trial.is_small & (trial.mu == 0) & (trial.far <= self.tol)
        is_last &= trial.c <= state.c + ROUNDINGS * self.rounding * xp.abs(state.c)
        takes = (trial.is_good | is_last) & ~model.is_flat
        x = xp.where(takes, trial.x, state.x)
        return State(
            state.steps + 1,
            ~model.is_flat & (is_damped_small | (trial.is_good & ~trial.is_small)),
            x,
            xp.where(takes, trial.r, state.r),
            xp.where(takes, trial.c, state.c),
            mu,
            is_bare,
            model.d2,
            xp.maximum(state.way, xp.maximum(xp.abs(x), xp.abs(trial.t * trial.dx))),
            xp.minimum(trial.far, self.one),
        )

    def cost(self, r: Array) -> Array:
        """Infinite where it is undefined."""
        found = self.value(r)
        return self.xp.where(self.xp.isfinite(found), found, self.one * np.inf)

    def in_one_wait_each(self, state: State) -> State:
        """Run the steps on a device with one wait for each step.

        Each trial is assumed to be the last one of its step. One read tells whether it was, whether
        the steps continue, and whether the factor exists.
        """
        goes_on = assumed_true(self.going(state))
        while goes_on:
            model, fails, trial = self.model(state), True, None
            while fails:
                trial = (
                    self.first(state, model) if trial is None else self.another(state, model, trial)
                )
                new = self.along(state, model, trial)
                fails, goes_on = all_decided((self.again(trial), self.going(new)))
            state = self.observed(model, new)
        return state

    def observed(self, model: Model, state: State) -> State:
        """Return the state after a step, and call the observer with it."""
        if self.search.observer is not None:
            slope = self.xp.max(self.xp.abs(model.g))
            self.search.observer(state.c, state.far, slope)
        return state
