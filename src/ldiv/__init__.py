"""ldiv: linear algebra with derivatives. SciPy's names, your own arrays, derivatives at the cost of one more solve."""

from ldiv import structures
from ldiv.construct import asarray, coo_array, csc_array, csr_array, diags_array, eye_array
from ldiv.errors import EngineError, NotPositiveDefiniteError, NotSymmetricError, SingularMatrixError
from ldiv.jacobian import jvp, vjp
from ldiv.linalg import Factorized, factorized, solve, solve_triangular
from ldiv.matrix import Matrix
from ldiv.memory import cache_info, clear_cache, set_cache_limit
from ldiv.sparse import SparseArray

__version__ = "0.1.0"

__all__ = [
    "EngineError",
    "Factorized",
    "Matrix",
    "NotPositiveDefiniteError",
    "NotSymmetricError",
    "SingularMatrixError",
    "SparseArray",
    "asarray",
    "cache_info",
    "clear_cache",
    "coo_array",
    "csc_array",
    "csr_array",
    "diags_array",
    "eye_array",
    "factorized",
    "jvp",
    "set_cache_limit",
    "solve",
    "solve_triangular",
    "structures",
    "vjp",
]
