"""The number of threads: who says it, where it holds, and that results do not depend on it."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apart
import numpy as np
import pytest
import scipy.sparse as sp

import ldiv
from ldiv.engines.libraries import mkl_pardiso, native, threads

needs_mkl = pytest.mark.skipif(mkl_pardiso.path() is None, reason="MKL is missing")
compiled = pytest.mark.skipif(native.native is None, reason=native.why_not)
VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "PYTEST_XDIST_WORKER")


@pytest.fixture(autouse=True)
def _nothing_said(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(threads, "_asked", None)


def grid(n: int) -> Any:
    path = sp.diags_array([2.1, -1.0, -1.0], offsets=[0, 1, -1], shape=(n, n))
    return ldiv.asarray(
        sp.csc_array(sp.kron(path, sp.eye_array(n)) + sp.kron(sp.eye_array(n), path))
    )


# -- who says it --------------------------------------------------------------


def test_the_environment_is_obeyed_and_then_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ldiv.get_num_threads() == threads.cores() <= (os.cpu_count() or 1)
    for said, expected in (("3", 3), ("3,2", 3), ("0", None), ("many", None), ("", None)):
        monkeypatch.setenv("OMP_NUM_THREADS", said)
        assert ldiv.get_num_threads() == (expected or threads.cores())
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setenv("MKL_NUM_THREADS", "5")
    assert threads.threads("MKL_NUM_THREADS") == 5 and threads.threads("OTHER_NUM_THREADS") == 3


def test_it_is_set_for_good_or_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    with ldiv.set_num_threads(7), ldiv.set_num_threads(2):
        assert ldiv.get_num_threads() == threads.threads("MKL_NUM_THREADS") == 2
    assert ldiv.get_num_threads() == 3
    with pytest.raises(KeyError), ldiv.set_num_threads(7):
        raise KeyError
    with ldiv.set_num_threads(4):
        ldiv.set_num_threads(5)
        assert ldiv.get_num_threads() == 5
    assert ldiv.get_num_threads() == 3


@pytest.mark.parametrize("bad", [0, -1, 1.5, "2", None, True, 10**6])
def test_what_is_no_number_of_threads(bad: Any) -> None:
    with pytest.raises((ValueError, TypeError), match="number of threads from 1 to 1024"):
        ldiv.set_num_threads(bad)
    assert threads._asked is None


def test_a_container_has_the_cores_that_it_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "cpu.max"
    monkeypatch.setattr(threads, "QUOTA", file)
    for text, cores in (
        ("max 100000", None),
        ("150000 100000", 2),
        ("50000 100000", 1),
        ("", None),
    ):
        file.write_text(text)
        threads._quota.cache_clear()
        assert threads._quota() == (cores or sys.maxsize)
    threads._quota.cache_clear()


def test_workers_take_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers may ask for more threads themselves; a number set by their parent is not theirs."""
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    seen = apart.run(WORKERS)
    starts = multiprocessing.get_all_start_methods()
    assert seen.stdout.split() == ["4", "1"] * len(starts) + ["2"], seen.stderr
    found = ldiv.get_num_threads()
    monkeypatch.setenv("PYTEST_XDIST_WORKER", "gw0")
    assert (found, ldiv.get_num_threads()) == (3, 1)


# in a process of its own, as what else is loaded here may not like to be forked
WORKERS = """
import multiprocessing
import ldiv

for start in multiprocessing.get_all_start_methods():
    context = multiprocessing.get_context(start)
    with ldiv.set_num_threads(4), context.Pool(1) as pool:
        print(ldiv.get_num_threads(), pool.apply(ldiv.get_num_threads))
with multiprocessing.Pool(1, ldiv.set_num_threads, (2,)) as asking:
    print(asking.apply(ldiv.get_num_threads), flush=True)
"""


# -- where it holds -----------------------------------------------------------


