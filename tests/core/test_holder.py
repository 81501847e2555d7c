"""Ownership of factorizations: counted for every rule that factors, freed with the graph that
needed it, bounded where no call owns it.
"""

from __future__ import annotations

import copy
import gc
import pickle
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp

import ldiv
from ldiv.core.owners.holder import Store
from ldiv.engines.libraries import mkl_pardiso, native

torch = pytest.importorskip("torch")
N = 36


def five_points(m):
    line = sp.diags_array([-np.ones(m - 1), 2.1 * np.ones(m), -np.ones(m - 1)], offsets=[-1, 0, 1])
    return sp.csc_array(sp.kron(line, sp.eye_array(m)) + sp.kron(sp.eye_array(m), line))


GRID = five_points(6)
VALUES = torch.from_numpy(GRID.data)
ONES = torch.ones(N, dtype=torch.float64)
rng = np.random.default_rng(0)
DENSE = torch.from_numpy(rng.standard_normal((5, 5)) + 5 * np.eye(5))
POSITIVE = DENSE @ DENSE.T
TALL = torch.from_numpy(rng.standard_normal((N, 2)))


def sparse(v):
    return ldiv.csc_array((v, GRID.indices, GRID.indptr), shape=GRID.shape)


def solve(A, b, **options):
    return ldiv.solve(A, b, **options).sum()


def shared(v):
    A = sparse(v)
    return (
        ldiv.logdet(A, assume_a="pos")
        + solve(A, ONES, assume_a="pos")
        + solve(A, 2 * ONES, assume_a="pos")
    )


def informed(v):
    x, info = ldiv.solve(sparse(v), ONES, info=True)
    assert info.condition > 1
    return x.sum()


def pairs(v):
    lam, X = ldiv.eigsh(five_points_of(v), 3, sigma=0.1)
    return lam.sum() + (X[:, 0] ** 4).sum()


def five_points_of(v):
    """Large enough for Lanczos."""
    big = five_points(24)
    return ldiv.csc_array(
        (v[0] * torch.from_numpy(big.data), big.indices, big.indptr), shape=big.shape
    )


RIGHT = torch.from_numpy(rng.standard_normal((3, 5, 5, 1)))
RIGHT_SPARSE = torch.from_numpy(rng.standard_normal((3, 5, N, 1)))

# function, arguments, factorizations of its value and gradient together
COUNTED = {
    "solve": (lambda v: solve(sparse(v), ONES), [VALUES], 1),
    "dense": (lambda a: solve(a, ONES[:5]), [DENSE], 1),
    # without the compiler one that solves, and one that gives entries of the inverse
    "logdet and two solves": (shared, [VALUES], 2 if native.native is None else 1),
    # the matrix once; of the size of the update its own factor, and those of both unknowns U^H X, V^H lam
    "Woodbury": (lambda v, u: solve(sparse(v) + ldiv.LowRank(u, u), ONES), [VALUES, TALL], 4),
    "Kronecker": (
        lambda a, c: solve(ldiv.kron(a, c), torch.ones(25, dtype=torch.float64)),
        [DENSE, POSITIVE],
        2,
    ),
    "multigrid": (lambda v: solve(sparse(v), ONES, assume_a="pos", M="amg"), [VALUES], 1),
    "incomplete LU": (lambda v: solve(sparse(v), ONES, M="ilu"), [VALUES], 1),
    "info": (informed, [VALUES], 1),
    "logdet": (lambda v: ldiv.logdet(sparse(v), assume_a="pos"), [VALUES], 1),
    "dense logdet": (partial(ldiv.logdet, assume_a="pos"), [POSITIVE], 1),
    "slogdet": (lambda a: ldiv.slogdet(a)[1], [DENSE], 1),
    "quad_form": (lambda v: ldiv.quad_form(sparse(v), ONES, assume_a="pos"), [VALUES], 1),
    "lstsq": (lambda a: ldiv.lstsq(a, ONES)[0].sum(), [TALL], 1),
    "eigsh by shift and invert": (pairs, [ONES[:1]], 1),
    "batch": (lambda a: solve(a, RIGHT), [torch.stack([DENSE, 2 * DENSE, 3 * DENSE])[:, None]], 1),
    "sparse batch": (
        lambda v: solve(sparse(v), RIGHT_SPARSE),
        [torch.stack([VALUES, 2 * VALUES, 3 * VALUES])[:, None]],
        3,
    ),
}


def backward(f, arguments):
    xs = [x.clone().requires_grad_() for x in arguments]
    y = f(*xs)
    torch.autograd.grad(y, xs)


@pytest.mark.parametrize("name", COUNTED)
def test_value_and_gradient_factor_once(name):
    f, arguments, expected = COUNTED[name]
    if name == "multigrid":
        pytest.importorskip("pyamg")
    backward(f, arguments)
    gc.collect()
    assert ldiv.cache_info().factorizations == expected
    assert ldiv.cache_info().entries == 0


