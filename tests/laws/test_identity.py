"""Factor, and put together again: the derivative of <W, A> is W, and its second derivative is 0.

The factors move with A, and all that they add cancels: to rounding of what is summed, which is how
large a cotangent of a vector may be whose loss depends on no phase and no basis.
"""

import numpy as np
import pytest

import ldiv

torch = pytest.importorskip("torch")
DTYPES = [torch.float32, torch.float64, torch.complex64, torch.complex128]


def hermitian(a):
    return (a + a.mH) / 2


def permuted(p, l, u):
    return p @ l @ u


def by_inverse(w, v):
    return v @ torch.diag_embed(w) @ torch.linalg.inv(v)


def by_solve(w, v):
    return torch.linalg.solve(v.mH, (v * w[..., None, :]).mH).mH


def by_left(w, u, v):
    return (v * (w / (u.conj() * v).sum(-2))[..., None, :]) @ u.mH


def of_pairs(w, x):
    return (x * w[..., None, :]) @ x.mH


def of_triplets(u, s, vh):
    return (u * s[..., None, :]) @ vh


FACTORS = {
    "eig": lambda a: by_inverse(*ldiv.eig(a)),
    "eig, solved": lambda a: by_solve(*ldiv.eig(a)),
    "eig, left": lambda a: by_left(*ldiv.eig(a, left=True)),
    "eigh": lambda a: of_pairs(*ldiv.eigh(hermitian(a))),
    "svd": lambda a: of_triplets(*ldiv.svd(a)),
    "qr": lambda a: torch.matmul(*ldiv.qr(a, mode="economic")),
    "rq": lambda a: torch.matmul(*ldiv.rq(a, mode="economic")),
    "lu": lambda a: permuted(*ldiv.lu(a)),
    "polar": lambda a: torch.matmul(*ldiv.polar(a)),
    "schur": lambda a: (lambda t, z: z @ t @ z.mH)(*ldiv.schur(a, "complex")),
    "cholesky": lambda a: (lambda l: l @ l.mH)(ldiv.cholesky(hermitian(a))),
    "ldl": lambda a: (lambda l, d, _: l @ d @ l.mH)(*ldiv.ldl(hermitian(a))),
    "inv": lambda a: ldiv.inv(ldiv.inv(a)),
    "expm": lambda a: ldiv.logm(ldiv.expm(a / 8)) * 8,
    "sqrtm": lambda a: ldiv.sqrtm(a) @ ldiv.sqrtm(a),
}
OF_HERMITIAN = ("eigh", "cholesky", "ldl")
TALL = ("svd", "qr", "polar")


def draw(n, dtype, rows=0, seed=0):
    """Eigenvalues from 1 to n, singular values apart, vectors of modest condition."""
    torch.manual_seed(seed + n)
    x, _ = torch.linalg.qr(torch.randn(n, n, dtype=dtype))
    a = x * torch.arange(1, n + 1) @ x.mH + 0.2 * torch.randn(n, n, dtype=dtype) / n**0.5
    return torch.cat([a, torch.randn(rows, n, dtype=dtype)]) if rows else a


def derivatives(f, a):
    """W, the gradient of <W, f(A)>, and the second derivative along D, over |W| |D| / |A|."""
    a = a.requires_grad_()
    weight, along = torch.randn_like(a), torch.randn_like(a)
    (g,) = torch.autograd.grad((f(a) * weight.conj()).sum().real, a, create_graph=True)
    (h,) = torch.autograd.grad((g * along.conj()).sum().real, a)
    return weight, g.detach(), h * (a.norm() / (weight.norm() * along.norm())).detach()


def check(name, n, dtype):
    for rows in (0, 1) if name in TALL else (0,):
        weight, g, h = derivatives(FACTORS[name], draw(n, dtype, rows))
        if name in OF_HERMITIAN:
            weight = hermitian(weight)
        allowed = 2e3 * n * torch.finfo(dtype).eps
        assert (g - weight).norm() <= allowed * weight.norm(), (rows, dtype)
        assert h.norm() <= 10 * allowed, (rows, dtype)


@pytest.mark.parametrize("name", FACTORS)
def test_first_derivative_is_w_and_second_is_zero(name):
    for n in (1, 2, 4):
        for dtype in DTYPES:
            check(name, n, dtype)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", FACTORS)
