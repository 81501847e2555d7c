"""x -> S(p) x for many x: the matrix is assembled once, and assumed symmetry is checked.

On the host a sparse matrix becomes CSR; the symmetric part of a dense matrix becomes one array.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ldiv.core.arrays.shapes import alike, batch_of, broadcast, conj, numpy_dtype, transpose
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import asnumpy, frontend_of, host, namespace, on_host
from ldiv.core.frameworks.pattern import Pattern
from ldiv.core.frameworks.trees import Tree, leaves, rebuild
from ldiv.core.rules.structure import VIEWS, Structure, compose, matmul, view_dense
from ldiv.structures.asymmetry import refuse_defect
from ldiv.structures.dense import Dense
from ldiv.structures.diagonal import Diagonal
from ldiv.structures.operator import Operator
from ldiv.structures.self_adjoint import SelfAdjoint
from ldiv.structures.sparse import Sparse
from ldiv.structures.symmetric import Symmetric, symmetric_part

Product = Callable[[Array], Array]
HostProduct = Callable[[Any], Any]  # of arrays of NumPy
PROBES = 4  # random vectors, which make six pairs


def assembled(structure: Structure, p: Tree) -> Product:
    """The product with S(p)."""
    base, op = structure.unview()
    if (pattern := base.pattern) is not None and all(map(host, leaves(p))):
        if isinstance(base, Symmetric):  # its columns are its rows
            op = compose(base.op, op)
        slots = base.slot_values(rebuild(base.core, [asnumpy(x) for x in leaves(p)]))
        # one CSR matrix for each member of the batch
        matrices = np.empty(slots.shape[:-1], dtype=object)
        for i in np.ndindex(matrices.shape):
            matrices[i] = _rows(pattern.csc(slots[i]), op)
        return partial(_multiply, matrices, structure.shape[0], slots.dtype)
    if isinstance(base, Symmetric) and isinstance(base.base, Dense):
        return partial(namespace(p).matmul, view_dense(symmetric_part(p, base.op), op))
    if isinstance(base, Symmetric):  # on a device
        _probe(partial(matmul, base.base, p), structure.shape[0], leaves(p)[0], base.op)
    return _by_rows(base, op, p) or partial(matmul, structure, p)


def stored_one_norm(structure: Structure, p: Tree) -> float | None:
    """|S(p)|_1, the largest of a batch, from entries that are stored on the host; else None."""
    base, op = structure.unview()
    transposed, pattern = VIEWS[op][0], base.pattern
    is_dense = base.core == 2 and tuple(p.shape[-2:]) == base.shape
    if not all(map(host, leaves(p))) or (pattern is None and not is_dense):
        return None
    values = rebuild(base.core, [asnumpy(x) for x in leaves(p)])
    if pattern is None:
        size = np.abs(base.todense(values))
        # |A^T|_1 is the largest sum of a row of A
        return float(size.sum(-1 if transposed else -2, np.float64).max(initial=0))
    size, at = np.abs(base.slot_values(values)), pattern.indices if transposed else pattern.columns
    every = size.reshape(-1, size.shape[-1])
    return max([float(np.bincount(at, row, 1).max(initial=0)) for row in every], default=0.0)


def is_ours(structure: Structure | None) -> bool:
    """Whether products are the same operations each time, and call no user's function."""
    base = None if structure is None else structure.unview()[0]
    if isinstance(base, Symmetric | SelfAdjoint):
        base = base.base.unview()[0]
    return base is None or isinstance(base, Sparse | Dense | Diagonal)


def _by_rows(base: Structure, op: str, p: Tree) -> Product | None:
    """The product of the front end of a device, if it has one."""
    sparse = base.base if isinstance(base, Symmetric) else base
    if not isinstance(sparse, Sparse) or p.ndim > 1:
        return None
    rows, cols = sparse.entries.rows, sparse.entries.cols
    if isinstance(base, Symmetric):
        # (A + A^T) / 2 or (A + A^H) / 2: each entry and its mirror image count half
        rows, cols = np.concatenate([rows, cols]), np.concatenate([cols, rows])
        mirror = conj(p) if base.op == "H" else p
        p = namespace(p).concat([p, mirror], axis=-1) / 2
    transposed, conjugated = VIEWS[op]
    p = conj(p) if conjugated else p
    if transposed:
        rows, cols = cols, rows
    m, n = sparse.shape[:: -1 if transposed else 1]
    # the compressed columns of op(A)^T are the compressed rows of op(A)
    columns = base.cached(("rows of", transposed), lambda: Pattern(cols, rows, (n, m)))
    return frontend_of(p).compressed_rows(columns, p)


def on_numpy(product: Product, like: Array) -> HostProduct:
    """The product as a function of NumPy arrays, computed in the framework and device of `like`."""
    if type(like) is np.ndarray:
        return product
    xp = namespace(like)
    return lambda x: asnumpy(product(xp.asarray(x.copy(), **alike(like, x.dtype))))


def require_hermitian(structure: Structure, product: Product, like: Array) -> None:
    """Raise unless an operator, or an assumed-symmetric matrix, is Hermitian.

    `like` has the framework and dtype of the vectors.
    """
    if isinstance(structure.unview()[0], SelfAdjoint | Operator):
        _probe(product, structure.shape[0], like, "H")


def _probe(product: Product, n: int, like: Array, op: str) -> None:
    """Raise unless u^T A v = v^T A u, or with conjugates, for a few random vectors."""
    xp = namespace(like)
    z = xp.asarray(np.random.default_rng(n).standard_normal((n, PROBES)), **alike(like))
    y = product(z)
    # G = Z^T A Z is symmetric or Hermitian if A is, as Z is real
    g = xp.matmul(transpose(z), y)
    mirror = conj(transpose(g)) if op == "H" else transpose(g)
    refuse_defect(
        xp.max(xp.abs(g - mirror), axis=(-2, -1)),
        xp.linalg.vector_norm(y, axis=(-2, -1)),
        numpy_dtype(y),
        op,
    )


def _rows(csc: Any, op: str) -> Any:
    """op of a CSC matrix in CSR."""
    transposed, conjugated = VIEWS[op]
    matrix = (csc.T if transposed else csc).tocsr()
    return matrix.conj() if conjugated and matrix.dtype.kind == "c" else matrix


def _multiply(matrices: Any, rows: int, dtype: Any, x: Array) -> Array:
    """A @ x for each matrix A of a batch."""
    batch = broadcast(matrices.shape, batch_of(x, 2))
    spec = ((*batch, rows, x.shape[-1]), np.result_type(dtype, numpy_dtype(x)))

    def each(x: Any) -> tuple[Any]:
        if not batch:
            return (matrices[()] @ x,)
        y, x, every = (
            np.empty(*spec),
            np.broadcast_to(x, (*batch, *x.shape[-2:])),
            np.broadcast_to(matrices, batch),
        )
        for i in np.ndindex(batch):
            y[i] = every[i] @ x[i]
        return (y,)

    return on_host(each, (spec,), x)[0]
