"""A Matrix is parameters on a structure, with the operators that a user expects of a matrix."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeAlias, TypeVar, overload

import numpy as np

from ldiv.core.arrays.inputs import moved, promoted
from ldiv.core.arrays.pytree import ArrayHolder, register_pytree
from ldiv.core.arrays.shapes import (
    alike,
    astype,
    batch_of,
    common_batch,
    is_complex,
    numpy_dtype,
    result_dtype,
    transpose,
)
from ldiv.core.arrays.typing import AnyArray, ArrayT, to_caller
from ldiv.core.arrays.validate import (
    as_block,
    as_float,
    require_batches,
    require_float,
    require_int,
    require_ours,
    require_scalar,
    require_two_dimensions,
    together,
    was_validated,
)
from ldiv.core.calls.call import Table, parts_of
from ldiv.core.calls.public import public
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import frontend_of, is_array, namespace
from ldiv.core.frameworks.trees import Tree, leaves, rebuild
from ldiv.core.rules.structure import Structure, matmul
from ldiv.engines.factors.analyses import recent
from ldiv.errors import expected_got, shown, type_error, value_error
from ldiv.matrices.operator_protocol import NUMBERS, OperatorProtocol
from ldiv.structures.dense import dense
from ldiv.structures.product import Product
from ldiv.structures.scaled import Scaled
from ldiv.structures.sum import Sum

MatrixT = TypeVar("MatrixT", bound="Matrix")

# the methods of scipy.sparse behind @, * and /
_DEFERRING = ("_matmul_dispatch", "_multiply_2d_with_broadcasting", "multiply", "_divide")


class Matrix(OperatorProtocol, ArrayHolder):
    """The matrix S(p) for any structure S and its parameters p, a nested tuple of arrays.

    Parameters
    ----------
    structure : one of ldiv.structures
        The map from parameters to a matrix, for example `ldiv.structures.Diagonal(n)`.
    params : array, or nested tuple of arrays
        Nested as `structure.core` is; batch axes come first.

    Raises
    ------
    TypeError
        For a structure that is none, dtypes and mixed frameworks.
    ValueError
        For the number of arrays and their shapes.

    Notes
    -----
    `A @ x` is differentiable in p and x, in every mode. `A.T`, `A.H` and `A.conj()` share the
    parameters. `A + B`, `A - B`, `c * A`, `A / c` and `A @ B` are matrices again, made of A and B,
    whatever their structures; nothing is computed until they are used.
    `matvec`, `rmatvec`, `matmat`, `rmatmat` are what SciPy's solvers ask for: with NumPy values
    `scipy.sparse.linalg.cg(A, b)`, eigsh and others take A.
    A matrix is a view of the arrays that it was made of: writing to them changes the matrix, and
    all matrices that share them.
    Pickling and copying keep the parameters and drop cached factorizations; a deep copy stands
    outside the autograd graph of the original.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> D = ldiv.Matrix(ldiv.structures.Diagonal(3), np.array([1.0, 2.0, 4.0]))
    >>> D @ np.ones(3)
    array([1., 2., 4.])
    >>> ldiv.solve(D, np.ones(3))
    array([1.  , 0.5 , 0.25])
    """

    __array_ufunc__ = None  # the operators of NumPy arrays defer to these
    __hash__ = object.__hash__
    _dense = "A.toarray()"  # how users write one out

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """Refuse: NumPy would make an object array, or a dense one behind the user's back.

        The operators of SciPy's sparse matrices call this method, too, and defer to our operators if
        they get an object array. They call it just as `np.asarray` does, so that only the name of
        the calling function tells the two apart.
        """
        if sys._getframe(1).f_code.co_name in _DEFERRING:
            itself = np.empty((), object)
            itself[()] = self
            return itself
        raise TypeError(self._refused_by_numpy())

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """NumPy's functions as far as they ask methods; comparisons take a refusal for a no."""
        if function in (np.array_equal, np.array_equiv):
            raise TypeError(self._refused_by_numpy())
        return function._implementation(*args, **kwargs)

    def _refused_by_numpy(self) -> str:
        kind = type(self).__name__
        advice = f"Instead of NumPy's use ldiv's and the operators, or {self._dense}."
        return expected_got("a function of NumPy", "an array", f"a {kind}", advice)

    def __eq__(self, other: object) -> bool:
        """Refuse to compare with matrices, arrays and numbers, where one bool would say nothing."""
        if not (
            isinstance(other, (Matrix, *NUMBERS)) or is_array(other) or hasattr(other, "tocsc")
        ):
            return NotImplemented
        raise self._incomparable(
            "==", other, "Compare their values (A.data, A.params) or dense arrays, or use `is`."
        )

    def __lt__(self, other: object) -> bool:
        raise self._incomparable(
            "<", other, "Compare their values (A.data, A.params) or dense arrays."
        )

    __le__ = __gt__ = __ge__ = __lt__

    def _incomparable(self, sign: str, other: object, advice: str) -> TypeError:
        what = f"{type(self).__name__} and {type(other).__name__}"
        return type_error(f"A {sign} B", "arrays", what, advice)

    def __init_subclass__(cls) -> None:
        register_pytree(cls, flatten, partial(unflatten, cls), vars(cls).get("_packing"))

    def __init__(self, structure: Structure, params: Tree) -> None:
        if not isinstance(structure, Structure):
            raise type_error(
                "structure", "one of ldiv.structures", shown(structure), "Such as Diagonal(n)."
            )
        try:
            cores, flat = leaves(structure.core), leaves(params)
        except Exception as error:  # its parts are no structures
            raise type_error(
                "structure", "one made of structures", shown(structure), "Look at its parts."
            ) from error
        if len(cores) != len(flat):
            what = f"{len(cores)} arrays for this structure"
            raise value_error("params", what, len(flat), "Nest them as structure.core is nested.")
        for leaf in flat:
            require_float("params", leaf)
        frontend_of(*flat)
        for leaf, core in zip(flat, cores, strict=True):
            if leaf.ndim < core:
                raise value_error(
                    "params", f"at least {core} axes", tuple(leaf.shape), "Batch axes come first."
                )
        for leaf, own in zip(flat, structure.sizes or (), strict=False):
            if tuple(leaf.shape[leaf.ndim - len(own) :]) != own:
                raise value_error(
                    "params",
                    f"shape (..., {', '.join(map(str, own))})",
                    tuple(leaf.shape),
                    "Batch axes come first.",
                )
        self.structure = structure
        self.params = params

    @property
    def batch(self) -> tuple[int, ...]:
        """The batch axes of the parameters, broadcast."""
        return common_batch(self.structure.core, self.params)

    @property
    def shape(self) -> tuple[int, ...]:
        """The batch axes, then rows and columns."""
        return (*self.batch, *self.structure.shape)

    @property
    def ndim(self) -> int:
        """The number of axes, batch axes included."""
        return len(self.shape)

    @property
    def dtype(self) -> Any:
        """The dtype of the parameters, in their framework."""
        return leaves(self.params)[0].dtype

    def _view(self, op: str) -> Matrix:
        return Matrix(self.structure.view(op), self.params)

    @property
    def T(self) -> Matrix:
        """The transpose, on the same parameters."""
        return self._view("T")

    @property
    def H(self) -> Matrix:
        """The conjugate transpose, on the same parameters."""
        return self._view("H")

    def conj(self) -> Matrix:
        """The complex conjugate, on the same parameters."""
        return self._view("C")

    # -- matrices made of others -------------------------------------------------------------------

    @public
    def __add__(self, other: MatrixLike | complex) -> Matrix:
        if isinstance(other, NUMBERS) and other == 0:  # the start of Python's sum
            return self
        return self._sum(other)

    __radd__ = __add__

    @public
    def __sub__(self, other: MatrixLike | complex) -> Matrix:
        return self._sum(-other)  # type: ignore[operator]  # all arrays have a minus

    @public
    def __rsub__(self, other: MatrixLike | complex) -> Matrix:
        return (-self)._sum(other)

    def _sum(self, other: Any) -> Matrix:
        other = operand("A + B", other)
        if self.structure.shape != other.structure.shape:
            raise value_error(
                "A + B",
                f"a B of {self.structure.shape}",
                other.structure.shape,
                "Matrices do not broadcast, batches do.",
            )
        if self.structure.space is not other.structure.space:
            what, came = "matrices over the same processes", f"{self!r} and {other!r}"
            advice = "Make both by ldiv.distributed.coo_array."
            raise type_error("A + B", what, came, advice)
        return composed("A + B", Sum((self.structure, other.structure)), self, other)

    def __neg__(self) -> Matrix:
        return self._scaled(-1.0)

    @public
    def __mul__(self, c: AnyArray | complex) -> Matrix:
        return self._scaled(c)

    __rmul__ = __mul__

    @public
    def __truediv__(self, c: AnyArray | complex) -> Matrix:
        if not isinstance(c, NUMBERS):
            matrix = beside(self, c)
            return matrix._scaled(1 / scalar("A / c", c, leaves(matrix.params)[0]))
        like = leaves(self.params)[0]
        if c == 0:
            raise value_error(
                "A / c", "a number other than 0", shown(c), "No matrix is divided by it."
            )
        with np.errstate(all="ignore"):  # the reciprocal of a tiny number is refused
            return self._scaled(scalar("A / c", 1 / require_scalar("A / c", c, like), like))

    def _scaled(self, c: Any) -> Matrix:
        matrix = beside(self, c)
        alpha = scalar("c * A", c, leaves(matrix.params)[0])
        structure = Scaled((self.structure,), "own" if is_complex(alpha) else "real")
        return Matrix(recent(structure), common_dtype(matrix.params, alpha))

    @overload
    def __matmul__(self, x: Matrix) -> Matrix: ...
    @overload
    def __matmul__(self, x: ArrayT) -> ArrayT: ...
    @public
    def __matmul__(self, x: Any) -> Any:
        if isinstance(x, Matrix):
            return self._product(x)
        if (other := converted("A @ x", x)) is not None:
            return self @ other
        require_ours("A @ x", x)
        if not is_array(x) and not is_array(x := promoted(x)):
            return NotImplemented
        matrix = beside(self, x)
        return multiply(matrix.structure, matrix.params, x)

    def _product(self, other: Matrix) -> Matrix:
        if self.structure.shape[1] != other.structure.shape[0]:
            what, advice = f"a B with {self.structure.shape[1]} rows", "The inner sizes must agree."
            raise value_error("A @ B", what, other.structure.shape[0], advice)
        return composed("A @ B", Product((self.structure, other.structure)), self, other)

    @public
    def __rmatmul__(self, x: ArrayT) -> ArrayT:
        if (other := converted("x @ A", x)) is not None:
            return beside(other, self) @ self  # type: ignore[return-value]  # a Matrix
        require_ours("x @ A", x)
        if not is_array(x):
            return NotImplemented
        matrix = beside(self, x)
        y = multiply(matrix.structure.T, matrix.params, x if x.ndim == 1 else transpose(x))
        return to_caller(y if x.ndim == 1 else transpose(y))

    # -- its entries ---------------------------------------------------------------------------------

    @public
    def tosparse(self, format: str | None = None) -> Any:
        """The entries as a SparseArray, in "coo" or the format; differentiable.

        Of a dense part all entries are kept. A matrix whose parts do not store their entries, such
        as a LinearOperator, raises a TypeError.
        """
        return _writers["tosparse"](self).asformat(format)

    @public
    def toarray(self) -> Any:
        """The dense array (*batch, m, n), differentiable; without stored entries by n products with unit vectors."""
        return _writers["toarray"](self)

    @public
    def __getitem__(self, key: Any) -> Any:
        """Entries, rows and columns, as of a SparseArray; differentiable.

        A matrix made of sparse parts is written out each time. Sums, multiples and Kronecker products
        read the entries of their parts, which dense, Toeplitz, Hankel and circulant matrices store. Any
        other matrix is multiplied with unit vectors, as many as the key has columns, or rows if these
        are fewer.
        """
        return _writers["select"](self, key)

    @public
    def diagonal(self, k: int = 0) -> Any:
        """The k-th diagonal (*batch, length), differentiable; its entries cost what those of `A[i, j]` do."""
        (m, n), k = self.structure.shape, require_int("k", k)
        i = np.arange(max(-k, 0), min(m, n - k))
        return self[i, i + k]

    @public
    def trace(self, offset: int = 0) -> Any:
        """The sum of the diagonal (*batch,), differentiable."""
        entries = self.diagonal(require_int("offset", offset))
        return namespace(entries).sum(entries, axis=-1)

    def __repr__(self) -> str:
        first, base = next(iter(leaves(self.params)), None), type(self.structure).__name__
        if not is_array(first):  # a leaf of somebody's tree
            return f"<Matrix {self.structure.shape} on {base}>"
        return f"<Matrix {self.shape} {numpy_dtype(first)} on {base}>"


