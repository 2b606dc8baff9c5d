"""Step: a short program under compute-sanitizer; ``python -m bench.gpu_visit.sanitizer PART --data=folder`` is that program."""

import os
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import numpy as np
import torch
import typer

from bench.gpu_visit.agree import cases
from bench.gpu_visit.loop import endless, loader_for, write_files
from bench.gpu_visit.photographs import photographs
from bench.gpu_visit.scale import Notes, Scale, finish, scale_for
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

_REPOSITORY = Path(__file__).resolve().parents[2]
_FOUND = 99  # the exit status that the tool gives where it found errors
_SECONDS_MAX = 140.0  # of one tool on one part; all run side by side
_OWN_KERNELS = ("run_pass", "sum_gray", "planted_write", "planted_race")
_TORCHS = ("at::", "c10::", "torch::", "at_cuda_detail::")


@dataclass(frozen=True)
class Check:
    """One tool on one part of the program.

    Attributes:
        tool: Of compute-sanitizer.
        part: Of this program.
        finds: Whether an error is planted there, which has to be found.
    """

    tool: str
    part: str
    finds: bool = False

    def __str__(self) -> str:
        return f"{self.tool}, {self.part}"


CHECKS = (
    Check("memcheck", "planted write", finds=True),
    Check("memcheck", "engine"),
    Check("memcheck", "loader"),
    Check("racecheck", "planted race", finds=True),
    Check("racecheck", "engine"),
    Check("racecheck", "loader"),
    Check("initcheck", "engine"),
    Check("synccheck", "engine"),
)


@dataclass
class Report:
    """What the tool printed.

    Attributes:
        errors: How many by whose kernel it was: "ours", "torch's" or "others'".
        warnings: The same of what is called a warning.
        first: The first lines of the first errors.
        is_whole: Whether it came to its summary.
    """

    errors: Counter[str] = field(default_factory=Counter)
    warnings: Counter[str] = field(default_factory=Counter)
    first: list[str] = field(default_factory=list)
    is_whole: bool = False


def sanitizer(scale: Scale, data: Path, notes: Notes) -> None:
    """Errors of our kernels under memcheck, racecheck, initcheck and synccheck; planted ones are found."""
    tool = find_tool() if scale.on_gpu else None
    if scale.on_gpu and tool is None:
        raise FileNotFoundError(
            "compute-sanitizer is neither on the PATH nor under /usr/local/cuda*: install it"
        )
    checks = [check for check in CHECKS if scale.on_gpu or not check.finds]
    if not scale.on_gpu:  # once each, plainly
        checks = [check for check in checks if check.tool == "memcheck"]
    with ThreadPoolExecutor(len(checks) if scale.on_gpu else 1) as pool:
        runs = {check: pool.submit(_run, tool, check, data) for check in checks}
        for check, run in runs.items():
            with notes.attempt(str(check)) as row:
                end, text, row["seconds"] = run.result()
                row["end"] = end
                judge(check, end, text, row, plainly=tool is None)
    rows = notes.found.values()
    wrong = [name for name, row in notes.found.items() if "error" in row]
    others = sum(row.get("errors", {}).get("others'", 0) for row in rows)
    notes.put(
        headline=f"{len(checks)} checks; not clean or not ended: {'; '.join(wrong) or 'none'}; "
        f"errors in other libraries: {others}"
    )


