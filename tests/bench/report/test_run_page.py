"""The page about a run says what its log says."""

from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

import pytest

from bench.report.log import read_log
from bench.report.page import run_page
from tests.support import report_pages, run_logs
from tests.support.report_pages import SVG


def page_of(path: Path, told: Any, why: str = "nobody asked") -> Element:
    """The page about a log without its data."""
    return report_pages.parse(run_page(read_log(run_logs.write(path, told)), None, why))


@pytest.fixture
def whole(tmp_path: Path) -> Element:
    """The page about 25 seconds."""
    return page_of(tmp_path / "run.jsonl", run_logs.lines(25))


def test_the_overview(whole: Element) -> None:
    """The tiles show the numbers of the last line."""
    last = run_logs.stats_at(250, epoch=2)

    assert report_pages.tiles(whole, "overview") == {
        "speed": last.images_per_second,
        "the loop waited": last.wait_share,
        "limit": "decode",
        "samples": last.samples,
        "time": 25.0,
        "bad samples": 0,
    }
    assert "5 progressive JPEG" in report_pages.text_of(report_pages.section(whole, "overview"))


def test_the_stages(whole: Element) -> None:
    """Every stage that worked has a row with its numbers: share, busy time, three percentiles."""
    last = run_logs.stats_at(250)
    busy = sum(stage.busy_seconds for stage in last.stages.values())
    found = report_pages.numbers(whole, "Work of the threads")

    assert set(found) == {name.replace("_", "-") for name in last.stages}
    for name, stage in last.stages.items():
        assert found[name.replace("_", "-")] == pytest.approx(
            [stage.busy_seconds / busy, stage.busy_seconds, 0.001, 0.0125, 0.25], rel=1e-9
        )
    cells = report_pages.rows(whole, "Work of the threads")["decode"]
    assert cells[3:] == ["50.0 %", "250", "4,000", "250 kB", "1 ms", "12.5 ms", "250 ms"]
    text = report_pages.text_of(report_pages.section(whole, "stages"))
    assert "2 threads worked 9 s in all, 18 % of the time of the run that they had" in text
    assert "they had a core for 50.0 % of their work" in text
    assert report_pages.rows(whole, "Waiting within") == {"decode": ["a thread", "250", "500 ms"]}


def test_speed_over_time(whole: Element) -> None:
    """The chart has a column for every second with its rate, and a mark for every epoch but the first."""
    told = report_pages.hovers(whole, "Speed")

    assert len(told) == 25
    assert told[3] == "3 s to 4 s: 160 samples/s"
    [plot] = [one for one in whole.iter(f"{SVG}svg") if one.get("aria-label") == "Speed"]
    marks = [one.text for one in plot.iter(f"{SVG}text") if "epoch" in (one.text or "")]
    assert marks == ["epoch 1", "epoch 2"]


def test_a_rate_that_changes_is_seen(tmp_path: Path) -> None:
    """Negative control: half the samples in the last second is another number there, and another line."""
    told = list(run_logs.lines(25))
    slower = [dict(line) for line in told]
    slower[25]["samples"] -= 80
    pages = [
        page_of(tmp_path / f"{number}.jsonl", one) for number, one in enumerate((told, slower))
    ]

    before, after = (report_pages.hovers(page, "Speed") for page in pages)
    assert before[:24] == after[:24]
    assert (before[24], after[24]) == ("24 s to 25 s: 160 samples/s", "24 s to 25 s: 80 samples/s")
    curves = [next(page.iter(f"{SVG}polyline")).get("points") for page in pages]
    assert curves[0] != curves[1]


