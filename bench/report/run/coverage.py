"""Which part of the data came in an epoch."""

from bench.report.charts.bars import bar
from bench.report.elements import data, note, section, table
from bench.report.log import RunLog, number_of, object_of
from bench.report.markup import Markup
from bench.report.numbers import count, share


def coverage(log: RunLog) -> Markup:
    """Samples that came, how often one came again, and those that never came."""
    if log.end is None:
        return Markup()
    found = object_of(log.end, "coverage")
    of = number_of(found, "of")
    if of <= 0:
        return Markup()
    came, repeated = number_of(found, "samples"), number_of(found, "repeated")
    rows = [
        [words, bar(many / of), data(int(many), count(many)), share(many, of)]
        for words, many in (
            ("came", came),
            ("handed over once more", repeated),
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
            caption=f"Different samples of the data in {epoch}, the last one",
        ),
        note(
            "An epoch that was ended early does not come to all; nor does one whose last batch is dropped."
        ),
    )
