"""The result of packing."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from readers.prepare.errors import PrepareError
from readers.storage.destination import Destination
from readers.storage.paths import shown_path

MANIFEST = "manifest.json"
"""Name of the file beside shards that lists them and their samples."""


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
        """Add the entry of a shard."""
        self.shards += 1
        self.samples += entry["samples"]
        self.bytes += entry["bytes"]
        self.source_bytes += entry["source_bytes"]

    def add_made(self, entry: Mapping[str, Any]) -> None:
        """Add what `make_shard` returned; a shard whose samples are all bad has no file."""
        if entry["samples"]:
            self.add(entry)
        self.bad += entry["bad_samples"]


@dataclass(frozen=True)
class Packing:
    """The result of `pack`: the shards at the destination, or those that one task of an array job made.

    Attributes:
        destination: Where the shards are.
        totals: Sums over them.
        is_stream: Whether the source was read front to back.
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
        """Name, begin and end (positions in the order), samples, bytes, source_bytes and sha256 of each; from the manifest."""
        shards: list[dict[str, Any]] = self._manifest["shards"]
        return shards

    @property
    def bad_samples(self) -> list[dict[str, str]]:
        """Key, stage and reason of each sample that was not packed; from the manifest."""
        bad: list[dict[str, str]] = self._manifest["bad_samples"] if self.totals.bad else []
        return bad

    @property
    def breaks(self) -> list[dict[str, str]]:
        """Bad samples at which a source that is read front to back breaks off, so that the samples behind them are lost."""
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
