"""Speed, waiting and the queue over time."""

from bench.report.charts.frame import LABEL_AT_MOST
from bench.report.charts.lines import Curve, line_chart
from bench.report.charts.strips import Strip, strip_chart
from bench.report.elements import note, section
from bench.report.log import Interval, RunLog, number_of, object_of
from bench.report.markup import Markup
from bench.report.numbers import plain, seconds, share
from dali_pipes.stats.table import shown_name

_MOST_MARKS = 60
_ROOM = 0.2  # of the width, for the name of a mark where the page is narrow


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
    """When epochs began, all or every so many, as far as there is room for their names; the first is the start."""
    later = log.epochs[1:]
    marked: list[tuple[float, str]] = []
    named = -_ROOM
    for at, number in later[:: max(1, -(-len(later) // _MOST_MARKS))]:
        place = at / log.intervals[-1].ended
        room = (
            _ROOM if place < LABEL_AT_MOST else 1.8 * _ROOM
        )  # which then stands on the other side
        has_room = place - named >= room
        marked.append((at, f"epoch {number}" if has_room else ""))
        named = place if has_room else named
    return marked


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
    caption = "Samples that were handed over, start included; while functions are compiled the clock stands."
    return line_chart("Speed", curve, unit="samples/s", epochs=_epochs(log), caption=caption)


def _waiting(intervals: list[Interval]) -> Markup:
    after = intervals[-1].after
    late = {name: number_of(after, "late", name) for name in object_of(after, "late")}
    total = sum(late.values())
    if total <= 0:
        return note("The loop never waited: every batch was ready when it was asked for.")
    strips = [
        Strip(
            shown_name(name),
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
        "On the right stands what it comes to, and its share of all waiting. Idle threads had no work: too few "
        "batches are made at once (prefetch=).",
    )


def _queue(intervals: list[Interval], log: RunLog) -> Markup:
    after = intervals[-1].after
    asked = number_of(after, "queue", "asked")
    if not asked:
        return Markup()
    capacity = number_of(after, "queue", "capacity")
    caption = (
        f"{plain(number_of(after, 'queue', 'mean'))} on average when the loop asked for one; "
        f"{share(number_of(after, 'queue', 'empty'), asked)} of the times there was none."
    )
    return line_chart(
        "Finished batches that wait for the loop",
        Curve(_edges(intervals), _depths(intervals)),
        unit="batches",
        epochs=_epochs(log),
        ceiling=(capacity, f"as many as there can be: {plain(capacity)}") if capacity else None,
        caption=caption,
    )


def _depths(intervals: list[Interval]) -> list[float]:
    """The mean depth of each interval; of one in which nobody asked, that of the one before."""
    depths: list[float] = []
    for one in intervals:
        sums = [
            number_of(counts, "queue", "mean") * number_of(counts, "queue", "asked")
            for counts in (one.before, one.after)
        ]
        asked = one.gained("queue", "asked")
        last = depths[-1] if depths else 0.0
        depths.append(max(sums[1] - sums[0], 0.0) / asked if asked else last)
    return depths
