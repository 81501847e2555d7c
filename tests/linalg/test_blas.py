"""Products: SciPy's values, derivatives in every mode, and overwritten arrays that stay
differentiable on PyTorch.
"""

import numpy as np
import pytest
import scipy.linalg.blas

import ldiv
from ldiv import testing
from ldiv.linalg.products.blas import gemm, matmul
from ldiv.rules.gemm import Gemm, Product, Scaled
from ldiv.testing.cases import Draw

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")

jax.config.update("jax_enable_x64", True)

PREFIX = {"float32": "s", "float64": "d", "complex64": "c", "complex128": "z"}
LAYOUTS = {
    "C": np.ascontiguousarray,
    "F": np.asfortranarray,
    "read-only": lambda x: np.broadcast_to(x, x.shape),
    "strided": lambda x: np.repeat(np.repeat(x, 2, -1), 3, -2)[..., ::3, ::2],
    "reversed": lambda x: np.ascontiguousarray(x[..., ::-1])[..., ::-1],
}


def arrays(dtype="float64", m=7, k=3, n=5, trans_a=0, trans_b=0, seed=0):
    draw = Draw(dtype, seed)
    return (
        draw(),
        draw(*((m, k) if not trans_a else (k, m))),
        draw(*((k, n) if not trans_b else (n, k))),
        draw(),
        draw(m, n),
    )


def tensors(*xs, grad=True):
    return [torch.asarray(np.array(x)).requires_grad_(grad) for x in xs]


# -- values -------------------------------------------------------------------


@pytest.mark.parametrize("dtype", PREFIX)
@pytest.mark.parametrize("trans_a", [0, 1, 2])
@pytest.mark.parametrize("trans_b", [0, 1, 2])
def test_scipys_values(dtype, trans_a, trans_b):
    alpha, a, b, beta, c = arrays(dtype, trans_a=trans_a, trans_b=trans_b)
    alpha, beta = alpha[()], beta[()]
    expected = getattr(scipy.linalg.blas, PREFIX[dtype] + "gemm")(
        alpha, a, b, beta, c, trans_a, trans_b
    )
    got = gemm(alpha, a, b, beta, c, trans_a, trans_b)
    assert got.dtype == dtype
    tol = 1e-12 if dtype in ("float64", "complex128") else 1e-5
    np.testing.assert_allclose(got, expected, rtol=0, atol=tol)
    for array in (torch.asarray, jax.numpy.asarray):
        other = gemm(alpha.item(), array(a), array(b), beta.item(), array(c), trans_a, trans_b)
        np.testing.assert_allclose(np.asarray(other), expected, rtol=0, atol=tol)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(layout):
    alpha, a, b, beta, c = arrays("complex128")
    lay = LAYOUTS[layout]
    np.testing.assert_allclose(
        gemm(alpha, lay(a), lay(b), beta, lay(c)), alpha * a @ b + beta * c, atol=1e-13
    )
    out = (
        np.zeros((14, 15), complex)[::2, ::3]
        if layout == "strided"
        else np.zeros((7, 5), complex, order="F" if layout == "F" else "C")
    )
    assert matmul(lay(a), lay(b), out=out) is out
    np.testing.assert_allclose(out, a @ b, atol=1e-13)


@pytest.mark.parametrize(("m", "k", "n"), [(0, 3, 5), (7, 0, 5), (7, 3, 0), (0, 0, 0), (1, 1, 1)])
def test_zero_sizes(m, k, n):
    _, a, b, _, c = arrays(m=m, k=k, n=n)
    np.testing.assert_allclose(gemm(2.0, a, b, 3.0, c), 2 * a @ b + 3 * c, atol=1e-12)
    y, pullback = ldiv.vjp(lambda a, b, c: gemm(2.0, a, b, 3.0, c), a, b, c)
    for got, expected in zip(
        pullback(np.ones_like(y)),
        (2 * np.ones((m, n)) @ b.T, 2 * a.T @ np.ones((m, n)), 3 * np.ones((m, n))),
        strict=True,
    ):
        np.testing.assert_allclose(got, expected, atol=1e-12)


