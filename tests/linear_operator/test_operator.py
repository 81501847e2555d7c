"""Derivatives in hyperparameters, one factorization, and an exact GP of GPyTorch."""

from __future__ import annotations

import math

import numpy as np
import pytest

import ldiv

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("linear_operator", reason="no linear_operator: pip install linear_operator")
from linear_operator import to_linear_operator  # noqa: E402
from linear_operator.operators import DiagLinearOperator  # noqa: E402

from ldiv.engines.libraries import native  # noqa: E402
from ldiv.linear_operator import MatrixLinearOperator  # noqa: E402

# linear_operator's own, where it takes entries by interpolation
pytestmark = pytest.mark.filterwarnings("ignore:Sparse invariant checks")
F64 = torch.float64
RNG = np.random.default_rng(0)
N = 8
POINTS = np.sort(RNG.random(N))


def wendland(distance, radius):
    """A covariance that is zero beyond its radius: (1 - r)^4 (1 + 4 r)."""
    r = (distance / radius).clamp(max=1)
    return (1 - r) ** 4 * (1 + 4 * r)


def near(x, y, radius):
    """The pairs of points that are no farther apart, and their distances."""
    distance = abs(x[:, None] - y[None, :])
    at = np.nonzero(distance < radius)
    return at, torch.from_numpy(distance[at])


def covariance(scale, radius, noise):
    """Sparse: c k(x, y) + noise, in three hyperparameters."""
    at, distance = near(POINTS, POINTS, 0.5)
    K = MatrixLinearOperator(ldiv.coo_array((wendland(distance, radius), at), shape=(N, N)))
    return K.mul(scale).add_diagonal(noise)


def written_out(scale, radius, noise):
    distance = torch.from_numpy(abs(POINTS[:, None] - POINTS[None, :]))
    return scale * wendland(distance, radius) + noise * torch.eye(N, dtype=F64)


def hyper():
    return tuple(torch.tensor(x, dtype=F64, requires_grad=True) for x in (1.5, 0.4, 0.3))


FORMS = {
    "solve": lambda K, y: K.solve(y),
    "left": lambda K, y: K.solve(y, y.mT @ K.to_dense()),
    "inv_quad": lambda K, y: K.inv_quad(y),
    "columns": lambda K, y: K.inv_quad(y, reduce_inv_quad=False),
    "logdet": lambda K, y: K.logdet(),
    "both": lambda K, y: K.inv_quad_logdet(y, logdet=True),
    "matmul": lambda K, y: K @ y,
    "diagonal": lambda K, y: K.diagonal(),
    "rows": lambda K, y: K[2:5, :].to_dense(),
    "entries": lambda K, y: K[torch.tensor([0, 3]), torch.tensor([1, 3])],
}


PARTS = ("left", "inv_quad", "columns", "logdet", "rows")  # of what the others are made of


