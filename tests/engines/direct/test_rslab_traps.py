"""Traps of RSLAB: a release that changes any of them must be examined anew.

Each test states a fact that `ldiv.engines.direct.rslab` is built around. One that fails says nothing
bad about a new release, only that the range of versions in pyproject.toml may not include it before
the engine, and `ldiv.engines.libraries.rslab`, have been read again.
"""

import pickle

import apart
import numpy as np
import pytest
import scipy.sparse as sp

pytest.importorskip("rslab", reason="RSLAB has no wheel for this platform")
from rslab import _rslab

N = 30


def parts(a, dtype=np.int64):
    a = sp.csc_array(a)
    a.sort_indices()
    return a.shape[0], a.indptr.astype(dtype), a.indices.astype(dtype), a.data


def lower(a, dtype=np.int64):
    return parts(sp.tril(sp.csc_array(a)), dtype)


@pytest.fixture
def general():
    a = sp.random_array((N, N), density=0.1, rng=np.random.default_rng(0)) + 5 * sp.eye_array(N)
    return sp.csc_array(a)


@pytest.fixture
def symmetric(general):
    return sp.csc_array(general + general.T)


def ldlt(a, **settings):
    return _rslab.ldlt_factor(*lower(a), threads=1, **settings)


def error(a, x, b):
    return np.abs(a @ x - b).max()


def test_ldlt_reads_the_lower_triangle_and_no_promise(general, symmetric):
    """Neither an unsymmetric nor a Hermitian matrix is noticed: the solution is another's."""
    b = np.ones(N)
    assert error(general, ldlt(general).solve(b), b) > 1e-3
    skew = sp.triu(general, 1) - sp.triu(general, 1).T
    hermitian = sp.csc_array(symmetric + 1j * skew)
    assert error(hermitian, ldlt(hermitian).solve(b.astype(complex)), b) > 1e-3
    assert error(symmetric, ldlt(symmetric).solve(b), b) < 1e-12


def test_ldlt_wants_strictly_one_triangle_with_wide_indices(symmetric):
    with pytest.raises(RuntimeError, match="lower triangle"):
        _rslab.ldlt_factor(*parts(symmetric), threads=1)
    with pytest.raises(TypeError, match="indptr"):
        _rslab.ldlt_factor(*lower(symmetric, np.int32), threads=1)


def test_not_a_number_is_called_singular(symmetric):
    bad = symmetric.copy()
    bad.data[0] = np.nan
    with pytest.raises(RuntimeError, match="deficient"):
        ldlt(bad)


def test_singular_is_a_plain_error_told_by_its_text():
    singular = sp.csc_array(np.ones((4, 4)))
    with pytest.raises(RuntimeError, match="deficient"):
        ldlt(singular)
    unmatched = sp.csc_array(([1.0, 1.0], ([0, 1], [0, 0])), shape=(2, 2))
    with pytest.raises(RuntimeError, match="singular"):
        _rslab.analyze_klu(*parts(unmatched), parallel=False, matching=False)


def test_some_regular_matrices_with_zeros_on_the_diagonal_are_refused():
    """A pivot is looked for inside of a dense block only."""
    rng, refused = np.random.default_rng(0), 0
    for _ in range(40):
        b = sp.random_array((20, 60), density=0.05, rng=rng) + sp.eye_array(20, 60)
        d = sp.diags_array(np.where(np.arange(60) < 20, 0.0, 1.0))
        saddle = sp.block_array([[d, b.T], [b, None]], format="csc")
        try:
            ldlt(saddle)
        except RuntimeError:
            refused += 1
    assert refused > 0


def test_solves(symmetric):
    """No columns, and other dtypes, are errors."""
    b, factor = np.random.default_rng(1).standard_normal((N, 2)), ldlt(symmetric)
    with pytest.raises(RuntimeError, match="dimension"):
        factor.solve_many(np.ones((N, 0)))
    for other in (np.float32, np.complex128):
        with pytest.raises(ValueError, match="dtype"):
            factor.solve(b[:, 0].astype(other))
    for layout in "CF":
        x = ldlt(symmetric).solve_many(np.array(b, order=layout))
        assert error(symmetric, x, b) < 1e-12


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_one_analysis_serves_all_dtypes(symmetric, dtype):
    b, tol = np.ones(N, dtype), 100 * np.finfo(dtype).eps
    analysis, a = _rslab.analyze_ldlt(*lower(symmetric), threads=1), symmetric.astype(dtype)
    f = analysis.factor(lower(a)[3])
    assert f.dtype == dtype
    assert error(a, f.solve(b), b) < tol


def test_values_are_copied_and_nothing_pickles(symmetric):
    n, starts, rows, values = lower(symmetric)
    values, b = values.copy(), np.ones(N)
    analysis = _rslab.analyze_ldlt(n, starts, rows, values, threads=1)
    f = analysis.factor(values, threads=1)
    before = f.solve(b)
    values *= 7
    assert np.array_equal(before, f.solve(b))
    for each in (f, analysis):
        with pytest.raises(TypeError, match="pickle"):
            pickle.dumps(each)


def test_inertia_and_pivots():
    """The inertia, and no D."""
    a = sp.diags_array([1.0, -2.0, 3.0]).tocsc()
    f = ldlt(a)
    assert f.inertia == (2, 1, 0)
    assert not hasattr(f, "D")


def test_any_number_of_threads_gives_the_same_bits():
    side = 40
    one = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(side, side))
    a = sp.kron(one, sp.eye_array(side)) + sp.kron(sp.eye_array(side), one)
    b = np.ones(side**2)
    one, two = (_rslab.ldlt_factor(*lower(a), threads=k).solve(b) for k in (1, 2))
    assert np.array_equal(one, two)


POOLS = """
import os, select, signal
import numpy as np
from rslab import _rslab
a = 3, np.arange(4), np.arange(3), np.ones(3)
_rslab.ldlt_factor(*a, threads=1)
def ends(threads, seconds):
    ended, open_as_long_as_it_lives = os.pipe()
    child = os.fork()
    if child == 0:
        _rslab.ldlt_factor(*a, threads=threads)
        os._exit(0)
    os.close(open_as_long_as_it_lives)
    found = bool(select.select([ended], [], [], seconds)[0])
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return found
print(ends(1, 2), ends(2, 20))
"""


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="this system does not fork")
def test_a_pool_does_not_survive_a_fork_and_another_number_has_another_pool():
    seen = apart.run(POOLS)
    assert seen.stdout.split() == ["False", "True"], seen.stderr


def test_the_first_solve_may_be_in_a_thread_that_ends():
    """Loaded by a thread that ends, RSLAB crashes the process in the factorizations that follow."""
    code = """
import threading
import numpy as np
import ldiv

def work(s):
    A = ldiv.diags_array([s * np.ones(900)], offsets=[0], shape=(900, 900))
    x = ldiv.solve(A, np.ones(900), assume_a="sym", method="rslab")
    assert np.allclose(x, 1 / s)

for _ in range(20):
    threads = [threading.Thread(target=work, args=(1.0 + s,)) for s in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
print("solved")
"""
    seen = apart.run(code)
    assert (seen.returncode, seen.stdout) == (0, "solved\n"), seen.stderr
