"""Sum up the work of a loader's stages; sums can be added, subtracted and sent to another process."""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, TypeVar, get_args

from readers.storage.traffic import Traffic

Stage = Literal["read", "header", "draw", "decode", "transfer", "augment", "targets", "hand_over"]

STAGES: tuple[Stage, ...] = get_args(Stage)
"""The stages of a loader, in the order in which a sample passes through them."""

STAGE_GROUPS: dict[str, tuple[Stage, ...]] = {
    "read": ("read", "header"),
    "decode": ("decode",),
    "augment": ("draw", "augment", "targets"),
    "copy": ("transfer", "hand_over"),
}
"""The stages by task: reading, decoding, augmenting or copying."""

_PER_OCTAVE = 8
"""Count of histogram buckets between a duration and its double; the middle of a bucket is at most 4.4 % off."""

_SMALLEST_SECONDS = 1e-7  # below this, the clock cannot distinguish durations
_OFFSET = -math.log2(_SMALLEST_SECONDS) * _PER_OCTAVE

Durations = dict[int, int]
"""A histogram of durations: for each bucket that is not empty, the count of calls."""


@dataclass(slots=True)
class StageCounts:
    """Sums of one stage over all threads.

    Attributes:
        calls: Count of calls of the stage.
        samples: Count of samples in these calls.
        num_bytes: For read and decode, encoded bytes; for other stages, bytes that were produced or copied.
        seconds: Total duration of the calls, without nested calls of other stages.
        cpu_seconds: The part of `seconds` in which the thread had a CPU core.
        durations: Histogram of the durations of the calls.
        waits: Count of waits, by the name of what the stage waited for.
        waited: Seconds of these waits, by the name of what the stage waited for.
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
        """Add another stage's sums, or subtract them with sign=-1."""
        # Written out: a loop over the names takes three times as long, and this runs for each stage and thread.
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
    """Sums of all stages, of images decoded in full, of video frames in the cache ("hits") or not ("misses"), and of remote reads."""

    stages: dict[Stage, StageCounts] = field(
        default_factory=lambda: {stage: StageCounts() for stage in STAGES}
    )
    whole_images: Counter[str] = field(default_factory=Counter)
    frames: Counter[str] = field(default_factory=Counter)
    traffic: Traffic = field(default_factory=Traffic)

    def add(self, other: "Counts", sign: int = 1) -> None:
        """Add other sums, or subtract them with sign=-1."""
        for stage, mine in self.stages.items():
            mine.add(other.stages[stage], sign)
        add_into(self.whole_images, other.whole_images, sign)
        add_into(self.frames, other.frames, sign)
        self.traffic.add(other.traffic, sign)


@dataclass(slots=True)
class LoopCounts:
    """Sums over the batches that a training loop received.

    The first batch of a loop is counted separately, because it includes the start of the pipeline.

    Attributes:
        steps: Count of batches.
        samples: Count of rows in these batches.
        first_samples: Count of rows in the first batches of loops.
        seconds: Seconds from the first batch to the latest one.
        start_seconds: Seconds until the first batch.
        wait_seconds: Part of `seconds` in which the loop waited.
        late: Part of `wait_seconds` by the stage that worked meanwhile; "idle" is the share of threads without work.
        asked: Count of requests for a batch, except the first request of each loop.
        empty: Count of requests at which no batch was ready.
        depths: Sum over all requests of the count of batches that were ready.
        bad_samples: Count of bad samples.
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
        """Add other sums, or subtract them with sign=-1."""
        for name in _LOOP_NUMBERS:
            setattr(self, name, getattr(self, name) + sign * getattr(other, name))
        add_into(self.late, other.late, sign)


# Computed once: calling `fields` each time would take a third of the 5 us of adding a batch.
_LOOP_NUMBERS = tuple(one.name for one in fields(LoopCounts) if one.name != "late")


Sums = TypeVar("Sums", Counts, LoopCounts)


def sums_since(earlier: Sums, now: Sums) -> Sums:
    """Return what was added to sums since an earlier copy; since empty sums, it is a copy."""
    rest = type(now)()
    rest.add(now)
    rest.add(earlier, -1)
    return rest


def add_into(mine: dict[Any, Any], theirs: Mapping[Any, Any], sign: int) -> None:
    """Add counts or sums by name to `mine`, multiplied by `sign`, and remove names whose value becomes 0.

    Another thread may be changing `theirs`.
    """
    # Copying is atomic because it runs no Python code; a loop over the original could meet a new name.
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
    """Return quantiles of durations in seconds, one per share; 0 if the histogram has no calls.

    Args:
        durations: Histogram: the count of calls in each bucket.
        shares: Shares of the calls, in (0, 1), ascending; 0.5 gives the median.
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
