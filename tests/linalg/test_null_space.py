"""Singular systems whose null space is given: the solution that is orthogonal to it."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest
import scipy.sparse as sp

import ldiv
from ldiv.engines.factors import escalation
from ldiv.engines.factors.factorize import factorize
from ldiv.engines.factors.plan import planned
from ldiv.errors import SingularMatrixError
from ldiv.linalg.systems import null_space

N = 8
ONE = np.ones(N)


@pytest.fixture(autouse=True, params=["whole", "beside"])
def engines(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Sparse borders are eliminated, or solved for beside a factor; the engines that factor."""
    if request.param == "beside":
        monkeypatch.setattr(null_space, "LARGE", 0)
    tried: list[str] = []
    make = escalation.Escalating._make

    def noted(self: Any, at: int) -> Any:
        tried.append(self._attempts[at].engine)
        return make(self, at)

    monkeypatch.setattr(escalation.Escalating, "_make", noted)
    return tried


def periodic(scale: float = 1.0) -> Any:
    """The periodic Laplacian, whose null space is the constants."""
    L = 2 * np.eye(N) - np.roll(np.eye(N), 1, 0) - np.roll(np.eye(N), -1, 0)
    return scale * L


def wave(k: int = 1) -> Any:
    """An eigenvector of the periodic Laplacian with the eigenvalue 2 - 2 cos(2 pi k / N)."""
    return np.sin(2 * np.pi * k * np.arange(N) / N)


