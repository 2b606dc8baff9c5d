"""The steps of a visit by part, in their order; one of them runs by ``python -m bench.gpu.steps NAME --data folder --out file``."""

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from bench.gpu.rows import Rows
from bench.output.errors import BenchError

Part = Literal["a", "b", "c"]

PARTS: tuple[Part, ...] = ("a", "b", "c")
"""Each is one command on the GPU machine."""

SECONDS = 240.0
"""Default time limit of a part. A visit has 900 s for three parts, the machine's start and the transfers."""

_LIMIT = 1.6  # times its estimate, after which a step is ended: estimates come from one machine
_REHEARSAL_SECONDS_MAX = 120.0  # of a step: 10 s on two idle cores


@dataclass(frozen=True)
class Step:
    """Definition of a step.

    Attributes:
        promise: What the step shows or measures.
        function: "module.function" in this package.
        seconds: How long it takes on an H100 with 16 cores, the start of its process (8 s) included.
        part: The part that it belongs to; "" runs only by name.
        verifies: Whether it compares results with expected ones; else it only measures.
    """

    promise: str
    function: str
    seconds: float
    part: Part | Literal[""]
    verifies: bool = True


STEPS = {
    "cuda-jpeg": Step("The CUDA JPEG decoder gives the CPU decoder's bits; its rates", "cuda_jpeg.cuda_jpeg", 55, "a"),
    "loaders": Step("Loaders with decoder cuda and cpu, alone and behind ResNet-50", "loaders.loaders", 100, "a", verifies=False),
    "sanitizer": Step("Our kernels pass compute-sanitizer", "sanitizer.sanitizer", 50, "a"),
    "engine": Step("The fused engine's host time and its share of a training step", "engine.engine", 25, "a", verifies=False),
    "dali-own": Step("DALI's own pipeline", "loaders.dali_own", 25, "b", verifies=False),
    "loaders-dali": Step("Loaders with decoder dali, alone and behind ResNet-50", "loaders.loaders_dali", 75, "b", verifies=False),
    "under-load": Step("Every row is its sample while the GPU is saturated", "under_load.under_load", 60, "b"),
    "damage": Step("Broken files in a batch cost nothing but themselves", "damage.damage", 20, "b"),
    "memory": Step("Device memory stays flat, with and without our loader", "memory.memory", 60, "b"),
    "tests-before": Step("CUDA tests that failed in the last visit pass", "cuda_tests.failed_before", 100, "c"),
    "tests": Step("The other CUDA tests pass", "cuda_tests.others", 85, "c"),
    "waits": Step("The thread of the training loop never waits for the device", "waits.waits", 60, ""),
    "races": Step("Losses do not depend on whether the loop waits", "races.races", 130, ""),
    "streams": Step("Another stream, or a captured graph, changes nothing", "races.streams", 60, ""),
}  # fmt: skip
"""By name; the steps of a part run in this order, the most informative first."""


@dataclass(frozen=True)
class Command:
    """The command of a step.

    Attributes:
        name: Name of the step.
        arguments: Arguments of the Python interpreter.
        seconds: Estimate: the step begins only if this much time is left.
        seconds_max: The step is ended after this time.
    """

    name: str
    arguments: Sequence[str]
    seconds: float
    seconds_max: float


def commands(
    rows: Path, photographs: Path, *, part: str = "", names: Sequence[str] = (), rehearse: bool
) -> list[Command]:
    """Return the commands of one part, or of single steps, in their order.

    Args:
        rows: The JSON file that the step under way writes.
        photographs: A folder of JPEGs.
        part: Part whose steps are chosen; "" chooses by name only.
        names: Names of further steps.
        rehearse: Run on the CPU with small inputs.

    Raises:
        BenchError: There is no such part or step.
    """
    if unknown := sorted({*names, *([part] if part else [])} - {*PARTS, *STEPS}):
        allowed = f"PART must be one of {', '.join(PARTS)}, STEPS some of {', '.join(STEPS)}"
        raise BenchError(f"{allowed}, got {', '.join(unknown)}: choose")
    flags = [f"--data={photographs}", f"--out={rows}", *(["--rehearse"] if rehearse else [])]
    found = []
    for name, step in STEPS.items():
        if name in names or (part and step.part == part):
            arguments = ["-X", "faulthandler", "-m", "bench.gpu.steps", name, *flags]
            limits = step.seconds, _LIMIT * step.seconds
            if (
                rehearse
            ):  # begins every step: estimates are those of a GPU, and its inputs are small
                limits = 0.0, _REHEARSAL_SECONDS_MAX
            found.append(Command(name, arguments, *limits))
    return found


def run_step(
    name: Annotated[str, typer.Argument(help="Which step.")],
    data: Annotated[Path, typer.Option(help="A folder of photographs.")],
    out: Annotated[Path, typer.Option(help="The JSON file to write.")],
    rehearse: Annotated[bool, typer.Option(help="On the CPU, with tiny inputs.")] = False,
) -> None:
    """Run one step and leave its rows; what went wrong is printed, and ends it with an error."""
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
