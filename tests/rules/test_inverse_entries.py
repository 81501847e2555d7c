"""log |det| of sparse matrices and its derivatives, by entries of the inverse: frameworks, modes,
orders, batches, what is factored how often, and the way around where the factors are not accurate.
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import ldiv
from ldiv.core.frameworks.pattern import Pattern
from ldiv.engines import entries, registry
from ldiv.engines.libraries import native
from ldiv.engines.selected import general
from ldiv.errors import SingularMatrixError
from ldiv.rules.inverse_entries import InverseEntries, InverseTangent
from ldiv.rules.slogdet import SLogDet
from ldiv.structures import banded, sparse, symmetric
from ldiv.structures.sparse import Sparse
from ldiv.structures.symmetric import Symmetric
from ldiv.testing.cases import Draw

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")
jax.config.update("jax_enable_x64", True)

N = 12
LINE = sp.diags_array([-np.ones(N - 1), 3 * np.ones(N), -np.ones(N - 1)], offsets=(-1, 0, 1))
GRID = sp.coo_array(sp.kronsum(LINE, LINE))


def array(values):
    return ldiv.coo_array((values, (GRID.row, GRID.col)), shape=GRID.shape)


def loss(values):
    return ldiv.logdet(array(values), assume_a="pos")


def dense(values):
    a = torch.zeros(GRID.shape, dtype=values.dtype).index_put(
        (torch.tensor(GRID.row), torch.tensor(GRID.col)), values, accumulate=True
    )
    return torch.logdet((a + a.mT) / 2)


def directions():
    rng = np.random.default_rng(0)
    return rng.standard_normal(GRID.nnz), rng.standard_normal(GRID.nnz)


@pytest.fixture(scope="module")
def reference():
    """The value, its gradient, and the second and third derivatives along directions."""
    e, f = map(torch.tensor, directions())
    v = torch.tensor(GRID.data, requires_grad=True)
    out = [dense(v)]
    (g,) = torch.autograd.grad(out[0], v, create_graph=True)
    (h,) = torch.autograd.grad(g, v, e, create_graph=True)
    (t,) = torch.autograd.grad(h, v, f)
    return [x.detach().numpy() for x in (*out, g, h, t)]


def assert_same(found, expected):
    for x, y in zip(found, expected, strict=True):
        assert np.allclose(np.asarray(x), y, rtol=1e-11, atol=1e-12)


def test_three_orders_of_autograd_from_one_factorization(reference):
    e, f = map(torch.tensor, directions())
    v = torch.tensor(GRID.data, requires_grad=True)
    ldiv.clear_cache()
    value = loss(v)
    (g,) = torch.autograd.grad(value, v, create_graph=True)
    (h,) = torch.autograd.grad(g, v, e, create_graph=True)
    assert ldiv.cache_info().factorizations == 1
    assert native.native is None or ldiv.cache_info().solves == 0
    (t,) = torch.autograd.grad(h, v, f)
    assert_same([x.detach() for x in (value, g, h, t)], reference)


def test_forward_modes_and_batches(reference):
    from torch.func import grad, jvp, vmap

    e, v = torch.tensor(directions()[0]), torch.tensor(GRID.data)
    _, forward = jvp(loss, (v,), (e,))
    assert_same([forward], [reference[1] @ e.numpy()])
    both = [jvp(grad(loss), (v,), (e,))[1], grad(lambda x: jvp(loss, (x,), (e,))[1])(v)]
    assert_same(both, [reference[2]] * 2)
    gradients = vmap(grad(loss))(torch.stack([v, 2 * v]))
    assert_same(gradients, [reference[1], reference[1] / 2])
    batch = torch.stack([v, 2 * v]).requires_grad_()
    values = loss(batch)
    assert_same(
        values.detach(), [reference[0], reference[0] + len(LINE.toarray()) ** 2 * np.log(2)]
    )
    assert_same(torch.autograd.grad(values.sum(), batch)[0], [reference[1], reference[1] / 2])
    assert loss(torch.zeros((0, GRID.nnz), dtype=torch.float64)).shape == (0,)


def test_jax_compiled(reference):
    e = directions()[0]

    @jax.jit
    def every(v, e):
        g = jax.grad(loss)
        return loss(v), g(v), jax.jvp(g, (v,), (e,))[1], jax.vmap(g)(jax.numpy.stack([v, 2 * v]))

    *found, several = every(GRID.data, e)
    assert_same(found, reference[:3])
    assert_same(several, [reference[1], reference[1] / 2])


def test_numpy(reference):
    value, pull = ldiv.vjp(loss, GRID.data)
    assert_same([value, pull(np.ones(()))[0]], reference[:2])
    assert_same(
        [ldiv.jvp(loss, (GRID.data,), (directions()[0],))[1]], [reference[1] @ directions()[0]]
    )


def sparse_structures(dtype):
    """Patterns without a mirror image, duplicates, a band, and their symmetric parts."""
    draw = Draw(dtype, 3)
    for module in (sparse, banded, symmetric):
        for structure, p in module.cases(draw):
            if entries.supports(structure, p):
                yield structure, p
    rows, cols = np.array([0, 1, 2, 3, 2, 0]), np.array([0, 1, 2, 3, 1, 3])
    values = np.where(rows == cols, 4.0, 1e-9) * np.ones(6, dtype)
    yield Symmetric(Sparse(Pattern(rows, cols, (4, 4))), "H"), values


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_the_way_around_by_solves_gives_the_same(dtype, monkeypatch):
    def none(*_, **__):
        raise SingularMatrixError("nobody", "nothing")

    given = list(sparse_structures(dtype))
    assert len(given) > 6
    rules = [
        (rule, args)
        for structure, p in given
        for rule, args in (
            (SLogDet(structure, sign=False), (p,)),
            (InverseEntries(structure), (p,)),
            (InverseTangent(structure), (p, Draw(dtype, 5)(*p.shape))),
        )
    ]
    usual = [rule.kernel(*args)[0] for rule, args in rules]
    monkeypatch.setattr(general, "CompiledBlockLu", none)
    ldiv.clear_cache()
    for (rule, args), y in zip(rules, usual, strict=True):
        assert np.allclose(rule.kernel(*args)[0], y, rtol=1e-11, atol=1e-12)


def test_singular_and_indefinite_matrices_raise():
    free = GRID.data - (GRID.row == GRID.col) * np.asarray(GRID.sum(axis=1))[GRID.row]
    for promise in ("pos", "her"):
        with pytest.raises((ldiv.SingularMatrixError, ldiv.NotPositiveDefiniteError)):
            ldiv.factorized(array(free), assume_a=promise).logabsdet()
        with pytest.raises((ldiv.SingularMatrixError, ldiv.NotPositiveDefiniteError)):
            SLogDet(Symmetric(array(free).structure), promise, sign=False).kernel(free)
    with pytest.raises(ldiv.NotPositiveDefiniteError):
        loss(-GRID.data)
    with pytest.raises(ValueError, match="finite"):
        loss(np.where(GRID.row == 3, np.nan, GRID.data))


def test_a_named_engine_gives_the_value_and_derivatives_follow(reference):
    v = torch.tensor(GRID.data, requires_grad=True)
    value = ldiv.logdet(array(v), assume_a="pos", method="superlu")
    assert_same([value.detach(), *torch.autograd.grad(value, v)], reference[:2])
    assert "superlu" in registry.engines()


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("promise", ["pos", "gen"])
def test_more_numbers_than_torch_hands_to_numpy(promise, dtype):
    """Dtypes and values of a matrix of some size, against eigenvalues and Euler's formula."""
    a = sp.coo_array(sp.kronsum(sp.kronsum(LINE, LINE), LINE))
    v = torch.tensor(a.data).to(getattr(torch, dtype)).requires_grad_()
    sign, size = ldiv.slogdet(ldiv.coo_array((v, (a.row, a.col)), shape=a.shape), assume_a=promise)
    (g,) = torch.autograd.grad(size, v, create_graph=True)
    (h,) = torch.autograd.grad(g.real.sum(), v, retain_graph=True)
    assert [x.dtype for x in (sign, g, h)] == [v.dtype] * 3
    assert size.dtype == v.real.dtype
    eigenvalues = np.linalg.eigvalsh(LINE.toarray())
    sums = (eigenvalues[:, None, None] + eigenvalues[:, None] + eigenvalues).ravel()
    tolerance = 1e-4 if dtype in ("float32", "complex64") else 1e-11
    assert abs(sign.item() - 1) < tolerance
    assert size.item() == pytest.approx(np.log(sums).sum(), rel=tolerance)
    # along A itself: d log det = n, and the second derivative -n
    n = len(sums)
    assert (g.conj() * v).real.sum().item() == pytest.approx(n, rel=tolerance)
    (along,) = torch.autograd.grad((g.conj() * v.detach()).real.sum(), v)
    assert (along.conj() * v).real.sum().item() == pytest.approx(-n, rel=10 * tolerance)
    assert torch.isfinite(h).all()


def test_the_sign_that_superlu_tells_has_all_digits(monkeypatch):
    """The pivots are chosen among rows and columns of equal size, whatever the units of A."""

    def none(*_, **__):
        raise SingularMatrixError("nobody", "nothing")

    monkeypatch.setattr(general, "CompiledBlockLu", none)
    ldiv.clear_cache()
    for seed in range(8):
        rng = np.random.default_rng(seed)
        a = (sp.random_array((130, 130), density=0.03, rng=rng) + 3 * sp.eye_array(130)).toarray()
        r, c = 2.0 ** rng.integers(-30, 31, (2, 130))
        a = (r[:, None] * a * np.exp(6j * rng.random(a.shape)) * c).astype("complex64")
        sign, _ = ldiv.slogdet(ldiv.asarray(sp.coo_array(a)))
        assert abs(sign - np.linalg.slogdet(a.astype("complex128"))[0]) < 3e-5