# -- as a pytree: the parameters vary, all else is static ---


def _parts(matrix: Matrix) -> tuple[Table, Tree, None]:
    """The calls of a structure go with it."""
    return matrix.structure.cached("calls", dict), matrix.params, None


parts_of[Matrix] = _parts


def flatten(matrix: Matrix) -> tuple[tuple[Tree], Any]:
    return (matrix.params,), tuple(
        (name, value) for name, value in vars(matrix).items() if name not in ("params", "_lease")
    )


def unflatten(cls: type[MatrixT], static: Any, children: tuple[Tree]) -> MatrixT:
    matrix = cls.__new__(cls)
    vars(matrix).update(static, params=children[0])
    return matrix


def replaced(matrix: MatrixT, params: Tree) -> MatrixT:
    """The same matrix on these parameters."""
    return unflatten(type(matrix), flatten(matrix)[1], (params,))


register_pytree(Matrix, flatten, partial(unflatten, Matrix))
MatrixLike: TypeAlias = Matrix | AnyArray  # what public functions take for a matrix


def multiply(structure: Structure, params: Tree, x: Any) -> Array:
    """S(p) x for x (n,) or (*batch, n, k), checked."""
    block, vector = as_block("x", x, structure.shape[1], leaves(params)[0])
    require_batches("x", common_batch(structure.core, params), batch_of(block, 2))
    y = matmul(structure, params, block)
    return y[..., 0] if vector else y


