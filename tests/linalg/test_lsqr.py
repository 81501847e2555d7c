"""LSQR and LSMR: values beside dense least squares and SciPy's, derivatives in A, b and damp."""

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as spl

import ldiv

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")
jax.config.update("jax_enable_x64", True)
BOTH = pytest.mark.parametrize("solve", [ldiv.lsqr, ldiv.lsmr])
rng = np.random.default_rng(5)
S = (sp.random_array((90, 40), density=0.1, rng=rng) + sp.eye_array(90, 40)).tocsr()
b = rng.standard_normal(90)


def leaf(x):
    return torch.tensor(np.asarray(x), requires_grad=True)


def damped(A, b, d):
    return np.linalg.solve(A.conj().T @ A + d**2 * np.eye(A.shape[1]), A.conj().T @ b)


@BOTH
def test_values(solve):
    dense = S.toarray()
    for A in (S, dense, S.tocsc()):
        np.testing.assert_allclose(solve(A, b)[0], np.linalg.lstsq(dense, b)[0], atol=1e-8)
        np.testing.assert_allclose(solve(A, b, damp=0.3)[0], damped(dense, b, 0.3), atol=1e-8)
    wide = dense.T
    x, info = solve(wide, b[:40])
    np.testing.assert_allclose(x, np.linalg.lstsq(wide, b[:40])[0], atol=1e-8)
    assert info == 0
    np.testing.assert_allclose(solve(wide, b[:40], 0.3)[0], damped(wide, b[:40], 0.3), atol=1e-8)
    np.testing.assert_allclose(x, getattr(spl, solve.__name__)(wide, b[:40])[0], atol=1e-4)
    block = np.stack([b, 0 * b, 1e-200 * b], -1)
    x = solve(S, block)[0]
    np.testing.assert_array_equal(x[:, 1], 0)
    np.testing.assert_allclose(x[:, 2] * 1e200, x[:, 0], atol=1e-8)
    single = solve(S.astype(np.float32), b.astype(np.float32))[0]
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, x[:, 0], atol=1e-3)


@pytest.mark.covering(0)
@BOTH
@pytest.mark.parametrize("dtype", [complex, float])
def test_derivatives(solve, dtype):
    A = rng.standard_normal((6, 3)).astype(dtype)
    c = rng.standard_normal(6).astype(dtype)
    if dtype is complex:
        A, c = A + 1j * rng.standard_normal(A.shape), c + 1j * rng.standard_normal(6)
    a, c, d = leaf(A), leaf(c), leaf(0.7)
    for f, args in (
        (lambda a, c: solve(a, c)[0], (a, c)),
        (lambda a, c: solve(a.mT, c[:3])[0], (a, c)),
        (lambda a, c, d: solve(a, c, d)[0], (a, c, d)),
        (lambda a, c, d: solve(a.mT, c[:3], d)[0], (a, c, d)),
    ):
        assert torch.autograd.gradcheck(f, args, check_forward_ad=True)
        assert torch.autograd.gradgradcheck(f, args)


def first(f):
    return jax.grad(f, argnums=(0, 1))


def second(f):
    return first(lambda v, d: jax.grad(f, argnums=1)(v, d))


@pytest.mark.exhaustive
def test_sparse_in_jax():
    """The gradient of a sparse matrix, compiled, beside that of the normal equations."""
    A, rhs = ldiv.asarray(S), jax.numpy.asarray(b)
    rows, cols = A.row, A.col

    def ours(v, d):
        return (ldiv.lsmr(A.with_data(v), rhs, d)[0] ** 2).sum()

    def theirs(v, d):
        dense = jax.numpy.zeros(S.shape).at[rows, cols].add(v)
        normal = dense.T @ dense + d**2 * jax.numpy.eye(40)
        return (jax.numpy.linalg.solve(normal, dense.T @ rhs) ** 2).sum()

    v = jax.numpy.asarray(A.data)
    for order in (first, second):
        found, expected = jax.jit(order(ours))(v, 0.3), order(theirs)(v, 0.3)
        for x, y in zip(found, expected, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-6, atol=1e-7 * abs(y).max())
    many = jax.vmap(lambda c: ldiv.lsqr(A.with_data(v), c)[0])(jax.numpy.stack([rhs, 2 * rhs]))
    np.testing.assert_allclose(many[1], 2 * many[0], rtol=1e-8)


