"""Sphinx: how the pages that `make_site.py` has laid out become a site.

Everything that a page shows is in the site itself: it needs no network, and its search works from a folder.
"""

import re
from pathlib import Path

from furo.navigation import get_navigation_tree

import tidegate

HERE = Path(__file__).parent

project = "Tidegate"
author = "the authors of Tidegate"
copyright = "the authors of Tidegate; MIT or Apache-2.0"
release = version = tidegate.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc"]
source_suffix = {".md": "markdown"}
nitpicky = True
# Types of others, and what is behind public ones, have no page here.
nitpick_ignore_regex = [(r"py:.*", r"(?!tidegate\.).*"), (r"py:.*", r"tidegate\.(_core|store|figure)\..*")]

myst_heading_anchors = 4  # the anchors that GitHub gives to headings
myst_enable_extensions = ["colon_fence"]
default_role = "code"  # docstrings are written with single backticks

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True

html_theme = "furo"
html_title = f"Tidegate {release}"
templates = Path(tidegate.__file__).parent / "templates"
html_static_path = [str(HERE / "static"), str(templates / "network.css")]
html_css_files = ["site.css", "network.css"]
html_js_files = ["site.js"]
html_copy_source = False
html_show_sourcelink = False
html_show_search_summary = False  # it would fetch pages, which no browser does from a folder
# The default styles of code have too little contrast for comments.
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"

linkcheck_timeout = 20
linkcheck_retries = 2
linkcheck_ignore = [r"^(?!https?://)", r"^https://example\.org/"]


def _examples_are_code(app, what, name, obj, options, lines: list[str]) -> None:
    """A line that ends with a colon before an indented block introduces code, as Markdown reads it."""
    for place in range(len(lines) - 2):
        follows = lines[place + 2]
        if lines[place].endswith(":") and not lines[place + 1] and re.match(r" {4}\S", follows):
            lines[place] += ":"


def _finish(app, page, template, context, doctree) -> None:
    """Load pictures when they are about to be seen, for the gallery has hundreds; give headings levels."""
    if "body" in context:
        context["body"] = context["body"].replace("<img ", '<img loading="lazy" ')
    if "furo_navigation_tree" in context:
        # Only what is open: all experiments on each page would be most of the site.
        tree = context["toctree"](collapse=True, titles_only=True, maxdepth=-1, includehidden=True)
        tree = get_navigation_tree(tree)
        context["furo_navigation_tree"] = tree.replace('role="heading"', 'role="heading" aria-level="2"')


def setup(app) -> None:
    """Called by Sphinx."""
    app.connect("autodoc-process-docstring", _examples_are_code)
    # After the theme, which makes the tree.
    app.connect("html-page-context", _finish, priority=900)
