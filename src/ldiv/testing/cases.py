"""The cases to test: those that every structure and rule file gives, in each dtype,
always the same numbers, whatever other files there are.
"""

from __future__ import annotations

from typing import Any
from zlib import crc32

import numpy as np

from ldiv.core.frameworks.folders import plugins
from ldiv.core.frameworks.trees import Tree, Trees, leaves, rebuild
from ldiv.core.rules.rule import Rule
from ldiv.core.rules.structure import Structure
from ldiv.engines.registry import engines, is_iterative

DTYPES = ("float64", "complex128")


class Draw:
    """Normal numbers of a shape, complex where asked."""

    def __init__(self, dtype: str, seed: int = 0) -> None:
        self.dtype, self.rng = np.dtype(dtype), np.random.default_rng(seed)

    def __call__(self, *shape: int) -> Any:
        x = self.rng.standard_normal(shape)
        if self.dtype.kind == "c":
            x = x + 1j * self.rng.standard_normal(shape)
        return x.astype(self.dtype)

    def like(self, tree: Tree) -> Tree:
        """Numbers for every leaf of a tree."""
        return rebuild(tree, [self(*leaf.shape) for leaf in leaves(tree)])


def found_structures(dtype: str) -> list[tuple[Structure, Tree]]:
    """(structure, parameters) of all structure files."""
    return [
        case for module in plugins("structure") for case in module.cases(_draw_of(module, dtype))
    ]


def found_rules(dtype: str) -> list[tuple[Rule, Trees]]:
    """(rule, arguments) of all rule files, on all structures."""
    return [
        case
        for module in plugins("rule")
        for case in module.cases(found_structures(dtype), _draw_of(module, dtype))
    ]


def _draw_of(module: Any, dtype: str) -> Draw:
    """Return the numbers of a file, whose seed is its name."""
    return Draw(dtype, crc32(module.__name__.encode()))


def found_solvers(dtype: str) -> list[tuple[str, Structure, Tree]]:
    """(engine, structure, parameters) for every engine that factors and every structure that it
    supports.
    """
    return [
        (name, structure, p)
        for structure, p in found_structures(dtype)
        for name, engine in engines().items()
        if not is_iterative(engine)
        and structure.may_be_regular
        and engine.supports(structure, np.dtype(dtype), "cpu", "gen") is None
    ]


def found_iterations(dtype: str) -> list[tuple[str, str, Structure, Tree]]:
    """(engine, assume_a, structure, parameters) for every engine that iterates and every
    structure that it supports.
    """
    return [
        (name, promise, structure, p)
        for structure, p in found_structures(dtype)
        if structure.may_be_regular
        for name, engine in engines().items()
        for promise in ["pos" if _definite(structure, p) else "gen"]
        if is_iterative(engine)
        and engine.supports(structure, np.dtype(dtype), "cpu", promise) is None
    ]


def _definite(structure: Structure, p: Tree) -> bool:
    a = structure.todense(p)
    return bool(
        np.allclose(a, np.conj(a.mT), rtol=1e-12, atol=0) and (np.linalg.eigvalsh(a) > 0).all()
    )
