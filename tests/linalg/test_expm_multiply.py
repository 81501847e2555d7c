"""exp(t A) B: 40-digit values, SciPy's, and the derivatives of the exponential of dense matrices."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
import scipy.io
import scipy.linalg
import scipy.sparse as sp
import scipy.sparse.linalg as spl
import torch

import ldiv

jax.config.update("jax_enable_x64", True)
RNG = np.random.default_rng(11)
N = 12
S = sp.csr_array(
    sp.random_array((N, N), density=0.25, rng=RNG, data_sampler=RNG.standard_normal)
    - 3 * sp.eye_array(N)
)
B = RNG.standard_normal((N, 2))
CHAIN = sp.diags_array([np.r_[np.full(20, 0.1), np.full(11, 30.0)]], offsets=[-1], shape=(32, 32))


def exact(a: Any, b: Any) -> Any:
    """exp(a) b to 40 digits."""
    with mpmath.workdps(40):
        y = mpmath.expm(mpmath.matrix(a.tolist())) * mpmath.matrix(b.tolist())
        return np.array(y.tolist(), dtype=complex if np.iscomplexobj(a) else float)


def close(found: Any, wanted: Any, rtol: float = 1e-13) -> None:
    found, wanted = np.asarray(found), np.asarray(wanted)
    assert found.shape == wanted.shape
    assert np.linalg.norm(found - wanted) <= rtol * np.linalg.norm(wanted)


@pytest.mark.parametrize(
    "to", [np.asarray, torch.asarray, pytest.param(jnp.asarray, marks=pytest.mark.exhaustive)]
)
def test_values(to: Any) -> None:
    dense, wanted = S.toarray(), exact(S.toarray(), B)
    sparse = ldiv.asarray(S).with_data(to(S.data))
    symmetric = {"assume_a": "gen", "rmatvec": lambda p, x: p.T @ x}
    operator = ldiv.LinearOperator(lambda p, x: p @ x, to(dense), shape=(N, N), **symmetric)
    for A in (sparse, to(dense), operator, S):
        close(ldiv.expm_multiply(A, to(B)), wanted)
    close(ldiv.expm_multiply(sparse.T, to(B[:, 0])), exact(dense.T, B[:, :1])[:, 0])
    z = dense + 1j * dense.T
    close(ldiv.expm_multiply(to(z), to(B)), exact(z, B))
    close(ldiv.expm_multiply(sparse, to(B + 1j * B)), wanted + 1j * wanted)
    both = ldiv.expm_multiply(to(np.stack([dense, -dense])), to(B))
    close(both[1], exact(-dense, B))
    kron = ldiv.kron(to(dense[:3, :3]), to(dense[4:8, 4:8]))
    close(ldiv.expm_multiply(kron, to(B)), exact(np.kron(dense[:3, :3], dense[4:8, 4:8]), B))


@pytest.mark.parametrize("scale", [1e-300, 1e-3, 1.0, 40.0])
def test_matrices_of_all_sizes(scale: float) -> None:
    """Decay far below rounding of the largest term, shifts, growth."""
    laplace = sp.diags_array([np.full(N, -2.0), np.ones(N - 1), np.ones(N - 1)], offsets=[0, 1, -1])
    for A, rtol in ((laplace, 1e-12), (-5 * sp.eye_array(N) + 0 * laplace, 1e-12)):
        dense = scale * A.toarray()
        close(ldiv.expm_multiply(scale * A.tocsr(), B), exact(dense, B), rtol)


def test_a_chain_whose_entries_grow() -> None:
    """The first terms of the series are small, those that follow are not."""
    first = np.eye(32)[:, :1]
    close(ldiv.expm_multiply(CHAIN.tocsr(), first), exact(CHAIN.toarray(), first))


def test_times_are_those_of_linspace() -> None:
    for options in (
        {"start": 0, "stop": 2, "num": 4},
        {"start": -1.0, "stop": 1.0, "num": 3, "endpoint": False},
        {"start": 0.3, "stop": 0.3, "num": 2},
        {"start": 0, "stop": 1},
    ):
        times = np.linspace(**{"num": 50, **options})
        wanted = np.stack([scipy.linalg.expm(t * S.toarray()) @ B for t in times])
        close(ldiv.expm_multiply(S, B, **options), wanted, 1e-12)
        close(ldiv.expm_multiply(S, B[:, 0], **options), wanted[..., 0], 1e-12)
    close(
        ldiv.expm_multiply(S, B, start=0, stop=1, num=3),
        spl.expm_multiply(S, B, start=0, stop=1, num=3),
        1e-12,
    )
    one = ldiv.expm_multiply(S, B, start=0.5, stop=2.0, num=1)
    close(one[0], ldiv.expm_multiply(0.5 * S, B), 1e-12)
    close(ldiv.expm_multiply(S, B, traceA=S.trace()), spl.expm_multiply(S, B), 1e-12)


def test_times_on_both_sides_of_zero() -> None:
    """A component that has decayed at the first time does not grow back with the rounding errors."""
    a = np.array([[-30.0, 5.0], [1.0, 20.0]])
    for ends in ((1.0, -1.0), (-1.0, 1.0), (1.5, 0.5), (-0.5, -1.5)):
        found = ldiv.expm_multiply(a, B[:2], *ends, 3)
        for t, y in zip(np.linspace(*ends, 3), found, strict=True):
            close(y, exact(t * a, B[:2]))


def test_many_steps_of_a_small_matrix() -> None:
    """The steps are not taken; nor is exp(t A) used for a result so small that it loses its digits."""
    turn = np.array([[0.0, 1.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    b = np.array([1.0, 2.0, 3.0])
    for t in (1e4, 1e7):
        y = np.array([b[0] * np.cos(t) + b[1] * np.sin(t), b[1] * np.cos(t) - b[0] * np.sin(t), 3])
        close(ldiv.expm_multiply(t * turn, b), y, 1e-15 * t)
    v = torch.tensor(40 * turn, requires_grad=True)
    ldiv.expm_multiply(v, torch.tensor(b)).square().sum().backward()
    w = torch.tensor(40 * turn, requires_grad=True)
    (ldiv.expm(w) @ torch.tensor(b)).square().sum().backward()
    torch.testing.assert_close(v.grad, w.grad)
    # the part that decays, alone
    a = np.array([[-60.0, 0.0], [0.0, 1.0]])
    close(ldiv.expm_multiply(a, np.array([1.0, 0.0])), np.array([np.exp(-60.0), 0.0]))
    with pytest.raises(ldiv.LinAlgOverflowError, match="overflows"):
        ldiv.expm_multiply(1e3 * np.ones((3, 3)), b)


def test_a_real_matrix() -> None:
    folder = Path(os.environ.get("LDIV_TEST_DATA", ""))
    found = sorted(folder.rglob("*.mtx")) if folder.name else []
    square = (
        scipy.io.mmread(f, spmatrix=False).tocsr() for f in found if f.stat().st_size < 500_000
    )
    A = next((a for a in square if a.shape[0] == a.shape[1] > 100 and a.dtype == float), None)
    if A is None:
        pytest.skip("no matrices: LDIV_TEST_DATA is not set")
    A = A / spl.norm(A, 1) * 20
    b = np.cos(np.arange(A.shape[0]))
    close(ldiv.expm_multiply(A, b), scipy.linalg.expm(A.toarray()) @ b, 1e-11)


@pytest.mark.parametrize("scale", [1.0, 60.0])
def test_derivatives_are_those_of_the_dense_exponential(scale: float) -> None:
    """The action takes one step, or a hundred; tangents and cotangents on NumPy, torch and JAX."""
    A = ldiv.asarray(scale * (S - 2 * sp.eye_array(N)).tocsr())
    dense = A.toarray()
    dA, C = RNG.standard_normal(A.nnz), RNG.standard_normal(B.shape)
    L = scipy.linalg.expm_frechet(dense, A.with_data(dA).toarray(), compute_expm=False) @ B
    whole = scipy.linalg.expm_frechet(dense.T, C @ B.T, compute_expm=False)
    dy = ldiv.jvp(ldiv.expm_multiply, (A, B), (A.with_data(dA), None))[1]
    close(dy, L, 1e-11)
    A_bar, B_bar = ldiv.vjp(ldiv.expm_multiply, A, B)[1](C)
    close(A_bar.data, whole[A.row, A.col], 1e-11)
    close(B_bar, scipy.linalg.expm(dense.T) @ C, 1e-11)
    for to, f in ((torch.asarray, lambda f: f), (jnp.asarray, jax.jit)):
        pulled = f(
            lambda v, b, c, A=A: ldiv.vjp(lambda v, b: ldiv.expm_multiply(A.with_data(v), b), v, b)[
                1
            ](c)
        )(to(A.data), to(B), to(C))
        close(pulled[0], A_bar.data, 1e-11)
        close(pulled[1], B_bar, 1e-11)


def test_operators_in_a_trace_repeat_their_steps() -> None:
    """Seven steps under jit: gradients are those of the sparse matrix."""
    dense, c = 4 * S.toarray(), jnp.asarray(B)

    def loss(f: Any) -> Any:
        return jax.jit(jax.value_and_grad(lambda a: jnp.vdot(c, ldiv.expm_multiply(f(a), c))))

    operator = loss(
        lambda a: ldiv.LinearOperator(
            lambda p, x: p @ x, a, shape=(N, N), rmatvec=lambda p, x: p.T @ x
        )
    )
    for found, wanted in zip(
        operator(jnp.asarray(dense)), loss(lambda a: a)(jnp.asarray(dense)), strict=True
    ):
        close(found, wanted, 1e-11)


def test_one_matrix_in_a_thousand_steps_of_time() -> None:
    """Backward Euler's exact counterpart, in a loop: the gradient is that of one long step."""
    A, b = ldiv.asarray(S / 1000), torch.asarray(B[:, 0])
    v = torch.asarray(A.data).requires_grad_()
    x, matrix = b, A.with_data(v)
    for _ in range(100):
        x = ldiv.expm_multiply(matrix, x)
    x.square().sum().backward()
    w = v.detach().clone().requires_grad_()
    ldiv.expm_multiply(A.with_data(100 * w), b).square().sum().backward()
    torch.testing.assert_close(v.grad, w.grad, rtol=1e-11, atol=1e-14)


