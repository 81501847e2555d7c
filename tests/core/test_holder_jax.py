"""JAX: factors made of arrays are handed from a rule to its derivatives; the others are found in
a store, which has a bound.
"""

from __future__ import annotations

import re
import threading
from functools import partial

import numpy as np
import pytest

import ldiv
from ldiv.engines.factors import cache

jax = pytest.importorskip("jax")
import jax.numpy as jnp  # noqa: E402

jax.config.update("jax_enable_x64", True)
rng = np.random.default_rng(0)
EYE, ONES = jnp.asarray(np.eye(5)), jnp.asarray(np.ones(5))
dense = rng.standard_normal((5, 5)) + 5 * np.eye(5)
DENSE, POSITIVE = jnp.asarray(dense), jnp.asarray(dense @ dense.T)
STEPS = jnp.asarray(np.arange(3.0) / 10)


# -- dense: factors are arrays ------------------------------------------------

LU, CHOLESKY, QR = "getrf", "potrf", "geqrf"
# function of a matrix, the kernel of LAPACK that factors, factorizations in a step
DENSE_LOOPS = {
    "solve": (lambda a: ldiv.solve(a, ONES).sum(), LU, 1),
    "solve with a promise": (lambda a: ldiv.solve(a + a.T, ONES, assume_a="sym").sum(), LU, 1),
    "positive definite": (lambda a: ldiv.solve(a, ONES, assume_a="pos").sum(), CHOLESKY, 1),
    "transposed": (lambda a: ldiv.solve(a, ONES, trans="T").sum(), LU, 1),
    "logdet": (partial(ldiv.logdet, assume_a="pos"), CHOLESKY, 1),
    "quad_form": (lambda a: ldiv.quad_form(a, ONES, assume_a="pos"), CHOLESKY, 1),
    # two factors by XLA, each with a second attempt that runs where the matrix appears singular
    "Kronecker": (lambda a: ldiv.solve(ldiv.kron(a, a + EYE), jnp.ones(25)).sum(), LU, 4),
    "lstsq": (lambda a: ldiv.lstsq(a[:, :3], ONES)[0].sum(), QR, 1),
}


def looped(f, a):
    """The sum over matrices that each step makes."""
    return jax.lax.scan(lambda total, s: (total + f(a + s * EYE), None), 0.0, STEPS)[0]


def factorizations(program, kernel):
    """Count factorizations by LAPACK in XLA, or in a compiled call of ours."""
    kind = {LU: "[LH]", CHOLESKY: "C"}.get(kernel, "none")
    ours = f'kind = "{kind}", op = "N", what = "factor"'
    return len(re.findall(f'"lapack_[dz]{kernel}|{ours}', program.as_text()))


def few(every, *shown):
    """Each compiles for seconds: some in `make test`."""
    return [pytest.param(x, marks=() if x in shown else pytest.mark.exhaustive) for x in every]


@pytest.mark.parametrize("name", few(DENSE_LOOPS, "solve"))
def test_the_backward_pass_of_a_loop_factors_nothing(name):
    f, kernel, expected = DENSE_LOOPS[name]
    program = jax.jit(jax.value_and_grad(partial(looped, f))).lower(POSITIVE).compile()
    assert factorizations(program, kernel) == expected
    value, gradient = program(POSITIVE)
    one = jax.jit(jax.value_and_grad(f))
    each = [one(POSITIVE + s * EYE) for s in STEPS]
    np.testing.assert_allclose(value, sum(y for y, _ in each), rtol=1e-12)
    np.testing.assert_allclose(gradient, sum(g for _, g in each), rtol=1e-10, atol=1e-12)


def chain(solve, a, b):
    """Each step solves with a matrix that depends on the solution before."""
    return jnp.sum(
        jnp.abs(
            jax.lax.scan(lambda x, s: (jnp.sin(solve(a + s * x[0] * EYE, x)), None), b, STEPS)[0]
        )
        ** 2
    )


def matrices(a):
    return jnp.stack([a, 2 * a])


both = partial(jax.grad, argnums=(0, 1))
MODES = {
    "grad": lambda f: both(f)(DENSE, ONES),
    "complex": lambda f: both(f)(DENSE + 1j * EYE, ONES + 1j),
    "real and complex": lambda f: both(f)(DENSE, ONES + 1j),
    "hvp": lambda f: jax.jvp(both(f), (DENSE, ONES), (DENSE, ONES)),
    "reverse over reverse": lambda f: jax.grad(lambda a: jnp.sum(jax.grad(f)(a, ONES) ** 2))(DENSE),
    "reverse over forward": lambda f: jax.grad(lambda a: jax.jvp(f, (a, ONES), (DENSE, ONES))[1])(
        DENSE
    ),
    "vmap(grad) over matrices": lambda f: jax.vmap(both(f), (0, None))(matrices(DENSE), ONES),
    "vmap(grad) over right-hand sides": lambda f: jax.vmap(both(f), (None, 0))(
        DENSE, jnp.stack([ONES, 2 * ONES])
    ),
    "vmap(hvp)": lambda f: jax.vmap(lambda b: jax.jvp(both(f), (DENSE, b), (DENSE, b)))(
        jnp.stack([ONES, 2 * ONES])
    ),
    "vmap(vmap(grad))": lambda f: jax.vmap(jax.vmap(both(f), (None, 0)), (0, None))(
        matrices(DENSE), jnp.stack([ONES, 2 * ONES])
    ),
    "grad(vmap)": lambda f: jax.grad(lambda a: jax.vmap(f, (0, None))(a, ONES).sum())(
        matrices(DENSE)
    ),
}


