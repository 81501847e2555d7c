"""vstack, hstack, bmat, block_diag, kronsum, tril, triu, setdiag, random_array and files: the same
line on ldiv and on SciPy; all of them are linear in the values, which their derivatives show.
"""

from __future__ import annotations

import builtins
import io
import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
import torch

import ldiv

RNG = np.random.default_rng(0)
SHAPES = {"A": (3, 4), "B": (2, 4), "C": (3, 2), "S": (3, 3), "R": (2, 2), "E": (0, 4)}
AT = {
    k: (RNG.integers(0, max(m, 1), 6 * (m > 0)), RNG.integers(0, n, 6 * (m > 0)))
    for k, (m, n) in SHAPES.items()
}
COUNT = {k: len(at[0]) for k, at in AT.items()}
CONSTANT = np.arange(1.0, 9.0).reshape(2, 4)


def draw(dtype: Any = float) -> dict[str, Any]:
    return {
        k: (
            RNG.uniform(1, 2, n) + (1j * RNG.uniform(1, 2, n) if np.dtype(dtype).kind == "c" else 0)
        ).astype(dtype)
        for k, n in COUNT.items()
    }


Line = Callable[[Any, Any, Any], Any]
LINES: dict[str, Line] = {
    "vstack": lambda x, M, d: x.vstack([M["A"], M["B"]]),
    "vstack csr": lambda x, M, d: x.vstack([M["A"].tocsr(), M["B"].tocsr(), M["A"].tocsr()]),
    "vstack to csc": lambda x, M, d: x.vstack([M["A"], M["B"].tocsc()], format="csc"),
    "vstack of one": lambda x, M, d: x.vstack((M["A"],)),
    "vstack with nothing": lambda x, M, d: x.vstack([M["A"], M["E"]]),
    "vstack in single precision": lambda x, M, d: x.vstack([M["A"], M["B"]], dtype="complex64"),
    "hstack": lambda x, M, d: x.hstack([M["A"], M["C"]]),
    "hstack csc": lambda x, M, d: x.hstack([M["A"].tocsc(), M["C"].tocsc()]),
    "hstack to csr": lambda x, M, d: x.hstack([M["A"], M["C"]], "csr"),
    "bmat": lambda x, M, d: x.bmat([[M["A"], M["S"]], [None, M["C"].T]]),
    "bmat, a block twice": lambda x, M, d: x.bmat(
        [[M["S"], M["C"]], [M["C"].T, None]], format="csr"
    ),
    "block_diag": lambda x, M, d: x.block_diag([M["A"], M["C"], M["B"].tocsr()]),
    "block_diag to csr": lambda x, M, d: x.block_diag((M["A"], M["E"], M["C"]), format="csr"),
    "block_diag, csr second": lambda x, M, d: x.block_diag([M["A"], M["C"]], "csr"),
    "coo_array of a shape": lambda x, M, d: x.hstack([M["A"], x.coo_array((3, 2))]),
    "csr_array of a shape": lambda x, M, d: x.hstack([M["A"], x.csr_array((3, 0))]),
    "csc_array of a shape": lambda x, M, d: x.hstack([M["A"], x.csc_array((3, 2), dtype="f4")]),
    "kronsum": lambda x, M, d: x.kronsum(M["S"], M["R"]),
    "kronsum to coo": lambda x, M, d: x.kronsum(M["R"].tocsr(), M["S"].T, format="coo"),
    "tril": lambda x, M, d: x.tril(M["A"]),
    "tril above": lambda x, M, d: x.tril(M["A"], 1, "csr"),
    "tril below": lambda x, M, d: x.tril(M["A"].T, k=-1),
    "triu": lambda x, M, d: x.triu(M["A"]),
    "triu above": lambda x, M, d: x.triu(M["C"], k=1, format="csc"),
    "triu outside": lambda x, M, d: x.triu(M["C"], k=9),
    "setdiag": lambda x, M, d: with_diagonal(x, M["S"], d[:3]),
    "setdiag of csr": lambda x, M, d: with_diagonal(x, M["A"].tocsr(), d[:3]),
    "setdiag of csc": lambda x, M, d: with_diagonal(x, M["A"].tocsc(), d[:3]),
    "setdiag above": lambda x, M, d: with_diagonal(x, M["A"], d[:3], 1),
    "setdiag below": lambda x, M, d: with_diagonal(x, M["A"].T, d[:3], -1),
    "setdiag, too long": lambda x, M, d: with_diagonal(x, M["S"], d),
    "setdiag, too short": lambda x, M, d: with_diagonal(x, M["S"], d[:2]),
    "setdiag of a view": lambda x, M, d: with_diagonal(x, M["S"].T.conj(), d[:3]),
}


