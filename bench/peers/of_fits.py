"""Packages that differentiate least squares: each imports what it needs, and is given a fit once.

It returns a step: fit -> (x, {"gradient": ...}), that of c^T x in b, or in the weights. Settings are
the package's own, but tolerances as tight as it says that it can.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from harness.alone import Step
from problems.fits import Fit
from problems.maps import NOISE, ROUGH

LARGEST_DENSE = 4_000  # unknowns: beyond, a Jacobian is some gigabytes


def _back(p: Fit, x: Any, leaf: Any) -> tuple[Any, dict[str, Any]]:
    import torch

    (x @ torch.from_numpy(p.c)).backward()
    return x.detach().numpy(), {"gradient": leaf.grad.numpy()}


def _leaf(x: Any) -> Any:
    import torch

    return torch.from_numpy(np.array(x)).requires_grad_()


def _linear(solve: Callable[[Any, Any], Any], p: Fit) -> Step:
    import ldiv

    A = ldiv.asarray(p.A)

    def step(p: Fit) -> tuple[Any, dict[str, Any]]:
        b = _leaf(p.b)
        return _back(p, solve(A, b), b)

    return step


def ldiv_lstsq(p: Fit) -> Step:
    import ldiv

    return _linear(lambda A, b: ldiv.lstsq(A, b)[0], p)


def ldiv_lsmr(p: Fit) -> Step:
    import ldiv

    return _linear(lambda A, b: ldiv.lsmr(A, b)[0], p)


def torchsparsegradutils(p: Fit) -> Step:
    import torch
    from torchsparsegradutils import sparse_generic_lstsq
    from torchsparsegradutils.utils import lsmr

    values = torch.from_numpy(p.A.data)
    places = (torch.from_numpy(x.astype(np.int64)) for x in (p.A.indptr, p.A.indices))
    A = torch.sparse_csr_tensor(*places, values, p.A.shape)
    tight = {"atol": 1e-14, "btol": 1e-14, "maxiter": 10_000}

    def forward(A: Any, b: Any) -> Any:
        return lsmr(A, b, Armat=A.t(), **tight)[0]

    def backward(A: Any, g: Any) -> Any:
        return lsmr(A.t(), g, Armat=A, **tight)[0]

    def step(p: Fit) -> tuple[Any, dict[str, Any]]:
        b = _leaf(p.b)
        return _back(p, sparse_generic_lstsq(A, b, forward, backward), b)

    return step


def ldiv_map(p: Fit) -> Step:
    import torch

    import ldiv

    f, pattern, start = p.map.residual(), p.map.pattern, torch.from_numpy(p.map.rough)

    def step(p: Fit) -> tuple[Any, dict[str, Any]]:
        weights = _leaf(p.weights)
        return _back(p, ldiv.least_squares(f, start, weights, pattern=pattern), weights)

    return step


def _residual(p: Fit) -> Callable[[Any, Any], Any]:
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    i, j = p.map.links.T

    def f(x: Any, weights: Any) -> Any:
        at = x.reshape(-1, 2)
        ranges = jnp.linalg.norm(at[i] - at[j], axis=1) - p.map.distances
        return jnp.concatenate([weights * ranges / NOISE, (x - p.map.rough) / ROUGH])

    return f


def _with_dense_jacobian(p: Fit) -> Callable[[Any, Any], Any]:
    if p.n > LARGEST_DENSE:
        gib = p.n * (len(p.weights) + p.n) * 8 / 2**30
        raise ValueError(f"a dense Jacobian: {gib:.0f} GiB")
    return _residual(p)


def _of_jax(p: Fit, solve: Callable[[Any, Any], Any]) -> Step:
    import jax

    def f(weights: Any) -> Any:
        x = solve(jax.numpy.asarray(p.map.rough), weights)
        return x @ p.c, x

    both = jax.jit(jax.value_and_grad(f, has_aux=True))

    def step(p: Fit) -> tuple[Any, dict[str, Any]]:
        (_, x), g = both(jax.numpy.asarray(p.weights))
        return np.asarray(x), {"gradient": np.asarray(g)}

    return step


def ldiv_jit(p: Fit) -> Step:
    import ldiv

    f, pattern = _residual(p), p.map.pattern
    return _of_jax(p, lambda x, w: ldiv.least_squares(f, x, w, pattern=pattern))


def optimistix(p: Fit) -> Step:
    import optimistix as package

    f, method = _with_dense_jacobian(p), package.LevenbergMarquardt(rtol=1e-10, atol=1e-10)
    return _of_jax(p, lambda x, w: package.least_squares(f, method, x, args=w).value)


def jaxopt(p: Fit) -> Step:
    import jaxopt as package

    f = _with_dense_jacobian(p)
    method = package.LevenbergMarquardt(residual_fun=f, tol=1e-10, xtol=1e-12, gtol=1e-10)
    return _of_jax(p, lambda x, w: method.run(x, w).params)


LINEAR = {
    "ldiv, lstsq": ldiv_lstsq,
    "ldiv, lsmr": ldiv_lsmr,
    "torchsparsegradutils, LSMR": torchsparsegradutils,
}
NONLINEAR = {
    "ldiv, least_squares": ldiv_map,
    "ldiv, least_squares, jit": ldiv_jit,
    "optimistix, LevenbergMarquardt": optimistix,
    "jaxopt, LevenbergMarquardt": jaxopt,
}
PEERS: dict[str, Callable[[Fit], Step]] = {**LINEAR, **NONLINEAR}
