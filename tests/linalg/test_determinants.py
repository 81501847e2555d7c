"""Traces, quadratic forms and determinants against closed formulas and 50 digits, in every form,
framework, mode and order.
"""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
import scipy.sparse as sp

import ldiv
from ldiv import structures
from ldiv.checker.inner import inner
from ldiv.checker.loss import transforms
from ldiv.core.frameworks.dispatch import asnumpy
from ldiv.testing.cases import Draw
from ldiv.testing.distance import assert_close, difference
from ldiv.testing.frontend import _second

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")
jax.config.update("jax_enable_x64", True)
mpmath.mp.dps = 50

DTYPES = ("float64", "complex128")
ALL = {"float32": 2e-4, "float64": 1e-11, "complex64": 2e-4, "complex128": 1e-11}


def factor(dtype, n, seed, *batch):
    """A lower triangle with noise above it, which nobody may read."""
    return Draw(dtype, seed)(*batch, n, n) / max(n, 1) ** 0.5 + 2 * np.eye(n, dtype=dtype)


def lower(L):
    """The matrix of the lower triangle."""
    return ldiv.Matrix(structures.Triangular(L.shape[-1], True), L)


def upper(L):
    """The matrix of the lower triangle, kept as its upper adjoint U."""
    return ldiv.Matrix(structures.Triangular(L.shape[-1], False), L.conj().mT).H


def plain(L):
    L = (
        L.tril()
        if isinstance(L, torch.Tensor)
        else (np if isinstance(L, np.ndarray) else jax.numpy).tril(L)
    )
    return L @ L.conj().mT


MAKE = {
    "plain": plain,
    "gram": ldiv.Gram,
    "triangle times its adjoint": lambda L: lower(L) @ lower(L).H,
    "upper triangles": lambda L: upper(L) @ upper(L).H,
    "gram of an upper triangle": lambda L: ldiv.Gram(upper(L)),
}
FORMS = [(a, a) for a in MAKE] + [
    ("plain", "gram"),
    ("gram", "plain"),
    ("triangle times its adjoint", "gram"),
]


def expected(L1, L2):
    """t = tr((L2 L2^H)^-1 L1 L1^H) with its cotangents, by dense inverses."""
    L1, L2 = np.tril(L1), np.tril(L2)
    inverse = np.linalg.inv(L2 @ L2.conj().mT)
    dB, dA = inverse, -inverse @ L1 @ L1.conj().mT @ inverse
    return (
        np.trace(inverse @ L1 @ L1.conj().mT, axis1=-2, axis2=-1),
        np.tril(2 * dB @ L1),
        np.tril(2 * dA @ L2),
    )


@pytest.mark.parametrize("batch", [(), (2,)], ids=["one", "batch"])
@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize(("a", "b"), FORMS)
def test_the_forms_agree_in_value_and_gradient(a, b, dtype, batch):
    L1, L2 = factor(dtype, 5, 1, *batch), factor(dtype, 5, 2)
    value, *gradients = expected(L1, L2)
    assert_close("NumPy", ldiv.trace_solve(MAKE[a](L2), MAKE[b](L1)), value, ALL[dtype])
    x = [torch.tensor(L, requires_grad=True) for L in (L1, L2)]
    t = ldiv.trace_solve(MAKE[a](x[1]), MAKE[b](x[0]))
    assert_close("torch", t.detach(), value, ALL[dtype])
    for name, g, L, e in zip(
        ("L1", "L2"), torch.autograd.grad(t.real.sum(), x), x, gradients, strict=True
    ):
        assert_close(name, g.tril(), e if e.ndim == L.ndim else e.sum(0), 4 * ALL[dtype])
        assert not g.triu(1).any()


