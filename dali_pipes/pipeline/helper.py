"""The helper process: reads, decodes and augments beside the training process and its interpreter's lock."""

import os
import pickle
import threading
import traceback
from dataclasses import replace
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any, NoReturn, cast

import torch

from dali_pipes.batch import Stage, Timings
from dali_pipes.errors import LoaderError
from dali_pipes.pipeline.augment import Draw, Finisher, Pending, Sheets, View
from dali_pipes.pipeline.fetch import Work, Workshop
from dali_pipes.pipeline.job import Job, Reply
from dali_pipes.pipeline.produce import CpuProducer
from dali_pipes.pipeline.ring import Ring
from dali_pipes.schedule import Plan
from gpu_aug import Engine, compile_engine
from gpu_aug.compiled.clock import clock
from readers.sample import Payload

_STAGES: tuple[Stage, ...] = ("read", "decode", "augment")
_CPU = torch.device("cpu")
_LOOK_SECONDS = 1.0  # how often it is asked whether the training process still lives


class RingFinisher(Finisher):
    """Runs the stages of the CPU with their results going straight into the slots of a ring.

    Args:
        job: Names what is made.
        timings: Gets the seconds spent decoding and augmenting.
        ring: Where it is put.
    """

    def __init__(self, job: Job, timings: Timings, ring: Ring) -> None:
        views = [
            View(
                recipe,
                _engine_of(job, recipe),
                job.dtype,
                job.memory_format,
                _CPU,
                job.num_frames,
            )
            for recipe in job.parts["views"].recipes
        ]
        super().__init__(views, timings, job.num_threads)
        self._ring = ring
        self._canvases = job.canvases

    def spawn(self, work: Work, draw: Draw) -> Pending:
        """Start drawing the canvases of a batch, and augmenting them unless a GPU does that."""
        images = self._ring.images(work.plan.step, len(work) * self.views[0].images_per_row)
        if self._canvases:
            sheets = Sheets(work, range(len(work)), self.views, pinned=False)
            sheets.canvases = list(images)
            chunks = self.chunks(len(work))
            started = [self.pool.submit(self._draw_chunk, work, draw, sheets, *c) for c in chunks]
        else:
            started = self.finish(work, draw, images)
        return Pending(work, started, lambda: images)


def main(socket: int, memory: int, parent: int) -> NoReturn:
    """Be the helper process until the training process is gone or closes the connection.

    Args:
        socket: File descriptor of the connection: a pickled Job comes in, then plans; replies go out.
        memory: File descriptor of the ring.
        parent: Process id of the training process.
    """
    status = 0
    try:
        _serve(Connection(socket), memory, parent)
    except (EOFError, OSError):  # nobody is there to be told
        pass
    except Exception:  # noqa: BLE001 - it is reported by the training process, with the status
        traceback.print_exc()
        status = 1
    os._exit(status)  # threads may be in the middle of batches that nobody waits for


def _serve(connection: Connection, memory: int, parent: int) -> None:
    timings = Timings()
    try:
        job = _unpickle(connection.recv_bytes())
        ring = Ring(job.frames, job.prefetch + 1, memory)
        workshop = Workshop(**job.parts, timings=timings)
        finisher = RingFinisher(job, timings, ring)
        producer = CpuProducer(workshop, finisher, job.prefetch, fast=job.fast)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is raised in the training process
        connection.send(Reply(0, {}, portable(error)))
        return
    plans: SimpleQueue[Plan] = SimpleQueue()
    everything = (connection, ring, producer, plans, timings, _num_draws(job))
    threading.Thread(target=_answer, args=everything, daemon=True).start()
    while True:
        while not connection.poll(_LOOK_SECONDS):
            # A process that was forked from it may hold the connection open.
            if os.getppid() != parent:
                return
        plan = connection.recv()
        producer.submit(plan)
        plans.put(plan)


def _answer(
    connection: Connection,
    ring: Ring,
    producer: CpuProducer,
    plans: SimpleQueue[Plan],
    timings: Timings,
    num_draws: int,
) -> None:
    """Send a reply for every plan, in order."""
    left_out = 0.0
    while True:
        plan = plans.get()
        try:
            work, _ = producer.take()
            note = pickle.dumps(_stripped(work, num_draws), pickle.HIGHEST_PROTOCOL)
            ring.write_note(plan.step, note)
            before, left_out = left_out, clock.left_out
            reply = Reply(len(note), _spent(timings), compiling=left_out - before)
        except BaseException as error:  # noqa: BLE001 - as above
            reply = Reply(0, _spent(timings), portable(error))
        try:
            connection.send(reply)
        except OSError:  # the training process is gone, which the other thread notices, too
            return


def portable(error: BaseException) -> BaseException:
    """Return an error that can be pickled: the same where that works, with where it was raised as a note."""
    trace = "".join(traceback.format_exception(error))
    try:
        copy: BaseException = pickle.loads(pickle.dumps(error))
    except Exception:  # noqa: BLE001 - the errors of others are pickled in ways of their own
        copy = RuntimeError(f"{type(error).__name__}: {error}")
    copy.add_note(f"raised in the helper process:\n{trace.rstrip()}")
    return copy


def _unpickle(data: bytes) -> Job:
    try:
        job = pickle.loads(data)
    except Exception as error:
        raise LoaderError(
            f"helper_process=True: the dataset or the recipe cannot be loaded in the helper process "
            f"({type(error).__name__}: {error}); define their classes and functions in a module that "
            f"can be imported, not in the script that is run, or leave helper_process out"
        ) from error
    return cast(Job, job)


def _engine_of(job: Job, recipe: Any) -> Engine:
    if job.canvases:
        return cast(Engine, None)  # it runs in the training process
    return compile_engine(job.engine, recipe, device=_CPU, exact=job.exact)


def _num_draws(job: Job) -> int:
    """For how many views the training process needs the draws: for a GPU, or for the labels of mixing."""
    recipes = job.parts["views"].recipes
    if job.canvases:
        return len(recipes)
    return int(recipes[0].group > 1)


def _stripped(work: Work, num_draws: int) -> Work:
    """Leave out what the training process has no use for: of the encoded images, whether they are there."""
    count = len(work)
    present: list[Payload | None] = [None if data is None else b"" for data in work.data]
    stripped = replace(work, data=present, fields=[{}] * count, restarts=[None] * count)
    stripped.draws = work.draws[:num_draws]
    return stripped


def _spent(timings: Timings) -> dict[Stage, float]:
    """Take out what has come together; threads may add to it meanwhile."""
    seconds = {stage: float(getattr(timings, stage)) for stage in _STAGES}
    for stage, spent in seconds.items():
        timings.add(stage, -spent)
    return seconds
