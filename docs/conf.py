"""The documentation site: `make docs` builds it, and runs every page that has code."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

from owlfi.version import __version__

project = "owlfi"
author = "the owlfi developers"
copyright = "MIT licence"
release = version = __version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "docstrings",
    "rooms",
    "failures",
    "llms",
]
exclude_patterns = ["_build", "_extensions", "gallery/data", "**.ipynb_checkpoints"]
root_doc = "index"
default_role = "code"
suppress_warnings = ["config.cache"]

myst_enable_extensions = []
myst_heading_anchors = 3

nb_execution_mode = "cache"
nb_execution_cache_path = str(Path(__file__).parent / "_build" / "executed")
nb_execution_raise_on_error = True
nb_execution_timeout = 240
nb_merge_streams = True

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True

html_theme = "sphinx_book_theme"
html_title = "owlfi"
html_static_path = ["_static"]
html_css_files = ["owlfi.css"]
html_show_sourcelink = False
html_theme_options = {
    "show_navbar_depth": 1,
    "use_download_button": True,
    "use_fullscreen_button": False,
    "show_toc_level": 2,
    "search_bar_text": "Search, e.g. minimum_distance",
}
