"""gradcheck of functions over several processes: all of them judge, alike."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from distributed.problem import RANK, SIZE, Whole, grid
from mpi4py import MPI

import ldiv
from ldiv import distributed
from ldiv.checker.findings import NEAR, TooNoisyError, WrongDerivativeError

LAST = SIZE - 1
several = pytest.mark.skipif(SIZE == 1, reason="of two processes and more")


def same_everywhere(x: Any) -> bool:
    return len(set(MPI.COMM_WORLD.allgather(str(x)))) == 1


def wind() -> Whole:
    return Whole(grid(4, wind=0.5, noise=0.1))


def leaf(x: Any) -> Any:
    return torch.tensor(x, dtype=torch.float64)


def test_a_solve_in_every_mode_of_pytorch() -> None:
    w = wind()
    report = ldiv.gradcheck(
        lambda v, b: ldiv.solve(w.part(v), b), leaf(w.values[w.mine]), leaf(w.b[w.own])
    )
    assert report.ok
    assert not report.refused
    assert {f.mode for f in report.findings} >= {"vjp", "jvp", "reverse over reverse", "vmap"}
    assert same_everywhere(report)


@pytest.mark.exhaustive
def test_a_solve_in_jax() -> None:
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    w = Whole(grid(3, wind=0.5))
    values, b = jax.numpy.asarray(w.values[w.mine]), jax.numpy.asarray(w.b[w.own])
    modes = ("vjp", "jvp", "forward over reverse")
    report = ldiv.gradcheck(lambda v, b: ldiv.solve(w.part(v), b), values, b, modes=modes)
    assert report.ok
    assert same_everywhere(report)


def test_a_solve_of_numpy_arrays_and_a_matrix_as_an_argument() -> None:
    w = wind()
    A = w.part(w.values[w.mine])
    report = ldiv.gradcheck(ldiv.solve, A, w.b[w.own])
    assert report.ok
    assert same_everywhere(report)
    iterated = ldiv.gradcheck(
        lambda A, b: ldiv.solve(A, b, method="gmres", M="ilu", rtol=1e-13), A, w.b[w.own]
    )
    assert iterated.ok


def test_entry_by_entry() -> None:
    w = Whole(grid(2, wind=0.5))
    report = ldiv.gradcheck(
        lambda v: ldiv.solve(w.part(v), w.b[w.own]), w.values[w.mine], exhaustive=True
    )
    assert report.ok
    at_v = [f for f in report.findings if not f.subject.endswith(NEAR)]
    assert {f.mode for f in at_v} == {"vjp", "jvp", "vjp against jvp"}
    assert all(len(f.where) == len(w.values) for f in at_v)
    assert same_everywhere(report)


@pytest.mark.exhaustive
def test_losses_count_once() -> None:
    w = wind()

    def loss(v: Any) -> Any:
        x = ldiv.solve(w.part(v), leaf(w.b[w.own]))
        return distributed.sum((x**2).sum()), x

    assert ldiv.gradcheck(loss, leaf(w.values[w.mine])).ok


@pytest.mark.exhaustive
def test_eigenpairs() -> None:
    pytest.importorskip("slepc4py")
    w = Whole(grid(4))
    weights = leaf(w.weights[w.own])

    def f(v: Any) -> Any:
        lam, x = ldiv.eigsh(w.part(v), 2, sigma=0.0)
        return lam, distributed.sum((weights[:, None] * x**2).sum(0)), x**2

    modes = ("vjp", "jvp", "vjp against jvp", "gauge")
    report = ldiv.gradcheck(f, leaf(w.values[w.mine]), modes=modes)
    assert report.ok
    assert "gauge" in {finding.mode for finding in report.findings}
    with pytest.raises(WrongDerivativeError, match="signs or phases") as raised:
        ldiv.gradcheck(
            lambda v: ldiv.eigsh(w.part(v), 2, sigma=0.0)[1],
            leaf(w.values[w.mine]),
            modes=("gauge",),
        )
    assert same_everywhere(raised.value)


@pytest.mark.exhaustive
def test_parameters_that_all_share() -> None:
    w = wind()
    theta, values = leaf([1.0, 0.5]), leaf(w.values[w.mine])

    def f(values: Any, theta: Any) -> Any:
        here = distributed.spread(theta)
        x = ldiv.solve(w.part(values * here[0]), leaf(w.b[w.own]) * here[1])
        return distributed.sum((x**2).sum()), x

    assert ldiv.gradcheck(f, values, distributed.shared(theta)).ok


@several
def test_a_share_is_not_the_gradient() -> None:
    w = wind()

    def f(theta: Any) -> Any:
        return distributed.sum((ldiv.solve(w.part(leaf(w.values[w.mine]) * theta), b) ** 2).sum())

    b, modes = leaf(w.b[w.own]), ("vjp", "jvp")
    with pytest.raises(WrongDerivativeError) as raised:
        ldiv.gradcheck(f, distributed.shared(leaf(2.0)), modes=modes)
    assert same_everywhere(raised.value)
    with pytest.raises(ValueError, match="a shared argument: expected the same"):
        ldiv.gradcheck(f, distributed.shared(leaf(2.0 + RANK)), modes=modes)


class AllReduce(torch.autograd.Function):
    """A sum of which every copy counts: the mistake that `distributed.sum` prevents."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return torch.tensor(MPI.COMM_WORLD.allreduce(x.item()), dtype=x.dtype)

    @staticmethod
    def backward(ctx: Any, y_bar: Any) -> Any:
        return torch.tensor(MPI.COMM_WORLD.allreduce(y_bar.item()), dtype=y_bar.dtype)


