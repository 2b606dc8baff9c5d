"""What other processes are told that make a loader's batches, and errors for arguments that cannot be sent to them."""

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
from dali_pipes.stages.canvases import View
from dali_pipes.stages.shared_memory import Frame, pickle_parts
from dali_pipes.stages.threads import PART_IMAGES, steps_for_threads
from dali_pipes.steps.streams.steps import AnySteps


@dataclass(frozen=True, slots=True)
class Job:
    """What a process that makes batches is told before any plan: a helper process, or a worker on another machine.

    Attributes:
        setup: The configuration of the loader, without its views and, of several recipes, all but one.
        canvases: Whether it stops at the canvases of the decode stage, which go on to a GPU.
        frames: The memory of a step under each of the run's recipes, one entry per view.
        steps_ahead: How many steps each process works on besides the current one.
    """

    setup: Setup
    canvases: bool
    frames: tuple[tuple[Frame, ...], ...]
    steps_ahead: int

    @property
    def num_slots(self) -> int:
        """Batches that helper processes share memory for: what each makes ahead, and the one that is handed over."""
        return self.setup.helpers.count * self.steps_ahead + 1


@dataclass(frozen=True, slots=True)
class Reply:
    """The reply of a helper process for its oldest batch in flight.

    Attributes:
        num_bytes: Length of the note in the batch's slot: the pickled step without its images.
        counts: What the stages did since the last reply.
        thread_seconds: Seconds that its threads had together since then.
        error: The exception raised instead.
        compiling: Seconds in which a worker on another machine compiled since the last reply.
        spans: The calls of stages that ended since the last reply, if somebody watches.
        left_out: What its clock has left out so far.
    """

    num_bytes: int
    counts: Counts
    thread_seconds: float
    error: BaseException | None = None
    compiling: float = 0.0
    spans: Sequence[Span] = ()
    left_out: float = 0.0


@dataclass(frozen=True, slots=True)
class Account:
    """What a helper process says of its threads, when an `Account` without words asks for it; it belongs to no batch."""

    text: str = ""


@dataclass(frozen=True, slots=True)
class Asker:
    """The argument of a loader that asks for another process.

    Attributes:
        argument: As it is written.
        name: Its name, for "leave it out".
        dumps: Pickles what goes to the other process.
    """

    argument: str
    name: str
    dumps: Callable[[Any], Any]


HELPER = Asker("helper_process", "helper_process", pickle_parts)


def make_job(setup: Setup, steps: AnySteps, asker: Asker) -> Job:
    """Return what another process is told.

    Args:
        setup: The configuration of the loader.
        steps: Say how many samples are worked on in a step.
        asker: Asks for that process.

    Raises:
        LoaderError: This cannot be done by another process.
    """
    fetcher = setup.fetcher
    for part, name in (
        (fetcher.dataset, "dataset"),
        (fetcher.variants.views, "recipe"),
        (fetcher.order, "order"),
    ):
        pickled(part, name, asker)  # refused now, not in the first loop
    frames = tuple(
        tuple(frame_of(view, steps.largest_of(number), asker) for view in views)
        for number, views in enumerate(setup.variants)
    )
    # A function that makes recipes need not be pickled: the fetcher has what it made.
    options = replace(setup.options, recipe=fetcher.variants.first, workers=None)
    job = replace(setup, options=options, variants=())
    ahead = setup.options.execution.fewest_ahead
    if setup.options.execution.prefetch == "auto" and asker is HELPER:
        num_parts = -(-steps.largest * fetcher.images_per_row // PART_IMAGES)
        num_bytes = max(sum(frame.size_bytes for frame in layout) for layout in frames)
        ahead = steps_for_threads(setup.num_threads, num_parts, num_bytes)
    return Job(job, setup.choice.device.type == "cuda", frames, ahead)


def require_helper_process(decoder: str) -> None:
    """Refuse what no helper process can do.

    Raises:
        LoaderError: It is another decoder than "cpu", or there can be no such process.
    """
    if decoder != "cpu":
        raise LoaderError(
            f'helper_process is not allowed with decoder="{decoder}"; use decoder="cpu", or leave '
            f"helper_process out: DALI has threads that need no interpreter"
        )
    if os.name != "posix" or not sys.executable:
        raise LoaderError(
            "helper_process is not supported on this system, which must be Linux or macOS with a "
            "Python interpreter of its own; leave helper_process out"
        )


def frame_of(view: View, count: int, asker: Asker) -> Frame:
    """Return the memory of a view, for batches of at most `count` samples.

    Raises:
        LoaderError: On a GPU, where its canvases have several sizes.
    """
    count *= view.images_per_row
    if view.device.type == "cuda":
        size = view.recipe.decode_size
        if size is None:
            raise LoaderError(
                f"{asker.argument} on {view.device} needs recipes that begin with a crop or resize "
                f"to one size, got {view.recipe!r}; begin so, or leave {asker.name} out"
            )
        return Frame((count, *size, view.kind.channels), view.kind.dtype, permuted=False)
    size = view.recipe.fixed_size
    last = view.memory_format == torch.channels_last
    channels = view.kind.channels
    shape = (count, *size, channels) if last else (count, channels, *size)
    return Frame(shape, view.dtype, permuted=last)


def pickled(part: Any, name: str, asker: Asker) -> Any:
    """Return a part of a loader as the asker's `dumps` makes it.

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
