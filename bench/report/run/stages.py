"""What the loader's threads did."""

from bench.report.charts.bars import bar
from bench.report.elements import data, note, section, table
from bench.report.log import Object, RunLog, number_of, object_of
from bench.report.markup import Markup, joined
from bench.report.numbers import NONE, count, plain, seconds, share, size
from dali_pipes.stats.stats import ENOUGH_CORES
from dali_pipes.stats.table import shown_name
from readers.plural import counted


def stages(log: RunLog) -> Markup:
    """Busy time and its percentiles by stage, and what they waited for."""
    last = log.last
    found = {
        name: each for name, each in object_of(last, "stages").items() if isinstance(each, dict)
    }
    if not found:
        return (
            section("stages", "Stages", note("The log does not tell them.")) if last else Markup()
        )
    busy = {name: number_of(each, "busy_seconds") for name, each in found.items()}
    total = sum(busy.values())
    rows = [_row(name, each, busy[name], total) for name, each in found.items() if busy[name] > 0]
    return section(
        "stages",
        "Stages",
        note(_threads(log, total)),
        table(
            [
                "stage",
                "",
                "share of work",
                "busy",
                "had a core",
                "calls",
                "samples",
                "bytes",
                "p50",
                "p90",
                "p99",
            ],
            rows,
            caption="Work of the threads, of which they had a core for a share; p50, p90 and p99 are durations of one call",
        ),
        _waits(found),
        _remote(last),
    )


def _row(name: str, stage: Object, busy: float, total: float) -> list[object]:
    percentiles = [number_of(stage, f"p{percent}_seconds") for percent in (50, 90, 99)]
    num_bytes, cpu = number_of(stage, "bytes"), number_of(stage, "cpu_seconds")
    return [
        shown_name(name),
        bar(busy / total),
        data(busy / total, share(busy, total)),
        data(busy, seconds(busy)),
        share(min(cpu, busy), busy) if "cpu_seconds" in stage else NONE,
        count(number_of(stage, "calls")),
        count(number_of(stage, "samples")),
        size(num_bytes) if num_bytes else NONE,
        *(data(each, seconds(each)) for each in percentiles),
    ]


def _threads(log: RunLog, total: float) -> str:
    """How much of the time they worked, and whether they had a core for it."""
    threads, lasted = number_of(log.last, "num_threads"), log.intervals[-1].ended
    if threads <= 0:
        return f"The threads worked {seconds(total)} in all."
    told = f"{counted(int(threads), 'thread')} worked {seconds(total)} in all, {plain(100 * total / (threads * lasted))} % "
    told += "of the time of the run that they had"
    core = number_of(log.last, "core_share")
    if 0 < core < ENOUGH_CORES:
        told += (
            f"; without reading, they had a core for {share(core, 1)} of their work: other threads and processes take "
            "the cores"
        )
    return told + "."


def _waits(stages: Object) -> Markup:
    waits = [
        (
            number_of(each, "waits", what, "seconds"),
            stage,
            what,
            number_of(each, "waits", what, "count"),
        )
        for stage, each in stages.items()
        for what in object_of(each, "waits")
    ]
    rows = [
        (shown_name(stage), what, count(times), data(lasted, seconds(lasted)))
        for lasted, stage, what, times in sorted(waits, reverse=True)
    ]
    return table(
        ["stage", "waited for", "times", "in all"], rows, caption="Waiting within the loader"
    )


def _remote(last: Object) -> Markup:
    remote = object_of(last, "remote")
    requests = number_of(remote, "requests")
    hits, misses = number_of(remote, "cache_hits"), number_of(remote, "cache_misses")
    if not requests and not hits:
        return Markup()
    return joined(
        note(
            f"From the object store: {count(requests)} requests, {size(number_of(remote, 'bytes'))}; "
            f"the cache had {share(hits, hits + misses)} of the blocks that were asked for."
        )
    )
