"""Producing batches in helper processes, independent of the training process's interpreter lock."""

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
from functools import partial
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import cast

from dali_pipes.errors import LoaderError
from dali_pipes.monitoring.observer import shifted
from dali_pipes.stages.augment import Engines
from dali_pipes.stages.cuda_streams import Ahead
from dali_pipes.stages.data import Finished, Images
from dali_pipes.stages.endings import end
from dali_pipes.stages.job import HELPER, Account, Job, Reply, pickled
from dali_pipes.stages.shared_batch import Receiver, take_over
from dali_pipes.stages.shared_memory import Ring, share_parts
from dali_pipes.steps.schedule import Plan
from gpu_aug.compiled.clock import clock

_log = logging.getLogger(f"gpu_aug.{__name__}")

# Ctrl-C is for the training process, whose end ends the helper.
_START = """
import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)
import json, sys
path, *numbers = json.loads(sys.argv[1])
sys.path[:] = path
from dali_pipes.stages.helper_process import main
main(*numbers)
"""
# What the helper has to end by itself; it takes milliseconds once it is imported.
_END_SECONDS = 1.0


class Helper:
    """A running helper process and the connection to it.

    Args:
        memory: File descriptor of the ring.
        told: File descriptor of the shared job.

    Attributes:
        process: The process.
        connection: Plans go out, replies come in.
        replies: Those that came in and were not taken.
        is_over: Whether it has ended, which `read` finds out.
    """

    def __init__(self, memory: int, told: int) -> None:
        self.connection, theirs = Pipe()
        with theirs:
            self.process = _start(theirs.fileno(), memory, told)
        self.replies: deque[Reply] = deque()
        self.is_over = False
        self._accounts: queue.SimpleQueue[Account] = queue.SimpleQueue()
        self._sending = threading.Lock()
        _log.info("helper process %d started", self.process.pid)

    def send(self, message: Plan | Account | bool) -> None:
        """Send a plan, a question, or whether somebody wants to know of each call of a stage."""
        # A failure: it has ended. `read` finds that out, after its last words.
        with suppress(OSError), self._sending:
            self.connection.send_bytes(pickle.dumps(message, pickle.HIGHEST_PROTOCOL))

    def read(self) -> None:
        """Wait for one message."""
        try:
            message = self.connection.recv()
        except (EOFError, OSError):
            self.is_over = True
            return
        (self._accounts.put if isinstance(message, Account) else self.replies.append)(message)

    def ask(self) -> None:
        """Ask what its threads do."""
        while not self._accounts.empty():  # an answer that came too late
            self._accounts.get_nowait()
        self.send(Account())

    def answer(self, seconds: float) -> str:
        """Return the answer to `ask`, which another thread reads; where none came in so many seconds, that."""
        try:
            return self._accounts.get(timeout=seconds).text
        except queue.Empty:
            return f"  it (process {self.process.pid}) does not answer: it is starting, or stands still"

    def ended(self) -> LoaderError:
        """Return an error that says how it ended."""
        try:
            code = self.process.wait(_END_SECONDS)
            how = f"by signal {signal.Signals(-code).name}" if code < 0 else f"with status {code}"
        except (subprocess.TimeoutExpired, ValueError):
            how = "without a reason"
        return LoaderError(
            f"the helper process {self.process.pid} of the loader ended {how}; what it wrote stands in "
            f"stderr; if the system ended it for want of memory, use a smaller batch_size or prefetch"
        )


