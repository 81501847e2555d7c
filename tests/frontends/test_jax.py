"""JAX: every rule, under every transformation, gives what jax.numpy gives on dense arrays, with
one factorization.
"""

from __future__ import annotations

import importlib
import itertools
import pkgutil
import subprocess
import sys
from functools import partial

import numpy as np
import pytest
import scipy.sparse

import ldiv
from ldiv.core.frameworks.trees import leaves, rebuild
from ldiv.core.rules.rule import bind
from ldiv.engines.libraries import native
from ldiv.linalg.arguments import solve_problem

jax = pytest.importorskip("jax")
import jax.numpy as jnp  # noqa: E402
from jax.experimental import sparse as jsparse  # noqa: E402

jax.config.update("jax_enable_x64", True)
N = 6
ROWS, COLS = (
    i.astype(np.int32) for i in np.nonzero(abs(np.subtract.outer(range(N), range(N))) < 2)
)


@pytest.fixture
def no_doubles():
    jax.config.update("jax_enable_x64", False)
    yield
    jax.config.update("jax_enable_x64", True)


def draw(rng, kind, *shape):
    x = rng.standard_normal(shape)
    return x + 1j * rng.standard_normal(shape) if kind == "complex" else x


def problem(kind="real", dtype=None, batch=()):
    rng = np.random.default_rng(1)
    v = draw(rng, kind, *batch, len(ROWS)) + 4.0 * (ROWS == COLS)
    b = draw(rng, kind, N, 2)
    return jnp.asarray(v, dtype), jnp.asarray(b, dtype)


def sparse_solve(v, b, **options):
    return ldiv.solve(ldiv.coo_array((v, (ROWS, COLS)), shape=(N, N)), b, **options)


def densified(v):
    return jnp.zeros((*v.shape[:-1], N, N), v.dtype).at[..., ROWS, COLS].add(v)


def dense_solve(v, b):
    return ldiv.solve(densified(v), b)


def reference(v, b):
    return jnp.linalg.solve(densified(v), b)


def loss(solve, v, b):
    x = solve(v, b)
    return jnp.sum(jnp.sin(x.real) * jnp.cos(2 * x.imag) + x.real**2)


def close(got, expected, eps=1e-12):
    got, expected = (jax.tree.leaves(tree) for tree in (got, expected))
    assert len(got) == len(expected)
    for x, y in zip(got, expected, strict=True):
        assert (x.dtype == y.dtype or x.dtype.kind in "iu") and x.shape == y.shape
        np.testing.assert_allclose(x, y, rtol=eps, atol=eps * max(1.0, float(jnp.abs(y).max())))


BOTH = pytest.mark.parametrize("solve", [sparse_solve, dense_solve])
JIT = pytest.mark.parametrize("jit", [lambda f: f, jax.jit], ids=["eager", "jit"])


def agree(f, g, *args, eps=1e-12):
    """f, compiled, gives what g gives; compiled together."""
    close(*jax.jit(lambda *args: (f(*args), g(*args)))(*args), eps)


# -- every rule, compiled, against NumPy --------------------------------------


def cases(kind):
    take = partial(draw, np.random.default_rng(3), kind)
    found = [list(m.cases(take)) for m in modules("ldiv.structures")]
    return {
        m.__name__: list(m.cases([some[0] for some in found if some], take))
        for m in modules("ldiv.rules")
    }


def modules(package):
    found = (
        importlib.import_module(f"{package}.{m.name}")
        for m in pkgutil.iter_modules(importlib.import_module(package).__path__)
    )
    return [m for m in found if hasattr(m, "cases")]


def cotangent(y):
    return (
        None
        if y.dtype.kind in "iu"
        else draw(np.random.default_rng(4), y.dtype.kind == "c" and "complex", *y.shape)
    )


def of_integers(y):
    """The cotangent of integers in JAX."""
    return np.zeros(y.shape, jax.dtypes.float0)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", [m.__name__ for m in modules("ldiv.rules")])
