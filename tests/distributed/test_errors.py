"""Errors of one process are raised on all, alike and at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from distributed.problem import DIRECT, RANK, SIZE, Whole, distance, grid

import ldiv
from ldiv import distributed
from ldiv.distributed.petsc import largest_index
from ldiv.errors import NotPositiveDefiniteError, NotSymmetricError, SingularMatrixError

LAST = SIZE - 1
HERE = RANK == LAST  # the process on which something is wrong


def whole() -> Whole:
    return Whole(grid(6, wind=0.5))


def still_in_step(w: Whole) -> None:
    """Check that all processes can go on after an error."""
    x = ldiv.solve(w.everything(w.values), w.b)
    y = ldiv.solve(w.part(w.values[w.mine]), w.b[w.own])
    assert distance(y, x[w.own], x) <= DIRECT


@pytest.mark.parametrize("number", [np.nan, np.inf])
@pytest.mark.parametrize("where", ["values", "b", "cotangent"])
def test_nan_on_one_process(where: str, number: float) -> None:
    w = whole()
    values, b, bar = w.values[w.mine].copy(), w.b[w.own].copy(), w.weights[w.own].copy()
    if HERE:
        {"values": values, "b": b, "cotangent": bar}[where][0] = number

    def derivative() -> None:
        _, pull = ldiv.vjp(lambda v, b: ldiv.solve(w.part(v), b), values, b)
        pull(bar)

    with pytest.raises(ValueError, match="finite numbers"):
        derivative()
    still_in_step(w)


def test_shapes_that_are_wrong_on_one_process() -> None:
    w = whole()
    A, b = w.part(w.values[w.mine]), w.b[w.own]
    with pytest.raises(ValueError, match="b: expected"):
        ldiv.solve(A, b[:-1] if HERE else b)
    with pytest.raises(ValueError, match="x: expected"):
        A @ (b[:-1] if HERE else b)
    with pytest.raises(TypeError, match="float"):
        ldiv.solve(A, b.astype(object) if HERE else b)
    with pytest.raises(ValueError, match="expected shape"):
        A.with_data(w.values[w.mine][: -1 if HERE else None])
    places = (w.rows[w.mine], w.cols[w.mine])
    rows = places[0] + (10**6 if HERE else 0)
    with pytest.raises(ValueError, match="expected indices in"):
        distributed.coo_array((w.values[w.mine], (rows, places[1])), w.shape)
    with pytest.raises(ValueError, match="local_shape"):
        distributed.coo_array((w.values[w.mine], places), w.shape, local_shape=(1, 1))
    still_in_step(w)


def test_more_rows_than_indices_of_petsc() -> None:
    nothing = np.zeros(0, int)
    most = largest_index()
    if most < 2**62:
        with pytest.raises(ldiv.EngineError, match="64-bit indices"):
            distributed.coo_array((np.zeros(0), (nothing, nothing)), (most + 1, most + 1))


@pytest.mark.skipif(SIZE == 1, reason="of two processes and more")
def test_wholes_that_differ() -> None:
    w = whole()
    places, n = (w.rows[w.mine], w.cols[w.mine]), w.shape[0]
    with pytest.raises(ValueError, match="the same everywhere"):
        distributed.coo_array((w.values[w.mine], places), (n + HERE, n + HERE))
    with pytest.raises(distributed.RankError, match="different calls"):
        distributed.sum(np.ones(2 + HERE))
    A = w.part(w.values[w.mine])
    with pytest.raises(distributed.RankError, match="different calls"):
        A @ w.b[w.own] if HERE else ldiv.solve(A, w.b[w.own])
    block = np.ones((len(w.own), 1 + HERE))
    with pytest.raises(distributed.RankError, match="different calls"):
        ldiv.solve(A, block)
    still_in_step(w)


@pytest.mark.skipif(SIZE == 1, reason="of two processes and more")
def test_calls_that_differ() -> None:
    """PETSc would wait for ever in these calls."""
    w = whole()
    calm = Whole(grid(6))
    A, B, S = (
        w.part(w.values[w.mine]),
        w.part(w.values[w.mine]).T,
        calm.part(calm.values[calm.mine]),
    )
    C, b = A + B, w.b[w.own]
    other = w.part(w.values[w.mine], solver_parameters={"ksp_type": "gmres"} if HERE else None)
    calls = [
        lambda: ldiv.solve(A, b, method="gmres" if HERE else "direct"),
        lambda: ldiv.solve(A, b, method="gmres", rtol=1e-3 if HERE else 1e-10),
        lambda: ldiv.solve(A, b, method="gmres", maxiter=3 if HERE else 300),
        lambda: ldiv.solve(A, b, method="gmres", M="ilu" if HERE else "jacobi"),
        lambda: ldiv.solve(S, b, assume_a="pos" if HERE else "sym"),
        lambda: ldiv.solve(B if HERE else A, b),
        lambda: ldiv.solve(C if HERE else A, b),
        lambda: ldiv.solve(other, b),
        lambda: (B if HERE else A) @ b,
        lambda: (C if HERE else A) @ b,
        lambda: A + (B if HERE else A),
        lambda: ldiv.eigsh(S, 2, sigma=0.1 if HERE else 0.0),
        lambda: ldiv.eigsh(S, 3 if HERE else 2, sigma=0.0),
        lambda: ldiv.eigsh(S, 2, which="LA" if HERE else "SA"),
    ]
    for call in calls:
        with pytest.raises(distributed.RankError, match="different calls"):
            call()
    still_in_step(w)


@pytest.mark.skipif(SIZE == 1, reason="of two processes and more")
def test_the_error_says_where_it_came_from() -> None:
    w = whole()
    A, b = w.part(w.values[w.mine]), w.b[w.own]
    with pytest.raises(ValueError, match="b: expected") as raised:
        ldiv.solve(A, b[:-1] if HERE else b)
    notes = getattr(raised.value, "__notes__", [])
    assert HERE or f"on process {LAST} of {SIZE}" in notes[0]


def test_a_process_without_rows_and_without_entries() -> None:
    w = Whole(grid(5, wind=0.5), empty=LAST if SIZE > 1 else None)
    n = w.shape[0]
    each = n if SIZE == 1 else n // (SIZE - 1)
    own = 0 if HERE and SIZE > 1 else n - each * (max(SIZE - 1, 1) - 1) if RANK == 0 else each
    stop = int(np.cumsum(np.array(_gathered(own)))[RANK])
    w.own = np.arange(stop - own, stop)
    values = w.values[w.mine]

    def solve(v: Any, b: Any) -> Any:
        return ldiv.solve(w.part(v, local_shape=(own, own)), b)

    x, pull = ldiv.vjp(solve, values, w.b[w.own])
    A_bar, b_bar = pull(w.weights[w.own])
    _, pull_whole = ldiv.vjp(lambda v, b: ldiv.solve(w.everything(v), b), w.values, w.b)
    A_whole, b_whole = pull_whole(w.weights)
    assert x.shape == (own,)
    assert distance(A_bar, A_whole[w.mine], A_whole) <= DIRECT
    assert distance(b_bar, b_whole[w.own], b_whole) <= DIRECT


def test_an_empty_process_in_a_compiled_program() -> None:
    """XLA leaves out what has no elements; not a solve that the others wait for."""
    jax = pytest.importorskip("jax")
    w = Whole(grid(4, wind=0.5), empty=LAST if SIZE > 1 else None)
    n = w.shape[0]
    own = n if RANK == 0 else 0
    w.own = np.arange(n if RANK == 0 else 0)
    b = jax.numpy.asarray(w.b[w.own])

    def loss(v: Any) -> Any:
        x = ldiv.solve(w.part(v, local_shape=(own, own)), b)
        return distributed.sum((x**2).sum())

    value, bar = jax.jit(jax.value_and_grad(loss))(jax.numpy.asarray(w.values[w.mine]))
    assert distance(value, (ldiv.solve(w.everything(w.values), w.b) ** 2).sum(), value) <= 1e-5
    assert bar.shape == (len(w.mine),)


def _gathered(x: int) -> list[int]:
    from mpi4py import MPI

    found: list[int] = MPI.COMM_WORLD.allgather(x)
    return found


def neumann(n: int) -> Any:
    """A singular matrix: constants are mapped to zero."""
    a = grid(n).tolil()
    a[:] = 0
    for i in range(n * n):
        for j in (i - 1, i + 1, i - n, i + n):
            if 0 <= j < n * n and (abs(i - j) != 1 or i // n == j // n):
                a[i, i] += 1.0
                a[i, j] = -1.0
    return a.tocoo()


@pytest.mark.parametrize("assume_a", ["gen", "sym"])
def test_singular_matrices_are_refused(assume_a: Any) -> None:
    w = Whole(neumann(6))
    with pytest.raises(SingularMatrixError):
        ldiv.solve(w.part(w.values[w.mine]), w.b[w.own], assume_a=assume_a)
    still_in_step(whole())


def test_an_empty_row_is_refused() -> None:
    w = whole()
    values = np.where(w.rows == 3, 0.0, w.values)[w.mine]
    with pytest.raises(SingularMatrixError):
        ldiv.solve(w.part(values), w.b[w.own])


def test_scaled_rows_and_columns_are_not_singular() -> None:
    w = whole()
    rng = np.random.default_rng(3)
    rows, cols = 10.0 ** rng.integers(-12, 12, (2, w.shape[0]))
    values = w.values * rows[w.rows] * cols[w.cols]
    x = ldiv.solve(w.part(values[w.mine]), (rows * w.b)[w.own])
    y = ldiv.solve(w.everything(w.values), w.b)
    assert distance(x * cols[w.own], y[w.own], y) <= 1e-9


@pytest.mark.parametrize("scale", [1e300, 1e-300])
def test_units_do_not_matter(scale: float) -> None:
    w = Whole(grid(5, wind=0.2))
    x = ldiv.solve(w.everything(w.values), w.b)
    y = ldiv.solve(w.part(w.values[w.mine]), scale * w.b[w.own]) / scale
    z = ldiv.solve(w.part(scale * w.values[w.mine]), w.b[w.own]) * scale
    assert distance(y, x[w.own], x) <= DIRECT
    assert distance(z, x[w.own], x) <= DIRECT


def test_nothing_at_all() -> None:
    nothing = np.zeros(0, int)
    A = distributed.coo_array((np.zeros(0), (nothing, nothing)), (0, 0))
    assert ldiv.solve(A, np.zeros(0)).shape == (0,)


def test_promises_are_looked_at() -> None:
    w = whole()
    with pytest.raises(NotSymmetricError):
        ldiv.solve(w.part(w.values[w.mine]), w.b[w.own], assume_a="sym")
    calm = Whole(grid(6))
    shifted = np.where(calm.rows == calm.cols, calm.values - 3.0, calm.values)
    with pytest.raises(NotPositiveDefiniteError):
        ldiv.solve(calm.part(shifted[calm.mine]), calm.b[calm.own], assume_a="pos")


def test_iterations_that_do_not_converge_are_refused() -> None:
    w = whole()
    with pytest.raises(ldiv.ConvergenceError, match="gmres"):
        ldiv.solve(w.part(w.values[w.mine]), w.b[w.own], method="gmres", maxiter=2)
    singular = Whole(neumann(6))
    with pytest.raises((ldiv.ConvergenceError, SingularMatrixError)):
        ldiv.solve(
            singular.part(singular.values[singular.mine]), singular.b[singular.own], method="gmres"
        )


def test_bad_options() -> None:
    w = whole()
    A, b = w.part(w.values[w.mine]), w.b[w.own]
    with pytest.raises(ValueError, match="M: expected one of"):
        ldiv.solve(A, b, M="nonsense")
    with pytest.raises(ldiv.EngineError, match="'superlu' is not there"):
        ldiv.solve(A, b, method="superlu")
    with pytest.raises(TypeError, match="solver_parameters"):
        w.part(w.values[w.mine], solver_parameters=["-ksp_monitor"])
    with pytest.raises(ldiv.EngineError, match="ksp_monitor"):
        ldiv.solve(A, b, method="gmres", progress=True)
    with pytest.raises(TypeError, match="real numbers"):
        w.part(w.values[w.mine] * 1j)


def test_other_functions_refuse_a_matrix_over_processes() -> None:
    w = whole()
    A, b = w.part(w.values[w.mine]), w.b[w.own]
    calls = [
        lambda: ldiv.det(A),
        lambda: ldiv.logdet(A),
        lambda: ldiv.slogdet(A),
        lambda: ldiv.inv(A),
        lambda: ldiv.lstsq(A, b),
        lambda: ldiv.quad_form(A, b),
        lambda: ldiv.trace_solve(A, A),
        lambda: ldiv.svds(A, 2),
        lambda: ldiv.eigh(A),
        lambda: ldiv.spectral_sum(A, np.exp),
        lambda: ldiv.solve_triangular(A, b),
        lambda: ldiv.factorized(A).logabsdet(),
        lambda: ldiv.eigenspace(A, 2),
        lambda: np.asarray(A),
    ]
    for call in calls:
        with pytest.raises((ldiv.EngineError, TypeError, ValueError)):
            call()
    still_in_step(w)
