"""The parts of a marginal likelihood, on small hard problems, against mpmath in 50 digits:

    laplace            a prior chain of any stiffness, likelihoods with one mode or several, starts far away
    cholesky_update    graded factors; downdates that leave much, little, nothing or less than that
    schur_complement   the matrices of `families`, sparse or dense
    kron, shift        factors that are definite, indefinite, of low rank or multiples of I

An answer is as accurate as its condition allows; a problem that is well-posed is not refused, and one
that is not positive definite, or singular, is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np
import torch

import ldiv
from adversarial.case import Case, Wrong
from adversarial.families import REGULAR
from adversarial.problems import Problem

Rng = np.random.Generator
Array = np.ndarray[Any, Any]
DTYPES = ("float32", "float64", "complex64", "complex128")
REFUSED = ldiv.SingularMatrixError, ldiv.NotPositiveDefiniteError, ldiv.ConvergenceError
ROUNDINGS = 500.0  # for each unknown


def exact(a: Array) -> Any:
    return mp.matrix(np.atleast_2d(a).tolist())


def rounded(a: Any) -> Array:
    """A matrix of mpmath in double precision."""
    kind = complex if any(isinstance(x, mp.mpc) for x in a) else float
    return np.array([[kind(a[i, j]) for j in range(a.cols)] for i in range(a.rows)])


def judge(what: str, off: Any, allowed: Any, details: Any) -> None:
    if not np.all(np.abs(off) <= allowed):
        raise Wrong(f"{what}: wrong", (details, np.max(np.abs(off) / allowed)))


# -- laplace ------------------------------------------------------------------

LIKELIHOODS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "poisson": lambda m, x, y: m.exp(x) - y * x,
    "gamma": lambda m, x, y: x + y * m.exp(-x),
    "binomial": lambda m, x, y: 7 * m.log(1 + m.exp(x)) - (y % 7) * x,
    "student": lambda m, x, y: 2.5 * m.log(1 + (x - y) ** 2 / 4),
    "wells": lambda m, x, y: (x**2 - 1) ** 2 + x * y / 100,
}
CONVEX = "poisson", "gamma", "binomial"


def laplace(rng: Rng) -> str:
    name = str(rng.choice([*LIKELIHOODS]))
    n, phi = int(rng.integers(1, 6)), LIKELIHOODS[name]
    y = np.round(10.0 ** rng.uniform(-1, 3, n), 3)
    s, level = 10.0 ** rng.uniform(-3, 4), 10.0 ** rng.uniform(-3, 1)
    start = rng.uniform(-1, 1, n) * rng.choice([0.1, 3.0, 10.0, 40.0])
    in_jax = bool(rng.random() < 0.5)
    xp: Any = jnp if in_jax else torch

    def f(x: Any, s: Any) -> Any:
        chain = s * ((x[1:] - x[:-1]) ** 2).sum() + level * (x**2).sum()
        return phi(xp, x, xp.asarray(y)).sum() + chain / 2 - n * xp.log(s) / 2

    try:
        value, mode, slope = (of_jax if in_jax else of_torch)(f, start, s)
    except REFUSED as error:
        if name in CONVEX and abs(start).max() <= 10:
            raise Wrong(f"laplace, {name}: refused", error) from error
        return "refused"
    with mp.workdps(50):
        expected = of_mpmath(partial(phi, mp), [mp.mpf(t) for t in y], s, level, mode)
    eps = n * ROUNDINGS * float(np.finfo(float).eps) * expected.condition
    judge(
        f"laplace, {name}: mode", mode - expected.mode, eps * (1 + abs(expected.mode).max()), mode
    )
    judge(f"laplace, {name}: value", value - expected.value, eps * expected.size, value)
    judge(f"laplace, {name}: slope", slope - expected.slope, eps * expected.slopes, slope)
    return "right"


def of_torch(f: Any, start: Array, s: float) -> tuple[float, Array, float]:
    at = torch.tensor(s, dtype=torch.float64, requires_grad=True)
    found = ldiv.laplace(f, torch.from_numpy(start), at)
    (slope,) = torch.autograd.grad(found.value, at)
    return found.value.item(), found.mode.detach().numpy(), slope.item()


def of_jax(f: Any, start: Array, s: float) -> tuple[float, Array, float]:
    with jax.enable_x64(True):
        found = lambda s: ldiv.laplace(f, jnp.asarray(start), s)
        value, slope = jax.value_and_grad(lambda s: found(s).value)(jnp.asarray(s))
        return float(value), np.asarray(found(jnp.asarray(s)).mode), float(slope)


class Expected:
    """The mode near x, the value there, its derivative in s, and the sizes of what they sum."""

    def __init__(self, phi: Any, y: Any, s: float, level: float, x: Array) -> None:
        n, at = len(y), mp.matrix(x.tolist())
        Q = mp.zeros(n)  # of the chain: s Q + level I is the precision of the prior
        for i in range(n - 1):
            Q[i, i], Q[i + 1, i + 1] = Q[i, i] + 1, Q[i + 1, i + 1] + 1
            Q[i, i + 1] = Q[i + 1, i] = -1
        prior = s * Q + level * mp.eye(n)

        def of(order: int) -> list[Any]:
            return [mp.diff(lambda t, y=y[i]: phi(t, y), at[i], order) for i in range(n)]

        for _ in range(20):
            H, g = prior + mp.diag(of(2)), prior * at + mp.matrix(of(1))
            at = at - mp.lu_solve(H, g)
        Z, third, g_s = H**-1, of(3), Q * at
        if min(mp.eigsy(H, eigvals_only=True)) <= 0:
            raise Wrong("laplace: no minimum", at)
        move = -Z * g_s
        terms = [phi(at[i], y[i]) for i in range(n)]
        quadratic = (at.T * prior * at)[0] / 2, -n * mp.log(s) / 2
        logdet = mp.log(mp.det(H))
        whole = sum(terms) + sum(quadratic)
        self.mode = np.array([float(t) for t in at])
        self.value = float(-whole - logdet / 2 + n * mp.log(2 * mp.pi) / 2)
        self.size = float(n + sum(map(abs, terms)) + sum(map(abs, quadratic)) + abs(logdet))
        parts = [
            (at.T * g_s)[0] / 2 - mp.mpf(n) / (2 * s),
            mp.fsum((Z * Q)[i, i] for i in range(n)) / 2,
        ]
        parts += [Z[i, i] * third[i] * move[i] / 2 for i in range(n)]
        self.slope = float(-sum(parts))
        self.slopes = float(n / s + sum(map(abs, parts)))
        scale = np.sqrt(np.diag(rounded(H)))
        self.condition = float(np.linalg.cond(rounded(H) / np.outer(scale, scale)))


of_mpmath = Expected

# -- updates of a factor ------------------------------------------------------


def drawn(rng: Rng, dtype: str, *shape: int) -> Array:
    x = rng.standard_normal(shape)
    if dtype.startswith("complex"):
        x = x + 1j * rng.standard_normal(shape)
    return x.astype(dtype)


def update(rng: Rng) -> str:
    dtype, n, down = str(rng.choice(DTYPES)), int(rng.integers(1, 7)), bool(rng.random() < 0.6)
    eps = float(np.finfo(dtype).eps)
    units = 10.0 ** (rng.integers(-6, 7, n) * rng.integers(0, 2))
    L = np.tril(drawn(rng, dtype, n, n)) / 2
    np.fill_diagonal(L, 10.0 ** rng.uniform(-1, 1, n))
    w = drawn(rng, dtype, n)
    left = float(rng.choice([0.9, 0.1, 1e-2, 30 * eps**0.5, eps, 0.0, -eps, -0.1]))
    w = w * (math.sqrt(1 - left) / np.linalg.norm(w))
    L, v = ((units[:, None] * a.reshape(n, -1)).astype(dtype) for a in (L, L @ w))
    v = v[:, 0] if rng.random() < 0.5 else v
    with mp.workdps(50):
        factor, column = exact(L), exact(v.reshape(n, 1))
        half = mp.lu_solve(factor, column)
        left = float(1 - mp.norm(half) ** 2) if down else 1.0
        M = factor * factor.H + (-1 if down else 1) * column * column.H
        condition = np.linalg.cond(L / np.linalg.norm(L, axis=1, keepdims=True))
        unsure = ROUNDINGS * n * eps * condition
        try:
            found = ldiv.cholesky_update(L, v, downdate=down)
        except REFUSED as error:
            if left > unsure:
                raise Wrong("update: refused", (left, unsure, error)) from error
            return "refused"
        if left < -unsure:
            raise Wrong("update: not refused", (left, found))
        if np.triu(found, 1).any() or not (found.diagonal().real > 0).all():
            raise Wrong("update: no factor", found)
        off = rounded(exact(found) * exact(found).H - M)
    sizes = np.linalg.norm(np.hstack([L, v.reshape(n, 1)]).astype(complex), axis=1)
    judge(f"update, {dtype}", off, ROUNDINGS * n * eps * np.outer(sizes, sizes), (L, v, down))
    return "right"


# -- complements --------------------------------------------------------------


def complement(rng: Rng) -> str:
    family = REGULAR[rng.integers(len(REGULAR))]
    a = family(rng, int(rng.integers(2, 8)))
    n = len(a)
    if n < 2 or n > 40:
        return "too large"
    keep = rng.permutation(n)[: rng.integers(1, n)]
    rest = np.setdiff1d(np.arange(n), keep)
    posed = Problem(family.__name__, a[np.ix_(rest, rest)])
    A = a if rng.random() < 0.5 else ldiv.asarray(a).tosparse()
    try:
        found = ldiv.schur_complement(A, keep)
    except REFUSED as error:
        if posed.verdict == "regular":
            raise Wrong("schur_complement: refused", error) from error
        return "refused"
    if posed.verdict == "singular":
        raise Wrong("schur_complement: not refused", (a, keep))
    kk, kr, rk = (a[np.ix_(*i)] for i in ((keep, keep), (keep, rest), (rest, keep)))
    with mp.workdps(50):
        inverse = exact(posed.a) ** -1
        expected = rounded(exact(kk) - exact(kr) * inverse * exact(rk))
        size = np.abs(rounded(inverse))
    # the solution of a system whose entries have changed by rounding
    bound = abs(kk) + abs(kr) @ size @ abs(posed.a) @ size @ abs(rk)
    allowed = ROUNDINGS * n * float(np.finfo(float).eps) * bound.max()
    judge("schur_complement", found - expected, allowed + 1e-300, (a, keep))
    return "right"


# -- Kronecker products and a multiple of the identity --------------------------


def hermitian(rng: Rng, dtype: str) -> Array:
    n = int(rng.integers(1, 5))
    q = np.linalg.qr(drawn(rng, dtype, n, n))[0]
    kind, spread = rng.integers(5), 10.0 ** rng.uniform(-6, 3, n)
    values = (
        np.ones(n),
        rng.integers(-2, 3, n),
        rng.integers(0, 2, n),
        spread,
        rng.normal(size=n),
    )[kind]
    a = (q * values) @ q.conj().T if rng.random() < 0.8 else np.diag(values).astype(dtype)
    return ((a + a.conj().T) / 2).astype(dtype)


def kronecker(rng: Rng) -> str:
    dtype = str(rng.choice(DTYPES))
    a, b = hermitian(rng, dtype), hermitian(rng, dtype)
    eps = float(np.finfo(dtype).eps)
    s = float(np.float32(rng.choice([1, -1], p=[0.8, 0.2]) * 10.0 ** rng.integers(-9, 4)))
    with mp.workdps(50):
        D = exact(np.kron(a.astype(complex), b.astype(complex))) * 0
        n, k = len(a) * len(b), len(b)
        for i in range(n):
            for j in range(n):
                D[i, j] = mp.mpmathify(complex(a[i // k, j // k])) * mp.mpmathify(
                    complex(b[i % k, j % k])
                ) + (s if i == j else 0)
        det = mp.det(D)
        values = np.linalg.eigvalsh(rounded(D))
        condition = abs(values).max() / max(abs(values).min(), 1e-300)
        ill = condition * n * ROUNDINGS * eps
        x = drawn(rng, dtype, n)
        try:
            K = ldiv.kron(
                torch.from_numpy(a),
                torch.from_numpy(b),
                shift=torch.tensor(s, dtype=torch.from_numpy(a).real.dtype),
            )
            sign, log = ldiv.slogdet(K)
            found = ldiv.solve(K, torch.from_numpy(x)).numpy()
        except REFUSED as error:
            if ill < 1:
                raise Wrong("kron, shift: refused", (a, b, s, error)) from error
            return "refused"
        if ill >= 1:
            return "ill-posed"
        inverse = D**-1
        judge(
            f"kron, shift: sign, {dtype}",
            complex(sign) - complex(mp.sign(det.real)),
            1e-3,
            (a, b, s),
        )
        log_size = float(abs(mp.log(abs(det)))) + n
        judge(
            f"kron, shift: log, {dtype}",
            float(log) - float(mp.log(abs(det))),
            ill * log_size,
            (a, b, s),
        )
        expected = rounded(inverse * exact(x.reshape(n, 1)))[:, 0]
        judge(
            f"kron, shift: solve, {dtype}",
            found - expected,
            ill * np.linalg.norm(expected),
            (a, b, s),
        )
        trace = sum(inverse[i, i].real for i in range(n))
        t = torch.tensor(s, dtype=torch.from_numpy(a).real.dtype, requires_grad=True)
        p = torch.from_numpy(a).requires_grad_()
        log = ldiv.slogdet(ldiv.kron(p, torch.from_numpy(b), shift=t))[1]
        slope, bar = torch.autograd.grad(log, (t, p))
    judge(
        f"kron, shift: trace, {dtype}",
        float(slope) - float(trace),
        ill * float(np.abs(1 / values).sum()),
        (a, b, s),
    )
    # d logdet = tr(D^-1 (da x b)), for da = a, which is Hermitian: n - s tr D^-1
    along = float((bar.conj() * p.detach()).sum().real)
    judge(
        f"kron, shift: slope, {dtype}",
        along - (n - s * float(trace)),
        ill * (n + abs(s) * float(np.abs(1 / values).sum())),
        (a, b, s),
    )
    return "right"


KINDS: dict[str, Callable[[Rng], str]] = {
    "laplace": laplace,
    "cholesky_update": update,
    "schur_complement": complement,
    "kron, shift": kronecker,
}


def look(name: str, seed: int, number: int) -> str:
    return KINDS[name](np.random.default_rng([seed, number]))


def cases(seed: int) -> Iterator[Case]:
    number = 0
    while True:
        for name in KINDS:
            source = f"from adversarial.marginals import look\nlook({name!r}, {seed}, {number})"
            yield Case(name, number, partial(look, name, seed, number), partial(str, source))
        number += 1
