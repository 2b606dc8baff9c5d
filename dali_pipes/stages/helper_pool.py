"""Helper processes, which make batches independently of the training process's GIL."""

import json
import logging
import os
import queue
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from itertools import takewhile
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import cast

from dali_pipes.errors import LoaderError
from dali_pipes.stages.endings import end
from dali_pipes.stages.job import HELPER, Job, Report, pickled
from dali_pipes.stages.remote_production import dumps
from dali_pipes.stages.shared_batch import SentStep
from dali_pipes.stages.shared_memory import Ring, share_parts
from dali_pipes.steps.schedule import Plan

_log = logging.getLogger(f"gpu_aug.{__name__}")

# The helper ignores Ctrl-C, because it ends with the training process; otherwise Ctrl-C would print a second traceback.
_START = """
import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)
import json, sys
path, *numbers = json.loads(sys.argv[1])
sys.path[:] = path
from dali_pipes.stages.helper_main import main
main(*numbers)
"""
# Time for a helper to end by itself; it takes milliseconds once its imports are done.
_END_SECONDS = 1.0


class Helper:
    """A running helper process and the connection to it.

    Args:
        memory: File descriptor of the ring.
        job: File descriptor of the shared job.

    Attributes:
        process: The process.
        connection: Sends plans; receives steps, descriptions of threads, and an error of the start.
        steps: Steps that have arrived but that the pool has not received yet: by step, the length of the metadata and
            the report.
        is_over: Whether the process has ended, as far as `read` has noticed.
    """

    def __init__(self, memory: int, job: int) -> None:
        self.connection, theirs = Pipe()
        with theirs:
            self.process = _start(theirs.fileno(), memory, job)
        self.steps: dict[int, tuple[int, Report]] = {}
        self.is_over = False
        self._error: BaseException | None = None
        self._descriptions: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._sending = threading.Lock()
        _log.info("helper process %d started", self.process.pid)

    def send(self, message: tuple[Plan, bool] | None) -> None:
        """Send a plan and whether its stage calls are recorded; None asks for a description of the threads."""
        # An error means that the process has ended. `read` reports that after the last messages.
        with suppress(OSError), self._sending:
            self.connection.send_bytes(dumps(message))

    def read(self) -> None:
        """Wait for one message of the process, and store its content in the attributes."""
        try:
            message = self.connection.recv()
        except (EOFError, OSError):
            self.is_over = True
            return
        if isinstance(message, str):
            self._descriptions.put(message)
        elif isinstance(message, BaseException):
            self._error = message
        else:
            step, num_bytes, report = message
            self.steps[step] = (num_bytes, report)

    def ask(self) -> None:
        """Ask for a description of the threads."""
        while not self._descriptions.empty():  # drops answers to earlier questions
            self._descriptions.get_nowait()
        self.send(None)

    def answer(self, seconds: float) -> str:
        """Return the answer to `ask`, which another thread reads; a sentence that says so if none came in time."""
        try:
            return self._descriptions.get(timeout=seconds)
        except queue.Empty:
            return f"  it (process {self.process.pid}) does not answer: it is starting, or its threads are blocked"

    def failure(self) -> BaseException:
        """Return why the process has ended: the error of its start, its signal or its exit status."""
        if self._error is not None:
            return self._error
        try:
            code = self.process.wait(_END_SECONDS)
            how = f"by signal {signal.Signals(-code).name}" if code < 0 else f"with status {code}"
        except (subprocess.TimeoutExpired, ValueError):
            how = "for an unknown reason"
        return LoaderError(
            f"the helper process {self.process.pid} of the loader ended {how}; its messages are in stderr; "
            "if the system ended it for lack of memory, use a smaller batch_size or prefetch"
        )


