"""Derivatives that are wrong on purpose, in families, and the right ones that they are made of.

A `Rule` is a function of PyTorch with a derivative of its own, which is right. A family yields
`Wrong` functions: most are a rule with a changed cotangent. `error` is the relative size of an
error that may be too small to be seen; `unseen` the words of docs/gradcheck.md for what no check of
this kind can see.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch

import ldiv
from ldiv.core.rules.rule import bind
from ldiv.rules.solve import Solve
from ldiv.structures.dense import Dense

jax.config.update("jax_enable_x64", True)

Function = Callable[..., Any]
F64 = torch.float64


def custom(
    forward: Function, vjp: Function, jvp: Function | None = None, batched: Function | None = None
) -> Function:
    """A function of torch with derivatives of its own."""

    def setup(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    parts: dict[str, Any] = {
        "generate_vmap_rule": batched is None,
        "forward": staticmethod(lambda *xs: forward(*xs)),
        "setup_context": staticmethod(setup),
        "backward": staticmethod(lambda ctx, g: vjp(g, *ctx.saved_tensors)),
    }
    if jvp is not None:
        parts["jvp"] = staticmethod(lambda ctx, *ts: jvp(ts, *ctx.saved_tensors))
    if batched is not None:
        parts["vmap"] = staticmethod(batched)
    return type("Custom", (torch.autograd.Function,), parts).apply


@dataclass(frozen=True)
class Rule:
    """forward(*args) with the cotangents pull(g, *args), a tuple, and the tangent push(ts, *args)."""

    forward: Function
    pull: Function
    args: tuple[Any, ...]
    push: Function | None = None

    def right(self) -> Function:
        return custom(self.forward, self.pull)

    def at(self, *args: Any) -> Rule:
        return Rule(self.forward, self.pull, args, self.push)

    def changed(self, change: Function, argument: int = 0) -> Function:
        """change(bar, g, *args) in place of the cotangent of one argument."""

        def pull(g: Any, *xs: Any) -> tuple[Any, ...]:
            bars = list(self.pull(g, *xs))
            bars[argument] = change(bars[argument], g, *xs)
            return tuple(bars)

        return custom(self.forward, pull)

    def pushed(self, change: Function) -> Function:
        """change(tangent, ts, *args) in place of the tangent."""
        assert self.push is not None
        push = self.push
        return custom(self.forward, self.pull, lambda ts, *xs: change(push(ts, *xs), ts, *xs))


@dataclass(frozen=True)
class Wrong:
    """A function whose derivative is wrong, in a mode and an argument."""

    name: str
    f: Function
    args: tuple[Any, ...]
    mode: str = "vjp"
    argument: int = 0
    error: float | None = None  # of the whole derivative, relative to it
    right: Function | None = None  # where one entry alone is wrong, by little
    unseen: str = ""


FAMILIES: list[Callable[[], Iterator[Wrong]]] = []


def family(make: Callable[[], Iterator[Wrong]]) -> Callable[[], Iterator[Wrong]]:
    FAMILIES.append(make)
    return make


# -- rules --------------------------------------------------------------------

RNG = np.random.default_rng(5)
N = 4


def draw(*shape: int) -> Any:
    return torch.tensor(RNG.standard_normal(shape))


def well_conditioned(*batch: int) -> Any:
    return draw(*batch, N, N) + 4 * torch.eye(N, dtype=F64)


X = draw(6)
A, B, Y = well_conditioned(), draw(N, 2), draw(N, 2)
Z, C = torch.complex(A, draw(N, N)), torch.complex(B, draw(N, 2))
S = A + A.mT
H = Z + Z.mH
DEFINITE = A @ A.mT


def _solve_pull(g: Any, a: Any, b: Any) -> tuple[Any, Any]:
    lam = torch.linalg.solve(a.mH, g)
    return -lam @ torch.linalg.solve(a, b).mH, lam


def _lower_form_pull(g: Any, a: Any, v: Any) -> tuple[Any, Any]:
    m = torch.tril(a) + torch.tril(a, -1).mT
    outer = torch.outer(v, v)
    return g * (2 * torch.tril(outer, -1) + torch.diag(v**2)), 2 * g * (m @ v)


def _cholesky_pull(g: Any, a: Any) -> tuple[Any]:
    l = torch.linalg.cholesky(a)
    p = torch.tril(l.mT @ g)
    p = p - torch.diag_embed(p.diagonal()) / 2
    s = torch.linalg.solve_triangular(l, p, upper=False, left=False)
    s = torch.linalg.solve_triangular(l.mT, s, upper=True)
    return ((s + s.mT) / 2,)


SIN = Rule(torch.sin, lambda g, x: (g * x.cos(),), (X,), lambda ts, x: ts[0] * x.cos())
EXP = Rule(torch.exp, lambda g, x: (g * x.exp(),), (X,), lambda ts, x: ts[0] * x.exp())
SQUARE = Rule(torch.square, lambda g, x: (2 * g * x,), (X,))
CUBE = Rule(lambda x: x**3, lambda g, x: (3 * g * x**2,), (X,))
BENT = Rule(lambda x: x + x**2, lambda g, x: (g * (1 + 2 * x),), (X,))
CUBES = Rule(lambda x: (x**3).sum(), lambda g, x: (3 * g * x**2,), (X,))
TIMES = Rule(
    torch.mul, lambda g, x, y: (g * y, g * x), (B, Y), lambda ts, x, y: ts[0] * y + x * ts[1]
)
OVER = Rule(torch.div, lambda g, x, y: (g / y, -g * x / y**2), (B, 2 + Y**2))
PRODUCT = Rule(torch.matmul, lambda g, a, b: (g @ b.mT, a.mT @ g), (A, B))
FORM = Rule(
    lambda a, x: x @ a @ x,
    lambda g, a, x: (g * torch.outer(x, x), g * (a @ x + a.mT @ x)),
    (A, B[:, 0]),
)
SOLVE = Rule(torch.linalg.solve, _solve_pull, (A, B))
COMPLEX_SOLVE = SOLVE.at(Z, C)
COMPLEX_TIMES = Rule(torch.mul, lambda g, x, y: (g * y.conj(), g * x.conj()), (C, C + 1j))
PHASE = Rule(
    lambda x: torch.exp(1j * x), lambda g, x: ((g.conj() * 1j * torch.exp(1j * x)).real,), (X,)
)
POWER = Rule(lambda z: z * z.conj(), lambda g, z: (2 * g.real * z,), (C,))
EIGENVALUES = Rule(
    torch.linalg.eigvalsh,
    lambda g, a: (lambda u: ((u * g[..., None, :]) @ u.mH,))(torch.linalg.eigh(a)[1]),
    (ldiv.symmetric(S),),
)
LOWER_FORM = Rule(
    lambda a, v: v @ (torch.tril(a) + torch.tril(a, -1).mT) @ v, _lower_form_pull, (S, B[:, 0])
)
CHOLESKY = Rule(torch.linalg.cholesky, _cholesky_pull, (ldiv.symmetric(DEFINITE),))
BATCH = Rule(torch.linalg.solve, _solve_pull, (well_conditioned(3), draw(3, N, 2)))
ROW, COL = torch.tensor([0, 0, 1, 2, 2]), torch.tensor([0, 0, 1, 0, 1])
SPARSE = Rule(
    lambda v, x: torch.zeros(3, dtype=F64).index_add(0, ROW, v * x[COL]),
    lambda g, v, x: (g[ROW] * x[COL], torch.zeros_like(x).index_add(0, COL, g[ROW] * v)),
    (torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0], dtype=F64), B[:2, 0]),
)
FEW_ZEROS = torch.tensor([0.3, 0.0, 0.0, 1.2, -0.7], dtype=F64)
POINTS = {
    "a few": FEW_ZEROS,
    "one of a hundred": torch.cat([draw(99), torch.zeros(1, dtype=F64)]),
    "all": torch.zeros(4, dtype=F64),
    "off the diagonal": torch.diag(1 + draw(3) ** 2),
    "beside large ones": torch.tensor([1e4, 0.0, 1.0], dtype=F64),
}
EQUAL = {
    "a pair": torch.tensor([1.0, 1.0, 2.0, 0.5], dtype=F64),
    "all": torch.full((4,), 0.7, dtype=F64),
    "two groups": torch.tensor([0.5, 0.5, 0.5, -1.0, -1.0, -1.0, 2.0], dtype=F64),
    "a pair of fifty": torch.cat([draw(48), torch.full((2,), 0.3, dtype=F64)]),
}


# -- families -----------------------------------------------------------------


@family
def small_relative_errors() -> Iterator[Wrong]:
    for k in range(1, 13):
        e = 10.0**-k
        by = lambda bar, *_, e=e: (1 + e) * bar
        yield Wrong(f"sin by {e:.0e}", SIN.changed(by), SIN.args, error=e)
        yield Wrong(f"solve by {e:.0e}", SOLVE.changed(by), SOLVE.args, error=e)
        yield Wrong(f"form by {e:.0e}", FORM.changed(by, 1), FORM.args, argument=1, error=e)
        yield Wrong(f"complex solve by {e:.0e}", COMPLEX_SOLVE.changed(by), (Z, C), error=e)
        yield Wrong(f"sin, forward, by {e:.0e}", SIN.pushed(by), SIN.args, "jvp", error=e)


@family
def wrong_factors_and_signs() -> Iterator[Wrong]:
    for factor in (-1, 2, 0.5, 0):
        by = lambda bar, *_, factor=factor: factor * bar
        for name, rule in (("times", TIMES), ("product", PRODUCT), ("solve", SOLVE)):
            for i in (0, 1):
                f = rule.changed(by, i)
                yield Wrong(
                    f"{factor} times that of argument {i} of {name}", f, rule.args, "vjp", i
                )
        yield Wrong(f"{factor} times that of exp", EXP.changed(by), EXP.args)


@family
def missing_terms() -> Iterator[Wrong]:
    yield Wrong("x of x + x^2", BENT.changed(lambda bar, g, x: 2 * g * x), BENT.args)
    yield Wrong("x^2 of x + x^2", BENT.changed(lambda bar, g, x: g), BENT.args)
    half = lambda bar, g, a, x: g * (a @ x)
    yield Wrong("A^T x of a form", FORM.changed(half, 1), FORM.args, argument=1)
    yield Wrong("the denominator", OVER.changed(lambda bar, *_: 0 * bar, 1), OVER.args, argument=1)
    yield Wrong("y^2", OVER.changed(lambda bar, g, x, y: -g * x / y, 1), OVER.args, argument=1)
    ones = lambda bar, g, a, b: -torch.linalg.solve(a.mT, g) @ torch.ones_like(b).mT
    yield Wrong("the solution", SOLVE.changed(ones), SOLVE.args)
    yield Wrong("the adjoint solve", SOLVE.changed(lambda bar, g, a, b: g, 1), (A, B), "vjp", 1)
    plus = Rule(lambda x, b: x + b, lambda g, x, b: (g, g.sum(0)), (B, B[0]))
    yield Wrong("a mean", plus.changed(lambda b, g, *_: g.mean(0), 1), plus.args, "vjp", 1)
    yield Wrong("a broadcast", plus.changed(lambda b, g, *_: g[0], 1), plus.args, "vjp", 1)
    yield Wrong("cut off", lambda x: x.detach() * x, (X,))
    yield Wrong("cut off in one of two", lambda x: (x, x.detach() * x.sum()), (X,))
    yield Wrong("cut off in a small output", lambda x: (1e8 * x, (x.detach() * x).sum()), (X,))
    norm = Rule(torch.linalg.vector_norm, lambda g, x: (g * x / x.norm(),), (X,))
    yield Wrong("the norm", norm.changed(lambda bar, g, x: g * x), norm.args)


@family
def wrong_at_zeros() -> Iterator[Wrong]:
    for where, x in POINTS.items():
        for factor in (2, 0, -1):
            for name, rule in (("sin", SIN), ("x + x^2", BENT), ("square", SQUARE)):
                by = lambda bar, g, x, factor=factor: torch.where(x == 0, factor, 1) * bar
                # there the first derivative of a square is zero, and its second one is not
                mode = "reverse over reverse" if rule is SQUARE else "vjp"
                yield Wrong(f"{name} times {factor}, {where}", rule.changed(by), (x,), mode)
    doubled = lambda bar, g, x: torch.where(x == 0, 2, 1) * bar
    elsewhere = "at other points"
    yield Wrong("without a zero", SIN.changed(doubled), (X,), unseen=elsewhere)
    third = "third derivatives"
    yield Wrong("cube", CUBE.changed(doubled), (FEW_ZEROS,), unseen=third)


def repeated(x: Any) -> Any:
    """A mask of the entries that are equal to another one."""
    return (x[:, None] == x).sum(1) > 1


@family
def wrong_at_equal_entries() -> Iterator[Wrong]:
    for where, x in EQUAL.items():
        for factor in (2, 0):
            for name, rule in (("sin", SIN), ("cube", CUBE)):
                by = lambda bar, g, x, factor=factor: torch.where(repeated(x), factor, 1) * bar
                yield Wrong(f"{name} times {factor}, {where}", rule.changed(by), (x,))

        def first(bar: Any, g: Any, x: Any) -> Any:
            """The first one of equal entries is given what belongs to all of them."""
            same = (x[:, None] == x).double()
            leads = torch.argmax(same, dim=1) == torch.arange(len(x))
            return torch.where(leads, same @ bar, 0)

        yield Wrong(f"the first one, {where}", SIN.changed(first), (x,))
    mean = lambda bar, g, x: bar.mean().expand_as(bar)
    # right as long as all of x are equal
    yield Wrong("the mean of all", CUBES.changed(mean), (EQUAL["all"],))
    yield Wrong("the mean of all zeros", CUBES.changed(mean), (POINTS["all"],))
    swap = lambda bar, g, x: bar.flip(0)
    yield Wrong("in reverse order", CUBES.changed(swap), (EQUAL["all"],))
    same = lambda bar, g, x, y: torch.where((x == y).all(), 2, 1) * bar
    yield Wrong("of equal arguments", TIMES.changed(same), (B, B.clone()))
    yield Wrong("of other arguments", TIMES.changed(same), (B, Y), unseen="at other points")


@family
def wrong_in_one_entry() -> Iterator[Wrong]:
    x = torch.linspace(-2, 2, 30, dtype=F64)
    for where, k in (("first", 0), ("last", -1), ("middle", 15)):
        for e in (1.0, 1e-2, 1e-4, 1e-6, 1e-8):
            change = torch.zeros_like(x)
            change[k] = e
            f = EXP.changed(lambda bar, *_, change=change: bar * (1 + change))
            yield Wrong(f"the {where} of exp by {e:.0e}", f, (x,), right=EXP.right())
    corner = torch.zeros(N, N, dtype=F64)
    corner[-1, 0] = 1
    yield Wrong("a corner", SOLVE.changed(lambda bar, *_: bar + corner), SOLVE.args)
    yield Wrong(
        "a diagonal", SOLVE.changed(lambda bar, *_: bar - torch.diag(bar.diagonal())), (A, B)
    )
    largest = lambda bar, *_: torch.where(bar.abs() == bar.abs().max(), 1.01, 1) * bar
    yield Wrong("the largest", SOLVE.changed(largest), SOLVE.args)
    clamped = lambda bar, *_: bar.clamp(max=0.9 * bar.max())
    yield Wrong("the largest, clamped", EXP.changed(clamped), EXP.args)


@family
def wrong_conjugates() -> Iterator[Wrong]:
    for name, rule in (("solve", COMPLEX_SOLVE), ("times", COMPLEX_TIMES)):
        for i in (0, 1):
            for what, by in {
                "conjugate": lambda bar, *_: bar.conj(),
                "real part": lambda bar, *_: bar.real + 0j,
                "imaginary part": lambda bar, *_: 1j * bar.imag,
                "times i": lambda bar, *_: 1j * bar,
            }.items():
                yield Wrong(f"{what}, {name}, {i}", rule.changed(by, i), rule.args, argument=i)
    lam = lambda bar, g, a, b: torch.linalg.solve(a.mT, g)
    yield Wrong("A^T for A^H", COMPLEX_SOLVE.changed(lam, 1), (Z, C), argument=1)
    x = lambda bar, g, a, b: -torch.linalg.solve(a.mH, g) @ torch.linalg.solve(a, b).mT
    yield Wrong("x^T for x^H", COMPLEX_SOLVE.changed(x), (Z, C))
    y = lambda bar, g, x, y: g * y
    yield Wrong("y for its conjugate", COMPLEX_TIMES.changed(y), COMPLEX_TIMES.args)
    yield Wrong(
        "the real part of the cotangent", PHASE.changed(lambda b, g, x: -g.real * x.sin()), (X,)
    )
    yield Wrong(
        "g for its conjugate",
        PHASE.changed(lambda b, g, x: (g * 1j * torch.exp(1j * x)).real),
        (X,),
    )
    yield Wrong("Wirtinger's half", POWER.changed(lambda b, g, z: g.real * z), POWER.args)
    yield Wrong("without the real part of g", POWER.changed(lambda b, g, z: 2 * g * z), POWER.args)
    values = EIGENVALUES.changed(lambda bar, *_: bar.conj())
    yield Wrong("eigenvalues", values, (ldiv.hermitian(H),))


@family
def wrong_in_second_order() -> Iterator[Wrong]:
    twice = "reverse over reverse"
    for name, rule, bars in (
        ("exp", EXP, lambda g, x: (g * x.exp(),)),
        ("cube", CUBE, lambda g, x: (3 * g * x**2,)),
    ):
        for what, f in {
            "x": lambda g, x, bars=bars: bars(g, x.detach()),
            "the cotangent": lambda g, x, bars=bars: bars(g.detach(), x),
            "both": lambda g, x, bars=bars: bars(g.detach(), x.detach()),
        }.items():
            yield Wrong(f"{name}, without {what}", custom(rule.forward, f), rule.args, twice)
    for k in range(1, 11):
        e = 10.0**-k
        # 1 at x, with a derivative of e / x
        by = lambda bar, g, x, e=e: bar * (1 + e * (x / x.detach() - 1))
        near = Rule(CUBE.forward, CUBE.pull, (1 + X**2,))
        # L'' = <y_bar, f'' d e> + |f' d|^2 / s^2 has at least a half of the error
        yield Wrong(f"cube, by {e:.0e}", near.changed(by), near.args, twice, error=e)
    for i in (0, 1):
        for j in (0, 1):
            fixed = lambda bar, g, *xs, i=i, j=j: _solve_pull(
                g, *(x.detach() if k == j else x for k, x in enumerate(xs))
            )[i]
            if (i, j) != (1, 1):  # the cotangent of b does not depend on b
                yield Wrong(f"solve, {i} without {j}", SOLVE.changed(fixed, i), (A, B), twice, j)
    mixed = lambda bar, g, x, y: g * y.detach()
    yield Wrong("times, without y", TIMES.changed(mixed), TIMES.args, twice, 1)
    sum_twice = lambda bar, g, a, x: bar + 1e-3 * (x.sum() - x.detach().sum()) * bar
    yield Wrong("form, mixed", FORM.changed(sum_twice), FORM.args, twice, 1)
    for name, args in (("zeros", (FEW_ZEROS,)), ("equal entries", (EQUAL["a pair"],))):
        at = lambda bar, g, x: torch.where(repeated(x), bar.detach(), bar)
        yield Wrong(f"square, at {name}", SQUARE.changed(at), args, twice)
    third = lambda bar, g, x: 3 * g * (x.detach() ** 2 + 2 * x.detach() * (x - x.detach()))
    yield Wrong("cube, in third order", CUBE.changed(third), CUBE.args, unseen="third derivatives")
    cubic = lambda bar, g, x: bar * (1 + (x - x.detach()) ** 2)
    yield Wrong("sin, in third order", SIN.changed(cubic), SIN.args, unseen="third derivatives")


@family
def wrong_in_forward_mode() -> Iterator[Wrong]:
    for what, by in {
        "sign": lambda t, *_: -t,
        "factor": lambda t, *_: 1.5 * t,
        "zero": lambda t, *_: 0 * t,
        "one entry": lambda t, *_: (
            t * torch.where(torch.arange(t.numel()).reshape(t.shape) == 1, 2, 1)
        ),
        "shift": lambda t, *_: torch.roll(t, 1, 0),
        "not finite": lambda t, *_: t * torch.nan,
    }.items():
        yield Wrong(f"sin, {what}", SIN.pushed(by), SIN.args, "jvp")
        yield Wrong(f"times, {what}", TIMES.pushed(by), TIMES.args, "jvp")
    yield Wrong(
        "times, the second term", TIMES.pushed(lambda t, ts, x, y: ts[0] * y), (B, Y), "jvp", 1
    )
    yield Wrong(
        "times, exchanged", TIMES.pushed(lambda t, ts, x, y: ts[0] * x + ts[1] * y), (B, Y), "jvp"
    )
    zeros = lambda t, ts, x: torch.where(x == 0, 2, 1) * t
    yield Wrong("sin, at zeros", SIN.pushed(zeros), (FEW_ZEROS,), "jvp")


@family
def wrong_on_a_pattern() -> Iterator[Wrong]:
    for what, by in {
        "a duplicate dropped": lambda bar, *_: bar * torch.tensor([1.0, 0, 1, 1, 1]),
        "duplicates added up": lambda bar, *_: bar * torch.tensor([2.0, 2, 1, 1, 1]),
        "the next entry": lambda bar, *_: torch.roll(bar, 1, 0),
        "sorted by columns": lambda bar, *_: bar[torch.argsort(COL, stable=True)],
        "the transpose": lambda bar, g, v, x: g[COL] * torch.cat([x, x])[ROW],
        "rows alone": lambda bar, g, v, x: g[ROW],
        "columns alone": lambda bar, g, v, x: x[COL],
        "the diagonal alone": lambda bar, *_: bar * (ROW == COL),
        "the last row": lambda bar, *_: bar * (ROW < 2),
        "times the values": lambda bar, g, v, x: bar * v,
    }.items():
        yield Wrong(what, SPARSE.changed(by), SPARSE.args)
    adjoint = lambda bar, g, v, x: bar * torch.tensor([1.0, 0.0])
    yield Wrong("a column of the adjoint", SPARSE.changed(adjoint, 1), SPARSE.args, argument=1)
    matrix = ldiv.coo_array((SPARSE.args[0], (ROW.numpy(), COL.numpy())), shape=(3, 2))
    dropped = SPARSE.changed(lambda bar, *_: bar * torch.tensor([1.0, 0, 1, 1, 1]))
    yield Wrong(
        "a duplicate of a matrix", lambda a, x: dropped(a.data, x), (matrix, SPARSE.args[1])
    )


@family
def wrong_in_a_triangle() -> Iterator[Wrong]:
    eye = torch.eye(N, dtype=F64)
    for what, by in {
        "not doubled": lambda bar, *_: bar / (2 - eye),
        "doubled twice": lambda bar, *_: bar * (2 - eye),
        "the other one": lambda bar, *_: bar.mT,
        "both": lambda bar, *_: (bar + bar.mT) / 2,
        "without the diagonal": lambda bar, *_: bar * (1 - eye),
        "half of the diagonal": lambda bar, *_: bar * (1 - eye / 2),
    }.items():
        yield Wrong(f"lower form, {what}", LOWER_FORM.changed(by), LOWER_FORM.args)
    for name, rule in (("eigenvalues", EIGENVALUES), ("Cholesky", CHOLESKY)):
        for what, by in {
            "one triangle": lambda bar, *_: torch.tril(bar),
            "doubled": lambda bar, *_: bar * (2 - eye),
            "half of the diagonal": lambda bar, *_: bar * (1 - eye / 2),
            "the diagonal alone": lambda bar, *_: bar * eye,
        }.items():
            yield Wrong(f"{name}, {what}", rule.changed(by), rule.args)
        skew = lambda bar, *_: bar + torch.triu(bar) - torch.triu(bar).mT
        across = "a mark does not let an argument move"
        yield Wrong(f"{name}, a skew part", rule.changed(skew), rule.args, unseen=across)
    triangle = Rule(
        lambda l, b: torch.linalg.solve_triangular(l, b, upper=False),
        lambda g, l, b: (lambda bars: (torch.tril(bars[0]), bars[1]))(
            _solve_pull(g, torch.tril(l), b)
        ),
        (torch.tril(A), B),
    )
    full = lambda bar, g, l, b: _solve_pull(g, torch.tril(l), b)[0]
    yield Wrong("beyond the triangle", triangle.changed(full), triangle.args)
    marked = (ldiv.triangular(torch.tril(A)), B)
    yield Wrong(
        "beyond a marked triangle",
        triangle.changed(full),
        marked,
        unseen="a mark does not let an argument move",
    )


@family
def wrong_in_a_branch() -> Iterator[Wrong]:
    x = torch.tensor([-2.1, -0.4, 0.6, 1.7], dtype=F64)
    for what, hit in {
        "x > 0": lambda x: x > 0,
        "x < 0": lambda x: x < 0,
        "|x| > 1": lambda x: x.abs() > 1,
        "the largest": lambda x: x == x.max(),
        "next to the mean": lambda x: (x - x.mean()).abs() < 0.5,
        "even": lambda x: x.floor() % 2 == 0,
        "norm > 1": lambda x: (x.norm() > 1).expand_as(x),
        "sorted": lambda x: (x.diff() > 0).all().expand_as(x),
        "sum < 0": lambda x: (x.sum() < 0).expand_as(x),
    }.items():
        by = lambda bar, g, x, hit=hit: torch.where(hit(x), 1.1, 1) * bar
        yield Wrong(what, SIN.changed(by), (x,))
    for what, hit in {
        "x > 3": lambda x: x > 3,
        "norm < 1": lambda x: (x.norm() < 1).expand_as(x),
        "integers": lambda x: x == x.round(),
        "many": lambda x: torch.full_like(x, x.numel() > 100).bool(),
    }.items():
        by = lambda bar, g, x, hit=hit: torch.where(hit(x), 1.1, 1) * bar
        yield Wrong(f"{what}, not here", SIN.changed(by), (x,), unseen="at other points")


@family
def wrong_in_a_batch() -> Iterator[Wrong]:
    for k in range(3):
        for e in (1.0, 1e-3):
            by = lambda bar, *_, k=k, e=e: bar * (1 + e * (torch.arange(3) == k)[:, None, None])
            yield Wrong(f"member {k} by {e:.0e}", BATCH.changed(by), BATCH.args)
    for what, by in {
        "reversed": lambda bar, *_: bar.flip(0),
        "the first one": lambda bar, *_: bar[:1].expand_as(bar),
        "the mean": lambda bar, *_: bar.mean(0, keepdim=True).expand_as(bar),
        "the sum": lambda bar, *_: bar.sum(0, keepdim=True).expand_as(bar),
        "transposed": lambda bar, *_: bar.mT,
    }.items():
        yield Wrong(what, BATCH.changed(by), BATCH.args)

    def first_alone(info: Any, dims: Any, x: Any) -> Any:
        x = x.movedim(dims[0], 0)
        return (x[:1] ** 3).expand(x.shape), 0

    vmap = custom(CUBE.forward, lambda g, x: 3 * g * x**2, batched=first_alone)
    yield Wrong("vmap, the first one", vmap, (X,), "vmap")
    batched = torch._C._functorch.is_batchedtensor
    legacy = torch._C._functorch.is_legacy_batchedtensor
    for mode, inside in (("vmap of vjp", batched), ("is_grads_batched", legacy)):
        by = lambda bar, g, x, inside=inside: bar * (1.5 if inside(g) else 1)
        yield Wrong(mode, CUBE.changed(by), CUBE.args, mode)


@family
def exchanged_and_permuted() -> Iterator[Wrong]:
    yield Wrong("arguments", custom(torch.mul, lambda g, x, y: (g * x, g * y)), (B, Y))
    for what, by in {
        "rolled": lambda bar, *_: torch.roll(bar, 1, 0),
        "flipped": lambda bar, *_: bar.flip(-1),
        "rows exchanged": lambda bar, *_: bar[[1, 0, 2, 3]],
        "transposed": lambda bar, *_: bar.mT if bar.shape[0] == bar.shape[1] else bar.flip(0),
    }.items():
        for i in (0, 1):
            yield Wrong(f"{what}, {i}", SOLVE.changed(by, i), SOLVE.args, argument=i)


def in_a_batch(x: Any) -> bool:
    """Whether vmap hands out the tensor, or has at any level of the transforms."""
    inside = torch._C._functorch
    while inside.is_functorch_wrapped_tensor(x) and not inside.is_batchedtensor(x):
        x = inside.get_unwrapped(x)
    return bool(inside.is_batchedtensor(x))


@family
def stale() -> Iterator[Wrong]:
    for name, rule in (("solve", SOLVE), ("cube", CUBE)):
        for which in (0, -1):
            kept: list[Any] = []

            def pull(
                g: Any, *xs: Any, rule: Rule = rule, which: int = which, kept: Any = kept
            ) -> Any:
                before = kept[which] if kept else xs
                if not any(map(in_a_batch, (g, *xs))):
                    kept.append([x.detach().clone() for x in xs])
                return rule.pull(g, *before)

            what = "the first call" if which == 0 else "the call before"
            yield Wrong(f"{name}, {what}", custom(rule.forward, pull), rule.args)


@family
def misused_cotangents() -> Iterator[Wrong]:
    # a cotangent may be positive by chance; those of a batch have both signs
    absolute = custom(torch.sin, lambda g, x: g.abs() * x.cos())
    yield Wrong("absolute", absolute, (X,), "vmap of vjp")
    for what, f in {
        "its sign": lambda g, x: g.sign() * x.cos(),
        "its mean": lambda g, x: g.mean() * x.cos(),
        "its square": lambda g, x: g**2 * x.cos(),
        "normalized": lambda g, x: g / g.norm() * x.cos(),
        "clipped": lambda g, x: g.clamp(-2, 2) * x.cos(),
        "ignored": lambda g, x: x.cos(),
        "without its first entry": lambda g, x: torch.cat([0 * g[:1], g[1:]]) * x.cos(),
    }.items():
        yield Wrong(what, custom(torch.sin, f), (X,))


@family
def inaccurate() -> Iterator[Wrong]:
    single = lambda bar, *_: bar.float().double()
    yield Wrong("rounded to single precision", SIN.changed(single), SIN.args, error=6e-8)
    half = lambda bar, *_: bar.half().double()
    yield Wrong("rounded to half precision", SIN.changed(half), SIN.args)
    for h in (1e-2, 1e-4, 1e-6):
        difference = lambda bar, g, x, h=h: g * ((x + h).sin() - x.sin()) / h
        yield Wrong(f"differences of {h:.0e}", SIN.changed(difference), SIN.args)

    def loose(bar: Any, g: Any, a: Any, b: Any) -> Any:
        """Four steps of Jacobi's iteration."""
        x, d = torch.zeros_like(g), a.diagonal()[:, None]
        for _ in range(4):
            x = x + (g - a.mT @ x) / d
        return x

    yield Wrong("a loose iteration", SOLVE.changed(loose, 1), SOLVE.args, argument=1)


