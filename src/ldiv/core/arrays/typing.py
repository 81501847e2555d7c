"""The types of public arguments and results, for editors and type checkers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypeVar

if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault  # typing's own from Python 3.13 on

    from ldiv.core.frameworks.array_protocol import Array


class AnyArray(Protocol):
    """An array of NumPy, PyTorch, JAX, CuPy or SciPy, which has a length; a `Matrix` has none. Type
    checkers would otherwise take a matrix for an array, and its results for matrices.
    """

    def __len__(self) -> int: ...
    # a tuple of integers; but checkers that read SciPy's source do not find out
    @property
    def shape(self) -> Any: ...
    @property
    def ndim(self) -> int: ...
    @property
    def dtype(self) -> Any: ...


# What a user knows of a matrix, in SciPy's words; "pos" is Hermitian positive definite.
Assumption: TypeAlias = Literal[
    "gen",
    "sym",
    "her",
    "pos",
    "diagonal",
    "tridiagonal",
    "banded",
    "upper triangular",
    "lower triangular",
    "general",
    "symmetric",
    "hermitian",
    "positive definite",
]
# op(A): N or 0 is A itself, T or 1 its transpose, H or C or 2 its conjugate transpose.
Trans: TypeAlias = Literal["N", "T", "H", "C", 0, 1, 2]
IndexLike: TypeAlias = Sequence[int] | AnyArray  # a vector of integers, of any framework
ParamsT = TypeVar("ParamsT")  # an array, nested tuples, lists and dicts of arrays, or a pytree
# Arguments and results of this type are arrays of one framework.
ArrayT = TypeVar("ArrayT", bound=AnyArray)
# Of an argument `Matrix | ResultT`: an array has results of its own framework; those of a Matrix,
# whose type does not say which framework it holds, are Any. mypy infers this in tuples and under
# overloads; a function that returns one array has an overload for a Matrix.
if TYPE_CHECKING:
    ResultT = TypeVarWithDefault("ResultT", bound=AnyArray, default=Any)
else:
    ResultT = TypeVar("ResultT", bound=AnyArray)


def to_caller(x: Array) -> Any:
    """x, as it is returned from a public function: an array of the framework whose arrays were given.
    Inside, all frameworks' arrays are an `Array`; which one's x is, type checkers cannot know.
    """
    return x
