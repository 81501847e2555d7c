"""The task of every benchmark in PyTorch: x = A^-1 b, and the gradient of c . x in the values of
A and in b.
"""

from __future__ import annotations

from typing import Any

import torch

import ldiv

torch.set_num_threads(1)


def array(a: Any) -> ldiv.SparseArray:
    """A SciPy matrix in compressed columns as a SparseArray of torch values."""
    return ldiv.csc_array((torch.from_numpy(a.data), a.indices, a.indptr), shape=a.shape)


def value_and_gradient(
    A: ldiv.SparseArray, values: Any, b: Any, c: Any, assume_a: str = "gen", method: str = "superlu"
) -> tuple[Any, Any, Any]:
    """(x, gradient in the values, gradient in b), c the cotangent of x; A gives the pattern; the
    engine is SuperLU, that of the peers written by hand, unless another one is named.
    """
    values, b = values.detach().requires_grad_(), b.detach().requires_grad_()
    x = ldiv.solve(A.with_data(values), b, assume_a=assume_a, method=method)
    return (x.detach(), *torch.autograd.grad(x, (values, b), c))