@pytest.mark.parametrize("n", [0, 1, 2, 5, 33, 140, 300])
def test_sizes_and_the_other_triangle_is_not_read(n):
    L1, L2 = factor("float64", n, 1), factor("float64", n, 2)
    value, *gradients = expected(L1, L2)
    for L in (L1, L2):
        L[np.triu_indices(n, 1)] = np.nan
    x = [torch.tensor(L, requires_grad=True) for L in (L1, L2)]
    t = ldiv.trace_solve(ldiv.Gram(x[1]), ldiv.Gram(x[0]))
    assert_close("value", t.detach(), value)
    for g, e in zip(torch.autograd.grad(t, x), gradients, strict=True):
        assert_close("gradient", g, e, 1e-11)


def others(array, draw):
    """Forms without a factor, with dense A and B for the formula."""
    n = 6
    a, b, u, v, d = draw(n, n) + 5 * np.eye(n), draw(n, n), draw(n, 2), draw(n, 2), draw(n) + 4
    S, T = sp.csc_array(a * (abs(a) > 0.7)), sp.csc_array(b * (abs(b) > 0.7))
    T.eliminate_zeros()
    D = ldiv.Matrix(structures.Diagonal(n), array(d))
    wide = draw(n, n + 2)
    sparse = [ldiv.csc_array((array(M.data), M.indices, M.indptr), shape=M.shape) for M in (S, T)]
    yield "dense", array(a), array(b), a, b
    yield "low rank", array(a), ldiv.LowRank(array(u), array(v)), a, u @ v.conj().T
    yield "sparse", *sparse, S.toarray(), T.toarray()
    yield (
        "sparse and low rank",
        sparse[0],
        ldiv.LowRank(array(u), array(v)),
        S.toarray(),
        u @ v.conj().T,
    )
    yield "diagonal", D, array(b), np.diag(d), b
    yield "dense and diagonal", array(a), D, a, np.diag(d)
    yield "gram of a rectangle", array(a), ldiv.Gram(array(u), lower=None), a, u @ u.conj().T
    yield (
        "gram of a wide one",
        ldiv.Gram(array(wide), lower=None),
        array(b),
        wide @ wide.conj().T,
        b,
    )
    yield "an adjoint", ldiv.Matrix(structures.Dense(n, n), array(a)).H, array(b), a.conj().T, b


@pytest.mark.parametrize(
    ("array", "dtype"),
    [
        (np.asarray, "float64"),
        (np.asarray, "complex128"),
        (torch.tensor, "float64"),
        (torch.tensor, "complex128"),
        (jax.numpy.asarray, "float64"),
    ],
)
def test_other_structures(array, dtype):
    for name, A, B, a, b in others(array, Draw(dtype, 4)):
        assert_close(name, asnumpy(ldiv.trace_solve(A, B)), np.trace(np.linalg.solve(a, b)), 1e-12)


@pytest.mark.parametrize("dtype", DTYPES)
def test_gradients_of_other_structures(dtype):
    """The cotangents of the parameters are right: <p_bar, dp> is the derivative of the value along
    dp.
    """
    draw = Draw(dtype, 5)
    for name, A, B, *_ in others(torch.tensor, Draw(dtype, 4)):
        A, B = (
            x if isinstance(x, ldiv.Matrix) else ldiv.Matrix(structures.Dense(*x.shape), x)
            for x in (A, B)
        )
        p, spec = torch.utils._pytree.tree_flatten((A.params, B.params))
        dp = [torch.tensor(draw(*x.shape)) for x in p]

        def value(p, A=A, B=B, spec=spec):
            pa, pb = torch.utils._pytree.tree_unflatten(list(p), spec)
            return ldiv.trace_solve(ldiv.Matrix(A.structure, pa), ldiv.Matrix(B.structure, pb)).real

        slope = inner(
            tuple(g.numpy() for g in torch.func.grad(value)(tuple(p))), tuple(d.numpy() for d in dp)
        )
        numbers = difference(
            lambda q: np.asarray(value([torch.tensor(x) for x in q])),
            tuple(x.numpy() for x in p),
            tuple(d.numpy() for d in dp),
        )
        assert_close(name, slope, numbers, 1e-8)


