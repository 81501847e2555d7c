"""Engines that iterate: right answers in about SciPy's number of steps, the options, and errors
that say how far it came.
"""

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as sla

import ldiv
from ldiv.core.frameworks.dispatch import frontend_of
from ldiv.engines import solve_log

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")
jnp = jax.numpy

jax.config.update("jax_enable_x64", True)

RNG = np.random.default_rng(0)
RTOL = 1e-8


def poisson(m):
    t = sp.diags_array([-np.ones(m - 1), 2 * np.ones(m), -np.ones(m - 1)], offsets=[-1, 0, 1])
    return sp.csr_array(sp.kron(t, sp.eye_array(m)) + sp.kron(sp.eye_array(m), t))


def convection(m):
    up = sp.diags_array([np.ones(m), -np.ones(m - 1)], offsets=[0, -1])
    return sp.csr_array(
        poisson(m) + 0.7 * sp.kron(up, sp.eye_array(m)) + 0.3 * sp.kron(sp.eye_array(m), up)
    )


def saddle():
    a, g = poisson(8), sp.random_array((10, 64), density=0.2, rng=1)
    return sp.csr_array(sp.block_array([[a, g.T], [g, -0.1 * sp.eye_array(10)]]))


def hermitian(m):
    twist = sp.diags_array([0.4j * np.ones(m * m - 1), -0.4j * np.ones(m * m - 1)], offsets=[1, -1])
    return sp.csr_array(poisson(m) + twist)


PROBLEMS = {
    "Poisson": (poisson(20), "pos", ("cg", "minres", "gmres", "bicgstab")),
    "convection": (convection(20), "gen", ("gmres", "bicgstab")),
    "saddle": (saddle(), "her", ("minres", "gmres")),
    "Hermitian": (
        hermitian(16) + 2 * sp.eye_array(256),
        "pos",
        ("cg", "minres", "gmres", "bicgstab"),
    ),
    "complex": (convection(16) + 0.5j * sp.eye_array(256), "gen", ("gmres", "bicgstab")),
}
RUNS = [
    pytest.param(a, promise, method, id=f"{name}-{method}")
    for name, (a, promise, methods) in PROBLEMS.items()
    for method in methods
]


def rhs(a, *k):
    b = RNG.standard_normal((a.shape[0], *k))
    return b + 1j * RNG.standard_normal(b.shape) if a.dtype.kind == "c" else b


@pytest.mark.parametrize(("a", "promise", "method"), RUNS)
def test_about_scipys_steps(a, promise, method):
    """Rounding moves the last steps of a recurrence that is not monotone: half as many again are
    allowed.
    """
    b, steps = rhs(a), []
    x, info = ldiv.solve(ldiv.asarray(a), b, assume_a=promise, method=method, rtol=RTOL, info=True)
    assert info.engine == method
    assert info.residual <= 1.001 * RTOL
    assert np.linalg.norm(b - a @ x) <= 1.001 * RTOL * np.linalg.norm(b)
    own = {"rtol": RTOL} | ({"callback_type": "legacy"} if method == "gmres" else {})
    assert np.allclose(x, sla.spsolve(a.tocsc(), b), rtol=0, atol=1e-5 * np.abs(x).max())
    if method != "minres":  # SciPy's stops by another rule: see the next test
        getattr(sla, method)(a, b, **own, callback=steps.append)
        # restarts of 20 steps are one iteration
        most = np.ceil(len(steps) / 20) if method == "gmres" else len(steps)
        assert info.iterations <= 1.5 * most + 5


@pytest.mark.parametrize("M", [None, "jacobi"])
def test_minres_takes_the_steps_of_the_least_residual(M):
    """SciPy's minres stops by another rule: here its iterates are run to our residual."""
    a = saddle()
    b, sizes = rhs(a), []
    _, info = ldiv.solve(
        ldiv.asarray(a), b, assume_a="sym", method="minres", rtol=RTOL, info=True, M=M
    )
    kept = {} if M is None else {"M": sp.diags_array(1 / abs(a.diagonal()))}
    sla.minres(
        a,
        b,
        rtol=1e-14,
        maxiter=4 * info.iterations,
        callback=lambda x: sizes.append(np.linalg.norm(b - a @ x)),
        **kept,
    )
    steps = 1 + next(i for i, size in enumerate(sizes) if size <= RTOL * np.linalg.norm(b))
    assert info.iterations <= 1.5 * steps


