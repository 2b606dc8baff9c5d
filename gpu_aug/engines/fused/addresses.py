"""Memory addresses and strides of images and results, as integers for compiled functions."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Images = Tensor | Sequence[Tensor | None]
"""A tensor is the same as the sequence of its rows."""


def describe_images(images: Images) -> NDArray[np.int64]:
    """Return addresses and strides of images [h, w, 3], uint8 or float32, whose pixels are contiguous within each row.

    Returns:
        int64 [B, 5]: address, 1 if the image is float32, bytes from row to row, height, width; zeros for None.
    """
    if isinstance(images, Tensor):
        return _of_rows(images, _image(images, images.stride(1), images.shape[1:3]))
    return np.array(
        [
            (0,) * 5 if image is None else _image(image, image.stride(0), image.shape[:2])
            for image in images
        ],
        np.int64,
    )


def describe_outs(outs: Images) -> NDArray[np.int64]:
    """Return addresses and strides of results [3, h, w].

    Returns:
        int64 [B, 4]: address, and the strides of channels, rows and columns, in values.
    """
    if isinstance(outs, Tensor):
        return _of_rows(outs, (outs.data_ptr(), *outs.stride()[1:]))
    return np.array([(out.data_ptr(), *out.stride()) for out in outs if out is not None], np.int64)


def _image(image: Tensor, row: int, size: Sequence[int]) -> tuple[int, ...]:
    is_float = image.dtype == torch.float32
    return image.data_ptr(), is_float, row * (4 if is_float else 1), *size


def _of_rows(batch: Tensor, first: tuple[int, ...]) -> NDArray[np.int64]:
    """Return the description of every row of a batch, computed from that of its first row."""
    num, step = batch.shape[0], batch.stride(0) * batch.itemsize
    described = np.empty((num, len(first)), np.int64)
    described[:] = first
    described[:, 0] += np.arange(num) * step
    return described
