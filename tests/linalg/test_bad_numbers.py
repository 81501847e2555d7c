"""Arguments of odd kinds: refused in words of ours, or taken for what they mean."""

from __future__ import annotations

import re

import numpy as np
import pytest
import scipy.sparse.linalg

import ldiv

A, b = np.diag([2.0, 4.0]) + 1, np.array([1.0, 2.0])
S = ldiv.coo_array((np.array([1.0, 2.0]), ([0, 1], [0, 1])), shape=(2, 2))

ONES = np.ones((2, 2), "float32")


def single(s: ldiv.SparseArray) -> ldiv.SparseArray:
    return s.with_data(s.values.astype("float32"))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: ldiv.eigsh(A, 1, guard=None), "guard: expected an integer >= 0, got None"),
        (
            lambda: ldiv.gaussian_kl(np.tril(A), np.nan * np.tril(A)),
            "gaussian_kl: expected finite numbers",
        ),
        (
            lambda: ldiv.gaussian_kl(np.tril(np.full((2, 2), np.inf)), np.tril(A)),
            "gaussian_kl: expected finite numbers",
        ),
        (
            lambda: ldiv.LinearOperator(lambda p, x: x, 10**5000, shape=(2, 2)),
            "params: expected at least one array, got int that cannot be shown",
        ),
        (
            lambda: ldiv.eigsh(A, [10**5000]),
            "k: expected a number of pairs from 1 to 2, got list that cannot be shown",
        ),
        (lambda: S * 10**400, "the other operand: expected a finite number"),
        (
            lambda: single(S) * 1e300,
            "the other operand: expected a number of at most 3.4e+38, the largest of float32, got 1e+300",
        ),
        (lambda: ldiv.kron(A, A) / 1e-320, "A / c: expected a finite number, got inf"),
        (
            lambda: ldiv.kron(ONES, ONES) * 1e40j,
            "c * A: expected a number of at most 3.4e+38, the largest of float32",
        ),
        (
            lambda: ldiv.gemm(1e300, ONES, ONES),
            "alpha: expected a number of at most 3.4e+38, the largest of float32",
        ),
        (
            lambda: ldiv.Tape().scale(np.array(1e300), ONES),
            "alpha: expected a number of at most 3.4e+38, the largest of float32",
        ),
    ],
)
def test_refused(call: object, words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        call()  # type: ignore[operator]


def test_large_integers() -> None:
    assert (S * 2**63).values[0] == 2.0**63


def test_cotangents_and_tangents_take_the_dtype_of_what_they_belong_to() -> None:
    torch, jax = pytest.importorskip("torch"), pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    for to in (torch.from_numpy, jax.numpy.asarray, np.asarray):
        ones = to(np.ones(2))
        pull = ldiv.vjp(ldiv.solve, to(A), to(b))[1]
        for y_bar in (range(1, 2), [True], [1.0]):
            np.testing.assert_allclose(
                np.asarray(pull(list(y_bar) * 2)[1]), np.asarray(pull(ones)[1])
            )
        for t in (to(np.ones(2, "float32")), to(np.array([True, True]))):
            np.testing.assert_allclose(
                np.asarray(ldiv.jvp(ldiv.solve, (to(A), to(b)), (None, t))[1]),
                np.linalg.solve(A, np.ones(2)),
            )
        complex_b = to(b + 1j)
        np.testing.assert_allclose(
            np.asarray(ldiv.jvp(ldiv.solve, (to(A), complex_b), (None, ones))[1]),
            np.linalg.solve(A, np.ones(2)),
        )


def test_odd_tensors() -> None:
    torch = pytest.importorskip("torch")
    t = torch.ones(2, 2, dtype=torch.float64)
    nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged)
    with pytest.raises(TypeError, match="beta: expected an array"):
        ldiv.Tape().gemm(1.0, t, t, nested, t)


