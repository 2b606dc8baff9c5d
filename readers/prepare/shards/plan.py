"""A plan of shards: everything that decides about their bytes, and how whoever makes one opens the source."""

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
    """Which positions make which shard, and how; `plan_shards` makes it, and it can be pickled.

    Attributes:
        destination: Where the shards go.
        settings: What was asked for, and the fingerprint of the data.
        versions: By name, what else decides about the bytes of a shard.
        class_names: Name of each class number.
        boundaries: int64 [shards + 1]; shard i holds the positions boundaries[i] <= position < boundaries[i + 1].
        sizes: How the boundaries were found: ``estimated``, the number of samples whose size the source does not tell
            and for which the mean of ``probe`` samples was taken; ``sample_bytes``, the mean size of a sample.
        source: Opens the data; None in a plan that was read from its destination, which can be merged only.
        finder: Finds the checkpoints that lie beside shards, None writes none. Shards are the same with and without.

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
        """Number of shards."""
        return len(self.boundaries) - 1

    @property
    def num_samples(self) -> int:
        """Number of samples of the source."""
        return int(self.boundaries[-1])

    @property
    def format(self) -> str:
        """``tar`` or ``parquet``."""
        return str(self.settings.get("format", "tar"))

    def stretch(self, number: int) -> range:
        """The positions of a shard in the order."""
        return range(int(self.boundaries[number]), int(self.boundaries[number + 1]))

    def name(self, number: int) -> str:
        """File name of a shard; names sort as numbers do."""
        return f"shard-{number:0{self._digits}d}.{self.format}"

    def entry_name(self, number: int) -> str:
        """Name of the file that says that a shard is done."""
        return f"{FOLDER}/{number:0{self._digits}d}.json"

    @property
    def _digits(self) -> int:
        return max(6, len(str(len(self) - 1)))

    @cached_property
    def identity(self) -> str:
        """32 hex digits over everything that decides about the shards."""
        return sha256(self.document()).hexdigest()[:32]

    def steps(self) -> tuple[bytes, str]:
        """The lengths of the shards as whole numbers of one size, and NumPy's name of their type."""
        steps = np.diff(self.boundaries)
        kind = "<u4" if len(steps) and steps.max() < 1 << 32 else "<u8"
        return steps.astype(kind).tobytes(), kind

    def document(self) -> bytes:
        """The plan as it is stored beside its boundaries: the same bytes wherever it is made."""
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
    """The plan that is stored in these bytes.

    Raises:
        ValueError, KeyError, TypeError: They hold none.
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
