"""Shifted systems in one Krylov space: against dense solves, and no more products than needed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy.linalg import eigh

from ldiv.engines.eigen import shifted_krylov

N, KNOWN = 150, 6
RTOL = 1e-11
SPECTRA = {
    "even": lambda: np.arange(1.0, N + 1),
    "clustered": lambda: np.concatenate([np.arange(1.0, 8), np.repeat([8.0, 9.0, 30.0], 47), [31.0, 50.0]]),
    "wide": lambda: np.concatenate([np.arange(1.0, 8), np.geomspace(8, 1e7, N - 7)]),
}  # fmt: skip


@dataclass
class Pencil:
    """A x = lam B x with a known spectrum, shifted by sigma; V are the lowest pairs."""

    lam: Any
    V: Any
    B: Any
    X: Any
    sigma: float
    columns: int = 0

    def inverse(self, r: Any) -> Any:
        """(A - sigma B)^-1 r."""
        self.columns += r.shape[1]
        return self.X @ ((self.X.conj().T @ r) / (self.lam - self.sigma)[:, None])


def pencil(spectrum: str, sigma: float, dtype: str) -> Pencil:
    rng = np.random.default_rng(1)
    z = rng.standard_normal((N, N)) + (1j * rng.standard_normal((N, N)) if dtype[0] == "c" else 0)
    b = rng.standard_normal((N, N)) / N
    b = np.eye(N) + b @ b.T
    lam = SPECTRA[spectrum]()
    x = eigh(z + z.conj().T, b)[1].astype(dtype)  # X^H B X = I
    return Pencil(lam, x[:, :KNOWN], b, x, sigma)


def right_hand_sides(kind: str, p: Pencil) -> Any:
    r = np.random.default_rng(2).standard_normal((N, 5)).astype(p.V.dtype)
    if kind == "dependent":
        r[:, 1], r[:, 2], r[:, 3] = 0, r[:, 0], r[:, 0] + 1e-9 * r[:, 4]
    if kind == "of many sizes":
        r = r * np.array([1e-100, 1e-8, 1, 1e8, 1e100])
    return r - p.B @ p.V @ (p.V.conj().T @ r)


@pytest.mark.parametrize("kind", ["random", "dependent", "of many sizes"])
@pytest.mark.parametrize("spectrum", SPECTRA)
@pytest.mark.parametrize(("sigma", "dtype"), [(0.0, "float64"), (3.5, "complex128"), (3 + 1e-10, "float64")])  # fmt: skip
def test_all_shifts(kind: str, spectrum: str, sigma: float, dtype: str) -> None:
    """(I - delta F B) w = F r on the complement of V, for theta among and beside the known."""
    p = pencil(spectrum, sigma, dtype)
    r, theta = right_hand_sides(kind, p), np.array([1.0, 2.0, 3.0, 5.0, 6.3])
    w = shifted_krylov.solve(p.inverse, lambda x: p.B @ x, p.V, theta - sigma, r, RTOL)
    # in the eigenbasis, whose first part is deflated: X (Lam - theta)^-1 X^H r
    rest = p.X[:, KNOWN:]
    expected = rest @ ((rest.conj().T @ r) / (p.lam[KNOWN:, None] - theta))
    error, size = (np.linalg.norm(x, axis=0) for x in (w - expected, expected))
    assert (error <= 1e-8 * size).all()


def test_converged_columns_cost_nothing_more() -> None:
    """Four of five systems are easy: the last steps work for the fifth alone."""
    p = pencil("even", 0.0, "float64")
    r, theta = right_hand_sides("random", p), np.array([0.01, 0.01, 0.01, 0.01, 6.9])

    def columns(which: slice) -> int:
        p.columns = 0
        shifted_krylov.solve(p.inverse, lambda x: p.B @ x, p.V, theta[which], r[:, which], RTOL)
        return p.columns

    together, hard = columns(slice(None)), columns(slice(4, 5))
    assert together <= hard + 4 * 10
    assert hard > 20


def test_without_a_right_hand_side() -> None:
    """Zeros are solved without a product but the first."""
    p = pencil("even", 0.0, "float64")
    w = shifted_krylov.solve(
        p.inverse, lambda x: p.B @ x, p.V, np.array([1.0, 2.0]), np.zeros((N, 2)), RTOL
    )
    assert not w.any() and p.columns == 2


def test_basis_stays_orthogonal() -> None:
    """Each step looks back at few directions; rounding lets in others, which are taken out in time.

    Half the precision is enough: the residual is f - (I - delta T) w to the last digits.
    """
    p = pencil("even", 0.0, "float64")
    f, delta = p.inverse(right_hand_sides("random", p)), 6.3
    space = shifted_krylov.Space(p.inverse, lambda x: p.B @ x, p.V, f.copy(), RTOL)
    while space.grow(space.galerkin(np.full(5, delta))[1]):
        pass
    basis = space.basis[:, : KNOWN + len(space.G) + len(space.b)]
    assert np.abs(basis.T @ p.B @ basis - np.eye(basis.shape[1])).max() <= 1e-7
    y, rho = space.galerkin(np.full(5, delta))
    w = space.Q @ y
    Tw = p.inverse(p.B @ w)
    Tw -= p.V @ (p.V.T @ (p.B @ Tw))
    residual = basis[:, KNOWN + len(space.G) :] @ rho
    assert np.abs(f - w + delta * Tw - residual).max() <= 1e-13 * np.abs(f).max()
