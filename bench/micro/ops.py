"""Single operations in four libraries: one image and batches, on the CPU and on a GPU."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console

from bench.cli.arguments import check_writable
from bench.compare.contestant import Unable
from bench.micro.cases import Case, best_engine, compiled, on_arrays, on_tensor, ours
from bench.micro.ops_table import FLIP, OPS, Op
from bench.micro.pictures import load_pictures
from bench.micro.transforms import MEANING as TRANSFORMS_MEANING
from bench.micro.transforms import measure_transforms, show_transforms
from bench.micro.turns import Turns, Work, take_turns
from bench.output.results import document, write_json
from bench.output.text import print_plain, print_written, result_table, wide_console
from bench.timing.limits import one_thread
from gpu_aug import Normalize, Recipe

LIBRARIES = ("torchvision", "albumentations", "kornia", "kornia compiled", "ours")
_COMPILE_SECONDS_MAX = 60.0
MEANING = (
    "microseconds per image, median of the turns, on one CPU thread (a GPU's rows: on the GPU), images in memory: torchvision v2 on a "
    "uint8 tensor (one draw for a whole batch), Albumentations on uint8 arrays one by one, Kornia on a float32 tensor, ours on uint8 "
    "with a draw for every image. Every operation is carried out on every image."
)
CLASSIC_MEANING = (
    "milliseconds per 1000 runs of one transform, HorizontalFlip(p=1) of one {side}x{side} uint8 RGB image in memory (Kornia: "
    "float32), on one CPU thread"
)


@dataclass(frozen=True)
class OpsSettings:
    """Durations and sizes of the measurement.

    Attributes:
        side: Height and width of the images.
        batch_sizes: Each gets a row per operation.
        turns: Turns per cell.
        seconds: Per turn.
        num_ops: How many of OPS.
        with_compiled: Whether to try torch.compile, which takes seconds per cell.
        classic_side: Side of the single image of the classic table.
    """

    side: int = 224
    batch_sizes: tuple[int, ...] = (1, 16)
    turns: int = 5
    seconds: float = 0.05
    num_ops: int = len(OPS)
    with_compiled: bool = True
    classic_side: int = 256


QUICK = OpsSettings(
    side=32, batch_sizes=(1, 2), turns=1, seconds=0.001, num_ops=2, with_compiled=False
)


@dataclass
class Line:
    """One operation at one batch size on one device: its measurements, or the reason why there are none."""

    op: str
    batch: int
    device: str
    cells: dict[str, Turns] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    engine: str = ""

    def to_dict(self) -> dict[str, object]:
        """Convert to JSON values, in microseconds per image."""
        unit = 1e-6 * self.batch
        return {
            "op": self.op,
            "batch": self.batch,
            "device": self.device,
            "engine": self.engine,
            "microseconds": {name: cell.to_dict(unit) for name, cell in self.cells.items()},
            "absent": self.reasons,
        }


def ops_and_show(source: str | None, settings: OpsSettings, *, json_path: Path | None) -> None:
    """Measure every operation and the classic table; print them and write them down.

    Raises:
        BenchError: The result cannot be written, or there are no photographs.
    """
    check_writable(json_path)
    console = wide_console()
    pictures = load_pictures(source, max(settings.batch_sizes), settings.side)
    single = load_pictures(source, 1, settings.classic_side)
    with console.status("starting") as status, one_thread():
        classic = measure_classic(single, settings)
        transforms = measure_transforms(
            single[0], turns=settings.turns, seconds=4 * settings.seconds
        )
        lines = []
        for line in measure_ops(pictures, settings):
            lines.append(line)
            status.update(f"{line.op}, batch {line.batch}, {line.device}")
            # Compiling can take half an hour in all: what is there is kept if it is broken off.
            if json_path is not None:
                write_json(json_path, _document(source, settings, lines, classic, transforms))
    show_classic(classic, settings, console)
    show_transforms(transforms, settings.classic_side, console)
    show_ops(lines, settings, console)
    if json_path is not None:
        print_written(console, json_path)


def _document(
    source: str | None,
    settings: OpsSettings,
    lines: list[Line],
    classic: dict[str, Turns],
    transforms: dict[str, dict[str, Turns]],
) -> dict[str, object]:
    return document(
        "bench ops",
        {"data": source or "scikit-image's photographs", **vars(settings)},
        [line.to_dict() for line in lines],
        classic={name: turns.to_dict(1e-6) for name, turns in classic.items()},
        transforms={
            chain: {name: turns.to_dict(1e-6) for name, turns in cells.items()}
            for chain, cells in transforms.items()
        },
        meaning=MEANING,
        transforms_meaning=TRANSFORMS_MEANING,
        classic_meaning=CLASSIC_MEANING.format(side=settings.classic_side),
    )


def measure_ops(pictures: NDArray[np.uint8], settings: OpsSettings) -> Iterator[Line]:
    """Measure line by line; the libraries of a line take turns."""
    devices = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
    for op in OPS[: settings.num_ops]:
        for device in devices:
            for batch in settings.batch_sizes:
                case = Case(pictures[:batch], torch.device(device))
                line = Line(op.name, batch, device)
                works = _works(op, case, line, with_compiled=settings.with_compiled)
                line.cells = take_turns(
                    works, turns=settings.turns, seconds=settings.seconds, finish=case.finish
                )
                yield line


def _works(op: Op, case: Case, line: Line, *, with_compiled: bool) -> dict[str, Work]:
    """Each library that supports it, called once; the reasons of the others go into the line."""
    works: dict[str, Work] = {}
    for library in LIBRARIES:
        try:
            if library == "kornia compiled" and not with_compiled:
                raise Unable("not tried in a quick run")
            work = _work(library, op, case, line)
            work()
        except Unable as reason:
            line.reasons[library] = str(reason)
        except Exception as error:  # noqa: BLE001 - a library may raise anything; the line names it
            line.reasons[library] = f"{type(error).__name__}: {str(error)[:80]}"
        else:
            works[library] = work
    return works


def _work(library: str, op: Op, case: Case, line: Line) -> Work:
    if library == "ours":
        dtype = torch.float32 if isinstance(op.ours, Normalize) else torch.uint8
        recipe = Recipe([op.ours])
        line.engine = best_engine(recipe, case.device)
        return ours(recipe, case, line.engine, dtype=dtype)
    if library == "torchvision" and op.torchvision:
        from torchvision.transforms import v2

        return on_tensor(op.torchvision(v2), case.planar)
    if library == "albumentations" and op.albumentations:
        import albumentations

        return on_arrays(op.albumentations(albumentations), case)
    if library.startswith("kornia") and op.kornia:
        import kornia.augmentation

        module: Any = op.kornia(kornia.augmentation).to(case.device)
        if library == "kornia":
            return on_tensor(module, case.floats)
        return compiled(module, case.floats, seconds_max=_COMPILE_SECONDS_MAX)
    raise Unable("has no such operation")


def measure_classic(image: NDArray[np.uint8], settings: OpsSettings) -> dict[str, Turns]:
    """Time one transform of one image: the flip, as each library's users call it."""
    import albumentations
    import kornia.augmentation
    from PIL import Image
    from torchvision.transforms import v2

    case, recipe = Case(image, torch.device("cpu")), Recipe([FLIP.ours])
    picture, flip = Image.fromarray(image[0]), v2.RandomHorizontalFlip(p=1.0)
    engine = best_engine(recipe, case.device)
    works: dict[str, Work] = {
        "torchvision v2, Pillow image": lambda: flip(picture),
        "torchvision v2, uint8 tensor": on_tensor(flip, case.planar[0]),
        "Albumentations, uint8 array": on_arrays(albumentations.HorizontalFlip(p=1.0), case),
        "Kornia, float32 tensor": on_tensor(
            kornia.augmentation.RandomHorizontalFlip(p=1.0), case.floats
        ),
        f"ours ({engine}), drawn each time": ours(recipe, case, engine),
        f"ours ({engine}), drawn ahead": ours(recipe, case, engine, drawn_ahead=True),
    }
    for work in works.values():
        work()
    return take_turns(works, turns=settings.turns, seconds=4 * settings.seconds, finish=case.finish)


