"""The helper process: reads, decodes and augments outside the training process and its interpreter lock."""

import os
import pickle
import threading
import traceback
from collections.abc import Sequence
from dataclasses import replace
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import NoReturn, cast

import torch

from dali_pipes.decode.threaded import CpuDecoder
from dali_pipes.errors import LoaderError
from dali_pipes.options import make_views
from dali_pipes.pipeline.augment import Augmenter, Engines
from dali_pipes.pipeline.canvases import Canvases
from dali_pipes.pipeline.job import Account, Job, Reply
from dali_pipes.pipeline.pipeline import Pipeline
from dali_pipes.pipeline.shared_memory import Ring
from dali_pipes.pipeline.stages import Decoded, Fetched, Finished, Images, Pending, join
from dali_pipes.pipeline.threads import Render, Workers
from dali_pipes.ranks.stall import describe_threads
from dali_pipes.schedule import Plan
from dali_pipes.stats.counts import Counts
from dali_pipes.stats.observer import Spans
from dali_pipes.warm import compile_ahead
from gpu_aug.compiled.clock import clock

_CPU = torch.device("cpu")
_LOOK_SECONDS = 1.0  # how often it is asked whether the training process still lives


def build(job: Job, ring: Ring) -> Pipeline:
    """Build the pipeline of a job, whose results go straight into the slots of a ring."""
    setup, fetcher = job.setup, job.setup.fetcher
    times = fetcher.images_per_row
    workers = Workers(fetcher, setup.num_threads)

    def slot(fetched: Fetched) -> Images:
        return ring.images(fetched.plan.step, len(fetched) * times, fetched.plan.variant)

    def render_alone(fetched: Fetched, render: Render) -> Pending:
        images = slot(fetched)

        def finish(parts: Sequence[Decoded]) -> tuple[Finished, Images]:
            return join(fetched, parts).finished(), images

        canvases = Canvases(images, times, pinned=False, kind=fetcher.images.kind)
        return Pending(finish, workers.render(fetched, render, canvases))

    spawn = render_alone
    if not job.canvases:
        variants = make_views(setup.options, fetcher, setup.choice.engine, _CPU)
        engines = [Engines(views, fetcher.recorder) for views in variants]
        spawn = Augmenter(engines, workers, slot).spawn
    fused = setup.choice.engine == "fused" and not job.canvases
    compile_ahead(fetcher.variants.recipes if fused else ())
    prefetch, fast = setup.options.prefetch, setup.options.fast
    return Pipeline(fetcher, CpuDecoder(fetcher, spawn, prefetch, fast=fast), workers)


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
    try:
        job = _unpickle(connection.recv_bytes())
        ring = Ring(job.frames, job.setup.options.prefetch + 1, memory)
        pipeline = build(job, ring)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is raised in the training process
        connection.send(Reply(0, Counts(), 0.0, portable(error)))
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
        pipeline.submit(plan)
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
    left_out, num_draws = 0.0, _num_draws(job)
    recorder, num_threads, latest = job.setup.fetcher.recorder, job.setup.num_threads, clock()
    while True:
        plan = plans.get()
        try:
            finished, _ = pipeline.take()
            finished = replace(finished, draws=finished.draws[:num_draws])
            note = pickle.dumps(finished, pickle.HIGHEST_PROTOCOL)
            ring.write_note(plan.step, note)
            before, left_out = left_out, clock.left_out
            reply = Reply(len(note), Counts(), 0.0, compiling=left_out - before)
        except BaseException as error:  # noqa: BLE001 - as above
            reply = Reply(0, Counts(), 0.0, portable(error))
        began, latest = latest, clock()
        seconds = max(0.0, latest - began) * num_threads
        try:
            counted = replace(reply, counts=recorder.taken(), thread_seconds=seconds)
            with sending:
                connection.send(replace(counted, spans=watching.taken(), left_out=clock.left_out))
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


def _num_draws(job: Job) -> int:
    """How many views there are of which the training process needs the draws: for a GPU, or for the labels of mixing."""
    variants = job.setup.fetcher.variants
    if job.canvases:
        return len(variants.views[0])
    return int(variants.mixing is not None)
