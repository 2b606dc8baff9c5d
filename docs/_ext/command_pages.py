"""The page of the command line, made from its help texts."""

import re
from collections.abc import Iterator
from typing import Any

import typer.main
from reference_pages import heading

from bench.cli.app import app


def pages() -> Iterator[tuple[str, str]]:
    """Give one page with every command."""
    command: Any = typer.main.get_command(app)
    text = heading("The command line", "=")
    text += "All texts of ``gpu-aug COMMAND --help`` on one page. Examples: :doc:`/start`.\n\n"
    yield "commands.rst", text + "".join(_sections(command, "gpu-aug"))


def _sections(command: Any, name: str) -> Iterator[str]:
    """Yield a section for each command below a group."""
    if not hasattr(command, "list_commands"):
        yield heading(name, "-") + _described(command, name)
        return
    for word in command.list_commands(None):
        child = command.get_command(None, word)
        if child.hidden:  # such as one that was removed and says what to do instead
            continue
        yield from _sections(child, f"{name} {word}")


def _described(command: Any, name: str) -> str:
    context = command.context_class(command, info_name=name)
    usage = " ".join(command.collect_usage_pieces(context))
    lines = [f"{_plain(command.help)}\n", "::\n", f"    {name} {usage}\n"]
    for parameter in command.params:
        hidden = getattr(parameter, "hidden", False)
        if not hidden and (record := parameter.get_help_record(context)):
            lines.append(f"``{record[0]}``\n    {_plain(record[1])}\n")
    return "\n".join(lines) + "\n"


def _plain(text: str) -> str:
    """Escape the markup characters of reStructuredText."""
    return re.sub(r"([\\*_|`])", r"\\\1", " ".join(text.split()))