def test_rules_compile(name):
    """The conformance suite checks every derivative of one case of each kind; here values and
    cotangents of all cases come out of one program.
    """
    found = cases("complex")[name]
    bars = [tuple(cotangent(y) for y in bind(rule, *args)) for rule, args in found]

    def program(all_flat, bars):
        for (rule, args), flat, bar in zip(found, all_flat, bars, strict=True):
            y, pullback = jax.vjp(
                lambda *flat, rule=rule, args=args: bind(rule, *rebuild(args, flat)), *flat
            )
            yield (
                y,
                jax.tree.map(
                    jnp.conj,
                    pullback(
                        tuple(
                            of_integers(v) if c is None else jnp.conj(c)
                            for v, c in zip(y, bar, strict=True)
                        )
                    ),
                ),
            )

    results = jax.jit(lambda *given: list(program(*given)))(
        [leaves(args) for _, args in found], bars
    )
    for (rule, args), bar, (y, got) in zip(found, bars, results, strict=True):
        out = bind(rule, *args)
        expected = leaves(rule.vjp(rebuild(args, [True for _ in leaves(args)]), bar, out, *args))
        close(y, out)
        for g, e, x in zip(got, expected, leaves(args), strict=True):
            close(g, e.sum(axis=tuple(range(e.ndim - x.ndim))).astype(x.dtype))


# -- the solve under every transformation -------------------------------------


@pytest.mark.parametrize(
    ("solve", "jit", "kind"),
    [
        (sparse_solve, lambda f: f, "complex"),
        (sparse_solve, jax.jit, "complex"),
        (dense_solve, jax.jit, "real"),
        pytest.param(sparse_solve, jax.jit, "real", marks=pytest.mark.exhaustive),
        pytest.param(dense_solve, jax.jit, "complex", marks=pytest.mark.exhaustive),
    ],
)
def test_gradients(solve, jit, kind):
    def everything(solve, v, b):
        y, push = jax.linearize(solve, v, b)
        return (
            y,
            push(v, b),
            jax.value_and_grad(partial(loss, solve), (0, 1))(v, b),
            jax.jvp(solve, (v, b), (b[0, 0] * v, b)),
        )

    args = problem(kind)
    close(jit(partial(everything, solve))(*args), jax.jit(partial(everything, reference))(*args))


@pytest.mark.exhaustive  # the laws of front ends show all four compositions
@pytest.mark.parametrize(("solve", "kind"), [(sparse_solve, "complex"), (dense_solve, "real")])
def test_second_order(solve, kind):
    """Real and imaginary parts are arguments, so that complex solves have a Hessian, too."""
    v, b = problem(kind)

    def of_parts(solve, re, im):
        return loss(solve, v + re + (1j * im if kind == "complex" else im**2), b * (1 + re[0]))

    parts = jnp.zeros_like(v.real), jnp.zeros_like(v.real)
    f, g = (partial(of_parts, s) for s in (solve, reference))

    def compositions(*parts):
        return [
            outer(inner(f, (0, 1)), (0, 1))(*parts)
            for outer, inner in itertools.product((jax.jacfwd, jax.jacrev), repeat=2)
        ]

    agree(compositions, lambda *parts: [jax.hessian(g, (0, 1))(*parts)] * 4, *parts, eps=1e-11)


@pytest.mark.exhaustive  # JAX compiles it for seconds; the laws of front ends mix them, too
def test_mixed_real_and_complex():
    (v, _), (_, b) = problem("real"), problem("complex")

    def everything(one, other):
        return lambda v, b: [
            jax.grad(partial(loss, s), (0, 1))(*args)
            for s in (one, other)
            for args in ((v, b), (v + 0j, b.real))
        ]

    agree(everything(sparse_solve, dense_solve), everything(reference, reference), v, b)


@pytest.mark.parametrize(
    ("solve", "axes"),
    [
        (sparse_solve, (None, 0)),
        (sparse_solve, (1, 2)),
        *(
            pytest.param(*case, marks=pytest.mark.exhaustive)
            for case in (
                (sparse_solve, (0, None)),
                (sparse_solve, (0, 0)),
                (dense_solve, (0, 0)),
                (dense_solve, (None, 0)),
            )
        ),
    ],
)
def test_vmap(solve, axes):
    v, b = problem(batch=(3,))
    args = (
        v if axes[0] is not None else v[0],
        jnp.stack([b, 2 * b, b + 1]) if axes[1] is not None else b,
    )
    args = tuple(jnp.moveaxis(x, 0, d) if d else x for x, d in zip(args, axes, strict=True))

    def everything(solve, *args):
        return (
            jax.vmap(solve, axes)(*args),
            jax.vmap(jax.grad(partial(loss, solve), (0, 1)), axes)(*args),
            jax.vmap(lambda v, b: jax.jvp(solve, (v, b), (v, b))[1], axes)(*args),
            jax.grad(lambda v, b: jax.vmap(partial(loss, solve), axes)(v, b).sum(), (0, 1))(*args),
        )

    agree(partial(everything, solve), partial(everything, reference), *args)


