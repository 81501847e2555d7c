"""Products with a sparse matrix in programs for the CPU are calls of compiled code, beside those of the
dense matrix, in all views, dtypes and batches, and have all derivatives.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ldiv

jax = pytest.importorskip("jax")
import jax.numpy as jnp  # noqa: E402

from ldiv.core.rules.entry_programs import FEW  # noqa: E402
from ldiv.core.rules.rule import bind  # noqa: E402
from ldiv.engines.libraries import native  # noqa: E402

jax.config.update("jax_enable_x64", True)
pytestmark = pytest.mark.skipif(native.native is None, reason=native.why_not)

M, N, NNZ = 7, 5, 23
RNG = np.random.default_rng(0)
# in no order, with duplicates, a row and a column without entries
ROWS, COLS = RNG.choice([0, 1, 2, 4, 5, 6], NNZ), RNG.integers(1, N, NNZ)
DTYPES = ["float32", "float64", "complex64", "complex128"]
BATCHES = [((), ()), ((3,), ()), ((), (3,)), ((2, 3), (2, 3))]
COLUMNS = [2, 3, 9, FEW + 3]
NAME = "ldiv_entries_1"


def drawn(dtype: str, *shape: int) -> Any:
    x = RNG.standard_normal((2, *shape))
    return (x[0] + 1j * x[1] if dtype[0] == "c" else x[0]).astype(dtype)


def sparse(p: Any) -> Any:
    return ldiv.coo_array((p, (ROWS, COLS)), shape=(M, N))


def dense(p: Any) -> Any:
    return jnp.zeros((*p.shape[:-1], M, N), p.dtype).at[..., ROWS, COLS].add(p)


VIEWS = {
    "A": (lambda A: A, lambda a: a),
    "A.T": (lambda A: A.T, lambda a: a.mT),
    "A.H": (lambda A: A.H, lambda a: a.mT.conj()),
    "conj A": (lambda A: A.conj(), lambda a: a.conj()),
}


def near(found: Any, expected: Any) -> None:
    rtol = 300 * np.finfo(expected.dtype).eps
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol * np.abs(expected).max())


# each view with each dtype, each number of columns with each batch
CASES = [
    (view, dtype, COLUMNS[(i + j) % 4], BATCHES[i])
    for i, view in enumerate(VIEWS)
    for j, dtype in enumerate(DTYPES)
]


@pytest.mark.parametrize(("view", "dtype", "k", "batches"), CASES, ids=str)
def test_products_and_gradients(view: str, dtype: str, k: int, batches: Any) -> None:
    of_sparse, of_dense = VIEWS[view]
    p = drawn(dtype, *batches[0], NNZ)
    x = drawn(dtype, *batches[1], N if view in ("A", "conj A") else M, k)

    def size(matrix: Any, of: Any) -> Any:
        return lambda p, x: (jnp.abs(of(matrix(p)) @ x) ** 2).sum()

    product = jax.jit(lambda p, x: of_sparse(sparse(p)) @ x)
    assert NAME in product.lower(p, x).as_text()
    near(product(p, x), of_dense(dense(p)) @ x)
    expected = jax.grad(size(dense, of_dense), (0, 1))(p, x)
    gradient = jax.jit(jax.grad(size(sparse, of_sparse), (0, 1)))
    assert gradient.lower(p, x).as_text().count(NAME) >= 2 + (k > FEW and batches[0] == batches[1])
    for found, own in zip(gradient(p, x), expected, strict=True):
        near(found, own)


def test_second_derivatives_under_vmap() -> None:
    p, x = drawn("float64", 4, NNZ), drawn("float64", 4, N, FEW + 1)

    def second(matrix: Any) -> Any:
        f = lambda p, x: jnp.sin(matrix(p) @ x).sum()
        along = lambda p, x: jax.jvp(lambda p: jax.grad(f, (0, 1))(p, x), (p,), (p,))[1]
        return jax.jit(jax.vmap(along))

    for found, expected in zip(second(sparse)(p, x), second(dense)(p, x), strict=True):
        near(found, expected)


def test_no_array_has_a_number_for_each_entry_and_column() -> None:
    """The gradient of a product, and of a solve, in the program that runs."""
    n, k = 60, FEW + 5
    A = ldiv.diags_array(
        [np.full(n - 1, -1.0), np.full(n, 4.0), np.full(n - 1, -1.0)], offsets=[-1, 0, 1]
    )
    p, x = jnp.asarray(A.data), jnp.ones((n, k))
    for f in (lambda A, x: A @ x, ldiv.solve):
        run = jax.jit(jax.grad(lambda p, x, f=f: (f(A.with_data(p), x) ** 2).sum(), (0, 1)))
        text = run.lower(p, x).compile().as_text()
        assert NAME in text
        for shape in (f"[{len(p)},{k}]", f"[{len(p)},1,{k}]", f"[{k},{len(p)}]"):
            assert shape not in text


def test_what_the_call_does_not_take() -> None:
    """One column, which XLA joins with others; other dtypes; batches to be broadcast; no columns."""
    p, x = drawn("float64", NNZ), drawn("float64", N, 4)
    product = jax.jit(lambda p, x: sparse(p) @ x)
    for q, y in (
        (p, x[:, :1]),
        (p, x[:, 0]),
        (p.astype("float32"), x),
        (p, x + 1j),
        (drawn("float64", 3, 1, NNZ), drawn("float64", 2, N, 4)),
        (p, x[:, :0]),
    ):
        assert NAME not in product.lower(q, y).as_text()
        expected = dense(q) @ y
        assert product(q, y).shape == expected.shape
        np.testing.assert_allclose(product(q, y), expected, rtol=1e-5, atol=1e-5)


def test_an_exported_program_with_a_symbolic_batch() -> None:
    p, x = drawn("float64", 3, NNZ), drawn("float64", 3, N, 4)
    b, k = jax.export.symbolic_shape("b, k")
    product = jax.jit(lambda p, x: sparse(p) @ x)
    for shape, given in (((b, N, 4), x), ((N, k), x[0])):
        specs = [jax.ShapeDtypeStruct(s, float) for s in ((b, NNZ), shape)]
        program = jax.export.export(product, disabled_checks=ldiv.jax_export_checks())(*specs)
        near(program.call(p, given), dense(p) @ given)


def test_one_column_beside_many_is_repeated() -> None:
    outer = sparse(drawn("float64", NNZ)).structure._outer
    u, v = drawn("float64", M, FEW + 1), drawn("float64", N, 1)
    (found,) = jax.jit(lambda u, v: bind(outer, u, v))(u, v)
    near(found, (u @ np.repeat(v, FEW + 1, axis=1).T)[ROWS, COLS])
