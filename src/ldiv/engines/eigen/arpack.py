"""Lanczos with implicit restarts by SciPy's ARPACK: on (A - sigma B)^-1, on B^-1 A, or on C^H C.

(A - sigma B)^-1 uses our own factors, and C^H C serves the singular values of C. A few guard pairs, beyond
those asked for, show whether the choice cuts through a cluster, and help with the derivative.
Reference: Lehoucq, Sorensen and Yang, ARPACK Users' Guide (1998).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
from scipy.sparse import linalg

from ldiv.core.arrays.shapes import alike, common_batch, conj, each_on_host, result_dtype
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import asnumpy, namespace, traced
from ldiv.core.frameworks.trees import Tree, leaves, rebuild
from ldiv.core.rules.finite import require_finite
from ldiv.core.rules.units import balance, magnitude
from ldiv.engines.accuracy.scaling import balanced_product
from ldiv.engines.accuracy.singularity_check import direction
from ldiv.engines.eigen import shift_invert
from ldiv.engines.eigen.arpack_runs import checked_start, operator, require_pairs, run
from ldiv.engines.eigen.slicing import contradicted, skipped
from ldiv.engines.eigen.task import EigenTask
from ldiv.engines.iterative.matrix_product import (
    HostProduct,
    Product,
    assembled,
    on_numpy,
    require_hermitian,
)
from ldiv.errors import ConvergenceError, EngineError, NotPositiveDefiniteError, value_error
from ldiv.structures.block import Block

COINCIDE = 1e3  # eigenvalues closer than this many error bounds count as one
ORTHONORMAL = 1e-3  # how far from 1 the norm of a vector may be in the metric
GRAM = 64  # roundings of s_1 that a residual may have by C^H C
RANK = 20
ON_HOST = True


def supports(task: EigenTask, dtype: Any, device: str) -> str | None:
    if task.which == "index":
        return "finds pairs at an end of the spectrum or near sigma, not by index"
    if task.offset:
        return "has mode='cayley' with which='LA', 'SA' or 'BE' only: take mode='normal'"
    if task.constraints:
        return "knows no constraints"
    if dtype.kind == "c" and task.which == "BE":
        return "has no which='BE' for complex matrices: take 'LA' and 'SA' one after the other"
    if task.k + 1 >= task.n:
        return f"finds fewer than n - 1 = {task.n - 1} pairs"
    if task.sigma is None and not (task.standard or shift_invert.factors(task.B, task.B)):
        return "needs a factor of M, whose entries are not at hand: use lobpcg"
    if task.sigma is not None and not shift_invert.factors(task.A, task.B):
        return (
            "needs a factor of A - sigma M, whose entries are not at hand: "
            "leave sigma out, or use lobpcg"
        )
    return None


def guard_pairs(task: EigenTask) -> int:
    return max(min(max(task.guard, 1), task.n - 2 - task.k), 0)


def pairs(
    task: EigenTask, pA: Tree, pB: Tree, auxiliaries: tuple[Tree, ...]
) -> tuple[Array, Array, Array]:
    """The problems of a batch, one after the other, on the host."""
    args, batch = (pA, pB, auxiliaries), common_batch(task.core, (pA, pB, auxiliaries))
    if not task.A.on_host or not task.B.on_host:
        return _through_products(task, leaves(args), batch)
    m, dtype = task.k + guard_pairs(task), result_dtype(pA, pB)
    real = np.finfo(dtype).dtype
    specs = (((*batch, m), real), ((*batch, task.n, m), dtype), ((*batch, m), real))
    lam, x, error_bound = each_on_host(partial(_pairs, task), task.core, args, specs)
    return lam, x, error_bound


def _through_products(
    task: EigenTask, flat: list[Array], batch: tuple[int, ...]
) -> tuple[Array, Array, Array]:
    """Find pairs of operators, which are called in their own framework, one product at a time."""
    if any(map(traced, flat)) or batch:
        kind = "a trace (jit)" if any(map(traced, flat)) else f"a batch {batch}"
        raise EngineError(
            f"arpack calls an operator with numbers, one problem at a time, and got {kind}: "
            "use ldiv.lobpcg."
        )
    xp = namespace(flat[0])
    found = _pairs(task, *rebuild(task.core, flat))
    w, X, error_bound = (xp.asarray(y, **alike(flat[0], y.dtype)) for y in found)
    return w, X, error_bound


def _pairs(
    task: EigenTask, pA: Tree, pB: Tree, auxiliaries: tuple[Tree, ...]
) -> tuple[Any, Any, Any]:
    """Find pairs, checked by counting if that is free, or if the task requests it.

    It is searched once more if some were skipped.
    """
    for name, structure, p in (("A", task.A, pA), ("M", task.B, pB)):
        require_finite(name, *leaves(structure.read(p)))
    task = task.in_unit(auxiliaries[-1])
    shifted = (
        None
        if task.sigma is None
        else shift_invert.shift_inverse(task.A, task.B, pA, pB, task.sigma)
    )
    solve = shifted or shift_invert.inverse(
        task.B, rebuild(task.B.core, [asnumpy(leaf) for leaf in leaves(pB)])
    )
    found = _search(task, pA, pB, auxiliaries, solve)
    # the signs of the factor of A - sigma B count eigenvalues for nothing
    signs = None if shifted is None else shifted.signs()

    def lacking(lam: Any, error_bound: Any) -> int:
        # `skipped` costs factorizations: only on request, and not if signs show it already
        free = 0 if signs is None else contradicted(task, signs, lam, error_bound)
        return skipped(task, pA, pB, lam, error_bound) if task.check and not free else free

    if signs is not None and task.on_count is not None:
        task.on_count(*signs)
    if not (missing := lacking(found[0], found[2])):
        return found
    # search again for k + 2 |missing| more pairs, from another start
    more = min(2 * abs(missing) + task.k, task.n - 2 - task.k - guard_pairs(task))
    wider = replace(task, k=task.k + max(more, 0), start=False)
    lam, x, error_bound = _search(wider, pA, pB, auxiliaries, solve, seed=1)
    # as many as the task wants, in its own order
    best = task.order(lam)[: len(found[0])]
    found = lam[best], x[:, best], error_bound[best]
    if missing := lacking(found[0], found[2]):
        what = f"the signs of a factorization show {abs(missing)} {'more' if missing > 0 else 'fewer'} eigenvalues than were found near sigma"
        raise ConvergenceError("arpack", 2, None, task.tol, what)
    return found


def _search(
    task: EigenTask,
    pA: Tree,
    pB: Tree,
    auxiliaries: tuple[Tree, ...],
    solve: Product,
    seed: int | None = None,
) -> tuple[Any, Any, Any]:
    dtype = result_dtype(pA, pB)
    A, B = (on_numpy(assembled(s, p), leaves(pA)[0]) for s, p in ((task.A, pA), (task.B, pB)))
    for structure, product in ((task.A, A), (task.B, B)):
        require_hermitian(structure, product, np.empty(0, dtype))
    z = direction(task.n).astype(dtype)
    # mu of (t^2 A) x = mu (s^2 B) x, with products near 1
    (A, t), (B, s) = (
        balanced_product(A, z, (-2, -1)),
        (B, np.ones((1, 1), np.real(A(z)).dtype))
        if task.standard
        else balanced_product(B, z, (-2, -1)),
    )
    halves = _halves(task, pA, t) if task.positive and task.sigma is None else None
    task, solve = _balanced(task, solve, t, s)
    m = task.k + guard_pairs(task)
    start = asnumpy(auxiliaries[1])[:, 0] if task.start else direction(task.n)[:, 0].astype(dtype)
    if seed is not None:
        start = np.random.default_rng(seed).standard_normal(task.n).astype(dtype)
    checked_start(start)
    lanczos = Lanczos(task, A, B, solve, dtype, halves)
    # u^2 |start| is near 1, u a power of two
    u = balance(magnitude(start, axis=0))
    lam, x, sizes = lanczos.complete(m, start * u * u)
    # allowed: sqrt(eps) (|A| |x| + |A x|), |A| measured by the product with z
    allowed = max(np.finfo(dtype).eps ** 0.5, 10 * task.tol) * (
        np.linalg.norm(A(z)) / np.linalg.norm(z) * sizes.x + sizes.of_A
    )
    if not (np.abs(sizes.in_B - 1) < ORTHONORMAL).all():
        raise NotPositiveDefiniteError("arpack", "x^H M x <= 0 for a vector x")
    require_pairs(sizes.residual, allowed)
    # lam = mu s^2 / t^2, one factor at a time
    lam, error_bound = (y / t[0] * s[0] / t[0] * s[0] for y in (lam, sizes.error_bound(lam)))
    return lam, x * s, error_bound


def _balanced(task: EigenTask, solve: Product, t: Any, s: Any) -> tuple[EigenTask, Product]:
    """sigma and the inverse for the scaled problem t^2 A x = (lam t^2 / s^2) s^2 B x.

    ARPACK takes eigenvalues below eps^(2/3) for zero.
    """
    # t^2 (A - sigma B) = t^2 A - mu s^2 B; the inverse of u S u is y -> S^-1 (y / u) / u
    sigma, u = (
        (None, s)
        if task.sigma is None
        else (float(task.sigma * t[0, 0] / s[0, 0] * t[0, 0] / s[0, 0]), t)
    )
    return replace(task, sigma=sigma), lambda x: solve(x / u) / u


class Halves(NamedTuple):
    """C and C^H of A = [[0, C], [C^H, 0]], and the number of rows of C."""

    over: HostProduct
    under: HostProduct
    rows: int


def _halves(task: EigenTask, pA: Tree, t: Any) -> Halves:
    """The halves of t^2 A."""
    block, _ = task.A.plain.unview()
    assert isinstance(block, Block)
    over, under = (
        on_numpy(assembled(part, p), leaves(pA)[0]) for part, p in zip(block.parts, pA, strict=True)
    )
    return Halves(lambda v: over(v) * t * t, lambda u: under(u) * t * t, block.heights[0])


class Sizes(NamedTuple):
    """|x|, |A x - lam B x|, |A x| and x^H B x of each pair."""

    x: Any
    residual: Any
    of_A: Any
    in_B: Any

    def error_bound(self, lam: Any) -> Any:
        """A bound of the distance from lam to the nearest eigenvalue."""
        return self.residual * self.x + np.finfo(self.x.dtype).eps * np.abs(lam)


@dataclass(frozen=True, eq=False)
class Lanczos:
    """ARPACK on one problem: products with A and B, `solve` with A - sigma B or with B."""

    task: EigenTask
    A: Product
    B: Product
    solve: Product
    dtype: Any
    halves: Halves | None = None

    def pairs(self, m: int, start: Any) -> tuple[Any, Any]:
        """m pairs, B-orthonormal."""
        if self.halves is not None and (found := self._by_gram(self.halves, m, start)) is not None:
            return found
        lam, x = self._run(m, start, self.task.which, self.A, self.solve, self.task.tol)
        # for complex matrices ARPACK runs Arnoldi, which ignores symmetry; Rayleigh-Ritz uses it
        return self._ritz(x) if self.dtype.kind == "c" else (lam, x)

    def _by_gram(self, halves: Halves, m: int, start: Any) -> tuple[Any, Any] | None:
        """m singular triplets of C as pairs of A, by the smaller of C^H C and C C^H.

        s^2 is rounded by eps s_1^2, and C^H u - s v by eps s_1^2 / s. None where that shows, for
        small s, where it keeps ARPACK from converging, and where ARPACK needs a larger matrix.
        """
        over, under, rows = halves
        tall = rows >= self.task.n - rows
        inward, outward = (over, under) if tall else (under, over)
        start = start[rows:] if tall else start[:rows]
        if m + 2 > len(start):
            return None
        gram = (lambda v: outward(inward(v)), self.solve, self.task.tol)
        try:
            _, v = self._run(m, start, "LA", *gram)
        except ConvergenceError:
            return None
        # C V = Q R = (Q U) S W^H: the triplets in the span of V
        v = np.linalg.qr(v)[0]
        q, r = np.linalg.qr(inward(v))
        u, s, w = np.linalg.svd(r)
        u, v = q @ u, v @ conj(w).T
        x = np.concatenate([u, v] if tall else [v, u]) / 2**0.5
        allowed = max(GRAM * np.finfo(self.dtype).eps, 10 * self.task.tol) * s[0]
        return (s, x) if (self.sizes(s, x).residual <= allowed).all() else None

    def _run(
        self, m: int, start: Any, which: str, A: Product, solve: Product, tol: float
    ) -> tuple[Any, Any]:
        task, of = self.task, partial(operator, len(start), self.dtype)
        metric: dict[str, Any] = {} if task.standard else {"M": of(self.B)}
        if task.sigma is not None:
            metric |= {"sigma": task.sigma, "OPinv": of(solve)}
        elif not task.standard:
            metric["Minv"] = of(solve)
        # ARPACK begins with A times the start, in which nothing of a null space is left where A
        # keeps it apart exactly: so A + c B, whose eigenvalue c is none of A
        c = 0.0 if task.sigma is not None else float(np.finfo(self.dtype).eps) ** 0.75
        moved = of((lambda v: A(v) + c * self.B(v)) if c else A)
        # by default as many vectors as SciPy takes
        ncv = min(max(2 * m + 1, 20) if task.ncv is None else max(task.ncv, m + 2), len(start))
        # ARPACK gives up where the range of a semidefinite B has fewer than ncv dimensions
        for size in range(ncv, m + 1, -1):
            try:
                sized = replace(task, ncv=size)
                lam, x = run(linalg.eigsh, sized, moved, m, which, start, tol, **metric)
            except linalg.ArpackError:
                if task.standard or task.sigma is None:
                    raise
            else:
                return lam - c, x
        raise value_error(
            "M",
            f"a matrix of rank {m + 2} or more for k = {task.k} pairs and {m - task.k} guard pairs",
            "one of less, so that fewer eigenvalues are finite",
            "Ask for fewer pairs or guards, or eliminate the unknowns that M does not have.",
        )

    def _ritz(self, x: Any) -> tuple[Any, Any]:
        """Ritz pairs on the span of x, of A or of the inverse, whichever was iterated."""
        x = np.linalg.qr(x)[0]
        Bx = self.B(x)
        # G = X^H B X, and H = X^H A X, or X^H B S^-1 B X with S = A - sigma B
        g, h = (
            conj(x).T @ Bx,
            conj(x).T @ (self.A(x) if self.task.sigma is None else self.B(self.solve(Bx))),
        )
        try:
            # H Y = G Y Nu, lam = sigma + 1 / nu for the inverse
            nu, y = scipy.linalg.eigh((h + conj(h).T) / 2, (g + conj(g).T) / 2)
        except np.linalg.LinAlgError:
            raise NotPositiveDefiniteError("arpack", "x^H M x <= 0 for a vector x") from None
        return nu if self.task.sigma is None else self.task.sigma + 1 / nu, x @ y

    # -- repeated eigenvalues: Lanczos finds one copy, others only by rounding, if at all ------

    def sizes(self, lam: Any, x: Any) -> Sizes:
        Ax, Bx = self.A(x), self.B(x)
        # R = A X - B X Lam
        size, residual, of_A = (np.linalg.norm(y, axis=0) for y in (x, Ax - Bx * lam, Ax))
        return Sizes(size, residual, of_A, np.einsum("ij,ij->j", conj(x), Bx))

    def complete(self, m: int, start: Any) -> tuple[Any, Any, Sizes]:
        """m pairs in order, without a copy of a repeated eigenvalue left out, and their sizes."""
        lam, x = self.pairs(m, start)
        sizes = self.sizes(lam, x)
        while (
            self.may_miss(lam, sizes.error_bound(lam))
            and (more := self.one_more(lam, x)) is not None
        ):
            lam, x = more
            sizes = self.sizes(lam, x)
        order = self.task.order(lam)
        return lam[order], x[:, order], Sizes(*(part[order] for part in sizes))

    def may_miss(self, lam: Any, error_bound: Any) -> bool:
        """Whether some eigenvalues coincide, so that others may be missing."""
        if self.task.which not in ("LM", "LA", "SA") or len(lam) + 2 >= self.task.n:
            return False
        order = np.argsort(lam)
        return bool(
            (
                np.diff(lam[order]) <= COINCIDE * (error_bound[order][1:] + error_bound[order][:-1])
            ).any()
        )

    def one_more(self, lam: Any, x: Any) -> tuple[Any, Any] | None:
        """The pairs, with a missed one in place of the least wanted; None if none is missed.

        A second Lanczos run, orthogonal to the pairs found, looks for it.
        """
        task, Bx = self.task, self.B(x)
        start = np.random.default_rng(len(lam)).standard_normal((task.n, 1)).astype(self.dtype)
        # start <- (I - X X^H B) start
        start = (start - x @ (conj(Bx).T @ start))[:, 0]
        A, solve = self.A, self.solve
        if task.sigma is not None:
            # deflate by moving the pairs found to eigenvalue 0 of the inverse
            nu = 1 / (lam - task.sigma)
            solve = lambda y: self.solve(y) - x @ (nu[:, None] * (conj(x).T @ y))
        else:
            # or to an eigenvalue that is not wanted: 0, or the other end of the spectrum
            away = 0.0 if task.which == "LM" else self._other_end(start)
            # A - B X (Lam - away) X^H B has the eigenvalue `away` in place of each lam
            moved = (lam - away)[:, None]
            A = lambda y: self.A(y) - Bx @ (moved * (conj(Bx).T @ y))
        found = self._run(1, start, task.which, A, solve, task.tol)
        # the new pair counts only if it is among the best of all
        every = np.append(lam, found[0])
        best: Any = replace(task, k=len(lam)).order(every)[: len(lam)]
        return (every[best], np.hstack([x, found[1]])[:, best]) if len(lam) in best else None

    def _other_end(self, start: Any) -> float:
        which = "SA" if self.task.which == "LA" else "LA"
        return float(self._run(1, start, which, self.A, self.solve, 0.1)[0][0])
