"""Make photographs of given sizes from real ones, mirrored at their edges until they fill the frame."""

import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

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