def test_the_curve_lies_where_the_rates_are(tmp_path: Path) -> None:
    """Points of the curve, turned back by the axis' own numbers, are the rates of the log."""
    told = [run_logs.start()]
    samples = 0
    rates = [100, 400, 250, 0]
    for second, rate in enumerate(rates, 1):
        samples += rate
        told.append({"kind": "stats", "at": second, "samples": samples})
    [plot] = [
        one
        for one in page_of(tmp_path / "run.jsonl", told).iter(f"{SVG}svg")
        if one.get("aria-label") == "Speed"
    ]
    ticks = {
        float((one.text or "").replace(",", "")): float(one.attrib["y"].rstrip("%"))
        for one in plot.iter(f"{SVG}text")
        if one.get("text-anchor") == "end" and one.get("x") == "0"
    }
    curve = next(plot.iter(f"{SVG}polyline")).attrib["points"].split()
    heights = [float(point.split(",")[1]) / 10 for point in curve][::2]  # percent from the top
    per_percent = 400 / (ticks[0] - ticks[400])

    assert [(ticks[0] - height) * per_percent for height in heights] == pytest.approx(
        rates, abs=0.1
    )


def test_waiting_is_divided_among_stages(whole: Element) -> None:
    """Each stage that the loop waited for has a row; of each second decoding took a sixth."""
    title = "Waiting of the loop, by the stages that worked meanwhile"

    assert (
        report_pages.hovers(whole, f"{title}: decode")[4] == "4 s to 5 s: decode 16.7 % of the time"
    )
    assert report_pages.hovers(whole, f"{title}: idle threads")[4].endswith("3.3 % of the time")
    text = report_pages.text_of(report_pages.section(whole, "time"))
    assert "4.17 s, 83.3 %" in text
    assert "The height of a row is 20 % of the time" in text


def test_the_queue(whole: Element) -> None:
    """Depth, capacity, and how often nothing was there."""
    text = report_pages.text_of(report_pages.section(whole, "time"))

    assert "1.50 on average when the loop asked for one; 24.8 % of the times there was none" in text
    told = report_pages.hovers(whole, "Finished batches that wait for the loop")
    assert [words.rpartition(": ")[2] for words in told] == ["1.50 batches"] * 25


def test_epochs(whole: Element) -> None:
    """Each epoch that is over has its own row: samples per second, time, share of waiting."""
    expected = [160.0, 10.0, 0.2]

    assert report_pages.numbers(whole, "Each epoch") == {"0": expected, "1": expected}
    assert report_pages.rows(whole, "Each epoch")["0"][-1] == "decode"


@pytest.mark.parametrize(
    ("step_ms", "words"), [(None, "Nothing trained in this run"), (12.5, "12.5 ms of sleep")]
)
def test_what_trained(tmp_path: Path, step_ms: float | None, words: str) -> None:
    """The page says that the waiting of a run without training means nothing."""
    told = list(run_logs.lines(3))
    told[0]["settings"]["step_ms"] = step_ms
    told[-1]["stopped"] = "BadSampleError"
    text = report_pages.text_of(page_of(tmp_path / "run.jsonl", told))

    assert words in text
    assert "the run was ended by BadSampleError" in text
    assert ("Nothing trained" in text) == (step_ms is None)


def test_coverage(whole: Element) -> None:
    """How many of the samples came, how often one came again, and how many never came."""
    assert report_pages.numbers(whole, "Different samples") == {
        "came": [30],
        "handed over once more": [4],
        "never came": [10],
    }


def test_what_was_run(whole: Element) -> None:
    """Choices, settings, versions and machine stand there by name."""
    text = report_pages.text_of(report_pages.section(whole, "setup"))

    for words in (
        "device cpu torch sees no CUDA device",
        "also images decoded exactly",
        "batch_size 16",
        "numpy 2.2.0",
        "cores 2",
        "commit 0123456789abcdef",
    ):
        assert words in text