@several
def test_a_plain_all_reduce_is_wrong() -> None:
    w = wind()

    def f(v: Any) -> Any:
        return AllReduce.apply((ldiv.solve(w.part(v), leaf(w.b[w.own])) ** 2).sum())

    with pytest.raises(WrongDerivativeError, match="vjp") as raised:
        ldiv.gradcheck(f, leaf(w.values[w.mine]), modes=("vjp",))
    assert same_everywhere(raised.value)
    assert SIZE != 2 or "a factor 2 too much" in str(raised.value)


class Wrong(torch.autograd.Function):
    """x, with a cotangent that is wrong on the last process."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, y_bar: Any) -> Any:
        return y_bar * (1.001 if RANK == LAST else 1.0)


def test_what_is_wrong_on_one_process_is_wrong_on_all() -> None:
    w = wind()
    with pytest.raises(WrongDerivativeError) as raised:
        ldiv.gradcheck(
            lambda v: Wrong.apply(ldiv.solve(w.part(Wrong.apply(v)), leaf(w.b[w.own]))),
            leaf(w.values[w.mine]),
            modes=("vjp",),
        )
    assert same_everywhere(raised.value)


@pytest.mark.parametrize(
    "error",
    [
        ValueError,
        *(pytest.param(e, marks=pytest.mark.exhaustive) for e in (KeyError, ZeroDivisionError)),
    ],
)
def test_an_error_of_one_process_is_one_of_all(error: type[Exception]) -> None:
    w = wind()
    start = w.values[w.mine]

    def f(v: Any) -> Any:
        x = ldiv.solve(w.part(v), w.b[w.own])
        if RANK == LAST and abs(v - start).max() > 0:
            raise error("only here")
        return x

    expected = TooNoisyError if error is not KeyError else KeyError
    with pytest.raises(expected):
        ldiv.gradcheck(f, start, modes=("vjp",))
    with pytest.raises(error, match="only here"):
        ldiv.gradcheck(lambda v: f(v + 1.0), start, modes=("vjp",))
    assert ldiv.gradcheck(lambda v: ldiv.solve(w.part(v), w.b[w.own]), start).ok


class Unknown(ValueError):
    """An error that cannot be pickled: the others are told of it in words."""

    def __init__(self) -> None:
        super().__init__("nowhere")
        self.here = lambda: None


@several
def test_errors_that_cannot_be_told_end_the_check_of_all() -> None:
    w = wind()
    start = w.values[w.mine]

    def f(v: Any) -> Any:
        x = ldiv.solve(w.part(v), w.b[w.own])
        if RANK == LAST and abs(v - start).max() > 0:
            raise Unknown
        return x

    with pytest.raises((distributed.RankError, TooNoisyError)):
        ldiv.gradcheck(f, start, modes=("vjp",))


def test_nan_on_one_process() -> None:
    w = wind()
    values = w.values[w.mine].copy()
    values[:1] = np.nan if RANK == LAST else values[:1]
    with pytest.raises(ValueError, match="finite numbers"):
        ldiv.gradcheck(lambda v: ldiv.solve(w.part(v), w.b[w.own]), values)


@several
def test_settings_that_differ() -> None:
    w = wind()
    values = w.values[w.mine]

    def f(v: Any) -> Any:
        return ldiv.solve(w.part(v), w.b[w.own])

    for options in ({"seed": RANK}, {"exhaustive": RANK == 0}, {"rtol": 1e-7 * (1 + RANK)}):
        with pytest.raises(ValueError, match="expected the same on all processes"):
            ldiv.gradcheck(f, values, **options)


@several
@pytest.mark.exhaustive
def test_a_process_without_rows_and_entries() -> None:
    w = Whole(grid(3, wind=0.5), empty=LAST)
    own = w.shape[0] if RANK == 0 else 0
    w.own = np.arange(own)

    def f(v: Any, b: Any) -> Any:
        return ldiv.solve(w.part(v, local_shape=(own, own)), b)

    report = ldiv.gradcheck(f, leaf(w.values[w.mine]), leaf(w.b[w.own]))
    assert report.ok
    assert same_everywhere(report)