class HelperPool:
    """Helper processes that share one ring: step k is made by process k modulo their number.

    Args:
        job: What they do.

    Attributes:
        helpers: The processes.
        ring: Where their images go.
        capacity: Number of steps that may be in flight besides the current one.

    Raises:
        LoaderError: The job cannot be pickled, or there is no memory for its batches.
    """

    def __init__(self, job: Job) -> None:
        parts = pickled(job, "the job", HELPER)
        self.capacity = job.num_slots - 1
        self.helpers: list[Helper] = []
        self.ring = Ring(job.frames, job.num_slots)
        self._end = weakref.finalize(self, end, partial(_end, self.helpers, self.ring))
        self._watched, self._left_out = False, 0.0
        try:
            told = share_parts(parts)
            try:
                for _ in range(job.setup.helpers.count):
                    self.helpers.append(Helper(self.ring.descriptor, told))
            finally:
                os.close(told)  # those that have started hold it
        except BaseException:  # also Ctrl-C: the traceback may keep the ones that have started
            self.close()
            raise

    def ready(self, steps: Sequence[int]) -> int:
        """How many of these consecutive steps, from the first on, are finished."""
        for helper in self.helpers:
            while not helper.is_over and helper.connection.poll():
                helper.read()
        left = [len(helper.replies) for helper in self.helpers]
        for number, step in enumerate(steps):
            helper_number = step % len(left)
            if not left[helper_number]:
                return number
            left[helper_number] -= 1
        return len(steps)

    def watch(self, *, watched: bool) -> None:
        """Say whether somebody wants to know of each call of a stage."""
        if watched != self._watched:
            self._watched = watched
            for helper in self.helpers:
                helper.send(watched)

    def submit(self, plan: Plan) -> None:
        """Start on a step."""
        self._of(plan.step).send(plan)

    def receive(self, step: int) -> Reply:
        """Wait for a step, the oldest one that was not received.

        Raises:
            LoaderError: Its process has ended.
        """
        helper, began = self._of(step), time.perf_counter()
        while not helper.replies:
            if helper.is_over:
                raise helper.ended()
            # All of them: another thread may wait for what each says of its threads.
            alive = {one.connection: one for one in self.helpers if not one.is_over}
            for connection in wait(list(alive)):
                alive[cast(Connection, connection)].read()
        reply = helper.replies.popleft()
        # They compile the same functions at the same time: only what no other one has left out before counts.
        if (compiled := reply.left_out - self._left_out) > 0:
            clock.leave_out(min(compiled, time.perf_counter() - began))
            self._left_out = reply.left_out
        return reply

    def close(self) -> None:
        """End the processes and give back their memory."""
        self._end()

    def account(self, seconds: float) -> str:
        """Ask all processes what their threads do, while another thread is in `receive`, which reads the answers.

        Returns:
            The answers; where one did not come in so many seconds, that.
        """
        until = time.monotonic() + seconds
        for helper in self.helpers:
            helper.ask()
        words = [helper.answer(max(0.0, until - time.monotonic())) for helper in self.helpers]
        if len(words) == 1:
            return f"In the helper process:\n{words[0]}"
        return "\n".join(
            f"In helper process {number} of {len(words)}:\n{text}"
            for number, text in enumerate(words, start=1)
        )

    def _of(self, step: int) -> Helper:
        return self.helpers[step % len(self.helpers)]


class ProcessBatchSource:
    """Takes batches that helper processes made out of their ring.

    Args:
        pool: Serves this source alone, until all that is under way is taken.
        variants: The engines of each of the run's recipes. They have the memory of the batches; on a GPU they augment
            what the helpers rendered. Their recorder gets what the helpers did.
    """

    def __init__(self, pool: HelperPool, variants: Sequence[Engines]) -> None:
        self.capacity, self.reusable = pool.capacity, pool
        self._pool, self._variants, self._recorder = pool, variants, variants[0].recorder
        self._under_way: deque[int] = deque()
        under_way = self._under_way
        self._receiver = Receiver(self._receive, lambda: pool.ready(under_way), variants[0].device)

    def start(self, plan: Plan) -> None:
        """Start on a batch; returns at once."""
        self._pool.watch(watched=bool(self._recorder.observers))
        self._pool.submit(plan)
        self._under_way.append(plan.step)

    def ready(self) -> int:
        """How many steps, from the oldest on, the helpers have finished."""
        return self._receiver.ready()

    def account(self, seconds: float) -> str:
        """What the helpers say of their threads; see HelperPool.account."""
        return self._pool.account(seconds)

    def take(self) -> tuple[Finished, Images]:
        """Wait for the oldest step."""
        return self._receiver.take()

    def close(self) -> None:
        """Let go of what was received; closing the pool cancels pending work."""
        self._receiver.close()

    def _receive(self) -> tuple[Finished, Ahead]:
        step = self._under_way[0]
        reply = self._pool.receive(step)
        self._recorder.absorb(reply.counts, reply.thread_seconds)
        self._recorder.tell(shifted(reply.spans, reply.left_out - clock.left_out))
        if reply.error is not None:
            raise reply.error
        self._under_way.popleft()
        ring = self._pool.ring
        finished: Finished = pickle.loads(ring.read_note(step, reply.num_bytes))
        variant = finished.plan.variant
        count = len(finished) * self._variants[variant].views[0].images_per_row
        shared = ring.images(step, count, variant)
        return take_over(self._variants[variant], finished, shared, self._receiver.side)


def _start(socket: int, memory: int, told: int) -> subprocess.Popen[bytes]:
    """Start a process; it sees no GPU and hears no Ctrl-C."""
    path = [entry for entry in sys.path if isinstance(entry, str)]
    arguments = json.dumps([path, socket, memory, told, os.getpid()])
    return subprocess.Popen(
        [sys.executable, "-P", "-c", _START, arguments],
        stdin=subprocess.DEVNULL,
        pass_fds=(socket, memory, told),
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
    )


def _end(helpers: Sequence[Helper], ring: Ring) -> None:
    for helper in helpers:
        helper.connection.close()
    until = time.monotonic() + _END_SECONDS
    for helper in helpers:
        try:
            helper.process.wait(max(0.0, until - time.monotonic()))
        except (
            subprocess.TimeoutExpired
        ):  # it is importing, or another process has the connection, too
            helper.process.kill()
            helper.process.wait()
    ring.close()
