"""JAX: no program keeps what was traced: `jax.checking_leaks` is content, inside of jit, too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from dense_functions import BY_NUMBERS, DENSE, IN_PYTHON

import ldiv

jax = pytest.importorskip("jax")
jax.config.update("jax_enable_x64", True)
rng = np.random.default_rng(0)
A, b = rng.standard_normal((6, 6)) / 6 + np.eye(6), rng.standard_normal(6)
W = ldiv.asarray(sp.csr_array(rng.standard_normal((3, 6))))

CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "laplace": lambda a, b: (
        ldiv.laplace(lambda x, p: (x @ x + jax.numpy.cosh(x).sum()) * p, b, a[0, 0]).value
    ),
    "expm, times": lambda a, b: ldiv.expm(a) @ b,
    "lstsq, damp": lambda a, b: ldiv.lstsq(a[:, :3], b, damp=0.1).x,
    "lstsq, sparse": lambda a, b: ldiv.lstsq(W.with_data(a[0, 0] * W.data), b[:3]).x,
}
OTHERS = {name: DENSE[name] for name in DENSE if name.split(",")[0] not in BY_NUMBERS | IN_PYTHON}


@pytest.mark.parametrize(
    "name", [*CALLS, *(pytest.param(name, marks=pytest.mark.exhaustive) for name in OTHERS)]
)
def test_no_tracer_leaks(name: str) -> None:
    call = (CALLS | OTHERS)[name]

    def loss(a: Any, b: Any) -> Any:
        return abs(call(a, b)).sum()

    with jax.checking_leaks():
        jax.jit(jax.value_and_grad(loss)).lower(A, b)
