"""List the steps of a visit by part, and run them in order, each in its own process with a time limit.

So a crash or a hang affects that step alone. ``python -m bench.gpu.steps NAME --data folder --out file`` runs one step.
"""

import importlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from bench.gpu.rows import Row, Rows, headline, read_rows
from bench.output.errors import BenchError

PARTS = ("a", "b", "c")
"""The parts of a visit; each is one command on the GPU machine."""

SECONDS = 240.0
"""Default time limit of a part. A visit has 900 s for three parts, the machine's start and the transfers."""

_LIMIT = 1.6  # a step is ended after this multiple of its estimate, because estimates come from one machine
_REHEARSAL_SECONDS_MAX = 120.0  # time limit of a step; it takes 10 s on two idle cores


@dataclass(frozen=True)
class Step:
    """The definition of a step of a visit: a check or a measurement.

    Attributes:
        promise: A sentence about what the step shows or measures.
        function: Name of the step's function, "module.function" in this package.
        seconds: Duration of the step in seconds on an H100 with 16 cores, including the start of its process (8 s).
        part: The part of the visit to which the step belongs; "" for a step that only runs by name.
    """

    promise: str
    function: str
    seconds: float
    part: str


STEPS = {
    "cuda-jpeg": Step("The CUDA JPEG decoder gives the CPU decoder's bits; its rates", "cuda_jpeg.cuda_jpeg", 55, "a"),
    "loaders": Step("Loaders with decoder cuda and cpu, alone and behind ResNet-50", "loaders.loaders", 100, "a"),
    "sanitizer": Step("Our kernels pass compute-sanitizer", "sanitizer.sanitizer", 50, "a"),
    "engine": Step("The fused engine's host time and its share of a training step", "engine.engine", 25, "a"),
    "dali-own": Step("DALI's own pipeline", "loaders.dali_own", 25, "b"),
    "loaders-dali": Step("Loaders with decoder dali, alone and behind ResNet-50", "loaders.loaders_dali", 75, "b"),
    "under-load": Step("Every row is its sample while the GPU is saturated", "row_checks.under_load", 60, "b"),
    "damage": Step("Broken files in a batch cost nothing but themselves", "row_checks.damage", 20, "b"),
    "memory": Step("Device memory stays flat, with and without our loader", "memory.memory", 60, "b"),
    "tests-before": Step("CUDA tests that failed in the last visit pass", "cuda_tests.failed_before", 100, "c"),
    "tests": Step("The other CUDA tests pass", "cuda_tests.others", 85, "c"),
    "waits": Step("The thread of the training loop never waits for the device", "races.waits", 60, ""),
    "races": Step("Losses do not depend on whether the loop waits", "races.races", 130, ""),
    "streams": Step("Another stream, or a captured graph, changes nothing", "races.streams", 60, ""),
}  # fmt: skip
"""The steps by name; the steps of a part run in this order, the most informative first."""


@dataclass(frozen=True)
class Command:
    """The command that runs a step in a process of its own.

    Attributes:
        name: Name of the step.
        arguments: Arguments of the Python interpreter.
        seconds: Estimated duration in seconds; the step only starts if this much time is left.
        seconds_max: Time limit in seconds, after which the step is ended.
    """

    name: str
    arguments: Sequence[str]
    seconds: float
    seconds_max: float


def commands(
    rows: Path, photographs: Path, *, part: str = "", names: Sequence[str] = (), rehearse: bool
) -> list[Command]:
    """Return the commands of one part, or of single steps, in order.

    Args:
        rows: The JSON file that the running step writes.
        photographs: A folder of JPEGs.
        part: Part whose steps are chosen; "" chooses by name only.
        names: Names of additional steps.
        rehearse: Run on the CPU with small inputs.

    Raises:
        BenchError: A part or step is unknown.
    """
    if unknown := sorted({*names, *([part] if part else [])} - {*PARTS, *STEPS}):
        allowed = f"PART must be one of {', '.join(PARTS)}, STEPS some of {', '.join(STEPS)}"
        raise BenchError(f"{allowed}, got {', '.join(unknown)}: choose")
    flags = [f"--data={photographs}", f"--out={rows}", *(["--rehearse"] if rehearse else [])]
    chosen = [name for name, step in STEPS.items() if name in names or (part and step.part == part)]
    return [
        Command(
            name,
            ["-X", "faulthandler", "-m", "bench.gpu.steps", name, *flags],
            # A rehearsal starts every step: the estimates are for a GPU, and its inputs are small.
            seconds=0.0 if rehearse else STEPS[name].seconds,
            seconds_max=_REHEARSAL_SECONDS_MAX if rehearse else _LIMIT * STEPS[name].seconds,
        )
        for name in chosen
    ]