def starts(monkeypatch, method):
    """Count the starts of an engine."""
    engine, count = ldiv.engines.registry.engines()[method], []
    begin = engine.start
    monkeypatch.setattr(engine, "start", lambda *args: count.append(1) or begin(*args))
    return count


@pytest.mark.parametrize(("a", "promise", "method"), RUNS)
def test_what_is_believed_is_true(a, promise, method, monkeypatch):
    count = starts(monkeypatch, method)
    ldiv.solve(ldiv.asarray(a), rhs(a), assume_a=promise, method=method, rtol=RTOL)
    assert len(count) == 1


def test_rounding_is_noticed(monkeypatch):
    """A recurrence with |x_0| = 1e9 |x| runs far from b - A x: the true residual is computed, and
    the rest is solved again.
    """
    a = poisson(12)
    b, count = rhs(a), starts(monkeypatch, "cg")
    x = ldiv.solve(ldiv.asarray(a), b, assume_a="pos", method="cg", x0=1e9 * rhs(a))
    assert len(count) > 1
    assert np.linalg.norm(b - a @ x) <= 4e-11 * np.linalg.norm(b)


@pytest.mark.parametrize("kind", [None, "jacobi", "amg"])
@pytest.mark.parametrize("name", ["494_bus", "bcsstk13"])
def test_real_matrices(name, kind, real_matrix):
    if kind == "amg":
        pytest.importorskip("pyamg")
    a = real_matrix(name)
    a = (
        sp.csr_array(sp.diags_array(d := 1 / np.sqrt(a.diagonal())) @ a @ sp.diags_array(d))
        if kind is None
        else a
    )
    b, rtol = a @ np.ones(a.shape[0]), 1e-6
    x, info = ldiv.solve(
        ldiv.asarray(a),
        b,
        assume_a="pos",
        method="cg",
        M=kind,
        rtol=rtol,
        maxiter=20_000,
        info=True,
    )
    assert np.linalg.norm(b - a @ x) <= 1.001 * rtol * np.linalg.norm(b)
    assert info.iterations < {None: 3000, "jacobi": 3000, "amg": 2000}[kind]


# -- what else may be asked ---------------------------------------------------


@pytest.mark.parametrize("method", ["cg", "minres", "gmres", "bicgstab"])
def test_a_block_iterates_together(method):
    a = poisson(10)
    b, products = rhs(a, 5), []
    b[:, 2] = 0

    def matvec(d, x):
        products.append(x.shape)
        return a @ x * d

    A = ldiv.LinearOperator(matvec, np.array(1.0), shape=a.shape, assume_a="pos")
    x = ldiv.solve(A, b, method=method)
    assert np.allclose(a @ x, b, atol=1e-8)
    together, alone = len(products), []
    for j in range(5):
        products.clear()
        ldiv.solve(A, b[:, j], method=method)
        alone.append(len(products))
    assert together <= 1.5 * max(alone) + 5


def test_x0_and_callback_see_the_iterates():
    a = poisson(10)
    b, seen = rhs(a), []
    x = ldiv.solve(
        ldiv.asarray(a), b, assume_a="pos", method="cg", callback=lambda x: seen.append(x.copy())
    )
    assert all(s.shape == b.shape for s in seen)
    assert np.array_equal(seen[-1], x)
    sizes = [np.linalg.norm(s - x) for s in seen]
    assert sizes[-1] < 1e-9 * sizes[0]
    _, info = ldiv.solve(ldiv.asarray(a), b, assume_a="pos", method="cg", x0=seen[-3], info=True)
    assert info.iterations < len(seen) / 2
    _, info = ldiv.solve(ldiv.asarray(a), b, assume_a="pos", method="cg", x0=x, info=True)
    assert info.iterations == 0


