"""Quadratic programs: optimality, derivatives against differences of other solves, what is refused."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from programs import NAMES, REFUSED, degenerate, loss, program

import ldiv

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")
pytest.importorskip("clarabel")
jax.config.update("jax_enable_x64", True)


@pytest.mark.parametrize("seed", range(8))
def test_optimality(seed: int) -> None:
    p = program(seed)
    r = ldiv.solve_qp(**p, full=True)
    force = p["P"] @ r.x + p["q"] + p["A"].T @ r.y + p["G"].T @ r.z + r.z_box
    assert abs(force).max() < 1e-12 and abs(p["A"] @ r.x - p["b"]).max() < 1e-12
    assert (p["G"] @ r.x - p["h"]).max() < 1e-12 and (r.z >= -1e-12).all()
    assert (r.x - p["ub"]).max() < 1e-12 and (p["lb"] - r.x).max() < 1e-12
    at_bound = (r.z_box != 0) & (r.z_box > 0)
    assert np.allclose(r.x[at_bound], p["ub"][at_bound])
    assert np.isclose(r.value, r.x @ p["P"] @ r.x / 2 + p["q"] @ r.x)
    sparse = {**p, **{name: sp.csr_array(p[name]) for name in "PGA"}}
    assert np.allclose(ldiv.solve_qp(**sparse), r.x, atol=1e-12)


@pytest.mark.covering(0)
@pytest.mark.parametrize("seed", range(4))
def test_derivatives_in_all_data(seed: int) -> None:
    p = program(seed)
    t = {name: torch.tensor(x, requires_grad=True) for name, x in p.items()}
    g = torch.autograd.grad(loss(ldiv.solve_qp(**t)), t.values(), create_graph=True)
    rng = np.random.default_rng(seed)
    for name, slope in zip(NAMES, g, strict=True):
        d = rng.standard_normal(p[name].shape)
        d = d + d.T if name == "P" else np.where(np.isfinite(p[name]), d, 0)

        def at(s: float, name: str = name, d: Any = d) -> Any:
            return loss(ldiv.solve_qp(**{**p, name: p[name] + s * d}))

        h = 1e-4
        coarse, fine = ((at(s) - at(-s)) / (2 * s) for s in (h, h / 2))
        expected = (4 * fine - coarse) / 3
        got = float((slope.detach() * torch.tensor(d)).sum())
        assert abs(got - expected) < 1e-7 * max(1, abs(expected)), name
    d = torch.tensor(rng.standard_normal(len(p["q"])))
    second = torch.autograd.grad(g[1] @ d, t["q"])[0] @ d
    h = 1e-3
    values = [loss(ldiv.solve_qp(**{**p, "q": p["q"] + s * d.numpy()})) for s in (h, 0, -h)]
    assert np.isclose(second.item(), (values[0] - 2 * values[1] + values[2]) / h**2, atol=1e-6)
    of_jax = jax.grad(lambda q: loss(ldiv.solve_qp(**{**p, "q": q})))(p["q"])
    assert np.allclose(of_jax, g[1].detach(), atol=1e-10)
    assert np.allclose(
        jax.jvp(lambda q: ldiv.solve_qp(**{**p, "q": q}), (p["q"],), (d.numpy(),))[1].sum() * 0
        + jax.jvp(lambda q: loss(ldiv.solve_qp(**{**p, "q": q})), (p["q"],), (d.numpy(),))[1],
        (g[1] @ d).item(),
    )


@pytest.mark.parametrize("kind", ["definite", "singular", "zero", "repeated"])
@pytest.mark.parametrize(
    "part", [0, *(pytest.param(i, marks=pytest.mark.exhaustive) for i in range(1, 10))]
)
def test_a_derivative_is_right_or_refused(kind: str, part: int) -> None:
    right = 0
    for seed in range(25 * part, 25 * part + 25):
        rng = np.random.default_rng([seed, len(kind)])
        p = degenerate(rng, kind)
        q = torch.tensor(p["q"], requires_grad=True)
        h = torch.tensor(p["h"], requires_grad=True)
        try:
            x = ldiv.solve_qp(**{**p, "q": q, "h": h})
            g = torch.autograd.grad(loss(x), (q, h), materialize_grads=True)
        except REFUSED:
            continue
        right += 1
        for name, slope in zip(("q", "h"), g, strict=True):
            d, s = rng.standard_normal(p[name].shape), 1e-6
            one_sided = [
                (loss(ldiv.solve_qp(**{**p, name: p[name] + t * d})) - loss(x.detach().numpy())) / t
                for t in (s, -s)
            ]
            assert np.allclose(one_sided, float(slope @ torch.tensor(d)), atol=1e-4), (
                kind,
                seed,
                name,
            )
    assert right


def test_without_inequalities_no_solver_is_asked(monkeypatch: Any) -> None:
    monkeypatch.setattr("ldiv.engines.libraries.program_solvers.solve", None)
    p = program(0)
    x = ldiv.solve_qp(p["P"], p["q"], A=p["A"], b=p["b"])
    assert np.allclose(p["A"] @ x, p["b"])
    assert np.allclose(ldiv.solve_qp(p["P"], p["q"]), np.linalg.solve(p["P"], -p["q"]))


def test_without_rows() -> None:
    none = {"G": np.zeros((0, 2)), "h": np.zeros(0), "A": np.zeros((0, 2)), "b": np.zeros(0)}
    assert np.allclose(ldiv.solve_qp(np.eye(2), np.ones(2), **none), -1)
    assert np.allclose(ldiv.solve_qp(np.eye(2), np.ones(2), **none, lb=np.zeros(2)), 0)
    assert ldiv.solve_qp(np.zeros((0, 0)), np.zeros(0)).shape == (0,)


def test_a_linear_program_at_a_vertex() -> None:
    x = ldiv.solve_qp(
        np.zeros((2, 2)), np.array([1.0, 2.0]), G=-np.eye(2), h=np.array([-1.0, -3.0])
    )
    assert np.allclose(x, [1, 3])


def test_what_has_no_solution() -> None:
    one = np.array([[1.0, 0.0]])
    with pytest.raises(ldiv.QuadraticProgramError, match="infeasible") as found:
        ldiv.solve_qp(np.eye(2), np.ones(2), np.vstack([one, -one]), np.array([-1.0, -1.0]))
    y = found.value.certificate
    assert found.value.status == "infeasible" and (y >= 0).all()
    assert abs(np.vstack([one, -one]).T @ y).max() < 1e-6 and np.array([-1.0, -1.0]) @ y < 0
    with pytest.raises(ldiv.QuadraticProgramError, match="unbounded") as found:
        ldiv.solve_qp(np.zeros((2, 2)), np.ones(2), one, np.ones(1))
    assert found.value.status == "unbounded" and found.value.certificate.sum() < 0
    with pytest.raises(ldiv.SingularMatrixError, match="solve_qp"):
        ldiv.solve_qp(np.diag([1.0, 0.0]), np.array([1.0, 0.0]))
    for rows in ({}, {"A": one, "b": np.ones(1)}):  # no inequality, hence no solver, unless asked
        with pytest.raises(ldiv.QuadraticProgramError, match="unbounded") as found:
            ldiv.solve_qp(np.diag([1.0, 0.0]), np.ones(2), **rows)
        d = found.value.certificate
        assert abs(d[0]) < 1e-6 * abs(d[1]) and d[1] < 0


def test_bounds_that_cross_are_named() -> None:
    low, high = np.array([0.0, -np.inf, 2.0]), np.array([np.inf, 1.0, 1.0])
    given = {"G": np.ones((1, 3)), "h": np.ones(1), "A": np.ones((1, 3)), "b": np.ones(1)}
    with pytest.raises(
        ldiv.QuadraticProgramError, match=r"infeasible.*lb\[2\] = 2.0 is larger than ub\[2\]"
    ) as found:
        ldiv.solve_qp(np.eye(3), np.ones(3), lb=low, ub=high, **given)
    # rows of A, of G, upper bounds of x1 and x2, lower bounds of x0 and x2
    assert (found.value.certificate == [0, 0, 0, 1, 0, 1]).all()


def test_one_number_bounds_all() -> None:
    P, q = np.eye(3), np.array([-2.0, 0.5, 2.0])
    assert np.allclose(ldiv.solve_qp(P, q, lb=-1.0, ub=1), [1, -0.5, -1])
    low = torch.tensor(-1.0, dtype=torch.float64, requires_grad=True)
    ldiv.solve_qp(P, torch.tensor(q), lb=low).sum().backward()
    assert low.grad == 1


@pytest.mark.parametrize("array", [np.asarray, sp.csr_array])
def test_what_is_not_convex_is_refused(array: Any) -> None:
    for P in (
        -np.eye(3),
        np.diag([1.0, 1.0, -1e-3]),
        np.array([[0, 1.0, 0], [1, 0, 0], [0, 0, 1]]),
    ):
        for bounds in ({}, {"lb": -np.ones(3), "ub": np.ones(3)}):
            with pytest.raises(ValueError, match="P: expected a positive semidefinite matrix"):
                ldiv.solve_qp(array(P), np.ones(3), **bounds)
    with pytest.raises(ldiv.NotSymmetricError):
        ldiv.solve_qp(array(np.array([[2.0, 1.0], [0.0, 2.0]])), np.ones(2))
    x = ldiv.solve_qp(array(np.diag([1.0, 0.0])), np.ones(2), lb=np.array([-np.inf, -3.0]))
    assert np.allclose(x, [-1, -3])


@pytest.mark.parametrize("solver", ["auto", "piqp", "clarabel"])
@pytest.mark.parametrize("array", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("n", [3, 70])
def test_an_unsymmetric_P_is_refused(solver: Any, array: Any, n: int) -> None:
    """The verdict depends neither on the solver nor on the size; rounding is accepted."""
    P, q, row = 2 * np.eye(n), np.linspace(-1, 1, n), np.ones((1, n))
    P[0, 1] = P[1, 0] = 0.5
    for rows in ({}, {"G": row, "h": -np.ones(1)}, {"A": row, "b": np.ones(1)}):
        x = ldiv.solve_qp(array(P), q, solver=solver, **rows)
        near, far = P.copy(), P.copy()
        near[0, 1] *= 1 + 1e-12
        far[0, 1] = 1
        np.testing.assert_allclose(
            ldiv.solve_qp(array(near), q, solver=solver, **rows), x, atol=1e-9
        )
        with pytest.raises(ldiv.NotSymmetricError):
            ldiv.solve_qp(array(far), q, solver=solver, **rows)


def test_no_derivative_where_a_row_has_no_force() -> None:
    q = torch.tensor([0.0, 1.0], dtype=torch.float64, requires_grad=True)
    x = ldiv.solve_qp(np.eye(2), q, lb=np.zeros(2))
    assert np.allclose(x.detach(), 0)
    with pytest.raises(ldiv.NotDifferentiableError, match=r"lb\[0\] with neither"):
        x.sum().backward()


@pytest.mark.parametrize(
    ("kind", "seed"), [("singular", 4380), ("singular", 4484), ("repeated", 4887)]
)
def test_a_row_without_force_through_a_zero_of_x(kind: str, seed: int) -> None:
    """The terms of the row are 0 up to rounding where x is, so that rounding is not small beside
    them.
    """
    p = degenerate(np.random.default_rng([seed, len(kind)]), kind)
    q = torch.tensor(p["q"], requires_grad=True)
    x = ldiv.solve_qp(**{**p, "q": q})
    assert abs(x).min() < 1e-15
    with pytest.raises(ldiv.NotDifferentiableError, match="neither"):
        x.sum().backward()


def test_bad_arguments() -> None:
    P, q = np.eye(2), np.ones(2)
    for wrong, words in (
        ({"G": P}, "G: expected G and h"),
        ({"G": P, "h": np.ones(3)}, "h: expected shape"),
        ({"A": np.ones((1, 3)), "b": np.ones(1)}, "A: expected a real matrix"),
        ({"lb": np.array([np.nan, 0])}, "lb: expected finite"),
        ({"ub": np.ones(3)}, "ub: expected shape"),
        ({"lb": np.array([np.inf, 0])}, "lb: expected finite"),
        ({"G": np.ones((1, 2)), "h": 1.0}, "h: .* each row of G"),
        ({"q": np.ones((3, 2)), "lb": np.ones((2, 2))}, "lb: expected batch axes"),
        ({"q": np.ones(2) + 1j}, "q: expected a real vector"),
    ):
        with pytest.raises(ValueError, match=words):
            ldiv.solve_qp(**{"P": P, "q": q, **wrong})
    for P_wrong, words in (
        (None, "P: expected .* array, got NoneType"),
        (ldiv.Matrix(ldiv.structures.Diagonal(2), q), "P: expected a matrix with entries"),
    ):
        with pytest.raises(TypeError, match=words):
            ldiv.solve_qp(P_wrong, q)  # type: ignore[arg-type]
    slope = torch.func.grad(lambda q: ldiv.solve_qp(P, q).sum())(torch.ones(2))
    assert np.allclose(slope, -1)


def test_bounds_that_meet_fix_a_variable() -> None:
    """The bounds act as an equality does; its multiplier is that of the bounds, and they move
    together.
    """
    p = program(0)
    x = ldiv.solve_qp(p["P"], p["q"])
    low, high = x - 1.0, x + 1.0
    low[[0, 2]] = high[[0, 2]] = x[[0, 2]] + 0.3
    fixed = np.eye(len(x))[[0, 2]]
    found = ldiv.solve_qp(p["P"], p["q"], lb=low, ub=high, full=True)
    expected = ldiv.solve_qp(p["P"], p["q"], A=fixed, b=low[[0, 2]], full=True)
    assert np.allclose(found.x, expected.x)
    assert np.allclose(found.z_box[[0, 2]], expected.y)
    assert not len(found.y)
    both = [torch.tensor(t, requires_grad=True) for t in (low, high)]
    loss(ldiv.solve_qp(p["P"], p["q"], lb=both[0], ub=both[1])).backward()
    b = torch.tensor(low[[0, 2]], requires_grad=True)
    loss(ldiv.solve_qp(p["P"], p["q"], A=fixed, b=b)).backward()
    for t in both:
        assert np.allclose(t.grad[[0, 2]], b.grad / 2)


def test_many_bounds_take_little_memory() -> None:
    n = 20_000
    q = np.linspace(-2.0, 2.0, n)
    P = sp.eye_array(n, format="csc")
    tracemalloc.start()
    found = ldiv.solve_qp(P, q, lb=-np.ones(n), ub=np.ones(n), full=True)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2e8
    assert np.allclose(found.x, np.clip(-q, -1, 1))
    assert np.allclose(found.z_box, -q - found.x)


def test_what_is_no_vector() -> None:
    with pytest.raises(TypeError, match="q: expected"):
        ldiv.solve_qp(np.eye(2), None)


@pytest.mark.parametrize("size", [1.0, 2.0**-60, 2.0**60])
def test_a_solution_or_multipliers_of_rounding_alone(size: float) -> None:
    """Equalities without force, and x = 0 by terms that cancel."""
    p = program(3)
    x = np.linalg.solve(p["P"], -size * p["q"])
    found = ldiv.solve_qp(p["P"], size * p["q"], A=p["A"], b=p["A"] @ x, full=True)
    assert np.allclose(found.x, x, 1e-12, 1e-12 * size)
    assert abs(found.y).max() < 1e-12 * size
    force = p["A"].T @ np.array([1.0, -2.0])
    found = ldiv.solve_qp(p["P"], size * force, A=p["A"], b=np.zeros(2), full=True)
    assert abs(found.x).max() < 1e-12 * size
    assert np.allclose(found.y, [-size, 2 * size], 1e-12)
