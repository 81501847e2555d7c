"""Laplace's approximation, its derivatives in the parameters, and what it refuses."""

from __future__ import annotations

import pickle
from typing import Any

import mpmath as mp
import numpy as np
import pytest

import ldiv

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")
jnp = jax.numpy

COUNTS = np.array([3.0, 5.0, 4.0, 9.0])
ONES = np.ones(4)


def poisson(xp: Any, counts: Any = COUNTS) -> Any:
    """Counts ~ Poisson(exp x), x a random walk with steps of variance 1 / s around m."""

    def f(x: Any, p: Any) -> Any:
        s, m = p
        walk = s * ((x[1:] - x[:-1]) ** 2).sum() / 2 + s * (x[0] - m) ** 2 / 2
        return (xp.exp(x) - xp.asarray(counts) * x).sum() + walk - 2 * xp.log(s)

    return f


def exact(s: Any, m: Any) -> Any:
    """The value of `poisson` in 40 digits."""
    x, n = mp.matrix([1.0] * 4), 4

    def slope_and_curvature(x: Any) -> Any:
        g, H = mp.matrix(n, 1), mp.zeros(n)
        for i in range(n):
            g[i] = mp.exp(x[i]) - COUNTS[i]
            H[i, i] = mp.exp(x[i])
        for i in range(n):
            before = x[i - 1] if i else m
            g[i] += s * (x[i] - before)
            H[i, i] += s
            if i:
                g[i - 1] -= s * (x[i] - before)
                H[i - 1, i - 1] += s
                H[i, i - 1] -= s
                H[i - 1, i] -= s
        return g, H

    for _ in range(12):
        g, H = slope_and_curvature(x)
        x = x - mp.lu_solve(H, g)
    f = sum(mp.exp(x[i]) - COUNTS[i] * x[i] for i in range(n)) - 2 * mp.log(s)
    f += s * sum((x[i] - (x[i - 1] if i else m)) ** 2 for i in range(n)) / 2
    return -f - mp.log(mp.det(slope_and_curvature(x)[1])) / 2 + 2 * mp.log(2 * mp.pi)


def reference(order: tuple[int, int]) -> float:
    with mp.workdps(40):
        at = mp.mpf(4), mp.mpf("0.5")
        return float(mp.diff(exact, at, order) if any(order) else exact(*at))


def of_torch(s: Any, m: Any) -> Any:
    return ldiv.laplace(poisson(torch), torch.ones(4, dtype=torch.float64), (s, m)).value


def of_jax(s: Any, m: Any) -> Any:
    return ldiv.laplace(poisson(jnp), jnp.ones(4), (s, m)).value


def test_value_and_derivatives_in_torch() -> None:
    s, m = (torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in (4.0, 0.5))
    value = of_torch(s, m)
    first = torch.autograd.grad(value, (s, m), create_graph=True)
    second = torch.autograd.grad(first[0], (s, m))
    found = [y.item() for y in (value, *first, *second)]
    expected = [reference(o) for o in ((0, 0), (1, 0), (0, 1), (2, 0), (1, 1))]
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    forward = torch.func.jvp(
        of_torch, (s.detach(), m.detach()), (s.detach() * 0 + 1, m.detach() * 0)
    )
    np.testing.assert_allclose(forward[1].item(), expected[1], rtol=1e-9)


@pytest.mark.parametrize("compiled", [pytest.param(False, marks=pytest.mark.exhaustive), True])
def test_value_and_derivatives_in_jax(compiled: bool) -> None:
    run = jax.jit if compiled else lambda f: f
    with jax.enable_x64(True):
        value, first = run(jax.value_and_grad(of_jax, (0, 1)))(4.0, 0.5)
        second = run(jax.hessian(of_jax))(4.0, 0.5)
    found = [float(y) for y in (value, *first, second)]
    expected = [reference(o) for o in ((0, 0), (1, 0), (0, 1), (2, 0))]
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_under_vmap() -> None:
    with jax.enable_x64(True):
        some = jnp.array([4.0, 5.0])
        there = jax.jit(jax.vmap(jax.grad(of_jax), (0, None)))(some, 0.5)
        alone = jax.jit(jax.grad(of_jax))
        here = [alone(s, 0.5) for s in some]
        np.testing.assert_allclose(there, here, rtol=1e-10)
    many = torch.tensor([4.0, 5.0], dtype=torch.float64)
    half = torch.tensor(0.5, dtype=torch.float64)
    found = torch.vmap(torch.func.grad(of_torch), (0, None))(many, half)
    np.testing.assert_allclose(found, there, rtol=1e-10)


