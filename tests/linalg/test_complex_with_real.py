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


def stable(a: torch.Tensor) -> torch.Tensor:
    return a - 4 * torch.eye(3, dtype=a.dtype)


def definite(a: torch.Tensor) -> torch.Tensor:
    return a @ a.mH + torch.eye(3, dtype=a.dtype)


OF_MATRICES = {
    "solve_continuous_are": lambda a, b, q, r: ldiv.solve_continuous_are(
        stable(a), b, definite(q), definite(r)
    ),
    "solve_discrete_are": lambda a, b, q, r: ldiv.solve_discrete_are(
        a / 4, b, definite(q), definite(r), s=q / 9
    ),
    "solve_sylvester": lambda a, b, q, r: ldiv.solve_sylvester(stable(a), stable(b), q),
    "solve_continuous_lyapunov": lambda a, b, q, r: ldiv.solve_continuous_lyapunov(stable(a), q),
    "solve_discrete_lyapunov": lambda a, b, q, r: ldiv.solve_discrete_lyapunov(a / 9, b),
    "lstsq": lambda a, b, q, r: ldiv.lstsq(a[:, :2], b).x,
    "lstsq, damp": lambda a, b, q, r: ldiv.lstsq(a[:2], b[:2], damp=0.1).x,
    "trace_solve": lambda a, b, q, r: ldiv.trace_solve(stable(a), b),
    "quad_form": lambda a, b, q, r: ldiv.quad_form(definite(a), b, assume_a="pos"),
    "expm_multiply": lambda a, b, q, r: ldiv.expm_multiply(a, b),
    "eigh": lambda a, b, q, r: ldiv.eigh(definite(a), definite(b))[0],
    "eigvals": lambda a, b, q, r: ldiv.eigvals(a, stable(b)).sum(),
    "multi_dot": lambda a, b, q, r: ldiv.multi_dot([a, b, q, r]),
    "kron": lambda a, b, q, r: ldiv.solve(ldiv.kron(stable(a), b), q.reshape(-1)),
    "update": lambda a, b, q, r: ldiv.solve(
        ldiv.diags_array([a[0] + 4], offsets=[0]) + ldiv.LowRank(b[:, :1], q[:, :1]), r
    ),
}


@pytest.mark.parametrize("which", range(4))
@pytest.mark.parametrize("name", OF_MATRICES)
def test_one_complex_matrix_among_real_ones(name: str, which: int) -> None:
    """Values and two orders are those of complex matrices alone."""
    torch.manual_seed(1)
    given = [torch.rand(3, 3, dtype=torch.float64) for _ in range(4)]
    given[which] = given[which] + 0.3j * torch.rand(3, 3, dtype=torch.float64)
    directions = [torch.rand_like(x) for x in given]

    def derivatives(make: type) -> list[torch.Tensor]:
        leaves = [x.clone().requires_grad_() for x in given]
        y = OF_MATRICES[name](*(make(x) for x in leaves))
        first = torch.autograd.grad(
            (y * y.conj()).real.sum(), leaves, create_graph=True, materialize_grads=True
        )
        slope = sum((d.conj() * g).real.sum() for d, g in zip(directions, first, strict=True))
        second = torch.autograd.grad(slope, leaves, materialize_grads=True)
        return [y, *first, *second]

    for x, z in zip(derivatives(lambda x: x), derivatives(lambda x: x + 0j), strict=True):
        torch.testing.assert_close(x + 0j, z + 0j, rtol=1e-9, atol=1e-9)