@pytest.mark.covering(1)
@BOTH
@pytest.mark.parametrize("dtype", ["float32", "complex64"])
@pytest.mark.usefixtures("no_doubles")
def test_single_precision(solve, dtype):
    args = problem("complex" if dtype == "complex64" else "real", dtype)
    assert args[0].dtype == dtype
    agree(
        *(jax.value_and_grad(partial(loss, s), (0, 1)) for s in (solve, reference)), *args, eps=1e-4
    )


@pytest.mark.parametrize(
    "kind",
    ["jvp", *(pytest.param(k, marks=pytest.mark.exhaustive) for k in ("vmap", "grad", "hessian"))],
)
def test_at_an_array_of_numpy(kind):
    """Transformed at an array of NumPy, beside arrays of JAX: as at the array of JAX."""
    a, b = 3 * np.eye(N) + np.ones((N, N)), jnp.ones(N)

    def f(a):
        return (ldiv.solve(a, b) ** 2).sum() + ldiv.logdet(a)

    transformed = {
        "grad": lambda a: jax.value_and_grad(f)(a)[1],
        "jvp": lambda a: jax.jvp(f, (a,), (a,))[1],
        "vmap": lambda a: jax.vmap(f)(a[None]),
        "hessian": lambda a: jax.jvp(jax.grad(f), (a,), (a,))[1],
    }[kind]
    np.testing.assert_allclose(transformed(a), transformed(jnp.asarray(a)), rtol=1e-12)


@pytest.mark.parametrize(
    "solve", [sparse_solve, pytest.param(dense_solve, marks=pytest.mark.exhaustive)]
)
def test_control_flow(solve):
    v, b = problem()

    def scanned(solve, v, b):
        return jax.lax.scan(lambda x, _: (solve(v, x), jnp.sum(x)), b, None, length=3)

    def branching(solve, v, b):
        return jax.lax.cond(b[0, 0] > 0, solve, lambda v, b: 2 * solve(v, b), v, b)

    def saved(solve, v, b):
        return jax.checkpoint(lambda v, b: jnp.sin(solve(v, jnp.sin(b))))(v, b)

    def everything(solve, v, b):
        for f in (scanned, branching, saved):
            yield jax.jvp(partial(f, solve), (v, b), (v, b))
            yield jax.grad(
                lambda v, b, f=f: sum(jnp.sum(jnp.sin(y)) for y in jax.tree.leaves(f(solve, v, b))),
                (0, 1),
            )(v, b)

    agree(
        lambda *args: list(everything(solve, *args)),
        lambda *args: list(everything(reference, *args)),
        v,
        b,
    )


def test_custom_linear_solve():
    """JAX transposes the matrix-vector product of ldiv, and a solve where it is linear."""
    v, b = problem()

    def f(v, b):
        array = ldiv.coo_array((v, (ROWS, COLS)), shape=(N, N))
        return jax.lax.custom_linear_solve(
            lambda x: array @ x,
            b,
            lambda _, r: ldiv.solve(array, r),
            lambda _, r: ldiv.solve(array.T, r),
        )

    close(jax.jit(f)(v, b), reference(v, b))
    close(
        jax.grad(partial(loss, f), (0, 1))(v, b), jax.grad(partial(loss, reference), (0, 1))(v, b)
    )
    for solve in (sparse_solve, dense_solve):
        for block in (b, b[:, 0]):
            found = jax.linear_transpose(partial(solve, v), block)(block)[0]
            close(found, jnp.linalg.solve(densified(v).T, block))
        with pytest.raises(TypeError, match="in which Solve is linear"):
            jax.linear_transpose(lambda v, solve=solve: solve(v, b), v)(b)
    for matrix in (
        np.asarray(densified(v)),
        ldiv.coo_array((np.asarray(v), (ROWS, COLS)), shape=(N, N)),
    ):
        found = jax.linear_transpose(lambda b, matrix=matrix: ldiv.solve(matrix, b), b)(b)[0]
        close(found, jnp.linalg.solve(densified(v).T, b))  # of constants of NumPy


