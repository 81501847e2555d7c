"""factor_dtype="float32": half the memory; solutions, gradients and verdicts are those without."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import mpmath
import numpy as np
import pytest
import scipy.sparse as sp
import torch

import ldiv
from ldiv.engines import solve_log
from ldiv.engines.factors import low_precision
from ldiv.engines.libraries import mkl_pardiso, native
from ldiv.engines.registry import engines
from ldiv.testing.cases import Draw

ENGINES = ["superlu"]
ENGINES += [] if native.native is None else ["lu", "ldl"]
ENGINES += [] if mkl_pardiso.path() is None else ["pardiso"]
N = 40
EPS = np.finfo(float).eps


def matrix(kind: str, dtype: str, seed: int = 0) -> Any:
    """A path with chords, dominated by its diagonal."""
    rng, draw = np.random.default_rng(seed), Draw(dtype, seed)
    i, j = rng.integers(0, N, (2, N // 4))
    at = np.abs(np.subtract.outer(np.arange(N), np.arange(N))) == 1
    at[i, j] = at[j, i] = True
    a = np.where(at, draw(N, N), 0)
    a = a if kind == "gen" else a + (a.T if kind == "sym" else a.conj().T)
    sign = 1 if kind == "pos" else rng.choice([-1.0, 1.0], N)
    np.fill_diagonal(a, (1 + np.abs(a).sum(axis=1)) * sign)
    return a.astype(dtype)


def sparse(a: Any) -> Any:
    return ldiv.asarray(sp.csc_array(a))


def conditioned(cond: float, rng: Any) -> Any:
    q = np.linalg.qr(rng.standard_normal((12, 12)))[0]
    a = (q * np.logspace(0, -np.log10(cond), 12)) @ q.T
    return (a + a.T) / 2


def takes(engine: str, kind: str, dtype: str) -> bool:
    if engine == "lu":
        return kind != "pos"
    return engine != "ldl" or kind != "gen"


CASES = [
    (engine, kind, dtype)
    for engine in ENGINES
    for kind in ("gen", "sym", "pos")
    for dtype in ("float64", "complex128")
    if takes(engine, kind, dtype)
]


@pytest.mark.parametrize(("engine", "kind", "dtype"), CASES)
def test_every_engine_in_all_views(engine: str, kind: str, dtype: str) -> None:
    a = matrix(kind, dtype)
    F = ldiv.factorized(sparse(a), assume_a=kind, method=engine, factor_dtype="float32")
    for b in (Draw(dtype, 1)(N), Draw(dtype, 2)(N, 3)):
        for trans, op in (("N", a), ("T", a.T), ("H", a.conj().T)):
            x, info = ldiv.solve(
                sparse(a),
                b,
                assume_a=kind,
                method=engine,
                trans=trans,
                factor_dtype="float32",
                info=True,
            )
            assert x.dtype == a.dtype and np.array_equal(F.solve(b, trans), x)
            assert np.abs(op @ x - b).max() <= 50 * EPS * np.abs(a).max() * np.abs(x).max(initial=1)
            assert info.engine == f"{engine} in float32"
    expected = np.linalg.slogdet(a)[1]
    assert abs(F.logabsdet() - expected) <= 1e-13 * abs(expected)  # by another factor


def test_condition_numbers_and_verdicts() -> None:
    """Double precision follows where single precision does not converge; the residual is the same."""
    rng, took = np.random.default_rng(0), {}
    for exponent in range(14):
        a = conditioned(10.0**exponent, rng)
        b = rng.standard_normal(12)
        x, info = ldiv.solve(sparse(a), b, assume_a="pos", factor_dtype="float32", info=True)
        assert np.abs(a @ x - b).max() <= 100 * EPS * np.abs(a).max() * np.abs(x).max()
        took[exponent] = "float32" in info.engine
        assert took[exponent] == (not info.gave_up)
        assert took[exponent] or all("float32" in name for name in info.gave_up)
    assert took[0] and took[3] and not took[8] and not took[13]


def test_singular_and_indefinite_matrices_raise() -> None:
    free = sp.diags_array([1.0, -1.0], offsets=[0, 1], shape=(N - 1, N))
    with pytest.raises(ldiv.SingularMatrixError):
        ldiv.solve(sparse(free.T @ free), np.ones(N), assume_a="sym", factor_dtype="float32")
    with pytest.raises(ldiv.SingularMatrixError):
        ldiv.factorized(sparse(np.diag([1.0, 0.0]) + 0), factor_dtype="float32")
    with pytest.raises(ldiv.NotPositiveDefiniteError):
        ldiv.solve(
            sparse(matrix("sym", "float64")), np.ones(N), assume_a="pos", factor_dtype="float32"
        )


@pytest.mark.parametrize(
    ("a_scale", "b_scale"),
    [(1e200, 1e-90), (1e-200, 1.0), (1.0, 1e-290), (1.0, 1e-300), (1.0, 1e250)],
)
def test_numbers_that_single_precision_does_not_have(a_scale: float, b_scale: float) -> None:
    s = np.exp2(np.round(np.linspace(-50, 50, N)))
    a = s[:, None] * matrix("gen", "float64") * s
    b = np.ones(N) * b_scale
    with solve_log.reading() as entries:
        x = ldiv.solve(sparse(a * a_scale), b, factor_dtype="float32")
    expected = ldiv.solve(sparse(a * a_scale), b)
    assert "float32" in entries[0].engine
    assert np.allclose(x, expected, rtol=1e-13, atol=0)


@pytest.mark.parametrize("name", ["bcsstk13", "494_bus", "adder_dcop_05", "young1c"])
def test_real_matrices(real_matrix: Any, name: str) -> None:
    a = real_matrix(name)
    hermitian = name in ("bcsstk13", "494_bus")
    b = np.random.default_rng(0).standard_normal(a.shape[0]).astype(a.dtype)
    options: dict[str, Any] = {"assume_a": "pos" if hermitian else "gen", "info": True}
    x, info = ldiv.solve(sparse(a), b, factor_dtype="float32", **options)
    y, _ = ldiv.solve(sparse(a), b, **options)
    size = np.abs(a).max() * max(np.abs(x).max(), np.abs(y).max())
    assert np.abs(a @ x - b).max() <= 100 * EPS * size
    assert np.abs(x - y).max() <= 1e-11 * np.abs(y).max()
    if (
        name == "adder_dcop_05"
    ):  # of condition 4e12, scaled or not; that of bcsstk13 is due to scales
        assert "float32" not in info.engine and list(info.gave_up) == [f"{info.engine} in float32"]


def test_it_takes_two_factorizations_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """One where single precision is enough, also with the derivative; else one of each."""
    made: list[Any] = []
    engine = engines()["superlu"]
    right = engine.factor
    monkeypatch.setattr(engine, "factor", lambda *a: (made.append(a[2].dtype.name), right(*a))[1])
    for a, expected in (
        (matrix("pos", "float64"), ["float32"]),
        (conditioned(1e10, np.random.default_rng(3)), ["float32", "float64"]),
    ):
        made.clear()
        A, b = sparse(a), np.ones(len(a))
        solve = lambda A, b: ldiv.solve(
            A, b, assume_a="pos", method="superlu", factor_dtype="float32"
        )
        _, pullback = ldiv.vjp(solve, A, b)
        pullback(b)
        pullback(2 * b)
        assert made == expected


def test_half_the_memory() -> None:
    path = sp.diags_array([2.0, -1.0, -1.0], offsets=[0, 1, -1], shape=(14, 14))
    eye = sp.eye_array(14)
    cube = (
        sp.kron(sp.kron(path, eye), eye)
        + sp.kron(sp.kron(eye, path), eye)
        + sp.kron(eye, sp.kron(eye, path))
    )
    A = sparse(cube)
    for method in ENGINES:
        if method == "lu":
            continue  # for matrices without fill-in
        size = []
        for factor_dtype in (None, "float32"):
            F = ldiv.factorized(A, assume_a="pos", method=method, factor_dtype=factor_dtype)
            size.append(ldiv.cache_info().bytes)
            del F
        assert size[1] <= 0.75 * size[0], method  # integers and the matrix are not halved


# -- one compiled call --------------------------------------------------------

needs_native = pytest.mark.skipif(native.native is None, reason="is compiled")


@needs_native
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("kind", ["gen", "sym", "pos"])
def test_values_and_gradients_are_refined_in_compiled_code(
    kind: str, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    a = sp.csc_array(matrix(kind, dtype))
    monkeypatch.delattr(low_precision, "Verified")
    found = []
    for factor_dtype in (None, "float32"):
        values = torch.from_numpy(np.stack([a.data, 2 * a.data])).requires_grad_()
        b = torch.from_numpy(Draw(dtype, 1)(2, N, 11)).requires_grad_()
        A = ldiv.csc_array((values, a.indices, a.indptr), shape=a.shape)
        x = ldiv.solve(A, b, assume_a=kind, factor_dtype=factor_dtype)
        found.append([x, *torch.autograd.grad(x.abs().square().sum(), (values, b))])
    for y, x in zip(*found, strict=True):
        assert (x - y).abs().max() <= 1e-13 * y.abs().max()


@needs_native
def test_members_that_do_not_converge_are_solved_in_double() -> None:
    rng = np.random.default_rng(2)
    full = np.stack([conditioned(cond, rng) for cond in (1e2, 1e11, 1e2)])
    at = np.nonzero(np.ones((12, 12)))
    b = rng.standard_normal((3, 12))
    A = ldiv.coo_array((full.reshape(3, -1), at), shape=(12, 12))
    x = ldiv.solve(A, b[..., None], assume_a="pos", factor_dtype="float32")[..., 0]
    for m, y, c in zip(full, x, b, strict=True):
        assert np.abs(m @ y - c).max() <= 100 * EPS * np.abs(m).max() * np.abs(y).max()
    full[1] = np.ones((12, 12))
    A = ldiv.coo_array((full.reshape(3, -1), at), shape=(12, 12))
    with pytest.raises(ldiv.SingularMatrixError):
        ldiv.solve(A, b[..., None], factor_dtype="float32")


@pytest.mark.parametrize("size", [1e-300, 1e-320, 1e-170, 0.0])
@pytest.mark.parametrize("factor_dtype", [None, "float32"])
def test_columns_whose_squares_are_zero_are_refined(size: float, factor_dtype: Any) -> None:
    """The size of a complex number is the root of a sum of squares."""
    a, b = matrix("gen", "complex128"), Draw("complex128", 1)(N, 3)
    b[:, 1] *= size
    x = ldiv.solve(sparse(a), b, factor_dtype=factor_dtype)
    r = np.abs((a @ x - b)[:, 1])
    assert (r <= 10 * EPS * (np.abs(a) @ np.abs(x) + np.abs(b))[:, 1] + 1e-322).all()


# -- derivatives --------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_first_and_second_order_in_pytorch(dtype: str) -> None:
    a = sp.csc_array(matrix("gen", dtype)[:8, :8])
    b = torch.from_numpy(Draw(dtype, 1)(8)).requires_grad_()
    values = torch.from_numpy(a.data).requires_grad_()

    def solve(values: Any, b: Any) -> Any:
        A = ldiv.csc_array((values, a.indices, a.indptr), shape=a.shape)
        return ldiv.solve(A, b, factor_dtype="float32")

    assert torch.autograd.gradcheck(solve, (values, b), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(solve, (values, b))


def test_gradients_are_those_without_in_jax_and_batches() -> None:
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    a = sp.csc_array(matrix("gen", "float64"))
    v = jax.numpy.asarray(np.stack([a.data, 2 * a.data]))

    def gradients(factor_dtype: Any) -> Any:
        def loss(v: Any) -> Any:
            A = ldiv.csc_array((v, a.indices, a.indptr), shape=a.shape)
            return (ldiv.solve(A, jax.numpy.ones((N, 1)), factor_dtype=factor_dtype) ** 2).sum()

        return jax.jit(jax.grad(loss))(v)

    np.testing.assert_allclose(gradients("float32"), gradients(None), rtol=1e-11, atol=1e-18)


def test_a_held_factor_is_copied_and_differentiated() -> None:
    a = matrix("pos", "float64")
    F, b = ldiv.factorized(sparse(a), assume_a="pos", factor_dtype="float32"), np.ones(N)
    for other in (copy.copy(F), copy.deepcopy(F), pickle.loads(pickle.dumps(F))):
        assert np.array_equal(other.solve(b), F.solve(b)) and other._factor_dtype == "float32"
    assert np.allclose(F.inverse @ b, np.linalg.solve(a, b), rtol=1e-12)


# -- where it is not for ------------------------------------------------------


def test_what_is_in_single_precision_stays_as_it_is() -> None:
    a = sparse(matrix("gen", "float32"))
    x, info = ldiv.solve(a, np.ones(N, np.float32), factor_dtype="float32", info=True)
    assert x.dtype == np.float32 and "float32" not in info.engine


def test_what_cannot_be_asked_for() -> None:
    a, b = matrix("pos", "float64"), np.ones(N)
    with pytest.raises(ldiv.EngineError, match="factor_dtype='float32' is for sparse matrices"):
        ldiv.solve(a, b, factor_dtype="float32")
    with pytest.raises(ldiv.EngineError, match="leave factor_dtype out"):
        ldiv.solve(sparse(a), b, assume_a="pos", method="cg", factor_dtype="float32")
    with pytest.raises(ValueError, match="factor_dtype: expected None with rtol"):
        ldiv.solve(sparse(a), b, rtol=1e-3, factor_dtype="float32")
    for bad in ("float16", "float64", np.float32, 32, ["float32"]):
        for f in (
            lambda x: ldiv.solve(sparse(a), b, factor_dtype=x),
            lambda x: ldiv.factorized(sparse(a), factor_dtype=x),
        ):
            with pytest.raises(ValueError, match="factor_dtype: expected one of 'float32'"):
                f(bad)
    with pytest.raises(ValueError, match="method"):
        ldiv.solve(sparse(a), b, method="auto in float32")
    with pytest.raises(ldiv.EngineError, match="no determinant"):
        low_precision.LowPrecision.logabsdet(object())  # type: ignore[arg-type]


@pytest.mark.parametrize("assume_a", ["gen", "sym", "pos"])
@pytest.mark.parametrize("size", [1e-15, 1e-60, 1e-200])
def test_small_components_of_a_solution_have_all_digits(size: float, assume_a: Any) -> None:
    """Corrections settle the largest first, and single precision does not have the smallest."""
    scales, a = np.array([1, 2, 3, 4 * size]), 4 * np.eye(4) + np.eye(4, k=1) + np.eye(4, k=-1)
    a[0, 1] = a[1, 0] = a[2, 3] = a[3, 2] = 0
    for b in (np.array([1, np.pi, size / 7, size]), np.array([-0.6, 1, 1, size * -0.22])):
        for A in (a, scales[:, None] * np.eye(4)):
            x = ldiv.solve(
                ldiv.asarray(sp.csc_array(A)), b, assume_a=assume_a, factor_dtype="float32"
            )
            with mpmath.workdps(500):
                exact = mpmath.lu_solve(mpmath.matrix(A), mpmath.matrix(b))
            np.testing.assert_allclose(x, np.array(exact.tolist(), float)[:, 0], rtol=1e-13)
