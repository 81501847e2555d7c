"""Every public function in every mode of PyTorch and JAX, against one reference: right, or refused
in a sentence of ours.

y = F(x), x in R^3, is a function with its arguments moved along three random directions each; L =
<w, y> + |y|^2 / 2. J = F' is compared with differences of F, and H = L'' with differences of the
gradient that J makes.
"""

from __future__ import annotations

import copy
import traceback
import warnings
from collections.abc import Callable, Iterator
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
from torch.autograd import forward_ad, functional
from torch.func import grad, hessian, jacfwd, jacrev, jvp, vjp, vmap
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils.checkpoint import checkpoint

from adversarial.case import Case, Wrong
from adversarial.functions import FUNCTIONS, Function

SIZE = 3  # of x
STEP = 1e-2
RTOL = 1e-6

Map = Callable[[Any], Any]


class Problem:
    """F and L of one function in one framework, and what their derivatives are."""

    def __init__(self, function: Function, framework: str, seed: int = 0) -> None:
        jax.config.update("jax_enable_x64", True)
        rng = np.random.default_rng(seed)
        # JAX compiles for long
        self.judge = self if framework == "torch" else Problem(function, "torch", seed)
        self.convert: Any = torch.asarray if framework == "torch" else jnp.asarray
        self.function, self.args = function, [self.convert(a) for a in function.args]
        # all of them, unless seeded
        moving = rng.random(len(self.args)) < 0.75 if seed else np.ones(len(self.args), bool)
        if not moving.any():
            moving[rng.integers(len(moving))] = True
        self.directions = [
            self.convert(_directions(rng, a)) if m else None
            for a, m in zip(function.args, moving, strict=True)
        ]
        self.x, self.near = np.zeros(SIZE), 0.01 * rng.standard_normal(SIZE)
        values = self.at(self.x)
        self.w = rng.standard_normal(len(values))
        self.weights = self.convert(self.w)
        self.J = _difference(self.at, self.x)
        self.g = (self.w + values) @ self.J
        self.values = values

    def F(self, x: Any) -> Any:
        moved = [
            a if d is None else a + (x[0] * d[0] + x[1] * d[1] + x[2] * d[2])
            for a, d in zip(self.args, self.directions, strict=True)
        ]
        return flat(self.function.f(*moved))

    def L(self, x: Any) -> Any:
        y = self.F(x)
        return (self.weights * y).sum() + (y * y).sum() / 2

    def at(self, x: Any) -> Any:
        """F in NumPy arrays."""
        return np.asarray(self.judge.F(torch.asarray(x)))

    @cached_property
    def moved_to_near(self) -> Problem:
        other = copy.copy(self)
        for name in ("H", "moved_to_near"):
            vars(other).pop(name, None)
        other.x = self.near
        other.values = self.at(other.x)
        other.J = _difference(self.at, other.x)
        other.g = (self.w + other.values) @ other.J
        return other

    @cached_property
    def H(self) -> Any:
        """The Hessian by differences of the gradient of the simplest mode, which is compared with
        `g` itself.
        """
        return _difference(lambda x: np.asarray(backward(self.judge.L, torch.asarray(x))), self.x)


def _directions(rng: np.random.Generator, a: Any) -> Any:
    d = rng.standard_normal((SIZE, *a.shape))
    return 0.3 * (d + 1j * rng.standard_normal(d.shape) if a.dtype.kind == "c" else d)


def _difference(f: Map, x: Any) -> Any:
    """f' by central differences of sixth order, an error of STEP^6."""
    columns = []
    for e in STEP * np.eye(SIZE):
        odd = [f(x + k * e) - f(x - k * e) for k in (1, 2, 3)]
        columns.append((45 * odd[0] - 9 * odd[1] + odd[2]) / (60 * STEP))
    return np.stack(columns, axis=-1)


def flat(y: Any) -> Any:
    """All outputs as one real vector."""
    parts = [p.reshape(-1) for p in (y if isinstance(y, tuple) else (y,))]
    cat = torch.cat if isinstance(parts[0], torch.Tensor) else jnp.concatenate
    is_complex = [str(p.dtype).rpartition(".")[2].startswith("complex") for p in parts]
    return cat(
        [
            q
            for p, c in zip(parts, is_complex, strict=True)
            for q in ((p.real, p.imag) if c else (p,))
        ]
    )


# -- PyTorch: what comes out is y, J, g or H, or a product of one with e, or several values of these ---


def leaf(x: Any) -> Any:
    return x.detach().clone().requires_grad_()


def backward(f: Map, x: Any, **options: Any) -> Any:
    x = leaf(x)
    return torch.autograd.grad(f(x), x, **options)[0]


