"""``make gpu``: the visit to a GPU machine, rehearsed without one."""

import importlib
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from rich.console import Console

from bench.errors import BenchError
from bench.gpu import Step, choose, steps, visit
from bench.gpu_visit import video
from bench.gpu_visit.photographs import photographs
from bench.gpu_visit.scale import Notes, scale_for
from bench.gpu_visit.step import STEPS
from bench.gpu_visit.videos import KINDS, pan, write_video
from tests.dali_pipes.test_loader_process import is_gone


def test_every_step_exists(tmp_path: Path) -> None:
    """The plan names the steps there are, each once, and each has its function."""
    names = [step.name for step in steps(tmp_path, tmp_path, rehearse=False)]

    assert sorted(names) == sorted([*STEPS, "tests-loader", "tests-engines"])
    for module, function in STEPS.values():
        assert callable(getattr(importlib.import_module(f"bench.gpu_visit.{module}"), function))


def test_visit_goes_on_past_failures(tmp_path: Path) -> None:
    """A traceback, a crash and a hang cost their own steps only, and are written down."""
    crash = "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"
    leave = f"open({str(tmp_path / 'last.json')!r}, 'w').write('{{\"headline\": \"fine\"}}')"
    plan = [
        Step("error", ["-c", "raise ValueError('as planned')"], 20),
        Step("crash", ["-c", crash], 20),
        Step("hang", ["-X", "faulthandler", "-c", "import time; time.sleep(60)"], 2),
        Step("last", ["-c", leave], 20),
    ]

    outcomes = visit(plan, tmp_path, Console(file=io.StringIO()))

    assert [outcome.end for outcome in outcomes] == ["exit 1", "SIGSEGV", "over its 2 s", "done"]
    assert outcomes[-1].headline == "fine"
    failures = (tmp_path / "failures.log").read_text()
    assert "ValueError: as planned" in failures
    assert "==== crash: SIGSEGV" in failures
    assert 'File "<string>", line 1 in <module>' in failures  # where it hung
    assert "==== last" not in failures


def test_each_step_is_kept(tmp_path: Path) -> None:
    """After every step there is what has been found so far, in the plan's order."""
    plan = [Step(f"step{n}", ["-c", "pass"], 20, is_check=n < 2) for n in range(3)]
    kept: list[list[str]] = []

    visit(
        plan,
        tmp_path,
        Console(file=io.StringIO()),
        keep=lambda outcomes: kept.append([outcome.name for outcome in outcomes]),
    )

    assert [len(names) for names in kept] == [1, 2, 3]
    assert kept[-1] == ["step0", "step1", "step2"]


def test_what_a_step_started_ends_with_it(tmp_path: Path) -> None:
    """A process that a step leaves behind does not run beside the next one."""
    child = "import time; time.sleep(60)"
    start = (
        f"import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', {child!r}]).pid)"
    )

    visit([Step("parent", ["-c", start], 20)], tmp_path, Console(file=io.StringIO()))

    pid = int((tmp_path / "parent.log").read_text())
    assert is_gone(pid, wait_seconds=60)


def test_visit_ends_in_time(tmp_path: Path) -> None:
    """However long steps may take, the visit has a limit; what does not fit is left out and said."""
    plan = [Step(f"hang{n}", ["-c", "import time; time.sleep(60)"], 50) for n in range(3)]

    outcomes = visit(plan, tmp_path, Console(file=io.StringIO()), seconds_max=1)

    assert [outcome.end for outcome in outcomes[1:]] == ["no time was left"] * 2
    assert "==== hang2: no time was left" in (tmp_path / "failures.log").read_text()


def test_measurements_run_alone(tmp_path: Path) -> None:
    """A step that measures starts after everything before it has ended."""
    wait = "import time; time.sleep(0.5)"
    checks = [Step(f"check{n}", ["-c", wait], 20, is_check=True) for n in range(2)]
    measures = [Step(f"measure{n}", ["-c", wait], 20) for n in range(2)]

    visit([*measures, *checks], tmp_path, console := Console(file=io.StringIO(), width=99))

    shown = console.file.getvalue().splitlines()
    assert [line.partition(" ")[0].rstrip(":") for line in shown[-4:]] == [
        "measure0", "measure0", "measure1", "measure1"
    ]  # fmt: skip
    assert {line[:5] for line in shown[:4]} == {"check"}


