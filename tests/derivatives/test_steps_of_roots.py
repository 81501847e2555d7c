"""The steps of `root`: damped, limited, told by info; a diode circuit and a stiff equilibrium that
undamped Newton does not solve.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import scipy.optimize
import scipy.special

import ldiv

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")
jax.config.update("jax_enable_x64", True)

tensor = partial(torch.tensor, dtype=torch.float64)
WAYS: dict[str, dict[str, Any]] = {
    "a line search": {},
    "limited steps": {"line_search": None, "stepmx": 0.1},
    "both": {"stepmx": 0.1},
}


def diodes(v: Any, p: Any) -> Any:
    """Kirchhoff's law in a chain: source, resistor, diode to ground, resistor, diode ..."""
    source, resistance, saturation = p
    arriving = (torch.cat([source, v[:-1]]) - v) / resistance
    leaving = torch.cat([arriving[1:], 0 * v[:1]])
    return arriving - leaving - saturation * torch.expm1(v / 0.02585)


def complexes(y: Any, p: Any) -> Any:
    """M + 2 L <-> M L2 with the constant 1e20, in logarithms of the concentrations."""
    total_metal, total_ligand, constant = p
    metal, ligand = torch.exp(y)
    bound = constant * metal * ligand**2
    return torch.stack([metal + bound - total_metal, ligand + 2 * bound - total_ligand])


CIRCUIT = (diodes, torch.zeros(3).double(), (tensor([5.0]), tensor(1e3), tensor(1e-14)))
REACTION = (complexes, tensor([-20.0, -20.0]), (tensor(0.01), tensor(0.03), tensor(1e20)))


@pytest.mark.parametrize("problem", [CIRCUIT, REACTION], ids=["circuit", "reaction"])
def test_undamped_newton_diverges(problem: Any) -> None:
    with pytest.raises(ldiv.ConvergenceError, match="after 50 steps"):
        ldiv.root(*problem, line_search=None)


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("problem", [CIRCUIT, REACTION], ids=["circuit", "reaction"])
def test_damped_it_converges(problem: Any, way: Any) -> None:
    f, start, p = problem
    if f is complexes and "stepmx" in way:
        way = way | {"stepmx": 2.0}
    x, info = ldiv.root(f, start, p, info=True, **way)
    assert f(x, p).norm() <= 1e-10 * f(start, p).norm()
    assert info.steps == len(info.lengths) == len(info.residuals) - 1 <= 20
    np.testing.assert_allclose(info.residuals[0], f(start, p).norm())
    assert (info.lengths <= 1).all()
    assert (info.lengths < 1).any()
    assert info.lengths[-1] == 1  # near the root Newton's own


def test_the_equilibrium_is_that_of_the_chemist() -> None:
    """Nearly all metal is bound: ligand 0.01, metal 0.01 / (K ligand^2)."""
    x = ldiv.root(*REACTION, stepmx=2.0)
    torch.testing.assert_close(torch.exp(x), tensor([1e-18, 1e-2]), rtol=1e-9, atol=0.0)


@pytest.mark.parametrize("limit", [0.05, 0.1, 1.0])
def test_no_unknown_changes_by_more_than_stepmx(limit: float) -> None:
    seen = []

    def f(v: Any, p: Any) -> Any:
        seen.append(v.detach().clone())
        return v**3 - p

    _, info = ldiv.root(
        f, tensor([1.0, 1.0]), tensor([8.0, 27.0]), stepmx=limit, maxiter=200, info=True
    )
    moves = [(b - a).abs().max().item() for a, b in pairwise(seen)]
    assert info.steps > 2 / limit - 1
    assert max(moves[: int(1 / limit)]) <= limit * (1 + 1e-12)


def test_a_limit_below_single_precision_reaches_nothing() -> None:
    x, p = torch.ones(2), torch.tensor([8.0, 27.0])
    with pytest.raises(ldiv.ConvergenceError, match="Newton"):
        ldiv.root(lambda x, p: x**3 - p, x, p, stepmx=1e-300)


