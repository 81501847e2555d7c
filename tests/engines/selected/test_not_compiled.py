"""Sparse matrices without the compiled part: solves, determinants and derivatives of any order
work. Entries of inverses and of L come by solves and LAPACK for few rows, and are refused for many.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp
import torch

import ldiv
from ldiv.engines.libraries import native

jax.config.update("jax_enable_x64", True)
KINDS = [("pos", "d"), ("pos", "D"), ("gen", "d"), ("gen", "D"), ("sym", "d"), ("her", "D")]
each = pytest.mark.parametrize(("kind", "dtype"), KINDS)
N = 23


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(native, "native", None)
    monkeypatch.setattr(native, "why_not", "a test has taken it away")
    ldiv.clear_cache()
    yield
    ldiv.clear_cache()


def matrix(kind: str, dtype: str, n: int = N) -> Any:
    """A cycle with chords, of units that differ; indefinite unless `kind` is "pos"."""
    rng = np.random.default_rng(n)
    a = sp.random_array((n, n), density=2 / n, rng=rng) + sp.eye_array(n, k=1)
    a.data = rng.standard_normal(a.nnz)
    if dtype == "D":
        a = a * np.exp(1j * np.arange(n))
    a = a if kind == "gen" else a + (a.T if kind == "sym" else a.conj().T)
    sign = 1 if kind == "pos" else rng.choice([-1.0, 1.0], n)
    a = a + sp.diags_array(sign * (0.5 + abs(a).sum(axis=1)))
    units = sp.diags_array(2.0 ** rng.integers(-3, 4, n))
    return sp.coo_array(units @ a @ units)


def sparse(a: Any, values: Any) -> Any:
    return ldiv.coo_array((values, (a.row, a.col)), shape=a.shape)


def dense(a: Any, v: Any, kind: str) -> Any:
    """The matrix with these entries; of a promised symmetry its part that has it."""
    if isinstance(v, torch.Tensor):
        m = torch.zeros(a.shape, dtype=v.dtype).index_put(
            (torch.tensor(a.row), torch.tensor(a.col)), v
        )
    else:
        m = jnp.zeros(a.shape, v.dtype).at[a.row, a.col].set(v)
    return m if kind == "gen" else (m + (m.mT if kind == "sym" else m.mT.conj())) / 2


@each
def test_solves_and_determinants(kind: str, dtype: str) -> None:
    a = matrix(kind, dtype)
    A, m, b = sparse(a, a.data), a.toarray(), np.cos(np.arange(2.0 * N)).reshape(N, 2)
    for trans, op in (("N", m), ("T", m.T), ("H", m.conj().T)):
        x, info = ldiv.solve(A, b, assume_a=kind, trans=trans, info=True)
        np.testing.assert_allclose(op @ x, b, atol=1e-11)
        assert info.engine not in ("lu", "cholesky")
    sign, size = np.linalg.slogdet(m)
    np.testing.assert_allclose(ldiv.slogdet(A), (sign, size), rtol=1e-11)
    if kind == "pos":
        np.testing.assert_allclose(ldiv.logdet(A, assume_a="pos"), size, rtol=1e-11)
    z, inverse = ldiv.selected_inverse(A, assume_a=kind), np.linalg.inv(m)
    np.testing.assert_allclose(z.data, inverse[z.row, z.col], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(
        ldiv.inverse_diagonal(A, assume_a=kind), inverse.diagonal(), rtol=1e-9
    )
    np.testing.assert_allclose(ldiv.trace_solve(A, A, assume_a=kind), N, rtol=1e-10)


def size_and_form(A: Any, b: Any, kind: str) -> Any:
    """log |det A| + Re b^H A^-1 b."""
    size = ldiv.logdet(A, assume_a="pos") if kind == "pos" else ldiv.slogdet(A)[1]
    return size + (b * ldiv.solve(A, b, assume_a=kind)).sum().real


@each
def test_derivatives_in_torch(kind: str, dtype: str) -> None:
    a = matrix(kind, dtype)
    v, b = torch.tensor(a.data, requires_grad=True), torch.cos(torch.arange(float(N)).double())

    def of(y: Any) -> tuple[Any, Any]:
        (g,) = torch.autograd.grad(y, v, create_graph=True)
        return g, torch.autograd.grad((g * v.detach().conj()).sum().real, v)[0]

    # slogdet takes no promise, and a solve reads the part of A that was promised
    m, part = dense(a, v, "pos" if kind == "pos" else "gen"), dense(a, v, kind)
    form = (b * torch.linalg.solve(part, b + 0 * v[0])).sum().real
    expected = of(torch.linalg.slogdet(m)[1] + form)
    for x, y in zip(of(size_and_form(sparse(a, v), b, kind)), expected, strict=True):
        size = float(y.detach().abs().max())
        torch.testing.assert_close(x, y, rtol=1e-8, atol=1e-9 * size)


@pytest.mark.parametrize(("kind", "dtype"), [("pos", "d"), ("gen", "D")])
def test_derivatives_in_jax(kind: str, dtype: str) -> None:
    """Compiled, and of a batch."""
    a = matrix(kind, dtype)
    b, batch = jnp.cos(jnp.arange(float(N))), jnp.stack([a.data, 2 * a.data, a.data])

    def ours(v: Any) -> Any:
        return size_and_form(sparse(a, v), b, kind)

    def plain(v: Any) -> Any:
        m = dense(a, v, kind)
        return jnp.linalg.slogdet(m)[1] + (b * jnp.linalg.solve(m, b.astype(m.dtype))).sum().real

    for take in (lambda f: jax.jit(jax.vmap(jax.grad(f)))(batch), lambda f: jax.jit(f)(batch[1])):
        x, y = take(ours), take(plain)
        np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-10 * abs(y).max())


@pytest.mark.parametrize("dtype", ["d", "D"])
def test_the_triangle(dtype: str) -> None:
    """|L^-1 P b|^2 = b^H A^-1 b, with its derivatives, and of a batch."""
    a = matrix("pos", dtype)
    v, b = torch.tensor(np.stack([a.data, 3 * a.data]), requires_grad=True), torch.ones(N).double()
    part = torch.stack([dense(a, one, "pos") for one in v])
    x = ldiv.cholesky(sparse(a, v)).half_solve(b[:, None])
    y = torch.linalg.solve(part, b[:, None] + 0 * v[0, 0])
    pairs = []
    for form in ((x.conj() * x).sum().real, (b[:, None] * y).sum().real):
        (g,) = torch.autograd.grad(form, v, create_graph=True)
        pairs.append((form, g, torch.autograd.grad((g.conj() * g).sum().real, v)[0]))
    for found, expected in zip(*pairs, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-10)
    F = ldiv.cholesky(sparse(a, a.data))
    assert F.sample(np.random.default_rng(0), 3).shape == (3, N)
    filled = ldiv.selected_inverse(sparse(a, a.data), assume_a="pos", fill=True)
    np.testing.assert_allclose(filled.toarray(), np.linalg.inv(a.toarray()), rtol=1e-8, atol=1e-10)


def test_refusals() -> None:
    a = matrix("pos", "d")
    for wrong, error in (
        (np.where(a.row == a.col, -a.data, a.data), ldiv.NotPositiveDefiniteError),
        (np.where((a.row == 3) | (a.col == 3), 0, a.data), np.linalg.LinAlgError),
        (np.full(a.nnz, np.nan), ValueError),
    ):
        A = sparse(a, wrong)
        for ask in (
            lambda A: ldiv.logdet(A, assume_a="pos"),
            lambda A: ldiv.selected_inverse(A, assume_a="pos"),
            lambda A: ldiv.cholesky(A).half_solve(np.ones(N)),
        ):
            with pytest.raises(error):
                ask(A)


def test_what_many_rows_need_is_said() -> None:
    n = native.FEW + 1
    A = ldiv.diags_array([-np.ones(n - 1), np.full(n, 3.0), -np.ones(n - 1)], offsets=[-1, 0, 1])
    b = np.ones(n)
    np.testing.assert_allclose(A @ ldiv.solve(A, b, assume_a="pos"), b, rtol=1e-12)
    root = (3 + 5**0.5) / 2  # of the continuants
    size = n * np.log(root) + np.log(root / (root - 1 / root))
    size_of = lambda v: ldiv.logdet(A.with_data(v), assume_a="pos")
    value, pull = ldiv.vjp(size_of, A.data)
    np.testing.assert_allclose((value, ldiv.slogdet(A)[1]), size, rtol=1e-12)
    said = rf"of {n:,} rows need ldiv's compiled part, ldiv\._native.* a test has taken it away"
    for ask in (
        lambda: pull(np.ones(())),
        lambda: ldiv.selected_inverse(A),
        lambda: ldiv.selected_inverse(A, assume_a="pos", fill=True),
        lambda: ldiv.inverse_diagonal(A),
        lambda: ldiv.cholesky(A).half_solve(b),
    ):
        with pytest.raises(ldiv.EngineError, match=said):
            ask()
    with pytest.raises(Exception, match=said):
        jax.block_until_ready(jax.jit(jax.grad(size_of))(jnp.asarray(A.data)))
    assert abs(float(ldiv.trace_solve(A, A, assume_a="pos")) - n) < 1e-8 * n
