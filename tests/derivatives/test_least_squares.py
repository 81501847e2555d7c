"""Nonlinear least squares against certified values, 40 digits, SciPy; their derivatives in all modes."""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import partial
from typing import Any

import mpmath as mp
import numpy as np
import pytest
import scipy.optimize

import ldiv
from ldiv.derivatives.robust_losses import LOSSES

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")
jax.config.update("jax_enable_x64", True)
jnp = jax.numpy

tensor = partial(torch.tensor, dtype=torch.float64)
METHODS = ("lm", "gauss-newton")
TIMES = np.array([0.0, 1.0, 2.0, 3.0, 4.0, 5.0])
DATA = np.array([2.0, 1.2, 0.7, 0.9, 0.31, 0.17])  # the fourth is an outlier
WHOLE = (np.repeat(np.arange(6), 2), np.tile(np.arange(2), 6))  # all of a Jacobian (6, 2)
SCALE = 0.05


def decay(x: Any, y: Any) -> Any:
    return x[0] * torch.exp(-x[1] * tensor(TIMES)) - y


def decay_jax(x: Any, y: Any) -> Any:
    return x[0] * jnp.exp(-x[1] * jnp.asarray(TIMES)) - y


# -- values ---------------------------------------------------------------------

# NIST StRD, Misra1a: y = b1 (1 - exp(-b2 x)), lower level of difficulty
MISRA_X = [
    77.6,
    114.9,
    141.1,
    190.8,
    239.9,
    289.0,
    332.8,
    378.4,
    434.8,
    477.3,
    536.8,
    593.1,
    689.1,
    760.0,
]
MISRA_Y = [
    10.07,
    14.73,
    17.94,
    23.93,
    29.61,
    35.18,
    40.02,
    44.82,
    50.76,
    55.05,
    61.01,
    66.40,
    75.47,
    81.78,
]
CERTIFIED = tensor([2.3894212918e02, 5.5015643181e-04])


@pytest.mark.parametrize("start", [[500.0, 1e-4], [250.0, 5e-4]])
@pytest.mark.parametrize("method", METHODS)
def test_the_certified_values_of_nist(method: Any, start: list[float]) -> None:
    def residual(b: Any, data: Any) -> Any:
        x, y = data
        return b[0] * (1 - torch.exp(-b[1] * x)) - y

    data = tensor(MISRA_X), tensor(MISRA_Y)
    x = ldiv.least_squares(residual, tensor(start), data, method=method)
    torch.testing.assert_close(x, CERTIFIED, rtol=1e-10, atol=0.0)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("start", [[-1.2, 1.0], [1.0, 1.0], [3.0, -7.0]])
def test_the_banana_of_rosenbrock(method: Any, start: list[float]) -> None:
    """The fit has no params; the residual vanishes at the minimum, also if the start is there."""
    residual = lambda x: torch.stack([10 * (x[1] - x[0] ** 2), 1 - x[0]])
    x = ldiv.least_squares(residual, tensor(start), method=method)
    torch.testing.assert_close(x, tensor([1.0, 1.0]), rtol=1e-10, atol=0.0)


SLOPES: dict[str, Callable[[Any], Any]] = {
    "linear": lambda z: 1,
    "soft_l1": lambda z: 1 / mp.sqrt(1 + z),
    "huber": lambda z: 1 if z <= 1 else 1 / mp.sqrt(z),
    "cauchy": lambda z: 1 / (1 + z),
    "arctan": lambda z: 1 / (1 + z * z),
}


def exact(loss: str, start: Any, y: Any) -> list[Any]:
    """The minimum to 40 digits: the root of the gradient that is near."""

    def gradient(a: Any, b: Any) -> Any:
        g = [mp.mpf(0), mp.mpf(0)]
        for t, value in zip(TIMES, y, strict=True):
            falls = mp.exp(-b * t)
            r = a * falls - value
            pull = SLOPES[loss]((r / mp.mpf(SCALE)) ** 2) * r
            g = [g[0] + pull * falls, g[1] - pull * a * t * falls]
        return g

    return list(mp.findroot(gradient, tuple(start), tol=1e-60))


