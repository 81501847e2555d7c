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
from typing import Any

import numpy as np

from ldiv.core.array_protocol import Array
from ldiv.core.arrays import alike, eps, numpy_dtype
from ldiv.core.dispatch import check_or_raise, frontend_of, namespace
from ldiv.core.errstate import under
from ldiv.core.holder import Holder, holding, owner
from ldiv.core.structure import Structure
from ldiv.core.verdict import all_decided, believed, is_pending
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

    def __call__(
        self, f: Callable[[Array], Array], jacobian: Callable[[Array], Array], x: Array
    ) -> Array:
        """`f` is the residual, `jacobian` the values of J."""
        if not x.shape[0]:
            return x
        xp, loop, make = namespace(x), frontend_of(x).loop, self.equations
        rounding, tol = eps(x), eps(x) ** (1 / 3)
        floor, last = rounding**0.75, Holder()
        tiny = float(np.finfo(numpy_dtype(x)).tiny)
        one = xp.ones((), **alike(x))

        def solved(G: Array, d: Array, g: Array) -> Array:
            """-(G + diag d)^-1 g; one factor lives at a time."""
            last.clear()
            keeping = holding(last) if isinstance(owner(), Holder) else nullcontext()
            with under("ignore"), keeping:
                return solve(self.structure, make.shifted(G, d), -g[:, None], "pos")[:, 0]

        def cost(r: Array) -> Array:
            found = self.loss.cost(r)
            return xp.where(xp.isfinite(found), found, one * np.inf)

        def relative(dx: Array, way: Array) -> Array:
            """The largest change of an unknown, over the largest that it has been."""
            return xp.max(xp.abs(dx) / (way + tiny))

        def going(state: Any) -> Array:
            steps, on = state[0], state[1]
            return on & (steps < self.maxiter)

        def tried(state: Any) -> tuple[Any, Any, Any, Any]:
            """The first trial of a step, whether another is to follow, which, and the state after one."""
            steps, _, x, r, c, mu, d2, way, _ = state
            J, psi = jacobian(x), self.loss.weighted(r)
            G = make.assembled(J, self.loss.curvature(r))
            g, diagonal = make.product(J, psi), make.diagonal(G)
            d2 = xp.maximum(d2, diagonal)
            D2 = xp.where(d2 > 0, d2, 0 * d2 + 1)
            # |cos| of the angle between a column of J and the residual
            sizes = make.lengths(J) * xp.linalg.vector_norm(psi)
            seen = rounding * float(r.shape[0]) ** 0.5 * sizes
            is_flat = xp.all(xp.abs(g) <= seen)

            def judged(dx: Array, t: Array, mu: Array) -> Any:
                """Whether the step t dx will do, or is too short to be judged by the cost."""
                slope = -xp.sum(g * dx)
                foretold = (slope + mu * xp.sum(D2 * dx * dx)) / 2  # for t = 1
                foretold = t * slope - t * t * (slope - foretold)
                new_r = f(x + t * dx)
                new_c = cost(new_r)
                gain = (c - new_c) / (foretold + tiny)
                is_good = xp.isfinite(new_c) & (gain > ENOUGH)
                is_short = relative(t * dx, xp.maximum(way, xp.abs(x))) <= tol
                is_small = (mu <= 1) & (is_short | (foretold <= rounding**0.5 * c))
                is_small |= foretold <= rounding * c
                return new_r, new_c, gain, is_good, is_small

            def again(trial: Any) -> Array:
                is_good, is_small, tries = trial[5], trial[6], trial[-1]
                return ~(is_good | is_small) & (tries < TRIALS)

            def another(trial: Any) -> Any:
                """With more damping, or half as long."""
                dx, t, mu, nu, tries = trial[0], trial[1], trial[7], trial[8], trial[9]
                if self.damped:
                    mu, nu = mu * nu, 2 * nu
                    dx = solved(G, mu * D2, g)
                else:
                    t = t / 2
                new_r, new_c, gain, is_good, is_small = judged(dx, t, mu)
                return dx, t, new_r, new_c, gain, is_good, is_small, mu, nu, tries + 1

            def along(trial: Any) -> Any:
                dx, t, new_r, new_c, gain, is_good, is_small, mu, _, _ = trial
                if self.damped:
                    less = 1 - (2 * gain - 1) ** 3
                    mu = xp.maximum(mu * xp.where(less > 1 / 3, less, 1 / 3 * one), floor * one)
                takes = is_good & ~is_flat
                on = is_good & ~is_small & ~is_flat
                longest = xp.maximum(way, xp.maximum(xp.abs(x), xp.abs(t * dx)))
                return (
                    steps + 1,
                    on,
                    xp.where(takes, x + t * dx, x),
                    xp.where(takes, new_r, r),
                    xp.where(takes, new_c, c),
                    mu,
                    d2,
                    longest,
                    relative(t * dx, longest),
                )

            dx = solved(G, mu * D2, g)
            trial = (dx, one, *judged(dx, one, mu), mu, 2 * one, 0 * steps)
            return again, another, trial, along

        def step(state: Any) -> Any:
            again, another, trial, along = tried(state)
            return along(loop(again, another, trial))

        r = f(x)
        start = cost(r)
        check_or_raise(xp.isfinite(start), _undefined)
        before = xp.zeros((), **alike(x, np.dtype(np.int32)))
        mu = one * (FIRST if self.damped else floor)
        state = (before, xp.isfinite(start), x, r, start, mu, 0 * x, xp.abs(x), one)
        if is_pending(start):
            state = _in_one_wait_each(going, tried, state)
        else:
            state = loop(going, step, state)
        steps, on, x, *_, far = state
        last.clear()
        check_or_raise(~on, _not_converged(tol), steps, far)
        return x


def _in_one_wait_each(going: Callable[[Any], Array], tried: Any, state: Any) -> Any:
    """The steps on a device: each trial is believed to be the last of its step, and one wait says
    whether it was, whether the steps go on, and whether its factor was one.
    """
    goes_on = believed(going(state))
    while goes_on:
        again, another, trial, along = tried(state)
        new = along(trial)
        fails, goes_on = all_decided((again(trial), going(new)))
        while fails:
            trial = another(trial)
            new = along(trial)
            fails, goes_on = all_decided((again(trial), going(new)))
        state = new
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
