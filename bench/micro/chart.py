"""Small line charts as one SVG picture, written by hand.

A series has a colour that the colour-blind tell apart, and a mark of its own for print in black and white.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10

_WIDTH, _HEIGHT = 360, 250  # of a panel with its margins and without a legend, in pixels
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 14, 40, 44
_LEGEND_LINE = 14
_COLUMNS = 3
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#000000", "#cc79a7", "#56b4e9", "#e69f00", "#59636e")
_STYLE = (
    "text{font:12px sans-serif;fill:#1f2328}.title{font-weight:bold}.tick{font-size:10px;fill:#59636e}"
    ".grid{stroke:#d1d9e0;stroke-width:1}.line{fill:none;stroke-width:2}"
)
_MARKS = (
    "",  # a circle
    "M-3,-3h6v6h-6z",  # a square
    "M0,-4l4,7h-8z",  # a triangle
    "M0,-4l4,4l-4,4l-4,-4z",  # a diamond
    "M-4,0h8M0,-4v8",  # a cross
    "M-3,-3l6,6M3,-3l-6,6",  # a slanting cross
    "M0,4l4,-7h-8z",  # a triangle that stands on its tip
    "M-4,0h8",  # a dash
)


@dataclass(frozen=True)
class Series:
    """A line of points.

    Attributes:
        name: As the legend says it.
        points: (x, y), in order of x; on an axis of powers above 0.
        dashed: For what is computed and not measured.
        ranges: (lowest, highest) y of each point, drawn as upright lines; none without.
    """

    name: str
    points: Sequence[tuple[float, float]]
    dashed: bool = False
    ranges: Sequence[tuple[float, float]] = ()


@dataclass(frozen=True)
class Panel:
    """One chart.

    Attributes:
        title: Above it.
        across: What x is, with its unit.
        up: What y is, with its unit.
        series: At least one, with at least one point.
        powers: Whether the axes (x, y) have powers of ten; else they begin at 0.
    """

    title: str
    across: str
    up: str
    series: Sequence[Series]
    powers: tuple[bool, bool] = (False, False)


def draw_chart(panels: Sequence[Panel]) -> str:
    """Draw panels side by side, three in a row; names of several series stand below their chart."""
    names = max(len(panel.series) for panel in panels)
    panel_height = _HEIGHT + (_LEGEND_LINE * names if names > 1 else 0)
    rows = ceil(len(panels) / _COLUMNS)
    parts = []
    for place, panel in enumerate(panels):
        left, top = place % _COLUMNS * _WIDTH, place // _COLUMNS * panel_height
        parts += [f'<g transform="translate({left},{top})">', *_panel(panel), "</g>"]
    return picture(min(len(panels), _COLUMNS) * _WIDTH, rows * panel_height, parts)


def picture(width: int, height: int, parts: Sequence[str]) -> str:
    """An SVG document of a size in pixels, white behind its parts."""
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}">',
        f"<style>{_STYLE}</style>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]
    return "\n".join([*head, *parts, "</svg>", ""])


def _panel(panel: Panel) -> list[str]:
    points = [point for series in panel.series for point in series.points]
    heights = [y for _, y in points]
    heights += [y for series in panel.series for pair in series.ranges for y in pair]
    across = Axis([x for x, _ in points], _LEFT, _WIDTH - _RIGHT, powers=panel.powers[0])
    up = Axis(heights, _HEIGHT - _BOTTOM, _TOP, powers=panel.powers[1])
    parts = [text(_LEFT, 18, panel.title, "title")]
    for tick in up.ticks:
        y = up.place(tick)
        parts.append(line(_LEFT, y, _WIDTH - _RIGHT, y))
        parts.append(text(_LEFT - 5, y + 3, short(tick), "tick", "end"))
    for tick in across.ticks:
        x = across.place(tick)
        parts.append(line(x, _HEIGHT - _BOTTOM, x, _HEIGHT - _BOTTOM + 4))
        parts.append(text(x, _HEIGHT - _BOTTOM + 15, short(tick), "tick", "middle"))
    parts.append(text((_LEFT + _WIDTH) / 2, _HEIGHT - 10, panel.across, "", "middle"))
    parts.append(text(_LEFT, 32, panel.up, "tick", "start"))
    for place, series in enumerate(panel.series):
        parts += _drawn(series, place, across.place, up.place)
        if len(panel.series) > 1:
            parts += _legend(series, place)
    return parts


class Axis:
    """From values to pixels.

    Args:
        values: What has to fit on it; on an axis of powers above 0.
        start: The pixel of its lowest value.
        stop: The pixel of its highest value.
        powers: Whether equal ratios are equal distances; else it begins at 0.

    Attributes:
        ticks: The values that get a mark.
    """

    def __init__(self, values: Sequence[float], start: float, stop: float, *, powers: bool) -> None:
        self._start, self._stop, self._powers = start, stop, powers
        if powers:
            self.ticks = _powers(min(values), max(values))
            self._low, self._high = log10(self.ticks[0]), log10(self.ticks[-1])
        else:
            step_size = _step(max(values) or 1.0)
            count = ceil((max(values) or 1.0) / step_size)
            self._low, self._high = 0.0, step_size * count
            self.ticks = [step_size * number for number in range(count + 1)]

    def place(self, value: float) -> float:
        """The pixel of a value."""
        at = log10(value) if self._powers else value
        share = (at - self._low) / (self._high - self._low)
        return self._start + share * (self._stop - self._start)


def _powers(lowest: float, highest: float) -> list[float]:
    """Powers of ten around a range; where it is narrow, their doubles and halves, too."""
    low, high = floor(log10(lowest)), ceil(log10(highest))
    high = max(high, low + 1)
    if high - low > 2:
        step = ceil((high - low) / 6)
        count = ceil((high - low) / step)
        return [10.0 ** (low + step * number) for number in range(count + 1)]
    marks = [10.0**power * part for power in range(low, high + 1) for part in (1.0, 2.0, 5.0)]
    first = max(number for number, mark in enumerate(marks) if mark <= lowest)
    last = min(number for number, mark in enumerate(marks) if mark >= highest)
    return marks[first : max(last, first + 1) + 1]


def _step(highest: float) -> float:
    """A round number that divides an axis into four to eight parts."""
    power: float = 10.0 ** floor(log10(highest))
    return next(power * part for part in (2.0, 1.0, 0.5, 0.2, 0.1) if highest / (power * part) >= 4)


def _drawn(
    series: Series, number: int, across: Callable[[float], float], up: Callable[[float], float]
) -> list[str]:
    colour = _COLOURS[number % len(_COLOURS)]
    places = [(across(x), up(y)) for x, y in series.points]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    dashes = ' stroke-dasharray="5 4"' if series.dashed else ""
    parts = [f'<polyline class="line" stroke="{colour}"{dashes} points="{path}"/>']
    for (x, _), (lowest, highest) in zip(places, series.ranges, strict=False):
        parts.append(f'<path stroke="{colour}" d="M{x:.1f},{up(lowest):.1f}V{up(highest):.1f}"/>')
    if not series.dashed:
        parts += [_mark(number, x, y) for x, y in places]
    return parts


def _mark(number: int, x: float, y: float) -> str:
    colour, path = _COLOURS[number % len(_COLOURS)], _MARKS[number % len(_MARKS)]
    if not path:
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>'
    fill = colour if path.endswith("z") else "none"
    return (
        f'<path transform="translate({x:.1f},{y:.1f})" d="{path}" fill="{fill}" '
        f'stroke="{colour}" stroke-width="1.5"/>'
    )


def _legend(series: Series, number: int) -> list[str]:
    y, colour = _HEIGHT + _LEGEND_LINE * number, _COLOURS[number % len(_COLOURS)]
    dashes = ' stroke-dasharray="5 4"' if series.dashed else ""
    parts = [
        f'<line x1="{_LEFT}" y1="{y}" x2="{_LEFT + 26}" y2="{y}" stroke="{colour}" '
        f'stroke-width="2"{dashes}/>',
        text(_LEFT + 32, y + 4, series.name, "tick"),
    ]
    return parts if series.dashed else [*parts, _mark(number, _LEFT + 13, y)]


def line(x1: float, y1: float, x2: float, y2: float) -> str:
    """A thin grey line."""
    return f'<line class="grid" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def text(x: float, y: float, words: str, kind: str, anchor: str = "start") -> str:
    """Words at a place; their kind is "title", "tick" or ""."""
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def short(value: float) -> str:
    """1500000 as 1.5M."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"
