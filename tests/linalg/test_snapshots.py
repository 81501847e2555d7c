"""Objects that are made of a matrix and kept have the values that it had: later writes to its
arrays change nothing.
"""

import numpy as np
import pytest
import scipy.sparse as sp

import ldiv

torch = pytest.importorskip("torch")

N = 6
RNG = np.random.default_rng(0)
DENSE = RNG.standard_normal((N, N)) + 5 * np.eye(N)
BAND = sp.diags_array(
    [-np.ones(N - 1), 4 * np.ones(N), -np.ones(N - 1)], offsets=[-1, 0, 1]
).tocsc()
B = RNG.standard_normal((N, 2))


def banded(v):
    return ldiv.csc_array((v, BAND.indices, BAND.indptr), shape=(N, N))


MATRICES = {
    "dense": (lambda v: v, DENSE),
    "dense batch": (lambda v: v, np.stack([DENSE, DENSE.T])),
    "dense complex": (lambda v: v, DENSE + 1j * DENSE[::-1]),
    "sparse": (banded, BAND.data),
    "sparse batch": (banded, np.stack([BAND.data, 2 * BAND.data])),
    "a view": (lambda v: banded(v).H, BAND.data + 0.1j),
    "a sum": (lambda v: banded(v) + ldiv.Matrix(ldiv.structures.Diagonal(N), v[:N]), BAND.data),
    "low rank": (lambda v: banded(v) + ldiv.LowRank(v[:N], v[:N]), BAND.data),
}
FRAMEWORKS = {"numpy": np.array, "torch": torch.tensor}


@pytest.mark.parametrize("name", FRAMEWORKS)
@pytest.mark.parametrize("kind", MATRICES)
def test_what_factorized_returns_is_a_snapshot(kind, name):
    make, values = MATRICES[kind]
    array = FRAMEWORKS[name]
    v, b = array(values), array(B.astype(values.dtype))
    made = []
    for scale in (1.0, 2.0, 8.0):
        v[...] = array(scale * values)
        A = make(v)
        fresh = make(array(scale * values))
        made.append((ldiv.factorized(A), ldiv.solve(fresh, b), ldiv.factorized(fresh).logabsdet()))
    v[...] = 0.0
    for F, x, logdet in made:
        assert np.allclose(F.solve(b), x, rtol=1e-12, atol=0)
        assert np.allclose(F.inverse @ b, x, rtol=1e-12, atol=0)
        assert np.allclose(F.logabsdet(), logdet, rtol=1e-12)


@pytest.mark.parametrize("kind", ["jacobi", "block_jacobi", "ilu", "amg"])
@pytest.mark.parametrize("name", FRAMEWORKS)
def test_a_preconditioner_is_a_snapshot(name, kind):
    if kind == "amg":
        pytest.importorskip("pyamg")
    array = FRAMEWORKS[name]
    v, b, modes = array(BAND.data), array(B), np.ones((N, 1))
    options = {"near_nullspace": modes} if kind == "amg" else {}
    A = banded(v)
    fresh = (
        ldiv.preconditioner(
            banded(array(BAND.data)), kind, **{k: m.copy() for k, m in options.items()}
        )
        @ b
    )
    M = ldiv.preconditioner(A, kind, **options)
    v[...] = 7 * v
    modes[...] = 0.5
    assert np.allclose(M @ b, fresh, rtol=1e-12, atol=0)


def test_the_condition_of_a_solution_is_that_of_its_matrix():
    v = DENSE.copy()
    _, info = ldiv.solve(v, B, info=True)
    v[...] = np.diag(10.0 ** -np.arange(N))
    assert info.condition == pytest.approx(np.linalg.cond(DENSE, 1))


def test_gradients_flow_through_a_snapshot_to_the_values_that_it_was_made_of():
    v = torch.tensor(BAND.data, requires_grad=True)
    b = torch.tensor(B, requires_grad=True)
    F = ldiv.factorized(banded(v))
    with torch.no_grad():
        v.mul_(3.0)
    found = torch.autograd.grad((F.solve(b) ** 2).sum() + F.logabsdet(), (v, b))
    w = torch.tensor(BAND.data, requires_grad=True)
    A = banded(w)
    wanted = torch.autograd.grad(
        (ldiv.solve(A, b) ** 2).sum() + ldiv.factorized(A).logabsdet(), (w, b)
    )
    for one, other in zip(found, wanted, strict=True):
        assert torch.allclose(one, other, rtol=1e-12, atol=1e-14)
    loss = lambda w: (ldiv.factorized(banded(w)).solve(b.detach()) ** 2).sum()
    assert torch.allclose(torch.func.grad(loss)(w), torch.autograd.grad(loss(w), w)[0], rtol=1e-12)
    x, pullback = ldiv.vjp(lambda A, b: ldiv.factorized(A).solve(b), DENSE, B)
    _, other = ldiv.vjp(ldiv.solve, DENSE, B)
    assert all(np.allclose(p, q, rtol=1e-12) for p, q in zip(pullback(x), other(x), strict=True))


def test_a_snapshot_under_jax_is_traced_as_it_was():
    jax = pytest.importorskip("jax")
    with jax.enable_x64(True):
        loss = lambda a, b: (ldiv.factorized(a).solve(b) ** 2).sum()
        other = lambda a, b: (jax.numpy.linalg.solve(a, b) ** 2).sum()
        found, wanted = jax.jit(jax.grad(loss))(DENSE, B), jax.grad(other)(DENSE, B)
        assert np.allclose(found, wanted, rtol=1e-10)
