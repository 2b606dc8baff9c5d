"""`gpu-aug report`: its arguments, what it takes from a log, and how it fails."""

import json
from pathlib import Path
from typing import Any

import pytest

from bench.report.numbers import plain, seconds
from tests.support import report_pages, run_logs
from tests.support.commands import Run


@pytest.fixture
def work(data: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder around the data, with a log about it, as the working directory."""
    monkeypatch.chdir(data.parent)
    bad = [
        run_logs.bad_record("cats/2.jpg", 2),
        run_logs.bad_record("another.jpg", 3),
        run_logs.bad_record("gone.jpg", 99),
    ]
    run_logs.write(Path("run.jsonl"), run_logs.lines(3, data="data", bad=bad))
    return data.parent


def page(path: str) -> Any:
    """A page, parsed."""
    found = report_pages.parse(Path(path).read_text(encoding="utf-8"))
    assert report_pages.loads(found) == []
    return found


def test_data(run: Run, work: Path) -> None:
    """A page about data, at the usual place; bad samples are no failure."""
    (work / "data" / "cats" / "1.jpg").write_bytes(b"no image")
    code, printed, _ = run("report", "data")

    assert (code, printed) == (0, "written: report.html\n")
    assert report_pages.tiles(page("report.html"), "data")["bad samples"] == "1"


def test_options_of_the_source(run: Run, work: Path) -> None:
    """--format, --option and --split are those of the other commands, --verify decodes."""
    rows = ["image,label,part", "data/cats/0.jpg,a,x", "data/cats/1.jpg,a,y", "data/dogs/1.jpg,b,y"]
    (work / "table.csv").write_text("\n".join(rows))
    arguments = ["--split", "y", "--option", "split_column=part", "--verify", "--workers", "1"]
    code, _, error = run("report", "table.csv", *arguments, "-o", "out.html")

    assert (code, error) == (0, "")
    assert report_pages.tiles(page("out.html"), "data")["samples"] == "2"
    assert "--verify" not in report_pages.text_of(page("out.html"))


@pytest.mark.usefixtures("work")
def test_a_log_and_its_data(run: Run) -> None:
    """The data that a log names is looked at; bad samples have pictures where they are still the same."""
    code, _, _ = run("report", "run.jsonl")
    found = page("report.html")

    assert code == 0
    assert report_pages.tiles(found, "data")["samples"] == "10"
    assert report_pages.tiles(found, "overview")["samples"] == "480"
    [picture] = report_pages.section(found, "bad").iter("img")
    assert "cats/2.jpg" in picture.attrib["alt"]
    assert "the data has 10 samples now, and had 40 in the run" in report_pages.text_of(found)
    assert "1 picture of the first 3" in report_pages.text_of(report_pages.section(found, "bad"))


def test_the_log_of_a_real_run(run: Run, work: Path) -> None:
    """What `gpu-aug run --log` wrote is read: its samples, epochs, coverage and bad samples are those of the run."""
    path = work / "data" / "dogs" / "3.jpg"
    path.write_bytes(path.read_bytes()[:300])
    arguments = ["--batch-size=5", "--epochs=2", "--on-bad-sample=replace", "--step-ms=1"]
    code, _, error = run("run", "data", *arguments, "--log", "real.jsonl")
    assert code == 0, error
    lines = [json.loads(line) for line in (work / "real.jsonl").read_text().splitlines()]
    last = [line for line in lines if line["kind"] == "stats"][-1]
    assert run("report", "real.jsonl")[0] == 0
    found = page("report.html")

    tiles = report_pages.tiles(found, "overview")
    assert (tiles["samples"], tiles["speed"]) == ("20", f"{plain(last['images_per_second'])} /s")
    assert set(report_pages.rows(found, "Each epoch")) == {"0", "1"}
    came = report_pages.rows(found, "Different samples")["came"][0]
    assert came == str(lines[-1]["coverage"]["samples"])
    busy = {name: stage["busy_seconds"] for name, stage in last["stages"].items()}
    stages = report_pages.rows(found, "Work of the threads")
    assert {name: cells[1] for name, cells in stages.items()} == {
        name.replace("_", "-"): seconds(spent) for name, spent in busy.items() if spent
    }
    section = report_pages.section(found, "bad")
    [bad] = report_pages.rows(section, "List of 1 bad sample").values()
    assert (bad[0], bad[-1]) == ("dogs/3.jpg", "2")
    text = report_pages.text_of(found)
    for words in ("A training step was played: 1 ms", "batch_size 5", "torch sees no CUDA device"):
        assert words in text


@pytest.mark.parametrize(
    ("source", "arguments", "why"),
    [
        ("data", ["--log-only"], "--log-only was asked for"),
        ("moved", [], "moved does not exist"),
        pytest.param(
            "s3://bucket/photos", [], "s3://bucket/photos is no file", marks=pytest.mark.long
        ),
        ("pipe:rm -rf .", ["--allow-pipe"], "pipe:rm -rf . is no file of this machine"),
        (None, [], "the log does not name it"),
    ],
)
def test_a_log_without_its_data(
    run: Run, work: Path, source: str | None, arguments: list[str], why: str
) -> None:
    """The page tells of the run, and why not of the data."""
    told = list(run_logs.lines(3))
    told[0]["data"] = source
    run_logs.write(work / "run.jsonl", told)
    code, _, printed = run("report", "run.jsonl", *arguments)

    assert (code, printed) == (0, "")
    text = report_pages.text_of(page("report.html"))
    assert f"Not looked at: {why}" in text
    assert "samples 480" in text


def test_how_a_log_opened_its_data(run: Run, work: Path) -> None:
    """Options of the source stand in the log, and those of the command come before them."""
    told = list(run_logs.lines(3, data="data"))
    told[0]["settings"]["source_options"] = {"classes": "['dogs', 'cats']", "format": "folder"}
    run_logs.write(work / "run.jsonl", told)

    assert run("report", "run.jsonl")[0] == 0
    assert set(report_pages.rows(page("report.html"), "All classes")) == {"0 dogs", "1 cats"}
    assert run("report", "run.jsonl", "--option", "classes=['cats', 'dogs']")[0] == 0
    assert set(report_pages.rows(page("report.html"), "All classes")) == {"0 cats", "1 dogs"}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["missing"], "missing does not exist"),
        (["empty"], "images"),
        (["data", "-o", "page.txt"], "a page's name must end in .html, .htm, got page.txt"),
        (["data", "-o", "data"], "cannot be written to data"),
        (["data", "-o", "empty.html"], "empty.html"),
        (["data", "--log-only"], "--log-only is for the log of a run, and data is none"),
        (["data", "--format", "flder"], "flder"),
        (["data", "--split", "train"], "split"),
        (["data", "--option", "color"], "--option must be NAME=VALUE, got 'color'"),
        (["data", "--option", "color=3"], "color"),
        (["data", "--workers", "0"], "0"),
        (["pipe:cat x.tar"], "add --allow-pipe"),
        (["torn.jsonl"], "torn.jsonl is no whole log of a run"),
    ],
)
def test_bad_arguments_are_one_sentence(
    run: Run, work: Path, arguments: list[str], expected: str
) -> None:
    """Exit code 2, one line on standard error, and no page."""
    for name in ("empty", "empty.html"):
        (work / name).mkdir()
    (work / "torn.jsonl").write_text('{"kind": "run", "da')
    code, printed, error = run("report", *arguments)

    assert (code, printed) == (2, "")
    [sentence] = error.splitlines()
    assert sentence.startswith("error: ")
    assert expected in sentence
    assert not [path for path in work.glob("*.html") if path.is_file()]


@pytest.mark.usefixtures("work")
def test_without_matplotlib(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """One sentence that says what to install, before anything is read."""
    monkeypatch.setattr("bench.report.write.find_spec", lambda _: None)

    code, _, error = run("report", "data")
    assert code == 2
    assert "pip install 'gpu-aug[plots]'" in error
