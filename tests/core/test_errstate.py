"""ldiv.errstate(singular=...): an ill-conditioned matrix raises, warns or is solved in silence,
and its derivatives do as the call did.
"""

from __future__ import annotations

import contextvars
import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg

import ldiv
from ldiv.engines.libraries import mkl_pardiso

torch = pytest.importorskip("torch")
# condition 1e18: regular, its pivots are not zero, and no digit of a solution is certain
H = scipy.linalg.hilbert(13)
B = np.arange(1.0, 14)


def sparse(a: Any) -> Any:
    rows, cols = np.indices(a.shape).reshape(2, -1)
    return ldiv.coo_array((a.reshape(-1), (rows, cols)), shape=a.shape)


def banded(a: Any) -> Any:
    n = len(a)
    ab = np.zeros((2 * n - 1, n))
    for i in range(n):
        for j in range(n):
            ab[n - 1 + i - j, j] = a[i, j]
    return ldiv.Matrix(ldiv.structures.Banded(n - 1, n - 1, n), ab)


FORMS: dict[str, tuple[Callable[[Any], Any], tuple[str, ...]]] = {
    "dense": (lambda a: a, ("auto", "lapack")),
    "sparse": (sparse, ("auto", "superlu", *(["pardiso"] if mkl_pardiso.path() else []))),
    "banded": (banded, ("auto", "banded")),
}
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "solve": lambda A, method, kind: ldiv.solve(A, B, method=method, assume_a=kind),
    "adjoint": lambda A, method, kind: ldiv.solve(A, B, method=method, assume_a=kind, trans="H"),
    "factorized": lambda A, method, kind: ldiv.factorized(A, method=method, assume_a=kind).solve(B),
    "logabsdet": lambda A, method, kind: ldiv.factorized(
        A, method=method, assume_a=kind
    ).logabsdet(),
    "quad_form": lambda A, method, kind: ldiv.quad_form(A, B, method=method, assume_a=kind),
}


def small(a: Any, x: Any, b: Any) -> bool:
    """Whether the backward error is small."""
    return bool(np.abs(b - a @ x).max() <= 1e-13 * (np.abs(a) @ np.abs(x) + np.abs(b)).max())


CASES = [
    (form, method, kind)
    for form, (_, methods) in FORMS.items()
    for method in methods
    for kind in ("gen", "sym")
]


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize(
    ("form", "method", "kind"), [case for case in CASES if case[::2] != ("banded", "sym")]
)
def test_ill_conditioned(form: str, method: str, kind: str, name: str) -> None:
    A, f = FORMS[form][0](H), FUNCTIONS[name]
    for _ in range(2):  # what "warn" found is not taken for "raise", nor the other way round
        with pytest.raises(ldiv.SingularMatrixError):
            f(A, method, kind)
        with ldiv.errstate(singular="ignore"):
            silent = f(A, method, kind)
        ldiv.clear_cache()
        with (
            ldiv.errstate(singular="warn"),
            pytest.warns(scipy.linalg.LinAlgWarning, match="singular to working precision"),
        ):
            found = f(A, method, kind)
        np.testing.assert_array_equal(found, silent)
        if name == "solve":
            assert small(H, found, B)


@pytest.mark.parametrize("state", ["raise", "warn", "ignore"])
def test_well_conditioned_is_silent(state: str) -> None:
    with ldiv.errstate(singular=state):
        for make, methods in FORMS.values():
            for method in methods:
                assert np.allclose(
                    ldiv.solve(make(np.eye(13) + H / 10), B, method=method),
                    np.linalg.solve(np.eye(13) + H / 10, B),
                )


@pytest.mark.parametrize("state", ["raise", "warn", "ignore"])
def test_exactly_singular_raises(state: str) -> None:
    a = np.array([[1.0, 2.0, 0.0], [2.0, 4.0, 0.0], [0.0, 0.0, 1.0]])
    with ldiv.errstate(singular=state):
        for A in (
            a,
            sparse(a),
            ldiv.Matrix(ldiv.structures.Diagonal(3), np.diag(a) - 1),
            sparse(np.zeros((3, 3))),
        ):
            with pytest.raises(ldiv.SingularMatrixError):
                ldiv.solve(A, np.ones(3))
        with pytest.raises(ldiv.SingularMatrixError):
            ldiv.lstsq(np.ones((3, 2)) * [1.0, 0.0], np.ones(3))
        with pytest.raises(ldiv.SingularMatrixError, match="is an eigenvalue"):
            ldiv.eigsh(
                ldiv.diags_array([np.arange(1.0, 10)], offsets=[0], shape=(9, 9)),
                k=2,
                sigma=3,
                method="arpack",
            )


