"""What to write for the public names of SciPy, NumPy and PyTorch that ldiv does not have.

`ldiv.<name>` ends in an AttributeError with this sentence. Names that ldiv has do not stand here.
"""

from __future__ import annotations

from collections.abc import Iterable

_NO_DERIVATIVE = "It has no derivative: call {library}."
_CONSTANT = "A matrix of constants: make it with {library}, and pass it to any function of ldiv."


def _each(names: str, sentence: str) -> Iterable[tuple[str, str]]:
    return ((name, sentence) for name in names.split())


SENTENCES: dict[str, str] = dict(
    [
        # -- scipy.linalg ---------------------------------------------------------------------
        *_each(
            "LinAlgError LinAlgWarning",
            "Errors of ldiv derive from scipy.linalg.LinAlgError; catch that, or "
            "ldiv.SingularMatrixError and its kin.",
        ),
        *_each(
            "find_best_blas_type get_blas_funcs get_lapack_funcs",
            "BLAS and LAPACK are those of scipy.linalg; products with derivatives are ldiv.gemm and "
            "ldiv.matmul.",
        ),
        *_each(
            "dft fiedler_companion hadamard helmert hilbert invhilbert invpascal pascal",
            _CONSTANT.format(library="scipy.linalg"),
        ),
        *_each(
            "clarkson_woodruff_transform",
            _NO_DERIVATIVE.format(library="scipy.linalg for the sketch"),
        ),
        ("diagsvd", "Write ldiv.diags_array(s), or U[:, :k] * s for the product with it."),
        *_each(
            "qr_delete qr_insert qr_update",
            "Factor again with ldiv.qr; SciPy's updates have no derivative.",
        ),
        # -- scipy.sparse ---------------------------------------------------------------------
        *_each(
            "SparseEfficiencyWarning SparseWarning MatrixRankWarning",
            "ldiv warns of nothing of this kind: it raises, or does what was asked.",
        ),
        *_each(
            "bsr_array bsr_matrix dia_array dia_matrix dok_array dok_matrix lil_array lil_matrix",
            "Make it with SciPy, and then ldiv.asarray(A); ldiv stores coordinates and compressed "
            "rows or columns.",
        ),
        ("coo_matrix", "Write ldiv.coo_array."),
        ("csc_matrix", "Write ldiv.csc_array."),
        ("csr_matrix", "Write ldiv.csr_array."),
        *_each("rand random", "Write ldiv.random_array."),
        *_each(
            "isspmatrix isspmatrix_bsr isspmatrix_coo isspmatrix_csc isspmatrix_csr "
            "isspmatrix_dia isspmatrix_dok isspmatrix_lil sparray spmatrix",
            "Write isinstance(A, ldiv.SparseArray); A.format names its format.",
        ),
        *_each(
            "get_index_dtype safely_cast_index_arrays",
            "Index arrays of ldiv have the integers that they need: nothing is to be cast.",
        ),
        *_each(
            "expand_dims permute_dims swapaxes",
            "A SparseArray has two axes, and its values may have batch axes in front: A.T, "
            "A.with_data(values).",
        ),
        # -- scipy.sparse.linalg --------------------------------------------------------------
        *_each(
            "ArpackError ArpackNoConvergence",
            "ldiv.ConvergenceError is raised, which is a RuntimeError too.",
        ),
        (
            "LaplacianNd",
            "Make its matrix, and pass it: ldiv.asarray(LaplacianNd(shape).tosparse()).",
        ),
        ("SuperLU", "ldiv.splu returns a Factorized, with solve and logabsdet."),
        *_each(
            "gcrotmk",
            "Write ldiv.gmres or ldiv.bicgstab: x with derivatives, or a ConvergenceError.",
        ),
        ("funm_multiply_krylov", "For the exponential ldiv.expm_multiply."),
        ("use_solver", "Engines are named in the call: ldiv.solve(A, b, method='superlu')."),
        # -- numpy.linalg, torch.linalg -------------------------------------------------------
        *_each(
            "cross diagonal matrix_transpose outer tensordot trace vander",
            "Your array library has it, with derivatives.",
        ),
        *_each("ldl_factor_ex", "Write ldiv.ldl for the factors, ldiv.factorized to solve."),
        ("common_notes", "A text of PyTorch's documentation."),
    ]
)


def sentence(name: str) -> str | None:
    """What to write instead of `ldiv.<name>`, None for a name that no library has."""
    return SENTENCES.get(name)
