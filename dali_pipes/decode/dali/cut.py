"""Cutting a crop out of a JPEG with restart markers as a small JPEG of its own, by copying bytes: DALI decodes no more than it.

The cut has the header with another size, the restart intervals ("tiles") that the crop touches with their markers numbered
anew, and an end marker: a baseline JPEG that any decoder reads. No pixel is computed.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dali_pipes.decode.dali.cut_kernel import SPARE, cut_all
from dali_pipes.jpeg.seek_points import spans_of
from readers.sample import Payload

_NO_OFFSETS = np.zeros(0, np.int64)


class Cuts(NamedTuple):
    """Many cuts.

    Attributes:
        data: The encoded bytes of each; where nothing was cut, the caller's own.
        origins: int32 [n, 2]: top and left of its picture in the whole one, both upright.
        sizes: int32 [n, 2]: its height and width; 0 for a file that has no such grid of intervals.
        whole: bool [n]: where nothing was cut.
    """

    data: list[Payload]
    origins: NDArray[np.int32]
    sizes: NDArray[np.int32]
    whole: NDArray[np.bool_]


def cut_many(
    data: Sequence[Payload],
    crops: NDArray[np.int32],
    restarts: Sequence[NDArray[np.int64] | None],
) -> Cuts:
    """Cut a crop out of each of several JPEGs, in one call of compiled code.

    Inside the crop the cut decodes to the pixels of the whole, bit for bit: around it is at least what
    the upsampling of chroma looks at. Along edges that are none of the whole picture the outermost pixels
    may differ.

    Of the application segments those stay that change the decoded colours: JFIF's without its thumbnail,
    and Adobe's; of EXIF the orientation, so that decoders turn the cut as they do the whole.

    Args:
        data: Files.
        crops: int32 [n, 4]: top, left, height and width, inside the upright picture and not empty, in pixels.
        restarts: For each file what `readers.restart_offsets` returns; None to look for them, empty for files that
            have none.

    Returns:
        The cuts. A file is returned as it is where it is no grid of tiles, where `restarts` does not
        belong to it, and where the cut would have nine tenths of its bytes or more.

    Raises:
        ValueError: If a crop lies outside its picture.
    """
    views = [np.frombuffer(part, np.uint8) for part in data]
    files = spans_of(views)
    known = [_NO_OFFSETS if part is None else part for part in restarts]
    stops = np.cumsum([part.size for part in known], dtype=np.int64)
    bounds = np.stack([np.append(np.int64(0), stops[:-1])[: len(known)], stops], axis=1)
    bounds[[part is None for part in restarts]] = (-1, 0)
    offsets = np.concatenate([_NO_OFFSETS, *known])
    out = np.empty(int(files[:, 1].sum()) + SPARE, np.uint8)
    origins, sizes = np.zeros((len(data), 2), np.int32), np.zeros((len(data), 2), np.int32)
    ends = np.zeros(len(data), np.int64)
    bad = cut_all(files, crops, offsets, bounds, out.ctypes.data, origins, sizes, ends)
    if bad >= 0:
        raise ValueError(_refusal(crops, sizes, bad))
    lengths = np.diff(ends, prepend=0)
    buffer = memoryview(out.data)
    spans = zip(data, ends.tolist(), lengths.tolist(), strict=True)
    cuts = [buffer[end - length : end] if length else whole for whole, end, length in spans]
    return Cuts(cuts, origins, sizes, lengths == 0)


def _refusal(crops: NDArray[np.int32], sizes: NDArray[np.int32], row: int) -> str:
    crop, size = tuple(crops[row].tolist()), tuple(sizes[row].tolist())
    return (
        f"crops[{row}] must not be empty and must lie inside the picture of (height, width) = {size}, "
        f"got (top, left, height, width) = {crop}; clip it"
    )
