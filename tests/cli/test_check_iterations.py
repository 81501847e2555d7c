"""python -m ldiv check with an engine that iterates, and with input at the ends of the range: a
table, or one sentence.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

from ldiv.__main__ import main

rng = np.random.default_rng(2)
GENERAL = sp.random_array((20, 20), density=0.2, rng=rng) + 5 * sp.eye_array(20)
POSITIVE = GENERAL @ GENERAL.T


@pytest.mark.parametrize(
    ("method", "a", "promise"),
    [
        ("cg", POSITIVE, "pos"),
        ("minres", POSITIVE, "her"),
        ("gmres", GENERAL, "gen"),
        ("bicgstab", GENERAL, "gen"),
    ],
)
@pytest.mark.parametrize("factor", [1.0, 1 + 0.5j])
def test_an_iteration_is_checked(
    method: str, a: Any, promise: str, factor: complex, tmp_path: Path, capsys: Any
) -> None:
    a = a if promise != "gen" else factor * a
    scipy.io.mmwrite(tmp_path / "A.mtx", a)
    scipy.io.mmwrite(tmp_path / "b.mtx", np.real_if_close(factor) * np.ones((20, 2)))
    code = main(
        [
            "check",
            str(tmp_path / "A.mtx"),
            "--rhs",
            str(tmp_path / "b.mtx"),
            "--method",
            method,
            "--assume-a",
            promise,
        ]
    )
    out, err = capsys.readouterr()
    assert (code, err) == (0, "")
    assert f" {method} " in out
    assert "ordering" not in out


HEAD = "%%MatrixMarket matrix coordinate real general\n"
FILES = {
    "empty": ("", 2),
    "junk": ("\x00\x01", 2),
    "cut off": (HEAD + "3 3 5\n1 1 1.0\n", 2),
    "negative": (HEAD + "-2 -2 1\n1 1 1\n", 2),
    "infinite": (HEAD + "2 2 2\n1 1 1e400\n2 2 1\n", 2),
    "rectangular": (HEAD + "2 3 1\n1 1 1\n", 2),
    "singular": (HEAD + "2 2 1\n1 1 1\n", 1),
    "huge entries": (HEAD + "2 2 3\n1 1 1e300\n2 2 1e300\n1 2 1e299\n", 1),
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("method", ["auto", "gmres", "cg"])
def test_one_sentence(name: str, method: str, tmp_path: Path, capsys: Any) -> None:
    text, expected = FILES[name]
    (tmp_path / "A.mtx").write_text(text)
    code = main(["check", str(tmp_path / "A.mtx"), "--method", method])
    err = capsys.readouterr().err
    assert code == expected or method == "cg"
    assert code > 0
    assert err.startswith("ldiv: ")
    assert err.count("\n") == 1
