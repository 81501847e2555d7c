"""An engine's suspicion is not a verdict: well-posed systems are solved by "auto", whatever one
engine thinks; singular ones raise.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import ldiv
from ldiv.core.rules.structure import view_dense
from ldiv.engines.direct import lu
from ldiv.engines.factors.escalation import Attempt, Escalating
from ldiv.engines.libraries import mkl_pardiso
from ldiv.engines.registry import engines
from ldiv.errors import SingularMatrixError

needs_mkl = pytest.mark.skipif(
    mkl_pardiso.path() is None, reason="MKL is not installed: pip install ldiv[mkl]"
)
DTYPES = ("float32", "float64", "complex64", "complex128")
REFUSALS = (ldiv.SingularMatrixError, ldiv.NotPositiveDefiniteError)


def line(n: int) -> Any:
    return sp.diags_array([-np.ones(n - 1), 2 * np.ones(n), -np.ones(n - 1)], offsets=[-1, 0, 1])


def grid(m: int, n: int) -> Any:
    return sp.kron(line(m), sp.eye_array(n)) + sp.kron(sp.eye_array(m), line(n))


def pairs(m: int, rng: Any) -> Any:
    """Zero on the diagonal, strong pairs beside it."""
    n = 2 * m
    a = np.triu(rng.integers(-2, 3, (n, n)) * (rng.random((n, n)) < 2 / n), 1) / 4
    a[range(0, n, 2), range(1, n, 2)] = rng.uniform(1, 2, m)
    return a + a.T


def graded(n: int, exponent: float, rng: Any) -> Any:
    q = np.linalg.qr(rng.standard_normal((n, n)))[0]
    a = (q * np.logspace(0, -exponent, n) * rng.choice([-1.0, 1.0], n)) @ q.T
    return (a + a.T) / 2


def signs(n: int, rng: Any) -> Any:
    a = np.triu(rng.choice([-1.0, 0.0, 1.0], (n, n)))
    return a + np.triu(a, 1).T


def well_posed() -> Iterator[tuple[str, Any]]:
    """Matrices whose pivots cancel where they stay on the diagonal, Hermitian all of them."""
    rng = np.random.default_rng(0)
    for m, n, shift in ((10, 10, 3), (6, 7, 2), (8, 8, 1), (6, 8, 5), (7, 8, 6)):
        yield f"grid {m} x {n} less {shift}", (grid(m, n) - shift * sp.eye_array(m * n)).toarray()
    for m, n in ((4, 5), (6, 6), (7, 9)):
        yield (
            f"adjacency of a grid {m} x {n}",
            5 * sp.eye_array(m * n).toarray() - grid(m, n).toarray(),
        )
    for m in (3, 10, 20):
        yield f"pairs {m}", pairs(m, rng)
    for w in (0.7, 1.3, 2.0):
        yield f"Helmholtz {w}", (grid(8, 9) - w**2 * sp.eye_array(72)).toarray()
    for e in (3, 8, 12):
        yield f"graded 1e{e}", graded(12, e, rng)
    for n in (5, 12, 30, 31):
        yield f"signs {n}", signs(n, rng)
    for n in (8, 20):
        a = np.triu(rng.integers(-1, 2, (n, n)) * 1j, 1)
        yield f"Hermitian {n}", a + a.conj().T + np.diag(rng.integers(-1, 2, n))
    d = 2.0 ** rng.integers(-10, 11, 40)
    yield "scaled", d[:, None] * (grid(5, 8) - 3 * sp.eye_array(40)).toarray() * d


def condition(a: Any) -> float:
    """The condition of the matrix with its rows and columns scaled."""
    size, s = np.abs(a), np.ones(len(a))
    for _ in range(30):
        s = s / np.sqrt((s[:, None] * size * s).max(axis=1))
    return float(np.linalg.cond(s[:, None] * a * s))


def sparse(a: Any) -> Any:
    rows, cols = np.nonzero(a)
    return ldiv.coo_array((a[rows, cols], (rows, cols)), shape=a.shape)


def is_well_posed(a: Any, dtype: str) -> bool:
    return condition(a) <= 1 / (100 * len(a) * np.finfo(dtype).eps)


def backward_error(a: Any, x: Any, b: Any) -> float:
    return float(np.abs(b - a @ x).max() / (np.abs(a) @ np.abs(x) + np.abs(b)).max())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("name", "a"),
    list(well_posed()),
    ids=lambda x: x.replace(" ", "-") if isinstance(x, str) else "",
)
def test_well_posed_is_solved(name: str, a: Any, dtype: str) -> None:
    """Every view and every promise that holds is solved by "auto"; a named engine solves, too, or
    names one that does.
    """
    if np.iscomplexobj(a) and dtype.startswith("f"):
        a = a.real + np.triu(a.imag) + np.triu(a.imag).T
    a = a.astype(dtype)
    if not is_well_posed(a, dtype):
        a = a + np.eye(len(a), dtype=dtype) * np.abs(a).max()
    assert is_well_posed(a, dtype)
    A, x = sparse(a), np.random.default_rng(1).standard_normal((len(a), 2)).astype(dtype)
    tol = 1e3 * np.finfo(dtype).eps
    for kind in ("gen", "her") + (
        () if np.iscomplexobj(a) and not np.array_equal(a, a.T) else ("sym",)
    ):
        for trans in "NTH":
            op = view_dense(a, trans)
            assert (
                backward_error(op, ldiv.solve(A, op @ x, assume_a=kind, trans=trans), op @ x) <= tol
            )
            for engine in ("superlu", *(["pardiso"] if mkl_pardiso.path() else [])):
                try:
                    found = ldiv.solve(A, op @ x, assume_a=kind, trans=trans, method=engine)
                except ldiv.EngineError as error:
                    other = str(error).split("use method='")[1].split("'")[0]
                    assert other != engine
                    found = ldiv.solve(A, op @ x, assume_a=kind, trans=trans, method=other)
                assert backward_error(op, found, op @ x) <= tol
        expected = np.linalg.slogdet(a.astype(complex))[1]
        assert abs(ldiv.factorized(A, assume_a=kind).logabsdet() - expected) <= tol * len(
            a
        ) * condition(a)


# -- every function that factors ----------------------------------------------

SHIFTED = grid(10, 10) - 3 * sp.eye_array(100)


def test_functions() -> None:
    a, b = SHIFTED.toarray(), np.arange(1.0, 101)
    A, x = ldiv.asarray(SHIFTED.tocsc()), np.linalg.solve(a, b)
    close: Callable[..., Any] = lambda found, expected: np.testing.assert_allclose(
        found, expected, rtol=1e-9
    )
    for kind in ("gen", "sym"):
        F = ldiv.factorized(A, assume_a=kind)
        for trans in "NTH":
            close(F.solve(b, trans), x)
        close(F.logabsdet(), np.linalg.slogdet(a)[1])
        close(F.inverse @ b, x)
        close(ldiv.quad_form(A, b, assume_a=kind), b @ x)
    nearest = np.sort(np.abs(np.linalg.eigvalsh(grid(10, 10).toarray()) - 3))[:4]
    close(
        np.sort(
            np.abs(
                ldiv.eigsh(ldiv.asarray(grid(10, 10).tocsc()), k=4, sigma=3, method="arpack")[0] - 3
            )
        ),
        nearest,
    )


def test_eigenvalue_as_a_shift() -> None:
    a = grid(5, 5)
    with pytest.raises(ldiv.SingularMatrixError, match="sigma = 4 is an eigenvalue"):
        ldiv.eigsh(ldiv.asarray(a.tocsc()), k=3, sigma=4, method="arpack")


def test_root_and_gradient() -> None:
    torch = pytest.importorskip("torch")
    coo = SHIFTED.tocoo()
    rows, cols, values = (
        torch.from_numpy(coo.row.astype(np.int64)),
        torch.from_numpy(coo.col.astype(np.int64)),
        torch.from_numpy(coo.data),
    )
    product = lambda x: torch.zeros_like(x).index_add(0, rows, values * x[cols])
    p = torch.ones(100, dtype=torch.float64, requires_grad=True)
    x = ldiv.root(
        lambda x, p: product(x) - p**2,
        torch.zeros(100, dtype=torch.float64),
        p,
        pattern=sp.csr_array(SHIFTED),
    )
    x.sum().backward()
    expected = np.linalg.solve(SHIFTED.toarray(), np.ones(100))
    np.testing.assert_allclose(x.detach(), expected, rtol=1e-9)
    np.testing.assert_allclose(p.grad, 2 * expected, rtol=1e-9)


def test_under_jit() -> None:
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    A, b = ldiv.asarray(SHIFTED.tocsc()), jax.numpy.ones(100)
    x = jax.jit(lambda v: ldiv.solve(A.with_data(v), b))(jax.numpy.asarray(A.data))
    np.testing.assert_allclose(x, np.linalg.solve(SHIFTED.toarray(), b), rtol=1e-9)


# -- what is said about it ----------------------------------------------------


@pytest.fixture
def meshes_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is small enough for `lu`; for patterns that nobody has asked about before."""
    monkeypatch.setattr(lu, "_limit", lambda structure: 0.0)


