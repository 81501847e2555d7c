"""Sparse matrices with arrays in any state: refused by name wherever they come in, before an
index is followed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from jax.experimental import sparse as jsp

import ldiv

x = torch.ones(3, dtype=torch.float64)
DOORS: dict[str, Callable[[Any], Any]] = {
    "asarray": ldiv.asarray,
    "jacobian": lambda P: ldiv.jacobian(torch.sin, x, pattern=P),
    "hessian": lambda P: ldiv.hessian(lambda x: (x**3).sum(), x, pattern=P),
    "root": lambda P: ldiv.root(lambda x, p: x - p, x, x, pattern=P),
}
PTR, AT = [0, 1, 2, 3], [0, 1, 2]


def compressed(
    indptr: Any = PTR, indices: Any = AT, data: Any = (1.0, 1.0, 1.0), kind: Any = sp.csr_array
) -> Any:
    """SciPy checks what its constructors are given, and nothing that is put there later."""
    a = kind((3, 3))
    a.indptr, a.indices, a.data = np.array(indptr), np.array(indices), np.array(data)
    return a


def coordinates(rows: Any = AT, cols: Any = AT, data: Any = (1.0, 1.0, 1.0)) -> Any:
    a = sp.coo_array((3, 3))
    a.coords, a.data = (np.array(rows), np.array(cols)), np.array(data)
    return a


def lists(rows: list[int], data: list[float]) -> Any:
    a = sp.lil_array((3, 3))
    a.rows[0], a.data[0] = rows, data
    return a


def tensor(kind: str, *at: Any, values: Any = None, shape: Any = (3, 3)) -> Any:
    values = torch.ones(3, dtype=torch.float64) if values is None else values
    indices = [torch.tensor(at)] if kind == "coo" else map(torch.tensor, at)
    return getattr(torch, f"sparse_{kind}_tensor")(*indices, values, shape, check_invariants=False)


BAD: dict[str, tuple[type[Exception], str, Callable[[], Any]]] = {
    "indptr beyond the end": (ValueError, "indptr of", lambda: compressed([0, 1, 2, 10**6])),
    "indptr that falls": (ValueError, "indptr of", lambda: compressed([0, 3, 1, 3])),
    "indptr below 0": (ValueError, "indptr of", lambda: compressed([0, -5, 2, 3])),
    "indptr from 1": (ValueError, "indptr of", lambda: compressed([1, 1, 2, 3])),
    "indptr too short": (ValueError, "indptr of", lambda: compressed([0, 1, 3])),
    "indptr too long": (ValueError, "indptr of", lambda: compressed([0, 1, 2, 3, 3])),
    "indptr unsigned": (
        ValueError,
        "indptr of",
        lambda: compressed(np.array([0, 3, 1, 3], np.uint32)),
    ),
    "indices too short": (ValueError, "indptr of", lambda: compressed(indices=[0])),
    "indices out of range": (
        ValueError,
        "indices of .+ got 0 .. 99",
        lambda: compressed(indices=[0, 1, 99]),
    ),
    "indices below 0": (ValueError, "indices of", lambda: compressed(indices=[0, 1, -1])),
    "indices of floats": (TypeError, "indices of", lambda: compressed(indices=[0.0, 1.5, 2.0])),
    "indices with two axes": (TypeError, "indices of", lambda: compressed(indices=[[0], [1], [2]])),
    "data too short": (
        ValueError,
        r"values of .+ shape \(..., 3\).+ got \(1,\)",
        lambda: compressed(data=[1.0]),
    ),
    "csc: indptr": (
        ValueError,
        "indptr of",
        lambda: compressed([0, 1, 2, 10**6], kind=sp.csc_array),
    ),
    "csc: data": (ValueError, "values of", lambda: compressed(data=[1.0], kind=sp.csc_array)),
    "bsr: indptr": (
        ValueError,
        "indptr of",
        lambda: compressed([0, 1, 2, 10**6], data=np.ones((3, 1, 1)), kind=sp.bsr_array),
    ),
    "bsr: data": (ValueError, "data of", lambda: compressed(kind=sp.bsr_array)),
    "coo: rows out of range": (ValueError, "rows of .+ got 0 .. 9", lambda: coordinates([0, 1, 9])),
    "coo: fewer rows": (ValueError, "indices of .+ got 2 and 3", lambda: coordinates([0, 1])),
    "coo: data": (ValueError, "values of", lambda: coordinates(data=[1.0])),
    "lil: a column out of range": (ValueError, "columns of", lambda: lists([77], [1.0])),
    "lil: fewer columns": (ValueError, "values of", lambda: lists([0], [1.0, 2.0])),
    "torch coo": (ValueError, "rows of", lambda: tensor("coo", [0, 1, 9], AT)),
    "torch coo below 0": (ValueError, "columns of", lambda: tensor("coo", AT, [0, 1, -1])),
    "torch csr": (ValueError, "indptr of", lambda: tensor("csr", [0, 1, 2, 10**6], AT)),
    "torch csr out of range": (ValueError, "indices of", lambda: tensor("csr", PTR, [0, 1, 77])),
    "torch csc": (ValueError, "indptr of", lambda: tensor("csc", [0, 3, 1, 3], AT)),
    "torch with dense axes": (
        ValueError,
        "2 sparse and 1 dense axes",
        lambda: tensor("coo", AT, AT, values=torch.ones(3, 3), shape=(3, 3, 3)),
    ),
    "jax below 0": (
        ValueError,
        "rows of",
        lambda: jsp.BCOO((jnp.ones(3), jnp.array([[0, 0], [1, 1], [-1, 2]])), shape=(3, 3)),
    ),
    "jax indptr": (
        ValueError,
        "indptr of",
        lambda: jsp.BCSR((jnp.ones(3), jnp.array(AT), jnp.array([0, 2, 1, 3])), shape=(3, 3)),
    ),
    "jax out of range": (
        ValueError,
        "indices of",
        lambda: jsp.BCSR((jnp.ones(3), jnp.array([0, 1, 7]), jnp.array(PTR)), shape=(3, 3)),
    ),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("name", BAD)
@pytest.mark.filterwarnings("ignore:Sparse (CSR|CSC|BSR) tensor support is in beta")
def test_broken(name: str, door: str) -> None:
    error, words, make = BAD[name]
    with pytest.raises(error, match=words) as caught:
        DOORS[door](make())
    assert caught.type is error
    assert ("asarray" if door == "asarray" else "pattern") in str(caught.value)


PAIRS: dict[str, tuple[type[Exception], str, Any]] = {
    "floats": (TypeError, "rows of pattern: expected a vector of integers", ([0.0, 1.0], [0, 1])),
    "ragged": (TypeError, "rows of pattern: expected a vector of integers", ([0, [1]], [0, 1])),
    "strings": (TypeError, "rows of pattern: expected a vector of integers", ("ab", "cd")),
    "huge": (TypeError, "rows of pattern: expected a vector of integers", ([0, 2**80], [0, 1])),
    "unsigned": (
        ValueError,
        "rows of pattern: expected indices up to",
        (np.array([0, 2**63], np.uint64), [0, 1]),
    ),
    "lengths": (ValueError, "2 rows, 1 columns", ([0, 1], [0])),
    "below 0": (ValueError, r"the entry \(-1, 1\)", ([0, -1], [0, 1])),
    "a dictionary": (TypeError, "a sparse matrix or a pair", {0: 1}),
    "a class": (TypeError, "a sparse matrix or a pair .+ the class csr_array", sp.csr_array),
}


@pytest.mark.parametrize("name", PAIRS)
def test_broken_pairs(name: str) -> None:
    error, words, pattern = PAIRS[name]
    with pytest.raises(error, match=words):
        DOORS["jacobian"](pattern)


@pytest.mark.parametrize(
    "make",
    [
        lambda: sp.csr_array(np.eye(3)),
        lambda: sp.bsr_array(np.eye(3), blocksize=(3, 1)),
        lambda: sp.lil_array(np.eye(3)),
        lambda: sp.dok_array(np.eye(3)),
        lambda: sp.dia_array(np.eye(3)),
        lambda: torch.eye(3).to_sparse(),
        lambda: torch.eye(3).to_sparse_bsr((3, 1)),
        lambda: tensor(
            "coo", [0, 1, 2, 2], [0, 1, 2, 2], values=torch.tensor([1.0, 1.0, 0.25, 0.75])
        ),
        lambda: torch.eye(3).to_sparse_csc(),
        lambda: jsp.BCOO.fromdense(jnp.eye(3), nse=5),
        lambda: jsp.BCSR.fromdense(jnp.eye(3)),
    ],
)
@pytest.mark.filterwarnings("ignore:Sparse CSC tensor support is in beta")
def test_patterns_of_every_library(make: Callable[[], Any]) -> None:
    np.testing.assert_array_equal(ldiv.asarray(make()).toarray(), np.eye(3))
    J = DOORS["jacobian"](make())
    np.testing.assert_allclose(J.toarray(), torch.diag(torch.cos(x)))


@pytest.mark.parametrize(
    "shape",
    [
        (2**63, 4),
        (10**400, 1),
        (np.inf, 3),
        (-1, 3),
        (3.0, 3),
        (True, 3),
        (3,),
        3,
        "33",
        np.ones(2),
        torch.ones(2),
    ],
)
def test_shapes(shape: Any) -> None:
    with pytest.raises(
        ValueError,
        match=r"shape: expected \(rows, columns\), integers of at most 9223372036854775807, got",
    ):
        ldiv.coo_array((np.ones(1), ([0], [0])), shape=shape)
