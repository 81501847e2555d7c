"""Polar factors, rotations, R Q, angles, Hermitian pseudoinverses: SciPy's values, derivatives."""

import mpmath
import numpy as np
import pytest
import scipy.linalg

import ldiv

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")
jax.config.update("jax_enable_x64", True)

rng = np.random.default_rng(11)
KINDS = pytest.mark.parametrize("dtype", [np.complex128, np.float64])
close = np.testing.assert_allclose


def draw(*shape, dtype=np.float64):
    x = rng.standard_normal(shape)
    return x + 1j * rng.standard_normal(shape) if dtype == np.complex128 else x


@KINDS
@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5), (1, 1), (0, 2)])
def test_values(shape, dtype):
    a = draw(*shape, dtype=dtype)
    for side in ("right", "left"):
        if 0 not in shape:
            for found, expected in zip(
                ldiv.polar(a, side), scipy.linalg.polar(a, side), strict=True
            ):
                close(found, expected, atol=1e-12)
        else:
            assert [x.shape for x in ldiv.polar(a, side)] == [
                shape,
                (shape[1],) * 2 if side == "right" else (shape[0],) * 2,
            ]
    if 0 in shape:
        return
    R, Q = ldiv.rq(a)
    close(R @ Q, a, atol=1e-12)
    close(Q @ Q.conj().T, np.eye(min(shape)), atol=1e-12)
    close(R[-R.shape[1] :], np.triu(R[-R.shape[1] :]), atol=0)
    close(ldiv.rq(a, mode="r"), R, atol=1e-12)
    b = draw(*shape, dtype=dtype)
    for found, expected in zip(
        ldiv.orthogonal_procrustes(a, b), scipy.linalg.orthogonal_procrustes(a, b), strict=True
    ):
        if shape[0] >= shape[1]:
            close(found, expected, atol=1e-11)


@KINDS
def test_products_with_q(dtype):
    a = draw(5, 3, dtype=dtype)
    for mode, c in (
        ("right", draw(2, 5)),
        ("right", draw(5)),
        ("left", draw(3, 2)),
        ("left", draw(3)),
    ):
        for more in ({}, {"conjugate": True}, {"pivoting": True}):
            found = ldiv.qr_multiply(a, c, mode, **more)
            expected = scipy.linalg.qr_multiply(a, c, mode, **more)
            assert found[0].shape == expected[0].shape
            close(abs(found[1]), abs(expected[1]), atol=1e-12)
            close(np.linalg.norm(found[0]), np.linalg.norm(expected[0]), rtol=1e-12)
            q = ldiv.qr(a, pivoting=True)[0] if "pivoting" in more else ldiv.qr(a)[0]
            q = q.conj() if "conjugate" in more else q
            close(found[0], q @ c if mode == "left" else c @ q, atol=1e-12)


@KINDS
def test_angles(dtype):
    a, b = draw(6, 2, dtype=dtype), draw(6, 3, dtype=dtype)
    close(ldiv.subspace_angles(a, b), scipy.linalg.subspace_angles(a, b), atol=1e-12)
    close(ldiv.subspace_angles(b, a), scipy.linalg.subspace_angles(a, b), atol=1e-12)
    near = a + 1e-9 * draw(6, 2)
    found = ldiv.subspace_angles(a, near)
    assert (found > 1e-11).all()  # by their sines: the cosines are 1
    with pytest.raises(ldiv.SingularMatrixError):
        ldiv.subspace_angles(np.ones((4, 2)), b[:4])
    with pytest.raises(ValueError, match="B: expected 6 rows"):
        ldiv.subspace_angles(a, b[:4])


def test_small_angles_in_fifty_digits():
    mp = mpmath.mp.clone()
    mp.dps = 50
    a, move = draw(5, 1), draw(5, 1)
    b = a + 1e-7 * move
    x, y = (mp.matrix(v.tolist()) for v in (a, b))
    cosine = (x.T * y)[0] / mp.sqrt((x.T * x)[0] * (y.T * y)[0])
    close(ldiv.subspace_angles(a, b)[0], float(mp.acos(cosine)), rtol=1e-7)


