"""Methods that SciPy's sparse arrays have and dense ones do not: formats, counts, copies, devices;
and the errors of missing ones.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as spl
import torch

import ldiv

RNG = np.random.default_rng(0)
AT, SHAPE = (
    (np.array([0, 2, 3, 1, 0, 3, 2, 3, 0, 1]), np.array([0, 4, 1, 2, 4, 3, 1, 1, 0, 3])),
    (4, 5),
)
V = RNG.uniform(0.5, 1.5, 10)
V[0] = V[8] = 0.0
THEIRS = sp.coo_array((V, AT), shape=SHAPE)
FORMATS = ("coo", "csr", "csc")


def made(format: str = "coo", values: Any = V) -> Any:
    return ldiv.coo_array((values, AT), SHAPE).asformat(format)


@pytest.mark.parametrize("format", FORMATS)
def test_formats_are_those_of_scipy(format: str) -> None:
    for before in FORMATS:
        mine, theirs = made(before).asformat(format), THEIRS.asformat(before).asformat(format)
        assert (mine.format, mine.nnz, mine.size) == (format, theirs.nnz, theirs.size)
        assert type(mine.to_scipy()) is type(theirs)
        np.testing.assert_array_equal(mine.to_scipy().data, mine.values)
        if format == "coo":
            np.testing.assert_array_equal(mine.coords, (mine.row, mine.col))
            continue
        for name in ("indices", "indptr", "data"):
            np.testing.assert_allclose(getattr(mine, name), getattr(theirs, name))
        make = getattr(ldiv, f"{format}_array")
        again = make((mine.data, mine.indices, mine.indptr), shape=SHAPE)
        assert again.structure is mine.structure
    assert made(format).asformat(format).asformat(None).structure is made(format).structure


@pytest.mark.parametrize("view", ["T", "H", "conj"])
def test_a_compressed_view_is_compressed_the_other_way(view: str) -> None:
    A = made("csr", V + 1j)
    B = A.conj() if view == "conj" else getattr(A, view)
    theirs = {"T": lambda S: S.T, "H": lambda S: S.T.conj(), "conj": lambda S: S.conj()}[view](
        sp.coo_array((V + 1j, AT), shape=SHAPE).tocsr()
    )
    assert B.format == theirs.format
    np.testing.assert_array_equal(B.indices, theirs.indices)
    np.testing.assert_array_equal(B.indptr, theirs.indptr)
    np.testing.assert_array_equal(B.values, theirs.data)
    np.testing.assert_array_equal(B.to_scipy().toarray(), theirs.toarray())


def test_the_arrays_of_scipy_are_copies() -> None:
    for format in FORMATS:
        A = made(format)
        S = A.to_scipy()
        S.data[:] = 7.0
        S.sum_duplicates()
        np.testing.assert_allclose(A.toarray(), THEIRS.toarray())


def test_counts() -> None:
    for format in FORMATS:
        A, S = made(format), THEIRS.copy().asformat(format)
        assert A.getnnz() == S.nnz and A.count_nonzero() == S.count_nonzero()
        for axis in (0, 1, -1):
            np.testing.assert_array_equal(A.count_nonzero(axis), S.count_nonzero(axis))
        np.testing.assert_array_equal(A.getnnz(axis=0), np.bincount(A.col, minlength=5))
        np.testing.assert_array_equal(A.getnnz(axis=1), np.bincount(A.row, minlength=4))
    np.testing.assert_array_equal(made("coo", np.stack([V, 0 * V])).count_nonzero(), [8 - 1, 0])


@pytest.mark.parametrize("format", FORMATS)
def test_nonzero_in_the_order_of_scipy(format: str) -> None:
    """Each position once, where SciPy lists duplicates; zeros are left out."""
    rng = np.random.default_rng(1)
    for m, n in ((4, 5), (6, 2), (0, 3)):
        D = rng.integers(-1, 2, (m, n)).astype(float)
        keep = rng.permutation(m * n)  # any order, for coo; zeros are stored
        S = sp.coo_array((D.ravel()[keep], [i.ravel()[keep] for i in np.indices((m, n))]), (m, n))
        S = S.asformat(format)
        A = ldiv.asarray(S)
        np.testing.assert_array_equal(A.nonzero(), S.nonzero())
        np.testing.assert_array_equal(A.T.nonzero(), S.T.nonzero())
    rows, cols = made(format).nonzero()
    assert {*zip(rows, cols, strict=True)} == {*zip(*THEIRS.nonzero(), strict=True)}


def test_canonical_and_sorted() -> None:
    A = made()
    assert not A.has_canonical_format and made("csr").has_canonical_format
    for format in FORMATS:
        B = made(format).sorted_indices()
        assert B.nnz == made(format).nnz and B.format == format
        np.testing.assert_allclose(B.toarray(), THEIRS.toarray())


def test_eliminate_zeros_is_a_new_pattern() -> None:
    for format in FORMATS:
        theirs = THEIRS.copy().asformat(format)
        theirs.sum_duplicates()
        theirs.eliminate_zeros()
        got = made(format).eliminate_zeros()
        assert got.nnz == theirs.nnz == 7
        np.testing.assert_allclose(got.toarray(), theirs.toarray())
        assert got.eliminate_zeros() is got
    v = torch.tensor(V, requires_grad=True)
    made(values=v).eliminate_zeros().sum().backward()
    np.testing.assert_array_equal(v.grad, V != 0)
    with pytest.raises(ValueError, match="keep the zeros"):
        made(values=np.stack([V, V])).eliminate_zeros()
    with pytest.raises(ValueError, match="keep the zeros"):
        jax.jit(lambda v: made(values=v).eliminate_zeros().data)(jnp.ones(10))


def test_copies_and_constants() -> None:
    A = made("csr")
    B = A.copy()
    B.data[:] = 0
    assert A.data.any() and B.structure is A.structure and B.format == "csr"
    v = torch.tensor(V, requires_grad=True)
    assert made(values=v).copy().data.requires_grad
    assert not made(values=v).detach().data.requires_grad
    assert np.all(jax.grad(lambda v: made(values=v).detach().sum())(jnp.ones(10)) == 0)
    for again in (copy.copy(A), copy.deepcopy(A), pickle.loads(pickle.dumps(A))):
        np.testing.assert_array_equal(again.indptr, A.indptr)


def test_devices_and_dtypes() -> None:
    A = made("csr", torch.tensor(V, requires_grad=True))
    assert A.device == torch.device("cpu")
    assert A.to(torch.complex64).dtype == torch.complex64
    assert A.to("cpu", torch.float32).dtype == A.to(dtype=torch.float32).dtype == torch.float32
    A.to(torch.float32).sum().backward()
    assert made().device == "cpu"
    for to in (("float32",), (np.float32,), ("cpu", np.float32)):
        assert made().to(*to).dtype == np.float32
    assert made().to("cpu").dtype == np.float64
    J = made(values=jnp.asarray(V, dtype=jnp.float32))
    assert J.to(jnp.complex64).dtype == jnp.complex64
    assert J.to(J.device).dtype == jnp.float32
    with pytest.raises(TypeError, match="float64"):
        made().to(np.int64)
    with pytest.raises(TypeError, match="Say each once"):
        made().to("cpu", "cpu")


A, T = made("csr"), made(values=torch.tensor(V))
WRONG: dict[str, tuple[type[Exception], str, Callable[[], Any]]] = {
    "a row out of range": (IndexError, "from -4 to 3, got 4", lambda: A[4]),
    "a row below": (IndexError, "from -4 to 3, got -5", lambda: A[-5, 0]),
    "a column out of range": (IndexError, "from -5 to 4, got 5", lambda: A[0, 5]),
    "a list out of range": (IndexError, "got 7", lambda: A[[0, 7]]),
    "an empty matrix": (IndexError, "A", lambda: ldiv.coo_array((V[:0], ([], [])), (0, 0))[0, 0]),
    "a float": (IndexError, "integers, slices", lambda: A[1.0]),
    "floats": (IndexError, "integers, slices", lambda: A[np.ones(2)]),
    "a string": (IndexError, "integers, slices", lambda: A["x"]),
    "None": (IndexError, "integers, slices", lambda: A[None]),
    "a bool": (IndexError, "integers, slices", lambda: A[True]),
    "a ragged list": (IndexError, "integers, slices", lambda: A[[[0], [1, 2]]]),
    "a slice of floats": (IndexError, "a slice of integers", lambda: A[0.5:]),
    "a step of 0": (IndexError, "a slice of integers", lambda: A[::0]),
    "three indices": (IndexError, "at most two", lambda: A[0, 1, 2]),
    "two Ellipses": (IndexError, "one Ellipsis", lambda: A[..., ...]),
    "a short mask": (IndexError, r"a mask of shape \(4,\)", lambda: A[np.array([True, False])]),
    "a mask of another shape": (
        IndexError,
        r"a mask of shape \(4, 5\)",
        lambda: A[np.ones((5, 4), bool)],
    ),
    "a block of rows": (IndexError, "a vector of indices", lambda: A[np.array([[0, 1], [1, 0]])]),
    "pairs that do not match": (IndexError, "broadcast", lambda: A[[0, 1], [0, 1, 2]]),
    "three axes": (IndexError, "two axes", lambda: A[np.zeros((1, 2, 2), int), 0]),
    "a matrix": (IndexError, "integers, slices", lambda: A[A]),
    "a masked array": (TypeError, "without a mask", lambda: A[np.ma.array([0, 1], mask=[0, 1])]),
    "text": (TypeError, "expected numbers", lambda: A[np.array(["a"])]),
    "a sparse tensor": (TypeError, "sparse", lambda: A[torch.eye(4).to_sparse()]),
    "a tensor without values": (TypeError, "meta", lambda: A[torch.ones(2, device="meta").long()]),
    "an integer that is too large": (IndexError, "integers, slices", lambda: A[10**400]),
    "an axis of text": (ValueError, "None, 0 or 1", lambda: A.sum(("a", "b"))),
    "an array as axis": (ValueError, "None, 0 or 1", lambda: A.mean(np.arange(2))),
    "a dtype that nobody has": (TypeError, "one of float32", lambda: A.astype("abc")),
    "a dtype of integers": (TypeError, "one of float32", lambda: A.sum(0, dtype=int)),
    "a dtype of another framework": (
        TypeError,
        "one of float32",
        lambda: A.power(2, torch.float32),
    ),
    "an index of JAX in a trace": (
        TypeError,
        "known now",
        lambda: jax.jit(lambda i: made(values=jnp.ones(10))[i])(1),
    ),
    "assignment": (
        TypeError,
        r"A\.with_data\(values\).+ldiv\.setdiag",
        lambda: A.__setitem__((0, 0), 1.0),
    ),
    "setdiag": (AttributeError, r"ldiv\.setdiag\(A, values, k\)", lambda: A.setdiag(1.0)),
    "todia": (AttributeError, r"A\.to_scipy\(\)\.todia\(\)", lambda: A.todia()),
    "indices of coo": (AttributeError, r"A\.tocsr\(\)\.indices", lambda: made().indices),
    "indptr of coo": (AttributeError, r"A\.tocsr\(\)\.indptr", lambda: made().indptr),
    "double of PyTorch": (AttributeError, r'A\.astype\("float64"\)', lambda: made().double()),
    "clone of PyTorch": (AttributeError, r"A\.copy\(\)", lambda: made().clone()),
    "cuda of PyTorch": (AttributeError, r'A\.to\("cuda"\)', lambda: made().cuda()),
    "a name that nobody has": (AttributeError, "no attribute 'tocrs'$", lambda: A.tocrs()),
    "a format that nobody has": (ValueError, "'coo', 'csr', 'csc'", lambda: A.asformat("dia")),
    "entries that are not compressed": (
        ValueError,
        "in the order of their rows",
        lambda: ldiv.SparseArray(made().structure, V, "csr").indptr,
    ),
    "NumPy": (TypeError, r"A\.toarray\(\)", lambda: np.asarray(A)),
    "power 0": (ValueError, "> 0", lambda: A**0),
    "power -1": (ValueError, "> 0", lambda: A.power(-1)),
    "maximum of a positive number": (ValueError, r"A\.toarray\(\)", lambda: A.maximum(1.0)),
    "minimum of a negative number": (ValueError, r"A\.toarray\(\)", lambda: A.minimum(-1.0)),
    "maximum of complex numbers": (TypeError, "no order", lambda: made(values=V + 1j).maximum(A)),
    "maximum of another shape": (ValueError, "expected shape", lambda: A.maximum(A.T)),
    "maximum of two frameworks": (
        TypeError,
        "one framework",
        lambda: A.with_data(jnp.asarray(A.data)).maximum(T),
    ),
    "the mean of nothing": (ZeroDivisionError, "no mean", lambda: A[:0].mean()),
    "an axis too many": (ValueError, "None, 0 or 1", lambda: A.mean(2)),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_refused(name: str) -> None:
    error, words, call = WRONG[name]
    with pytest.raises(error, match=words):
        call()


@pytest.mark.parametrize("framework", [np.asarray, torch.tensor, jnp.asarray])
def test_indices_and_masks_of_any_framework(framework: Any) -> None:
    for mine in (A, T):
        for key in (np.array([0, -1]), np.array([True, False, True, True])):
            np.testing.assert_allclose(
                mine[framework(key)].toarray(), THEIRS.tocsr()[key].toarray()
            )
        assert float(mine[framework(np.array(3)), 1]) == THEIRS.tocsr()[3, 1]


def test_rows_one_by_one() -> None:
    np.testing.assert_allclose(np.stack(list(A)), THEIRS.toarray())


def test_a_matrix_that_is_far_too_large_to_be_dense() -> None:
    far = 2**40
    B = ldiv.coo_array((np.array([1.0, 2.0, 3.0]), ([0, far - 1, 5], [far - 2, 1, 5])), (far, far))
    assert float(B[-1, 1]) == 2.0 and float(B[5, 5]) == 3.0 and float(B[6, 5]) == 0.0
    np.testing.assert_array_equal(B[[5, far - 1]][:, [5, 1]].toarray(), [[3.0, 0.0], [0.0, 2.0]])
    np.testing.assert_array_equal(B[[0, 5], [far - 2, 5]], [1.0, 3.0])
    assert B[1:].nnz == 2 and B[:, ::2].nnz == 1 and B[::-1][0:1, 1:2].toarray() == 2.0
    assert B.trace() == 3.0


def test_selections_share_their_pattern() -> None:
    """The free block is ordered once in a loop, also if many other blocks are taken between."""
    K = ldiv.diags_array([RNG.uniform(4, 5, 9), -np.ones(8), -np.ones(8)], offsets=[0, 1, -1])
    free = np.arange(1, 8)
    ldiv.clear_cache()
    kept = K[free][:, free]
    for step in range(3):
        F = K.with_data(K.data * (1.0 + step))[free][:, free]
        assert F.structure is kept.structure
        ldiv.solve(F, np.ones(7))
        for i in range(9):
            K[[i]]
    assert ldiv.cache_info().analyses == 1


def test_many_selections_are_forgotten() -> None:
    K = ldiv.eye_array(300)
    for i in range(300):
        assert float(K[i, i]) == 1.0 and K[i : i + 1].nnz == 1
    assert K._selections.cache_info().currsize <= 8


# -- SciPy's solvers ----------------------------------------------------------

N = 12
D = sp.diags_array(
    [4.0 + np.arange(N), -np.ones(N - 1), -np.ones(N - 1)], offsets=[0, 1, -1]
).tocsr()
MATRICES: dict[str, Callable[[], Any]] = {
    "sparse": lambda: ldiv.asarray(D),
    "a view": lambda: ldiv.asarray(D.T.tocsr()).T,
    "operator": lambda: ldiv.LinearOperator(
        lambda d, X: ldiv.asarray(D) @ X + 0 * d, np.zeros(1), shape=(N, N), assume_a="pos"
    ),
    "a sum": lambda: ldiv.asarray(D) + ldiv.LowRank(np.zeros(N), np.zeros(N)),
}


@pytest.mark.parametrize("name", MATRICES)
def test_solvers_of_scipy_take_a_matrix(name: str) -> None:
    M, b = MATRICES[name](), RNG.uniform(size=N)
    x = np.linalg.solve(D.toarray(), b)
    for solver in (spl.cg, spl.gmres, spl.bicgstab, spl.minres):
        got, failed = solver(M, b, rtol=1e-10)
        assert failed == 0
        np.testing.assert_allclose(got, x, rtol=1e-7)
    np.testing.assert_allclose(spl.lsmr(M, b, atol=1e-12, btol=1e-12)[0], x, rtol=1e-7)
    w = np.linalg.eigvalsh(D.toarray())
    np.testing.assert_allclose(spl.eigsh(M, 2, v0=b)[0], w[-2:], rtol=1e-9)
    np.testing.assert_allclose(spl.svds(M, 2, v0=b)[1], w[-2:], rtol=1e-9)
    S = spl.aslinearoperator(M)
    assert S.dtype == np.float64 and S.shape == (N, N)
    np.testing.assert_allclose((S + spl.aslinearoperator(D)) @ b, 2 * (D @ b))
    np.testing.assert_allclose(S.H @ np.eye(N), D.toarray())


def test_products_by_name() -> None:
    M, X = ldiv.asarray(D), RNG.uniform(size=(N, 3))
    for got, expected in (
        (M.matvec(X[:, 0]), D @ X[:, 0]),
        (M.matvec(X[:, :1]), D @ X[:, :1]),
        (M.matmat(X), D @ X),
        (M.rmatvec(X[:, 0]), D.T @ X[:, 0]),
        (M.rmatmat(X), D.T @ X),
        (M.dot(X), D @ X),
        (M.adjoint() @ X, D.T @ X),
        (M.transpose() @ X, D.T @ X),
        (M.transpose(1, 0) @ X, D.T @ X),
        (M.transpose((-1, -2)) @ X, D.T @ X),
    ):
        assert got.shape == expected.shape
        np.testing.assert_allclose(got, expected)
    for axes in ((0, 1), ((0, 1),), (-2, -1), (0, 0), (3, 2), (1,)):
        with pytest.raises(ValueError, match="axes: expected"):
            M.transpose(*axes)


def test_tables() -> None:
    assert repr(T) == "<SparseArray (4, 5) float64, nnz=10 (50%), coo, torch>"
    assert str(A).splitlines() == [
        "SparseArray",
        "shape      (4, 5)",
        "nnz        8",
        "density    40%",
        "dtype      float64",
        "format     csr",
        "framework  numpy",
    ]
    assert "<td>torch</td>" in T._repr_html_()
    assert (
        "jax"
        in jax.jit(lambda v: (repr(made(values=v)), v)[0] and v)(jnp.ones(10)).__class__.__module__
    )
    assert repr(ldiv.coo_array((V[:0], ([], [])), (0, 0))).startswith("<SparseArray (0, 0)")
