"""The contract of a front end: one file, or one package, in `frontends/`, named after its framework,
and loaded once that framework has been imported.

A front end must define all of `FrontEndFile`. It may define the rest of `FrontEnd`, for which
`ldiv.core.frameworks.defaults` has defaults. Both are types of modules.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.pattern import Pattern
from ldiv.core.frameworks.transforms import Transforms
from ldiv.core.frameworks.trees import HostArray

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

    def scatter(self, x: Any, index: Any, size: int, /) -> Array:
        """y[..., i, :] = sum of x[..., e, :] over all e with index[e] = i."""


class FrontEnd(FrontEndFile, Protocol):
    """All names of a front end, some of them by default."""

    __name__: str

    # -- dense kernels: autograd's are those of NumPy ---------------------------

    def lu_factor(self, a: Array, /) -> tuple[Array, Array]:
        """L and U packed into one array, and row exchanges as `lu_solve` takes them."""

    def lu_solve(self, lu: Array, pivots: Array, b: Array, op: str, /) -> Array:
        """x with op(A) x = b."""

    def sign_of_rows(self, pivots: Array, /) -> Array:
        """The determinant of the row exchanges."""

    def cholesky(self, a: Array, /) -> tuple[Array, Any]:
        """L, and whether all of the batch is positive definite."""

    def solve_triangular(self, a: Array, b: Array, lower: bool, unit: bool = False, /) -> Array:
        """x with A x = b, of which the other triangle is not read."""

    # -- a framework that traces functions ------------------------------------

    def traced(self, x: Any, /) -> bool:
        """Whether x is a tracer, whose values are known only when the program runs."""

    def check_or_raise(self, ok: Any, error: Any, /, *xs: Any) -> None:
        """Raise error(*xs), of numbers on the host, unless ok, when the traced program runs."""

    def either(self, ok: Any, f: Any, g: Any, /) -> tuple[Array, ...]:
        """f() if ok, else g(), tuples of arrays; only one of them is computed, and g() is a valid
        result in any case.
        """

    def device(self, x: Any, /) -> Any:
        """The device that engines see for x."""

    def product(self, a: Array, x: Array, /) -> Array:
        """a @ x in the full precision of the dtype, whatever a device's default."""

    def in_one_wait(self, x: Array, f: Callable[[], X], /) -> X:
        """f(), which waits once for the device that x is on, if it is elsewhere."""

    def jointly(self, f: Callable[..., X], /, *xs: Array) -> X:
        """f(*xs), an array or a tuple of arrays made by several rules, with one wait for a device, and
        one in the gradient.
        """

    def loop(self, going: Any, body: Any, state: Any, most: int | None = None, /) -> Any:
        """Repeat state = body(state) while going(state), for a tuple of arrays.

        `most`: the number of steps if the values that decide cannot be read.
        """

    def stacked(self, xs: list[Array], /) -> Array:
        """The arrays of a list along a new first axis."""

    def each(self, f: Callable[..., tuple[Array, ...]], xs: Sequence[Array], /) -> Any:
        """f(*members), a tuple of arrays, of each member of xs along their first axis, stacked; in a
        trace a loop.
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
        """`host_values`, for an array of a transformation of all its members, with their axes first;
        for checks, not for results.
        """

    def places(self, pattern: Pattern, x: Array, /) -> tuple[Any, Any]:
        """Rows and columns of the entries of a pattern, as they index x."""

    def compressed_rows(self, columns: Pattern, values: Array, /) -> Callable[[Any], Any] | None:
        """x -> S x for the values of the entries of S^T, whose pattern is `columns`, if that is
        better than products by entries.
        """

    def repeating(self, step: Callable[[Any], Any], is_fixed: bool, /) -> Callable[[Any, int], Any]:
        """(state, times) -> the state after so many steps, a tuple of arrays.

        `is_fixed`: a step does the same operations each time, and nothing of a user's.
        """

    def looking_once(self, f: Callable[..., Any], /, *xs: Array) -> AbstractContextManager[None]:
        """A context in which `jvp` checks the tangents of f at one point alone: at xs, or where
        it is first asked.
        """

    def export_checks(self) -> list[Any]:
        """The `disabled_checks` that the export of a program with compiled calls needs."""

    # -- a framework with arrays of several kinds -----------------------------

    def refusal(self, x: Any, /) -> tuple[str, str, str] | None:
        """The expectation, the actual kind and advice, if x has no numbers in memory, or is not
        rectangular.
        """

    def stored_only(self, x: Any, /) -> bool:
        """Whether x has a dtype that the framework stores and does not compute with."""

    def graphless(self) -> bool:
        """Whether no array that is made now can take part in a derivative."""

    def differentiates(self, *xs: Array) -> bool:
        """Whether functions of xs that are computed now may be differentiated."""

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
        """The same as `refusal` has, if x is in a graph, or if writes to it cannot be counted."""

    # -- kernels of its own, where they are better than SciPy's on the host, or than two triangular
    #    solves

    def cholesky_inverse(self, l: Array, /) -> Array:
        """(L L^H)^-1."""

    def qr(self, a: Array, mode: str = "reduced", /) -> tuple[Array, Array]:
        """Q and R, "reduced" or "complete", of each matrix of a batch."""

    def eigh(self, a: Array, /) -> tuple[Array, Array]:
        """The eigenvalues and eigenvectors of each."""

    def svd(self, a: Array, /) -> tuple[Array, Array, Array]:
        """The reduced decomposition of each."""

    def svdvals(self, a: Array, /) -> Array:
        """The singular values of each."""

    lu_pivoted: Callable[..., tuple[Array, Array]] | None  # L and U in one array, SciPy's exchanges

    def row_order(self, exchanges: Array, m: int, /) -> Array | None:
        """The order of m rows after these exchanges; None for the host's way."""

    # -- a framework that differentiates functions of its users ---------------

    OwnTransforms: Callable[[], Transforms] | None  # as its users call them
    records: str | None  # the front end whose arrays such functions take, if they are not its own
    recorded_by: str | None  # the framework whose front end records this one

    def vjp(self, f: Callable[..., Any], xs: tuple[Any, ...], /) -> tuple[Any, Any]:
        """y = f(*xs), an array or a tuple of arrays, and pull(y_bar), the tuple of the cotangents of
        xs.
        """

    def jvp(self, f: Callable[..., Any], xs: tuple[Any, ...], dxs: tuple[Any, ...], /) -> Any:
        """y and its tangent; or raises OnlyReverse (see `core/rules/pushforward.py`, whose jvp is the one to
        be called).
        """

    def vmap(self, f: Callable[..., Any], axes: tuple[int | None, ...], /) -> Callable[..., Any]:
        """f over leading axes, of those arguments that have one."""

    def prefers_rows(self, count: int, /) -> bool:
        """Whether a Jacobian of `count` rows costs less in reverse mode, row by row, in this context."""

    def pulled(self, pull: Any, y_bars: Array, /) -> tuple[Array, ...]:
        """pull of each of y_bars, stacked."""

    def compiled(self, f: Callable[..., Any], /, *xs: Any) -> Any:
        """f(*xs), as one program where the framework would run its operations one by one, and compile
        each.
        """

    def dependence(self, f: Callable[..., Any], x: Array, /) -> Any:
        """The pattern of df/dx as a sparse boolean matrix (f and x are vectors), None if it is
        unknown.
        """

    def call(self, f: Callable[..., Any], p: Any, x: Array, /) -> Any:
        """f(p, x) inside a kernel, where f may write to x and use its result again; if
        `closures_count()`, an error if f closes over an array that requires a gradient.
        """

    def unrecorded(self, x: Any, /) -> Any:
        """The values of a recorded array of the other front end, `records`."""


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
