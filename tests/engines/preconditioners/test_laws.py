"""Laws of every kind of preconditioner: M has its four views, columns and batches are independent,
M is Hermitian where A is and where it says so, and one M serves the value and all derivatives.
"""

import copy
import importlib
import pickle

import numpy as np
import pytest
import scipy.sparse as sp

import ldiv
from ldiv.core.rules.structure import VIEWS, view_dense
from ldiv.engines.preconditioners.approximate_inverse import ApproximateInverse
from ldiv.linalg.arguments.preconditioner import kinds

torch = pytest.importorskip("torch")

N = 14
KINDS = [k for k in kinds() if k != "amg" or importlib.util.find_spec("pyamg")]
DTYPES = ["float32", "float64", "complex64", "complex128"]


def matrix(dtype="float64", assume_a="gen", scale=1.0):
    """An arrow on a band, strongly diagonal; or its symmetric or Hermitian part."""
    rng = np.random.default_rng(3)
    band = sp.diags_array([rng.standard_normal(N - abs(k)) for k in (-2, 0, 1)], offsets=(-2, 0, 1))
    a = (band + 5 * sp.eye_array(N)).toarray()
    a[0, 5:9] = rng.standard_normal(4)
    if dtype.startswith("complex"):
        a = a + 1j * (a != 0) * rng.standard_normal((N, N))
    if assume_a != "gen":
        a = (a + (a.T if assume_a == "sym" else a.conj().T)) / 2
    return sp.coo_array((scale * a).astype(dtype))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("assume_a", ["gen", "sym", "her"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_views(kind, assume_a, dtype):
    M = ldiv.preconditioner(ldiv.asarray(matrix(dtype, assume_a)), kind, assume_a=assume_a)
    rng, eps = np.random.default_rng(0), np.finfo(dtype).eps
    x = rng.standard_normal((2, N, 3)) + 1j * rng.standard_normal((2, N, 3))
    dense = M.structure.todense(M.params)
    own = {op: M.structure.view(op) for op in VIEWS}
    # a V-cycle for A^T need not be the transpose of one for A: it is near the same inverse, no more
    compared = VIEWS if kind != "amg" else "N"
    for op in compared:
        for block in (x, x[0], x.real, x[0, :, :0]):
            expected = view_dense(dense, op) @ block
            found = own[op].matmul(M.params, block)
            assert found.shape == expected.shape
            assert np.allclose(found, expected, rtol=0, atol=100 * eps)
    for op in VIEWS:
        for then in VIEWS:
            assert own[op].view(then) == own[op].view(then)
            assert own[op].view(then).view(then) == own[op]
            assert hash(own[op].view(then).view(then)) == hash(own[op])
    for same in (copy.deepcopy(M), pickle.loads(pickle.dumps(M))):
        assert same.structure == M.structure
        assert np.array_equal(same @ x[0], M @ x[0])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_hermitian_where_it_says_so(kind, dtype):
    M = ldiv.preconditioner(ldiv.asarray(matrix(dtype, "her")), kind, assume_a="her")
    if isinstance(M.structure, ApproximateInverse) and not M.structure.hermitian:
        return
    dense = M.structure.todense(M.params)
    assert np.allclose(dense, dense.conj().T, rtol=0, atol=100 * np.finfo(dtype).eps)
    assert np.linalg.eigvalsh(dense).min() > 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_is_its_matrices(kind):
    a, rng = matrix(), np.random.default_rng(1)
    values, x = np.stack([a.data, 3 * a.data, -a.data]), rng.standard_normal((3, N, 2))
    batch = ldiv.coo_array((values, a.coords), shape=a.shape)
    each = [
        ldiv.preconditioner(ldiv.coo_array((v, a.coords), shape=a.shape), kind) @ y
        for v, y in zip(values, x, strict=True)
    ]
    assert np.allclose(ldiv.preconditioner(batch, kind) @ x, np.stack(each), rtol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_the_scale(kind, scale):
    a, b = matrix(), np.ones(N)
    M, large = (ldiv.preconditioner(ldiv.asarray(s * a), kind) for s in (1.0, scale))
    assert np.allclose(large @ b * scale, M @ b, rtol=1e-10)
    x = ldiv.solve(ldiv.asarray(scale * a), b, M=kind, method="gmres")
    assert np.allclose(scale * (a @ x), b, rtol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_bad_numbers_are_refused(kind):
    a = matrix()
    a.data[4] = np.nan
    with pytest.raises(ValueError, match="A: expected finite numbers"):
        ldiv.solve(ldiv.asarray(a), np.ones(N), M=kind)


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_to_do(kind):
    A = ldiv.asarray(matrix())
    assert ldiv.solve(A, np.ones((N, 0)), M=kind).shape == (N, 0)
    assert not ldiv.solve(A, np.zeros(N), M=kind).any()
    empty = ldiv.coo_array((np.empty(0), (np.empty(0, int), np.empty(0, int))), shape=(0, 0))
    assert ldiv.solve(empty, np.ones((0, 2)), M=kind).shape == (0, 2)


# -- derivatives ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_those_of_the_solution(kind):
    """Against a direct engine, eager, by torch.func, in forward mode and to second order."""
    a = matrix("complex128")
    v, b = torch.tensor(a.data), torch.ones(N, dtype=torch.complex128)
    direction = torch.tensor(np.random.default_rng(2).standard_normal(a.nnz) + 0.5j)

    def of(**options):
        def f(v):
            A = ldiv.coo_array((v, a.coords), shape=a.shape)
            return ldiv.solve(A, b, **options).abs().square().sum()

        first = torch.func.grad(f)
        second = torch.func.jvp(first, (v,), (direction,))[1]
        eager = v.clone().requires_grad_()
        f(eager).backward()
        batch = torch.vmap(first)(torch.stack([v, 2 * v]))
        return [first(v), second, eager.grad, *torch.func.jvp(f, (v,), (direction,)), *batch]

    tight = {"M": kind, "method": "gmres", "rtol": 1e-13}
    for found, expected in zip(of(**tight), of(method="direct"), strict=True):
        assert torch.allclose(found, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", [k for k in KINDS if k in ("ilu", "amg")])
def test_one_is_made_for_the_value_and_all_derivatives(kind):
    a = matrix()
    v = torch.tensor(a.data, requires_grad=True)
    A = ldiv.coo_array((v, a.coords), shape=a.shape)
    before = ldiv.cache_info().factorizations
    x = ldiv.solve(A, torch.ones(N, dtype=torch.float64), M=kind, method="bicgstab")
    (g,) = torch.autograd.grad(x.square().sum(), v, create_graph=True)
    g.square().sum().backward()
    # the V-cycle for A^T has its own hierarchy, the factors of A serve A^T
    assert ldiv.cache_info().factorizations - before == (1 if kind == "ilu" else 2)


@pytest.mark.parametrize("kind", KINDS)
def test_in_a_compiled_program(kind):
    jax = pytest.importorskip("jax")
    a, b = matrix(), np.ones(N)

    def f(v):
        A = ldiv.coo_array((v, a.coords), shape=a.shape)
        return (ldiv.solve(A, jax.numpy.asarray(b), M=kind, method="bicgstab") ** 2).sum()

    with jax.enable_x64():
        found = jax.jit(jax.value_and_grad(f))(jax.numpy.asarray(a.data))
    x = np.linalg.solve(a.toarray(), b)
    lam = np.linalg.solve(a.toarray().T, 2 * x)
    assert np.allclose(found[0], x @ x, rtol=1e-9)
    assert np.allclose(found[1], -(lam[a.coords[0]] * x[a.coords[1]]), rtol=1e-8, atol=1e-9)