def judge(check: Check, end: str, text: str, row: dict[str, Any], *, plainly: bool = False) -> None:
    """Fill in a row.

    Raises:
        AssertionError: Errors of our kernels or of torch's; no verdict; a program that did not come to its end; or a
            planted error that is not found.
    """
    report = parse(text)
    row["errors"], row["warnings"] = dict(report.errors), dict(report.warnings)
    row["first"] = report.first
    if plainly:
        assert end == "exit 0", f"the program ended with {end}: {text[-300:]}"
        assert END in text, f"the program died before its end: {text[-300:]}"
        return
    assert report.is_whole, f"no verdict, {end}: {text[-300:]}"
    mine = report.errors["ours"] + report.errors["torch's"]
    if check.finds:
        assert report.errors["ours"], f"control: the planted error is not found: {text[-300:]}"
        return
    assert not mine, f"{dict(report.errors)} errors: {' | '.join(report.first)[:300]}"
    known = ("exit 0", f"exit {_FOUND}")
    assert end in known, f"no error is found, but the program ended with {end}: {text[-300:]}"
    assert END in text, f"the program died before its end, {end}: {text[-300:]}"


def find_tool() -> str | None:
    """Where compute-sanitizer is; None where it is not."""
    if found := shutil.which("compute-sanitizer"):
        return found
    places = sorted(Path("/usr/local").glob("cuda*/bin/compute-sanitizer"))
    places += sorted(Path("/usr/local").glob("cuda*/compute-sanitizer/compute-sanitizer"))
    return str(places[0]) if places else None


def command(tool: str | None, check: Check, data: Path) -> list[str]:
    """How a check is run; without a tool plainly."""
    own = [sys.executable, "-m", "bench.gpu_visit.sanitizer", check.part, f"--data={data}"]
    if tool is None:
        return [*own, "--rehearse"]
    options = ["--tool", check.tool, "--error-exitcode", str(_FOUND), "--print-limit", "100"]
    if check.tool == "memcheck":  # libraries ask for what is not there, and take another way
        options += ["--report-api-errors", "no"]
    return [tool, *options, *own]


