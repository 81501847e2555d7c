"""Names of NumPy, PyTorch and the array API: their values, and derivatives."""

import numpy as np
import pytest
import scipy.linalg

import ldiv

torch = pytest.importorskip("torch")
jnp = pytest.importorskip("jax.numpy")
rng = np.random.default_rng(2)
close = np.testing.assert_allclose
A = rng.standard_normal((5, 5))
Z = A + 1j * rng.standard_normal((5, 5))
B = rng.standard_normal((3, 4, 5))


def checked(f, *arrays):
    args = tuple(torch.tensor(x, requires_grad=True) for x in arrays)
    assert torch.autograd.gradcheck(f, args, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(f, args)


@pytest.mark.parametrize("p", [None, 2, -2, 1, -1, np.inf, -np.inf, "fro", "nuc"])
def test_cond(p):
    for a in (A, Z, np.stack([A, A.T + 1])):
        close(ldiv.cond(a, p), np.linalg.cond(a, p), rtol=1e-9)
    checked(lambda a: ldiv.cond(a, p), A)
    if p in (None, 2):
        close(ldiv.cond(B, p), np.linalg.cond(B, p), rtol=1e-9)
        assert ldiv.cond(np.diag([1.0, 0])) == np.inf
        with pytest.raises(ValueError, match="x: expected matrices with entries"):
            ldiv.cond(np.zeros((0, 0)))
    elif p != -2:
        with pytest.raises(ldiv.SingularMatrixError):
            ldiv.cond(np.ones((2, 2)), p)


def test_norms():
    for axis in (None, 1, (0, 2), (2, 0, 1)):
        for ord in (2, 1, 0, 3.5, np.inf, -np.inf):
            for keep in (False, True):
                found = ldiv.vector_norm(B, ord, axis, keep)
                expected = np.linalg.vector_norm(B, axis=axis, keepdims=keep, ord=ord)
                close(found, expected, rtol=1e-13)
                assert np.shape(found) == np.shape(expected)
    for ord in ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf):
        close(ldiv.matrix_norm(B, ord), np.linalg.matrix_norm(B, ord=ord), rtol=1e-12)
        close(
            ldiv.matrix_norm(B, ord, (0, 1), True),
            np.moveaxis(np.linalg.matrix_norm(np.moveaxis(B, 2, 0), ord=ord, keepdims=True), 0, 2),
            rtol=1e-12,
        )
    checked(lambda x: ldiv.vector_norm(x, 3, (0, 1)), B)
    checked(lambda x: ldiv.matrix_norm(x, "nuc"), A)
    with pytest.raises(ValueError, match="axis: expected different axes"):
        ldiv.vector_norm(B, axis=(0, -3))


def test_products():
    chain = [rng.standard_normal(s) for s in ((4, 7), (7, 2), (2, 6), (6, 3))]
    close(ldiv.multi_dot(chain), np.linalg.multi_dot(chain), rtol=1e-12)
    ends = [chain[0][0], *chain[1:], chain[3][0]]
    close(ldiv.multi_dot(ends), np.linalg.multi_dot(ends), rtol=1e-12)
    close(ldiv.multi_dot([A, Z, A]), A @ Z @ A, rtol=1e-12)
    checked(lambda *x: ldiv.multi_dot(x), *chain)
    mixed = ldiv.multi_dot([torch.tensor(A), torch.tensor(Z), torch.tensor(A)])
    close(mixed, A @ Z @ A, rtol=1e-12)
    with pytest.raises(ValueError, match="arrays: expected matrices that fit"):
        ldiv.multi_dot([A, B[0]])
    close(ldiv.vecdot(Z, Z[0]), np.linalg.vecdot(Z, Z[0]), rtol=1e-12)
    close(ldiv.vecdot(Z, 2 * Z, axis=0), np.linalg.vecdot(Z, 2 * Z, axis=0), rtol=1e-12)
    checked(ldiv.vecdot, Z, Z + 1)
    with pytest.raises(ValueError, match="x2: expected as many numbers"):
        ldiv.vecdot(A, B[0, :3, :4])


def test_systems_of_several_axes():
    a, b = rng.standard_normal((2, 3, 6)), rng.standard_normal((2, 3))
    close(ldiv.tensorsolve(a, b), np.linalg.tensorsolve(a, b), rtol=1e-10)
    turned = np.moveaxis(a.reshape(2, 3, 2, 3), 2, 0)
    close(ldiv.tensorsolve(turned, b, (0,)), np.linalg.tensorsolve(turned, b, (0,)), rtol=1e-10)
    close(ldiv.tensorinv(a), np.linalg.tensorinv(a), rtol=1e-10)
    close(ldiv.tensorinv(a.reshape(6, 3, 2), 1), np.linalg.tensorinv(a.reshape(6, 3, 2), 1))
    checked(ldiv.tensorsolve, a, b)
    checked(ldiv.tensorinv, a)
    with pytest.raises(ValueError, match="a: expected rows"):
        ldiv.tensorsolve(a, b[0])
    with pytest.raises(ValueError, match="a: expected rows"):
        ldiv.tensorinv(a, 1)


