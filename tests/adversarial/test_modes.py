"""A slice of all functions in all modes, in which every function and every mode is; `make fuzz`
goes through the rest.
"""

from itertools import cycle

import numpy as np
import pytest

from adversarial.functions import FUNCTIONS
from adversarial.modes import JAX, TORCH, Problem, look, verdict

FEW = ("export", "export, strict", "make_fx, fake")  # seconds each
EVERY, TURNS = 48, 6
OF_JAX = [
    "solve",
    "solve, sparse",
    "eigsh",
    "kron @ b",
    "cholesky_banded",
    "SparseArray @ SparseArray",
]
MANY = [mode for mode in TORCH if mode not in FEW]


@pytest.mark.covering(1)
@pytest.mark.parametrize("turn", range(TURNS))
@pytest.mark.parametrize("name", FUNCTIONS)
def test_torch(name, turn):
    """Every 48th mode, from another first one each time."""
    problem, first = Problem(FUNCTIONS[name], "torch"), list(FUNCTIONS).index(name)
    modes = MANY[(first + turn * EVERY // TURNS) % EVERY :: EVERY]
    found = {mode: verdict(problem, "torch", mode) for mode in modes}
    assert not {mode: v for mode, v in found.items() if not v.startswith(("right", "refused"))}


@pytest.mark.parametrize("name", ["solve", "solve, sparse", "eigsh", "kron @ b"])
def test_torch_in_all_of_its_modes(name):
    problem = Problem(FUNCTIONS[name], "torch", 1)
    found = {mode: verdict(problem, "torch", mode) for mode in MANY}
    assert not {
        mode: v
        for mode, v in found.items()
        if v != "right" and not ("recorded" in v and v.startswith("refused"))
    }


@pytest.mark.parametrize("mode", FEW)
@pytest.mark.parametrize("name", ["solve, sparse", "gemm", "root"])
def test_torch_recorded(name, mode):
    """A record cannot have a function of the user's, nor, in one graph, a matrix that is made
    there.
    """
    refused = name == "root" or (name, mode) == ("solve, sparse", "export, strict")
    assert look(name, "torch", mode) == ("refused" if refused else "right")


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        # of second derivatives the laws of front ends show as much
        pytest.param(name, mode, marks=pytest.mark.exhaustive if " over " in mode else ())
        for name, mode in zip(cycle(OF_JAX), JAX, strict=False)
    ],
)
def test_jax(name, mode):
    assert look(name, "jax", mode) == "right"


def test_a_wrong_derivative_is_seen():
    problem = Problem(FUNCTIONS["solve"], "torch")
    problem.J = problem.J * (1 + 1e-4 * np.ones(3))
    assert verdict(problem, "torch", "jacrev").startswith("wrong")