def test_bad_samples_are_listed_once(tmp_path: Path) -> None:
    """Each with its reason and how often it was met; reasons are counted over samples."""
    bad = [
        run_logs.bad_record("a.jpg", 1),
        run_logs.bad_record("b.jpg", 2),
        run_logs.bad_record("a.jpg", 1, epoch=1),
        run_logs.bad_record("c.jpg", 3, "no header", stage="header", kept=True),
    ]
    page = page_of(tmp_path / "run.jsonl", run_logs.lines(3, bad=bad))

    assert report_pages.rows(page, "List of 3 bad samples") == {
        "1": ["a.jpg", "decode", "truncated", "epoch 0, step 3", "2"],
        "2": ["b.jpg", "decode", "truncated", "epoch 0, step 3", "1"],
        "3": ["c.jpg", "header", "no header", "epoch 0, step 3, kept", "1"],
    }
    assert report_pages.numbers(page, "Reasons") == {"decode": [2], "header": [1]}
    assert "Without pictures: nobody asked." in report_pages.text_of(page)


def test_a_killed_run(tmp_path: Path) -> None:
    """The page tells what is known, and that the end is missing."""
    path = run_logs.write(tmp_path / "run.jsonl", list(run_logs.lines(5))[:-1])
    path.write_bytes(path.read_bytes()[:-40])
    page = report_pages.parse(run_page(read_log(path), None, "no"))

    text = report_pages.text_of(report_pages.section(page, "overview"))
    assert "the log has no end: the run was stopped at 4 s" in text
    assert "its last line is torn" in text
    assert report_pages.tiles(page, "overview")["samples"] == 40 * run_logs.PER_STEP
    assert not [one for one in page.iter("section") if one.get("id") == "coverage"]


def test_a_log_without_numbers(tmp_path: Path) -> None:
    """A run that ended within its first second has a page, too, and so has one that is cut down to its start."""
    for told in ([run_logs.start()], [{"kind": "run"}], [run_logs.start(), {"kind": "stats"}]):
        page = page_of(tmp_path / "run.jsonl", told)
        text = report_pages.text_of(page)
        assert "The log has no numbers yet." in text
        assert "Not looked at: nobody asked." in text


def test_stats_of_another_version(tmp_path: Path) -> None:
    """What a line lacks is left out or 0; nothing of it is a traceback."""
    told = [run_logs.start(), {"kind": "stats", "at": 2, "samples": 8, "stages": {"read": 3}}]
    page = page_of(tmp_path / "run.jsonl", told)

    assert report_pages.tiles(page, "overview")["samples"] == 8
    assert "The loop never waited" in report_pages.text_of(page)
    assert "The log does not tell them." in report_pages.text_of(
        report_pages.section(page, "stages")
    )


def test_a_long_log_makes_no_long_page(tmp_path: Path) -> None:
    """A day of lines is as long as 10 minutes of them, within a fifth."""
    sizes = []
    for length in (600, 5000):
        told = [run_logs.start()]
        told += [
            {"kind": "stats", "at": second, "samples": 100 * second, "epoch": second // 3}
            for second in range(1, length)
        ]
        sizes.append(len(run_page(read_log(run_logs.write(tmp_path / "log", told)), None, "no")))

    assert sizes[1] < 1.2 * sizes[0] < 200_000


@pytest.mark.parametrize(
    "value",
    [None, True, -1, 1e308, 10**400, float("nan"), float("inf"), "\ud800<b>", [1], {"a": {}}],
    ids=["none", "true", "negative", "large", "larger", "nan", "inf", "text", "list", "object"],
)
def test_any_value_anywhere(tmp_path: Path, value: Any) -> None:
    """A log whose numbers and texts are all replaced by something else still has a page, which loads nothing."""
    told = list(run_logs.lines(3, bad=[run_logs.bad_record("a.jpg", 1)]))
    kept = ("kind", "at", "samples")
    page = page_of(tmp_path / "run.jsonl", [replaced(line, value, kept) for line in told])

    assert report_pages.loads(page) == []
    assert report_pages.tiles(page, "overview")["samples"] == 30 * run_logs.PER_STEP


def replaced(line: dict[str, Any], value: Any, kept: tuple[str, ...]) -> dict[str, Any]:
    """A line with another value in the place of each, but for some."""
    return {
        name: one
        if name in kept
        else replaced(one, value, ())
        if isinstance(one, dict) and one
        else value
        for name, one in line.items()
    }
