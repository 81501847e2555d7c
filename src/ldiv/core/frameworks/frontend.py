"""The contract of a front end: one file, or one package, in `frontends/`, named after its framework,
and loaded once that framework has been imported.

A front end must define all of `FrontEndFile`. It may define the rest of `FrontEnd`, for which
`ldiv.core.frameworks.defaults` has defaults. Both are types of modules. `dense` and `user` are
modules with contracts of their own; a front end that defines neither is both of them itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dense_kernels import DenseKernels
from ldiv.core.frameworks.pattern import Pattern
from ldiv.core.frameworks.trees import HostArray
from ldiv.core.frameworks.user_functions import UserFunctions

X = TypeVar("X")  # arrays of one type
Specs: TypeAlias = tuple[tuple[tuple[int, ...], Any], ...]  # the shape and dtype of each result


class FrontEndFile(Protocol):
    """The names that each front end must define."""

    def owns(self, x: Any, /) -> bool:
        """Whether x is an array of this framework."""

    def bind(self, rule: Any, leaves: Any, /) -> tuple[Array, ...]:
        """Run the kernel, and register the rule's derivatives with the framework."""

    def asnumpy(self, x: Any, /) -> HostArray:
        """The values of x as a NumPy array, detached from the graph."""

    def host(self, x: Any, /) -> bool:
        """Whether the values can be read now, as a NumPy array, without a copy."""

    def on_host(self, f: Any, specs: Specs, /, *xs: Any) -> tuple[Array, ...]:
        """Run f on NumPy arrays."""


