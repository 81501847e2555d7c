"""Matrices that keep a rank which is not full: `rank=` promises it, and the derivative is that at
constant rank, of every order; without the promise there is none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ldiv

torch = pytest.importorskip("torch")
rng = np.random.default_rng(0)
U, V, b = (torch.tensor(rng.standard_normal(s)) for s in ((6, 2), (2, 4), (6,)))
CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "pinv": lambda A, b: ldiv.pinv(A, rank=2) @ b,
    "lstsq": lambda A, b: ldiv.lstsq(A, b, rank=2).x,
    "lstsq, tolerance": lambda A, b: ldiv.lstsq(A, b, cond=1e-8, rank=2).x,
    "lstsq, weights": lambda A, b: ldiv.lstsq(A, b, weights=2 + b**2, rank=2).x,
    "lstsq, complex": lambda A, b: ldiv.lstsq(A * (1 + 2j), b + 0j, rank=2).x.imag,
    "lstsq, wide": lambda A, b: ldiv.lstsq(A.mT, b[:4], rank=2).x,
}


@pytest.mark.parametrize(
    "name",
    ["lstsq", *(pytest.param(c, marks=pytest.mark.exhaustive) for c in CALLS if c != "lstsq")],
)
def test_all_derivatives_at_constant_rank(name: str) -> None:
    def loss(u: Any) -> Any:
        return (CALLS[name](u @ V, b) ** 2).sum()

    ldiv.gradcheck(loss, U)  # modes, second orders, vmap


def test_it_is_the_shortest_minimizer() -> None:
    A = U @ V
    x, residues, rank, _ = ldiv.lstsq(A, b, rank=2)
    expected = np.linalg.lstsq(A.numpy(), b.numpy(), rcond=1e-10)[0]
    np.testing.assert_allclose(x, expected, rtol=1e-11)
    assert (rank, tuple(residues.shape)) == (2, (0,))
    batch = ldiv.lstsq(torch.stack([A, 2 * A]), b[:, None], rank=2)
    np.testing.assert_allclose(batch.x[..., 0], np.stack([expected, expected / 2]), rtol=1e-11)


def test_what_was_not_promised_is_refused() -> None:
    A = U @ V
    for call in (lambda r: ldiv.pinv(A, rank=r), lambda r: ldiv.lstsq(A, b, rank=r)):
        for rank in (1, 3, 4):
            with pytest.raises(ValueError, match=f"rank: expected that of A, 2, got {rank}"):
                call(rank)
        with pytest.raises(ValueError, match="rank: expected an integer >= 0"):
            call(-1)
    with pytest.raises(ldiv.SingularMatrixError):
        ldiv.lstsq(A, b)
    with pytest.raises(ValueError, match="rank: expected none with a sparse matrix"):
        ldiv.lstsq(ldiv.asarray(A), b, rank=2)
