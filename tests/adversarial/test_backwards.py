"""Every kind of backward pass through every function that differentiates: `make fuzz` goes on."""

import pytest

from adversarial.backwards import CUBES, LOOKS, SECOND, look

PLAIN = ("Plain", "Legacy", "ZeroForward", "custom_op", "sparse.mm", "csr")  # twice differentiable
FIRST = [what for what in LOOKS if what not in SECOND]

pytestmark = [
    pytest.mark.filterwarnings("ignore:Sparse .* beta|Sparse invariant checks:UserWarning"),
    pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning"),
]


@pytest.mark.parametrize("cube", CUBES)
def test_first_derivatives_are_right(cube):
    assert {what: look(cube, what, seed) for seed, what in enumerate(FIRST)} == dict.fromkeys(
        FIRST, "right"
    )


@pytest.mark.parametrize("cube", CUBES)
def test_second_derivatives_are_right_or_refused(cube):
    found = {look(cube, what, seed) for seed, what in enumerate(SECOND)}
    assert found == {"right"} if cube in PLAIN else found <= {"right", "refused"}
