"""Functions of a small Hermitian matrix and their derivatives, against 60 digits, wherever its
eigenvalues lie.
"""

import functools
import itertools

import mpmath
import numpy as np
import pytest
import scipy.special

from ldiv.checker.inner import inner
from ldiv.core.rules.rule import bind
from ldiv.rules.matrix_function import Frechet, divided_differences, matrix_function

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")
jnp = jax.numpy

jax.config.update("jax_enable_x64", True)

RNG = np.random.default_rng(0)
ARRAYS = {"numpy": (np, np.asarray), "torch": (torch, torch.asarray), "jax": (jnp, jnp.asarray)}
FUNCTIONS = {  # for a namespace; for a matrix of mpmath; the m-th derivative at a number of mpmath
    "exp": (lambda xp: xp.exp, mpmath.expm, lambda x, m: mpmath.exp(x)),
    "inverse": (
        lambda xp: lambda x: 1 / x,
        mpmath.inverse,
        lambda x, m: (-1) ** m * mpmath.factorial(m) / x ** (m + 1),
    ),
    "log": (
        lambda xp: xp.log,
        mpmath.logm,
        lambda x, m: (-1) ** (m - 1) * mpmath.factorial(m - 1) / x**m if m else mpmath.log(x),
    ),
    "cube": (
        lambda xp: lambda x: x**3,
        lambda a: a * a * a,
        lambda x, m: [x**3, 3 * x**2, 6 * x, mpmath.mpf(6)][m],
    ),
}
SPECTRA = {
    "simple": [0.5, 1.1, 2.3],
    "repeated": [1.0, 1.0, 2.0],
    "the same": [1.5, 1.5, 1.5],
    **{f"{gap:g} apart": [1.0, 1.0 + gap, 2.0] for gap in (1e-15, 1e-12, 1e-8, 1e-4, 1e-2, 0.6)},
}
DTYPES = pytest.mark.parametrize("dtype", ["float64", "complex128"])
FRAMEWORKS = pytest.mark.parametrize("framework", ARRAYS)


@pytest.fixture(autouse=True)
def _digits():
    with mpmath.workdps(60):
        yield


def compiled(framework, f):
    """Compile as JAX does for a function that is used once."""
    return jax.jit(f) if framework == "jax" else f


def draw(*shape, dtype="float64"):
    x = RNG.standard_normal(shape)
    return x + 1j * RNG.standard_normal(shape) if np.dtype(dtype).kind == "c" else x


def with_spectrum(theta, dtype="float64"):
    q = np.linalg.qr(draw(len(theta), len(theta), dtype=dtype))[0]
    h = (q * np.asarray(theta)) @ q.conj().T
    return (h + h.conj().T) / 2


def error(ours, exact):
    return np.abs(np.asarray(ours) - exact).max() / np.abs(exact).max()


# -- divided differences ------------------------------------------------------


def exact_differences(derivative):
    """f[x0, ..., xm] of nodes in their order; each is computed once, as many share theirs."""

    @functools.cache
    def difference(nodes):
        m = len(nodes) - 1
        if nodes[0] == nodes[-1]:
            return derivative(nodes[0], m) / mpmath.factorial(m)
        return (difference(nodes[1:]) - difference(nodes[:-1])) / (nodes[-1] - nodes[0])

    return difference


@pytest.mark.covering(1)
@pytest.mark.parametrize("m", [3, 2, 1])
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize(
    "spectrum", [*SPECTRA.values(), [1e-6, 1e-3, 1.0, 10.0]], ids=[*SPECTRA, "wide"]
)
def test_every_divided_difference_is_right_to_twelve_digits(name, spectrum, m):
    f, _, derivative = FUNCTIONS[name]
    grid = list(itertools.product(range(len(spectrum)), repeat=m + 1))
    with mpmath.workdps(120):
        difference = exact_differences(derivative)
        exact = [
            float(difference(tuple(sorted(mpmath.mpf(spectrum[i]) for i in at)))) for at in grid
        ]
    for xp, array in ARRAYS.values():
        ours = np.asarray(divided_differences(f(xp), array(np.array(spectrum)), m)).ravel()
        assert np.abs(ours / exact - 1).max() < 1e-12


