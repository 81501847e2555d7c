"""HIPS autograd: rules and functions, in every mode, against complex steps, differences of NumPy's
own first derivatives, and autograd's own functions.
"""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp

import ldiv

autograd = pytest.importorskip("autograd")
anp = pytest.importorskip("autograd.numpy")

rng = np.random.default_rng(5)
n = 6
S = sp.csr_array(
    np.diag(np.arange(3.0, 3 + n)) + np.diag(np.ones(n - 1), 1) + np.diag(np.ones(n - 1), -1)
)
A, b, w = rng.standard_normal((n, n)) + n * np.eye(n), rng.standard_normal(n), np.arange(1.0, n + 1)


def _sparse(v):
    return ldiv.csr_array((v, S.indices, S.indptr), shape=S.shape)


OF_ENTRIES = {
    "solve": lambda v: anp.sum(w * ldiv.solve(2 * _sparse(v), b) ** 2),
    "slogdet": lambda v: ldiv.slogdet(_sparse(v))[1] ** 2,
    "eigsh": lambda v: ldiv.eigsh(_sparse(v), 2, sigma=0.0)[0][0] ** 2,
    "cg": lambda v: anp.sum(w * ldiv.cg(_sparse(v), b, rtol=1e-13)[0] ** 2),
    "product": lambda v: anp.sum(w * (_sparse(v) @ b) ** 2),
    "inv": lambda v: anp.sum(w * ldiv.inv(_sparse(v).toarray())),
    "lstsq": lambda v: anp.sum(ldiv.lstsq(_sparse(v).toarray()[:, :3], b)[0] ** 2),
    "svd": lambda v: anp.sum(ldiv.svd(_sparse(v).toarray())[1] ** 3),
    "cholesky": lambda v: anp.sum(w * ldiv.cholesky(_sparse(v).toarray())),
    "selected_inverse": lambda v: anp.sum(ldiv.selected_inverse(_sparse(v)).data),
    "factorized": lambda v: anp.sum(w * ldiv.factorized(_sparse(v)).solve(b) ** 2),
    "expm_multiply": lambda v: anp.sum(w * ldiv.expm_multiply(0.1 * _sparse(v), b)),
    "root": lambda v: anp.sum(
        ldiv.root(lambda x, p: x**3 + x - p, np.ones(n), v[:n], pattern=(range(n), range(n))) ** 2
    ),
    "operator": lambda v: anp.sum(
        w * ldiv.gmres(ldiv.LinearOperator(_rows, v[:n], shape=(n, n)), b, rtol=1e-13)[0] ** 2
    ),
}


def _rows(p, x):
    return p[:, None] * x + 0.1 * anp.sum(x, axis=0)


@pytest.mark.parametrize("name", OF_ENTRIES)
def test_every_mode(name):
    f, v = OF_ENTRIES[name], np.array(S.data)
    d = np.random.default_rng(1).standard_normal(len(v))
    gradient = autograd.grad(f)
    g, tangent = gradient(v), autograd.make_jvp(f)(v)(d)[1]
    h = 1e-4
    coarse, fine = ((f(v + s * d) - f(v - s * d)) / (2 * s) for s in (h, h / 2))
    expected = (4 * fine - coarse) / 3
    assert abs(g @ d - expected) < 1e-8 * max(1, abs(expected))
    assert abs(tangent - expected) < 1e-8 * max(1, abs(expected))
    product = autograd.hessian_vector_product(f)(v, d)
    coarse, fine = ((gradient(v + s * d) - gradient(v - s * d)) / (2 * s) for s in (h, h / 2))
    assert np.allclose(product, (4 * fine - coarse) / 3, atol=1e-7 * max(1, abs(product).max()))
    forward = autograd.make_jvp(lambda v: autograd.make_jvp(f)(v)(d)[1])(v)(d)[1]
    assert np.isclose(forward, product @ d, rtol=1e-9, atol=1e-9)