def test_lazy_and_stride_zero_cotangents():
    """The gradient of a trace and of a sum; expanded arguments."""
    L1, L2 = (torch.tensor(factor("float64", 5, seed)) for seed in (1, 2))
    _, by_L1, _ = expected(L1.numpy(), L2.numpy())

    def of_a_trace(L1):
        return torch.trace(ldiv.solve(ldiv.Gram(L2), L1.tril() @ L1.tril().mT))

    def of_a_sum(L1):
        return ldiv.trace_solve(ldiv.Gram(L2), ldiv.Gram(L1.expand(3, 5, 5))).sum() / 3

    def of_a_product(L1):
        return (ldiv.solve_triangular(L2, L1.tril(), lower=True) ** 2).sum()

    for f in (of_a_trace, of_a_sum, of_a_product):
        assert_close(f.__name__, torch.func.grad(f)(L1), by_L1)
    M = torch.eye(5, dtype=torch.float64)[0, 0].expand(5, 5)  # strides 0
    A = torch.tensor(plain(L2.numpy()))
    assert_close("stride 0", ldiv.trace_solve(A, M), np.linalg.solve(A, M).trace())
    loss = torch.func.grad(lambda b: ldiv.solve_triangular(L2, b, lower=True).sum())(L1)
    assert_close("of a sum", loss, np.linalg.solve(np.tril(L2).T, np.ones((5, 5))))


# -- every mode and order -----------------------------------------------------


def _exact_trace(x):
    return sum((mpmath.inverse(x[0]) * x[1])[i, i] for i in range(x[0].rows)).real


def _exact_form(x):
    return (x[1].H * mpmath.inverse((x[0] + x[0].H) / 2) * x[1])[0].real


def _exact_grams(x):
    low = [mpmath.matrix(m.rows, m.rows) for m in x]
    for m, l in zip(x, low, strict=True):
        for i in range(m.rows):
            for j in range(i + 1):
                l[i, j] = m[i, j]
    q = mpmath.inverse(low[0]) * low[1]
    return mpmath.fsum(abs(z) ** 2 for z in q)


LOSSES = {
    "trace": (lambda x: ldiv.trace_solve(x[0], x[1]).real, _exact_trace, 4),
    "grams": (lambda x: ldiv.trace_solve(ldiv.Gram(x[0]), ldiv.Gram(x[1])), _exact_grams, 4),
    "form": (
        lambda x: ldiv.quad_form((x[0] + x[0].conj().mT) / 2, x[1], assume_a="her")[..., 0],
        _exact_form,
        1,
    ),
    "logdet": (lambda x: ldiv.slogdet(x[0])[1], lambda x: mpmath.log(abs(mpmath.det(x[0]))), 4),
    "det": (lambda x: ldiv.det(x[0]).real, lambda x: mpmath.det(x[0]).real, 4),
    "sign": (
        lambda x: ldiv.slogdet(x[0])[0].real,
        lambda x: (lambda d: d.real / abs(d))(mpmath.mpmathify(mpmath.det(x[0]))),
        4,
    ),
}


# JAX compiles for seconds what is written for all frameworks at once: once there for each rule
RUNS = [("torch", name, dtype) for name in LOSSES for dtype in DTYPES] + [
    ("jax", name, "float64") for name in ("grams", "logdet")
]


