"""Sums of what a loader's stages did: they can be added, subtracted and sent to another process."""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_args

from readers.storage.traffic import Traffic

Stage = Literal["read", "header", "draw", "decode", "transfer", "augment", "targets", "hand_over"]

STAGES: tuple[Stage, ...] = get_args(Stage)
"""The stages of a loader, in the order in which a sample goes through them."""

STAGE_GROUPS: dict[str, tuple[Stage, ...]] = {
    "read": ("read", "header"),
    "decode": ("decode",),
    "augment": ("draw", "augment", "targets"),
    "copy": ("transfer", "hand_over"),
}
"""The stages by what people ask about: reading, decoding, augmenting or copying."""

_PER_OCTAVE = 8
"""Buckets between a duration and its double: the middle of a bucket is at most 4.4 % off."""

_SMALLEST_SECONDS = 1e-7  # below it the clock cannot tell durations apart
_OFFSET = -math.log2(_SMALLEST_SECONDS) * _PER_OCTAVE

Durations = dict[int, int]
"""A histogram of durations: the number of calls in each bucket that is not empty."""


@dataclass(slots=True)
class StageCounts:
    """Sums of one stage over all threads.

    Attributes:
        calls: Number of calls.
        samples: Number of samples in them.
        num_bytes: Encoded bytes of read and decode, else bytes that were made or copied.
        seconds: Time between begin and end of its calls, less that of calls of other stages within.
        cpu_seconds: The part of it in which the thread had a core.
        durations: How long the calls took.
        waits: How often it waited, by what for.
        waited: Seconds of these.
    """

    calls: int = 0
    samples: int = 0
    num_bytes: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    durations: Durations = field(default_factory=dict)
    waits: dict[str, int] = field(default_factory=dict)
    waited: dict[str, float] = field(default_factory=dict)

    def add(self, other: "StageCounts", sign: int = 1) -> None:
        """Add the sums of another one, or subtract them with sign=-1."""
        # No loop over the names, which takes three times as long: it is done per stage and thread.
        self.calls += sign * other.calls
        self.samples += sign * other.samples
        self.num_bytes += sign * other.num_bytes
        self.seconds += sign * other.seconds
        self.cpu_seconds += sign * other.cpu_seconds
        add_into(self.durations, other.durations, sign)
        if other.waits:
            add_into(self.waits, other.waits, sign)
            add_into(self.waited, other.waited, sign)


@dataclass(slots=True)
class Counts:
    """Sums of all stages, of the images that our JPEG decoder left to another one, and of remote reading."""

    stages: dict[Stage, StageCounts] = field(
        default_factory=lambda: {stage: StageCounts() for stage in STAGES}
    )
    whole_images: Counter[str] = field(default_factory=Counter)
    traffic: Traffic = field(default_factory=Traffic)

    def add(self, other: "Counts", sign: int = 1) -> None:
        """Add the sums of another one, or subtract them with sign=-1."""
        for stage, mine in self.stages.items():
            mine.add(other.stages[stage], sign)
        add_into(self.whole_images, other.whole_images, sign)
        self.traffic.add(other.traffic, sign)

    def copy(self) -> "Counts":
        """Return the present sums, which do not change any more."""
        copy = Counts()
        copy.add(self)
        return copy

    def minus(self, earlier: "Counts") -> "Counts":
        """Return the sums since an earlier moment."""
        rest = self.copy()
        rest.add(earlier, -1)
        return rest


@dataclass(slots=True)
class LoopCounts:
    """Sums of what a training loop received. A loop's first batch counts apart, since it pays for the start.

    Attributes:
        steps: Number of batches.
        samples: Their rows.
        first_samples: Rows of first batches.
        seconds: From the first batch to the latest one.
        start_seconds: Until the first batch.
        wait_seconds: Part of `seconds` in which the loop waited.
        late: These, divided among the stages that worked meanwhile and "idle" for threads that had nothing to do.
        asked: How often the loop asked for a batch, without its first.
        empty: How often none was finished then.
        depths: Sum of how many were finished.
        bad_samples: Number of bad samples.
    """

    steps: int = 0
    samples: int = 0
    first_samples: int = 0
    seconds: float = 0.0
    start_seconds: float = 0.0
    wait_seconds: float = 0.0
    late: dict[str, float] = field(default_factory=dict)
    asked: int = 0
    empty: int = 0
    depths: int = 0
    bad_samples: int = 0

    def add(self, other: "LoopCounts", sign: int = 1) -> None:
        """Add the sums of another one, or subtract them with sign=-1."""
        for name in _LOOP_NUMBERS:
            setattr(self, name, getattr(self, name) + sign * getattr(other, name))
        add_into(self.late, other.late, sign)

    def minus(self, earlier: "LoopCounts") -> "LoopCounts":
        """Return the sums since an earlier moment."""
        rest = LoopCounts()
        rest.add(self)
        rest.add(earlier, -1)
        return rest


# Asking `fields` each time would take a third of the 5 us that adding a batch takes.
_LOOP_NUMBERS = tuple(one.name for one in fields(LoopCounts) if one.name != "late")


def add_into(mine: dict[Any, Any], theirs: Mapping[Any, Any], sign: int) -> None:
    """Add numbers by name; a name whose number becomes 0 is removed. Another thread may be changing `theirs`."""
    # Copying is atomic, since no Python code runs meanwhile; a loop over the original could meet a new name.
    for name, value in dict(theirs).items():
        total = mine.get(name, 0) + sign * value
        if total:
            mine[name] = total
        else:
            mine.pop(name, None)


def bucket_of(seconds: float) -> int:
    """Return the bucket of a duration."""
    return int(math.log2(seconds) * _PER_OCTAVE + _OFFSET) if seconds > _SMALLEST_SECONDS else 0


def quantiles(durations: Mapping[int, int], *shares: float) -> tuple[float, ...]:
    """Return for each share the seconds that this part of all calls did not exceed; 0 without calls.

    Args:
        durations: The number of calls in each bucket.
        shares: In (0, 1), ascending.
    """
    total = sum(durations.values())
    if not total:
        return (0.0,) * len(shares)
    results, seen, buckets = [], 0, iter(sorted(durations.items()))
    bucket = 0
    for share in shares:
        while seen < math.ceil(share * total):
            bucket, count = next(buckets)
            seen += count
        results.append(_SMALLEST_SECONDS * 2 ** ((bucket + 0.5) / _PER_OCTAVE))
    return tuple(results)
