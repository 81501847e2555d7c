"""Functions of users whose backward passes PyTorch cannot differentiate, or does not see.

Each is x -> the cube of its entries, moved about, at some scale: every derivative is either right
or an error in words, never zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import checkpoint

import ldiv
from adversarial.case import Case, Wrong

RTOL = 1e-9
# A second derivative of which a small share is cut: agreement to half of the digits is all that
# tells it from what f rounds, of entries within 2^8.
OF_A_SHARE = 2.0**8 * 2.0**-26


class Plain(torch.autograd.Function):
    """A function without forward mode."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Any) -> Any:
        return x**3

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return 3 * ctx.saved_tensors[0] ** 2 * g


class Once(Plain):
    backward = staticmethod(once_differentiable(Plain.backward))


class Unmapped(Once):
    generate_vmap_rule = False


class NoGrad(Plain):
    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        with torch.no_grad():
            return Plain.backward(ctx, g)


class Detached(Plain):
    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return Plain.backward(ctx, g.detach())


class PartlyDetached(Plain):
    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x = ctx.saved_tensors[0] ** 2
        return x * g + 2 * x * g.detach()


class ByNumPy(Plain):
    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x = ctx.saved_tensors[0]
        return torch.from_numpy(3 * x.detach().numpy() ** 2 * g.detach().numpy())


class Legacy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return 3 * ctx.saved_tensors[0] ** 2 * g


class LegacyOnce(Legacy):
    backward = staticmethod(once_differentiable(Legacy.backward))


class WithForward(Once):
    """A function whose own derivative is lost under a second level of forward mode."""

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def jvp(ctx: Any, t: Any) -> Any:
        return 3 * ctx.saved_tensors[0] ** 2 * t


class ZeroForward(Plain):
    """A wrong forward mode."""

    @staticmethod
    def jvp(ctx: Any, t: Any) -> Any:
        return 0 * t


@torch.library.custom_op("ldiv_adversary::cube", mutates_args=())
def operator(x: torch.Tensor) -> torch.Tensor:
    """An operator without a formula of forward mode, of which torch.func.jvp makes zeros."""
    return x**3


operator.register_fake(torch.empty_like)
operator.register_autograd(
    lambda ctx, g: 3 * ctx.saved_tensors[0] ** 2 * g,
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
)


def stored(x: Any) -> Any:
    """Use the values in a sparse matrix."""
    i = torch.arange(len(x))
    return torch.sparse_coo_tensor(torch.stack([i, i]), x**3, (len(x),) * 2).to_dense().sum(1)


def multiplied(x: Any) -> Any:
    return torch.sparse.mm(torch.eye(len(x), dtype=x.dtype).to_sparse(), x[:, None])[:, 0] ** 3


def by_csr(x: Any) -> Any:
    return (torch.eye(len(x), dtype=x.dtype).to_sparse_csr() @ x[:, None])[:, 0] ** 3


def hooked(x: Any) -> Any:
    """A hook of a tensor cuts the graph."""
    y = x.clone()
    if y.requires_grad:
        y.register_hook(torch.Tensor.detach)
    return y**3


def hooked_node(x: Any) -> Any:
    y = x**3
    if y.grad_fn is not None:
        y.grad_fn.register_hook(lambda gs, _: tuple(g.detach() for g in gs))
    return y


CUBES: dict[str, Callable[[Any], Any]] = {
    kind.__name__: kind.apply
    for kind in (
        Plain, Once, Unmapped, NoGrad, Detached, PartlyDetached, ByNumPy, Legacy, LegacyOnce,
        WithForward, ZeroForward,
    )
} | {
    "custom_op": operator,
    "sparse_coo_tensor": stored,
    "sparse.mm": multiplied,
    "csr": by_csr,
    "hooked": hooked,
    "hooked_node": hooked_node,
    "checkpoint": lambda x: checkpoint(lambda y: y**3, x, use_reentrant=False),
}  # fmt: skip


