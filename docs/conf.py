"""How Sphinx builds the site: `make docs`, without a network and with warnings as errors."""

from __future__ import annotations

import os
import re
import sys
import warnings
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

HERE = Path(__file__).parent
ROOT = HERE.parent
sys.path.insert(0, str(ROOT / "tools"))

import benchmark_pages  # noqa: E402
import document_pages  # noqa: E402
import door_table  # noqa: E402
import reference_pages  # noqa: E402
import support_table  # noqa: E402
from sphinx_gallery.sorting import FileNameSortKey  # noqa: E402

import calibrant  # noqa: E402

project = "Calibrant"
author = "The Calibrant developers"
copyright = f"{author}, BSD-3-Clause"
version = release = calibrant.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx-mathjax-offline",  # formulas without a network
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "gallery/backreferences", "gallery/**/*.py"]
templates_path = ["_templates"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
suppress_warnings = ["config.cache", "toc.empty_glob"]

# --- pages ------------------------------------------------------------------------------------------------------------

myst_enable_extensions = ["amsmath", "attrs_block", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
myst_dmath_double_inline = True

# --- reference --------------------------------------------------------------------------------------------------------

autosummary_generate = True
toc_object_entries_show_parents = "hide"
autosummary_ignore_module_all = False
autodoc_default_options = {"members": False}
autodoc_typehints = "none"  # the signature of a name shows its arguments; their types are in the text
numpydoc_class_members_toctree = False
numpydoc_show_class_members = False  # the class template lists them
numpydoc_xref_param_type = False

# --- gallery ----------------------------------------------------------------------------------------------------------

GALLERIES = {"gallery": "gallery", "papers": "gallery/papers"}
"""Where the pages of each folder of examples go."""

sphinx_gallery_conf = {
    "examples_dirs": [str(ROOT / "examples" / folder) for folder in GALLERIES],
    "gallery_dirs": list(GALLERIES.values()),
    "filename_pattern": r"plot_",
    "ignore_pattern": r"^table\.py$",  # what the pictures of papers share
    "within_subsection_order": FileNameSortKey,
    "abort_on_example_error": True,
    "backreferences_dir": "gallery/backreferences",  # pages of the reference show the examples that use them
    "doc_module": ("calibrant",),
    "capture_repr": (),
    "download_all_examples": False,
    "image_scrapers": ("matplotlib",),
    "matplotlib_animations": False,
    "min_reported_time": 1e9,
    "notebook_extensions": set(),
    "remove_config_comments": True,
    "reset_modules": ("matplotlib",),
    "show_memory": False,
    "show_signature": False,
    "write_computation_times": False,
}
warnings.filterwarnings("ignore", message="FigureCanvasAgg is non-interactive")

# --- HTML -------------------------------------------------------------------------------------------------------------

html_theme = "pydata_sphinx_theme"
html_title = f"Calibrant {release}"
html_static_path = ["_static"]
html_css_files = ["calibrant.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {"text": "Calibrant"},
    "navbar_end": ["theme-switcher"],
    "navbar_persistent": ["search-button"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
    "show_prev_next": True,
    "show_toc_level": 2,
    "header_links_before_dropdown": 8,
}
html_sidebars = {"index": []}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_exclude = ".linenos, .gp, .go"


def _write_pages() -> None:
    """Write the generated pages, which Git does not keep; before Sphinx looks which pages there are."""
    reference_pages.write(HERE / "reference")
    support_table.write(HERE / "reference" / "support.md")
    door_table.write(HERE / "reference" / "doors.md")
    document_pages.write(HERE / "reference" / "documents.md")
    benchmark_pages.write(HERE / "benchmarks" / "files.md")
    for folder, pages in GALLERIES.items():
        for page in (HERE / pages).glob("plot_*.rst"):  # of examples that are gone
            if not (ROOT / "examples" / folder / f"{page.stem}.py").exists():
                page.unlink()


def _public_target(app: Any, env: Any, node: Any, content: Any) -> Any:
    """Link a name by its module, as docstrings have it, to the page of its public name."""
    if node.get("refdomain") != "py":
        return None
    public = reference_pages.public_name(node["reftarget"], node.get("py:module"))
    if public is None or public == node["reftarget"]:
        return None
    return env.get_domain("py").resolve_xref(env, node["refdoc"], app.builder, "obj", public, node, content)


def _trim_blocks(app: Any, name: str, source: list[str]) -> None:
    """Drop the empty line that a doctest has before the end of its block."""
    source[0] = re.sub(r"\n\n+(```+)(?=\n)", r"\n\1", source[0])


def setup(app: Any) -> None:
    """Write the generated pages, and link docstrings to public names."""
    _write_pages()
    app.connect("missing-reference", _public_target)
    app.connect("source-read", _trim_blocks)
