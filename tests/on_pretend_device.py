"""Functions on a pretend accelerator, in a process of its own: one line of JSON for each function.

{"name", "error" or null, "off": how far results are from the cpu's, "elsewhere": results that left the device,
 "mapped": by torch.func.vmap, too, "waits": for the host in value and gradient, "largest": the most
 numbers that it was told at once}
"""

from __future__ import annotations

import gc
import json
import os
import re
import sys
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

if "--cuda" in sys.argv:
    sys.argv.remove("--cuda")
    from true_device import install, waits
else:
    from ldiv.frontends.torch.devices.pretend_device import install, waits

DEVICE = install()

from dense_functions import AT_HOST, DENSE, N, pos, sym  # noqa: E402

import ldiv  # noqa: E402  (after the device is there, which it asks PyTorch for)
from ldiv.engines import solve_log  # noqa: E402
from ldiv.engines.libraries import native  # noqa: E402

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
A, B, EYE = torch.randn(N, N) + N * torch.eye(N), torch.randn(N), torch.eye(N)
TINY = torch.zeros(N, N)
TINY[0, 1] = 1e-12
# what is there before anything is counted
THERE = {id(x): x.to(DEVICE) for x in (A, B, EYE, TINY)}


def on(device: Any, x: torch.Tensor) -> torch.Tensor:
    return x if torch.device(device).type == "cpu" else THERE[id(x)].detach()


def within(f: Any) -> Any:
    """f, which takes a matrix and a vector, of both on one device."""
    return lambda a: f(a, a[0])


