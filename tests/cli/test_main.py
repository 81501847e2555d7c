"""python -m ldiv: what it reads, its exit codes, and one line for each error."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

from ldiv import __main__, __version__, asarray
from ldiv.__main__ import main
from ldiv.cli import machine, report
from ldiv.cli.verify import verify
from ldiv.engines import registry

DATA = Path(os.environ.get("LDIV_TEST_DATA", Path(__file__).parents[3] / "shared/data"))
ROWS = (
    "n",
    "nnz",
    "b",
    "engine",
    "ordering",
    "factor",
    "solve",
    "adjoint",
    "gradient error",
    "residual",
    "condition",
    "peak memory",
)
rng = np.random.default_rng(3)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """(exit code, stdout, stderr) of a command."""

    def call(*argv: object) -> tuple[int, str, str]:
        return main([str(arg) for arg in argv]), *capsys.readouterr()

    return call


@pytest.fixture
def saved(tmp_path: Path) -> Callable[[Any], Path]:
    """The path of a Matrix Market file of a matrix."""

    def save(a: Any, name: str = "A.mtx", **options: Any) -> Path:
        scipy.io.mmwrite(tmp_path / name, a, **options)
        return tmp_path / name

    return save


def random_matrix(dtype: str = "float64") -> Any:
    a = sp.random_array((30, 30), density=0.1, rng=rng) + 4 * sp.eye_array(30)
    return a * (1 + 0.5j) if dtype == "complex128" else a


# -- a check that passes: 0 ---------------------------------------------------


@pytest.mark.parametrize(
    ("name", "promise"),
    [
        ("494_bus", "pos"),
        ("adder_dcop_05", "gen"),
        ("bcsstk01", "pos"),
        ("bcsstk13", "pos"),
        ("hangGlider_2", "gen"),
        ("hangGlider_2", "sym"),
        ("mhd1280b", "her"),
        ("mhd1280b", "pos"),
        ("tumorAntiAngiogenesis_2", "sym"),
        ("watt_2", "gen"),
        ("west0479", "gen"),
        ("young1c", "gen"),
    ],
)
def test_real_matrices(run: Any, name: str, promise: str) -> None:
    path = DATA / f"{name}.mtx"
    if not path.exists():
        pytest.skip(
            f"{path} is not there: set LDIV_TEST_DATA to a folder that has the real matrices"
        )
    code, out, err = run("check", path, "--assume-a", promise)
    assert (code, err) == (0, "")
    assert all(f"│ {row} " in out for row in ROWS)


@pytest.mark.parametrize("format", ["csr", "csc", "coo", "bsr", "dia"])
def test_npz(run: Any, tmp_path: Path, format: str) -> None:
    sp.save_npz(tmp_path / "A.npz", random_matrix().asformat(format))
    assert run("check", tmp_path / "A.npz")[0] == 0


def test_npy(run: Any, tmp_path: Path) -> None:
    np.save(tmp_path / "A.npy", random_matrix().toarray())
    np.save(tmp_path / "b.npy", np.ones(30))
    code, out, _ = run("check", tmp_path / "A.npy", "--rhs", tmp_path / "b.npy")
    assert code == 0
    assert "random" not in out


@pytest.mark.parametrize(
    ("header", "promise"), [("symmetric", "sym"), ("hermitian", "her"), ("general", "gen")]
)
def test_the_header_is_a_promise_and_is_said(
    run: Any, tmp_path: Path, header: str, promise: str
) -> None:
    """A promise of one's own goes before that of the file."""
    field, one, two = ("complex", "0 1", "3 0") if header == "hermitian" else ("real", "1", "3")
    path = tmp_path / "A.mtx"
    path.write_text(
        f"%%MatrixMarket matrix coordinate {field} {header}\n2 2 3\n1 1 {two}\n2 2 {two}\n2 1 {one}\n"
    )
    code, out, _ = run("check", path)
    assert code == 0
    assert f"assume_a='{promise}'" in out
    assert ("as the header of the file says" in " ".join(out.split())) == (promise != "gen")
    assert "assume_a='gen'" in run("check", path, "--assume-a", "gen")[1]


