"""Step: DALI's own pipeline, as a user would write it for ImageNet, by the share of its JPEG engine."""

from collections.abc import Generator
from functools import partial
from pathlib import Path
from typing import Any

import torch

from bench.compare.timer import time_slice
from bench.gpu.photographs import jpegs_in
from bench.gpu.rows import Rows
from bench.gpu.scale import Scale, finish
from bench.timing.usage import Busy
from readers.cores import usable_cores

LOADS = (0.65, 1.0, 0.0)
"""Shares of the JPEG engine: DALI's default, the most, none."""

_SECONDS = 3.0
_BATCHES_MIN = 15  # before the clock: more than DALI prepares ahead


def dali_own(scale: Scale, data: Path, rows: Rows) -> None:
    """Measure the pipeline alone."""
    for load in LOADS if scale.on_gpu else LOADS[:1]:
        with rows.measure(f"DALI's own pipeline, hw_decoder_load {load}") as row:
            batches = dali_batches(jpegs_in(data), scale, load)
            with Busy(scale.device) as busy:
                taken = time_slice(
                    partial(next, batches),
                    seconds=_SECONDS if scale.on_gpu else scale.seconds,
                    discard=_BATCHES_MIN if scale.on_gpu else 1,
                    finish=partial(finish, scale.device),
                )
            row.put_runs([taken.images_per_second])
            row.facts |= busy.found
            batches.close()


def dali_batches(
    files: list[Path], scale: Scale, load: float, *, batch_size: int | None = None
) -> "Generator[torch.Tensor, None, None]":
    """Yield batches of a pipeline that crops, twists colours, flips and normalises, without end.

    The comparison's baseline (bench/baselines/dali.py) decodes whole images and writes float32; this one decodes random
    crops and writes float16, which is the fastest that DALI does.

    Args:
        files: JPEGs.
        scale: Device and sizes.
        load: `hw_decoder_load`.
        batch_size: Images in a batch; the scale's by default.
    """
    from nvidia.dali import Pipeline, fn, types
    from nvidia.dali.plugin.pytorch import DALIGenericIterator

    device = "mixed" if scale.on_gpu else "cpu"
    options: dict[str, Any] = {"hw_decoder_load": load} if scale.on_gpu else {}
    pipeline = Pipeline(batch_size or scale.batch_size, usable_cores(), scale.device.index, seed=0)
    with pipeline:
        jpegs, _ = fn.readers.file(files=[str(path) for path in files], random_shuffle=True)
        images = fn.decoders.image_random_crop(
            jpegs, device=device, output_type=types.RGB, random_area=[0.08, 1.0], **options
        )
        images = fn.resize(images, size=[scale.side, scale.side], antialias=True)
        factor = fn.random.uniform
        images = fn.color_twist(
            images,
            brightness=factor(range=[0.6, 1.4]),
            contrast=factor(range=[0.6, 1.4]),
            saturation=factor(range=[0.6, 1.4]),
            hue=factor(range=[-36, 36]),
        )
        mean, std = [124, 116, 104], [58, 57, 57]
        mirror = fn.random.coin_flip()
        pipeline.set_outputs(
            fn.crop_mirror_normalize(
                images, dtype=types.FLOAT16, output_layout="HWC", mirror=mirror, mean=mean, std=std
            )
        )
    # Without a size the iterator never ends, so that no end of an epoch drains it.
    for batch in DALIGenericIterator([pipeline], ["images"]):
        yield batch[0]["images"]
