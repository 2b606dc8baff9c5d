"""Augmentation for peers that only load: OpenCV decodes, Albumentations transforms, as in our own baseline.

It is the fastest of the usual ways on a CPU, so that a peer is not held back by the choice.
"""

from typing import Any

import numpy as np
import torch

from bench.baselines.translations import albumentations_compose
from gpu_aug import Recipe

NOTE = "cv2.imdecode, then Albumentations, whose resizing is not antialiased"


class Augment:
    """From encoded bytes to a tensor [3, height, width] of a dtype; can be pickled for workers."""

    def __init__(self, recipe: Recipe, dtype: torch.dtype) -> None:
        self._transform = albumentations_compose(recipe)
        self._dtype = dtype

    def __call__(self, encoded: Any) -> torch.Tensor:
        """Decode and transform one image."""
        import cv2

        cv2.setNumThreads(0)  # the workers are the threads
        image = cv2.imdecode(np.frombuffer(encoded, np.uint8), cv2.IMREAD_COLOR_RGB)
        tensor: torch.Tensor = self._transform(image=image)["image"]
        return tensor.to(self._dtype)
