"""Problems that look singular and are not: each is determined, and so must its answer be.

Damped least squares over 20 decades, graded systems, Riccati equations in any units, losses of whole
clusters of eigenvalues, determinants of low rank, factorizations that are put together again. The
laws of `tests/laws` and `tests/linalg` have the references, in 50 digits and more; here they are drawn
at random. A refusal is a fault.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from importlib import import_module
from typing import Any

import mpmath
import numpy as np
import torch

import ldiv
from adversarial.case import Case, Wrong

Rng = np.random.Generator
DTYPES = ("float32", "float64", "complex128")


def laws(name: str) -> Any:
    return import_module(name)


def near(found: Any, right: Any, tolerance: float, name: str) -> None:
    found = np.asarray(found.detach().resolve_conj() if hasattr(found, "detach") else found)
    error = abs(found - right).max() / (abs(right).max() or 1)
    if not error < tolerance:
        raise Wrong(name, f"off by {error:.1e}, allowed {tolerance:.1e}")


def damped(rng: Rng) -> str:
    """The value, the gradient and one second derivative of a damped least squares problem."""
    ways = laws("laws.test_two_ways")
    dtype, shape = str(rng.choice(DTYPES)), tuple(int(k) for k in rng.integers(1, 12, 2))
    d = 0.0 if rng.random() < 0.1 else 10 ** rng.uniform(-20, 2)
    name = str(rng.choice(list(ways.WAYS)))
    A, b, g, V = (ways.draw(s, dtype, rng) for s in (shape, shape[:1], shape[1:], shape))
    with mpmath.workdps(90):
        right = [ways.numbers(*z) for z in zip(ways.exact(A, b, g, d), (g, A, b), strict=True)]
        t, M, W = mpmath.mpf(10) ** -30, *(mpmath.matrix(z.tolist()) for z in (A, V))
        up, down = (ways.exact(M + s * W, b, g, d)[1] for s in (t, -t))
        second = ways.numbers((up - down) / (2 * t), A)
    s = np.linalg.svd(A, compute_uv=False)
    x, rest = right[0], np.linalg.norm(b - A @ right[0])
    # x is as far off as a residual that is large beside it makes it (Bjorck, 1996, section 1.4.3)
    beside = 1 + rest / (s[0] * np.linalg.norm(x) or 1)
    tolerance = 10 * (s[0] / s[-1]) ** 2 * ways.TOLERANCE[dtype] * beside
    if tolerance > 1e-2:
        return "badly conditioned"
    x, pullback = ldiv.vjp(lambda A, b: ways.WAYS[name](A, b, d), *map(torch.tensor, (A, b)))
    for what, found, expected in zip(
        ("x", "cotangent of A", "cotangent of b"),
        (x, *pullback(torch.tensor(g))),
        right,
        strict=True,
    ):
        near(found, expected, tolerance, f"{name}: {what}")
    found = ways.change(ways.WAYS[name], *map(torch.tensor, (A, b, g)), d, torch.tensor(V))
    near(found, second, 10 * s[0] / s[-1] * tolerance, f"{name}: second derivative")
    return name


def graded(rng: Rng) -> str:
    graded = laws("laws.test_graded")
    family, dtype = str(rng.choice(list(graded.FAMILIES))), str(rng.choice(DTYPES[:2]))
    off, g = 10 ** rng.uniform(-32, 0), 10 ** rng.uniform(-1, 2)
    s = graded.system(family, int(rng.integers(2, 15)), off, g, int(rng.integers(1 << 30)), dtype)
    if s.eps * max(s.rho, s.of_x, s.of_lam) > 1e-5:
        return "not determined"
    form = str(rng.choice(list(graded.METHODS)))
    A = graded.matrix(s.a, form)
    x = ldiv.solve(A, s.b, method=graded.METHODS[form])
    lam = ldiv.solve(A, s.c, method=graded.METHODS[form], trans="T")
    if not s.is_solved(x, lam):
        raise Wrong(f"{form}: digits", (s.of_x, graded.error(x, s.x), graded.error(lam, s.lam)))
    if form != "SuperLU":
        (b_bar,) = ldiv.vjp(lambda b: ldiv.solve(A, b), s.b)[1](s.c)
        if not s.is_solved(s.x, b_bar):
            raise Wrong(f"{form}: digits of a cotangent", graded.error(b_bar, s.lam))
    return form


def riccati(rng: Rng) -> str:
    units = laws("linalg.test_riccati_units")
    kind = str(rng.choice(list(units.SOLVERS)))
    given = int(rng.integers(1 << 30)), bool(rng.random() < 0.3)
    try:
        units.test_errors_are_condition_times_eps(kind, *given)
    except ldiv.SingularMatrixError:  # of its tangent
        *args, _ = units.equation(*given)
        x = units.reference(kind, *args, units.SOLVERS[kind][0](*args))
        condition = (units.bound(kind, *args, x) / abs(units.floats(x))).max()
        if condition < 1 / (100 * len(args[0]) * units.EPS):
            raise
        return "badly conditioned"
    return kind


def clusters(rng: Rng) -> str:
    clusters = laws("linalg.test_clusters")
    case, dtype = str(rng.choice(list(clusters.CASES))), str(rng.choice(DTYPES[1:]))
    rows, loss, exact = clusters.CASES[case]
    p = clusters.Problem(clusters.Torch, dtype, rows, int(rng.integers(1 << 30)))
    right, found = (p.fw.slopes(lambda t, f=f: f(p, t), 2) for f in (exact, loss))
    size = np.maximum.accumulate(abs(np.asarray(right))) + 1
    off = float((abs(np.asarray(found) - right) / size).max())
    if not off < 1e-6:
        raise Wrong(f"{case}: a derivative", (found, right))
    return case


def identity(rng: Rng) -> str:
    identity = laws("laws.test_identity")
    name = str(rng.choice(list(identity.FACTORS)))
    torch.manual_seed(int(rng.integers(1 << 30)))
    identity.check(name, int(rng.integers(1, 8)), identity.DTYPES[int(rng.integers(4))])
    return name


def low_rank(rng: Rng) -> str:
    """A determinant of integers, with its derivatives in fractions."""
    n = int(rng.integers(1, 8))
    r = int(rng.integers(0, n + 1))
    a = rng.integers(-3, 4, (n, r)) @ rng.integers(-3, 4, (r, n))
    d, e = rng.integers(-3, 4, (2, n, n))

    def det(s: int, t: int) -> Fraction:
        return exact_det(a + s * d + t * e)

    along_d = sum((w * det(k, 0) for k, w in stencil(n)), Fraction(0))
    both = sum(
        (w * v * det(k, m) for (k, w), (m, v) in itertools.product(stencil(n), repeat=2)),
        Fraction(0),
    )
    x, u, v = (torch.tensor(z, dtype=torch.float64) for z in (a, d, e))
    x.requires_grad_()
    (g,) = torch.autograd.grad(ldiv.det(x), x, create_graph=True)
    first = (g * u).sum()
    (h,) = torch.autograd.grad(first, x) if g.requires_grad else (torch.zeros_like(x),)
    size = float(np.prod(np.maximum(np.linalg.norm(a, axis=1), 3.0 * n**0.5))) * n * n
    near(
        first,
        np.asarray(float(along_d)) + 0 * size,
        1e-9 * size / (abs(float(along_d)) or 1),
        "slope",
    )
    near(
        (h * v).sum(),
        np.asarray(float(both)),
        1e-9 * size / (abs(float(both)) or 1),
        "second derivative",
    )
    return f"n - {n - r}" if n - r < 4 else "less"


def exact_det(a: Any) -> Fraction:
    m, sign = [[Fraction(int(x)) for x in row] for row in a], 1
    for j in range(len(m)):
        i = next((i for i in range(j, len(m)) if m[i][j]), None)
        if i is None:
            return Fraction(0)
        if i != j:
            m[i], m[j], sign = m[j], m[i], -sign
        for k in range(j + 1, len(m)):
            c = m[k][j] / m[j][j]
            m[k] = [x - c * y for x, y in zip(m[k], m[j], strict=True)]
    product = Fraction(sign)
    for j in range(len(m)):
        product *= m[j][j]
    return product


def stencil(n: int) -> list[tuple[int, Fraction]]:
    """Weights of p(0), p(1), .. of which p'(0) is made, for polynomials p of degree n."""
    weights = []
    for k in range(n + 1):
        others = [j for j in range(n + 1) if j != k]
        below = Fraction(1)
        for j in others:
            below *= k - j
        above = sum((product(-j for j in others if j != i) for i in others), Fraction(0))
        weights.append((k, above / below))
    return weights


def product(numbers: Any) -> Fraction:
    found = Fraction(1)
    for x in numbers:
        found *= x
    return found


FAMILIES: dict[str, Callable[[Rng], str]] = {
    f.__name__: f for f in (damped, graded, riccati, clusters, identity, low_rank)
}


def look(family: str, seed: int) -> str:
    try:
        return FAMILIES[family](np.random.default_rng(seed))
    except AssertionError as error:
        raise Wrong("a law", error) from error


def cases(seed: int) -> Iterator[Case]:
    rng = np.random.default_rng(seed)
    while True:
        family, at = str(rng.choice(list(FAMILIES))), int(rng.integers(1 << 30))
        source = f"from adversarial.determined import look\nlook({family!r}, {at})"
        yield Case(family, at % 100, partial(look, family, at), partial(str, source))