@pytest.mark.parametrize("mode", few(MODES, "complex", "vmap(grad) over matrices"))
def test_every_mode_of_a_loop_factors_once(mode):
    program = jax.jit(lambda: MODES[mode](partial(chain, ldiv.solve))).lower().compile()
    assert factorizations(program, LU) == 1
    expected = jax.jit(lambda: MODES[mode](partial(chain, jnp.linalg.solve)))()
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-9, atol=1e-12), program(), expected)


@pytest.mark.exhaustive
def test_what_is_saved_or_run_step_by_step_is_right():
    """A checkpoint makes its factors anew; a program may be run one operation at a time, or
    compiled in parts.
    """
    f, g = partial(chain, ldiv.solve), partial(chain, jnp.linalg.solve)
    expected = both(g)(DENSE, ONES)
    program = jax.make_jaxpr(both(lambda a, b: jnp.sum(ldiv.solve(a, b) ** 2)))(DENSE, ONES)
    push = jax.linearize(f, DENSE, ONES)[1]
    got = both(jax.checkpoint(f))(DENSE, ONES)
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-10), got, expected)
    np.testing.assert_allclose(
        jax.jit(push)(DENSE, ONES), jax.jvp(g, (DENSE, ONES), (DENSE, ONES))[1], rtol=1e-10
    )
    step_by_step = jax.core.eval_jaxpr(program.jaxpr, program.consts, DENSE, ONES)
    once = both(lambda a, b: jnp.sum(jnp.linalg.solve(a, b) ** 2))(DENSE, ONES)
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-10), tuple(step_by_step), once)


def test_what_is_handed_on_was_looked_at_once():
    """There are two places where the program can raise, for A and b, and for x_bar; the first
    comes first.
    """
    gradient = jax.jit(jax.grad(lambda a, b: jnp.sum(ldiv.solve(a, b) ** 2)))
    program = gradient.lower(DENSE, ONES)
    if ldiv.jax_export_checks():  # where ldiv is compiled
        calls = re.findall('callback|"factor"|"answer"', program.as_text())
        assert sorted(calls) == ['"answer"', '"answer"', '"factor"']
    compiled = program.compile()
    twice = DENSE.at[0].set(DENSE[1])
    for bad, message in (
        (0 * DENSE, "singular"),
        (twice, "singular"),
        (DENSE * jnp.nan, "A: expected finite"),
    ):
        with pytest.raises((ValueError, jax.errors.JaxRuntimeError), match=message):
            jax.block_until_ready(compiled(bad, ONES))
    with ldiv.errstate(singular="ignore"):
        assert jnp.isfinite(
            jax.jit(jax.grad(lambda a: ldiv.solve(a, ONES).sum()))(
                DENSE.at[0].set(DENSE[1] * (1 + 1e-16)).at[0, 0].add(1e-13)
            )
        ).all()


# -- sparse, by others' engines: factors are found in the store -----------------------------------

N = 50
ROWS, COLS = np.nonzero(abs(np.subtract.outer(range(N), range(N))) < 2)
VALUES = jnp.asarray(np.where(ROWS == COLS, 4.0, -1.0) + 0.1 * rng.standard_normal(len(ROWS)))
RIGHT = jnp.asarray(np.ones(N))


@pytest.fixture
def limited():
    """Set a limit, which is undone afterwards."""
    before = ldiv.cache_info().limit
    yield ldiv.set_cache_limit
    ldiv.set_cache_limit(before)


@pytest.fixture
def comparisons(monkeypatch):
    """Count the kept values that are compared with given ones."""
    seen = []
    same = cache.equal
    monkeypatch.setattr(cache, "equal", lambda *given: seen.append(1) or same(*given))
    return seen


def sparse_solve(v, b):
    return ldiv.solve(ldiv.coo_array((v, (ROWS, COLS)), shape=(N, N)), b, method="superlu")


def walk(v, scales):
    """A solve in each step, each with other values, of the solution before."""
    return jax.lax.scan(lambda x, s: (sparse_solve(v * s, x), x[0]), RIGHT, scales)[0].sum()


def dense_walk(v, scales):
    a = jnp.zeros((N, N)).at[ROWS, COLS].set(v)
    return jax.lax.scan(lambda x, s: (jnp.linalg.solve(a * s, x), x[0]), RIGHT, scales)[0].sum()


