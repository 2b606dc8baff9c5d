"""Numbers as people read them, and charts of any data."""

import math
from collections.abc import Callable
from xml.etree import ElementTree

import numpy as np
import pytest

from bench.report import charts
from bench.report.numbers import plain, seconds, share, size
from bench.report.parts import Part
from readers.prepare.percentiles import Spread


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


CHARTS: dict[str, Callable[[], Part]] = {
    "speed": lambda: charts.over_time(
        "<b>", [0, 1, 2], [5, 0], "x", low=[4, 0], high=[6, 1], marks=[(1, "&")], ceiling=(7, "<i>")
    ),
    "a run of nothing": lambda: charts.over_time("<b>", [0, 0], [0.0], "x"),
    "shares": lambda: charts.shares_over_time("<b>", [0, 1, 2], {"<i>": [0.2, 0.4]}),
    "one number of many sizes": lambda: charts.histogram(
        "<b>", 1, 10**9, lambda edges: [1] * (len(edges) - 1), size, "<i>"
    ),
    "two neighbours": lambda: charts.histogram(
        "<b>", 4, 5, lambda edges: [1] * (len(edges) - 1), plain, "<i>"
    ),
    "shapes": lambda: charts.shapes("<b>", {(1, 65500): 7, (65500, 1): 1}, "<i>"),
    "one shape": lambda: charts.shapes("<b>", {(8, 8): 7}, "<i>"),
    "classes": lambda: charts.ranking("<b>", [1000, 900, 1], "<i>"),
}


@pytest.mark.parametrize("name", CHARTS)
def test_charts_of_any_data(name: str) -> None:
    """They hold their title as text, and are the same each time."""
    part, again = CHARTS[name](), CHARTS[name]()
    svg = ElementTree.fromstring(part.content)

    assert part.content == again.content
    assert "<b>" in "".join(svg.itertext())
    assert "metadata" not in part.content


def test_a_histogram_counts_all() -> None:
    """The last column includes the largest number."""
    counted: list[int] = []

    def count_between(edges: list[float]) -> list[int]:
        counted.extend(np.histogram([4, 5, 9, 9], edges)[0].tolist())
        return counted

    charts.histogram("t", 4, 9, count_between, plain, "files")

    assert sum(counted) == 4
    assert counted[-1] == 2