@pytest.mark.parametrize(("framework", "name", "dtype"), RUNS)
def test_all_modes_and_orders(framework, name, dtype):
    loss, exact, k = LOSSES[name]
    draw, fw, h = Draw(dtype, 9), transforms(framework), mpmath.mpf(10) ** -15
    x, d, e = (
        [draw(4, 4) + shift * np.eye(4), draw(4, k) + shift * np.eye(4, k)] for shift in (4, 0, 0)
    )

    def along(s, t):
        return exact(
            [
                mpmath.matrix((a).tolist())
                + s * mpmath.matrix(b.tolist())
                + t * mpmath.matrix(c.tolist())
                for a, b, c in zip(x, d, e, strict=True)
            ]
        )

    first = (along(h, 0) - along(-h, 0)) / (2 * h)
    second = (along(h, h) - along(h, -h) - along(-h, h) + along(-h, -h)) / (4 * h * h)
    at, one, two = ([fw.array(v) for v in vs] for vs in (x, d, e))
    assert_close("value", float(loss(at)), float(along(0, 0)), 1e-12)
    assert_close("tangent", float(fw.jvp(loss, (at,), (one,))[1]), float(first), 1e-11)
    assert_close(
        "cotangent",
        inner(tuple(map(asnumpy, fw.gradient(loss, at))), tuple(d)),
        float(first),
        1e-11,
    )
    for mode, value in _second(fw, loss, at, one, two).items():
        assert_close(mode, float(value), float(second), 1e-10)
    many = [fw.array(np.stack([v, 2 * v])) for v in x]
    assert_close(
        "vmap",
        asnumpy(fw.vmap(loss)(many)),
        np.array([float(loss(at)), float(loss([2 * v for v in at]))]),
        1e-11,
    )


# -- costs, inputs, errors ----------------------------------------------------


def test_a_hermitian_form_takes_one_factorization_and_one_solve():
    S, x = (
        torch.tensor(v, requires_grad=True)
        for v in (plain(factor("float64", 6, 1)), Draw("float64", 2)(6))
    )
    q = ldiv.quad_form(S, x, assume_a="pos")
    S_bar, x_bar = torch.autograd.grad(q, (S, x))
    info = ldiv.cache_info()
    assert (info.factorizations, info.solves) == (1, 1)
    S, x = S.detach().numpy(), x.detach().numpy()
    y = np.linalg.solve(S, x)
    assert_close("q", q.detach(), x @ y)
    assert_close("S_bar", S_bar, -np.outer(y, y))
    assert_close("x_bar", x_bar, 2 * y)


def test_a_general_form_takes_one_solve_more():
    A, x = (
        torch.tensor(v, requires_grad=True)
        for v in (factor("complex128", 6, 1), Draw("complex128", 2)(6, 3))
    )
    q = ldiv.quad_form(A, x)
    assert q.shape == (3,)
    torch.autograd.grad(q.real.sum(), (A, x))
    assert ldiv.cache_info()[1] == 1
    assert ldiv.cache_info().solves == 2
    a, b = A.detach().numpy(), x.detach().numpy()
    assert_close("q", q.detach(), np.einsum("ik,ik->k", b.conj(), np.linalg.solve(a, b)))


@pytest.mark.parametrize("n", [0, 1, 2, 5, 33])
@pytest.mark.parametrize("dtype", ALL)
def test_determinants_of_all_sizes(dtype, n):
    a = factor(dtype, n, 1) + 0
    s, l = ldiv.slogdet(a)
    for got, theirs in zip((s, l), np.linalg.slogdet(a), strict=True):
        assert_close("slogdet", got, theirs, ALL[dtype])
    assert_close("det", ldiv.det(a) / np.linalg.det(a), 1, ALL[dtype] * 10)
    S = plain(a)
    for more in ({"assume_a": "pos"}, *([{}] if dtype[0] == "f" else [])):
        assert_close("logdet", ldiv.logdet(S, **more), np.linalg.slogdet(S)[1], ALL[dtype] * 10)
    assert_close(
        "quad_form",
        ldiv.quad_form(S, np.ones(n, dtype), assume_a="pos"),
        np.linalg.solve(S, np.ones(n)).sum().real,
        ALL[dtype],
    )