@pytest.mark.covering(0)
@pytest.mark.parametrize("hermitian", [True, False])
def test_ldl_factor_and_solve(hermitian):
    for x in (A, Z, 10 * np.eye(5) + A, np.stack([Z, Z * 2 + 3]), np.zeros((1, 1)) + 3):
        turned = x.conj() if hermitian else x
        s = x + np.swapaxes(turned, -1, -2)
        s[..., 0, 0] = s[..., -1, -1] = 0  # blocks of size 2
        if s.shape[-1] == 1:
            s = s + 1
        b = rng.standard_normal((s.shape[-1], 3))
        found = ldiv.ldl_solve(*ldiv.ldl_factor(s, hermitian=hermitian), b, hermitian=hermitian)
        close(found, np.linalg.solve(s, b + 0 * s[..., :1]), rtol=1e-9, atol=1e-10)
    close(ldiv.ldl_solve(*ldiv.ldl_factor(np.eye(3)), np.arange(3.0)), np.arange(3.0))

    def through(a, b):
        s = a + (a.mH if hermitian else a.mT)
        return ldiv.ldl_solve(*ldiv.ldl_factor(s, hermitian=hermitian), b, hermitian=hermitian)

    checked(through, Z, Z[:, :2])
    with pytest.raises(ValueError, match="pivots: expected shape"):
        ldiv.ldl_solve(A, np.arange(3), A)
    exchanged = torch.tensor([[0.0, 0.0, 1.0], [0.0, 2.0, 0.0], [1.0, 0.0, 0.0]])
    with pytest.raises(ValueError, match=r"a permutation.*torch\.linalg\.ldl_factor"):
        ldiv.ldl_solve(*torch.linalg.ldl_factor(exchanged), torch.ones(3))


def test_householder_product():
    for x in (B[0].T, B[0].T + 1j * B[1].T):
        packed, tau = scipy.linalg.qr(x, mode="raw")[0]
        q = ldiv.householder_product(np.ascontiguousarray(packed), tau)
        close(q, scipy.linalg.qr(x, mode="economic")[0], atol=1e-12)
        few = torch.linalg.householder_product(torch.tensor(packed), torch.tensor(tau[:2]))
        close(
            ldiv.householder_product(torch.tensor(packed), torch.tensor(tau[:2])), few, atol=1e-12
        )
    checked(ldiv.householder_product, B[0].T, B[0, 0, :3])
    with pytest.raises(ValueError, match="A and tau: expected m >= n >= k"):
        ldiv.householder_product(B[0], B[0, 0, :3])


def test_names_with_a_number():
    p = A @ A.T + np.eye(5)
    for upper in (False, True):
        L, info = ldiv.cholesky_ex(np.stack([p, 2 * p]), upper=upper)
        expected = torch.linalg.cholesky_ex(torch.tensor(np.stack([p, 2 * p])), upper=upper)
        close(L, expected[0], rtol=1e-10, atol=1e-12)
        close(info, expected[1])
    close(ldiv.inv_ex(A)[0], np.linalg.inv(A), rtol=1e-9)
    for left, b in ((True, A[0]), (True, A[:, :2]), (False, A[:2])):
        found, info = ldiv.solve_ex(torch.tensor(A), torch.tensor(b), left=left)
        expected = torch.linalg.solve_ex(torch.tensor(A), torch.tensor(b), left=left)
        close(found, expected[0], rtol=1e-9, atol=1e-12)
        assert info == expected[1] and info.dtype == torch.int32
    with pytest.raises(ldiv.SingularMatrixError):
        ldiv.inv_ex(np.ones((2, 2)))
    with pytest.raises(ValueError, match="B: expected a block"):
        ldiv.solve_ex(A, A[0], left=False)


@pytest.mark.parametrize("to", [np.asarray, torch.tensor, jnp.asarray])
def test_info_tells_which_members_are_nan(to):
    """The members are those of PyTorch without check_errors, where errstate lets nothing raise."""
    a = np.stack([np.eye(2), np.ones((2, 2)), 2 * np.eye(2)])
    expected = torch.linalg.inv_ex(torch.tensor(a)).info > 0
    with ldiv.errstate(singular="nan"):
        found = [
            ldiv.inv_ex(to(a)),
            ldiv.solve_ex(to(a), to(np.ones((2, 1)))),
            ldiv.solve_ex(to(a), to(np.ones(2))),
            ldiv.solve_ex(to(a), to(np.ones((1, 2))), left=False),
            ldiv.cholesky_ex(to(a - 1e-3 * np.eye(2))),
        ]
    for x, info in found:
        assert str(info.dtype).endswith("int32")
        np.testing.assert_array_equal(np.asarray(info), expected)
        np.testing.assert_array_equal(np.isnan(np.asarray(x)).reshape(3, -1).all(1), expected)
    with pytest.raises(ldiv.SingularMatrixError):
        ldiv.solve_ex(to(a), to(np.ones(2)))
