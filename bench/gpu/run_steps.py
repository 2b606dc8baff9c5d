"""Running steps one at a time, each in a process with a time limit, so that a crash or a hang costs that step alone."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import typer

from bench.gpu.rows import Row, headline, read_rows
from bench.gpu.steps import SECONDS, Command

NOT_RUN = "not run: "
"""Begins the `end` of a step that never began."""

RUNNING = "running.json"
"""Name of the file with the rows of the step under way, which remains of a visit that is cut off."""

_PROBE_CODE = "import torch; assert int(torch.full((1 << 20,), 7, device='cuda').sum()) == 7 << 20"

PROBE = Command("probe", ["-c", _PROBE_CODE], 30.0, 30.0)
"""Tells after a failed step whether the device is still there: fills memory and adds it up. Most of its time torch is loaded."""

_REPOSITORY = Path(__file__).resolve().parents[2]
_SECONDS_MIN = 0.05  # less than any process takes to start
_SECONDS_TO_SAY_WHERE, _SECONDS_TO_DIE = 3.0, 5.0


@dataclass(frozen=True)
class Outcome:
    """The outcome of a step.

    Attributes:
        name: The step's name.
        end: "done", or what went wrong: "exit 1", "SIGSEGV", "over its 40 s", "not run: ...".
        seconds: How long it took.
        rows: What it found.
        log: What it printed.
    """

    name: str
    end: str
    seconds: float
    rows: Sequence[Row]
    log: str = ""

    @property
    def good(self) -> bool:
        """Whether the step came to its end, with nothing wrong and nothing failed."""
        return self.end == "done"

    @property
    def headline(self) -> str:
        """What became of its rows, or the last line that it printed where there are none."""
        return headline(self.rows) or "".join(self.log.strip().splitlines()[-1:])

    def to_dict(self) -> dict[str, Any]:
        """Convert to JSON values."""
        return {
            "name": self.name,
            "ok": self.good,
            "end": self.end,
            "seconds": round(self.seconds, 1),
            "headline": self.headline,
            "rows": [asdict(row) for row in self.rows],
        }


def visit(
    commands: Sequence[Command],
    out: Path,
    *,
    probe: Command | None = PROBE,
    seconds_max: float = SECONDS,
) -> Iterator[Outcome]:
    """Run one step after the other, also after failures, as long as the device is there; print when each begins and ends.

    A step is skipped if its estimate exceeds the time that is left, and ended at its own limit or that of the visit.

    Args:
        commands: What to run.
        out: The folder for the files of the step under way.
        probe: Runs after each failed step; if it fails, nothing else runs. None where there is no device.
        seconds_max: The limit of all steps together.

    Yields:
        The outcome of each step when it has ended, so that a visit that is cut off leaves those before.
    """
    last = time.monotonic() + seconds_max
    why_not, has_failed = "", False
    for command in commands:
        if (
            probe and has_failed and not why_not
        ):  # not before the failed step was yielded: a probe may hang
            asked = _run(probe, out, probe.seconds_max)
            if not asked.good:
                why_not = "the device is gone"
                typer.echo(f"{why_not}: {asked.headline}")
        left = max(last - time.monotonic(), 0)
        late = f"it takes {command.seconds:.0f} s, {left:.0f} s were left"
        if why_not or left < max(command.seconds, _SECONDS_MIN):
            outcome = Outcome(command.name, NOT_RUN + (why_not or late), 0.0, ())
        else:
            typer.echo(f"{command.name} (about {command.seconds:.0f} s, {left:.0f} s are left)")
            outcome = _run(command, out, min(command.seconds_max, left))
            has_failed = not outcome.good
        typer.echo(
            f"{command.name}: {outcome.end} after {outcome.seconds:.0f} s; {outcome.headline}"
        )
        yield outcome


def _run(command: Command, out: Path, seconds_max: float) -> Outcome:
    result, printed = out / RUNNING, (out / RUNNING).with_suffix(".log")
    result.unlink(missing_ok=True)
    began = time.perf_counter()
    with printed.open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, *command.arguments],
            cwd=_REPOSITORY,
            env={**os.environ, "NO_ALBUMENTATIONS_UPDATE": "1"},
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # a group of its own, so that its workers end with it
        )
        try:
            end = _described(process.wait(seconds_max))
        except subprocess.TimeoutExpired:
            end = f"over its {seconds_max:.3g} s"
            process.send_signal(signal.SIGABRT)  # faulthandler then prints where each thread is
            with suppress(subprocess.TimeoutExpired):
                process.wait(_SECONDS_TO_SAY_WHERE)
        finally:
            _end_group(process)
    seconds = time.perf_counter() - began
    text = printed.read_text(encoding="utf-8", errors="replace")
    outcome = Outcome(command.name, end, seconds, read_rows(result), text)
    for path in (result, printed):
        path.unlink(missing_ok=True)
    return outcome


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
