"""Facts of a release that are written in several places agree, and files for other programs follow
their schemas.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

import ldiv

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
PINNED = {
    name.lower().replace("_", "-"): version
    for name, version in re.findall(
        r"^([\w.-]+)==(\S+)", (ROOT / "constraints.txt").read_text(), re.MULTILINE
    )
}
PYTHONS = [line.rpartition(" ")[2] for line in PROJECT["classifiers"] if "Python :: 3." in line]


def text(path: str) -> str:
    return (ROOT / path).read_text()


def test_one_version() -> None:
    version = re.escape(ldiv.__version__)
    assert re.search(rf"^version: {version}$", text("CITATION.cff"), re.MULTILINE)
    assert re.search(rf'^  version: "{version}"$', text("conda-forge/recipe.yaml"), re.MULTILINE)
    assert re.search(rf"^## {version}\b", text("CHANGELOG.md"), re.MULTILINE)


def test_the_citation_of_the_readme_has_the_version() -> None:
    assert f"version {ldiv.__version__}." in text("README.md").partition("## Cite")[2]


def test_addresses_are_those_of_pyproject() -> None:
    cited = dict(re.findall(r"^(repository-code|url): (\S+)$", text("CITATION.cff"), re.MULTILINE))
    urls = PROJECT["urls"]
    named = {"repository-code": urls.get("Repository"), "url": urls.get("Documentation")}
    assert cited == {key: address for key, address in named.items() if address}


@pytest.mark.skipif(
    sys.platform == "win32" or shutil.which("make") is None, reason="needs make and a POSIX shell"
)
def test_the_demo_and_the_tests_compile_once(tmp_path: Path) -> None:
    """The environment of the tests needs packages after `make demo`, and no build of ldiv."""
    env = {key: value for key, value in os.environ.items() if key != "MAKEFLAGS"}
    venv = tmp_path / "venv"
    venv.mkdir()

    def commands() -> str:
        dry = ["make", "--dry-run", f"VENV={venv}", f"{venv}/ready"]
        done = subprocess.run(dry, cwd=ROOT, env=env, capture_output=True, text=True, check=True)
        return done.stdout

    assert "--editable" in commands()
    (venv / "demo").touch()
    assert "pip install" in commands()
    assert "--editable" not in commands()


@pytest.mark.exhaustive
def test_schemas() -> None:
    pytest.importorskip("check_jsonschema")
    path = ROOT / ".ci" / "check_schemas.py"
    spec = importlib.util.spec_from_file_location("check_schemas", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert all(module.FILES.values())
    assert module.failures() == []


def included(requirement: str) -> list[str]:
    """The extras of ldiv that a requirement asks for."""
    return requirement[5:].split("]")[0].split(",") if requirement.startswith("ldiv[") else []


def installed(extra: str) -> set[str]:
    """The packages of an extra, and of those that it includes."""
    packages = {re.split(r"[\[<>=;! ]", line)[0] for line in EXTRAS[extra]} - {"ldiv"}
    return packages.union(*(installed(name) for line in EXTRAS[extra] for name in included(line)))


def test_extras_name_extras_that_are_there() -> None:
    used = {name for extra in EXTRAS.values() for line in extra for name in included(line)}
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    told = {
        name
        for page in pages
        for group in re.findall(r"ldiv\[([a-z,-]+)\]", page.read_text())
        for name in group.split(",")
    }
    assert used | told <= set(EXTRAS)


def test_everything_that_make_installs_is_pinned() -> None:
    own = {re.split(r"[<>=;! ]", line)[0] for line in PROJECT["dependencies"]}
    names = {name.lower().replace("_", "-") for name in own | installed("dev")}
    assert names <= set(PINNED)


def test_the_recipe_asks_for_what_the_package_asks_for() -> None:
    run = text("conda-forge/recipe.yaml").partition("  run:")[2].partition("tests:")[0]
    python, *listed = re.findall(r"^    - (.+)$", run, re.MULTILINE)
    assert python == "python >=${{ python_min }}"
    # a recipe for all platforms has no markers
    wanted = [line.partition(";")[0] for line in PROJECT["dependencies"]]
    assert [line.replace(" ", "") for line in listed] == wanted
    least = PROJECT["requires-python"].removeprefix(">=")
    assert f'python_min: "{least}"' in text("conda-forge/recipe.yaml")


def test_hooks_are_the_pinned_tools() -> None:
    for name, version in re.findall(r'"([\w-]+)==([\d.]+)"', text(".pre-commit-config.yaml")):
        assert PINNED[name] == version


def test_every_python_is_tested() -> None:
    assert f"python: {PYTHONS}".replace("'", '"') in text(".github/workflows/test.yml")


@pytest.mark.parametrize("form", ["wrong", "slow"])
def test_issues_ask_for_the_machine(form: str) -> None:
    asked = text(f".github/ISSUE_TEMPLATE/{form}.yml").partition("id: info")[2]
    assert "`python -m ldiv info`" in asked and "required: true" in asked


def test_types_are_delivered() -> None:
    assert (Path(ldiv.__file__).parent / "py.typed").exists()
    assert "Typing :: Typed" in PROJECT["classifiers"]


def test_the_oldest_versions_are_those_that_are_tested() -> None:
    """.ci/oldest.txt has the lower bounds of pyproject.toml."""
    lines = [
        *PROJECT["dependencies"],
        *(x for extra in ("torch", "jax", "amg") for x in EXTRAS[extra]),
    ]
    bounds = {name: low for line in lines for name, low in re.findall(r"^([\w-]+)>=([\d.]+)", line)}
    oldest = dict(re.findall(r"^([\w-]+)==([\d.]+)", text(".ci/oldest.txt"), re.MULTILINE))
    assert bounds.keys() == oldest.keys()
    for name, low in bounds.items():
        assert f"{oldest[name]}.".startswith(f"{low}."), name