def test_steps_are_chosen(tmp_path: Path) -> None:
    """By name, or all that verify; an unknown name is refused with those there are."""
    plan = steps(tmp_path, tmp_path, rehearse=False)

    assert [step.name for step in choose(plan, ["tiles", "kernel"])] == ["kernel", "tiles"]
    assert [step.name for step in choose(plan, ["right"])] == [s.name for s in plan if s.is_check]
    assert choose(plan, ["right", "fast"]) == plan
    with pytest.raises(BenchError, match=r"one of right, fast, environment.* got tile: choose"):
        choose(plan, ["tile"])


@pytest.mark.needs_dali
def test_rehearsal_runs_on_the_cpu(tmp_path: Path) -> None:
    """Steps of a visit run without a GPU in a rehearsal, and leave one result and few files."""
    pytest.importorskip("skimage")
    command = [sys.executable, "-m", "bench.gpu", f"--out={tmp_path}", "--rehearse"]
    command += ["--only=environment", "--only=regions-dali"]

    done = subprocess.run(command, capture_output=True, text=True, check=False)

    failures = (tmp_path / "failures.log").read_text()
    assert (done.returncode, failures) == (0, "")
    result = json.loads((tmp_path / "result.json").read_text())
    assert [step["end"] for step in result["steps"]] == ["done"] * 2
    assert result["steps"][1]["result"]["largest_difference"] == 0
    assert len(list(tmp_path.iterdir())) <= 4


def test_photographs_of_any_size(tmp_path: Path) -> None:
    """A small picture fills a large frame without a seam: only pixels that it has, neighbours alike."""
    smooth = np.add.outer(np.arange(40), np.arange(60))[:, :, None] + np.zeros(3)
    Image.fromarray(smooth.astype(np.uint8)).save(tmp_path / "one.jpg", quality=100)

    one, other = photographs(tmp_path, (150, 200), 2)

    pixels = np.asarray(Image.open(io.BytesIO(one))).astype(int)
    assert pixels.shape == (150, 200, 3)
    assert max(np.abs(np.diff(pixels, axis=axis)).max() for axis in (0, 1)) <= 8
    assert one != other


@pytest.fixture(scope="module")
def smooth(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one picture to pan over."""
    folder = tmp_path_factory.mktemp("smooth")
    rows, columns = np.mgrid[:400, :600]
    waves = [127 + 120 * np.sin(rows / a + columns / b) for a, b in ((9, 13), (17, 7), (11, 19))]
    Image.fromarray(np.stack(waves, -1).astype(np.uint8)).save(folder / "one.jpg", quality=95)
    return folder


@pytest.mark.skipif(not hasattr(os, "sched_getscheduler"), reason="no such call here")
def test_writing_a_video_leaves_the_priority_alone(smooth: Path, tmp_path: Path) -> None:
    """An encoder that gives itself the whole machine does not keep it."""
    for name in ("av1", "h264"):
        kind = KINDS[name]
        write_video(tmp_path / f"video{kind.ending}", pan(smooth, (64, 96), 4), kind)

        assert os.sched_getscheduler(0) == os.SCHED_OTHER


@pytest.mark.needs_dali
def test_frames_of_videos_are_judged(
    smooth: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Frames that are right are called right, and those of a decoder that is one frame late are not."""
    monkeypatch.setattr(video, "KINDS", {name: KINDS[name] for name in ("vp9", "mpeg4")})
    notes = Notes(tmp_path / "right.json")
    video.frames(scale_for(rehearse=True), smooth, notes)
    decode = video._decode
    monkeypatch.setattr(video, "_decode", lambda *given: decode(*given).roll(1, 0))
    monkeypatch.setattr(video, "KINDS", {"vp9": KINDS["vp9"]})
    late = Notes(tmp_path / "late.json")
    video.frames(scale_for(rehearse=True), smooth, late)

    assert notes.failures == []
    assert notes.found["vp9"]["excerpt"] == notes.found["vp9"]["whole file"] == "right"
    assert notes.found["mpeg4"]["excerpt"] == "left to the CPU"
    assert notes.found["mpeg4"]["whole file"].startswith("refused")
    assert late.found["vp9"]["excerpt"].startswith("gives others: {41: 0, 5: 41")
    assert len(late.failures) == 1


@pytest.mark.needs_dali
@pytest.mark.parametrize("step", [video.decode, video.loader], ids=["decode", "loader"])
def test_videos_are_measured(smooth: Path, tmp_path: Path, step: Any) -> None:
    """The steps that measure clips run in a rehearsal, and give speeds."""
    notes = Notes(tmp_path / "step.json")
    step(scale_for(rehearse=True), smooth, notes)

    assert notes.failures == []
    rows = [row for name, row in notes.found.items() if "vp9" in name and "encoding" not in name]
    assert len(rows) == 2
    assert all(row["clips_per_second"] > 0 for row in rows)
