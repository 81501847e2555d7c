"""Several rules as one node of PyTorch's graph: every derivative is that of the rules one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import ldiv

torch = pytest.importorskip("torch")

from torch.utils.checkpoint import checkpoint  # noqa: E402

from ldiv.frontends.torch.graph.composite import CompositeNode  # noqa: E402

Function = Callable[[Any, Any], Any]
FUNCTIONS: dict[str, Function] = {
    "lu_solve": lambda a, b: ldiv.lu_solve(ldiv.lu_factor(a), b),
    "quad_form": ldiv.quad_form,
    "subspace_angles": lambda a, b: ldiv.subspace_angles(a[:, :2], a[:, 2:]),
}


def one_node(f: Function) -> Function:
    """Make one node by hand, since the numbers are on the host; on a device `as_one_node` makes it."""
    return lambda a, b: CompositeNode.apply(f, a, b)[0]


def arguments(dtype: Any) -> tuple[Any, Any]:
    a, b = torch.linspace(-1, 1, 16).sin().reshape(4, 4) + 3 * torch.eye(4), torch.arange(1.0, 5.0)
    if dtype.is_complex:
        a, b = a + 0.3j * a.mT, b + 1j
    return tuple(x.to(dtype).requires_grad_() for x in (a, b))


def derivatives(f: Function, dtype: Any) -> list[Any]:
    """Derivatives of first to third order, of a batch of cotangents, behind a checkpoint,
    accumulated.
    """
    a, b = arguments(dtype)
    size = lambda *xs: sum((x.abs() ** 2).sum() for x in xs if x is not None)
    further = {"allow_unused": True, "create_graph": True}
    y = f(a, b)
    once = torch.autograd.grad(y, (a, b), torch.ones_like(y), **further)
    twice = torch.autograd.grad(size(*once), (a, b), **further)
    thrice = torch.autograd.grad(size(*twice), a, retain_graph=True)
    many = torch.stack([torch.ones_like(y), 2 * torch.ones_like(y)])
    batch = torch.autograd.grad(y, a, many, is_grads_batched=True, create_graph=True)
    behind = torch.autograd.grad(size(checkpoint(f, a, b, use_reentrant=False)), a)
    size(y).backward(retain_graph=True)
    size(y).backward()
    found = [y, *once, *twice, *thrice, *batch, *behind, a.grad]
    return [x.detach() for x in found if x is not None]


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
def test_derivatives_are_those_of_the_rules(name: str, dtype: Any) -> None:
    f = FUNCTIONS[name]
    for one, many in zip(derivatives(one_node(f), dtype), derivatives(f, dtype), strict=True):
        torch.testing.assert_close(one, many, rtol=1e-12, atol=1e-12)


def test_what_it_keeps_goes_with_the_graph() -> None:
    a, b = arguments(torch.float64)
    before = ldiv.cache_info().entries
    y = one_node(ldiv.quad_form)(a, b)
    assert ldiv.cache_info().entries == before + 1
    torch.autograd.grad(y, a)
    assert ldiv.cache_info().entries == before
    with pytest.raises(RuntimeError, match="second time"):
        torch.autograd.grad(y, a)


def test_an_argument_that_was_overwritten_is_noticed() -> None:
    a, b = arguments(torch.float64)
    c = a * 1
    y = one_node(ldiv.quad_form)(c, b)
    with torch.no_grad():
        c.mul_(2)
    with pytest.raises(RuntimeError, match="inplace"):
        torch.autograd.grad(y, a)


def test_the_choice_is_that_of_the_call() -> None:
    a, b = torch.ones(3, 3, requires_grad=True), torch.ones(3, requires_grad=True)
    with ldiv.errstate(singular="nan"):
        y = one_node(ldiv.quad_form)(a, b)
    assert torch.autograd.grad(y, a, create_graph=True)[0].isnan().all()


def test_what_has_no_derivative_has_none_here() -> None:
    a = torch.eye(3, requires_grad=True)
    x, rank = CompositeNode.apply(lambda a: ldiv.pinv(a, return_rank=True), a)
    assert x.requires_grad
    assert not rank.requires_grad
