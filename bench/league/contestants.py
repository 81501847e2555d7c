"""The claims of each package: for a problem, a function (A, b) -> result in arrays of its
framework.

A is a dense matrix, or for sparse problems the values on `problem.pattern`, by rows. The result is x, the
log-determinant, L, the two lowest eigenvalues (or A on their subspace), or a basis of it. Packages are called as
their documentation does; where one has several ways, the direct one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from cases import DAMP, KEPT, Problem
from references import BOX, SHIFT, SMALL, SMALLER

Apply = Callable[[Any, Any], Any]
SOLVES = ("solve", "singular")


class NotClaimed(Exception):
    """The package says nothing about this problem."""


def starts(problem: Problem) -> Any:
    """The start of each row."""
    m = problem.data[0].shape[1]
    return np.searchsorted(problem.pattern[0], np.arange(m + 1))


def _claimed(problem: Problem, functions: dict[str, Apply]) -> Apply:
    if problem.operation not in functions:
        raise NotClaimed
    return functions[problem.operation]


def _stacked(xp: Any, lstsq: Apply, A: Any, b: Any) -> Any:
    """Damped least squares without a damping of its own: [A; d I] x = [b; 0]."""
    eye = xp.eye(A.shape[1], dtype=A.dtype)
    return lstsq(xp.concatenate([A, DAMP * eye]), xp.concatenate([b, 0 * eye[0]]))


def _rebuilt(inv: Any, pairs: Any) -> Any:
    """A A."""
    return (pairs[1] * pairs[0] ** 2) @ inv(pairs[1])


def _of_triplets(U: Any, s: Any, Vh: Any) -> Any:
    """A A^H."""
    return (U * s**2) @ U.conj().mT


def _written(xp: Any, A: Any) -> Any:
    """kron(A, SMALLER) + SHIFT I, as a dense matrix."""
    product = xp.kron(A, xp.asarray(SMALLER, dtype=A.dtype))
    return product + SHIFT * xp.eye(len(product), dtype=A.dtype)


# -- in PyTorch -----------------------------------------------------------------------------------


def torch_itself(problem: Problem) -> Apply:
    import torch

    if problem.sparse:
        if problem.operation not in SOLVES:
            raise NotClaimed
        first, cols = (torch.as_tensor(i) for i in (starts(problem), problem.pattern[1]))
        shape = problem.data[0].shape[1:]
        return lambda A, b: torch.sparse.spsolve(torch.sparse_csr_tensor(first, cols, A, shape), b)
    return _claimed(
        problem,
        {
            "solve": torch.linalg.solve,
            "singular": torch.linalg.solve,
            "logdet": lambda A, b: torch.linalg.slogdet(A)[1],
            "det": lambda A, b: torch.linalg.det(A),
            "kron": lambda A, b: torch.linalg.slogdet(_written(torch, A))[1],
            "graded": torch.linalg.solve,
            "damped": lambda A, b: _stacked(
                torch, lambda M, y: torch.linalg.lstsq(M, y[:, None]).solution[:, 0], A, b
            ),
            "rebuilt": lambda A, b: _rebuilt(torch.linalg.inv, torch.linalg.eig(A)),
            "triplets": lambda A, b: _of_triplets(*torch.linalg.svd(A, full_matrices=False)),
            "lstsq": lambda A, b: torch.linalg.lstsq(A, b[:, None]).solution[:, 0],
            "cholesky": lambda A, b: torch.linalg.cholesky(A),
            "eigenvalues": lambda A, b: torch.linalg.eigvalsh(A)[:2],
            "subspace": lambda A, b: torch.linalg.eigh(A)[1][:, :2],
            "eigvals": lambda A, b: torch.linalg.eigvals(A),
            "eig": lambda A, b: torch.linalg.eig(A),
            "expm": lambda A, b: torch.linalg.matrix_exp(A),
        },
    )


def torch_sla(problem: Problem) -> Apply:
    import torch
    from torch_sla import SparseTensor, spsolve

    if not problem.sparse:
        raise NotClaimed
    rows, cols = (torch.as_tensor(i) for i in problem.pattern)
    shape = problem.data[0].shape[1:]
    if problem.operation in SOLVES:
        return lambda A, b: spsolve(A, rows, cols, shape, b, backend="scipy", method="lu")
    if problem.operation == "logdet":
        return lambda A, b: SparseTensor(A, rows, cols, shape).logdet()
    return lambda A, b: SparseTensor(A, rows, cols, shape).eigsh(k=2, which="SA")[0]


def torch_fem(problem: Problem) -> Apply:
    import torch
    from torchfem.sparse import differentiable_sparse_solve

    if not (problem.sparse and problem.operation in SOLVES):
        raise NotClaimed
    place = torch.as_tensor(np.stack(problem.pattern))
    shape = problem.data[0].shape[1:]
    return lambda A, b: differentiable_sparse_solve(
        torch.sparse_coo_tensor(place, A, shape).coalesce(), b, method="direct"
    )


def torchsparsegradutils(problem: Problem) -> Apply:
    import torch
    from torchsparsegradutils import sparse_generic_lstsq, sparse_generic_solve
    from torchsparsegradutils.utils import bicgstab, linear_cg, lsmr
    from torchsparsegradutils.utils.bicgstab import BICGSTABSettings
    from torchsparsegradutils.utils.linear_cg import LinearCGSettings

    if not (problem.sparse and problem.operation in (*SOLVES, "lstsq")):
        raise NotClaimed
    first, cols = (torch.as_tensor(i) for i in (starts(problem), problem.pattern[1]))
    shape = problem.data[0].shape[1:]
    matrix = lambda A: torch.sparse_csr_tensor(first, cols, A, shape)
    if problem.operation == "lstsq":
        given = {"atol": 1e-14, "btol": 1e-14, "maxiter": 1000}
        there = lambda A, b: lsmr(A, b, Armat=A.t(), **given)[0]
        back = lambda A, g: lsmr(A.t(), g, Armat=A, **given)[0]
        return lambda A, b: sparse_generic_lstsq(matrix(A), b, there, back)
    if problem.symmetric:
        precise = LinearCGSettings(max_cg_iterations=1000, cg_tolerance=1e-12)
        return lambda A, b: sparse_generic_solve(matrix(A), b, solve=linear_cg, settings=precise)
    tight = BICGSTABSettings(abstol=0.0, reltol=1e-12)
    transposed = lambda A, g, **given: bicgstab(A.t(), g, **given)
    return lambda A, b: sparse_generic_solve(
        matrix(A), b, solve=bicgstab, transpose_solve=transposed, settings=tight
    )


def xitorch(problem: Problem) -> Apply:
    from xitorch import LinearOperator
    from xitorch.linalg import solve, symeig

    if problem.sparse or problem.operation not in (*SOLVES, "eigenvalues", "subspace"):
        raise NotClaimed
    if problem.operation in SOLVES:
        hermitian = problem.symmetric
        return lambda A, b: solve(LinearOperator.m(A, is_hermitian=hermitian), b[:, None])[:, 0]
    part = 0 if problem.operation == "eigenvalues" else 1
    return lambda A, b: symeig(LinearOperator.m(A, is_hermitian=True), neig=2)[part]


def linear_operator(problem: Problem) -> Apply:
    import linear_operator as package

    if problem.sparse or not problem.symmetric:
        raise NotClaimed
    if problem.operation == "kron":
        return lambda A, b: _shifted_kron(package.operators, A).logdet()
    if problem.operation not in ("solve", "logdet"):
        raise NotClaimed
    if problem.operation == "solve":
        return lambda A, b: package.solve(package.to_linear_operator(A), b[:, None])[:, 0]
    return lambda A, b: package.to_linear_operator(A).logdet()


def _shifted_kron(operators: Any, A: Any) -> Any:
    import torch

    small, n = torch.tensor(SMALLER, dtype=A.dtype), len(SMALLER) * len(A)
    factors = [operators.DenseLinearOperator(x) for x in (A, small)]
    shift = operators.ConstantDiagLinearOperator(torch.tensor([SHIFT], dtype=A.dtype), n)
    return operators.KroneckerProductLinearOperator(*factors) + shift


# -- in JAX ---------------------------------------------------------------------------------------


def jax_itself(problem: Problem) -> Apply:
    import jax.numpy as jnp
    import jax.scipy.linalg
    from jax.experimental.sparse.linalg import spsolve

    if problem.sparse:
        if problem.operation not in SOLVES:
            raise NotClaimed
        first, cols = (jnp.asarray(i, "int32") for i in (starts(problem), problem.pattern[1]))
        return lambda A, b: spsolve(A, cols, first, b)
    return _claimed(
        problem,
        {
            "solve": jnp.linalg.solve,
            "singular": jnp.linalg.solve,
            "logdet": lambda A, b: jnp.linalg.slogdet(A)[1],
            "det": lambda A, b: jnp.linalg.det(A),
            "kron": lambda A, b: jnp.linalg.slogdet(_written(jnp, A))[1],
            "graded": jnp.linalg.solve,
            "damped": lambda A, b: _stacked(jnp, lambda M, y: jnp.linalg.lstsq(M, y)[0], A, b),
            "rebuilt": lambda A, b: _rebuilt(jnp.linalg.inv, jnp.linalg.eig(A)),
            "triplets": lambda A, b: _of_triplets(*jnp.linalg.svd(A, full_matrices=False)),
            "lstsq": lambda A, b: jnp.linalg.lstsq(A, b)[0],
            "cholesky": lambda A, b: jnp.linalg.cholesky(A),
            "eigenvalues": lambda A, b: jnp.linalg.eigvalsh(A)[:2],
            "subspace": lambda A, b: jnp.linalg.eigh(A)[1][:, :2],
            "eigvals": lambda A, b: jnp.linalg.eigvals(A),
            "eig": lambda A, b: jnp.linalg.eig(A),
            "expm": lambda A, b: jax.scipy.linalg.expm(A),
            "sqrtm": lambda A, b: jax.scipy.linalg.sqrtm(A),
            "sylvester": lambda A, b: jax.scipy.linalg.solve_sylvester(A, A.T, b[:, None] * b),
        },
    )


def lineax(problem: Problem) -> Apply:
    import lineax as lx

    if problem.sparse or problem.operation not in (*SOLVES, "lstsq"):
        raise NotClaimed
    tags = lx.positive_semidefinite_tag if problem.symmetric else ()
    solver = lx.QR() if problem.operation == "lstsq" else lx.AutoLinearSolver(well_posed=True)
    return lambda A, b: lx.linear_solve(lx.MatrixLinearOperator(A, tags), b, solver).value


def sparsax(problem: Problem) -> Apply:
    import jax.numpy as jnp
    import sparsax as package

    if not problem.sparse or problem.operation not in (*SOLVES, "logdet"):
        raise NotClaimed
    rows, cols = (jnp.asarray(i, "int32") for i in problem.pattern)
    n = problem.data[0].shape[1]
    if problem.operation == "logdet":
        return lambda A, b: package.logdet(rows, cols, A, n)
    by = package.solve if problem.symmetric else package.lu_solve
    return lambda A, b: by(rows, cols, A, b)


def solvax(problem: Problem) -> Apply:
    import solvax as package

    if not problem.sparse or problem.operation not in SOLVES:
        raise NotClaimed
    pattern = package.CsrPattern(starts(problem), problem.pattern[1], problem.data[0].shape[1:])
    return lambda A, b: package.sparse_solve(pattern, A, b)


def klujax(problem: Problem) -> Apply:
    import jax.numpy as jnp
    import klujax as package

    if not problem.sparse or problem.operation not in SOLVES:
        raise NotClaimed
    rows, cols = (jnp.asarray(i, "int32") for i in problem.pattern)
    return lambda A, b: package.solve(rows, cols, A, b)


# -- quadratic programs, dense and real -----------------------------------------------------------


def _box(problem: Problem) -> tuple[Any, Any]:
    """G and h with G x <= h."""
    if problem.operation != "qp" or problem.sparse or problem.complex:
        raise NotClaimed
    return _rows(problem)


def _rows(problem: Problem) -> tuple[Any, Any]:
    """Implied: every row twice, and the sum of the first two."""
    n = problem.data[0].shape[1]
    G, h = np.vstack([np.eye(n), -np.eye(n)]), np.full(2 * n, BOX)
    if "implied" not in problem.name:
        return G, h
    return np.vstack([G, G, G[:1] + G[1:2]]), np.concatenate([h, h, [2 * BOX]])


def qpth(problem: Problem) -> Apply:
    import torch
    from qpth.qp import QPFunction

    G, h = map(torch.as_tensor, _box(problem))
    none = torch.empty(0)

    def solve(A: Any, b: Any) -> Any:
        G_, h_ = G.to(A.dtype), h.to(A.dtype)
        return QPFunction(verbose=-1, check_Q_spd=False, eps=1e-12)(A, -b, G_, h_, none, none)[0]

    return solve


def cvxpylayers(problem: Problem) -> Apply:
    """The objective is |R x|^2 / 2 - b^T x, R^T R = A: a matrix as a parameter of a quadratic form is
    not allowed.
    """
    import cvxpy as cp
    import torch
    from cvxpylayers.torch import CvxpyLayer

    _box(problem)
    n = problem.data[0].shape[1]
    x, R, c = cp.Variable(n), cp.Parameter((n, n)), cp.Parameter(n)
    cost = cp.sum_squares(R @ x) / 2 - c @ x
    layer = CvxpyLayer(
        cp.Problem(cp.Minimize(cost), [x <= BOX, x >= -BOX]), parameters=[R, c], variables=[x]
    )
    tight = {
        "solve_method": "Clarabel",
        "tol_gap_abs": 1e-12,
        "tol_gap_rel": 1e-12,
        "tol_feas": 1e-12,
    }
    return lambda A, b: layer(torch.linalg.cholesky(A).mT, b, solver_args=tight)[0]


def qpax(problem: Problem) -> Apply:
    import jax.numpy as jnp
    import qpax as package

    (G, h), n = _box(problem), problem.data[0].shape[1]
    E, e = jnp.zeros((0, n)), jnp.zeros(0)
    return lambda A, b: package.solve_qp_primal(
        A, -b, E, e, jnp.asarray(G), jnp.asarray(h), solver_tol=1e-12, target_kappa=1e-12
    )


# -- in PyTensor ----------------------------------------------------------------------------------


def pytensor_itself(problem: Problem) -> Apply:
    import pytensor.tensor as pt
    import pytensor.tensor.linalg as la

    if problem.sparse or problem.complex:
        raise NotClaimed
    eye = np.eye(problem.data[0].shape[2])
    return _claimed(
        problem,
        {
            "solve": lambda A, b: la.solve(A, b, assume_a="pos" if problem.symmetric else "gen"),
            "singular": la.solve,
            "logdet": lambda A, b: la.slogdet(A)[1],
            "cholesky": lambda A, b: la.cholesky(A),
            "eigenvalues": lambda A, b: la.eigh(A)[0][:2],
            "subspace": lambda A, b: la.eigh(A)[1][:, :2],
            "expm": lambda A, b: la.expm(A),
            "sylvester": lambda A, b: la.solve_sylvester(A, A.T, b[:, None] * b),
            "dare": lambda A, b: la.solve_discrete_are(A, b[:, None], eye, pt.eye(1)),
        },
    )


# -- ldiv, in both --------------------------------------------------------------------------------


def ldiv(problem: Problem) -> Apply:
    import ldiv as package

    shape = problem.data[0].shape[1:]
    matrix = lambda A: package.coo_array((A, problem.pattern), shape=shape) if problem.sparse else A
    promise = "pos" if problem.name.endswith("pos") else "gen"
    if problem.operation in ("qp", "marginal") and problem.complex:
        raise NotClaimed
    eye, one = np.eye(shape[1]), np.eye(1)
    G, h = _rows(problem)
    if "implied" in problem.name:
        return lambda A, b: package.solve_qp(A, -b, G.astype(name_of(A)), h.astype(name_of(A)))
    return {
        "solve": lambda A, b: package.solve(matrix(A), b, assume_a=promise),
        "singular": lambda A, b: package.solve(matrix(A), b),
        "logdet": lambda A, b: package.logdet(matrix(A), assume_a=promise),
        "lstsq": lambda A, b: package.lstsq(matrix(A), b).x,
        "qp": lambda A, b: package.solve_qp(matrix(A), -b, lb=-BOX, ub=BOX),
        "graded": lambda A, b: package.solve(A, b),
        "damped": lambda A, b: package.lstsq(A, b, damp=DAMP).x,
        "det": lambda A, b: package.det(A),
        "rebuilt": lambda A, b: _rebuilt(package.inv, package.eig(A)),
        "triplets": lambda A, b: _of_triplets(*package.svd(A)),
        "small": lambda A, b: (
            package.solve_discrete_are(A, b[:, None], (SMALL * eye).astype(name_of(A)), one) / SMALL
        ),
        "cholesky": lambda A, b: package.cholesky(A),
        "updated": lambda A, b: package.cholesky_update(package.cholesky(A), b),
        "schur": lambda A, b: package.schur_complement(matrix(A), np.arange(KEPT)),
        "kron": lambda A, b: package.logdet(
            package.kron(A, np.array(SMALLER, name_of(A)), shift=SHIFT), assume_a="pos"
        ),
        "marginal": lambda A, b: package.laplace(_counts, 0 * b, (A, b)).value,
        "eigenvalues": lambda A, b: package.eigenspace(matrix(A), 2, which="SA")[1],
        "subspace": lambda A, b: package.eigenspace(A, 2, which="SA")[0],
        "eigvals": lambda A, b: package.eigvals(A),
        "eig": lambda A, b: package.eig(A),
        "expm": lambda A, b: package.expm(A),
        "logm": lambda A, b: package.logm(A),
        "sqrtm": lambda A, b: package.sqrtm(A),
        "sylvester": lambda A, b: package.solve_sylvester(A, A.T, b[:, None] * b),
        "care": lambda A, b: package.solve_continuous_are(A, b[:, None], eye, one),
        "dare": lambda A, b: package.solve_discrete_are(A, b[:, None], eye, one),
    }[problem.operation]


def _counts(x: Any, params: Any) -> Any:
    """-log of a density: Poisson counts with normal logarithms of their means."""
    A, b = params
    grown = x.exp() if hasattr(x, "exp") else type(x).__array_namespace__(x).exp(x)
    return x @ (A @ x) / 2 - b @ x + grown.sum()


def name_of(x: Any) -> str:
    """The dtype of an array, by its name."""
    return str(x.dtype).rpartition(".")[2]


# name: (framework, environment, what pip installs there, what it claims)
ALL: dict[str, tuple[str, str, tuple[str, ...], Callable[[Problem], Apply]]] = {
    "ldiv in PyTorch": ("torch", "ldiv", (".[torch,jax]",), ldiv),
    "ldiv in JAX": ("jax", "ldiv", (".[torch,jax]",), ldiv),
    "torch": ("torch", "torch", ("torch==2.15.0", "scipy"), torch_itself),
    # below the packages that ask for it
    "torch 2.13": ("torch", "torch-2.13", ("torch==2.13.0", "scipy"), torch_itself),
    "jax": ("jax", "jax", ("jax==0.10.2", "scipy"), jax_itself),
    "pytensor": ("pytensor", "pytensor", ("pytensor==3.0.7",), pytensor_itself),
    "lineax": ("jax", "lineax", ("lineax==0.1.1",), lineax),
    "sparsax": ("jax", "sparsax", ("sparsax==0.9.0",), sparsax),
    "solvax": ("jax", "solvax", ("solvax==0.34.0",), solvax),
    "klujax": ("jax", "klujax", ("klujax==0.5.2",), klujax),
    "torch-sla": ("torch", "torch-sla", ("torch-sla==0.4.0", "torch==2.13.0", "scipy"), torch_sla),
    "torch-fem": ("torch", "torch-fem", ("torch-fem==0.14.0", "torch==2.13.0", "scipy"), torch_fem),
    "torchsparsegradutils": (
        "torch",
        "torchsparsegradutils",
        ("torchsparsegradutils==0.2.7", "torch==2.13.0", "scipy"),
        torchsparsegradutils,
    ),
    "qpth": ("torch", "qpth", ("qpth==0.0.18", "torch==2.13.0"), qpth),
    "cvxpylayers": ("torch", "cvxpylayers", ("cvxpylayers==1.2.0", "torch==2.13.0"), cvxpylayers),
    "qpax": ("jax", "qpax", ("qpax==0.1.4", "jax==0.10.2"), qpax),
    "xitorch": ("torch", "xitorch", ("xitorch==0.5.1", "torch==2.15.0", "scipy"), xitorch),
    "linear_operator": (
        "torch",
        "linear_operator",
        ("linear_operator==0.6.1", "torch==2.13.0", "scipy"),
        linear_operator,
    ),
}
