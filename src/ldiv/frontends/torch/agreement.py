"""Is dy = J dx? Re <r, dy> = Re <J^H r, dx>, with a reverse product for random r.

A reverse pass computes J^H r, and an operator without one raises. A tangent is less certain: in
forward mode operators without a formula (torch.library.custom_op) give zero, without an error; and
the transpose of a reverse pass is zero wherever that cuts the graph (once_differentiable, no_grad,
detach). The values of f that are of like size share an r, so that a small one counts as much as a
large one; those that do not move have one of their own.

What is missing may be small beside what is there: products agree to rounding, or, where f rounds by
more than that, to half of the digits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ldiv.core.dispatch import check_or_raise, namespace
from ldiv.core.rule import Rule
from ldiv.core.trees import Tree
from ldiv.core.unchanged import Unchanged
from ldiv.core.verdict import all_decided, believed, is_pending
from ldiv.errors import NotDifferentiableError, expected_got
from ldiv.frontends.torch import private
from ldiv.frontends.torch.array_namespace import sent
from ldiv.frontends.torch.functions import bind

Values = torch.Tensor | tuple[torch.Tensor, ...]
Pullback = Callable[[Any], tuple[torch.Tensor, ...]]
LIKE, MORE_ALIKE = 16, 8  # powers of two between values of like size
ROUNDING = 2.0**6  # of f and its products, in eps
MOVED = 16
FEW = 3  # steps
UNMOVED = -(1 << 16)  # the size of a zero


def as_tuple(y: Values) -> tuple[torch.Tensor, ...]:
    return y if isinstance(y, tuple) else (y,)


def random_like(t: torch.Tensor, seed: int = 0) -> torch.Tensor:
    rng = np.random.default_rng(seed)
    shape = tuple(t.shape)
    r = rng.standard_normal(shape) + 1j * rng.standard_normal(shape)
    return sent(torch.as_tensor(r if t.is_complex() else r.real, dtype=t.dtype), t.device)


Beside = Callable[[], tuple[Pullback, Values, Values | None]]


def agrees(
    pull: Pullback, y: Values, dy: Values | None, dxs: Sequence[torch.Tensor], beside: Beside
) -> bool:
    """Whether there is a tangent dy of y with which reverse products agree, in all batches."""
    given = pull, y, dy, dxs, beside
    return agrees_to_rounding(*given) or _agrees(*given, MORE_ALIKE, _to_half)


def agrees_to_rounding(
    pull: Pullback, y: Values, dy: Values | None, dxs: Sequence[torch.Tensor], beside: Beside
) -> bool:
    """The same, and f rounds by no more than most functions do."""
    return _agrees(pull, y, dy, dxs, beside, LIKE, _to_rounding)


def _agrees(
    pull: Pullback,
    y: Values,
    dy: Values | None,
    dxs: Sequence[torch.Tensor],
    beside: Beside,
    like: int,
    bound: Callable[[float], float],
) -> bool:
    """As far as `bound` says, each time of values within 2^like.

    Where neither is finite they say nothing, and the tangent says that itself. Where the derivative
    vanishes, as at a minimum, both are what rounding leaves of terms that cancel: then they must
    agree `beside`, at a point where they do not, and here as far as is known from there.
    """
    if dy is None:
        return False
    random = [*map(random_like, as_tuple(y))]
    for alike in of_like_size(as_tuple(dy), [v.ndim for v in as_tuple(y)], like):
        some = tuple(r * a for r, a in zip(random, alike, strict=True))
        left, right, scale = _products(pull, y, some, dy, dxs)
        if close(left, right, scale, bound):
            continue
        with suppress(RuntimeError, ValueError):  # of f, which need not be defined there
            pull_there, y_there, dy_there = beside()
            if dy_there is not None:
                there = _products(pull_there, y_there, some, dy_there, dxs)
                if close(*there, bound) and close(left, right, there[2], bound):
                    continue
        return False
    return True


def moved(xs: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """A point beside this one, by some digits of each number."""
    steps = (random_like(x, 2) * (x.abs() + x.abs().mean()) / MOVED for x in xs)
    return tuple(x + step.detach() for x, step in zip(xs, steps, strict=True))


def _to_half(eps: float) -> float:
    return eps**0.5


def _to_rounding(eps: float) -> float:
    return ROUNDING * eps


def close(
    left: torch.Tensor,
    right: torch.Tensor,
    scale: torch.Tensor,
    bound: Callable[[float], float] = _to_half,
) -> bool:
    """To half of the digits, or as `bound` says, in all batches."""
    allowed = bound(torch.finfo(scale.dtype).eps)
    if left.is_cpu:
        return bool(_near(values(left), values(right), allowed * values(scale)).all())
    with private.without_transforms(), torch.no_grad():  # a device is asked for one answer
        a, b, most = map(_unwrapped, (left, right, scale))
        return believed(_near(a, b, allowed * most).all())


def agreeing(pull: Pullback, y: Values, dy: Values, dxs: Sequence[torch.Tensor]) -> Values:
    """dy, or an error unless it agrees, when the program that is recorded runs."""
    left, right, scale = _products(pull, y, tuple(map(random_like, as_tuple(y))), dy, dxs)
    found = tuple(bind(Agreeing(d.ndim), [d, left, right, scale])[0] for d in as_tuple(dy))
    return found if isinstance(dy, tuple) else found[0]


def _products(
    pull: Pullback, y: Values, r: tuple[torch.Tensor, ...], dy: Values, dxs: Sequence[torch.Tensor]
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Re <r, dy>, Re <J^H r, dx>, and the size of the terms of both sums."""
    x_bars = pull(r if isinstance(y, tuple) else r[0])
    left = [(u.conj() * v).real.ravel() for u, v in zip(r, as_tuple(dy), strict=True)]
    right = [(u.conj() * v).real.ravel() for u, v in zip(x_bars, dxs, strict=True)]
    a, b = torch.cat(left), torch.cat(right)
    return a.sum(), b.sum(), a.abs().sum() + b.abs().sum()


