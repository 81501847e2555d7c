"""(R, X) with R + A X = B, A^H R = C, column by column: LSQR and LSMR, whose steps are SciPy's.

With the shortest Z of all with A^H Z = C, X minimizes |A X - B + Z|. Z is found first, if C is not
zero: a C without such a Z shows that the columns of A are dependent. What is found is accepted by
its true residual; else the iteration starts again from there.
References: Paige and Saunders, ACM Trans. Math. Softw. 8 (1982); Fong and Saunders, SIAM J. Sci.
Comput. 33 (2011).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator, lsmr, lsqr

from ldiv.core.arrays.shapes import alike, common_batch, each_on_host, result_dtype
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.dispatch import check_or_raise, namespace, traced
from ldiv.core.frameworks.trees import Tree, leaves
from ldiv.core.rules.finite import all_finite, require_finite, unwarned
from ldiv.core.rules.structure import Structure
from ldiv.core.rules.units import balance, magnitude
from ldiv.engines.iterative.of_scipy import Pair, products, scaled
from ldiv.errors import (
    OF_DEPENDENT_COLUMNS,
    OF_LEAST_SQUARES,
    ConvergenceError,
    EngineError,
    SingularMatrixError,
    overflowed,
    value_error,
)

ROUNDS = 4  # starts at most
PER_UNKNOWN = 10  # steps for each unknown, at most
BEYOND = 10.0  # how much larger than it was asked for a true residual may be: estimates differ


@dataclass(frozen=True)
class Bidiagonalization:
    """The method and its stops: |r| <= btol |b| + atol |A| |x|, or |A^H r| <= atol |A| |r|.

    An estimate of the condition above `conlim` stops it without a solution.
    """

    name: str
    atol: float | None = None
    btol: float | None = None
    maxiter: int | None = None
    conlim: float = 0.0
    show: bool = False

    def solve(
        self, structure: Structure, p: Tree, b: Array, c: Array, start: Array
    ) -> tuple[Array, Array]:
        """R (*batch, m, k) and X (*batch, n, k), which is looked for from `start`."""
        args, like = (p, b, c, start), (structure.core, 2, 2, 2)
        batch, dtype = common_batch(like, args), result_dtype(p, b)
        specs = tuple(((*batch, *y.shape[-2:]), dtype) for y in (b, c))
        one = partial(self._block, structure, dtype)
        if structure.on_host:
            r, x = each_on_host(one, like, args, specs)
            return r, x
        if batch or any(map(traced, leaves(args))):
            raise EngineError(
                f"{self.name} is SciPy's: it calls an operator with numbers, one problem at a time. "
                "Under jit and vmap give it a sparse or a dense matrix."
            )
        r, x = (namespace(b).asarray(y, **alike(b, dtype)) for y in one(*args))
        return r, x

    def _block(self, structure: Structure, dtype: Any, p: Tree, b: Any, c: Any, start: Any) -> Any:
        require_finite("A", *leaves(structure.read(p)))
        require_finite("b", b, c)
        require_finite("x0", start)
        b, c, start = (np.asarray(x, dtype) for x in (b, c, start))
        with unwarned():
            # x -> t^2 A x and y -> t^2 A^H y, near 1: the steps square norms
            anywhere = np.random.default_rng(len(c)).standard_normal(len(c)).astype(dtype)
            t, pair = scaled(products(structure, p, dtype), anywhere)
            if structure.states_adjoint:
                _require_adjoint(pair, len(b), anywhere)
            sides = zip(b.T, c.T, start.T, strict=True)
            columns = [self._column(pair, t, *each) for each in sides]
        r, x = zip(*columns, strict=True) if columns else ((), ())
        return np.array(r, dtype).reshape(b.T.shape).T, np.array(x, dtype).reshape(c.T.shape).T

    def _column(self, pair: Pair, t: Any, b: Any, c: Any, start: Any) -> tuple[Any, Any]:
        A = LinearOperator((len(b), len(c)), pair[0], rmatvec=pair[1], dtype=b.dtype)
        # t^2 A, R, t^-2 X, B and t^2 C belong together; linear in (b, c), which are near 1 times s^2
        c = c * t * t
        self._require_finite(c)
        s = balance(magnitude(np.concatenate([b, c]), 0))
        b, c, start = b * s * s, c * s * s, start / t * s / t * s
        # z: the shortest one with A^H z = c
        z = self._found(A.adjoint(), c, shortest=True)
        rest = b - z
        # x: least |A x - (b - z)|;  r = z + (b - z - A x)
        x = self._found(A, rest, shortest=False, start=start)
        r, x = (z + (rest - A.matvec(x))) / s / s, x * t / s * t / s
        self._require_finite(r, x)
        return r, x

    def _require_finite(self, *arrays: Any) -> None:
        check_or_raise(all(map(all_finite, arrays)), partial(overflowed, self.name))

    def _found(self, A: Any, b: Any, shortest: bool, start: Any = None) -> Any:
        """The x of least |A x - b|, or the shortest one with A x = b."""
        x = np.zeros(A.shape[1], b.dtype)
        if not b.any() or 0 in A.shape:
            return x
        x = x if start is None else start
        usual = float(np.finfo(b.dtype).eps ** (2 / 3))
        atol, btol = (usual if t is None else t for t in (self.atol, self.btol))
        most, steps = self.maxiter or PER_UNKNOWN * max(A.shape), 0
        stops = {"atol": atol, "btol": btol, "conlim": self.conlim, "show": self.show}
        steps_of, limit = (lsqr, "iter_lim") if self.name == "lsqr" else (lsmr, "maxiter")
        for _ in range(ROUNDS):
            # both return x, the reason, the steps, two norms, and an estimate of |A|
            found = steps_of(A, b, x0=x, **stops | {limit: most - steps})
            x, steps = found[0].astype(b.dtype), steps + found[2]
            r = b - A.matvec(x)
            size, norm = np.linalg.norm(r), found[5]
            # a norm that is no number fulfils none of these
            whole, reach = np.linalg.norm(b), norm * np.linalg.norm(x)
            # |r| <= btol |b| + atol |A| |x|
            solved = size <= BEYOND * (btol * whole + atol * reach)
            rounding = np.finfo(b.dtype).eps * (whole + reach)
            # |A^H r| <= |A| (atol |r| + rounding)
            least = np.linalg.norm(A.rmatvec(r)) <= BEYOND * norm * (atol * size + rounding)
            beyond_conlim = found[1] == 3
            if (solved or (least and not shortest)) and not beyond_conlim:
                return x
            if steps >= most or beyond_conlim:
                break
        # a least residual that is not 0: c is not in the range of A^H
        if least and not beyond_conlim:
            raise SingularMatrixError(
                self.name,
                "no solution of A^H z = c, a step of its derivative",
                causes=OF_DEPENDENT_COLUMNS.replace("ldiv.pinv(a) @ b", "damp > 0"),
                verdict="has not full rank",
            )
        causes = OF_LEAST_SQUARES.format(limit="conlim" if beyond_conlim else limit)
        what = "the residual over b is"
        raise ConvergenceError(self.name, steps, float(size / whole), btol, what, causes)


def _require_adjoint(pair: Pair, m: int, v: Any) -> None:
    """<u, A v> = <A^H u, v> for random u and v: a wrong product by A^H would be a wrong x."""
    u = np.random.default_rng(m).standard_normal(m).astype(v.dtype)
    here, there = pair[0](v), pair[1](u)
    whole = np.linalg.norm(u) * np.linalg.norm(here) + np.linalg.norm(there) * np.linalg.norm(v)
    off = abs(np.vdot(u, here) - np.vdot(there, v))
    if not off <= float(np.finfo(v.dtype).eps ** 0.5) * whole:
        advice = "Give an rmatvec, with the conjugates of complex numbers, that belongs to matvec."
        came = f"inner products that differ by {off / (whole or 1):.1e}"
        raise value_error("A", "<u, A v> = <A^H u, v>", came, advice)