def test_a_normal_density_is_integrated_exactly() -> None:
    rng = np.random.default_rng(0)
    root = rng.standard_normal((5, 5))
    K, b = root @ root.T + np.eye(5), rng.standard_normal(5)
    expected = b @ np.linalg.solve(K, b) / 2 - np.linalg.slogdet(K)[1] / 2 + 2.5 * np.log(2 * np.pi)
    at, side = torch.tensor(K, requires_grad=True), torch.tensor(b)
    found = ldiv.laplace(lambda x, K: x @ K @ x / 2 - side @ x, 0 * side, at)
    np.testing.assert_allclose(found.value.item(), expected, rtol=1e-12)
    inverse = np.linalg.inv(K)
    np.testing.assert_allclose(found.variances().detach(), inverse.diagonal(), rtol=1e-11)
    x = np.linalg.solve(K, b)
    gradient = torch.autograd.grad(found.value, at)[0]
    np.testing.assert_allclose(gradient, -np.outer(x, x) / 2 - inverse / 2, rtol=1e-10, atol=1e-12)


def test_near_the_integral() -> None:
    """Compare with quadrature in one dimension: a gamma density of shape 50, in the logarithm."""
    with mp.workdps(30):
        whole = float(mp.log(mp.quad(lambda x: mp.exp(50 * x - 50 * mp.exp(x)), [-3, -1, 0, 1, 3])))
    start = torch.zeros(1, dtype=torch.float64)
    found = ldiv.laplace(lambda x: (50 * torch.exp(x) - 50 * x).sum(), start)
    assert abs(found.value.item() - whole) < 1 / 500  # the next term is 1 / (12 shape)


def test_samples_and_factor() -> None:
    s, m = (torch.tensor(x, dtype=torch.float64) for x in (4.0, 0.5))
    found = ldiv.laplace(poisson(torch), torch.ones(4, dtype=torch.float64), (s, m))
    covariance = np.linalg.inv(found.factor.matrix.to_scipy().toarray())
    draws = found.sample(torch.Generator().manual_seed(0), 40_000).numpy()
    assert abs(draws.mean(0) - found.mode.numpy()).max() < 0.01
    assert abs(np.cov(draws.T) - covariance).max() < 0.01
    again = pickle.loads(pickle.dumps(found))
    np.testing.assert_array_equal(again.mode, found.mode)
    np.testing.assert_array_equal(again.variances(), found.variances())


def test_the_steps() -> None:
    s, m = (torch.tensor(x, dtype=torch.float64) for x in (4.0, 0.5))
    start = torch.ones(4, dtype=torch.float64)
    found = ldiv.laplace(poisson(torch), start, (s, m), info=True)
    costs = found.info.costs
    assert (np.diff(costs) <= 0).all() and len(costs) < 10
    before = ldiv.cache_info().factorizations
    warm = ldiv.laplace(poisson(torch), found.mode, (s, m))
    np.testing.assert_allclose(warm.mode, found.mode, rtol=1e-14)
    assert ldiv.cache_info().factorizations - before <= 4


def test_f_is_evaluated_once_at_each_point() -> None:
    """Value, gradient and Hessian of a point have one graph; the derivative takes one more."""
    points: list[Any] = []
    f = poisson(torch)

    def seen(x: Any, p: Any) -> Any:
        points.append(x.detach().numpy().tobytes())
        return f(x, p)

    s, m = (torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in (4.0, 0.5))
    i = np.arange(3)
    chain = np.concatenate([i, i + 1]), np.concatenate([i + 1, i])
    start = torch.ones(4, dtype=torch.float64)
    found = ldiv.laplace(seen, start, (s, m), pattern=chain, info=True)
    # x0 when the arguments are looked at, the mode as a function of the parameters, and, where its
    # derivative is checked, a point beside it, are evaluated once more
    assert len(points) <= len(found.info.costs) + 5
    assert len(set(points)) >= len(points) - 2
    before = len(points)
    torch.autograd.grad(found.value, (s, m))
    assert len(points) == before + 1


