"""gradcheck: right functions are not accused, structure is respected, reports say what was seen."""

from __future__ import annotations

import numpy as np
import pytest

import ldiv
from ldiv.testing.diagnosis import TooNoisyError, WrongDerivativeError
from ldiv.testing.gradients import MODES, gradcheck
from ldiv.testing.references import derivative
from ldiv.testing.tangents import exchange, hermitian, positive_definite, symmetric, triangular

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
SPARSE = ldiv.coo_array((torch.tensor(RNG.uniform(1, 2, 7)), ([0, 1, 2, 3, 4, 0, 0], [0, 1, 2, 3, 4, 1, 1])), shape=(N, N))
LAPLACE = ldiv.diags_array([torch.full((N - 1,), -1.0), torch.full((N,), 2.5), torch.full((N - 1,), -1.0)], offsets=[-1, 0, 1]).astype(torch.float64)


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
    "ldiv.solve, definite": (lambda a, b: ldiv.solve(a, b, assume_a="pos"), positive_definite(P), B),
    "ldiv.solve, sparse": (ldiv.solve, SPARSE, B),
    "ldiv.solve, sparse symmetric": (lambda a, b: ldiv.solve(a, b, assume_a="sym"), symmetric(LAPLACE), B),
    "ldiv.solve, sparse definite": (lambda a, b: ldiv.solve(a, b, assume_a="pos"), positive_definite(LAPLACE), B),
    "ldiv.solve, diagonal": (ldiv.solve, ldiv.Matrix(ldiv.structures.Diagonal(N), torch.arange(1.0, N + 1).double()), B),
    "ldiv.solve_triangular": (ldiv.solve_triangular, triangular(torch.triu(A), lower=False), B),
    "ldiv.solve_triangular, unit": (
        lambda l, b: ldiv.solve_triangular(l, b, lower=True, unit_diagonal=True),
        triangular(torch.tril(A), unit_diagonal=True),
        B,
    ),
    "ldiv.solve_triangular, unmarked": (lambda l, b: ldiv.solve_triangular(l, b, lower=True), torch.tril(A), B),
    "ldiv.cholesky": (lambda a: ldiv.cholesky(a), positive_definite(P)),
    "ldiv.lstsq": (lambda a, b: ldiv.lstsq(a, b)[0], T, torch.tensor(RNG.standard_normal((7, 2)))),
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
    "torch.linalg.eigvalsh, 2 x 2": (torch.linalg.eigvalsh, symmetric(torch.tensor([[2.0, 1.0], [1.0, 5.0]]).double())),
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
    "numpy, ldiv.eigsh": (lambda a: ldiv.eigsh(a, 2, which="SA", return_eigenvectors=False), symmetric(a + a.T)),
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_function_is_not_accused(name):
    f, *args = RIGHT[name]
    for seed in range(2):
        report = gradcheck(f, *args, seed=seed)
        assert report.ok and report and {"vjp", "jvp", "vjp against jvp"} <= {g.mode for g in report.findings}


@pytest.mark.parametrize("name", ["ldiv.solve, symmetric", "ldiv.solve, Hermitian", "ldiv.solve, sparse", "ldiv.cholesky", "numpy, ldiv.solve"])
def test_entry_by_entry(name):
    f, *args = RIGHT[name]
    assert gradcheck(f, *args, exhaustive=True).ok


