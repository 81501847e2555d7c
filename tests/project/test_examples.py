"""Every script in examples/ runs, at a small size, and its numbers hold."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import ldiv

EXAMPLES = Path(__file__).parents[2] / "examples"
# and what each needs
TESTED = {
    "topology": ("torch", "skfem"),
    "conductivity": ("jax", "optax"),
    "eigenfrequency": ("torch", "skfem"),
    "inversion": ("torch", "skfem"),
}


@pytest.fixture
def script(request: pytest.FixtureRequest) -> Iterator[ModuleType]:
    """The script that the test names, loaded by its path."""
    for needed in (*TESTED[request.param], "matplotlib", "rich"):
        pytest.importorskip(needed, reason=f"the examples need {needed}: install ldiv[demo]")
    spec = importlib.util.spec_from_file_location(
        f"examples_{request.param}", EXAMPLES / f"{request.param}.py"
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look for the names in their annotations
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def test_no_example_is_forgotten() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == set(TESTED)


@pytest.mark.parametrize("script", ["topology"], indirect=True)
@pytest.mark.parametrize(("assume_a", "iterations"), [("gen", 30), ("pos", 8)])
def test_topology(script: ModuleType, assume_a: str, iterations: int, tmp_path: Path) -> None:
    picture = tmp_path / "new" / "topology.png"
    history = script.main(
        [
            "--size",
            "60",
            "20",
            "--iterations",
            str(iterations),
            "--assume-a",
            assume_a,
            "--out",
            str(picture),
        ]
    )
    assert history.gradient_error < 1e-6
    assert len(history.compliance) == iterations
    assert history.compliance[-1] < history.compliance[0] / 3
    assert history.volume == pytest.approx([script.SHARE] * iterations, abs=1e-6)
    assert history.picture == picture and picture.read_bytes().startswith(b"\x89PNG")
    info = ldiv.cache_info()
    assert info.analyses == 1
    assert info.factorizations == iterations + 5  # one a matrix: the adjoints factor nothing


@pytest.mark.parametrize("script", ["topology"], indirect=True)
def test_topology_refuses_a_wrong_gradient(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    right = script.with_gradient
    monkeypatch.setattr(
        script, "with_gradient", lambda *args: (right(*args)[0], 1.001 * right(*args)[1])
    )
    with pytest.raises(SystemExit) as end:
        script.main(["--size", "24", "8", "--iterations", "1", "--out", str(tmp_path / "none.png")])
    assert end.value.code == 1


@pytest.mark.parametrize("script", ["conductivity"], indirect=True)
def test_conductivity(script: ModuleType, tmp_path: Path) -> None:
    picture = tmp_path / "new" / "conductivity.png"
    history = script.main(
        ["--size", "16", "--sensors", "7", "--iterations", "15", "--out", str(picture)]
    )
    assert history.gradient_error < 1e-6
    assert len(history.misfit) == 16
    assert history.misfit[-1] < history.misfit[0] / 100
    assert history.error[-1] < 0.3 * history.error[0]
    assert history.correlation > 0.95
    assert history.picture == picture and picture.read_bytes().startswith(b"\x89PNG")
    info = ldiv.cache_info()
    assert info.analyses == 2  # one a mesh
    # one for each point that the line search tries: the adjoints factor nothing
    assert 15 <= info.factorizations < 45 < info.solves


@pytest.mark.parametrize("script", ["conductivity"], indirect=True)
def test_conductivity_refuses_a_wrong_gradient(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(script, "gradient_error", lambda *args: 1e-5)
    with pytest.raises(SystemExit) as end:
        script.main(
            [
                "--size",
                "8",
                "--sensors",
                "3",
                "--iterations",
                "1",
                "--out",
                str(tmp_path / "none.png"),
            ]
        )
    assert end.value.code == 1


@pytest.mark.parametrize("script", ["conductivity"], indirect=True)
def test_conductivity_wants_sensors_on_nodes(script: ModuleType) -> None:
    with pytest.raises(SystemExit) as end:
        script.main(["--size", "10", "--sensors", "3"])
    assert end.value.code == 2


@pytest.mark.parametrize("script", ["eigenfrequency"], indirect=True)
def test_eigenfrequency(script: ModuleType, tmp_path: Path) -> None:
    picture = tmp_path / "new" / "eigenfrequency.png"
    history = script.main(["--refine", "2", "--steps", "30", "--out", str(picture)])
    # of the first frequency and of the mean of the pair, before and after
    assert len(history.errors) == 4
    assert max(history.errors) < 1e-7
    assert len(history.frequencies) == 31
    assert history.frequencies[0] == pytest.approx([31.0957, 57.8573, 57.8573], abs=1e-4)
    assert history.frequencies[-1][0] > 1.6 * history.frequencies[0][0]
    assert max(abs(history.gap(step)) for step in range(31)) < 1e-10  # the pair is one all the way
    assert history.volume == pytest.approx([1.0] * 31, abs=1e-9)
    assert "eigenvalue" in history.refusal
    assert history.picture == picture and picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("script", ["eigenfrequency"], indirect=True)
@pytest.mark.parametrize("broken", [("gradient_error", 1e-5), ("refusal", "")])
def test_eigenfrequency_refuses_a_wrong_gradient(
    script: ModuleType, broken: tuple[str, object], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    name, answer = broken
    monkeypatch.setattr(script, name, lambda *args: answer)
    with pytest.raises(SystemExit) as end:
        script.main(["--refine", "1", "--steps", "1", "--out", str(tmp_path / "none.png")])
    assert end.value.code == 1


@pytest.mark.parametrize("script", ["inversion"], indirect=True)
def test_inversion(script: ModuleType, tmp_path: Path) -> None:
    picture = tmp_path / "new" / "inversion.png"
    history = script.main(["--size", "4", "--steps", "3", "--out", str(picture)])
    assert max(history.gradient_error, history.hessian_error) < 1e-8
    newton, quasi = (history.values[name] for name in ("Newton-CG", "L-BFGS-B"))
    assert len(newton) == len(quasi) == 4
    assert newton[-1] < newton[0] / 5
    assert quasi[-1] < quasi[0]
    assert history.picture == picture and picture.read_bytes().startswith(b"\x89PNG")
