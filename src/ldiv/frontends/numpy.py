"""NumPy: values only; a rule is its kernel, and a recorder sees which rule was applied."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import scipy.linalg

from ldiv.core.frameworks.dispatch import frontend_of, recorder
from ldiv.core.frameworks.frontend import FrontEnd
from ldiv.core.frameworks.trees import HostArray
from ldiv.core.rules.finite import evaluated_on_host
from ldiv.core.rules.record import present_record, recorded, snapshot, unrecorded
from ldiv.core.rules.rule import Rule
from ldiv.errors import shown, type_error

recorded_by = "autograd"


def owns(x: object) -> bool:
    return isinstance(x, np.ndarray | np.generic) and not isinstance(
        x, np.ma.MaskedArray | np.matrix
    )


def signature(x: HostArray) -> Any:
    return (x.dtype, x.ndim) if type(x) is np.ndarray else None


def bind(rule: Rule, leaves: list[HostArray]) -> tuple[HostArray, ...]:
    if present_record() is None:
        return evaluated_on_host(rule, leaves)
    rule = rule.rescaled_for(leaves)
    with unrecorded():  # rules inside of a kernel are not recorded
        outputs = evaluated_on_host(rule, leaves)
    return recorded(rule, leaves, outputs)


def differentiates(*xs: HostArray) -> bool:
    return present_record() is not None


def asnumpy(x: HostArray) -> HostArray:
    return np.asarray(x)


def host(x: HostArray) -> bool:
    return True


def device(x: HostArray) -> str:
    """The device; NumPy's scalars before 2.1 have no `device`."""
    return "cpu"


def call(f: Callable[..., HostArray], p: Any, x: HostArray, of: Any = None) -> HostArray:
    """f(p, x) on copies of x and of the result, since f may write to x and reuse its result."""
    y: Any = f(p, x.copy())
    if isinstance(y, np.ndarray):
        return y.copy()
    found = recorder("numpy")
    return y if found is None else found.user.unrecorded(y)  # the caller refuses non-arrays


def own(x: HostArray) -> HostArray:
    """Return a copy, since later writes to a NumPy array leave no trace."""
    return snapshot(x)


def vjp(
    f: Callable[..., Any], xs: tuple[HostArray, ...], whole: Any = None, has_aux: bool = False
) -> Any:
    return _recorder().user.vjp(f, xs, whole, has_aux)


def jvp(f: Callable[..., Any], xs: tuple[HostArray, ...], dxs: tuple[HostArray | None, ...]) -> Any:
    return _recorder().user.jvp(f, xs, dxs)


def stacked(xs: list[HostArray]) -> HostArray:
    """Stack results of a user's function, which may be recorded."""
    found: HostArray = frontend_of(*xs).namespace(xs[0]).stack(xs)
    return found


def _recorder() -> FrontEnd:
    if (found := recorder("numpy")) is not None:
        return found
    advice = (
        "Import autograd and write it with autograd.numpy, or use PyTorch or JAX arrays; if only "
        "the transposed product is missing, give rmatvec or a promise of symmetry."
    )
    raise type_error(
        "matvec",
        "a function that its framework can differentiate",
        "one of NumPy arrays, which record nothing",
        advice,
    )


def on_host(f: Callable[..., Any], specs: Any, *arrays: HostArray) -> tuple[HostArray, ...]:
    results: tuple[HostArray, ...] = f(*arrays)
    return results


def scatter(x: HostArray, index: HostArray, size: int) -> HostArray:
    return add_rows(np.zeros((*x.shape[:-2], size, x.shape[-1]), x.dtype), index, x)


def add_rows(y: HostArray, index: HostArray, x: HostArray) -> HostArray:
    if y.ndim == 2 and y.shape[1] == 1:  # for which NumPy is fastest
        np.add.at(y[:, 0], index, x[:, 0])
    else:
        np.add.at(np.moveaxis(y, -2, 0), index, np.moveaxis(x, -2, 0))
    return y


# -- dense kernels ------------------------------------------------------------


@lru_cache(maxsize=32)
def _lapack(name: str, dtype: np.dtype[Any]) -> Any:
    return scipy.linalg.get_lapack_funcs(name, dtype=dtype)


