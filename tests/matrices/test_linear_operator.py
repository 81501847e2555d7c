"""A LinearOperator is a matrix like any other: products, views, solves and derivatives, for any
nesting of its parameters.
"""

from typing import NamedTuple

import numpy as np
import pytest
import scipy.sparse.linalg

import ldiv

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")
jnp = jax.numpy

jax.config.update("jax_enable_x64", True)

N = 5
RNG = np.random.default_rng(0)


class Named(NamedTuple):
    scale: object
    shift: object


def draw(*shape, dtype="float64"):
    x = RNG.standard_normal(shape)
    x = x + 1j * RNG.standard_normal(shape) if np.dtype(dtype).kind == "c" else x
    return torch.tensor(x.astype(dtype))


def matvec(p, x):
    return p["d"][:, None] * x + 0.3 * torch.roll(x, 1, 0) + p["B"][0] @ x


def rmatvec(p, u):
    return p["d"].conj()[:, None] * u + 0.3 * torch.roll(u, -1, 0) + p["B"][0].mH @ u


def dense(d, B):
    return torch.diag_embed(d) + 0.3 * torch.roll(torch.eye(N, dtype=B.dtype), 1, 0) + B


def operator(d, B, own=None, assume_a="gen"):
    return ldiv.LinearOperator(
        matvec, {"d": d, "B": [B, 3, None, ()]}, shape=(N, N), rmatvec=own, assume_a=assume_a
    )


OWN = pytest.mark.parametrize("own", [None, rmatvec], ids=["found", "given"])
DTYPE = pytest.mark.parametrize("dtype", ["float64", "complex128"])


@OWN
@DTYPE
def test_products_and_views(own, dtype):
    d, B = draw(N, dtype=dtype), draw(N, N, dtype=dtype)
    A, a = operator(d, B, own), dense(d, B)
    assert A.shape == (N, N)
    for view, op in (
        (A, a),
        (A.T, a.mT),
        (A.H, a.mH),
        (A.conj(), a.conj()),
        (A.T.H, a.conj()),
        (A.H.H, a),
    ):
        for x in (draw(N, dtype=dtype), draw(N, 3, dtype=dtype), draw(2, N, 3, dtype=dtype)):
            assert torch.allclose(view @ x, op @ x)
        assert torch.allclose((x := draw(2, N, dtype=dtype)) @ view, x @ op)
    mixed = draw(N, 2, dtype="complex128" if dtype == "float64" else "float64")
    wide = torch.complex128
    for view, op in ((A, a), (A.T, a.mT), (A.H, a.mH)):
        assert torch.allclose((view @ mixed).to(wide), op.to(wide) @ mixed.to(wide))


@pytest.mark.parametrize(
    ("own", "dtype"),
    [
        pytest.param(None, "float64", id="found-float64", marks=pytest.mark.exhaustive),
        pytest.param(rmatvec, "complex128", id="given-complex128"),
        pytest.param(None, "complex128", id="found-complex128", marks=pytest.mark.exhaustive),
        pytest.param(rmatvec, "float64", id="given-float64", marks=pytest.mark.exhaustive),
    ],
)
def test_derivatives(own, dtype):
    d, B, b = draw(N, dtype=dtype) + 5, 0.3 * draw(N, N, dtype=dtype), draw(N, 2, dtype=dtype)
    args = [x.requires_grad_() for x in (d, B, b)]

    def solved(d, B, b):
        return ldiv.solve(operator(d, B, own), b, rtol=1e-13)

    def multiplied(d, B, b):
        return operator(d, B, own) @ b

    for f, reference in (
        (solved, lambda d, B, b: torch.linalg.solve(dense(d, B), b)),
        (multiplied, lambda d, B, b: dense(d, B) @ b),
    ):
        bars = draw(N, 2, dtype=dtype)
        for got, expected in zip(
            torch.autograd.grad(f(*args), args, bars),
            torch.autograd.grad(reference(*args), args, bars),
            strict=True,
        ):
            assert torch.allclose(got, expected, atol=1e-11)
        assert torch.autograd.gradcheck(f, args, check_forward_ad=True, fast_mode=True)
        assert torch.autograd.gradgradcheck(f, args, check_fwd_over_rev=True, fast_mode=True)