@pytest.mark.parametrize(
    ("solve", "kind"),
    [
        (ldiv.lstsq, np.asarray),
        (ldiv.lstsq, scipy.sparse.csr_array),
        (ldiv.lsqr, np.asarray),
        (ldiv.lsqr, scipy.sparse.csr_array),
        (ldiv.lsmr, scipy.sparse.csr_array),
    ],
)
def test_least_squares_are_transposed_where_they_are_linear(solve, kind):
    """x = A^+ b: its transpose is (A^+)^T; so is that of the shortest x of a wide A."""
    rng = np.random.default_rng(0)
    tall = rng.standard_normal((8, 3)) + 1j * rng.standard_normal((8, 3))
    for A in (tall.real, tall.real.T, tall, tall.T):
        b, x_bar = (rng.standard_normal(n).astype(A.dtype) for n in A.shape)
        for options in ({}, {"damp": 0.5}):
            found = jax.linear_transpose(lambda b, A=A, o=options: solve(kind(A), b, **o)[0], b)
            damp = options.get("damp", 0.0)
            inverse = np.linalg.pinv(np.vstack([A, damp * np.eye(A.shape[1])]))[:, : A.shape[0]]
            for transposed in (found, jax.jit(found)):
                np.testing.assert_allclose(transposed(x_bar)[0], inverse.T @ x_bar, rtol=1e-7)
    with pytest.raises(TypeError, match="is linear"):
        jax.linear_transpose(lambda A: solve(A, b)[0], jnp.asarray(A))(x_bar)


@pytest.mark.parametrize("kind", [np.asarray, scipy.sparse.csr_array])
@pytest.mark.parametrize("scale", [2.0**-540, 2.0**540, 2.0**-960])
def test_least_squares_are_transposed_in_all_units(kind, scale):
    """(s A)^+ = A^+ / s, also where A^+ (A^+)^T has no place in the range."""
    rng = np.random.default_rng(0)
    tall = rng.standard_normal((8, 3))
    for A in (tall, tall.T):
        b, x_bar = (rng.standard_normal(n) for n in A.shape)
        found = jax.linear_transpose(lambda b, A=A: ldiv.lstsq(kind(scale * A), b)[0], b)
        for transposed in (found, jax.jit(found)):
            b_bar = scale * transposed(x_bar)[0]
            np.testing.assert_allclose(b_bar, np.linalg.pinv(A).T @ x_bar, rtol=1e-12)


def test_torch_agrees():
    """The same problem in both frameworks; the cotangents of complex numbers are conjugates of
    each other.
    """
    torch = pytest.importorskip("torch")
    for kind, options in (
        ("real", {}),
        ("complex", {}),
        ("complex", {"trans": "T"}),
        ("complex", {"trans": "H"}),
    ):
        v, b = problem(kind)
        tv, tb = (torch.tensor(np.asarray(x), requires_grad=True) for x in (v, b))
        x, tx = sparse_solve(v, b, **options), sparse_solve(tv, tb, **options)
        close(x, jnp.asarray(tx.detach().numpy()), 1e-12)
        y_bar = np.random.default_rng(2).standard_normal(x.shape) + (1j if kind == "complex" else 0)
        tx.backward(torch.tensor(y_bar))
        bars = jax.vjp(partial(sparse_solve, **options), v, b)[1](jnp.asarray(y_bar).conj())
        close([g.conj() for g in bars], [jnp.asarray(t.grad.numpy()) for t in (tv, tb)], 1e-12)


# -- one factorization --------------------------------------------------------


