"""What the tasks of a tiling do: groups of files, written down once, so that all of them mean the same by a number."""

import hashlib
import json
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, Protocol

from readers.prepare.errors import PrepareError
from readers.prepare.tile_copy import Copy, LocalCopy, StoreCopy, is_shard
from readers.prepare.tree import FOLDER, Entry
from readers.storage.blob import is_url, open_blob
from readers.storage.destination import Destination
from readers.storage.paths import shown_path, with_options_of

PLAN = f"{FOLDER}/tiling.plan"
_VERSION = 3
_MOST_FILES, _MOST_BYTES = 256, 1 << 26  # of a group
_LENGTH_BYTES = 8
_TAIL_BYTES = 1 << 14  # the footer is shorter


class Entries(Protocol):
    """The files of a source.

    Attributes:
        source: Path or URL.
    """

    source: str

    def entries(self) -> Iterator[Entry]:
        """Every file, in an order that does not change."""


@dataclass(frozen=True)
class TilePlan:
    """Groups of files that are copied one after the other; a shard is a group of its own.

    Attributes:
        destination: Of the copies.
        source: Of which files; a URL remembers how it is reached.
        num_groups: How many there are.
        num_bytes: Of all files.
        digest: A hash of their names, sizes and stamps.
        largest_bytes: Size of the largest file that is no shard.
        end: Where the groups end in the file of the plan.
        by_tasks: Whether an array job began it, whose tasks and merge nothing connects.
    """

    destination: Destination
    source: str
    num_groups: int
    num_bytes: int
    digest: str
    largest_bytes: int
    end: int
    by_tasks: bool

    @classmethod
    def make(cls, tree: Entries, destination: Destination, *, by_tasks: bool = False) -> "TilePlan":
        """Write down the groups of a tree, in memory that grows by 8 bytes for each.

        Raises:
            PrepareError: The plan cannot be written.
        """
        with destination.create(PLAN) as file:
            plan, offsets = cls._made(tree, destination, file, by_tasks)
            file.write(offsets)
            told = {name: value for name, value in vars(plan).items() if name != "destination"}
            footer = json.dumps({"version": _VERSION} | told).encode()
            file.write(footer + len(footer).to_bytes(_LENGTH_BYTES, "little"))
        return plan

    @classmethod
    def _made(
        cls, tree: Entries, destination: Destination, file: BinaryIO, by_tasks: bool
    ) -> tuple["TilePlan", bytes]:
        digest, offsets = hashlib.sha256(), array("Q")
        end = total = largest = 0
        for group in groups_of(tree):
            line = line_of(group)
            digest.update(line)
            offsets.append(end)
            end += file.write(line)
            sizes = [entry.size_bytes for entry in group]
            largest = max(largest, 0 if is_shard(group[0].source) else max(sizes))
            total += sum(sizes)
        told = digest.hexdigest()
        plan = cls(destination, tree.source, len(offsets), total, told, largest, end, by_tasks)
        return plan, offsets.tobytes()

    @classmethod
    def find(cls, source: str, destination: Destination) -> "TilePlan | None":
        """The plan that lies at a destination, None where there is none.

        Args:
            source: Of the plan that is looked for, which knows how it is reached; the plan may be of another one.
            destination: Where to look.

        Raises:
            PrepareError: It is damaged or of another version.
        """
        size = destination.size_bytes(PLAN)
        if size is None:
            return None
        try:
            tail = _read(destination, max(size - _TAIL_BYTES, 0), size)
            length = int.from_bytes(tail[-_LENGTH_BYTES:], "little")
            told = json.loads(tail[-_LENGTH_BYTES - length : -_LENGTH_BYTES])
            if told.pop("version") == _VERSION:
                plan = cls(destination, **told)
                return replace(plan, source=source) if plan.source == source else plan
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            pass
        raise PrepareError(
            f"{shown_path(destination.at(PLAN))} is damaged, or of another version of gpu-aug: remove "
            f"{shown_path(destination.at(FOLDER))} and begin again"
        )

    def group(self, number: int) -> list[Entry]:
        """The files of a group.

        Raises:
            PrepareError: There is another plan by now, or none.
        """
        now = self.find(self.source, self.destination)
        if now is None or now.digest != self.digest:
            raise PrepareError(
                f"{shown_path(self.destination.location)} is being tiled from other files by now than when this began: "
                "stop one of the two, and run the other command again"
            )
        places = array(
            "Q", _read(self.destination, self.end + 8 * number, self.end + 8 * (number + 2))
        )
        stop = places[1] if number + 1 < self.num_groups else self.end
        line = _read(self.destination, places[0], stop)
        return [Entry(*told) for told in json.loads(line)]

    def copy(self, entry: Entry) -> Copy:
        """One of its files to copy."""
        if not entry.stamp:
            return LocalCopy(Path(entry.source), Path(self.destination.at(entry.name)))
        source = (
            with_options_of(self.source, entry.source) if is_url(entry.source) else entry.source
        )
        return StoreCopy(source, self.destination, entry.name)

    def remove(self) -> None:
        """Take it away."""
        self.destination.remove(PLAN)


def has_plan(destination: Destination) -> bool:
    """Whether a tiling is under way at a destination.

    Raises:
        PrepareError: It cannot be read.
    """
    return destination.size_bytes(PLAN) is not None


def groups_of(tree: Entries) -> Iterator[list[Entry]]:
    """Yield files that belong together, in the order of the tree."""
    group: list[Entry] = []
    num_bytes = 0
    for entry in tree.entries():
        if is_shard(entry.source):
            yield [entry]
            continue
        if group and (len(group) == _MOST_FILES or num_bytes + entry.size_bytes > _MOST_BYTES):
            yield group
            group, num_bytes = [], 0
        group.append(entry)
        num_bytes += entry.size_bytes
    if group:
        yield group


def digest_of(tree: Entries) -> str:
    """What `TilePlan.digest` of a tree would be."""
    digest = hashlib.sha256()
    for group in groups_of(tree):
        digest.update(line_of(group))
    return digest.hexdigest()


def line_of(group: list[Entry]) -> bytes:
    """A group as it is written down."""
    return json.dumps(group).encode() + b"\n"


def _read(destination: Destination, start: int, stop: int) -> bytes:
    [data] = open_blob(destination.at(PLAN)).read([(start, stop)])
    return bytes(data)
