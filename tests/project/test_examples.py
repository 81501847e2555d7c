"""Every script in examples/ runs, at a small size, and its numbers hold."""

from __future__ import annotations

import importlib.util
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import optimize, stats
from scipy.sparse.linalg import spsolve

import ldiv

EXAMPLES = Path(__file__).parents[2] / "examples"
# and what each needs
TESTED = {
    "topology": ("jax", "skfem"),
    "car": ("pymc",),
    "conductivity": ("jax", "optax"),
    "distributed": ("torch", "mpi4py", "petsc4py"),
    "eigenfrequency": ("torch", "skfem"),
    "inversion": ("torch", "skfem"),
    "circuit": ("jax",),
    "corners": ("jax",),
    "gaussian_process": ("jax",),
    "gmrf": ("torch", "skfem"),
    "graph_learning": ("torch",),
    "inplace_adjoint": (),
    "kalman": ("torch",),
    "laplace": ("torch",),
    "portfolio": ("torch", "clarabel"),
    "power_flow": ("jax",),
    "predictive_control": ("torch", "clarabel"),
    "range_map": ("torch",),
    "sharded": ("jax",),
    "spectral_drawing": ("torch",),
    "volatility": ("torch",),
    "waveguide": ("torch",),
}


@pytest.fixture
def script(request: pytest.FixtureRequest) -> Iterator[ModuleType]:
    """The script that the test names, loaded by its path."""
    for needed in (*TESTED[request.param], "matplotlib", "rich"):
        pytest.importorskip(needed, reason=f"the examples need {needed}: install ldiv[examples]")
    spec = importlib.util.spec_from_file_location(
        f"examples_{request.param}", EXAMPLES / f"{request.param}.py"
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look for the names in their annotations
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


@pytest.mark.parametrize("name", sorted(TESTED))
def test_the_title_is_underlined(name: str) -> None:
    """The gallery asks for an underline from end to end."""
    title, line = (EXAMPLES / f"{name}.py").read_text().split("\n")[:2]
    assert set(line) == {"="} and len(line) >= len(title.removeprefix('"""'))


def test_no_example_is_forgotten() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == set(TESTED)


@pytest.mark.parametrize("script", ["topology"], indirect=True)
@pytest.mark.parametrize(
    ("assume_a", "iterations"), [("pos", 8), pytest.param("gen", 30, marks=pytest.mark.exhaustive)]
)
def test_topology(script: ModuleType, assume_a: str, iterations: int, tmp_path: Path) -> None:
    picture = tmp_path / "new" / "topology.png"
    history = script.main(
        [
            "--size",
            "60",
            "20",
            "--iterations",
            str(iterations),
            "--assume-a",
            assume_a,
            "--out",
            str(picture),
        ]
    )
    assert history.gradient_error < 1e-6
    assert len(history.compliance) == iterations
    assert history.compliance[-1] < history.compliance[0] / 3
    assert history.volume == pytest.approx([script.SHARE] * iterations, abs=1e-6)
    assert history.picture == picture and picture.read_bytes().startswith(b"\x89PNG")
    info = ldiv.cache_info()
    assert info.analyses == 1
    # one a matrix; the store keeps two, so that the four others of the check push out the first one,
    # which is made once more unless somebody else holds it; the adjoints factor nothing
    assert iterations + 4 <= info.factorizations <= iterations + 5


@pytest.mark.exhaustive
@pytest.mark.parametrize("script", ["topology"], indirect=True)
def test_topology_refuses_a_wrong_gradient(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    right = script.with_gradient
    monkeypatch.setattr(
        script, "with_gradient", lambda *args: (right(*args)[0], 1.001 * right(*args)[1])
    )
    with pytest.raises(SystemExit) as end:
        script.main(["--size", "24", "8", "--iterations", "1", "--out", str(tmp_path / "none.png")])
    assert end.value.code == 1


@pytest.mark.exhaustive
@pytest.mark.parametrize("script", ["conductivity"], indirect=True)
def test_conductivity(script: ModuleType, tmp_path: Path) -> None:
    picture = tmp_path / "new" / "conductivity.png"
    history = script.main(
        ["--size", "16", "--sensors", "7", "--iterations", "15", "--out", str(picture)]
    )
    assert history.gradient_error < 1e-6
    assert len(history.misfit) == 16
    assert history.misfit[-1] < history.misfit[0] / 100
    assert history.error[-1] < 0.3 * history.error[0]
    assert history.correlation > 0.95
    assert history.picture == picture and picture.read_bytes().startswith(b"\x89PNG")
    info = ldiv.cache_info()
    assert info.analyses == 2  # one a mesh
    # one for each point that the line search tries: the adjoints factor nothing
    assert 15 <= info.factorizations < 45 < info.solves


@pytest.mark.exhaustive
@pytest.mark.parametrize("script", ["conductivity"], indirect=True)
def test_conductivity_refuses_a_wrong_gradient(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(script, "gradient_error", lambda *args: 1e-5)
    with pytest.raises(SystemExit) as end:
        script.main(
            [
                "--size",
                "8",
                "--sensors",
                "3",
                "--iterations",
                "1",
                "--out",
                str(tmp_path / "none.png"),
            ]
        )
    assert end.value.code == 1


@pytest.mark.parametrize("script", ["conductivity"], indirect=True)
def test_conductivity_wants_sensors_on_nodes(script: ModuleType) -> None:
    with pytest.raises(SystemExit) as end:
        script.main(["--size", "10", "--sensors", "3"])
    assert end.value.code == 2


@pytest.mark.exhaustive
@pytest.mark.parametrize("script", ["eigenfrequency"], indirect=True)
def test_eigenfrequency(script: ModuleType, tmp_path: Path) -> None:
    picture = tmp_path / "new" / "eigenfrequency.png"
    history = script.main(["--refine", "2", "--steps", "30", "--out", str(picture)])
    # of the first frequency and of the mean of the pair, before and after
    assert len(history.errors) == 4
    assert max(history.errors) < 1e-7
    assert len(history.frequencies) == 31
    assert history.frequencies[0] == pytest.approx([31.0957, 57.8573, 57.8573], abs=1e-4)
    assert history.frequencies[-1][0] > 1.6 * history.frequencies[0][0]
    assert max(abs(history.gap(step)) for step in range(31)) < 1e-10  # the pair is one all the way
    assert history.volume == pytest.approx([1.0] * 31, abs=1e-9)
    assert "eigenvalue" in history.refusal
    assert history.picture == picture and picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("script", ["eigenfrequency"], indirect=True)
@pytest.mark.parametrize("broken", [("gradient_error", 1e-5), ("refusal", "")])
def test_eigenfrequency_refuses_a_wrong_gradient(
    script: ModuleType, broken: tuple[str, object], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    name, answer = broken
    monkeypatch.setattr(script, name, lambda *args: answer)
    with pytest.raises(SystemExit) as end:
        script.main(["--refine", "1", "--steps", "1", "--out", str(tmp_path / "none.png")])
    assert end.value.code == 1


@pytest.mark.exhaustive
@pytest.mark.parametrize("script", ["inversion"], indirect=True)
def test_inversion(script: ModuleType, tmp_path: Path) -> None:
    picture = tmp_path / "new" / "inversion.png"
    history = script.main(["--size", "4", "--steps", "3", "--out", str(picture)])
    assert max(history.gradient_error, history.hessian_error) < 1e-8
    newton, quasi = (history.values[name] for name in ("Newton-CG", "L-BFGS-B"))
    assert len(newton) == len(quasi) == 4
    assert newton[-1] < newton[0] / 5
    assert quasi[-1] < quasi[0]
    assert history.picture == picture and picture.read_bytes().startswith(b"\x89PNG")


# -- scripts of cells: they run from top to bottom, and leave their names ------------------------


def cells(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The names that a script leaves; its picture is in `folder`."""
    for needed in (*TESTED[name], "matplotlib", "rich"):
        pytest.importorskip(needed, reason=f"the examples need {needed}: install ldiv[examples]")
    monkeypatch.chdir(folder)
    left = runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name=name)
    picture = folder / "out" / f"{name}.png"
    assert picture.read_bytes().startswith(b"\x89PNG")
    return SimpleNamespace(**left)


@pytest.mark.parametrize("script", ["distributed"], indirect=True)
@pytest.mark.parametrize("solver", ["direct", "iterative"])
def test_distributed(script: ModuleType, solver: str, tmp_path: Path) -> None:
    """The example runs on one process here, on more with mpirun; Euler's identity holds."""
    picture = tmp_path / "distributed.png"
    argv = ["--size", "40", "--solver", solver, "--out", str(picture)]
    assert script.main(argv) < 1e-8
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_spectral_drawing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against the solid: where its edges are equally long, and its coordinates an eigenvector."""
    it = cells("spectral_drawing", tmp_path, monkeypatch)
    node = np.array([2 * it.solid[i] + it.solid[j] for i, j in it.names]) / 3
    # at a node x: w_b (x - there) + w_a (2 x - left - right) = lam x
    x, there = node[0], node[dict(it.between)[0]]
    sides = [node[a + b] for a, b in it.around if 0 in (a, b)]
    system = np.stack([x - there, -x], axis=1)
    weight, _ = np.linalg.lstsq(system, -(2 * x - sum(sides)), rcond=None)[0]
    assert it.final < 1e-10 < it.start
    assert it.ratio == pytest.approx(weight, rel=1e-5)


@pytest.mark.exhaustive
def test_graph_learning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The resistance of each present link at the optimum is the difference that was seen."""
    it = cells("graph_learning", tmp_path, monkeypatch)
    i, j = it.links.T
    Q = np.diag(np.full(it.n, it.ground))
    for a, b, w in zip(i, j, it.found.x, strict=True):
        Q[[a, b], [a, b]] += w
        Q[[a, b], [b, a]] -= w
    inverse = np.linalg.inv(Q)
    slope = it.seen - (inverse[i, i] + inverse[j, j] - 2 * inverse[i, j])
    there = it.found.x > 0
    assert np.abs(slope[there]).max() < 0.02 * it.seen.mean()
    assert slope[~there].min() > -0.02 * it.seen.mean()
    assert it.score > 0.9 and it.correlation > 0.97


@pytest.mark.exhaustive
def test_range_map(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SciPy stays at this minimum, with a Jacobian of its own."""
    it = cells("range_map", tmp_path, monkeypatch)
    a, b = it.links.T

    def residual(x: Any) -> Any:
        at = x.reshape(-1, 2)
        ranges = np.linalg.norm(at[a] - at[b], axis=1) - it.distances
        return np.concatenate([ranges / it.noise, (x - it.rough.numpy()) / it.rough_noise])

    def jacobian(x: Any) -> Any:
        at, J = x.reshape(-1, 2), np.zeros((it.m + 2 * it.n, 2 * it.n))
        along = (at[a] - at[b]) / np.linalg.norm(at[a] - at[b], axis=1)[:, None] / it.noise
        k = np.arange(it.m)[:, None]
        J[k, 2 * a[:, None] + [0, 1]], J[k, 2 * b[:, None] + [0, 1]] = along, -along
        J[it.m :] = np.eye(2 * it.n) / it.rough_noise
        return J

    x = it.x.detach().numpy()
    r = residual(x)
    g = jacobian(x).T @ (r / (1 + (r / 2) ** 2))
    assert np.abs(g).max() < 1e-8
    theirs = optimize.least_squares(
        residual, x, jacobian, loss="cauchy", f_scale=2.0, xtol=1e-12, ftol=1e-12, gtol=1e-10
    )
    assert theirs.x == pytest.approx(x, abs=1e-8)
    assert it.error(it.x) < 0.2 * it.error(it.rough)
    assert it.slope.item() == pytest.approx(it.difference, rel=1e-4)


@pytest.mark.exhaustive
def test_inplace_adjoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    it = cells("inplace_adjoint", tmp_path, monkeypatch)
    assert it.misfit < 2e-3
    A = np.eye(it.n) + it.dt * (it.velocity * it.flow + it.conductivity * it.conduction)
    u = np.zeros((it.n, 1))
    for q in it.heating:
        u = np.linalg.solve(A, u + q * it.inlet)
    assert u[:, 0] == pytest.approx(it.end, abs=1e-10)
    assert it.of_conductivity == pytest.approx((it.above - it.below) / (2 * it.h), rel=1e-5)
    _, slope, _, _ = it.with_gradient(np.zeros(it.steps), it.conductivity)
    value = lambda q: it.with_gradient(q, it.conductivity)[0]
    one = np.eye(it.steps)[40]
    # the misfit is quadratic: a central difference is exact
    assert slope[40] == pytest.approx((value(one) - value(-one)) / 2, rel=1e-9)


def kalman_filter(it: SimpleNamespace) -> float:
    """The likelihood, one step after the other."""
    x, P, value = np.zeros(4), it.start, 0.0
    for y in it.seen:
        spread = it.H @ P @ it.H.T + it.r * np.eye(2)
        value += stats.multivariate_normal.logpdf(y, it.H @ x, spread)
        gain = P @ it.H.T @ np.linalg.inv(spread)
        x, P = x + gain @ (y - it.H @ x), P - gain @ it.H @ P
        last = x, P
        x, P = it.F @ x, it.F @ P @ it.F.T + it.q * it.W
    # the filter has seen all at the end: there it is the smoother
    assert it.smooth[-1] == pytest.approx(last[0], rel=1e-6)
    assert it.bars[-1] ** 2 == pytest.approx(np.diag(last[1]), rel=1e-6)
    return value


def test_kalman(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    it = cells("kalman", tmp_path, monkeypatch)
    assert -it.found.fun == pytest.approx(kalman_filter(it), rel=1e-8)
    assert it.q == pytest.approx(it.q_true, rel=0.3) and it.r == pytest.approx(it.r_true, rel=0.2)
    assert it.error < 3 and it.inside > 0.9


@pytest.mark.exhaustive
def test_gaussian_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    it = cells("gaussian_process", tmp_path, monkeypatch)
    K = np.asarray(it.covariance(it.theta))
    assert -it.found.fun == pytest.approx(stats.multivariate_normal.logpdf(it.y, cov=K), rel=1e-8)
    assert abs(it.theta[3]) < 3 * it.spread[3] < 0.02  # one year
    assert np.exp(it.theta[5]) == pytest.approx(it.noise, rel=0.2)
    assert (abs(it.mean - it.truth(it.s)) < 2 * it.band).mean() > 0.9


@pytest.mark.exhaustive
def test_circuit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    it = cells("circuit", tmp_path, monkeypatch)
    assert (abs(it.found.x - it.true) < 4 * it.spread).all()
    h = 1e-5
    moved = [np.asarray(it.curve(it.true.at[0].add(s))) for s in (h, -h)]
    slope = np.asarray(it.slopes(it.true))[:, 0]
    assert slope == pytest.approx((moved[0] - moved[1]) / (2 * h), abs=1e-5 * abs(slope).max())


@pytest.mark.exhaustive
def test_corners(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Roots by SciPy, the gradient by differences; no Python in the program."""
    it = cells("corners", tmp_path, monkeypatch)
    factors = [(I.max(1) / I.min(1)).max() for I in (it.before, it.after)]
    assert factors[1] < 1.35 < 1.5 < factors[0]
    assert float(it.step(it.alike)[1][-1]) == pytest.approx(it.slope, rel=1e-6)
    alike, corner = it.jnp.asarray(it.alike), it.jnp.asarray(it.corners[37])
    compiled = it.jax.jit(it.balance)

    def balance(v: np.ndarray) -> np.ndarray:
        return np.asarray(compiled(v, (alike, corner)))

    v = it.ldiv.root(it.balance, it.guess, (alike, corner), pattern=it.pattern)
    state = optimize.root(balance, np.asarray(v) + 1e-4, tol=1e-10).x
    assert it.before[37] == pytest.approx(np.asarray(it.currents(state, corner)[0]), rel=1e-6)
    program = it.jax.jit(it.jax.vmap(it.jax.grad(it.unevenness), (None, 0)))
    assert "ldiv_sparse_5" in program.lower(it.alike, it.corners).as_text()


@pytest.mark.exhaustive
def test_power_flow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    it = cells("power_flow", tmp_path, monkeypatch)
    assert 100 * it.ordinary / it.areas == pytest.approx(4.641, abs=1e-3)  # as printed in the book
    P, Q = np.asarray(it.storm)
    compiled = it.jax.jit(it.mismatch)

    def losses(P: np.ndarray) -> float:
        def mismatch(x: np.ndarray) -> np.ndarray:
            return np.asarray(compiled(x, np.stack([P, Q])))

        state = optimize.root(mismatch, it.flat, tol=1e-12).x
        return float(it.injection(state)[0].sum())

    h = 1e-4 * np.eye(it.n)[it.worst]
    slope = -(losses(P + h) - losses(P - h)) / 2e-4
    assert float(it.price[it.worst]) == pytest.approx(slope, rel=1e-4)


@pytest.mark.exhaustive
def test_waveguide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The design, once more by SciPy."""
    it = cells("waveguide", tmp_path, monkeypatch)
    assert it.best > 0.85 > 0.1 > it.plain

    def passes(eps: np.ndarray, at: tuple[object, ...]) -> float:
        A = it.laplacian.detach().to_scipy() + sp.diags_array(it.k**2 * eps.ravel())
        E = spsolve(A.tocsc(), it.f.numpy()).reshape(it.n, it.n)
        return float(abs(it.mode @ E[at]) ** 2)

    end, everywhere = -it.wall - 4, slice(None)
    through = passes(it.final.numpy(), (everywhere, end))
    assert it.best == pytest.approx(through / passes(it.straight.numpy(), (end,)), rel=1e-8)


@pytest.mark.parametrize("script", ["gmrf"], indirect=True)
def test_gmrf(script: ModuleType, tmp_path: Path) -> None:
    picture = tmp_path / "new" / "gmrf.png"
    history = script.main(["--size", "19", "--points", "300", "--out", str(picture)])
    assert max(history.gradient_error, history.hessian_error) < 1e-8
    assert history.decrement[-1] < script.CONVERGED
    assert history.likelihood == sorted(history.likelihood)
    # within three deviations of the truth, which are those of the logarithms
    away = np.log(history.found) - np.log(script.TRUTH)
    assert (abs(away) < 3 * np.array(history.deviations)).all()
    assert 0.9 < history.covered < 0.99
    assert history.picture == picture and picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("script", ["gmrf"], indirect=True)
def test_gmrf_is_that_of_dense_matrices(script: ModuleType) -> None:
    """400 nodes: the likelihood, its gradient and its Hessian, mean and deviations, to 1e-9."""
    import torch

    problem = script.square(19, 150)
    theta = torch.tensor([0.3, 0.8, 0.3], dtype=torch.float64).log()
    _, y = script.sampled(problem, theta)
    value, gradient, hessian = script.derivatives(problem, theta, y)
    p = problem.interpolation.toarray()

    def covariance(theta: torch.Tensor) -> torch.Tensor:
        kappa, tau, _ = script.strengths(theta)
        k = problem.operator(kappa).toarray()
        left = torch.linalg.solve(k, problem.diagonal.sqrt().diag())
        return left @ left.T / tau**2

    def dense(theta: torch.Tensor) -> torch.Tensor:
        noise = torch.eye(150, dtype=torch.float64) / script.strengths(theta)[2]
        law = torch.distributions.MultivariateNormal(
            torch.zeros(150, dtype=torch.float64), p @ covariance(theta) @ p.T + noise
        )
        return law.log_prob(y)

    assert value == pytest.approx(dense(theta).item(), rel=1e-9)
    slope = torch.func.grad(dense)(theta)
    assert float((gradient - slope).norm() / slope.norm()) < 1e-9
    turn = torch.func.hessian(dense)(theta)
    assert float((hessian - turn).norm() / turn.norm()) < 1e-9

    precision = script.posterior(problem, theta)
    mean = script.expected(problem, theta, y, precision)
    s, prior = script.strengths(theta)[2], covariance(theta)
    inside = torch.linalg.inv(torch.linalg.inv(prior) + s * p.T @ p)
    assert float((mean - s * inside @ (p.T @ y)).abs().max() / mean.abs().max()) < 1e-9
    variances = ldiv.inverse_diagonal(precision, assume_a="pos")
    assert float((variances / inside.diagonal() - 1).abs().max()) < 1e-9


@pytest.mark.parametrize("script", ["gmrf"], indirect=True)
def test_gmrf_refuses_a_wrong_derivative(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    right = script.derivatives

    def wrong(*args: object) -> tuple[float, object, object]:
        value, gradient, hessian = right(*args)
        return value, 1.001 * gradient, hessian

    monkeypatch.setattr(script, "derivatives", wrong)
    with pytest.raises(SystemExit) as end:
        script.main(["--size", "8", "--points", "30", "--out", str(tmp_path / "none.png")])
    assert end.value.code == 1


@pytest.mark.exhaustive
@pytest.mark.parametrize("script", ["laplace"], indirect=True)
def test_laplace(script: ModuleType, tmp_path: Path) -> None:
    picture = tmp_path / "new" / "laplace.png"
    history = script.main(["--size", "10", "--steps", "3", "--sensors", "4", "--out", str(picture)])
    assert history.gradient_error < 1e-7
    assert len(history.unknown) == 4
    assert history.unknown == sorted(history.unknown, reverse=True)
    assert history.unknown[-1] < 0.9 * history.unknown[0]
    assert history.inside > 0.8
    assert history.picture == picture and picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("script", ["laplace"], indirect=True)
def test_laplace_refuses_a_wrong_gradient(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(script, "gradient_error", lambda *args: 1e-5)
    with pytest.raises(SystemExit) as end:
        script.main(["--size", "6", "--steps", "1", "--out", str(tmp_path / "none.png")])
    assert end.value.code == 1


@pytest.mark.parametrize("script", ["car"], indirect=True)
@pytest.mark.filterwarnings("ignore")  # of others, about their own versions and compilers
def test_car(script: ModuleType, tmp_path: Path) -> None:
    """Sparse and dense agree, and the sampler finds the map."""
    picture = tmp_path / "new" / "car.png"
    history = script.main(["--size", "6", "--draws", "40", "--out", str(picture)])
    assert history.difference < 1e-12
    assert history.correlation > 0.6
    assert history.picture == picture and picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.exhaustive
def test_volatility(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The truth is within three standard deviations, and importance sampling finds the integral."""
    it = cells("volatility", tmp_path, monkeypatch)
    off = [
        float(x) - it.truth[name] for name, x in zip(it.truth, it.natural(it.theta), strict=True)
    ]
    assert (abs(np.array(off)) < 3 * it.deviations.numpy()).all()
    assert 0.9 < it.inside < 0.99
    assert abs(float(it.found.value) - it.sampled) < 0.5
    theirs, h = it.fit.jac, 1e-4
    for i, slope in enumerate(theirs):
        step = h * np.eye(3)[i]
        assert (
            abs((it.loss(it.fit.x + step)[0] - it.loss(it.fit.x - step)[0]) / (2 * h) - slope)
            < 1e-4
        )


@pytest.mark.exhaustive
def test_portfolio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SciPy's portfolio is the same, and learning lowers the risk where it was learned."""
    it = cells("portfolio", tmp_path, monkeypatch)
    assert np.allclose(it.slope, it.differences, rtol=1e-5, atol=1e-8)
    end, choice = it.learned[3], it.choice.detach()
    C = it.covariance(it.days[end - it.window : end], choice).numpy()
    held = it.portfolio(end, choice).numpy()
    theirs = optimize.minimize(
        lambda w: w @ C @ w / 2,
        np.full(it.assets, 1 / it.assets),
        jac=lambda w: C @ w,
        bounds=[(0, 0.25)] * it.assets,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1, "jac": np.ones_like},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert abs(held - theirs.x).max() < 1e-5 and held @ C @ held / 2 < theirs.fun + 1e-12
    assert it.risk(it.learned, it.best.detach()) < it.risk(it.learned, choice)


@pytest.mark.exhaustive
def test_predictive_control(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Least squares with bounds give the same force: min |sqrt(Q) (E u + d)|^2 + r |u|^2."""
    it = cells("predictive_control", tmp_path, monkeypatch)
    assert np.allclose(it.slope, it.differences, rtol=1e-5)
    assert it.last < 0.8 * it.first
    x, (m, c) = np.array([1.0, -0.4]), it.model.detach().exp().numpy()
    A, B = np.array([[1, it.dt], [0, 1 - it.dt * c / m]]), np.array([0, it.dt / m])
    power = [np.linalg.matrix_power(A, k) for k in range(it.horizon + 1)]
    E = np.zeros((it.horizon, 2, it.horizon))
    for k in range(it.horizon):
        for j in range(k + 1):
            E[k, :, j] = power[k - j] @ B
    root = np.sqrt(it.weight.numpy())
    rows = (root[:, None] * E).reshape(-1, it.horizon)
    d = np.concatenate([root * (power[k + 1] @ x) for k in range(it.horizon)])
    theirs = optimize.lsq_linear(
        np.vstack([rows, it.price**0.5 * np.eye(it.horizon)]),
        np.concatenate([-d, np.zeros(it.horizon)]),
        bounds=(-1, 1),
        method="bvls",
    )
    ours = it.force(it.torch.from_numpy(x), it.model.detach())
    assert abs(float(ours) - theirs.x[0]) < 1e-9
