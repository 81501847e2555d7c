"""exp(t A) b by products with A alone: Taylor's series in steps, as long as rounding allows.

    x(s + h) = exp(h A) x(s),    exp(h A) x = e^(h mu) sum over j of (h (A - mu I))^j x / j!

In a step |h (A - mu I)|_1 <= REACH, mu = tr A / n, so that no term is much larger than x and little
cancels. The series ends where two terms in a row do not count, column by column. Its terms serve
several places of a step at once: at its part theta the j-th has the weight theta^j.
Reference: Al-Mohy and Higham, SIAM J. Sci. Comput. 33 (2011), whose steps are longer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np

from ldiv.core.arrays.shapes import alike, astype, beside, conj, eps, numpy_dtype, or_one, real
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import check_or_raise, frontend_of, namespace, traced
from ldiv.core.frameworks.trees import Tree, leaves, rebuild
from ldiv.core.rules.structure import Structure, outer, plus
from ldiv.engines.functions.small_exponential import cheaper, small_action, small_projection
from ldiv.engines.iterative.matrix_product import Product, assembled
from ldiv.errors import ConvergenceError, overflowed, value_error
from ldiv.structures.composed import entries, entry_values

REACH = 3.5  # |h A|_1 of a step
TERMS = 120  # of a step at most; 35 are enough where its norm is known
STEPS = 10**6
PROBES = 4  # of the norm of an operator
_nodes, _weights = np.polynomial.legendre.leggauss(16)
NODES, WEIGHTS = (1 + _nodes) / 2, _weights / 2  # of Gauss's rule on [0, 1], exact to rounding


@dataclass(frozen=True)
class Flow:
    """x -> exp(t A) x in `count` steps of plain arrays; `shift` is mu (*batch, 1, 1)."""

    product: Product
    t: float
    shift: Any
    count: Any

    def step(self, x: Array, parts: Any = ()) -> list[Array]:
        """x after these parts of a step, and after all of it."""
        xp, h = namespace(x), self.t / self.count
        theta = xp.asarray([*parts, 1.0], **alike(real(x)))

        def going(state: Any) -> Any:
            j, *_, done = state
            return (j < TERMS) & ~done

        def body(state: Any) -> Any:
            j, term, last, weights, sums, _ = state
            # weights = theta^j, term = (h (A - mu I))^j x / j!
            j, weights = j + 1, weights * theta
            term = (self.product(term) - self.shift * term) * (h / j)
            sums = tuple(s + weights[i] * term for i, s in enumerate(sums))
            size = _largest(term)
            # two terms in a row are below rounding of the sum
            small = size + last <= eps(x) / 2 * _largest(sums[-1])
            small = small | ~xp.isfinite(size)  # it overflows, which is seen in the result
            return j, term, size, weights, sums, xp.all(small)

        zero = xp.sum(0 * theta)
        # one sum for each part theta, all of which begin with the term j = 0, x itself
        state = (zero, x, _largest(x), 0 * theta + 1, tuple(x for _ in range(len(theta))), zero > 0)
        *_, sums, done = frontend_of(x).loop(going, body, state)
        check_or_raise(done, _not_converged)
        # exp(theta h A) x = e^(theta h mu) times the series in A - mu I
        return [s * xp.exp(theta[i] * h * self.shift) for i, s in enumerate(sums)]

    def after(self, x: Array, count: Any) -> Array:
        """x after so many steps."""
        return frontend_of(x).loop(
            lambda state: state[0] < count,
            lambda state: (state[0] + 1, self.step(state[1])[-1]),
            (0 * self.count, x),
        )[1]


def exponential_action(structure: Structure, p: Tree, b: Array, t: float) -> Array:
    """exp(t S(p)) b."""
    steps = cache(partial(_steps, structure, p, b, t))
    if cheaper(structure, b, lambda: steps().count):
        small = small_action(structure, p, b, t)
        if small is not None:
            return small
    flow = _flow(structure, p, t, steps())
    return flow.after(b, flow.count)


def exponential_projection(
    structure: Structure, p: Tree, b: Array, c: Array, t: float, need: Tree
) -> Tree:
    """The cotangent of p from that of exp(t S(p)) b, which is c:

        integral over s from 0 to t of dS(p)^*[(exp((t - s) A^H) c) (exp(s A) b)^H]

    by Gauss's rule in every step.
    """
    steps = cache(partial(_steps, structure, p, b, t))
    if cheaper(structure, b, lambda: steps().count):
        small = small_projection(structure, p, b, c, t, need)
        if small is not None:
            return small
    flow = _flow(structure, p, t, steps())
    # the adjoint flow exp(h A^H) in the same steps
    back = replace(flow, product=assembled(structure.H, p), shift=conj(flow.shift))
    xp = namespace(b)
    weights = xp.asarray(WEIGHTS, **alike(real(b))) * (t / flow.count)

    def gathered(x: Array, lam: Array) -> tuple[list[Any], Array]:
        # x at the nodes of a step, and lam at the same times, from the other end
        forward = flow.step(x, NODES)[:-1]
        *backward, before = back.step(lam, 1 - NODES)
        # sum_i w_i lam_i x_i^H as one outer product of wide blocks
        u = xp.concat([weights[i] * y for i, y in enumerate(backward)], axis=-1)
        found = outer(structure, p, u, xp.concat(forward, axis=-1), need)
        return leaves(found), before

    if traced(flow.count):  # no memory for all starts: each is computed anew
        # steps from the last one back to the first
        def body(state: Any) -> Any:
            j, lam, *sums = state
            found, lam = gathered(flow.after(b, j - 1), lam)
            return (j - 1, lam, *(s + g for s, g in zip(sums, found, strict=True)))

        first, lam = gathered(flow.after(b, flow.count - 1), c)
        _, _, *sums = frontend_of(b).loop(
            lambda state: state[0] > 0, body, (flow.count - 1, lam, *first)
        )
        return rebuild(need, sums)
    # the starts of all steps are kept, and used from the last one back
    starts, lam = [b], c
    for _ in range(int(flow.count) - 1):
        starts.append(flow.step(starts[-1])[-1])
    total: list[Any] = [None for _ in leaves(need)]
    while starts:
        found, lam = gathered(starts.pop(), lam)
        total = [plus(s, g) for s, g in zip(total, found, strict=True)]
    return rebuild(need, total)


# -- the number of steps, and the shift ---------------------------------------


class Steps(NamedTuple):
    """The number of steps, and the shift mu."""

    count: Any
    shift: Any


def _steps(structure: Structure, p: Tree, b: Array, t: float) -> Steps:
    shift, norm = _shift_and_norm(structure, p, b)
    xp = namespace(b)
    # t / count |A - mu I|_1 <= REACH
    count = xp.ceil(abs(t) / REACH * xp.max(norm))
    check_or_raise(xp.isfinite(count), partial(overflowed, "a product with A"))
    return Steps(xp.where(count > 1, count, 0 * count + 1), shift)


def _flow(structure: Structure, p: Tree, t: float, steps: Steps) -> Flow:
    check_or_raise(steps.count <= STEPS, _too_many, steps.count)
    return Flow(assembled(structure, p), t, steps.shift, steps.count)


def _shift_and_norm(structure: Structure, p: Tree, b: Array) -> tuple[Any, Array]:
    """mu, and |A - mu I|_1: from the entries, or an estimate where there are none."""
    n = structure.shape[0]
    places = entries(structure) if type(b) is np.ndarray else None
    if places is None:
        return 0 * real(b[..., :1, :1]), _estimated(structure, p, b)
    (rows, cols), values = places, entry_values(structure, p)
    # mu = tr A / n
    on = rows == cols
    shift = values[..., on].sum(-1, keepdims=True) / n
    # column sums of |A - mu I|
    sizes = abs(np.where(on, values - shift, values))
    sums = np.zeros((n, *sizes.shape[:-1]), sizes.dtype)
    np.add.at(sums, cols, np.moveaxis(sizes, -1, 0))
    # a diagonal entry that is not stored is -mu: |mu| is added to the bound
    absent = np.ones(n, bool)
    absent[rows[on]] = False
    return shift[..., None], sums.max(0) + abs(shift[..., 0]) * bool(absent.any())


def _estimated(structure: Structure, p: Tree, b: Array) -> Array:
    """|A|_1 by Hager's method: from A e_j to the column that A^H sign(A e_j) points at."""
    xp, n, found = namespace(b), structure.shape[0], []
    ones = 0 * b[..., :1] + 1
    # Higham's alternating vector, for matrices whose columns cancel in A e
    turns = xp.asarray(
        np.where(np.arange(n) % 2, -1, 1) * (1 + np.arange(n) / max(n - 1, 1)), **alike(real(b))
    )
    for x in (ones / n, ones * turns[:, None] * (2 / (3 * n))):
        for _ in range(PROBES):
            y = structure.matmul(p, x)
            # |A x|_1 with |x|_1 = 1 is a lower bound of |A|_1
            found.append(xp.sum(xp.abs(y), axis=(-2, -1)))
            # a subgradient of |A x|_1: its largest entry says which e_j comes next
            z = structure.H.matmul(p, y / or_one(xp.abs(y)))
            best = xp.argmax(xp.abs(z), axis=-2, keepdims=True)
            x = astype(xp.arange(n, **beside(b))[:, None] == best, numpy_dtype(b))
    return xp.max(xp.stack(found))


def _largest(x: Array) -> Array:
    return namespace(x).max(namespace(x).abs(x), axis=-2)


def _not_converged() -> ConvergenceError:
    what = "Taylor's series has not ended"
    causes = "its norm was estimated too small, or products with A do not repeat."
    return ConvergenceError("expm_multiply", TERMS, None, 0.0, what, causes)


def _too_many(count: Any) -> ValueError:
    advice = "Use fewer time units, or an implicit method: solve(I - h A, x)."
    return value_error(
        "t |A|", f"at most {STEPS} steps of expm_multiply", f"{float(count):.3g}", advice
    )
