"""Functions of ldiv in graphs of PyTensor: numbers and derivatives, by each of its linkers."""

from __future__ import annotations

import doctest
import importlib
import pickle

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
import scipy.sparse as sp
from mpmath import mp

import ldiv
import ldiv.pytensor
from ldiv.pytensor import SparseArray, gaussian_logpdf, logdet, solve

RNG = np.random.default_rng(0)
pytestmark = [
    pytest.mark.filterwarnings("ignore:Numba will use object mode"),
    pytest.mark.filterwarnings("ignore:.*does not allow us to add an extra error message"),
    pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS"),
    pytest.mark.filterwarnings("ignore:Skipping Assert"),
]
MODES = ("FAST_COMPILE", "NUMBA", "JAX")
GENERAL = sp.csc_array(np.array([[2.0, 1, 0, 0], [0, 3, 1, 0], [1, 0, 4, -1], [0, 0.5, 0, 1]]))
POSITIVE = sp.coo_array(np.array([[4.0, 1, 0, 0], [1, 3, -1, 0], [0, -1, 5, 2], [0, 0, 2, 6]]))


@pytest.fixture(autouse=True)
def _nothing_is_compiled():
    """Run in Python what names no linker."""
    with pytensor.config.change_flags(mode="FAST_COMPILE"):
        yield


def grid(size):
    line = sp.diags_array(
        [np.full(size, 2.1), -np.ones(size - 1), -np.ones(size - 1)], offsets=[0, 1, -1]
    )
    return sp.kronsum(line, line).tocoo()


def dense(A, values):
    full = pt.zeros(A.shape)
    return pt.set_subtensor(full[A.row, A.col], values)


def numbers(found):
    return [np.asarray(x) for x in found]


def differences(f, at, direction, h=1e-6):
    return (f(at + h * direction) - f(at - h * direction)) / (2 * h)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("pattern", "assume_a"), [(GENERAL, "gen"), (POSITIVE, "pos")])
@pytest.mark.parametrize("columns", [(), (2,)])
def test_solve(mode, pattern, assume_a, columns):
    """The solution, its gradient, and the gradient of a function of that."""
    values, b = pt.dvector(), (pt.dmatrix if columns else pt.dvector)()
    A = SparseArray(pattern, values)
    at = pattern.data, RNG.standard_normal((4, *columns))
    x = solve(A, b, assume_a=assume_a)
    full = dense(A, (values + values[transposed(A)]) / 2 if assume_a == "pos" else values)
    expected = pt.linalg.inv(full) @ b
    found = pytensor.function([values, b], derivatives(x, values, b), mode=mode)(*at)
    theirs = pytensor.function([values, b], derivatives(expected, values, b))(*at)
    for one, other in zip(found, theirs, strict=True):
        np.testing.assert_allclose(np.asarray(one), other, rtol=1e-11, atol=1e-13)


def transposed(A):
    """Find the entry (col, row) for each entry (row, col) of a symmetric pattern."""
    place = {pair: e for e, pair in enumerate(zip(A.row, A.col, strict=True))}
    return np.array([place[j, i] for i, j in zip(A.row, A.col, strict=True)])


