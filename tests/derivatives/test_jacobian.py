"""Jacobians and Hessians, dense and by coloring; roots and solutions found elsewhere."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import ldiv
from ldiv.core.frameworks.pattern import Pattern
from ldiv.derivatives.coloring import compression
from ldiv.structures.sparse import Sparse

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")
jnp = jax.numpy
jax.config.update("jax_enable_x64", True)

N = 30
OFFSETS = [-1, 0, 1]


def shifted(x):
    """x moved down and up, zeros moving in."""
    cat = torch.cat if isinstance(x, torch.Tensor) else jnp.concatenate
    return cat([x[1:], 0 * x[:1]]), cat([0 * x[:1], x[:-1]])


def chain(x):
    up, down = shifted(x)
    return x**3 + 2 * x - up - down**2


def energy(x):
    return ((x[1:] - x[:-1]) ** 4).sum() + (x**3).sum()


def tridiagonal(n=N):
    return sp.diags_array([np.ones(n - 1), np.ones(n), np.ones(n - 1)], offsets=OFFSETS).tocoo()


def by_numbers(f):
    """f, such that nobody can follow it: on the diagonal of a matrix that was once complex."""

    def g(x):
        return torch.fft.ifft(torch.fft.fft(torch.stack([f(x)] * 2), dim=0), dim=0)[0].real

    return g


def grid(m):
    line = tridiagonal(m)
    return sp.coo_array(sp.kron(line, sp.eye_array(m)) + sp.kron(sp.eye_array(m), line))


def arrowhead(n):
    a = sp.lil_array(sp.eye_array(n))
    a[0, :], a[:, 0] = 1, 1
    return a.tocoo()


def mesh(m):
    """Linear triangles on a square: 7 neighbors."""
    node = np.arange(m * m).reshape(m, m)
    pairs = [(node[:, :-1], node[:, 1:]), (node[:-1], node[1:]), (node[:-1, :-1], node[1:, 1:])]
    i, j = (np.concatenate([p[k].ravel() for p in pairs]) for k in (0, 1))
    a = sp.coo_array((np.ones(len(i)), (i, j)), shape=(m * m, m * m))
    return sp.coo_array(a + a.T + sp.eye_array(m * m))


def entries(a, mode, symmetric=False):
    """The entries of a random matrix on a pattern, as a compression tells them, and how many
    products it takes.
    """
    a = sp.coo_array(a)
    values = np.random.default_rng(0).standard_normal(a.shape)
    dense = np.where(a.toarray() != 0, values + values.T if symmetric else values, 0)
    how = compression(Sparse(Pattern(*a.coords, a.shape)), mode)
    np.testing.assert_allclose(
        how.entries((dense @ how.forward).T, how.reverse @ dense), dense[a.coords]
    )
    return how.forward.shape[1] + how.reverse.shape[0]


@pytest.mark.parametrize(
    ("pattern", "mode", "most"),
    [
        (tridiagonal(), "forward", 3),
        (tridiagonal(), "reverse", 3),
        (tridiagonal(), "symmetric", 3),
        (grid(20), "forward", 7),
        (grid(20), "symmetric", 7),
        (mesh(20), "forward", 10),
        (arrowhead(400), "both", 3),
        (arrowhead(400), "auto", 3),
        (arrowhead(400), "symmetric", 2),
    ],
)
def test_colors_are_few(pattern, mode, most):
    assert entries(pattern, mode, mode == "symmetric") <= most


@pytest.mark.parametrize("seed", range(20))
def test_every_pattern_is_told_apart(seed):
    a = sp.random_array((25, 31), density=0.1, rng=seed)
    for mode in ("forward", "reverse", "both", "auto"):
        entries(a, mode)
    b = sp.random_array((30, 30), density=0.07, rng=seed)
    entries(b + b.T + sp.eye_array(30), "symmetric", True)


def test_an_unsymmetric_pattern_has_no_star_coloring():
    with pytest.raises(ValueError, match="symmetric one"):
        ldiv.hessian(energy, torch.ones(3, dtype=torch.float64), pattern=([0, 0], [0, 1]))


@pytest.mark.covering(1)
@pytest.mark.parametrize("array", [torch.tensor, jnp.asarray])
@pytest.mark.parametrize("mode", ["auto", "forward", "reverse", "both"])
def test_jacobian(array, mode):
    x = np.random.default_rng(1).standard_normal(N)
    expected = np.asarray(jax.jacfwd(chain)(jnp.asarray(x)))
    np.testing.assert_allclose(
        np.asarray(ldiv.jacobian(chain, array(x), mode="auto" if mode == "both" else mode)),
        expected,
        atol=1e-12,
    )
    sparse = ldiv.jacobian(chain, array(x), mode=mode, pattern=tridiagonal())
    assert isinstance(sparse, ldiv.SparseArray)
    np.testing.assert_allclose(np.asarray(sparse.toarray()), expected, atol=1e-12)


@pytest.mark.parametrize("array", [torch.tensor, jnp.asarray])
def test_hessian_and_product(array):
    x, v = np.random.default_rng(2).standard_normal((2, N))
    expected = np.asarray(jax.hessian(energy)(jnp.asarray(x)))
    np.testing.assert_allclose(np.asarray(ldiv.hessian(energy, array(x))), expected, atol=1e-12)
    np.testing.assert_allclose(
        np.asarray(ldiv.hessian(energy, array(x), pattern=tridiagonal()).toarray()),
        expected,
        atol=1e-12,
    )
    np.testing.assert_allclose(
        np.asarray(ldiv.hvp(energy, array(x), array(v))), expected @ v, atol=1e-12
    )


@pytest.mark.parametrize("array", [torch.tensor, jnp.asarray])
def test_a_pattern_is_detected(array):
    found = ldiv.detect_pattern(chain, array(np.ones(N)))
    expected = tridiagonal().tocsr()
    assert (
        abs(sp.csr_array((np.ones(found.nnz), (found.row, found.col)), shape=(N, N)) - expected)
        != 0
    ).nnz == 0


def test_a_pattern_that_misses_an_entry_raises():
    i = np.arange(N)
    with pytest.raises(ValueError, match="misses some"):
        ldiv.jacobian(chain, torch.ones(N, dtype=torch.float64), pattern=(i, i))
    with pytest.raises(Exception, match="misses some"):
        jax.jit(lambda x: ldiv.jacobian(chain, x, pattern=(i, i)).data)(
            jnp.ones(N)
        ).block_until_ready()


@pytest.mark.parametrize(
    ("words", "error", "pattern"),
    [
        (r"the entry \(0, 3\)", ValueError, ([0, 1], [3, 1])),
        ("2 rows, 1 columns", ValueError, ([0, 1], [0])),
        (
            r"rows of pattern: expected a vector of integers, got 1 axes of float64",
            TypeError,
            (np.array([0.5]), np.array([0])),
        ),
        (
            r"rows of pattern: expected a vector of integers, got 2 axes of int64",
            TypeError,
            np.eye(2, dtype=int)[None].repeat(2, 0).tolist(),
        ),
        ("shape \\(2, 2\\)", ValueError, sp.eye_array(2)),
    ],
)
def test_a_pattern_that_is_none(words, error, pattern):
    with pytest.raises(error, match=words):
        ldiv.jacobian(torch.sin, torch.ones(3), pattern=pattern)


@pytest.mark.parametrize(
    ("words", "error", "call"),
    [
        (
            "real floating values, got complex128",
            TypeError,
            lambda x: ldiv.jacobian(lambda x: x * 1j, x),
        ),
        ("real floating values, got int64", TypeError, lambda x: ldiv.jacobian(torch.argsort, x)),
        (
            "finite derivative at x",
            ValueError,
            lambda x: ldiv.jacobian(lambda x: (x - 1).sqrt(), x, pattern=(range(3), range(3))),
        ),
        (
            "finite derivatives near x",
            ValueError,
            lambda x: ldiv.detect_pattern(lambda x: (x - 1).sqrt(), x),
        ),
        (
            "misses some",
            ValueError,
            lambda x: ldiv.detect_pattern(by_numbers(lambda x: (x == 1) * x.sum() + x), x),
        ),
        (
            r"as many equations as unknowns, values \(3,\), got Tensor \(2,\)",
            ValueError,
            lambda x: ldiv.root(lambda x, p: x[:2] - p[:2], x, x),
        ),
    ],
)
def test_a_function_that_has_no_such_derivative(words, error, call):
    with pytest.raises(error, match=words):
        call(torch.ones(3, dtype=torch.float64))


def test_jacobian_through_a_solve():
    k = np.linspace(1.0, 2.0, N + 1)

    def displacement(k):
        stiffness = ldiv.diags_array([-k[1:-1], k[1:] + k[:-1], -k[1:-1]], offsets=OFFSETS)
        return ldiv.solve(stiffness, torch.ones(N, dtype=torch.float64), assume_a="pos")

    ours, theirs = (
        ldiv.jacobian(displacement, torch.tensor(k)),
        torch.func.jacfwd(displacement)(torch.tensor(k)),
    )
    torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-13)


def test_a_newton_step_is_differentiable():
    start, rhs, d = (torch.tensor(y) for y in np.random.default_rng(3).standard_normal((3, N)))
    pattern = ldiv.detect_pattern(chain, start)

    def step(x):
        return ldiv.solve(ldiv.jacobian(chain, x, pattern=pattern), rhs - chain(x))

    def plain(x):
        return torch.linalg.solve(torch.func.jacfwd(chain)(x), rhs - chain(x))

    torch.testing.assert_close(
        torch.func.jvp(step, (start,), (d,))[1],
        torch.func.jacrev(plain)(start) @ d,
        rtol=1e-9,
        atol=1e-9,
    )


# -- roots --------------------------------------------------------------------


def balance(x, p):
    up, down = shifted(x)
    return p["a"] * x**3 + 3 * x - up - down - p["b"]


A, B, D = (
    np.random.default_rng(4).uniform(0.5, 1, N),
    5 * np.random.default_rng(5).standard_normal(N),
    np.random.default_rng(6).standard_normal(N),
)


def exact(a):
    """The root and its derivative along D, by NumPy."""
    x, off = np.ones(N), np.ones(N - 1)
    for _ in range(50):
        jacobian = np.diag(3 * a * x**2 + 3) - np.diag(off, 1) - np.diag(off, -1)
        x = x - np.linalg.solve(
            jacobian, a * x**3 + 3 * x - np.append(x[1:], 0) - np.append(0, x[:-1]) - B
        )
    return x, np.linalg.solve(jacobian, -D * x**3)


@pytest.mark.parametrize("pattern", [tridiagonal(), None])
def test_root_in_torch(pattern):
    x, dx = exact(A)

    def solution(a):
        return ldiv.root(
            balance,
            torch.ones(N, dtype=torch.float64),
            {"a": a, "b": torch.tensor(B)},
            pattern=pattern,
        )

    a, d = torch.tensor(A, requires_grad=True), torch.tensor(D)
    found = solution(a)
    np.testing.assert_allclose(found.detach(), x, rtol=1e-10)
    before = ldiv.cache_info().factorizations
    gradient = torch.autograd.grad((found**2).sum(), a)[0]
    assert ldiv.cache_info().factorizations == before, "the last factor serves the adjoint"
    np.testing.assert_allclose(gradient @ d, 2 * x @ dx, rtol=1e-9)
    np.testing.assert_allclose(
        torch.func.jvp(solution, (a.detach(),), (d,))[1], dx, rtol=1e-8, atol=1e-10
    )

    def slope(a):
        return torch.func.grad(lambda a: (solution(a) ** 2).sum())(a) @ d

    forward, reverse = (
        torch.func.jvp(slope, (a.detach(),), (d,))[1],
        torch.func.grad(slope)(a.detach()) @ d,
    )
    h = 1e-4
    difference = (
        2 * exact(A + h * D)[0] @ exact(A + h * D)[1]
        - 2 * exact(A - h * D)[0] @ exact(A - h * D)[1]
    ) / (2 * h)
    np.testing.assert_allclose([forward, reverse], difference, rtol=1e-6)


def test_root_in_jax():
    x, dx = exact(A)

    def loss(a):
        return (
            ldiv.root(balance, jnp.ones(N), {"a": a, "b": jnp.asarray(B)}, pattern=tridiagonal())
            ** 2
        ).sum()

    np.testing.assert_allclose(jax.jit(jax.grad(loss))(jnp.asarray(A)) @ D, 2 * x @ dx, rtol=1e-9)


def test_root_takes_its_last_step():
    """Found short enough, it leads as near to the root as steps converge."""
    for dtype in (torch.float32, torch.float64):
        p = torch.tensor([4.0, 9.0, 2.0], dtype=dtype)
        found = ldiv.root(lambda x, p: x**2 - p, torch.ones(3, dtype=dtype), p)
        np.testing.assert_allclose(found, np.sqrt([4.0, 9.0, 2.0]), rtol=4 * torch.finfo(dtype).eps)


def test_implicit():
    x, dx = exact(A)
    a = torch.tensor(A, requires_grad=True)
    found = ldiv.implicit(
        balance, torch.tensor(x), {"a": a, "b": torch.tensor(B)}, pattern=tridiagonal()
    )
    np.testing.assert_allclose(
        torch.autograd.grad((found**2).sum(), a)[0] @ torch.tensor(D), 2 * x @ dx, rtol=1e-9
    )
    with pytest.raises(ldiv.ConvergenceError, match=r"too long.*an x that is no root"):
        ldiv.implicit(balance, torch.tensor(x + 0.1), {"a": a, "b": torch.tensor(B)})


def test_a_root_that_is_not_there():
    with pytest.raises((ldiv.ConvergenceError, ldiv.SingularMatrixError)):
        ldiv.root(
            lambda x, p: x**2 + p,
            torch.ones(2, dtype=torch.float64) * 0.7,
            torch.ones(2, dtype=torch.float64),
        )
    with pytest.raises(ValueError, match="at least one array"):
        ldiv.root(lambda x, p: x, torch.ones(2), ())


@pytest.mark.parametrize(
    ("framework", "dtype"),
    [
        ("torch", "float64"),
        ("torch", "float32"),
        ("jax", "float64"),
        pytest.param("jax", "float32", marks=pytest.mark.exhaustive),
    ],
)
def test_a_root_at_zero(framework, dtype):
    xp = torch if framework == "torch" else jnp
    n, near = 20, 20 * np.finfo(dtype).eps
    b, start, one, p = (
        xp.asarray(v, dtype=getattr(xp, dtype))
        for v in (
            np.random.default_rng(8).standard_normal((n, n)) + 10 * np.eye(n),
            np.full(n, 0.3),
            np.ones(n),
            np.ones(n),
        )
    )
    for f in (lambda x, p: x + x**3 - 0 * p, lambda x, p: b @ xp.exp(x) - b @ p):
        x = ldiv.root(f, start, one)
        np.testing.assert_allclose(np.asarray(x), 0, atol=50 * near)
        np.testing.assert_array_equal(np.asarray(ldiv.implicit(f, 0 * x, p)), 0)
    with pytest.raises(ldiv.ConvergenceError):
        ldiv.implicit(f, 0 * start + 1e-3, p)


def test_a_far_start_is_no_scale():
    p = torch.tensor([1.0, 2.0], dtype=torch.float64)
    np.testing.assert_allclose(
        ldiv.root(lambda x, p: 3 * x - p, 1e10 + 0 * p, p), p / 3, rtol=1e-12
    )


@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_a_jump_is_no_root_however_far_the_start(framework):
    xp = torch if framework == "torch" else jnp
    p, start = xp.asarray([1.0], dtype=xp.float64), xp.asarray([1e12], dtype=xp.float64)
    with pytest.raises(ldiv.ConvergenceError, match="the last step is too long"):
        ldiv.root(lambda x, p: xp.where(x > 0.3, x + p, x - 2 * p), start, p)


def test_a_line_search_reaches_a_far_root():
    p = torch.tensor([0.5], dtype=torch.float64)
    x = ldiv.root(lambda x, p: torch.atan(x) - p, torch.tensor([20.0], dtype=torch.float64), p)
    torch.testing.assert_close(x, torch.tan(p))


@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_through_eigenpairs(framework):
    """d lam_i / d a_j = x_ji^2 for a diagonal shift a; the Hessian of the first is that of
    perturbation theory.
    """
    xp, asarray = (torch, torch.tensor) if framework == "torch" else (jnp, jnp.asarray)
    n, k = 8, 3
    off = np.diag(-np.ones(n - 1), 1)
    a = np.arange(n) ** 1.5

    def eigenvalues(a):
        return ldiv.eigsh(xp.diag(a) + asarray(off + off.T), k, which="SA")[0]

    def everything(a, v):
        jacobians = [ldiv.jacobian(eigenvalues, a, mode=mode) for mode in ("forward", "reverse")]
        return (
            *jacobians,
            ldiv.hessian(lambda a: eigenvalues(a)[0], a),
            ldiv.hvp(lambda a: eigenvalues(a)[0], a, v),
        )

    w, x = np.linalg.eigh(np.diag(a) + off + off.T)
    others = x[:, 1:] / (w[0] - w[1:]) @ x[:, 1:].T
    expected, v = 2 * np.outer(x[:, 0], x[:, 0]) * others, np.cos(np.arange(n))
    run = jax.jit(everything) if framework == "jax" else everything
    for got, exact in zip(
        run(asarray(a), asarray(v)), (*[(x[:, :k] ** 2).T] * 2, expected, expected @ v), strict=True
    ):
        np.testing.assert_allclose(np.asarray(got), exact, atol=1e-11)


# -- ldiv.vjp and ldiv.jvp ----------------------------------------------------


@pytest.mark.parametrize("asarray", [torch.tensor, jnp.asarray])
def test_products_with_a_derivative(asarray):
    """Functions may have several arguments and values, sparse matrices among them, in one
    convention.
    """
    rng = np.random.default_rng(2)
    values, b, dvalues, db = (
        rng.standard_normal(4) + 1j * rng.standard_normal(4) for _ in range(4)
    )
    row, col = [0, 1, 2, 3], [1, 2, 3, 0]

    def f(A, b):
        return A @ b, (A @ b).sum() * b[:2]

    A, dA = (ldiv.coo_array((asarray(v), (row, col)), shape=(4, 4)) for v in (values, dvalues))
    args, along = (A, asarray(b)), (dA, asarray(db))
    (y, _), (dy, dz) = ldiv.jvp(f, args, along)
    np.testing.assert_allclose(np.asarray(y), values * b[col])
    np.testing.assert_allclose(np.asarray(dy), dvalues * b[col] + values * db[col])
    bars = tuple(asarray(rng.standard_normal(k) + 1j * rng.standard_normal(k)) for k in (4, 2))
    _, pullback = ldiv.vjp(f, *args)
    A_bar, b_bar = pullback(bars)
    backward = np.vdot(np.asarray(A_bar.data), dvalues) + np.vdot(np.asarray(b_bar), db)
    forward = np.vdot(np.asarray(bars[0]), np.asarray(dy)) + np.vdot(
        np.asarray(bars[1]), np.asarray(dz)
    )
    np.testing.assert_allclose(backward.real, forward.real)
    for some in ((bars[0], None), (None, bars[1])):
        whole = tuple(
            asarray(np.zeros(k, complex)) if c is None else c
            for c, k in zip(some, (4, 2), strict=True)
        )
        np.testing.assert_allclose(np.asarray(pullback(some)[1]), np.asarray(pullback(whole)[1]))
    np.testing.assert_allclose(
        np.asarray(ldiv.jvp(f, args, (None, along[1]))[1][0]), values * db[col]
    )


def test_products_through_a_solve_are_differentiable():
    a = torch.eye(4, dtype=torch.float64) * 3 + torch.arange(16.0).reshape(4, 4).double() / 16
    b, d = torch.ones(4, dtype=torch.float64), torch.arange(4.0).double()
    slope = lambda b: ldiv.jvp(lambda a: ldiv.solve(a, b), (a,), (a @ a,))[1] @ d
    np.testing.assert_allclose(torch.func.grad(slope)(b).numpy(), -d.numpy(), atol=1e-12)


@pytest.mark.parametrize(
    ("words", "call"),
    [
        ("the shape \\(3,\\) of the value", lambda x: ldiv.vjp(torch.sin, x)[1](x[:2])),
        ("the shape \\(3,\\) of its argument", lambda x: ldiv.jvp(torch.sin, (x,), (x[:2],))),
        ("a tangent, or None, for each argument", lambda x: ldiv.jvp(torch.sin, (x,), ())),
        ("at least one argument", lambda x: ldiv.vjp(torch.sin)),
    ],
)
def test_products_that_are_refused(words, call):
    with pytest.raises(ValueError, match=words):
        call(torch.ones(3))
