"""Hand-written adjoints of in-place code: operations run now, and are reversed when asked, into
shadow buffers.

`autodiff` differentiates one operation, a `Tape` a sequence of them. NumPy, CuPy and PyTorch
buffers.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any

from ldiv.core.public import public
from ldiv.core.trees import Array
from ldiv.errors import got, shown
from ldiv.inplace import axpy, cholesky, copy, gemm, lu, scale, solve, solve_triangular
from ldiv.inplace.duplicated import Duplicated
from ldiv.inplace.workspace import Room


class Tape:
    """A record of in-place operations, reversed by `reverse` into the shadows of their arguments.

        dA += dL/dA for every input;    dC <- what is left of it for what was overwritten: conj(beta) dC, exactly zero for beta = 0

    Each method runs its operation at once, in place. Arguments are arrays (constants) or
    `Duplicated`; what depends on a Duplicated must be one. All arrays of an operation have one
    dtype, device and batch shape; an output shares no memory with an input. Inputs count as they
    are at the time of the call: a value that a later operation of the tape overwrites is copied
    first, once. A change behind the tape's back is noticed (PyTorch's version counter, which does
    not see writes through `.data` or NumPy; else checksums) and raises ValueError, never a wrong
    number.
    Nothing but outputs and shadows is written. A tape that is used again reuses its memory: for
    `gemm` and, on NumPy, for `solve_triangular` nothing is allocated once it is warm.
    Cost: gemm 1 product forward and 2 in reverse; a solve 1 factorization (or substitution)
    forward, 1 more solve and 1 product in reverse; lu and cholesky 1 factorization, and 2
    triangular solves.
    Source: Giles, Collected matrix derivative results for forward and reverse mode AD (2008),
    section 2.

    >>> import ldiv, numpy as np
    >>> A, B, R = (ldiv.Duplicated(x, np.zeros((2, 2))) for x in (np.eye(2), 2 * np.eye(2), np.empty((2, 2))))
    >>> with ldiv.Tape() as tape:
    ...     for _ in range(10):
    ...         tape.matmul(A, B, out=R)
    >>> R.shadow[...] = 1.0
    >>> tape.reverse()
    >>> A.shadow, R.shadow
    (array([[2., 2.], [2., 2.]]), array([[0., 0.], [0., 0.]]))
    """

    def __init__(self) -> None:
        self._room = Room()

    def __enter__(self) -> Tape:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        """What failed half way is not reversed."""
        if kind is not None:
            self._room.forget()

    def __len__(self) -> int:
        return len(self._room)

    def __reduce__(self) -> tuple[Any, ...]:
        """Steps lead back into the buffers of their caller, which a copy would not have."""
        if len(self):
            raise TypeError(
                got("a copy of a Tape", "one without operations", repr(self), "Call reverse first.")
            )
        return Tape, ()

    def __repr__(self) -> str:
        return f"Tape({len(self)} operations)"

    def reverse(self) -> None:
        """Reverse all operations, the last one first, and forget them; shadows of outputs must
        hold their cotangents.
        """
        self._room.reverse()

    def gemm(
        self, alpha: Any, A: Any, B: Any, beta: Any, C: Any, trans_a: Any = 0, trans_b: Any = 0
    ) -> None:
        """C <- alpha op(A) op(B) + beta C; alpha, beta: numbers, arrays of shape () or
        Duplicated ones. beta = 0 does not read C.
        """
        gemm.run(self._room, alpha, A, B, beta, C, trans_a, trans_b)

    def matmul(self, A: Any, B: Any, out: Any) -> None:
        """out <- A B."""
        gemm.run(self._room, 1.0, A, B, 0.0, out)

    def solve(self, A: Any, B: Any, *, assume_a: str = "gen", method: str = "auto") -> None:
        """B <- A^-1 B; assume_a: "gen", "sym", "her" or "pos"."""
        solve.run(self._room, A, B, assume_a=assume_a, method=method)

    def solve_triangular(
        self, A: Any, B: Any, *, lower: bool = False, trans: Any = "N", unit_diagonal: bool = False
    ) -> None:
        """B <- op(T)^-1 B, T the upper (or lower) triangle of A."""
        solve_triangular.run(
            self._room, A, B, lower=lower, trans=trans, unit_diagonal=unit_diagonal
        )

    def lu(self, A: Any) -> Array:
        """A <- tril(L, -1) + U; returns the exchanges of rows, as `scipy.linalg.lu_factor` does."""
        return lu.run(self._room, A)

    def cholesky(self, A: Any) -> None:
        """A <- L, lower, with A = L L^H."""
        cholesky.run(self._room, A)

    def axpy(self, alpha: Any, x: Any, y: Any) -> None:
        """y <- y + alpha x."""
        axpy.run(self._room, alpha, x, y)

    def scale(self, alpha: Any, x: Any) -> None:
        """x <- alpha x."""
        scale.run(self._room, alpha, x)

    def copy(self, x: Any, y: Any) -> None:
        """y <- x."""
        copy.run(self._room, x, y)


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
def autodiff(op: Callable[..., Any] | str, *args: Any, **options: Any) -> None:
    """Run one operation in place, and then its reverse.

        autodiff(gemm, alpha, A, B, beta, C):    C <- alpha A B + beta C;    dA += ..., dB += ..., then dC <- conj(beta) dC

    op: an operation of `Tape`, as a function of its name (`ldiv.gemm`, `ldiv.Tape.axpy`) or the
    name; its last array is the output.
    args: as for the method of `Tape`; at least one `Duplicated`. The shadow of the output holds
    dL/d output before the call. Derivatives, dtypes, cost, errors and source as in `Tape`.

    >>> import ldiv, numpy as np
    >>> A, B, C = np.eye(2), np.full((2, 2), 3.0), np.empty((2, 2))
    >>> dA, dB, dC = np.zeros((2, 2)), np.zeros((2, 2)), np.ones((2, 2))
    >>> ldiv.autodiff(ldiv.gemm, 1.0, ldiv.Duplicated(A, dA), ldiv.Duplicated(B, dB), 0.0, ldiv.Duplicated(C, dC))
    >>> dA, dC
    (array([[6., 6.], [6., 6.]]), array([[0., 0.], [0., 0.]]))
    """
    name = op if isinstance(op, str) else getattr(op, "__name__", shown(op))
    name = SYNONYMS.get(name, name)
    if name not in OPERATIONS:
        raise ValueError(
            got("op", "one of " + ", ".join(OPERATIONS), name, "Compose these on a Tape.")
        )
    if not any(isinstance(x, Duplicated) for x in (*args, *options.values())):
        raise ValueError(
            got(
                name,
                "an argument Duplicated(value, shadow)",
                "constants",
                "The derivative is added to the shadows.",
            )
        )
    tape = Tape()
    getattr(tape, name)(*args, **options)
    tape.reverse()
