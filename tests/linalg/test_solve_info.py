"""info, explain and the condition estimate, against dense NumPy."""

import numpy as np
import pytest
import scipy.sparse as sp
from frames import frames

import ldiv
from ldiv.engines.accuracy.norm_estimate import one_norm
from ldiv.engines.libraries import native

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")

jax.config.update("jax_enable_x64", True)

RNG = np.random.default_rng(0)


def draw(*shape, dtype="float64"):
    x = RNG.standard_normal(shape)
    return x + 1j * RNG.standard_normal(shape) if dtype == "complex128" else x


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("n", [1, 2, 7, 60])
def test_one_norm(n, dtype):
    a = draw(n, n, dtype=dtype) * np.geomspace(1, 1e6, n)
    found = one_norm(n, dtype, lambda x: a @ x, lambda x: a.conj().T @ x)
    true = np.abs(a).sum(axis=0).max()
    assert 0.99 * true <= found <= true * (1 + 1e-12)


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("method", ["lapack", "superlu", "gmres"])
@pytest.mark.parametrize("trans", ["N", "T", "H"])
def test_info_is_what_numpy_says(method, trans, dtype):
    a, b = draw(20, 20, dtype=dtype) + 6 * np.eye(20), draw(20, 3, dtype=dtype)
    A = a if method == "lapack" else ldiv.asarray(sp.csc_array(a))
    x, info = ldiv.solve(
        A, b, method=method, trans=trans, info=True, **({"rtol": 1e-3} if method == "gmres" else {})
    )
    op = {"N": a, "T": a.T, "H": a.conj().T}[trans]
    r, one = b - op @ x, lambda y: np.abs(y).sum(axis=0)
    assert info.engine == method
    assert np.isclose(
        info.residual,
        (np.linalg.norm(r, axis=0) / np.linalg.norm(b, axis=0)).max(),
        rtol=0.5,
        atol=1e-14,
    )
    assert np.isclose(
        info.backward_error,
        (one(r) / (one(op).max() * one(x) + one(b))).max(),
        rtol=0.5,
        atol=1e-15,
    )
    if method == "gmres":
        assert info.condition is None
        assert info.iterations >= 1
        assert 0 < info.residual <= 1e-3
    else:
        assert info.iterations == 0
        assert 0.3 * np.linalg.cond(op, 1) <= info.condition <= 1.001 * np.linalg.cond(op, 1)


def test_the_condition_bounds_the_error():
    n = 12
    a = 1 / (np.arange(n)[:, None] + np.arange(n) + 1.0) + 1e-8 * np.eye(n)
    true = np.ones(n)
    x, info = ldiv.solve(a, a @ true, info=True)
    assert info.condition > 1e7
    assert np.abs(x - true).sum() / n <= 2 * max(info.backward_error, 1e-15) * info.condition


@pytest.mark.parametrize("to", [np.asarray, torch.tensor, jax.numpy.asarray])
@pytest.mark.parametrize("method", ["lapack", "superlu"])
def test_the_condition_takes_no_factorization(method, to):
    a = draw(20, 20) + 6 * np.eye(20)
    A = to(a) if method == "lapack" else ldiv.asarray(sp.csc_array(a)).with_data(to(a.T.ravel()))
    _, info = ldiv.solve(A, to(draw(20)), method=method, info=True)
    before = ldiv.cache_info().factorizations
    assert info.condition > 1
    assert ldiv.cache_info().factorizations == before


def test_the_worst_of_a_batch_counts():
    a, b = np.stack([np.eye(3), np.diag([1.0, 1.0, 1e-4])]), np.ones((3, 1))
    _, info = ldiv.solve(a, b, info=True)
    assert np.isclose(info.condition, 1e4)


@pytest.mark.parametrize("array", [torch.tensor, jax.numpy.asarray], ids=["torch", "jax"])
def test_frameworks(array):
    a, b = draw(6, 6) + 4 * np.eye(6), draw(6)
    x, info = ldiv.solve(array(a), array(b), info=True)
    assert type(x) is type(array(b))
    assert isinstance(info.residual, float)
    assert np.isclose(info.condition, np.linalg.cond(a, 1), rtol=0.5)


def test_info_keeps_the_derivative():
    a, b = torch.tensor(draw(4, 4) + 4 * np.eye(4)), torch.tensor(draw(4), requires_grad=True)
    x, info = ldiv.solve(a, b, info=True)
    x.sum().backward()
    assert torch.allclose(a.T @ b.grad, torch.ones(4, dtype=torch.float64))
    assert info.residual < 1e-13


