"""What processes outside the training process need to make batches (the job), and what they report with each step."""

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from dali_pipes.arguments.setup import Setup
from dali_pipes.errors import LoaderError
from dali_pipes.monitoring.counts import Counts
from dali_pipes.monitoring.observer import Span
from dali_pipes.stages.canvas_memory import View
from dali_pipes.stages.shared_memory import Frame, pickle_parts
from dali_pipes.stages.threads import PART_IMAGES, steps_for_threads
from dali_pipes.steps.streams.steps import AnySteps


@dataclass(frozen=True, slots=True)
class Job:
    """Everything that another process needs to make batches, on this machine or another one.

    Attributes:
        setup: The configuration of the loader, without its views, and with the first recipe if there are several.
        canvases: Whether the process returns canvases, the result of the decode stage, because a GPU augments them.
        frames: The memory layout of a step for each recipe of the run; each has one entry per view.
        steps_ahead: Number of steps that each process works on besides the current one.
    """

    setup: Setup
    canvases: bool
    frames: tuple[tuple[Frame, ...], ...]
    steps_ahead: int

    @property
    def num_slots(self) -> int:
        """Count of steps that the shared memory of helper processes holds: those made ahead, and the one being received."""
        return self.setup.helpers.count * self.steps_ahead + 1

    @property
    def step_bytes(self) -> int:
        """Size in bytes of the images of the largest step."""
        return max(sum(frame.size_bytes for frame in layout) for layout in self.frames)


@dataclass(frozen=True, slots=True)
class Report:
    """The report that another process sends with each step.

    Attributes:
        counts: Counts of the process's stages since the last report.
        thread_seconds: Seconds since the last report, multiplied by the number of threads of the process.
        error: The exception that was raised instead of making the step; else None.
        spans: Stage calls that ended since the last report, if the training process has observers.
        left_out: Seconds of compiling that the process's clock has excluded so far.
    """

    counts: Counts
    thread_seconds: float
    error: BaseException | None = None
    spans: Sequence[Span] = ()
    left_out: float = 0.0


@dataclass(frozen=True, slots=True)
class RemoteArgument:
    """The loader argument that requests other processes, for error messages.

    Attributes:
        argument: The argument as a user writes it, with its value.
        name: The name of the argument.
        dumps: Pickles an object for these processes.
    """

    argument: str
    name: str
    dumps: Callable[[Any], Any]


HELPER = RemoteArgument("helper_process", "helper_process", pickle_parts)


def make_job(setup: Setup, steps: AnySteps, asker: RemoteArgument) -> Job:
    """Return what other processes need to make the batches of a loader.

    Args:
        setup: The configuration of the loader.
        steps: The steps of the loader, which know the size of the largest batch.
        asker: The argument that requests these processes.

    Raises:
        LoaderError: Another process cannot make these batches.
    """
    fetcher = setup.fetcher
    for part, name in (
        (fetcher.dataset, "dataset"),
        (fetcher.variants.views, "recipe"),
        (fetcher.order, "order"),
    ):
        # Pickled here so that the loader's constructor raises, not its first loop.
        pickled(part, name, asker)
    frames = tuple(
        tuple(frame_of(view, steps.largest_of(number), asker) for view in views)
        for number, views in enumerate(setup.variants)
    )
    # `options.recipe` is a placeholder, because a user's function may not be picklable; the fetcher has all recipes.
    options = replace(setup.options, recipe=fetcher.variants.first, workers=None)
    sent = replace(setup, options=options, variants=())
    job = Job(
        sent, setup.choice.device.type == "cuda", frames, setup.options.execution.fewest_ahead
    )
    if setup.options.execution.prefetch == "auto" and asker is HELPER:
        num_parts = -(-steps.largest * fetcher.images_per_row // PART_IMAGES)
        ahead = steps_for_threads(setup.num_threads, num_parts, job.step_bytes)
        job = replace(job, steps_ahead=ahead)
    return job


def require_helper_process(decoder: str) -> None:
    """Raise if helper processes are not supported here.

    Raises:
        LoaderError: The decoder is not "cpu", or the operating system does not support helper processes.
    """
    if decoder != "cpu":
        raise LoaderError(
            f'helper_process is not allowed with decoder="{decoder}"; use decoder="cpu", or leave '
            f"helper_process out: DALI's threads do not wait for Python's lock"
        )
    if os.name != "posix" or not sys.executable:
        raise LoaderError(
            "helper_process needs Linux or macOS and a Python interpreter that can be started as a program "
            "(sys.executable); leave helper_process out"
        )


def frame_of(view: View, count: int, asker: RemoteArgument) -> Frame:
    """Return the memory layout of a view, for batches of at most `count` samples.

    Raises:
        LoaderError: A GPU augments, and the recipe does not begin by bringing all images to one size.
    """
    count *= view.images_per_row
    if view.device.type == "cuda":
        size = view.recipe.decode_size
        if size is None:
            raise LoaderError(
                f"{asker.argument} on {view.device} needs recipes that begin with a crop or resize "
                f"to one size, got {view.recipe!r}; begin so, or leave {asker.name} out"
            )
        shape = (count, *size, view.kind.channels)
        return Frame(shape, view.kind.dtype, permuted=False, columns=view.columns)
    size = view.recipe.fixed_size
    last = view.memory_format == torch.channels_last
    channels = view.kind.channels
    shape = (count, *size, channels) if last else (count, channels, *size)
    return Frame(shape, view.dtype, permuted=last, columns=view.columns)


def pickled(part: Any, name: str, asker: RemoteArgument) -> Any:
    """Return a part of a loader, pickled by `asker.dumps`.

    Args:
        part: The object.
        name: What the object is, for the error message.
        asker: The argument that requests other processes.

    Raises:
        LoaderError: The object cannot be pickled.
    """
    try:
        return asker.dumps(part)
    except Exception as error:
        raise LoaderError(
            f"{asker.argument} needs a dataset and a recipe that can be pickled, but {name} cannot "
            f"({type(error).__name__}: {error}); replace lambdas and open files in it, or leave "
            f"{asker.name} out"
        ) from error