@JIT
def test_one_factorization(jit):
    """Outside of programs, and in each of them."""
    each = int(jit is jax.jit and native.native is not None)
    v, b = problem()
    value_and_grad = jit(jax.value_and_grad(partial(loss, sparse_solve), (0, 1)))
    jax.block_until_ready(value_and_grad(v, b))
    assert ldiv.cache_info().factorizations == 1
    assert ldiv.cache_info().solves == 2
    hvp = jit(lambda v, b: jax.jvp(jax.grad(partial(loss, sparse_solve)), (v, b), (v, b))[1])
    jax.block_until_ready(hvp(v, b))
    assert ldiv.cache_info().factorizations == 1 + each
    jax.block_until_ready(jit(jax.vmap(sparse_solve, (None, 0)))(v, jnp.stack([b, b, b])))
    assert ldiv.cache_info().factorizations == 1 + 2 * each


@pytest.fixture
def optimized():
    jax.config.update("jax_disable_most_optimizations", False)
    yield
    jax.config.update("jax_disable_most_optimizations", True)


@pytest.mark.usefixtures("optimized")
def test_dense_factored_once_by_the_compiler():
    v, b = problem()
    compiled = (
        jax.jit(jax.value_and_grad(lambda a, b: jnp.sum(ldiv.solve(a, b) ** 2)))
        .lower(densified(v), b)
        .compile()
    )
    text = compiled.as_text()
    if "ldiv_dense" in text:  # x and its cotangent
        assert text.count('"factor"') == 1 and text.count('"compute"') == 2
        assert "callback" not in text
    else:
        assert text.count('"lapack_dgetrf') == 1
        # the host is called only where something is wrong
        assert "callback" not in text.partition("ENTRY")[2]


def test_factorized():
    v, b = problem()

    def f(v, b):
        held = ldiv.factorized(ldiv.coo_array((v, (ROWS, COLS)), shape=(N, N)))
        return jnp.sum(held.solve(b) ** 2) + held.logabsdet()

    def g(v, b):
        return jnp.sum(reference(v, b) ** 2) + jnp.linalg.slogdet(densified(v))[1]

    for jit in (lambda f: f, jax.jit):
        close(jit(jax.value_and_grad(f, (0, 1)))(v, b), jax.value_and_grad(g, (0, 1))(v, b))


# -- errors -------------------------------------------------------------------


def ones(v, b, **options):
    return ldiv.solve(jnp.ones_like(densified(v)) * v[0], b, **options)


def triangle(v, b):
    return ldiv.solve_triangular(densified(v).at[1, 1].set(0), b)


ERRORS = {
    "sparse singular": (sparse_solve, 0.0, "the matrix is singular to working precision"),
    "dense zero pivot": (
        dense_solve,
        0.0,
        "(a pivot that is exactly zero|a column that depends on the others)",
    ),
    "dense singular": (
        lambda v, b: ldiv.solve(jnp.arange(36.0).reshape(6, 6) * v[0] + 0.1, b),
        1.0,
        "the matrix is singular",
    ),
    "triangle": (triangle, 1.0, "a zero on the diagonal of the triangle"),
    "diagonal": (partial(ones, assume_a="diagonal"), 0.0, "a zero on the diagonal"),
    "indefinite": (partial(ones, assume_a="pos"), -1.0, "assume_a='pos'\\), but LAPACK found"),
    "sparse indefinite": (
        partial(sparse_solve, assume_a="pos"),
        -1.0,
        "assume_a='pos'\\), but \\w+ found",
    ),
    "asymmetric": (
        lambda v, b: ldiv.solve(densified(v).at[0, 5].set(1), b, assume_a="sym"),
        1.0,
        "a symmetric structure was promised",
    ),
    "sparse NaN": (sparse_solve, np.nan, "A: expected finite numbers"),
    "dense NaN": (dense_solve, np.nan, "A: expected finite numbers"),
    "NaN on the right": (
        lambda v, b: dense_solve(v, b * jnp.nan),
        1.0,
        "b: expected finite numbers",
    ),
}


# dense ones compile for seconds: one of them shows what a callback does with an error
SLOW = {"dense zero pivot", "indefinite", "asymmetric", "dense NaN", "NaN on the right"}


