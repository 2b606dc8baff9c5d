"""Running steps: each in a process with a time limit, so that a crash or a hang costs that step alone."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Lock
from typing import Any
from xml.etree import ElementTree

from bench.gpu.rows import Row, headline, read_rows
from bench.gpu.steps import Command
from readers.cores import usable_cores

SECONDS_MAX = 470.0
"""The limit of a whole visit."""

NOT_RUN = "no time was left"
"""How a step ended that never began."""

_REPOSITORY = Path(__file__).resolve().parents[2]
_SECONDS_MIN = 0.05
_SECONDS_TO_SAY_WHERE, _SECONDS_TO_DIE = 3.0, 5.0
_CORES_OF_A_CHECK = 4  # as many checks run side by side as there are cores for


@dataclass(frozen=True)
class Outcome:
    """The outcome of a step.

    Attributes:
        name: The step's name.
        end: "done", or what went wrong: "exit 1", "SIGSEGV", "over its 40 s".
        seconds: How long it took.
        rows: What it found.
        last_line: The last line of its log.
    """

    name: str
    end: str
    seconds: float
    rows: Sequence[Row]
    last_line: str = ""

    @property
    def good(self) -> bool:
        """Whether the step came to its end, with nothing wrong and nothing failed."""
        return self.end == "done"

    @property
    def headline(self) -> str:
        """The outcome in a few words."""
        return headline(self.rows) or self.last_line

    def to_dict(self) -> dict[str, Any]:
        """Convert to JSON values."""
        rows = [asdict(row) for row in self.rows]
        seconds = round(self.seconds, 1)
        return {"name": self.name, "end": self.end, "seconds": seconds, "headline": self.headline, "rows": rows}  # fmt: skip


def visit(
    commands: Sequence[Command],
    out: Path,
    tell: Callable[[str], None],
    *,
    seconds_max: float = SECONDS_MAX,
    keep: Callable[[Sequence[Outcome]], None] = lambda _: None,
) -> list[Outcome]:
    """Run every step, whatever becomes of those before it.

    A step ends with its own limit or with that of the visit; those for which no time is left are left out. Steps that
    verify run side by side; then those that measure run one by one.

    Args:
        commands: What to run.
        out: The folder that gets logs and results.
        tell: Gets a line for each step that begins or ends.
        seconds_max: The limit of all together.
        keep: Gets after each step what there is so far, so that a visit that is broken off leaves something.
    """
    last = time.monotonic() + seconds_max
    outcomes: dict[str, Outcome] = {}
    lock = Lock()

    def run_and_keep(command: Command) -> None:
        seconds = min(command.seconds_max, last - time.monotonic())
        if seconds < _SECONDS_MIN:
            outcome = Outcome(command.name, NOT_RUN, 0.0, ())
        else:
            tell(f"{command.name} (at most {seconds:.0f} s)")
            outcome = _run(command, out, seconds)
            tell(f"{command.name}: {outcome.end} after {outcome.seconds:.0f} s")
        with lock:
            outcomes[command.name] = outcome
            keep([outcomes[one.name] for one in commands if one.name in outcomes])

    with ThreadPoolExecutor(max(1, usable_cores() // _CORES_OF_A_CHECK)) as side_by_side:
        list(side_by_side.map(run_and_keep, [one for one in commands if one.kind == "right"]))
    for command in commands:
        if command.kind == "fast":
            run_and_keep(command)
    return [outcomes[command.name] for command in commands]


def _run(command: Command, out: Path, seconds_max: float) -> Outcome:
    result = out / f"{command.name}.json"
    result.unlink(missing_ok=True)
    began = time.perf_counter()
    with (out / f"{command.name}.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, *command.arguments],
            cwd=_REPOSITORY,
            env={**os.environ, "NO_ALBUMENTATIONS_UPDATE": "1", **command.environment},
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # a group of its own, so that its workers end with it
        )
        try:
            end = _described(process.wait(seconds_max))
        except subprocess.TimeoutExpired:
            end = f"over its {seconds_max:.3g} s"
            process.send_signal(signal.SIGABRT)  # faulthandler then says where each thread is
            with suppress(subprocess.TimeoutExpired):
                process.wait(_SECONDS_TO_SAY_WHERE)
        finally:
            _end_group(process)
    seconds = time.perf_counter() - began
    rows = _tests_row(out / f"{command.name}.xml") or read_rows(result)
    lines = read_log(out, command.name).strip().splitlines()
    return Outcome(command.name, end, seconds, rows, lines[-1].strip(" =") if lines else "")


def _tests_row(junit: Path) -> list[Row]:
    """The summary of pytest's report as one row; none if there is no report."""
    if not junit.exists():
        return []
    counts = {"tests": 0, "failures": 0, "errors": 0, "skipped": 0}
    for suite in ElementTree.parse(junit).iter("testsuite"):
        counts = {name: count + int(suite.get(name, 0)) for name, count in counts.items()}
    bad = counts["failures"] + counts["errors"]
    passed = counts["tests"] - bad - counts["skipped"]
    verdict = "wrong" if bad else "right" if passed else "open"
    return [Row("pytest", passed, "tests passed", verdict, dict(counts))]  # type: ignore[arg-type]


def read_log(out: Path, name: str) -> str:
    """The output of a step; "" if it never began."""
    path = out / f"{name}.log"
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


def _described(exit_code: int) -> str:
    if exit_code == 0:
        return "done"
    return f"exit {exit_code}" if exit_code > 0 else signal.Signals(-exit_code).name


def _end_group(process: "subprocess.Popen[bytes]") -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:  # everything in it has ended
        return
    with suppress(subprocess.TimeoutExpired):  # what hangs in a driver cannot be killed
        process.wait(_SECONDS_TO_DIE)
