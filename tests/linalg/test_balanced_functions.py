"""expm in any units of the unknowns, exp(T^-1 A T) = T^-1 exp(A) T; a message of signm."""

import mpmath
import numpy as np
import pytest

import ldiv

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")
jax.config.update("jax_enable_x64", True)

mp = mpmath.mp.clone()
mp.dps = 60
EPS = np.finfo(float).eps


def exact(a):
    found = mp.expm(mp.matrix(a.tolist()), method="taylor")
    return np.array(found.tolist()).reshape(a.shape)


def test_a_matrix_that_balancing_tames():
    """The example of Moler and Van Loan's "Nineteen dubious ways", of norm 2e10."""
    a = np.array([[0, 1e-8, 0], [-(2e10 + 2e8 / 3), -3, 2e10], [200 / 3, 0, -200 / 3]])
    expected = exact(a).astype(float)
    np.testing.assert_allclose(ldiv.expm(a), expected, rtol=1e-11)
    np.testing.assert_allclose(jax.jit(ldiv.expm)(a), expected, rtol=1e-11)
    found = ldiv.expm(np.stack([a, 0 * a]))
    np.testing.assert_allclose(found, [expected, np.eye(3)], rtol=1e-11)


@pytest.mark.parametrize("complex_", [False, True])
@pytest.mark.parametrize("spread", [2, 5, 8])
def test_units_of_unknowns(spread, complex_):
    rng = np.random.default_rng(spread)
    a, e, w = rng.standard_normal((3, 4, 4)) + (
        1j * rng.standard_normal((3, 4, 4)) if complex_ else 0
    )
    t = 10 ** rng.uniform(-spread, spread, 4)
    unit = t / t[:, None]
    a, e = a * unit, e * unit
    block = exact(np.block([[a, e], [0 * a, a]]))
    value, slope = (block[:4, k : k + 4].astype(a.dtype) for k in (0, 4))
    np.testing.assert_allclose(ldiv.expm(a) / unit, value / unit, rtol=1e-10, atol=1e-11)
    tensors = torch.tensor(a, requires_grad=True), torch.tensor(e)
    _, found = ldiv.jvp(ldiv.expm, (tensors[0].detach(),), (tensors[1],))
    np.testing.assert_allclose(found.numpy() / unit, slope / unit, rtol=1e-9, atol=1e-10)
    x = ldiv.expm(tensors[0])
    (x_bar,) = torch.autograd.grad(x, tensors[0], torch.tensor(w / unit), create_graph=True)
    pairing = (np.conj(w / unit) * slope).sum().real
    np.testing.assert_allclose((x_bar.conj() * tensors[1]).sum().real.item(), pairing, rtol=1e-9)
    # second order: both ways around the same number
    other = torch.tensor(rng.standard_normal((4, 4)) * unit)
    (hessian,) = torch.autograd.grad((x_bar.conj() * tensors[1]).sum().real, tensors[0])
    one = (hessian.conj() * other).sum().real
    (x_bar,) = torch.autograd.grad(
        ldiv.expm(tensors[0]), tensors[0], torch.tensor(w / unit), create_graph=True
    )
    (hessian,) = torch.autograd.grad((x_bar.conj() * other).sum().real, tensors[0])
    two = (hessian.conj() * tensors[1]).sum().real
    np.testing.assert_allclose(one.item(), two.item(), rtol=1e-8)


def test_what_balancing_does_not_tame_is_refused():
    with pytest.raises(ldiv.LinAlgOverflowError, match="leave no digit certain"):
        ldiv.expm(1e14 * np.array([[0.0, 1.0], [-1.0, 0.0]]))


def test_signm_of_a_defective_zero_names_the_matrix():
    with pytest.raises(ldiv.SingularMatrixError, match=r"A has no certain sign .* eigenvalue 0"):
        ldiv.signm(np.array([[0.0, 1.0], [0.0, 0.0]]))


def test_signm_tells_how_many_steps_it_took():
    """Newton's steps converge at once; S S = I does not hold, as |S| is 5e8."""
    with pytest.raises(ldiv.ConvergenceError, match=r"after 2 steps S S = I is not met"):
        ldiv.signm(np.array([[1e-6, 1e3], [0.0, -1e-6]]))
