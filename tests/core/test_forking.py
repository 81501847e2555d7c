"""What a forked child inherits; that it solves is among the adversary's tests of processes."""

import threading

from ldiv.core import forking


def test_a_lock_that_another_thread_holds_is_open_after_a_fork():
    held = forking.lock()
    other = threading.Thread(target=held.acquire)
    other.start()
    other.join(25)
    assert not held.acquire(blocking=False)
    forking._open()
    assert held.acquire(blocking=False)
