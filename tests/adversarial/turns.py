"""Two problems in turn cost what they cost alone: what one keeps, the other does not push out.

    work(p, q in turn)  <=  1.3 (work(p) + work(q))

Work is what a machine's load does not change: the calls that Python makes in a step, in ldiv and
below, and what `cache_info` counts, symbolic work and factorizations, of which there is no more than
alone. Each step has new values. A problem is one of `MAKERS`, drawn with its size and its framework.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

import ldiv
from adversarial.case import Case, Wrong
from adversarial.functions import FUNCTIONS
from adversarial.lifetimes import LOOPS, uncollected
from adversarial.threads import grid

WARM, STEPS, MOST = 3, 3, 1.3
Step = Callable[[float], Any]


class Work(NamedTuple):
    calls: int
    analyses: int
    factorizations: int


# -- problems -----------------------------------------------------------------


def _network(m: int, assume_a: Any = "gen", method: str = "auto") -> Step:
    """A sparse matrix, and a determinant."""
    a, b = grid(m), np.ones(m * m)

    def step(t: float) -> Any:
        A = ldiv.csc_array((t * a.data, a.indices, a.indptr), shape=a.shape)
        x, pullback = ldiv.vjp(partial(ldiv.solve, assume_a=assume_a, method=method), A, b)
        return pullback(x), ldiv.slogdet(A, assume_a=assume_a)

    return step


def _factorized(m: int) -> Step:
    a, b = grid(m), np.ones(m * m)

    def step(t: float) -> Any:
        F = ldiv.factorized(ldiv.csc_array((t * a.data, a.indices, a.indptr), shape=a.shape))
        return F.solve(b), F.solve(t * b)

    return step


def _batch(m: int) -> Step:
    a, b = grid(m), np.ones(m * m)
    scale = np.linspace(1, 2, m)[:, None]

    def step(t: float) -> Any:
        A = ldiv.csc_array((t * scale * a.data, a.indices, a.indptr), shape=a.shape)
        return ldiv.solve(A, b)

    return step


def _eigenpairs(m: int) -> Step:
    a = grid(m + 3)
    a.data *= np.linspace(1, 1.1, a.nnz)
    a = (a + a.T).tocsc()

    def step(t: float) -> Any:
        A = ldiv.csc_array((t * a.data, a.indices, a.indptr), shape=a.shape)
        return ldiv.vjp(lambda A: ldiv.eigsh(A, 2, sigma=0)[0], A)[1](np.ones(2))

    return step


def _function(name: str) -> Step:
    """A gradient in PyTorch of one of FUNCTIONS."""
    import torch

    f, args = FUNCTIONS[name]

    def step(t: float) -> Any:
        leaves = [torch.tensor(t * x, requires_grad=True) for x in args]
        y = f(*leaves)
        loss = sum(v.abs().square().sum() for v in (y if isinstance(y, tuple) else (y,)))
        return torch.autograd.grad(loss, leaves, allow_unused=True)

    return step


def _selected(m: int, assume_a: Any) -> Step:
    """A determinant without symmetry, or not definite, and its gradient."""
    import torch

    a = grid(m)
    a.data *= 1 if assume_a == "sym" else np.linspace(1, 1.1, a.nnz)

    def step(t: float) -> Any:
        v = torch.from_numpy(t * a.data).requires_grad_()
        A = ldiv.csc_array((v, a.indices, a.indptr), shape=a.shape)
        return torch.autograd.grad(ldiv.slogdet(A, assume_a=assume_a)[1], v)

    return step


def _in_jax(m: int, assume_a: Any = "gen", determinant: bool = False) -> Step:
    """A gradient in a compiled program, of a solution, or of that and a determinant."""
    import jax
    import jax.numpy as jnp

    a, b = grid(m), jnp.ones(m * m)

    @jax.jit
    def gradient(v: Any) -> Any:
        def total(v: Any) -> Any:
            A = ldiv.csc_array((v, a.indices, a.indptr), shape=a.shape)
            size = ldiv.slogdet(A, assume_a=assume_a)[1] if determinant else 0.0
            return ldiv.solve(A, b, assume_a=assume_a).sum() + size

        return jax.grad(total)(v)

    return lambda t: jax.block_until_ready(gradient(jnp.asarray(t * a.data, b.dtype)))


MAKERS: dict[str, Callable[[int], Step]] = {
    **{name: LOOPS[name] for name in ("numpy, dense", "numpy, sparse")},
    **{name: LOOPS[name] for name in ("torch, dense", "torch, sparse")},
    "definite": partial(_network, assume_a="pos"),
    "SuperLU": partial(_network, method="superlu"),
    "factorized": _factorized,
    "batch": _batch,
    "eigenpairs": _eigenpairs,
    "determinant": partial(_selected, assume_a="gen"),
    "indefinite": partial(_selected, assume_a="sym"),
    "JAX": _in_jax,
    "JAX, determinant": partial(_in_jax, determinant=True),
    "JAX, definite": partial(_in_jax, assume_a="pos", determinant=True),
    **{name: lambda m, name=name: _function(name) for name in FUNCTIONS},
}


# -- the law ------------------------------------------------------------------


def work(*steps: Step) -> Work:
    """The work of STEPS rounds after WARM, each a step of every problem."""
    ldiv.clear_cache()
    calls = 0

    def count(frame: Any, event: str, arg: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    gc.collect()
    with uncollected():
        for i in range(WARM + STEPS):
            if i == WARM:
                before = ldiv.cache_info()
                sys.setprofile(count)
            try:
                for step in steps:
                    step(1 + i / 1000)
            except BaseException:
                sys.setprofile(None)
                raise
        sys.setprofile(None)
    after = ldiv.cache_info()
    return Work(
        calls, after.analyses - before.analyses, after.factorizations - before.factorizations
    )


def in_turn(first: tuple[str, int], second: tuple[str, int]) -> str:
    p, q = (MAKERS[name](size) for name, size in (first, second))
    alone = [sum(of) for of in zip(work(p), work(q), strict=True)]
    both = work(p, q)
    if both.calls > MOST * alone[0] or both.analyses > alone[1] or both.factorizations > alone[2]:
        raise Wrong("two problems in turn cost more than alone", f"{both}, alone {Work(*alone)}")
    return "right"


def case(first: tuple[str, int], second: tuple[str, int]) -> Case:
    source = f"from adversarial.turns import in_turn\nin_turn({first!r}, {second!r})"
    size = first[1] + second[1]
    return Case("in turn", size, partial(in_turn, first, second), partial(str, source))


def cases(seed: int) -> Iterator[Case]:
    """Endlessly: each kind of problem beside the next one of a random order, now and then itself in
    another size.
    """
    rng = np.random.default_rng(seed)
    while True:
        names = [*rng.permutation([*MAKERS, *MAKERS])]
        for first, second in pairwise(names):
            sizes = rng.integers(3, 20, 2)
            yield case((str(first), int(sizes[0])), (str(second), int(sizes[1])))
