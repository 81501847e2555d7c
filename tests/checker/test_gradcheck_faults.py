"""Seeded faults: gradcheck finds each of them, in the mode in which it is, and says what it
looks like where it can.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("jax")

import jax
import jax.numpy as jnp
import torch
from checker.wrong_derivatives import custom

import ldiv
from ldiv import (
    TooNoisyError,
    WrongDerivativeError,
    gradcheck,
    hermitian,
    positive_definite,
    symmetric,
    triangular,
)
from ldiv.core.rules.rule import bind
from ldiv.rules.solve import Solve
from ldiv.structures.dense import Dense

jax.config.update("jax_enable_x64", True)

N = 4
RNG = np.random.default_rng(11)
A = torch.tensor(RNG.standard_normal((N, N)) + 4 * np.eye(N))
B, X, Y = (torch.tensor(RNG.standard_normal((N, 2))) for _ in range(3))
V = X[:, 0]
Z = torch.complex(A, torch.tensor(RNG.standard_normal((N, N))))
S, H = A + A.mT, Z + Z.mH
W = torch.tensor(RNG.uniform(1, 2, (N, N)))
W = W + W.mT


def solve_by(vjp, jvp=None):
    """A^-1 b, whose cotangents are vjp(lam, x, A, g) with lam = A^-H g."""

    def pull(g, a, b):
        return vjp(torch.linalg.solve(a.mH, g), torch.linalg.solve(a, b), a, g)

    return custom(torch.linalg.solve, pull, jvp)


def eigenvalues_by(vjp):
    """The eigenvalues of a Hermitian matrix, with vjp(g, u)."""
    return custom(torch.linalg.eigvalsh, lambda g, a: vjp(g, torch.linalg.eigh(a)[1]))


def cholesky_by(phi):
    def pull(g, a):
        l = torch.linalg.cholesky(a)
        p = phi(l.mT @ g)
        s = torch.linalg.solve_triangular(
            l.mT, torch.linalg.solve_triangular(l, p, upper=False, left=False), upper=True
        )
        return (s + s.mT) / 2

    return custom(torch.linalg.cholesky, pull)


def projector_by(keep):
    """The projector on the two lowest eigenvectors, with the pairs that `keep` lets through."""

    def project(a):
        u = torch.linalg.eigh(a)[1][:, :2]
        return u @ u.mT

    def pull(g, a):
        w, u = torch.linalg.eigh(a)
        low = (torch.arange(N) < 2).double()
        apart = low[:, None] - low
        gap = w[:, None] - w
        f = torch.where((apart != 0) & keep(gap), apart / torch.where(gap == 0, 1, gap), 0)
        return u @ (f * (u.mT @ (g + g.mT) / 2 @ u)) @ u.mT

    return custom(project, pull)


def pivoted(shift):
    """A^-1 b, whose adjoint solve takes the row exchanges of LU, moved by `shift`."""

    def pull(g, a, b):
        p, l, u = torch.linalg.lu(a)
        lam = torch.roll(p, shift, 0) @ torch.linalg.solve(l.mT, torch.linalg.solve(u.mT, g))
        return -lam @ torch.linalg.solve(a, b).mT, lam

    return custom(torch.linalg.solve, pull)


def kept(vjp_of):
    """A cotangent that is computed with what it kept of its first call."""
    memory: list[Any] = []

    def pull(g, *xs):
        memory.append([x.detach().clone() for x in xs])
        return vjp_of(g, *(memory[0] if memory else xs))

    return pull


def duplicates(drop):
    """y = A x for entries (0,0), (0,0), (1,1), (2,0) given by their values."""
    row, col = torch.tensor([0, 0, 1, 2]), torch.tensor([0, 0, 1, 0])

    def forward(values, x):
        return torch.zeros(3, dtype=values.dtype).index_add(0, row, values * x[col])

    def pull(g, values, x):
        bar = g[row] * x[col]
        return bar * torch.tensor([1.0, 0.0 if drop else 1.0, 1.0, 1.0]), torch.zeros_like(
            x
        ).index_add(0, col, g[row] * values)

    f = custom(forward, pull)
    return lambda a, x: f(a.data, x)


def of_first_batch(info, dims, x):
    x = x.movedim(dims[0], 0)
    return (x[:1] ** 3).expand(x.shape), 0


def lower_form(v):
    """v^T M v for the symmetric matrix M whose lower triangle is that of the argument."""
    return lambda a: v @ (torch.tril(a) + torch.tril(a, -1).mT) @ v


def pair_by(vjp):
    """(sin x, x y), a function with two outputs, as one custom function."""

    class Two(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x, y):
            return torch.sin(x), x * y

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx, g, h):
            return vjp(g, h, *ctx.saved_tensors)

    return Two.apply


class WrongRule(Solve):
    """The cotangent of A with the wrong sign."""

    def vjp(self, need, cotangents, out, *args):
        p_bar, *rest = super().vjp(need, cotangents, out, *args)
        return None if p_bar is None else -p_bar, *rest


class WrongTangent(Solve):
    """Half of the tangent."""

    def jvp(self, tangents, out, *args):
        return tuple(None if t is None else t / 2 for t in super().jvp(tangents, out, *args))


def ruled(kind):
    return lambda a, b: bind(kind(Dense(N, N)), a, b)[0]


@jax.custom_vjp
def jax_square(x):
    return x**2


jax_square.defvjp(lambda x: (x**2, x), lambda x, g: (-2 * x * g,))


@jax.custom_jvp
def jax_modulus(x):
    return x * x


jax_modulus.defjvp(lambda xs, ts: (xs[0] * xs[0], jnp.conj(2 * xs[0] * ts[0])))


@jax.custom_jvp
def jax_cube(x):
    return x**3


jax_cube.defjvp(lambda xs, ts: (xs[0] ** 3, 3 * jax.lax.stop_gradient(xs[0]) ** 2 * ts[0]))


class Missing(torch.autograd.Function):
    """A linear function of A without the derivative off the diagonal."""

    generate_vmap_rule = True

    @staticmethod
    def forward(a):
        return a.sum() + 0.5 * a[0, 1]

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, g):
        return g * torch.eye(3, dtype=torch.float64)


class OldStyle(torch.autograd.Function):
    """x^2, twice its derivative, without vmap and without a derivative of its derivative."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**2

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, g):
        return 4 * g * ctx.saved_tensors[0]