@KINDS
def test_hermitian_pseudoinverse(dtype):
    q, _ = np.linalg.qr(draw(4, 4, dtype=dtype))
    a = (q * np.array([3.0, -2.0, 1.0, 0.0])) @ q.conj().T
    a = (a + a.conj().T) / 2
    x, rank = ldiv.pinvh(a, return_rank=True)
    assert rank == 3
    close(x, scipy.linalg.pinvh(a, rtol=1e-12), atol=1e-12)
    close(x, x.conj().T, atol=0)
    with pytest.raises(ldiv.NotSymmetricError):
        ldiv.pinvh(draw(3, 3))


@pytest.mark.covering(0)
@KINDS
def test_derivatives(dtype):
    a, b = (torch.tensor(draw(4, 3, dtype=dtype), requires_grad=True) for _ in range(2))
    square = torch.tensor(draw(3, 3, dtype=dtype), requires_grad=True)

    def whole(f):
        return lambda *x: [torch.view_as_real(y) if y.is_complex() else y for y in f(*x)]

    for check in (torch.autograd.gradcheck, torch.autograd.gradgradcheck):
        assert check(whole(ldiv.polar), (a,))
        assert check(whole(lambda x: ldiv.polar(x, "left")), (square,))
        assert check(whole(ldiv.orthogonal_procrustes), (a, b))
        assert check(lambda x, y: ldiv.subspace_angles(x[:, :2], y[:, :1]), (a, b))
        assert check(lambda x: ldiv.pinvh(x + x.mH), (square,))
        assert check(whole(lambda x: (lambda R, Q: (R @ R.mH, Q.mH @ Q))(*ldiv.rq(x.mH))), (a,))


def test_equal_singular_values_are_no_obstacle():
    """The derivative of the SVD, of which the factors are made, would not exist."""
    q, _ = np.linalg.qr(draw(3, 3))
    a = torch.tensor(2 * q, requires_grad=True)
    weight = torch.tensor(draw(3, 3))
    assert torch.autograd.gradcheck(lambda a: (ldiv.polar(a)[0] * weight).sum(), (a,))
    u, s, vh = ldiv.svd(a)
    with pytest.raises(ldiv.NotDifferentiableError):
        ((u @ vh) ** 3 * weight * s).sum().backward()


def test_no_derivative():
    tall = torch.tensor(draw(4, 2) @ np.array([[1.0, 2.0], [2.0, 4.0]]), requires_grad=True)
    with pytest.raises(ldiv.NotDifferentiableError, match="rank"):
        ldiv.polar(tall)[0].sum().backward()
    wide = torch.tensor(draw(2, 4), requires_grad=True)
    with pytest.raises(ldiv.NotDifferentiableError, match="side='left'"):
        ldiv.polar(wide)[0].sum().backward()
    ldiv.polar(wide, "left")[0].sum().backward()


@pytest.mark.parametrize(
    "derivative", ["grad", pytest.param("hessian", marks=pytest.mark.exhaustive)]
)
def test_jax(derivative):
    derivative = getattr(jax, derivative)
    a = jax.numpy.asarray(draw(2, 4, 3))
    weight = jax.numpy.asarray(draw(4, 3))

    def loss(a):
        u, p = ldiv.polar(a)
        return (u * weight).sum() + (p**2).sum()

    def by_hand(a):
        u, s, vh = jax.numpy.linalg.svd(a, full_matrices=False)
        return ((u @ vh) * weight).sum() + (s**2).sum()

    found = jax.jit(jax.vmap(derivative(loss)))(a)
    close(found, jax.vmap(derivative(by_hand))(a), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("which", [(0, 1), (1, 0)])
def test_a_rotation_of_a_real_onto_a_complex_matrix(which):
    random = np.random.default_rng(0)
    real = random.standard_normal((5, 3))
    pair = [real, real + 1j * random.standard_normal((5, 3))]
    one, other = (pair[i] for i in which)
    expected, scale = scipy.linalg.orthogonal_procrustes(one, other)
    for made in (np.asarray, torch.from_numpy):
        found, size = ldiv.orthogonal_procrustes(made(one), made(other))
        np.testing.assert_allclose(np.asarray(found), expected, atol=1e-14)
        np.testing.assert_allclose(size, scale)
    tensors = [torch.from_numpy(x).requires_grad_() for x in (one, other)]
    assert torch.autograd.gradcheck(lambda *x: ldiv.orthogonal_procrustes(*x)[1], tensors)