def test_a_pattern_is_of_ones_and_says_so(run: Any, saved: Any) -> None:
    a = sp.coo_array(np.array([[1.0, 1.0], [0.0, 1.0]]))
    assert "all ones" in run("check", saved(a, field="pattern"))[1]
    code, _, said = run("check", saved(sp.coo_array(np.ones((2, 2))), field="pattern"))
    assert (code, "of ones" in said, "singular" in said) == (1, True, True)


def test_a_condition_above_what_digits_can_hold_is_commented(run: Any, saved: Any) -> None:
    apart = saved(sp.diags_array([1e-13, 1.0, 1e13]).tocoo())
    assert "above 1 / eps" in " ".join(run("check", apart)[1].replace("│", " ").split())


@pytest.mark.parametrize("symmetric", [False, True])
def test_integers_and_patterns_become_floats(run: Any, saved: Any, symmetric: bool) -> None:
    a = sp.coo_array(np.array([[3, 1], [1, 2]]))
    code, out, _ = run(
        "check", saved(a, field="integer", symmetry="symmetric" if symmetric else "general")
    )
    assert code == 0
    assert "float64" in out
    assert run("check", saved(sp.coo_array(np.array([[1, 1], [1, 0]])), field="pattern"))[0] == 0


SIDES = {
    "column": rng.standard_normal((30, 1)),
    "row": np.ones((1, 30)),
    "complex block": rng.standard_normal((30, 3)) + 1j,
    "zeros": np.zeros((30, 1)),
    "sparse block": sp.eye_array(30, 2),
}


@pytest.mark.parametrize("b", SIDES.values(), ids=SIDES)
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_right_hand_sides(run: Any, saved: Any, b: Any, dtype: str) -> None:
    code, out, err = run("check", saved(random_matrix(dtype=dtype)), "--rhs", saved(b, "b.mtx"))
    assert (code, err) == (0, "")
    columns = 1 if 1 in b.shape else b.shape[1]
    assert columns == 1 or f"{columns} right-hand sides" in out


# -- a check that fails: 1 ----------------------------------------------------


