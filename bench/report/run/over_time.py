"""Speed, waiting and the queue over time."""

from bench.report.charts.lines import Curve, line_chart
from bench.report.charts.strips import Strip, strip_chart
from bench.report.elements import note, section
from bench.report.log import Interval, RunLog, number_of, object_of
from bench.report.markup import Markup
from bench.report.numbers import plain, seconds, share

_MOST_MARKS = 12
IDLE = "idle"


def over_time(log: RunLog) -> Markup:
    """All charts of the run over time."""
    if not log.intervals:
        return Markup()
    return section(
        "time", "Over time", _speed(log), _waiting(log.intervals), _queue(log.intervals, log)
    )


def _edges(intervals: list[Interval]) -> list[float]:
    return [intervals[0].began, *(one.ended for one in intervals)]


def _epochs(log: RunLog) -> list[tuple[float, str]]:
    """When epochs began, all or every so many; the first is the start itself."""
    later = log.epochs[1:]
    every = max(1, -(-len(later) // _MOST_MARKS))
    return [(at, f"epoch {number}") for at, number in later[::every]]


def _speed(log: RunLog) -> Markup:
    intervals = log.intervals
    curve = Curve(
        _edges(intervals),
        [one.rate for one in intervals],
        [one.lowest for one in intervals],
        [one.highest for one in intervals],
    )
    if all(one.lowest == one.highest for one in intervals):
        curve = Curve(curve.edges, curve.values)
    caption = "Samples that were handed over, compiling included."
    return line_chart("Speed", curve, unit="samples/s", epochs=_epochs(log), caption=caption)


def _waiting(intervals: list[Interval]) -> Markup:
    after = intervals[-1].after
    late = {name: number_of(after, "late", name) for name in object_of(after, "late")}
    total = sum(late.values())
    if total <= 0:
        return note("The loop never waited: every batch was ready when it was asked for.")
    strips = [
        Strip(
            name,
            [min(one.gained("late", name) / one.seconds, 1.0) for one in intervals],
            f"{seconds(waited)}, {share(waited, total)}",
        )
        for name, waited in sorted(late.items(), key=lambda item: -item[1])
        if waited > 0
    ]
    return strip_chart(
        "Waiting of the loop, by the stages that worked meanwhile",
        _edges(intervals),
        strips,
        "The height of a row is the share of the time, from none to all; on the right stands what it comes to. "
        f"{IDLE}: no thread had work, too few batches are prepared at once (prefetch=).",
    )


def _queue(intervals: list[Interval], log: RunLog) -> Markup:
    after = intervals[-1].after
    if "queue" not in after:
        return Markup()
    depths = [number_of(one.after, "queue", "depth") for one in intervals]
    capacity = number_of(after, "queue", "capacity")
    steps, empty = number_of(after, "steps"), number_of(after, "queue", "empty")
    caption = (
        f"{plain(number_of(after, 'queue', 'mean'))} on average when the loop asked for one; "
        f"{share(empty, steps)} of the times none was there."
    )
    return line_chart(
        "Finished batches that wait for the loop",
        Curve(_edges(intervals), depths),
        unit="batches",
        epochs=_epochs(log),
        ceiling=(capacity, f"as many as there can be: {plain(capacity)}") if capacity else None,
        caption=caption,
    )