def show_classic(classic: dict[str, Turns], settings: OpsSettings, console: Console) -> None:
    """Print the table of one transform on one image."""
    meaning = CLASSIC_MEANING.format(side=settings.classic_side)
    table = result_table("one transform, one image", meaning, "library", "ms per 1000")
    for name, turns in sorted(classic.items(), key=lambda item: item[1].median):
        style = "green" if name.startswith("ours") else ""
        table.add_row(name, f"{turns.median * 1e6:.1f}", style=style)
    console.print(table)


def show_ops(lines: list[Line], settings: OpsSettings, console: Console) -> None:
    """Print the table of operations, and below it the reasons for missing values."""
    engines = list(dict.fromkeys(line.engine for line in lines if line.engine))
    title = f"operations at {settings.side}x{settings.side}; ours: {', '.join(engines)}"
    table = result_table(title, MEANING, "operation", "batch", *LIBRARIES)
    for line in lines:
        cells = [
            f"{line.cells[name].median / line.batch * 1e6:.0f}" if name in line.cells else "-"
            for name in LIBRARIES
        ]
        marks = f" ({line.engine})" if line.engine not in engines[:1] else ""
        where = "" if line.device == "cpu" else f" {line.device}"
        table.add_row(line.op + marks, f"{line.batch}{where}", *cells)
    console.print(table)
    for (library, reason), ops in _reasons(lines).items():
        print_plain(console, f"{library} without {', '.join(ops)}: {reason}", "yellow")


def _reasons(lines: list[Line]) -> dict[tuple[str, str], list[str]]:
    """Which operations are missing for the same reason."""
    found: dict[tuple[str, str], list[str]] = {}
    for line in lines:
        for library, reason in line.reasons.items():
            ops = found.setdefault((library, reason), [])
            if line.op not in ops:
                ops.append(line.op)
    return found