class FrontEnd(FrontEndFile, Protocol):
    """All names of a front end, some of them by default."""

    __name__: str
    dense: DenseKernels
    user: UserFunctions

    # -- a framework that traces functions ------------------------------------

    def traced(self, x: Any, /) -> bool:
        """Whether x is a tracer, whose values are known only when the program runs."""

    def check_or_raise(self, ok: Any, error: Any, /, *xs: Any) -> None:
        """Raise error(*xs), of numbers on the host, unless ok, when the traced program runs."""

    def either(self, ok: Any, f: Any, g: Any, /) -> tuple[Array, ...]:
        """Compute f() if ok, else g(), which return tuples of arrays. Only one is computed, and g()
        is valid in any case.
        """

    def device(self, x: Any, /) -> Any:
        """The device that engines see for x."""

    def in_one_wait(self, x: Array, f: Callable[[], X], /) -> X:
        """Call f() with one wait for the device of x, if x is not on the host."""

    def as_one_node(self, f: Callable[..., X], /, *xs: Array) -> X:
        """Call f(*xs), which applies several rules and returns an array or a tuple of arrays, as
        one node of the graph: with one wait for a device, and one in the gradient.
        """

    def loop(self, going: Any, body: Any, state: Any, most: int | None = None, /) -> Any:
        """Repeat state = body(state) while going(state), for a tuple of arrays.

        `most`: the number of steps if the values that decide cannot be read.
        """

    def stacked(self, xs: list[Array], /) -> Array:
        """The arrays of a list along a new first axis."""

    def each(self, f: Callable[..., tuple[Array, ...]], xs: Sequence[Array], /) -> Any:
        """Apply f, which returns a tuple of arrays, to the members of xs along their first axis,
        and stack the results; a loop in a trace.
        """

    def host_callback(self, f: Callable[..., Any], /, *xs: Any) -> Any:
        """Call f with the values of xs once they are known."""

    def constant(self, x: Array, /) -> Array:
        """x, detached from the graph."""

    def namespace(self, x: Array, /) -> Any:
        """The functions of the array API standard, for x."""

    def promoted(self, x: Array, /) -> Array:
        """x in the dtype in which the framework would compute with it."""

    def own(self, x: Array, /) -> Array:
        """x, or a copy where somebody outside of the framework can write to its memory."""

    def copied(self, x: Array, memo: Any, /) -> Array:
        """A deep copy of x, also if x is the result of a differentiable operation."""

    def signature(self, x: Any, /) -> Any:
        """A key, besides the shape of x, by which calls may be planned; None if x must be inspected
        each time.
        """

    def standard_normal(self, key: Any, shape: tuple[int, ...], like: Array, /) -> Array:
        """Independent normal numbers from a generator or key of the framework."""

    def host_values(self, x: Array, /) -> HostArray | None:
        """The values of x as a NumPy array, if `host` and not `traced`, or None."""

    def numbers(self, x: Array, /) -> HostArray | None:
        """Return `host_values`; for an array of a transformation the values of all its members,
        whose axes come first. For checks, not for results.
        """

    def every_member(self, ok: Any, /) -> Any:
        """Return ok; if a transformation maps over a batch, whether ok holds for all its members."""

    def places(self, pattern: Pattern, x: Array, /) -> tuple[Any, Any]:
        """Rows and columns of the entries of a pattern, as they index x."""

    def compressed_rows(self, columns: Pattern, values: Array, /) -> Callable[[Any], Any] | None:
        """Return x -> S x for the values of the entries of S^T, whose pattern is `columns`, if that
        is faster than products by entries.
        """

    def repeating(self, step: Callable[[Any], Any], is_fixed: bool, /) -> Callable[[Any, int], Any]:
        """Return (state, times) -> the state, a tuple of arrays, after `times` steps.

        `is_fixed`: each step does the same operations, and calls no function of the user.
        """

    def export_checks(self) -> list[Any]:
        """The `disabled_checks` that the export of a program with compiled calls needs."""

    # -- a framework with arrays of several kinds -----------------------------

    def refusal(self, x: Any, /) -> tuple[str, str, str] | None:
        """Return (expected, got, advice) for an error, if x has no values in memory, or is not
        rectangular.
        """

    def stored_only(self, x: Any, /) -> bool:
        """Whether x has a dtype that the framework stores and does not compute with."""

    def graphless(self) -> bool:
        """True if no array that is made now can take part in a derivative."""

    def differentiates(self, *xs: Array) -> bool:
        """True if functions of xs that are computed now may be differentiated only by what is
        computed now.
        """

    def conj(self, x: X, /) -> X:
        """The conjugate of complex x, computed now."""

    def clone(self, x: Array, /) -> Array:
        """x in memory of its own, in the same graph."""

    to: Callable[..., Array] | None  # the framework's own, for devices and dtypes
    put: Callable[..., Array] | None  # x with x[index] = value, of arrays that keep their values

    def sparse(self, x: Any, /) -> bool:
        """Whether x is a sparse matrix of the framework, among its arrays or not."""

    def sparse_parts(self, name: str, x: Any, /) -> Parts:
        """The parts of such a matrix; errors call it `name`."""

    # -- a framework whose arrays can be overwritten --------------------------

    memory: Callable[..., Any] | None  # where x is, as `core.arrays.buffers.Memory`

    def version(self, x: Any, /) -> int | None:
        """A number that every write to x changes; None if writes are not counted."""

    def unwritable(self, x: Any, /) -> tuple[str, str, str] | None:
        """Return the same as `refusal`, if x is in a graph, or if writes to x cannot be counted."""

    def dependence(self, f: Callable[..., Any], x: Array, /) -> Any:
        """The pattern of df/dx as a sparse boolean matrix (f and x are vectors), None if it is
        unknown.
        """


class Parts(NamedTuple):
    """A sparse matrix of another library as it is stored there; nothing of it has been checked.

    Its format under SciPy's name, or under the library's own where SciPy has none; its values,
    and their places: an index for each axis for coo, (indices, indptr) for csr, csc, bsr and bsc.
    Of a compressed batch they have `batch` axes in front.
    """

    format: str
    values: Array
    at: tuple[Any, ...]
    shape: tuple[int, ...]
    batch: int = 0
    # the same with each entry once, where the library adds up duplicates, and does so blindly
    merged: Callable[[], Parts] | None = None
    # the error of whoever needs to know the places, which are an argument of a program
    unknown: TypeError | None = None
