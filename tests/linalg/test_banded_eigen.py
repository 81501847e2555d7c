"""Eigenpairs of banded matrices, as SciPy's, and their derivatives."""

import numpy as np
import pytest
import scipy.linalg

import ldiv

torch = pytest.importorskip("torch")
rng = np.random.default_rng(2)
KINDS = pytest.mark.parametrize("dtype", [np.float64, np.complex128])


def band(rows, n, lower, dtype):
    x = rng.standard_normal((rows, n))
    x = x + 1j * rng.standard_normal((rows, n)) if dtype == np.complex128 else x
    main = 0 if lower else rows - 1
    x[main] = x[main].real
    return x


@KINDS
@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize(("rows", "n"), [(1, 4), (3, 6), (2, 1), (5, 3)])
def test_values(rows, n, lower, dtype):
    a = band(rows, n, lower, dtype)
    if rows <= n:
        expected = scipy.linalg.eigvals_banded(a, lower)
        np.testing.assert_allclose(ldiv.eigvals_banded(a, lower), expected, atol=1e-12)
    w, X = ldiv.eig_banded(a, lower)
    np.testing.assert_allclose(X.conj().T @ X, np.eye(n), atol=1e-12)
    some = {"select": "i", "select_range": (0, n // 2)}
    inside = {"select": "v", "select_range": (-0.5, 1.5)}
    np.testing.assert_allclose(ldiv.eigvals_banded(a, lower, **some), w[: n // 2 + 1], atol=1e-12)
    found = ldiv.eig_banded(a, lower, **inside)[1]
    np.testing.assert_allclose(np.abs(found), np.abs(X[:, (w > -0.5) & (w <= 1.5)]), atol=1e-12)
    a[0 if not lower else -1, 0 if not lower else -1] += 1 if rows > 1 else 0  # not read
    np.testing.assert_allclose(ldiv.eigvals_banded(a, lower), w, atol=1e-12)


@KINDS
@pytest.mark.parametrize("lower", [False, True])
def test_derivatives(lower, dtype):
    a = torch.tensor(band(3, 5, lower, dtype), requires_grad=True)
    assert torch.autograd.gradcheck(lambda a: ldiv.eigvals_banded(a, lower), (a,))
    assert torch.autograd.gradcheck(lambda a: ldiv.eig_banded(a, lower)[1].abs() ** 2, (a,))


def test_tridiagonal():
    d, e = rng.standard_normal(6), rng.standard_normal(5)
    expected = scipy.linalg.eigvalsh_tridiagonal(d, e)
    np.testing.assert_allclose(ldiv.eigvalsh_tridiagonal(d, e), expected, atol=1e-13)
    some = {"select": "v", "select_range": (expected[:2].mean(), expected[3:5].mean())}
    np.testing.assert_allclose(ldiv.eigvalsh_tridiagonal(d, e, **some), expected[1:4], atol=1e-13)


def test_bad_arguments():
    with pytest.raises(ValueError, match="a_band: expected shape"):
        ldiv.eig_banded(np.ones(3))
    with pytest.raises(ValueError, match="select"):
        ldiv.eig_banded(np.ones((2, 3)), select="w", select_range=(0, 1))
    with pytest.raises(ValueError, match="subset_by_value"):
        ldiv.eig_banded(np.ones((2, 3)), select="v", select_range=(1, 0))
    with pytest.raises(ValueError, match="select_range"):
        ldiv.eig_banded(np.ones((2, 3)), select="i", select_range=(0, 3))
