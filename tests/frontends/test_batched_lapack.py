"""A program with several independent batches of dense solves ends: none waits for another."""

from __future__ import annotations

import re
from pathlib import Path

import apart
import pytest

import ldiv

pytest.importorskip("jax")

RUNS = {"default": 3, "exhaustive": 200}
CHAINS = """
import os
import re
if hasattr(os, "sched_setaffinity"):  # before XLA counts them
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
import jax, numpy as np, ldiv
jax.config.update("jax_enable_x64", True)
rng = np.random.default_rng(0)
A, b = rng.standard_normal((2, 16, 40, 40))
A = A @ np.swapaxes(A, -1, -2) + 40 * np.eye(40)

def solved(a, b):
    return ldiv.solve(a, b)

def orthogonal(a, b):
    return ldiv.lstsq(a, b)[0]

@jax.jit
def chains(a, bs):
    for f in (solved, orthogonal):
        bs = [40 * f(a, b) for b in bs]
    return bs

expected = None
for _ in range(int(os.environ["RUNS"])):
    found = np.stack(chains(A, [b + i for i in range(4)]))
    expected = found if expected is None else expected
    np.testing.assert_array_equal(found, expected)
"""


@pytest.mark.parametrize(
    "kind", ["default", pytest.param("exhaustive", marks=pytest.mark.exhaustive)]
)
def test_independent_batches_on_two_threads(kind: str) -> None:
    done = apart.run(CHAINS, first="import jax", RUNS=str(RUNS[kind]), NPROC="2")
    assert done.returncode == 0, done.stderr


def test_decompositions_go_through_the_front_end() -> None:
    """`xp.linalg` of JAX would call a batched kernel."""
    direct = re.compile(
        r"(xp|namespace\(\w+\))\.linalg\.(qr|eigh|svd|svdvals|cholesky|solve|inv)\b"
    )
    source = Path(ldiv.__file__).parent
    rooms = ("engines", "rules", "structures", "linalg", "matrices")
    files = [path for room in rooms for path in (source / room).rglob("*.py")]
    assert not [path for path in files if direct.search(path.read_text())]
