"""Batches for the CUDA JPEG decoder: files with their seek points, crops, canvases, and the pixels that are right."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from dali_pipes.decode.cuda_jpeg.batch import (
    Kernels,
    Planned,
    Planner,
    Wanted,
    files_of,
    launch,
)
from dali_pipes.decode.jpeg_batch import crops_of
from dali_pipes.jpeg.checkpoints import Checkpoints, find_checkpoints, listed
from dali_pipes.jpeg.spans import spans_of
from dali_pipes.jpeg.status import GOOD
from dali_pipes.pipeline.canvases import addresses_of
from gpu_aug import Normalize, RandomResizedCrop, Recipe
from gpu_aug.resampling.crop_and_resize import resample
from readers import read_header
from readers.cores import usable_cores


class JpegBatch:
    """A batch of one view, to be rendered on canvases full of a colour that no picture has.

    Args:
        encoded: JPEGs.
        side: Height and width of the crops, which are drawn as a training recipe does; None decodes full images.
        device: Where the canvases are.
        every: MCUs between the seek points that the decoder gets; 0 for none.

    Attributes:
        files: The JPEGs with their seek points.
        wanted: Their crops, and where those go.
        crops: The same crops as recipes draw them.
        canvases: uint8 [height, width, 3] each, on the device.
    """

    def __init__(
        self, encoded: Sequence[bytes], side: int | None, device: torch.device, every: int
    ) -> None:
        from dali_pipes.decode.jpeg_batch_kernel import RECT

        self.encoded = encoded
        headers = [read_header(data) for data in encoded]
        sizes = np.array([(header.height, header.width) for header in headers], np.int64)
        recipe = Recipe([RandomResizedCrop(side) if side else Normalize()])
        self.crops = crops = recipe.draw(0, 0, np.arange(len(sizes)), sizes).crops
        self.canvases = [
            torch.full((*size, 3), 171, dtype=torch.uint8, device=device)
            for size in crops.canvas.tolist()
        ]
        parts = np.hstack([crops.start, crops.shape], dtype=np.int64).view(RECT)[:, 0]
        places = addresses_of(self.canvases, np.arange(len(sizes)))
        antialias = np.array([crops.antialias])
        self.wanted = Wanted(sizes, parts, crops_of(crops)[None], places[None], antialias)
        held = [np.frombuffer(data, np.uint8) for data in encoded]
        known = listed(_seek_points(encoded, every))
        files = (held, known.held)
        self.files = files_of(spans_of(held), [None] * len(encoded), known.files, files)

    def __len__(self) -> int:
        return len(self.encoded)

    def plan(self, planner: Planner) -> Planned:
        """Do the host's part."""
        return planner.plan(self.files, self.wanted)

    def render(self, kernels: Kernels) -> NDArray[np.int32]:
        """Fill the canvases; return the status of each image, int32 [n]."""
        planned = self.plan(Planner(pinned=kernels.device.type == "cuda"))
        launched = launch(planned, kernels)
        statuses, is_here = planned.statuses.copy(), planned.numbers >= 0
        statuses[is_here] = launched.statuses.cpu().numpy()[planned.numbers[is_here]]
        return statuses

    def difference(self, number: int) -> tuple[int, int]:
        """Compare a canvas with what OpenCV and torch make of its file on the CPU.

        Returns:
            The largest difference, and that of the negative of the right pixels, as a control.
        """
        import cv2

        decoded: Any = cv2.imdecode(np.frombuffer(self.encoded[number], np.uint8), cv2.IMREAD_COLOR)
        right = torch.empty((*self.crops.canvas[number].tolist(), 3), dtype=torch.uint8)
        image = torch.from_numpy(np.ascontiguousarray(decoded[..., ::-1]))
        resample(image, self.crops, number, right)
        canvas = self.canvases[number].cpu().short()
        gaps = [int((canvas - other.short()).abs().max()) for other in (right, 255 - right)]
        return gaps[0], gaps[1]


def _seek_points(encoded: Sequence[bytes], every: int) -> list[Checkpoints | None]:
    """Find the seek points of baseline JPEGs; None for others."""
    if not every:
        return [None] * len(encoded)
    with ThreadPoolExecutor(usable_cores()) as pool:
        found = list(pool.map(lambda data: find_checkpoints(data, every), encoded))
    return [Checkpoints(status, every, rows) if status == GOOD else None for status, rows in found]