# what is refused, and what takes more than one look: a step of refinement, a scaling, a warning
ILL = 1 / (torch.arange(13)[:, None] + torch.arange(13) + 1.0), torch.ones(13)
NAN = torch.full((N, N), torch.nan)
RANK_ONE = torch.ones(N, N)
HILBERT = 1 / (torch.arange(N)[:, None] + torch.arange(N) + 1.0)
SKEW = torch.eye(N) + torch.triu(RANK_ONE)
LARGE = torch.full((N,), 1e300)
SOME = torch.stack([A, RANK_ONE, 2 * A])
ROUNDING = r"\b\d(\.\d+)?e(\+00|-(1[6-9]|[2-9]\d|\d{3}))\b"
NEAR = torch.outer(B, B) + 1e-17 * A
ODD = 10.0 ** torch.arange(0, 9 * N, 9)[:, None] * A / 10.0 ** torch.arange(0, 7 * N, 7)
HARD: dict[str, Callable[[Any], Any]] = {
    "NaN in A": lambda to: ldiv.solve(to(NAN), to(B)),
    "NaN in b": lambda to: ldiv.solve(to(A), to(NAN)),
    "infinity": lambda to: ldiv.solve(to(A / 0), to(B)),
    "NaN, eigh": lambda to: ldiv.eigh(to(NAN))[0],
    "NaN, svd": lambda to: ldiv.svd(to(NAN))[1],
    "NaN, cg": lambda to: ldiv.solve(to(NAN), to(B), assume_a="pos", method="cg"),
    "zero": lambda to: ldiv.solve(to(0 * A), to(B)),
    "rank one": lambda to: ldiv.solve(to(RANK_ONE), to(B)),
    "nearly singular": lambda to: ldiv.solve(to(NEAR), to(B)),
    "nearly singular, twice": lambda to: twice(partial(ldiv.solve, to(NEAR), to(B))),
    "nearly singular, ignored": lambda to: quietly(lambda: ldiv.solve(to(NEAR), to(B))),
    "one of a batch": lambda to: ldiv.solve(to(torch.stack([A, NEAR])), to(B)),
    "inverse": lambda to: ldiv.inv(to(NEAR)),
    "log|det|": lambda to: ldiv.slogdet(to(NEAR))[1],
    "triangle": lambda to: ldiv.solve_triangular(to(torch.tril(A, -1)), to(B), lower=True),
    "not positive": lambda to: ldiv.cholesky(to(A + A.mT - 40 * torch.eye(N))),
    "not positive, solve": lambda to: ldiv.solve(to(-A @ A.mT), to(B), assume_a="pos"),
    "not positive, cg": lambda to: ldiv.solve(to(-A @ A.mT), to(B), assume_a="pos", method="cg"),
    "not symmetric": lambda to: ldiv.eigvalsh(to(SKEW)),
    "not symmetric, solve": lambda to: ldiv.solve(to(SKEW), to(B), assume_a="sym"),
    "overflow": lambda to: ldiv.solve(to(1e-20 * A), to(LARGE)),
    "least squares": lambda to: ldiv.lstsq(to(RANK_ONE[:, :2]), to(B))[0],
    "no convergence": lambda to: ldiv.solve(to(A), to(B), method="gmres", maxiter=1, restart=2),
    "no start": lambda to: ldiv.root(lambda x, p: p / x, to(0 * B), to(B)),
    "root by parts of steps": lambda to: ldiv.root(
        lambda x, p: p * x.arctan(), to(0 * B + 2), to(B + 3)
    ),
    "root, singular": lambda to: ldiv.root(lambda x, p: p @ x - 1, to(0 * B), to(RANK_ONE)),
    "root, none": lambda to: ldiv.root(lambda x, p: x**2 + p**2 + 1, to(B), to(B), maxiter=8),
    "root of a solve": lambda to: gradient(
        lambda a: ldiv.root(lambda x, p: ldiv.solve(p, x**3) - 1, to(B + 9), a), to(A)
    ),
    "no root of a solve": lambda to: ldiv.root(lambda x, p: ldiv.solve(p, x) - 1, to(B), to(NEAR)),
    "least_squares by many trials": lambda to: ldiv.least_squares(
        lambda x, p: p * (x - 1).arctan(), to(0 * B + 20), to(B + 3)
    ),
    "least_squares by parts of steps": lambda to: ldiv.least_squares(
        lambda x, p: p * (x - 1).arctan(),
        to(0 * B + 3),
        to(B + 3),
        method="gauss-newton",
        loss="huber",
    ),
    "least_squares, a gradient of many sizes": lambda to: ldiv.least_squares(
        lambda x, p: torch.cat([p @ x - 1, (x - 2) ** 2 - 0.3, x.sin()]),
        to(0 * B),
        to(A),
        method="gauss-newton",
    ),
    "least_squares, too few steps": lambda to: ldiv.least_squares(
        lambda x, p: p @ x + x**3 - 1, to(0 * B), to(A), maxiter=2
    ),
    "least_squares, no steps": lambda to: ldiv.least_squares(
        lambda x, p: p @ x - 1, to(0 * B), to(A), maxiter=0
    ),
    "least_squares, no start": lambda to: ldiv.least_squares(lambda x, p: p / x, to(0 * B), to(B)),
    "least_squares, singular": lambda to: ldiv.least_squares(
        lambda x, p: p @ x - 1, to(0 * B), to(RANK_ONE)
    ),
    "no root": lambda to: ldiv.implicit(lambda x, p: p @ x - 1, to(B), to(A)),
    "tangent of what is singular": lambda to: ldiv.jvp(
        ldiv.solve, (to(NEAR), to(B)), (to(A), to(B))
    )[1],
    "cotangent of what is singular": lambda to: ldiv.vjp(ldiv.solve, to(NEAR), to(B))[1](to(B))[0],
    "derivative that is cut": lambda to: ldiv.hvp(lambda x: Once.apply(x).sum(), to(B), to(B)),
    "derivative that is partly cut": lambda to: ldiv.hvp(
        lambda x: (Once.apply(x) * x).sum(), to(B), to(B)
    ),
    "sizes that are unlike": lambda to: ldiv.hvp(
        lambda x: (x * x * 10.0 ** -torch.arange(0, 90, 15, device=x.device)).sum(), to(B), to(B)
    ),
    "nothing moves": lambda to: ldiv.hvp(lambda x: (x[:3] ** 2).sum(), to(B), to(B)),
    "gradient of a tangent": lambda to: gradient(
        lambda a: ldiv.jvp(ldiv.solve, (a, to(B)), (to(A).mT, to(B)))[1], to(A)
    ),
    "repeated": lambda to: gradient(lambda a: ldiv.eigh(a)[1] ** 2, to(torch.eye(N))),
    "singular, gradient": lambda to: gradient(lambda a: ldiv.qr(a)[1], to(RANK_ONE)),
    "badly scaled": lambda to: ldiv.solve(to(A * 10.0 ** torch.arange(0, 12 * N, 12)), to(B)),
    "badly scaled, positive": lambda to: ldiv.solve(to(unlike(A @ A.mT)), to(B), assume_a="pos"),
    "badly scaled rows": lambda to: ldiv.inv(to((A * 10.0 ** torch.arange(0, 12 * N, 12)).mT)),
    "badly scaled, one of a batch": lambda to: ldiv.slogdet(
        to(torch.stack([A, 1e-30 * SKEW, ODD]))
    )[1],
    "badly scaled, gradient": lambda to: gradient(lambda a: ldiv.solve(a, to(B)), to(ODD)),
    "small": lambda to: ldiv.cholesky(to(1e-300 * (A @ A.mT))),
    "Hilbert": lambda to: ldiv.solve(to(HILBERT), to(B)),
    "symmetric in its units": lambda to: ldiv.cholesky(to(unlike(A @ A.mT))),
    "large, finite": lambda to: gradient(lambda a: ldiv.solve(a, to(B)), to(1e170 * A)),
    "cg from its solution": lambda to: ldiv.solve(
        to(torch.eye(N)), to(B), assume_a="pos", method="cg", x0=to(B)
    ),
    "NaN for an error": lambda to: as_nan(lambda: ldiv.solve(to(SOME), to(B))),
    "NaN for an error, cholesky": lambda to: as_nan(
        lambda: ldiv.cholesky(to(torch.stack([A @ A.mT, -A @ A.mT])))
    ),
    "NaN for an error, gradient": lambda to: as_nan(
        lambda: gradient(lambda a: ldiv.slogdet(a)[1], to(SOME))
    ),
    "noted once": lambda to: noted(lambda: ldiv.solve(to(A), to(B), method="gmres", rtol=1e-6)),
    "noted once, ignored": lambda to: noted(lambda: quietly(partial(ldiv.solve, *map(to, ILL)))),
    "cg of zero": lambda to: ldiv.solve(to(A @ A.mT), to(0 * B), assume_a="pos", method="cg"),
    "without rows": lambda to: ldiv.lu(to(torch.zeros(2, 0, 3)))[1].sum(),
    "several rules, singular": lambda to: ldiv.lu_solve(ldiv.lu_factor(to(RANK_ONE)), to(B)),
    "several rules, ill-conditioned": lambda to: ldiv.cond(to(NEAR), 1),
    "several rules, refined": lambda to: ldiv.quad_form(to(ODD), to(B)),
    "several rules, gradient": lambda to: gradient(
        lambda a: ldiv.subspace_angles(a[:, :2], a[:, :2] + a[:, 2:4] / 3), to(A)
    ),
    "several rules, large gradient": lambda to: gradient(
        lambda a: ldiv.quad_form(a, to(1e200 * B)), to(1e200 * A)
    ),
    "gmres, restarted": lambda to: ldiv.solve(to(A), to(B), method="gmres", restart=2),
}

