"""Laws of an engine that iterates, on a structure that it supports; r = b - op(A) x.

|r| <= max(rtol |b|, atol) in every column, for op in N, T, H, C;      a block, and a batch, is its columns one by one;
b = 0 has x = 0;      the solution depends on no preconditioner, no x0 and no scale of A and b;
too few steps raise ConvergenceError, which says how many and how far;      NaN is refused;      a singular matrix raises
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ldiv.core.frameworks.trees import Tree, leaves, rebuild
from ldiv.core.rules.structure import VIEWS, Structure, view_dense
from ldiv.engines.iterative.options import Options
from ldiv.engines.solver import solve
from ldiv.errors import ConvergenceError, NotPositiveDefiniteError
from ldiv.structures.dense import Dense
from ldiv.testing.cases import Draw
from ldiv.testing.distance import assert_close, raised

RTOL = 1e-11
TIGHT = Options(rtol=RTOL)


def iteration_laws(name: str, assume_a: str, structure: Structure, p: Tree) -> None:
    """Check every law of one engine on one structure."""
    dense = structure.todense(p)
    draw = Draw(dense.dtype.name, 6)
    b = draw(*dense.shape[:-1], 3)
    b[..., 1] = 0
    run = partial(_run, name, assume_a, structure, p)
    for op in VIEWS:
        x = run(b, op=op)
        r = np.linalg.norm(view_dense(dense, op) @ x - b, axis=-2)
        assert (r <= 2 * RTOL * np.linalg.norm(b, axis=-2)).all(), (
            f"|b - op(A) x| <= rtol |b| for op = {op}"
        )
    x, close = np.linalg.solve(dense, b), RTOL * 10 * np.linalg.cond(dense).max()
    assert_close(
        "columns one by one",
        run(b),
        np.concatenate([run(b[..., [j]]) for j in range(3)], axis=-1),
        close,
    )
    assert_close("a batch is its blocks", run(np.stack([b, 2 * b])), np.stack([x, 2 * x]), close)
    assert_close("a vanishing b", run(b)[..., 1], 0 * x[..., 1], 0)
    assert_close("the scale", run(1e200 * b) / 1e200, x, close)
    assert_close("the scale", run(1e-200 * b) / 1e-200, x, close)
    assert_close("no x0", run(b, Options(rtol=RTOL, start=True), draw(*b.shape)), x, close)
    _preconditioned(run, dense, b, x, close)
    _refuses(name, assume_a, structure, p, b)


def _run(
    name: str,
    assume_a: str,
    structure: Structure,
    p: Tree,
    b: Any,
    options: Options = TIGHT,
    *auxiliaries: Tree,
    op: str = "N",
) -> Any:
    return solve(structure.view(op), p, b, assume_a, name, options, auxiliaries)


def _preconditioned(run: Any, dense: Any, b: Any, x: Any, close: float) -> None:
    """Solve without a preconditioner, and with a matrix near (A A^H)^(-1/2), which is Hermitian
    positive definite as minres wants it.
    """
    u, s, _ = np.linalg.svd(dense)
    near = (u / (1.1 * s)[..., None, :]) @ np.conj(u.mT)
    n = dense.shape[-1]
    assert_close("no preconditioner", run(b, Options(rtol=RTOL, M=Dense(n, n)), near), x, close)


def _refuses(name: str, assume_a: str, structure: Structure, p: Tree, b: Any) -> None:
    run = partial(_run, name, assume_a, structure)
    error = raised(
        ConvergenceError, "too few steps", run, p, b, Options(rtol=0.0, maxiter=1, restart=1)
    )
    assert isinstance(error, ConvergenceError)
    assert error.iterations == 1 and error.residual is not None and error.residual > 0, (
        "a ConvergenceError says how many steps, and how far they led"
    )
    raised(ValueError, "NaN is refused", run, rebuild(p, [leaf * np.nan for leaf in leaves(p)]), b)
    raised(ValueError, "NaN is refused", run, p, b * np.nan)
    zero: Any = rebuild(p, [leaf * 0 for leaf in leaves(p)])
    if not structure.todense(zero).any():
        raised(
            (ConvergenceError, NotPositiveDefiniteError), "a singular matrix raises", run, zero, b
        )
