"""eigsh(check=True): what two searches skip raises, what one skips is found."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import ldiv
from ldiv.engines import registry
from ldiv.engines.eigen import arpack, inertia, slicing
from ldiv.engines.eigen.task import EigenTask
from ldiv.engines.libraries import native
from ldiv.structures.identity import Identity

pytestmark = pytest.mark.skipif(native.native is None, reason=native.why_not)
N, FEWER = 16, 15


def grid(n: int = N) -> tuple[Any, Any]:
    """A square membrane, most of whose eigenvalues are double, and all of these."""
    path = sp.diags_array([2.0, -1.0, -1.0], offsets=[0, 1, -1], shape=(n, n))
    a = sp.kron(path, sp.eye_array(n)) + sp.kron(sp.eye_array(n), path)
    lam = 2 - 2 * np.cos(np.pi * np.arange(1, n + 1) / (n + 1))
    return ldiv.asarray(sp.csc_array(a)), np.sort(np.add.outer(lam, lam).ravel())


def nearest(lam: Any, sigma: float, which: str, k: int) -> Any:
    nu = 1 / (lam - sigma)
    key = {"LM": -np.abs(nu), "LA": -nu, "SA": nu}[which]
    return np.sort(lam[np.argsort(key, kind="stable")[:k]])


@pytest.mark.parametrize("which", ["LM", "LA", "SA"])
@pytest.mark.parametrize("sigma", [0.0, 1.013, 8.5])
def test_what_is_right_passes(which: str, sigma: float) -> None:
    if (which, sigma) in (("SA", 0.0), ("LA", 8.5)):
        pytest.skip("no eigenvalue on this side")
    A, lam = grid()
    for k in (1, 4, 7):  # 4 and 7 cut through double ones at some of these
        w = ldiv.eigsh(A, k, sigma=sigma, which=which, return_eigenvectors=False, check=True)
        assert np.abs(w - nearest(lam, sigma, which, k)).max() < 1e-10


def test_pencils_complex_matrices_and_single_precision() -> None:
    A, _ = grid()
    m = ldiv.diags_array([np.linspace(1.0, 2.0, N * N)], offsets=[0])
    a = A.todense()
    t = sp.diags_array(np.exp(1j * np.arange(N * N)))
    turned = ldiv.asarray(sp.csc_array(t @ sp.csc_array(a) @ t.conj()))
    lam = np.linalg.eigvalsh(
        np.linalg.solve(
            np.diag(np.sqrt(np.linspace(1, 2, N * N))),
            np.linalg.solve(np.diag(np.sqrt(np.linspace(1, 2, N * N))), a).T,
        )
    )
    found = ldiv.eigsh(A, 3, m, sigma=0.5, return_eigenvectors=False, check=True)
    assert np.abs(found - nearest(lam, 0.5, "LM", 3)).max() < 1e-10
    lam = np.linalg.eigvalsh(a)
    for B, tol in ((turned, 1e-10), (A.astype(np.float32), 1e-4)):
        found = ldiv.eigsh(B, 3, sigma=0.5, return_eigenvectors=False, check=True)
        assert np.abs(found - nearest(lam, 0.5, "LM", 3)).max() < tol


def spoil(monkeypatch: pytest.MonkeyPatch, searches: int) -> list[int]:
    """A Lanczos method that skips the second pair in its first searches."""
    right, calls = arpack.Lanczos.pairs, [0]

    def wrong(self: Any, m: int, start: Any) -> Any:
        calls[0] += 1
        if calls[0] > searches:
            return right(self, m, start)
        lam, x = right(self, m + 1, start)
        order = np.argsort(np.abs(lam))
        return lam[np.delete(order, 1)], x[:, np.delete(order, 1)]

    monkeypatch.setattr(arpack.Lanczos, "pairs", wrong)
    monkeypatch.setattr(arpack.Lanczos, "may_miss", lambda *_: False)
    return calls


def test_what_one_search_skips_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    A, lam = grid()
    calls = spoil(monkeypatch, 1)
    w, X = ldiv.eigsh(A, 3, sigma=0.0, check=True)
    assert np.abs(w - lam[:3]).max() < 1e-10 and calls == [2]
    assert np.abs(A @ X - X * w).max() < 1e-10


def test_what_two_searches_skip_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    A, lam = grid()
    spoil(monkeypatch, 9)
    assert np.abs(ldiv.eigsh(A, 3, sigma=0.0)[0] - lam[[0, 2, 3]]).max() < 1e-10
    with pytest.raises(ldiv.ConvergenceError, match="1 more eigenvalues than were found"):
        ldiv.eigsh(A, 3, sigma=0.0, check=True)


def test_a_start_that_is_blind_is_found_out() -> None:
    """A symmetric start does not see antisymmetric vectors, except by rounding."""
    path = sp.diags_array([2.0, -1.0, -1.0], offsets=[0, 1, -1], shape=(201, 201))
    A, lam = ldiv.asarray(sp.csc_array(path)), 2 - 2 * np.cos(np.pi * np.arange(1, 202) / 202)
    options: dict[str, Any] = {"sigma": 0.0, "v0": np.ones(201), "tol": 1e-6, "method": "arpack"}
    w = ldiv.eigsh(A, 3, return_eigenvectors=False, check=True, **options)
    assert np.abs(w / lam[:3] - 1).max() < 1e-5


def test_gradients_are_those_without(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check costs two factorizations, of the forward pass."""
    A, _ = grid()
    count = [0]
    right = inertia._counted
    monkeypatch.setattr(
        inertia, "_counted", lambda *a: (count.__setitem__(0, count[0] + 1), right(*a))[1]
    )
    bars = []
    for check in (False, True):
        _, pullback = ldiv.vjp(lambda A, c=check: ldiv.eigsh(A, 1, sigma=0.0, check=c), A)
        bars.append(pullback((np.ones(1), np.zeros((N * N, 1))))[0].data)
    assert np.allclose(*bars, rtol=1e-12) and count == [2]


