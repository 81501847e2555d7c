"""Repeated eigenvalues: functions that no change of basis changes have derivatives, those of
contour integrals of (z B - A)^-1; other functions are refused.
"""

from __future__ import annotations

import re
import warnings
from functools import reduce

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
K = 4  # the lowest eigenvalue of a cube and the three that follow, which are equal


def hermitian(a):
    return (a + a.conj().mT) / 2


# -- matrices with exact repeats ----------------------------------------------


def cube(m, dtype, generalized):
    """(A, B) of m^3 nodes, stiffness and mass as Kronecker sums and products; complex: in other
    phases, which repeats no eigenvalue less.
    """
    line = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(m, m))
    mass = (
        sp.diags_array([1.0, 4.0, 1.0], offsets=[-1, 0, 1], shape=(m, m)) / 6
        if generalized
        else sp.eye_array(m)
    )
    product = lambda *parts: sp.coo_array(reduce(sp.kron, parts))
    a = sp.coo_array(
        product(line, mass, mass) + product(mass, line, mass) + product(mass, mass, line)
    )
    b = product(mass, mass, mass)
    if dtype == "complex128":
        turn = np.exp(2j * np.pi * np.random.default_rng(1).random(m**3))
        a, b = (
            sp.coo_array(
                (c.data * turn[c.coords[0]] * turn[c.coords[1]].conj(), c.coords), shape=c.shape
            )
            for c in (a, b)
        )
    return a, b if generalized else None


def small(dtype, generalized):
    """A = L Q diag(1, 1, 2, 3) Q^H L^H, B = L L^H."""
    draw = Draw(dtype, 2)
    l = np.tril(draw(4, 4)) / 4 + np.eye(4) if generalized else np.eye(4)
    q = np.linalg.qr(draw(4, 4))[0]
    return sp.coo_array(
        hermitian(l @ (q * [1.0, 1, 2, 3]) @ q.conj().T @ l.conj().T)
    ), sp.coo_array(l @ l.conj().T) if generalized else None


class Problem:
    """A matrix pair with k chosen eigenvalues inside of a circle, two directions, and cotangents
    for n x n results.
    """

    def __init__(self, a, b, k, circle, dtype):
        self.a, self.b, self.k, self.dtype = a, b, k, dtype
        self.n = a.shape[0]
        self.draw = Draw(dtype, 7)
        self.d, self.e = ([self.draw(c.nnz) for c in self.pair] for _ in range(2))
        self.u, self.v = (
            self.draw(3, self.n, 2) / self.n**0.5,
            self.draw(3, self.n, 2) / self.n**0.5,
        )
        self.contour = Contour(self, *circle)

    @property
    def pair(self):
        return [self.a] if self.b is None else [self.a, self.b]

    @property
    def values(self):
        return [c.data for c in self.pair]

    def dense(self, values):
        """Hermitian dense (A, B) of values; what is absent is None."""
        full = [
            hermitian(sp.coo_array((v, c.coords), shape=c.shape).toarray())
            for v, c in zip(values, self.pair, strict=True)
        ]
        return [*full, None][:2]

    def matrices(self, values):
        """The arguments of ldiv: (A, M)."""
        arrays = [
            ldiv.coo_array((v, c.coords), shape=c.shape)
            for v, c in zip(values, self.pair, strict=True)
        ]
        return [*arrays, None][:2]


