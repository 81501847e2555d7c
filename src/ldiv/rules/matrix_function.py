"""F = D^m f(H)[E_1, ..., E_m]: a function f: R -> R of a small Hermitian H, and its derivatives.

H = Q diag(theta) Q^H.
kernel       E'_a = Q^H E_a Q;   F = Q F' Q^H,
             F'_il = sum over the orders of the E' and over j ..
                     of f[theta_i, theta_j, .., theta_l] E'_ij .. E'_.l
tangent      dF = D^(m+1) f(H)[E_1, ..., E_m, dH] + sum over a of D^m f(H)[.., dE_a, ..]
cotangent    H_bar = D^(m+1) f(H)[E_1^H, ..., E_m^H, F_bar],
             E_a_bar = D^m f(H)[.., F_bar, ..] with E_b^H for the others
cost         one eigh, f', .., f^(m) at 12 points between any two eigenvalues; k^(m+1) numbers
reference    Higham, Functions of Matrices (2008), ch. 3;  de Boor, Divided Differences (2005)

Divided differences f[..]: the nodes are sorted. Inserting a node y between the ends x <= y <= z is
an average, in which nothing cancels,

    f[x, .., z] = ((y - x) f[x, .., y] + (z - y) f[y, .., z]) / (z - x).

It reduces everything to differences of two nodes, each repeated. These are computed in two ways: by
quotients,

    f[x^a, y^b] = (f[x^(a-1), y^b] - f[x^a, y^(b-1)]) / (y - x),

and (Hermite and Genocchi) by Gauss's rule for the integral over s in [0, 1] of

    (1-s)^(a-1) s^(b-1) f^(m)(x + s (y - x)) / (a-1)! (b-1)!.

The rounding error of the quotient is known, if f rounds as it should. If the integral agrees with
the quotient up to that error, the integral is taken. Otherwise the nodes are far apart, or f jumps
between them, and the quotient is right; or f rounds worse, as (exp(x) - 1) / x near x = 0. This
last case is taken where half of the points give nearly the same integral, and the quotient and the
integral differ by too little of f for a jump.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial, reduce
from itertools import permutations
from operator import add
from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import adjoint, alike, hermitian, numpy_dtype, take
from ldiv.core.arrays.validate import require_numbers, together
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import check_or_raise, frontend_of, is_array, namespace
from ldiv.core.frameworks.trees import Arrays, Cotangents, HostArray, Tangents, Tree, Trees
from ldiv.core.rules.rule import Cases, Rule, Traits, bind
from ldiv.core.rules.structure import plus
from ldiv.errors import shown, type_error, value_error

Function = Callable[[Array], Array]
# a divided difference for all pairs of eigenvalues, and its error bound
Known = tuple[Array, Array]
# points and weights on [0, 1], exact for polynomials up to degree 23
GAUSS = (1 + np.polynomial.legendre.leggauss(12)[0]) / 2
WEIGHT = np.polynomial.legendre.leggauss(12)[1] / 2
HALF = np.array([0, 2, 4, 7, 9, 11])  # of Gauss's points: a rule that is exact to degree 5
HALF_WEIGHT = np.linalg.solve(np.vander(GAUSS[HALF], increasing=True).T, 1 / np.arange(1.0, 7.0))
NOISE = 16  # units in the last place: the rounding of a value of f and of its derivatives
RESOLVED = 8  # times what half of the points change: an integral is known at least that well


@dataclass(frozen=True)
class Frechet(Rule):
    """Arguments (H, E_1, ..., E_m), each (*batch, k, k); of H the Hermitian part is read.

    Arrays that f closes over are constants.
    """

    f: Function
    m: int = 0

    traits = Traits(only_refuses=True, calls_user=True)

    @property
    def core(self) -> Trees:
        return (2,) * (self.m + 1)

    def _without_parameters(self, _: Tree, x: Array) -> Array:
        return self.f(x)

    def kernel(self, *args: Tree) -> Arrays:
        xp = namespace(args[0])
        theta, q = frontend_of(args[0]).dense.eigh(hermitian(args[0]))
        f = partial(frontend_of(theta).user.call, self._without_parameters, ())
        differences = divided_differences(f, theta, self.m)
        # H may be real where a direction E is complex
        dtype = xp.result_type(*args)
        q, qh = xp.astype(q, dtype), xp.astype(adjoint(q), dtype)
        if not self.m:
            # F = Q F' Q^H with E' = Q^H E Q
            return ((q * differences[..., None, :]) @ qh,)
        return (
            q
            @ _contract(
                xp.astype(differences, dtype), [qh @ xp.astype(e, dtype) @ q for e in args[1:]]
            )
            @ qh,
        )

    @property
    def derivative(self) -> Frechet:
        """D^(m+1) f."""
        return replace(self, m=self.m + 1)

    def jvp(self, tangents: Trees, out: Arrays, *args: Tree) -> Tangents:
        (h, *es), (dh, *des) = args, tangents
        dy = None if dh is None else bind(self.derivative, h, *es, hermitian(dh))[0]
        for a, de in enumerate(des):
            dy = plus(dy, None if de is None else bind(self, h, *es[:a], de, *es[a + 1 :])[0])
        return (dy,)

    def vjp(self, need: Trees, cotangents: Cotangents, out: Arrays, *args: Tree) -> Trees:
        (h, *es), (y_bar,) = args, cotangents
        # H_bar = D^(m+1) f(H)[E_1^H, .., E_m^H, F_bar], its Hermitian part, as of H
        h_bar = (
            hermitian(bind(self.derivative, h, *map(adjoint, es), y_bar)[0]) if need[0] else None
        )
        others = (map(adjoint, es[:a] + es[a + 1 :]) for a in range(self.m))
        return h_bar, *(
            bind(self, h, *rest, y_bar)[0] if n else None
            for rest, n in zip(others, need[1:], strict=True)
        )


def matrix_function(f: Function, h: Any) -> Any:
    """f(H) = Q f(theta) Q^H for a Hermitian H (*batch, k, k).

    f is elementwise, and arrays that it closes over are constants.
    """
    return bind(Frechet(f), h)[0]


def _contract(differences: Array, es: list[Array]) -> Array:
    """sum over the orders of the E and over j .. of f[i, j, .., l] E_ij .. E_.l."""
    # one letter for each node; m = 2: "...abc,...ab,...bc->...ac", then with E_1 and E_2 exchanged
    axes = "abcdefghijklmnop"[: len(es) + 1]
    pairs = ",".join(f"...{axes[a : a + 2]}" for a in range(len(es)))
    term = partial(
        namespace(differences).einsum, f"...{axes},{pairs}->...{axes[0]}{axes[-1]}", differences
    )
    return reduce(add, (term(*order) for order in permutations(es)))


# -- divided differences ------------------------------------------------------


def divided_differences(f: Function, theta: Array, m: int) -> Array:
    """f[theta_i, ..., theta_l], m + 1 nodes, (*batch, k, ..., k); theta (*batch, k) ascends."""
    xp, k = namespace(theta), theta.shape[-1]
    table = _two_nodes(f, theta, m)
    # f[..] does not depend on the order of its nodes, and averages need them ascending
    index = np.sort(np.indices((k,) * (m + 1)), axis=0)
    node = [take(theta, i) for i in index]

    def average(at: tuple[int, ...]) -> Array:
        """f[node[at[0]], node[at[1]], ...] for ascending `at`, from those of two distinct nodes."""
        first, *inner, last = sorted(set(at))
        if not inner:
            # two distinct nodes, each repeated: the table has f[x^a, y^b] at the flat index k i + j
            pairs = xp.reshape(
                table[at.count(first), at.count(last)][0], (*theta.shape[:-1], k * k)
            )
            return take(pairs, k * index[first] + index[last])
        y, width = inner[0], node[last] - node[first]
        # f[x..z] = s f[x..y] + (1 - s) f[y..z],  s = (y - x) / (z - x); any s where x = z
        share = xp.where(width > 0, (node[y] - node[first]) / xp.where(width > 0, width, 1.0), 0.5)
        return share * average(tuple(sorted((*at[:-1], y)))) + (1 - share) * average(
            tuple(sorted((y, *at[1:])))
        )

    differences = average(tuple(range(m + 1))) if m else _values(f, theta)
    if 0 not in theta.shape:
        check_or_raise(
            xp.all(xp.isfinite(differences)), partial(_not_finite, m), xp.min(theta), xp.max(theta)
        )
    return differences


def _two_nodes(f: Function, theta: Array, m: int) -> dict[tuple[int, int], Known]:
    """f[x^a, y^b] for all pairs x, y of eigenvalues with its error, for every a + b <= m + 1."""
    xp, unit = namespace(theta), float(np.finfo(numpy_dtype(theta)).eps)
    eps = NOISE * unit
    x, y = theta[..., :, None], theta[..., None, :]
    # where x = y the integral is taken: the quotient need only be finite
    gap = xp.where(x == y, 1.0, y - x)
    # Gauss's points between eigenvalues i <= j, (*batch, pairs, 12): from j to i they are the same
    k = theta.shape[-1]
    i, j = np.triu_indices(k)
    low, high = take(theta, i)[..., None], take(theta, j)[..., None]
    between = low + xp.asarray(GAUSS, **alike(theta)) * (high - low)
    slopes = [_derivative(f, between, order) for order in range(1, m + 1)]
    # where i = j all points are theta_i: there the slopes are f^(order)(theta_i)
    values = [_values(f, theta), *(take(d[..., 0], np.flatnonzero(i == j)) for d in slopes)]
    # where the integrals from i to j and from j to i are among those of all pairs, two of each
    place = np.empty((k, k), int)
    place[j, i], place[i, j] = 2 * np.arange(len(i)) + 1, 2 * np.arange(len(i))

    def integrals(slope: Array, rule: Any) -> Array:
        both = slope @ xp.asarray(np.stack([rule, rule[::-1]], axis=1), **alike(theta))
        return take(xp.reshape(both, (*theta.shape[:-1], 2 * len(i))), place)

    blocks: dict[tuple[int, int], Known] = {}
    # the quotients use f, .., f^(m-1), and inherit their rounding errors
    for order in range(1, m + 1):
        # f[x^order] = f^(order-1)(x) / (order-1)!, and its rounding error, with that of x
        value, slope = (v / math.factorial(order - 1) for v in values[order - 1 : order + 1])
        error = eps * (abs(value) + abs(theta * slope))
        blocks[order, 0] = (value[..., :, None], error[..., :, None])
        blocks[0, order] = (value[..., None, :], error[..., None, :])
        # f[x^a, y^b] with a + b = order + 1, from differences of one node less
        for a in range(1, order + 1):
            b = order + 1 - a
            integral, half = (integrals(slopes[order - 1], rule) for rule in _rules(a, b))
            (left, left_error), (right, right_error) = blocks[a - 1, b], blocks[a, b - 1]
            quotient, error = (left - right) / gap, (left_error + right_error) / abs(gap)
            distance = abs(integral - quotient)
            # f rounds worse than it should: the integral has converged, and the two differ by too
            # little of f for a jump
            noisy = (RESOLVED * abs(integral - half) <= distance) & (
                distance * abs(gap) <= unit**0.5 * (abs(left) + abs(right))
            )
            within = (x == y) | (distance <= error) | noisy
            blocks[a, b] = (
                xp.where(within, integral, quotient),
                xp.where(within, eps * abs(integral), error),
            )
    return blocks


def _rules(a: int, b: int) -> tuple[Array, Array]:
    """Gauss's rule with the weight (1-s)^(a-1) s^(b-1) / (a-1)! (b-1)!, and that of half of its
    points, zero at the others.
    """
    weight = (
        (1 - GAUSS) ** (a - 1) * GAUSS ** (b - 1) / (math.factorial(a - 1) * math.factorial(b - 1))
    )
    half = np.zeros_like(WEIGHT)
    half[HALF] = HALF_WEIGHT
    return WEIGHT * weight, half * weight


# -- the derivatives of f -----------------------------------------------------


def _derivative(f: Function, x: Array, order: int) -> Array:
    """f^(order)(x), by the framework; of NumPy arrays from values of f on circles around x."""
    if order and isinstance(x, np.ndarray):
        return _on_circles(f, x, order)
    g = partial(_values, f)
    for _ in range(order):
        g = partial(_slope, g)
    return g(x)


def _slope(f: Function, x: Array) -> Array:
    """f' as the gradient of the sum, f being elementwise."""
    slope: Array = frontend_of(x).user.vjp(f, (x,))[1](namespace(x).ones_like(x))[0]
    return slope


