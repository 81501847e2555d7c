"""x near a minimum of 1/2 C^2 sum rho((r_i(x) / C)^2), by Levenberg's and Marquardt's steps.

    (G + mu D^2) dx = -J^T rho' r,    G = J^T W J,  D_j^2 = the largest G_jj so far

mu          after a step that decreases the cost as predicted a third, else 2, 4, 8, ... times itself
Gauss-Newton     mu only regularizes, and steps are halved until the cost decreases
end         where Newton's method on the gradient does better: a step with a small mu that is short,
            or a decrease, or a gradient, that rounding hides
reference   More, The Levenberg-Marquardt algorithm: implementation and theory (1978); Nielsen,
            Damping parameter in Marquardt's method (1999); Nocedal and Wright, chapter 10
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ldiv.core.arrays.shapes import alike, eps, numpy_dtype
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import check_or_raise, frontend_of, namespace
from ldiv.core.frameworks.looks import all_decided, believed, is_pending
from ldiv.core.owners.holder import Holder, holding, owner
from ldiv.core.policies.errstate import under
from ldiv.core.rules.structure import Structure
from ldiv.derivatives.least_squares_info import FitPath
from ldiv.derivatives.normal_equations import Equations
from ldiv.derivatives.robust_losses import Scaled
from ldiv.errors import OF_MINIMA, ConvergenceError
from ldiv.rules.solve import solve

TRIALS = 30  # of one step
ENOUGH = 1e-4  # of the predicted decrease
FIRST = 1e-3  # mu


@dataclass(frozen=True)
class Search:
    """The steps from x0 to where Newton's method takes over. `structure`: that of G."""

    equations: Equations
    structure: Structure
    loss: Scaled
    damped: bool
    maxiter: int
    observer: FitPath | None = None

    def __call__(
        self, f: Callable[[Array], Array], jacobian: Callable[[Array], Array], x: Array
    ) -> Array:
        """`f` is the residual, `jacobian` the values of J."""
        steps = Steps(self, f, jacobian, x)
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
        check_or_raise(~state.on, _not_converged(steps.tol), state.steps, state.far)
        return state.x


class State(NamedTuple):
    """The number of steps, whether they go on, x, r(x), the cost c, mu, the largest G_jj so far, the
    largest that each unknown has been, and the length of the last step.
    """

    steps: Array
    on: Array
    x: Array
    r: Array
    c: Array
    mu: Array
    d2: Array
    way: Array
    far: Array


class Model(NamedTuple):
    """The values of G and g = J^T rho' r at x, the largest G_jj so far, D^2, and whether g is rounding."""

    G: Array
    g: Array
    d2: Array
    D2: Array
    is_flat: Array


class Trial(NamedTuple):
    """A trial of the part t of dx: r and cost at x + t dx, and the decrease over the predicted one.

    `is_good`: the decrease suffices. `is_small`: the step is too short to be judged by the cost. mu,
    its next factor nu, and the number of trials follow.
    """

    dx: Array
    t: Array
    r: Array
    c: Array
    gain: Array
    is_good: Array
    is_small: Array
    mu: Array
    nu: Array
    tries: Array


