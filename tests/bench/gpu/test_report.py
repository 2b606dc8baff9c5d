"""The report of visits to a GPU: verdicts, what is missing, and what is refused."""

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from bench.gpu.aims import AIMS
from bench.gpu.report import BEGIN, END, app, devices, section
from bench.gpu.rows import Row
from bench.output import errors

H100 = "NVIDIA H100 80GB HBM3"
Visit = dict[str, Any]
Step = dict[str, Any]


def speed(name: str, value: float, **facts: Any) -> Row:
    """A measurement with three runs."""
    runs = [round(value * share, 3) for share in (0.98, 1, 1.02)]
    return Row(name, value, "images/s", "measured", {"runs": runs, **facts})


def step(name: str, rows: list[Row], end: str = "done") -> Step:
    """A step's part of a result.json."""
    found = [asdict(row) for row in rows]
    return {"name": name, "end": end, "seconds": 12.3, "headline": "", "rows": found}


def visit(gpu: str | None = H100, *, rehearse: bool = False) -> Visit:
    """A result.json with plausible figures."""
    kernel = {"share of a copy, kernels alone": 0.625}
    rows = {
        "kinds": [Row("PNG", 0.0, "", "right", {"allowed": 0, "control": 211}), Row("CMYK", 3.0, "", "right", {"allowed": 4, "control": 99})],
        "races": [Row("dali", 0, "", "right", {"allowed": 0, "control": 20})],
        "tests": [Row("pytest", 0, "tests passed", "open", {})],
        "kernel": [speed("fused, batch stage, bfloat16, channels last", 1800, **kernel)],
        "compare": [
            speed("no loader", 2613),
            speed("dali-gpu, alone", 17205),
            speed("gpu-aug/dali+fused, alone", 19120),
            speed("gpu-aug/dali+kornia, alone", 9120),
            speed("gpu-aug/dali+fused, lost to waiting", 0.7),
        ],
        "asking": [speed("gpu-aug/dali+fused, lost to waiting", 0.8)],
        "cuda-jpeg": [
            speed("500x375, whole: device alone", 130_000),
            speed("500x375, whole: host and device, 1 threads", 30_000),
            speed("500x375, whole: host and device, 8 threads", 90_000),
            speed("500x375, whole: DALI", 15_000),
        ],
        "cuda-loaders": [
            speed("cuda, crops of 224, batches of 256", 40_000),
            speed("dali, crops of 224, batches of 256", 14_000),
        ],
    }  # fmt: skip
    return {
        "command": "gpu",
        "time": "2026-11-22T10:00:00+00:00",
        "commit": "0123456789abcdef",
        "versions": {"python": "3.12.4", "torch": "2.11.0"},
        "machine": {"cpu": "Xeon", "cores": 16, "gpu": gpu},
        "settings": {"rehearse": rehearse},
        "steps": [step(name, found) for name, found in rows.items()],
    }


def row_of(content: Visit, name: str) -> dict[str, Any]:
    """A row by the beginning of its name, to be changed."""
    rows = (row for one in content["steps"] for row in one["rows"])
    return next(row for row in rows if row["name"].startswith(name))  # type: ignore[no-any-return]


def cells(start: str, *contents: Visit) -> list[str]:
    """The cells of the only row of the document that begins so."""
    [device] = devices(contents)
    rows = [line.strip("| ").split(" | ") for line in section(device) if line.startswith(f"| {start}")]  # fmt: skip
    assert len(rows) == 1, start
    return rows[0]


def at(name: str, key: str = "runs") -> Callable[[Visit, float], None]:
    """What sets a row's runs, or a fact, to a value."""

    def change(content: Visit, value: float) -> None:
        row_of(content, name)["facts"][key] = [value] if key == "runs" else value

    return change


def ratio(ours: str, theirs: str) -> Callable[[Visit, float], None]:
    """What sets a row's runs to so many times another's."""

    def change(content: Visit, value: float) -> None:
        runs = row_of(content, theirs)["facts"]["runs"]
        row_of(content, ours)["facts"]["runs"] = [run * value for run in runs]

    return change


