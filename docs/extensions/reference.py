"""The lists of names on the page Reference, one name a line, which read anywhere as they are, become
tables with a page for each name.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.config import Config

NAMES = re.compile(r"^(?:`[\w.]+`\n)+", re.MULTILINE)
TABLE = """.. currentmodule:: ldiv

.. autosummary::
   :toctree: generated/reference

"""


def table(names: str) -> str:
    return TABLE + "".join(f"   {name}\n" for name in re.findall(r"[\w.]+", names))


def to_tables(app: Sphinx, page: str, source: list[str]) -> None:
    if page == "reference":
        text = NAMES.sub(lambda names: f"```{{eval-rst}}\n{table(names[0])}```\n", source[0])
        source[0] = text


def write_names(app: Sphinx, config: Config) -> None:
    """autosummary looks for names in files, not in pages: they are all in this one."""
    here = Path(app.srcdir)
    names = "".join(NAMES.findall((here / "reference.md").read_text()))
    (here / "generated").mkdir(exist_ok=True)
    (here / config.autosummary_generate[0]).write_text(table(names).replace("generated/", ""))


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("config-inited", write_names)
    app.connect("source-read", to_tables)
    return {"parallel_read_safe": True}