@pytest.mark.parametrize("start", [0.0, 1.0])
@pytest.mark.parametrize("pattern", [None, (range(2), range(2))])
def test_a_backward_pass_that_cuts_the_graph_is_refused(start: float, pattern: Any) -> None:
    """The second derivative of x^4 / 4, which the graph lacks, vanishes at 0."""

    class Fourth(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x**4 / 4

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx: Any, g: Any) -> Any:
            return g * ctx.saved_tensors[0] ** 3

    f = lambda x: Fourth.apply(x).sum() + (2 * (x - 1) ** 2).sum()
    with pytest.raises(ldiv.NotDifferentiableError, match="once_differentiable"):
        ldiv.laplace(f, torch.full((2,), start, dtype=torch.float64), pattern=pattern)


def test_of_numpy() -> None:
    anp = pytest.importorskip("autograd.numpy")
    grad = pytest.importorskip("autograd").grad
    value = lambda s: ldiv.laplace(poisson(anp), np.ones(4), (s, np.array(0.5))).value
    np.testing.assert_allclose(grad(value)(np.array(4.0)), reference((1, 0)), rtol=1e-9)


def test_a_pattern_that_is_given() -> None:
    with jax.enable_x64(True):
        i = np.arange(3)
        chain = np.concatenate([i, i + 1]), np.concatenate([i + 1, i])  # without the diagonal
        start, p = jnp.ones(4), (jnp.array(4.0), jnp.array(0.5))
        f = poisson(jnp)
        found = ldiv.laplace(f, start, p, pattern=chain)
        np.testing.assert_allclose(found.value, ldiv.laplace(f, start, p).value, rtol=1e-14)
        assert found.factor.matrix.nnz == 10
        with pytest.raises(ValueError, match="pattern"):
            ldiv.laplace(f, start, p, pattern=(i[:1], i[1:2]))


@pytest.mark.parametrize("maxiter", [1, 200])
def test_a_pattern_that_misses_entries_is_told_wherever_the_steps_end(maxiter: int) -> None:
    def f(x: Any) -> Any:
        return (x**2).sum() / 2 + 20 * (x.sum() - 3) ** 2 + x.exp().sum()

    start = torch.full((6,), 5.0, dtype=torch.float64)
    with pytest.raises(ValueError, match="pattern: expected an entry wherever"):
        ldiv.laplace(f, start, pattern=(range(6), range(6)), maxiter=maxiter)


def test_indefinite_on_the_way_and_the_edge_of_the_domain() -> None:
    start = torch.tensor([0.01, -0.02], dtype=torch.float64)
    found = ldiv.laplace(lambda x: ((x**2 - 1) ** 2).sum() + x.sum() / 10, start)
    assert (found.factor.matrix.to_scipy().toarray().diagonal() > 0).all()
    assert abs(abs(found.mode.numpy()) - 1).max() < 0.05
    # log x, whose first whole step would leave the domain
    far = torch.full((2,), 30.0, dtype=torch.float64)
    found = ldiv.laplace(lambda x: (x - 3 * torch.log(x)).sum(), far)
    np.testing.assert_allclose(found.mode, 3, rtol=1e-12)


def test_the_pattern_is_found() -> None:
    f = lambda x: (x.diff() ** 2).sum() / 2 + (x.exp() - 2 * x).sum()
    found = ldiv.laplace(f, torch.zeros(30, dtype=torch.float64))
    assert found.factor.matrix.nnz == 3 * 30 - 2


def wells(x: Any) -> Any:
    """Two to the power of n minima, and many more saddle points."""
    return ((x**2 - 1) ** 2).sum() + ((x[1:] - x[:-1]) ** 2).sum() / 20 + x.sum() / 10


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.exhaustive) for seed in (1, 2, 3))]
)
def test_steps_lead_to_a_minimum_past_saddle_points(seed: int) -> None:
    start = torch.from_numpy(np.random.default_rng(seed).standard_normal(40) / 2)
    assert abs(ldiv.laplace(wells, start).mode.abs() - 1).max() < 0.2
    with jax.enable_x64(True):
        assert np.isfinite(ldiv.laplace(wells, jnp.asarray(start.numpy())).value)


