"""The surface of a matrix: which arrays and NumPy's functions work with it, and which objects count
as arrays and indices.
"""

import operator

import numpy as np
import pytest
import scipy.sparse as sp

import ldiv

torch = pytest.importorskip("torch")

EYE, ONES = np.eye(3), np.ones(3)
S = ldiv.eye_array(3)
D = ldiv.Matrix(ldiv.structures.Diagonal(3), ONES)
MASKED = np.ma.array(ONES, mask=[True, False, False])
MASKED_MATRIX = np.ma.array(2 * EYE, mask=EYE > 0)
FAR = 2**40  # FAR * FAR = 0 in 64 bits


def far(values, rows, cols, shape=(FAR, FAR)):
    return ldiv.coo_array((np.array(values), (rows, cols)), shape=shape)


def entries(A):
    return sorted(zip(A.row.tolist(), A.col.tolist(), A.data.tolist(), strict=True))


@pytest.mark.parametrize("shape", [(FAR, FAR), (2**63 - 1, 6), (2**31, 2**33)])
def test_positions_whose_numbers_overflow_stay_apart(shape):
    A = far([1.0, 2.0, 3.0, 4.0], [0, 2**24, 0, 2**24], [5, 5, 5, 4], shape)
    B = far([7.0, 8.0], [2**24, 1], [5, 5], shape)
    assert entries(A.sum_duplicates()) == [(0, 5, 4.0), (2**24, 4, 4.0), (2**24, 5, 2.0)]
    assert entries(A + B) == [(0, 5, 4.0), (1, 5, 8.0), (2**24, 4, 4.0), (2**24, 5, 9.0)]
    assert entries(A * B) == [(2**24, 5, 14.0)]
    assert entries((A.T + B.T).T) == entries(A + B)
    once = A.sum_duplicates()
    assert once.sum_duplicates() is once


def test_a_product_with_far_rows_and_columns():
    A, B = far([2.0, 3.0], [0, 2**24], [1, 1], (FAR, 2)), far([5.0], [1], [5], (2, FAR))
    assert entries(A @ B) == [(0, 5, 10.0), (2**24, 5, 15.0)]


BAD_INDICES = {
    "near 2^64": (
        ValueError,
        "indices up to",
        lambda: ldiv.coo_array((ONES[:1], (np.array([2**64 - 1], np.uint64), [0]))),
    ),
    "near 2^64, csr": (
        ValueError,
        "indices up to",
        lambda: ldiv.csr_array((ONES[:1], np.array([2**64 - 1], np.uint64), [0, 1])),
    ),
    "2^63 - 1 says the shape": (
        ValueError,
        "at most",
        lambda: ldiv.coo_array((ONES[:1], ([2**63 - 1], [0]))),
    ),
    "a shape of 2^63": (
        ValueError,
        "at most",
        lambda: ldiv.coo_array((ONES[:1], ([0], [0])), shape=(2**63, 1)),
    ),
    "beyond 2^64": (
        TypeError,
        "a vector of integers",
        lambda: ldiv.coo_array((ONES[:1], ([2**64], [0]))),
    ),
    "bools": (
        TypeError,
        "a vector of integers",
        lambda: ldiv.coo_array((ONES[:1], (np.array([True]), [0]))),
    ),
    "floats": (
        TypeError,
        "a vector of integers",
        lambda: ldiv.coo_array((ONES[:1], (np.array([1.0]), [0]))),
    ),
    "masked": (
        TypeError,
        "without a mask",
        lambda: ldiv.coo_array((ONES, (np.ma.array([0, 1, 2], mask=[0, 1, 0]), [0, 1, 2]))),
    ),
    "a small type that wraps around": (
        ValueError,
        "indptr",
        lambda: ldiv.csr_array((ONES[:2], [1, 0], np.array([0, 200, 2], np.uint8))),
    ),
    "an unsigned one": (
        ValueError,
        "indptr",
        lambda: ldiv.csr_array((ONES[:2], [1, 0], np.array([0, 5, 2], np.uint64))),
    ),
}


@pytest.mark.parametrize("name", BAD_INDICES)
def test_bad_indices(name):
    error, message, call = BAD_INDICES[name]
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize(
    "dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
)
def test_every_integer_type_is_an_index(dtype):
    A = ldiv.csr_array(
        (np.array([1.0, 2.0]), np.array([1, 0], dtype), np.array([0, 1, 2], dtype)), shape=(2, 2)
    )
    assert np.array_equal(A.toarray(), [[0, 1], [2, 0]])
    assert np.array_equal(
        ldiv.coo_array((ONES[:1], (np.array([100], dtype), np.array([100], dtype)))).shape,
        (101, 101),
    )


