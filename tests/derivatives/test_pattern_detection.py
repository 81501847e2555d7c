"""Patterns that are found by following a function: no entry is missed, on structures none is too
much; what cannot be followed is found by products.
"""

from __future__ import annotations

import numpy as np
import pytest

import ldiv
from ldiv.core.frameworks.dispatch import frontend_of
from ldiv.frontends import index_sets

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")
jnp = jax.numpy
jax.config.update("jax_enable_x64", True)

N = 12
X = np.random.default_rng(0).standard_normal(N)
COLS = np.arange(N) * 5 % N
MASK = (np.random.default_rng(1).random((N, N)) < 0.2) * 1.0
ROWS = np.arange(20) % N, np.arange(20) * 7 % N  # of a sparse matrix


def in_torch(a):
    return torch.tensor(a)


def chain(x, xp):
    zero = 0 * x[:1]
    return x**3 - xp.concat([x[1:], zero]) - xp.concat([zero, x[:-1]]) ** 2


def sparse(data, asarray):
    return ldiv.coo_array((asarray(data), ROWS), shape=(N, N))


# name: (f(x, the namespace, its asarray), entries where they are exactly those of J, or None)
BOTH = {
    "chain": (lambda x, xp, a: chain(x, xp), 34),
    "elementwise": (lambda x, xp, a: xp.tanh(x) / (1 + xp.exp(x)) + abs(x), N),
    "no branch is left out": (lambda x, xp, a: xp.where(x > 9, xp.flip(x, axis=0), x), 24),
    "known branches": (lambda x, xp, a: xp.where(a(COLS) > 5, xp.flip(x, axis=0), x), N),
    "known zeros": (lambda x, xp, a: x * a(MASK[0]) + 0 * x[0], int(MASK[0].sum())),
    "gather": (lambda x, xp, a: x[a(COLS)] * x, 20),
    "sums": (lambda x, xp, a: x.reshape(3, 4).sum(0) + x.reshape(4, 3).sum(1), None),
    "mean and spread": (lambda x, xp, a: x.reshape(3, 4).mean(1) * x.reshape(3, 4).std(1), N),
    "moves": (
        lambda x, xp, a: xp.roll(xp.stack([x, xp.flip(x, axis=0)]).T.reshape(-1)[3:], 2)[4:],
        17,
    ),
    "broadcast": (lambda x, xp, a: (x[:3, None] * x[None, 3:]).reshape(-1), 54),
    "known matrix": (lambda x, xp, a: a(MASK) @ x + x @ a(MASK), None),
    "matrices": (lambda x, xp, a: (x.reshape(3, 4) @ x.reshape(4, 3)).reshape(-1), 60),
    "many small": (lambda x, xp, a: (x.reshape(3, 2, 2) @ x.reshape(3, 2, 2)).reshape(-1), 36),
    "cumulative": (lambda x, xp, a: xp.cumsum(x.reshape(3, 4), 1).reshape(-1), None),
    "an order": (lambda x, xp, a: x[xp.argsort(x)], None),
    "sparse product": (lambda x, xp, a: sparse(np.ones(20), a) @ x, 12),
    "transposed": (lambda x, xp, a: sparse(np.ones(20), a).T @ x, 12),
    "sparse data": (
        lambda x, xp, a: sparse(np.ones(20), a).with_data(xp.concat([x, x[:8]])) @ x,
        18,
    ),
    "our solve": (
        lambda x, xp, a: ldiv.solve(ldiv.diags_array([x + 9], offsets=[0], shape=(N, N)), x),
        None,
    ),
    "our solves": (
        lambda x, xp, a: ldiv.solve(x.reshape(3, 2, 2) + 9 * a(np.eye(2)), a(np.ones(2))).reshape(
            -1
        ),
        24,
    ),
    "nothing": (lambda x, xp, a: a(np.ones(3)), 0),
}


def written(x):
    y = torch.zeros_like(x)
    y[1:] = x[1:] * x[:-1]
    y.view(3, 4)[1] *= x[0]
    return y


def scattered(x):
    y, i = torch.zeros_like(x), torch.as_tensor(COLS)
    y.index_add_(0, i[:3], x[:3] ** 2)
    y.index_put_((i[:2],), x[:2], accumulate=True)
    return y.scatter_add_(0, i[:4], x[:4])


def overwritten(x):
    y = x.clone()
    y[2:5] = 0
    y[5:7] = x[0]
    return y