@BOTH
def test_operators(solve):
    a, c = leaf(rng.standard_normal((7, 4))), leaf(rng.standard_normal(7))

    def of_operator(a, c):
        op = ldiv.LinearOperator(lambda p, x: p @ x, a, shape=(7, 4), rmatvec=lambda p, y: p.mT @ y)
        return solve(op, c)[0]

    assert torch.autograd.gradcheck(of_operator, (a, c))
    wrong = ldiv.LinearOperator(
        lambda p, x: p @ x, a, shape=(7, 4), rmatvec=lambda p, y: 2 * (p.mT @ y)
    )
    with pytest.raises(ValueError, match="rmatvec"):
        solve(wrong, c)


@BOTH
@pytest.mark.parametrize(
    ("size", "of_b"), [(1e-150, 1), (1e150, 1), (1, 1e200), (1e-300, 1e-50), (1e290, 1e280)]
)
def test_all_units(solve, size, of_b):
    """The x of size A and of_b b is of_b / size times that of A and b, by every kind of A."""

    def operator(a):
        return ldiv.LinearOperator(
            lambda p, x: p @ x, a, shape=a.shape, rmatvec=lambda p, y: p.T @ y
        )

    dense = S.toarray()
    for A in (dense, dense.T):
        rhs = b[: A.shape[0]]
        expected = np.linalg.lstsq(A, rhs)[0]
        for kind in (np.asarray, sp.csr_array, operator):
            if (kind, A.shape[0], size) == (operator, 40, 1e-300):
                continue  # no leaf of an operator has a unit, in which y with x = A^H y had a place
            x = solve(kind(size * A), of_b * rhs)[0]
            np.testing.assert_allclose(x * size / of_b, expected, atol=1e-8)
        x = solve(size * A, of_b * rhs, M="jacobi")[0]
        np.testing.assert_allclose(x * size / of_b, expected, atol=1e-8)


@BOTH
def test_derivatives_in_far_units(solve):
    """b_bar = (s A)^-H x_bar, where (s A)^-1 b_bar has no place in the range; an x without one."""
    dense, weights = S.toarray(), rng.standard_normal(40)
    for A in (dense, dense.T):
        n = A.shape[1]
        c, w = torch.tensor(b[: A.shape[0]], requires_grad=True), np.resize(weights, n)
        x = solve(torch.tensor(1e-160 * A), c)[0]
        found = torch.autograd.grad((x * torch.tensor(w)).sum(), c)[0]
        np.testing.assert_allclose(1e-160 * found, np.linalg.pinv(A).T @ w, atol=1e-7)
        with pytest.raises(ldiv.LinAlgOverflowError, match="overflows"):
            solve(1e-200 * A, 1e200 * c.detach().numpy())


@BOTH
def test_dependent_columns(solve):
    """x is the shortest solution, as in SciPy; it has no derivative."""
    A = rng.standard_normal((8, 3)) @ rng.standard_normal((3, 5))
    c = rng.standard_normal(8)
    np.testing.assert_allclose(solve(A, c)[0], np.linalg.lstsq(A, c, rcond=1e-12)[0], atol=1e-8)
    x = solve(leaf(A), torch.tensor(c))[0]
    with pytest.raises(ldiv.SingularMatrixError, match="full rank"):
        (x * torch.arange(5.0)).sum().backward()


