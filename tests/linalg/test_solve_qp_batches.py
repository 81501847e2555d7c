"""Batches of quadratic programs, vmap and jit agree with one program at a time; one factorization."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from programs import NAMES, REFUSED, degenerate, loss, program

import ldiv
from ldiv.engines.libraries import program_solvers
from ldiv.engines.libraries.program import Found

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")
pytest.importorskip("clarabel")
jax.config.update("jax_enable_x64", True)
PROGRAMS = [program(seed) for seed in range(3)]
STACKED = {name: np.stack([p[name] for p in PROGRAMS]) for name in NAMES}


def _gradient(p: dict[str, Any]) -> dict[str, Any]:
    t = {name: torch.tensor(x, requires_grad=True) for name, x in p.items()}
    g = torch.autograd.grad(loss(ldiv.solve_qp(**t)), t.values())
    return {name: x.numpy() for name, x in zip(t, g, strict=True)}


def _near(got: Any, expected: list[dict[str, Any]]) -> None:
    for name in expected[0]:
        assert np.allclose(got[name], np.stack([g[name] for g in expected]), rtol=1e-9, atol=1e-11)


def test_a_batch_is_its_programs() -> None:
    one = [ldiv.solve_qp(**p, full=True) for p in PROGRAMS]
    many = ldiv.solve_qp(**STACKED, full=True)
    for found, *expected in zip(many, *one, strict=True):
        assert np.allclose(found, np.stack(expected), rtol=1e-9, atol=1e-11)
    assert many.active.shape == (3, 6 + 24)
    q = np.stack([p["q"] for p in PROGRAMS])[:, None]  # two batch axes, one of them of q alone
    x = ldiv.solve_qp(
        **{**PROGRAMS[0], "q": q, "lb": STACKED["lb"][0], "ub": np.full((2, 12), 9.0)}
    )
    assert x.shape == (3, 2, 12)
    assert np.allclose(x[0], ldiv.solve_qp(**{**PROGRAMS[0], "ub": 9.0}))


def test_derivatives_of_a_batch() -> None:
    expected = [_gradient(p) for p in PROGRAMS]
    _near(_gradient(STACKED), expected)

    def f(p: Any) -> Any:
        return loss(ldiv.solve_qp(**p))

    tensors = {name: torch.tensor(x) for name, x in STACKED.items()}
    _near(torch.func.vmap(torch.func.grad(f))(tensors), expected)
    arrays = {name: jax.numpy.asarray(x) for name, x in STACKED.items()}
    _near(jax.jit(jax.vmap(jax.grad(f)))(arrays), expected)


def test_second_order_in_jit_and_what_fails_there() -> None:
    p = PROGRAMS[0]
    q = torch.tensor(p["q"])
    H = torch.func.hessian(lambda q: loss(ldiv.solve_qp(**{**p, "q": q})))(q)
    compiled = jax.jit(
        lambda q: (
            ldiv.solve_qp(**{**p, "q": q}, full=True),
            jax.hessian(lambda q: loss(ldiv.solve_qp(**{**p, "q": q})))(q),
        )
    )
    found, of_jax = compiled(p["q"])
    assert np.allclose(H, of_jax, rtol=1e-8, atol=1e-9)
    assert np.allclose(found.z, ldiv.solve_qp(**p, full=True).z)
    with pytest.raises(Exception, match="q: expected finite"):
        jax.block_until_ready(compiled(np.nan * p["q"]))
    crossing = jax.jit(lambda u: ldiv.solve_qp(np.eye(2), np.ones(2), lb=1.0, ub=u))
    with pytest.raises(Exception, match="infeasible"):
        jax.block_until_ready(crossing(np.zeros(2)))
    flat = jax.jit(jax.grad(lambda q: ldiv.solve_qp(np.eye(2), q, lb=0.0).sum()))
    with pytest.raises(Exception, match=r"lb\[0\] with neither"):
        jax.block_until_ready(flat(np.array([0.0, 1.0])))
    with pytest.raises(NotImplementedError, match="without Python"):
        jax.export.export(jax.jit(lambda q: ldiv.solve_qp(np.eye(2), q, lb=0.0)))(np.ones(2))


@pytest.mark.parametrize("framework", ["torch", "jax", "jit"])
def test_one_factorization_for_the_solution_and_all_its_derivatives(framework: str) -> None:
    """Beside that of P, which shows that the program is convex."""
    p = program(5)

    def f(q: Any) -> Any:
        return loss(ldiv.solve_qp(**{**p, "q": q}))

    if framework == "torch":
        q = torch.tensor(p["q"], requires_grad=True)
    else:
        q = jax.numpy.asarray(p["q"])
    run = jax.jit(jax.value_and_grad(f)) if framework == "jit" else jax.value_and_grad(f)
    if framework == "jit":
        run(q + 1)  # compiles
    ldiv.clear_cache()
    before = ldiv.cache_info().factorizations
    if framework == "torch":
        (g,) = torch.autograd.grad(f(q), q, create_graph=True)
        torch.autograd.grad(g.sum(), q)
    else:
        jax.block_until_ready(run(q))
    assert ldiv.cache_info().factorizations - before == 2


def _values(p: dict[str, Any], solver: str) -> Any:
    try:
        return ldiv.solve_qp(**p, solver=solver)
    except REFUSED:
        return None


@pytest.mark.parametrize("solver", ["piqp", "highs"])
def test_other_solvers_find_the_same(solver: str) -> None:
    pytest.importorskip({"piqp": "piqp", "highs": "highspy"}[solver])
    together = 0
    for seed in range(30):
        rng = np.random.default_rng([seed, 7])
        p = degenerate(rng, "zero" if solver == "highs" else "definite")
        if seed % 2:
            p = p | {"q": rng.standard_normal(3), "h": rng.random(4)}
        found, expected = _values(p, solver), _values(p, "clarabel")
        if found is not None and expected is not None:
            assert np.allclose(found, expected, atol=1e-10)
            together += 1
    assert together > 5
    one, P = np.array([[1.0, 0.0]]), np.zeros((2, 2))
    rows = np.vstack([one, -one])
    with pytest.raises(ldiv.QuadraticProgramError, match="infeasible") as refused:
        ldiv.solve_qp(P, np.zeros(2), rows, np.array([-1.0, -1.0]), solver=solver)
    y = refused.value.certificate
    assert y.sum() > 0 and (y >= -1e-9 * y.sum()).all()
    assert abs(rows.T @ y).max() < 1e-3 * y.sum()
    with pytest.raises(ldiv.QuadraticProgramError, match="unbounded") as refused:
        ldiv.solve_qp(P, np.ones(2), one, np.ones(1), solver=solver)
    assert refused.value.certificate.sum() < 0


def test_a_vertex_where_more_rows_meet_and_a_program_that_is_not_linear() -> None:
    pytest.importorskip("highspy")
    G = np.array([[-1.0, 0.0], [0.0, -1.0], [-1.0, -1.0]])  # x >= 0, y >= 0, x + y >= 0
    q = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
    x = ldiv.solve_qp(np.zeros((2, 2)), q, G, np.zeros(3))
    assert np.array_equal(abs(x.detach()), [0, 0])
    x.sum().backward()  # with force in all three rows x stays
    assert np.array_equal(q.grad, [0, 0])
    with pytest.raises(ldiv.EngineError, match="P is not zero"):
        ldiv.solve_qp(np.eye(2), np.ones(2), G, np.zeros(3), solver="highs")


def test_a_solver_that_is_not_here(monkeypatch: Any) -> None:
    for package in ("clarabel", "piqp", "highspy"):
        monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ldiv.EngineError, match=r"clarabel is not here: pip install 'ldiv\[qp\]'"):
        ldiv.solve_qp(np.diag([1.0, 0.0]), np.ones(2), lb=0.0)


def test_a_wrong_guess_is_mended(monkeypatch: Any) -> None:
    """Two active rows left out, in each program of a batch, and one that is not active put in."""

    def guess(program: Any, solver: str) -> Found:
        asked.append(solver)
        found = right(program, solver)
        found.active[np.flatnonzero(found.active)[:2]] = False
        found.active[np.flatnonzero(~found.active)[0]] = True
        return found

    expected, right, asked = ldiv.solve_qp(**STACKED), program_solvers.solve, []
    monkeypatch.setattr(program_solvers, "solve", guess)
    assert np.allclose(ldiv.solve_qp(**STACKED, solver="clarabel"), expected)
    assert asked == ["clarabel"] * len(expected)


def test_what_a_solve_leaves_is_corrected() -> None:
    """Two rows that nearly coincide: the system of a batch loses more digits than that of one program."""
    P = np.array([[2.0, 0.0, 1.0], [0.0, 1.0, 0.0], [1.0, 0.0, 3.0]])
    G = np.array([[1.0, 0.0, 1.0], [1.0, 1e-7, 1.0]])
    x, h = np.array([0.3, -0.2, 0.1]), torch.zeros(2, 2, dtype=torch.float64)
    h[:] = torch.from_numpy(G @ x)
    h.requires_grad_()
    z = np.array([1e6, 2e6])
    q = -(P @ x) - G.T @ z
    found = ldiv.solve_qp(P, torch.from_numpy(np.stack([q, q])), torch.from_numpy(G), h)
    (slope,) = torch.autograd.grad(found[:, 1].sum(), h)
    assert np.allclose(found.detach(), x, 0, 1e-7)  # rounding of h over 1e-7
    assert np.allclose(slope, [-1e7, 1e7], 1e-7)


def test_an_infeasible_member_is_refused_or_nan_and_the_others_have_their_derivatives() -> None:
    crossing = {"lb": np.where([[0], [1], [0]], 5.0, STACKED["lb"]), "ub": STACKED["ub"].copy()}
    crossing["ub"][1] = 4.0
    p = {**STACKED, **crossing}
    with pytest.raises(ldiv.QuadraticProgramError, match="infeasible"):
        ldiv.solve_qp(**p)
    q = torch.tensor(p["q"], requires_grad=True)
    with ldiv.errstate(singular="nan"):
        x = ldiv.solve_qp(**{**p, "q": q})
        (slope,) = torch.autograd.grad(loss(x), q)
    for i in (0, 2):
        assert np.allclose(x[i].detach(), ldiv.solve_qp(**PROGRAMS[i]), rtol=1e-9, atol=1e-11)
        assert np.allclose(slope[i], _gradient(PROGRAMS[i])["q"], rtol=1e-9, atol=1e-11)
    assert torch.isnan(x[1]).all() and torch.isnan(slope[1]).all()


def test_a_member_without_a_derivative_has_nan() -> None:
    q = torch.tensor([[0.0, 1.0], [1.0, -1.0]], dtype=torch.float64, requires_grad=True)
    with ldiv.errstate(singular="nan"):
        x = ldiv.solve_qp(np.eye(2), q, lb=np.zeros(2))
        x.sum().backward()
    assert np.array_equal(x.detach(), [[0, 0], [0, 1]])
    assert torch.isnan(q.grad[0]).all()
    assert np.array_equal(q.grad[1], [0, -1])
