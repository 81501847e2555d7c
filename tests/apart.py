"""Scripts in a process of their own, which has what they need, whoever has started the tests.

Ctrl-C raises KeyboardInterrupt in it. Where the tests run as a job in the background, as in many CI
systems, they ignore SIGINT, and an ignored signal stays so in all that they start. A script that
does not end is ended, and says where its threads are.
"""

from __future__ import annotations

import os
import subprocess
import sys

LIMIT = 30.0  # seconds: no test of signals, forks or threads waits longer for anything

PRELUDE = """
import faulthandler, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
if hasattr(signal, "pthread_sigmask"):
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
faulthandler.dump_traceback_later({seconds}, exit=True)
"""


def run(
    script: str, *, first: str = "", seconds: float = LIMIT, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run the script in a process of its own. Imports of `first`, which are slow beside other work,
    have as many seconds of their own.
    """
    clock = PRELUDE.format(seconds=seconds)
    return subprocess.run(
        [sys.executable, "-c", clock + first + clock + script],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=2 * seconds + 5,  # processes that it started may hold its pipes
    )
