"""f(A) of any square matrix: values and derivatives against 50 digits, and what is refused."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
import torch

import ldiv

RNG = np.random.default_rng(8)
A = RNG.standard_normal((4, 4)) / 2 + 3 * np.eye(4)
E, G = RNG.standard_normal((2, 4, 4))
C = A + 0.5j * E


def by_eigenvalues(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """f(A) = V f(Lambda) V^-1 of a matrix of mpmath."""

    def of(a: Any) -> Any:
        values, v = mpmath.eig(a)
        return v * mpmath.diag([f(x) for x in values]) * v**-1

    return of


def powers(p: str) -> Callable[[Any], Any]:
    return by_eigenvalues(lambda x: x ** mpmath.mpf(p))


# real, of real matrices with eigenvalues near 3
FUNCTIONS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "expm": (ldiv.expm, mpmath.expm),
    "logm": (ldiv.logm, mpmath.logm),
    "sqrtm": (ldiv.sqrtm, mpmath.sqrtm),
    "square": (lambda a: ldiv.matrix_power(a, 2), lambda a: a * a),
    "inverse power": (lambda a: ldiv.matrix_power(a, -3), lambda a: (a * a * a) ** -1),
    "fractional": (lambda a: ldiv.fractional_matrix_power(a, 0.7), powers("0.7")),
    "large power": (lambda a: ldiv.fractional_matrix_power(a, -7.25), powers("-7.25")),
    "cosm": (ldiv.cosm, by_eigenvalues(mpmath.cos)),
    "sinm": (ldiv.sinm, by_eigenvalues(mpmath.sin)),
    "tanm": (ldiv.tanm, by_eigenvalues(mpmath.tan)),
    "coshm": (ldiv.coshm, by_eigenvalues(mpmath.cosh)),
    "sinhm": (ldiv.sinhm, by_eigenvalues(mpmath.sinh)),
    "tanhm": (ldiv.tanhm, by_eigenvalues(mpmath.tanh)),
    "funm": (lambda a: ldiv.funm(a, lambda z: 1 / (z * z + 1)), lambda a: (a * a + a**0) ** -1),
}
EXACT = {name: exact for name, (_, exact) in FUNCTIONS.items()}
NAMES = ["expm", "logm", "sqrtm", "fractional", "tanm", "funm"]  # one of each kind


def exact(f: Callable[[Any], Any], a: Any) -> Any:
    """f(A) in 50 digits; a matrix of mpmath."""
    with mpmath.workdps(50):
        return f(mpmath.matrix(a.tolist()) if isinstance(a, np.ndarray) else a)


def numpy_of(x: Any) -> Any:
    return np.array(x.tolist(), dtype=complex)


def exact_derivative(f: Callable[[Any], Any], a: Any, *es: Any) -> Any:
    """D^m f(A)[E_1, ..., E_m]: central differences in 50 digits."""
    with mpmath.workdps(50):
        h = mpmath.mpf(10) ** -9
        points = [(mpmath.matrix(a.tolist()), mpmath.mpf(1))]
        for e in es:
            e = mpmath.matrix(e.tolist()) * h
            points = [(x + s * e, s * c / (2 * h)) for x, c in points for s in (1, -1)]
        total = sum((c * f(x) for x, c in points[1:]), points[0][1] * f(points[0][0]))
    return numpy_of(total)


def close(x: Any, y: Any, rtol: float = 1e-13) -> None:
    assert abs(np.asarray(x) - y).max() <= rtol * abs(y).max()


@pytest.mark.parametrize("a", [A, C], ids=["real", "complex"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_and_derivatives(name: str, a: Any) -> None:
    f, _ = FUNCTIONS[name]
    close(f(a), numpy_of(exact(EXACT[name], a)))
    assert f(a).dtype == a.dtype
    y, pull = ldiv.vjp(f, a)
    d = exact_derivative(EXACT[name], a, E)
    close(ldiv.jvp(f, (a,), (E.astype(a.dtype),))[1], d)
    # <G, D f(A)[E]> = <A_bar, E>
    (bar,) = pull(G.astype(y.dtype))
    assert np.vdot(bar, E).real == pytest.approx(np.vdot(G, d).real, rel=1e-12)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_second_derivatives(name: str) -> None:
    f, _ = FUNCTIONS[name]
    d = exact_derivative(EXACT[name], A, E, G).real

    def along(x: Any) -> Any:
        return torch.func.jvp(f, (x,), (torch.tensor(E),))[1]

    def along_jax(x: Any) -> Any:
        return jax.jvp(f, (x,), (jnp.asarray(E),))[1]

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*torch.jit.script.*")
        close(torch.func.jvp(along, (torch.tensor(A),), (torch.tensor(G),))[1], d, 1e-12)
    with jax.enable_x64(True):
        close(jax.jit(lambda x: jax.jvp(along_jax, (x,), (jnp.asarray(G),))[1])(A), d, 1e-12)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_torch(name: str) -> None:
    f, _ = FUNCTIONS[name]
    for a in (A, C):
        x = torch.tensor(a[:3, :3], requires_grad=True)
        assert torch.autograd.gradcheck(f, x)
    assert torch.autograd.gradgradcheck(f, torch.tensor(A[:3, :3], requires_grad=True))


@pytest.mark.parametrize("name", NAMES)
def test_jax(name: str) -> None:
    f, _ = FUNCTIONS[name]
    with jax.enable_x64(True):
        a = jnp.stack([jnp.asarray(A), 2 * jnp.asarray(A)])
        together = jax.jit(jax.vmap(jax.grad(lambda x: (f(x) ** 2).sum())))(a)
        for x, g in zip(a, together, strict=True):
            (bar,) = ldiv.vjp(f, np.asarray(x))[1](2 * f(np.asarray(x)))
            close(g, bar)
        h = jax.hessian(lambda x: (f(x) ** 2).sum())(jnp.asarray(A)).reshape(16, 16)
        close(h, h.T, 1e-12)


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
@pytest.mark.parametrize("name", NAMES)
def test_batches_and_single_precision(name: str, dtype: str) -> None:
    f, _ = FUNCTIONS[name]
    a = np.stack([A, A.T, A @ A / 4]).astype(dtype)
    x = f(a)
    assert x.dtype == a.dtype
    for i in range(3):
        close(x[i], numpy_of(exact(EXACT[name], a[i])), 4 * float(np.finfo(dtype).eps))
    assert f(np.empty((0, 0), dtype)).shape == (0, 0)
    assert f(torch.empty((2, 0, 0))).shape == (2, 0, 0)


# -- branch cuts ----------------------------------------------------------------

ON_THE_CUT = {
    "negative": np.diag([1.0, -2.0]),
    "defective": np.array([[-1.0, 1.0], [0.0, -1.0]]),
    "hidden": scipy.linalg.hadamard(4) @ np.diag([1.0, 2, 3, -4]) @ scipy.linalg.hadamard(4) / 4,
    "defective and hidden": scipy.linalg.hadamard(4)
    @ (np.diag([1.0, 2, -3, -3]) + np.diag([0, 0, 1.0], 1))
    @ scipy.linalg.hadamard(4)
    / 4,
}


@pytest.mark.parametrize("a", ON_THE_CUT.values(), ids=ON_THE_CUT)
@pytest.mark.parametrize("name", ["logm", "sqrtm"])
def test_on_the_cut_there_is_a_value_and_no_derivative(name: str, a: Any) -> None:
    f, _ = FUNCTIONS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            expected = getattr(scipy.linalg, name)(a)
        except ValueError:  # NaN within SciPy
            expected = a * np.nan
    if name == "logm" and not abs(expected).max() <= 1e3:  # rounding has set it apart from A
        with pytest.raises(ldiv.SingularMatrixError, match="repeated negative eigenvalue"):
            f(a)
        return
    # rounding may have moved a double eigenvalue off the axis; older SciPy is complex by rounding
    if abs(expected.imag).max() > 1e-7 * abs(expected).max():
        close(f(a), expected)
        x = torch.tensor(a, requires_grad=True)
        with pytest.raises(ldiv.NotDifferentiableError, match="negative real number"):
            f(x).abs().sum().backward()
    _, pull = ldiv.vjp(f, a + 0j)
    with pytest.raises(ldiv.NotDifferentiableError, match="negative real number"):
        pull(np.ones_like(a + 0j))
    with pytest.raises(ldiv.NotDifferentiableError, match="negative real number"):
        ldiv.jvp(f, (a + 0j,), (a + 0j,))


def test_near_the_cut() -> None:
    """A rotation by nearly a half turn: a derivative that is large, and right."""
    a = np.array([[-1.0, 1e-5], [-1e-5, -1.0]])
    for f, scalar in ((ldiv.sqrtm, mpmath.sqrt), (ldiv.logm, mpmath.log)):
        d = ldiv.jvp(f, (a,), (E[:2, :2],))[1]
        close(d, exact_derivative(by_eigenvalues(scalar), a, E[:2, :2]), 1e-7)


def test_a_real_matrix_with_a_complex_value() -> None:
    a = np.diag([1.0, -4.0])
    for like in (np.asarray, torch.tensor, jnp.asarray):
        with jax.enable_x64(True):
            x = ldiv.sqrtm(like(a))
        np.testing.assert_allclose(np.asarray(x), np.diag([1, 2j]), atol=1e-15)
    assert ldiv.sqrtm(a.astype("float32")).dtype == "complex64"
    with pytest.raises(Exception, match="Pass a complex A"):
        jax.jit(ldiv.sqrtm)(a)
    with jax.enable_x64(True):
        np.testing.assert_allclose(jax.jit(ldiv.sqrtm)(a + 0j), np.diag([1, 2j]), atol=1e-15)


@pytest.mark.parametrize("seed", range(8))
def test_real_matrices_have_principal_values(seed: int) -> None:
    """The negative eigenvalues have no imaginary part, whose sign would choose the branch."""
    a = np.random.default_rng(seed).standard_normal((5, 5))
    for f, scalar in (
        (ldiv.logm, mpmath.log),
        (ldiv.sqrtm, mpmath.sqrt),
        (lambda a: ldiv.fractional_matrix_power(a, 0.7), lambda x: x ** mpmath.mpf("0.7")),
    ):
        g = by_eigenvalues(lambda x, f=scalar: f(x if abs(x.imag) > 1e-30 else x.real))
        close(f(a), numpy_of(exact(g, a)), 1e-10)


def test_singular_matrices() -> None:
    for a in (np.zeros((2, 2)), np.diag([1.0, 0.0]), np.ones((3, 3)), np.arange(9.0).reshape(3, 3)):
        with pytest.raises(ldiv.SingularMatrixError, match="no logarithm"):
            ldiv.logm(a)
    with pytest.raises(ldiv.SingularMatrixError, match="no square root"):
        ldiv.sqrtm(np.array([[0.0, 1.0], [0.0, 0.0]]))
    root, pull = ldiv.vjp(ldiv.sqrtm, np.diag([4.0, 0.0]))
    np.testing.assert_array_equal(root, np.diag([2.0, 0.0]))
    with pytest.raises(ldiv.NotDifferentiableError, match="eigenvalue is 0"):
        pull(np.eye(2))
    # of a triangular matrix eigenvalues are known: so small a one is no zero
    graded = np.array([[1.0, 1e-12], [0.0, 1e-20]])
    close(ldiv.logm(graded), numpy_of(exact(mpmath.logm, graded)))


# -- large exponents --------------------------------------------------------------


def test_large_exponents_are_right_or_refused() -> None:
    turn = np.array([[0.0, 1e6], [-1e6, 0.0]])
    close(ldiv.expm(turn), numpy_of(exact(mpmath.expm, turn)), 1e-8)
    Q = scipy.linalg.hadamard(4) / 2
    for values in ([-1e6, -1.0, 0, 1], [-1e6, -2e6, -5, -1e5], [1e6, -1, 0, 1], [1e3, 0, 0, -1e6]):
        a = Q @ (np.diag(values) + np.diag([1e4, 0, 2.0], 1)) @ Q
        try:
            close(ldiv.expm(a), numpy_of(exact(mpmath.expm, a)), 1e-4)
        except ldiv.LinAlgOverflowError:
            assert max(values) > 700
    chain = 1e16 * np.array([[-1.0, 1.0], [1.0, -1.0]])
    with pytest.raises(ldiv.LinAlgOverflowError, match="no digit"):
        ldiv.expm(chain)
    with pytest.raises(ldiv.LinAlgOverflowError, match="no digit"):
        ldiv.expm_frechet(chain, chain, compute_expm=False)
    np.testing.assert_array_equal(ldiv.expm(np.diag([-1e200, 0.0])), np.diag([0.0, 1.0]))
    with pytest.raises(ldiv.LinAlgOverflowError):
        ldiv.expm(np.full((3, 3), 1e3))
    with pytest.raises(ldiv.LinAlgOverflowError):
        ldiv.expm(np.full((3, 3), 1e300))


# -- arguments --------------------------------------------------------------------


def test_expm_frechet() -> None:
    F, L = ldiv.expm_frechet(A, E)
    for method in (None, "SPS", "blockEnlarge"):
        expected = scipy.linalg.expm_frechet(A, E, method=method, check_finite=False)
        close(F, expected[0], 1e-12)
        close(L, expected[1])
        close(ldiv.expm_frechet(A, E, method, compute_expm=False, check_finite=False), expected[1])
    a, e = (torch.tensor(x[:3, :3], requires_grad=True) for x in (A, E))
    assert torch.autograd.gradcheck(ldiv.expm_frechet, (a, e))
    assert torch.autograd.gradgradcheck(lambda a, e: ldiv.expm_frechet(a, e)[1], (a, e))
    # units of a direction change nothing else
    close(ldiv.expm_frechet(A, E * 2.0**900, compute_expm=False), L * 2.0**900)
    with pytest.raises(ValueError, match="same shape"):
        ldiv.expm_frechet(A, E[:2, :2])
    close(ldiv.matrix_exp(A), F)


def test_expm_cond() -> None:
    for a in (A, C):
        assert ldiv.expm_cond(a) == pytest.approx(scipy.linalg.expm_cond(a))
    both = ldiv.expm_cond(np.stack([A, A.T]), check_finite=False)
    np.testing.assert_allclose(both, scipy.linalg.expm_cond(A))
    assert torch.autograd.gradcheck(ldiv.expm_cond, torch.tensor(A[:3, :3], requires_grad=True))


def test_keywords_and_lists() -> None:
    x, error = ldiv.logm(np.array([[1.0, 2.0], [0.0, 3.0]]), disp=False)
    close(x, scipy.linalg.logm([[1, 2], [0, 3]]))
    assert error < 1e-14
    x, error = ldiv.sqrtm(torch.tensor(A), disp=False, blocksize=32)
    assert error < 1e-14


@pytest.mark.parametrize("name", NAMES)
def test_what_is_refused(name: str) -> None:
    f, _ = FUNCTIONS[name]
    with pytest.raises(ValueError, match="square"):
        f(np.ones((2, 3)))
    with pytest.raises(ValueError, match="finite"):
        f(np.array([[np.nan]]))
    for sparse in (ldiv.eye_array(3), sp.eye_array(3)):
        with pytest.raises(TypeError, match=r"expm_multiply|matrix_power"):
            f(sparse)


# -- powers, sines and tangents -----------------------------------------------------


def test_matrix_power() -> None:
    for n in (-3, -1, 0, 1, 2, 9):
        close(ldiv.matrix_power(A, n), np.linalg.matrix_power(A, n))
    close(ldiv.matrix_power(torch.tensor(C), 5), np.linalg.matrix_power(C, 5))
    with pytest.raises(ldiv.SingularMatrixError):
        ldiv.matrix_power(np.ones((2, 2)), -1)
    with pytest.raises(ldiv.SingularMatrixError):
        ldiv.fractional_matrix_power(np.ones((2, 2)), -0.5)
    with pytest.raises(ldiv.LinAlgOverflowError):
        ldiv.matrix_power(np.array([[1e10]]), 100)
    with pytest.raises(ValueError, match="integer"):
        ldiv.matrix_power(A, 0.5)
    # of no matrix is the derivative of a whole power refused
    on_the_cut = ON_THE_CUT["hidden"]
    d = ldiv.jvp(lambda a: ldiv.fractional_matrix_power(a, 2.0), (on_the_cut,), (E,))[1]
    close(d, on_the_cut @ E + E @ on_the_cut)
    with pytest.raises(ldiv.NotDifferentiableError, match="negative real number"):
        ldiv.jvp(lambda a: ldiv.fractional_matrix_power(a, 0.5), (on_the_cut + 0j,), (E + 0j,))


def test_powers_of_sparse_matrices() -> None:
    S = sp.diags_array([4.0 + np.arange(5), np.ones(4)], offsets=[0, 1]).tocsr()
    v = torch.tensor(S.data, requires_grad=True)
    P = ldiv.matrix_power(ldiv.asarray(S).with_data(v), 3)
    assert isinstance(P, ldiv.SparseArray)
    np.testing.assert_allclose(P.toarray().detach(), np.linalg.matrix_power(S.toarray(), 3))
    P.toarray().sum().backward()
    (bar,) = ldiv.vjp(lambda a: ldiv.matrix_power(a, 3), S.toarray())[1](np.ones((5, 5)))
    np.testing.assert_allclose(v.grad, bar[S.tocoo().coords])
    assert isinstance(ldiv.matrix_power(S, 2), ldiv.SparseArray)
    with pytest.raises(ValueError, match=r"ldiv\.solve"):
        ldiv.matrix_power(S, -1)


@pytest.mark.parametrize("size", [1e-9, 0.3, 1.0, 30.0])
@pytest.mark.parametrize("name", ["cosm", "sinm", "tanm", "coshm", "sinhm", "tanhm"])
def test_sines_of_all_sizes(name: str, size: float) -> None:
    f, exactly = FUNCTIONS[name]
    for a in (E * size, (E + 1j * G) * size):
        close(f(a), numpy_of(exact(exactly, a)), 1e-11)
        d = ldiv.jvp(f, (a,), (G.astype(a.dtype),))[1]
        if size < 30:
            close(d, exact_derivative(exactly, a, G), 1e-11)


def test_poles() -> None:
    for at in (np.pi / 2, 3 * np.pi / 2):
        with pytest.raises(ldiv.SingularMatrixError, match="pole"):
            ldiv.tanm(np.diag([at, 1.0]))
    a = np.array([[1000.0, 1.0], [2.0, -900.0]])  # whose cosh overflows
    close(ldiv.tanhm(a), numpy_of(exact(by_eigenvalues(mpmath.tanh), a)))


# -- functions of the caller, and the sign ---------------------------------------------

H = scipy.linalg.hadamard(4) / 2
CLOSE = {
    "a Jordan block": 2 * np.eye(4) + np.diag(np.ones(3), 1),
    "the identity": 2 * np.eye(4),
    "two hidden Jordan blocks": H @ (np.diag([1.0, 1, 2, 2]) + np.diag([1.0, 0, 1], 1)) @ H,
    "gaps of all sizes": np.diag([1.0, 1 + 1e-9, 1 + 1e-5, 3]) + np.triu(np.ones((4, 4)), 1),
}


@pytest.mark.parametrize("a", CLOSE.values(), ids=CLOSE)
def test_funm_of_close_eigenvalues(a: Any) -> None:
    for f, g in ((np.exp, ldiv.expm), (np.log, ldiv.logm), (np.sqrt, ldiv.sqrtm)):
        close(ldiv.funm(a, f), g(a), 1e-11)
        d = ldiv.jvp(lambda x, f=f: ldiv.funm(x, f), (a,), (E,))[1]
        close(d, ldiv.jvp(g, (a,), (E,))[1], 1e-11)


def test_funm() -> None:
    close(ldiv.funm(A, lambda z: 1j * z), 1j * A)
    close(ldiv.funm([[1, 2], [0, -3]], np.abs), np.array([[1.0, -1.0], [0.0, 3.0]]))
    F, error = ldiv.funm(A, np.exp, disp=False)
    assert error < 1e-13
    with jax.enable_x64(True):
        close(jax.jit(lambda a: ldiv.funm(a, np.exp))(A), F)
    with pytest.raises(Exception, match="Pass a complex A"):
        jax.jit(lambda a: ldiv.funm(a, lambda z: 1j * z))(A)
    bar = ldiv.vjp(lambda a: ldiv.funm(a, lambda z: 1j * z), C)[1](C)[0]
    close(bar, -1j * C)
    a = torch.tensor(A, requires_grad=True)
    ldiv.funm(a, lambda z: 1j * z).imag.sum().backward()
    close(a.grad, np.ones((4, 4)))
    # a constant has the derivative 0
    close(1 + ldiv.jvp(lambda a: ldiv.funm(a, np.ones_like), (A,), (E,))[1], np.ones((4, 4)))


@pytest.mark.parametrize("f", [np.abs, np.real, np.conj, lambda z: np.exp(z.real)])
def test_functions_that_are_not_analytic(f: Callable[[Any], Any]) -> None:
    S = A + A.T
    values, v = np.linalg.eigh(S)
    close(ldiv.funm(S, f), v * f(values) @ v.T, 1e-12)
    with pytest.raises(ldiv.NotDifferentiableError, match="analytic"):
        ldiv.jvp(lambda a: ldiv.funm(a, f), (S,), (E,))


def test_what_is_no_function_of_numbers() -> None:
    with pytest.raises(TypeError, match="NumPy"):
        ldiv.funm(A, torch.exp)
    with pytest.raises(ValueError, match="shape"):
        ldiv.funm(A, lambda z: z[:2])
    with pytest.raises(ValueError, match="poles"):
        ldiv.funm(np.diag([0.0, 1.0]), lambda z: 1 / z)
    with pytest.raises(TypeError, match="func"):
        ldiv.funm(A, 3)


def test_signm() -> None:
    a = A - 3 * np.eye(4)
    sign = by_eigenvalues(lambda x: mpmath.sign(mpmath.re(x)))
    for x in (a, a + 0.1j * G):
        close(ldiv.signm(x), numpy_of(exact(sign, x)))
        close(ldiv.signm(x), scipy.linalg.signm(x), 1e-11)
        d = ldiv.jvp(ldiv.signm, (x,), (E.astype(x.dtype),))[1]
        close(d, exact_derivative(sign, x, E), 1e-11)
    t = torch.tensor(a, requires_grad=True)
    assert torch.autograd.gradcheck(ldiv.signm, t)
    assert torch.autograd.gradgradcheck(ldiv.signm, t)
    _, error = ldiv.signm(a, disp=False)
    assert error < 1e-12
    # SciPy shifts this matrix by half its norm: all its signs are +
    close(ldiv.signm(np.array([[-0.1, 1.0], [0.0, -0.1]])), -np.eye(2))
    np.testing.assert_array_equal(ldiv.signm(np.diag([1.0, 0.0, -2.0])), np.diag([1.0, 0.0, -1.0]))
    for on in (np.diag([1.0, 0.0]), np.array([[0.0, 1.0], [-1.0, 0.0]])):
        with pytest.raises(ldiv.NotDifferentiableError, match="imaginary axis"):
            ldiv.jvp(ldiv.signm, (on,), (np.eye(2),))


@pytest.mark.parametrize("k", [-1000, -301, 301, 1022])
def test_ends_of_the_range(k: int) -> None:
    a, t = A / 4, 2.0**k
    cases: list[tuple[Any, float, float]] = [
        (ldiv.sqrtm, 0.5, 0),
        (ldiv.logm, 0, np.log(t)),
        (lambda a: ldiv.fractional_matrix_power(a, 0.3), 0.3, 0),
        (ldiv.signm, 0, 0),
    ]
    for f, degree, more in cases:
        expected, unit = f(a), t**degree
        np.testing.assert_allclose(f(t * a), unit * expected + more * np.eye(4), rtol=1e-12)

        def slope(x: Any, f: Any = f) -> Any:
            return (torch.tensor(G) * f(x)).sum()

        if f is not ldiv.signm:
            g, h = (torch.func.grad(slope)(torch.tensor(x)) * y for x, y in ((a, unit), (t * a, t)))
            np.testing.assert_allclose(h, g, rtol=1e-10)
    # a small number beside a large one stays
    d = np.diag([2.0**1000, 2.0**-1000])
    np.testing.assert_array_equal(ldiv.sqrtm(d), np.diag([2.0**500, 2.0**-500]))
    assert np.isfinite(ldiv.logm(np.diag([1e308, 1e-308]))).all()
    with pytest.raises(ldiv.LinAlgOverflowError, match="fractional_matrix_power overflows"):
        ldiv.fractional_matrix_power(2.0**1000 * A / 4, 1.5)
    # a value that is less than any number, and its gradient, which is not
    slopes = []
    for unit in (1.0, 2.0**-1000):
        x = torch.tensor(unit * A / 4, requires_grad=True)
        slopes.append(torch.autograd.grad(ldiv.fractional_matrix_power(x, 1.5).sum(), x)[0])
    np.testing.assert_allclose(slopes[1], slopes[0] * 2.0**-500, rtol=1e-11)


def nearly_singular(e: float) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    q = np.linalg.qr(rng.standard_normal((4, 4)))[0]
    v, turn = rng.standard_normal((4, 4)), np.linalg.qr(rng.standard_normal((2, 2)))[0]
    block = np.array([[e, 1], [0, e]])
    return {
        "block": block,
        "block of order 3": np.array([[e, 1, 0], [0, e, 1], [0, 0, e]]),
        "turned block": turn @ block @ turn.T,
        "diagonal": np.diag([1, e, 2.0]),
        "normal": q @ np.diag([1, 2, 3, e]) @ q.T,
        "diagonalizable": v @ np.diag([1, 2, 3, e]) @ np.linalg.inv(v),
        "triangular": np.array([[1.0, 2, 3], [0, e, 1], [0, 0, 2 * e]]),
    }


def power_in_many_digits(a: Any, p: float) -> Any:
    """The power by the eigenpairs of a matrix next to A, which has some: 1e-300 beside 700 digits."""
    with mpmath.workdps(700):
        n = len(a)
        apart = mpmath.matrix(
            [[mpmath.mpf((7 * i + 3 * j) % 11 + 1) / 10**300 for j in range(n)] for i in range(n)]
        )
        values, vectors = mpmath.eig(mpmath.matrix(a.tolist()) + apart)
        powers = mpmath.diag([mpmath.power(x, mpmath.mpf(p)) for x in values])
        y = vectors * powers * mpmath.inverse(vectors)
        return np.array([[complex(y[i, j]) for j in range(n)] for i in range(n)])


@pytest.mark.parametrize(
    "p", [0.5, 0.1, *(pytest.param(p, marks=pytest.mark.exhaustive) for p in (1.5, -0.5, "sqrtm"))]
)
def test_powers_of_nearly_singular_matrices_are_right_or_refused(p: Any) -> None:
    """SciPy's own is wrong by 24 % for a turned block with e = 1e-10."""
    f = ldiv.sqrtm if p == "sqrtm" else lambda a: ldiv.fractional_matrix_power(a, p)
    refused = set()
    for e in (1e-3, 1e-6, 1e-10, 1e-15, 1e-30, 1e-60):
        for name, a in nearly_singular(e).items():
            try:
                y = f(a)
            except ldiv.SingularMatrixError:
                refused.add((name, e))
                continue
            expected = power_in_many_digits(a, 0.5 if p == "sqrtm" else p)
            assert np.linalg.norm(y - expected) <= 2e-3 * np.linalg.norm(expected), (name, e)
    assert ("turned block", 1e-10) in refused
    if p in (0.5, "sqrtm"):  # zero may be an eigenvalue that has all its vectors
        kinds = {name for name, _ in refused}
        assert not kinds & {"diagonal", "normal", "diagonalizable"}
