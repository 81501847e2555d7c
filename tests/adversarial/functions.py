"""Every public differentiable function on a small well-posed problem: f(*arrays) of any framework,
and its arguments as NumPy arrays.

A function takes its structure from its arguments itself (a Hermitian part, a triangle), so that
every number of them may move.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import ldiv
from ldiv.core.arrays.shapes import unit_columns
from ldiv.core.frameworks.dispatch import namespace

N = 4
ROWS = np.array([0, 1, 2, 3, 0, 1, 2, 3, 3])
COLS = np.array([0, 1, 2, 3, 1, 2, 3, 0, 3])  # the last one twice
rng = np.random.default_rng(3)


def draw(*shape: int) -> Any:
    return rng.standard_normal(shape)


def imaginary(*shape: int) -> Any:
    return draw(*shape) + 1j * draw(*shape)


A, B, b, W = draw(N, N) + 4 * np.eye(N), draw(N, 2), draw(N), draw(6, 3)
Z, K, P = imaginary(N, N) + 4 * np.eye(N), draw(N, N), A @ A.T / 4 + np.diag([0.0, 2.0, 5.0, 9.0])
V, L = draw(9) + 5.0 * (ROWS == COLS), np.tril(draw(N, N)) + 3 * np.eye(N)
D, E = np.array([4.0, 5.0, 6.5, 8.0, 11.0]), np.array([-1.0, 0.5, -0.7, 0.3])
BAND = np.stack([draw(5), draw(5) + 4, draw(5)])
UP, DOWN = np.stack([np.r_[0, E], D]), np.stack([D, np.r_[E, 0]])
FAR = np.arange(1.0, 13.0) ** 2  # eigenvalues


def sym(a: Any) -> Any:
    return (a + a.mT) / 2


def her(a: Any, k: Any) -> Any:
    """A Hermitian matrix from two real ones: torch itself cannot conjugate dual numbers with legacy
    batches of tangents.
    """
    return sym(a) + 1j * (k - k.mT) / 2


def sparse(v: Any) -> Any:
    return ldiv.coo_array((v, (ROWS, COLS)), shape=(N, N))


def tridiagonal(d: Any, e: Any) -> Any:
    """Symmetric, and definite."""
    n = d.shape[-1]
    return ldiv.diags_array([e, d, e], offsets=[-1, 0, 1], shape=(n, n))


def operator(d: Any) -> Any:
    return ldiv.LinearOperator(_stretch, d, shape=(len(D), len(D)), assume_a="pos")


def _stretch(d: Any, x: Any) -> Any:
    return d[:, None] * x


def _cubic(x: Any, p: Any) -> Any:
    return x * x * x + x - p


def _potential(x: Any, p: Any) -> Any:
    """Neighbors attract each other."""
    return (x**4 / 4 + x * x - p * x).sum() + ((x[1:] - x[:-1]) ** 2).sum()


def _system(x: Any, p: Any) -> Any:
    """Each equation holds the unknown itself and the one before."""
    return 3 * x + x * x * x / 9 + p[0] * namespace(x).roll(x, 1, axis=0) - p[1:]


class Function(NamedTuple):
    f: Callable[..., Any]
    args: tuple[Any, ...]


FUNCTIONS: dict[str, Function] = {
    # -- solve, by what the matrix is ---------------------------------------------------------------------------------------------
    "solve": Function(ldiv.solve, (A, B)),
    "solve, vector": Function(ldiv.solve, (A, b)),
    "solve, complex": Function(ldiv.solve, (Z, b)),
    "solve, symmetric": Function(lambda a, b: ldiv.solve(sym(a), b, assume_a="sym"), (A + A.T, B)),
    "solve, Hermitian": Function(
        lambda a, k, b: ldiv.solve(her(a, k), b, assume_a="her"), (A, K, B)
    ),
    "solve, definite": Function(lambda a, b: ldiv.solve(sym(a), b, assume_a="pos"), (P, B)),
    "solve, sparse": Function(lambda v, b: ldiv.solve(sparse(v), b), (V, B)),
    "solve, sparse, complex b": Function(lambda v, b: ldiv.solve(sparse(v), b), (V, imaginary(N))),
    "solve, sparse transposed": Function(lambda v, b: ldiv.solve(sparse(v).T, b), (V, b)),
    "solve, sparse definite": Function(
        lambda d, e, b: ldiv.solve(tridiagonal(d, e), b, assume_a="pos"), (D, E, draw(5))
    ),
    "solve, sparse, gmres": Function(
        lambda v, b: ldiv.solve(sparse(v), b, method="gmres", rtol=1e-13), (V, b)
    ),
    "solve, sparse, cg, jacobi": Function(
        lambda d, e, b: ldiv.solve(
            tridiagonal(d, e), b, assume_a="pos", method="cg", M="jacobi", rtol=1e-13
        ),
        (D, E, draw(5)),
    ),
    "solve, sparse, minres, amg": Function(
        lambda d, e, b: ldiv.solve(
            tridiagonal(d, e), b, assume_a="sym", method="minres", M="amg", rtol=1e-13
        ),
        (D, E, draw(5)),
    ),
    "solve, sparse, bicgstab": Function(
        lambda v, b: ldiv.solve(sparse(v), b, method="bicgstab", rtol=1e-13), (V, b)
    ),
    "solve, LinearOperator": Function(
        lambda d, b: ldiv.solve(operator(d), b, rtol=1e-13), (D, draw(5))
    ),
    "solve, kron": Function(
        lambda a, c, b: ldiv.solve(ldiv.kron(a, c), b), (A[:2, :2], A[1:4, 1:4], draw(6))
    ),
    "solve, kron, sparse": Function(
        lambda a, v, b: ldiv.solve(ldiv.kron(a, sparse(v)), b), (A[:2, :2], V, draw(8))
    ),
    "solve, LowRank": Function(
        lambda v, u, w, b: ldiv.solve(sparse(v) + ldiv.LowRank(u, w), b), (V, b, draw(N), draw(N))
    ),
    "solve, block_array": Function(
        lambda v, a, b: ldiv.solve(ldiv.block_array([[sparse(v), a], [a.mT, None]]), b),
        (V, draw(N, 1), draw(5)),
    ),
    "solve, Gram": Function(lambda l, b: ldiv.solve(ldiv.Gram(l), b), (L, B)),
    "solve_triangular": Function(lambda l, b: ldiv.solve_triangular(l, b, lower=True), (L, B)),
    "solve_triangular, unit": Function(
        lambda l, b: ldiv.solve_triangular(l, b, lower=True, unit_diagonal=True, trans=1), (L, b)
    ),
    "solve_triangular, sparse": Function(
        lambda d, e, b: ldiv.solve_triangular(tridiagonal(d, e), b, lower=False), (D, E, draw(5))
    ),
    "solve_banded": Function(lambda ab, b: ldiv.solve_banded((1, 1), ab, b), (BAND, draw(5))),
    "solveh_banded": Function(lambda ab, b: ldiv.solveh_banded(ab, b), (UP, draw(5))),
    "cholesky_banded": Function(lambda ab: ldiv.cholesky_banded(ab), (UP,)),
    "cho_solve_banded": Function(
        lambda ab, b: ldiv.cho_solve_banded((ab, True), b), (DOWN, draw(5))
    ),
    "factorized": Function(lambda v, b: ldiv.factorized(sparse(v)).solve(b), (V, b)),
    "lstsq": Function(lambda a, b: ldiv.lstsq(a, b).x, (W, draw(6, 2))),
    # -- factorizations -----------------------------------------------------------------------------------------------------------
    "cholesky": Function(lambda a: ldiv.cholesky(sym(a)), (P,)),
    "cholesky_update": Function(
        lambda a, b: ldiv.cholesky_update(ldiv.cholesky(sym(a)), b), (P, b)
    ),
    "cholesky_update, down": Function(
        lambda a, b: ldiv.cholesky_update(ldiv.cholesky(sym(a)), b / 1e3, downdate=True), (P, b)
    ),
    "schur_complement": Function(lambda a: ldiv.schur_complement(a, [0, 2]), (A,)),
    "schur_complement, sparse": Function(
        lambda d, e: ldiv.schur_complement(tridiagonal(d, e), [0, 2], assume_a="pos"), (D, E)
    ),
    "slogdet, Kronecker and identity": Function(
        lambda a, s: ldiv.slogdet(ldiv.kron(sym(a), sym(a), shift=s**2 + 1))[1], (P, draw())
    ),
    "cho_solve": Function(lambda a, b: ldiv.cho_solve(ldiv.cho_factor(sym(a)), b), (P, b)),
    "ldl": Function(lambda a: ldiv.ldl(sym(a))[:2], (P,)),
    "ldl, Hermitian": Function(lambda a, k: ldiv.ldl(her(a, k))[1], (A, K)),
    "lu": Function(lambda a: ldiv.lu(a)[1:], (A,)),
    "lu_factor, lu_solve": Function(lambda a, b: ldiv.lu_solve(ldiv.lu_factor(a), b), (A, b)),
    "lu_factor_ex": Function(lambda a: ldiv.lu_factor_ex(a)[0], (A,)),
    "qr": Function(lambda a: ldiv.qr(a), (W,)),
    "qr, pivoting": Function(lambda a: ldiv.qr(a, pivoting=True)[:2], (W,)),
    "lu, no pivots": Function(lambda a: ldiv.lu(a, pivot=False)[1:], (A,)),
    "qr, complex": Function(lambda a: ldiv.qr(a)[1], (Z,)),
    "svd": Function(lambda a: _singular(*ldiv.svd(a)), (W,)),
    "svdvals, complex": Function(ldiv.svdvals, (Z,)),
    "pinv": Function(ldiv.pinv, (W,)),
    "norm": Function(lambda a: ldiv.norm(a, 2) + ldiv.norm(a) + ldiv.norm(a, 1), (W,)),
    "norm, sparse": Function(lambda v: ldiv.norm(sparse(v), 1) + ldiv.norm(sparse(v)), (V,)),
    "eigh_tridiagonal": Function(lambda d, e: ldiv.eigh_tridiagonal(d, e)[0], (D, E)),
    # -- determinants, traces, Gaussians ------------------------------------------------------------------------------------------
    "det": Function(ldiv.det, (A,)),
    "slogdet": Function(ldiv.slogdet, (A,)),
    "slogdet, complex": Function(ldiv.slogdet, (Z,)),
    "logdet": Function(lambda a: ldiv.logdet(sym(a), assume_a="pos"), (P,)),
    "logdet, sparse": Function(lambda d, e: ldiv.logdet(tridiagonal(d, e), assume_a="pos"), (D, E)),
    "slogdet, sparse": Function(lambda v: ldiv.slogdet(sparse(v)), (V,)),
    "slogdet, block_array": Function(
        lambda v, a: ldiv.slogdet(ldiv.block_array([[sparse(v), a], [a.mT, None]])), (V, draw(N, 1))
    ),
    "logdet, Gram": Function(lambda l: ldiv.logdet(ldiv.Gram(l)), (L,)),
    "selected_inverse": Function(
        lambda d, e: ldiv.selected_inverse(tridiagonal(d, e), assume_a="pos").data, (D, E)
    ),
    "inverse_diagonal": Function(lambda v: ldiv.inverse_diagonal(sparse(v)), (V,)),
    "SparseCholesky": Function(
        lambda d, e, x: (
            (F := ldiv.cholesky(tridiagonal(d, e))).half_solve(x)
            + F.half_solve(x, "T")
            + F.update(x).solve(x)
        ),
        (D, E, draw(5)),
    ),
    "gaussian_kl, precisions": Function(
        lambda d, e: ldiv.gaussian_kl(
            precision1=tridiagonal(d, e), precision2=tridiagonal(d / 3, e / 4)
        ),
        (D, E),
    ),
    "quad_form": Function(lambda a, x: ldiv.quad_form(sym(a), x, assume_a="pos"), (P, b)),
    "quad_form, sparse": Function(
        lambda d, e, x: ldiv.quad_form(tridiagonal(d, e), x, assume_a="pos"), (D, E, draw(5))
    ),
    "trace_solve": Function(lambda a, c: ldiv.trace_solve(a, c), (A, A.T)),
    "trace_solve, sparse": Function(
        lambda d, e: ldiv.trace_solve(tridiagonal(d, e), tridiagonal(d / 3, e), assume_a="pos"),
        (D, E),
    ),
    "gaussian_kl": Function(lambda l, m, x: ldiv.gaussian_kl(l, m, mean2=x), (L, 1.5 * L + 0.1, b)),
    "gaussian_logpdf": Function(lambda x, l: ldiv.gaussian_logpdf(x, l), (b, L)),
    # -- eigenpairs ---------------------------------------------------------------------------------------------------------------
    "eigh": Function(lambda a: (ldiv.eigh(sym(a))[0], abs(ldiv.eigh(sym(a))[1])), (P,)),
    "eigh, complex, pencil": Function(lambda a, k, m: ldiv.eigh(her(a, k), sym(m))[0], (A, K, P)),
    "eigsh": Function(lambda a: _magnitudes(ldiv.eigsh(sym(a), 2)), (P,)),
    "eigsh, sparse": Function(
        lambda d, e: _magnitudes(ldiv.eigsh(tridiagonal(d, e), 2, which="SA")), (D, E)
    ),
    "eigsh, sparse, sigma, M": Function(
        lambda d, e, m: _magnitudes(
            ldiv.eigsh(tridiagonal(d, e), 2, M=tridiagonal(m, e / 9), sigma=0.0)
        ),
        (D, E, 1 + D / 9),
    ),
    "eigsh, sparse, arpack": Function(
        lambda d: ldiv.eigsh(tridiagonal(d, d[1:] / 50), 2, which="SA", method="arpack")[0], (FAR,)
    ),
    "eigs, sparse, sigma": Function(
        lambda d, e: _sizes(ldiv.eigs(tridiagonal(d, e), 2, sigma=0.3)), (D, E)
    ),
    "eigs, M": Function(lambda a, m: _sizes(ldiv.eigs(a, 2, sym(m), which="LR")), (A, P)),
    "lobpcg": Function(
        lambda d: _magnitudes(
            ldiv.lobpcg(tridiagonal(d, d[1:] / 50), _start(d), largest=False, M="jacobi", tol=1e-12)
        ),
        (FAR,),
    ),
    "svds": Function(lambda a: _singular(*ldiv.svds(a, 2)), (W,)),
    "eigenspace": Function(lambda a: _projector(*ldiv.eigenspace(sym(a), 2, which="SA")), (P,)),
    "eigenspace, sparse": Function(
        lambda d, e: _projector(*ldiv.eigenspace(tridiagonal(d, e), 2, which="SA")), (D, E)
    ),
    "spectral_function": Function(
        lambda a, x: ldiv.spectral_function(_power, sym(a), 2, which="SA") @ x, (P, B)
    ),
    "spectral_sum": Function(lambda a: ldiv.spectral_sum(_power, sym(a), 2, which="SA"), (P,)),
    # -- products -----------------------------------------------------------------------------------------------------------------
    "gemm": Function(lambda a, b, c: ldiv.gemm(2.0, a, b, -1.0, c, trans_a=1), (A, B, draw(N, 2))),
    "matmul": Function(ldiv.matmul, (A, B)),
    "SparseArray @ b": Function(lambda v, b: sparse(v) @ b, (V, B)),
    "SparseArray @ SparseArray": Function(
        lambda v, w: (sparse(v) @ sparse(w)).toarray(), (V, V + 1)
    ),
    "SparseArray + SparseArray": Function(
        lambda v, w: (sparse(v) + 2 * sparse(w).T).toarray(), (V, V + 1)
    ),
    "kron @ b": Function(lambda a, c, b: ldiv.kron(a, c) @ b, (A, W, draw(12, 2))),
    "kron @ b, complex": Function(lambda a, v, b: ldiv.kron(a, sparse(v)) @ b, (Z, V, draw(16))),
    "block_array @ b": Function(
        lambda v, a, b: ldiv.block_array([[sparse(v), a], [a.mT, None]]) @ b,
        (V, draw(N, 1), draw(5)),
    ),
    "LowRank @ b": Function(
        lambda u, v, b: (ldiv.LowRank(u, v) + u @ v.mT) @ b, (draw(N, 2), draw(N, 2), imaginary(N))
    ),
    "Gram @ b": Function(lambda l, b: ldiv.Gram(l) @ b, (L, b)),
    "expm_multiply": Function(lambda v, b: ldiv.expm_multiply(sparse(v) * 0.3, b), (V, b)),
    "expm_multiply, dense, times": Function(
        lambda z, b: ldiv.expm_multiply(z / 6, b, start=-0.5, stop=1, num=3), (Z, B)
    ),
    "expm_multiply, LinearOperator": Function(
        lambda d, b: ldiv.expm_multiply(operator(d / 6), b), (D, draw(5))
    ),
    "LinearOperator @ b": Function(lambda d, b: operator(d) @ b, (D, draw(5))),
    # -- functions of users -------------------------------------------------------------------------------------------------------
    "root": Function(
        lambda p: ldiv.root(_system, _zeros(p)[1:], p), (np.array([0.5, 1.0, -2.0, 3.0]),)
    ),
    "root, pattern": Function(
        lambda p: ldiv.root(_cubic, _zeros(p), p, pattern=(range(3), range(3))),
        (np.array([1.0, -2.0, 3.0]),),
    ),
    "root, ptc": Function(
        lambda p: ldiv.root(_cubic, _zeros(p), p, method="ptc", pattern=(range(3), range(3))),
        (np.array([1.0, -2.0, 3.0]),),
    ),
    "implicit": Function(
        lambda p: ldiv.implicit(lambda x, p: x * x - p, p**0.5, p), (np.array([1.0, 2.0, 3.0]),)
    ),
    "least_squares": Function(
        lambda p: ldiv.least_squares(_cubic, _zeros(p), p, loss="soft_l1"),
        (np.array([1.0, -2.0, 3.0]),),
    ),
    "least_squares, pattern": Function(
        lambda p: ldiv.least_squares(_cubic, _zeros(p), p, pattern=(range(3), range(3))),
        (np.array([1.0, -2.0, 3.0]),),
    ),
    "laplace": Function(
        lambda p: ldiv.laplace(_potential, _zeros(p), p).value, (np.array([1.0, -2.0, 3.0]),)
    ),
    "jacobian": Function(lambda x: ldiv.jacobian(lambda x: x[1:] * x[:-1] ** 2, x), (b,)),
    "jacobian, pattern": Function(
        lambda x: (
            ldiv.jacobian(
                lambda x: x[1:] * x[:-1] ** 2, x, pattern=([0, 1, 2] * 2, [0, 1, 2, 1, 2, 3])
            ).data
        ),
        (b,),
    ),
    "hessian": Function(lambda x: ldiv.hessian(lambda x: (x[1:] * x[:-1] ** 3).sum(), x), (b,)),
    "hvp": Function(
        lambda x, v: ldiv.hvp(lambda x: (x[1:] * x[:-1] ** 3).sum(), x, v), (b, draw(N))
    ),
}


def _magnitudes(pairs: Any) -> Any:
    """Eigenvalues, and what of the eigenvectors does not depend on their phase."""
    w, X = pairs
    return w, X * X


def _sizes(pairs: Any) -> Any:
    """The same of complex ones."""
    w, X = pairs
    return w.real, w.imag, abs(X)


def _singular(u: Any, s: Any, vh: Any) -> Any:
    return s, (u * s[None, :]) @ vh


def _projector(X: Any, H: Any) -> Any:
    return X @ X.mT, (H * H.mT).sum()


def _power(lam: Any) -> Any:
    return lam**3


def _start(like: Any) -> Any:
    return unit_columns(like, len(FAR), range(2)) + 0.1


def _zeros(p: Any) -> Any:
    """The start of Newton's method: a constant."""
    return namespace(p).zeros(p.shape, dtype=p.dtype)