@family
def not_finite() -> Iterator[Wrong]:
    for what, value in (("NaN", torch.nan), ("infinity", torch.inf)):
        one = lambda bar, *_, value=value: torch.where(torch.arange(6) == 3, value, bar)
        yield Wrong(f"one {what}", SIN.changed(one), SIN.args)
        yield Wrong(f"{what}", SIN.changed(lambda bar, *_, value=value: bar * value), SIN.args)


@family
def of_other_scales() -> Iterator[Wrong]:
    for scale in (1e-30, 1e-6, 1e6, 1e30):
        rule = SQUARE.at(scale * X)
        yield Wrong(f"of {scale:.0e}", rule.changed(lambda bar, *_: 1.01 * bar), rule.args)
        wrong = CUBE.changed(lambda bar, *_: 1.01 * bar)
        beside = lambda x, scale=scale, wrong=wrong: (scale * x, wrong(x))
        yield Wrong(f"beside {scale:.0e}", beside, (X,))


def _jax(f: Function, pull: Function) -> Function:
    """A function of JAX with a cotangent in JAX's own convention."""
    g = jax.custom_vjp(f)
    g.defvjp(lambda x: (f(x), x), lambda x, y_bar: (pull(y_bar, x),))
    return g


def _jax_pushed(f: Function, push: Function) -> Function:
    g = jax.custom_jvp(f)
    g.defjvp(lambda xs, ts: (f(*xs), push(ts[0], *xs)))
    return g


