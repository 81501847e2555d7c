"""lineax: with our solver put in, every operator, tag, dtype and transformation gives what
jax.numpy gives on dense arrays.
"""

from __future__ import annotations

import gc
import itertools
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp

import ldiv

jax = pytest.importorskip("jax", reason="JAX is not installed: pip install 'ldiv[lineax]'")
lx = pytest.importorskip("lineax", reason="lineax is not installed: pip install 'ldiv[lineax]'")
import equinox as eqx  # noqa: E402
import jax.numpy as jnp  # noqa: E402

from ldiv.derivatives.coloring import compression  # noqa: E402
from ldiv.lineax import Solver, SparseOperator  # noqa: E402
from ldiv.lineax.matrix import matrix_of  # noqa: E402

jax.config.update("jax_enable_x64", True)
N = 6
# a band, and two corners
ROWS, COLS = np.nonzero(abs(np.subtract.outer(range(N), range(N))) % (N - 1) < 2)
MIRROR = np.lexsort((ROWS, COLS))
PATTERN = sp.coo_array((np.ones(len(ROWS)), (ROWS, COLS)), shape=(N, N))


def draw(seed, dtype, *shape):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape)
    return jnp.asarray(x + 1j * rng.standard_normal(shape) if dtype == "complex128" else x)


def close(got, expected, eps=1e-11):
    got, expected = (jax.tree.leaves(tree) for tree in (got, expected))
    assert len(got) == len(expected)
    for x, y in zip(got, expected, strict=True):
        assert x.dtype == y.dtype and x.shape == y.shape
        np.testing.assert_allclose(x, y, rtol=eps, atol=eps * max(1.0, float(jnp.abs(y).max())))


# -- the grid: every parameter makes a matrix that keeps the promise of its tag ---


ON = 1.0 * (ROWS == COLS)
TAGS = {  # values = own * v + flip * v[MIRROR] + mirror * conj(v[MIRROR]) + shift
    "none": ((), 1, 0, 0, 5 * ON),
    "symmetric": (lx.symmetric_tag, 0.5, 0.5, 0, 5 * ON),
    "positive": (lx.positive_semidefinite_tag, 0.5, 0, 0.5, 9 * ON),
    "negative": (lx.negative_semidefinite_tag, 0.5, 0, 0.5, -9 * ON),
    "lower": (lx.lower_triangular_tag, ROWS >= COLS, 0, 0, 5 * ON),
    "upper": (lx.upper_triangular_tag, ROWS <= COLS, 0, 0, 5 * ON),
    "diagonal": (lx.diagonal_tag, ROWS == COLS, 0, 0, 5 * ON),
    "tridiagonal": (lx.tridiagonal_tag, abs(ROWS - COLS) < 2, 0, 0, 5 * ON),
}


def kept(promise, v):
    own, flip, mirror, shift = promise
    return own * v + flip * v[MIRROR] + mirror * v[MIRROR].conj() + shift


def dense(values):
    return jnp.zeros((N, N), values.dtype).at[ROWS, COLS].add(values)


def array(values):
    return ldiv.coo_array((values, (ROWS, COLS)), shape=(N, N))


def space(values):
    return jax.ShapeDtypeStruct((N,), values.dtype)


def composite(values, tag):
    """2 I - (I / 2) (4 I - 2 A) in operators, which is A."""
    eye = lx.IdentityLinearOperator(space(values))
    return lx.TaggedLinearOperator(
        eye * 2
        - (eye / 2)
        @ (
            lx.DiagonalLinearOperator(jnp.full(N, 4.0, values.dtype))
            + SparseOperator(array(-2 * values))
        ),
        tag,
    )


def function(values, tag):
    a = dense(values)
    return lx.FunctionLinearOperator(lambda x: a @ x, space(values), tag)


def tree(values, tag):
    """The same matrix on a pair of vectors."""
    a = dense(values)
    blocks = ((a[:2, :2], a[:2, 2:]), (a[2:, :2], a[2:, 2:]))
    return lx.PyTreeLinearOperator(
        blocks, (space(values).update(shape=(2,)), space(values).update(shape=(N - 2,))), tag
    )


