"""Doctests in Markdown end with an empty line, which readers need not see."""

from __future__ import annotations

from typing import Any

from sphinx.application import Sphinx


def on_source(app: Sphinx, name: str, source: list[str]) -> None:
    source[0] = source[0].replace("\n\n```\n", "\n```\n")


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("source-read", on_source)
    return {"parallel_read_safe": True}
