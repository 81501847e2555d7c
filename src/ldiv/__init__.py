"""ldiv: linear algebra with derivatives. SciPy's names, your own arrays, derivatives at the cost
of one more solve.
"""

from types import ModuleType
from typing import TYPE_CHECKING

import ldiv.engines.direct
import ldiv.engines.eigen
import ldiv.engines.iterative
import ldiv.engines.preconditioners
import ldiv.frontends  # noqa: F401  (all five find their files when they are asked)
from ldiv import structures
from ldiv.checker.findings import TooNoisyError, WrongDerivativeError
from ldiv.checker.gradcheck import gradcheck
from ldiv.checker.marks import hermitian, orthonormal, positive_definite, symmetric, triangular
from ldiv.core.policies.errstate import errstate
from ldiv.derivatives.gradient_error import GradientError, gradient_error
from ldiv.derivatives.implicit import implicit, root
from ldiv.derivatives.jacobian import hessian, hvp, jacobian
from ldiv.derivatives.least_squares import least_squares
from ldiv.derivatives.least_squares_info import LeastSquaresInfo
from ldiv.derivatives.pattern_detection import detect_pattern
from ldiv.derivatives.root_info import RootInfo
from ldiv.derivatives.vjp_jvp import jvp, vjp
from ldiv.engines.factors.cache import cache_info, clear_cache, set_cache_limit
from ldiv.engines.libraries.threads import get_num_threads, set_num_threads
from ldiv.errors import (
    ConvergenceError,
    EngineError,
    LinAlgOverflowError,
    NotDifferentiableError,
    NotPositiveDefiniteError,
    NotSymmetricError,
    QuadraticProgramError,
    SingularMatrixError,
)
from ldiv.inplace.duplicated import Duplicated
from ldiv.inplace.tape import Tape, autodiff
from ldiv.linalg.arguments.exported_programs import jax_export_checks
from ldiv.linalg.arguments.preconditioner import preconditioner
from ldiv.linalg.equations.exponentials import expm, expm_cond, expm_frechet, matrix_exp
from ldiv.linalg.equations.matrix_powers import fractional_matrix_power, matrix_power
from ldiv.linalg.equations.riccati import solve_continuous_are, solve_discrete_are
from ldiv.linalg.equations.roots_and_logarithms import logm, sqrtm
from ldiv.linalg.equations.scalar_functions import funm, signm
from ldiv.linalg.equations.sylvester import (
    solve_continuous_lyapunov,
    solve_discrete_lyapunov,
    solve_lyapunov,
    solve_sylvester,
)
from ldiv.linalg.equations.trigonometric import coshm, cosm, sinhm, sinm, tanhm, tanm
from ldiv.linalg.factorizations.cholesky import cho_factor, cho_solve, cholesky, cholesky_ex
from ldiv.linalg.factorizations.cossin import cossin
from ldiv.linalg.factorizations.householder import householder_product
from ldiv.linalg.factorizations.ldl import ldl
from ldiv.linalg.factorizations.ldl_factor import ldl_factor, ldl_solve
from ldiv.linalg.factorizations.lu import lu, lu_factor, lu_factor_ex, lu_solve
from ldiv.linalg.factorizations.polar import orthogonal_procrustes, polar
from ldiv.linalg.factorizations.qr import qr
from ldiv.linalg.factorizations.rq import qr_multiply, rq
from ldiv.linalg.inverses.determinants import det, logdet, slogdet
from ldiv.linalg.inverses.gaussian import gaussian_kl, gaussian_logpdf
from ldiv.linalg.inverses.inverse import inv
from ldiv.linalg.inverses.inverse_forms import quad_form, trace_solve
from ldiv.linalg.inverses.selected_inverse import inverse_diagonal, selected_inverse
from ldiv.linalg.inverses.sparse_cholesky import SparseCholesky, UpdatedCholesky
from ldiv.linalg.inverses.stochastic import EstimateInfo
from ldiv.linalg.inverses.tensors import tensorinv, tensorsolve
from ldiv.linalg.inverses.with_info import inv_ex, solve_ex
from ldiv.linalg.products.blas import gemm, matmul
from ldiv.linalg.products.expm_multiply import expm_multiply
from ldiv.linalg.products.multi_dot import multi_dot, vecdot
from ldiv.linalg.spectra.balance import matrix_balance
from ldiv.linalg.spectra.banded_eigen import eig_banded, eigvals_banded, eigvalsh_tridiagonal
from ldiv.linalg.spectra.bases import null_space, orth
from ldiv.linalg.spectra.condition import cond
from ldiv.linalg.spectra.dense_eigen import eigh, eigvalsh
from ldiv.linalg.spectra.dense_svd import matrix_rank, pinv, svd, svdvals
from ldiv.linalg.spectra.eig import eig, eigvals
from ldiv.linalg.spectra.eigen import eigsh
from ldiv.linalg.spectra.eigen_info import EigenInfo
from ldiv.linalg.spectra.eigs import eigs
from ldiv.linalg.spectra.inertia import inertia
from ldiv.linalg.spectra.lobpcg import lobpcg
from ldiv.linalg.spectra.norm import norm, onenormest
from ldiv.linalg.spectra.norms import matrix_norm, vector_norm
from ldiv.linalg.spectra.pinvh import pinvh
from ldiv.linalg.spectra.schur import cdf2rdf, hessenberg, ordqz, qz, rsf2csf, schur
from ldiv.linalg.spectra.spectral import eigenspace, spectral_function, spectral_sum
from ldiv.linalg.spectra.subspace_angles import subspace_angles
from ldiv.linalg.spectra.svd import svds
from ldiv.linalg.spectra.tridiagonal import eigh_tridiagonal
from ldiv.linalg.systems.banded import (
    cho_solve_banded,
    cholesky_banded,
    solve_banded,
    solveh_banded,
)
from ldiv.linalg.systems.explain import Explanation, explain
from ldiv.linalg.systems.factorization import Factorized
from ldiv.linalg.systems.factorized import factorized
from ldiv.linalg.systems.factorized_lstsq import FactorizedLstsq
from ldiv.linalg.systems.krylov import bicgstab, cg, gmres, minres
from ldiv.linalg.systems.krylov_of_scipy import bicg, cgs, lgmres, qmr, tfqmr
from ldiv.linalg.systems.least_squares import lstsq
from ldiv.linalg.systems.lsqr import lsmr, lsqr
from ldiv.linalg.systems.quadratic_program import solve_qp
from ldiv.linalg.systems.solve import solve, solve_triangular
from ldiv.linalg.systems.solve_info import SolveInfo
from ldiv.linalg.systems.spilu import IncompleteLU, spilu
from ldiv.linalg.systems.spsolve import splu, spsolve, spsolve_triangular
from ldiv.linalg.systems.toeplitz import matmul_toeplitz, solve_circulant, solve_toeplitz
from ldiv.matrices.compose import Gram, LowRank, block_array, kron
from ldiv.matrices.construct import asarray, coo_array, csc_array, csr_array
from ldiv.matrices.diagonals import diags_array, eye_array
from ldiv.matrices.diags import diags, eye, spdiags
from ldiv.matrices.identity import identity
from ldiv.matrices.linear_operator import LinearOperator
from ldiv.matrices.matrix import Matrix
from ldiv.matrices.picture import spy
from ldiv.matrices.queries import (
    aslinearoperator,
    bandwidth,
    find,
    is_sptriangular,
    ishermitian,
    issparse,
    issymmetric,
    spbandwidth,
)
from ldiv.matrices.random_array import random_array
from ldiv.matrices.sparse_array import SparseArray
from ldiv.matrices.sparse_files import load_npz, save_npz
from ldiv.matrices.special import companion, fiedler, khatri_rao, leslie
from ldiv.matrices.stacking import block_diag, bmat, hstack, kronsum, vstack
from ldiv.matrices.toeplitz import circulant, convolution_matrix, hankel, toeplitz
from ldiv.matrices.triangles import setdiag, tril, triu

