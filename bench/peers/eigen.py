"""Other packages that differentiate eigenpairs: each makes a step, the values of K and M -> (lam,
gradients in the values) of one loss.

    loss    a . lam + sum_i (c_i . x_i)^2,    the k lowest pairs of K x = lam M x; the sign of x_i does not matter

`reference` is the formula over all n pairs of LAPACK. Who is not made for a pencil raises
`Declined`, which is no failure. PyTorch's and xitorch's solvers take dense matrices, solvax's
blocks of lines; that the values are brought there is counted.

    pip install xitorch==0.5.1 solvax==0.34.0
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from problems.pencils import Pencil

from peers.contenders import Declined

Values = list[Any]  # of K and, where it is not the identity, of M
Step = Callable[[Values], tuple[Any, ...]]


def weights(n: int, k: int) -> tuple[Any, Any]:
    """a (k,), c (n, k)."""
    rng = np.random.default_rng(n)
    return rng.standard_normal(k), rng.standard_normal((n, k))


def reference(pencil: Pencil, k: int) -> tuple[Any, ...]:
    """lam, and the gradients in K and M as dense symmetric matrices, on the pattern."""
    a, c = weights(pencil.k.shape[0], k)
    dense = [b.toarray() if sp.issparse(b) else b for b in (pencil.k, pencil.m) if b is not None]
    lam, x = scipy.linalg.eigh(*dense)
    near, low = lam[:k], x[:, :k]
    m = x.T @ (2 * c * (c * low).sum(axis=0))  # X^H X_bar, of all X
    gap = near - lam[:, None]
    t = np.where(gap == 0, 0, m / np.where(gap == 0, 1, gap))
    t[np.arange(k), np.arange(k)] = a
    of_k = (x @ t) @ low.T
    of_m = -(x @ t * near) @ low.T - low * np.diag(m) @ low.T / 2
    return near, *(
        _on_pattern(g, b)
        for g, b in zip((of_k, of_m), (pencil.k, pencil.m), strict=True)
        if b is not None
    )


def _on_pattern(g: Any, like: Any) -> Any:
    return (g + g.T) / 2 * ((like != 0).toarray() if sp.issparse(like) else 1)


def error(pencil: Pencil, expected: tuple[Any, ...], found: tuple[Any, ...]) -> tuple[float, float]:
    """Relative, of lam and of the gradients; of these the symmetric parts are compared: some
    read one triangle, some both.
    """
    of_lam = np.max(abs(found[0] - expected[0]) / abs(expected[0]))
    whole = [
        _dense(values, like) for values, like in zip(found[1:], (pencil.k, pencil.m), strict=False)
    ]
    return float(of_lam), max(
        float(abs((g + g.T) / 2 - e).max() / abs(e).max())
        for g, e in zip(whole, expected[1:], strict=True)
    )


def _dense(values: Any, like: Any) -> Any:
    return (
        sp.csc_array((values, like.indices, like.indptr), shape=like.shape).toarray()
        if sp.issparse(like)
        else values
    )


# -- in torch -----------------------------------------------------------------


def in_torch(pairs: Callable[..., tuple[Any, Any]], pencil: Pencil, k: int) -> Step:
    """Make a step from a function of K and M as torch tensors of values -> (lam, X)."""
    import torch

    a, c = map(torch.from_numpy, weights(pencil.k.shape[0], k))

    def step(values: Values) -> tuple[Any, ...]:
        leaves = [torch.from_numpy(v).requires_grad_() for v in values]
        lam, x = pairs(*leaves)
        loss = (a * lam).sum() + ((c * x).sum(0) ** 2).sum()
        return lam.detach().numpy(), *(g.numpy() for g in torch.autograd.grad(loss, leaves))

    return step


def ours(pencil: Pencil, k: int) -> Step:
    import ldiv
    from peers import by_torch

    forms = [
        by_torch.array(b).with_data if sp.issparse(b) else lambda v: v
        for b in (pencil.k, pencil.m)
        if b is not None
    ]

    def pairs(*values: Any) -> tuple[Any, Any]:
        ldiv.clear_cache()
        K, *M = (form(v) for form, v in zip(forms, values, strict=True))
        found: tuple[Any, Any] = ldiv.eigsh(K, k, M=M[0] if M else None, sigma=0)
        return found

    return in_torch(pairs, pencil, k)


def _written_out(like: Any, values: Any) -> Any:
    """A dense tensor."""
    import torch

    if not sp.issparse(like):
        return values
    at = (
        torch.from_numpy(like.indices).long(),
        torch.from_numpy(np.repeat(np.arange(like.shape[1]), np.diff(like.indptr))),
    )
    return torch.zeros(like.shape, dtype=values.dtype).index_put(at, values)


def torch_lobpcg(pencil: Pencil, k: int) -> Step:
    import torch

    if pencil.m is not None:
        raise Declined("M = I only: it has no gradient with B")
    start = torch.randn(
        pencil.k.shape[0], k, dtype=torch.float64, generator=torch.Generator().manual_seed(0)
    )
    return in_torch(
        lambda v: torch.lobpcg(
            _written_out(pencil.k, v), k, X=start, niter=2000, tol=1e-10, largest=False
        ),
        pencil,
        k,
    )


def torch_eigh(pencil: Pencil, k: int) -> Step:
    """All pairs, of which the k lowest are used."""
    import torch

    if pencil.m is not None:
        raise Declined("M = I only")

    def pairs(values: Any) -> tuple[Any, Any]:
        lam, x = torch.linalg.eigh(_written_out(pencil.k, values))
        return lam[:k], x[:, :k]

    return in_torch(pairs, pencil, k)


def xitorch(method: str, pencil: Pencil, k: int) -> Step:
    from xitorch import LinearOperator
    from xitorch.linalg import lsymeig

    def pairs(*values: Any) -> tuple[Any, Any]:
        K, *M = (
            LinearOperator.m(_written_out(b, v), is_hermitian=True)
            for b, v in zip((pencil.k, pencil.m), values, strict=False)
        )
        found: tuple[Any, Any] = lsymeig(
            K, k, M=M[0] if M else None, method=method, min_eps=1e-10, bck_options={"rtol": 1e-10}
        )
        return found

    return in_torch(pairs, pencil, k)


# -- in JAX -------------------------------------------------------------------


def solvax(pencil: Pencil, k: int) -> Step:
    """Block tridiagonal pencils: a block for each line of the grid."""
    import jax
    from solvax import generalized_eigenpairs

    if not pencil.line:
        raise Declined("block tridiagonal pencils only")
    jax.config.update("jax_enable_x64", True)
    n, line = pencil.k.shape[0], pencil.line
    a, c = map(jax.numpy.asarray, weights(n, k))
    unit = sp.eye_array(n, format="csc")
    places = [_places(b, line) for b in (pencil.k, unit if pencil.m is None else pencil.m)]

    def loss(values: Any) -> Any:
        values = [*values, jax.numpy.ones(n)][:2]
        bands = (_bands(n // line, line, at, v) for at, v in zip(places, values, strict=True))
        found = generalized_eigenpairs(*bands, 0.0, k, tol=1e-12, max_iter=1000, dense_limit=0)
        x = found.vectors.reshape(n, k)
        return (a * found.values).sum() + ((c * x).sum(0) ** 2).sum(), found.values

    run = jax.jit(jax.value_and_grad(loss, has_aux=True))

    def step(values: Values) -> tuple[Any, ...]:
        (_, lam), gradients = jax.block_until_ready(run([jax.numpy.asarray(v) for v in values]))
        return np.asarray(lam), *map(np.asarray, gradients)

    return step


def _places(b: Any, line: int) -> list[tuple[Any, ...]]:
    """The entries below, on and above the diagonal of blocks, and their places."""
    rows, cols = b.indices, np.repeat(np.arange(b.shape[1]), np.diff(b.indptr))
    at = [np.flatnonzero(cols // line - rows // line == step) for step in (-1, 0, 1)]
    return [(i, (rows[i] // line, rows[i] % line, cols[i] % line)) for i in at]


def _bands(count: int, line: int, places: list[tuple[Any, ...]], values: Any) -> tuple[Any, ...]:
    """(lower, diag, upper), each (count, line, line)."""
    import jax

    return tuple(
        jax.numpy.zeros((count, line, line)).at[where].set(values[i]) for i, where in places
    )


ALL: dict[str, Callable[[Pencil, int], Step]] = {
    "ldiv": ours,
    "torch eigh": torch_eigh,
    "torch lobpcg": torch_lobpcg,
    "xitorch exacteig": partial(xitorch, "exacteig"),
    "xitorch davidson": partial(xitorch, "davidson"),
    "solvax": solvax,
}
WHOLE = {"torch eigh"}  # the full decomposition that everybody has: no rival, a measure
