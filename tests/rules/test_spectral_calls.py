"""Eigenpairs and singular triplets of dense matrices in one compiled call, and their cotangents: against
NumPy in double precision, for every dtype, size and shape; what is declined goes the careful way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import ldiv
from ldiv.core.rules.rescaling import Rescaled
from ldiv.engines.factors import spectral_calls
from ldiv.engines.libraries import native

DTYPES = ["float32", "float64", "complex64", "complex128"]
SHAPES = [(1, 1), (3, 3), (8, 8), (9, 9), (24, 24), (7, 4), (4, 7), (30, 11), (11, 30)]
compiled = pytest.mark.skipif(native.native is None, reason=native.why_not)


def drawn(rng: Any, shape: tuple[int, ...], dtype: str) -> Any:
    x = rng.standard_normal(shape)
    return (x + 1j * rng.standard_normal(shape) if dtype[0] == "c" else x).astype(dtype)


def hermitian(rng: Any, n: int, dtype: str) -> Any:
    """Three matrices whose eigenvalues are apart."""
    x = np.linalg.qr(drawn(rng, (3, n, n), dtype))[0]
    a = (x * (np.arange(n) - 0.25).astype(dtype)) @ x.mT.conj()
    return (a + a.mT.conj()) / 2


def general(rng: Any, m: int, n: int, dtype: str) -> Any:
    """Three matrices whose singular values are apart, and apart from 0."""
    k = min(m, n)
    u, v = (np.linalg.qr(drawn(rng, (3, rows, k), dtype))[0] for rows in (m, n))
    a: Any = (u * np.arange(1.0, k + 1).astype(dtype)) @ v.mT.conj()
    return a


def close(found: Any, expected: Any, enough: float) -> None:
    error = np.abs(found - expected).max((-2, -1)) / np.abs(expected).max((-2, -1))
    assert (error < enough).all(), error


def wide(x: Any) -> Any:
    return x.astype("complex128" if x.dtype.kind == "c" else "float64")


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each compiled call accepted."""
    found: list[bool] = []
    for kind in ("EigenpairCalls", "VectorCalls", "EigenvalueCalls", "TripletCalls"):
        for name in ("forward", "backward"):
            own = getattr(getattr(spectral_calls, kind), name)

            def noted(self: Any, *given: Any, own: Any = own) -> Any:
                found.append((y := own(self, *given)) is not None)
                return y

            monkeypatch.setattr(getattr(spectral_calls, kind), name, noted)
    return found


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", sorted({n for n, _ in SHAPES}))
def test_eigenpairs(n: int, dtype: str, taken: list[bool]) -> None:
    rng = np.random.default_rng(n)
    a, enough = hermitian(rng, n, dtype), 100 * n * float(np.finfo(dtype).eps)
    lam, x = ldiv.eigh(a)
    size = max(n - 1, 1)
    close((x * lam[:, None]) @ x.mT.conj() / size + 2, a / size + 2, enough)
    close(x.mT.conj() @ x, np.eye(n)[None], enough)
    assert lam.dtype == a.real.dtype and x.dtype == a.dtype
    np.testing.assert_allclose(ldiv.eigvalsh(a), np.linalg.eigvalsh(wide(a)), atol=enough * size)
    # <P, f(A)> for a random P: the gradient of sum_i w_i x_i^H P x_i + v_i lam_i
    p, w, v = hermitian(rng, n, dtype), rng.standard_normal(n), rng.standard_normal(n)
    given = torch.tensor(a, requires_grad=True)
    values, vectors = ldiv.eigh(given)
    seen = (vectors.mH @ torch.tensor(p) @ vectors).diagonal(dim1=-2, dim2=-1).real
    loss = (seen * torch.tensor(w.astype(a.real.dtype))).sum()
    (g,) = torch.autograd.grad(loss + (values * torch.tensor(v.astype(a.real.dtype))).sum(), given)
    exact, basis = np.linalg.eigh(wide(a))
    inside = basis.mT.conj() @ wide(p) @ basis * (w[:, None] - w)
    gap = exact[:, :, None] - exact[:, None, :] + np.eye(n)
    expected = basis @ (inside / gap + np.diag(v)) @ basis.mT.conj()
    close(g.numpy() + 2 * abs(v).max(), expected + 2 * abs(v).max(), 10 * enough)
    (g,) = torch.autograd.grad((ldiv.eigvalsh(given) * torch.tensor(v)).sum(), given)
    close(g.numpy(), basis @ np.diag(v) @ basis.mT.conj(), enough)
    assert native.native is None or (len(taken) == 6 and all(taken))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_triplets(shape: tuple[int, int], dtype: str, taken: list[bool]) -> None:
    rng = np.random.default_rng(shape[0])
    a, k = general(rng, *shape, dtype), min(shape)
    enough = 100 * max(shape) * float(np.finfo(dtype).eps)
    u, s, vh = ldiv.svd(a)
    close(u * s[:, None] @ vh, a, enough)
    close(u.mT.conj() @ u, np.eye(k)[None], enough)
    close(vh @ vh.mT.conj(), np.eye(k)[None], enough)
    np.testing.assert_allclose(ldiv.svdvals(a), np.linalg.svd(wide(a))[1], atol=enough * k)
    weights = [rng.standard_normal(z) for z in ((shape[0], k), (k,), (k, shape[1]))]

    def gradient(svd: Callable[..., Any], a: Any, *of: int) -> Any:
        given = torch.tensor(a, requires_grad=True)
        found = svd(given)
        parts = [(found[i].abs() ** 2 * torch.tensor(weights[i])).sum() for i in of]
        return torch.autograd.grad(sum(parts), given)[0].numpy()

    def reference(a: Any) -> Any:
        return torch.linalg.svd(a, full_matrices=False)

    close(gradient(ldiv.svd, a, 0, 1, 2), gradient(reference, wide(a), 0, 1, 2), 100 * enough)
    values = gradient(lambda a: {1: ldiv.svdvals(a)}, a, 1)
    close(values, gradient(reference, wide(a), 1), enough)
    assert native.native is None or (len(taken) == 5 and all(taken))