def test_slogdet_factors_once(monkeypatch):
    """LAPACK's own is not called beside the factor that the derivative needs; a singular matrix
    still has a determinant.
    """
    monkeypatch.setattr(torch.linalg, "slogdet", None)
    sign, size = ldiv.slogdet(torch.stack([DENSE, DENSE[[1, 0, 2, 3, 4]]]))
    np.testing.assert_allclose(
        sign * size.exp(), np.linalg.det(DENSE) * np.array([1, -1]), rtol=1e-12
    )
    monkeypatch.undo()
    assert [float(y) for y in ldiv.slogdet(torch.zeros(2, 2, dtype=torch.float64))] == [0, -np.inf]


def square(v):
    return (ldiv.solve(sparse(v), ONES) ** 2).sum()


grad, fwd, rev, vmap = torch.func.grad, torch.func.jacfwd, torch.func.jacrev, torch.func.vmap
ORDERS = {
    "reverse over reverse": lambda: rev(grad(square))(VALUES),
    "forward over reverse": lambda: fwd(grad(square))(VALUES),
    "reverse over forward": lambda: rev(fwd(square))(VALUES),
    "forward over forward": lambda: fwd(fwd(square))(VALUES),
    "products": lambda: torch.func.jvp(grad(square), (VALUES,), (VALUES,)),
    "double backward": lambda: torch.autograd.functional.hvp(square, VALUES, VALUES),
}


@pytest.mark.parametrize("order", ORDERS)
def test_all_second_orders_factor_once(order):
    ORDERS[order]()
    assert ldiv.cache_info().factorizations == 1


@pytest.mark.parametrize(
    "batched",
    [vmap(grad(square)), grad(lambda vs: vmap(square)(vs).sum())],
    ids=["vmap(grad)", "grad(vmap)"],
)
def test_a_batch_factors_each_matrix_once(batched):
    batched(torch.stack([VALUES, 2 * VALUES, 3 * VALUES]))
    assert ldiv.cache_info().factorizations == 3


def test_one_matrix_spread_over_a_batch_is_factored_once():
    found = ldiv.solve(sparse(VALUES.expand(4, -1)), ONES[:, None])
    assert ldiv.cache_info().factorizations == 1
    np.testing.assert_allclose(
        found, ldiv.solve(sparse(VALUES), ONES[:, None]).expand(4, -1, -1), rtol=1e-12
    )


def test_a_pattern_built_anew_is_analysed_once():
    grid = five_points(7)  # nobody else's
    for k in range(1, 11):
        A = ldiv.csc_array(
            (k * grid.data, grid.indices.copy(), grid.indptr.copy()), shape=grid.shape
        )
        ldiv.solve(A, np.ones(49))
        del A
        gc.collect()
    assert ldiv.cache_info()[:2] == (1, 10)


@pytest.mark.parametrize(
    "wrapped",
    [lambda f, x: f(x), partial(torch.utils.checkpoint.checkpoint, use_reentrant=False)],
    ids=["plain", "checkpoint"],
)
def test_losses_kept_in_a_list_keep_no_factor(wrapped):
    losses = []
    for k in range(1, 11):
        loss = wrapped(square, (k * VALUES).requires_grad_())
        loss.backward()
        losses.append(loss)
    gc.collect()
    assert ldiv.cache_info().entries == 0
    assert ldiv.cache_info().bytes == 0


HOOKS = {
    "checkpoint": partial(torch.utils.checkpoint.checkpoint, use_reentrant=False),
    "save_on_cpu": lambda f, x: in_context(torch.autograd.graph.save_on_cpu(), f, x),
    "own": lambda f, x: in_context(
        torch.autograd.graph.saved_tensors_hooks(torch.clone, torch.clone), f, x
    ),
}
METHODS = {"auto": "auto", "superlu": "superlu", "dense": None}


def in_context(context, f, x):
    with context:
        return f(x)


