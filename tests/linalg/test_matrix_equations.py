"""Sylvester, Lyapunov, Stein and Riccati equations: values, derivatives in 50 digits, refusals."""

from functools import partial

import mpmath
import numpy as np
import pytest
import scipy.linalg

import ldiv

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")
jax_test = pytest.importorskip("jax.test_util")
jax.config.update("jax_enable_x64", True)
jnp = jax.numpy

mp = mpmath.mp.clone()
mp.dps = 50
rng = np.random.default_rng(7)
KINDS = pytest.mark.parametrize("dtype", [np.float64, np.complex128])
LINEAR = {
    "sylvester": (ldiv.solve_sylvester, lambda a, b, x: a @ x + x @ b, 3),
    "continuous": (ldiv.solve_continuous_lyapunov, lambda a, x: a @ x + x @ a.H, 2),
    "discrete": (ldiv.solve_discrete_lyapunov, lambda a, x: x - a @ x @ a.H, 2),
}


def draw(*shape, dtype=np.float64):
    x = rng.standard_normal(shape)
    return x + 1j * rng.standard_normal(shape) if dtype == np.complex128 else x


def definite(n, dtype=np.float64):
    x = draw(n, n, dtype=dtype)
    x = x @ x.conj().T + np.eye(n)
    return (x + x.conj().T) / 2


def arguments(name, n, m, dtype=np.float64):
    if name == "sylvester":
        return draw(n, n, dtype=dtype), draw(m, m, dtype=dtype) + 3 * np.eye(m), draw(n, m)
    return draw(n, n, dtype=dtype), draw(n, n)


