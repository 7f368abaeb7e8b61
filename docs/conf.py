"""Settings of the site: `make site` builds it from the Markdown pages, and from the docstrings of the public names."""

import os
import sys
from importlib.util import find_spec
from pathlib import Path

DOCS = Path(__file__).parent
ROOT = DOCS.parent
sys.path[:0] = [str(ROOT), str(DOCS / "website")]

import build_site  # noqa: E402

project = "fastacct"
author = "The fastacct developers"
copyright = author
language = "en"

# Sources are the pages of the repository where they are, so that a link between two of them works on GitHub and here.
root_doc = "docs/README"
include_patterns = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "bench/RESULTS.md", "docs/**"]
exclude_patterns = [".*", "build", "dist", "docs/_build", "docs/website", "**/__pycache__"]

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.mathjax"]
extensions += ["sphinx_copybutton", "numpydoc"]
nitpicky = True
nitpick_ignore_regex = [("py:.*", ".*")]  # annotations name private types
suppress_warnings = ["config.cache"]

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4
myst_dmath_double_inline = True
highlight_language = "default"
pygments_style = "a11y-high-contrast-light"

nb_execution_mode = "cache"
nb_execution_cache_path = str(DOCS / "_build" / "cells")
nb_execution_timeout = 120
nb_execution_raise_on_error = True
nb_ipywidgets_js = {}
nb_merge_streams = True
nb_mime_priority_overrides = [("html", "text/html", 0), ("html", "image/svg+xml", 5), ("html", "image/png", 10)]

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the docstrings say it in words
autodoc_mock_imports = [name for name in build_site.FOREIGN if find_spec(name) is None]
numpydoc_show_class_members = False
numpydoc_xref_param_type = False
default_role = "name"
autosummary_generate = False  # pages of names are made by api_pages.py
python_maximum_signature_line_length = 88

# What is copied is code: without prompts, and without what it prints.
copybutton_prompt_text = r">>> |\.\.\. ?|\$ "
copybutton_prompt_is_regexp = True

linkcheck_ignore = ["https://github.com/fastacct/", "https://raw.githubusercontent.com/fastacct/"]  # not there yet
linkcheck_anchors = False

# One file of MathJax, with its fonts in it: formulas need no network.
mathjax_path = "tex-svg.js"
mathjax3_config = {"options": {"enableMenu": False}, "svg": {"fontCache": "local"}}

html_theme = "pydata_sphinx_theme"
html_title = "fastacct"
html_static_path = [str(DOCS / "website" / "style.css")]
html_css_files = ["style.css"]
html_sourcelink_suffix = ""
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "logo": {"text": "fastacct"},
    "github_url": "https://github.com/fastacct/fastacct",
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "header_links_before_dropdown": 6,
    "navbar_align": "left",
    "collapse_navigation": True,  # a page names what is below it, and not all names of the package
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_sidebars = {"docs/README": []}

# Where several versions are published side by side, a menu leads from one to another; at home none is needed.
PUBLISHED = os.environ.get("FASTACCT_SITE")
if PUBLISHED:
    version = os.environ.get("FASTACCT_SITE_VERSION", "dev").removeprefix("v")
    html_baseurl = f"{PUBLISHED}/{version}/"
    html_theme_options |= {
        "switcher": {"json_url": f"{PUBLISHED}/switcher.json", "version_match": version},
        "check_switcher": False,
        "navbar_end": ["version-switcher", "theme-switcher", "navbar-icon-links"],
    }


def setup(app):
    """Pages of the reference, lists of contents, and the role of names in single quotes."""
    build_site.connect(app)
