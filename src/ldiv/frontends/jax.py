"""JAX: a primitive for all rules, one for their tangent maps, whose transpose is the rule's vjp,
and one for work on the host.

JAX transposes a map of complex numbers without conjugating it, so a cotangent of JAX is the
conjugate of ours: `_pullback` is the one place that translates. A rule is staged whole and becomes
its kernel when it is compiled; until then every transformation sees the rule. A factor that is made
of arrays is an output of the rule, beside its own, where a derivative asks for it, and an argument
of the rules that the derivative binds: a loop over solves saves it, instead of factoring again. On
the host only NumPy runs: a callback that calls JAX again can wait for itself forever.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from ldiv.core.finite import derivative, evaluated
from ldiv.core.holder import TracedFactor, TracedHolder, holding, owner, store
from ldiv.core.pytree import on_register_pytree
from ldiv.core.rule import Rule
from ldiv.core.trees import Array, leaves, rebuild
from ldiv.errors import expected_got, report

Specs = tuple[tuple[tuple[int, ...], np.dtype[Any]], ...]


def owns(x: object) -> bool:
    return isinstance(x, jax.Array)


def bind(rule: Rule, flat: list[Array]) -> tuple[Array, ...]:
    given, held = keeper.known_of(flat) if isinstance(keeper := owner(), TracedHolder) else ((), [])
    flat = [*flat, *held]
    return tuple(
        rule_p.bind(
            *(_alike(flat) if any(map(traced, flat)) else flat), rule=rule, given=given, asked=False
        )
    )


def _alike(flat: list[Array]) -> list[Array]:
    """Under shard_map, all varying along the mesh axes of any of them, so that what is shared
    has a summed cotangent.
    """
    axes = [jax.typeof(x).mat.varying for x in flat]
    every = frozenset().union(*axes)
    return [
        jax.lax.pcast(x, tuple(every - own), to="varying") if every - own else x
        for x, own in zip(flat, axes, strict=True)
    ]


# -- a rule: (x, factors given) -> y, and where `asked` the arrays of the factors that its kernel makes ---

Given = tuple[TracedFactor, ...]


def _kernel(*args: Array, rule: Rule, given: Given, asked: bool) -> list[Array]:
    """Under the store: a rule is a static parameter, which cannot own the factors that its
    derivatives need.
    """
    if given or asked:  # a program that was staged, and is run one operation at a time
        return list(jax.jit(partial(_traced_kernel, rule=rule, given=given, asked=asked))(*args))
    with holding(store if (keeper := owner()) is None else keeper):
        return list(evaluated(rule, list(args)))


def _traced_kernel(*args: Array, rule: Rule, given: Given, asked: bool) -> list[Array]:
    out, keeper = _held_kernel(*args, rule=rule, given=given, asked=asked)
    return [*out, *keeper.made] if asked else out


def _held_kernel(
    *args: Array, rule: Rule, given: Given, asked: bool
) -> tuple[list[Array], TracedHolder]:
    """Nobody looks again at factors that are handed on: what is made of outputs beside them
    waits until all checks are passed.
    """
    flat, held = _own(rule, args)
    keeper = TracedHolder(flat, given, held)
    with _checking() as waiting, holding(keeper):
        out = list(evaluated(rule, list(flat)))
        if asked:
            waiting += out
    return waiting or out, keeper


def _own(rule: Rule, args: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
    """The arguments of the rule, and the arrays of factors after them."""
    count = len(leaves(rule.core))
    return args[:count], args[count:]


class Outputs(NamedTuple):
    """The outputs of a kernel, the factors that it makes, and their arrays."""

    own: list[Any]
    factors: Given
    made: list[Any]


def _outputs(rule: Rule, given: Given, args: Sequence[Any]) -> Outputs:
    return _known_outputs(rule, given, tuple((x.shape, x.dtype) for x in args))


@lru_cache(maxsize=256)
def _known_outputs(rule: Rule, given: Given, specs: Specs) -> Outputs:
    factors: list[TracedFactor] = []

    def run(*args: Array) -> Any:
        out, keeper = _held_kernel(*args, rule=rule, given=given, asked=False)
        factors[:] = keeper.factors[len(given) :]
        return out, keeper.made

    found = jax.eval_shape(run, *(jax.ShapeDtypeStruct(*spec) for spec in specs))
    own, made = ([jax.core.ShapedArray(y.shape, y.dtype) for y in some] for some in found)
    return Outputs(own, tuple(factors), made)


def _abstract(*avals: Any, rule: Rule, given: Given, asked: bool) -> list[Any]:
    outputs = _outputs(rule, given, avals)
    out = outputs.own + outputs.made * asked
    x = avals[0]
    if x.mat.empty:
        return out
    whole = [x.sharding.update(spec=jax.P(*(None,) * y.ndim)) for y in out]
    return [
        x.update(shape=y.shape, dtype=y.dtype, weak_type=False, sharding=s)
        for y, s in zip(out, whole, strict=True)
    ]


def _smooth(rule: Rule, out: Sequence[Any]) -> tuple[bool, ...]:
    return rule.differentiable or (True,) * len(out)


def _jvp(
    primals: Sequence[Array], tangents: Sequence[Any], *, rule: Rule, given: Given, asked: bool
) -> tuple[list[Array], list[Any]]:
    (flat, held), (dx, _) = _own(rule, primals), _own(rule, tangents)
    outputs = _outputs(rule, given, primals) if asked or _staged(primals) else Outputs([], (), [])
    every = rule_p.bind(*primals, rule=rule, given=given, asked=bool(outputs.made))
    out, made = (
        (every[: len(outputs.own)], every[len(outputs.own) :]) if outputs.made else (every, [])
    )
    moving = tuple(type(t) is not ad.Zero for t in dx)
    along = [t for t, m in zip(dx, moving, strict=True) if m]
    given = (*given, *outputs.factors)
    moved = iter(
        tangent_p.bind(*along, *flat, *out, *held, *made, rule=rule, moving=moving, given=given)
    )
    dy = [next(moved) if s else _zero(y) for y, s in zip(out, _smooth(rule, out), strict=True)]
    return (every, [*dy, *map(_zero, made)]) if asked else (out, dy)


def _staged(xs: Sequence[Any]) -> bool:
    """Is a program being written, in which nothing is found again in a store? There a constant
    is a tracer, too.
    """
    return any(map(traced, xs)) and traced(jnp.zeros(()))


def _zero(x: Any) -> Any:
    """The zero tangent, or cotangent, of x; of integers it has the dtype float0."""
    return ad.Zero(jax.typeof(x).to_tangent_aval())


def _batch(
    args: Sequence[Array], dims: Sequence[int | None], *, rule: Rule, given: Given, asked: bool
) -> tuple[list[Array], list[int | None]]:
    """A batch is one more leading axis, before the batch axes that are there already; of a
    factor, if what it is of has one.
    """
    cores = [*leaves(rule.core), *(c for factor in given for c in factor.core)]
    depth = max(x.ndim - c - (d is not None) for x, c, d in zip(args, cores, dims, strict=True))
    moved = [
        x if d is None else _lead(x, d, c, depth) for x, c, d in zip(args, cores, dims, strict=True)
    ]
    out = rule_p.bind(*moved, rule=rule, given=given, asked=asked)
    if not asked:
        return out, [0] * len(out)
    outputs = _outputs(rule, given, moved)
    of_factors = [
        None if all(dims[i] is None for i in f.places) else 0
        for f in outputs.factors
        for _ in f.core
    ]
    return out, [*[0] * len(outputs.own), *of_factors]


def _lead(x: Array, dim: int, core: int, depth: int) -> Array:
    x = jnp.moveaxis(x, dim, 0)
    return jnp.reshape(x, (x.shape[0], *(1,) * (depth - (x.ndim - 1 - core)), *x.shape[1:]))


def _transpose(
    cotangents: Sequence[Any], *args: Any, rule: Rule, given: Given, asked: bool
) -> list[Any]:
    """Where a rule is linear its cotangents need no value of what they belong to, so that a
    shape stands in for it.
    """
    own, held = _own(rule, args)
    need = [ad.is_undefined_primal(x) for x in own]
    flat = [
        jax.ShapeDtypeStruct(x.aval.shape, x.aval.dtype) if n else x
        for x, n in zip(own, need, strict=True)
    ]
    try:
        with _holding_given(flat, given, held):
            return [
                *_pullback(rule, need, cotangents, [None] * len(cotangents), flat),
                *(None for _ in held),
            ]
    except (TypeError, AttributeError) as error:
        raise TypeError(
            expected_got(
                "transpose",
                f"arguments in which {type(rule).__name__} is linear",
                str(need),
                "Differentiate it instead.",
            )
        ) from error


def _holding_given(
    flat: Sequence[Any], given: Given, held: Sequence[Any]
) -> AbstractContextManager[None]:
    """Within, rules of these arguments are given the factors that are known."""
    return holding(TracedHolder(flat, given, held)) if given else nullcontext()


def _pullback(
    rule: Rule, need: list[bool], cotangents: Sequence[Any], out: Sequence[Any], flat: Sequence[Any]
) -> list[Any]:
    """The rule's vjp between JAX's cotangents, the conjugates of ours."""
    bars = tuple(None if type(c) is ad.Zero else jnp.conj(c) for c in cotangents)
    if all(c is None for c in bars):
        return [_zero(x) if n else None for x, n in zip(flat, need, strict=True)]
    grads = leaves(
        derivative(
            rule, rule.vjp, rebuild(rule.core, need), bars, tuple(out), *rebuild(rule.core, flat)
        )
    )
    return [
        jnp.conj(conform(g, x)) if n and g is not None else None
        for g, x, n in zip(grads, flat, need, strict=True)
    ]


def conform(g: Array, x: Any) -> Array:
    """The cotangent in the space of x: real where x is, summed over the axes that were
    broadcast.
    """
    g = jnp.sum(g, axis=tuple(range(g.ndim - x.ndim)))
    g = jnp.sum(
        g, axis=tuple(i for i, n in enumerate(x.shape) if n == 1 != g.shape[i]), keepdims=True
    )
    return _cast(g, x)


def _cast(g: Array, x: Any) -> Array:
    return (g if jnp.issubdtype(x.dtype, jnp.complexfloating) else jnp.real(g)).astype(x.dtype)


rule_p = Primitive("ldiv")
rule_p.multiple_results = True
rule_p.def_impl(_kernel)
rule_p.def_abstract_eval(_abstract)
ad.primitive_jvps[rule_p] = _jvp
ad.primitive_transposes[rule_p] = _transpose
batching.primitive_batchers[rule_p] = _batch
mlir.register_lowering(
    rule_p, mlir.lower_fun(_traced_kernel, multiple_results=True), cacheable=False
)


# -- its tangent map: (dx, x, y) -> dy, linear in dx; `moving` says which x have a dx ---


def _split(
    args: Sequence[Any], moving: tuple[bool, ...], given: Given
) -> tuple[Sequence[Any], ...]:
    """dx, x, y, and the arrays of factors."""
    k, end = sum(moving), len(args) - sum(len(factor.core) for factor in given)
    return args[:k], args[k : k + len(moving)], args[k + len(moving) : end], args[end:]


def _tangent(*args: Array, rule: Rule, moving: tuple[bool, ...], given: Given) -> list[Array]:
    dx, flat, out, held = _split(args, moving, given)
    along = iter(dx)
    tangents = rebuild(rule.core, [next(along) if m else None for m in moving])
    with _holding_given(flat, given, held):
        moved = derivative(rule, rule.jvp, tangents, tuple(out), *rebuild(rule.core, flat))
    return [
        jnp.zeros_like(y) if dy is None else jnp.broadcast_to(_cast(dy, y), y.shape)
        for dy, y, smooth in zip(moved, out, _smooth(rule, out), strict=True)
        if smooth
    ]


def _tangent_abstract(*avals: Any, rule: Rule, moving: tuple[bool, ...], given: Given) -> list[Any]:
    out = _split(avals, moving, given)[2]
    return [
        y.to_tangent_aval() for y, smooth in zip(out, _smooth(rule, out), strict=True) if smooth
    ]


def _tangent_jvp(
    primals: Sequence[Array], tangents: Sequence[Any], *, given: Given, **static: Any
) -> Any:
    """The second order: the rule's jvp is made of rules, so JAX differentiates it; what does not
    move is held, as factors are.
    """
    end = len(primals) - sum(len(factor.core) for factor in given)
    moves = [type(t) is not ad.Zero and i < end for i, t in enumerate(tangents)]

    def f(*moved: Array) -> list[Array]:
        rest = iter(moved)
        return _tangent(
            *(next(rest) if m else x for x, m in zip(primals, moves, strict=True)),
            given=given,
            **static,
        )

    at, along = ([x for x, m in zip(xs, moves, strict=True) if m] for xs in (primals, tangents))
    return jax.jvp(f, at, along)


def _tangent_transpose(
    cotangents: Sequence[Any], *args: Any, rule: Rule, moving: tuple[bool, ...], given: Given
) -> list[Any]:
    dx, flat, out, held = _split(args, moving, given)
    unknown = iter(map(ad.is_undefined_primal, dx))
    rest = iter(cotangents)
    bars = [
        next(rest) if smooth else _zero(y)
        for y, smooth in zip(out, _smooth(rule, out), strict=True)
    ]
    with _holding_given(flat, given, held):
        grads = _pullback(rule, [m and next(unknown) for m in moving], bars, out, flat)
    return [g for g, m in zip(grads, moving, strict=True) if m] + [None] * (
        len(flat) + len(out) + len(held)
    )


def _tangent_batch(
    args: Sequence[Array], dims: Sequence[int | None], **static: Any
) -> tuple[list[Array], list[int]]:
    moved = jax.vmap(partial(_tangent, **static), in_axes=tuple(dims))(*args)
    return moved, [0] * len(moved)


tangent_p = Primitive("ldiv_tangent")
tangent_p.multiple_results = True
tangent_p.def_impl(_tangent)
tangent_p.def_abstract_eval(_tangent_abstract)
ad.primitive_jvps[tangent_p] = _tangent_jvp
ad.primitive_transposes[tangent_p] = _tangent_transpose
batching.primitive_batchers[tangent_p] = _tangent_batch
mlir.register_lowering(tangent_p, mlir.lower_fun(_tangent, multiple_results=True), cacheable=False)


# -- work on the host ---------------------------------------------------------


def traced(x: Array) -> bool:
    return isinstance(x, jax.core.Tracer)


def device(x: Array) -> str:
    """Where engines find the values: a callback brings them to the cpu from anywhere, and dense
    kernels run where they are.
    """
    return "cpu"


def asnumpy(x: Array) -> Any:
    try:
        return np.asarray(constant(x))
    except jax.errors.TracerArrayConversionError:
        advice = "A sparsity pattern must be known when a function is traced: make its indices with NumPy, or the array outside of jit."
        raise TypeError(
            expected_got("values", "numbers that are known now", f"the traced {x.aval}", advice)
        ) from None


constant = jax.lax.stop_gradient


def host(x: Array) -> bool:
    return (
        not traced(x) and all(d.platform == "cpu" for d in x.devices()) and x.is_fully_addressable
    )


def on_host(f: Callable[..., Any], specs: Specs, *arrays: Array) -> tuple[Array, ...]:
    if any(map(traced, arrays)):
        return tuple(host_p.bind(*arrays, f=partial(_stored, f), specs=specs))
    return tuple(jnp.asarray(y) for y in f(*map(np.asarray, arrays)))


def _stored(f: Callable[..., Any], *arrays: Any) -> Any:
    with holding(store):
        return f(*arrays)


Check = tuple[Array, Callable[..., Exception], tuple[Array, ...]]
_checks: ContextVar[list[Check]] = ContextVar("checks")


def check_or_raise(ok: Array, error: Callable[..., Exception], *numbers: Array) -> None:
    _checks.get().append((ok, error, numbers))


@contextmanager
def _checking() -> Iterator[list[Array]]:
    """All that the kernel inside insists on, asked at its end; only where something is wrong is the
    host called.

    The arrays that the list is filled with become, in it, arrays that are there once all is found
    right.
    """
    checks: list[Check] = []
    waiting: list[Array] = []
    token = _checks.set(checks)
    try:
        yield waiting
    finally:
        _checks.reset(token)
    if not checks:
        return
    oks, errors, numbers = zip(*checks, strict=True)

    def refuse(*host: Any) -> tuple[Any, ...]:
        for i, (ok, error) in enumerate(zip(host, errors, strict=False)):
            if not ok:
                start = len(oks) + sum(map(len, numbers[:i]))
                report(error(*host[start : start + len(numbers[i])]))
        return ()

    def ask(*seen: Any) -> Any:
        host_p.bind(*seen, f=refuse, specs=())
        # the same arrays in both branches need not wait
        return jax.lax.optimization_barrier(waiting)

    waiting[:] = jax.lax.cond(
        jnp.stack(oks).all(),
        lambda *_: waiting,
        ask,
        *[x for some in (oks, *numbers) for x in some],
    )


def _host_lowering(ctx: Any, *args: Any, f: Callable[..., Any], specs: Specs) -> Any:
    """A callback that hands over NumPy arrays; `jax.pure_callback` would make JAX arrays of them
    first, at 5 times the cost.

    As there, 64-bit numbers need x64 switched on for the process: the context `jax.enable_x64` does
    not reach its thread.
    """

    def call(*numbers: Any) -> tuple[Any, ...]:
        return tuple(np.asarray(y, dtype) for y, (_, dtype) in zip(f(*numbers), specs, strict=True))

    must_run = not specs
    return mlir.emit_python_callback(
        ctx,
        call,
        None,
        list(args),
        ctx.avals_in,
        ctx.avals_out,
        has_side_effect=must_run,
        returns_token=False,
    )[0]


host_p = Primitive("ldiv_host")
host_p.multiple_results = True
host_p.def_abstract_eval(lambda *_, f, specs: [jax.core.ShapedArray(*spec) for spec in specs])
mlir.register_lowering(host_p, _host_lowering, cacheable=False)


def product(a: Array, x: Array) -> Array:
    return jnp.matmul(a, x, precision="highest")


def either(ok: Array, f: Callable[[], Any], g: Callable[[], Any]) -> Any:
    return jax.lax.cond(ok, f, g)


def loop(
    going: Callable[[Any], Array], body: Callable[[Any], Any], state: tuple[Array, ...]
) -> Any:
    """A loop of JAX in a trace; outside, one of Python, which need not be compiled."""
    if any(map(traced, state)):
        return jax.lax.while_loop(going, _checked(body), state)
    while bool(going(state)):
        state = body(state)
    return state


def _checked(body: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """What a step insists on is asked within the step, and the factors that it makes are its
    own: its values do not leave the loop.
    """

    def step(state: Any) -> Any:
        with _checking(), holding(store):
            return body(state)

    return step


def host_callback(f: Callable[..., Any], *xs: Array) -> None:
    if any(map(traced, xs)):
        host_p.bind(*xs, f=partial(_and_nothing, f), specs=())
    else:
        f(*xs)


def _and_nothing(f: Callable[..., Any], *numbers: Any) -> tuple[Any, ...]:
    f(*numbers)
    return ()


def vjp(f: Callable[..., Any], xs: tuple[Any, ...]) -> tuple[Any, Callable[[Any], tuple[Any, ...]]]:
    """In JAX's convention cotangents are the conjugates of ours."""
    y, pull = jax.vjp(f, *xs)
    return y, lambda y_bar: tuple(jax.tree.map(jnp.conj, pull(jax.tree.map(jnp.conj, y_bar))))