@family
def of_jax() -> Iterator[Wrong]:
    x, z = jnp.asarray(X.numpy()), jnp.asarray(C.numpy())
    zeros = jnp.asarray(FEW_ZEROS.numpy())
    fixed = jax.lax.stop_gradient
    for what, pull, at in (
        ("sign", lambda g, x: -g * jnp.cos(x), x),
        ("a factor of 1e-4", lambda g, x: 1.0001 * g * jnp.cos(x), x),
        ("an entry", lambda g, x: (g * jnp.cos(x)).at[2].set(0.0), x),
        ("at zeros", lambda g, x: g * jnp.cos(x) * jnp.where(x == 0, 2, 1), zeros),
        ("a conjugate", lambda g, x: g * jnp.conj(jnp.cos(x)), z),
    ):
        yield Wrong(f"reverse, {what}", _jax(jnp.sin, pull), (at,))
    twice = _jax(jnp.sin, lambda g, x: g * jnp.cos(fixed(x)))
    yield Wrong("reverse, in second order", twice, (x,), "reverse over reverse")
    for what, push, at in (
        ("sign", lambda t, x: -t * jnp.cos(x), x),
        ("a conjugate", lambda t, x: jnp.conj(t) * jnp.cos(x), z),
        ("at zeros", lambda t, x: t * jnp.cos(x) * jnp.where(x == 0, 2, 1), zeros),
    ):
        yield Wrong(f"forward, {what}", _jax_pushed(jnp.sin, push), (at,), "jvp")
    twice = _jax_pushed(jnp.sin, lambda t, x: t * jnp.cos(fixed(x)))
    yield Wrong("forward, in second order", twice, (x,), "forward over forward")