def test_whole_steps_may_go_over_larger_residuals() -> None:
    """The start is on the far side of a hump that a line search does not climb."""
    f, start, p = lambda x, p: x**3 - 2 * x + p, tensor([0.0]), tensor([4.0])
    x, info = ldiv.root(f, start, p, line_search=None, info=True)
    assert f(x, p).abs().max() < 1e-12
    assert (np.diff(info.residuals) > 0).any()
    assert (info.lengths == 1).all()


@pytest.mark.parametrize("line_search", ["armijo", None])
def test_a_root_at_zero_is_found_in_whole_steps_too(line_search: Any) -> None:
    x = ldiv.root(
        lambda x, p: x + x**2 + 1e3 * (p - p.sum() / 2),
        tensor([3.0, 0.1]),
        tensor([0.5, 0.5]),
        line_search=line_search,
    )
    assert x.abs().max() < 1e-12


@pytest.mark.parametrize("line_search", ["armijo", None])
@pytest.mark.parametrize("start", [0.0, 1.0])
def test_a_start_is_a_constant_of_the_program(line_search: Any, start: float) -> None:
    """x^3 + x = p has the root 1 for p = 2, and there the slope 1 / (3 x^2 + 1)."""

    def x(p: Any) -> Any:
        x0 = jax.numpy.full(2, start)
        return ldiv.root(lambda x, p: x**3 + x - p, x0, p, line_search=line_search)[0]

    value, slope = jax.jit(lambda: jax.jvp(x, (2.0,), (1.0,)))()
    assert abs(value - 1) < 1e-14 and abs(slope - 0.25) < 1e-14
    assert abs(jax.jit(x)(2 * jax.numpy.ones(())) - 1) < 1e-14
    assert abs(jax.jit(lambda: jax.grad(x)(2.0))() - 0.25) < 1e-14


# -- info -----------------------------------------------------------------------


@pytest.mark.covering(1)
@pytest.mark.parametrize("pattern", [None, (np.r_[0:4, 0:3], np.r_[0:4, 1:4])])
@pytest.mark.parametrize("to", [tensor, jax.numpy.asarray], ids=["torch", "jax"])
def test_the_condition_at_the_root_takes_no_factorization(to: Any, pattern: Any) -> None:
    slope = np.eye(4) + np.eye(4, k=1)
    p = to(np.array([1.0, 1e-3, 1.0, 5.0]))
    _, info = ldiv.root(
        lambda x, p: p * (to(slope) @ x) - 1, to(np.ones(4)), p, pattern=pattern, info=True
    )
    before = ldiv.cache_info().factorizations
    expected = np.linalg.cond(np.asarray(p)[:, None] * slope, 1)
    assert 0.3 * expected <= info.condition <= 1.001 * expected
    assert ldiv.cache_info().factorizations == before
    assert info.steps == 1
    assert info.residuals[-1] < 1e-12


def test_of_numpy() -> None:
    """NumPy needs autograd's arrays; what it finds is SciPy's root."""
    anp = pytest.importorskip("autograd.numpy")
    f = lambda x, p: anp.array([x[0] + x[1] ** 2 - p[0], anp.exp(x[0]) * x[1] - p[1]])
    p, start = np.array([2.0, 1.0]), np.zeros(2)
    x, info = ldiv.root(f, start, p, info=True)
    np.testing.assert_allclose(x, scipy.optimize.root(f, start, (p,), tol=1e-12).x)
    assert info.steps == len(info.lengths)


def test_an_engine_that_iterates_has_no_condition() -> None:
    _, info = ldiv.root(
        lambda x, p: x**2 - p, tensor([1.0, 2.0]), tensor([2.0, 3.0]), method="gmres", info=True
    )
    assert info.condition is None


