"""The products by which SciPy's solvers know a matrix: A x, A^H x, of vectors and of blocks.

`scipy.sparse.linalg.aslinearoperator` takes what has `shape`, `dtype` and `matvec`, so cg, gmres,
eigsh, svds, lsmr and others take every matrix of NumPy values, without derivatives.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self

import numpy as np

from ldiv.core.arrays.typing import ArrayT
from ldiv.core.frameworks.dispatch import is_array
from ldiv.errors import shown, value_error

NUMBERS = (int, float, complex, np.number)


class OperatorProtocol:
    """The methods of scipy.sparse.linalg.LinearOperator, by `@` and `.H`."""

    @property
    @abstractmethod
    def T(self) -> Self: ...

    @property
    @abstractmethod
    def H(self) -> Self: ...

    @abstractmethod
    def __matmul__(self, x: Any) -> Any: ...

    @abstractmethod
    def __mul__(self, c: Any) -> Any: ...

    def matvec(self, x: ArrayT) -> ArrayT:
        """A x for x (n,) or (n, 1)."""
        return self @ x

    def rmatvec(self, x: ArrayT) -> ArrayT:
        """A^H x for x (m,) or (m, 1)."""
        return self.H @ x

    def matmat(self, X: ArrayT) -> ArrayT:
        """A X for X (*batch, n, k)."""
        return self.matvec(X)

    def rmatmat(self, X: ArrayT) -> ArrayT:
        """A^H X for X (*batch, m, k)."""
        return self.rmatvec(X)

    def adjoint(self) -> Self:
        """The conjugate transpose, `A.H`."""
        return self.H

    def transpose(self, *axes: Any) -> Self:
        """The transpose, `A.T`, also with the axes (1, 0), as NumPy and PyTorch have them."""
        given = axes[0] if len(axes) == 1 else axes
        if given not in (None, (), (1, 0), (-1, -2)):
            advice = "Write A.T: (0, 1) means A in NumPy, and A.T in PyTorch."
            raise value_error("axes", "(1, 0) or (-1, -2)", shown(given), advice)
        return self.T

    def dot(self, other: Any) -> Any:
        """The product `A @ other`, of a number `A * other`."""
        if isinstance(other, NUMBERS) or (is_array(other) and other.ndim == 0):
            return self * other
        return self @ other
