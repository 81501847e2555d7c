"""Arguments that are no arrays: flags, numbers, names, functions and structures are refused by
name, whatever comes in their place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import ldiv

A, b = np.diag([1.0, 2.0, 3.0, 4.0]), np.ones(4)
S, t = ldiv.asarray(A), torch.ones(2, dtype=torch.float64)
FLAG, MANY = torch.tensor(True), np.array([True, False])
WHOLE: Any = 10**400
ANY: Any = ldiv

CALLS: dict[str, tuple[type[Exception], str, Callable[[], Any]]] = {
    "a tensor for lower": (
        TypeError,
        "lower: expected True or False, got Tensor",
        lambda: ANY.solve_triangular(A, b, lower=FLAG),
    ),
    "an array for lower": (
        TypeError,
        "lower: expected True or False",
        lambda: ANY.cholesky(A, lower=MANY),
    ),
    "2 for unit_diagonal": (
        TypeError,
        "unit_diagonal: expected True",
        lambda: ANY.solve_triangular(A, b, unit_diagonal=2),
    ),
    "a tensor for info": (
        TypeError,
        "info: expected True or False",
        lambda: ANY.solve(A, b, info=FLAG),
    ),
    "an array for hermitian": (
        TypeError,
        "hermitian: expected True",
        lambda: ANY.ldl(A, hermitian=MANY),
    ),
    "an array for assume_a": (
        ValueError,
        "assume_a: expected one of 'gen'",
        lambda: ANY.solve(A, b, assume_a=MANY),
    ),
    "an array for method": (
        ValueError,
        "method: expected one of",
        lambda: ANY.solve(A, b, method=MANY),
    ),
    "an array for trans": (
        ValueError,
        r"trans: expected 'N', 'T' or 'H'.+ got ndarray \(2,\)",
        lambda: ANY.solve(A, b, trans=MANY),
    ),
    "True for trans_a": (
        ValueError,
        "trans_a: expected 'N'",
        lambda: ANY.gemm(1.0, A, A, trans_a=True),
    ),
    "10^400 for rtol": (
        ValueError,
        r"rtol: expected a finite real number >= 0",
        lambda: ANY.solve(S, b, rtol=WHOLE),
    ),
    "infinity for rtol": (
        ValueError,
        r"rtol: expected a finite real number >= 0, got inf",
        lambda: ANY.solve(S, b, rtol=np.inf),
    ),
    "False for rtol": (
        ValueError,
        "rtol: expected a finite",
        lambda: ANY.gradient_error(b, S, b, rtol=False),
    ),
    "infinity for k": (
        ValueError,
        "k: expected a number of pairs from 1 to 4, got inf",
        lambda: ANY.eigsh(A, np.inf),
    ),
    "2^63 for a diagonal": (ValueError, "k: expected an integer", lambda: S.diagonal(2**63)),
    "2^63 rows": (ValueError, "m: expected an integer >= 0", lambda: ANY.eye_array(2**63)),
    "infinity for an offset": (
        ValueError,
        "offsets: expected an integer",
        lambda: ANY.diags_array([b], offsets=[np.inf]),
    ),
    "10^5000 for a scalar": (
        ValueError,
        "c \\* A: expected a finite number",
        lambda: ldiv.kron(A, A) * 10**5000,
    ),
    "a division by 0": (
        ValueError,
        "A / c: expected a number other than 0",
        lambda: ldiv.kron(A, A) / 0,
    ),
    "a meta tensor": (
        TypeError,
        "A: expected an array with values, got a tensor on the meta device",
        lambda: ANY.det(torch.eye(2, device="meta")),
    ),
    "a numpy.matrix": (
        TypeError,
        r"b: expected an array, got a numpy\.matrix",
        lambda: ANY.solve(A, b[:, None].view(np.matrix)),
    ),
    "words for v0": (
        TypeError,
        "v0: expected a NumPy, PyTorch or JAX array, got a list",
        lambda: ANY.svds(A, 1, v0=["a"] * 4),
    ),
    "a bad structure": (
        TypeError,
        "structure: expected one of ldiv.structures, got 'dense'",
        lambda: ANY.Matrix("dense", b),
    ),
    "a class of structures": (
        TypeError,
        "structure: .+ got the class Diagonal",
        lambda: ANY.Matrix(ldiv.structures.Diagonal, b),
    ),
    "parts that are none": (
        TypeError,
        "structure: expected one made of structures",
        lambda: ANY.Matrix(ldiv.structures.Sum(ANY.__all__), b),
    ),
    "near_nullspace of jacobi": (
        TypeError,
        "near_nullspace: expected no options of kind='jacobi'",
        lambda: ANY.preconditioner(S, "jacobi", near_nullspace=b),
    ),
    "near_nullspace of a shape": (
        ValueError,
        r"near_nullspace: expected shape \(4, q\)",
        lambda: ANY.preconditioner(S, "amg", near_nullspace=b),
    ),
    "explain with a short b": (
        ValueError,
        r"b: expected shape \(4,\) or",
        lambda: ANY.explain(A, b[:3]),
    ),
    "explain with words": (TypeError, "b: expected a NumPy", lambda: ANY.explain(A, "b")),
    "a dictionary for x_bar": (
        TypeError,
        "x_bar: expected a NumPy",
        lambda: ANY.gradient_error({}, S, b),
    ),
    "no eigenvalues": (
        ValueError,
        "A: expected a matrix with at least one row, got 0 x 0",
        lambda: ANY.eigsh(np.zeros((0, 0))),
    ),
    "no function": (TypeError, "f: expected a function", lambda: ANY.root(None, t, t)),
    "a method of SciPy's root": (
        ValueError,
        "got 'hybr'. It solves with the Jacobian",
        lambda: ANY.root(lambda x: x, t, method="hybr"),
    ),
    "no root": (
        ldiv.SingularMatrixError,
        "the Jacobian of f is singular .+ no root",
        lambda: ANY.root(lambda x, p: 0 * x + p, t, t),
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_refused(name: str) -> None:
    error, words, call = CALLS[name]
    with pytest.raises(error, match=words) as caught:
        call()
    assert caught.type is error


@pytest.mark.parametrize("flag", [True, np.True_])
def test_flags(flag: Any) -> None:
    np.testing.assert_array_equal(ldiv.solve_triangular(A, b, lower=flag), b / np.diag(A))


@pytest.mark.parametrize("k", [1, np.int8(1), np.array(1)])
def test_integers(k: Any) -> None:
    assert ldiv.eigsh(A, k)[0].shape == (1,)
    assert ldiv.eye_array(3, k=k).nnz == 2
