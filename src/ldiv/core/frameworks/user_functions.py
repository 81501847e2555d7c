"""Derivatives, batches and calls of functions that users write in one framework."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.transforms import Transforms
from ldiv.core.frameworks.trees import HostArray


class UserFunctions(Protocol):
    """A framework that differentiates nothing leaves all of them out."""

    OwnTransforms: Callable[[], Transforms] | None  # as its users call them
    records: str | None  # the front end whose arrays such functions take, if they are not its own
    recorded_by: str | None  # the framework whose front end records this one

    def vjp(
        self,
        f: Callable[..., Any],
        xs: tuple[Any, ...],
        whole: list[bool] | None = None,
        has_aux: bool = False,
        /,
    ) -> Any:
        """y = f(*xs), an array or a tuple of arrays, and pull(y_bar), the tuple of the cotangents of
        xs; with `has_aux` f returns (y, aux), an array that is not differentiated, returned third.
        `whole`: a list that the calls for one function share, in which the check stands whether its
        pullback can be differentiated.
        """

    def jvp(self, f: Callable[..., Any], xs: tuple[Any, ...], dxs: tuple[Any, ...], /) -> Any:
        """y and its tangent; or raises OnlyReverse (see `core/rules/pushforward.py`, whose jvp is the one to
        be called).
        """

    def vmap(self, f: Callable[..., Any], axes: tuple[int | None, ...], /) -> Callable[..., Any]:
        """f over leading axes, of those arguments that have one."""

    def members(
        self, f: Callable[..., tuple[Array, ...]], xs: Sequence[Array], most: int, /
    ) -> tuple[Array, ...]:
        """f(*members) of each member of xs along their first axis, stacked; `most` of them together,
        with loops that stop for each member, where the framework can map f over them.
        """

    def prefers_rows(self, count: int, x: Array, /) -> bool:
        """Whether a Jacobian of `count` rows at x costs less in reverse mode in this context."""

    def pulled(self, pull: Any, y_bars: Array, of: Any = None, /) -> tuple[Array, ...]:
        """pull of each of y_bars, stacked; `of`: the function whose pullback it is."""

    def rows(self, f: Callable[..., Any], x: Array, y_bars: Array, /) -> Array:
        """The products of f at x with each of y_bars, as of `vjp`, stacked."""

    def pushed(self, f: Callable[..., Any], x: Array, dxs: Array, /) -> Array:
        """The tangents of f at x along each of dxs, stacked; or raises OnlyReverse."""

    def compiled(self, f: Callable[..., Any], /, *xs: Any) -> Any:
        """f(*xs), as one program where the framework would run its operations one by one, and compile
        each.
        """

    def looking_once(self, f: Callable[..., Any], is_near: bool, /) -> AbstractContextManager[Any]:
        """A context in which products of f are checked where they are first asked for; if that is near
        the points that follow, derivatives inside of f are so, too.
        """

    def few(self, x: Array, /) -> HostArray | None:
        """x as a NumPy array if it is so few numbers that an iteration costs less on those, between
        calls of a user's function.
        """

    def call(self, f: Callable[..., Any], p: Any, x: Array, of: Any = None, /) -> Any:
        """f(p, x) inside a kernel, where f may write to x and use its result again; if
        `closures_count()`, an error if f closes over an array that requires a gradient. `of`: the
        function x -> f(p, x), whose derivatives may be asked for at the same x next.
        """

    def unrecorded(self, x: Any, /) -> Any:
        """The values of a recorded array of the other front end, `records`."""
