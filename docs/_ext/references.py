"""Resolve names in signatures and docstrings to public names."""

import importlib
from typing import Any

from docutils.nodes import Element, Node
from reference_pages import public_names
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.domains.python import PyObject
from sphinx.environment import BuildEnvironment


def resolve(app: Sphinx, env: BuildEnvironment, node: pending_xref, shown: Element) -> Node | None:
    """Return a link to a public name, or plain text for a name that is not ours or not public.

    None, for a dotted name that cannot be imported, makes Sphinx warn.
    """
    target = node.get("reftarget", "")
    if node.get("refdomain") != "py":
        return None
    public = public_names()
    name = public.get(target) or _unique(target, public)
    if name is not None:
        domain = env.get_domain("py")
        return domain.resolve_xref(env, node["refdoc"], app.builder, "obj", name, node, shown)
    is_prose = (
        "." not in target
    )  # of "Number of samples: ..." Sphinx takes the first word for a type
    return shown if is_prose or _exists(target) else None


def _unique(target: str, public: dict[str, str]) -> str | None:
    """Return the only public name whose last word is the target, or None."""
    found = {name for name in public.values() if name.rpartition(".")[2] == target}
    return found.pop() if len(found) == 1 else None


def _exists(name: str) -> bool:
    """Whether a dotted name can be imported."""
    parts = name.split(".")
    for end in range(len(parts) - 1, 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:end]))
        except ImportError:
            continue
        for part in parts[end:]:
            found = getattr(found, part, None)
        return found is not None
    return False


def readable(
    app: Sphinx, what: str, name: str, value: Any, options: Any, signature: str | None, returns: str | None
) -> tuple[str, str | None] | None:  # fmt: skip
    """Replace the default factories in a dataclass signature, which Sphinx cannot parse."""
    del app, what, name, value, options
    if signature is None or "<factory>" not in signature:
        return None
    return signature.replace("<factory>", "...").replace("~", ""), returns


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect the functions to events of Sphinx."""
    app.connect("missing-reference", resolve)
    app.connect("autodoc-process-signature", readable)
    for field in PyObject.doc_field_types:
        if field.name == "variable":
            field.label = "Attributes"
    return {"parallel_read_safe": True}