TORCH = {
    "written in place": (written, 26),
    "scattered": (scattered, 4),
    "overwritten": (overwritten, 9),
    "softmax": (lambda x: torch.softmax(x.reshape(3, 4), 1).ravel(), 48),
    "norms": (lambda x: torch.linalg.norm(x.reshape(3, 4), dim=1), N),
    "maxima": (lambda x: x.reshape(3, 4).amax(1), None),
    "convolution": (
        lambda x: torch.nn.functional.conv2d(
            x.reshape(1, 1, 3, 4), torch.ones(2, 1, 2, 3).double(), padding=(0, 1), stride=(1, 2)
        ).ravel(),
        40,
    ),
    "gradient": (torch.func.grad(lambda x: (torch.relu(x[1:] * x[:-1]) ** 2).sum()), None),
    "dense solve": (lambda x: torch.linalg.solve(torch.diag(x) + 9 * torch.eye(N), x), None),
    "triangular solve from the right": (
        lambda x: torch.linalg.solve_triangular(
            torch.ones(4, 4).double().tril(), x.reshape(3, 4), upper=False, left=False
        ).ravel(),
        48,
    ),
    "mapped": (torch.func.vmap(lambda x: x.sin() * x), N),
    "detached": (lambda x: x.detach().flip(0) * x, N),
}

straight = jax.custom_jvp(jnp.round)
straight.defjvp(lambda x, dx: (jnp.round(x[0]), dx[0]))

