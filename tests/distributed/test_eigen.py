"""Eigenpairs over several processes, and their gradients, against those of one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from distributed.problem import DIRECT, RANK, Whole, distance, grid

pytest.importorskip("slepc4py", reason="slepc4py is not installed: `make mpi`")

import ldiv
from ldiv import distributed

K = 3
CALM = grid(7)
VECTORS = 1e-9


def mass(a: Any) -> Any:
    """A positive definite matrix with entries at the places of another."""
    n = a.shape[0]
    m = (sp.eye_array(n) * 4 + abs(grid(round(n**0.5))) / 10).tocoo()
    m.sum_duplicates()
    return m


def leaf(x: Any) -> Any:
    return torch.tensor(x, requires_grad=True)


def loss_of(w: Any, x: Any, weights: Any, total: Any) -> Any:
    """A loss of values and vectors that does not depend on the signs of vectors."""
    (weights,) = (torch.tensor(weights),)
    gram = total(x.T @ (weights[:, None] * x))
    return (w * torch.arange(1.0, 1 + len(w), dtype=w.dtype)).sum() + (gram**2).sum()


CASES: dict[str, dict[str, Any]] = {
    "sigma": {"sigma": 0.3},
    "lowest": {"sigma": 0.0},
    "largest": {"which": "LA"},
    "lobpcg": {"which": "SA", "method": "lobpcg"},
}


@pytest.mark.parametrize("pencil", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_gradients_are_those_of_one_process(name: str, pencil: bool) -> None:
    options = CASES[name]
    w, m = Whole(CALM), Whole(mass(CALM))
    here = options if name != "lobpcg" else {"sigma": 0.0}

    def run(A: Any, B: Any, weights: Any, total: Any, told: Any) -> Any:
        lam, x = ldiv.eigsh(A, K, M=B, **told)
        loss_of(lam, x, weights, total).backward()
        return lam.detach(), A.params.grad, None if B is None else B.params.grad

    A, B = w.everything(leaf(w.values)), m.everything(leaf(m.values)) if pencil else None
    lam, A_bar, B_bar = run(A, B, w.weights, lambda y: y, here)
    A, B = w.part(leaf(w.values[w.mine])), m.part(leaf(m.values[m.mine])) if pencil else None
    lam_here, A_bar_here, B_bar_here = run(A, B, w.weights[w.own], distributed.sum, options)
    assert distance(lam_here, lam, lam) <= DIRECT
    assert distance(A_bar_here, A_bar[w.mine], A_bar) <= VECTORS
    if pencil:
        assert distance(B_bar_here, B_bar[m.mine], B_bar) <= VECTORS


def test_gradients_of_eigenvalues_alone() -> None:
    w = Whole(CALM)
    values = leaf(w.values)
    ldiv.eigsh(w.everything(values), K, sigma=0)[0].log().sum().backward()
    here = leaf(w.values[w.mine])
    lam = ldiv.eigsh(w.part(here), K, sigma=0, return_eigenvectors=False)
    lam.log().sum().backward()
    assert distance(here.grad, values.grad[w.mine], values.grad) <= DIRECT


def test_lobpcg_with_gamg() -> None:
    w = Whole(grid(9))
    rng = np.random.default_rng(5)
    start = rng.standard_normal((len(w.b), K))[w.own]
    values = leaf(w.values)
    lam, x = ldiv.eigsh(w.everything(values), K, sigma=0)
    loss_of(lam, x, w.weights, lambda y: y).backward()
    here = leaf(w.values[w.mine])
    lam_here, x_here = ldiv.lobpcg(w.part(here), torch.tensor(start), M="amg", largest=False)
    loss_of(lam_here, x_here, w.weights[w.own], distributed.sum).backward()
    assert distance(lam_here.detach(), lam.detach(), lam.detach()) <= 1e-11
    assert distance(here.grad, values.grad[w.mine], values.grad) <= VECTORS


def test_forward_mode_and_second_order() -> None:
    w = Whole(grid(5))
    d = np.random.default_rng(2).standard_normal(len(w.values))

    def run(values: Any, direction: Any, make: Any, weights: Any, total: Any) -> Any:
        def loss(v: Any) -> Any:
            lam, x = ldiv.eigsh(make(v), 2, sigma=0.1)
            return loss_of(lam, x, weights, total)

        values, direction = leaf(values), torch.tensor(direction)
        (first,) = torch.autograd.grad(loss(values), values, create_graph=True)
        (second,) = torch.autograd.grad(total((first * direction).sum()), values)
        _, slope = torch.func.jvp(loss, (values.detach(),), (direction,))
        return slope.detach(), second

    slope, second = run(w.values, d, w.everything, w.weights, lambda y: y)
    slope_here, second_here = run(
        w.values[w.mine], d[w.mine], w.part, w.weights[w.own], distributed.sum
    )
    assert distance(slope_here, slope, slope) <= VECTORS
    assert distance(second_here, second[w.mine], second) <= 1e-7


def square() -> Any:
    """The Laplacian on a square: its second and third eigenvalues are equal."""
    one = sp.eye_array(6)
    second = sp.diags_array([-np.ones(5), 2 * np.ones(6), -np.ones(5)], offsets=[-1, 0, 1])
    return (sp.kron(second, one) + sp.kron(one, second)).tocoo()


def test_clusters_are_handled_or_refused() -> None:
    w = Whole(square())
    values = leaf(w.values[w.mine])
    lam, _ = ldiv.eigsh(w.part(values), 3, sigma=0)
    assert abs(float((lam[1] - lam[2]).detach())) <= 1e-12
    with pytest.raises(ldiv.NotDifferentiableError, match="repeated eigenvalue"):
        torch.autograd.grad(lam[1], values, retain_graph=True)
    (bar,) = torch.autograd.grad(lam.sum(), values)
    whole = leaf(w.values)
    ldiv.eigsh(w.everything(whole), 3, sigma=0)[0].sum().backward()
    assert distance(bar, whole.grad[w.mine], whole.grad) <= DIRECT


@pytest.mark.parametrize("options", [{"which": "SA"}, {"sigma": 0.0}, {"sigma": 1.0}])
def test_no_copy_of_a_repeated_eigenvalue_is_missed(options: dict[str, Any]) -> None:
    """A Krylov space has one of them: a second search looks for the others."""
    w = Whole(square())
    every = np.linalg.eigvalsh(w.everything(w.values).toarray())
    for k in (1, 2, 3, 5):
        wanted = np.sort(every[np.argsort(abs(every - options.get("sigma", -1.0)))[:k]])
        lam, _ = ldiv.eigsh(w.part(w.values[w.mine]), k, **options)
        assert distance(lam, wanted, every) <= 1e-11
    values = leaf(w.values[w.mine])
    lam, _ = ldiv.eigsh(w.part(values), 2, which="SA")  # of which the third is another copy
    with pytest.raises(ldiv.NotDifferentiableError, match="repeated eigenvalue"):
        torch.autograd.grad(lam.sum(), values)


def test_jax_compiled() -> None:
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    w = Whole(grid(5))

    def loss(v: Any) -> Any:
        lam, x = ldiv.eigsh(w.part(v), 2, sigma=0.1)
        gram = distributed.sum(x.T @ (w.weights[w.own][:, None] * x))
        return (lam * jax.numpy.arange(1.0, 3.0)).sum() + (gram**2).sum()

    value, bar = jax.jit(jax.value_and_grad(loss))(jax.numpy.asarray(w.values[w.mine]))
    values = leaf(w.values)
    lam, x = ldiv.eigsh(w.everything(values), 2, sigma=0.1)
    whole = loss_of(lam, x, w.weights, lambda y: y)
    whole.backward()
    assert distance(value, whole.detach(), whole.detach()) <= VECTORS
    assert distance(bar, values.grad[w.mine], values.grad) <= VECTORS


def test_info() -> None:
    w = Whole(CALM)
    _, _, info = ldiv.eigsh(w.part(w.values[w.mine]), K, sigma=0, info=True)
    assert info.residuals.max() <= 1e-11
    assert info.gradient_error <= 1e-9


def test_more_pairs_than_a_process_has_rows() -> None:
    w = Whole(grid(3))
    lam = ldiv.eigsh(w.part(w.values[w.mine]), 9, which="SA", return_eigenvectors=False)
    whole = np.linalg.eigvalsh(w.everything(w.values).toarray())
    assert distance(lam, whole, whole) <= DIRECT


def test_what_is_not_there_says_so() -> None:
    w = Whole(CALM)
    A = w.part(w.values[w.mine])
    for options in (
        {"which": "BE"},
        {"method": "arpack"},
        {"sigma": 1.0, "which": "SA"},
        {"sigma": 1.0, "check": True},
    ):
        with pytest.raises(ldiv.EngineError, match="over several processes"):
            ldiv.eigsh(A, 2, **options)
    with pytest.raises(ldiv.EngineError, match="lowest"):
        ldiv.lobpcg(A, np.ones((len(w.own), 1)), largest=True)
    with pytest.raises((ValueError, ldiv.EngineError)):
        ldiv.eigsh(A, 2, sigma=1.0, mode="buckling")
    with pytest.raises(ValueError, match="processes of A"):
        ldiv.eigsh(A, 2, M=ldiv.eye_array(len(w.own)))
    values = w.values[w.mine].copy()
    values[:1] = np.nan if RANK == 0 else values[:1]
    with pytest.raises(ValueError, match="finite numbers"):
        ldiv.eigsh(w.part(values), 2, sigma=0)