@pytest.mark.parametrize(
    ("name", "jit"),
    [
        pytest.param(name, jit, marks=pytest.mark.exhaustive if jit and name in SLOW else ())
        for name in ERRORS
        for jit in (False, True)
    ],
)
def test_errors_are_raised_not_nan(name, jit):
    solve, scale, message = ERRORS[name]
    _, b = problem()
    v = jnp.asarray(np.where(ROWS == COLS, 2.0, -1.0)) * scale
    f = jax.jit(jax.value_and_grad(partial(loss, solve))) if jit else solve
    with pytest.raises((ValueError, jax.errors.JaxRuntimeError), match=message) as raised:
        jax.block_until_ready(f(v, b))
    if not jit and "finite" not in message:
        assert type(raised.value).__module__ == "ldiv.errors"


def test_patterns_must_be_known():
    v, b = problem()
    with pytest.raises(TypeError, match="must be known when a function is traced"):
        jax.jit(lambda i: ldiv.coo_array((v, (i, COLS)), shape=(N, N)) @ b)(jnp.asarray(ROWS))
    close(sparse_solve(v, np.asarray(b)), sparse_solve(v, b))


def test_a_call_is_planned_once(monkeypatch):
    """NumPy's arrays beside those of JAX are planned anew each time, as they are converted."""
    v, b = problem()
    a, planned = ldiv.coo_array((v, (ROWS, COLS)), shape=(N, N)), []
    build = solve_problem.build_problem
    monkeypatch.setattr(
        solve_problem, "build_problem", lambda *args: planned.append(1) or build(*args)
    )
    expected = ldiv.solve(a, b)
    for k in range(1, 4):
        close(ldiv.solve(a, k * b), k * expected)
    assert len(planned) <= 1
    planned.clear()
    for _ in range(2):
        close(ldiv.solve(a, np.asarray(b)), expected)
    assert len(planned) == 2


# -- sparse arrays ------------------------------------------------------------


def test_trees():
    v, b = problem()
    a = ldiv.csr_array((v, COLS, np.searchsorted(ROWS, np.arange(N + 1))), shape=(N, N))
    (leaf,) = jax.tree.leaves(a)
    assert leaf is v
    back = jax.jit(lambda a: a.T)(a)
    assert (
        isinstance(back, ldiv.SparseArray)
        and back.format == "csc"
        and back.structure == a.structure.T
    )
    g = jax.jit(jax.grad(lambda a, b: loss(lambda v, b: ldiv.solve(a, b), None, b)))(a, b)
    assert isinstance(g, ldiv.SparseArray)
    close(g.data, jax.grad(partial(loss, reference))(v, b))
    batch = jax.tree.map(lambda x: jnp.stack([x, 2 * x]), a)
    assert batch.shape == (2, N, N)
    close(
        jax.vmap(ldiv.solve, (0, None))(batch, b), jnp.stack([reference(v, b), reference(2 * v, b)])
    )
    final, _ = jax.lax.scan(lambda a, _: (a.with_data(0.5 * a.data), None), a, None, length=3)
    close(final.data, v / 8)
    given = jax.tree.map(jnp.copy, a)
    close(
        jax.jit(lambda a: a.with_data(2 * a.data + ldiv.solve(a, b)[0, 0]), donate_argnums=0)(
            given
        ).data,
        2 * v + reference(v, b)[0, 0],
    )
    assert given.data.is_deleted()
    diagonal = ldiv.Matrix(ldiv.structures.Diagonal(3), jnp.ones(3))
    close(jax.jit(lambda d: d @ jnp.arange(3.0))(diagonal), jnp.arange(3.0))


def test_arithmetic():
    v, b = problem("complex")

    def f(v, b):
        a = ldiv.coo_array((v, (ROWS, COLS)), shape=(N, N))
        c = (a @ a.H + 2 * a) * a.conj() - a.T / 3
        return c @ b, c.diagonal(), c.sum(0), c.toarray(), b.T @ c

    def g(v, b):
        a = densified(v)
        c = (a @ a.conj().T + 2 * a) * a.conj() - a.T / 3
        return c @ b, jnp.diagonal(c), c.sum(0), c, b.T @ c

    def everything(f):
        return lambda v, b: (
            f(v, b),
            jax.grad(lambda v, b: sum(jnp.sum(y.real**2) for y in f(v, b)), (0, 1))(v, b),
        )

    agree(everything(f), everything(g), v, b)


