"""Eigenpairs of unsymmetric matrices and pencils: SciPy's values, 50 digits, what has no derivative."""

import mpmath
import numpy as np
import pytest
import scipy.linalg

import ldiv

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")
jax.config.update("jax_enable_x64", True)
jnp = jax.numpy

rng = np.random.default_rng(17)
KINDS = pytest.mark.parametrize("dtype", [np.float64, np.complex128])
close = np.testing.assert_allclose


def draw(*shape, dtype=np.float64):
    x = rng.standard_normal(shape)
    return x + 1j * rng.standard_normal(shape) if dtype == np.complex128 else x


@KINDS
@pytest.mark.parametrize("n", [0, 1, 2, 7])
@pytest.mark.parametrize("pencil", [False, True])
def test_values(n, pencil, dtype):
    a, b = draw(n, n, dtype=dtype), draw(n, n, dtype=dtype) + 4 * np.eye(n) if pencil else None
    w, left, right = ldiv.eig(a, b, left=True)
    assert w.dtype == right.dtype == np.complex128
    whole = np.eye(n) if b is None else b
    close(a @ right, whole @ right * w, atol=1e-11)
    close(left.conj().T @ a, w[:, None] * (left.conj().T @ whole), atol=1e-11)
    for x in (left, right):
        close(np.linalg.norm(x, axis=0), np.ones(n), rtol=1e-12)
    if n:
        close(np.sort_complex(w), np.sort_complex(scipy.linalg.eigvals(a, b)), atol=1e-11)
    close(ldiv.eigvals(a, b), w, atol=0)
    single = a.astype(np.complex64 if dtype == np.complex128 else np.float32)
    assert ldiv.eigvals(single).dtype == np.complex64


def test_derivatives_in_fifty_digits():
    mp = mpmath.mp.clone()
    mp.dps = 50
    a, move = draw(4, 4), draw(4, 4)
    w, v = ldiv.eig(a)
    h = mp.mpf(10) ** -15

    def pair(sign, j):
        """The pair by Rayleigh's iteration, with the phase of v_j."""
        m = mp.matrix(a.tolist()) + sign * h * mp.matrix(move.tolist())
        value, x = mp.mpmathify(complex(w[j])), mp.matrix([complex(z) for z in v[:, j]])
        y = x
        for _ in range(6):
            shifted = m - (value + mp.mpf(10) ** -30) * mp.eye(4)
            y = mp.lu_solve(shifted, y)
            y = y / mp.norm(y)
            value = (m * y)[0] / y[0]
        inner = sum(mp.conj(x[i]) * y[i] for i in range(4))
        return value, y * (abs(inner) / inner)

    _, (dw, dv) = torch.func.jvp(ldiv.eig, (torch.tensor(a),), (torch.tensor(move),))
    for j in range(4):
        (up, x), (down, y) = pair(1, j), pair(-1, j)
        assert abs(complex((up - down) / (2 * h)) - dw[j].item()) < 1e-11
        expected = [complex((x[i] - y[i]) / (2 * h)) for i in range(4)]
        close(dv[:, j], expected, atol=1e-10)


@pytest.mark.covering(1)
@KINDS
@pytest.mark.parametrize("pencil", [False, True])
def test_derivatives(pencil, dtype):
    a = torch.tensor(draw(4, 4, dtype=dtype), requires_grad=True)
    args = (a, torch.tensor(draw(4, 4, dtype=dtype) + 4 * np.eye(4), requires_grad=True))
    args = args if pencil else args[:1]
    weight = torch.tensor(draw(4, 4) + 0j)

    def values(*args):
        return torch.view_as_real(ldiv.eigvals(*args))

    def vectors(*args):  # whatever their phases
        _, left, right = ldiv.eig(*args, left=True)
        return [((weight @ x).abs() ** 2) for x in (left, right)]

    for f in (values, vectors):
        assert torch.autograd.gradcheck(f, args, check_forward_ad=True)
        assert torch.autograd.gradgradcheck(f, args)


def test_the_first_derivative_is_torchs():
    a = torch.tensor(draw(5, 5), requires_grad=True)
    weight = torch.tensor(draw(5, 5) + 0j)

    def loss(eig):
        w, v = eig(a)
        return (w.abs() ** 3).sum() + ((weight @ v).abs() ** 4 * w.real).sum()

    (mine,), (theirs,) = (torch.autograd.grad(loss(f), a) for f in (ldiv.eig, torch.linalg.eig))
    torch.testing.assert_close(mine, theirs, rtol=1e-9, atol=1e-9)


def test_jax():
    a = jnp.asarray(draw(3, 4, 4))

    def loss(a):
        w, v = ldiv.eig(a)
        return (jnp.abs(w) ** 2).sum() + (jnp.abs(v) ** 4 * jnp.abs(w)).sum()

    found = jax.jit(jax.vmap(jax.grad(loss)))(a)
    t = torch.tensor(np.asarray(a), requires_grad=True)
    w, v = ldiv.eig(t)
    ((w.abs() ** 2).sum() + (v.abs() ** 4 * w.abs()[:, None, :]).sum()).backward()
    close(found, t.grad, rtol=1e-9, atol=1e-10)


def test_what_has_no_derivative():
    def slope(a, loss):
        a = torch.tensor(a, requires_grad=True)
        loss(*ldiv.eig(a)).backward()
        return a.grad

    general = np.array([[0.0, 1, 0.3], [-4, 0.2, 1], [0.5, 0, 1]])
    with pytest.raises(ldiv.NotDifferentiableError, match="phase of eigenvector"):
        slope(general, lambda w, v: ((v.real**2) * torch.arange(9.0).reshape(3, 3)).sum())
    repeated = np.array([[2.0, 0, 1], [0, 2, 1], [0, 0, 5]])
    with pytest.raises(ldiv.NotDifferentiableError, match="single eigenvalues of a repeated"):
        slope(repeated, lambda w, v: w[0].real)
    close(slope(repeated, lambda w, v: w.sum().real), np.eye(3), atol=1e-12)
    for defective in (np.array([[1.0, 1], [0, 1]]), np.array([[1.0, 1], [1e-17, 1]])):
        with pytest.raises(ldiv.NotDifferentiableError, match=r"defective|repeated"):
            slope(defective, lambda w, v: w[0].real)
    near = np.array([[1.0, 1], [1e-6, 1]])  # a gap of 2e-3
    close(slope(near, lambda w, v: w.real.max())[1, 0], 500, rtol=1e-6)


def test_bad_arguments():
    with pytest.raises(ValueError, match="homogeneous_eigvals"):
        ldiv.eig(np.eye(2), homogeneous_eigvals=True)
    with pytest.raises(ldiv.SingularMatrixError):
        ldiv.eig(np.eye(2), np.zeros((2, 2)))
    with pytest.raises(ValueError, match=r"b: expected shape \(..., 2, 2\)"):
        ldiv.eig(np.eye(2), np.eye(3))
    with pytest.raises(TypeError, match="eigsh"):
        ldiv.eig(ldiv.eye_array(3))


@pytest.mark.parametrize("dtype", ["float64", "complex64"])
def test_the_gradient_of_a_member_with_nan_is_nan(dtype):
    torch = pytest.importorskip("torch")
    a = np.random.default_rng(0).standard_normal((3, 4, 4)).astype(dtype)
    a[1, 2, 3] = np.nan
    a = torch.tensor(a, requires_grad=True)
    with ldiv.errstate(singular="nan"):
        (bar,) = torch.autograd.grad(abs(ldiv.eigvals(a)).sum(), a)
    assert bar.isnan().any(dim=(1, 2)).tolist() == [False, True, False]