class Problem:
    """y = s (w c(x) + (1 - w) x^3 beside x^3): rows through c, s_i times as large as the others, of
    which c may be a small share.
    """

    def __init__(self, cube: str, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.n = int(rng.integers(2, 6))
        self.x = torch.tensor(rng.standard_normal(self.n))
        self.v, self.u = (torch.tensor(rng.standard_normal(self.n)) for _ in range(2))
        self.order = torch.tensor(rng.permutation(self.n))
        self.scale = torch.tensor(2.0 ** rng.integers(-40, 40, self.n))
        self.through = torch.tensor(rng.random(self.n) < 0.6)
        self.through[0] = True
        self.share = float(2.0 ** -rng.choice([0, 1, rng.integers(30)]))
        self.cube = CUBES[cube]

    def f(self, x: Any) -> Any:
        cube = x[self.order] ** 3
        mixed = self.share * self.cube(x[self.order]) + (1 - self.share) * cube
        return self.scale * torch.where(self.through, mixed, cube)

    def plain(self, x: Any) -> Any:
        return self.scale * x[self.order] ** 3

    def equations(self, x: Any, p: Any) -> Any:
        return self.cube(x) + x + self.cube(p) - 3 * p


def _jvp(p: Problem) -> Any:
    return ldiv.jvp(p.f, (p.x,), (p.v,))[1], torch.func.jvp(p.plain, (p.x,), (p.v,))[1]


def _jacobian(mode: str, p: Problem) -> Any:
    return ldiv.jacobian(p.f, p.x, mode=mode), torch.func.jacrev(p.plain)(p.x)  # type: ignore[arg-type]


def _on_pattern(mode: str, p: Problem) -> Any:
    pattern = (np.arange(p.n), p.order.numpy())
    found = ldiv.jacobian(p.f, p.x, mode=mode, pattern=pattern)  # type: ignore[arg-type]
    return found.toarray(), torch.func.jacrev(p.plain)(p.x)


def _pattern(p: Problem) -> Any:
    """The detected and the expected pattern, at zero too, where the derivative vanishes."""
    found = [ldiv.detect_pattern(p.f, x).toarray() for x in (p.x, 0 * p.x)]
    expected = torch.zeros(p.n, p.n, dtype=p.x.dtype)
    expected[torch.arange(p.n), p.order] = 1
    return torch.cat(found), torch.cat([expected, expected])


def _roots(solve: Callable[[Problem, Any], Any], p: Problem) -> Any:
    """The gradient: dx/dp = (3 - 3 p^2) / (3 x^2 + 1)."""
    at = p.v.clone().requires_grad_()
    x = solve(p, at)
    found = torch.autograd.grad((p.u * x).sum(), at)[0]
    x, at = x.detach(), at.detach()
    return found, p.u * (3 - 3 * at**2) / (3 * x**2 + 1)


def _root(p: Problem) -> Any:
    return _roots(lambda p, at: ldiv.root(p.equations, torch.zeros_like(at), at), p)


def _implicit(p: Problem) -> Any:
    def solved(p: Problem, at: Any) -> Any:
        x = ldiv.root(lambda x, q: x**3 + x + q**3 - 3 * q, torch.zeros_like(at), at.detach())
        return ldiv.implicit(p.equations, x, at)

    return _roots(solved, p)


def _hvp(p: Problem) -> Any:
    def loss(f: Any, x: Any) -> Any:
        return (p.u * f(x)).sum()

    return (
        ldiv.hvp(partial(loss, p.f), p.x, p.v),
        torch.func.jvp(torch.func.grad(partial(loss, p.plain)), (p.x,), (p.v,))[1],
    )


def _slope_of_jvp(p: Problem) -> Any:
    def slope(push: Any, f: Any) -> Any:
        x = p.x.clone().requires_grad_()
        return torch.autograd.grad((p.u * push(f, (x,), (p.v,))[1]).sum(), x)[0]

    return slope(ldiv.jvp, p.f), slope(torch.func.jvp, p.plain)


def _slope_of_jacobian(mode: str, p: Problem) -> Any:
    def slope(jacobian: Any, f: Any) -> Any:
        x = p.x.clone().requires_grad_()
        return torch.autograd.grad(jacobian(f, x).sum(), x)[0]

    return slope(partial(ldiv.jacobian, mode=mode), p.f), slope(
        lambda f, x: torch.func.jacrev(f)(x), p.plain
    )


LOOKS: dict[str, Callable[[Problem], Any]] = {
    "jvp": _jvp,
    "jacobian": partial(_jacobian, "auto"),
    "jacobian, reverse": partial(_jacobian, "reverse"),
    "jacobian, pattern": partial(_on_pattern, "auto"),
    "jacobian, pattern, forward": partial(_on_pattern, "forward"),
    "detect_pattern": _pattern,
    "root": _root,
    "implicit": _implicit,
    "hvp": _hvp,
    "gradient of jvp": _slope_of_jvp,
    "gradient of jacobian": partial(_slope_of_jacobian, "auto"),
    "gradient of jacobian, reverse": partial(_slope_of_jacobian, "reverse"),
}
SECOND = ("hvp", "gradient of jvp", "gradient of jacobian", "gradient of jacobian, reverse")


def look(cube: str, what: str, seed: int) -> str:
    """right, or refused: an error that says what was expected and what came."""
    problem = Problem(cube, seed)
    try:
        found, expected = LOOKS[what](problem)
    except (TypeError, ValueError) as error:
        if what in SECOND and ", got " in str(error):
            return "refused"
        raise
    except RuntimeError as error:  # of autograd itself
        if what in SECOND and "differentiate twice" in str(error):
            return "refused"
        raise
    off = abs(found.detach() - expected.detach()).max(-1).values
    rtol = OF_A_SHARE if what in SECOND and problem.share < 1 else RTOL
    if not (off <= rtol * abs(expected.detach()).max(-1).values).all():
        raise Wrong(what, f"{found} for {expected}")
    return "right"


def cases(seed: int) -> Iterator[Case]:
    rng = np.random.default_rng(seed)
    while True:
        cube, what = (str(rng.choice([*names])) for names in (CUBES, LOOKS))
        where = int(rng.integers(1 << 30))
        source = f"from adversarial.backwards import look\nlook({cube!r}, {what!r}, {where})"
        yield Case(cube, where % 100, partial(look, cube, what, where), partial(str, source))