def as_matrix(name: str, a: Any, *others: Any) -> Matrix:
    """A Matrix as it is, an array (*batch, m, n) as a dense one, a matrix of another library as
    what it is there; constants of NumPy in the framework of the others.
    """
    if (matrix := a if isinstance(a, Matrix) else converted(name, a)) is None:
        a = as_float(name, a, *_arrays_of(others))
        require_two_dimensions(name, a)
        return Matrix(dense(*a.shape[-2:]), a)
    return beside(matrix, *others)


def converted(name: str, a: Any) -> Matrix | None:
    """A matrix of another library as one of ours; None for anything else."""
    if was_validated(a):
        return None
    found = (convert(name, a) for convert in _converters)
    return next((matrix for matrix in found if matrix is not None), None)


_converters: list[Callable[[str, Any], Matrix | None]] = []


def accept(convert: Callable[[str, Any], Matrix | None]) -> None:
    """Register a converter: convert(name, a) is a Matrix for matrices of one library, else None."""
    _converters.append(convert)


_writers: dict[str, Callable[..., Any]] = {}


def writes_out(**writers: Callable[..., Any]) -> None:
    """Register functions of matrices that make sparse arrays: `tosparse`, `toarray`, `select`."""
    _writers.update(writers)


def beside(matrix: MatrixT, *others: Any) -> MatrixT:
    """A matrix of constants of NumPy in the framework of the others, which may be matrices."""
    own = leaves(matrix.params)
    for like in _arrays_of(others):
        if own and type(like) is not type(own[0]) and is_array(like):
            there = [moved(x, like) for x in own]
            if any(x is not y for x, y in zip(own, there, strict=True)):
                own = there
                params = rebuild(matrix.structure.core, own)
                matrix = replaced(matrix, params)
    return matrix


