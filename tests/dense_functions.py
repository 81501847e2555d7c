"""Every public function that takes dense arrays, as a function of a matrix and a vector of six rows,
in any array namespace: the first word of a name is that of the function.

Complete, since a test compares the names with `ldiv.__all__`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

import ldiv
from ldiv.core.frameworks.dispatch import namespace

N = 6
Function = Callable[[Any, Any], Any]


def pos(a: Any) -> Any:
    return a @ a.mT


def sym(a: Any) -> Any:
    return a + a.mT


def stack(*xs: Any) -> Any:
    return namespace(xs[0]).stack(xs)


def tril(a: Any) -> Any:
    return namespace(a).tril(a)


def operator(a: Any) -> Any:
    return ldiv.LinearOperator(lambda p, x: p @ x, shape=(N, N), params=a)


def sparse(a: Any) -> Any:
    """A sparse array of the diagonal, and one pair beside it."""
    at = ([*range(N), 0, 3], [*range(N), 3, 0])
    values = namespace(a).stack([*(a[i, i] for i in range(N)), a[0, 3], a[3, 0]])
    return ldiv.coo_array((values, at), shape=(N, N))


def bands(a: Any) -> Any:
    """Positive definite, of one diagonal and one beside it, from the first rows of a."""
    return stack(abs(a[0]) + 8, a[1] / 8)


def well(a: Any) -> Any:
    """Near the identity: its powers are small, its eigenvalues positive."""
    return a / 8


# these run where the arrays are
DENSE: dict[str, Function] = {
    "solve": ldiv.solve,
    "solve sym": lambda a, b: ldiv.solve(sym(a), b, assume_a="sym"),
    "solve pos": lambda a, b: ldiv.solve(pos(a), b, assume_a="pos"),
    "solve, batch": lambda a, b: ldiv.solve(stack(a, 2 * a), b),
    "solve, diagonal": lambda a, b: ldiv.solve(a, b, assume_a="diagonal"),
    "solve_ex": lambda a, b: ldiv.solve_ex(a, b)[0],
    "solve_triangular": lambda a, b: ldiv.solve_triangular(a, b, lower=True),
    "factorized": lambda a, b: ldiv.factorized(a).solve(b),
    "cholesky": lambda a, b: ldiv.cholesky(pos(a)),
    "cholesky_ex": lambda a, b: ldiv.cholesky_ex(pos(a))[0],
    "cholesky_update": lambda a, b: ldiv.cholesky_update(tril(pos(a)), b),
    "schur_complement": lambda a, b: ldiv.schur_complement(a, [0, 2]),
    "cho_factor": lambda a, b: ldiv.cho_factor(pos(a), lower=True)[0],
    "cho_solve": lambda a, b: ldiv.cho_solve((tril(a), True), b),
    "inv": lambda a, b: ldiv.inv(a),
    "inv_ex": lambda a, b: ldiv.inv_ex(a)[0],
    "inverse_diagonal": lambda a, b: ldiv.inverse_diagonal(a),
    "det": lambda a, b: ldiv.det(well(a)),
    "logdet": lambda a, b: ldiv.logdet(pos(a)),
    "slogdet": lambda a, b: ldiv.slogdet(a)[1],
    "lu_factor": lambda a, b: ldiv.lu_factor(a)[0],
    "lu_factor_ex": lambda a, b: ldiv.lu_factor_ex(a)[0],
    "lu_solve": lambda a, b: ldiv.lu_solve(ldiv.lu_factor(a), b),
    "lu": lambda a, b: ldiv.lu(a)[1],
    "qr": lambda a, b: ldiv.qr(a)[1],
    "rq": lambda a, b: ldiv.rq(a)[0],
    "qr_multiply": lambda a, b: ldiv.qr_multiply(a, a.mT)[0],
    "householder_product": lambda a, b: ldiv.householder_product(tril(a), b / 8),
    "svd": lambda a, b: ldiv.svd(a, full_matrices=False)[0] ** 2,
    "svdvals": lambda a, b: ldiv.svdvals(a),
    "svds": lambda a, b: ldiv.svds(a, 2)[1],
    "norm": lambda a, b: ldiv.norm(a),
    "norm, 2": lambda a, b: ldiv.norm(a, 2),
    "norm, nuc": lambda a, b: ldiv.norm(a, "nuc"),
    "matrix_norm": lambda a, b: ldiv.matrix_norm(a),
    "vector_norm": lambda a, b: ldiv.vector_norm(b),
    "cond": lambda a, b: ldiv.cond(a),
    "cond, 1": lambda a, b: ldiv.cond(a, 1),
    "pinv": lambda a, b: ldiv.pinv(a[:, :3]),
    "pinvh": lambda a, b: ldiv.pinvh(sym(a)),
    "lstsq": lambda a, b: ldiv.lstsq(a[:, :3], b)[0],
    "matrix_rank": lambda a, b: ldiv.matrix_rank(a) * a.sum(),
    "orth": lambda a, b: pos(ldiv.orth(a[:, :3])),
    "null_space": lambda a, b: pos(ldiv.null_space(a[:3])),
    "subspace_angles": lambda a, b: ldiv.subspace_angles(a[:, :2], a[:, 2:4]),
    "orthogonal_procrustes": lambda a, b: ldiv.orthogonal_procrustes(a, a.mT + 1)[0],
    "polar": lambda a, b: ldiv.polar(a)[0],
    "eigh": lambda a, b: ldiv.eigh(sym(a))[1] ** 2,
    "eigh, B": lambda a, b: ldiv.eigh(sym(a), pos(a))[0],
    "eigvalsh": lambda a, b: ldiv.eigvalsh(sym(a)),
    "eigsh": lambda a, b: ldiv.eigsh(sym(a), 2)[0],
    "eigenspace": lambda a, b: (lambda H, X: X @ H @ X.mT)(*ldiv.eigenspace(sym(a), 2)[::-1]),
    "spectral_sum": lambda a, b: ldiv.spectral_sum(namespace(a).exp, well(sym(a)), 2),
    "spectral_function": lambda a, b: ldiv.spectral_function(namespace(a).exp, well(sym(a)), 2) @ b,
    "lobpcg": lambda a, b: ldiv.lobpcg(pos(a), b[:, None])[0],
    "trace_solve": lambda a, b: ldiv.trace_solve(a, a.mT),
    "quad_form": lambda a, b: ldiv.quad_form(pos(a), b),
    "gaussian_kl": lambda a, b: ldiv.gaussian_kl(tril(pos(a)), tril(pos(a) + pos(a.mT))),
    "gaussian_logpdf": lambda a, b: ldiv.gaussian_logpdf(b, tril(a)),
    "cg": lambda a, b: ldiv.cg(pos(a), b)[0],
    "cg of an operator": lambda a, b: ldiv.cg(operator(pos(a)), b)[0],
    "minres": lambda a, b: ldiv.minres(sym(a), b)[0],
    "gmres": lambda a, b: ldiv.gmres(a, b)[0],
    "gmres of an operator": lambda a, b: ldiv.gmres(operator(a), b)[0],
    "bicgstab": lambda a, b: ldiv.bicgstab(a, b)[0],
    "preconditioner": lambda a, b: ldiv.preconditioner(a, "jacobi") @ b,
    "gradient_error": lambda a, b: ldiv.gradient_error(b, a, b).gradient[0],
    "solve_sylvester": lambda a, b: ldiv.solve_sylvester(a, a.mT, a),
    "solve_continuous_lyapunov": lambda a, b: ldiv.solve_continuous_lyapunov(a, a),
    "solve_lyapunov": lambda a, b: ldiv.solve_lyapunov(a, a),
    "solve_discrete_lyapunov": lambda a, b: ldiv.solve_discrete_lyapunov(well(a) / 8, a),
    "solve_banded": lambda a, b: ldiv.solve_banded((1, 1), a[:3], b),
    "solveh_banded": lambda a, b: ldiv.solveh_banded(bands(a), b, lower=True),
    "solve_toeplitz": lambda a, b: ldiv.solve_toeplitz(a[:, 0], b),
    "solve_circulant": lambda a, b: ldiv.solve_circulant(a[:, 0], b),
    "matmul_toeplitz": lambda a, b: ldiv.matmul_toeplitz(a[:, 0], b),
    "toeplitz": lambda a, b: ldiv.toeplitz(a[0]) @ b,
    "circulant": lambda a, b: ldiv.circulant(a[0]) @ b,
    "hankel": lambda a, b: ldiv.hankel(a[0]) @ b,
    "convolution_matrix": lambda a, b: ldiv.convolution_matrix(a[0], N) @ b,
    "companion": lambda a, b: ldiv.companion(a[0]),
    "fiedler": lambda a, b: ldiv.fiedler(a[0]),
    "leslie": lambda a, b: ldiv.leslie(b, a[0, 1:]),
    "kron": lambda a, b: ldiv.solve(ldiv.kron(a, a), namespace(a).concat([b] * N)),
    "khatri_rao": lambda a, b: ldiv.khatri_rao(a, a),
    "block_array": lambda a, b: ldiv.block_array([[a, a], [None, a]]) @ stack(b, b).reshape(-1),
    "LowRank": lambda a, b: ldiv.solve(
        3 * ldiv.eye_array(N, like=b) + ldiv.LowRank(a[:, :2], a[:, 2:4]), b
    ),
    "Gram": lambda a, b: ldiv.solve(ldiv.Gram(tril(a)), b),
    "Matrix": lambda a, b: ldiv.solve(ldiv.Matrix(ldiv.structures.Diagonal(N), a[0]), b),
    "LinearOperator": lambda a, b: operator(a) @ b,
    "aslinearoperator": lambda a, b: ldiv.aslinearoperator(a) @ b,
    "gemm": lambda a, b: ldiv.gemm(1.0, a, a),
    "matmul": ldiv.matmul,
    "multi_dot": lambda a, b: ldiv.multi_dot([a, a, b]),
    "vecdot": lambda a, b: ldiv.vecdot(a, b),
    "tensorinv": lambda a, b: ldiv.tensorinv(a.reshape(6, 3, 2), 1),
    "tensorsolve": lambda a, b: ldiv.tensorsolve(a.reshape(6, 3, 2), b),
    "root": lambda a, b: ldiv.root(lambda x, p: p @ x + x**3 - 1, 0 * b, a),
    "least_squares": lambda a, b: ldiv.least_squares(lambda x, p: p @ x + x**3 - 1, 0 * b, a),
    "implicit": lambda a, b: ldiv.implicit(lambda x, p: p @ x - 1, ldiv.solve(a, 0 * b + 1), a),
    "jacobian": lambda a, b: ldiv.jacobian(lambda x: a @ x**2, b),
    "hessian": lambda a, b: ldiv.hessian(lambda x: (a @ x**2).sum() ** 2, b),
    "hvp": lambda a, b: ldiv.hvp(lambda x: (a @ x**2).sum() ** 2, b, b),
    "vjp": lambda a, b: ldiv.vjp(ldiv.solve, a, b)[1](b)[0],
    "jvp": lambda a, b: ldiv.jvp(ldiv.solve, (a, b), (a.mT, b))[1],
    "spsolve": lambda a, b: ldiv.spsolve(sparse(a), b),
    "spsolve_triangular": lambda a, b: ldiv.spsolve_triangular(ldiv.tril(sparse(a)), b),
    "cho_solve_banded": lambda a, b: ldiv.cho_solve_banded((bands(a), True), b),
    "eig_banded": lambda a, b: ldiv.eig_banded(bands(a), lower=True)[0],
    "eigvals_banded": lambda a, b: ldiv.eigvals_banded(bands(a), lower=True),
    "eigh_tridiagonal": lambda a, b: ldiv.eigh_tridiagonal(a[0], a[1, 1:])[0],
    "eigvalsh_tridiagonal": lambda a, b: ldiv.eigvalsh_tridiagonal(a[0], a[1, 1:]),
    "cdf2rdf": lambda a, b: ldiv.cdf2rdf(b + 0j, a + 0j)[0],
    # sparse arrays: products and what is made of them
    "asarray": lambda a, b: ldiv.asarray(a) @ b,
    "coo_array": lambda a, b: sparse(a) @ b,
    "coo_array, arithmetic": lambda a, b: (2 * sparse(a).T + sparse(a)) @ b,
    "csr_array": lambda a, b: ldiv.csr_array(a) @ b,
    "csc_array": lambda a, b: ldiv.csc_array(a) @ b,
    "diags_array": lambda a, b: ldiv.diags_array([a[0]], offsets=[0]) @ b,
    "diags": lambda a, b: ldiv.diags([a[0], a[1, 1:]], [0, 1]) @ b,
    "spdiags": lambda a, b: ldiv.spdiags(a[:2], [0, 1], N, N) @ b,
    "setdiag": lambda a, b: ldiv.setdiag(sparse(a), b) @ b,
    "tril": lambda a, b: ldiv.tril(a) @ b,
    "triu": lambda a, b: ldiv.triu(a) @ b,
    "block_diag": lambda a, b: ldiv.block_diag([a[:3, :3], a[:3, 3:]]) @ b,
    "bmat": lambda a, b: (
        ldiv.bmat([[sparse(a), None], [None, sparse(a)]]) @ stack(b, b).reshape(-1)
    ),
    "hstack": lambda a, b: ldiv.hstack([sparse(a), sparse(a)]) @ stack(b, b).reshape(-1),
    "vstack": lambda a, b: ldiv.vstack([sparse(a), sparse(a)]) @ b,
    "kronsum": lambda a, b: ldiv.kronsum(a[:2, :2], a[:3, :3]) @ b,
    "find": lambda a, b: ldiv.find(sparse(a))[2],
}
# of these numbers decide what is computed: they are no function of a member of a mapped batch
BY_NUMBERS = {"orth", "null_space", "gradient_error", "cdf2rdf"}
# and these are computed by iterations that a compiled program of JAX leaves to Python, or have
# derivatives that are
IN_PYTHON = {
    *("polar", "orthogonal_procrustes", "solve_sylvester", "solve_continuous_lyapunov"),
    *("solve_lyapunov", "solve_discrete_lyapunov", "solve_banded", "solveh_banded"),
    "cho_solve_banded",
    *("solve_toeplitz", "LowRank", "spsolve", "spsolve_triangular", "least_squares"),
}
# these run on the host, whose arrays alone they take
AT_HOST: dict[str, Function] = {
    "lsqr": lambda a, b: ldiv.lsqr(a[:, :3], b)[0],
    "lsmr": lambda a, b: ldiv.lsmr(a[:, :3], b)[0],
    "lgmres": lambda a, b: ldiv.lgmres(a, b)[0],
    "bicg": lambda a, b: ldiv.bicg(a, b)[0],
    "cgs": lambda a, b: ldiv.cgs(a, b)[0],
    "qmr": lambda a, b: ldiv.qmr(a, b)[0],
    "tfqmr": lambda a, b: ldiv.tfqmr(a, b)[0],
    "matrix_power": lambda a, b: ldiv.matrix_power(a, 3),
    "matrix_power, inverse": lambda a, b: ldiv.matrix_power(a, -2),
    "solve_qp": lambda a, b: ldiv.solve_qp(pos(a), b),
    "solve, sparse": lambda a, b: ldiv.solve(sparse(a), b, method="superlu"),
    "splu": lambda a, b: ldiv.splu(sparse(a)).solve(b),
    "inertia": lambda a, b: ldiv.inertia(sym(a))[0] * b,
    "spilu": lambda a, b: ldiv.spilu(sparse(a)).solve(b),
    "selected_inverse": lambda a, b: ldiv.selected_inverse(sparse(a)).data,
    "laplace": lambda a, b: (
        ldiv.laplace(lambda x, p: (x**4 - x).sum() + ((p @ x) ** 2).sum(), 0 * b, a).value
    ),
    "ldl": lambda a, b: ldiv.ldl(sym(a))[0],
    "ldl_factor": lambda a, b: ldiv.ldl_factor(sym(a))[0],
    "ldl_solve": lambda a, b: ldiv.ldl_solve(*ldiv.ldl_factor(sym(a)), b[:, None]),
    "cholesky_banded": lambda a, b: ldiv.cholesky_banded(bands(a), lower=True),
    "eig": lambda a, b: abs(ldiv.eig(a)[0]),
    "eigvals": lambda a, b: abs(ldiv.eigvals(a)),
    "eigs": lambda a, b: abs(ldiv.eigs(a, 2)[0]),
    "schur": lambda a, b: abs(ldiv.schur(a, "complex")[0].diagonal()),
    "hessenberg": lambda a, b: ldiv.hessenberg(a),
    "qz": lambda a, b: ldiv.qz(a, a.mT)[0],
    "ordqz": lambda a, b: ldiv.ordqz(a, a.mT)[0],
    "rsf2csf": lambda a, b: abs(ldiv.rsf2csf(a, a)[0]),
    "cossin": lambda a, b: ldiv.cossin(ldiv.qr(a)[0], 3, 3)[0],
    "matrix_balance": lambda a, b: ldiv.matrix_balance(a)[0],
    "expm": lambda a, b: ldiv.expm(well(a)),
    "matrix_exp": lambda a, b: ldiv.matrix_exp(well(a)),
    "expm_frechet": lambda a, b: ldiv.expm_frechet(well(a), a)[1],
    "expm_cond": lambda a, b: ldiv.expm_cond(well(a)),
    "expm_multiply": lambda a, b: ldiv.expm_multiply(well(a), b),
    "sqrtm": lambda a, b: ldiv.sqrtm(pos(a)),
    "logm": lambda a, b: ldiv.logm(pos(a)),
    "signm": lambda a, b: ldiv.signm(a),
    "funm": lambda a, b: ldiv.funm(pos(a), lambda x: x**2),
    "fractional_matrix_power": lambda a, b: ldiv.fractional_matrix_power(pos(a), 0.3),
    "cosm": lambda a, b: ldiv.cosm(a),
    "sinm": lambda a, b: ldiv.sinm(a),
    "tanm": lambda a, b: ldiv.tanm(well(a)),
    "coshm": lambda a, b: ldiv.coshm(well(a)),
    "sinhm": lambda a, b: ldiv.sinhm(well(a)),
    "tanhm": lambda a, b: ldiv.tanhm(well(a)),
    "solve_continuous_are": lambda a, b: ldiv.solve_continuous_are(a, a, pos(a), pos(a)),
    "solve_discrete_are": lambda a, b: ldiv.solve_discrete_are(a, a, pos(a), pos(a)),
}
# what no law of dense arrays is about, and why
OTHERS: dict[str, str] = {
    **dict.fromkeys(
        (
            *("ConvergenceError", "EngineError", "LinAlgOverflowError", "NotDifferentiableError"),
            *("NotPositiveDefiniteError", "NotSymmetricError", "QuadraticProgramError"),
            *("SingularMatrixError", "TooNoisyError", "WrongDerivativeError"),
        ),
        "an error",
    ),
    **dict.fromkeys(
        (
            *("EigenInfo", "EstimateInfo", "Explanation", "GradientError", "LeastSquaresInfo"),
            *("LaplaceApproximation", "RootInfo", "SolveInfo"),
            *("Factorized", "FactorizedLstsq", "IncompleteLU", "SparseArray", "SparseCholesky"),
            "UpdatedCholesky",
        ),
        "what other functions return",
    ),
    **dict.fromkeys(
        ("cache_info", "clear_cache", "errstate", "get_num_threads", "set_cache_limit"),
        "takes no arrays",
    ),
    **dict.fromkeys(
        ("set_num_threads", "jax_export_checks", "structures", "eye", "eye_array", "identity"),
        "takes no arrays",
    ),
    **dict.fromkeys(("random_array", "load_npz"), "takes no arrays"),
    **dict.fromkeys(
        ("symmetric", "hermitian", "positive_definite", "triangular", "orthonormal"),
        "marks an argument of gradcheck, and computes nothing",
    ),
    **dict.fromkeys(("gradcheck", "Tape", "Duplicated", "autodiff"), "has tests of its own"),
    **dict.fromkeys(
        ("issparse", "is_sptriangular", "spbandwidth", "explain", "detect_pattern"),
        "tells of a pattern or a structure, not of numbers",
    ),
    **dict.fromkeys(
        ("bandwidth", "ishermitian", "issymmetric", "onenormest"),
        "answers with numbers of Python: reading them is what it is for",
    ),
    **dict.fromkeys(("save_npz", "spy"), "writes what it is given, for which it reads it"),
}


def public(names: Iterable[str]) -> set[str]:
    """The functions that these names begin with."""
    return {found[0] for name in names if (found := re.match(r"\w+", name))}
