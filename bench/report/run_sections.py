"""The sections about a run, made from its log."""

from bench.report.charts import edges_of, time_chart, waiting_chart
from bench.report.elements import (
    Note,
    Part,
    Section,
    Share,
    Tiles,
    facts,
    flat,
    note,
    section,
    table,
)
from bench.report.log import Interval, Object, RunLog, number_of, object_of
from bench.report.numbers import NONE, count, plain, seconds, share, size
from dali_pipes.stats.stats import ENOUGH_CORES
from dali_pipes.stats.table import shown_name
from readers.plural import counted

_MOST_NAMED = 5  # unreadable lines
_MOST_EPOCHS = 50  # rows of the table
_FIELDS_WITH_OWN_PART = {"kind", "explain", "settings", "versions", "machine"}


def run_sections(log: RunLog) -> list[Section | None]:
    """Return what stands before the bad samples."""
    return [_overview(log), _over_time(log), _epochs(log), _stages(log)]


def _overview(log: RunLog) -> Section | None:
    last = log.last
    if not last:
        text = "The log has no numbers yet."
        return section("overview", "Overview", *_log_problems(log), note(text))
    limit = shown_name(str(last.get("limit") or NONE))
    ready = "batches were ready when it asked"
    late = "for batches that were not ready"
    start = number_of(last, "start_seconds")
    rate = plain(number_of(last, "images_per_second"))
    steps = counted(int(number_of(last, "steps")), "step")
    entries = [
        ("speed", f"{rate} /s", "after the first batch"),
        (
            "the loop waited",
            share(number_of(last, "wait_share"), 1),
            f"of its time; {ready if limit == 'training loop' else late}",
        ),
        ("limit", limit, "what to look at first"),
        ("samples", count(number_of(last, "samples")), f"in {steps}"),
        (
            "time",
            seconds(log.intervals[-1].ended),
            f"the first batch came after {seconds(start)}" if start else "",
        ),
        ("bad samples", count(number_of(last, "bad_samples")), "repeated ones counted again"),
    ]
    return section(
        "overview", "Overview", *_log_problems(log), Tiles(entries), _loop(log), _unsplit(log)
    )


def _log_problems(log: RunLog) -> list[Part | None]:
    problems: list[Part | None] = []
    if log.end is not None and log.end.get("stopped"):
        problems.append(Note(f"the run was ended by {log.end['stopped']}.", is_warning=True))
    if log.end is None:
        until = f" at {seconds(log.intervals[-1].ended)}" if log.intervals else ""
        torn = "; its last line is torn" if log.is_torn else ""
        text = f"the log has no end: the run was stopped{until}, or was still going{torn}."
        problems.append(Note(text, is_warning=True))
    if log.unread:
        named = ", ".join(map(str, log.unread[:_MOST_NAMED]))
        more = ", ..." if len(log.unread) > _MOST_NAMED else ""
        text = f"{counted(len(log.unread), 'line')} cannot be read (line {named}{more})."
        problems.append(Note(text, is_warning=True))
    others = f"{counted(log.num_others, 'line')} of unknown kinds were left out."
    return [*problems, note(others, when=log.num_others)]


def _loop(log: RunLog) -> Part | None:
    """Return a note that nothing trained, or how long a simulated training step took."""
    settings = object_of(log.start, "settings")
    if "step_ms" not in settings:
        return None
    if settings["step_ms"] is None:
        return Note(
            "Nothing trained in this run: the loop took batches as fast as they came, so the speed is that of "
            "the loader alone."
        )
    return Note(f"A training step was played: {plain(number_of(settings, 'step_ms'))} ms of sleep.")


def _unsplit(log: RunLog) -> Part | None:
    kinds = object_of(log.last, "whole_images")
    numbers = {str(name): number_of(kinds, name) for name in kinds}
    named = ", ".join(f"{count(many)} {name}" for name, many in numbers.items() if many)
    return note(f"Decoded in full by another decoder than ours: {named}.", when=named)


