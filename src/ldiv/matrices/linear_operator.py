"""LinearOperator: a matvec and its parameters, a matrix like any other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from ldiv.core.arrays import is_complex
from ldiv.core.dispatch import is_array
from ldiv.core.trees import Array, Tree, leaves, rebuild
from ldiv.core.validate import require_array, require_callable, require_option, require_shape
from ldiv.errors import got, shown
from ldiv.matrices.matrix import Matrix, flatten, unflatten
from ldiv.structures.operator import Operator


class LinearOperator(Matrix):
    """A matrix that is known only by its products with blocks of vectors.

        A X = matvec(params, X),    A^H U = rmatvec(params, U)

    matvec: takes `params` and a block X (n, k), returns (m, k); it must be linear in X, and written
    in the framework of its parameters. params: an array or matrix, or nested tuples, lists and
    dicts of these; other leaves are constants. shape: (m, n).
    rmatvec: the product with A^H; found by the framework (PyTorch, JAX) where it is absent, and not
    asked for where assume_a says that it is A. assume_a: "gen", "sym" (A = A^T), "her" (A = A^H) or
    "pos" (and positive definite); believed.
    Differentiable in every array of params, in every mode and order, through `A @ x` and `solve`.
    What matvec gets from elsewhere (a closure) must be constant: in `solve` and its like it has no
    derivative. A PyTorch tensor that requires grad is found there, and raises ValueError; under
    torch.func, in forward mode and in JAX nobody finds it, and its gradient is zero, or JAX reports
    a leaked
    tracer: pass it in `params`. With NumPy differentiable in b alone.
    Cost: a solve is an iteration (`cg`, `minres`, `gmres`, `bicgstab`), one more for each
    derivative; a cotangent is one VJP of a product. Keep matvec one function: compiled code is kept
    for it.

    >>> import ldiv, numpy as np
    >>> stretch = lambda d, X: d[:, None] * X
    >>> A = ldiv.LinearOperator(stretch, np.array([1.0, 2.0, 4.0]), shape=(3, 3), assume_a="pos")
    >>> A @ np.ones(3)
    array([1., 2., 4.])
    >>> ldiv.solve(A, np.ones(3)).round(8)
    array([1.  , 0.5 , 0.25])
    """

    def __init__(
        self,
        matvec: Callable[[Any, Array], Array],
        params: Any,
        *,
        shape: tuple[int, int],
        rmatvec: Callable[[Any, Array], Array] | None = None,
        assume_a: str = "gen",
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
            raise ValueError(
                got(
                    "shape",
                    "(rows, columns), equal where assume_a promises symmetry",
                    str(shape),
                    "Say what matvec maps.",
                )
            )
        found: list[Array] = []
        nesting = outline(params, found)
        if not found:
            raise ValueError(
                got(
                    "params",
                    "at least one array",
                    shown(params),
                    "Hand over what the matrix depends on, even if it is constant.",
                )
            )
        own = None if rmatvec is None else WithParams(rmatvec, nesting)
        if assume_a == "sym" and not any(map(is_complex, found)):
            assume_a = "her"
        axes = tuple(x.ndim for x in found)
        super().__init__(
            Operator(WithParams(matvec, nesting), own, (rows, columns), axes, assume_a),
            tuple(found),
        )


@dataclass(frozen=True)
class WithParams:
    """The user's function, given its parameters in the user's own nesting."""

    f: Callable[[Any, Array], Array]
    outline: Any

    def __call__(self, p: Tree, x: Array) -> Array:
        return self.f(_filled(self.outline, iter(p)), x)


@dataclass(frozen=True)
class _Leaf:
    """The place of an array."""


@dataclass(frozen=True)
class _Matrix:
    """The place of the arrays of a matrix."""

    kind: type[Matrix]
    core: Tree
    static: Any


@dataclass(frozen=True)
class _Constant:
    value: Any


@dataclass(frozen=True)
class _Branch:
    kind: Any
    keys: tuple[Any, ...] | None
    parts: tuple[Any, ...]


def outline(params: Any, found: list[Array]) -> Any:
    """The nesting, hashable; arrays are noted down from left to right."""
    if is_array(params):
        found.append(require_array("params", params))
        return _Leaf()
    if isinstance(params, Matrix):
        _, static = flatten(params)
        found.extend(leaves(params.params))
        return _Matrix(type(params), params.structure.core, static)
    if isinstance(params, dict):
        return _Branch(dict, tuple(params), tuple(outline(x, found) for x in params.values()))
    if isinstance(params, tuple | list):
        return _Branch(type(params), None, tuple(outline(x, found) for x in params))
    try:
        hash(params)
    except TypeError:
        raise TypeError(
            got(
                "params",
                "nested tuples, lists and dicts of arrays",
                type(params).__name__,
                "Unpack it into these.",
            )
        ) from None
    return _Constant(params)


def _filled(outline: Any, arrays: Iterator[Array]) -> Any:
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
    return outline.kind(*parts) if hasattr(outline.kind, "_fields") else outline.kind(parts)
