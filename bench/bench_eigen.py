"""Eigenpairs with gradients: over SciPy's forward alone, against who else differentiates them, and
without a matrix.

engine      10 pairs of K x = lam M x next to 0, value and gradient in the values of K and M, over SciPy's `eigsh` alone with the same
            engine, called by hand, as its OPinv; the ordering is counted on neither side. The
            gradient is that of eigenvalues and eigenvectors, or of eigenvalues only
peers       6 pairs, time, and the relative error against the formula over all pairs of LAPACK: `peers/eigen.py` says who, and how to install them
without     6 pairs of a LinearOperator, the 5-point stencil with a coefficient on every edge, by LOBPCG with multigrid, and the gradient
            in all coefficients, in a process of its own; the hierarchy is counted

    python bench/bench_eigen.py [--quick]
"""

from __future__ import annotations

import harness.one_thread  # noqa: F401  # isort: split

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

from peers import by_torch
from peers import eigen
import numpy as np
from problems import pencils
from problems import systems
from peers import raw
import scipy.sparse as sp
import torch
from bench_large import peak_gib
from harness.measure import Figure, arguments, compare, report, side_by_side
from scipy.sparse.linalg import LinearOperator, eigsh, splu

import ldiv
from ldiv.engines.libraries import mkl_pardiso
from ldiv.engines import registry

PAIRS, FEW = 10, 6
BOTH, ONLY = 1.6, 1.05  # the targets, with and without eigenvectors
ERROR = 1e-10
GIB = 8.0
SCIPY = "scipy forward"
SMALL: list[tuple[tuple[Any, ...], int]] = [
    (("linspace", 400), 5),
    (("grid", 20, 23), 5),
    (("membrane", 20, 23), 5),
    (("membrane", 30, 50), 3),
    (("grid", 40, 50), 3),
]

Factor = Callable[[float], Callable[[Any], Any]]  # of a multiple of K, as what solves with it


# -- over an engine -----------------------------------------------------------


def over_engine(engine: str, spec: tuple[Any, ...], rounds: int) -> list[Figure]:
    pencil = pencils.make(*spec)
    k, m, n = pencil.k, pencil.m, pencil.k.shape[0]
    factor, start = FACTORS[engine](k), np.random.default_rng(n).standard_normal(n)

    def scipy(scale: float) -> Any:
        inverse = LinearOperator((n, n), factor(scale), dtype=k.dtype)
        return eigsh(k * scale, PAIRS, M=m, sigma=0, OPinv=inverse, v0=start)

    K, M = map(by_torch.array, (k, m))
    weights = [torch.from_numpy(w) for w in eigen.weights(n, PAIRS)]

    def ours(count: int, scale: float) -> Any:
        values = (K.data * scale).requires_grad_(), M.data.clone().requires_grad_()
        found = ldiv.eigsh(K.with_data(values[0]), PAIRS, M=M.with_data(values[1]), sigma=0)
        return found[0].detach(), torch.autograd.grad(found[:count], values, weights[:count])

    names = {
        f"{engine}: value + gradient": lambda s: ours(2, s),
        f"{engine}: eigenvalues only": lambda s: ours(1, s),
    }
    with alone(engine):
        ldiv.clear_cache()
        np.testing.assert_allclose(ours(1, 1.0)[0], scipy(1.0)[0], rtol=1e-9)
        assert ldiv.cache_info().factorizations == 1
        seconds = side_by_side({SCIPY: scipy, **names}, lambda i: 1 + i / 1000, rounds)
    return [
        compare(seconds, pencil.title, name, SCIPY, target)
        for name, target in zip(names, (BOTH, ONLY), strict=True)
    ]


@contextmanager
def alone(engine: str) -> Iterator[None]:
    """The sparse engine that ldiv uses, of those that are installed."""
    found = registry.engines()
    before = dict(found)
    for other in {"superlu", "pardiso", "ldl", "lu"} - {engine}:
        del found[other]
    try:
        yield
    finally:
        found.clear()
        found.update(before)


