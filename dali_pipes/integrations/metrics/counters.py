"""Provide a loader's statistics to systems that collect counters: names, units, and latest values of all loaders."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from dali_pipes.errors import LoaderError
from dali_pipes.monitoring import StageStats, Stats
from dali_pipes.monitoring.metrics import OfRank

Labels = dict[str, str]
Value = tuple[Labels, float]


@dataclass(frozen=True, slots=True)
class Metric:
    """A quantity of a loader that is exported: a single value, or a value per combination of labels such as the stage.

    Attributes:
        name: Name of the metric, without the unit.
        kind: "counter" for a value that only grows during the lifetime of the loader, "gauge" for a present value.
        unit: "seconds", "bytes", or "" for counts.
        text: Description of the metric.
        labels: Names of the labels; empty for a single value.
        read: A function that returns pairs of labels and value, given statistics with the scope "run".
    """

    name: str
    kind: Literal["counter", "gauge"]
    unit: str
    text: str
    labels: tuple[str, ...]
    read: Callable[[Stats], Iterable[Value]]


def _one(
    name: str, unit: str, text: str, read: Callable[[Stats], float], *, gauge: bool = False
) -> Metric:
    kind: Literal["counter", "gauge"] = "gauge" if gauge else "counter"
    return Metric(name, kind, unit, text, (), lambda stats: [({}, read(stats))])


def _by(
    label: str, name: str, unit: str, text: str, read: Callable[[Stats], Mapping[str, float]]
) -> Metric:
    return Metric(
        name,
        "counter",
        unit,
        text,
        (label,),
        lambda stats: [({label: key}, value) for key, value in read(stats).items()],
    )


def _of_stages(name: str, unit: str, text: str, read: Callable[[StageStats], float]) -> Metric:
    return _by(
        "stage",
        name,
        unit,
        text,
        lambda stats: {stage: read(one) for stage, one in stats.stages.items()},
    )


def _of_waits(name: str, unit: str, text: str, field: Literal["count", "seconds"]) -> Metric:
    return Metric(
        name,
        "counter",
        unit,
        text,
        ("stage", "what"),
        lambda stats: [
            ({"stage": stage, "what": what}, getattr(waits, field))
            for stage, one in stats.stages.items()
            for what, waits in one.waits.items()
        ],
    )


METRICS: tuple[Metric, ...] = (
    _one("samples", "", "Rows of the batches that were handed over.", lambda s: s.samples),
    _one("steps", "", "Batches that were handed over.", lambda s: s.steps),
    _one(
        "loop",
        "seconds",
        "Seconds from the first batch of each loop to its latest.",
        lambda s: s.seconds,
    ),
    _one(
        "start", "seconds", "Seconds until the first batch of each loop.", lambda s: s.start_seconds
    ),
    _one(
        "wait",
        "seconds",
        "Part of loop seconds in which the training loop waited.",
        lambda s: s.wait_seconds,
    ),
    _by(
        "stage",
        "late",
        "seconds",
        "Wait seconds, divided among the stages that worked meanwhile; idle: threads had nothing to do.",
        lambda s: s.late,
    ),
    _one(
        "batches_asked",
        "",
        "Requests of the training loop for a batch, except the first of each loop.",
        lambda s: s.queue.asked,
    ),
    _one(
        "batches_missing", "", "Requests for which no batch was finished.", lambda s: s.queue.empty
    ),
    _one("bad_samples", "", "Bad samples.", lambda s: s.bad_samples),
    _one("remote_requests", "", "Requests for parts of remote files.", lambda s: s.remote.requests),
    _one("remote_read", "bytes", "Bytes that these requests returned.", lambda s: s.remote.bytes),
    _one("cache_hits", "", "Remote blocks that were in the cache.", lambda s: s.remote.cache_hits),
    _one(
        "cache_misses",
        "",
        "Remote blocks that were not in the cache.",
        lambda s: s.remote.cache_misses,
    ),
    _one("frame_cache_hits", "", "Decoded frames in the cache.", lambda s: s.frames.cache_hits),
    _one("frame_cache_misses", "", "Frames not in the cache.", lambda s: s.frames.cache_misses),
    _by(
        "kind",
        "whole_images",
        "",
        "Images that our JPEG decoder left to another decoder.",
        lambda s: s.whole_images,
    ),
    _of_stages("stage_calls", "", "Calls of a stage.", lambda s: s.calls),
    _of_stages("stage_samples", "", "Samples that a stage worked on.", lambda s: s.samples),
    _of_stages("stage_processed", "bytes", "Bytes that a stage worked on.", lambda s: s.bytes),
    _of_stages("stage_busy", "seconds", "Thread time of a stage.", lambda s: s.busy_seconds),
    _of_stages(
        "stage_cpu", "seconds", "Part of the thread time on a core.", lambda s: s.cpu_seconds
    ),
    _of_waits("stage_waits", "", "How often a stage waited for something.", "count"),
    _of_waits("stage_wait", "seconds", "How long a stage waited for something.", "seconds"),
    _one("epoch", "", "The present epoch.", lambda s: s.epoch, gauge=True),
    _one("threads", "", "Threads that make batches.", lambda s: s.num_threads, gauge=True),
    _one(
        "queue_batches",
        "",
        "Finished batches at the latest request.",
        lambda s: s.queue.depth,
        gauge=True,
    ),
    _one(
        "queue_capacity_batches",
        "",
        "Largest number of batches that are made ahead.",
        lambda s: s.queue.capacity,
        gauge=True,
    ),
)


class Latest:
    """The latest statistics of the loaders of a process, by name and rank."""

    def __init__(self) -> None:
        self.stats: dict[tuple[str, int], Stats] = {}

    def put(self, name: str, rank: int, stats: Stats) -> None:
        """Replace the statistics of a loader by newer ones with the scope "run".

        Raises:
            LoaderError: A number decreased, so the statistics come from another loader.
        """
        before = self.stats.get((name, rank))
        if before is not None and stats.steps < before.steps:
            raise LoaderError(
                f"loader={name!r} has made {before.steps:,} steps, and now {stats.steps:,}: two loaders have one name or "
                f"one object for their metrics; make one for each loader, with a name of its own"
            )
        self.stats[name, rank] = stats

    def values(self, metric: Metric) -> Iterator[Value]:
        """Yield the values of a metric for all loaders, with the labels `loader` and `rank`."""
        for (name, rank), stats in list(self.stats.items()):
            for labels, value in metric.read(stats):
                yield {"loader": name, "rank": str(rank), **labels}, value


class Counters(OfRank):
    """Base class of adapters that export the latest counters of one loader.

    Args:
        latest: Stores the statistics.
        name: Name of the loader.
        rank: Rank of the loader; None uses the loader's own rank.
    """

    scope = "run"  # counters must not restart with each epoch

    def __init__(self, latest: Latest, name: str, rank: int | None) -> None:
        self._latest, self._name, self.rank = latest, name, rank
        # Removes the values of an earlier adapter with the same name and rank.
        latest.stats = {
            key: stats
            for key, stats in latest.stats.items()
            if key[0] != name or rank not in (None, key[1])
        }

    def __call__(self, stats: Stats) -> None:
        """Store the statistics; they are exported from now on."""
        self._latest.put(self._name, self.rank or 0, stats)
