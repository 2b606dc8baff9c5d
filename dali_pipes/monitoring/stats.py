"""State the work of a loader and its bottleneck, for people and programs (Stats)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from dali_pipes.monitoring.counts import STAGES, Counts, LoopCounts, sums_since
from dali_pipes.monitoring.stage_stats import (
    Frames,
    Queue,
    Remote,
    StageStats,
    shown_name,
    stage_stats,
    stage_table,
)
from readers.plural import counted

ENOUGH_WAITING = 0.05
"""If a training loop waits for less than this share of its time, the input is not its bottleneck."""

ENOUGH_CORES = 0.75
"""If threads had a core for less than this share of their work, they share the cores with other threads."""

TRAINING_LOOP = "training loop"

# Smallest share of the waiting time to name a stage: a sentence cannot name all stages.
_WORTH_NAMING = 0.05

_COMPUTING = ("header", "draw", "decode", "augment", "targets")
"""Stages that need a core all the time; reading and copying also wait for storage and devices."""


@dataclass(frozen=True, slots=True)
class Stats:
    """The work of a loader since its epoch began, or since the loader was made.

    Time for compiling our own functions, which happens once, is excluded. The first batch of a loop includes the start
    of the pipeline, so it only counts in `start_seconds`, not in rates or waiting.

    Attributes:
        epoch: The present epoch, or the one that ended last.
        steps: Count of batches that were handed over.
        samples: Count of rows in these batches.
        seconds: Seconds from the first batch to the latest one.
        start_seconds: Seconds from the start of the loop to its first batch.
        images_per_second: Samples per second (clips if samples are clips); 0 before the second batch.
        wait_seconds: The part of `seconds` in which the training loop waited for a batch.
        late: `wait_seconds` divided among the stages that threads worked on meanwhile; "idle" is the share of threads
            without work, because too few batches are made at once.
        queue: How many batches were finished when the training loop requested one.
        bad_samples: Count of bad samples.
        remote: Requests and cache use of remote reading.
        frames: Use of the cache of decoded frames of videos.
        whole_images: Count of images, by kind, that our JPEG decoder left to another decoder, which decodes full
            images.
        num_threads: Count of threads that read, decode and augment.
        stages: The statistics of each of STAGES.
        workers: The machine of each remote worker that has started.

    Example:
        >>> loader = Loader(open_dataset("photos/"), Recipe.imagenet_train(size=64), batch_size=4)
        >>> for images, labels in loader:
        ...     pass
        >>> stats = loader.stats()                         # print it
        >>> stats.samples == stats.stages["decode"].samples
        True
        >>> stats.to_dict()["stages"]["decode"]["busy_seconds"] > 0
        True
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
    workers: Sequence[str] = ()
    frames: Frames = field(default_factory=Frames)
    _sums: tuple[LoopCounts, Counts] | None = field(default=None, repr=False, compare=False)
    _since: int = field(default=0, repr=False, compare=False)

    @property
    def wait_share(self) -> float:
        """The share of the training loop's time, 0 to 1, in which it waited for batches."""
        return self.wait_seconds / self.seconds if self.seconds else 0.0

    @property
    def core_share(self) -> float:
        """The share of the threads' working time, without reading, in which they had a core; 1 if they did not work."""
        working = [stage for name, stage in self.stages.items() if name in _COMPUTING]
        busy = sum(stage.busy_seconds for stage in working)
        return min(1.0, sum(stage.cpu_seconds for stage in working) / busy) if busy else 1.0

    @property
    def limit(self) -> str:
        """The stage that the training loop waits for most; "training loop" if it waits for less than 5 % of its time.

        Before the second batch, the result is "".
        """
        if self.queue.asked == 0:
            return ""
        if self.wait_share < ENOUGH_WAITING:
            return TRAINING_LOOP
        busy = {name: stage.busy_seconds for name, stage in self.stages.items()}
        late = {name: (self.late.get(name, 0.0), busy.get(name, 0.0)) for name in STAGES}
        return max(late, key=lambda name: late[name])

    def to_dict(self) -> dict[str, Any]:
        """Return all values by name: numbers, strings and dictionaries for JSON."""
        named = asdict(replace(self, workers=list(self.workers), _sums=None))
        return {
            **{name: value for name, value in named.items() if not name.startswith("_")},
            "wait_share": self.wait_share,
            "core_share": self.core_share,
            "limit": self.limit,
        }

    def __sub__(self, earlier: "Stats") -> "Stats":
        """Return the difference between two statistics of one loop, or of one loader with the scope "run".

        Raises:
            ValueError: The two statistics do not count from one moment.
        """
        if self._sums is None or earlier._sums is None or self._since != earlier._since:
            raise ValueError(
                'these statistics do not count from the same moment; subtract those of one loop, or stats("run") of '
                "one loader"
            )
        (loop, counts), (loop_before, counts_before) = self._sums, earlier._sums
        sums = sums_since(loop_before, loop), sums_since(counts_before, counts)
        depth, capacity = self.queue.depth, self.queue.capacity
        return make_stats(self.epoch, sums, (depth, capacity), self.num_threads, self._since)

    @property
    def verdict(self) -> str:
        """The bottleneck of the training, in one sentence; "" before the second batch."""
        share = f"{self.wait_share:.0%} of its time"
        if self.limit in ("", TRAINING_LOOP):
            return self.limit and f"the training loop is the limit: it waited for {share}"
        parts = [
            f"{shown_name(name)} {spent / self.wait_seconds:.0%}"
            for name, spent in sorted(self.late.items(), key=lambda part: -part[1])
            if spent >= _WORTH_NAMING * self.wait_seconds
        ]
        cores = ""
        if self.core_share < ENOUGH_CORES:
            cores = (
                f"; they had a core for only {self.core_share:.0%} of their work: other threads and processes take the "
                "cores"
            )
        return f"the training loop waited for {share}, while threads worked on: {', '.join(parts)}{cores}"

    def __repr__(self) -> str:
        return "\n".join([*self.summary(), *stage_table(self.stages)])

    def summary(self) -> Iterator[str]:
        """Yield sentences about batches, waiting and other notable values."""
        if not self.steps:
            yield f"epoch {self.epoch}: no batch yet"
            return
        rate = f", {self.images_per_second:.0f} a second after the first" if self.seconds else ""
        yield (
            f"epoch {self.epoch}: {counted(self.samples, 'sample')} in {counted(self.steps, 'batch')}{rate}; "
            f"the first batch took {self.start_seconds:.2f} s"
        )
        if self.verdict:
            queue = self.queue
            yield self.verdict
            yield (
                f"finished batches when one was asked for: {queue.mean:.1f} of {queue.capacity} on average, "
                f"none {queue.empty} times of {queue.asked}"
            )
        if self.workers:
            yield f"made by {on_ray(len(self.workers), self.workers)}"
        if self.bad_samples:
            yield f"bad samples: {self.bad_samples}"
        if self.remote.requests or self.remote.cache_hits:
            yield self.remote.describe()
        if self.frames.cache_hits or self.frames.cache_misses:
            yield self.frames.describe()
        if self.whole_images:
            kinds = ", ".join(f"{count:,} {kind}" for kind, count in self.whole_images.items())
            yield f"decoded whole, not by our JPEG decoder: {kinds}"