class Contour:
    """F = 1/(2 pi i) contour integral of f(z) (z B - A)^-1 and its derivatives, by the trapezoidal
    rule on a circle: as exact as rounding.

    In the basis of all eigenvectors V, where z B - A is diag(z - lam): no difference of eigenvalues
    is divided by.
    """

    def __init__(self, problem, centre, radius, nodes=96):
        self.problem = problem
        lam, self.V = scipy.linalg.eigh(*problem.dense(problem.values))
        turn = np.exp(2j * np.pi * (np.arange(nodes) + 0.5) / nodes)
        self.z, self.weight = centre + radius * turn, radius * turn / nodes
        self.resolvents = 1 / (self.z[:, None] - lam)

    def _moved(self, values):
        """V^H dA V and V^H dB V."""
        return [0 * self.V if m is None else self._seen(m) for m in self.problem.dense(values)]

    def _seen(self, m):
        return self.V.conj().T @ m @ self.V

    def _whole(self, m):
        """V m V^H; the sum over the circle is real where the matrices are."""
        total = self.V @ m @ self.V.conj().T
        return total if self.problem.dtype == "complex128" else total.real

    def _twice(self, f):
        """1/(2 pi i) contour integral of f(z) / (z - lam_i) / (z - lam_j), for all i and j."""
        return (self.resolvents.T * (self.weight * f(self.z))) @ self.resolvents

    def value(self, f):
        return self._whole(np.diag(self.resolvents.T @ (self.weight * f(self.z))))

    def first(self, f, d):
        dA, dB = self._moved(d)
        return self._whole(dA * self._twice(f) - dB * self._twice(lambda z: z * f(z)))

    def second(self, f, d, e):
        (dA, dB), (eA, eB) = self._moved(d), self._moved(e)
        total = 0
        for z, w, g in zip(self.z, self.weight * f(self.z), self.resolvents, strict=True):
            D, E = dA - z * dB, eA - z * eB
            total = total + w * g[:, None] * ((D * g) @ E + (E * g) @ D) * g
        return self._whole(total)

    def cotangent(self, f, C):
        """The cotangents of A and B for the loss <C, F>, on their patterns."""
        C = self._seen(C)
        both = C * self._twice(f).conj(), -C * self._twice(lambda z: z * f(z)).conj()
        return [
            hermitian(self._whole(m))[c.coords]
            for c, m in zip(self.problem.pair, both, strict=False)
        ]

    def traces(self, f, d, e):
        """tr f(Lam), its slope along d and its second derivative along d and e: of f(z) tr (z B
        - A)^-1 B.
        """
        (dA, dB), (eA, eB) = self._moved(d), self._moved(e)
        value = slope = second = 0
        for z, w, g in zip(self.z, self.weight * f(self.z), self.resolvents, strict=True):
            D, E = g[:, None] * (dA - z * dB), g[:, None] * (eA - z * eB)
            value += w * g.sum()
            slope += w * ((np.diag(D) + np.diag(dB)) * g).sum()
            second += w * (
                (D * E.T * (g[:, None] + g)).sum()
                + (D * (g[:, None] * eB).T).sum()
                + (E * (g[:, None] * dB).T).sum()
            )
        return np.real(value), np.real(slope), np.real(second)


# the circles end between the eigenvalues 1.54 and 2.27 of the cube, 1.76 and 2.68 with its mass
CIRCLE = {False: (1.17, 0.73), True: (1.3, 0.9)}
PROBLEMS = {
    "cube": lambda: Problem(*cube(5, "float64", False), K, CIRCLE[False], "float64"),
    "cube with mass": lambda: Problem(*cube(5, "float64", True), K, CIRCLE[True], "float64"),
    "complex cube with mass": lambda: Problem(
        *cube(5, "complex128", True), K, CIRCLE[True], "complex128"
    ),
    "small": lambda: Problem(*small("float64", False), 2, (1.0, 0.5), "float64"),
    "small complex": lambda: Problem(*small("complex128", False), 2, (1.0, 0.5), "complex128"),
    "small generalized": lambda: Problem(*small("complex128", True), 3, (1.5, 1.0), "complex128"),
}


@pytest.fixture(scope="module")
def problem(request):
    return PROBLEMS[request.param]()


def one(z):
    return 0 * z + 1


def identity(z):
    return z


def rational(z):
    return z / (2 + z * z)


def slope_of_rational(z):
    return (2 - z * z) / (2 + z * z) ** 2


# -- what has derivatives -----------------------------------------------------


def by_eigenspace(A, M, k, v):
    X, H = ldiv.eigenspace(
        A, k, M=M, sigma=0.0, method="arpack" if k + 1 < A.shape[0] else "lapack"
    )
    return X @ (X.conj().mT @ v[0]), X @ (H @ (X.conj().mT @ v[1]))


def by_spectral_function(A, M, k, v):
    return tuple(
        ldiv.spectral_function(f, A, k, M=M, sigma=0.0) @ block
        for f, block in zip((rational, one), v, strict=True)
    )


WAYS = {
    "eigenspace": (by_eigenspace, (one, identity)),
    "spectral_function": (by_spectral_function, (rational, one)),
}