def test_complex_gradients_are_those_of_autograd():
    C = A + 1j * rng.standard_normal((n, n))

    def loss(solve):
        return lambda C: anp.sum(w * anp.abs(solve(C, b + 0j)) ** 2)

    ours, theirs = (autograd.grad(loss(f))(C) for f in (ldiv.solve, anp.linalg.solve))
    assert np.allclose(ours, theirs, rtol=1e-12)


def test_real_and_complex_together():
    C = np.diag(np.arange(1, n + 1) * 1j)

    def f(v):
        return anp.sum(anp.abs((ldiv.kron(C, _sparse(v)) @ np.arange(1.0, n * n + 1)) ** 2))

    v, h = np.array(S.data), 1e-6
    g = autograd.grad(f)(v)
    assert g.dtype == float
    d = np.arange(len(v)) % 3 - 1.0
    assert np.isclose(g @ d, (f(v + h * d) - f(v - h * d)) / (2 * h), rtol=1e-7)


def test_functions_of_numpy_arrays():
    def f(A, b):
        return ldiv.solve(2 * A, b)

    y, pull = ldiv.vjp(f, A, b)
    u = np.linalg.solve(2 * A.T, w)
    assert np.allclose(pull(w)[1], u)
    assert np.allclose(pull(w)[0], -2 * np.outer(u, y))
    assert np.allclose(ldiv.jvp(f, (A, b), (None, w))[1], np.linalg.solve(2 * A, w))
    assert ldiv.gradcheck(f, A, b)
    of_matrix = ldiv.vjp(lambda S, b: ldiv.solve(2 * S, b), S, b)[1](w)[0]
    assert type(of_matrix) is ldiv.SparseArray

    def g(x):
        return anp.sin(x) * x[::-1]

    x = rng.standard_normal(4)
    J = np.diag(np.cos(x) * x[::-1]) + np.fliplr(np.diag(np.sin(x)))
    assert np.allclose(ldiv.jacobian(g, x), J)
    places = ([0, 0, 1, 1, 2, 2, 3, 3], [0, 3, 1, 2, 2, 1, 3, 0])
    assert np.allclose(ldiv.jacobian(g, x, pattern=places).toarray(), J)
    H = np.diag(2 * np.cos(2 * x))
    assert np.allclose(ldiv.hessian(lambda x: anp.sum(anp.sin(x) ** 2), x), H)
    assert np.allclose(ldiv.hvp(lambda x: anp.sum(anp.sin(x) ** 2), x, x), H @ x)


SPD = A @ A.T + n * np.eye(n)
L = np.linalg.cholesky(SPD)
OF_SEVERAL_RULES = {
    "quad_form": (ldiv.quad_form, SPD, b),
    "logdet of a sparse matrix": (ldiv.logdet, ldiv.asarray(S)),
    "trace_solve of sparse matrices": (ldiv.trace_solve, ldiv.asarray(S), ldiv.asarray(S)),
    "inverse_diagonal": (ldiv.inverse_diagonal, ldiv.asarray(S)),
    "gaussian_logpdf": (ldiv.gaussian_logpdf, b, L),
    "gaussian_kl": (ldiv.gaussian_kl, L, np.eye(n)),
    "solve_sylvester": (ldiv.solve_sylvester, SPD, A, A),
    "solve_discrete_lyapunov": (ldiv.solve_discrete_lyapunov, A / 20, SPD),
    "solve_toeplitz": (ldiv.solve_toeplitz, 9.0 / np.arange(1.0, 1 + n) ** 2, b),
    "cond": (ldiv.cond, A),
    "lstsq": (lambda a, b: ldiv.lstsq(a, b).x, A[:, :3], b),
    "subspace_angles": (ldiv.subspace_angles, A[:, :2], A[:, 3:]),
    "rq": (lambda a: ldiv.rq(a)[0], A),
    "numpy's own": (lambda a, b: np.sum(np.sin(ldiv.solve(2 * a, b))), A, b),
}


