"""What is released works: sdist and wheel are built, checked by twine, and installed into fresh
environments, where the first example of the README runs; and so is a wheel that was made without a
compiler, which is one of Python alone.

    python .ci/check_release.py        leaves sdist and wheel in dist/

The dependencies of ldiv itself come from its metadata. PyTorch, of which the example needs any
version, is borrowed from the environment that runs this: it is large.
"""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
# nothing is found but what is installed
CLEAN = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}


WITHOUT_COMPILER = {"CC": "/bin/false", "CXX": "/bin/false"}


def run(*command: object, cwd: Path = ROOT, **env: str) -> str:
    """stdout; ends here if the command fails."""
    print("+", *(f"{key}={value}" for key, value in env.items()), *command, flush=True)
    done = subprocess.run(
        [*map(str, command)], cwd=cwd, env=CLEAN | env, text=True, stdout=subprocess.PIPE
    )
    if done.returncode:
        sys.exit(f"{done.stdout}\nfailed: {' '.join(map(str, command))}")
    return done.stdout


def build() -> list[Path]:
    """The sdist, and the wheel that is built from it."""
    shutil.rmtree(DIST, ignore_errors=True)
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", DIST)
    files = sorted(DIST.iterdir())
    if {path.suffix for path in files} != {".gz", ".whl"} or len(files) != 2:
        sys.exit(f"expected an sdist and a wheel, got {[path.name for path in files]}")
    run(sys.executable, "-m", "twine", "check", "--strict", *files)
    if any(path.name.endswith("none-any.whl") for path in files):
        sys.exit(f"expected a compiled wheel, got {[path.name for path in files]}")
    return files


def build_pure(folder: Path) -> Path:
    """The wheel of the sdist, where the compiler fails."""
    command = sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"
    run(*command, "--wheel-dir", folder, *DIST.glob("*.tar.gz"), **WITHOUT_COMPILER)
    (wheel,) = folder.glob("*.whl")
    if not wheel.name.endswith("py3-none-any.whl"):
        sys.exit(f"expected a wheel of Python alone, got {wheel.name}")
    return wheel


def example() -> str:
    """The first Python block of the README."""
    found = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    return found[1] if found else sys.exit("the README has no example")


def check(package: Path, folder: Path, compiled: bool) -> None:
    """Install into a fresh environment, with nothing of this one; then run the example."""
    run(sys.executable, "-m", "venv", folder)
    python = folder / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    run(
        python, "-m", "pip", "install", "--quiet", "--constraint", ROOT / "constraints.txt", package
    )
    run(python, "-m", "pip", "check")
    shown = run(python, "-m", "ldiv", "info", cwd=folder)
    print(shown.splitlines()[0])
    (native,) = (line for line in shown.splitlines() if "ldiv._native" in line)
    if compiled != ("missing" not in native):
        sys.exit(f"{package.name}: {native}")
    code = "import ldiv, pathlib; print(pathlib.Path(ldiv.__file__).with_name('py.typed').exists())"
    if run(python, "-c", code, cwd=folder).strip() != "True":
        sys.exit(f"{package.name}: py.typed is missing, and so are the types for its users")
    purelib = Path(
        run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    )
    (purelib / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    script = folder / "example.py"
    script.write_text(example() + "\nprint(ldiv.__file__)\n")
    shown = run(python, script, cwd=folder)
    print(shown, end="")
    if str(folder.resolve()) not in shown.splitlines()[-1]:
        sys.exit(f"the example ran with another ldiv: {shown.splitlines()[-1]}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        for package in build():
            check(package, Path(folder) / package.suffix.strip("."), compiled=True)
        pure = build_pure(Path(folder))
        check(pure, Path(folder) / "pure", compiled=False)
    print("sdist and wheel are in dist/, and work; so does the wheel without a compiler")
