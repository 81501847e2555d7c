"""Functions that frameworks do not differentiate in every way: by torch.func, in forward mode, in
batches, under hooks; and indices that are computed from x.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import ldiv
from ldiv.core.frameworks.dispatch import frontend_of
from ldiv.frontends.torch.user import forward_mode

jax.config.update("jax_enable_x64", True)
F = torch.nn.functional
X = np.random.default_rng(0).standard_normal(16)
POINTS = np.random.default_rng(1).standard_normal((8, 16))
A = torch.tensor(np.random.default_rng(2).standard_normal((3, 3)) + 4 * np.eye(3))
IDENTITY = (np.arange(3), np.arange(3))
POINT, ALONG = torch.tensor([1.0, 2.0, 3.0]).double(), torch.tensor([0.3, -0.2, 0.5]).double()


def solved(x):
    return ldiv.solve(A + torch.diag(x), x**2)


# -- torch --------------------------------------------------------------------


def test_a_function_that_reverse_mode_is_not_smooth_at_zero_for():
    """The backward pass of logcumsumexp takes the logarithm of a cotangent."""
    f = partial(torch.logcumsumexp, dim=0)
    expected = torch.func.jacfwd(f)(POINT)
    torch.testing.assert_close(ldiv.jacobian(f, POINT), expected)
    x = POINT.clone().requires_grad_()
    torch.testing.assert_close(ldiv.jvp(f, (x,), (ALONG,))[1].detach(), expected @ ALONG)


def test_a_batch_that_torch_gets_wrong():
    """The rule of torch for batches of the backward pass of cdist is wrong."""
    f = lambda x: torch.cdist(x[:6].reshape(3, 2), x[6:].reshape(5, 2)).ravel()
    x = torch.tensor(X)
    expected = torch.func.jacrev(f, chunk_size=1)(x)
    for mode in ("forward", "reverse"):
        torch.testing.assert_close(ldiv.jacobian(f, x, mode=mode), expected)
    found = ldiv.detect_pattern(f, x)
    assert not ((expected != 0) & (found.toarray() == 0)).any()


@pytest.mark.parametrize("name", ["solve", "det", "slogdet"])
def test_what_forward_mode_cannot_differentiate_again(name):
    """torch.func.jvp of these has no derivative of its own, and says zero in its place."""
    f = {
        "solve": lambda x: torch.linalg.solve(A + torch.diag(x), x),
        "det": lambda x: torch.linalg.det(A + torch.diag(x)) * x,
        "slogdet": lambda x: torch.linalg.slogdet(A + torch.diag(x))[1] * x,
    }[name]
    expected = torch.func.jacrev(torch.func.jacrev(f))(POINT)
    for outer in (torch.func.jacrev, torch.func.jacfwd):
        torch.testing.assert_close(outer(lambda x: ldiv.jacobian(f, x))(POINT), expected)


def test_each_value_counts_at_its_own_size(monkeypatch):
    """A tangent that is wrong where it is small is not taken."""

    def wrong(f, xs, dxs):
        dy = torch.func.jvp(f, xs, dxs)[1]
        return torch.cat([dy[:-1], 0.5 * dy[-1:]])

    monkeypatch.setattr(forward_mode, "_forward", wrong)
    scale = torch.tensor([1e30, 1.0, 1e-30]).double()
    dy = ldiv.jvp(lambda x: scale * x**3, (POINT,), (ALONG,))[1]
    torch.testing.assert_close(dy / scale, 3 * POINT**2 * ALONG)


def test_in_a_recorded_program_a_lost_derivative_is_an_error():
    """The check is a part of the program, whose numbers come later."""
    from torch.fx.experimental.proxy_tensor import make_fx

    class Cut(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x):
            return x**3

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx, g):
            return 3 * ctx.saved_tensors[0] ** 2 * g.detach()

    def recorded(f):
        tangent = lambda x: ldiv.jvp(f, (x,), (ALONG,))[1]
        return make_fx(tangent, tracing_mode="fake", _allow_non_fake_inputs=True)(POINT)

    program = recorded(lambda x: x**3)
    torch.testing.assert_close(program(2 * POINT), 12 * POINT**2 * ALONG)
    with pytest.raises(ldiv.NotDifferentiableError, match="zero would be taken"):
        recorded(Cut.apply)(POINT)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: ldiv.jvp(solved, (x,), (ALONG,))[1],
        lambda x: ldiv.jacobian(solved, x),
        lambda x: ldiv.jacobian(lambda x: x**3, x, pattern=IDENTITY).data,
        lambda x: ldiv.hvp(lambda x: solved(x).sum(), x, ALONG),
        lambda x: ldiv.root(lambda y, p: y**3 + y - p, torch.ones(3).double(), x),
        lambda x: ldiv.implicit(lambda y, p: y - p**2, x.detach() ** 2, x),
    ],
    ids=["jvp", "jacobian", "pattern", "hvp", "root", "implicit"],
)
def test_under_hooks_of_the_caller(call):
    """Hooks of the caller are for the caller's tensors. An output that its own graph keeps, kept as
    it is, would live for ever: torch says so of its hooks.
    """
    saved = []
    x, y = (POINT.clone().requires_grad_() for _ in range(2))
    with torch.autograd.graph.saved_tensors_hooks(
        lambda t: saved.append(t.shape) or t.detach(), lambda t: t
    ):
        found = call(x)
        (x * x).sum()
    assert saved  # the hooks are there again
    expected = torch.autograd.grad(call(y).sum(), y)[0]
    torch.testing.assert_close(torch.autograd.grad(found.sum(), x)[0], expected)


@pytest.mark.parametrize("outer", ["alone", "grad", "jvp"])
def test_functionalize(outer):
    """Rules are functionalized inside of other transforms, and around them."""

    def f(x):
        y = x.clone()
        y[1:].mul_(2)
        z = solved(y) + 0
        z.add_(1)
        return z * y

    run = {
        "alone": lambda f: f(POINT),
        "grad": lambda f: torch.func.grad(lambda x: f(x).sum())(POINT),
        "jvp": lambda f: torch.func.jvp(f, (POINT,), (ALONG,))[1],
    }[outer]
    for remove in ("mutations", "mutations_and_views"):
        torch.testing.assert_close(run(torch.func.functionalize(f, remove=remove)), run(f))
    around = torch.func.functionalize(torch.func.grad(lambda x: f(x).sum()))
    torch.testing.assert_close(around(POINT), torch.func.grad(lambda x: f(x).sum())(POINT))


# -- JAX ----------------------------------------------------------------------


@jax.custom_vjp
def cube(x):
    return x**3


cube.defvjp(lambda x: (x**3, x), lambda x, g: (3 * x**2 * g,))


@pytest.mark.parametrize("compiled", [False, True])
def test_a_custom_vjp_has_jacobians_by_rows(compiled):
    x = jnp.asarray(POINT)

    def f(x):
        return cube(x)[::-1] * x

    def everything(x):
        dense = [ldiv.jacobian(f, x, mode=mode) for mode in ("auto", "forward")]
        return *dense, ldiv.jacobian(f, x, pattern=([0, 0, 1, 2, 2], [0, 2, 1, 0, 2])).toarray()

    expected = jax.jacrev(f)(x)
    for found in (jax.jit(everything) if compiled else everything)(x):
        np.testing.assert_allclose(found, expected)


def test_a_custom_vjp_in_other_derivatives():
    x, v = jnp.asarray(POINT), jnp.asarray(ALONG)
    np.testing.assert_allclose(ldiv.jvp(cube, (x,), (v,))[1], 3 * x**2 * v)
    assert ldiv.detect_pattern(lambda x: cube(x)[::-1], 0 * x).nnz == 3  # where J vanishes, too
    slope = jax.grad(lambda p: ldiv.root(lambda x, p: cube(x) - cube(p), x, p).sum())
    np.testing.assert_allclose(slope(x), 1)


# -- indices that are computed -------------------------------------------------


def rows(x):
    return x.reshape(4, 4)


def image(x):
    return x.reshape(1, 1, 4, 4)


COMPUTED = {
    "argmax": lambda x: x[x.argmax()][None],
    "argmax, integer": lambda x: x[int(x.argmax())][None],
    "slice": lambda x: x[x[:8].argmax() :][:4],
    "roll": lambda x: x.roll(int(x.argmax())),
    "written at": lambda x: x.index_fill(0, x.argmax(), 0.0),
    "argsort": lambda x: x[x.argsort()],
    "sort": lambda x: rows(x).sort(1)[0].ravel(),
    "topk": lambda x: rows(x).topk(2, 1)[0].ravel(),
    "median": lambda x: rows(x).median(1)[0],
    "kthvalue": lambda x: rows(x).kthvalue(2, 1)[0],
    "max": lambda x: rows(x).max(1)[0],
    "cummax": lambda x: rows(x).cummax(1)[0].ravel(),
    "quantile": lambda x: rows(x).quantile(0.3, dim=1),
    "gather": lambda x: rows(x).gather(1, rows(x).argsort(1)).ravel(),
    "take": lambda x: x.take(x.argsort()),
    "searchsorted": lambda x: x[torch.searchsorted(torch.linspace(-2, 2, 15).double(), x)],
    "scatter": lambda x: torch.zeros(16).double().scatter(0, x.argsort(), x),
    "scatter_add": lambda x: torch.zeros(16).double().scatter_add(0, x.argsort(), x),
    "index_put": lambda x: torch.zeros(16).double().index_put((x.argsort(),), x, accumulate=True),
    "mask": lambda x: torch.masked_select(x, x > 0).sum()[None],
    "max_pool1d": lambda x: F.max_pool1d(x.reshape(1, 1, 16), 2).ravel(),
    "max_pool2d": lambda x: F.max_pool2d(image(x), 2).ravel(),
    "max_pool3d": lambda x: F.max_pool3d(x.reshape(1, 1, 2, 2, 4), 2).ravel(),
    "adaptive_max_pool2d": lambda x: F.adaptive_max_pool2d(image(x), 2).ravel(),
    "grid_sample": lambda x: F.grid_sample(
        x[:4].reshape(1, 1, 2, 2), x[4:].reshape(1, 2, 3, 2) * 0.3, align_corners=False
    ).ravel(),
    "embedding_bag": lambda x: F.embedding_bag(
        torch.tensor([[0, 1], [2, 3]]), rows(x), mode="max"
    ).ravel(),
    "segment_reduce": lambda x: torch.segment_reduce(x, "max", lengths=torch.tensor([4, 4, 8])),
}  # fmt: skip
FIXED = {  # as many entries as J has
    "conv in groups": lambda x: F.conv2d(
        x.reshape(1, 4, 2, 2), torch.ones(4, 2, 2, 2).double(), groups=2, padding=1
    ).ravel(),
    "transposed conv": lambda x: F.conv_transpose2d(
        x.reshape(1, 4, 2, 2),
        torch.ones(4, 2, 2, 2).double(),
        stride=2,
        padding=1,
        output_padding=1,
    ).ravel(),
    "conv in the kernel": lambda x: F.conv2d(
        torch.ones(1, 2, 3, 3).double(), x[:8].reshape(1, 2, 2, 2)
    ).ravel(),
    "avg_pool": lambda x: F.avg_pool2d(image(x), 2).ravel(),
    "interpolate": lambda x: F.interpolate(image(x), scale_factor=2, mode="bilinear").ravel(),
    "reflected": lambda x: F.pad(image(x), (1, 1, 1, 1), mode="reflect").ravel(),
    "replicated": lambda x: F.pad(image(x), (1, 1, 1, 1), mode="replicate").ravel(),
    "unfold": lambda x: F.unfold(image(x), 2).ravel(),
    "layer_norm": lambda x: F.layer_norm(rows(x), (4,)).ravel(),
    "group_norm": lambda x: F.group_norm(x.reshape(1, 4, 4), 2).ravel(),
    "batch_norm": lambda x: F.batch_norm(rows(x), None, None, training=True).ravel(),
    "glu": F.glu,
    "hardtanh": F.hardtanh,
    "cross_entropy": lambda x: F.cross_entropy(rows(x), torch.arange(4), reduction="none"),
}
POOLS = {
    "reduce_window": lambda x: jax.lax.reduce_window(
        rows(x), -jnp.inf, jax.lax.max, (3, 3), (1, 1), "SAME"
    ).ravel(),
    "reduce_window of a sum": lambda x: jax.lax.reduce_window(
        rows(x), 0.0, jax.lax.add, (2, 2), (2, 2), "VALID"
    ).ravel(),
    "reverse": jax.grad(
        lambda x: (
            jax.lax.reduce_window(rows(x), -jnp.inf, jax.lax.max, (2, 2), (2, 2), "VALID") ** 2
        ).sum()
    ),
    "conv in groups": lambda x: jax.lax.conv_general_dilated(
        x.reshape(1, 4, 2, 2),
        jnp.ones((4, 2, 2, 2)),
        (1, 1),
        ((1, 1), (1, 1)),
        feature_group_count=2,
    ).ravel(),
    "argmax": lambda x: x[x.argmax()][None],
    "sort": lambda x: jnp.sort(rows(x), 1).ravel(),
    "top_k": lambda x: jax.lax.top_k(rows(x), 2)[0].ravel(),
    "dynamic_slice": lambda x: jax.lax.dynamic_slice(x, (x.argmax(),), (4,)),
    "scaled at": lambda x: x.at[x.argmax()].mul(3.0),
}


def seen_anywhere(jacobian, points):
    """The pattern of J: nonzero at one of these points, at least."""
    return np.stack([np.asarray(jacobian(x)) != 0 for x in points]).any(0)


@pytest.mark.parametrize("name", [*COMPUTED, *FIXED])
def test_a_pattern_holds_wherever_an_index_points(name):
    f = (COMPUTED | FIXED)[name]
    sets = frontend_of(torch.tensor(X)).dependence(f, torch.tensor(X))
    assert sets is not None, "it is followed"
    seen = seen_anywhere(partial(torch.func.jacrev(f, chunk_size=1)), map(torch.tensor, POINTS))
    assert not (seen & ~sets.toarray()).any()
    if name in FIXED:
        assert sets.nnz == seen.sum()


@pytest.mark.parametrize("name", POOLS)
def test_in_jax_too(name):
    f = POOLS[name]
    sets = frontend_of(jnp.asarray(X)).dependence(f, jnp.asarray(X))
    assert sets is not None, "it is followed"
    seen = seen_anywhere(jax.jit(jax.jacfwd(f)), map(jnp.asarray, POINTS))
    assert not (seen & ~sets.toarray()).any()


def test_numbers_that_come_back_as_others_are_not_followed():
    """Numbers go through NumPy in a backward pass: what autograd does not see is found by products."""

    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return torch.from_numpy(3 * x.numpy() ** 2 * g.numpy())

    x = torch.zeros(3).double()
    assert frontend_of(x).dependence(Cube.apply, x) is None
    assert ldiv.detect_pattern(Cube.apply, x).nnz == 3


@pytest.mark.parametrize("solve", [ldiv.root, ldiv.least_squares])
@pytest.mark.parametrize("shape", [(), (2, 2)])
def test_unknowns_of_another_shape_are_told_how_to_be_a_vector(solve, shape):
    """Run the call that the error proposes: it solves x^2 = 2."""

    def f(x):
        return x * x - 2

    x0 = torch.ones(shape, dtype=torch.float64)
    with pytest.raises(
        ValueError, match=r"expected a real array \(n,\), got shape .* Pass"
    ) as found:
        solve(f, x0)
    said = str(found.value)
    call = said[said.index("Pass ") + 5 : -1].replace("and ", "")
    start, function = eval(f"({call})", {"x0": x0, "f": f})
    x = solve(function, start).reshape(shape)
    np.testing.assert_allclose(x, np.full(shape, 2**0.5), rtol=1e-12)


def test_a_slope_that_is_infinite_at_the_root_is_that_of_the_jacobian():
    """A root of order 1/2, which one step from 0.2 hits."""
    x0 = torch.tensor([0.2], dtype=torch.float64)
    with pytest.raises(ValueError, match="the Jacobian of f: expected finite numbers"):
        ldiv.root(lambda x: torch.sign(x - 1) * (x - 1).abs().sqrt(), x0)