def jvp(f: Callable[..., Any], xs: tuple[Any, ...], dxs: tuple[Any, ...]) -> tuple[Any, Any]:
    y, dy = jax.jvp(f, xs, dxs)
    return y, dy


def vmap(f: Callable[..., Array], axes: tuple[Any, ...]) -> Callable[..., Array]:
    return jax.vmap(f, axes)


# -- kernels ------------------------------------------------------------------


def scatter(x: Array, index: Any, size: int) -> Array:
    return jnp.zeros((*x.shape[:-2], size, x.shape[-1]), x.dtype).at[..., index, :].add(x)


def lu_factor(a: Array) -> tuple[Array, Array]:
    lu, _, order = jax.lax.linalg.lu(a)
    return lu, order


def sign_of_rows(order: Array) -> Array:
    """det P: -1 for an odd number of inversions."""
    return 1 - 2 * (jnp.triu(order[..., :, None] > order[..., None, :]).sum((-2, -1)) % 2)


def lu_solve(lu: Array, order: Array, b: Array, op: str) -> Array:
    """The second result of `lu_factor` is the order of the rows: A[order] = L U."""
    lu, b = _together(lu, b.astype(lu.dtype))
    order = jnp.broadcast_to(order, lu.shape[:-1])[..., None]
    solve = partial(
        jax.lax.linalg.triangular_solve,
        lu,
        left_side=True,
        transpose_a=op != "N",
        conjugate_a=op == "H",
    )
    if op == "N":
        return solve(
            solve(jnp.take_along_axis(b, order, -2), lower=True, unit_diagonal=True), lower=False
        )
    return jnp.take_along_axis(
        solve(solve(b, lower=False), lower=True, unit_diagonal=True), jnp.argsort(order, -2), -2
    )


