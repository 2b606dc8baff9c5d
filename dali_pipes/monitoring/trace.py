"""Write a trace of a loader: the work of every thread over time, as a file for Perfetto and chrome://tracing.

The file has Chrome's Trace Event Format, as JSON: complete events ("X"), counters ("C") and metadata ("M"), with times
in microseconds.
"""

import gzip
import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from dali_pipes.errors import LoaderError
from dali_pipes.monitoring.observer import BatchEvent, Observer, Span
from dali_pipes.monitoring.recorder import Recorder

if TYPE_CHECKING:
    from dali_pipes.loader import Loader

WAIT = "wait for a batch"
TRAINING_STEP = "training step"
QUEUE = "finished"
"""Name of the counter of finished batches in the file."""

_MAX_EVENTS = 1_000_000
"""Largest count of events. They take 400 MB until they are written; an epoch of a million images has a quarter of
them."""

_TRAINING_LOOP = "training loop"

Where = tuple[int, int]
"""Process id and native thread id."""


class _Event(NamedTuple):
    """One event of the trace; a tuple, because up to a million events are kept in memory."""

    name: str
    where: Where
    began: float
    ended: float | None  # None for a counter
    args: tuple[int | None, int, int]  # step, rows and bytes; for a counter, its value


class Trace(Observer):
    """Collects the events of a loader, as an observer of its recorder.

    Args:
        max_events: Largest number of events that are kept in memory until they are written; later events are only counted.

    Attributes:
        left_out: Count of events that were not kept.
    """

    def __init__(self, max_events: int = _MAX_EVENTS) -> None:
        self.left_out = 0
        self._max_events = max_events
        self._events: list[_Event] = []
        self._threads: dict[Where, str] = {}
        # Reentrant: the garbage collector may end a loop in a thread that holds it.
        self._lock = threading.RLock()
        self._latest: tuple[Where, BatchEvent] | None = None

    def on_span(self, span: Span) -> None:
        """Add a stage call."""
        where = span.process, span.thread_id
        args = span.step, span.samples, span.num_bytes
        with self._lock:
            self._threads.setdefault(where, span.thread)
            self._add(_Event(span.stage, where, span.began, span.ended, args))

    def on_batch(self, batch: BatchEvent) -> None:
        """Add the wait for a batch, and the training step before it."""
        self.on_loop_end(batch.asked)
        where = os.getpid(), threading.get_native_id()
        with self._lock:
            self._threads[where] = _TRAINING_LOOP
            self._add(_Event(WAIT, where, batch.asked, batch.got, (batch.step, 0, 0)))
            self._add(_Event(QUEUE, where, batch.asked, None, (batch.ready, 0, 0)))
            self._latest = where, batch

    def on_loop_end(self, now: float) -> None:
        """End the training step: the loop requests a batch again, or is over."""
        with self._lock:
            latest, self._latest = self._latest, None
            if latest is not None:
                where, batch = latest
                args = batch.step, batch.samples, 0
                self._add(_Event(TRAINING_STEP, where, batch.got, now, args))

    def write(self, path: Path, remarks: dict[str, Any]) -> None:
        """Write all events to a file, compressed if its name ends in .gz.

        Raises:
            LoaderError: The file cannot be written.
        """
        with self._lock:
            events = chain([*self._metadata()], map(_to_json, tuple(self._events)))
        remarks = {**remarks, "events that were left out": self.left_out}
        rest = json.dumps({"displayTimeUnit": "ms", "otherData": remarks})
        opened: Any = gzip.open if path.suffix == ".gz" else Path.open
        try:
            with opened(path, "wt", encoding="utf-8") as file:
                file.write('{"traceEvents":[\n')
                file.writelines(f"{',' * (number > 0)}{one}\n" for number, one in enumerate(events))
                file.write(f"],{rest[1:]}\n")
        except OSError as error:
            raise LoaderError(f"the trace cannot be written to {path}: {error}") from error

    def _add(self, event: _Event) -> None:
        if len(self._events) < self._max_events:
            self._events.append(event)
        else:
            self.left_out += 1

    def _metadata(self) -> Iterator[str]:
        """Yield the names of processes and threads, and their display order."""
        for process in sorted({process for process, _ in self._threads}):
            name = "training process" if process == os.getpid() else "helper process"
            yield _metadata_event("process_name", (process, 0), name=name)
        for where, name in self._threads.items():
            yield _metadata_event("thread_name", where, name=name)
            yield _metadata_event(
                "thread_sort_index", where, sort_index=int(name != _TRAINING_LOOP)
            )


@contextmanager
def traced(loader: "Loader", path: str | os.PathLike[str]) -> Iterator[Trace]:
    """Write a trace of the loader's threads in a block to a file, for Perfetto and chrome://tracing.

    The file has each stage call with its step, also those in helper processes; the waits of the training loop and its
    own steps; and the number of finished batches at each request. Compiling our own functions, which happens once,
    takes no time in it. At most a million events are kept.

    Args:
        loader: The loader of the loop in the block.
        path: The file, which is written at the end of the block; it is compressed if its name ends in .gz.

    Raises:
        LoaderError: `loader` is not a Loader, or the file cannot be written; both are checked at the start of the block.

    Example:
        >>> loader = Loader(open_dataset("photos/"), Recipe.imagenet_train(size=64), batch_size=8)
        >>> with traced(loader, "trace.json"):
        ...     for batch in loader:
        ...         pass
    """
    if not isinstance(getattr(loader, "_recorder", None), Recorder):
        raise LoaderError(
            f'traced(...) takes a Loader and a path, got {type(loader).__name__}: traced(loader, "trace.json")'
        )
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


def _to_json(event: _Event) -> str:
    process, thread = event.where
    shown = {"name": event.name, "pid": process, "ts": round(1e6 * event.began, 3)}
    if event.ended is None:
        return json.dumps({"ph": "C", **shown, "args": {"batches": event.args[0]}})
    step, rows, num_bytes = event.args
    args = {"step": step, "rows": rows or None, "bytes": num_bytes or None}
    more = {
        "cat": "loop" if event.name in (WAIT, TRAINING_STEP) else "stage",
        "tid": thread,
        "dur": round(1e6 * (event.ended - event.began), 3),
        "args": {name: value for name, value in args.items() if value is not None},
    }
    return json.dumps({"ph": "X", **shown, **more})


def _metadata_event(kind: str, where: Where, **args: Any) -> str:
    return json.dumps({"ph": "M", "name": kind, "pid": where[0], "tid": where[1], "args": args})
