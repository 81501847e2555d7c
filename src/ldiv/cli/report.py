"""What the command line prints: tables of a check, and of what is installed."""

from __future__ import annotations

import importlib
import importlib.util
import platform
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from types import ModuleType

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.status import Status
from rich.table import Table

from ldiv import __version__
from ldiv.cli.verify import Findings
from ldiv.core.dispatch import frontend_names
from ldiv.core.folders import modules
from ldiv.core.linear import View
from ldiv.core.structure import Structure
from ldiv.engines import solver
from ldiv.structures.gram import Gram
from ldiv.structures.scaled import Scaled
from ldiv.structures.symmetric import Symmetric

PACKAGES = ("numpy", "scipy", "array-api-compat", "pymetis", "rich")
DEVICES = ("cpu", "cuda:0")


def waiting(name: str) -> Status:
    """Something that moves on a terminal, and nothing elsewhere."""
    return Console(stderr=True).status(f"checking {escape(name)} ...")


def show_check(name: str, assume_a: str, found: Findings) -> None:
    """One table of what a check found."""
    table = Table("", "", "", title=escape(name), title_style="bold", show_header=False)
    for row in _rows(assume_a, found):
        table.add_row(*row)
    Console().print(table)


def _rows(assume_a: str, found: Findings) -> Iterator[tuple[str, str, str]]:
    sides = "" if found.columns == 1 else f", {found.columns} right-hand sides"
    yield "n", f"{found.n:,}", f"{found.dtype}{sides}"
    yield "nnz", f"{found.nnz:,}", "stored entries"
    yield "engine", found.engine, f"assume_a={assume_a!r}"
    if not found.iterates:
        yield "ordering", _seconds(found.ordering), "once per pattern"
        yield "factor", _seconds(found.factor), "once per set of values"
    yield "solve", _seconds(found.solve), "A x = b"
    yield "adjoint", _seconds(found.adjoint), "lam = A^-H c, gradients of A and b"
    verdict = "[red]not certain[/]" if found.failure else "[green]right[/]"
    yield "gradient error", f"{found.error:.1e}", f"{verdict}: at most {found.allowed:.1e} is rounding"
    yield "residual", f"{found.residual:.1e}", "|b - A x| / (|A| |x| + |b|)"
    if found.asymmetry:
        yield "asymmetry", f"{found.asymmetry:.1e}", "of its largest entry; the symmetric part was solved"
    yield "condition", f"{found.condition:.1e}", "|A| |A^-1| in the 1-norm, estimated"
    yield "peak memory", _peak_memory(), "of this process, complex step included"


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
    """Engines, front ends and versions."""
    console = Console()
    versions = [f"{name} {_version(name) or 'missing'}" for name in PACKAGES]
    console.print(", ".join([f"ldiv {__version__}", f"Python {platform.python_version()}", *versions]), highlight=False)
    engines = Table("engine", "solves", title="Engines, in the order in which they are asked", title_justify="left")
    for name, engine in solver.engines().items():
        engines.add_row(name, _abilities(engine))
    frontends = Table("front end", "", title="Front ends", title_justify="left")
    for name in frontend_names():
        frontends.add_row(name, _presence(name))
    console.print(engines, frontends)


def _abilities(engine: ModuleType) -> str:
    """The structures that an engine takes on each device, or the sentence why it takes none."""
    answers = {
        (device, _kind(structure)): engine.supports(structure, np.dtype(np.float64), device, "gen") for device in DEVICES for structure in _examples()
    }
    able = {device: [kind for (at, kind), reason in answers.items() if at == device and reason is None] for device in DEVICES}
    if not any(able.values()):
        return f"[yellow]nothing: {next(iter(answers.values()))}[/]"
    on = ", ".join(device.partition(":")[0] for device, kinds in able.items() if kinds)
    return f"{', '.join(dict.fromkeys(kind for kinds in able.values() for kind in kinds))}  (on {on})"


def _examples() -> Iterator[Structure]:
    """The structures that the structures' own files offer."""
    draw = np.random.default_rng(0).standard_normal
    for module in modules("structure"):
        yield from (structure for structure, _ in module.cases(lambda *shape: draw(shape)) if np.equal(*structure.shape))


def _kind(structure: Structure) -> str:
    base = f" {type(structure.base).__name__}" if isinstance(structure, View | Symmetric | Gram | Scaled) else ""
    return type(structure).__name__ + base


def _presence(name: str) -> str:
    """Looked for, not imported."""
    if importlib.util.find_spec(name) is None:
        return f"[yellow]absent: {name} is not installed; pip install 'ldiv\\[{name}]'[/]"
    return f"present: {name} {_version(name) or 'of unknown version'}"


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
