"""Hand-written adjoints of in-place code: operations run at once, and are reversed on request.

`autodiff` differentiates one operation, a `Tape` a sequence of them, into shadow buffers,
those of NumPy and PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any, Literal

from ldiv.core.arrays.buffers import Buffer
from ldiv.core.arrays.typing import Trans
from ldiv.core.calls.public import public
from ldiv.errors import shown, type_error, value_error
from ldiv.inplace import axpy, cholesky, copy, gemm, lu, scale, solve, solve_triangular
from ldiv.inplace.duplicated import Duplicated, Operand
from ldiv.inplace.workspace import Workspace


class Tape:
    """A record of in-place operations, reversed by `reverse` into the shadows of their arguments.

        dA += dL/dA for every input
        dC <- conj(beta) dC for an overwritten output: what is left of its cotangent,
              exactly zero for beta = 0

    Each method runs its operation at once, in place. Arguments are arrays (constants) or
    `Duplicated`; an output that depends on a Duplicated must be one. All arrays of an operation
    have one dtype, device and batch shape; an output shares no memory with an input.

    Raises
    ------
    ValueError
        For shapes, for shared memory, and for a buffer that was changed outside the tape since it
        was recorded, instead of a wrong number.
    TypeError
        For dtypes, and for arrays of different kinds.

    Notes
    -----
    Inputs count with their values at the time of the call: a value that a later operation of the
    tape overwrites is copied first, once. A change outside the tape is detected by PyTorch's
    version counter, which does not see writes through `.data` or NumPy; elsewhere by checksums.
    Nothing but outputs and shadows is written. A tape that is used again reuses its memory: for
    `gemm` and, on NumPy, for `solve_triangular` nothing is allocated once it has run.

    Cost: `gemm` takes 1 product forward and 2 in reverse. A solve takes 1 factorization (or
    triangular solve) forward, 1 more solve and 1 product in reverse. `lu` and `cholesky` take
    1 factorization forward, and 2 triangular solves in reverse.

    References
    ----------
    Giles, Collected matrix derivative results for forward and reverse mode AD (2008), section 2.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> A, B = (ldiv.Duplicated(c * np.eye(2), np.zeros((2, 2))) for c in (1.0, 2.0))
    >>> R = ldiv.Duplicated(np.empty((2, 2)), np.zeros((2, 2)))
    >>> with ldiv.Tape() as tape:
    ...     for _ in range(10):
    ...         tape.matmul(A, B, out=R)
    >>> R.shadow[...] = 1.0
    >>> tape.reverse()
    >>> A.shadow, R.shadow
    (array([[2., 2.], [2., 2.]]), array([[0., 0.], [0., 0.]]))
    """

    def __init__(self) -> None:
        self._workspace = Workspace()

    def __enter__(self) -> Tape:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        """Forget the operations if one of them failed: half of a computation is not reversed."""
        if kind is not None:
            self._workspace.forget()

    def __len__(self) -> int:
        return len(self._workspace)

    def __reduce__(self) -> tuple[Any, ...]:
        """Refuse to copy a tape with operations, which refer to the buffers of their caller."""
        if len(self):
            raise type_error(
                "a copy of a Tape", "one without operations", repr(self), "Call reverse first."
            )
        return Tape, ()

    def __repr__(self) -> str:
        return f"Tape({len(self)} operations)"

    def reverse(self) -> None:
        """Reverse all operations, the last one first, and forget them.

        The shadows of outputs must hold their cotangents. A second time there is nothing to
        reverse, which raises.
        """
        self._workspace.reverse()

    def gemm(
        self,
        alpha: complex | Operand,
        A: Operand,
        B: Operand,
        beta: complex | Operand,
        C: Operand,
        trans_a: Trans = 0,
        trans_b: Trans = 0,
    ) -> None:
        """C <- alpha op(A) op(B) + beta C; with beta = 0 C is not read.

        alpha and beta are numbers, arrays of shape (), or Duplicated ones.
        """
        gemm.run(self._workspace, alpha, A, B, beta, C, trans_a, trans_b)

    def matmul(self, A: Operand, B: Operand, out: Operand) -> None:
        """out <- A B."""
        gemm.run(self._workspace, 1.0, A, B, 0.0, out)

    def solve(
        self,
        A: Operand,
        B: Operand,
        *,
        assume_a: Literal["gen", "sym", "her", "pos"] = "gen",
        method: str = "auto",
    ) -> None:
        """B <- A^-1 B."""
        solve.run(self._workspace, A, B, assume_a=assume_a, method=method)

    def solve_triangular(
        self,
        A: Operand,
        B: Operand,
        *,
        lower: bool = False,
        trans: Trans = "N",
        unit_diagonal: bool = False,
    ) -> None:
        """B <- op(T)^-1 B, T the upper (or lower) triangle of A."""
        solve_triangular.run(
            self._workspace, A, B, lower=lower, trans=trans, unit_diagonal=unit_diagonal
        )

    def lu(self, A: Operand) -> Buffer:
        """A <- tril(L, -1) + U; returns the row exchanges, as `scipy.linalg.lu_factor` does."""
        return lu.run(self._workspace, A)

    def cholesky(self, A: Operand) -> None:
        """A <- L, lower triangular, with A = L L^H."""
        cholesky.run(self._workspace, A)

    def axpy(self, alpha: complex | Operand, x: Operand, y: Operand) -> None:
        """y <- y + alpha x."""
        axpy.run(self._workspace, alpha, x, y)

    def scale(self, alpha: complex | Operand, x: Operand) -> None:
        """x <- alpha x."""
        scale.run(self._workspace, alpha, x)

    def copy(self, x: Operand, y: Operand) -> None:
        """y <- x."""
        copy.run(self._workspace, x, y)


OPERATIONS = (
    "axpy",
    "cholesky",
    "copy",
    "gemm",
    "lu",
    "matmul",
    "scale",
    "solve",
    "solve_triangular",
)
SYNONYMS = {"lu_factor": "lu"}


@public
def autodiff(op: Callable[..., Any] | str, *args: complex | Operand, **options: Any) -> None:
    """Run one operation in place, and then its reverse.

        autodiff(gemm, alpha, A, B, beta, C):    C <- alpha A B + beta C
                                                 dA += ..., dB += ..., then dC <- conj(beta) dC

    Parameters
    ----------
    op : callable or str
        An operation of `Tape`: a function of its name (`ldiv.gemm`, `ldiv.Tape.axpy`), or the name.
    *args : arrays, numbers and Duplicated
        As for the method of `Tape`; the last array is the output. At least one is `Duplicated`. The
        shadow of the output holds dL/d output before the call.
    **options : keyword arguments
        As for the method of `Tape`.

    Returns
    -------
    None
        The output is overwritten, and the cotangents are added to the shadows.

    Raises
    ------
    ValueError
        For an operation that is none of `Tape`, arguments that are all constants, and as in `Tape`.
    TypeError
        As in `Tape`.

    Notes
    -----
    Differentiable are the arguments that are `Duplicated`, once, in reverse mode. Dtypes as in
    `Tape`.
    Cost: as in `Tape`, forward and reverse.

    References
    ----------
    As in `Tape`.

    Examples
    --------
    >>> import ldiv, numpy as np
    >>> A, B, C = np.eye(2), np.full((2, 2), 3.0), np.empty((2, 2))
    >>> dA, dB, dC = np.zeros((2, 2)), np.zeros((2, 2)), np.ones((2, 2))
    >>> A_dA, B_dB, C_dC = map(ldiv.Duplicated, (A, B, C), (dA, dB, dC))
    >>> ldiv.autodiff(ldiv.gemm, 1.0, A_dA, B_dB, 0.0, C_dC)
    >>> dA, dC
    (array([[6., 6.], [6., 6.]]), array([[0., 0.], [0., 0.]]))
    """
    name = op if isinstance(op, str) else getattr(op, "__name__", shown(op))
    name = SYNONYMS.get(name, name)
    if name not in OPERATIONS:
        raise value_error("op", "one of " + ", ".join(OPERATIONS), name, "Compose these on a Tape.")
    if not any(isinstance(x, Duplicated) for x in (*args, *options.values())):
        raise value_error(
            name,
            "an argument Duplicated(value, shadow)",
            "constants",
            "The derivative is added to the shadows.",
        )
    tape = Tape()
    getattr(tape, name)(*args, **options)
    tape.reverse()
