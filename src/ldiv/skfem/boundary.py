"""K u = f with u = x on the unknowns D:   K_II u_I = f_I - K_ID x_D,   u = (u_I, x_D).

scikit-fem's `condense` and the expansion in its `solve`, differentiable in K, f and x.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from skfem.assembly import DofsView

from ldiv.core.arrays.distinct import distinct
from ldiv.core.arrays.shapes import alike, take, transpose
from ldiv.core.arrays.validate import as_float, require_integers, require_square, together
from ldiv.core.calls.public import public
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import asnumpy, is_array, namespace
from ldiv.core.frameworks.pattern import Index
from ldiv.errors import shown, type_error, value_error
from ldiv.matrices.construct import asarray
from ldiv.matrices.matrix import beside
from ldiv.matrices.sparse_array import SparseArray
from ldiv.rules.gather import add_up

ADVICE = "Unknowns are numbered from 0; `basis.get_dofs()` finds those of the boundary."


@public
def condense(
    K: Any, f: Any = None, x: Any = None, I: Any = None, D: Any = None, expand: bool = True
) -> Any:
    """Eliminate prescribed unknowns from a linear system or an eigenproblem, differentiably.

        K_II u_I = f_I - K_ID x_D

    Parameters
    ----------
    K : SparseArray (*batch, n, n), or a sparse matrix of SciPy
        The matrix of all unknowns.
    f : array (n,) or (*batch, n, k), or SparseArray, optional
        The right-hand side, zero where only x is given; or the mass matrix of an eigenproblem,
        which is condensed as K is. What is of NumPy or SciPy is constant beside tensors.
    x : array (n,), optional
        The prescribed values, zero by default; only those at D are read.
    I, D : array of ints, skfem.DofsView, or a dict of these
        The unknowns that stay, or those that are prescribed: one of the two.
    expand : bool, default True
        Return x and I as well.

    Returns
    -------
    K_II : SparseArray (*batch, m, m)
    f_I : array (m,) or (*batch, m, k), or SparseArray
        Only where f or x is given.
    x : array (n,)
    I : array (m,) of ints
        What `solve` takes to expand the solution; with expand=True only.

    Raises
    ------
    ValueError
        For unknowns out of range or given twice, shapes that do not fit, and both or none of I, D.

    Notes
    -----
    Differentiable in the values of K, in f and in x, in every mode and order. The pattern of K_II
    is made once for a pattern and a set of unknowns.
    Cost: one product with K where x is given; copies otherwise.

    Examples
    --------
    >>> import ldiv.skfem, numpy as np
    >>> K = ldiv.diags_array([np.array([2.0]), np.array([-1.0]), np.array([-1.0])], offsets=[0, 1, -1], shape=(3, 3))
    >>> x = np.array([1.0, 0.0, 3.0])
    >>> K_II, f_I, x, I = ldiv.skfem.condense(K, np.zeros(3), x=x, D=np.array([0, 2]))
    >>> K_II.toarray(), f_I
    (array([[2.]]), array([4.]))
    """
    K = beside(asarray(K), f, x)
    require_square("K", K.structure.shape)
    n = K.structure.shape[0]
    kept, fixed = _unknowns(n, I, D)
    result: tuple[Any, ...] = (K[kept][:, kept],)
    mass = isinstance(f, SparseArray) or hasattr(f, "tocsc")
    if x is not None:
        x = _vector("x", x, n, K.data)
    if mass:
        M = beside(asarray(f), K)
        if M.structure.shape != K.structure.shape:
            raise value_error(
                "f",
                f"a matrix {K.structure.shape}",
                str(M.structure.shape),
                "A mass matrix is of the same basis.",
            )
        result = (*result, M[kept][:, kept])
    elif f is not None or x is not None:
        result = (*result, _right_side(K, f, x, kept, fixed))
    if expand:
        xp = namespace(K.data)
        result = (*result, xp.zeros(n, **alike(K.data)) if x is None else x, kept)
    return result if len(result) > 1 else result[0]


@public
def expand(u: Any, x: Any, I: Any) -> Any:
    """The solution at all unknowns, from that of the condensed system, differentiably.

        y_I = u,    y_D = x_D

    Parameters
    ----------
    u : array (m,) or (*batch, m, k)
        The solution at the unknowns I, or eigenvectors.
    x : array (n,)
        The prescribed values: only those beside I are read.
    I : array (m,) of ints
        As `condense` returns it.

    Returns
    -------
    y : array (n,) or (*batch, n, k)

    Raises
    ------
    ValueError
        For shapes that do not fit.

    Notes
    -----
    Differentiable in u and x, in every mode and order.

    Examples
    --------
    >>> import ldiv.skfem, numpy as np
    >>> ldiv.skfem.expand(np.array([5.0]), np.array([1.0, 0.0, 3.0]), np.array([1]))
    array([1., 5., 3.])
    """
    u, x = as_float("u", u, x), as_float("x", x, u)
    x = _vector("x", x, x.shape[0] if x.ndim == 1 else -1, u)
    n = x.shape[0]
    kept, fixed = _unknowns(n, I, None)
    if u.ndim == 0 or u.shape[-1 if u.ndim == 1 else -2] != len(kept):
        raise value_error(
            "u",
            f"shape ({len(kept)},) or (..., {len(kept)}, k)",
            str(tuple(u.shape)),
            "It is the solution of the condensed system.",
        )
    at_fixed = _only(x, fixed)
    if u.ndim == 1:
        return add_up(u, kept, n) + at_fixed
    return transpose(add_up(transpose(u), kept, n) + at_fixed)


def _unknowns(n: int, I: Any, D: Any) -> tuple[Index, Index]:
    """(those that stay, those that are prescribed)."""
    if (I is None) == (D is None):
        raise value_error(
            "condense",
            "either I or D",
            "both" if D is not None else "none",
            "The other one is what is left.",
        )
    name, given = ("I", I) if D is None else ("D", D)
    chosen = _flat(name, given)
    if ((chosen < 0) | (chosen >= n)).any():
        raise value_error(
            name, f"unknowns from 0 to {n - 1}", f"{chosen.min()} to {chosen.max()}", ADVICE
        )
    inside = np.zeros(n, bool)
    inside[chosen] = True
    if D is not None:
        return np.flatnonzero(~inside), np.flatnonzero(inside)
    if inside.sum() < len(chosen):
        raise value_error(name, "every unknown once", "some of them twice", ADVICE)
    return chosen, np.flatnonzero(~inside)


def _flat(name: str, dofs: Any) -> Index:
    """Unknowns as one array of NumPy; the dict is that of scikit-fem, by the names of boundaries."""
    if isinstance(dofs, DofsView):
        return np.asarray(dofs.flatten(), np.int64)
    if isinstance(dofs, dict):
        parts = [_flat(name, part) for part in dofs.values()]
        return distinct(np.concatenate([np.zeros(0, np.int64), *parts]))
    if isinstance(dofs, list | tuple):
        dofs = np.asarray(dofs) if dofs else np.zeros(0, np.int64)
    if not is_array(dofs) or dofs.ndim != 1:
        raise type_error(name, "a vector of integers", shown(dofs), ADVICE)
    advice = "Of a mask use numpy.flatnonzero."
    return asnumpy(require_integers(name, dofs, advice)).astype(np.int64)


def _right_side(K: SparseArray, f: Any, x: Any, kept: Index, fixed: Index) -> Array:
    n = K.structure.shape[0]
    if f is not None:
        f = as_float("f", f, K.data)
        together("f", f, K.data)
        if f.ndim == 0 or f.shape[-1 if f.ndim == 1 else -2] != n:
            raise value_error(
                "f",
                f"shape ({n},) or (..., {n}, k)",
                str(tuple(f.shape)),
                "It has a row for each unknown, prescribed ones included.",
            )
    if x is None:
        return _rows(f, lambda y: take(y, kept))
    moved = K @ _only(x, fixed)  # (n,), or (*batch, n)
    if f is None:
        return take(-moved, kept)
    if f.ndim > 1 or moved.ndim > 1:
        f, moved = (y[:, None] if y.ndim == 1 else y for y in (f, moved[..., None]))
    return _rows(f - moved, lambda y: take(y, kept))


def _rows(f: Array, choose: Callable[[Array], Array]) -> Array:
    """A function of the last axis, on a vector or on the rows of a block."""
    return choose(f) if f.ndim == 1 else transpose(choose(transpose(f)))


def _only(x: Array, at: Index) -> Array:
    """x at these unknowns, zero at the others, whatever it holds there."""
    return add_up(take(x, at), at, x.shape[0])


def _vector(name: str, x: Any, n: int, like: Array) -> Array:
    x = as_float(name, x, like)
    together(name, x, like)
    if tuple(x.shape) != (n,):
        what = f"shape ({n},)" if n >= 0 else "a vector"
        raise value_error(
            name, what, str(tuple(x.shape)), "It has a number for each unknown of the basis."
        )
    return x
