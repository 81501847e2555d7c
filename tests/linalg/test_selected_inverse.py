"""Entries of the inverse of a sparse matrix by their public names: every assumption, view, order."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
import scipy.sparse as sp

import ldiv
from ldiv import structures
from ldiv.linalg.inverses import inverse_forms

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")
jax.config.update("jax_enable_x64", True)
mpmath.mp.dps = 50

N = 18


def matrix(dtype, assume_a):
    """Random, as the assumption says; positive definite for "pos"."""
    rng = np.random.default_rng(N)
    a = sp.random_array((N, N), density=0.15, rng=rng).toarray().astype(dtype)
    if np.dtype(dtype).kind == "c":
        a = a * np.exp(2j * np.pi * rng.random((N, N)))
    mirror = {"gen": 0 * a, "sym": a.T}.get(assume_a, a.conj().T)
    return sp.coo_array(a + mirror + (6 if assume_a == "pos" else 2) * np.eye(N))


def array(a, values=None):
    return ldiv.coo_array((a.data if values is None else values, (a.row, a.col)), shape=a.shape)


def close(x, y):
    assert np.allclose(x, y, rtol=1e-11, atol=1e-13)


CASES = [(d, a) for d in ("float64", "complex128") for a in ("gen", "sym", "her", "pos")]


@pytest.mark.parametrize(("dtype", "assume_a"), CASES)
def test_values_on_every_view(dtype, assume_a):
    a = matrix(dtype, assume_a)
    plain, inverse = array(a), np.linalg.inv(a.toarray())
    views = ((plain, inverse), (plain.T, inverse.T), (plain.H, inverse.conj().T), (plain.conj(), inverse.conj()))  # fmt: skip
    for view, z in views:
        found = ldiv.selected_inverse(view, assume_a=assume_a)
        assert np.array_equal([found.row, found.col], [view.row, view.col])
        close(found.data, z[view.row, view.col])
        wide = ldiv.selected_inverse(view, assume_a=assume_a, fill=True)
        assert wide.nnz >= view.nnz
        close(wide.data, z[wide.row, wide.col])
        close(ldiv.inverse_diagonal(view, assume_a=assume_a), z.diagonal())


@pytest.mark.parametrize(("dtype", "assume_a"), CASES)
def test_traces_by_entries_and_by_solves(dtype, assume_a, monkeypatch):
    a = matrix(dtype, assume_a)
    rng = np.random.default_rng(1)
    other = sp.coo_array(sp.random_array((N, N), density=0.1, rng=rng) + 1j * sp.eye_array(N))
    other = other if np.dtype(dtype).kind == "c" else sp.coo_array(other.real)
    for b in (a, other):
        expected = np.trace(np.linalg.inv(a.toarray()) @ b.toarray())
        for few, filled in ((0, np.inf), (0, 0), (N, 0)):
            monkeypatch.setattr(inverse_forms, "FEW", few)
            monkeypatch.setattr(inverse_forms, "FILLED", filled)
            close(ldiv.trace_solve(array(a), array(b), assume_a=assume_a), expected)


def dense_of(a, values, assume_a):
    m = torch.zeros(a.shape, dtype=values.dtype).index_put(tuple(map(torch.tensor, (a.row, a.col))), values)  # fmt: skip
    mirror = {"gen": m, "sym": m.mT}.get(assume_a, m.mH)
    return (m + mirror) / 2


@pytest.mark.parametrize(("dtype", "assume_a"), CASES)
def test_first_and_second_derivatives(dtype, assume_a, monkeypatch):
    monkeypatch.setattr(inverse_forms, "FEW", 0)
    a = matrix(dtype, assume_a)
    v = torch.tensor(a.data, requires_grad=True)
    rng = np.random.default_rng(2)
    w = torch.tensor(
        rng.standard_normal(a.nnz) + (1j * rng.standard_normal(a.nnz) if v.is_complex() else 0)
    )
    at = tuple(map(torch.tensor, (a.row, a.col)))
    b = array(a, torch.tensor(a.data * 0.5))

    def ours(v):
        x = array(a, v)
        z = ldiv.selected_inverse(x, assume_a=assume_a)
        return (
            (z.data * w).real.sum(),
            (ldiv.inverse_diagonal(x, assume_a=assume_a) ** 2).real.sum(),
            ldiv.trace_solve(x, b, assume_a=assume_a).real,
        )

    def theirs(v):
        z = torch.linalg.inv(dense_of(a, v, assume_a))
        return (
            (z[at] * w).real.sum(),
            (z.diagonal() ** 2).real.sum(),
            (z @ b.toarray()).trace().real,
        )

    for x, y in zip(ours(v), theirs(v), strict=True):
        close(x.detach(), y.detach())
        first = [torch.autograd.grad(z, v, create_graph=True)[0] for z in (x, y)]
        close(*(g.detach().resolve_conj() for g in first))
        second = [
            torch.autograd.grad((g * w.conj()).real.sum(), v, retain_graph=True)[0] for g in first
        ]
        assert np.allclose(*(h.resolve_conj() for h in second), rtol=1e-10, atol=1e-12)


def test_fifty_digits():
    a = matrix("float64", "pos")
    z = ldiv.selected_inverse(array(a), assume_a="pos")
    exact = mpmath.matrix(a.toarray()) ** -1
    expected = np.array([float(exact[int(i), int(j)]) for i, j in zip(z.row, z.col, strict=True)])
    assert abs(z.data - expected).max() < 1e-14 * abs(expected).max()


def test_jax_compiled_and_numpy():
    a = matrix("float64", "pos")
    w = np.random.default_rng(3).standard_normal(a.nnz)

    def f(v):
        return ldiv.selected_inverse(array(a, v), assume_a="pos").data

    expected = np.linalg.inv(a.toarray())

    @jax.jit
    def every(v, w):
        y, pull = jax.vjp(f, v)
        return y, pull(w)[0], jax.jvp(f, (v,), (w,))[1]

    y, back, forward = every(a.data, w)
    close(y, expected[a.row, a.col])
    e = sp.coo_array((w, (a.row, a.col)), a.shape).toarray()
    tangent = -expected @ (e + e.T) / 2 @ expected
    close(forward, tangent[a.row, a.col])
    close(back, forward)
    y, pull = ldiv.vjp(f, a.data)
    close(pull(w)[0], back)


def test_batches_duplicates_precision_and_sizes():
    a = matrix("float64", "gen")
    inverse = np.linalg.inv(a.toarray())
    both = ldiv.selected_inverse(array(a, np.stack([a.data, 2 * a.data])))
    assert both.shape == (2, N, N)
    close(both.data, np.stack([inverse, inverse / 2])[:, a.row, a.col])
    twice = ldiv.coo_array((np.tile(a.data / 2, 2), (np.tile(a.row, 2), np.tile(a.col, 2))), shape=a.shape)  # fmt: skip
    z = ldiv.selected_inverse(twice)
    assert z.nnz == a.nnz
    close(z.data, inverse[z.row, z.col])
    assert ldiv.inverse_diagonal(array(a, a.data.astype("float32"))).dtype == "float32"
    close(ldiv.selected_inverse(a).data, inverse[a.row, a.col])  # SciPy's own
    close(ldiv.inverse_diagonal(a), inverse.diagonal())
    empty = ldiv.coo_array((np.zeros(0), ([], [])), shape=(0, 0))
    assert ldiv.selected_inverse(empty).shape == (0, 0)
    assert ldiv.inverse_diagonal(empty).shape == (0,)
    assert ldiv.inverse_diagonal(np.zeros((2, 0, 0))).shape == (2, 0)


def test_other_structures():
    a = matrix("float64", "pos").toarray()
    band = np.array([np.r_[0, np.full(4, 0.5)], np.full(5, 3.0), np.r_[np.full(4, -1.0), 0]])
    for m, dense in (
        (a, a),
        (ldiv.Matrix(structures.Banded(1, 1, 5), band), structures.Banded(1, 1, 5).todense(band)),
        (ldiv.Gram(np.linalg.cholesky(a)), a),
        (ldiv.Matrix(structures.Diagonal(3), np.arange(1.0, 4)), np.diag(np.arange(1.0, 4))),
    ):
        close(ldiv.inverse_diagonal(m), np.linalg.inv(dense).diagonal())


def test_errors():
    a = matrix("float64", "gen")
    with pytest.raises(TypeError, match="sparse"):
        ldiv.selected_inverse(a.toarray())
    with pytest.raises(ValueError, match="square"):
        ldiv.selected_inverse(ldiv.coo_array((np.ones(2), ([0, 1], [0, 1])), shape=(2, 3)))
    with pytest.raises(ValueError, match="assume_a"):
        ldiv.selected_inverse(array(a), assume_a="diagonal")
    with pytest.raises(ldiv.NotSymmetricError):
        ldiv.selected_inverse(array(a), assume_a="her")
    with pytest.raises(ldiv.NotPositiveDefiniteError):
        ldiv.inverse_diagonal(-array(matrix("float64", "pos")), assume_a="pos")
    singular = ldiv.coo_array((np.ones(4), ([0, 0, 1, 1], [0, 1, 0, 1])), shape=(2, 2))
    for f in (ldiv.selected_inverse, ldiv.inverse_diagonal):
        with pytest.raises(ldiv.SingularMatrixError):
            f(singular)
        with pytest.raises(ldiv.SingularMatrixError):
            f(ldiv.coo_array((np.ones(1), ([0], [0])), shape=(2, 2)))


# -- nothing to factor --------------------------------------------------------

NOWHERE = (np.zeros(0, int), np.zeros(0, int))


def without_rows(values):
    return ldiv.coo_array((values, NOWHERE), shape=(0, 0))


@pytest.mark.parametrize("assume_a", ["gen", "sym", "her", "pos"])
@pytest.mark.parametrize("batch", [(), (2,), (2, 3)])
def test_rows_without_any_entry_are_singular(batch, assume_a):
    """Also where no entry of the inverse is asked."""
    a = ldiv.coo_array((np.zeros((*batch, 0)), NOWHERE), shape=(3, 3))
    for f in (ldiv.selected_inverse, ldiv.inverse_diagonal, ldiv.slogdet, ldiv.logdet, ldiv.det):
        with pytest.raises(ldiv.SingularMatrixError):
            f(a, assume_a=assume_a)
    with pytest.raises(ldiv.SingularMatrixError):
        ldiv.solve(a, np.ones(3), assume_a=assume_a)


@pytest.mark.parametrize("assume_a", ["gen", "pos"])
@pytest.mark.parametrize("batch", [(), (2,)])
def test_no_rows(batch, assume_a):
    """The empty product is 1, as NumPy has it."""
    values = torch.zeros((*batch, 0), dtype=torch.float64, requires_grad=True)
    one, zero = np.ones(batch), np.zeros(batch)
    for v in (values.detach().numpy(), values, jax.numpy.zeros((*batch, 0))):
        a = without_rows(v)
        sign, size = ldiv.slogdet(a, assume_a=assume_a)
        pairs = (sign, one), (size, zero), (ldiv.logdet(a, assume_a=assume_a), zero)
        trace = ldiv.trace_solve(a, a, assume_a=assume_a)
        for got, expected in (*pairs, (ldiv.det(a, assume_a=assume_a), one), (trace, zero)):
            got = got.detach() if isinstance(got, torch.Tensor) else got
            np.testing.assert_array_equal(np.asarray(got), expected)
        assert ldiv.selected_inverse(a, assume_a=assume_a).values.shape == (*batch, 0)
    (gradient,) = torch.autograd.grad(ldiv.slogdet(without_rows(values))[1].sum(), values)
    assert gradient.shape == values.shape
    band = ldiv.Matrix(structures.Banded(0, 0, 0), np.zeros((*batch, 1, 0)))
    np.testing.assert_array_equal(ldiv.slogdet(band)[0], one)


def test_no_matrix_in_a_batch_of_complex_ones():
    on = np.arange(3)
    a = ldiv.coo_array((np.ones((0, 3)) * 1j, (on, on)), shape=(3, 3))
    sign, size = ldiv.slogdet(a)
    assert (sign.shape, sign.dtype, size.shape, size.dtype) == ((0,), "complex128", (0,), "float64")


@pytest.mark.parametrize("seed", range(20))
def test_small_diagonals_of_well_conditioned_matrices(seed):
    """Pivots inside of blocks would be as small as they are, and lose as many digits."""
    rng = np.random.default_rng(seed)
    n, size = 10, 10.0 ** -rng.integers(8, 15)
    off = 1 + rng.random(n - 1)
    a = np.diag(size * rng.standard_normal(n)) + np.diag(off, 1) + np.diag(-off[::-1], -1)
    order = rng.permutation(n)
    a = a[order][:, order]
    i, j = np.nonzero((a != 0) | np.eye(n, dtype=bool) | (rng.random(a.shape) < 0.1))
    inverse = np.array((mpmath.matrix(a.tolist()) ** -1).tolist(), float)
    A = ldiv.coo_array((a[i, j], (i, j)), shape=a.shape)
    scale = np.linalg.cond(a) * np.abs(inverse).max()
    assert np.abs(ldiv.selected_inverse(A).toarray()[i, j] - inverse[i, j]).max() < 1e-13 * scale
    assert np.abs(ldiv.inverse_diagonal(A) - np.diag(inverse)).max() < 1e-13 * scale