def with_diagonal(x: Any, A: Any, d: Any, k: int = 0) -> Any:
    if x is ldiv:
        return ldiv.setdiag(A, d, k)
    A = A.copy()
    A.sum_duplicates()
    if A.format == "coo":  # SciPy 1.17 looks at no duplicates there
        A = A.tocsr()
    with np.errstate(all="ignore"):
        A = A.tolil()
        A.setdiag(np.asarray(d), k)
    return sp.coo_array(A)


def mine(values: Any) -> dict[str, Any]:
    return {k: ldiv.coo_array((values[k], AT[k]), shape=SHAPES[k]) for k in SHAPES}


@pytest.mark.covering(1)
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("name", LINES)
def test_values_are_those_of_scipy(name: str, dtype: str) -> None:
    if name == "vstack in single precision" and dtype != "float64":
        dtype = "float64"
    values, d = draw(dtype), RNG.uniform(1, 2, 5).astype(dtype)
    theirs = {k: sp.coo_array((values[k], AT[k]), shape=SHAPES[k]) for k in SHAPES}
    got, expected = LINES[name](ldiv, mine(values), d), LINES[name](sp, theirs, d)
    assert isinstance(got, ldiv.SparseArray)
    assert got.shape == expected.shape and got.dtype == expected.dtype
    np.testing.assert_allclose(got.toarray(), expected.toarray(), rtol=1e-6)
    assert np.array_equal(got.to_scipy().toarray(), got.toarray())
    if "to" in name.split():
        assert got.format == expected.format


def flat(x: Any) -> Any:
    return x.toarray()


LINEAR = [name for name in LINES if name != "vstack in single precision"]


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
@pytest.mark.parametrize("name", LINEAR)
def test_derivatives_of_a_linear_function(name: str, dtype: Any) -> None:
    kind = "complex128" if dtype.is_complex else "float64"
    x, dx = (
        {
            k: torch.tensor(v)
            for k, v in (draw(kind) | {"d": RNG.uniform(1, 2, 5).astype(kind)}).items()
        }
        for _ in range(2)
    )
    f = lambda x: flat(LINES[name](ldiv, mine(x), x["d"]))
    y, dy = torch.func.jvp(f, (x,), (dx,))
    # linear in all values together; those of the diagonal and the rest are apart
    torch.testing.assert_close(dy, f(dx))
    _, pull = torch.func.vjp(f, x)
    c = torch.tensor(RNG.uniform(1, 2, tuple(y.shape))).to(dtype)
    (bar,) = pull(c)
    torch.testing.assert_close(
        sum((bar[k].conj() * dx[k]).sum().real for k in x), (c.conj() * dy).sum().real
    )
    w = {k: v.clone().requires_grad_() for k, v in x.items()}
    f(w).mul(c.conj()).sum().real.backward()
    for k in x:
        torch.testing.assert_close(w[k].grad if w[k].grad is not None else 0 * x[k], bar[k])


@pytest.mark.exhaustive  # JAX compiles for seconds what the laws of front ends show
def test_jax_agrees_with_numpy() -> None:
    values = draw("float32") | {"d": RNG.uniform(1, 2, 5).astype("float32")}

    def all_of(v: Any) -> Any:
        return [flat(LINES[name](ldiv, mine(v), v["d"])) for name in LINEAR]

    def program(v: Any) -> Any:
        gradient = jax.grad(lambda v: sum((y**2).sum() for y in all_of(v)))(v)
        return all_of(v), jax.jvp(all_of, (v,), (v,))[1], gradient

    y, dy, gradient = jax.jit(program)({k: jnp.asarray(v) for k, v in values.items()})
    for name, a, b in zip(LINEAR, y, dy, strict=True):
        np.testing.assert_allclose(a, flat(LINES[name](ldiv, mine(values), values["d"])), rtol=1e-5)
        np.testing.assert_allclose(a, b, rtol=1e-5)
    # sum y^2 is homogeneous of degree 2
    total = sum(float((a**2).sum()) for a in y)
    np.testing.assert_allclose(
        sum(float((g * values[k]).sum()) for k, g in gradient.items()), 2 * total, rtol=1e-4
    )


