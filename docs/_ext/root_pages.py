"""Copy pages from the root of the project into the site, and redirect links to them."""

import re
from collections.abc import Iterator
from pathlib import Path

from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parents[2]
COPIES = {
    "ARCHITECTURE.md": "architecture.md",
    "CHANGELOG.md": "changes.md",
    "CONTRIBUTING.md": "contributing.md",
    "DECISIONS.md": "decisions.md",
    "SECURITY.md": "security.md",
}
# They contain every word, so a search would list them before the pages.
_NOT_SEARCHED = {"CHANGELOG.md", "DECISIONS.md"}
_LINK = re.compile(r"\]\((?!https?:|#)([^)\s#]+)(#[^)\s]*)?\)")


def pages() -> Iterator[tuple[str, str]]:
    """Yield the pages of the root of the project."""
    for source, name in COPIES.items():
        head = "---\nnosearch: true\n---\n\n" if source in _NOT_SEARCHED else ""
        yield name, head + _LINK.sub(_from_root, (ROOT / source).read_text())


def lead_to_copies(app: Sphinx, name: str, source: list[str]) -> None:  # noqa: ARG001 - Sphinx's
    """Redirect links to files of the root of the project to their copies."""
    source[0] = re.sub(r"\]\((?:\.\./)+README\.md[^)]*\)", "](/index.md)", source[0])
    for file, copy in COPIES.items():
        source[0] = re.sub(rf"\]\((?:\.\./)+{file}", f"](/made/{copy}", source[0])


def _from_root(link: re.Match[str]) -> str:
    path, anchor = link[1], link[2] or ""
    if path.startswith("docs/"):
        return f"](/{path.removeprefix('docs/')}{anchor})"
    if path in COPIES:
        return f"](/made/{COPIES[path]}{anchor})"
    return "](/index.md)" if path == "README.md" else f"]({path}{anchor})"