def test_progress_is_shown_when_asked(capsys):
    a = poisson(6)
    ldiv.solve(ldiv.asarray(a), rhs(a), assume_a="pos", method="cg")
    assert capsys.readouterr().err == ""
    ldiv.solve(ldiv.asarray(a), rhs(a), assume_a="pos", method="cg", progress=True)
    err = capsys.readouterr().err
    assert err.startswith("cg: step 1, ")
    assert err.endswith("\n")


def test_the_solve_of_a_derivative_shows_its_progress_but_none_of_its_iterates(capsys):
    a, seen = poisson(6), []
    shown = {"callback": lambda x: seen.append(x.copy()), "progress": True}
    _, pullback = ldiv.vjp(
        lambda b: ldiv.solve(ldiv.asarray(a), b, assume_a="pos", method="cg", **shown), rhs(a)
    )
    forward = len(seen)
    assert forward > 1
    assert capsys.readouterr().err.count("cg: step 1, ") == 1
    pullback(np.ones(36))
    assert len(seen) == forward
    assert capsys.readouterr().err.count("cg: step 1, ") == 1


def test_a_tiny_and_a_huge_b_are_solved():
    a = poisson(6)
    b = rhs(a)
    for dtype, scales in ((np.float64, (1e-300, 1e300)), (np.float32, (1e-35, 1e35))):
        A = ldiv.asarray(a.astype(dtype))
        for scale in scales:
            x = ldiv.solve(A, (b * scale).astype(dtype), assume_a="pos", method="cg")
            assert x.dtype == dtype
            assert np.allclose(
                a @ (x.astype(np.float64) / scale), b, atol=1e-3 if dtype == np.float32 else 1e-8
            )


@pytest.mark.parametrize("method", ["cg", "gmres"])
def test_where_values_are_not_on_the_host(method, monkeypatch):
    """Products are made in the array's namespace, as on a GPU."""
    a = sp.coo_array(poisson(5))
    v, b = torch.tensor(a.data, requires_grad=True), torch.tensor(rhs(a, 2))

    def f(v):
        return ldiv.solve(
            ldiv.coo_array((v, a.coords), shape=a.shape),
            b,
            assume_a="pos",
            method=method,
            rtol=1e-12,
        )

    (expected,) = torch.autograd.grad(f(v).square().sum(), v)
    monkeypatch.setattr(frontend_of(v), "host", lambda x: False)
    assert torch.allclose(torch.autograd.grad(f(v).square().sum(), v)[0], expected, atol=1e-9)


def test_batches_of_sparse_values():
    a = sp.coo_array(convection(2))
    v, b = (
        torch.tensor(np.stack([a.data, 2 * a.data]), requires_grad=True),
        torch.tensor(rhs(a, 2), requires_grad=True),
    )

    def f(v, b):
        return ldiv.solve(
            ldiv.coo_array((v, a.coords), shape=a.shape),
            b,
            method="bicgstab",
            M="jacobi",
            rtol=1e-13,
        )

    assert torch.autograd.gradcheck(f, (v, b), check_forward_ad=True, fast_mode=True)
    x = f(v, b).detach().numpy()
    assert np.allclose([a @ x[0], 2 * (a @ x[1])], b.detach().numpy())


# -- errors -------------------------------------------------------------------


@pytest.mark.parametrize("method", ["cg", "minres", "gmres", "bicgstab"])
def test_too_few_steps_raise(method):
    a = sp.coo_array(poisson(10))
    b, A = rhs(a), ldiv.coo_array((jnp.asarray(a.data), a.coords), shape=a.shape)
    with pytest.raises(ldiv.ConvergenceError, match="did not converge: after 2 steps") as caught:
        ldiv.solve(ldiv.asarray(a), b, assume_a="pos", method=method, maxiter=2, restart=3)
    assert caught.value.iterations == 2
    assert 1e-4 < caught.value.residual < 10
    with pytest.raises(Exception, match="did not converge: after 2 steps"):
        jax.jit(lambda b: ldiv.solve(A, b, assume_a="pos", method=method, maxiter=2, restart=3))(
            jnp.asarray(b)
        )