def test_info_keeps_the_derivative() -> None:
    p = tensor([4.0, 9.0]).requires_grad_()
    x, info = ldiv.root(lambda x, p: x**2 - p, torch.ones(2).double(), p, info=True)
    torch.testing.assert_close(torch.autograd.grad(x.sum(), p)[0], 1 / (2 * x.detach()))
    assert isinstance(info.condition, float)


@pytest.mark.parametrize(
    "transform",
    [lambda f: jax.jit(f)(jax.numpy.ones(3)), lambda f: jax.vmap(f)(jax.numpy.ones((2, 3)))],
    ids=["jit", "vmap"],
)
def test_info_is_refused_in_a_trace(transform: Any) -> None:
    f = lambda p: ldiv.root(lambda x, p: x**2 - p, jax.numpy.ones(3), p, info=True)[0]
    with pytest.raises(TypeError, match="info=True: expected values that are known now"):
        transform(f)


def test_info_is_refused_of_a_batch() -> None:
    f = lambda p: ldiv.root(lambda x, p: x**2 - p, torch.ones(3).double(), p, info=True)[0]
    with pytest.raises(TypeError, match="info=True"):
        torch.vmap(f)(torch.ones((2, 3)).double())


def test_limits_are_compiled() -> None:
    f = lambda p: ldiv.root(
        lambda x, p: jax.numpy.exp(x) - p, jax.numpy.zeros(2), p, line_search=None, stepmx=1.0
    )
    p = jax.numpy.array([1e-3, 30.0])
    np.testing.assert_allclose(jax.jit(f)(p), np.log(p), rtol=1e-12)
    np.testing.assert_allclose(jax.jit(jax.jacrev(f))(p), np.diag(1 / p), rtol=1e-12)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"line_search": "wolfe"}, "line_search: expected one of 'armijo', got 'wolfe'"),
        ({"stepmx": 0.0}, "stepmx"),
        ({"stepmx": -1.0}, "stepmx"),
        ({"stepmx": float("nan")}, "stepmx"),
    ],
)
def test_what_is_refused(wrong: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ldiv.root(lambda x, p: x - p, tensor([1.0]), tensor([1.0]), **wrong)


@pytest.mark.parametrize("to", [torch.asarray, jax.numpy.asarray], ids=["torch", "jax"])
def test_without_params_f_takes_x_alone(to: Any) -> None:
    x0 = to(np.ones(2))
    assert np.allclose(ldiv.root(lambda x: x**2 - 2, x0), 2**0.5)
    with pytest.raises(ValueError, match="params: expected at least one array"):
        ldiv.root(lambda x, p: x**2 - 2, x0, [])
    with pytest.raises(ValueError, match="params: expected at least one array"):
        ldiv.implicit(lambda x, p: x, x0, None)


def test_params_that_contain_themselves_are_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(
        TypeError, match=r"params: expected nested tuples.*one that contains itself"
    ):
        ldiv.root(lambda x, p: x, tensor([1.0]), endless)


@pytest.mark.parametrize(
    "run", [jax.jit, pytest.param(lambda f: f, id="eager", marks=pytest.mark.exhaustive)]
)
def test_params_of_any_registered_type(run: Any) -> None:
    """The root cbrt(b / a), whose derivatives are x / 3b and -x / 3a, and other closed forms."""

    @jax.tree_util.register_dataclass
    @dataclass
    class Pair:
        a: Any
        b: Any

    p = Pair(jax.numpy.array(2.0), jax.numpy.array([1.0, 8.0, 27.0]))
    start, x = jax.numpy.ones(3), jax.numpy.cbrt(p.b / p.a)
    cubes = lambda x, inner: inner["pair"].a * x**3 - inner["pair"].b + 0 * inner["none"]
    root = lambda p: ldiv.root(cubes, start, {"pair": p, "none": 0}).sum()
    fit = lambda p: ldiv.least_squares(lambda x, p: p.a * x**3 - p.b, start, p).sum()
    found = lambda p: ldiv.implicit(lambda x, p: p.a * x**3 - p.b, x, p).sum()
    for f in (root, fit, found):
        for gradient in (run(jax.grad(f)), run(jax.jacfwd(f))):
            np.testing.assert_allclose(gradient(p).a, -x.sum() / 3 / p.a, rtol=1e-9)
            np.testing.assert_allclose(gradient(p).b, x / 3 / p.b, rtol=1e-9)
    many = Pair(jax.numpy.array([2.0, 2.0]), jax.numpy.stack([p.b, p.b]))
    np.testing.assert_allclose(jax.vmap(jax.grad(root))(many).b[1], x / 3 / p.b, rtol=1e-9)
    again = jax.jit(lambda p: root(p))
    again(p)
    assert again._cache_size() == 1 and np.allclose(
        again(Pair(2 * p.a, p.b)), x.sum() / 2 ** (1 / 3)
    )
    assert again._cache_size() == 1
    # of exp(-a |x|^2 / 2 - b x): |b|^2 / 2a - 3/2 log a + 3/2 log 2 pi
    density = lambda x, p: p.a * (x @ x) / 2 + p.b @ x
    of_p = run(jax.grad(lambda p: ldiv.laplace(density, start, p).value))(p)
    np.testing.assert_allclose(of_p.a, -(p.b @ p.b) / 2 / p.a**2 - 1.5 / p.a, rtol=1e-9)
    np.testing.assert_allclose(of_p.b, p.b / p.a, rtol=1e-9)
    stretch = lambda p, X: p.a * X + p.b[:, None] * X
    solved = lambda p: ldiv.solve(ldiv.LinearOperator(stretch, p, shape=(3, 3)), start).sum()
    np.testing.assert_allclose(jax.grad(solved)(p).b, -((p.a + p.b) ** -2), rtol=1e-7)


@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_a_step_that_is_refused_ends_where_nan_takes_its_place(framework: str) -> None:
    """Parts of it are no step, either."""
    xp = pytest.importorskip("torch" if framework == "torch" else "jax.numpy")
    one = xp.ones((3, 3), dtype=xp.float64)
    with ldiv.errstate(singular="nan"):
        x = ldiv.root(lambda x, p: p @ x - 1, 0 * one[0], one)
    assert np.isnan(np.asarray(x)).all()


# -- bounds ---------------------------------------------------------------------------------------


def dissolved(x, p):
    """log x + p x = (-3, 2) for x > 0; another branch, with another root, below."""
    xp = jax.numpy if isinstance(x, jax.Array) else torch
    right = xp.asarray([-3.0, 2.0], dtype=x.dtype)
    return xp.where(x > 0, xp.log(abs(x)), 0 * x + 7) + p * x - right


BOUNDS = [
    (0, np.inf),
    (0.0, [9.0, 9.0]),
    ([0.0, 0.0], torch.tensor([9.0, 99.0])),
    scipy.optimize.Bounds(0),
]


@pytest.mark.parametrize("bounds", BOUNDS, ids=range(len(BOUNDS)))
def test_bounds_keep_x_inside(bounds) -> None:
    """The root is that of each equation alone, by Lambert's function: x = W(p e^c) / p."""
    start, p = tensor([5.0, 5.0]), tensor([1.0, 2.0]).requires_grad_()
    assert (ldiv.root(dissolved, start, p) < 0).any()  # without them
    places = []

    def f(x, p):
        places.append(x.detach())
        return dissolved(x, p)

    x = ldiv.root(f, start, p, bounds=bounds)
    assert all((at > 0).all() for at in places[:-4])  # the last ones ask how smooth f is
    expected = scipy.special.lambertw(np.array([1.0, 2.0]) * np.exp([-3.0, 2.0])).real / [1.0, 2.0]
    np.testing.assert_allclose(x.detach(), expected, rtol=1e-12)
    gradient = torch.autograd.grad(x.sum(), p)[0]
    np.testing.assert_allclose(gradient, -expected / (1 / expected + [1.0, 2.0]), rtol=1e-10)


def test_bounds_in_programs_and_batches() -> None:

    p = jax.numpy.asarray([[1.0, 2.0], [2.0, 3.0]])
    root = lambda p: ldiv.root(dissolved, jax.numpy.full(2, 5.0), p, bounds=(0, np.inf)).sum()
    x = jax.jit(jax.vmap(root))(p)
    slope = jax.jit(jax.vmap(jax.grad(root)))(p)
    theirs = torch.from_numpy(np.array(p))
    start = tensor([5.0, 5.0])
    mapped = torch.func.vmap(lambda p: ldiv.root(dissolved, start, p, bounds=(0, np.inf)).sum())
    np.testing.assert_allclose(x, mapped(theirs), rtol=1e-12)
    for k in range(2):
        q = theirs[k].clone().requires_grad_()
        ldiv.root(dissolved, start, q, bounds=(0, np.inf)).sum().backward()
        np.testing.assert_allclose(slope[k], q.grad, rtol=1e-10)


@pytest.mark.parametrize(
    "bounds", [(1, 0), (0,), 5, ("a", 1), (0, np.nan), (0, [1.0, 2.0, 3.0]), (0, 0)]
)
def test_bounds_that_are_none(bounds) -> None:
    with pytest.raises(ValueError, match="bounds: expected"):
        ldiv.root(dissolved, tensor([5.0, 5.0]), tensor([1.0, 2.0]), bounds=bounds)


@pytest.mark.parametrize("bounds", [(6, 7), (5, 9), (0, [9.0, 5.0])])
def test_a_start_outside_of_bounds(bounds) -> None:
    with pytest.raises(ValueError, match="x0: expected a start between the bounds"):
        ldiv.root(dissolved, tensor([5.0, 5.0]), tensor([1.0, 2.0]), bounds=bounds)


def test_no_root_between_bounds() -> None:
    """A root beyond a bound, or on it, is none."""
    for shift in (1.0, 0.0):
        with pytest.raises(ldiv.ConvergenceError):
            ldiv.root(
                lambda x, p, s=shift: x + s + 0 * p, tensor([5.0]), tensor([1.0]), bounds=(0, 9)
            )


# -- words ----------------------------------------------------------------------------------------

SINGULAR = {
    "free": (
        lambda x, p: torch.stack([x[0] - p, x[1] - 1.5, 0 * x[2] + 1]),
        r"x\[2\] \+1.00",
        r"f\[2\] \+1.00",
    ),
    "parallel": (
        lambda x, p: torch.stack([x[0] + 1e6 * x[1] - p, 1e-3 * x[0] + 1e3 * x[1] - 3, x[2] - 2]),
        r"x\[0\] \+1.00",
        r"f\[1\] \+1.00",
    ),
    "cycle": (
        lambda x, p: torch.stack([x[0] - x[1] - p, x[1] - x[2] - 3, x[2] - x[0] + 5]),
        r"x\[\d\] \+0.58, x\[\d\] \+0.58, x\[\d\] \+0.58",
        r"f\[\d\] \+0.58, f\[\d\] \+0.58, f\[\d\] \+0.58",
    ),
}


@pytest.mark.parametrize("pattern", [None, (np.repeat(range(3), 3), np.tile(range(3), 3))])
@pytest.mark.parametrize("case", SINGULAR)
def test_the_error_names_unknowns_and_equations(case, pattern) -> None:
    f, unknowns, equations = SINGULAR[case]
    words = rf"along \({unknowns}\), and of its equations \({equations}\)"
    with pytest.raises(ldiv.SingularMatrixError, match=words):
        ldiv.root(f, tensor([1.0, 1.0, 1.0]), tensor(1.0), pattern=pattern)


def test_the_error_names_an_unknown_of_many() -> None:
    start, n = torch.ones(3_000, dtype=torch.float64), np.arange(3_000)
    mask = torch.ones(3_000, dtype=torch.float64)
    mask[1234] = 0
    with pytest.raises(ldiv.SingularMatrixError, match=r"x\[1234\] \+1.00"):
        ldiv.root(lambda x, p: mask * (x - p) + 1, start, tensor(1.0), pattern=(n, n))


# -- pseudo-transient continuation --------------------------------------------------


def hump(x: Any, p: Any) -> Any:
    """|f| has a minimum at sqrt(2/3); for p = 4 the root -2 is on the other side."""
    return x**3 - 2 * x + p


def phases(u: Any, p: Any) -> Any:
    """A chain of two phases, near u = 1 and u = -1, with walls between them; u = 0 is not stable."""
    moved = u[1:] - u[:-1]
    xp = torch if isinstance(u, torch.Tensor) else jax.numpy
    end = 0 * u[:1]
    return p[0] * (xp.concatenate([end, moved]) - xp.concatenate([moved, end])) + u**3 - u - p[1]


@pytest.mark.parametrize("start", [0.5, 0.9, 2.0, 3.0])
@pytest.mark.parametrize("dt0", [None, 0.2])
def test_pseudo_time_passes_a_minimum_of_the_residual(start: float, dt0: Any) -> None:
    p = tensor([4.0]).requires_grad_()
    with pytest.raises(ldiv.ConvergenceError, match="Newton's method"):
        ldiv.root(hump, tensor([start]), p)
    x, info = ldiv.root(hump, tensor([start]), p, method="ptc", dt0=dt0, info=True)
    torch.testing.assert_close(x.detach(), tensor([-2.0]), rtol=1e-14, atol=0.0)
    assert info.steps == len(info.lengths) < (20 if dt0 is None else 50)
    first = torch.autograd.grad(x, p, create_graph=True)[0]
    second = torch.autograd.grad(first, p)[0]
    # x' = -1 / (3 x^2 - 2),  x'' = -6 x x'^2 / (3 x^2 - 2)
    np.testing.assert_allclose([first.item(), second.item()], [-0.1, 0.012], rtol=1e-12)


def test_pseudo_time_ends_where_states_are_stable() -> None:
    n, random = 60, np.random.default_rng(0)
    i = np.arange(n - 1)
    pattern = np.concatenate([i, i + 1]), np.concatenate([i + 1, i])  # without the diagonal
    start, p = random.uniform(-1, 1, n), tensor([0.05, 0.01]).requires_grad_()
    of_u = lambda u: phases(u, p.detach())
    newton = ldiv.root(phases, tensor(start), p)
    stable = ldiv.root(phases, tensor(start), p, pattern=pattern, method="ptc")
    lowest = [
        np.linalg.eigvalsh(torch.func.jacrev(of_u)(u.detach())).min() for u in (newton, stable)
    ]
    assert lowest[0] < -0.5 < 1 < lowest[1]
    np.testing.assert_allclose(
        ldiv.root(phases, tensor(start), p, method="ptc").detach(), stable.detach(), rtol=1e-12
    )
    slope = torch.autograd.grad(stable.sum(), p)[0]
    J, dp = torch.func.jacrev(phases, (0, 1))(stable.detach(), p.detach())
    expected = -torch.linalg.solve(J, dp).sum(0)
    torch.testing.assert_close(slope, expected, rtol=1e-10, atol=0.0)
    found = jax.jit(
        jax.value_and_grad(
            lambda p: ldiv.root(
                phases, jax.numpy.asarray(start), p, pattern=pattern, method="ptc"
            ).sum()
        )
    )(jax.numpy.asarray(p.detach().numpy()))
    np.testing.assert_allclose(found[0], stable.detach().sum(), rtol=1e-12)
    np.testing.assert_allclose(found[1], expected, rtol=1e-10)


def test_pseudo_time_in_batches_between_bounds_and_in_numpy() -> None:
    starts, four = tensor([[2.0], [0.5], [-2.0]]), tensor([4.0])
    many = torch.vmap(lambda x: ldiv.root(hump, x, four, method="ptc"))(starts)
    torch.testing.assert_close(many, tensor([[-2.0]] * 3), rtol=1e-14, atol=0.0)
    seen = []

    def watched(x: Any, p: Any) -> Any:
        seen.append(x.detach().item())
        return hump(x, p)

    ldiv.root(watched, tensor([2.0]), four, method="ptc", bounds=(-2.1, 2.1))
    assert -2.1 < min(seen) and max(seen) < 2.1
    anp = pytest.importorskip("autograd.numpy")
    here = ldiv.root(
        lambda x, p: hump(x, anp.asarray(p)), np.array([2.0]), np.array([4.0]), method="ptc"
    )
    np.testing.assert_allclose(here, [-2.0], rtol=1e-14)


def test_a_short_time_is_no_root() -> None:
    """Steps of a short time are short themselves, away from a root, and at one."""
    with pytest.raises(ldiv.ConvergenceError, match="pseudo-transient continuation"):
        ldiv.root(hump, tensor([2.0]), tensor([4.0]), method="ptc", dt0=1e-14, maxiter=1)
    x = ldiv.root(hump, tensor([-2.0]), tensor([4.0]), method="ptc", dt0=1e-14)
    torch.testing.assert_close(x, tensor([-2.0]))


def test_what_pseudo_time_refuses() -> None:
    start, p = tensor([2.0, 2.0]), tensor([4.0, 4.0])
    for wrong in (0.0, -1.0, np.nan, np.ones(3), "soon"):
        with pytest.raises(
            ValueError, match=r"dt0: expected a positive number, or an array \(2,\)"
        ):
            ldiv.root(hump, start, p, method="ptc", dt0=wrong)
    with pytest.raises(ValueError, match="dt0: expected method='ptc' beside it"):
        ldiv.root(hump, start, p, dt0=1.0)
    x = ldiv.root(hump, start, p, method="ptc", dt0=[1.0, 0.1])
    torch.testing.assert_close(x, tensor([-2.0, -2.0]))
    with pytest.raises(TypeError, match="dt0"):
        jax.jit(
            lambda dt: ldiv.root(
                hump, jax.numpy.ones(1), 4 * jax.numpy.ones(1), method="ptc", dt0=dt
            )
        )(1.0)


@pytest.mark.parametrize("n", [3, 64, 65])
def test_f_is_evaluated_once_at_each_point(n: int) -> None:
    """The graph of f at a point gives its row of the Jacobian, too; the last Jacobian serves the
    gradient, and not a second derivative. Up to 64 unknowns the steps are those of NumPy arrays.
    """
    points: list[bytes] = []

    def f(x: Any, p: Any) -> Any:
        points.append(x.detach().numpy().tobytes())
        return x**3 + p * x - 1

    p = torch.linspace(1, 2, n).double().requires_grad_()
    x = ldiv.root(f, torch.ones(n).double(), p)
    # x0 once more, when the arguments are looked at
    assert len(points) == len(set(points)) + 1
    torch.testing.assert_close(x**3 + p * x, torch.ones(n).double(), rtol=1e-14, atol=0.0)
    before = len(points)
    (slope,) = torch.autograd.grad(x.sum(), p, retain_graph=True)
    assert len(points) == before + 1
    # dx/dp = -x / (3 x^2 + p), and once more
    torch.testing.assert_close(slope, -x / (3 * x**2 + p))
    (dp,) = torch.autograd.grad(x.sum(), p, create_graph=True)
    (bend,) = torch.autograd.grad(dp.sum(), p)
    d = 3 * x**2 + p
    torch.testing.assert_close(bend, 2 * x / d**2 - 6 * x**3 / d**3)


@pytest.mark.parametrize("size", [1e-200, 1e200])
def test_unknowns_whose_squares_leave_the_range(size: float) -> None:
    x = ldiv.root(lambda x, p: x / p - 1, tensor([size, 2 * size]), tensor([3 * size, size]))
    torch.testing.assert_close(x, tensor([3 * size, size]), rtol=1e-15, atol=0.0)