# what is there for one framework alone
IN_MEMORY: dict[str, Callable[[Any, Any], Any]] = {
    "matmul, out": lambda a, b: ldiv.matmul(a, a, out=torch.zeros_like(a).detach())
}
# a sparse positive definite matrix is factored there
AT = (
    torch.tensor([*range(N), *range(N - 1), *range(1, N)]),
    torch.tensor([*range(N), *range(1, N), *range(N - 1)]),
)


def chain(a: Any) -> Any:
    """A sparse positive definite matrix of numbers of a."""
    beside = a[0, 1:] / 8
    return ldiv.coo_array((torch.cat([a[0].abs() + 8, beside, beside]), AT), shape=(N, N))


SPARSE: dict[str, Callable[[Any, Any], Any]] = {
    "solve, sparse pos": lambda a, b: ldiv.solve(chain(a), b, assume_a="pos"),
    "solve, sparse pos, many": lambda a, b: ldiv.solve(chain(a), a, assume_a="pos", trans="T"),
    "factorized, sparse pos": lambda a, b: ldiv.factorized(chain(a), assume_a="pos").solve(b),
    "logdet, sparse pos": lambda a, b: ldiv.logdet(chain(a), assume_a="pos"),
    "slogdet, sparse pos": lambda a, b: ldiv.slogdet(chain(a), assume_a="pos")[1],
    "inverse_diagonal, sparse pos": lambda a, b: ldiv.inverse_diagonal(chain(a), assume_a="pos"),
    "selected_inverse, sparse pos": lambda a, b: (
        ldiv.selected_inverse(chain(a), assume_a="pos").data
    ),
    "trace_solve, sparse pos": lambda a, b: ldiv.trace_solve(chain(a), chain(a.mT), assume_a="pos"),
    "quad_form, sparse pos": lambda a, b: ldiv.quad_form(chain(a), b, assume_a="pos"),
    "gaussian_logpdf, sparse pos": lambda a, b: ldiv.gaussian_logpdf(b, precision=chain(a)),
}
if native.native is None:  # which analyses the patterns
    SPARSE = {}
