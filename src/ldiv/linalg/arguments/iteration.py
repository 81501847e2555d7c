"""The options of an iteration as a user passes them, checked and made ready for the engines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ldiv.core.arrays.shapes import device_of, is_complex, result_dtype
from ldiv.core.arrays.typing import AnyArray
from ldiv.core.arrays.validate import (
    as_block,
    require_callable,
    require_flag,
    require_int,
    require_number,
)
from ldiv.core.frameworks.array_protocol import Array
from ldiv.core.frameworks.trees import Tree, leaves
from ldiv.core.rules.structure import Structure
from ldiv.engines import registry
from ldiv.engines.iterative.observers import Observer, observers
from ldiv.engines.iterative.options import Options
from ldiv.errors import value_error
from ldiv.linalg.arguments import preconditioner
from ldiv.linalg.arguments.preconditioner import PreconditionerLike


@dataclass(frozen=True, eq=False)
class Iteration:
    """The options of `solve` for engines that iterate; numbers and functions are checked."""

    rtol: float | None = None
    atol: float = 0.0
    maxiter: int | None = None
    restart: int | None = None
    M: PreconditionerLike | None = None
    x0: AnyArray | None = None
    callback: Callable[[Any], Any] | None = None
    progress: bool = False

    def __post_init__(self) -> None:
        require_number("atol", self.atol, 0)
        if self.rtol is not None:
            require_number("rtol", self.rtol, 0)
        for name in ("maxiter", "restart"):
            if getattr(self, name) is not None:
                require_int(name, getattr(self, name), 1)
        if self.callback is not None:
            require_callable(
                "callback", self.callback, "a function of x", "It is called after each step."
            )
        require_flag("progress", self.progress)

    @property
    def given(self) -> list[str]:
        """The names of the options that differ from their defaults."""
        defaults: dict[str, Any] = {"atol": 0.0, "progress": False}  # None for all others
        return [
            name
            for name, value in vars(self).items()
            if value is not None and not (name in defaults and value == defaults[name])
        ]


def iteration_options(
    iteration: Iteration, assume_a: str, method: str, structure: Structure, p: Tree, b: Array
) -> tuple[str, Options, tuple[Tree, ...]]:
    """The method, the options, and their arrays (parameters of M, x0), checked against A and b."""
    method = _iterative(method, iteration.given)
    is_real = not any(map(is_complex, (*leaves(p), b)))
    M, auxiliaries = None, []  # in the order of `Options.core`
    if iteration.M is not None:
        M, m = _preconditioner(iteration.M, structure, p, is_real)
        dtype, device = result_dtype(p, b), device_of(b)
        engine = registry.choose(structure.unview()[0], dtype, device, assume_a, method)
        if engine.HERMITIAN_M:
            preconditioner.require_hermitian(M, registry.name_of(engine))
        auxiliaries.append(m)
    if iteration.x0 is not None:
        auxiliaries.append(_guess(iteration.x0, structure, p, b, is_real))
    options = Options(
        rtol=None if iteration.rtol is None else float(iteration.rtol),
        atol=float(iteration.atol),
        maxiter=None if iteration.maxiter is None else int(iteration.maxiter),
        restart=int(iteration.restart or Options.restart),
        M=M,
        start=iteration.x0 is not None,
        observers=_observers(iteration, b),
    )
    return method, options, tuple(auxiliaries)


def _iterative(method: str, given: list[str]) -> str:
    """The method, which iterates; with options of an iteration "auto" is "iterative"."""
    engine = registry.engines().get(method)
    if method == "direct" or (engine is not None and not registry.is_iterative(engine)):
        advice = "Leave it out, or use method='iterative'."
        raise value_error(" and ".join(given), "a method that iterates", repr(method), advice)
    return "iterative" if method == "auto" else method


def _preconditioner(M: Any, structure: Structure, p: Tree, is_real: bool) -> tuple[Structure, Tree]:
    """The structure of M and its parameters, real in a real system."""
    M, m = preconditioner.given(M, structure, p)
    if is_real and any(map(is_complex, leaves(m))):
        expected, advice = "real numbers, as those of A and b", "Make b complex, or M real."
        raise value_error("M", expected, "complex ones", advice)
    return M, m


def _guess(x0: Any, structure: Structure, p: Tree, b: Array, is_real: bool) -> Array:
    """x0 as a block of columns, shaped like b, real in a real system."""
    block, vector = as_block("x0", x0, structure.shape[1], leaves(p)[0])
    shape = tuple(block.shape)[: -1 if vector else None]
    if shape != tuple(b.shape):
        raise value_error("x0", f"the shape of b, {tuple(b.shape)}", shape, "It is a guess for x.")
    if is_real and is_complex(block):
        expected, advice = "real numbers, as those of A and b", "The solution is real."
        raise value_error("x0", expected, "complex ones", advice)
    return block


def _observers(iteration: Iteration, b: Array) -> tuple[Observer, ...]:
    """The callback and the progress line; where b is a vector the callback is shown vectors."""
    callback = iteration.callback
    if callback is not None and b.ndim == 1:
        callback = OfVector(callback)
    return observers(callback, bool(iteration.progress))


@dataclass(frozen=True)
class OfVector:
    """A callback that is shown a vector, not a block of one column."""

    callback: Callable[[Any], Any]

    def __call__(self, x: Array) -> Any:
        return self.callback(x[..., 0])