def test_bcoo_and_bcsr():
    v, b = problem()
    gradient = jax.jit(jax.grad(partial(loss, reference)))(v, b)
    padded = jsparse.BCOO.fromdense(densified(v), nse=len(ROWS) + 3)
    for a in (jsparse.BCOO.fromdense(densified(v)), padded, jsparse.BCSR.fromdense(densified(v))):
        close(ldiv.solve(ldiv.asarray(a), b), reference(v, b))

        def f(data, a=a):
            kind = (data, a.indices) if isinstance(a, jsparse.BCOO) else (data, a.indices, a.indptr)
            return loss(
                lambda v, b: ldiv.solve(ldiv.asarray(type(a)(kind, shape=a.shape)), b), None, b
            )

        if a is not padded:
            close(jax.grad(f)(a.data), gradient)
    for a in (padded, jsparse.BCSR.fromdense(densified(v))):
        with pytest.raises(
            TypeError, match=r"must know the sparsity pattern when it is traced.*ldiv.asarray"
        ):
            jax.jit(lambda a: ldiv.asarray(a).toarray())(a)
        close(jax.jit(ldiv.solve)(a, b), reference(v, b))
        close(jax.jit(ldiv.solve)(ldiv.asarray(a), b), reference(v, b))
    close(ldiv.solve(padded, b), ldiv.solve(ldiv.asarray(padded), b))
    batch = ldiv.asarray(jsparse.BCOO.fromdense(jnp.ones((2, 3, 3)), n_batch=1))
    assert batch.shape == (2, 3, 3)


def test_made_here():
    like = jnp.ones(1, jnp.float32)
    assert ldiv.eye_array(3, like=like).data.dtype == jnp.float32
    close(
        jax.jit(lambda d: ldiv.diags_array([d, d[1:]], offsets=[0, 1]).toarray())(jnp.ones(3)),
        jnp.eye(3) + jnp.eye(3, k=1),
    )


# -- many devices, many threads, large arrays ---------------------------------

ELSEWHERE = """
import os
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
import jax, jax.numpy as jnp, numpy as np, ldiv
jax.config.update("jax_enable_x64", True)
n = 40_000
main, side = jnp.full(n, 4.0), jnp.full(n - 1, -1.0)
i = np.arange(n)
rows, cols = np.concatenate([i, i[1:], i[:-1]]), np.concatenate([i, i[:-1], i[1:]])
values, b = jnp.concatenate([main, side, side]), jnp.ones((n, 8))
f = lambda v, b: ldiv.solve(ldiv.coo_array((v, (rows, cols)), shape=(n, n)), b)
g = jax.jit(jax.value_and_grad(lambda v, b: jnp.sum(f(v, b) ** 2), (0, 1)))
expected = g(values, b)
mesh = jax.make_mesh((2,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
spread = jax.sharding.NamedSharding(mesh, jax.P(None, "i"))
shared = jax.sharding.NamedSharding(mesh, jax.P())
got = g(jax.device_put(values, shared), jax.device_put(b, spread))
jax.tree.map(lambda x, y: np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=1e-12), got, expected)
for check in (False, True):
    mapped = jax.shard_map(f, mesh=mesh, in_specs=(jax.P(), jax.P(None, "i")), out_specs=jax.P(None, "i"), check_vma=check)
    x = jax.jit(mapped)(values, b)
    np.testing.assert_allclose(np.asarray(x), np.asarray(f(values, b)), rtol=1e-12)
    bars = jax.jit(jax.grad(lambda v, b: jnp.sum(mapped(v, b) ** 2), (0, 1)))(values, b)
    jax.tree.map(lambda x, y: np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=1e-10, atol=1e-14), bars, expected[1])
print("done")
"""