@dataclass
class Fault:
    f: Any
    args: tuple[Any, ...]
    mode: str = "vjp"
    looks: str = ""


def cube(vjp=lambda g, x: 3 * x**2 * g, jvp=lambda ts, x: 3 * x**2 * ts[0], **kw):
    return custom(lambda x: x**3, vjp, jvp, **kw)


def right_solve(lam, x, a, g):
    return -lam @ x.mH, lam


def solve_pushed(fixed):
    """A solve whose tangent does not change with the matrix, or with the solution."""

    def jvp(tangents, a, b):
        x = PLAIN(a, b)
        a, x = (a.detach(), x) if fixed == "matrix" else (a, x.detach())
        return PLAIN(a, tangents[1] - tangents[0] @ x)

    return solve_by(right_solve, jvp)


PLAIN = torch.linalg.solve
TRIANGLE = torch.tril(A)
SPARSE = ldiv.coo_array(
    (torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.float64), ([0, 0, 1, 2], [0, 0, 1, 0])),
    shape=(3, 2),
)
DEFINITE = A @ A.mT
CLUSTER = torch.diag(torch.tensor([1.0, 2.0, 2.05, 5.0], dtype=torch.float64)) + 0.01 * S

FAULTS = {
    "wrong sign": Fault(
        solve_by(lambda lam, x, a, g: (lam @ x.mT, lam)), (A, B), looks="wrong sign"
    ),
    "missing transpose": Fault(
        solve_by(lambda lam, x, a, g: (-(x @ lam.mT), lam)), (A, B), looks="missing transpose"
    ),
    "missing conjugate": Fault(
        solve_by(lambda lam, x, a, g: (-(lam @ x.mH).conj(), lam)),
        (Z, B + 0j),
        looks="missing conjugate, or",
    ),
    "missing conjugate transpose": Fault(
        solve_by(lambda lam, x, a, g: (-(lam @ x.mH).mH, lam)),
        (Z, B + 0j),
        looks="conjugate transpose",
    ),
    "A instead of A^H in the adjoint": Fault(
        solve_by(lambda lam, x, a, g: (-lam @ x.mT, PLAIN(a, g))), (A, B)
    ),
    "missing product with x": Fault(
        solve_by(lambda lam, x, a, g: (-lam @ torch.ones_like(x).mT, lam)), (A, B)
    ),
    "cotangents exchanged": Fault(custom(torch.mul, lambda g, x, y: (x * g, y * g)), (X, Y)),
    "missing factor 2": Fault(
        custom(torch.square, lambda g, x: x * g), (X,), looks="missing factor 2"
    ),
    "a factor 2 too much": Fault(
        custom(torch.exp, lambda g, x: 2 * x.exp() * g), (X,), looks="factor 2 too much"
    ),
    "slightly wrong": Fault(custom(torch.exp, lambda g, x: 1.00001 * x.exp() * g), (X,)),
    "off-diagonals of a triangle not doubled": Fault(
        custom(lower_form(V), lambda g, a: g * torch.tril(torch.outer(V, V))),
        (S,),
        looks="not doubled",
    ),
    "off-diagonals of a symmetric matrix not doubled": Fault(
        eigenvalues_by(lambda g, u: torch.tril((u * g) @ u.mT)),
        (symmetric(torch.tensor([[2.0, 1.0], [1.0, 5.0]]).double()),),
        looks="not doubled",
    ),
    "off-diagonals doubled twice": Fault(
        eigenvalues_by(lambda g, u: (u * g) @ u.mT * (2 - torch.eye(N, dtype=torch.float64))),
        (symmetric(S),),
        looks="once too often",
    ),
    "wrong triangle": Fault(
        custom(
            lower_form(V),
            lambda g, a: g * (2 * torch.triu(torch.outer(V, V), 1) + torch.diag(V**2)),
        ),
        (S,),
        looks="wrong triangle",
    ),
    "eigenvalues, missing conjugate": Fault(
        eigenvalues_by(lambda g, u: ((u * g) @ u.mH).conj()),
        (hermitian(H),),
        looks="missing conjugate, or",
    ),
    "gradient beyond the triangle": Fault(
        custom(
            lambda l, b: torch.linalg.solve_triangular(l, b, upper=False),
            lambda g, l, b: right_solve(PLAIN(l.mT, g), PLAIN(l, b), l, g),
        ),
        (A, B),
    ),
    "diagonal of a Cholesky factor not halved": Fault(
        cholesky_by(torch.tril), (symmetric(DEFINITE),)
    ),
    "logdet by A^-1": Fault(
        custom(lambda a: torch.logdet(a), lambda g, a: g * torch.linalg.inv(a)),
        (A,),
        looks="missing transpose",
    ),
    "dropped duplicate": Fault(duplicates(True), (SPARSE, X[:2, 0])),
    "stale factor": Fault(
        custom(PLAIN, kept(lambda g, a, b: (-PLAIN(a.mT, g) @ PLAIN(a, b).mT, PLAIN(a.mT, g)))),
        (A, B),
    ),
    "truncated cluster": Fault(projector_by(lambda gap: gap.abs() > 0.1), (symmetric(CLUSTER),)),
    "off-by-one in the pivots": Fault(pivoted(1), (torch.roll(A, 1, 0), B)),
    "a derivative cut off": Fault(lambda x: x.detach() * x, (X,), looks=""),
    "nothing but zeros": Fault(custom(torch.sin, lambda g, x: 0 * g), (X,), looks="it is zero"),
    "not a number": Fault(custom(torch.sin, lambda g, x: g * torch.nan), (X,), looks="not finite"),
    "mean instead of sum": Fault(
        custom(lambda x, b: x + b, lambda g, x, b: (g, g.mean(0))), (X, X[0])
    ),
    "imaginary part forgotten": Fault(
        custom(lambda x: torch.exp(1j * x), lambda g, x: (g.conj() * torch.exp(1j * x)).real), (X,)
    ),
    "second output forgotten": Fault(pair_by(lambda g, h, x, y: (g * x.cos(), h * x)), (X, Y)),
    "one entry": Fault(
        custom(torch.exp, lambda g, x: x.exp() * g + torch.eye(N, 2, dtype=torch.float64)), (X,)
    ),
    "diagonal of a unit triangle": Fault(
        custom(
            lambda l: torch.linalg.solve_triangular(l, B, upper=False, unitriangular=True),
            lambda g, l: (
                torch.linalg.solve_triangular(l.mT, g, upper=True, unitriangular=True) @ B.mT
            ),
        ),
        (triangular(TRIANGLE, unit_diagonal=True),),
    ),
    "wrong sign, forward": Fault(
        cube(jvp=lambda ts, x: -3 * x**2 * ts[0]), (X,), "jvp", looks="wrong sign"
    ),
    "forward is not reverse": Fault(
        cube(jvp=lambda ts, x: 3.001 * x**2 * ts[0]), (X,), "vjp against jvp"
    ),
    "no second order, reverse": Fault(
        cube(vjp=lambda g, x: 3 * x.detach() ** 2 * g), (X,), "reverse over reverse"
    ),
    "no second order in the cotangent": Fault(
        cube(vjp=lambda g, x: 3 * x**2 * g.detach()), (X,), "reverse over reverse"
    ),
    "no second order, forward": Fault(
        cube(jvp=lambda ts, x: 3 * x.detach() ** 2 * ts[0]), (X,), "reverse over forward"
    ),
    "no second order in the solution": Fault(
        solve_pushed("solution"), (A, B), "forward over forward"
    ),
    "no second order in the matrix": Fault(solve_pushed("matrix"), (A, B), "forward over forward"),
    "wrong under vmap": Fault(cube(batched=of_first_batch), (X,), "vmap"),
    "a small output beside a large one": Fault(
        lambda x: (1e9 * x, cube(vjp=lambda g, x: 3.1 * x**2 * g)(x)), (X,)
    ),
    "an old function": Fault(OldStyle.apply, (X,), looks="factor 2 too much"),
    "JAX, wrong sign": Fault(jax_square, (jnp.asarray(X.numpy()),), looks="wrong sign"),
    "JAX, missing conjugate": Fault(
        jax_modulus, (jnp.asarray(Z.numpy()),), "jvp", looks="missing conjugate, or"
    ),
    "JAX, no second order": Fault(jax_cube, (jnp.asarray(X.numpy()),), "forward over forward"),
    "NumPy rule, wrong sign": Fault(ruled(WrongRule), (A.numpy(), B.numpy()), looks="wrong sign"),
    "NumPy rule, half a tangent": Fault(
        ruled(WrongTangent), (A.numpy(), B.numpy()), "jvp", looks="missing factor 2"
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found(name):
    fault = FAULTS[name]
    with pytest.raises(WrongDerivativeError) as raised:
        gradcheck(fault.f, *fault.args)
    report = gradcheck(fault.f, *fault.args, raise_exception=False)
    assert fault.mode in {f.mode for f in report.failures}
    first = ("vjp", "jvp", "vjp against jvp")
    if fault.mode not in first:
        assert not {f.mode for f in report.failures} & set(first), "its first derivatives are right"
    assert fault.looks in str(raised.value)


def test_a_small_entry_is_judged_at_its_own_scale():
    a = torch.diag(torch.tensor([1.0, 2.0, 3.0])).double()
    a[0, 1] = 1e-17
    report = gradcheck(Missing.apply, a, modes=["vjp"], exhaustive=True, raise_exception=False)
    assert "[0, 1]: WRONG" in str(report).replace(" (6 of 9 entries)", "")


def test_an_argument_is_not_accused_of_the_other():
    f = custom(torch.mul, lambda g, x, y: (g * y, g * torch.nan))
    report = gradcheck(f, X, Y, modes=["vjp"], raise_exception=False)
    assert [g.failed for g in report.findings] == [False, True]


CONTROLS = {
    "solve": (solve_by(right_solve), (A, B)),
    "complex solve": (solve_by(right_solve), (Z, B + 0j)),
    "eigenvalues": (eigenvalues_by(lambda g, u: (u * g) @ u.mH), (hermitian(H),)),
    "cholesky": (
        cholesky_by(lambda m: torch.tril(m) - torch.diag_embed(m.diagonal(dim1=-2, dim2=-1)) / 2),
        (symmetric(DEFINITE),),
    ),
    "projector": (projector_by(lambda gap: gap != 0), (symmetric(CLUSTER),)),
    "pivots": (pivoted(0), (torch.roll(A, 1, 0), B)),
    "duplicates": (duplicates(False), (SPARSE, X[:2, 0])),
    "pair": (pair_by(lambda g, h, x, y: (g * x.cos() + h * y, h * x)), (X, Y)),
    "cube": (cube(), (X,)),
    "triangle": (
        custom(
            lower_form(V),
            lambda g, a: g * (2 * torch.tril(torch.outer(V, V), -1) + torch.diag(V**2)),
        ),
        (S,),
    ),
}


@pytest.mark.parametrize("name", CONTROLS)
def test_without_its_fault_it_is_right(name):
    f, args = CONTROLS[name]
    report = gradcheck(f, *args, raise_exception=False)
    wrong = {
        (g.mode, str(g))
        for g in report.failures
        if g.mode in ("vjp", "jvp", "reverse over reverse", "vmap")
    }
    assert not wrong and not report.noisy


def test_a_few_pairs_of_a_large_matrix():
    """The gradient of torch.lobpcg was found wrong here (2.13)."""
    n, k = 400, 6
    q, c = (
        torch.linalg.qr(torch.tensor(RNG.standard_normal((n, n))))[0],
        torch.tensor(RNG.standard_normal((n, n))),
    )
    a = (q * torch.linspace(1, 50, n, dtype=torch.float64)) @ q.mT

    def form(eigenvectors):
        return lambda a: (lambda u: (u.mT @ c @ u) ** 2)(eigenvectors(a))

    gradcheck(
        form(lambda a: ldiv.eigsh(a, k, which="LA")[1]),
        positive_definite((a + a.mT) / 2),
        modes=["vjp"],
    )


def test_noise_is_not_judged():
    rng = np.random.default_rng(3)
    with pytest.raises(TooNoisyError, match="random numbers"):
        gradcheck(lambda x: x + 0.1 * rng.standard_normal(), X)
