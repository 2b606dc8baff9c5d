"""Photographs of given sizes: real ones, continued by their mirror images until they fill the frame."""

import io
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

_QUALITY = 90


def photographs(data: Path, size: tuple[int, int], count: int, *, seed: int = 0) -> list[bytes]:
    """Encode baseline JPEGs, 4:2:0, of one size.

    Args:
        data: A folder of JPEGs.
        size: Height and width.
        count: How many, all different.
        seed: Of what is cut out.
    """
    paths = sorted(data.rglob("*.jpg"))
    rng = np.random.default_rng(seed)
    encoded = []
    for number in range(count):
        with Image.open(paths[number * len(paths) // count % len(paths)]) as opened:
            pixels = np.asarray(opened.convert("RGB"))
        top, left = (int(rng.integers(side)) for side in pixels.shape[:2])
        rows = _mirrored(top + np.arange(size[0]), pixels.shape[0])
        columns = _mirrored(left + np.arange(size[1]), pixels.shape[1])
        stream = io.BytesIO()
        Image.fromarray(pixels[np.ix_(rows, columns)]).save(
            stream, "JPEG", quality=_QUALITY, subsampling="4:2:0"
        )
        encoded.append(stream.getvalue())
    return encoded


def bits_per_pixel(encoded: list[bytes], size: tuple[int, int]) -> float:
    """Of compressed data, on average."""
    return round(8 * sum(map(len, encoded)) / len(encoded) / (size[0] * size[1]), 2)


def _mirrored(places: NDArray[np.int64], side: int) -> NDArray[np.int64]:
    folded = places % (2 * side)
    mirrored: NDArray[np.int64] = np.minimum(folded, 2 * side - 1 - folded)
    return mirrored