def bordered(a: Any) -> Any:
    """A pattern of its own: one more unknown."""
    return sp.block_diag([a, [[5.0]]], format="csc")


@needs_mkl
@pytest.mark.usefixtures("meshes_only")
def test_info_and_explain() -> None:
    A, b = ldiv.asarray(bordered(SHIFTED)), np.ones(101)
    _, info = ldiv.solve(A, b, info=True)
    assert info.engine == "superlu"
    assert list(info.gave_up) == ["pardiso"]
    assert 100 < info.condition < 1000
    told = ldiv.explain(A, b)
    assert (told.engine, told.then) == ("pardiso", ("superlu",))
    assert str(told).endswith("where pardiso takes the matrix for singular: superlu")
    _, info = ldiv.solve(ldiv.asarray(bordered(grid(4, 4))), np.ones(17), info=True)
    assert (info.engine, info.gave_up) == ("pardiso", {})


@needs_mkl
@pytest.mark.usefixtures("meshes_only")
def test_a_named_engine_names_another() -> None:
    A, b = ldiv.asarray(bordered(SHIFTED)), np.ones(101)
    for call in (
        lambda: ldiv.solve(A, b, method="pardiso"),
        lambda: ldiv.factorized(A, method="pardiso"),
        lambda: ldiv.solve(A, b, method="pardiso", info=True),
    ):
        with pytest.raises(
            ldiv.EngineError,
            match=r"pardiso gives up on this matrix, where it found .*; superlu solves it: use method='superlu'",
        ):
            call()


