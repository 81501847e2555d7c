"""gradcheck: right functions are not accused, structure is respected, reports say what was seen."""

from __future__ import annotations

import numpy as np
import pytest

import ldiv
from ldiv import (
    TooNoisyError,
    WrongDerivativeError,
    gradcheck,
    hermitian,
    positive_definite,
    symmetric,
    triangular,
)
from ldiv.checker.modes import MODES
from ldiv.checker.references import derivative
from ldiv.checker.tangents import exchange

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")
jnp = jax.numpy
jax.config.update("jax_enable_x64", True)

N = 5
RNG = np.random.default_rng(7)
a, b = RNG.standard_normal((N, N)) + 4 * np.eye(N), RNG.standard_normal((N, 2))
z = a + 1j * RNG.standard_normal((N, N))
A, B, Z, T = (torch.tensor(x) for x in (a, b, z, RNG.standard_normal((7, 3))))
S, H, P, Q = A + A.mT, Z + Z.mH, A @ A.mT, Z @ Z.mH
SPARSE = ldiv.coo_array(
    (torch.tensor(RNG.uniform(1, 2, 7)), ([0, 1, 2, 3, 4, 0, 0], [0, 1, 2, 3, 4, 1, 1])),
    shape=(N, N),
)
LAPLACE = ldiv.diags_array(
    [torch.full((N - 1,), -1.0), torch.full((N,), 2.5), torch.full((N - 1,), -1.0)],
    offsets=[-1, 0, 1],
).astype(torch.float64)


def projector(a):
    return ldiv.eigsh(a, 2, which="SA")[1].square().sum(axis=1)


def first_three(a, b):
    return ldiv.solve(a, b)[:3], torch.argmax(a), b.sum()


RIGHT = {
    "ldiv.solve": (ldiv.solve, A, B),
    "ldiv.solve, complex": (ldiv.solve, Z, B + 0j),
    "ldiv.solve, real A, complex b": (lambda a, b: ldiv.solve(a.to(b.dtype), b), A, B + 1j),
    "ldiv.solve, batch": (ldiv.solve, torch.stack([A, 2 * A]), torch.stack([B, -B])),
    "ldiv.solve, symmetric": (lambda a, b: ldiv.solve(a, b, assume_a="sym"), symmetric(S), B),
    "ldiv.solve, Hermitian": (lambda a, b: ldiv.solve(a, b, assume_a="her"), hermitian(H), B + 0j),
    "ldiv.solve, definite": (
        lambda a, b: ldiv.solve(a, b, assume_a="pos"),
        positive_definite(P),
        B,
    ),
    "ldiv.solve, sparse": (ldiv.solve, SPARSE, B),
    "ldiv.solve, sparse symmetric": (
        lambda a, b: ldiv.solve(a, b, assume_a="sym"),
        symmetric(LAPLACE),
        B,
    ),
    "ldiv.solve, sparse definite": (
        lambda a, b: ldiv.solve(a, b, assume_a="pos"),
        positive_definite(LAPLACE),
        B,
    ),
    "ldiv.solve, diagonal": (
        ldiv.solve,
        ldiv.Matrix(ldiv.structures.Diagonal(N), torch.arange(1.0, N + 1).double()),
        B,
    ),
    "ldiv.solve_triangular": (ldiv.solve_triangular, triangular(torch.triu(A), lower=False), B),
    "ldiv.solve_triangular, unit": (
        lambda l, b: ldiv.solve_triangular(l, b, lower=True, unit_diagonal=True),
        triangular(torch.tril(A), unit_diagonal=True),
        B,
    ),
    "ldiv.solve_triangular, unmarked": (
        lambda l, b: ldiv.solve_triangular(l, b, lower=True),
        torch.tril(A),
        B,
    ),
    "ldiv.cholesky": (lambda a: ldiv.cholesky(a), positive_definite(P)),
    "ldiv.lstsq": (lambda a, b: ldiv.lstsq(a, b).x, T, torch.tensor(RNG.standard_normal((7, 2)))),
    "ldiv.det": (ldiv.det, A),
    "ldiv.slogdet": (lambda a: ldiv.slogdet(a)[1], A),
    "ldiv.logdet, sparse": (lambda a: ldiv.logdet(a, assume_a="pos"), positive_definite(LAPLACE)),
    "ldiv.qr": (ldiv.qr, A),
    "ldiv.eigh, values": (lambda a: ldiv.eigh(a)[0], hermitian(Q)),
    "ldiv.eigsh, vectors squared": (projector, symmetric(S)),
    "ldiv.quad_form": (lambda a, x: ldiv.quad_form(a, x), symmetric(S), B[:, 0]),
    "ldiv SparseArray products": (lambda a, b: (a @ a).toarray() @ b, SPARSE, B),
    "outputs that are ignored": (first_three, A, B),
    "torch.exp": (torch.exp, B),
    "torch.sin of complex numbers": (torch.sin, Z),
    "torch.abs of complex numbers": (torch.abs, Z),
    "torch.fft": (torch.fft.fft, B),
    "torch.relu": (torch.relu, B),
    "torch.linalg.inv": (torch.linalg.inv, A),
    "torch.linalg.norm": (torch.linalg.norm, A),
    "torch.linalg.cholesky": (torch.linalg.cholesky, positive_definite(P)),
    "torch.linalg.eigvalsh, 2 x 2": (
        torch.linalg.eigvalsh,
        symmetric(torch.tensor([[2.0, 1.0], [1.0, 5.0]]).double()),
    ),
    "torch.linalg.eigvalsh, complex": (torch.linalg.eigvalsh, hermitian(H)),
    "torch.linalg.svdvals": (torch.linalg.svdvals, A),
    "torch.matmul": (torch.matmul, Z, B + 0j),
    "torch, no dependence": (lambda x, y: x * 2 + 0 * y.sum(), B, A),
    "torch, large offset": (lambda x: 1e6 + x, B),
    "torch, tiny numbers": (lambda x: x * x, 1e-30 * B),
    "jax.numpy.tanh": (jnp.tanh, jnp.asarray(b)),
    "jax.numpy, complex": (lambda x: jnp.abs(x) ** 2 + 1j * x, jnp.asarray(z)),
    "numpy, ldiv.solve": (ldiv.solve, a, b),
    "numpy, ldiv.solve, complex": (ldiv.solve, z, b + 0j),
    "numpy, ldiv.eigsh": (
        lambda a: ldiv.eigsh(a, 2, which="SA", return_eigenvectors=False),
        symmetric(a + a.T),
    ),
}


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("name", RIGHT)
def test_a_right_function_is_not_accused(name, seed):
    f, *args = RIGHT[name]
    report = gradcheck(f, *args, seed=seed)
    assert report.ok and report
    assert {"vjp", "jvp", "vjp against jvp"} <= {g.mode for g in report.findings}