__version__ = "0.2.0"

__all__ = [
    "ConvergenceError",
    "Duplicated",
    "EigenInfo",
    "EngineError",
    "EstimateInfo",
    "Explanation",
    "Factorized",
    "FactorizedLstsq",
    "GradientError",
    "Gram",
    "IncompleteLU",
    "LeastSquaresInfo",
    "LinAlgOverflowError",
    "LinearOperator",
    "LowRank",
    "Matrix",
    "NotDifferentiableError",
    "NotPositiveDefiniteError",
    "NotSymmetricError",
    "QuadraticProgramError",
    "RootInfo",
    "SingularMatrixError",
    "SolveInfo",
    "SparseArray",
    "SparseCholesky",
    "Tape",
    "TooNoisyError",
    "UpdatedCholesky",
    "WrongDerivativeError",
    "asarray",
    "aslinearoperator",
    "autodiff",
    "bandwidth",
    "bicg",
    "bicgstab",
    "block_array",
    "block_diag",
    "bmat",
    "cache_info",
    "cdf2rdf",
    "cg",
    "cgs",
    "cho_factor",
    "cho_solve",
    "cho_solve_banded",
    "cholesky",
    "cholesky_banded",
    "cholesky_ex",
    "circulant",
    "clear_cache",
    "companion",
    "cond",
    "convolution_matrix",
    "coo_array",
    "coshm",
    "cosm",
    "cossin",
    "csc_array",
    "csr_array",
    "det",
    "detect_pattern",
    "diags",
    "diags_array",
    "eig",
    "eig_banded",
    "eigenspace",
    "eigh",
    "eigh_tridiagonal",
    "eigs",
    "eigsh",
    "eigvals",
    "eigvals_banded",
    "eigvalsh",
    "eigvalsh_tridiagonal",
    "errstate",
    "explain",
    "expm",
    "expm_cond",
    "expm_frechet",
    "expm_multiply",
    "eye",
    "eye_array",
    "factorized",
    "fiedler",
    "find",
    "fractional_matrix_power",
    "funm",
    "gaussian_kl",
    "gaussian_logpdf",
    "gemm",
    "get_num_threads",
    "gmres",
    "gradcheck",
    "gradient_error",
    "hankel",
    "hermitian",
    "hessenberg",
    "hessian",
    "householder_product",
    "hstack",
    "hvp",
    "identity",
    "implicit",
    "inertia",
    "inv",
    "inv_ex",
    "inverse_diagonal",
    "is_sptriangular",
    "ishermitian",
    "issparse",
    "issymmetric",
    "jacobian",
    "jax_export_checks",
    "jvp",
    "khatri_rao",
    "kron",
    "kronsum",
    "ldl",
    "ldl_factor",
    "ldl_solve",
    "least_squares",
    "leslie",
    "lgmres",
    "load_npz",
    "lobpcg",
    "logdet",
    "logm",
    "lsmr",
    "lsqr",
    "lstsq",
    "lu",
    "lu_factor",
    "lu_factor_ex",
    "lu_solve",
    "matmul",
    "matmul_toeplitz",
    "matrix_balance",
    "matrix_exp",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "minres",
    "multi_dot",
    "norm",
    "null_space",
    "onenormest",
    "ordqz",
    "orth",
    "orthogonal_procrustes",
    "orthonormal",
    "pinv",
    "pinvh",
    "polar",
    "positive_definite",
    "preconditioner",
    "qmr",
    "qr",
    "qr_multiply",
    "quad_form",
    "qz",
    "random_array",
    "root",
    "rq",
    "rsf2csf",
    "save_npz",
    "schur",
    "selected_inverse",
    "set_cache_limit",
    "set_num_threads",
    "setdiag",
    "signm",
    "sinhm",
    "sinm",
    "slogdet",
    "solve",
    "solve_banded",
    "solve_circulant",
    "solve_continuous_are",
    "solve_continuous_lyapunov",
    "solve_discrete_are",
    "solve_discrete_lyapunov",
    "solve_ex",
    "solve_lyapunov",
    "solve_qp",
    "solve_sylvester",
    "solve_toeplitz",
    "solve_triangular",
    "solveh_banded",
    "spbandwidth",
    "spdiags",
    "spectral_function",
    "spectral_sum",
    "spilu",
    "splu",
    "spsolve",
    "spsolve_triangular",
    "spy",
    "sqrtm",
    "structures",
    "subspace_angles",
    "svd",
    "svds",
    "svdvals",
    "symmetric",
    "tanhm",
    "tanm",
    "tensorinv",
    "tensorsolve",
    "tfqmr",
    "toeplitz",
    "trace_solve",
    "triangular",
    "tril",
    "triu",
    "vecdot",
    "vector_norm",
    "vjp",
    "vstack",
]


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


if not TYPE_CHECKING:  # a type checker knows the names that are here

    def __getattr__(name: str) -> ModuleType:
        """`ldiv.nn`, which imports PyTorch when it is asked for; what to write for a name of SciPy,
        NumPy or PyTorch that is not here, or for one that is misspelled.
        """
        if name == "nn":
            import ldiv.nn

            return ldiv.nn
        from ldiv.linalg.absent import sentence  # once a name is missed

        why = sentence(name, __all__)
        raise AttributeError(f"module 'ldiv' has no attribute {name!r}" + f". {why}" * bool(why))