def superlu(k: Any) -> Factor:
    order = raw.order_of_ldiv(k)
    place, in_order = np.argsort(order), raw.permuted(k, order)

    def factor(scale: float) -> Callable[[Any], Any]:
        lu = splu(in_order * scale, **raw.OPTIONS)
        return lambda b: lu.solve(b[order])[place]

    return factor


def pardiso(k: Any) -> Factor:
    """PARDISO as ldiv uses it for a symmetric matrix that need not be definite: L D L^T."""
    a = sp.csr_array(sp.triu(k))
    a.sort_indices()
    analysis = mkl_pardiso.Analysis(
        "her", a.dtype, (a.indptr.astype(np.int32), a.indices.astype(np.int32)), 2
    )

    def factor(scale: float) -> Callable[[Any], Any]:
        place = analysis.factor(a.data * scale)
        assert place is not None
        return lambda b: place.solve(b.reshape(-1, 1), False)[:, 0]

    return factor


FACTORS: dict[str, Callable[[Any], Factor]] = {"superlu": superlu, "pardiso": pardiso}


# -- against others -----------------------------------------------------------


def against_all(spec: tuple[Any, ...], rounds: int) -> tuple[list[Figure], list[str]]:
    """The figures of a problem, and the sentences about those who are missing."""
    pencil = pencils.make(*spec)
    expected = eigen.reference(pencil, FEW)
    steps, errors, missing = {}, [], []
    for name, make in eigen.ALL.items():
        try:
            step = make(pencil, FEW)
            of_lam, of_gradient = eigen.error(pencil, expected, step(pencil.data))
        except eigen.Declined as error:
            missing.append(f"{pencil.title}: {name}: for {error}.")
        except ImportError as error:
            missing.append(f"{pencil.title}: {name}: cannot be imported ({error}).")
        except Exception as error:
            missing.append(
                f"{pencil.title}: {name}: {type(error).__name__}: {str(error).splitlines()[0][:150]}"
            )
        else:
            if not np.isfinite((of_lam, of_gradient)).all():
                missing.append(f"{pencil.title}: {name}: not a finite number.")
                continue
            steps[name] = step
            errors.append(Figure(pencil.title, f"error of the eigenvalues, {name}", of_lam, ""))
            errors.append(
                Figure(
                    pencil.title,
                    f"error of the gradient, {name}",
                    of_gradient,
                    "",
                    ERROR if name == "ldiv" else None,
                )
            )
    failed: dict[str, str] = {}
    contenders = {
        name: step if name == "ldiv" else _forgiven(step, partial(failed.__setitem__, name))
        for name, step in steps.items()
    }
    seconds = side_by_side(contenders, lambda i: [v * (1 + i / 1000) for v in pencil.data], rounds)
    missing += [f"{pencil.title}: {name}: in a later round {why}" for name, why in failed.items()]
    against = [
        compare(seconds, pencil.title, "ldiv", name, None if name in eigen.WHOLE else 1.0)
        for name in steps
        if name != "ldiv" and name not in failed
    ]
    return [*against, *errors], missing


def _forgiven(step: Callable[[Any], Any], note: Callable[[str], None]) -> Callable[[Any], Any]:
    """The step of another package, which may fail on the next values."""

    def run(values: Any) -> Any:
        try:
            return step(values)
        except Exception as error:
            note(f"{type(error).__name__}: {str(error).splitlines()[0][:150]}")

    return run


# -- without a matrix ---------------------------------------------------------


def stencil(p: tuple[Any, Any], X: Any) -> Any:
    """-div (c grad X) on a rectangle, X = 0 around it; p = c on edges along, (rows, columns +
    1), and across, (rows + 1, columns).
    """
    along, across = (c[..., None] for c in p)
    u = X.reshape(along.shape[0], across.shape[1], -1)
    flow = (
        torch.diff(along * torch.diff(_edged(u, 1), dim=1), dim=1),
        torch.diff(across * torch.diff(_edged(u, 0), dim=0), dim=0),
    )
    return -(flow[0] + flow[1]).reshape(X.shape)