class HelperPool:
    """Helper processes that share one ring: process k % count makes step k; see BatchMakers.

    A pool serves one loop at a time.

    Args:
        job: What the processes need to make the batches.

    Attributes:
        helpers: The running processes.

    Raises:
        LoaderError: The job cannot be pickled, or there is not enough memory for its batches.
    """

    def __init__(self, job: Job) -> None:
        parts = pickled(job, "the job", HELPER)
        self.capacity, self.left_out = job.num_slots - 1, 0.0
        self.helpers: list[Helper] = []
        self._ring = Ring(job.frames, job.num_slots)
        self._end = weakref.finalize(self, end, partial(_end, self.helpers, self._ring))
        try:
            shared = share_parts(parts)
            try:
                for _ in range(job.setup.helpers.count):
                    self.helpers.append(Helper(self._ring.descriptor, shared))
            finally:
                os.close(shared)  # the processes have their own descriptors
        except (
            BaseException
        ):  # also on Ctrl-C: its traceback may keep this object and the processes alive
            self.close()
            raise

    def start(self, plan: Plan, *, is_watched: bool) -> int:
        """Send a plan to its process, and return the step's index, which is the handle for `receive`."""
        self._helper_of(plan.step).send((plan, is_watched))
        return plan.step

    def num_ready(self, handles: Iterable[int]) -> int:
        """Return how many of these steps, from the first one on, have arrived."""
        for helper in self.helpers:
            while not helper.is_over and helper.connection.poll():
                helper.read()
        return sum(1 for _ in takewhile(self._has_arrived, handles))

    def receive(self, handle: int) -> SentStep:
        """Wait for the oldest step that was not received yet, and return it.

        Raises:
            LoaderError: The step's process has ended.
        """
        helper = self._helper_of(handle)
        while not self._has_arrived(handle):
            if helper.is_over:
                raise helper.failure()
            # Reads from all processes: another thread may wait for the description that one of them sends.
            alive = {one.connection: one for one in self.helpers if not one.is_over}
            for connection in wait(list(alive)):
                alive[cast(Connection, connection)].read()
        num_bytes, report = helper.steps.pop(handle)
        ring = self._ring
        return SentStep(
            report,
            ring.read_metadata(handle, num_bytes),
            lambda finished: ring.images(handle, len(finished), finished.plan.variant),
        )

    def drop(self, handles: Iterable[int]) -> None:
        """Do nothing: a pool with steps in progress is closed, because it serves one loop at a time."""

    def describe_remote_threads(self, seconds: float) -> str:
        """Describe what the threads of the processes do; another thread reads the answers in `receive`."""
        until = time.monotonic() + seconds
        for helper in self.helpers:
            helper.ask()
        answers = [helper.answer(max(0.0, until - time.monotonic())) for helper in self.helpers]
        if len(answers) == 1:
            return f"In the helper process:\n{answers[0]}"
        return "\n".join(
            f"In helper process {number} of {len(answers)}:\n{answer}"
            for number, answer in enumerate(answers, start=1)
        )

    def close(self) -> None:
        """End the processes and free their memory."""
        self._end()

    def _helper_of(self, step: int) -> Helper:
        return self.helpers[step % len(self.helpers)]

    def _has_arrived(self, step: int) -> bool:
        return step in self._helper_of(step).steps


def _start(socket: int, memory: int, job: int) -> subprocess.Popen[bytes]:
    """Start a helper process; no GPU is visible to it."""
    path = [entry for entry in sys.path if isinstance(entry, str)]
    arguments = json.dumps([path, socket, memory, job, os.getpid()])
    return subprocess.Popen(
        [sys.executable, "-P", "-c", _START, arguments],
        stdin=subprocess.DEVNULL,
        pass_fds=(socket, memory, job),
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
    )


def _end(helpers: Sequence[Helper], ring: Ring) -> None:
    for helper in helpers:
        helper.connection.close()
    until = time.monotonic() + _END_SECONDS
    for helper in helpers:
        try:
            helper.process.wait(max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            # It still imports modules, or a process that was forked from this one holds the connection open.
            helper.process.kill()
            helper.process.wait()
    ring.close()