@pytest.mark.parametrize("hooked", HOOKS.values(), ids=HOOKS)
@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_steps_behind_hooks_share_a_factor(hooked, method):
    """A hook frees the owner on the token: of 20 steps with one matrix each would factor twice."""
    made = []
    for wrapped in (hooked, lambda f, x: f(x)):
        v = VALUES.clone().requires_grad_()
        before = ldiv.cache_info().factorizations

        def step(x, v=v):
            if method is None:
                return ldiv.solve(sparse(v).toarray(), 4 * x)
            return ldiv.solve(sparse(v), 4 * x, method=method)

        x = ONES
        for _ in range(20):
            x = wrapped(step, x)
        x.sum().backward()
        assert ldiv.cache_info().factorizations == before + 1
        assert ldiv.cache_info().entries == 0
        made.append(v.grad)
        del x, step
    torch.testing.assert_close(*made, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("hooked", [HOOKS["checkpoint"], HOOKS["own"]], ids=["checkpoint", "own"])
def test_steps_behind_hooks_keep_the_memory_of_two_factors(hooked):
    x, values = ONES, VALUES.clone().requires_grad_()
    for k in range(1, 11):
        x = hooked(lambda x, k=k: ldiv.solve(sparse(k * values), 4 * k * x), x)
        assert ldiv.cache_info().entries <= 2
    x.sum().backward()
    assert ldiv.cache_info().entries == 0
    expected = VALUES.clone().requires_grad_()
    x = ONES
    for k in range(1, 11):
        x = ldiv.solve(sparse(k * expected), 4 * k * x)
    x.sum().backward()
    torch.testing.assert_close(values.grad, expected.grad, rtol=1e-13, atol=1e-13)


def test_a_graph_that_lives_keeps_no_factors_of_others():
    """Steps on other patterns leave nothing; `clear_cache` reaches what is shared."""
    hooked = HOOKS["checkpoint"]
    kept = hooked(square, VALUES.clone().requires_grad_())
    for n in range(5, 25):
        line = sp.csc_array(sp.diags_array([2.0, -1.0], offsets=[0, 1], shape=(n, n)))
        v = torch.from_numpy(line.data).requires_grad_()
        A = ldiv.csc_array((v, line.indices, line.indptr), shape=(n, n))
        hooked(lambda b, A=A: ldiv.solve(A, b), torch.ones(n, dtype=torch.float64)).sum().backward()
        del A
    assert ldiv.cache_info().entries == 1
    ldiv.clear_cache()
    assert ldiv.cache_info().entries == 0
    kept.backward()


def test_hooks_that_pickle_or_copy():
    """The shared store is copied as an empty one; a factor that cannot be copied is no part of it."""
    for pack in (copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))):
        v = VALUES.clone().requires_grad_()
        with torch.autograd.graph.saved_tensors_hooks(lambda x: x.clone(), pack):
            loss = solve(sparse(v), ONES, method="superlu")
        loss.backward()
        store = Store(100)
        assert pack(store).limit == 100


def test_a_factor_lives_as_long_as_its_graph():
    x = ldiv.solve(sparse(VALUES.clone().requires_grad_()), ONES)
    gc.collect()
    assert ldiv.cache_info().entries == 1
    assert ldiv.cache_info().bytes > 3 * 8 * len(VALUES)
    del x
    gc.collect()
    assert ldiv.cache_info().entries == 0


def test_a_pullback_owns_its_factor():
    b = np.ones(N)
    _, pull = ldiv.vjp(ldiv.solve, ldiv.asarray(GRID), b)
    pull(b)
    pull(b)
    assert ldiv.cache_info()[1:2] + ldiv.cache_info()[4:5] == (1, 1)
    del pull
    gc.collect()
    assert ldiv.cache_info().entries == 0


@pytest.mark.parametrize(
    "matrix",
    [lambda k: k * DENSE.numpy(), lambda k: ldiv.asarray(GRID) * float(k)],
    ids=["dense", "sparse"],
)
def test_nothing_is_kept_where_nobody_differentiates(matrix):
    for k in range(1, 6):
        ldiv.solve(matrix(k), np.ones(matrix(k).shape[0]))
    assert ldiv.cache_info().factorizations == 5
    assert ldiv.cache_info().entries == 0


@pytest.mark.parametrize("method", ["superlu", "pardiso"])
def test_a_loop_analyses_once(method, monkeypatch):
    """However many steps there are: counted where PARDISO opens a handle, too."""
    if (
        method not in ldiv.explain(sparse(VALUES)).answers
        or "needs MKL" in ldiv.explain(sparse(VALUES)).answers[method]
    ):
        pytest.skip("MKL is not installed: pip install ldiv[mkl]")
    opened, begin = [], mkl_pardiso.Analysis.__init__
    monkeypatch.setattr(
        mkl_pardiso.Analysis,
        "__init__",
        lambda self, *args, **options: opened.append(1) or begin(self, *args, **options),
    )
    grid = five_points(8)
    values, b = torch.from_numpy(grid.data), torch.ones(64, dtype=torch.float64)
    for k in range(60):
        v = ((1 + k) * values).requires_grad_()
        ldiv.solve(
            ldiv.csc_array((v, grid.indices, grid.indptr), shape=grid.shape), b, method=method
        ).sum().backward()
    assert ldiv.cache_info().analyses == 1
    assert ldiv.cache_info().factorizations == 60
    assert len(opened) == (method == "pardiso")


def test_the_store_counts_what_it_counted():
    """Bytes that grow after they were counted let nothing stay for ever."""

    class Growing:
        nbytes = 10

    store, things = Store(100), [Growing() for _ in range(20)]
    for thing in things:
        store.keep(thing)
        thing.nbytes = 1000
    assert store._nbytes == 100
    assert len(store._kept) == 10
    store.shrink(0)
    assert (store._nbytes, len(store._kept)) == (0, 0)
