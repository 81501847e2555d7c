"""No engine keeps a pointer into the caller's memory: what is changed in place after a call
changes no answer for the old values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import ldiv
from ldiv.core.frameworks.dispatch import asnumpy
from ldiv.engines.libraries import mkl_pardiso, native
from ldiv.engines.registry import engines

N = 6
ABSENT = {
    *(["pardiso"] if mkl_pardiso.path() is None else []),
    *(["lu", "ldl", "cholesky", "fronts"] if native.native is None else []),
    "cudss",  # wants arrays on a CUDA device: `direct/test_cudss.py`
}
POSITIVE = sp.diags_array(
    [-np.ones(N - 1), np.arange(4.0, 4 + N), -np.ones(N - 1)], offsets=[-1, 0, 1]
)
_I, _BORDER = np.arange(N - 1), np.full(N - 1, N - 1)
# the Laplacian of a ring, bordered by a column and a row of ones
RING = ldiv.core.frameworks.pattern.Pattern(
    np.r_[np.repeat(_I, 3), _I, _BORDER],
    np.r_[np.stack([_I, (_I + 1) % (N - 1), _I - 1], 1).ravel() % (N - 1), _BORDER, _I],
    (N, N),
)

Make = Callable[[Any], Any]
Function = Callable[[Any, Any, str, str], Any]  # of A, b, assume_a, method


def values(dtype: str) -> dict[str, tuple[Any, Make]]:
    """The values for each kind of matrix, in the order in which an engine may take them as they
    are, and the matrix of them.
    """
    a = POSITIVE.tocsc().astype(dtype)
    if a.dtype.kind == "c":
        rows, cols = a.nonzero()
        a.data = a.data * np.exp(0.3j * np.sign(rows - cols))  # Hermitian
    triangle, low = sp.tril(a).tocsc(), np.full((N, 1), 0.5, dtype)
    band = np.stack([np.r_[0, a.diagonal(1)], a.diagonal(0), np.r_[a.diagonal(-1), 0]])
    diagonal = a.diagonal(0).copy()
    matrix, sparse = ldiv.Matrix, ldiv.structures
    return {
        "csc": (a.data, lambda v: ldiv.csc_array((v, a.indices, a.indptr), shape=a.shape)),
        "coo": (
            a.data,
            lambda v: ldiv.coo_array((v, (a.tocoo().row, a.tocoo().col)), shape=a.shape),
        ),
        "triangle": (
            triangle.data,
            lambda v: ldiv.csc_array((v, triangle.indices, triangle.indptr), shape=a.shape),
        ),
        "diagonal": (diagonal, lambda v: matrix(sparse.Diagonal(N), v)),
        "dense": (a.toarray(), lambda v: v),
        "toeplitz": (
            np.r_[np.zeros(N - 2), 1, 4, 1, np.zeros(N - 2)].astype(dtype),
            lambda v: matrix(sparse.Toeplitz(N, N), v),
        ),
        "circulant": (
            np.r_[4, 1, np.zeros(N - 2)].astype(dtype),
            lambda v: matrix(sparse.Circulant(N), v),
        ),
        "bordered": (
            np.r_[np.tile(np.array([2, -1, -1], dtype), N - 1), np.ones(2 * N - 2, dtype)],
            lambda v: matrix(sparse.Bordered(RING, 1), v),
        ),
        "kronecker sum": (
            a.toarray(),
            lambda v: matrix(
                sparse.KroneckerSum((sparse.Dense(N, N), sparse.Dense(2, 2))),
                (v, like(np.eye(2, dtype=dtype), v)),
            ),
        ),
        "stein": (
            a.toarray(),
            lambda v: matrix(
                sparse.Stein((sparse.Dense(N, N), sparse.Dense(2, 2))),
                (v, like(np.eye(2, dtype=dtype), v)),
            ),
        ),
        "banded": (band, lambda v: matrix(sparse.Banded(1, 1, N), v)),
        "kron": (
            a.data,
            lambda v: ldiv.kron(
                ldiv.csc_array((v, a.indices, a.indptr), shape=a.shape),
                like(np.eye(2, dtype=dtype), v),
            ),
        ),
        "shifted": (
            a.toarray(),
            lambda v: ldiv.kron(v, like(np.eye(2, dtype=dtype), v), shift=0.5),
        ),
        "placed": (
            a.data,
            lambda v: matrix(
                sparse.Placed((N, N), a.nnz),
                (v, *(like(i.astype(float), v.real) for i in (a.indices, a.tocoo().col))),
            ),
        ),
        "low rank": (
            a.data,
            lambda v: (
                ldiv.csc_array((v, a.indices, a.indptr), shape=a.shape)
                + ldiv.LowRank(like(low, v), like(low, v))
            ),
        ),
    }


def like(x: Any, v: Any) -> Any:
    """x in the framework of v."""
    return x if isinstance(v, np.ndarray) else v.new_tensor(x)


FUNCTIONS: dict[str, Function] = {
    "solve": lambda A, b, kind, method: ldiv.solve(A, b, assume_a=kind, method=method),
    "adjoint": lambda A, b, kind, method: ldiv.solve(A, b, assume_a=kind, method=method, trans="H"),
    "factorized": lambda A, b, kind, method: ldiv.factorized(A, assume_a=kind, method=method).solve(
        b
    ),
    "logabsdet": lambda A, b, kind, method: ldiv.factorized(
        A, assume_a=kind, method=method
    ).logabsdet(),
    "quad_form": lambda A, b, kind, method: ldiv.quad_form(A, b, assume_a=kind, method=method),
    "preconditioner": lambda A, b, kind, method: (
        ldiv.factorized(A, assume_a=kind, method=method).inverse @ b
    ),
}
ENGINES = [  # engine, matrix, promises
    ("pardiso", "csc", ("gen", "sym", "pos")),
    ("pardiso", "coo", ("gen", "sym", "pos")),
    ("ldl", "csc", ("sym",)),
    ("lu", "csc", ("gen", "sym")),
    ("cholesky", "csc", ("pos",)),
    ("fronts", "csc", ("pos",)),
    ("cudss", "csc", ("gen", "sym", "pos")),
    ("superlu", "csc", ("gen", "sym", "pos")),
    ("superlu", "coo", ("gen", "sym", "pos")),
    ("superlu", "triangle", ("gen",)),
    ("lapack", "dense", ("gen", "sym", "pos", "lower triangular", "diagonal")),
    ("banded", "banded", ("gen",)),
    ("levinson", "toeplitz", ("gen",)),
    ("circulant", "circulant", ("gen",)),
    ("bartels_stewart", "kronecker sum", ("gen",)),
    ("stein", "stein", ("gen",)),
    ("division", "diagonal", ("gen",)),
    ("composed", "kron", ("gen",)),
    ("woodbury", "low rank", ("gen",)),
    ("grounded", "bordered", ("gen", "sym")),
    ("placed", "placed", ("gen", "pos")),
    ("kronecker_eigenpairs", "shifted", ("gen",)),
    ("auto", "csc", ("gen", "sym", "pos")),
]


def frameworks() -> list[str]:
    return ["numpy", "torch"]


def taken(framework: str, x: Any) -> Any:
    """The array in a framework, on the same memory."""
    return x if framework == "numpy" else pytest.importorskip("torch").from_numpy(x)


def test_every_engine_that_factors_is_here() -> None:
    factoring = {
        name for name, engine in engines().items() if not ldiv.engines.registry.is_iterative(engine)
    }
    # by a promise on a dense matrix
    assert factoring - {"substitution"} == {engine for engine, *_ in ENGINES} - {"auto"}


@pytest.mark.parametrize("framework", frameworks())
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize(
    ("engine", "matrix", "promises"), ENGINES, ids=lambda x: x if isinstance(x, str) else ""
)
def test_changed_in_place(
    engine: str, matrix: str, promises: tuple[str, ...], dtype: str, framework: str
) -> None:
    if engine in ABSENT:
        pytest.skip(f"{engine} is not installed")
    buffer, make = values(dtype)[matrix]
    old = np.ascontiguousarray(buffer)
    b = taken(
        framework,
        np.arange(
            1.0, 1 + N * (2 if matrix in ("kron", "shifted", "kronecker sum", "stein") else 1)
        ).astype(dtype),
    )
    for kind in promises:
        if kind == "sym" and dtype.startswith("complex"):
            continue  # it is Hermitian
        method = "auto" if engine == "auto" or kind in ("lower triangular", "diagonal") else engine
        for name, f in FUNCTIONS.items():
            ldiv.clear_cache()
            own = old.copy()
            before = asnumpy(f(make(taken(framework, own)), b, kind, method)).copy()
            for change in (1.01, 1.5, -1.0):
                own *= change
                again = asnumpy(f(make(taken(framework, old.copy())), b, kind, method))
                np.testing.assert_allclose(
                    again, before, rtol=1e-13, err_msg=f"{name}, assume_a={kind!r}, times {change}"
                )
            if name == "solve":
                np.testing.assert_allclose(
                    before,
                    np.linalg.solve(dense(make(taken("numpy", old)), kind), asnumpy(b)),
                    rtol=1e-10,
                )


def dense(A: Any, kind: str) -> Any:
    matrix = ldiv.asarray(A) if isinstance(A, np.ndarray) else A
    a = matrix.structure.todense(matrix.params) if not isinstance(A, np.ndarray) else A
    return {"lower triangular": np.tril, "diagonal": lambda x: np.diag(np.diag(x))}.get(
        kind, lambda x: x
    )(a)


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_of_functions_that_factor_inside(dtype: str) -> None:
    """Logarithm of the determinant, eigenpairs by shift and inversion, multigrid, a view of a
    larger buffer.
    """
    buffer, make = values(dtype)["csc"]
    old = np.ascontiguousarray(buffer)
    inside: dict[str, Callable[[Any], Any]] = {
        "logdet": lambda A: ldiv.logdet(A, assume_a="pos"),
        "eigsh": lambda A: ldiv.eigsh(A, k=2, sigma=0.5)[0],
        "view": lambda A: ldiv.solve(A, np.ones(N, dtype), assume_a="pos"),
    }
    for name, f in inside.items():
        ldiv.clear_cache()
        room = np.concatenate([old, old])
        own = room[len(old) :]
        before = f(make(own))
        room *= 1.5
        np.testing.assert_allclose(f(make(old.copy())), before, rtol=1e-10, err_msg=name)


def test_multigrid() -> None:
    pytest.importorskip("pyamg")
    a = sp.diags_array(
        [-np.ones(59), 2.5 * np.ones(60), -2 * np.ones(59)], offsets=[-1, 0, 1]
    ).tocsc()
    make = lambda v: ldiv.csc_array((v, a.indices, a.indptr), shape=a.shape)
    own, b = a.data.copy(), np.ones(60)
    for view in (lambda A: A, lambda A: A.T):
        before = ldiv.preconditioner(view(make(own)), "amg") @ b
        own *= 1.5
        np.testing.assert_allclose(
            ldiv.preconditioner(view(make(a.data.copy())), "amg") @ b, before, rtol=1e-12
        )
        own[:] = a.data
        ldiv.clear_cache()


def test_a_determinant_is_of_accurate_factors() -> None:
    """The factor that is found again is looked at, too: one that went wrong in memory says so."""
    a = POSITIVE.tocsc()
    A = ldiv.asarray(a)
    F = ldiv.factorized(A, assume_a="pos", method="superlu")
    before = float(F.logabsdet())
    (factored,) = F._holder._kept.values()
    factor = factored.factor.factors[0]
    factor._made[-1]._m.values *= 1.5
    with pytest.raises(ldiv.SingularMatrixError, match="factors with a backward error"):
        factor._made[-1].logabsdet()
    # by a more careful factorization of the values, which it owns
    assert np.isclose(float(F.logabsdet()), before)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_pivots_leave_no_triangles(dtype: str) -> None:
    """SuperLU's pivots are read for a determinant, and where definiteness was promised; copies
    of L and U are not kept for it.
    """
    rng = np.random.default_rng(0)
    a = sp.random_array((60, 60), density=0.1, rng=rng).astype(dtype) + 5 * sp.eye_array(
        60, dtype=dtype
    )
    a.data *= np.exp(1j * rng.random(a.nnz)).astype(dtype) if dtype.startswith("complex") else 1
    h = sp.csc_array(a @ a.conj().T)
    assert not (2 * abs(h.diagonal()) >= abs(h).sum(axis=0)).all()
    F = ldiv.factorized(ldiv.asarray(h), assume_a="pos", method="superlu")
    expected = np.linalg.slogdet(h.toarray())[1]
    assert np.isclose(float(F.logabsdet()), expected, rtol=1e3 * np.finfo(dtype).eps)
    (factored,) = F._holder._kept.values()
    assert factored.factor.factors[0]._made[-1]._factor._lu.U.shape == (60,)
    with pytest.raises(ldiv.NotPositiveDefiniteError, match="a pivot of"):
        ldiv.factorized(
            ldiv.asarray(sp.csc_array(h - 20 * sp.eye_array(60, dtype=dtype))),
            assume_a="pos",
            method="superlu",
        )
