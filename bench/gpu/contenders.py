"""Make what the steps measure: our loader, DALI's own pipeline, and the ResNet-50 training step that they feed."""

import itertools
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from bench.gpu.scale import Scale, find_jpegs
from dali_pipes import Batch, Loader, available_decoders
from dali_pipes.arguments.names import with_settings
from gpu_aug import Recipe
from readers import open_dataset
from readers.cores import usable_cores

Decoder = Literal["cuda", "dali", "cpu"]

# Of an epoch: 10 s at 50,000 images/s, so that no epoch ends during a measurement.
_SAMPLES = 500_000
_BETWEEN_LOSSES = 8  # steps after which a training loop reads its loss


def decoders(scale: Scale) -> list[Decoder]:
    """Return the decoders that can be used here; a rehearsal has no "cuda"."""
    names: tuple[Decoder, ...] = ("cuda", "dali", "cpu") if scale.on_gpu else ("dali", "cpu")
    return [name for name in names if not available_decoders()[name]]


def loader_for(scale: Scale, data: Path, decoder: Decoder, **options: Any) -> Loader:
    """Return our loader with the settings of a training, over photographs that are repeated for a long epoch.

    Args:
        scale: Device and sizes of the visit or rehearsal.
        data: Path of a folder of images.
        decoder: See `Loader`; a rehearsal uses "cpu" instead of "cuda".
        options: Arguments of `Loader`, by plain names, that override the usual ones.
    """
    if decoder == "cuda" and not scale.on_gpu:
        decoder = "cpu"
    files = open_dataset(data)
    repeats = -(-(_SAMPLES if scale.on_gpu else 2000) // len(files))
    # A selection, which keeps the reader's own batched path in use.
    dataset = files.take(np.tile(np.arange(len(files)), repeats))
    usual: dict[str, Any] = {
        "recipe": Recipe.imagenet_train_jitter(size=scale.side),
        "batch_size": min(scale.batch_size, 64),
        "device": scale.device,
        "dtype": torch.bfloat16,
        "decoder": decoder,
        "engine": "fused",
    }
    return Loader(dataset, **with_settings(usual, options))


def endless(loader: Loader) -> Iterator[Batch]:
    """Yield the batches of epoch after epoch."""
    while True:
        yield from loader


def dali_batches(
    data: Path, scale: Scale, load: float, *, batch_size: int | None = None
) -> "Generator[torch.Tensor, None, None]":
    """Yield batches of a DALI pipeline that crops, jitters colours, flips and normalises, without end.

    The comparison's baseline (bench/baselines/dali.py) decodes full images and writes float32. This pipeline decodes
    random crops and writes float16, which is DALI's fastest way.

    Args:
        data: A folder of JPEGs.
        scale: Device and sizes.
        load: DALI's `hw_decoder_load`.
        batch_size: Images per batch; None uses the scale's.
    """
    from nvidia.dali import Pipeline, fn, types
    from nvidia.dali.plugin.pytorch import DALIGenericIterator

    device = "mixed" if scale.on_gpu else "cpu"
    options: dict[str, Any] = {"hw_decoder_load": load} if scale.on_gpu else {}
    files = [str(path) for path in find_jpegs(data)]
    pipeline = Pipeline(batch_size or scale.batch_size, usable_cores(), scale.device.index, seed=0)
    with pipeline:
        jpegs, _ = fn.readers.file(files=files, random_shuffle=True)
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
        images = fn.crop_mirror_normalize(
            images,
            dtype=types.FLOAT16,
            output_layout="HWC",
            mirror=fn.random.coin_flip(),
            mean=[124, 116, 104],
            std=[58, 57, 57],
        )
        pipeline.set_outputs(images)
    # Without a size the iterator never ends, so no end of an epoch drains it.
    for batch in DALIGenericIterator([pipeline], ["images"]):
        yield batch[0]["images"]


def training_step(scale: Scale) -> Callable[[torch.Tensor], None]:
    """Return a training step for images [b, 3, side, side]: ResNet-50 in bfloat16, channels last; in a rehearsal one layer."""
    from torchvision.models import resnet50

    torch.backends.cudnn.benchmark = scale.on_gpu  # the fastest convolutions for these shapes
    tiny = (torch.nn.Conv2d(3, 10, 3, 4), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten())
    model = resnet50() if scale.on_gpu else torch.nn.Sequential(*tiny)
    model = model.to(scale.device).to(memory_format=torch.channels_last)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    numbers = itertools.count()

    def step(images: torch.Tensor) -> None:
        images = images.contiguous(memory_format=torch.channels_last)
        labels = torch.zeros(len(images), dtype=torch.int64, device=scale.device)
        with torch.autocast(scale.device.type, dtype=torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(model(images), labels)
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        if next(numbers) % _BETWEEN_LOSSES == 0:
            loss.item()

    return step


def resident_batch(scale: Scale) -> torch.Tensor:
    """Return a batch that stays on the device: bfloat16 [b, 3, side, side], channels last."""
    shape = (scale.batch_size, 3, scale.side, scale.side)
    images = torch.randn(shape, device=scale.device, dtype=torch.bfloat16)
    return images.contiguous(memory_format=torch.channels_last)
