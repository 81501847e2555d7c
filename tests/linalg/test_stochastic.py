"""Estimates of log-determinants and traces: within their error bars, unbiased derivatives, modes."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import ldiv
from ldiv.core.rules.rule import bind
from ldiv.linalg.inverses.stochastic import signs
from ldiv.matrices.assumptions import promised_square
from ldiv.rules.leave_one_out import leave_one_out
from ldiv.rules.stochastic_logdet import StochasticLogDet

jax = pytest.importorskip("jax")
import jax.numpy as jnp  # noqa: E402

jax.config.update("jax_enable_x64", True)
METHODS = ("slq", "xtrace", "hutch++")


def grid(m, diagonal=2.01):
    side = -np.ones(m - 1)
    line = ldiv.diags_array([np.full(m, diagonal), side, side], offsets=[0, 1, -1])
    return ldiv.kronsum(line, line)


def exact(A, method):
    if method == "slq":
        return float(ldiv.logdet(A, assume_a="pos"))
    return float(ldiv.inverse_diagonal(A, assume_a="pos").sum().real)


def estimate(A, method, rng, **options):
    if method == "slq":
        return ldiv.logdet(A, assume_a="pos", method="slq", rng=rng, info=True, **options)
    eye = ldiv.eye_array(A.shape[0], like=A.data)
    return ldiv.trace_solve(A, eye, assume_a="pos", method=method, rng=rng, info=True, **options)


def misses(A, method, seeds):
    """Count the estimates that are more than three standard errors off."""
    truth = exact(A, method)
    found = [estimate(A, method, seed) for seed in seeds]
    return sum(abs(value - truth) > 3 * info.standard_error for value, info in found)


@pytest.mark.parametrize("method", METHODS)
def test_within_three_standard_errors(method):
    A = grid(20)
    assert misses(A, method, range(12)) == 0
    value, info = estimate(A, method, 0)
    assert info.method == method and info.probes == 32
    assert info.standard_error < 0.05 * value


@pytest.mark.exhaustive
@pytest.mark.parametrize("method", METHODS)
def test_ninety_nine_of_a_hundred(method):
    assert misses(grid(20), method, range(100)) <= 1


@pytest.mark.exhaustive
def test_more_probes_are_more_accurate():
    A = grid(20)
    errors = {k: estimate(A, "xtrace", 0, probes=k)[1].standard_error for k in (8, 128)}
    assert errors[128] < errors[8] / 10  # as 1/k, not 1/sqrt(k)
    errors = {k: estimate(A, "slq", 0, probes=k)[1].standard_error for k in (32, 512)}
    assert errors[512] < errors[32] / 3


# -- derivatives ----------------------------------------------------------------------------------


def all_of_space(n):
    """Probes with Z Z^H = k I, with which the estimates are exact."""
    q, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((n, n)))
    return np.sqrt(n) * q


def test_with_all_of_space_value_and_derivatives_are_exact():
    A = grid(5)
    _, structure, p, _ = promised_square(A, "pos")
    rule, z = StochasticLogDet(structure, 25), torch.from_numpy(all_of_space(25))
    v = torch.tensor(p, requires_grad=True)
    e = torch.from_numpy(np.cos(np.arange(len(p))))
    along = []
    for f in (lambda v: bind(rule, v, z)[0], lambda v: ldiv.logdet(A.with_data(v), assume_a="pos")):
        (g,) = torch.autograd.grad(f(v), v, create_graph=True)
        (h,) = torch.autograd.grad(g @ e, v)
        moved = torch.func.jvp(f, (v.detach(),), (e,))[1]
        along.append((f(v).detach(), g.detach(), h, moved))
    for found, expected in zip(*along, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("method", METHODS)
def test_gradients_are_unbiased(method):
    """The gradient in c, the strength of the diagonal: 512 vectors leave one or two percent to
    chance.
    """
    A = grid(6, 2.1)
    eye = ldiv.eye_array(36)

    def gradients(f):
        c = torch.zeros((), dtype=torch.float64, requires_grad=True)
        like = A.with_data(torch.from_numpy(A.data)) + c * ldiv.eye_array(36, like=c)
        (g,) = torch.autograd.grad(f(like), c, create_graph=True)
        (h,) = torch.autograd.grad(g, c)
        return float(g.detach()), float(h)

    inverse = np.linalg.inv(A.toarray())
    power = [np.trace(np.linalg.matrix_power(inverse, k)) for k in range(4)]
    if method == "slq":
        expected = power[1], -power[2]
        found = gradients(lambda M: estimate(M, "slq", 0, probes=512)[0])
    else:
        expected = -power[2], 2 * power[3]
        each = [gradients(lambda M, s=s: estimate(M, method, s, probes=32)[0]) for s in range(16)]
        found = np.mean(each, axis=0)
    np.testing.assert_allclose(found, expected, rtol=0.03)
    assert eye.shape == (36, 36)


def test_derivatives_of_xtrace_hold_the_projections():
    """t = tr(W F) with W = mean of P_i + u_i u_i^H, of rank 2 k and trace n in the mean."""
    rng = np.random.default_rng(0)
    n, k = 12, 5
    a, b = rng.standard_normal((2, n, n)) + 4 * np.eye(n)
    w = signs(3, n, k, a)
    q, s, d = leave_one_out(np.linalg.solve(a, b) @ w, w)
    u = w - q @ d
    total = u @ u.T / k
    for i in range(k):
        rest = np.delete(np.linalg.solve(a, b) @ w, i, axis=1)
        p = rest @ np.linalg.pinv(rest)
        np.testing.assert_allclose(
            q @ (np.eye(k) - np.outer(s[:, i], s[:, i])) @ q.T, p, atol=1e-12
        )
        np.testing.assert_allclose(u[:, i], w[:, i] - p @ w[:, i], atol=1e-11)
        total += p / k
    ta, tb = (torch.tensor(x, requires_grad=True) for x in (a, b))
    t = ldiv.trace_solve(ta, tb, method="xtrace", probes=k, rng=3)
    np.testing.assert_allclose(t.detach(), np.trace(total @ np.linalg.solve(a, b)), rtol=1e-12)
    a_bar, b_bar = torch.autograd.grad(t, (ta, tb))
    lam = np.linalg.solve(a.T, total)
    np.testing.assert_allclose(b_bar, lam, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(a_bar, -lam @ np.linalg.solve(a, b).T, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("rank", [0, 3])
@pytest.mark.parametrize("method", ["xtrace", "hutch++"])
def test_a_trace_of_low_rank_is_exact(method, rank):
    a = grid(4).toarray()
    u = np.random.default_rng(0).standard_normal((16, 3)) * (rank > 0)
    value, info = ldiv.trace_solve(a, u @ u.T, method=method, probes=10, rng=1, info=True)
    np.testing.assert_allclose(value, np.trace(np.linalg.solve(a, u @ u.T)), rtol=1e-11)
    assert info.standard_error <= 1e-10 * max(1, abs(value))


# -- matrices, frameworks, seeds ------------------------------------------------------------------


def stretched(d, x):
    return d[:, None] * x


def test_operators():
    d = np.linspace(1, 5, 60)
    D = ldiv.LinearOperator(stretched, d, shape=(60, 60), assume_a="pos")
    # signs see a diagonal exactly
    np.testing.assert_allclose(ldiv.logdet(D, method="slq", rng=0), np.log(d).sum(), rtol=1e-10)
    value, info = ldiv.trace_solve(D, ldiv.eye_array(60), method="xtrace", rng=0, info=True)
    assert abs(value - (1 / d).sum()) < 3 * info.standard_error
    t = torch.tensor(d, requires_grad=True)
    D = ldiv.LinearOperator(stretched, t, shape=(60, 60), assume_a="pos")
    (g,) = torch.autograd.grad(ldiv.logdet(D, method="slq", rng=0), t)
    np.testing.assert_allclose(g, 1 / d, rtol=1e-8)


@pytest.mark.parametrize(
    "make",
    [
        lambda: ldiv.asarray(grid(4).toarray()),
        lambda: ldiv.kron(grid(3), grid(2)),
        lambda: ldiv.Gram(grid(4).toarray()),
        lambda: grid(6) + ldiv.LowRank(np.ones((36, 1)), np.ones((36, 1))),
    ],
    ids=["dense", "Kronecker", "Gram", "low rank"],
)
def test_structures(make):
    A = make()
    value, info = ldiv.logdet(A, assume_a="pos", method="slq", rng=2, info=True)
    assert abs(value - ldiv.logdet(A, assume_a="pos")) < 3 * info.standard_error


@pytest.mark.parametrize("dtype", [np.float32, np.complex128])
def test_other_dtypes(dtype):
    A = grid(8)
    phase = np.exp(0.5j * np.sign(A.row - A.col)) if dtype == np.complex128 else 1
    A = A.with_data((A.data * phase).astype(dtype))
    for method in METHODS:
        value, info = estimate(A, method, 0)
        assert np.dtype(value.dtype).itemsize == (4 if dtype == np.float32 else value.itemsize)
        truth = ldiv.logdet(A, assume_a="pos") if method == "slq" else exact(A, method)
        assert abs(value - truth) < 3 * info.standard_error


def test_batches():
    A = grid(6)
    both = A.with_data(np.stack([A.data, 3 * A.data]))
    value, info = ldiv.logdet(both, assume_a="pos", method="slq", rng=0, info=True)
    one = ldiv.logdet(A, assume_a="pos", method="slq", rng=0)
    np.testing.assert_allclose(value, [one, one + 36 * np.log(3)], rtol=1e-10)
    assert info.standard_error.shape == (2,)
    value, info = ldiv.trace_solve(
        both, ldiv.eye_array(36), assume_a="pos", method="xtrace", rng=0, info=True
    )
    np.testing.assert_allclose(value[0], 3 * value[1], rtol=1e-10)


@pytest.mark.parametrize("method", METHODS)
def test_seeds_are_the_same_everywhere(method):
    A = grid(6)
    value = estimate(A, method, 5)[0]
    estimated = lambda data: estimate(A.with_data(data), method, 5)[0]
    np.testing.assert_allclose(estimated(torch.from_numpy(A.data)), value, rtol=1e-9)
    np.testing.assert_allclose(jax.jit(estimated)(A.data), value, rtol=1e-9)
    np.testing.assert_array_equal(estimate(A, method, np.random.default_rng(5))[0], value)
    assert estimate(A, method, 6)[0] != value


@pytest.mark.parametrize("method", METHODS)
def test_generators_of_pytorch(method):
    A = grid(6)
    A = A.with_data(torch.from_numpy(A.data))
    one, two = (estimate(A, method, torch.Generator().manual_seed(1))[0] for _ in range(2))
    assert one == two


@pytest.mark.exhaustive
def test_keys_of_jax_in_a_compiled_function():
    A = grid(5)

    @jax.jit
    def f(v, key):
        M = A.with_data(v)
        l, info = ldiv.logdet(M, assume_a="pos", method="slq", rng=key, info=True)
        t = ldiv.trace_solve(
            M, ldiv.eye_array(25, like=v), assume_a="pos", method="xtrace", rng=key
        )
        return (l, t), info.standard_error

    v = jnp.asarray(A.data)
    (l, _), error = f(v, jax.random.key(0))
    assert abs(l - exact(A, "slq")) < 3 * error
    (other, _), _ = f(v, jax.random.key(1))
    assert l != other
    keys = jax.random.split(jax.random.key(2), 3)
    each = [f(v, key)[0] for key in keys]
    np.testing.assert_allclose(jax.vmap(f, (None, 0))(v, keys)[0], np.transpose(each), rtol=1e-10)
    g = jax.jit(jax.grad(lambda v, key: f(v, key)[0][0]))(v, jax.random.key(0))
    np.testing.assert_allclose(g @ v, 25, rtol=1e-9)  # tr(A^-1 A), whatever the signs


def test_numpy_has_the_gradient_of_the_logarithm():
    A = grid(5)
    _, pull = ldiv.vjp(
        lambda v: ldiv.logdet(A.with_data(v), assume_a="pos", method="slq", rng=0), A.data
    )
    np.testing.assert_allclose(pull(np.ones(()))[0] @ A.data, 25, rtol=1e-9)


# -- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize("rng", [None, True, -1, 1.5, "seed", torch.Generator(), [1, 2]])
@pytest.mark.parametrize("method", ["slq", "xtrace"])
def test_seeds_that_are_none(method, rng):
    with pytest.raises((TypeError, ValueError), match="rng: expected"):
        estimate(grid(3), method, rng)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda A: ldiv.logdet(A, rng=0), "none of them with a method that is exact"),
        (lambda A: ldiv.logdet(A, info=True), "none of them with a method that is exact"),
        (lambda A: ldiv.trace_solve(A, A, probes=3), "none of them with a method that is exact"),
        (lambda A: ldiv.logdet(A, method="slq", rng=0), "positive definite"),
        (lambda A: estimate(A, "slq", 0, probes=1), "probes"),
        (lambda A: estimate(A, "hutch++", 0, probes=3), "probes"),
        (lambda A: estimate(A, "slq", 0, steps=0), "steps"),
        (lambda A: estimate(A, "xtrace", 0, solver="magic"), "solver"),
        (lambda A: ldiv.logdet(A, method="xtrace", rng=0), "method"),
    ],
)
def test_bad_options(call, message):
    with pytest.raises(ValueError, match=message):
        call(grid(3))


def test_matrices_that_are_not_positive_definite():
    A = grid(6, 1.0)
    with pytest.raises(ldiv.NotPositiveDefiniteError):
        ldiv.logdet(A, assume_a="pos", method="slq", rng=0)


@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1e160, 1e300])
def test_logdet_of_tiny_and_huge_numbers(scale):
    d = scale * np.linspace(1.0, 49.0, 40)
    for A in (np.diag(d), torch.diag(torch.asarray(d))):
        found = float(ldiv.logdet(A, assume_a="pos", method="slq", rng=0))
        assert abs(found - np.log(d).sum()) < 1e-9 * abs(np.log(d)).sum()


@pytest.mark.parametrize("n", [3, 20, 50])
def test_a_singular_matrix_has_no_logdet(n):
    """The logarithm of the rounding error of its eigenvalue 0 is a plausible number."""
    with pytest.raises(ldiv.NotPositiveDefiniteError, match="of the largest"):
        ldiv.logdet(np.diag(np.arange(1.0 * n)), assume_a="pos", method="slq", rng=0)


def test_too_few_steps():
    line = ldiv.diags_array([np.full(400, 2.0), -np.ones(399), -np.ones(399)], offsets=[0, 1, -1])
    hard = (line @ line) @ (line @ line)
    with pytest.raises(ldiv.ConvergenceError, match="double them"):
        ldiv.logdet(hard, assume_a="pos", method="slq", probes=400, steps=4, rng=0)


def test_small_matrices():
    for method in METHODS:
        value, info = estimate(ldiv.eye_array(1) * 2.0, method, 0)
        np.testing.assert_allclose(value, np.log(2) if method == "slq" else 0.5)
        assert info.standard_error < 1e-12


@pytest.mark.parametrize("shape", [(0, 0), (0, 3, 3), (2, 0, 0)])
def test_matrices_without_rows_and_empty_batches(shape):
    a = np.zeros(shape) + np.eye(shape[-1])
    of_jax = [jnp.asarray(a)] if shape == (2, 0, 0) else []  # which compiles each
    for made in (a, torch.from_numpy(a), *of_jax):
        found = [ldiv.logdet(made, assume_a="pos", method="slq", rng=0, info=True)]
        found += [
            ldiv.trace_solve(made, made, method=method, rng=0, info=True) for method in METHODS[1:]
        ]
        for value, info in found:
            assert tuple(value.shape) == shape[:-2] == tuple(info.standard_error.shape)
            assert not np.any(np.asarray(value))
    v = torch.from_numpy(a).requires_grad_()
    y = ldiv.logdet(v, assume_a="pos", method="slq", rng=0).sum()
    assert torch.autograd.grad(y, v)[0].shape == shape


def test_numbers_that_are_not_finite():
    A = grid(3)
    with pytest.raises(ValueError, match="NaN"):
        estimate(A.with_data(np.where(A.row == 0, np.nan, A.data)), "slq", 0)


def test_a_large_matrix_is_never_dense():
    n = 200_000
    line = sp.diags_array([np.full(n, 3.0), -np.ones(n - 1), -np.ones(n - 1)], offsets=[0, 1, -1])
    A = ldiv.asarray(line)
    value, info = ldiv.logdet(A, assume_a="pos", method="slq", probes=4, steps=20, rng=0, info=True)
    assert abs(value - ldiv.logdet(A, assume_a="pos")) < 3 * info.standard_error
