"""ldiv: linear algebra with derivatives. SciPy's names, your own arrays, derivatives at the cost of one more solve."""

from ldiv import structures
from ldiv.banded import cho_solve_banded, cholesky_banded, solve_banded, solveh_banded
from ldiv.blas import gemm, matmul
from ldiv.checker.findings import TooNoisyError, WrongDerivativeError
from ldiv.checker.gradcheck import gradcheck
from ldiv.checker.tangents import hermitian, orthonormal, positive_definite, symmetric, triangular
from ldiv.compose import Gram, LowRank, block_array, kron
from ldiv.construct import asarray, coo_array, csc_array, csr_array, diags_array, eye_array
from ldiv.derivative import jvp, vjp
from ldiv.eigen import eigh, eigsh, lobpcg
from ldiv.eigen_info import EigenInfo
from ldiv.errors import (
    ConvergenceError,
    EngineError,
    LinAlgOverflowError,
    NotDifferentiableError,
    NotPositiveDefiniteError,
    NotSymmetricError,
    SingularMatrixError,
)
from ldiv.explain import Explanation, explain
from ldiv.factor_cache import cache_info, clear_cache, set_cache_limit
from ldiv.factorizations import cho_factor, cho_solve, cholesky, ldl, lu, lu_factor, lu_factor_ex, lu_solve, qr
from ldiv.factorized import Factorized, factorized
from ldiv.gaussians import gaussian_kl, gaussian_logpdf
from ldiv.gradient_error import GradientError, gradient_error
from ldiv.info import SolveInfo
from ldiv.jacobians import detect_pattern, hessian, hvp, jacobian
from ldiv.least_squares import lstsq
from ldiv.linalg import solve, solve_triangular
from ldiv.matrix import Matrix
from ldiv.operators import LinearOperator
from ldiv.precondition import preconditioner
from ldiv.roots import implicit, root
from ldiv.shadow.duplicated import Duplicated
from ldiv.singularity import errstate
from ldiv.sparse import SparseArray
from ldiv.spectral import eigenspace, spectral_function, spectral_sum, svds
from ldiv.tape import Tape, autodiff
from ldiv.traces import det, logdet, quad_form, slogdet, trace_solve

__version__ = "0.1.0"

__all__ = [
    "ConvergenceError",
    "Duplicated",
    "EigenInfo",
    "EngineError",
    "Explanation",
    "Factorized",
    "GradientError",
    "Gram",
    "LinAlgOverflowError",
    "LinearOperator",
    "LowRank",
    "Matrix",
    "NotDifferentiableError",
    "NotPositiveDefiniteError",
    "NotSymmetricError",
    "SingularMatrixError",
    "SolveInfo",
    "SparseArray",
    "Tape",
    "TooNoisyError",
    "WrongDerivativeError",
    "asarray",
    "autodiff",
    "block_array",
    "cache_info",
    "cho_factor",
    "cho_solve",
    "cho_solve_banded",
    "cholesky",
    "cholesky_banded",
    "clear_cache",
    "coo_array",
    "csc_array",
    "csr_array",
    "det",
    "detect_pattern",
    "diags_array",
    "eigenspace",
    "eigh",
    "eigsh",
    "errstate",
    "explain",
    "eye_array",
    "factorized",
    "gaussian_kl",
    "gaussian_logpdf",
    "gemm",
    "gradcheck",
    "gradient_error",
    "hermitian",
    "hessian",
    "hvp",
    "implicit",
    "jacobian",
    "jvp",
    "kron",
    "ldl",
    "lobpcg",
    "logdet",
    "lstsq",
    "lu",
    "lu_factor",
    "lu_factor_ex",
    "lu_solve",
    "matmul",
    "orthonormal",
    "positive_definite",
    "preconditioner",
    "qr",
    "quad_form",
    "root",
    "set_cache_limit",
    "slogdet",
    "solve",
    "solve_banded",
    "solve_triangular",
    "solveh_banded",
    "spectral_function",
    "spectral_sum",
    "structures",
    "svds",
    "symmetric",
    "trace_solve",
    "triangular",
    "vjp",
]
