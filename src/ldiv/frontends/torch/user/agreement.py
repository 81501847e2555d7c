"""The check of a tangent dy = J dx: Re <r, dy> = Re <J^H r, dx>, by a reverse product for random r.

A reverse pass computes J^H r, and an operator without one raises. A tangent is less certain: in
forward mode operators without a formula (torch.library.custom_op) give zero, without an error; and
the transpose of a reverse pass is zero wherever that cuts the graph (once_differentiable, no_grad,
detach). The values of f that are of like size share an r, so that a small one counts as much as a
large one; those that do not move have one of their own.

What is missing may be small beside what is there: products agree to rounding, or, where f rounds by
more than that, to half of the digits. A derivative whose terms cancel is rounding alone: both
products then differ by as much as each of them changes with the last bits of x and r.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import torch

from ldiv.core.frameworks.dispatch import namespace
from ldiv.core.frameworks.looks import all_decided, assumed_true, is_pending
from ldiv.core.owners.caches import bounded_cache
from ldiv.frontends.torch import private
from ldiv.frontends.torch.array_namespace import sent

Values = torch.Tensor | tuple[torch.Tensor, ...]
Pullback = Callable[[Any], tuple[torch.Tensor, ...]]
Bound = Callable[[float], float]  # how near, of eps
LIKE, MORE_ALIKE = 16, 8  # powers of two between values of like size
ROUNDING = 2.0**6  # of f and its products, in eps
MOVED = 2.0**-4  # of a number, to a point beside it
NUDGES = (7 / 8, 6 / 8, 5 / 8)  # powers of eps: steps to points that rounding tells apart
CHANGES = 16.0  # of products that are rounding alone, between such points
FEW = 3  # steps
CACHED = 1 << 17  # random numbers
UNMOVED = -(1 << 10)  # the size of a zero, below all others


def as_tuple(y: Values) -> tuple[torch.Tensor, ...]:
    return y if isinstance(y, tuple) else (y,)


def random_like(t: torch.Tensor, seed: int = 0) -> torch.Tensor:
    draw = few_drawn if t.numel() <= CACHED else drawn
    r = draw(tuple(t.shape), t.is_complex(), seed)
    return sent(torch.tensor(r, dtype=t.dtype), t.device)


def drawn(shape: tuple[int, ...], is_complex: bool, seed: int) -> Any:
    """Independent normal numbers."""
    rng = np.random.default_rng(seed)
    r = rng.standard_normal(shape)
    return r + 1j * rng.standard_normal(shape) if is_complex else r


@bounded_cache(16)
def few_drawn(shape: tuple[int, ...], is_complex: bool, seed: int) -> Any:
    """Return `drawn` from a cache: making a generator costs as much as a derivative of a few
    numbers.
    """
    return drawn(shape, is_complex, seed)


Tensors = tuple[torch.Tensor, ...]
Pushforward = Callable[[Tensors], Values | None]
Linear = tuple[Pullback, Values, Pushforward]  # J^H, y and J


@dataclass(frozen=True)
class Tangent:
    """dy, a tangent of y = f(x) along dx, or None where there is none; `at` finds it at a point.

    `beside`: f at points beside x, for all tangents at x.
    """

    pull: Pullback
    y: Values
    dy: Values | None
    xs: Tensors
    dxs: Tensors
    at: Callable[[Tensors], Linear]
    beside: dict[tuple[float, int], Linear] = field(default_factory=dict)

    def agrees(self) -> bool:
        """True if reverse products agree with dy, in all batches."""
        return self.agrees_to_rounding() or self._agrees(MORE_ALIKE, to_half)

    def agrees_to_rounding(self) -> bool:
        """True if reverse products agree with dy to the rounding that most functions have."""
        return self._agrees(LIKE, to_rounding)

    def _agrees(self, like: int, bound: Bound) -> bool:
        """Whether products agree as far as `bound` says, for groups of values within 2^like.

        Products that are not finite show nothing; then the tangent itself is not finite.
        """
        if self.dy is None:
            return False
        ys, found_at = as_tuple(self.y), cache(self._found_at)
        random = [*map(random_like, ys)]
        for alike in of_like_size(as_tuple(self.dy), [v.ndim for v in ys], like):
            r = tuple(v * a for v, a in zip(random, alike, strict=True))
            left, right, scale = products(self.pull, self.y, r, self.dy, self.dxs)
            if close(left, right, scale, bound):
                continue
            # Where the derivative vanishes, as at a minimum, terms cancel and both products are
            # rounding: they must agree at a point beside x, and here relative to the sizes there.
            there = self._products_at(found_at, MOVED, 2, r)
            if there and close(*there, bound) and close(left, right, there[2], bound):
                continue
            if bound is to_rounding or not self._is_rounding(left, right, r, found_at):
                return False
        return True

    def _is_rounding(
        self, left: torch.Tensor, right: torch.Tensor, r: Tensors, found_at: Any
    ) -> bool:
        """Whether the products differ by as much as they change with the last bits of x and r, or
        by less than y can show.

        The derivative of x / |x| is rounding alone at all points. What a cut leaves out is not: it
        changes with those bits by as few.
        """
        eps = torch.finfo(left.dtype).eps
        changes = eps * self._visible(r)
        for seed, power in enumerate(NUDGES):
            nudged = tuple(v * (1 + eps**power * random_like(v, seed)) for v in r)
            there = self._products_at(found_at, eps**power, 2 + seed, nudged)
            if there is None:
                return False
            changes = changes + (there[0] - left).abs() + (there[1] - right).abs()
        return close(left, right, changes, lambda _: CHANGES)

    def _visible(self, r: Tensors) -> torch.Tensor:
        """sum |r y| |dx| / |x|: of a tangent as small as eps times this, y shows nothing between x
        and 2 x. An x that is 0 has no size: there it is |x_bar| |dx|, that along all entries of x.
        """
        size = torch.cat(
            [(u * v).abs().ravel() for u, v in zip(r, as_tuple(self.y), strict=True)]
        ).sum()
        ways = [
            (d.abs() / (x.abs() + x.abs().mean())).nan_to_num(0.0, 0.0).ravel()
            for x, d in zip(self.xs, self.dxs, strict=True)
        ]
        x_bars = self.pull(r if isinstance(self.y, tuple) else r[0])
        at_zero = [
            torch.where(x.abs().max() == 0, x_bar.abs().max() * d.abs().max(), 0)
            for x, x_bar, d in zip(self.xs, x_bars, self.dxs, strict=True)
            if x.numel()
        ]
        return size * torch.cat(ways).max() + sum(at_zero)

    def _products_at(
        self, found_at: Any, step: float, seed: int, r: Tensors
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor] | None:
        """Return the products at a point near x; None if f is not defined there."""
        with suppress(RuntimeError, ValueError):
            pull, y, dy = found_at(step, seed)
            if dy is not None:
                return products(pull, y, r, dy, self.dxs)
        return None

    def _found_at(self, step: float, seed: int) -> tuple[Pullback, Values, Values | None]:
        """The derivatives at a point whose entries differ from those of x by a fraction `step`."""
        if (step, seed) not in self.beside:
            ways = (random_like(x, seed) * (x.abs() + x.abs().mean()) * step for x in self.xs)
            there = tuple(x + d.detach() for x, d in zip(self.xs, ways, strict=True))
            self.beside[step, seed] = self.at(there)
        pull, y, push = self.beside[step, seed]
        return pull, y, push(self.dxs)


def to_half(eps: float) -> float:
    return eps**0.5


def to_rounding(eps: float) -> float:
    return ROUNDING * eps


def close(
    left: torch.Tensor, right: torch.Tensor, scale: torch.Tensor, bound: Bound = to_half
) -> bool:
    """Whether left and right agree in all batches, to half of the digits or as `bound` says."""
    allowed = bound(torch.finfo(scale.dtype).eps)
    if left.is_cpu:
        a, b, most = np.moveaxis(values(torch.stack([left, right, scale], -1)), -1, 0)
        return bool(near(a, b, allowed * most.real).all())
    with private.without_transforms(), torch.no_grad():  # one read of the device
        a, b, most = map(_unwrapped, (left, right, scale))
        return assumed_true(near(a, b, allowed * most).all())


def products(
    pull: Pullback, y: Values, r: tuple[torch.Tensor, ...], dy: Values, dxs: Sequence[torch.Tensor]
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Re <r, dy>, Re <J^H r, dx>, and the size of the terms of both sums."""
    x_bars = pull(r if isinstance(y, tuple) else r[0])
    left = [(u.conj() * v).real.ravel() for u, v in zip(r, as_tuple(dy), strict=True)]
    right = [(u.conj() * v).real.ravel() for u, v in zip(x_bars, dxs, strict=True)]
    a, b = torch.cat(left), torch.cat(right)
    return a.sum(), b.sum(), a.abs().sum() + b.abs().sum()


