"""Riccati equations in any units: errors within condition times eps, values, tangents and verdicts;
the same for the equations of Lyapunov and Stein.
"""

import mpmath
import numpy as np
import pytest
import scipy.linalg

import ldiv

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")
jax.config.update("jax_enable_x64", True)

mp = mpmath.mp.clone()
mp.dps = 100  # its LU compares with norms, in units that spread over 36 decades
EPS = np.finfo(float).eps
SOLVERS = {
    "continuous": (ldiv.solve_continuous_are, ldiv.solve_continuous_lyapunov),
    "discrete": (ldiv.solve_discrete_are, ldiv.solve_discrete_lyapunov),
}
KINDS = pytest.mark.parametrize("kind", SOLVERS)


def equation(seed, complex_):
    """A, B, Q, R of orders up to 3 and 2, Q and R definite, in units of every spread."""
    rng = np.random.default_rng(seed)
    n, m = rng.integers(1, 4), rng.integers(1, 3)

    def draw(*shape):
        x = rng.standard_normal(shape)
        return x + 1j * rng.standard_normal(shape) if complex_ else x

    def definite(n):
        x = draw(n, n)
        return x @ x.conj().T + np.eye(n) / 10

    a, b, q, r = draw(n, n), draw(n, m), definite(n), definite(m)
    family = seed % 4
    if family == 0:  # Q small beside R, or nothing
        q *= rng.choice([0, 10 ** rng.uniform(-30, 0)])
    elif family == 1:
        r *= 10 ** rng.uniform(-10, 10)
    elif family == 2:
        b *= 10 ** rng.uniform(-8, 6)
    elif family == 3:
        t, d = (10 ** rng.uniform(-9, 9, k) for k in (n, m))
        a, b = a * t / t[:, None], b * d / t[:, None]
        q, r = q * t * t[:, None], r * d * d[:, None]
    q, r = ((x + x.conj().T) / 2 for x in (q, r))
    return a, b, q, r, rng


def exact(x):
    return mp.matrix(x.tolist())


def closed_loop(kind, a, b, r, x):
    """K, and A - B K."""
    if kind == "continuous":
        k = mp.inverse(r) * (b.H * x)
    else:
        k = mp.inverse(r + b.H * x * b) * (b.H * x * a)
    return k, a - b * k


