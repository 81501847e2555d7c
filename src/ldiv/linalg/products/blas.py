"""Matrix products under the names of BLAS and NumPy, into new memory or into the caller's."""

from __future__ import annotations

from typing import Any

import numpy as np

from ldiv.core.arrays.buffers import is_buffer, overlap, require_own_entries
from ldiv.core.arrays.inputs import moved, promoted
from ldiv.core.arrays.shapes import alike, batch_of, broadcast, is_complex, numpy_dtype
from ldiv.core.arrays.typing import AnyArray, ArrayT, Trans
from ldiv.core.arrays.validate import (
    require_batches,
    require_flag,
    require_float,
    require_scalar,
    together,
    transposition,
)
from ldiv.core.calls.public import public
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import is_array, namespace
from ldiv.core.rules.rule import bind
from ldiv.core.rules.structure import VIEWS
from ldiv.errors import shown, type_error, value_error
from ldiv.matrices.matrix import common_dtype
from ldiv.rules.gemm import Gemm, Product

ROW, COLUMN = (None, slice(None)), (slice(None), None)  # indices of a vector


@public
def gemm(
    alpha: AnyArray | complex,
    a: ArrayT,
    b: ArrayT,
    beta: AnyArray | complex = 0.0,
    c: ArrayT | None = None,
    trans_a: Trans = 0,
    trans_b: Trans = 0,
    overwrite_c: bool = False,
) -> ArrayT:
    """Multiply two matrices and add a third, differentiably, in SciPy's signature of BLAS.

        C' = alpha op(A) op(B) + beta C,    op = N, T or H (0, 1 or 2)

    Parameters
    ----------
    alpha : number or array ()
        The factor of the product. An array is differentiated, a number is a constant.
    a : array (*batch, m, k), or (*batch, k, m) where it is transposed
        The left factor.
    b : array (*batch, k, n), or (*batch, n, k) where it is transposed
        The right factor.
    beta : number or array (), default 0
        The factor of c, as alpha.
    c : array (*batch, m, n), optional
        The matrix to be added. For the number beta = 0 it is not read; for an array that is 0 its
        NaN and infinities are ignored.
    trans_a, trans_b : {0, 1, 2} or {"N", "T", "H"}, default 0
        op(A) and op(B): the matrix, its transpose or its conjugate transpose.
    overwrite_c : bool, default False
        Write the result into c, and return c, which may not share memory with a or b and has the
        dtype of the result.

    Returns
    -------
    y : array (*batch, m, n)
        C'. Batch axes of a and b broadcast.

    Raises
    ------
    ValueError
        For shapes, and for a c that overlaps with a or b or is read-only.
    TypeError
        For mixed frameworks, for what is no array of numbers, and for overwrite_c on JAX.

    Notes
    -----
    Of two dtypes the wider is used; integers become float64.
    Differentiable in alpha, a, b, beta and c in every mode and order:
    A_bar = op(conj(alpha) C'_bar op(B)^H), B_bar = op(conj(alpha) op(A)^H C'_bar),
    C_bar = conj(beta) C'_bar. On PyTorch so is overwrite_c: c takes part in the graph as after any
    in-place operation, and what was saved of its old value raises PyTorch's own error.
    Cost: 1 product, and 2 for the derivative.

    References
    ----------
    Dongarra, Du Croz, Hammarling and Duff (1990); Giles (2008), section 2.2.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> a, c = np.array([[1.0, 2.0], [3.0, 4.0]]), np.ones((2, 2))
    >>> ldiv.gemm(2.0, a, a, -1.0, c, trans_b=1)
    array([[ 9., 21.], [21., 49.]])
    """
    overwrite_c = require_flag("overwrite_c", overwrite_c)
    op_a, op_b = transposition(trans_a, "trans_a"), transposition(trans_b, "trans_b")
    a, b = _beside(a, b)
    if c is not None and not overwrite_c:
        (a, c), b = _beside(a, c), moved(b, c)
    shape = _shape(_matrix("a", a, a), op_a, _matrix("b", b, a), op_b)
    scale = _scalar("beta", beta, a)
    # the number 0 leaves c out; an array that is 0 is an argument all the same, with a derivative
    adds = _is_variable(beta) or bool(beta != 0)
    if (c is None and (adds or overwrite_c)) or (
        c is not None and tuple(_matrix("c", c, a).shape) != shape
    ):
        what, advice = f"an array of shape {shape}", "It is the shape of the product."
        raise value_error("c", what, "none" if c is None else str(tuple(c.shape)), advice)
    if overwrite_c:
        _require_no_overlap("c", c, a=a, b=b)
    # the derivative needs the old value of c, so it is given a copy
    added = [scale, _fresh(c) if overwrite_c else c] if adds else []
    factors = [_scalar("alpha", alpha, a), a, b]
    y = bind(Gemm(op_a, op_b, adds), *common_dtype(*factors, *added))[0]
    return _into("c", c, y) if overwrite_c else y


