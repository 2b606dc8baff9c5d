"""Pages of Markdown, taken apart: their code, their links, and what they name."""

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NOT_RUN = "<!-- not run"
"""A comment on the line before a block of Python that cannot run here; it says why."""


@dataclass(frozen=True)
class Block:
    """A fenced block of code, and the number of its first line in the page."""

    language: str
    text: str
    line: int
    is_run: bool


@dataclass(frozen=True)
class Page:
    """A page by its path from the root of the project."""

    name: str

    @cached_property
    def text(self) -> str:
        """All of it."""
        return (ROOT / self.name).read_text(encoding="utf-8")

    @cached_property
    def blocks(self) -> list[Block]:
        """Its fenced blocks, in order."""
        found = []
        for match in re.finditer(r"^```(\w*)\n(.*?)^```$", self.text, re.MULTILINE | re.DOTALL):
            before = self.text[: match.start()]
            last = before.rstrip("\n").rpartition("\n")[2]
            line = before.count("\n") + 2
            found.append(Block(match[1], match[2], line, not last.startswith(NOT_RUN)))
        return found

    @cached_property
    def links(self) -> list[str]:
        """The targets of its links to files and headings of the project."""
        targets = re.findall(r"\]\(([^)\s]+)\)", self.text)
        return [target for target in targets if not target.startswith(("http://", "https://"))]

    @cached_property
    def anchors(self) -> set[str]:
        """What a link may name behind `#`."""
        headings = re.findall(r"^#+ (.*)$", self.text, re.MULTILINE)
        return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}

    @cached_property
    def code(self) -> list[str]:
        """Its code in lines of prose, and the lines of its indented blocks."""
        prose = re.sub(r"^```.*?^```$", "", self.text, flags=re.MULTILINE | re.DOTALL)
        indented = re.findall(r"^    (\S.*)$", prose, re.MULTILINE)
        return re.findall(r"`([^`\n]+)`", prose) + indented


def pages() -> list[Page]:
    """The README, CONTRIBUTING and docs/, without what is made there when the site is built."""
    docs = sorted((ROOT / "docs").glob("*.md"))
    return [
        Page("README.md"),
        Page("CONTRIBUTING.md"),
        Page("ARCHITECTURE.md"),
        *(Page(str(path.relative_to(ROOT))) for path in docs),
    ]
