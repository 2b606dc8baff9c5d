"""The epochs of a run, one beside the other."""

from bench.report.charts.bars import bar
from bench.report.elements import data, note, section, table
from bench.report.log import Object, RunLog, number_of, object_of
from bench.report.markup import Markup
from bench.report.numbers import NONE, count, plain, seconds, share
from dali_pipes.stats.table import shown_name
from readers.plural import counted

_MOST = 50


def epochs(log: RunLog) -> Markup:
    """Samples, speed and waiting of each epoch that is over; the first ones where there are many."""
    found = [] if log.end is None else list(object_of(log.end, "stats").items())
    told = [(name, stats) for name, stats in found if isinstance(stats, dict)]
    if not told:
        return Markup()
    fastest = max(number_of(stats, "images_per_second") for _, stats in told) or 1.0
    left = len(told) - _MOST
    return section(
        "epochs",
        "Epochs",
        table(
            ["epoch", "", "samples/s", "samples", "first batch after", "time", "waited", "limit"],
            [_row(name, stats, fastest) for name, stats in told[:_MOST]],
            caption="Each epoch by itself",
        ),
        note(f"and {counted(left, 'later epoch')}.") if left > 0 else "",
    )


def _row(name: str, stats: Object, fastest: float) -> list[object]:
    rate, waited = number_of(stats, "images_per_second"), number_of(stats, "wait_share")
    lasted = number_of(stats, "seconds")
    return [
        name,
        bar(rate / fastest),
        data(rate, plain(rate)),
        count(number_of(stats, "samples")),
        seconds(number_of(stats, "start_seconds")),
        data(lasted, seconds(lasted)),
        data(waited, share(waited, 1)),
        shown_name(str(stats.get("limit") or NONE)),
    ]
