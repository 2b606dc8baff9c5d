"""Operations on one 8-bit image [H, W, 3] on the CPU that only OpenCV offers; all engines use them."""

from typing import Any

import cv2
import numpy as np
import torch
from numpy.typing import NDArray

from gpu_aug.ops.color.lookup_tables import Equalize
from gpu_aug.ops.imported.tones import EqualizeLuma

Image8 = NDArray[np.uint8]


def clahe(image: Image8, clip_limit: float, tile_grid_size: tuple[int, int]) -> Image8:
    """Return an RGB image with its Lab lightness equalized tile by tile, with limited contrast (CLAHE)."""
    lab: Any = cv2.cvtColor(image, cv2.COLOR_RGB2LAB)
    call = cv2.createCLAHE(clipLimit=float(clip_limit), tileGridSize=tile_grid_size)
    lab[..., 0] = call.apply(np.ascontiguousarray(lab[..., 0]))
    result: Image8 = cv2.cvtColor(lab, cv2.COLOR_LAB2RGB)
    return result


def lightness(image: Image8) -> Image8:
    """Return the Lab lightness of an RGB image, 0 to 255, repeated in three channels."""
    lab: Any = cv2.cvtColor(image, cv2.COLOR_RGB2LAB)
    return np.repeat(lab[..., :1], 3, axis=2)


def equalize_luma(image: Image8, operation: EqualizeLuma) -> Image8:
    """Return an RGB image with its luma histogram equalized and its chroma unchanged."""
    parts: Any = cv2.cvtColor(image, cv2.COLOR_RGB2YCrCb)
    num = torch.from_numpy(np.bincount(parts[..., 0].ravel(), minlength=256))
    table = Equalize(method=operation.method).tables(num[None, None])[0, 0].numpy()
    parts[..., 0] = table[parts[..., 0]]
    result: Image8 = cv2.cvtColor(parts, cv2.COLOR_YCrCb2RGB)
    return result