class Steps:
    """The steps of one fit."""

    def __init__(
        self,
        search: Search,
        f: Callable[[Array], Array],
        jacobian: Callable[[Array], Array],
        x: Array,
    ) -> None:
        self.search, self.f, self.jacobian, self.xp = search, f, jacobian, namespace(x)
        self.loop, self.one = frontend_of(x).loop, self.xp.ones((), **alike(x))
        self.rounding, self.tol, self.last = eps(x), eps(x) ** (1 / 3), Holder()
        self.tiny, self.least_mu = float(np.finfo(numpy_dtype(x)).tiny), self.rounding**0.75

    def start(self, x: Array) -> State:
        """The state at x0, where the residual must be finite."""
        r = self.f(x)
        c = self.cost(r)
        is_defined = self.xp.isfinite(c)
        check_or_raise(is_defined, _undefined)
        none = self.xp.zeros((), **alike(x, np.dtype(np.int32)))
        mu = self.one * (FIRST if self.search.damped else self.least_mu)
        return State(none, is_defined, x, r, c, mu, 0 * x, self.xp.abs(x), self.one)

    def going(self, state: State) -> Array:
        return state.on & (state.steps < self.search.maxiter)

    def step(self, state: State) -> State:
        """x + t dx, with the first trial that will do."""
        model = self.model(state)
        another = partial(self.another, state, model)
        trial = self.loop(self.again, another, self.first(state, model))
        return self.observed(model, self.along(state, model, trial))

    def model(self, state: State) -> Model:
        """G = J^T W J and g = J^T rho' r."""
        xp, make, J = self.xp, self.search.equations, self.jacobian(state.x)
        psi = self.search.loss.weighted(state.r)
        G, g = make.assembled(J, self.search.loss.curvature(state.r)), make.product(J, psi)
        d2 = xp.maximum(state.d2, make.diagonal(G))
        # |cos| of the angle between a column of J and the residual
        sizes = make.lengths(J) * xp.linalg.vector_norm(psi)
        seen = self.rounding * float(psi.shape[0]) ** 0.5 * sizes
        D2 = xp.where(d2 > 0, d2, 0 * d2 + 1)
        return Model(G, g, d2, D2, xp.all(xp.abs(g) <= seen))

    def solved(self, model: Model, mu: Array) -> Array:
        """dx = -(G + mu D^2)^-1 g; one factor lives at a time."""
        self.last.clear()
        keeping = holding(self.last) if isinstance(owner(), Holder) else nullcontext()
        G = self.search.equations.shifted(model.G, mu * model.D2)
        with under("ignore"), keeping:
            return solve(self.search.structure, G, -model.g[:, None], "pos")[:, 0]

    def first(self, state: State, model: Model) -> Trial:
        """The whole step."""
        dx, none = self.solved(model, state.mu), 0 * state.steps
        return self.judged(state, model, dx, self.one, state.mu, 2 * self.one, none)

    def again(self, trial: Trial) -> Array:
        """Whether another trial follows."""
        return ~(trial.is_good | trial.is_small) & (trial.tries < TRIALS)

    def another(self, state: State, model: Model, trial: Trial) -> Trial:
        """Return the next trial step, with more damping or half as long."""
        dx, t, mu, nu = trial.dx, trial.t, trial.mu, trial.nu
        if self.search.damped:
            mu, nu = mu * nu, 2 * nu
            dx = self.solved(model, mu)
        else:
            t = t / 2
        return self.judged(state, model, dx, t, mu, nu, trial.tries + 1)

    def judged(
        self, state: State, model: Model, dx: Array, t: Array, mu: Array, nu: Array, tries: Array
    ) -> Trial:
        """The model foretells c - c(x + t dx) = t s - t^2 (s - q), s = -g^T dx, q = (s + mu |D dx|^2) / 2."""
        xp, c = self.xp, state.c
        slope = -xp.sum(model.g * dx)
        whole = (slope + mu * xp.sum(model.D2 * dx * dx)) / 2
        foretold = t * slope - t * t * (slope - whole)
        r = self.f(state.x + t * dx)
        new_c = self.cost(r)
        gain = (c - new_c) / (foretold + self.tiny)
        is_good = xp.isfinite(new_c) & (gain > ENOUGH)
        is_short = self.relative(t * dx, xp.maximum(state.way, xp.abs(state.x))) <= self.tol
        is_small = (mu <= 1) & (is_short | (foretold <= self.rounding**0.5 * c))
        is_small |= foretold <= self.rounding * c
        return Trial(dx, t, r, new_c, gain, is_good, is_small, mu, nu, tries)

    def along(self, state: State, model: Model, trial: Trial) -> State:
        """mu <- mu max(1/3, 1 - (2 gain - 1)^3), and x + t dx if it is better."""
        xp, x, mu, taken = self.xp, state.x, trial.mu, trial.t * trial.dx
        if self.search.damped:
            less = 1 - (2 * trial.gain - 1) ** 3
            less = xp.where(less > 1 / 3, less, 1 / 3 * self.one)
            mu = xp.maximum(mu * less, self.least_mu * self.one)
        takes = trial.is_good & ~model.is_flat
        way = xp.maximum(state.way, xp.maximum(xp.abs(x), xp.abs(taken)))
        return State(
            state.steps + 1,
            takes & ~trial.is_small,
            xp.where(takes, x + taken, x),
            xp.where(takes, trial.r, state.r),
            xp.where(takes, trial.c, state.c),
            mu,
            model.d2,
            way,
            self.relative(taken, way),
        )

    def cost(self, r: Array) -> Array:
        """Infinite where it is undefined."""
        found = self.search.loss.cost(r)
        return self.xp.where(self.xp.isfinite(found), found, self.one * np.inf)

    def relative(self, dx: Array, way: Array) -> Array:
        """The largest change of an unknown, over the largest that it has been."""
        return self.xp.max(self.xp.abs(dx) / (way + self.tiny))

    def in_one_wait_each(self, state: State) -> State:
        """The steps on a device: each trial is believed to be the last of its step, and one wait says
        whether it was, whether the steps go on, and whether its factor was one.
        """
        goes_on = believed(self.going(state))
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
        """The state after a step, of which the observer is told."""
        if self.search.observer is not None:
            slope = self.xp.max(self.xp.abs(model.g))
            self.search.observer(state.c, state.far, slope)
        return state


def _undefined() -> ValueError:
    return ValueError(
        "residual: expected finite numbers at x0, got NaN or infinity. Start where it is defined."
    )


def _not_converged(tol: float) -> Callable[..., ConvergenceError]:
    def error(steps: Any, far: Any) -> ConvergenceError:
        what = "the last step is too long for x"
        return ConvergenceError("least_squares", int(steps), float(far), tol, what, OF_MINIMA)

    return error
