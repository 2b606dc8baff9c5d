"""Write llms.txt beside the site: what each page is about and programs to copy, for assistants that write code."""

import re
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx

_LONG = 400  # characters: a first sentence, or the operations of a page of the gallery
_PROGRAMS = "tasks"
"""The page whose text is copied: an assistant gets working code without opening a second page."""
_LINK = re.compile(r"\]\((\w+)\.md(#[\w-]+)?\)")
_FILE = re.compile(r"\[[^\]]+\]\(\.\./([^)]+)\)")  # a file of the checkout, not of the site


def write(app: Sphinx, error: Exception | None) -> None:
    """Write the list of all pages in the order of the contents, each with its first sentence, and the programs."""
    if error is not None or app.builder.name != "html":
        return
    root = app.config.root_doc
    lines = [f"# {app.config.project}", "", f"> {_first_sentence(app, root)}", ""]
    for name in _in_order(app, root):
        title = app.env.titles[name].astext()
        uri = app.builder.get_target_uri(name)
        lines.append(f"- [{title}]({uri}): {_first_sentence(app, name)}")
    text = "\n".join(lines) + "\n\n" + _programs(app)
    (Path(app.outdir) / "llms.txt").write_text(text)


def _in_order(app: Sphinx, name: str) -> list[str]:
    names = []
    for child in app.env.toctree_includes.get(name, []):
        names += [child, *_in_order(app, child)]
    return names


def _first_sentence(app: Sphinx, name: str) -> str:
    for paragraph in app.env.get_doctree(name).findall(nodes.paragraph):
        if isinstance(paragraph.parent, nodes.section):
            text = " ".join(paragraph.astext().split())
            return text if len(text) <= _LONG else f"{text[:_LONG].rpartition(' ')[0]} ..."
    return ""


def _programs(app: Sphinx) -> str:
    """Return the Markdown of the page of programs, one level lower, with links to pages of the site."""
    text = Path(app.env.doc2path(_PROGRAMS)).read_text()
    text = re.sub(r"^(#+ (?=[A-Z]))", r"#\1", text, flags=re.MULTILINE)
    text = _FILE.sub(r"`\1`", text)
    return _LINK.sub(lambda link: f"]({app.builder.get_target_uri(link[1])}{link[2] or ''})", text)


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect `write` to the end of the build."""
    app.connect("build-finished", write)
    return {"parallel_read_safe": True}