def test_logdet_of_structures():
    L = factor("float64", 6, 3)
    S = plain(L)
    sparse = ldiv.csc_array(
        (sp.csc_array(S).data, sp.csc_array(S).indices, sp.csc_array(S).indptr), shape=S.shape
    )
    for A, more in ((ldiv.Gram(L), {}), (sparse, {"assume_a": "pos"}), (S, {})):
        assert_close("logdet", ldiv.logdet(A, **more), np.linalg.slogdet(S)[1])
    x = torch.tensor(L, requires_grad=True)
    (g,) = torch.autograd.grad(ldiv.logdet(ldiv.Gram(x)), x)
    assert_close("on the triangle", g, np.diag(2 / np.diagonal(L)))


def test_layouts_and_read_only():
    L1, L2 = factor("complex128", 5, 1), factor("complex128", 5, 2)
    value = expected(L1, L2)[0]
    strided, locked = np.zeros((10, 15), complex)[::2, ::3], L2.copy()
    strided[...] = L1
    locked.flags.writeable = False
    for one in (np.asfortranarray(L1), L1.T.copy().T, strided):
        assert_close("Gram", ldiv.trace_solve(ldiv.Gram(locked), ldiv.Gram(one)), value)
        assert_close("plain", ldiv.trace_solve(plain(locked), np.asfortranarray(plain(one))), value)
    assert_close(
        "conj",
        ldiv.trace_solve(
            ldiv.Gram(torch.tensor(L2).conj()), ldiv.Gram(torch.tensor(L1).mH.mH.conj())
        ),
        value,
    )


def test_the_derivatives_of_numpy():
    """The pullback is at hand if one rule is applied."""
    A, x, y_bar = plain(factor("float64", 5, 1)), Draw("float64", 2)(5, 2), np.array([1.0, -2.0])
    q, pullback = ldiv.vjp(lambda A, x: ldiv.quad_form(A, x, assume_a="pos"), A, x)
    A_bar, x_bar = pullback(y_bar)
    y = np.linalg.solve(A, x)
    assert_close("q", q, (x * y).sum(0))
    assert_close("A_bar", A_bar, -(y * y_bar) @ y.T)
    assert_close("x_bar", x_bar, 2 * y * y_bar)
    batch = np.stack([A, 2 * A])
    (_, l), pullback = ldiv.vjp(ldiv.slogdet, batch)
    assert_close("A_bar", pullback((None, np.ones(2)))[0], np.linalg.inv(batch).mT)
    assert l.shape == (2,)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("jvp", [torch.func.jvp, jax.jvp])
def test_forward_mode_of_a_scaled_update(jvp, times, dtype):
    """dq = -y^H dS y,  S = 2 I + c^times L L^H: the two halves of the update are c^times L and L^H."""
    (L, dL), x = Draw(dtype, 1)(2, 6, 2), Draw(dtype, 2)(6)
    c, dc = np.array(0.7), np.array(0.3)
    array = torch.as_tensor if jvp is torch.func.jvp else jax.numpy.asarray

    def form(c, L):
        S = ldiv.Gram(L, lower=None)
        for _ in range(times):
            S = c * S
        S = 2.0 * ldiv.eye_array(6, dtype=dtype, like=L) + S
        assert ldiv.explain(S, array(x), assume_a="pos").engine == "woodbury"
        return ldiv.quad_form(S, array(x), assume_a="pos")

    S = 2 * np.eye(6) + c**times * L @ L.conj().T
    half = times * c ** (times - 1) * dc / 2 * L + c**times * dL
    y = np.linalg.solve(S, x)
    q, dq = jvp(form, (array(c), array(L)), (array(dc), array(dL)))
    np.testing.assert_allclose(asnumpy(q), (x.conj() @ y).real, rtol=1e-12)
    expected = -2 * (y.conj() @ half @ L.conj().T @ y).real
    np.testing.assert_allclose(asnumpy(dq), expected, rtol=1e-11)


