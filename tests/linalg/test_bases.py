"""Bases of ranges and null spaces: SciPy's, and derivatives of what does not depend on them."""

import numpy as np
import pytest
import scipy.linalg

import ldiv

torch = pytest.importorskip("torch")
rng = np.random.default_rng(4)
KINDS = pytest.mark.parametrize("dtype", [np.float64, np.complex128])


def of_rank(m, n, r, dtype):
    def draw(*shape):
        x = rng.standard_normal(shape)
        return x + 1j * rng.standard_normal(shape) if dtype == np.complex128 else x

    return draw(m, r) @ draw(r, n)


@KINDS
@pytest.mark.parametrize(
    ("m", "n", "r"), [(4, 4, 2), (5, 3, 3), (3, 5, 3), (3, 4, 1), (5, 60, 4), (2, 2, 0)]
)
def test_values(m, n, r, dtype):
    a = of_rank(m, n, r, dtype)
    for found, expected in (
        (ldiv.orth(a), scipy.linalg.orth(a)),
        (ldiv.null_space(a), scipy.linalg.null_space(a)),
    ):
        assert found.shape == expected.shape
        np.testing.assert_allclose(found.conj().T @ found, np.eye(found.shape[1]), atol=1e-12)
        np.testing.assert_allclose(found @ found.conj().T, expected @ expected.conj().T, atol=1e-12)


@KINDS
@pytest.mark.parametrize("f", [ldiv.orth, ldiv.null_space])
def test_derivatives(f, dtype):
    """The derivatives are those of the projector, along matrices of one rank."""
    parts = of_rank(4, 2, 2, dtype), of_rank(2, 5, 2, dtype)
    parts = [torch.tensor(x, requires_grad=True) for x in parts]

    def projector(left, right):
        x = f(left @ right, rcond=1e-3)
        p = x @ x.mH
        return torch.view_as_real(p) if p.is_complex() else p

    assert torch.autograd.gradcheck(projector, parts, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(projector, parts)


def test_what_is_refused():
    a = torch.tensor(of_rank(4, 4, 2, np.float64), requires_grad=True)
    for f in (ldiv.orth, ldiv.null_space):
        with pytest.raises(ldiv.NotDifferentiableError, match="which basis"):
            (f(a) * torch.arange(8.0).reshape(4, 2)).sum().backward()
    both = np.stack([np.eye(3), np.ones((3, 3))])
    with pytest.raises(ValueError, match="matrices of one rank"):
        ldiv.orth(both)
    jax = pytest.importorskip("jax")
    with pytest.raises(TypeError, match="A: expected known numbers"):
        jax.jit(ldiv.orth)(jax.numpy.eye(2))
