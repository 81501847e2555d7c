"""The second call of a kind, which is not validated again, is as the first one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import ldiv


def positive(n: int = 4, seed: int = 0) -> Any:
    a = np.random.default_rng(seed).standard_normal((n, n))
    return a @ a.T + n * np.eye(n)


@pytest.mark.parametrize("assume_a", ["gen", "sym", "pos"])
def test_logdet_of_one_kind_again(assume_a: Any) -> None:
    for seed in range(3):
        a = positive(seed=seed)
        batch = np.stack([a, 2 * a])
        assert ldiv.logdet(a, assume_a=assume_a) == pytest.approx(np.linalg.slogdet(a)[1])
        np.testing.assert_allclose(
            ldiv.logdet(batch, assume_a=assume_a), np.linalg.slogdet(batch)[1]
        )
        sparse = ldiv.asarray(sp.csc_array(a))
        assert ldiv.logdet(sparse, assume_a=assume_a) == pytest.approx(np.linalg.slogdet(a)[1])
        l, pull = ldiv.vjp(lambda x: ldiv.logdet(x, assume_a=assume_a), a)
        np.testing.assert_allclose(pull(np.ones_like(l))[0], np.linalg.inv(a).T, atol=1e-12)
        with pytest.raises(ValueError, match="finite"):
            ldiv.logdet(a * np.nan, assume_a=assume_a)
        with pytest.raises((ValueError, ldiv.NotPositiveDefiniteError)):
            ldiv.logdet(np.diag([1.0, 1.0, 1.0, -1.0]), assume_a=assume_a)
        if assume_a == "pos":
            with pytest.raises(ldiv.NotSymmetricError):
                ldiv.logdet(a + np.triu(np.ones((4, 4)), 1), assume_a=assume_a)


def test_options_are_looked_at_in_every_call() -> None:
    a = positive()
    for _ in range(2):
        ldiv.logdet(a)
        with pytest.raises(ValueError, match="method"):
            ldiv.logdet(a, method="none")
        with pytest.raises((TypeError, ValueError), match="info"):
            ldiv.logdet(a, info=2)  # type: ignore[call-overload]
        with pytest.raises((TypeError, ValueError), match="assume_a"):
            ldiv.logdet(a, assume_a=["pos"])  # type: ignore[call-overload]
        with pytest.raises((TypeError, ValueError), match=r"rng|slq"):
            ldiv.logdet(a, rng=3)
        with pytest.raises(ValueError, match="square"):
            ldiv.logdet(a[:3])
        assert float(ldiv.logdet([[2.0, 0.0], [0.0, 3.0]])) == pytest.approx(np.log(6))


def test_the_state_of_singular_matrices_belongs_to_the_kind() -> None:
    hilbert = 1 / (np.arange(13)[:, None] + np.arange(13) + 1.0)
    for _ in range(2):
        with pytest.raises(ldiv.SingularMatrixError):
            ldiv.solve(hilbert, np.ones(13))
        with ldiv.errstate(singular="ignore"):
            assert np.isfinite(ldiv.solve(hilbert, np.ones(13))).all()


def test_a_factorization_solves_again_and_is_differentiated() -> None:
    a, b = positive(40), np.random.default_rng(1).standard_normal(40)
    F = ldiv.factorized(a)
    ldiv.clear_cache()
    for _ in range(3):
        np.testing.assert_allclose(F.solve(b), np.linalg.solve(a, b))
        _, pull = ldiv.vjp(F.solve, b)
        np.testing.assert_allclose(pull(b)[0], np.linalg.solve(a.T, b))
    assert ldiv.cache_info().factorizations == 0


def test_logdet_of_tensors_again() -> None:
    torch = pytest.importorskip("torch")
    for seed in range(3):
        a = torch.from_numpy(positive(seed=seed)).requires_grad_()
        for assume_a in ("gen", "pos"):
            (g,) = torch.autograd.grad(ldiv.logdet(a, assume_a=assume_a), a)
            torch.testing.assert_close(g, torch.linalg.inv(a.detach()).T)
            theirs = torch.logdet
            if assume_a == "pos":  # read as its symmetric part

                def theirs(x: Any) -> Any:
                    return torch.logdet((x + x.mT) / 2)

            h = torch.func.hessian(lambda x, p=assume_a: ldiv.logdet(x, assume_a=p))(a)
            torch.testing.assert_close(h, torch.func.hessian(theirs)(a), atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("kinds", [("int32", "int32"), ("float32", "int32"), ("bool", "float32")])
def test_integers_of_jax_when_x64_is_switched(kinds: tuple[str, str]) -> None:
    jax = pytest.importorskip("jax")
    A, b = (
        jax.numpy.asarray(x, dtype) for x, dtype in zip((np.eye(3), np.ones(3)), kinds, strict=True)
    )
    for wide in (False, True, False, True):
        with jax.enable_x64(wide):
            expected = jax.numpy.result_type(float)
            if "bool" not in kinds:
                assert ldiv.solve(A, b).dtype == expected
            assert ldiv.logdet(A).dtype == (A.dtype if A.dtype == "float32" else expected)


@pytest.mark.filterwarnings("ignore:Explicitly requested dtype")
def test_doubles_of_jax_where_x64_is_off() -> None:
    """The doubles become single precision, as in jax.numpy; its own vmap warns."""
    jax = pytest.importorskip("jax")
    with jax.enable_x64(True):
        A = jax.numpy.asarray(np.diag([2.0, 3.0]))
    for wide in (True, False):
        with jax.enable_x64(wide):
            for f in (ldiv.det, jax.jit(ldiv.det), lambda A: jax.vmap(ldiv.det)(A[None])[0]):
                assert f(A).dtype == ("float64" if wide else "float32")
                np.testing.assert_allclose(f(A), 6, rtol=1e-6)
            slope = jax.jit(jax.grad(ldiv.det))(A)
            np.testing.assert_allclose(slope, [[3, 0], [0, 2]], atol=1e-5)


def test_solves_with_matrices_made_of_others_are_planned_once() -> None:
    A = ldiv.kron(np.array([[2.0, 1.0], [0.0, 1.0]]), ldiv.eye_array(3))
    calls = A.structure.cached("calls", dict)
    calls.clear()
    one = ldiv.solve(A, np.ones(6))
    assert len(calls) == 1
    assert np.array_equal(ldiv.solve(A, np.ones(6)), one)
    assert ldiv.solve(A, np.ones((4, 6, 1))).shape == (4, 6, 1)
    many = ldiv.kron(np.ones((3, 1, 1)) * np.eye(2), ldiv.eye_array(3))
    assert ldiv.solve(many, np.ones((3, 6, 1))).shape == (3, 6, 1)
    count = len(calls)
    with pytest.raises(ValueError, match="batch"):
        ldiv.solve(many, np.ones((2, 6, 1)))
    assert len(calls) == count
