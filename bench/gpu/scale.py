"""Define sizes, durations and photographs for the steps of a visit (a run on a GPU machine), and measure for these steps."""

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from bench.gpu.rows import Row
from bench.timing import Busy, Measurement, synchronise, take_turn
from gpu_aug.compiled.clock import clock

Size = tuple[int, int]
"""Height and width."""

# OpenCV's constants for chroma samplings.
_FACTORS = {"4:4:4": 0x111111, "4:2:2": 0x211111, "4:2:0": 0x221111, "4:4:0": 0x121111, "4:1:1": 0x411111}  # fmt: skip

SAMPLINGS = (*_FACTORS, "gray")
"""Kinds of JPEGs that `encode` writes."""


def find_jpegs(data: Path) -> list[Path]:
    """Return the JPEGs of a folder and its subfolders, including ImageNet's ".JPEG"."""
    return sorted(path for path in data.rglob("*") if path.suffix.lower() in (".jpg", ".jpeg"))


def cut_photographs(
    data: Path, size: Size, count: int, *, seed: int = 0
) -> Iterator[NDArray[np.uint8]]:
    """Yield different photographs of one size, uint8 [height, width, 3].

    Args:
        data: A folder of JPEGs.
        size: Height and width.
        count: Count of photographs.
        seed: Seed of the positions of the crops.
    """
    paths = find_jpegs(data)
    rng = np.random.default_rng(seed)
    for number in range(count):
        with Image.open(paths[number * len(paths) // count % len(paths)]) as opened:
            pixels = np.asarray(opened.convert("RGB"))
        offsets = []
        for side, length in zip(size, pixels.shape, strict=False):
            folded = (int(rng.integers(length)) + np.arange(side)) % (2 * length)
            offsets.append(np.minimum(folded, 2 * length - 1 - folded))
        yield pixels[np.ix_(*offsets)]


def photographs(data: Path, size: Size, count: int) -> list[bytes]:
    """Return the photographs of `cut_photographs` as baseline JPEGs, 4:2:0."""
    return [encode(pixels, "4:2:0") for pixels in cut_photographs(data, size, count)]


def encode(
    image: NDArray[np.uint8],
    sampling: str,
    *,
    quality: int = 90,
    restart: int = 0,
    orientation: int = 0,
) -> bytes:
    """Return an image as a baseline JPEG.

    Args:
        image: uint8 [height, width, 3].
        sampling: One of SAMPLINGS.
        quality: 1 to 100.
        restart: MCUs between restart markers; 0 for none.
        orientation: EXIF orientation, 1 to 8; 0 writes no EXIF.
    """
    import cv2

    options = [cv2.IMWRITE_JPEG_QUALITY, quality, cv2.IMWRITE_JPEG_RST_INTERVAL, restart]
    if sampling == "gray":
        stored: Any = image[..., 0]
    else:
        stored = image[..., ::-1]  # OpenCV's channel order is BGR
        options += [cv2.IMWRITE_JPEG_SAMPLING_FACTOR, _FACTORS[sampling]]
    _, encoded = cv2.imencode(".jpg", np.ascontiguousarray(stored), options)
    data: bytes = encoded.tobytes()
    if not orientation:
        return data
    entry = struct.pack(">HHIHH", 274, 3, 1, orientation, 0)
    exif = b"Exif\0\0" + b"MM\0*" + struct.pack(">IH", 8, 1) + entry + bytes(4)
    return data[:2] + b"\xff\xe1" + struct.pack(">H", len(exif) + 2) + exif + data[2:]


@contextmanager
def temporary_files(contents: Sequence[bytes]) -> Iterator[Path]:
    """Return a context manager that writes JPEGs, named by their order, to a temporary folder and yields its path."""
    with TemporaryDirectory(prefix="gpu-aug-") as folder:
        for number, content in enumerate(contents):
            (Path(folder) / f"{number:05d}.jpg").write_bytes(content)
        yield Path(folder)


@dataclass(frozen=True)
class Scale:
    """Sizes and durations of the measurements, for a visit or for a rehearsal on the CPU.

    Attributes:
        device: The device of all work.
        batch_size: Images per batch by default.
        side: Height and width of augmented images.
        seconds: Length in seconds of one turn (timed interval) of a measurement.
        pictures: For each size of photographs, the count of photographs and the batch size for decoding.
    """

    device: torch.device
    batch_size: int
    side: int
    seconds: float
    pictures: Mapping[Size, tuple[int, int]]

    @property
    def on_gpu(self) -> bool:
        """Whether this is a visit to a GPU machine, not a rehearsal on the CPU."""
        return self.device.type == "cuda"


def scale_for(*, rehearse: bool) -> Scale:
    """Return the scale of a visit, or of a rehearsal on the CPU.

    Raises:
        RuntimeError: A visit was requested without a GPU.
    """
    if rehearse:
        few = {(375, 500): (4, 4), (720, 1280): (2, 2)}
        return Scale(torch.device("cpu"), 8, 32, 0.007, few)
    if not torch.cuda.is_available():
        raise RuntimeError("torch sees no CUDA device; without one there is only --rehearse")
    sizes = {(375, 500): (256, 256), (1080, 1920): (48, 64)}
    return Scale(torch.device("cuda", 0), 256, 224, 0.4, sizes)


def measure_rate(
    row: Row,
    call: Callable[[], Any],
    scale: Scale,
    *,
    count: Callable[[Any], int] = len,
    discard: int = 2,
    seconds: float | None = None,
    turns: int = 3,
) -> Measurement:
    """Fill in a row with items per second, and the utilisation of the GPU's engines.

    Args:
        row: The row of results, written.
        call: A function that makes one batch.
        scale: The device and the duration.
        count: A function that returns the count of items of a batch.
        discard: How many batches to take before timing starts: at least as many as are prepared ahead.
        seconds: Length of a turn (timed interval) on a GPU; None uses `scale.seconds`.
        turns: Count of consecutive turns.
    """
    if seconds is None or not scale.on_gpu:
        seconds = scale.seconds
    for _ in range(discard if scale.on_gpu else min(discard, 1)):
        call()
    finish = partial(synchronise, scale.device)
    with Busy(scale.device) as busy:
        taken = [take_turn(call, seconds=seconds, count=count, finish=finish) for _ in range(turns)]
    row.facts |= busy.found
    measured = Measurement(tuple(taken))
    row.put_runs(measured.rates)
    return measured


def host_us(call: Callable[[], Any], scale: Scale, calls: int) -> list[float]:
    """Return for each of some calls the microseconds until it returned; the device is idle before each call.

    Does not use `take_turn`, which reads all processes at both ends of a turn, so that such short calls would find cold caches.
    """
    found = []
    for _ in range(calls if scale.on_gpu else 2):
        synchronise(scale.device)
        began = clock()
        call()
        found.append(1e6 * (clock() - began))
    return found


def kernel_us(call: Callable[[], Any], calls: int) -> dict[str, float]:
    """Return the GPU time of each kernel in microseconds per call of the function, longest first."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as trace:
        for _ in range(calls):
            call()
        torch.cuda.synchronize()
    spent = {
        event.key[:80]: round(event.self_device_time_total / calls, 1)
        for event in trace.key_averages()
        if event.self_device_time_total > 0 and not event.key.startswith("Memcpy")
    }
    return dict(sorted(spent.items(), key=lambda item: -item[1]))