@BOTH
def test_what_is_refused(solve):
    hard = np.vander(np.linspace(0, 1, 30), 16)
    with pytest.raises(ldiv.ConvergenceError):
        solve(hard, b[:30], **{"iter_lim" if solve is ldiv.lsqr else "maxiter": 3})
    for bad in ({"damp": -1.0}, {"damp": np.ones(2)}, {"atol": -1.0}, {"b": b[:3]}):
        with pytest.raises(ValueError, match=f"{next(iter(bad))}: expected"):
            solve(**{"A": S, "b": b, **bad})
    with pytest.raises(ValueError, match="b: expected finite"):
        solve(S, b * np.nan)


@BOTH
def test_conlim_and_show(solve, capsys):
    """Every argument by SciPy's place; SciPy stops at conlim with reason 3 and some x."""
    theirs = getattr(spl, solve.__name__)
    places = (0.3, 1e-12, 1e-12, 1e6, 500, True)
    np.testing.assert_allclose(solve(S, b, *places)[0], theirs(S, b, *places)[0], rtol=1e-9)
    ours, scipys = capsys.readouterr().out.split("finished")[:2]
    assert "cond a" in ours.lower()
    assert "cond a" in scipys.lower()
    graded = S * 10.0 ** np.linspace(0, 4, 40)
    assert theirs(graded, b, conlim=100)[1] == 3
    with pytest.raises(ldiv.ConvergenceError, match="conlim too small"):
        solve(graded, b, conlim=100)
    # an x of this step that another stop would accept is none, either
    graded = np.diag(np.logspace(0, 10, 40))
    limit = {"lsqr": 1e8, "lsmr": 1e7}[solve.__name__]
    with pytest.raises(ldiv.ConvergenceError, match="conlim too small"):
        solve(graded, np.ones(40), atol=1e-12, btol=1e-12, conlim=limit)
    for conlim in (-1, None):
        with pytest.raises(ValueError, match="conlim: expected"):
            solve(S, b, conlim=conlim)


def test_variances_are_those_of_the_inverse():
    with pytest.raises(ValueError, match=r"calc_var: .*ldiv\.inverse_diagonal\(A\.T @ A\)"):
        ldiv.lsqr(S, b, calc_var=True)
    A = ldiv.asarray(S)
    exact = np.diag(np.linalg.inv((S.T @ S).toarray()))
    np.testing.assert_allclose(ldiv.inverse_diagonal(A.T @ A), exact, rtol=1e-9)
    assert (spl.lsqr(S, b, calc_var=True)[-1] < exact * (1 + 1e-9)).all()


def test_without_rows_or_columns():
    assert ldiv.lsqr(np.zeros((3, 0)), np.ones(3))[0].shape == (0,)
    np.testing.assert_array_equal(ldiv.lsqr(np.zeros((0, 2)), np.ones(0))[0], np.zeros(2))
    np.testing.assert_array_equal(ldiv.lsmr(np.zeros((3, 2)), np.ones(3))[0], np.zeros(2))


