"""A pullback is that of the values at the call, whatever is written to arguments and results
later; nothing complex is cut to its real part.
"""

import gc

import numpy as np
import pytest

import ldiv
from ldiv.derivatives import numpy_record

torch = pytest.importorskip("torch")

N = 4
RNG = np.random.default_rng(0)
A = RNG.standard_normal((N, N)) + 4 * np.eye(N)
B = RNG.standard_normal((N, 2))
SPD = A @ A.T
ROWS, COLS = np.divmod(np.arange(N * N), N)


def sparse(v):
    return ldiv.coo_array((v, (ROWS, COLS)), shape=(N, N))


CASES = {
    "solve": (ldiv.solve, A, B),
    "solve, a vector": (ldiv.solve, A, B[:, 0]),
    "solve, batches": (ldiv.solve, np.stack([A, A.T]), B),
    "solve, complex": (ldiv.solve, A + 1j * A.T, B + 0j),
    "solve, pos": (lambda a, b: ldiv.solve(a, b, assume_a="pos"), SPD, B),
    "sparse solve": (lambda v, b: ldiv.solve(sparse(v), b), A.ravel(), B),
    "factorized": (lambda v, b: ldiv.factorized(sparse(v)).solve(b), A.ravel(), B),
    "product": (lambda v, x: sparse(v) @ x, A.ravel(), B),
    "gemm": (lambda a, b: ldiv.gemm(2.0, a, b), A, B),
    "logabsdet": (lambda a: ldiv.factorized(a).logabsdet(), np.stack([A, A.T])),
    "eigsh": (lambda a: ldiv.eigsh(a, 2, return_eigenvectors=False), SPD),
    "cholesky": (ldiv.cholesky, SPD),
    "lstsq": (lambda a, b: ldiv.lstsq(a, b).x, A[:, :2], B),
    "a constant": (lambda b: ldiv.solve(CONSTANT, b), B),
}
CONSTANT = A.copy()


@pytest.mark.parametrize("array", [np.array, torch.tensor], ids=["numpy", "torch"])
@pytest.mark.parametrize("name", CASES)
def test_a_pullback_is_that_of_the_values_at_the_call(name, array, monkeypatch):
    f, *values = CASES[name]
    monkeypatch.setitem(globals(), "CONSTANT", array(A))
    xs = [array(x) for x in values]
    y, pullback = ldiv.vjp(f, *xs)
    y_bar = array(RNG.standard_normal(tuple(y.shape)).astype(np.asarray(y).dtype))
    wanted = [np.asarray(g).copy() for g in pullback(y_bar)]
    for written in (*xs, y, *([CONSTANT] if array is np.array else [])):
        written[...] = 0.5 * written
        ldiv.clear_cache()
        for g, w in zip(pullback(y_bar), wanted, strict=True):
            assert np.array_equal(g, w)


def test_what_a_pullback_returns_is_the_callers():
    _, pullback = ldiv.vjp(ldiv.solve, A, B)
    first = pullback(B)
    wanted = [g.copy() for g in first]
    for g in first:
        g[...] = 0.0
    assert all(np.array_equal(g, w) for g, w in zip(pullback(B), wanted, strict=True))


def doubled(a, b):
    x = ldiv.solve(a, b)
    x *= 2
    return x


def emptied(a, b):
    x = ldiv.solve(a, b)
    b[...] = 0
    return x


@pytest.mark.parametrize("f", [doubled, emptied])
def test_a_function_that_writes_to_what_its_rule_saw_is_refused(f):
    with pytest.raises(ValueError, match="leaves the arguments and results of its rule alone"):
        ldiv.vjp(f, A.copy(), B.copy())
    with pytest.raises(ValueError, match="leaves the arguments and results of its rule alone"):
        ldiv.jvp(f, (A.copy(), B.copy()), (A, None))


def jax_array(x):
    return pytest.importorskip("jax").numpy.asarray(
        np.asarray(x, dtype=np.complex64 if np.iscomplexobj(x) else np.float32)
    )


@pytest.mark.parametrize(
    "array",
    [
        pytest.param(np.array, id="numpy"),
        pytest.param(torch.tensor, id="torch"),
        pytest.param(jax_array, id="jax", marks=pytest.mark.exhaustive),
    ],
)
def test_complex_numbers_along_real_ones_are_refused(array):
    a, b, c = array(A), array(B), array(1j * B)
    for call in (
        lambda: ldiv.vjp(ldiv.solve, a, b)[1](c),
        lambda: ldiv.vjp(ldiv.slogdet, array(A + 0j))[1]((None, array(np.array(1j)))),
    ):
        with pytest.raises(TypeError, match="real numbers, as those of its value, got complex"):
            call()
    for tangents in ((None, c), (array(1j * A), None)):
        with pytest.raises(TypeError, match="real numbers, as those of its argument, got complex"):
            ldiv.jvp(ldiv.solve, (a, b), tangents)
    with pytest.raises(TypeError, match="real numbers, as those of its argument"):
        ldiv.jvp(lambda S: S @ b, (sparse(a.ravel()),), (sparse(array(1j * A).ravel()),))
    # a real argument of a complex value has a real cotangent
    assert ldiv.vjp(ldiv.solve, array(A + 0j), b)[1](c)[1].dtype == b.dtype


def test_a_refusal_holds_no_factor(monkeypatch: pytest.MonkeyPatch) -> None:
    """A refused function of several rules leaves no cycle that keeps its results."""
    monkeypatch.setattr(numpy_record, "installed_recorder", lambda name: None)
    gc.collect()
    gc.disable()
    try:
        before = ldiv.cache_info().entries
        with pytest.raises(ValueError, match="vjp"):
            ldiv.vjp(lambda a, b: ldiv.solve(a + a.T, b, assume_a="sym"), SPD, B)
        assert ldiv.cache_info().entries == before
    finally:
        gc.enable()
