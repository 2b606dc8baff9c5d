"""Notes at the destination of a tiling: which groups of files are finished.

A note is named after what its group holds, so that it does for later runs too as long as the files stay as they were.
"""

import hashlib
import json
from collections.abc import Sequence
from functools import partial
from typing import Any

from readers.prepare.tile_counts import Tiling
from readers.prepare.tile_files import Done
from readers.prepare.tile_plan import TilePlan
from readers.prepare.tree import FOLDER, Entry
from readers.prepare.workers import Threads

_VERSION = 1


def write_note(
    plan: TilePlan, group: Sequence[Entry], outcomes: Sequence[Done], counted: Tiling
) -> None:
    """Note that a group is finished, when its files are there.

    Raises:
        PrepareError: It cannot be written.
    """
    sizes = [None if done.outcome == "lost" else done.after_bytes for done in outcomes]
    told = {"version": _VERSION, "sizes": sizes, "done": counted.to_json()}
    with plan.destination.create(_name(group)) as file:
        file.write(json.dumps(told).encode())


def find_note(plan: TilePlan, group: Sequence[Entry], threads: Threads) -> Tiling | None:
    """What was counted when a group was finished; None where it is not, or a copy is no longer as it was.

    Raises:
        PrepareError: The destination cannot be read.
    """
    data = plan.destination.read(_name(group))
    try:
        told: dict[str, Any] = json.loads(data or b"{}")
        if told["version"] != _VERSION:
            return None
        counted = Tiling.from_json(told["done"])
        written = [
            (entry, int(size))
            for entry, size in zip(group, told["sizes"], strict=True)
            if size is not None
        ]
    except (ValueError, KeyError, TypeError):
        return None
    whole = threads.map(partial(_is_whole, plan), written)
    return counted if all(whole) else None


def remove_note(plan: TilePlan, group: Sequence[Entry]) -> None:
    """Take a note away.

    Raises:
        PrepareError: It cannot be removed.
    """
    plan.destination.remove(_name(group))


def _is_whole(plan: TilePlan, written: tuple[Entry, int]) -> bool:
    entry, size_bytes = written
    return plan.copy(entry).is_whole(size_bytes)


def _name(group: Sequence[Entry]) -> str:
    known = [entry[1:] for entry in group]  # wherever they lie
    digest = hashlib.sha256(json.dumps(known).encode()).hexdigest()
    return f"{FOLDER}/done-{digest[:32]}.json"