@pytest.mark.parametrize(
    "a",
    [
        np.zeros((3, 3)),
        np.ones((3, 3)),
        np.diag([1.0, 1.0, 0.0]),
        np.array([[0.0, 1, 0], [0, 0, 1], [0, 0, 0]]),
    ],
)
@pytest.mark.parametrize("method", ["gmres", "bicgstab", "minres", "cg"])
def test_singular_matrices_raise(method, a):
    promise = {"minres": "her", "cg": "pos"}.get(method, "gen")
    if promise != "gen" and not np.array_equal(a, a.T):
        promise, a = "gen" if method == "gmres" else promise, (a + a.T) * [0, 1, 1]
        a[0] = 0
    with pytest.raises((ldiv.ConvergenceError, ldiv.NotPositiveDefiniteError)):
        ldiv.solve(a, np.array([1.0, 2.0, 3.0]), assume_a=promise, method=method)


def test_broken_promises_raise():
    a, b = poisson(6).toarray(), np.ones(36)
    with pytest.raises(ldiv.NotPositiveDefiniteError, match="p\\^H A p <= 0"):
        ldiv.solve(-a, b, assume_a="pos", method="cg")
    indefinite = ldiv.Matrix(ldiv.structures.Diagonal(36), -np.ones(36))
    with pytest.raises(ldiv.NotPositiveDefiniteError, match="preconditioner"):
        ldiv.solve(a, b, assume_a="her", method="minres", M=indefinite)
    skew = a + np.triu(np.ones((36, 36)), 1)
    for A in (skew, ldiv.asarray(sp.csr_array(skew))):
        for method, promise in (("cg", "pos"), ("minres", "her"), ("gmres", "sym")):
            with pytest.raises(ldiv.NotSymmetricError):
                ldiv.solve(A, b, assume_a=promise, method=method)
    with pytest.raises(ldiv.EngineError, match="assume_a='pos'"):
        ldiv.solve(a, b, method="cg")
    with pytest.raises(ldiv.EngineError, match="Hermitian"):
        ldiv.solve(a, b, method="minres")


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"rtol": -1.0}, "rtol: expected a finite real number >= 0"),
        ({"maxiter": 0}, "maxiter: expected"),
        ({"restart": 0}, "restart: expected"),
        ({"restart": 2.0}, "restart: expected an integer"),
        (
            {"M": ldiv.Matrix(ldiv.structures.Diagonal(3), np.full(3, 1j))},
            "M: expected real numbers",
        ),
        ({"x0": np.full(3, 1j)}, "x0: expected real numbers"),
        ({"M": "ic"}, "M: expected one of 'amg', 'block_jacobi', 'ilu', 'jacobi'"),
        ({"M": 3.0}, "M: expected the name of a preconditioner"),
        ({"M": lambda x: x}, "Wrap a function in a LinearOperator"),
        ({"x0": np.ones(4)}, "x0: expected"),
        ({"x0": np.ones((3, 1))}, "x0: expected"),
        ({"rtol": 1e-3, "method": "lapack"}, "rtol: expected a method that iterates"),
        ({"callback": print, "method": "direct"}, "callback: expected a method that iterates"),
    ],
)
def test_misuse_says_what_to_do(options, match):
    with pytest.raises((ValueError, TypeError), match=match):
        ldiv.solve(np.eye(3), np.ones(3), **options)


def test_nothing_to_do():
    A = ldiv.asarray(poisson(3))
    assert ldiv.solve(A, np.ones((9, 0)), method="gmres").shape == (9, 0)
    assert not ldiv.solve(A, np.zeros(9), assume_a="pos", method="cg", x0=np.ones(9)).any()
    with solve_log.reading() as entries:
        ldiv.solve(A, np.zeros(9), assume_a="pos", method="cg")
    assert entries[0].iterations == 0
