"""Two numbers of many things: heights and widths."""

import math
from collections import Counter
from collections.abc import Mapping
from itertools import pairwise

from bench.report.charts.frame import chart, horizontal_axis, percent, vertical_axis
from bench.report.charts.scale import Scale
from bench.report.markup import Markup, tag
from bench.report.numbers import count

_NUM_CELLS = 32  # each way
_SHADES = 5


def density_chart(title: str, shapes: Mapping[tuple[int, int], int], things: str) -> Markup:
    """Return a grid whose cells are the darker the more things lie there.

    Args:
        title: What it shows.
        shapes: Number of things by (height, width) in pixels.
        things: What they are, in the plural.
    """
    upward = Scale.around(*_ends([height for height, _ in shapes]))
    across = Scale.around(*_ends([width for _, width in shapes]))
    rows, columns = upward.edges(_NUM_CELLS), across.edges(_NUM_CELLS)
    cells: Counter[tuple[int, int]] = Counter()
    for (height, width), many in shapes.items():
        cells[_cell(upward, height, len(rows) - 1), _cell(across, width, len(columns) - 1)] += many
    most = max(cells.values())
    tall, wide = list(pairwise(rows)), list(pairwise(columns))
    drawn = [
        _rectangle(upward, across, tall[row], wide[column], many, most, things)
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
        vertical_axis(upward, count),
        horizontal_axis(across, count, across.ticks(), "width in pixels"),
        tag("g", *drawn, class_="cells"),
        height=300,
        unit="height in pixels",
    )
    return Markup(figure + tag("p", f"{things} in a cell: ", *keys, class_="legend"))


def _ends(numbers: list[int]) -> tuple[int, int]:
    return min(numbers), max(numbers)


def _cell(scale: Scale, number: int, num_cells: int) -> int:
    return min(int(scale.place(number) * num_cells), num_cells - 1)


def _shade(many: int, most: int) -> int:
    """1 for a single one to 5 for the most: equal steps of the logarithm."""
    if most == 1:
        return _SHADES
    return 1 + round((_SHADES - 1) * math.log(many) / math.log(most))


def _rectangle(
    upward: Scale,
    across: Scale,
    rows: tuple[float, float],
    columns: tuple[float, float],
    many: int,
    most: int,
    things: str,
) -> Markup:
    bottom, top = map(upward.place, rows)
    left, right = map(across.place, columns)
    words = f"{_range(rows)} high, {_range(columns)} wide: {count(many)} {things}"
    return tag(
        "rect",
        tag("title", words),
        x=percent(left),
        width=percent(right - left),
        y=percent(1 - top),
        height=percent(top - bottom),
        class_=f"s{_shade(many, most)}",
    )


def _range(ends: tuple[float, float]) -> str:
    """The whole numbers between two ends."""
    low, high = math.ceil(ends[0]), math.ceil(ends[1]) - 1
    return count(low) if high <= low else f"{count(low)} to {count(high)}"
