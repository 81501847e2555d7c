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
    own, shared = make(arg, copy=True), make(arg)
    arg[0][0] = 7.0
    assert own.toarray()[0, 0] == 1.0
    assert shared.toarray()[0, 0] == 7.0
    with pytest.raises(TypeError, match="dtype: expected one of float32"):
        make(arg, dtype=int)
    with pytest.raises(TypeError, match="copy: expected True or False"):
        make(arg, copy="yes")
    t = torch.tensor([1.0, 2.0], requires_grad=True)
    make((t, *arg[1:]), dtype=torch.float64, copy=True).sum().backward()
    assert t.grad.tolist() == [1.0, 1.0]