def derivatives(x, values, b):
    """The value, the gradient of the sum of cubes, and that of the squares of this gradient."""
    gradient = pytensor.grad((x**3).sum(), [values, b])
    second = pytensor.grad(sum((g**2).sum() for g in gradient), [values, b])
    return [x, *gradient, *second]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("pattern", "assume_a"), [(GENERAL, "gen"), (POSITIVE, "sym"), (POSITIVE, "pos")]
)
def test_logdet(mode, pattern, assume_a):
    """Against 50 digits: the determinant, G = A^-T, and -A^-T E^T A^-T along E."""
    values, e = pt.dvector(), pt.dvector()
    A = SparseArray(pattern, values)
    size = logdet(A, assume_a=assume_a)
    gradient = pytensor.grad(size, values)
    curvature = pytensor.grad((gradient * e).sum(), values)
    f = pytensor.function([values, e], [size, gradient, curvature], mode=mode)
    move = RNG.standard_normal(pattern.nnz)
    if assume_a != "gen":
        move = move + move[transposed(A)]
    with mp.workdps(50):
        M, E = mp.matrix(pattern.toarray().tolist()), mp.zeros(4)
        for i, j, x in zip(A.row, A.col, move, strict=True):
            E[int(i), int(j)] = x
        Z = M**-1
        turned = -(Z * E * Z)
        exact = [float(mp.log(mp.det(M)))]
        exact += [
            [float(X[int(j), int(i)]) for i, j in zip(A.row, A.col, strict=True)]
            for X in (Z, turned)
        ]
    for x, y in zip(f(pattern.data, move), exact, strict=True):
        np.testing.assert_allclose(np.asarray(x), y, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("mode", MODES)
def test_gaussian_logpdf(mode):
    """Against the dense density, for one point and for several."""
    values, x, m = pt.dvector(), pt.dmatrix(), pt.dvector()
    A = SparseArray(POSITIVE, values)
    logp = gaussian_logpdf(x, precision=A, mean=m)
    f = pytensor.function(
        [values, x, m], [logp, *pytensor.grad(logp.sum(), [values, x, m])], mode=mode
    )
    at = POSITIVE.data, RNG.standard_normal((3, 4)), RNG.standard_normal(4)
    Q, d = POSITIVE.toarray(), at[1] - at[2]
    found = numbers(f(*at))
    expected = np.linalg.slogdet(Q)[1] / 2 - ((d @ Q) * d).sum(1) / 2 - 2 * np.log(2 * np.pi)
    np.testing.assert_allclose(found[0], expected, rtol=1e-13)
    G = 3 * np.linalg.inv(Q) / 2 - d.T @ d / 2
    np.testing.assert_allclose(found[1], G[A.row, A.col], rtol=1e-12)
    np.testing.assert_allclose(found[2], -d @ Q, rtol=1e-12)
    np.testing.assert_allclose(found[3], (d @ Q).sum(0), rtol=1e-12)
    one = gaussian_logpdf(at[1][0], precision=SparseArray(POSITIVE, POSITIVE.data)).eval()
    law = ldiv.gaussian_logpdf(at[1][0], precision=ldiv.asarray(POSITIVE))
    np.testing.assert_allclose(one, law, rtol=1e-14)


@pytest.mark.parametrize("mode", MODES)
def test_one_factorization(mode):
    """A value and its gradient, of all functions of one matrix; second derivatives add none, but
    in JAX, whose compiled factor has none.
    """
    Q = grid(12)
    values, b = pt.dvector(), pt.dvector()
    A = SparseArray(Q, values)
    loss = gaussian_logpdf(b, precision=A) + solve(A, b, assume_a="pos").sum()
    found = [loss, *pytensor.grad(loss, [values, b])]
    if mode != "JAX":
        found.append(pytensor.grad(found[1].sum(), values))
    f = pytensor.function([values, b], found, mode=mode)
    numbers(f(Q.data, np.ones(144)))
    before = ldiv.cache_info().factorizations
    numbers(f(1.5 * Q.data, np.ones(144)))
    assert ldiv.cache_info().factorizations == before + 1


def test_differences():
    """Compare with differences, in a direction of the parameters of a grid."""
    Q = grid(8)
    off = Q.row != Q.col
    theta, x = pt.dvector(), RNG.standard_normal(64)
    values = theta[0] * pt.where(off, -theta[1], 4.0 + theta[2])
    logp = gaussian_logpdf(x, precision=SparseArray(Q, values))
    gradient = pytensor.grad(logp, theta)
    f, g = (pytensor.function([theta], y) for y in (logp, gradient))
    hessian = pytensor.function([theta], pytensor.gradient.hessian(logp, theta))
    at, along = np.array([1.3, 0.9, 0.4]), np.array([0.3, -0.2, 0.5])
    np.testing.assert_allclose(g(at) @ along, differences(f, at, along), rtol=1e-7)
    np.testing.assert_allclose(hessian(at) @ along, differences(g, at, along), rtol=1e-7)


def test_values_that_are_overwritten():
    """PyTensor writes to its own arrays: a factor never answers for numbers that have gone."""
    Q = grid(5)
    values = pytensor.shared(Q.data.copy())
    f = pytensor.function([], logdet(SparseArray(Q, values)), updates={values: 2 * values})
    steps = np.diff([f() for _ in range(4)])
    np.testing.assert_allclose(steps, 25 * np.log(2), rtol=1e-13)
    kept = values.get_value(borrow=True)
    kept[:] = Q.data
    assert f() == pytest.approx(np.linalg.slogdet(Q.toarray())[1])


@pytest.mark.parametrize("mode", ["FAST_COMPILE", "NUMBA"])
def test_matrices_that_are_not_positive_definite(mode):
    values = pt.dvector()
    size = logdet(SparseArray(POSITIVE, values))
    f = pytensor.function([values], [size, pytensor.grad(size, values)], mode=mode)
    with pytest.raises(ldiv.NotPositiveDefiniteError, match="Likely causes"):
        f(-POSITIVE.data)
    with ldiv.errstate(singular="nan"):
        assert all(np.isnan(x).all() for x in f(-POSITIVE.data))
    skew = POSITIVE.data.copy()
    skew[1] += 1
    with pytest.raises(ldiv.NotSymmetricError):
        f(skew)
    assert np.isfinite(f(POSITIVE.data)[0])


def test_in_jax_errors_are_raised_too():
    values = pt.dvector()
    f = pytensor.function([values], logdet(SparseArray(POSITIVE, values)), mode="JAX")
    with pytest.raises((ValueError, RuntimeError), match="positive definite"):
        np.asarray(f(-POSITIVE.data))


def test_small_and_single():
    none = SparseArray(sp.csr_array((0, 0)), np.zeros(0))
    assert logdet(none).eval() == gaussian_logpdf(np.zeros(0), precision=none).eval() == 0.0
    assert solve(none, np.zeros(0)).eval().shape == (0,)
    one = SparseArray(sp.csr_array(np.array([[1.0]])), np.array([2.0], dtype="float32"))
    assert logdet(one).eval().dtype == solve(one, np.ones(1, "float32")).eval().dtype == "float32"
    assert solve(one, [4]).eval() == 2.0
    with pytest.raises(ldiv.SingularMatrixError):
        solve(SparseArray(sp.csr_array(np.eye(1)), np.zeros(1)), np.ones(1)).eval()


@pytest.mark.parametrize("kind", ["coo", "csr", "csc", "dia", "transposed"])
def test_order_of_the_pattern(kind):
    """The values are in the order of the pattern's own."""
    pattern = ldiv.asarray(GENERAL).T if kind == "transposed" else GENERAL.asformat(kind)
    own = ldiv.asarray(pattern)
    A = SparseArray(pattern, own.data)
    full = np.zeros((4, 4))
    full[A.row, A.col] = own.data
    np.testing.assert_array_equal(full, own.toarray())
    np.testing.assert_allclose(full @ solve(A, np.ones(4)).eval(), np.ones(4), rtol=1e-13)


def test_operations_are_pickled_and_merged():
    values = pt.dvector()
    first, second = (logdet(SparseArray(POSITIVE, values)) for _ in range(2))
    op = first.owner.op
    again = pickle.loads(pickle.dumps(op))
    assert op == second.owner.op == again and hash(op) == hash(again)
    assert str(op) == "ldiv.LogDet{4 x 4, 10 entries, pos}"
    f = pytensor.function([values], first + second)
    assert sum(type(node.op) is type(op) for node in f.maker.fgraph.apply_nodes) == 1


BAD = {
    "a matrix": lambda v: solve(GENERAL, np.ones(4)),
    "too long": lambda v: solve(SparseArray(GENERAL, v), np.ones(5)),
    "complex": lambda v: solve(SparseArray(GENERAL, v), 1j * np.ones(4)),
    "a promise": lambda v: solve(SparseArray(GENERAL, v), np.ones(4), assume_a="upper triangular"),
    "not square": lambda v: SparseArray(GENERAL[:2], v),
    "twice": lambda v: SparseArray(sp.coo_array(([1.0, 1.0], ([0, 0], [0, 0]))), v),
    "too few": lambda v: SparseArray(GENERAL, np.ones(3)),
    "complex values": lambda v: SparseArray(GENERAL, 1j * np.ones(9)),
    "a number": lambda v: gaussian_logpdf(1.0, precision=SparseArray(GENERAL, v)),
    "other points": lambda v: gaussian_logpdf(np.ones(3), precision=SparseArray(GENERAL, v)),
}


@pytest.mark.parametrize("bad", BAD)
def test_bad_calls(bad):
    with pytest.raises((TypeError, ValueError), match="expected"):
        BAD[bad](pt.dvector())


def test_third_derivatives_are_refused():
    values, e = pt.dvector(), np.ones(POSITIVE.nnz)
    f = logdet(SparseArray(POSITIVE, values))
    for _ in range(2):
        f = (pytensor.grad(f, values) * e).sum()
    with pytest.raises(pytensor.gradient.NullTypeGradError, match="third derivatives"):
        pytensor.grad(f, values)


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_pymc():
    """The density is that of PyMC's MvNormal and CAR, and a model with it is sampled."""
    pm = pytest.importorskip("pymc", reason="no pymc: make test-pytensor")
    W = (grid(5) < 0).astype(float).toarray()
    phi, alpha, tau = RNG.standard_normal(25), 0.8, 1.7
    pattern = (sp.coo_array(W) + sp.eye_array(25)).tocoo()
    degree = W.sum(1)[pattern.row]

    def prior(x, alpha, tau):
        values = tau * pt.where(pattern.row == pattern.col, degree, -alpha)
        return gaussian_logpdf(x, precision=SparseArray(pattern, values))

    ours, other = (prior(phi, a, tau).eval() for a in (alpha, 0.3))
    full = pm.MvNormal.dist(np.zeros(25), tau=tau * (np.diag(W.sum(1)) - alpha * W))
    np.testing.assert_allclose(ours, pm.logp(full, phi).eval(), rtol=1e-12)
    # PyMC leaves out what does not depend on alpha and tau
    car = [pm.logp(pm.CAR.dist(np.zeros(25), W, a, tau), phi).eval() for a in (alpha, 0.3)]
    np.testing.assert_allclose(ours - other, car[0] - car[1], rtol=1e-10)
    with pm.Model():
        scale = pm.Gamma("scale", 2, 1)
        x = pm.CustomDist("x", alpha, scale, logp=prior, shape=25)
        pm.Normal("y", x, 0.5, observed=phi)
        sizes = {"draws": 20, "tune": 20, "chains": 1, "cores": 1}
        trace = pm.sample(
            **sizes, random_seed=0, progressbar=False, compute_convergence_checks=False
        )
    assert np.isfinite(trace.posterior["x"].values).all()
    assert trace.sample_stats["diverging"].values.mean() < 0.2


@pytest.mark.parametrize("name", ["functions", "matrix"])
def test_docstrings(name):
    options = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    tried = doctest.testmod(importlib.import_module(f"ldiv.pytensor.{name}"), optionflags=options)
    assert tried.attempted and not tried.failed