def test_the_factor_that_works_is_kept() -> None:
    A, b = ldiv.asarray(SHIFTED.tocsc()), np.ones(100)
    F = ldiv.factorized(A)
    for trans in "NTH":
        F.solve(b, trans)
    assert ldiv.cache_info().factorizations == 1
    # other values: from the beginning
    _, info = ldiv.solve(A.with_data(A.data + 4 * (A.data == 1)), b, info=True)
    assert info.gave_up == {}


# -- the mechanism ------------------------------------------------------------


class Doubting:
    """A factor that has doubts about some views."""

    nbytes = 1

    def __init__(self, doubts: str) -> None:
        self.doubts = doubts

    def solve(self, b: Any, op: str) -> Any:
        if op in self.doubts:
            raise SingularMatrixError("test", f"doubts about {op}")
        return b

    def check_nonsingular(self) -> None:
        """Nothing to look at."""


def test_a_later_solve_replaces_the_factor() -> None:
    made: list[str] = []

    def attempt(name: str, doubts: str) -> Attempt:
        return Attempt(name, lambda: made.append(name) or Doubting(doubts))

    factor = Escalating([attempt("one", "H"), attempt("two", "HT"), attempt("three", "T")])
    assert (factor.solve(1, "N"), factor.engine, made) == (1, "one", ["one"])
    assert (factor.solve(2, "H"), factor.engine, made) == (2, "three", ["one", "two", "three"])
    assert (factor.solve(3, "N"), made) == (3, ["one", "two", "three"])
    assert factor.gave_up == {"one": "doubts about H", "two": "doubts about H"}
    with pytest.raises(ldiv.SingularMatrixError, match="doubts about T"):
        factor.solve(1, "T")
    named = Escalating([attempt("one", "H")], [attempt("two", "H"), attempt("three", "")])
    with pytest.raises(
        ldiv.EngineError,
        match="one gives up on this matrix, where it found doubts about H; three solves it",
    ):
        named.solve(1, "H")
    assert (named.solve(1, "N"), named.engine) == (1, "one")
    with pytest.raises(ldiv.SingularMatrixError, match="test found doubts about T"):
        Escalating([attempt("one", "T")], [attempt("two", "T")]).solve(1, "T")


