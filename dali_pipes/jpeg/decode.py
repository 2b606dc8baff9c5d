"""Decode windows of many JPEGs in one call to compiled code."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from readers.sample import Payload


def decode_windows(
    data: Sequence[Payload],
    windows: NDArray[np.int32],
    sizes: NDArray[np.int32],
    shrink: NDArray[np.int32],
    outs: Sequence[NDArray[np.uint8]],
) -> NDArray[np.int32]:
    """Decode the parts of JPEGs that windows show, bit for bit like libjpeg-turbo decodes the whole.

    Args:
        data: The encoded bytes.
        windows: int32 [n, 4]: top, left, height and width in pixels of the upright image, inside it.
        sizes: int32 [n, 2]: expected height and width of the upright image.
        shrink: int32 [n]: 1, 2, 4 or 8.
        outs: uint8 [ceil(height / shrink), ceil(width / shrink), 3] each, pixels side by side, written.

    Returns:
        int32 [n]: 0 where all went well, else a place in REASONS, and the row is to be decoded otherwise.
    """
    from dali_pipes.jpeg.rows import decode_rows, scratch_bytes

    views = [np.frombuffer(payload, np.uint8) for payload in data]
    statuses = np.empty(len(views), np.int32)
    decode_rows(
        np.array([(view.ctypes.data, view.size) for view in views], np.int64).reshape(-1, 2),
        windows,
        sizes,
        shrink,
        np.array([(out.ctypes.data, out.strides[0]) for out in outs], np.int64).reshape(-1, 2),
        np.empty(scratch_bytes(int(sizes.max(initial=1))), np.uint8),
        statuses,
    )
    return statuses
