"""Photographs of given sizes: real ones, continued by their mirror images until they fill the frame."""

import io
from collections.abc import Mapping, Sequence
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
    paths = jpegs_in(data)
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


def jpegs_in(data: Path) -> list[Path]:
    """The JPEGs of a folder and its subfolders; ImageNet's end with ".JPEG"."""
    return sorted(path for path in data.rglob("*") if path.suffix.lower() in (".jpg", ".jpeg"))


def write_files(folder: Path, contents: Mapping[str, bytes] | Sequence[bytes]) -> Path:
    """Write files by name, or JPEGs whose names are in their order, into a folder that is made."""
    if not isinstance(contents, Mapping):
        contents = {f"{number:05d}.jpg": content for number, content in enumerate(contents)}
    for name, content in contents.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


def _mirrored(offsets: NDArray[np.int64], side: int) -> NDArray[np.int64]:
    folded = offsets % (2 * side)
    mirrored: NDArray[np.int64] = np.minimum(folded, 2 * side - 1 - folded)
    return mirrored
