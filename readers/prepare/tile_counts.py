"""What a tiling did, counted."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from readers.prepare.jpegs import JpegCounts
from readers.prepare.tile_files import Done


@dataclass
class Tiling:
    """The result of `tile`.

    Attributes:
        jpegs: How many JPEGs were tiled, those in shards included.
        source_bytes: Size of all files.
        bytes: Size of their copies.
        copied: Number of files that are no JPEGs, and of shards.
        kept: Number of files that an earlier run has finished.
        lost: Files that could not be read and are missing in the copy, with the reason.
    """

    jpegs: JpegCounts = field(default_factory=JpegCounts)
    source_bytes: int = 0
    bytes: int = 0
    copied: int = 0
    kept: int = 0
    lost: list[str] = field(default_factory=list)

    def add(self, done: Done) -> None:
        """Count a file in."""
        self.source_bytes += done.before_bytes
        self.bytes += done.after_bytes
        if done.outcome == "jpeg":
            self.jpegs.count(done.reason)
        elif done.outcome == "copied":
            self.copied += 1
        elif done.outcome == "kept":
            self.kept += 1
        else:
            self.lost.append(f"{done.source}: {done.reason}")

    def extend(self, other: "Tiling") -> None:
        """Count in what another part of the tiling did."""
        self.jpegs.tiled += other.jpegs.tiled
        self.jpegs.left.update(other.jpegs.left)
        self.source_bytes += other.source_bytes
        self.bytes += other.bytes
        self.copied += other.copied
        self.kept += other.kept
        self.lost += other.lost

    def to_json(self) -> dict[str, Any]:
        """All of it, with nothing but texts, numbers, lists and dictionaries."""
        return {
            "jpegs": {"tiled": self.jpegs.tiled, "left": dict(self.jpegs.left)},
            "source_bytes": self.source_bytes,
            "bytes": self.bytes,
            "copied": self.copied,
            "kept": self.kept,
            "lost": self.lost,
        }

    @classmethod
    def from_json(cls, told: dict[str, Any]) -> "Tiling":
        """What `to_json` told of."""
        jpegs = JpegCounts(told["jpegs"]["tiled"], Counter(told["jpegs"]["left"]))
        return cls(**(told | {"jpegs": jpegs}))
