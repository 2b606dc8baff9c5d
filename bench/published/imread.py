"""Rebuild imread_benchmark: decoders of JPEGs on one thread, and in the workers of a DataLoader."""

from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from bench.compare.contract import Contestant
from bench.compare.images import require_sound
from bench.compare.photographs import shipped_photographs, stitch
from bench.micro.pictures import decode
from bench.micro.rows import Row, Task
from bench.published.imread_decoders import BATCH_SIZE, LIBRARIES, TOLERANCE, DecodeTask, Protocol
from bench.published.processes import rows_of_processes
from gpu_aug import RandomResizedCrop, Recipe
from readers import open_dataset, read_header
from readers.cores import usable_cores
from readers.image.jpeg_process import jpeg_process

MEANING = (
    "Time per image; speed relative to Pillow. decode-memory: bytes in memory to a C-contiguous RGB array of uint8, one thread. "
    f"loader-supply: a DataLoader over bytes in memory, batches of {BATCH_SIZE}, up to 8 workers, as many as there are cores, turns five times as long. "
    "Controlled files: a long edge in pixels and a quality, encoded by Pillow (4:2:0, baseline, Lanczos). Sources smaller than "
    "2048 px are stitched from unscaled parts of photographs (native: 12 MP). Crops are those of a RandomResizedCrop(224): less work. "
    f"A decoder that differs from Pillow by more than {TOLERANCE:.0f} of 255 on average is refused."
)

_EDGES = (512, 1024, 2048, None)  # None: the size of the source
_QUALITIES = (50, 75, 90, 95)
_NUM_SOURCES = 4  # one of 12 MP takes as long as about 60 of ImageNet's size
_NUM_SAMPLES = (
    128  # files as they are: four batches, few enough that every turn decodes all of them
)
_STITCHED = (3000, 4000)
_WORKERS_MAX = 8  # as in the original
_SUPPLIED = (
    512,
    90,
)  # of the controlled files, those of ImageNet's size, of which our Loader can make batches
_STRETCH = 5  # a batch of 32 must be short in a turn

_LIBRARIES = tuple(
    Contestant(
        name,
        "baseline",
        "bench.published.imread_decoders:start",
        {"library": name},
        peer={"Pillow": "", "OpenCV": "", "torchvision": "", "TensorFlow": "tensorflow"}.get(
            name, "imread"
        ),
    )
    for name in LIBRARIES
)
_OURS = tuple(
    Contestant(
        f"gpu-aug, {part}",
        "engine",
        "bench.published.imread_decoders:start_ours",
        {"is_crop": part != "full image", "is_known": part.startswith("crop with")},
    )
    for part in ("full image", "crop (less work)", "crop with seek points (less work)")
)
_OUR_LOADER = Contestant(
    "gpu-aug Loader", "engine", "bench.published.imread_decoders:start_our_loader"
)


def rows(task: Task) -> Iterator[Row]:
    """Yield a row for each workload of decode-memory, and for some of loader-supply, as in the original."""
    contestants = [*_LIBRARIES, *_OURS]
    sources, note = _sources(task)
    workloads = {"files as they are": _natural(task)} | {
        f"{edge or 'native'} px, quality {quality}{note}": _encode(sources, edge, quality)
        for edge in _EDGES
        for quality in _QUALITIES
        if not task.quick or (edge, quality) == _SUPPLIED
    }
    folder = task.folder
    tasks = {
        f"decode-memory, {name}": _decode_task(files, "decode-memory", folder)
        for name, files in workloads.items()
    }
    yield from rows_of_processes(contestants, tasks)
    supplied = ("files as they are", f"{_SUPPLIED[0]} px, quality {_SUPPLIED[1]}{note}")
    tasks = {
        f"loader-supply, {name}": _decode_task(workloads[name], "loader-supply", folder)
        for name in supplied[task.quick :]
    }
    yield from rows_of_processes([*contestants, _OUR_LOADER], tasks, stretch=_STRETCH)


def _natural(task: Task) -> list[bytes]:
    """Return the baseline JPEGs of the data."""
    most = 2 if task.quick else _NUM_SAMPLES
    samples, _ = require_sound(task.source, open_dataset(task.source), most=most)
    files = [bytes(sample.image or b"") for sample in samples]
    return [
        data
        for data in files
        if read_header(data).format == "jpeg" and jpeg_process(data) == "baseline"
    ]


def _sources(task: Task) -> tuple[list[NDArray[np.uint8]], str]:
    """Return pictures whose long edge has at least 2048 pixels, and a note if they come from JPEGs.

    The pictures are photographs, or are stitched from smaller ones.
    """
    note = ""
    if task.folder in Path(task.source).parents:  # JPEGs that were made for this run
        paths = [path for some in shipped_photographs().values() for path in some]
        lossless = [path for path in paths if path.suffix == ".png"]
        photographs = [np.asarray(Image.open(path).convert("RGB")) for path in lossless]
    else:
        samples, _ = require_sound(task.source, open_dataset(task.source), most=4 * _NUM_SOURCES)
        photographs = [decode(sample) for sample in samples]
        if any(read_header(sample.image or b"").format == "jpeg" for sample in samples):
            note = " (sources are JPEGs)"
    count = 1 if task.quick else _NUM_SOURCES
    large = [one for one in photographs if max(one.shape[:2]) >= max(filter(None, _EDGES))]
    if len(large) >= count:
        return large[:count], note
    size = (600, 800) if task.quick else _STITCHED
    return [stitch(photographs, size, first=number) for number in range(count)], note


def _encode(sources: list[NDArray[np.uint8]], edge: int | None, quality: int) -> list[bytes]:
    files = []
    for source in sources:
        image, stream = Image.fromarray(source), BytesIO()
        if edge is not None:
            scale = edge / max(image.size)
            size = round(image.width * scale), round(image.height * scale)
            image = image.resize(size, Image.Resampling.LANCZOS)
        image.save(stream, "JPEG", quality=quality, subsampling="4:2:0")
        files.append(stream.getvalue())
    return files


def _decode_task(files: list[bytes], protocol: Protocol, folder: Path) -> DecodeTask:
    headers = [read_header(data) for data in files]
    sizes = np.array([(header.height, header.width) for header in headers], np.int64)
    crops = Recipe([RandomResizedCrop(224)]).draw(0, 0, np.arange(len(files)), sizes).crops
    areas = np.hstack([crops.start, crops.shape]).astype(int).tolist()
    copy = folder / f"files-{len(list(folder.iterdir()))}"
    copy.mkdir()
    for number, data in enumerate(files):
        (copy / f"{number:04d}.jpg").write_bytes(data)
    workers = min(_WORKERS_MAX, usable_cores())
    return DecodeTask(tuple(files), tuple(map(tuple, areas)), protocol, workers, str(copy))
