"""Producing batches in a helper process, independent of the training process's interpreter lock."""

import json
import logging
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection

from dali_pipes.errors import LoaderError
from dali_pipes.pipeline.augment import Engines
from dali_pipes.pipeline.job import HELPER, Account, Job, Reply, pickled
from dali_pipes.pipeline.received import Receiver, take_over
from dali_pipes.pipeline.shared_memory import Ring
from dali_pipes.pipeline.stages import Finished, Images
from dali_pipes.pipeline.streams import Ahead
from dali_pipes.schedule import Plan
from dali_pipes.stats.observer import shifted
from gpu_aug.compiled.clock import clock

_log = logging.getLogger(f"gpu_aug.{__name__}")

# Ctrl-C is for the training process, whose end ends the helper.
_START = """
import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)
import json, sys
path, *numbers = json.loads(sys.argv[1])
sys.path[:] = path
from dali_pipes.pipeline.helper_process import main
main(*numbers)
"""
# What the helper has to end by itself; it takes milliseconds once it is imported.
_END_SECONDS = 1.0


class Helper:
    """A running helper process and the connection to it.

    Args:
        job: What it does.

    Raises:
        LoaderError: The job cannot be pickled, or there is no memory for its batches.
    """

    def __init__(self, job: Job) -> None:
        told = pickled(job, "the job", HELPER)
        self.capacity = job.setup.options.fewest_ahead
        self.ring = Ring(job.frames, self.capacity + 1)
        self._connection, theirs = Pipe()
        with theirs:
            self._process = _start(theirs.fileno(), self.ring.descriptor)
        self._accounts: queue.SimpleQueue[Account] = queue.SimpleQueue()
        self._sending = threading.Lock()
        self._end = weakref.finalize(self, _end, self._process, self._connection, self.ring)
        _log.info("helper process %d started", self._process.pid)
        self._replies: deque[Reply] = deque()
        self._watched = False
        self._send(told)

    def ready(self) -> int:
        """How many batches are finished."""
        with suppress(EOFError, OSError):  # it has ended, which `receive` says
            while self._connection.poll():
                self._sort(self._connection.recv())
        return len(self._replies)

    def watch(self, *, watched: bool) -> None:
        """Say whether somebody wants to know of each call of a stage."""
        if watched != self._watched:
            self._watched = watched
            self._send(pickle.dumps(watched, pickle.HIGHEST_PROTOCOL))

    def submit(self, plan: Plan) -> None:
        """Start on a batch."""
        self._send(pickle.dumps(plan, pickle.HIGHEST_PROTOCOL))

    def receive(self) -> Reply:
        """Wait for the oldest batch.

        Raises:
            LoaderError: The process has ended.
        """
        if self._replies:
            return self._replies.popleft()
        began = time.perf_counter()
        while not self._replies:
            try:
                self._sort(self._connection.recv())
            except (EOFError, OSError):
                raise self._ended() from None
        reply = self._replies.popleft()
        clock.leave_out(min(reply.compiling, time.perf_counter() - began))
        return reply

    def close(self) -> None:
        """End the process and give back its memory."""
        self._end()

    def account(self, seconds: float) -> str:
        """Ask the process what its threads do, while another thread is in `receive`, which takes the answer.

        Returns:
            The answer; where none came in so many seconds, that.
        """
        while not self._accounts.empty():
            self._accounts.get_nowait()
        self._send(pickle.dumps(Account()))
        try:
            words = self._accounts.get(timeout=seconds).text
        except queue.Empty:
            words = f"  it (process {self._process.pid}) does not answer: it is starting, or stands still"
        return f"In the helper process:\n{words}"

    def _sort(self, message: Reply | Account) -> None:
        if isinstance(message, Account):
            self._accounts.put(message)
        else:
            self._replies.append(message)

    def _send(self, data: bytes) -> None:
        # A failure: it has ended. `receive` says so, or has its last words.
        with suppress(OSError), self._sending:
            self._connection.send_bytes(data)

    def _ended(self) -> LoaderError:
        try:
            code = self._process.wait(_END_SECONDS)
            how = f"by signal {signal.Signals(-code).name}" if code < 0 else f"with status {code}"
        except (subprocess.TimeoutExpired, ValueError):
            how = "without a reason"
        return LoaderError(
            f"the helper process {self._process.pid} of the loader ended {how}; what it wrote stands in "
            f"stderr; if the system ended it for want of memory, use a smaller batch_size or prefetch"
        )


class ProcessProducer:
    """Takes batches that a helper process made out of its ring.

    Args:
        helper: Serves this producer alone, until all that is under way is taken.
        variants: The engines of each of the run's recipes. They have the memory of the batches; on a GPU they augment
            what the helper rendered. Their recorder gets what the helper did.
    """

    def __init__(self, helper: Helper, variants: Sequence[Engines]) -> None:
        self.capacity, self.reusable = helper.capacity, helper
        self._helper, self._variants, self._recorder = helper, variants, variants[0].recorder
        self._under_way: deque[int] = deque()
        self._receiver = Receiver(self._receive, helper.ready, variants[0].device)

    def submit(self, plan: Plan) -> None:
        """Start on a batch; returns at once."""
        self._helper.watch(watched=bool(self._recorder.observers))
        self._helper.submit(plan)
        self._under_way.append(plan.step)

    def ready(self) -> int:
        """How many steps the helper has finished."""
        return self._receiver.ready()

    def account(self, seconds: float) -> str:
        """What the helper says of its threads; see Helper.account."""
        return self._helper.account(seconds)

    def take(self) -> tuple[Finished, Images]:
        """Wait for the oldest step."""
        return self._receiver.take()

    def close(self) -> None:
        """Let go of what was received; closing the helper cancels pending work."""
        self._receiver.close()

    def _receive(self) -> tuple[Finished, Ahead]:
        reply = self._helper.receive()
        self._recorder.absorb(reply.counts, reply.thread_seconds)
        self._recorder.tell(shifted(reply.spans, reply.left_out - clock.left_out))
        if reply.error is not None:
            raise reply.error
        ring, step = self._helper.ring, self._under_way.popleft()
        finished: Finished = pickle.loads(ring.read_note(step, reply.num_bytes))
        variant = finished.plan.variant
        count = len(finished) * self._variants[variant].views[0].images_per_row
        shared = ring.images(step, count, variant)
        return take_over(self._variants[variant], finished, shared, self._receiver.side)


def _start(socket: int, memory: int) -> subprocess.Popen[bytes]:
    """Start the process; it sees no GPU and hears no Ctrl-C."""
    path = [entry for entry in sys.path if isinstance(entry, str)]
    told = json.dumps([path, socket, memory, os.getpid()])
    return subprocess.Popen(
        [sys.executable, "-P", "-c", _START, told],
        stdin=subprocess.DEVNULL,
        pass_fds=(socket, memory),
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
    )


def _end(process: subprocess.Popen[bytes], connection: Connection, ring: Ring) -> None:
    connection.close()
    try:
        process.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:  # it is importing, or another process has the connection, too
        process.kill()
        process.wait()
    ring.close()
