"""M = L L^H by batches of fronts: dense operations alone, where the values are.

    factor     F = values + children's updates,  L11 = chol(F11),  X = L11^-1 F21^H,  U = F22 - X^H X
    solve      z = L11^-1 w_1,  u = w_2 - X^H z  upwards;  x_1 = L11^-H (z - X x_2)  downwards
    inverse    Z22 from the parent,  H = L11^-H X,  Z12 = -H Z22,  Z11 = F11^-1 - Z12 H^H
    tangent    M = L11^-1 dF11 L11^-H,  B = L11^-1 dF12,  N = B - M X,  dU = dF22 - X^H B - N^H X  upwards;
               S = N Z22 + X dZ22,  dZ12 = -L11^-H S,  dZ11 = L11^-H (X Z22 N^H + S X^H - M) L11^-1  downwards

A sum of children is made in one order, and nothing is read: equal inputs give equal bits, and the
host only asks for operations.
Reference: Liu, SIAM Review 34 (1992); Erisman, Tinney, Comm. ACM 18 (1975).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ldiv.core.arrays.shapes import (
    adjoint,
    batch_of,
    broadcast,
    conj,
    put,
    real,
    spread,
    unit_columns,
)
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import frontend_of, namespace
from ldiv.engines.accuracy.slot_matrix import gathered
from ldiv.engines.factor import Factor
from ldiv.engines.selected.front_batches import Batch, FrontBatches, Kid


def cholesky(fronts: FrontBatches, values: Array) -> tuple[BatchedCholesky, Any]:
    """The factor of M (*batch) by its slots, and whether all are positive definite."""
    xp, dense = namespace(values), frontend_of(values).dense
    arrays: list[Array] = []
    definite = []

    def step(b: Batch, f: Array) -> Array:
        l, is_definite = dense.cholesky(f[..., : b.k, : b.k])
        x = dense.solve_triangular(l, adjoint(f[..., b.k :, : b.k]), True)
        arrays.extend([l, x])
        definite.append(is_definite)
        return dense.minus_product(f[..., b.k :, b.k :], adjoint(x), x)

    _leaves_to_roots(fronts, values, xp.ones_like(values[..., :1]), step)
    return BatchedCholesky(fronts, *arrays), xp.stack(definite).all()


class BatchedCholesky(Factor):
    """L in two arrays for each batch: L11 (*batch, count, k, k), and X = L21^H (*batch, count, k, r)."""

    def __init__(self, fronts: FrontBatches, *arrays: Array) -> None:
        self._fronts, self.arrays = fronts, arrays
        self.core = (3,) * len(arrays)
        self.nbytes = sum(x.nbytes for x in arrays)
        self._dense = frontend_of(arrays[0]).dense

    @property
    def remake(self) -> Callable[..., BatchedCholesky]:
        return partial(BatchedCholesky, self._fronts)

    def _parts(self, like: Array) -> list[tuple[Batch, Array, Array]]:
        batches, *_ = self._fronts.on(like)
        return list(zip(batches, self.arrays[::2], self.arrays[1::2], strict=True))

    def solve(self, b: Array, op: str) -> Array:
        if op == "T":
            # M^T = conj(M), so M^-T b = conj(M^-1 conj(b))
            return conj(self.solve(conj(b), "N"))
        xp, dense = namespace(b), self._dense
        b = spread(b, broadcast(batch_of(b, 2), batch_of(self.arrays[0], 3)))
        # of the batches of b and of L, those of a transformation too: it is overwritten below
        zero = xp.zeros_like(b[..., :1, :]) + xp.zeros_like(self.arrays[0][..., 0, :1, :1])
        b, parts, wide = xp.concat([b, zero], axis=-2), self._parts(b), b.shape[-1]
        updates: list[Array] = []
        done: list[Array] = []
        for g, l, x in parts:
            # w: the right-hand side in the own columns, 0 below them, and what children add to both
            w = gathered(b, g.own)
            if g.kids:
                below = xp.broadcast_to(zero[..., None, :, :], (*w.shape[:-2], g.r, wide))
                w = _flat(xp.concat([w, below], axis=-2))
                for kid in g.kids:
                    u = updates[kid.batch][..., kid.start : kid.stop, :, :]
                    w = dense.add_rows(w, kid.to.reshape(-1), _flat(u))
                w = xp.reshape(w, (*batch_of(w, 2), g.count, g.k + g.r, wide))
            # L11 z = w_1
            z = dense.solve_triangular(l, w[..., : g.k, :], True)
            # u = w_2 - X^H z
            if g.kids:
                updates.append(dense.minus_product(w[..., g.k :, :], adjoint(x), z))
            else:
                updates.append(-dense.product(adjoint(x), z))
            done.append(z)
        # the columns of all batches, one batch after the other
        y = xp.concat([_flat(z) for z in done], axis=-2)
        stop = y.shape[-2]
        for (g, l, x), z in zip(reversed(parts), reversed(done), strict=True):
            if g.r:
                z = dense.minus_product(z, x, gathered(y, g.below))
            # L11^H x_1 = z - X x_2
            z = _flat(dense.solve_triangular(adjoint(l), z, False))
            y = put(y, (..., slice(stop - z.shape[-2], stop), slice(None)), z)
            stop -= z.shape[-2]
        return gathered(y, self._fronts.on(b)[1])

    def logabsdet(self) -> Array:
        xp = namespace(self.arrays[0])
        # log |det M| = 2 sum log diag(L); padding has ones there
        diagonals = [real(xp.linalg.diagonal(l)) for l in self.arrays[::2]]
        every = [xp.reshape(d, (*batch_of(d, 2), d.shape[-2] * d.shape[-1])) for d in diagonals]
        return 2 * xp.sum(xp.log(xp.concat(every, axis=-1)), axis=-1)

    # -- entries of the inverse, (M^-1)_ji for every slot (i, j) -----------------------------------

    def inverse_slots(self) -> Array:
        """The entries of the inverse."""
        return self._entries(None)

    def inverse_tangent(self, e: Array) -> Array:
        """The entries of -M^-1 E M^-1 for E by its slots."""
        moved: list[tuple[Array, Array]] = []
        parts, xp = iter(self._parts(e)), namespace(e)

        def step(b: Batch, f: Array) -> Array:
            _, l, x = next(parts)
            # dF11 is Hermitian, and given by its lower triangle
            low, f21 = xp.tril(f[..., : b.k, : b.k]), f[..., b.k :, : b.k]
            df = low + adjoint(xp.tril(low, k=-1))
            # M = L11^-1 dF11 L11^-H,  B = L11^-1 dF12
            m = self._dense.solve_triangular(l, df, True)
            m = self._dense.solve_triangular(l, adjoint(m), True)
            by = self._dense.solve_triangular(l, adjoint(f21), True)
            # N = B - M X
            n = self._dense.minus_product(by, m, x)
            moved.append((m, n))
            # dU = dF22 - X^H B - N^H X
            update = self._dense.minus_product(f[..., b.k :, b.k :], adjoint(x), by)
            return self._dense.minus_product(update, adjoint(n), x)

        padding = xp.zeros_like(e[..., :1]) + xp.zeros_like(self.arrays[0][..., 0, 0, :1])
        _leaves_to_roots(self._fronts, e, padding, step)
        return self._entries(moved)

    def _cholesky_solve(self, l: Array, b: Array) -> Array:
        """(L11 L11^H)^-1 B."""
        return self._dense.solve_triangular(
            adjoint(l), self._dense.solve_triangular(l, b, True), False
        )

    def _entries(self, moved: Sequence[tuple[Array, Array]] | None) -> Array:
        """The entries of M^-1, or of its tangent along (M, N) of all batches."""
        like = self.arrays[0]
        xp, times = namespace(like), self._dense.product
        waiting: dict[int, list[tuple[int, tuple[Array, ...]]]] = {}
        found: list[Array] = []
        parts = self._parts(like)
        for number in range(len(parts) - 1, -1, -1):
            b, l, x = parts[number]
            # F11^-1 = (L11 L11^H)^-1 I
            one = unit_columns(like, b.k, range(b.k))
            inverse = self._cholesky_solve(l, xp.broadcast_to(one, l.shape))
            h = self._dense.solve_triangular(adjoint(l), x, False)
            # Z22 of each front was taken from its parent, and is put in the order of this batch
            below = [z for _, z in sorted(waiting.pop(number, []), key=lambda kid: kid[0])]
            z22 = [xp.concat(zs, axis=-3) for zs in zip(*below, strict=True)]
            # roots have no rows below
            if not z22:
                z22 = [xp.zeros_like(times(adjoint(x), x))] * 2
            # entries that padding has no place for are multiplied by its zeros in H
            z12 = -times(h, z22[0])
            # Z11 = F11^-1 - Z12 H^H
            fronts = [_block(inverse - times(z12, adjoint(h)), z12, z22[0])]
            if moved is not None:
                m, n = moved[number]
                # S = N Z22 + X dZ22
                s = times(n, z22[0]) + times(x, z22[1])
                dz12 = -self._dense.solve_triangular(adjoint(l), s, False)
                # dZ11 = L11^-H (X Z22 N^H + S X^H - M) L11^-1
                inner = times(x, times(z22[0], adjoint(n))) + times(s, adjoint(x)) - m
                dz11 = self._dense.solve_triangular(adjoint(l), inner, False)
                dz11 = self._dense.solve_triangular(adjoint(l), adjoint(dz11), False)
                fronts.append(_block(dz11, dz12, z22[1]))
            flat = [_numbers(z) for z in fronts]
            found.append(gathered(flat[-1], b.places))
            # the part of Z in the rows of each child is its Z22
            for kid in b.kids:
                zs = tuple(gathered(z, _pairs(kid))[..., 0] for z in flat)
                waiting.setdefault(kid.batch, []).append((kid.start, zs))
        # the lower slots, then their conjugates for the upper ones
        lower = xp.concat(found[::-1], axis=-2)[..., 0]
        both = xp.concat([lower, conj(lower)], axis=-1)
        return both[..., self._fronts.on(like)[2]]


def _leaves_to_roots(
    fronts: FrontBatches, slots: Array, padding: Array, step: Callable[[Batch, Array], Array]
) -> None:
    """step(batch, F) = the updates of the parents, from the leaves to the roots.

    F (*batch, count, k + r, k + r) has the lower slots, `padding` on the diagonal beyond them, and the
    updates of the children.
    """
    xp, dense = namespace(slots), frontend_of(slots).dense
    batches, *_ = fronts.on(slots)
    # one number more, which padding reads
    slots = xp.concat([spread(slots, batch_of(padding, 1), 1), padding], axis=-1)[..., None]
    updates: dict[int, Array] = {}
    left = _uses(batches)
    for number, b in enumerate(batches):
        m = b.k + b.r
        f = dense.scatter(gathered(slots, b.source), b.places, b.count * m * m)
        for kid in b.kids:
            u = updates[kid.batch][..., kid.start : kid.stop, :, :]
            f = dense.add_rows(f, _pairs(kid).reshape(-1), _numbers(u))
            # updates are dropped after their last use
            left[kid.batch] -= 1
            if not left[kid.batch]:
                del updates[kid.batch]
        updates[number] = step(b, xp.reshape(f, (*batch_of(f, 2), b.count, m, m)))


def _uses(batches: Sequence[Batch]) -> list[int]:
    """The number of times that the updates of each batch are read."""
    uses = [0] * len(batches)
    for b in batches:
        for kid in b.kids:
            uses[kid.batch] += 1
    return uses


def _pairs(kid: Kid) -> Any:
    """The places (c, r, r) of the numbers of the children among those of all fronts."""
    # number (i, j) of a child goes to first_i + to_j
    return kid.first + kid.to[:, None, :]


def _flat(x: Array) -> Array:
    """(*batch, count, n, k) -> (*batch, count n, k)."""
    return namespace(x).reshape(x, (*batch_of(x, 3), x.shape[-3] * x.shape[-2], x.shape[-1]))


def _numbers(x: Array) -> Array:
    """(*batch, count, n, k) -> (*batch, count n k, 1)."""
    size = x.shape[-3] * x.shape[-2] * x.shape[-1]
    return namespace(x).reshape(x, (*batch_of(x, 3), size, 1))


def _block(z11: Array, z12: Array, z22: Array) -> Array:
    """[Z11 Z12; Z12^H Z22]."""
    xp = namespace(z11)
    if not z12.shape[-1]:
        return z11
    rows = xp.concat([z11, z12], axis=-1), xp.concat([adjoint(z12), z22], axis=-1)
    return xp.concat(rows, axis=-2)
