"""The stages of statistics as a table."""

from collections.abc import Iterator, Mapping

from dali_pipes.monitoring.counts import STAGES
from dali_pipes.monitoring.parts import StageStats

_HEADINGS = (
    "stage",
    "calls",
    "samples",
    "MB",
    "busy s",
    "of work",
    "on a core",
    "p50 ms",
    "p90 ms",
    "p99 ms",
)


def shown_name(stage: str) -> str:
    """A stage as people say it: "hand-over"; what is late by nothing to do, "idle", are "idle threads"."""
    return "idle threads" if stage == "idle" else stage.replace("_", "-")


def stage_table(stages: Mapping[str, StageStats]) -> Iterator[str]:
    """Give the lines of a table of the stages that did anything; none where none did."""
    threads = sum(stage.busy_seconds for stage in stages.values())
    active = [name for name in STAGES if stages[name].calls]
    if not active:
        return
    rows = [_HEADINGS, *(_row(shown_name(name), stages[name], threads) for name in active)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        first, *rest = (cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        yield "  ".join([row[0].ljust(len(first)), *rest])


def stage_waits(stages: Mapping[str, StageStats]) -> Iterator[str]:
    """Say for what each stage waited before it began."""
    for name in STAGES:
        for what, waits in stages[name].waits.items():
            yield (
                f"{shown_name(name)} waited for {what} {waits.count:,} times, {waits.seconds:.2f} s in all"
            )


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