@family
def of_rules_on_numpy_arrays() -> Iterator[Wrong]:
    def solve(kind: Any) -> Function:
        return lambda a, b: bind(kind(Dense(N, N)), a, b)[0]

    def reverse(change: Function) -> Any:
        def vjp(self: Any, need: Any, cotangents: Any, out: Any, *args: Any) -> Any:
            return change(*Solve.vjp(self, need, cotangents, out, *args))

        return type("Changed", (Solve,), {"vjp": vjp})

    def forward(change: Function) -> Any:
        def jvp(self: Any, tangents: Any, out: Any, *args: Any) -> Any:
            return tuple(change(t) for t in Solve.jvp(self, tangents, out, *args))

        return type("Changed", (Solve,), {"jvp": jvp})

    args = A.numpy(), B.numpy()
    by = {"sign": -1.0, "a thousandth": 1.001, "nothing": 0.0}
    for what, factor in by.items():
        first = reverse(lambda a, b, factor=factor: (None if a is None else factor * a, b))
        yield Wrong(f"reverse, {what}, of A", solve(first), args)
        second = reverse(lambda a, b, factor=factor: (a, None if b is None else factor * b))
        yield Wrong(f"reverse, {what}, of b", solve(second), args, argument=1)
        push = forward(lambda t, factor=factor: None if t is None else factor * t)
        yield Wrong(f"forward, {what}", solve(push), args, "jvp")