@pytest.mark.parametrize("name", LINEAR)
def test_batches(name: str) -> None:
    one, two = draw(), draw()
    d = RNG.uniform(1, 2, 5)
    both = {k: np.stack([one[k], two[k]])[:, None] for k in one}
    got = LINES[name](ldiv, mine(both), d).toarray()
    for i, values in enumerate((one, two)):
        np.testing.assert_allclose(got[i, 0], LINES[name](ldiv, mine(values), d).toarray())


def test_batches_broadcast() -> None:
    one, two = draw(), draw()
    A, B = mine({k: np.stack([v, v]) for k, v in one.items()})["A"], mine(two)["B"]
    got = ldiv.vstack([A, B])
    assert got.shape == (2, 5, 4)
    np.testing.assert_allclose(got.toarray()[1], np.vstack([mine(one)["A"].toarray(), B.toarray()]))
    D = ldiv.setdiag(B, np.ones((3, 2)))
    assert D.shape == (3, 2, 4)


def test_dense_and_foreign_blocks() -> None:
    A = sp.csr_array(CONSTANT)
    for block in (CONSTANT, A, A.tocsc()):
        np.testing.assert_array_equal(
            ldiv.vstack([mine(draw())["A"], block]).toarray()[3:], CONSTANT
        )
    np.testing.assert_array_equal(ldiv.tril(CONSTANT).toarray(), np.tril(CONSTANT))
    np.testing.assert_array_equal(ldiv.setdiag(CONSTANT, 7.0).toarray()[[0, 1], [0, 1]], [7.0, 7.0])
    wide = ldiv.vstack([ldiv.eye_array(2, dtype=np.float32), 1j * ldiv.eye_array(2)])
    assert wide.dtype == np.complex128


def test_constants_of_numpy_beside_tensors() -> None:
    v = torch.tensor(draw()["A"], requires_grad=True)
    T = A.with_data(v)
    for both in (ldiv.vstack([T, CONSTANT]), ldiv.vstack([CONSTANT, T]), ldiv.bmat([[A], [T]])):
        assert both.dtype == torch.float64 and both.data.requires_grad
    D = ldiv.setdiag(T, [1, 2, 3])
    np.testing.assert_array_equal(D.diagonal().detach(), [1.0, 2.0, 3.0])
    D.sum().backward()
    np.testing.assert_array_equal(v.grad, A.row != A.col)


def test_setdiag_keeps_the_pattern_and_its_symbolic_work() -> None:
    for A in (
        ldiv.eye_array(4) + 2 * ldiv.eye_array(4, k=1),
        (ldiv.eye_array(4) + ldiv.eye_array(4, k=1)).tocsc().T,
    ):
        B = ldiv.setdiag(A, 3.0)
        assert B.structure is A.structure and B.format == A.format
        np.testing.assert_array_equal(B.diagonal(), np.full(4, 3.0))
    missing = ldiv.eye_array(4, k=1)
    assert ldiv.setdiag(missing, 1.0).nnz == 7
    assert ldiv.setdiag(missing, 1j).dtype == np.complex128
    for format in ("csr", "csc"):
        once = ldiv.setdiag(missing.asformat(format), np.ones(3))
        assert (once.format, once.nnz, once.has_canonical_format) == (format, 6, True)


def test_stacks_of_equal_patterns_are_ordered_once() -> None:
    ldiv.clear_cache()
    A = ldiv.eye_array(4)
    kept = ldiv.block_diag([A, A])
    for s in (1.0, 2.0):
        K = ldiv.block_diag([A * s, A])
        assert K.structure is kept.structure
        ldiv.solve(K, np.ones(8))
    assert ldiv.cache_info().analyses == 1


