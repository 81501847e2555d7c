"""Singular triplets of A: the positive eigenpairs of [[0, A], [A^H, 0]]."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ldiv.core.arrays import conj, transpose
from ldiv.core.dispatch import namespace
from ldiv.core.public import public
from ldiv.core.rule import bind
from ldiv.core.trees import Array
from ldiv.core.validate import require_flag, require_float, require_int
from ldiv.errors import expected_got, shown
from ldiv.linalg.eigen_problem import EigenOptions, build_problem
from ldiv.linalg.eigenvector_phase import with_free_phase
from ldiv.matrices.matrix import Matrix, as_matrix
from ldiv.rules.eigenpairs import Eigenpairs
from ldiv.structures.block import Block
from ldiv.structures.self_adjoint import SelfAdjoint


@public
def svds(
    A: Any,
    k: int = 6,
    ncv: int | None = None,
    tol: float = 0,
    which: str = "LM",
    v0: Array | None = None,
    maxiter: int | None = None,
    return_singular_vectors: bool = True,
    *,
    method: str = "auto",
    guard: int = 2,
    on_degenerate: str = "raise",
) -> Any:
    """Find the k largest singular values and vectors of a rectangular matrix, differentiably.

        A v_i = s_i u_i,    A^H u_i = s_i v_i,    U^H U = V^H V = I

    A: an array (*batch, m, n), a SparseArray or an operator, of rank k at least. Returns u (*batch,
    m, k), s (*batch, k), ascending, and vh (*batch, k, n); with return_singular_vectors=False s
    alone. They are the pairs of [[0, A], [A^H, 0]], whose eigenvalues are +-s: so small s keep
    their digits, and derivatives, on_degenerate and errors are those of `eigsh`; a singular value
    that vanishes, whose vectors are not determined, raises. which: "LM" only. v0: (min(m, n),), a
    start for the vectors of the shorter side.
    Cost: products with A and A^H; each direction of a derivative k deflated solves by MINRES, with
    products.
    Source: Golub and Van Loan, section 8.6.

    >>> import ldiv, numpy as np
    >>> u, s, vh = ldiv.svds(np.diag([3.0, 2.0, 1.0])[:, :2], 1)
    >>> s
    array([3.])
    """
    matrix = as_matrix("A", A)
    m, n = matrix.structure.shape
    return_singular_vectors = require_flag("return_singular_vectors", return_singular_vectors)
    if min(m, n) == 0:
        raise ValueError(
            expected_got(
                "A",
                "a matrix with at least one row and one column",
                f"{m} x {n}",
                "It has no singular values.",
            )
        )
    k = require_int(
        "k",
        k,
        1,
        min(m, n),
        what=f"a number of singular values from 1 to {min(m, n)}",
        advice="It is how many are returned.",
    )
    if not isinstance(which, str) or which != "LM":
        raise ValueError(
            expected_got(
                "which",
                "'LM'",
                shown(which),
                "The smallest ones are eigenvalues of A.H @ A near sigma=0: use ldiv.eigsh.",
            )
        )
    parts = (matrix.structure, matrix.structure.H)
    whole = Matrix(
        SelfAdjoint(Block(parts, ((0, 1), (1, 0)), (m, n), (m, n))), (matrix.params, matrix.params)
    )
    start = None if v0 is None else _start(matrix, v0)
    task, args = build_problem(
        whole,
        None,
        EigenOptions(k, None, "LA", start, ncv, maxiter, tol, method, guard, on_degenerate),
    )
    s, x, *_ = bind(Eigenpairs(replace(task, positive=True)), *args)
    x = with_free_phase(s, x)
    u, v = 2**0.5 * x[..., :m, :], 2**0.5 * x[..., m:, :]
    return (u, s, conj(transpose(v))) if return_singular_vectors else s


def _start(matrix: Matrix, v0: Array) -> Array:
    """A vector for both sides."""
    m, n = matrix.structure.shape
    if tuple(require_float("v0", v0).shape) != (min(m, n),):
        raise ValueError(
            expected_got(
                "v0",
                f"shape ({min(m, n)},)",
                str(tuple(v0.shape)),
                "It belongs to the shorter side.",
            )
        )
    if matrix.batch:
        raise ValueError(
            expected_got(
                "v0", "one matrix", "a batch", "Leave it out: the start of each is the same one."
            )
        )
    return namespace(v0).concat([matrix @ v0, v0] if m >= n else [v0, matrix.H @ v0])
