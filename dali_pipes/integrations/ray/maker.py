"""The Ray actor (Maker) that makes steps of a loader on another machine: it gets plans and returns finished steps."""

import faulthandler
import platform
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.dlpack import from_dlpack

from dali_pipes.integrations.ray.cluster import require_ray
from dali_pipes.integrations.ray.consistency import (
    Probe,
    require_same_data,
    require_same_versions,
    this_worker,
    unpickled,
)
from dali_pipes.stages.canvas_memory import BatchMemory
from dali_pipes.stages.data import Fetched, Images
from dali_pipes.stages.job import Job, Report
from dali_pipes.stages.remote_production import StepMaker
from dali_pipes.steps.schedule import Plan
from gpu_aug.compiled.clock import clock

Bytes = NDArray[np.uint8]
Result = TypeVar("Result")

STEPS_AT_ONCE = 2
"""Steps that an actor works on at a time: it reads the next step while it makes the last rows of the current one."""

# Interval of checking the deadline while a step is made; the deadline is exceeded by at most this time.
_LOOK_SECONDS = 1.0
# Extra time if no Python code has run since the last check. Compilers hold the GIL for seconds, not minutes.
_BLOCKED_SECONDS = 60.0
# File descriptor that Ray writes to the actor's log.
_STDERR = 2


class LateError(Exception):
    """An actor missed its deadline and may hang."""


@dataclass(frozen=True, slots=True)
class MadeStep:
    """A finished step on its way to the training process.

    Ray transfers NumPy arrays without a copy: they are read-only and lie in shared memory.

    Attributes:
        report: The report of the step; see Report.
        metadata: The pickled step without its images; empty after an error.
        images: For each view, the bytes of the images or canvases in memory order.
        wall_seconds: Wall-clock time minus the actor's own clock; only the wall clock is common to machines.
    """

    report: Report
    metadata: Bytes
    images: Sequence[Bytes]
    wall_seconds: float


class Maker:
    """Makes steps of a loader; after `begin`, several threads may call its methods at once.

    Args:
        deadline_seconds: Longest time to make a step or to start, in seconds; compiling does not count.
    """

    def __init__(self, deadline_seconds: float) -> None:
        self._deadline_seconds = deadline_seconds
        self._threads = ThreadPoolExecutor(STEPS_AT_ONCE)

    def begin(self, versions: dict[str, str], job: Bytes, probe: Probe) -> tuple[str, str]:
        """Open the dataset, compare it with the training process's, and build the pipeline.

        Args:
            versions: Versions of the training process; see `consistency.versions`.
            job: The pickled Job.
            probe: Samples as the training process reads them.

        Returns:
            The name of this machine, and its id in Ray.

        Raises:
            ClusterError: The versions differ, or the dataset has other content or cannot be read on this machine.
            LateError: The work took longer than the deadline.
        """
        require_same_versions(versions)
        machine = platform.node()
        starting = f"been starting on {machine}"
        self._maker = self._in_time(partial(_step_maker, job, probe), starting)
        return machine, require_ray().get_runtime_context().get_node_id()

    def make(self, plan: Plan, is_watched: bool) -> MadeStep:
        """Make and return a step; an error that occurs in making it is returned in the step's report.

        Args:
            plan: The step.
            is_watched: Whether to record each stage call.

        Raises:
            LateError: The step took longer than the deadline.
        """
        self._maker.observe(is_watched=is_watched)
        work = partial(self._maker.attempt, partial(self._make, plan))
        made, report = self._in_time(work, "worked on a step")
        metadata, images = made or (np.empty(0, np.uint8), [])
        return MadeStep(report, metadata, images, time.time() - time.perf_counter())

    def describe_threads(self) -> str:
        """Return a text that says what each thread of this actor does now, for messages about a late batch."""
        return self._maker.describe_threads()

    def _make(self, plan: Plan) -> tuple[Bytes, list[Bytes]]:
        finished, images = self._maker.pipeline.make(plan)
        metadata = np.frombuffer(self._maker.metadata(finished), np.uint8)
        return metadata, [as_bytes(view) for view in images]

    def _in_time(self, work: Callable[[], Result], what: str) -> Result:
        """Run a function in another thread and wait for it until the deadline, excluding compiling time.

        Raises:
            LateError: The deadline has passed.
        """
        longest_seconds = self._deadline_seconds + _BLOCKED_SECONDS
        began, future = clock(), None
        while future is None or not wait([future], timeout=_LOOK_SECONDS).done:
            # Ends the process if native code holds the GIL, so that this loop cannot continue. That may happen at once,
            # so the timer starts before the work.
            faulthandler.dump_traceback_later(longest_seconds, exit=True, file=_STDERR)
            future = future or self._threads.submit(work)
            if (seconds := clock() - began) >= self._deadline_seconds:
                raise LateError(f"it has {what} for {seconds:.1f} s")
        faulthandler.cancel_dump_traceback_later()
        return future.result()


def as_bytes(images: torch.Tensor) -> Bytes:
    """Return the memory of images without a copy: uint8 [bytes]."""
    dense = images if images.is_contiguous() else images.permute(0, 2, 3, 1)
    array: Bytes = dense.reshape(-1).view(torch.uint8).numpy()
    return array


def as_memory(data: Bytes) -> torch.Tensor:
    """Return bytes as a tensor without a copy; it must not be written."""
    # Not torch.from_numpy, which warns about read-only arrays. Not DLPack for an empty array: its stride of 0 makes `view` fail.
    return from_dlpack(data) if data.size else torch.empty(0, dtype=torch.uint8)


def step_memory(job: Job) -> Callable[[Fetched], Images]:
    """Return a function that allocates the memory of a step; Ray copies it at the hand-over."""
    unused = BatchMemory()

    def memory(fetched: Fetched) -> Images:
        views = []
        for frame in job.frames[fetched.plan.variant]:
            shape = (len(fetched) * len(frame.columns), *frame.shape[1:])
            images = unused.empty(shape, frame.dtype)
            views.append(images.permute(0, 3, 1, 2) if frame.permuted else images)
        return tuple(views)

    return memory


def _step_maker(data: Bytes, probe: Probe) -> StepMaker:
    job: Job = unpickled(data.data, "the dataset or the recipe")
    require_same_data(job.setup.fetcher.dataset, probe)
    # cloudpickle also pickles classes of the user's script.
    dumps = require_ray("ray.cloudpickle").dumps
    return StepMaker(job, step_memory(job), f"by {this_worker()}", dumps)