@pytest.mark.parametrize("constant", [0.0, 1e9])
@pytest.mark.parametrize("start", [-7.9, 7.9, 1.8, 4.5])
def test_a_constant_changes_nothing(start: float, constant: float) -> None:
    def waves(x: Any) -> Any:
        return constant + (torch.cos(x) + 0.01 * x**2 + 0 * torch.log(x + 20)).sum()

    found = ldiv.laplace(waves, torch.tensor([start], dtype=torch.float64))
    expected = 3.0799545403573054 if 0 < start < 6 else 9.238931354908567 * np.sign(start)
    np.testing.assert_allclose(found.mode.item(), expected, rtol=1e-12)


def test_a_mode_that_is_no_minimum_is_refused() -> None:
    """Newton's method on the gradient alone would leave the valley: the value is looked at again."""
    from ldiv.derivatives.mode import Mode

    x = torch.zeros(1, dtype=torch.float64)
    mode = object.__new__(Mode)
    mode.look(lambda x: (x**2).sum(), x + 1, x)
    for worse in (x + 2, x * np.nan):
        with pytest.raises(ldiv.ConvergenceError, match="f is larger"):
            mode.look(lambda x: (x**2).sum(), x + 1, worse)


@pytest.mark.parametrize("seed", range(8))
def test_terms_of_f_that_cancel_are_rounding(seed: int) -> None:
    """f is small at the mode, where its terms, of which rounding is a part, are not."""
    random = np.random.default_rng(seed)
    equations, truth = (torch.from_numpy(random.standard_normal(s)) for s in ((9, 6), (6,)))
    data = equations @ truth

    def misfit(x: Any) -> Any:
        return (
            1e6 * ((equations @ x - data) ** 2).sum()
            + 1e6 * (x.exp() - 1 - x).sum()
            - 1e6 * (truth.exp() - 1 - truth).sum()
        )

    for start in range(6):
        mode = ldiv.laplace(misfit, truth + 0.1 * start).mode
        slope = torch.autograd.functional.jacobian(misfit, mode)
        assert abs(slope).max() < 1e-7


def test_the_error_names_unknowns_of_a_large_problem() -> None:
    walk = lambda x: (x.diff() ** 2).sum() / 2
    error = ldiv.NotPositiveDefiniteError, ldiv.SingularMatrixError
    with pytest.raises(error, match=r"along \(x\["):
        ldiv.laplace(walk, torch.linspace(0, 1, 3_000, dtype=torch.float64))


