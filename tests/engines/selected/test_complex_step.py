"""The derivatives of log |det A| of real matrices, against complex steps on dense ones.

    d/dh log det(A + i h E) = i tr(A^-1 E),    d/dh tr((A + i h F)^-1 E) = -i tr(A^-1 F A^-1 E)

nothing is subtracted, so that h = 1e-30 gives all digits. The directions scale the entries of A,
which makes both numbers those of the equilibrated matrix: that one is inverted.
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import ldiv
from ldiv.core.frameworks.pattern import Pattern
from ldiv.engines.accuracy.equilibration import Layout, equilibrated

torch = pytest.importorskip("torch")
H = 1e-30


def kkt(h):
    """A saddle point: h is the Hessian, and there are 60 constraints of four unknowns each."""
    rng = np.random.default_rng(0)
    rows, columns = np.repeat(np.arange(60), 4), rng.integers(0, h.shape[0], 240)
    scale = abs(h).max()
    j = sp.csc_array((scale * rng.standard_normal(240), (rows, columns)), (60, h.shape[0]))
    return sp.csc_array(sp.block_array([[h, j.T], [j, None]]))


# the matrix, the assumption, and at least ten times the error that is seen
CASES = [
    ("494_bus", "pos", 1e-12),
    pytest.param("mhd1280b", "pos", 1e-12, marks=pytest.mark.exhaustive),
    pytest.param("bcsstk13", "pos", 1e-12, marks=pytest.mark.exhaustive),
    ("494_bus", "gen", 1e-12),
    ("west0479", "gen", 1e-12),
    pytest.param("watt_2", "gen", 1e-12, marks=pytest.mark.exhaustive),
    ("KKT", "gen", 1e-12),
]


@pytest.mark.parametrize(("name", "assume_a", "tolerance"), CASES)
def test_against_complex_steps(real_matrix, name, assume_a, tolerance):
    a = kkt(real_matrix("494_bus")) if name == "KKT" else real_matrix(name)
    a = sp.coo_array(a.real if a.dtype.kind == "c" else a)
    weights = [1 + np.cos(k * (a.row + a.col) + k * a.row * a.col) / 2 for k in (1.0, 2.0)]

    v = torch.tensor(a.data, requires_grad=True)
    matrix = ldiv.coo_array((v, (a.row, a.col)), shape=a.shape)
    size = ldiv.logdet(matrix, assume_a="pos") if assume_a == "pos" else ldiv.slogdet(matrix)[1]
    e, f = (v.detach() * torch.from_numpy(w) for w in weights)
    (g,) = torch.autograd.grad(size, v, create_graph=True)
    (h,) = torch.autograd.grad(g @ e, v)
    first, second = float((g @ e).detach()), float(h @ f)

    pattern = Pattern(a.row, a.col, a.shape)
    _, (r, c) = equilibrated(Layout(pattern), pattern.slot_values(a.data))
    dense = r[:, None] * a.toarray() * c
    directions = [
        r[:, None] * sp.coo_array((a.data * w, (a.row, a.col)), a.shape).toarray() * c
        for w in weights
    ]
    sign, _ = np.linalg.slogdet(dense + 1j * H * directions[0])
    exact = (sign / np.sign(sign.real)).imag / H
    turned = np.linalg.inv(dense + 1j * H * directions[1])
    inverse, moved = turned.real, turned.imag / H
    # by the size of what is added up
    assert abs(first - exact) < tolerance * abs(inverse.T * directions[0]).sum()
    parts = moved.T * directions[0]
    assert abs(second - parts.sum()) < tolerance * abs(parts).sum()
