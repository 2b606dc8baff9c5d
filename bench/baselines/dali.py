"""A plain DALI pipeline, as DALI's own examples write it: DALI reads, shuffles and draws by itself."""

from collections.abc import Iterator
from typing import Any, Literal

import torch

from bench.compare.contestant import Pipeline, Task, Unable
from gpu_aug import (
    ColorJitter,
    HorizontalFlip,
    Normalize,
    RandomResizedCrop,
    Recipe,
    Resize,
)

Decode = Literal["cpu", "mixed"]

NUM_AHEAD = 3
"""DALI's default prefetch_queue_depth, and the batch that its iterator holds."""


def start(task: Task, *, decode: Decode) -> Pipeline:
    """Start `fn.readers.file`, an image decoder, and DALI's own augmentations.

    Raises:
        Unable: DALI is missing, the batches are for another device than it decodes on, or the recipe is not like
            the presets.
    """
    if decode == "mixed" and task.device.type != "cuda":
        raise Unable(f"decodes on a CUDA device, and the batches are for {task.device.type}")
    _check(task.recipe)
    note = (
        "whole images decoded on the GPU, then fn.random_resized_crop, antialiased"
        if decode == "mixed"
        else "fn.decoders.image_random_crop, then fn.resize, antialiased"
    )
    if task.dtype != torch.float32:
        note += "; float32, .to(dtype) in the trainer, as DALI has no bfloat16"
    if any(isinstance(step, ColorJitter) for step in task.recipe.operations):
        note += "; all of the jitter as one matrix, fn.color_twist"
    batches = endless_iterator(_training_pipeline(task, decode), ["images", "labels"])
    images = (outputs["images"].to(task.dtype) for outputs in batches)
    return Pipeline(images, note, NUM_AHEAD, NUM_AHEAD + 1)


def empty_pipeline(task: Task) -> Any:
    """A DALI pipeline without a graph, for the task's batches, threads and device.

    Raises:
        Unable: DALI is missing.
    """
    try:
        from nvidia.dali import Pipeline as DaliPipeline
    except ImportError as error:
        raise Unable("needs NVIDIA DALI: pip install 'gpu-aug[cuda12]'") from error
    device_id = (task.device.index or 0) if task.device.type == "cuda" else None
    return DaliPipeline(task.batch_size, task.num_threads, device_id, seed=task.seed)


def endless_iterator(pipeline: Any, names: list[str]) -> Iterator[dict[str, torch.Tensor]]:
    """Take batches from DALI's iterator for PyTorch, by the names of a pipeline's outputs."""
    from nvidia.dali.plugin.pytorch import DALIGenericIterator

    # Without a size it never ends, so no epoch ends while the clock runs.
    return (outputs[0] for outputs in DALIGenericIterator([pipeline], names))


def decoding_pipeline(task: Task) -> Any:
    """A pipeline that decodes whole images and does nothing else, on the GPU where the batches are for one."""
    from nvidia.dali import fn, types

    pipeline = empty_pipeline(task)
    with pipeline:
        encoded, _ = _files(task)
        device = "mixed" if task.device.type == "cuda" else "cpu"
        pipeline.set_outputs(fn.decoders.image(encoded, device=device, output_type=types.RGB))
    pipeline.build()
    return pipeline


def _training_pipeline(task: Task, decode: Decode) -> Any:
    pipeline = empty_pipeline(task)
    with pipeline:
        encoded, labels = _files(task)
        images = _augmented(_decoded(encoded, task.recipe, decode), task, decode)
        pipeline.set_outputs(images, labels)
    pipeline.build()
    return pipeline


def _files(task: Task) -> Any:
    """Graph nodes that read encoded files, shuffled, and their labels."""
    from nvidia.dali import fn

    files = [str(path) for path in task.files]
    return fn.readers.file(files=files, labels=task.labels, random_shuffle=True)


def _decoded(encoded: Any, recipe: Recipe, decode: Decode) -> Any:
    from nvidia.dali import fn, types

    first = recipe.operations[0]
    if isinstance(first, RandomResizedCrop) and decode == "cpu":
        return fn.decoders.image_random_crop(
            encoded, random_area=first.scale, random_aspect_ratio=first.ratio, output_type=types.RGB
        )
    return fn.decoders.image(encoded, device=decode, output_type=types.RGB)


def _augmented(images: Any, task: Task, decode: Decode) -> Any:
    from nvidia.dali import fn, types

    steps = {type(step): step for step in task.recipe.operations}
    height, width = task.recipe.fixed_size
    match task.recipe.operations[0]:
        case RandomResizedCrop() as crop if decode == "cpu":
            images = fn.resize(images, size=(height, width), antialias=crop.antialias)
        case RandomResizedCrop() as crop:
            images = fn.random_resized_crop(
                images,
                size=(height, width),
                random_area=crop.scale,
                random_aspect_ratio=crop.ratio,
                antialias=crop.antialias,
            )
        case Resize() as resize:
            images = fn.resize(images, resize_shorter=resize.size, antialias=resize.antialias)
    if task.device.type == "cuda" and decode == "cpu":
        images = images.gpu()  # the rest is done where the batch has to arrive
    match steps.get(ColorJitter):
        case ColorJitter() as jitter:
            images = _jittered(images, jitter)
    flip, normalize = steps.get(HorizontalFlip), steps[Normalize]
    assert isinstance(normalize, Normalize)
    return fn.crop_mirror_normalize(
        images,
        dtype=types.FLOAT,
        output_layout="CHW",
        crop=(height, width),
        mean=[255 * value for value in normalize.mean],
        std=[255 * value for value in normalize.std],
        mirror=fn.random.coin_flip(probability=flip.p) if isinstance(flip, HorizontalFlip) else 0,
    )


def _jittered(images: Any, jitter: ColorJitter) -> Any:
    from nvidia.dali import fn

    chosen = fn.random.coin_flip(probability=jitter.p)

    def factor(ends: Any) -> Any:
        return 1 + chosen * (fn.random.uniform(range=ends) - 1)

    return fn.color_twist(
        images,
        brightness=factor(jitter.brightness),
        contrast=factor(jitter.contrast),
        saturation=factor(jitter.saturation),
        hue=chosen * fn.random.uniform(range=[360 * end for end in _pair(jitter.hue)]),
    )


def _pair(ends: float | tuple[float, float]) -> tuple[float, float]:
    return ends if isinstance(ends, tuple) else (-ends, ends)


def _check(recipe: Recipe) -> None:
    """Accept what the presets look like: a size, perhaps jitter and a flip, and Normalize."""
    names = [type(step).__name__ for step in recipe.operations]
    middle = {"HorizontalFlip", "ColorJitter"}
    for size in (["RandomResizedCrop"], ["Resize", "CenterCrop"]):
        rest = names[len(size) : -1]
        if names[: len(size)] == size and names[-1] == "Normalize" and middle.issuperset(rest):
            return
    raise Unable(f"this baseline is written for the presets, not for [{', '.join(names)}]")