def linear(kind, loop):
    """The equation in dX as a matrix."""
    n = loop.rows

    def kron(a, b):
        cells = range(n * n)
        return mp.matrix([[a[i // n, j // n] * b[i % n, j % n] for j in cells] for i in cells])

    one = mp.eye(n)
    if kind == "continuous":
        return -(kron(loop.H, one) + kron(one, loop.T))
    return mp.eye(n * n) - kron(loop.H, loop.T)


def solved(matrix, right):
    n = right.rows
    x = mp.lu_solve(matrix, mp.matrix([right[i // n, i % n] for i in range(n * n)]))
    return mp.matrix([[x[n * i + j] for j in range(n)] for i in range(n)])


def reference(kind, a, b, q, r, start):
    """Kleinman's steps from a solution in double precision, to 80 digits."""
    a, b, q, r, x = map(exact, (a, b, q, r, start))
    for _ in range(20):
        k, loop = closed_loop(kind, a, b, r, x)
        before, x = x, solved(linear(kind, loop), q + k.H * r * k)
        if mp.mnorm(x - before, 1) <= mp.mpf(10) ** -40 * mp.mnorm(x, 1):
            return x
    raise AssertionError("no reference")


def tangent(kind, a, b, r, x, da, db, dq, dr):
    a, b, r, da, db, dq, dr = map(exact, (a, b, r, da, db, dq, dr))
    k, loop = closed_loop(kind, a, b, r, x)
    half = (x if kind == "continuous" else loop.H * x) * (da - db * k)
    return solved(linear(kind, loop), half + half.H + dq + k.H * dr * k)


def floats(x):
    return np.array(x.tolist(), complex).reshape(x.rows, x.cols)


def bound(kind, a, b, q, r, x):
    """|dX| for changes of all entries of A, B, Q and R by 1, relatively: condition times X."""
    k, loop = closed_loop(kind, *map(exact, (a, b, r)), x)
    inverse = mp.inverse(linear(kind, loop))
    k, inner = abs(floats(k)), abs(floats(x if kind == "continuous" else loop.H * x))
    n, half = len(a), inner @ (abs(a) + abs(b) @ k)
    change = half + half.T + k.T @ abs(r) @ k + abs(q)
    return (abs(floats(inverse)) @ change.ravel()).reshape(n, n)


def errors(found, expected):
    difference = exact(found) - expected
    return np.array(
        [[float(abs(difference[i, j])) for j in range(len(found))] for i in range(len(found))]
    )


def seeds(count, complex_):
    return [
        pytest.param(seed, complex_, marks=() if seed < 8 else pytest.mark.exhaustive)
        for seed in range(count)
    ]


@KINDS
@pytest.mark.parametrize(("seed", "complex_"), seeds(200, False) + seeds(60, True))
def test_errors_are_condition_times_eps(kind, seed, complex_):
    *args, rng = equation(seed, complex_)
    found = SOLVERS[kind][0](*args)
    x = reference(kind, *args, found)
    scale = bound(kind, *args, x)
    assert (errors(found, x) <= 30 * EPS * (scale + abs(floats(x)))).all()
    moves = [v * rng.standard_normal(v.shape) for v in args]
    moves[2:] = [(v + v.conj().T) / 2 for v in moves[2:]]
    _, slope = ldiv.jvp(
        SOLVERS[kind][0], tuple(map(torch.tensor, args)), tuple(map(torch.tensor, moves))
    )
    a, b, _, r = args
    exact_slope = tangent(kind, a, b, r, x, *moves)
    condition = 1 + (scale / np.maximum(abs(floats(x)), EPS * scale + 1e-300)).max()
    assert (errors(slope.numpy(), exact_slope) <= 1e3 * condition * EPS * scale).all()


def test_small_q_beside_r():
    """The published scalar: x from the equation for q = 0, whose other root does not stabilize."""
    a, b, q, r = (np.full((1, 1), v) for v in (-3.4, 0.42, 1e-9, 1.4))
    np.testing.assert_allclose(ldiv.solve_discrete_are(a, b, q, r), 83.809523810618, rtol=1e-13)


UNITS = (1e-12, 1.0, 1e9)


@KINDS
@pytest.mark.parametrize("form", ["numpy", "torch", "jit"])
def test_units_change_no_verdict(kind, form):
    solve = SOLVERS[kind][0]
    a, b, q, r, rng = equation(5, False)
    a, b, q, r = rng.standard_normal((3, 3)), rng.standard_normal((3, 2)), np.eye(3), np.eye(2)
    t, d = np.array([1e-8, 1.0, 1e7]), np.array([1e6, 1e-5])
    x, weight = solve(a, b, q, r), rng.standard_normal((3, 3))
    for c in UNITS:
        args = (a * t / t[:, None], b * d / t[:, None], c * np.diag(t * t), c * np.diag(d * d))
        back = c * t * t[:, None]

        def loss(solve, a, b, q, r, w=weight / back):
            return (solve(a, b, q, r) * w).sum()

        if form == "numpy":
            np.testing.assert_allclose(solve(*args), x * back, rtol=1e-9)
            continue
        if form == "torch":
            leaves = [torch.tensor(v, requires_grad=True) for v in args]
            loss(solve, *leaves, w=torch.tensor(weight / back)).backward()
            slopes = [v.grad.numpy() for v in leaves]
        else:
            slopes = jax.jit(jax.grad(lambda *v: loss(solve, *v), argnums=(0, 1, 2, 3)))(*args)
        _, pullback = ldiv.vjp(solve, a, b, q, r)
        in_own = pullback(weight)
        units = (t[:, None] / t, t[:, None] / d, 1 / back, 1 / (c * d * d[:, None]))
        for slope, own, unit in zip(slopes, in_own, units, strict=True):
            np.testing.assert_allclose(slope / unit, own, rtol=1e-7, atol=1e-9 * abs(own).max())


@KINDS
def test_linear_equations_in_mixed_units(kind):
    rng = np.random.default_rng(3)
    solve = SOLVERS[kind][1]
    a, q, t = rng.standard_normal((4, 4)), np.eye(4), np.array([1e-9, 1e-2, 1e4, 1e9])
    x = solve(a, q)
    found = solve(a * t[:, None] / t, q * t * t[:, None])
    np.testing.assert_allclose(found / t / t[:, None], x, rtol=1e-10, atol=1e-12 * abs(x).max())


@KINDS
def test_single_precision_is_rounded_once(kind):
    *args, _ = equation(8, False)
    args = [v.astype(np.float32) for v in args]
    found = SOLVERS[kind][0](*args)
    assert found.dtype == np.float32
    expected = SOLVERS[kind][0](*(v.astype(np.float64) for v in args))
    np.testing.assert_array_equal(found, expected.astype(np.float32))


@KINDS
@pytest.mark.parametrize("size", [1e-12, 1.0, 1e12])
def test_what_cannot_be_stabilized_is_refused_in_any_units(kind, size):
    """An unstable mode that no input reaches; a mode on the boundary that Q does not see."""
    solve, eye = SOLVERS[kind][0], np.eye(2)
    with pytest.raises(ldiv.SingularMatrixError, match="no stabilizing solution"):
        solve(np.diag([2.0, 0.5]), np.array([[0.0], [size]]), size * eye, np.eye(1))
    boundary = np.diag([0.0, -1.0]) if kind == "continuous" else np.diag([1.0, 0.5])
    with pytest.raises(ldiv.SingularMatrixError, match="no stabilizing solution"):
        solve(boundary, size * np.ones((2, 1)), size * np.diag([0.0, 1.0]), np.eye(1))


@KINDS
@pytest.mark.parametrize("seed", range(4))
def test_states_that_nobody_sees(kind, seed):
    """X is zero there, and SciPy's for the other states alone."""
    rng = np.random.default_rng(seed)
    n, seen = 12, rng.permutation(12) < 8
    c, b, r = rng.standard_normal((2, n)), rng.standard_normal((n, 3)), 1e3 * np.eye(3)
    a = rng.standard_normal((n, n)) * np.where(seen, 10, 1) - np.diag(rng.uniform(5, 50, n))
    a[:, ~seen] *= np.eye(n)[:, ~seen]
    a = a if kind == "continuous" else a / (2 * abs(np.linalg.eigvals(a)).max())
    x = SOLVERS[kind][0](a, b, (c * seen).T @ (c * seen), r)
    own = np.ix_(seen, seen)
    scipys = getattr(scipy.linalg, f"solve_{kind}_are")
    expected = scipys(a[own], b[seen], c[:, seen].T @ c[:, seen], r)
    np.testing.assert_allclose(x[own], expected, rtol=1e-8, atol=1e-10 * abs(expected).max())
    np.testing.assert_allclose(x[~seen], 0, atol=1e-15 * abs(expected).max())


@pytest.mark.parametrize("eps", [1.0, 1e-4, 1e-8])
def test_equations_with_known_solutions(eps):
    """Examples of the collections CAREX and DAREX of Benner, Laub and Mehrmann (1995)."""
    one, q, r = np.eye(1), np.array([[9.0, 6.0], [6.0, 4.0]]), np.sqrt(1 + eps**2)
    a, b = np.array([[4.0, 3.0], [-4.5, -3.5]]), np.array([[1.0], [-1.0]])
    shift, last = np.diag(np.ones(19), 1), np.eye(20)[:, -1:]
    small, second = np.array([[0.0, eps], [0.0, 0.0]]), np.array([[0.0], [1.0]])
    of_21 = np.diag([1.0, -2.0]), np.array([[eps], [0.0]]), np.ones((2, 2)), one
    x_21 = [[(1 + r) / eps**2, 1 / (2 + r)], [1 / (2 + r), (1 - (eps / (2 + r)) ** 2) / 4]]
    root = np.sqrt(1 + 2 * eps)
    for solve, args, x in (
        (ldiv.solve_continuous_are, (a, b, q, one), (1 + np.sqrt(2)) * q),
        (ldiv.solve_continuous_are, of_21, x_21),
        (ldiv.solve_continuous_are, (small, second, np.eye(2), one), [[root / eps, 1], [1, root]]),
        (ldiv.solve_discrete_are, (a, b, q, eps * one), (1 + np.sqrt(1 + 4 * eps)) / 2 * q),
        (ldiv.solve_discrete_are, (small, second, np.eye(2), one), np.diag([1, 1 + eps**2])),
        (ldiv.solve_discrete_are, (shift, last, np.eye(20), one), np.diag(np.arange(1.0, 21))),
    ):
        np.testing.assert_allclose(solve(*args), x, rtol=1e-9, atol=1e-13)
