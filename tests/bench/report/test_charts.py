"""Axes, columns and cells lie where their numbers are."""

import math
from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import pytest
from bench.report.charts.density import density_chart
from bench.report.charts.histogram import histogram
from bench.report.charts.lines import Curve, line_chart
from bench.report.charts.scale import Scale, clock
from bench.report.markup import Markup, escaped, tag
from matplotlib.ticker import LogLocator, MaxNLocator

from bench.report.numbers import plain, seconds, share, size
from readers.prepare.percentiles import Spread
from tests.support.report_pages import SVG

ENDS = [(0.0, 1.0), (0.0, 870.0), (0.0, 0.037), (213.0, 1400.0), (0.0, 3.0), (-5.0, 12.0)]


@pytest.mark.parametrize(("low", "high"), ENDS)
def test_ticks_are_round(low: float, high: float) -> None:
    """They are those that matplotlib would set, at its steps of 1, 2 and 5."""
    locator = MaxNLocator(nbins=5, steps=[1, 2, 5, 10])
    expected = [tick for tick in locator.tick_values(low, high) if low <= tick <= high]

    assert Scale(low, high).ticks(5) == pytest.approx(expected)


@pytest.mark.parametrize(("low", "high"), [(1, 65500), (10_600, 3_700_000), (3, 40), (1, 10**9)])
def test_ticks_of_a_logarithm(low: float, high: float) -> None:
    """There are two to seven, in their order, among the multiples of powers of ten."""
    ticks = Scale.around(low, high).ticks()
    allowed = LogLocator(subs=(1, 2, 3, 5), numticks=100).tick_values(low, high)

    assert 2 <= len(ticks) <= 7
    assert ticks == sorted(set(ticks))
    assert all(np.isclose(tick, allowed).any() and low <= tick <= high for tick in ticks)


def test_places_and_numbers() -> None:
    """A place is the share of the axis below a number; the number at that place is the same again."""
    for scale in (Scale.from_zero(8), Scale.around(2, 3000), Scale(-1, 7)):
        for place in (0.0, 0.25, 1.0):
            assert scale.place(scale.number_at(place)) == pytest.approx(place)
    assert Scale.around(10, 1000).place(100) == pytest.approx(0.5)
    assert Scale.from_zero(0).place(1) == 1.0
    assert Scale.around(5, 5).place(5) == 0.5


@pytest.mark.parametrize("high", [0.4, 5.7, 59, 61, 599, 3599, 3601, 86_399, 400_000, 5_000_000])
def test_times_stand_at_round_minutes_and_hours(high: float) -> None:
    """There are at most six, and steps are those of a clock."""
    ticks = Scale(0, high).time_ticks()

    assert 1 <= len(ticks) <= 6
    steps = {round(later - tick, 9) for tick, later in pairwise(ticks)}
    assert len(steps) <= 1
    for step in steps:
        assert step < 1 or 60 % step == 0 or step % 60 == 0


def test_words_of_numbers() -> None:
    """Numbers, times, shares and sizes as people write them."""
    assert [plain(one) for one in (0, 3.0, 2165.4, 97.31, 0.01234, 1234567)] == [
        "0", "3", "2,165", "97.3", "0.0123", "1,234,567",
    ]  # fmt: skip
    assert [seconds(one) for one in (0, 4.1e-7, 0.0123, 0.9999, 59, 119, 120, 7199, 9000)] == [
        "0 s", "0.410 µs", "12.3 ms", "1 s", "59 s", "119 s", "2 min", "120 min", "2.50 h",
    ]  # fmt: skip
    assert [share(one, 3000) for one in (0, 1, 1500, 2999, 3000)] == [
        "0 %", "0.1 %", "50.0 %", "99.9 %", "100 %",
    ]  # fmt: skip
    assert [size(one) for one in (1, 999, 1000, 61_100_000)] == [
        "1 byte",
        "999 bytes",
        "1 kB",
        "61.1 MB",
    ]
    assert [clock(one) for one in (0, 0.25, 45, 150, 10_800)] == [
        "0 s", "0.25 s", "45 s", "2:30 min", "3:00 h",
    ]  # fmt: skip
    assert plain(math.nan) == seconds(math.inf) == share(1, 0) == "\N{EN DASH}"


