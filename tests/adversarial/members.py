"""Batches of dense functions with bad members among good ones: each member has the answer that it
has alone, and every answer is right.

A member is random, graded, of low rank, with repeated values, diagonal, zero, or holds NaN or
infinity. Where errors are NaN, the same members of a batch are NaN that are so alone, and gradients
are those of the members; where errors are raised, a batch with such a member is refused. A value that
came is judged by its residual.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg as sl
import torch

import ldiv
from adversarial.case import Case, Wrong

Rng = np.random.Generator
Array = np.ndarray[Any, Any]
DTYPES = ("float32", "float64", "complex64", "complex128")
REFUSED = ArithmeticError, ValueError, RuntimeError, np.linalg.LinAlgError


class Drawn(NamedTuple):
    """The name of a function, and batches of arguments."""

    name: str
    arrays: tuple[Array, ...]


# -- functions, and how far off an answer is, over its size -------------------


def size(x: Array) -> float:
    return float(np.linalg.norm(x))


def of_eigh(found: Any, a: Array) -> list[float]:
    w, v = found
    return [size(a @ v - v * w) / (size(a) or 1), size(v.conj().T @ v - np.eye(len(v)))]


def of_svd(found: Any, a: Array) -> list[float]:
    u, s, vh = found
    eye = np.eye(len(s))
    errors = [u.conj().T @ u - eye, vh @ vh.conj().T - eye]
    return [size((u * s) @ vh - a) / (size(a) or 1), *map(size, errors)]


def of_qr(found: Any, a: Array) -> list[float]:
    q, r = found
    return [size(q @ r - a) / (size(a) or 1), size(q.conj().T @ q - np.eye(q.shape[1]))]


def of_values(by: Callable[[Array], Array], found: Any, a: Array) -> list[float]:
    return [size(found[0] - by(a)) / (size(a) or 1)]


def of_eigvals(found: Any, a: Array) -> list[float]:
    smallest = (np.linalg.svd(a - w * np.eye(len(a)), compute_uv=False)[-1] for w in found[0])
    return [float(s) / (size(a) or 1) for s in smallest]


def of_inverse(found: Any, a: Array) -> list[float]:
    return [size(a @ found[0] - np.eye(len(a))) / (size(a) * size(found[0]))]


def of_determinant(found: Any, a: Array) -> list[float]:
    rows = np.prod(np.linalg.norm(a, axis=1))
    return [float(abs(found[0] - np.linalg.det(a)) / (rows or 1))]


def of_slogdet(found: Any, a: Array) -> list[float]:
    sign, expected = np.linalg.slogdet(a)
    if not (np.isfinite(expected) and np.isfinite(found[1])):
        return [0.0 if expected == found[1] else np.linalg.cond(a) ** -1.0]
    return [float(abs(found[0] * np.exp(found[1] - expected) - sign)) / np.linalg.cond(a)]


def of_solution(found: Any, a: Array, b: Array) -> list[float]:
    return [size(a @ found[0] - b) / (size(a) * size(found[0]) + size(b) or 1)]


def of_lstsq(found: Any, a: Array, b: Array) -> list[float]:
    rest = a.conj().T @ (b - a @ found[0])
    return [size(rest) / (size(a) * (size(a) * size(found[0]) + size(b)) or 1)]


def of_pinv(found: Any, a: Array) -> list[float]:
    (x,) = found
    return [size(a @ x @ a - a) / (size(a) ** 2 * size(x) or 1)]


def of_expm(found: Any, a: Array) -> list[float]:
    wide = sl.expm(a.astype(np.complex128))
    return [size(found[0] - wide) / size(sl.expm(np.abs(a).astype(float)))]


def of_cholesky(found: Any, a: Array) -> list[float]:
    return [size(found[0] @ found[0].conj().T - a) / (size(a) or 1)]


def of_sylvester(found: Any, a: Array, b: Array) -> list[float]:
    (x,) = found
    allowed = (size(a) + size(b)) * size(x) + size(b)
    return [size(a @ x + x @ b - b) / (allowed or 1)]


HERMITIAN, RECTANGULAR, SMALL = "hermitian", "rectangular", "small"
# its matrices and how many columns a right-hand side has, if there is one
FUNCTIONS: dict[str, tuple[Callable[..., Any], Callable[..., list[float]], str, int | None]] = {
    "eigh": (ldiv.eigh, of_eigh, HERMITIAN, None),
    "eigvalsh": (ldiv.eigvalsh, partial(of_values, np.linalg.eigvalsh), HERMITIAN, None),
    "cholesky": (ldiv.cholesky, of_cholesky, HERMITIAN, None),
    "svd": (lambda a: ldiv.svd(a, full_matrices=False), of_svd, RECTANGULAR, None),
    "svdvals": (
        ldiv.svdvals,
        partial(of_values, partial(np.linalg.svd, compute_uv=False)),
        RECTANGULAR,
        None,
    ),
    "qr": (ldiv.qr, of_qr, RECTANGULAR, None),
    "pinv": (ldiv.pinv, of_pinv, RECTANGULAR, None),
    "lstsq": (lambda a, b: ldiv.lstsq(a, b)[0], of_lstsq, RECTANGULAR, 2),
    "inv": (ldiv.inv, of_inverse, "", None),
    "det": (ldiv.det, of_determinant, "", None),
    "slogdet": (ldiv.slogdet, of_slogdet, "", None),
    "solve": (ldiv.solve, of_solution, "", 2),
    "eigvals": (ldiv.eigvals, of_eigvals, "", None),
    "expm": (ldiv.expm, of_expm, SMALL, None),
    "solve_sylvester": (lambda a, b: ldiv.solve_sylvester(a, b, b), of_sylvester, "", 0),
}


# -- members ------------------------------------------------------------------


def member(rng: Rng, m: int, n: int, dtype: str, most: int = 30) -> Array:
    kind = str(
        rng.choice(
            ["random", "graded", "low rank", "repeated", "diagonal", "zero", "bad", "integers"],
            p=[0.44, 0.1, 0.12, 0.1, 0.08, 0.05, 0.06, 0.05],
        )
    )
    a = rng.standard_normal((m, n)) + (
        1j * rng.standard_normal((m, n)) if dtype.startswith("c") else 0
    )
    k = min(m, n)
    if kind == "graded":
        a = a * 10.0 ** rng.integers(-6, 7, n)
    elif kind == "low rank":
        r = int(rng.integers(0, k)) if k > 1 else 0
        a = a[:, :r] @ (a[:r, :] if r else a[:0, :])
    elif kind == "repeated":
        u, _, vh = np.linalg.svd(a, full_matrices=False)
        a = (u * rng.choice([1.0, 2.0, 1.0 + 1e-9], k)) @ vh
    elif kind == "diagonal":
        a = np.eye(m, n) * rng.choice([0.0, 1.0, -2.0, 3.0], n, p=[0.1, 0.4, 0.3, 0.2])
    elif kind == "zero":
        a = 0 * a
    elif kind == "integers":
        a = np.round(2 * a.real)
    a = a * 2.0 ** int(rng.choice([0, 0, 0, *rng.integers(-most, most + 1, 2)]))
    if kind == "bad":
        a = a.copy()
        a[int(rng.integers(m)), int(rng.integers(n))] = rng.choice([np.nan, np.inf, -np.inf])
    return a.astype(dtype) if dtype.startswith("c") else a.real.astype(dtype)


def drawn(seed: int, number: int) -> tuple[Drawn, bool]:
    rng = np.random.default_rng([seed, number])
    name, dtype = str(rng.choice(list(FUNCTIONS))), str(rng.choice(DTYPES, p=[0.2, 0.5, 0.1, 0.2]))
    _, _, kind, columns = FUNCTIONS[name]
    batch, n = int(rng.integers(1, 6)), int(rng.integers(1, 8))
    m = n + int(rng.integers(-2, 4)) * (kind == RECTANGULAR and name != "lstsq")
    m = max(m, 1) if name != "lstsq" else n + int(rng.integers(0, 4))
    most = 3 if name == "det" else 30  # powers of two whose products are no subnormal numbers
    members = [member(rng, m, n, dtype, most) for _ in range(batch)]
    with np.errstate(all="ignore"):
        if kind == HERMITIAN:
            members = [(a + a.conj().T) / 2 for a in members]
        if name == "cholesky":
            members = [a @ a + (rng.random() < 0.7) * np.eye(n, dtype=dtype) for a in members]
        if kind == SMALL:
            members = [a / (np.linalg.norm(a) / 3 + 1) for a in members]
    a = np.stack(members)
    if columns is None:
        return Drawn(name, (a,)), bool(rng.random() < 0.5)
    if columns == 0:
        b = np.stack([member(rng, n, n, dtype) for _ in range(batch)])
    else:
        b = rng.standard_normal((batch, m, columns)).astype(dtype)
    return Drawn(name, (a, b)), bool(rng.random() < 0.5)


# -- the law ------------------------------------------------------------------


def answers(name: str, arrays: tuple[Array, ...], in_torch: bool, weights: Any) -> Any:
    """The values as NumPy arrays, and in PyTorch the gradients of a weighted sum of them."""
    f = FUNCTIONS[name][0]
    if not in_torch:
        y = f(*arrays)
        return [np.asarray(x) for x in (y if isinstance(y, tuple) else (y,))], []
    tensors = [torch.tensor(x, requires_grad=True) for x in arrays]
    y = f(*tensors)
    y = y if isinstance(y, tuple) else (y,)
    found = [x.detach().resolve_conj().numpy() for x in y]
    # signs of vectors are free
    y = tuple((x * x.conj()).real if name in ("eigh", "svd") else x for x in y)
    parts = [(x * torch.as_tensor(weights(x.shape[1:]))).sum().real for x in y]
    moving = [part for part in parts if part.requires_grad]
    return found, torch.autograd.grad(sum(moving), tensors, materialize_grads=True)


def look(seed: int, number: int) -> str:
    (name, arrays), in_torch = drawn(seed, number)
    eps = float(np.finfo(arrays[0].dtype).eps)

    def weights(shape: tuple[int, ...]) -> Array:
        """The same ones for all members, so that sums over them are those of each."""
        return 1 + np.cos(np.arange(np.prod(shape, dtype=int)) + 1.0).reshape(shape)

    with ldiv.errstate(singular="nan"):
        values, bars = answers(name, arrays, in_torch, weights)
        alone = [
            answers(name, tuple(x[i : i + 1] for x in arrays), in_torch, weights)
            for i in range(len(arrays[0]))
        ]
    bad = 0
    for i, (own, own_bars) in enumerate(alone):
        given = tuple(x[i] for x in arrays)
        there = [x[i] for x in values]
        if [np.isnan(x).any() for x in there] != [np.isnan(y).any() for y in own]:
            raise Wrong(f"{name}: NaN in a batch or alone", (seed, number, i))
        if any(np.isnan(x).any() for x in there):
            bad += all(np.isfinite(x).all() for x in given)
            continue
        if not all(np.isfinite(x).all() for x in given):
            if all(np.isfinite(x).all() for x in there):
                raise Wrong(f"{name}: a finite answer to infinity", (seed, number, i))
            continue
        wide = [x.astype(np.complex128 if np.iscomplexobj(x) else float) for x in there]
        judged = [x.astype(np.complex128 if np.iscomplexobj(x) else float) for x in given]
        errors = FUNCTIONS[name][1](wide, *judged)
        if not max(errors) <= 200 * max(given[0].shape) * eps:
            raise Wrong(f"{name}: wrong by its residual", (seed, number, i, errors))
        if is_plain(judged[0], eps):
            rounding = eps**0.75 / (size(judged[0]) or 1)  # of derivatives of vectors that are 0
            for bar, own_bar in zip(bars, own_bars, strict=True):
                x, y = bar[i].numpy(), own_bar[0].numpy()
                largest = np.abs(y[np.isfinite(y)]).max(initial=0)  # NaN where there is no gradient
                allowed = eps**0.25 * largest + rounding
                if not np.allclose(x, y, rtol=0, atol=allowed, equal_nan=True):
                    raise Wrong(f"{name}: another gradient in a batch", (seed, number, i, x - y))
    try:
        answers(name, arrays, in_torch, weights)
    except REFUSED:
        return "a member refused"
    if bad:
        raise Wrong(f"{name}: NaN where nothing is raised", (seed, number))
    return "all answered"


def is_plain(a: Array, eps: float) -> bool:
    """Whether singular values and their gaps are so large that a gradient has digits to compare."""
    values = np.linalg.svd(a, compute_uv=False)
    apart = np.append(-np.diff(values), values[-1])
    return bool(apart.min() > eps**0.25 * values[0])


def cases(seed: int) -> Iterator[Case]:
    number = 0
    while True:
        given, in_torch = drawn(seed, number)
        source = f"from adversarial.members import look\nlook({seed}, {number})"
        label = f"{'torch' if in_torch else 'numpy'}, {given.name}"
        yield Case(label, given.arrays[0].size, partial(look, seed, number), partial(str, source))
        number += 1
