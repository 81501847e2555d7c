"""Toeplitz, Hankel and circulant matrices against SciPy's arrays, and what is done with them."""

from unittest import mock

import numpy as np
import pytest
import scipy.linalg

import ldiv
from ldiv.engines import registry

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")
jax.config.update("jax_enable_x64", True)
jnp = jax.numpy

rng = np.random.default_rng(5)
KINDS = pytest.mark.parametrize("dtype", [np.float64, np.complex128])


def draw(*shape, dtype=np.float64):
    x = rng.standard_normal(shape)
    return x + 1j * rng.standard_normal(shape) if dtype == np.complex128 else x


def dense(A):
    return A @ np.eye(A.shape[-1])


@KINDS
def test_they_are_scipys(dtype):
    c, r, h = draw(4, dtype=dtype), draw(6, dtype=dtype), draw(3, dtype=dtype)
    for name, args in {
        "toeplitz": [(c,), (c, r), (r, c), ([1, 2, 3], [4.0])],
        "hankel": [(c,), (c, r), (r, c)],
        "circulant": [(c,), (h,)],
        "convolution_matrix": [
            (a, n, mode) for mode in ("full", "same", "valid") for a in (c, h) for n in (1, 3, 4, 7)
        ],
    }.items():
        for given in args:
            expected = getattr(scipy.linalg, name)(*given)
            A = getattr(ldiv, name)(*given)
            assert A.shape == expected.shape, (name, given)
            np.testing.assert_allclose(dense(A), expected, atol=1e-13)
            np.testing.assert_allclose(dense(A.H), expected.conj().T, atol=1e-13)
    for name, given in {
        "companion": (c,),
        "leslie": (c, h),
        "fiedler": (c.real,),
        "khatri_rao": (draw(3, 2, dtype=dtype), draw(4, 2, dtype=dtype)),
    }.items():
        np.testing.assert_allclose(
            getattr(ldiv, name)(*given), getattr(scipy.linalg, name)(*given), atol=1e-13
        )


@KINDS
@pytest.mark.parametrize("n", [1, 2, 30, 257])
def test_systems(n, dtype):
    c, r, b = draw(n, dtype=dtype), draw(n, dtype=dtype), draw(n, 2, dtype=dtype)
    c[0] += 2 * n
    for given in (c, (c, r)):
        parts = given if isinstance(given, tuple) else (given,)
        A = scipy.linalg.toeplitz(*parts)
        for op, whole in (("N", A), ("T", A.T), ("H", A.conj().T)):
            x = ldiv.solve(ldiv.toeplitz(*parts), b, trans=op)
            np.testing.assert_allclose(whole @ x, b, atol=1e-11)
        np.testing.assert_allclose(
            ldiv.solve_toeplitz(given, b), scipy.linalg.solve_toeplitz(given, b), atol=1e-12
        )
        np.testing.assert_allclose(ldiv.matmul_toeplitz(given, b), A @ b, atol=1e-10)
    np.testing.assert_allclose(
        ldiv.solve_circulant(c, b), scipy.linalg.solve_circulant(c, b), atol=1e-12
    )
    sign, size = ldiv.slogdet(ldiv.toeplitz(c, r))
    expected = np.linalg.slogdet(scipy.linalg.toeplitz(c, r))
    np.testing.assert_allclose([sign, size], expected, rtol=1e-10)
    sign, size = ldiv.slogdet(ldiv.circulant(c))
    np.testing.assert_allclose(
        [sign, size], np.linalg.slogdet(scipy.linalg.circulant(c)), rtol=1e-10
    )


def test_a_leading_block_that_is_singular():
    """Levinson's recursion ends there, and SciPy's with it: a dense factorization follows."""
    c, r = [1.0, 1.0, 3.0, -1.0], [1.0, 1.0, 0.5, 2.0]
    A = scipy.linalg.toeplitz(c, r)
    with pytest.raises(np.linalg.LinAlgError):
        scipy.linalg.solve_toeplitz((c, r), np.ones(4))
    x = ldiv.solve_toeplitz((c, r), np.ones(4))
    np.testing.assert_allclose(A @ x, np.ones(4), atol=1e-13)


def test_blocks_that_are_nearly_singular():
    """No answer is worse than that of a dense solve."""
    for seed in range(40):
        draws = np.random.default_rng(seed)
        n = int(draws.integers(2, 40))
        c, r, b = draws.standard_normal((3, n))
        c[0] = r[0] = 10.0 ** -draws.integers(0, 14)
        A = scipy.linalg.toeplitz(c, r)
        x = ldiv.solve_toeplitz((c, r), b)
        size = abs(A).sum(1).max() * abs(x).max() + abs(b).max()
        assert abs(A @ x - b).max() < 1e-13 * size, seed


