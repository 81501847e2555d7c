"""A loop of JAX that runs zero times raises nothing, whatever is refused inside of it, and a branch
that is not taken neither; one trip raises what the call alone does. What does not change from step to
step is made once, outside of the loop.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from dense_functions import AT_HOST, DENSE, N

import ldiv

jax = pytest.importorskip("jax")
import jax.numpy as jnp  # noqa: E402

from ldiv.engines.libraries import native  # noqa: E402

jax.config.update("jax_enable_x64", True)
KINDS = (ValueError, ArithmeticError, jax.errors.JaxRuntimeError)
EYE, ONES = jnp.eye(3), jnp.ones(3)
SKEW = jnp.asarray([[0.0, 1, 0], [-1, 0, 0], [0, 0, 1]])

# a function, a matrix that it refuses, and the words of the refusal
REFUSED: dict[str, tuple[Callable[[Any], Any], Any, str]] = {
    "cholesky": (ldiv.cholesky, -EYE, "positive definite"),
    "solve": (lambda a: ldiv.solve(a, ONES), 0 * EYE + 1, "singular"),
    "solve pos": (lambda a: ldiv.solve(a, ONES, assume_a="pos"), -EYE, "positive definite"),
    "inv": (ldiv.inv, 0 * EYE, "singular"),
    "logdet": (ldiv.logdet, -EYE, "positive determinant"),
    "triangular": (lambda a: ldiv.solve_triangular(a, ONES), EYE - jnp.diag(ONES), "diagonal"),
    "lu": (lambda a: ldiv.lu_factor(a)[0], jnp.nan * EYE, "finite"),
    "sylvester": (lambda a: ldiv.solve_sylvester(a, -a, EYE), EYE, "singular|eigenvalue"),
    "superlu": (
        lambda a: ldiv.solve(ldiv.csr_array(a), ONES, method="superlu"),
        0 * EYE + 1,
        "singular",
    ),
}


def more(*names: str) -> list[Any]:
    return [pytest.param(name, marks=pytest.mark.exhaustive) for name in names]


def total(y: Any) -> Any:
    return sum(jnp.sum(jnp.abs(x)) for x in jax.tree.leaves(y))


def loops(f: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    """Loops whose body does not run for n = 0, and changes nothing from step to step."""

    def all_of(n: Any, a: Any) -> Any:
        add = lambda c: c + total(f(a))
        return (
            jax.lax.fori_loop(0, n, lambda _, c: add(c), 0.0),
            jax.lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, add(s[1])), (0, 0.0))[1],
            jax.lax.scan(lambda c, _: (add(c), None), 0.0, jnp.ones(0))[0],
            jax.lax.cond(n > 0, lambda: add(0.0), lambda: 0.0),
            jax.lax.fori_loop(0, n, lambda _, c: jax.lax.cond(c < 1, add, lambda c: c, c), 0.0),
        )

    return all_of


@pytest.mark.parametrize("name", ["cholesky", "solve", "sylvester", *more(*REFUSED)])
def test_what_is_refused(name: str) -> None:
    f, bad, words = REFUSED[name]
    program = jax.jit(loops(f))
    assert jax.tree.leaves(program(0, bad)) == [0.0] * 5
    for call in (lambda: f(bad), lambda: program(1, bad)):
        with pytest.raises(KINDS, match=words):
            jax.block_until_ready(call())


@pytest.mark.parametrize("name", ["solve", *more("cholesky", "logdet", "sylvester", "superlu")])
def test_derivatives(name: str) -> None:
    f, bad, words = REFUSED[name]
    in_loop = lambda n, a: loops(f)(n, a)[0]
    for g in (
        lambda n, a: jax.jvp(lambda a: in_loop(n, a), (a,), (a,)),
        lambda n, a: loops(jax.grad(lambda a: total(f(a))))(n, a)[0],
        lambda n, a: jax.grad(
            lambda a: jax.lax.cond(n > 0, lambda a: total(f(a)), lambda a: 0.0, a)
        )(a),
        lambda n, a: jax.vmap(in_loop, (None, 0))(n, jnp.stack([a, a])),
    ):
        program = jax.jit(g)
        assert not any(np.any(y) for y in jax.tree.leaves(program(0, bad)))
        with pytest.raises(KINDS, match=words):
            jax.block_until_ready(program(1, bad))


# no function of a program's, and those that take NaN
OTHERS = {"orth", "null_space", "gradient_error", "cdf2rdf", "inertia"}
EVERY = {name: f for name, f in (DENSE | AT_HOST).items() if name not in OTHERS}
SOME = (
    "solve",
    "cholesky",
    "qr",
    "svdvals",
    "lstsq",
    "solve_sylvester",
    "expm",
    "spsolve",
    "solve_qp",
)


def groups(names: Any, size: int = 12) -> Iterator[Any]:
    names = list(names)
    for i in range(0, len(names), size):
        yield pytest.param(names[i : i + size], marks=pytest.mark.exhaustive, id=names[i])


@pytest.mark.parametrize("names", [pytest.param(SOME, id="some"), *groups(EVERY)])
def test_every_function(names: Any) -> None:
    """The matrix is NaN, which all computations refuse, in one program."""
    bad, b = jnp.full((N, N), jnp.nan), jnp.full(N, jnp.nan)
    every = lambda n, a, b: jax.lax.fori_loop(
        0, n, lambda _, c: c + sum(total(EVERY[name](a, b)) for name in names), 0.0
    )
    assert jax.jit(every)(0, bad, b) == 0


# -- what is made outside -------------------------------------------------------

compiled = pytest.mark.skipif(native.native is None, reason=native.why_not)
A = jnp.asarray([[4.0, 1, 0], [1, 5, 2], [0, 2, 6]])
STEPS = 7
SOLVES: dict[str, Callable[[Any, Any], Any]] = {
    "dense": ldiv.solve,
    "dense, pos": lambda a, b: ldiv.solve(a, b, assume_a="pos"),
    "sparse, pos": lambda a, b: ldiv.solve(ldiv.csr_array(a), b, assume_a="pos"),
    "factorized": lambda a, b: ldiv.factorized(a).solve(b),
}


def walk(solve: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda a, b: jax.lax.scan(lambda x, _: (solve(a, x) + b, None), b, None, STEPS)[0]


@compiled
@pytest.mark.parametrize("name", SOLVES)
def test_a_constant_matrix_is_factored_once(name: str) -> None:
    """Outside of the loop, whose backward pass keeps one factor, not one for each step."""
    ours, jnps = walk(SOLVES[name]), walk(jnp.linalg.solve)
    both = lambda f: jax.value_and_grad(lambda a, b: f(a, b).sum(), (0, 1))
    for f, g in ((ours, jnps), (both(ours), both(jnps))):
        program = jax.jit(f).lower(A, ONES).compile()
        before, _, main = program.as_text().partition("ENTRY")
        made = '"factor"'
        assert (len(re.findall(made, before)), len(re.findall(made, main))) == (0, 1)
        expected = g(A + A.T, ONES) if f is ours else g(A, ONES)
        found = program(A + A.T if f is ours else A, ONES)
        for x, y in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
            x = x + x.T if x.ndim == 2 and "pos" in name else x  # of a symmetric matrix
            y = y + y.T if y.ndim == 2 and "pos" in name else y
            np.testing.assert_allclose(x, y, rtol=1e-10, atol=1e-12)
    text = str(jax.make_jaxpr(both(ours))(A, ONES))
    assert f"[{STEPS},3]" in text and f"[{STEPS},3,3]" not in text


@compiled
def test_what_is_constant_is_computed_once() -> None:
    """An answer is made in each step, of what was computed before."""
    f = lambda n, a: jax.lax.fori_loop(0, n, lambda _, c: c + ldiv.cholesky(a) + ldiv.inv(a), 0 * a)
    program = jax.jit(f).lower(3, A).compile()
    before, _, main = program.as_text().partition("ENTRY")
    assert [t.count('"compute"') for t in (before, main)] == [0, 2]
    assert [t.count('"answer"') for t in (before, main)] == [2, 0]
    expected = 3 * (np.linalg.cholesky(A) + np.linalg.inv(A))
    np.testing.assert_allclose(program(3, A), expected, rtol=1e-12)


@compiled
def test_what_is_not_used_is_not_computed() -> None:
    """A place in a program has an effect, and nothing else has: what nobody reads is left out."""
    f = lambda a: (a.sum(), ldiv.cholesky(a), ldiv.inv(a))[0]
    text = jax.jit(f).lower(A).compile().as_text()
    assert " compute" not in text and '"factor' not in text
    assert jax.jit(f)(-A) == -A.sum()
