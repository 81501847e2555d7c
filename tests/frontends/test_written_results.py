"""PyTorch: a result in a graph may be written to, vectors and eigenvalues too."""

import numpy as np
import pytest

import ldiv

torch = pytest.importorskip("torch")
A = np.array([[4.0, 1.0], [1.0, 3.0]])
FUNCTIONS = [
    lambda a: ldiv.solve(a, a[0]),
    lambda a: ldiv.solve(ldiv.asarray(a), a[0]),
    lambda a: ldiv.eigh((a + a.mT) / 2)[0],
]


@pytest.mark.parametrize("f", FUNCTIONS)
def test_a_result_in_a_graph_may_be_written_to(f):
    a = torch.tensor(A, requires_grad=True)
    y = f(a)
    y += 1
    assert torch.equal(y, f(a) + 1)