class Case:
    """The loss <U_0, Y_0> + <U_1, Y_1>^2 of two results Y_i = F_i V_i, one way, in one
    framework.
    """

    def __init__(self, problem, way, framework):
        self.problem, self.fw = problem, transforms(framework)
        self.solve, self.f = WAYS[way]
        self.u, self.v = problem.u[:2], problem.v[:2]
        self.x, self.d, self.e = (
            [self.fw.array(x) for x in xs] for xs in (problem.values, problem.d, problem.e)
        )

    def blocks(self, values):
        return self.solve(
            *self.problem.matrices(values), self.problem.k, [self.fw.array(v) for v in self.v]
        )

    def loss(self, values):
        first, second = (
            (self.fw.array(u.conj()) * y).real.sum()
            for u, y in zip(self.u, self.blocks(values), strict=True)
        )
        return first + second**2

    def results(self, of):
        """F_i V_i, or their derivatives, in the reference."""
        return [of(f) @ v for f, v in zip(self.f, self.v, strict=True)]

    def gradient(self):
        contour, (u, v) = self.problem.contour, (self.u, self.v)
        bars = [contour.cotangent(f, a @ b.conj().T) for f, a, b in zip(self.f, u, v, strict=True)]
        weight = 2 * inner(u[1], self.results(contour.value)[1])
        return [a + weight * b for a, b in zip(*bars, strict=True)]

    def second(self):
        contour, d, e = self.problem.contour, self.problem.d, self.problem.e
        s = [
            self.results(of)
            for of in (
                contour.value,
                lambda f: contour.first(f, d),
                lambda f: contour.first(f, e),
                lambda f: contour.second(f, d, e),
            )
        ]
        value, along_d, along_e, both = (inner(self.u[1], y[1]) for y in s)
        return inner(self.u[0], s[3][0]) + 2 * (along_d * along_e + value * both)


def _dot(a, b):
    return sum((x.conj() * y).real.sum() for x, y in zip(a, b, strict=True))


def relative(law, got, expected, tol=1e-9):
    got, expected = np.asarray(got), np.asarray(expected)
    error = np.abs(got - expected).max() / np.abs(expected).max()
    assert error <= tol, f"{law}: off by {error:.1e}"


def compiled(framework, f):
    """JAX compiles once what would be many small programs."""
    return jax.jit(f) if framework == "jax" else f


WAY = pytest.mark.parametrize("way", WAYS)
IN_TORCH = [pytest.param(name, "torch", id=f"{name}-torch") for name in PROBLEMS]
# JAX compiles for half a minute what the laws of front ends show of the rules that are met here
IN_JAX = pytest.param(
    "small generalized", "jax", id="small generalized-jax", marks=pytest.mark.exhaustive
)
RUN = pytest.mark.parametrize(("problem", "framework"), [*IN_TORCH, IN_JAX], indirect=["problem"])


@WAY
@RUN
def test_first_order(problem, way, framework):
    case = Case(problem, way, framework)
    value, tangent = compiled(framework, lambda x, d: case.fw.jvp(case.blocks, (x,), (d,)))(
        case.x, case.d
    )
    for y, dy, expected, slope in zip(
        value,
        tangent,
        case.results(problem.contour.value),
        case.results(lambda f: problem.contour.first(f, problem.d)),
        strict=True,
    ):
        relative("F V", y, expected, 1e-11)
        relative("dF V", dy, slope)
    for got, expected in zip(
        compiled(framework, lambda x: case.fw.gradient(case.loss, x))(case.x),
        case.gradient(),
        strict=True,
    ):
        relative("gradient", got, expected)


@WAY
@RUN
def test_second_order(problem, way, framework):
    case = Case(problem, way, framework)
    _second_order(framework, case.loss, case.x, case.d, case.e, case.second())


def _second_order(framework, loss, x, d, e, expected):
    fw = transforms(framework)

    def every(x, d, e):
        def tangent(x):
            return fw.jvp(loss, (x,), (d,))[1]

        def slope(x):
            return _dot(fw.gradient(loss, x), d)

        return {
            "forward over forward": fw.jvp(tangent, (x,), (e,))[1],
            "forward over reverse": fw.jvp(slope, (x,), (e,))[1],
            "reverse over forward": _dot(fw.gradient(tangent, x), e),
            "reverse over reverse": _dot(fw.gradient(slope, x), e),
        }

    for mode, got in compiled(framework, every)(x, d, e).items():
        relative(mode, got, expected)