def test_extended_precision() -> None:
    torch = pytest.importorskip("torch")
    t = torch.ones(2, 2, dtype=torch.float64)
    assert ldiv.gemm(np.clongdouble(2j), t, t)[0, 0] == 4j
    assert (S / np.longdouble(2)).values.dtype == "float64"


OF_PIVOTS = {
    "sparse": (lambda p: p.to_sparse(), "a dense array, got a sparse Tensor"),
    "bfloat16": (lambda p: p.bfloat16(), "an array of integers, int32 or int64, got bfloat16"),
    "truth values": (lambda p: p > 0, "an array of integers, int32 or int64, got bool"),
    "words": (lambda p: ["a"] * len(p), "a NumPy, PyTorch or JAX array, got a list"),
}


@pytest.mark.parametrize("kind", OF_PIVOTS)
def test_pivots(kind: str) -> None:
    torch = pytest.importorskip("torch")
    change, words = OF_PIVOTS[kind]
    lu, piv = ldiv.lu_factor(torch.tensor(A))
    with pytest.raises(TypeError, match=f"piv: expected .*{re.escape(words)}"):
        ldiv.lu_solve((lu, change(piv)), torch.tensor(b))


def test_integers_with_which_torch_does_not_calculate() -> None:
    torch = pytest.importorskip("torch")
    s = ldiv.coo_array((torch.ones(2), ([0, 1], [0, 1])), shape=(2, 2))
    with pytest.raises(
        TypeError,
        match=r"the other operand: expected numbers: integers, or one of float32, .*, got uint16",
    ):
        s * torch.ones(2, 2, dtype=torch.uint16)


def test_infinity_on_a_tape() -> None:
    """Infinity propagates as in any product of the user's: no error, and no warning."""
    infinite, finite = np.full((2, 2), np.inf), np.array([[1.0, 0.0], [0.0, 1.0]])
    out, shadows = np.zeros((2, 2)), [np.zeros((2, 2)) for _ in range(3)]
    X, Y, Z = map(ldiv.Duplicated, (infinite, finite, out), shadows)
    tape = ldiv.Tape()
    tape.matmul(X, Y, out=Z)
    tape.scale(2.0, Z)
    tape.axpy(-1.0, X, Z)
    assert np.isnan(out).all()
    shadows[2][...] = 1.0
    tape.reverse()
    np.testing.assert_array_equal(shadows[0], 2 * np.ones((2, 2)) - 1)
    assert not np.isfinite(shadows[1]).any()


def test_constraints_in_another_precision() -> None:
    torch = pytest.importorskip("torch")
    d = np.arange(1.0, 9.0)
    for to in (np.asarray, torch.tensor):
        D = ldiv.diags_array([to(d.astype("float32"))], offsets=[0])
        w, _ = ldiv.lobpcg(
            D, to(np.eye(8, 2).astype("float32") + 1), Y=to(1e300 * np.eye(8)[:, -1:])
        )
        np.testing.assert_allclose(np.asarray(w), [7.0, 6.0], rtol=1e-4)
        with pytest.raises(TypeError, match="Y: expected real numbers"):
            ldiv.lobpcg(D, to(np.eye(8, 2).astype("float32") + 1), Y=to(1j * np.eye(8)[:, -1:]))


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda a, bad: ldiv.cholesky_banded(bad), "ab"),
        (lambda a, bad: ldiv.solveh_banded(bad, a[0]), "ab"),
        (lambda a, bad: ldiv.lobpcg(a, a[:, :2], iK=bad), "iK"),
        (lambda a, bad: ldiv.lobpcg(a, bad, k=2), "X"),
        (lambda a, bad: ldiv.lobpcg(a, a[:, :2], B=bad), "B"),
        (lambda a, bad: ldiv.lobpcg(bad, a[:, :2]), "A"),
        (lambda a, bad: ldiv.solve(a, a[0], assume_a="pos", method="cg", M=bad), "M"),
    ],
)
@pytest.mark.parametrize(
    "bad",
    [
        ldiv.structures.Diagonal, type, object, 1j, "T",
        ldiv.structures.Sum(()), ldiv.structures.Product(()), ldiv.structures.Dense(8, 8),
    ],
)  # fmt: skip
def test_what_is_no_matrix_is_named(call, name, bad) -> None:
    """A class has attributes, but not the values of them, and a structure has no parameters."""
    with pytest.raises((TypeError, ValueError), match=f"^{name}: expected"):
        call(np.diag(np.arange(1.0, 9.0)), bad)


