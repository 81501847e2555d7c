"""Packages that differentiate quadratic programs: each imports what it needs, and is given a
program once.

It returns a step: program -> (x, {"q": gradient, "h": ..., "b": ...}), those of c^T x. Settings are
the package's own, but tolerances as tight as it says that it can.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from problems.programs import Program

Step = Callable[[Program], tuple[Any, dict[str, Any]]]
LARGEST_DENSE = 4_000  # unknowns: beyond, G alone is a gigabyte and more


class Declined(Exception):
    """Raised by a package that is not made for this kind of problem."""


def _tensors(*arrays: Any) -> Any:
    import torch

    return [torch.from_numpy(np.array(x)).requires_grad_() for x in arrays]


def _back(p: Program, x: Any, **leaves: Any) -> tuple[Any, dict[str, Any]]:
    import torch

    (x @ torch.from_numpy(p.c)).backward()
    return x.detach().numpy(), {
        name: np.zeros(0) if t.grad is None else t.grad.numpy() for name, t in leaves.items()
    }


def ldiv(p: Program) -> Step:
    import ldiv as package

    P, G, A = (M if p.bounds else M.toarray() for M in (p.P, p.G, p.A))

    def step(p: Program) -> tuple[Any, dict[str, Any]]:
        q, h, b = _tensors(p.q, p.h, p.b)
        if p.bounds:
            x = package.solve_qp(P, q, lb=-h[p.n :], ub=h[: p.n])
        else:
            x = package.solve_qp(P, q, G, h, A, b)
        return _back(p, x, q=q, h=h, b=b)

    return step


def ldiv_jit(p: Program) -> Step:
    import jax

    import ldiv as package

    jax.config.update("jax_enable_x64", True)
    P, G, A = (M if p.bounds else M.toarray() for M in (p.P, p.G, p.A))

    def f(q: Any, h: Any, b: Any) -> Any:
        if p.bounds:
            x = package.solve_qp(P, q, lb=-h[p.n :], ub=h[: p.n])
        else:
            x = package.solve_qp(P, q, G, h, A, b)
        return x @ p.c, x

    return _compiled(f)


def _compiled(f: Any) -> Step:
    import jax

    both = jax.jit(jax.value_and_grad(f, argnums=(0, 1, 2), has_aux=True))

    def step(p: Program) -> tuple[Any, dict[str, Any]]:
        (_, x), found = both(*map(jax.numpy.asarray, (p.q, p.h, p.b)))
        return np.asarray(x), dict(zip("qhb", map(np.asarray, found), strict=True))

    return step


def cvxpylayers(p: Program) -> Step:
    import cvxpy as cp
    from cvxpylayers.torch import CvxpyLayer

    x, q, h = cp.Variable(p.n), cp.Parameter(p.n), cp.Parameter(len(p.h))
    b = cp.Parameter(len(p.b)) if len(p.b) else None
    constraints = [sp.csc_matrix(p.G) @ x <= h]
    constraints += [sp.csc_matrix(p.A) @ x == b] if b is not None else []
    cost = cp.quad_form(x, cp.psd_wrap(sp.csc_matrix(p.P))) / 2 + q @ x
    parameters = [q, h] if b is None else [q, h, b]
    layer = CvxpyLayer(cp.Problem(cp.Minimize(cost), constraints), parameters, [x])

    def step(p: Program) -> tuple[Any, dict[str, Any]]:
        q, h, b = _tensors(p.q, p.h, p.b)
        args = (q, h, b) if len(p.b) else (q, h)
        (found,) = layer(*args, solver_args={"solve_method": "Clarabel"})
        return _back(p, found, q=q, h=h, b=b)

    return step


def _dense(p: Program) -> None:
    if p.n > LARGEST_DENSE:
        gib = (2 * p.n**2 + p.n * len(p.h)) * 8 / 2**30
        raise Declined(f"dense matrices only: {gib:.0f} GiB")


def qpth(p: Program) -> Step:
    import torch
    from qpth.qp import QPFunction

    _dense(p)
    P, G, A = (torch.from_numpy(M.toarray()) for M in (p.P, p.G, p.A))

    def step(p: Program) -> tuple[Any, dict[str, Any]]:
        q, h, b = _tensors(p.q, p.h, p.b)
        some = (A, b) if len(p.b) else (torch.empty(0), torch.empty(0))
        x = QPFunction(verbose=-1, check_Q_spd=False)(P, q, G, h, *some)
        return _back(p, x[0].double(), q=q, h=h, b=b)

    return step


def jaxopt(p: Program) -> Step:
    import jax
    import jax.numpy as jnp
    import jaxopt as package

    jax.config.update("jax_enable_x64", True)
    if p.bounds:
        data, at = (
            jnp.asarray(p.P.data),
            (p.P.indices, np.repeat(np.arange(p.n), np.diff(p.P.indptr))),
        )
        solver = package.BoxOSQP(
            matvec_Q=lambda _, x: jnp.zeros(p.n).at[at[0]].add(data * x[at[1]]),
            matvec_A=lambda _, x: x,
            tol=1e-8,
            maxiter=40_000,
            jit=True,
        )

        def f(q: Any, h: Any, b: Any) -> Any:
            found = solver.run(None, (None, q), None, (-h[p.n :], h[: p.n]))
            x = found.params.primal[0]
            return x @ p.c, x

        return _compiled(f)
    _dense(p)
    P, G, A = (jnp.asarray(M.toarray()) for M in (p.P, p.G, p.A))
    solver = package.OSQP(tol=1e-8, maxiter=40_000)

    def g(q: Any, h: Any, b: Any) -> Any:
        x = solver.run(None, (P, q), (A, b), (G, h)).params.primal
        return x @ p.c, x

    return _compiled(g)


def qpax(p: Program) -> Step:
    import jax
    import jax.numpy as jnp
    import qpax as package

    jax.config.update("jax_enable_x64", True)
    _dense(p)
    P, G, A = (jnp.asarray(M.toarray()) for M in (p.P, p.G, p.A))

    def f(q: Any, h: Any, b: Any) -> Any:
        x = package.solve_qp_primal(P, q, A, b, G, h, solver_tol=1e-10, target_kappa=1e-9)
        return x @ p.c, x

    return _compiled(f)


PEERS: dict[str, Callable[[Program], Step]] = {
    "ldiv": ldiv,
    "ldiv, jit": ldiv_jit,
    "cvxpylayers": cvxpylayers,
    "qpth": qpth,
    "jaxopt": jaxopt,
    "qpax": qpax,
}
