"""Encoded images of other kinds than RGB of 8 bits, and tars of samples, written by the formats' own libraries."""

import io
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import tifffile
from numpy.typing import NDArray
from PIL import Image

Pixels = NDArray[Any]


def noise(
    channels: int, dtype: str = "uint16", size: tuple[int, int] = (14, 18), seed: int = 0
) -> Pixels:
    """Random numbers [H, W, channels], [H, W] for one channel; floats lie from -1000 to 1000."""
    shape = (*size, channels) if channels > 1 else size
    drawn = np.random.default_rng(seed).integers(0, 65536, shape)
    if dtype == "uint8":
        return (drawn >> 8).astype(np.uint8)
    return drawn.astype(np.uint16) if dtype == "uint16" else (drawn / 32.768 - 1000).astype(dtype)


def tiff(pixels: Pixels, **options: Any) -> bytes:
    """By tifffile; bands lie pixel by pixel unless something else is said."""
    given = {"photometric": "minisblack", "planarconfig": "contig" if pixels.ndim == 3 else None}
    stream = io.BytesIO()
    tifffile.imwrite(stream, pixels, **(given | options))
    return stream.getvalue()


def npy(pixels: Pixels) -> bytes:
    """By NumPy."""
    stream = io.BytesIO()
    np.save(stream, pixels)
    return stream.getvalue()


def by_opencv(kind: str, pixels: Pixels) -> bytes:
    """By OpenCV, colours in the order RGB."""
    if pixels.ndim == 3:
        pixels = pixels[..., [2, 1, 0, *range(3, pixels.shape[2])]]
    return bytes(cv2.imencode(f".{kind}", pixels)[1])


def by_pillow(kind: str, image: Image.Image, **options: Any) -> bytes:
    """By Pillow."""
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


def write_tar(path: Path, samples: Sequence[Mapping[str, bytes]]) -> Path:
    """Write the fields of samples as a WebDataset shard, with keys 0000, 0001 and so on."""
    with tarfile.open(path, "w") as tar:
        for number, fields in enumerate(samples):
            for name, data in fields.items():
                member = tarfile.TarInfo(f"{number:04d}.{name}")
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
    return path
