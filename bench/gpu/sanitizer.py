"""Step: our kernels under compute-sanitizer; it checks ``python -m bench.gpu.sanitizer PART``."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import torch
import triton
import triton.language as tl
import typer

from bench.gpu.engines import carried_out, cases, drawn
from bench.gpu.rows import Row, Rows
from bench.gpu.scale import Scale, finish, scale_for

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

END = "the checked program has come to its end"
"""Its last line."""

FOUND = 97
"""The exit status by which the tool says that it found errors."""

CHECKS = (("memcheck", "planted"), ("memcheck", "engine"), ("initcheck", "engine"), ("racecheck", "engine"))  # fmt: skip
"""Tools, and the parts of the program that they check; the planted error has to be found."""

_SECONDS_MAX = 70.0
_KERNELS = ("run_pass", "sum_gray", "planted")  # parts of their names
_FAR = 1 << 30  # behind everything that the process has


def sanitizer(scale: Scale, _data: Path, rows: Rows) -> None:
    """Each tool on its part; in a rehearsal the engine once and plainly."""
    for tool, part in CHECKS if scale.on_gpu else [("no tool", "engine")]:
        with rows.check(f"{tool}, {part}") as row:
            command = [sys.executable, "-m", "bench.gpu.sanitizer", part]
            command = [*_tool(tool), *command] if scale.on_gpu else [*command, "--rehearse"]
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                # Pieces of torch's own blocks would hide writes beside them.
                env={**os.environ, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"},
                timeout=_SECONDS_MAX,
                check=False,
            )
            judge(part, done.returncode, done.stdout + done.stderr, row)


def _tool(name: str) -> list[str]:
    """How compute-sanitizer is called, for our own kernels alone: others' errors are not ours to mend.

    Raises:
        FileNotFoundError: It is not there.
    """
    paths = [shutil.which("compute-sanitizer"), *Path("/usr/local").glob("cuda*/bin/compute-sanitizer")]  # fmt: skip
    found = next((str(path) for path in paths if path), None)
    if found is None:
        raise FileNotFoundError("compute-sanitizer is neither on the PATH nor in /usr/local/cuda*")
    ours = [part for kernel in _KERNELS for part in ("--kernel-name", f"kns={kernel}")]
    # Libraries ask the driver for what is not there, and take another way.
    calls = ["--report-api-errors", "no"] if name == "memcheck" else []
    return [found, "--tool", name, "--error-exitcode", str(FOUND), *calls, *ours]


def judge(part: str, status: int, text: str, row: Row) -> None:
    """Fill in a row: whether a tool found errors.

    Args:
        part: Of the program.
        status: The exit status of both.
        text: What was printed.
        row: The row.

    Raises:
        AssertionError: Our kernels have errors, a planted one is not found, or tool or program died before the end.
    """
    row.value, row.unit = int(status == FOUND), "errors"
    if part == "planted":
        assert status == FOUND, f"control: the planted error is not found: {text[-300:]}"
        return
    assert status != FOUND, f"errors, the first: {text[text.find('=========') :][:300]}"
    assert status == 0, f"exit {status}: {text[-300:]}"
    assert END in text, f"the program died before its end: {text[-300:]}"


@app.command()
def program(
    part: Annotated[str, typer.Argument(help="Which part.")],
    rehearse: Annotated[bool, typer.Option(help="On the CPU.")] = False,
) -> None:
    """Run a part of the checks; the last line of what should be right is `END`."""
    device = scale_for(rehearse=rehearse).device
    if part == "engine":
        run_engine(device)
    else:
        planted[1,](torch.zeros(4, device="cuda"), _FAR)
    finish(device)
    typer.echo(END)


def run_engine(device: torch.device) -> None:
    """The fused engine over many recipes and types, on images of odd and even sides."""
    generator = torch.Generator().manual_seed(0)
    for side in (48, 37):
        pictures = torch.randint(0, 256, (4, side, side, 3), dtype=torch.uint8, generator=generator)
        for case in cases(side).values():
            carried_out("fused", case, pictures, drawn(case.recipe, pictures), device)


@triton.jit  # type: ignore[untyped-decorator]
def planted(pointer, offset) -> None:  # type: ignore[no-untyped-def]
    """Write one value at an offset."""
    tl.store(pointer + offset, 1.0)


if __name__ == "__main__":
    app()