def test_options() -> None:
    with (
        pytest.raises(
            ValueError,
            match="singular: expected one of 'raise', 'warn', 'ignore', 'nan', got 'call'",
        ),
        ldiv.errstate(singular="call"),
    ):
        pass
    with ldiv.errstate(singular="ignore"):
        with ldiv.errstate(singular="raise"), pytest.raises(ldiv.SingularMatrixError):
            ldiv.solve(H, B)
        ldiv.solve(H, B)
    with pytest.raises(ldiv.SingularMatrixError):
        ldiv.solve(H, B)
    ldiv.errstate(singular="ignore")(lambda: ldiv.solve(H, B))()


def test_of_a_thread_and_a_context() -> None:
    seen: list[Any] = []

    def work() -> None:
        try:
            seen.append(ldiv.solve(H, B))
        except ldiv.SingularMatrixError:
            seen.append("raised")

    with ldiv.errstate(singular="ignore"):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join(25)
        inside = contextvars.copy_context()
        assert seen == ["raised"]
    inside.run(work)
    assert len(seen[1]) == 13


def test_lstsq() -> None:
    a = H[:, :12]
    with pytest.raises(ldiv.SingularMatrixError):
        ldiv.lstsq(a, B)
    with (
        ldiv.errstate(singular="warn"),
        pytest.warns(scipy.linalg.LinAlgWarning, match="depends on the others"),
    ):
        x = ldiv.lstsq(a, B).x
    assert np.isfinite(x).all()


# -- derivatives, inside and outside of the block -----------------------------


def factors_give(make: Any) -> Any:
    """The gradient of the sum of the solution, from the same factors."""
    with ldiv.errstate(singular="ignore"):
        A = make(torch.tensor(H))
        x = ldiv.solve(A, torch.tensor(B))
        return -np.outer(ldiv.solve(A, torch.ones(13, dtype=torch.float64), trans="H"), x)


@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_torch(form: str) -> None:
    a = torch.tensor(H, requires_grad=True)
    make = FORMS[form][0]
    b = torch.tensor(B)
    with ldiv.errstate(singular="ignore"):
        x = ldiv.solve(make(a), b)
    (g,) = torch.autograd.grad(x.sum(), a, create_graph=True)  # after the block
    np.testing.assert_allclose(g.detach(), factors_give(make), rtol=1e-6)
    assert torch.isfinite(torch.autograd.grad(g.sum(), a)[0]).all()
    ldiv.clear_cache()
    x = ldiv.solve(make(a + torch.eye(13)), b)
    with ldiv.errstate(singular="ignore"):
        g = torch.func.grad(lambda a: ldiv.solve(make(a), b).sum())(a.detach())
        np.testing.assert_allclose(g, factors_give(make), rtol=1e-6)
        torch.func.jvp(lambda a: ldiv.solve(make(a), b), (a.detach(),), (a.detach(),))


def test_what_factorized_holds() -> None:
    with ldiv.errstate(singular="ignore"):
        F = ldiv.factorized(sparse(H))
        expected = ldiv.solve(sparse(H), B)
    np.testing.assert_array_equal(F.solve(B), expected)
    np.testing.assert_array_equal(F.inverse @ B, expected)
    assert np.isfinite(F.logabsdet())


def test_other_functions_in_reverse() -> None:
    a, b = torch.tensor(H, requires_grad=True), torch.tensor(B)
    with ldiv.errstate(singular="ignore"):
        losses = [
            ldiv.quad_form(a, b, assume_a="sym"),
            ldiv.quad_form(a, b),
            *ldiv.slogdet(a)[1:],
            ldiv.factorized(a).logabsdet(),
        ]
    for loss in losses:
        assert torch.isfinite(torch.autograd.grad(loss, a, create_graph=True)[0]).all()


def test_root() -> None:
    p = torch.tensor(H @ np.ones(13), requires_grad=True)
    h = torch.tensor(H)
    with pytest.raises(ldiv.SingularMatrixError):
        ldiv.root(lambda x, p: h @ x - p, torch.ones(13, dtype=torch.float64), p)
    with ldiv.errstate(singular="ignore"):
        x = ldiv.root(lambda x, p: h @ x - p, torch.ones(13, dtype=torch.float64), p, tol=1.0)
    assert torch.isfinite(torch.autograd.grad(x.sum(), p)[0]).all()


@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_jax(form: str) -> None:
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    make = FORMS[form][0]
    loss = jax.jit(jax.value_and_grad(lambda a: ldiv.solve(make(a), jax.numpy.asarray(B)).sum()))
    with ldiv.errstate(singular="warn"), warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        value, g = jax.block_until_ready(loss(jax.numpy.asarray(H)))
    assert any("singular to working precision" in str(w.message) for w in seen)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", scipy.linalg.LinAlgWarning)
        # what was traced with "warn" stays so
        again = jax.block_until_ready(loss(jax.numpy.asarray(H)))
    np.testing.assert_array_equal(g, again[1])
    assert np.isfinite(value)
    with pytest.raises(Exception, match="singular to working precision"):
        jax.block_until_ready(
            jax.jit(lambda a: ldiv.solve(make(a), jax.numpy.asarray(B)))(jax.numpy.asarray(H))
        )
