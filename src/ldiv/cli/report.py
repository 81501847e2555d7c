"""Tables that the command line prints: of a check, and of what is installed."""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import platform
import sys
from collections.abc import Iterator

import numpy as np

from ldiv import __version__
from ldiv.cli.machine import installed, machine_rows
from ldiv.cli.table import Cell, show
from ldiv.cli.verify import Findings
from ldiv.core.frameworks.dispatch import frontend_names
from ldiv.core.frameworks.folders import plugins
from ldiv.core.rules.linear import View
from ldiv.core.rules.structure import Structure
from ldiv.engines import registry
from ldiv.engines.registry import Engine
from ldiv.structures.gram import Gram
from ldiv.structures.scaled import Scaled
from ldiv.structures.symmetric import Symmetric

PACKAGES = ("numpy", "scipy", "array-api-compat")
DEVICES = ("cpu", "cuda:0")


def show_check(
    name: str, found: Findings, promise: str, *, by_header: bool, of_ones: bool, drawn: bool
) -> None:
    """Print the results of a check as a table, which also says what was not read from the files."""
    says = f"assume_a={promise!r}" + ", as the header of the file says" * by_header
    stored = "stored entries" + ", all ones: the file has a pattern and no numbers" * of_ones
    show(name, list(_rows(says, stored, drawn, found)))


def _rows(says: str, stored: str, drawn: bool, found: Findings) -> Iterator[tuple[str, str, Cell]]:
    sides = "" if found.columns == 1 else f", {found.columns} right-hand sides"
    yield "n", f"{found.n:,}", f"{found.dtype}{sides}"
    yield "nnz", f"{found.nnz:,}", stored
    if drawn:
        yield "b", "random", "normal numbers, the same in every run; --rhs reads yours"
    yield "engine", found.engine, says
    if not found.iterates:
        yield "ordering", _seconds(found.ordering), "once per pattern"
        yield "factor", _seconds(found.factor), "once per set of values"
    yield "solve", _seconds(found.solve), "A x = b"
    yield "adjoint", _seconds(found.adjoint), "lam = A^-H c, gradients of A and b"
    verdict, color = ("not certain", "red") if found.failure else ("right", "green")
    yield (
        "gradient error",
        f"{found.error:.1e}",
        (f"{verdict}: at most {found.allowed:.1e} is rounding", color),
    )
    yield "residual", f"{found.residual:.1e}", "|b - A x| / (|A| |x| + |b|)"
    if found.asymmetry:
        yield (
            "asymmetry",
            f"{found.asymmetry:.1e}",
            "of its largest entry; the symmetric part was solved",
        )
    yield "condition", f"{found.condition:.1e}", _of_condition(found)
    yield "peak memory", _peak_memory(), "of this process, complex step included"


def _of_condition(found: Findings) -> Cell:
    words = "|A| |A^-1| in the 1-norm, estimated"
    if found.condition * np.finfo(found.dtype).eps < 1:
        return words
    return (
        (
            f"{words}: above 1 / eps. What was solved was scaled; if rows and columns differ in their "
            "units alone nothing is lost, else look at the model"
        ),
        "yellow",
    )


def _seconds(t: float) -> str:
    return f"{t:.2f} s" if t >= 1 else f"{1e3 * t:.2f} ms"


def _peak_memory() -> str:
    try:
        import resource
    except ImportError:
        return "unknown"
    unit = 1 if sys.platform == "darwin" else 1024
    return f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20:,.0f} MiB"


def show_info() -> None:
    """Print versions, engines, front ends and the machine, for a report of a problem."""
    versions = [f"{name} {installed(name) or 'missing'}" for name in PACKAGES]
    print(", ".join([f"ldiv {__version__}", f"Python {platform.python_version()}", *versions]))
    engines = [(name, _abilities(engine)) for name, engine in registry.engines().items()]
    show("Engines, in the order in which they are asked", engines, ("engine", "solves"))
    show("Front ends", [(name, _presence(name)) for name in frontend_names()], ("front end", ""))
    show("The machine", list(machine_rows()))


def _abilities(engine: Engine) -> Cell:
    """The structures that an engine takes on each device, without an assumption or with the
    strongest one, or the sentence why it takes none.
    """
    why_not = ""
    for assume_a, words in (("gen", ""), ("pos", ", promised positive definite")):
        able = []
        for device, structure in itertools.product(DEVICES, _examples()):
            base = structure.unview()[0]
            reason = engine.supports(base, np.dtype(np.float64), device, assume_a)
            if reason is None:
                able.append((device.partition(":")[0], _kind(structure)))
            why_not = why_not or reason or ""
        if able:
            devices, kinds = (", ".join(dict.fromkeys(names)) for names in zip(*able, strict=True))
            return f"{kinds}{words}  (on {devices})"
    return f"nothing: {why_not}", "yellow"


def _examples() -> Iterator[Structure]:
    """The structures that the structures' own files offer."""
    draw = np.random.default_rng(0).standard_normal
    for module in plugins("structure"):
        yield from (
            structure
            for structure, _ in module.cases(lambda *shape: draw(shape))
            if np.equal(*structure.shape)
        )


def _kind(structure: Structure) -> str:
    base = (
        f" {type(structure.base).__name__}"
        if isinstance(structure, View | Symmetric | Gram | Scaled)
        else ""
    )
    return type(structure).__name__ + base


def _presence(name: str) -> Cell:
    """Say whether a package is installed, without importing it."""
    if importlib.util.find_spec(name) is None:
        return f"absent: {name} is not installed; pip install 'ldiv[{name}]'", "yellow"
    return f"present: {name} {installed(name) or 'of unknown version'}"