def _values(f: Function, x: Array) -> Array:
    y = f(x)
    if not is_array(y) or y.shape != x.shape:
        raise value_error(
            "f",
            f"an array of the shape of its argument, {tuple(x.shape)}",
            shown(y),
            "f is applied to each element.",
        )
    together("f", require_numbers("f", y), x)
    if numpy_dtype(y).kind == "c" and numpy_dtype(x).kind != "c":
        raise value_error(
            "f",
            "real values at real numbers",
            str(numpy_dtype(y)),
            "Take the real and imaginary parts as two functions.",
        )
    return namespace(x).astype(y, x.dtype) if numpy_dtype(x).kind != "c" else y


def _on_circles(f: Function, x: HostArray, order: int, points: int = 32) -> Array:
    """f^(order)(x) by Cauchy's formula, on the circle where rounding plus aliasing is least.

    A circle counts if f is analytic inside it: no negative powers, which would appear in the last
    coefficients of the transform. NaN where no circle gives eight digits.
    """
    circle = np.exp(2j * np.pi * np.arange(points) / points)
    scale = np.abs(x).max(initial=0) or 1.0
    best, found, size = np.full(x.shape, np.inf), np.full(x.shape, np.nan), np.zeros(x.shape)
    with np.errstate(all="ignore"):
        # radii from 4 max |x| down to 2^-44 max |x|
        for radius in scale * 2.0 ** np.arange(2, -45, -1):
            y = _complex_values(f, x[..., None].astype(complex) + radius * circle)
            # f^(n)(x) r^n / n! at index n; the negative powers -4 .. -1 at the last four
            taylor, high = np.fft.fft(y) / points, np.abs(y).max(-1)
            tail, rounding = np.abs(taylor[..., -4:]).max(-1), np.finfo(float).eps * high
            analytic = tail <= 1e-6 * np.abs(taylor[..., 1 : points // 2]).max(-1) + 8 * rounding
            # over r^order rounding is large on small circles, aliasing on large ones
            error = (rounding + tail) / radius**order
            better = analytic & (error < best)
            best, size = np.where(better, error, best), np.where(better, high, size)
            found = np.where(better, taylor[..., order].real / radius**order, found)
        certain = best <= 1e-8 * (np.abs(found) + size / scale**order)
        return (math.factorial(order) * np.where(certain, found, np.nan)).astype(x.dtype)


def _complex_values(f: Function, z: Array) -> Array:
    try:
        return _values(f, z)
    except TypeError as error:
        advice = (
            "The derivative of f at NumPy arrays is found in the complex plane: use functions that "
            "take complex numbers, or PyTorch or JAX."
        )
        raise type_error("f", "a function of complex numbers", str(error), advice) from error


def _not_finite(m: int, low: Any, high: Any) -> ValueError:
    what = (
        "f" if m == 0 else f"f and its first {m} derivatives" if m > 1 else "f and its derivative"
    )
    advice = (
        "f must be smooth there; on NumPy arrays, whose derivatives are found in the complex "
        "plane, analytic."
    )
    return value_error(
        what,
        f"finite at the eigenvalues, from {float(low):.3g} to {float(high):.3g}",
        "NaN or infinity",
        advice,
    )


# -- for the conformance suite ------------------------------------------------


def _rational(x: Array) -> Array:
    return x / (x * x + 9.0)


def _cubic(x: Array) -> Array:
    return x * x * x - x


def cases(structures: Any, draw: Any) -> Cases:
    repeated = np.diag([1.0, 1.0, 1.0 + 1e-9]) + 0 * draw(3, 3)
    yield Frechet(_rational), (draw(3, 3),)
    yield Frechet(_rational), (repeated,)
    yield Frechet(_rational, 1), (np.stack([repeated, draw(3, 3)]), draw(3, 3))
    yield Frechet(_cubic, 2), (draw(2, 3, 3), draw(3, 3), draw(3, 3))
