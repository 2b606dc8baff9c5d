"""Sums of what a loader's stages did: they can be added, subtracted and sent to another process."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from dali_pipes.monitoring.durations import Durations
from readers.storage.traffic import Traffic

Stage = Literal["read", "header", "draw", "decode", "transfer", "augment", "targets", "hand_over"]

STAGES: tuple[Stage, ...] = (
    "read",
    "header",
    "draw",
    "decode",
    "transfer",
    "augment",
    "targets",
    "hand_over",
)
"""The stages of a loader, in the order in which a sample goes through them."""

STAGE_GROUPS: dict[str, tuple[Stage, ...]] = {
    "read": ("read", "header"),
    "decode": ("decode",),
    "augment": ("draw", "augment", "targets"),
    "copy": ("transfer", "hand_over"),
}
"""The stages by what people ask about: reading, decoding, augmenting or copying."""


@dataclass(slots=True)
class StageCounts:
    """Sums of one stage over all threads.

    Attributes:
        calls: How often a thread worked on it.
        samples: Samples that it worked on.
        num_bytes: Bytes: encoded ones of read and decode, else of what was made or copied.
        seconds: Time between begin and end of its calls, less that of calls of other stages within.
        cpu_seconds: The part of it in which the thread had a core.
        durations: How long the calls took.
        waits: How often it waited for what.
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
        """Add another one's sums, or take them away."""
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
        """Add another one's sums, or take them away."""
        for stage, mine in self.stages.items():
            mine.add(other.stages[stage], sign)
        add_into(self.whole_images, other.whole_images, sign)
        self.traffic.add(other.traffic, sign)

    def copy(self) -> "Counts":
        """Return the same sums, which do not change any more."""
        copy = Counts()
        copy.add(self)
        return copy

    def minus(self, earlier: "Counts") -> "Counts":
        """Return what came since."""
        rest = self.copy()
        rest.add(earlier, -1)
        return rest


@dataclass(slots=True)
class LoopCounts:
    """Sums of what a training loop was handed; a loop's first batch counts apart, for it pays for the start.

    Attributes:
        steps: Batches.
        samples: Rows of these.
        first_samples: Rows of first batches.
        seconds: From the first batch to the latest one.
        start_seconds: Until the first batch.
        wait_seconds: Of `seconds`, those in which the loop waited.
        late: These, divided among the stages that worked meanwhile and "idle", threads that had nothing to do.
        asked: How often the loop asked for another batch than its first.
        empty: How often none was finished then.
        depths: Sum of how many were finished.
        bad_samples: Bad samples that were met.
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
        """Add another one's sums, or take them away."""
        for name in _LOOP_NUMBERS:
            setattr(self, name, getattr(self, name) + sign * getattr(other, name))
        add_into(self.late, other.late, sign)


# Asking `fields` each time would take a third of the 5 microseconds that adding a batch takes.
_LOOP_NUMBERS = tuple(one.name for one in fields(LoopCounts) if one.name != "late")


def add_into(mine: dict[Any, Any], theirs: Mapping[Any, Any], sign: int) -> None:
    """Add numbers by name; names whose number becomes 0 are removed. Another thread may be at work on `theirs`."""
    # The copy is made at once, since no Python code runs meanwhile; a loop over the original could meet a new name.
    for name, value in dict(theirs).items():
        total = mine.get(name, 0) + sign * value
        if total:
            mine[name] = total
        else:
            mine.pop(name, None)
