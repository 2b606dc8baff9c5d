"""The report of a visit to a GPU: losses, aims, and what is refused."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from bench.gpu.loaders import CASES
from bench.gpu.report import AIMS, BEGIN, END, Aim, app
from bench.gpu.rows import Row
from bench.output import errors

Visit = dict[str, Any]


def step(name: str, rows: list[Row], end: str = "done") -> dict[str, Any]:
    """A step's part of a result."""
    return {"name": name, "end": end, "seconds": 12.3, "rows": [asdict(row) for row in rows]}


def visit(*steps: dict[str, Any], gpu: str | None = "NVIDIA H100", rehearse: bool = False) -> Visit:
    """A result of `make gpu`."""
    return {
        "command": "gpu",
        "time": "2026-12-01T10:00:00+00:00",
        "commit": "0123456789abcdef",
        "versions": {"torch": "2.11.0"},
        "machine": {"cores": 16, "gpu": gpu},
        "settings": {"rehearse": rehearse},
        "steps": list(steps),
    }


def written(contents: list[Any], folder: Path) -> int:
    """Call the command; returns its exit status."""
    paths = [folder / f"result-{number}.json" for number in range(len(contents))]
    for path, content in zip(paths, contents, strict=True):
        path.write_text(json.dumps(content))
    with pytest.raises(SystemExit) as end:
        errors.call(app, [*map(str, paths), "--out", str(folder / "gpu.md")])
    return int(end.value.code or 0)


@pytest.fixture
def page(tmp_path: Path) -> Path:
    """A page with the lines between which tables stand."""
    path = tmp_path / "gpu.md"
    path.write_text(f"# Title\n\n{BEGIN}\nnothing yet\n{END}\n\nThe end.\n")
    return path


def test_losses_come_first(page: Path) -> None:
    """What is wrong, failed or was not run stands before aims and tables; tests are counted."""
    rows = [Row("one", 2.0, "", "wrong", {"error": "differs by 2"}), Row("two", 0, "", "right")]
    many = [Row(f"test_{number}", 1, "", "right") for number in range(9)]
    parts = [
        visit(step("damage", rows), step("memory", [], "not run: it takes 60 s, 3 s were left")),
        visit(step("tests", many)),
    ]

    assert written(parts, page.parent) == 0

    text = page.read_text()
    losses = text[text.index("### Losses") : text.index("### Aims")]
    assert "| `damage` | one | wrong: differs by 2 |" in losses
    assert "| `memory` | not run: it takes 60 s, 3 s were left | - |" in losses
    assert "two" not in losses
    assert "9 right, 0 wrong" in text
    assert "test_3" not in text


@pytest.mark.parametrize(
    ("bound", "met", "missed"), [("at least", 0.9, 0.89), ("below", 0.89, 0.9)]
)
def test_an_aim_at_its_boundary(bound: str, met: float, missed: float) -> None:
    """The first value that meets an aim is met, and the last one before it is missed; a ratio needs both rows."""
    aim = Aim("share", "a: ours", bound, 0.9, "b: theirs")
    values = {"b: theirs": 100.0}

    assert aim.reached(values) is None
    assert aim.reached({"a: ours": 3.0}) is None
    for value, is_met in ((met, True), (missed, False)):
        reached = aim.reached({**values, "a: ours": 100 * value})
        assert reached is not None
        assert aim.is_met(reached) == is_met


def test_aims_name_rows_that_a_visit_writes() -> None:
    """Their rows of loaders are those of cases."""
    titles = {f"loaders: {case.title}" for case in CASES["a"]}
    titles |= {f"loaders-dali: {case.title}" for case in CASES["b"]}
    named = [row for aim in AIMS for row in (aim.row, aim.per) if row.startswith("loaders")]

    assert named
    assert {row.rpartition(", ")[0] for row in named} <= titles
    assert {row.rpartition(", ")[2] for row in named} <= {"alone", "lost to waiting"}


def test_results_stand_between_the_lines_of_a_page(
    page: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only what stands there is replaced, also a second time; a page without such lines is left as it is."""
    assert written([visit()], page.parent) == 0
    once = page.read_text()
    assert written([visit()], page.parent) == 0

    assert page.read_text() == once
    assert once.startswith(f"# Title\n\n{BEGIN}\n\n## NVIDIA H100\n")
    assert once.endswith(f"\n{END}\n\nThe end.\n")
    assert "nothing yet" not in once

    page.write_text("# Title\n")
    assert written([visit()], page.parent) == 2
    assert "must have lines" in capsys.readouterr().err
    assert page.read_text() == "# Title\n"


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (visit(rehearse=True), "measured on a CPU"),
        (visit(gpu=None), "measured on a CPU"),
        ({"command": "bench batch", "time": "", "rows": []}, "machine, settings, steps"),
    ],
    ids=["rehearsal", "no GPU", "another command"],
)
def test_other_files_are_refused(
    page: Path, capsys: pytest.CaptureFixture[str], content: Any, complaint: str
) -> None:
    """Numbers of a CPU make no page, even beside a real visit, and neither does a JSON of another command."""
    assert written([visit(), content], page.parent) == 2
    assert complaint in " ".join(capsys.readouterr().err.split())
    assert "nothing yet" in page.read_text()