def cholesky(a: Array) -> tuple[Array, Array]:
    """(L, whether all of the batch is positive definite)."""
    l = jax.lax.linalg.cholesky(a, symmetrize_input=False)
    return l, jnp.isfinite(l).all()


def solve_triangular(a: Array, b: Array, lower: bool, unit: bool = False) -> Array:
    dtype = jnp.promote_types(a.dtype, b.dtype)
    a, b = _together(a.astype(dtype), b.astype(dtype))
    return jax.lax.linalg.triangular_solve(a, b, left_side=True, lower=lower, unit_diagonal=unit)


def lu_pivoted(a: Array) -> tuple[Array, Array]:
    """A packed LU of an m x n matrix, and LAPACK's exchanges counted from 0."""
    lu, exchanges, _ = jax.lax.linalg.lu(a)
    return lu, exchanges


def row_order(exchanges: Array, m: int) -> Array:
    """The order of the m rows that these exchanges lead to."""
    return jax.lax.linalg.lu_pivots_to_permutation(exchanges, m)


def _together(a: Array, b: Array) -> tuple[Array, Array]:
    """Both on the same batch axes."""
    batch = jnp.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return jnp.broadcast_to(a, (*batch, *a.shape[-2:])), jnp.broadcast_to(
        b, (*batch, *b.shape[-2:])
    )


# -- matrices are trees: their parameters are leaves, the rest is static ------

on_register_pytree(jax.tree_util.register_pytree_node)
