"""PyTorch: one autograd.Function for all rules, in eager mode and under every torch.func
transform.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np
import torch
from torch.autograd import forward_ad

from ldiv.core.closures import closures_count, counting_closures
from ldiv.core.finite import derivative, evaluated
from ldiv.core.holder import Holder, Owner, holding, owner
from ldiv.core.public import guard
from ldiv.core.rule import Rule
from ldiv.core.trees import Array, leaves, rebuild
from ldiv.errors import expected_got


def _call(f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return f(*args, **kwargs)


_closed = torch._disable_dynamo(_call)  # type: ignore[attr-defined]  # loads Dynamo only when it is called


def _door(f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """While Dynamo traces: a clean graph break, instead of NumPy traced inside the kernels."""
    if torch.compiler.is_dynamo_compiling():
        if torch.compiler.is_exporting():
            raise _recorded()
        return _closed(f, args, kwargs)
    if torch._C._get_tracing_state() is None and not torch.compiler.is_exporting():
        return f(*args, **kwargs)
    try:
        return f(*args, **kwargs)
    except Exception as error:  # sizes are tensors there, and much of torch.func is missing
        raise _recorded() from error


guard(_door)


def owns(x: object) -> bool:
    return isinstance(x, torch.Tensor)


def bind(rule: Rule, flat: list[Array]) -> tuple[Array, ...]:
    if torch._C._are_functorch_transforms_active():
        return Transformed.apply(rule, _keeper(), *flat)  # type: ignore[no-untyped-call]
    if not torch.is_grad_enabled() and forward_ad._current_level < 0:
        return _kernel(rule, flat)
    if rule.on_host:  # calls no function that could close over anything
        return _bind(rule, flat)
    with counting_closures(torch.is_grad_enabled() or closures_count()):
        return _bind(rule, flat)


def _bind(rule: Rule, flat: list[Array]) -> tuple[Array, ...]:
    if forward_ad._current_level >= 0 or (
        torch.is_grad_enabled() and any(x.requires_grad for x in flat)
    ):
        return Eager.apply(rule, _keeper(), *flat)  # type: ignore[no-untyped-call]
    with torch.no_grad():  # what a user's function closes over is a constant here too
        return _kernel(rule, flat)


# numbers: up to so many, of one matrix or vector each, are NumPy arrays, whose operations cost less
SMALL = 64 * 64


def _is_small(rule: Rule, flat: Sequence[Array]) -> bool:
    """Do a few numbers in the memory of this process stand for values alone, which NumPy may
    handle as well?
    """
    if not rule.on_host or torch._C._len_torch_function_stack() or traced(None):
        return False
    own = zip(flat, rule.cores, strict=True)
    return all(
        [  # noqa: C419  (faster than a generator)
            x.ndim == core and x.is_cpu and x.numel() <= SMALL and type(x) in _PLAIN
            for x, core in own
        ]
    )


def _tensor(y: Any) -> Array:
    """As a tensor with memory of its own, which is not that of an argument."""
    return torch.from_numpy(y if type(y) is np.ndarray and y.base is None else np.array(y))


def _keeper() -> Owner:
    """Who owns what this call makes: the call whose derivative it is, or it itself."""
    return Holder() if (keeper := owner()) is None else keeper


def _kernel(rule: Rule, flat: Sequence[Array]) -> tuple[Array, ...]:
    """On plain arrays, no derivative in sight."""
    if _is_small(rule, flat):
        return tuple([_tensor(y) for y in evaluated(rule, [_values(x) for x in flat])])
    # a mode of the user's is for what he calls
    with torch._C.DisableTorchFunction() if torch._C._len_torch_function_stack() else nullcontext():
        outputs = evaluated(rule, [x.detach() if x.requires_grad else x for x in flat])
    if not any([y._is_view() for y in outputs]):  # noqa: C419
        return outputs
    # torch lets nobody write to a view that a Function returns, and cannot give tangents to several
    # views of one array.
    return tuple(
        y if not y._is_view() else y.detach() if forward_ad._current_level < 0 else y.clone()
        for y in outputs
    )


def _derivative(rule: Rule, f: Callable[..., Any], *given: Any) -> Any:
    """Under torch.func only kernels see numbers."""
    return f(*given) if torch._C._are_functorch_transforms_active() else derivative(rule, f, *given)


class Bound(torch.autograd.Function):
    """A rule, bound to its arrays: the derivatives that both of its forms share."""

    @staticmethod
    def backward(ctx: Any, *cotangents: Array | None) -> Any:
        need = ctx.needs_input_grad[2:]
        if all(c is None for c in cotangents):
            return None, None, *(None for _ in need)
        token, *saved = ctx.saved_tensors
        # a pullback may be called after its level has ended
        saved = [torch._C._functorch.unwrap_if_dead(t) for t in saved]
        with holding(_kept_with(ctx, token)):
            return (
                None,
                None,
                *over_legacy_batch(partial(_pullback, ctx.rule, need), [*saved, *cotangents]),
            )

    @staticmethod
    def jvp(ctx: Any, _: None, __: None, *tangents: Array | None) -> Any:
        """The trap: torch switches forward mode off in here for all levels, so a second one,
        outside, would silently see zeros.

        Values saved at this level carry this level's tangents; those are taken off, and forward
        mode is switched on for the levels outside, which is what is meant when a functorch
        transform is active.
        """
        outer_levels = torch._C._are_functorch_transforms_active()
        token, *saved = ctx.saved_tensors
        saved = [forward_ad.unpack_dual(t).primal if outer_levels else t for t in saved]
        with (
            forward_ad._set_fwd_grad_enabled(outer_levels or forward_ad._is_fwd_grad_enabled()),
            holding(_kept_with(ctx, token)),
        ):
            return tuple(
                over_legacy_batch(
                    partial(_pushforward, ctx.rule, len(tangents)), [*saved, *tangents]
                )
            )


def _pullback(rule: Rule, need: Sequence[bool], *xs: Array | None) -> list[Array | None]:
    """Of arguments, outputs, cotangents: the cotangents of the arguments."""
    flat = xs[: len(need)]
    differentiated = (
        torch.is_grad_enabled()
        or forward_ad._current_level >= 0
        or torch._C._are_functorch_transforms_active()
    )
    small = not differentiated and _is_small(rule, flat)
    if small:
        xs = tuple([None if x is None else _values(x) for x in xs])
    plain, rest = xs[: len(need)], xs[len(need) :]
    out, cotangents = rest[: len(rest) // 2], rest[len(rest) // 2 :]
    results = leaves(
        _derivative(
            rule, rule.vjp, rebuild(rule.core, need), cotangents, out, *rebuild(rule.core, plain)
        )
    )
    if small:
        results = [None if g is None else _tensor(g) for g in results]
    return [conform(g, x) if n else None for g, x, n in zip(results, flat, need, strict=True)]


def _pushforward(rule: Rule, count: int, *xs: Array | None) -> list[Array | None]:
    """Of arguments, outputs, tangents: the tangents of the outputs."""
    flat, out, tangents = xs[:count], xs[count:-count], xs[-count:]
    moved = _derivative(
        rule, rule.jvp, rebuild(rule.core, tangents), out, *rebuild(rule.core, flat)
    )
    smooth = rule.differentiable or (True,) * len(out)
    return [_tangent(t, y) if s else None for t, y, s in zip(moved, out, smooth, strict=True)]


def _tangent(t: Array | None, y: Array) -> Array:
    """Of the shape of y: a rule may leave out the axes along which its tangent is constant."""
    return (
        torch.zeros_like(y)
        if t is None
        else plain(t if t.shape == y.shape else t.expand(y.shape).clone())
    )


def _save(
    ctx: Any, rule: Rule, token: Array, flat: tuple[Array, ...], outputs: tuple[Array, ...]
) -> None:
    ctx.rule = rule
    ctx.set_materialize_grads(False)
    if rule.differentiable is not None:
        ctx.mark_non_differentiable(
            *(y for y, d in zip(outputs, rule.differentiable, strict=True) if not d)
        )
    ctx.save_for_backward(token, *flat, *outputs)
    if forward_ad._current_level >= 0:
        ctx.save_for_forward(token, *flat, *outputs)


def _token(keeper: Owner) -> Array:
    """An empty tensor that carries the owner of the factors: saved with the others, it is freed
    with the buffers of the graph.
    """
    token = torch.empty(0)
    token.keeper = keeper  # type: ignore[attr-defined]
    return token


def _kept_with(ctx: Any, token: Array) -> Owner:
    """The owner on the token, or where functorch or a hook replaced the token on the call
    itself, or a new one.
    """
    keeper: Owner | None = getattr(token, "keeper", None) or getattr(ctx, "keeper", None)
    return Holder() if keeper is None else keeper


class Eager(Bound):
    """Outside torch.func: the form of Function that costs 100 microseconds less."""

    @staticmethod
    def forward(ctx: Any, rule: Rule, keeper: Owner, *flat: Array) -> tuple[Array, ...]:
        with holding(keeper):
            outputs = _kernel(rule, flat)
        _save(ctx, rule, _token(keeper), flat, outputs)
        return outputs


class Transformed(Bound):
    """Under torch.func transforms, which call the parts one by one."""

    @staticmethod
    def forward(rule: Rule, keeper: Owner, *flat: Array) -> tuple[Array, ...]:
        with holding(keeper):
            return _kernel(rule, flat)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        rule, ctx.keeper, *flat = inputs  # a tensor loses what it carries
        _save(ctx, rule, torch.empty(0), tuple(flat), output)

    @staticmethod
    def vmap(info: Any, in_dims: Any, rule: Rule, keeper: Owner, *flat: Array) -> Any:
        """A batch is one more leading axis, before the batch axes that are there already."""
        cores, dims = leaves(rule.core), in_dims[2:]
        depth = max(x.ndim - c - (d is not None) for x, c, d in zip(flat, cores, dims, strict=True))
        moved = [
            x if d is None else _lead(x, d, c, depth)
            for x, c, d in zip(flat, cores, dims, strict=True)
        ]
        with holding(keeper):
            outputs = bind(rule, moved)
        return outputs, tuple(0 for _ in outputs)


def _lead(x: Array, dim: int, core: int, depth: int) -> Array:
    x = x.movedim(dim, 0)
    return x.reshape(x.shape[0], *(1,) * (depth - (x.ndim - 1 - core)), *x.shape[1:])


# -- legacy batching: torch.autograd.grad(is_grads_batched=True), torch.autograd.functional with vectorize=True ---

Results = Sequence[Array | None]


def over_legacy_batch(f: Callable[..., Results], xs: Sequence[Array | None]) -> Results:
    """f(*xs), where some are batched in this way, or have tangents that are: by torch.func.vmap,
    which knows every operation.
    """
    level = _legacy_level()
    if not level or torch._C._are_functorch_transforms_active():
        return f(*xs)
    if any(map(_is_legacy, xs)):
        plain = [_unwrapped(x, level) for x in xs]
        return [
            None if y is None else torch._add_batch_dim(y.contiguous(), 0, level)
            for y in _mapped(f, plain, [*map(_is_legacy, xs)])
        ]
    tangents = [_tangent_of(x) for x in xs]
    if not any(map(_is_legacy, tangents)):
        return f(*xs)
    batches = [_unwrapped(t, level) for t in tangents]
    count = max(
        len(t)
        for t, given in zip(batches, tangents, strict=True)
        if t is not None and _is_legacy(given)
    )
    duals = [x if t is None else _repeated(x, t, count) for x, t in zip(xs, batches, strict=True)]
    return [
        None if y is None else _once(y, level)
        for y in _mapped(f, duals, [t is not None for t in tangents])
    ]


def _legacy_level() -> int:
    level = torch._C._vmapmode_increment_nesting() - 1
    torch._C._vmapmode_decrement_nesting()
    return level


def _is_legacy(x: Array | None) -> bool:
    return x is not None and torch._C._functorch.is_legacy_batchedtensor(x)


def _unwrapped(x: Array | None, level: int) -> Array | None:
    """With the batch as first axis."""
    return torch._remove_batch_dim(x, level, 1, 0) if x is not None and _is_legacy(x) else x


def _tangent_of(x: Array | None) -> Array | None:
    return None if x is None or forward_ad._current_level < 0 else forward_ad.unpack_dual(x).tangent


def _repeated(x: Array, tangents: Array, count: int) -> Array:
    """x with each of its tangents."""
    primal = forward_ad.unpack_dual(x).primal
    return forward_ad.make_dual(
        *(y.expand(count, *primal.shape).clone() for y in (primal, tangents))
    )


def _once(y: Array, level: int) -> Array:
    """One y with a batch of tangents, of y that is the same in all of the batch."""
    primal, tangent = forward_ad.unpack_dual(y)
    return (
        primal[0]
        if tangent is None
        else forward_ad.make_dual(
            primal[0].clone(), torch._add_batch_dim(tangent.contiguous(), 0, level)
        )
    )


def _mapped(
    f: Callable[..., Results], xs: Sequence[Array | None], batched: Sequence[bool]
) -> Results:
    """torch.func.vmap of f, of which some results are None."""
    results: list[Array | None] = []
    places: list[int] = []

    def present(*xs: Array | None) -> tuple[Array, ...]:
        results[:] = f(*xs)
        places[:] = [i for i, y in enumerate(results) if y is not None]
        return tuple(results[i] for i in places)

    found = torch.func.vmap(present, tuple(0 if b else None for b in batched))(*xs)
    for i, y in zip(places, found, strict=True):
        results[i] = y
    return results


def conform(g: Array | None, x: Array) -> Array | None:
    """The cotangent in the space of x: real where x is, summed over the axes that were
    broadcast.
    """
    if g is None:
        return None
    if g.dtype == x.dtype and g.shape == x.shape:
        return plain(g)
    if g.is_complex() and not x.is_complex():
        g = g.real
    if g.shape != x.shape:
        g = g.sum_to_size(x.shape)
    return plain(g if g.dtype == x.dtype else g.to(x.dtype))


def plain(t: Array) -> Array:
    """Complex views trip an assertion of torch on the layout of tangents."""
    return t.resolve_conj().resolve_neg().contiguous() if t.is_complex() or t.is_neg() else t


# -- recorders: make_fx, torch.func.linearize, torch.jit.trace, torch.export ---


def traced(x: object) -> bool:
    """Whether what is computed now is recorded, to be run later on other values."""
    return (
        torch._C._get_dispatch_mode(_PROXY) is not None
        or torch._C._get_tracing_state() is not None
        or torch.compiler.is_exporting()
    )


_PROXY = torch._C._TorchDispatchModeKey.PROXY


def check_or_raise(ok: Array, error: Callable[..., Exception], *numbers: Any) -> None:
    raise _recorded()


def _recorded() -> TypeError:
    came = "one that is recorded (by torch.func.linearize, make_fx, torch.jit.trace or torch.export): its numbers would become constants"
    advice = "Call it outside of what is recorded. torch.func.jvp, vjp and vmap record nothing, torch.compile leaves the call out of its graph."
    return TypeError(expected_got("a call", "one that can read its numbers now", came, advice))


def asnumpy(x: Array) -> Any:
    if traced(x):
        raise _recorded()
    return _values(x)


def host_values(x: Array) -> Any:
    """None where the values are elsewhere, or come later."""
    return _values(x) if x.device.type == "cpu" and not traced(x) else None


def _values(x: Array) -> Any:
    if not torch._C._are_functorch_transforms_active():
        return x.numpy(force=True)
    # or detach would wrap a plain tensor, an index say, once more under a transform
    with torch._C._DisableFuncTorch():
        return x.numpy(force=True)


def signature(x: Array) -> Any:
    return (x.dtype, x.ndim, x.device, x.layout) if type(x) in _PLAIN and not x.is_nested else None


_PLAIN = (torch.Tensor, torch.nn.Parameter)


def constant(x: Array) -> Array:
    return x.detach()


def host(x: Array) -> bool:
    return bool(x.device.type == "cpu") and not traced(x)


def on_host(f: Callable[..., Any], specs: Any, *arrays: Array) -> tuple[Array, ...]:
    if traced(arrays[0]):
        raise _recorded()
    y = tuple(map(torch.from_numpy, f(*map(_values, arrays))))
    return y if arrays[0].device.type == "cpu" else tuple(t.to(arrays[0].device) for t in y)


def copied(x: Array, cached: dict[int, Any]) -> Array:
    """A deep copy. That of a result is a leaf with the same `requires_grad`, which is what
    pickling makes of it; torch copies leaves alone.
    """
    if id(x) not in cached:
        cached[id(x)] = (
            copy.deepcopy(x, cached)
            if x.is_leaf
            else x.detach().clone().requires_grad_(x.requires_grad)
        )
    twin: Array = cached[id(x)]
    return twin


def scatter(x: Array, index: Any, size: int) -> Array:
    y = x.new_zeros((*x.shape[:-2], size, x.shape[-1]))
    # what is recorded runs many times on the same zeros
    add = y.index_add if traced(x) else y.index_add_
    return add(-2, torch.as_tensor(index, device=x.device), x)


# -- functions of users -------------------------------------------------------

vmap = torch.func.vmap


def call(f: Callable[..., Array], *xs: Any) -> Array:
    """Kernels see no graph; switched on for f alone, it shows what f closes over. Functions of
    torch.func hide their closures.
    """
    if not closures_count() or torch._C._are_functorch_transforms_active():
        return f(*xs)
    with torch.enable_grad():
        y = f(*xs)
    if getattr(y, "requires_grad", False) and not any(x.requires_grad for x in leaves(xs)):
        advice = "Pass the tensor in `params`, through which gradients flow, or detach it where the function closes over it."
        raise ValueError(
            expected_got(
                "a function of yours",
                "all that requires grad among its arguments",
                "a closure over a tensor that does",
                advice,
            )
        )
    return y


def vjp(
    f: Callable[..., Any], xs: tuple[Array, ...]
) -> tuple[Any, Callable[[Any], tuple[Array, ...]]]:
    try:
        y, pull = torch.func.vjp(f, *xs)[:2]
    except RuntimeError as error:
        if "saved tensor hooks" in str(error):
            advice = "Give checkpoint use_reentrant=True, or leave this function out of it."
            came = "saved tensor hooks, as of torch.utils.checkpoint with use_reentrant=False"
            raise TypeError(
                expected_got(
                    "a derivative of your function",
                    "torch.func, which makes it, to be possible here",
                    came,
                    advice,
                )
            ) from error
        if "must be floating-point" in str(error):
            advice = "PyTorch differentiates no others: leave them out."
            raise TypeError(
                expected_got(
                    "f",
                    "a function with floating values alone",
                    "one with integers or truth values",
                    advice,
                )
            ) from error
        raise
    return y, pull


def jvp(f: Callable[..., Any], xs: tuple[Array, ...], dxs: tuple[Array, ...]) -> tuple[Any, Any]:
    """The VJP of the VJP: torch refuses a dual level inside another."""
    y, pull = vjp(f, xs)
    nothing = tuple(map(torch.zeros_like, y)) if isinstance(y, tuple) else torch.zeros_like(y)
    return y, torch.func.vjp(pull, nothing)[1](dxs)[0]


# -- dense kernels ------------------------------------------------------------


def lu_factor(a: Array) -> tuple[Array, Array]:
    lu, pivots, _ = torch.linalg.lu_factor_ex(a)
    return lu, pivots


def sign_of_rows(pivots: Array) -> Array:
    """det P: -1 for an odd number of exchanges, which LAPACK counts from 1."""
    return 1 - 2 * (
        (pivots != torch.arange(1, pivots.shape[-1] + 1, device=pivots.device)).sum(-1) % 2
    )


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
    return torch.linalg.solve_triangular(
        a.to(dtype), b.to(dtype), upper=not lower, unitriangular=unit
    )


def product(a: Array, x: Array) -> Array:
    """In double precision where torch might be allowed to multiply with fewer digits than the
    dtype has.
    """
    wide = _WIDE.get(a.dtype)
    if wide is None or not (a.is_cuda or torch.get_float32_matmul_precision() != "highest"):
        return torch.matmul(a, x)
    return torch.matmul(a.to(wide), x.to(wide)).to(a.dtype)


_WIDE = {torch.float32: torch.float64, torch.complex64: torch.complex128}


def lu_pivoted(a: Array) -> tuple[Array, Array]:
    """A packed LU of an m x n matrix, and LAPACK's exchanges counted from 0."""
    lu, pivots = lu_factor(a)
    return lu, pivots - 1
