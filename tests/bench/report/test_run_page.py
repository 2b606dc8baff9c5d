"""The page about a run says what its log says."""

from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

import pytest

from bench.report.log import read_log
from bench.report.numbers import share
from bench.report.write import run_page
from tests.support import report_pages, run_logs


def page_of(path: Path, told: Any, why: str = "nobody asked") -> Element:
    """The page about a log without its data."""
    return report_pages.parse(run_page(read_log(run_logs.write(path, told)), None, why))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Element:
    """The page about 25 seconds."""
    return page_of(tmp_path_factory.mktemp("whole") / "run.jsonl", run_logs.lines(25))


def test_the_overview(whole: Element) -> None:
    """The tiles show the numbers of the last line."""
    last = run_logs.stats_at(250, epoch=2)

    assert report_pages.tiles(whole, "overview") == {
        "speed": "160 /s",
        "the loop waited": share(last.wait_share, 1),
        "limit": "decode",
        "samples": "4,000",
        "time": "25 s",
        "bad samples": "0",
    }
    assert "5 progressive JPEG" in report_pages.text_of(report_pages.section(whole, "overview"))


def test_the_stages(whole: Element) -> None:
    """Every stage that worked has a row with its numbers: share, busy time, three percentiles."""
    last = run_logs.stats_at(250)
    busy = sum(stage.busy_seconds for stage in last.stages.values())
    found = report_pages.rows(whole, "Work of the threads")

    assert set(found) == {name.replace("_", "-") for name in last.stages}
    for name, stage in last.stages.items():
        assert found[name.replace("_", "-")][0] == share(stage.busy_seconds, busy)
    assert found["decode"][2:] == ["50.0 %", "250", "4,000", "250 kB", "1 ms", "12.5 ms", "250 ms"]
    text = report_pages.text_of(report_pages.section(whole, "stages"))
    assert "2 threads worked 9 s in all, 18 % of the time of the run" in text
    assert "they had a core for 50.0 % of their work" in text
    assert report_pages.rows(whole, "Waiting within") == {"decode": ["a thread", "250", "500 ms"]}


def test_charts(whole: Element) -> None:
    """Speed and waiting are drawn; epochs but the first are marked, stages named with their totals."""
    found = report_pages.charts(whole)

    assert len(found) == 2
    words = {title: report_pages.text_of(chart) for title, chart in found.items()}
    assert "epoch 1" in words["Speed"]
    assert "epoch 0" not in words["Speed"]
    waiting = words["Waiting of the loop, by the stages that worked meanwhile"]
    assert "decode: 4.17 s, 83.3 %" in waiting
    assert "idle threads: 833 ms, 16.7 %" in waiting


def test_a_rate_that_changes_is_seen(tmp_path: Path) -> None:
    """Half the samples in the last second make another drawing of the speed; the same log makes the same one."""
    told = list(run_logs.lines(25))
    slower = [dict(line) for line in told]
    slower[25]["samples"] -= 80
    drawn = [
        next(page_of(tmp_path / "run.jsonl", one).iter("img")).attrib["src"]
        for one in (told, told, slower)
    ]

    assert drawn[0] == drawn[1] != drawn[2]


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


def test_coverage(whole: Element) -> None:
    """The page says how many samples came, came again, and never came."""
    assert report_pages.rows(whole, "Different samples of the data in epoch 0") == {
        "came": ["30", "75.0 %"],
        "handed over once more": ["4", "10.0 %"],
        "never came": ["10", "25.0 %"],
    }


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
    assert report_pages.rows(page, "Reasons") == {
        "decode": ["2", "66.7 %", "truncated"],
        "header": ["1", "33.3 %", "no header"],
    }
    assert "Without pictures: nobody asked." in report_pages.text_of(page)


def test_a_killed_run(tmp_path: Path) -> None:
    """The page tells what is known, and that the end is missing."""
    path = run_logs.write(tmp_path / "run.jsonl", list(run_logs.lines(5))[:-1])
    path.write_bytes(path.read_bytes()[:-40])
    page = report_pages.parse(run_page(read_log(path), None, "no"))

    text = report_pages.text_of(report_pages.section(page, "overview"))
    assert "the log has no end: the run was stopped at 4 s" in text
    assert "its last line is torn" in text
    assert report_pages.tiles(page, "overview")["samples"] == "640"
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

    assert report_pages.tiles(page, "overview")["samples"] == "8"
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


LONG = pytest.mark.long
VALUES = {
    "none": None,
    "negative": -1,
    "nan": float("nan"),
    "text": "\ud800<b>",
    "object": {"a": {}},
}
LIKE_THEM = {"true": True, "large": 1e308, "larger": 10**400, "inf": float("inf"), "list": [1]}


@pytest.mark.parametrize(
    "value",
    [pytest.param(one, id=name) for name, one in VALUES.items()]
    + [pytest.param(one, id=name, marks=LONG) for name, one in LIKE_THEM.items()],
)
def test_any_value_anywhere(tmp_path: Path, value: Any) -> None:
    """A log whose numbers and texts are all replaced by something else still has a page, which loads nothing."""
    told = list(run_logs.lines(3, bad=[run_logs.bad_record("a.jpg", 1)]))
    kept = ("kind", "at", "samples")
    page = page_of(tmp_path / "run.jsonl", [replaced(line, value, kept) for line in told])

    assert report_pages.loads(page) == []
    assert report_pages.tiles(page, "overview")["samples"] == "480"


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
