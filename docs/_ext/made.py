"""Write the pages that are generated from code, results and other files, before Sphinx reads them."""

from collections.abc import Callable, Iterator
from pathlib import Path

import benchmark_pages
import command_pages
import gallery_pages
import reference_pages
import root_pages
from sphinx.application import Sphinx

FOLDER = "made"
"""Their folder below docs/; git ignores it."""

MAKERS: tuple[Callable[[], Iterator[tuple[str, str]]], ...] = (
    root_pages.pages,
    benchmark_pages.pages,
    command_pages.pages,
    gallery_pages.pages,
    reference_pages.pages,
)
"""Each yields pages: path below `FOLDER`, and text."""


def write_pages(app: Sphinx) -> None:
    """Write every page whose text changed, and remove pages that are no longer generated."""
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
    """Connect the functions to events of Sphinx."""
    app.connect("builder-inited", write_pages)
    app.connect("source-read", root_pages.lead_to_copies)
    return {"parallel_read_safe": True}
