"""The nodes of a graph of autograd: the leaves that it ends in, and whether nothing cuts its derivatives.

A user's backward pass may cut the graph of its results (no_grad, detach, NumPy), and so may a hook, or
an operation of PyTorch (sparse_coo_tensor). The operations that are listed here do not.
"""

from __future__ import annotations

from typing import Any

import torch

from ldiv.frontends.torch import private

# elementwise; sums and products; views, indices and their adjoints
LISTED = """
    AccumulateGrad Add Sub Rsub Mul Div Neg Reciprocal Pow Sqrt Rsqrt Exp Expm1 Log
    Log1P Sin Cos Tan Atan Sinh Cosh
    Tanh TanhBackward Sigmoid SigmoidBackward Softplus SoftplusBackward Lgamma Digamma Polygamma
    Erf Erfc Abs Sgn Maximum Minimum Where MaskedFill
    Sum Mean Cumsum Flip Dot Mv Mm Bmm Addmm
    View UnsafeView Clone Squeeze Unsqueeze Expand Repeat T Transpose Permute
    Slice SliceBackward Select SelectBackward Index IndexPut IndexPutImpl IndexSelect IndexAdd
    Gather ScatterAdd Cat Stack Unbind Split
"""
SMOOTH = frozenset(LISTED.split())  # a test differentiates them three times, in batches


def named(kind: str) -> str:
    """The operation of a class of nodes: Exp for ExpBackward0."""
    return kind.rstrip("0123456789").removesuffix("Backward")


NODES = frozenset(kind for name, kind in private.nodes.items() if named(name) in SMOOTH)


def has_other_leaves(ys: tuple[torch.Tensor, ...], ins: list[torch.Tensor]) -> bool:
    """True if the graph of ys ends in tensors beside `ins`."""
    leaves = [node.variable for node in _nodes(ys, ins) if hasattr(node, "variable")]
    return any(all(leaf is not x for x in ins) for leaf in leaves)


def are_smooth(ys: tuple[torch.Tensor, ...], ins: list[torch.Tensor]) -> bool:
    """True if all nodes of the graph from `ins` to ys are listed as differentiable, as often as one likes."""
    return all(type(node) in NODES for node in _nodes(ys, ins))


def hook_handles() -> int:
    """The number of hooks that were registered so far, by anybody."""
    count: int = private.HookHandle.next_id
    return count


def _nodes(ys: tuple[torch.Tensor, ...], ins: list[torch.Tensor]) -> list[Any]:
    """Return each node once, those behind it later, down to `ins`."""
    ahead: list[Any] = [y.grad_fn for y in ys]
    seen: set[Any] = {None, *[x.grad_fn for x in ins]}
    found = []
    while ahead:
        if (node := ahead.pop()) not in seen:
            seen.add(node)
            found.append(node)
            for behind, _ in node.next_functions:
                ahead.append(behind)  # a comprehension costs more for one or two
    return found