@FRAMEWORKS
def test_a_jump_between_close_eigenvalues(framework):
    """The slopes are zero everywhere, the difference is not: only the quotient sees the jump."""
    xp, array = ARRAYS[framework]
    theta = np.array([0.0, 1.0, 1.0 + 1e-5, 1.0 + 1e-5])
    ours = np.asarray(
        divided_differences(lambda x: xp.where(abs(x) < 1 + 5e-6, 1.0, 0.0), array(theta), 1)
    )
    expected = np.zeros((4, 4))
    expected[1, 2:] = expected[2:, 1] = -1 / (theta[2] - theta[1])
    expected[0, 2:] = expected[2:, 0] = -1 / theta[2]
    assert np.allclose(ours, expected, rtol=1e-13, atol=1e-12)


@FRAMEWORKS
@pytest.mark.parametrize("gap", [2e-19, 1e-15, 1e-11, 1e-8, 1e-5])
def test_a_function_that_cancels_between_close_eigenvalues(framework, gap):
    """(exp(x) - 1) / x has three digits fewer than exp at x = 1e-3, and half of them in its slope;
    a quotient would have none.
    """
    xp, array = ARRAYS[framework]
    theta = np.array([1e-3, 1e-3 + gap, 1.0])
    x, y, z = map(mpmath.mpf, theta)
    f = lambda x: mpmath.expm1(x) / x
    slope = lambda x: (mpmath.exp(x) - f(x)) / x
    pairs = [(x, x), (x, y), (x, z), (y, z)]
    exact = [float(slope(a) if a == b else (f(b) - f(a)) / (b - a)) for a, b in pairs]
    ours = np.asarray(divided_differences(lambda x: (xp.exp(x) - 1) / x, array(theta), 1))
    assert np.allclose([ours[0, 0], ours[0, 1], ours[0, 2], ours[1, 2]], exact, rtol=1e-7)


# -- functions of matrices ----------------------------------------------------


def exact_derivative(function, h, es):
    """D^m f(H)[E_1, ..], the sum over the orders of the corner of f of the matrix with H on and
    the E above its diagonal.
    """
    k, m = len(h), len(es)
    total, number = np.zeros_like(h), complex if np.iscomplexobj(h) else float
    for order in itertools.permutations(es):
        big = np.kron(np.eye(m + 1), h)
        for a, e in enumerate(order):
            big[a * k : (a + 1) * k, (a + 1) * k : (a + 2) * k] = e
        corner = function(mpmath.matrix(big))[:k, m * k :]
        total += np.array([[number(corner[i, j]) for j in range(k)] for i in range(k)])
    return total


@DTYPES
@pytest.mark.parametrize("name", ["exp", "inverse", "cube"])
@pytest.mark.parametrize("spectrum", SPECTRA.values(), ids=SPECTRA)
def test_values_and_derivatives(name, spectrum, dtype):
    f, function, _ = FUNCTIONS[name]
    h, es = with_spectrum(spectrum, dtype), [draw(3, 3, dtype=dtype) for _ in range(2)]
    for m in range(3):
        exact = exact_derivative(function, h, es[:m])
        for xp, array in ARRAYS.values():
            ours = bind(Frechet(f(xp), m), *map(array, [h, *es[:m]]))[0]
            assert error(ours, exact) < 1e-12


@DTYPES
def test_log(dtype):
    h, e = with_spectrum([1.0, 1.0 + 1e-8, 2.0], dtype), draw(3, 3, dtype=dtype)
    exact = exact_derivative(mpmath.logm, h, [e])
    for xp, array in ARRAYS.values():
        assert error(bind(Frechet(xp.log, 1), array(h), array(e))[0], exact) < 1e-12


