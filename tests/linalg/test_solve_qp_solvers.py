"""The choice of the solver of a program, and the cost of a wrong guess of its active rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from programs import program

import ldiv
from ldiv.engines.libraries import clarabel, piqp
from ldiv.engines.libraries.program import Found

pytest.importorskip("clarabel")
pytest.importorskip("piqp")


def _sparse(p: dict[str, Any]) -> dict[str, Any]:
    """The same without the small entries of its matrices."""
    few = {name: sp.csr_array(np.where(abs(p[name]) > 1, p[name], 0)) for name in "GA"}
    return {**p, **few, "P": sp.eye_array(len(p["q"]), format="csr")}


def test_dense_programs_go_to_a_dense_solver(monkeypatch: Any) -> None:
    asked = []
    for solver in (clarabel, piqp):
        name, solve = solver.__name__.split(".")[-1], solver.solve
        monkeypatch.setattr(
            solver, "solve", lambda p, s=solve, n=name: asked.append((n, p.is_dense)) or s(p)
        )
    dense = program(0)
    box = {"P": sp.eye_array(12, format="csr"), "q": dense["q"], "lb": dense["lb"]}
    P = sp.diags_array([2.5 * np.ones(12), *[-np.ones(11)] * 2], offsets=[0, 1, -1])
    for p in (dense, _sparse(dense), box, box | {"P": P.tocsr()}):
        ldiv.solve_qp(**p)
    assert asked == [("piqp", True), ("clarabel", False), *[("piqp", False)] * 2]


def test_what_piqp_does_not_solve_goes_on_to_clarabel() -> None:
    """The certificate has eight digits."""
    G, h = np.array([[1.0, 0.5], [-2.0, -1.0]]), np.array([-1.0, 1.0])
    with pytest.raises(ldiv.QuadraticProgramError, match="infeasible") as found:
        ldiv.solve_qp(np.eye(2) + 1, np.ones(2), G, h)
    y = found.value.certificate
    assert (y >= 0).all() and h @ y < 0
    assert abs(G.T @ y).max() < 1e-8 * y.max()


def test_exchanges_factor_once_each(monkeypatch: Any) -> None:
    """P, the rows as they were guessed, and the rows that hold."""
    q = np.linspace(-2, 2, 8)

    def guess(p: Any) -> Found:
        found = right(p)
        found.active[np.flatnonzero(found.active)[:2]] = False
        return found

    right = piqp.solve
    monkeypatch.setattr(piqp, "solve", guess)
    ldiv.clear_cache()
    assert np.allclose(ldiv.solve_qp(np.eye(8), q, lb=-1.0, ub=1.0), -np.clip(q, -1, 1))
    assert ldiv.cache_info().factorizations == 3