def farthest_off(
    left: torch.Tensor, right: torch.Tensor, scale: torch.Tensor, xs: Tensors, dxs: Tensors
) -> Tensors | None:
    """The direction of a batch at one point x whose products differ most, for their size; None where
    there is no one batch, or another device is to be asked.
    """
    if not left.is_cpu or any(map(private.is_wrapped, xs)):
        return None
    plain = [private.unwrapped(d) if private.is_wrapped(d) else d for d in dxs]
    if any(map(private.is_wrapped, plain)):
        return None
    with np.errstate(all="ignore"):
        off = np.ravel(abs(values(left) - values(right)) / values(scale))
    member, are_stacked = int(np.argmax(np.nan_to_num(off))), left.ndim > 0
    return tuple(
        _unwrapped(d)[member] if are_stacked or p is not d else d
        for d, p in zip(dxs, plain, strict=True)
    )


def near(left: Any, right: Any, bound: Any) -> Any:
    """True if numbers differ by at most the bound, or both are not finite."""
    xp = namespace(left)
    finite = xp.isfinite(left), xp.isfinite(right)
    are_near = abs(xp.where(finite[0], left, 0) - xp.where(finite[1], right, 0)) <= bound
    return xp.where(finite[0] & finite[1], are_near, finite[0] == finite[1])