OPERATORS = {
    "matrix": (lambda values, tag: lx.MatrixLinearOperator(dense(values), tag), Solver()),
    "sparse": (lambda values, tag: SparseOperator(array(values), tag), Solver()),
    "composite": (composite, Solver()),
    "function": (function, Solver(sparsity=PATTERN)),
    "tree": (tree, Solver()),
}


def by_lineax(make, solver, tag, promise, v, b):
    operator = make(kept(promise, v), tag)
    parts = (b[:2], b[2:]) if make is tree else b
    x = lx.linear_solve(operator, parts, solver).value
    return jnp.concatenate(x) if make is tree else x


def by_numpy(promise, v, b):
    return jnp.linalg.solve(dense(kept(promise, v)), b)


def loss(solve, v, b):
    x = solve(v, b)
    return jnp.sum(jnp.sin(x.real) * jnp.cos(2 * x.imag) + x.real**2)


def alone(solve, v, b, vs, bs):
    """Value, jvp and vjp."""
    return jax.jvp(solve, (v, b), (vs[1], bs[1])), jax.grad(partial(loss, solve), (0, 1))(v, b)


def batched(solve, v, b, vs, bs):
    """The same of a batch of right-hand sides, of operators, of both."""
    yield jax.vmap(solve, (None, 0))(v, bs)
    yield jax.vmap(partial(jax.grad(partial(loss, solve), (0, 1))), (0, None))(vs, b)
    yield jax.jvp(jax.vmap(solve), (vs, bs), (vs[::-1], bs[::-1]))[1]


@jax.jit
def reference(promise, *args):
    solve = partial(by_numpy, promise)
    return alone(solve, *args), list(batched(solve, *args))


FEWER = {
    "composite": "none positive negative",
    "function": "none symmetric lower tridiagonal",
    "tree": "positive upper diagonal",
}

ONCE = {("matrix", "none"), ("composite", "none"), ("function", "none"), ("tree", "positive")}
IN_BATCHES = {("matrix", "none"), ("sparse", "none"), ("sparse", "positive")}


def grid():
    """Every tag on sparse and dense operators; the others are made into one of these, so that a
    few of the tags tell. `make test` takes each tag once, and each operator.
    """
    for name, tag, dtype in itertools.product(OPERATORS, TAGS, ("float64", "complex128")):
        if (name == "sparse" or dtype == "float64" or tag == "positive") and tag in FEWER.get(
            name, tag
        ).split():
            one = name == "sparse" if dtype == "complex128" else (name, tag) in ONCE
            yield pytest.param(
                *(name, tag, dtype, (name, tag) in IN_BATCHES),
                id=f"{name}-{tag}-{dtype}",
                marks=() if one else pytest.mark.exhaustive,
            )


@pytest.mark.parametrize(("name", "tag", "dtype", "in_batches"), list(grid()))
def test_grid(name, tag, dtype, in_batches):
    vs, bs = draw(1, dtype, 3, len(ROWS)), draw(2, dtype, 3, N)
    args = vs[0], bs[0], vs, bs
    promise = tuple(
        map(jnp.asarray, np.broadcast_arrays(*(1.0 * np.asarray(x) for x in TAGS[tag][1:])))
    )
    solve = partial(by_lineax, *OPERATORS[name], TAGS[tag][0], promise)
    one, many = reference(promise, *args)
    close(jax.jit(partial(alone, solve))(*args), one)
    if in_batches:
        close(jax.jit(lambda *args: list(batched(solve, *args)))(*args), many)


# -- one factorization, and no dense matrix -----------------------------------


def problem(dtype="float64"):
    return kept(TAGS["none"][1:], draw(1, dtype, len(ROWS))), draw(2, dtype, N)


def solved(v, b, solver=Solver(), throw=True):  # noqa: B008
    return lx.linear_solve(SparseOperator(array(v)), b, solver, throw=throw)