def on_ray(count: int, machines: Sequence[str]) -> str:
    """Return a text with the count of remote workers, and the machines of the workers that have started."""
    where = f": {', '.join(machines)}" if machines else ", not started yet"
    return f"{counted(count, 'worker')} on Ray{where}"


def make_stats(
    epoch: int,
    sums: tuple[LoopCounts, Counts],
    queue: tuple[int, int],
    num_threads: int,
    since: int,
) -> Stats:
    """Return the statistics for given sums.

    Args:
        epoch: The epoch.
        sums: The counts of the loop, and the counts of the stages.
        queue: Count of finished batches at the latest request, and the largest count that is made ahead.
        num_threads: Count of threads that read, decode and augment.
        since: Index of the loop from which the sums count; 0 for the full run.
    """
    loop, counts = sums
    depth, capacity = queue
    rows, traffic = loop.samples - loop.first_samples, counts.traffic
    mean_depth = loop.depths / loop.asked if loop.asked else 0.0
    return Stats(
        epoch=epoch,
        steps=loop.steps,
        samples=loop.samples,
        seconds=loop.seconds,
        start_seconds=loop.start_seconds,
        images_per_second=rows / loop.seconds if loop.seconds else 0.0,
        wait_seconds=loop.wait_seconds,
        late=loop.late,
        queue=Queue(depth, mean_depth, capacity, loop.empty, loop.asked),
        bad_samples=loop.bad_samples,
        remote=Remote(
            traffic.requests, traffic.num_bytes, traffic.cache_hits, traffic.cache_misses
        ),
        frames=Frames(counts.frames["hits"], counts.frames["misses"]),
        whole_images=dict(counts.whole_images),
        num_threads=num_threads,
        stages={name: stage_stats(stage) for name, stage in counts.stages.items()},
        _sums=sums,
        _since=since,
    )
