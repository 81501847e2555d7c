"""Bad input is refused with the class and the sentence that it deserves: what was expected, what
came, what to do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import ldiv
from ldiv.core.arrays.validate import together
from ldiv.engines.registry import engines
from ldiv.errors import NotNumbersError
from ldiv.structures import Dense, Diagonal, Triangular

SENTENCE = r"expected .+, got .+\. [A-Z]\w* "
N = 6
RNG = np.random.default_rng(0)
A, b = RNG.standard_normal((N, N)) + 6 * np.eye(N), RNG.standard_normal(N)
SPD = A @ A.T
COUPLED = np.diag([4.0] * N) + np.diag([1.0] * (N - 1), 1) + np.diag([1.0] * (N - 1), -1)


def sparse(a: Any, kind: Any = np.asarray) -> Any:
    """The nonzero entries of a dense array."""
    s = sp.coo_array(a)
    return ldiv.coo_array((kind(s.data), (s.row, s.col)), shape=a.shape)


def spoiled(x: Any, value: float) -> Any:
    x = x.copy()
    x.flat[1] = value
    return x


T, t = torch.tensor(A), torch.tensor(b)

BAD: dict[str, tuple[type[Exception], str, Callable[[], Any]]] = {
    "rectangular": (
        ValueError,
        "A: expected a square matrix, got 6 x 5",
        lambda: ldiv.solve(A[:, :5], b),
    ),
    "rectangular sparse": (
        ValueError,
        "square matrix, got 6 x 5",
        lambda: ldiv.solve(sparse(A[:, :5]), b),
    ),
    "rectangular triangular": (
        ValueError,
        "square matrix, got 5 x 6",
        lambda: ldiv.solve_triangular(A[:5], b),
    ),
    "rectangular factorized": (
        ValueError,
        "square matrix, got 5 x 6",
        lambda: ldiv.factorized(A[:5]),
    ),
    "a vector for A": (
        ValueError,
        r"A: expected a matrix .+shape \(6,\)",
        lambda: ldiv.solve(b, b),
    ),
    "a scalar for A": (
        ValueError,
        r"A: expected a matrix .+shape \(\)",
        lambda: ldiv.solve(np.float64(2.0), b),
    ),
    "b too short": (
        ValueError,
        r"b: expected shape \(6,\) or \(\.\.\., 6, k\), got \(5,\)",
        lambda: ldiv.solve(A, b[:5]),
    ),
    "b block too short": (
        ValueError,
        r"b: expected shape .+ got \(5, 2\)",
        lambda: ldiv.solve(A, np.ones((5, 2))),
    ),
    "b lying down": (
        ValueError,
        r"b: expected shape .+ got \(1, 6\)",
        lambda: ldiv.solve(A, b[None]),
    ),
    "b a scalar": (
        ValueError,
        r"b: expected shape .+ got \(\)",
        lambda: ldiv.solve(A, np.float64(1.0)),
    ),
    "sparse b too short": (
        ValueError,
        r"b: expected shape .+ got \(5,\)",
        lambda: ldiv.solve(sparse(A), b[:5]),
    ),
    "factorized b too short": (
        ValueError,
        r"b: expected shape .+ got \(5,\)",
        lambda: ldiv.factorized(A).solve(b[:5]),
    ),
    "triangular b too short": (
        ValueError,
        r"b: expected shape .+ got \(5,\)",
        lambda: ldiv.solve_triangular(A, b[:5]),
    ),
    "batches": (
        ValueError,
        r"b: expected batch axes that broadcast with \(2,\), got \(3,\)",
        lambda: ldiv.solve(np.stack([A] * 2), np.ones((3, N, 1))),
    ),
    "sparse batches": (
        ValueError,
        r"batch axes that broadcast with \(2,\), got \(3,\)",
        lambda: ldiv.solve(sparse(A).with_data(np.ones((2, 36))), np.ones((3, N, 1))),
    ),
    "halves of torch": (
        TypeError,
        "A: expected one of float32.+, got float16",
        lambda: ldiv.solve(torch.eye(3, dtype=torch.float16), torch.ones(3)),
    ),
    "object A": (
        NotNumbersError,
        "A: expected one of float32.+, got object",
        lambda: ldiv.solve(A.astype(object), b),
    ),
    "object b": (
        NotNumbersError,
        "b: expected one of float32.+, got object",
        lambda: ldiv.solve(A, b.astype(object)),
    ),
    "bfloat16": (
        TypeError,
        "A: expected one of float32.+, got bfloat16",
        lambda: ldiv.solve(T.to(torch.bfloat16), t),
    ),
    "a sparse array for b": (
        TypeError,
        r"b: expected a dense array, got a SparseArray\. .* b\.toarray\(\)",
        lambda: ldiv.lstsq(A, sparse(A)),
    ),
    "scipy.sparse b": (
        TypeError,
        r"b: expected a dense array, got a sparse csr_array\. .* b\.toarray\(\)",
        lambda: ldiv.lstsq(A, sp.csr_array(A)),
    ),
    "torch.sparse b": (
        TypeError,
        r"b: expected a dense array, got a sparse Tensor\. .* b\.to_dense\(\)",
        lambda: ldiv.lstsq(T, T.to_sparse()),
    ),
    "two devices": (
        ValueError,
        "expected an array on meta.+ got one on cpu",
        lambda: together("b", t, T.to("meta")),
    ),
    "unknown assume_a": (
        ValueError,
        "assume_a: expected one of 'gen', .+ got 'spd'",
        lambda: ldiv.solve(A, b, assume_a="spd"),
    ),
    "assume_a of factorized": (
        ValueError,
        "assume_a: expected one of 'gen', .+ got 'spd'",
        lambda: ldiv.factorized(A, assume_a="spd"),
    ),
    "trans 3": (
        ValueError,
        "trans: expected 'N', 'T' or 'H'.+ got 3",
        lambda: ldiv.solve(A, b, trans=3),
    ),
    "trans None": (
        ValueError,
        "trans: expected 'N', 'T' or 'H'.+ got None",
        lambda: ldiv.solve(A, b, trans=None),
    ),
    "trans of triangular": (
        ValueError,
        "trans: expected 'N', 'T' or 'H'.+ got 'X'",
        lambda: ldiv.solve_triangular(A, b, trans="X"),
    ),
    "trans of factorized": (
        ValueError,
        "trans: expected 'N', 'T' or 'H'.+ got 'X'",
        lambda: ldiv.factorized(A).solve(b, "X"),
    ),
    "unknown method": (
        ValueError,
        "method: expected one of 'auto'.+ got 'mumps'",
        lambda: ldiv.solve(A, b, method="mumps"),
    ),
    "method of factorized": (
        ValueError,
        "method: expected one of 'auto'.+ got 'mumps'",
        lambda: ldiv.factorized(A, method="mumps"),
    ),
    "a promise on a diagonal": (
        ValueError,
        "assume_a: expected 'gen'",
        lambda: ldiv.solve(ldiv.Matrix(Diagonal(N), b), b, assume_a="pos"),
    ),
    "a triangle of a diagonal": (
        ValueError,
        "dense or sparse matrix",
        lambda: ldiv.solve_triangular(ldiv.Matrix(Diagonal(N), b), b),
    ),
    "parameters that miss": (
        ValueError,
        "params: expected 1 arrays",
        lambda: ldiv.Matrix(Diagonal(N), (b, b)),
    ),
    "NaN in A": (
        ValueError,
        "A: expected finite numbers, got NaN or infinity",
        lambda: ldiv.solve(spoiled(A, np.nan), b),
    ),
    "infinity in A": (
        ValueError,
        "A: expected finite numbers, got NaN or infinity",
        lambda: ldiv.solve(spoiled(A, -np.inf), b),
    ),
    "NaN in torch A": (
        ValueError,
        "A: expected finite numbers, got NaN or infinity",
        lambda: ldiv.solve(torch.tensor(spoiled(A, np.nan)), t),
    ),
    "NaN in sparse A": (
        ValueError,
        "A: expected finite numbers, got NaN or infinity",
        lambda: ldiv.solve(sparse(A).with_data(spoiled(A, np.nan).ravel()), b),
    ),
    "complex infinity in A": (
        ValueError,
        "A: expected finite numbers",
        lambda: ldiv.solve(spoiled(A + 0j, 1j * np.inf), b),
    ),
    "NaN in b": (
        ValueError,
        "b: expected finite numbers, got NaN or infinity",
        lambda: ldiv.solve(A, spoiled(b, np.nan)),
    ),
    "infinity in torch b": (
        ValueError,
        "b: expected finite numbers, got NaN or infinity",
        lambda: ldiv.solve(T, torch.tensor(spoiled(b, np.inf))),
    ),
    "NaN in b of sparse": (
        ValueError,
        "b: expected finite numbers, got NaN or infinity",
        lambda: ldiv.solve(sparse(A), spoiled(b, np.nan)),
    ),
    "NaN in one b of a batch": (
        ValueError,
        "b: expected finite numbers",
        lambda: ldiv.solve(sparse(A), spoiled(np.ones((3, N, 2)), np.nan)),
    ),
    "NaN in triangular A": (
        ValueError,
        "A: expected finite numbers",
        lambda: ldiv.solve_triangular(spoiled(A, np.nan), b),
    ),
    "NaN in triangular b": (
        ValueError,
        "b: expected finite numbers",
        lambda: ldiv.solve_triangular(A, spoiled(b, np.nan)),
    ),
    "NaN in a diagonal": (
        ValueError,
        "A: expected finite numbers",
        lambda: ldiv.solve(ldiv.Matrix(Diagonal(N), spoiled(b, np.nan)), b),
    ),
    "NaN where no column is asked for": (
        ValueError,
        "A: expected finite numbers",
        lambda: ldiv.solve(spoiled(A, np.nan), np.ones((N, 0))),
    ),
    "NaN in factorized": (
        ValueError,
        "A: expected finite numbers",
        lambda: ldiv.factorized(sparse(A).with_data(spoiled(A, np.nan).ravel())),
    ),
    "a negative cache": (ValueError, "bytes >= 0, got -1", lambda: ldiv.set_cache_limit(-1)),
    "a cache in words": (
        NotNumbersError,
        "bytes >= 0, got '2 GB'",
        lambda: ldiv.set_cache_limit("2 GB"),
    ),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input(name: str) -> None:
    error, words, call = BAD[name]
    with pytest.raises(error, match=words) as caught:
        call()
    assert caught.type is error
    assert "expected" in str(caught.value)
    assert str(caught.value).endswith(".")


def test_every_sentence_says_what_to_do() -> None:
    said = []
    for name, (_, _, call) in BAD.items():
        if "cache" not in name:
            with pytest.raises((ValueError, TypeError), match=SENTENCE) as caught:
                call()
            said.append(caught)
    assert len(said) == len(BAD) - 2


@pytest.mark.parametrize("bad", ["A", "b"])
def test_nan_is_refused_before_any_work(bad: str) -> None:
    S = sparse(SPD).with_data(np.arange(1.0, 37.0))  # a new matrix
    ldiv.clear_cache()
    with pytest.raises(ValueError, match="finite"):
        ldiv.solve(
            S.with_data(spoiled(S.data, np.nan)) if bad == "A" else sparse(A),
            spoiled(b, np.nan) if bad == "b" else b,
        )
    assert ldiv.cache_info().factorizations == ldiv.cache_info().solves == 0


# -- promises that are broken -------------------------------------------------

KINDS: dict[str, Callable[[Any], Any]] = {
    "dense NumPy": np.asarray,
    "dense torch": torch.tensor,
    "sparse NumPy": sparse,
    "sparse torch": lambda a: sparse(a, torch.tensor),
}


def ones(matrix: Any, *shape: int) -> Any:
    """A right-hand side for a matrix of any kind."""
    data = matrix.data if isinstance(matrix, ldiv.SparseArray) else matrix
    return (
        torch.ones(shape, dtype=data.dtype)
        if isinstance(data, torch.Tensor)
        else np.ones(shape, data.dtype)
    )


@pytest.mark.covering(2)
@pytest.mark.parametrize("promise", ["sym", "her", "pos"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "broken", ["asymmetric", "upper triangle alone", "lower triangle alone", "one entry", "complex"]
)
def test_not_symmetric(broken: str, kind: str, promise: str) -> None:
    one_entry = SPD.copy()
    one_entry[0, 1] += 0.1
    skew = np.triu(A, 1) - np.triu(A, 1).T
    a = {
        "asymmetric": A,
        "upper triangle alone": np.triu(SPD),
        "lower triangle alone": np.tril(SPD),
        "one entry": one_entry,
        "complex": SPD + 1j * (skew if promise == "sym" else np.abs(skew)),
    }[broken]
    matrix = KINDS[kind](a)
    with pytest.raises(
        ldiv.NotSymmetricError,
        match=r"promised, but A differs from its (conjugate )?transpose by .+ use assume_a='gen'",
    ):
        ldiv.solve(matrix, ones(matrix, N), assume_a=promise)
    with pytest.raises(ldiv.NotSymmetricError):
        ldiv.factorized(matrix, assume_a=promise)


INDEFINITE = {
    "one negative": np.diag([2.0, 1, 1, 1, 1, -1]),
    "negative definite": -SPD,
    "saddle point": np.block([[np.eye(3), np.ones((3, 1))], [np.ones((1, 3)), np.zeros((1, 1))]]),
    "shifted": COUPLED - 4.5 * np.eye(N),
    "hidden behind a positive diagonal": np.array([[1.0, 2.0], [2.0, 1.0]]),
    "zero diagonal": np.array([[0.0, 1.0], [1.0, 0.0]]),
    "slightly": SPD - (np.linalg.eigvalsh(SPD)[0] + 1e-6) * np.eye(N),
    "badly scaled": np.diag([1e8, 1.0, -1e-8]),
    "hermitian": COUPLED
    - 4.5 * np.eye(N)
    + 1j * (np.triu(np.ones((N, N)), 1) - np.tril(np.ones((N, N)), -1)),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", INDEFINITE)
def test_not_positive_definite(name: str, kind: str) -> None:
    matrix = KINDS[kind](INDEFINITE[name])
    with pytest.raises(
        ldiv.NotPositiveDefiniteError,
        match=r"assume_a='pos'\), but \w+ found .+ use assume_a='her'",
    ):
        ldiv.solve(matrix, ones(matrix, len(INDEFINITE[name])), assume_a="pos")


# -- singular in many forms ---------------------------------------------------


def neumann(*n: int) -> Any:
    """The Laplacian of a grid without boundary conditions: constants are its kernel."""
    total = np.zeros((1, 1))
    for m in n:
        line = np.diag([1.0] + [2.0] * (m - 2) + [1.0]) - np.eye(m, k=1) - np.eye(m, k=-1)
        total = np.kron(total, np.eye(m)) + np.kron(np.eye(len(total)), line)
    return total


def low_rank(n: int, rank: int, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, rank)) @ rng.standard_normal((rank, n))


def with_rows(n: int, change: Callable[[Any], None], density: float = 0.3) -> Any:
    rng = np.random.default_rng(n)
    a = rng.standard_normal((n, n)) * (rng.random((n, n)) < density) + np.diag(
        rng.standard_normal(n) + 3
    )
    change(a)
    return a


def repeat_row(a: Any) -> None:
    a[-1] = a[1]


def scaled_repeat(a: Any) -> None:
    a[-1] = np.pi * a[1]
    a *= 10.0 ** np.linspace(-6, 6, len(a))


def combine(a: Any) -> None:
    a[-1] = 0.1 * a[0] + 0.7 * a[1] - 0.3 * a[2]


def empty_row(a: Any) -> None:
    a[2] = 0


def empty_column(a: Any) -> None:
    a[:, 2] = 0


LINES = (3, 4, 5, 6, 7, 8, 10, 16, 25, 33, 50, 64, 81, 100)
GRIDS = ((3, 3), (3, 4), (5, 5), (7, 9), (10, 10), (3, 3, 3))
SINGULAR: dict[str, Any] = {
    **{f"Neumann {n}": neumann(n) for n in LINES},
    **{f"Neumann {g}": neumann(*g) for g in GRIDS},
    **{f"Neumann {n} times 1/3": neumann(n) / 3 for n in LINES},
    **{f"rank {n - 1} of {n}": low_rank(n, n - 1) for n in (2, 3, 5, 20, 60)},
    **{f"rank {n // 2} of {n}": low_rank(n, n // 2) for n in (2, 5, 20, 60)},
    **{
        f"{change.__name__} {n}": with_rows(n, change)
        for change in (repeat_row, scaled_repeat, combine, empty_row, empty_column)
        for n in (4, 10, 40)
    },
    "zero": np.zeros((3, 3)),
    "one zero": np.zeros((1, 1)),
    "ones": np.ones((4, 4)),
    "1..9": np.arange(1.0, 10.0).reshape(3, 3),
    "1..16": np.arange(1.0, 17.0).reshape(4, 4),
    "nilpotent": np.eye(5, k=1),
    "tiny": 1e-200 * neumann(9),
    "huge": 1e200 * neumann(9),
}


@pytest.mark.covering(2)
@pytest.mark.parametrize("framework", ["NumPy", "torch"])
@pytest.mark.parametrize("storage", ["dense", "sparse"])
@pytest.mark.parametrize("name", SINGULAR)
def test_singular(name: str, storage: str, framework: str) -> None:
    refuse(KINDS[f"{storage} {framework}"](SINGULAR[name]), "gen")


@pytest.mark.covering(2)
@pytest.mark.parametrize("promise", ["sym", "her", "pos"])
@pytest.mark.parametrize("kind", ["dense NumPy", "sparse NumPy", "dense torch"])
@pytest.mark.parametrize("name", [name for name, a in SINGULAR.items() if np.array_equal(a, a.T)])
def test_singular_with_a_promise(name: str, kind: str, promise: str) -> None:
    """A semidefinite matrix breaks the promise "pos" as well: either sentence is true."""
    refuse(KINDS[kind](SINGULAR[name]), promise)


@pytest.mark.covering(1)
@pytest.mark.parametrize("dtype", ["float32", "complex64", "complex128"])
@pytest.mark.parametrize("kind", ["dense NumPy", "sparse NumPy"])
@pytest.mark.parametrize("name", [name for name in SINGULAR if name not in ("tiny", "huge")])
def test_singular_in_other_dtypes(name: str, kind: str, dtype: str) -> None:
    refuse(KINDS[kind](SINGULAR[name].astype(dtype)), "gen")


def refuse(matrix: Any, promise: str) -> None:
    errors: Any = (
        (ldiv.SingularMatrixError, ldiv.NotPositiveDefiniteError)
        if promise == "pos"
        else ldiv.SingularMatrixError
    )
    n = matrix.shape[-1]
    with pytest.raises(errors, match=r"found .+ Likely causes: \(a\)"):
        ldiv.solve(matrix, ones(matrix, n), assume_a=promise)
    with pytest.raises(errors, match="Likely causes"):
        ldiv.factorized(matrix, assume_a=promise)


STRUCTURED: dict[str, Callable[[Any], Any]] = {
    "triangular dense": lambda to: ldiv.solve_triangular(
        to(np.triu(A) * (1 - np.eye(N)[3])), to(b)
    ),
    "lower triangular dense": lambda to: ldiv.solve_triangular(
        to(A - np.diag(np.diag(A))), to(b), lower=True
    ),
    "triangular by promise": lambda to: ldiv.solve(
        to(A - np.diag(np.diag(A))), to(b), assume_a="upper triangular"
    ),
    "triangular sparse": lambda to: ldiv.solve_triangular(
        sparse(A, to).with_data(to((A - np.diag(np.diag(A))).ravel())), to(b)
    ),
    "triangular sparse without a diagonal entry": lambda to: ldiv.solve_triangular(
        sparse(np.triu(A, 1), to), to(b)
    ),
    "triangular without entries": lambda to: ldiv.solve_triangular(
        ldiv.coo_array((to(np.zeros(0)), ([], [])), shape=(N, N)), to(b)
    ),
    "structure triangular": lambda to: ldiv.solve(
        ldiv.Matrix(Triangular(N, True), to(A * (1 - np.eye(N)))), to(b)
    ),
    "diagonal": lambda to: ldiv.solve(
        ldiv.Matrix(Diagonal(3), to(np.array([1.0, 0.0, 2.0]))), to(np.ones(3))
    ),
    "diagonal by promise": lambda to: ldiv.solve(
        to(A * (1 - np.eye(N)[2])), to(b), assume_a="diagonal"
    ),
    "diagonal sparse by promise": lambda to: ldiv.solve(
        sparse(A - np.diag(np.diag(A)), to), to(b), assume_a="diagonal"
    ),
    "sparse without entries": lambda to: ldiv.solve(
        ldiv.coo_array((to(np.zeros(0)), ([], [])), shape=(N, N)), to(b)
    ),
    "explicit zeros": lambda to: ldiv.solve(sparse(A, to).with_data(to(np.zeros(36))), to(b)),
    "structurally singular": lambda to: ldiv.solve(sparse(with_block_of_zeros(), to), to(b)),
    "duplicates that cancel": lambda to: ldiv.solve(
        ldiv.coo_array((to(np.array([1.0, 1.0, -1.0])), ([0, 1, 1], [0, 1, 1])), shape=(2, 2)),
        to(np.ones(2)),
    ),
    "one of a batch": lambda to: ldiv.solve(
        to(np.stack([A, np.ones((N, N)), A])), to(np.ones((N, 1)))
    ),
    "one of a sparse batch": lambda to: ldiv.solve(
        sparse(A, to).with_data(to(np.stack([A.ravel(), np.ones(36)]))), to(b)
    ),
    "one of a batch of triangles": lambda to: ldiv.solve_triangular(
        to(np.stack([A, A * (1 - np.eye(N))])), to(b)
    ),
    "one of a batch of diagonals": lambda to: ldiv.solve(
        ldiv.Matrix(Diagonal(2), to(np.array([[1.0, 2.0], [1.0, 0.0]]))), to(np.ones(2))
    ),
    "transposed": lambda to: ldiv.solve(to(np.ones((N, N))), to(b), trans="T"),
    "transposed sparse": lambda to: ldiv.solve(sparse(low_rank(N, N - 1), to), to(b), trans="H"),
    "view": lambda to: ldiv.solve(sparse(low_rank(N, N - 1), to).T, to(b)),
    "no right-hand side": lambda to: ldiv.solve(to(np.ones((N, N))), to(np.ones((N, 0)))),
    "a zero right-hand side": lambda to: ldiv.solve(
        sparse(low_rank(N, N - 1), to), to(np.zeros(N))
    ),
    "logabsdet": lambda to: ldiv.factorized(sparse(neumann(N), to)).logabsdet(),
}


def with_block_of_zeros() -> Any:
    """No set of six entries in different rows and columns avoids the zeros."""
    a = A.copy()
    a[:4, :3] = 0
    return a


@pytest.mark.parametrize("to", [np.asarray, torch.tensor], ids=["NumPy", "torch"])
@pytest.mark.parametrize("name", STRUCTURED)
def test_singular_in_a_structure(name: str, to: Any) -> None:
    with pytest.raises(
        ldiv.SingularMatrixError, match=r"singular to working precision: \w+ found .+ Likely causes"
    ):
        STRUCTURED[name](to)


REGULAR = {
    "tiny": 1e-200 * A,
    "huge": 1e200 * A,
    "rows and columns far apart": 10.0 ** np.linspace(-8, 8, N)[:, None]
    * A
    * 10.0 ** np.linspace(8, -8, N)[::-1],
    "nearly singular": neumann(N) + 1e-10 * np.eye(N),
    "condition 1e13": np.linalg.qr(A)[0] * np.logspace(0, -13, N) @ np.linalg.qr(A.T)[0],
    "zero diagonal": np.eye(N)[::-1] * np.arange(1.0, N + 1),
    "graded": np.tril(np.ones((N, N))) * 10.0 ** np.linspace(0, 12, N),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", REGULAR)
def test_regular_matrices_are_not_accused(name: str, kind: str) -> None:
    """The error is that of a backward stable solve, |A^-1| |A| |x| eps, entry by entry after
    scaling.
    """
    a = REGULAR[name]
    matrix = KINDS[kind](a)
    x = np.asarray(ldiv.solve(matrix, ones(matrix, N)))
    scale = np.abs(a) @ np.abs(x) + 1
    assert np.abs(a @ x - 1).max() <= 1e-12 * scale.max()


# -- engines say why not ------------------------------------------------------


def test_sparse_on_cuda_says_what_works() -> None:
    reason = engines()["superlu"].supports(sparse(A).structure, np.dtype(float), "cuda:0", "gen")
    assert "the values are on cuda:0" in reason
    assert "only positive definite ones are factored there" in reason
    assert "dense, triangular and diagonal matrices are solved where they are" in reason


@pytest.mark.parametrize(
    "structure", [Dense(3, 3), Triangular(3, True), Diagonal(3)], ids=lambda s: type(s).__name__
)
def test_dense_structures_have_an_engine_on_cuda(structure: Any) -> None:
    assert any(
        engine.supports(structure, np.dtype(float), "cuda:0", "gen") is None
        for engine in engines().values()
    )


def test_the_wrong_engine_says_why() -> None:
    with pytest.raises(
        ldiv.EngineError,
        match=r"no engine solves a Dense matrix of float64 on cpu .+ method='superlu'. superlu: factors sparse matrices only",
    ):
        ldiv.solve(A, b, method="superlu")
    with pytest.raises(ldiv.EngineError, match="lapack: factors dense matrices only"):
        ldiv.solve(sparse(A), b, method="lapack")


def test_classes() -> None:
    assert issubclass(ldiv.SingularMatrixError, np.linalg.LinAlgError)
    assert issubclass(ldiv.NotPositiveDefiniteError, np.linalg.LinAlgError)
    assert issubclass(ldiv.NotSymmetricError, ValueError)
    assert issubclass(ldiv.EngineError, ValueError)


@pytest.mark.parametrize(
    ("structure", "shape"),
    [
        (ldiv.structures.Diagonal(6), (5,)),
        (ldiv.structures.Diagonal(6), (1,)),
        (ldiv.structures.Dense(6, 5), (6, 6)),
        (ldiv.structures.Dense(2, 2), (2,)),
    ],
)
def test_parameters_of_another_size(structure, shape):
    with pytest.raises(
        ValueError,
        match=r"params: expected (shape \(\.\.\., |at least).*got .*Batch axes come first",
    ):
        ldiv.Matrix(structure, np.ones(shape))
