"""Batches of sparse matrices of other libraries, each on its pattern; blocks by columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import ldiv

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")
jsp = pytest.importorskip("jax.experimental.sparse")
jax.config.update("jax_enable_x64", True)
jnp = jax.numpy

pytestmark = pytest.mark.filterwarnings("ignore:Sparse")
rng = np.random.default_rng(0)
EYE, B = 5 * np.eye(4), rng.standard_normal(4)
# of another number of entries in each; of as many entries, as compressed batches of PyTorch have
VARIED = np.where(rng.random((2, 3, 4, 4)) < 0.5, rng.standard_normal((2, 3, 4, 4)), 0) + EYE
EQUAL = np.where(np.eye(4) + np.eye(4, k=1) > 0, rng.standard_normal((3, 4, 4)), 0) + EYE
EQUAL[1] = EQUAL[1].T
FOUR = np.stack([EQUAL, EQUAL[::-1]])
FULL = rng.standard_normal((3, 4, 4)) + EYE
SAME = np.stack([EQUAL[0], 2 * EQUAL[0]])

CASES: dict[str, tuple[Any, Any]] = {
    "torch coo": (lambda: torch.tensor(VARIED[0]).to_sparse(), VARIED[0]),
    "torch coo, two batch axes": (lambda: torch.tensor(VARIED).to_sparse(), VARIED),
    "torch csr": (lambda: torch.tensor(EQUAL).to_sparse_csr(), EQUAL),
    "torch csc": (lambda: torch.tensor(EQUAL).to_sparse_csc(), EQUAL),
    "torch csr, two batch axes": (lambda: torch.tensor(FOUR).to_sparse_csr(), FOUR),
    "torch csr, one pattern": (lambda: torch.tensor(SAME).to_sparse_csr(), SAME),
    "torch bsr": (lambda: torch.tensor(FULL).to_sparse_bsr((2, 2)), FULL),
    "torch bsc": (lambda: torch.tensor(FULL).to_sparse_bsc((2, 2)), FULL),
    "torch bsc, no batch": (lambda: torch.tensor(EQUAL[0]).to_sparse_bsc((1, 2)), EQUAL[0]),
    "jax bcoo, all indices": (lambda: jsp.BCOO.fromdense(jnp.asarray(VARIED)), VARIED),
    "jax bcoo, one batch axis": (
        lambda: jsp.BCOO.fromdense(jnp.asarray(VARIED), n_batch=1),
        VARIED,
    ),
    "jax bcoo, two": (lambda: jsp.BCOO.fromdense(jnp.asarray(VARIED), n_batch=2), VARIED),
    "jax bcoo, padded": (lambda: jsp.BCOO.fromdense(jnp.asarray(VARIED[0]), nse=60), VARIED[0]),
    "jax bcoo, indices for all": (
        lambda: jsp.BCOO(
            (jnp.asarray(SAME).reshape(2, 16), jnp.asarray(np.argwhere(np.ones((4, 4))))[None]),
            shape=(2, 4, 4),
        ),
        SAME,
    ),
    "jax bcsr": (lambda: jsp.BCSR.fromdense(jnp.asarray(VARIED[0]), n_batch=1), VARIED[0]),
    "jax bcsr, two": (lambda: jsp.BCSR.fromdense(jnp.asarray(VARIED), n_batch=2), VARIED),
    "scipy coo": (lambda: sp.coo_array(VARIED), VARIED),
}


@pytest.mark.parametrize("name", CASES)
def test_a_batch_is_on_the_union_of_its_patterns(name: str) -> None:
    make, expected = CASES[name]
    S = make()
    A = ldiv.asarray(S)
    assert A.structure.shape == (4, 4)
    assert A.nnz <= 16
    np.testing.assert_array_equal(np.asarray(A.toarray()), expected)
    b = {"t": torch.tensor, "j": jnp.asarray, "s": np.asarray}[name[0]](B)
    x = np.linalg.solve(expected, B[:, None])[..., 0]
    np.testing.assert_allclose(np.asarray(ldiv.solve(S, b)), x, rtol=1e-9, atol=1e-12)


def test_duplicates_are_added_up() -> None:
    at = torch.tensor([[0, 0, 1], [1, 1, 0], [0, 0, 1]])
    S = torch.sparse_coo_tensor(at, torch.tensor([1.0, 2.0, 4.0]), (2, 2, 2))
    assert torch.equal(ldiv.asarray(S).toarray(), S.to_dense())


def test_gradients_go_to_the_values_of_each_member() -> None:
    """The batch has either layout of PyTorch, or is a dense batch in JAX, compiled."""
    b, dense = torch.tensor(B), torch.tensor(EQUAL, requires_grad=True)
    torch.linalg.solve(dense, b.expand(3, 4)).sin().sum().backward()
    coo, csr = torch.tensor(EQUAL).to_sparse().coalesce(), torch.tensor(EQUAL).to_sparse_csr()
    expected = dense.grad[tuple(coo.indices())]
    for make, values in (
        (lambda v: torch.sparse_coo_tensor(coo.indices(), v, (3, 4, 4)), coo.values()),
        (
            lambda v: torch.sparse_csr_tensor(csr.crow_indices(), csr.col_indices(), v, (3, 4, 4)),
            csr.values(),
        ),
    ):
        v = values.clone().requires_grad_()
        (found,) = torch.autograd.grad(ldiv.solve(make(v), b).sin().sum(), v)
        torch.testing.assert_close(found.ravel(), expected)
    S = jsp.BCOO.fromdense(jnp.asarray(EQUAL), n_batch=1)
    loss = lambda d: jnp.sin(
        ldiv.solve(jsp.BCOO((d, S.indices), shape=S.shape), jnp.asarray(B))
    ).sum()
    np.testing.assert_allclose(jax.jit(jax.grad(loss))(S.data).ravel(), expected, rtol=1e-9)


def test_empty_batches_and_matrices() -> None:
    for shape in ((0, 4, 4), (2, 0, 0), (2, 4, 4), (0, 0, 0), (2, 0, 3)):
        A = ldiv.asarray(torch.zeros(shape).to_sparse())
        assert A.shape == shape
        assert A.nnz == 0
        assert tuple(A.toarray().shape) == shape


def test_an_index_of_a_batch_that_is_out_of_range() -> None:
    S = sp.coo_array(VARIED[0])
    S.coords = (S.coords[0] + 7, *S.coords[1:])
    with pytest.raises(ValueError, match="in the batch of A"):
        ldiv.solve(S, B)
