"""K Y = C for the bordered systems of eigenpairs, A x = lam B x, |x| = 1, one for each pair.

    K = [[A - lam B, s B x], [s x^H, 0]],    s a power of two near |A|

tangent, cotangent     those of a solve, on the structure of K
cost                   1 factorization for each pair, which the adjoint uses again
reference              Andrew, Chu and Lancaster, SIAM J. Matrix Anal. Appl. 14 (1993)

K is singular if lam is a repeated or defective eigenvalue. Where it is not, K^-H [0; s] = [u; 0]
with u^H B x = 1: |u| is the condition of lam, which is known up to eps |u| |A|, and an error of lam
is multiplied in u by |(A - lam B)^+|. Where all digits are lost there is no derivative.
"""

from __future__ import annotations

from dataclasses import dataclass

from ldiv.core.array_protocol import Array
from ldiv.core.arrays import alike, eps, transpose
from ldiv.core.cached_property import cached_property
from ldiv.core.dispatch import check_or_raise, constant, namespace
from ldiv.core.structure import Structure, matmul
from ldiv.core.trees import Tree, leaves, rebuild
from ldiv.core.units import balance, magnitude
from ldiv.engines import solver
from ldiv.engines.accuracy.scaling import norm
from ldiv.engines.accuracy.singularity_check import direction
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


@dataclass(frozen=True)
class Bordered(Solve):
    """As `Solve`, for a K or its adjoint."""

    is_adjoint: bool = False

    @cached_property
    def adjoint(self) -> Solve:
        options = self.options and self.options.adjoint
        return Bordered(
            self.structure.H,
            self.assume_a,
            self.method,
            options,
            self.singular,
            is_adjoint=not self.is_adjoint,
        )

    def kernel(self, *args: Tree) -> tuple[Array, ...]:
        p, b, *_ = args
        try:
            self._require_simple(p, b)
            return super().kernel(*args)
        except SingularMatrixError as error:
            raise _defective() from error

    def _require_simple(self, p: Tree, like: Array) -> None:
        """Raises unless an eigenvalue is known well enough for a derivative."""
        xp, n = namespace(like), self.structure.shape[0] - 1
        z = xp.asarray(direction(n) / n**0.5, **alike(like))
        zero, one = xp.zeros((1, 1), **alike(like)), xp.ones((1, 1), **alike(like))
        probe = xp.concat([xp.concat([0 * z, z], axis=1), xp.concat([one, zero], axis=1)], axis=0)
        K = self.structure if self.is_adjoint else self.structure.H
        y = solver.solve(K, p, probe, self.assume_a, self.method, self.options)
        u, growth = (norm(y[..., :n, j], axis=-1) for j in (0, 1))
        size = norm(matmul(self.structure, p, probe[:, 1:])[..., :n, 0], axis=-1)
        s = norm(p[-1], axis=(-2, -1))
        lost = LEAST * n**0.5 * eps(like) * (u * s) * (size * growth)
        check_or_raise((lost < 1).all(), _defective)


def bordered(A: Structure, B: Structure, iterates: bool) -> Bordered:
    """The rule for K."""
    n = A.shape[0]
    moved = Diagonal(n) if isinstance(B, Identity) else Scaled((B,))
    column = dense(n, 1)
    K = Block((Sum((A, moved)), column, column.H), ((0, 0), (0, 1), (1, 0)), (n, 1), (n, 1))
    options = Options(restart=min(n + 1, RESTART)) if iterates else None
    return Bordered(K, options=options)


def border(A: Structure, pA: Tree, like: Array) -> Array:
    """s (*batch, 1), a constant."""
    z = namespace(like).asarray(direction(A.shape[1]), **alike(like))
    t = balance(magnitude(constant(matmul(A, pA, z))[..., 0], axis=-1))
    return 1 / t / t


def parameters(A: Structure, B: Structure, pencil: Tree, lam: Array, x: Array, s: Array) -> Tree:
    """Those of K for all pairs, lam (*batch, k), x (*batch, n, k): pairs are the last batch axis."""
    pA, pB = pencil
    ones = namespace(x).ones((x.shape[-2],), **alike(x))
    moved = -lam[..., None] * ones if isinstance(B, Identity) else (_of_each_pair(B.core, pB), -lam)
    columns = _columns(matmul(B, pB, x) * s[..., None]), _columns(x * s[..., None])
    return ((_of_each_pair(A.core, pA), moved), *columns)


def _columns(x: Array) -> Array:
    return transpose(x)[..., None]


def _of_each_pair(core: Tree, p: Tree) -> Tree:
    """With an axis for the pairs, where there are batch axes to put it behind."""
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
