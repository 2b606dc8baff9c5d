"""Statistics as a person reads them."""

from collections.abc import Iterator

from dali_pipes.stats.counts import STAGES
from dali_pipes.stats.stats import TRAINING_LOOP, StageStats, Stats
from readers.plural import counted

_HEADINGS = ("stage", "calls", "samples", "MB", "busy s", "of threads", "on a core", "p50 ms", "p90 ms", "p99 ms")  # fmt: skip


def show(stats: Stats) -> str:
    """Return a summary, a table of the stages that did anything, and what was waited for."""
    return "\n".join([*summary(stats), *_table(stats), *_waits(stats)])


def limit_in_words(stats: Stats) -> str:
    """Say what limits the training, in one sentence; "" before the second batch."""
    share = f"{stats.wait_share:.0%} of its time"
    if not stats.limit:
        return ""
    if stats.limit == TRAINING_LOOP:
        return f"the training loop is the limit: it waited for {share}"
    parts = sorted(stats.late.items(), key=lambda part: -part[1])
    shares = [
        f"{'idle threads' if name == 'idle' else name.replace('_', '-')} {spent / stats.wait_seconds:.0%}"
        for name, spent in parts
        if spent >= 0.05 * stats.wait_seconds
    ]
    return f"the training loop waited for {share}, while threads worked on: {', '.join(shares)}"


def summary(stats: Stats) -> Iterator[str]:
    """Return what was handed over and waited for, and what else should be known, a sentence each."""
    yield (
        f"epoch {stats.epoch}: {counted(stats.samples, 'sample')} in {counted(stats.steps, 'batch')}, "
        f"{stats.images_per_second:.0f} a second after the first batch, which took {stats.start_seconds:.2f} s"
    )
    if words := limit_in_words(stats):
        yield words
        queue = stats.queue
        yield (
            f"finished batches when one was asked for: {queue.mean:.1f} of {queue.capacity} on average, "
            f"none {queue.empty} times of {queue.asked}"
        )
    if stats.bad_samples:
        yield f"bad samples: {stats.bad_samples}"
    if stats.remote.requests or stats.remote.cache_hits:
        remote = stats.remote
        yield (
            f"remote: {remote.bytes / 1e6:.1f} MB in {counted(remote.requests, 'request')}; "
            f"{remote.cache_hits:,} of {remote.cache_hits + remote.cache_misses:,} blocks were in the cache"
        )
    if stats.whole_images:
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in stats.whole_images.items())
        yield f"decoded whole, not by our JPEG decoder: {kinds}"


def _table(stats: Stats) -> Iterator[str]:
    threads = sum(stage.busy_seconds for stage in stats.stages.values())
    rows: list[tuple[str, ...]] = [_HEADINGS]
    for name in STAGES:
        if (stage := stats.stages[name]).calls:
            rows.append(_row(name.replace("_", "-"), stage, threads))
    if len(rows) == 1:
        return
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        first, *rest = (cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        yield "  ".join([row[0].ljust(len(first)), *rest])


def _row(name: str, stage: StageStats, threads: float) -> tuple[str, ...]:
    def share(part: float, whole: float) -> str:
        return f"{part / whole:.0%}" if whole else ""

    return (
        name,
        f"{stage.calls:,}",
        f"{stage.samples:,}" if stage.samples else "",
        f"{stage.bytes / 1e6:,.1f}" if stage.bytes else "",
        f"{stage.busy_seconds:.2f}",
        share(stage.busy_seconds, threads),
        share(min(stage.cpu_seconds, stage.busy_seconds), stage.busy_seconds),
        *(f"{1e3 * one:.2f}" for one in (stage.p50_seconds, stage.p90_seconds, stage.p99_seconds)),
    )


def _waits(stats: Stats) -> Iterator[str]:
    for name in STAGES:
        for what, waits in stats.stages[name].waits.items():
            yield (
                f"{name.replace('_', '-')} waited for {what} {waits.count:,} times, {waits.seconds:.2f} s in all"
            )
