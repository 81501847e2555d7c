"""Outside of programs few numbers run on NumPy arrays: a new shape in JAX waits for no compilation of ldiv's own."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from dense_functions import sym

import ldiv

jax = pytest.importorskip("jax")
jax.config.update("jax_enable_x64", True)

N = 37  # a shape that no other test has
OWN = 40  # programs of the loss, of its gradient and of the sparse matrix; rules alone made more than 100


def sparse(a: Any) -> Any:
    at = np.arange(N)
    return ldiv.coo_array((jax.numpy.diagonal(a), (at, at)), shape=(N, N))


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "eigsh": lambda a: ldiv.eigsh(sparse(a), 3, sigma=0)[0],
    "eigs": lambda a: ldiv.eigs(a, 3)[0].real,
    "svds": lambda a: ldiv.svds(a, 3)[1],
    "lobpcg": lambda a: ldiv.lobpcg(sym(a), np.eye(N, 3))[0],
    "schur": lambda a: ldiv.schur(a)[0],
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_first_gradient_compiles_little(name: str, caplog: Any) -> None:
    rng = np.random.default_rng(0)
    a = jax.numpy.asarray(rng.standard_normal((N, N)) + np.diag(np.arange(1.0, N + 1) * 8))
    with jax.log_compiles(), caplog.at_level(logging.WARNING):
        jax.grad(lambda a: (FUNCTIONS[name](a) ** 2).sum())(a)
    compiled = [r for r in caplog.records if r.getMessage().startswith("Compiling ")]
    assert len(compiled) <= OWN
