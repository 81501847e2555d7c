"""A process that is forked while another thread is inside of a compiled factor has that factor whole,
and the threads of BLAS, of which such a call has one, are as many as before it.
"""

from __future__ import annotations

import os

import apart
import numpy as np
import pytest

from ldiv.core.frameworks.pattern import Pattern
from ldiv.engines.libraries import native
from ldiv.engines.selected.fronts import Fronts

FIRST = """
import os, signal, time, warnings
from threading import Event, Thread
import numpy as np, scipy.sparse as sp
from threadpoolctl import threadpool_info
import ldiv
from ldiv.engines.selected.compiled import CompiledBlockLu
from ldiv.engines.selected.compiled import CompiledCholesky
from ldiv.engines.selected.fronts import Fronts

warnings.simplefilter("ignore")  # Python's, about forks
path, one = sp.diags_array([2.1, -1.0, -1.0], offsets=[0, 1, -1], shape=(16, 16)), sp.eye_array(16)
pairs = sp.kron(path, one) + sp.kron(one, path)
A = ldiv.asarray(sp.csc_array(sp.kron(pairs, one) + sp.kron(sp.eye_array(256), path)))
fronts, b = Fronts(A.structure.pattern), np.ones(A.shape[0])
values = fronts.arranged(A.structure.slot_values(A.data))
fronts.compiled, fronts.compiled_both
"""
FORKED = """
def blas():
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

threads = blas()
for kind in (CompiledCholesky.of, CompiledBlockLu):
    make = lambda: kind("", fronts, values)
    expected = make().inverse_slots()
    for wait in (0, 1e-3, 4e-3):
        factor, begun = make(), Event()
        thread = Thread(target=lambda: (begun.set(), factor.inverse_slots()))
        thread.start()
        begun.wait()
        time.sleep(wait)
        if (child := os.fork()) == 0:
            signal.alarm(12)
            x = ldiv.solve(A, b, assume_a="pos")
            right = np.allclose(factor.inverse_slots(), expected) and np.allclose(A @ x, b)
            os._exit(0 if right and blas() == threads else 1)
        print(os.waitpid(child, 0)[1])
        thread.join()
        print(np.allclose(factor.inverse_slots(), expected) and blas() == threads)
"""


@pytest.mark.skipif(native.native is None, reason=native.why_not)
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_forked_while_another_thread_inverts() -> None:
    """No lock stays closed, and nothing half written counts as done."""
    pytest.importorskip("threadpoolctl")
    two = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "2")
    seen = apart.run(FORKED, first=FIRST, **two)
    assert seen.stdout.split() == ["0", "True"] * 6, seen.stderr


@pytest.mark.skipif(native.native is None, reason=native.why_not)
def test_places_are_found_again_after_an_error() -> None:
    """The error stands for a process that was forked while the places were looked for."""
    i = np.arange(3)
    fronts = Fronts(Pattern(i, i, (3, 3)))
    with pytest.raises(ValueError, match="permuted pattern"):
        fronts._made.locate(np.array([0, 2, 4, 4]), np.array([0, 1, 0, 1]))
    assert fronts.compiled is fronts._made