def functions() -> dict[str, Callable[[Any], Any]]:
    return {
        "eigh": lambda a: ldiv.eigh(a)[1],
        "eigvalsh": ldiv.eigvalsh,
        "svd": lambda a: ldiv.svd(a)[0],
        "svdvals": ldiv.svdvals,
    }


each = pytest.mark.parametrize("name", functions())
A = hermitian(np.random.default_rng(0), 6, "float64")[0]


@each
def test_a_bad_member_is_refused_alone(name: str) -> None:
    f, a = functions()[name], np.stack([A] * 3)
    expected = f(a)
    a[1, 2, 3] = np.nan
    with pytest.raises(ValueError, match="finite"):
        f(a)
    with pytest.raises(ValueError, match="finite"):
        f(torch.tensor(a, requires_grad=True))
    with ldiv.errstate(singular="nan"):
        found = f(a)
    assert np.isnan(found[1]).all()
    np.testing.assert_allclose(found[[0, 2]], expected[[0, 2]], atol=1e-13)


@pytest.mark.parametrize("name", ["eigh", "eigvalsh"])
def test_what_is_not_symmetric_is_refused(name: str) -> None:
    a = A.copy()
    a[0, 1] += 1e-2
    for x in (a, torch.tensor(a), torch.tensor(a, requires_grad=True)):
        with pytest.raises(ldiv.NotSymmetricError):
            functions()[name](x)
    rounded = A * (1 + 1e-12 * np.random.default_rng(0).standard_normal(A.shape))
    np.testing.assert_allclose(
        ldiv.eigvalsh(rounded), np.linalg.eigvalsh((rounded + rounded.T) / 2), atol=1e-13
    )


@each
def test_a_cluster_is_for_the_rule_to_judge(name: str) -> None:
    f = functions()[name]
    q = np.linalg.qr(np.random.default_rng(1).standard_normal((6, 6)))[0]
    a = q @ np.diag([1.0, 2, 2, 3, 4, 5]) @ q.T
    given = torch.tensor((a + a.T) / 2, requires_grad=True)
    y = f(given)
    torch.autograd.grad((y.sum() if y.ndim == 1 else (y @ y.mT).sum()), given)  # of all alike
    loss = (f(given) * torch.arange(6.0).double()).sum()
    with pytest.raises(ldiv.NotDifferentiableError):
        loss.backward()  # type: ignore[no-untyped-call]


