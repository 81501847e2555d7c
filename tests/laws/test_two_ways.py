"""One quantity by two ways (dense and sparse, primal and dual, factors and iterations) agrees in its
value and in its derivatives, while a parameter goes to 0 through 16 decades.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

import ldiv

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")
jax.config.update("jax_enable_x64", True)

FRONTENDS = {"numpy": np.asarray, "torch": torch.tensor}
DAMPS = (100.0, 1e-2, 1e-5, 1e-9, 1e-13, 1e-30, 0.0)
TOLERANCE = {"float32": 3e-5, "float64": 1e-12, "complex128": 1e-12}


def draw(shape: tuple[int, ...], dtype: str, rng: Any) -> Any:
    x = rng.standard_normal(shape)
    return (x + 1j * rng.standard_normal(shape) if dtype[0] == "c" else x).astype(dtype)


def assert_near(found: Any, expected: Any, tolerance: float, name: Any) -> None:
    found = np.asarray(found.detach().resolve_conj() if hasattr(found, "detach") else found)
    error = abs(found - expected).max() / (abs(expected).max() or 1)
    assert error < tolerance, (name, error)


# -- damped least squares --------------------------------------------------------------------------


def sparse(A: Any) -> Any:
    m, n = A.shape
    return ldiv.coo_array((A.reshape(-1), tuple(np.divmod(np.arange(m * n), n))), shape=(m, n))


def iterated(solve: Any) -> Any:
    def x(A: Any, b: Any, d: float) -> Any:
        t = float(np.finfo(str(b.dtype).rpartition(".")[2]).eps)
        return solve(A, b, d, t, t)[0]

    return x


def weighted(A: Any, b: Any, d: float) -> Any:
    root = 2.0 ** np.arange(len(b))
    ones = abs(0 * b) + 1
    root = (
        torch.tensor(root, dtype=ones.dtype)
        if isinstance(b, torch.Tensor)
        else root.astype(ones.dtype)
    )
    return ldiv.lstsq(A / root[:, None], b / root, damp=d, weights=root**2).x


WAYS: dict[str, Callable[[Any, Any, float], Any]] = {
    "dense": lambda A, b, d: ldiv.lstsq(A, b, damp=d).x,
    "sparse": lambda A, b, d: ldiv.lstsq(sparse(A), b, damp=d).x,
    "factorized": lambda A, b, d: ldiv.factorized(A, method="lstsq", damp=d)(b),
    "weighted": weighted,
    "lsqr": iterated(ldiv.lsqr),
    "lsmr": iterated(ldiv.lsmr),
}


def exact(A: Any, b: Any, g: Any, d: float) -> tuple[Any, ...]:
    """x = A^H y with (A A^H + d^2 I) y = b, and the cotangents of A and b for a cotangent g of x."""
    A, b, g = (mpmath.matrix(z.tolist()) for z in (A, b, g))
    if A.rows <= A.cols:
        S = A * A.H + mpmath.mpf(d) ** 2 * mpmath.eye(A.rows)
        y, u = mpmath.lu_solve(S, b), mpmath.lu_solve(S, A * g)
        x, z = A.H * y, g - A.H * u
    else:  # y and z times d^2, and its inverse
        S = A.H * A + mpmath.mpf(d) ** 2 * mpmath.eye(A.cols)
        x, z = mpmath.lu_solve(S, A.H * b), mpmath.lu_solve(S, g)
        y, u = b - A * x, A * z
    return x, y * z.H - u * x.H, u


def numbers(x: Any, like: Any) -> Any:
    return np.array(x.tolist()).astype(complex).reshape(like.shape)


@pytest.mark.covering(2)
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
@pytest.mark.parametrize("shape", [(3, 10), (10, 3), (4, 4)], ids=str)
@pytest.mark.parametrize("framework", ["torch", "numpy"])
def test_damped(framework: str, shape: tuple[int, int], dtype: str) -> None:
    rng = np.random.default_rng(0)
    A, b, g = (draw(s, dtype, rng) for s in (shape, shape[:1], shape[1:]))
    given = [FRONTENDS[framework](z) for z in (A, b, g)]
    for d in DAMPS:
        with mpmath.workdps(80):
            expected = [numbers(*z) for z in zip(exact(A, b, g, d), (g, A, b), strict=True)]
        for name, way in WAYS.items():
            x, pullback = ldiv.vjp(lambda A, b, d=d, way=way: way(A, b, d), *given[:2])
            for found, right in zip((x, *pullback(given[2])), expected, strict=True):
                assert_near(found, right, TOLERANCE[dtype], (name, d))


def change(way: Callable[[Any, Any, float], Any], A: Any, b: Any, g: Any, d: float, V: Any) -> Any:
    """The derivative of the gradient in A along V: a second derivative."""
    return ldiv.jvp(lambda A: ldiv.vjp(lambda A: way(A, b, d), A)[1](g)[0], (A,), (V,))[1]


@pytest.mark.parametrize(
    "dtype", ["float32", pytest.param("float64", marks=pytest.mark.exhaustive)]
)
@pytest.mark.parametrize("shape", [(3, 10), (10, 3)], ids=str)
def test_second_derivatives_of_damped(shape: tuple[int, int], dtype: str) -> None:
    rng = np.random.default_rng(1)
    A, b, g, V = (draw(s, dtype, rng) for s in (shape, shape[:1], shape[1:], shape))
    for d in (1e-2, 1e-7, 0.0):
        with mpmath.workdps(80):
            t, M, W = mpmath.mpf(10) ** -30, *(mpmath.matrix(z.tolist()) for z in (A, V))
            up, down = (exact(M + s * W, b, g, d)[1] for s in (t, -t))
            right = numbers((up - down) / (2 * t), A)
        a, c, h, v = map(torch.tensor, (A, b, g, V))
        for name, way in WAYS.items():
            found = change(way, a, c, h, d, v)
            assert_near(found, right, 10 * TOLERANCE[dtype], (name, d))
        if d == 1e-2:
            program = jax.jit(lambda A, b, g, V, d=d: change(WAYS["dense"], A, b, g, d, V))
            assert_near(program(A, b, g, V), right, 10 * TOLERANCE[dtype], "jax")


@pytest.mark.covering(1)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("shape", [(3, 10), (10, 3)], ids=str)
def test_covariances(shape: tuple[int, int], kind: str, dtype: str) -> None:
    """(A^H A + d^2 I)^-1 and its derivative, -C (G + G^H) C A^H for a cotangent G."""
    rng = np.random.default_rng(2)
    A, G = (draw(s, dtype, rng) for s in (shape, (shape[1],) * 2))

    def covariance(A: Any, d: float) -> Any:
        matrix = A if kind == "dense" else sparse(A)
        C = ldiv.factorized(matrix, method="lstsq", damp=d).covariance()
        return C if kind == "dense" else C.toarray()

    for d in (1.0, 1e-4, 1e-9, 1e-15):
        with mpmath.workdps(80):
            M, H = (mpmath.matrix(z.tolist()) for z in (A, G))
            C = (M.T * M + mpmath.mpf(d) ** 2 * mpmath.eye(M.cols)) ** -1
            right = numbers(C, G), numbers(-M * C * (H + H.T) * C, A)
        C, pullback = ldiv.vjp(lambda A, d=d: covariance(A, d), torch.tensor(A))
        for found, expected in zip((C, *pullback(torch.tensor(G))), right, strict=True):
            assert_near(found, expected, 10 * TOLERANCE[dtype], d)
    if shape == (3, 10):
        with pytest.raises(ldiv.LinAlgOverflowError, match="a covariance"):
            covariance(A, 1e-200)


# -- low-rank updates of a matrix that goes to 0 -----------------------------------------------------


def exact_update(t: float, D: Any, U: Any, V: Any, b: Any, g: Any) -> tuple[Any, ...]:
    """x = (t D + U V^H)^-1 b, and the cotangents of D, U, V and b."""
    D, U, V, b, g = (mpmath.matrix(z.tolist()) for z in (D, U, V, b, g))
    S = mpmath.mpf(t) * mpmath.diag(list(D)) + U * V.H
    x, lam = mpmath.lu_solve(S, b), mpmath.lu_solve(S.H, g)
    D_bar = mpmath.matrix([-mpmath.mpf(t) * u * v.conjugate() for u, v in zip(lam, x, strict=True)])
    return x, D_bar, -lam * (x.H * V), -x * (lam.H * U), lam


def by_update(t: float, D: Any, U: Any, V: Any, b: Any) -> Any:
    low = ldiv.LowRank(U, V)
    return ldiv.solve(ldiv.diags_array([t * D], offsets=[0]) + low, b)


@pytest.mark.covering(1)
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_low_rank_updates(framework: str, dtype: str) -> None:
    rng, n, r = np.random.default_rng(3), 7, 2
    shapes = (n,), (n, r), (n, r), (n,), (n,)
    D, U, V, b, g = (draw(s, dtype, rng) for s in shapes)
    D = D / 8 + np.ones(n, dtype)
    to = torch.tensor if framework == "torch" else jax.numpy.asarray
    moved = [draw(s, dtype, rng) for s in shapes[:4]]
    for t in (1.0, 1e-3, 1e-8, 1e-14) if framework == "torch" else (1e-5,):
        with mpmath.workdps(90):
            given = [mpmath.matrix(z.tolist()) for z in (D, U, V, b)]
            ways = [mpmath.matrix(z.tolist()) for z in moved]
            h = mpmath.mpf(10) ** -40
            here, up, down = (
                exact_update(t, *(z + s * w for z, w in zip(given, ways, strict=True)), g)
                for s in (mpmath.mpf(0), h, -h)
            )
            right = [numbers(z, like) for z, like in zip(here, (b, D, U, V, b), strict=True)]
            along = [
                numbers((z - y) / (2 * h), like)
                for z, y, like in zip(up, down, (b, D, U, V, b), strict=True)
            ]

        def value_and_gradients(*args: Any, t: float = t) -> tuple[Any, ...]:
            x, pullback = ldiv.vjp(lambda *args: by_update(t, *args), *args)
            return x, *pullback(to(g))

        found, changes = ldiv.jvp(
            value_and_gradients, tuple(map(to, (D, U, V, b))), tuple(map(to, moved))
        )
        for name, x, y, dx, dy in zip("xDUVb", found, right, changes, along, strict=True):
            assert_near(x, y, TOLERANCE[dtype], (name, t))
            assert_near(dx, dy, 10 * TOLERANCE[dtype], ("change of", name, t))


# -- Kronecker products of low rank, added to a matrix that goes to 0 --------------------------------

KRONECKER = {"first": (3, 1, 2, 2), "second": (2, 2, 3, 1), "both": (3, 1, 3, 2)}  # n, r, m, s


def kronecker(A: Any, B: Any) -> Any:
    rows = [[a * b for a in A[i, :] for b in B[j, :]] for i in range(A.rows) for j in range(B.rows)]
    return mpmath.matrix(rows)


def exact_kronecker(t: float, c: Any, D: Any, P: Any, Q: Any, b: Any, g: Any) -> tuple[Any, ...]:
    """x = (t D + c A x B)^-1 b for A = P[0] P[1]^H, B = Q[0] Q[1]^H, and the cotangents of all but t."""
    c, D, b, g = c[0], *(mpmath.matrix(z) for z in (D, b, g))
    (U, V), (W, Z) = P, Q
    A, B = U * V.H, W * Z.H
    S = mpmath.mpf(t) * mpmath.diag(list(D)) + c * kronecker(A, B)
    x, lam = mpmath.lu_solve(S, b), mpmath.lu_solve(S.H, g)
    X, L = (mpmath.matrix(A.rows, B.rows) for _ in range(2))
    for i in range(A.rows * B.rows):
        X[divmod(i, B.rows)], L[divmod(i, B.rows)] = x[i], lam[i]
    to_D = mpmath.matrix([-mpmath.mpf(t) * l * z.conjugate() for l, z in zip(lam, x, strict=True)])
    to_c = -(kronecker(A, B) * x).H * lam
    to_A, to_B = (-c.conjugate() * z for z in (L * (X * B.T).H, (A.H * L).T * (X.T.H)))
    return x, to_c, to_D, to_A * V, to_A.H * U, to_B * Z, to_B.H * W, lam


def by_kronecker(t: float, c: Any, D: Any, U: Any, V: Any, W: Any, Z: Any, b: Any) -> Any:
    A, B = (
        u @ v.conj().T if u.shape[0] == u.shape[1] else ldiv.LowRank(u, v)
        for u, v in ((U, V), (W, Z))
    )
    return ldiv.solve(ldiv.diags_array([t * D], offsets=[0]) + c[0] * ldiv.kron(A, B), b)


@pytest.mark.covering(1)
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
@pytest.mark.parametrize("low", KRONECKER)
@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_kronecker_products_of_low_rank(framework: str, low: str, dtype: str) -> None:
    rng, (n, r, m, s) = np.random.default_rng(4), KRONECKER[low]
    shapes = (1,), (n * m,), (n, r), (n, r), (m, s), (m, s), (n * m,)
    given, moved = ([draw(z, dtype, rng) for z in shapes] for _ in range(2))
    given[1] = given[1] / 8 + np.ones(n * m, dtype)
    g = draw((n * m,), dtype, rng)
    to = torch.tensor if framework == "torch" else jax.numpy.asarray

    def exact(t: float, h: Any) -> tuple[Any, ...]:
        c, D, U, V, W, Z, b = (
            mpmath.matrix(z.tolist()) + h * mpmath.matrix(w.tolist())
            for z, w in zip(given, moved, strict=True)
        )
        return exact_kronecker(t, c, D, (U, V), (W, Z), b, mpmath.matrix(g.tolist()))

    for t in (1e-3, 1e-12) if framework == "torch" else (1e-5,):
        with mpmath.workdps(90):
            h = mpmath.mpf(10) ** -40
            here, up, down = (exact(t, step) for step in (mpmath.mpf(0), h, -h))
            like = given[-1], *given
            right = [numbers(z, x) for z, x in zip(here, like, strict=True)]
            along = [numbers((z - y) / (2 * h), x) for z, y, x in zip(up, down, like, strict=True)]

        def value_and_gradients(*args: Any, t: float = t) -> tuple[Any, ...]:
            x, pullback = ldiv.vjp(lambda *args: by_kronecker(t, *args), *args)
            return x, *pullback(to(g))

        found, changes = ldiv.jvp(value_and_gradients, tuple(map(to, given)), tuple(map(to, moved)))
        for name, x, y, dx, dy in zip("xcDUVWZb", found, right, changes, along, strict=True):
            assert_near(x, y, TOLERANCE[dtype], (name, t))
            assert_near(dx, dy, 10 * TOLERANCE[dtype], ("change of", name, t))


# -- forms and determinants of covariances: factors of low rank, and noise that goes to 0 ------------

FORMS = {
    "quad_form": lambda S, x: ldiv.quad_form(S, x, assume_a="pos"),
    "trace_solve": lambda S, x: ldiv.trace_solve(S, ldiv.LowRank(x[:, None], x[:, None])).real,
    "logdet": lambda S, x: ldiv.logdet(S, assume_a="pos"),
    "gaussian_logpdf": lambda S, x: ldiv.gaussian_logpdf(x, covariance=S),
}


def exact_form(name: str, own: float, t: float, D: Any, U: Any, x: Any) -> tuple[Any, ...]:
    """The form of S = t D + U U^H, and its gradients; `own`: 1 of complex numbers, 1/2 of real ones."""
    t, one = mpmath.mpf(t), own * mpmath.log(mpmath.pi / own)
    S = t * mpmath.diag(list(D)) + U * U.H
    y, inverse = mpmath.lu_solve(S, x), S**-1
    q, size = (x.H * y)[0].real, mpmath.log(mpmath.det(S).real)
    form = q, -y * y.H, 2 * y
    f, P, x_bar = {
        "quad_form": form,
        "trace_solve": form,
        "logdet": (size, inverse, 0 * x),
        "gaussian_logpdf": (
            -own * (q + size) - len(D) * one,
            own * (y * y.H - inverse),
            -2 * own * y,
        ),
    }[name]
    D_bar = mpmath.matrix([t * P[i, i].real for i in range(len(D))])
    return mpmath.matrix([f]), D_bar, 2 * P * U, x_bar


@pytest.mark.covering(1)
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("framework", ["torch", "jax", "numpy"])
def test_covariances_of_low_rank(framework: str, form: str, dtype: str) -> None:
    rng, n, r = np.random.default_rng(5), 6, 2
    U, x, dU, dx = (draw(s, dtype, rng) for s in ((n, r), (n,), (n, r), (n,)))
    D, dD = ((1 + rng.random(n)).astype(dtype) for _ in range(2))
    args, moved = (D, U, x), (dD, dU, dx)
    to = {"torch": torch.tensor, "jax": jax.numpy.asarray, "numpy": np.asarray}[framework]
    own = 1 if dtype[0] == "c" else 0.5

    def value(t: float, D: Any, U: Any, x: Any) -> Any:
        return FORMS[form](ldiv.diags_array([t * D], offsets=[0]) + ldiv.LowRank(U, U), x)

    for t in (1.0, 1e-4, 1e-9, 1e-16) if framework == "torch" else (1e-7,):
        with mpmath.workdps(90):
            h = mpmath.mpf(10) ** -40
            given, ways = ([mpmath.matrix(z.tolist()) for z in every] for every in (args, moved))
            here, up, down = (
                exact_form(form, own, t, *(z + s * w for z, w in zip(given, ways, strict=True)))
                for s in (mpmath.mpf(0), h, -h)
            )
            like = x[:1].real, *args
            right = [numbers(z, y) for z, y in zip(here, like, strict=True)]
            along = [numbers((z - y) / (2 * h), w) for z, y, w in zip(up, down, like, strict=True)]

        def value_and_gradients(*args: Any, t: float = t) -> tuple[Any, ...]:
            f, pullback = ldiv.vjp(lambda *args: value(t, *args), *args)
            return f, *pullback(f * 0 + 1)

        found, changes = ldiv.jvp(value_and_gradients, tuple(map(to, args)), tuple(map(to, moved)))
        for name, y, z, dy, dz in zip("fDUx", found, right, changes, along, strict=True):
            assert_near(y, z, TOLERANCE[dtype], (name, t))
            assert_near(dy, dz, 10 * TOLERANCE[dtype], ("change of", name, t))