FORMS = {
    "dense": np.asarray,
    "sparse": ldiv.csr_array,
    "composed": lambda a: ldiv.kron(np.eye(1), a),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("assume_a", ["gen", "sym", "pos"])
@pytest.mark.parametrize("scale", [1.0, 1e12, 1e-12])
def test_a_periodic_problem(form: str, assume_a: Any, scale: float) -> None:
    A = FORMS[form](periodic(scale))
    expected = wave() / (scale * (2 - 2 * np.cos(2 * np.pi / N)))
    x = ldiv.solve(A, wave(), null_space=ONE, assume_a=assume_a)
    np.testing.assert_allclose(x, expected, rtol=1e-13, atol=1e-13 / scale)


@pytest.mark.parametrize("sparse", [False, True])
def test_columns_batches_and_precisions(sparse: bool) -> None:
    B = np.stack([wave(), wave(2)], 1)
    if sparse:
        A = ldiv.csr_array(periodic())
        A = A.with_data(np.stack([A.data, 2 * A.data]))
    else:
        A = np.stack([periodic(), periodic(2.0)])
    x = ldiv.solve(A, B[None], null_space=ONE)
    assert x.shape == (2, N, 2)
    np.testing.assert_allclose(periodic() @ x[0], B, atol=1e-14)
    np.testing.assert_allclose(x[1], x[0] / 2, atol=1e-14)
    single = ldiv.solve(periodic().astype("f"), wave().astype("f"), null_space=ONE.astype("f"))
    assert single.dtype == np.float32
    np.testing.assert_allclose(
        ldiv.solve(periodic() + 0j, 1j * wave(), null_space=ONE), 1j * x[0][:, 0], atol=1e-14
    )


def test_two_null_vectors() -> None:
    A = np.kron(np.diag([1.0, 3.0]), periodic())
    V, b = np.kron(np.eye(2), ONE[:, None]), np.concatenate([wave(), wave(2)])
    x = ldiv.solve(A, b, null_space=V)
    np.testing.assert_allclose(A @ x, b, atol=1e-14)
    np.testing.assert_allclose(V.T @ x, 0, atol=1e-14)
    with pytest.raises(SingularMatrixError, match="null_space"):
        ldiv.solve(A, b, null_space=V[:, :1])


def test_the_left_null_vector_of_an_unsymmetric_matrix() -> None:
    """A stationary distribution: Q^T pi = 0, and 1^T Q^T = 0."""
    Q = np.random.default_rng(0).random((N, N))
    Q -= np.diag(Q.sum(1))
    u = ONE / N
    pi = u + ldiv.solve(Q, -Q.T @ u, trans="T", null_space=ONE)
    np.testing.assert_allclose(pi @ Q, 0, atol=1e-15)
    assert abs(pi.sum() - 1) < 1e-15 and pi.min() > 0


@pytest.mark.parametrize("form", ["dense", "sparse"])
@pytest.mark.parametrize(("kind", "unit"), [("d", 1), ("d", 1e160), ("d", 1e-165), ("f", 1e-30)])
def test_what_is_not_reached_is_told(form: str, kind: str, unit: float) -> None:
    A = FORMS[form](periodic().astype(kind))
    b = (unit * (wave() + 1)).astype(kind)
    part = f"{unit * 8**0.5:.1e}".replace("+", r"\+")
    with pytest.raises(ValueError, match=f"range of the singular A, got one with a part of {part}"):
        ldiv.solve(A, b, null_space=ONE.astype(kind))
    ldiv.solve(A, b - b.mean(), null_space=ONE.astype(kind))
    assert not ldiv.solve(A, 0 * ONE, null_space=ONE).any()


@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_no_columns_and_members_that_are_not_reached(form: str) -> None:
    A, b = FORMS[form](periodic()), np.stack([wave(), wave() + 1])[..., None]
    assert ldiv.solve(A, b[0, :, :0], null_space=ONE).shape == (N, 0)
    with ldiv.errstate(singular="nan"):
        x = ldiv.solve(A, b, null_space=ONE)
        assert np.isnan(ldiv.solve(A, wave(), null_space=np.ones((N, 2)))).all()
    np.testing.assert_allclose(periodic() @ x[0], b[0], atol=1e-12)
    assert np.isnan(x[1]).all()


@pytest.mark.parametrize("form", ["dense", "sparse"])
@pytest.mark.parametrize("unit", [2.0**-60, 2.0**-700, 2.0**700])
def test_units_of_the_matrix_and_of_its_null_space(
    form: str, unit: float, engines: list[str]
) -> None:
    """A in SI units is often far below 1; its null vectors are ones."""
    expected = ldiv.solve(FORMS[form](periodic()), wave(), null_space=ONE)
    in_one_unit = [*engines]
    engines.clear()
    for A, b, V in ((periodic() * unit, wave() * unit, ONE), (periodic(), wave(), ONE * unit)):
        np.testing.assert_array_equal(ldiv.solve(FORMS[form](A), b, null_space=V), expected)
    assert engines == in_one_unit * 2


@pytest.mark.parametrize("unit", [1e-297, 1e263])
def test_components_and_vectors_in_far_units(unit: float) -> None:
    A = ldiv.csr_array(np.kron(np.eye(2), [[1.0, -1.0], [-1.0, 1.0]]))
    V = unit * np.kron(np.eye(2), [[1.0], [1.0]])
    x = ldiv.solve(A, [1.0, -1.0, 2.0, -2.0], null_space=V)
    np.testing.assert_allclose(x, [0.5, -0.5, 1.0, -1.0], rtol=1e-15)


def test_bad_input() -> None:
    for V in (ONE[:3], np.ones((N, 0)), np.ones((2, N))):
        with pytest.raises(ValueError, match="null_space"):
            ldiv.solve(periodic(), wave(), null_space=V)
    with pytest.raises(ValueError, match="null_space"):
        ldiv.solve(periodic(), wave(), null_space=ONE, info=True)
    with pytest.raises(ValueError, match="assume_a"):
        ldiv.solve(periodic(), wave(), null_space=ONE, assume_a="upper triangular")
    with pytest.raises(SingularMatrixError, match="null_space"):
        ldiv.solve(periodic(), wave())


@pytest.mark.parametrize("sparse", [False, True])
def test_derivatives_in_torch(sparse: bool) -> None:
    torch = pytest.importorskip("torch")
    A = ldiv.csr_array(torch.tensor(periodic())) if sparse else torch.tensor(periodic())
    data = A.data if sparse else A
    V = torch.tensor(ONE)

    def f(t: Any, b: Any) -> Any:  # t A keeps the null space
        scaled = A.with_data(t * data) if sparse else t * data
        return ldiv.solve(scaled, b - b.mean(), null_space=V)

    t, b = torch.tensor(1.5, dtype=torch.float64), torch.tensor(wave() + wave(3))
    assert torch.autograd.gradcheck(f, (t.requires_grad_(), b.requires_grad_()))
    assert torch.autograd.gradgradcheck(f, (t, b))
    t, b = t.detach(), b.detach()
    forward, reverse = torch.func.jacfwd(f)(t, b), torch.func.jacrev(f)(t, b)
    assert torch.allclose(forward, reverse) and torch.allclose(forward, -f(t, b) / t)
    assert torch.vmap(f)(torch.stack([t, 2 * t]), torch.stack([b, b])).shape == (2, N)


@pytest.mark.parametrize("sparse", [False, True])
def test_derivatives_in_jax(sparse: bool) -> None:
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    A = ldiv.csr_array(jax.numpy.asarray(periodic())) if sparse else jax.numpy.asarray(periodic())

    def f(b: Any) -> Any:
        return ldiv.solve(A, b - b.mean(), null_space=jax.numpy.asarray(ONE))

    b = jax.numpy.asarray(wave())
    np.testing.assert_allclose(jax.jit(f)(b), f(b), atol=1e-14)
    np.testing.assert_allclose(jax.jit(jax.jacfwd(f))(b), jax.jit(jax.jacrev(f))(b), atol=1e-13)


# -- hard cases, against 50 digits ------------------------------------------------------------------


def laplacian(W: Any) -> Any:
    return np.diag(W.sum(1)) - W


def weighted(n: int, decades: float, rng: Any) -> Any:
    """The Laplacian of a connected graph with weights over so many decades."""
    W = np.triu(
        10 ** rng.uniform(-decades / 2, decades / 2, (n, n)) * (rng.random((n, n)) < 0.1), 1
    )
    W[range(n - 1), range(1, n)] += 10 ** rng.uniform(-decades / 2, decades / 2, n - 1)
    return laplacian(W + W.T)


def components(rng: Any) -> tuple[Any, Any]:
    whole = sp.block_diag([weighted(8, 6, rng) for _ in range(3)]).toarray()
    return whole, np.kron(np.eye(3), np.ones((8, 1))) @ rng.standard_normal((3, 3))


def cycles(*sizes: int) -> tuple[Any, Any]:
    """The periodic Laplacian in as many dimensions."""
    L = np.zeros((1, 1))
    for n in sizes:
        one = 2 * np.eye(n) - np.roll(np.eye(n), 1, 0) - np.roll(np.eye(n), -1, 0)
        L = np.kron(L, np.eye(n)) + np.kron(np.eye(len(L)), one)
    return L, np.ones(len(L))


def truss(d: int, m: int, rng: Any) -> tuple[Any, Any]:
    """Bars between m points in d dimensions, and their rigid motions."""
    X, A = 10 * rng.random((m, d)), np.zeros((d * m, d * m))
    for a, b in zip(*np.triu_indices(m, 1), strict=True):
        bar = np.zeros((m, d))
        bar[a] = (X[a] - X[b]) / np.linalg.norm(X[a] - X[b])
        bar[b] = -bar[a]
        A += 10 ** rng.uniform(-2, 2) * np.outer(bar, bar)
    turns = []
    for p, q in zip(*np.triu_indices(d, 1), strict=True):
        turn = np.zeros((m, d))
        turn[:, p], turn[:, q] = X[:, q], -X[:, p]
        turns.append(turn.ravel())
    return A, np.stack([*np.tile(np.eye(d), m), *turns], 1)


def stokes(rng: Any) -> tuple[Any, Any]:
    """Velocities, and pressures up to a constant."""
    B = rng.standard_normal((6, 16))
    B -= B.mean(0)
    K = weighted(16, 1, rng) + 0.01 * np.eye(16)
    return np.block([[K, B.T], [B, np.zeros((6, 6))]]), np.r_[np.zeros(16), np.ones(6)]


def indefinite(rng: Any) -> tuple[Any, Any]:
    S = rng.standard_normal((24, 24)) * (rng.random((24, 24)) < 0.3)
    return laplacian(S + S.T), np.ones(24)


def magnetic(rng: Any) -> tuple[Any, Any]:
    """A complex Hermitian Laplacian."""
    turn = np.array([1, 1j, -1, -1j])[rng.integers(0, 4, 24)]
    return turn[:, None] * weighted(24, 2, rng) * turn.conj(), turn


def queue(up: float) -> Any:
    """The rates of a birth-death process, whose stationary distribution grows like up^i."""
    Q = up * np.eye(24, k=1) + np.eye(24, k=-1)
    return Q - np.diag(Q.sum(1))


HARD = {
    "weights over 12 decades": lambda rng: (weighted(24, 12, rng), np.ones(24)),
    "three components": components,
    "periodic in 2D": lambda rng: cycles(5, 5),
    "periodic in 3D": lambda rng: cycles(3, 3, 3),
    "three rigid motions": lambda rng: truss(2, 10, rng),
    "six rigid motions": lambda rng: truss(3, 8, rng),
    "pressure": stokes,
    "indefinite": indefinite,
    "complex Hermitian": magnetic,
    "left null vector": lambda rng: (queue(0.7).T, np.ones(24)),
    "right null vector": lambda rng: (queue(0.7), np.ones(24)),
    "not in the null space": lambda rng: (weighted(24, 2, rng), rng.random(24)),
}


@pytest.mark.parametrize("case", HARD)
@pytest.mark.parametrize("assume_a", ["gen", "her"])
def test_hard_cases_to_fifty_digits(case: str, assume_a: Any, engines: list[str]) -> None:
    rng = np.random.default_rng(3)
    A, V = HARD[case](rng)
    if assume_a == "her" and not np.allclose(A, A.conj().T):
        pytest.skip("not Hermitian")
    A, V = (A + A.conj().T) / 2 if assume_a == "her" else A, V.reshape(len(A), -1)
    (n, k), b = V.shape, A @ rng.standard_normal(len(A))
    x = ldiv.solve(ldiv.csr_array(A), b, null_space=V, assume_a=assume_a)
    K = np.block([[A, V], [V.conj().T, np.zeros((k, k))]])
    with mpmath.workdps(50):
        inverse = mpmath.matrix(K.tolist()) ** -1
        y = inverse * mpmath.matrix(np.append(b, np.zeros(k)).tolist())
        size = np.array([[float(abs(z)) for z in row] for row in inverse.tolist()])
        error = [float(abs(y[i] - mpmath.mpmathify(x[i].item()))) for i in range(n)]
    y = np.array([complex(z) for z in y])
    # |x - y| <= eps |K^-1| (|K| |y| + |b|): a small residual in every row
    bound = size @ (abs(K) @ abs(y) + abs(np.append(b, np.zeros(k))))
    assert max(error) <= 4 * np.finfo(float).eps * bound.max()
    # nothing but A + E E^H was factored
    assert not engines or engines[0] != "grounded" or len(engines) == 2


def test_a_stationary_distribution_over_23_decades(engines: list[str]) -> None:
    """A + E E^H is singular up to rounding where the right null vector is small: other rows are found."""
    Q = ldiv.csr_array(queue(10.0))
    u = np.full(24, 1 / 24)
    pi = u + ldiv.solve(Q, -(Q.T @ u), trans="T", null_space=np.ones(24))
    expected = 10.0 ** (np.arange(24) - 23)
    np.testing.assert_allclose(pi, expected / expected.sum(), atol=1e-14)
    assert not engines or engines == ["grounded", "lu", "grounded", "lu", "lu"]


def test_no_row_is_large_in_both_null_vectors(engines: list[str]) -> None:
    """A has the null vectors e_0 and e_1, and no A + E E^H is regular: all is eliminated."""
    A = np.eye(N)
    A[:2, :2] = [[0, 1], [0, 0]]
    V = np.eye(N)[0] + np.eye(N)[1]
    x = np.arange(N) - 1.0 * (np.arange(N) == 0)
    np.testing.assert_allclose(
        ldiv.solve(ldiv.csr_array(A), A @ x, null_space=V), x, rtol=1e-14, atol=1e-14
    )
    assert not engines or (engines[0] == "grounded" and engines[-1] not in ("grounded", "ldl"))


def test_dependent_vectors_are_no_null_space() -> None:
    V = np.stack([ONE, 2 * ONE], 1)
    for A in (periodic(), ldiv.csr_array(periodic())):
        with pytest.raises(SingularMatrixError):
            ldiv.solve(A, wave(), null_space=V)


def network(kind: str, n: int) -> Any:
    """The Laplacian of a path, a ring or a random tree."""
    i = np.arange(1, n)
    j = (np.random.default_rng(0).random(n - 1) * i).astype(int) if kind == "tree" else i - 1
    i, j = (np.append(i, 0), np.append(j, n - 1)) if kind == "ring" else (i, j)
    W = sp.coo_array((np.ones(len(i)), (i, j)), shape=(n, n))
    W = W + W.T
    return sp.diags_array(W.sum(1)) - W


@pytest.mark.parametrize("kind", ["path", "ring", "tree"])
def test_the_factor_grows_like_the_network(kind: str, engines: list[str]) -> None:
    def measured(n: int) -> int:
        """The bytes of the factor."""
        A, one = ldiv.csr_array(network(kind, n)), np.ones((n, 1))
        K, b = null_space.bordered(A, one), np.sin(np.arange(n))
        b -= b.mean()
        x = ldiv.solve(A, b, null_space=one)
        assert abs(A @ x - b).max() < 1e-14 * abs(x).max()
        plan = planned(K.structure, K.params, None, "gen").factors
        assert plan is not None
        return factorize(plan, K.params)[0].nbytes

    assert measured(80_000) < 20 * measured(5_000)
    assert set(engines) == {"grounded", "ldl"}