def test_second_order_and_vmap():
    from torch.func import grad, jacfwd, jacrev, vmap

    d, B, b = draw(N) + 5, 0.3 * draw(N, N), draw(N, 2)

    def ours(d):
        return (ldiv.solve(operator(d, B), b, rtol=1e-13) ** 3).sum()

    def reference(d):
        return (torch.linalg.solve(dense(d, B), b) ** 3).sum()

    expected = jacrev(jacrev(reference))(d)
    for outer in (jacfwd, jacrev):
        for inner in (jacfwd, jacrev):
            assert torch.allclose(outer(inner(ours))(d), expected, atol=1e-11)
    several = torch.stack([d, 2 * d])
    assert torch.allclose(vmap(ours)(several), torch.stack([reference(x) for x in several]))
    assert torch.allclose(
        vmap(grad(ours))(several), torch.stack([grad(reference)(x) for x in several]), atol=1e-12
    )


@pytest.mark.exhaustive
def test_jax():
    def apply(p, x):
        return p["d"][:, None] * x + 0.3 * jnp.roll(x, 1, 0) + p["B"] @ x

    d, B, b = (
        jnp.asarray(x.numpy())
        for x in (
            draw(N, dtype="complex128") + 5,
            0.3 * draw(N, N, dtype="complex128"),
            draw(N, 2, dtype="complex128"),
        )
    )

    def ours(d, B, b):
        return jnp.real(
            (
                ldiv.solve(
                    ldiv.LinearOperator(apply, {"d": d, "B": B}, shape=(N, N)),
                    b,
                    method="bicgstab",
                    rtol=1e-13,
                )
                ** 3
            ).sum()
        )

    def reference(d, B, b):
        return jnp.real(
            (jnp.linalg.solve(jnp.diag(d) + 0.3 * jnp.roll(jnp.eye(N), 1, 0) + B, b) ** 3).sum()
        )

    def all_of(f):
        g = jax.grad(f, (0, 1, 2))
        return (
            g(d, B, b),
            jax.jvp(g, (d, B, b), (B[0], B, b + 1))[1],
            jax.vmap(f, (0, None, None))(jnp.stack([d, 2 * d]), B, b),
        )

    for got, expected in zip(
        *map(jax.tree.leaves, jax.jit(lambda: (all_of(ours), all_of(reference)))()), strict=True
    ):
        assert np.allclose(got, expected, atol=1e-11)


# -- promises -----------------------------------------------------------------


@DTYPE
@pytest.mark.parametrize("promise", ["sym", "her", "pos"])
def test_promises(promise, dtype):
    """Neither rmatvec nor the framework is asked for the transposed product; views are the
    operator or its conjugate.
    """
    a = draw(N, N, dtype=dtype)
    a = a + (a.mT if promise == "sym" else a.mH)
    a = a @ a.mH + torch.eye(N, dtype=a.dtype) if promise == "pos" else a
    calls = []

    def apply(a, x):
        calls.append(1)
        return a @ x

    def never(a, x):
        raise AssertionError

    b = draw(N, 2, dtype=dtype).requires_grad_()
    for A, told in (
        (ldiv.LinearOperator(apply, a, shape=(N, N), rmatvec=never, assume_a=promise), "gen"),
        (
            ldiv.LinearOperator(
                apply, a, shape=(N, N), rmatvec=None if promise == "sym" else never
            ),
            promise,
        ),
    ):
        x = ldiv.solve(A, b, assume_a=told, rtol=1e-13)
        assert torch.allclose(a @ x, b)
        (g,) = torch.autograd.grad(x, b, torch.ones_like(x))
        assert torch.allclose(a.mH @ g, torch.ones_like(b))
        engine = ldiv.explain(A, b, assume_a=told).engine
        hermitian = promise != "sym" or dtype == "float64"
        assert engine == ("cg" if promise == "pos" else "minres" if hermitian else "gmres")
    for trans, op in (("T", a.mT), ("H", a.mH)):
        assert torch.allclose(op @ ldiv.solve(A, b, assume_a=promise, trans=trans), b)