def test_a_gradient_that_is_off(run: Any, saved: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    found = verify(asarray(random_matrix()), None, "gen", "auto")
    monkeypatch.setattr(__main__, "verify", lambda *task: replace(found, error=1e-6))
    code, out, err = run("check", saved(random_matrix()))
    assert code == 1
    assert "not certain" in out
    assert err.count("\n") == 1
    assert "the gradient is off by 1.0e-06" in err


@pytest.mark.parametrize(
    ("a", "promise", "words"),
    [
        ([[1.0, 2.0], [2.0, 4.0]], "gen", "singular"),
        ([[1.0, 2.0], [2.0, 1.0]], "pos", "must be positive definite"),
        ([[1.0, 2.0], [0.5, 3.0]], "sym", "differs from its"),
        ([[1.0, 2.0], [2.0, 0.0]], "upper triangular", "singular"),
    ],
)
def test_a_broken_promise(run: Any, saved: Any, a: Any, promise: str, words: str) -> None:
    path = saved(sp.coo_array(np.array(a)), symmetry="general")
    code, out, err = run("check", path, "--assume-a", promise)
    assert (code, out) == (1, "")
    assert err.startswith(f"ldiv: {path}: ")
    assert err.count("\n") == 1
    assert words in err


def test_asymmetry_is_said(run: Any, saved: Any) -> None:
    path = saved(
        sp.coo_array(np.array([[2.0, 1.0], [1.0 + 1e-9, 2.0]])), precision=17, symmetry="general"
    )
    assert "asymmetry" in run("check", path, "--assume-a", "sym")[1]
    assert "asymmetry" not in run("check", path)[1]


# -- bad input: 2, one line ---------------------------------------------------

BANNER = "%%MatrixMarket matrix coordinate real general\n"
FILES = {
    "rectangle.mtx": BANNER + "2 3 1\n1 1 1.0\n",
    "void.mtx": BANNER + "0 0 0\n",
    "empty.mtx": "",
    "prose.mtx": "This is\nnot a matrix.\n",
    "short.mtx": BANNER + "2 2 3\n1 1 1.0\n",
    "outside.mtx": BANNER + "2 2 2\n1 1 1.0\n3 3 1.0\n",
    "letters.mtx": BANNER + "1 1 1\n1 1 one\n",
    "nan.mtx": BANNER + "2 2 2\n1 1 1.0\n2 2 nan\n",
    "inf.mtx": BANNER + "2 2 2\n1 1 inf\n2 2 1.0\n",
    "prose.npz": "This is not a matrix.",
    "prose.npy": "This is not an array.",
}


@pytest.mark.parametrize("name", FILES)
def test_bad_files(run: Any, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(FILES[name])
    refused(run("check", tmp_path / name), str(tmp_path / name))


def test_why_an_array_is_not_read(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    for array, words in (
        (np.ones(3), ("shape (3,)", "--rhs")),
        (np.ones((2, 3, 3)), ("2 x 3 x 3", "One matrix")),
        (np.ones((2, 3)), ("2 x 3", "least-squares")),
    ):
        np.save(path, array)
        refused(run("check", path), *words)
    path.write_text("This is not an array.")
    refused(run("check", path), "begins in another way")


def test_bad_right_hand_sides(run: Any, saved: Any, tmp_path: Path) -> None:
    path = saved(random_matrix())
    refused(run("check", path, "--rhs", saved(np.ones((29, 1)), "b.mtx")), "30 rows", "29 x 1")
    refused(run("check", path, "--rhs", tmp_path / "missing.mtx"), "missing.mtx", "no such file")
    refused(
        run("check", path, "--rhs", saved(np.full((30, 1), np.nan), "b.mtx")), "b.mtx", "finite"
    )


def test_unknown_dtype(run: Any, tmp_path: Path) -> None:
    sp.save_npz(tmp_path / "A.npz", sp.csr_array(np.eye(2, dtype=np.longdouble)))
    refused(run("check", tmp_path / "A.npz"), str(np.dtype(np.longdouble)), "float64")


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ([], "command"),
        (["factor"], "invalid choice: 'factor'"),
        (["check"], "A.mtx"),
        (["check", "no/such/file.mtx"], "no such file"),
        (["check", "."], "it is a directory"),
        (["check", "A.mtx", "--assume-a", "nice"], "'nice'"),
        (["check", "A.mtx", "--method", "magic"], "'magic'"),
        (["check", "A.mtx", "--color"], "--color"),
    ],
)
def test_bad_options(run: Any, argv: list[str], words: str) -> None:
    refused(run(*argv), words)
    assert ".." not in run(*argv)[2]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes on this system")
def test_a_pipe(run: Any, saved: Any, tmp_path: Path) -> None:
    path, pipe = saved(random_matrix()), tmp_path / "pipe.mtx"
    os.mkfifo(pipe)
    command = ["sh", "-c", 'cat "$1" > "$2"', "sh", path, pipe]  # a process: reading holds the GIL
    with subprocess.Popen(command):
        code, out, _ = run("check", pipe)
    assert code == 0 and "gradient error" in out


def test_an_interrupt(run: Any, saved: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(__main__, "verify", interrupted)
    path = saved(random_matrix())
    assert run("check", path) == (130, "", f"ldiv: {path}: interrupted\n")


def test_an_engine_that_cannot(run: Any, saved: Any) -> None:
    path = saved(random_matrix())
    refused(
        run("check", path, "--method", "lapack"), str(path), "lapack: factors dense matrices only"
    )


def refused(result: tuple[int, str, str], *words: str) -> None:
    code, out, err = result
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert err.startswith("ldiv: ")
    assert "Traceback" not in err
    assert all(word in err for word in words), err


# -- the rest -----------------------------------------------------------------


def test_info(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "frontend_names", lambda: ("numpy", "no_such_framework"))
    code, out, err = run("info")
    assert (code, err) == (0, "")
    assert f"ldiv {__version__}" in out
    assert all(name in out for name in registry.engines())
    assert "present: numpy" in out
    assert "absent: no_such_framework" in out


def test_info_knows_the_machine(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table has all that an issue needs; missing packages are named, and nothing is imported."""
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setattr(machine, "OPTIONAL", ("rich", "no-such-package"))
    facts = dict(machine.machine_rows())
    assert facts["limits of threads"].startswith("OMP_NUM_THREADS=3")
    assert facts["no-such-package"] == "missing" and facts["rich"][0].isdigit()
    assert int(facts["cores"]) > 0
    out = run("info")[1]
    assert all(name in out for name in facts)


def test_info_without_what_it_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A build that keeps its BLAS to itself, and no threadpoolctl."""
    monkeypatch.setattr(np, "show_config", lambda mode: None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    facts = dict(machine.machine_rows())
    assert facts["BLAS of numpy"] == "unknown"
    assert facts["threads"].startswith("unknown")


def test_an_engine_that_is_there_solves_something(run: Any) -> None:
    """The engines of low-rank updates, and of definite matrices alone, are shown with what they
    solve.
    """
    lines = run("info")[1].splitlines()
    for name in ("woodbury", "cg", "minres"):
        assert "nothing" not in next(line for line in lines if name in line.split()), name


def test_info_says_why_an_engine_is_of_no_use(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = registry.engines()["superlu"]
    monkeypatch.setattr(engine, "supports", lambda *task: "needs a package that is not installed")
    assert "nothing: needs a package that is not installed" in run("info")[1]


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--version"], f"ldiv {__version__}"),
        (["--help"], "exit codes"),
        (["check", "--help"], "--assume-a"),
    ],
)
def test_help(capsys: pytest.CaptureFixture[str], argv: list[str], words: str) -> None:
    with pytest.raises(SystemExit) as stop:
        main(argv)
    assert stop.value.code == 0
    assert words in capsys.readouterr().out


def test_as_a_module() -> None:
    """The module runs in a process of its own; `import ldiv` alone does not load what only tables
    need.
    """
    done = subprocess.run(
        [sys.executable, "-m", "ldiv", "check", "missing.mtx"], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (
        2,
        "",
        "ldiv: missing.mtx: there is no such file.\n",
    )
    loaded = subprocess.run(
        [sys.executable, "-c", "import ldiv, sys; print('rich' in sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert loaded.stdout == "False\n"


WITHOUT_RICH = "import sys; sys.modules['rich'] = None; "


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["check", "A.mtx"], ["A.mtx\n", "\nn  ", "float64\n", "right: at most"]),
        (["info"], ["\nengine  ", "present: numpy"]),
    ],
)
def test_without_rich_tables_are_plain(tmp_path: Path, argv: list[str], words: list[str]) -> None:
    scipy.io.mmwrite(tmp_path / "A.mtx", sp.diags_array([np.arange(1.0, 9.0)], offsets=[0]))
    code = WITHOUT_RICH + f"from ldiv.__main__ import main; sys.exit(main({argv}))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert all(word in done.stdout for word in words)
    assert done.stdout.isascii()


def test_without_rich_progress_is_shown() -> None:
    code = (
        WITHOUT_RICH
        + "import ldiv, numpy as np; ldiv.solve(np.diag([1.0, 2.0]), np.ones(2), assume_a='pos', method='cg', progress=True)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.startswith("cg: step 1, ")


@pytest.mark.parametrize("word", ["positive definite", "hermitian", "tridiagonal", "banded"])
@pytest.mark.parametrize("method", ["auto", "direct"])
def test_the_words_of_solve(run: Any, saved: Any, word: str, method: str) -> None:
    A = sp.diags_array(
        [np.full(4, -1.0), np.arange(3.0, 8.0), np.full(4, -1.0)], offsets=[-1, 0, 1]
    )
    path = saved(A.tocoo(), symmetry="general")
    code, _, err = run("check", path, "--assume-a", word, "--method", method)
    assert (code, err) == (0, "")


def test_a_diagonal_matrix(run: Any, saved: Any) -> None:
    path = saved(sp.diags_array(np.arange(3.0, 8.0)).tocoo(), symmetry="general")
    assert run("check", path, "--assume-a", "diagonal")[0] == 0
    assert "Do you mean 'pos'" in run("check", path, "--assume-a", "spd")[2]
