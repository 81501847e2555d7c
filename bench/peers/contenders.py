"""The contenders: each imports what it needs; asked to begin, it gives the matrix as it reads it,
and a step: values -> (x, gradients).

The gradients are those in the values and in b, of the loss c . x with x = A^-1 b. ldiv and the
packages for PyTorch run in torch, those for JAX under jit. The raw engines are what one writes by
hand: one factorization, a solve with A, one with A^T; no checks, and no gradient in the values. Who
is not made for a problem raises `Declined`, which is no failure.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from typing import Any

import numpy as np
import scipy.sparse as sp
from problems.systems import Problem
from problems.systems import make as make_problem

Begin = Callable[[], tuple[Any, Callable[[Any], tuple[Any, Any, Any]]]]


class Declined(Exception):
    """Raised by a contender that is not made for this kind of problem."""


@dataclass(frozen=True)
class Task:
    """A problem with its right-hand side and its loss, both of the size of A."""

    problem: Problem
    b: Any
    c: Any

    @classmethod
    def of(cls, problem: Problem) -> Task:
        x, lam = np.random.default_rng(0).standard_normal((2, problem.a.shape[0]))
        return cls(problem, problem.a @ x, problem.a.T @ lam)


def ldiv_with(method: str, **options: Any) -> Callable[[Task], Begin]:
    def make(task: Task) -> Begin:
        import torch

        import ldiv
        from peers import by_torch

        if method in ("cholesky", "cg") and task.problem.assume_a != "pos":
            raise Declined("positive definite matrices only")
        if method == "ldl" and task.problem.assume_a == "gen":
            raise Declined("symmetric matrices only")
        if method == "lu" and task.problem.assume_a == "pos":
            raise Declined("general matrices only")

        def steps(problem: Problem, b: Any, c: Any) -> Any:
            A, b, c = by_torch.array(problem.a), torch.from_numpy(b), torch.from_numpy(c)

            def step(values: Any) -> Any:
                p, rhs = torch.from_numpy(values).requires_grad_(), b.detach().requires_grad_()
                x = ldiv.solve(
                    A.with_data(p), rhs, assume_a=problem.assume_a, method=method, **options
                )
                return (x.detach(), *torch.autograd.grad(x, (p, rhs), c))

            return problem.a, step

        kind = "convection" if task.problem.assume_a == "gen" else "poisson"
        small, step = steps(make_problem(kind, 4, 4), np.ones(16), np.ones(16))
        step(small.data)  # what is loaded at the first call is loaded
        return lambda: steps(task.problem, task.b, task.c)

    return make


def raw_superlu(task: Task) -> Begin:
    from peers import raw

    def begin() -> Any:
        order = raw.order_of_ldiv(task.problem.a)
        place, in_order, b, c = (
            np.argsort(order),
            raw.permuted(task.problem.a, order),
            task.b[order],
            task.c[order],
        )

        def step(values: Any) -> Any:
            x, lam = raw.two_solves(_with(in_order, values), b, c)
            return x[place], None, lam[place]

        return in_order, step

    return begin


def raw_pardiso(task: Task) -> Begin:
    from ldiv.engines.libraries import mkl_pardiso

    mkl_pardiso.library()
    symmetric = task.problem.assume_a != "gen"

    def begin() -> Any:
        a = sp.csr_array(sp.triu(task.problem.a) if symmetric else task.problem.a)
        a.sort_indices()
        analysis = mkl_pardiso.Analysis(
            task.problem.assume_a,
            a.dtype,
            (a.indptr.astype(np.int32), a.indices.astype(np.int32)),
            1,
            match=None if a.diagonal().all() else a.data,  # or small pivots make it wrong
        )

        def step(values: Any) -> Any:
            factor = analysis.factor(values)
            return (
                factor.solve(task.b[:, None], False)[:, 0],
                None,
                # that of complex numbers is conjugated
                factor.solve(task.c[:, None], not symmetric)[:, 0] if a.dtype.kind == "f" else None,
            )

        return a, step

    return begin


def raw_cholmod(task: Task) -> Begin:
    from sksparse import cholmod

    if task.problem.assume_a != "pos":
        raise Declined("positive definite matrices only")
    a = task.problem.a

    def begin() -> Any:
        if hasattr(cholmod, "CholeskyFactor"):
            symbolic = cholmod.CholeskyFactor(a, supernodal_mode="supernodal", order="metis")
            factored, solve = lambda m: symbolic.copy().factorize(m), "solve"
        else:
            factored, solve = (
                cholmod.analyze(a, mode="supernodal", ordering_method="metis").cholesky,
                "solve_A",
            )

        def step(values: Any) -> Any:
            by = getattr(factored(_with(a, values)), solve)
            return by(task.b), None, by(task.c)

        return a, step

    return begin


def in_jax(name: str, method: str = "") -> Callable[[Task], Begin]:
    """A package other than ldiv, or an engine of ldiv, under jit."""

    def make(task: Task) -> Begin:
        import jax

        import ldiv
        from peers import of_jax

        def ours(a: Any, rows: Any, cols: Any) -> Any:
            return lambda values, b: ldiv.solve(
                ldiv.csr_array((values, a.indices, a.indptr), shape=a.shape),
                b,
                assume_a=task.problem.assume_a,
                method=method,
            )

        jax.config.update("jax_enable_x64", True)
        if ("CHOLMOD" in name or method == "cholesky") and task.problem.assume_a != "pos":
            raise Declined("positive definite matrices only")
        by_rows = sp.csr_array(task.problem.a)
        rows = jax.numpy.asarray(
            np.repeat(np.arange(by_rows.shape[0]), np.diff(by_rows.indptr)), "int32"
        )
        make_solve = ours if method else of_jax.ALL[name]
        solve = make_solve(by_rows, rows, jax.numpy.asarray(by_rows.indices, "int32"))
        b, c = map(jax.numpy.asarray, (task.b, task.c))

        @jax.jit
        def run(values: Any, b: Any, c: Any) -> Any:
            x, pull = jax.vjp(solve, values, b)
            return x, *pull(c)

        return lambda: (
            by_rows,
            lambda values: jax.block_until_ready(run(jax.numpy.asarray(values), b, c)),
        )

    return make


def torch_sla(task: Task) -> Begin:
    """Solve with its direct solver for CPUs, SciPy's SuperLU."""
    import torch
    from torch_sla import spsolve

    by_rows = sp.csr_array(task.problem.a)
    rows, cols = (torch.from_numpy(i.astype(np.int64)) for i in by_rows.tocoo().coords)
    b, c = map(torch.from_numpy, (task.b, task.c))

    def step(values: Any) -> Any:
        p, rhs = torch.from_numpy(values).requires_grad_(), b.detach().requires_grad_()
        x = spsolve(p, rows, cols, by_rows.shape, rhs, backend="scipy", method="lu")
        return (x.detach(), *torch.autograd.grad(x, (p, rhs), c))

    return lambda: (by_rows, step)