# buffers that are overwritten where they are, and what checks derivatives
IN_PLACE: dict[str, Callable[[Any], Any]] = {
    "tape": lambda to: taped(to(A / N), to(B[:, None])),
    "gradcheck": lambda to: torch.tensor(float(bool(ldiv.gradcheck(ldiv.solve, to(A), to(B))))),
}
# iterations of many steps
LONG = 60
SPREAD, LONG_B = torch.logspace(0, 3, LONG), torch.ones(LONG)
ITERATIONS: dict[str, tuple[Any, dict[str, Any]]] = {
    "cg, long": (torch.diag(SPREAD), {"assume_a": "pos", "method": "cg"}),
    "minres, long": (torch.diag(SPREAD), {"assume_a": "sym", "method": "minres"}),
    "bicgstab, long": (torch.diag(SPREAD), {"method": "bicgstab"}),
    "gmres, long": (torch.diag(SPREAD), {"method": "gmres", "restart": 20}),
}


# under errstate(singular="nan"): nothing is waited for, whatever is found
UNREAD: dict[str, Callable[[Any], Any]] = {
    "or NaN, not positive": lambda a: ldiv.cholesky(a - 40 * on(a.device, EYE)),
    "or NaN, not finite": lambda a: ldiv.qr(a / 0)[1],
    "or NaN, NaN for eigh": lambda a: ldiv.eigh(sym(a) * torch.nan)[1],
    "or NaN, infinity for svd": lambda a: ldiv.svd(a / 0)[1],
    "or NaN, no triangle": lambda a: ldiv.solve_triangular(a - torch.diag(a.diag()), a),
    "or NaN, not symmetric": lambda a: ldiv.eigvalsh(torch.triu(a)),
    "or NaN, no derivative": lambda a: (
        ldiv.eigh(0 * sym(a) + on(a.device, EYE))[1] * on(a.device, B)
    ),
    "or NaN, dependent columns": lambda a: ldiv.qr(a[:, :1] * a[:1])[1],
    "or NaN, overflow": lambda a: ldiv.solve_triangular(1e-200 * a, 1e200 * a),
    "or NaN, no value of f": lambda a: ldiv.spectral_sum(lambda x: x.sqrt(), -pos(a), 2),
    "or NaN, tiny": lambda a: 1e150 * ldiv.cholesky(1e-300 * pos(a)),
    "or NaN, large": lambda a: ldiv.lu_factor(1e307 * a)[0] / 1e307,
    "or NaN, in its units": lambda a: ldiv.cholesky(unlike(pos(a))),
    "or NaN, complex": lambda a: ldiv.eigh(sym(a) + 1j * (a - a.mT))[0],
    # small beside 1, with which differences are compared: single precision has fewer digits
    "or NaN, single": lambda a: 1e-5 * ldiv.cholesky(pos(a).float()).double(),
    **{
        f"or NaN, {name}": within(DENSE[name])
        for name in (
            *("solve_triangular", "cholesky", "lu_factor", "lu", "qr", "svd", "svdvals"),
            *("eigh", "eigh, B", "eigvalsh", "norm, 2"),
            *("solve", "solve sym", "solve pos", "inv", "det", "logdet", "slogdet", "lstsq"),
            *("lu_solve", "quad_form", "trace_solve", "solve, diagonal", "pinv", "solve, batch"),
            *("gaussian_kl", "gaussian_logpdf", "solve_circulant", "kron", "factorized", "norm"),
            *("eigsh", "eigenspace", "spectral_sum", "spectral_function"),
        )
    },
    **{f"or NaN, {name}": within(f) for name, f in SPARSE.items() if "factorized" not in name},
}