@RUN
def test_spectral_sum(problem, framework):
    fw, contour = transforms(framework), problem.contour
    x, d, e = ([fw.array(v) for v in vs] for vs in (problem.values, problem.d, problem.e))

    def total(values):
        A, M = problem.matrices(values)
        return ldiv.spectral_sum(rational, A, problem.k, M=M, sigma=0.0)

    value, slope, second = contour.traces(rational, problem.d, problem.e)
    for got, expected in zip(
        compiled(framework, lambda x, d: fw.jvp(total, (x,), (d,)))(x, d),
        (value, slope),
        strict=True,
    ):
        relative("tr f and its tangent", got, expected)
    bars = contour.value(slope_of_rational), -contour.value(lambda z: z * slope_of_rational(z))
    for got, bar, c in zip(
        compiled(framework, lambda x: fw.gradient(total, x))(x), bars, problem.pair, strict=False
    ):
        relative("gradient", got, bar[c.coords])
    _second_order(framework, total, x, d, e, second)


@RUN
def test_pairs_with_whole_clusters(problem, framework):
    """Through eigsh: the sum of the eigenvalues and the projector X X^H. A tangent cannot know
    what comes after it, and is to be told.
    """
    fw, contour = transforms(framework), problem.contour
    x, d = ([fw.array(v) for v in vs] for vs in (problem.values, problem.d))
    u, v = fw.array(problem.u[0]), fw.array(problem.v[0])

    def both(values, choice="raise"):
        A, M = problem.matrices(values)
        w, X = ldiv.eigsh(A, problem.k, M=M, sigma=0.0, on_degenerate=choice)
        return w.sum(), X @ (X.conj().mT @ v)

    def loss(values):
        total, y = both(values)
        return total**2 + (u.conj() * y).real.sum()

    total, slope, _ = contour.traces(identity, problem.d, problem.e)
    with pytest.raises(Exception, match="eigenspace"):
        jax.block_until_ready(compiled(framework, lambda x, d: fw.jvp(both, (x,), (d,)))(x, d))
    value, tangent = compiled(
        framework, lambda x, d: fw.jvp(lambda values: both(values, "drop"), (x,), (d,))
    )(x, d)
    relative("sum of lam", value[0], total, 1e-11)
    relative("its tangent", tangent[0], slope)
    relative("X X^H", value[1], contour.value(one) @ problem.v[0], 1e-11)
    relative("its tangent", tangent[1], contour.first(one, problem.d) @ problem.v[0])
    bars = contour.cotangent(one, problem.u[0] @ problem.v[0].conj().T)
    of_sum = contour.value(one), -contour.value(identity)
    for got, bar, s, c in zip(
        compiled(framework, lambda x: fw.gradient(loss, x))(x),
        bars,
        of_sum,
        problem.pair,
        strict=False,
    ):
        relative("gradient", got, bar + 2 * total * s[c.coords])


# -- what has none ------------------------------------------------------------


def torch_cube(dtype="float64"):
    a, b = cube(4, dtype, True)
    values = [torch.tensor(c.data, requires_grad=True) for c in (a, b)]
    return values, [
        ldiv.coo_array((v, c.coords), shape=c.shape) for v, c in zip(values, (a, b), strict=True)
    ]


def overlap(x):
    """x_i^H C x_j for a fixed C that knows nothing of the cube."""
    C = (
        torch.tensor(Draw("complex128" if x.is_complex() else "float64", 5)(x.shape[0], x.shape[0]))
        / x.shape[0]
    )
    return x.mH @ ((C + C.mH) / 2) @ x


LOSSES = {
    "one vector of the three": lambda w, x: overlap(x)[1, 1].real,
    "two vectors of the three": lambda w, x: overlap(x)[1, 1].real + overlap(x)[2, 2].real,
    "their fourth powers": lambda w, x: (x.conj() * x).real.square().sum(),
    "one eigenvalue of the three": lambda w, x: w[1],
    "their spread": lambda w, x: (w[3] - w[1]) + 2 * (w[2] - w[0]),
    "weights within the cluster": lambda w, x: (w * torch.arange(1.0, 5.0)).sum(),
    # has a derivative, but through spectral_function alone
    "X Lam X^H": lambda w, x: (w * overlap(x).diagonal().real).sum(),
}


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("method", ["lapack", "arpack"])
def test_dependence_on_the_basis_is_refused(loss, dtype, method):
    values, (A, M) = torch_cube(dtype)
    w, x = ldiv.eigsh(A, K, M=M, sigma=0.0, method=method)
    with pytest.raises(ldiv.NotDifferentiableError) as error:
        torch.autograd.grad(LOSSES[loss](w, x), values)
    _says_enough(str(error.value), w)


def _says_enough(message, w):
    """The cluster, the gap, and the ways out."""
    assert re.search(r"\b1\b.*\b3\b", message, re.DOTALL), "the cluster: pairs 1 to 3"
    assert "gap" in message
    assert "eigenspace" in message and "spectral_" in message