@BOTH
def test_a_preconditioner_from_the_right_and_a_start(solve):
    """Columns of size 1e-10 to 1e9: without M no step would lead there."""
    sizes = 10.0 ** np.linspace(-10, 9, 40)
    graded, x = sp.csr_array(S * sizes), np.linalg.lstsq(S.toarray(), b)[0]
    np.testing.assert_allclose(solve(graded, b, M="jacobi")[0] * sizes, x, rtol=1e-7)
    np.testing.assert_allclose(solve(graded.toarray(), b, M="jacobi")[0] * sizes, x, rtol=1e-7)
    R = ldiv.factorized(np.linalg.qr(graded.toarray())[1])
    np.testing.assert_allclose(solve(graded, b, M=R)[0] * sizes, x, rtol=1e-7)
    np.testing.assert_allclose(solve(S, b, x0=x + 1)[0], x, rtol=1e-7)
    with pytest.raises(ldiv.ConvergenceError):
        solve(S, b, 0.0, None, None, 0, 5)
    np.testing.assert_allclose(solve(S, b, 0.0, None, None, 0, 5, x0=x)[0], x, rtol=1e-7)
    A, v, side = ldiv.asarray(S), leaf(S.data), leaf(b)
    R = ldiv.factorized(np.linalg.qr(S.toarray())[1])
    for options in ({"M": "jacobi"}, {"M": R}, {"x0": x}):

        def f(v, side, options=options):
            return solve(A.with_data(v), side, 0.3, 1e-13, 1e-13, **options)[0]

        assert torch.autograd.gradcheck(f, (v, side), fast_mode=True, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(f, (v, side), fast_mode=True)
    np.testing.assert_allclose(
        jax.jit(lambda v: solve(A.with_data(v), b, M="jacobi")[0])(v.detach().numpy()), x
    )
    for wrong, words in (
        ({"M": "ilu"}, "M: expected one of 'jacobi'"),
        ({"M": np.eye(3)}, r"M: expected shape \(40, 40\)"),
        ({"M": "jacobi", "x0": x}, "x0: expected none with M"),
        ({"x0": x[1:]}, "x0: expected"),
    ):
        with pytest.raises(ValueError, match=words):
            solve(S, b, **wrong)
    for damp in (0.0, 0.3):
        with pytest.raises(ValueError, match="x0: expected none with a wide A"):
            solve(S.T, b[:40], damp, x0=b)


@BOTH
def test_a_preconditioner_of_a_wide_matrix(solve):
    """The preconditioner acts on A^H: rows of size 1e-10 to 1e9."""
    sizes = 10.0 ** np.linspace(-10, 9, 40)
    graded, c = sp.csr_array(S * sizes).T, rng.standard_normal(40)
    x, R = np.linalg.lstsq(S.toarray().T, c)[0], np.linalg.qr(graded.toarray().T)[1]
    for A in (graded, graded.toarray()):
        for M in ("jacobi", ldiv.factorized(R)):
            for damp in (0.0, 1e-20):
                np.testing.assert_allclose(solve(A, c * sizes, damp, M=M)[0], x, rtol=1e-6)
    A, v, side = ldiv.asarray(S), leaf(S.data), leaf(c)

    def f(v, side):
        return solve(A.with_data(v).T, side, 0.3, 1e-13, 1e-13, M="jacobi")[0]

    assert torch.autograd.gradcheck(f, (v, side), fast_mode=True, check_forward_ad=True)
    with pytest.raises(ValueError, match=r"M: expected shape \(40, 40\)"):
        solve(S.T, c, 0.3, M=np.eye(90))


@pytest.mark.parametrize("method", ["lsqr", "lsmr"])
def test_as_a_method_of_lstsq(method):
    w, block = rng.random(90) + 0.1, np.stack([b, 2 * b], -1)
    root = np.sqrt(w)[:, None]
    x, residues, rank, _ = ldiv.lstsq(S, block, weights=w, method=method)
    expected = np.linalg.lstsq(root * S.toarray(), root * block)
    np.testing.assert_allclose(x, expected[0], atol=1e-8)
    np.testing.assert_allclose(residues, expected[1])
    assert rank == 40
    whole = ldiv.kron(np.array([[1.0], [2.0]]), np.eye(45)[:, :20])
    c = ldiv.lstsq(whole, b, damp=0.3, method=method)
    np.testing.assert_allclose(c.x, damped(whole @ np.eye(20), b, 0.3), atol=1e-8)
    with pytest.raises(ValueError, match="cond: expected none with method"):
        ldiv.lstsq(S, b, cond=1e-3, method=method)
    np.testing.assert_allclose(ldiv.lstsq(whole, b, damp=0.3).x, c.x, atol=1e-8)
    circle = ldiv.block_array([[ldiv.circulant(np.arange(1.0, 46.0))]])
    with pytest.raises(TypeError, match="method='lsqr'"):
        ldiv.lstsq(circle, b[:45])