@pytest.mark.parametrize("name", OF_SEVERAL_RULES)
def test_functions_of_ldiv_that_apply_several_rules(name):
    """The pullback along a direction is the central difference."""
    f, *args = OF_SEVERAL_RULES[name]
    draw = np.random.default_rng(2).standard_normal

    def moved(t):
        return [
            a.with_data(a.data + t * d.data) if isinstance(a, ldiv.SparseArray) else a + t * d
            for a, d in zip(args, along, strict=True)
        ]

    along = [
        a.with_data(draw(a.nnz)) if isinstance(a, ldiv.SparseArray) else draw(a.shape) for a in args
    ]
    along = [np.tril(d) if a is L else d for a, d in zip(args, along, strict=True)]
    y, pull = ldiv.vjp(f, *args)
    cotangent = draw(np.shape(y))
    slope = sum(
        np.vdot(getattr(bar, "data", bar), getattr(d, "data", d))
        if isinstance(bar, ldiv.SparseArray)
        else np.vdot(bar, d)
        for bar, d in zip(pull(cotangent), along, strict=True)
    )
    h = 1e-5
    difference = np.vdot(cotangent, (f(*moved(h)) - f(*moved(-h))) / (2 * h))
    assert np.isclose(slope, difference, rtol=1e-6, atol=1e-8)
    assert np.isclose(np.vdot(cotangent, ldiv.jvp(f, tuple(args), tuple(along))[1]), slope)


def test_what_loses_the_recorded_numbers_is_refused_as_without_it():
    with pytest.raises(ValueError, match=r"autograd\.numpy") as refused:
        ldiv.vjp(lambda A: ldiv.solve(A, b) * float(ldiv.logdet(A)), SPD)
    assert isinstance(refused.value.__cause__, TypeError)


INSTALLED = """
import sys
import ldiv, numpy as np
assert ldiv.vjp(ldiv.solve, np.eye(2), np.ones(2))[1](np.ones(2))[1].sum() == 2
assert "autograd" not in sys.modules
assert ldiv.vjp(ldiv.quad_form, np.eye(2), np.ones(2))[1](1.0)[1].sum() == 4
"""


def test_it_is_imported_when_it_is_needed():
    subprocess.run([sys.executable, "-c", INSTALLED], check=True, timeout=60)


def test_a_tape_is_not_rewritten():
    y, pull = ldiv.vjp(lambda A, b: ldiv.solve(2 * A, b), M := A.copy(), b)
    before = pull(w)[0]
    M[:] = 0
    y[:] = 0
    assert np.array_equal(pull(w)[0], before)


def test_what_is_closed_over_is_refused():
    def f(q):
        return anp.sum(ldiv.root(lambda x, p: x**2 - p * q, np.ones(2), np.array([4.0, 9.0])))

    with pytest.raises(ValueError, match="closure over an array"):
        autograd.grad(f)(np.ones(2))


def test_constants_beside_it():
    f = autograd.grad(lambda b: anp.sum(w * ldiv.solve(A, b)))
    assert np.allclose(f(b), np.linalg.solve(A.T, w))
    f = autograd.grad(lambda b: anp.sum(w * ldiv.solve(S, b)))
    assert np.allclose(f(b), np.linalg.solve(S.toarray().T, w))


WITHOUT = """
import sys
class Absent:
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] == "autograd":
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Absent)
import ldiv, numpy as np
A, b = np.eye(2), np.ones(2)
for f in (lambda A, b: ldiv.solve(2 * A, b), lambda A, b: 2 * ldiv.solve(A, b)):
    try:
        ldiv.vjp(f, A, b)
    except ValueError as error:
        assert "autograd.numpy" in str(error) and "pullback" in str(error), error
        assert "copies" not in str(error), error
    else:
        raise AssertionError
try:
    ldiv.jacobian(np.sin, b)
except ValueError as error:
    assert "autograd.numpy" in str(error), error
else:
    raise AssertionError
"""


def test_without_it_both_ways_are_named():
    subprocess.run([sys.executable, "-c", WITHOUT], check=True, timeout=60)


def test_derivatives_of_no_unknowns():
    none = np.zeros(0)
    assert ldiv.hessian(lambda x: anp.sum(x**4), none).shape == (0, 0)
    assert ldiv.jacobian(lambda x: x**2, none).shape == (0, 0)
    assert ldiv.jacobian(lambda x: anp.concatenate([x, anp.ones(2)]), none).shape == (2, 0)