def taped(f: Map, x: Any) -> Any:
    """The gradient, as a function that is differentiated once more."""
    x = x if x.requires_grad else leaf(x)
    return torch.autograd.grad(f(x), x, create_graph=True)[0]


def batched(f: Map, x: Any, **options: Any) -> Any:
    """J by legacy batching."""
    x = x if x.requires_grad else leaf(x)
    y = f(x)
    return torch.autograd.grad(
        y, x, torch.eye(len(y), dtype=y.dtype), is_grads_batched=True, **options
    )[0]


def dual(f: Map, x: Any, e: Any) -> Any:
    """f' e by dual numbers."""
    with forward_ad.dual_level():
        t = forward_ad.unpack_dual(f(forward_ad.make_dual(x, e))).tangent
        return torch.zeros(()) if t is None else t.detach().clone()


def every_dual(f: Map, x: Any) -> Any:
    return torch.stack([dual(f, x, e) for e in torch.eye(SIZE, dtype=x.dtype)], dim=-1)


def rows(f: Map, x: Any) -> Any:
    """J, one backward for each of its rows."""
    x = x if x.requires_grad else leaf(x)
    return torch.stack([torch.autograd.grad(v, x, retain_graph=True)[0] for v in f(x)])


TORCH: dict[str, tuple[str, Callable[[Problem, Any], Any]]] = {
    "no_grad": ("y", lambda p, x: torch.no_grad()(p.F)(x)),
    "inference_mode": ("y", lambda p, x: torch.inference_mode()(p.F)(x)),
    "backward": ("g", lambda p, x: backward(p.L, x)),
    "backward, rows": ("J", lambda p, x: rows(p.F, x)),
    "func.grad": ("g", lambda p, x: grad(p.L)(x)),
    "func.vjp": ("g", lambda p, x: vjp(p.L, x)[1](torch.ones((), dtype=x.dtype))[0]),
    "func.jvp": (
        "J",
        lambda p, x: torch.stack(
            [jvp(p.F, (x,), (e,))[1] for e in torch.eye(SIZE, dtype=x.dtype)], -1
        ),
    ),
    "jacrev": ("J", lambda p, x: jacrev(p.F)(x)),
    "jacrev, chunks": ("J", lambda p, x: jacrev(p.F, chunk_size=1)(x)),
    "jacfwd": ("J", lambda p, x: jacfwd(p.F)(x)),
    "forward_ad": ("J", lambda p, x: every_dual(p.F, x)),
    "is_grads_batched": ("J", lambda p, x: batched(p.F, x)),
    "functional.jacobian": ("J", lambda p, x: functional.jacobian(p.F, x)),
    "functional.jacobian, vectorize": (
        "J",
        lambda p, x: functional.jacobian(p.F, x, vectorize=True),
    ),
    "functional.jacobian, forward": (
        "J",
        lambda p, x: functional.jacobian(p.F, x, vectorize=True, strategy="forward-mode"),
    ),
    "checkpoint": (
        "g",
        lambda p, x: backward(lambda x: checkpoint(p.L, x, use_reentrant=False), x),
    ),
    "checkpoint, reentrant": ("g", lambda p, x: _reentrant(p, x)),
    "vmap": ("many y", lambda p, x: vmap(p.F)(_two(p))),
    "vmap, last axis": ("many y", lambda p, x: vmap(p.F, -1)(_two(p).mT)),
    "vmap of vmap": ("many y", lambda p, x: vmap(vmap(p.F))(_two(p)[None])[0]),
    "vmap of grad": ("many g", lambda p, x: vmap(grad(p.L))(_two(p))),
    "grad of vmap": ("many g", lambda p, x: grad(lambda xs: vmap(p.L)(xs).sum())(_two(p))),
    "backward of vmap": ("many g", lambda p, x: backward(lambda xs: vmap(p.L)(xs).sum(), _two(p))),
    "vmap of jvp": (
        "J",
        lambda p, x: vmap(lambda e: jvp(p.F, (x,), (e,))[1], out_dims=-1)(
            torch.eye(SIZE, dtype=x.dtype)
        ),
    ),
    "double backward": ("H", lambda p, x: rows(lambda x: taped(p.L, x), x)),
    "reverse over reverse": ("H", lambda p, x: jacrev(jacrev(p.L))(x)),
    "forward over reverse": ("H", lambda p, x: jacfwd(jacrev(p.L))(x)),
    "reverse over forward": ("H", lambda p, x: jacrev(jacfwd(p.L))(x)),
    "forward over forward": ("H", lambda p, x: jacfwd(jacfwd(p.L))(x)),
    "func.hessian": ("H", lambda p, x: hessian(p.L)(x)),
    "vmap of hessian": ("many H", lambda p, x: vmap(hessian(p.L))(_two(p))),
    "forward_ad of backward": ("H", lambda p, x: every_dual(lambda x: taped(p.L, x), leaf(x))),
    "forward_ad of func.grad": ("H", lambda p, x: every_dual(grad(p.L), x)),
    "backward of func.grad": ("H", lambda p, x: rows(grad(p.L), x)),
    "backward of func.jvp": (
        "He",
        lambda p, x: backward(lambda x: jvp(p.L, (x,), (torch.ones_like(x),))[1], x),
    ),
    "is_grads_batched of backward": ("H", lambda p, x: batched(lambda x: taped(p.L, x), x)),
    "backward of is_grads_batched": (
        "He",
        lambda p, x: backward(
            lambda x: batched(lambda x: p.L(x)[None], x, create_graph=True).sum(), x
        ),
    ),
    "is_grads_batched twice": (
        "H",
        lambda p, x: batched(lambda x: batched(lambda x: p.L(x)[None], x, create_graph=True)[0], x),
    ),
    "functional.hessian": ("H", lambda p, x: functional.hessian(p.L, x)),
    "functional.hessian, vectorize": ("H", lambda p, x: functional.hessian(p.L, x, vectorize=True)),
    "functional.hessian, forward": (
        "H",
        lambda p, x: functional.hessian(
            p.L, x, vectorize=True, outer_jacobian_strategy="forward-mode"
        ),
    ),
    "functional.jvp": (
        "He",
        lambda p, x: functional.jvp(lambda x: taped(p.L, x), x, torch.ones_like(x))[1],
    ),
    "functional.hvp": ("He", lambda p, x: functional.hvp(p.L, x, torch.ones_like(x))[1]),
    "linearize": ("J", lambda p, x: _linearized(p, x)),
    "make_fx": ("y near", lambda p, x: make_fx(lambda x: p.F(x))(x)(torch.asarray(p.near))),
    "make_fx of grad": (
        "g near",
        lambda p, x: make_fx(lambda x: grad(p.L)(x))(x)(torch.asarray(p.near)),
    ),
    "make_fx, fake": (
        "y near",
        lambda p, x: make_fx(lambda x: p.F(x), tracing_mode="fake", _allow_non_fake_inputs=True)(x)(
            torch.asarray(p.near)
        ),
    ),
    "jit.trace": (
        "y near",
        lambda p, x: torch.jit.trace(lambda x: p.F(x), x, check_trace=False)(torch.asarray(p.near)),
    ),
    "export": ("y near", lambda p, x: _exported(p, x, strict=False)),
    "export, strict": ("y near", lambda p, x: _exported(p, x, strict=True)),
}


