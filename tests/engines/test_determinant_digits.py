"""Log-determinants of large sparse matrices keep their digits: pivots are multiplied, not their logarithms added."""

from math import fsum

import numpy as np
import pytest
import scipy.sparse as sp

import ldiv

M = 100


def known(shift: float, skew: float) -> tuple[sp.csc_array, float]:
    """shift I + T x I + I x T for T = tridiag(-1 - skew, 2, -1 + skew), and log |det|, of its eigenvalues."""
    off = np.ones(M - 1)
    T = sp.diags_array([(-1 - skew) * off, 2 * np.ones(M), (-1 + skew) * off], offsets=[-1, 0, 1])
    # T is similar to a symmetric matrix with sqrt(1 - skew^2) beside the diagonal
    lam = 2 - 2 * np.sqrt(1 - skew**2) * np.cos(np.pi * np.arange(1, M + 1) / (M + 1))
    exact = fsum(np.log(np.abs(shift + lam[:, None] + lam)).ravel())
    return (shift * sp.eye_array(M * M) + sp.kronsum(T, T)).tocsc(), exact


@pytest.mark.parametrize(
    ("shift", "skew"), [(0.125, 0.0), (-1.03, 0.0), (0.125, 0.5), (0.5, 0.125)]
)
@pytest.mark.parametrize("dtype", [float, complex])
def test_a_log_determinant_is_right_to_its_last_digits(
    shift: float, skew: float, dtype: type
) -> None:
    A, exact = known(shift, skew)
    found = [ldiv.slogdet(A.astype(dtype))[1]]
    if shift > 0:
        found.append(ldiv.logdet(A.astype(dtype), assume_a="gen" if skew else "pos"))
    assert np.abs(np.array(found) - exact).max() <= 16 * np.finfo(float).eps * abs(exact)


def test_products_of_pivots_stay_in_the_range_of_numbers() -> None:
    rng = np.random.default_rng(3)
    d = rng.permutation(np.repeat([1e-90, 2e-90, -4e-90, 7e-90], 50))
    A = sp.diags_array([d, d[1:] / 16], offsets=[0, 1]).tocsc()
    sign, size = ldiv.slogdet(ldiv.asarray(A))
    assert sign == 1
    logs = np.log(np.abs(d))
    np.testing.assert_allclose(size, fsum(logs), atol=2 * np.finfo(float).eps * np.abs(logs).sum())