@FRAMEWORKS
def test_constant_and_identity(framework):
    xp, array = ARRAYS[framework]
    h, e = with_spectrum([1.0, 1.0, 2.0]), draw(3, 3)
    one, itself = (lambda x: xp.ones_like(x)), (lambda x: x)
    assert np.allclose(matrix_function(one, array(h)), np.eye(3), atol=1e-12)
    assert np.allclose(matrix_function(itself, array(h)), h, atol=1e-12)
    assert np.allclose(bind(Frechet(itself, 1), array(h), array(e))[0], e, atol=1e-12)
    for f, m in ((one, 1), (one, 2), (itself, 2)):
        assert np.abs(np.asarray(bind(Frechet(f, m), array(h), *[array(e)] * m)[0])).max() < 1e-12


@FRAMEWORKS
def test_single_precision(framework):
    xp, array = ARRAYS[framework]
    h, e = with_spectrum([1.0, 1.0 + 1e-5, 2.0]), draw(3, 3)
    run = compiled(framework, lambda h, e: bind(Frechet(xp.exp, 1), h, e)[0])
    ours = run(array(h.astype("float32")), array(e.astype("float32")))
    exact = exact_derivative(mpmath.expm, h, [e])
    assert "float32" in str(ours.dtype)
    assert error(ours, exact) < 3e-5


@DTYPES
def test_the_adjoint_of_each_argument(dtype):
    h, e, g, c = with_spectrum([1.0, 1.0, 2.0], dtype), *(draw(3, 3, dtype=dtype) for _ in range(3))
    rule = Frechet(np.exp, 2)
    bars = rule.vjp((True, True, True), (c,), (), h, e, g)
    for i, bar in enumerate(bars):
        t = draw(3, 3, dtype=dtype)
        tangents = tuple(t if i == j else None for j in range(3))
        assert np.isclose(inner(bar, t), inner(c, rule.jvp(tangents, (), h, e, g)[0]), rtol=1e-12)


# -- in the frameworks --------------------------------------------------------


def four_hessians(framework, at, h, c, d, e):
    xp, fw = ARRAYS[framework][0], {"torch": torch.func, "jax": jax}[framework]

    def loss(t):
        return xp.sum(xp.real(c.conj() * matrix_function(xp.exp, h + t[0] * d + t[1] * e)))

    return [
        outer(within(loss))(at)
        for outer, within in itertools.product((fw.jacfwd, fw.jacrev), repeat=2)
    ]


compiled_hessians = jax.jit(four_hessians, static_argnums=0)  # one program for all spectra


# torch's vmap of conj inside jvp
@pytest.mark.covering(1)
@pytest.mark.filterwarnings("ignore:There is a performance drop.*_conj_physical:UserWarning")
@DTYPES
@pytest.mark.parametrize(
    "spectrum",
    [SPECTRA["simple"], SPECTRA["repeated"], SPECTRA["1e-08 apart"]],
    ids=["simple", "repeated", "close"],
)
def test_the_four_second_derivatives(spectrum, dtype):
    """L(t) = Re tr(C^H f(H + t_1 D + t_2 E)) has the Hessian Re tr(C^H D^2 f(H)[., .])."""
    h, c = with_spectrum(spectrum, dtype), draw(3, 3, dtype=dtype)
    moves = [with_spectrum(draw(3), dtype) for _ in range(2)]
    exact = [[inner(c, exact_derivative(mpmath.expm, h, [d, e])) for d in moves] for e in moves]
    for framework, found in (("torch", four_hessians), ("jax", compiled_hessians)):
        for ours in found(framework, *map(ARRAYS[framework][1], (np.zeros(2), h, c, *moves))):
            assert error(ours, np.array(exact)) < 1e-12


