"""Writes the pages that are made of the code, the results and files beside docs/, before Sphinx reads them."""

from collections.abc import Callable, Iterator
from pathlib import Path

import benchmark_pages
import command_pages
import gallery_pages
import reference_pages
import root_pages
from sphinx.application import Sphinx

FOLDER = "made"
"""Where they lie below docs/; git does not know them."""

MAKERS: tuple[Callable[[], Iterator[tuple[str, str]]], ...] = (
    root_pages.pages,
    benchmark_pages.pages,
    command_pages.pages,
    gallery_pages.pages,
    reference_pages.pages,
)
"""Each gives pages: their paths below `FOLDER`, and their texts."""


def write_pages(app: Sphinx) -> None:
    """Write every page whose text changed, and remove those that are made no more."""
    folder = Path(app.srcdir) / FOLDER
    wanted = dict(page for make in MAKERS for page in make())
    for name, text in wanted.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
    for path in folder.rglob("*.*"):
        if path.suffix in (".md", ".rst") and str(path.relative_to(folder)) not in wanted:
            path.unlink()


def setup(app: Sphinx) -> dict[str, bool]:
    """Tell Sphinx what to call, and when."""
    app.connect("builder-inited", write_pages)
    app.connect("source-read", root_pages.lead_to_copies)
    return {"parallel_read_safe": True}
