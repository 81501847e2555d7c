"""Levels of torch.func, one inside of another in every order: each differentiates and maps its own."""

from __future__ import annotations

import gc
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest

import ldiv
from ldiv.frontends.torch.graph import recorded
from ldiv.rules.solve import Solve
from ldiv.structures.dense import Dense

torch = pytest.importorskip("torch")
func: Any = torch.func
GENERATOR = torch.Generator().manual_seed(0)
A = torch.randn(3, 4, 4, generator=GENERATOR, dtype=torch.float64) + 4 * torch.eye(4)
B = torch.randn(3, 4, generator=GENERATOR, dtype=torch.float64)

ORDERS: dict[str, Callable[[Any], Any]] = {
    "reverse": func.jacrev,
    "forward": func.jacfwd,
    "pushed": lambda f: lambda a: func.jvp(f, (a,), (torch.ones_like(a),))[1],
}


def by_rule(a: Any, b: Any) -> Any:
    return (ldiv.solve(a, b) ** 3).sum() + ldiv.logdet(a @ a.mT, assume_a="pos")


def by_inverse(a: Any, b: Any) -> Any:
    """The same by functions whose second derivatives PyTorch 2.13 has right in every order, which
    those of its `solve`, `det` and `slogdet` are not in forward mode.
    """
    x = (torch.linalg.inv(a) @ b[..., None])[..., 0]
    factor = torch.linalg.cholesky(a @ a.mT)
    return (x**3).sum() + 2 * torch.log(factor.diagonal(0, -2, -1)).sum()


@pytest.mark.parametrize("mapped", ["outside", "both", "the matrix alone", "the block alone"])
@pytest.mark.parametrize(("outer", "inner"), [*product(ORDERS, ORDERS)])
def test_derivatives_of_derivatives(outer: str, inner: str, mapped: str) -> None:
    def second(f: Any) -> Any:
        return lambda a, b: ORDERS[outer](ORDERS[inner](lambda a: f(a, b)))(a)

    axes, args = {
        "outside": ((0, 0), (A, B)),
        "both": ((0, 0), (A, B)),
        "the matrix alone": ((0, None), (A, B[0])),
        "the block alone": ((None, 0), (A[0], B)),
    }[mapped]

    def run(f: Any) -> Any:
        if (
            mapped == "both"
        ):  # a level of vmap at which nothing is mapped, around one at which all is
            return torch.vmap(lambda a: torch.vmap(second(f))(A, B) + a)(torch.zeros(2))
        return torch.vmap(second(f), axes)(*args)

    torch.testing.assert_close(run(by_rule), run(by_inverse), rtol=1e-9, atol=1e-11)


def test_a_rule_is_found_while_its_call_runs() -> None:
    """Though it was an equal one that gave it its name, and that one is gone."""
    one, other = (Solve(Dense(4, 4)) for _ in range(2))
    key, _ = recorded.key_of(one)
    again, known = recorded.key_of(other)
    assert again == key
    del one, _
    gc.collect()
    assert recorded.rule_of(key) is known
