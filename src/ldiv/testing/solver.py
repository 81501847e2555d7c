"""Laws of an engine on a structure it supports.

solve(b, op) = op(S(p))^-1 b for op in N, T, H, many right-hand sides at once;      logabsdet() = log |det S(p)|;
two factorizations of one pattern analyze once;      a singular matrix raises SingularMatrixError;      NaN is refused
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ldiv.core.frameworks.trees import Tree, leaves, rebuild
from ldiv.core.rules.structure import Structure, view_dense
from ldiv.engines.factors import analyses
from ldiv.engines.factors.factorize import factorize_by
from ldiv.engines.registry import Engine, engines
from ldiv.errors import SingularMatrixError
from ldiv.testing.cases import Draw
from ldiv.testing.distance import assert_close, raised


def solver_laws(name: str, structure: Structure, p: Tree) -> None:
    """Check every law of one engine on one structure."""
    engine = engines()[name]
    if engine.ON_HOST:  # such an engine is given one matrix at a time
        p = rebuild(
            p,
            [
                leaf[(0,) * (leaf.ndim - own)]
                for leaf, own in zip(leaves(p), leaves(structure.core), strict=True)
            ],
        )
    dense = structure.todense(p)
    factor = factorize_by(engine, structure, p, "gen")
    b = Draw(dense.dtype.name, 4)(*dense.shape[:-1], 3)
    for op in "NTH":
        x = factor.solve(b, op)
        assert_close(f"op(A) solve(b, {op}) = b", view_dense(dense, op) @ x, b, 1e-11)
    assert_close("logabsdet", factor.logabsdet(), np.linalg.slogdet(dense)[1], 1e-11)
    if engine.analyze is not None:
        _analyses_once(engine, structure, p)
    _refuses(engine, structure, p)


def _analyses_once(engine: Any, structure: Any, p: Tree) -> None:
    calls: list[Structure] = []
    analyze = engine.analyze

    def counted(s: Structure) -> Any:
        calls.append(s)
        return analyze(s)

    fresh = replace(structure)
    analyses.forget()
    try:
        engine.analyze = counted
        for scale in (3.25, 4.5):
            factorize_by(engine, fresh, rebuild(p, [leaf * scale for leaf in leaves(p)]), "gen")
    finally:
        engine.analyze = analyze
    assert len(calls) == 1, f"one pattern is analysed once, not {len(calls)} times"


def _refuses(engine: Engine, structure: Structure, p: Tree) -> None:
    zero: Any = rebuild(p, [leaf * 0 for leaf in leaves(p)])
    # a unit diagonal is never singular
    if np.linalg.matrix_rank(structure.todense(zero)).max() < structure.shape[0]:
        raised(
            SingularMatrixError,
            "a singular matrix raises",
            factorize_by,
            engine,
            structure,
            zero,
            "gen",
        )
    raised(
        ValueError,
        "NaN is refused",
        factorize_by,
        engine,
        structure,
        rebuild(p, [leaf * np.nan for leaf in leaves(p)]),
        "gen",
    )
