"""A process that is killed, that fails, or that does not come: the others end within seconds.

Each test starts processes of its own, so that it runs where there is one.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from distributed.problem import SIZE

import ldiv

pytestmark = [
    pytest.mark.skipif(SIZE > 1, reason="starts processes of its own"),
    pytest.mark.skipif(shutil.which("mpirun") is None, reason="there is no mpirun: `make mpi`"),
]
LIMIT = 60  # seconds, of which starting Python takes most
PREPARE = """
import os, signal, sys, time
import numpy as np
import ldiv
from ldiv import distributed
from mpi4py import MPI
rank, mine = MPI.COMM_WORLD.rank, np.array(distributed.owned(10))
A = distributed.coo_array((mine + 1.0, (mine, mine)), shape=(10, 10))
ldiv.solve(A, mine + 1.0)
"""


def run(script: str, *, timeout: str = "60") -> tuple[int, str, float]:
    """Two processes with this script, as a user starts them: exit status, output, seconds."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("OMPI", "PMIX", "PRTE"))}
    told = inherited | {
        "PYTHONPATH": str(Path(ldiv.__file__).parents[1]),
        "LDIV_DISTRIBUTED_TIMEOUT": timeout,
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    }
    command = ["mpirun", "--oversubscribe", "-n", "2", sys.executable, "-m", "mpi4py", "-c"]
    start = time.monotonic()
    done = subprocess.run(
        [*command, PREPARE + script],
        env=told,
        capture_output=True,
        text=True,
        check=False,
        timeout=4 * LIMIT,
    )
    return done.returncode, done.stdout + done.stderr, time.monotonic() - start


def test_a_killed_process_ends_all() -> None:
    status, said, seconds = run(
        "if rank: os.kill(os.getpid(), signal.SIGKILL)\nldiv.solve(A, mine + 2.0)\n"
    )
    assert status != 0
    assert "signal 9" in said
    assert seconds < LIMIT


def test_an_error_of_the_user_ends_all() -> None:
    status, said, seconds = run("if rank: raise KeyError('mine')\nldiv.solve(A, mine + 2.0)\n")
    assert status != 0
    assert "KeyError: 'mine'" in said
    assert seconds < LIMIT


@pytest.mark.parametrize("status", [0, 1])
def test_a_process_that_leaves_ends_those_that_wait_for_it(status: int) -> None:
    found, said, seconds = run(
        f"if rank: sys.exit({status})\n"
        "try:\n"
        "    ldiv.solve(A, mine + (np.nan if rank == 0 else 0.0))\n"
        "except ValueError:\n"
        "    print('REFUSED', flush=True)\n"
        "ldiv.solve(A, mine + 2.0)\n"
    )
    assert found != 0
    assert "REFUSED" in said
    assert "process 1 is at the end of the program" in said
    assert seconds < LIMIT


def test_a_process_that_is_done_waits_for_the_others() -> None:
    status, said, _ = run("if rank == 0: time.sleep(3)\nprint('DONE', rank)\n", timeout="2")
    assert status == 0, said
    assert said.count("DONE") == 2


def test_a_process_that_does_not_come_is_named() -> None:
    status, said, seconds = run(
        "if rank: time.sleep(600)\nldiv.solve(A, mine + 2.0)\n", timeout="2"
    )
    assert status != 0
    assert "RankError: process 0 has waited 2 s in solve" in said
    assert seconds < LIMIT


def test_who_has_given_up_waiting_does_not_go_on() -> None:
    status, said, seconds = run(
        "if rank: time.sleep(600)\n"
        "for _ in range(3):\n"
        "    try:\n"
        "        ldiv.solve(A, mine + 2.0)\n"
        "    except distributed.RankError as error:\n"
        "        print('REFUSED', str(error)[:30], flush=True)\n",
        timeout="2",
    )
    assert status != 0
    assert said.count("REFUSED process 0 has waited 2 s") == 3
    assert seconds < LIMIT


def test_errors_that_all_raise_leave_nobody_behind() -> None:
    status, said, _ = run(
        "try:\n"
        "    ldiv.solve(A, mine + (np.nan if rank else 0.0))\n"
        "except ValueError as error:\n"
        "    print('REFUSED', rank, flush=True)\n"
        "print('GOES ON', rank, ldiv.solve(A, mine + 1.0).sum(), flush=True)\n"
    )
    assert status == 0, said
    assert said.count("REFUSED") == said.count("GOES ON") == 2
