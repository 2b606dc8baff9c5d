"""``make gpu``: how a visit runs its steps."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from bench.gpu.rows import Rows, headline, read_rows
from bench.gpu.steps import (
    PARTS,
    PROBE,
    SECONDS,
    STEPS,
    Command,
    Outcome,
    commands,
    visit,
)
from bench.output.errors import BenchError
from tests import conftest
from tests.support.processes import is_gone


def command(name: str, code: str, seconds_max: float = 20, *, seconds: float = 0) -> Command:
    """A command that runs some Python, and dumps where it is when it is ended."""
    return Command(name, ["-X", "faulthandler", "-c", code], seconds, seconds_max)


def run(plan: list[Command], folder: Path, seconds_max: float = 60) -> list[Outcome]:
    """Run commands where no device is asked for."""
    return list(visit(plan, folder, probe=None, seconds_max=seconds_max))


def test_visit_goes_on_past_failures(tmp_path: Path) -> None:
    """A traceback, a crash and a hang cost their own steps only, and their logs say where they were."""
    plan = [
        command("error", "raise ValueError('as planned')"),
        command("crash", "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"),
        command("hang", "import time; time.sleep(60)", 2),
        command("last", "pass"),
    ]

    outcomes = run(plan, tmp_path)

    assert [one.end for one in outcomes] == ["exit 1", "SIGSEGV", "over its 2 s", "done"]
    assert [one.to_dict()["ok"] for one in outcomes] == [False, False, False, True]
    assert "ValueError: as planned" in outcomes[0].log
    assert 'File "<string>", line 1 in <module>' in outcomes[2].log


def test_rows_survive_a_crash(tmp_path: Path) -> None:
    """What was found before is kept, and the row that was under way is failed and named."""
    path = tmp_path / "running.json"
    crash = (
        "import os; from pathlib import Path; from bench.gpu.rows import Rows\n"
        f"rows = Rows(Path({str(path)!r}))\n"
        "with rows.check('one') as row: row.judge(0, 0, 1)\n"
        "with rows.check('two'): os.abort()"
    )

    [outcome] = run([command("step", crash, 60)], tmp_path)

    assert (outcome.end, outcome.headline) == ("SIGABRT", "1 right; failed: two")


def test_each_step_is_kept(tmp_path: Path) -> None:
    """The outcome of a step is known before the next one begins."""
    plan = [command("first", "pass"), command("second", f"open({str(tmp_path / 'begun')!r}, 'w')")]

    first = next(visit(plan, tmp_path, probe=None))

    assert (first.name, first.end) == ("first", "done")
    assert not (tmp_path / "begun").exists()


def test_what_a_step_started_ends_with_it(tmp_path: Path) -> None:
    """A process that a step leaves behind does not run beside the next one."""
    child = "import time; time.sleep(60)"
    start = f"import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', {child!r}]).pid)"  # fmt: skip

    [outcome] = run([command("parent", start)], tmp_path)

    assert is_gone(int(outcome.log), wait_seconds=60)


def test_visit_ends_in_time(tmp_path: Path) -> None:
    """A step is ended with the visit, and one whose estimate exceeds the time that is left is skipped, which its outcome says."""
    plan = [
        command("long", "pass", seconds=50),
        command("hang", "import time; time.sleep(60)", 50),
        command("late", "pass"),
    ]

    outcomes = run(plan, tmp_path, seconds_max=2)

    assert outcomes[0].end == "not run: it takes 50 s, 2 s were left"
    assert outcomes[1].end == "over its 2 s"
    assert outcomes[2].end == "not run: it takes 0 s, 0 s were left"
    assert [one.good for one in outcomes] == [False] * 3


@pytest.mark.parametrize(
    ("step", "probe", "ends"),
    [
        ("raise SystemExit(1)", "raise SystemExit(1)", ["exit 1", "not run: the device is gone"]),
        ("import time; time.sleep(60)", "import time; time.sleep(60)", ["over its 2 s", "not run: the device is gone"]),
        ("import os; os.abort()", "pass", ["SIGABRT", "done"]),
        ("pass", "raise SystemExit(1)", ["done", "done"]),
    ],
    ids=["gone", "hangs", "there", "not asked"],
)  # fmt: skip
def test_a_device_that_is_gone_ends_the_visit(
    tmp_path: Path, step: str, probe: str, ends: list[str]
) -> None:
    """After a step that went wrong a probe says whether others may follow; after one that went well nobody asks."""
    plan = [command("first", step, 2), command("second", "pass")]

    outcomes = list(visit(plan, tmp_path, probe=command("probe", probe, 2)))

    assert [one.end for one in outcomes] == ends


@pytest.mark.long
def test_the_probe_fails_without_a_device(tmp_path: Path) -> None:
    """It ends well on a GPU, and elsewhere with torch's error."""
    [outcome] = run([PROBE], tmp_path)

    assert outcome.good == torch.cuda.is_available()
    assert (
        outcome.good
        or "Torch not compiled with CUDA" in outcome.log
        or "NVIDIA driver" in outcome.log
    )