def _edged(u: Any, dim: int) -> Any:
    """Zeros before and after."""
    return torch.nn.functional.pad(u, (0, 0, 1, 1) if dim == 1 else (0, 0, 0, 0, 1, 1))


def lowest(rows: int, columns: int) -> Any:
    """The eigenvalues for c = 1."""
    one, two = (
        4 * np.sin(np.arange(1, FEW + 1) * np.pi / (2 * side + 2)) ** 2 for side in (rows, columns)
    )
    return np.sort(np.add.outer(one, two).ravel())[:FEW]


def inside(rows: int, columns: int) -> dict[str, float]:
    """The measured process. c . gradient = w_bar . w, for w is proportional to c, and v does not
    change.
    """
    n = rows * columns
    rng = np.random.default_rng(n)
    X, w_bar, v_bar = (
        torch.from_numpy(rng.standard_normal(shape)) for shape in ((n, FEW), FEW, (n, FEW))
    )
    c = tuple(
        torch.ones(shape, dtype=torch.float64, requires_grad=True)
        for shape in ((rows, columns + 1), (rows + 1, columns))
    )
    near = by_torch.array(systems.poisson(rows, columns))
    times = [time.perf_counter()]
    A = ldiv.LinearOperator(stencil, c, shape=(n, n), assume_a="pos")
    w, v = ldiv.lobpcg(A, X, M=ldiv.preconditioner(near, "amg", assume_a="pos"), largest=False)
    times.append(time.perf_counter())
    gradient = torch.autograd.grad((w, v), c, (w_bar, v_bar))
    times.append(time.perf_counter())
    w, exact = w.detach(), lowest(rows, columns)
    slope = sum(float((g * x.detach()).sum()) for g, x in zip(gradient, c, strict=True))
    return {
        "forward": times[1] - times[0],
        "gradient": times[2] - times[1],
        "gib": peak_gib(),
        "of_w": float(np.max(abs(w.numpy() - exact) / exact)),
        "of_c": abs(slope - float(w_bar @ w)) / float(abs(w_bar * w).sum()),
    }


def without(rows: int, columns: int, *quick: str) -> list[Figure]:
    seen = json.loads(
        subprocess.run(
            [sys.executable, __file__, "--inside", *quick],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        ).stdout
    )
    problem = f"stencil, {systems.title(rows, columns)}"
    return [
        Figure(problem, "peak memory of the process", seen["gib"], "GiB", GIB),
        Figure(problem, "LOBPCG, hierarchy included", seen["forward"], "s"),
        Figure(problem, "gradient", seen["gradient"], "s"),
        Figure(problem, "error of the eigenvalues", seen["of_w"], ""),
        Figure(problem, "error of the gradient along c", seen["of_c"], ""),
    ]


def main() -> None:
    options = arguments(__doc__)
    quick = ["--quick"][: options.quick]
    grid = (20, 33) if quick else (760, 1316)
    if options.inside:
        inside(9, 13)  # what is loaded at the first call is loaded
        print(json.dumps(inside(*grid)))
        return
    large = (
        [(("membrane", 20, 25), 2)] if quick else [(("membrane", 200, 250), 7), (("block", 24), 3)]
    )
    small = [(("membrane", 15, 17), 2)] if quick else SMALL
    engines = [
        engine for engine in FACTORS if engine != "pardiso" or mkl_pardiso.path() is not None
    ]
    notes = [f"{engine}: not installed." for engine in FACTORS if engine not in engines]
    figures = [
        figure
        for engine in engines
        for spec, rounds in large
        for figure in over_engine(engine, spec, rounds)
    ]
    for spec, rounds in small:
        found, missing = against_all(spec, rounds)
        figures, notes = figures + found, notes + missing
    if find_spec("pyamg") is None:
        notes.append("pyamg: not installed.")
    else:
        figures += without(*grid, *quick)
    report("eigen", figures, options, "\n".join(notes))


if __name__ == "__main__":
    main()