def test_batches_broadcast():
    draw = Draw("float64")
    a, b, c = draw(4, 1, 7, 3), draw(2, 3, 5), draw(4, 2, 7, 5)
    np.testing.assert_allclose(gemm(2.0, a, b, -1.0, c), 2 * a @ b - c, atol=1e-12)
    for x, y in ((draw(3), draw(3)), (draw(7, 3), draw(3)), (draw(3), draw(2, 3, 5)), (a, b)):
        np.testing.assert_allclose(matmul(x, y), x @ y, atol=1e-12)
        out = np.empty(np.shape(x @ y))
        np.testing.assert_allclose(matmul(x, y, out=out), x @ y, atol=1e-12)


def test_beta_zero_ignores_what_c_holds():
    alpha, a, b, _, c = arrays()
    bad = np.full_like(c, np.nan)
    for beta in (0, 0.0, np.array(0.0)):
        np.testing.assert_allclose(gemm(alpha, a, b, beta, bad), alpha * a @ b, atol=1e-12)
    np.testing.assert_allclose(
        gemm(float(alpha), a, b, 0.0, bad, overwrite_c=True), alpha * a @ b, atol=1e-12
    )
    t = tensors(alpha, a, b, 0.0, c)  # and the derivative at beta = 0 is that of beta
    grads = torch.autograd.grad(gemm(*t).sum(), t)
    np.testing.assert_allclose(grads[3], c.sum(), atol=1e-13)
    assert not grads[4].any()


def test_numbers():
    _, a, b, _, c = arrays()
    assert (
        gemm(1j, a, b).dtype == complex
        and gemm(np.float32(2), a.astype("f4"), b.astype("f4")).dtype == np.float32
    )
    assert (
        gemm(1j, torch.asarray(a), torch.asarray(b), 2.0, torch.asarray(c)).dtype
        == torch.complex128
    )
    assert gemm(1, jax.numpy.asarray(a), jax.numpy.asarray(b)).dtype == np.float64


# -- derivatives --------------------------------------------------------------


