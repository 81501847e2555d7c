"""W <- W T with W^H B W = I, by projection and SVQB, twice.

T = D U Theta^(-1/2),  D G D = U Theta U^H,  G = W^H B W,  diag(D G D) = 1.
A linearly dependent direction becomes zero, so that shapes do not depend on values.
Reference: Stathopoulos and Wu, SIAM J. Sci. Comput. 23 (2002).
"""

from __future__ import annotations

from ldiv.core.arrays.shapes import adjoint, eps, or_one, real
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import check_or_raise, frontend_of, namespace
from ldiv.engines.iterative.matrix_product import Product
from ldiv.errors import NotPositiveDefiniteError

Pairs = tuple[tuple[Array, Array], ...]  # (V, B V) with V^H B V = I


def orthonormal_basis(B: Product | None, W: Array, outside: Pairs) -> tuple[Array, Array]:
    """A B-orthonormal basis Q of W, B-orthogonal to all of `outside`, and B Q.

    It takes one product with B, of columns that are orthonormal in the Euclidean sense.
    """
    # orthonormal columns first: then G = W^H B W is no worse conditioned than B
    W = orthonormal(W, outside)
    if B is None:
        return W, W
    BW = B(W)
    # the first T magnifies rounding: the second pass repairs that
    for cut in (10 * W.shape[1] * eps(W), 0.25):
        G = gram(W, BW)
        check_or_raise(
            (real(namespace(G).linalg.diagonal(G)) >= 0).all(),
            lambda: NotPositiveDefiniteError("lobpcg", "that B of A x = lambda B x is not"),
        )
        T = _svqb(G, 0.0, cut)
        W, BW = W @ T, BW @ T
    # W <- (I - V V^H B) W once more: T has magnified what rounding left along V
    for V, BV in outside:
        T = gram(BV, W)
        W, BW = W - V @ T, BW - BV @ T
    return W, BW


def orthonormal(W: Array, outside: Pairs) -> Array:
    """An orthonormal basis; the second pass drops columns that the first left as rounding.

    The first pass leaves along `outside` what rounding makes of a column over what is left of
    it; the second leaves rounding.
    """
    W = W / or_one(namespace(W).max(namespace(W).abs(W)))  # squares may overflow
    size = norm(W)
    for least, cut in ((100 * eps(W) * size, 10 * W.shape[1] * eps(W)), (0.5, 0.25)):
        # W <- (I - V V^H B) W
        for V, BV in outside:
            W = W - V @ gram(BV, W)
        W = W @ _svqb(gram(W, W), least, cut)
    return W


def _svqb(G: Array, least: Array | float, cut: float) -> Array:
    """T with T^H G T = I; dependent directions become zero.

    These are columns with norm <= `least`, and eigenvalues of the scaled G <= `cut`.
    """
    xp = namespace(G)
    # D = diag(G)^(-1/2), and 0 for columns that are too short
    size = xp.sqrt(real(xp.linalg.diagonal(G)))
    scale = xp.where(size > least, 1 / or_one(size), 0)
    # D G D = U Theta U^H
    theta, U = frontend_of(G).dense.eigh(scale[:, None] * (G + adjoint(G)) / 2 * scale)
    # T = D U Theta^(-1/2), 0 where Theta is noise; the inner `where` keeps the root from NaN
    return (
        scale[:, None] * U * xp.where(theta > cut, 1 / xp.sqrt(xp.where(theta > cut, theta, 1)), 0)
    )


def gram(V: Array, W: Array) -> Array:
    """V^H W."""
    return adjoint(V) @ W


def squares(S: Array, BS: Array) -> Array:
    """s^H B s of each column."""
    return real(namespace(S).linalg.diagonal(gram(S, BS)))


def norm(X: Array) -> Array:
    """|x| of each column."""
    return namespace(X).sqrt(squares(X, X))
