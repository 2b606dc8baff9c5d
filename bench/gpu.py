"""``make gpu``: one short visit to a machine with a GPU that teaches as much as it can.

Every step runs in a process of its own with a time limit of its own, so that a crash or a hang costs
that step alone. Steps that verify run side by side; steps that measure run one by one, with nothing beside
them. Nothing is installed and nothing is downloaded.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from bench import errors
from bench.machine import num_cores
from bench.photographs import make_photographs

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

_REPOSITORY = Path(__file__).resolve().parent.parent

SECONDS_MAX = 470.0
"""Of a whole visit."""

RIGHT, FAST = "right", "fast"
"""The steps that verify, and those that measure, by one name."""

_SECONDS_MIN = 0.05
_SECONDS_TO_SAY_WHERE, _SECONDS_TO_DIE = 3.0, 5.0
_CORES_OF_A_CHECK = 4  # as many checks run side by side as there are cores for


@dataclass(frozen=True)
class Step:
    """A command, and how long it may take.

    Attributes:
        name: Names its log and its result, NAME.log and NAME.json.
        arguments: What follows the interpreter.
        seconds_max: After so long it is killed.
        environment: Added to this process's own.
        is_check: Whether it verifies, so that others may run beside it.
    """

    name: str
    arguments: Sequence[str]
    seconds_max: float
    environment: Mapping[str, str] = field(default_factory=dict)
    is_check: bool = False


@dataclass(frozen=True)
class Outcome:
    """How a step ended.

    Attributes:
        end: "done", or what went wrong: "exit 1", "SIGSEGV", "over its 40 s".
        headline: What came out in a few words: its result's own, or its log's last line.
        result: The JSON that it left, empty when it left none.
    """

    name: str
    end: str
    seconds: float
    headline: str
    result: dict[str, Any]

    @property
    def good(self) -> bool:
        """Whether the step came to its end."""
        return self.end == "done"


def steps(out: Path, photographs: Path, *, rehearse: bool) -> list[Step]:
    """The visit's steps, the most telling first; a rehearsal runs the same on the CPU with tiny inputs."""
    flags = [f"--data={photographs}", *(["--rehearse"] if rehearse else [])]
    own = ["-X", "faulthandler", "-m", "bench.gpu_visit.step"]

    def check(name: str, seconds_max: float) -> Step:
        return replace(measure(name, seconds_max), is_check=True)

    def measure(name: str, seconds_max: float) -> Step:
        return Step(name, [*own, name, f"--out={out / name}.json", *flags], seconds_max)

    return [
        check("environment", 40),
        _tests("tests-loader", out, rehearse=rehearse),
        check("kinds", 90),
        check("agreement", 90),
        check("positions", 90),
        check("video-frames", 90),
        check("sanitizer", 170),
        check("races", 90),
        check("soak", 90),
        check("resume", 90),
        check("synchronisations", 60),
        check("regions-dali", 30),
        check("regions-nvimgcodec", 30),
        _tests("tests-engines", out, rehearse=rehearse),
        measure("kernel", 80),
        measure("decode-dali", 60),
        measure("training", 100),
        measure("compare", 85),
        measure("tiles", 70),
        measure("video-decode", 90),
        measure("shares", 50),
        measure("batch-stage", 90),
        measure("sweep", 70),
        measure("memory", 70),
        measure("video-loader", 60),
        measure("decode-others", 50),
        measure("tilings", 90),
    ]


_ENGINE_TESTS = ("test_engines_agree.py", "test_fused_triton.py")  # the longest


def _tests(name: str, out: Path, *, rehearse: bool) -> Step:
    """The files with tests that need CUDA: the engines', or all others; one file in a rehearsal."""
    folder = _REPOSITORY / "tests"
    files = [
        str(path)
        for path in sorted(folder.glob("test_*.py"))
        if (path.name in _ENGINE_TESTS) == (name == "tests-engines")
        and "needs_cuda" in path.read_text(encoding="utf-8")
    ]
    command = ["-m", "pytest", "-m", "needs_cuda", "--tb=long", f"--junitxml={out / name}.xml"]
    command += ["--continue-on-collection-errors"]  # a package that is missing costs its own tests
    environment = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}  # else JAX takes most of the memory
    if not rehearse:
        environment["FAIL_WITHOUT_CUDA"] = "1"
    chosen = files[:1] if rehearse else files
    return Step(name, [*command, *chosen], 200, environment, is_check=True)