@pytest.mark.parametrize(
    "name",
    [
        "ldiv.solve, symmetric",
        "ldiv.solve, Hermitian",
        "ldiv.solve, sparse",
        "ldiv.cholesky",
        "numpy, ldiv.solve",
    ],
)
def test_entry_by_entry(name):
    f, *args = RIGHT[name]
    assert gradcheck(f, *args, exhaustive=True).ok


def test_every_mode_is_judged():
    report = gradcheck(ldiv.solve, A, B)
    assert {g.mode for g in report.findings} == set(MODES) - {"gauge"} and not report.refused, (
        "there are no eigenvectors"
    )
    for mode in set(MODES) - {"gauge"}:
        assert {g.mode for g in gradcheck(ldiv.solve, A, B, modes=[mode]).findings} == {mode}


def test_the_entry_is_named():
    class Wrong(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x):
            return x**2

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx, g):
            bar = 2 * g * ctx.saved_tensors[0]
            bar[2, 1] *= 1.5
            return bar

    report = gradcheck(Wrong.apply, B, modes=["vjp"], exhaustive=True, raise_exception=False)
    assert not report
    assert "vjp, argument 0 at [2, 1] (1 of 10 entries): WRONG" in str(report)
    everything = gradcheck(Wrong.apply, B, raise_exception=False)
    assert "jvp" in everything.refused, "there is no forward mode, and nobody asked for it"
    with pytest.raises((NotImplementedError, RuntimeError)):
        gradcheck(Wrong.apply, B, modes=["jvp"])


def test_perturbations_stay_definite():
    seen = []

    def spy(a):
        seen.append(float(torch.linalg.eigvalsh(a.detach())[0]))
        return torch.linalg.cholesky(a).sum()

    weak = torch.diag(torch.tensor([1e-6, 1.0, 2.0], dtype=torch.float64)) + 0.0
    gradcheck(spy, positive_definite(weak), modes=["vjp"], exhaustive=True)
    assert min(seen) > 0 and len(seen) > 10


