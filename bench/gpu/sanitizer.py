"""Step that checks our kernels with compute-sanitizer, which runs ``python -m bench.gpu.sanitizer PART``."""

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

from bench.gpu.contenders import loader_for
from bench.gpu.rows import Row, Rows
from bench.gpu.scale import Scale, photographs, scale_for, temporary_files
from bench.timing import synchronise
from gpu_aug import ColorJitter, HorizontalFlip, Normalize, RandomResizedCrop, Recipe

END = "the checked program has come to its end"
"""The last line of the checked program."""

FOUND = 97
"""The exit status that compute-sanitizer returns if it found errors."""

CHECKS = (("memcheck", "batch"), ("racecheck", "batch"), ("memcheck", "planted"))
"""Tools, and the parts of the program that they check; they must find the planted error."""

KERNELS = ("read_codes", "invert", "color", "resize", "run_pass", "sum_gray", "planted")
"""Exact names of the kernels to check. A substring such as "resize" would include torch's kernels."""

_SECONDS_MAX = 45.0
_FAR = 1 << 30  # offset beyond all memory of the process


def sanitizer(scale: Scale, data: Path, rows: Rows) -> None:
    """Check each part with its tool; in a rehearsal, the batch runs once without a tool."""
    with temporary_files(photographs(data, (96, 128), 8)) as folder:
        for tool, part in CHECKS if scale.on_gpu else [("no tool", "batch")]:
            with rows.check(f"{tool}, {part}") as row:
                command = [sys.executable, "-m", "bench.gpu.sanitizer", part, str(folder)]
                command = [*_tool(tool), *command] if scale.on_gpu else [*command, "--rehearse"]
                done = subprocess.run(
                    command,
                    capture_output=True,
                    text=True,
                    # Without torch's caching: writes outside a tensor but inside a cached block would not be noticed.
                    env={**os.environ, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"},
                    timeout=_SECONDS_MAX,
                    check=False,
                )
                judge(part, done.returncode, done.stdout + done.stderr, row)


def _tool(name: str) -> list[str]:
    """Return the command line of compute-sanitizer for our own kernels; errors in library kernels are not checked.

    Raises:
        FileNotFoundError: compute-sanitizer is not installed.
    """
    folders = [os.environ.get("PATH", os.defpath), *map(str, Path("/usr/local").glob("cuda*/bin"))]
    found = shutil.which("compute-sanitizer", path=os.pathsep.join(folders))
    if found is None:
        raise FileNotFoundError("compute-sanitizer is neither on the PATH nor in /usr/local/cuda*")
    ours = [part for kernel in KERNELS for part in ("--kernel-name", f"kne={kernel}")]
    # Not reported: libraries call driver functions that may be missing, and fall back.
    calls = ["--report-api-errors", "no"] if name == "memcheck" else []
    return [found, "--tool", name, "--error-exitcode", str(FOUND), *calls, *ours]


def judge(part: str, status: int, text: str, row: Row) -> None:
    """Fill in a row with whether a tool found errors.

    Args:
        part: The part of the program that the tool has checked, "batch" or "planted".
        status: Exit status of the tool.
        text: The text that tool and program have printed.
        row: The row of results, written.

    Raises:
        AssertionError: Our kernels have errors, the planted error is not found, or tool or program died before the end.
    """
    row.value, row.unit = int(status == FOUND), "errors"
    if part == "planted":
        assert status == FOUND, f"control: the planted error is not found: {text[-300:]}"
        return
    assert status != FOUND, f"errors, the first: {text[text.find('=========') :][:300]}"
    assert status == 0, f"exit {status}: {text[-300:]}"
    assert END in text, f"the program died before its end: {text[-300:]}"


def program(
    part: Annotated[str, typer.Argument(help="batch or planted.")],
    folder: Annotated[Path, typer.Argument(help="A folder with 8 photographs.")],
    rehearse: Annotated[bool, typer.Option(help="On the CPU.")] = False,
) -> None:
    """Run a part of the checks; without an error, the last line is `END`."""
    scale = scale_for(rehearse=rehearse)
    if part == "batch":
        run_batch(scale, folder)
    else:
        planted[1,](torch.zeros(4, device="cuda"), _FAR)
    synchronise(scale.device)
    typer.echo(END)


def run_batch(scale: Scale, folder: Path) -> None:
    """Take two batches that use every kernel of the JPEG decoder, and both kernels of the fused engine."""
    jitter = ColorJitter(0.4, 0.4, 0.4, 0.1)  # contrast needs the mean, which sum_gray computes
    recipe = Recipe([RandomResizedCrop(64), HorizontalFlip(), jitter, Normalize()])
    with loader_for(scale, folder, "cuda", recipe=recipe, batch_size=8, num_threads=2) as loader:
        for _, batch in zip(range(2), loader, strict=False):
            synchronise(scale.device)
            assert batch.images.isfinite().all()


@triton.jit  # type: ignore[untyped-decorator]
def planted(pointer, offset) -> None:  # type: ignore[no-untyped-def]
    """Write one value at an offset."""
    tl.store(pointer + offset, 1.0)


if __name__ == "__main__":
    typer.run(program)
