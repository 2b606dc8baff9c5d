"""What a loader did, for people and machines to read."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from dali_pipes.stats.counts import STAGES, Counts, StageCounts
from dali_pipes.stats.durations import quantiles

if TYPE_CHECKING:
    from dali_pipes.stats.loop import LoopCounts

ENOUGH_WAITING = 0.05
"""A training loop that waits for less than this share of its time is not limited by its input."""

TRAINING_LOOP = "training loop"


@dataclass(frozen=True, slots=True)
class Waits:
    """How often a stage waited for something, and how long in all."""

    count: int
    seconds: float


@dataclass(frozen=True, slots=True)
class StageStats:
    """What one stage did, over all threads.

    On a GPU the seconds are the host's part alone.

    Attributes:
        calls: How often a thread worked on it: reading, headers and draws take a batch at once, decoding and
            augmenting on the CPU some rows of it.
        samples: Samples that it worked on.
        bytes: Of reading and decoding the encoded images, else what was made or copied.
        busy_seconds: Seconds that threads worked on it; those of several threads add up.
        cpu_seconds: Of these, those in which the thread had a core. The rest it waited: for storage, for another
            process or loader that took the core, or for Python's lock.
        p50_seconds: Half of the calls took no longer than this; so `p90_seconds` and `p99_seconds`. Within 5 %.
        p90_seconds: See p50_seconds.
        p99_seconds: See p50_seconds.
        waits: For what it waited before it began.
    """

    calls: int
    samples: int
    bytes: int
    busy_seconds: float
    cpu_seconds: float
    p50_seconds: float
    p90_seconds: float
    p99_seconds: float
    waits: Mapping[str, Waits]


@dataclass(frozen=True, slots=True)
class Queue:
    """Finished batches, as they were when the training loop asked for one.

    Attributes:
        depth: The last time.
        mean: On average.
        capacity: How many are made ahead at most.
        empty: How often there was none.
        asked: How often one was asked for, but for the first of a loop.
    """

    depth: int
    mean: float
    capacity: int
    empty: int
    asked: int


@dataclass(frozen=True, slots=True)
class Remote:
    """Remote reading.

    Attributes:
        requests: Requests for parts of remote files.
        bytes: What they brought.
        cache_hits: Blocks that the block cache had.
        cache_misses: Blocks that it did not have.
    """

    requests: int
    bytes: int
    cache_hits: int
    cache_misses: int


@dataclass(frozen=True, slots=True)
class Stats:
    """What a loader did since its epoch began, or since it was made.

    Compiling our own functions, which is done once, is part of no time. A loop's first batch pays for the start of the
    pipeline and counts in `start_seconds` alone, in no rate and no waiting.

    Attributes:
        epoch: The present epoch, or the one that ended last.
        steps: Batches that were handed over.
        samples: Rows of these.
        seconds: From the first batch to the latest one.
        start_seconds: From the beginning of the loop until its first batch.
        images_per_second: Samples per second, clips where samples are clips; 0 before the second batch.
        wait_seconds: Of `seconds`, those in which the training loop waited for a batch.
        late: These, divided among the stages that threads worked on meanwhile; "idle" are threads that had nothing to
            do, because too few batches are made at once.
        queue: Finished batches that lay ready.
        bad_samples: Bad samples that were met.
        remote: Remote reading.
        whole_images: Images that our JPEG decoder left to another decoder, which decodes them whole, by kind.
        num_threads: Threads that read, decode and augment.
        stages: What each of STAGES did.
    """

    epoch: int
    steps: int
    samples: int
    seconds: float
    start_seconds: float
    images_per_second: float
    wait_seconds: float
    late: Mapping[str, float]
    queue: Queue
    bad_samples: int
    remote: Remote
    whole_images: Mapping[str, int]
    num_threads: int
    stages: Mapping[str, StageStats]
    _sums: "tuple[LoopCounts, Counts] | None" = field(default=None, repr=False, compare=False)

    @property
    def wait_share(self) -> float:
        """The share of its time that the training loop waited for batches, 0 to 1."""
        return self.wait_seconds / self.seconds if self.seconds else 0.0

    @property
    def limit(self) -> str:
        """The stage that the training loop waits for most, "training loop" where it waits for less than 5 % of its time.

        It is "" before the second batch.
        """
        if self.queue.asked == 0:
            return ""
        if self.wait_share < ENOUGH_WAITING:
            return TRAINING_LOOP
        stages = {name: spent for name, spent in self.late.items() if name in STAGES}
        return max(stages, key=lambda name: stages[name], default="read")

    def to_dict(self) -> dict[str, Any]:
        """Everything by name, in numbers, texts and dictionaries, as JSON takes them."""
        named = {name: getattr(self, name) for name in self.__dataclass_fields__ if name[0] != "_"}
        for name in ("queue", "remote"):
            named[name] = asdict(named[name])
        named["late"], named["whole_images"] = dict(self.late), dict(self.whole_images)
        named["stages"] = {name: asdict(stage) for name, stage in self.stages.items()}
        return {**named, "wait_share": self.wait_share, "limit": self.limit}

    def __sub__(self, earlier: "Stats") -> "Stats":
        """What happened between two statistics of the same scope."""
        if self._sums is None or earlier._sums is None:
            raise TypeError(
                "only statistics of a loader can be subtracted, and these were made otherwise"
            )
        (loop, counts), (loop_before, counts_before) = self._sums, earlier._sums
        between = type(loop)()
        between.add(loop)
        between.add(loop_before, -1)
        rest = counts.minus(counts_before)
        return make_stats(
            self.epoch, between, rest, self.queue.depth, self.queue.capacity, self.num_threads
        )

    def __repr__(self) -> str:
        from dali_pipes.stats.show import show

        return show(self)


def make_stats(
    epoch: int, loop: "LoopCounts", counts: Counts, depth: int, capacity: int, num_threads: int
) -> Stats:
    """Return sums as statistics."""
    seconds, rows = loop.seconds, loop.samples - loop.first_samples
    traffic = counts.traffic
    return Stats(
        epoch=epoch,
        steps=loop.steps,
        samples=loop.samples,
        seconds=seconds,
        start_seconds=loop.start_seconds,
        images_per_second=rows / seconds if seconds else 0.0,
        wait_seconds=loop.wait_seconds,
        late=loop.late,
        queue=Queue(
            depth, loop.depths / loop.asked if loop.asked else 0.0, capacity, loop.empty, loop.asked
        ),
        bad_samples=loop.bad_samples,
        remote=Remote(
            traffic.requests, traffic.num_bytes, traffic.cache_hits, traffic.cache_misses
        ),
        whole_images=dict(counts.whole_images),
        num_threads=num_threads,
        stages={name: _stage_stats(stage) for name, stage in counts.stages.items()},
        _sums=(loop, counts),
    )


def _stage_stats(counts: StageCounts) -> StageStats:
    p50, p90, p99 = quantiles(counts.durations, 0.5, 0.9, 0.99)
    return StageStats(
        counts.calls,
        counts.samples,
        counts.num_bytes,
        counts.seconds,
        counts.cpu_seconds,
        p50,
        p90,
        p99,
        {name: Waits(times, counts.waited.get(name, 0.0)) for name, times in counts.waits.items()},
    )
