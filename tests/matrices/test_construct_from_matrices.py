"""`coo_array(x)`, `csr_array(x)`, `csc_array(x)` of another matrix, as in SciPy."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import ldiv

torch = pytest.importorskip("torch")

A = np.array([[4.0, 0.0, 1.0], [0.0, 3.0, 0.0]])


@pytest.mark.parametrize("name", ["coo", "csr", "csc"])
@pytest.mark.parametrize(
    "x",
    [A, A.tolist(), sp.csr_array(A), sp.csc_matrix(A), sp.dia_array(A), ldiv.asarray(A)],
    ids=["dense", "lists", "csr", "csc matrix", "dia", "own"],
)
def test_another_matrix_is_converted(name, x):
    made = getattr(ldiv, f"{name}_array")(x)
    assert made.format == name
    assert np.array_equal(made.toarray(), A)
    assert getattr(ldiv, f"{name}_array")(x, shape=(2, 3)).shape == (2, 3)


def test_lists_are_rows_as_in_scipy():
    rows = [[5.0, 1.0], [0.0, 1.0], [0.0, 2.0]]
    assert np.array_equal(ldiv.csr_array(rows).toarray(), sp.csr_array(rows).toarray())


def test_a_tensor_keeps_its_gradient():
    a = torch.tensor(A, requires_grad=True)
    ldiv.csr_array(a).sum().backward()
    assert torch.equal(a.grad, torch.ones(2, 3, dtype=torch.float64))


def test_a_shape_that_is_another_is_refused():
    with pytest.raises(ValueError, match=r"shape: expected \(rows, columns\)"):
        ldiv.csr_array(np.ones((2, 3)), shape=3)
    with pytest.raises(ValueError, match=r"shape: expected that of the matrix, \(2, 3\)"):
        ldiv.csr_array(A, shape=(3, 3))


def test_diagonals_of_numbers_and_lists_are_those_of_scipy():
    for diagonals, options in (
        ([1.0, -2.0, 1.0], {"offsets": [-1, 0, 1], "shape": (4, 4)}),
        ([1.0, 2.0, 3.0], {}),
        ([[1.0, 2.0, 3.0], [4.0, 5.0]], {"offsets": [0, 1]}),
        ([1.0, 2.0, 3.0], {"offsets": 1}),
    ):
        made = ldiv.diags_array(diagonals, **options).toarray()
        assert np.array_equal(made, sp.diags_array(diagonals, **options).toarray())


def test_numbers_beside_a_tensor_are_constants():
    t = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    A = ldiv.diags_array([t, -1.0, [4.0, 5.0]], offsets=[0, 1, -1], shape=(3, 3))
    A.sum().backward()
    assert torch.equal(t.grad, torch.ones(3))
    assert np.array_equal(np.diag(A.detach().toarray().numpy(), -1), [4.0, 5.0])


@pytest.mark.parametrize("name", ["coo", "csr", "csc"])
def test_values_and_coordinates_go_into_every_format(name):
    values, at = np.array([1.0, 2.0, 3.0, 4.0]), ([0, 1, 1, 0], [2, 0, 0, 1])  # one twice
    make, theirs = getattr(ldiv, f"{name}_array"), getattr(sp, f"{name}_array")
    for where in (at, np.array(at)):
        made, wanted = make((values, where), shape=(2, 4)), theirs((values, at), shape=(2, 4))
        assert (made.format, made.nnz) == (name, wanted.nnz)
        assert np.array_equal(made.toarray(), wanted.toarray())
        assert make((values, where)).shape == (2, 3)
    t = torch.tensor(values, requires_grad=True)
    make((t, at), shape=(2, 4)).toarray()[1, 0].backward()
    assert t.grad.tolist() == [0.0, 1.0, 1.0, 0.0]
    for wrong in ((values, [0, 1, 1, 0]), (values,), (values, at, at, at)):
        with pytest.raises(TypeError, match="expected"):
            make(wrong)


@pytest.mark.parametrize("name", ["coo", "csr", "csc"])
def test_dtype_and_copy_of_the_values(name):
    make = getattr(ldiv, f"{name}_array")
    compressed = (np.array([1.0, 2.0]), [0, 1], [0, 1, 2])
    arg = (compressed[0], ([0, 1], [0, 1])) if name == "coo" else compressed
    for given in (arg, A, sp.csr_array(A), torch.tensor(A)):
        for dtype in ("float32", np.float32, np.complex128):
            made = make(given, dtype=dtype)
            assert str(made.dtype).rpartition(".")[2] == np.dtype(dtype).name
            assert np.array_equal(made.toarray(), make(given).toarray())
    numbers, *at = arg
    foreign, tensor = torch.from_numpy(numbers.copy()), torch.tensor(numbers)
    leaf = torch.tensor(numbers, requires_grad=True)
    for values, follows in ((numbers, False), (foreign, False), (tensor, True), (leaf, True)):
        own, shared = make((values, *at), copy=True), make((values, *at))
        again = shared.with_data(values)
        with torch.no_grad():
            values[0] = 7.0
        assert own.toarray()[0, 0] == 1.0
        assert shared.toarray()[0, 0] == again.toarray()[0, 0] == (7.0 if follows else 1.0)
    with pytest.raises(TypeError, match="dtype: expected one of float32"):
        make(arg, dtype=int)
    with pytest.raises(TypeError, match="copy: expected True or False"):
        make(arg, copy="yes")
    t = torch.tensor([1.0, 2.0], requires_grad=True)
    make((t, *arg[1:]), dtype=torch.float64, copy=True).sum().backward()
    assert t.grad.tolist() == [1.0, 1.0]


DENSE_AXES = {
    "rows of numbers": lambda v: torch.sparse_coo_tensor([[0, 1, 2]], v, (3, 3)),
    "one dense matrix": lambda v: torch.sparse_coo_tensor(
        torch.zeros((0, 1), dtype=torch.int64), v[None], (3, 3)
    ),
    "a vector for each entry": lambda v: torch.sparse_coo_tensor(
        [[0, 1, 2], [0, 1, 2]], v, (3, 3, 3)
    ),
    "csr": lambda v: torch.sparse_csr_tensor([0, 1, 2, 3], [0, 1, 2], v, (3, 3, 3)),
}


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("name", DENSE_AXES)
def test_tensors_with_dense_axes_are_refused(name):
    x = DENSE_AXES[name](torch.eye(3))
    b = torch.ones(3)
    for f in (ldiv.asarray, ldiv.logdet, ldiv.kron, lambda x, b=b: ldiv.solve(x, b)):
        with pytest.raises(ValueError, match=r"expected a matrix of numbers, got \d sparse and"):
            f(*((x, x) if f is ldiv.kron else (x,)))


@pytest.mark.parametrize("dtype", [">i4", ">i8", ">u2", "<u4", ">u8", "i2"])
def test_indices_of_every_integer_dtype(dtype):
    """Indices and values may have either byte order, wherever there are indices."""
    S = sp.coo_array(np.where(np.eye(4) + np.eye(4, k=1) > 0, np.arange(16.0).reshape(4, 4), 0))
    D, v, (i, j) = S.toarray(), S.data.astype(">f8"), (x.astype(dtype) for x in S.coords)
    R = S.tocsr()
    compressed = v, R.indices.astype(dtype), R.indptr.astype(dtype)
    given = [ldiv.coo_array((v, (i, j))), ldiv.coo_array((v, np.stack([i, j])))]
    given += [ldiv.csr_array(compressed), ldiv.csc_array(compressed).T]
    R.indices, R.indptr, S.coords = *compressed[1:], (i, j)
    for A in (*given, ldiv.asarray(R), ldiv.asarray(S), given[0].with_data(v)):
        np.testing.assert_array_equal(A.toarray(), D)
    A, at = given[0], np.array([2, 0, 1]).astype(dtype)
    np.testing.assert_array_equal(A[at][:, at].toarray(), D[np.ix_([2, 0, 1], [2, 0, 1])])
    np.testing.assert_array_equal(A[at, at], D[[2, 0, 1], [2, 0, 1]])
    lu, exchanges = ldiv.lu_factor(D + np.eye(4))
    x = ldiv.lu_solve((lu, exchanges.astype(dtype)), np.ones(4))
    np.testing.assert_allclose(x, np.linalg.solve(D + np.eye(4), np.ones(4)))
