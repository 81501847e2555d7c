"""The gradient of `pinv` in other units of A and of the cotangent: the same digits, as long as it is a number."""

import numpy as np
import pytest

import ldiv

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("shape", [(3, 3), (4, 3), (3, 4)])
@pytest.mark.parametrize(
    ("of_a", "of_x"), [(160, -600), (-160, 600), (168, -600), (-168, 400), (300, 900), (-300, -900)]
)
def test_no_step_on_the_way_leaves_the_range(shape: tuple[int, int], of_a: int, of_x: int) -> None:
    rng = np.random.default_rng(7)
    A, X_bar = rng.standard_normal(shape), rng.standard_normal(shape[::-1])
    (expected,) = ldiv.vjp(ldiv.pinv, A)[1](X_bar)
    (found,) = ldiv.vjp(ldiv.pinv, np.ldexp(A, of_a))[1](np.ldexp(X_bar, of_x))
    # X of 2^a A is 2^-a X, and its derivative 2^-2a that of A
    expected = np.ldexp(expected, of_x - 2 * of_a)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13 * np.abs(expected).max())


def test_a_batch_of_torch_in_far_units_is_that_in_units_near_one():
    """The compiled operation takes both, so that all bits are equal."""
    a = torch.tensor(np.random.default_rng(0).standard_normal((40, 3, 4)))
    for power in (324, -186, 700):
        x = ldiv.pinv(a * 2.0**power) * 2.0**power
        assert torch.equal(x, ldiv.pinv(a))
