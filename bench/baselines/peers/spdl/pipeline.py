"""Baseline of SPDL: threads in the trainer's process; FFmpeg decodes, crops, resizes and flips."""

import random
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import spdl.io
import torch
from spdl.pipeline import PipelineBuilder
from torchvision.transforms import v2

from bench.baselines.translations import torchvision_compose
from bench.compare.task import Pipeline, Task, Unable
from gpu_aug import HorizontalFlip, RandomResizedCrop, Recipe

_NOTE = (
    "threads; FFmpeg's decoder with its crop, scale (bilinear, not antialiased) and hflip filters; "
    "then torchvision's transforms.v2 on uint8 tensors"
)

_NUM_AHEAD = 2


def start(task: Task) -> Pipeline:
    """Start the pipeline; `num_ahead` counts its sink's queue, and the batch that waits for room in the queue."""
    num_ahead = _NUM_AHEAD + 1
    return Pipeline(_batches(task), _NOTE, num_ahead, num_ahead + task.num_threads)


def _batches(task: Task) -> Iterator[torch.Tensor]:
    """Yield batches of images that threads decode and transform one by one."""
    crop = task.recipe.operations[0]
    if not isinstance(crop, RandomResizedCrop):
        raise Unable("this peer is written for recipes that begin with RandomResizedCrop")
    require_ffmpeg(task.files[0])
    torch.set_num_threads(1)  # parallelism comes from the pipeline's threads
    pipeline = (
        PipelineBuilder()
        .add_source(_endless(task))
        .pipe(partial(_load, crop, *_rest(task.recipe), task.dtype), concurrency=task.num_threads)
        .aggregate(task.batch_size)
        .pipe(torch.stack)
        .add_sink(_NUM_AHEAD)
        .build(num_threads=task.num_threads)
    )
    with pipeline.auto_stop():
        for images in pipeline:
            yield images.to(task.device, non_blocking=True)


def require_ffmpeg(path: Path) -> None:
    """Raise Unable if SPDL finds no libraries of FFmpeg."""
    try:
        spdl.io.demux_image(str(path))
    except RuntimeError as error:
        if "libspdl" not in str(error):  # the extension module that is linked to FFmpeg's libraries
            raise
        raise Unable(
            "finds no FFmpeg libraries: install FFmpeg, for example with apt install ffmpeg"
        ) from None


def _endless(task: Task) -> Iterator[Path]:
    chance = random.Random(task.seed)
    while True:
        yield from chance.sample(task.files, len(task.files))


def _rest(recipe: Recipe) -> tuple[float, Any]:
    """Return the probability of a flip, and a transform for the following operations."""
    chance = sum(step.p for step in recipe.operations if isinstance(step, HorizontalFlip))
    rest = [step for step in recipe.operations[1:] if not isinstance(step, HorizontalFlip)]
    return chance, torchvision_compose(Recipe(rest))


def _load(
    crop: RandomResizedCrop, flip: float, transform: Any, dtype: torch.dtype, path: Path
) -> torch.Tensor:
    packets = spdl.io.demux_image(str(path))
    size = torch.empty((3, packets.codec.height, packets.codec.width), device="meta")
    window = v2.RandomResizedCrop(crop.size, crop.scale, crop.ratio).make_params([size])
    height, width = Recipe([crop]).fixed_size
    filters = [
        "crop={width}:{height}:{left}:{top}".format(**window),
        f"scale={width}:{height}:flags=bilinear",
        *(["hflip"] if random.random() < flip else []),
        "format=pix_fmts=rgb24",
    ]
    frames = spdl.io.decode_packets(packets, filter_desc=",".join(filters))
    image = spdl.io.to_torch(spdl.io.convert_frames(frames))
    return torch.as_tensor(transform(image.permute(2, 0, 1)), dtype=dtype)
