"""Charts of bars with names, the longest on top as a rule, as one SVG picture."""

from collections.abc import Sequence
from dataclasses import dataclass

from bench.chart import Axis, line, picture, short, text

_WIDTH, _NAMES, _RIGHT = (
    720,
    270,
    70,
)  # in pixels; names stand left of the bars, values right of them
_TOP, _BOTTOM, _BAR, _STEP = 34, 44, 12, 19
_OURS, _OTHERS = (
    "#0072b2",
    "#d0d7de",
)  # dark and light, so that print in black and white tells them apart


@dataclass(frozen=True)
class Bar:
    """One bar.

    Attributes:
        name: Left of it.
        value: Its length.
        runs: Single runs, whose range is drawn as a line; empty without.
        is_ours: Whether it is dark.
    """

    name: str
    value: float
    runs: Sequence[float] = ()
    is_ours: bool = True


@dataclass(frozen=True)
class Bars:
    """One chart.

    Attributes:
        title: Above it.
        across: What the length is, with its unit.
        bars: At least one, from top to bottom.
        mark: A value that gets an upright line; None without.
    """

    title: str
    across: str
    bars: Sequence[Bar]
    mark: float | None = None


def draw_bars(charts: Sequence[Bars]) -> str:
    """Draw charts one below the other; ours dark, others light."""
    parts, top = [], 0
    for chart in charts:
        parts += [f'<g transform="translate(0,{top})">', *_chart(chart), "</g>"]
        top += _TOP + _STEP * len(chart.bars) + _BOTTOM
    return picture(_WIDTH, top, parts)


def _chart(chart: Bars) -> list[str]:
    values = [value for bar in chart.bars for value in (bar.value, *bar.runs)]
    mark = [] if chart.mark is None else [chart.mark]
    axis = Axis([*values, *mark], _NAMES, _WIDTH - _RIGHT, powers=False)
    bottom = _TOP + _STEP * len(chart.bars)
    parts = [text(8, 18, chart.title, "title")]
    for tick in axis.ticks:
        parts.append(line(axis.place(tick), _TOP - 6, axis.place(tick), bottom))
        parts.append(text(axis.place(tick), bottom + 14, short(tick), "tick", "middle"))
    for number, bar in enumerate(chart.bars):
        parts += _bar(bar, _TOP + _STEP * number, axis)
    for value in mark:
        x = axis.place(value)
        parts.append(
            f'<path stroke="#000000" stroke-dasharray="4 3" d="M{x:.1f},{_TOP - 8}V{bottom}"/>'
        )
    parts.append(text((_NAMES + _WIDTH - _RIGHT) / 2, bottom + 32, chart.across, "", "middle"))
    return parts


def _bar(bar: Bar, top: float, axis: Axis) -> list[str]:
    left, right = axis.place(0.0), axis.place(bar.value)
    end = max([right, *(axis.place(run) for run in bar.runs)])
    middle = top + _BAR / 2
    parts = [
        text(_NAMES - 6, middle + 4, bar.name, "tick", "end"),
        f'<rect x="{left:.1f}" y="{top}" width="{right - left:.1f}" height="{_BAR}" '
        f'fill="{_OURS if bar.is_ours else _OTHERS}" stroke="#1f2328" stroke-width="0.5"/>',
        text(
            end + 5,
            middle + 4,
            f"{bar.value:,.3g}" if bar.value < 1000 else f"{bar.value:,.0f}",
            "tick",
        ),
    ]
    if bar.runs:
        low, high = axis.place(min(bar.runs)), axis.place(max(bar.runs))
        parts.append(
            f'<path stroke="#d55e00" stroke-width="1.5" fill="none" '
            f'd="M{low:.1f},{middle - 3}v6M{low:.1f},{middle}H{high:.1f}M{high:.1f},{middle - 3}v6"/>'
        )
    return parts