def _run(tool: str | None, check: Check, data: Path) -> tuple[str, str, float]:
    """How it ended, what it printed, and how many seconds it took."""
    began = time.perf_counter()
    # Pieces of torch's own blocks would hide writes beside them.
    environment = {**os.environ, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
    with TemporaryDirectory() as folder:
        path = Path(folder) / "log"
        with path.open("wb") as log:
            try:
                done = subprocess.run(
                    command(tool, check, data),
                    cwd=_REPOSITORY,
                    env=environment,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    timeout=_SECONDS_MAX,
                    check=False,
                )
                end = f"exit {done.returncode}"
            except subprocess.TimeoutExpired:
                end = f"over its {_SECONDS_MAX:.0f} s"
        text = path.read_text(encoding="utf-8", errors="replace")
    return end, text, round(time.perf_counter() - began, 1)


_LINE = re.compile(r"^=========(?: (?P<inner> *)(?P<text>\S.*))?$")
_SUMMARY = re.compile(r"(ERROR|RACECHECK|INITCHECK) SUMMARY: \d+ ")
_UNPRINTED = re.compile(r"ERROR SUMMARY: (\d+) errors? (?:was|were) not printed")
_NO_RECORD = re.compile(
    r"COMPUTE-SANITIZER|\w+ SUMMARY|Target application|Error: (Target|No attachable|process)|Program hit|Tracking"
)
_KERNEL = re.compile(
    r"\bat (?:0x[0-9a-f]+ in (?:\S+:\d+:)?(?P<in>.+)|(?P<plus>.+?)\+0x[0-9a-f]+|(?P<bare>\S+) in \S+)"
)


def parse(text: str) -> Report:
    """Read what compute-sanitizer printed among the program's own output.

    Errors beyond its limit, which it only counts, are put down to whom the last printed one is put down to.
    """
    report = Report()
    records: list[list[str]] = []
    unprinted = 0
    for line in text.splitlines():
        found = _LINE.match(line)
        if found is None or not found["text"]:
            continue
        said = found["text"]
        if _SUMMARY.match(said):
            report.is_whole = True
            if more := _UNPRINTED.match(said):
                unprinted = int(more[1])
        elif not found["inner"] and not _NO_RECORD.match(said):
            records.append([said])
        elif found["inner"] and records:
            records[-1].append(said)
    owner = "ours"
    for record in records:
        owner = _owner(record)
        is_warning = record[0].lower().startswith(("warn", "(potential)"))
        (report.warnings if is_warning else report.errors)[owner] += 1
        if not is_warning and len(report.first) < 5:
            report.first.append("; ".join(record[:4])[:300])
    report.errors[owner] += unprinted
    report.errors = +report.errors
    return report


def _owner(record: list[str]) -> str:
    """Whose kernel the first place of a record is in."""
    kernel = next((found for line in record if (found := _KERNEL.search(line))), None)
    if kernel is None:
        return "others'"
    name = (kernel["in"] or kernel["plus"] or kernel["bare"]).removeprefix("void ")
    if re.split(r"[(<\s]", name)[0] in _OWN_KERNELS:
        return "ours"
    return "torch's" if any(part in name for part in _TORCHS) else "others'"


@app.command()
def program(
    part: Annotated[str, typer.Argument(help="Which part.")],
    data: Annotated[Path, typer.Option(help="A folder of photographs.")],
    rehearse: Annotated[bool, typer.Option(help="On the CPU.")] = False,
) -> None:
    """Run a part of the program that is checked; its last line is `END`, unless an error is planted."""
    scale = scale_for(rehearse=rehearse)
    if part.startswith("planted"):
        from bench.gpu_visit import planted

        (planted.write_beside if part == "planted write" else planted.race)()
        return
    parts: dict[str, Callable[[], None]] = {
        "engine": lambda: run_engine(scale.device),
        "loader": lambda: run_loader(scale, data),
    }
    parts[part]()
    finish(scale.device)
    typer.echo(END)


def run_engine(device: torch.device) -> None:
    """The fused engine over many recipes, types and layouts, on images of one size and of several."""
    generator = torch.Generator().manual_seed(0)
    for side in (48, 37):
        pictures = torch.randint(0, 256, (4, side, side, 3), dtype=torch.uint8, generator=generator)
        sizes = np.full((4, 2), side)
        mixed = Recipe([RandomResizedCrop(side), CutMix(num_classes=3), MixUp(num_classes=3)])
        recipes = [(case.recipe, case.dtype) for case in cases(side).values()]
        for recipe, dtype in [*recipes, (mixed, torch.float32)]:
            draws = recipe.draw(0, 0, np.arange(4), sizes)
            for layout in (torch.contiguous_format, torch.channels_last):
                out = torch.empty(
                    4, 3, side, side, dtype=dtype, device=device, memory_format=layout
                )
                compile_engine("fused", recipe, device=device).run(pictures.to(device), draws, out)
    ragged = Recipe([Resize(40), HorizontalFlip(1.0), CenterCrop(33)])
    sizes = np.array([(41, 90), (70, 44), (3, 200), (1, 1), (97, 33)])
    draws = ragged.draw(0, 0, np.arange(len(sizes)), sizes)
    shapes = draws.windows.canvas.tolist()
    images = [
        torch.randint(0, 256, (*shape, 3), dtype=torch.uint8, generator=generator).to(device)
        for shape in shapes
    ]
    out = torch.empty(len(sizes), 3, 33, 33, device=device)
    compile_engine("fused", ragged, device=device).run(images, draws, out)


def run_loader(scale: Scale, data: Path) -> None:
    """Two batches of small images with either recipe, decoded by DALI."""
    ragged = Recipe([Resize(40), HorizontalFlip(1.0), CenterCrop(32)])
    with TemporaryDirectory() as root:
        encoded = photographs(data, (96, 128), 4) + photographs(data, (131, 77), 4)
        folder = write_files(Path(root) / "small", encoded)
        for recipe in (Recipe.imagenet_train_jitter(size=32), ragged):
            with loader_for(
                scale, folder, "dali", recipe=recipe, batch_size=8, prefetch=1, num_threads=2
            ) as loader:
                for batch in islice(endless(loader), 2):
                    batch.images.float().mean()


if __name__ == "__main__":
    app()
