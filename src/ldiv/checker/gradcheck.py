"""gradcheck: every derivative of a function, in every mode, against differences that know how
wrong they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ldiv.checker.check import FIRST_ORDER, MODES, OF_TORCH, Check
from ldiv.checker.findings import Report
from ldiv.checker.loss import Loss
from ldiv.checker.tangents import Argument
from ldiv.core.public import public
from ldiv.core.validate import (
    require_callable,
    require_flag,
    require_int,
    require_number,
    require_option,
)
from ldiv.errors import got, shown

RTOL = 1e-7


@public
def gradcheck(
    f: Callable[..., Any],
    *args: Any,
    modes: tuple[str, ...] | list[str] | None = None,
    exhaustive: bool = False,
    seed: int = 0,
    rtol: float | None = None,
    raise_exception: bool = True,
) -> Report:
    """Check all derivatives of a function of PyTorch, JAX or NumPy arrays.

    f: returns an array or a tuple of arrays, real or complex; integers are ignored. NumPy functions
    apply one rule, as in `ldiv.vjp`.
    args: float64 or complex128: arrays, SparseArrays and other matrices (their numbers move, their
    pattern stays), and matrices marked `symmetric`, `hermitian`, `positive_definite`, `triangular`
    or `orthonormal`, which stay so; f is given the plain array or matrix.
    modes: of "vjp", "jvp", "vjp against jvp", "reverse over reverse", "forward over reverse",
    "reverse over forward", "forward over forward", "vmap", "vmap of vjp", "gauge" (values must not
    depend on signs, phases, and bases inside repeated eigenvalues, of the eigenvectors of ldiv's
    functions and of `eigh` and `svd` of the framework's linalg); PyTorch has besides "forward_ad",
    "forward_ad over reverse", "is_grads_batched"; all by default (NumPy: the first three and the
    last). A mode that f refuses is an error only if it was asked for.
    exhaustive: entry by entry, else along one random direction for each argument. rtol: allowed
    beside the error bar, 1e-7.
    Returns a Report, or raises WrongDerivativeError, TooNoisyError (both AssertionErrors) unless
    raise_exception is False.
    Cost: 10 to 30 evaluations of f, and of its gradient, whatever the sizes; exhaustive: for each
    entry.

    >>> import ldiv, torch
    >>> A = torch.tensor([[2.0, 1.0], [1.0, 5.0]], dtype=torch.float64)
    >>> ldiv.gradcheck(torch.linalg.eigvalsh, ldiv.symmetric(A)).ok
    True
    """
    require_callable(
        "f", f, "a function of the other arguments", "It returns an array, or a tuple of arrays."
    )
    exhaustive, raise_exception = (
        require_flag("exhaustive", exhaustive),
        require_flag("raise_exception", raise_exception),
    )
    seed, rtol = (
        require_int("seed", seed, 0),
        RTOL if rtol is None else require_number("rtol", rtol, 0),
    )
    if modes is not None and (not isinstance(modes, tuple | list) or not modes):
        raise TypeError(
            got(
                "modes",
                "a tuple of some of " + ", ".join(map(repr, MODES)),
                shown(modes),
                "Leave it out for all of them.",
            )
        )
    loss = Loss(f, [a if isinstance(a, Argument) else Argument(a) for a in args], seed)
    every = {"numpy": (*FIRST_ORDER, "gauge"), "torch": MODES}.get(
        loss.name, tuple(m for m in MODES if m not in OF_TORCH)
    )
    for mode in modes or ():
        require_option("modes", mode, every)
    report = Check(loss, tuple(modes or every), modes is not None, exhaustive, rtol).run()
    if raise_exception:
        report.insist()
    return report
