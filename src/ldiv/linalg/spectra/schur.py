"""Schur forms under SciPy's names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy.linalg

from ldiv.core.arrays.shapes import alike, astype, is_complex, numpy_dtype, real
from ldiv.core.arrays.typing import ArrayT
from ldiv.core.arrays.validate import (
    as_float,
    common_precision,
    require_callable,
    require_flag,
    require_known,
    require_option,
    together,
)
from ldiv.core.calls.public import public
from ldiv.core.frameworks.dispatch import namespace
from ldiv.core.rules.finite import require_finite
from ldiv.core.rules.rule import bind
from ldiv.errors import shown, value_error
from ldiv.linalg.arguments.dense_arguments import require_partner, require_square_array
from ldiv.rules.on_host_only import OnHostOnly
from ldiv.rules.schur import Schur

HALVES = ("lhp", "rhp", "iuc", "ouc")
Output = Literal["real", "complex", "r", "c"]
Sort = str | Callable[..., bool]


@public
def schur(
    a: ArrayT,
    output: Output = "real",
    lwork: int | None = None,
    overwrite_a: bool = False,
    sort: Sort | None = None,
    check_finite: bool = True,
) -> tuple[Any, ...]:
    """Compute the Schur form of a matrix, differentiably.

        A = Z T Z^H,    T upper triangular, or with blocks of size 2, Z unitary

    Parameters
    ----------
    a : array (*batch, n, n)
        A.
    output : {"real", "complex"}, default "real"
        Of a real A: a real form, with a block of size 2 for each pair of complex eigenvalues, or
        a complex one.
    lwork, overwrite_a : optional
        Accepted, as SciPy has them: nothing is ever overwritten.
    sort : {"lhp", "rhp", "iuc", "ouc"} or callable, optional
        Which eigenvalues come first, as in SciPy.
    check_finite : bool
        Accepted, as in SciPy: numbers are always checked.

    Returns
    -------
    T, Z : array (*batch, n, n)
    sdim : array of integers (*batch,)
        With `sort`: how many eigenvalues it has put first.

    Raises
    ------
    NotDifferentiableError
        In the derivative: for a real form with a block of size 2, and for a loss that depends on
        the phase of a column of Z. For repeated and defective eigenvalues, and those so close to it
        that no digit is known.
    ValueError
        For shapes, NaN and infinity.
    TypeError
        For dtypes other than float32, float64, complex64, complex128.

    See Also
    --------
    eig, funm

    Notes
    -----
    Differentiable in every mode and order; the tangent of a column of Z is orthogonal to it, and
    the order of eigenvalues is that of the value.
    LAPACK works on the host. Cost: 1 Schur form; each direction of a derivative n triangular
    solves.

    References
    ----------
    Golub and Van Loan, section 7.1; Anderson, arXiv:2212.08908.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> T, Z = ldiv.schur(np.array([[0.0, 1.0], [-4.0, 0.0]]), "complex")
    >>> T.diagonal().imag.round(6)
    array([ 2., -2.])
    """
    ((x,), _) = _as_output(output, require_square_array("a", a))
    if sort is not None:
        _require_sort(sort)
    T, Z, count = bind(Schur(sort), x)
    return (T, Z) if sort is None else (T, Z, count)


@public
def rsf2csf(T: ArrayT, Z: ArrayT, check_finite: bool = True) -> tuple[ArrayT, ArrayT]:
    """Turn a real Schur form into a complex one.

        A = Z T Z^H

    Parameters
    ----------
    T, Z : array (*batch, n, n)
        A real Schur form.
    check_finite : bool
        Accepted, as in SciPy: numbers are always checked.

    Returns
    -------
    T, Z : array (*batch, n, n)
        A complex one.

    Raises
    ------
    NotDifferentiableError
        In the derivative: `schur` with output="complex" has one.
    ValueError, TypeError
        As in `schur`.

    Notes
    -----
    Not differentiable: factors are not unique. SciPy works on the host. Cost: some 10 n^2
    operations for each block of size 2.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> T, Z = ldiv.rsf2csf(*ldiv.schur(np.array([[0.0, 1.0], [-4.0, 0.0]])))
    >>> abs(T.diagonal()).round(6)
    array([2., 2.])
    """
    t, z = _pair("T", T, "Z", Z)
    dtype = _complex(t)
    why = "a real Schur form is not unique. ldiv.schur(a, output='complex') has a derivative."
    return _bound(scipy.linalg.rsf2csf, dtype, 2, why, "TZ", t, z)


@public
def qz(
    A: ArrayT,
    B: ArrayT,
    output: Output = "real",
    lwork: int | None = None,
    sort: None = None,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> tuple[ArrayT, ...]:
    """Compute the generalized Schur form of a pencil.

        A = Q S Z^H,    B = Q T Z^H

    Parameters
    ----------
    A, B : array (*batch, n, n)
        The pencil.
    output : {"real", "complex"}, default "real"
        Of a real pencil, as in `schur`.
    lwork : optional
        Accepted, as SciPy has it.
    sort : None
        As in SciPy: `ordqz` sorts.
    overwrite_a, overwrite_b, check_finite : bool
        Accepted, as SciPy has them.

    Returns
    -------
    S, T, Q, Z : array (*batch, n, n)

    Raises
    ------
    NotDifferentiableError
        In the derivative: `eig` has one.
    ValueError, TypeError
        As in `schur`.

    Notes
    -----
    Not differentiable: `eig(A, B)` is. LAPACK works on the host. Cost: some 66 n^3 operations.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> A, B = np.array([[1.0, 2.0], [3.0, 4.0]]), np.eye(2)
    >>> S, T, Q, Z = ldiv.qz(A, B)
    >>> bool(np.allclose(Q @ S @ Z.T, A))
    True
    """
    if sort is not None:
        raise value_error("sort", "None", shown(sort), "Take ldiv.ordqz.")
    a, b = _pair("A", A, "B", B)
    (a, b), kind = _as_output(output, a, b)
    f = _Partial(scipy.linalg.qz, (kind,))
    return _bound(f, numpy_dtype(a), 4, _OF_PENCILS, "AB", a, b)


@public
def ordqz(
    A: ArrayT,
    B: ArrayT,
    sort: Sort = "lhp",
    output: Output = "real",
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> tuple[ArrayT, ...]:
    """Compute the generalized Schur form of a pencil, with some eigenvalues first.

        A = Q S Z^H,    B = Q T Z^H,    lam_i = alpha_i / beta_i

    Parameters
    ----------
    A, B : array (*batch, n, n)
        The pencil.
    sort : {"lhp", "rhp", "iuc", "ouc"} or callable, default "lhp"
        Which eigenvalues come first, as in SciPy.
    output : {"real", "complex"}, default "real"
        Of a real pencil, as in `schur`.
    overwrite_a, overwrite_b, check_finite : bool
        Accepted, as SciPy has them.

    Returns
    -------
    S, T : array (*batch, n, n)
    alpha, beta : array (*batch, n)
    Q, Z : array (*batch, n, n)

    Raises
    ------
    NotDifferentiableError
        In the derivative: `eig` has one.
    ValueError, TypeError
        As in `schur`.

    Notes
    -----
    Not differentiable: `eig(A, B)` is, and so are the Riccati solvers, for which it is mostly used.
    LAPACK works on the host. Cost: some 66 n^3 operations.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> S, T, alpha, beta, Q, Z = ldiv.ordqz(np.diag([1.0, -2.0]), np.eye(2))
    >>> (alpha / beta).real
    array([-2.,  1.])
    """
    _require_sort(sort)
    a, b = _pair("A", A, "B", B)
    (a, b), kind = _as_output(output, a, b)
    n, dtype = a.shape[-1], numpy_dtype(a)
    wide = np.result_type(dtype, np.complex64)
    square, line = (n, n), (n,)
    specs = ((square, dtype), (square, dtype), (line, wide), (line, dtype), *((square, dtype),) * 2)
    f = _Partial(scipy.linalg.ordqz, (_Which(sort) if callable(sort) else sort, kind))
    return bind(OnHostOnly(f, specs, ("A", "B"), _OF_PENCILS), a, b)


@public
def hessenberg(
    a: ArrayT, calc_q: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> Any:
    """Compute the Hessenberg form of a matrix.

        A = Q H Q^H,    h_ij = 0 for i > j + 1

    Parameters
    ----------
    a : array (*batch, n, n)
        A.
    calc_q : bool, default False
        Return Q, too.
    overwrite_a, check_finite : bool
        Accepted, as SciPy has them.

    Returns
    -------
    H : array (*batch, n, n)
    Q : array (*batch, n, n)
        Unitary; with `calc_q`.

    Raises
    ------
    NotDifferentiableError
        In the derivative: `schur` and `eig` have one.
    ValueError, TypeError
        As in `schur`.

    Notes
    -----
    Not differentiable: its factors are a step on the way to others. LAPACK works on the host.
    Cost: 10 n^3 / 3 operations, with Q 14 n^3 / 3.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> a = np.arange(9.0).reshape(3, 3)
    >>> H, Q = ldiv.hessenberg(a, calc_q=True)
    >>> bool(np.allclose(Q @ H @ Q.T, a))
    True
    """
    with_basis = require_flag("calc_q", calc_q)
    x = require_square_array("a", a)
    why = "Hessenberg forms are a step on the way to eigenvalues. ldiv.schur and ldiv.eig have one."
    H, Q = _bound(_Partial(scipy.linalg.hessenberg, (True,)), numpy_dtype(x), 2, why, "a", x)
    return (H, Q) if with_basis else H


@public
def cdf2rdf(w: ArrayT, v: ArrayT) -> tuple[ArrayT, ArrayT]:
    """Turn pairs of complex eigenvalues and vectors into real blocks of size 2, differentiably.

        A v = v diag(w),    A vr = vr wr

    Parameters
    ----------
    w : array (*batch, n)
        Eigenvalues, of which those that are complex come in conjugate pairs, one after the other.
    v : array (*batch, n, n)
        The vectors.

    Returns
    -------
    wr, vr : array (*batch, n, n)
        Real.

    Raises
    ------
    ValueError
        For shapes, NaN and infinity, and for complex eigenvalues that are no pairs.
    TypeError
        In a trace (jit, vmap), and for dtypes.

    Notes
    -----
    Differentiable by PyTorch and JAX in every mode and order: it is linear in w and v, for the
    pairs that there are.
    Cost: a copy, and a product with a matrix.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> wr, vr = ldiv.cdf2rdf(*ldiv.eig(np.array([[0.0, 1.0], [-4.0, 0.0]])))
    >>> wr.round(6)
    array([[ 0.,  2.],
           [-2.,  0.]])
    """
    x: Any = require_square_array("v", v, w)
    lam: Any = as_float("w", w, x)
    together("w", lam, x)
    if tuple(lam.shape) != tuple(x.shape[:-1]):
        raise value_error("w", f"shape {tuple(x.shape[:-1])}", tuple(lam.shape), "Of v.")
    values = require_known("w", lam, "Which eigenvalues are complex must be known.")
    require_finite("w", lam)
    require_finite("v", x)
    lam, x = common_precision(lam, x)
    n, xp = lam.shape[-1], namespace(x)
    partner, turn = _pairs(values.reshape(-1, n), n)
    square = tuple(x.shape)
    u = xp.asarray(turn.reshape(square), **alike(astype(x, _complex(x))))
    p, one = (xp.asarray(y, **alike(real(x))) for y in (partner.reshape(square), np.eye(n)))
    imaginary = xp.imag(lam) if is_complex(lam) else 0 * lam
    wr = real(lam)[..., :, None] * one + imaginary[..., :, None] * p
    return wr, xp.real(astype(x, _complex(x)) @ u)


def _pairs(w: Any, n: int) -> tuple[Any, Any]:
    """Return ones at (i, j) for conjugate pairs i, j, and the real combinations of their columns."""
    partner, turn = np.zeros((len(w), n, n)), np.zeros((len(w), n, n), complex)
    turn[:, range(n), range(n)] = 1
    for i, row in enumerate(w):
        at = np.flatnonzero(row.imag)
        if len(at) % 2 or not np.allclose(row[at[::2]], row[at[1::2]].conj()):
            advice = "LAPACK's order is such."
            what = "complex eigenvalues in conjugate pairs, one after the other"
            raise value_error("w", what, "others", advice)
        j, k = at[::2], at[1::2]
        partner[i, j, k] = partner[i, k, j] = 1
        turn[i, j, j], turn[i, j, k], turn[i, k, j], turn[i, k, k] = 0.5j, 0.5, -0.5j, 0.5
    return partner, turn


# -- arguments ------------------------------------------------------------------------------------

_OF_PENCILS = (
    "the factors of a pencil are not unique. ldiv.eig(A, B) has one, and so have "
    "ldiv.solve_continuous_are and ldiv.solve_discrete_are."
)


@dataclass(frozen=True)
class _Which:
    """The choice of eigenvalues alpha / beta by a function of the user, checked."""

    sort: Callable[..., Any]

    def __call__(self, alpha: Any, beta: Any) -> Any:
        found = np.asarray(self.sort(alpha, beta))
        if found.shape != alpha.shape or found.dtype.kind not in "biu":
            what = f"{found.dtype} of shape {found.shape}"
            expected = f"from sort(alpha, beta) {len(alpha)} of True and False"
            raise value_error("sort", expected, what, "It is called once, with arrays.")
        return found


@dataclass(frozen=True)
class _Partial:
    """f(*matrices, *more)."""

    f: Callable[..., Any]
    more: tuple[Any, ...]

    def __call__(self, *matrices: Any) -> Any:
        return self.f(*matrices, *self.more)


def _bound(f: Any, dtype: Any, count: int, why: str, names: Any, *xs: Any) -> Any:
    """Call f on the host; it returns `count` matrices of the size of x."""
    specs = ((tuple(xs[0].shape[-2:]), dtype),) * count
    return bind(OnHostOnly(f, specs, tuple(names), why), *xs)


def _pair(name: str, x: Any, other: str, y: Any) -> tuple[Any, Any]:
    x = require_square_array(name, x, y)
    y = require_partner(other, y, x, tuple(x.shape[-2:]), f"It goes with {name}.")
    x, y = common_precision(x, y)
    wide = np.result_type(numpy_dtype(x), numpy_dtype(y))
    return astype(x, wide), astype(y, wide)


def _as_output(output: Any, *xs: Any) -> tuple[tuple[Any, ...], str]:
    """The arrays, complex if that is asked for, and which form they have."""
    asked = require_option("output", output, ("real", "complex", "r", "c"))
    if asked.startswith("c"):
        xs = tuple(astype(x, _complex(x)) for x in xs)
    return xs, "complex" if numpy_dtype(xs[0]).kind == "c" else "real"


def _complex(x: Any) -> Any:
    return np.result_type(numpy_dtype(x), np.complex64)


def _require_sort(sort: Any) -> None:
    if isinstance(sort, str):
        require_option("sort", sort, HALVES)
    else:
        what, advice = "a name or a function of an eigenvalue", f"Names: {HALVES}."
        require_callable("sort", None if isinstance(sort, type) else sort, what, advice)
