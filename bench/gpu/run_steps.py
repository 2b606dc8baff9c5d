"""Running steps one at a time, each in a process with a time limit, so that a crash or a hang costs that step alone."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.gpu.rows import Row, headline, read_rows
from bench.gpu.steps import SECONDS_MAX, Command

NOT_RUN = ("no time was left", "the device is gone")
"""How a step ended that never began."""

PROBE = Command("probe", ["-m", "bench.gpu.probe"], 5.0)
"""What tells after a step that went wrong whether the device is still there."""

_REPOSITORY = Path(__file__).resolve().parents[2]
_SECONDS_MIN = 0.05
_SECONDS_TO_SAY_WHERE, _SECONDS_TO_DIE = 3.0, 5.0
_VERDICTS = re.compile(r"^(\S+::.+?) (PASSED|FAILED|ERROR|SKIPPED)", re.MULTILINE)


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
    probe: Command | None = PROBE,
    seconds_max: float = SECONDS_MAX,
    keep: Callable[[Sequence[Outcome]], None] = lambda _: None,
) -> list[Outcome]:
    """Run every step, whatever becomes of those before it, as long as the device is there.

    A step ends with its own limit or with that of the visit; those for which no time is left are left out.

    Args:
        commands: What to run.
        out: The folder that gets logs and results.
        tell: Gets a line for each step that begins or ends.
        probe: Runs after each step that went wrong; where it fails, nothing else runs. None where there is no device.
        seconds_max: The limit of all together.
        keep: Gets after each step what there is so far, so that a visit that is broken off leaves something.
    """
    last = time.monotonic() + seconds_max
    outcomes: list[Outcome] = []
    why_not = ""
    for command in commands:
        seconds = min(command.seconds_max, last - time.monotonic())
        if why_not or seconds < _SECONDS_MIN:
            outcomes.append(Outcome(command.name, why_not or NOT_RUN[0], 0.0, ()))
        else:
            tell(f"{command.name} (at most {seconds:.0f} s)")
            outcomes.append(outcome := _run(command, out, seconds))
            tell(f"{command.name}: {outcome.end} after {outcome.seconds:.0f} s; {outcome.headline}")
            if probe and not outcome.good and not _run(probe, out, probe.seconds_max).good:
                why_not = NOT_RUN[1]
                tell(f"{why_not}: {read_log(out, probe.name).strip()[-300:]}")
        keep(outcomes)
    return outcomes


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
    log_text = read_log(out, command.name)
    rows = read_rows(result) or _tests_row(log_text)
    lines = log_text.strip().splitlines()
    return Outcome(command.name, end, seconds, rows, lines[-1].strip(" =") if lines else "")


def _tests_row(log: str) -> list[Row]:
    """The verdicts in pytest's log, also of one that crashed, as one row; none if there are none."""
    found = dict(_VERDICTS.findall(log))
    if not found:
        return []
    counts = {word: list(found.values()).count(word) for word in ("PASSED", "SKIPPED")}
    bad = [test for test, word in found.items() if word in ("FAILED", "ERROR")]
    row = Row("pytest", counts["PASSED"], "tests passed", "open", {**counts, "bad": bad})
    if bad or counts["PASSED"]:
        row.verdict = "wrong" if bad else "right"
    return [row]


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
