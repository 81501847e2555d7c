"""Defaults of a front end, right for a framework that neither traces nor differentiates, and whose
arrays follow the array API standard.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import cache, partial
from types import ModuleType
from typing import Any

from array_api_compat import array_namespace, device

from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dense_kernels import DenseKernels
from ldiv.core.frameworks.folders import Plugin
from ldiv.core.frameworks.frontend import FrontEnd
from ldiv.core.frameworks.looks import decided
from ldiv.errors import type_error


@cache
def complete(file: ModuleType) -> FrontEnd:
    """The front end that a file defines, and what is so where it says nothing."""
    frontend: Any = Plugin(file, {})  # which the defaults ask in turn
    framework = file.__name__.rpartition(".")[2]
    defaults: dict[str, Any] = {
        "traced": lambda x: False,
        "device": lambda x: str(x.device),
        "loop": _loop,
        "each": partial(_each, frontend),
        "stacked": lambda ys: array_namespace(*ys).stack(ys),
        "either": lambda ok, f, g: g(),
        "in_one_wait": lambda x, f: f(),
        "as_one_node": lambda f, *xs: f(*xs),
        "host_callback": lambda f, *xs: f(*xs),
        "namespace": array_namespace,
        "constant": lambda x: x,
        "conj": lambda x: x.conj(),
        "clone": lambda x: x.copy(),
        "copied": copy.deepcopy,
        "promoted": lambda x: x,
        "own": lambda x: x,
        "signature": lambda x: None,
        "host_values": lambda x: (
            frontend.asnumpy(x) if frontend.host(x) and not frontend.traced(x) else None
        ),
        "compressed_rows": lambda columns, values: None,
        "repeating": _repeating,
        "places": lambda pattern, x: (pattern.rows, pattern.cols),
        "numbers": lambda x: frontend.host_values(x),
        "refusal": lambda x: None,
        "stored_only": lambda x: False,
        "graphless": lambda: False,
        "differentiates": lambda *xs: True,
        "to": None,
        "export_checks": list,
        "sparse": lambda x: False,
        "put": None,
        "memory": None,
        "version": lambda x: None,
        "unwritable": lambda x: None,
        "every_member": lambda ok: ok,
        "standard_normal": partial(_cannot_draw, framework),
        "dependence": lambda f, x: None,
    }
    vars(frontend).update(defaults | vars(frontend))
    frontend.dense = _dense(Plugin(vars(file).get("dense", file), {}))
    frontend.user = _user(Plugin(vars(file).get("user", file), {}), frontend)
    completed: FrontEnd = frontend
    return completed


def _dense(kernels: Any) -> Any:
    defaults = {
        "product": lambda a, x: array_namespace(a).matmul(a, x),
        "qr": lambda a, mode="reduced": array_namespace(a).linalg.qr(a, mode=mode),
        "eigh": lambda a: array_namespace(a).linalg.eigh(a),
        "svd": lambda a: array_namespace(a).linalg.svd(a, full_matrices=False),
        "svdvals": lambda a: array_namespace(a).linalg.svdvals(a),
        "cholesky_inverse": partial(_cholesky_inverse, kernels),
        "unset_rows": _unset_rows,
        "add_rows": lambda y, index, x: y + kernels.scatter(x, index, y.shape[-2]),
        "minus_product": lambda y, a, x: y - kernels.product(a, x),
        "minus_upper": partial(_minus_upper, kernels),
        "lu_pivoted": None,
        "stream": lambda x: nullcontext(0),
        "row_order": lambda exchanges, m: None,
    }
    vars(kernels).update(defaults | vars(kernels))
    return kernels


def _unset_rows(x: Any, n: int) -> Any:
    shape = (*x.shape[:-2], n, x.shape[-1])
    return array_namespace(x).empty(shape, dtype=x.dtype, device=device(x))


def _minus_upper(kernels: DenseKernels, y: Any, a: Any, x: Any) -> Any:
    y[...] = array_namespace(y).triu(y - kernels.product(a.mT.conj(), x))
    return y


def _user(functions: Any, frontend: FrontEnd) -> Any:
    framework = frontend.__name__.rpartition(".")[2]
    defaults = {
        "vmap": partial(_vmap, frontend),
        "members": lambda f, xs, most: frontend.each(f, xs),
        "pulled": lambda pull, y_bars, of=None: functions.vmap(pull, (0,))(y_bars),
        "rows": lambda f, x, y_bars: functions.pulled(functions.vjp(f, (x,))[1], y_bars, f)[0],
        "pushed": lambda f, x, dxs: functions.vmap(lambda d: functions.jvp(f, (x,), (d,))[1], (0,))(
            dxs
        ),
        "prefers_rows": lambda count, x: False,
        "OwnTransforms": None,
        "records": None,
        "recorded_by": None,
        "looking_once": lambda f, is_near: nullcontext(),
        "call": lambda f, p, x, of=None: f(p, x),
        "few": lambda x: None,
        "compiled": lambda f, *xs: f(*xs),
        "vjp": partial(_cannot, framework),
        "jvp": partial(_cannot, framework),
    }
    vars(functions).update(defaults | vars(functions))
    return functions


def _loop(
    going: Callable[[Any], Any], body: Callable[[Any], Any], state: Any, most: int | None = None
) -> Any:
    while decided(going(state)):
        state = body(state)
    return state


def _repeating(step: Callable[[Any], Any], is_fixed: bool) -> Callable[[Any, int], Any]:
    def repeated(state: Any, times: int) -> Any:
        for _ in range(times):
            state = step(state)
        return state

    return repeated


def _each(
    frontend: FrontEnd, f: Callable[..., tuple[Array, ...]], xs: Sequence[Array]
) -> tuple[Array, ...]:
    found = [f(*one) for one in zip(*xs, strict=True)]
    return tuple([frontend.stacked(list(ys)) for ys in zip(*found, strict=True)])


def _cholesky_inverse(kernels: DenseKernels, l: Array) -> Array:
    xp = array_namespace(l)
    eye = xp.broadcast_to(xp.eye(l.shape[-1], dtype=l.dtype, device=l.device), l.shape)
    x = kernels.solve_triangular(l, eye, True)
    return kernels.product(xp.conj(x.mT), x)


def _vmap(
    frontend: FrontEnd, f: Callable[..., Any], axes: tuple[int | None, ...]
) -> Callable[..., Any]:
    def each(*xs: Array) -> Any:
        count = next(len(x) for x, a in zip(xs, axes, strict=True) if a == 0)
        if not count:  # a member of zeros says what shapes the results have
            one = each(*(_zeros(x) if a == 0 else x for x, a in zip(xs, axes, strict=True)))
            return tuple(y[:0] for y in one) if isinstance(one, tuple) else one[:0]
        found = [
            f(*(x[i] if a == 0 else x for x, a in zip(xs, axes, strict=True))) for i in range(count)
        ]
        if not isinstance(found[0], tuple):
            return frontend.stacked(found)
        return tuple(frontend.stacked(list(ys)) for ys in zip(*found, strict=True))

    return each


def _zeros(x: Array) -> Array:
    """One member like those of x."""
    return array_namespace(x).zeros((1, *x.shape[1:]), dtype=x.dtype, device=x.device)


def _cannot_draw(framework: str, *_: object) -> Any:
    raise type_error(
        "sample", "arrays of NumPy, PyTorch or JAX", f"those of {framework}", "Convert them."
    )


def _cannot(framework: str, f: object, *_: object) -> Any:
    advice = (
        "Use PyTorch or JAX arrays; if only the transposed product is missing, give rmatvec "
        "or a promise of symmetry."
    )
    raise type_error(
        "matvec",
        "a function that its framework can differentiate",
        f"one of {framework} arrays",
        advice,
    )
