"""ldiv: linear algebra with derivatives. SciPy's names, your own arrays, derivatives at the cost of one more solve."""

from ldiv import structures
from ldiv.compose import Gram, LowRank, block_array, kron
from ldiv.construct import asarray, coo_array, csc_array, csr_array, diags_array, eye_array
from ldiv.eigen import eigh, eigsh, lobpcg
from ldiv.eigen_info import EigenInfo
from ldiv.errors import (
    ConvergenceError,
    EngineError,
    NotDifferentiableError,
    NotPositiveDefiniteError,
    NotSymmetricError,
    SingularMatrixError,
)
from ldiv.explain import Explanation, explain
from ldiv.factorized import Factorized, factorized
from ldiv.gaussians import gaussian_kl, gaussian_logpdf
from ldiv.gradient_error import GradientError, gradient_error
from ldiv.info import SolveInfo
from ldiv.jacobian import jvp, vjp
from ldiv.linalg import solve, solve_triangular
from ldiv.matrix import Matrix
from ldiv.memory import cache_info, clear_cache, set_cache_limit
from ldiv.operators import LinearOperator
from ldiv.precondition import preconditioner
from ldiv.sparse import SparseArray
from ldiv.spectral import eigenspace, spectral_function, spectral_sum, svds
from ldiv.traces import det, logdet, quad_form, slogdet, trace_solve

__version__ = "0.1.0"

__all__ = [
    "ConvergenceError",
    "EigenInfo",
    "EngineError",
    "Explanation",
    "Factorized",
    "GradientError",
    "Gram",
    "LinearOperator",
    "LowRank",
    "Matrix",
    "NotDifferentiableError",
    "NotPositiveDefiniteError",
    "NotSymmetricError",
    "SingularMatrixError",
    "SolveInfo",
    "SparseArray",
    "asarray",
    "block_array",
    "cache_info",
    "clear_cache",
    "coo_array",
    "csc_array",
    "csr_array",
    "det",
    "diags_array",
    "eigenspace",
    "eigh",
    "eigsh",
    "explain",
    "eye_array",
    "factorized",
    "gaussian_kl",
    "gaussian_logpdf",
    "gradient_error",
    "jvp",
    "kron",
    "lobpcg",
    "logdet",
    "preconditioner",
    "quad_form",
    "set_cache_limit",
    "slogdet",
    "solve",
    "solve_triangular",
    "spectral_function",
    "spectral_sum",
    "structures",
    "svds",
    "trace_solve",
    "vjp",
]
