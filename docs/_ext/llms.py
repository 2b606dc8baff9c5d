"""Writes llms.txt beside the site: what each page is about, in Markdown, for programs that read it."""

from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx

_LONG = 240


def write(app: Sphinx, error: Exception | None) -> None:
    """Write the list of all pages in the order of the contents, each with its first sentence."""
    if error is not None or app.builder.name != "html":
        return
    root = app.config.root_doc
    lines = [f"# {app.config.project}", "", f"> {_first_sentence(app, root)}", ""]
    for name in _in_order(app, root):
        title = app.env.titles[name].astext()
        lines.append(
            f"- [{title}]({app.builder.get_target_uri(name)}): {_first_sentence(app, name)}"
        )
    (Path(app.outdir) / "llms.txt").write_text("\n".join(lines) + "\n")


def _in_order(app: Sphinx, name: str) -> list[str]:
    found = []
    for child in app.env.toctree_includes.get(name, []):
        found += [child, *_in_order(app, child)]
    return found


def _first_sentence(app: Sphinx, name: str) -> str:
    for paragraph in app.env.get_doctree(name).findall(nodes.paragraph):
        if isinstance(paragraph.parent, nodes.section):
            text = " ".join(paragraph.astext().split())
            return text if len(text) <= _LONG else f"{text[:_LONG].rpartition(' ')[0]} ..."
    return ""


def setup(app: Sphinx) -> dict[str, bool]:
    """Tell Sphinx what to call, and when."""
    app.connect("build-finished", write)
    return {"parallel_read_safe": True}
