"""Comparisons: contestants in processes of their own, those that fail, and what is told of the others."""

import io
import json
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

from bench.compare import compare as comparing
from bench.compare import process
from bench.compare.compare import Settings, compare
from bench.compare.contestants import Contestant
from bench.compare.report import show_comparison
from bench.compare.result import Comparison, Row, ratios, verdicts
from bench.compare.task import Pipeline, Task
from bench.compare.threads import threaded_batches
from bench.timing import Measurement, Turn
from gpu_aug import Recipe
from tests.support.commands import Run

Jpeg = Callable[..., bytes]

SETTINGS = Settings(seconds=0.1, rounds=2, batch_size=2, device="cpu", num_threads=2)


# Contestants that fail. They are started in processes of their own, which import this module.


def start(task: Task, *, crash: str = "", batches: int = 10**9) -> Pipeline:
    """Make black images, and then do something else."""

    def images() -> Any:
        print("this is not an answer")  # noqa: T201 - libraries print
        for _ in range(batches):
            time.sleep(0.002)
            yield torch.zeros(task.shape, dtype=task.dtype)
        if crash == "raise":
            raise KeyError("boom")
        if crash == "die":
            os._exit(7)
        time.sleep(600)

    if crash == "dtype":
        task = replace(task, dtype=torch.float16)
    if crash == "import":
        raise ImportError("needs nothing: pip install nothing")
    return Pipeline(images(), "black images", num_ahead=3, num_discard=1)


def fake(name: str, kind: Any = "baseline", **options: object) -> Contestant:
    """A contestant that this module starts."""
    return Contestant(name, kind, f"{__name__}:start", options)


FAILING = {
    "raises": ({"crash": "raise", "batches": 2}, "KeyError: 'boom'"),
    "raises at once": ({"crash": "raise", "batches": 0}, "KeyError: 'boom'"),
    "dies": ({"crash": "die", "batches": 2}, "its process ended with 7"),
    "hangs": ({"batches": 2}, "no answer within 3 s"),
    "dtype": (
        {"crash": "dtype"},
        "made torch.float16 [2, 3, 224, 224], not torch.bfloat16 [2, 3, 224, 224]",
    ),
    "import": ({"crash": "import"}, "ImportError: needs nothing: pip install nothing"),
}


@pytest.mark.parametrize(
    "names", [["raises", "dies"], pytest.param(list(FAILING), marks=pytest.mark.long)]
)
def test_comparison_goes_on_without_those_that_fail(
    tmp_path: Path, jpeg: Jpeg, monkeypatch: pytest.MonkeyPatch, names: list[str]
) -> None:
    """A crash, a death or a hang, at the start or in a turn, leaves a reason, and the others' rows."""
    (tmp_path / "photo.jpg").write_bytes(jpeg(40, 50))
    failing = [fake(name, **FAILING[name][0]) for name in names]
    monkeypatch.setattr(comparing, "IMAGES", (fake("sound", "engine"), *failing))
    monkeypatch.setattr(process, "_TURN_SECONDS_MORE", 3.0)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))

    comparison = compare(str(tmp_path), Recipe.imagenet_train(), SETTINGS, lambda _: None)

    [row] = comparison.rows
    assert (row.name, row.note, len(row.measured.turns)) == ("sound", "black images", 2)
    # A batch takes 2 ms and more, of which next to nothing is work.
    assert 0 < row.measured.median < 2 / 0.002
    reasons = {name: FAILING[name][1] for name in names}
    assert {absent.name: absent.reason for absent in comparison.absent} == reasons
    assert not _children()


def _children() -> list[str]:
    """Processes of contestants that still run."""
    commands = (path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline"))
    return [command.decode() for command in commands if __name__.encode() in command]


@pytest.mark.long
def test_compare_command_writes_what_it_measured(
    run: Run, photos: list[Path], tmp_path: Path
) -> None:
    """The command compares an engine and a baseline, and its JSON has their rows."""
    listing = tmp_path / "photos.txt"
    listing.write_text("\n".join(str(path) for path in photos))
    names = {"gpu-aug/cpu+kornia": "engine", "torchvision-pil": "baseline"}
    options = ["--seconds=0.2", "--rounds=2", "--batch-size=4", "--device=cpu", "--threads=2"]
    options += [f"--only={name}" for name in names] + [f"--json={tmp_path / 'result.json'}"]

    code, printed, error = run("bench", "compare", listing, *options)

    assert code == 0, error
    result = json.loads((tmp_path / "result.json").read_text())
    assert {row["name"]: row["kind"] for row in result["rows"]} == names
    assert {"versions", "machine", "commit", "settings"} <= set(result)
    for measured in result["rows"]:
        assert len(measured["images_per_second"]["runs"]) == 2
        assert measured["cpu_ms_per_item"] > 0.1
        assert 0 <= measured["wait_share"] <= 1
        assert measured["name"] in printed


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("--peers", "petastorm"), "got petastorm: correct the name"),
        (("--rounds", 0), "rounds must be greater than 0, got 0"),
        (("--dtype", "float64"), "dtype must be bfloat16 or float32"),
    ],
)
def test_what_cannot_work_is_refused(
    run: Run, photos: list[Path], given: tuple[object, ...], words: str
) -> None:
    """Before anything is started."""
    code, _, error = run("bench", "compare", photos[0].parent, *given)

    assert (code, words in error) == (2, True)