NOT_RUN = "not run: "
"""Prefix of the `end` of a step that never started."""

RUNNING = "running.json"
"""Name of the file with the rows of the running step, which remains if a visit is cut off."""

_PROBE_CODE = "import torch; assert int(torch.full((1 << 20,), 7, device='cuda').sum()) == 7 << 20"

PROBE = Command("probe", ["-c", _PROBE_CODE], 30.0, 30.0)
"""Checks after a failed step whether the device still works: fills memory and sums it up. Most of its time is loading
torch."""

_REPOSITORY = Path(__file__).resolve().parents[2]
_SECONDS_MIN = 0.05  # less than any process takes to start
_SECONDS_TO_SAY_WHERE, _SECONDS_TO_DIE = 3.0, 5.0


@dataclass(frozen=True)
class Outcome:
    """The outcome of a step.

    Attributes:
        name: The step's name.
        end: "done", or the error: "exit 1", "SIGSEGV", "over its 40 s", "not run: ...".
        seconds: Duration of the step in seconds.
        rows: The rows that the step has written.
        log: The text that the step has printed.
    """

    name: str
    end: str
    seconds: float
    rows: Sequence[Row]
    log: str = ""

    @property
    def good(self) -> bool:
        """Whether the step ended normally, without wrong or failed rows."""
        return self.end == "done"

    @property
    def headline(self) -> str:
        """A summary of the step's rows or, if it has written none, the last line that it printed."""
        return headline(self.rows) or "".join(self.log.strip().splitlines()[-1:])

    def to_dict(self) -> dict[str, Any]:
        """Return the outcome as values for JSON."""
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
    """Run the steps one by one, also after failures, as long as the device works; print when each starts and ends.

    A step is skipped if its estimate exceeds the remaining time, and ended at its own time limit or that of the visit.

    Args:
        commands: The commands of the steps.
        out: The folder for the files of the running step.
        probe: Runs after each failed step; if it fails, no further step runs. None without a device.
        seconds_max: The time limit of all steps together.

    Yields:
        The outcome of each step when it has ended, so that earlier outcomes remain if a visit is cut off.
    """
    last = time.monotonic() + seconds_max
    why_not, has_failed = "", False
    for command in commands:
        # Only after the failed step was yielded, because a probe may hang.
        if probe and has_failed and not why_not:
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
            start_new_session=True,  # its own process group, so that its workers end with it
        )
        try:
            end = _describe_exit(process.wait(seconds_max))
        except subprocess.TimeoutExpired:
            end = f"over its {seconds_max:.3g} s"
            # Makes faulthandler print the stacks of all threads.
            process.send_signal(signal.SIGABRT)
            with suppress(subprocess.TimeoutExpired):
                process.wait(_SECONDS_TO_SAY_WHERE)
        finally:
            # The group may have ended already; and a process that hangs in a driver cannot be killed.
            with suppress(ProcessLookupError, subprocess.TimeoutExpired):
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(_SECONDS_TO_DIE)
    seconds = time.perf_counter() - began
    outcome = Outcome(
        command.name,
        end,
        seconds,
        read_rows(result),
        log=printed.read_text(encoding="utf-8", errors="replace"),
    )
    for path in (result, printed):
        path.unlink(missing_ok=True)
    return outcome


def _describe_exit(exit_code: int) -> str:
    if exit_code < 0:
        return signal.Signals(-exit_code).name
    return f"exit {exit_code}" if exit_code else "done"


def run_step(
    name: Annotated[str, typer.Argument(help="Which step.")],
    data: Annotated[Path, typer.Option(help="A folder of photographs.")],
    out: Annotated[Path, typer.Option(help="The JSON file to write.")],
    rehearse: Annotated[bool, typer.Option(help="On the CPU, with tiny inputs.")] = False,
) -> None:
    """Run one step and write its rows; errors are printed and make the exit code nonzero."""
    from bench.gpu.scale import scale_for  # loads torch

    module, _, function = STEPS[name].function.partition(".")
    rows = Rows(out)
    run = getattr(importlib.import_module(f"bench.gpu.{module}"), function)
    run(scale_for(rehearse=rehearse), data, rows)
    for fault in rows.faults:
        typer.echo(fault)
    if rows.faults:
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(run_step)