def of_like_size(
    vs: Sequence[torch.Tensor], ndims: Sequence[int], like: int = LIKE
) -> Iterator[Any]:
    """Masks, a tensor for each array, of the numbers that are within 2^like in all batches; those
    that are zero have one of their own.
    """
    steps = [_steps(v, ndim, like) for v, ndim in zip(vs, ndims, strict=True)]
    with private.without_transforms(), torch.no_grad():
        flat = torch.cat([s.ravel() for s in steps])
        # in a whole batch of tangents, as for a Jacobian, sizes are nearly always alike
        many = any(_unwrapped(v).ndim > v.ndim for v in vs)
        alike = many and is_pending(flat) and assumed_true((flat >= -1).all())
        every = [-1, 0] if alike else _different(flat)
    for step in every:
        yield [s == step for s in steps]


def _different(steps: torch.Tensor) -> list[int]:
    """The distinct steps; on a device by one wait, with unused steps between a few included."""
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
    found: list[int] = (-np.flatnonzero(np.bincount(-steps.cpu().numpy()))[::-1]).tolist()
    return found


def _steps(v: torch.Tensor, ndim: int, like: int) -> torch.Tensor:
    """The steps of 2^like by which each number, in all batches, is below the largest."""
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
    # batch axes of the levels below are in front already
    return plain if batch < 0 else plain.movedim(plain.ndim - inner.ndim + batch, 0)