def test_up_to_thirty(name):
    for n in (3, 7, 15, 30):
        for dtype in DTYPES:
            check(name, n, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_trace_of_eigenvalues(dtype):
    for n in (1, 2, 6):
        a = draw(n, dtype).requires_grad_()
        (g,) = torch.autograd.grad(ldiv.eigvals(a).sum().real, a, create_graph=True)
        (h,) = torch.autograd.grad(g.real.sum(), a)
        eps = torch.finfo(dtype).eps
        torch.testing.assert_close(g.detach(), torch.eye(n, dtype=dtype), atol=300 * eps, rtol=0)
        assert abs(h).max() <= 1e3 * eps


def test_batches_and_every_order_of_modes():
    func = torch.func
    a = torch.stack([draw(3, torch.complex128, seed=i) for i in range(2)])
    parts = torch.view_as_real(a)
    weight = torch.randn_like(a[0]).conj()
    for name in ("eig", "svd"):

        def loss(x, f=FACTORS[name]):
            return (f(torch.view_as_complex(x)) * weight).sum().real

        for inner in (func.jacrev, func.jacfwd):
            for outer in (func.jacrev, func.jacfwd):
                h = func.vmap(outer(inner(loss)))(parts)
                assert abs(h).max() <= 1e-10, (name, inner, outer)
        h = func.jacrev(func.jacrev(loss))(parts)
        assert abs(h).max() <= 1e-10, name


@pytest.mark.parametrize("name", ["svd", pytest.param("eig", marks=pytest.mark.exhaustive)])
def test_jax(name):
    """The gradient of sum |a|^2, where one of the factors a is put together again: 2 conj(a), and 2
    conj(D).
    """
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    a, along = draw(2, torch.complex128).numpy(), 1 - 2j

    def whole(a):
        if name == "svd":
            return of_triplets(*ldiv.svd(a))
        w, v = ldiv.eig(a)
        return v * w @ jax.numpy.linalg.inv(v)

    def loss(a):
        return (whole(a) * a.conj()).sum().real

    def both(a):
        g, pull = jax.vjp(jax.grad(loss), a)
        return g, pull(along + 0 * a)[0]

    g, h = jax.jit(both)(a)
    np.testing.assert_allclose(g, 2 * a.conj(), atol=1e-13)
    np.testing.assert_allclose(h, 0 * a + 2 * along.conjugate(), atol=1e-12)


def test_loss_that_depends_on_a_phase_is_still_refused():
    """Im(v_k)^2 = 0 and Re(v_k) = |v_k|, where LAPACK has made the largest v_k real."""
    a = draw(4, torch.complex128).requires_grad_()
    for part in (lambda x: x.imag**2, lambda x: x.real):
        _, v = ldiv.eig(a)
        (g,) = torch.autograd.grad(part(v[abs(v[:, 0]).argmax(), 0]), a, create_graph=True)
        with pytest.raises(ldiv.NotDifferentiableError, match="phase"):
            torch.autograd.grad((g * torch.randn_like(g)).sum().real, a)
    u, _, _ = ldiv.svd(a)
    with pytest.raises(ldiv.NotDifferentiableError, match="phase"):
        torch.autograd.grad((u.real**2).sum(), a)


@pytest.mark.parametrize("dtype", DTYPES)
def test_equal_singular_values(dtype):
    """U V^H is smooth there; of U diag(s) V^H the cotangents of its factors do not say how it moves."""
    torch.manual_seed(0)
    a = torch.linalg.qr(torch.randn(4, 4, dtype=dtype))[0]
    polar = derivatives(lambda a: ldiv.polar(a)[0], a.clone())
    torch.manual_seed(1)
    weight = torch.randn(4, 4, dtype=dtype)
    a = a.requires_grad_()

    def slope(f):
        return torch.autograd.grad((f(a) * weight.conj()).sum().real, a)[0]

    found = slope(lambda a: (lambda u, s, vh: u @ vh)(*ldiv.svd(a)))
    expected = slope(lambda a: ldiv.polar(a)[0])
    assert (found - expected).norm() <= 100 * torch.finfo(dtype).eps * polar[0].norm()
    with pytest.raises(ldiv.NotDifferentiableError, match="spectral_function"):
        slope(lambda a: of_triplets(*ldiv.svd(a)))


def test_matrices_without_rows():
    for name in ("eig", "eigh", "svd", "qr", "lu", "polar", "schur", "inv"):
        for shape in ((0, 0), (3, 0, 0), (0, 2, 2)):
            a = torch.zeros(shape, dtype=torch.float64, requires_grad=True)
            (g,) = torch.autograd.grad(FACTORS[name](a).real.sum(), a, create_graph=True)
            assert g.shape == a.shape, name
    a = torch.zeros(0, 0, dtype=torch.float64)
    assert torch.func.grad(lambda a: ldiv.eigvals(a).real.sum())(a).shape == (0, 0)
