"""The iteration of LOBPCG in every namespace, eager and traced, against dense eigenvalues: what
it finds, when it stops, what it refuses.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
import scipy.sparse
import torch

import ldiv
from ldiv.core.rules.rule import Rule, bind
from ldiv.engines.eigen.lobpcg_iteration import iterate, wanted
from ldiv.errors import NotPositiveDefiniteError

jax.config.update("jax_enable_x64", True)


@dataclass(frozen=True, eq=False)
class Traced(Rule):
    """A kernel inside of a trace, where what it insists on is asked."""

    f: object
    core: ClassVar = (2, 2, 2)

    def kernel(self, *args):
        return self.f(*args)

    def jvp(self, *_):
        raise NotImplementedError

    vjp = jvp


def run(A, B, M, X, Y, tol, maxiter, largest):
    product = lambda a: None if a is None else lambda x: a @ x
    return iterate(product(A), product(B), product(M), X, Y, tol, maxiter, largest)[:4]


def run_jax(A, B, M, X, Y, *how):
    return run(*(None if a is None else jnp.asarray(a) for a in (A, B, M, X, Y)), *how)


def run_torch(A, B, M, X, Y, *how):
    return run(*(None if a is None else torch.as_tensor(a) for a in (A, B, M, X, Y)), *how)


def run_jit(A, B, M, X, Y, *how):
    rule = Traced(lambda a, b, x: run(a, None if B is None else b, M, x, Y, *how))
    return jax.jit(lambda *xs: bind(rule, *xs))(*map(jnp.asarray, (A, A if B is None else B, X)))


WHERE = {"numpy": run, "torch": run_torch, "jit": run_jit}
# what is the same program, compiled for other numbers
FEW_IN_JIT = ["numpy", "torch", pytest.param("jit", marks=pytest.mark.exhaustive)]


def draw(rng, dtype, *shape):
    real = rng.standard_normal(shape)
    return (real + 1j * rng.standard_normal(shape) if np.dtype(dtype).kind == "c" else real).astype(
        dtype
    )


def pencil(rng, dtype, n, generalized):
    a, b = draw(rng, dtype, n, n), draw(rng, dtype, n, n)
    eye = np.eye(n, dtype=dtype)
    return a + a.conj().T, b @ b.conj().T / n + eye / 2 if generalized else None


def laplacian(m):
    line = scipy.sparse.diags_array(
        [-np.ones(m - 1), 2 * np.ones(m), -np.ones(m - 1)], offsets=[-1, 0, 1]
    )
    eye = scipy.sparse.eye_array(m)
    return (scipy.sparse.kron(line, eye) + scipy.sparse.kron(eye, line)).tocsc()


def laplacian_values(m):
    line = 4 * np.sin(np.pi * np.arange(1, m + 1) / (2 * m + 2)) ** 2
    return np.sort((line[:, None] + line).ravel())


def is_right(found, A, B, w, tol):
    """The values, the equation, the metric, and the residuals are what they are said to be."""
    lam, X, sizes, steps = map(np.asarray, found[:4])
    BX = X if B is None else B @ X
    eps = np.finfo(lam.dtype).eps
    r = np.linalg.norm(A @ X - BX * lam, axis=0) * np.linalg.norm(X, axis=0)
    reach = np.abs(w).max()
    norm = max(reach, float(abs(A).max()))
    assert (r <= tol * reach + 200 * eps * norm).all() and np.allclose(
        sizes, r, rtol=1e-3, atol=100 * eps * norm
    )
    assert (np.abs(lam - w) <= tol * reach + 100 * eps * norm).all() and (np.diff(lam) >= 0).all()
    assert np.abs(X.conj().T @ BX - np.eye(len(w))).max() < 1000 * eps and 0 < steps


PENCILS = {
    "standard": ("float64", False, False, 60, 3),
    "generalized": ("float64", True, True, 120, 5),
    "complex": ("complex128", True, False, 90, 4),
    "single": ("float32", True, False, 60, 3),
}


@pytest.mark.parametrize(
    ("where", "case"),
    [
        *((w, c) for w in ("numpy", "torch") for c in PENCILS),
        *(pytest.param("jit", c, marks=pytest.mark.exhaustive) for c in ("standard", "single")),
    ],
)
def test_random_pencils(where, case):
    dtype, generalized, largest, n, k = PENCILS[case]
    rng = np.random.default_rng(n)
    A, B = pencil(rng, dtype, n, generalized)
    w = scipy.linalg.eigh(A, B, eigvals_only=True)
    found = WHERE[where](A, B, None, draw(rng, dtype, n, k), None, None, 500, largest)
    is_right(found, A, B, w[-k:] if largest else w[:k], np.finfo(dtype).eps ** (2 / 3))
    assert int(found[3]) < 500


@pytest.mark.parametrize("dtype", ["float64", "complex64", "complex128"])
@pytest.mark.parametrize("generalized", [False, True])
@pytest.mark.parametrize("largest", [False, True])
def test_both_ends(dtype, generalized, largest):
    rng = np.random.default_rng(7)
    A, B = pencil(rng, dtype, 200, generalized)
    w = scipy.linalg.eigh(A, B, eigvals_only=True)
    found = run(A, B, None, draw(rng, dtype, 200, 6), None, None, 800, largest)
    is_right(found, A, B, w[-6:] if largest else w[:6], np.finfo(dtype).eps ** (2 / 3))


@pytest.mark.exhaustive  # JAX compiles for seconds what the laws of front ends show
def test_jax_outside_of_a_trace():
    A, _ = pencil(np.random.default_rng(0), "float64", 20, False)
    found = run_jax(A, None, None, np.eye(20)[:, :3], None, None, 100, True)
    is_right(found, A, None, np.linalg.eigvalsh(A)[-3:], 4e-11)


@pytest.mark.parametrize("M", ["jacobi", "exact", "shifted"])
def test_repeated_eigenvalues_of_a_square(M):
    """2 + 4 are two values twice: the block needs no more steps for them."""
    m, rng = 14, np.random.default_rng(1)
    A = laplacian(m)
    near = {
        "jacobi": np.eye(m * m) / 4,
        "exact": np.linalg.inv(A.toarray()),
        "shifted": np.linalg.inv(A.toarray() + 0.1 * np.eye(m * m)),
    }[M]
    found = run(A, None, near, rng.standard_normal((m * m, 6)), None, 1e-12, 300, False)
    is_right(found, A, None, laplacian_values(m)[:6], 1e-12)
    assert int(found[3]) < (120 if M == "jacobi" else 40)


def test_a_cut_through_a_pair():
    """k ends in the middle of a double eigenvalue: the values are right all the same."""
    A = laplacian(12)
    found = run(
        A, None, None, np.random.default_rng(0).standard_normal((144, 2)), None, None, 500, False
    )
    is_right(found, A, None, laplacian_values(12)[:2], 4e-11)


def test_a_multiple_of_the_identity():
    found = run(
        3 * np.eye(30),
        None,
        None,
        np.random.default_rng(0).standard_normal((30, 4)),
        None,
        None,
        10,
        True,
    )
    assert np.allclose(found[0], 3) and int(found[3]) == 0
    found = run(np.zeros((30, 30)), None, None, np.eye(30)[:, :4], None, None, 10, True)
    assert (found[0] == 0).all() and (found[2] == 0).all()


def test_a_null_space_is_found_to_rounding():
    """A ring of springs: lam = 0, of which no relative digit can be asked."""
    n = 40
    A = 2 * np.eye(n) - np.roll(np.eye(n), 1, axis=0) - np.roll(np.eye(n), -1, axis=0)
    lam, X, sizes, steps = run(
        A, None, None, np.random.default_rng(0).standard_normal((n, 1)), None, None, 300, False
    )
    assert (
        abs(lam[0]) < 1e-13 and sizes[0] < 1e-12 and steps < 300 and np.allclose(np.abs(X), n**-0.5)
    )


@pytest.mark.parametrize("where", FEW_IN_JIT)
@pytest.mark.parametrize("generalized", [False, True])
def test_an_eigenvalue_0_of_any_multiplicity(where, generalized):
    """Residuals of the eigenvalue 0 can be small relative to A alone, in its units, also where A
    does not mix the null space with the rest.
    """
    rng = np.random.default_rng(11)
    n, null = 40, 12
    _, B = pencil(rng, "float64", n, generalized)
    C = np.diag(np.r_[np.zeros(null), np.linspace(1, 9, n - null)])
    for scale, k in ((1.0, 4), (1e-100, null))[: 1 if where == "jit" else 2]:
        X = rng.standard_normal((n, k))
        found = WHERE[where](scale * C, B, None, X, None, 1e-9, 500, False)
        lam, x, sizes, steps = map(np.asarray, found)
        assert steps < 500 and np.abs(lam).max() < 1e-16 * scale
        assert max(np.linalg.norm(C @ x), sizes.max() / scale) < 1e-12


def test_eigenvalues_below_the_rounding_that_can_be_reached():
    """lam = 1e-11 |A|: an error of 1e-9 lam would be a residual of 1e-20 |A|."""
    A = np.diag(np.r_[np.full(12, 1e-11), np.linspace(1, 9, 28)])
    X = np.random.default_rng(0).standard_normal((40, 4))
    lam, _, sizes, steps = run(A, None, None, X, None, 1e-9, 500, False)
    assert steps < 500 and np.abs(lam - 1e-11).max() < 1e-20 and sizes.max() < 1e-12


@pytest.mark.parametrize("where", ["numpy", "torch"])
def test_a_large_laplacian_with_a_factor_of_a_shifted_one(where):
    m = 50
    A = laplacian(m)
    near = scipy.sparse.linalg.splu(A + 0.01 * scipy.sparse.eye_array(m * m, format="csc")).solve
    on = {"numpy": lambda f: f, "torch": lambda f: lambda x: torch.as_tensor(f(x.numpy()))}[where]
    X = {"numpy": np.asarray, "torch": torch.as_tensor}[where](
        np.random.default_rng(3).standard_normal((m * m, 6))
    )
    found = iterate(on(lambda x: A @ x), None, on(near), X, None, 1e-10, 100, False)
    is_right(found, A, None, laplacian_values(m)[:6], 1e-10)
    assert int(found[3]) < 40


@pytest.mark.parametrize("where", FEW_IN_JIT)
def test_constraints_give_the_next_ones(where):
    rng = np.random.default_rng(5)
    A, B = pencil(rng, "complex128", 60, True)
    w, V = scipy.linalg.eigh(A, B)
    Y = V[:, :3] @ draw(rng, "complex128", 3, 3)  # any basis of their span
    found = WHERE[where](A, B, None, draw(rng, "complex128", 60, 3), Y, None, 500, False)
    is_right(found, A, B, w[3:6], 4e-11)
    assert np.abs(Y.conj().T @ B @ np.asarray(found[1])).max() < 1e-12


def test_constraints_that_are_no_eigenvectors():
    """Then it is the problem on their complement."""
    rng = np.random.default_rng(6)
    A, _ = pencil(rng, "float64", 60, False)
    Y = rng.standard_normal((60, 4))
    Q = scipy.linalg.null_space(Y.T)
    lam, X, sizes, steps = run(A, None, None, rng.standard_normal((60, 3)), Y, None, 500, True)
    assert (
        np.allclose(lam, np.linalg.eigvalsh(Q.T @ A @ Q)[-3:], rtol=0, atol=1e-11) and steps < 500
    )
    assert np.abs(Y.T @ X).max() < 1e-12 and (sizes <= 4e-11 * np.abs(lam).max()).all()


def test_a_block_as_wide_as_the_space():
    """[X, P, W] has more columns than there are rows: what is too much becomes zero."""
    rng = np.random.default_rng(8)
    for n, k in ((7, 3), (6, 6), (5, 2), (1, 1)):
        A, B = pencil(rng, "float64", n, True)
        w = scipy.linalg.eigh(A, B, eigvals_only=True)
        lam, _, sizes, _ = run(A, B, None, draw(rng, "float64", n, k), None, 1e-13, 100, False)
        assert np.allclose(lam, w[:k], rtol=0, atol=1e-12) and (sizes < 1e-11).all()


def test_a_bad_preconditioner_costs_no_digit():
    rng = np.random.default_rng(9)
    A = laplacian(8)
    w = laplacian_values(8)[:3]
    X = rng.standard_normal((64, 3))
    for M in (
        np.diag(rng.uniform(0.1, 10, 64)),
        np.diag(np.where(np.arange(64) % 16 == 0, -1.0, 1.0)),
        1e200 * np.eye(64),
        1e-200 * np.eye(64),
    ):
        found = run(A, None, M, X, None, None, 2000, False)
        is_right(found, A, None, w, 4e-11)


def test_a_start_that_has_arrived_takes_no_step_and_one_that_partly_has_is_kept():
    A = laplacian(12)
    w, V = np.linalg.eigh(A.toarray())
    assert int(run(A, None, None, V[:, :4], None, None, 100, False)[3]) == 0
    X = np.concatenate([V[:, :2], np.random.default_rng(0).standard_normal((144, 2))], axis=1)
    found = run(A, None, None, X, None, None, 300, False)
    is_right(found, A, None, w[:4], 4e-11)


@pytest.mark.parametrize("scale", [1e-100, 1e-8, 1e8, 1e100])
def test_units_do_not_matter(scale):
    rng = np.random.default_rng(2)
    A, B = pencil(rng, "float64", 60, True)
    X = rng.standard_normal((60, 3))
    lam, _, _, steps = run(A, B, None, X, None, None, 500, False)
    for scaled in (
        run(scale * A, B, None, X, None, None, 500, False),
        run(scale * A, scale * B, None, X, None, None, 500, False),
    ):
        assert int(scaled[3]) <= 1.5 * int(steps) + 5
        assert np.allclose(scaled[0] / scaled[0][0], lam / lam[0], rtol=1e-12)


def test_huge_rows_elsewhere_do_not_end_it_early():
    """A fixed point by a spring of 1e14: the rounding that is forgiven is that of A x, not of A."""
    A = laplacian(10).toarray()
    stiff = scipy.linalg.block_diag(A, 1e14)
    lam, _, sizes, steps = run(
        stiff,
        None,
        np.diag(1 / np.diag(stiff)),
        np.random.default_rng(0).standard_normal((101, 3)),
        None,
        1e-9,
        500,
        False,
    )
    assert (
        np.allclose(lam, laplacian_values(10)[:3], rtol=1e-9)
        and (sizes < 1e-8).all()
        and steps < 500
    )


@pytest.mark.parametrize("largest", [False, True])
def test_columns_beyond_those_that_must_converge(largest):
    """The third pair lies next to the fourth: two columns more, which need not converge, help."""
    n, sign = 300, -1 if largest else 1
    w = np.concatenate([[1, 2, 3, 3.0003], np.linspace(5, 400, n - 4)])
    A = np.diag(sign * w)
    X = np.random.default_rng(0).standard_normal((n, 5))
    near = np.diag(1 / w)
    lam, x, size, steps, _ = iterate(
        lambda v: A @ v, None, lambda v: near @ v, X, None, 1e-10, 500, largest, 3
    )
    assert lam.shape == size.shape == (3,) and x.shape == (n, 3)
    assert np.abs(lam - np.sort(sign * w[:3])).max() < 1e-9
    alone = run(A, None, near, X[:, :3], None, 1e-10, 500, largest)
    assert steps < alone[3] / 2


def test_frozen_columns_cost_no_preconditioning():
    """Half of the start has converged: only the other half is preconditioned."""
    n, widths = 100, []
    A = np.diag(np.arange(1.0, n + 1))
    X = np.eye(n)[:, :4] + 1e-3 * np.random.default_rng(0).standard_normal((n, 4)) * [0, 0, 1, 1]

    def near(v):
        widths.append(v.shape[1])
        return v / np.arange(1.0, n + 1)[:, None]

    lam, *_ = iterate(lambda v: A @ v, None, near, X, None, 1e-10, 100, False)
    assert np.abs(lam - np.arange(1, 5)).max() < 1e-9
    assert min(widths) <= 2


def test_maxiter_is_kept_and_nothing_raised():
    A = laplacian(20)
    lam, X, sizes, steps = run(
        A, None, None, np.random.default_rng(0).standard_normal((400, 3)), None, None, 7, False
    )
    assert steps == 7 and (sizes > wanted(lambda x: A @ x, None, X, lam, None, len(lam))).any()


def test_the_products_of_a_step():
    """k columns of A, B and M each; besides, at the start and at the end, two of A and three of B, one
    each for the rounding, and one column of A that tells its size.
    """
    rng = np.random.default_rng(4)
    A, B = pencil(rng, "float64", 80, True)
    count = {"A": 0, "B": 0, "M": 0}

    def counted(name, a):
        def product(x):
            count[name] += x.shape[1]
            return a @ x

        return product

    iterate(
        counted("A", A),
        counted("B", B),
        counted("M", np.eye(80)),
        rng.standard_normal((80, 4)),
        None,
        None,
        30,
        True,
    )
    assert count == {"A": 4 * 30 + 18, "B": 4 * 30 + 24, "M": 4 * 30}


@pytest.mark.parametrize("where", WHERE)
def test_a_start_of_dependent_columns_is_refused(where):
    rng = np.random.default_rng(0)
    A, B = pencil(rng, "float64", 20, True)
    X = rng.standard_normal((20, 3))
    X[:, 2] = X[:, 0] - 2 * X[:, 1]
    with pytest.raises(
        (ValueError, RuntimeError),
        match=r"columns linearly independent of each other and of Y, got 1 dependent",
    ):
        WHERE[where](A, B, None, X, None, None, 9, True)


@pytest.mark.parametrize("where", ["numpy", "torch"])
def test_refusals(where):
    rng = np.random.default_rng(0)
    A, B = pencil(rng, "float64", 20, True)
    X = rng.standard_normal((20, 3))
    with pytest.raises(ValueError, match="NaN or infinity"):
        WHERE[where](A * np.nan, None, None, X, None, None, 9, True)
    with pytest.raises(ValueError, match="NaN or infinity"):
        WHERE[where](A, None, A * np.nan, X, None, None, 9, True)
    with pytest.raises(NotPositiveDefiniteError, match="B of A x"):
        WHERE[where](A, B - 5 * np.eye(20), None, X, None, None, 9, True)


def test_a_start_inside_the_constraints_is_refused():
    A, _ = pencil(np.random.default_rng(0), "float64", 20, False)
    Y = np.eye(20)[:, :3]
    with pytest.raises(ValueError, match="got 1 dependent"):
        run(A, None, None, np.eye(20)[:, 2:4], Y, None, 9, True)


def test_a_block_that_fills_the_space_may_be_nearly_dependent():
    """One in a thousand of n random columns in single precision is nearly dependent, whatever A."""
    a = np.diag(np.arange(1.0, 6.0)).astype(np.float32)
    X = np.eye(5, dtype=np.float32)
    X[:, 1] = X[:, 0] * (1 + 1e-6)
    for k in (2, 4):
        w, _ = ldiv.lobpcg(a, X[:, :k], largest=False)
        np.testing.assert_allclose(w, np.arange(1.0, k + 1), rtol=1e-5)


@pytest.mark.covering(1)
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("graded", [None, 0, 4], ids=["standard", "mass", "graded mass"])
@pytest.mark.parametrize("unit", [1e-8, 1.0, 1e8])
def test_the_default_tolerance_is_reached_in_any_units(
    unit: float, graded: int | None, largest: bool, dtype: str
) -> None:
    rng, n, k = np.random.default_rng(1), 30, 3
    eps = np.finfo(dtype).eps

    def turned(eigenvalues: Any) -> Any:
        x = rng.standard_normal((n, n)) + 1j * rng.standard_normal((n, n))
        q = np.linalg.qr(x if dtype[0] == "c" else x.real)[0]
        a = ((q * eigenvalues) @ np.conj(q.T)).astype(dtype)
        return (a + np.conj(a.T)) / 2

    A = turned(np.linspace(-1, 1, n)) * np.dtype(dtype).type(unit)
    B = None if graded is None else turned(np.logspace(0, graded, n) * (1 + (graded == 0)))
    lam = ldiv.lobpcg(A, rng.standard_normal((n, k)).astype(dtype), B, largest=largest)[0]
    wide = np.complex128 if dtype[0] == "c" else np.float64
    every = scipy.linalg.eigh(A.astype(wide), None if B is None else B.astype(wide))[0]
    right = every[::-1][:k] if largest else every[:k]
    error = abs(np.sort(np.asarray(lam)) - np.sort(right)).max()
    assert error < 3e3 * eps * unit * max(1, abs(right).max() / unit) * 10 ** ((graded or 0) / 2)