def test_keys_of_random_numbers_are_no_matrices() -> None:
    jax = pytest.importorskip("jax")
    for f in (ldiv.selected_inverse, ldiv.slogdet, ldiv.cholesky):
        with pytest.raises(TypeError, match="expected one of float32"):
            f(jax.random.key(0))


def test_no_density_of_no_points() -> None:
    """No warning is given, either, of a logarithm of zero say."""
    assert ldiv.gaussian_logpdf(np.zeros((0, 3)), np.zeros((3, 3))).shape == (0,)


def test_a_seed_that_contains_itself() -> None:
    """NumPy's own reading of it has no end."""
    seed: list[object] = [0]
    seed.append(seed)
    with pytest.raises((TypeError, ValueError), match="rng: expected"):
        ldiv.random_array((2, 2), rng=seed)
    same = (ldiv.random_array((3, 3), density=1, rng=r).toarray() for r in ([1, 2], (1, 2)))
    np.testing.assert_array_equal(*same)


def test_hvp_in_another_precision() -> None:
    """JAX wants tangents of exactly the dtype of x; PyTorch takes any."""
    jax, torch = pytest.importorskip("jax"), pytest.importorskip("torch")
    jax.config.update("jax_enable_x64", True)
    for ones, single, double in (
        (jax.numpy.ones, "float32", "float64"),
        (torch.ones, torch.float32, torch.float64),
    ):
        x = ones(2, dtype=single)
        y = ldiv.hvp(lambda x: (x**3).sum(), x, 2 * ones(2, dtype=double))
        np.testing.assert_array_equal(np.asarray(y), [12.0, 12.0])
        assert y.dtype == x.dtype


@pytest.mark.parametrize("framework", ["torch", "jax.numpy"])
def test_operators_of_scipy_take_arrays_of_numpy_only(framework) -> None:
    xp = pytest.importorskip(framework)
    A, b = scipy.sparse.linalg.aslinearoperator(2 * np.eye(4)), xp.asarray([1.0, 2, 3, 4])
    for f in (
        lambda: ldiv.solve(A, b, method="cg", assume_a="pos"),
        lambda: ldiv.solve(A, b, method="gmres"),
    ):
        with pytest.raises(TypeError, match="A: expected an operator on its arrays"):
            f()


def test_no_block_on_a_diagonal() -> None:
    with pytest.raises(ValueError, match="mats: expected a matrix in every place"):
        ldiv.block_diag([None, np.eye(2)])


def test_a_number_is_no_right_hand_side_of_a_held_factor() -> None:
    held = ldiv.factorized(np.eye(4))
    for b in (np.float64(1), np.ones(())):
        with pytest.raises(ValueError, match="expected shape"):
            held.solve(b)


@pytest.mark.parametrize("framework", ["numpy", "torch"])
@pytest.mark.parametrize("assume_a", ["gen", "pos"])
def test_nothing_is_factored_for_a_right_hand_side_that_is_refused(framework, assume_a) -> None:
    array = pytest.importorskip(framework).asarray
    a, b = 100 * np.eye(100), np.ones(100)
    b[3] = np.nan
    before = ldiv.cache_info().factorizations
    with pytest.raises(ValueError, match="b: expected finite numbers"):
        ldiv.solve(array(a), array(b), assume_a=assume_a)
    assert ldiv.cache_info().factorizations == before