def visit(
    plan: Sequence[Step],
    out: Path,
    console: Console,
    *,
    seconds_max: float = SECONDS_MAX,
    keep: Callable[[Sequence[Outcome]], None] = lambda _: None,
) -> list[Outcome]:
    """Run every step, whatever becomes of those before it; failures.log tells about those that fail.

    A step ends with its own limit or with that of the visit; those for which no time is left are left out.
    After each step `keep` gets what there is so far, lest a visit that is broken off leaves nothing.
    """
    run = partial(_run_in_time, out=out, console=console, last=time.monotonic() + seconds_max)
    outcomes: dict[str, Outcome] = {}
    lock = Lock()

    def run_and_keep(step: Step) -> None:
        outcome = run(step)
        with lock:
            outcomes[step.name] = outcome
            so_far = [outcomes[step.name] for step in plan if step.name in outcomes]
            _write_failures(so_far, out)
            keep(so_far)

    with ThreadPoolExecutor(max(1, num_cores() // _CORES_OF_A_CHECK)) as side_by_side:
        list(side_by_side.map(run_and_keep, [step for step in plan if step.is_check]))
    for step in plan:
        if not step.is_check:
            run_and_keep(step)
    return [outcomes[step.name] for step in plan]


def _write_failures(outcomes: Sequence[Outcome], out: Path) -> None:
    with (out / "failures.log").open("w", encoding="utf-8") as file:
        for outcome in outcomes:
            if not outcome.good:
                file.write(f"==== {outcome.name}: {outcome.end}\n{_log(out, outcome.name)}\n")


def _run_in_time(step: Step, *, out: Path, console: Console, last: float) -> Outcome:
    seconds = min(step.seconds_max, last - time.monotonic())
    if seconds < _SECONDS_MIN:
        return Outcome(step.name, "no time was left", 0.0, "", {})
    console.print(f"{step.name} (at most {seconds:.0f} s)", style="dim")
    outcome = _run(replace(step, seconds_max=seconds), out)
    console.print(f"{step.name}: {outcome.end} after {outcome.seconds:.0f} s", style="dim")
    return outcome


def _run(step: Step, out: Path) -> Outcome:
    result = out / f"{step.name}.json"
    result.unlink(missing_ok=True)
    began = time.perf_counter()
    with (out / f"{step.name}.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, *step.arguments],
            cwd=_REPOSITORY,
            env={**os.environ, "NO_ALBUMENTATIONS_UPDATE": "1", **step.environment},
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # a group of its own, so that its workers end with it
        )
        try:
            end = _described(process.wait(step.seconds_max))
        except subprocess.TimeoutExpired:
            end = f"over its {step.seconds_max:.3g} s"
            process.send_signal(signal.SIGABRT)  # faulthandler then says where each thread is
            with suppress(subprocess.TimeoutExpired):
                process.wait(_SECONDS_TO_SAY_WHERE)
        finally:
            _end_group(process)
    seconds = time.perf_counter() - began
    found = _read_result(result)
    headline = found.get("headline") or _last_line(out, step.name)
    return Outcome(step.name, end, seconds, headline, found)


def _read_result(path: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, json.JSONDecodeError):  # never written, or killed while writing
        return {}
    return found


def _log(out: Path, name: str) -> str:
    path = out / f"{name}.log"
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


def _last_line(out: Path, name: str) -> str:
    lines = _log(out, name).strip().splitlines()
    return lines[-1].strip(" =") if lines else ""


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


def choose(plan: Sequence[Step], names: Sequence[str]) -> list[Step]:
    """The steps of those names, in the plan's order.

    Raises:
        BenchError: There is no such step.
    """
    allowed = [RIGHT, FAST, *(step.name for step in plan)]
    if unknown := sorted(set(names) - set(allowed)):
        raise errors.BenchError(
            f"--only must be one of {', '.join(allowed)}, got {', '.join(unknown)}: choose"
        )
    return [
        step for step in plan if {step.name, RIGHT if step.is_check else FAST}.intersection(names)
    ]


def _gather(parts: Path, plan: Sequence[Step], out: Path) -> None:
    """Bring the logs home in few files, since machines that are lent may hand back only a few."""
    with (out / "logs.txt").open("w", encoding="utf-8") as file:
        for step in plan:
            file.write(f"==== {step.name}\n{_log(parts, step.name)}\n")
    for path in (parts / "failures.log", *parts.glob("*.xml")):
        shutil.copyfile(path, out / path.name)


def _document(outcomes: Sequence[Outcome], *, rehearse: bool) -> dict[str, object]:
    from bench.compare.report import document

    rows: dict[str, Mapping[str, object]] = {}
    for outcome in outcomes:
        rows |= {row["name"]: row for row in outcome.result.get("rows", [])}
    ends = [
        {
            "name": outcome.name,
            "end": outcome.end,
            "seconds": round(outcome.seconds, 1),
            "headline": outcome.headline,
            "result": outcome.result,
        }
        for outcome in outcomes
    ]
    return document("gpu", {"rehearse": rehearse}, list(rows.values()), steps=ends)


def _show(outcomes: Sequence[Outcome], console: Console) -> None:
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for heading in ("step", "end", "seconds", "result"):
        table.add_column(heading, overflow="fold")
    for outcome in outcomes:
        style = "" if outcome.good else "red"
        cells = (outcome.name, outcome.end, f"{outcome.seconds:.0f}", Text(outcome.headline))
        table.add_row(*cells, style=style)
    console.print(table)


@app.command()
def gpu(
    out: Annotated[Path, typer.Option(help="The folder that gets everything.")],
    rehearse: Annotated[bool, typer.Option(help="On the CPU, with tiny inputs.")] = False,
    only: Annotated[
        list[str] | None,
        typer.Option(help="A step, or right or fast for those that verify or measure; repeatable."),
    ] = None,
) -> None:
    """Run the CUDA tests and the GPU benchmarks, go on past failures, and write all of it down."""
    from bench.compare.report import wide_console, write_json

    console = wide_console()
    out = out.absolute()
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="gpu-aug-") as folder:
        data, parts = Path(folder) / "photographs", Path(folder) / "parts"
        parts.mkdir()
        try:
            make_photographs(data)
        except errors.BenchError as error:  # the steps that need them will fail and say so
            console.print(str(error), style="red")
        plan = steps(parts, data, rehearse=rehearse)
        chosen = choose(plan, only or [RIGHT, FAST])

        def keep(outcomes: Sequence[Outcome]) -> None:
            _gather(parts, chosen, out)
            write_json(out / "result.json", _document(outcomes, rehearse=rehearse))

        outcomes = visit(chosen, parts, console, keep=keep)
    _show(outcomes, console)
    console.print(f"written: {out / 'result.json'} and {out / 'failures.log'}", soft_wrap=True)
    if not all(outcome.good for outcome in outcomes):
        raise typer.Exit(1)


if __name__ == "__main__":
    errors.call(app)