def test_single_precision_and_empty_blocks() -> None:
    single = ldiv.expm_multiply(ldiv.asarray(S.astype(np.float32)), B.astype(np.float32))
    assert single.dtype == np.float32
    close(single, exact(S.toarray(), B), 1e-5)
    assert ldiv.expm_multiply(S, B[:, :0]).shape == (N, 0)
    assert ldiv.expm_multiply(np.zeros((0, 0)), np.zeros((0, 3))).shape == (0, 3)
    none = ldiv.vjp(ldiv.expm_multiply, S.toarray(), B[:, :0])[1](B[:, :0])
    assert not none[0].any() and none[1].shape == (N, 0)
    close(ldiv.expm_multiply(np.zeros((N, N)), B), B)


@pytest.mark.usefixtures("without_autograd")
def test_errors() -> None:
    for bad in (
        {"start": 0.0},
        {"stop": 1.0},
        {"num": 3},
        {"start": 0, "stop": 1, "num": 0},
        {"start": 0, "stop": np.nan},
        {"start": -1e308, "stop": 1e308},
    ):
        with pytest.raises(ValueError, match="expected"):
            ldiv.expm_multiply(S, B, **bad)
    with pytest.raises(ValueError, match="square"):
        ldiv.expm_multiply(S[:3], B)
    with pytest.raises(ValueError, match="shape"):
        ldiv.expm_multiply(S, B[:3])
    with pytest.raises(ValueError, match="finite"):
        ldiv.expm_multiply(S, np.nan * B)
    with pytest.raises(ValueError, match="finite"):
        ldiv.expm_multiply(np.nan * S, B)
    with pytest.raises(ValueError, match="finite"):
        ldiv.expm_multiply(1000.0 * np.eye(3), np.ones(3))
    for huge in (np.diag([800.0, 0.0, -1.0]), 1j * np.eye(3) + np.diag([900.0, 1.0, 1.0])):
        with pytest.raises((ValueError, ldiv.LinAlgOverflowError), match=r"finite|large"):
            ldiv.expm_multiply(huge, np.ones(3))
    endless = ldiv.LinearOperator(
        lambda p, x: p * x * np.inf, np.ones(()), shape=(3, 3), assume_a="her"
    )
    with pytest.raises(ldiv.LinAlgOverflowError, match="product with A"):
        ldiv.expm_multiply(endless, np.ones(3))
    with pytest.raises(ValueError, match="implicit method"):
        ldiv.expm_multiply(1e15 * S, B)
    one_way = ldiv.LinearOperator(lambda p, x: p @ x, S.toarray(), shape=(N, N))
    with pytest.raises(TypeError, match="rmatvec"):
        ldiv.expm_multiply(one_way, B)
