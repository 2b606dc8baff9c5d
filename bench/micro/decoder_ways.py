"""Ways to decode images, each on one thread: our decoder, OpenCV, simplejpeg, and parts of their work."""

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec

import numpy as np
from numpy.typing import NDArray

Pixels = NDArray[np.uint8]


@dataclass(frozen=True)
class Task:
    """Images of one kind.

    Attributes:
        files: Their bytes.
        sizes: int64 [n, 2]: height and width of the upright images.
        crops: int64 [n, 4]: top, left, height and width of a crop of each.
    """

    files: list[bytes]
    sizes: NDArray[np.int64]
    crops: NDArray[np.int64]


Way = Callable[[], Sequence[Pixels]]
"""Decodes all images, or does a part of that work, which gives no pixels."""


def ways_of(kind: str) -> dict[str, Callable[[Task], Way]]:
    """The ways for a kind of files, by name."""
    ways: dict[str, Callable[[Task], Way]] = {}
    if kind in ("baseline jpeg", "progressive jpeg"):
        ways["codes alone, our decoder"] = codes_alone
        ways["whole, our decoder"] = partial(with_ours, whole=True)
        for shrink in (2, 4, 8):
            ways[f"whole at 1/{shrink}, our decoder"] = partial(
                with_ours, whole=True, shrink=shrink
            )
        ways["crop, our decoder, at first"] = with_ours
        ways["crop, our decoder, later"] = partial(with_ours, known=True)
        if find_spec("simplejpeg"):
            ways["whole, simplejpeg"] = with_simplejpeg
    elif kind == "png":
        ways["inflating alone, zlib"] = inflate_alone
    ways["whole, OpenCV"] = with_opencv
    return ways


def with_ours(task: Task, *, whole: bool = False, shrink: int = 1, known: bool = False) -> Way:
    """Our decoder.

    Args:
        task: The images.
        whole: Whether it decodes whole images; else crops.
        shrink: By how much the image is made smaller.
        known: Whether the file was read before: then it is not read as a whole, and begun at checkpoints.
    """
    from dali_pipes.jpeg.checkpoints import EVERY, find_checkpoints
    from dali_pipes.jpeg.decode import decode_crop, scratch_bytes

    views = [np.frombuffer(data, np.uint8) for data in task.files]
    rows = [find_checkpoints(data, EVERY)[1] for data in task.files] if known else []
    scratch, no_offsets = np.zeros(scratch_bytes(int(task.sizes.max())), np.uint8), np.empty(0, int)
    crops = task.crops
    if whole:
        crops = np.hstack([np.zeros_like(task.sizes), task.sizes])

    def run() -> Sequence[Pixels]:
        outs = []
        for number, (view, size, crop) in enumerate(
            zip(views, task.sizes.tolist(), crops.tolist(), strict=True)
        ):
            out = np.empty((-(-crop[2] // shrink), -(-crop[3] // shrink), 3), np.uint8)
            found = (rows[number].ctypes.data, len(rows[number]), EVERY) if known else (0, 0, 0)
            status = decode_crop(
                *(view.ctypes.data, view.size, tuple(crop), tuple(size), shrink, no_offsets),
                *(found, not known, out.ctypes.data, out.strides[0], scratch),
            )
            if status:
                raise RuntimeError(f"our decoder refuses image {number}: status {status}")
            outs.append(out)
        return outs

    return run


def codes_alone(task: Task) -> Way:
    """Read all Huffman codes of each file, as for its verdict."""
    from dali_pipes.jpeg.checkpoints import CHECKPOINT
    from dali_pipes.jpeg.spans import spans_of
    from dali_pipes.jpeg.whole import check_whole, new_scratch

    views = [np.frombuffer(data, np.uint8) for data in task.files]
    statuses, ends = np.empty(len(views), np.int32), np.empty(len(views), np.int64)
    scratch, no_rows = new_scratch(), np.empty(0, CHECKPOINT)

    def run() -> Sequence[Pixels]:
        check_whole(spans_of(views), task.sizes, 0, scratch, statuses, no_rows, ends)
        if statuses.any():
            raise RuntimeError(f"our decoder refuses image {int(np.argmax(statuses))}")
        return []

    return run


def inflate_alone(task: Task) -> Way:
    """Inflate the data of each PNG, and nothing else."""
    streams = [_png_stream(data) for data in task.files]

    def run() -> Sequence[Pixels]:
        for stream in streams:
            zlib.decompress(stream)
        return []

    return run


def _png_stream(data: bytes) -> bytes:
    at, parts = 8, []
    while at + 8 <= len(data):
        size, name = int.from_bytes(data[at : at + 4], "big"), data[at + 4 : at + 8]
        if name == b"IDAT":
            parts.append(data[at + 8 : at + 8 + size])
        at += 12 + size
    return b"".join(parts)


def with_opencv(task: Task) -> Way:
    """OpenCV, the whole image as RGB."""
    import cv2

    views = [np.frombuffer(data, np.uint8) for data in task.files]
    return lambda: [np.asarray(cv2.imdecode(view, cv2.IMREAD_COLOR_RGB)) for view in views]


def with_simplejpeg(task: Task) -> Way:
    """libjpeg-turbo through simplejpeg, which does not turn images as EXIF says."""
    import simplejpeg

    return lambda: [simplejpeg.decode_jpeg(data, "RGB") for data in task.files]
