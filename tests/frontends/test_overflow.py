"""A derivative that is too large raises wherever it is computed: now, under torch.func, in compiled
programs whose last step is no kernel of ours, native or called back; under "nan" it is NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ldiv
from ldiv.engines.libraries import native

jax = pytest.importorskip("jax")
torch = pytest.importorskip("torch")
jax.config.update("jax_enable_x64", True)

N = 3
# x = A^-1 b and lam = A^-H 1 are finite, lam x^H is not
A, B = 1e-160 * np.eye(N), 1e10 * np.ones(N)
BANDS = np.stack([0 * B, np.diag(A), 0 * B])
LARGE = np.diag([1e300, 1e300, 1e-300])  # an entry of its adjugate is 1e600


def sparse(a: Any, b: Any, method: str) -> Any:
    at = [*range(N)], [*range(N)]
    return ldiv.solve(ldiv.coo_array((a[at], at), shape=(N, N)), b, method=method)


Case = tuple[Callable[[Any, Any], Any], Any]
CASES: dict[str, Case] = {
    "solve": (ldiv.solve, A),
    **({} if native.native is None else {"lu": (lambda a, b: sparse(a, b, "lu"), A)}),
    "superlu": (lambda a, b: sparse(a, b, "superlu"), A),
    "solve_banded": (lambda a, b: ldiv.solve_banded((1, 1), a, b), BANDS),
    "lstsq": (lambda a, b: ldiv.lstsq(a, b)[0], A),
    "det": (lambda a, b: ldiv.det(a), LARGE),
}


def gradient(f: Callable[[Any, Any], Any], grad: Any) -> Callable[[Any, Any], Any]:
    return grad(lambda a, b: f(a, b).sum())  # type: ignore[no-any-return]


def with_another(a: Any) -> Any:
    """Add a member whose gradient is finite before this one."""
    return np.stack([a / abs(a).max(), a])


@pytest.mark.parametrize("is_batch", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_in_compiled_programs(name: str, is_batch: bool) -> None:
    f, a = CASES[name]
    g = gradient(f, jax.grad)
    g, a = (jax.vmap(g, (0, None)), with_another(a)) if is_batch else (g, a)
    with pytest.raises((ValueError, RuntimeError), match="the derivative of"):
        jax.block_until_ready(jax.jit(g)(a, B))


@pytest.mark.parametrize("name", CASES)
def test_in_pytorch(name: str) -> None:
    f, a = CASES[name]
    g = gradient(f, torch.func.grad)
    several, a, b = torch.tensor(with_another(a)), torch.tensor(a), torch.tensor(B)
    for call in (
        lambda: g(a, b),
        lambda: torch.vmap(g, (0, None))(several, b),
        lambda: f(a.clone().requires_grad_(), b).sum().backward(),
    ):
        with pytest.raises(ldiv.LinAlgOverflowError, match="the derivative of"):
            call()


def test_under_nan_it_is_nan() -> None:
    a, b = np.stack([np.eye(N), A]), B
    with ldiv.errstate(singular="nan"):
        g = jax.jit(jax.vmap(gradient(ldiv.solve, jax.grad), (0, None)))(a, b)
        h = torch.vmap(gradient(ldiv.solve, torch.func.grad), (0, None))
        found = np.asarray(g), h(torch.tensor(a), torch.tensor(b)).numpy()
    for y in found:
        np.testing.assert_allclose(y[0], -np.outer(np.ones(N), B))
        assert np.isnan(y[1]).all()


def test_what_is_finite_stays_a_program_without_python() -> None:
    program = jax.jit(gradient(ldiv.solve, jax.grad)).lower(np.eye(N), B).as_text()
    if ldiv.jax_export_checks():  # where ldiv is compiled
        assert "callback" not in program and "ldiv_finite_3" in program
