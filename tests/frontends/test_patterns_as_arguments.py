"""BCOO and BCSR matrices that are arguments of programs: their patterns come with their numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import ldiv
from ldiv import structures

jax = pytest.importorskip("jax")
jnp = pytest.importorskip("jax.numpy")
jsp = pytest.importorskip("jax.experimental.sparse")

N = 7
rng = np.random.default_rng(0)
MASK = (rng.random((N, N)) < 0.3) | np.eye(N, dtype=bool)
GENERAL = MASK * rng.standard_normal((N, N)) + 4 * np.eye(N)
SYMMETRIC = GENERAL + GENERAL.T
COMPLEX = GENERAL + 1j * MASK * rng.standard_normal((N, N))
B = rng.standard_normal(N)


@pytest.fixture(autouse=True)
def double() -> Any:
    with jax.enable_x64(True):
        yield


def padded(a: Any) -> Any:
    return jsp.BCOO.fromdense(jnp.asarray(a), nse=int((a != 0).sum()) + 4)


def repeated(a: Any) -> Any:
    """Each entry as two."""
    one = jsp.BCOO.fromdense(jnp.asarray(a))
    twice = jnp.concatenate([one.data / 4, 3 * one.data / 4])
    return jsp.BCOO((twice, jnp.concatenate([one.indices] * 2)), shape=one.shape)


KINDS: dict[str, Callable[[Any], Any]] = {
    "BCOO": lambda a: jsp.BCOO.fromdense(jnp.asarray(a)),
    "padded": padded,
    "repeated": repeated,
    "BCSR": lambda a: jsp.BCSR.fromdense(jnp.asarray(a)),
}
kinds = pytest.mark.parametrize("kind", KINDS)


def draw(*shape: int) -> Any:
    return rng.standard_normal(shape) + 1j * rng.standard_normal(shape)


def with_data(a: Any, data: Any) -> Any:
    at = (a.indices,) if isinstance(a, jsp.BCOO) else (a.indices, a.indptr)
    return type(a)((data, *at), shape=a.shape)


@pytest.mark.covering(1)
@kinds
@pytest.mark.parametrize("matrix", [GENERAL, COMPLEX], ids=["real", "complex"])
@pytest.mark.parametrize("trans", ["N", "T", "C"])
def test_solves(kind: str, matrix: Any, trans: str) -> None:
    a = KINDS[kind](matrix)
    turned = {"N": matrix, "T": matrix.T, "C": matrix.conj().T}[trans]
    solve = jax.jit(lambda a, b: ldiv.solve(a, b, trans=trans))
    for b in (B, B + 1j, np.stack([B, 2 * B], 1)):
        np.testing.assert_allclose(solve(a, jnp.asarray(b)), np.linalg.solve(turned, b), atol=1e-13)


@kinds
@pytest.mark.covering(1)
@pytest.mark.parametrize("promise", ["sym", "her", "pos"])
@pytest.mark.parametrize("method", ["auto", "minres", "gmres"])
def test_promises(kind: str, promise: str, method: str) -> None:
    a = KINDS[kind](SYMMETRIC)
    solve = jax.jit(lambda a, b: ldiv.solve(a, b, assume_a=promise, method=method))
    np.testing.assert_allclose(
        solve(a, jnp.asarray(B)),
        np.linalg.solve(SYMMETRIC, B),
        atol=1e-5 if method != "auto" else 1e-13,
    )
    if method == "auto":
        broken = with_data(a, a.data.at[1].add(1.0))
        with pytest.raises(Exception, match=r"symmetric|Hermitian"):
            jax.block_until_ready(solve(broken, jnp.asarray(B)))


@kinds
@pytest.mark.covering(1)
@pytest.mark.parametrize("matrix", [GENERAL, COMPLEX], ids=["real", "complex"])
def test_derivatives(kind: str, matrix: Any) -> None:
    """Derivatives are those of the same matrix with a known pattern, in every mode and to second order."""
    a, b = KINDS[kind](matrix), jnp.asarray(B)

    def loss(data: Any, b: Any, a: Any) -> Any:
        x = ldiv.solve(with_data(a, data), b)
        return jnp.sum(jnp.abs(x) ** 2) + ldiv.slogdet(with_data(a, data))[1]

    def known(data: Any, b: Any) -> Any:
        return loss(data, b, a)

    made = [
        (jax.grad(loss, (0, 1)), jax.grad(known, (0, 1))),
        (
            lambda d, b, a: jax.jvp(lambda d, b: loss(d, b, a), (d, b), (d, 2 * b))[1],
            lambda d, b: jax.jvp(known, (d, b), (d, 2 * b))[1],
        ),
        (
            lambda d, b, a: jax.grad(lambda d: jnp.sum(jnp.abs(jax.grad(loss)(d, b, a)) ** 2))(d),
            lambda d, b: jax.grad(lambda d: jnp.sum(jnp.abs(jax.grad(known)(d, b)) ** 2))(d),
        ),
    ]
    for ours, theirs in made:
        got, expected = jax.jit(ours)(a.data, b, a), theirs(a.data, b)
        for one, other in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)


def test_batches_each_with_its_pattern() -> None:
    both = np.stack([GENERAL, GENERAL.T + np.eye(N)])
    a = jsp.BCOO.fromdense(jnp.asarray(both), n_batch=1)
    b = jnp.asarray(np.stack([B, B])[..., None])
    expected = np.linalg.solve(both, np.asarray(b))
    np.testing.assert_allclose(jax.jit(ldiv.solve)(a, b), expected, atol=1e-13)
    mapped = jax.jit(jax.vmap(ldiv.solve, (0, None)))(a, jnp.asarray(B))
    np.testing.assert_allclose(mapped, expected[..., 0], atol=1e-13)
    bad = jsp.BCOO((a.data.at[0].set(0.0), a.indices), shape=a.shape)
    with pytest.raises(Exception, match="singular"):
        jax.block_until_ready(jax.jit(ldiv.solve)(bad, b))
    with ldiv.errstate(singular="nan"), pytest.raises(ldiv.EngineError, match="runs in Python"):
        jax.jit(lambda a, b: ldiv.solve(a, b))(bad, b)


def test_one_factorization_for_a_value_and_its_gradient() -> None:
    a, b = KINDS["BCOO"](GENERAL), jnp.asarray(B)
    f = jax.jit(jax.value_and_grad(lambda d, a, b: jnp.sum(ldiv.solve(with_data(a, d), b) ** 2)))
    jax.block_until_ready(f(a.data, a, b))
    before = ldiv.cache_info()
    jax.block_until_ready(f(1.5 * a.data, a, b))
    after = ldiv.cache_info()
    assert after.analyses == before.analyses
    assert after.factorizations == before.factorizations + 1


def test_a_singular_matrix_raises() -> None:
    a = jsp.BCOO.fromdense(jnp.diag(jnp.array([1.0, 1.0, 0.0])), nse=3)
    with pytest.raises(Exception, match="singular"):
        jax.block_until_ready(jax.jit(ldiv.solve)(a, jnp.ones(3)))


def test_a_pattern_that_must_be_known() -> None:
    a = KINDS["BCOO"](GENERAL)
    for f in (ldiv.asarray, lambda a: ldiv.lstsq(a, jnp.ones(N)), lambda a: ldiv.tril(a)):
        with pytest.raises(TypeError, match=r"entries|must know the sparsity pattern"):
            jax.jit(lambda a, f=f: f(a))(a)


@pytest.mark.parametrize("op", "NTCH")
@pytest.mark.parametrize("batch", [(), (2,)])
def test_the_laws_of_its_structure(op: str, batch: tuple[int, ...]) -> None:
    """matmul, push, outer and todense are those of the same matrix on a known pattern."""
    rows, cols = np.array([2, 0, 1, 3, 4, 0, 2]), np.array([2, 0, 1, 3, 1, 3, 2])
    known = structures.Sparse(
        ldiv.coo_array((np.ones(7), (rows, cols)), shape=(5, 4)).structure.entries
    )
    placed = structures.Placed((5, 4), 7)
    v, dv = draw(*batch, 7), draw(*batch, 7)
    p, S, K = (v, rows.astype(float), cols.astype(float)), placed.view(op), known.view(op)
    m, n = S.shape
    x, u = draw(2, n, 3), draw(2, m, 3)
    np.testing.assert_allclose(S.todense(p), K.todense(v))
    np.testing.assert_allclose(S.matmul(p, x), K.matmul(v, x))
    np.testing.assert_allclose(S.push(p, (dv, None, None), x), K.matmul(dv, x))
    g, *places = S.outer(p, u, x, (True, False, False))
    expected = K.outer(np.broadcast_to(v, (2, 7)), u, x, True)
    np.testing.assert_allclose(g, expected)
    assert places == [None, None]


def test_determinants_of_a_mesh() -> None:
    """An engine that is best for solves may not know the sign of a determinant."""
    line = sp.diags_array([-1.0, 2.1, -1.1], offsets=[-1, 0, 1], shape=(60, 60))
    mesh = sp.coo_array(sp.kronsum(line, line))
    a = jsp.BCOO(
        (jnp.asarray(mesh.data), jnp.stack([jnp.asarray(i) for i in mesh.coords], 1)),
        shape=mesh.shape,
    )
    expected = ldiv.slogdet(ldiv.asarray(a))
    found = jax.jit(lambda a: (ldiv.slogdet(a), ldiv.solve(a, jnp.ones(3600)).sum()))(a)[0]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_axes_of_one_stand_for_a_batch() -> None:
    one = jsp.BCOO.fromdense(jnp.asarray(GENERAL))
    a = jsp.BCOO((one.data[None], one.indices[None]), shape=(3, N, N))
    b = jnp.asarray(B)[:, None]
    x = jax.jit(ldiv.solve)(a, b)
    assert x.shape == (3, N, 1)
    np.testing.assert_allclose(x, ldiv.solve(a, b), atol=1e-14)
    loss = lambda d: ldiv.slogdet(jsp.BCOO((d, a.indices), shape=a.shape))[1].sum()
    np.testing.assert_allclose(jax.jit(jax.grad(loss))(a.data), jax.grad(loss)(a.data), rtol=1e-12)


@pytest.mark.parametrize("at", [(-1, -1), (0, -1), (-2, 1)])
@pytest.mark.parametrize("method", ["auto", "gmres"])
def test_negative_indices_are_refused(at: tuple[int, int], method: str) -> None:
    one = jsp.BCOO.fromdense(jnp.asarray(GENERAL))
    more = jnp.append(one.data, 7.0), jnp.concatenate([one.indices, jnp.array([at])])
    a = jsp.BCOO(more, shape=one.shape)
    with pytest.raises(Exception, match="finite"):
        jax.block_until_ready(jax.jit(lambda a: ldiv.solve(a, jnp.asarray(B), method=method))(a))


REFUSED: dict[str, Callable[[Any], Any]] = {
    "a triangle of a Gram matrix": lambda a: ldiv.Gram(a) @ jnp.ones(N),
    "a null space": lambda a: ldiv.solve(a, jnp.ones(N), null_space=jnp.ones(N), assume_a="sym"),
    "a quadratic program": lambda a: ldiv.solve_qp(a, jnp.ones(N)),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_needs_the_pattern(what: str) -> None:
    with pytest.raises(TypeError, match="known pattern"):
        jax.jit(REFUSED[what])(KINDS["BCOO"](SYMMETRIC))