@pytest.mark.parametrize("loss", LOSSES)
def test_all_losses_to_forty_digits(loss: Any) -> None:
    """The value, and the gradient of the rate in the data, by differences of 40 digits."""
    y = tensor(DATA).requires_grad_()
    for method in METHODS:
        found = partial(
            ldiv.least_squares, decay, tensor([1.0, 1.0]), loss=loss, f_scale=SCALE, method=method
        )
        x = found(y)
        (slope,) = torch.autograd.grad(x[1], y)
        with mp.workdps(40):
            data, h = [mp.mpf(v) for v in DATA], mp.mpf(10) ** -14
            value = exact(loss, x.tolist(), data)
            expected = []
            for i in range(len(data)):
                ahead, behind = (
                    exact(loss, value, [v + s * h * (i == j) for j, v in enumerate(data)])[1]
                    for s in (1, -1)
                )
                expected.append(float((ahead - behind) / (2 * h)))
        np.testing.assert_allclose(x.tolist(), [float(v) for v in value], rtol=1e-12)
        np.testing.assert_allclose(slope, expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("loss", LOSSES)
def test_the_minimum_is_that_of_scipy(loss: Any) -> None:
    x = ldiv.least_squares(decay, tensor([1.0, 1.0]), tensor(DATA), loss=loss, f_scale=SCALE)
    residual = lambda x: decay(tensor(x), tensor(DATA)).numpy()
    theirs = scipy.optimize.least_squares(
        residual, x.numpy() + 1e-3, loss=loss, f_scale=SCALE, xtol=1e-14, ftol=1e-14, gtol=1e-14
    )
    np.testing.assert_allclose(x, theirs.x, rtol=1e-6)


@pytest.mark.parametrize("loss", LOSSES)
def test_the_weights_are_derivatives_of_the_loss(loss: str) -> None:
    """rho' and rho'', by autograd of rho."""
    z = torch.linspace(0.1, 5.0, 30).double().requires_grad_()
    own = LOSSES[loss]
    (first,) = torch.autograd.grad(own.value(torch, z).sum(), z, create_graph=True)
    torch.testing.assert_close(own.slope(torch, z), first)
    second = torch.zeros_like(z)
    if first.requires_grad and loss != "linear":
        (second,) = torch.autograd.grad(first.sum(), z)
    torch.testing.assert_close(own.bend(torch, z), 2 * z * second / first)


def test_single_precision() -> None:
    x = ldiv.least_squares(
        lambda x, y: x[0] * torch.exp(-x[1] * torch.arange(6.0)) - y,
        torch.ones(2),
        tensor(DATA).float(),
    )
    double = ldiv.least_squares(decay, tensor([1.0, 1.0]), tensor(DATA))
    assert x.dtype == torch.float32
    torch.testing.assert_close(x.double(), double, rtol=1e-5, atol=0.0)


# -- derivatives ----------------------------------------------------------------


@pytest.mark.covering(0)
@pytest.mark.parametrize("pattern", [WHOLE, None], ids=["sparse", "dense"])
@pytest.mark.parametrize("loss", ["cauchy", "linear"])
def test_every_mode_and_order_in_torch(loss: Any, pattern: Any) -> None:
    found = lambda y: ldiv.least_squares(
        decay, tensor([2.0, 0.5]), y, loss=loss, f_scale=SCALE, pattern=pattern
    )
    y = tensor(DATA).requires_grad_()
    assert torch.autograd.gradcheck(found, y, check_forward_ad=True, atol=1e-6)
    assert torch.autograd.gradgradcheck(found, y, atol=1e-5, rtol=1e-4)
    plain = y.detach()
    reverse, forward = torch.func.jacrev(found)(plain), torch.func.jacfwd(found)(plain)
    torch.testing.assert_close(reverse, forward)
    second = torch.func.jacfwd(torch.func.jacrev(found))(plain)
    torch.testing.assert_close(second, torch.func.jacrev(torch.func.jacfwd(found))(plain))
    many = torch.func.vmap(torch.func.jacrev(found))(torch.stack([plain, 1.1 * plain]))
    torch.testing.assert_close(many[0], reverse)


def rate_of_torch(y: Any) -> Any:
    return ldiv.least_squares(decay, tensor([1.0, 1.0]), y, loss="soft_l1", f_scale=SCALE)[1]


def rate_of_jax(y: Any) -> Any:
    return ldiv.least_squares(
        decay_jax, jnp.ones(2), y, loss="soft_l1", f_scale=SCALE, pattern=WHOLE
    )[1]


def test_jax_finds_what_torch_finds() -> None:
    y = tensor(DATA).requires_grad_()
    (slope,) = torch.autograd.grad(rate_of_torch(y), y)
    np.testing.assert_allclose(jax.grad(rate_of_jax)(jnp.asarray(DATA)), slope, rtol=1e-8)


@pytest.mark.exhaustive  # compiles for five seconds
def test_jax_compiled_in_second_order_and_in_batches() -> None:
    y = tensor(DATA).requires_grad_()
    value = rate_of_torch(y)
    (slope,) = torch.autograd.grad(value, y)
    curvature = torch.autograd.functional.hessian(rate_of_torch, y)

    @jax.jit
    def everything(y: Any) -> Any:
        many = jax.vmap(jax.grad(rate_of_jax))(jnp.stack([y, y]))
        return rate_of_jax(y), jax.grad(rate_of_jax)(y), jax.hessian(rate_of_jax)(y), many

    found, gradient, hessian, many = everything(jnp.asarray(DATA))
    np.testing.assert_allclose(found, value.item(), rtol=1e-10)
    np.testing.assert_allclose(gradient, slope, rtol=1e-8)
    np.testing.assert_allclose(hessian, curvature, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(many[1], slope, rtol=1e-8)


@pytest.mark.parametrize("pattern", [None, WHOLE], ids=["dense", "sparse"])
def test_numpy_by_autograd(pattern: Any) -> None:
    autograd = pytest.importorskip("autograd")
    anp = autograd.numpy
    fit = lambda y: ldiv.least_squares(
        lambda x, y: x[0] * anp.exp(-x[1] * TIMES) - y, np.ones(2), y, pattern=pattern
    )
    y = tensor(DATA).requires_grad_()
    x = ldiv.least_squares(decay, tensor([1.0, 1.0]), y)
    (slope,) = torch.autograd.grad(x[1], y, create_graph=True)
    np.testing.assert_allclose(fit(DATA), x.detach(), rtol=1e-11)
    np.testing.assert_allclose(autograd.grad(lambda y: fit(y)[1])(DATA), slope.detach(), rtol=1e-8)
    (bend,) = torch.autograd.grad(slope[0], y)
    np.testing.assert_allclose(
        autograd.hessian(lambda y: fit(y)[1])(DATA)[0], bend, rtol=1e-6, atol=1e-9
    )


def test_a_tree_of_parameters() -> None:
    """Weights are differentiated, too; value and gradients of a linear fit are those of lstsq."""
    a, b = tensor(np.random.default_rng(0).standard_normal((6, 2))), tensor(DATA)
    w = tensor([1.0, 2.0, 1.0, 0.5, 1.0, 3.0])
    leaves = [v.clone().requires_grad_() for v in (a, b, w)]
    x = ldiv.least_squares(
        lambda x, p: p["w"][0] * (p["A"] @ x - p["b"]),
        tensor([0.0, 0.0]),
        {"A": leaves[0], "b": leaves[1], "w": [leaves[2]]},
    )
    direct = ldiv.lstsq(leaves[2][:, None] * leaves[0], leaves[2] * leaves[1])
    direct = direct[0] if isinstance(direct, tuple) else direct
    torch.testing.assert_close(x, direct)
    for ours, theirs in zip(
        torch.autograd.grad((x**2).sum(), leaves),
        torch.autograd.grad((direct**2).sum(), leaves),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs)


# -- sparse ---------------------------------------------------------------------


def ranges(n: int) -> tuple[Any, Any, Any, Any]:
    """Points on a noisy line, by distances to the next two and rough positions."""
    rng = np.random.default_rng(0)
    i = np.concatenate([np.arange(n - 1), np.arange(n - 2)])
    j = np.concatenate([np.arange(1, n), np.arange(2, n)])
    place = np.stack([np.arange(n) + 0.2 * rng.standard_normal(n), rng.standard_normal(n)], 1)
    seen = np.linalg.norm(place[i] - place[j], axis=1) + 0.01 * rng.standard_normal(len(i))
    rough = tensor((place + 0.1 * rng.standard_normal((n, 2))).ravel())

    def residual(x: Any, distance: Any) -> Any:
        at = x.reshape(-1, 2)
        return torch.cat([10 * ((at[i] - at[j]).norm(dim=1) - distance), x - rough])

    k, m = np.arange(len(i)), len(i)
    rows = np.concatenate([k, k, k, k, m + np.arange(2 * n)])
    cols = np.concatenate([2 * i, 2 * i + 1, 2 * j, 2 * j + 1, np.arange(2 * n)])
    return residual, rough, tensor(seen), (rows, cols)


@pytest.mark.parametrize("loss", ["linear", "huber"])
def test_sparse_is_dense(loss: Any) -> None:
    residual, start, seen, pattern = ranges(12)
    seen.requires_grad_()
    sparse, dense = (
        ldiv.least_squares(residual, start, seen, pattern=p, loss=loss, f_scale=0.2)
        for p in (pattern, None)
    )
    torch.testing.assert_close(sparse, dense)
    torch.testing.assert_close(
        *(torch.autograd.grad((x**2).sum(), seen)[0] for x in (sparse, dense))
    )


def test_a_large_one_is_analysed_once_and_holds_one_factor() -> None:
    residual, start, seen, pattern = ranges(400)
    seen.requires_grad_()
    ldiv.clear_cache()
    x = ldiv.least_squares(residual, start, seen, pattern=pattern)
    info = ldiv.cache_info()
    assert info.analyses == 1
    (x**2).sum().backward()
    assert ldiv.cache_info().factorizations == info.factorizations, "the last factor serves"
    assert torch.isfinite(seen.grad).all()


def test_a_pattern_that_misses_an_entry() -> None:
    residual, start, seen, (rows, cols) = ranges(6)
    with pytest.raises(ValueError, match="pattern: expected an entry"):
        ldiv.least_squares(residual, start, seen, pattern=(rows[1:], cols[1:]))


def test_unknowns_that_no_residual_has_in_a_pattern() -> None:
    with pytest.raises(np.linalg.LinAlgError, match="least_squares"):
        ldiv.least_squares(
            lambda x, p: x[:2] - p,
            tensor([1.0, 1.0, 1.0]),
            tensor([1.0, 2.0]),
            pattern=([0, 1], [0, 1]),
        )


# -- what has no minimum, and bad input -----------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_a_saddle_is_no_minimum(method: Any) -> None:
    """The gradient of (x^2 - 1)^2 + y^2 vanishes at x = 0, where the cost has a maximum in x."""
    residual = lambda x, p: torch.stack([x[0] ** 2 - p[0], x[1]])
    with pytest.raises(ldiv.NotPositiveDefiniteError, match="Hessian of least_squares"):
        ldiv.least_squares(residual, tensor([0.0, 0.5]), tensor([1.0]), method=method)


def test_a_maximum_that_is_compiled_raises() -> None:
    compiled = jax.jit(lambda p: ldiv.least_squares(lambda x, p: x**2 - p, jnp.zeros(2), p))
    with pytest.raises(Exception, match="positive definite"):
        jax.block_until_ready(compiled(jnp.ones(2)))


def test_fewer_residuals_than_unknowns() -> None:
    with pytest.raises(np.linalg.LinAlgError, match=r"Hessian of least_squares.*fewer residuals"):
        ldiv.least_squares(lambda x, p: (x.sum() - p)[None], tensor([1.0, 2.0]), tensor(1.0))


def test_too_few_steps() -> None:
    residual = lambda x: torch.stack([10 * (x[1] - x[0] ** 2), 1 - x[0]])
    with pytest.raises(
        ldiv.ConvergenceError, match="least_squares did not converge: after 2 steps"
    ):
        ldiv.least_squares(residual, tensor([-1.2, 1.0]), maxiter=2)


def test_unknowns_that_run_away() -> None:
    with pytest.raises(np.linalg.LinAlgError, match="least_squares"):
        ldiv.least_squares(lambda x, p: torch.exp(-x) * p, tensor([0.0]), tensor([1.0]))


def test_a_kink_at_the_minimum() -> None:
    with pytest.raises((np.linalg.LinAlgError, ValueError)):
        ldiv.least_squares(lambda x, p: x.abs() + p, tensor([1.0]), tensor([1.0]))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_start_without_numbers(bad: float) -> None:
    with pytest.raises(ValueError, match="finite numbers at x0"):
        ldiv.least_squares(lambda x, p: x * bad - p, tensor([1.0]), tensor([1.0]))


def test_residuals_as_large_as_their_squares_allow() -> None:
    def residual(scale: float) -> Any:
        return lambda x, p: scale * torch.cat([x**3 - p, x**3 - 2 * p])

    x = ldiv.least_squares(residual(1e150), tensor([1.0]), tensor([3.0]))
    torch.testing.assert_close(x**3, tensor([4.5]))
    with pytest.raises(ValueError, match="residual: expected finite numbers at x0"):
        ldiv.least_squares(residual(1e155), tensor([1.0]), tensor([3.0]))


def test_no_unknowns() -> None:
    none = torch.zeros(0).double()
    assert ldiv.least_squares(lambda x, p: x - p, none, none).shape == (0,)


def test_unknowns_of_different_sizes() -> None:
    """The unknowns are 1e6 and 1e-6 at once."""
    residual = lambda x, p: torch.stack([1e-6 * x[0] - p, 1e6 * x[1] - 2, x[0] * x[1] - 2])
    x = ldiv.least_squares(residual, tensor([0.0, 0.0]), tensor(1.0))
    torch.testing.assert_close(x, tensor([1e6, 2e-6]), rtol=1e-9, atol=0.0)


def test_a_step_to_where_the_residual_is_undefined_is_shortened() -> None:
    for method in METHODS:
        x = ldiv.least_squares(
            lambda x, p: torch.sqrt(x) - p, tensor([9.0]), tensor([0.1]), method=method
        )
        torch.testing.assert_close(x, tensor([0.01]), rtol=1e-9, atol=0.0)


def test_a_backward_pass_that_cuts_the_graph_raises() -> None:
    """The second derivatives would be silently wrong."""

    class Cut(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx: Any, y_bar: Any) -> Any:
            return 3 * ctx.saved_tensors[0] ** 2 * y_bar

    for residual in (
        lambda x, p: Cut.apply(x) - p,
        lambda x, p: torch.cat([Cut.apply(x) - p, x - p]),
    ):
        with pytest.raises(ldiv.NotDifferentiableError, match="once_differentiable"):
            ldiv.least_squares(residual, tensor([1.0, 2.0]), tensor([2.0, 3.0]))
    with pytest.raises(ldiv.NotDifferentiableError, match="once_differentiable"):
        ldiv.least_squares(
            lambda x, p: Cut.apply(x) - p,
            tensor([1.0, 2.0]),
            tensor([2.0, 3.0]),
            pattern=([0, 1], [0, 1]),
        )


def test_closures_over_what_is_differentiated() -> None:
    y = tensor(DATA).requires_grad_()
    with pytest.raises(ValueError, match="params"):
        ldiv.least_squares(lambda x: decay(x, y), tensor([1.0, 1.0]))


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "a matrix": ({"residual": lambda x, p: x[None, :] - p}, r"residual: expected an array \(m,\)"),
    "a number": ({"residual": lambda x, p: (x - p).sum()}, r"residual: expected an array \(m,\)"),
    "complex": ({"residual": lambda x, p: x - 1j * p}, "real and imaginary parts together"),
    "complex unknowns": (
        {"x0": torch.ones(2, dtype=torch.complex128)},
        "x0: expected a real array",
    ),
    "integers": ({"residual": lambda x, p: torch.arange(2)}, "real floating values"),
    "no function": ({"residual": 3}, "residual: expected a function"),
    "a loss": ({"loss": "tukey"}, "loss"),
    "a scale": ({"f_scale": 0.0}, "f_scale"),
    "a method": ({"method": "trf"}, "method"),
    "steps": ({"maxiter": -1}, "maxiter"),
    "a pattern": ({"pattern": ([5], [0])}, "pattern"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_refused(name: str) -> None:
    change, words = BAD[name]
    given = {"residual": lambda x, p: x - p, "x0": tensor([1.0, 2.0]), "params": tensor([0.0, 1.0])}
    with pytest.raises((TypeError, ValueError), match=words):
        ldiv.least_squares(**given | change)


def test_where_rounding_stops_the_steps_end() -> None:
    """Conductances of a network of 5 x 6 nodes from voltages at its border."""
    rng, calls = np.random.default_rng(0), [0]
    at = np.arange(30).reshape(5, 6)
    i, j = (
        torch.tensor(np.concatenate([down.ravel(), right.ravel()]))
        for down, right in ((at[:-1], at[:, :-1]), (at[1:], at[:, 1:]))
    )
    nodes, border = torch.arange(30), torch.tensor(np.setdiff1d(at, at[1:-1, 1:-1]))
    places = torch.cat([i, j, i, j, nodes]), torch.cat([j, i, i, j, nodes])

    def voltages(x: Any) -> Any:
        calls[0] += 1
        g = torch.exp(x)
        A = ldiv.coo_array((torch.cat([-g, -g, g, g, g.new_full((30,), 0.1)]), places), (30, 30))
        b = torch.eye(30, dtype=x.dtype)[:, border]
        return ldiv.solve(A, b, assume_a="pos")[border].ravel()

    expected = 0.3 * tensor(rng.standard_normal(len(i)))
    data = voltages(expected)
    x = ldiv.least_squares(lambda x, y: voltages(x) - y, 0 * expected, data)
    assert torch.allclose(x, expected, atol=1e-10)
    assert calls[0] <= 60


@pytest.mark.exhaustive
def test_a_hundred_calls_keep_nothing() -> None:
    y = tensor(DATA).requires_grad_()

    def call() -> None:
        x = ldiv.least_squares(decay, tensor([2.0, 0.5]), y, pattern=WHOLE)
        torch.autograd.grad(x.sum(), y)

    for _ in range(3):
        call()
    gc.collect()
    before = len(gc.get_objects())
    for _ in range(100):  # each would leave one behind
        call()
    gc.collect()
    assert len(gc.get_objects()) < before + 100
    assert ldiv.cache_info().entries == 0