def test_the_backward_pass_of_a_loop_finds_all_factors(limited, comparisons):
    """The second time, when it is known how many there are, while they fit; else it factors again,
    and the bytes are those that were allowed.
    """
    scales = 1 + jnp.arange(200) / 400
    run, backward = jax.jit(walk), jax.jit(jax.value_and_grad(walk))
    run(VALUES, scales).block_until_ready()
    assert ldiv.cache_info()[1:3] == (200, 0)
    assert ldiv.cache_info().entries == 2
    ldiv.clear_cache()
    value, gradient = jax.block_until_ready(backward(VALUES, scales))
    assert ldiv.cache_info()[1:3] == (398, 2)
    for k in (1, 2, 3):
        jax.block_until_ready(backward(VALUES, k + scales))
        assert ldiv.cache_info()[1:3] == (398 + 200 * k, 2 + 200 * k)
    weight = ldiv.cache_info().bytes // ldiv.cache_info().entries
    expected = jax.value_and_grad(dense_walk)(VALUES, scales)
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-10), (value, gradient), expected)
    for room in (0, 20 * weight + 1):
        limited(room)
        for k in (4, 5):
            before = ldiv.cache_info().factorizations
            again = jax.block_until_ready(backward(VALUES, k + scales))
            assert ldiv.cache_info().bytes <= room
        assert ldiv.cache_info().factorizations - before == 400 - room // weight
        again = jax.block_until_ready(backward(VALUES, scales))
        jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-10), again, expected)


def test_a_loop_keeps_two_factors_of_each_pattern(comparisons):
    """Also after one that needed many, and after twice as many steps as these."""
    step = jax.jit(jax.value_and_grad(lambda v: sparse_solve(v, RIGHT).sum()))
    jax.block_until_ready(jax.jit(jax.grad(walk))(VALUES, 1 + jnp.arange(30) / 60))
    entries = []
    for i in range(300):
        jax.block_until_ready(step(VALUES * (2 + i)))
        entries.append(ldiv.cache_info().entries)
    assert max(entries) <= 64
    assert set(entries[250:]) == {2}
    assert len(comparisons) <= 330


def test_matrices_in_turn_are_found_once_there_is_room():
    """Five of one pattern in each step, whose factors are asked for in the next step, too."""
    step = jax.jit(jax.value_and_grad(lambda v: sparse_solve(v, RIGHT).sum()))
    made = []
    for _ in range(6):
        before = ldiv.cache_info().factorizations
        for k in range(1, 6):
            jax.block_until_ready(step(VALUES * k))
        made.append(ldiv.cache_info().factorizations - before)
    assert made[0] == 5
    assert made[2:] == [0] * 4


def test_a_batch_of_gradients_factors_each_matrix_once(comparisons):
    many = VALUES * (1 + jnp.arange(256)[:, None] / 256)
    jax.block_until_ready(jax.jit(jax.vmap(jax.grad(lambda v: sparse_solve(v, RIGHT).sum())))(many))
    assert ldiv.cache_info().factorizations == 256
    assert ldiv.cache_info().entries == 256
    assert len(comparisons) == 1


EDGE = np.searchsorted(ROWS * N + COLS, [10 * N + 10, 10 * N + 11, 11 * N + 10, 11 * N + 11])


@pytest.mark.exhaustive
def test_late_steps_visit_no_more_than_early_ones(comparisons):
    """Visits do not grow even if one edge of a Laplacian is all that differs, so that all values of
    all steps have the same sum.
    """
    step = jax.grad(lambda v: sparse_solve(v, RIGHT).sum())
    for i in range(600):
        step(VALUES.at[EDGE].add(i / 1024 * jnp.asarray([1.0, -1.0, -1.0, 1.0])))
    assert ldiv.cache_info()[1:3] == (600, 600)
    assert len(comparisons) == 600


def test_a_long_loop_keeps_what_the_limit_allows(limited):
    n, steps = 3, 10_000
    limited(100_000)

    def step(total, s):
        a = ldiv.csc_array(
            (jnp.stack([s, 1.0, s, s]), np.array([0, 1, 1, 2]), np.array([0, 2, 3, 4])),
            shape=(n, n),
        )
        return total + ldiv.solve(a, jnp.ones(n), method="superlu"), None

    jax.block_until_ready(
        jax.jit(lambda scales: jax.lax.scan(step, jnp.zeros(n), scales)[0])(
            1 + jnp.arange(steps) / steps
        )
    )
    assert ldiv.cache_info().factorizations == steps
    assert 0 < ldiv.cache_info().bytes <= 100_000


def test_two_threads_share_the_store():
    scales = [1 + jnp.arange(40) / 80, 2 + jnp.arange(40) / 80]
    backward = [jax.jit(jax.grad(lambda v, s, k=k: k * walk(v, s))) for k in (1.0, 2.0)]
    expected = [jax.grad(dense_walk)(VALUES, s) * k for k, s in zip((1, 2), scales, strict=True)]
    results = [[], []]

    def work(k):
        results[k] += [np.asarray(backward[k](VALUES, scales[k])) for _ in range(3)]

    threads = [threading.Thread(target=work, args=(k,)) for k in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(25)
    for got, right in zip(results, expected, strict=True):
        assert len(got) == 3
        for g in got:
            np.testing.assert_allclose(g, right, rtol=1e-10)
    # each thread has 40 matrices, in three runs: where both come at once, some are factored again
    assert 80 <= ldiv.cache_info().factorizations < 240