def test_a_part_fits_into_its_time() -> None:
    """The estimates of the steps of a part sum to no more than a part may take; three parts leave time for transfers."""
    sums = {part: sum(one.seconds for one in STEPS.values() if one.part == part) for part in PARTS}

    assert all(0 < seconds <= SECONDS for seconds in sums.values()), sums
    assert 3 * SECONDS <= 900 - 150


def test_steps_are_chosen(tmp_path: Path) -> None:
    """By part or by name; an unknown one is refused with those there are, and a rehearsal skips none."""

    def names(part: str = "", only: Sequence[str] = (), **how: bool) -> list[Command]:
        return commands(tmp_path / "rows", tmp_path, part=part, names=only, **{"rehearse": False, **how})  # fmt: skip

    assert [one.name for one in names(only=["races", "damage"])] == ["damage", "races"]
    assert [one.name for one in names("a")][:2] == ["cuda-jpeg", "loaders"]
    assert all(0 < one.seconds < one.seconds_max for one in names("b"))
    assert all(one.seconds == 0 for one in names("b", rehearse=True))
    wrongs: list[dict[str, Any]] = [{"part": "d"}, {"only": ["tile"]}]
    for wrong in wrongs:
        with pytest.raises(BenchError, match=r"one of a, b, c, STEPS some of cuda-jpeg.*: choose"):
            names(**wrong)


@pytest.mark.parametrize(
    ("value", "control", "verdict"),
    [(4, 5, "right"), (4.01, 5, "wrong"), (float("nan"), 5, "wrong"), (0, 4, "wrong")],
)
def test_a_difference_is_judged(
    rows: Rows, tmp_path: Path, value: float, control: float, verdict: str
) -> None:
    """What is too far off is wrong, and so is a comparison by which a wrong result would pass."""
    with rows.check("one") as row:
        row.judge(value, 4, control)

    assert [row.verdict for row in read_rows(tmp_path / "step.json")] == [verdict]
    assert len(rows.faults) == (verdict == "wrong")


def test_what_went_wrong_is_told_apart(rows: Rows) -> None:
    """An error is no verdict, a check that compared nothing is open, and a measurement is never wrong."""
    with rows.check("error"):
        raise RuntimeError("as planned")
    with rows.check("nothing"):
        pass
    with rows.measure("speed"):
        raise AssertionError("other pictures")
    with rows.measure("fast") as row:
        row.put_runs([3.0, 1.0, 2.0])
    rows.leave_out("absent", "not installed")

    assert [row.verdict for row in rows] == ["failed", "open", "failed", "measured", "open"]
    assert next(iter(rows)).facts["error"] == "RuntimeError: as planned"
    assert row.value == 2.0
    assert len(rows.faults) == 2
    assert headline(list(rows)) == "1 measured; failed: error; speed; open: nothing; absent"


@pytest.mark.needs_dali
@pytest.mark.long
def test_command_leaves_few_files(data: Path, tmp_path: Path) -> None:
    """The visit runs as `make gpu` calls it, and leaves a result and a log."""
    call = [sys.executable, "-m", "bench.gpu", f"--out={tmp_path}", "--rehearse", f"--photos={data}"]  # fmt: skip

    done = subprocess.run([*call, "--only=dali-own"], check=False)

    assert done.returncode == 0
    result = json.loads((tmp_path / "result-steps.json").read_text())
    assert [(step["name"], step["ok"]) for step in result["steps"]] == [("dali-own", True)]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["result-steps.json", "result-steps.log"]  # fmt: skip
    again = subprocess.run([*call, "--only=dali-own"], check=False, capture_output=True, text=True)
    assert again.returncode == 2
    assert "holds the results of another visit" in " ".join(again.stderr.split())


@pytest.mark.parametrize(("is_visit", "outcome"), [("1", pytest.fail), ("", pytest.skip)])
def test_a_visit_needs_dali(monkeypatch: pytest.MonkeyPatch, is_visit: str, outcome: Any) -> None:
    """Where no GPU is a failure no DALI is one, too; elsewhere its tests are skipped."""
    monkeypatch.setenv("FAIL_WITHOUT_CUDA", is_visit)
    monkeypatch.setitem(sys.modules, "nvidia.dali", None)
    item: Any = SimpleNamespace(get_closest_marker=lambda name: name == "needs_dali")

    with pytest.raises((pytest.fail.Exception, pytest.skip.Exception), match=r"nvidia\.dali") as raised:  # fmt: skip
        conftest.pytest_runtest_setup(item)
    assert raised.type is outcome.Exception  # else a skip would skip this test
