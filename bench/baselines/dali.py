"""A plain DALI pipeline, as DALI's own examples write it: DALI reads, shuffles and draws by itself."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args

import torch

from bench.compare.contestant import Footing, Kind, Share, Unable, share_of
from gpu_aug import (
    ColorJitter,
    HorizontalFlip,
    Normalize,
    RandomResizedCrop,
    Recipe,
    Resize,
)

Decode = Literal["cpu", "mixed"]
Until = Literal["read", "decode", "augment"]

_NUM_QUEUED = 2  # DALI's default prefetch_queue_depth
_NUM_INSTRUMENTED = 48
_NUM_PASSES = 3


class DaliPipeline:
    """`fn.readers.file`, an image decoder, and DALI's own augmentations."""

    kind: Kind = "baseline"
    num_ahead = _NUM_QUEUED + 1  # and the batch that DALI's iterator holds
    num_discard = _NUM_QUEUED + 2

    def __init__(self, footing: Footing, *, decode: Decode) -> None:
        self.name = "dali-gpu" if decode == "mixed" else "dali-cpu"
        self.note = (
            "whole images decoded on the GPU, then fn.random_resized_crop, antialiased"
            if decode == "mixed"
            else "fn.decoders.image_random_crop, then fn.resize, antialiased"
        )
        if footing.dtype != torch.float32:
            self.note += "; float32, .to(dtype) in the trainer, as DALI has no bfloat16"
        if any(isinstance(step, ColorJitter) for step in footing.recipe.operations):
            self.note += "; all of the jitter as one matrix, fn.color_twist"
        self._footing = footing
        self._decode: Decode = decode
        self._batches: Iterator[Any] | None = None
        _check(footing.recipe)

    def open(self) -> None:
        """Build the pipeline and start its threads."""
        try:
            from nvidia.dali.plugin.pytorch import DALIGenericIterator
        except ImportError as error:
            raise Unable("needs NVIDIA DALI: pip install 'gpu-aug[cuda12]'") from error
        pipeline = _training_pipeline(self._footing, self._decode)
        # Without a size it never ends, so no epoch ends while the clock runs.
        self._batches = DALIGenericIterator([pipeline], ["images", "labels"])

    def next_batch(self) -> torch.Tensor:
        """Take a batch from DALI's iterator for PyTorch."""
        if self._batches is None:
            raise RuntimeError(f"{self.name} is not open")
        images: torch.Tensor = next(self._batches)[0]["images"]
        return images.to(self._footing.dtype)

    def share(self) -> Share:
        """Time pipelines on one thread that end after reading, after decoding, and at the end."""
        if self._footing.device.type == "cuda":
            return share_of({})
        read, decoded, augmented = (self._seconds(until) for until in get_args(Until))
        return share_of(
            {
                "read": read,
                "decode": max(0.0, decoded - read),
                "augment": max(0.0, augmented - decoded),
                "copy": 0.0,  # DALI writes into the batch, and the batch is handed over as it is
            }
        )

    def close(self) -> None:
        """Stop its threads."""
        self._batches = None

    def _seconds(self, until: Until) -> float:
        pipeline = _instrumented(self._footing, self._decode, until)
        pipeline.run()
        start = time.perf_counter()
        for _ in range(_NUM_PASSES):
            pipeline.run()
        return time.perf_counter() - start


def decoding_pipeline(footing: Footing) -> Any:
    """A pipeline that decodes whole images and does nothing else, on the GPU where the footing is."""
    from nvidia.dali import fn, types

    on_gpu = footing.device.type == "cuda"
    pipeline = _pipeline(footing, footing.batch_size, footing.num_threads)
    with pipeline:
        encoded, _ = read_files(footing.files, footing.labels, shuffle=True)
        device = "mixed" if on_gpu else "cpu"
        pipeline.set_outputs(fn.decoders.image(encoded, device=device, output_type=types.RGB))
    pipeline.build()
    return pipeline


def _training_pipeline(footing: Footing, decode: Decode) -> Any:
    pipeline = _pipeline(footing, footing.batch_size, footing.num_threads)
    with pipeline:
        encoded, labels = read_files(footing.files, footing.labels, shuffle=True)
        images = _augmented(_decoded(encoded, footing.recipe, decode), footing, decode)
        pipeline.set_outputs(images, labels)
    pipeline.build()
    return pipeline


def _instrumented(footing: Footing, decode: Decode, until: Until) -> Any:
    """A pipeline on one thread that ends early and computes nothing ahead, over the same few images."""
    files = footing.spread(_NUM_INSTRUMENTED)
    pipeline = _pipeline(footing, len(files), 1, exec_async=False, exec_pipelined=False)
    with pipeline:
        images, _ = read_files(files, [0] * len(files), shuffle=False)
        if until != "read":
            images = _decoded(images, footing.recipe, decode)
        if until == "augment":
            images = _augmented(images, footing, decode)
        pipeline.set_outputs(images)
    pipeline.build()
    return pipeline


def _pipeline(footing: Footing, batch_size: int, num_threads: int, **options: bool) -> Any:
    from nvidia.dali import Pipeline

    device_id = (footing.device.index or 0) if footing.device.type == "cuda" else None
    return Pipeline(batch_size, num_threads, device_id, seed=footing.seed, **options)


def read_files(files: list[Path], labels: list[int], *, shuffle: bool) -> tuple[Any, Any]:
    """Graph nodes that read encoded files and their labels."""
    from nvidia.dali import fn

    encoded, label = fn.readers.file(
        files=[str(path) for path in files], labels=labels, random_shuffle=shuffle
    )
    return encoded, label


def _decoded(encoded: Any, recipe: Recipe, decode: Decode) -> Any:
    from nvidia.dali import fn, types

    first = recipe.operations[0]
    if isinstance(first, RandomResizedCrop) and decode == "cpu":
        return fn.decoders.image_random_crop(
            encoded, random_area=first.scale, random_aspect_ratio=first.ratio, output_type=types.RGB
        )
    return fn.decoders.image(encoded, device=decode, output_type=types.RGB)


def _augmented(images: Any, footing: Footing, decode: Decode) -> Any:
    from nvidia.dali import fn, types

    steps = {type(step): step for step in footing.recipe.operations}
    height, width = footing.recipe.fixed_size
    match footing.recipe.operations[0]:
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
    if footing.device.type == "cuda" and decode == "cpu":
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
