"""`factorized` and `F.solve` are planned once for each kind of arrays, and find the factor that F holds."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from frames import frames

import ldiv
from ldiv.core.calls import call as calls
from ldiv.engines import solve_log
from ldiv.engines.libraries import native

METHODS = ("auto", "superlu", "pardiso", "ldl", "lapack")
DTYPES = ("f", "d", "F", "D")


def drawn(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape)
    return (x + 1j * rng.standard_normal(shape) if np.dtype(dtype).kind == "c" else x).astype(dtype)


def matrix(n=30, dtype="d"):
    a = sp.random_array((n, n), density=0.1, rng=np.random.default_rng(1)) + 4 * sp.eye_array(n)
    a = sp.csc_array(a).astype(dtype)
    a.data *= 1 + 0.1 * drawn(len(a.data), dtype)
    return a


def factorized(a, method):
    try:
        return ldiv.factorized(ldiv.asarray(a), method=method)
    except (ldiv.errors.EngineError, ValueError):
        pytest.skip(f"{method} is not here")


def thrice(F, b, trans):
    """The answers of the first, the second and the third call."""
    return [F.solve(b, trans) for _ in range(3)]


@pytest.mark.parametrize("method", METHODS)
def test_every_call_gives_the_solution(method):
    for dtype in DTYPES:
        a, eps = matrix(dtype=dtype), np.finfo(dtype).eps
        F, dense = factorized(a, method), a.toarray()
        for trans, op in (("N", dense), ("T", dense.T), ("H", dense.conj().T)):
            for shape in ((30,), (30, 1), (30, 3)):
                b = drawn(shape, dtype, 2)
                for x in thrice(F, b, trans):
                    assert x.dtype == b.dtype and x.shape == b.shape
                    assert abs(op @ x - b).max() <= 300 * eps * abs(x).max()
                strided = np.repeat(b, 2, axis=0)[::2]  # of the kind that came before
                assert np.allclose(F.solve(strided, trans), x, rtol=1e3 * eps, atol=1e3 * eps)


@pytest.fixture
def planned(monkeypatch):
    """The calls that were planned, since none of their kind had come before."""
    found = []

    def remember(table, key, *rest, own=calls._remember):
        found.append(key)
        own(table, key, *rest)

    monkeypatch.setattr(calls, "_remember", remember)
    return found


MADE = {
    "dense": lambda s: ldiv.factorized(s * matrix().toarray()),
    "dense, torch": lambda s: ldiv.factorized(s * torch.tensor(matrix().toarray())),
    "pos": lambda s: ldiv.factorized(s * (lambda a: a @ a.T)(matrix().toarray()), assume_a="pos"),
    "sparse": lambda s: ldiv.factorized(A.with_data(s * A.data)),
    "sparse, torch": lambda s: ldiv.factorized(A.with_data(s * torch.tensor(A.data))),
    "sparse pos": lambda s: ldiv.factorized(H.with_data(s * H.data), assume_a="pos"),
    "superlu": lambda s: ldiv.factorized(A.with_data(s * A.data), method="superlu"),
}
A = ldiv.asarray(matrix())
H = ldiv.asarray(matrix() @ matrix().T)


@pytest.mark.parametrize("name", MADE)
def test_a_kind_is_planned_once_for_all_matrices(name, planned):
    ldiv.clear_cache()
    b = drawn(30, "d")
    b = torch.tensor(b) if "torch" in name else b
    x = MADE[name](1.0).solve(b)
    count = len(planned)
    for i in range(2, 6):
        before = ldiv.cache_info()
        F = MADE[name](1.0 * i)
        made = ldiv.cache_info().factorizations
        assert made == before.factorizations + 1
        for scale in (1, 2):
            assert np.allclose(F.solve(scale * b), scale * x / i, rtol=1e-11)
        for k in range(1, 4):
            F.solve(
                b[:, None] * np.ones((1, k)) if "torch" not in name else b[:, None].repeat(1, k)
            )
        assert ldiv.cache_info().factorizations == made
    assert len(planned) <= count + 1  # of blocks


@pytest.mark.skipif(native.native is None, reason=native.why_not)
def test_frames_of_a_factorized_matrix():
    """Few functions are entered beside those of a solve; three of them where a matrix may lie on several
    processes.
    """
    import ldiv.distributed

    a, b = torch.tensor(matrix().toarray()), torch.tensor(drawn(30, "d"))
    F = ldiv.factorized(a)
    for f, bound in ((lambda: ldiv.factorized(a), 89), (lambda: F.solve(b), 46)):
        f(), f()
        assert frames(f) <= bound


def test_the_state_is_that_of_the_factorization():
    a, b = np.stack([np.eye(3), np.ones((3, 3))]), np.ones((2, 3, 1))
    for _ in range(3):
        ldiv.factorized(a[:1]).solve(b[:1])
        with ldiv.errstate(singular="nan"):
            F, G = ldiv.factorized(a), ldiv.factorized(torch.tensor(a))
            G.solve(torch.tensor(b))
        for x in (F.solve(b), G.solve(torch.tensor(b)).numpy()):
            assert np.isnan(x).all((1, 2)).tolist() == [False, True]
        with pytest.raises(ldiv.SingularMatrixError):
            ldiv.factorized(a)


def test_a_matrix_out_of_a_transformation_is_factored_once():
    jax = pytest.importorskip("jax")
    F = ldiv.factorized(matrix().toarray())
    G = jax.tree.unflatten(jax.tree.structure(F), [x * 2 for x in jax.tree.leaves(F)])
    before = ldiv.cache_info().factorizations
    b = drawn(30, "d")
    for _ in range(3):
        assert np.allclose(2 * G.solve(b), F.solve(b))
    assert ldiv.cache_info().factorizations == before + 1


@pytest.mark.parametrize("method", ["auto", "superlu", "pardiso"])
def test_what_is_refused_is_refused_in_every_call(method):
    F = factorized(matrix(), method)
    b = drawn(30, "d")
    thrice(F, b, "N")
    for bad in (np.nan, np.inf):
        broken = b.copy()
        broken[7] = bad
        for _ in range(3):
            with pytest.raises(ValueError, match="finite"):
                F.solve(broken)
    for wrong in (b[:29], b[:, None, None][:, :0], np.ones((3, 4))):
        with pytest.raises(ValueError, match="b"):
            F.solve(wrong)
    tiny = ldiv.factorized(ldiv.asarray(matrix() * 2.0**-1000), method=method)
    for scale in (1, 1, 1, 2.0**200):
        if scale == 1:
            assert np.isfinite(tiny.solve(b)).all()
        else:
            with pytest.raises(OverflowError):
                tiny.solve(b * scale)


@pytest.mark.parametrize("method", ["auto", "superlu"])
def test_derivatives_other_states_and_logs_go_the_long_way(method):
    a, b, c = matrix(), drawn(30, "d"), drawn(30, "d", 5)
    F = factorized(a, method)
    thrice(F, b, "N")
    x, pullback = ldiv.vjp(F.solve, b)
    (b_bar,) = pullback(c)
    assert np.allclose(a.T @ b_bar, c)
    with solve_log.reading() as entries:
        F.solve(b)
    assert len(entries) == 1
    for state in ("warn", "ignore", "nan"):
        with ldiv.errstate(singular=state):
            assert np.allclose(F.solve(b), x)


def test_values_are_those_of_the_time_of_the_factorization():
    a, b = matrix(), drawn(30, "d")
    A = ldiv.asarray(a)
    F = ldiv.factorized(A)
    x, _, _ = thrice(F, b, "N")
    a.data[:] = 0
    A.data[:] = 0
    assert np.array_equal(F.solve(b), x)


def test_leaves_that_others_have_are_looked_at():
    jax = pytest.importorskip("jax")
    a, b = matrix(), drawn(30, "d")
    F = ldiv.factorized(ldiv.asarray(a))
    x, _, _ = thrice(F, b, "N")
    (values,) = jax.tree.leaves(F)
    values *= 2
    assert np.allclose(F.solve(b), x / 2, rtol=1e-13)
    own = values.copy()
    G = jax.tree.unflatten(jax.tree.structure(F), [own])
    thrice(G, b, "N")
    own /= 2
    assert np.allclose(G.solve(b), x, rtol=1e-13)