JAX = {
    "scattered": (lambda x: x.at[2:4].set(0.0).at[0].add(x[5]), 11),
    "slices": (lambda x: jax.lax.dynamic_update_slice(x, x[:3] * x[5], (4,)), 15),
    "segments": (lambda x: jax.ops.segment_sum(x, jnp.arange(N) // 4, 3), N),
    "convolution": (
        lambda x: jax.lax.conv_general_dilated(
            x.reshape(1, 1, 3, 4), jnp.ones((2, 1, 2, 3)), (1, 2), ((0, 0), (1, 1))
        ).ravel(),
        40,
    ),
    "products": (lambda x: jnp.prod(x.reshape(4, 3), axis=1), N),
    "scan": (lambda x: jax.lax.scan(lambda c, y: (c + y, c * y), 0.0, x)[1], 77),
    "long loop": (lambda x: jax.lax.fori_loop(0, 3000, lambda i, c: c + jnp.sin(c), x), N),
    "no steps": (lambda x: x * jax.lax.scan(lambda c, t: (c[::-1], c * t), x, jnp.ones(0))[0], N),
    "cond": (lambda x: jax.lax.cond(x.sum() > 0, lambda x: x, lambda x: x[::-1], x), 24),
    "called": (jax.jit(jax.checkpoint(lambda x: jnp.sin(x) * x[::-1])), 24),
    "a rule of the user's": (straight, N),
    "stopped": (lambda x: jax.lax.stop_gradient(x[::-1]) * x, N),
    "dense solve": (lambda x: jnp.linalg.solve(jnp.diag(x) + 9 * jnp.eye(N), x), None),
    "gradient": (jax.grad(lambda x: (x[jnp.asarray(COLS)] ** 2 * x).sum()), None),
}

CASES = [
    *(
        (name, in_torch, lambda x, f=f: f(x, torch_xp, in_torch), e)
        for name, (f, e) in BOTH.items()
    ),
    *(
        (name, jnp.asarray, lambda x, f=f: f(x, jnp, jnp.asarray), e)
        for name, (f, e) in BOTH.items()
    ),
    *((name, in_torch, f, e) for name, (f, e) in TORCH.items()),
    *((name, jnp.asarray, f, e) for name, (f, e) in JAX.items()),
]
import array_api_compat  # noqa: E402

torch_xp = array_api_compat.array_namespace(torch.ones(1))


@pytest.mark.parametrize(
    ("asarray", "f", "entries"),
    [case[1:] for case in CASES],
    ids=[f"{case[0]}, {'torch' if case[1] is in_torch else 'jax'}" for case in CASES],
)
def test_no_entry_is_missed(asarray, f, entries):
    x = asarray(X)
    sets = frontend_of(x).dependence(f, x)
    assert sets is not None, "it is followed"
    jacobian = jax.jit(jax.jacrev(f))(x) if asarray is jnp.asarray else torch.func.jacrev(f)(x)
    missed = (np.asarray(jacobian) != 0) & ~sets.toarray()
    assert not missed.any()
    if entries is not None:
        assert sets.nnz == entries


@pytest.mark.parametrize("asarray", [in_torch, jnp.asarray])
def test_a_pattern_holds_everywhere(asarray):
    """Derivatives that vanish at x are in it, too."""
    xp = torch_xp if asarray is in_torch else jnp
    found = ldiv.detect_pattern(lambda x: chain(x, xp), asarray(np.zeros(N)))
    x = asarray(X)
    expected = ldiv.jacobian(lambda x: chain(x, xp), x)
    J = ldiv.jacobian(lambda x: chain(x, xp), x, pattern=found)
    np.testing.assert_allclose(np.asarray(J.toarray()), np.asarray(expected), atol=1e-12)


class Reversed(torch.autograd.Function):
    """A function whose backward pass uses NumPy, which PyTorch does not see."""

    @staticmethod
    def forward(x):
        return torch.from_numpy(x.detach().numpy()[::-1].copy())

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, bar):
        return Reversed.apply(bar)

    @staticmethod
    def vmap(info, dims, x):
        return x.flip(1 - dims[0]) if dims[0] in (0, 1) else x, dims[0]


@pytest.mark.parametrize(
    ("f", "expected"),
    [
        (lambda x: torch.fft.fft(x.reshape(3, 4)).real.ravel(), 36),
        (lambda x: Reversed.apply(x) * x, 24),
        (lambda x: torch.cat([torch.fft.fft(x[:2]).real, x[2:] * x[2].item()]), 14),
        (lambda x: torch.tensor(MASK).to_sparse() @ x, int(MASK.sum())),
    ],
)
def test_what_cannot_be_followed_is_found_by_products(f, expected):
    found = ldiv.detect_pattern(f, torch.tensor(X))
    J = ldiv.jacobian(f, torch.tensor(X), pattern=found).toarray()
    np.testing.assert_allclose(J, ldiv.jacobian(f, torch.tensor(X)), atol=1e-12)
    assert found.nnz == expected


@pytest.mark.parametrize("asarray", [in_torch, jnp.asarray])
def test_sets_that_are_too_large_are_not_made(asarray, monkeypatch):
    monkeypatch.setattr(index_sets, "LARGEST", 100)
    x = asarray(X)
    f = lambda x: x.sum() * x
    assert frontend_of(x).dependence(f, x) is None
    assert ldiv.detect_pattern(f, x).nnz == N * N


def test_a_broken_promise_of_indices_is_not_followed():
    """An index that breaks its promise is written, or not, as the compiler likes."""
    f = lambda x: x.at[jnp.array([N + 8])].set(x[:1], mode="promise_in_bounds", unique_indices=True)
    assert frontend_of(jnp.asarray(X)).dependence(f, jnp.asarray(X)) is None


@pytest.mark.parametrize("asarray", [in_torch, jnp.asarray])
@pytest.mark.parametrize("n", [0, 1])
def test_vectors_of_no_length(asarray, n):
    x = asarray(X[:n])
    assert ldiv.detect_pattern(lambda x: x**2, x).nnz == n
    assert ldiv.detect_pattern(lambda x: x[:0], x).structure.shape == (0, n)


def test_a_compiled_jacobian_is_verified_while_it_is_traced():
    """No product in a random direction is left, unless f cannot be followed or needs more."""
    i = np.arange(N)
    own = lambda x: x**2
    dense = lambda x: jnp.sort(x)  # its pattern is a permutation, which only numbers can tell

    def products(f, x):
        compiled = jax.jit(lambda x: ldiv.jacobian(f, x, pattern=(i, i)).data)
        return str(jax.make_jaxpr(compiled)(x)).count("VerifyPattern"), compiled(x)

    x = jnp.asarray(np.sort(X))
    count, values = products(own, x)
    np.testing.assert_allclose(np.asarray(values), 2 * np.sort(X))
    assert count == 0
    count, values = products(dense, x)
    np.testing.assert_allclose(np.asarray(values), 1)
    assert count == 1
    with pytest.raises(Exception, match="misses some"):
        products(dense, x[::-1])


def test_a_compiled_jacobian_of_a_function_that_closes_over_what_is_traced():
    i = np.arange(N)

    @jax.jit
    def gradient(a, x):
        def loss(a):
            return (ldiv.jacobian(lambda x: a * x**2, x, pattern=(i, i)).data ** 2).sum()

        return jax.grad(loss)(a)

    a, x = np.arange(N) - 3.0, X  # a[3] is zero, which is no part of the program
    np.testing.assert_allclose(gradient(jnp.asarray(a), jnp.asarray(x)), 8 * a * x**2)
    hessian = jax.jit(lambda x: ldiv.hessian(lambda x: (x**3).sum(), x, pattern=(i, i)).data)
    np.testing.assert_allclose(hessian(jnp.asarray(x)), 6 * x)


def test_few_programs_are_compiled(caplog):
    """f, and its products in all directions: not each operation in them."""

    def f(x):
        u = jnp.pad(x.reshape(7, 9), 1)
        return (4 * x - u[2:, 1:-1].ravel() - u[:-2, 1:-1].ravel()) * jnp.sin(x) + x**3

    x = jnp.asarray(np.random.default_rng(0).random(63))
    with jax.log_compiles():
        pattern = ldiv.detect_pattern(f, x)
    compiled = [r for r in caplog.records if "Finished XLA compilation" in r.getMessage()]
    assert pattern.nnz == 3 * 63 - 18
    assert 1 <= len(compiled) <= 4


def test_a_batch_of_points_is_refused():
    """A pattern has no batch axes."""
    x = torch.ones(2, 3, dtype=torch.float64)
    with pytest.raises(TypeError, match="one point, got a batch"):
        torch.func.vmap(lambda x: ldiv.detect_pattern(lambda y: y**3, x).data)(x)
