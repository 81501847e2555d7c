"""Value and gradient against jax.experimental.sparse.linalg.spsolve, the sparse solve with
derivatives that JAX ships.

On a CPU it calls SciPy's spsolve with SuperLU's own ordering, and factors A^T once more for the
gradient. Both sides solve the same problems with new values in every round; JAX runs compiled, in
float64, its compilation is not counted.

    python bench/bench_spsolve.py [--quick]
"""

from __future__ import annotations

import harness.one_thread  # noqa: F401  # isort: split

from typing import Any

from peers import by_torch
import jax
import numpy as np
from problems import systems
import scipy.sparse as sp
import torch
from jax.experimental.sparse.linalg import spsolve
from harness.measure import Figure, arguments, compare, report, side_by_side

LDIV, JAX = "ldiv in torch", "jax spsolve"


def by_jax(a: Any, b: Any, c: Any) -> Any:
    """values -> (x, gradient of c . x in the values and in b), compiled; the matrices are
    symmetric: columns serve as rows.
    """
    fixed = tuple(map(jax.numpy.asarray, (a.indices, a.indptr, b, c)))

    @jax.jit
    def step(values: Any, indices: Any, indptr: Any, b: Any, c: Any) -> Any:
        x, pull = jax.vjp(lambda values, b: spsolve(values, indices, indptr, b), values, b)
        return x, *pull(c)

    return lambda values: jax.block_until_ready(step(values, *fixed))


def against(sides: tuple[int, ...], rounds: int, promise: str = "gen") -> Figure:
    """Compare the times: at least twice as fast is at most half of the time."""
    a, (b, c) = systems.poisson(*sides), systems.vectors(int(np.prod(sides)))
    A, b_torch, c_torch = by_torch.array(a), torch.from_numpy(b), torch.from_numpy(c)
    jax_step = by_jax(a, b, c)

    def fresh(i: int) -> Any:
        values = a.data * (1 + i / 1000)
        return torch.from_numpy(values), jax.numpy.asarray(values)

    def ldiv_step(new: Any) -> Any:
        return by_torch.value_and_gradient(A, new[0], b_torch, c_torch, promise)

    _agree(a, ldiv_step(fresh(0)), jax_step(fresh(0)[1]))
    seconds = side_by_side({JAX: lambda new: jax_step(new[1]), LDIV: ldiv_step}, fresh, rounds)
    return compare(seconds, systems.title(*sides), LDIV, JAX, 0.5)


def _agree(a: Any, by_ldiv: Any, by_jax: Any) -> None:
    """Both compute the same thing, one by columns, the other by rows."""
    x, by_row, b_bar = map(np.asarray, by_jax)
    a_bar = sp.csr_array((by_row, a.indices, a.indptr), shape=a.shape).tocsc().data
    for ours, theirs in zip(by_ldiv, (x, a_bar, b_bar), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-8 * np.abs(theirs).max())


def main() -> None:
    options = arguments(__doc__)
    jax.config.update("jax_enable_x64", True)
    sizes = (
        [((20, 20), 2), ((6, 6, 6), 2)] if options.quick else [((500, 500), 3), ((30, 30, 30), 3)]
    )
    report("spsolve", [against(sides, rounds) for sides, rounds in sizes], options)


if __name__ == "__main__":
    main()