def torchsparsegradutils(task: Task) -> Begin:
    """Solve by iterations, all that it has: CG where A is definite, else BiCGSTAB, to a residual of
    1e-10.
    """
    import torch
    from torchsparsegradutils import sparse_generic_solve
    from torchsparsegradutils.utils import bicgstab, linear_cg
    from torchsparsegradutils.utils.bicgstab import BICGSTABSettings
    from torchsparsegradutils.utils.linear_cg import LinearCGSettings

    by_rows = sp.csr_array(task.problem.a)
    starts, cols = (torch.from_numpy(i.astype(np.int64)) for i in (by_rows.indptr, by_rows.indices))
    b, c = map(torch.from_numpy, (task.b, task.c))
    if task.problem.assume_a == "pos":
        how = {
            "solve": linear_cg,
            "settings": LinearCGSettings(max_cg_iterations=20000, cg_tolerance=1e-10),
        }
    else:
        transposed = lambda A, g, **given: bicgstab(A.t(), g, **given)
        how = {
            "solve": bicgstab,
            "transpose_solve": transposed,
            "settings": BICGSTABSettings(abstol=0.0, reltol=1e-10),
        }

    def step(values: Any) -> Any:
        A = torch.sparse_csr_tensor(
            starts, cols, torch.from_numpy(values), by_rows.shape
        ).requires_grad_()
        rhs = b.detach().requires_grad_()
        x = sparse_generic_solve(A, rhs, **how)
        of_A, of_b = torch.autograd.grad(x, (A, rhs), c)
        return x.detach(), of_A.values(), of_b

    return lambda: (by_rows, step)


def _with(a: Any, values: Any) -> Any:
    return type(a)((values, a.indices, a.indptr), shape=a.shape)


OURS = {
    f"ldiv {method}": ldiv_with(method)
    for method in ("superlu", "pardiso", "cholesky", "ldl", "lu")
} | {
    "ldiv cg": ldiv_with("cg", rtol=1e-10),
    "ldiv cholesky, float32": ldiv_with("cholesky", factor_dtype="float32"),
}
IN_JIT = {f"jit {method}": in_jax("ldiv", method) for method in ("cholesky", "lu")}
RAW = {"raw superlu": raw_superlu, "raw pardiso": raw_pardiso, "raw cholmod": raw_cholmod}
IN_JAX = ("jax spsolve", "sparsax KLU", "sparsax CHOLMOD", "klujax", "solvax")
PEERS = {name: in_jax(name) for name in IN_JAX} | {
    "torch-sla": torch_sla,
    "torchsparsegradutils": torchsparsegradutils,
}
ALL = OURS | IN_JIT | RAW | PEERS
COMES_WITH = {
    **dict.fromkeys(("ldiv pardiso", "raw pardiso"), "mkl"),
    "raw cholmod": "scikit-sparse",
    **{name: name.split()[0] for name in PEERS},
}


def absent(name: str) -> str | None:
    """The distribution that is not installed."""
    distribution = COMES_WITH.get(name)
    try:
        return None if distribution is None or metadata.version(distribution) else distribution
    except metadata.PackageNotFoundError:
        return distribution