MASKS = {
    "A": lambda: ldiv.solve(MASKED_MATRIX, ONES),
    "b": lambda: ldiv.solve(EYE, MASKED),
    "x0": lambda: ldiv.solve(EYE, ONES, x0=MASKED, method="gmres"),
    "values": lambda: ldiv.coo_array((MASKED, ([0, 1, 2], [0, 1, 2]))),
    "diagonals": lambda: ldiv.diags_array([MASKED], offsets=[0]),
    "asarray": lambda: ldiv.asarray(MASKED_MATRIX),
    "A @ x": lambda: S @ MASKED,
    "x @ A": lambda: MASKED @ S,
    "A * x": lambda: S * MASKED,
    "x * A": lambda: MASKED * S,
    "A + B": lambda: D + MASKED_MATRIX,
    "a number": lambda: D * MASKED[0],
    "params": lambda: ldiv.Matrix(ldiv.structures.Diagonal(3), MASKED),
    "an operator": lambda: ldiv.LinearOperator(lambda p, x: p * x, MASKED, shape=(3, 3)),
    "v0": lambda: ldiv.eigsh(EYE, 1, v0=MASKED),
    "lu": lambda: ldiv.lu_factor(MASKED_MATRIX),
    "gemm": lambda: ldiv.gemm(1.0, MASKED_MATRIX, EYE),
    "vjp": lambda: ldiv.vjp(ldiv.solve, EYE, MASKED),
    "a cotangent": lambda: ldiv.vjp(ldiv.solve, EYE, ONES)[1](MASKED),
    "a tangent": lambda: ldiv.jvp(ldiv.solve, (EYE, ONES), (None, MASKED)),
    "a buffer": lambda: ldiv.Tape().copy(MASKED, np.zeros(3)),
    "a shadow": lambda: ldiv.Duplicated(np.zeros(3), MASKED),
    "a pattern": lambda: ldiv.jacobian(
        torch.sin, torch.ones(3), pattern=(np.ma.array([0, 1, 2], mask=[1, 0, 0]), [0, 1, 2])
    ),
    "torch": lambda: ldiv.solve(torch.eye(3, dtype=torch.float64), MASKED),
    "numpy.matrix": lambda: ldiv.solve(np.asmatrix(EYE), ONES),
    "A @ numpy.matrix": lambda: S @ np.asmatrix(EYE),
}


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
@pytest.mark.parametrize("name", MASKS)
def test_masked_arrays_and_numpy_matrices_are_refused(name):
    with pytest.raises(TypeError, match=r"mask|numpy\.matrix|Masked"):
        MASKS[name]()


@pytest.mark.parametrize(
    "A",
    [S, D, S.with_data(torch.ones(3, dtype=torch.float64))],
    ids=["sparse", "diagonal", "torch"],
)
@pytest.mark.parametrize(
    "f",
    [
        np.asarray,
        np.array,
        lambda A: np.array([A, A]),
        lambda A: np.dot(EYE, A),
        np.sqrt,
        np.allclose,
        np.linalg.inv,
    ],
)
def test_functions_of_numpy_do_not_take_a_matrix(f, A):
    with pytest.raises(TypeError, match=r"use ldiv's and the operators|ufunc"):
        f(*(A, EYE)[: 2 if f is np.allclose else 1])


OTHERS = (EYE, ONES, 2, 2.0, np.float64(2), np.array(2.0), S, D, torch.eye(3), sp.eye_array(3))


@pytest.mark.parametrize("other", OTHERS, ids=lambda x: type(x).__name__)
@pytest.mark.parametrize("compare", [operator.eq, operator.ne, operator.lt, operator.ge])
@pytest.mark.parametrize("A", [S, D], ids=["sparse", "diagonal"])
def test_matrices_are_not_compared(A, compare, other):
    for pair in ((A, other), (other, A)):
        with pytest.raises(TypeError, match=r"Compare their values|use ldiv's"):
            compare(*pair)


def test_a_matrix_is_hashed_and_found_by_what_it_is():
    assert S != None and S != "S" and not operator.eq(S, None)  # noqa: E711
    assert {S: 1, D: 2}[D] == 2
    assert S in (S, D)
    assert D in {S, D}


def test_operators_with_arrays_are_ours():
    two = np.full((3, 3), 2.0)
    for A in (S, S.H):
        for x in (two, np.float64(2), np.array(2.0), 2):
            assert np.array_equal((A * x).toarray(), 2 * EYE) and np.array_equal(
                (x * A).toarray(), 2 * EYE
            )
        assert (
            np.array_equal(A @ two, two)
            and np.array_equal(two @ A, two)
            and np.array_equal(ONES @ A, ONES)
        )
    assert np.array_equal((EYE + D) @ ONES, 2 * ONES) and np.array_equal((D - EYE) @ ONES, 0 * ONES)
    assert np.array_equal((S @ sp.eye_array(3)).toarray(), EYE)
    assert np.array_equal((sp.eye_array(3) + S).toarray(), 2 * EYE)
    assert np.array_equal((sp.eye_array(3) @ S).toarray(), EYE)


def test_the_first_wrong_steps_are_told_the_right_ones():
    with pytest.raises(AttributeError, match=r"A\.with_data\(values\)"):
        S.requires_grad_()
    twisted = ldiv.LinearOperator(lambda x, w: w[:, None] * x, ONES, shape=(3, 3))
    with pytest.raises(ValueError, match=r"matvec\(params, x\) takes the parameters, then"):
        twisted @ ONES