def test_directions_stay_in_their_space():
    args = [
        hermitian(H),
        symmetric(S),
        symmetric(LAPLACE),
        triangular(A, unit_diagonal=True),
        triangular(SPARSE, lower=False),
    ]
    sizes = [N * N, N * (N + 1) // 2, N + N - 1, N * (N - 1) // 2, 7]
    for arg, size in zip(args, sizes, strict=True):
        basis = [d for _, (d,) in arg.basis()]
        assert (
            len(basis)
            == size
            == np.linalg.matrix_rank(
                np.array([np.r_[d.real.ravel(), d.imag.ravel()] for d in basis])
            )
        )
        for d in [*basis, *arg.random(np.random.default_rng(0))]:
            np.testing.assert_allclose(arg.project(d), d, atol=1e-13)


def test_exchange_is_the_transpose():
    values = np.arange(1.0, 5.0)
    m = ldiv.coo_array((values, ([0, 1, 0, 2], [1, 0, 2, 2])), shape=(3, 3))
    np.testing.assert_array_equal(exchange(m)(values), [2, 1, 0, 4])
    assert exchange(SPARSE) is None, "duplicates"


# -- references ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("g", "exact"),
    [
        (np.exp, 1.0),
        (lambda t: np.sin(300 * t), 300.0),
        (lambda t: 1 / (0.01 + t), -1e4),
        (lambda t: np.sqrt(1e-3 + t), 0.5 / np.sqrt(1e-3)),
    ],
)
def test_the_bar_holds(g, exact):
    rng = np.random.default_rng(0)
    for noise in 20 * (0, 1e-12, 1e-8, 1e-5):
        size = np.array([abs(g(0.0))])
        value, bar = derivative(
            lambda t, noise=noise, size=size: (
                np.array([g(t)]) + noise * size * rng.standard_normal()
            ),
            size,
        )
        assert abs(value - exact) <= bar
        if noise == 0:
            assert bar <= 1e-5 * abs(exact)


def test_a_complex_step_is_kept_only_where_it_agrees():
    size = np.ones(1)
    value, bar = derivative(
        lambda t: np.array([np.exp(t)]), size, lambda h: np.array([np.exp(1j * h)])
    )
    assert value == 1 and bar <= 1e-9
    value, _ = derivative(lambda t: np.array([np.exp(t)]), size, lambda h: np.array([2j * h]))
    np.testing.assert_allclose(value, 1, rtol=1e-8)


@pytest.mark.parametrize(
    ("f", "x"),
    [
        (torch.relu, torch.zeros(3)),
        (torch.max, torch.ones(3)),
        (lambda x: x.clamp(max=1.0), torch.tensor([0.5, 1.0, 2.0])),
    ],
)
def test_a_kink_is_not_a_wrong_derivative(f, x):
    with pytest.raises(TooNoisyError, match="kink"):
        gradcheck(f, x.double())
    report = gradcheck(f, x.double(), modes=["vmap", "reverse over reverse"], raise_exception=False)
    assert not report.ok and {g.mode for g in report.noisy} == {"vjp"}, "no mode passes unjudged"
    gradcheck(f, torch.tensor([1.1, 0.3, 0.4]).double())


@pytest.mark.parametrize("f", [lambda a: ldiv.solve(a, B[:, 0]), lambda a: ldiv.slogdet(a)[1]])
@pytest.mark.parametrize("exponent", [5, 7])
def test_an_ill_conditioned_matrix_is_judged(f, exponent):
    """A step must be small beside the distance to the next singular matrix: 1e-7 of the matrix."""
    rng = np.random.default_rng(exponent)
    u, v = (np.linalg.qr(rng.standard_normal((N, N)))[0] for _ in range(2))
    assert gradcheck(f, torch.tensor(u @ np.diag(np.logspace(0, -exponent, N)) @ v))


@pytest.mark.parametrize("exponent", [3, 6, 8, 10])
def test_a_nearly_singular_matrix_is_right_or_noisy(exponent):
    near = torch.tensor([[1.0, 2.0], [2.0, 4 + 10.0**-exponent]], dtype=torch.float64)
    for seed in range(3):
        report = gradcheck(
            ldiv.solve, near, torch.ones(2).double(), seed=seed, raise_exception=False
        )
        assert not report.failures and (report.ok or exponent > 3)


