"""The page about a run: what its log says."""

from itertools import pairwise

from bench.report import charts
from bench.report.bad import bad_of_log, bad_section
from bench.report.data_page import DataLook, data_sections
from bench.report.log import Interval, Object, RunLog, number_of, object_of
from bench.report.numbers import NONE, count, plain, seconds, share, size
from bench.report.page import render
from bench.report.parts import (
    Bar,
    Number,
    Part,
    Section,
    facts,
    flat,
    folded,
    note,
    section,
    table,
    warning,
)
from bench.report.pictures import bad_pictures
from dali_pipes.stats.stats import ENOUGH_CORES
from dali_pipes.stats.table import shown_name
from readers.plural import counted

_MOST_EPOCHS = 50
_MOST_MARKS = 12  # names of epochs that fit into the width of a chart
_MOST_LINES = 5
_START = {"kind", "explain", "settings", "versions", "machine"}


def run_page(log: RunLog, look: DataLook | None, why_no_data: str = "") -> str:
    """Return a page about a run, and about its data where that was looked at.

    Args:
        log: What the run wrote.
        look: Its data.
        why_no_data: Why that was not looked at.
    """
    bad = bad_of_log(log.bad)
    pictures = {} if look is None else bad_pictures(look.found.dataset, [one.place for one in bad])
    sections = [
        _overview(log),
        _over_time(log),
        _epochs(log),
        _stages(log),
        bad_section("bad", "Bad samples of the run", bad, log.num_bad, pictures, why_no_data),
        _coverage(log),
        _setup(log),
    ]
    if look is None:
        sections.append(section("data", "The data", note(f"Not looked at: {why_no_data}.")))
    else:
        sections += [_changes(log, look), *data_sections(look)]
    about = f"{log.start.get('recipe') or 'a recipe'} over {log.start.get('data') or 'data'}"
    return render(f"Run: {log.path.name}", about, sections)


def _overview(log: RunLog) -> Section:
    last = log.last
    if not last:
        return section("overview", "Overview", *_faults(log), note("The log has no numbers yet."))
    waited, rate = number_of(last, "wait_share"), number_of(last, "images_per_second")
    limit, lasted = shown_name(str(last.get("limit") or NONE)), log.intervals[-1].ended
    start = number_of(last, "start_seconds")
    meaning = "of its time, for batches that were not ready"
    if limit == "training loop":
        meaning = "of its time; batches were ready when it asked"
    tiles = [
        ("speed", Number(rate, f"{plain(rate)} /s"), "after the first batch"),
        ("the loop waited", Number(waited, share(waited, 1)), meaning),
        ("limit", limit, "what to look at first"),
        ("samples", _counted(last, "samples"), f"in {counted(int(number_of(last, 'steps')), 'step')}"),
        ("time", Number(lasted, seconds(lasted)), f"the first batch came after {seconds(start)}" if start else ""),
        ("bad samples", _counted(last, "bad_samples"), "met, repeated ones counted again"),
    ]  # fmt: skip
    whole = object_of(last, "whole_images")
    kinds = ((name, number_of(whole, name)) for name in whole)
    named = ", ".join(f"{count(many)} {name}" for name, many in kinds if many >= 1)
    return section(
        "overview",
        "Overview",
        *_faults(log),
        Part("tiles", tiles),
        note(_training_step(object_of(log.start, "settings"))),
        note(named and f"Decoded whole, since our JPEG decoder does not take them: {named}."),
    )


def _counted(counts: Object, name: str) -> Number:
    number = number_of(counts, name)
    return Number(int(number), count(number))


def _faults(log: RunLog) -> list[Part | None]:
    """Return what is missing in the log."""
    faults = []
    if log.end is None:
        until = f" at {seconds(log.intervals[-1].ended)}" if log.intervals else ""
        torn = "; its last line is torn" if log.is_torn else ""
        faults.append(
            warning(
                f"the log has no end: the run was stopped{until}, or was still going when this was written{torn}."
            )
        )
    elif log.end.get("stopped"):
        faults.append(warning(f"the run was ended by {log.end['stopped']}."))
    if log.unread:
        named = ", ".join(map(str, log.unread[:_MOST_LINES]))
        more = ", ..." if len(log.unread) > _MOST_LINES else ""
        faults.append(
            warning(f"{counted(len(log.unread), 'line')} cannot be read (line {named}{more}).")
        )
    if log.num_others:
        faults.append(note(f"{counted(log.num_others, 'line')} of unknown kinds, left out."))
    return faults


def _training_step(settings: Object) -> str:
    if "step_ms" not in settings:
        return ""
    if settings["step_ms"] is None:
        return (
            "Nothing trained in this run: the loop took batches as fast as they came and waited for each. The "
            "speed is that of the loader alone."
        )
    return f"A training step was played: {plain(number_of(settings, 'step_ms'))} ms of sleep."


