"""Pages beside docs/ as pages of the site, and the links that lead to them."""

import re
from collections.abc import Iterator
from pathlib import Path

from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parents[2]
COPIES = {
    "CHANGELOG.md": "changes.md",
    "CONTRIBUTING.md": "contributing.md",
    "DECISIONS.md": "decisions.md",
    "SECURITY.md": "security.md",
}
# They have every word, and would be found before the guides.
_NOT_SEARCHED = {"CHANGELOG.md", "DECISIONS.md"}
_LINK = re.compile(r"\]\((?!https?:|#)([^)\s#]+)(#[^)\s]*)?\)")


def pages() -> Iterator[tuple[str, str]]:
    """Give the pages beside docs/."""
    for source, name in COPIES.items():
        head = "---\nnosearch: true\n---\n\n" if source in _NOT_SEARCHED else ""
        yield name, head + _LINK.sub(_from_root, (ROOT / source).read_text())


def lead_to_copies(app: Sphinx, name: str, source: list[str]) -> None:  # noqa: ARG001 - Sphinx's
    """Turn the links of a page to files beside docs/ into links to their pages."""
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
