"""F = D^m f(A)[E_1, ..., E_m]: a function of any square matrix A, and its derivatives.

    f(A + e_1 E_1 + ... + e_m E_m) = .. + e_1 .. e_m F,    e_i^2 = 0

which for m = 1 is the upper right block of f([[A, E], [0, A]]).
tangent      dF = D^(m+1) f(A)[E_1, ..., E_m, dA] + sum over a of D^m f(A)[.., dE_a, ..]
cotangent    A_bar = D^(m+1) f(A)[E_1, ..., E_m, F_bar^H]^H,
             E_a_bar = D^m f(A)[.., F_bar^H, ..]^H with E_b for the others
             for tr(G D^m f(A)[.., E, ..]) = tr(E D^m f(A)[.., G, ..]), words in A and E being
             rotated under the trace
cost         that of f for m = 0; 3^m times as much for its derivatives
reference    Higham, Functions of Matrices (2008), section 3.2

The functions are those of `engines/functions`; all run on the host, one matrix at a time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from math import frexp
from typing import Any, Protocol

import numpy as np

from ldiv.core.arrays.shapes import adjoint, astype, common_batch, result_dtype, spread
from ldiv.core.cached_property import cached_property
from ldiv.core.frameworks.dispatch import on_host
from ldiv.core.frameworks.trees import Arrays, Cotangents, Tangents, Tree, Trees
from ldiv.core.rules.compiled import Compiled, CompiledCall
from ldiv.core.rules.finite import require_finite, unwarned
from ldiv.core.rules.rule import Cases, Rule, Traits, bind
from ldiv.core.rules.structure import plus
from ldiv.engines.factors import dense_programs
from ldiv.engines.functions.exponential_calls import ExponentialCalls
from ldiv.engines.functions.homogeneous import Homogeneous, exponent_of, times_power
from ldiv.engines.functions.matrix_exponential import Exponential
from ldiv.engines.functions.matrix_logarithm import Logarithm
from ldiv.engines.functions.matrix_power import FractionalPower, IntegerPower
from ldiv.engines.functions.matrix_root import SquareRoot
from ldiv.engines.functions.matrix_sign import Sign
from ldiv.engines.functions.schur_parlett import ScalarFunction
from ldiv.engines.functions.trigonometric import Trigonometric
from ldiv.errors import expected_got


class MatrixFunction(Protocol):
    """f of NumPy arrays (n, n) in double precision; hashable."""

    @property
    def name(self) -> str: ...

    @property
    def units(self) -> Homogeneous | None:
        """The degree by which f(t A) follows from f(A); None if f is not homogeneous."""

    def value(self, a: Any) -> Any:
        """f(A), complex if it has to be."""

    def derivative(self, a: Any, es: list[Any]) -> Any:
        """D^m f(A)[E_1, ..., E_m], m > 0, or NotDifferentiableError."""


class ComplexValueError(ValueError):
    """Raised if f(A) is complex for a real A: the caller's arrays cannot hold it."""


@dataclass(frozen=True)
class MatrixMap(Rule):
    """Arguments (A, E_1, ..., E_m), each (*batch, n, n)."""

    function: MatrixFunction
    m: int = 0

    @property
    def core(self) -> Trees:
        return (2,) * (self.m + 1)

    @cached_property
    def traits(self) -> Traits:
        return Traits(
            name=f"{'the derivative of ' * bool(self.m)}{self.function.name}", on_host=True
        )

    def kernel(self, *args: Tree) -> Arrays:
        require_finite("A", *args)
        batch, dtype = common_batch(self.core, args), result_dtype(args)
        wide = [astype(spread(x, batch), dtype) for x in args]
        specs = ((tuple(wide[0].shape), dtype),)
        return on_host(partial(_each, self.function), specs, *wide)

    def operation(self) -> Compiled | None:
        is_exponential = type(self.function) is Exponential and self.m == 0
        return ExponentialCalls() if is_exponential else None

    def program(self, *flat: Any) -> CompiledCall | None:
        return dense_programs.expm(*flat) if type(self.function) is Exponential else None

    @property
    def derivative(self) -> MatrixMap:
        """D^(m+1) f."""
        return replace(self, m=self.m + 1)

    def jvp(self, tangents: Trees, out: Arrays, *args: Tree) -> Tangents:
        (a, *es), (da, *des) = args, tangents
        dy = None if da is None else bind(self.derivative, a, *es, da)[0]
        for i, de in enumerate(des):
            dy = plus(dy, None if de is None else bind(self, a, *es[:i], de, *es[i + 1 :])[0])
        return (dy,)

    def vjp(self, need: Trees, cotangents: Cotangents, out: Arrays, *args: Tree) -> Trees:
        (a, *es), (y_bar,) = args, cotangents
        # tr(G D^m f(A)[.., E, ..]) is symmetric in G and E: G = F_bar^H becomes a direction
        g = adjoint(y_bar)
        a_bar = adjoint(bind(self.derivative, a, *es, g)[0]) if need[0] else None
        others = (es[:i] + es[i + 1 :] for i in range(self.m))
        return a_bar, *(
            adjoint(bind(self, a, *rest, g)[0]) if n else None
            for rest, n in zip(others, need[1:], strict=True)
        )


