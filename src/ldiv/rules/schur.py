"""A = Z T Z^H: T upper triangular, Z unitary.

tangent      C = Z^H dA Z,   X = X_low - X_low^H,   low(X T - T X) = low(C);
             dZ = Z X,   dT = up(C - X T + T X)
cotangent    P = Z^H Z_bar - T_bar T^H + T^H T_bar,   Y = the adjoint of C -> X_low of low(P - P^H);
             A_bar = Z (T_bar + Y) Z^H
cost         1 Schur form on the host, 25 n^3 operations; each direction n triangular solves, n^3 / 3
             operations, and a few products
reference    Anderson, Linear Algebra Appl. 2024, arXiv:2212.08908; Golub and Van Loan, section 7.1

low is what stands below the diagonal, up the rest. The phases of the columns of Z are arbitrary: a
loss that depends on them raises. The order of eigenvalues is constant near A where they differ;
repeated and defective ones have no derivative, nor have the blocks of size 2 of real forms.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.linalg

from ldiv.core.arrays.shapes import (
    adjoint,
    alike,
    conj,
    each_on_host,
    eps,
    is_complex,
    numpy_dtype,
    transpose,
)
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import check_or_raise, constant, namespace
from ldiv.core.frameworks.trees import Arrays, Cotangents, Tangents, Tree, Trees
from ldiv.core.rules.finite import require_finite
from ldiv.core.rules.rescaling import Rescaled
from ldiv.core.rules.rule import Traits, Unit
from ldiv.engines.accuracy.scaling import norm
from ldiv.errors import NotDifferentiableError, shown, type_error
from ldiv.rules.assertion import checked
from ldiv.rules.solve import solve
from ldiv.structures.triangular import Triangular

LEAST = 16  # roundings of a derivative that has no digit left


@dataclass(frozen=True)
class Schur(Rescaled):
    """Argument A (*batch, n, n); outputs T, Z (*batch, n, n), and how many eigenvalues `sort` has
    put first (*batch,).
    """

    sort: str | Callable[..., bool] | None = None

    core = (2,)
    units = (Unit((2,), (2, 0, 0), by=(0,)),)
    traits = Traits(name="schur", differentiable=(True, True, False), on_host=True)

    def kernel(self, a: Array) -> Arrays:
        require_finite("a", a)
        shape, dtype = tuple(a.shape), numpy_dtype(a)
        specs = ((shape, dtype), (shape, dtype), (shape[:-2], np.dtype(np.int32)))
        T, Z, count = each_on_host(partial(_factored, self.sort), self.core, (a,), specs)
        return T, Z, count

    def jvp(self, tangents: Trees, out: Arrays, *args: Tree) -> Tangents:
        ((dA,), (T, Z, _)) = tangents, out
        if 0 in T.shape:
            return dA, dA, None
        xp: Any = namespace(T)
        # C = Z^H dA Z;  Z^H dZ = X = X_low - X_low^H is skew-Hermitian
        T, C = _differentiable(T), adjoint(Z) @ dA @ Z
        low = _solved(T, C)
        X = low - adjoint(low)
        # dT = up(C - X T + T X),  dZ = Z X
        return xp.triu(C - X @ T + T @ X), Z @ X, None

    def vjp(self, need: Trees, cotangents: Cotangents, out: Arrays, *args: Tree) -> Trees:
        (T_bar, Z_bar, _), (T, Z, _) = cotangents, out
        if 0 in T.shape:
            return (0 * args[0],)
        xp: Any = namespace(T)
        T = _differentiable(T)
        T_bar = 0 * T if T_bar is None else xp.triu(T_bar)
        # P = Z^H Z_bar - T_bar T^H + T^H T_bar
        P = adjoint(T) @ T_bar - T_bar @ adjoint(T)
        if Z_bar is not None:
            P = P + adjoint(Z) @ Z_bar
        # a real Schur vector has a sign, and no phase that could move
        P = _free_of_phase(P, T_bar, T) if is_complex(T) else P
        # A_bar = Z (T_bar + Y) Z^H with <Y, C> = <low(P - P^H), X_low> for every C
        return (Z @ (T_bar + _adjoint_solved(T, P - adjoint(P))) @ adjoint(Z),)


def _factored(sort: Any, a: Any) -> tuple[Any, ...]:
    if not a.size:
        return a, a, 0
    errors: list[Exception] = []
    first = _without_errors(sort, errors) if callable(sort) else sort
    output = "complex" if a.dtype.kind == "c" else "real"
    found = scipy.linalg.schur(a, output, sort=first, check_finite=False)
    if errors:
        raise errors[0]
    return (*found, 0)[:3]  # without `sort` SciPy returns no count


def _without_errors(sort: Callable[..., Any], errors: list[Exception]) -> Callable[..., bool]:
    """Wrap `sort` to collect its errors, which Fortran would only print, and return False."""

    def first(*value: Any) -> bool:
        try:
            return _flag(sort(*value))
        except Exception as error:
            errors.append(error)
            return False

    # for a real form SciPy passes the imaginary part, too, if `sort` takes two arguments
    try:
        kinds = [p.kind for p in inspect.signature(sort).parameters.values()]
    except ValueError:  # a compiled function
        kinds = [inspect.Parameter.POSITIONAL_ONLY]
    alone = len(kinds) == 1 and kinds[0] is not inspect.Parameter.VAR_POSITIONAL
    if alone:
        return lambda x: first(x)
    return lambda x, y=None: first(*((x,) if y is None else (x, y)))


def _flag(first: Any) -> bool:
    if isinstance(first, bool | np.bool_ | int):
        return bool(first)
    advice = "It says whether an eigenvalue comes first."
    raise type_error("sort", "a function that returns a bool", shown(first), advice)


def _solved(T: Array, C: Array) -> Array:
    """X, all below its diagonal, with low(X T - T X) = low(C), column by column."""
    n, xp = T.shape[-1], namespace(T)
    X = 0 * (T[..., :, :0] + C[..., :, :0])
    # (t_jj I - T_below) x_j = c_j - X[:, :j] T[:j, j] for the rows below j;
    # columns are appended, since traced arrays cannot be written to
    for j in range(n):
        r = C[..., j + 1 :, j : j + 1]
        if 0 < j:
            r = r - X[..., j + 1 :, :] @ T[..., :j, j : j + 1]
        column = [0 * (C + T)[..., : j + 1, :1], *([_below(T, j, "N", r)] if j < n - 1 else [])]
        X = xp.concat([X, xp.concat(column, axis=-2)], axis=-1)
    return X


def _adjoint_solved(T: Array, W: Array) -> Array:
    """Y, all below its diagonal, with <Y, C> = <low(W), X> for every C and its X."""
    n, xp = T.shape[-1], namespace(T)
    Y = 0 * (W + T)[..., :, :1]  # the last column
    # the recursion transposed: (t_jj I - T_below)^H y_j = w_j - Y[:, j+1:] T[j, j+1:]^H
    for j in reversed(range(n - 1)):
        w = W[..., j + 1 :, j : j + 1]
        w = w - Y[..., j + 1 :, :] @ conj(transpose(T[..., j : j + 1, j + 1 :]))
        column = xp.concat([0 * (W + T)[..., : j + 1, :1], _below(T, j, "H", w)], axis=-2)
        Y = xp.concat([column, Y], axis=-1)
    return Y


def _below(T: Array, j: int, op: str, r: Array) -> Array:
    """op(t_jj I - T_below)^-1 r, for the rows and columns of T after the j-th."""
    m = T.shape[-1] - j - 1
    one = namespace(T).eye(m, **alike(T))
    shifted = T[..., j : j + 1, j : j + 1] * one - T[..., j + 1 :, j + 1 :]
    return solve(Triangular(m, False).view(op), shifted, r)


# -- where there is no derivative -----------------------------------------------------------------


def _differentiable(T: Array) -> Array:
    """T, if its eigenvalues are apart from each other by more than their errors.

    A random direction shows by how much X magnifies C, and by how much eigenvalues do.
    """
    n, t, xp = T.shape[-1], constant(T), namespace(T)
    if n < 2:
        return T
    if not is_complex(T):
        # 0 times the check is added, so that a trace keeps the check before what needs it
        t = t + 0 * checked(_require_triangular, t)
    distance = abs(_diagonal(t)[..., :, None] - _diagonal(t)[..., None, :])
    t = t + 0 * checked(_require_distinct, distance)
    C = xp.asarray(np.random.default_rng(n).standard_normal((n, n)), **alike(t))
    low = _solved(t, C)
    X, size = low - adjoint(low), norm(xp.abs(t), axis=(-2, -1))
    moved = norm(xp.abs(_diagonal(C - X @ t + t @ X)), axis=-1)
    # eps |T|, magnified by |X| and by what this C moves the eigenvalues
    lost = LEAST * eps(t) * moved * norm(xp.abs(X), axis=(-2, -1)) * size
    return T + 0 * checked(_require_digits, lost[..., None, None])


def _diagonal(x: Array) -> Array:
    diagonal: Array = namespace(x).linalg.diagonal(x)
    return diagonal


def _require_triangular(t: Array) -> None:
    below = namespace(t).tril(t, k=-1)
    check_or_raise(
        (below == 0).all(),
        lambda: NotDifferentiableError(
            "no derivative: the real Schur form has a block of size 2, of a pair of complex "
            "eigenvalues, whose basis is a convention. Take output='complex'."
        ),
    )


def _require_distinct(distance: Array) -> None:
    n, xp = distance.shape[-1], namespace(distance)
    # the identity stands for the distance of an eigenvalue from itself, which is 0
    check_or_raise((distance + xp.eye(n, **alike(distance)) > 0).all(), _repeated)


def _require_digits(lost: Array) -> None:
    check_or_raise((lost < 1).all(), _repeated)


def _repeated() -> NotDifferentiableError:
    return NotDifferentiableError(
        "no derivative: eigenvalues are repeated or defective, or so close to it that no digit of a "
        "derivative is known. Let the loss depend on the matrix through a smooth function "
        "(ldiv.funm, a determinant, a trace), or move the matrix."
    )


def _free_of_phase(P: Array, T_bar: Array, T: Array) -> Array:
    """P, if the loss does not depend on the phases of the columns of Z: Im(P_jj) = 0."""
    xp: Any = namespace(P)
    size = norm(xp.abs(constant(T)), axis=(-2, -1)) * norm(xp.abs(T_bar), axis=(-2, -1))
    size = size + norm(xp.abs(P), axis=(-2, -1))
    # max |Im P_jj|, relative to the sizes of the terms of P
    own = xp.max(xp.abs(xp.imag(_diagonal(P))), axis=-1) / xp.where(size == 0, 1, size)
    return P + 0 * checked(_require_no_phase, own[..., None, None])


def _require_no_phase(own: Array) -> None:
    allowed = eps(own) ** 0.5
    check_or_raise(
        (own <= allowed).all(),
        lambda: NotDifferentiableError(
            "no derivative: the loss depends on the phase of a Schur vector, which is arbitrary. "
            "Let it depend on z z^H, or on absolute values."
        ),
    )
