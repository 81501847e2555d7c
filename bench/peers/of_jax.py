"""The solvers of other JAX packages, each as solve(values, b), where they are installed; the matrix
comes by compressed rows.

They stay out of the way otherwise. In an environment of their own, with the packages for PyTorch of
`contenders.py` and the engines of ldiv:

    apt-get install libsuitesparse-dev libopenblas-dev
    python -m venv .venv-peers
    .venv-peers/bin/pip install -c constraints.txt ".[torch,jax,mkl]" scikit-fem matplotlib \\
        sparsax==0.9.0 klujax==0.5.2 solvax==0.34.0 lineax==0.1.1 ninja
    .venv-peers/bin/pip install --no-deps torch-sla==0.4.0 torchsparsegradutils==0.2.7
    .venv-peers/bin/python bench/bench_jax.py
    .venv-peers/bin/python bench/bench_peers.py
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.experimental.sparse.linalg import spsolve

Solve = Callable[[Any, Any], Any]


def jax_spsolve(a: Any, rows: Any, cols: Any) -> Solve:
    starts = jax.numpy.asarray(a.indptr)
    return lambda values, b: spsolve(values, cols, starts, b)


def sparsax_klu(a: Any, rows: Any, cols: Any) -> Solve:
    import sparsax

    return lambda values, b: sparsax.lu_solve(rows, cols, values, b)


def sparsax_cholmod(a: Any, rows: Any, cols: Any) -> Solve:
    import sparsax

    return lambda values, b: sparsax.solve(rows, cols, values, b)


def klujax(a: Any, rows: Any, cols: Any) -> Solve:
    import klujax

    return lambda values, b: klujax.solve(rows, cols, values, b)


def solvax(a: Any, rows: Any, cols: Any) -> Solve:
    import solvax

    pattern = solvax.CsrPattern(a.indptr, a.indices, a.shape)
    return lambda values, b: solvax.sparse_solve(pattern, values, b)


def lineax_cg(a: Any, rows: Any, cols: Any) -> Solve:
    import lineax

    def solve(values: Any, b: Any) -> Any:
        like = jax.ShapeDtypeStruct(b.shape, b.dtype)
        product = lineax.FunctionLinearOperator(
            lambda x: jax.numpy.zeros_like(x).at[rows].add(values * x[cols]),
            like,
            lineax.positive_semidefinite_tag,
        )
        return lineax.linear_solve(
            product, b, lineax.CG(rtol=1e-10, atol=1e-10, max_steps=20 * int(np.sqrt(len(b))) + 200)
        ).value

    return solve


ALL = {
    "jax spsolve": jax_spsolve,
    "sparsax KLU": sparsax_klu,
    "sparsax CHOLMOD": sparsax_cholmod,
    "klujax": klujax,
    "solvax": solvax,
    "lineax CG": lineax_cg,
}


def installed(a: Any) -> dict[str, Solve]:
    """The packages that can be imported here, for the pattern of a."""
    rows, cols = (
        jax.numpy.asarray(i, "int32")
        for i in (np.repeat(np.arange(len(a.indptr) - 1), np.diff(a.indptr)), a.indices)
    )
    found = {}
    for name, solve in ALL.items():
        try:
            found[name] = solve(a, rows, cols)
        except ImportError:
            continue
    return found
