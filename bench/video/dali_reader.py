"""DALI's own reader of videos, as its examples write it: DALI chooses the clips and draws by itself."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from bench.baselines.dali import NUM_AHEAD, empty_pipeline, endless_iterator
from bench.compare.contestant import Pipeline, Task, Unable
from bench.output.quiet import hushed
from bench.video.plan import Clip
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

_SHUFFLED = 1024  # clips; DALI's default for reading images
_NUM_CLIPS_LOOKED_AT = 64


def start(task: Task) -> Pipeline:
    """Start `fn.readers.video` on a GPU, `fn.experimental.readers.video` on the CPU, and DALI's augmentations.

    Raises:
        Unable: DALI is missing, or does not read these videos here.
    """
    on_gpu = task.device.type == "cuda"
    reader = _Reader(task, _stride(task))
    name = "fn.readers.video" if on_gpu else "fn.experimental.readers.video"
    note = f"{name}, random clips of DALI's own choice, then fn.resize"
    return Pipeline(reader.batches(), note, NUM_AHEAD, NUM_AHEAD + 1, reader.shown)


def _stride(task: Task) -> int:
    """The one distance between the frames of all clips.

    Raises:
        Unable: There are several, where a clip is longer than its video.
    """
    frames = task.clips.frames[:_NUM_CLIPS_LOOKED_AT]
    steps = np.unique(np.diff(frames, axis=1))
    if len(steps) > 1:
        raise Unable(
            f"reads frames at one stride only, and some videos are too short for {frames.shape[1]} frames at it "
            f"(or --fps was given): give a smaller --stride or --num-frames"
        )
    return int(steps[0]) if len(steps) else 1


class _Reader:
    """DALI's batches, and which clips the last one shows."""

    def __init__(self, task: Task, stride: int) -> None:
        self._task, self._stride = task, stride
        self._last: dict[str, torch.Tensor] = {}

    def batches(self) -> Iterator[torch.Tensor]:
        """Yield the clips of DALI's choice."""
        task = self._task
        names = ["clips", "labels", "frames"]
        try:
            with hushed():  # a line for every video that it does not read
                outputs = endless_iterator(_pipeline(task, self._stride), names)
                self._last = next(outputs)
        except RuntimeError as error:
            codecs = {clip.info.codec for clip in task.clips.first(_NUM_CLIPS_LOOKED_AT)}
            on_cpu = task.device.type == "cpu"
            advice = "compare on a machine with a GPU" if on_cpu else _reason(error)
            raise Unable(
                f"does not read {', '.join(sorted(codecs))} on {task.device.type}: {advice}"
            ) from error
        while True:
            yield self._last["clips"].to(task.dtype)
            self._last = next(outputs)

    def shown(self) -> list[Clip]:
        """Return the clips of the last batch."""
        numbers = self._last["frames"].cpu().numpy().reshape(self._task.batch_size, -1)
        steps = np.arange(self._task.num_frames) * self._stride
        videos = self._last["labels"].cpu().flatten().tolist()
        clip = self._task.clips.clip
        return [clip(video, numbers[row, 0] + steps) for row, video in enumerate(videos)]


def _pipeline(task: Task, stride: int) -> Any:
    from nvidia.dali import fn

    on_gpu = task.device.type == "cuda"
    read: Any = fn.readers.video if on_gpu else fn.experimental.readers.video
    pipeline = empty_pipeline(task)
    with pipeline:
        clips, labels, numbers = read(
            device="gpu" if on_gpu else "cpu",
            filenames=[str(path) for path in task.files],
            labels=list(range(len(task.files))),
            sequence_length=task.num_frames,
            stride=stride,
            step=1,
            random_shuffle=True,
            initial_fill=_SHUFFLED,
            enable_frame_num=True if on_gpu else "scalar",
        )
        pipeline.set_outputs(_augmented(clips, task.recipe), labels, numbers)
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
