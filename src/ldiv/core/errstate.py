"""What follows where a matrix is regular, but so ill-conditioned that no digit of a solution is
certain: an error, a warning, or nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar, Token
from functools import partial, wraps
from typing import Any, ParamSpec, TypeVar

from scipy.linalg import LinAlgWarning

from ldiv.core.dispatch import insist
from ldiv.core.validate import require_option

P = ParamSpec("P")
R = TypeVar("R")
CHOICES = ("raise", "warn", "ignore")
_singular: ContextVar[str] = ContextVar("singular", default="raise")


class errstate:
    """Choose what an ill-conditioned matrix does, for the calls inside.

    singular: "raise" (the default everywhere), "warn" or "ignore". With "warn" a matrix that is
    singular to working precision, but whose factors exist, gives what they give, with a
    `scipy.linalg.LinAlgWarning`, as in SciPy; derivatives come from the same factors. A matrix that
    has none (a pivot that is exactly zero) raises SingularMatrixError all the same, as does an
    infinite solution. It counts when a function is called: its derivatives keep it, wherever they
    are taken, and so does what `jax.jit` traced, what `factorized` holds. Each thread, and each
    asynchronous task, has its own.
    Of `solve` (by engines that factor), `factorized`, `logdet`, `slogdet`, `det`, `quad_form`,
    `lstsq`, `root`, and what is made of them. Modelled on `numpy.errstate`.

    >>> import ldiv, numpy as np, scipy.linalg
    >>> A, b = scipy.linalg.hilbert(13), np.ones(13)
    >>> ldiv.solve(A, b)
    Traceback (most recent call last):
    ...
    ldiv.errors.SingularMatrixError: the matrix is singular to working precision: LAPACK found ...
    >>> with ldiv.errstate(singular="ignore"):
    ...     x = ldiv.solve(A, b)
    >>> bool(np.abs(A @ x - b).max() < 1e-3)
    True
    """

    __slots__ = ("_choice", "_tokens")

    def __init__(self, *, singular: str) -> None:
        self._choice = require_option("singular", singular, CHOICES)
        self._tokens: list[Token[str]] = []

    def __enter__(self) -> None:
        self._tokens.append(_singular.set(self._choice))

    def __exit__(self, *error: object) -> None:
        _singular.reset(self._tokens.pop())

    def __call__(self, f: Callable[P, R]) -> Callable[P, R]:
        """As a decorator: f, whose calls are inside."""

        @wraps(f)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            with self:
                return f(*args, **kwargs)

        return call


def singular_state() -> str:
    """The choice that holds here and now."""
    return _singular.get()


def under(state: str) -> AbstractContextManager[None]:
    """Within, this choice holds; mostly it does already."""
    return _nothing_changes if _singular.get() == state else errstate(singular=state)


_nothing_changes: AbstractContextManager[None] = nullcontext()


def keeping_state(f: Callable[..., R]) -> Callable[..., R]:
    """f, to be called elsewhere and later, with the choice of now."""
    state = singular_state()

    @wraps(f)
    def call(*args: Any) -> R:
        with under(state):
            return f(*args)

    return call


def doubt(ok: Any, error: Callable[..., Exception], *numbers: Any) -> None:
    """Unless ok: raise error(*numbers), warn with its words, or go on."""
    state = singular_state()
    if state != "ignore":
        insist(ok, error if state == "raise" else partial(_warning, error), *numbers)


def _warning(error: Callable[..., Exception], *numbers: Any) -> LinAlgWarning:
    return LinAlgWarning(str(error(*numbers)))