@pytest.mark.parametrize("like", [None, torch.zeros(1, dtype=torch.float64), jnp.zeros(1)])
def test_random_arrays_are_those_of_scipy(like: Any) -> None:
    for options in (
        {},
        {"density": 0.5},
        {"density": 1.0, "format": "csr"},
        {"data_sampler": np.ones},
    ):
        options = {"density": 0.2, "rng": 3} | options
        if options.get("data_sampler") is np.ones:
            options["data_sampler"] = lambda size: np.ones(size)
        got = ldiv.random_array((6, 7), like=like, **options)
        expected = sp.random_array((6, 7), **options)
        assert got.format == expected.format and got.nnz == expected.nnz
        np.testing.assert_allclose(np.asarray(got.toarray()), expected.toarray(), rtol=1e-6)
    rng = np.random.default_rng(3)
    assert ldiv.random_array((3, 3), density=1.0, rng=rng, dtype=np.complex64).dtype == np.complex64
    assert (
        ldiv.random_array((3, 3), density=1.0, rng=rng).sum()
        != ldiv.random_array((3, 3), density=1.0, rng=rng).sum()
    )
    assert ldiv.random_array((0, 3), density=1.0).nnz == 0


@pytest.mark.parametrize("format", ["coo", "csr", "csc"])
def test_files_are_those_of_scipy(format: str, tmp_path: Any) -> None:
    A = mine(draw("complex64"))["A"].asformat(format)
    for compressed in (True, False):
        ldiv.save_npz(tmp_path / "A", A, compressed)
        theirs = sp.load_npz(tmp_path / "A.npz")
        assert theirs.format == format and theirs.dtype == np.complex64
        np.testing.assert_array_equal(theirs.toarray(), A.toarray())
        again = ldiv.load_npz(tmp_path / "A.npz")
        assert repr(again) == repr(A)
        np.testing.assert_array_equal(again.data, A.data)
    like = torch.zeros(1, dtype=torch.complex128)
    assert ldiv.load_npz(tmp_path / "A.npz", like=like).dtype == torch.complex128
    file = io.BytesIO()
    sp.save_npz(file, sp.dia_array(np.eye(3)))
    file.seek(0)
    np.testing.assert_array_equal(ldiv.load_npz(file).toarray(), np.eye(3))
    ldiv.save_npz(tmp_path / "T", ldiv.coo_array((torch.ones(1, requires_grad=True), ([0], [1]))))
    assert ldiv.load_npz(tmp_path / "T.npz").shape == (1, 2)


