"""PyTorch's own samples (OpInfo) of its linear algebra, given to ldiv's functions: values and
gradients are those of torch.
"""

from __future__ import annotations

import importlib.util
import sys
import types
import unittest
from collections.abc import Callable
from typing import Any

import pytest
import torch

import ldiv

MOST = 60  # samples of an operation and dtype
Ours = Callable[..., Any]


def solve(A: Any, b: Any, *, left: bool = True) -> Any:
    if not left:
        return solve(A.mT, b.mT).mT
    # torch takes b (*batch, n) of A (*batch, n, n) for a batch of vectors
    if b.ndim == 1 or b.shape != A.shape[:-1]:
        return ldiv.solve(A, b)
    return ldiv.solve(A, b[..., None])[..., 0]


def triangular(
    A: Any, B: Any, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Any:
    if not left:
        return triangular(A.mT, B.mT, upper=not upper, unitriangular=unitriangular).mT
    return ldiv.solve_triangular(A, B, lower=not upper, unit_diagonal=unitriangular)


def lu_solve(
    LU: Any, pivots: Any, B: Any, *, left: bool = True, adjoint: bool = False
) -> Any:  # torch counts rows from 1, as LAPACK
    if not left:
        return lu_solve(LU, pivots, B.mH, adjoint=not adjoint).mH
    batch = torch.broadcast_shapes(LU.shape[:-2], B.shape[:-2])
    return ldiv.lu_solve((LU, pivots - 1), B.expand(*batch, *B.shape[-2:]), "H" if adjoint else "N")


OURS: dict[str, Ours] = {
    "linalg.solve": solve,
    "linalg.solve_triangular": triangular,
    "linalg.cholesky": ldiv.cholesky,
    "cholesky_solve": lambda B, L, upper=False: ldiv.cho_solve((L, not upper), B),
    "linalg.inv": ldiv.inv,
    "linalg.det": ldiv.det,
    "linalg.slogdet": ldiv.slogdet,
    "linalg.eigvalsh": lambda A, UPLO="L": ldiv.eigvalsh((A + A.mH) / 2, UPLO=UPLO),
    "linalg.svdvals": lambda A, driver=None: ldiv.svdvals(A),
    "linalg.pinv": lambda A, **options: ldiv.pinv(A, **options),
    "linalg.matrix_norm": lambda A, ord="fro", dim=(-2, -1), keepdim=False, dtype=None: ldiv.norm(
        A if dtype is None else A.to(dtype), ord, axis=dim, keepdims=keepdim
    ),
    "linalg.lu_factor": lambda A, pivot=True: ldiv.lu_factor(A)[0],
    "linalg.lu": lambda A, pivot=True: ldiv.lu(A),
    "linalg.lu_solve": lu_solve,
    "logdet": ldiv.logdet,
}


def theirs(name: str, op: Any, *args: Any, **kwargs: Any) -> Any:
    if name == "linalg.eigvalsh":
        return op((args[0] + args[0].mH) / 2, **kwargs)
    if name == "cholesky_solve":  # torch's derivative has entries in the triangle that is not read
        B, L = args
        return op(B, L.triu() if kwargs.get("upper") else L.tril(), **kwargs)
    return op(*args, **kwargs)


def leaves(xs: Any) -> list[Any]:
    return [x for x in xs if isinstance(x, torch.Tensor) and x.requires_grad]


def outputs(y: Any) -> list[Any]:
    every = y if isinstance(y, tuple | list) else [y]
    return [x for x in every if x.is_floating_point() or x.is_complex()]


def loss(ys: list[Any]) -> Any:
    """A loss without phases, with different weights of all entries."""
    return sum(
        (
            (y.abs() if y.is_complex() else y) * torch.arange(1.0, y.numel() + 1).reshape(y.shape)
        ).sum()
        for y in ys
    )


def is_refused(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether ldiv refuses the sample, or has the operation in another form."""
    A = args[0]
    if name in ("linalg.lu", "linalg.lu_factor"):
        return not kwargs.get("pivot", True) or A.ndim < 2
    if name == "linalg.pinv" and kwargs["rtol"] is not None:  # 1, which leaves no rank, or an array
        return True
    if name == "logdet" and bool((torch.linalg.slogdet(A.detach())[0] != 1).any()):
        return True
    if name == "linalg.matrix_norm":
        return 0 in A.shape or kwargs.get("ord") in ("nuc", 2, -2)  # ties, in torch's own samples
    if name in ("linalg.det", "linalg.slogdet", "linalg.inv", "linalg.pinv"):
        full = min(A.shape[-2:])
        return A.numel() > 0 and bool((torch.linalg.matrix_rank(A.detach()) < full).any())
    return False


@pytest.fixture
def op_db() -> Any:
    """Imported when it is needed: it loads thousands of them."""
    if "expecttest" not in sys.modules and importlib.util.find_spec("expecttest") is None:
        # torch's testing tools derive from its TestCase, which is not needed for the samples
        stand_in = types.ModuleType("expecttest")
        stand_in.TestCase = unittest.TestCase  # type: ignore[attr-defined]
        sys.modules["expecttest"] = stand_in
    return pytest.importorskip(
        "torch.testing._internal.common_methods_invocations",
        reason="this PyTorch comes without its samples",
        exc_type=ImportError,
    ).op_db


@pytest.mark.exhaustive
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
@pytest.mark.parametrize("name", OURS)
def test_samples(op_db: Any, name: str, dtype: Any) -> None:
    info = next(i for i in op_db if i.name == name and not i.variant_test_name)
    compared = 0
    for number, sample in enumerate(info.sample_inputs("cpu", dtype, requires_grad=True)):
        args, kwargs = (sample.input, *sample.args), dict(sample.kwargs)
        if number >= MOST or is_refused(name, args, kwargs):
            continue
        try:
            wanted = outputs(theirs(name, info.op, *args, **kwargs))
            found = outputs(OURS[name](*args, **kwargs))
        except ldiv.NotDifferentiableError:
            continue
        compared += 1
        for x, y in zip(found, wanted, strict=False):
            torch.testing.assert_close(x, y.to(x.dtype), rtol=1e-8, atol=1e-8)
        xs = leaves(args)
        if xs and all(y.numel() for y in wanted):
            found_bars = torch.autograd.grad(loss(found), xs, allow_unused=True)
            wanted_bars = torch.autograd.grad(loss(wanted), xs, allow_unused=True)
            for g, h in zip(found_bars, wanted_bars, strict=True):
                if h is not None:
                    torch.testing.assert_close(g, h, rtol=1e-6, atol=1e-7)
    assert compared