def _over_time(log: RunLog) -> Section:
    intervals = log.intervals
    if not intervals:
        return section("time", "Over time")
    edges = [intervals[0].began, *(one.ended for one in intervals)]
    low, high = [one.lowest for one in intervals], [one.highest for one in intervals]
    is_flat = low == high
    marks = [(at, f"epoch {number}") for at, number in log.epochs[1:]]
    marks = marks[:: max(1, -(-len(marks) // _MOST_MARKS))]
    speed = charts.over_time(
        "Samples per second, start included; while functions are compiled the clock stands",
        edges,
        [one.rate for one in intervals],
        "samples/s",
        low=None if is_flat else low,
        high=None if is_flat else high,
        marks=marks,
    )
    return section(
        "time", "Over time", speed, *_waiting(edges, intervals), *_queue(edges, intervals)
    )


def _waiting(edges: list[float], intervals: list[Interval]) -> list[Part | None]:
    after = intervals[-1].after
    late = {name: number_of(after, "late", name) for name in object_of(after, "late")}
    late = {name: waited for name, waited in late.items() if waited > 0}
    total = sum(late.values())
    if total <= 0:
        return [note("The loop never waited: every batch was ready when it was asked for.")]
    ranked = sorted(late, key=lambda name: -late[name])
    shares = {
        f"{shown_name(name)}: {share(late[name], total)}": [
            min(one.gained("late", name) / one.seconds, 1.0) for one in intervals
        ]
        for name in ranked
    }
    return [
        charts.shares_over_time(
            "Waiting of the loop, by the stages that worked meanwhile", edges, shares
        ),
        table(
            ["stage", "in all", "share of the waiting"],
            [[shown_name(name), Number(late[name], seconds(late[name])), share(late[name], total)] for name in ranked],
            "Waiting by stage. Idle threads had no work: too few batches are made at once (prefetch=).",
        ),
    ]  # fmt: skip


def _queue(edges: list[float], intervals: list[Interval]) -> list[Part | None]:
    after = intervals[-1].after
    asked, capacity = (number_of(after, "queue", name) for name in ("asked", "capacity"))
    if not asked:
        return []
    sums = [
        number_of(one, "queue", "mean") * number_of(one, "queue", "asked")
        for one in ({}, *(interval.after for interval in intervals))
    ]
    depths: list[float] = []
    for one, (before, now) in zip(intervals, pairwise(sums), strict=True):
        times = one.gained("queue", "asked")
        last = depths[-1] if depths else 0.0  # of an interval in which nobody asked
        depths.append(max(now - before, 0.0) / times if times else last)
    ceiling = (capacity, f"as many as there can be: {plain(capacity)}") if capacity else None
    return [
        charts.over_time(
            "Finished batches that wait for the loop", edges, depths, "batches", ceiling=ceiling
        ),
        note(
            f"{plain(number_of(after, 'queue', 'mean'))} on average when the loop asked for one; "
            f"{share(number_of(after, 'queue', 'empty'), asked)} of the times there was none."
        ),
    ]


def _epochs(log: RunLog) -> Section:
    stats = {} if log.end is None else object_of(log.end, "stats")
    found = [(name, one) for name, one in stats.items() if isinstance(one, dict)]
    fastest = max((number_of(one, "images_per_second") for _, one in found), default=0) or 1.0
    rows = []
    for name, one in found[:_MOST_EPOCHS]:
        rate, waited = number_of(one, "images_per_second"), number_of(one, "wait_share")
        lasted = number_of(one, "seconds")
        rows.append(
            [
                name,
                Bar(rate / fastest),
                Number(rate, plain(rate)),
                count(number_of(one, "samples")),
                seconds(number_of(one, "start_seconds")),
                Number(lasted, seconds(lasted)),
                Number(waited, share(waited, 1)),
                shown_name(str(one.get("limit") or NONE)),
            ]
        )
    headings = ["epoch", "", "samples/s", "samples", "first batch after", "time", "waited", "limit"]
    left = len(found) - len(rows)
    more = note(f"and {counted(left, 'later epoch')}.") if left else None
    return section("epochs", "Epochs", table(headings, rows, "Each epoch by itself"), more)


def _stages(log: RunLog) -> Section:
    last = log.last
    stages = object_of(last, "stages")
    found = {name: one for name, one in stages.items() if isinstance(one, dict)}
    if not found:
        return section("stages", "Stages", note("The log does not tell them.") if last else None)
    busy = {name: number_of(one, "busy_seconds") for name, one in found.items()}
    total = sum(busy.values())
    headings = ["stage", "", "share of work", "busy", "had a core", "calls", "samples", "bytes", "p50", "p90", "p99"]  # fmt: skip
    rows = [_stage(name, one, busy[name], total) for name, one in found.items() if busy[name] > 0]
    return section(
        "stages",
        "Stages",
        note(_threads(log, total)),
        table(
            headings,
            rows,
            "Work of the threads, of which they had a core for a share; p50, p90 and p99 are durations of one call",
        ),
        _waits(found),
        note(_remote(object_of(last, "remote"))),
    )


def _stage(name: str, stage: Object, busy: float, total: float) -> list[object]:
    num_bytes, cpu = number_of(stage, "bytes"), number_of(stage, "cpu_seconds")
    percentiles = [number_of(stage, f"p{percent}_seconds") for percent in (50, 90, 99)]
    return [
        shown_name(name),
        Bar(busy / total),
        Number(busy / total, share(busy, total)),
        Number(busy, seconds(busy)),
        share(min(cpu, busy), busy) if "cpu_seconds" in stage else NONE,
        count(number_of(stage, "calls")),
        count(number_of(stage, "samples")),
        size(num_bytes) if num_bytes else NONE,
        *(Number(one, seconds(one)) for one in percentiles),
    ]


def _threads(log: RunLog, total: float) -> str:
    """Return how much of the time the threads worked, and whether they had a core for it."""
    threads, lasted = number_of(log.last, "num_threads"), log.intervals[-1].ended
    if threads <= 0:
        return f"The threads worked {seconds(total)} in all."
    words = (
        f"{counted(int(threads), 'thread')} worked {seconds(total)} in all, "
        f"{plain(100 * total / (threads * lasted))} % of the time of the run that they had"
    )
    core = number_of(log.last, "core_share")
    if 0 < core < ENOUGH_CORES:
        words += (
            f"; without reading, they had a core for {share(core, 1)} of their work: other threads and processes "
            "take the cores"
        )
    return f"{words}."


def _waits(stages: Object) -> Part | None:
    waits = [
        (number_of(one, "waits", what, "seconds"), stage, what, number_of(one, "waits", what, "count"))
        for stage, one in stages.items()
        for what in object_of(one, "waits")
    ]  # fmt: skip
    rows = [
        (shown_name(stage), what, count(times), Number(lasted, seconds(lasted)))
        for lasted, stage, what, times in sorted(waits, reverse=True)
    ]
    return table(["stage", "waited for", "times", "in all"], rows, "Waiting within the loader")


def _remote(remote: Object) -> str:
    requests, hits, misses = (
        number_of(remote, name) for name in ("requests", "cache_hits", "cache_misses")
    )
    if not requests and not hits:
        return ""
    return (
        f"From the object store: {count(requests)} requests, {size(number_of(remote, 'bytes'))}; "
        f"the cache had {share(hits, hits + misses)} of the blocks that were asked for."
    )


def _coverage(log: RunLog) -> Section:
    found = {} if log.end is None else object_of(log.end, "coverage")
    of, came = number_of(found, "of"), number_of(found, "samples")
    if of <= 0:
        return section("coverage", "Coverage")
    rows = [
        [words, Bar(many / of), Number(int(many), count(many)), share(many, of)]
        for words, many in (
            ("came", came),
            ("handed over once more", number_of(found, "repeated")),
            ("never came", max(of - came, 0)),
        )
    ]
    epoch = f"epoch {count(number_of(found, 'epoch'))}" if "epoch" in found else "the run"
    return section(
        "coverage",
        "Coverage",
        table(
            ["samples", "", "number", f"of {count(of)}"],
            rows,
            f"Different samples of the data in {epoch}, the last one",
        ),
        note(
            "An epoch that was ended early does not come to all; nor does one whose last batch is dropped."
        ),
    )


def _setup(log: RunLog) -> Section:
    start = log.start
    rest = {name: value for name, value in start.items() if name not in _START}
    explain = start.get("explain")
    pairs = []
    if isinstance(explain, str):
        lines = (line.partition(": ") for line in explain.splitlines() if line.strip())
        pairs = [(name, why) if why else ("also", name) for name, _, why in lines]
    choices = facts(pairs)
    groups = {
        name: {key: value for key, value in object_of(start, name).items() if key not in rest}
        for name in ("settings", "versions", "machine")
    }
    return section(
        "setup",
        "What was run",
        facts(flat(rest)),
        Part("heading", "What was chosen, and why") if choices else None,
        choices,
        *(folded(name.capitalize(), facts(flat(group))) for name, group in groups.items()),
    )


def _changes(log: RunLog, look: DataLook) -> Section:
    """Say that the data has another length than in the run."""
    was, now = number_of(log.end or {}, "coverage", "of"), look.found.length
    of_clips = object_of(log.start, "settings").get("clips") is not None
    words = ""
    if was and now is not None and now != was and not of_clips:
        words = f"the data has {count(now)} samples now, and had {count(was)} in the run."
    return section("changed", "Since the run", warning(words))
