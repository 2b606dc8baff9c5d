"""Settings of Sphinx for the site, which `make docs` builds without a network."""

import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "docs" / "_ext")]

project = "gpu-aug"
release = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
copyright = "the authors of gpu-aug, Apache-2.0"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "llms",
    "made",
    "references",
]
exclude_patterns = ["_ext"]
default_role = "code"
smartquotes = False
nitpicky = True

autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
maximum_signature_line_length = 88
python_use_unqualified_type_names = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True

myst_enable_extensions = ["colon_fence", "deflist", "fieldlist"]
myst_heading_anchors = 4

html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_title = f"gpu-aug {release}"
html_copy_source = False
html_show_sphinx = False
