"""The pictures of the gallery: what an example has written to its `out/` folder."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx_gallery.scrapers import figure_rst


def scraper(block: tuple[Any, ...], block_vars: dict[str, Any], gallery: dict[str, Any]) -> str:
    """Shows `out/<example>.png` under the block that wrote it."""
    source = Path(block_vars["src_file"])
    written = source.parent / "out" / f"{source.stem}.png"
    if not written.exists():
        return ""
    shown = next(block_vars["image_path_iterator"])
    shutil.move(written, shown)
    return figure_rst([shown], gallery["src_dir"])


def setup(app: Sphinx) -> dict[str, Any]:
    return {"parallel_read_safe": True}
