"""Hand-written code in PyTorch around SciPy's functions of dense matrices: an autograd.Function
with the adjoint from the literature, which checks nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg as sl
import torch

Function = Callable[..., Any]
# of the inputs, what the value kept, the cotangent: the gradients of all inputs
Adjoint = Callable[[tuple[Any, ...], Any, Any], tuple[Any, ...]]


def by_hand(value: Function, adjoint: Adjoint) -> Function:
    """`value` gives the result and what the adjoint wants of it."""

    class ByHand(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *inputs: Any) -> Any:
            result, ctx.kept = value(*(x.detach().numpy() for x in inputs))
            ctx.save_for_backward(*inputs)
            return torch.from_numpy(np.ascontiguousarray(result))

        @staticmethod
        def backward(ctx: Any, *bars: Any) -> Any:
            inputs = tuple(x.detach().numpy() for x in ctx.saved_tensors)
            found = adjoint(inputs, ctx.kept, bars[0].numpy())
            return tuple(torch.from_numpy(np.ascontiguousarray(x)) for x in found)

    return ByHand.apply


def _function(f: Function, derivative: Callable[[Any, Any, Any], Any]) -> Function:
    def value(a: Any) -> Any:
        y = f(a)
        return y, y

    return by_hand(value, lambda inputs, y, g: (derivative(inputs[0], y, g),))


def _by_block(f: Function) -> Function:
    """D f(A^T)[G] is the upper right block of f([[A^T, G], [0, A^T]])."""

    def derivative(a: Any, _: Any, g: Any) -> Any:
        n = len(a)
        return f(np.block([[a.T, g], [np.zeros_like(a), a.T]]))[:n, n:]

    return _function(f, derivative)


def _power(a: Any) -> Any:
    return sl.fractional_matrix_power(a, 0.3).real


def _lyapunov_adjoint(a: Any, x: Any, g: Any) -> tuple[Any, Any]:
    """The adjoint of A X + X A^T = Q; X is symmetric."""
    s = sl.solve_continuous_lyapunov(a.T, g)
    return -(s @ x.T + s.T @ x), s


def _sylvester_adjoint(inputs: tuple[Any, ...], x: Any, g: Any) -> tuple[Any, ...]:
    a, b, _ = inputs
    s = sl.solve_sylvester(a.T, b.T, g)
    return -s @ x.T, -x.T @ s, s


def _riccati_adjoint(inputs: tuple[Any, ...], x: Any, g: Any) -> tuple[Any, ...]:
    a, b, _ = inputs
    s = sl.solve_continuous_lyapunov(a - b @ (b.T @ x), -(g + g.T) / 2)
    return 2 * x @ s, -2 * x @ (s @ (x @ b)), s


def _action_adjoint(inputs: tuple[Any, ...], e: Any, g: Any) -> tuple[Any, ...]:
    a, b = inputs
    return sl.expm_frechet(a.T, g @ b.T, compute_expm=False), e.T @ g


def _action(a: Any, b: Any) -> tuple[Any, Any]:
    e = sl.expm(a)
    return e @ b, e


def _twice(x: Any) -> tuple[Any, Any]:
    return x, x


def _eigenvalues(a: Any) -> tuple[Any, Any]:
    return sl.eig(a)


BY_HAND: dict[str, Function] = {
    "expm": _function(sl.expm, lambda a, _, g: sl.expm_frechet(a.T, g, compute_expm=False)),
    "sqrtm": _function(sl.sqrtm, lambda _, x, g: sl.solve_sylvester(x.T, x.T, g)),
    "logm": _by_block(sl.logm),
    "cosm": _by_block(sl.cosm),
    "A^0.3": _by_block(_power),
    "solve_sylvester": by_hand(
        lambda a, b, q: _twice(sl.solve_sylvester(a, b, q)), _sylvester_adjoint
    ),
    "solve_continuous_lyapunov": by_hand(
        lambda a, q: _twice(sl.solve_continuous_lyapunov(a, q)),
        lambda inputs, x, g: _lyapunov_adjoint(inputs[0], x, g),
    ),
    "solve_continuous_are": by_hand(
        lambda a, b, q: _twice(sl.solve_continuous_are(a, b, q, np.eye(b.shape[1]))),
        _riccati_adjoint,
    ),
    "expm_multiply": by_hand(_action, _action_adjoint),
    "eigvals": by_hand(
        _eigenvalues,
        lambda inputs, x, g: (np.linalg.solve(x.conj().T, g[:, None] * x.conj().T).real,),
    ),
}