def test_every_mode_is_judged():
    report = gradcheck(ldiv.solve, A, B)
    assert {g.mode for g in report.findings} == set(MODES) and not report.refused
    for mode in MODES:
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
    args = [hermitian(H), symmetric(S), symmetric(LAPLACE), triangular(A, unit_diagonal=True), triangular(SPARSE, lower=False)]
    sizes = [N * N, N * (N + 1) // 2, N + N - 1, N * (N - 1) // 2, 7]
    for arg, size in zip(args, sizes, strict=True):
        basis = [d for _, (d,) in arg.basis()]
        assert len(basis) == size == np.linalg.matrix_rank(np.array([np.r_[d.real.ravel(), d.imag.ravel()] for d in basis]))
        for d in [*basis, *arg.random(np.random.default_rng(0))]:
            np.testing.assert_allclose(arg.project(d), d, atol=1e-15)


def test_exchange_is_the_transpose():
    values = np.arange(1.0, 5.0)
    m = ldiv.coo_array((values, ([0, 1, 0, 2], [1, 0, 2, 2])), shape=(3, 3))
    np.testing.assert_array_equal(exchange(m)(values), [2, 1, 0, 4])
    assert exchange(SPARSE) is None, "duplicates"


# -- references ------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("g", "exact"),
    [(np.exp, 1.0), (lambda t: np.sin(300 * t), 300.0), (lambda t: 1 / (0.01 + t), -1e4), (lambda t: np.sqrt(1e-3 + t), 0.5 / np.sqrt(1e-3))],
)
def test_the_bar_holds(g, exact):
    rng = np.random.default_rng(0)
    for noise in 20 * (0, 1e-12, 1e-8, 1e-5):
        size = np.array([abs(g(0.0))])
        value, bar = derivative(lambda t, noise=noise, size=size: np.array([g(t)]) + noise * size * rng.standard_normal(), size)
        assert abs(value - exact) <= bar
        if noise == 0:
            assert bar <= 1e-5 * abs(exact)


def test_a_complex_step_is_kept_only_where_it_agrees():
    size = np.ones(1)
    value, bar = derivative(lambda t: np.array([np.exp(t)]), size, lambda h: np.array([np.exp(1j * h)]))
    assert value == 1 and bar <= 1e-9
    value, _ = derivative(lambda t: np.array([np.exp(t)]), size, lambda h: np.array([2j * h]))
    np.testing.assert_allclose(value, 1, rtol=1e-8)


# -- what cannot be judged, or is refused --------------------------------------------------------------------------------------------


def test_single_precision_inside_is_noise_or_right_within_its_bar():
    assert not gradcheck(lambda x: (x.float() ** 3).double(), B, modes=["vjp"], rtol=1e-6, raise_exception=False).failures


def test_a_jump_is_noise():
    with pytest.raises(TooNoisyError, match="kink"):
        gradcheck(lambda x: torch.where(x > x.detach().mean(), x, x + torch.sin(1e12 * x).detach()), B)


def test_nothing_nearby():
    first = B.clone()
    with pytest.raises(TooNoisyError, match="no neighbour"):
        gradcheck(lambda x: x if bool((x.detach() == first).all()) else x * torch.nan, B, modes=["vjp"])


def test_a_loss_that_depends_on_a_basis_is_named():
    with pytest.raises(ldiv.NotDifferentiableError):
        gradcheck(lambda a: ldiv.eigsh(a, 2, which="SA")[1], symmetric(torch.diag(torch.tensor([1.0, 1.0, 2.0, 3.0]).double())))


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
    with pytest.raises(ldiv.NotSymmetricError):
        symmetric(A)
    with pytest.raises(ldiv.NotPositiveDefiniteError):
        positive_definite(-P)
    with pytest.raises(TypeError, match="duplicates"):
        symmetric(SPARSE)
    with pytest.raises(TypeError, match="an array"):
        triangular(ldiv.Matrix(ldiv.structures.Diagonal(N), B[:, 0]))


def test_the_entry_by_entry_gradient_of_other_checkers_is_wrong_here():
    """One entry at a time leaves the symmetric matrices: eigvalsh reads a triangle, and its gradient is that of the symmetric part."""
    small = torch.tensor([[2.0, 1.0], [1.0, 5.0]]).double()
    assert gradcheck(torch.linalg.eigvalsh, symmetric(small), exhaustive=True).ok
    with pytest.raises(WrongDerivativeError):
        gradcheck(torch.linalg.eigvalsh, small, exhaustive=True)
