"""Maker: what runs in a Ray actor, on another machine: plans go in, finished steps come out."""

import platform
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.dlpack import from_dlpack

from dali_pipes.errors import ClusterError
from dali_pipes.integrations.ray.connect import require_ray
from dali_pipes.integrations.ray.probe import Probe, require_probe
from dali_pipes.integrations.ray.versions import require_same
from dali_pipes.monitoring.counts import Counts
from dali_pipes.monitoring.observer import Spans
from dali_pipes.monitoring.ranks.stall import describe_threads
from dali_pipes.stages.canvases import aligned
from dali_pipes.stages.data import Fetched, Images
from dali_pipes.stages.job import Job, Reply
from dali_pipes.stages.remote_production import build, needed_by_trainer, portable
from dali_pipes.stages.shared_memory import Frame
from dali_pipes.steps.schedule import Plan
from gpu_aug.compiled.clock import clock

Bytes = NDArray[np.uint8]

STEPS_AT_ONCE = 2
"""Steps that an actor works on at a time: while the last rows of one are made, the next one is read."""

_REMEMBERED = 64  # steps of which it is known when they began


@dataclass(frozen=True, slots=True)
class Begun:
    """What an actor says once it can work.

    Attributes:
        machine: The name of its machine.
        node: Ray's name for that.
    """

    machine: str
    node: str


@dataclass(frozen=True, slots=True)
class Made:
    """A step on its way to the training process.

    Arrays of bytes are what Ray hands over without a copy: they lie in shared memory there, and can only be read.

    Attributes:
        reply: What was counted, or the error.
        note: The pickled step without its images.
        images: Per view the bytes of its images, or of its canvases, as they lie in memory.
        wall_seconds: By how much the clock on the wall is ahead of the actor's own one.
    """

    reply: Reply
    note: Bytes
    images: Sequence[Bytes]
    wall_seconds: float


class Maker:
    """Makes steps of a loader; every method but `begin` may be called by several threads at once."""

    def __init__(self) -> None:
        self._arrived = clock()

    def starting(self) -> tuple[str, float]:
        """Return the name of the machine, and the seconds since the actor is on it, compiling left out."""
        return platform.node(), clock() - self._arrived

    def begin(self, versions: dict[str, str], job: Bytes, probe: Probe) -> Begun:
        """Get ready.

        Args:
            versions: Those of the training process.
            job: The pickled Job.
            probe: What the training process reads of the dataset.

        Raises:
            ClusterError: The versions differ, or the dataset cannot be read here.
        """
        require_same(versions)
        self._job = _unpickled(job)
        setup = self._job.setup
        require_probe(setup.fetcher.dataset, probe)
        self._recorder, self._num_threads = setup.fetcher.recorder, setup.num_threads
        self._pipeline = build(self._job, step_memory(self._job))
        self._counting = threading.Lock()
        self._watching = Spans()
        self._since, self._left_out = clock(), clock.left_out
        self._began: dict[int, float] = {}
        self._at_work: dict[int, float] = {}
        node = require_ray().get_runtime_context().get_node_id()
        return Begun(platform.node(), node)

    def make(self, plan: Plan, number: int, watched: bool) -> Made:
        """Make a step.

        Args:
            plan: The step.
            number: Names it in `seconds`.
            watched: Whether somebody wants to know of each call of a stage.
        """
        began = clock()
        self._began[number] = self._at_work[number] = began
        for old in list(self._began)[:-_REMEMBERED]:
            self._began.pop(old, None)
        self._recorder.observers = (self._watching,) if watched else ()
        note, images, error = _NOTHING, list[Bytes](), None
        try:
            finished, made = self._pipeline.make(plan)
            note = np.frombuffer(_dumps(needed_by_trainer(finished, self._job)), np.uint8)
            images = [as_bytes(view) for view in made]
        except BaseException as raised:  # noqa: BLE001 - whatever it is, it is raised in the training process
            error = portable(raised, f"by the worker on {platform.node()}", _dumps)
        finally:
            del self._at_work[number]
        return Made(self._reply(len(note), error), note, images, time.time() - time.perf_counter())

    def seconds(self, number: int) -> float:
        """Return for how long a step has been under way since it began, or the one that takes longest, compiling left out."""
        now = clock()
        began = [*self._at_work.copy().values(), self._began.get(number, now)]
        return now - min(began)

    def account(self) -> str:
        """Say what the threads do."""
        return describe_threads(self._recorder)

    def _reply(self, num_bytes: int, error: BaseException | None) -> Reply:
        with self._counting:
            now, left_out = clock(), clock.left_out
            seconds = max(0.0, now - self._since) * self._num_threads
            compiling = left_out - self._left_out
            self._since, self._left_out = now, left_out
            counts: Counts = self._recorder.taken()
            return Reply(
                num_bytes, counts, seconds, error, compiling, self._watching.taken(), left_out
            )


_NOTHING: Bytes = np.empty(0, np.uint8)


def as_bytes(images: torch.Tensor) -> Bytes:
    """Return the memory of images without a copy: uint8 [bytes]."""
    dense = images if images.is_contiguous() else images.permute(0, 2, 3, 1)
    array: Bytes = dense.reshape(-1).view(torch.uint8).numpy()
    return array


def as_images(data: Bytes, frame: Frame) -> torch.Tensor:
    """Return memory as images without a copy, [images, channels, height, width], or canvases; it must not be written to."""
    if data.size:
        memory: torch.Tensor = from_dlpack(data)  # from_numpy warns of memory that can only be read
        images = memory.view(frame.dtype).view(-1, *frame.shape[1:])
    else:
        images = torch.empty((0, *frame.shape[1:]), dtype=frame.dtype)
    return images.permute(0, 3, 1, 2) if frame.permuted else images


def step_memory(job: Job) -> Callable[[Fetched], Images]:
    """Return what makes the memory of a step: Ray copies it into its own as the step is handed over."""
    times = job.setup.fetcher.images_per_row

    def memory(fetched: Fetched) -> Images:
        made = []
        for frame in job.frames[fetched.plan.variant]:
            images = aligned((len(fetched) * times, *frame.shape[1:]), frame.dtype)
            made.append(images.permute(0, 3, 1, 2) if frame.permuted else images)
        return tuple(made)

    return memory


def _unpickled(data: Bytes) -> Job:
    try:
        job: Job = require_ray("ray.cloudpickle").loads(data.data)
    except Exception as error:
        raise ClusterError(
            f"the worker on {platform.node()} cannot open the dataset or make the recipe ({type(error).__name__}: "
            f"{error}): give it paths or URLs that every machine of the cluster can reach, and code that is installed there"
        ) from error
    return job


def _dumps(part: Any) -> bytes:
    data: bytes = require_ray("ray.cloudpickle").dumps(part)
    return data