# -- singular ones ------------------------------------------------------------


def singular() -> Iterator[tuple[str, Any]]:
    rng = np.random.default_rng(0)
    laplacian = grid(5, 5).toarray()
    yield "free", laplacian - np.diag(laplacian.sum(axis=1))
    yield "eigenvalue", laplacian - 4 * np.eye(25)
    yield "adjacency", 5 * np.eye(25) - laplacian - np.eye(25)
    repeated = laplacian.copy()
    repeated[7] = repeated[:, 7] = 0
    repeated[7, 6] = repeated[6, 7] = 1.0
    yield "zero", np.where(np.arange(25) == 3, 0, laplacian) * (np.arange(25) != 3)[:, None]
    yield (
        "arrow without a diagonal",
        np.pad(np.zeros((9, 9)), ((1, 0), (1, 0)), constant_values=1.0),
    )
    u = rng.integers(-2, 3, (12, 11)).astype(float)
    yield "rank", u @ u.T
    yield "two components", np.kron(np.eye(2), line(6).toarray() - np.diag([1.0, 0, 0, 0, 0, 1]))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("name", "a"), list(singular()), ids=lambda x: x.replace(" ", "-") if isinstance(x, str) else ""
)
def test_singular_raises(name: str, a: Any, dtype: str) -> None:
    a = a.astype(dtype)
    A, b = sparse(a), np.ones(len(a), dtype)
    methods = ["auto", "superlu", *(["pardiso"] if mkl_pardiso.path() else [])]
    for method in methods:
        for kind in ("gen", "her", "pos"):
            for call in (
                lambda m=method, k=kind: ldiv.solve(A, b, method=m, assume_a=k),
                lambda m=method, k=kind: ldiv.factorized(A, method=m, assume_a=k).logabsdet(),
            ):
                with pytest.raises(REFUSALS):
                    call()
    with pytest.raises(REFUSALS):
        ldiv.solve(a, b)


