"""From a decoded frame to the canvases of its views: only the part that a crop shows is converted and resized."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from dali_pipes.stages.data import needed_part
from dali_pipes.video.color import to_rgb
from gpu_aug import Draws
from gpu_aug.resampling.crop_and_resize import resize_on_canvas
from readers.video import VideoInfo


class _Cut(NamedTuple):
    """A crop of a view, see gpu_aug.Crops; `start` is counted from the part's top left."""

    start: tuple[int, int]
    shape: tuple[int, int]
    resize: tuple[int, int]
    paste: tuple[int, int]
    antialias: bool


class Stencil:
    """The crops of a row, which are the same in all frames of a clip.

    Args:
        draws: One entry per view.
        row: Which row.
        info: Metadata of the video.
    """

    def __init__(self, draws: Sequence[Draws], row: int, info: VideoInfo) -> None:
        starts, shapes = needed_part(draws)
        self._info = info
        self._start, self._shape = _pair(starts[row]), _pair(shapes[row])
        self._cuts = []
        for drawn in draws:
            crops = drawn.crops
            cut = _Cut(
                start=_pair(crops.start[row] - starts[row]),
                shape=_pair(crops.shape[row]),
                resize=_pair(crops.resize[row]),
                paste=_pair(crops.paste[row]),
                antialias=crops.antialias,
            )
            self._cuts.append(cut)

    def render(self, picture: Any, canvases: Sequence[torch.Tensor]) -> None:
        """Render the canvas of each view from a frame.

        Args:
            picture: An `av.VideoFrame` as it is stored, or uint8 [height, width, 3], upright.
            canvases: uint8 [canvas height, canvas width, 3] of each view, written whole.
        """
        (top, left), (height, width) = self._start, self._shape
        if isinstance(picture, np.ndarray):
            part = picture[top : top + height, left : left + width]
        else:
            part = to_rgb(picture, self._info, (top, left, height, width))
        for cut, canvas in zip(self._cuts, canvases, strict=True):
            _resize(part, cut, canvas.numpy())


def _resize(part: NDArray[np.uint8], cut: _Cut, canvas: NDArray[np.uint8]) -> None:
    (top, left), (height, width) = cut.start, cut.shape
    seen = part[top : top + height, left : left + width]
    resize_on_canvas(seen, cut.resize, cut.paste, canvas, antialias=cut.antialias)


def _pair(values: NDArray[np.int32]) -> tuple[int, int]:
    return int(values[0]), int(values[1])