def matrix_map(function: MatrixFunction, a: Any, *es: Any) -> Any:
    """D^m f(A)[E_1, ..., E_m]."""
    return bind(MatrixMap(function, len(es)), a, *es)[0]


# -- on the host --------------------------------------------------------------


def _each(f: MatrixFunction, *args: Any) -> tuple[Any, ...]:
    """Apply f in double precision, matrix by matrix."""
    wide = [x.astype(np.result_type(x.dtype, float), copy=False) for x in args]
    with unwarned():
        if args[0].ndim == 2 and args[0].size:
            return (_one(f, *wide).astype(args[0].dtype, copy=False),)
        out = np.empty_like(args[0])
        for i in np.ndindex(*out.shape[:-2] if out.size else (0,)):
            out[i] = _one(f, *(x[i] for x in wide))
    return (out,)


def _one(f: MatrixFunction, a: Any, *es: Any) -> Any:
    """f(A), or its derivative in directions E, each in units of its own, and A where it has one."""
    scale = [_unit(e) for e in es]
    # f(2^e B) follows from f(B) if f is homogeneous; D^m f is linear in each E.
    # Powers of two are exact.
    exponent = 0 if f.units is None else exponent_of(a)
    b = times_power(a, -exponent) if exponent else a
    y = f.derivative(b, [e / s for e, s in zip(es, scale, strict=True)]) if es else f.value(b)
    if f.units is not None and exponent:
        y = f.units.of_multiple(exponent, y, len(es))
    if a.dtype.kind != "c" and y.dtype.kind == "c":
        raise _complex_value(f.name)
    for s in scale:
        y = y * s
    return y


def _complex_value(name: str) -> ComplexValueError:
    came = "one whose value is complex, as where an eigenvalue is negative"
    advice = "Pass a complex A: A + 0j."
    return ComplexValueError(expected_got(name, "a real A with a real value", came, advice))


def _unit(e: Any) -> float:
    """A power of two near the largest number of E."""
    size = max(abs(e.real).max(), abs(e.imag).max()) if e.dtype.kind == "c" else abs(e).max()
    # size = m 2^e with 1/2 <= m < 1, and 2^1024 is no double
    return 2.0 ** min(frexp(size)[1], 1023)


# -- for the conformance suite ------------------------------------------------


def cases(structures: Any, draw: Any) -> Cases:
    def near_one(*batch: int) -> Any:
        return 2 * np.eye(3) + draw(*batch, 3, 3) / 3

    functions: list[MatrixFunction] = [Exponential(), SquareRoot(), Logarithm()]
    functions += [IntegerPower(3), IntegerPower(-2), FractionalPower(0.3), FractionalPower(-1.6)]
    for name in ("cosm", "sinm", "tanm", "coshm", "sinhm", "tanhm"):
        functions.append(Trigonometric(name))
    functions += [Sign(), ScalarFunction(np.exp)]
    for f in functions:
        yield MatrixMap(f), (near_one(),)
    yield MatrixMap(Exponential(), 1), (near_one(2), draw(3, 3))
    yield MatrixMap(SquareRoot(), 1), (near_one(), draw(2, 3, 3))
    yield MatrixMap(Sign()), (near_one() - np.diag([0.0, 4.0, 0.0]),)
    yield MatrixMap(Logarithm(), 2), (near_one(), draw(3, 3), draw(3, 3))