def test_where_nothing_is_counted() -> None:
    A, _ = grid()
    for options in (
        {},
        {"sigma": 0.5, "which": "SM"},
        {"sigma": 0.5, "mode": "buckling"},
        {"sigma": 0.5, "mode": "cayley"},
    ):
        with pytest.raises(ValueError, match="check"):
            ldiv.eigsh(A, 3, check=True, **options)
    with pytest.raises((ValueError, TypeError), match="check"):
        ldiv.eigsh(A, 3, sigma=0.5, check=1.5)


# -- what the factor of the forward tells for nothing -------------------------------------------


@pytest.fixture
def by_ldl(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others do not tell their signs. Patterns remember their engine: FEWER is for this one."""
    for other in ("pardiso", "lu", "superlu"):
        monkeypatch.setattr(registry.engines()[other], "supports", lambda *_: "is left out")


@pytest.mark.usefixtures("by_ldl")
@pytest.mark.parametrize("sigma", [-1.0, 0.0, 1.013, 8.5])
def test_both_sides_are_counted(sigma: float) -> None:
    A, lam = grid(FEWER)
    m = ldiv.diags_array([np.linspace(1.0, 2.0, FEWER**2)], offsets=[0])
    root = np.sqrt(np.linspace(1, 2, FEWER**2))
    of_pencil = np.linalg.eigvalsh(A.todense() / root / root[:, None])
    for M, every in ((None, lam), (m, of_pencil)):
        ldiv.clear_cache()
        *_, info = ldiv.eigsh(A, 3, M, sigma=sigma, info=True)
        assert info.inertia == ((every > sigma).sum(), (every < sigma).sum(), 0)
        assert ldiv.cache_info().factorizations <= 1 + (M is not None)
    *_, info = ldiv.eigsh(A.astype(np.float32), 3, sigma=sigma, info=True)
    assert info.inertia == ((lam > sigma).sum(), (lam < sigma).sum(), 0)


@pytest.mark.usefixtures("by_ldl")
def test_every_matrix_of_a_batch_is_counted() -> None:
    A, lam = grid(FEWER)
    both = A.with_data(np.stack([A.data, 2 * A.data]))
    *_, info = ldiv.eigsh(both, 2, sigma=1.013, return_eigenvectors=False, info=True)
    below = [(lam < 1.013).sum(), (2 * lam < 1.013).sum()]
    assert info.inertia.n_negative.tolist() == below
    assert info.inertia.n_positive.tolist() == [FEWER**2 - x for x in below]


def test_where_no_factor_tells() -> None:
    A, _ = grid()
    assert ldiv.eigsh(A, 2, which="SA", info=True)[-1].inertia is None
    assert ldiv.eigsh(A.todense(), 2, sigma=1.0, method="lapack", info=True)[-1].inertia is None


@pytest.mark.usefixtures("by_ldl")
@pytest.mark.parametrize("searches", [1, 9])
def test_more_pairs_than_there_are(monkeypatch: pytest.MonkeyPatch, searches: int) -> None:
    """The only eigenvalue below sigma, found twice."""
    A, lam = grid(FEWER)
    right, calls = arpack.Lanczos.pairs, [0]

    def twice(self: Any, m: int, start: Any) -> Any:
        calls[0] += 1
        found, x = right(self, m, start)
        if calls[0] <= searches:
            order = np.argsort(found)
            order[1] = order[0]
            return found[order], x[:, order]
        return found, x

    monkeypatch.setattr(arpack.Lanczos, "pairs", twice)
    monkeypatch.setattr(arpack.Lanczos, "may_miss", lambda *_: False)
    sigma = (lam[0] + lam[1]) / 2
    if searches > 1:
        with pytest.raises(ldiv.ConvergenceError, match="1 fewer eigenvalues"):
            ldiv.eigsh(A, 2, sigma=sigma)
        return
    assert np.abs(ldiv.eigsh(A, 2, sigma=sigma)[0] - lam[:2]).max() < 1e-10 and calls == [2]


def test_what_the_count_of_one_side_proves() -> None:
    identity = Identity(9)
    lam, error_bound = np.array([1.0, 2.0, 4.0]), np.full(3, 1e-12)

    def missing(which: str, above: int, sigma: float = 3.0, offset: float = 0.0) -> int:
        task = EigenTask(identity, identity, 2, which, sigma, offset=offset)
        return slicing.contradicted(task, (above, 9 - above), lam, error_bound)

    # two below and one above were found
    assert [missing("LM", above) for above in (0, 1, 7, 8)] == [-1, 0, 0, -1]
    assert [missing("SA", above) for above in (1, 7, 6)] == [1, 0, 1]
    assert [missing("LA", above) for above in (1, 2, 6)] == [0, 1, 2]
    assert missing("BE", 0) == missing("SM", 0) == missing("LM", 0, offset=1.0) == 0
    # an eigenvalue as good as sigma is on either side
    assert [missing("SA", above, 2 + 1e-11) for above in (7, 8)] == [0, 0]


def test_gaps() -> None:
    wide = np.array([1.0, -1.0, 0.5, -1.0, 0.2, 0.7])
    assert [slicing._gap(wide, k) for k in (1, 3, 4, 5)] == [5, 5, 5, 5]
    assert slicing._gap(np.array([1.0, -1.0, -1.0]), 2) == 0
    assert slicing._gap(np.array([1.0, 2.0, -1.0]), 2) == 1
    assert slicing._gap(np.array([-1.0, -1.0]), 1) is None
