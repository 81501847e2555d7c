"""A minimum of a cost: a root of its gradient where the Hessian is positive definite, found by damped
steps and then by Newton's method. See `rules/root.py` for the derivatives.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple

from ldiv.core.arrays.validate import moved_together
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import frontend_of, is_array, namespace
from ldiv.core.frameworks.trees import Tree, leaves
from ldiv.derivatives.curvature import Function
from ldiv.derivatives.damped_steps import Search
from ldiv.derivatives.function_arguments import require_real_values
from ldiv.derivatives.robust_losses import Scaled
from ldiv.errors import LinAlgError, shown, value_error
from ldiv.matrices.linear_operator import WithParams, outline
from ldiv.rules.root import Root, System


@dataclass(frozen=True)
class ParamsFirst:
    """f(x, params), or f(x), called with its parameters first."""

    f: Callable[..., Any]  # the user's
    has_params: bool

    def __call__(self, params: Any, x: Array) -> Array:
        return self.f(x, params) if self.has_params else self.f(x)


@dataclass(frozen=True)
class Checked:
    """f(p, x), whose values are checked: they have `ndim` axes, or the shape of x for None."""

    f: WithParams
    has_params: bool
    name: str
    ndim: int | None
    wanted: str
    advice: str

    def __call__(self, p: Tree, x: Array) -> Array:
        y = self.f(p, x)
        fits = is_array(y) and (y.shape == x.shape if self.ndim is None else y.ndim == self.ndim)
        if not fits:
            raise value_error(self.name, self.wanted, shown(y), self.advice)
        return require_real_values(y, x)


def checked(
    f: Callable[..., Any],
    x: Array,
    params: Any,
    name: str,
    ndim: int | None,
    wanted: str,
    advice: str,
) -> tuple[Checked, tuple[Array, ...]]:
    """The user's function of (x, params), or of x alone, and the arrays in params."""
    found: list[Array] = []
    made = WithParams(ParamsFirst(f, params is not None), outline(params, found))
    found = moved_together("params", found, x)
    return Checked(made, params is not None, name, ndim, wanted, advice), tuple(found)


@dataclass(frozen=True)
class Gradient:
    """g(p, x), the gradient of a cost, by a reverse product: J^T rho' r of residuals, df/dx of the cost f."""

    function: Checked
    loss: Scaled | None = None  # of the residuals
    whole: list[bool] = field(default_factory=list, compare=False)  # the check of its derivative

    def __call__(self, p: Tree, x: Array) -> Array:
        return self.with_value(p, x)[0]

    def with_value(self, p: Tree, x: Array) -> tuple[Array, Array]:
        """The gradient, and the residuals or the cost."""
        frontend = frontend_of(x, *leaves(p))
        if frontend is not frontend_of(x):  # autograd records p, and not x
            x = frontend.namespace(x).asarray(x)
        r, pull = frontend.user.vjp(partial(self.function, p), (x,), self.whole)
        r_bar = namespace(r).ones_like(r) if self.loss is None else self.loss.weighted(r)
        return pull(r_bar)[0], r


class Problem(NamedTuple):
    """f(x), or the residuals; the function whose products are looked at; the derivative that the search
    asks for; the equations g(x) = 0. After an error, `check` is made, which was put off to the end.
    """

    function: Function
    looked: Function
    derivative: Callable[[Array], Any]
    system: System
    check: Callable[[], None] = lambda: None


@dataclass(frozen=True, kw_only=True)
class Minimum(Root):
    """Arguments and output of `Root`, of f the gradient of a cost: x is a minimum.

    `function`: (p, x) -> the residuals, or the cost itself.
    """

    f: Gradient
    function: Checked
    search: Search

    is_near: ClassVar[bool] = True

    @abstractmethod
    def problem(self, p: tuple[Array, ...], x: Array) -> Problem:
        """Return the problem of the search, and Newton's method on the gradient, for these p."""

    def one(self, p: tuple[Array, ...], x: Array) -> tuple[Array, ...]:
        whole: list[bool] = []
        asked = replace(self, f=replace(self.f, whole=whole)).problem(p, x)
        try:
            with frontend_of(x).user.looking_once(asked.looked, True):
                near = self.search(asked.function, asked.derivative, x)
            # the steps only lead to a start for Newton's method, where derivatives are looked at again:
            # a check at x0, where terms may vanish, does not count for what is differentiated at x
            whole.clear()
            found = self.iterated(near, asked.system)
            self.f.whole[:] = whole
            self.look(asked.function, near, found[0])
        except (LinAlgError, ValueError):
            asked.check()
            raise
        return found

    def look(self, f: Function, near: Array, x: Array) -> None:
        """Raise if x is not a minimum near `near`, where the steps ended."""