@pytest.mark.parametrize("solver", [Solver(), Solver(method="superlu")])
def test_one_factorization(solver):
    v, b = problem()
    f = jax.jit(jax.value_and_grad(lambda v, b: jnp.sum(solved(v, b, solver).value ** 2), (0, 1)))
    jax.block_until_ready(f(v, b))
    assert ldiv.cache_info().factorizations == 1 and ldiv.cache_info().solves == 2
    ldiv.clear_cache()
    gc.collect()  # what JAX's caches refer to in circles
    jax.block_until_ready(
        jax.jit(jax.vmap(lambda b: solved(v, b, solver).value))(jnp.stack([b, b, b]))
    )
    assert ldiv.cache_info().factorizations == 1 and ldiv.cache_info().solves == 1


def test_the_state_serves_many():
    v, b = problem("complex128")
    operator, solver = SparseOperator(array(v)), Solver()
    state = solver.init(operator, {})
    for op, view, seen in (
        (lambda a: a, operator, state),
        (jnp.transpose, operator.T, solver.transpose(state, {})[0]),
        (jnp.conj, lx.conj(operator), solver.conj(state, {})[0]),
        (lambda a: a.conj().T, lx.conj(operator).T, solver.conj(*solver.transpose(state, {}))[0]),
    ):
        assert eqx.tree_equal(seen, solver.init(view, {}))  # lineax's law
        close(solver.compute(seen, b, {})[0], jnp.linalg.solve(op(dense(v)), b))
        close(lx.linear_solve(view, b, solver, state=seen).value, jnp.linalg.solve(op(dense(v)), b))
    assert ldiv.cache_info().factorizations == 1
    close(
        jax.grad(lambda b: solver.compute(state, b, {})[0][0].real)(b),
        jax.grad(lambda b: jnp.linalg.solve(dense(v), b)[0].real)(b),
    )


def test_nothing_dense():
    """n x n numbers would be 13 GB."""
    n = 40_000
    main, side = jnp.full(n, 4.0), jnp.ones(n - 1)
    tridiagonal = lx.TridiagonalLinearOperator(main, side, side)
    operator = lx.IdentityLinearOperator(tridiagonal.in_structure()) + SparseOperator(
        ldiv.diags_array([main, side], offsets=[0, -1])
    )
    for a, size in ((tridiagonal, 3 * n - 2), (operator, 2 * n - 1)):
        assert (
            float(
                eqx.filter_jit(
                    lambda a: jnp.abs(a.mv(lx.linear_solve(a, main, Solver()).value) - main).max()
                )(a)
            )
            < 1e-12
        )
        assert eqx.filter_eval_shape(matrix_of, a).params.shape == (size,)


# -- refused solves -----------------------------------------------------------