def of_batch(f: Callable[[Any], Any], a: Any) -> Any:
    """A batch of three matrices, one of which is refused."""
    return f(torch.stack([a, 0 * a, 2 * a]))


UNREAD |= {
    f"or NaN of a batch, {name}": partial(of_batch, f)
    for name, f in {
        "solve": lambda a: ldiv.solve(a, a[:, :, :2]),
        "solve pos": lambda a: ldiv.solve(pos(a), on(a.device, B)[:, None], assume_a="pos"),
        "solve_triangular": lambda a: ldiv.solve_triangular(a, a[:, :, :2]),
        "inv": ldiv.inv,
        "det": lambda a: ldiv.det(a / 8),
        "logdet": lambda a: ldiv.logdet(pos(a)),
        "slogdet": lambda a: ldiv.slogdet(a)[1],
        "lstsq": lambda a: ldiv.lstsq(a[:, :, :3], a[:, :, 3:])[0],
        "cholesky": lambda a: ldiv.cholesky(pos(a)),
        "lu": lambda a: ldiv.lu(a)[1],
        "lu_solve": lambda a: ldiv.lu_solve(ldiv.lu_factor(a), a),
        "qr": lambda a: ldiv.qr(a)[1],
        "svd": lambda a: ldiv.svd(1 / a)[1],
        "eigh": lambda a: ldiv.eigh(sym(a))[1] ** 2,
        "eigh, B": lambda a: ldiv.eigh(sym(a), pos(a))[0],
        "eigsh": lambda a: (on(a.device, A) @ ldiv.eigsh(sym(a), 2)[1]) ** 2,
        "eigenspace": lambda a: (on(a.device, A) @ ldiv.eigenspace(sym(a), 2)[0]) ** 2,
        "pinv": lambda a: ldiv.pinv(a[:, :, :3]),
        "trace_solve": lambda a: ldiv.trace_solve(a, a.mT),
    }.items()
}