def test_info_is_refused_in_a_trace():
    with pytest.raises(TypeError, match="info=True"):
        jax.jit(lambda b: ldiv.solve(jax.numpy.eye(3), b, info=True))(jax.numpy.ones(3))


def test_info_of_nothing():
    x, info = ldiv.solve(np.eye(3), np.zeros(3), info=True)
    assert not x.any()
    assert info.residual == info.backward_error == 0


# -- explain ------------------------------------------------------------------

CASES = [
    (np.eye(3), "gen"),
    (np.eye(3), "pos"),
    (np.eye(3), "diagonal"),
    (np.eye(3), "lower triangular"),
    (ldiv.eye_array(4), "gen"),
    (ldiv.eye_array(4), "pos"),
    (ldiv.eye_array(4), "her"),
    (ldiv.LinearOperator(lambda p, x: p * x, np.array(2.0), shape=(3, 3), assume_a="pos"), "gen"),
    (ldiv.LinearOperator(lambda p, x: p * x, np.array(2.0), shape=(3, 3)), "her"),
    (ldiv.LinearOperator(lambda p, x: p * x, np.array(2.0), shape=(3, 3)), "gen"),
]


@pytest.mark.parametrize(("A", "promise"), CASES)
def test_explain_tells_what_solve_does(A, promise):
    b = np.ones(A.shape[0])
    told = ldiv.explain(A, b, assume_a=promise)
    _, info = ldiv.solve(A, b, assume_a=promise, info=True)
    assert told.engine == info.engine
    assert told.answers[told.engine] == "taken"
    assert list(told.answers.values()).count("taken") == 1
    assert told.answers.keys() == ldiv.engines.registry.engines().keys()
    assert all(str(told).count(name) for name in told.answers)


def test_what_could_too_can():
    told = ldiv.explain(ldiv.eye_array(4), assume_a="pos")
    able = [name for name, answer in told.answers.items() if answer in ("taken", "could, too")]
    assert {"superlu", "cg", "minres", "gmres", "bicgstab"} <= set(able)
    for name in able:
        assert np.allclose(
            ldiv.solve(ldiv.eye_array(4), np.ones(4), assume_a="pos", method=name), 1
        )
    for name in told.answers.keys() - set(able):
        with pytest.raises(ldiv.EngineError):
            ldiv.solve(ldiv.eye_array(4), np.ones(4), assume_a="pos", method=name)


def test_explain_says_dtype_and_promise():
    text = str(ldiv.explain(np.eye(3, dtype=np.float32), np.ones(3, dtype=complex), assume_a="pos"))
    assert text.startswith(
        "Symmetric matrix, 3 x 3, complex128 on cpu, promised positive definite\n"
    )
    with pytest.raises(ValueError, match="square"):
        ldiv.explain(np.ones((2, 3)))


def test_a_new_engine_is_explained(monkeypatch):
    from types import ModuleType

    new = ModuleType("ldiv.engines.direct.guess")
    new.ITERATES = False
    new.supports = lambda structure, dtype, device, assume_a: "guesses only"
    new.solve_whole = None
    monkeypatch.setattr(ldiv.engines.registry, "engines", lambda kind="engine": {"guess": new})
    told = ldiv.explain(np.eye(2))
    assert told.engine is None
    assert told.answers == {"guess": "guesses only"}


@pytest.mark.skipif(native.native is None, reason=native.why_not)
@pytest.mark.parametrize("form", ["dense", "csc", "pos", "triangle"])
def test_info_is_a_result_of_the_same_compiled_call(form):
    """Nothing is factored or solved twice, and the second call is planned."""
    a = draw(20, 20) + 6 * np.eye(20)
    a = a @ a.T if form == "pos" else a
    A = ldiv.asarray(sp.csc_array(a)) if form in ("csc", "pos") else a
    how = {"pos": "pos", "triangle": "lower triangular"}.get(form, "gen")
    for b in (draw(20), draw(20, 3)):
        plain = ldiv.solve(A, b, assume_a=how)
        ldiv.solve(A, b, assume_a=how, info=True)
        x = info = None  # which holds the factor
        ldiv.clear_cache()
        x, info = ldiv.solve(A, b, assume_a=how, info=True)
        counted = ldiv.cache_info()
        assert (counted.factorizations, counted.solves) == (int(form != "triangle"), 1)
        np.testing.assert_allclose(x, plain, rtol=1e-12)
        assert info.engine in ldiv.explain(A, b, assume_a=how).engine
        whole = np.tril(a) if form == "triangle" else a
        np.testing.assert_allclose(info.condition, np.linalg.cond(whole, 1), rtol=0.1)
        first = [frames(lambda b=b: ldiv.solve(A, b, assume_a=how, info=True)) for _ in range(2)]
        assert max(first) <= 450
