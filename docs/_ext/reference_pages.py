"""Generate the reference: every public name with its docstring."""

import importlib
import inspect
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from types import ModuleType
from typing import Any

from gpu_aug import Operation
from tests.test_docstrings import COMMANDS, INTEGRATIONS, READERS

PACKAGES = ("readers", "gpu_aug", "dali_pipes")


def pages() -> Iterator[tuple[str, str]]:
    """Yield a page for each package, and one for each group of names in modules."""
    for name in PACKAGES:
        module = importlib.import_module(name)
        yield f"reference/{name}.rst", _package(module)
    yield (
        "reference/functions.rst",
        _modules(
            "Commands as functions",
            COMMANDS,
            "The command line calls these functions.",
        ),
    )
    yield (
        "reference/integrations.rst",
        _modules(
            "Integrations",
            INTEGRATIONS,
            "Each imports its library when it is used. How to use them: :doc:`/integrations`.",
        ),
    )
    yield (
        "reference/formats.rst",
        _modules(
            "Formats and storage",
            READERS,
            "``open_dataset`` returns these datasets, and takes their options and those of `StorageOptions`: :doc:`/reading`.",
        ),
    )


def heading(text: str, line: str) -> str:
    """Return a heading in reStructuredText."""
    return f"{text}\n{line * len(text)}\n\n"


def _package(module: ModuleType) -> str:
    names = sorted(module.__all__, key=str.lower)
    text = heading(module.__name__, "=") + f".. automodule:: {module.__name__}\n\n"
    if module.__name__ == "gpu_aug":
        names = [name for name in names if not is_operation(getattr(module, name))]
        text += "Operations, with pictures: :doc:`gallery </made/gallery/index>`.\n\n"
    for name in names:
        first = public_names()[_path(getattr(module, name), module.__name__, name)]
        own = f"{module.__name__}.{name}"
        text += (
            entry(*own.rsplit(".", 1)) if first == own else f"``{own}`` is :py:obj:`{first}`.\n\n"
        )
    return text


def _modules(title: str, modules: Mapping[str, Sequence[str]], words: str) -> str:
    text = heading(title, "=") + words + "\n\n"
    for name, members in modules.items():
        text += heading(name, "-") + "".join(entry(name, member) for member in members)
    return text


@cache
def public_names() -> dict[str, str]:
    """Return public names by the dotted place of their definition."""
    names: dict[str, str] = {}
    modules = {name: importlib.import_module(name).__all__ for name in PACKAGES}
    for module, members in (modules | COMMANDS | INTEGRATIONS | READERS).items():
        for member in members:
            value = getattr(importlib.import_module(module), member)
            names.setdefault(_path(value, module, member), f"{module}.{member}")
    return names


def _path(value: Any, module: str, name: str) -> str:
    """Return the dotted place of a definition, or the public name of a value that does not know it."""
    if inspect.isclass(value) or inspect.isfunction(value):
        return f"{value.__module__}.{value.__qualname__}"
    return f"{module}.{name}"


def is_operation(value: Any) -> bool:
    """Whether a public name of gpu_aug is an operation that a recipe can hold."""
    return inspect.isclass(value) and value in Operation._classes.values()


def entry(module: str, name: str) -> str:
    """Return the directive that documents a name."""
    value = getattr(importlib.import_module(module), name)
    if inspect.isclass(value):
        return f".. autoclass:: {module}.{name}\n   :members:\n\n"
    if callable(value):
        return f".. autofunction:: {module}.{name}\n\n"
    return f".. autodata:: {module}.{name}\n\n"
