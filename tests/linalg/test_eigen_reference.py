"""Eigenpairs of A x = lam B x against 50-digit arithmetic: values, tangents, cotangents and
second derivatives of what no phase changes.
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from itertools import product

import mpmath
import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp

import ldiv
from ldiv.checker.inner import inner
from ldiv.checker.loss import transforms
from ldiv.testing.cases import Draw
from ldiv.testing.distance import assert_close

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")

jax.config.update("jax_enable_x64", True)
mpmath.mp.dps = 50
H = mpmath.mpf(10) ** -15
N, K = 8, 3
SPECTRUM = np.array([-3.1, -2.0, -1.2, -0.4, 0.3, 1.5, 2.6, 4.0])
LOW, INSIDE = 0, 3  # which of the pairs, in ascending order, is the first chosen one


def hermitian(a):
    return (a + a.conj().mT) / 2


# -- a loss that no phase changes, in every framework and in 50 digits --------


class Loss:
    """sum c_i lam_i^2 + sum |q_ii| + sum D_ij |q_ij|^2 with q = X^H C X: it couples all chosen
    pairs.
    """

    def __init__(self, dtype, n=N, k=K):
        real = Draw("float64", 12)
        self.c, self.D, self.C = real(k), real(k, k), Draw(dtype, 11)(n, n) / n**0.5

    def __call__(self, w, x, array):
        q = x.conj().mT @ (array(self.C) @ x)
        return (
            (array(self.c) * w**2).sum()
            + abs(q.diagonal()).sum()
            + (array(self.D) * (q * q.conj()).real).sum()
        )

    def exact(self, w, x):
        q, k = x.H * _exact(self.C) * x, range(len(w))
        coupled = mpmath.fsum(mpmath.mpf(self.D[i, j]) * abs(q[i, j]) ** 2 for i in k for j in k)
        return mpmath.fsum(mpmath.mpf(self.c[i]) * w[i] ** 2 + abs(q[i, i]) for i in k) + coupled

    def cotangents(self, w, x):
        """(lam_bar, X_bar) in NumPy."""
        w, x = torch.tensor(w, requires_grad=True), torch.tensor(x, requires_grad=True)
        return [g.numpy() for g in torch.autograd.grad(self(w, x, torch.asarray), (w, x))]


def projectors(x):
    """x_i x_i^H for every i."""
    return x.mT[:, :, None] * x.mT[:, None, :].conj()


# -- problems: arguments with two directions, the matrices that ldiv makes of them, and the same in 50 digits ---


class Whole:
    """Every entry of A, and of B unless the problem is standard, is an argument; both are read
    by their Hermitian parts.
    """

    owner = (0, 1)  # the matrix to which each argument belongs

    def __init__(self, dtype, generalized, array=np.asarray):
        draw, self.array = Draw(dtype, 3), array
        r = draw(N, N) / N
        b = r @ r.conj().T + np.eye(N)
        l = np.linalg.cholesky(b) if generalized else np.eye(N)
        q = np.linalg.qr(draw(N, N))[0]
        a = l @ (q * SPECTRUM) @ q.conj().T @ l.conj().T
        self.args = [hermitian(a), hermitian(b)][: 1 + generalized]
        self.d, self.e = ([draw(N, N) for _ in self.args] for _ in range(2))  # not Hermitian

    def exact(self, args):
        return [(a + a.H) / 2 for a in args]

    def matrices(self, args):
        return args


class Scattered(Whole):
    """The same as sparse arrays in no order, five of their entries in two parts."""

    order = np.random.default_rng(2).permutation(N * N)
    order = np.r_[order, order[:5]]
    part = np.r_[np.full(5, 0.25), np.ones(N * N - 5), np.full(5, 0.75)]

    def matrices(self, args):
        at = np.unravel_index(self.order, (N, N))
        return [
            ldiv.coo_array((a.reshape(-1)[self.order] * self.array(self.part), at), shape=(N, N))
            for a in args
        ]


class Operators:
    """A(a, c) = diag |a|^2 + c T and B(b) = 1 + b b^H / 4, nonlinear in their arguments."""

    owner = (0, 0, 1)

    def __init__(self, dtype, generalized, array=np.asarray):
        draw = Draw(dtype, 5)
        self.T = array(hermitian(draw(N, N)))
        self.args = [draw(N) + 1, np.array(0.7), draw(N)][: 2 + generalized]
        self.d, self.e = (
            [0.3 * draw(N) if x.ndim else x + shift for x in self.args] for shift in (-0.3, 0.1)
        )

    def exact(self, args):
        a, c, *b = args
        return [
            mpmath.diag([abs(x) ** 2 for x in a]) + c[0] * _exact(self.T),
            *(mpmath.eye(N) + x * x.H / 4 for x in b),
        ]

    def matrices(self, args):
        T = self.T
        yield ldiv.LinearOperator(
            lambda p, x: (p[0].conj() * p[0])[:, None] * x + p[1] * (T @ x),
            tuple(args[:2]),
            shape=(N, N),
            assume_a="her",
        )
        for b in args[2:]:
            yield ldiv.LinearOperator(
                lambda b, x: x + b[:, None] * (b.conj() @ x)[None, :] / 4,
                b,
                shape=(N, N),
                assume_a="pos",
            )


def _exact(a):
    return mpmath.matrix(np.atleast_1d(a).tolist())


def _array(m, dtype):
    return np.array(list(m), dtype=object).astype(dtype).reshape(m.rows, m.cols)


class Exact:
    """K pairs from `first` on, and what derives from them, in 50 digits."""

    def __init__(self, problem, first, dtype):
        self.problem, self.at, self.dtype, self.loss = (
            problem,
            range(first, first + K),
            dtype,
            Loss(dtype),
        )

    def pairs(self, s=0, t=0, matrices=(0, 1)):
        """The pairs of the problem moved by s d + t e, in some of its matrices."""
        given = zip(
            self.problem.args, self.problem.d, self.problem.e, self.problem.owner, strict=False
        )
        a, *b = self.problem.exact(
            [
                _exact(p) + (owner in matrices) * (s * _exact(d) + t * _exact(e))
                for p, d, e, owner in given
            ]
        )
        inverse = mpmath.inverse(mpmath.cholesky(b[0])) if b else mpmath.eye(N)
        c = inverse * a * inverse.H
        w, y = mpmath.eigh((c + c.H) / 2)
        x = inverse.H * y
        return [w[i] for i in self.at], mpmath.matrix(
            [[x[i, j] for j in self.at] for i in range(N)]
        )

    @cached_property
    def value(self):
        w, x = self.pairs()
        return (
            np.array(w, dtype=float),
            projectors(_array(x, self.dtype)),
            float(self.loss.exact(w, x)),
        )

    @cached_property
    def tangent(self):
        """The tangent of the value along d."""
        (w, x), (v, y) = self.pairs(H), self.pairs(-H)
        dw = np.array([(a - b) / (2 * H) for a, b in zip(w, v, strict=True)], dtype=float)
        dP = [
            _array((x[:, i] * x[:, i].H - y[:, i] * y[:, i].H) / (2 * H), self.dtype)
            for i in range(K)
        ]
        return dw, np.stack(dP), float((self.loss.exact(w, x) - self.loss.exact(v, y)) / (2 * H))

    def slope(self, matrix):
        """d loss along d in one matrix alone."""
        return float(
            (
                self.loss.exact(*self.pairs(H, 0, (matrix,)))
                - self.loss.exact(*self.pairs(-H, 0, (matrix,)))
            )
            / (2 * H)
        )

    @cached_property
    def second(self):
        """d^2 loss along d and e."""
        signed = [
            i * j * self.loss.exact(*self.pairs(i * H, j * H)) for i in (1, -1) for j in (1, -1)
        ]
        return float(mpmath.fsum(signed) / (4 * H**2))


@lru_cache
def exact(kind, dtype, generalized, first):
    return Exact(kind(dtype, generalized), first, dtype)


# -- the ways to ask ldiv -----------------------------------------------------


def by_eigh(first, sigma, A, M=None):
    return ldiv.eigh(A, M, subset_by_index=[first, first + K - 1])


def by_eigsh(first, sigma, A, M=None, method="auto"):
    if first == LOW:
        return ldiv.eigsh(A, K, M=M, which="SA", method=method)
    return ldiv.eigsh(A, K, M=M, sigma=sigma, method=method)


def by_arpack(first, sigma, A, M=None):
    return ldiv.eigsh(A, K, M=M, sigma=sigma, method="arpack")


WAYS = {
    "eigh": (Whole, by_eigh),
    "dense": (Whole, by_eigsh),
    "sparse": (Scattered, by_eigsh),
    "arpack": (Scattered, by_arpack),
    "operators": (Operators, by_eigsh),
}


class Case:
    """One problem, one way, one framework: functions of the list of arguments."""

    def __init__(self, way, dtype, generalized, first, framework):
        kind, self.solve = WAYS[way]
        self.exact = exact(Whole if kind is Scattered else kind, dtype, generalized, first)
        self.first, self.fw = first, transforms(framework)
        self.problem = kind(dtype, generalized, self.fw.array)
        self.sigma = self.exact.value[0][[0, -1]].mean()  # the K nearest are the chosen ones
        self.args, self.d, self.e = (
            [self.fw.array(x) for x in xs]
            for xs in (self.problem.args, self.problem.d, self.problem.e)
        )

    def pairs(self, args):
        return self.solve(self.first, self.sigma, *self.problem.matrices(args))

    def invariants(self, args):
        """(lam, x_i x_i^H, loss)"""
        w, x = self.pairs(args)
        return w, projectors(x), self.exact.loss(w, x, self.fw.array)

    def loss(self, args):
        return self.invariants(args)[2]

    def of(self, matrix):
        """The places of the arguments of one matrix."""
        return [i for i in range(len(self.args)) if self.problem.owner[i] == matrix]


EXHAUSTIVE = pytest.mark.exhaustive  # JAX compiles for long what the laws of front ends show
CORNERS = (("float64", False, LOW), ("complex128", True, INSIDE))
EVERY = [
    *product(WAYS, ["float64", "complex128"], [False, True], [LOW, INSIDE], ["torch"]),
    ("arpack", *CORNERS[1], "jax"),
    *(pytest.param(way, *CORNERS[1], "jax", marks=EXHAUSTIVE) for way in ("eigh", "operators")),
]
DTYPE = pytest.mark.parametrize("dtype", ["float64", "complex128"])
GENERALIZED = pytest.mark.parametrize("generalized", [False, True], ids=["standard", "generalized"])


def compiled(framework, f):
    """JAX compiles once what would be many small programs."""
    return jax.jit(f) if framework == "jax" else f


def _dot(a, b):
    return sum((x.conj() * y).real.sum() for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize(("way", "dtype", "generalized", "first", "framework"), EVERY)
def test_value_tangent_and_cotangent(way, dtype, generalized, first, framework):
    case = Case(way, dtype, generalized, first, framework)
    value, tangent = compiled(framework, lambda x, d: case.fw.jvp(case.invariants, (x,), (d,)))(
        case.args, case.d
    )
    for name, got, expected in zip(("lam", "x x^H", "loss"), value, case.exact.value, strict=True):
        assert_close(name, got, expected, 1e-12)
    for name, got, expected in zip(
        ("dlam", "d(x x^H)", "dloss"), tangent, case.exact.tangent, strict=True
    ):
        assert_close(name, got, expected, 1e-11)
    bars = compiled(framework, lambda x: case.fw.gradient(case.loss, x))(case.args)
    assert_close("<bar, d>", _dot(bars, case.d), case.exact.tangent[2], 1e-11)
    if case.problem.owner == Whole.owner:
        for bar in bars:
            assert_close("A_bar and B_bar are Hermitian", bar, np.asarray(bar).conj().T, 1e-12)


@pytest.mark.parametrize(
    ("way", "dtype", "framework"),
    [*product(["eigh", "sparse", "operators"], ["float64", "complex128"], ["torch"])],
)
@pytest.mark.parametrize("matrix", [0, 1], ids=["A", "B"])
def test_one_matrix_alone(way, dtype, matrix, framework):
    case = Case(way, dtype, True, INSIDE, framework)
    at = case.of(matrix)

    def alone(some):
        args = list(case.args)
        for i, x in zip(at, some, strict=True):
            args[i] = x
        return case.loss(args)

    some, d = [case.args[i] for i in at], [case.d[i] for i in at]
    both = compiled(
        framework,
        lambda x, d: (_dot(case.fw.gradient(alone, x), d), case.fw.jvp(alone, (x,), (d,))[1]),
    )
    for name, got in zip(("<bar, d>", "tangent"), both(some, d), strict=True):
        assert_close(name, got, case.exact.slope(matrix), 1e-11)


SECOND = [
    *((way, *some, "torch") for way in WAYS for some in CORNERS),
    ("eigh", "float64", True, INSIDE, "torch"),
    ("sparse", "complex128", False, LOW, "torch"),
    ("sparse", "float64", True, LOW, "torch"),
    pytest.param("eigh", "complex128", True, INSIDE, "jax", marks=EXHAUSTIVE),
]


@pytest.mark.parametrize(("way", "dtype", "generalized", "first", "framework"), SECOND)
def test_second_derivative(way, dtype, generalized, first, framework):
    case = Case(way, dtype, generalized, first, framework)
    fw = case.fw

    def every(x, d, e):
        def tangent(x):
            return fw.jvp(case.loss, (x,), (d,))[1]

        def slope(x):
            return _dot(fw.gradient(case.loss, x), d)

        return {
            "forward over forward": fw.jvp(tangent, (x,), (e,))[1],
            "forward over reverse": fw.jvp(slope, (x,), (e,))[1],
            "reverse over forward": _dot(fw.gradient(tangent, x), e),
            "reverse over reverse": _dot(fw.gradient(slope, x), e),
        }

    for mode, got in compiled(framework, every)(case.args, case.d, case.e).items():
        assert_close(mode, got, case.exact.second, 1e-9)


# -- a few hundred unknowns: ARPACK against the whole eigenbasis of LAPACK ----


def membrane(dtype):
    """(K, M) of bilinear finite elements on 15 x 20 unequal cells of unequal stiffness; complex:
    in a magnetic field.
    """
    rng = np.random.default_rng(4)
    lines = []
    for m in (15, 20):
        h = rng.uniform(0.8, 1.2, m + 1)
        stiff = sp.diags_array(
            [-1 / h[1:-1], 1 / h[:-1] + 1 / h[1:], -1 / h[1:-1]], offsets=[-1, 0, 1]
        )
        mass = sp.diags_array([h[1:-1] / 6, (h[:-1] + h[1:]) / 3, h[1:-1] / 6], offsets=[-1, 0, 1])
        lines.append((stiff, mass))
    (k1, m1), (k2, m2) = lines
    k, m = sp.coo_array(sp.kron(k1, m2) + sp.kron(m1, k2)), sp.coo_array(sp.kron(m1, m2))
    if dtype == "complex128":
        phase = lambda a: sp.coo_array(
            (a.data * np.exp(0.05j * (a.coords[0] - a.coords[1])), a.coords), shape=a.shape
        )
        k, m = phase(k), phase(m)
    return k, m


def whole_basis(a, b):
    """All pairs, ascending, X^H B X = 1, the residuals refined once by perturbation theory."""
    w, v = scipy.linalg.eigh(a, b)
    r = v.conj().T @ (a @ v)
    g = v.conj().T @ (b @ v)
    gaps = np.subtract.outer(w, w).T + np.eye(len(w))
    v = v + v @ ((r - g * w) / gaps * (1 - np.eye(len(w))) - np.diag((np.diag(g) - 1) / 2))
    return np.real(np.sum(v.conj() * (a @ v), axis=0) / np.sum(v.conj() * (b @ v), axis=0)), v


def formula(a, b, at, loss):
    """(lam, A_bar, B_bar): dx_i = sum over j != i of x_j x_j^H (dA - lam_i dB) x_i / (lam_i -
    lam_j), less x_i x_i^H dB x_i / 2.
    """
    w, v = whole_basis(a, b)
    lam, x = w[at], v[:, at]
    lam_bar, x_bar = loss.cotangents(lam, x)
    gaps = lam - w[:, None]
    gaps[at, range(len(at))] = np.inf
    p = v @ ((v.conj().T @ x_bar) / gaps) + x * lam_bar
    return (
        lam,
        hermitian(p @ x.conj().T),
        -hermitian((p * lam + x * np.sum(x.conj() * x_bar, axis=0).real / 2) @ x.conj().T),
    )


@DTYPE
@GENERALIZED
@pytest.mark.parametrize("at", [range(3), range(58, 62)], ids=["low", "inside"])
def test_arpack(dtype, generalized, at):
    k, m = membrane(dtype)
    at = list(at)
    loss = Loss(dtype, k.shape[0], len(at))
    lam, *bars = formula(k.toarray(), m.toarray() if generalized else np.eye(k.shape[0]), at, loss)
    sigma = lam[[0, -1]].mean()
    values = [torch.tensor(a.data, requires_grad=True) for a in (k, m)[: 1 + generalized]]

    def solve(values):
        A, M = [
            *(
                ldiv.coo_array((v, a.coords), shape=a.shape)
                for v, a in zip(values, (k, m), strict=False)
            ),
            None,
        ][:2]
        return ldiv.eigsh(A, len(at), M=M, sigma=sigma, method="arpack")

    w, x = solve(values)
    assert_close("lam", w.detach(), lam, 1e-12)
    before = ldiv.cache_info().factorizations
    for a, bar, got in zip(
        (k, m), bars, torch.autograd.grad(loss(w, x, torch.asarray), values), strict=False
    ):
        expected = bar[a.coords]
        assert np.abs(got.numpy() - expected).max() <= 1e-10 * np.abs(expected).max()
    assert ldiv.cache_info().factorizations == before, "the factor of the shift serves the adjoint"
    d = [torch.tensor(Draw(dtype, 9)(v.shape[0])) for v in values]
    dw, dP = torch.func.jvp(
        lambda v: (lambda w, x: (w, projectors(x)))(*solve(v)),
        ([v.detach() for v in values],),
        (d,),
    )[1]
    dlam, dp = tangent(k, m if generalized else None, at, [t.numpy() for t in d])
    assert_close("dlam", dw, dlam, 1e-10)
    assert np.abs(dP.numpy() - dp).max() <= 1e-10 * np.abs(dp).max()


def tangent(k, m, at, d):
    """(dlam, d(x x^H)) by the whole basis."""
    a, b = k.toarray(), np.eye(k.shape[0]) if m is None else m.toarray()
    da, db = [
        *(
            hermitian(sp.coo_array((t, c.coords), shape=c.shape).toarray())
            for t, c in zip(d, (k, m), strict=False)
        ),
        0 * b,
    ][:2]
    w, v = whole_basis(a, b)
    lam, x = w[at], v[:, at]
    gaps = lam - w[:, None]
    gaps[at, range(len(at))] = np.inf
    y = v.conj().T @ (da @ x - db @ x * lam)
    dx = v @ (y / gaps) - x * (np.sum(x.conj() * (db @ x), axis=0).real / 2)
    dp = dx.T[:, :, None] * x.T.conj()[:, None, :]
    return y[at, range(len(at))].real, dp + dp.conj().mT


@pytest.mark.parametrize(
    ("method", "dtype", "framework"),
    [*product(["arpack", "lobpcg"], ["float64", "complex128"], ["torch"])],
)
def test_operators_matrix_free(method, dtype, framework):
    """A(theta) = theta_0 K + diag theta_1, too large to be written out; for lobpcg also B(theta)
    = theta_2 M.
    """
    k, m = membrane(dtype)
    n, fw = k.shape[0], transforms(framework)
    loss, at = Loss(dtype, n, 3), [n - 3, n - 2, n - 1]
    K_, M_, start = (fw.array(a) for a in (k.toarray(), m.toarray(), Draw(dtype, 6)(n, 3)))
    theta = [np.array(1.1, dtype), Draw("float64", 8)(n).astype(dtype), np.array(0.9, dtype)][
        : 2 + (method == "lobpcg")
    ]

    def apply(p, x):
        return p[0].real * (K_ @ x) + p[1].real[:, None] * x

    def scalar(theta):
        A = ldiv.LinearOperator(apply, (theta[0], theta[1]), shape=(n, n), assume_a="her")
        if method == "arpack":
            return loss(*ldiv.eigsh(A, 3, which="LA", method="arpack"), fw.array)
        B = ldiv.LinearOperator(
            lambda p, x: p.real * (M_ @ x), theta[2], shape=(n, n), assume_a="pos"
        )
        w, X = ldiv.lobpcg(A, start, B=B, tol=1e-13, maxiter=1000)
        up = np.array([2, 1, 0])  # the largest is the first
        return loss(w[up], X[:, up], fw.array)

    a, b = (
        theta[0].real * k.toarray() + np.diag(theta[1].real),
        0.9 * m.toarray() if method == "lobpcg" else np.eye(n),
    )
    _, A_bar, B_bar = formula(a, b, at, loss)
    expected = [inner(A_bar, k.toarray()), A_bar.diagonal().real, inner(B_bar, m.toarray())]
    for got, right in zip(
        fw.gradient(scalar, [fw.array(t) for t in theta]), expected, strict=False
    ):
        assert np.abs(np.asarray(got) - right).max() <= 1e-9 * np.abs(right).max()


# -- batches, and eigenvalues alone -------------------------------------------


@pytest.mark.parametrize(
    ("way", "dtype", "framework"),
    [
        *product(["eigh", "dense", "sparse", "arpack"], ["float64", "complex128"], ["torch"]),
        pytest.param("sparse", "float64", "jax", marks=EXHAUSTIVE),
    ],
)
def test_vmap(way, dtype, framework):
    case = Case(way, dtype, True, INSIDE, framework)
    case.sigma = 0.4
    scales = (1.0, 1.05, 0.95)
    several = [case.fw.array(np.stack([s * x for s in scales])) for x in case.problem.args[:1]]
    both = [*several, case.fw.array(np.stack([case.problem.args[1]] * 3))]
    for args, loss in ((both, case.loss), (several, lambda p: case.loss([*p, case.args[1]]))):
        each = [[x[i] for x in args] for i in range(3)]

        def gradient(x, loss=loss):
            return case.fw.gradient(loss, x)

        one, grad = compiled(framework, loss), compiled(framework, gradient)
        assert_close(
            "vmap",
            compiled(framework, case.fw.vmap(loss))(args),
            np.stack([one(x) for x in each]),
            1e-12,
        )
        bars = [grad(x) for x in each]
        for j, got in enumerate(compiled(framework, case.fw.vmap(gradient))(args)):
            assert_close("vmap of grad", got, np.stack([bar[j] for bar in bars]), 1e-11)


@DTYPE
def test_a_batch_is_its_matrices(dtype):
    """Leading axes of a dense array, and of sparse values."""
    a, b = Whole(dtype, True).args
    several = np.stack([a, 1.1 * a])
    w, v = ldiv.eigh(several, b, subset_by_index=[INSIDE, INSIDE + K - 1])
    assert w.shape == (2, K) and v.shape == (2, N, K)
    A = ldiv.asarray(a)
    values, vectors = ldiv.eigsh(
        A.with_data(np.stack([A.data, 1.1 * A.data])), K, M=ldiv.asarray(b), sigma=0.4
    )
    assert_close("sparse values", values, w, 1e-12)
    for i, scale in enumerate((1.0, 1.1)):
        lam, x = whole_basis(scale * a, b)
        assert_close("lam", w[i], lam[INSIDE : INSIDE + K], 1e-12)
        for got in (v[i], vectors[i]):
            assert_close("x x^H", projectors(got), projectors(x[:, INSIDE : INSIDE + K]), 1e-11)


@pytest.mark.parametrize(
    ("method", "generalized", "framework"),
    [*product(["lapack", "arpack"], [False, True], ["torch"]), ("arpack", True, "jax")],
)
def test_eigenvalues_alone_need_no_solve(method, generalized, framework):
    k, m = membrane("float64")
    fw, at = transforms(framework), [0, 1, 2]
    _, A_bar, B_bar = formula(
        k.toarray(), m.toarray() if generalized else np.eye(k.shape[0]), at, _Squares()
    )
    seen = []

    def loss(values):
        A, M = [
            *(
                ldiv.coo_array((v, a.coords), shape=a.shape)
                for v, a in zip(values, (k, m), strict=False)
            ),
            None,
        ][:2]
        w = ldiv.eigsh(A, 3, M=M, sigma=0.0, method=method, return_eigenvectors=False)
        seen.append(ldiv.cache_info())
        return (w**2).sum()

    found = fw.gradient(loss, [fw.array(a.data) for a in (k, m)[: 1 + generalized]])
    after = ldiv.cache_info()
    assert (after.solves, after.factorizations) == (seen[0].solves, seen[0].factorizations), (
        "no solve in the backward pass"
    )
    for got, bar, a in zip(found, (A_bar, B_bar), (k, m), strict=False):
        expected = bar[a.coords]
        assert np.abs(np.asarray(got) - expected).max() <= 1e-11 * np.abs(expected).max()


class _Squares:
    def cotangents(self, w, x):
        return 2 * w, 0 * x
