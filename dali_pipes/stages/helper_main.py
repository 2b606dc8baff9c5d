"""The program of a helper process, which reads, decodes and augments outside the training process and its GIL."""

import os
import threading
import traceback
from functools import partial
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any, NoReturn, cast

from dali_pipes.errors import LoaderError
from dali_pipes.stages.job import Job
from dali_pipes.stages.remote_production import StepMaker, portable
from dali_pipes.stages.shared_memory import Ring, load_shared
from dali_pipes.steps.schedule import Plan

_WHERE = "in the helper process"
"""Names the place of an error in its message."""
# Interval of checks that the training process is alive; if it is killed, its helpers live on for up to a second.
_CHECK_SECONDS = 1.0


def main(socket: int, memory: int, job: int, parent: int) -> NoReturn:
    """Run a helper process until the training process ends or closes the connection.

    Args:
        socket: File descriptor of the connection, which receives plans and sends reports.
        memory: File descriptor of the shared Ring.
        job: File descriptor of the shared Job.
        parent: Process id of the training process.
    """
    status = 0
    try:
        _serve(Connection(socket), memory, job, parent)
    except (EOFError, ConnectionError):  # the training process has ended
        pass
    except Exception:  # noqa: BLE001 - the training process reports the status
        traceback.print_exc()
        status = 1
    os._exit(status)  # does not wait for threads: their steps are not needed any more


def _serve(connection: Connection, memory: int, job_descriptor: int, parent: int) -> None:
    try:
        job = _load(job_descriptor)
        ring = Ring(job.frames, job.num_slots, memory)
        maker = StepMaker(
            job,
            lambda step: ring.images(step.plan.step, len(step), step.plan.variant),
            _WHERE,
        )
    except Exception as error:  # noqa: BLE001 - the training process raises it
        connection.send(portable(error, _WHERE))
        return
    plans: SimpleQueue[Plan] = SimpleQueue()
    lock = threading.Lock()  # two threads send

    def send(message: Any) -> None:
        with lock:
            connection.send(message)

    threading.Thread(target=_send_steps, args=(send, ring, maker, plans), daemon=True).start()
    while True:
        while not connection.poll(_CHECK_SECONDS):
            # The connection alone is not enough: a process forked from the training process may hold it open.
            if os.getppid() != parent:
                return
        message = connection.recv()
        if message is None:  # None asks for a description of the threads
            send(maker.describe_threads())
            continue
        plan, is_watched = message
        maker.observe(is_watched=is_watched)
        maker.pipeline.start(plan)
        plans.put(plan)


def _send_steps(send: Any, ring: Ring, maker: StepMaker, plans: SimpleQueue[Plan]) -> None:
    """Make the steps of the plans, and send for each its index, the length of its metadata, and its report."""

    def finish(step: int) -> int:
        finished, _ = maker.pipeline.take()
        metadata = maker.metadata(finished)
        ring.write_metadata(step, metadata)
        return len(metadata)

    while True:
        step = plans.get().step
        num_bytes, report = maker.attempt(partial(finish, step))
        try:
            send((step, num_bytes or 0, report))
        except OSError:  # the training process has ended; the main thread notices that, too
            return


def _load(descriptor: int) -> Job:
    try:
        return cast(Job, load_shared(descriptor))
    except Exception as error:
        raise LoaderError(
            f"helper_process: the dataset or the recipe cannot be loaded in the helper process "
            f"({type(error).__name__}: {error}); define their classes and functions in a module that "
            f"can be imported, not in the script that is run, or leave helper_process out"
        ) from error
