"""A stiff equation in diffrax (Allen-Cahn on a line, Kvaerno5): its implicit steps by ldiv, with a
sparse Jacobian, over diffrax's default, which is dense.

Value, and value and gradient by diffrax's own adjoint, compiled, in float64; each round has another
diffusion. Memory is what XLA sets aside for the compiled gradient, and for ldiv the factors that it
keeps besides.

    python bench/bench_diffrax.py [--quick]
"""

from __future__ import annotations

import harness.one_thread  # noqa: F401  # isort: split

from collections.abc import Callable
from typing import Any

import diffrax
import jax
import jax.numpy as jnp
import lineax
import numpy as np
from harness.measure import Figure, arguments, compare, report, side_by_side

import ldiv
import ldiv.lineax

LDIV, DEFAULT = "ldiv", "diffrax's default"


def energy(n: int, linear_solver: Any) -> Callable[[Any], Any]:
    """The diffusion -> |y(1)|^2."""
    start = jnp.sin(3 * np.pi * jnp.linspace(0, 1, n + 2)[1:-1]) / 2

    def slope(t: Any, y: Any, c: Any) -> Any:
        left, right = jnp.pad(y, (1, 0))[:-1], jnp.pad(y, (0, 1))[1:]
        return c * (n + 1) ** 2 * (left - 2 * y + right) + y - y**3

    root_finder = diffrax.VeryChord(rtol=1e-6, atol=1e-6, linear_solver=linear_solver)

    def end(c: Any) -> Any:
        found = diffrax.diffeqsolve(
            diffrax.ODETerm(slope),
            diffrax.Kvaerno5(root_finder=root_finder),
            0.0,
            1.0,
            0.1,
            start,
            args=c,
            stepsize_controller=diffrax.PIDController(rtol=1e-6, atol=1e-6),
            adjoint=diffrax.RecursiveCheckpointAdjoint(checkpoints=16),
            max_steps=256,
        )
        assert found.ys is not None
        return jnp.sum(found.ys[-1] ** 2)

    return end


def against(n: int, rounds: int) -> list[Figure]:
    """Seconds of value and gradient, and the memory of the gradient."""
    pattern = ldiv.diags_array([np.ones(1)] * 3, offsets=[-1, 0, 1], shape=(n, n))
    solvers = {
        LDIV: ldiv.lineax.Solver(sparsity=pattern),
        DEFAULT: lineax.AutoLinearSolver(well_posed=None),
    }
    problem, figures = f"n = {n}", []
    for what, transform in (("value", lambda f: f), ("value + gradient", jax.value_and_grad)):
        compiled = {
            f"{what}, {name}": jax.jit(transform(energy(n, solver))).lower(1e-3).compile()
            for name, solver in solvers.items()
        }
        one, two = (jax.tree.leaves(run(1e-3)) for run in compiled.values())
        np.testing.assert_allclose(one, two, rtol=1e-5)
        ldiv.clear_cache()
        contenders = {
            name: lambda c, run=run: jax.block_until_ready(run(c)) for name, run in compiled.items()
        }
        seconds = side_by_side(contenders, lambda i: 1e-3 * (1 + (i + 1) / 100), rounds)
        ours, theirs = compiled
        figures.append(compare(seconds, problem, ours, theirs, 1.0))
    kept = ldiv.cache_info().bytes
    bytes_ = [run.memory_analysis().temp_size_in_bytes for run in compiled.values()]
    memory = (bytes_[0] + kept) / bytes_[1]
    return [*figures, Figure(problem, f"memory, {LDIV} / {DEFAULT}", memory, "x", 1.0)]


def main() -> None:
    options = arguments(__doc__)
    jax.config.update("jax_enable_x64", True)
    figures = against(20, 1) if options.quick else [*against(500, 2)]
    report("diffrax", figures, options)


if __name__ == "__main__":
    main()
