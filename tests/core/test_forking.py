"""The state that a forked child inherits; its solves are among the adversary's tests of processes."""

import subprocess
import sys
import threading
from pathlib import Path

import apart

from ldiv.core.owners import forking

FORK_DURING_AN_IMPORT = """
import os, threading
from ldiv.core.owners.forking import import_module
begun = threading.Event()
threading.Thread(target=import_module, args=["takes_time"]).start()
begun.wait(25)
child = os.fork()
if not child:
    os._exit(import_module("takes_time").value)
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_lock_that_another_thread_holds_is_open_after_a_fork():
    held = forking.lock()
    other = threading.Thread(target=held.acquire)
    other.start()
    other.join(25)
    assert not held.acquire(blocking=False)
    forking._open()
    assert held.acquire(blocking=False)


def test_a_fork_waits_for_an_import_in_another_thread(tmp_path: Path) -> None:
    """Else the child waits for the module for ever: no thread of it is importing it."""
    (tmp_path / "takes_time.py").write_text(
        "import time, __main__\n__main__.begun.set()\ntime.sleep(.5)\nvalue = 7"
    )
    script = tmp_path / "script.py"
    script.write_text(FORK_DURING_AN_IMPORT)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", script], timeout=apart.LIMIT, check=False
    )
    assert done.returncode == 7