def test_structurally_singular_is_silent() -> None:
    """The places of the entries say it: no engine is called, nothing is printed."""
    code = """
import numpy as np, ldiv
rng = np.random.default_rng(0)
for method in ("auto", "superlu"):
    for n in (3, 10, 30):
        for keep in (0.0, 1.0):  # explicit zeros on the diagonal, or none
            rows, cols = np.r_[np.zeros(n, int), np.arange(n), np.arange(n)], np.r_[np.arange(n), np.zeros(n, int), np.arange(n)]
            m = len(rows) if keep else 2 * n
            values = np.r_[rng.random(2 * n) + 1, np.zeros(n)][:m]
            try:
                ldiv.solve(ldiv.coo_array((values, (rows[:m], cols[:m])), shape=(n, n)), np.ones(n), method=method)
            except ldiv.SingularMatrixError as error:
                assert "the rank is 2 of" in str(error), error
            else:
                raise AssertionError(n)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_rank_is_looked_at_once_for_a_pattern(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []
    monkeypatch.setattr(
        ldiv.engines.accuracy.sparse_matrix,
        "rank_bound",
        lambda p, *kept: calls.append(p) or p.shape[0],
    )
    n = 41
    A = ldiv.coo_array((np.arange(1.0, n + 1), (np.arange(n), np.arange(n)[::-1])), shape=(n, n))
    for scale in (1.0, 2.0, 3.0):
        ldiv.solve(A.with_data(scale * A.data), np.ones(n), method="superlu")
    assert len(calls) <= 1
    # a diagonal without a zero needs no look
    ldiv.solve(ldiv.asarray(grid(5, 5).tocsc()), np.ones(25), method="superlu")
    assert len(calls) <= 1


def test_the_evidence_is_what_decided() -> None:
    """Condition 1e17 shows in the growth; no engine says "8e-03"."""
    for a in (
        graded(12, 17, np.random.default_rng(3)),
        np.diag([1.0, 1, 1]) + np.ones((3, 3)) * 1e17,
    ):
        with pytest.raises(ldiv.SingularMatrixError) as raised:
            ldiv.solve(sparse(a), np.ones(len(a)), method="superlu")
        text = str(raised.value)
        assert (
            "a solution that" in text
            or "exactly zero" in text
            or float(text.split("number near ")[1].split(". ")[0]) < 1e-14
        )


def test_every_engine_with_a_careful_way_says_so() -> None:
    assert {name for name, engine in engines().items() if hasattr(engine, "factor_carefully")} >= {
        "pardiso",
        "superlu",
    }


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("framework", ["numpy", "torch"])
def test_dense_matrices_of_any_scale(framework: str, dtype: str) -> None:
    """Tridiagonal, rows and columns times powers of two: partial pivoting alone takes the wrong
    entries.
    """
    xp = pytest.importorskip("torch") if framework == "torch" else np
    rng, width = np.random.default_rng(0), 12 if dtype in ("float32", "complex64") else 40
    for n in [4, 5, 6, 9] * 15:
        a = (grid(1, n).toarray() + np.diag(rng.integers(-3, 2, n))) * rng.choice(
            [1.0, -1.0], (n, n)
        )
        a = np.where(np.abs(np.subtract.outer(range(n), range(n))) <= 1, a, 0)[rng.permutation(n)]
        if np.linalg.cond(a) > 1e3:
            continue
        r, c = (2.0 ** rng.integers(-width, width + 1, n) for _ in "rc")
        scaled, x = (r[:, None] * a * c).astype(dtype), rng.standard_normal((n, 1)).astype(dtype)
        b = (r[:, None] * (a @ x)).astype(dtype)
        batch = xp.asarray(np.stack([scaled, 2 * scaled]))
        for solve in (ldiv.solve, lambda A, b: ldiv.factorized(A).solve(b)):
            found = np.asarray(solve(batch, xp.asarray(b))) * c[:, None]
            np.testing.assert_allclose(found[0], x, atol=1e6 * np.finfo(dtype).eps)
            np.testing.assert_allclose(found[1], x / 2, atol=1e6 * np.finfo(dtype).eps)
        expected = np.linalg.slogdet(a)[1] + np.log(r).sum() + np.log(c).sum()
        assert abs(float(ldiv.factorized(batch[0]).logabsdet()) - expected) < 1e-3 * n


@pytest.mark.parametrize("dtype", DTYPES)
def test_one_negative_number_is_not_positive(dtype: str) -> None:
    with pytest.raises(ldiv.NotPositiveDefiniteError):
        ldiv.solve(sparse(-np.eye(1, dtype=dtype)), np.ones(1, dtype), assume_a="pos")