@pytest.mark.parametrize("method", ["lapack", "arpack"])
def test_dependence_on_the_phase_is_refused(method):
    """Also where no eigenvalue is repeated."""
    values, (A, M) = torch_cube("complex128")
    _, x = ldiv.eigsh(A, 1, M=M, sigma=0.0, method=method)
    for loss in (
        lambda x: x[5, 0].real,
        lambda x: (x**2).real.sum(),
        lambda x: x.imag.square().sum(),
    ):
        with pytest.raises(ldiv.NotDifferentiableError, match="phase"):
            torch.autograd.grad(loss(x), values, retain_graph=True)
    torch.autograd.grad((x.conj() * x).real.square().sum(), values)


def test_the_sign_of_a_real_vector_is_no_phase():
    values, (A, M) = torch_cube()
    _, x = ldiv.eigsh(A, 1, M=M, sigma=0.0)
    assert all(g.isfinite().all() for g in torch.autograd.grad(x[5, 0] ** 3, values))


@pytest.mark.parametrize("loss", ["one vector of the three", "one eigenvalue of the three"])
def test_warn_and_drop(loss):
    found = []
    for choice in ("warn", "drop"):
        values, (A, M) = torch_cube()
        w, x = ldiv.eigsh(A, K, M=M, sigma=0.0, on_degenerate=choice)
        scalar = LOSSES[loss](w, x)
        if choice == "warn":
            with pytest.warns(UserWarning, match="eigenspace"):
                found.append(torch.autograd.grad(scalar, values))
        else:
            found.append(torch.autograd.grad(scalar, values))
    for warned, dropped in zip(*found, strict=True):
        assert dropped.isfinite().all()
        torch.testing.assert_close(warned, dropped)


def test_an_unknown_choice_is_refused():
    _, (A, M) = torch_cube()
    with pytest.raises(ValueError, match="on_degenerate"):
        ldiv.eigsh(A, K, M=M, sigma=0.0, on_degenerate="ignore")


def test_jax_refuses_too():
    a, _ = cube(4, "float64", False)

    def loss(v):
        w, _ = ldiv.eigsh(ldiv.coo_array((v, a.coords), shape=a.shape), K, sigma=0.0)
        return w[1]

    with pytest.raises(Exception, match="eigenspace"):
        jax.block_until_ready(jax.jit(jax.grad(loss))(jax.numpy.asarray(a.data)))


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("method", ["lapack", "arpack"])
def test_a_cut_through_a_cluster_is_told(k, method):
    """The eigenvalues have values; what derives from them is ill posed, and more pairs are the
    way out.
    """
    values, (A, M) = torch_cube()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        w, x = ldiv.eigsh(A, k, M=M, sigma=0.0, method=method)
        try:
            torch.autograd.grad(overlap(x).diagonal().sum(), values)
        except ldiv.NotDifferentiableError as error:
            told.append(warnings.WarningMessage(error, UserWarning, "", 0))
    messages = [str(t.message) for t in told]
    assert any("gap" in m and re.search(rf"k ?[=+] ?({K}|{k + 1}|1)\b", m) for m in messages), (
        messages
    )
    assert_close("lam", w.detach(), ldiv.eigsh(A, K, M=M, sigma=0.0)[0].detach()[:k])


# -- law: neither the basis within a cluster, nor a phase, nor the method changes a result ---


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("generalized", [False, True], ids=["standard", "generalized"])
def test_every_basis_gives_the_same_gradient(dtype, generalized):
    a, b = cube(5, dtype, generalized)
    problem = Problem(a, b, K, CIRCLE[generalized], dtype)
    u, v = torch.tensor(problem.u[0]), torch.tensor(problem.v[0])
    draw = Draw(dtype, 21)
    ways = {"lapack": lambda A, M: ldiv.eigsh(A, K, M=M, sigma=0.0, method="lapack")}
    for i in range(3):
        start = torch.tensor(draw(problem.n))
        ways[f"arpack from start {i}"] = lambda A, M, start=start: ldiv.eigsh(
            A, K, M=M, sigma=0.0, method="arpack", v0=start
        )
        block = torch.tensor(draw(problem.n, K))
        ways[f"lobpcg from start {i}"] = lambda A, M, block=block: ldiv.lobpcg(
            A, block, B=M, largest=False, tol=1e-11, maxiter=300
        )
    bases, found = [], {}
    for name, way in ways.items():
        values = [torch.tensor(x, requires_grad=True) for x in problem.values]
        w, x = way(*problem.matrices(values))
        bases.append(x.detach())
        loss = (
            (w**2).sum()
            + 3 * (u.conj() * (x @ (x.mH @ v))).real.sum()
            + w[0] * overlap(x)[0, 0].real
        )
        found[name] = [g.numpy() for g in torch.autograd.grad(loss, values)]
    assert min(abs(x - bases[0]).max() for x in bases[1:]) > 1e-3, "the bases do differ"
    for name, bars in found.items():
        for got, expected in zip(bars, found["lapack"], strict=True):
            relative(name, got, expected, 1e-8 if "lobpcg" in name else 1e-9)