@public
def matmul(a: ArrayT, b: ArrayT, out: ArrayT | None = None) -> ArrayT:
    """Multiply two matrices, differentiably, also into memory of the caller's.

        out = A B

    Parameters
    ----------
    a : array (*batch, m, k) or (k,)
        The left factor; vectors as in `numpy.matmul`.
    b : array (*batch, k, n) or (k,)
        The right factor.
    out : array, optional
        Where to write the product: of its shape and dtype, in memory apart from a and b.

    Returns
    -------
    y : array (*batch, m, n)
        The product, which is out if there is one; less the axes of vectors. Batch axes broadcast.

    Raises
    ------
    ValueError, TypeError
        As in `gemm`; out is like its c.

    Notes
    -----
    Of two dtypes the wider is used; integers become float64.
    Differentiable in a and b as `gemm` is, and with out on PyTorch.
    Cost: 1 product, and 2 for the derivative.

    References
    ----------
    As in `gemm`.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> out = np.empty((2, 2))
    >>> ldiv.matmul(np.eye(2), np.ones((2, 2)), out=out) is out
    True
    """
    a, b = _beside(a, b)
    (x, a_is_row), (y, b_is_column) = _as_matrix("a", a, a, ROW), _as_matrix("b", b, a, COLUMN)
    *batch, m, n = _shape(x, "N", y, "N")
    if out is not None:
        shape = (*batch, *([] if a_is_row else [m]), *([] if b_is_column else [n]))
        if tuple(require_float("out", out).shape) != shape:
            expected, advice = f"shape {shape}", "It is the shape of the product."
            raise value_error("out", expected, tuple(out.shape), advice)
        _require_no_overlap("out", out, a=a, b=b)
    product = bind(Product(), *common_dtype(x, y))[0]
    product = product[..., 0, :] if a_is_row else product
    product = product[..., 0] if b_is_column else product
    return product if out is None else _into("out", out, product)


# -- what users pass ----------------------------------------------------------

FOR_SPARSE = "Sparse matrices are multiplied by the operator, A @ B, one of them an array of ldiv."


def _beside(a: Any, b: Any) -> tuple[Any, Any]:
    """Both as floats, constants of NumPy in the framework of the other."""
    a, b = promoted(a), promoted(b)
    return moved(a, b), moved(b, a)


def _matrix(name: str, x: Any, like: Any) -> Array:
    if require_float(name, x, FOR_SPARSE).ndim < 2:
        advice = "Reshape it, or use ldiv.matmul."
        raise value_error(name, "a matrix (*batch, m, n)", f"shape {tuple(x.shape)}", advice)
    together(name, x, like)
    return x


def _as_matrix(name: str, x: Any, like: Any, index: Any) -> tuple[Array, bool]:
    """x as a matrix, and whether it came as a vector, which `index` makes a row or a column."""
    if require_float(name, x, FOR_SPARSE).ndim == 0:
        raise value_error(name, "a vector or a matrix", "a number", "Multiply by it.")
    together(name, x, like)
    vector = x.ndim == 1
    return x[index] if vector else x, vector


def _shape(a: Array, op_a: str, b: Array, op_b: str) -> tuple[int, ...]:
    """The shape of op(A) op(B)."""
    (m, k), (l, n) = (
        tuple(x.shape[-2:])[:: -1 if VIEWS[op][0] else 1] for x, op in ((a, op_a), (b, op_b))
    )
    if k != l:
        what, advice = "op(a) (..., m, k) and op(b) (..., k, n)", "Check trans_a and trans_b."
        raise value_error("a and b", what, f"({m}, {k}) and ({l}, {n})", advice)
    require_batches("b", batch_of(a, 2), batch_of(b, 2))
    return (*broadcast(batch_of(a, 2), batch_of(b, 2)), m, n)


def _is_variable(s: Any) -> bool:
    """An array, not a number; NumPy's numbers are numbers."""
    return not isinstance(s, int | float | complex | np.generic) and is_array(s)


def _scalar(name: str, s: Any, like: Any) -> Array:
    """A number as an array of the precision of `like`; an array of shape () itself."""
    if _is_variable(s):
        s = moved(s, like)
        together(name, require_float(name, s), like)
        if s.ndim == 0:
            return s
        what = "a number or an array of shape ()"
        raise value_error(name, what, f"shape {tuple(s.shape)}", "It scales the whole matrix.")
    if isinstance(s, bool) or not isinstance(s, int | float | complex | np.number):
        raise type_error(
            name, "a number or an array of shape ()", shown(s), "It scales the whole matrix."
        )
    s = require_scalar(name, s, like)
    if not np.iscomplexobj(s) or is_complex(like):
        return namespace(like).asarray(s, **alike(like))
    return namespace(like).asarray(
        s, **alike(like, np.result_type(numpy_dtype(like), np.complex64))
    )


# -- into the caller's memory -------------------------------------------------


def _require_no_overlap(name: str, to: Any, **inputs: Any) -> None:
    """A buffer that can be written, of which no input uses any memory."""
    if not is_buffer(to):
        advice = f"Leave {name} out and use the value returned."
        raise type_error(name, "an array that can be overwritten", f"a {type(to).__name__}", advice)
    if isinstance(to, np.ndarray) and not to.flags.writeable:
        raise value_error(name, "an array that can be written", "a read-only one", "Pass a copy.")
    require_own_entries(name, to)
    for other, x in inputs.items():
        together(name, to, x)
        if overlap(to, x):
            what = f"memory apart from that of {other}"
            raise value_error(
                name, what, "arrays that overlap", f"Copy {other}: it would be overwritten."
            )


def _fresh(c: Any) -> Any:
    """A differentiable copy."""
    return namespace(c).astype(c, c.dtype, copy=True)


def _into(name: str, to: Any, y: Array) -> Any:
    """The buffer, y written to it."""
    if to.dtype != y.dtype:
        raise type_error(
            name, f"{y.dtype}, the dtype of the product", to.dtype, "Convert it beforehand."
        )
    try:
        to[...] = y
    except RuntimeError as error:
        raise value_error(
            name, "a tensor that PyTorch lets us overwrite", error, "Pass a copy."
        ) from error
    return to