def _near(left: Any, right: Any, bound: Any) -> Any:
    xp = namespace(left)
    finite = xp.isfinite(left), xp.isfinite(right)
    near = abs(xp.where(finite[0], left, 0) - xp.where(finite[1], right, 0)) <= bound
    return xp.where(finite[0] & finite[1], near, finite[0] == finite[1])


def of_like_size(
    vs: Sequence[torch.Tensor], ndims: Sequence[int], like: int = LIKE
) -> Iterator[Any]:
    """Masks, a tensor for each array, of the numbers that are within 2^like in all batches; those
    that are zero have one of their own.
    """
    steps = [_steps(v, ndim, like) for v, ndim in zip(vs, ndims, strict=True)]
    with private.without_transforms(), torch.no_grad():
        flat = torch.cat([s.ravel() for s in steps])
        # of a whole batch of tangents, as those of a Jacobian are, the sizes are nearly always alike
        many = any(_unwrapped(v).ndim > v.ndim for v in vs)
        alike = many and is_pending(flat) and believed((flat >= -1).all())
        every = [-1, 0] if alike else _different(flat)
    for step in every:
        yield [s == step for s in steps]


def _different(steps: torch.Tensor) -> list[int]:
    """Those that there are; from a device by one wait, and up to a few with those between them."""
    if is_pending(steps):
        few = [UNMOVED, *range(1 - FEW, 1)]
        are_few = ((steps == UNMOVED) | (steps > -FEW)).all()
        is_all, *are_there = all_decided([are_few, *[(steps == step).any() for step in few]])
        if is_all:
            return [step for step, is_there in zip(few, are_there, strict=True) if is_there]
    if not steps.is_cpu and steps.numel():
        moved = steps != UNMOVED
        lowest = torch.where(moved, steps, torch.zeros_like(steps)).min()
        low, is_zero = torch.stack([lowest, (~moved).any().to(lowest.dtype)]).cpu().tolist()
        if low > -FEW:
            return [*range(low, 1), *[UNMOVED] * is_zero]
    found: list[int] = torch.unique(steps).cpu().tolist()
    return found


def _steps(v: torch.Tensor, ndim: int, like: int) -> torch.Tensor:
    """Of each number, in all batches, how many steps of 2^like it is below the largest."""
    with private.without_transforms(), torch.no_grad():
        sizes = _unwrapped(v).abs().double()
        shape = sizes.shape[sizes.ndim - ndim :]
        largest = sizes.reshape(-1, *shape).amax(0) if sizes.numel() else sizes.new_zeros(shape)
        exponents = torch.frexp(torch.nan_to_num(largest))[1]
        below = exponents - exponents.max() if exponents.numel() else exponents
        return torch.where(largest == 0, UNMOVED, below.div(like, rounding_mode="floor"))


def values(t: torch.Tensor) -> Any:
    """The numbers of a tensor, in NumPy's double precision, the axes of all batches in front."""
    with private.without_transforms(), torch.no_grad():
        plain = _unwrapped(t).resolve_conj().resolve_neg()
        return plain.to("cpu", torch.complex128 if t.is_complex() else torch.float64).numpy()


def _unwrapped(t: torch.Tensor) -> torch.Tensor:
    if not private.is_wrapped(t):
        return t.detach()
    batch, inner = private.batch_axis(t), private.unwrapped(t)
    plain = _unwrapped(inner)
    # what is batched at the levels below is in front already
    return plain if batch < 0 else plain.movedim(plain.ndim - inner.ndim + batch, 0)


# -- for programs that are recorded, and for what may be differentiated no more ---


@dataclass(frozen=True)
class Agreeing(Unchanged):
    """Arguments dy, with its number of axes, and both products with the size of their terms."""

    ndim: int

    may_overflow = True

    @property
    def core(self) -> tuple[Tree, ...]:
        return (self.ndim, 0, 0, 0)

    def kernel(self, *args: Tree) -> tuple[torch.Tensor, ...]:
        dy, left, right, scale = args
        bound = torch.finfo(scale.dtype).eps ** 0.5 * scale
        check_or_raise(_near(left, right, bound).all(), cut)
        return (dy + 0,)


def final(
    x_bars: tuple[torch.Tensor, ...], beside: tuple[torch.Tensor, ...]
) -> tuple[torch.Tensor, ...]:
    """These, and an error in place of their derivative in what is beside them."""
    ndims = tuple(t.ndim for t in (*x_bars, *beside))
    return bind(Final(ndims, len(x_bars)), [*x_bars, *beside])


@dataclass(frozen=True)
class Final(Rule):
    """Arguments x, and what it was made of without a graph; output x."""

    ndims: tuple[int, ...]
    count: int

    may_overflow = True

    @property
    def core(self) -> tuple[Tree, ...]:
        return self.ndims

    def kernel(self, *args: Tree) -> tuple[torch.Tensor, ...]:
        return tuple(x + 0 for x in args[: self.count])

    def jvp(self, *_: Any) -> tuple[torch.Tensor | None, ...]:
        raise cut()

    def vjp(self, *_: Any) -> tuple[Tree, ...]:
        raise cut()


def cut() -> NotDifferentiableError:
    return NotDifferentiableError(
        expected_got(
            "the derivative of a derivative of your function",
            "backward passes that PyTorch can differentiate",
            "one that it cannot, so that zero would be taken for its derivative",
            "Leave once_differentiable, no_grad and detach out of it.",
        )
    )
