"""Help peers that only load images: augment an image, and make a `Pipeline` of batches from their workers.

OpenCV decodes and Albumentations transforms, as in our own baseline. This is the fastest of the common combinations on
a CPU, so the choice does not slow a peer down.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from bench.baselines.translations import albumentations_compose
from bench.compare.task import Pipeline, Task
from gpu_aug import Recipe

NUM_AHEAD = 2
"""How many batches each worker prepares, as in torch's DataLoader."""

_NOTE = "cv2.imdecode, then Albumentations, whose resizing is not antialiased"


class Augment:
    """Converts encoded bytes to a tensor [3, height, width] of a dtype; can be pickled for workers."""

    def __init__(self, recipe: Recipe, dtype: torch.dtype) -> None:
        self._transform = albumentations_compose(recipe)
        self._dtype = dtype

    def __call__(self, encoded: Any) -> torch.Tensor:
        """Decode and transform one image."""
        import cv2

        cv2.setNumThreads(0)  # parallelism comes from the workers
        image = cv2.imdecode(np.frombuffer(encoded, np.uint8), cv2.IMREAD_COLOR_RGB)
        tensor: torch.Tensor = self._transform(image=image)["image"]
        return tensor.to(self._dtype)


def peer_pipeline(
    note: str, *, num_ahead: int = NUM_AHEAD
) -> Callable[[Callable[[Task], Iterator[torch.Tensor]]], Callable[[Task], Pipeline]]:
    """Return a decorator that converts a function that yields batches on the host to the `start` of a peer.

    Args:
        note: How the library loads images before they are augmented.
        num_ahead: How many batches each worker prepares.
    """

    def decorate(
        make_batches: Callable[[Task], Iterator[torch.Tensor]],
    ) -> Callable[[Task], Pipeline]:
        def start(task: Task) -> Pipeline:
            batches = (
                batch.to(task.device, task.dtype, non_blocking=True) for batch in make_batches(task)
            )
            ahead = num_ahead * task.num_threads
            return Pipeline(batches, f"{note}; {_NOTE}", ahead, ahead + task.num_threads)

        return start

    return decorate
