"""Quadratic programs that degenerate, or nearly, and their derivatives in exact fractions.

With its active rows known, a program is a linear system: in fractions it is solved exactly, and tells
whether the rows are optimal, with force and slack. Where they are, the implicit function theorem has the
derivative; where they are not, nobody has, and it must be refused. Where rows depend on each other but
for rounding, fractions hold them apart and numbers do not: there, without a derivative, x is right if it
solves a program near this one.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import cache, partial
from itertools import combinations
from typing import Any

import numpy as np
from programs import REFUSED, degenerate

import ldiv
from adversarial.case import Case, Wrong

KINDS = ("definite", "singular", "zero", "repeated", "redundant", "near", "real", "meet")
WAYS = ("one", "batch", "jit")
DATA = ("P", "q", "G", "h", "lb", "ub")
RTOL = 1e-6
ROUNDINGS = 10  # of a derivative that is right for a program within rounding of this one
NEARLY = 1e-7  # rows within the square root of eps are taken for active


def program(kind: str, seed: int) -> dict[str, Any]:
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    if kind in ("definite", "singular", "zero", "repeated"):
        return degenerate(rng, kind)
    p = degenerate(rng, str(rng.choice(["definite", "singular", "zero"])))
    if kind == "redundant":
        p["G"][3], p["h"][3] = p["G"][:2].sum(0), p["h"][:2].sum() + rng.integers(0, 2)
    if kind == "near":
        for name in ("q", "h", "G"):
            size = 10.0 ** rng.integers(-13, -4)
            p[name] = p[name] + size * rng.integers(-1, 2, p[name].shape)
    if kind == "real":
        p["q"], p["h"] = rng.standard_normal(3), rng.random(4)
        p["G"] = rng.standard_normal((4, 3))
    if kind == "meet":
        fixed = rng.random(3) < 0.5
        p["lb"] = np.where(fixed, 0.25 * rng.integers(-1, 2, 3), p["lb"])
        p["ub"] = np.where(fixed, p["lb"], p["ub"])
    return p


def look(kind: str, seed: int, way: str) -> str:
    p = program(kind, seed)
    try:
        x, active, slopes, off = _answer(p, way)
    except REFUSED as error:
        if getattr(error, "status", "") == "infeasible" and _is_feasible(p):
            raise Wrong("infeasible, where a vertex is not", error.certificate) from error
        if isinstance(error, ldiv.SingularMatrixError) and _is_determined(p, seed):
            raise Wrong("refused, where x is determined", error) from error
        return type(error).__name__
    K, side, rows, fixed = _system(p, active)
    solution = _solved(K, side)
    if solution is None:
        if slopes is not None:
            raise Wrong("a derivative in all data where rows depend on each other", p)
        return _look_at_some(p, active, x, K, side, off)
    z = solution[:3]
    if not _are_near(z, x):
        if slopes is None and off <= NEARLY:
            return "a value where rows nearly depend"
        raise Wrong("another solution", (x, z))
    heights = [Fraction(float(abs(p["G"][j]).max())) if name == "G" else 1 for name, j in rows]
    force = [
        y * height for y, height, free in zip(solution[3:], heights, fixed, strict=True) if not free
    ]
    slack = _slack(p, active, z)
    if min([*force, *slack], default=1) < -Fraction(RTOL):
        if slopes is None and off <= NEARLY:
            return "a value where rows nearly depend"
        raise Wrong("not optimal", (force, slack))
    if slopes is None:
        return "a value without a derivative"
    if min([*force, *slack], default=1) <= 0:
        raise Wrong("a derivative where a row has neither force nor slack", (force, slack))
    # the cotangent that came: where 2 x + 1 cancels, the digits of the loss are lost before the derivative
    x_bar = _exact(2 * x + 1) + [Fraction(0)] * len(rows)
    lam = _solved(K, x_bar)
    assert lam is not None
    expected = _slopes(p, rows, solution, lam)
    moved = _moved(p, rows, K, (side, x_bar), (solution, lam))
    of_rows = np.where(
        abs(p["G"]).any(-1), abs(p["G"]).max(-1), 1
    )  # rows in units of their largest entries
    for name, unit in {**dict.fromkeys(DATA, 1), "h": of_rows, "G": of_rows[:, None]}.items():
        right, most = unit * expected[name], (unit * moved[name]).max()
        off, size = abs(unit * slopes[name] - right).max(), 1 + abs(right).max()
        if not off <= RTOL * size + ROUNDINGS * most:
            raise Wrong(f"a wrong derivative in {name}", (slopes[name], expected[name]))
        if not most <= size / 10:
            raise Wrong(f"a derivative in {name} without digits", (expected[name], most))
    return "right"


def _look_at_some(p: dict[str, Any], active: Any, x: Any, K: Any, side: Any, off: float) -> str:
    """x, where active rows depend on each other, or none of them is needed."""
    kept: list[int] = []
    for at in range(3, len(K)):
        if any(_combined([K[i][:3] for i in kept], K[at][:3])):
            kept.append(at)
    kept = [0, 1, 2, *kept]
    solution = _solved([[K[i][j] for j in kept] for i in kept], [side[i] for i in kept])
    if solution is None:
        return "a value where x is not unique"
    z = solution[:3]
    is_near = _are_near(z, x)
    if is_near and min(_slack(p, active, z), default=1) >= -Fraction(RTOL):
        return "a value where rows depend on each other"
    # rows that nearly depend on each other: which of them are kept says little of x
    exact = _solution({name: _exact(y) for name, y in p.items()})
    if exact is not None and _are_near(exact, x):
        return "a value where rows nearly depend"
    if is_near:
        raise Wrong("not feasible", z)
    if off <= NEARLY:
        return "a value where rows nearly depend"
    raise Wrong("another solution", (x, z))


def _are_near(z: Any, x: Any) -> bool:
    off = max(abs(float(a) - b) for a, b in zip(z, x, strict=True))
    return bool(off <= RTOL * (1 + abs(x).max()))


def _is_feasible(p: dict[str, Any]) -> bool:
    """Whether some point where three of the rows meet is within all others, as in a nonempty box."""
    one = np.eye(3)
    rows = _exact(np.concatenate([p["G"], one, -one]))
    sides = _exact(np.concatenate([p["h"], p["ub"], -p["lb"]]))
    vertices = (
        _solved([rows[i] for i in three], [sides[i] for i in three])
        for three in combinations(range(len(rows)), 3)
    )
    none = np.zeros(len(rows), bool)
    return any(x is not None and min(_slack(p, none, x)) >= 0 for x in vertices)


def _is_determined(p: dict[str, Any], seed: int) -> bool:
    """Whether x is unique, and keeps six digits where each number moves by half an eps."""
    x, rng = _solution({name: _exact(y) for name, y in p.items()}), np.random.default_rng(seed)
    if x is None:
        return False
    for _ in range(4):
        near = {name: _exact(y) for name, y in p.items()}
        for name, y in near.items():
            signs = rng.choice([-1, 1], np.shape(p[name]))
            signs = np.triu(signs) + np.triu(signs, 1).T if name == "P" else signs
            near[name] = (np.array(y, object) * (1 + signs * Fraction(1, 1 << 53))).tolist()
        y = _solution(near)
        if y is None or max(abs(a - b) for a, b in zip(x, y, strict=True)) > RTOL * max(
            map(abs, x)
        ):
            return False
    return True


def _solution(p: dict[str, Any]) -> Any:
    """x in fractions, by all sets of active rows; None where there is none, or not only one."""
    n, one = 3, _exact(np.eye(3))
    rows = p["G"] + one + _exact(-np.eye(3))
    sides = p["h"] + p["ub"] + [-b for b in p["lb"]]

    def system(some: Any) -> Any:
        upper = [[*p["P"][i], *(rows[j][i] for j in some)] for i in range(n)]
        return upper + [[*rows[j], *[Fraction(0)] * len(some)] for j in some]

    for some in (s for k in range(n + 1) for s in combinations(range(len(rows)), k)):
        z = _solved(system(some), [-c for c in p["q"]] + [sides[j] for j in some])
        if z is None or min(z[n:], default=0) < 0:
            continue
        if all(
            sum(a * b for a, b in zip(row, z[:n], strict=True)) <= side
            for row, side in zip(rows, sides, strict=True)
        ):
            with_force = [j for j, y in zip(some, z[n:], strict=True) if y > 0]
            K = system(with_force)
            return z[:n] if _solved(K, [Fraction(0)] * len(K)) is not None else None
    return None


def _distance(p: dict[str, Any], x: Any, of_G: Any, of_bounds: Any) -> float:
    """The distance, in q, h, lb and ub, to the nearest program that x and the multipliers solve,
    without the rounding of multipliers. Rows are in units of their largest entries.
    """
    force = (p["P"] + p["P"].T) / 2 @ x + p["q"] + of_G @ p["G"] + of_bounds
    rounding = ROUNDINGS * np.finfo(float).eps * (abs(of_G) @ abs(p["G"]))
    heights = abs(p["G"]).max(-1)
    heights[heights == 0] = 1
    z = np.concatenate([of_G * heights, np.maximum(of_bounds, 0), np.maximum(-of_bounds, 0)])
    slack = np.concatenate([(p["h"] - p["G"] @ x) / heights, p["ub"] - x, x - p["lb"]])
    found: float = np.concatenate([abs(force) - rounding, -z, -slack, np.minimum(z, slack)]).max()
    return found


def _answer(p: dict[str, Any], way: str) -> tuple[Any, Any, dict[str, Any] | None, float]:
    """x, which rows are active, the gradient of |x|^2 + sum x, or None where it is refused, and the
    distance to a program that x solves.
    """
    import torch

    given = {name: torch.tensor(np.stack([x, x]) if way == "batch" else x) for name, x in p.items()}
    for t in given.values():
        t.requires_grad_()
    found = ldiv.solve_qp(**given, full=True)
    x, of_G, of_bounds, active = (
        np.asarray(t.detach()).reshape(-1, t.shape[-1])[0]
        for t in (found.x, found.z, found.z_box, found.active)
    )
    off = _distance(p, x, of_G, of_bounds)
    if way == "jit":
        return *_of_jit(p, x, active), off
    try:
        g = torch.autograd.grad((found.x**2).sum() + found.x.sum(), list(given.values()))
    except ldiv.NotDifferentiableError:
        return x, active, None, off
    own = [np.asarray(s) if way == "one" else np.asarray(s[1]) for s in g]
    return x, active, dict(zip(given, own, strict=True)), off


@cache
def _compiled() -> Any:
    import jax

    jax.config.update("jax_enable_x64", True)

    def f(p: Any) -> Any:
        x = ldiv.solve_qp(**p)
        return (x**2).sum() + x.sum(), x

    return jax.jit(jax.grad(f, has_aux=True))


def _of_jit(p: dict[str, Any], x: Any, active: Any) -> tuple[Any, Any, dict[str, Any] | None]:
    try:
        slopes, of_jit = _compiled()(p)
        slopes, of_jit = {name: np.asarray(s) for name, s in slopes.items()}, np.asarray(of_jit)
    except Exception as error:
        if any(why in str(error) for why in ("with neither", "implied by others", "no digits")):
            return x, active, None
        raise
    if not _are_near(x, of_jit):
        raise Wrong("jit finds another solution", (x, of_jit))
    return of_jit, active, slopes


def _exact(x: Any) -> Any:
    return [_exact(y) for y in x] if np.ndim(x) else Fraction(float(x))


def _system(p: dict[str, Any], active: Any) -> tuple[Any, Any, Any, Any]:
    """K, its right-hand side, its rows (name, index), and which of them bounds fix."""
    rows, fixed = [], []
    for i in np.flatnonzero(active):
        name, j = ("G", i) if i < 4 else ("ub", i - 4) if i < 7 else ("lb", i - 7)
        meet = name != "G" and p["lb"][j] == p["ub"][j]
        if not (meet and name == "lb"):
            rows.append((name, int(j)))
            fixed.append(meet)
    n, m = 3, len(rows)
    K = [[Fraction(0)] * (n + m) for _ in range(n + m)]
    side = [-x for x in _exact(p["q"])]
    for i in range(n):
        for j in range(n):
            K[i][j] = (Fraction(float(p["P"][i, j])) + Fraction(float(p["P"][j, i]))) / 2
    for at, (name, j) in enumerate(rows):
        row = p["G"][j] if name == "G" else np.eye(3)[j] * (1 if name == "ub" else -1)
        for i in range(n):
            K[n + at][i] = K[i][n + at] = Fraction(float(row[i]))
        bound = p["h"][j] if name == "G" else p[name][j]
        side.append(Fraction(float(bound)) * (-1 if name == "lb" else 1))
    return K, side, rows, fixed


def _solved(K: Any, side: Any) -> Any:
    """Solve by elimination; None for a singular matrix."""
    rows = [[*row, b] for row, b in zip(K, side, strict=True)]
    for k in range(len(rows)):
        pivot = next((i for i in range(k, len(rows)) if rows[i][k] != 0), None)
        if pivot is None:
            return None
        rows[k], rows[pivot] = rows[pivot], rows[k]
        rows[k] = [x / rows[k][k] for x in rows[k]]
        for i in range(len(rows)):
            if i != k and rows[i][k] != 0:
                rows[i] = [x - rows[i][k] * y for x, y in zip(rows[i], rows[k], strict=True)]
    return [row[-1] for row in rows]


def _combined(rows: Any, row: Any) -> Any:
    """The rest of a row after elimination by these rows, which are independent."""
    done: list[tuple[int, Any]] = []
    for one in [*rows, row]:
        rest = list(one)
        for pivot, other in done:
            rest = [x - rest[pivot] / other[pivot] * y for x, y in zip(rest, other, strict=True)]
        done.append((next((i for i, x in enumerate(rest) if x != 0), 0), rest))
    return done[-1][1]


def _slack(p: dict[str, Any], active: Any, x: Any) -> list[Fraction]:
    """The slack of the rows that are not active."""
    G, h, lb, ub = (_exact(p[name]) for name in ("G", "h", "lb", "ub"))
    found = [
        b - sum(g * y for g, y in zip(row, x, strict=True)) for row, b in zip(G, h, strict=True)
    ]
    found += [u - y for u, y in zip(ub, x, strict=True)] + [
        y - l for l, y in zip(lb, x, strict=True)
    ]
    return [s for s, there in zip(found, active, strict=True) if not there]


def _slopes(p: dict[str, Any], rows: Any, z: Any, lam: Any) -> dict[str, Any]:
    """The derivatives: with K lam = (x_bar, 0), r_bar = lam and K_bar = -lam z^T."""
    x, y = np.array(lam[:3], float), np.array(z[:3], float)
    found = {name: np.zeros_like(p[name]) for name in DATA}
    found["P"] = -(np.outer(x, y) + np.outer(y, x)) / 2
    found["q"] = -x
    for at, (name, j) in enumerate(rows, 3):
        if name == "G":
            found["h"][j] = float(lam[at])
            found["G"][j] = -(float(lam[at]) * y + float(z[at]) * x)
        elif p["lb"][j] == p["ub"][j]:
            found["ub"][j] = found["lb"][j] = float(lam[at]) / 2
        else:
            found[name][j] = float(lam[at]) * (1 if name == "ub" else -1)
    return found


def _moved(p: dict[str, Any], rows: Any, K: Any, sides: Any, found: Any) -> dict[str, Any]:
    """The change of the derivative when the numbers of the program, and the cotangent, move by
    rounding.

    |dz| <= eps |K^-1| (|K| |z| + |r|),    |dlam| <= eps |K^-1| (|K| |lam| + |x_bar|)

    Reference: Higham, Accuracy and Stability of Numerical Algorithms (2002), section 7.2.
    """
    n, size = len(K), abs(np.array(K, object))
    one = [[Fraction(int(i == j)) for j in range(n)] for i in range(n)]
    inverse = abs(np.array([_solved(K, column) for column in one], object))
    (z, lam), (side, x_bar) = (abs(np.array(pair, object)) for pair in (found, sides))
    dz = inverse @ (size @ z + side)
    dlam = inverse @ (size @ lam + x_bar)
    by_lam, by_z = _slopes(p, rows, z, dlam), _slopes(p, rows, dz, lam)
    eps = float(np.finfo(float).eps)
    return {name: eps * (abs(by_lam[name]) + abs(by_z[name])) for name in DATA}


def cases(seed: int) -> Iterator[Case]:
    rng = np.random.default_rng(seed)
    while True:
        kind, way = str(rng.choice(KINDS)), str(rng.choice(WAYS))
        given = kind, int(rng.integers(1 << 30)), way
        source = f"from adversarial.programs import look\nlook(*{given})"
        yield Case(f"{kind}, {way}", 3, partial(look, *given), partial(str, source))