def _over_time(log: RunLog) -> Section | None:
    if not log.intervals:
        return None
    intervals = log.intervals
    speed = time_chart(
        "Speed",
        edges_of(intervals),
        [one.rate for one in intervals],
        unit="samples/s",
        band=([one.lowest for one in intervals], [one.highest for one in intervals]),
        epochs=log.epochs,
        caption="Samples that were handed over, start included; the clock stands while functions are compiled.",
    )
    return section("time", "Over time", speed, _waiting(intervals), _queue(log))


def _waiting(intervals: list[Interval]) -> Part:
    last = intervals[-1].after
    late = {name: number_of(last, "late", name) for name in object_of(last, "late")}
    total = sum(late.values())
    if total <= 0:
        return Note("The loop never waited: every batch was ready when it was asked for.")
    ranked = sorted((item for item in late.items() if item[1] > 0), key=lambda item: -item[1])
    shares = {
        f"{shown_name(name)}: {seconds(waited)}, {share(waited, total)}": [
            min(one.gained("late", name) / one.seconds, 1.0) for one in intervals
        ]
        for name, waited in ranked
    }
    return waiting_chart(
        "Waiting of the loop, by the stages that worked meanwhile",
        edges_of(intervals),
        shares,
        "Beside each stage stand the total and its share of all waiting. Idle threads had no work: too few batches "
        "are made at once (prefetch=).",
    )


def _queue(log: RunLog) -> Part | None:
    last = log.last
    asked = number_of(last, "queue", "asked")
    if not asked:
        return None
    return time_chart(
        "Finished batches that wait for the loop",
        edges_of(log.intervals),
        _depths(log.intervals),
        unit="batches",
        epochs=log.epochs,
        ceiling=number_of(last, "queue", "capacity"),
        caption=f"{plain(number_of(last, 'queue', 'mean'))} on average when the loop asked for one; "
        f"{share(number_of(last, 'queue', 'empty'), asked)} of the times there was none.",
    )


def _depths(intervals: list[Interval]) -> list[float]:
    """Return the mean depth of the queue in each interval; without a request that of the interval before."""
    depths = [0.0]
    for one in intervals:
        before, after = (
            number_of(counts, "queue", "mean") * number_of(counts, "queue", "asked")
            for counts in (one.before, one.after)
        )
        asked = one.gained("queue", "asked")
        depths.append(max(after - before, 0.0) / asked if asked else depths[-1])
    return depths[1:]


def _epochs(log: RunLog) -> Section | None:
    stats = object_of(log.end or {}, "stats")
    epochs = [(name, one) for name, one in stats.items() if isinstance(one, dict)]
    left = len(epochs) - _MOST_EPOCHS
    rows = [
        (
            name,
            plain(number_of(one, "images_per_second")),
            count(number_of(one, "samples")),
            seconds(number_of(one, "start_seconds")),
            seconds(number_of(one, "seconds")),
            Share(number_of(one, "wait_share"), 1),
            shown_name(str(one.get("limit") or NONE)),
        )
        for name, one in epochs[:_MOST_EPOCHS]
    ]
    headings = ["epoch", "samples/s", "samples", "first batch after", "time", "waited", "limit"]
    return section(
        "epochs",
        "Epochs",
        table("Each epoch by itself", headings, rows),
        note(f"and {counted(left, 'later epoch')}.", when=left > 0),
    )


def _stages(log: RunLog) -> Section | None:
    named = object_of(log.last, "stages").items()
    stages: dict[str, Object] = {name: one for name, one in named if isinstance(one, dict)}
    if not stages:
        return section("stages", "Stages", note("The log does not tell them.", when=log.last))
    total = sum(number_of(one, "busy_seconds") for one in stages.values())
    headings = ["stage", "share of work", "busy", "had a core", "calls", "samples", "bytes"]
    return section(
        "stages",
        "Stages",
        note(_threads(log, total)),
        table(
            "Work of the threads; p50, p90 and p99 are durations of one call",
            [*headings, "p50", "p90", "p99"],
            [
                _stage_row(name, one, total)
                for name, one in stages.items()
                if number_of(one, "busy_seconds") > 0
            ],
        ),
        _waits(stages),
        _remote(log.last),
    )


