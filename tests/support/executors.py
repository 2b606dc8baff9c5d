"""Executors and tasks that do their work as badly as they are allowed to."""

import os
import pickle
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from readers.prepare.job import Job

Result = TypeVar("Result")


class Backwards:
    """Carries out the last task first, every third one twice, and unpickles the job anew for each, as if elsewhere.

    Attributes:
        done: The numbers that were carried out, in that order.
    """

    def __init__(self) -> None:
        self.done: list[int] = []

    def run(self, job: Job[Result]) -> Iterator[tuple[int, Result]]:
        """See `readers.prepare.job.Executor.run`."""
        sent = pickle.dumps(job.do)
        for number in reversed(job.numbers):
            for _ in range(2 if number % 3 == 0 else 1):
                result = pickle.loads(sent)(number)
                self.done.append(number)
            yield number, pickle.loads(pickle.dumps(result))


def die(_: object) -> None:
    """A task that ends its worker, as the kernel does for want of memory."""
    os.kill(os.getpid(), signal.SIGKILL)


def linger(folder: str) -> None:
    """A task without end, in a worker that says who it is."""
    (Path(folder) / str(os.getpid())).touch()
    time.sleep(600)


@dataclass(frozen=True)
class WaitForFile:
    """A task whose number 0 waits until a file exists, at most half a minute; other numbers do nothing.

    Attributes:
        path: The file.
    """

    path: Path

    def __call__(self, number: int) -> None:
        """Carry out the task."""
        end = time.monotonic() + 30
        while number == 0 and not self.path.exists() and time.monotonic() < end:
            time.sleep(0.01)