REFUSED = {
    "no mode": (lambda x: -(x**2).sum(), ldiv.ConvergenceError, "laplace did not converge"),
    "undetermined": (
        lambda x: (x[0] + x[1]) ** 2,
        (ldiv.NotPositiveDefiniteError, ldiv.SingularMatrixError),
        r"along \(x\[[01]\] [+-]0.71, x\[[01]\] [+-]0.71\)",
    ),
    "saddle": (
        lambda x: x[0] ** 2 - x[1] ** 2,
        (ldiv.NotPositiveDefiniteError, ldiv.ConvergenceError),
        "f",
    ),
    "undefined": (lambda x: (x.log()).sum() * float("nan"), ValueError, "finite numbers at x0"),
    "a vector": (lambda x: x, ValueError, "whose values are numbers"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    f, error, words = REFUSED[name]
    with pytest.raises(error, match=words):
        ldiv.laplace(f, torch.tensor([0.5, 0.0 if name == "saddle" else 0.3], dtype=torch.float64))


def test_arguments() -> None:
    start = torch.ones(2, dtype=torch.float64)
    with pytest.raises(TypeError, match="f"):
        ldiv.laplace(3, start)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="maxiter"):
        ldiv.laplace(lambda x: (x**2).sum(), start, maxiter=-1)
    with pytest.raises(ValueError, match="tol"):
        ldiv.laplace(lambda x: (x**2).sum(), start, tol=-1.0)
    with jax.enable_x64(True), pytest.raises(TypeError, match="info"):
        jax.jit(
            lambda p: ldiv.laplace(lambda x, p: (x**2).sum() * p, jnp.ones(2), p, info=True).value
        )(1.0)


def test_nan_under_errstate() -> None:
    with ldiv.errstate(singular="nan"), jax.enable_x64(True):
        found = ldiv.laplace(lambda x, p: (x[0] + x[1]) ** 2 * p, jnp.ones(2), jnp.array(2.0))
        assert np.isnan(found.value) and np.isnan(found.mode).all()


def test_single_precision() -> None:
    s, m = torch.tensor(4.0, requires_grad=True), torch.tensor(0.5)
    counts = torch.tensor(COUNTS, dtype=torch.float32)
    found = ldiv.laplace(poisson(torch, counts), torch.ones(4), (s, m))
    assert found.value.dtype == torch.float32
    gradient = torch.autograd.grad(found.value, s)[0]
    np.testing.assert_allclose(gradient.item(), reference((1, 0)), rtol=1e-3)


def test_a_chain_of_many() -> None:
    """A stochastic volatility series: y_t = exp(h_t / 2) noise, h an autoregression."""
    n, rng = 2_000, np.random.default_rng(0)
    h = np.zeros(n)
    for t in range(1, n):
        h[t] = 0.95 * h[t - 1] + 0.3 * rng.standard_normal()
    y = torch.tensor(np.exp(h / 2) * rng.standard_normal(n))

    def f(h: Any, p: Any) -> Any:
        phi, sigma = p
        steps = h[1:] - phi * h[:-1]
        prior = ((steps / sigma) ** 2).sum() / 2 + (n - 1) * sigma.log() + h[0] ** 2 / 2
        return prior + (h / 2 + y**2 * torch.exp(-h) / 2).sum()

    start = torch.zeros(n, dtype=torch.float64)
    i = np.arange(n - 1)
    pattern = ldiv.coo_array((np.ones(n - 1), (i, i + 1)), shape=(n, n))
    both = np.concatenate([pattern.row, pattern.col]), np.concatenate([pattern.col, pattern.row])

    def value(phi: Any, sigma: Any) -> Any:
        return ldiv.laplace(f, start, (phi, sigma), pattern=both).value

    at = [torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in (0.9, 0.4)]
    gradient = torch.autograd.grad(value(*at), at)
    for j, g in enumerate(gradient):
        there, back = (
            [x.detach() + s * 1e-4 * (i == j) for i, x in enumerate(at)] for s in (1, -1)
        )
        slope = (value(*there) - value(*back)) / 2e-4
        np.testing.assert_allclose(g.item(), slope.item(), rtol=1e-5)


@pytest.mark.parametrize("n", [3, 12])
def test_behind_a_checkpoint(n: int) -> None:
    """PyTorch runs the function again for the graph of f; it saves the same tensors each time."""

    def f(x: torch.Tensor, p: torch.Tensor) -> torch.Tensor:
        near = (x[1:] * x[:-1]).sum() / 10 + x.sum() ** 2 / 20
        return x.exp().sum() + (x * x * p.abs()).sum() / 2 + near

    def loss(p: torch.Tensor) -> torch.Tensor:
        return 2 * ldiv.laplace(f, torch.zeros(n, dtype=torch.float64), p).value

    p, q = (torch.linspace(1, 2, n, dtype=torch.float64, requires_grad=True) for _ in range(2))
    loss(p).backward()
    torch_checkpoint = pytest.importorskip("torch.utils.checkpoint").checkpoint
    torch_checkpoint(loss, q, use_reentrant=False).backward()
    torch.testing.assert_close(q.grad, p.grad, rtol=1e-12, atol=0)


@pytest.mark.exhaustive
def test_inside_of_shard_map() -> None:
    """A sum of log cosh x_i - p x_i: its mode is artanh p, its Hessian 1 - p^2. The start belongs to all
    devices, p to each.
    """
    with jax.enable_x64(True):
        f = lambda x, p: jnp.logaddexp(x, -x).sum() - p @ x - 3 * jnp.log(2.0)
        value = lambda p: ldiv.laplace(f, jnp.zeros(3), p[0]).value[None]
        mesh = jax.make_mesh((1,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
        inside = jax.shard_map(value, mesh=mesh, in_specs=jax.P("i"), out_specs=jax.P("i"))
        p = jnp.array([[0.1, -0.4, 0.7]])
        closed = lambda p: (
            (p * np.arctanh(p) - np.log(np.cosh(np.arctanh(p)))).sum()
            - (np.log(1 - p**2).sum() - 3 * np.log(2 * np.pi)) / 2
        )
        np.testing.assert_allclose(jax.jit(inside)(p)[0], closed(np.asarray(p[0])), rtol=1e-12)
        slope = jax.jit(jax.grad(lambda p: inside(p)[0]))(p)
        expected = np.arctanh(p) + p / (1 - p**2)
        np.testing.assert_allclose(slope, expected, rtol=1e-11)
