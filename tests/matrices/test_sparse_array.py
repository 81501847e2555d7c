"""SparseArray: what scipy.sparse says is the value, what dense PyTorch says is the derivative."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp
import torch

import ldiv

# unsorted, (3, 1) and (0, 0) twice
ROWS, COLS, SHAPE = (
    np.array([3, 0, 2, 1, 0, 3, 2, 3, 0, 1]),
    np.array([1, 0, 2, 4, 3, 1, 0, 3, 0, 1]),
    (4, 5),
)
OTHER = np.array([0, 1, 1, 2, 3, 3]), np.array([0, 3, 1, 2, 4, 1])
PATTERNS = {
    "wide": (ROWS, COLS, SHAPE),
    "tall": (COLS, ROWS, SHAPE[::-1]),
    "one row": (0 * COLS, COLS, (1, 5)),
    "no entries": (ROWS[:0], COLS[:0], (4, 5)),
    "nothing": (ROWS[:0], COLS[:0], (0, 0)),
    "no rows": (ROWS[:0], COLS[:0], (0, 5)),
}
VIEWS: dict[str, Callable[[Any], Any]] = {
    "N": lambda A: A,
    "T": lambda A: A.T,
    "C": lambda A: A.conj(),
    "H": lambda A: A.T.conj(),
}
MINE: dict[str, Callable[[Any], Any]] = VIEWS | {"H": lambda A: A.H}
DTYPES = ("float32", "float64", "complex64", "complex128")


def draw(*shape: int, seed: int = 0, dtype: Any = float) -> Any:
    """Random numbers with no zero among them."""
    rng = np.random.default_rng([seed, *shape])
    x = rng.uniform(0.5, 2.0, shape) * rng.choice([-1, 1], shape)
    return (x + (1j * rng.uniform(0.5, 2.0, shape) if np.dtype(dtype).kind == "c" else 0)).astype(
        dtype
    )


def full(x: Any) -> Any:
    """Sparse arrays of either library as dense ones; plain arrays as they are."""
    x = x.toarray() if hasattr(x, "toarray") else x
    return x.resolve_conj().numpy() if isinstance(x, torch.Tensor) else np.asarray(x)


def same(got: Any, expected: Any, tol: float = 1e-12) -> None:
    got, expected = full(got), full(expected)
    assert got.shape == expected.shape
    np.testing.assert_allclose(got, expected, rtol=tol, atol=tol)


# -- constructors -------------------------------------------------------------

INDEX_KINDS: dict[str, Callable[[Any], Any]] = {
    "list": list,
    "numpy32": lambda i: i.astype(np.int32),
    "numpy64": lambda i: i.astype(np.int64),
    "numpy unsigned": lambda i: i.astype(np.uint16),
    "torch32": lambda i: torch.tensor(i, dtype=torch.int32),
    "torch64": lambda i: torch.tensor(i, dtype=torch.int64),
    "jax32": lambda i: jnp.asarray(i, dtype=jnp.int32),
}
VALUE_KINDS: dict[str, Callable[[Any], Any]] = {
    "numpy": np.asarray,
    "torch": torch.tensor,
    "jax": jnp.asarray,
}


@pytest.mark.covering(2)
@pytest.mark.parametrize("index", INDEX_KINDS)
@pytest.mark.parametrize("values", VALUE_KINDS)
@pytest.mark.parametrize("format", ["coo", "csr", "csc"])
def test_indices_of_any_framework(format: str, values: str, index: str) -> None:
    v, i = draw(len(ROWS), dtype=np.float32), INDEX_KINDS[index]
    expected = sp.coo_array((v, (ROWS, COLS)), shape=SHAPE)
    if format == "coo":
        A = ldiv.coo_array((VALUE_KINDS[values](v), (i(ROWS), i(COLS))), shape=SHAPE)
    else:
        c = expected.asformat(format)
        A = getattr(ldiv, f"{format}_array")(
            (VALUE_KINDS[values](c.data), i(c.indices), i(c.indptr)), shape=SHAPE
        )
    assert type(A.data) is type(VALUE_KINDS[values](v))
    assert A.format == format
    same(A, expected, 1e-6)


def test_jax_indices_of_64_bits() -> None:
    with jax.enable_x64(True):
        rows, cols = jnp.asarray(ROWS, dtype=jnp.int64), jnp.asarray(COLS, dtype=jnp.int64)
        assert rows.dtype == jnp.int64
        same(
            ldiv.coo_array((draw(10), (rows, cols)), SHAPE),
            sp.coo_array((draw(10), (ROWS, COLS)), SHAPE),
        )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", PATTERNS)
def test_coo(name: str, dtype: str) -> None:
    rows, cols, shape = PATTERNS[name]
    v = draw(len(rows), dtype=dtype)
    A = ldiv.coo_array((v, (rows, cols)), shape=shape)
    same(A, sp.coo_array((v, (rows, cols)), shape=shape), 1e-6)
    assert (A.shape, A.dtype, A.nnz, A.ndim) == (shape, np.dtype(dtype), len(rows), 2)
    assert not np.shares_memory(A.data, v)


@pytest.mark.parametrize(
    "kind",
    [
        sp.coo_array,
        sp.csr_array,
        sp.csc_array,
        sp.bsr_array,
        sp.lil_array,
        sp.dok_array,
        sp.dia_array,
        sp.coo_matrix,
        sp.csr_matrix,
    ],
)
def test_from_scipy(kind: Any) -> None:
    S = kind(sp.coo_array((draw(10), (ROWS, COLS)), shape=SHAPE))
    same(ldiv.asarray(S), S)


def test_from_scipy_unsorted_with_zeros_and_duplicates() -> None:
    S = sp.csr_array(
        (np.array([1.0, 0.0, 2.0, 3.0]), np.array([2, 0, 2, 1]), np.array([0, 3, 4])), shape=(2, 3)
    )
    A = ldiv.asarray(S)
    assert A.nnz == 4
    same(A, [[0.0, 0.0, 3.0], [0.0, 3.0, 0.0]])


@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr, torch.sparse_csc])
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex64])
@pytest.mark.filterwarnings("ignore:Sparse CS. tensor support is in beta")
def test_from_torch(layout: Any, dtype: Any) -> None:
    dense = torch.tensor(full(sp.coo_array((draw(10), (ROWS, COLS)), shape=SHAPE)), dtype=dtype)
    A = ldiv.asarray(dense.to_sparse(layout=layout))
    assert A.dtype == dtype
    assert A.nnz == 8
    same(A, dense, 1e-6)


def test_from_torch_uncoalesced_is_differentiable() -> None:
    v = torch.tensor(draw(10), requires_grad=True)
    T = torch.sparse_coo_tensor(
        torch.tensor(np.array([ROWS, COLS])), v, SHAPE, check_invariants=False
    )
    ldiv.asarray(T).sum().backward()
    same(v.grad, np.ones(10))


def test_asarray_leaves_sparse_arrays_alone_and_keeps_all_of_a_dense_one() -> None:
    A = ldiv.asarray(np.zeros((2, 3)))
    assert A.nnz == 6
    assert ldiv.asarray(A) is A
    same(ldiv.asarray(draw(2, 3, 4)), draw(2, 3, 4))


DIAGONALS = {
    "one": (lambda d: d(4), 0, None),
    "one above": (lambda d: d(4), 2, None),
    "one below": (lambda d: d(4), -1, None),
    "three": (lambda d: [d(3), d(4), d(3)], [-1, 0, 1], None),
    "constant": (lambda d: [d(1), d(1)], [0, -2], (6, 4)),
    "wide": (lambda d: [d(3), d(3)], [0, 2], (3, 5)),
    "tall": (lambda d: [d(3), d(2)], [-2, 1], (5, 3)),
}


@pytest.mark.parametrize("kind", ["numpy", "torch"])
@pytest.mark.parametrize("name", DIAGONALS)
def test_diags(name: str, kind: str) -> None:
    make, offsets, shape = DIAGONALS[name]
    A = ldiv.diags_array(make(lambda n: VALUE_KINDS[kind](draw(n))), offsets=offsets, shape=shape)
    same(A, sp.diags_array(make(draw), offsets=offsets, shape=shape))


@pytest.mark.parametrize(
    ("m", "n", "k"), [(3, None, 0), (3, 5, 1), (5, 3, -2), (3, 3, 3), (0, None, 0)]
)
def test_eye(m: int, n: int | None, k: int) -> None:
    same(ldiv.eye_array(m, n, k=k), np.eye(m, n, k))
    like = ldiv.eye_array(m, n, k=k, like=torch.zeros(1, dtype=torch.complex64))
    assert like.dtype == torch.complex64
    assert ldiv.eye_array(m, n, k=k, dtype=np.float32).dtype == np.float32


V = draw(3)
REFUSED: dict[str, tuple[type[Exception], Callable[[], Any]]] = {
    "row out of range": (
        ValueError,
        lambda: ldiv.coo_array((V, ([0, 1, 2], [0, 1, 1])), shape=(2, 2)),
    ),
    "column out of range": (
        ValueError,
        lambda: ldiv.coo_array((V, ([0, 1, 1], [0, 1, 2])), shape=(2, 2)),
    ),
    "negative": (ValueError, lambda: ldiv.coo_array((V, ([0, 1, -1], [0, 1, 1])), shape=(2, 2))),
    "negative torch": (
        ValueError,
        lambda: ldiv.coo_array((V, (torch.tensor([0, 1, -1]), [0, 1, 1])), shape=(2, 2)),
    ),
    "negative without shape": (ValueError, lambda: ldiv.coo_array((V, ([0, 1, -1], [0, 1, 1])))),
    "beyond 32 bits": (
        ValueError,
        lambda: ldiv.coo_array((V, (np.array([0, 1, 2**32]), [0, 1, 1])), shape=(2, 2)),
    ),
    "float indices": (
        TypeError,
        lambda: ldiv.coo_array((V, ([0.0, 1.0, 1.0], [0, 1, 1])), shape=(2, 2)),
    ),
    "bool indices": (
        TypeError,
        lambda: ldiv.coo_array((V, ([True, False, True], [0, 1, 1])), shape=(2, 2)),
    ),
    "two axes": (TypeError, lambda: ldiv.coo_array((V, ([[0, 1, 1]], [0, 1, 1])), shape=(2, 2))),
    "more rows than columns": (
        ValueError,
        lambda: ldiv.coo_array((V, ([0, 1, 1], [0, 1])), shape=(2, 2)),
    ),
    "more values than indices": (
        ValueError,
        lambda: ldiv.coo_array((V, ([0, 1], [0, 1])), shape=(2, 2)),
    ),
    "scalar values": (
        ValueError,
        lambda: ldiv.coo_array((np.array(1.0), ([0], [0])), shape=(2, 2)),
    ),
    "words for values": (TypeError, lambda: ldiv.coo_array((["a"], ([0], [0])), shape=(2, 2))),
    "not a pair": (TypeError, lambda: ldiv.coo_array((V, [0], [0]))),
    "no shape to be found": (ValueError, lambda: ldiv.coo_array((V[:0], ([], [])))),
    "three sizes": (
        ValueError,
        lambda: ldiv.coo_array((V, ([0, 1, 1], [0, 1, 1])), shape=(2, 2, 2)),
    ),  # type: ignore[arg-type]
    "negative shape": (ValueError, lambda: ldiv.coo_array((V[:0], ([], [])), shape=(-1, 2))),
    "csr: not a triple": (TypeError, lambda: ldiv.csr_array((V, [0]))),
    "csr: indptr that falls": (
        ValueError,
        lambda: ldiv.csr_array((V, [0, 1, 1], [0, 4, 3]), shape=(2, 2)),
    ),
    "csr: indptr too short": (
        ValueError,
        lambda: ldiv.csr_array((V, [0, 1, 1], [0, 3]), shape=(2, 2)),
    ),
    "csr: indptr that misses entries": (
        ValueError,
        lambda: ldiv.csr_array((V, [0, 1, 1], [0, 1, 2]), shape=(2, 2)),
    ),
    "csr: empty indptr": (ValueError, lambda: ldiv.csr_array((V[:0], [], []))),
    "csc: row out of range": (
        ValueError,
        lambda: ldiv.csc_array((V, [0, 1, 2], [0, 1, 3]), shape=(2, 2)),
    ),
    "diags: wrong length": (
        ValueError,
        lambda: ldiv.diags_array([V, V], offsets=[0, 1], shape=(3, 3)),
    ),
    "diags: an offset twice": (
        ValueError,
        lambda: ldiv.diags_array([V, V], offsets=[0, 0], shape=(3, 3)),
    ),
    "diags: text": (TypeError, lambda: ldiv.diags_array([["a", "b"]], offsets=[0])),
    "asarray: a vector": (ValueError, lambda: ldiv.asarray(V)),
    "asarray: a ragged list": (TypeError, lambda: ldiv.asarray([[1.0], [1.0, 2.0]])),
    "asarray: a sparse vector": (ValueError, lambda: ldiv.asarray(sp.coo_array(V))),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    error, make = REFUSED[name]
    with pytest.raises(error, match=r"expected .+, got .+\. \w+"):
        make()


# -- operators: the same lines run on ldiv, on scipy.sparse and on dense torch ---

OPERATORS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "-A": lambda A, B, d: -A,
    "2.5 A": lambda A, B, d: 2.5 * A,
    "A 2.5": lambda A, B, d: A * 2.5,
    "A / 4": lambda A, B, d: A / 4.0,
    "scalar of an array times A": lambda A, B, d: d[0, 0] * A,
    "A times scalar of an array": lambda A, B, d: A * d[0, 0],
    "A / scalar of an array": lambda A, B, d: A / d[0, 0],
    "A + B": lambda A, B, d: A + B,
    "A - B": lambda A, B, d: A - B,
    "B - A": lambda A, B, d: B - A,
    "A + A": lambda A, B, d: A + A,
    "A - 3 A": lambda A, B, d: A - 3.0 * A,
    "A * B": lambda A, B, d: A * B,
    "A * A": lambda A, B, d: A * A,
    "A * dense": lambda A, B, d: A * d,
    "dense * A": lambda A, B, d: d * A,
    "A * row": lambda A, B, d: A * d[:1],
    "A * vector": lambda A, B, d: A * d[0],
    "vector * A": lambda A, B, d: d[0] * A,
    "A * column": lambda A, B, d: A * d[:, :1],
    "column * A": lambda A, B, d: d[:, :1] * A,
    "A / dense": lambda A, B, d: A / d,
    "A / column": lambda A, B, d: A / d[:, :1],
    "A @ B.T": lambda A, B, d: A @ B.T,
    "B.T @ A": lambda A, B, d: B.T @ A,
    "A @ A.T": lambda A, B, d: A @ A.T,
    "A @ A.H": lambda A, B, d: A @ A.T.conj(),
    "A @ vector": lambda A, B, d: A @ d[0],
    "A @ block": lambda A, B, d: A @ d.T,
    "vector @ A": lambda A, B, d: d[:, 0] @ A,
    "block @ A": lambda A, B, d: d.T @ A,
    "sum": lambda A, B, d: A.sum(),
    "sum over rows": lambda A, B, d: A.sum(0),
    "sum over columns": lambda A, B, d: A.sum(1),
    "sum over the last axis": lambda A, B, d: A.sum(-1),
    "diagonal": lambda A, B, d: A.diagonal(),
    "diagonal above": lambda A, B, d: A.diagonal(2),
    "diagonal below": lambda A, B, d: A.diagonal(-1),
    "a chain": lambda A, B, d: ((2.0 * A + B) * d).T @ (A - B * B).conj(),
}


def operands(dtype: Any, view: str) -> tuple[Any, Any, Any, Any]:
    """(values of A, values of B, (positions and shape of B, which is A after its view), a dense
    array of that shape).
    """
    shape = SHAPE[::-1] if view in "TH" else SHAPE
    at_b = OTHER[::-1] if view in "TH" else OTHER
    return (
        draw(10, seed=1, dtype=dtype),
        draw(6, seed=2, dtype=dtype),
        (at_b, shape),
        draw(*shape, seed=3, dtype=dtype),
    )


@pytest.mark.covering(2)
@pytest.mark.parametrize(
    ("view", "dtype"), [("N", float), ("T", float), ("C", complex), ("H", complex)]
)
@pytest.mark.parametrize("kind", ["numpy", "torch"])
@pytest.mark.parametrize("name", OPERATORS)
def test_operator(name: str, kind: str, dtype: Any, view: str) -> None:
    a, b, (at, shape), d = operands(dtype, view)
    f, to = OPERATORS[name], VALUE_KINDS[kind]
    got = f(
        MINE[view](ldiv.coo_array((to(a), (ROWS, COLS)), SHAPE)),
        ldiv.coo_array((to(b), at), shape),
        to(d),
    )
    expected = f(
        VIEWS[view](sp.csr_array(sp.coo_array((a, (ROWS, COLS)), SHAPE))),
        sp.csr_array(sp.coo_array((b, at), shape)),
        d,
    )
    assert isinstance(got, ldiv.SparseArray) == sp.issparse(expected)
    same(got, expected)


@pytest.mark.covering(2)
@pytest.mark.parametrize(("view", "dtype"), [("T", float), ("H", complex)])
@pytest.mark.parametrize("mode", ["reverse", "forward", "second order"])
@pytest.mark.parametrize("name", OPERATORS)
def test_derivative_of_operator(name: str, mode: str, dtype: Any, view: str) -> None:
    a, b, (at, shape), d = operands(dtype, view)
    args = tuple(map(torch.tensor, (a, b, d)))

    def mine(a: Any, b: Any, d: Any) -> Any:
        y = OPERATORS[name](
            MINE[view](ldiv.coo_array((a, (ROWS, COLS)), SHAPE)), ldiv.coo_array((b, at), shape), d
        )
        return y.toarray() if isinstance(y, ldiv.SparseArray) else y

    def dense(a: Any, b: Any, d: Any) -> Any:
        return OPERATORS[name](
            VIEWS[view](scattered(a, (ROWS, COLS), SHAPE)), scattered(b, at, shape), d
        )

    for x, y in zip(DERIVATIVES[mode](mine, args), DERIVATIVES[mode](dense, args), strict=True):
        same(x, y, 1e-11)


def scattered(v: Any, at: Any, shape: tuple[int, int]) -> Any:
    place = torch.as_tensor(np.asarray(at[0]) * shape[1] + at[1])
    return v.new_zeros(shape[0] * shape[1]).index_add(0, place, v).reshape(shape)


def reverse(f: Any, args: Any) -> Any:
    y, pull = torch.func.vjp(f, *args)
    return y, *pull(torch.tensor(draw(*y.shape, seed=5, dtype=full(y).dtype)))


def forward(f: Any, args: Any) -> Any:
    return torch.func.jvp(f, args, directions(args))


def second_order(f: Any, args: Any) -> Any:
    """The tangent of the gradient of a nonlinear loss."""

    def loss(*args: Any) -> Any:
        return (f(*args).abs() ** 4).sum()

    return tuple(
        x
        for pair in torch.func.jvp(torch.func.grad(loss, argnums=(0, 1, 2)), args, directions(args))
        for x in pair
    )


def directions(args: Any) -> Any:
    return tuple(
        torch.tensor(draw(*x.shape, seed=6 + i, dtype=full(x).dtype)) for i, x in enumerate(args)
    )


DERIVATIVES = {"reverse": reverse, "forward": forward, "second order": second_order}


@pytest.mark.parametrize("view", VIEWS)
def test_quotient_of_sparse_arrays(view: str) -> None:
    """Each entry over the entry at its place; B has more of them than A."""
    b, d = draw(20, dtype=complex), draw(4, 5, seed=1, dtype=complex)
    at = np.divmod(np.random.default_rng(0).permutation(20), 5)
    A, B = (
        VIEWS[view](ldiv.coo_array(x, SHAPE))
        for x in ((draw(10, dtype=complex), (ROWS, COLS)), (b, at))
    )
    D = VIEWS[view](ldiv.asarray(d))
    S, R = (
        VIEWS[view](sp.coo_array(x, SHAPE).toarray())
        for x in ((draw(10, dtype=complex), (ROWS, COLS)), (b, at))
    )
    same(A / B, S / R)
    same(A / D, S / VIEWS[view](d))


# -- batches of values --------------------------------------------------------

X_SHAPES = [(5,), (5, 2), (3, 5, 2), (2, 1, 5, 2), (2, 3, 5, 1)]


@pytest.mark.covering(2)
@pytest.mark.parametrize("kind", ["numpy", "torch"])
@pytest.mark.parametrize("shape", X_SHAPES)
@pytest.mark.parametrize("batch", [(), (3,), (2, 1), (2, 3)])
def test_batches_of_products(batch: tuple[int, ...], shape: tuple[int, ...], kind: str) -> None:
    v, x = draw(*batch, 10), draw(*shape)
    A = ldiv.coo_array((VALUE_KINDS[kind](v), (ROWS, COLS)), SHAPE)
    same(A, dense_batch(v))
    assert A.shape == (*batch, *SHAPE)
    same(A @ VALUE_KINDS[kind](x), dense_batch(v) @ x)
    left = x if len(shape) == 1 else np.swapaxes(x, -1, -2)
    same(VALUE_KINDS[kind](left) @ A.T, left @ np.swapaxes(dense_batch(v), -1, -2))


def dense_batch(v: Any) -> Any:
    out = np.zeros((*v.shape[:-1], *SHAPE), v.dtype)
    for i in np.ndindex(*v.shape[:-1]):
        out[i] = sp.coo_array((v[i], (ROWS, COLS)), SHAPE).toarray()
    return out


BATCHED: dict[str, Callable[[Any, Any], Any]] = {
    "A + B": lambda A, B: A + B,
    "A - B": lambda A, B: A - B,
    "A + 2 A": lambda A, B: A + 2 * A,
    "A * B": lambda A, B: A * B,
    "A @ B.T": lambda A, B: (
        A @ (B.T if isinstance(B, ldiv.SparseArray) else np.swapaxes(B, -1, -2))
    ),
    "sum": lambda A, B: A.sum(axis=None if isinstance(A, ldiv.SparseArray) else (-2, -1)),
    "sum over columns": lambda A, B: A.sum(-1),
    "diagonal": lambda A, B: (
        A.diagonal(1) if isinstance(A, ldiv.SparseArray) else A.diagonal(1, -2, -1)
    ),
}


@pytest.mark.parametrize("other", [(), (3,), (2, 1)])
@pytest.mark.parametrize("name", BATCHED)
def test_batches_of_operators(name: str, other: tuple[int, ...]) -> None:
    a, b = draw(3, 10), draw(*other, 10, seed=1)
    moved = np.roll(ROWS, 1), COLS
    A, B = ldiv.coo_array((a, (ROWS, COLS)), SHAPE), ldiv.coo_array((b, moved), SHAPE)
    same(BATCHED[name](A, B), BATCHED[name](dense_batch(a), full(B)))


# -- the rest -----------------------------------------------------------------


def test_zero_is_the_neutral_element() -> None:
    A = ldiv.coo_array((draw(10), (ROWS, COLS)), SHAPE)
    same(sum([A, A, A]), 3 * full(A))
    assert A + 0 is A
    same(0 - A, -full(A))


@pytest.mark.parametrize("name", PATTERNS)
def test_empty_matrices_have_operators(name: str) -> None:
    rows, cols, shape = PATTERNS[name]
    v = draw(len(rows))
    A, S = (
        ldiv.coo_array((v, (rows, cols)), shape),
        sp.csr_array(sp.coo_array((v, (rows, cols)), shape)),
    )
    for f in (
        lambda M: M @ np.ones(shape[1]),
        lambda M: np.ones(shape[0]) @ M,
        lambda M: M @ M.T,
        lambda M: M + 2 * M,
        lambda M: M * M,
        lambda M: M.T,
    ):
        same(f(A), f(S))
    same(A @ np.ones((shape[1], 0)), np.zeros((shape[0], 0)))
    same(A.sum_duplicates(), S)
    for axis in (None, 0, 1):
        same(A.sum(axis), S.sum(axis))
    for k in (0, 1, -1, 99, -99):
        same(A.diagonal(k), S.diagonal(k))


def test_explicit_zeros_stay() -> None:
    A = ldiv.coo_array((np.zeros(10), (ROWS, COLS)), SHAPE)
    counts = {
        "A": A.nnz,
        "2 A": (2 * A).nnz,
        "A + A": (A + A).nnz,
        "A.T": A.T.nnz,
        "A.H": A.H.nnz,
        "-A": (-A).nnz,
    }
    assert set(counts.values()) == {10}
    assert A.sum_duplicates().nnz == (A * A).nnz == 8


@pytest.mark.parametrize("view", VIEWS)
def test_with_data_keeps_pattern_and_structure(view: str) -> None:
    A = MINE[view](ldiv.coo_array((draw(10, dtype=complex), (ROWS, COLS)), SHAPE))
    w = draw(10, seed=9, dtype=complex)
    assert A.with_data(w).structure is A.structure
    same(A.with_data(w), VIEWS[view](sp.coo_array((w, (ROWS, COLS)), SHAPE)))
    with pytest.raises(ValueError, match=r"expected shape \(\.\.\., 10\)"):
        A.with_data(w[:9])


def test_views_come_back() -> None:
    A = ldiv.coo_array((draw(10, dtype=complex), (ROWS, COLS)), SHAPE)
    assert A.T.T.structure is A.structure
    assert A.H.H.structure is A.structure
    assert A.H.conj().structure == A.T.structure
    assert A.T.data is A.data


def test_equal_patterns_share_their_structure() -> None:
    first, second = (
        ldiv.coo_array((draw(10, seed=s), (ROWS.copy(), COLS.copy())), SHAPE) for s in (1, 2)
    )
    assert first.structure is second.structure


SUMS = {
    "A + s B": lambda A, B, s: A + s * B,
    "A * B": lambda A, B, s: A * (s * B),
    "A @ B": lambda A, B, s: A @ (s * B),
    "A / B": lambda A, B, s: A / (s * B),
}


@pytest.mark.parametrize("name", SUMS)
def test_results_keep_their_symbolic_work(name: str) -> None:
    """The pattern of the result is ordered once in a loop over s."""
    A, B = ldiv.eye_array(6), ldiv.diags_array([draw(5), draw(6) + 9], offsets=[1, 0])
    ldiv.clear_cache()
    for s in (1.0, 2.0, 3.0):
        ldiv.solve(SUMS[name](A, B, s), np.ones(6))
    assert ldiv.cache_info().analyses == 1


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [
        ("numpy", np.complex64),
        ("torch", torch.complex64),
        ("numpy", "float32"),
        ("torch", torch.float32),
    ],
)
@pytest.mark.parametrize("view", VIEWS)
def test_astype(view: str, kind: str, dtype: Any) -> None:
    A = MINE[view](ldiv.coo_array((VALUE_KINDS[kind](draw(10)), (ROWS, COLS)), SHAPE)).astype(dtype)
    assert A.dtype == dtype
    same(A, VIEWS[view](sp.coo_array((draw(10), (ROWS, COLS)), SHAPE)), 1e-6)


@pytest.mark.parametrize("view", VIEWS)
def test_to_scipy_and_back(view: str) -> None:
    A = MINE[view](ldiv.coo_array((draw(10, dtype=complex), (ROWS, COLS)), SHAPE))
    assert sp.issparse(A.to_scipy())
    same(A.to_scipy(), A)
    same(ldiv.asarray(A.to_scipy()), A)
    attached = ldiv.coo_array((torch.ones(10, requires_grad=True), (ROWS, COLS)), SHAPE)
    assert isinstance(attached.to_scipy().data, np.ndarray)
    with pytest.raises(ValueError, match="one matrix"):
        A.with_data(draw(2, 10, dtype=complex)).to_scipy()


@pytest.mark.parametrize("view", VIEWS)
def test_sum_duplicates(view: str) -> None:
    A = MINE[view](ldiv.coo_array((draw(10, dtype=complex), (ROWS, COLS)), SHAPE))
    once = A.sum_duplicates()
    assert once.nnz == 8
    assert once.sum_duplicates() is once
    same(once, A)


REPRS = {
    "<SparseArray (4, 5) float64, nnz=10 (50%), coo, numpy>": lambda: ldiv.coo_array(
        (draw(10), (ROWS, COLS)), SHAPE
    ),
    "<SparseArray (5, 4) float64, nnz=10 (50%), coo, numpy>": lambda: (
        ldiv.coo_array((draw(10), (ROWS, COLS)), SHAPE).T
    ),
    "<SparseArray (2, 4, 5) complex64, nnz=10 (50%), coo, torch>": lambda: ldiv.coo_array(
        (torch.zeros(2, 10, dtype=torch.complex64), (ROWS, COLS)), SHAPE
    ),
    "<SparseArray (2, 2) float32, nnz=2 (50%), csr, numpy>": lambda: ldiv.asarray(
        sp.csr_array(np.eye(2, dtype=np.float32))
    ),
    "<SparseArray (2, 2) float32, nnz=2 (50%), csc, numpy>": lambda: (
        ldiv.asarray(sp.csr_array(np.eye(2, dtype=np.float32))).H
    ),
}


@pytest.mark.parametrize("text", REPRS)
def test_repr(text: str) -> None:
    assert repr(REPRS[text]()) == text


def of_jax(A: ldiv.SparseArray) -> ldiv.SparseArray:
    return A.with_data(jnp.asarray(A.data))


A45, A54 = (
    ldiv.coo_array((draw(10), (ROWS, COLS)), SHAPE),
    ldiv.coo_array((draw(10), (COLS, ROWS)), SHAPE[::-1]),
)
TORCH45 = A45.with_data(torch.tensor(A45.data))
MISUSED: dict[str, tuple[type[Exception], str, Callable[[], Any]]] = {
    "add another shape": (ValueError, "expected shape", lambda: A45 + A54),
    "multiply another shape": (ValueError, "expected shape", lambda: A45 * A54),
    "divide by another shape": (ValueError, "expected shape", lambda: A45 / A54),
    "inner sizes": (ValueError, "inner sizes", lambda: A45 @ A45),
    "vector too short": (ValueError, "expected shape", lambda: A45 @ np.ones(4)),
    "vector too short on the left": (ValueError, "expected shape", lambda: np.ones(5) @ A45),
    "dense does not broadcast": (ValueError, "broadcasts", lambda: A45 * np.ones((3, 5))),
    "add a number": (ValueError, "dense", lambda: A45 + 1),
    "add a dense array": (ValueError, "dense", lambda: A45 + np.ones(SHAPE)),
    "subtract from a dense array": (ValueError, "dense", lambda: np.ones(SHAPE) - A45),
    "a hole in the divisor": (
        ValueError,
        "divided by zero",
        lambda: A45 / ldiv.coo_array((draw(6), OTHER), SHAPE),
    ),
    "an axis too many": (ValueError, "expected None, 0 or 1", lambda: A45.sum(2)),
    "a ragged list": (TypeError, "expected a scalar", lambda: A45 * [[1.0], 2.0]),
    "a string": (TypeError, "expected a scalar", lambda: A45 * "x"),
    "divide by a string": (TypeError, "expected a scalar", lambda: A45 / "x"),
    "None": (TypeError, "unsupported operand", lambda: A45 + None),
    "text on the right": (TypeError, "unsupported operand", lambda: A45 @ "x"),
    "a torch scalar on jax values": (
        TypeError,
        "one framework",
        lambda: of_jax(A45) * torch.tensor(2.0),
    ),
    "a torch factor on jax values": (
        TypeError,
        "one framework",
        lambda: of_jax(A45) * torch.ones(SHAPE, dtype=torch.float64),
    ),
    "torch values and jax values": (
        TypeError,
        "one framework",
        lambda: of_jax(A45) + ldiv.coo_array((torch.ones(10), (ROWS, COLS)), SHAPE),
    ),
    "batches that do not match": (
        ValueError,
        "batch",
        lambda: A45.with_data(draw(2, 10)) @ draw(3, 5, 1),
    ),
}


@pytest.mark.parametrize("name", MISUSED)
def test_misuse(name: str) -> None:
    error, words, use = MISUSED[name]
    with pytest.raises(error, match=words):
        use()


def test_read_only_values() -> None:
    v = draw(10)
    v.flags.writeable = False
    same(
        ldiv.coo_array((v, (ROWS, COLS)), SHAPE) @ np.ones(5),
        full(sp.coo_array((v, (ROWS, COLS)), SHAPE)).sum(1),
    )
