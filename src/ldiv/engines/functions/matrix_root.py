"""X = A^(1/2), all of whose eigenvalues have a positive real part, and its derivatives.

    X X = A,    X dX + dX X = dA

for hyperdual A on one Schur form of A: the equation of the derivative is a Sylvester equation with
triangular X, and so are those of all higher ones. Values are SciPy's, verified by X X = A.
Reference: Bjorck and Hammarling (1983); Higham, Functions of Matrices (2008), ch. 6.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
import scipy.linalg

from ldiv.core.frameworks.trees import HostArray
from ldiv.engines.functions.branch_cut import principal, require_off_the_cut
from ldiv.engines.functions.certain import doubt
from ldiv.engines.functions.homogeneous import Homogeneous
from ldiv.engines.functions.hyperdual import halves, hyperdual, sylvester
from ldiv.engines.functions.triangular_sylvester import triangular_sylvester
from ldiv.errors import SingularMatrixError

RESIDUAL = 1e-8  # of |X|^2, beyond which X is no root


@dataclass(frozen=True)
class SquareRoot:
    """X X = A."""

    name: str = "sqrtm"
    units: ClassVar[Homogeneous | None] = Homogeneous(0.5)

    def value(self, a: HostArray) -> HostArray:
        x = _principal_root(a)
        # rounding of X moves X X by eps |X|^2
        off = abs(x @ x - a).max()
        small = off <= RESIDUAL * np.linalg.norm(x) ** 2
        why = doubt(a, x, _principal_root) if small else f"|X X - A| = {off:.1e}"
        if why is not None:
            causes = "a singular matrix, or nearly so, that is defective there."
            raise SingularMatrixError("sqrtm", why, causes=causes, verdict="has no square root")
        return x

    def derivative(self, a: HostArray, es: list[HostArray]) -> HostArray:
        # D f(A)[E] = Q D f(T)[Q^H E Q] Q^H
        t, q, fs = schur_form(a, es)
        require_off_the_cut(self.name, a, t)
        return q @ square_root(hyperdual(t, fs))[-1] @ q.conj().T


def _principal_root(a: HostArray) -> HostArray:
    """SciPy's value."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of matrices near singular ones: the residual tells
        return principal(_root, a)


def _root(a: HostArray) -> HostArray:
    """SciPy's; of a diagonal matrix the roots of its numbers: a small one beside a large one, which
    the Schur form of older SciPy drops, stays.
    """
    of_diagonal = np.diagonal(a)
    if np.count_nonzero(a) == np.count_nonzero(of_diagonal):
        return np.diag(np.emath.sqrt(of_diagonal))
    root: HostArray = scipy.linalg.sqrtm(a)
    return root


def schur_form(a: HostArray, es: list[HostArray]) -> tuple[HostArray, HostArray, list[HostArray]]:
    """T and Q with A = Q T Q^H, and all Q^H E Q; real, with blocks of order 2, if all of these are."""
    real = all(x.dtype.kind != "c" for x in (a, *es))
    t, q = scipy.linalg.schur(a, output="real" if real else "complex", check_finite=False)
    return t, q, [q.conj().T @ e @ q for e in es]


def square_root(x: HostArray) -> HostArray:
    """The root of a hyperdual X, whose part without any e is triangular, or nearly."""
    if len(x) == 1:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            root = principal(_root, x[0])  # older SciPy makes it complex
        # rounding may leave something below: only blocks of order 2 stand there
        return np.where(np.tri(len(root), k=-1, dtype=bool) & (x[0] == 0), 0, root)[None]
    x, dx = halves(x)
    # Y Y = X,  Y dY + dY Y = dX; the part of Y without any e is triangular
    y = square_root(x)
    solve = partial(triangular_sylvester, y[0], y[0], ops="NN")
    return np.concatenate([y, sylvester(solve, y, dx)])