def test_singular():
    with pytest.raises(ldiv.SingularMatrixError):
        ldiv.solve_toeplitz(np.ones(3), np.ones(3))
    with pytest.raises(ldiv.SingularMatrixError):
        ldiv.solve_circulant(np.array([1.0, -1.0, 1.0, -1.0]), np.ones(4))
    with pytest.raises(ldiv.SingularMatrixError):
        ldiv.solve_circulant(np.zeros(3), np.ones(3))


def test_bad_arguments():
    for call in (
        lambda: ldiv.toeplitz(np.ones((0,))),
        lambda: ldiv.toeplitz(3.0),
        lambda: ldiv.solve_circulant([2.0, 1.0], np.ones(2), singular="lstsq"),
        lambda: ldiv.solve_circulant([2.0, 1.0], np.ones(2), caxis=0),
        lambda: ldiv.solve_toeplitz((np.ones(2),), np.ones(2)),
        lambda: ldiv.convolution_matrix([1.0], 0),
        lambda: ldiv.convolution_matrix([1.0], 2**62),
        lambda: ldiv.convolution_matrix([1.0], 2, mode="half"),
        lambda: ldiv.companion([0.0, 1.0]),
        lambda: ldiv.companion([1.0]),
        lambda: ldiv.leslie([1.0, 2.0], [1.0, 2.0]),
        lambda: ldiv.khatri_rao(np.ones((2, 2)), np.ones((2, 3))),
        lambda: ldiv.solve_toeplitz(np.array([2.0, np.nan]), np.ones(2)),
    ):
        with pytest.raises(ValueError, match=r"expected|finite|NaN"):
            call()
    with pytest.raises(TypeError):
        ldiv.toeplitz(torch.ones(2), jnp.ones(2))


@KINDS
def test_derivatives_in_torch(dtype):
    c, r, b = (torch.tensor(draw(4, dtype=dtype), requires_grad=True) for _ in range(3))
    checks = torch.autograd.gradcheck, torch.autograd.gradgradcheck

    def strong(c):
        return torch.cat([c[:1] + 6, c[1:]])

    for check in checks:
        assert check(lambda c, r, b: ldiv.solve_toeplitz((strong(c), r), b), (c, r, b))
        assert check(lambda c, b: ldiv.solve_circulant(strong(c), b), (c, b))
        assert check(lambda c, r, b: ldiv.matmul_toeplitz((c, r), b), (c, r, b))
        assert check(lambda c, r: ldiv.slogdet(ldiv.toeplitz(strong(c), r))[1], (c, r))
        assert check(lambda c: ldiv.slogdet(ldiv.circulant(strong(c)))[1], (c,))
        assert check(lambda c: ldiv.companion(strong(c)), (c,))
        assert check(lambda c, r: ldiv.leslie(c, r[1:]), (c, r))


@pytest.mark.parametrize(
    "derivative", ["grad", pytest.param("hessian", marks=pytest.mark.exhaustive)]
)
def test_jax(derivative):
    derivative = getattr(jax, derivative)
    c, b = jnp.asarray(draw(3, 5)), jnp.asarray(draw(5))
    c = c.at[:, 0].add(6)

    def loss(c):
        return (ldiv.solve_toeplitz(c, b) ** 2).sum() + (ldiv.solve_circulant(c, b) ** 2).sum()

    def by_hand(c):
        i, j = np.indices((5, 5))
        one, two = c[abs(i - j)], c[(i - j) % 5]
        return (jnp.linalg.solve(one, b) ** 2).sum() + (jnp.linalg.solve(two, b) ** 2).sum()

    found = jax.jit(jax.vmap(derivative(loss)))(c)
    np.testing.assert_allclose(found, jax.vmap(derivative(by_hand))(c), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("solve", [ldiv.solve_toeplitz, ldiv.solve_circulant])
def test_a_size_is_planned_once(solve):
    """No engine is asked again for other numbers."""
    first = np.array([9.0, 1.0, 2.0, 0.5])
    solve(first, np.ones(4))
    with mock.patch.object(registry, "answer", side_effect=AssertionError):
        x = solve(2 * first, np.ones(4))
    np.testing.assert_allclose(x, solve(first, np.ones(4)) / 2, rtol=1e-14)
