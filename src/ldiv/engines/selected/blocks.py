"""A = L D U by blocks, one supernode at a time, and the entries of A^-1 in the places of L, D and U.

With the front [[F11, F12], [F21, F22]] of a supernode, its own columns first:

    D = F11,  L = F21 D^-1,  U = D^-1 F12,  and F22 - L F12 goes to the parent
    Z22 of the parent,  Z21 = -Z22 L,  Z12 = -U Z22,  Z11 = D^-1 - U Z21

Pivots are chosen inside of the diagonal blocks. Along a perturbation E of A, the same by the product
rule: the tangent of Z is that of A^-1, which is -A^-1 E A^-1.
Shapes: c columns and r rows below; L (r, c), U (c, r), D (c, c).
Reference: Erisman and Tinney, Comm. ACM 18 (1975); Lin et al., SelInv, ACM Trans. Math. Softw. 37
(2011).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.linalg import get_lapack_funcs

from ldiv.core.trees import HostArray
from ldiv.engines.selected.fronts import Fronts


class Blocks:
    """The factors of one matrix, lists with a block for each supernode.

    `failed`: a supernode whose diagonal block is singular; with `positive`, one that is not
    positive definite. Then nothing else is defined.
    """

    def __init__(self, fronts: Fronts, values: HostArray, positive: bool = False) -> None:
        self._fronts, self._positive = fronts, positive
        self._getrf, self._getrs, self._getri, self._potrf = get_lapack_funcs(
            ("getrf", "getrs", "getri", "potrf"), (values,)
        )
        self.dtype = self._getrf.dtype
        self.failed: int | None = None
        self._lu: list[tuple[HostArray, HostArray]] = []
        self._l: list[HostArray] = []
        self._u: list[HostArray] = []
        self._c: list[HostArray] = []  # D = C C^H, of a positive definite matrix
        self._factor(values)
        self.nbytes = sum(x.nbytes for x in (*self._l, *self._u, *(lu for lu, _ in self._lu)))

    # -- fronts -----------------------------------------------------------------------------------

    def _assembled(
        self, values: HostArray
    ) -> Iterator[tuple[int, HostArray, list[HostArray | None]]]:
        """(s, front, updates) from the leaves to the roots: the user puts what goes up in
        updates[s].
        """
        fronts = self._fronts
        place, mirrored = fronts.places
        panels = np.zeros((2, fronts.entries), self.dtype)
        panels[mirrored.astype(np.intp), place] = values
        updates: list[HostArray | None] = [None] * fronts.count
        children: list[list[int]] = [[] for _ in range(fronts.count)]
        for s, parent in enumerate(fronts.above.tolist()):
            c, m = self._sizes(s)
            lower, upper = (x[self._panel(s)].reshape((m, c), order="F") for x in panels)
            front = np.zeros((m, m), self.dtype, order="F")
            front[:, :c], front[:c, c:] = lower, upper[c:].T
            for child in children[s]:
                to, update = self._relative(child), updates[child]
                assert update is not None
                front[to[:, None], to] += update
                updates[child] = None
            yield s, front, updates
            if parent >= 0:
                children[parent].append(s)

    def _sizes(self, s: int) -> tuple[int, int]:
        """(c, c + r)."""
        width = int(self._fronts.width[s])
        return width, width + int(self._fronts.below[s])

    def _panel(self, s: int) -> slice:
        return slice(*self._fronts.panel_starts[s : s + 2].tolist())

    def _relative(self, s: int) -> HostArray:
        return self._fronts.relative[slice(*self._fronts.row_starts[s : s + 2].tolist())]

    def _factor(self, values: HostArray) -> None:
        for s, front, updates in self._assembled(values):
            c, _ = self._sizes(s)
            d, f12 = front[:c, :c], front[:c, c:]
            if self._positive:
                c11, info = self._potrf(d, lower=1)
                if info:
                    self.failed = s
                    return
                self._c.append(np.tril(c11))
            lu, pivots, info = self._getrf(d)
            if info or not np.isfinite(lu).all():
                self.failed = s
                return
            self._lu.append((lu, pivots))
            self._l.append(self._right_divide(front[c:, :c], s))
            self._u.append(self._left_divide(f12, s))
            updates[s] = front[c:, c:] - self._l[s] @ f12

    def _left_divide(self, x: HostArray, s: int) -> HostArray:
        """D^-1 X."""
        return self._getrs(*self._lu[s], x)[0] if x.size else x.astype(self.dtype)

    def _right_divide(self, x: HostArray, s: int) -> HostArray:
        """X D^-1."""
        return self._getrs(*self._lu[s], x.T, trans=1)[0].T if x.size else x.astype(self.dtype)

    def lower(self) -> HostArray:
        """The Cholesky factor in panels: C, and L C below it."""
        return np.concatenate(
            [
                np.concatenate([c, l @ c]).ravel(order="F")
                for c, l in zip(self._c, self._l, strict=True)
            ]
        )

    # -- the determinant, and solves --------------------------------------------------------------

    def slogdet(self) -> tuple[Any, Any]:
        """(det / |det|, log |det|)."""
        pivots = np.concatenate([lu.diagonal() for lu, _ in self._lu])
        exchanged = sum(int((p != np.arange(len(p))).sum()) for _, p in self._lu)
        size = np.abs(pivots)
        return (pivots / size).prod() * (-1) ** (exchanged % 2), np.log(size).sum()

    def solve(self, b: HostArray, op: str) -> HostArray:
        """op(A)^-1 b for b (n, k)."""
        if op == "H":
            return np.conj(self.solve(np.conj(b), "T"))
        fronts, transposed = self._fronts, op == "T"
        x = np.array(b, np.result_type(b, self.dtype))
        spans = list(zip(fronts.starts[:-1].tolist(), fronts.starts[1:].tolist(), strict=True))
        rows = np.split(fronts.rows_below, fronts.row_starts[1:-1])
        for s, (i, j) in enumerate(spans):
            x[rows[s]] -= (self._u[s].T if transposed else self._l[s]) @ x[i:j]
        for s, (i, j) in reversed(list(enumerate(spans))):
            x[i:j] = self._getrs(*self._lu[s], x[i:j], trans=int(transposed))[0]
            x[i:j] -= (self._l[s].T if transposed else self._u[s]) @ x[rows[s]]
        return x

    # -- the selected inverse, and its tangent ----------------------------------------------------

    def inverse(self) -> HostArray:
        """Entry (j, i) of A^-1 for every slot (i, j) of A."""
        return self._swept(None)

    def tangent(self, e: HostArray) -> HostArray:
        """Entry (j, i) of -A^-1 E A^-1 for every slot, E given in the slots of A."""
        moved: list[tuple[HostArray, ...]] = []
        for s, front, updates in self._assembled(e):
            c, _ = self._sizes(s)
            l, u = self._l[s], self._u[s]
            dd, d21, d12 = front[:c, :c], front[c:, :c], front[:c, c:]
            dl = d21 - l @ dd
            updates[s] = front[c:, c:] - dl @ u - l @ d12
            moved.append((dd, self._right_divide(dl, s), self._left_divide(d12 - dd @ u, s)))
        return self._swept(moved)

    def _swept(self, moved: list[tuple[HostArray, ...]] | None) -> HostArray:
        """From the roots to the leaves: Z, or its tangent along what moved the blocks."""
        fronts = self._fronts
        panels = np.empty((2, fronts.entries), self.dtype)
        # the fronts of Z, and of dZ, of supernodes that have children to come
        kept: list[list[HostArray] | None] = [None] * fronts.count
        waiting = np.bincount(fronts.above[fronts.above >= 0], minlength=fronts.count).tolist()
        for s in range(fronts.count - 1, -1, -1):
            c, m = self._sizes(s)
            parent = int(fronts.above[s])
            above: list[HostArray] = []
            if m > c:
                at, held = self._relative(s), kept[parent]
                assert held is not None
                above = [z[at[:, None], at] for z in held]
            if parent >= 0:
                waiting[parent] -= 1
                if not waiting[parent]:
                    kept[parent] = None
            every = self._fronts_of(s, above, None if moved is None else moved[s])
            panels[0, self._panel(s)] = every[-1][:, :c].ravel(order="F")
            panels[1, self._panel(s)] = every[-1][:c].T.ravel(order="F")
            if waiting[s]:
                kept[s] = every
        place, mirrored = fronts.places
        own = fronts.owner[fronts.pattern.indices] == fronts.owner[fronts.pattern.columns]
        # (j, i) of a diagonal block is in the panel by rows, as all places are mirrored there
        return panels[np.where(own | ~mirrored, 1, 0), place]

    def _fronts_of(
        self, s: int, above: list[HostArray], moved: tuple[HostArray, ...] | None
    ) -> list[HostArray]:
        """[Z], or [Z, dZ], in the front of a supernode."""
        c, m = self._sizes(s)
        l, u = self._l[s], self._u[s]
        d = self._getri(*self._lu[s])[0]
        z = np.empty((m, m), self.dtype, order="F")
        z[:c, :c] = d
        if m > c:
            w = above[0]
            z[c:, c:], z[c:, :c], z[:c, c:] = w, -w @ l, -u @ w
            z[:c, :c] -= u @ z[c:, :c]
        if moved is None:
            return [z]
        dd, dl, du = moved
        dz = np.empty((m, m), self.dtype, order="F")
        dz[:c, :c] = -d @ dd @ d
        if m > c:
            dw = above[1]
            dz[c:, c:], dz[c:, :c], dz[:c, c:] = dw, -dw @ l - w @ dl, -du @ w - u @ dw
            dz[:c, :c] -= du @ z[c:, :c] + u @ dz[c:, :c]
        return [z, dz]
