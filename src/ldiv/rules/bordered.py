"""K Y = C for the bordered systems of k eigenpairs, A X = B X Lam, |x_j| = 1, one for each pair.

    K = [[A - lam_j B, s B X_j], [s X_j^H, 0]],    s a power of two near |A|

X_j holds x_j, and of the others of X those whose eigenvalues are near lam_j: as many for each j. In
a trace, which knows no numbers, it holds all of X.

tangent, cotangent     those of a solve, on the structure of K
cost                   1 factorization for each pair, which the adjoint uses again
reference              Andrew, Chu and Lancaster, SIAM J. Matrix Anal. Appl. 14 (1993)

K is singular if lam_j is an eigenvalue beside the k, or is defective; not if others of the k are
equal to it. Else K^-H [0; e_j] = [u; 0] / s with u^H B x_j = 1. Here |u| is the condition of lam_j:
lam_j is known up to eps |u| |A|. In u an error of lam_j is multiplied by |(A - lam_j B)^+| outside
of X_j. Where all digits are lost there is no derivative.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import adjoint, alike, beside, eps, transpose, unit_columns
from ldiv.core.cached_property import cached_property
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import check_or_raise, constant, namespace, numbers
from ldiv.core.frameworks.trees import Arrays, Tree, leaves, rebuild
from ldiv.core.rules.rule import bind
from ldiv.core.rules.structure import Structure, matmul
from ldiv.core.rules.units import balance, magnitude
from ldiv.engines import solver
from ldiv.engines.accuracy.scaling import norm
from ldiv.engines.accuracy.singularity_check import direction
from ldiv.engines.eigen import shift_invert
from ldiv.engines.iterative.options import Options
from ldiv.errors import NotDifferentiableError, SingularMatrixError
from ldiv.rules.solve import Solve
from ldiv.structures.block import Block
from ldiv.structures.dense import dense
from ldiv.structures.diagonal import Diagonal
from ldiv.structures.identity import Identity
from ldiv.structures.scaled import Scaled
from ldiv.structures.sum import Sum

RESTART = 300  # steps of GMRES, for operators
LEAST = 16  # roundings of a sum of n terms
NEAR = 16  # eps^(1/2) |A|, up to which eigenvalues may be copies of each other


@dataclass(frozen=True)
class Bordered(Solve):
    """`Solve` for a bordered matrix K or its adjoint."""

    is_adjoint: bool = False

    @cached_property
    def adjoint(self) -> Solve:
        options = self.options and self.options.adjoint
        return Bordered(
            self.structure.H,
            self.assume_a,
            self.method,
            options,
            is_adjoint=not self.is_adjoint,
            policy=self.policy,
        )

    def kernel(self, p: Tree, b: Array, *rest: Tree) -> Arrays:
        xp, k = namespace(b), b.shape[-3]
        pairs = _asked(b)
        if len(pairs) == 0:  # y = K^-1 0
            batch = np.broadcast_shapes(p[-1].shape[:-2], b.shape[:-2])
            return (xp.broadcast_to(0 * b, (*batch, *b.shape[-2:])),)
        p = rebuild(
            self.structure.core,
            [
                _members(x, pairs, own + 1)
                for x, own in zip(leaves(p), leaves(self.structure.core), strict=True)
            ],
        )
        b = _members(b, pairs, 3)
        p = _beside_pairs(p, b)
        try:
            # x_j leads X_j, unless that is X
            self._require_simple(p, b, pairs if p[-1].shape[-1] == k else 0)
            (y,) = super().kernel(p, b, *rest)
        except SingularMatrixError as error:
            raise _defective() from error
        # the other pairs have y = 0, which is put behind those asked for
        place = np.full(k, len(pairs))
        place[pairs] = range(len(pairs))
        y = y if len(pairs) == k else xp.concat([y, 0 * y[..., :1, :, :]], axis=-3)
        return (_members(y, place, 3),)

    def _require_simple(self, p: Tree, like: Array, place: Any) -> None:
        """Raise unless each lam_j is known well enough for a derivative; x_j is column `place`."""
        xp, width, k = namespace(like), p[-1].shape[-1], like.shape[-3]
        n = self.structure.shape[0] - width
        # two right-hand sides: a random z, which shows |K^-1|, and [0; e_j], which gives u / s
        z, own = np.zeros((2, k, n + width, 1))
        z[..., :n, :] = direction(n) / n**0.5
        own[range(k), n + place] = 1
        probe = xp.asarray(np.concatenate([z, own], axis=-1), **alike(like))
        # the structure of the adjoint rule is K^H already
        K = self.structure if self.is_adjoint else self.structure.H
        y = solver.solve(K, p, probe, self.assume_a, self.method, self.options)
        growth, u = (norm(y[..., :n, j], axis=-1) for j in (0, 1))
        size = norm(matmul(self.structure, p, probe[..., :1])[..., :n, 0], axis=-1)
        # |s X_j^H|_F = s width^(1/2), the columns of X_j having norm 1
        s = norm(p[-1], axis=(-2, -1)) / width**0.5
        # a loss sums over copies of an eigenvalue: u cancels against u, and so do its errors, eps |u|^2
        error = size * growth + u * s if width > 1 else size * growth
        # eps |u| |A|, the error of lam_j, is multiplied by |(A - lam_j B)^+| in u
        lost = LEAST * n**0.5 * eps(like) * (u * s) * error
        check_or_raise((lost < 1).all(), _defective)


def bordered(A: Structure, B: Structure, width: int, iterates: bool) -> Bordered:
    """The rule for K, with so many columns in X_j."""
    n = A.shape[0]
    # -lam_j B: of B = I a diagonal
    moved = Diagonal(n) if isinstance(B, Identity) else Scaled((B,))
    columns = dense(n, width)
    K = Block(
        (Sum((A, moved)), columns, columns.H), ((0, 0), (0, 1), (1, 0)), (n, width), (n, width)
    )
    options = Options(restart=min(n + width, RESTART)) if iterates else None
    return Bordered(K, options=options)


def border(A: Structure, pA: Tree, like: Array) -> Array:
    """s (*batch, 1), a constant."""
    z = namespace(like).asarray(direction(A.shape[1]), **alike(like))
    # t^2 |A z| is near 1: 1 / t^2 is a power of two near |A|
    t = balance(magnitude(constant(matmul(A, pA, z))[..., 0], axis=-1))
    return 1 / t / t


@dataclass
class Systems:
    """The systems of k pairs, lam (*batch, k), X (*batch, n, k): pairs are the last batch axis."""

    A: Structure
    B: Structure
    pencil: Tree
    lam: Array
    X: Array

    def solved(self, is_adjoint: bool, r: Array, below: Array) -> tuple[Array, Array]:
        """Y (*batch, n, k), C (*batch, k, k), K [y_j; c_j / s] = [r_j; s below_j], or K^H for K.

        Of `below`, and in C, what is not in the border of a pair is zero.
        """
        n, s, xp = self.A.shape[0], self._s[..., None], namespace(r)
        # pairs become the last batch axis: right-hand sides (*batch, k, n + width, 1)
        below = transpose(below) * s
        if self._chosen is not None:
            below = (below[..., None, :] @ self._chosen)[..., 0, :]
        right = xp.concat([transpose(r), below], axis=-1)[..., None]
        rule = self._rule.adjoint if is_adjoint else self._rule
        y = bind(rule, self._parameters(), right)[0][..., 0]
        # the unknown of K is c_j / s
        c = y[..., n:] * s
        if self._chosen is not None:
            c = (self._chosen @ c[..., None])[..., 0]
        return transpose(y[..., :n]), transpose(c)

    def left(self, asked: Any = 1) -> tuple[Array, Array]:
        """W (*batch, n, k), w_j^H B x_j = 1, and how wrong each eigenvalue may be; constants. Both are 0
        for pairs that a loss does not ask for.
        """
        fixed, k = self.fixed(), self.lam.shape[-1]
        one = unit_columns(self.X, k, range(k)) * asked
        # K^H [w_j; *] = [0; s e_j]
        w, _ = fixed.solved(True, 0 * fixed.X, one + 0 * adjoint(fixed.X) @ fixed.X)
        # lam_j is known up to n^(1/2) eps |w_j| |A|, with s for |A|
        size = norm(namespace(w).abs(w), axis=-2)
        return w, self.A.shape[0] ** 0.5 * eps(w) * size * self._s

    def fixed(self) -> Systems:
        """The same systems, with constants."""
        pencil = rebuild((self.A.core, self.B.core), [*map(constant, leaves(self.pencil))])
        return Systems(self.A, self.B, pencil, constant(self.lam), constant(self.X))

    def inside(self, c: Array) -> Array:
        """C (*batch, k, k), zero outside of the border of each pair."""
        if self._chosen is None:
            return c
        return c * transpose(namespace(c).sum(self._chosen, axis=-1))

    @cached_property
    def _rule(self) -> Bordered:
        A, B = self.A, self.B
        width = self.X.shape[-1] if self._chosen is None else self._chosen.shape[-1]
        return bordered(A, B, width, not shift_invert.factors(A, B))

    @cached_property
    def _s(self) -> Array:
        return border(self.A, self.pencil[0], self.X)

    @cached_property
    def _chosen(self) -> Array | None:
        """Columns of the identity (*batch, k, k, width), X_j = X times these; None for all of X."""
        lam, s, k = numbers(self.lam), numbers(self._s), self.lam.shape[-1]
        if lam is None or s is None or lam.shape != self.lam.shape:  # in a trace, or under vmap
            return None
        distance = abs(lam[..., :, None] - lam[..., None, :])
        # one width for all pairs: the largest number of near copies that any pair has
        width = (distance <= NEAR * eps(lam) ** 0.5 * s[..., None]).sum(axis=-1).max(initial=1)
        if width == k:
            return None
        # -1 puts the pair itself first
        distance[..., range(k), range(k)] = -1
        order = distance.argsort(axis=-1, kind="stable")[..., :width]
        return namespace(self.X).asarray(np.eye(k)[order].swapaxes(-1, -2), **alike(self.X))

    def _parameters(self) -> Tree:
        A, B, (pA, pB), lam, s = self.A, self.B, self.pencil, self.lam, self._s[..., None]
        ones = namespace(lam).ones((self.X.shape[-2],), **alike(lam))
        is_standard = isinstance(B, Identity)
        moved: Tree = -lam[..., None] * ones if is_standard else (_of_each_pair(B.core, pB), -lam)
        columns = [(y * s)[..., None, :, :] for y in (matmul(B, pB, self.X), self.X)]
        if self._chosen is not None:
            columns = [y @ self._chosen for y in columns]
        return ((_of_each_pair(A.core, pA), moved), *columns)


def _beside_pairs(p: Tree, b: Array) -> Tree:
    """K with another border for pairs with a right-hand side of 0: they may be defective, where nobody asks."""
    *block, columns, rows = p
    xp, more = namespace(columns), b.ndim - columns.ndim
    # (.., k, 1, 1): does any right-hand side ask for this pair?
    asked = xp.any(b != 0, axis=(*range(more), -2, -1))[..., None, None]
    n, width = columns.shape[-2:]
    # a random border: K is regular with it even where the pair is defective
    any_ = xp.asarray(direction(n * width).reshape(n, width) / n**0.5, **alike(columns))
    any_ = any_ * xp.max(xp.abs(columns), axis=(-2, -1), keepdims=True)
    return (*block, xp.where(asked, columns, any_), xp.where(asked, rows, any_))


def _asked(b: Array) -> Any:
    """The pairs with a right-hand side that is not 0; all where numbers are not known."""
    flags = namespace(b).any(b != 0, axis=(-2, -1))
    known = numbers(flags)
    if known is None or known.shape != tuple(flags.shape):  # in a trace, or under vmap
        return np.arange(b.shape[-3])
    return np.flatnonzero(known.any(axis=tuple(range(known.ndim - 1))))


def _members(x: Array, pairs: Any, axis: int) -> Array:
    """x of these pairs, which are an axis from the end, if there is any."""
    if x.ndim < axis or x.shape[-axis] == 1 or np.array_equal(pairs, range(x.shape[-axis])):
        return x
    xp = namespace(x)
    return xp.take(x, xp.asarray(pairs, **beside(x)), axis=-axis)


def _of_each_pair(core: Tree, p: Tree) -> Tree:
    """Add an axis for the pairs behind the batch axes, to parameters that have batch axes."""
    flat = zip(leaves(p), leaves(core), strict=True)
    return rebuild(
        core,
        [x if x.ndim == own else namespace(x).expand_dims(x, axis=-own - 1) for x, own in flat],
    )


def _defective() -> NotDifferentiableError:
    return NotDifferentiableError(
        "no derivative: an eigenvalue is repeated or defective, or so close to it that no digit of "
        "a derivative is known. Let the loss depend on the matrix through a smooth function "
        "(ldiv.expm_multiply, a determinant, ldiv.eig for a sum over copies), or move the matrix."
    )