def test_third_derivatives():
    h, e = with_spectrum([1.0, 1.0, 2.0]), with_spectrum([0.3, 1.0, -2.0])
    exact = 6 * np.trace(e @ e @ e)
    for name, grad in (("torch", torch.func.grad), ("jax", jax.grad)):
        xp, array = ARRAYS[name]
        h_, e_ = array(h), array(e)
        loss = lambda t, h=h_, e=e_, xp=xp: xp.trace(matrix_function(lambda x: x**3, h + t * e))
        assert np.isclose(
            float(compiled(name, grad(grad(grad(loss))))(array(np.array(0.0)))), exact, rtol=1e-12
        )


def test_compiled_and_batched():
    h, e = np.stack([with_spectrum([1.0, 1.0, 2.0]), with_spectrum([0.5, 1.0, 3.0])]), draw(3, 3)
    rule = Frechet(jnp.log, 1)
    compiled = jax.jit(lambda h, e: bind(rule, h, e)[0])(h, e)
    for one, ours in zip(h, compiled, strict=True):
        assert np.allclose(ours, bind(Frechet(np.log, 1), one, e)[0], rtol=1e-12)
    hessian = jax.jit(jax.hessian(lambda h: jnp.sum(jnp.sin(matrix_function(jnp.exp, h)))))(h[0])
    one = lambda h: torch.sin(matrix_function(torch.exp, h)).sum()
    assert np.allclose(hessian, torch.func.hessian(one)(torch.asarray(h[0])), rtol=1e-11)


def test_gradcheck():
    h = torch.asarray(with_spectrum([1.0, 1.0, 2.0], "complex128")).requires_grad_()
    f = lambda h: matrix_function(lambda x: 1 / x, h)
    assert torch.autograd.gradcheck(f, h)
    assert torch.autograd.gradgradcheck(f, h)


# -- refusals -----------------------------------------------------------------


@FRAMEWORKS
def test_f_outside_its_domain(framework):
    xp, array = ARRAYS[framework]
    with (
        np.errstate(all="ignore"),
        pytest.raises(
            ValueError, match=r"f: expected finite at the eigenvalues, from -1 to 2, got NaN"
        ),
    ):
        matrix_function(xp.log, array(with_spectrum([-1.0, 1.0, 2.0])))
    with pytest.raises(
        ValueError, match="f and its derivative: expected finite at the eigenvalues, from 0 to 0"
    ):
        bind(Frechet(xp.sqrt, 1), array(np.zeros((2, 2))), array(np.eye(2)))


def test_f_outside_its_domain_in_a_trace():
    with pytest.raises(
        Exception, match="f: expected finite at the eigenvalues, from -1 to 2, got NaN"
    ):
        jax.block_until_ready(
            jax.jit(lambda h: matrix_function(jnp.log, h))(with_spectrum([-1.0, 1.0, 2.0]))
        )


@FRAMEWORKS
def test_f_that_is_not_elementwise(framework):
    xp, array = ARRAYS[framework]
    h = array(with_spectrum([0.5, 1.0, 2.0]))
    with pytest.raises(
        ValueError, match=r"f: expected an array of the shape of its argument, \(3,\), got \w+ \(\)"
    ):
        matrix_function(xp.sum, h)
    with pytest.raises(ValueError, match=r"f: expected an array .* got 1.0"):
        matrix_function(lambda x: 1.0, h)
    with pytest.raises(
        ValueError, match=r"f: expected real values at real numbers, got complex128"
    ):
        matrix_function(lambda x: x * 1j, h)


def test_numpy_finds_derivatives_of_analytic_functions_only():
    h, e = with_spectrum([0.5, 1.0, 2.0]), np.eye(3)
    with pytest.raises(
        ValueError,
        match="on NumPy arrays, whose derivatives are found in the complex plane, analytic",
    ):
        bind(Frechet(np.abs, 1), h, e)
    with pytest.raises(TypeError, match="f: expected a function of complex numbers"):
        bind(Frechet(scipy.special.ndtri, 1), h / 4, e)
