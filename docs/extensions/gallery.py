"""The gallery by fields, as its header lists them, each page with its picture; links of pages to files
of `examples/`, which work on a host of repositories as they are, lead to the pages of the gallery here.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

HEADER = Path(__file__).parents[2] / "examples" / "GALLERY_HEADER.rst"


def listed() -> list[str]:
    """The examples, in the order of the header."""
    return re.findall(r"sphx_glr_generated_gallery_(\w+)\.py", HEADER.read_text())


def by_field(filename: Any) -> int:
    return listed().index(Path(filename).stem)


def to_gallery(app: Sphinx, page: str, source: list[str]) -> None:
    text = re.sub(r"\]\(\.\./examples/(\w+)\.py\)", r"](generated/gallery/\1.rst)", source[0])
    source[0] = text.replace("](../examples)", "](generated/gallery/index.rst)")


def with_picture(app: Sphinx, page: str, source: list[str]) -> None:
    """A page of the gallery begins with its small picture."""
    name = page.removeprefix("generated/gallery/")
    if name in listed():
        picture = f".. image:: /static/gallery/{name}.png\n   :alt: Result of the example\n"
        source[0] = re.sub(r"^=+\n", rf"\g<0>\n{picture}", source[0], count=1, flags=re.MULTILINE)


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("source-read", to_gallery)
    app.connect("source-read", with_picture)
    return {"parallel_read_safe": True}
