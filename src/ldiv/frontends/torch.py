"""PyTorch: one autograd.Function for all rules, in eager mode and under every torch.func transform."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.autograd import forward_ad

from ldiv import rule as rules
from ldiv.rule import Array, Rule, leaves, rebuild

_open = rules.through
_closed = torch._disable_dynamo(_open)  # type: ignore[attr-defined]  # loads Dynamo only when it is called


def _door(f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """While Dynamo traces: a clean graph break, instead of NumPy traced inside the kernels."""
    return _closed(f, args, kwargs) if torch.compiler.is_compiling() else _open(f, args, kwargs)


rules.through = _door


def owns(x: object) -> bool:
    return isinstance(x, torch.Tensor)


def bind(rule: Rule, flat: list[Array]) -> tuple[Array, ...]:
    if torch._C._are_functorch_transforms_active():
        return Transformed.apply(rule, *flat)  # type: ignore[no-untyped-call, no-any-return]
    if forward_ad._current_level >= 0 or (torch.is_grad_enabled() and any(x.requires_grad for x in flat)):
        return Eager.apply(rule, *flat)  # type: ignore[no-untyped-call, no-any-return]
    with torch.no_grad():  # what a user's function closes over is a constant here too
        return _kernel(rule, flat)


def _kernel(rule: Rule, flat: Sequence[Array]) -> tuple[Array, ...]:
    """On plain arrays, no derivative in sight."""
    return rule.kernel(*rebuild(rule.core, [x.detach() if x.requires_grad else x for x in flat]))


class Bound(torch.autograd.Function):
    """A rule, bound to its arrays: the derivatives that both of its forms share."""

    @staticmethod
    def backward(ctx: Any, *cotangents: Array | None) -> Any:
        rule: Rule = ctx.rule
        need = ctx.needs_input_grad[1:]
        saved = [torch._C._functorch.unwrap_if_dead(t) for t in ctx.saved_tensors]  # a pullback may be called after its level has ended
        if all(c is None for c in cotangents):
            return None, *(None for _ in need)
        flat, out = saved[: len(need)], tuple(saved[len(need) :])
        results = rule.vjp(rebuild(rule.core, need), cotangents, out, *rebuild(rule.core, flat))
        return None, *(conform(g, x) if n else None for g, x, n in zip(leaves(results), flat, need, strict=True))

    @staticmethod
    def jvp(ctx: Any, _: None, *tangents: Array | None) -> Any:
        """The trap: torch switches forward mode off in here for all levels, so a second one, outside, would silently see zeros.

        Values saved at this level carry this level's tangents; those are taken off, and forward mode is switched on for
        the levels outside, which is what is meant when a functorch transform is active.
        """
        rule: Rule = ctx.rule
        count = len(tangents)
        outer_levels = torch._C._are_functorch_transforms_active()
        saved = [forward_ad.unpack_dual(t).primal if outer_levels else t for t in ctx.saved_tensors]
        flat, out = saved[:count], tuple(saved[count:])
        with forward_ad._set_fwd_grad_enabled(outer_levels or forward_ad._is_fwd_grad_enabled()):
            moved = rule.jvp(rebuild(rule.core, tangents), out, *rebuild(rule.core, flat))
            smooth = rule.differentiable or (True,) * len(out)
            return tuple(None if not s else torch.zeros_like(y) if t is None else plain(t) for t, y, s in zip(moved, out, smooth, strict=True))


def _save(ctx: Any, rule: Rule, flat: tuple[Array, ...], outputs: tuple[Array, ...]) -> None:
    ctx.rule = rule
    ctx.set_materialize_grads(False)
    if rule.differentiable is not None:
        ctx.mark_non_differentiable(*(y for y, d in zip(outputs, rule.differentiable, strict=True) if not d))
    ctx.save_for_backward(*flat, *outputs)
    ctx.save_for_forward(*flat, *outputs)


class Eager(Bound):
    """Outside torch.func: the form of Function that costs 100 microseconds less."""

    @staticmethod
    def forward(ctx: Any, rule: Rule, *flat: Array) -> tuple[Array, ...]:
        outputs = _kernel(rule, flat)
        _save(ctx, rule, flat, outputs)
        return outputs


class Transformed(Bound):
    """Under torch.func transforms, which call the parts one by one."""

    @staticmethod
    def forward(rule: Rule, *flat: Array) -> tuple[Array, ...]:
        return _kernel(rule, flat)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        rule, *flat = inputs
        _save(ctx, rule, tuple(flat), output)

    @staticmethod
    def vmap(info: Any, in_dims: Any, rule: Rule, *flat: Array) -> Any:
        """A batch is one more leading axis, before the batch axes that are there already."""
        cores = leaves(rule.core)
        depth = max(x.ndim - c - (d is not None) for x, c, d in zip(flat, cores, in_dims[1:], strict=True))
        moved = [x if d is None else _lead(x, d, c, depth) for x, c, d in zip(flat, cores, in_dims[1:], strict=True)]
        outputs = bind(rule, moved)
        return outputs, tuple(0 for _ in outputs)


def _lead(x: Array, dim: int, core: int, depth: int) -> Array:
    x = x.movedim(dim, 0)
    return x.reshape(x.shape[0], *(1,) * (depth - (x.ndim - 1 - core)), *x.shape[1:])


def conform(g: Array | None, x: Array) -> Array | None:
    """The cotangent in the space of x: real where x is, summed over the axes that were broadcast."""
    if g is None:
        return None
    if g.is_complex() and not x.is_complex():
        g = g.real
    if g.shape != x.shape:
        g = g.sum_to_size(x.shape)
    return plain(g if g.dtype == x.dtype else g.to(x.dtype))


def plain(t: Array) -> Array:
    """Complex views trip an assertion of torch on the layout of tangents."""
    return t.resolve_conj().resolve_neg().contiguous() if t.is_complex() or t.is_neg() else t


def asnumpy(x: Array) -> Any:
    if not torch._C._are_functorch_transforms_active():
        return x.numpy(force=True)
    with torch._C._DisableFuncTorch():  # or detach would wrap a plain tensor, an index say, once more under a transform
        return x.numpy(force=True)


def constant(x: Array) -> Array:
    return x.detach()


def host(x: Array) -> bool:
    return bool(x.device.type == "cpu")


def on_host(f: Callable[..., Any], specs: Any, *arrays: Array) -> tuple[Array, ...]:
    results = f(*map(asnumpy, arrays))
    y = tuple(map(torch.from_numpy, results))
    return y if host(arrays[0]) else tuple(t.to(arrays[0].device) for t in y)


def copied(x: Array, memo: dict[int, Any]) -> Array:
    """A deep copy. That of a result is a leaf with the same `requires_grad`, which is what pickling makes of it; torch copies leaves alone."""
    if id(x) not in memo:
        memo[id(x)] = copy.deepcopy(x, memo) if x.is_leaf else x.detach().clone().requires_grad_(x.requires_grad)
    twin: Array = memo[id(x)]
    return twin


def scatter(x: Array, index: Any, size: int) -> Array:
    y = x.new_zeros((*x.shape[:-2], size, x.shape[-1]))
    return y.index_add_(-2, torch.as_tensor(index, device=x.device), x)


# -- functions of users --------------------------------------------------------------------------------------------------------

vmap = torch.func.vmap


def vjp(f: Callable[..., Any], xs: tuple[Array, ...]) -> tuple[Any, Callable[[Any], tuple[Array, ...]]]:
    y, pull = torch.func.vjp(f, *xs)[:2]
    return y, pull


def jvp(f: Callable[..., Any], xs: tuple[Array, ...], dxs: tuple[Array, ...]) -> tuple[Any, Any]:
    """The VJP of the VJP: torch refuses a dual level inside another."""
    y, pull = torch.func.vjp(f, *xs)[:2]
    nothing = tuple(map(torch.zeros_like, y)) if isinstance(y, tuple) else torch.zeros_like(y)
    return y, torch.func.vjp(pull, nothing)[1](dxs)[0]


# -- dense kernels --------------------------------------------------------------------------------------------------------------


def lu_factor(a: Array) -> tuple[Array, Array]:
    lu, pivots, _ = torch.linalg.lu_factor_ex(a)
    return lu, pivots


def lu_solve(lu: Array, pivots: Array, b: Array, op: str) -> Array:
    b = b.to(lu.dtype)
    if op == "T" and lu.is_complex():
        return torch.linalg.lu_solve(lu, pivots, b.conj(), adjoint=True).conj().resolve_conj()
    return torch.linalg.lu_solve(lu, pivots, b, adjoint=op != "N")


def cholesky(a: Array) -> tuple[Array, bool]:
    """(L, whether all of the batch is positive definite)."""
    l, info = torch.linalg.cholesky_ex(a)
    return l, not bool(info.any())


def solve_triangular(a: Array, b: Array, lower: bool, unit: bool = False) -> Array:
    dtype = torch.promote_types(a.dtype, b.dtype)
    return torch.linalg.solve_triangular(a.to(dtype), b.to(dtype), upper=not lower, unitriangular=unit)


def lu_pivoted(a: Array) -> tuple[Array, Array]:
    """A packed LU of an m x n matrix, and LAPACK's exchanges counted from 0."""
    lu, pivots = lu_factor(a)
    return lu, pivots - 1