LAPLACIAN = jnp.asarray(-1.0 + 4 * ON)  # rows sum to zero, but for the two corners
REFUSED = {
    "zero": (SparseOperator(array(jnp.zeros(len(ROWS)))), lx.RESULTS.singular),
    "rank": (lx.MatrixLinearOperator(jnp.ones((N, N))), lx.RESULTS.singular),
    "diagonal": (lx.DiagonalLinearOperator(jnp.arange(float(N))), lx.RESULTS.singular),
    "indefinite": (
        SparseOperator(array(1.0 - 2 * LAPLACIAN), lx.positive_semidefinite_tag),
        lx.RESULTS.singular,
    ),
    "not symmetric": (
        SparseOperator(array(jnp.arange(1.0, len(ROWS) + 1)), lx.symmetric_tag),
        lx.RESULTS.singular,
    ),
    "NaN": (SparseOperator(array(jnp.full(len(ROWS), jnp.nan))), lx.RESULTS.singular),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    operator, result = REFUSED[name]
    solution = lx.linear_solve(operator, jnp.ones(N), Solver(), throw=False)
    assert solution.result == result and jnp.isnan(solution.value).all()
    with pytest.raises(eqx.EquinoxRuntimeError, match="linear solver returned non-finite"):
        jax.block_until_ready(lx.linear_solve(operator, jnp.ones(N), Solver()).value)


def test_refused_alone():
    """One bad system of a batch leaves the others alone."""
    v, b = problem()
    vs, bs = jnp.stack([v, 0 * v, 2 * v]), jnp.stack([b, b, b])
    solution = eqx.filter_jit(jax.vmap(partial(solved, throw=False)))(vs, bs)
    assert (solution.result == lx.RESULTS.singular).tolist() == [False, True, False]
    close(
        solution.value[::2],
        jnp.stack([jnp.linalg.solve(dense(v), b), jnp.linalg.solve(2 * dense(v), b)]),
    )
    solution = jax.vmap(partial(solved, throw=False), (None, 0))(v, bs.at[1, 0].set(jnp.nan))
    assert (solution.result == lx.RESULTS.nonfinite_input).tolist() == [False, True, False]
    assert jnp.isfinite(solution.value[::2]).all()


def test_bad_input():
    v, b = problem()
    with pytest.raises(ValueError, match="one matrix, got a batch"):
        SparseOperator(array(jnp.stack([v, v])))
    with pytest.raises(ValueError, match="a square matrix"):
        lx.linear_solve(lx.MatrixLinearOperator(jnp.ones((N, 2))), b, Solver())
    with pytest.raises(ValueError, match="method"):
        Solver(method="gauss")
    with pytest.raises(ldiv.EngineError, match="superlu: factors sparse matrices only"):
        lx.linear_solve(lx.MatrixLinearOperator(dense(v)), b, Solver(method="superlu"))
    with pytest.raises(ValueError, match="the pattern of the operator"):
        lx.linear_solve(function(v, ()), b, Solver(sparsity=np.eye(3)))


# -- the operator -------------------------------------------------------------


def test_operator():
    v, b = problem("complex128")
    operator = SparseOperator(array(v))
    views = (
        lambda a: a,
        lambda a: a.T,
        lambda a: lx.conj(a),
        lambda a: lx.linearise(lx.materialise(lx.conj(a).T)),
    )

    @eqx.filter_jit
    def seen(operator):
        norm = lambda a: jnp.sum(jnp.abs(a.mv(b)) ** 2)
        yet = [
            (a.mv(b), a.as_matrix(), lx.diagonal(a), lx.tridiagonal(a))
            for a in (view(operator) for view in views)
        ]
        return (
            yet,
            lx.linear_solve(operator, b, lx.LU()).value,
            jax.tree.leaves(eqx.filter_grad(norm)(operator)),
        )

    yet, x, (gradient,) = seen(operator)
    expected, y, (bar,) = seen(lx.MatrixLinearOperator(dense(v)))
    close((yet, x, gradient), (expected, y, bar[ROWS, COLS]))
    assert eqx.filter_jit(lambda a: a.T.T)(operator).array.structure == operator.array.structure
    rectangular = SparseOperator(sp.csr_array(np.arange(6.0).reshape(2, 3)))
    assert (
        rectangular.in_size() == 3
        and rectangular.T.in_size() == 2
        and not lx.is_symmetric(rectangular)
    )


def test_patterns_speak_for_themselves():
    def band(*offsets):
        return SparseOperator(
            ldiv.diags_array([jnp.ones(1) for _ in offsets], offsets=list(offsets), shape=(N, N))
        )

    assert lx.is_diagonal(band(0)) and lx.is_symmetric(band(0)) and not lx.is_diagonal(band(0, 1))
    assert (
        lx.is_lower_triangular(band(0, -3))
        and lx.is_upper_triangular(band(0, -3).T)
        and not lx.is_upper_triangular(band(-3))
    )
    assert (
        lx.is_tridiagonal(band(-1, 0, 1))
        and not lx.is_tridiagonal(band(-1, 2))
        and not lx.is_positive_semidefinite(band(0))
    )
    values = jnp.ones(len(ROWS)) + 0j
    real, hermitian = (
        SparseOperator(array(v), lx.positive_semidefinite_tag) for v in (values.real, values)
    )
    assert lx.is_symmetric(real) and real.T is real and not lx.is_symmetric(hermitian)
    assert lx.is_positive_semidefinite(hermitian.T) and lx.is_negative_semidefinite(-hermitian)
    assert lx.has_unit_diagonal(
        SparseOperator(array(values), {lx.unit_diagonal_tag, lx.lower_triangular_tag}).T
    )


# -- operators known by their action ------------------------------------------


def test_an_operator_is_read_by_few_products():
    """Three for a band of three, a pattern whose entries are stored twice included."""
    a = LINE.multiply(np.random.default_rng(0).standard_normal((N, N))).toarray()
    sparsity = Solver(
        sparsity=sp.coo_array(
            (np.ones(2 * LINE.nnz), tuple(np.tile(i, 2) for i in LINE.tocoo().coords)), shape=(N, N)
        )
    ).sparsity
    found = matrix_of(
        lx.FunctionLinearOperator(lambda x: a @ x, jax.ShapeDtypeStruct((N,), a.dtype)), sparsity
    )
    assert found.nnz == LINE.nnz and np.array_equal(found.toarray(), a)
    assert compression(sparsity, "forward").forward.shape == (N, 3)


def test_a_missing_entry_is_refused():
    """Whether the operator is traced or not; nothing is asked of one that is not finite, and an
    operator whose program shows its pattern takes no product more.
    """
    y, b = jnp.arange(1.0, N + 1), jnp.ones(N)

    def step(pattern, y, solver=None):
        operator = lx.JacobianLinearOperator(residual, y, 0.1)
        solver = solver or Solver(sparsity=pattern)
        return lx.linear_solve(operator, b, solver, throw=False).value

    lower = sp.tril(LINE)
    for compiled in (partial(step, lower), jax.jit(partial(step, lower))):
        with pytest.raises(Exception, match="an entry wherever the derivative is not zero"):
            compiled(y)
    for compiled in (partial(step, LINE), jax.jit(partial(step, LINE))):
        close(compiled(y), step(None, y, lx.LU()))
        assert jnp.isnan(compiled(y.at[1].set(jnp.nan))).any()
    assert "VerifyPattern" in str(jax.make_jaxpr(partial(step, lower))(y))
    assert "VerifyPattern" not in str(jax.make_jaxpr(partial(step, LINE))(y))


def residual(y, args):
    """One implicit step of a reaction and a diffusion on a line: a tridiagonal Jacobian."""
    left, right = jnp.pad(y, (1, 0))[:-1], jnp.pad(y, (0, 1))[1:]
    return y - args * (left - 2 * y + right) + 0.1 * y * (right - left) + y**3 - 1


LINE = sp.diags_array([np.ones(N)] * 3, offsets=[-1, 0, 1], shape=(N, N))


def test_optimistix():
    """Newton's method, and its derivative by the implicit function theorem, with a sparse
    Jacobian.
    """
    optimistix = pytest.importorskip(
        "optimistix", reason="optimistix is not installed: pip install 'ldiv[test]'"
    )

    def root(solver, args):
        newton = optimistix.Newton(1e-10, 1e-10, linear_solver=solver)
        adjoint = optimistix.ImplicitAdjoint(linear_solver=solver)
        return optimistix.root_find(residual, newton, jnp.zeros(N), args, adjoint=adjoint).value

    def both(solver):
        return jax.jit(jax.value_and_grad(lambda args: jnp.sum(root(solver, args) ** 2)))(
            jnp.linspace(1.0, 2.0, N)
        )

    close(both(Solver(sparsity=LINE)), both(lx.LU()))
    assert ldiv.cache_info().analyses <= 1 and ldiv.cache_info().factorizations > 2


@pytest.mark.parametrize("wrong", ["x", np.ones(3), ([0, 1], [0, 1]), [(0, 0)]])
def test_a_sparsity_that_is_no_matrix_says_so(wrong):
    with pytest.raises(TypeError, match=r"sparsity: expected .*detect_pattern"):
        Solver(sparsity=wrong)
