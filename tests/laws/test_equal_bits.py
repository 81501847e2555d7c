"""Equal inputs give equal bits on one thread, whatever else lives: an answer by a factor that another
graph, pullback or `Factorized` owns is the answer by a new factor.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import ldiv

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")
jax.config.update("jax_enable_x64", True)


def laplacian(side: int, dimensions: int) -> Any:
    line = sp.diags_array([-1.0, 2.1, -1.0], offsets=[-1, 0, 1], shape=(side, side))
    whole = line
    for _ in range(dimensions - 1):
        whole = sp.kron(whole, sp.eye_array(side)) + sp.kron(sp.eye_array(whole.shape[0]), line)
    return sp.csc_array(whole)


def network(n: int) -> Any:
    rng = np.random.default_rng(n)
    W = sp.coo_array((np.ones(3 * n), tuple(rng.integers(0, n, (2, 3 * n)))), shape=(n, n)).tocsr()
    return sp.csc_array(sp.diags_array((W + W.T).sum(1) + 0.1) - W - W.T)


def uneven(S: Any) -> Any:
    S = S.copy()
    S.data = S.data * (1 + 0.3 * np.random.default_rng(0).standard_normal(S.nnz))
    return S


def dense(n: int, assume_a: str) -> Any:
    M = np.random.default_rng(n).standard_normal((n, n))
    return {"gen": M + np.eye(n), "pos": M @ M.T + np.eye(n), "sym": M + M.T}[assume_a]


SPARSE = {"plane": laplacian(20, 2), "cube": laplacian(9, 3), "network": network(300)}
CASES = [
    *((f"dense {n}", dense(n, kind), kind) for n in (3, 40, 400) for kind in ("gen", "pos", "sym")),
    *((name, S, "pos") for name, S in SPARSE.items()),
    *((name, uneven(S), "gen") for name, S in SPARSE.items()),
    *((name, uneven(S) + uneven(S).T, "sym") for name, S in SPARSE.items()),
]


def of_torch(M: Any) -> Any:
    if not sp.issparse(M):
        return torch.tensor(M)
    C = M.tocoo()
    return ldiv.coo_array((torch.tensor(C.data), tuple(map(torch.tensor, C.coords))), shape=M.shape)


def of_jax(M: Any) -> Any:
    if not sp.issparse(M):
        return jax.numpy.asarray(M)
    C = M.tocoo()
    return ldiv.coo_array((jax.numpy.asarray(C.data), C.coords), shape=M.shape)


def in_torch(M: Any, b: Any, solve: partial[Any]) -> Iterator[Any]:
    c = torch.tensor(b)
    yield solve(of_torch(M), c)
    with_graph = c.clone().requires_grad_()
    x = solve(of_torch(M), with_graph)  # whose graph lives, with its factor
    yield x.detach()
    yield solve(of_torch(M), c)
    yield solve(of_torch(M), c.clone().requires_grad_()).detach()
    x.abs().sum().backward()
    yield solve(of_torch(M), c)
    yield torch.func.vjp(lambda c: solve(of_torch(M), c), c)[0]
    yield torch.func.vmap(lambda c: solve(of_torch(M), c))(c[None])[0]
    del x
    yield solve(of_torch(M), c)


def in_numpy(M: Any, b: Any, solve: partial[Any]) -> Iterator[Any]:
    yield solve(M, b)
    x, pullback = ldiv.vjp(lambda b: solve(M, b), b)
    yield x
    yield solve(M, b)
    pullback(x)
    yield solve(M, b)
    yield ldiv.factorized(M, assume_a=solve.keywords["assume_a"]).solve(b)


def in_jax(M: Any, b: Any, solve: partial[Any]) -> Iterator[Any]:
    c = jax.numpy.asarray(b)
    yield solve(of_jax(M), c)
    x, pullback = jax.vjp(lambda c: solve(of_jax(M), c), c)
    yield x
    yield solve(of_jax(M), c)
    pullback(x)
    yield solve(of_jax(M), c)


@pytest.mark.parametrize("answers", [in_torch, in_numpy, in_jax])
@pytest.mark.parametrize(("name", "M", "assume_a"), CASES, ids=[f"{a} {c}" for a, _, c in CASES])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.complex128])
@pytest.mark.parametrize("columns", [(), (2,)])
def test_answers(
    name: str, M: Any, assume_a: Any, dtype: Any, columns: tuple[int, ...], answers: Any
) -> None:
    b = np.random.default_rng(1).standard_normal((M.shape[0], *columns)).astype(dtype)
    with ldiv.set_num_threads(1):
        ldiv.clear_cache()
        solve = partial(ldiv.solve, assume_a=assume_a)
        found = [np.asarray(x) for x in answers(M.astype(dtype), b, solve)]
    assert [np.array_equal(x, found[0]) for x in found] == [True] * len(found)
