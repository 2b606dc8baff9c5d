"""What a helper process is told, what it answers, and what cannot be told."""

import os
import pickle
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from dali_pipes.batch import Stage
from dali_pipes.errors import LoaderError
from dali_pipes.pipeline.fetch import Fetcher
from dali_pipes.pipeline.ring import Frame
from dali_pipes.pipeline.views import View
from gpu_aug.engines.choose import EngineName


@dataclass(frozen=True, slots=True)
class Job:
    """What the helper process is told before the first plan.

    Attributes:
        fetcher: The first stage.
        engine: Name of the engine.
        exact: As for Loader.
        dtype: The type of the finished images.
        memory_format: The memory format of the finished images.
        canvases: Whether it stops at the canvases of the decode stage, which go on to a GPU.
        fast: Whether JPEGs may be decoded at a smaller size.
        num_threads: Threads of the helper process.
        prefetch: As for Loader.
        frames: What the slots of the ring hold; it has one more than `prefetch`.
    """

    fetcher: Fetcher
    engine: EngineName
    exact: bool
    dtype: torch.dtype
    memory_format: torch.memory_format
    canvases: bool
    fast: bool
    num_threads: int
    prefetch: int
    frames: tuple[Frame, ...]


@dataclass(frozen=True, slots=True)
class Reply:
    """What the helper process says of the oldest batch that is under way.

    Attributes:
        num_bytes: Length of the note in the batch's slot: the pickled step without its images.
        seconds: What was spent on each stage since the last reply.
        error: What was raised instead.
        compiling: Seconds in which it compiled since the last reply.
    """

    num_bytes: int
    seconds: Mapping[Stage, float]
    error: BaseException | None = None
    compiling: float = 0.0


def make_job(
    fetcher: Fetcher,
    views: Sequence[View],
    largest: int,
    *,
    engine: EngineName,
    exact: bool,
    fast: bool,
    num_threads: int,
    prefetch: int,
) -> Job:
    """Return what a helper process is told.

    Args:
        fetcher: As for Job.
        views: What is made of the samples.
        largest: The most samples that are worked on in a step.
        engine: As for Job.
        exact: As for Job.
        fast: As for Job.
        num_threads: As for Job.
        prefetch: As for Job.

    Raises:
        LoaderError: This cannot be done by a helper process.
    """
    for name in ("dataset", "views", "order"):
        pickled(getattr(fetcher, name), name)  # refused now, not in the first loop
    return Job(
        fetcher,
        engine,
        exact,
        views[0].dtype,
        views[0].memory_format,
        views[0].device.type == "cuda",
        fast,
        num_threads,
        prefetch,
        tuple(frame_of(view, largest) for view in views),
    )


def require_helper_process(decoder: str) -> None:
    """Refuse what no helper process can do.

    Raises:
        LoaderError: It is another decoder than "cpu", or there can be no such process.
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
