"""The documentation site: `make docs` builds it, and runs every page that has code."""

import importlib.metadata
import os
import sys
from pathlib import Path

BUILT = Path(__file__).parent / "_build"
# Most of the time of a page is that of compilers: pages share what they compile, and XLA emits
# simpler code, as in the tests.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(BUILT / "compiled"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
FLAGS = "--xla_cpu_use_fusion_emitters=false --xla_backend_optimization_level=1"
os.environ.setdefault("XLA_FLAGS", FLAGS)
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

project = "owlfi"
author = "the owlfi developers"
copyright = "MIT licence"
release = version = importlib.metadata.version("owlfi")

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
nb_execution_cache_path = str(BUILT / "executed")
nb_execution_raise_on_error = True
nb_execution_timeout = 240
nb_merge_streams = True

toc_object_entries = False
autodoc_member_order = "bysource"
autodoc_typehints = "signature"

html_theme = "sphinx_book_theme"
html_title = "owlfi"
html_static_path = ["_static"]
html_favicon = "_static/owlfi.svg"
html_context = {"default_mode": "auto"}
html_css_files = ["owlfi.css"]
html_show_sourcelink = False
html_theme_options = {
    "show_navbar_depth": 1,
    "use_download_button": True,
    "use_fullscreen_button": False,
    "show_toc_level": 2,
    "search_bar_text": "Search, e.g. minimum_distance",
}
