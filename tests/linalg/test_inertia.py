"""The numbers of positive, negative and zero eigenvalues, against the eigenvalues themselves; an
error where they are not certain.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import ldiv
from ldiv.engines.eigen import inertia as counting
from ldiv.engines.libraries import native
from ldiv.engines.selected.compiled import CompiledLdl

compiled = pytest.mark.skipif(native.native is None, reason=native.why_not)
UNCERTAIN = "rounding cannot tell from zero|structural|rank is|lie in so few columns"


def expected(a: Any) -> tuple[int, int, int]:
    lam = np.linalg.eigvalsh(a)
    tiny = 1e-9 * np.abs(lam).max()
    return int((lam > tiny).sum()), int((lam < -tiny).sum()), int((np.abs(lam) <= tiny).sum())


def hermitian(n: int, kind: str, rng: Any) -> Any:
    a = sp.random_array((n, n), density=0.1, rng=rng)
    a = a + a.T + sp.diags_array(rng.uniform(1, 2, n) * rng.choice([-1.0, 1.0], n))
    if kind == "complex":
        b = sp.random_array((n, n), density=0.1, rng=rng)
        a = a + 1j * (b - b.T)
    if kind == "saddle":  # rows with zeros on the diagonal
        m = sp.random_array((n // 3, n), density=0.05, rng=rng) + sp.eye_array(n // 3, n)
        d = sp.diags_array(np.where(np.arange(n) < n // 3, 0.0, 1.0))
        a = sp.block_array([[d, m.T], [m, None]])
    if kind == "rows of zeros":
        d = sp.diags_array(rng.choice([0.0, 1.0], n))
        a = d @ a @ d
    return sp.csc_array(a)


@compiled
@pytest.mark.parametrize("kind", ["real", "complex", "graded", "saddle", "rows of zeros"])
def test_sparse_and_dense_agree_with_the_eigenvalues(kind: str) -> None:
    rng = np.random.default_rng(0)
    for n in (2, 9, 30, 60):
        a = hermitian(n, kind, rng)
        counts = expected(a.toarray())
        for A in (ldiv.asarray(a), a.toarray()):
            assert ldiv.inertia(A) == counts
        assert sum(counts) == a.shape[0]


@compiled
def test_what_rounding_could_change_raises() -> None:
    """An eigenvalue of a shifted matrix, to the last bit, with other signs around it."""
    path = sp.diags_array([2.0, -1.0, -1.0], offsets=[0, 1, -1], shape=(40, 40))
    free = sp.diags_array([1.0, -1.0], offsets=[0, 1], shape=(39, 40))
    lam = 2 - 2 * np.cos(np.pi * 7 / 41)
    for a in (path - lam * sp.eye_array(40), free.T @ free):
        for A in (ldiv.asarray(sp.csc_array(a)), a.toarray()):
            with pytest.raises(ldiv.SingularMatrixError, match=UNCERTAIN):
                ldiv.inertia(A)
    for shift, below in ((lam - 1e-9, 6), (lam + 1e-9, 7)):
        a = path - shift * sp.eye_array(40)
        for A in (ldiv.asarray(sp.csc_array(a)), a.toarray()):
            assert ldiv.inertia(A) == (40 - below, below, 0)


@compiled
def test_real_matrices(real_matrix: Any) -> None:
    assert ldiv.inertia(ldiv.asarray(real_matrix("bcsstk13")), assume_a="pos") == (2003, 0, 0)
    a = real_matrix("494_bus")
    lam = np.linalg.eigvalsh(a.toarray())
    s = float(lam[100] + lam[101]) / 2
    assert ldiv.inertia(ldiv.asarray(a - s * sp.eye_array(494))) == (393, 101, 0)


def test_diagonals_are_counted_as_they_are() -> None:
    d = np.array([1.0, -1e-300, 0.0, 3.0])
    assert ldiv.inertia(ldiv.diags_array([d], offsets=[0])) == (2, 1, 1)
    assert ldiv.inertia(ldiv.eye_array(3)) == (3, 0, 0)
    assert ldiv.inertia(np.zeros((0, 0))) == (0, 0, 0)
    assert ldiv.inertia(np.zeros((2, 2))) == (0, 0, 2)
    assert ldiv.inertia(ldiv.coo_array((np.zeros(1), ([0], [0])), shape=(2, 2))) == (0, 0, 2)


@compiled
def test_batches_frameworks_and_precisions() -> None:
    jnp = pytest.importorskip("jax.numpy")
    a = np.stack([np.diag([1.0, -2.0, 3.0]), np.eye(3)])
    assert [c.tolist() for c in ldiv.inertia(a)] == [[2, 3], [1, 0], [0, 0]]
    s = ldiv.asarray(sp.csc_array(a[0] + a[1] * 0.0))
    many = s.with_data(np.stack([s.data, -s.data]))
    assert [c.tolist() for c in ldiv.inertia(many)] == [[2, 1], [1, 2], [0, 0]]
    t = torch.tensor(a[0], dtype=torch.float32, requires_grad=True)
    for x in (t, jnp.asarray(a[0]), a[0].astype(np.float32)):
        found = ldiv.inertia(x)
        assert found == (2, 1, 0) and found.n_negative == 1
    assert ldiv.inertia(np.zeros((0, 3, 3))).n_zero.shape == (0,)


def test_what_has_no_inertia() -> None:
    jax = pytest.importorskip("jax")
    with pytest.raises(ldiv.NotSymmetricError):
        ldiv.inertia(np.triu(np.ones((3, 3))))
    with pytest.raises(ValueError, match="'her' for a complex matrix"):
        ldiv.inertia(np.eye(2) * (1 + 0j), assume_a="sym")
    with pytest.raises(ValueError, match="assume_a"):
        ldiv.inertia(np.eye(2), assume_a="gen")
    with pytest.raises(ValueError, match="square"):
        ldiv.inertia(np.ones((2, 3)))
    with pytest.raises(ldiv.NotPositiveDefiniteError, match="1 negative"):
        ldiv.inertia(np.diag([1.0, -1.0]), assume_a="pos")
    with pytest.raises(TypeError, match="trace"):
        jax.jit(lambda a: ldiv.inertia(a).n_zero)(np.eye(2))
    kron = ldiv.kron(np.diag([1.0, -1.0]), np.eye(3) + np.ones((3, 3)))
    with pytest.raises(ldiv.EngineError, match="entries are at hand"):
        ldiv.inertia(kron)


def test_where_nothing_is_compiled_sparse_matrices_are_not_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(counting, "missing", lambda: "is not there")
    with pytest.raises(ldiv.EngineError, match="which is not there"):
        ldiv.inertia(ldiv.asarray(sp.csc_array(np.eye(3) + 1)))


@compiled
def test_a_factor_of_another_matrix_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The signs of a factor count only if it is the factor of A; here a pivot has gone wrong."""
    right = CompiledLdl.__init__

    def other(self: Any, engine: str, fronts: Any, values: Any, *options: Any) -> None:
        right(self, engine, fronts, values * np.where(np.arange(len(values)) < 3, -1, 1), *options)

    monkeypatch.setattr(CompiledLdl, "__init__", other)
    with pytest.raises(ldiv.SingularMatrixError):
        ldiv.inertia(ldiv.asarray(hermitian(30, "real", np.random.default_rng(1))))
