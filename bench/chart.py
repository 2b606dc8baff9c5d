"""Small line charts as one SVG picture, written by hand."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10

_WIDTH, _HEIGHT = 360, 250  # of a panel with its margins, in pixels
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 14, 34, 44
_COLUMNS = 3
_COLOURS = ("#1a7f37", "#0969da", "#bc4c00", "#8250df")
_STYLE = (
    "text{font:12px sans-serif;fill:#1f2328}.title{font-weight:bold}.tick{font-size:10px;fill:#59636e}"
    ".grid{stroke:#d1d9e0;stroke-width:1}.line{fill:none;stroke-width:2}"
)


@dataclass(frozen=True)
class Series:
    """A line of points.

    Attributes:
        name: As the legend says it.
        points: (x, y), in order of x; on an axis of powers above 0.
        dashed: For what is computed and not measured.
    """

    name: str
    points: Sequence[tuple[float, float]]
    dashed: bool = False


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
    """Draw panels side by side, three in a row."""
    rows = ceil(len(panels) / _COLUMNS)
    width, height = min(len(panels), _COLUMNS) * _WIDTH, rows * _HEIGHT
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}">',
        f"<style>{_STYLE}</style>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]
    for place, panel in enumerate(panels):
        left, top = place % _COLUMNS * _WIDTH, place // _COLUMNS * _HEIGHT
        parts += [f'<g transform="translate({left},{top})">', *_panel(panel), "</g>"]
    return "\n".join([*parts, "</svg>", ""])


def _panel(panel: Panel) -> list[str]:
    points = [point for series in panel.series for point in series.points]
    across = _Axis([x for x, _ in points], _LEFT, _WIDTH - _RIGHT, powers=panel.powers[0])
    up = _Axis([y for _, y in points], _HEIGHT - _BOTTOM, _TOP, powers=panel.powers[1])
    parts = [_text(_LEFT, 18, panel.title, "title")]
    for tick in up.ticks:
        y = up.place(tick)
        parts.append(_line(_LEFT, y, _WIDTH - _RIGHT, y))
        parts.append(_text(_LEFT - 5, y + 3, _short(tick), "tick", "end"))
    for tick in across.ticks:
        x = across.place(tick)
        parts.append(_line(x, _HEIGHT - _BOTTOM, x, _HEIGHT - _BOTTOM + 4))
        parts.append(_text(x, _HEIGHT - _BOTTOM + 15, _short(tick), "tick", "middle"))
    parts.append(_text((_LEFT + _WIDTH) / 2, _HEIGHT - 10, panel.across, "", "middle"))
    parts.append(_text(_LEFT, 30, panel.up, "tick", "start"))
    for place, series in enumerate(panel.series):
        colour = _COLOURS[place % len(_COLOURS)]
        parts += _drawn(series, colour, across.place, up.place)
        if len(panel.series) > 1:
            parts.append(_legend(series, colour, _TOP + 14 + 14 * place))
    return parts


class _Axis:
    """From values to pixels, and the values that get a mark."""

    def __init__(self, values: Sequence[float], start: float, stop: float, *, powers: bool) -> None:
        self._start, self._stop, self._powers = start, stop, powers
        if powers:
            low, high = floor(log10(min(values))), ceil(log10(max(values)))
            self._low, self._high = float(low), float(max(high, low + 1))
            step = max(1, ceil((self._high - self._low) / 6))
            self.ticks = [10.0**power for power in range(low, int(self._high) + 1, step)]
        else:
            step_size = _step(max(values) or 1.0)
            self._low, self._high = 0.0, step_size * ceil((max(values) or 1.0) / step_size)
            count = round(self._high / step_size)
            self.ticks = [step_size * number for number in range(count + 1)]

    def place(self, value: float) -> float:
        """The pixel of a value."""
        at = log10(value) if self._powers else value
        share = (at - self._low) / (self._high - self._low)
        return self._start + share * (self._stop - self._start)


def _step(highest: float) -> float:
    """A round number that divides an axis into four to eight parts."""
    power: float = 10.0 ** floor(log10(highest))
    return next(power * part for part in (2.0, 1.0, 0.5, 0.2, 0.1) if highest / (power * part) >= 4)


def _drawn(
    series: Series, colour: str, across: Callable[[float], float], up: Callable[[float], float]
) -> list[str]:
    places = [(across(x), up(y)) for x, y in series.points]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    dashes = ' stroke-dasharray="5 4"' if series.dashed else ""
    parts = [f'<polyline class="line" stroke="{colour}"{dashes} points="{path}"/>']
    if not series.dashed:
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in places]
    return parts


def _legend(series: Series, colour: str, y: float) -> str:
    dashes = ' stroke-dasharray="5 4"' if series.dashed else ""
    return (
        f'<line x1="{_LEFT + 8}" y1="{y - 4}" x2="{_LEFT + 28}" y2="{y - 4}" stroke="{colour}" '
        f'stroke-width="2"{dashes}/>' + _text(_LEFT + 33, y, series.name, "tick")
    )


def _line(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line class="grid" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _text(x: float, y: float, text: str, kind: str, anchor: str = "start") -> str:
    return (
        f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
    )


def _short(value: float) -> str:
    """1500000 as 1.5M."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"
