"""What peers share that only load: how an image is augmented, and how their workers become a `Pipeline`.

OpenCV decodes and Albumentations transforms, as in our own baseline: the fastest of the usual ways on a CPU, so that
a peer is not held back by the choice.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from bench.baselines.translations import albumentations_compose
from bench.compare.task import Pipeline, Task
from gpu_aug import Recipe

NUM_AHEAD = 2
"""Batches that a worker prepares, as in torch's DataLoader."""

_NOTE = "cv2.imdecode, then Albumentations, whose resizing is not antialiased"


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


def peer_pipeline(
    note: str, *, num_ahead: int = NUM_AHEAD
) -> Callable[[Callable[[Task], Iterator[torch.Tensor]]], Callable[[Task], Pipeline]]:
    """Turn a function that yields a task's batches on the host into the `start` of a peer.

    Args:
        note: What the library does before images are augmented.
        num_ahead: Batches that each worker prepares.
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
