"""How many samples each class has."""

from collections import Counter
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
    is_all = found.all_labels or found.length == found.num_looked_at
    return _section("classes", "Classes", found, found.labels, "sample", is_all=is_all)


def boxes(found: Inspection) -> Markup:
    """The same of the boxes."""
    is_all = found.length == found.num_looked_at
    return _section("boxes", "Boxes per class", found, found.boxes, "box", is_all=is_all)


def _section(
    name: str, title: str, found: Inspection, numbers: Counter[int], thing: str, *, is_all: bool
) -> Markup:
    """Return a section about how many things each class has; nothing where there are none."""
    ranked = [(label, many) for label, many in numbers.most_common() if label >= 0 and many]
    if not ranked:
        return Markup()
    counts = [many for _, many in ranked]
    things = counted(2, thing).partition(" ")[2]
    of = "" if is_all else f" among the {counted(found.num_looked_at, 'sample')} looked at"
    names = found.dataset.class_names
    absent = len(names) - len(ranked)
    return section(
        name,
        title,
        note(f"{counted(len(ranked), 'class')}{of}; {_imbalance(counts, thing, things)}."),
        note(f"{counted(absent, 'class')} with a name and without a {thing}{of}.")
        if absent > 0
        else "",
        ranking_chart(
            f"{things.capitalize()} of each class, from the largest to the smallest",
            counts,
            things=things,
        )
        if len(ranked) >= _FROM
        else "",
        *_tables(ranked, names, things),
    )


def _imbalance(counts: Sequence[int], thing: str, things: str) -> str:
    if counts[0] == counts[-1]:
        return f"each has {counted(counts[0], thing)}"
    total = sum(counts)
    half = 1 + next(rank for rank, seen in enumerate(accumulate(counts)) if 2 * seen >= total)
    who = "the largest alone holds" if half == 1 else f"the {count(half)} largest hold"
    times = plain(counts[0] / counts[-1])
    return f"the largest has {times} times as many {things} as the smallest, and {who} half of all or more"


def _tables(ranked: Sequence[tuple[int, int]], names: tuple[str, ...], things: str) -> list[Markup]:
    if len(ranked) <= 2 * _ENDS:
        return [_table(ranked, ranked, names, "All classes", things)]
    listed = ranked[:_MOST_LISTED]
    what = f"All {count(len(ranked))} classes"
    if len(listed) < len(ranked):
        what = f"The largest {count(len(listed))} of {count(len(ranked))} classes"
    return [
        tag(
            "div",
            _table(ranked[:_ENDS], ranked, names, "The largest", things),
            _table(ranked[-_ENDS:], ranked, names, "The smallest", things),
            class_="beside",
        ),
        folded(what, _table(listed, ranked, names, what, things, with_bars=False), is_long=True),
    ]


def _table(
    rows: Sequence[tuple[int, int]],
    ranked: Sequence[tuple[int, int]],
    names: tuple[str, ...],
    caption: str,
    things: str,
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
    headings = ["class", *([""] if with_bars else []), things, "share"]
    return table(headings, cells, caption=caption)
