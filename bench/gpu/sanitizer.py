"""Step: our kernels under compute-sanitizer; it checks ``python -m bench.gpu.sanitizer PART``."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import typer

from bench.gpu.engines import cases
from bench.gpu.rows import Row, Rows
from bench.gpu.scale import Scale, finish, scale_for
from gpu_aug import (
    CenterCrop,
    CutMix,
    HorizontalFlip,
    MixUp,
    RandomResizedCrop,
    Recipe,
    Resize,
    compile_engine,
)

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

END = "the checked program has come to its end"
"""Its last line: errors in foreign kernels take the place of its own exit status."""

CHECKS = {
    "memcheck": ("planted_write", "engine"),
    "racecheck": ("planted_race", "engine"),
    "initcheck": ("engine",),
    "synccheck": ("engine",),
}
"""The parts of the program for each tool; a planted error has to be found."""

_REPOSITORY = Path(__file__).resolve().parents[2]
_SECONDS_MAX = 140.0  # of one tool on one part; all run side by side
_OURS = re.compile(
    r"\b(run_pass|sum_gray|write_one|planted_race)\b|\b(at|c10|torch)::"
)  # and torch's
_NO_ERROR = re.compile(
    r"SUMMARY|COMPUTE-SANITIZER|Target app|attachable|process didn|Program hit|Tracking|Warning"
)


def sanitizer(scale: Scale, _data: Path, rows: Rows) -> None:
    """Each tool on each part, all side by side; in a rehearsal the engine once and plainly."""
    tool = find_tool() if scale.on_gpu else None
    checks = [(name, part) for name, parts in CHECKS.items() for part in parts]
    if not scale.on_gpu:
        checks = [("memcheck", "engine")]
    with ThreadPoolExecutor(len(checks) if scale.on_gpu else 1) as pool:
        runs = {check: pool.submit(_run, tool, *check) for check in checks}
        for (name, part), run in runs.items():
            with rows.check(f"{name}, {part}") as row:
                judge(part, run.result(), row, plainly=tool is None)


def find_tool() -> str:
    """Path of compute-sanitizer.

    Raises:
        FileNotFoundError: It is not there.
    """
    paths = [shutil.which("compute-sanitizer"), *Path("/usr/local").glob("cuda*/bin/compute-sanitizer")]  # fmt: skip
    found = next((str(path) for path in paths if path), None)
    if found is None:
        raise FileNotFoundError("compute-sanitizer is neither on the PATH nor in /usr/local/cuda*")
    return found


def _run(tool: str | None, check: str, part: str) -> str:
    """Run a part of the program below and return what it printed."""
    command = [sys.executable, "-m", "bench.gpu.sanitizer", part]
    if tool is None:
        command.append("--rehearse")
    else:
        options = ["--tool", check, "--print-limit", "1000"]
        if check == "memcheck":  # libraries ask for what is not there, and take another way
            options += ["--report-api-errors", "no"]
        command = [tool, *options, *command]
    done = subprocess.run(
        command,
        cwd=_REPOSITORY,
        # Pieces of torch's own blocks would hide writes beside them.
        env={**os.environ, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=_SECONDS_MAX,
        check=False,
    )
    return done.stdout.decode(errors="replace")


def judge(part: str, text: str, row: Row, *, plainly: bool = False) -> None:
    """Fill in a row: how many errors of our kernels, or torch's, a tool reports; those of others are only stated.

    Args:
        part: Of the program.
        text: What was printed.
        row: The row.
        plainly: Whether no tool took part.

    Raises:
        AssertionError: Our kernels have errors, a planted one is not found, or tool or program died before the end.
    """
    records = list(_records(text))
    mine = [record for record in records if _is_ours(record)]
    row.value, row.unit = len(mine), "errors"
    row.facts |= {"errors of others": len(records) - len(mine), "first": mine[:3]}
    assert plainly or "SUMMARY:" in text, f"the tool gave no verdict: {text[-300:]}"
    if part.startswith("planted"):
        assert mine, f"control: the planted error is not found: {text[-300:]}"
        return
    assert not mine, f"{len(mine)} errors, the first: {mine[0][:300]}"
    assert END in text, f"the program died before its end: {text[-300:]}"


def _records(text: str) -> Iterator[str]:
    """The errors that compute-sanitizer printed among the program's own output: a line at the margin begins one."""
    record = ""
    for line in [*text.splitlines(), "========= SUMMARY"]:
        if not line.startswith("========= "):
            continue
        if line[10] != " ":
            if record:
                yield record
            record = "" if _NO_ERROR.search(line) else line[10:]
        elif record:
            record += f"; {line[10:].strip()}"


def _is_ours(record: str) -> bool:
    """Whether the first position that a record names is in a kernel of ours or of torch's."""
    first = next((part for part in record.split("; ") if re.search(r"\bat \S", part)), "")
    return bool(_OURS.search(first))


@app.command()
def program(
    part: Annotated[str, typer.Argument(help="Which part.")],
    rehearse: Annotated[bool, typer.Option(help="On the CPU.")] = False,
) -> None:
    """Run a part of the checks; its last line is `END`, unless an error is planted."""
    device = scale_for(rehearse=rehearse).device
    if part == "engine":
        run_engine(device)
        finish(device)
        typer.echo(END)
    else:
        from bench.gpu import sanitizer_controls

        getattr(sanitizer_controls, part)()


def run_engine(device: torch.device) -> None:
    """The fused engine over many recipes, types and layouts, on images of one size and of several."""
    generator = torch.Generator().manual_seed(0)
    for side in (48, 37):
        pictures = torch.randint(0, 256, (4, side, side, 3), dtype=torch.uint8, generator=generator)
        mixed = Recipe([RandomResizedCrop(side), CutMix(num_classes=3), MixUp(num_classes=3)])
        recipes = [(case.recipe, case.dtype) for case in cases(side).values()]
        for recipe, dtype in [*recipes, (mixed, torch.float32)]:
            draws = recipe.draw(0, 0, np.arange(4), np.full((4, 2), side))
            for layout in (torch.contiguous_format, torch.channels_last):
                out = torch.empty((4, 3, side, side), dtype=dtype, device=device, memory_format=layout)  # fmt: skip
                compile_engine("fused", recipe, device=device).run(pictures.to(device), draws, out)
    ragged = Recipe([Resize(40), HorizontalFlip(1.0), CenterCrop(33)])
    sizes = np.array([(41, 90), (70, 44), (3, 200), (1, 1), (97, 33)])
    draws = ragged.draw(0, 0, np.arange(len(sizes)), sizes)
    images = [
        torch.randint(0, 256, (*shape, 3), dtype=torch.uint8, generator=generator).to(device)
        for shape in draws.crops.canvas.tolist()
    ]
    out = torch.empty(len(sizes), 3, 33, 33, device=device)
    compile_engine("fused", ragged, device=device).run(images, draws, out)


if __name__ == "__main__":
    app()
