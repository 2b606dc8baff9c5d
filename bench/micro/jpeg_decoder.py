"""Call our JPEG decoder on the calling thread, as a worker of a DataLoader can."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


class JpegDecoder:
    """Decodes JPEGs, or crops of them, to exactly the pixels of libjpeg-turbo's full image.

    Args:
        side_max: The longest side of an image in pixels, which determines how much memory is reserved.
    """

    def __init__(self, side_max: int) -> None:
        from dali_pipes.jpeg.decode import decode_crop, scratch_bytes

        self._decode_crop = decode_crop
        self._scratch = np.zeros(scratch_bytes(side_max), np.uint8)

    def decode(
        self,
        view: NDArray[np.uint8],
        size: Sequence[int],
        area: Sequence[int],
        *,
        shrink: int = 1,
        seek_points: NDArray[Any] | None = None,
    ) -> NDArray[np.uint8]:
        """Return uint8 [height, width, 3], shrunk.

        Args:
            view: The bytes of a file as uint8 [n].
            size: Height and width of the upright image.
            area: Top, left, height and width of the crop, before shrinking.
            shrink: 1, 2, 4 or 8: the factor by which the image is shrunk.
            seek_points: From `find_seek_points`, with which only the codes that the crop needs are read; None reads
                and judges the complete file.

        Raises:
            RuntimeError: The decoder refuses the file.
        """
        from dali_pipes.jpeg.seek_points import EVERY

        out = np.empty((-(-area[2] // shrink), -(-area[3] // shrink), 3), np.uint8)
        points = (
            (0, 0, 0) if seek_points is None else (seek_points.ctypes.data, len(seek_points), EVERY)
        )
        where = view.ctypes.data, view.size, tuple(area), tuple(size), shrink, np.empty(0, int)
        to = out.ctypes.data, out.strides[0], self._scratch
        status = self._decode_crop(*where, points, seek_points is None, *to)
        if status:
            raise RuntimeError(f"our decoder refuses a file: status {status}")
        return out
