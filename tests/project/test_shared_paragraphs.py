"""Paragraphs that docstrings share are written once, in a table, and put in by a script."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = '''
class Solver:
    def solve(self, b):
        """Solve.

        Parameters
        ----------
        b : array
            {}
        x0 : array
            Where it starts.
        """
'''
TABLE = '''
[[paragraph]]
text = """
b : array
    A vector,
    or columns."""
[paragraph.of]
"solvers.py" = "{}"
'''


@pytest.fixture
def script() -> ModuleType:
    found = importlib.util.spec_from_file_location("shared", ROOT / ".ci" / "shared_paragraphs.py")
    assert found is not None and found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def test_a_paragraph_is_put_in_and_nothing_else_changes(script: ModuleType, tmp_path: Path) -> None:
    file, table = tmp_path / "solvers.py", tmp_path / "table.toml"
    file.write_text(SOURCE.format("Something."))
    table.write_text(TABLE.format("Solver.solve"))
    assert script.main(True, tmp_path, table) == ["solvers.py:Solver.solve differs: b : array"]
    assert file.read_text() == SOURCE.format("Something.")
    assert script.main(False, tmp_path, table) == []
    assert file.read_text() == SOURCE.format("A vector,\n            or columns.")
    assert script.main(True, tmp_path, table) == []


def test_a_name_that_is_not_there_is_an_error(script: ModuleType, tmp_path: Path) -> None:
    file, table = tmp_path / "solvers.py", tmp_path / "table.toml"
    file.write_text(SOURCE.format("A vector,\n            or columns."))
    table.write_text(TABLE.format("solve"))
    assert script.main(True, tmp_path, table) == ["solvers.py:solve lacks 'b : array'"]


def test_a_paragraph_that_many_share_belongs_into_the_table(
    script: ModuleType, tmp_path: Path
) -> None:
    table = tmp_path / "table.toml"
    table.write_text("paragraph = []")
    text = "A vector of as many numbers as the matrix has rows."
    for number in range(script.MOST):
        assert script.main(True, tmp_path, table) == []
        (tmp_path / f"solvers{number}.py").write_text(SOURCE.format(text))
    (fault,) = script.main(True, tmp_path, table)
    assert text in fault and "solvers0.py:Solver.solve" in fault


def test_functions_that_share_a_paragraph_declare_its_parameter_alike(
    script: ModuleType, tmp_path: Path
) -> None:
    table, text = tmp_path / "table.toml", SOURCE.format("A vector,\n            or columns.")
    table.write_text(TABLE.format("Solver.solve") + '"others.py" = "Solver.solve"')
    (tmp_path / "solvers.py").write_text(text)
    (tmp_path / "others.py").write_text(text)
    assert script.main(True, tmp_path, table) == []
    (tmp_path / "others.py").write_text(text.replace("self, b", "self, *, b: float = 1"))
    (fault,) = script.main(True, tmp_path, table)
    assert "b is declared as float = 1 in others.py:Solver.solve" in fault