def test_blas_is_limited_and_let_go() -> None:
    control = pytest.importorskip("threadpoolctl")

    def of_blas() -> set[int]:
        pools = control.threadpool_info()
        return {p["num_threads"] for p in pools if p["user_api"] == "blas"}

    with control.threadpool_limits(2, user_api="blas"):
        with ldiv.set_num_threads(1):
            assert of_blas() <= {1}
        assert of_blas() <= {2}


@needs_mkl
def test_pardiso_takes_the_number_and_leaves_that_of_others() -> None:
    """Also where it changes between the analysis, the factorization and the solve."""
    A, b = grid(40), np.ones(1600)
    mkl = mkl_pardiso.library()
    before = mkl.MKL_Get_Max_Threads()
    solutions = []
    for made, used in ((1, 2), (2, 1), (2, 2)):
        ldiv.clear_cache()
        with ldiv.set_num_threads(made):
            F = ldiv.factorized(A, assume_a="pos", method="pardiso")
        with ldiv.set_num_threads(used):
            solutions += [F.solve(b), ldiv.solve(A.with_data(A.data * 2), 2 * b, method="pardiso")]
    assert max(np.abs(A @ x - b).max() for x in solutions) < 1e-11
    assert mkl.MKL_Get_Max_Threads() == before


@needs_mkl
@pytest.mark.parametrize(
    "assume_a", ["sym", *(pytest.param(a, marks=pytest.mark.exhaustive) for a in ("pos", "gen"))]
)
def test_the_number_may_change_between_factors_of_a_pattern(assume_a: Any) -> None:
    """PARDISO finds pivots that are none where its phases differ in it, and the matrix is large."""
    line = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(30, 30))
    square = sp.kronsum(line, line)
    A = ldiv.asarray(sp.csr_array(sp.kronsum(square, line)))
    b, kept = np.ones(A.shape[0]), []
    for scale, k in enumerate((1, 2, 1, 2), 1):
        with ldiv.set_num_threads(k):
            scaled = A.with_data(A.data * scale)
            kept.append((ldiv.factorized(scaled, assume_a=assume_a, method="pardiso"), scale))
        for F, factor in kept[-2:]:  # made with another number than is allowed now
            np.testing.assert_allclose(A @ F.solve(b) * factor, b, atol=1e-11)


@compiled
def test_factors_are_the_same_to_the_last_bit() -> None:
    """However many threads divide the analysis and the factorization, or none."""
    A, b = grid(60), np.random.default_rng(0).standard_normal(3600)
    solutions = []
    for k in (1, 2, 3):
        ldiv.clear_cache()
        with ldiv.set_num_threads(k):
            solutions.append(ldiv.solve(A, b, assume_a="sym", method="ldl"))
    assert all(np.array_equal(x, solutions[0]) for x in solutions)


# -- Ctrl-C -------------------------------------------------------------------


@pytest.fixture
def ignored_ctrl_c() -> Iterator[None]:
    """Ignore Ctrl-C, as if the tests were a job in the background."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGINT, before)


FACTORING = """
import os, signal, threading, time
import numpy as np, scipy.sparse as sp
import ldiv

path = sp.diags_array([2.1, -1.0, -1.0], offsets=[0, 1, -1], shape=(30, 30))
square = sp.kronsum(path, path)
A = ldiv.asarray(sp.csc_array(sp.kronsum(square, path) - 2.7 * sp.eye_array(27000)))
b = np.ones(27000)
x = ldiv.solve(A, b, assume_a="sym", method="ldl")

def ctrl_c():
    time.sleep(0.3)
    os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=ctrl_c).start()
try:
    while True:
        ldiv.solve(A.with_data(A.data * np.random.rand()), b, assume_a="sym", method="ldl")
except KeyboardInterrupt:
    print("heard")
print(np.array_equal(ldiv.solve(A, b, assume_a="sym", method="ldl"), x))
"""


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="signals of POSIX")
@compiled
@pytest.mark.usefixtures("ignored_ctrl_c")
def test_ctrl_c_stops_it() -> None:
    """The next solve is right: nothing is left half done."""
    seen = apart.run(FACTORING)
    assert seen.stdout.split() == ["heard", "True"], seen.stderr