class Once(torch.autograd.Function):
    """x^3, whose derivative has none."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, y_bar: Any) -> Any:
        return 3 * ctx.saved_tensors[0] ** 2 * y_bar


def unlike(a: Any) -> Any:
    """a in units that are not alike, with rounding where entries are small beside their row."""
    d = 10.0 ** torch.arange(0, 3 * N, 3, device=a.device)
    return a * d[:, None] * d * (1 + on(a.device, TINY))


def as_nan(f: Any) -> Any:
    """Replace NaN by a number, which can be compared."""
    with ldiv.errstate(singular="nan"):
        y = f()
    assert y.isnan().any(), "a member is refused"
    return y.nan_to_num(7.0)


def twice(f: Any) -> Any:
    """Call twice: a refused factor is not found again as if it had passed."""
    try:
        f()
    except ldiv.SingularMatrixError:
        return f()


def taped(a: Any, b: Any) -> Any:
    """x <- A x + b, thrice, in one buffer; its state and the shadows."""
    buffers = [v.detach().clone() for v in (a, b, b, b)]
    a, b, x, y = (ldiv.Duplicated(v, torch.zeros_like(v)) for v in buffers)
    with ldiv.Tape() as tape:
        for _ in range(3):
            tape.matmul(a, x, out=y)
            tape.axpy(1.0, b, y)
            tape.copy(y, x)
    x.shadow[...] = 1.0
    tape.reverse()
    return torch.cat([x.value, b.shadow, a.shadow], 1)


def quietly(f: Any) -> Any:
    with ldiv.errstate(singular="ignore"):
        return f()


def noted(f: Any) -> Any:
    """The number of solves in the log, and their steps."""
    with solve_log.reading() as entries:
        f()
    return torch.tensor([float(len(entries)), *(float(x.iterations) for x in entries)])


def gradient(f: Any, a: Any) -> Any:
    a = a.detach().requires_grad_()
    return torch.autograd.grad(f(a).sum(), a)[0]


def first(f: Any, device: Any) -> list[Any]:
    a, b = (on(device, x).clone().requires_grad_() for x in (A, B))
    y = f(a, b)
    return [y.detach(), *torch.autograd.grad(y.sum(), (a, b), allow_unused=True)]


def further(f: Any, device: Any) -> list[Any]:
    """A second derivative in reverse, and by torch.func a gradient, a tangent and both."""
    a, b = (on(device, x).clone().requires_grad_() for x in (A, B))
    g = torch.autograd.grad(f(a, b).sum(), (a, b), create_graph=True, allow_unused=True)
    size = sum((x**2).sum() for x in g if x is not None)
    again = torch.autograd.grad(size, (a, b), allow_unused=True) if size.requires_grad else ()
    a, b = a.detach(), b.detach()
    loss = lambda a: f(a, b).sum()
    return [
        *again,
        torch.func.jvp(lambda a: f(a, b), (a,), (a.mT.contiguous(),))[1],
        torch.func.jvp(torch.func.grad(loss), (a,), (a.mT.contiguous(),))[1],
        torch.func.grad(loss)(a),
    ]


def mapped(f: Any, device: Any) -> list[Any] | None:
    """Map by torch.func, values and gradients of a batch; None where numbers decide what is
    computed.
    """
    a, b = on(device, A), on(device, B)
    loss = lambda a: f(a, b).sum()
    maps = [torch.func.vmap(g) for g in (lambda a: f(a, b), torch.func.grad(loss))]
    try:
        return [g(torch.stack([a, 2 * a])) for g in maps]
    except TypeError as error:
        if "numbers" not in str(error):
            raise
        return None


def looked_at(f: Any) -> dict[str, Any]:
    here = first(f, "cpu") + further(f, "cpu")
    batch = mapped(f, "cpu")
    gc.collect()  # a factor in garbage is one more to compare with
    with waits() as counted:
        there = first(f, DEVICE)
    number = counted.number
    with waits() as counted_further:
        there += further(f, DEVICE)
        batch_there = mapped(f, DEVICE)
    if batch and batch_there:
        here, there = here + batch, there + batch_there
    pairs = [(x, y) for x, y in zip(here, there, strict=True) if x is not None]
    return {
        "mapped": bool(batch and batch_there),
        "waits": number,
        "largest": max(counted.largest, counted_further.largest),
        "elsewhere": sum(y.device != DEVICE for _, y in pairs),
        "off": max(float((x - y.cpu()).abs().max() / x.abs().max().clamp(min=1)) for x, y in pairs),
    }


def at_host(f: Any) -> dict[str, Any]:
    f(A, B)
    with waits() as counted:
        try:
            f(*(x.to(DEVICE).requires_grad_() for x in (A, B)))
        except ldiv.EngineError as error:
            return {"refused": str(error), "largest": counted.largest}
    return {"refused": ""}


def counted(problem: tuple[Any, dict[str, Any]]) -> dict[str, Any]:
    """The steps of one solve, or the products of its cycles, and the waits for them."""
    a, options = problem
    with solve_log.reading() as entries:
        ldiv.solve(a, LONG_B, **options)
    there = a.to(DEVICE), LONG_B.to(DEVICE)
    with waits() as seen:
        ldiv.solve(*there, **options)
    steps = entries[0].iterations * options.get("restart", 1)
    return {"steps": steps, "waited": seen.number, "largest": seen.largest}


def unread(f: Any) -> dict[str, Any]:
    """Value, gradient and tangent."""

    @ldiv.errstate(singular="nan")
    def each(device: Any) -> list[Any]:
        a = on(device, A).clone().requires_grad_()
        y = f(a)
        tangent = torch.func.jvp(f, (a.detach(),), (a.detach().mT.contiguous(),))[1]
        return [y.detach(), torch.autograd.grad(y.sum(), a)[0], tangent]

    here = each("cpu")
    with waits() as seen:
        there = each(DEVICE)
    pairs = [(x, y.cpu()) for x, y in zip(here, there, strict=True)]
    return {
        "unread": seen.number,
        "nan": sum(bool(x.isnan().any()) for x, _ in pairs),
        "far": max(off_where_known(x, y) for x, y in pairs),
    }


def off_where_known(x: Any, y: Any) -> float:
    """The largest difference; infinite if NaN is elsewhere."""
    if not torch.equal(x.isnan(), y.isnan()):
        return float("inf")
    x, y = x.nan_to_num(0.0), y.nan_to_num(0.0)
    return float((x - y).abs().max() / x.abs().max().clamp(min=1))


def found(f: Any, device: Any) -> Any:
    """The numbers, or the error in its words, where numbers that are rounding alone are 0."""
    try:
        y = f(lambda x: x.to(device))
    except Exception as error:
        return re.sub(ROUNDING, "0", f"{type(error).__name__}: {error}")
    return y.detach().cpu() if isinstance(y, torch.Tensor) else "nothing was raised"


def hard(f: Any) -> dict[str, Any]:
    here = found(f, "cpu")
    gc.collect()
    entries = ldiv.cache_info().entries
    there = found(f, DEVICE)
    gc.collect()
    kept = ldiv.cache_info().entries - entries
    looks = {"kept": kept, "or_nan": apart_under_nan(f)}
    if isinstance(here, str) or isinstance(there, str):
        return {"here": str(here), "there": str(there), **looks}
    return {"here": "", "there": "", "apart": relative(here, there), **looks}


@ldiv.errstate(singular="nan")
def apart_under_nan(f: Any) -> float:
    """The distance of results without NaN, under the policy that puts NaN in place of errors."""
    here, there = (found(f, device) for device in ("cpu", DEVICE))
    if isinstance(here, str) or isinstance(there, str):
        return 0.0 if here == there else float("inf")
    return off_where_known(here, there)


def relative(x: Any, y: Any) -> float:
    off = (x - y).abs() / x.abs().clamp(min=torch.finfo(x.dtype).tiny)
    return float(torch.where(x == y, 0, off).max())


def main(names: list[str]) -> None:
    warnings.simplefilter("ignore")
    gc.freeze()  # what was imported is no garbage
    tables: tuple[tuple[dict[str, Any], Any], ...] = (
        (DENSE | IN_MEMORY | SPARSE, looked_at),
        (AT_HOST, at_host),
        (HARD | IN_PLACE, hard),
        (ITERATIONS, counted),
        (UNREAD, unread),
    )
    for table, look in tables:
        for name, f in table.items():
            if names and name not in names:
                continue
            line: dict[str, Any] = {"name": name, "error": None}
            try:
                line |= look(f)
            except Exception as error:
                if names:
                    raise
                line["error"] = f"{type(error).__name__}: {error}"
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
    # PyTorch's thread for the device would ask for an interpreter that is being torn down
    sys.stdout.flush()
    os._exit(0)
