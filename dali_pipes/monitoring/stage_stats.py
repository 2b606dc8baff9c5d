"""Define the parts of Stats (stages, waits, queue of batches, remote reading, cached frames), and print the table of stages."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from dali_pipes.monitoring.counts import STAGES, StageCounts, quantiles
from readers.plural import counted

_HEAD = (
    "stage", "calls", "samples", "MB", "busy s", "of work", "on a core", "p50 ms", "p90 ms", "p99 ms",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Waits:
    """How often a stage waited for one thing, and for how many seconds in total."""

    count: int
    seconds: float


@dataclass(frozen=True, slots=True)
class StageStats:
    """The work of one stage, summed over all threads.

    On a GPU, the seconds only cover the host's part.

    Attributes:
        calls: Count of calls of the stage. Reading, headers and draws process a full batch per call; decoding and
            augmenting on the CPU process some of its rows.
        samples: Count of samples in these calls.
        bytes: For reading and decoding, encoded bytes; for other stages, bytes that were produced or copied.
        busy_seconds: Seconds that threads worked on the stage, summed over threads.
        cpu_seconds: The part of `busy_seconds` in which the thread had a core. The rest is waiting: for storage, for a
            core that another process or loader used, or for the GIL. If DALI does the work, all of it counts.
        p50_seconds: Median duration of a call; like the next two values, it is exact to 5 %.
        p90_seconds: Duration that 90 % of the calls did not exceed.
        p99_seconds: Duration that 99 % of the calls did not exceed.
        waits: Waits before the stage began, by the name of what the stage waited for.
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
    """How many batches were finished when the training loop requested one.

    DALI does not report which batches it has finished. With DALI, only batches that our threads have finished are counted.

    Attributes:
        depth: Count of finished batches at the latest request.
        mean: Average count of finished batches over the requests.
        capacity: Largest count of batches that are made ahead.
        empty: Count of requests at which no batch was ready.
        asked: Count of requests, except the first request of each loop.
    """

    depth: int
    mean: float
    capacity: int
    empty: int
    asked: int


@dataclass(frozen=True, slots=True)
class Remote:
    """Requests and cache use of remote reading.

    Attributes:
        requests: Count of requests for parts of remote files.
        bytes: Bytes that the requests returned.
        cache_hits: Count of blocks that were found in the block cache.
        cache_misses: Count of blocks that were not in the block cache.
    """

    requests: int
    bytes: int
    cache_hits: int
    cache_misses: int

    def describe(self) -> str:
        """Return a line of text about requests, bytes and cache use."""
        return (
            f"remote: {self.bytes / 1e6:.1f} MB in {counted(self.requests, 'request')}; "
            f"{self.cache_hits:,} of {self.cache_hits + self.cache_misses:,} blocks were in the cache"
        )


@dataclass(frozen=True, slots=True)
class Frames:
    """Use of the cache of decoded frames of videos.

    Attributes:
        cache_hits: Count of frames that were in the cache when a clip or window needed them.
        cache_misses: Count of frames that were not in the cache.
    """

    cache_hits: int = 0
    cache_misses: int = 0

    def describe(self) -> str:
        """Return a line of text about the cache use."""
        total = self.cache_hits + self.cache_misses
        share = self.cache_hits / max(1, total)
        return f"frames: {self.cache_hits:,} of {total:,} were in the cache ({share:.0%})"


def stage_stats(counts: StageCounts) -> StageStats:
    """Return the sums of a stage as statistics."""
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


def shown_name(stage: str) -> str:
    """Return the display name of a stage, such as "hand-over", and "idle threads" for "idle"."""
    return "idle threads" if stage == "idle" else stage.replace("_", "-")


def stage_table(stages: Mapping[str, StageStats]) -> Iterator[str]:
    """Yield the lines of a table of the stages that have calls, and of their waits; no lines without calls."""
    seconds = sum(stage.busy_seconds for stage in stages.values())
    rows = [_row(name, stages[name], seconds) for name in STAGES if stages[name].calls]
    if rows:
        yield from align_columns([_HEAD, *rows])
    for name in STAGES:
        for what, waits in stages[name].waits.items():
            yield (
                f"{shown_name(name)} waited for {what} {waits.count:,} times, {waits.seconds:.2f} s in all"
            )


def _row(name: str, stage: StageStats, seconds: float) -> tuple[str, ...]:
    def share(part: float, total: float) -> str:
        return f"{part / total:.0%}" if total else ""

    return (
        shown_name(name),
        f"{stage.calls:,}",
        f"{stage.samples:,}" if stage.samples else "",
        f"{stage.bytes / 1e6:,.1f}" if stage.bytes else "",
        f"{stage.busy_seconds:.2f}",
        share(stage.busy_seconds, seconds),
        share(min(stage.cpu_seconds, stage.busy_seconds), stage.busy_seconds),
        *(f"{1e3 * one:.2f}" for one in (stage.p50_seconds, stage.p90_seconds, stage.p99_seconds)),
    )


def align_columns(rows: Sequence[Sequence[str]], left: Collection[int] = (0,)) -> list[str]:
    """Return the lines of a table with aligned columns.

    Args:
        rows: The cells of each row; the first row is the heading.
        left: Indices of the columns that are left-aligned; the others are right-aligned.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if number in left else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