def _arrays_of(others: tuple[Any, ...]) -> Iterator[Any]:
    for other in others:
        yield from leaves(other.params) if isinstance(other, Matrix) else (other,)


# -- matrices made of others --------------------------------------------------


def composed(name: str, structure: Structure, *matrices: Matrix) -> Matrix:
    """The matrix made of these matrices; its parameters are the tuple of theirs."""
    matrices = tuple(beside(matrix, *matrices) for matrix in matrices)
    first = leaves(matrices[0].params)[0]
    for matrix in matrices:
        for leaf in leaves(matrix.params):
            together(name, leaf, first)
        require_batches(name, matrices[0].batch, matrix.batch)
    return Matrix(recent(structure), common_dtype(*(matrix.params for matrix in matrices)))


def common_dtype(*params: Tree) -> Tree:
    """All parameters in the widest of their dtypes; those that have it are returned as they are."""
    wide = result_dtype(params)
    return rebuild(params, [astype(x, wide) for x in leaves(params)])


def operand(name: str, other: Any) -> Matrix:
    """A matrix as it is; an array with at least two axes as a dense matrix."""
    if isinstance(other, NUMBERS) or (is_array(other) and other.ndim < 2):
        advice = "Add a multiple of eye_array, or matrices of one shape."
        raise value_error(name, "a matrix", type(other).__name__, advice)
    return as_matrix(name, other)


def scalar(name: str, c: Any, like: Array) -> Array:
    """A number as an array of shape () in the precision of `like`; such an array as it is."""
    if isinstance(c, NUMBERS):
        c = require_scalar(name, c, like)
        kind = np.result_type(
            np.finfo(numpy_dtype(like)).dtype, np.complex64 if np.iscomplexobj(c) else np.float32
        )
        return namespace(like).asarray(c, **alike(like, kind))
    c = moved(require_float(name, c), like)
    together(name, c, like)
    if c.ndim:
        advice = "Batches of numbers are the last parameter of structures.Scaled."
        if c.ndim > 1:
            advice = f"Entry by entry: {name.replace('A', 'A.toarray()')}. A product: c @ A."
        raise value_error(name, "a number", f"shape {tuple(c.shape)}", advice)
    return c