# -- parameters ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "product"),
    [
        (np.array([2.0, 3.0]), lambda p, x: p[:, None] * x),
        ((np.array(2.0), 1.0), lambda p, x: p[0] * x + p[1] * x),
        (
            [np.array(2.0), [np.array(1.0)]],
            lambda p, x: p[0] * x + p[1][0] * x if isinstance(p, list) else None,
        ),
        (
            {"a": np.array(2.0), "n": None, "s": "name"},
            lambda p, x: p["a"] * x if p["n"] is None and p["s"] == "name" else None,
        ),
        (Named(np.array(2.0), {}), lambda p, x: p.scale * x if p.shift == {} else None),
        (
            {"b": {"c": (np.array(2.0),)}, "a": np.array(1.0)},
            lambda p, x: p["b"]["c"][0] * x - p["a"] * x,
        ),
    ],
)
def test_any_nesting(params, product):
    A = ldiv.LinearOperator(product, params, shape=(2, 2), rmatvec=product)
    x = np.array([1.0, 2.0])
    assert np.allclose(A @ x, product(params, x[:, None])[:, 0])
    assert np.allclose(A @ ldiv.solve(A, x), x)


def test_batches_of_parameters():
    d, B, b = draw(3, N) + 5, 0.3 * draw(N, N), draw(N, 2)
    A = operator(draw(N), B)
    batched = ldiv.Matrix(A.structure, (d, B))
    assert batched.shape == (3, N, N)
    assert torch.allclose(dense(d, B) @ ldiv.solve(batched, b), b.expand(3, N, 2))
    assert torch.allclose(batched.H @ b, dense(d, B).mH @ b)
    diagonal = ldiv.LinearOperator(
        lambda p, x: p[:, None] * x, np.ones(2), shape=(2, 2), assume_a="pos"
    )
    several = ldiv.Matrix(diagonal.structure, (np.array([[1.0, 2.0], [4.0, 8.0]]),))
    assert np.allclose(ldiv.solve(several, np.ones((2, 1)))[..., 0], [[1, 0.5], [0.25, 0.125]])


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_single_precision(dtype):
    d, B, b = draw(N, dtype=dtype) + 5, 0.3 * draw(N, N, dtype=dtype), draw(N, 2, dtype=dtype)
    x = ldiv.solve(operator(d, B), b)
    assert x.dtype == b.dtype
    assert torch.allclose(dense(d, B) @ x, b, atol=1e-3)


def test_rectangular():
    a = draw(3, N)
    A = ldiv.LinearOperator(lambda a, x: a @ x, a, shape=(3, N))
    u, x = draw(3), draw(N)
    assert torch.allclose(A @ x, a @ x)
    assert torch.allclose(A.T @ u, a.T @ u)
    with pytest.raises(ValueError, match="square"):
        ldiv.solve(A, u)


def test_it_composes():
    d, B, b = draw(N) + 5, 0.3 * draw(N, N), draw(N)
    A = 2.0 * operator(d, B) + ldiv.Matrix(ldiv.structures.Diagonal(N), draw(N))
    x = ldiv.solve(A, b)
    assert torch.allclose(A @ x, b)


# -- errors -------------------------------------------------------------------


def identity(p, x):
    return x


