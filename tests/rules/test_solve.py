"""Value, tangent, cotangent and second derivative of a solve against 50-digit arithmetic."""

import mpmath
import numpy as np
import pytest

from ldiv.checker.inner import inner
from ldiv.core.frameworks.trees import leaves, rebuild
from ldiv.core.rules.rule import bind
from ldiv.rules.solve import Solve
from ldiv.structures.composed import Composed
from ldiv.testing import found_structures
from ldiv.testing.cases import DTYPES, Draw
from ldiv.testing.distance import assert_close

mpmath.mp.dps = 50
H = mpmath.mpf(10) ** -15


def _found():
    for dtype in DTYPES:
        for structure, p in found_structures(dtype):
            square = structure.shape[0] == structure.shape[1]
            # products of parameters: tests/matrices/test_compose.py
            affine = not isinstance(structure.unview()[0], Composed)
            if square and affine and structure.todense(p).ndim == 2:
                yield pytest.param(structure, p, id=f"{type(structure).__name__}-{dtype}")


def _exact(a):
    return mpmath.matrix(a.tolist())


def _array(m, dtype):
    return np.array(m.tolist(), dtype=object).astype(dtype).reshape(m.rows, m.cols)


class Exact:
    """x(t) = S(p + t dp)^-1 (b + t db), in 50 digits; S is affine in p."""

    def __init__(self, structure, p, b, dp, db):
        self.a, self.b, self.db = _exact(structure.todense(p)), _exact(b), _exact(db)
        moved = rebuild(p, [x + d for x, d in zip(leaves(p), leaves(dp), strict=True)])
        self.da = _exact(structure.todense(moved)) - self.a
        self.dtype = b.dtype

    def __call__(self, t):
        inverse = mpmath.inverse(self.a + t * self.da)
        return inverse * (self.b + t * self.db)

    def value(self):
        return _array(self(0), self.dtype)

    def tangent(self):
        return _array((self(H) - self(-H)) / (2 * H), self.dtype)

    def second(self):
        return _array((self(H) - 2 * self(0) + self(-H)) / H**2, self.dtype)


@pytest.mark.parametrize(("structure", "p"), list(_found()))
def test_value_tangent_and_cotangent(structure, p):
    draw = Draw(leaves(p)[0].dtype.name, 7)
    n = structure.shape[0]
    b, db, x_bar, dp = draw(n, 2), draw(n, 2), draw(n, 2), draw.like(p)
    exact, rule = Exact(structure, p, b, dp, db), Solve(structure)
    out = bind(rule, p, b)
    assert_close("value", out[0], exact.value(), 1e-12)
    dx = rule.jvp((dp, db), out, p, b)[0]
    assert_close("tangent", dx, exact.tangent(), 1e-12)
    p_bar, b_bar = rule.vjp((rebuild(p, [True for _ in leaves(p)]), True), (x_bar,), out, p, b)
    assert_close(
        "cotangent", inner(p_bar, dp) + inner(b_bar, db), inner(x_bar, exact.tangent()), 1e-12
    )


@pytest.mark.parametrize(("structure", "p"), list(_found()))
def test_second_derivative(structure, p):
    torch = pytest.importorskip("torch")
    draw = Draw(leaves(p)[0].dtype.name, 7)
    n = structure.shape[0]
    b, db, dp = draw(n, 2), draw(n, 2), draw.like(p)

    def along(t):
        moved = rebuild(
            p,
            [
                torch.asarray(x) + t * torch.asarray(d)
                for x, d in zip(leaves(p), leaves(dp), strict=True)
            ],
        )
        return bind(Solve(structure), moved, torch.asarray(b) + t * torch.asarray(db))[0]

    def tangent(t):
        return torch.func.jvp(along, (t,), (torch.ones_like(t),))[1]

    zero = torch.zeros((), dtype=torch.float64)
    second = torch.func.jvp(tangent, (zero,), (torch.ones_like(zero),))[1]
    assert_close(
        "second derivative", second.numpy(), Exact(structure, p, b, dp, db).second(), 1e-12
    )
