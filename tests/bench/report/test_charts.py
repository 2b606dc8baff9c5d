"""Charts are drawn without loss, and numbers are written as people read them."""

import base64
import math
from xml.etree import ElementTree

import pytest

from bench.report.charts import Chart, size_chart, time_chart
from bench.report.numbers import Share, plain, seconds, share, size


def words(chart: Chart) -> list[str]:
    """All texts of a chart, which is well-formed SVG."""
    kind, _, text = chart.source.partition(",")
    assert kind == "data:image/svg+xml;base64"
    root = ElementTree.fromstring(base64.b64decode(text))
    return ["".join(one.itertext()).strip() for one in root.iter() if one.tag.endswith("}text")]


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


@pytest.mark.parametrize(
    "shapes",
    [
        {(1, 1): 1},
        {(65_500, 1): 3, (1, 700): 10**9},
        {(480 + n, 640): n + 1 for n in range(10_000)},
    ],
)
def test_every_shape_can_be_drawn(shapes: dict[tuple[int, int], int]) -> None:
    """Also one alone, those that are far apart, and many; ticks are plain numbers, and a chart stays small."""
    chart = size_chart("shapes", shapes)

    texts = words(chart)
    assert "height in pixels" in texts
    assert not any("math" in text for text in texts)
    assert len(chart.source) < 200_000


def test_hostile_names_stay_text() -> None:
    """A stage of a log may be called as it likes."""
    evil = "$\\frac{<script>$ & 猫"
    texts = words(time_chart("w", [0, 1], {evil: [0.5], "a\x07b\ud800": [0.1]}, "share"))
    assert {evil, "a\ufffdb\ufffd"} <= set(texts)


def test_a_curve_of_nothing() -> None:
    """A run without a sample and without time has a chart."""
    assert "x" in words(time_chart("t", [0, 0], {"y": [0.0]}, "x"))


def test_shares_have_bars_within_their_cell() -> None:
    """A fraction is never more than all, and nothing of nothing is no bar."""
    assert [Share(*one).fraction for one in ((1, 4), (3, 2), (1, 0))] == [0.25, 1, 0]
