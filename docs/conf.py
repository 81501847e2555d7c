"""The site: these pages, the reference from the docstrings, the benchmarks from their JSON files,
the gallery from `examples/`.

    make docs            builds it, offline, with warnings as errors; no example runs
    make docs-full       runs the examples, too, and shows their pictures
"""

import os
import sys
import tomllib
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "extensions"), str(HERE.parent / "src")]

import ldiv  # noqa: E402

project = "ldiv"
author = "The ldiv developers"
project_copyright = f"{author}. Apache-2.0"
version = release = ldiv.__version__
language = "en"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    "one_signature",
    "formulas",
    "plain_docstrings",
    "benchmarks",
    "league",
    "names",
    "pictures",
    "doctest_blocks",
    "reference",
    "gallery",
]
exclude_patterns = [
    "extensions",
    "templates",
    "generated/gallery/**/*.ipynb",
    "generated/names.rst",
]
templates_path = ["templates"]
highlight_language = "none"

# -- pages ---------------------------------------------------------------------------------------

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
html_math_renderer = "mathml"
myst_heading_anchors = 3
copybutton_prompt_text = r">>> |\.\.\. "
copybutton_prompt_is_regexp = True
linkcheck_anchors = True
# nothing outside can be reached from where this is built
linkcheck_ignore = [r"https?://"]

# -- reference -----------------------------------------------------------------------------------

default_role = "py:obj"
autosummary_generate = ["generated/names.rst"]
autodoc_inherit_docstrings = False
autodoc_mock_imports = ["pytensor"]
autodoc_member_order = "groupwise"
autodoc_type_aliases = {"DTypeLike": "DTypeLike"}
autodoc_typehints = "none"  # the types of arguments stand beside their names, in words
add_module_names = False
numpydoc_show_class_members = False
numpydoc_use_plots = False

# -- gallery -------------------------------------------------------------------------------------

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "generated/gallery",
    "filename_pattern": r"(?<!/car)\.py$",  # car.py, which takes PyMC, is shown and not run
    "plot_gallery": "LDIV_DOCS_RUN_EXAMPLES" in os.environ,
    "image_scrapers": ("pictures.scraper",),
    "reset_modules": (),
    "within_subsection_order": "gallery.by_field",
    "download_all_examples": False,
    "show_signature": False,
    "show_memory": False,
    "write_computation_times": False,
    "min_reported_time": 1,
}

# -- looks ---------------------------------------------------------------------------------------

html_baseurl = tomllib.loads((HERE.parent / "pyproject.toml").read_text())["project"]["urls"].get(
    "Documentation", ""
)
html_theme = "pydata_sphinx_theme"
html_title = "ldiv"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {"text": "ldiv"},
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "back_to_top_button": False,
    "pygments_light_style": "a11y-light",
    "pygments_dark_style": "github-dark",
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": {
        **{pages: ["page-toc"] for pages in ("*", "develop/*", "generated/gallery/*")},
        "generated/reference/*": [],
    },
}
ALONE = ("index", "start", "benchmarks", "league", "coming_from", "names", "genindex")
html_sidebars = {page: [] for page in ALONE}