def lu_factor(a: HostArray) -> tuple[HostArray, HostArray]:
    if a.ndim == 2 and a.size:
        lu, pivots, _ = _lapack("getrf", a.dtype)(a)
        return lu, pivots
    lu, pivots = np.empty_like(a), np.empty((*a.shape[:-2], min(a.shape[-2:])), np.int32)
    getrf = scipy.linalg.get_lapack_funcs("getrf", (a,))
    for i in np.ndindex(*a.shape[:-2] if a.size else (0,)):
        lu[i], pivots[i], _ = getrf(a[i])
    return lu, pivots


def sign_of_rows(pivots: HostArray) -> HostArray:
    """det P: -1 for an odd number of exchanges."""
    odd = (pivots != np.arange(pivots.shape[-1])).sum(-1) % 2
    return np.asarray(1 - 2 * odd)  # an array also of one matrix, as array-api-compat 1.12 asks for


def lu_solve(lu: HostArray, pivots: HostArray, b: HostArray, op: str) -> HostArray:
    if lu.ndim == b.ndim == 2 and b.size:
        x, _ = _lapack("getrs", lu.dtype)(
            lu, pivots, b if b.dtype == lu.dtype else b.astype(lu.dtype), "NTH".index(op)
        )
        return np.ascontiguousarray(x)
    batch = np.broadcast_shapes(lu.shape[:-2], b.shape[:-2])
    lu = np.broadcast_to(lu, (*batch, *lu.shape[-2:]))
    pivots = np.broadcast_to(pivots, (*batch, pivots.shape[-1]))
    x = np.array(np.broadcast_to(b, (*batch, *b.shape[-2:])), dtype=lu.dtype, order="C")
    getrs = scipy.linalg.get_lapack_funcs("getrs", (lu,))
    for i in np.ndindex(*batch if x.size else (0,)):
        x[i], _ = getrs(lu[i], pivots[i], x[i], trans="NTH".index(op))
    return x


def cholesky(a: HostArray) -> tuple[HostArray, bool]:
    """(L, whether all of the batch is positive definite)."""
    if a.ndim == 2 and a.size:
        # the upper triangle of A^T is the lower one of A; U^H U = A^T, L = U^T
        u, info = _lapack("potrf", a.dtype)(a.T, lower=False)
        return (u.T, True) if info == 0 else (a, False)
    try:
        return np.linalg.cholesky(a), True
    except np.linalg.LinAlgError:
        return a, False


def cholesky_inverse(l: HostArray) -> HostArray:
    """(L L^H)^-1."""
    x = np.empty_like(l)
    for i in np.ndindex(*l.shape[:-2] if l.size else (0,)):
        x[i], _ = _lapack("potri", l.dtype)(l[i], lower=True)  # the lower triangle, zeros above
    return x + np.conj(np.tril(x, -1).mT)


def solve_triangular(a: HostArray, b: HostArray, lower: bool, unit: bool = False) -> HostArray:
    if a.ndim == b.ndim == 2 and b.size and a.dtype == b.dtype:
        x, _ = _lapack("trtrs", a.dtype)(a, b, lower=lower, unitdiag=unit)
        return np.ascontiguousarray(x)
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a = np.broadcast_to(a, (*batch, *a.shape[-2:]))
    x = np.array(np.broadcast_to(b, (*batch, *b.shape[-2:])), dtype=np.result_type(a, b), order="C")
    trtrs = scipy.linalg.get_lapack_funcs("trtrs", (a, x))
    for i in np.ndindex(*batch if x.size else (0,)):
        x[i], _ = trtrs(a[i], x[i], lower=lower, unitdiag=unit)
    return x


def product(a: HostArray, x: HostArray) -> HostArray:
    return a.dot(x) if a.ndim == x.ndim == 2 else np.matmul(a, x)


lu_pivoted = lu_factor  # SciPy's exchanges, counted from 0; A may be m x n


def standard_normal(key: Any, shape: tuple[int, ...], like: HostArray) -> HostArray:
    """Independent normal numbers in the precision of `like`, from its generator."""
    if not isinstance(key, np.random.Generator):
        raise type_error(
            "key",
            "a numpy.random.Generator",
            shown(key),
            "Make one with numpy.random.default_rng(seed).",
        )
    return key.standard_normal(shape, np.dtype(like.dtype))
