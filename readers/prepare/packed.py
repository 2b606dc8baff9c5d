"""What a pack has made."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from readers.prepare.errors import PrepareError
from readers.storage.destination import Destination
from readers.storage.paths import shown_path

MANIFEST = "manifest.json"
"""File beside shards that says what they hold."""


@dataclass
class Totals:
    """Sums over shards.

    Attributes:
        shards: Number of files.
        samples: Number of packed samples.
        bytes: Size of all shards.
        source_bytes: Size of their samples in the source.
        bad: Number of samples that could not be packed.
    """

    shards: int = 0
    samples: int = 0
    bytes: int = 0
    source_bytes: int = 0
    bad: int = 0

    def add(self, entry: Mapping[str, Any]) -> None:
        """Count in what is noted of a shard."""
        self.shards += 1
        self.samples += entry["samples"]
        self.bytes += entry["bytes"]
        self.source_bytes += entry["source_bytes"]

    def add_noted(self, entry: Mapping[str, Any]) -> None:
        """Count in what `make_shard` returned, which has no file where all of its samples are bad."""
        if entry["samples"]:
            self.add(entry)
        self.bad += entry["bad_samples"]


@dataclass(frozen=True)
class Packing:
    """The result of `pack`: the contents of the folder of shards, or of what one task of an array job made of it.

    Attributes:
        destination: Where they lie.
        totals: Sums over all of them.
        is_stream: Whether the source was read from front to back.
    """

    destination: Destination = field(compare=False, repr=False)
    totals: Totals
    is_stream: bool = False

    @property
    def num_samples(self) -> int:
        """Number of packed samples."""
        return self.totals.samples

    @property
    def num_shards(self) -> int:
        """Number of shards."""
        return self.totals.shards

    @property
    def shards(self) -> list[dict[str, Any]]:
        """For each its name, begin and end (positions in the order), samples, bytes and source_bytes; read from the manifest."""
        shards: list[dict[str, Any]] = self._manifest["shards"]
        return shards

    @property
    def bad_samples(self) -> list[dict[str, str]]:
        """key, stage and reason of each sample that was not packed; read from the manifest."""
        bad: list[dict[str, str]] = self._manifest["bad_samples"] if self.totals.bad else []
        return bad

    @property
    def breaks(self) -> list[dict[str, str]]:
        """Bad samples of a source read from front to back at which it breaks off, so that what came behind is lost."""
        return [one for one in self.bad_samples if self.is_stream and one["stage"] == "read"]

    @cached_property
    def _manifest(self) -> dict[str, Any]:
        stored = self.destination.read(MANIFEST)
        if stored is None:
            raise PrepareError(
                f"{shown_path(self.destination.location)} has no {MANIFEST}: merge it when all tasks have ended"
            )
        manifest: dict[str, Any] = json.loads(stored)
        return manifest


def packing_of(
    destination: Destination, manifest: Mapping[str, Any], *, is_stream: bool = False
) -> Packing:
    """What a complete manifest says."""
    totals = Totals(bad=len(manifest["bad_samples"]))
    for shard in manifest["shards"]:
        totals.add(shard)
    return Packing(destination, totals, is_stream)