def test_errors():
    A, L = np.eye(3), np.diag([1.0, 0.0, 2.0])
    with pytest.raises(ldiv.SingularMatrixError):
        ldiv.trace_solve(ldiv.Gram(L), ldiv.Gram(A))
    with pytest.raises(ldiv.SingularMatrixError):
        ldiv.trace_solve(np.ones((3, 3)), A)
    with pytest.raises(ValueError, match="shape"):
        ldiv.trace_solve(A, np.eye(4))
    with pytest.raises(ValueError, match="square"):
        ldiv.trace_solve(A, np.ones((3, 2)))
    with pytest.raises(ValueError, match="batch"):
        ldiv.trace_solve(np.stack([A] * 2), np.stack([A] * 3))
    with pytest.raises(ValueError, match="positive"):
        ldiv.logdet(-A)
    with pytest.raises(ldiv.NotPositiveDefiniteError):
        ldiv.logdet(-A, assume_a="pos")
    with pytest.raises(ValueError, match="positive"):
        ldiv.logdet(-ldiv.eye_array(3))
    with pytest.raises(ValueError, match="x"):
        ldiv.quad_form(A, np.ones(4))
    for bad in (np.nan, np.inf):
        with pytest.raises(ValueError, match=r"NaN|finite|infinit"):
            ldiv.slogdet(np.full((3, 3), bad))


def test_a_singular_matrix_has_a_determinant_and_no_derivative():
    x = torch.ones(3, 3, dtype=torch.float64, requires_grad=True)
    s, l = ldiv.slogdet(x)
    assert [y.item() for y in (ldiv.det(x), s, l)] == [0.0, 0.0, -np.inf]
    with pytest.raises(ldiv.SingularMatrixError):
        torch.autograd.grad(l, x)


def test_logdet_of_complex_definite_matrices():
    rng = np.random.default_rng(0)
    for n in (1, 4, 30):
        a = rng.standard_normal((n, n)) + 1j * rng.standard_normal((n, n))
        a = a @ a.conj().T + np.eye(n)
        np.testing.assert_allclose(ldiv.logdet(a), ldiv.logdet(a, assume_a="pos"), rtol=1e-12)
    with pytest.raises(ValueError, match='assume_a="pos"'):
        ldiv.logdet(1j * np.eye(3))


def test_infinity_is_refused_in_a_gram_matrix():
    with pytest.raises(ValueError, match="finite"):
        ldiv.trace_solve(ldiv.Gram(np.diag([np.inf, 1.0])), ldiv.Gram(np.eye(2)))
    with pytest.raises(ValueError, match="finite"):
        ldiv.gaussian_kl(np.eye(2), np.array([[np.inf, 0], [0, 1.0]]))


def test_a_real_distribution_has_no_complex_points():
    m, L = np.array([1j, 0]), np.eye(2)
    for call in (
        lambda: ldiv.gaussian_logpdf(m, L),
        lambda: ldiv.gaussian_logpdf(L[0], L, mean=m),
        lambda: ldiv.gaussian_kl(L, L, mean1=m),
    ):
        with pytest.raises(TypeError, match="complex L"):
            call()
    assert np.isfinite(ldiv.gaussian_kl(L, L + 0j, mean1=m))
    with pytest.raises(ValueError, match="mean1"):
        ldiv.gaussian_kl(L, np.stack([L, L]), mean1=np.ones((5, 2)))


@pytest.mark.parametrize("name", ["logdet", "slogdet", "det"])
@pytest.mark.parametrize("assume_a", ["sym", "her", "pos"])
def test_a_promise_of_symmetry_is_looked_at(name: str, assume_a: str) -> None:
    f = getattr(ldiv, name)
    a, symmetric = np.array([[4.0, 1.0], [3.0, 5.0]]), np.array([[4.0, 1.0], [1.0, 5.0]])
    for to in (np.asarray, torch.asarray, ldiv.asarray):
        with pytest.raises(ldiv.NotSymmetricError):
            f(to(a), assume_a=assume_a)
        found = f(to(symmetric), assume_a=assume_a)
        assert np.allclose(found[1] if name == "slogdet" else found, EXPECTED[name])


EXPECTED = {"logdet": np.log(19.0), "slogdet": np.log(19.0), "det": 19.0}
