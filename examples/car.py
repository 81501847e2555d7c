"""Spatial statistics: a map of counts, sampled by PyMC with a sparse precision
============================================================================

Cases of a disease were counted in the regions of a map. Neighboring regions have similar risks, and a
river may separate those on its two banks: how much is asked of the data::

    y_i ~ Poisson(e_i exp(b + phi_i))                   e_i: the cases that one would expect
    phi ~ N(0, Q^-1)                                    a conditional autoregressive (CAR) prior
    Q = tau (D - alpha W),   D_ii = sum_j W_ij          W_ij: 1 for neighbors, delta across the river

Q has five entries a row. It depends on tau, alpha and delta, so that no eigenvalues can be computed
beforehand: each step of the sampler needs log det Q and its gradient. `ldiv.pytensor` gives both from
one sparse factorization; PyMC does the rest. The dense precision is compared on a small map.
Reference: Besag, Spatial interaction and the statistical analysis of lattice systems (1974).

::

    python examples/car.py [--size 50] [--draws 200] [--out out/car.png]
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import scipy.sparse as sp
from rich.console import Console

import ldiv.pytensor

NAMES = ("tau", "alpha", "delta")
TRUTH = (2.0, 0.98, 0.1)
TOLERANCE = 1e-10  # of the dense precision, relative


def river(x: Any, size: int) -> Any:
    """The height of the river above each place."""
    return size * (0.5 + 0.2 * np.sin(2 * np.pi * x / size))


def neighbors(size: int) -> tuple[Any, Any]:
    """The pattern of Q, and which of its entries lie across the river."""
    line = sp.diags_array([np.ones(size - 1)] * 2, offsets=[-1, 1])
    pattern = (sp.kronsum(line, line) + sp.eye_array(size**2)).tocoo()
    x, y = np.arange(size**2) % size, np.arange(size**2) // size
    north = y > river(x, size)
    return pattern, north[pattern.row] != north[pattern.col]


def precision(size: int, tau: Any, alpha: Any, delta: Any) -> ldiv.pytensor.SparseArray:
    """Q, whose numbers are variables of PyTensor."""
    pattern, across = neighbors(size)
    i, j = pattern.row, pattern.col
    plain, crossing = (np.bincount(i[(i != j) & at], minlength=size**2) for at in (~across, across))
    degree = (plain + delta * crossing)[i]
    weight = pt.where(across, delta, 1.0)
    return ldiv.pytensor.SparseArray(pattern, tau * pt.where(i == j, degree, -alpha * weight))


def dense_logpdf(phi: Any, Q: ldiv.pytensor.SparseArray) -> Any:
    """The log-density by Cholesky's factorization of the dense Q."""
    full = pt.set_subtensor(pt.zeros(Q.shape)[Q.row, Q.col], Q.values)
    half_log_det = pt.log(pt.diag(pt.linalg.cholesky(full))).sum()
    distance = (phi * (full * phi).sum(1)).sum()
    return half_log_det - (distance + Q.shape[0] * math.log(2 * math.pi)) / 2


def step(size: int, dense: bool) -> tuple[list[Any], float]:
    """The log-density and its gradient at one point, and the seconds that they take."""
    phi = pt.vector("phi", dtype="float64")
    theta = [pt.scalar(name, dtype="float64") for name in NAMES]
    Q = precision(size, *theta)
    logp = dense_logpdf(phi, Q) if dense else ldiv.pytensor.gaussian_logpdf(phi, precision=Q)
    f = pytensor.function([phi, *theta], [logp, *pytensor.grad(logp, [phi, *theta])])
    at = np.random.default_rng(0).standard_normal(size**2), *TRUTH
    values, times = f(*at), []
    for _ in range(5):
        start = time.perf_counter()
        f(*at)
        times.append(time.perf_counter() - start)
    return values, min(times)


@dataclass
class History:
    """The measurements of the run."""

    difference: float = np.inf  # of sparse and dense, relative
    seconds: dict[str, float] = field(default_factory=dict)  # of a step, and of the sampling
    samples: dict[str, Any] = field(default_factory=dict)
    correlation: float = 0.0  # of the true and the found phi
    picture: Path | None = None