@pytest.mark.usefixtures("without_autograd")
@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: ldiv.LinearOperator(3, np.ones(2), shape=(2, 2)), "matvec: expected a function"),
        (
            lambda: ldiv.LinearOperator(identity, np.ones(2), shape=(2, 2), rmatvec=3),
            "rmatvec: expected a function",
        ),
        (
            lambda: ldiv.LinearOperator(identity, np.ones(2), shape=(2, 3), assume_a="her"),
            "shape: expected",
        ),
        (lambda: ldiv.LinearOperator(identity, np.ones(2), shape=(2,)), "shape: expected"),
        (
            lambda: ldiv.LinearOperator(identity, np.ones(2), shape=(2, 2), assume_a="diagonal"),
            "assume_a: expected",
        ),
        (
            lambda: ldiv.LinearOperator(identity, {"a": 1.0}, shape=(2, 2)),
            "params: expected at least one array",
        ),
        (
            lambda: ldiv.LinearOperator(identity, {"a": np.ones(2), "s": {1, 2}}, shape=(2, 2)),
            "params: expected nested",
        ),
        (
            lambda: ldiv.LinearOperator(identity, np.ones(2, dtype=int), shape=(2, 2)),
            "params: expected one of float32",
        ),
        (
            lambda: ldiv.LinearOperator(identity, (np.ones(2), torch.ones(2)), shape=(2, 2)),
            "arrays: expected all of one framework",
        ),
        (
            lambda: (
                ldiv.LinearOperator(lambda p, x: x[:, 0], np.ones(2), shape=(2, 2)) @ np.ones(2)
            ),
            "matvec: expected a result of shape",
        ),
        (
            lambda: ldiv.LinearOperator(lambda p, x: x[:1], np.ones(2), shape=(2, 2)) @ np.ones(2),
            "matvec: expected a result of shape",
        ),
        (
            lambda: ldiv.LinearOperator(lambda p, x: None, np.ones(2), shape=(2, 2)) @ np.ones(2),
            "matvec: expected a result of shape",
        ),
        (
            lambda: ldiv.LinearOperator(identity, np.ones(2), shape=(2, 2)).H @ np.ones(2),
            "give rmatvec",
        ),
        (
            lambda: (
                ldiv.LinearOperator(
                    identity, np.ones(2), shape=(2, 2), rmatvec=lambda p, x: x[:1]
                ).H
                @ np.ones(2)
            ),
            "rmatvec: expected a result",
        ),
        (
            lambda: ldiv.solve(
                ldiv.LinearOperator(identity, np.ones(2), shape=(2, 2)), np.ones(2), method="direct"
            ),
            "no engine solves",
        ),
        (
            lambda: ldiv.factorized(ldiv.LinearOperator(identity, np.ones(2), shape=(2, 2))),
            "factor",
        ),
        (
            lambda: ldiv.solve(
                ldiv.LinearOperator(identity, np.ones(2), shape=(2, 2)), np.ones(2), M="jacobi"
            ),
            "M='jacobi': expected a matrix",
        ),
        (
            lambda: ldiv.solve(
                ldiv.LinearOperator(identity, np.ones(2), shape=(2, 2)), np.ones(2), M="amg"
            ),
            "M='amg': expected a sparse matrix",
        ),
        (
            lambda: ldiv.solve(
                ldiv.LinearOperator(identity, np.array([1, np.nan]), shape=(2, 2)), np.ones(2)
            ),
            "A: expected finite",
        ),
    ],
)
def test_misuse(make, match):
    with pytest.raises((TypeError, ValueError), match=match):
        make()


@pytest.mark.usefixtures("without_autograd")
def test_the_adjoint_of_a_numpy_operator_needs_rmatvec():
    a = draw(N, N).numpy() + 5 * np.eye(N)
    b = np.ones(N)
    x, pullback = ldiv.vjp(
        lambda b: ldiv.solve(ldiv.LinearOperator(lambda a, x: a @ x, a, shape=(N, N)), b), b
    )
    assert np.allclose(a @ x, b)
    with pytest.raises(TypeError, match="give rmatvec or a promise of symmetry"):
        pullback(b)
    _, pullback = ldiv.vjp(
        lambda b: ldiv.solve(
            ldiv.LinearOperator(lambda a, x: a @ x, a, shape=(N, N), rmatvec=lambda a, x: a.T @ x),
            b,
        ),
        b,
    )
    assert np.allclose(a.T @ pullback(b)[0], b)


@pytest.mark.parametrize("framework", ["numpy", "torch", "scipy"])
@pytest.mark.parametrize("method", ["cg", "minres", "gmres", "bicgstab"])
def test_a_function_may_write_to_its_block_and_use_its_result_again(method, framework):
    """The block is a copy, and so is what is kept of the result."""
    n, result = 12, {}
    d, b = np.linspace(1, 3, n), np.cos(np.arange(n))
    given, dense = b.copy(), np.diag(d) + 0.1
    if framework == "torch":
        d, b = torch.tensor(d), torch.tensor(b)

    def matvec(d, x):
        y = d[:, None] * x + 0.1 * x.sum(0)
        x[...] = 7.0
        kept = result.setdefault(tuple(x.shape), 0 * y)
        kept[...] = y
        return kept

    if framework == "scipy":
        A = scipy.sparse.linalg.LinearOperator(
            (n, n), lambda x: matvec(d, x.reshape(n, 1)), dtype=float
        )
    else:
        A = ldiv.LinearOperator(matvec, d, shape=(n, n))
    x = ldiv.solve(A, b, method=method, rtol=1e-12, assume_a="pos")
    np.testing.assert_array_equal(np.asarray(b), given)
    np.testing.assert_allclose(np.asarray(x), np.linalg.solve(dense, given))