def _stage_row(name: str, stage: Object, total: float) -> list[object]:
    busy, cpu = number_of(stage, "busy_seconds"), number_of(stage, "cpu_seconds")
    num_bytes = number_of(stage, "bytes")
    return [
        shown_name(name),
        Share(busy, total),
        seconds(busy),
        share(min(cpu, busy), busy) if "cpu_seconds" in stage else NONE,
        count(number_of(stage, "calls")),
        count(number_of(stage, "samples")),
        size(num_bytes) if num_bytes else NONE,
        *(seconds(number_of(stage, f"p{percent}_seconds")) for percent in (50, 90, 99)),
    ]


def _threads(log: RunLog, total: float) -> str:
    threads, lasted = number_of(log.last, "num_threads"), log.intervals[-1].ended
    if threads <= 0:
        return f"The threads worked {seconds(total)} in all."
    used = plain(100 * total / (threads * lasted))
    text = f"{counted(int(threads), 'thread')} worked {seconds(total)} in all, {used} % of the time of the run"
    core = number_of(log.last, "core_share")
    if 0 < core < ENOUGH_CORES:
        text += (
            f"; without reading, they had a core for {share(core, 1)} of their work: other threads and processes take "
            "the cores"
        )
    return text + "."


def _waits(stages: dict[str, Object]) -> Part | None:
    waits = [
        (number_of(one, "waits", what, "seconds"), stage, what)
        for stage, one in stages.items()
        for what in object_of(one, "waits")
    ]
    rows = [
        (
            shown_name(stage),
            what,
            count(number_of(stages[stage], "waits", what, "count")),
            seconds(lasted),
        )
        for lasted, stage, what in sorted(waits, reverse=True)
    ]
    return table("Waiting within the loader", ["stage", "waited for", "times", "in all"], rows)


def _remote(last: Object) -> Part | None:
    remote = object_of(last, "remote")
    requests = number_of(remote, "requests")
    hits, misses = number_of(remote, "cache_hits"), number_of(remote, "cache_misses")
    return note(
        f"From the object store: {count(requests)} requests, {size(number_of(remote, 'bytes'))}; "
        f"the cache had {share(hits, hits + misses)} of the blocks that were asked for.",
        when=requests or hits,
    )


def coverage(log: RunLog) -> Section | None:
    """Return how many different samples the last epoch had, and how many it lacked."""
    numbers = object_of(log.end or {}, "coverage")
    of = number_of(numbers, "of")
    if of <= 0:
        return None
    came, repeated = number_of(numbers, "samples"), number_of(numbers, "repeated")
    rows = [
        (words, count(many), Share(many, of))
        for words, many in (
            ("came", came),
            ("handed over once more", repeated),
            ("never came", max(of - came, 0)),
        )
    ]
    epoch = f"epoch {count(number_of(numbers, 'epoch'))}" if "epoch" in numbers else "the run"
    return section(
        "coverage",
        "Coverage",
        table(
            f"Different samples of the data in {epoch}, the last one",
            ["samples", "number", f"of {count(of)}"],
            rows,
        ),
        note("An epoch that was ended early, or whose last batch is dropped, lacks samples."),
    )


def setup(log: RunLog) -> Section | None:
    """Return what was chosen and why, and all that is needed to run it again."""
    explain = log.start.get("explain")
    lines = explain.splitlines() if isinstance(explain, str) else []
    pairs = [line.partition(": ") for line in lines if line.strip()]
    choices = [(subject, reason) if reason else ("also", subject) for subject, _, reason in pairs]
    rest = {name: one for name, one in log.start.items() if name not in _FIELDS_WITH_OWN_PART}
    parts = [
        facts(title, [pair for pair in flat(object_of(log.start, name)) if pair[0] not in rest])
        for name, title in (("settings", "Settings"), ("versions", "Versions"))
    ]
    machine = facts("Machine", flat(object_of(log.start, "machine")))
    return section(
        "setup",
        "What was run",
        facts("The run", flat(rest)),
        facts("What was chosen, and why", choices),
        *parts,
        machine,
    )
