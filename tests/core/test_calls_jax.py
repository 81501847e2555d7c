"""One call with arrays of JAX: planned once, run by compiled code on their memory, kept by the store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from frames import frames

import ldiv
from ldiv.core.calls import call as calls
from ldiv.core.owners.holder import store
from ldiv.engines.libraries import native

jax = pytest.importorskip("jax")
import jax.numpy as jnp  # noqa: E402

jax.config.update("jax_enable_x64", True)
pytestmark = pytest.mark.skipif(native.native is None, reason=native.why_not)

rng = np.random.default_rng(0)
a, b = rng.standard_normal((24, 24)) + 9 * np.eye(24), rng.standard_normal(24)
A, B, S = jnp.asarray(a), jnp.asarray(b), jnp.asarray((a @ a.T + (a @ a.T).T) / 2)
# at most so many functions of Python, 4 to 10 of them of other front ends that are loaded
CALLS: dict[str, tuple[int, Callable[[Any], Any], Any]] = {
    "solve": (70, lambda m: ldiv.solve(m, B), A),
    "solve pos": (70, lambda m: ldiv.solve(m, B, assume_a="pos"), S),
    "solve block": (70, lambda m: ldiv.solve(m, S), A),
    "triangle": (70, lambda m: ldiv.solve_triangular(m, B, lower=True), A),
    "logdet": (70, ldiv.logdet, S),
    "slogdet": (70, ldiv.slogdet, A),
    "cholesky": (70, ldiv.cholesky, S),
    "lu_factor": (70, ldiv.lu_factor, A),
    "factorized": (400, lambda a: ldiv.factorized(a).solve(B), A),  # copies are JAX's
}
each = pytest.mark.parametrize("name", CALLS)


@each
def test_a_call_enters_few_functions_from_the_second_on(name: str) -> None:
    most, f, x = CALLS[name]
    f(x)
    ldiv.clear_cache()
    f(x)
    counts = [frames(lambda: f(x)) for _ in range(3)]
    assert counts[0] == counts[1] == counts[2] <= most


def test_a_matrix_that_is_held_costs_what_a_solve_costs() -> None:
    import ldiv.distributed

    held = ldiv.factorized(A)
    held.solve(B), held.solve(B)
    assert frames(lambda: held.solve(B)) <= 74  # 67 where JAX alone is loaded


@each
def test_results_are_those_of_a_program(name: str) -> None:
    _, f, x = CALLS[name]
    for y, z in zip(jax.tree.leaves(f(x)), jax.tree.leaves(jax.jit(f)(x)), strict=True):
        assert (y.shape, y.dtype, y.weak_type, y.committed) == (z.shape, z.dtype, False, False)
        np.testing.assert_allclose(y, z, rtol=1e-11, atol=1e-11)


def test_sizes_of_batches_and_columns_are_no_part_of_the_kind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    planned: list[Any] = []

    def remember(table: Any, key: Any, *rest: Any, own: Any = calls._remember) -> None:
        planned.append(key)
        own(table, key, *rest)

    monkeypatch.setattr(calls, "_remember", remember)
    ldiv.clear_cache()
    for k in range(1, 6):
        ldiv.solve(A, jnp.asarray(np.ones((24, k))))
        ldiv.solve(jnp.asarray(np.stack([a] * k)), jnp.asarray(np.ones((k, 24, 2))))
    assert len(planned) == 2


def test_nothing_is_copied_and_nothing_is_written() -> None:
    """An argument keeps its memory, and a result is no view of one."""
    x = ldiv.solve(A, B)
    given = np.asarray(A).copy()
    y = ldiv.solve_triangular(A, B)
    np.testing.assert_array_equal(A, given)
    donated = jax.jit(lambda v: v + 1, donate_argnums=0)(ldiv.solve(A, B))
    np.testing.assert_array_equal(donated, x + 1)
    np.testing.assert_allclose(given @ np.asarray(x), b, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(np.triu(given) @ np.asarray(y), b, rtol=1e-12, atol=1e-12)


def test_a_value_and_a_gradient_take_one_factorization() -> None:
    ldiv.clear_cache()
    own = A + 1  # whose factor nobody holds
    ldiv.solve(own, B), ldiv.slogdet(own), jax.grad(lambda m: ldiv.solve(m, B).sum())(own)
    assert ldiv.cache_info().factorizations == 1


def test_a_loop_keeps_two_factors() -> None:
    """Two matrices in turn, in values and in gradients, are found again once they are asked for
    again.
    """
    ldiv.clear_cache()
    step = jax.value_and_grad(lambda m: ldiv.solve(m, B).sum())
    before = ldiv.cache_info().entries
    for i in range(10):
        step(A + (1 + i) * jnp.eye(24))
        assert ldiv.cache_info().entries <= before + 2
    assert ldiv.cache_info().factorizations == 10
    matrices = [A + (1 + i) * jnp.eye(24) for i in range(8)]
    for _ in range(4):
        count = ldiv.cache_info().factorizations
        for m in matrices:
            ldiv.solve(m, B)
    assert ldiv.cache_info().factorizations == count
    assert len(store._kept) <= 16


def test_errors_are_those_of_the_first_call() -> None:
    ldiv.solve(A, B), ldiv.cholesky(S), ldiv.logdet(S)
    for _ in range(2):
        with pytest.raises(ldiv.SingularMatrixError):
            ldiv.solve(jnp.ones((24, 24)), B)
        with pytest.raises(ValueError, match="finite"):
            ldiv.solve(A, B * jnp.nan)
        with pytest.raises(ldiv.NotPositiveDefiniteError):
            ldiv.cholesky(-S)
        with pytest.raises(ldiv.NotPositiveDefiniteError):
            ldiv.solve(-S, B, assume_a="pos")
        with pytest.raises(ValueError, match="positive"):
            ldiv.logdet(jnp.diag(jnp.asarray([-1.0, *[1.0] * 23])))


def test_what_is_no_plain_array_goes_another_way() -> None:
    """Arrays that are traced, deleted, or left over from a trace are not read."""
    left: list[Any] = []

    @jax.jit
    def f(m: Any) -> Any:
        left.append(m)
        return ldiv.solve(m, B) + ldiv.solve(A, B)

    np.testing.assert_allclose(f(A), 2 * np.linalg.solve(a, b), rtol=1e-11, atol=1e-11)
    with pytest.raises(jax.errors.UnexpectedTracerError):
        ldiv.solve(left[0], B)
    gone = A + 1
    gone.delete()
    with pytest.raises(RuntimeError, match="deleted"):
        ldiv.solve(gone, B)


@pytest.mark.parametrize("kinds", ["fd", "Fd", "dD", "id", "df"])
def test_mixed_kinds_are_as_for_numpy(kinds: str) -> None:
    given, right = np.round(8 * a).astype(kinds[0]), np.round(8 * b).astype(kinds[1])
    for _ in range(2):
        x = ldiv.solve(jnp.asarray(given), jnp.asarray(right))
        assert x.dtype == ldiv.solve(given, right).dtype
        np.testing.assert_allclose(x, np.linalg.solve(given, right), rtol=2e-4, atol=1e-5)


SHAPES = [
    ((0, 0), (0,)),
    ((1, 1), (1,)),
    ((3, 4, 4), (4, 2)),
    ((4, 4), (3, 4, 1)),
    ((0, 4, 4), (0, 4, 1)),
]


@pytest.mark.parametrize("shapes", SHAPES)
@pytest.mark.parametrize("is_complex", [False, True])
def test_cotangents_are_those_of_numpy(shapes: Any, is_complex: bool) -> None:
    """JAX's are the conjugates of ours."""
    m, r = (rng.standard_normal(s) + 1j * is_complex * rng.standard_normal(s) for s in shapes)
    m, r = (m, r) if is_complex else (m.real.copy(), r.real.copy())
    m = m + 6 * np.eye(m.shape[-1])
    for f, xs in ((ldiv.solve, (m, r)), (ldiv.solve_triangular, (m, r)), (ldiv.inv, (m,))):
        y, pull = ldiv.vjp(f, *xs)
        bar = y + 1
        z, jax_pull = jax.vjp(f, *map(jnp.asarray, xs))
        np.testing.assert_allclose(z, y, rtol=1e-11, atol=1e-12)
        for g, h in zip(jax_pull(jnp.asarray(bar).conj()), pull(bar), strict=True):
            assert (g.shape, g.dtype) == (h.shape, h.dtype)
            np.testing.assert_allclose(g.conj(), h, rtol=1e-10, atol=1e-12)