@pytest.mark.parametrize(("trans_a", "trans_b"), [(0, 0), (1, 0), (0, 1), (1, 1)])
@pytest.mark.parametrize(("m", "k", "n"), [(3, 3, 3), (7, 3, 5)])
def test_gradient_against_the_complex_step(m, k, n, trans_a, trans_b):
    args = arrays("float64", m, k, n, trans_a, trans_b)
    f = lambda *xs: gemm(*xs, trans_a, trans_b)
    y, pullback = ldiv.vjp(f, *args)
    w = Draw("float64", 9)(*y.shape)
    for i, got in enumerate(pullback(w)):
        for j in np.ndindex(got.shape):
            moved = [x + 0j for x in args]
            moved[i] = np.array(moved[i])
            moved[i][j] += 1e-30j
            np.testing.assert_allclose(
                got[j], (w * f(*moved).imag).sum() / 1e-30, rtol=1e-13, atol=1e-13
            )


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_gradient_against_torch(dtype):
    for trans_a in (0, 1, 2):
        for trans_b in (0, 1, 2):
            op = (lambda x: x), (lambda x: x.mT), (lambda x: x.mH)
            t = tensors(*arrays(dtype, trans_a=trans_a, trans_b=trans_b))
            w = tensors(Draw(dtype, 9)(7, 5), grad=False)[0]
            ours = torch.autograd.grad((w * gemm(*t, trans_a, trans_b)).real.sum(), t)
            theirs = torch.autograd.grad(
                (w * (t[0] * op[trans_a](t[1]) @ op[trans_b](t[2]) + t[3] * t[4])).real.sum(), t
            )
            for x, y in zip(ours, theirs, strict=True):
                torch.testing.assert_close(x, y, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_all_second_orders(framework):
    """The function is of fourth order in its arguments; all four compositions are compared."""
    fw, transforms = (torch, torch.func) if framework == "torch" else (jax.numpy, jax)
    b, c = map(fw.asarray, arrays(m=3, k=3, n=3)[2::2])

    def gradients(product):
        def loss(t):
            x = t * c + c.mT
            return (product(t, x, b, 1 - t, x * 2) ** 2).sum()

        forward = lambda f: lambda t: transforms.jvp(f, (t,), (fw.ones_like(t),))[1]
        reverse = transforms.grad
        return lambda t: fw.stack(
            [outer(inner(loss))(t) for outer in (forward, reverse) for inner in (forward, reverse)]
        )

    t = fw.asarray(0.3, dtype=fw.float64)
    compiled = jax.jit if framework == "jax" else lambda f: f
    got = compiled(gradients(lambda *x: gemm(*x, 1, 0)))(t)
    np.testing.assert_allclose(
        np.asarray(got),
        np.asarray(compiled(gradients(lambda s, x, b, r, y: s * x.mT @ b + r * y))(t)),
        rtol=1e-12,
    )
    assert abs(got - got[0]).max() < 1e-12 * abs(got[0])


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_laws_of_the_rules(dtype):
    draw = Draw(dtype, 1)
    for op_a in "NTHC":
        for op_b in "NTHC":
            a, b = (
                draw(*((3, 2) if op_a in "NC" else (2, 3))),
                draw(*((2, 4) if op_b in "NC" else (4, 2))),
            )
            testing.rule_laws(Product(op_a, op_b), (a, b))
            testing.rule_laws(Gemm(op_a, op_b), (draw(), a, b, draw(), draw(3, 4)))
            testing.rule_laws(Gemm(op_a, op_b, adds=False), (draw(), a, b))
    testing.rule_laws(Scaled(), (draw(), draw(3, 2)))


def test_jit_and_vmap():
    _, a, b, _, c = map(jax.numpy.asarray, arrays())
    f = lambda s, a: gemm(s, a, b, s, c)
    s, batch = jax.numpy.asarray([0.0, 2.0]), jax.numpy.stack([a, 2 * a])
    expected = jax.numpy.stack([f(s[0], a), f(s[1], 2 * a)])
    np.testing.assert_allclose(jax.jit(jax.vmap(f))(s, batch), expected, atol=1e-13)
    t = torch.vmap(
        lambda s, a: gemm(s, a, torch.asarray(np.array(b)), s, torch.asarray(np.array(c)))
    )
    np.testing.assert_allclose(t(*tensors(s, batch, grad=False)), expected, atol=1e-13)


# -- overwritten --------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("beta", [0.0, 0.5, "array"])
def test_overwritten_c_is_differentiable(dtype, beta):
    alpha, a, b, s, c = tensors(*arrays(dtype))
    beta, leaves = (s, [alpha, a, b, s, c]) if beta == "array" else (beta, [alpha, a, b, c])
    buffer = c.clone()
    version = buffer._version
    y = gemm(alpha, a, b, beta, buffer, overwrite_c=True)
    assert y is buffer and y._version > version
    expected = gemm(alpha, a, b, beta, c)
    torch.testing.assert_close(y, expected)
    w = torch.rand(y.shape)
    got, want = (
        torch.autograd.grad((w * z).abs().square().sum(), leaves, allow_unused=True)
        for z in (y, expected)
    )
    for x, z, leaf in zip(got, want, leaves, strict=True):
        torch.testing.assert_close(*(torch.zeros_like(leaf) if g is None else g for g in (x, z)))


def test_out_is_differentiable_where_torch_refuses():
    _, a, b, *_ = tensors(*arrays())
    with pytest.raises(RuntimeError, match="automatic differentiation"):
        torch.matmul(a, b, out=torch.empty(7, 5, dtype=torch.float64))
    out = torch.empty(7, 5, dtype=torch.float64)
    (matmul(a, b, out=out) ** 2).sum().backward()
    torch.testing.assert_close(a.grad, 2 * (a @ b) @ b.mT)


def test_ten_times_into_one_buffer():
    _, a, b, *_ = tensors(*arrays(m=3, n=3))
    out = torch.empty(3, 3, dtype=torch.float64)
    for _ in range(10):
        out = matmul(a, b, out=out.detach())
    (g,) = torch.autograd.grad(out.sum(), a)
    torch.testing.assert_close(g, torch.ones(3, 3, dtype=torch.float64) @ b.mT)
    c = torch.zeros(3, 3, dtype=torch.float64)
    for _ in range(10):
        gemm(1.0, a, b, 0.5, c, overwrite_c=True)
    (g,) = torch.autograd.grad(c.sum(), a)
    torch.testing.assert_close(
        g, sum(0.5**i for i in range(10)) * torch.ones(3, 3, dtype=torch.float64) @ b.mT
    )


def test_a_value_that_is_gone_raises_torchs_own_error():
    _, a, b, _, c = tensors(*arrays(m=3, n=3))
    buffer = c * 1
    loss = (buffer**2).sum()
    gemm(1.0, a, b, 0.5, buffer, overwrite_c=True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()
    x = a * 1
    y = matmul(x, b)
    matmul(b, b, out=x)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
    with pytest.raises(
        ValueError,
        match="out: expected a tensor that PyTorch lets us overwrite, got a leaf Variable",
    ):
        matmul(b, b, out=a)


def test_overwriting_under_torch_func():
    alpha, a, b, beta, c = tensors(*arrays(m=3, n=3), grad=False)

    def f(alpha, a, b, beta, c):
        return (gemm(alpha, a, b, beta, c * 1, overwrite_c=True) ** 2).sum()

    expected = torch.func.grad(lambda *x: (gemm(*x) ** 2).sum(), argnums=(0, 1, 2, 3, 4))(
        alpha, a, b, beta, c
    )
    for x, y in zip(
        torch.func.grad(f, argnums=(0, 1, 2, 3, 4))(alpha, a, b, beta, c), expected, strict=True
    ):
        torch.testing.assert_close(x, y)

    def aliased(a):
        x = a * 1
        return gemm(1.0, x, b, 0.0, x.view(3, 3), overwrite_c=True).sum()

    with pytest.raises(
        (RuntimeError, ValueError), match=r"modified by an inplace operation|overlap"
    ):
        torch.func.grad(aliased)(a)


@pytest.mark.parametrize("make", [np.zeros, torch.zeros], ids=["numpy", "torch"])
def test_overlapping_memory_raises(make):
    whole = make((6, 6))
    a, b = whole[:3, :3], whole[3:, 3:]
    for c in (a, whole[:3, 1:4], whole[2:5, 2:5], a.T):
        with pytest.raises(ValueError, match="overlap"):
            gemm(1.0, a, b, 0.0, c, overwrite_c=True)
        with pytest.raises(ValueError, match="overlap"):
            matmul(b, a, out=c)
    matmul(a, b, out=whole[:3, 3:])  # other columns of the same matrix are apart


def test_what_cannot_be_overwritten():
    _, a, b, _, c = arrays()
    with pytest.raises(
        TypeError,
        match=r"out: expected an array that can be overwritten, got a .*Array.*use the value returned",
    ):
        matmul(*map(jax.numpy.asarray, (a, b)), out=jax.numpy.asarray(c))
    with pytest.raises(TypeError, match="can be overwritten"):
        jax.jit(lambda a, b, c: gemm(1.0, a, b, 0.0, c, overwrite_c=True))(a, b, c)
    with pytest.raises(ValueError, match="read-only"):
        matmul(a, b, out=np.broadcast_to(c, c.shape))
    with pytest.raises(TypeError, match="float32"):
        matmul(a, b, out=c.astype("f4"))


@pytest.mark.parametrize(
    ("error", "match", "call"),
    [
        (ValueError, "Check trans_a", lambda a, b, c: gemm(1.0, a, b.T)),
        (ValueError, "none", lambda a, b, c: gemm(1.0, a, b, 1.0)),
        (ValueError, r"shape \(7, 5\)", lambda a, b, c: gemm(1.0, a, b, 1.0, c.T)),
        (ValueError, "trans", lambda a, b, c: gemm(1.0, a, b, trans_a=3)),
        (ValueError, "alpha", lambda a, b, c: gemm(np.ones(2), a, b)),
        (TypeError, "alpha", lambda a, b, c: gemm("1", a, b)),
        (TypeError, "object", lambda a, b, c: matmul(a.astype(object), b)),
        (TypeError, "framework", lambda a, b, c: matmul(jax.numpy.asarray(a), torch.asarray(b))),
        (ValueError, "ldiv.matmul", lambda a, b, c: gemm(1.0, a[0], b)),
        (ValueError, "batch", lambda a, b, c: matmul(np.zeros((2, 7, 3)), np.zeros((4, 3, 5)))),
    ],
)
def test_errors(error, match, call):
    with pytest.raises(error, match=match):
        call(*(arrays()[i] for i in (1, 2, 4)))


def test_real_and_complex_matrices_mix():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    a, b, c = (torch.tensor(rng.standard_normal((3, 3))) for _ in range(3))
    d = c + 1j * a
    np.testing.assert_allclose(ldiv.matmul(a, d), a.numpy() @ d.numpy())
    for f, args in (
        (ldiv.matmul, (a, d)),
        (lambda a, d: ldiv.gemm(1.0, a, d), (a, d)),
        (lambda a, b: ldiv.gemm(1j, a, b), (a, b)),
        (lambda a, b, d: ldiv.gemm(1.0, a, b, 2.0, d), (a, b, d)),
    ):
        assert ldiv.gradcheck(f, *args).ok