@pytest.mark.parametrize(
    "name", [pytest.param(f, marks=pytest.mark.exhaustive if f in PARTS else ()) for f in FORMS]
)
def test_hyperparameters(name):
    """Values and derivatives, twice, are those of the dense matrix."""
    y = torch.from_numpy(RNG.standard_normal((N, 2))).requires_grad_()
    form = FORMS[name]
    yet = form(covariance(*hyper()), y)
    with torch.no_grad():
        expected = form(to_linear_operator(written_out(*hyper())), y)
    for a, b in zip(*(x if isinstance(x, tuple) else (x,) for x in (yet, expected)), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-10)
    f = lambda y, *p: form(covariance(*p), y)
    assert torch.autograd.gradcheck(f, (y, *hyper()), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(f, (y, *hyper()))


def test_one_factorization():
    """Solves, forms and their derivatives share it; a determinant and its gradient, too, if
    compiled.
    """
    y, other = torch.from_numpy(RNG.standard_normal((2, N, 2)))
    K = covariance(*hyper())
    (K.inv_quad(y) + K.solve(other).sum()).backward(retain_graph=True)
    assert ldiv.cache_info().factorizations == 1
    (K.inv_quad(y) + K.logdet()).backward()
    assert ldiv.cache_info().factorizations == 1 + (native.native is None)


def test_values_written_to_are_seen():
    """An optimizer writes to the values that an operator was made of."""
    values = torch.tensor([2.0, 4.0], dtype=F64)
    K = MatrixLinearOperator(ldiv.coo_array((values, ([0, 1], [0, 1]))))
    b = torch.ones(2, dtype=F64)
    torch.testing.assert_close(K.solve(b), torch.tensor([0.5, 0.25], dtype=F64))
    values *= 2
    torch.testing.assert_close(K.solve(b), torch.tensor([0.25, 0.125], dtype=F64))
    with torch.no_grad():
        K.solve(b)
    values.requires_grad_()
    assert K.detach().requires_grad_(True).solve(b).requires_grad


def test_sparse_stays_sparse():
    K = covariance(*hyper())
    d = torch.rand(N, dtype=F64)
    for L in (
        K,
        K.mT,
        K + DiagLinearOperator(d),
        K.add_jitter(),
        K + K,
        2 * K,
        K.mul(-1),
        K / 3,
        K[1:, :],
        K[torch.tensor([1, 2]), :],
        K.detach(),
        K.clone(),
    ):
        assert isinstance(L.matrix, ldiv.SparseArray)
    dense = written_out(*hyper())
    torch.testing.assert_close((K + DiagLinearOperator(d)).to_dense(), dense + d.diag())
    torch.testing.assert_close((K / 3).to_dense(), dense / 3)


def test_structured():
    """A diagonal and a Kronecker product, with noise."""
    a, b = (torch.from_numpy(RNG.standard_normal((n, n))) for n in (2, 3))
    A, B = a @ a.mT + torch.eye(2, dtype=F64), b @ b.mT + torch.eye(3, dtype=F64)
    y = torch.from_numpy(RNG.standard_normal((6, 1)))
    for K, dense in (
        (ldiv.kron(A, B), torch.kron(A, B)),
        (ldiv.Matrix(ldiv.structures.Diagonal(6), y[:, 0] ** 2 + 1), (y[:, 0] ** 2 + 1).diag()),
    ):
        op = MatrixLinearOperator(K)
        torch.testing.assert_close(op.solve(y), torch.linalg.solve(dense, y))
        torch.testing.assert_close(op.diagonal(), dense.diagonal())
        torch.testing.assert_close(op.logdet(), torch.logdet(dense))
        noisy = op.add_diagonal(torch.tensor(0.5, dtype=F64))
        torch.testing.assert_close(
            noisy.solve(y), torch.linalg.solve(dense + 0.5 * torch.eye(6, dtype=F64), y)
        )


def test_errors():
    with pytest.raises(TypeError, match="to_linear_operator"):
        MatrixLinearOperator(torch.eye(2))
    with pytest.raises(TypeError, match="real tensors"):
        MatrixLinearOperator(ldiv.eye_array(2))
    with pytest.raises(TypeError, match="real tensors"):
        MatrixLinearOperator(ldiv.eye_array(2, like=torch.ones(1, dtype=torch.complex128)))
    K = MatrixLinearOperator(ldiv.diags_array(torch.tensor([1.0, -1.0])))
    for f in (
        lambda: K.solve(torch.ones(2)),
        lambda: K.logdet(),
        lambda: K.inv_quad(torch.ones(2)),
    ):
        with pytest.raises(ldiv.NotPositiveDefiniteError):
            f()
    indefinite = MatrixLinearOperator(K.matrix, assume_a="gen")
    assert torch.equal(indefinite.solve(torch.ones(2)), torch.tensor([1.0, -1.0]))


# -- GPyTorch -------------------------------------------------------------------------------------


def gp(gpytorch, sparse, x, y):
    """An exact GP with the covariance of Wendland, sparse or dense."""

    class Compact(gpytorch.kernels.Kernel):
        has_lengthscale = True

        def forward(self, x1, x2, diag=False, **_):
            radius = self.lengthscale.squeeze()
            if diag:
                return wendland((x1 - x2).abs().squeeze(-1), radius)
            if not sparse:
                return wendland((x1 - x2.mT).abs(), radius)
            at, distance = near(*(z.detach().squeeze(-1).numpy() for z in (x1, x2)), 0.9)
            shape = len(x1), len(x2)
            return MatrixLinearOperator(
                ldiv.coo_array((wendland(distance, radius), at), shape=shape)
            )

    class Model(gpytorch.models.ExactGP):
        def __init__(self):
            likelihood = gpytorch.likelihoods.GaussianLikelihood()
            super().__init__(x, y, likelihood)
            self.mean = gpytorch.means.ConstantMean()
            self.kernel = gpytorch.kernels.ScaleKernel(Compact())

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(self.mean(x), self.kernel(x))

    return Model().double()


@pytest.mark.parametrize("lazily", [True, False])
def test_exact_gp(lazily):
    """Training and prediction are those of the dense covariance."""
    gpytorch = pytest.importorskip("gpytorch", reason="no gpytorch: pip install gpytorch")
    x = torch.linspace(0, 4, 40, dtype=F64)
    y, new = torch.sin(math.pi * x), torch.linspace(0.05, 3.9, 7, dtype=F64)
    seen = []
    for sparse in (True, False):
        ldiv.clear_cache()
        model = gp(gpytorch, sparse, x, y)
        marginal = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        with gpytorch.settings.lazily_evaluate_kernels(lazily):
            model.train()
            for _ in range(3):
                optimizer.zero_grad()
                loss = -marginal(model(x), y)
                loss.backward()
                optimizer.step()
            if sparse:  # one for the form and the determinant, if it is compiled
                info = ldiv.cache_info()
                assert (
                    (info.factorizations, info.analyses) == (6, 2)
                    if native.native is None
                    else (3, 1)
                )
            model.eval()
            with torch.no_grad():
                prediction = model.likelihood(model(new))
        grads = [p.grad for p in model.parameters()]
        seen.append((loss.detach(), *grads, prediction.mean, prediction.variance))
    for one, two in zip(*seen, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-6, atol=1e-8)
