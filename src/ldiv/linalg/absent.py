"""Advice for each public name of SciPy, NumPy and PyTorch that ldiv does not have.

`ldiv.<name>` raises an AttributeError with this advice, or with the name of ldiv that is like it. Names
that ldiv has are not listed.
"""

from __future__ import annotations

from collections.abc import Iterable

from ldiv.errors import meant

# names: their advice, which goes on in indented lines
TABLE = """
# scipy.linalg
LinAlgError LinAlgWarning: Errors of ldiv derive from scipy.linalg.LinAlgError; catch that, or
    ldiv.SingularMatrixError and its kin.
find_best_blas_type get_blas_funcs get_lapack_funcs: BLAS and LAPACK are those of scipy.linalg; products
    with derivatives are ldiv.gemm and ldiv.matmul.
dft fiedler_companion hadamard helmert hilbert invhilbert invpascal pascal: A matrix of constants: make it
    with scipy.linalg, and pass it to any function of ldiv.
clarkson_woodruff_transform: It has no derivative: call scipy.linalg for the sketch.
diagsvd: Write ldiv.diags_array(s), or U[:, :k] * s for the product with it.
qr_delete qr_insert qr_update: Factor again with ldiv.qr; SciPy's updates have no derivative.

# what people look for beside them
tikhonov ridge: Write ldiv.lstsq(A, b, damp=) or ldiv.lsqr(A, b, damp=).
nnls: Write ldiv.solve_qp(A.T @ A, -A.T @ b, lb=0.0).
lqr: The gain is solve(R, B^T X) with X = ldiv.solve_continuous_are(A, B, Q, R).
place_poles: It has no derivative: call scipy.signal; ldiv.solve_continuous_are has one.
fsolve newton newton_krylov: Write ldiv.root.
minimize: Write ldiv.least_squares, ldiv.solve_qp, or ldiv.root of the gradient.
grad jacfwd jacrev value_and_grad: Write those of torch.func or jax, which go through functions of ldiv; or
    ldiv.vjp, ldiv.jvp, ldiv.jacobian.
vmap: Write torch.vmap or jax.vmap: they go through functions of ldiv.
cont2discrete: ldiv.expm of [[A, B], [0, 0]] dt has the two matrices in its first rows.
care dare: Write ldiv.solve_continuous_are, ldiv.solve_discrete_are.
lyap dlyap: Write ldiv.solve_continuous_lyapunov, solve_discrete_lyapunov.
dlqr: The gain is solve(R + B^T X B, B^T X A), X = ldiv.solve_discrete_are(A, B, Q, R).
quadprog qp: Write ldiv.solve_qp.
odeint solve_ivp: For x' = A x ldiv.expm_multiply(A, x0, start=, stop=, num=); others: diffrax, torchdiffeq.
lu_unpack: Write ldiv.lu(A), which returns P, L and U.
cholesky_AAt: Write ldiv.cholesky(A @ A.T), of a SparseArray a sparse one.
multivariate_normal: Write ldiv.gaussian_logpdf, ldiv.gaussian_kl.
array sparse_coo_tensor: Write ldiv.asarray, ldiv.coo_array or ldiv.csr_array.
jit compile: Write jax.jit or torch.compile: they go through functions of ldiv.
block: Write ldiv.bmat, or ldiv.block_array.
transpose: Write A.T, or A.mT of a batch.
csgraph laplacian: scipy.sparse.csgraph makes it of constants: ldiv.asarray(laplacian(graph)).
polyeig quadeig: Write ldiv.eig(A, B) or ldiv.eigs(A, M=B) of the pencil of twice the size, A =
    ldiv.bmat([[None, I], [-K, -C]]), B = ldiv.block_diag([I, M]).
interpolative: It has no derivative: call scipy.linalg.interpolative.

# scipy.sparse
SparseEfficiencyWarning SparseWarning MatrixRankWarning: ldiv warns of nothing of this kind: it raises, or
    does what was asked.
bsr_array bsr_matrix dia_array dia_matrix dok_array dok_matrix lil_array lil_matrix: Make it with SciPy, and
    then ldiv.asarray(A); ldiv stores coordinates and compressed rows or columns.
coo_matrix: Write ldiv.coo_array.
csc_matrix: Write ldiv.csc_array.
csr_matrix: Write ldiv.csr_array.
rand random: Write ldiv.random_array.
isspmatrix isspmatrix_bsr isspmatrix_coo isspmatrix_csc isspmatrix_csr isspmatrix_dia isspmatrix_dok
    isspmatrix_lil sparray spmatrix: Write isinstance(A, ldiv.SparseArray); A.format names its format.
get_index_dtype safely_cast_index_arrays: Index arrays of ldiv have the integers that they need: nothing is
    to be cast.
expand_dims permute_dims swapaxes: A SparseArray has two axes, and its values may have batch axes in front:
    A.T, A.with_data(values).

# scipy.sparse.linalg
ArpackError ArpackNoConvergence: ldiv.ConvergenceError is raised, which is a RuntimeError too.
LaplacianNd: Make its matrix, and pass it: ldiv.asarray(LaplacianNd(shape).tosparse()).
SuperLU: ldiv.splu returns a Factorized, with solve and logabsdet.
gcrotmk: Write ldiv.gmres or ldiv.bicgstab: x with derivatives, or a ConvergenceError.
funm_multiply_krylov: For the exponential ldiv.expm_multiply.
use_solver: Engines are named in the call: ldiv.solve(A, b, method='superlu').

# numpy.linalg, torch.linalg
cross diagonal matrix_transpose outer tensordot trace vander: Your array library has it, with derivatives.
ldl_factor_ex: Write ldiv.ldl for the factors, ldiv.factorized to solve.
common_notes: A text of PyTorch's documentation.
"""

SENTENCES = {
    name: advice
    for line in TABLE.replace("\n    ", " ").split("\n")
    if line and not line.startswith("#")
    for names, _, advice in [line.partition(": ")]
    for name in names.split()
}


def sentence(name: str, present: Iterable[str]) -> str:
    """Return the advice for `ldiv.<name>`; empty for a name that no library has and that is like none
    of those present.
    """
    return SENTENCES.get(name) or ("" if name.startswith("_") else meant(name, present).strip())
