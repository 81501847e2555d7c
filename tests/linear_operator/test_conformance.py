"""linear_operator's own suite for operators, on those over matrices of ldiv."""

from __future__ import annotations

import unittest

import numpy as np
import pytest

import ldiv

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("linear_operator", reason="no linear_operator: pip install linear_operator")
from linear_operator.test.linear_operator_test_case import (  # noqa: E402
    LinearOperatorTestCase,
    RectangularLinearOperatorTestCase,
)

from ldiv.linear_operator import MatrixLinearOperator  # noqa: E402

# linear_operator's own, where it takes rows by interpolation
pytestmark = pytest.mark.filterwarnings("ignore:Sparse invariant checks")
N = 6
RING = np.arange(N), (np.arange(N) + 1) % N
AT = tuple(np.concatenate([RING[0], RING[i], RING[1 - i]]) for i in (0, 1))


def ring(*batch):
    """A ring of springs on a bed, of symmetric values that add up."""
    bed = 3 + torch.rand(*batch, N)
    springs = -torch.rand(*batch, N)
    return torch.cat([bed, springs, springs], -1).requires_grad_()


def dense(values):
    """The same matrix, written out."""
    out = torch.zeros(*values.shape[:-1], N * N, dtype=values.dtype)
    at = torch.as_tensor(AT[0] * N + AT[1])
    return out.index_add(-1, at, values).reshape(*values.shape[:-1], N, N)


class Symmetric(LinearOperatorTestCase):
    """A symmetric operator that ldiv solves: no iteration of linear_operator runs."""

    seed = 0
    should_call_cg = False

    def test_half(self):
        with pytest.raises(TypeError, match="float16"):
            self.create_linear_op().half()


class TestSparse(Symmetric, unittest.TestCase):
    def create_linear_op(self):
        return MatrixLinearOperator(ldiv.coo_array((ring(), AT), shape=(N, N)))

    def evaluate_linear_op(self, linear_op):
        return dense(linear_op._args[0])


class TestBatchOfSparse(TestSparse):
    def create_linear_op(self):
        return MatrixLinearOperator(ldiv.coo_array((ring(2), AT), shape=(N, N)))


class TestStructured(Symmetric, unittest.TestCase):
    """A Kronecker product of Gram matrices, which is solved by its parts."""

    def create_linear_op(self):
        factors = (torch.randn(k, k) + 2 * torch.eye(k) for k in (2, 3))
        return MatrixLinearOperator(ldiv.kron(*map(ldiv.Gram, factors))).requires_grad_(True)

    def evaluate_linear_op(self, linear_op):
        return torch.kron(*(low @ low.mT for low in map(torch.tril, linear_op._args)))


class TestRectangular(RectangularLinearOperatorTestCase, unittest.TestCase):
    seed = 0

    def create_linear_op(self):
        at = np.divmod(np.arange(0, 4 * N, 3), N)
        values = torch.randn(len(at[0])).requires_grad_()
        return MatrixLinearOperator(ldiv.coo_array((values, at), shape=(4, N)))

    def evaluate_linear_op(self, linear_op):
        at = torch.arange(0, 4 * N, 3)
        out = torch.zeros(4 * N, dtype=linear_op.dtype).index_put((at,), linear_op._args[0])
        return out.reshape(4, N)