@each
def test_writes_to_the_input_change_no_derivative(name: str) -> None:
    f, given = functions()[name], torch.tensor(A, requires_grad=True)
    expected = torch.autograd.grad((f(given) ** 4).sum(), given)[0]
    copy = given * 1
    loss = (f(copy) ** 4).sum()
    copy.detach().zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        torch.autograd.grad(loss, given)
    a = A.copy()
    y, pull = ldiv.vjp(f, a)
    a[:] = 0
    np.testing.assert_allclose(pull(4 * y**3)[0], expected, atol=1e-11)


@each
@pytest.mark.parametrize("power", [-1000, -300, -60, 60, 300, 1000])
def test_units(name: str, power: int) -> None:
    """Values of every scale, with and without a derivative, are those of scale 1."""
    f, t = functions()[name], 2.0 ** (power // 2)
    unit = t if name in ("eigvalsh", "svdvals") else 1
    a = A * t * t if power % 2 == 0 else A
    np.testing.assert_array_equal(f(a), f(A) * unit * unit)
    given = torch.tensor(a, requires_grad=True)
    assert torch.equal(f(given), f(torch.tensor(A, requires_grad=True)) * unit * unit)


@each
def test_no_rows_and_no_members(name: str) -> None:
    f = functions()[name]
    f(np.ones((2, 3, 3)) + np.diag([1.0, 2, 3]))
    for as_array in (np.asarray, torch.tensor):
        assert f(as_array(np.ones((0, 0)))).shape[-1] == 0
        assert f(as_array(np.ones((0, 3, 3)))).shape[0] == 0


@compiled
def test_values_alone_find_no_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any) -> Any:
        raise AssertionError("vectors were found")

    monkeypatch.setattr(spectral_calls.EigenpairCalls, "forward", never)
    monkeypatch.setattr(spectral_calls.TripletCalls, "forward", never)
    for a in (A, torch.tensor(A), torch.tensor(A * 2.0**-600)):
        ldiv.eigvalsh(a), ldiv.svdvals(a)
    with torch.no_grad():
        ldiv.eigvalsh(torch.tensor(A, requires_grad=True))
    with pytest.raises(AssertionError, match="vectors were found"):
        ldiv.eigvalsh(torch.tensor(A, requires_grad=True))


# f, and the degree of its last result
UNITS = {
    "eigh": (lambda a: ldiv.eigh(a + a.mT), 0),
    "eigvalsh": (lambda a: [ldiv.eigvalsh(a + a.mT)], 1),
    "svd": (lambda a: ldiv.svd(a, full_matrices=False), 0),
    "svdvals": (lambda a: [ldiv.svdvals(a)], 1),
    "eigvals": (lambda a: [ldiv.eigvals(a).real], 1),
    "pinv": (lambda a: [ldiv.pinv(a)], -1),
    "lstsq": (lambda a: [ldiv.lstsq(a, torch.ones(5).double())[0]], -1),
}


@compiled
@pytest.mark.parametrize("name", UNITS)
def test_units_are_chosen_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiled call chooses alone, unless the matrix is at an end of the range: then the rule does."""
    asked: list[Rescaled] = []
    chosen = Rescaled.rescaled_for

    def counted(rule: Rescaled, flat: Any) -> Any:
        asked.append(rule)
        return chosen(rule, flat)

    monkeypatch.setattr(Rescaled, "rescaled_for", counted)
    a = general(np.random.default_rng(0), 5, 5, "float64")[0]
    for power, is_asked in ((0, False), (120, False), (-600, True), (600, True)):
        x = torch.tensor(np.ldexp(a, power), requires_grad=True)
        f, degree = UNITS[name]
        *_, y = f(x)
        torch.autograd.grad(y, x, torch.full_like(y, 2.0 ** (-degree * power)))
        assert bool(asked) == is_asked, power
        asked.clear()