def _two(p: Problem) -> Any:
    return torch.asarray(np.stack([p.x, p.near]))


def _reentrant(p: Problem, x: Any) -> Any:
    x = leaf(x)
    checkpoint(p.L, x, use_reentrant=True).backward()
    return x.grad


def _linearized(p: Problem, x: Any) -> Any:
    push = torch.func.linearize(p.F, x)[1]
    return torch.stack([push(e) for e in torch.eye(SIZE, dtype=x.dtype)], -1)


def _exported(p: Problem, x: Any, strict: bool) -> Any:
    class Module(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return p.F(x)

    return torch.export.export(Module(), (x,), strict=strict).module()(torch.asarray(p.near))


# -- JAX ----------------------------------------------------------------------


def _scanned(p: Problem, x: Any) -> Any:
    def loss(x: Any) -> Any:
        return jax.lax.scan(lambda c, t: (c + p.L(x * t), None), 0.0, jnp.ones(2))[0] / 2

    return jax.grad(loss)(x)


def _linear(p: Problem, x: Any) -> Any:
    push = jax.linearize(p.F, x)[1]
    return jnp.stack([push(e) for e in jnp.eye(SIZE)], -1)


def _pair(p: Problem) -> Any:
    return jnp.stack([p.x, p.near])


JAX: dict[str, tuple[str, Callable[[Problem, Any], Any]]] = {
    "jit": ("y", lambda p, x: jax.jit(p.F)(x)),
    "grad": ("g", lambda p, x: jax.grad(p.L)(x)),
    "jit of grad": ("g", lambda p, x: jax.jit(jax.grad(p.L))(x)),
    "grad of jit": ("g", lambda p, x: jax.grad(jax.jit(p.L))(x)),
    "jacfwd": ("J", lambda p, x: jax.jit(jax.jacfwd(p.F))(x)),
    "jacrev": ("J", lambda p, x: jax.jit(jax.jacrev(p.F))(x)),
    "linearize": ("J", _linear),
    "vmap": ("many y", lambda p, x: jax.jit(jax.vmap(p.F))(_pair(p))),
    "vmap of grad": ("many g", lambda p, x: jax.jit(jax.vmap(jax.grad(p.L)))(_pair(p))),
    "grad of vmap": (
        "many g",
        lambda p, x: jax.jit(jax.grad(lambda xs: jax.vmap(p.L)(xs).sum()))(_pair(p)),
    ),
    "checkpoint": ("g", lambda p, x: jax.jit(jax.grad(jax.checkpoint(p.L)))(x)),
    "scan": ("g", jax.jit(_scanned, static_argnums=0)),
    "forward over reverse": ("H", lambda p, x: jax.jit(jax.hessian(p.L))(x)),
    "reverse over reverse": ("H", lambda p, x: jax.jit(jax.jacrev(jax.jacrev(p.L)))(x)),
    "reverse over forward": ("H", lambda p, x: jax.jit(jax.jacrev(jax.jacfwd(p.L)))(x)),
    "forward over forward": ("H", lambda p, x: jax.jit(jax.jacfwd(jax.jacfwd(p.L)))(x)),
    "vmap of hessian": ("many H", lambda p, x: jax.jit(jax.vmap(jax.hessian(p.L)))(_pair(p))),
}


# -- the verdict --------------------------------------------------------------


def expected(p: Problem, what: str) -> Any:
    if what.startswith("many"):
        other = p.moved_to_near
        return np.stack([expected(q, what.removeprefix("many ")) for q in (p, other)])
    if what.endswith("near"):
        return expected(p.moved_to_near, what.removesuffix(" near"))
    return {
        "y": lambda: p.values,
        "J": lambda: p.J,
        "g": lambda: p.g,
        "H": lambda: p.H,
        "He": lambda: p.H.sum(-1),
    }[what]()


def verdict(p: Problem, framework: str, mode: str) -> str:
    """right, refused: .., wrong: .., or broken: .."""
    what, compute = (TORCH if framework == "torch" else JAX)[mode]
    wanted = expected(p, what)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            came = compute(p, p.convert(p.x))
            came = np.asarray(came.detach() if framework == "torch" else came)
    except Exception as error:
        kind = "refused" if is_ours(error) else "broken"
        return f"{kind}: {type(error).__name__}: {' '.join(str(error).split())[:300]}"
    if came.shape != wanted.shape:
        return f"wrong: shape {came.shape}, expected {wanted.shape}"
    error = np.abs(came - wanted).max() / max(1e-3, np.abs(wanted).max())
    return "right" if error <= RTOL else f"wrong: by {error:.1e}"


def is_ours(error: BaseException) -> bool:
    """Raised by ldiv itself, as one of the errors that it documents, in a sentence that names
    what was expected and what came.
    """
    frames = traceback.extract_tb(error.__traceback__)
    ours = (
        isinstance(error, ValueError | TypeError | np.linalg.LinAlgError)
        and "/ldiv/" in frames[-1].filename
        and ", got " in str(error)
    )
    # Dynamo says it in its own words
    said = ("expected one that can read its numbers now", "a call in one graph: expected tensors")
    return ours or any(words in str(error) for words in said)


# -- for the fuzzer -----------------------------------------------------------


def cases(seed: int) -> Iterator[Case]:
    """Every function in every mode, in random order, with other arguments that move."""
    rng = np.random.default_rng(seed)
    every = [
        (name, framework, mode)
        for name in FUNCTIONS
        for framework, modes in (("torch", TORCH), ("jax", JAX))
        for mode in modes
    ]
    for i in rng.permutation(len(every)):
        name, framework, mode = every[i]
        where = int(rng.integers(1, 1 << 30))
        source = (
            f"from adversarial.modes import look\nlook({name!r}, {framework!r}, {mode!r}, {where})"
        )
        yield Case(
            f"{framework}, {mode}",
            FUNCTIONS[name].args[0].size,
            partial(look, name, framework, mode, where),
            partial(str, source),
        )


def look(name: str, framework: str, mode: str, seed: int = 0) -> str:
    """Raise unless the result is right, or refused."""
    found = verdict(Problem(FUNCTIONS[name], framework, seed), framework, mode)
    kind = found.partition(":")[0]
    if kind not in ("right", "refused"):
        raise Wrong(f"{name}, {kind}", found)
    return kind