A, S = mine(draw())["A"], mine(draw())["S"]
OPERATOR = ldiv.LinearOperator(lambda p, X: p * X, np.ones(1), shape=(3, 4))
WRONG: dict[str, tuple[type[Exception], str, Callable[[], Any]]] = {
    "no blocks": (ValueError, "a sequence of matrices", lambda: ldiv.vstack([])),
    "one matrix": (ValueError, "a sequence of matrices", lambda: ldiv.hstack(A)),
    "widths": (ValueError, r"block \(1, 0\): expected shape", lambda: ldiv.vstack([A, S])),
    "heights": (ValueError, r"block \(0, 1\): expected shape", lambda: ldiv.hstack([A, A.T])),
    "rows of blocks": (ValueError, "equally many blocks", lambda: ldiv.bmat([[A, S], [A]])),
    "a row of zeros": (ValueError, "Its size is not known", lambda: ldiv.bmat([[A], [None]])),
    "an operator": (TypeError, "entries are stored", lambda: ldiv.vstack([A, OPERATOR])),
    "two frameworks": (
        TypeError,
        "one framework",
        lambda: ldiv.vstack(
            [ldiv.eye_array(2, like=jnp.ones(1)), ldiv.eye_array(2, like=torch.ones(1))]
        ),
    ),
    "batches": (
        ValueError,
        "batch axes",
        lambda: ldiv.hstack([A.with_data(np.ones((2, 6))), A.with_data(np.ones((3, 6)))]),
    ),
    "a format": (ValueError, "'coo', 'csr', 'csc'", lambda: ldiv.block_diag([A, S], format="dia")),
    "an integer dtype": (TypeError, "float64", lambda: ldiv.vstack([A, A], dtype=np.int64)),
    "kronsum of a rectangle": (ValueError, "a square matrix", lambda: ldiv.kronsum(A, S)),
    "tril by a float": (ValueError, "an integer", lambda: ldiv.tril(A, 0.5)),
    "setdiag outside": (
        ValueError,
        "a diagonal of a 3 x 4 matrix",
        lambda: ldiv.setdiag(A, 1.0, 4),
    ),
    "setdiag of another framework": (
        TypeError,
        "one framework",
        lambda: ldiv.setdiag(A.with_data(jnp.ones(6)), torch.ones(3)),
    ),
    "setdiag with batches": (
        ValueError,
        "batch axes",
        lambda: ldiv.setdiag(A.with_data(np.ones((2, 6))), np.ones((3, 3))),
    ),
    "setdiag by infinity": (ValueError, "finite", lambda: ldiv.setdiag(A, np.inf)),
    "a density": (ValueError, "from 0 to 1", lambda: ldiv.random_array((2, 2), density=1.5)),
    "a batch in a file": (
        ValueError,
        "one matrix",
        lambda: ldiv.save_npz(io.BytesIO(), A.with_data(np.ones((2, 6)))),
    ),
    "a file that is not there": (OSError, "A.npz", lambda: ldiv.load_npz("/nowhere/A.npz")),
    "a negative size": (ValueError, ">= 0", lambda: ldiv.identity(-1)),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_refused(name: str) -> None:
    error, words, call = WRONG[name]
    with pytest.raises(error, match=words):
        call()


def test_identity() -> None:
    for n in (0, 3):
        np.testing.assert_array_equal(ldiv.identity(n, "float32", "csc").toarray(), np.eye(n))
    assert ldiv.identity(2, like=torch.ones(1)).dtype == torch.float32


def test_a_picture() -> None:
    figure = pytest.importorskip("matplotlib.figure").Figure()
    ax = figure.subplots()
    line = ldiv.spy(A, ax=ax, color="red", markersize=3)
    np.testing.assert_array_equal(line.get_xdata(), A.col)
    np.testing.assert_array_equal(line.get_ydata(), A.row)
    assert line.get_color() == "red" and line.get_markersize() == 3
    assert ax.get_ylim() == (2.5, -0.5)
    assert (
        ldiv.spy(ldiv.coo_array((np.ones(0), ([], [])), (0, 0)), ax=figure.subplots())
        .get_xdata()
        .size
        == 0
    )
    jax.jit(lambda v: [v, ldiv.spy(A.with_data(v), ax=figure.subplots())][0])(jnp.ones(6))


def test_a_picture_without_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    there = builtins.__import__

    def absent(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.startswith("matplotlib"):
            raise ImportError("No module named 'matplotlib'")
        return there(name, *args, **kwargs)

    for name in [name for name in sys.modules if name.startswith("matplotlib.pyplot")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", absent)
    with pytest.raises(ImportError, match=r"pip install 'ldiv\[plot\]'"):
        ldiv.spy(A)


def test_block_diag_of_dense_blocks_is_an_array() -> None:
    a, b, c = (RNG.standard_normal(shape) for shape in ((2, 3), (1, 1), (3, 2)))
    found = ldiv.block_diag(a, b, c)
    np.testing.assert_array_equal(found, scipy.linalg.block_diag(a, b, c))
    ts = [torch.tensor(x, requires_grad=True) for x in (a, b, c)]
    assert torch.equal(ldiv.block_diag(*ts), torch.block_diag(*ts))
    assert torch.autograd.gradcheck(ldiv.block_diag, ts)


def test_the_places_of_block_diag_are_those_of_scipy() -> None:
    blocks = [np.ones((1, 2)), np.eye(2)]
    for places in ((), (None,), ("csr",), (None, np.float32), ("csc", np.float32)):
        ours, theirs = ldiv.block_diag(blocks, *places), sp.block_diag(blocks, *places)
        assert ours.format == (theirs.format if places and places[0] else "coo")
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours.toarray(), theirs.toarray())
    with pytest.raises(ValueError, match="format: expected one of"):
        ldiv.block_diag(blocks, "dok")
    with pytest.raises(ValueError, match="in every place, got None"):
        ldiv.block_diag(*blocks, None)
