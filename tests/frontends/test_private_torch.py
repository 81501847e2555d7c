"""The private parts of PyTorch that the front end uses are there; a new version shows which have
moved, and what is lost then.
"""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
private: Any = pytest.importorskip("ldiv.frontends.torch.private")


@pytest.mark.parametrize("path", private.used)
def test_it_is_there(path: str) -> None:
    *modules, name = path.split(".")
    found = torch
    for part in modules[1:]:
        found = getattr(found, part)
    assert hasattr(found, name), (
        f"this version of PyTorch has moved {path}, by which ldiv has {private.used[path]}: mend ldiv.frontends.torch.private"
    )


def test_torch_compile_is_asked_for_one_graph() -> None:
    from torch._dynamo import symbolic_convert

    found = symbolic_convert.InstructionTranslator
    assert hasattr(found, "current_tx") and callable(torch._disable_dynamo), (
        "this version of PyTorch has moved what private.is_one_graph and private.outside_of_graphs need"
    )
    assert (
        private.MARKED_CONSTANT
        in Path(symbolic_convert.__file__).parent.joinpath("variables", "functions.py").read_text()
        + Path(symbolic_convert.__file__).parent.joinpath("trace_rules.py").read_text()
    ), "this version of PyTorch marks functions whose result is a constant in another way"


def test_nothing_of_it_is_used_elsewhere() -> None:
    folder = Path(private.__file__).parent
    inside = re.compile(
        r"torch\._\w|torch\.utils\._\w|forward_ad\._\w|import _functorch|\._(is_view|is_zerotensor)\("
    )
    for file in folder.glob("*.py"):
        if file.name != "private.py":
            assert not inside.search(file.read_text()), file.name


WITHOUT = """
    import torch
    del torch._C._functorch.is_legacy_batchedtensor, torch._C._vmapmode_increment_nesting
    del torch.utils._python_dispatch.TorchDispatchMode
    import ldiv
    A = torch.eye(3, dtype=torch.float64) * 2
    b = torch.ones(3, dtype=torch.float64)
    assert ldiv.solve(A, b).tolist() == [.5, .5, .5]
    assert torch.func.jvp(lambda b: ldiv.solve(A, b), (b,), (b,))[1].tolist() == [.5, .5, .5]
    try:
        ldiv.detect_pattern(lambda b: ldiv.solve(A, b), b)
    except NotImplementedError as error:
        print(error)
"""


def test_what_is_missing_is_said_when_it_is_used() -> None:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(WITHOUT)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "without it ldiv has no pattern of a Jacobian" in done.stdout
