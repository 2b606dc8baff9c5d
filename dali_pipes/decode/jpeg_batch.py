"""Rendering the canvases of many JPEGs in one call of compiled code; images that it declines are rendered by other decoders."""

import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dali_pipes.decode.jpeg_files import JpegFiles, look_up
from dali_pipes.jpeg.checkpoints import CheckpointStore
from dali_pipes.jpeg.status import GOOD, NOT_JPEG
from dali_pipes.pipeline.canvases import Canvases
from dali_pipes.pipeline.stages import Fetched, needed_part
from gpu_aug.resampling.crops import Crops
from readers import read_header

# What "fast" leaves for the resampling to shrink: measured in DECISIONS.md.
_FAST_MARGIN = 2.0

# Memory of each thread: new memory would be cleared by the system each time.
_KEPT = threading.local()


def render_rows(
    fetched: Fetched, canvases: Canvases, *, fast: bool, store: CheckpointStore | None = None
) -> NDArray[np.int32]:
    """Render the canvases of the sound baseline JPEGs among some rows.

    Whether a file is sound depends on all of it, not on the part that is needed: the first time it is read as a whole.

    Args:
        fetched: The rows.
        canvases: Their canvases.
        fast: Whether images that are shrunk may be decoded at a smaller size.
        store: Knows the files that were read before, and gets to know the others; with None every time is the first.

    Returns:
        int32 [n], of each row a status of `dali_pipes.jpeg.status`: where it is GOOD the canvases are rendered.
    """
    rows = np.flatnonzero(fetched.kept())
    found = np.full(len(fetched), NOT_JPEG, np.int32)
    if not len(rows):
        return found
    files = look_up(fetched, rows, store)
    found[rows] = files.statuses
    files = files.some(found[rows] == GOOD)
    found[files.rows] = _render(files, canvases, fast=fast)
    # A sound file that cannot be decoded has the checkpoints of another one.
    files = files.some(~files.is_new & (found[files.rows] != GOOD), as_new=True)
    found[files.rows] = _render(files, canvases, fast=fast)
    return found


def _render(files: JpegFiles, canvases: Canvases, *, fast: bool) -> NDArray[np.int32]:
    """Render the canvases of sound files, and of new ones if they are sound: int32 [n], their statuses."""
    statuses = np.empty(len(files), np.int32)
    if not len(files):
        return statuses
    from dali_pipes.decode import jpeg_batch_kernel  # compiles, where that was not done before

    fetched, rows = files.fetched, files.rows
    crops = np.stack([crops_of(drawn.crops, rows) for drawn in fetched.draws])
    antialias = np.array([drawn.crops.antialias for drawn in fetched.draws])
    shrink = np.ones(len(rows), np.int64)
    if fast and antialias.all():
        shrink = _shrink(crops)
        _leave_turned(fetched, rows, shrink)
    parts = parts_of(fetched, rows, shrink)
    encoded = files.encoded()
    jpeg_batch_kernel.render_rows(
        encoded.files,
        fetched.sizes[rows],
        parts,
        shrink,
        encoded.offsets,
        crops,
        canvases.addresses(rows, fetched.draws),
        antialias,
        _memory(fetched.sizes[rows], parts, crops),
        statuses,
    )
    files.keep(encoded, statuses)
    return statuses


def parts_of(
    fetched: Fetched, rows: NDArray[np.int64], shrink: NDArray[np.int64]
) -> NDArray[np.void]:
    """The part of each image that all views need, grown to whole pixels of the shrunk image: RECT [n]."""
    from dali_pipes.decode.jpeg_batch_kernel import RECT

    start, shape = (pair[rows].astype(np.int64) for pair in needed_part(fetched.draws))
    step = shrink[:, None]
    first = start // step * step
    last = np.minimum(-(-(start + shape) // step) * step, fetched.sizes[rows])
    return _records(RECT, first, last - first)


def crops_of(crops: Crops, rows: NDArray[np.int64]) -> NDArray[np.void]:
    """The crops of rows, CROP [n]."""
    from dali_pipes.decode.jpeg_batch_kernel import CROP

    pairs = (crops.start, crops.shape, crops.resize, crops.paste)
    return _records(CROP, *(pair[rows] for pair in pairs))


def _records(dtype: np.dtype[np.void], *pairs: NDArray[Any]) -> NDArray[np.void]:
    """Records whose fields are columns of whole numbers, one after the other."""
    return np.concatenate(pairs, axis=1, dtype=np.int64).view(dtype)[:, 0]


def _shrink(crops: NDArray[np.void]) -> NDArray[np.int64]:
    """By how much each image may be shrunk while it is decoded: int64 [n], 1, 2, 4 or 8."""
    by_height = crops["height"] / crops["resize_height"]
    by_width = crops["width"] / crops["resize_width"]
    shrinking = np.minimum(by_height, by_width).min(axis=0) / _FAST_MARGIN
    exponents: NDArray[np.float64] = np.clip(np.floor(np.log2(shrinking)), 0, 3)
    return np.exp2(exponents).astype(np.int64)


def _leave_turned(fetched: Fetched, rows: NDArray[np.int64], shrink: NDArray[np.int64]) -> None:
    """Do not shrink images whose pixels, shrunk as they are stored, would lie between those wanted.

    Shrunk pixels are counted from the stored image's top left, which EXIF may turn to another corner.
    """
    for number in np.flatnonzero(shrink > 1).tolist():
        row = int(rows[number])
        whole = not (fetched.sizes[row] % shrink[number]).any()
        data = fetched.data[row]
        if not whole and data is not None and read_header(data).orientation != 1:
            shrink[number] = 1


def _memory(
    sizes: NDArray[np.int64], parts: NDArray[np.void], crops: NDArray[np.void]
) -> tuple[NDArray[np.uint8], ...]:
    """Scratch for decoding any of the images, room for any of the parts, and scratch for resizing."""
    from dali_pipes.jpeg.progressive.memory import scratch_bytes as decoding_bytes
    from gpu_aug.resampling.bilinear import scratch_bytes as resizing_bytes

    sides = ("height", "width", "resize_height", "resize_width")
    needed = (
        decoding_bytes(int(sizes.max())),
        int((parts["height"] * parts["width"]).max()) * 3,
        resizing_bytes(*(int(crops[side].max()) for side in sides)),
    )
    kept: Any = getattr(_KEPT, "memory", (np.empty(0, np.uint8),) * 3)
    _KEPT.memory = tuple(
        have if have.size >= size else np.zeros(size, np.uint8)
        for have, size in zip(kept, needed, strict=True)
    )
    memory: tuple[NDArray[np.uint8], ...] = _KEPT.memory
    return memory