@pytest.mark.parametrize(
    ("start", "change", "met", "missed"),
    [
        ("Fused kernels, batch stage", at("fused, batch stage", "share of a copy, kernels alone"), 0.6, 0.599),
        ("DALI with the fused engine", ratio("gpu-aug/dali+fused, alone", "dali-gpu"), 1.0, 0.99),
        ("The fused engine, times Kornia", ratio("gpu-aug/dali+fused, alone", "gpu-aug/dali+kornia"), 1.0, 0.99),
        ("ResNet-50", at("gpu-aug/dali+fused, lost"), 0.99, 1.0),
        ("Our JPEG decoder, 500x375", at("500x375, whole: device alone"), 100_000, 99_999),
        ("The same, host and device", ratio("500x375, whole: host and device, 8", "500x375, whole: DALI"), 5, 4.99),
        ("Loaders with it", ratio("cuda, crops of 224", "dali, crops of 224"), 2, 1.99),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_verdict_at_the_boundary(
    start: str, change: Callable[[Visit, float], None], met: float, missed: float
) -> None:
    """The first value that meets an aim is met, and the last one before it is missed."""
    good, bad = visit(), visit()
    change(good, met)
    change(bad, missed)

    assert cells(start, good)[4] == "**met**"
    assert cells(start, bad)[4] == "**missed**"


def test_every_aim_of_a_good_visit_has_its_number() -> None:
    """Each aim has a verdict, by the ratios of single rounds; a run below says so."""
    content = visit()
    verdicts = [cells(aim.name, content)[4] for aim in AIMS]
    row_of(content, "gpu-aug/dali+fused, alone")["facts"]["runs"][0] = 16000.0

    assert verdicts == ["**met**"] * len(AIMS)
    assert cells("The fused engine", content)[2:4] == ["2.1", "1.79 to 2.1"]
    assert cells("DALI with", content)[4] == "**met, but not in every run**"


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        (lambda _: None, "holds"),
        (lambda step: step["rows"][1].update(verdict="wrong"), "**does not hold**"),
        (lambda step: step["rows"].clear(), "**not shown**: nothing was compared"),
        (lambda step: step.update(end="SIGSEGV"), "**not shown**: SIGSEGV"),
        (lambda step: step.update(end="no time was left"), "not known: it was not run"),
    ],
    ids=["right", "wrong", "nothing", "crash", "no time"],
)
def test_a_promise_needs_evidence(change: Callable[[Step], None], verdict: str) -> None:
    """One wrong row breaks a promise; without a row that is right, or without an end, it is not shown."""
    content = visit()
    change(content["steps"][0])

    found = cells("Images of every kind", content)

    assert found[2] == verdict
    if verdict == "holds":
        assert found[3:] == ["2 right", "3 of 4, a wrong result 99 (CMYK)", "-"]
    assert (
        cells("The tests that need CUDA pass", content)[2] == "**not shown**: nothing was compared"
    )


def test_newest_run_of_a_step_counts() -> None:
    """A failed run that is newer counts, too, but not one that never began; of a run alone, of its own device."""
    old, new = visit(), visit()
    new["time"] = "2026-11-23T10:00:00+00:00"
    new["steps"] = [step("kinds", [], "SIGSEGV"), step("races", [], "no time was left")]

    assert cells("Images of every kind", old, new)[2] == "**not shown**: SIGSEGV"
    assert cells("Losses do not depend", old, new)[2] == "holds"
    assert [device.name for device in devices([old, visit(None), visit("NVIDIA H200")])] == [H100, "NVIDIA H200", ""]  # fmt: skip


def written(contents: list[Visit], folder: Path, *flags: str) -> int:
    """Call the command; returns its exit status."""
    paths = [folder / f"gpu-{number}.json" for number in range(len(contents))]
    for path, content in zip(paths, contents, strict=True):
        path.write_text(json.dumps(content))
    with pytest.raises(SystemExit) as end:
        errors.call(app, [*map(str, paths), "--out", str(folder / "gpu.md"), *flags])
    return int(end.value.code or 0)


@pytest.mark.parametrize("content", [visit(rehearse=True), visit(None)], ids=["rehearsal", "no GPU"])  # fmt: skip
def test_a_cpus_numbers_are_refused(
    content: Visit, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They make no document, even beside a real visit; where they are asked for, nothing is called met."""
    assert written([visit(), content], tmp_path) == 2
    assert "gpu-1.json was measured on a CPU" in capsys.readouterr().err.replace("\n", "")
    assert not (tmp_path / "gpu.md").exists()

    assert written([content], tmp_path, "--rehearsal") == 0
    text = (tmp_path / "gpu.md").read_text()
    assert "no number below says anything about a GPU" in text
    assert "**met" not in text
    assert "| holds |" not in text


def test_results_stand_between_the_lines_of_a_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only what stands there is replaced, also a second time; a page without such lines is left as it is."""
    page = tmp_path / "gpu.md"
    page.write_text(f"# Title\n\n{BEGIN}\nnothing yet\n{END}\n\nThe end.\n")
    assert written([visit()], tmp_path) == 0
    once = page.read_text()
    assert written([visit()], tmp_path) == 0

    assert page.read_text() == once
    assert once.startswith(f"# Title\n\n{BEGIN}\n\n## {H100}\n")
    assert once.endswith(f"\n{END}\n\nThe end.\n")
    assert "nothing yet" not in once

    page.write_text("# Title\n")
    assert written([visit()], tmp_path) == 2
    assert "must have lines" in capsys.readouterr().err
    assert page.read_text() == "# Title\n"


def test_another_file_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A JSON of another command is no visit."""
    assert written([{"command": "bench batch", "time": "", "rows": []}], tmp_path) == 2
    assert "machine, settings, steps" in capsys.readouterr().err
