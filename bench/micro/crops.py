"""Small crops of large photographs: our decoder, region decoding, and decoding the whole."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from bench.cli.arguments import check_writable
from bench.micro import crop_decoders
from bench.micro.crop_decoders import Task, Way
from bench.micro.turns import Turns, take_turns
from bench.output.errors import BenchError
from bench.output.results import save_result
from bench.output.text import print_plain, result_table, wide_console
from bench.timing.limits import one_thread
from dali_pipes.decode import opencv
from dali_pipes.preview.decodable_samples import sound_samples
from readers import Sample, open_dataset, read_header

SIZE = (1080, 1920)
WINDOW = (216, 384)
OURS = "checkpoints, our decoder"
REGION = "region, nvImageCodec"

_NUM_IMAGES = 16
_NUM_WINDOWS = 64
_QUALITY = 90

WAYS: dict[str, Callable[[Task], Way]] = {
    OURS: crop_decoders.ours_from_checkpoints,
    "ordinary, our decoder": crop_decoders.ours_on_ordinary,
    REGION: crop_decoders.nvimagecodec_region,
    "region, DALI image_slice": crop_decoders.dali_region,
    "whole and crop, OpenCV": crop_decoders.whole_and_crop,
}


@dataclass
class Found:
    """The measurements.

    Attributes:
        turns: Seconds per crop of every way, slowest last.
        ratios: By decoder, its time divided by ours: the median over rounds.
        differences: By way, the largest difference to the crop of the whole image, of 255.
        absent: By way, why it could not be measured.
        enlarged: How many of the photographs were smaller than 1080p.
    """

    turns: dict[str, Turns]
    ratios: dict[str, float]
    differences: dict[str, int]
    absent: dict[str, str] = field(default_factory=dict)
    enlarged: int = 0


def crops_and_show(source: str, *, seconds: float, rounds: int, json_path: Path | None) -> None:
    """Measure every way on photographs brought to 1080p; print the table and write it down.

    Args:
        source: A source as for `readers.open_dataset`.
        seconds: Measured time per way, over all rounds.
        rounds: Turns of every way.
        json_path: Where the result goes as well.

    Raises:
        BenchError: Nothing there decodes, or a number is not positive.
    """
    check_writable(json_path)
    if not (seconds > 0 and rounds > 0):
        raise BenchError(
            f"seconds and rounds must be greater than 0, got {seconds} and {rounds}: leave them out"
        )
    console = wide_console()
    with console.status("preparing"), one_thread():
        task, enlarged = _task(source)
        found = measure(task, seconds=seconds / rounds, rounds=rounds)
    found.enlarged = enlarged
    show(found, console)
    settings = {"data": source, "size": SIZE, "crop": WINDOW, "quality": _QUALITY}
    settings |= {"crops": _NUM_WINDOWS, "rounds": rounds, "enlarged": enlarged}
    save_result(json_path, console, "bench crops", settings, _rows(found))


def measure(task: Task, *, seconds: float, rounds: int) -> Found:
    """Let every way that works here decode all crops, in turns.

    Args:
        task: What to decode.
        seconds: Length of each turn.
        rounds: Turns of every way.
    """
    judge = crop_decoders.whole_and_crop(task)()
    absent: dict[str, str] = {}
    able: dict[str, Way] = {}
    differences: dict[str, int] = {}
    for name, make in WAYS.items():
        try:
            able[name] = make(task)
            differences[name] = _difference(able[name](), judge)
        except (ImportError, RuntimeError) as error:
            able.pop(name, None)
            absent[name] = f"{type(error).__name__}: {error}"
    turns = take_turns(able, turns=rounds, seconds=seconds, finish=lambda: None)
    count = len(task.crops)
    per_window = {name: Turns(tuple(run / count for run in turns[name].runs)) for name in turns}
    in_order = sorted(per_window, key=lambda name: per_window[name].median)
    return Found(
        {name: per_window[name] for name in in_order},
        {name: _ratio(per_window[name], per_window[OURS]) for name in in_order if OURS in turns},
        differences,
        absent,
    )


def _ratio(turns: Turns, ours: Turns) -> float:
    return median(one / other for one, other in zip(turns.runs, ours.runs, strict=True))


def _difference(images: Sequence[NDArray[np.uint8]], judge: Sequence[NDArray[np.uint8]]) -> int:
    return max(
        int(np.abs(one.astype(np.int16) - other).max())
        for one, other in zip(images, judge, strict=True)
    )


def _task(source: str) -> tuple[Task, int]:
    """Random crops of the largest photographs, brought to 1080p and encoded at quality 90."""
    samples, left_out = sound_samples(open_dataset(source), most=2048)
    samples.sort(key=_num_pixels, reverse=True)
    jpegs = [_encoded_1080p(sample) for sample in samples[:_NUM_IMAGES]]
    if not jpegs:
        why = "".join(f": {one}" for one in left_out[:1])
        raise BenchError(f"{source} has no photograph to cut crops out of{why}")
    rng = np.random.default_rng(0)
    free = [whole - part + 1 for whole, part in zip(SIZE, WINDOW, strict=True)]
    corners = np.stack([rng.integers(0, limit, _NUM_WINDOWS) for limit in free], 1)
    crops = np.hstack([corners, np.tile(WINDOW, (_NUM_WINDOWS, 1))]).astype(np.int32)
    task = Task([jpegs[number % len(jpegs)] for number in range(_NUM_WINDOWS)], crops, SIZE)
    small = sum(_num_pixels(sample) < SIZE[0] * SIZE[1] for sample in samples[:_NUM_IMAGES])
    return task, small


def _num_pixels(sample: Sample) -> int:
    header = read_header(sample.image or b"")
    return header.height * header.width


def _encoded_1080p(sample: Sample) -> bytes:
    """Resize so that 1920x1080 is covered, cut the middle, encode with 4:2:0."""
    import cv2

    header = read_header(sample.image or b"")
    image = opencv.decode(sample.image or b"", (header.height, header.width))
    scale = max(SIZE[0] / image.shape[0], SIZE[1] / image.shape[1])
    size = [max(whole, round(side * scale)) for whole, side in zip(SIZE, image.shape, strict=False)]
    way = cv2.INTER_AREA if scale < 1 else cv2.INTER_CUBIC
    image = cv2.resize(image, (size[1], size[0]), interpolation=way)
    top, left = (size[0] - SIZE[0]) // 2, (size[1] - SIZE[1]) // 2
    middle = image[top : top + SIZE[0], left : left + SIZE[1], ::-1]
    _, encoded = cv2.imencode(".jpg", middle, [cv2.IMWRITE_JPEG_QUALITY, _QUALITY])
    return bytes(encoded)


def show(found: Found, console: Console) -> None:
    """Print the table and who is absent."""
    table = result_table(
        f"random {WINDOW[1]}x{WINDOW[0]} crops of {SIZE[1]}x{SIZE[0]} JPEGs at quality "
        f"{_QUALITY}, one thread; {found.enlarged} of the photographs were enlarged",
        f"time: that of '{OURS}' (median of the ratios within each round); "
        "differs: most, of 255, from the crop of the whole",
        "way",
        *("ms/crop", "min-max", "time", "differs"),
    )
    for name, turns in found.turns.items():
        table.add_row(
            name,
            f"{turns.median * 1e3:.3f}",
            f"{min(turns.runs) * 1e3:.3f}-{max(turns.runs) * 1e3:.3f}",
            f"{found.ratios[name]:.2f}x" if name in found.ratios else "-",
            str(found.differences[name]),
        )
    console.print(table)
    for name, reason in found.absent.items():
        print_plain(console, f"{name} took no part: {reason}", "yellow")


def _rows(found: Found) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = [
        {
            "name": name,
            "milliseconds_per_window": turns.to_dict(),
            "times_ours": round(found.ratios[name], 3) if name in found.ratios else None,
            "largest_difference": found.differences[name],
        }
        for name, turns in found.turns.items()
    ]
    return rows + [{"name": name, "absent": reason} for name, reason in found.absent.items()]
