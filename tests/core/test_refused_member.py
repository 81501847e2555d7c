"""The error of a batch names the first member that is refused, in every framework."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ldiv

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")
jax.config.update("jax_enable_x64", True)

RNG = np.random.default_rng(0)
GENERAL, B = RNG.standard_normal((2, 5, 4, 4)), RNG.standard_normal((2, 5, 4, 1))
DEFINITE = GENERAL @ np.swapaxes(GENERAL, -1, -2) + np.eye(4)
SINGULAR, INDEFINITE, LOPSIDED = GENERAL.copy(), DEFINITE.copy(), DEFINITE.copy()
for i in ((1, 2), (1, 4)):
    SINGULAR[i][:, 1] = SINGULAR[i][:, 0]
    INDEFINITE[i] *= -1
    LOPSIDED[i][0, 1] += 1
NEGATIVE = np.where(DEFINITE == INDEFINITE, DEFINITE, DEFINITE * np.array([-1.0, 1, 1, 1]))
FRAMEWORKS = [np.asarray, torch.tensor, jax.numpy.asarray]
CALLS = {
    "solve": (ldiv.SingularMatrixError, lambda x: ldiv.solve(x(SINGULAR), x(B))),
    "solve, promised": (
        ldiv.NotPositiveDefiniteError,
        lambda x: ldiv.solve(x(INDEFINITE), x(B), assume_a="pos"),
    ),
    "solve, shared": (ldiv.SingularMatrixError, lambda x: ldiv.solve(x(SINGULAR), x(B[0, 0]))),
    "inv": (ldiv.SingularMatrixError, lambda x: ldiv.inv(x(SINGULAR))),
    "factorized": (ldiv.SingularMatrixError, lambda x: ldiv.factorized(x(SINGULAR))),
    "lstsq": (ldiv.SingularMatrixError, lambda x: ldiv.lstsq(x(SINGULAR), x(B))),
    "cholesky": (ldiv.NotPositiveDefiniteError, lambda x: ldiv.cholesky(x(INDEFINITE))),
    "eigvalsh": (ldiv.NotSymmetricError, lambda x: ldiv.eigvalsh(x(LOPSIDED))),
    "logdet": (ValueError, lambda x: ldiv.logdet(x(NEGATIVE))),
    "logm": (np.linalg.LinAlgError, lambda x: ldiv.logm(x(SINGULAR))),
    "solve_sylvester": (
        ldiv.SingularMatrixError,
        lambda x: ldiv.solve_sylvester(x(SINGULAR), x(np.zeros((4, 4))), x(GENERAL)),
    ),
}


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("name", CALLS)
def test_the_member_is_named(name: str, framework: Any) -> None:
    kind, call = CALLS[name]
    with pytest.raises(kind, match=r"^member \(1, 2\): [^m]|^member \(1, 2\): m(?!ember)") as info:
        call(framework)
    assert info.value.member == (1, 2)


def test_modes() -> None:
    a, b = torch.tensor(SINGULAR[1], requires_grad=True), torch.tensor(B[1])
    for call in (ldiv.solve, torch.func.vmap(ldiv.solve)):
        with pytest.raises(ldiv.SingularMatrixError, match=r"^member \(2,\): "):
            call(a, b)
    with pytest.raises(ldiv.SingularMatrixError, match=r"^member \(2,\): "):
        jax.vmap(ldiv.solve)(SINGULAR[1], B[1])


def test_what_all_members_share_is_no_member() -> None:
    with pytest.raises(ldiv.SingularMatrixError, match=r"^the matrix is singular"):
        ldiv.solve(SINGULAR[1, 2], B)
    with pytest.raises(ldiv.SingularMatrixError, match=r"^the matrix is singular"):
        ldiv.solve(SINGULAR[1, 2], B[0, 0])


def test_programs() -> None:
    """The member of a batch of quadratic programs is named, also under jit; and of their
    derivatives.
    """
    pytest.importorskip("clarabel")
    lb = np.where(np.arange(300)[:, None] == 252, 2.0, np.zeros((300, 2)))

    def f(lb: Any) -> Any:
        return ldiv.solve_qp(np.eye(2), np.ones(2), lb=lb, ub=np.ones(2))

    with pytest.raises(
        ldiv.QuadraticProgramError, match=r"^member \(252,\): the quadratic program"
    ):
        f(lb)
    with pytest.raises(Exception, match=r"member \(252,\): the quadratic program is infeasible"):
        jax.block_until_ready(jax.jit(f)(lb))
    q = torch.tensor([[1.0, 1.0], [0.0, 1.0]], dtype=torch.float64, requires_grad=True)
    x = ldiv.solve_qp(np.eye(2), q, lb=np.zeros(2))
    with pytest.raises(ldiv.NotDifferentiableError, match=r"^member \(1,\): solve_qp"):
        x.sum().backward()