def test_peers_are_installed_after_it_was_said(
    run: Run, photos: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which, where and how large; who cannot be installed is absent with the reason."""
    monkeypatch.chdir(tmp_path)
    asked: list[str] = []
    monkeypatch.setattr(
        "bench.compare.report.install_peers", lambda names, _progress: asked.extend(names)
    )
    monkeypatch.setattr("bench.compare.report.compare", lambda *_: Comparison())
    monkeypatch.setattr("bench.compare.report.show_comparison", lambda *_: None)

    code, printed, _ = run("bench", "compare", photos[0].parent, "--peers", "spdl")

    assert (code, asked) == (0, ["spdl"])
    assert printed.startswith(f"installing into {tmp_path / '.peers'}: spdl (about ")


# What is told.


def row(name: str, kind: Any, *runs: float) -> Row:
    """A row with some runs."""
    return Row(name, kind, Measurement(tuple(Turn(int(run), 1.0, 0.5, 0.25) for run in runs)))


def shown(rows: list[Row], width: int, **settings: object) -> str:
    """What is printed of a comparison."""
    stream = io.StringIO()
    common = {"batch": "b", "device": "cpu", "threads": 2, "data": "d", "left_out": []}
    comparison = Comparison(rows, settings={"images": 3, **common, **settings})
    show_comparison(comparison, Console(file=stream, width=width))
    return stream.getvalue()


UNSTEADY = [  # ours has rounds of 0.5, 3 and 3 times the baseline's; the medians over rounds are 500 and 200
    row("decode-only", "ceiling", 1000, 100, 300),
    row("dali-cpu", "baseline", 1000, 50, 200),
    row("gpu-aug/cpu+fused", "engine", 500, 150, 600),
]
VERDICTS = {
    "losses are told like wins": (
        [
            row("gpu-aug/cpu+albumentations", "engine", 110, 110, 110),
            row("opencv-albumentations", "baseline", 55, 55, 55),
            row("dali-cpu", "baseline", 220, 220, 220),
            row("decode-only", "ceiling", 440, 440, 440),
        ],
        "gpu-aug/cpu+albumentations loses against the fastest baseline, dali-cpu (0.50 times its "
        "speed), reaches 25% of decode-only.",
    ),
    "rounds decide, where medians over rounds would not": (
        UNSTEADY,
        "gpu-aug/cpu+fused wins against the fastest baseline, dali-cpu (3.00 times its speed), "
        "reaches 150% of decode-only.",
    ),
    "who is slower in most rounds loses": (
        [
            row("dali-cpu", "baseline", 100, 90, 25),
            row("gpu-aug/cpu+fused", "engine", 95, 81, 100),
        ],
        "gpu-aug/cpu+fused loses against the fastest baseline, dali-cpu (0.95 times its speed).",
    ),
}


@pytest.mark.parametrize("case", VERDICTS)
def test_verdicts(case: str) -> None:
    """One sentence for each of ours."""
    rows, sentence = VERDICTS[case]

    assert verdicts(rows) == [sentence]


def test_every_ratio_is_taken_within_rounds() -> None:
    """The column, the matrix, the sentences and the JSON say the same where medians over rounds would not."""
    printed = shown(UNSTEADY, 120)

    lines = [line.split() for line in printed.splitlines()]
    assert ["gpu-aug/cpu+fused", "500", "150-600", "3.00", "1.20", "25%"] in lines
    assert ["dali-cpu", "200", "50-1000", "1.00", "1.20", "25%"] in lines
    assert ["dali-cpu", "3.00"] in lines  # the matrix
    assert VERDICTS["rounds decide, where medians over rounds would not"][1] in printed
    assert ratios(UNSTEADY)["gpu-aug/cpu+fused"]["dali-cpu"] == {
        "median": 3.0,
        "runs": [0.5, 3.0, 3.0],
    }


def test_table_counts_clips() -> None:
    """The table says clips/s and frames/s where the data are videos."""
    rows = [replace(row("x", "baseline", 2, 3), num_frames=16)]

    printed = shown(rows, 120, videos=3)

    assert all(word in printed for word in ("clips/s", "frames/s", "3 videos of d", " 40 "))


def test_table_fits_a_narrow_terminal() -> None:
    """On 80 columns every name and median can still be read."""
    rows = [row("gpu-aug/dali+albumentations", "engine", 1234), row("dali-cpu", "baseline", 1000)]

    lines = shown(rows, 80).splitlines()

    line = next(line for line in lines if "dali+albumentations" in line)
    assert line.split()[:3] == ["gpu-aug/dali+albumentations", "1234", "1.23"]


def test_threads_work_ahead_in_order() -> None:
    """Batches come in the order of their positions, while later ones are under way."""
    begun: list[int] = []
    batches = threaded_batches(lambda position: begun.append(position) or position, 3, 2)

    assert [next(batches), next(batches)] == [[0, 1, 2], [3, 4, 5]]
    assert len(begun) > 6
    batches.close()  # type: ignore[attr-defined] # it is a generator
