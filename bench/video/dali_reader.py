"""DALI's own reader of videos, as its examples write it: DALI chooses the clips and draws by itself."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from bench.compare.contestant import Kind, Share, Unable
from bench.output.quiet import hushed
from bench.video.plan import Clip, ClipFooting
from gpu_aug import (
    HorizontalFlip,
    Normalize,
    Operation,
    RandomCrop,
    RandomResizedCrop,
    RandomShortestSize,
    Recipe,
    Resize,
)
from readers.video import VideoInfo

_NUM_QUEUED = 2  # DALI's default prefetch_queue_depth
_SHUFFLED = 1024


class DaliVideoReader:
    """`fn.readers.video` on a GPU, `fn.experimental.readers.video` on the CPU, and DALI's augmentations."""

    name = "dali reader"
    kind: Kind = "baseline"
    num_ahead = _NUM_QUEUED + 1  # and the batch that DALI's iterator holds
    num_discard = _NUM_QUEUED + 2

    def __init__(self, footing: ClipFooting) -> None:
        on_gpu = footing.device.type == "cuda"
        name = "fn.readers.video" if on_gpu else "fn.experimental.readers.video"
        self.note = f"{name}, random clips of DALI's own choice, then fn.resize"
        self._footing = footing
        self._batches: Iterator[Any] | None = None
        self._made: dict[str, torch.Tensor] = {}
        plan = footing.plan
        first = plan[0].frames
        self._stride = int(first[1] - first[0]) if len(first) > 1 else 1
        if any((np.diff(plan[position].frames) != self._stride).any() for position in range(16)):
            raise Unable("reads frames at one stride alone: give --stride, and longer videos")

    def open(self) -> None:
        """Build the pipeline and start its threads.

        Raises:
            Unable: DALI is missing, or does not read these videos here.
        """
        try:
            from nvidia.dali.plugin.pytorch import DALIGenericIterator
        except ImportError as error:
            raise Unable("needs NVIDIA DALI: pip install 'gpu-aug[cuda12]'") from error
        names = ["clips", "labels", "frames"]
        try:
            with hushed():  # a line for every video that it does not read
                # Without a size it never ends, so no epoch ends while the clock runs.
                self._batches = DALIGenericIterator([self._pipeline()], names)
                self.next_batch()
        except RuntimeError as error:
            codecs = {self._info(video).codec for video in range(len(self._footing.files))}
            raise Unable(
                f"does not read {', '.join(sorted(codecs))} on {self._footing.device.type}: "
                f"{_reason(error)}"
            ) from error

    def next_batch(self) -> torch.Tensor:
        """Take a batch from DALI's iterator for PyTorch."""
        if self._batches is None:
            raise RuntimeError(f"{self.name} is not open")
        self._made = next(self._batches)[0]
        return self._made["clips"].to(self._footing.dtype)

    @property
    def shown(self) -> list[Clip]:
        """The clips of the last batch."""
        numbers = self._made["frames"].cpu().numpy().reshape(self._footing.batch_size, -1)
        steps = np.arange(self._footing.num_frames) * self._stride
        videos = self._made["labels"].cpu().flatten().tolist()
        files = self._footing.files
        return [
            Clip(files[video], self._info(video), numbers[row, 0] + steps, 0)
            for row, video in enumerate(videos)
        ]

    def share(self) -> Share:
        """Not known."""
        return {"read": None, "decode": None, "augment": None, "copy": None}

    def close(self) -> None:
        """Stop its threads."""
        self._batches = None

    def _info(self, video: int) -> VideoInfo:
        info = self._footing.plan.clips.info(video)
        assert isinstance(info, VideoInfo)
        return info

    def _pipeline(self) -> Any:
        from nvidia.dali import Pipeline, fn

        footing = self._footing
        on_gpu = footing.device.type == "cuda"
        pipeline = Pipeline(
            footing.batch_size,
            footing.num_threads,
            (footing.device.index or 0) if on_gpu else None,
            seed=footing.seed,
        )
        read: Any = fn.readers.video if on_gpu else fn.experimental.readers.video
        with pipeline:
            clips, labels, numbers = read(
                device="gpu" if on_gpu else "cpu",
                filenames=[str(path) for path in footing.files],
                labels=list(range(len(footing.files))),
                sequence_length=footing.num_frames,
                stride=self._stride,
                step=1,
                random_shuffle=True,
                initial_fill=_SHUFFLED,
                enable_frame_num=True if on_gpu else "scalar",
            )
            pipeline.set_outputs(_augmented(clips, footing.recipe), labels, numbers)
        pipeline.build()
        return pipeline


def _augmented(clips: Any, recipe: Recipe) -> Any:
    """The operations of the presets, with one draw for all frames of a clip."""
    from nvidia.dali import fn, types

    *steps, normalize = recipe.operations
    assert isinstance(normalize, Normalize)
    corner: dict[str, Any] = {}
    mirror: Any = 0
    for step in steps:
        match step:
            case RandomResizedCrop():
                clips = fn.random_resized_crop(
                    clips,
                    size=step.size,
                    random_area=step.scale,
                    random_aspect_ratio=step.ratio,
                    antialias=step.antialias,
                )
            case RandomShortestSize(min_size=tuple() as lengths):
                shorter = fn.random.uniform(values=[float(length) for length in lengths])
                clips = fn.resize(clips, resize_shorter=shorter, antialias=step.antialias)
            case Resize(size=(height, width)):
                clips = fn.resize(clips, size=(height, width), antialias=step.antialias)
            case Resize():
                clips = fn.resize(clips, resize_shorter=step.size, antialias=step.antialias)
            case RandomCrop(padding=None):
                corner = {
                    f"crop_pos_{axis}": fn.random.uniform(range=[0.0, 1.0]) for axis in ("x", "y")
                }
            case HorizontalFlip():
                mirror = fn.random.coin_flip(probability=step.p)
            case _:
                raise _unable(step)
    return fn.crop_mirror_normalize(
        clips,
        dtype=types.FLOAT,
        output_layout="FCHW",
        crop=recipe.fixed_size,
        mean=[255 * value for value in normalize.mean],
        std=[255 * value for value in normalize.std],
        mirror=mirror,
        **corner,
    )


def _unable(step: Operation) -> Unable:
    return Unable(f"this baseline is not written for {type(step).__name__}")


def _reason(error: RuntimeError) -> str:
    """The sentence of DALI's report that says what happened."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    behind = lines.index("encountered:") + 1 if "encountered:" in lines[:-1] else 0
    return lines[behind][:200] if lines else "no reason given"
