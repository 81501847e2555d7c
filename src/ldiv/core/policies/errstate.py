"""The policy for ill-conditioned matrices: an error, a warning, nothing, or NaN.

Ill-conditioned: nonsingular, but no digit of a solution is certain.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar, Token
from functools import partial, wraps
from typing import Any, Literal, ParamSpec, TypeVar, get_args

from scipy.linalg import LinAlgWarning

from ldiv.core.arrays.validate import require_option
from ldiv.core.frameworks.dispatch import check_or_raise

P = ParamSpec("P")
R = TypeVar("R")
Choice = Literal["raise", "warn", "ignore", "nan"]
CHOICES: tuple[str, ...] = get_args(Choice)
_singular: ContextVar[str] = ContextVar("singular", default="raise")


class errstate:
    """Choose what an ill-conditioned matrix does, for the calls inside a with block; or NaN for errors.

    Modelled on `numpy.errstate`; also a decorator.

    Parameters
    ----------
    singular : {"raise", "warn", "ignore", "nan"}
        "raise" is the default everywhere. With "warn" a matrix that is singular to working
        precision, but whose factors exist, gives what they give, with a
        `scipy.linalg.LinAlgWarning`, as in SciPy; with "ignore" the same without a warning.
        With "nan" whatever would raise for its numbers is NaN, in exactly that member of a batch.

    Notes
    -----
    Derivatives come from the same factors. A matrix that has no factors (a pivot that is exactly
    zero) raises SingularMatrixError all the same, as does an infinite solution.
    The choice is the one at the time of the call: the derivatives of the call keep it, wherever
    they are taken, and so do functions traced by `jax.jit` and the result of `factorized`. Each
    thread, and each asynchronous task, has its own.
    The options "warn" and "ignore" concern `solve` (by engines that factor), `factorized`,
    `logdet`, `slogdet`, `det`, `quad_form`, `lstsq`, `root`, `least_squares`, and what is made of
    them. The option "nan" concerns every function. It covers a singular or indefinite matrix, NaN
    and infinity that come in, an overflow, a broken promise, an iteration that does not converge,
    and a derivative that does not exist. All outputs of such a member are NaN, and those that are
    integers, exchanges of rows say, 0; the rank of `lstsq` is the full one. Its derivatives are
    NaN; so is the gradient of an argument that several members share. A shape, a dtype or an option
    that is wrong raises, as does what the numbers decide the shape of (`orth`, `null_space`).
    In compiled programs of JAX "nan" is pure XLA: no callback, so that they can be exported and run
    where there is no Python. Such programs refuse work on the host (sparse engines, `ldl`, banded
    matrices, Schur forms). In PyTorch functions that are built on triangles, Cholesky, LU, QR, eigh
    and SVD do not wait for an accelerator, for one matrix or a batch, in value and derivatives; they
    do not warn there. Iterations wait in order to end, and so do batches of spectral_sum and
    spectral_function. Under "raise" a failed check leads to scaling, refinement or the next engine.
    Programs and accelerators have one way: LU or Cholesky of scaled matrices, refined; a member that
    this does not solve is NaN.

    Examples
    --------
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
    >>> with ldiv.errstate(singular="nan"):
    ...     ldiv.solve(np.stack([np.eye(2), np.ones((2, 2))]), np.ones(2))
    array([[ 1.,  1.],
           [nan, nan]])
    """

    __slots__ = ("_choice", "_tokens")

    def __init__(self, *, singular: Choice) -> None:
        self._choice = require_option("singular", singular, CHOICES)
        self._tokens: list[Token[str]] = []

    def __enter__(self) -> None:
        self._tokens.append(_singular.set(self._choice))

    def __exit__(self, *error: object) -> None:
        _singular.reset(self._tokens.pop())

    def __call__(self, f: Callable[P, R]) -> Callable[P, R]:
        """Decorate f: every call of f runs inside of the context."""

        @wraps(f)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            with self:
                return f(*args, **kwargs)

        return call


# The state of this thread or task; a bound method, since every call asks for it.
singular_state: Callable[[], str] = _singular.get


def under(state: str) -> AbstractContextManager[None]:
    """Return a context with this state; it costs nothing if the state is in force already."""
    if _singular.get() == state:
        return _nothing_changes
    return errstate(singular=state)  # type: ignore[arg-type]  # validated when it was set


_nothing_changes: AbstractContextManager[None] = nullcontext()


def keeping_state(f: Callable[..., R]) -> Callable[..., R]:
    """Wrap f, so that it runs under the present state wherever it is called."""
    state = singular_state()

    @wraps(f)
    def call(*args: Any) -> R:
        with under(state):
            return f(*args)

    return call


def raises() -> bool:
    """True if an ill-conditioned matrix is an error; under "nan" NaN then replaces the error."""
    return _singular.get() in ("raise", "nan")


def check_or_warn(ok: Any, error: Callable[..., Exception], *numbers: Any) -> None:
    """Raise error(*numbers) unless ok, warn with its message, or go on, as `errstate` says."""
    state = singular_state()
    if state != "ignore":
        check_or_raise(ok, partial(_warning, error) if state == "warn" else error, *numbers)


def _warning(error: Callable[..., Exception], *numbers: Any) -> LinAlgWarning:
    return LinAlgWarning(str(error(*numbers)))
