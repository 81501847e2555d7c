"""LinearOperator: a matrix that is given by its matvec and the parameters of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy.sparse.linalg

from ldiv.core.arrays.inputs import promoted
from ldiv.core.arrays.pytree import opened
from ldiv.core.arrays.shapes import is_complex
from ldiv.core.arrays.typing import ArrayT, ParamsT
from ldiv.core.arrays.validate import require_array, require_callable, require_option, require_shape
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import is_array
from ldiv.core.frameworks.trees import HostArray, Tree, leaves, rebuild
from ldiv.errors import shown, type_error, value_error
from ldiv.matrices.matrix import Matrix, accept, flatten, unflatten
from ldiv.structures.operator import Operator


class LinearOperator(Matrix):
    """A matrix that is known only by its products with blocks of vectors.

        A X = matvec(params, X),    A^H U = rmatvec(params, U)

    Parameters
    ----------
    matvec : callable (params, X) -> A X
        Takes `params` and a block X (n, k) and returns (m, k). It must be linear in X, and written
        in the framework of its parameters.
    params : array or matrix, nested tuples, lists and dicts of these, or a pytree of JAX
        What the matrix depends on. Other leaves are constants.
    shape : tuple (m, n)
        The shape of the matrix.
    rmatvec : callable (params, U) -> A^H U, optional
        The product with A^H. Where it is absent PyTorch and JAX derive it from matvec; it is not
        needed where assume_a gives it.
    assume_a : {"gen", "sym", "her", "pos"}, default "gen"
        "sym" is A = A^T, "her" A = A^H, "pos" A = A^H and positive definite.

    Raises
    ------
    ValueError
        For a matvec that closes over an array that is differentiated; from the gradient of a solve, for
        an rmatvec or an assumption that does not fit matvec.

    Notes
    -----
    Differentiable in every array of params, in every mode and order, through `A @ x` and `solve`;
    with NumPy in b alone.
    What matvec gets from elsewhere (a closure) must be constant: `solve` and other functions do not
    differentiate it. A PyTorch tensor that requires grad, or comes from torch.func or forward mode,
    and a traced array of JAX are found there and raise ValueError. Pass them in `params`.
    `rmatvec` and `assume_a` are believed, but where they give the gradient of a solve. There one
    product with a random vector verifies <A^H u, v> = <u, A v>, to the accuracy of the iteration.

    Cost: a solve is an iteration (`cg`, `minres`, `gmres`, `bicgstab`), one more for each
    derivative; a cotangent is 1 VJP of a product. Keep matvec one function object: compiled code is
    cached for it.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> stretch = lambda d, X: d[:, None] * X
    >>> A = ldiv.LinearOperator(stretch, np.array([1.0, 2.0, 4.0]), shape=(3, 3), assume_a="pos")
    >>> A @ np.ones(3)
    array([1., 2., 4.])
    >>> ldiv.solve(A, np.ones(3)).round(8)
    array([1.  , 0.5 , 0.25])
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> LinearOperator:
        if args and isinstance(args[0], tuple | list):  # SciPy's order
            advice = "Write ldiv.LinearOperator(matvec, params, shape=(m, n)), where matvec takes (params, X)."
            raise type_error("LinearOperator", "matvec first", shown(args[0]), advice)
        return super().__new__(cls)

    def __init__(
        self,
        matvec: Callable[[ParamsT, ArrayT], ArrayT],
        params: ParamsT,
        *,
        shape: tuple[int, int],
        rmatvec: Callable[[ParamsT, ArrayT], ArrayT] | None = None,
        assume_a: Literal["gen", "sym", "her", "pos"] = "gen",
    ) -> None:
        require_option("assume_a", assume_a, ("gen", "sym", "her", "pos"))
        for name, f in (("matvec", matvec), *([] if rmatvec is None else [("rmatvec", rmatvec)])):
            require_callable(
                name,
                f,
                "a function of (params, block)",
                "Parameters come first, then the block (n, k).",
            )
        rows, columns = require_shape("shape", shape)
        if assume_a != "gen" and rows != columns:
            what = "(rows, columns), equal where assume_a says that A is symmetric"
            raise value_error("shape", what, shape, "Say what matvec maps.")
        found: list[Array] = []
        nesting = outline(params, found)
        if not found:
            advice = "Hand over what the matrix depends on, even if it is constant."
            raise value_error("params", "at least one array", shown(params), advice)
        own = None if rmatvec is None else WithParams(rmatvec, nesting)
        if assume_a == "sym" and not any(map(is_complex, found)):
            assume_a = "her"
        axes = tuple(x.ndim for x in found)
        super().__init__(
            Operator(WithParams(matvec, nesting), own, (rows, columns), axes, assume_a),
            tuple(found),
        )