# -- what cannot be judged, or is refused -------------------------------------


def test_single_precision_inside_is_noise_or_right_within_its_bar():
    assert not gradcheck(
        lambda x: (x.float() ** 3).double(), B, modes=["vjp"], rtol=1e-6, raise_exception=False
    ).failures


def test_a_jump_is_noise():
    with pytest.raises(TooNoisyError, match="kink"):
        gradcheck(
            lambda x: torch.where(x > x.detach().mean(), x, x + torch.sin(1e12 * x).detach()), B
        )


def test_nothing_nearby():
    first = B.clone()
    with pytest.raises(TooNoisyError, match="no neighbor"):
        gradcheck(
            lambda x: x if bool((x.detach() == first).all()) else x * torch.nan, B, modes=["vjp"]
        )


def test_a_loss_that_depends_on_a_basis_is_named():
    with pytest.raises(ldiv.NotDifferentiableError):
        gradcheck(
            lambda a: ldiv.eigsh(a, 2, which="SA")[1],
            symmetric(torch.diag(torch.tensor([1.0, 1.0, 2.0, 3.0]).double())),
        )


def test_what_is_refused():
    with pytest.raises(TypeError, match="float64 or complex128"):
        gradcheck(torch.sin, torch.ones(2))
    with pytest.raises(TypeError, match="NumPy, PyTorch or JAX array"):
        gradcheck(torch.sin, 1.0)
    with pytest.raises(ValueError, match="at least one argument"):
        gradcheck(lambda: B)
    with pytest.raises(TypeError, match="real or complex values"):
        gradcheck(torch.argmax, B)
    with pytest.raises(ValueError, match="modes"):
        gradcheck(ldiv.solve, a, b, modes=["vmap"])
    with pytest.raises(ValueError, match="none seen"):
        gradcheck(ldiv.solve, A, B, modes=["gauge"])
    with pytest.raises(ldiv.NotSymmetricError):
        symmetric(A)
    with pytest.raises(ldiv.NotPositiveDefiniteError):
        positive_definite(-P)
    with pytest.raises(ldiv.NotPositiveDefiniteError):  # its eigenvalue nearest to 0 is positive
        positive_definite(ldiv.diags_array(np.r_[-50.0, np.ones(1200)]))
    with pytest.raises(TypeError, match="duplicates"):
        symmetric(SPARSE)
    with pytest.raises(TypeError, match="A: expected a NumPy, PyTorch or JAX array, got a list"):
        symmetric([[1.0]])
    with pytest.raises(ValueError, match="A: expected a square matrix, got 7 x 3"):
        hermitian(T)
    with pytest.raises(TypeError, match="values are arrays, got dict"):
        gradcheck(lambda x: {"y": x}, B)
    with pytest.raises(TypeError, match="L: expected a NumPy, PyTorch or JAX array, got a Matrix"):
        triangular(ldiv.Matrix(ldiv.structures.Diagonal(N), B[:, 0]))


def test_the_entry_by_entry_gradient_of_other_checkers_is_wrong_here():
    """One entry at a time leaves the symmetric matrices: eigvalsh reads a triangle, and its
    gradient is that of the symmetric part.
    """
    small = torch.tensor([[2.0, 1.0], [1.0, 5.0]]).double()
    assert gradcheck(torch.linalg.eigvalsh, symmetric(small), exhaustive=True).ok
    with pytest.raises(WrongDerivativeError):
        gradcheck(torch.linalg.eigvalsh, small, exhaustive=True)


# -- gauges -------------------------------------------------------------------

TWICE = torch.tensor(np.linalg.qr(RNG.standard_normal((N, N)))[0])
REPEATED = TWICE @ torch.diag(torch.tensor([1.0, 1.0, 2.0, 3.0, 4.0]).double()) @ TWICE.mT
EIGENVECTORS = {
    "ldiv.eigsh": lambda a: ldiv.eigsh(a, 2, which="SA")[1],
    "ldiv.eigh": lambda a: ldiv.eigh(a)[1][:, :2],
    "ldiv.svds": lambda a: ldiv.svds(a, 2)[0],
    "torch.linalg.eigh": lambda a: torch.linalg.eigh(a)[1][:, :2],
    "torch.linalg.svd": lambda a: torch.linalg.svd(a)[0][:, :2],
    "torch.linalg.svd, full": lambda a: torch.linalg.svd(a[:, :3])[0][:, :2],
}


