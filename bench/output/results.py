"""Write results as JSON files."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from bench.output.text import print_written
from dali_pipes.machine.description import commit, machine, versions


def document(
    command: str,
    settings: Mapping[str, object],
    rows: Sequence[Mapping[str, object]],
    **more: object,
) -> dict[str, object]:
    """Return a result as values for JSON: the fields that all results have, `more` fields, and the rows."""
    return {
        "command": command,
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        "versions": versions(),
        "machine": machine(),
        "settings": dict(settings),
        "rows": list(rows),
        **more,
    }


def write_json(path: Path, content: Mapping[str, object]) -> None:
    """Write a result, indented so that differences between results are readable."""
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def save_result(
    path: Path | None,
    console: Console,
    command: str,
    settings: Mapping[str, object],
    rows: Sequence[Mapping[str, object]],
    **more: object,
) -> None:
    """If a path is given, write the `document` of a result to it and print a line."""
    if path is not None:
        write_json(path, document(command, settings, rows, **more))
        print_written(console, path)