@dataclass(frozen=True)
class Product:
    """The products of SciPy's LinearOperator, as a function of (params, block)."""

    f: Callable[[HostArray], HostArray]
    name: str

    def __call__(self, params: HostArray, x: Array) -> HostArray:
        if not isinstance(x, np.ndarray):
            what, advice = "an operator on its arrays", "Make one with ldiv.LinearOperator."
            raise type_error(self.name, what, "SciPy's, which takes NumPy's", advice)
        return self.f(x).astype(np.result_type(params, x), copy=False)


def of_scipy(name: str, a: Any) -> LinearOperator | None:
    """SciPy's LinearOperator as ours, of NumPy arrays; None for anything else."""
    if not isinstance(a, scipy.sparse.linalg.LinearOperator):
        return None
    # it has no parameters, only a dtype
    constant = np.zeros(0, promoted(np.zeros(0, a.dtype)).dtype)
    forward, backward = Product(a.matmat, name), Product(a.rmatmat, name)
    return LinearOperator(forward, constant, shape=a.shape, rmatvec=backward)


accept(of_scipy)


@dataclass(frozen=True)
class WithParams:
    """The user's function, called with its parameters in the nesting that the user gave them."""

    f: Callable[..., Any]  # results of the user's function are checked where it is called
    outline: Any

    def __call__(self, p: Tree, x: Array) -> Array:
        return self.f(_filled(self.outline, iter(p)), x)


@dataclass(frozen=True)
class _Leaf:
    """Marks the place of an array."""


@dataclass(frozen=True)
class _Matrix:
    """Marks the place of the arrays of a matrix."""

    kind: type[Matrix]
    core: Tree
    static: Any


@dataclass(frozen=True)
class _Constant:
    """A leaf that is no array, kept as it is."""

    value: Any


@dataclass(frozen=True)
class _Branch:
    """A tuple, list or dict, or a pytree of a framework."""

    kind: Any
    keys: tuple[Any, ...] | None
    parts: tuple[Any, ...]


def outline(params: Any, found: list[Array]) -> Any:
    """The nesting of params, hashable; its arrays are appended to `found` from left to right."""
    try:
        return _outlined(params, found)
    except RecursionError:
        raise _not_nested("one that contains itself") from None


def _outlined(params: Any, found: list[Array]) -> Any:
    if is_array(params):
        found.append(require_array("params", params))
        return _Leaf()
    if isinstance(params, Matrix):
        _, static = flatten(params)
        found.extend(leaves(params.params))
        return _Matrix(type(params), params.structure.core, static)
    if isinstance(params, dict):
        return _Branch(dict, tuple(params), tuple(_outlined(x, found) for x in params.values()))
    if isinstance(params, tuple | list):
        return _Branch(type(params), None, tuple(_outlined(x, found) for x in params))
    if (node := opened(params)) is not None:
        return _Branch(node[1], None, tuple(_outlined(x, found) for x in node[0]))
    try:
        hash(params)
    except TypeError:
        raise _not_nested(type(params).__name__) from None
    return _Constant(params)


def _not_nested(came: str) -> TypeError:
    expected = "nested tuples, lists and dicts of arrays, or pytrees of JAX"
    advice = "Unpack it into these."
    return type_error("params", expected, came, advice)


def _filled(outline: Any, arrays: Iterator[Array]) -> Any:
    """The params again, with these arrays in their places."""
    if isinstance(outline, _Leaf):
        return next(arrays)
    if isinstance(outline, _Constant):
        return outline.value
    if isinstance(outline, _Matrix):
        own = rebuild(outline.core, [next(arrays) for _ in leaves(outline.core)])
        return unflatten(outline.kind, outline.static, (own,))
    parts = [_filled(part, arrays) for part in outline.parts]
    if outline.keys is not None:
        return dict(zip(outline.keys, parts, strict=True))
    if not isinstance(outline.kind, type):
        return outline.kind.unflatten(parts)
    return outline.kind(*parts) if hasattr(outline.kind, "_fields") else outline.kind(parts)
