"""Rebuild Albumentations' image benchmark: single transforms on single photographs, one thread."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from bench.micro.pictures import load_photographs
from bench.micro.rows import Row, Task, contestants_of
from bench.published.albumentations_ops import ALBUMENTATIONS_OPS, LEFT_OUT, PIPELINES
from bench.published.operations import Op, Pictures, Work, albumentations_work
from bench.timing import one_thread

_COUNT = len(ALBUMENTATIONS_OPS) + len(LEFT_OUT)
_REASONS = ", ".join(f"{name} ({reason})" for name, reason in LEFT_OUT.items())
MEANING = (
    f"Time per photograph on one CPU thread, decoded, in its own size; speed relative to Albumentations. {len(ALBUMENTATIONS_OPS)} of "
    f"the {_COUNT} transforms of the original; without a row: {_REASONS}. Albumentations and ours get and return uint8 arrays, "
    "torchvision a uint8 tensor, Kornia a float32 tensor, all one image per call, with a draw in each call. Ours is what "
    "Recipe.from_albumentations makes of the transform. The pipelines in the last rows are not in the original, and one returns float32; 'gpu-aug, tensor' "
    "gets and returns a tensor."
)

# 8: a call on all of them by the slowest contestant (Kornia's median blur) takes about 3 seconds.
_NUM_PHOTOGRAPHS = 8
# A side that is divisible by this: Kornia's jigsaw of 4x4 tiles accepts no other.
_TILES = 4


def rows(task: Task) -> Iterator[Row]:
    """Yield a row for every transform."""
    photographs = load_photographs(task.source, 2 if task.quick else _NUM_PHOTOGRAPHS)
    if task.quick:
        photographs = [photograph[:64, :48] for photograph in photographs]
    photographs = [_divisible(photograph) for photograph in photographs]
    with one_thread():
        for op in (*ALBUMENTATIONS_OPS, *PIPELINES):
            yield Row(op.name, contestants_of(works_of(op, photographs), len(photographs)))


def works_of(op: Op, photographs: Sequence[Pictures]) -> dict[str, Callable[[], Work]]:
    """Return, by library that has the operation, a function that prepares a call on each photograph.

    Args:
        op: The operation.
        photographs: uint8 [height, width, 3] each.
    """
    makes = {
        "Albumentations": (op.albumentations, albumentations_work),
        "gpu-aug": (op.albumentations, _our_work),
        "gpu-aug, tensor": (op in PIPELINES, _our_work_on_tensors),
        "torchvision": (op.torchvision, _torchvision_work),
        "Kornia": (op.kornia, _kornia_work),
    }
    return {name: partial(work, op, photographs) for name, (has, work) in makes.items() if has}


def _our_work(op: Op, photographs: Sequence[Pictures]) -> Work:
    transform = op.recipe.transform(seed=0)
    return _on_each(lambda image: np.ascontiguousarray(transform(image)), photographs)


def _our_work_on_tensors(op: Op, photographs: Sequence[Pictures]) -> Work:
    return _on_each(op.recipe.transform(seed=0), _tensors(photographs))


def _torchvision_work(op: Op, photographs: Sequence[Pictures]) -> Work:
    transform = op.make("torchvision")
    return _on_each(lambda image: transform(image).contiguous(), _tensors(photographs))


def _kornia_work(op: Op, photographs: Sequence[Pictures]) -> Work:
    transform = op.make("kornia")
    tensors = [tensor[None].float() / 255 for tensor in _tensors(photographs)]
    return torch.inference_mode()(_on_each(lambda image: transform(image).contiguous(), tensors))


def _tensors(photographs: Sequence[Pictures]) -> list[torch.Tensor]:
    """Return each photograph as a tensor [3, height, width]."""
    return [torch.from_numpy(one).permute(2, 0, 1).contiguous() for one in photographs]


def _on_each(function: Callable[[Any], Any], images: Sequence[Any]) -> Work:
    """Return a call on each image; functions make contiguous results, as in the original, so that no view counts as done."""
    return lambda: [function(image) for image in images]


def _divisible(photograph: Pictures) -> Pictures:
    height, width = (side - side % _TILES for side in photograph.shape[:2])
    return np.ascontiguousarray(photograph[:height, :width])
