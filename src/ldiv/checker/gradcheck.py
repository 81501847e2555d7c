"""gradcheck: every derivative of a function, in every mode, against differences with error bars
(`ldiv.checker.check`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ldiv.checker.check import Check
from ldiv.checker.findings import Report
from ldiv.checker.loss import Loss
from ldiv.checker.modes import FIRST_ORDER, MODES, OF_TORCH, Mode
from ldiv.checker.tangents import Argument
from ldiv.checker.together import require_same
from ldiv.core.arrays.processes import Shared
from ldiv.core.arrays.validate import (
    require_callable,
    require_flag,
    require_int,
    require_number,
    require_option,
)
from ldiv.core.calls.public import public
from ldiv.errors import shown, type_error
from ldiv.matrices.matrix import MatrixLike

RTOL = 1e-7


@public
def gradcheck(
    f: Callable[..., Any],
    *args: MatrixLike | Argument | Shared,
    modes: tuple[Mode, ...] | list[Mode] | None = None,
    exhaustive: bool = False,
    seed: int = 0,
    rtol: float | None = None,
    raise_exception: bool = True,
) -> Report:
    """Check all derivatives of a function of PyTorch, JAX or NumPy arrays.

        <L'(x), d> = d/dt L(x + t d),    by differences with an error bar, in every mode

    Parameters
    ----------
    f : callable
        Returns an array or a tuple of arrays, real or complex; integers are ignored. A function of
        NumPy arrays applies one rule, as in `ldiv.vjp`.
    *args : arrays, SparseArrays, other matrices, or marked arguments
        Of float64 or complex128. The numbers of a matrix move, its pattern stays. Matrices marked
        `symmetric`, `hermitian`, `positive_definite`, `triangular` or `orthonormal` stay so; f is
        given the plain array or matrix.
    modes : tuple or list of str, optional
        Some of "vjp", "jvp", "vjp against jvp", "reverse over reverse", "forward over reverse",
        "reverse over forward", "forward over forward", "vmap", "vmap of vjp", "gauge"; with PyTorch
        also of "forward_ad", "forward_ad over reverse", "is_grads_batched". All by default (NumPy:
        the first three and "gauge").
    exhaustive : bool, default False
        Check entry by entry; otherwise along one random direction for each argument.
    seed : int, default 0
        Of the random numbers.
    rtol : float, optional
        The relative error allowed besides the error bar; 1e-7 by default.
    raise_exception : bool, default True
        Whether to raise for a failure, or only to report it.

    Returns
    -------
    report : Report
        The findings; `report.ok` says whether every derivative was judged and is right,
        `report.visible` for each argument how small an error would have been seen.

    Raises
    ------
    WrongDerivativeError
        For a derivative that differs from its reference. An AssertionError.
    TooNoisyError
        Where no reference is certain enough to judge. An AssertionError.
    ValueError, TypeError
        For arguments that cannot be checked, single precision among them.

    Notes
    -----
    Checks that a function is differentiable as its modes say; the report itself is not.
    A mode that f refuses is an error only if it was asked for.
    In the mode "gauge" values must not depend on the signs, the phases, and the bases inside
    repeated eigenvalues, of the eigenvectors of ldiv's functions and of `eigh` and `svd` of the
    framework's linalg.
    A function over several processes (`ldiv.distributed`) is checked by all of them together, each with
    its parts; an argument that all share is marked by `distributed.shared`.
    Entries that are 0, or equal to others, move once more alone: at most five groups an argument.

    Cost: 10 to 30 evaluations of f, and of its gradient, whatever the sizes, and as many again for
    each such group; exhaustive: for each entry.

    Examples
    --------
    >>> import ldiv, torch
    >>> A = torch.tensor([[2.0, 1.0], [1.0, 5.0]], dtype=torch.float64)
    >>> ldiv.gradcheck(torch.linalg.eigvalsh, ldiv.symmetric(A)).ok
    True
    """
    require_callable(
        "f", f, "a function of the other arguments", "It returns an array, or a tuple of arrays."
    )
    exhaustive = require_flag("exhaustive", exhaustive)
    raise_exception = require_flag("raise_exception", raise_exception)
    seed = require_int("seed", seed, 0)
    rtol = RTOL if rtol is None else require_number("rtol", rtol, 0)
    if modes is not None and (not isinstance(modes, tuple | list) or not modes):
        raise type_error(
            "modes",
            "a tuple of some of " + ", ".join(map(repr, MODES)),
            shown(modes),
            "Leave it out for all of them.",
        )
    loss = Loss(f, [_argument(a) for a in args], seed)
    every = {"numpy": (*FIRST_ORDER, "gauge"), "torch": MODES}.get(
        loss.name, tuple(m for m in MODES if m not in OF_TORCH)
    )
    for mode in modes or ():
        require_option("modes", mode, every)
    require_same(loss.processes, modes=modes and tuple(modes), exhaustive=exhaustive, rtol=rtol)
    report = Check(loss, tuple(modes or every), modes is not None, exhaustive, rtol).run()
    if raise_exception:
        report.check_or_raise()
    return report


def _argument(a: Any) -> Argument:
    if isinstance(a, Shared):
        return replace(_argument(a.value), shared=True)
    return a if isinstance(a, Argument) else Argument(a)
