"""Sylvester's equation in one compiled call: values and gradients in twice the digits, and what is declined."""

import mpmath
import numpy as np
import pytest

import ldiv
from ldiv.engines.factors.sylvester_calls import SylvesterCalls, sylvester_calls
from ldiv.engines.libraries import native
from ldiv.structures.dense import dense
from ldiv.structures.kronecker_sum import kronecker_sum

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(native.native is None, reason=native.why_not)
DTYPES = pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])


def drawn(dtype, *shape):
    rng = np.random.default_rng(shape)
    x = rng.standard_normal(shape) + (1j * rng.standard_normal(shape) if dtype[0] == "c" else 0)
    return x.astype(dtype)


def equation(dtype, m, n, *batch):
    a, b = drawn(dtype, *batch, m, m), drawn(dtype, *batch, n, n)
    return a, b + (3 * n**0.5 * np.eye(n)).astype(dtype), drawn(dtype, *batch, m, n)


def answered(a, b, q):
    """The compiled answer and its factor; None if it is declined."""
    m, n = q.shape[-2:]
    column = np.ascontiguousarray(q).reshape(*q.shape[:-2], m * n, 1)
    found = SylvesterCalls(m, n, False).forward(a, b, column)
    return found and (found[0][0].reshape(q.shape), found[1])


def exactly(a, b, q):
    """X in 40 digits, by the linear system of its numbers, row by row."""
    m, n = q.shape
    with mpmath.workdps(40):
        system = np.kron(a, np.eye(n, dtype=a.dtype)) + np.kron(np.eye(m, dtype=a.dtype), b.T)
        x = mpmath.lu_solve(mpmath.matrix(system.tolist()), mpmath.matrix(q.ravel().tolist()))
    return np.array([complex(z) for z in x]).reshape(m, n)


@DTYPES
@pytest.mark.parametrize(("m", "n"), [(1, 1), (2, 3), (6, 5)])
def test_values(dtype, m, n):
    a, b, q = equation(dtype, m, n)
    x, _ = answered(a, b, q)
    expected = exactly(a, b, q)
    assert abs(x - expected).max() <= 300 * np.finfo(dtype).eps * abs(expected).max()
    np.testing.assert_array_equal(x, ldiv.solve_sylvester(a, b, q))


@DTYPES
@pytest.mark.parametrize(("m", "n"), [(60, 31), (31, 77), (50, 50)])
def test_triangles_that_are_split(dtype, m, n):
    a, b, q = equation(dtype, m, n)
    x, _ = answered(a, b, q)
    size = abs(a).sum(1).max() + abs(b).sum(0).max()
    assert abs(a @ x + x @ b - q).max() <= 100 * np.finfo(dtype).eps * size * abs(x).max()


@DTYPES
def test_members_and_gradients(dtype):
    """Both ways have one gradient, and a batch has that of its members."""
    a, b, q = (torch.tensor(x, requires_grad=True) for x in equation(dtype, 5, 4, 3))
    weight = torch.tensor(drawn(dtype, 3, 5, 4))
    adjoints = (y.detach().numpy().conj().mT for y in (a, b))
    lam = np.stack([exactly(*of) for of in zip(*adjoints, weight.numpy(), strict=True)])
    x = ldiv.solve_sylvester(a, b, q)
    found = torch.autograd.grad((weight.conj() * x).sum().real, (a, b, q))
    eps = np.finfo(dtype).eps
    of_x = x.detach().numpy().conj().mT
    for g, expected in zip(found, (-lam @ of_x, -of_x @ lam, lam), strict=True):
        assert abs(g.numpy() - expected).max() <= 300 * eps * abs(expected).max()


@DTYPES
def test_lyapunov(dtype):
    """A X + X A^H = Q is the equation of one more view of A, whose cotangent is seen in the same way."""
    a, _, q = (torch.tensor(x, requires_grad=True) for x in equation(dtype, 5, 5))
    part, column = dense(5, 5), (25, 1)
    structure = kronecker_sum(part, part.C)
    assert sylvester_calls(structure, "gen", "auto", False).forward(
        a, a, q.reshape(column).detach()
    )
    weight = torch.tensor(drawn(dtype, 5, 5))
    x = ldiv.solve_continuous_lyapunov(a, q)
    found = torch.autograd.grad((weight.conj() * x).sum().real, (a, q))
    one, two = a.detach().numpy(), a.detach().numpy().conj().T
    exact, lam = exactly(one, two, q.detach().numpy()), exactly(two, one, weight.numpy())
    # Q_bar = L,  A_bar = -L X^H - L^H X,  A^H L + L A = X_bar
    a_bar = -lam @ exact.conj().T - lam.conj().T @ exact
    for g, expected in ((x.detach(), exact), (found[0], a_bar), (found[1], lam)):
        assert abs(g.numpy() - expected).max() <= 300 * np.finfo(dtype).eps * abs(expected).max()


def test_the_gradient_takes_the_factor_of_the_value():
    ldiv.clear_cache()
    a, b, q = (torch.tensor(x, requires_grad=True) for x in equation("float64", 5, 4))
    torch.autograd.grad(ldiv.solve_sylvester(a, b, q).sum(), (a, b, q))
    assert ldiv.cache_info().factorizations == 1


@pytest.mark.parametrize("power", [-900, 900])
def test_units(power):
    a, b, q = equation("float64", 5, 4)
    x, t = answered(a, b, q)[0], 2.0**power
    np.testing.assert_array_equal(answered(t * a, t * b, q)[0] * t, x)
    np.testing.assert_array_equal(answered(a, b, t * q)[0] / t, x)


def test_hermitian_stays_hermitian():
    a, q = drawn("complex128", 6, 6), drawn("complex128", 6, 6)
    q = q + q.conj().T
    x, _ = answered(a, a.conj().T.copy(), q)
    np.testing.assert_array_equal(x, x.conj().T)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_what_is_declined(dtype):
    a, b, q = equation(dtype, 4, 4)
    eps = np.finfo(dtype).eps
    turned = np.linalg.qr(drawn(dtype, 4, 4))[0]
    rows = np.diag([1, 1e4, 1e-4, 1]).astype(dtype)
    for one, two, right in (
        (a, -a, q),  # eigenvalues that meet
        (a, eps * np.eye(4, dtype=dtype) - a, q),
        (0 * a, 0 * b, q),
        (turned @ np.diag([1, 2, 3, 4]).astype(dtype) @ turned.T, -np.eye(4, dtype=dtype), q),
        (rows @ a @ np.linalg.inv(rows), b, q),  # rows that differ much
        (a * np.nan, b, q),
        (a, b * np.inf, q),
        (a, b, q * np.nan),
    ):
        assert answered(one.astype(dtype), two.astype(dtype), right) is None
    assert answered(a, b, 0 * q)[0].max() == 0


def test_arguments_are_only_read():
    a, b, q = equation("float64", 5, 3)
    then = a.copy(), b.copy(), q.copy()
    for given in (a, a.T.copy().T, a[::-1][::-1]):
        x = ldiv.solve_sylvester(given, b, q)
        np.testing.assert_allclose(a @ x + x @ b, q, atol=1e-12)
    for one, other in zip((a, b, q), then, strict=True):
        np.testing.assert_array_equal(one, other)
