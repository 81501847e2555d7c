"""Tables on the screen: by rich where it is installed, else in plain lines."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

try:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    RICH = True
except ModuleNotFoundError:
    RICH = False

Cell = str | tuple[str, str]  # (text, its color)


def waiting(text: str) -> AbstractContextManager[Any]:
    """A context that shows a spinner on a terminal, and nothing elsewhere."""
    return Console(stderr=True).status(Text(text)) if RICH else nullcontext()


def show(title: str, rows: Sequence[Sequence[Cell]], header: Sequence[str] = ()) -> None:
    (_show_rich if RICH else _show_plain)(title, rows, header)


def _show_rich(title: str, rows: Sequence[Sequence[Cell]], header: Sequence[str]) -> None:
    table = Table(
        *(header or [""] * len(rows[0])),
        title=Text(title, "bold"),
        title_justify="left",
        show_header=bool(header),
    )
    for row in rows:
        table.add_row(*(Text(*((cell,) if isinstance(cell, str) else cell)) for cell in row))
    Console().print(table)


def _show_plain(title: str, rows: Sequence[Sequence[Cell]], header: Sequence[str]) -> None:
    lines = [
        *([header] if header else []),
        *([cell if isinstance(cell, str) else cell[0] for cell in row] for row in rows),
    ]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    print(title)
    for line in lines:
        print(
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        )