@pytest.mark.parametrize("is_exact", [True, False])
def test_columns_of_a_spread_are_those_of_numpy(is_exact: bool) -> None:
    """Counts between edges agree with numpy's; beyond 10,000 different numbers their sum does."""
    numbers = np.random.default_rng(3).integers(0, 5000 if is_exact else 10**7, 20_000)
    spread = Spread()
    for number in numbers.tolist():
        spread.add(number)
    edges = np.linspace(0, numbers.max(), 12).tolist()
    expected = np.histogram(numbers, edges)[0]

    assert spread.is_exact == is_exact
    found = spread.histogram(edges)
    assert sum(found) == 20_000
    if is_exact:
        assert found == expected.tolist()
        assert sum(spread.histogram([100, 200, 300])) == ((numbers >= 100) & (numbers <= 300)).sum()
    else:
        assert np.abs(np.array(found) - expected).max() < 0.05 * 20_000


def test_columns_are_as_high_as_their_counts() -> None:
    """The height of a column over that of another is their counts' ratio, and empty ones are not drawn."""
    scale = Scale(0, 4)
    figure = histogram("t", scale, [0, 1, 2, 4], [10, 0, 25], words=plain, thing="file")
    [group] = [one for one in drawn(figure).iter(f"{SVG}g") if one.get("class") == "columns"]
    first, second = (
        [float(one.attrib[name].rstrip("%")) for name in ("x", "y", "width", "height")]
        for one in group
    )

    assert second[3] / first[3] == pytest.approx(2.5, rel=1e-3)
    assert (first[0], first[2], second[0], second[2]) == (0, 25, 50, 50)
    assert first[1] + first[3] == pytest.approx(100)
    assert [one[0].text for one in group] == ["0 to 1: 10 files", "2 to 4: 25 files"]


@pytest.mark.parametrize(
    "shapes", [{(1, 1): 1}, {(9, 9): 2, (1, 1): 1}, {(65_500, 1): 3, (1, 700): 1}]
)
def test_every_cell_has_a_size(shapes: dict[tuple[int, int], int]) -> None:
    """The largest and the smallest shape can be seen, too."""
    figure = density_chart("t", shapes, "image")
    [group] = [one for one in drawn(figure).iter(f"{SVG}g") if one.get("class") == "cells"]

    assert len(group) == len(shapes)
    for cell in group:
        assert all(float(cell.attrib[name].rstrip("%")) > 1 for name in ("width", "height"))
        assert all(0 <= float(cell.attrib[name].rstrip("%")) < 100 for name in ("x", "y"))


def test_a_curve_of_nothing() -> None:
    """A run without a sample has a flat line, and an axis from 0 to 1."""
    figure = line_chart("t", Curve([0, 0], [0.0]), unit="x")

    points = next(drawn(figure).iter(f"{SVG}polyline")).attrib["points"]
    assert points == "0.0,1000.0 0.0,1000.0"


def test_markup_is_escaped_once() -> None:
    """Text is escaped, markup is not, and what XML does not know is replaced."""
    assert tag("p", "<b>&", tag("br"), None, title='"<') == (
        '<p title="&quot;&lt;">&lt;b&gt;&amp;<br/></p>'
    )
    assert escaped("a\0\x1b\udcff\ud800\ufffe") == "a" + 5 * "\ufffd"
    assert escaped(Markup("<i>")) == "<i>"
    assert tag("span") == "<span></span>"


def drawn(figure: Markup) -> ElementTree.Element:
    """A chart as elements."""
    return ElementTree.fromstring(f"<p>{figure}</p>")