def compare(history: History, size: int, console: Console) -> None:
    (sparse, quick), (dense, slow) = step(10, dense=False), step(10, dense=True)
    pairs = zip(sparse, dense, strict=True)
    history.difference = max(float(abs(a - b).max() / abs(b).max()) for a, b in pairs)
    console.print(f"100 regions: sparse and dense differ by {history.difference:.0e}")
    history.seconds = {
        "sparse": quick,
        "dense": slow,
        f"{size**2} regions": step(size, dense=False)[1],
    }
    times = ", ".join(f"{name} {1e3 * t:.2f} ms" for name, t in history.seconds.items())
    console.print(f"value and gradient: {times}")


def sampled(history: History, size: int, draws: int, console: Console) -> tuple[Any, Any, Any]:
    """The true phi, the raw risks and the trace, by the No-U-Turn sampler of PyMC."""
    random, i = np.random.default_rng(5), neighbors(size)[0]
    Q = ldiv.coo_array((precision(size, *TRUTH).values.eval(), (i.row, i.col)), shape=i.shape)
    true = ldiv.cholesky(Q).sample(random)
    expected = random.uniform(5, 30, size**2)
    counts = random.poisson(expected * np.exp(0.2 + true))
    with pm.Model():
        b = pm.Normal("b", 0, 1)
        theta = pm.Gamma("tau", 2, 1), pm.Beta("alpha", 10, 1), pm.Uniform("delta", 0, 1)
        phi = pm.Flat("phi", shape=size**2)
        prior = ldiv.pytensor.gaussian_logpdf(phi, precision=precision(size, *theta))
        pm.Potential("prior", prior)
        pm.Poisson("y", expected * pt.exp(b + phi), observed=counts)
        start = time.perf_counter()
        trace = pm.sample(
            draws, tune=draws, chains=1, cores=1, random_seed=1, progressbar=False
        ).posterior
    history.seconds["sampling"] = time.perf_counter() - start
    history.samples = {name: trace[name].values.ravel() for name in NAMES}
    found = trace["phi"].values[0].mean(0)
    history.correlation = float(np.corrcoef(found, true)[0, 1])
    console.print(f"{2 * draws} steps of the sampler in {history.seconds['sampling']:.0f} s")
    for (name, x), one in zip(history.samples.items(), TRUTH, strict=True):
        console.print(f"{name}: {x.mean():.3f} +- {x.std():.3f}, true {one}")
    return true, np.log(np.maximum(counts, 0.5) / expected) - 0.2, found


def draw(history: History, size: int, maps: tuple[Any, Any, Any], path: Path) -> None:
    figure, axes = plt.subplots(1, 4, figsize=(13, 3.4), layout="constrained")
    limit, x = abs(maps[0]).max(), np.linspace(0, size - 1, 200)
    for axis, values, name in zip(axes, maps, ("true", "counted", "found"), strict=False):
        image = values.reshape(size, size)
        axis.imshow(image, origin="lower", cmap="RdBu_r", vmin=-limit, vmax=limit)
        axis.plot(x, river(x, size), "k", linewidth=0.7)
        axis.set(title=f"logarithm of the risk, {name}", xticks=[], yticks=[])
    axes[3].hist(history.samples["delta"], bins=25, range=(0, 1), color="0.5")
    axes[3].axvline(TRUTH[2], color="k")
    axes[3].set(title="delta: weight across the river", yticks=[])
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=70)
    plt.close(figure)


def main(argv: Sequence[str] | None = None) -> History:
    """Run; exit with 1 if the dense precision gives something else."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--size", type=int, default=50, help="regions a side (default: 50)")
    parser.add_argument("--draws", type=int, default=200, help="after as many (default: 200)")
    parser.add_argument("--out", type=Path, default=Path("out/car.png"))
    args = parser.parse_args(argv)
    console, history = Console(), History()
    compare(history, args.size, console)
    if not history.difference < TOLERANCE:
        raise SystemExit(1)
    maps = sampled(history, args.size, args.draws, console)
    draw(history, args.size, maps, args.out)
    history.picture = args.out
    console.print(f"picture in {args.out}")
    return history


if __name__ == "__main__":
    main()
