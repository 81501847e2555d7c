"""First calls, each in a fresh process, in processor seconds of all threads.

A call is timed after its framework has run something, and beside the framework's own first call of
the nearest function, which is timed in the same way. What has no near one has a limit in seconds. A
second program is compiled after another one with the same pattern. The imports of NumPy and SciPy
are not counted in that of ldiv.

python bench/bench_first_calls.py [--quick]
"""

from __future__ import annotations

import harness.one_thread  # noqa: F401  # isort: split

import subprocess
import sys
from collections.abc import Callable
from statistics import median
from time import process_time
from typing import Any

from harness.measure import Figure, arguments, report

N, GRID = 12, 20
PROCESSES = 3
Work = Callable[[], Any]


def symmetric() -> Any:
    import numpy as np

    a = np.random.default_rng(0).standard_normal((N, N))
    return a + a.T


def grid() -> Any:
    from problems import systems

    return systems.poisson(GRID, GRID)


# -- JAX ----------------------------------------------------------------------


def in_jax(f: str) -> Work:
    """The compiled gradient of a function of a symmetric matrix."""
    import jax
    import jax.numpy as jnp

    import ldiv

    module, name = f.split(".")
    function = getattr({"ldiv": ldiv, "jnp": jnp.linalg}[module], name)

    def loss(a: Any) -> Any:
        return sum((x**2).sum() for x in function(a, full_matrices=False))

    def of_pairs(a: Any) -> Any:
        w, v = function(a)
        return (w**2).sum() + (v**4).sum()

    a = jnp.asarray(symmetric())
    return lambda: jax.jit(jax.grad(loss if name == "svd" else of_pairs))(a)


def sparse_in_jax() -> tuple[Any, Callable[[Any], Any]]:
    import jax.numpy as jnp

    import ldiv

    a = grid()
    at = (jnp.asarray(a.indices), jnp.asarray(a.indptr))
    return jnp.asarray(a.data), lambda v: ldiv.csc_array((v, *at), shape=a.shape)


def eigsh(jitted: bool) -> Work:
    import jax

    import ldiv

    values, matrix = sparse_in_jax()
    gradient = jax.grad(lambda v: ldiv.eigsh(matrix(v), 3, sigma=0)[0].sum())
    return lambda: (jax.jit(gradient) if jitted else gradient)(values)


def least_squares() -> Work:
    import jax
    import jax.numpy as jnp

    import ldiv

    def residual(x: Any, p: Any) -> Any:
        return jnp.concatenate([p * x + x**3 - 1, x[:1] - x[-1:]])

    x, p = jnp.ones(N), jnp.linspace(1, 2, N)
    return lambda: jax.jit(jax.grad(lambda p: ldiv.least_squares(residual, x, p).sum()))(p)


def second_program() -> Work:
    """Compile a second loss of a solve with a known pattern."""
    import jax
    import jax.numpy as jnp

    import ldiv

    values, matrix = sparse_in_jax()
    b = jnp.ones(GRID * GRID)
    jax.jit(jax.grad(lambda v: ldiv.solve(matrix(v), b).sum()))(values).block_until_ready()
    return lambda: jax.jit(jax.grad(lambda v: (ldiv.solve(matrix(v), b) ** 2).sum()))(values)


# -- PyTorch ------------------------------------------------------------------


def in_torch(f: str) -> Work:
    """Value and gradient of the eigenvalues."""
    import torch

    import ldiv

    a = torch.tensor(symmetric(), requires_grad=True)
    eigh = {"ldiv": ldiv, "torch": torch.linalg}[f].eigh
    return lambda: torch.autograd.grad(eigh(a)[0].sum(), a)


def functional(f: str) -> Work:
    import torch

    import ldiv

    x = torch.ones(N, dtype=torch.float64)
    p = torch.linspace(1, 2, N, dtype=torch.float64, requires_grad=True)

    def system(x: Any, p: Any) -> Any:
        return p * x + x**3 - 1

    return {
        "root": lambda: torch.autograd.grad(ldiv.root(system, x, p).sum(), p),
        "jacobian": lambda: ldiv.jacobian(lambda x: system(x, p.detach()), x),
        "jacrev": lambda: torch.func.jacrev(lambda x: system(x, p.detach()))(x),
    }[f]


# what is called, and its arguments; then the peer's, or seconds; then the limit as a ratio of the
# peer's
TASKS: dict[str, Callable[[], Work]] = {
    "jit of the gradient of eigh": lambda: in_jax("ldiv.eigh"),
    "jit of the gradient of jnp's eigh": lambda: in_jax("jnp.eigh"),
    "jit of the gradient of svd": lambda: in_jax("ldiv.svd"),
    "jit of the gradient of jnp's svd": lambda: in_jax("jnp.svd"),
    "jit of the gradient of eigsh": lambda: eigsh(True),
    "gradient of eigsh in JAX": lambda: eigsh(False),
    "jit of the gradient of least_squares": least_squares,
    "a second program of a known pattern": second_program,
    "eigh in PyTorch": lambda: in_torch("ldiv"),
    "torch's eigh": lambda: in_torch("torch"),
    "root in PyTorch": lambda: functional("root"),
    "jacobian in PyTorch": lambda: functional("jacobian"),
    "torch's jacrev": lambda: functional("jacrev"),
}
PEERS = {
    "jit of the gradient of eigh": "jit of the gradient of jnp's eigh",
    "jit of the gradient of svd": "jit of the gradient of jnp's svd",
    "eigh in PyTorch": "torch's eigh",
    "root in PyTorch": "torch's jacrev",
    "jacobian in PyTorch": "torch's jacrev",
}
TIMES, SECONDS, OF_IMPORT = 1.5, 0.5, 0.08
QUICK = ("eigh in PyTorch", "torch's eigh")


def inside(task: str) -> None:
    """Print the seconds of a task's first call."""
    if "in PyTorch" in task or "torch" in task:
        import torch

        torch.set_num_threads(1)
        torch.autograd.grad((x := torch.ones(3, requires_grad=True)).sum(), x)
    else:
        import jax
        import jax.numpy as jnp

        jax.config.update("jax_enable_x64", True)
        jax.jit(jax.grad(lambda x: (x**2).sum()))(jnp.ones(3)).block_until_ready()
    work = TASKS[task]()
    start = process_time()
    done = work()
    getattr(done, "block_until_ready", lambda: None)()
    print(process_time() - start)


def importing() -> None:
    """Print the seconds of the import of ldiv and its first solve's modules."""
    import numpy as np
    import scipy.sparse.linalg  # noqa: F401

    start = process_time()
    import ldiv

    assert ldiv.solve is not np
    print(process_time() - start)


def seconds(*task: str) -> float:
    command = [sys.executable, __file__, "--inside", *task]
    runs = range(PROCESSES)
    return median(
        float(
            subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.split()[
                -1
            ]
        )
        for _ in runs
    )


def main() -> None:
    if sys.argv[1:2] == ["--inside"]:
        inside(sys.argv[2]) if len(sys.argv) > 2 else importing()
        return
    options = arguments(__doc__)
    found = {task: seconds(task) for task in (QUICK if options.quick else TASKS)}
    figures = [Figure("import", "ldiv after NumPy and SciPy", seconds(), "s", OF_IMPORT)]
    for task, took in found.items():
        if task in PEERS.values():
            continue
        if (peer := PEERS.get(task)) is None:
            figures.append(Figure(task, "first call", took, "s", SECONDS))
        else:
            over = found[peer]
            figures.append(Figure(task, f"over {peer}", took / over, "x", TIMES, took, over))
    report("first_calls", figures, options)


if __name__ == "__main__":
    main()
