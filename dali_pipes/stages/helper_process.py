"""A helper process: reads, decodes and augments outside the training process and its interpreter lock."""

import os
import pickle
import threading
import traceback
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import NoReturn, cast

from dali_pipes.errors import LoaderError
from dali_pipes.monitoring.counts import Counts
from dali_pipes.monitoring.observer import Spans
from dali_pipes.monitoring.ranks.stall import describe_threads
from dali_pipes.stages.data import Fetched, Images
from dali_pipes.stages.job import Account, Job, Reply
from dali_pipes.stages.pipeline import Pipeline
from dali_pipes.stages.remote_production import build, needed_by_trainer, portable
from dali_pipes.stages.shared_memory import Ring, load_shared
from dali_pipes.steps.schedule import Plan
from gpu_aug.compiled.clock import clock

_HERE = "in the helper process"
_LOOK_SECONDS = 1.0  # how often it is asked whether the training process still lives


def main(socket: int, memory: int, told: int, parent: int) -> NoReturn:
    """Be a helper process until the training process is gone or closes the connection.

    Args:
        socket: File descriptor of the connection: plans come in, replies go out.
        memory: File descriptor of the ring.
        told: File descriptor of the shared Job.
        parent: Process id of the training process.
    """
    status = 0
    try:
        _serve(Connection(socket), memory, told, parent)
    except (EOFError, ConnectionError):  # the training process is gone
        pass
    except Exception:  # noqa: BLE001 - it is reported by the training process, with the status
        traceback.print_exc()
        status = 1
    os._exit(status)  # threads may be in the middle of batches that nobody waits for


def _serve(connection: Connection, memory: int, told: int, parent: int) -> None:
    try:
        job = _load(told)
        ring = Ring(job.frames, job.num_slots, memory)
        pipeline = build(job, _slots(job, ring))
    except Exception as error:  # noqa: BLE001 - whatever it is, it is raised in the training process
        connection.send(Reply(0, Counts(), 0.0, portable(error, _HERE)))
        return
    plans: SimpleQueue[Plan] = SimpleQueue()
    sending, recorder, watching = threading.Lock(), job.setup.fetcher.recorder, Spans()
    everything = (connection, ring, pipeline, plans, job, sending, watching)
    threading.Thread(target=_answer, args=everything, daemon=True).start()
    while True:
        while not connection.poll(_LOOK_SECONDS):
            # A process that was forked from it may hold the connection open.
            if os.getppid() != parent:
                return
        plan = connection.recv()
        if isinstance(plan, Account):
            words = describe_threads(recorder)
            with sending:
                connection.send(Account(words))
            continue
        if isinstance(plan, bool):
            recorder.observers = (watching,) if plan else ()
            continue
        pipeline.start(plan)
        plans.put(plan)


def _answer(
    connection: Connection,
    ring: Ring,
    pipeline: Pipeline,
    plans: SimpleQueue[Plan],
    job: Job,
    sending: threading.Lock,
    watching: Spans,
) -> None:
    """Send a reply for every plan, in order."""
    recorder, num_threads, latest = job.setup.fetcher.recorder, job.setup.num_threads, clock()
    while True:
        plan = plans.get()
        try:
            finished, _ = pipeline.take()
            note = pickle.dumps(needed_by_trainer(finished, job), pickle.HIGHEST_PROTOCOL)
            ring.write_note(plan.step, note)
            reply = Reply(len(note), Counts(), 0.0)
        except BaseException as error:  # noqa: BLE001 - as above
            reply = Reply(0, Counts(), 0.0, portable(error, _HERE))
        began, latest = latest, clock()
        seconds = max(0.0, latest - began) * num_threads
        try:
            counted = replace(reply, counts=recorder.taken(), thread_seconds=seconds)
            with sending:
                connection.send(replace(counted, spans=watching.taken(), left_out=clock.left_out))
        except OSError:  # the training process is gone, which the other thread notices, too
            return


def _slots(job: Job, ring: Ring) -> Callable[[Fetched], Images]:
    """Return what finds the memory of a step in the ring."""
    times = job.setup.fetcher.images_per_row

    def slot(fetched: Fetched) -> Images:
        return ring.images(fetched.plan.step, len(fetched) * times, fetched.plan.variant)

    return slot


def _load(told: int) -> Job:
    try:
        job = load_shared(told)
    except Exception as error:
        raise LoaderError(
            f"helper_process: the dataset or the recipe cannot be loaded in the helper process "
            f"({type(error).__name__}: {error}); define their classes and functions in a module that "
            f"can be imported, not in the script that is run, or leave helper_process out"
        ) from error
    return cast(Job, job)