ROW_SHARDED = """
n = 64
M, b = np.random.default_rng(0).standard_normal((n, n)), np.ones(n)
M = M @ M.T + n * np.eye(n)
mesh = jax.make_mesh((2,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
by_rows, halves = (jax.sharding.NamedSharding(mesh, jax.P("i", *rest)) for rest in ((None,), ()))
cg = lambda A, b: jax.scipy.sparse.linalg.cg(lambda v: ldiv.Matrix(ldiv.structures.Dense(n, n), A) @ v, b, tol=1e-12)[0]
program = jax.jit(cg).lower(jax.device_put(M, by_rows), jax.device_put(b, halves)).compile()
assert "f64[32,64]" in program.as_text() and "f64[64,64]" not in program.as_text(), "the matrix was gathered"
x = program(jax.device_put(M, by_rows), jax.device_put(b, halves))
assert x.sharding.is_equivalent_to(halves, 1), x.sharding
np.testing.assert_allclose(np.asarray(x), np.linalg.solve(M, b), rtol=1e-8, atol=1e-12)
A_bar = jax.jit(jax.grad(lambda A, b: cg(A, b).sum()))(jax.device_put(M, by_rows), jax.device_put(b, halves))
assert len(A_bar.sharding.device_set) == 2 and not A_bar.sharding.is_fully_replicated
np.testing.assert_allclose(np.asarray(A_bar), -np.outer(np.linalg.solve(M, np.ones(n)), np.linalg.solve(M, b)), rtol=1e-8, atol=1e-12)
print("done")
"""


@pytest.mark.exhaustive
def test_two_devices():
    """Two devices in one process solve for columns that are spread; JAX's own iteration uses our
    product, and no device ever holds the whole matrix, in the solution and in its gradient.
    """
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", ELSEWHERE + ROW_SHARDED],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == ["done", "done"], done.stderr[-3000:]


def test_export_of_what_needs_no_host() -> None:
    """Products go into a program; what solves says that it cannot."""
    A = ldiv.diags_array([jnp.full(4, 4.0), jnp.ones(3)], offsets=[0, 1], shape=(4, 4))
    shapes = jax.ShapeDtypeStruct(A.data.shape, A.data.dtype), jax.ShapeDtypeStruct((4,), float)
    b = jnp.arange(4.0)
    program = jax.export.export(
        jax.jit(jax.value_and_grad(lambda v, b: ((A.with_data(v) + A.T) @ b).sum()))
    )(*shapes)
    value, grad = program.call(2 * A.data, b)
    expected = jax.value_and_grad(lambda v: ((A.with_data(v) + A.T) @ b).sum())(2 * A.data)
    np.testing.assert_allclose(value, expected[0], rtol=1e-6)
    np.testing.assert_allclose(grad, expected[1], rtol=1e-6)
    for f in (
        lambda v, b: ldiv.solve(A.with_data(v), b, method="superlu"),
        lambda v, b: ldiv.lstsq(jnp.diag(v[:4]), b)[0],
    ):
        with pytest.raises(NotImplementedError, match="outside of the exported program"):
            jax.export.export(jax.jit(f))(*shapes)
        with pytest.raises(NotImplementedError, match="outside of the exported program"):
            jax.export.export(jax.jit(jax.grad(lambda v, b, f=f: f(v, b).sum())))(*shapes)


def test_a_kernel_that_needs_the_host_runs_there_with_its_units_and_checks():
    """XLA compiles each check of a result for some 15 ms, which NumPy makes in microseconds."""
    v, _ = problem()

    def smallest(v):
        A = ldiv.coo_array((v, (ROWS, COLS)), shape=(N, N))
        return ldiv.eigsh(A + A.T, 2, sigma=0.0)[0]

    symmetric = densified(v) + densified(v).T
    text = jax.jit(smallest).lower(v).as_text()
    assert "is_finite" not in text and text.count("callback") == 2  # the call, and its error
    found = jax.jit(smallest)(v)
    values = np.linalg.eigvalsh(symmetric)
    np.testing.assert_allclose(found, np.sort(values[np.argsort(abs(values))[:2]]), rtol=1e-12)
    for scale in (2.0**900, 2.0**-900):
        np.testing.assert_array_equal(jax.jit(smallest)(v * scale), found * scale)
    with pytest.raises(Exception, match="got NaN or infinity"):
        jax.block_until_ready(jax.jit(smallest)(v.at[0].set(jnp.nan)))
    both = jax.jit(jax.vmap(smallest))(jnp.stack([v, 2 * v]))
    np.testing.assert_allclose(both, jnp.stack([found, 2 * found]), rtol=1e-12)
