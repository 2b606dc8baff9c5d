"""Make steps in a process other than the training process: a helper process, or a worker on a Ray cluster."""

import pickle
import threading
import traceback
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import torch
from numpy.typing import NDArray

from dali_pipes.arguments.setup import make_views
from dali_pipes.decode.threaded import CpuDecoder
from dali_pipes.jpeg.seek_point_stores import open_seek_points
from dali_pipes.machine.compile_ahead import compile_ahead
from dali_pipes.monitoring.observer import Spans
from dali_pipes.monitoring.ranks.stall import describe_threads
from dali_pipes.stages.augment import Augmenter, Engines, finish_in_memory
from dali_pipes.stages.canvas_memory import Canvases
from dali_pipes.stages.data import Fetched, Finished, Images, Pending
from dali_pipes.stages.job import Job, Report
from dali_pipes.stages.pipeline import Pipeline
from dali_pipes.stages.threads import Render, Workers
from gpu_aug.compiled.clock import clock

_CPU = torch.device("cpu")

# torch 2.15 pickles tensors of these types, but raises AttributeError when it unpickles them.
_NOT_UNPICKLED = (torch.uint16, torch.uint32, torch.uint64)

Dumps = Callable[[object], bytes]
Result = TypeVar("Result")


def dumps(value: object) -> bytes:
    """Pickle an object with the newest protocol, which copies large arrays once instead of twice."""
    return pickle.dumps(value, pickle.HIGHEST_PROTOCOL)


class _Unsigned:
    """Becomes a tensor when it is unpickled; for the types that torch does not unpickle."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor

    def __reduce__(self) -> tuple[Callable[..., torch.Tensor], tuple[NDArray[Any]]]:
        return torch.from_numpy, (self.tensor.numpy(),)


def _picklable(value: Any) -> Any:
    """Return the value of a field, wrapped if torch could not unpickle it."""
    is_unsigned = isinstance(value, torch.Tensor) and value.dtype in _NOT_UNPICKLED
    return _Unsigned(value) if is_unsigned else value


class StepMaker:
    """Makes steps in a process other than the training process, and reports on them.

    Args:
        job: What this process needs to make the batches.
        memory: Returns the memory for the images of a step; see `build`.
        where: Where this process runs, for error messages, such as "in the helper process".
        dumps: Pickles metadata and errors.

    Attributes:
        pipeline: Makes the steps.
    """

    def __init__(
        self, job: Job, memory: Callable[[Fetched], Images], where: str, dumps: Dumps = dumps
    ) -> None:
        self.pipeline = build(job, memory)
        self._job, self._where, self._dumps = job, where, dumps
        self._recorder, self._spans = job.setup.fetcher.recorder, Spans()
        self._lock, self._reported = threading.Lock(), clock()

    def observe(self, *, is_watched: bool) -> None:
        """Set whether each stage call is recorded for the observers of the training process."""
        self._recorder.observers = (self._spans,) if is_watched else ()

    def metadata(self, finished: Finished) -> bytes:
        """Return the pickled step without its images, and with only those draws that the training process needs."""
        variants = self._job.setup.fetcher.variants
        # A GPU needs the draws of all views; mixing labels needs those of the first view.
        num_draws = (
            len(variants.views[0]) if self._job.canvases else int(variants.mixing is not None)
        )
        values = [tuple(map(_picklable, row)) for row in finished.values]
        return self._dumps(replace(finished, draws=finished.draws[:num_draws], values=values))

    def attempt(self, work: Callable[[], Result]) -> tuple[Result | None, Report]:
        """Call a function that makes one step, and catch its exception.

        Returns:
            The result (None after an exception), and the report, which holds the exception.
        """
        result, error = None, None
        try:
            result = work()
        except BaseException as raised:  # noqa: BLE001 - the training process raises it, whatever it is
            error = portable(raised, self._where, self._dumps)
        with self._lock:
            began, self._reported = self._reported, clock()
            seconds = max(0.0, self._reported - began) * self._job.setup.num_threads
            counts, spans = self._recorder.take(), self._spans.take()
        return result, Report(counts, seconds, error, spans, clock.left_out)

    def describe_threads(self) -> str:
        """Return a description of what the threads of this process do, for a report of a stall."""
        return describe_threads(self._recorder)


def build(job: Job, memory: Callable[[Fetched], Images]) -> Pipeline:
    """Build the pipeline that makes the batches of a job in this process.

    Args:
        job: What this process needs to make the batches.
        memory: Returns the memory for the images of a step: finished images, or canvases if a GPU augments.
    """
    setup, fetcher = job.setup, job.setup.fetcher
    workers = Workers(fetcher, setup.num_threads)

    def render_alone(fetched: Fetched, render: Render) -> Pending:
        images = memory(fetched)
        finish = partial(finish_in_memory, fetched, images)
        columns = tuple(frame.columns for frame in job.frames[fetched.plan.variant])
        canvases = Canvases(images, columns, pinned=False, kind=fetcher.images.kind)
        return Pending(finish, workers.render(fetched, render, canvases))

    spawn = render_alone
    if not job.canvases:
        variants = make_views(setup.options, fetcher, setup.choice.engine, _CPU)
        engines = [Engines(views, fetcher.recorder) for views in variants]
        spawn = Augmenter(engines, workers, memory).spawn
    fused = setup.choice.engine == "fused" and not job.canvases
    compile_ahead(fetcher.variants.recipes if fused else (), fetcher.has_jpegs)
    store, fast = open_seek_points(fetcher.dataset), setup.options.execution.is_fast
    decoder = CpuDecoder(fetcher, spawn, job.steps_ahead, workers, fast=fast, store=store)
    return Pipeline(fetcher, decoder, workers)


def portable(error: BaseException, where: str, dumps: Dumps = dumps) -> BaseException:
    """Return `error` itself if it can be pickled, else a picklable error like it, with the traceback as a note."""
    trace = "".join(traceback.format_exception(error))
    try:
        copy: BaseException = pickle.loads(dumps(error))
    except Exception:  # noqa: BLE001 - other packages' errors may fail to pickle in any way
        copy = RuntimeError(f"{type(error).__name__}: {error}")
    copy.add_note(f"raised {where}:\n{trace.rstrip()}")
    return copy
