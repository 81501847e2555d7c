"""A circuit inside of jit, the network of examples/corners.py: 500 nodes with diodes and transistors by
Newton's method, with the gradient in 100 resistors, at 64 corners by `vmap`; beside the same with other
solvers of JAX.

Theirs is Newton's method by `lax.while_loop`, from the same guess to the same tolerance, with steps
halved until the residual decreases; one more step is differentiated, with the Jacobian held, which is the
derivative of the implicit function. The Jacobian is ldiv's on every side, compressed by colors. Packages
take part where they are installed (`peers/of_jax.py`); one that fails is named with its error.

    python bench/bench_corners.py [--quick]
"""

from __future__ import annotations

import harness.one_thread  # noqa: F401  # isort: split

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.lax import stop_gradient, while_loop
from peers import of_jax
from harness.measure import Figure, arguments, compare, report, side_by_side

import ldiv

LDIV, DENSE = "ldiv", "jnp.linalg.solve"
PEERS = ("sparsax KLU", "klujax")
CELLS = (
    (Path(__file__).parents[1] / "examples" / "corners.py")
    .read_text()
    .partition("# %%\n# The resistors")[0]
)
MOST, TOL, LEAST = 50, 1e-9, 1e-6  # steps, how long the last one is, and the shortest part of one


def network() -> dict[str, Any]:
    """The definitions of the first cells of the example: `lit`, which finds the root, and `each`,
    which calls it.
    """
    cells: dict[str, Any] = {}
    exec(CELLS, cells)
    return cells


def with_newton(cells: dict[str, Any], solve: of_jax.Solve, pattern: Any) -> dict[str, Any]:
    """The same with J x = b by others."""
    balance, norm = cells["balance"], jnp.linalg.norm

    def jacobian(v: Any, given: Any) -> Any:
        return ldiv.jacobian(lambda v: balance(v, given), v, pattern=pattern).data

    def root(given: Any) -> Any:
        held = stop_gradient(given)

        def step(state: Any) -> Any:
            steps, v, _ = state
            r = balance(v, held)
            dv, size = -solve(jacobian(v, held), r), norm(r)

            def too_long(t: Any) -> Any:
                return ~(norm(balance(v + t * dv, held)) <= (1 - 1e-4 * t) * size) & (t > LEAST)

            dv = dv * while_loop(too_long, lambda t: t / 2, 1.0)
            return steps + 1, v + dv, norm(dv) / norm(v + dv)

        going = lambda state: (state[2] > TOL) & (state[0] < MOST)
        v = stop_gradient(while_loop(going, step, (0, cells["guess"], 1.0))[1])
        return v - solve(stop_gradient(jacobian(v, held)), balance(v, given))

    cells["lit"] = lambda *given: cells["currents"](root(given), given[1])[0]
    return cells


def compiled(cells: dict[str, Any], count: int) -> Callable[[Any], Any]:
    """log R -> the mean of (value, gradient) at so many corners."""
    corners = cells["corners"][:: len(cells["corners"]) // count]
    each = cells["each"]
    run = jax.jit(lambda log_r: jax.tree.map(lambda y: y.mean(0), each(log_r, corners)))
    return lambda log_r: jax.block_until_ready(run(log_r))


def contenders(count: int) -> tuple[dict[str, Callable[[Any], Any]], dict[str, str]]:
    """The contenders whose value and gradient are ldiv's, and the reasons why others do not take
    part.
    """
    a = network()["pattern"].to_scipy().tocsr()
    a.sort_indices()
    pattern = ldiv.csr_array((np.ones(a.nnz), a.indices, a.indptr), shape=a.shape)
    rows = np.repeat(np.arange(a.shape[0]), np.diff(a.indptr))
    solvers: dict[str, of_jax.Solve] = {
        name: solve for name, solve in of_jax.installed(a).items() if name in PEERS
    }
    solvers[DENSE] = lambda values, b: jnp.linalg.solve(
        jnp.zeros(a.shape).at[rows, a.indices].set(values), b
    )
    start = network()
    found, missing = {LDIV: compiled(start, count)}, {}
    value, gradient = found[LDIV](start["alike"])
    for name, solve in solvers.items():
        run = compiled(with_newton(network(), solve, pattern), count)
        try:
            other, slope = run(start["alike"])
        except Exception as error:  # of any kind: it is told
            missing[name] = f"{type(error).__name__}: {str(error).splitlines()[0][:100]}"
            continue
        np.testing.assert_allclose(other, value, rtol=1e-8, err_msg=name)
        np.testing.assert_allclose(slope, gradient, atol=1e-7 * np.abs(gradient).max())
        found[name] = run
    return found, missing


def row(count: int, rounds: int) -> tuple[list[Figure], list[str]]:
    runs, missing = contenders(count)
    alike = network()["alike"]
    fresh = lambda i: alike + 1e-3 * np.random.default_rng(i).standard_normal(len(alike))
    seconds = side_by_side(runs, fresh, rounds)
    title = f"500 nodes, {count} corner{'s' * (count > 1)}, value and gradient"
    figures = [
        compare(seconds, title, LDIV, name, None if name == DENSE else 1.0)
        for name in seconds
        if name != LDIV
    ]
    return figures, [f"{name}, {count}: {why}." for name, why in missing.items()]


def main() -> None:
    options = arguments(__doc__)
    jax.config.update("jax_enable_x64", True)
    figures, notes = [], []
    for count, rounds in ((1, 1), (2, 1)) if options.quick else ((1, 15), (64, 7)):
        more, why = row(count, rounds)
        figures += more
        notes += why
    report("corners", figures, options, "\n".join(notes))


if __name__ == "__main__":
    main()
