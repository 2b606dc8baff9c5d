"""``make gpu``: how a visit runs its steps."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bench.gpu.rows import Row, Rows, headline, read_rows
from bench.gpu.run_steps import Outcome, visit
from bench.gpu.steps import STEPS, Command, commands
from bench.output.errors import BenchError
from tests import conftest
from tests.dali_pipes.test_loader_process import is_gone


def run(plan: list[Command], folder: Path, seconds_max: float = 60) -> list[Outcome]:
    """Run commands without a word."""
    return visit(plan, folder, lambda _: None, seconds_max=seconds_max)


def test_visit_goes_on_past_failures(tmp_path: Path) -> None:
    """A traceback, a crash and a hang cost their own steps only, and their logs say where they were."""
    plan = [
        Command("error", ["-c", "raise ValueError('as planned')"], 20),
        Command("crash", ["-c", "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"], 20),
        Command("hang", ["-X", "faulthandler", "-c", "import time; time.sleep(60)"], 2),
        Command("last", ["-c", "pass"], 20),
    ]

    outcomes = run(plan, tmp_path)

    assert [one.end for one in outcomes] == ["exit 1", "SIGSEGV", "over its 2 s", "done"]
    assert "ValueError: as planned" in (tmp_path / "error.log").read_text()
    assert 'File "<string>", line 1 in <module>' in (tmp_path / "hang.log").read_text()


def test_rows_survive_a_crash(tmp_path: Path) -> None:
    """What was found before is kept, and the row that was under way is failed and named."""
    path = tmp_path / "step.json"
    crash = (
        "import os; from pathlib import Path; from bench.gpu.rows import Rows\n"
        f"rows = Rows(Path({str(path)!r}))\n"
        "with rows.check('one') as row: row.judge(0, 0, 1)\n"
        "with rows.check('two'): os.abort()"
    )

    [outcome] = run([Command("step", ["-c", crash], 60)], tmp_path)

    assert (outcome.end, outcome.headline) == ("SIGABRT", "1 right; failed: two")


def test_each_step_is_kept(tmp_path: Path) -> None:
    """After every step there is what has been found so far, in the plan's order."""
    plan = [Command(f"step{n}", ["-c", "pass"], 20, "right" if n < 2 else "fast") for n in range(3)]
    kept: list[list[str]] = []

    visit(plan, tmp_path, lambda _: None, keep=lambda found: kept.append([one.name for one in found]))  # fmt: skip

    assert [len(names) for names in kept] == [1, 2, 3]
    assert kept[-1] == ["step0", "step1", "step2"]


def test_what_a_step_started_ends_with_it(tmp_path: Path) -> None:
    """A process that a step leaves behind does not run beside the next one."""
    child = "import time; time.sleep(60)"
    start = f"import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', {child!r}]).pid)"  # fmt: skip

    run([Command("parent", ["-c", start], 20)], tmp_path)

    assert is_gone(int((tmp_path / "parent.log").read_text()), wait_seconds=60)


def test_visit_ends_in_time(tmp_path: Path) -> None:
    """However long steps may take, the visit has a limit; what does not fit is left out and said."""
    plan = [Command(f"hang{n}", ["-c", "import time; time.sleep(60)"], 50) for n in range(3)]

    outcomes = run(plan, tmp_path, seconds_max=1)

    assert [one.end for one in outcomes[1:]] == ["no time was left"] * 2


def test_measurements_run_alone(tmp_path: Path) -> None:
    """A step that measures starts after everything before it has ended."""
    wait = ["-c", "import time; time.sleep(0.5)"]
    plan = [Command(f"{kind} {n}", wait, 20, kind) for kind in ("fast", "right") for n in range(2)]
    told: list[str] = []

    visit(plan, tmp_path, told.append)

    assert [line[:6] for line in told[-4:]] == ["fast 0", "fast 0", "fast 1", "fast 1"]
    assert {line[:5] for line in told[:4]} == {"right"}


def test_steps_are_chosen(tmp_path: Path) -> None:
    """By name, or all that verify; an unknown name is refused with those there are."""

    def names(*only: str) -> list[str]:
        return [one.name for one in commands(tmp_path, tmp_path, only, rehearse=False)]

    assert names("tiles", "kernel") == ["kernel", "tiles"]
    assert names("right") == [name for name, step in STEPS.items() if step.kind == "right"]
    assert names() == names("right", "fast") == list(STEPS)
    with pytest.raises(BenchError, match=r"environment.*got tile: choose"):
        names("tile")


def test_tests_are_counted(tmp_path: Path) -> None:
    """Failures of pytest make its row wrong, and tests that were all skipped leave it open."""
    texts = {
        "good": "def test_a(): pass",
        "bad": "def test_a(): pass\ndef test_b(): assert 0",
        "skipped": "import pytest\n@pytest.mark.skip\ndef test_a(): pass",
    }
    plan = []
    for name, text in texts.items():
        (tmp_path / f"test_{name}.py").write_text(text)
        pytest_ = ["-m", "pytest", "-q", "-c", "/dev/null", f"--junitxml={tmp_path / name}.xml"]
        plan.append(Command(name, [*pytest_, str(tmp_path / f"test_{name}.py")], 60))

    outcomes = run(plan, tmp_path)

    assert [(one.rows[0].verdict, one.rows[0].value) for one in outcomes] == [
        ("right", 1), ("wrong", 1), ("open", 0)
    ]  # fmt: skip


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
    assert rows["error"].facts["error"] == "RuntimeError: as planned"
    assert rows["fast"].value == 2.0
    assert len(rows.faults) == 2
    assert headline([Row("a", 1, verdict="right"), *rows]).startswith("1 right; failed: error; speed")  # fmt: skip


@pytest.mark.needs_dali
@pytest.mark.long
def test_command_leaves_few_files(tmp_path: Path) -> None:
    """The visit runs as `make gpu` calls it, and leaves one result and few files."""
    pytest.importorskip("skimage")
    command = [sys.executable, "-m", "bench.gpu", f"--out={tmp_path}", "--rehearse"]

    done = subprocess.run([*command, "--only=environment", "--only=regions"], check=False)

    assert (done.returncode, (tmp_path / "failures.log").read_text()) == (0, "")
    result = json.loads((tmp_path / "result.json").read_text())
    assert [(step["name"], step["end"]) for step in result["steps"]] == [
        ("environment", "done"), ("regions", "done")
    ]  # fmt: skip
    assert len(list(tmp_path.iterdir())) <= 4


@pytest.mark.parametrize(("is_visit", "outcome"), [("1", pytest.fail), ("", pytest.skip)])
def test_a_visit_needs_dali(monkeypatch: pytest.MonkeyPatch, is_visit: str, outcome: Any) -> None:
    """Where no GPU is a failure no DALI is one, too; elsewhere its tests are skipped."""
    monkeypatch.setenv("FAIL_WITHOUT_CUDA", is_visit)
    monkeypatch.setitem(sys.modules, "nvidia.dali", None)
    item: Any = SimpleNamespace(get_closest_marker=lambda name: name == "needs_dali")

    with pytest.raises((pytest.fail.Exception, pytest.skip.Exception), match=r"nvidia\.dali") as raised:  # fmt: skip
        conftest.pytest_runtest_setup(item)
    assert raised.type is outcome.Exception  # else a skip would skip this test
