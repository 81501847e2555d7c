"""Every entry that reads a matrix as Hermitian refuses one that is not: any kind of matrix,
size, framework and engine.
"""

import numpy as np
import pytest
import scipy.sparse as sp

import ldiv
from ldiv.engines.iterative import matrix_product

torch = pytest.importorskip("torch")
RNG = np.random.default_rng(0)


def band(n):
    return sp.diags_array(
        [-np.ones(n - 1), np.arange(4.0, 4.0 + n), -2 * np.ones(n - 1)], offsets=[-1, 0, 1]
    ).tocoo()


def sparse(n, array, scale=1.0):
    return ldiv.coo_array((array(scale * band(n).data), (band(n).row, band(n).col)), shape=(n, n))


def diagonal(n, array):
    return ldiv.Matrix(ldiv.structures.Diagonal(n), array(np.arange(4.0, 4.0 + n)))


MATRICES = {
    "dense": lambda n, array: array(band(n).toarray()),
    "sparse": sparse,
    "sparse, complex": lambda n, array: sparse(n, array, 1 + 0j),
    "complex symmetric": lambda n, array: (
        sparse(n, array) + sparse(n, array).T + sparse(n, array, 1j) + sparse(n, array, 1j).T
    ),
    "one triangle": lambda n, array: ldiv.csr_array(
        (array(sp.triu(band(n)).tocsr().data), *_pattern(sp.triu(band(n)).tocsr())), shape=(n, n)
    ),
    "a view": lambda n, array: sparse(n, array).T,
    "a batch": lambda n, array: sparse(n, array).with_data(
        array(np.stack([band(n).data, band(n).data]))
    ),
    "a sum": lambda n, array: sparse(n, array) + diagonal(n, array),
    "a product": lambda n, array: (
        ldiv.Matrix(ldiv.structures.Dense(n, n), array(band(n).toarray())) @ sparse(n, array)
    ),
    "an update": lambda n, array: (
        diagonal(n, array) + ldiv.LowRank(array(RNG.random((n, 1))), array(RNG.random((n, 1))))
    ),
    "an operator": lambda n, array: ldiv.LinearOperator(
        lambda a, x: a @ x, array(band(n).toarray()), shape=(n, n)
    ),
    "a broken promise": lambda n, array: ldiv.LinearOperator(
        lambda a, x: a @ x, array(band(n).toarray()), shape=(n, n), assume_a="pos"
    ),
}


def _pattern(csr):
    return csr.indices, csr.indptr


def start(A):
    x = RNG.standard_normal((A.shape[-1], 2))
    return torch.tensor(x) if "torch" in str(A.dtype) else x


def identity(A):
    return ldiv.diags_array([start(A)[:, 0] * 0 + 1], offsets=[0])


ENTRIES = {
    "eigsh": lambda A: ldiv.eigsh(A, 2, which="LA"),
    "lapack": lambda A: ldiv.eigsh(A, 2, method="lapack"),
    "arpack": lambda A: ldiv.eigsh(A, 2, method="arpack"),
    "eigenspace": lambda A: ldiv.eigenspace(A, 2, which="LA"),
    "spectral_sum": lambda A: ldiv.spectral_sum(lambda lam: lam, A, 2, which="LA"),
    "spectral_function": lambda A: ldiv.spectral_function(lambda lam: lam, A, 2, which="LA"),
    "lobpcg": lambda A: ldiv.lobpcg(A, start(A)),
    "M": lambda A: ldiv.eigsh(identity(A), 2, M=A, which="LA"),
    "M of lobpcg": lambda A: ldiv.lobpcg(identity(A), start(A), A),
}


@pytest.mark.covering(2)
@pytest.mark.parametrize("array", [np.array, torch.tensor], ids=["numpy", "torch"])
@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("kind", MATRICES)
def test_an_unsymmetric_matrix_is_refused(kind, entry, array):
    for n in (12, 210):
        A = MATRICES[kind](n, array)
        with pytest.raises(
            ldiv.NotSymmetricError, match=r"must be (Hermitian|symmetric)"
        ) as caught:
            ENTRIES[entry](A)
        assert "assume_a" not in str(caught.value)


@pytest.mark.parametrize("kind", ["sparse", "a sum"])
def test_sigma_and_traces_are_no_way_round(kind):
    A = MATRICES[kind](12, np.array)
    with pytest.raises(ldiv.NotSymmetricError):
        ldiv.eigsh(A, 2, sigma=0.1)
    with pytest.raises(ldiv.NotSymmetricError):
        ldiv.eigsh(identity(A), 2, M=A, sigma=0.1)


def test_under_jit():
    jax = pytest.importorskip("jax")
    A = sparse(12, np.array)
    f = jax.jit(lambda v: ldiv.eigsh(A.with_data(v), 2, which="LA", return_eigenvectors=False))
    with pytest.raises(Exception, match="symmetric structure was promised"):
        f(A.data).block_until_ready()
    symmetric = A.data - np.where(band(12).row > band(12).col, 1, 0)
    assert np.allclose(
        f(symmetric), np.linalg.eigvalsh(A.with_data(symmetric).toarray())[-2:], rtol=1e-5
    )


def test_torch_transforms():
    A = sparse(12, torch.tensor)
    with pytest.raises(ldiv.NotSymmetricError):
        torch.func.grad(lambda v: ldiv.spectral_sum(lambda lam: lam, A.with_data(v), 2))(A.data)
    with pytest.raises(ldiv.NotSymmetricError):
        torch.func.vmap(lambda v: ldiv.eigsh(A.with_data(v), 2)[0])(torch.stack([A.data, A.data]))


@pytest.mark.parametrize("method", ["cg", "minres"])
def test_values_on_a_device_are_probed(monkeypatch, method):
    monkeypatch.setattr(matrix_product, "host", lambda x: False)
    A = sparse(12, torch.tensor)
    promise = "pos" if method == "cg" else "her"
    with pytest.raises(ldiv.NotSymmetricError):
        ldiv.solve(A, start(A)[:, 0], assume_a=promise, method=method)
    with pytest.raises(ldiv.NotSymmetricError):
        ldiv.lobpcg(A, start(A))
    S = A + A.T
    x = ldiv.solve(S, torch.ones(12, dtype=torch.float64), assume_a=promise, method=method)
    assert torch.allclose(S @ x, torch.ones(12, dtype=torch.float64))


def test_rounding_is_forgiven():
    n = 30
    a = RNG.standard_normal((n, n)) + 1j * RNG.standard_normal((n, n))
    a = a + a.conj().T
    wanted = np.linalg.eigvalsh(a)[-2:]
    a = a * (1 + 1e-12 * RNG.standard_normal((n, n)))
    rows, cols = np.divmod(np.arange(n * n), n)
    for dtype, accuracy in (("complex128", 1e-10), ("complex64", 1e-4)):
        b = a.astype(dtype)
        operator = ldiv.LinearOperator(lambda p, x: p @ x, b, shape=(n, n), assume_a="her")
        for A in (ldiv.coo_array((b.ravel(), (rows, cols)), shape=(n, n)), operator):
            for method in ("lapack", "arpack", "lobpcg"):
                assert np.allclose(
                    ldiv.eigsh(A, 2, which="LA", method=method)[0], wanted, rtol=accuracy
                )
