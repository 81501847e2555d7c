"""A property that is computed once: where it is asked for again, and who waits for whom."""

import os
import pickle
import threading

import apart
import pytest

from ldiv.core.cached_property import cached_property


class Square:
    def __init__(self, x, gate=None):
        self.x, self.gate, self.count = x, gate, 0

    @cached_property
    def value(self):
        """x^2."""
        self.count += 1
        if self.gate is not None:
            self.gate[0].set()
            self.gate[1].wait(30)
        return [self.x**2]


@pytest.fixture
def busy():
    """A thread that is inside of the property of another instance."""
    entered, leave = threading.Event(), threading.Event()
    other = threading.Thread(target=lambda: Square(3, (entered, leave)).value)
    other.start()
    assert entered.wait(30)
    yield
    leave.set()
    other.join(30)


def test_it_is_computed_once():
    x = Square(3)
    assert x.value is x.value
    assert (x.value, x.count) == ([9], 1)
    assert pickle.loads(pickle.dumps(x)).value == [9]
    assert Square.value.__doc__ == "x^2."


def test_threads_that_compute_at_once_have_one_value():
    gate = threading.Event(), threading.Barrier(2)
    x, found = Square(3, gate), []
    threads = [threading.Thread(target=lambda: found.append(x.value)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert found[0] is found[1] is x.value


def test_nobody_waits_for_another_instance(busy):
    found = []
    asking = threading.Thread(target=lambda: found.append(Square(2).value), daemon=True)
    asking.start()
    asking.join(10)
    assert found == [[4]]


FORKED = """
import os
import threading

from ldiv.core.cached_property import cached_property


class Late:
    entered = threading.Event()

    @cached_property
    def value(self):
        if threading.current_thread() is not threading.main_thread():
            self.entered.set()
            threading.Event().wait()
        return 4


threading.Thread(target=lambda: Late().value, daemon=True).start()
Late.entered.wait(10)
child = os.fork()
if not child:
    threading.Timer(10, os._exit, (2,)).start()
    os._exit(0 if Late().value == 4 else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_child_does_not_wait_for_a_thread_that_it_has_not():
    # in a process of its own, as what else is loaded here may not like to be forked
    done = apart.run(FORKED)
    assert done.stdout.split() == ["0"], done.stderr
