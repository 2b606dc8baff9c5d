"""Numbers over time."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench.report.charts.frame import (
    chart,
    horizontal_axis,
    hover_columns,
    legend,
    marks,
    points,
    stretched,
    vertical_axis,
)
from bench.report.charts.scale import Scale, clock
from bench.report.markup import Markup, joined, tag
from bench.report.numbers import plain


@dataclass(frozen=True)
class Curve:
    """Numbers of successive intervals of time.

    Attributes:
        edges: Where the intervals begin, and where the last one ends, in seconds; [N + 1].
        values: [N], the mean of each interval.
        lows: [N], the lowest number within each; None where only the mean is known.
        highs: [N], the highest.
    """

    edges: Sequence[float]
    values: Sequence[float]
    lows: Sequence[float] | None = None
    highs: Sequence[float] | None = None


def line_chart(
    title: str,
    curve: Curve,
    *,
    unit: str,
    epochs: Sequence[tuple[float, str]] = (),
    ceiling: tuple[float, str] | None = None,
    caption: str = "",
    words: Callable[[float], str] = plain,
) -> Markup:
    """Return a curve of steps over time, above zero.

    Args:
        title: What it shows.
        curve: The numbers.
        unit: Theirs, such as "samples/s".
        epochs: Times in seconds, each with a word for it.
        ceiling: A number that cannot be exceeded, and its name.
        caption: How to read it.
        words: Writes a number of the vertical axis.
    """
    across = Scale(0.0, max(curve.edges[-1], 1e-3))
    tops = [*curve.values, *(curve.highs or ()), *([ceiling[0]] if ceiling else [])]
    upward = Scale.from_zero(1.05 * max(tops))
    shapes = [tag("polyline", points=points(across, upward, _steps(curve, curve.values)))]
    has_band = curve.lows is not None and curve.highs is not None
    if curve.lows is not None and curve.highs is not None:
        band = [*_steps(curve, curve.highs), *reversed(_steps(curve, curve.lows))]
        shapes.insert(0, tag("path", d=f"M{points(across, upward, band)}Z", class_="band"))
    if ceiling:
        ends = [(across.low, ceiling[0]), (across.high, ceiling[0])]
        shapes.append(tag("polyline", points=points(across, upward, ends), class_="ceiling"))
    keys = [("line", "mean"), *([("band", "lowest to highest of a second")] if has_band else [])]
    keys += [("ceiling", ceiling[1])] if ceiling else []
    return joined(
        chart(
            title,
            vertical_axis(upward, words),
            horizontal_axis(across, clock, across.time_ticks(), "time since the start"),
            marks(across, epochs),
            stretched(*shapes),
            hover_columns(curve.edges, across, _words(curve, unit, words)),
            caption=caption,
            unit=unit,
        ),
        legend(*keys) if len(keys) > 1 else "",
    )


def _steps(curve: Curve, values: Sequence[float]) -> list[tuple[float, float]]:
    """A curve that stays at the number of an interval to its end."""
    places = []
    for number, value in enumerate(values):
        places += [(curve.edges[number], value), (curve.edges[number + 1], value)]
    return places


def _words(curve: Curve, unit: str, words: Callable[[float], str]) -> list[str]:
    told = []
    for number, value in enumerate(curve.values):
        text = f"{clock(round(curve.edges[number], 1))} to {clock(round(curve.edges[number + 1], 1))}: "
        text += f"{words(value)} {unit}"
        if curve.lows is not None and curve.highs is not None:
            low, high = curve.lows[number], curve.highs[number]
            text += f" ({words(low)} to {words(high)})" if low != high else ""
        told.append(text)
    return told
