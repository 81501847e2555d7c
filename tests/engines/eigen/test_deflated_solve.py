"""A cotangent in the span of the eigenvectors leaves nothing to solve for: rounding is not taken
for a right-hand side.
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import ldiv

torch = pytest.importorskip("torch")
N, K = 60, 3


@pytest.mark.parametrize("function", ["lobpcg", "eigsh", "eigsh by shift and invert"])
def test_a_cotangent_in_the_span(function: str) -> None:
    """sum X o X = k whatever A is: its gradient is zero."""
    grid = sp.csc_array(
        sp.diags_array(
            [np.arange(1.0, N + 1), -0.5 * np.ones(N - 1), -0.5 * np.ones(N - 1)],
            offsets=[0, 1, -1],
        )
    )
    values = torch.tensor(grid.data, requires_grad=True)
    A = ldiv.csc_array((values, grid.indices, grid.indptr), shape=grid.shape)
    start = torch.from_numpy(np.random.default_rng(0).standard_normal((N, K)))
    if function == "lobpcg":
        _, X = ldiv.lobpcg(A, start, largest=False)
    else:
        _, X = ldiv.eigsh(
            A,
            K,
            sigma=0.0 if "shift" in function else None,
            which="LM" if "shift" in function else "SA",
            method="arpack",
        )
    (X * X).sum().backward()
    assert float(values.grad.abs().max()) < 1e-9


@pytest.mark.parametrize("sigma", [0.0, 1.9])
def test_many_eigenvalues_as_seen_from_a_far_shift(sigma: float) -> None:
    """1 / (lam - sigma) of the wanted and of hundreds of others differ by little: another factor."""
    n = 700

    def gradient(sigma: float) -> tuple[np.ndarray, np.ndarray]:
        on = torch.full((n,), 4.0, dtype=torch.float64, requires_grad=True)
        off = torch.full((n - 1,), -1.0, dtype=torch.float64)
        lam, X = ldiv.eigsh(ldiv.diags_array([off, on, off], offsets=[-1, 0, 1]), K, sigma=sigma)
        (torch.linspace(0, 1, n, dtype=torch.float64)[:, None] * X**2).sum().backward()
        return lam.detach().numpy(), on.grad.numpy()

    lam, expected = gradient(2.0)
    np.testing.assert_allclose(lam, 4 - 2 * np.cos(np.arange(1, K + 1) * np.pi / (n + 1)))
    found, slope = gradient(sigma)
    np.testing.assert_allclose(found, lam, rtol=1e-12)
    assert np.linalg.norm(slope - expected) < 1e-8 * np.linalg.norm(expected)