@pytest.mark.parametrize("name", EIGENVECTORS)
def test_a_loss_that_depends_on_signs_is_named(name):
    vectors, weights = EIGENVECTORS[name], B
    with pytest.raises(WrongDerivativeError, match="signs or phases of eigenvectors"):
        gradcheck(lambda a: (vectors(a) * weights).sum(), symmetric(S), modes=["gauge"])
    with pytest.raises(WrongDerivativeError, match="signs or phases of eigenvectors"):
        gradcheck(
            lambda a: (vectors(a)[:, 0] @ weights[:, 0]) * (vectors(a)[:, 1] @ weights[:, 1]),
            symmetric(S),
            modes=["gauge"],
        )
    report = gradcheck(
        lambda a: vectors(a) @ vectors(a).mT,
        symmetric(S),
        modes=["gauge", "vjp", "forward over reverse"],
    )
    assert [g.mode for g in report.findings] == ["gauge", "gauge", "vjp", "forward over reverse"]


@pytest.mark.parametrize("name", ["ldiv.eigsh", "ldiv.eigh", "torch.linalg.eigh"])
def test_a_loss_that_depends_on_a_basis_is_named_by_its_values(name):
    vectors = EIGENVECTORS[name]
    with pytest.raises(WrongDerivativeError, match="basis inside a repeated eigenvalue"):
        gradcheck(lambda a: vectors(a).square(), symmetric(REPEATED), modes=["gauge"])
    gradcheck(lambda a: vectors(a).square().sum(axis=1), symmetric(REPEATED), modes=["gauge"])


def test_the_basis_of_an_eigenspace():
    with pytest.raises(WrongDerivativeError, match="depend on"):
        gradcheck(
            lambda a: ldiv.eigenspace(a, 2, which="SA")[0].square(), symmetric(S), modes=["gauge"]
        )
    gradcheck(
        lambda a: ldiv.spectral_function(torch.exp, a, 2, which="SA") @ B,
        symmetric(REPEATED),
        modes=["gauge", "vjp", "jvp"],
    )


def test_gauges_of_numpy_and_jax():
    a = symmetric(S.numpy())
    with pytest.raises(WrongDerivativeError, match="signs"):
        gradcheck(lambda a: ldiv.eigsh(a, 2, which="SA"), a, modes=["gauge"])
    with pytest.raises(WrongDerivativeError, match="phases"):
        gradcheck(
            lambda a: jnp.linalg.eigh(a)[1] * jnp.arange(N),
            hermitian(jnp.asarray(H.numpy())),
            modes=["gauge"],
        )
    gradcheck(
        lambda a: jnp.abs(jnp.linalg.eigh(a).eigenvectors),
        hermitian(jnp.asarray(H.numpy())),
        modes=["gauge"],
    )


def test_orthonormal_columns_stay_so():
    q = torch.linalg.qr(Z)[0][:, :3]
    mark = ldiv.orthonormal(q)
    tangents = [d for _, (d,) in mark.basis()]
    for d in tangents:
        np.testing.assert_allclose(q.numpy().conj().T @ d + d.conj().T @ q.numpy(), 0, atol=1e-13)
    assert (
        np.linalg.matrix_rank(np.array([np.r_[d.real.ravel(), d.imag.ravel()] for d in tangents]))
        == 2 * N * 3 - 3 * 3
    )
    # right along the manifold, and across it anything
    wrong = type("Wrong", (torch.autograd.Function,), {})
    wrong.generate_vmap_rule = True
    wrong.forward = staticmethod(lambda x: x.mH @ x)
    wrong.setup_context = staticmethod(lambda ctx, inputs, output: ctx.save_for_backward(*inputs))
    wrong.backward = staticmethod(lambda ctx, g: 0 * ctx.saved_tensors[0] @ g)
    assert gradcheck(wrong.apply, mark, modes=["vjp"]).ok
    assert not gradcheck(wrong.apply, q, modes=["vjp"], raise_exception=False).ok
    with pytest.raises(ValueError, match="orthonormal columns"):
        ldiv.orthonormal(A)
