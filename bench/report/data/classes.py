"""How many samples each class has."""

from collections.abc import Sequence
from itertools import accumulate

from bench.report.charts.bars import bar
from bench.report.charts.ranking import ranking_chart
from bench.report.elements import data, folded, note, section, table
from bench.report.markup import Markup, tag
from bench.report.numbers import count, plain, share
from readers.plural import counted
from readers.prepare import Inspection

_ENDS = 10  # largest, and smallest
_MOST_LISTED = 2000
_FROM = 12  # classes, from which on a curve tells more than a table


def classes(found: Inspection) -> Markup:
    """Classes from the largest to the smallest, and how far they are apart."""
    ranked = [(label, many) for label, many in found.labels.most_common() if label >= 0 and many]
    if not ranked:
        return Markup()
    is_all = found.all_labels or found.length == found.num_looked_at
    counts = [many for _, many in ranked]
    of = "" if is_all else " among the samples looked at"
    names = found.dataset.class_names
    absent = len(names) - len(ranked)
    return section(
        "classes",
        "Classes",
        note(f"{counted(len(ranked), 'class')}{of}; {_imbalance(counts)}."),
        note(f"{counted(absent, 'class')} with a name and without a sample{of}.")
        if absent > 0
        else "",
        ranking_chart(
            "Samples of each class, from the largest to the smallest", counts, things="samples"
        )
        if len(ranked) >= _FROM
        else "",
        *_tables(ranked, names),
    )


def _imbalance(counts: Sequence[int]) -> str:
    if counts[0] == counts[-1]:
        return f"each has {counted(counts[0], 'sample')}"
    total = sum(counts)
    half = 1 + next(rank for rank, seen in enumerate(accumulate(counts)) if 2 * seen >= total)
    who = "the largest alone holds" if half == 1 else f"the {count(half)} largest hold"
    times = plain(counts[0] / counts[-1])
    return f"the largest has {times} times as many samples as the smallest, and {who} half of all or more"


def _tables(ranked: Sequence[tuple[int, int]], names: tuple[str, ...]) -> list[Markup]:
    if len(ranked) <= 2 * _ENDS:
        return [_table(ranked, ranked, names, "All classes")]
    listed = ranked[:_MOST_LISTED]
    what = f"All {count(len(ranked))} classes"
    if len(listed) < len(ranked):
        what = f"The largest {count(len(listed))} of {count(len(ranked))} classes"
    return [
        tag(
            "div",
            _table(ranked[:_ENDS], ranked, names, "The largest"),
            _table(ranked[-_ENDS:], ranked, names, "The smallest"),
            class_="beside",
        ),
        folded(what, _table(listed, ranked, names, what, with_bars=False), is_long=True),
    ]


def _table(
    rows: Sequence[tuple[int, int]],
    ranked: Sequence[tuple[int, int]],
    names: tuple[str, ...],
    caption: str,
    *,
    with_bars: bool = True,
) -> Markup:
    most, total = ranked[0][1], sum(many for _, many in ranked)
    cells = []
    for label, many in rows:
        name = f"{label} {names[label]}" if label < len(names) else str(label)
        bars = [bar(many / most)] if with_bars else []
        cells.append(
            [tag("span", name, class_="class"), *bars, data(many, count(many)), share(many, total)]
        )
    headings = ["class", *([""] if with_bars else []), "samples", "share"]
    return table(headings, cells, caption=caption)
