"""What a helper process is told, what it answers, and what cannot be told."""

import os
import pickle
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import torch

from dali_pipes.batch import Stage
from dali_pipes.errors import LoaderError
from dali_pipes.pipeline.augment import View
from dali_pipes.pipeline.fetch import Workshop
from dali_pipes.pipeline.ring import Frame
from gpu_aug.engines.choose import EngineName


@dataclass(frozen=True, slots=True)
class Job:
    """What the helper process is told before the first plan.

    Attributes:
        parts: The arguments of Workshop but `timings`.
        engine: Name of the engine.
        exact: As for Loader.
        dtype: Data type of the finished images.
        memory_format: Memory format of the finished images.
        num_frames: Frames of a clip; 0 where samples are images.
        canvases: Whether it stops at the canvases of the decode stage, which go on to a GPU.
        fast: Whether JPEGs may be decoded at a smaller size.
        num_threads: Threads of the helper process.
        prefetch: As for Loader.
        frames: What the slots of the ring hold; it has one more than `prefetch`.
    """

    parts: Mapping[str, Any]
    engine: EngineName
    exact: bool
    dtype: torch.dtype
    memory_format: torch.memory_format
    num_frames: int
    canvases: bool
    fast: bool
    num_threads: int
    prefetch: int
    frames: tuple[Frame, ...]


@dataclass(frozen=True, slots=True)
class Reply:
    """What the helper process says of the oldest batch that is under way.

    Attributes:
        num_bytes: Length of the note in the batch's slot: the pickled work without the encoded images.
        seconds: What was spent on each stage since the last reply.
        error: What was raised instead.
        compiling: Seconds in which it compiled since the last reply.
    """

    num_bytes: int
    seconds: Mapping[Stage, float]
    error: BaseException | None = None
    compiling: float = 0.0


def make_job(
    workshop: Workshop,
    views: Sequence[View],
    largest: int,
    *,
    decoder: str,
    engine: EngineName,
    exact: bool,
    fast: bool,
    num_threads: int,
    prefetch: int,
) -> Job:
    """Return what a helper process is told.

    Args:
        workshop: Reads the samples.
        views: What is made of them.
        largest: The most samples that are worked on in a step.
        decoder: The one that was chosen.
        engine: As for Job.
        exact: As for Job.
        fast: As for Job.
        num_threads: As for Job.
        prefetch: As for Job.

    Raises:
        LoaderError: This cannot be done by a helper process.
    """
    if decoder != "cpu":
        raise LoaderError(
            f'helper_process=True is not allowed with decoder="{decoder}"; use decoder="cpu", or leave '
            f"helper_process out: DALI has threads that need no interpreter"
        )
    if os.name != "posix" or not sys.executable:
        raise LoaderError(
            "helper_process=True is not supported on this system, which must be Linux or macOS with a "
            "Python interpreter of its own; leave helper_process out"
        )
    names = [field.name for field in fields(Workshop) if field.init and field.name != "timings"]
    job = Job(
        {name: getattr(workshop, name) for name in names},
        engine,
        exact,
        views[0].dtype,
        views[0].memory_format,
        views[0].num_frames,
        views[0].device.type == "cuda",
        fast,
        num_threads,
        prefetch,
        tuple(frame_of(view, largest) for view in views),
    )
    for name, part in job.parts.items():
        pickled(part, name)  # refused now, not in the first loop
    return job


def frame_of(view: View, count: int) -> Frame:
    """Return what a slot holds of a view, for batches of at most `count` samples.

    Raises:
        LoaderError: On a GPU, where its canvases have several sizes.
    """
    count *= view.images_per_row
    if view.device.type == "cuda":
        size = view.recipe.decode_size
        if size is None:
            raise LoaderError(
                f"helper_process=True on {view.device} needs recipes that begin with a crop or resize "
                f"to one size, got {view.recipe!r}; begin so, or leave helper_process out"
            )
        return Frame((count, *size, 3), torch.uint8, permuted=False)
    size = view.recipe.fixed_size
    last = view.memory_format == torch.channels_last
    shape = (count, *size, 3) if last else (count, 3, *size)
    return Frame(shape, view.dtype, permuted=last)


def pickled(part: Any, name: str) -> bytes:
    """Return a part of a loader as bytes.

    Raises:
        LoaderError: It cannot be pickled.
    """
    try:
        return pickle.dumps(part, pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        raise LoaderError(
            f"helper_process=True needs a dataset and a recipe that can be pickled, but {name} cannot "
            f"({type(error).__name__}: {error}); replace lambdas and open files in it, or leave "
            f"helper_process out"
        ) from error
