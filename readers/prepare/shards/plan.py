"""The plan of a pack: everything that determines the bytes of its shards, and how a task opens the source."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from readers.jpeg_seek_points.finder import Finder
from readers.prepare.source import PlannedSource
from readers.storage.destination import Destination

FOLDER = ".gpuaug-plan"
"""Name of the folder beside the shards that holds the plan and the entries of finished shards."""
MANIFEST = "manifest.json"
"""Name of the file beside shards that lists them and their samples; it is written last."""
# Version of the stored plan; goes up whenever its content changes.
_VERSION = 1


@dataclass(frozen=True, eq=False)
class Plan:
    """A plan that determines which samples make each shard; `plan_shards` makes it, and it can be pickled.

    Attributes:
        destination: The folder or object-store prefix to which the shards are written.
        settings: Settings of the pack, and the fingerprint of the data.
        versions: Versions of the packages that the bytes of a shard depend on, by package name.
        class_names: Name of each class number.
        boundaries: int64 [shards + 1]; shard i holds boundaries[i] <= position < boundaries[i + 1]. For a stream, whose
            shards cannot be planned, int64 [1], so that the plan has the length 0.
        sizes: The sizes on which the boundaries are based: ``estimated``, the number of samples whose size is unknown and
            was replaced by the mean of ``probe`` samples; ``sample_bytes``, the mean size of a sample in the source.
        source: Opens the data; None in a plan that was read from its destination, which can only be merged.
        finder: Finds the seek points that are written next to shards; None writes none. It does not change the shards.

    Example:
        >>> from readers.prepare import plan_shards
        >>> plan = plan_shards("photos/", "planned/", bytes_per_shard=40_000)
        >>> len(plan), plan.stretch(0), plan.settings["samples"]
        (9, range(0, 4), 36)
    """

    destination: Destination
    settings: Mapping[str, Any]
    versions: Mapping[str, Any]
    class_names: tuple[str, ...]
    boundaries: NDArray[np.int64] = field(repr=False)
    sizes: Mapping[str, int]
    source: PlannedSource | None = field(default=None, repr=False)
    finder: Finder | None = field(default=None, repr=False)

    def __len__(self) -> int:
        """Return the number of shards; 0 for a stream."""
        return len(self.boundaries) - 1

    @property
    def num_samples(self) -> int:
        """Number of samples of the source."""
        return int(self.boundaries[-1])

    @property
    def format(self) -> str:
        """Format of the shards, "tar" or "parquet"."""
        return str(self.settings.get("format", "tar"))

    def stretch(self, number: int) -> range:
        """Return the range of positions in the order that a shard covers."""
        return range(int(self.boundaries[number]), int(self.boundaries[number + 1]))

    def name(self, number: int) -> str:
        """Return the file name of a shard; numbers are padded with zeros, so that names sort in the order of the shards."""
        return f"shard-{number:0{self._digits}d}.{self.format}"

    def entry_name(self, number: int) -> str:
        """Return the name of the file that marks a shard as done."""
        return f"{FOLDER}/{number:0{self._digits}d}.json"

    @property
    def _digits(self) -> int:
        return max(6, len(str(len(self) - 1)))

    @cached_property
    def identity(self) -> str:
        """32 hex digits that identify the plan: a hash of everything that determines the bytes of the shards."""
        return sha256(self.document()).hexdigest()[:32]

    def steps(self) -> tuple[bytes, str]:
        """Return the numbers of samples of all shards as bytes of unsigned integers, and NumPy's name of their dtype."""
        steps = np.diff(self.boundaries)
        kind = "<u4" if len(steps) and steps.max() < 1 << 32 else "<u8"
        return steps.astype(kind).tobytes(), kind

    def document(self) -> bytes:
        """Return the bytes of the file ``plan.json``, which are equal on all machines; boundaries are in another file."""
        steps, kind = self.steps()
        content = {
            "version": _VERSION,
            "settings": dict(self.settings),
            "versions": dict(self.versions),
            "class_names": list(self.class_names),
            "sizes": dict(self.sizes),
            "shards": len(self),
            "boundaries": {"type": kind, "sha256": sha256(steps).hexdigest()},
        }
        return json.dumps(content, indent=1).encode()


def plan_of(document: bytes, steps: bytes, destination: Destination) -> Plan:
    """Return the plan that is stored in two files.

    Args:
        document: Content of the file ``plan.json``; see `Plan.document`.
        steps: Content of the file of boundaries; see `Plan.steps`.
        destination: The destination of the shards, where the files were read.

    Raises:
        ValueError, KeyError, TypeError: A file is damaged, or was written by another version.
    """
    content = json.loads(document)
    kept = content["boundaries"]
    if content["version"] != _VERSION or sha256(steps).hexdigest() != kept["sha256"]:
        raise ValueError("another version, or damaged boundaries")
    lengths = np.frombuffer(steps, kept["type"]).astype(np.int64)
    boundaries = np.concatenate([[0], np.cumsum(lengths)])
    return Plan(
        destination,
        content["settings"],
        content["versions"],
        tuple(content["class_names"]),
        boundaries,
        content["sizes"],
    )
