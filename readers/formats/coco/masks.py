"""Masks from COCO's polygons and run lengths, and PNG files of masks, written and read."""

import io
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from readers.describe import without_addresses
from readers.detect.registry import require
from readers.image.header import read_header
from readers.sample import HeaderError, Payload
from readers.storage.limits import check_bytes

_MAX_PIXELS = 1 << 28  # of one mask, which takes a byte each; the limits of the decoders lie below


def rasterise(segmentation: Any, height: int, width: int) -> NDArray[np.bool_]:
    """Return the mask of one object.

    COCO's own API (pycocotools) rasterises polygons. The parts of an object are joined.

    Args:
        segmentation: A list of polygons [x, y, x, y, ...], or {"counts": ..., "size": [height, width]} with
            run lengths down the columns, as numbers or as COCO's text.
        height: Height of the image, in pixels.
        width: Width of the image, in pixels.

    Returns:
        bool [height, width].

    Raises:
        ValueError: The segmentation is none of these, or has another size; the text is a short reason.
        SourceError: The segmentation is a polygon, and pycocotools is not installed.
    """
    if not 0 < height * width <= _MAX_PIXELS:
        raise ValueError(f"an image of {height}x{width} has no masks")
    if isinstance(segmentation, dict):
        return _from_runs(segmentation, height, width)
    if not isinstance(segmentation, list) or not segmentation:
        raise ValueError("a segmentation must be polygons or run lengths")
    for polygon in segmentation:
        _check_polygon(polygon)
    api = require("pycocotools.mask", extra="coco")
    runs = api.merge(api.frPyObjects(segmentation, height, width))["counts"]
    return _from_runs({"counts": runs.decode(), "size": [height, width]}, height, width)


def extent(segmentation: Any, size: tuple[int, int] | None) -> list[float]:
    """Return the box around an object's outline: left, top, right, bottom.

    Args:
        segmentation: As for `rasterise`; the box of polygons is around their corners, that of run lengths around the pixels.
        size: Height and width that run lengths must have; None if they are unknown.

    Raises:
        ValueError: The segmentation is none of these, or has no area; the text is a short reason.
    """
    if isinstance(segmentation, dict):
        mask = _from_runs(segmentation, *(size or (0, 0)))
        rows, columns = (np.flatnonzero(mask.any(axis)) for axis in (1, 0))
        if not rows.size:
            raise ValueError("its run lengths hold no pixel")
        return [int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1]
    if not isinstance(segmentation, list) or not segmentation:
        raise ValueError("a segmentation must be polygons or run lengths")
    corners = np.concatenate([_check_polygon(one) for one in segmentation]).reshape(-1, 2)
    (left, top), (right, bottom) = corners.min(0).tolist(), corners.max(0).tolist()
    if left >= right or top >= bottom:
        raise ValueError("its outline has no area")
    return [left, top, right, bottom]


def mask_fields(masks: Iterable[NDArray[np.bool_]]) -> dict[str, bytes]:
    """Return the masks of objects as fields: PNG files of one channel, 0 and 1."""
    return {f"mask.{number}.png": write_png(mask) for number, mask in enumerate(masks)}


def write_png(pixels: NDArray[np.bool_] | NDArray[np.uint8]) -> bytes:
    """Return a PNG file of one channel, with one bit per pixel for truth values."""
    from PIL import Image

    with io.BytesIO() as file:
        Image.fromarray(pixels).save(file, "PNG", compress_level=1)
        return file.getvalue()


def read_png(data: Payload, where: str, pixel_bytes: int, mode: str = "") -> NDArray[Any]:
    """Return the pixels of a PNG file, [height, width] or [height, width, channels].

    Args:
        data: The bytes of the file.
        where: Name of the image in errors.
        pixel_bytes: Memory that the caller takes per pixel, in bytes.
        mode: Mode of Pillow to convert the pixels to; "" returns them as stored.

    Raises:
        ValueError: The file cannot be decoded, or its pixels take too much memory.
    """
    from PIL import Image

    try:
        header = read_header(data)
        check_bytes(pixel_bytes * header.height * header.width, where)
        with Image.open(io.BytesIO(data), formats=("PNG",)) as opened:
            return np.asarray(opened.convert(mode) if mode else opened)
    except (HeaderError, OSError, SyntaxError) as error:
        raise ValueError(f"{where} cannot be decoded: {without_addresses(str(error))}") from None


def _check_polygon(polygon: Any) -> NDArray[np.float64]:
    """Return the corners of a polygon.

    Raises:
        ValueError: pycocotools would read the numbers as a box, as other numbers, or draw for hours.
    """
    try:
        corners = np.asarray(polygon, np.float64)
    except (TypeError, ValueError):
        raise ValueError("a polygon must be a list of numbers") from None
    if corners.ndim != 1 or corners.size < 6 or corners.size % 2 or not np.isfinite(corners).all():
        raise ValueError("a polygon must be x and y of three corners or more")
    if np.abs(corners).max() > 1e6:
        raise ValueError("a polygon's corner lies a million pixels away")
    return corners


def _from_runs(segmentation: dict[str, Any], height: int, width: int) -> NDArray[np.bool_]:
    size, counts = segmentation.get("size"), segmentation.get("counts")
    if size != [height, width]:
        raise ValueError(f"its run lengths are of the size {size}, the image of {[height, width]}")
    runs = _unpack(counts) if isinstance(counts, str) else counts
    try:
        lengths = np.asarray(runs, np.int64)
    except (TypeError, ValueError, OverflowError):
        raise ValueError("run lengths must be whole numbers") from None
    if lengths.ndim != 1 or (lengths < 0).any() or (lengths > height * width).any():
        raise ValueError("run lengths must be whole numbers >= 0 within the image")
    if lengths.sum() != height * width:
        raise ValueError(
            f"its run lengths sum up to {lengths.sum()}, not to {height * width} pixels"
        )
    inside = np.repeat(np.arange(len(lengths)) % 2 == 1, lengths)
    return inside.reshape(width, height).T


def _unpack(text: str) -> Sequence[int]:
    """Return the run lengths in COCO's text: five bits per letter; from the third length on, differences to the one before the last."""
    runs: list[int] = []
    number = shift = 0
    for letter in text.encode("ascii", "replace"):
        bits = letter - 48
        if not 0 <= bits < 64 or shift > 60:
            raise ValueError("the text of its run lengths is damaged")
        number |= (bits & 31) << shift
        shift += 5
        if bits & 32:
            continue
        if bits & 16:
            number -= 1 << shift
        runs.append(number + runs[-2] if len(runs) > 2 else number)
        number = shift = 0
    if shift:
        raise ValueError("the text of its run lengths ends within a number")
    return runs
