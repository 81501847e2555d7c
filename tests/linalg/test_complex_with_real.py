"""A complex matrix and a real right-hand side: as with a complex one, in the compiled call, too."""

from __future__ import annotations

import numpy as np
import pytest

import ldiv

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("trans", ["N", "H"])
def test_a_real_right_hand_side_of_a_complex_matrix(trans: str) -> None:
    rng = np.random.default_rng(0)
    A = rng.standard_normal((2, 5, 5)) + 1j * rng.standard_normal((2, 5, 5))
    b = rng.standard_normal((5, 3))
    op = A if trans == "N" else A.conj().swapaxes(-1, -2)
    assert np.allclose(ldiv.solve(A, b, trans=trans), np.linalg.solve(op, b), 1e-12, 1e-12)
    x = ldiv.solve(A[0].astype("F"), b[:, 0], trans=trans)  # the wider of the two precisions
    assert x.dtype == np.complex128 and x.shape == (5,)
    t, c = (torch.tensor(z, requires_grad=True) for z in (A, b))

    def f(t: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
        return ldiv.solve(t, c, trans=trans)

    assert torch.autograd.gradcheck(f, (t, c)) and torch.autograd.gradgradcheck(f, (t, c))
    own = torch.autograd.grad(f(t, c).abs().sum(), (t, c))
    other = torch.autograd.grad(f(t, c + 0j).abs().sum(), (t, c))
    assert own[1].dtype == torch.float64
    assert all(torch.allclose(x, y, 1e-12, 1e-12) for x, y in zip(own, other, strict=True))
