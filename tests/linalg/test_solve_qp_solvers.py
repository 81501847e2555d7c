"""The choice of the solver of a program, and the cost of a wrong guess of its active rows."""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from programs import program

import ldiv
from ldiv.engines.libraries import clarabel, native, piqp, program_solvers
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
    dense = program(0, m=40)  # with more rows than compiled calls take
    box = {"P": sp.eye_array(12, format="csr"), "q": dense["q"], "lb": dense["lb"]}
    P = sp.diags_array([2.5 * np.ones(12), *[-np.ones(11)] * 2], offsets=[0, 1, -1])
    for p in (dense, _sparse(program(0)), box, box | {"P": P.tocsr()}):
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
    monkeypatch.setitem(program_solvers.SOLVERS, "piqp", guess)
    ldiv.clear_cache()
    x = ldiv.solve_qp(np.eye(8), q, lb=-1.0, ub=1.0, solver="piqp")
    assert np.allclose(x, -np.clip(q, -1, 1))
    assert ldiv.cache_info().factorizations == 3


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_definite_small_programs_need_no_solver(dtype: Any, monkeypatch: Any) -> None:
    """Equalities, rows that leave again on the way, bounds that meet, or say nothing; a batch, too."""
    if native.native is None:
        pytest.skip("ldiv is not compiled")
    given = [program(seed, n=8, k=2, m=9) for seed in range(40)]
    for p in given:
        p["ub"][0] = p["lb"][0] = ldiv.solve_qp(**p)[0] + 1e-2
        p["h"][0] = np.inf
    given = [{name: x.astype(dtype) for name, x in p.items()} for p in given]
    right = [ldiv.solve_qp(**p, solver="clarabel", full=True) for p in given]
    for package in ("clarabel", "piqp", "highspy"):
        if dtype == np.float64:  # half as many digits leave some programs in doubt
            monkeypatch.setitem(sys.modules, package, None)
    stacked = {name: np.stack([p[name] for p in given]) for name in given[0]}
    batch = ldiv.solve_qp(**stacked, full=True)
    assert batch.iterations.max() > 12  # more than rows are active: some left
    for i, (p, expected) in enumerate(zip(given, right, strict=True)):
        found = ldiv.solve_qp(**p, full=True)
        for name in ("x", "z", "z_box", "y"):
            close = partial(np.allclose, getattr(expected, name), atol=1e5 * np.finfo(dtype).eps)
            assert close(getattr(found, name))
            assert close(getattr(batch, name)[i])
        assert (found.active == expected.active).all()


def test_what_the_dual_method_does_not_solve_goes_on_to_a_solver() -> None:
    """Repeated rows, rows that contradict each other, and a P that is only semidefinite, beside others."""
    p = program(3, n=6, k=1, m=5)
    twice = p | {name: p[name].copy() for name in ("G", "h")}
    twice["G"][1], twice["h"][1] = twice["G"][0], twice["h"][0]
    flat = p | {"P": np.diag([1.0, 1, 1, 1, 1, 0])}
    open_row = p | {"h": np.array([np.inf, *p["h"][1:]])}
    linear = p | {"P": np.zeros((6, 6)), "ub": np.minimum(p["ub"], p["lb"] + 2)}
    given = p, twice, flat, open_row, linear, flat | {"h": open_row["h"]}
    stacked = {name: np.stack([x[name] for x in given]) for name in p}
    found = ldiv.solve_qp(**stacked)
    for x, own in zip(found, given, strict=True):
        assert np.allclose(x, ldiv.solve_qp(**own, solver="clarabel"))
    p["A"] = np.repeat(p["A"], 2, 0)
    with pytest.raises(ldiv.QuadraticProgramError, match="infeasible"):
        ldiv.solve_qp(**p | {"b": np.array([0.0, 1.0])})
