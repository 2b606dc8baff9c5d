"""A trace of a loader: what every thread did when, as a file for Perfetto and chrome://tracing.

It is in the Trace Event Format of Chrome, as JSON: complete events ("X"), counters ("C") and metadata ("M"), with times
in microseconds.
"""

import gzip
import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dali_pipes.errors import LoaderError
from dali_pipes.stats.observer import Handed, Span

if TYPE_CHECKING:
    from dali_pipes.loader import Loader

WAIT = "wait for a batch"
TRAINING_STEP = "training step"
QUEUE = "finished batches"

_MOST_EVENTS = 2_000_000
_TRAINING_LOOP = "training loop"


class Trace:
    """Collects what happens in a loader; an observer of its recorder.

    Args:
        most_events: Later ones are counted and left out, for they are kept in memory until they are written.

    Attributes:
        left_out: How many were left out.
    """

    def __init__(self, most_events: int = _MOST_EVENTS) -> None:
        self.left_out = 0
        self._most = most_events
        self._events: list[dict[str, Any]] = []
        self._threads: dict[tuple[int, int], str] = {}
        self._lock = threading.Lock()
        self._latest: Handed | None = None

    def span(self, span: Span) -> None:
        """Take note of a call of a stage."""
        where = span.process, span.thread_id
        args = {"step": span.step, "rows": span.samples or None, "bytes": span.num_bytes or None}
        event = _complete(span.stage, "stage", where, span.began, span.ended, args)
        with self._lock:
            self._threads.setdefault(where, span.thread)
            self._add(event)

    def handed(self, handed: Handed) -> None:
        """Take note of a batch that the training loop gets, and of what it did before it asked."""
        self.left(handed.asked)
        where = os.getpid(), threading.get_native_id()
        wait = _complete(WAIT, "loop", where, handed.asked, handed.got, {"step": handed.step})
        with self._lock:
            self._threads[where] = _TRAINING_LOOP
            self._add(wait)
            self._add(_counter(where[0], handed.asked, handed.ready))
            self._latest = handed

    def left(self, now: float) -> None:
        """Take note that the training loop asks for a batch again, or ends."""
        latest, where = self._latest, (os.getpid(), threading.get_native_id())
        if latest is None:
            return
        args = {"step": latest.step, "rows": latest.samples}
        step = _complete(TRAINING_STEP, "loop", where, latest.got, now, args)
        with self._lock:
            self._add(step)
            self._latest = None

    def write(self, path: Path, remarks: dict[str, Any]) -> None:
        """Write all of it, compressed if the name ends in .gz.

        Raises:
            LoaderError: That is not possible.
        """
        with self._lock:
            events = [*self._metadata(), *self._events]
        remarks = {**remarks, "events that were left out": self.left_out}
        document = {"traceEvents": events, "displayTimeUnit": "ms", "otherData": remarks}
        text = json.dumps(document, separators=(",", ":")).encode()
        try:
            path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
        except OSError as error:
            raise LoaderError(f"the trace cannot be written to {path}: {error}") from error

    def _add(self, event: dict[str, Any]) -> None:
        if len(self._events) < self._most:
            self._events.append(event)
        else:
            self.left_out += 1

    def _metadata(self) -> Iterator[dict[str, Any]]:
        """The names of processes and threads, and their order on the screen."""
        for process in sorted({process for process, _ in self._threads}):
            name = "training process" if process == os.getpid() else "helper process"
            yield _named("process_name", (process, 0), name=name)
        for where, name in self._threads.items():
            yield _named("thread_name", where, name=name)
            yield _named("thread_sort_index", where, sort_index=int(name != _TRAINING_LOOP))


@contextmanager
def traced(loader: "Loader", path: str | os.PathLike[str]) -> Iterator[Trace]:
    """Write what the threads of a loader do within a block to a file that Perfetto and chrome://tracing show.

    It holds each call of every stage with its step, those of a helper process too, what the training loop waited and
    what it took for its own steps, and how many finished batches there were when it asked for one. Compiling our own
    functions, which is done once, takes no time in it. Two million events are kept at most.

    Args:
        loader: What is looped over within the block.
        path: The file; one whose name ends in .gz is compressed. It is written at the end of the block.

    Raises:
        LoaderError: It cannot be written, which is tried at once.

    Example:
        >>> loader = Loader(open_dataset("photos/"), Recipe.imagenet_train(size=64), batch_size=8)
        >>> with traced(loader, "trace.json"):
        ...     for batch in loader:
        ...         pass
    """
    file = Path(path)
    try:
        file.open("wb").close()
    except OSError as error:
        raise LoaderError(f"the trace cannot be written to {file}: {error}") from error
    trace, recorder = Trace(), loader._recorder
    recorder.observe(trace)
    try:
        yield trace
    finally:
        recorder.ignore(trace)
        trace.write(file, {"loader": repr(loader)})


def _complete(
    name: str,
    category: str,
    where: tuple[int, int],
    began: float,
    ended: float,
    args: dict[str, Any],
) -> dict[str, Any]:
    return {
        "ph": "X",
        "name": name,
        "cat": category,
        "pid": where[0],
        "tid": where[1],
        "ts": round(1e6 * began, 3),
        "dur": round(1e6 * (ended - began), 3),
        "args": {key: value for key, value in args.items() if value is not None},
    }


def _counter(process: int, now: float, batches: int) -> dict[str, Any]:
    return {
        "ph": "C",
        "name": QUEUE,
        "pid": process,
        "ts": round(1e6 * now, 3),
        "args": {"batches": batches},
    }


def _named(kind: str, where: tuple[int, int], **args: Any) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": where[0], "tid": where[1], "args": args}