def exactly(name, *args):
    """X in 50 digits: the linear system of all its numbers."""
    *matrices, q = (mp.matrix(x.tolist()) for x in args)
    apply = LINEAR[name][1]
    n, m = q.rows, q.cols
    system = mp.matrix(n * m, n * m)
    for j in range(n * m):
        unit = mp.matrix(n, m)
        unit[j // m, j % m] = 1
        column = apply(*matrices, unit)
        for i in range(n * m):
            system[i, j] = column[i // m, i % m]
    x = mp.lu_solve(system, mp.matrix([q[i // m, i % m] for i in range(n * m)]))
    return np.array(x.tolist()).reshape(n, m)


@KINDS
@pytest.mark.parametrize("name", LINEAR)
def test_values(name, dtype):
    args = arguments(name, 4, 3, dtype)
    expected = exactly(name, *args)
    found = LINEAR[name][0](*args)
    assert np.iscomplexobj(found) == (dtype == np.complex128)
    np.testing.assert_allclose(found, expected.astype(dtype), rtol=0, atol=1e-12)
    single = [x.astype(np.complex64 if np.iscomplexobj(x) else np.float32) for x in args]
    rough = LINEAR[name][0](*single)
    assert rough.dtype == (np.complex64 if dtype == np.complex128 else np.float32)
    np.testing.assert_allclose(rough, found, rtol=0, atol=1e-2 * abs(found).max())


@KINDS
@pytest.mark.parametrize("name", LINEAR)
def test_forms_of_hermitian_matrices_are_diagonal(name, dtype):
    """Both matrices Hermitian, and one of two; the adjoint equation, too."""
    a, q = definite(4, dtype) / 20, draw(4, 4, dtype=dtype)
    pairs = [(a,)] if name != "sylvester" else [(a, definite(4, dtype)), (a, draw(4, 4))]
    for matrices in pairs:
        expected = exactly(name, *matrices, q).astype(dtype)
        found = LINEAR[name][0](*matrices, q)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13 * abs(expected).max())
        gradient = ldiv.vjp(LINEAR[name][0], *matrices, q)[1](np.ones_like(found))[-1]
        adjoint = exactly(name, *(x.conj().T for x in matrices), np.ones((4, 4)))
        np.testing.assert_allclose(gradient, adjoint.astype(dtype), rtol=0, atol=1e-12)


@pytest.mark.parametrize("n", [1, 2, 70, 131])
@pytest.mark.parametrize("name", LINEAR)
@KINDS
def test_blocks_of_every_size(name, dtype, n):
    """Triangles are split, and blocks of order 2 of real Schur forms are not."""
    *matrices, q = arguments(name, n, n // 2 + 1, dtype)
    x = LINEAR[name][0](*matrices, q)
    views = [np.asarray(a).view(_Matrix) for a in matrices]
    residual = LINEAR[name][1](*views, x) - q
    size = max(abs(a).sum(1).max() for a in matrices) ** (2 if name == "discrete" else 1)
    assert abs(residual).max() < 1e-13 * size * abs(x).max() + 1e-14


class _Matrix(np.ndarray):
    @property
    def H(self):
        return self.conj().T


@pytest.mark.parametrize("name", ["continuous", "discrete"])
@KINDS
def test_hermitian_stays_hermitian(name, dtype):
    a, q = draw(9, 9, dtype=dtype), definite(9, dtype)
    x = LINEAR[name][0](a, q)
    np.testing.assert_array_equal(x, x.conj().T)


def test_what_meets_is_named():
    with pytest.raises(ldiv.SingularMatrixError, match="eigenvalues 2 of A and -2 of B, whose sum"):
        ldiv.solve_sylvester(np.diag([1.0, 2.0]), np.diag([-2.0, 5.0]), np.ones((2, 2)))
    turn = np.array([[0.0, 1.0], [-1.0, 0.0]])
    with pytest.raises(
        ldiv.SingularMatrixError, match=r"of A and [+0]*-?1j of B, whose sum is zero"
    ):
        ldiv.solve_continuous_lyapunov(turn, np.eye(2))
    with pytest.raises(
        ldiv.SingularMatrixError, match=r"2 of A and 0.5 of B, whose product is one"
    ):
        ldiv.solve_discrete_lyapunov(np.diag([2.0, 0.5]), np.eye(2))
    with pytest.raises(Exception, match="whose product is one"):
        jax.jit(ldiv.solve_discrete_lyapunov)(jnp.diag(jnp.array([2.0, 0.5])), jnp.eye(2))


def test_eigenvalues_far_apart_are_not_called_reciprocal():
    """0.5 times 0.5 is one only within the rounding of 1e200; a norm of 1e320 has no place."""
    with pytest.raises(ldiv.SingularMatrixError, match=r"one within the rounding .*, 2\.2e\+184"):
        ldiv.solve_discrete_lyapunov(np.diag([1e100, 0.5]), np.eye(2))
    with pytest.raises(ldiv.SingularMatrixError, match=r"zero within the rounding .*, 4\.4e\+144"):
        ldiv.solve_continuous_lyapunov(np.diag([1e160, 0.5]), np.eye(2))
    with pytest.raises(ldiv.LinAlgOverflowError, match="norm of the equation"):
        ldiv.solve_discrete_lyapunov(np.diag([1e160, 0.5]), np.eye(2))


def test_bad_arguments():
    a, q = np.eye(3), np.ones((3, 2))
    with pytest.raises(ValueError, match=r"q: expected shape \(..., 3, 3\), got \(3, 2\)"):
        ldiv.solve_continuous_lyapunov(a, q)
    with pytest.raises(ValueError, match=r"a: .*square"):
        ldiv.solve_sylvester(q, a, q)
    with pytest.raises(ValueError, match=r"NaN|finite"):
        ldiv.solve_sylvester(a, np.eye(2), q * np.nan)
    with pytest.raises(TypeError, match="dense array"):
        ldiv.solve_sylvester(ldiv.eye_array(3), np.eye(2), q)
    with pytest.raises(ValueError, match="method"):
        ldiv.solve_discrete_lyapunov(a, a, method="doubling")


@pytest.mark.parametrize("name", LINEAR)
@KINDS
def test_derivatives_in_torch(name, dtype):
    args = [torch.tensor(x, requires_grad=True) for x in arguments(name, 3, 2, dtype)]
    assert torch.autograd.gradcheck(LINEAR[name][0], args, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(LINEAR[name][0], args)


def test_one_pair_of_schur_forms(monkeypatch):
    """The value, its gradient and the derivative of that use one pair of Schur forms of SciPy, of which
    Lyapunov's are one; the compiled call of value and gradient has forms of its own.
    """
    calls, schur = [], scipy.linalg.schur

    def counted(*args, **kwargs):
        calls.append(args)
        return schur(*args, **kwargs)

    monkeypatch.setattr(scipy.linalg, "schur", counted)
    a, b, q = (torch.tensor(x, requires_grad=True) for x in arguments("sylvester", 5, 4))
    x = ldiv.solve_sylvester(a, b, q)
    (slope,) = torch.autograd.grad((x**2).sum(), a, create_graph=True)
    torch.autograd.grad((slope**2).sum(), (a, b, q))
    assert len(calls) == 2
    a, q = (torch.tensor(x, requires_grad=True) for x in arguments("continuous", 5, 5))
    x = ldiv.solve_continuous_lyapunov(a, q)
    (slope,) = torch.autograd.grad((x**2).sum(), a, create_graph=True)
    torch.autograd.grad((slope**2).sum(), (a, q))
    assert len(calls) == 3


@pytest.mark.parametrize("order", [1, pytest.param(2, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("name", LINEAR)
def test_jax(name, order):
    args = [jnp.asarray(x) for x in arguments(name, 3, 2)]
    solve = LINEAR[name][0]

    def loss(*args):
        return (solve(*args) ** 2).sum()

    batch = [jnp.stack([x, 1.5 * x, 2 * x]) for x in args]
    expected = jnp.stack([loss(*(x[i] for x in batch)) for i in range(3)])
    np.testing.assert_allclose(jax.jit(jax.vmap(loss))(*batch), expected, rtol=1e-10)
    jax_test.check_grads(loss, args, order=order, rtol=1e-5)


# -- Riccati ----------------------------------------------------------------------


def newton(kind, a, b, q, r, x):
    """The Riccati equation in 50 digits, from its solution in double precision."""
    a, b, q, r, x = (mp.matrix(m.tolist()) for m in (a, b, q, r, x))
    for _ in range(5):
        if kind == "continuous":
            k = mp.inverse(r) * b.H * x
            loop, apply = a - b * k, lambda f, x: f.H * x + x * f
            right = -(q + k.H * r * k)
        else:
            k = mp.inverse(r + b.H * x * b) * b.H * x * a
            loop, apply = a - b * k, lambda f, x: x - f.H * x * f
            right = q + k.H * r * k
        n = a.rows
        system = mp.matrix(n * n, n * n)
        for j in range(n * n):
            unit = mp.matrix(n, n)
            unit[j // n, j % n] = 1
            column = apply(loop, unit)
            for i in range(n * n):
                system[i, j] = column[i // n, i % n]
        x = mp.lu_solve(system, mp.matrix([right[i // n, i % n] for i in range(n * n)]))
        x = mp.matrix(np.array(x.tolist()).reshape(n, n).tolist())
    return np.array(x.tolist()).reshape(n, n)


RICCATI = {
    "continuous": (ldiv.solve_continuous_are, scipy.linalg.solve_continuous_are),
    "discrete": (ldiv.solve_discrete_are, scipy.linalg.solve_discrete_are),
}


@pytest.mark.parametrize("kind", RICCATI)
def test_riccati_in_fifty_digits(kind):
    solve = RICCATI[kind][0]
    args = draw(3, 3), draw(3, 2), definite(3), definite(2)
    moves = draw(3, 3), draw(3, 2), definite(3), definite(2)
    x = solve(*args)
    np.testing.assert_allclose(x, newton(kind, *args, x).astype(float), rtol=1e-9)
    h = mp.mpf(10) ** -12
    sides = []
    for sign in (1, -1):
        moved = [np.vectorize(mp.mpf)(m) + sign * h * d for m, d in zip(args, moves, strict=True)]
        sides.append(newton(kind, *moved, x))
    expected = ((sides[0] - sides[1]) / (2 * h)).astype(float)
    tensors = tuple(map(torch.tensor, args))
    _, found = ldiv.jvp(solve, tensors, tuple(map(torch.tensor, moves)))
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-9)


@pytest.mark.covering(1)
@KINDS
@pytest.mark.parametrize("kind", RICCATI)
def test_riccati_with_all_its_terms(kind, dtype):
    solve, scipys = RICCATI[kind]
    args = draw(4, 4, dtype=dtype), draw(4, 2, dtype=dtype), definite(4, dtype), definite(2, dtype)
    e, s = draw(4, 4, dtype=dtype) + 4 * np.eye(4), 0.1 * draw(4, 2, dtype=dtype)
    for more in ({}, {"e": e}, {"s": s}, {"e": e, "s": s}):
        x = solve(*args, **more)
        np.testing.assert_allclose(x, scipys(*args, **more), rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(x, x.conj().T, rtol=0, atol=0)
    tensors = [torch.tensor(x, requires_grad=True) for x in (*args, e, s)]

    def of_hermitian_parts(a, b, q, r, e, s):
        return solve(a, b, (q + q.mH) / 2, (r + r.mH) / 2, e, s)

    assert torch.autograd.gradcheck(of_hermitian_parts, tensors, fast_mode=True)
    assert torch.autograd.gradgradcheck(partial(_without_terms, solve), tensors[:4], fast_mode=True)


def _without_terms(solve, a, b, q, r):
    return solve(a, b, (q + q.mH) / 2, (r + r.mH) / 2)


@pytest.mark.parametrize("order", [1, pytest.param(2, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("kind", RICCATI)
def test_riccati_in_jax(kind, order):
    solve = RICCATI[kind][0]
    a, b, q, r = (jnp.asarray(x) for x in (draw(3, 3), draw(3, 1), definite(3), definite(1)))

    def cost(a):
        return jnp.trace(solve(a, b, q, r))

    jax_test.check_grads(cost, (a,), order=order, rtol=1e-4)
    both = jnp.stack([a, 2 * a])
    expected = jnp.stack([cost(a), cost(2 * a)])
    np.testing.assert_allclose(jax.jit(jax.vmap(cost))(both), expected, rtol=1e-9)


def test_no_stabilizing_solution():
    eye, turn = np.eye(2), np.array([[0.0, 1.0], [-1.0, 0.0]])
    with pytest.raises(ldiv.SingularMatrixError, match="no stabilizing solution"):
        ldiv.solve_continuous_are(eye, np.zeros((2, 1)), eye, np.eye(1))
    with pytest.raises(ldiv.SingularMatrixError, match="no stabilizing solution"):
        ldiv.solve_continuous_are(turn, np.array([[0.0], [1.0]]), 0 * eye, np.eye(1))
    with pytest.raises(ldiv.SingularMatrixError, match="no stabilizing solution"):
        ldiv.solve_discrete_are(2 * eye, np.zeros((2, 1)), eye, np.eye(1))
    # R has no inverse
    for solve in (ldiv.solve_continuous_are, ldiv.solve_discrete_are):
        with pytest.raises(ldiv.SingularMatrixError, match="no stabilizing solution"):
            solve(eye, np.ones((2, 1)), eye, np.zeros((1, 1)))
    with ldiv.errstate(singular="nan"):
        x = ldiv.solve_continuous_are(eye, eye, eye, np.stack([np.ones((2, 2)), eye]))
    np.testing.assert_allclose(x[1], (1 + np.sqrt(2)) * eye)
    assert np.isnan(x[0]).all()
    with pytest.raises(ValueError, match="q: expected a Hermitian matrix"):
        ldiv.solve_continuous_are(eye, eye, np.array([[1.0, 2.0], [0.0, 1.0]]), eye)
    with pytest.raises(ValueError, match=r"r: expected shape \(..., 1, 1\), got \(2, 2\)"):
        ldiv.solve_continuous_are(eye, np.ones((2, 1)), eye, eye)


@pytest.mark.parametrize("solve", [s for s, _ in RICCATI.values()])
def test_batches(solve):
    a, b, q, r = draw(2, 1, 3, 3), draw(3, 2), definite(3), definite(2)
    x = solve(a, b, np.stack([q, 2 * q, 3 * q]), r)
    assert x.shape == (2, 3, 3, 3)
    np.testing.assert_allclose(x[1, 2], solve(a[1, 0], b, 3 * q, r), rtol=1e-12)
