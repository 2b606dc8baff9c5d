"""Rebuild imread_benchmark: decoders of JPEGs on one thread, and in the workers of a DataLoader."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from PIL import Image

from bench.compare.contract import Contestant
from bench.compare.images import require_sound
from bench.compare.photographs import encode, shipped_photographs, stitch
from bench.micro.decode import Pixels, to_files
from bench.micro.pictures import decode
from bench.micro.rows import Row, Task
from bench.published.imread_decoders import BATCH_SIZE, LIBRARIES, TOLERANCE, DecodeTask
from bench.published.processes import rows_of_processes
from readers import open_dataset
from readers.cores import usable_cores
from readers.image.jpeg_process import jpeg_process

MEANING = (
    "Time per image; speed relative to Pillow. decode-memory: bytes in memory to a C-contiguous RGB array of uint8, one thread. "
    f"loader-supply: a DataLoader over bytes in memory, batches of {BATCH_SIZE}, up to 8 workers, as many as there are cores, turns "
    "five times as long. Controlled files: a long edge in pixels and a quality, encoded by Pillow (4:2:0, baseline, Lanczos). Sources "
    "smaller than 2048 px are stitched from unscaled parts of photographs (native: 12 MP). Crops are those of a "
    "RandomResizedCrop(224): less work. A decoder that differs from Pillow by more than "
    f"{TOLERANCE:.0f} of 255 on average is refused."
)

_EDGES = (512, 1024, 2048, None)  # None: the size of the source
_QUALITIES = (50, 75, 90, 95)
_SUPPLIED = (512, 90)  # the controlled files of loader-supply: of ImageNet's size and quality
_NUM_SOURCES = (
    2  # a pass over two of 12 MP takes as long as over 120 photographs of ImageNet's size
)
_NUM_NATURAL = 128  # unchanged files of DATA: four batches
_WORKERS_MAX = 8  # as in the original
_STRETCH = 5  # turns of loader-supply: several batches of 32 images must fit into one

_CONTESTANTS = (
    *(
        Contestant(
            name,
            "baseline",
            "bench.published.imread_decoders:start",
            {"library": name},
            # What gpu-aug depends on needs no environment; TensorFlow has its own because of its size.
            {"TensorFlow": "tensorflow", "Pillow": "", "OpenCV": "", "torchvision": ""}.get(
                name, "imread"
            ),
        )
        for name in LIBRARIES
    ),
    *(
        Contestant(
            f"gpu-aug, {part}",
            "engine",
            "bench.published.imread_decoders:start_ours",
            {"is_crop": is_crop, "is_known": is_known},
        )
        for part, is_crop, is_known in (
            ("full image", False, False),
            ("crop (less work)", True, False),
            ("crop with seek points (less work)", True, True),
        )
    ),
)
_OUR_LOADER = Contestant(
    "gpu-aug Loader", "engine", "bench.published.imread_decoders:start_our_loader"
)


def rows(task: Task) -> Iterator[Row]:
    """Yield a row for each workload of decode-memory, and for some of loader-supply, as in the original."""
    most = 2 if task.quick else _NUM_NATURAL
    samples, _ = require_sound(task.source, open_dataset(task.source), most=most)
    files = [bytes(sample.image or b"") for sample in samples]
    jpegs = [data for data in files if jpeg_process(data) == "baseline"]
    photographs, note = [decode(sample) for sample in samples[: 4 * _NUM_SOURCES]], ""
    if task.folder in Path(task.source).parents:  # JPEGs that were made for this run
        paths = [path for some in shipped_photographs().values() for path in some]
        lossless = [path for path in paths if path.suffix == ".png"]
        photographs = [np.asarray(Image.open(path).convert("RGB")) for path in lossless]
    elif jpegs:
        note = ", from JPEGs"
    sources = _sources(photographs, 1 if task.quick else _NUM_SOURCES)
    grid = [(edge, quality) for edge in _EDGES for quality in _QUALITIES]
    cells = {
        f"{f'{edge} px' if edge else 'native'}, quality {quality}{note}": [
            _encode(pixels, edge, quality) for pixels in sources
        ]
        for edge, quality in ([_SUPPLIED] if task.quick else grid)
    }
    workloads = ({"files as they are": jpegs} if jpegs else {}) | cells
    yield from rows_of_processes(_CONTESTANTS, _tasks("decode-memory", workloads, 0))
    supplied = (
        [*workloads][-1:] if task.quick else ["files as they are", [*cells][grid.index(_SUPPLIED)]]
    )
    some = {name: workloads[name] for name in supplied if name in workloads}
    tasks = _tasks("loader-supply", some, min(_WORKERS_MAX, usable_cores()))
    yield from rows_of_processes((*_CONTESTANTS, _OUR_LOADER), tasks, stretch=_STRETCH)


def _sources(photographs: list[Pixels], count: int) -> list[Pixels]:
    """Return pictures whose long edge has at least 2048 pixels."""
    large = [pixels for pixels in photographs if max(pixels.shape) >= 2048]
    if len(large) >= count:
        return large[:count]
    return [stitch(photographs, (3000, 4000), first=number) for number in range(count)]


def _encode(pixels: Pixels, edge: int | None, quality: int) -> bytes:
    image = Image.fromarray(pixels)
    if edge is not None:
        scale = edge / max(image.size)
        size = round(image.width * scale), round(image.height * scale)
        image = image.resize(size, Image.Resampling.LANCZOS)
    return encode(image, format="jpeg", quality=quality, subsampling="4:2:0")


def _tasks(
    protocol: str, workloads: dict[str, list[bytes]], num_workers: int
) -> dict[str, DecodeTask]:
    return {
        f"{protocol}, {name}": DecodeTask(files, to_files(files).crops, num_workers)
        for name, files in workloads.items()
    }
