"""Two numbers of many things: heights and widths."""

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping
from itertools import pairwise

from bench.report.charts.frame import chart, horizontal_axis, percent, vertical_axis
from bench.report.charts.scale import Scale
from bench.report.markup import Markup, tag
from bench.report.numbers import count
from readers.plural import counted

_NUM_CELLS = 32  # each way
_SHADES = 5


def density_chart(title: str, shapes: Mapping[tuple[int, int], int], thing: str) -> Markup:
    """Return a grid whose cells are the darker the more things lie there.

    Args:
        title: What it shows.
        shapes: Number of things by (height, width) in pixels.
        thing: What one of them is.
    """
    upward = Scale.around(*_ends([height for height, _ in shapes]))
    across = Scale.around(*_ends([width for _, width in shapes]))
    rows, columns = _whole_edges(upward), _whole_edges(across)
    cells: Counter[tuple[int, int]] = Counter()
    for (height, width), many in shapes.items():
        cells[bisect_right(rows, height) - 1, bisect_right(columns, width) - 1] += many
    most = max(cells.values())
    tall, wide = list(pairwise(rows)), list(pairwise(columns))
    drawn = [
        _rectangle(upward, across, tall[row], wide[column], many, most, thing)
        for (row, column), many in sorted(cells.items())
    ]
    shades = [round(most ** (number / (_SHADES - 1))) for number in range(_SHADES)]
    kept = list(dict.fromkeys(shades))
    keys = [
        tag("span", tag("i", class_=f"key cell s{_shade(many, most)}", aria_hidden="true"), text)
        for many, text in ((many, count(many)) for many in kept)
    ]
    figure = chart(
        title,
        vertical_axis(upward, count, _whole(upward.ticks(4))),
        horizontal_axis(across, count, _whole(across.ticks()), "width in pixels"),
        tag("g", *drawn, class_="cells"),
        height=300,
        unit="height in pixels",
    )
    return Markup(figure + tag("p", f"{thing}s in a cell: ", *keys, class_="legend"))


def _ends(numbers: list[int]) -> tuple[int, int]:
    """Where an axis begins and ends: a pixel behind the largest number, whose cell would have no width otherwise."""
    return min(numbers), max(numbers) + 1


def _whole(ticks: list[float]) -> list[float]:
    return [tick for tick in ticks if tick == int(tick)]


def _whole_edges(scale: Scale) -> list[int]:
    """Whole numbers at which cells begin, and where the last one ends; cells look about equally wide."""
    inner = [math.ceil(edge - 1e-9) for edge in scale.edges(_NUM_CELLS)]
    return list(dict.fromkeys(inner))


def _shade(many: int, most: int) -> int:
    """1 for a single one to 5 for the most: equal steps of the logarithm."""
    if most == 1:
        return _SHADES
    return 1 + round((_SHADES - 1) * math.log(many) / math.log(most))


def _rectangle(
    upward: Scale,
    across: Scale,
    rows: tuple[int, int],
    columns: tuple[int, int],
    many: int,
    most: int,
    thing: str,
) -> Markup:
    bottom, top = map(upward.place, rows)
    left, right = map(across.place, columns)
    words = f"{_range(rows)} high, {_range(columns)} wide: {counted(many, thing)}"
    return tag(
        "rect",
        tag("title", words),
        x=percent(left),
        width=percent(right - left),
        y=percent(1 - top),
        height=percent(top - bottom),
        class_=f"s{_shade(many, most)}",
    )


def _range(ends: tuple[int, int]) -> str:
    """The whole numbers from one end to before the other."""
    low, high = ends[0], ends[1] - 1
    return count(low) if high == low else f"{count(low)} to {count(high)}"
