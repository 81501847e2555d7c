"""The `py3-none-any` wheel: ldiv without its compiled part, where threads cannot be started either, as
in a browser (Pyodide); it says what it lacks.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ldiv.engines.libraries import native

PROGRAM = """
import _thread, os, sys, threading

for name in ("ldiv._native", "fcntl", "resource", "termios"):
    sys.modules[name] = None  # cannot be imported
for name in ("fork", "register_at_fork"):
    if hasattr(os, name):
        delattr(os, name)

def refused(*args, **kwargs):
    raise RuntimeError("can't start new thread")

for name in ("start_new_thread", "start_joinable_thread"):
    for module, prefix in ((_thread, ""), (threading, "_")):
        if hasattr(module, prefix + name):
            setattr(module, prefix + name, refused)

import numpy as np, scipy.sparse as sp
import ldiv

a = sp.diags_array([-np.ones(99), np.full(100, 4.0), -np.ones(99)], offsets=[-1, 0, 1]).tocsc()
b, A = np.linspace(1.0, 2.0, 100), ldiv.asarray(a)
for matrix in (A, a.toarray()):
    for promise in ("gen", "sym", "pos"):
        x, pullback = ldiv.vjp(lambda A, b: ldiv.solve(A, b, assume_a=promise), matrix, b)
        assert np.abs(a @ x - b).max() < 1e-13
        assert np.abs(a @ pullback(x)[1] - x).max() < 1e-13
logdet = np.linalg.slogdet(a.toarray())[1]
value, pullback = ldiv.vjp(lambda v: ldiv.logdet(A.with_data(v), assume_a="pos"), A.data)
assert abs(value - logdet) < 1e-11
assert np.allclose(pullback(np.ones(()))[0], np.linalg.inv(a.toarray())[A.row, A.col])
assert np.allclose(ldiv.eigsh(A, 3, sigma=0)[0], np.linalg.eigvalsh(a.toarray())[:3])
try:
    ldiv.solve(np.ones((3, 3)), np.ones(3))
except ldiv.SingularMatrixError:
    print("refused")
from ldiv.__main__ import main
main(["info"])
"""


def test_without_the_compiled_part_and_without_threads() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("refused")
    assert "missing" in done.stdout.partition("ldiv._native")[2].splitlines()[0]


def test_it_says_what_it_lacks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(native.VARIABLE, raising=False)
    monkeypatch.setitem(sys.modules, "ldiv._native", None)
    monkeypatch.setattr(native, "SOURCES", tmp_path / "native")  # not a checkout
    module, reason = native._load()
    assert module is None
    assert "Python alone" in reason
    assert "take longer" in reason


def test_a_compiled_part_of_other_sources_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if native.native is None:
        pytest.skip("without the compiled part")
    (tmp_path / "CMakeLists.txt").touch()
    monkeypatch.delenv(native.VARIABLE, raising=False)
    monkeypatch.setattr(native, "SOURCES", tmp_path)
    with pytest.warns(UserWarning, match="without its compiled part.*other sources"):
        assert native._load()[0] is None