def every() -> dict[str, Wrong]:
    """All wrong derivatives, by family and name."""
    return {f"{make.__name__}: {wrong.name}": wrong for make in FAMILIES for wrong in make()}


def right() -> dict[str, tuple[Function, tuple[Any, ...]]]:
    """The rules that they are made of, where they are made wrong, and at other points."""
    rules = {name: rule for name, rule in globals().items() if isinstance(rule, Rule)}
    cases = {name: (rule.right(), rule.args) for name, rule in rules.items()}
    for name in ("SIN", "SQUARE", "BENT", "CUBE", "CUBES"):
        for where, x in {**{f"zeros, {k}": x for k, x in POINTS.items()}, **EQUAL}.items():
            cases[f"{name}, {where}"] = rules[name].right(), (x,)
    x, z = jnp.asarray(X.numpy()), jnp.asarray(C.numpy())
    zeros = jnp.asarray(FEW_ZEROS.numpy())
    cases["JAX, reverse"] = _jax(jnp.sin, lambda g, x: g * jnp.cos(x)), (zeros,)
    cases["JAX, forward"] = _jax_pushed(jnp.sin, lambda t, x: t * jnp.cos(x)), (zeros,)
    cases["JAX, complex"] = _jax_pushed(jnp.sin, lambda t, x: t * jnp.cos(x)), (z,)
    return cases
