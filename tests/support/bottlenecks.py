"""Input pipelines with a known bottleneck: slow storage, large photographs, a heavy recipe, cores that others take.

    python -m tests.support.bottlenecks photos/     # a loader of validation images that never stops

Each dominates by far, so that what limits is beyond doubt on a machine of any speed and load.
"""

import io
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from dali_pipes import Loader
from gpu_aug import (
    ColorJitter,
    ElasticTransform,
    GaussianBlur,
    Normalize,
    RandomAffine,
    RandomPerspective,
    RandomResizedCrop,
    Recipe,
)
from readers import open_dataset
from readers.cores import usable_cores
from tests.support.s3_server import ROOT, storage

LARGE = (3000, 4000)  # 12 megapixels


def photograph(height: int, width: int, *, seed: int = 0, quality: int = 90) -> bytes:
    """A JPEG with the shapes of a photograph and the noise of a sensor, about 3 bits per pixel."""
    return encode(_picture(height, width, seed), quality)


def encode(picture: NDArray[np.uint8], quality: int = 90, *options: int) -> bytes:
    """A picture as a JPEG of OpenCV's; `options` are pairs of its flags and their values."""
    _, encoded = cv2.imencode(".jpg", picture, [cv2.IMWRITE_JPEG_QUALITY, quality, *options])
    return bytes(encoded)


def small_photographs(folder: Path, count: int = 64) -> Path:
    """A tar shard of photographs of 320x240, about 20 kB each, with labels."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "train-000.tar"
    with tarfile.open(path, "w") as archive:
        for number in range(count):
            _add(archive, f"{number:04d}.jpg", photograph(240, 320, seed=number))
            _add(archive, f"{number:04d}.cls", str(number % 10).encode())
    return path


def large_photographs(folder: Path, count: int = 3) -> Path:
    """A folder of photographs of 12 megapixels, about 4 MB each."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        (folder / f"{number}.jpg").write_bytes(photograph(*LARGE, seed=number))
    return folder


@contextmanager
def slow_storage(
    folder: Path, *, bytes_per_second: float = 0.0, latency_seconds: float = 0.0
) -> Iterator[str]:
    """Serve a folder by HTTP on this machine, with so many bytes per second in all and a wait before each answer; the URL."""
    with storage(folder) as server:
        server.faults(bytes_per_second=bytes_per_second, delay=latency_seconds)
        yield server.url


def heavy_recipe(size: int = 128) -> Recipe:
    """A recipe that costs a CPU many times what decoding a small photograph does."""
    warps = [
        RandomAffine(20.0, (0.1, 0.1), (0.8, 1.2)),
        GaussianBlur(15, (2.0, 3.0)),
        RandomPerspective(0.4, p=1.0),
        GaussianBlur(15, (2.0, 3.0)),
        ElasticTransform(),
        GaussianBlur(15, (2.0, 3.0)),
        ColorJitter(0.4, 0.4, 0.4, 0.1),
    ]
    return Recipe([RandomResizedCrop(size), *warps, Normalize()])


def light_recipe(size: int = 64) -> Recipe:
    """A recipe that costs next to nothing."""
    return Recipe([RandomResizedCrop(size), Normalize()])


@contextmanager
def busy_cores(times: int = 3) -> Iterator[None]:
    """Let so many processes for each core compute without end, as the loaders of other runs do."""
    with ExitStack() as stack:
        for _ in range(times * usable_cores()):
            process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
            stack.callback(process.wait)
            stack.callback(process.kill)
        yield


@contextmanager
def other_loader(folder: Path) -> Iterator[None]:
    """Let a loader of another process go through a folder without end, as one for validation beside training does."""
    command = [sys.executable, "-m", "tests.support.bottlenecks", str(folder)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            assert process.stdout.readline() == "begun\n"
            yield
        finally:
            process.kill()


def load_without_end(folder: str) -> None:
    """Load batches with all cores, and say on standard output when the first has come."""
    loader = Loader(open_dataset(folder), heavy_recipe(), batch_size=8, device="cpu", decoder="cpu")
    said = False
    while True:
        for _ in loader:
            if not said:
                print("begun", flush=True)  # noqa: T201
                said = True


def _picture(height: int, width: int, seed: int) -> NDArray[np.uint8]:
    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, 256, (12, 16, 3)).astype(np.uint8)
    smooth = cv2.resize(coarse, (width, height), interpolation=cv2.INTER_CUBIC)
    noise = np.empty((height, width, 3), np.int8)
    cv2.randn(noise, 0, 6)
    return np.asarray(cv2.add(smooth, noise, dtype=cv2.CV_8U), np.uint8)


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(data)
    archive.addfile(member, io.BytesIO(data))


if __name__ == "__main__":
    load_without_end(sys.argv[1])
