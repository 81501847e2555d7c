"""The table that opens RESULTS.md, and a picture for each file of results: figures over their goals.

python bench/summary.py
"""

from __future__ import annotations

import json
import math
from html import escape
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PAGE = HERE / "RESULTS.md"
BEGIN, END = "<!-- by summary.py -->\n", "<!-- end -->"

# file, problem, what, and the same in words
ROWS = (
    (
        "peers",
        "2D Poisson, n = 250,000 (best engine)",
        "ldiv pardiso / sparsax CHOLMOD",
        "sparse solve, 2D, n = 250,000, over the best of six packages",
    ),
    (
        "peers",
        "adder_dcop_05 (best engine)",
        "ldiv lu / sparsax KLU",
        "a circuit, n = 1,813, over sparsax with KLU",
    ),
    (
        "solve",
        "2D Poisson, n = 250,000",
        "loop, gen / raw SuperLU",
        "sparse solve by SuperLU, 2D, n = 250,000, over SuperLU by hand",
    ),
    (
        "engines",
        "3D Poisson, n = 64,000",
        "ldiv pardiso / raw pardiso",
        "sparse solve by PARDISO, 3D, n = 64,000, over PARDISO by hand",
    ),
    ("calls", "dense 4 x 4", "ldiv / torch", "dense solve, 4 x 4, over `torch.linalg.solve`"),
    ("calls", "dense 64 x 64", "ldiv / torch", "dense solve, 64 x 64, over `torch.linalg.solve`"),
    (
        "calls",
        "tridiagonal, n = 100",
        "ldiv / by hand",
        "sparse call, n = 100, over SuperLU without checks",
    ),
    ("calls", "tridiagonal, n = 100, by SuperLU", "ldiv / by hand", "the same by ldiv's SuperLU"),
    (
        "jax",
        "circuit, n = 5,000, 5 calls",
        "ldiv in jax / sparsax KLU",
        "`jit`, a circuit, n = 5,000, over sparsax with KLU",
    ),
    (
        "jax",
        "2D Poisson, n = 250,000",
        "ldiv in jax / jax spsolve",
        "`jit`, 2D, n = 250,000, over JAX's `spsolve`",
    ),
    (
        "corners",
        "500 nodes, 64 corners, value and gradient",
        "ldiv / klujax",
        "Newton's method on a circuit, 64 corners by `vmap`, over klujax",
    ),
    (
        "iterative",
        "2D Poisson, n = 1,000,000",
        "value + gradient / raw pyamg",
        "CG with multigrid, n = 1,000,000, over one raw solve by pyamg",
    ),
    (
        "large",
        "2D Poisson, n = 1,000,000",
        "peak memory of the process",
        "memory of a factorization with gradient, n = 1,000,000",
    ),
    (
        "eigen",
        "membrane, n = 50,000",
        "pardiso: value + gradient / scipy forward",
        "ten eigenpairs, 2D, n = 50,000, over SciPy without a gradient",
    ),
    (
        "logdet",
        "2D Poisson, n = 90,000 (pardiso)",
        "value and gradient / fastest",
        "`logdet` with gradient, 2D, n = 90,000, over one factorization",
    ),
    (
        "logdet",
        "3D Poisson, n = 15,625 (pardiso)",
        "value and gradient / fastest",
        "`logdet` with gradient, 3D, n = 15,625, over one factorization",
    ),
    (
        "gaussian",
        "Gaussian KL, n = 2048",
        "ldiv / torch, well",
        "divergence of two Gaussians, n = 2,048, over PyTorch",
    ),
    (
        "functions",
        "expm, n = 100",
        "ldiv / by hand",
        "`expm`, n = 100, over SciPy's pieces by hand",
    ),
    (
        "functions",
        "eigvals, n = 100",
        "ldiv / by hand",
        "`eigvals`, n = 100, over SciPy's pieces by hand",
    ),
    (
        "jacobian",
        "five-point stencil, n = 5,041",
        "ldiv / torch.func.jacrev",
        "sparse Jacobian, n = 5,041, over a dense `torch.func.jacrev`",
    ),
    (
        "fits",
        "nonlinear, n = 968",
        "ldiv / jaxopt, LevenbergMarquardt",
        "nonlinear fit, n = 968, over JAXopt",
    ),
    (
        "least_squares",
        "99,458 unknowns, 305,582 residuals, huber",
        "both, first",
        "robust fit of 99,458 unknowns, value and gradient",
    ),
    (
        "laplace",
        "volatility, n = 100,000",
        "value + gradient / factorizations",
        "Laplace's approximation, a chain of 100,000, over its factorizations",
    ),
    (
        "laplace",
        "counts, n = 40,000, 1,000 covariates",
        "value + gradient / factorizations",
        "the same, counts on a grid of 40,000, 1,000 covariates",
    ),
    (
        "programs",
        "obstacle, n = 1,000",
        "ldiv / cvxpylayers",
        "quadratic program, n = 1,000, over cvxpylayers",
    ),
    (
        "diffrax",
        "n = 500",
        "value + gradient, ldiv / value + gradient, diffrax's default",
        "implicit ODE, n = 500, over diffrax's default solver",
    ),
    (
        "mpi",
        "N = 1,000,000, cg, gamg, 2 processes",
        "bytes of solve and gradient / solve",
        "two processes: bytes for solve and gradient over a solve",
    ),
    (
        "gpu",
        "dense 1000 x 1000, 1 right-hand sides",
        "ldiv.solve / torch.linalg.solve",
        "CUDA, dense solve, n = 1,000, over `torch.linalg.solve`",
    ),
    (
        "gpu",
        "five-point n = 10,000, 186 steps",
        "ldiv.solve, cg / by hand",
        "CUDA, CG, n = 10,000, over CG by hand",
    ),
)


