"""Results as JSON files."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from dali_pipes.machine import commit, machine, versions


def document(
    command: str,
    settings: Mapping[str, object],
    rows: Sequence[Mapping[str, object]],
    **more: object,
) -> dict[str, object]:
    """What every JSON result carries, around its rows."""
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
    """Write a result, indented so that differences between results can be read."""
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