# -- a null space that A keeps apart ------------------------------------------


@pytest.mark.parametrize("dtype", ["float64", "complex128", "float32"])
@pytest.mark.parametrize("copies", [1, 3])
@pytest.mark.parametrize("method", ["arpack", "lobpcg"])
def test_a_null_space_apart_is_seen(method, copies, dtype):
    """The products A v of no start have a part in it; also of a pencil, in any units."""
    n, tiny = 60, 100 * np.finfo(dtype).eps
    rest = np.linspace(1, 9, n - copies)
    A = sp.diags_array(np.r_[np.zeros(copies), rest]).astype(dtype)
    expected = np.r_[np.zeros(copies), rest][: copies + 1]
    four = sp.diags_array(np.full(n, 4.0)).astype(dtype)
    for scale, M, unit in ((1.0, None, 1.0), (1e-20, None, 1.0), (1.0, four, 4.0)):
        options = {"M": M, "k": copies + 1, "method": method, "return_eigenvectors": False}
        found = ldiv.eigsh(A * scale, which="SA", **options)
        np.testing.assert_allclose(found / scale * unit, expected, rtol=tiny, atol=9 * tiny)
        found = -ldiv.eigsh(A * -scale, which="LA", **options)[::-1]
        np.testing.assert_allclose(found / scale * unit, expected, rtol=tiny, atol=9 * tiny)


def test_all_eigenvalues_are_the_default_of_spectral_functions():
    a = np.random.default_rng(0).standard_normal((5, 5))
    a = a + a.T
    close = np.testing.assert_allclose

    def cube(lam):
        return lam**3

    close(ldiv.spectral_sum(cube, a), np.trace(a @ a @ a), rtol=1e-11)
    close(ldiv.spectral_function(cube, a) @ np.eye(5), a @ a @ a, atol=1e-11)
    close(ldiv.spectral_sum(cube, np.stack([a, 2 * a])), np.trace(a @ a @ a) * np.array([1, 8]))
    sparse = ldiv.diags_array([np.arange(1.0, 301.0)], offsets=[0])
    close(ldiv.spectral_sum(lambda lam: lam, sparse), 300 * 301 / 2, rtol=1e-12)
    close(ldiv.eigsh(sparse, 299, which="SA")[0], np.arange(1.0, 300.0), rtol=1e-12)
    close(ldiv.vjp(lambda a: ldiv.spectral_sum(cube, a), 2 * np.eye(3))[1](1.0)[0], 12 * np.eye(3))


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_all_eigenvalues_of_a_dense_matrix_are_a_function_of_it(dtype):
    torch.manual_seed(0)
    a = torch.randn(2, 5, 5, dtype=dtype)
    a = (a + a.mH).requires_grad_()
    points = []

    def f(lam):
        points.append(lam.shape[-1] if lam.ndim == 2 else lam[0].numel())
        return torch.exp(-lam * lam / 20)

    def of(F):
        return (F.abs() ** 2 * torch.arange(25.0, dtype=torch.float64).reshape(5, 5)).sum()

    (got,) = torch.autograd.grad(of(ldiv.spectral_function(f, a).toarray()), a)
    # the eigenvalues, and 12 points between any two of them, each pair once
    assert set(points) == {5, 12 * 15} and points.count(12 * 15) == 1
    w, v = torch.linalg.eigh(a)
    (expected,) = torch.autograd.grad(of((v * f(w)[:, None]) @ v.mH), a)
    torch.testing.assert_close(got, (expected + expected.mH) / 2, rtol=1e-10, atol=1e-12)
    with pytest.raises(ldiv.NotSymmetricError, match="must be Hermitian"):
        ldiv.spectral_function(f, torch.triu(a.detach()))
    with pytest.raises(ValueError, match="finite"):
        ldiv.spectral_sum(f, a.detach() * torch.nan)
