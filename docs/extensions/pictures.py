"""The pictures of the gallery: what an example has written to its `out/` folder, and the small ones
of `static/gallery/`, which are there without running it.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx_gallery import gen_rst
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


save_thumbnail = gen_rst.save_thumbnail


def with_picture(
    template: Any, source: Any, found: Any, options: dict[str, Any], conf: Any
) -> None:
    """Add the small picture of an example to its page."""
    options["thumbnail_path"] = f"static/gallery/{Path(source).stem}.png"
    save_thumbnail(template, source, found, options, conf)


def setup(app: Sphinx) -> dict[str, Any]:
    gen_rst.save_thumbnail = with_picture
    return {"parallel_read_safe": True}