def results() -> dict[str, dict[str, Any]]:
    files = sorted((HERE / "results").glob("*.json"))
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in files}


def number(x: float) -> str:
    return f"{x:,.0f}" if abs(x) >= 100 else f"{x:.3g}"


def table(found: dict[str, dict[str, Any]]) -> str:
    """Measure, goal, figure, date."""
    lines = ["| measure | goal, at most | figure | | date |", "| --- | ---: | ---: | --- | --- |"]
    for name, problem, what, words in ROWS:
        matching = [
            one
            for one in found[name]["figures"]
            if (one["problem"], one["what"]) == (problem, what)
        ]
        if len(matching) != 1:
            raise LookupError(f"{name}.json has {len(matching)} figures of {problem}, {what}")
        one = matching[0]
        unit = "" if one["unit"] == "x" else f" {one['unit']}"
        verdict = "met" if one["met"] else "**missed**"
        cells = words, number(one["target"]) + unit, number(one["value"]) + unit, verdict
        lines.append(f"| {' | '.join(cells)} | {found[name]['date']} |")
    return "\n".join(lines) + "\n"


LEFT, WIDTH, LINE, TOP = 470, 330, 18, 26  # pixels
BLUE, ORANGE, GRAY = "#2166ac", "#d6604d", "#888"


def picture(result: dict[str, Any]) -> str:
    """Each figure over its goal, on a logarithmic scale; left of the line it is met."""
    judged = [one for one in result["figures"] if one["met"] is not None and one["target"] > 0]
    judged = [one for one in judged if one["value"] > 0]
    ratios = [one["value"] / one["target"] for one in judged]
    low, high = (math.log10(end) for end in (min([*ratios, 0.5]) / 1.1, max([*ratios, 2.0]) * 1.1))

    def x(ratio: float) -> float:
        return LEFT + WIDTH * (math.log10(ratio) - low) / (high - low)

    bottom = TOP + LINE * len(judged)
    size = f'viewBox="0 0 {LEFT + WIDTH + 70} {bottom + 8}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{x(1):.0f}" y="14" text-anchor="middle" fill="{GRAY}">goal</text>',
        f'<line x1="{x(1):.0f}" y1="18" x2="{x(1):.0f}" y2="{bottom}" stroke="{GRAY}"/>',
    ]
    for i, (one, ratio) in enumerate(zip(judged, ratios, strict=True)):
        y, color = TOP + LINE * i + 8, BLUE if one["met"] else ORANGE
        words = escape(f"{one['problem']}: {one['what']}")
        words = words if len(words) <= 72 else words[:69] + "..."
        parts += [
            f'<text x="{LEFT - 10}" y="{y + 4}" text-anchor="end">{words}</text>',
            f'<line x1="{x(1):.0f}" y1="{y}" x2="{x(ratio):.1f}" y2="{y}" stroke="{color}"/>',
            f'<circle cx="{x(ratio):.1f}" cy="{y}" r="4" fill="{color}"/>',
            f'<text x="{LEFT + WIDTH + 8}" y="{y + 4}" fill="{color}">{number(ratio)}</text>',
        ]
    return "\n".join([*parts, "</svg>\n"])


def main() -> None:
    found = results()
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}{table(found)}{END}{after}", encoding="utf-8")
    for name, result in found.items():
        (HERE / "results" / f"{name}.svg").write_text(picture(result), encoding="utf-8")


if __name__ == "__main__":
    main()
