"""SPDL: threads in the trainer's process; FFmpeg decodes, cuts, resizes and flips."""

import random
from collections.abc import Iterator
from functools import partial
from typing import Any

import spdl.io
import torch
from spdl.pipeline import PipelineBuilder
from torchvision.transforms import v2

from bench.baselines.peers.spec import Spec
from bench.baselines.translations import torchvision_transforms
from bench.compare.contestant import Unable
from gpu_aug import HorizontalFlip, RandomResizedCrop, Recipe

NOTE = (
    "threads; FFmpeg's decoder with its crop, scale (bilinear, not antialiased) and hflip filters; "
    "then torchvision's transforms.v2 on uint8 tensors"
)

_NUM_AHEAD = 2


def num_ahead(spec: Spec) -> int:  # noqa: ARG001 - others need it
    """Its sink's queue, and the batch that waits to get in."""
    return _NUM_AHEAD + 1


def batches(spec: Spec) -> Iterator[torch.Tensor]:
    """Decode and transform single images on threads, and stack them."""
    crop = spec.recipe.operations[0]
    if not isinstance(crop, RandomResizedCrop):
        raise Unable("this peer is written for recipes that begin with RandomResizedCrop")
    _require_ffmpeg(spec.files[0])
    torch.set_num_threads(1)  # the pipeline's threads are the threads
    pipeline = (
        PipelineBuilder()
        .add_source(_endless(spec))
        .pipe(partial(_load, crop, *_rest(spec.recipe), spec.dtype), concurrency=spec.num_threads)
        .aggregate(spec.batch_size)
        .pipe(torch.stack)
        .add_sink(_NUM_AHEAD)
        .build(num_threads=spec.num_threads)
    )
    with pipeline.auto_stop():
        for images in pipeline:
            yield images.to(spec.device, non_blocking=True)


def _require_ffmpeg(path: str) -> None:
    try:
        spdl.io.demux_image(path)
    except RuntimeError as error:
        if "libspdl" not in str(error):  # its extension, which is linked to FFmpeg's libraries
            raise
        raise Unable(
            "needs FFmpeg's shared libraries (libavcodec and its kin), of which it found none"
        ) from None


def _endless(spec: Spec) -> Iterator[str]:
    chance = random.Random(spec.seed)
    while True:
        yield from chance.sample(spec.files, len(spec.files))


def _rest(recipe: Recipe) -> tuple[float, Any]:
    """The chance of a flip, and a transform of what comes after it."""
    chance = sum(step.p for step in recipe.operations if isinstance(step, HorizontalFlip))
    rest = [step for step in recipe.operations[1:] if not isinstance(step, HorizontalFlip)]
    return chance, v2.Compose(torchvision_transforms(Recipe(rest), before_float=[]))


def _load(
    crop: RandomResizedCrop, flip: float, transform: Any, dtype: torch.dtype, path: str
) -> torch.Tensor:
    packets = spdl.io.demux_image(path)
    size = torch.empty((3, packets.codec.height, packets.codec.width), device="meta")
    window = v2.RandomResizedCrop(crop.size, crop.scale, crop.ratio).make_params([size])
    height, width = _pair(crop.size)
    filters = [
        "crop={width}:{height}:{left}:{top}".format(**window),
        f"scale={width}:{height}:flags=bilinear",
        *(["hflip"] if random.random() < flip else []),
        "format=pix_fmts=rgb24",
    ]
    frames = spdl.io.decode_packets(packets, filter_desc=",".join(filters))
    image = spdl.io.to_torch(spdl.io.convert_frames(frames))
    tensor: torch.Tensor = transform(image.permute(2, 0, 1))
    return tensor.to(dtype)


def _pair(size: int | tuple[int, int]) -> tuple[int, int]:
    return (size, size) if isinstance(size, int) else size
