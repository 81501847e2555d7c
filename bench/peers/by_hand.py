"""Hand-written code in PyTorch around SuperLU: an autograd.Function that factors, solves twice,
samples the product, and checks nothing.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from scipy.sparse.linalg import splu

from peers import raw


class Pattern:
    """The order of ldiv and the place of every value in it, made once; values come in
    compressed columns.
    """

    def __init__(self, a: Any) -> None:
        order = raw.order_of_ldiv(a)
        numbered = copy.copy(a)
        numbered.data = np.arange(1.0, len(a.data) + 1)
        self.order, self.back = order, np.argsort(order)
        self.matrix = raw.permuted(numbered, order)
        self.entries = self.matrix.data.astype(np.intp) - 1
        self.rows, self.cols = (
            a.indices.astype(np.intp),
            np.repeat(np.arange(a.shape[1]), np.diff(a.indptr)),
        )

    def factored(self, values: Any) -> Any:
        matrix = copy.copy(self.matrix)
        matrix.data = values[self.entries]
        return splu(matrix, **raw.OPTIONS)

    def solve(self, lu: Any, b: Any, op: str) -> Any:
        return lu.solve(b[self.order], op)[self.back]


class Solve(torch.autograd.Function):
    """x = A^-1 b."""

    @staticmethod
    def forward(ctx: Any, pattern: Pattern, values: Any, b: Any) -> Any:
        lu = pattern.factored(values.detach().numpy())
        x = torch.from_numpy(pattern.solve(lu, b.detach().numpy(), "N"))
        ctx.pattern, ctx.lu = pattern, lu
        ctx.save_for_backward(x)
        return x

    @staticmethod
    def backward(ctx: Any, x_bar: Any) -> Any:
        (x,) = ctx.saved_tensors
        lam = ctx.pattern.solve(ctx.lu, x_bar.numpy(), "T")
        values_bar = -lam[ctx.pattern.rows] * x.detach().numpy()[ctx.pattern.cols]
        return None, torch.from_numpy(values_bar), torch.from_numpy(lam)


def value_and_gradient(pattern: Pattern, values: Any, b: Any, c: Any) -> tuple[Any, Any, Any]:
    """(x, gradient in the values, gradient in b)."""
    values, b = values.detach().requires_grad_(), b.detach().requires_grad_()
    x = Solve.apply(pattern, values, b)
    return (x.detach(), *torch.autograd.grad(x, (values, b), c))


class Nothing(torch.autograd.Function):
    """An empty Function: what PyTorch itself asks for one."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x + 0

    @staticmethod
    def backward(ctx: Any, bar: Any) -> Any:
        return bar
