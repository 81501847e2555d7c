"""The methods of scipy.sparse's arrays: the same line on ldiv and on SciPy for values, the same line
on a dense array of PyTorch for derivatives, in every mode.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from covering import covering

import ldiv

RNG = np.random.default_rng(0)
FREE = np.array([0, 2, 3])
MASK = np.array([True, False, True, True, False])


def pattern(m: int, n: int, count: int) -> tuple[Any, Any, tuple[int, int]]:
    """Unsorted, some of them twice."""
    return RNG.integers(0, max(m, 1), count), RNG.integers(0, max(n, 1), count), (m, n)


PATTERNS = {
    "square": pattern(5, 5, 14),
    "wide": pattern(4, 6, 13),
    "tall": pattern(7, 4, 15),
    "one row": pattern(1, 6, 5),
    "one column": pattern(6, 1, 5),
    "no entries": pattern(4, 5, 0),
    "full": (*(i.ravel() for i in np.indices((4, 4))), (4, 4)),
}
DTYPES = ("float32", "float64", "complex64", "complex128")


def draw(count: int, dtype: Any = float) -> Any:
    """Numbers between -1 and 1, an explicit zero and none that is close to one among them."""
    x = RNG.uniform(0.1, 0.9, count) * RNG.choice([-1, 1], count)
    x = x + (1j * RNG.uniform(0.1, 0.9, count) if np.dtype(dtype).kind == "c" else 0)
    x[:1] = 0
    return x.astype(dtype)


def full(x: Any) -> Any:
    x = x.toarray() if hasattr(x, "toarray") else x
    return x.detach().resolve_conj().numpy() if isinstance(x, torch.Tensor) else np.asarray(x)


def same(got: Any, expected: Any, tol: float = 1e-12) -> None:
    got, expected = full(got), full(expected)
    assert got.shape == expected.shape
    np.testing.assert_allclose(got, expected, rtol=tol, atol=tol)


# -- one line, for all three: on dense arrays of PyTorch in the second form, if there is one ----------

Line = Callable[[Any], Any]
SELECTIONS: dict[str, Line] = {
    "a number": lambda A: A[0, 0],
    "a number from the end": lambda A: A[-1, -1],
    "a row": lambda A: A[0],
    "the last row": lambda A: A[-1],
    "a row, all columns": lambda A: A[0, :],
    "a column": lambda A: A[:, 0],
    "the last column": lambda A: A[..., -1],
    "part of a row": lambda A: A[0, :2],
    "part of a column": lambda A: A[1:, 0],
    "rows": lambda A: A[1:],
    "rows backwards": lambda A: A[::-1],
    "every other row and column": lambda A: A[::2, ::2],
    "columns": lambda A: A[:, :-1],
    "a block": lambda A: A[:2, :2],
    "no rows": lambda A: A[3:2],
    "beyond the end": lambda A: A[:99, -99:],
    "all": lambda A: A[:, :],
    "all by an Ellipsis": lambda A: A[...],
    "rows by a list": lambda A: A[[0, -1, 0]],
    "one row by a list": lambda A: A[[0]],
    "no rows by a list": lambda A: A[[]],
    "columns by a list": lambda A: A[:, [0, 0, -1]],
    "rows by an array, part of the columns": lambda A: A[np.array([0, -1]), :2],
    "rows and columns": lambda A: A[[0, -1]][:, [0, -1, 0]],
    "numpy.ix_": lambda A: A[np.ix_([0, -1], [0, -1, 0])],
    "single entries": lambda A: A[[0, -1, 0], [0, -1, 0]],
    "single entries of one row": lambda A: A[0, [0, -1, 0]],
    "single entries of one column": lambda A: A[[0, -1], 0],
    "single entries in two axes": lambda A: A[[[0, -1], [0, 0]], [[-1, 0], [0, 0]]],
    "rows by a mask": lambda A: A[np.arange(A.shape[-2]) % 2 == 0],
    "columns by a mask": lambda A: A[:, np.arange(A.shape[-1]) % 2 == 0],
    "a mask": lambda A: A[np.indices(A.shape[-2:]).sum(0) % 2 == 0],
    "an empty mask": lambda A: A[np.zeros(A.shape[-2:], bool)],
    "integers of NumPy": lambda A: A[np.int32(0), np.uint8(0)],
}
METHODS: dict[str, Line] = {
    "diagonal": lambda A: A.diagonal(),
    "diagonal above": lambda A: A.diagonal(k=1),
    "diagonal below": lambda A: A.diagonal(-2),
    "diagonal outside": lambda A: A.diagonal(99),
    "trace": lambda A: A.trace(),
    "trace above": lambda A: A.trace(offset=1),
    "sum": lambda A: A.sum(),
    "sum of columns": lambda A: A.sum(axis=0),
    "sum of rows": lambda A: A.sum(-1),
    "sum of both": lambda A: A.sum(axis=(0, 1)),
    "mean": lambda A: A.mean(),
    "mean of columns": lambda A: A.mean(axis=0),
    "mean of rows": lambda A: A.mean(axis=1),
    "tocsr": lambda A: A.tocsr(),
    "tocsc": lambda A: A.tocsc(),
    "tocoo": lambda A: A.tocoo(),
    "asformat": lambda A: A.asformat("csc", copy=True),
    "toarray": lambda A: A.toarray(),
    "todense": lambda A: A.todense(),
    "copy": lambda A: A.copy(),
    "power": lambda A: A.power(2),
    "cube": lambda A: A**3,
    "abs": abs,
    "neg": lambda A: -A,
    "multiply": lambda A: A.multiply(A),
    "multiply by a number": lambda A: A.multiply(3.0),
    "dot": lambda A: A.dot(A.T),
    "dot with a number": lambda A: A.dot(2.0),
    "maximum": lambda A: A.maximum(-0.5 * A),
    "minimum": lambda A: A.minimum(-0.5 * A),
    "maximum with a number": lambda A: A.maximum(-0.25),
    "minimum with a number": lambda A: A.minimum(0.25),
    "sin": lambda A: A.sin(),
    "tan": lambda A: A.tan(),
    "arcsin": lambda A: (A * 0.1).arcsin(),
    "arctan": lambda A: A.arctan(),
    "sinh": lambda A: A.sinh(),
    "tanh": lambda A: A.tanh(),
    "arcsinh": lambda A: A.arcsinh(),
    "arctanh": lambda A: (A * 0.1).arctanh(),
    "expm1": lambda A: A.expm1(),
    "log1p": lambda A: (A * 0.1).log1p(),
    "sqrt": lambda A: (A * A).sqrt(),
    "sign": lambda A: A.sign(),
    "floor": lambda A: A.floor(),
    "ceil": lambda A: A.ceil(),
    "trunc": lambda A: A.trunc(),
    "rint": lambda A: A.rint(),
    "deg2rad": lambda A: A.deg2rad(),
    "rad2deg": lambda A: A.rad2deg(),
    "real": lambda A: A.real,
    "imag": lambda A: A.imag,
    "conjugate": lambda A: A.conjugate(),
    "T": lambda A: A.T,
}
TABLE = SELECTIONS | METHODS
# where SciPy, too, has no meaning for complex numbers, or another one
REAL_ONLY = {
    "maximum",
    "minimum",
    "maximum with a number",
    "minimum with a number",
    "floor",
    "ceil",
    "trunc",
    "deg2rad",
    "rad2deg",
}
COMPLEX_LATER = {"sign", "rint"}  # of PyTorch


def arrays(name: str, format: str, dtype: Any) -> tuple[Any, Any]:
    rows, cols, shape = PATTERNS[name]
    theirs = sp.coo_array((draw(len(rows), dtype), (rows, cols)), shape=shape).asformat(format)
    return ldiv.asarray(theirs), theirs


OLDER_SCIPY = not hasattr(sp.coo_array, "__getitem__")  # before 1.16
SINCE = {"sum of both", "maximum with a number", "minimum with a number"}


def skipped(line: str, dtype: Any) -> bool:
    return (line in REAL_ONLY and np.dtype(dtype).kind == "c") or (OLDER_SCIPY and line in SINCE)


def scipys(line: str, theirs: Any) -> Any:
    """The selection by SciPy; before SciPy could select in coordinates, by rows."""
    rows = OLDER_SCIPY and line in SELECTIONS
    return TABLE[line](theirs.tocsr() if rows else theirs)


def pairwise(*axes: Any) -> pytest.MarkDecorator:
    """All cases of a line in one test, which are many: those in which every two values meet, and
    the product.
    """
    few = [
        tuple(x[i] for x, i in zip(axes, at, strict=True)) for at in covering([*map(len, axes)], 2)
    ]
    every = pytest.param(list(product(*axes)), marks=pytest.mark.exhaustive)
    return pytest.mark.parametrize("cases", [few, every], ids=["pairs", "all"])


@pairwise(list(PATTERNS), ("coo", "csr", "csc"), DTYPES)
@pytest.mark.parametrize("line", TABLE)
def test_values_are_those_of_scipy(line: str, cases: Any) -> None:
    f = TABLE[line]
    for name, format, dtype in cases:
        if skipped(line, dtype):
            continue
        mine, theirs = arrays(name, format, dtype)
        try:
            expected = scipys(line, theirs)
        except (IndexError, ZeroDivisionError) as error:
            with pytest.raises(type(error)):
                f(mine)
            continue
        got = f(mine)
        # where SciPy has a sparse vector, a vector
        assert isinstance(got, ldiv.SparseArray) == (sp.issparse(expected) and expected.ndim == 2)
        assert got.dtype == expected.dtype
        same(got, expected, 1e-5 if np.finfo(dtype).eps > 1e-10 else 1e-12)
        if isinstance(got, ldiv.SparseArray):
            same(got.to_scipy(), expected, 1e-5)


@pairwise("TCH", ("square", "wide"), ("coo", "csr"))
@pytest.mark.parametrize("line", TABLE)
def test_of_views(line: str, cases: Any) -> None:
    for view, name, format in cases:
        dtype = float if line in REAL_ONLY else complex
        if skipped(line, dtype):
            continue
        mine, theirs = arrays(name, format, dtype)
        a, b = {
            "T": (mine.T, theirs.T),
            "C": (mine.conj(), theirs.conj()),
            "H": (mine.H, theirs.conj().T),
        }[view]
        same(TABLE[line](a), scipys(line, b))


# -- derivatives --------------------------------------------------------------

DENSE: dict[str, Line] = {
    "sum of both": lambda A: A.sum(),
    "diagonal outside": lambda A: A.reshape(-1)[:0],
    "trace above": lambda A: A.diagonal(1).sum(),
    "diagonal above": lambda A: A.diagonal(1),
    "rows backwards": lambda A: A.flip(0),
    "single entries in two axes": lambda A: A[
        torch.tensor([[0, -1], [0, 0]]), torch.tensor([[-1, 0], [0, 0]])
    ],
    "asformat": lambda A: 1 * A,
    "power": lambda A: A**2,
    "dot": lambda A: A @ A.T,
    "dot with a number": lambda A: 2 * A,
    "maximum with a number": lambda A: A.clamp(min=-0.25),
    "minimum with a number": lambda A: A.clamp(max=0.25),
    "maximum": lambda A: torch.maximum(A, -0.5 * A),
    "minimum": lambda A: torch.minimum(A, -0.5 * A),
    "rint": lambda A: A.round(),
    "real": lambda A: torch.real(A),
    "imag": lambda A: torch.imag(A),
    "conjugate": lambda A: A.conj().resolve_conj(),
    **{
        name: lambda A: 1 * A
        for name in ("tocsr", "tocsc", "tocoo", "toarray", "todense", "copy", "all by an Ellipsis")
    },
}
AT = np.array([0, 2, 3, 1, 0, 3, 2, 3, 0, 1]), np.array([0, 4, 1, 2, 4, 3, 1, 1, 0, 3])  # two twice
SHAPE = (4, 5)
# infinite at 0 (the derivative of sqrt), or not complex-differentiable at 0
SMOOTH = [line for line in TABLE if line != "sqrt"]


def scattered(v: Any) -> Any:
    place = torch.tensor(AT[0] * SHAPE[1] + AT[1])
    return v.new_zeros(20).index_add(0, place, v).reshape(SHAPE)


def numbers(x: Any) -> Any:
    return x.toarray() if isinstance(x, ldiv.SparseArray) else x


def stored(name: str, line: str) -> tuple[Any, Any]:
    """The line on a sparse array and on a dense one, as functions of the values."""
    make = {"coo": lambda A: A, "csr": lambda A: A.tocsr(), "T": lambda A: A.T}[name]
    dense = {"coo": lambda D: D, "csr": lambda D: D, "T": lambda D: D.T}[name]
    f, g = TABLE[line], DENSE.get(line, TABLE[line])
    return (
        lambda v: numbers(f(make(ldiv.coo_array((v, AT), SHAPE)))),
        lambda v: g(dense(scattered(v))),
    )


@pytest.mark.covering(1)
@pytest.mark.parametrize("name", ["coo", "csr", "T"])
@pytest.mark.parametrize(
    ("line", "dtype"), list(product(SMOOTH, [torch.float64, torch.complex128])), ids=str
)
def test_derivatives_are_those_of_a_dense_array(line: str, dtype: Any, name: str) -> None:
    """Reverse and forward mode, torch.func and forward_ad, and the tangent of a gradient."""
    if skipped(line, "complex128" if dtype.is_complex else "float64") or (
        line in COMPLEX_LATER if dtype.is_complex else line == "imag"
    ):
        return
    v = torch.tensor(draw(10, "complex128" if dtype.is_complex else "float64"))
    v[0] = 0.3  # at 0 the absolute value of a dense array has another derivative
    dv = torch.tensor(draw(10)).to(dtype)
    mine, dense = stored(name, line)
    y = mine(v)
    same(y, dense(v))
    if line == "abs" and name != "coo":
        return
    c = torch.tensor(RNG.uniform(0.5, 1.5, tuple(y.shape))).to(y.dtype)
    same(torch.func.vjp(mine, v)[1](c)[0], torch.func.vjp(dense, v)[1](c)[0])
    same(torch.func.jvp(mine, (v,), (dv,))[1], torch.func.jvp(dense, (v,), (dv,))[1])
    w, x = (v.clone().requires_grad_() for _ in range(2))
    for f, leaf in ((mine, w), (dense, x)):
        f(leaf).mul(c).sum().abs().backward()
    same(w.grad, x.grad)
    same(*(tangent_of_gradient(f, c, v, dv) for f in (mine, dense)), tol=1e-11)


def tangent_of_gradient(f: Any, c: Any, v: Any, dv: Any) -> Any:
    grad = torch.func.grad(lambda v: ((f(v) * c).abs() ** 2).sum())
    return torch.func.jvp(grad, (v,), (dv,))[1]


@pytest.mark.parametrize("lines", [list(SELECTIONS), list(METHODS)], ids=["selections", "methods"])
def test_jax_agrees_with_torch(lines: list[str]) -> None:
    """Value, gradient and tangent of all lines in one compiled program."""
    v, dv = (draw(10).astype(np.float32) + 0.05 for _ in range(2))

    def losses(v: Any, xp: Any) -> Any:
        A = ldiv.coo_array((v, AT), SHAPE)
        parts = (numbers(TABLE[line](A)) for line in lines if line != "sqrt")
        return xp.stack([xp.sum(xp.abs(y) ** 2) for y in parts])

    def program(v: Any, dv: Any) -> Any:
        f = lambda v: losses(v, jnp)
        return jax.jvp(f, (v,), (dv,)), jax.grad(lambda v: f(v).sum())(v)

    (y, dy), grad = jax.jit(program)(jnp.asarray(v), jnp.asarray(dv))
    args = torch.tensor(v, dtype=torch.float64), torch.tensor(dv, dtype=torch.float64)
    g = lambda v: losses(v, torch)
    expected, tangent = torch.func.jvp(g, args[:1], args[1:])
    same(y, expected, 1e-3)
    same(dy, tangent, 1e-3)
    same(grad, torch.func.grad(lambda v: g(v).sum())(args[0]), 1e-3)


BY_ONE_RULE = [line for line in SELECTIONS if line not in ("columns by a list", "rows and columns")]


@pytest.mark.parametrize(
    "line", [*BY_ONE_RULE, "diagonal", "trace", "sum of columns", "tocsr", "tocsc", "toarray"]
)
def test_numpy_differentiates_what_one_rule_does(line: str) -> None:
    v, f = draw(10), lambda A: stored_values(TABLE[line](A))
    A = ldiv.coo_array((v, AT), SHAPE)
    y, pull = ldiv.vjp(f, A)
    c, dv = RNG.uniform(0.5, 1.5, np.shape(y)), draw(10)
    (bar,) = pull(c)
    z, dz = ldiv.jvp(f, (A,), (A.with_data(dv),))
    same(z, y)
    np.testing.assert_allclose(np.sum(bar.data * dv), np.sum(c * dz), rtol=1e-12, atol=1e-12)
    same(dz, f(A.with_data(dv)))  # it is linear


def stored_values(x: Any) -> Any:
    return x.data if isinstance(x, ldiv.SparseArray) else x


@pytest.mark.parametrize("line", TABLE)
def test_batches(line: str) -> None:
    """Each of a batch as it is alone: (2, 1, nnz)."""
    v = np.stack([draw(10), draw(10)])[:, None]
    got = numbers(TABLE[line](ldiv.coo_array((v, AT), SHAPE)))
    for i in range(2):
        same(got[i, 0], numbers(TABLE[line](ldiv.coo_array((v[i, 0], AT), SHAPE))))
