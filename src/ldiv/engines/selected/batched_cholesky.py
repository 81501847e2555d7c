"""M = L L^H by batches of fronts: dense operations alone, where the values are.

    factor     F = values + children's updates,  L11 = chol(F11),  X = L11^-1 F12,  U = F22 - X^H X
    solve      z = L11^-1 (b_1 - the u of descendants),  u = X^H z  upwards;  x_1 = L11^-H (z - X x_2)  downwards
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
from ldiv.engines.accuracy.slot_matrix import gathered, summed
from ldiv.engines.factor import Factor
from ldiv.engines.selected.front_batches import Batch, FrontBatches


def cholesky(fronts: FrontBatches, values: Array) -> tuple[BatchedCholesky, Any]:
    """The factor of M (*batch) by its slots, and whether all are positive definite."""
    xp, dense = namespace(values), frontend_of(values).dense
    arrays: list[Array] = []
    definite = []

    def step(b: Batch, f1: Array, f22: Array) -> Array:
        l, is_definite = dense.cholesky(adjoint(f1[..., : b.k]))
        x = dense.solve_triangular(l, f1[..., b.k :], True)
        arrays.extend([l, x])
        definite.append(is_definite)
        return dense.minus_upper(f22, x, x)

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
        _, _, owners, of_column, _ = self._fronts.on(b)
        parts = self._parts(b)
        # right-hand sides in the own columns of all batches, and a zero after the rows below
        y = gathered(xp.concat([b, zero], axis=-2), owners)
        u = dense.unset_rows(zero, parts[-1][0].below.stop + 1)
        u = put(u, (..., slice(-1, None), slice(None)), zero)
        for g, l, x in parts:
            own = (..., g.own, slice(None))
            w = y[own]
            if g.sums:
                w = w - summed(u, g.sums)
            # L11 z = b_1 - u,  u = X^H z in the rows below
            z = dense.solve_triangular(l, _blocks(w, g), True)
            y = put(y, own, _flat(z))
            if g.r:
                u = put(u, (..., g.below, slice(None)), _flat(dense.product(adjoint(x), z)))
        for g, l, x in reversed(parts):
            own = (..., g.own, slice(None))
            z = _blocks(y[own], g)
            if g.r:
                z = dense.minus_product(z, x, gathered(y, g.column))
            # L11^H x_1 = z - X x_2
            y = put(y, own, _flat(dense.solve_triangular(adjoint(l), z, False)))
        return gathered(y, of_column)

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

        def step(b: Batch, f1: Array, f22: Array) -> Array:
            _, l, x = next(parts)
            # dF11 is Hermitian, and given by its upper triangle
            df = _mirrored(f1[..., : b.k])
            # M = L11^-1 dF11 L11^-H,  B = L11^-1 dF12
            m = self._dense.solve_triangular(l, df, True)
            m = self._dense.solve_triangular(l, adjoint(m), True)
            by = self._dense.solve_triangular(l, f1[..., b.k :], True)
            # N = B - M X
            n = by - self._dense.product(m, x)
            moved.append((m, n))
            # dU = dF22 - X^H B - N^H X
            return self._dense.minus_upper(self._dense.minus_upper(f22, x, by), n, x)

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
            z22 = [_mirrored(xp.concat(zs, axis=-3)) for zs in zip(*below, strict=True)]
            # roots have no rows below
            if not z22:
                z22 = [xp.zeros_like(times(adjoint(x), x))] * 2
            # entries that padding has no place for are multiplied by its zeros in H
            z12 = -times(h, z22[0])
            # Z11 = F11^-1 - Z12 H^H
            fronts = [_row_numbers(inverse - times(z12, adjoint(h)), z12, z22[0])]
            if moved is not None:
                m, n = moved[number]
                # S = N Z22 + X dZ22
                s = times(n, z22[0]) + times(x, z22[1])
                dz12 = -self._dense.solve_triangular(adjoint(l), s, False)
                # dZ11 = L11^-H (X Z22 N^H + S X^H - M) L11^-1
                inner = times(x, times(z22[0], adjoint(n))) + times(s, adjoint(x)) - m
                dz11 = self._dense.solve_triangular(adjoint(l), inner, False)
                dz11 = self._dense.solve_triangular(adjoint(l), adjoint(dz11), False)
                fronts.append(_row_numbers(dz11, dz12, z22[1]))
            found.append(gathered(fronts[-1], b.places))
            # the part of Z in the rows of each child is its Z22
            for kid in b.kids:
                zs = tuple(gathered(z, kid.first + kid.to)[..., 0] for z in fronts)
                waiting.setdefault(kid.batch, []).append((kid.start, zs))
        # the upper slots, then their conjugates for the lower ones
        upper = xp.concat(found[::-1], axis=-2)[..., 0]
        both = xp.concat([upper, conj(upper)], axis=-1)
        return both[..., self._fronts.on(like)[4]]


def _leaves_to_roots(
    fronts: FrontBatches, slots: Array, padding: Array, step: Callable[[Batch, Array, Array], Array]
) -> None:
    """step(batch, F_1, F_22) = the updates of the parents, from the leaves to the roots.

    The own rows F_1 (*batch, count, k, k + r) have the upper slots, `padding` on the diagonal beyond
    them, and the updates of the children. The rows below, F_22 (*batch, count, r, r), have these
    updates alone. Updates are upper triangles: F_22 has no place for numbers in own columns.
    """
    xp, dense = namespace(slots), frontend_of(slots).dense
    batches, sources, *_ = fronts.on(slots)
    # one number more, which padding reads
    slots = xp.concat([spread(slots, batch_of(padding, 1), 1), padding], axis=-1)
    values = xp.take(slots, sources, axis=-1)[..., None]
    work = dense.unset_rows(values, fronts.work)
    updates: list[Array] = []
    for b in batches:
        own = b.count * b.k * (b.k + b.r)
        f = put(work, (..., b.work, slice(None)), 0)[..., b.work, :]
        f = dense.add_rows(f, b.places, values[..., b.values, :])
        for kid in b.kids:
            each = batches[kid.batch].r ** 2
            u = updates[kid.batch][..., kid.start * each : kid.stop * each, :]
            f = dense.add_rows(f, xp.reshape(kid.first + kid.to, (-1,)), u)
        batch = batch_of(f, 2)
        f1 = xp.reshape(f[..., :own, 0], (*batch, b.count, b.k, b.k + b.r))
        f22 = xp.reshape(f[..., own:, 0], (*batch, b.count, b.r, b.r))
        updates.append(_numbers(step(b, f1, f22)))


def _mirrored(x: Array) -> Array:
    """The Hermitian matrices with these upper triangles."""
    xp = namespace(x)
    return xp.triu(x) + adjoint(xp.triu(x, k=1))


def _flat(x: Array) -> Array:
    """(*batch, count, n, k) -> (*batch, count n, k)."""
    return namespace(x).reshape(x, (*batch_of(x, 3), x.shape[-3] * x.shape[-2], x.shape[-1]))


def _blocks(x: Array, b: Batch) -> Array:
    """(*batch, count k, nrhs) -> (*batch, count, k, nrhs)."""
    return namespace(x).reshape(x, (*batch_of(x, 2), b.count, b.k, x.shape[-1]))


def _numbers(x: Array) -> Array:
    """(*batch, count, n, k) -> (*batch, count n k, 1)."""
    size = x.shape[-3] * x.shape[-2] * x.shape[-1]
    return namespace(x).reshape(x, (*batch_of(x, 3), size, 1))


def _row_numbers(z11: Array, z12: Array, z22: Array) -> Array:
    """The numbers of fronts [Z11 Z12; . Z22], in the order of `Batch`."""
    xp = namespace(z11)
    return xp.concat([_numbers(xp.concat([z11, z12], axis=-1)), _numbers(z22)], axis=-2)
